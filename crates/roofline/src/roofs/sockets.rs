//! What the roofs of a node's sockets share: its connections as the driver counted them, and the work
//! that its schedulers did for them.
//!
//! Whether something holds the run is judged by what it costs: so many reads (or scans, or bytes) a
//! second, each at what it was measured to take, against all the work that the node did. A roof of this
//! family binds only where that is a large part, so that a setting which harms nobody names nothing.

use std::time::Duration;

use linerate_evidence::sources::{owner, port, tcp_info, vm};
use linerate_evidence::{Metric, Missing, Of, Side, Subject};
use linerate_model::{Bytes, OpRate};

use super::suspects::serving_node;
use crate::predict::Predicted;
use crate::roof::Finding;
use crate::run::Run;

/// A connection of the node over the run.
pub(super) struct Connection<'a> {
    pub of: Of<'a>,
    /// The pid of its owner.
    pub owner: Option<&'a str>,
    /// Reads that brought data (packets, in packet modes), a second.
    pub reads: f64,
    /// Bytes that they brought, a second.
    pub bytes: f64,
    /// Writes a second.
    pub writes: f64,
}

/// The node's connections, channels to other nodes left out.
pub(super) fn connections<'a>(run: &Run<'a>) -> Result<Vec<Connection<'a>>, Missing> {
    let mut found = Vec::new();
    for id in run.evidence.flows(Side::Server) {
        let subject = Subject::Flow(id, Side::Server);
        if run.fact(subject, "role").is_some_and(|role| role != "connection") {
            continue;
        }
        let of = run.of(subject);
        let Ok((reads, over)) = of.delta(port::RECV_CNT) else { continue };
        let per_second = |count: u64| count as f64 / over.as_secs_f64().max(1e-9);
        let bytes = of.delta(port::RECV_OCT).map_or(0, |(bytes, _)| bytes.0);
        let writes = of.delta(port::SEND_CNT).map_or(0, |(writes, _)| writes);
        found.push(Connection {
            owner: run.fact(subject, "owner"),
            reads: per_second(reads),
            bytes: per_second(bytes),
            writes: per_second(writes),
            of,
        });
    }
    if found.is_empty() {
        return Err(Missing { metric: "port.recv_cnt".into(), of: "flow/*/server, twice".into() });
    }
    Ok(found)
}

impl Connection<'_> {
    /// Bytes of a read (of a packet, in packet modes).
    pub fn read_size(&self) -> f64 {
        self.bytes / self.reads.max(1e-9)
    }

    pub fn buffer(&self) -> f64 {
        self.of.last(port::BUFFER).map_or(0.0, |bytes| bytes.0 as f64)
    }

    /// As `port.packet`; raw where it is not told.
    pub fn packet(&self) -> u64 {
        self.of.last(port::PACKET).unwrap_or(0)
    }

    pub fn is_of_socket_module(&self) -> bool {
        self.of.last(port::SOCKET_BACKEND).is_ok_and(|one| one == 1)
    }

    pub fn is_list(&self) -> bool {
        self.of.last(port::LIST_MODE).is_ok_and(|one| one == 1)
    }

    /// Whether data comes as messages without being asked for each time (`{active, true}` or a count).
    pub fn is_pushed(&self) -> bool {
        self.of.max(port::ACTIVE).is_ok_and(|active| active >= 2)
    }

    /// Messages in its owner's mailbox, in the middle of the samples.
    pub fn mailbox(&self) -> f64 {
        self.of.median(owner::MAILBOX).unwrap_or(0) as f64
    }

    /// Whether the mailbox kept its length: nobody takes what is in it. The shortest sample is left out,
    /// which may be of the time before.
    pub fn mailbox_stands(&self) -> bool {
        let Ok(samples) = self.of.all(owner::MAILBOX) else { return false };
        let mut lengths: Vec<u64> = samples.into_iter().map(|(_, length)| length).collect();
        lengths.sort_unstable();
        match lengths[..] {
            // Chosen: a fifth more or less is what comes and goes.
            [_, second, .., longest] => (longest - second) as f64 <= 0.2 * longest as f64,
            _ => false,
        }
    }

    /// Bytes that came and were not read, on average over the samples.
    pub fn unread(&self) -> Result<f64, Missing> {
        mean(&self.of, tcp_info::RQUEUE)
    }

    /// Whether reads fill the buffer while more waits: then its size is the size of a read.
    ///
    /// Where the kernel's queue is not known the reads must fill it to the last byte: segments of a
    /// wire (1,448 bytes) nearly fill the default buffer of 1,460, and that is no fault.
    pub fn fills_buffer(&self) -> bool {
        let full = self.read_size() / self.buffer().max(1.0);
        match self.unread() {
            Ok(unread) => full >= 0.9 && unread >= 4.0 * self.buffer(),
            Err(_) => full >= 0.995,
        }
    }
}

