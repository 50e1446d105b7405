//! The published table B from the published table A and the path alone: 1,000 packets, 5 ms each way, half
//! of the exchanges crossing. Nothing here is fitted to B.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use linerate_model::{Bytes, OpRate, Path, Share};
use linerate_predict::{Crossing, Curve, Ends, Row, forecast};

/// Connections, throughput, mean latency in ms.
#[allow(clippy::disallowed_methods, reason = "a test reads the repository")]
fn published(scenario: &str) -> Vec<(u32, f64, f64)> {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies/published/echo-sites.csv");
    let text = std::fs::read_to_string(path).expect("studies/ is part of the repository");
    let rows = text.lines().filter_map(|line| {
        let words: Vec<&str> = line.split(',').collect();
        (words[0] == scenario).then(|| {
            let number = |index: usize| words[index].parse::<f64>().unwrap();
            (number(3) as u32, number(4), number(5))
        })
    });
    rows.collect()
}

fn curve() -> Curve {
    let row = |(connections, x, _): (u32, f64, f64)| Row {
        connections,
        throughput: OpRate(x),
        fastest: None,
    };
    let rows: Vec<Row> = published("A").into_iter().map(row).collect();
    Curve::new(&rows, Some(0.25e-3)).unwrap()
}

fn crossing(limit: Option<u32>) -> Crossing {
    Crossing {
        path: Path { limit, ..Path::of_rtt(Duration::from_millis(10)) },
        share: Share(0.5),
        servers: 4,
        ends: Ends::Both,
        request: Bytes(1_026),
        response: Bytes(1_026),
        window: None,
    }
}

#[test]
fn every_row_of_b_is_met_within_a_tenth_in_throughput_and_a_fifth_in_latency() {
    let (curve, crossing) = (curve(), crossing(Some(1_000)));
    let rows = published("B");
    assert_eq!(rows.len(), 5);
    for (connections, throughput, latency) in rows {
        let found = forecast(&curve, &crossing, connections);
        let off = found.throughput_per_s.mid.0 / throughput - 1.0;
        let late = found.mean_latency_us[1] / 1e3 / latency - 1.0;
        println!("{connections}: {:+.1} % {:+.1} % {found:?}", off * 100.0, late * 100.0);
        assert!(off.abs() < 0.10, "{connections}: throughput {off:+.3}");
        assert!(late.abs() < 0.20, "{connections}: latency {late:+.3}");
        assert!(found.throughput_per_s.holds(OpRate(throughput)), "{connections}: {found:?}");
        let binds = if connections <= 400 { "load.concurrency" } else { "path.queue-limit" };
        assert_eq!(found.by, binds, "{connections}");
    }
}

#[test]
fn b_falls_as_clients_are_added_since_more_acks_travel_alone() {
    let (curve, crossing) = (curve(), crossing(Some(1_000)));
    let at = |connections| forecast(&curve, &crossing, connections);
    let (first, last) = (at(2_000), at(4_000));
    assert!(last.throughput_per_s.mid.0 < first.throughput_per_s.mid.0);
    assert!(last.lone_acks > 1.5 * first.lone_acks && last.dropped > first.dropped);
}

#[test]
fn without_the_limit_b_reaches_a_with_enough_clients() {
    // What the study's author expected.
    let found = forecast(&curve(), &crossing(None), 8_000);
    assert_eq!(found.by, "service");
    assert!(found.throughput_per_s.mid.0 > 0.95 * 627_434.9, "{found:?}");
}
