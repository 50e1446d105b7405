//! Use of each resource: `fullness = (time on it + time that others took from it) / servers`.
//!
//! Other programs' CPU time is no demand of an exchange. It takes CPUs away as far as our threads wait for one: `lost
//! = waiting for a CPU x strangers / (strangers + our other threads)`, at most what strangers had. So half of a CPU
//! beside a busy loop is full, and a sleeping service beside a compiler is not.
//!
//! A node's own account is wall time; the part that the kernel ran is its work ([`NodeCpu`]). Of several threads none
//! is full before all are: `servers = CPU time / time of the busiest`. A lock held in turn leaves each headroom.
//!
//! Blind spot: strangers on the engine's CPUs may be attributed to the target's, where both have some.
//! Source: the utilisation law, Lazowska et al., "Quantitative System Performance", 1984, chapter 3.

use crate::prelude::*;

#[derive(Clone, Debug, PartialEq)]
pub struct InUse {
    pub resource: Resource,
    /// In servers, at most all of them.
    pub used: f64,
    pub servers: f64,
    /// CPUs' worth of its own time within `used`.
    pub(crate) cpu: f64,
    /// Whether it is the machine as far as the target may use it: with more CPUs for the target there is more of it.
    pub(crate) is_targets_part: bool,
    /// Whether it is the machine without what stands apart from it.
    pub(crate) is_rest: bool,
    /// Whether the target's code was still being compiled while it worked there.
    pub(crate) is_compiled: bool,
}

impl InUse {
    pub fn fullness(&self) -> f64 {
        self.used / self.servers
    }

    /// The same if those who wait in it were spared so much, in servers: a thread's wait for a disk is no work.
    pub(crate) fn without_waits(&self, spared: f64) -> Self {
        use Resource::*;
        let has_waits = matches!(self.resource, TargetThread | DirtySchedulers);
        let waits = if has_waits { (self.used - self.cpu).max(0.0) } else { 0.0 };
        Self { used: (self.used - waits.min(spared)).max(self.used / 1e6), ..self.clone() }
    }

    /// What others took: it is no demand of ours, but fewer servers.
    pub(crate) fn lost(&self) -> f64 {
        use Resource::*;
        let is_cpu = matches!(self.resource, HostCpu | TargetCpu | EngineCpu);
        if is_cpu { self.used - self.cpu } else { 0.0 }
    }

    pub(crate) fn station(&self, heat: Heat, by: By) -> QueueStation {
        let lost = self.lost();
        let used = self.used - lost;
        let left = |power: f64| {
            if self.is_compiled {
                return 1.0 - (1.0 - COLD.powf(-1.5 * power)) * self.cpu / used;
            }
            let (idle, times) = (1.0 - self.fullness(), COLD.powf(power));
            let spared = (1.0 - times.powf(-idle)) * self.cpu;
            1.0 - spared.min(by.engine * by.wakings * times * idle) / used
        };
        let left = match heat {
            Heat::Cold => 1.0,
            Heat::Warm => left(1.0),
            Heat::Hot => left(2.0),
        };
        let (demand, servers) = (used / by.attained * left, self.servers - lost);
        QueueStation { id: self.resource.id().into(), demand, servers }
    }
}

/// How a demand measured on CPUs with idle time changes where they are busy: as measured, the likely one, or the least.
///
/// After a pause an exchange meets cold caches, wakes sleeping threads, and is alone where it would be one of a batch.
/// That costs idle time, and shows at linerate's own end: its peer does not pay many times more for each time that it wakes. But
/// code that a runtime compiles as it is used is interpreted at first, idle or not: 6 to 25 times as dear at a few hundred exchanges
/// a second as at thousands (docs/account.md, "Cold and warm").
#[derive(Clone, Copy)]
pub(crate) enum Heat {
    Cold,
    Warm,
    Hot,
}

/// What turns a use into a demand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct By {
    pub attained: f64,
    /// linerate's use for them. Unit: CPUs' worth of time.
    pub engine: f64,
    /// How often threads wake on this host for each time that linerate does, for an exchange.
    pub wakings: f64,
}

