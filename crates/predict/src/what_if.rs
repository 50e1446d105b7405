//! What a run would have done otherwise: its demands are taken from its evidence, some things are changed, and the
//! network is solved again.
//!
//! The model is first made to reproduce the run, with the run's path. An exchange's time alone, less its CPU and its
//! path, is a delay. Time beyond that and beyond the queues of the CPUs may be a wait for something unmeasured. That
//! gets a station only where the fit ([`crate::fit`]) shows how many are served at a time, and that they are fewer
//! than there were connections; else it is a delay. Each end of the interval reproduces the run, with dearer or
//! cheaper exchanges.
//!
//! A thread that was not full is no ceiling: another one may do its work. At the low end it is one.
//!
//! Blind spot: that station may as well be several, or grow with load.

use linerate_model::OpRate;
use serde::{Deserialize, Serialize};

use crate::crossing::Crossing;
use crate::fit::{Alone, Observed, fit as fitted_to};
use crate::forecast::{Ceiling, Lean, Service, settle};
use crate::mva::{Closed, Station};
use crate::network::QueueStation;
use crate::words::duration;

/// The service of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Workers that it had.
    pub connections: u32,
    /// Their throughput.
    pub throughput: OpRate,
    /// Where its exchanges queue for CPU.
    pub cpus: Vec<Cpu>,
    /// Threads that exchanges pass one after the other, as ceilings: the rate at which each is full.
    pub threads: Vec<Ceiling>,
    /// The path that it was run on.
    pub crossing: Crossing,
    /// Time of an exchange alone, path included. Unit: seconds; absent: unknown.
    pub alone: Option<f64>,
    /// What is full, by the verdict: the name of the unmeasured station.
    pub held_by: Option<String>,
    /// Random error of its throughput, as a share.
    pub noise: f64,
}

/// CPUs with one queue.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Cpu {
    /// The roof that is named when they are full: `host.cpu`, `target.cpu`, `engine.cpu`.
    pub id: String,
    /// Of one exchange. Unit: seconds of one CPU.
    pub demand_s: f64,
    /// How many there are.
    pub cpus: u16,
}

/// What is changed. The path is [`Changed::crossing`]'s.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Change {
    /// So many CPUs instead of [`Measured::cpus`]: of the machine that the target is on.
    pub cpus: Option<u16>,
    /// So many machines like this, with workers spread over them; absent: one.
    pub hosts: Option<u16>,
}

/// A measured service with a change made to it.
#[derive(Clone, Debug)]
pub struct Changed {
    measured: Measured,
    change: Change,
    /// By lean: Low, Middle, High.
    fitted: [Fitted; 3],
}

/// The model that reproduces the run.
#[derive(Clone, Copy, Debug)]
struct Fitted {
    /// Time that CPUs and path do not explain. Unit: seconds.
    delay: f64,
    /// A factor of the demands.
    dearer: f64,
    /// At the unmeasured station; 0: there is none. Unit: seconds.
    unknown: f64,
    /// How many exchanges it serves at a time.
    at_once: f64,
}

// Chosen: a CPU this full explains that exchanges wait.
const FULL: f64 = 0.85;

// Chosen: waiting for less than a tenth of the time is chance, or bursts.
const WAITS: f64 = 0.1;

// Chosen: an exchange alone varies by this much, with its caches and other programs.
const ALONE: f64 = 0.1;

// Chosen: no two runs of one plan agree better.
const LEAST_NOISE: f64 = 0.03;

// Chosen: an idle CPU's exchange costs up to 1.4 times a busy one's (docs/adr/0006), and one among others up to 1.15
// times one alone, where caches and locks are shared.
const CHEAPER_BUSY: f64 = 1.4;
const DEARER_BUSY: f64 = 1.15;

// Measured: inets httpd on two full CPUs did 30,112 exchanges a second for 4 connections and 25,763 for 100:
// 3.4 % dearer for each doubling.
const DEARER_TWICE: f64 = 1.05;

// Chosen: of added CPUs eight tenths are gained, and four at worst; a second machine shares less.
const OF_MORE_CPUS: [f64; 3] = [0.4, 0.8, 1.0];
const OF_MORE_HOSTS: [f64; 3] = [0.8, 0.95, 1.0];

const LEANS: [Lean; 3] = [Lean::Low, Lean::Middle, Lean::High];

