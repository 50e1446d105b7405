//! Several engine processes, one result: workers that make a part of the load each, and who coordinates them.
//!
//! A worker has some of the engine's threads, and its slices are theirs as if all were in one process: counts are
//! summed, histograms merged by value, and all have one monotonic clock. Nothing is estimated by merging.
//!
//! 1. Each says who it is, is told its part, and waits.
//! 2. All are told an instant, at which they open their connections.
//! 3. When all have said that these are open, they are told the instant at which the load begins.
//! 4. Slices and samples come in until each has said that it is done.
//!
//! One that ends, falls silent or says what nobody can read is lost: the rest goes on, and what it had is accounted
//! for ([`lost`]).

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::time::Duration;

use linerate_beam::Host;
use linerate_engine::{Delivered, Flows, Job, Running, now, start as start_here};
use linerate_evidence::{Evidence, LOST, Line, Phase, Subject};
use linerate_model::Timestamp;
use linerate_probe::{EngineProcesses, Scope};

use crate::body::Outside;
use crate::error::RunError;

mod clock;
mod format;
mod host;
mod lost;
mod process;
mod users;
mod users_part;
mod worker;

pub(crate) use format::UsersOrder;
pub use process::COMMAND;
pub(crate) use users::UserProcesses;
pub(crate) use users_part::sockets;
pub use worker::worker;

use clock::Clock;
use format::{Heard, Hello, Order, Said, Told, heard, line};
use host::FarProcess;
use lost::{Spans, Thread};
use process::Process;

// Chosen: one that lives says so each half second, and a machine that is full is late by a second or two.
/// After so long without a word a worker is lost.
const SILENT: Duration = Duration::from_secs(5);

// Chosen: a machine that slept, or a debugger that held this process, is no silence of the workers.
/// Of the time since it looked last, what counts at most.
const LONGEST_LOOK: Duration = Duration::from_millis(200);

// Chosen: a program of this size is read from a cold disk in less.
const STARTING: Duration = Duration::from_secs(10);

// Chosen: twenty round trips of a slow line.
/// The longest that clocks are asked.
const ALIGNING: Duration = Duration::from_secs(5);

// Chosen: every worker hears of an instant before it comes: it looks each 20 ms.
const NOTICE: Duration = Duration::from_millis(100);

/// What a worker said last, or that it will say no more and why, if that is known.
enum Event {
    Line(String),
    Ended(Option<String>),
}

/// A way to a worker. It is ended when this is dropped.
trait Link: Send {
    fn tell(&mut self, line: &str) -> io::Result<()>;
    /// From now on it takes what it can, and nobody waits for it.
    fn never_wait(&mut self) -> io::Result<()>;
    /// The same as telling, without waiting: how much of it was taken.
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize>;
    /// What a person calls it.
    fn name(&self) -> String;
    /// In words; asked once it says no more.
    fn how_it_ended(&mut self) -> String;
}

/// Hosts that the load is made on, and what they are to be told of this one; none: it is made here.
#[derive(Clone, Copy)]
pub(crate) struct Far<'a> {
    pub hosts: &'a [Host],
    pub outside: &'a Outside,
}

/// Starts the job's load: in this process, or in as many as the plan says. It is the run's job of this number, from 1.
pub(crate) fn start(
    job: &Job,
    scope: &Scope,
    known: &EngineProcesses,
    number: u16,
    far: Far<'_>,
) -> Result<(Running, Option<Receiver<Evidence>>), RunError> {
    let count = job.plan.engine.processes;
    if count <= 1 && far.hosts.is_empty() {
        return Ok((start_here(job.clone()).map_err(RunError::Engine)?, None));
    }
    let (tell, events) = channel();
    let (slices, taken) = channel();
    let (sampled, samples) = channel();
    let flows = Flows::default();
    let mut course = Course {
        job: job.clone(),
        number,
        scope: if far.hosts.is_empty() { scope.clone() } else { elsewhere(far.hosts.len()) },
        outside: if far.hosts.is_empty() {
            Outside::default()
        } else {
            far.outside.clone().whole()
        },
        workers: Vec::new(),
        events,
        slices,
        sampled,
        flows: flows.clone(),
        spans: Spans::new(),
        census: BTreeMap::new(),
        begins: None,
        stopped: false,
        first: None,
    };
    for number in 0..usize::from(count.max(1)) {
        let tell = tell.clone();
        let (link, clock): (Box<dyn Link>, _) = match far.hosts.get(number % far.hosts.len().max(1))
        {
            None => {
                (Box::new(Process::start(number, tell, known).map_err(RunError::Engine)?), None)
            }
            Some(host) => {
                let process = FarProcess::start(number, tell, host);
                let process = process.map_err(|fault| RunError::Host(fault.to_string()))?;
                (Box::new(process), Some(Clock::default()))
            }
        };
        course.workers.push(Worker::new(link, clock, number as u16, job));
    }
    drop(tell);
    let started = course.prepare()?;
    let thread = std::thread::Builder::new().name("linerate-workers".into());
    let thread = thread.spawn(move || course.run()).map_err(RunError::Engine)?;
    Ok((Running::of(taken, flows, started, vec![thread]), Some(samples)))
}