impl By {
    /// A thread that falls asleep and wakes is two switches of its CPU. Source: proc_stat(5), `ctxt`.
    pub(crate) fn of(run: &Run, attained: f64) -> Self {
        let rate = |of: Of| of.rate(stat::CTXT).ok().filter(|_| run.header.target.local);
        // What switches where hardly anything is asked is not for an exchange.
        let spaced = run.evidence.step(StepKind::Spaced);
        let others =
            spaced.and_then(|of| rate(run.evidence.of(Subject::Host).within(of.from..=of.to)));
        let switches = rate(run.of(Subject::Host)).unwrap_or(0.0) - others.unwrap_or(0.0);
        let wakings = (switches / 2.0 / attained.max(1e-9)).max(1.0);
        Self { attained, engine: run.engine_cores(), wakings }
    }
}

/// Programs other than target, engine and path on the CPUs that the target may use. Unit: CPUs' worth of time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Strangers {
    /// Steal included.
    pub had: f64,
    /// The part that the target's threads waited for.
    pub lost: f64,
}

/// Every measured resource, those within each other included.
#[derive(Clone, Debug, Default)]
pub struct Stations {
    pub(crate) all: Vec<InUse>,
    /// Absent where the target's host is not sampled, or the kernel does not count what waits for a CPU.
    pub strangers: Option<Strangers>,
}

/// CPUs' worth of time that threads waited for because strangers had them.
fn lost(strangers: f64, ours: f64, one: f64, waited: f64) -> f64 {
    let rivals = strangers + (ours - one).max(0.0);
    if rivals > 0.0 { (waited * strangers / rivals).min(strangers) } else { 0.0 }
}

/// What strangers had at most of the CPUs that these may use, and what these lost to them; `others` had all but theirs.
fn beside_strangers(of: &Running, strangers: f64, others: f64, one: f64) -> (f64, Option<f64>) {
    let others = of.others().unwrap_or(others);
    let had = strangers.min(others);
    let ours = of.running + (others - had);
    (had, of.runnable.map(|waited| lost(had, ours, one, waited)))
}

impl Stations {
    pub(crate) fn of(facts: &Facts) -> Self {
        let mut this = Self::default();
        // Of equally full ones the last is named.
        let strangers = this.machine(facts);
        let used = facts.fullest_direction().map_or(0.0, |(.., used)| used);
        this.push(Resource::Line, used, 1.0, 0.0);
        let threads = facts.directions.iter().filter_map(|of| of.of.rate(link::CPU).ok());
        let busiest = threads.fold(0.0, f64::max);
        this.push(Resource::Emulator, busiest, 1.0, busiest);
        if facts.load == Load::Made {
            this.engine(facts, strangers);
        }
        if let Ok(of) = facts.target_cpu() {
            this.target(facts, of);
            match &of.node {
                Some(node) => this.node(facts, of, node),
                None => {
                    this.dirty_schedulers(1.0, |pool| pool.outside(facts));
                    // Where it could have run it did.
                    let one = facts.most_wait_for().filter(|_| !facts.has_no_room());
                    let used = one.map_or(0.0, |of| of.running);
                    this.push(Resource::Process, used, 1.0, used.min(of.work()));
                }
            }
        }
        let threads = facts.threads().filter(|of| of.compiling > 0.0);
        if threads.is_some_and(|of| of.compiling >= SPLIT * (of.running - of.collecting)) {
            use Resource::*;
            let is_targets = |of: &InUse| matches!(of.resource, HostCpu | TargetCpu | TargetThread);
            this.all.iter_mut().for_each(|of| of.is_compiled = is_targets(of));
        }
        this
    }

    /// What is unused, or has no servers, is left out.
    fn push(&mut self, resource: Resource, used: f64, servers: f64, cpu: f64) {
        let used = used.min(servers);
        if used > 0.0 {
            let cpu = cpu.min(used);
            let [is_targets_part, is_rest, is_compiled] = [false; 3];
            let of = InUse { resource, used, servers, cpu, is_targets_part, is_rest, is_compiled };
            self.all.push(of);
        }
    }

