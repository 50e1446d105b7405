//! Evidence of a service that is watched, made by hand from a few means and rates.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use linerate_evidence::sources::{
    bursts, capture, code, kernel_code, port, process, snmp, threads,
};
use linerate_evidence::{Evidence, Header, Metric, Side, Subject, read, summarise};
use linerate_model::Timestamp;
use linerate_roofline::{Judgement, Run, judge};

pub const SECONDS: u64 = 10;
pub const PORT: Subject = Subject::Listener(5432);

/// Of a node that was watched, made one of a process that is none.
pub fn header() -> Header {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../fixtures/evidence/watched");
    let text = std::fs::read_to_string(folder.join("idle.jsonl")).unwrap();
    let (mut header, ..) = read(&text).unwrap();
    header.target.schedulers = None;
    header.target.cpus = Some(2);
    header
}

/// What is told of a service, a second.
#[derive(Default)]
pub struct Told {
    /// Mean numbers of connections, by metric of `bursts`.
    pub places: BTreeMap<&'static str, f64>,
    /// Mean numbers of threads, by metric of `threads`.
    pub threads: BTreeMap<&'static str, f64>,
    /// Answered, and asked and unanswered on average.
    pub exchanges: f64,
    pub under_way: f64,
    /// CPUs' worth of time, of all its threads and of the busiest; 0: not measured.
    pub cpu: f64,
    pub busiest: f64,
    pub opened: f64,
    pub refused: f64,
    /// Times requests and answers did not alternate.
    pub out_of_turn: f64,
    /// Of those under way, the ones in a handshake; absent: it speaks no TLS.
    pub in_handshake: Option<f64>,
    /// The share of its code in a library of ciphers.
    pub ciphers: f64,
    /// The share of its code that looks for removed terms.
    pub removed_terms: f64,
    /// The share of it that collects garbage.
    pub collecting: f64,
    /// CPUs' worth of its time in the kernel, all in one system call, and the share of that at a disk, in a sync.
    pub in_kernel: f64,
    pub syncs: f64,
    /// That system call is `write` then, so many times, of 100 bytes each.
    pub writes: f64,
    /// Answers of HTTP that refuse.
    pub told_no: f64,
    /// Answers that are errors of the asker, maybe.
    pub errors: f64,
    /// In the midst of a request, and how long after the delayed ACK of its first part the next came. Unit: 1, seconds.
    pub asking: [f64; 2],
    /// Connections without an answer all the time, and those of them whose requests are as long as others'.
    pub unanswered: [u64; 2],
    /// The share of the time in which all wait and nothing moves.
    pub still: f64,
}

/// Of bursts and threads. Unit: instants a second.
const INSTANTS: f64 = 40.0;