/// Where both ends of connections of other hosts are.
fn elsewhere(hosts: usize) -> Scope {
    Scope {
        target_pids: Vec::new(),
        target_ports: Vec::new(),
        client_netns: vec![None; hosts],
        server_netns: Vec::new(),
        local: false,
    }
}

/// How far a worker is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Started,
    Ready,
    Opening,
    Opened,
    Done,
    Lost,
}

struct Worker {
    link: Option<Box<dyn Link>>,
    name: String,
    state: State,
    hello: Option<Hello>,
    /// Its host's, where that is another.
    clock: Option<Clock>,
    /// For how long it has said nothing, as far as this process was running meanwhile.
    quiet: Duration,
    /// By number.
    threads: BTreeMap<u16, Thread>,
}

impl Worker {
    fn new(link: Box<dyn Link>, clock: Option<Clock>, number: u16, job: &Job) -> Self {
        let hosts = job.hosts.len().max(1) as u16;
        let of = usize::from(job.plan.engine.processes.max(1));
        let threads = (number..job.threads).step_by(of);
        let threads = threads.map(|thread| (thread, Thread::on(thread % hosts))).collect();
        let (name, state) = (link.name(), State::Started);
        Self { link: Some(link), name, state, hello: None, clock, quiet: Duration::ZERO, threads }
    }

    /// An instant of this host's clock by its own.
    fn theirs(&self, ours: Timestamp) -> Timestamp {
        self.clock.as_ref().map_or(ours, |clock| clock.theirs(ours))
    }

    /// An instant of its clock by this host's.
    fn ours(&self, theirs: Timestamp) -> Timestamp {
        self.clock.as_ref().map_or(theirs, |clock| clock.ours(theirs))
    }

    fn is_over(&self) -> bool {
        matches!(self.state, State::Done | State::Lost)
    }
}

/// The run's course, on a thread of its own once it has begun.
struct Course {
    job: Job,
    /// Of the job.
    number: u16,
    scope: Scope,
    outside: Outside,
    workers: Vec<Worker>,
    events: Receiver<(usize, Event)>,
    slices: Sender<Delivered>,
    sampled: Sender<Evidence>,
    flows: Flows,
    spans: Spans,
    /// By server and worker, the counters that it told last.
    census: BTreeMap<Subject, Census>,
    begins: Option<Timestamp>,
    stopped: bool,
    /// Why the first that was lost was.
    first: Option<String>,
}

/// Of one server's connections, samples of all workers.
#[derive(Default)]
struct Census {
    /// What each told last, and when.
    told: BTreeMap<usize, (Timestamp, BTreeMap<String, u64>)>,
    /// Who has told since the last sum.
    fresh: BTreeSet<usize>,
}

impl Census {
    /// Takes what a worker told. Once all those that are awaited have told, the sum, at the earliest instant of them: what
    /// is since an instant has nothing of before it.
    fn take(
        &mut self,
        worker: usize,
        at: Timestamp,
        values: BTreeMap<String, u64>,
        awaited: impl IntoIterator<Item = usize>,
    ) -> Option<(Timestamp, BTreeMap<String, u64>)> {
        self.told.insert(worker, (at, values));
        self.fresh.insert(worker);
        if !awaited.into_iter().all(|worker| self.fresh.contains(&worker)) {
            return None;
        }
        let at = self.fresh.iter().filter_map(|worker| Some(self.told.get(worker)?.0)).min()?;
        self.fresh.clear();
        let mut sum = BTreeMap::<String, u64>::new();
        for (name, value) in self.told.values().flat_map(|(_, values)| values) {
            let of = sum.entry(name.clone()).or_default();
            *of = of.saturating_add(*value);
        }
        Some((at, sum))
    }
}

