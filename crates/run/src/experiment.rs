//! The experiment after the main phase: what does the same service do with other load?
//!
//! | step | load | length |
//! |---|---|---|
//! | spaced | an exchange at a time on one connection, idle pauses between | 1.5 s at most |
//! | alone | one connection | an eighth of the main phase, 0.4 to 1.5 s |
//! | half | half of the connections | a quarter, 0.6 to 3 s |
//! | again | all of them | as `half` |
//!
//! None is shorter than twice the longest exchange of the main phase, 3 s at most: a service that answers in bursts (a
//! limiter that counts by the second) must show one. The last three go on until their throughput is known to a tenth,
//! for half of the main phase, if that is not short, and 3 s at most: one that stops for a while now and then is met at that several times.
//!
//! Clients that think do so in the last two; where that leaves them fewer than 30 answers, they are left out.
//!
//! Of streams there is no first, and of a single one nothing. An open loop that was answered in time has only the first: how
//! much it asks is not the connections' to say. One that was not, and had all its connections busy, was a closed loop of
//! them, and its steps are closed loops. Between steps the server is given time to close its ends, so that no step has the
//! connections of the one before.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use linerate_engine::{Job, Preflight, Spacing, now};
use linerate_evidence::{Phase, Slice, StepKind, live_histogram};
use linerate_model::{Client, Plan};
use linerate_probe::ServerEnds;

use crate::limits;

// Chosen: a tenth of a step at its shortest; a server that keeps its ends for longer keeps them for good.
const CLOSING: Duration = Duration::from_millis(200);

// Chosen: where the server's ends can't be seen: two round trips of a continent.
const CLOSING_UNSEEN: Duration = Duration::from_millis(50);

// Chosen: less than three of a run's slices say nothing of its rate.
const SHORTEST_MAIN: Duration = Duration::from_millis(300);

// Chosen: connections of the main phase were opened before; where they take longer now, the step is given up.
const OPENING: Duration = Duration::from_secs(1);

/// The longest step.
// Chosen: a run's user waits for it.
const LONGEST: Duration = Duration::from_secs(3);

// Chosen: twenty batches and the part that is cut are 25 slices; 5 ms hold some exchanges of any service that
// answers a thousand a second.
const SLICES: u32 = 30;
const NARROWEST: Duration = Duration::from_millis(5);

/// After a main phase that is shorter no step goes on.
// Chosen: whoever asks for so little does not want to wait as long again.
const QUICK: Duration = Duration::from_millis(3500);

/// A step goes on until half of its throughput's 95 % interval is this share of it.
// Chosen: a tenth of two phases' throughput leaves an elasticity between them +- 0.2.
pub(crate) const KNOWN: f64 = 0.1;

/// Of a step of this length, what is cut as warm-up at least; its first wave is as well, which finds caches and windows of
/// connections that were just opened.
// Chosen: enough for the service to notice that its load has changed.
pub(crate) const WARM_UP: f64 = 0.2;

/// As `linerate_account::chosen`: a rate is carried, and a resource full.
const CARRIED: f64 = 0.97;
const BUSY: f64 = 0.9;

// Chosen: an interval of a tenth, where times differ by a third of their mean.
const EXCHANGES: usize = 30;
const SPACED_LONGEST: Duration = Duration::from_millis(1500);

// Chosen: a limiter that gives a token back each 20 ms is one of 50/s or more; three times its time lets a service
// come to rest that works on after its answer.
const SHORTEST_PAUSE: Duration = Duration::from_millis(20);

/// One step as it is to be made.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Planned {
    pub kind: StepKind,
    pub connections: u32,
    /// Of its load at least, warm-up included.
    pub length: Duration,
    /// The same at most, where its throughput is not known well before.
    pub most: Duration,
}

/// The steps after a main phase of these slices; none where it tells too little to be worth them.
pub(crate) fn steps(plan: &Plan, slices: &[Slice]) -> Vec<Planned> {
    let load = slices.iter().filter(|slice| slice.phase == Phase::Load);
    let (from, to) =
        load.fold((u64::MAX, 0), |(from, to), slice| (from.min(slice.from.0), to.max(slice.to.0)));
    let length = Duration::from_nanos(to.saturating_sub(from));
    let answered = slices.iter().any(|slice| slice.answered > 0);
    if !plan.until.check || plan.engine.client != Client::Own || !answered || length < SHORTEST_MAIN
    {
        return Vec::new();
    }
    let all = plan.load.connections;
    let longer = if length < QUICK { Duration::ZERO } else { LONGEST.min(length / 2) };
    let step = |kind, connections, least: Duration| Planned {
        kind,
        connections,
        length: least,
        most: least.max(longer),
    };
    let mut steps = vec![step(StepKind::Spaced, 1, SPACED_LONGEST)];
    if plan.is_open_loop() && !is_closed_by_its_connections(plan, slices) {
        return steps;
    }
    if plan.is_stream() {
        // A block with a pause before it finds an empty buffer; and one stream is alone already.
        steps.clear();
        if all == 1 {
            return steps;
        }
    }
    let shortest = (longest_exchange(slices) * 2).min(LONGEST);
    let bounded = |part: u32, least: u64, most: Duration| {
        (length / part).clamp(Duration::from_millis(least), most).max(shortest)
    };
    steps.push(step(StepKind::Alone, 1, bounded(8, 400, LONGEST / 2)));
    if all >= 2 {
        let main = length.as_secs_f64();
        let length = bounded(4, 600, LONGEST);
        let answered: u64 = slices.iter().map(|slice| slice.answered).sum();
        let expected = answered as f64 / main * length.as_secs_f64() / 2.0;
        if plan.load.think.is_some() && expected < EXCHANGES as f64 {
            return steps;
        }
        steps.push(step(StepKind::Half, all.div_ceil(2), length));
        steps.push(step(StepKind::Again, all, length));
    }
    steps
}

