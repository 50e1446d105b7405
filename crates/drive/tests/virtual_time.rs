//! The driver in virtual time: whole loads against servers that are a few lines each, without a socket.
#![allow(clippy::unwrap_used)]

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::sync::Arc;

use linerate_drive::{Action, Driver, Share, State, Then, slice_width};
use linerate_evidence::{Live, Slice};
use linerate_model::{Plan, Timestamp};
use linerate_workload::Answer;
use proptest::prelude::*;

const MS: u64 = 1_000_000;
const SECOND: u64 = 1_000 * MS;

/// What a server does with a request that came at this instant.
#[derive(Clone, Copy, Debug)]
enum Does {
    Answer {
        after: u64,
    },
    /// And closes the connection.
    AnswerLast {
        after: u64,
    },
    Fail {
        after: u64,
    },
    Nothing,
    /// The exchange is over as it begins: a block of a stream that the kernel took.
    AtOnce,
}

/// What it does with a connect.
#[derive(Clone, Copy, Debug)]
enum Accepts {
    After(u64),
    RefusesAfter(u64),
    Unopened,
    Never,
}

#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
enum Event {
    Ready,
    Refused,
    Answer { last: bool },
    Failed,
}

/// When, in which order, on which connection and which of its sockets, and what.
type Due = (u64, u64, usize, u32, Event);

/// A driver, a clock and a server.
struct World<S> {
    driver: Driver,
    at: u64,
    agenda: BinaryHeap<Reverse<Due>>,
    order: u64,
    /// By connection: raised when it is closed, so that what was on its way is not told any more.
    generations: Vec<u32>,
    server: S,
    /// How many actions are taken before time is read again.
    most: usize,
    outcome: Outcome,
}

trait Server {
    fn accepts(&mut self, _at: u64) -> Accepts {
        Accepts::After(MS / 10)
    }
    fn does(&mut self, at: u64, index: usize) -> Does;
}

/// Serves each alone, after so long.
struct Each(u64);

impl Server for Each {
    fn does(&mut self, _at: u64, _index: usize) -> Does {
        Does::Answer { after: self.0 }
    }
}

impl<S: Server> World<S> {
    fn new(plan: &Plan, threads: (u16, u16), servers: u16, server: S) -> Self {
        let share = Share { thread: threads.0, threads: threads.1, host: 0, servers };
        let driver = Driver::new(Arc::new(plan.clone()), share);
        Self {
            generations: vec![0; driver.connections()],
            driver,
            at: SECOND,
            agenda: BinaryHeap::new(),
            order: 0,
            server,
            most: usize::MAX,
            outcome: Outcome::default(),
        }
    }

    fn tell(&mut self, after: u64, index: usize, event: Event) {
        self.order += 1;
        let generation = self.generations[index];
        self.agenda.push(Reverse((self.at + after, self.order, index, generation, event)));
    }

    fn ask(&mut self, index: usize) {
        match self.server.does(self.at, index) {
            Does::Answer { after } => self.tell(after, index, Event::Answer { last: false }),
            Does::AnswerLast { after } => self.tell(after, index, Event::Answer { last: true }),
            Does::Fail { after } => self.tell(after, index, Event::Failed),
            Does::Nothing => {}
            Does::AtOnce => {
                let at = Timestamp(self.at);
                let then = self.driver.on_answer(index, Answer::default(), at, at);
                assert_eq!(then, Then::Keep);
            }
        }
    }

    fn close(&mut self, index: usize) {
        self.generations[index] += 1;
    }

    /// Whether there was anything to be done.
    fn act(&mut self) -> bool {
        for taken in 0..self.most {
            let Some(action) = self.driver.poll(Timestamp(self.at)) else { return taken > 0 };
            match action {
                Action::Open(index) | Action::OpenWith(index) => {
                    match self.server.accepts(self.at) {
                        Accepts::After(after) => self.tell(after, index, Event::Ready),
                        Accepts::RefusesAfter(after) => self.tell(after, index, Event::Refused),
                        Accepts::Unopened => {
                            self.driver.on_unopened(index, "no-address", Timestamp(self.at));
                        }
                        Accepts::Never => {}
                    }
                }
                Action::Begin(index) => self.ask(index),
                Action::Close(index) => self.close(index),
                Action::Slice(slice) => {
                    // Handed over before any exchange of the next one is over: the caller adds its CPU time.
                    assert_eq!(self.driver.slice().answered, 0);
                    self.outcome.add(&slice);
                }
            }
        }
        true
    }

