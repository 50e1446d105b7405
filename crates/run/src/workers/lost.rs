//! What a worker that was lost had, and was to have: slices of its threads that count it as lost, so that the run's
//! account closes.
//!
//! | load | counted as lost |
//! |---|---|
//! | any | what was due and out when its last slice ended |
//! | open loop | what became due from then on, to the run's end |
//! | so many exchanges | what was left of its share |
//!
//! Blind spot: what its threads did since their last slice is not known, and is not counted.

use std::collections::BTreeMap;

use linerate_evidence::{Phase, Slice};
use linerate_model::{Plan, Timestamp};
use linerate_workload::Schedule;

/// What is known of one engine thread of another process.
#[derive(Clone, Copy, Debug, Default)]
pub struct Thread {
    /// Of its last slice.
    index: Option<u32>,
    to: Timestamp,
    phase: Phase,
    in_flight: u64,
    age: u128,
    /// Over all its slices.
    scheduled: u64,
    host: u16,
}

/// Slices of equal index span the same time: from, to and phase.
pub type Spans = BTreeMap<u32, (Timestamp, Timestamp, Phase)>;

impl Thread {
    /// One of this host, of which nothing has come yet.
    pub fn on(host: u16) -> Self {
        Self { host, ..Self::default() }
    }

    /// Its next slice has come.
    pub fn took(&mut self, slice: &Slice) {
        self.index = Some(slice.index);
        self.to = slice.to;
        self.phase = slice.phase;
        self.in_flight = slice.in_flight_at_end;
        self.age = slice.age_at_end;
        self.scheduled += slice.scheduled;
    }

    /// Its slices after the last that has come, where the worker is lost: as other threads had them, from which
    /// `spans` are. `turn` is its number among all threads; `begins` is when the load began, if it did.
    pub fn lost(
        &self,
        plan: &Plan,
        turn: (u16, u16),
        begins: Option<Timestamp>,
        spans: &Spans,
    ) -> Vec<Slice> {
        if self.phase == Phase::Drain && self.index.is_some() {
            // It had ended, but for what was still to be answered.
            return self.closing(turn.0, self.in_flight).into_iter().collect();
        }
        let mut left = self.in_flight;
        let mut due = Due::of(plan, turn, begins, self.scheduled, self.to);
        let mut slices = Vec::new();
        let next = self.index.map_or(0, |index| index + 1);
        for (index, (from, to, phase)) in spans.range(next..) {
            if *phase == Phase::Drain {
                break;
            }
            let mut slice = Slice::new(turn.0, *index, *from);
            (slice.host, slice.to, slice.phase) = (self.host, *to, *phase);
            slice.scheduled = due.until(*to);
            slice.lost = slice.scheduled + std::mem::take(&mut left);
            if slices.is_empty() {
                slice.failed_age = self.age;
            }
            slices.push(slice);
        }
        if slices.is_empty() {
            slices.extend(self.closing(turn.0, left));
        }
        if let (Some(last), count @ 1..) = (slices.last_mut(), due.rest()) {
            last.scheduled += count;
            last.lost += count;
        }
        slices
    }

    /// One that has nothing but what was lost, and is no part of what is judged.
    fn closing(&self, thread: u16, lost: u64) -> Option<Slice> {
        let index = self.index.map_or(0, |index| index + 1);
        let mut slice = Slice::new(thread, index, self.to);
        (slice.host, slice.phase, slice.lost) = (self.host, Phase::Drain, lost);
        Some(slice)
    }
}

/// What was still to become due.
enum Due {
    /// By the clock.
    Times(Box<Schedule>),
    /// Of a number, whenever the one before was answered.
    Number(u64),
    /// Nothing that anybody could count.
    Unknown,
}

impl Due {
    fn of(
        plan: &Plan,
        (thread, threads): (u16, u16),
        begins: Option<Timestamp>,
        scheduled: u64,
        after: Timestamp,
    ) -> Self {
        if let Some(all) = plan.until.exchanges {
            let (thread, threads) = (u64::from(thread), u64::from(threads.max(1)));
            let share = all / threads + u64::from(thread < all % threads);
            return Due::Number(share.saturating_sub(scheduled));
        }
        let (Some(rate), Some(begins)) = (plan.load.rate, begins) else { return Due::Unknown };
        let (load, turn) = (&plan.load, (thread, threads));
        let mut schedule = Schedule::new(
            begins,
            rate,
            load.arrivals,
            load.ramp,
            turn,
            plan.engine.seed,
            &load.stages,
        );
        while schedule.peek() < after {
            schedule.advance();
        }
        Due::Times(Box::new(schedule))
    }

