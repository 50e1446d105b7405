//! Bulk streams: what one end wrote the other end read, to the byte; partial reports; what is refused.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use rustix::process::Signal;
use serde_json::Value;

mod ours;

use ours::{Linerate, closed_port, http, serve, soon};

const LONG: Duration = Duration::from_secs(30);

fn run(more: &[&str]) -> Value {
    let words = [&["run", "--json", "-q", "--no-check"], more].concat();
    let mut linerate = Linerate::start(&words);
    let code = linerate.end(LONG);
    assert!(matches!(code, 0 | 4), "{code}: {}", linerate.err());
    linerate.assert_nothing_left();
    let run = linerate.json();
    assert_eq!(run["load"]["errors"], serde_json::json!({}), "{run:#}");
    // A stream is one connection from its beginning to its end.
    assert_eq!(run["load"]["connections_opened"], run["plan"]["load"]["connections"]);
    run
}

fn moved(run: &Value, figure: &str) -> u64 {
    run["load"]["streamed"][figure].as_u64().unwrap_or_else(|| panic!("{figure}: {run:#}"))
}

#[test]
fn what_goes_up_is_read_to_the_byte_at_the_far_end() {
    for more in [&["-c", "3"] as &[&str], &["--zerocopy"], &["--block", "999"]] {
        let run = run(&[&["--stream", "up", "--bytes", "48MiB"], more].concat());
        let written = moved(&run, "written_bytes");
        // Blocks are whole, and greetings are small.
        assert!((48 << 20..50 << 20).contains(&written), "{written}");
        assert_eq!(written, moved(&run, "far_read_bytes"), "{more:?}");
        assert_eq!(run["load"]["in_flight_at_end"], 0);
        assert!(run["load"]["streamed"].get("down_bytes_per_s").is_none());
    }
}

#[test]
fn what_comes_down_was_written_at_the_far_end() {
    let zerocopy = &["--bytes", "48MiB", "--zerocopy", "-c", "2"] as &[&str];
    for more in [&["--bytes", "48MiB"] as &[&str], &["-d", "1s"], zerocopy] {
        let run = run(&[&["--stream", "down"], more].concat());
        let (read, written) = (moved(&run, "read_bytes"), moved(&run, "far_written_bytes"));
        assert!(read >= 48 << 20 && read <= written, "{read} of {written}");
        let asked = more.contains(&"--zerocopy");
        assert_eq!(run["load"]["streamed"].get("copied").is_some(), asked);
    }
}

#[test]
fn both_ways_at_once_have_a_connection_each_and_their_congestion_control() {
    let run = run(&["--stream", "both", "-d", "1s", "-C", "reno"]);
    assert_eq!(run["plan"]["load"]["connections"], 2);
    let streamed = &run["load"]["streamed"];
    assert_eq!(streamed["congestion"], serde_json::json!(["reno"]));
    for figure in ["up_bytes_per_s", "down_bytes_per_s", "cwnd_bytes", "rtt_us", "far_cpus"] {
        assert!(streamed[figure].as_f64().unwrap() > 0.0, "{figure}: {streamed:#}");
    }
    assert_eq!(moved(&run, "written_bytes"), moved(&run, "far_read_bytes"));
}

#[test]
fn a_service_that_reads_everything_takes_a_stream_and_one_that_writes_unasked_gives_one() {
    let all = Arc::new(AtomicU64::new(0));
    let read = Arc::clone(&all);
    let discard = serve(move |mut stream| {
        let mut buffer = vec![0; 65_536];
        while let Ok(bytes @ 1..) = stream.read(&mut buffer) {
            read.fetch_add(bytes as u64, Ordering::Relaxed);
        }
    });
    let of = run(&[&format!("tcp://127.0.0.1:{discard}"), "--stream", "up", "--bytes", "8MiB"]);
    let written = moved(&of, "written_bytes");
    assert_eq!(written, 8 << 20);
    // With a block of the first exchange, which proves that there is somebody.
    let arrived = || all.load(Ordering::Relaxed) == written + 131_072;
    assert!(soon(LONG, arrived), "{} of {written}", all.load(Ordering::Relaxed));

    let chargen = serve(|mut stream| while stream.write_all(&[b'.'; 4096]).is_ok() {});
    let of = run(&[&format!("tcp://127.0.0.1:{chargen}"), "--stream", "down", "--bytes", "8MiB"]);
    assert_eq!(moved(&of, "read_bytes"), 8 << 20);
    assert!(of["load"]["streamed"].get("far_written_bytes").is_none());
}