    fn on(&mut self, index: usize, event: Event) {
        let at = Timestamp(self.at);
        let then = match event {
            Event::Ready => {
                self.driver.on_connected(index, at);
                self.driver.on_ready(index, at)
            }
            Event::Refused | Event::Failed => {
                let why = if event == Event::Refused { "refused" } else { "reset" };
                self.close(index);
                self.driver.on_failed(index, why, at);
                Then::Keep
            }
            Event::Answer { last } => {
                assert_eq!(self.driver.state(index), State::Busy);
                self.driver.on_answer(index, Answer { last, ..Answer::default() }, at, at)
            }
        };
        match then {
            Then::Keep => {}
            Then::Begin => self.ask(index),
            Then::Close => self.close(index),
        }
    }

    /// All of it; the load begins once every connection had its time to open.
    fn run(mut self) -> Outcome {
        let (began, mut asked) = (self.at, 0);
        self.driver.start(Timestamp(self.at), slice_width(None));
        loop {
            // Chosen: as the engine's threads do, somewhat later than all are open.
            if !self.driver.has_begun() && self.at >= began + SECOND {
                self.driver.begin_load(Timestamp(self.at), Timestamp(self.at));
            }
            let acted = self.act();
            if self.driver.is_over(Timestamp(self.at)) {
                break;
            }
            let mut next = self.driver.next(Timestamp(self.at)).0;
            if !self.driver.has_begun() {
                next = next.min(began + SECOND);
            }
            if let Some(Reverse((due, ..))) = self.agenda.peek() {
                next = next.min(*due);
            }
            // One that asks again and again at an instant would keep a CPU busy.
            asked = if next <= self.at && !acted { asked + 1 } else { 0 };
            assert!(asked < 1_000, "the driver waits for an instant that is past");
            self.at = self.at.max(next);
            while let Some(Reverse((due, _, index, generation, event))) =
                self.agenda.peek().copied()
                && due <= self.at
            {
                self.agenda.pop();
                if self.generations[index] == generation {
                    self.on(index, event);
                }
            }
        }
        let last = self.driver.finish(Timestamp(self.at));
        self.outcome.add(&last);
        self.outcome.left = last.in_flight_at_end;
        self.outcome
    }
}

/// A run's sums.
#[derive(Default)]
struct Outcome {
    scheduled: u64,
    answered: u64,
    failed: u64,
    timed_out: u64,
    left: u64,
    opened: u64,
    /// From the start to each slice's end, and how many were open and answered. Unit of time: ns.
    course: Vec<(u64, u64, u64)>,
    started: u64,
    latency: Live,
    service: Live,
    silence: Live,
}

impl Outcome {
    fn add(&mut self, slice: &Slice<Live>) {
        if self.course.is_empty() {
            self.started = slice.from.0;
        }
        self.scheduled += slice.scheduled;
        self.answered += slice.answered;
        self.failed += slice.errors.values().sum::<u64>();
        self.timed_out += slice.timed_out;
        self.opened += slice.opened;
        self.course.push((slice.to.0 - self.started, slice.open_at_end, slice.answered));
        for (into, from) in [
            (&mut self.latency, &slice.latency),
            (&mut self.service, &slice.service),
            (&mut self.silence, &slice.silence),
        ] {
            for value in from.recorded().iter().flat_map(|it| it.iter_recorded()) {
                into.record_n(value.value_iterated_to(), value.count_since_last_iteration());
            }
        }
    }

    /// The law that each exchange which became due is accounted for.
    fn assert_conserved(&self) {
        let accounted = self.answered + self.failed + self.timed_out + self.left;
        assert_eq!(self.scheduled, accounted);
    }
}

fn quantile(of: &Live, q: f64) -> u64 {
    of.recorded().unwrap().value_at_quantile(q)
}

fn plan(rest: &str) -> Plan {
    let workload = "[workload]\nkind = 'rr'\nrequest = 64\nresponse = 64\n";
    Plan::from_toml(&format!("[target]\naddress = '127.0.0.1:1'\n{workload}{rest}")).unwrap()
}

fn run(rest: &str, server: impl Server) -> Outcome {
    World::new(&plan(rest), (0, 1), 1, server).run()
}

