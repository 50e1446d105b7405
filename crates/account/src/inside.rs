//! What exchanges in the application wait for, as far as its threads and its own connections show.
//!
//! `application = running + runnable + stopped by its quota + disk + asleep`; some of those asleep wait for a peer.
//!
//! A thread at work serves one exchange; the exchanges that no thread accounts for are asleep. Sleeping threads are
//! listed beside the sum and not in it: one pool thread in a timer may stand for a queue of a hundred exchanges.
//! Blind spot: work that serves no exchange (a compaction, a log) is counted as an exchange's.

use crate::prelude::*;

/// The exchanges in the application, by what they wait for; their sum is what the account has there.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Inside {
    /// On a CPU, but for those at a disk.
    pub running: f64,
    /// Ready, and without a CPU.
    pub runnable: f64,
    /// Stopped by the control group's quota.
    pub throttled: f64,
    /// In a thread that waits for a disk, or is in the kernel to give it something to do.
    pub disk: f64,
    /// In no thread that is at work.
    pub asleep: f64,
    /// The peers that the target itself asks, the most asked first.
    pub asked: Vec<Asked>,
    /// Those who came to other ports than the loaded ones, and may be asked all the same, as nodes are.
    pub channels: Vec<Asked>,
    /// States of its threads.
    pub threads: Option<States>,
}

/// Sockets that a service has to a log: one for its output, one for its errors. Who sleeps does not wait for these.
/// Source: systemd.exec(5), "StandardOutput".
const OF_A_LOG: f64 = 2.0;

/// Segments without an answer, of a connection that requests share.
/// Chosen: one that a request has alone has one out, and may have sent another at its login.
const SHARED: f64 = 3.0;

impl Inside {
    /// The split of so many exchanges.
    pub fn of(
        exchanges: f64,
        target: Option<&Running>,
        evidence: &Evidence,
        window: &RangeInclusive<Timestamp>,
    ) -> Self {
        let flushing = flushing(evidence, window);
        let mut threads = States::of(evidence, window);
        if let Some(of) = &mut threads {
            (of.disk, of.sync) = (of.disk.max(flushing), of.sync.max(flushing));
        }
        let mut left = exchanges.max(0.0);
        let mut take = |most: f64| {
            let taken = most.clamp(0.0, left);
            left -= taken;
            taken
        };
        let (at_disk, disk) = threads
            .as_ref()
            .map_or((0.0, flushing), |threads| (threads.disk_running, threads.disk));
        let running = take(target.map_or(0.0, |target| target.running - at_disk));
        let throttled = take(target.map_or(0.0, |target| target.throttled));
        let delay = target.and_then(|target| target.runnable).unwrap_or(0.0);
        let (runnable, disk) = (take(delay - throttled), take(disk));
        let (channels, asked) =
            Asked::all(evidence, window).into_iter().partition(|of| of.is_accepted);
        Self { running, runnable, throttled, disk, asleep: left, asked, channels, threads }
    }

    /// CPUs' worth of time of processes on this host that the process `target` asks, or those ask: they come with its work.
    pub fn asked_cores(&self, target: Option<u32>) -> f64 {
        let others = all_asked(&self.asked).filter(|asked| asked.other != target);
        let cores = others.filter_map(|asked| Some((asked.other?, asked.cores?)));
        cores.collect::<BTreeMap<_, _>>().values().sum()
    }

    /// Counts the questions on connections that requests share, each of which shows one at most: what was sent there and has no
    /// answer, where they bring one for each of so many exchanges; else it is of something else.
    pub fn by_segments(mut self, exchanges: f64) -> Self {
        let asleep = self.asleep;
        for of in self.asked.iter_mut().chain(&mut self.channels) {
            let ahead = of.ahead.unwrap_or(0.0);
            if of.came.is_some_and(|came| came >= HALFWAY * exchanges)
                && ahead >= SHARED * of.connections
                && (HALFWAY * asleep..=(1.0 + HALFWAY) * asleep).contains(&ahead)
            {
                of.asked = of.asked.max(ahead.min(asleep));
            }
        }
        self.most_asked_first()
    }