impl Course {
    /// Until all wait for the start and are told of it; when that is.
    fn prepare(&mut self) -> Result<Timestamp, RunError> {
        let began = now();
        while self.workers.iter().any(|worker| worker.state == State::Started) {
            self.hear(STARTING.saturating_sub(now().since(began)));
            if now().since(began) >= STARTING {
                for worker in 0..self.workers.len() {
                    if self.workers[worker].state == State::Started {
                        let why = format!("it was not ready within {} s", STARTING.as_secs());
                        self.lose(worker, why);
                    }
                }
            }
        }
        if self.workers.iter().all(Worker::is_over) {
            return Err(RunError::Worker(self.first.take().unwrap_or_default()));
        }
        self.align();
        if self.workers.iter().all(Worker::is_over) {
            return Err(RunError::Worker(self.first.take().unwrap_or_default()));
        }
        let at = now().after(self.notice());
        for worker in self.workers.iter_mut().filter(|worker| worker.state == State::Ready) {
            worker.state = State::Opening;
        }
        self.tell_all(|worker| Told::Start(worker.theirs(at)));
        Ok(at)
    }

    fn run(mut self) -> io::Result<()> {
        let (started, mut looked) = (now(), now());
        while !self.workers.iter().all(Worker::is_over) {
            self.hear(Duration::from_millis(20));
            let opening = self.workers.iter().any(|worker| worker.state == State::Opening);
            if self.begins.is_none() && !opening {
                self.begins = Some(self.begin(started));
            }
            if !self.stopped && self.job.stop.load(Ordering::Relaxed) {
                self.stopped = true;
                self.tell_all(|_| Told::Stop(now()));
            }
            let passed = now().since(looked).min(LONGEST_LOOK);
            looked = now();
            for worker in 0..self.workers.len() {
                let of = &mut self.workers[worker];
                of.quiet += passed;
                if !of.is_over() && of.quiet >= SILENT {
                    let why = format!("it sent nothing for {} s", SILENT.as_secs());
                    self.lose(worker, why);
                }
            }
        }
        self.account();
        // With nobody left to say what is wrong, the run has failed.
        match self.first {
            Some(why) if self.workers.iter().all(|it| it.state == State::Lost) => {
                Err(io::Error::other(why))
            }
            _ => Ok(()),
        }
    }

    /// All connections are open: the load begins, if it did not with the opening of the first of them.
    fn begin(&mut self, started: Timestamp) -> Timestamp {
        let plan = &self.job.plan;
        let ramps = !plan.load.ramp.is_zero() && !plan.is_open_loop();
        if ramps || plan.opens_each() {
            return started;
        }
        let at = now().after(self.notice());
        self.tell_all(|worker| Told::Begin(worker.theirs(at)));
        at
    }

    /// Asks the clocks of other hosts.
    fn align(&mut self) {
        let began = now();
        for worker in 0..self.workers.len() {
            if self.workers[worker].clock.is_some() {
                self.tell(worker, &line(&Told::Ping(now())));
            }
        }
        let asks =
            |of: &Worker| !of.is_over() && of.clock.as_ref().is_some_and(|it| !it.is_known());
        while self.workers.iter().any(asks) && now().since(began) < ALIGNING {
            self.hear(Duration::from_millis(50));
        }
        for worker in 0..self.workers.len() {
            let of = &self.workers[worker];
            let Some(clock) = &of.clock else { continue };
            if clock.is_unknown() {
                self.lose(worker, "its clock could not be read".into());
                continue;
            }
            let mut evidence = Evidence::default();
            clock.push(Subject::EngineThread(worker as u16), &of.name, &mut evidence);
            let _ = self.sampled.send(evidence);
        }
    }

    /// How long before an instant workers are told of it.
    fn notice(&self) -> Duration {
        let clocks = self.workers.iter().filter_map(|worker| worker.clock.as_ref());
        // Chosen: a line that takes twice as long as it ever did comes in time.
        NOTICE + clocks.map(Clock::round_trip).max().unwrap_or_default() * 2
    }

