//! Throughput of a service with so many workers behind a path.
//!
//! Throughput decides the path's drops and ACKs, and these decide throughput: the one at which both agree is found by
//! bisection, since one falls where the other rises.

use linerate_model::OpRate;
use serde::{Deserialize, Serialize};

use crate::crossing::{Added, Crossing};
use crate::interval::Predicted;
use crate::words::{count, duration};

/// Which end of the interval is computed. Unknowns are at their worst for one and at their best for the other.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Lean {
    /// The worst case.
    Low,
    /// The best guess.
    Middle,
    /// The best case.
    High,
}

/// What workers ask, and wait for.
pub trait Service {
    /// Throughput for `population` workers that spend `away` seconds of each cycle elsewhere. Unit: exchanges a
    /// second.
    fn throughput(&self, population: u32, away: f64, lean: Lean) -> f64;
    /// Time of an exchange alone. Unit: seconds.
    fn alone(&self) -> f64;
    /// Its own ceilings.
    fn ceilings(&self, population: u32) -> Vec<Ceiling>;
}

/// A limit of what is predicted.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Ceiling {
    /// The roof that would be named; `service`: the measured column's own limit.
    pub id: String,
    /// Where it is.
    pub per_s: OpRate,
    /// Its derivation, in words and numbers.
    pub sum: String,
}

impl Ceiling {
    pub(crate) fn new(id: &str, rate: f64, how: String) -> Self {
        let per_s = OpRate(rate);
        Self { id: id.into(), per_s, sum: format!("{how}: {per_s}") }
    }
}

/// A prediction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Forecast {
    /// Workers.
    pub connections: u32,
    /// Their throughput.
    pub throughput_per_s: Predicted,
    /// Mean latency: `[low, mid, high]`. Unit: microseconds.
    pub mean_latency_us: [f64; 3],
    /// The lowest ceiling.
    pub by: String,
    /// All ceilings, the lowest first.
    pub ceilings: Vec<Ceiling>,
    /// Share of the path's packets that it drops.
    pub dropped: f64,
    /// Share of answers whose ACK is a packet of its own.
    pub lone_acks: f64,
}

impl Forecast {
    /// The ceiling that binds, in words.
    pub fn says(&self) -> &str {
        self.ceilings.first().map_or("", |ceiling| &ceiling.sum)
    }
}

// Chosen: a path's own check tolerates this, and two runs of one plan do not agree better.
const LEAST: f64 = 0.02;

/// Throughput of `population` workers with a service behind a path.
pub fn forecast(service: &dyn Service, crossing: &Crossing, population: u32) -> Forecast {
    let population = population.max(1);
    let at = |lean| settle(service, crossing, population, lean);
    let ((low, _), (mid, added), (high, _)) = (at(Lean::Low), at(Lean::Middle), at(Lean::High));
    let (low, high) = (low.min(mid * (1.0 - LEAST)), high.max(mid * (1.0 + LEAST)));
    let mean = |throughput: f64| f64::from(population) / throughput * 1e6;
    let mut ceilings = service.ceilings(population);
    let mean_alone = service.alone() + crossing.delay();
    ceilings.push(Ceiling::new(
        "load.concurrency",
        f64::from(population) / mean_alone,
        format!("{} workers / {}", count(population), duration(mean_alone)),
    ));
    ceilings.extend(crossing.ceilings(population, service.alone()));
    ceilings.sort_by(|a, b| a.per_s.0.total_cmp(&b.per_s.0));
    Forecast {
        connections: population,
        throughput_per_s: Predicted { low: OpRate(low), mid: OpRate(mid), high: OpRate(high) },
        mean_latency_us: [mean(high), mean(mid), mean(low)],
        by: ceilings.first().map_or(String::new(), |ceiling| ceiling.id.clone()),
        ceilings,
        dropped: added.dropped,
        lone_acks: added.acks,
    }
}