    fn until(&mut self, to: Timestamp) -> u64 {
        let Due::Times(schedule) = self else { return 0 };
        let mut count = 0;
        while schedule.peek() < to {
            schedule.advance();
            count += 1;
        }
        count
    }

    fn rest(&self) -> u64 {
        if let Due::Number(left) = self { *left } else { 0 }
    }
}

#[cfg(test)]
mod tests {
    use linerate_evidence::{Evidence, Packed, ValidityState, live_histogram, summarise};

    use super::*;

    fn plan(rest: &str) -> Plan {
        Plan::from_toml(&format!("[target]\naddress = 'a:1'\n{rest}")).unwrap()
    }

    const WIDTH: u64 = 100_000_000;

    /// 10 exchanges of 1 ms in 100 ms, and one out at its end.
    fn slice(thread: u16, index: u32) -> Slice {
        let mut times = live_histogram();
        times.record_n(1_000_000, 10).unwrap();
        let mut slice = Slice::new(thread, index, Timestamp(u64::from(index) * WIDTH));
        slice.to = Timestamp(slice.from.0 + WIDTH);
        slice.scheduled = if index == 0 { 11 } else { 10 };
        (slice.answered, slice.in_flight_at_end) = (10, 1);
        (slice.service, slice.latency) = (Packed::pack(&times), Packed::pack(&times));
        slice.in_flight_area = 10_000_000;
        slice
    }

    fn spans(count: u32) -> Spans {
        let of = |index: u32| {
            let from = u64::from(index) * WIDTH;
            (index, (Timestamp(from), Timestamp(from + WIDTH), Phase::Load))
        };
        (0..count).map(of).collect()
    }

    /// Of two threads, one had five of twenty slices.
    fn run(plan: &Plan) -> Evidence {
        let mut evidence = Evidence::default();
        let mut thread = Thread::on(0);
        for index in 0..20 {
            evidence.slices.push(slice(0, index));
            if index < 5 {
                let slice = slice(1, index);
                thread.took(&slice);
                evidence.slices.push(slice);
            }
        }
        evidence.slices.extend(thread.lost(plan, (1, 2), Some(Timestamp(0)), &spans(20)));
        evidence
    }

    #[test]
    fn what_was_due_of_an_open_loop_and_never_made_is_lost_by_the_clock() {
        let plan = plan("[load]\nrate = 200\n");
        let load = summarise(&run(&plan), &plan);
        // A hundred a second of 1.5 s, and the one that was out.
        assert_eq!(load.lost, 151);
        assert_eq!(load.scheduled, load.answered + load.lost + load.in_flight_at_end);
        assert!(load.validity.state <= ValidityState::Suspect, "{:?}", load.validity.reasons);
    }

    #[test]
    fn of_a_closed_loop_only_what_was_out_is_known_and_of_a_number_all_of_it() {
        let closed = plan("");
        let load = summarise(&run(&closed), &closed);
        assert_eq!(load.lost, 1);
        assert_eq!(load.scheduled, load.answered + load.lost + load.in_flight_at_end);
        let numbered = plan("[until]\nexchanges = 1000\n");
        let load = summarise(&run(&numbered), &numbered);
        // 500 less the 51 that became due, and the one of them that was out.
        assert_eq!(load.lost, 449 + 1);
        assert_eq!(load.scheduled, load.answered + load.lost + load.in_flight_at_end);
    }

    #[test]
    fn one_that_never_began_has_lost_all_of_its_share_and_one_that_had_ended_nothing_but_the_rest()
    {
        let open = plan("[load]\nrate = 200\n");
        let never = Thread::on(3).lost(&open, (0, 2), Some(Timestamp(0)), &spans(20));
        assert_eq!(never.iter().map(|slice| slice.lost).sum::<u64>(), 200);
        assert!(never.iter().all(|slice| slice.host == 3));
        let mut last = slice(0, 19);
        last.phase = Phase::Drain;
        let mut ended = Thread::on(0);
        ended.took(&last);
        let rest = ended.lost(&open, (0, 2), Some(Timestamp(0)), &spans(20));
        assert_eq!(
            rest.iter().map(|slice| (slice.lost, slice.phase)).collect::<Vec<_>>(),
            [(1, Phase::Drain)]
        );
    }
}