    fn tell_all(&mut self, told: impl Fn(&Worker) -> Told) {
        for worker in 0..self.workers.len() {
            let text = line(&told(&self.workers[worker]));
            self.tell(worker, &text);
        }
    }

    fn tell(&mut self, worker: usize, text: &str) {
        let Some(link) = self.workers[worker].link.as_mut() else { return };
        if let Err(error) = link.tell(text) {
            // One that has ended says why with its end.
            if error.kind() != io::ErrorKind::BrokenPipe {
                self.lose(worker, format!("no message could be sent to it: {error}"));
            }
        }
    }

    /// Takes what was said, for so long at most.
    fn hear(&mut self, patience: Duration) {
        let (worker, event) = match self.events.recv_timeout(patience) {
            Ok(event) => event,
            Err(RecvTimeoutError::Timeout) => return,
            Err(RecvTimeoutError::Disconnected) => return std::thread::sleep(patience),
        };
        if self.workers[worker].is_over() {
            return;
        }
        self.workers[worker].quiet = Duration::ZERO;
        let text = match event {
            Event::Line(text) => text,
            Event::Ended(why) => {
                let of = self.workers[worker].link.as_mut().map(|link| link.how_it_ended());
                return self.lose(worker, why.or(of).unwrap_or_default());
            }
        };
        let took = heard(&text).and_then(|heard| match heard {
            Heard::Said(said) => self.on_said(worker, said),
            Heard::Evidence(line) => self.on_evidence(worker, line),
        });
        if let Err(why) = took {
            self.lose(worker, why);
        }
    }

    /// The error is why it is lost.
    fn on_said(&mut self, worker: usize, said: Said) -> Result<(), String> {
        let of = &mut self.workers[worker];
        match (said, of.state) {
            (Said::Worker(hello), State::Started) if of.hello.is_none() => {
                if let Some(why) = hello.refused() {
                    return Err(why);
                }
                of.hello = Some(hello);
                let count = self.workers.len() as u16;
                let order = Order::of(
                    &self.job,
                    &self.scope,
                    (worker as u16, count, self.number),
                    self.outside.clone(),
                );
                let text = line(&Told::Order(Box::new(order)));
                let link = self.workers[worker].link.as_mut();
                link.map_or(Ok(()), |link| link.tell(&text)).map_err(|error| error.to_string())
            }
            (Said::Ready(_), State::Started) if of.hello.is_some() => {
                of.state = State::Ready;
                Ok(())
            }
            (Said::Opened(_), State::Opening) => {
                of.state = State::Opened;
                Ok(())
            }
            (Said::Done(_), State::Opening | State::Opened) => {
                of.state = State::Done;
                of.link = None;
                Ok(())
            }
            (Said::Flow(ends), _) => {
                self.flows.opened(ends.into());
                Ok(())
            }
            (Said::Pong(asked, theirs), _) => {
                let Some(clock) = &mut of.clock else { return Ok(()) };
                clock.took(asked, theirs, now());
                if !clock.is_known() {
                    self.tell(worker, &line(&Told::Ping(now())));
                }
                Ok(())
            }
            (Said::Alive(_), _) => Ok(()),
            (Said::Failed(why), _) => Err(why),
            (said, state) => Err(format!("it sent {said:?} in the state {state:?}")),
        }
    }

    fn on_evidence(&mut self, worker: usize, line: Line) -> Result<(), String> {
        match line {
            Line::Slice(mut slice) => {
                slice.from = self.workers[worker].ours(slice.from);
                slice.to = self.workers[worker].ours(slice.to);
                let thread = self.workers[worker].threads.get_mut(&slice.thread);
                let thread = thread.ok_or_else(|| {
                    format!("it reported thread {}, which is not its own", slice.thread)
                })?;
                thread.took(&slice);
                let span = (slice.from, slice.to, slice.phase);
                let known = self.spans.entry(slice.index).or_insert(span);
                if known.2 == Phase::Drain {
                    *known = span;
                }
                // The receiver is gone only when the program is on its way out.
                let _ = self.slices.send(Delivered::Packed(slice));
            }
            Line::Row { at, of: of @ Subject::Census(_), values } => {
                let at = self.workers[worker].ours(at);
                let awaited = (0..self.workers.len()).filter(|it| !self.workers[*it].is_over());
                let sum = self.census.entry(of).or_default().take(worker, at, values, awaited);
                let Some((at, sum)) = sum else { return Ok(()) };
                let mut evidence = Evidence::default();
                for (name, value) in sum {
                    evidence.push_raw(at, of, &name, value);
                }
                let _ = self.sampled.send(evidence);
            }
            Line::Unread { source, reason } => {
                let mut evidence = Evidence::default();
                evidence.unread.insert(source, reason);
                let _ = self.sampled.send(evidence);
            }
            other => return Err(format!("it sent an unexpected message: {other:?}")),
        }
        Ok(())
    }

