//! What is known of a run, computed once and typed: the account, CPU use, the experiment, the model fitted to it, and
//! the place that limits the rate. What is missing is [`None`], never 0.

use crate::prelude::*;

pub(crate) mod admission;
mod asleep;
pub(crate) mod channels;
pub(crate) mod connections;
pub(crate) mod directions;
pub(crate) mod drops;
pub(crate) mod flows;
mod opening;
pub(crate) mod output;
pub(crate) mod queues;
pub(crate) mod sampled;
pub(crate) mod shared;
pub(crate) mod stops;

/// Whose load it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Load {
    /// linerate's: there are stamps.
    Made,
    /// Other clients': the service is watched.
    Watched,
}

/// See the module.
pub struct Facts<'a> {
    /// The run itself, for evidence that only one roof reads.
    pub run: Run<'a>,
    /// Whose load it is.
    pub load: Load,
    /// Answered a second; of a service that is watched, what its connections read.
    pub attained: f64,
    /// Where the exchanges are; absent without a load of ours.
    pub account: Option<Account>,
    /// What those in the application wait for.
    pub inside: Inside,
    /// The connections of each listening port, of a service that is watched.
    pub watched: Vec<Watched>,
    /// What throughput did with other connections.
    pub experiment: Option<Experiment>,
    /// The target's threads and its CPUs.
    pub target: Option<Running>,
    /// The engine's.
    pub engine: Option<Running>,
    pub(crate) directions: Vec<LaidDirection<'a>>,
    /// CPU time of the target; missing where it was not measured, or the work of a node is unknown.
    target_cpu: Result<Target, Missing>,
    pub(crate) host: Result<Host, Missing>,
    /// Use of each resource.
    pub stations: Stations,
    /// What the node's schedulers did; missing where no node was sampled inside.
    pub(crate) node: Result<NodeCpu, Missing>,
    /// The node's processes that were sampled inside.
    pub processes: Vec<sampled::Process<'a>>,
    /// The same of a node that is seen from outside only, by its memory.
    pub seen: Vec<sampled::Process<'a>>,
    /// The network fitted to the run; absent where nothing was answered, or the load is not ours.
    pub model: Option<Model>,
    /// What limits the rate.
    pub place: Place,
    connections: Result<Vec<Connection<'a>>, Silent>,
}

impl<'a> Facts<'a> {
    /// Computes all of them.
    pub fn of(run: Run<'a>) -> Self {
        let window = run.load.window.0..=run.load.window.1;
        let load = if run.is_watched() { Load::Watched } else { Load::Made };
        let running = |subject| Running::of(subject, run.evidence, &window);
        let (target, engine) = (running(Subject::Target), running(Subject::Engine));
        let account = Account::of(run.header, run.evidence, run.load);
        let watched = if load == Load::Watched { Watched::of(run.evidence) } else { Vec::new() };
        let of_ports = watched.iter().map(Watched::in_application).fold(0.0, |sum, of| sum + of);
        let in_application = account.as_ref().map_or(of_ports, |of| of.at(Station::Application));
        let (target_cpu, host) = used(&run);
        // Connections that end before they are sampled: each is at least an exchange.
        let seconds = run.seconds().max(1e-9);
        let attained = match run.attained().0 {
            0.0 if load == Load::Watched && !run.is_idle() => run.load.opened as f64 / seconds,
            attained => attained,
        };
        let sampled = sampled::sampled(&run);
        let is_inside = run.node().is_ok();
        let (processes, seen) = if is_inside { (sampled, vec![]) } else { (vec![], sampled) };
        let (exchanges, exchange_s) = (attained * seconds, in_application / attained.max(1e-9));
        let datagrams = run.of(Subject::Stack(Side::Server)).grown(snmp::UDP_IN).unwrap_or(0.0);
        let mut facts = Self {
            attained,
            run,
            load,
            account,
            inside: Inside::of(in_application, target.as_ref(), run.evidence, &window)
                .by_segments(exchanges)
                .by_elimination(exchange_s, exchanges)
                .by_datagrams(datagrams, exchange_s, exchanges),
            watched,
            experiment: Experiment::of(run.header, run.evidence, run.load),
            target,
            engine,
            directions: directions::laid(&run),
            node: NodeCpu::of(&run),
            target_cpu,
            host,
            stations: Stations::default(),
            processes,
            seen,
            model: None,
            place: Place::default(),
            connections: connections::served(&run),
        };
        facts.stations = Stations::of(&facts);
        facts.model = Model::of(&facts);
        facts.place = Place::of(&facts);
        facts
    }

