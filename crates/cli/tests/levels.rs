//! Loads that are no single level: stages one after the other, and clients that think.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::thread::sleep;
use std::time::Duration;

mod ours;
mod schemas;

use ours::{Linerate, serve};

const LONG: Duration = Duration::from_secs(30);

/// Answers a request of 64 bytes after 2 ms.
fn echo() -> u16 {
    serve(|mut stream| {
        stream.set_nodelay(true).unwrap();
        let mut buffer = [0; 64];
        while stream.read_exact(&mut buffer).is_ok() {
            sleep(Duration::from_millis(2));
            if stream.write_all(&buffer).is_err() {
                return;
            }
        }
    })
}

fn run(flags: &[&str]) -> serde_json::Value {
    let url = format!("tcp://127.0.0.1:{}", echo());
    let load = ["run", &url, "--request", "64", "--response", "64", "--json", "-q"];
    let mut linerate = Linerate::start(&[&load[..], flags].concat());
    let code = linerate.end(LONG);
    assert_eq!(code, 0, "{}{}", linerate.out(), linerate.err());
    let run = linerate.json();
    schemas::assert_as_promised("run", &run);
    run
}

#[test]
fn each_stage_has_its_row_and_the_figures_are_the_last_ones() {
    let run =
        run(&["--no-check", "--stage", "600ms:2", "--stage", "600ms:12", "--stage", "900ms:4"]);
    let stages = run["load"]["stages"].as_array().unwrap();
    let of = |key: &str| stages.iter().map(|of| of[key].as_f64().unwrap()).collect::<Vec<_>>();
    assert_eq!(of("connections"), [2.0, 12.0, 4.0]);
    assert_eq!(of("failed"), [0.0; 3]);
    let rates = of("throughput_per_s");
    // 6 times as many connections, and a third of them; some of it is the machine's.
    assert!((3.0..9.0).contains(&(rates[1] / rates[0])), "{rates:?}");
    assert!((0.2..0.6).contains(&(rates[2] / rates[1])), "{rates:?}");
    let whole = run["load"]["throughput_per_s"].as_f64().unwrap();
    assert!((0.75..1.3).contains(&(whole / rates[2])), "{whole} {rates:?}");
    assert_eq!(run["plan"]["load"]["connections"], 4);
}

#[test]
fn clients_that_think_are_what_holds_the_rate_and_no_stall_of_the_service() {
    let run = run(&["-d", "3s", "-c", "40", "--think", "exp:100ms"]);
    assert_ne!(run["validity"]["state"], "void", "{}", run["validity"]);
    let verdict = &run["verdict"];
    assert_eq!(verdict["by"], "load.concurrency", "{verdict}");
    assert_eq!(run["plan"]["load"]["think"], "exp:100ms");
    // 40 / (100 ms + R) a second.
    let service = run["load"]["service_us"]["mean"].as_f64().unwrap() / 1e6;
    let rate = run["load"]["throughput_per_s"].as_f64().unwrap();
    assert!((0.85..1.15).contains(&(rate * (0.1 + service) / 40.0)), "{rate}, {service} s");
    // Twice the clients are expected to ask twice as much.
    let expected = run["advice"][0]["predicted_per_s"][1].as_f64().unwrap();
    assert!((1.8..2.1).contains(&(expected / rate)), "{expected} {rate}");
}