    /// It is worth nothing any more: what it had is accounted for at the run's end.
    fn lose(&mut self, worker: usize, why: String) {
        let count = self.workers.len();
        let all = self.job.plan.workers();
        let of = &mut self.workers[worker];
        (of.state, of.link) = (State::Lost, None);
        let own = (0..all).filter(|id| *id as usize % count == worker).count();
        let when = match self.begins {
            Some(begins) => {
                format!("{:.1} s after the load began", now().since(begins).as_secs_f64())
            }
            None => "before the load began".into(),
        };
        let says = format!(
            "engine worker {} of {count} ({}), with {own} of {all} connections, was lost {when}: {why}",
            worker + 1,
            of.name,
        );
        self.first.get_or_insert_with(|| says.clone());
        let mut evidence = Evidence::default();
        evidence.push_fact(Subject::EngineThread(worker as u16), LOST, says);
        let _ = self.sampled.send(evidence);
    }

    /// Hands over the slices of those that were lost.
    fn account(&mut self) {
        for worker in self.workers.iter().filter(|worker| worker.state == State::Lost) {
            for (thread, of) in &worker.threads {
                let turn = (*thread, self.job.threads);
                for slice in of.lost(&self.job.plan, turn, self.begins, &self.spans) {
                    let _ = self.slices.send(Delivered::Packed(Box::new(slice)));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use linerate_evidence::{Live, Packed, Slice, live_histogram, summarise, to_line};
    use linerate_model::Plan;
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn samples_of_workers_add_up_once_each_has_told() {
        let mut census = Census::default();
        let of = |count| BTreeMap::from([("census.idle".to_owned(), count)]);
        assert_eq!(census.take(0, Timestamp(5), of(3), [0, 1]), None);
        assert_eq!(census.take(1, Timestamp(4), of(10), [0, 1]), Some((Timestamp(4), of(13))));
        assert_eq!(census.take(1, Timestamp(8), of(11), [0, 1]), None);
        // The first has ended: what it told last stays.
        assert_eq!(census.take(1, Timestamp(9), of(12), [1]), Some((Timestamp(9), of(15))));
    }

    /// Value and count of all that it holds: how far it could grow is no matter.
    fn values(packed: &Packed) -> Vec<(u64, u64)> {
        let mut all = live_histogram();
        packed.add_to(&mut all);
        all.iter_recorded().map(|it| (it.value_iterated_to(), it.count_at_value())).collect()
    }

    /// What one worker recorded, slice by slice: service times in ns.
    fn logs() -> impl Strategy<Value = Vec<Vec<Vec<u64>>>> {
        let times = prop::collection::vec(1u64..200_000_000_000, 0..40);
        prop::collection::vec(prop::collection::vec(times, 3), 1..5)
    }

    /// `--nocapture` prints it: what limits how many workers one coordinator reads.
    #[test]
    fn cost() {
        let mut slice = Slice::<Live>::new(0, 0, Timestamp(0));
        // Times of 50 us to 2 ms, as a busy service on loopback has them.
        for time in (50_000..2_000_000_u64).step_by(500) {
            slice.service.record(time);
            slice.first_byte.record(time - 1_000);
        }
        let said = to_line(&Line::Slice(Box::new(slice.pack())));
        let (rounds, began) = (200, std::time::Instant::now());
        for _ in 0..rounds {
            assert!(heard(&said).is_ok());
        }
        let each = began.elapsed() / rounds;
        println!("{} bytes, {each:?} to read", said.len());
        // Ten times what was measured is a defect on any machine.
        assert!(cfg!(debug_assertions) || each < Duration::from_millis(5), "{each:?}");
    }

    /// Hosts of two busy threads each, as the coordinator of them has them: it hears each line, writes the evidence file, keeps
    /// the slice, and summarises all at the end. `cargo test --release -p linerate-run coordinator -- --ignored --nocapture`
    #[test]
    #[ignore = "prints figures: with 1,000 hosts it takes seconds and some hundred MiB"]
    fn coordinator_of_100_and_of_1000_hosts() {
        let cpu = || rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        let seconds = |from: rustix::time::Timespec, to: rustix::time::Timespec| {
            (to.tv_sec - from.tv_sec) as f64 + (to.tv_nsec - from.tv_nsec) as f64 / 1e9
        };
        println!("hosts  lines/s  MB/s  CPU s a second  CPU s at the end, 30 s  kept MiB, 30 s");
        for hosts in [3_u16, 100, 1_000] {
            // A second of it: ten slices of each thread.
            let threads = hosts * 2;
            let mut said = Vec::new();
            for thread in 0..threads {
                for index in 0..10_u32 {
                    let from = Timestamp(u64::from(index) * 100_000_000);
                    let mut slice = Slice::<Live>::new(thread, index, from);
                    slice.to = from.after(Duration::from_millis(100));
                    // Times of 50 us to 2 ms, as a busy service on loopback has them, other ones in each.
                    for time in (50_000 + u64::from(thread % 500)..2_000_000).step_by(500) {
                        slice.service.record(time);
                        slice.first_byte.record(time - 1_000);
                        slice.answered += 1;
                        slice.scheduled += 1;
                    }
                    said.push(to_line(&Line::Slice(Box::new(slice.pack()))));
                }
            }
            let bytes: usize = said.iter().map(String::len).sum();
            let (mut evidence, mut written) = (Evidence::default(), 0);
            let before = cpu();
            for text in &said {
                let Ok(Heard::Evidence(Line::Slice(slice))) = heard(text) else { panic!("{text}") };
                written += to_line(&Line::Slice(slice.clone())).len();
                evidence.slices.push(*slice);
            }
            let heard_all = cpu();
            let plan = Plan::from_toml("[target]\naddress = 'a:1'\n").unwrap();
            let load = summarise(&evidence, &plan);
            let ended = cpu();
            assert_eq!(load.answered, u64::from(threads) * 10 * 3_900);
            // What a slice keeps is its histograms, in a third fewer bytes than as text.
            println!(
                "{hosts:5}  {:7}  {:4.0}  {:14.2}  {:22.1}  {:14.0}",
                said.len(),
                bytes as f64 / 1e6,
                seconds(before, heard_all),
                30.0 * seconds(heard_all, ended),
                30.0 * written as f64 * 0.75 / f64::from(1 << 20),
            );
        }
    }

    proptest! {
        #[test]
        fn merged_percentiles_are_those_of_the_merged_raw_logs(logs in logs()) {
            let mut all = live_histogram();
            let mut evidence = Evidence::default();
            for (thread, slices) in (0u16..).zip(&logs) {
                for (index, times) in (0u32..).zip(slices) {
                    let from = Timestamp(u64::from(index) * 100_000_000);
                    let mut slice = Slice::<Live>::new(thread, index, from);
                    slice.to = from.after(Duration::from_millis(100));
                    for time in times {
                        slice.service.record(*time);
                        all.record(*time).unwrap();
                        slice.scheduled += 1;
                        slice.answered += 1;
                    }
                    let said = to_line(&Line::Slice(Box::new(slice.pack())));
                    let Ok(Heard::Evidence(Line::Slice(slice))) = heard(&said) else { panic!("{said}") };
                    // And once more, as the experiment has them.
                    let again = slice.clone().unpack().pack();
                    prop_assert_eq!(values(&again.service), values(&slice.service));
                    evidence.slices.push(*slice);
                }
            }
            let plan = Plan::from_toml("[target]\naddress = 'a:1'\n").unwrap();
            let load = summarise(&evidence, &plan);
            prop_assert_eq!(load.answered, all.len());
            if load.warm_up.length.is_zero() {
                for percentile in load.latency.list() {
                    prop_assert_eq!(percentile.value, all.value_at_percentile(percentile.percentile));
                }
                prop_assert_eq!(load.latency.count(), all.len());
            }
        }
    }
}
