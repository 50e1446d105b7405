//! Small TLS records: each write becomes a record of its own, with its own header, tag, encryption, turn
//! through two processes and system call, and the writes are small.
//!
//! `ceiling = attained / utilisation of what is busiest`, with the records in it
//!
//! Blind spot: without the node's own counts of its writes nothing is seen: the kernel joins them.
//! Source: tls_sender of OTP's ssl; RFC 8446, 5.1.

use linerate_evidence::sources::port;
use linerate_evidence::{Missing, Side, Subject};
use linerate_model::{Bytes, OpRate};

use super::encryption::target_cores;
use super::window::directions;
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};
use crate::utilisation::Utilisation;

// Chosen: an eighth of a record's 16 KiB; above it the record's own cost is less than its bytes'.
const SMALL: f64 = 2048.0;

// Chosen: a head and a body are two; so many are a loop.
const MANY: f64 = 8.0;

pub(super) struct TlsSmallRecords;

/// What the target's connections wrote.
pub(super) struct Writes {
    /// Mean size of one. Unit: bytes.
    pub bytes: f64,
    /// For each exchange, or each read.
    pub each: f64,
}

impl Writes {
    pub fn is_small(&self) -> bool {
        self.bytes <= SMALL && self.each >= MANY
    }
}

/// The writes of the sampled connections, by the node's driver.
pub(super) fn writes(run: &Run) -> Result<Writes, Missing> {
    let none = || Missing { metric: port::SEND_CNT.name.into(), of: "flow/*/server".into() };
    let (mut count, mut bytes, mut reads) = (0.0, 0.0, 0.0);
    for id in run.evidence.flows(Side::Server) {
        let subject = Subject::Flow(id, Side::Server);
        // Channels to other nodes are no clients.
        if run.fact(subject, "peer_node").is_some() {
            continue;
        }
        let flow = run.of(subject);
        if let (Ok((writes, _)), Ok((sent, _)), Ok((received, _))) =
            (flow.delta(port::SEND_CNT), flow.delta(port::SEND_OCT), flow.delta(port::RECV_OCT))
        {
            count += writes as f64;
            bytes += sent.0 as f64;
            reads += received.0 as f64;
        }
    }
    if count == 0.0 {
        return Err(none());
    }
    // What an exchange asks is the same on every connection: bytes read tell how many there were.
    let asked = run.load.bytes_written as f64 / run.load.exchanges.max(1) as f64;
    let exchanges =
        if run.is_watched() { run.load.exchanges as f64 } else { reads / asked.max(1.0) };
    Ok(Writes { bytes: bytes / count, each: count / exchanges.max(1.0) })
}

impl Roof for TlsSmallRecords {
    fn id(&self) -> &'static str {
        "tls.small-records"
    }

    fn title(&self) -> &'static str {
        "small TLS records"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/tls.small-records.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        if let Some(none) = run.no_tls() {
            return Ok(none);
        }
        let writes = writes(run)?;
        let [heavier, _] = directions(run);
        if heavier.sender == Side::Client || writes.each < MANY {
            return Ok(Finding::DoesNotApply(format!(
                "{:.1} writes of {} for each are not many",
                writes.each,
                Bytes(writes.bytes as u64)
            )));
        }
        let attained = run.attained().0.max(1e-9);
        let cores = target_cores(run)?;
        let record = cores / (attained * writes.each);
        let utilisation = Utilisation::of(run);
        let host = utilisation.host.as_ref().map_or(0.0, |host| host.busy / host.cpus);
        let target = utilisation.target.as_ref().map_or(0.0, |target| target.utilisation());
        let used = host.max(target).clamp(0.05, 1.0);
        let rate = OpRate(attained / used);
        let seen = format!(
            "{:.0} writes of {} for each, {} of the target's CPU for each of them",
            writes.each,
            Bytes(writes.bytes as u64),
            duration(record)
        );
        let binds = if writes.is_small() && used >= 0.5 && run.is_held_back() {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "{} with {used:.2} of the CPUs used, {:.0} records x {} in it = {rate}",
                OpRate(attained),
                writes.each,
                duration(record)
            ),
            binds,
            advice: vec![Advice {
                knob: "piece".into(),
                value: "0".into(),
                does: "writes an answer at once, in records of 16 KiB".into(),
                by_hand:
                    "collect what is to be sent as iodata, and call ssl:send/2 once for an answer"
                        .into(),
                predicted: Predicted {
                    low: OpRate(attained * 1.5),
                    mid: OpRate(attained * (writes.each / 4.0).clamp(2.0, 50.0)),
                    high: OpRate(attained * (writes.each * 2.0).max(4.0)),
                },
            }],
        }))
    }
}