impl Told {
    pub fn evidence(&self) -> Evidence {
        let mut evidence = Evidence::default();
        for second in 0..=SECONDS {
            let at = Timestamp(1_000_000_000 * (second + 1));
            let states = [bursts::UNANSWERED, bursts::UNANSWERED_ALIKE];
            for (metric, count) in states.into_iter().zip(self.unanswered) {
                evidence.push(at, PORT, metric, count);
            }
            let grown = |rate: f64| (rate * second as f64).round() as u64;
            let mut count =
                |of, metric: Metric<u64>, rate| evidence.push(at, of, metric, grown(rate));
            count(PORT, bursts::INSTANTS, INSTANTS);
            count(PORT, bursts::WHOLE, INSTANTS);
            count(PORT, bursts::STILL, INSTANTS * self.still);
            count(PORT, bursts::CONNECTIONS, INSTANTS * self.places.values().sum::<f64>());
            for place in bursts::Place::ALL {
                let mean = self.places.get(place.metric().name).copied().unwrap_or(0.0);
                count(PORT, place.metric(), INSTANTS * mean);
            }
            count(Subject::Target, threads::INSTANTS, INSTANTS);
            for (name, mean) in &self.threads {
                count(Subject::Target, Metric::new(name), INSTANTS * mean);
            }
            count(PORT, capture::EXCHANGES, self.exchanges);
            count(PORT, capture::OPENED, self.opened);
            count(Subject::Stack(Side::Server), snmp::PASSIVE_OPENS, self.opened);
            count(PORT, capture::REFUSED, self.refused);
            count(PORT, capture::RESET, 0.0);
            count(PORT, capture::NO_HTTP, self.told_no);
            count(PORT, capture::REQUEST_ACKS, self.exchanges);
            count(PORT, capture::NO_ERROR, self.errors);
            count(Subject::Target, process::WRITE_CALLS, self.writes);
            count(Subject::Target, Metric::new(process::WRITTEN.name), 100.0 * self.writes);
            count(PORT, capture::DUPLEX, self.out_of_turn);
            count(PORT, capture::UNASKED, 0.0);
            count(PORT, capture::TLS, self.in_handshake.map_or(0.0, |_| self.exchanges));
            count(Subject::Target, code::SAMPLES, 97.0 * self.cpu);
            count(Subject::Target, code::CIPHERS, 97.0 * self.cpu * self.ciphers);
            let removed = 97.0 * self.cpu * self.removed_terms;
            count(Subject::Target, code::REMOVED_TERMS, removed);
            count(Subject::Target, code::COLLECTING, 97.0 * self.cpu * self.collecting);
            count(Subject::Target, kernel_code::SAMPLES, 97.0 * self.in_kernel);
            count(Subject::Target, kernel_code::BUSIEST, 97.0 * self.in_kernel);
            for metric in [kernel_code::DISK, kernel_code::SYNC] {
                count(Subject::Target, metric, 97.0 * self.in_kernel * self.syncs);
            }
            // The node's own count of what one of its connections read.
            count(Subject::Flow(1, Side::Server), port::RECV_CNT, self.exchanges);
            count(
                Subject::Flow(1, Side::Server),
                Metric::new(port::RECV_OCT.name),
                10.0 * self.exchanges,
            );
            let mut time = |of, metric: Metric<Duration>, rate: f64| {
                let grown = Duration::from_secs_f64(rate * second as f64);
                evidence.push(at, of, metric, grown);
            };
            // The capture was on for half of the time.
            time(PORT, capture::WATCHED, 0.5);
            time(PORT, capture::ASKED_AREA, 0.5 * self.under_way);
            let [asking, reaction] = self.asking;
            time(PORT, capture::SERVICE_TIME, 0.5 * (self.under_way - asking));
            time(PORT, capture::REQUEST_TIME, 0.5 * asking);
            time(PORT, capture::REQUEST_HELD, 0.5 * asking);
            time(PORT, capture::REQUEST_REACTION, reaction * self.exchanges);
            time(PORT, capture::HANDSHAKE_TIME, 0.5 * self.in_handshake.unwrap_or(0.0));
            time(Subject::Target, process::RUN, self.cpu);
            time(Subject::Target, process::RUN_DELAY, 0.0);
            if self.busiest > 0.0 {
                time(Subject::Target, process::BUSIEST_THREAD, self.busiest);
            }
            time(Subject::Target, process::UTIME, self.cpu - self.in_kernel);
            time(Subject::Target, process::STIME, self.in_kernel);
        }
        if self.in_kernel > 0.0 {
            let call = if self.writes > 0.0 { "write" } else { "pwrite64" };
            evidence.push_fact(Subject::Target, "busiest_call", call.to_owned());
        }
        evidence
    }

    pub fn judged(&self) -> Judgement {
        let (header, evidence) = (header(), self.evidence());
        let load = summarise(&evidence, &header.plan);
        judge(&Run { header: &header, evidence: &evidence, load: &load })
    }
}

pub fn places<const N: usize>(of: [(&'static str, f64); N]) -> BTreeMap<&'static str, f64> {
    of.into()
}