/// Whether an open loop was answered too late for its connections: in its second half nearly all were busy at all times.
fn is_closed_by_its_connections(plan: &Plan, slices: &[Slice]) -> bool {
    let all = || slices.iter().filter(|slice| slice.phase == Phase::Load);
    let begins = all().map(|slice| slice.from.0).min().unwrap_or(0);
    let ends = all().map(|slice| slice.to.0).max().unwrap_or(0);
    let middle = begins.midpoint(ends);
    // Each thread has slices of its own.
    let load = || all().filter(|slice| slice.from.0 >= middle);
    let sum = |of: fn(&Slice) -> f64| load().map(of).sum::<f64>();
    let (due, answered) = (sum(|of| of.scheduled as f64), sum(|of| of.answered as f64));
    let busy = sum(|of| of.in_flight_area as f64) / ends.saturating_sub(middle).max(1) as f64;
    answered < CARRIED * due && busy >= BUSY * f64::from(plan.load.connections)
}

/// Of those that were answered.
fn longest_exchange(slices: &[Slice]) -> Duration {
    let mut all = live_histogram();
    slices.iter().for_each(|slice| slice.service.add_to(&mut all));
    Duration::from_nanos(all.max())
}

/// The engine's job for a closed loop of the step.
pub(crate) fn job(main: &Job, step: &Planned) -> Job {
    let mut plan = Plan::clone(&main.plan);
    plan.load.connections = step.connections;
    plan.load.ramp = Duration::ZERO;
    plan.load.rate = None;
    plan.load.stages.clear();
    // What one takes alone is asked without pause.
    plan.load.think = plan.load.think.filter(|_| step.kind != StepKind::Alone);
    plan.until.duration = Some(step.most);
    plan.until.exchanges = None;
    // As many processes as in the main phase, as far as there are connections for.
    let processes =
        main.plan.engine.processes.min(u16::try_from(step.connections).unwrap_or(u16::MAX));
    plan.engine.processes = processes;
    let threads = limits::threads(&plan, main.hosts.len(), processes).min(main.threads);
    Job {
        threads: threads - threads % processes.max(1),
        plan: Arc::new(plan),
        stop: Arc::new(AtomicBool::new(false)),
        slice: Some((step.length / SLICES).max(NARROWEST)),
        ..main.clone()
    }
}

/// The job of single exchanges, and how far apart they are.
pub(crate) fn spacing(main: &Job, preflight: &Preflight) -> (Job, Spacing) {
    let alone = preflight.typical();
    let mut plan = Plan::clone(&main.plan);
    // A server that hangs now is not waited for.
    plan.load.timeout = plan.load.timeout.min((alone * 4).max(SPACED_LONGEST));
    let job = Job { plan: Arc::new(plan), stop: Arc::new(AtomicBool::new(false)), ..main.clone() };
    let pause = (alone * 3).max(SHORTEST_PAUSE);
    (job, Spacing { pause, count: EXCHANGES, longest: SPACED_LONGEST })
}

/// How long a step may take to open its connections, where those of the main phase took so long.
pub(crate) fn patience(opening: Duration) -> Duration {
    OPENING.max(opening.mul_f64(1.5))
}

/// Waits until the server has closed what it had of the step before.
pub(crate) struct Closing {
    /// None: it is on another host, or the kernel does not tell.
    ends: Option<ServerEnds>,
    /// What there was before the load: others' connections.
    before: usize,
}

impl Closing {
    /// Asked before the load begins.
    pub(crate) fn of(ends: Option<ServerEnds>) -> Self {
        let mut closing = Self { ends, before: 0 };
        closing.before = closing.count().unwrap_or(0);
        closing
    }

    pub(crate) fn wait(&mut self, cancel: &AtomicBool) {
        let began = now();
        let longest = if self.ends.is_some() { CLOSING } else { CLOSING_UNSEEN };
        while now().since(began) < longest && !cancel.load(Ordering::Relaxed) {
            if self.count().is_some_and(|count| count <= self.before) {
                return;
            }
            std::thread::sleep(Duration::from_millis(2));
        }
    }