/// The throughput at which service and path agree, and what the path adds there.
pub(crate) fn settle(
    service: &dyn Service,
    crossing: &Crossing,
    population: u32,
    lean: Lean,
) -> (f64, Added) {
    let (mut low, mut high) = (0.0, service.throughput(population, crossing.delay(), lean));
    let mut added = crossing.added(population, high, lean);
    // Nothing queues and nothing is dropped: it has converged.
    if added.away <= crossing.delay() {
        return (high, added);
    }
    for _ in 0..48 {
        let mid = (low + high) / 2.0;
        added = crossing.added(population, mid, lean);
        let does = match added.away.is_finite() {
            true => service.throughput(population, added.away, lean),
            false => 0.0,
        };
        if does > mid {
            low = mid
        } else {
            high = mid
        }
        if high - low < 1e-9 * high {
            break;
        }
    }
    (low, added)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mva::{Closed, Station};
    use linerate_model::{BitRate, Bytes, Path, Share};
    use std::time::Duration;

    struct Plain(Closed);

    impl Service for Plain {
        fn throughput(&self, population: u32, away: f64, _: Lean) -> f64 {
            let network = Closed { delay: self.0.delay + away, ..self.0.clone() };
            network.solve(population).throughput.0
        }

        fn alone(&self) -> f64 {
            self.0.alone()
        }

        fn ceilings(&self, _: u32) -> Vec<Ceiling> {
            vec![Ceiling::new("service", self.0.bound(), "CPUs".into())]
        }
    }

    fn service() -> Plain {
        let cpus = Station { demand: 100e-6, servers: 4.0, copies: 1 };
        Plain(Closed { delay: 0.0, stations: vec![cpus] })
    }

    fn over(path: Path) -> Crossing {
        Crossing { path, ..Crossing::default() }
    }

    #[test]
    fn a_path_that_only_delays_is_the_exact_network() {
        let path = Path::of_rtt(Duration::from_millis(5));
        let found = forecast(&service(), &over(path), 50);
        let exact = Plain(Closed { delay: 5e-3, ..service().0 }).0.solve(50).throughput.0;
        assert!((found.throughput_per_s.mid.0 / exact - 1.0).abs() < 1e-9);
        assert_eq!(found.by, "load.concurrency");
        // Little's law: 50 workers by their throughput.
        assert!((found.mean_latency_us[1] - 50e6 / exact).abs() < 1e-3);
    }

    #[test]
    fn a_limit_that_is_far_away_changes_nothing_and_a_near_one_binds() {
        let delay = Path::of_rtt(Duration::from_millis(10));
        let with = |limit| over(Path { limit: Some(limit), ..delay.clone() });
        let free = forecast(&service(), &over(delay.clone()), 200);
        let wide = forecast(&service(), &with(10_000), 200);
        assert!((wide.throughput_per_s.mid.0 / free.throughput_per_s.mid.0 - 1.0).abs() < 1e-6);
        // 50 packets / 5 ms = 10,000 a second, one an exchange each way.
        let near = forecast(&service(), &with(50), 200);
        assert_eq!(near.by, "path.queue-limit");
        assert!((5_000.0..10_000.0).contains(&near.throughput_per_s.mid.0), "{near:?}");
        assert!(
            near.dropped > 0.01 && near.throughput_per_s.high.0 <= 10_000.0 * 1.001,
            "{near:?}"
        );
    }

    #[test]
    fn a_rate_holds_workers_that_all_fit_its_queue_without_dropping_any() {
        // 10 Mbit / 8 / (1,000 + 52 bytes) = 1,188/s.
        let path = Path { rate: Some(BitRate(10e6)), ..Path::default() };
        let crossing = Crossing { path, response: Bytes(1_000), ..Crossing::default() };
        let found = forecast(&service(), &crossing, 60);
        assert_eq!((found.by.as_str(), found.dropped), ("path.rate", 0.0));
        assert!((found.throughput_per_s.mid.0 / 1_188.0 - 1.0).abs() < 0.02, "{found:?}");
    }

    #[test]
    fn loss_makes_each_hundredth_packet_wait_for_a_timeout() {
        let path = Path { loss: Share(0.01), ..Path::of_rtt(Duration::from_millis(10)) };
        let found = forecast(&service(), &over(path), 10);
        // 10 / (0.1 + 10 + 2 x 2.14 ms) = 695/s
        assert_eq!(found.by, "path.loss");
        assert!((found.throughput_per_s.mid.0 / 695.0 - 1.0).abs() < 0.01, "{found:?}");
    }

    #[test]
    fn the_middle_lies_within_its_interval() {
        let path = Path {
            limit: Some(100),
            rate: Some(BitRate(100e6)),
            loss: Share(0.001),
            ..Path::of_rtt(Duration::from_millis(4))
        };
        for population in [1, 10, 100, 1_000] {
            let Predicted { low, mid, high } =
                forecast(&service(), &over(path.clone()), population).throughput_per_s;
            assert!(0.0 < low.0 && low.0 <= mid.0 && mid.0 <= high.0, "{population}");
        }
    }
}
