//! What a run would have done otherwise: its demands are taken from its evidence, one thing or several are
//! changed, and the network is solved again.
//!
//! The model is first made to do what the run did, with the path that the run had: what its CPUs do not
//! explain of an exchange's time is a delay, and stays one. Each end of the interval is made to meet the run
//! too, with dearer or cheaper exchanges.
//!
//! Blind spot: a limit that is not a CPU, a path or a number of workers is taken for a delay that grows with
//! nothing. The verdict of the run says whether there is one.

use linerate_model::OpRate;
use serde::{Deserialize, Serialize};

use crate::crossing::Crossing;
use crate::forecast::{Ceiling, Lean, Service, settle};
use crate::mva::{Network, Station};
use crate::words::duration;

/// What a run told of its service.
#[derive(Clone, Debug, PartialEq)]
pub struct Measured {
    /// Workers that it had.
    pub connections: u32,
    /// What they did.
    pub throughput: OpRate,
    /// Where its exchanges queue for CPU.
    pub cpus: Vec<Cpu>,
    /// Threads that one exchange after the other must pass, as ceilings: what is full at which rate.
    pub threads: Vec<Ceiling>,
    /// The path that it was run on.
    pub crossing: Crossing,
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

/// What is to be otherwise. The path is [`Changed::crossing`]'s.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Change {
    /// So many CPUs where there was [`Measured::cpus`]'s number: of the machine that the target is on.
    pub cpus: Option<u16>,
    /// So many machines like this, workers spread over them; absent: one.
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

/// The model that does what the run did.
#[derive(Clone, Copy, Debug)]
struct Fitted {
    /// What CPUs and path do not explain. Unit: seconds.
    delay: f64,
    /// What the demands are multiplied by.
    dearer: f64,
}

/// Chosen: an idle CPU's exchange is up to 1.4 times as dear as a busy one's (docs/adr/0006), and one in
/// company up to 1.15 times as dear as alone, where caches and locks are shared.
const CHEAPER_BUSY: f64 = 1.4;
const DEARER_BUSY: f64 = 1.15;

/// Chosen: of what CPUs are added, eight tenths are got and four at worst; a second machine shares less.
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
            // A full CPU's demand is known; an empty one's may be anything within the bounds.
            let dearer = match lean {
                Lean::Low => 1.0 + (DEARER_BUSY - 1.0) * (1.0 - busiest),
                Lean::Middle => 1.0,
                Lean::High => 1.0 / (1.0 + (CHEAPER_BUSY - 1.0) * (1.0 - busiest)),
            };
            fit(&measured, dearer, lean)
        });
        Self { measured, change, fitted }
    }

    /// What of an exchange neither CPUs nor path explain. Unit: seconds.
    pub fn delay(&self) -> f64 {
        self.fitted[1].delay
    }

    fn network(&self, lean: Lean) -> Network {
        let of = index(lean);
        let Fitted { delay, dearer } = self.fitted[of];
        let hosts = self.change.hosts.unwrap_or(1).max(1);
        // Each machine more gives less than a machine.
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
            Station { demand: cpu.demand_s * dearer / got / speed, servers, copies: hosts }
        });
        Network { delay, stations: stations.collect() }
    }
}

/// The engine's own machine is nobody's to change here.
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
        let mut network = self.network(lean);
        network.delay += away;
        // Threads grow with machines, not with CPUs.
        let hosts = f64::from(self.change.hosts.unwrap_or(1).max(1));
        let threads = self.measured.threads.iter().map(|it| it.per_s.0 * hosts);
        let most = threads.fold(f64::INFINITY, f64::min);
        network.solve(population).throughput.0.min(most)
    }

    fn alone(&self) -> f64 {
        self.network(Lean::Middle).alone()
    }

    fn ceilings(&self, _: u32) -> Vec<Ceiling> {
        let hosts = self.change.hosts.unwrap_or(1).max(1);
        let on = if hosts > 1 { format!("{hosts} machines of ") } else { String::new() };
        let network = self.network(Lean::Middle);
        let cpus = self.measured.cpus.iter().zip(&network.stations).map(|(cpu, station)| {
            let rate = f64::from(station.servers) * f64::from(hosts) / station.demand.max(1e-12);
            let plural = if station.servers == 1 { "" } else { "s" };
            let how = format!(
                "{on}{} CPU{plural} / {} of CPU an exchange",
                station.servers,
                duration(station.demand)
            );
            Ceiling::new(&cpu.id, rate, how)
        });
        let threads = self.measured.threads.iter().map(|it| {
            let rate = OpRate(it.per_s.0 * f64::from(hosts));
            Ceiling { id: it.id.clone(), per_s: rate, sum: format!("{on}{}", it.sum) }
        });
        cpus.chain(threads).collect()
    }
}

