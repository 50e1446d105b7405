//! What the roofs of windows and buffers share: which end sends the bulk, how many bytes an exchange
//! moves, and how far tuning may go.

use linerate_evidence::sources::tcp_info;
use linerate_evidence::{Metric, Missing, Of, Side};
use linerate_model::Bytes;

use crate::run::Run;

/// One direction of the run's traffic.
pub(super) struct Direction {
    /// The end that sends.
    pub sender: Side,
    /// Payload of one exchange in this direction. Unit: bytes.
    pub bytes: f64,
}

/// Both directions, the heavier first.
pub(super) fn directions(run: &Run) -> [Direction; 2] {
    let exchanges = run.load.exchanges.max(1) as f64;
    let up = Direction { sender: Side::Client, bytes: run.load.bytes_written as f64 / exchanges };
    let down = Direction { sender: Side::Server, bytes: run.load.bytes_read as f64 / exchanges };
    if up.bytes > down.bytes { [up, down] } else { [down, up] }
}

/// The other end.
pub(super) fn other(side: Side) -> Side {
    match side {
        Side::Client => Side::Server,
        Side::Server => Side::Client,
    }
}

/// The smallest round-trip time that either end saw. Unit: seconds.
pub(super) fn min_rtt(run: &Run) -> Result<f64, Missing> {
    let mut smallest = Err(Missing { metric: "tcp.min_rtt".into(), of: "flow/*".into() });
    for flow in run.flows(Side::Client).into_iter().chain(run.flows(Side::Server)) {
        match (flow.min(tcp_info::MIN_RTT), &smallest) {
            (Ok(rtt), Ok(so_far)) if rtt.as_secs_f64() >= *so_far => {}
            (Ok(rtt), _) => smallest = Ok(rtt.as_secs_f64().max(1e-6)),
            (Err(missing), Err(_)) => smallest = Err(missing),
            (Err(_), Ok(_)) => {}
        }
    }
    smallest
}

/// The most that tuning may give a buffer: the third number of `net.ipv4.tcp_rmem` or `tcp_wmem`. Unit:
/// bytes.
pub(super) fn setting(run: &Run, name: &str) -> Result<f64, Missing> {
    let missing = || Missing { metric: name.into(), of: "host".into() };
    run.sysctl_third(name).ok_or_else(missing)
}

/// The share of flows whose buffer came to be what tuning may give, and no more.
pub(super) fn grown_to(flows: &[Of], buffer: Metric<Bytes>, most: f64) -> Result<f64, Missing> {
    // Chosen: tuning stops at the very number; 5 % for whoever rounds.
    let is_there = |size: f64| (0.95..=1.05).contains(&(size / most));
    mean_over(flows, |flow| Ok(f64::from(u8::from(is_there(flow.max(buffer)?.0 as f64)))))
}

/// The mean over flows of a figure, over those flows that have it.
pub(super) fn mean_over(
    flows: &[Of],
    figure: impl Fn(&Of) -> Result<f64, Missing>,
) -> Result<f64, Missing> {
    let mut missing = Missing { metric: "tcp.info".into(), of: "flow/*".into() };
    let mut found = Vec::new();
    for flow in flows {
        match figure(flow) {
            Ok(value) => found.push(value),
            Err(none) => missing = none,
        }
    }
    if found.is_empty() { Err(missing) } else { Ok(found.iter().sum::<f64>() / found.len() as f64) }
}