    /// Threads: the share of time in which the busiest is on a CPU or waits for a disk, and that on a CPU.
    fn threads(&mut self, resource: Resource, cores: f64, [busiest, cpu]: [f64; 2]) {
        if busiest > 0.0 {
            let servers = (cores / busiest).max(1.0);
            self.push(resource, servers * busiest, servers, cores.max(cpu * servers));
        }
    }

    /// The sampled machine; returns CPUs' worth of time that strangers had of it.
    fn machine(&mut self, facts: &Facts) -> Option<f64> {
        let (run, target) = (&facts.run, facts.target.as_ref());
        let host = facts.host.as_ref().ok()?;
        let local = run.header.target.local;
        let of_target = facts.target_cpu().ok().filter(|_| local);
        // Clients of a watched service come with its work, and are no strangers.
        let clients = run.of(Subject::Target).rate(clients::RUN).ok().filter(|_| run.is_watched());
        let beside = run.engine_cores() + run.path_cores() + clients.unwrap_or(0.0);
        let ours = match of_target {
            // The target's part of it is unknown.
            None if local => host.busy,
            of => beside + of.map_or(0.0, Target::work),
        };
        // CPU time accounted to no program (the kernel enters and leaves idle) is no other program's.
        let ran = stat::accounted(&run.of(Subject::Host)).unwrap_or(host.busy).min(host.busy);
        let strangers = (ran - ours).max(0.0);
        // Processes on this host that the target asks come with its work; its own are in it already.
        let asked = facts.inside.asked_cores(run.header.target.pid).min(strangers);
        let (beside, ours, strangers) = (beside + asked, ours + asked, strangers - asked);
        let threads = [target.filter(|_| local), facts.engine.as_ref()];
        let waited: f64 = threads.iter().flatten().filter_map(|of| of.runnable).sum();
        let one = of_target.and_then(|of| of.busiest_thread).unwrap_or(0.0);
        // The sampled machine is the engine's: with the target elsewhere, a full one is the engine's.
        let whose = if local { Resource::HostCpu } else { Resource::EngineCpu };
        self.push(whose, ours + lost(strangers, ours, one, waited), host.cpus, ours);
        let (Some(of), Some(running)) = (of_target, target) else { return Some(strangers) };
        let (had, lost) = beside_strangers(running, strangers, strangers + beside, one);
        self.strangers = lost.map(|lost| Strangers { had, lost });
        // The CPUs that target and engine share, where the target may not use the others.
        if let Some(busy) = running.cpus.busy
            && of.cpus < host.cpus
        {
            let (ours, shared) = ((busy - had).max(0.0), self.all.len());
            self.push(Resource::HostCpu, ours + lost.unwrap_or(0.0), of.cpus, ours);
            self.all.iter_mut().skip(shared).for_each(|of| of.is_targets_part = true);
        }
        Some(strangers)
    }

    /// linerate's own threads, the CPUs that they may use, its quota.
    fn engine(&mut self, facts: &Facts, strangers: Option<f64>) {
        let (cores, busiest) = (facts.run.engine_cores(), facts.run.load.busiest_thread);
        if let Some(of) = &facts.engine {
            self.push(Resource::EngineCpu, of.running, of.quota.unwrap_or(0.0), of.running);
            let lost = strangers.and_then(|had| beside_strangers(of, had, had, busiest).1);
            if let Some((count, lost)) = of.cpus.count.zip(lost) {
                self.push(Resource::EngineCpu, of.running + lost, count, of.running);
            }
        }
        self.threads(Resource::EngineCpu, cores, [busiest; 2]);
    }

    /// The CPUs that the target may use, its quota, its threads.
    fn target(&mut self, facts: &Facts, of: &Target) {
        if facts.run.header.target.local {
            let lost = self.strangers.map_or(0.0, |strangers| strangers.lost);
            self.push(Resource::TargetCpu, of.work() + lost, of.cpus, of.work());
        }
        self.push(Resource::TargetCpu, of.cores, of.quota.unwrap_or(0.0), of.cores);
        if let Some(busiest) = of.busiest_thread {
            // Samples also show its waits; that it was ready without running is no use of it.
            let sampled = facts.inside.threads.as_ref();
            let waits = sampled.map_or(0.0, |of| of.fullest.min(busiest + of.disk));
            self.threads(Resource::TargetThread, of.work(), [busiest.max(waits), busiest]);
        }
    }

