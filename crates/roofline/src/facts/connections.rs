//! The connections of a BEAM node as the driver counted them, and what its schedulers did for them.
//!
//! A setting without a cost is no limit: a roof sizes its claim by the node's own account of its schedulers' time.

use crate::prelude::*;

pub(crate) struct Connection<'a> {
    pub of: Of<'a>,
    pub owner: Option<&'a str>,
    /// Reads that brought data (packets, in packet modes), a second; as bytes and writes.
    pub reads: f64,
    pub bytes: f64,
    pub writes: f64,
    /// Its read buffer. Unit: bytes.
    pub buffer: f64,
    /// As `port.packet`; raw where unknown.
    pub packet: u64,
    pub is_of_socket_module: bool,
    /// Whether data comes as messages without being asked for (`{active, true}` or a count).
    pub is_pushed: bool,
}

/// The node's connections without channels to other nodes; or why there are none.
pub(crate) fn served<'a>(run: &Run<'a>) -> Result<Vec<Connection<'a>>, Silent> {
    run.node()?;
    silent_if(run.attained().0 <= 0.0, "no sampled connection was answered or read")?;
    let one = |subject| {
        let of = run.of(subject);
        Some(Connection {
            owner: run.fact(subject, "owner"),
            reads: of.rate(port::RECV_CNT).ok()?,
            bytes: of.rate(port::RECV_OCT).unwrap_or(0.0),
            writes: of.rate(port::SEND_CNT).unwrap_or(0.0),
            buffer: of.last(port::BUFFER).map_or(0.0, |bytes| bytes.0 as f64),
            packet: of.last(port::PACKET).unwrap_or(0),
            is_of_socket_module: of.last(port::SOCKET_BACKEND) == Ok(1),
            is_pushed: of.max(port::ACTIVE).is_ok_and(|active| active >= 2),
            of,
        })
    };
    let is_served = |end: &Subject| run.fact(*end, "role").is_none_or(|role| role == "connection");
    let found = Vec::from_iter(run.ends(Side::Server).filter(is_served).filter_map(one));
    missing_if(found.is_empty(), port::RECV_CNT.name, "flow/*/server, twice")?;
    Ok(found)
}

// Source: a segment has 1,448 bytes, INET_DEF_BUFFER 1,460 (inet_drv.c): nearly filling that buffer is no fault.
const SEGMENT: f64 = 1_448.0 / 1_460.0;

/// The read buffer that is advised: from here on a read's bytes cost more than the read. Unit: bytes.
pub(crate) const LARGE: f64 = 65_536.0;

/// `port.packet` of `{packet, line}`.
pub(crate) const LINE: u64 = 10;

impl Connection<'_> {
    pub fn read_size(&self) -> f64 {
        self.bytes / self.reads.max(1e-9)
    }

    /// Messages that stay in its owner's mailbox; 0 where that is emptied. The shortest sample may be of before.
    pub fn standing(&self) -> Result<f64, Missing> {
        let mut lengths = self.of.values(owner::MAILBOX)?;
        lengths.sort_unstable();
        Ok(match lengths[..] {
            [_, second, .., longest] if second as f64 >= FULL * longest as f64 => second as f64,
            _ => 0.0,
        })
    }

    /// Mean bytes received and not read.
    pub fn unread(&self) -> Result<f64, Missing> {
        self.of.mean(tcp_info::RQUEUE)
    }

    /// Whether reads fill the buffer while another bufferful waits, or, with the kernel's queue unknown, a segment.
    pub fn fills_buffer(&self) -> bool {
        let full = self.read_size() / self.buffer.max(1.0);
        self.unread().map_or(full > SEGMENT, |unread| full >= FULL && unread >= self.buffer)
    }
}

pub(crate) struct These<'f, 'a> {
    pub all: &'f [Connection<'a>],
    pub these: Vec<&'f Connection<'a>>,
    /// A second; as bytes.
    pub reads: f64,
    pub bytes: f64,
    /// Of all bytes, 0 to 1.
    pub part: f64,
}

impl These<'_, '_> {
    pub fn read_size(&self) -> f64 {
        self.bytes / self.reads.max(1e-9)
    }

    /// Their smallest and largest buffer; none without such connections.
    pub fn buffers(&self) -> Option<(f64, f64)> {
        let sizes = || self.these.iter().map(|each| each.buffer);
        sizes().reduce(f64::min).zip(sizes().reduce(f64::max))
    }
}

pub(crate) struct Hottest<'a> {
    /// Its part of all bytes, 0 to 1.
    pub share: f64,
    pub connections: usize,
    pub owner: &'a str,
    pub peer: &'a str,
}

