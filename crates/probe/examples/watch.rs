//! Watches a port: `watch PORT SECONDS capture|bursts|both|nothing`, and prints what was found as rows of evidence.
//! `bench/capture` measures what that costs the service.

use std::time::Duration;

use linerate_evidence::{Evidence, Subject};
use linerate_model::Timestamp;
use linerate_probe::{BurstSampler, CaptureSampler};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [port, seconds, what] = words.as_slice() else {
        return Err("watch PORT SECONDS capture|bursts|both|nothing".into());
    };
    let (port, seconds): (u16, f64) = (port.parse()?, seconds.parse()?);
    let wants = |name: &str| what == name || what == "both";
    let capture = wants("capture").then(|| CaptureSampler::start(None, &[port])).transpose()?;
    let bursts = wants("bursts").then(|| BurstSampler::start(None, &[port])).transpose()?;
    std::thread::sleep(Duration::from_secs_f64(seconds));
    let mut evidence = Evidence::default();
    if let Some(capture) = capture {
        evidence.absorb(capture.finish(Timestamp(1)));
    }
    if let Some(bursts) = bursts {
        evidence.absorb(bursts.finish(Timestamp(1)));
    }
    for (_, of, values) in evidence.rows() {
        assert_eq!(of, Subject::Listener(port));
        for (metric, value) in values {
            println!("{metric} {value}");
        }
    }
    Ok(())
}