    /// A node's schedulers, and the process that requests pass.
    fn node(&mut self, facts: &Facts, of: &Target, node: &NodeCpu) {
        let let_run = node.let_run(of.cores);
        let work = node.active * let_run;
        let held = facts.target.as_ref().map_or(0.0, |kernel| node.held(kernel));
        self.push(Resource::TargetCpu, work + held, node.online, work);
        let inside = facts.run.of(Subject::Node);
        self.dirty_schedulers(let_run, |pool| pool.of(&inside).ok());
        let hottest = Hottest::of(&facts.run).ok().filter(|of| of.share >= EXPLAINED);
        let in_the_way = |process: &&Process| {
            !process.is_owner && process.with_mail >= HALFWAY
                || hottest.as_ref().is_some_and(|of| of.owner == process.pid)
        };
        let asked = facts.processes.iter().filter(in_the_way);
        let used = asked.filter_map(|of| facts.used_by(of).ok()).fold(0.0, f64::max);
        self.push(Resource::Process, used, 1.0, used);
    }

    /// Its dirty schedulers: those for computing take a CPU each, as far as they are let run.
    fn dirty_schedulers(&mut self, let_run: f64, of: impl Fn(Pool) -> Option<InPool>) {
        for pool in Pool::ALL {
            if let Some(InPool { busy, computing, count, .. }) = of(pool) {
                self.push(Resource::DirtySchedulers, busy, count, computing * let_run);
            }
        }
    }

    /// The fullest station of a resource; none: not measured, or not used.
    pub fn of_resource(&self, resource: Resource) -> Option<&InUse> {
        self.fullest_of(&[resource])
    }

    fn fullest_of(&self, resources: &[Resource]) -> Option<&InUse> {
        let of = self.all.iter().filter(|it| resources.contains(&it.resource));
        of.max_by(|a, b| a.fullness().total_cmp(&b.fullness()))
    }

    /// Its fullness; 0 where it was not measured.
    pub fn fullness(&self, resource: Resource) -> f64 {
        self.of_resource(resource).map_or(0.0, InUse::fullness)
    }

    /// The fullest of all, and its fullness. A full machine is target's or engine's where that has nearly all of it.
    pub fn fullest(&self) -> Option<(Resource, f64)> {
        let most = self.all.iter().max_by(|a, b| a.fullness().total_cmp(&b.fullness()))?;
        let full = most.fullness();
        let parts = [Resource::EngineCpu, Resource::TargetCpu].into_iter();
        let mut parts = parts.filter(|_| most.resource == Resource::HostCpu);
        let whose = parts.find(|of| self.fullness(*of) >= EXPLAINED * full);
        Some((whose.unwrap_or(most.resource), full))
    }

    /// By how much the load may grow until the fullest resource is full, with one lifted, or `spared` servers less.
    pub(crate) fn room(&self, heat: Heat, lifted: Option<Resource>, spared: f64) -> f64 {
        let by = By { attained: 1.0, engine: f64::INFINITY, wakings: 1.0 };
        let others = self.all.iter().filter(|of| Some(of.resource) != lifted);
        let room = |of: &InUse| {
            let is_spared = lifted.is_some_and(|lifted| lifted.is_part_of(of.resource));
            // The spared share of its use is also spared of its demand, hot or cold.
            let left = if is_spared { 1.0 - (spared / of.used.max(1e-9)).min(1.0) } else { 1.0 };
            of.servers / (of.station(heat, by).demand * left).max(of.servers / 1e6)
        };
        others.map(room).fold(f64::INFINITY, f64::min)
    }

    /// The same if linerate had its CPUs to itself, and no quota.
    pub(crate) fn with_free_engine(&self) -> Self {
        let mut free = self.clone();
        free.all.retain(|of| of.resource != Resource::EngineCpu);
        free.all.iter_mut().filter(|of| of.lost() > 0.0).for_each(|of| of.used = of.cpu);
        free
    }