impl<'a> Hottest<'a> {
    /// Missing where no connection's bytes were counted by the node.
    pub fn of(run: &Run<'a>) -> Result<Self, Missing> {
        // linerate's own channel to the node serves no client.
        let ends = run.ends(Side::Server).filter(|of| run.fact(*of, "role") != Some("linerate"));
        let bytes = |of: Of| Some(of.grown(port::RECV_OCT).ok()? + of.grown(port::SEND_OCT).ok()?);
        let all = Vec::from_iter(ends.filter_map(|of| Some((of, bytes(run.of(of))?))));
        let sum: f64 = all.iter().map(|(_, bytes)| bytes).sum();
        let most = all.iter().max_by(|a, b| a.1.total_cmp(&b.1)).filter(|_| sum > 0.0);
        let (of, bytes) = most.ok_or_else(|| missing(port::RECV_OCT.name, "flow/*/server"))?;
        let [owner, peer] = ["owner", "peer"].map(|name| run.fact(*of, name).unwrap_or("?"));
        Ok(Self { share: bytes / sum, connections: all.len(), owner, peer })
    }
}

// Measured: a write takes 9 to 20 us of a driver's time, since it goes through the kernel; a read of 1,460 bytes 1.5
// us, one of a line 0.6 us (OTP 25, loopback). Between them. Unit: reads.
const WRITE: f64 = 8.0;

/// Its schedulers' work, as far as the kernel let them run. Unit: CPUs' worth of time.
pub(crate) struct Work {
    pub emulator: f64,
    /// Drivers, and polling the kernel.
    pub driver: f64,
    /// Garbage collection by normal schedulers.
    pub collection: f64,
    /// Dirty CPU schedulers, which collect large heaps.
    pub dirty: f64,
    /// Whether connections have a part in what is full: a process that owns none runs none of their drivers.
    pub is_of_connections: bool,
}

impl Work {
    pub fn of(facts: &Facts) -> Result<Self, Missing> {
        let node = facts.run.of(Subject::Node);
        let schedulers = facts.schedulers().ok();
        let let_run = schedulers.map_or(1.0, |(.., let_run)| let_run);
        let time = |metric: Metric<Duration>| node.rate(metric).map(|time| let_run * time);
        let mut at_work = facts.processes.iter().filter(|of| of.running >= HALFWAY);
        let is_of_process = facts.place.resource == Some(Resource::Process);
        Ok(Self {
            is_of_connections: !is_of_process || at_work.any(|of| of.is_owner),
            emulator: time(vm::MICRO_EMULATOR)?,
            driver: time(vm::MICRO_PORT)? + time(vm::MICRO_CHECK_IO)? + time(vm::MICRO_AUX)?,
            collection: time(vm::MICRO_GC)?,
            dirty: let_run * schedulers.map_or(0.0, |(node, ..)| node.dirty_cpu),
        })
    }

    pub fn all(&self) -> f64 {
        (self.emulator + self.driver + self.collection + self.dirty).max(1e-6)
    }

    /// The drivers' time, by the node's own clock, for these connections' reads: by their share of reads and writes.
    pub fn of_reads(&self, of: &These) -> f64 {
        let calls: f64 = of.all.iter().map(|each| each.reads + WRITE * each.writes).sum();
        self.driver * of.reads / calls.max(1e-9)
    }

    pub fn holds(&self, part: f64) -> bool {
        self.is_of_connections && part >= HOLDS * self.all()
    }
}

impl<'a> Facts<'a> {
    pub(crate) fn connections(&self) -> Result<&[Connection<'a>], Silent> {
        self.connections.as_deref().map_err(Clone::clone)
    }

    pub(crate) fn those(&self, is: impl Fn(&Connection) -> bool) -> Result<These<'_, 'a>, Silent> {
        let all = self.connections()?;
        let these: Vec<_> = all.iter().filter(|each| is(each)).collect();
        let bytes: f64 = these.iter().map(|each| each.bytes).sum();
        let of_all: f64 = all.iter().map(|each| each.bytes).sum();
        let reads = these.iter().map(|each| each.reads).sum();
        Ok(These { all, these, reads, bytes, part: bytes / of_all.max(1e-9) })
    }

    /// The share of time in which only the driver delayed so many bytes: their owner's mailbox was nearly empty (active
    /// mode), or it asked for them (passive). None where the kernel's queue, or which processes ask, was not sampled.
    pub(crate) fn undelivered(&self, of: &These, bytes: fn(&Connection) -> f64) -> Option<f64> {
        let node = self.run.of(Subject::Node);
        let met = |metric| Some(node.values(metric).ok()?.iter().sum::<u64>());
        let asking = met(waits::RECV).zip(met(waits::RUNNING));
        let asking = asking.map(|(asks, run)| asks as f64 / (asks + run).max(1) as f64);
        let of_one = |each: &&Connection| {
            let wanted = match each.is_pushed {
                true if (each.of.median(owner::MAILBOX).ok()? as f64) < FEW => 1.0,
                // Data comes only when it is asked for with `gen_tcp:recv`.
                false if each.of.max(port::ACTIVE) == Ok(0) => asking?,
                // An idle process and one waiting for that one message look alike.
                _ => 0.0,
            };
            let waits = |unread: Bytes| unread.0 as f64 >= bytes(each).max(1.0);
            Some(each.of.share(tcp_info::RQUEUE, waits).ok()? * wanted)
        };
        Some(of.these.iter().map(of_one).sum::<Option<f64>>()? / of.these.len() as f64)
    }
}