/// The mean of all samples.
pub(super) fn mean(of: &Of, metric: Metric<Bytes>) -> Result<f64, Missing> {
    let samples = of.all(metric)?;
    Ok(samples.iter().map(|(_, bytes)| bytes.0 as f64).sum::<f64>() / samples.len() as f64)
}

/// Of all bytes that were read, the part that came over such connections.
pub(super) fn share(all: &[Connection], is: impl Fn(&Connection) -> bool) -> f64 {
    let bytes: f64 = all.iter().map(|connection| connection.bytes).sum();
    let of = all.iter().filter(|each| is(each)).fold(0.0, |sum, each| sum + each.bytes);
    of / bytes.max(1e-9)
}

// Measured: of a driver's time a write takes 9 to 20 us, which sends it through the kernel; a read of 1,460
// bytes 1.5 us, one of a line 0.6 us (OTP 25, loopback). Chosen: between them. Unit: reads.
const WRITE: f64 = 8.0;

/// What the node's normal schedulers did, spinning and sleep left out. Unit: schedulers' worth of time.
pub(super) struct Work {
    /// Code of processes.
    pub emulator: f64,
    /// Drivers, and asking the kernel what is new.
    pub driver: f64,
    pub collection: f64,
    pub schedulers: f64,
}

impl Work {
    pub fn of(run: &Run) -> Result<Self, Missing> {
        let node = run.of(Subject::Node);
        let time = |metric: Metric<Duration>| -> Result<f64, Missing> {
            let (time, over) = node.delta(metric)?;
            Ok(time.as_secs_f64() / over.as_secs_f64().max(1e-9))
        };
        Ok(Self {
            emulator: time(vm::MICRO_EMULATOR)?,
            driver: time(vm::MICRO_PORT)? + time(vm::MICRO_CHECK_IO)? + time(vm::MICRO_AUX)?,
            collection: time(vm::MICRO_GC)?,
            schedulers: node.last(vm::SCHEDULERS_ONLINE)? as f64,
        })
    }

    pub fn all(&self) -> f64 {
        (self.emulator + self.driver + self.collection).max(1e-6)
    }

    /// What the drivers did for these connections' reads, by their number among all reads and writes, of
    /// which a write counts for more. The node timed it itself, so it holds for slow CPUs and other releases
    /// as well. Unit: schedulers.
    pub fn of_reads(&self, these: &[&Connection], all: &[Connection]) -> f64 {
        let reads: f64 = these.iter().map(|each| each.reads).sum();
        let calls: f64 = all.iter().map(|each| each.reads + WRITE * each.writes).sum();
        self.driver * reads / calls.max(1e-9)
    }
}

/// The node's connections and its work; or why there is nothing to judge.
pub(super) fn at_work<'a>(
    run: &Run<'a>,
) -> Result<Result<(Vec<Connection<'a>>, Work), Finding>, Missing> {
    match serving_node(run) {
        Err(finding) => Ok(Err(finding)),
        Ok(_) => Ok(Ok((connections(run)?, Work::of(run)?))),
    }
}

/// Where the rate ends that the node's work allows: `attained / utilisation`, the utilisation being of
/// all schedulers, or that of one where a single connection keeps it busy.
pub(super) fn ceiling(run: &Run, all: &[Connection], work: &Work) -> OpRate {
    let bytes: f64 = all.iter().map(|each| each.bytes).sum();
    let busiest = all.iter().map(|each| each.bytes).fold(0.0, f64::max) / bytes.max(1e-9);
    let used = (work.all() / work.schedulers.max(1.0)).max(busiest * work.all()).clamp(0.01, 1.0);
    OpRate(run.attained().0 / used)
}

/// So many times the rate, give or take what was seen.
pub(super) fn times(run: &Run, low: f64, mid: f64, high: f64) -> Predicted {
    let attained = run.attained().0;
    Predicted {
        low: OpRate(attained * low),
        mid: OpRate(attained * mid),
        high: OpRate(attained * high),
    }
}
