//! What streams moved: bits a second each way, what was sent again, the windows, and the CPUs of both ends.

use linerate_evidence::sources::{stream, tcp_info};
use linerate_evidence::{Missing, Of, Side, Subject};
use linerate_model::{Bytes, Flow, Workload};
use linerate_roofline::Facts;
use serde::{Deserialize, Serialize};

use crate::number::{bits, count, finite, seconds};

/// See the module. A figure that is absent was not measured.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Streamed {
    /// Bytes a second that the kernel took of the engine; absent: nothing went up.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub up_bytes_per_s: Option<f64>,
    /// Bytes a second that the engine read; absent: nothing came down.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub down_bytes_per_s: Option<f64>,
    /// Segments that the senders sent again, in the window.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub resent: Option<f64>,
    /// Mean congestion window of a sender. Unit: bytes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cwnd_bytes: Option<f64>,
    /// Mean smoothed round-trip time of the senders. Unit: microseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rtt_us: Option<f64>,
    /// Congestion control of the senders, each once.
    pub congestion: Vec<String>,
    /// CPUs' worth of time of the engine's threads.
    pub engine_cpus: f64,
    /// CPUs' worth of time of the far end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far_cpus: Option<f64>,
    /// Whole main phase: bytes that the kernel took of the engine.
    pub written_bytes: u64,
    /// Whole main phase: bytes that the engine read.
    pub read_bytes: u64,
    /// Whole main phase: bytes that the far end read, by its own count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far_read_bytes: Option<u64>,
    /// Whole main phase: bytes that the far end wrote, by its own count.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub far_written_bytes: Option<u64>,
    /// Writes that were to be zero copy, and that the far end copied; absent: none were to be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub copied: Option<u64>,
}

impl Streamed {
    /// None: the workload is none of streams.
    pub(crate) fn of(facts: &Facts, per_s: (f64, f64)) -> Option<Self> {
        let run = &facts.run;
        let Workload::Stream { direction, zerocopy, .. } = &run.header.plan.workload else {
            return None;
        };
        let goes = |way: Flow| *direction == way || *direction == Flow::Both;
        let window = run.load.window.0..=run.load.window.1;
        let senders: Vec<Subject> = (0..Subject::OTHER_FLOWS)
            .map(|number| match direction.of(number) {
                Flow::Down => Subject::Flow(number, Side::Server),
                _ => Subject::Flow(number, Side::Client),
            })
            .filter(|of| run.evidence.of(*of).last(tcp_info::SND_CWND).is_ok())
            .collect();
        let all = |figure: &dyn Fn(&Of) -> Result<f64, Missing>| -> Vec<f64> {
            let of =
                |sender: &Subject| figure(&run.evidence.of(*sender).within(window.clone())).ok();
            senders.iter().filter_map(of).collect()
        };
        let mean = |of: Vec<f64>| {
            (!of.is_empty()).then(|| finite(of.iter().sum::<f64>() / of.len() as f64))
        };
        let resent = all(&|of| of.grown(tcp_info::TOTAL_RETRANS));
        let cwnd = all(&|of| Ok(of.mean(tcp_info::SND_CWND)? * of.mean(tcp_info::SND_MSS)?));
        let rtt = all(&|of| of.mean(tcp_info::RTT));
        let mut congestion: Vec<String> = senders
            .iter()
            .filter_map(|of| run.fact(*of, "congestion").map(str::to_owned))
            .collect();
        congestion.sort();
        congestion.dedup();
        let target = run.evidence.of(Subject::Target);
        let grown = |metric| target.delta::<Bytes>(metric).ok().map(|(bytes, _)| bytes.0);
        let slices = &run.evidence.slices;
        let far_cpus = || {
            let (cpu, _) = target.delta(stream::CPU).ok()?;
            let all = slices.iter().map(|of| of.to).max()?.since(run.load.window.0);
            Some(cpu.as_secs_f64() / all.as_secs_f64().max(1e-9))
        };
        let local = facts.target.as_ref().filter(|_| run.header.target.local);
        let measured = run.load.window.1.since(run.load.window.0).as_secs_f64().max(1e-9);
        Some(Self {
            up_bytes_per_s: goes(Flow::Up).then_some(per_s.0),
            down_bytes_per_s: goes(Flow::Down).then_some(per_s.1),
            resent: (!resent.is_empty()).then(|| resent.iter().sum()),
            cwnd_bytes: mean(cwnd),
            // Samples are in nanoseconds' quantity, which is seconds here.
            rtt_us: mean(rtt).map(|s| s * 1e6),
            congestion,
            engine_cpus: finite(run.load.engine_cpu.as_secs_f64() / measured),
            far_cpus: local.map(|of| of.running).or_else(far_cpus).map(finite),
            written_bytes: slices.iter().map(|of| of.bytes_written).sum(),
            read_bytes: slices.iter().map(|of| of.bytes_read).sum(),
            far_read_bytes: grown(stream::READ),
            far_written_bytes: grown(stream::WRITTEN),
            copied: zerocopy.then(|| target.grown(stream::COPIED).map_or(0, |count| count as u64)),
        })
    }