    /// Whether the target is a BEAM node that was sampled inside.
    pub fn is_beam(&self) -> bool {
        self.run.node().is_ok() || self.run.header.target.kind == "beam"
    }

    pub(crate) fn is_node_outside(&self) -> bool {
        self.run.node().is_err() && self.has_schedulers()
    }

    pub(crate) fn if_beam(&self, words: &'static str) -> &'static str {
        if self.is_beam() { words } else { "" }
    }

    /// Whether it is a BEAM node, also one that is seen from outside only: its process is `beam.smp`, or the thread that is at work
    /// most often has a name as `1_scheduler`, `1_dirty_io_scheduler`, `0_poller`, or `erts_sched_1`.
    /// Source: `erts_start_schedulers`, erts/emulator/beam/erl_process.c; `start_poll_thread`, sys/common/erl_check_io.c.
    pub(crate) fn has_schedulers(&self) -> bool {
        let name = self.run.evidence.fact(Subject::Target, "fullest_thread").unwrap_or("");
        let own = ["scheduler", "dirty_", "poller"];
        let is_so = |(number, of): (&str, &str)| {
            number.parse::<u32>().is_ok() && own.iter().any(|its| of.starts_with(its))
        };
        self.is_beam()
            || self.run.header.target.name.starts_with("beam.")
            || name.starts_with("erts_")
            || name.split_once('_').is_some_and(is_so)
    }

    /// Whether exchanges are blocks of our own streams: none waits for another, and resources work side by side.
    pub fn streams(&self) -> bool {
        self.load == Load::Made && self.run.header.plan.is_stream()
    }

    /// Whether the account locates the exchanges.
    pub fn is_split(&self) -> bool {
        self.account.as_ref().is_some_and(Account::is_split)
    }

    /// Exchanges under way on average.
    pub fn under_way(&self) -> f64 {
        match &self.account {
            Some(account) => account.under_way,
            None if self.load == Load::Watched => self.ports(Watched::under_way),
            None => self.run.load.in_flight,
        }
    }

    pub(crate) fn threads(&self) -> Option<&States> {
        self.inside.threads.as_ref()
    }

    /// Whether threads of a watched service work in turn, none alone, while requests and others wait for the lock: never
    /// two at once, also at a disk; or always with exactly one CPU together: an interpreter's lock.
    pub(crate) fn threads_in_turn(&self) -> bool {
        let Some(threads) = self.threads() else { return false };
        let (ready, one_cpu) = (self.inside.runnable, 1.0 - NO_GAIN..=1.0 + NO_GAIN);
        let steady = self.target.as_ref().and_then(|target| target.steady);
        let work = self.inside.running + threads.disk;
        // Mostly ready and hardly running means woken often, with little to do each time. One holder is one thread at work.
        let is_one = (ready..=1.0 + SPLIT).contains(&work)
            && (HOLDS_ONE..TWO).contains(&(self.inside.running + ready + threads.disk))
            && threads.together < 1.0 - FULL;
        (is_one || steady.is_some_and(|of| of.iter().all(|cpus| one_cpu.contains(cpus))))
            && threads.fullest < FULL * (threads.running + threads.disk).min(1.0)
            && threads.lock + threads.lock_timed >= 1.0
            && self.place.of >= 2.0
            && self.load == Load::Watched
    }

    /// Whether the one thread that serves mostly waits for something else than what is to be read: the only one, or one
    /// that comes back from a descriptor. One that is never back serves nobody.
    pub(crate) fn one_is_away(&self) -> bool {
        self.threads().is_some_and(|of| {
            let is_only = of.all() < TWO && of.idle() < HALFWAY * of.all();
            is_only || (HALFWAY..FULL).contains(&(of.read + of.write + of.disk))
        })
    }

    /// CPUs' worth of time on the engine's CPUs that neither engine, target nor path had; absent: unmeasured.
    pub fn strangers_of_engine(&self) -> Option<f64> {
        let engine = self.engine.as_ref()?;
        let target = self.target.as_ref().map_or(0.0, |target| target.on(&engine.cpus));
        Some((engine.others()? - target - self.run.path_cores()).max(0.0))
    }

    /// Mean time of an exchange; of a watched service its upper bound. Unit: seconds.
    pub(crate) fn exchange_s(&self) -> f64 {
        self.per_exchange(self.most_under_way())
    }

    /// Exchanges under way; of a watched service without sampled states, one a connection.
    pub(crate) fn most_under_way(&self) -> f64 {
        match self.load {
            Load::Watched if self.watched.is_empty() => f64::from(self.run.connections()),
            _ => self.under_way(),
        }
    }

    /// Exchanges at a station.
    pub fn at(&self, station: Station) -> f64 {
        self.account.as_ref().map_or(0.0, |account| account.at(station))
    }

    /// Time of an exchange in one end's socket, held by this; 0 where unseen. Unit: seconds.
    pub(crate) fn held_by(&self, side: Side, held: Held) -> f64 {
        self.per_exchange(match (&self.account, side, held) {
            (Some(account), ..) => account.held(flows::sending(side), held),
            (None, Side::Server, Held::Nagle | Held::Window | Held::Buffer) => {
                self.ports(|port| port.held(held))
            }
            _ => 0.0,
        })
    }

    /// The end in whose sockets this holds exchanges for longer, and for how long each.
    pub(crate) fn held_most(&self, held: Held) -> (Side, f64) {
        let [client, server] = [Side::Client, Side::Server].map(|end| self.held_by(end, held));
        if client > server { (Side::Client, client) } else { (Side::Server, server) }
    }

    pub(crate) fn ports(&self, of: impl Fn(&Watched) -> f64) -> f64 {
        self.watched.iter().map(of).sum()
    }

    /// From an answer's first byte to its last, on average. Unit: seconds.
    pub(crate) fn body(&self) -> f64 {
        let load = self.run.load;
        ((load.service.mean() - load.first_byte.mean()) / 1e9).max(0.0)
    }

    /// Of a node that is seen from outside only, the mean number of processes that are so, by its memory.
    pub(crate) fn by_memory(&self, those: Metric<u64>) -> Option<f64> {
        let of = self.run.of(Subject::Target);
        let count = |of_these| of.grown(of_these).ok();
        let (rounds, all) = (count(erlang::ROUNDS)?, count(erlang::PROCESSES)?);
        // Where many are looked at, some rounds show how many are so.
        let is_known = rounds >= FEW || rounds >= SAMPLES as f64 && all >= FEW * FEW;
        count(those).filter(|_| is_known).map(|count| count / rounds)
    }

    /// How many ask at a time at most: one a connection; any number of nodes' processes, which share a channel.
    pub(crate) fn callers(&self) -> u64 {
        let is_quiet = self.load == Load::Watched && self.watched.is_empty();
        let is_asked_by_nodes = is_quiet && self.channels().is_ok() && self.requests() <= 0.0;
        if is_asked_by_nodes { u64::MAX } else { u64::from(self.run.connections()) }
    }

    /// How many servers a resource has; absent: unknown.
    pub(crate) fn servers(&self, resource: Resource) -> Option<f64> {
        let ones = [Resource::TargetThread, Resource::Process, Resource::Line];
        let one = ones.contains(&resource).then_some(1.0);
        self.stations.of_resource(resource).map(|of| of.servers).or(one)
    }

    /// Of the ports of a watched service that have them, what the headers show.
    pub(crate) fn headers(&self) -> impl Iterator<Item = &Exchanges> {
        self.watched.iter().filter_map(|port| port.exchanges.as_ref())
    }

    pub(crate) fn by_headers(&self, figure: impl Fn(&Exchanges) -> f64) -> f64 {
        self.headers().map(figure).sum()
    }

    /// The busiest port of a watched service whose headers were captured, and its exchanges.
    pub(crate) fn captured(&self) -> Result<(&Watched, Exchanges), Silent> {
        let captured = self.watched.iter().find_map(|port| Some((port, port.exchanges?)));
        captured.or_not_here("the headers of its exchanges were not captured")
    }

    /// What sets the rate of a watched service, by the rhythm of its answers. Where it always has a question out, the
    /// peer's answers come so evenly, and no clock's; but a peer that answers one by one makes no bursts.
    pub(crate) fn pace(&self) -> Option<Pace> {
        let (port, mut headers) = self.captured().ok()?;
        if self.hands_over(&headers) {
            return None;
        }
        // What one thread computes, it computes one after the other: no order of what they wait for.
        let running = self.inside.running;
        let is_work = |of: &capture::Served| {
            running < HOLDS_ONE && of.at_once < 2.0 && of.p50_s * headers.per_s <= running
        };
        if let Some(rhythm) = &mut headers.rhythm {
            rhythm.served = rhythm.served.filter(|of| !is_work(of));
        }
        // Its only thread takes one after the other, and sends all answers when none is left.
        if self.threads().is_some_and(|of| of.all() < TWO) && port.is_emptied_by_turns() {
            return Some(Pace::AtOnce(1.0));
        }
        let beat = headers.rhythm.and_then(|rhythm| rhythm.beat);
        let of_bursts = beat.and_then(|beat| Pace::of_beat(&beat, headers.under_way));
        // Where the requests wait for their turn to ask, and 32 answers vary by less than half of the time between two, each is
        // released at its time: what passes on a peer's answers is late by the sum of its delays.
        let questions = self.inside.questions();
        let keeps_step = headers.rhythm.is_some_and(|of| of.spreads_s[1] < HALFWAY * of.mean_s)
            && questions < TWO.min(HALFWAY * headers.under_way);
        let passes_on = of_bursts != Some(Pace::Clock) && !keeps_step && questions >= HALFWAY;
        let pace = headers.pace()?;
        Some(if pace == Pace::Clock && passes_on { Pace::AtOnce(1.0) } else { pace })
    }

    /// Whether a good part of a broker's answers are messages handed over: who consumes waits for them, at their publishers' pace.
    /// Each may be one answer to its publisher too, and an acknowledgement.
    pub(crate) fn hands_over(&self, headers: &Exchanges) -> bool {
        let handed =
            of_broker(&self.run).and_then(|of| self.run.of(of).rate(broker::DELIVERED).ok());
        handed.is_some_and(|handed| handed >= HOLDS * headers.per_s)
    }

    /// Whether the target has no CPU more: all of the machine's are used, or of those that it may use.
    pub(crate) fn has_no_room(&self) -> bool {
        let is_full = |of: &Target| of.cores >= FULL * of.limit;
        self.no_cpu_is_idle() || self.target_cpu.as_ref().is_ok_and(is_full)
    }

    /// Of a node that is seen by its memory: the process in whose mailbox most requests under way wait, while one is served.
    pub(crate) fn most_wait_for(&self) -> Option<&Process<'a>> {
        let callers = self.callers();
        let asked = self.seen.iter().filter(|of| self.has_most(of));
        let most = asked.max_by_key(|of| of.waiting(callers));
        most.or_else(|| self.seen.iter().find(|of| self.is_passed_over(of)))
    }