/// Delay and demands with which the model does what the run did.
fn fit(measured: &Measured, dearer: f64, lean: Lean) -> Fitted {
    let model = |delay: f64, dearer: f64| {
        let station =
            |cpu: &Cpu| Station { demand: cpu.demand_s * dearer, servers: cpu.cpus, copies: 1 };
        let network = Network { delay, stations: measured.cpus.iter().map(station).collect() };
        settle(&Fixed(network), &measured.crossing, measured.connections, lean).0
    };
    let target = measured.throughput.0;
    // More than the CPUs can do by this account: the account is too dear.
    let mut dearer = dearer;
    if model(0.0, dearer) < target {
        let (mut low, mut high) = (0.0, dearer);
        for _ in 0..40 {
            let mid = (low + high) / 2.0;
            if model(0.0, mid) < target { high = mid } else { low = mid }
        }
        dearer = low;
        return Fitted { delay: 0.0, dearer };
    }
    let (mut low, mut high) = (0.0, f64::from(measured.connections) / target);
    for _ in 0..40 {
        let mid = (low + high) / 2.0;
        if model(mid, dearer) < target { high = mid } else { low = mid }
    }
    Fitted { delay: low, dearer }
}

struct Fixed(Network);

impl Service for Fixed {
    fn throughput(&self, population: u32, away: f64, _: Lean) -> f64 {
        let network = Network { delay: self.0.delay + away, ..self.0.clone() };
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
            Network { delay, stations: vec![Station { demand: 50e-6, servers: 2, copies: 1 }] };
        Measured {
            connections,
            throughput: network.solve(connections).throughput,
            cpus,
            threads: Vec::new(),
            crossing: Crossing::default(),
        }
    }

    #[test]
    fn nothing_changed_is_the_run_itself_at_both_ends_of_the_interval() {
        for connections in [1, 8, 500] {
            let measured = measured(connections, 200e-6);
            let same = Changed::new(measured.clone(), Change::default());
            let found = forecast(&same, &measured.crossing, connections).throughput_per_s;
            for rate in [found.low, found.mid, found.high] {
                assert!(
                    (rate.0 / measured.throughput.0 - 1.0).abs() < 1e-6,
                    "{connections} {found:?}"
                );
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
            assert!(found.high.0 < 2.05 * now, "{change:?} {found:?}");
        }
        let half = does(Change { cpus: Some(1), hosts: None });
        assert!((half.mid.0 / now - 0.5).abs() < 0.01, "{half:?}");
    }

    #[test]
    fn a_limit_that_the_run_had_is_taken_off_when_it_is_lifted() {
        let path = Path { limit: Some(20), ..Path::of_rtt(Duration::from_millis(10)) };
        let with = Crossing { path: path.clone(), ..Crossing::default() };
        let network = Network {
            delay: 0.0,
            stations: vec![Station { demand: 50e-6, servers: 2, copies: 1 }],
        };
        let does = settle(&Fixed(network), &with, 100, Lean::Middle).0;
        let of = Measured { throughput: OpRate(does), crossing: with, ..measured(100, 0.0) };
        let without = Crossing { path: Path { limit: None, ..path }, ..Crossing::default() };
        let found = forecast(&Changed::new(of, Change::default()), &without, 100);
        // 100 / 10.05 ms
        assert!((found.throughput_per_s.mid.0 / 9_950.0 - 1.0).abs() < 0.02, "{does} {found:?}");
    }
}