    /// `24.5 Gbit/s to the far end; resent 3 segments, congestion window 895 KiB (cubic), round trip 64.0 us; CPU 0.99
    /// of one here, 0.34 there; 8.54 GiB written, all of it read there`.
    pub(crate) fn says(&self) -> String {
        let directions = [(self.up_bytes_per_s, "to"), (self.down_bytes_per_s, "from")];
        let directions = directions
            .iter()
            .filter_map(|(rate, way)| rate.map(|rate| format!("{} {way} the far end", bits(rate))));
        let mut said = directions.collect::<Vec<_>>().join(", ");
        if let Some(resent) = self.resent {
            said += &format!("; resent {} segments", count(resent as u64));
        }
        if let Some(window) = self.cwnd_bytes {
            said += &format!(", congestion window {}", Bytes(window as u64));
        }
        if !self.congestion.is_empty() {
            said += &format!(" ({})", self.congestion.join(", "));
        }
        if let Some(us) = self.rtt_us {
            said += &format!(", round trip {}", seconds(us / 1e6));
        }
        said += &format!("; CPU {:.2} here", self.engine_cpus);
        if let Some(cpus) = self.far_cpus {
            said += &format!(", {cpus:.2} there");
        }
        if let (Some(arrived), true) = (self.far_read_bytes, self.up_bytes_per_s.is_some()) {
            let written = Bytes(self.written_bytes);
            said += &match self.written_bytes.checked_sub(arrived) {
                Some(0) => format!("; {written} written, all of it read there"),
                _ => format!("; {written} written, {} of it read there", Bytes(arrived)),
            };
        }
        match self.copied {
            None => said,
            Some(0) => said + "; zero copy",
            Some(_) => said + "; zero copy was asked for, and the far end copied",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_it_says_has_both_ends() {
        let streamed = Streamed {
            up_bytes_per_s: Some(3.0625e9), // 24.5 Gbit/s
            resent: Some(3.0),
            cwnd_bytes: Some(916_480.0), // 895 KiB
            rtt_us: Some(64.0),
            congestion: vec!["cubic".into()],
            engine_cpus: 0.99,
            far_cpus: Some(0.34),
            written_bytes: 1 << 30,
            far_read_bytes: Some(1 << 30),
            ..Streamed::default()
        };
        assert_eq!(
            streamed.says(),
            "24.5 Gbit/s to the far end; resent 3 segments, congestion window 895 KiB (cubic), round trip 64.0 us; \
             CPU 0.99 here, 0.34 there; 1.00 GiB written, all of it read there"
        );
        let lost = Streamed { far_read_bytes: Some(1 << 29), ..streamed };
        assert!(
            lost.says().ends_with("1.00 GiB written, 512 MiB of it read there"),
            "{}",
            lost.says()
        );
    }
}