    /// Whether most requests under way wait in its mailbox, while it serves one.
    fn has_most(&self, of: &Process) -> bool {
        let (callers, waiting) = (self.callers(), of.waiting(self.callers()));
        let is_asked = of.with_mail >= HALFWAY && !of.is_log_handler();
        let serves = of.running >= HALFWAY || of.waits_inside();
        let are_most = (waiting + 1) as f64 >= HALFWAY * self.under_way();
        is_asked && serves && are_most && (1..=callers).contains(&waiting)
    }

    /// Whether a process always works while requests sleep and nobody else is asked, and has ten times as many messages as there are
    /// requests, more and more: these are answered before those are taken, so it takes the ones behind first.
    pub(crate) fn is_passed_over(&self, of: &Process) -> bool {
        let (callers, asleep) = (self.callers(), self.inside.asleep);
        let sleeping = self.by_memory(erlang::SLEEPING).unwrap_or(f64::INFINITY);
        let others = self.inside.questions().max(sleeping);
        let is_asked = asleep >= HALFWAY * self.under_way() && others < HALFWAY * asleep;
        let grows = of.standing(callers) == 0 && of.mailbox as f64 >= FEW * callers as f64;
        let is_asked = is_asked && !self.seen.iter().any(|other| self.has_most(other));
        is_asked && grows && of.running >= FULL && !of.is_log_handler() && !self.has_no_room()
    }

