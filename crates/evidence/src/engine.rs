//! What one engine thread counted and timed during one slice of the run.

use std::collections::BTreeMap;

use linerate_model::Timestamp;

use crate::packed::{Live, Packed};

/// Why exchanges failed, by cause: `refused`, `reset`, `closed`, `timeout`, `no-address`,
/// `unreachable`, `malformed`, `descriptors`, `tls`, `other`.
pub type Errors = BTreeMap<String, u64>;

/// Shorter times without an answer are not kept: [`Slice::silence`]. Unit: ns.
// Chosen: what stops a service stops it for longer; with 1,000 answers a second and more, most are shorter.
pub const SILENT: u64 = 1_000_000;

/// Which part of a run a slice belongs to.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Phase {
    /// Connections or rate still grow.
    Ramp,
    /// Full load. Warm-up is found later, among these.
    #[default]
    Load,
    /// After the end: nothing new begins, outstanding exchanges may still be answered.
    Drain,
}

/// One thread, one slice. All counts are of this slice alone; `_at_end` are states.
///
/// `H` holds times: [`Live`] while the engine records, [`Packed`] from then on.
#[derive(Clone, Debug)]
pub struct Slice<H = Packed> {
    /// The engine thread.
    pub thread: u16,
    /// The engine's host that it runs on, by its place in [`crate::Places::hosts`].
    pub host: u16,
    /// Its place among the thread's slices; slices of equal index span the same time.
    pub index: u32,
    /// When it began.
    pub from: Timestamp,
    /// When it ended.
    pub to: Timestamp,
    /// Ramp, load or drain.
    pub phase: Phase,
    /// Exchanges that became due.
    pub scheduled: u64,
    /// Exchanges written (their first byte handed to the kernel).
    pub begun: u64,
    /// Exchanges answered whole.
    pub answered: u64,
    /// Exchanges that failed, by cause; timed-out ones are counted apart.
    pub errors: Errors,
    /// Exchanges older than the plan's timeout.
    pub timed_out: u64,
    /// Exchanges with an unknown end: the worker that had them, or was to make them, was lost.
    pub lost: u64,
    /// Due and unanswered when the slice ended, unwritten ones included.
    pub in_flight_at_end: u64,
    /// Of those, not yet written.
    pub unwritten_at_end: u64,
    /// Integral of the number of written, unanswered exchanges over the slice. Unit: exchange-ns.
    pub in_flight_area: u128,
    /// Sum over written, unanswered exchanges at the slice's end of their age. Unit: ns.
    pub age_at_end: u128,
    /// Sum of last byte minus written over the good answers. Unit: ns. Zero of an older linerate.
    pub good_age: u128,
    /// Answers that were the first of their connection.
    pub first_answers: u64,
    /// Sum of their times, written to last byte. Unit: ns.
    pub first_age: u128,
    /// Sum of the ages at which exchanges failed or timed out, of those that were written. Unit: ns.
    pub failed_age: u128,
    /// Integral of the number of failing connections over the slice: those whose last two attempts, at opening
    /// or at an exchange, failed, and that were not answered since. Unit: connection-ns.
    pub failing_area: u128,
    /// Answers by status class, `1xx` to `5xx` at 0 to 4. Zero for workloads without status.
    pub status: [u64; 5],
    /// Of those, the ones that the service would not take ([`is_turned_away`]).
    pub too_many: u64,
    /// Answers by status. Empty for workloads without status, and of an older linerate.
    pub codes: BTreeMap<u16, u64>,
    /// Whether a right answer is defined.
    pub judged: bool,
    /// Wrong answers, by cause: `status`, `body`.
    pub wrong: Errors,
    /// Payload and protocol bytes written.
    pub bytes_written: u64,
    /// Bytes read.
    pub bytes_read: u64,
    /// TLS records of application data read. Zero for what speaks no TLS, and of an older linerate.
    pub records_read: u64,
    /// Connections opened.
    pub opened: u64,
    /// Connections open when the slice ended.
    pub open_at_end: u64,
    /// CPU time of the thread. Unit: ns.
    pub cpu: u64,
    /// Wakes of the event loop that handled as many events as it asked for: it was behind.
    pub full_batches: u64,
    /// Wakes of the event loop.
    pub wakes: u64,
    /// Last byte minus intended. Unit: ns. Answered exchanges.
    pub latency: H,
    /// Last byte minus written. Unit: ns. Answered exchanges.
    pub service: H,
    /// First byte minus written. Unit: ns. Answered exchanges.
    pub first_byte: H,
    /// Written minus intended. Unit: ns. Always zero in a closed loop, and then not recorded.
    pub lateness: H,
    /// The engine's own part of it: written minus the later of intended and the moment at which a
    /// connection was free. Waiting for a connection is due to the target. Unit: ns.
    pub own_lateness: H,
    /// Connect call to established. Unit: ns.
    pub connect: H,
    /// Ages of exchanges that timed out, or were outstanding when the engine closed. Unit: ns.
    /// Their latencies are at least these.
    pub censored: H,
    /// Times in which none of the thread's exchanges under way was answered, of [`SILENT`] and more. Unit: ns.
    pub silence: H,
    /// The same by server, in the order of [`crate::Places::servers`]; empty where there is one.
    pub parts: Vec<Part<H>>,
}