    /// The stations of a network in which no second counts twice: the machine, and apart from it whatever is fuller.
    pub(crate) fn apart(&self) -> Vec<InUse> {
        use Resource::*;
        let host = self.of_resource(HostCpu);
        let parts: [&[_]; 3] =
            [&[EngineCpu], &[TargetCpu, TargetThread, DirtySchedulers, Process], &[Emulator]];
        let is_fuller = |of: &&InUse| host.is_none_or(|host| of.fullness() > host.fullness());
        let parts = parts.into_iter().filter_map(|of| self.fullest_of(of));
        let apart: Vec<&InUse> = parts.filter(is_fuller).collect();
        let cpu: f64 = apart.iter().map(|of| of.cpu).sum();
        let rest = host.map(|of| {
            let (used, servers) = (of.used - cpu, of.servers - cpu);
            InUse { used, servers, cpu: of.cpu - cpu, is_rest: true, ..of.clone() }
        });
        let rest = rest.filter(|of| of.used > 0.0 && of.servers > 0.0).into_iter();
        rest.chain(apart.into_iter().chain(self.of_resource(Line)).cloned()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stations(all: &[(Resource, f64, f64)]) -> Stations {
        let mut stations = Stations::default();
        all.iter().for_each(|(of, used, servers)| stations.push(*of, *used, *servers, *used));
        stations
    }

    #[test]
    fn what_is_fuller_than_the_machine_stands_apart_from_it_and_nothing_stands_twice() {
        use Resource::*;
        let all = stations(&[(HostCpu, 1.4, 2.0), (TargetCpu, 0.4, 2.0), (EngineCpu, 1.0, 1.0)]);
        let (solved, by) = (all.apart(), By { attained: 1000.0, engine: 0.0, wakings: 1.0 });
        let demand: f64 = solved.iter().map(|of| of.station(Heat::Cold, by).demand).sum();
        assert!((demand - 1.4e-3).abs() < 1e-9, "{demand}");
        assert_eq!(solved.len(), 2);
        assert_eq!(all.fullest().map(|(of, _)| of), Some(EngineCpu));
    }

    #[test]
    fn a_busy_cpu_may_do_with_less_what_an_idle_one_did() {
        let demand = |used: f64, heat| {
            let stations = stations(&[(Resource::HostCpu, used, 2.0)]);
            let by = By { attained: 1000.0, engine: used / 2.0, wakings: 1.0 };
            stations.apart()[0].station(heat, by).demand * 1e6
        };
        // A quarter and less of what it takes after a pause: the table in docs/account.md.
        assert!((60.0..80.0).contains(&demand(0.2, Heat::Warm)));
        assert!((20.0..30.0).contains(&demand(0.2, Heat::Hot)));
        assert!((demand(2.0, Heat::Hot) - 2000.0).abs() < 1e-9);
    }

    #[test]
    fn who_wakes_for_an_exchange_more_often_than_linerate_may_be_spared_as_much_more() {
        // The lock of mnesia in docs/account.md: 872 us at 351 exchanges a second, then 220 us.
        let stations = stations(&[(Resource::HostCpu, 0.31, 2.0)]);
        let demand = |wakings, heat| {
            let by = By { attained: 351.0, engine: 0.02, wakings };
            stations.apart()[0].station(heat, by).demand * 1e6
        };
        let none = demand(1.0, Heat::Cold);
        assert!(demand(1.0, Heat::Hot) > 0.5 * none);
        let [hot, warm] = [Heat::Hot, Heat::Warm].map(|heat| demand(7.0, heat) / none);
        assert!(hot < 220.0 / 872.0 && 220.0 / 872.0 < warm, "{hot} {warm}");
    }

    #[test]
    fn code_that_is_still_compiled_may_get_much_quicker_on_a_busy_cpu_too() {
        let mut stations = stations(&[(Resource::HostCpu, 2.0, 2.0)]);
        stations.all[0].is_compiled = true;
        let by = By { attained: 1000.0, engine: 0.0, wakings: 1.0 };
        let hot = stations.apart()[0].station(Heat::Hot, by).demand;
        assert!((hot * 27.0 - 2e-3).abs() < 1e-9, "{hot}");
    }
}