    pub(crate) fn no_cpu_is_idle(&self) -> bool {
        let is_full = |host: &Host| host.busy >= FULL * host.cpus;
        self.run.header.target.local && self.host.as_ref().is_ok_and(is_full)
    }

    /// The part of an exchange in so much a second. Unit: seconds, of CPUs' worth of time.
    pub(crate) fn per_exchange(&self, a_second: f64) -> f64 {
        a_second / self.attained.max(1e-9)
    }

    /// The rate without such a share of the target's work.
    pub(crate) fn rate_without(&self, share: f64) -> OpRate {
        OpRate(self.attained.max(1e-9) / (1.0 - share).max(1e-3))
    }

    /// The rate of all connections, if an exchange took so long.
    pub(crate) fn rate_at(&self, seconds: f64) -> OpRate {
        OpRate(f64::from(self.run.connections()) / seconds)
    }

    /// `20.1 ms an exchange`.
    pub(crate) fn took(&self, seconds: f64) -> String {
        format!("{} {}", duration(seconds), self.each())
    }

    /// What throughput counts: `an exchange`, `a block` of streams; of a watched service `an answer`, else `a read`.
    pub fn each(&self) -> &'static str {
        match self.run.counted() {
            Counted::Answers(_) => "an answer",
            Counted::Reads => "a read",
            Counted::Written => "a KiB",
            Counted::Exchanges if self.run.block().is_some() => "a block",
            Counted::Exchanges => "an exchange",
        }
    }

    /// The node's samples; silent where there is none, or it serves no request.
    pub(crate) fn serving_node(&self) -> Result<Of<'a>, Silent> {
        let node = self.run.node()?;
        self.has_traffic()?;
        Ok(node)
    }

    /// What the node's schedulers did, what the kernel gave the target, and the part of the former that ran.
    pub(crate) fn schedulers(&self) -> Result<(&NodeCpu, &Target, f64), Missing> {
        let node = self.node.as_ref().map_err(Clone::clone)?;
        let target = self.target_cpu()?;
        Ok((node, target, node.let_run(target.cores)))
    }

    /// `its schedulers had work for 1.20 CPUs`; none where no node was sampled inside.
    pub(crate) fn scheduled(&self) -> Option<String> {
        let work = self.node.as_ref().ok()?.scheduled();
        Some(format!("its schedulers had work for {work:.2} CPUs"))
    }

    pub(crate) fn target_cpu(&self) -> Result<&Target, Missing> {
        self.target_cpu.as_ref().map_err(Clone::clone)
    }

    pub(crate) fn has_traffic(&self) -> Result<(), Silent> {
        let run = &self.run;
        let is_quiet = run.is_watched() && run.load.exchanges == 0 && run.attained().0 <= 0.0;
        silent_if(is_quiet, "no sampled connection was read")
    }

    pub(crate) fn is_made(&self) -> Result<(), Silent> {
        silent_if(self.load == Load::Watched, "linerate makes no load in this run")
    }

    pub(crate) fn is_local(&self) -> Result<(), Silent> {
        silent_if(!self.run.header.target.local, "the target is on another host")?;
        self.has_traffic()
    }
}