    fn count(&mut self) -> Option<usize> {
        self.ends.as_mut()?.count().ok()
    }
}

#[cfg(test)]
mod tests {
    use linerate_evidence::Packed;
    use linerate_model::Timestamp;

    use super::*;

    fn longest(exchange_ms: u64) -> Packed {
        let mut times = live_histogram();
        times.record(exchange_ms * 1_000_000).unwrap();
        Packed::pack(&times)
    }

    fn kinds(rest: &str, seconds: f64) -> Vec<(StepKind, u32, u128)> {
        kinds_after(rest, seconds, 1)
    }

    fn kinds_after(rest: &str, seconds: f64, exchange_ms: u64) -> Vec<(StepKind, u32, u128)> {
        let text = format!("[target]\naddress = '127.0.0.1:80'\n{rest}");
        let plan = Plan::from_toml(&text).unwrap();
        let mut slice = Slice::new(0, 0, Timestamp(0));
        (slice.to, slice.answered) = (Timestamp((seconds * 1e9) as u64), 1);
        slice.service = longest(exchange_ms);
        let steps = steps(&plan, &[slice]);
        steps.iter().map(|it| (it.kind, it.connections, it.length.as_millis())).collect()
    }

    #[test]
    fn a_closed_loop_is_asked_with_one_with_half_and_with_all_connections() {
        use StepKind::{Again, Alone, Half, Spaced};
        assert_eq!(
            kinds("[load]\nconnections = 25\n", 8.0),
            [(Spaced, 1, 1500), (Alone, 1, 1000), (Half, 13, 2000), (Again, 25, 2000)]
        );
        // Bounds: 10 ms / 8 and / 4 would be nothing, a minute's would be long.
        assert_eq!(
            kinds("[load]\nconnections = 2\n", 0.4)[1..],
            [(Alone, 1, 400), (Half, 1, 600), (Again, 2, 600)]
        );
        assert_eq!(kinds("[load]\nconnections = 2\n", 60.0)[2], (Half, 1, 3000));
        assert_eq!(kinds("[load]\nconnections = 1\n", 8.0).len(), 2);
    }

    #[test]
    fn an_open_loop_whose_connections_were_all_busy_is_asked_as_a_closed_one() {
        let text = "[target]\naddress = '127.0.0.1:80'\n[load]\nrate = 100\nconnections = 6\n";
        let plan = Plan::from_toml(text).unwrap();
        // Two threads; they have each three connections, busy from the second of four seconds on.
        let slices = |answered: u64, busy: u128| {
            let of = |thread: u16, second: u64| {
                let mut slice = Slice::new(thread, 0, Timestamp(second * 1_000_000_000));
                slice.to = Timestamp((second + 1) * 1_000_000_000);
                slice.scheduled = 50;
                slice.answered = answered;
                slice.in_flight_area = if second == 0 { 0 } else { busy * 1_000_000_000 };
                slice.service = longest(1);
                slice
            };
            (0..4).flat_map(|second| [of(0, second), of(1, second)]).collect::<Vec<_>>()
        };
        assert_eq!(steps(&plan, &slices(20, 3)).len(), 4);
        // Answered in time; or late for another reason than its connections.
        assert_eq!(steps(&plan, &slices(50, 3)).len(), 1);
        assert_eq!(steps(&plan, &slices(20, 2)).len(), 1);
    }

    #[test]
    fn streams_have_no_single_exchanges_and_one_stream_is_alone_already() {
        use StepKind::{Again, Alone, Half};
        let of = |count: u32| {
            let rest = format!("[load]\nconnections = {count}\n[workload]\nkind = 'stream'\n");
            kinds(&rest, 8.0).iter().map(|(kind, ..)| *kind).collect::<Vec<_>>()
        };
        assert_eq!(of(4), [Alone, Half, Again]);
        assert_eq!(of(1), []);
    }

    #[test]
    fn no_step_is_too_short_for_a_service_that_answers_in_bursts_of_a_second() {
        let of = |exchange_ms| kinds_after("[load]\nconnections = 2\n", 4.0, exchange_ms);
        let lengths = |exchange_ms| -> Vec<u128> {
            of(exchange_ms)[1..].iter().map(|(.., length)| length / 10 * 10).collect()
        };
        assert_eq!(lengths(100), [500, 1000, 1000]);
        assert_eq!(lengths(1010), [2020, 2020, 2020]);
        assert_eq!(lengths(9000), [3000, 3000, 3000]);
    }

    #[test]
    fn an_open_loop_has_single_exchanges_only_and_a_short_run_nothing() {
        assert_eq!(kinds("[load]\nrate = 100\n", 8.0), [(StepKind::Spaced, 1, 1500)]);
        assert!(kinds("", 0.2).is_empty());
        assert!(kinds("[until]\nduration = '8s'\ncheck = false\n", 8.0).is_empty());
    }
}