#[test]
fn a_closed_loop_makes_what_little_says_to_the_exchange() {
    // 8 connections, 5 ms each, 10 s: 2,000 each.
    let outcome = run("[load]\nconnections = 8\n[until]\nduration = '10s'\n", Each(5 * MS));
    outcome.assert_conserved();
    assert_eq!(outcome.answered, 16_000);
    assert_eq!(outcome.opened, 8);
}

struct AtOnce;

impl Server for AtOnce {
    fn does(&mut self, _at: u64, _index: usize) -> Does {
        Does::AtOnce
    }
}

#[test]
fn exchanges_that_are_over_as_they_begin_are_all_counted_however_few_actions_are_taken_at_once() {
    for most in [1, 3, 1_000] {
        let plan = plan("[load]\nconnections = 3\n[until]\nexchanges = 2000\n");
        let outcome = World { most, ..World::new(&plan, (0, 1), 1, AtOnce) }.run();
        outcome.assert_conserved();
        assert_eq!((outcome.scheduled, outcome.answered), (2_000, 2_000), "{most}");
    }
}

/// Serves one at a time, `each`, and stops for a while.
struct Stalls {
    each: u64,
    from: u64,
    to: u64,
    free: u64,
}

impl Server for Stalls {
    fn does(&mut self, at: u64, _index: usize) -> Does {
        let mut begins = at.max(self.free);
        if (self.from..self.to).contains(&begins) {
            begins = self.to;
        }
        self.free = begins + self.each;
        Does::Answer { after: self.free - at }
    }
}

#[test]
fn a_stall_of_the_server_is_in_the_latency_of_all_that_were_due_meanwhile() {
    // 100/s on one connection for 100 s, and a server that stands still for 10 s: a tenth of all was due then, and waited
    // 5 s in the mean. In service times, which omit them, it is one exchange of 10,000.
    let stalls = Stalls { each: MS, from: 40 * SECOND, to: 50 * SECOND, free: 0 };
    let load = "[load]\nconnections = 1\nrate = 100\ntimeout = '60s'\n[until]\nduration = '100s'\n";
    let outcome = run(load, stalls);
    outcome.assert_conserved();
    assert_eq!(outcome.scheduled, 10_000);
    assert!(quantile(&outcome.service, 0.999) < 2 * MS);
    // The queue of 1,000 is served within 1.1 s: 11 % waited, from 10 s down to nothing.
    assert!(quantile(&outcome.latency, 0.88) < 2 * MS);
    let p95 = quantile(&outcome.latency, 0.95) as f64 / SECOND as f64;
    // Waits fall evenly over 11.1 s of arrivals from 10 s to 0, and 5 % of all wait longer than 10 x (1 - 5 / 11.1).
    assert!((p95 - 5.5).abs() < 0.2, "{p95}");
}

#[test]
fn that_none_of_those_under_way_is_answered_for_a_while_is_kept_with_how_long_it_lasted() {
    // 4 connections at a server that serves one at a time, 0.1 ms each, and stands still for 200 ms once.
    let stalls = Stalls { each: MS / 10, from: 4 * SECOND, to: 4 * SECOND + 200 * MS, free: 0 };
    let outcome = run("[load]\nconnections = 4\n[until]\nduration = '5s'\n", stalls);
    assert_eq!(outcome.silence.recorded().unwrap().len(), 1);
    assert!(quantile(&outcome.silence, 1.0).abs_diff(200 * MS) < MS);
    // 10 a second, 5 ms each: what passes without a request is no silence.
    let load = "[load]\nconnections = 1\nrate = 10\n[until]\nduration = '5s'\n";
    let outcome = run(load, Each(5 * MS));
    assert!(quantile(&outcome.silence, 1.0) < 6 * MS);
}

#[test]
fn connections_of_a_ramp_open_evenly_over_it() {
    let load = "[load]\nconnections = 1000\nramp = '10s'\n[until]\nduration = '2s'\n";
    let outcome = run(load, Each(50 * MS));
    outcome.assert_conserved();
    for (at, open, _) in outcome.course.iter().filter(|(at, ..)| *at <= 12 * SECOND) {
        let expected = (*at as f64 / SECOND as f64 * 100.0).min(1_000.0);
        assert!((*open as f64 - expected).abs() <= 2.0, "{at}: {open}");
    }
}