impl Changed {
    /// The service of a run, with a change.
    pub fn new(measured: Measured, change: Change) -> Self {
        let busiest = measured
            .cpus
            .iter()
            .map(|cpu| measured.throughput.0 * cpu.demand_s / f64::from(cpu.cpus.max(1)))
            .fold(0.0, f64::max)
            .min(1.0);
        let fitted = LEANS.map(|lean| {
            // A full CPU's demand is known; an idle one's may be anything within the bounds.
            let dearer = match lean {
                Lean::Low => 1.0 + (DEARER_BUSY - 1.0) * (1.0 - busiest),
                Lean::Middle => 1.0,
                Lean::High => 1.0 / (1.0 + (CHEAPER_BUSY - 1.0) * (1.0 - busiest)),
            };
            meet(&measured, dearer, busiest, lean)
        });
        Self { measured, change, fitted }
    }

    /// Time of an exchange that neither CPUs nor path explain, without queueing. Unit: seconds.
    pub fn delay(&self) -> f64 {
        self.fitted[1].delay
    }

    /// Time for which each exchange occupies something full and unmeasured: its time there by the number served at a
    /// time. Unit: seconds; 0: there is none.
    pub fn unknown(&self) -> f64 {
        self.fitted[1].unknown / self.fitted[1].at_once.max(1e-9)
    }

    /// Whether a thread is a ceiling for certain: the engine's only one, or a full one.
    fn is_certain(&self, thread: &Ceiling) -> bool {
        thread.id == "engine.cpu" || self.measured.throughput.0 >= FULL * thread.per_s.0
    }

    fn network(&self, population: u32, lean: Lean) -> Closed {
        let of = index(lean);
        let Fitted { delay, dearer, unknown, at_once } = self.fitted[of];
        let dearer = dearer * self.crowded(population, lean);
        let hosts = self.change.hosts.unwrap_or(1).max(1);
        // Each further machine gives less than a machine.
        let speed = (1.0 + f64::from(hosts - 1) * OF_MORE_HOSTS[of]) / f64::from(hosts);
        let stations = self.measured.cpus.iter().map(|cpu| {
            let (servers, got) = match self.change.cpus.filter(|_| is_of_target(cpu)) {
                None => (cpu.cpus, 1.0),
                Some(now) => {
                    let gain = f64::from(now) / f64::from(cpu.cpus.max(1));
                    let more = (gain - 1.0).max(0.0) * OF_MORE_CPUS[of];
                    (now, if gain > 1.0 { (1.0 + more) / gain } else { 1.0 })
                }
            };
            let demand = cpu.demand_s * dearer / got / speed;
            Station { demand, servers: f64::from(servers), copies: hosts }
        });
        let unknown = Station { demand: unknown, servers: at_once, copies: hosts };
        Closed { delay, stations: stations.chain([unknown]).collect() }
    }
}

impl Changed {
    /// The cost of an exchange with more workers than measured, at worst.
    fn crowded(&self, population: u32, lean: Lean) -> f64 {
        let times = f64::from(population) / f64::from(self.measured.connections.max(1));
        match lean {
            Lean::Low => DEARER_TWICE.powf(times.max(1.0).log2()),
            Lean::Middle | Lean::High => 1.0,
        }
    }
}

/// The engine's own machine is not changed here.
fn is_of_target(cpu: &Cpu) -> bool {
    cpu.id != "engine.cpu"
}

fn index(lean: Lean) -> usize {
    match lean {
        Lean::Low => 0,
        Lean::Middle => 1,
        Lean::High => 2,
    }
}

impl Service for Changed {
    fn throughput(&self, population: u32, away: f64, lean: Lean) -> f64 {
        let mut network = self.network(population, lean);
        network.delay += away;
        // Threads grow with machines, not with CPUs.
        let hosts = f64::from(self.change.hosts.unwrap_or(1).max(1));
        let threads = self.measured.threads.iter();
        let threads = threads.filter(|it| lean == Lean::Low || self.is_certain(it));
        let threads = threads.map(|it| it.per_s.0 * hosts);
        let most = threads.fold(f64::INFINITY, f64::min);
        let noise = self.measured.noise.max(LEAST_NOISE);
        let chance = match lean {
            Lean::Low => 1.0 - noise,
            Lean::Middle => 1.0,
            Lean::High => 1.0 + noise,
        };
        network.solve(population).throughput.0.min(most) * chance
    }

