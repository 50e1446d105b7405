//! A closed network, solved: throughput with its bounds, and where the exchanges are.
//!
//! The low end is exact mean value analysis with load-dependent stations ([`crate::mva`]): `min(j, k)` servers at
//! work with `j` there, so that `k` may be a fraction. It takes service for exponential. The high end is the
//! operational bound `min(N / R(1), k_i / D_i)`, which no service exceeds and equal service times reach (two balanced
//! deterministic stations with two exchanges: 1, where the other gives 2/3). Real service varies, but less than an
//! exponential: the best guess is in between.
//!
//! Blind spot: service that varies more than an exponential (collections, cold caches) queues more than the low end
//! says; demands are constant.
//! Source: Reiser and Lavenberg 1980; Denning and Buzen, "The operational analysis of queueing network models",
//! 1978, for the bounds.

use crate::mva::{Closed, Station};

/// A closed network: delays, and queueing stations, of one class.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Network {
    /// Without queueing, in all. Unit: seconds an exchange.
    pub delay: f64,
    /// With queueing.
    pub stations: Vec<QueueStation>,
}

/// A place where exchanges queue for servers.
#[derive(Clone, Debug, PartialEq)]
pub struct QueueStation {
    /// Its name when it is full.
    pub id: String,
    /// Unit: seconds of one server's time an exchange.
    pub demand: f64,
    /// How many are served at a time. A fraction is a slower last server: a quota of 0.5 CPU serves one at half the
    /// speed, 1.6 CPUs serve the second one at 0.6 of it.
    pub servers: f64,
}

/// The solution of a network.
#[derive(Clone, Debug, PartialEq)]
pub struct Solved {
    /// Best guess. Unit: exchanges a second.
    pub per_s: f64,
    /// By station, of the best guess: residence (seconds), queue length with those in service, utilisation
    /// (0 to 1).
    pub by_station: Vec<(f64, f64, f64)>,
    /// With exponential service. Unit: exchanges a second.
    pub low: f64,
    /// With constant service, in the best order. Unit: exchanges a second.
    pub high: f64,
}

impl Solved {
    /// Between the ends: 0 with constant service, 1 with an exponential one.
    pub(crate) fn with(low: f64, high: f64, varies: f64) -> f64 {
        high - varies * (high - low).max(0.0)
    }
}

// Chosen: halfway between constant and exponential, since both occur: a timer does not vary, work with caches and
// interrupts varies by about its mean.
const VARIES: f64 = 0.5;

impl Network {
    /// The solution with so many customers; a fraction of one is interpolated.
    pub fn throughput(&self, customers: f64) -> Solved {
        let customers = customers.max(0.0);
        let closed = self.closed();
        let below = customers.floor();
        let part = customers - below;
        let at = |population: f64| closed.solve(population as u32);
        let mut exact = at(below);
        if part > 0.0 {
            let above = at(below + 1.0);
            let mix = |a: f64, b: f64| a + part * (b - a);
            // Queues are interpolated, and residence is queue by throughput.
            let queue = |x: f64, of: &[f64], index: usize| x * of[index];
            let x = mix(exact.throughput.0, above.throughput.0);
            let residence = (0..self.stations.len()).map(|index| {
                let queue = mix(
                    queue(exact.throughput.0, &exact.residence, index),
                    queue(above.throughput.0, &above.residence, index),
                );
                queue / x.max(1e-300)
            });
            exact.residence = residence.collect();
            exact.throughput.0 = x;
        }
        let high = closed.most(customers);
        let low = exact.throughput.0.min(high);
        let per_s = Solved::with(low, high, VARIES);
        // Waiting shrinks alike everywhere, so that Little's law also holds of the best guess.
        let least = closed.stations.iter().map(Station::alone);
        let waits = |x: f64| (customers / x.max(1e-300) - closed.alone()).max(0.0);
        let shrinks = if waits(low) > 0.0 { waits(per_s) / waits(low) } else { 0.0 };
        let by_station = least.zip(&exact.residence).zip(&self.stations).map(|((least, r), of)| {
            let residence = least + (r - least).max(0.0) * shrinks;
            let utilisation = per_s * of.demand.max(0.0) / of.servers.max(1e-6);
            (residence, per_s * residence, utilisation.min(1.0))
        });
        Solved { per_s, by_station: by_station.collect(), low, high }
    }

    /// Time of one exchange alone. Unit: seconds.
    pub fn alone(&self) -> f64 {
        self.closed().alone()
    }

    /// The upper bound for any number of customers. Unit: exchanges a second.
    pub fn bound(&self) -> f64 {
        self.closed().bound()
    }

    pub(crate) fn closed(&self) -> Closed {
        Closed { delay: self.delay.max(0.0), stations: self.stations.iter().map(plain).collect() }
    }
}

fn plain(of: &QueueStation) -> Station {
    Station { demand: of.demand, servers: of.servers, copies: 1 }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn station(demand: f64, servers: f64) -> QueueStation {
        QueueStation { id: "host.cpu".into(), demand, servers }
    }

    #[test]
    fn two_balanced_stations_reach_from_exponential_to_steady_service() {
        let two = Network { delay: 0.0, stations: vec![station(1.0, 1.0), station(1.0, 1.0)] };
        let found = two.throughput(2.0);
        assert!((found.low - 2.0 / 3.0).abs() < 1e-12 && (found.high - 1.0).abs() < 1e-12);
        assert!((found.per_s - 5.0 / 6.0).abs() < 1e-12, "{found:?}");
    }

    #[test]
    fn littles_law_and_the_utilisation_law_hold_of_the_best_guess() {
        let stations = vec![station(100e-6, 1.6), station(40e-6, 1.0), station(0.0, 4.0)];
        let network = Network { delay: 1e-3, stations };
        for customers in [1.0, 7.5, 30.0, 4_000.0] {
            let found = network.throughput(customers);
            let inside: f64 = found.by_station.iter().map(|(_, queue, _)| queue).sum();
            let all = found.per_s * 1e-3 + inside;
            assert!((all / customers - 1.0).abs() < 1e-6, "{customers}: {all} {found:?}");
            let busy = found.by_station[0].2;
            assert!((busy - found.per_s * 100e-6 / 1.6).abs() < 1e-9, "{found:?}");
            assert!(found.low <= found.per_s && found.per_s <= found.high);
        }
    }

    #[test]
    fn a_quota_of_half_a_cpu_takes_twice_the_time_and_holds_half_the_rate() {
        let network = Network { delay: 1e-3, stations: vec![station(1e-3, 0.5)] };
        assert!((network.throughput(1.0).per_s - 1.0 / 3e-3).abs() < 1e-9);
        assert!((network.throughput(50.0).per_s - 500.0).abs() < 0.5);
    }

    #[test]
    fn nothing_but_delay_is_littles_law_and_nobody_does_nothing() {
        let network = Network { delay: 0.01, stations: Vec::new() };
        assert!((network.throughput(64.0).per_s - 6_400.0).abs() < 1e-6);
        assert_eq!(network.throughput(0.0).per_s, 0.0);
    }
}