#[test]
fn stages_hold_their_levels_to_the_connection() {
    let stages =
        "stages = [{ length = '3s', connections = 10 }, { length = '3s', connections = 500 }]";
    let load = format!("[load]\nconnections = 40\n{stages}\n[until]\nduration = '3s'\n");
    let outcome = run(&load, Each(20 * MS));
    outcome.assert_conserved();
    for (at, open, _) in &outcome.course {
        // The load begins after 1 s; 500 are opened 32 at a time, in 2 ms.
        let level = match at / (SECOND / 2) {
            0..=7 => 10,
            8 | 14 | 20.. => continue,
            9..=13 => 500,
            _ => 40,
        };
        assert_eq!(*open, level, "{at}");
    }
}

#[test]
fn a_hundred_thousand_users_that_think_are_minutes_of_load_in_seconds() {
    // 100,000 / (60 s + 20 ms) = 1,666/s for a minute.
    let load = "[load]\nconnections = 100000\nthink = 'exp:60s'\n[until]\nduration = '60s'\n";
    let mut outcome = Outcome::default();
    for thread in 0..4 {
        let one = World::new(&plan(load), (thread, 4), 1, Each(20 * MS)).run();
        one.assert_conserved();
        outcome.answered += one.answered;
        outcome.opened += one.opened;
        // One after the other where the engine has threads beside each other: the last of a slice is open in all.
        assert_eq!(one.course[one.course.len() - 2].1, 25_000);
    }
    assert_eq!(outcome.opened, 100_000);
    let expected = 100_000.0 * 60.0 / 60.02;
    assert!((outcome.answered as f64 / expected - 1.0).abs() < 0.02, "{}", outcome.answered);
}

#[test]
fn what_is_out_at_the_end_may_be_answered_for_a_second_and_counts_as_its_age_otherwise() {
    for (service, answered) in [(900 * MS, 4), (1_600 * MS, 0)] {
        let load = "[load]\nconnections = 4\n[until]\nduration = '500ms'\n";
        let outcome = run(load, Each(service));
        outcome.assert_conserved();
        assert_eq!((outcome.answered, outcome.left), (answered, 4 - answered));
    }
}

/// Whatever comes to mind, from a seed.
struct Erratic(fastrand::Rng);

impl Server for Erratic {
    fn accepts(&mut self, _at: u64) -> Accepts {
        let after = self.0.u64(0..20 * MS);
        match self.0.u8(0..20) {
            0 => Accepts::Unopened,
            1 => Accepts::Never,
            2 => Accepts::RefusesAfter(after),
            _ => Accepts::After(after),
        }
    }

    fn does(&mut self, _at: u64, _index: usize) -> Does {
        let after = self.0.u64(0..400 * MS);
        match self.0.u8(0..20) {
            0 => Does::Nothing,
            1 => Does::Fail { after },
            2 | 3 => Does::AnswerLast { after },
            _ => Does::Answer { after },
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]
    #[test]
    fn whatever_a_server_does_every_exchange_is_accounted_for(
        seed: u64,
        connections in 1_u32..40,
        servers in 1_u16..4,
        kind in 0_usize..6,
        crr: bool,
        count: bool,
        most in 1_usize..5,
    ) {
        let load = [
            "", "rate = 300", "rate = 300\narrivals = 'poisson'", "think = 'exp:50ms'", "ramp = '1s'",
            "stages = [{ length = '1s', connections = 3 }, { length = '1s', connections = 50 }]",
        ][kind];
        // Several servers: neither clients that think nor levels, as plans have it.
        let servers = if matches!(kind, 3 | 5) { 1 } else { servers };
        let until = if count { "exchanges = 500\nduration = '20s'" } else { "duration = '3s'" };
        let mut text = format!(
            "[load]\nconnections = {connections}\ntimeout = '300ms'\noverload = true\n{load}\n[until]\n{until}\n"
        );
        if kind != 1 && kind != 2 {
            text = text.replace("overload = true\n", "");
        }
        let mut plan = plan(&text);
        if crr {
            let (request, response) = (linerate_model::Bytes(64), linerate_model::Bytes(64));
            plan.workload = linerate_model::Workload::Crr {
                framing: linerate_model::Framing::Fixed, request, response,
            };
        }
        let server = Erratic(fastrand::Rng::with_seed(seed));
        World { most, ..World::new(&plan, (0, 1), servers, server) }.run().assert_conserved();
    }
}
