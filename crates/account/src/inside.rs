//! What the exchanges inside the application wait for, as far as its threads and its own connections tell.
//!
//! `application = running + runnable + stopped by its quota + disk + asleep`; of those asleep, some have a
//! question out to somebody else.
//!
//! A thread at work serves one exchange, so no more exchanges run than threads do; what is left of the
//! exchanges after all counted threads is asleep. Threads that sleep are told beside it and are no part of
//! the sum: one pool thread in a timer may stand for a queue of a hundred exchanges.
//! Blind spot: work that serves no exchange (a compaction, a log) is taken for an exchange's.

use std::collections::BTreeMap;
use std::ops::RangeInclusive;

use linerate_evidence::sources::{diskstats, peers, process, threads};
use linerate_evidence::{Evidence, Subject};
use linerate_model::Timestamp;

use crate::chosen::HOLDS;
use crate::cpu::Running;

/// The exchanges in the application, by what they wait for; their sum is what the account has there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inside {
    /// On a CPU.
    pub running: f64,
    /// Ready, and without a CPU.
    pub runnable: f64,
    /// Stopped by the control group's quota.
    pub throttled: f64,
    /// In a thread that waits for a disk.
    pub disk: f64,
    /// In no thread that does anything.
    pub asleep: f64,
    /// What the target itself has asked of others, the most first.
    pub asked: Vec<Asked>,
    /// What its threads were at.
    pub threads: Option<Threads>,
}

/// A peer of the target's own connections.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// Its address.
    pub address: String,
    /// Its process on this host, in words: `node, pid 812`.
    pub process: Option<String>,
    /// Connections to it on average.
    pub connections: f64,
    /// Of them, those with a question out.
    pub asked: f64,
    /// Of those, the ones whose question Nagle holds in the target's own socket.
    pub held_nagle: f64,
    /// CPUs' worth of time that its process used, where it is on this host.
    pub cores: Option<f64>,
    /// That process, where it is none of the target's own.
    pub other: Option<u32>,
}

/// Mean numbers of the target's threads in each state.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Threads {
    /// On a CPU or ready for one.
    pub running: f64,
    /// Waiting for a disk.
    pub disk: f64,
    /// Sleeping for a set time.
    pub timer: f64,
    /// In a futex without a timeout: a lock, a condition, an empty queue.
    pub lock: f64,
    /// In a futex with a timeout.
    pub lock_timed: f64,
    /// Waiting for events without a timeout.
    pub poll: f64,
    /// The same with one.
    pub poll_timed: f64,
    /// Reading, from a socket or a pipe mostly.
    pub read: f64,
    /// Writing.
    pub write: f64,
    /// Waiting for a connection.
    pub accept: f64,
    /// Waiting for a child process.
    pub child: f64,
    /// Anything else.
    pub other: f64,
    /// The share of instants at which two or more ran, 0 to 1.
    pub together: f64,
    /// The share of instants at which the fullest thread ran or waited for a disk, 0 to 1.
    pub fullest: f64,
    /// Its name.
    pub fullest_name: Option<String>,
}

impl Threads {
    /// Those that wait for something to do.
    pub fn idle(&self) -> f64 {
        self.poll + self.poll_timed + self.accept
    }

    /// The fullest one's name in brackets: ` (redis-server)`; empty where that is not known.
    pub fn fullest_words(&self) -> String {
        self.fullest_name.as_ref().map_or(String::new(), |name| format!(" ({name})"))
    }

    /// All of them.
    pub fn all(&self) -> f64 {
        let locks = self.lock + self.lock_timed;
        let others = self.read + self.write + self.child + self.other;
        self.idle() + self.running + self.disk + self.timer + locks + others
    }
}

impl Inside {
    /// The split of so many exchanges.
    pub fn of(
        exchanges: f64,
        target: Option<&Running>,
        evidence: &Evidence,
        window: &RangeInclusive<Timestamp>,
    ) -> Self {
        let flushing = flushing(evidence, window);
        let threads =
            Threads::of(evidence, window).map(|of| Threads { disk: of.disk.max(flushing), ..of });
        let mut left = exchanges.max(0.0);
        let mut take = |most: f64| {
            let taken = most.clamp(0.0, left);
            left -= taken;
            taken
        };
        let running = take(target.map_or(0.0, |target| target.running));
        let throttled = take(target.map_or(0.0, |target| target.throttled));
        let delay = target.and_then(|target| target.runnable).unwrap_or(0.0);
        let runnable = take((delay - throttled).max(0.0));
        let disk = take(threads.as_ref().map_or(flushing, |threads| threads.disk));
        let asked = asked(evidence, window);
        Self { running, runnable, throttled, disk, asleep: left, asked, threads }
    }