    /// What is asleep waits for the one peer to which as many kept sockets are of unknown state, if nothing else ends its wait.
    pub fn by_elimination(self, exchange_s: f64, exchanges: f64) -> Self {
        let rest = self.asleep - self.questions();
        let is_waiting = rest > OF_A_LOG && self.waits_for_events(exchange_s, exchanges);
        let is_it = |of: &Asked| is_waiting && of.untold >= HALFWAY * rest;
        self.asking_the_one(is_it, |one| rest.min(one.untold))
    }

    /// The same of the one peer to which a socket of UDP is kept, by which any number may ask: where so many datagrams came on the
    /// stack that each exchange has an answer, or two; on this host its peer has as many questions. Known sinks answer nothing.
    pub fn by_datagrams(self, came: f64, exchange_s: f64, exchanges: f64) -> Self {
        let rest = self.asleep - self.questions();
        let each = came / exchanges.max(1.0);
        let answers = |of: &Asked| {
            let of_one = if of.process.is_some() { 2.0 } else { 1.0 };
            (EXPLAINED * of_one..=2.0 * of_one * (1.0 + SPLIT)).contains(&each)
        };
        let is_much = rest >= 1.0 && rest >= HALFWAY * self.asleep;
        let is_waiting = is_much && self.waits_for_events(exchange_s, exchanges);
        let is_it = |of: &Asked| is_waiting && of.may_answer();
        self.asking_the_one(is_it, |one| if answers(one) { rest } else { 0.0 })
    }

    /// With so many more questions to the one peer of which this is so. Of several it is not known which is asked.
    fn asking_the_one(
        mut self,
        is_it: impl Fn(&Asked) -> bool,
        more: impl Fn(&Asked) -> f64,
    ) -> Self {
        let mut those = self.asked.iter_mut().filter(|of| is_it(of));
        if let (Some(one), None) = (those.next(), those.next()) {
            one.asked += more(one);
        }
        self.most_asked_first()
    }

    fn most_asked_first(mut self) -> Self {
        self.asked.sort_by(|a, b| b.asked.total_cmp(&a.asked));
        self
    }

    /// Whether its threads can only wait for what comes from others: for events, or to read, and for no timer that is due while
    /// two exchanges take, nor within [`LATER`]. Who waits for another thread without a timeout waits for what that waits for.
    pub fn waits_for_events(&self, exchange_s: f64, exchanges: f64) -> bool {
        self.threads.as_ref().filter(|_| exchange_s < LATER.as_secs_f64()).is_some_and(|of| {
            let timed = of.timed(exchanges).iter().sum::<f64>();
            let others = timed + of.poll_within(2.0 * exchange_s) + of.disk;
            of.idle() + of.read >= HALFWAY && others < HALFWAY
        })
    }

    /// `; its threads: 28.0 in a lock, 4.0 in a timer`; empty where they were not sampled.
    pub fn threads_words(&self) -> String {
        let words = self.threads.as_ref().map(States::words).filter(|words| !words.is_empty());
        words.map_or(String::new(), |words| format!("; its threads: {words}"))
    }

    /// Those who are or may be asked, whoever opened the connection.
    pub fn peers(&self) -> impl Iterator<Item = &Asked> {
        self.asked.iter().chain(&self.channels)
    }

    /// Questions that the target has out, to any peer.
    pub fn questions(&self) -> f64 {
        self.asked.iter().map(|asked| asked.asked).sum()
    }
}

/// Disk flushes under way on average, for each of which a thread waits; 0: unknown, or hardly any is the target's.
fn flushing(evidence: &Evidence, window: &RangeInclusive<Timestamp>) -> f64 {
    let [target, host] =
        [Subject::Target, Subject::Host].map(|of| evidence.of(of).within(window.clone()));
    let own = target.grown(process::DISK_WRITTEN).unwrap_or(0.0);
    let all = host.grown(diskstats::WRITTEN).unwrap_or(f64::INFINITY);
    // A file system writes its journal as well.
    if own > HOLDS * all { host.rate(diskstats::FLUSHING).unwrap_or(0.0) } else { 0.0 }
}

/// These, those whom they ask, and so on.
fn all_asked(these: &[Asked]) -> Box<dyn Iterator<Item = &Asked> + '_> {
    Box::new(these.iter().flat_map(|of| std::iter::once(of).chain(all_asked(&of.onward))))
}
