//! Each limit by what only it shows.

use std::time::Duration;

use linerate_model::Timestamp;

use super::*;
use crate::reading::{Queue, Reading, Roof};

/// What failed, the percentile that was above the gate, and what was read: at the moment, and a second later.
#[derive(Default)]
struct Case {
    failed: &'static [(&'static str, u64)],
    p99: Option<u64>,
    at: Reading,
    later: Option<Queue>,
}

const LOGIN: (&str, u64) = ("timed out while logging in", 5);
const CONNECT: (&str, u64) = ("timed out while connecting", 5);

fn case(failed: &'static [(&'static str, u64)]) -> Case {
    let places = Roof { id: "target.descriptors", what: "descriptors", used: 300, most: 1_000 };
    let at = Reading {
        at: Timestamp(1_000_000_000),
        roofs: vec![places],
        cpus: 2,
        ..Reading::default()
    };
    Case { failed, at, ..Case::default() }
}

impl Case {
    fn counted(mut self, counter: &'static str, grown: u64) -> Self {
        self.at.counters.insert(counter, grown);
        self
    }

    fn full(mut self) -> Self {
        self.at.roofs[0].used = 1_000;
        self
    }

    fn thread(mut self, ms: u64) -> Self {
        self.at.threads.insert(7, ms * 1_000_000);
        self
    }

    fn engine(mut self, ms: u64) -> Self {
        self.at.engine.insert(8, ms * 1_000_000);
        self
    }

    fn queue(mut self, queued: u64, waiting: u64, phantoms: u64) -> Self {
        self.at.queue = Some(Queue { queued, waiting, phantoms });
        self.later = self.at.queue;
        self
    }

    fn later(mut self, queued: u64) -> Self {
        self.later = Some(Queue { queued, ..Queue::default() });
        self
    }

    fn died(mut self) -> Self {
        self.at.died = Some("signal 9".into());
        self
    }

    fn slow(mut self) -> Self {
        self.p99 = Some(2_000_000_000);
        self
    }

    fn named(self) -> Limit {
        let zero = |counters: &std::collections::BTreeMap<&'static str, u64>| {
            counters.keys().map(|name| (*name, 0)).collect()
        };
        let before = Reading { counters: zero(&self.at.counters), cpus: 2, ..Reading::default() };
        let later =
            Reading { at: Timestamp(2_000_000_000), queue: self.later, ..Reading::default() };
        let failed = self.failed.iter().map(|(cause, count)| ((*cause).to_owned(), *count));
        let not_accepted = self.at.not_accepted();
        let (failed, p99_ns) = (failed.collect(), self.p99);
        let met = Met { online: 950, came: 100, not_accepted, failed, p99_ns };
        let (met, at) = (&met, &self.at);
        let gate = Duration::from_secs(1);
        name(&Seen { met, before: &before, at, later: &later, under_way: 40, gate })
    }

    #[track_caller]
    fn is(self, id: &str) {
        let named = self.named();
        assert_eq!(named.id, id, "{named:?}");
    }
}

#[test]
fn each_limit_is_named_by_what_only_it_shows() {
    case(&[("descriptors while connecting", 3)]).full().is("engine.descriptors");
    case(&[("lost with its engine process while online", 9), LOGIN]).full().is("engine.process");
    case(&[("no-address while connecting", 3)]).is("engine.source_ports");
    case(&[LOGIN]).full().is("target.descriptors");
    case(&[LOGIN]).counted("listen.overflows", 40).is("target.backlog");
    // Another service's queue.
    let others = case(&[LOGIN]).counted("listen.overflows", 40).counted("listen.drops", 0);
    others.is("unexplained");
    case(&[("turned away: full", 3)]).is("target.turns_away");
    case(&[("refused while connecting", 3)]).is("target.refuses");
    let lost = &[("reset while online", 900)];
    case(lost).died().is("target.died");
    case(lost).died().counted("target.oom_kills", 1).is("target.memory");
}

#[test]
fn connects_without_an_answer_are_told_apart_by_who_dropped_them() {
    case(&[CONNECT]).queue(0, 0, 0).counted("conntrack.drops", 9).is("host.conntrack");
    case(&[CONNECT]).queue(0, 0, 0).is("host.packet_filter");
    case(&[CONNECT]).queue(6, 6, 0).later(2).counted("listen.overflows", 9).is("target.backlog");
    // On another host nothing of it is seen.
    case(&[CONNECT]).is("unexplained");
}

#[test]
fn who_accepts_slowly_is_told_from_who_accepts_nobody_and_from_who_computes() {
    case(&[LOGIN]).queue(100, 60, 0).later(50).is("target.acceptor");
    let says = case(&[LOGIN]).queue(100, 60, 0).later(50).named().says;
    assert!(says.contains("100 connections") && says.contains("accepts 50 a second"), "{says}");
    case(&[LOGIN]).queue(100, 60, 0).is("target.accept_suspended");
    // Beyond its backlog too.
    let full = case(&[LOGIN]).queue(6, 6, 0).counted("listen.overflows", 9);
    full.is("target.accept_suspended");
    // A queue of a few, while forty wait for something else.
    case(&[LOGIN]).queue(3, 3, 0).later(0).is("unexplained");
    case(&[LOGIN]).queue(100, 60, 0).later(50).thread(970).is("target.login_cpu");
}

#[test]
fn bare_connections_that_nobody_accepts_are_seen_too() {
    case(&[]).queue(30, 30, 0).is("target.accept_suspended");
    case(&[]).queue(300, 300, 0).later(250).is("target.acceptor");
    let phantoms = case(&[]).queue(6, 6, 40).later(0).counted("listen.overflows", 40);
    phantoms.counted("syncookies.sent", 20).is("target.phantoms");
}

#[test]
fn busy_threads_and_cpus_are_told_apart() {
    case(&[LOGIN]).thread(950).is("target.login_cpu");
    let says = case(&[LOGIN]).thread(950).counted("target.cpu_ns", 950_000_000).named().says;
    assert!(says.contains("9.5 ms of CPU time for each of 100 users"), "{says}");
    case(&[]).slow().thread(950).is("target.thread");
    let busy = |case: Case| case.counted("host.busy_ns", 1_950_000_000);
    busy(case(&[LOGIN])).is("host.neighbours");
    busy(case(&[LOGIN])).counted("target.cpu_ns", 1_200_000_000).is("target.login_cpu");
    busy(case(&[]).slow()).is("host.neighbours");
    busy(case(&[]).slow()).counted("target.cpu_ns", 1_200_000_000).is("host.cpu");
    // The engine computes the other half of a login with SCRAM.
    let both = busy(case(&[LOGIN])).engine(970).counted("engine.cpu_ns", 970_000_000);
    both.counted("target.cpu_ns", 900_000_000).is("engine.cpu");
}

#[test]
fn what_nothing_explains_is_not_explained() {
    case(&[LOGIN]).is("unexplained");
    case(&[]).slow().is("unexplained");
    // A queue that dropped connects which came again in time has failed nobody.
    case(&[]).slow().counted("listen.overflows", 40).is("unexplained");
}