    fn alone(&self) -> f64 {
        self.network(1, Lean::Middle).alone()
    }

    fn ceilings(&self, _: u32) -> Vec<Ceiling> {
        let hosts = self.change.hosts.unwrap_or(1).max(1);
        let on = if hosts > 1 { format!(", on {hosts} machines") } else { String::new() };
        let network = self.network(1, Lean::Middle);
        let cpus = self.measured.cpus.iter().zip(&network.stations).map(|(cpu, station)| {
            let rate = station.servers * f64::from(hosts) / station.demand.max(1e-12);
            let plural = if station.servers <= 1.0 { "" } else { "s" };
            let how = format!(
                "{} CPU{plural} / {} of CPU an exchange{on}",
                station.servers,
                duration(station.demand)
            );
            Ceiling::new(&cpu.id, rate, how)
        });
        let threads = self.measured.threads.iter().filter(|it| self.is_certain(it)).map(|it| {
            let rate = OpRate(it.per_s.0 * f64::from(hosts));
            Ceiling { id: it.id.clone(), per_s: rate, sum: format!("{}{on}", it.sum) }
        });
        let unknown = self.unknown();
        let unknown = (unknown > 0.0).then(|| {
            let id = self.measured.held_by.as_deref().unwrap_or("unknown");
            let of = self.fitted[1];
            let times = match of.at_once {
                one if (one - 1.0).abs() < 0.05 => "one exchange".to_owned(),
                many => format!("{many:.1} exchanges"),
            };
            let how = format!("{times} at a time / {}{on}", duration(of.unknown));
            Ceiling::new(id, f64::from(hosts) / unknown, how)
        });
        cpus.chain(threads).chain(unknown).collect()
    }
}

/// Delay and demands with which the model reproduces the run.
fn meet(measured: &Measured, dearer: f64, busiest: f64, lean: Lean) -> Fitted {
    let target = measured.throughput.0;
    let does = |of: Fitted| {
        let station = |cpu: &Cpu| {
            let demand = cpu.demand_s * of.dearer;
            Station { demand, servers: f64::from(cpu.cpus), copies: 1 }
        };
        let unknown = Station { demand: of.unknown, servers: of.at_once, copies: 1 };
        let stations = measured.cpus.iter().map(station).chain([unknown]).collect();
        let network = Closed { delay: of.delay, stations };
        settle(&Fixed(network), &measured.crossing, measured.connections, lean).0
    };
    let cycle = f64::from(measured.connections) / target;
    let bare = Fitted { delay: 0.0, dearer, unknown: 0.0, at_once: 1.0 };
    // More than these CPUs can do: the counted cost is too high.
    if does(bare) < target {
        let dearer = last(dearer, |dearer| does(Fitted { dearer, ..bare }) >= target);
        return Fitted { dearer, ..bare };
    }
    let all = last(cycle, |delay| does(Fitted { delay, ..bare }) >= target);
    let of_cpus: f64 = measured.cpus.iter().map(|cpu| cpu.demand_s * dearer).sum();
    let alone = measured.alone.map(|alone| alone - measured.crossing.delay() - of_cpus);
    let Some(alone) = alone.map(|alone| alone.max(0.0)).filter(|alone| *alone < all) else {
        return Fitted { delay: all, ..bare };
    };
    if busiest >= FULL {
        // They wait for CPUs: these are a little slower than counted.
        let bare = Fitted { delay: alone, ..bare };
        let most = dearer / busiest * 1.5;
        return Fitted {
            dearer: last(most, |dearer| does(Fitted { dearer, ..bare }) >= target),
            ..bare
        };
    }
    if all - alone < WAITS * cycle || !is_held(measured, dearer, lean) {
        return Fitted { delay: all, ..bare };
    }
    // How much of the time alone is spent there is unknown; its throughput does not depend on that.
    let unknown = alone.max(LEAST_NOISE * all);
    let most = f64::from(measured.connections);
    let fewer =
        last(most, |fewer| does(Fitted { unknown, at_once: most - fewer, ..bare }) >= target);
    let at_once = most - fewer;
    // Less than one server is a slower one.
    Fitted { unknown: unknown / at_once.min(1.0), at_once: at_once.max(1.0), ..bare }
}

