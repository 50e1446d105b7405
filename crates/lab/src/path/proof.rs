//! What the path delivers, measured before it is used: round trips one at a time, then for each way that has
//! one its rate (a train of datagrams) and its queue (a burst that overflows it).
//!
//! Datagrams and not connections: those would leave round-trip times in the kernel's TCP metrics, for
//! the engine's connections to start from.
//!
//! Blind spots: loss, duplication and reordering would take thousands of packets, and are said to be not
//! proven, as is whatever would take more than some tenths of a second. A queue that is too long is not
//! refused where a burst of so many packets takes as long as the delay.

use std::time::Duration;

use linerate_evidence::Direction;
use linerate_model::{Aqm, OneDirection, Path, Share};

use super::backend::LinkEnd;
use crate::cancel::Cancel;
use crate::lay_error::LayError;

mod burst;
mod rate_check;
mod rtt_check;
mod wire;

use rtt_check::RttCheck;
use wire::Wire;

/// Chosen: a neighbour's burst on a shared machine spoils one round, seldom three.
const ROUNDS: usize = 3;

/// Rounds while all is late or slow, as it is on a machine whose CPUs others have, with pauses from the
/// fourth on. Chosen: five seconds more; a burst is shorter, or a run beside it would be worth nothing.
const LATE_ROUNDS: usize = 15;
/// See [`LATE_ROUNDS`].
const PAUSE: Duration = Duration::from_millis(200);

/// Asked and delivered, by a path without load.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct PathProof {
    /// Round-trip time of the plan.
    pub asked: Duration,
    /// Median of the round trips, without the time that a probe's own bytes take at the path's rate.
    pub delivered_median: Duration,
    /// The shortest of them.
    pub delivered_min: Duration,
    /// The longest of them.
    pub delivered_max: Duration,
    /// Median of the way from engine to target.
    pub out_median: Duration,
    /// Median of the return direction.
    pub back_median: Duration,
    /// Round trips made.
    pub probes: usize,
    /// Everything that was asked beside what was delivered, the round trip first.
    pub rows: Vec<ProofRow>,
}

/// One thing that was asked for.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct ProofRow {
    /// Which: `rtt`, `rate.out`, `queue.back`.
    pub what: String,
    /// As the plan has it.
    pub asked: String,
    /// As measured; why not, where it was not.
    pub delivered: Delivered,
}

/// What became of a proof.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Delivered {
    /// This was measured, and is near enough.
    Proven(String),
    /// It was not measured, or could not be judged, for this reason.
    Unproven(String),
}

impl std::fmt::Display for Delivered {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Delivered::Proven(measured) => f.write_str(measured),
            Delivered::Unproven(reason) => write!(f, "not proven: {reason}"),
        }
    }
}

/// Proves what is asked, or refuses the path. An idle path takes a dozen round trips, and half a second for
/// each way with a rate.
pub(crate) fn prove(
    ends: [&LinkEnd<'_>; 2],
    asked: &Path,
    cancel: &Cancel,
) -> Result<PathProof, LayError> {
    let directions = asked.directions();
    let wire = Wire::open(ends)?;
    let trips = RttCheck::prove(&wire, asked, cancel)?;
    let mut rows = vec![trips.row()];
    for ((way, direction), wire) in
        directions.iter().zip(Direction::BOTH).zip([&wire, &wire.turned()?])
    {
        let mut row = |what: &str, asked: String, delivered: Delivered| {
            rows.push(ProofRow { what: format!("{what}.{direction}"), asked, delivered });
        };
        if let Some(rate) = way.rate {
            row("rate", rate.to_string(), rate_check::prove(wire, way, direction, cancel)?);
        }
        if let Some(trace) = &way.trace {
            let reason = "a trace is no rate".to_owned();
            row("trace", trace.display().to_string(), Delivered::Unproven(reason));
        }
        if way.rate.is_some() {
            row("queue", way.queue.to_string(), burst::queue(wire, way, direction, cancel)?);
        }
        if let Some(limit) = way.limit {
            let delivered = burst::limit(wire, way, direction, cancel)?;
            row("limit", format!("{limit} packets"), delivered);
        }
        for (what, share) in
            [("loss", way.loss), ("duplicate", way.duplicate), ("reorder", way.reorder)]
        {
            if share.0 > 0.0 {
                row(what, share.to_string(), Delivered::Unproven(thousands(share)));
            }
        }
        if way.aqm == Aqm::Codel {
            let reason = "it drops what waits for 100 ms and more".to_owned();
            row("aqm", "codel".to_owned(), Delivered::Unproven(reason));
        }
    }
    Ok(trips.proof(rows))
}

/// Packets after which a share is known to a tenth of itself, 1 / (share x 0.1^2).
fn thousands(share: Share) -> String {
    format!("it would take {:.0} packets", (100.0 / share.0).ceil())
}

/// Bytes of a datagram's headers on the path. Source: RFC 791, RFC 768.
const HEADERS: u64 = 28;

/// Bytes of the largest datagram that the way lets through whole, headers included.
fn largest(way: &OneDirection) -> u64 {
    way.largest.map_or(1500, |largest| largest.0.min(1500))
}

/// How long so many bytes take at the way's rate.
fn at_rate(way: &OneDirection, bytes: u64) -> Duration {
    way.rate.map_or(Duration::ZERO, |rate| Duration::from_secs_f64(bytes as f64 * 8.0 / rate.0))
}

/// A refusal, in the words of whoever measured.
fn off(what: &str, direction: Direction, asked: String, delivered: String, by: &str) -> LayError {
    LayError::PathNot {
        what: format!("{what} ({direction})"),
        asked,
        delivered,
        tolerance: by.to_owned(),
    }
}