/// One server's part of a slice.
#[derive(Clone, Debug, Default)]
pub struct Part<H = Packed> {
    /// Exchanges that became due and that chose this server. In an open loop one counts when it
    /// chooses, which may be a slice after it became due.
    pub chosen: u64,
    /// Exchanges answered whole.
    pub answered: u64,
    /// Exchanges that failed, by cause.
    pub errors: Errors,
    /// Exchanges older than the plan's timeout.
    pub timed_out: u64,
    /// Last byte minus written. Unit: ns. Answered exchanges.
    pub service: H,
}

impl<H> Part<H> {
    /// Exchanges that failed, timed-out ones not among them.
    pub fn failed(&self) -> u64 {
        self.errors.values().sum()
    }

    fn map<G>(self, hold: &mut impl FnMut(H) -> G) -> Part<G> {
        Part {
            chosen: self.chosen,
            answered: self.answered,
            errors: self.errors,
            timed_out: self.timed_out,
            service: hold(self.service),
        }
    }
}

impl<H> Slice<H> {
    /// An empty slice.
    pub fn new(thread: u16, index: u32, from: Timestamp) -> Self
    where
        H: Default,
    {
        Self {
            thread,
            host: 0,
            index,
            from,
            to: from,
            phase: Phase::Load,
            scheduled: 0,
            begun: 0,
            answered: 0,
            errors: Errors::new(),
            timed_out: 0,
            lost: 0,
            in_flight_at_end: 0,
            unwritten_at_end: 0,
            in_flight_area: 0,
            age_at_end: 0,
            good_age: 0,
            first_answers: 0,
            first_age: 0,
            failed_age: 0,
            failing_area: 0,
            status: [0; 5],
            too_many: 0,
            codes: BTreeMap::new(),
            judged: false,
            wrong: Errors::new(),
            bytes_written: 0,
            bytes_read: 0,
            records_read: 0,
            opened: 0,
            open_at_end: 0,
            cpu: 0,
            full_batches: 0,
            wakes: 0,
            latency: H::default(),
            service: H::default(),
            first_byte: H::default(),
            lateness: H::default(),
            own_lateness: H::default(),
            connect: H::default(),
            censored: H::default(),
            silence: H::default(),
            parts: Vec::new(),
        }
    }

    /// The same slice with its times in another container.
    pub fn map<G>(self, mut hold: impl FnMut(H) -> G) -> Slice<G> {
        Slice {
            thread: self.thread,
            host: self.host,
            index: self.index,
            from: self.from,
            to: self.to,
            phase: self.phase,
            scheduled: self.scheduled,
            begun: self.begun,
            answered: self.answered,
            errors: self.errors,
            timed_out: self.timed_out,
            lost: self.lost,
            in_flight_at_end: self.in_flight_at_end,
            unwritten_at_end: self.unwritten_at_end,
            in_flight_area: self.in_flight_area,
            age_at_end: self.age_at_end,
            good_age: self.good_age,
            first_answers: self.first_answers,
            first_age: self.first_age,
            failed_age: self.failed_age,
            failing_area: self.failing_area,
            status: self.status,
            too_many: self.too_many,
            codes: self.codes,
            judged: self.judged,
            wrong: self.wrong,
            bytes_written: self.bytes_written,
            bytes_read: self.bytes_read,
            records_read: self.records_read,
            opened: self.opened,
            open_at_end: self.open_at_end,
            cpu: self.cpu,
            full_batches: self.full_batches,
            wakes: self.wakes,
            latency: hold(self.latency),
            service: hold(self.service),
            first_byte: hold(self.first_byte),
            lateness: hold(self.lateness),
            own_lateness: hold(self.own_lateness),
            connect: hold(self.connect),
            censored: hold(self.censored),
            silence: hold(self.silence),
            parts: self.parts.into_iter().map(|part| part.map(&mut hold)).collect(),
        }
    }

    /// Exchanges that failed, timed-out ones not among them.
    pub fn failed(&self) -> u64 {
        self.errors.values().sum()
    }

    /// Answers by which the service did its work: all but those of status 400, 408, 413, 414, 429, 431 or 5xx.
    ///
    /// A 5xx says that the service could not, the others that it would not: a limit answers with any of them, and
    /// faster than the work would take. Any other 4xx (404, 401) is the right answer to the request, at any load.
    /// Where a right answer is defined, all that are.
    pub fn good(&self) -> u64 {
        if self.judged {
            return self.answered.saturating_sub(self.wrong.values().sum());
        }
        self.answered.saturating_sub(self.status[4]).saturating_sub(self.too_many)
    }
}

/// Whether an HTTP status below 500 says that the service would not take the request: for its size, its headers' (which
/// several servers say by 400), its address', or the rate.
/// Source: RFC 9110, 15.5.1, 15.5.9, 15.5.14 and 15.5.15; RFC 6585, 4 and 5.
pub fn is_turned_away(status: u16) -> bool {
    matches!(status, 400 | 408 | 413 | 414 | 429 | 431)
}

impl Slice {
    /// The slice as it was recorded.
    pub fn unpack(self) -> Slice<Live> {
        self.map(|packed| Live::of(&packed))
    }
}

impl Slice<Live> {
    /// The slice at rest. In a closed loop an exchange is due when it is written, so its latency is its service time
    /// and was not recorded twice.
    pub fn pack(self) -> Slice {
        let packed = |live: Live| live.recorded().map_or_else(Packed::default, Packed::pack);
        let mut slice = self.map(packed);
        if slice.latency.is_empty() {
            slice.latency = slice.service.clone();
        }
        slice
    }
}