/// Whether the fit to the run excludes that all of its connections are served at a time.
fn is_held(measured: &Measured, dearer: f64, lean: Lean) -> bool {
    let Some(alone) = measured.alone else { return false };
    let of = |cpu: &Cpu| QueueStation {
        id: cpu.id.clone(),
        demand: cpu.demand_s * dearer,
        servers: f64::from(cpu.cpus),
    };
    let known: Vec<QueueStation> = measured.cpus.iter().map(of).collect();
    // Those that wait on the path are not there.
    let rate = measured.throughput.0;
    let added = measured.crossing.added(measured.connections, rate, lean).away;
    let stalled = (added - measured.crossing.delay()).max(0.0) * rate;
    let inside = (f64::from(measured.connections) - stalled).round().max(1.0);
    let noise = measured.noise.max(LEAST_NOISE);
    let observed = Observed {
        connections: inside as u32,
        per_s: rate,
        low: rate * (1.0 - noise),
        high: rate * (1.0 + noise),
    };
    let alone = Alone { service_s: alone, low: alone * (1.0 - ALONE), high: alone * (1.0 + ALONE) };
    fitted_to(&known, alone, &[observed]).k.is_some_and(|(_, _, high)| high <= inside)
}

/// The largest number up to `most` of which a condition holds that holds of smaller ones.
fn last(most: f64, holds: impl Fn(f64) -> bool) -> f64 {
    let (mut low, mut high) = (0.0, most);
    for _ in 0..40 {
        let mid = (low + high) / 2.0;
        if holds(mid) { low = mid } else { high = mid }
    }
    low
}

struct Fixed(Closed);

impl Service for Fixed {
    fn throughput(&self, population: u32, away: f64, _: Lean) -> f64 {
        let network = Closed { delay: self.0.delay + away, ..self.0.clone() };
        network.solve(population).throughput.0
    }

    fn alone(&self) -> f64 {
        self.0.alone()
    }