#[test]
fn a_signal_ends_a_stream_with_a_partial_report_of_both_ends() {
    let mut linerate =
        Linerate::start(&["run", "--json-stream", "--stream", "up", "-d", "60s", "--no-check"]);
    linerate.await_that("an interval is told", |it| it.out().contains("\"interval\""));
    linerate.signal(Signal::INT);
    assert_eq!(linerate.end(Duration::from_secs(5)), 130, "{}", linerate.err());
    linerate.assert_nothing_left();
    let events = linerate.events();
    let interval = events.iter().find(|event| event["event"] == "interval").unwrap();
    assert!(interval["data"]["up_bytes"].as_u64().unwrap() > 0, "{interval}");
    assert!(
        interval["data"]["resent"].is_u64() && interval["data"]["cwnd_bytes"].as_u64().is_some()
    );
    let report = &events.last().unwrap()["data"];
    assert_eq!(report["ended"], "interrupted");
    assert_eq!(moved(report, "written_bytes"), moved(report, "far_read_bytes"));
}

#[test]
fn what_no_stream_can_be_made_of_is_said_in_a_sentence() {
    let (http, closed) = (http(Duration::ZERO, usize::MAX), closed_port());
    let (http, closed) =
        (format!("stream://127.0.0.1:{http}"), format!("stream://127.0.0.1:{closed}"));
    for (words, code, says) in [
        (&["--stream", "sideways"] as &[&str], 2, "`sideways` is no direction: write up"),
        (&["--stream", "both", "-c", "1"], 2, "write 2 or more"),
        (&["--stream", "up", "--block", "0"], 2, "0 bytes are no block"),
        (
            &["--stream", "up", "--rate", "5"],
            2,
            "load.rate: a stream always runs as fast as possible",
        ),
        (&["--stream", "up", "--request", "5"], 2, "a stream has no requests or answers"),
        (&["--block", "1KiB", "tcp://127.0.0.1:1"], 2, "--block is for streams"),
        (&["stream://a/b"], 2, "neither users nor paths"),
        (&["--stream", "up", "http://127.0.0.1:1/"], 2, "--stream is of bare TCP"),
        (&["--stream", "up", "-C", "nosuch"], 2, "this kernel has no `nosuch`: write one of"),
        (&[&http], 1, "no far end of streams: start `linerate serve` there"),
        (&[&closed], 1, "nothing listens at 127.0.0.1:"),
    ] {
        let words = [&["run", "-q", "-d", "1s"], words].concat();
        let mut linerate = Linerate::start(&words);
        assert_eq!(linerate.end(LONG), code, "{words:?}: {}", linerate.err());
        let said = linerate.err();
        assert!(said.starts_with("error: ") && said.lines().count() == 1, "{words:?}: {said}");
        assert!(said.contains(says), "{words:?}: {said}");
        linerate.assert_nothing_left();
    }
}

#[test]
fn a_far_end_says_where_it_listens_what_it_served_and_what_it_cannot() {
    let mut far = Linerate::start(&["serve", "--bind", "127.0.0.1", "--port", "0"]);
    far.await_that("it listens", |it| it.out().contains("serving streams on 127.0.0.1:"));
    let out = far.out();
    let url = out.split("linerate run ").nth(1).unwrap().trim().to_owned();
    let of = run(&[&url, "--bytes", "1MiB"]);
    assert_eq!(moved(&of, "written_bytes"), moved(&of, "far_read_bytes"));
    far.await_that("it tells of it", |it| it.out().contains(" up: 1.00 MiB in "));
    let port = url.rsplit(':').next().unwrap().to_owned();
    let mut second = Linerate::start(&["serve", "--bind", "127.0.0.1", "--port", &port]);
    assert_eq!(second.end(LONG), 1);
    assert!(
        second.err().contains("stop what listens there, or write another --port"),
        "{}",
        second.err()
    );
    far.signal(Signal::TERM);
    far.end(LONG);
}