    /// CPUs' worth of time that those on this host used whom the target, that process, asks: they come with its work.
    pub fn asked_cores(&self, target: Option<u32>) -> f64 {
        let others = self.asked.iter().filter(|asked| asked.other != target);
        let cores = others.filter_map(|asked| Some((asked.other?, asked.cores?)));
        cores.collect::<BTreeMap<_, _>>().values().sum()
    }

    /// `; its threads: 28.0 in a lock, 4.0 in a timer`; empty where they were not sampled.
    pub fn threads_words(&self) -> String {
        let words = self.threads.as_ref().map(Threads::words).filter(|words| !words.is_empty());
        words.map_or(String::new(), |words| format!("; its threads: {words}"))
    }

    /// Questions that the target has out, to whomever.
    pub fn questions(&self) -> f64 {
        self.asked.iter().map(|asked| asked.asked).sum()
    }
}

impl Threads {
    fn of(evidence: &Evidence, window: &RangeInclusive<Timestamp>) -> Option<Self> {
        let of = evidence.of(Subject::Target).within(window.clone());
        let instants = of.grown(threads::INSTANTS).ok()?;
        let mean = |metric| of.grown(metric).unwrap_or(0.0) / instants.max(1.0);
        Some(Self {
            running: mean(threads::RUNNING),
            disk: mean(threads::DISK),
            timer: mean(threads::TIMER),
            lock: mean(threads::LOCK),
            lock_timed: mean(threads::LOCK_TIMED),
            poll: mean(threads::POLL),
            poll_timed: mean(threads::POLL_TIMED),
            read: mean(threads::READ),
            write: mean(threads::WRITE),
            accept: mean(threads::ACCEPT),
            child: mean(threads::CHILD),
            other: mean(threads::OTHER) + mean(threads::CONNECT) + mean(threads::UNKNOWN),
            together: mean(threads::TOGETHER).min(1.0),
            fullest: mean(threads::FULLEST).min(1.0),
            fullest_name: evidence.fact(Subject::Target, "fullest_thread").map(str::to_owned),
        })
    }

    /// The states with most threads, in words: `28.0 in a lock, 4.0 in a timer`.
    pub fn words(&self) -> String {
        let mut states = [
            (self.running, "running"),
            (self.disk, "waiting for a disk"),
            (self.timer, "in a timer"),
            (self.lock + self.lock_timed, "in a lock or an empty queue"),
            (self.poll + self.poll_timed, "waiting for events"),
            (self.read, "reading"),
            (self.write, "writing"),
            (self.accept, "waiting for a connection"),
            (self.child, "waiting for a child process"),
            (self.other, "elsewhere"),
        ];
        states.sort_by(|a, b| b.0.total_cmp(&a.0));
        // Less would be said to be 0.0.
        let said = states.iter().filter(|(count, _)| *count >= 0.05).take(3);
        let said: Vec<_> = said.map(|(count, what)| format!("{count:.1} {what}")).collect();
        said.join(", ")
    }
}

/// Flushes of the machine's disks under way, on average, where the target wrote a good part of what they wrote: one
/// thread at least waits for each, whatever samples of threads' states saw. 0 where that is not known.
fn flushing(evidence: &Evidence, window: &RangeInclusive<Timestamp>) -> f64 {
    let [target, host] =
        [Subject::Target, Subject::Host].map(|of| evidence.of(of).within(window.clone()));
    let own = target.grown(process::DISK_WRITTEN).unwrap_or(0.0);
    let all = host.grown(diskstats::WRITTEN).unwrap_or(f64::INFINITY);
    // A file system writes its journal besides.
    let is_its = own > 0.0 && own >= HOLDS * all;
    if is_its { host.rate(diskstats::FLUSHING).unwrap_or(0.0) } else { 0.0 }
}

fn asked(evidence: &Evidence, window: &RangeInclusive<Timestamp>) -> Vec<Asked> {
    let peers = evidence.subjects().filter(|of| matches!(of, Subject::Peer(_)));
    let peer = |subject| {
        let of = evidence.of(subject).within(window.clone());
        let instants = of.grown(peers::INSTANTS).ok().filter(|instants| *instants > 0.0)?;
        let mean = |metric| of.grown(metric).unwrap_or(0.0) / instants;
        let fact = |name| evidence.fact(subject, name);
        let is_other = fact("whose") != Some("target");
        Some(Asked {
            address: fact("address")?.to_owned(),
            process: fact("process").map(str::to_owned),
            connections: mean(peers::CONNECTIONS),
            // What was sent and answered within one millisecond was as likely asked as not.
            asked: mean(peers::ASKED) + mean(peers::ASKED_MAYBE) / 2.0,
            held_nagle: mean(peers::HELD_NAGLE),
            other: fact("pid").filter(|_| is_other).and_then(|pid| pid.parse().ok()),
            cores: of.rate(peers::RUN).ok(),
        })
    };
    let mut asked: Vec<Asked> = peers.filter_map(peer).collect();
    asked.sort_by(|a, b| b.asked.total_cmp(&a.asked));
    asked
}