    fn ceilings(&self, _: u32) -> Vec<Ceiling> {
        Vec::new()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::forecast::forecast;
    use linerate_model::Path;
    use std::time::Duration;

    fn measured(connections: u32, delay: f64) -> Measured {
        let cpus = vec![Cpu { id: "host.cpu".into(), demand_s: 50e-6, cpus: 2 }];
        let network =
            Closed { delay, stations: vec![Station { demand: 50e-6, servers: 2.0, copies: 1 }] };
        Measured {
            connections,
            throughput: network.solve(connections).throughput,
            cpus,
            threads: Vec::new(),
            crossing: Crossing::default(),
            alone: Some(delay + 50e-6),
            held_by: None,
            noise: 0.0,
        }
    }

    #[test]
    fn nothing_changed_is_the_run_itself_at_both_ends_of_the_interval() {
        for connections in [1, 8, 500] {
            let measured = measured(connections, 200e-6);
            let same = Changed::new(measured.clone(), Change::default());
            let found = forecast(&same, &measured.crossing, connections).throughput_per_s;
            let now = measured.throughput.0;
            for (rate, at) in [(found.low, 0.97), (found.mid, 1.0), (found.high, 1.03)] {
                assert!((rate.0 / now - at).abs() < 1e-3, "{connections} {found:?}");
            }
        }
    }

    #[test]
    fn the_delay_that_cpus_do_not_explain_is_found() {
        let found = Changed::new(measured(8, 200e-6), Change::default());
        assert!((found.delay() / 200e-6 - 1.0).abs() < 1e-3, "{}", found.delay());
    }

    #[test]
    fn a_longer_path_is_littles_law_until_the_cpus_are_full() {
        let of = measured(8, 200e-6);
        let far = Crossing { path: Path::of_rtt(Duration::from_millis(10)), ..of.crossing.clone() };
        let changed = Changed::new(of, Change::default());
        let few = forecast(&changed, &far, 8);
        assert!((few.throughput_per_s.mid.0 / (8.0 / 0.01025) - 1.0).abs() < 0.01, "{few:?}");
        assert_eq!(few.by, "load.concurrency");
        let many = forecast(&changed, &far, 2_000);
        assert!((many.throughput_per_s.mid.0 / 40_000.0 - 1.0).abs() < 0.01, "{many:?}");
        assert_eq!(many.by, "host.cpu");
    }

    #[test]
    fn more_cpus_and_more_machines_lift_a_full_one_and_not_by_more_than_there_are() {
        let of = measured(500, 200e-6);
        let does = |change| {
            forecast(&Changed::new(of.clone(), change), &of.crossing, 500).throughput_per_s
        };
        let now = of.throughput.0;
        for change in [Change { cpus: Some(4), hosts: None }, Change { cpus: None, hosts: Some(2) }]
        {
            let found = does(change);
            assert!(found.low.0 > 1.2 * now && found.mid.0 > 1.6 * now, "{change:?} {found:?}");
            assert!(found.high.0 < 2.07 * now, "{change:?} {found:?}");
        }
        let half = does(Change { cpus: Some(1), hosts: None });
        assert!((half.mid.0 / now - 0.5).abs() < 0.01, "{half:?}");
    }

    #[test]
    fn what_exchanges_wait_for_and_nobody_measured_does_not_grow_with_more_of_them() {
        // Something takes 1 ms of each exchange, one after the other; CPUs are idle.
        let stations = vec![
            Station { demand: 50e-6, servers: 2.0, copies: 1 },
            Station { demand: 1e-3, servers: 1.0, copies: 1 },
        ];
        let does = Closed { delay: 0.0, stations }.solve(20).throughput;
        let of = Measured {
            throughput: does,
            alone: Some(1.05e-3),
            held_by: Some("vm.funnel".into()),
            ..measured(20, 0.0)
        };
        let changed = Changed::new(of.clone(), Change::default());
        let more = forecast(&changed, &of.crossing, 200);
        assert!(more.throughput_per_s.mid.0 < 1.1 * does.0, "{more:?}");
        assert!(more.throughput_per_s.high.0 < 1.2 * does.0, "{more:?}");
        assert_eq!(more.by, "vm.funnel");
        assert!(more.says().starts_with("one exchange at a time / 1.0"), "{}", more.says());
    }

    #[test]
    fn a_pool_is_as_many_at_a_time_as_it_has() {
        // Four at a time for 20 ms each, asked by 32.
        let of = Measured {
            throughput: OpRate(199.0),
            alone: Some(20.05e-3),
            held_by: Some("app.pool".into()),
            ..measured(32, 0.0)
        };
        let changed = Changed::new(of.clone(), Change::default());
        let at = |connections| forecast(&changed, &of.crossing, connections);
        assert!(
            at(32).says().starts_with("4.0 exchanges at a time / 20.0 ms"),
            "{}",
            at(32).says()
        );
        // Two of them do not meet.
        assert!((at(2).throughput_per_s.mid.0 / 99.8 - 1.0).abs() < 0.02, "{:?}", at(2));
    }

    #[test]
    fn what_cpus_do_is_not_capped_by_a_thread_that_is_not_full_or_by_a_queue_that_may_be_none() {
        // A service on 1.4 of two CPUs whose goroutines move from thread to thread.
        let of = Measured {
            threads: vec![Ceiling::new("target.cpu", 28_000.0 / 0.75, "one thread".into())],
            throughput: OpRate(28_000.0),
            alone: Some(170e-6),
            ..measured(6, 0.0)
        };
        let changed = Changed::new(of.clone(), Change::default());
        assert_eq!(changed.unknown(), 0.0);
        let more = forecast(&changed, &of.crossing, 100);
        assert_eq!(more.by, "host.cpu", "{more:?}");
        assert!(more.throughput_per_s.mid.0 > 38_000.0, "{more:?}");
    }

    #[test]
    fn a_limit_that_the_run_had_is_taken_off_when_it_is_lifted() {
        let path = Path { limit: Some(20), ..Path::of_rtt(Duration::from_millis(10)) };
        let with = Crossing { path: path.clone(), ..Crossing::default() };
        let network = Closed {
            delay: 0.0,
            stations: vec![Station { demand: 50e-6, servers: 2.0, copies: 1 }],
        };
        let does = settle(&Fixed(network), &with, 100, Lean::Middle).0;
        let of = Measured {
            throughput: OpRate(does),
            crossing: with,
            alone: Some(10.05e-3),
            ..measured(100, 0.0)
        };
        let without = Crossing { path: Path { limit: None, ..path }, ..Crossing::default() };
        let found = forecast(&Changed::new(of, Change::default()), &without, 100);
        // 100 / 10.05 ms
        assert!((found.throughput_per_s.mid.0 / 9_950.0 - 1.0).abs() < 0.02, "{does} {found:?}");
    }
}
