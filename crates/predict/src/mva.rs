//! Exact mean value analysis of a closed network: a delay, and stations that queue.
//!
//! `R_k(n) = D_k/m (1 + Q_k(n-1) + Σ_{j<m-1} (m-1-j) p_k(j|n-1))`, `X(n) = n / (Z + Σ R_k(n))`,
//! `Q_k(n) = X(n) R_k(n)`, `p_k(j|n) = D_k X(n)/j p_k(j-1|n-1)`.
//!
//! The textbook takes `p_k(0|n)` as the remainder to one, and with many servers that difference drowns in rounding.
//! Here it is `p_k(0|n-1) X(n) / X'(n)`, where `X'` is the throughput of the network without that station: only sums
//! and products of positive numbers, accurate to the last digits at any size.
//!
//! Exact for exponential service (for any, where a station never queues); demands are constant.
//! Blind spot: a cost an exchange that changes with load; [`crate::Curve`] takes that from measurement.
//! Source: Reiser and Lavenberg, "Mean-value analysis of closed multichain queuing networks", 1980; Reiser,
//! "Mean-value analysis and convolution method for queue-dependent servers", 1981, for `p_k(0|n)`.

use linerate_model::OpRate;

/// A closed network as the recursion has it: every exchange visits the delay once, and each station.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Closed {
    /// Without queueing: paths, thinking. Unit: seconds an exchange.
    pub delay: f64,
    /// With queueing.
    pub stations: Vec<Station>,
}

/// A place with servers that take exchanges from one queue; or several such places, visited at random.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Station {
    /// Of all copies together. Unit: seconds of one server an exchange.
    pub demand: f64,
    /// CPUs, threads: how many exchanges it serves at once. With `j` there it works at `min(j, servers)`,
    /// so that 1.6 CPUs are one for the first exchange and 0.6 for the second.
    pub servers: f64,
    /// How many alike there are, each with a queue of its own and visited equally often.
    pub copies: u16,
}

/// The solution of a network.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Solution {
    /// Exchanges a second.
    pub throughput: OpRate,
    /// By station: time of an exchange there, waiting included, all copies together. Unit: seconds.
    pub residence: Vec<f64>,
}

/// What one exchange needs. Unit: seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Demand {
    /// CPU time, on any of the CPUs.
    pub cpu: f64,
    /// Time without a CPU.
    pub delay: f64,
}

/// Throughput of `population` exchanges circulating over `cpus` CPUs and a delay.
pub fn closed_network(population: u32, cpus: u16, demand: Demand) -> OpRate {
    let cpu = Station { demand: demand.cpu, servers: f64::from(cpus.max(1)), copies: 1 };
    Closed { delay: demand.delay.max(1e-12), stations: vec![cpu] }.solve(population).throughput
}

// Chosen: this near to its bound throughput stays there; the remaining steps would change no digit.
const THERE: f64 = 1e-13;

// Chosen: a millionth of a server is none.
const LEAST_SERVERS: f64 = 1e-6;

impl Closed {
    /// The solution with so many exchanges in it.
    pub fn solve(&self, population: u32) -> Solution {
        let bound = self.bound();
        let mut throughput = 0.0;
        let whole = self.recur(population, |_, x| throughput = x);
        let throughput = throughput.min(bound);
        Solution {
            throughput: OpRate(throughput),
            residence: self.residence(population, throughput, &whole),
        }
    }

    /// Throughput with 1 to so many exchanges in it. Unit: exchanges a second.
    pub fn rates(&self, population: u32) -> Vec<f64> {
        let bound = self.bound();
        let mut rates = Vec::with_capacity(population as usize);
        self.recur(population, |_, x| rates.push(x.min(bound)));
        rates.resize(population as usize, bound);
        rates
    }

    /// The recursion, until nothing changes; the queues of the last step by station, of one copy.
    fn recur(&self, population: u32, mut on: impl FnMut(u32, f64)) -> Vec<f64> {
        let groups: Vec<Group> = self.stations.iter().filter_map(Group::of).collect();
        let mut nets = nets(&groups);
        let bound = self.bound();
        for n in 1..=population {
            // Nets with more stations taken away have higher numbers, and are needed first.
            for index in (0..nets.len()).rev() {
                let (net, smaller) = nets[index..].split_first_mut().expect("index is of a net");
                net.step(n, self.delay, &groups, |step| smaller[step - 1].throughput);
            }
            on(n, nets[0].throughput);
            if nets[0].throughput >= bound * (1.0 - THERE) {
                break;
            }
        }
        let mut queues = nets[0].queue.iter();
        let queue = |of: &Station| if of.demand > 0.0 { queues.next().copied() } else { None };
        self.stations.iter().map(queue).map(Option::unwrap_or_default).collect()
    }

    /// Where the exchanges are, `queues` being from as far as the recursion went: later ones wait at the bottleneck.
    fn residence(&self, population: u32, throughput: f64, queues: &[f64]) -> Vec<f64> {
        let all = |it: (&Station, &f64)| f64::from(it.0.copies.max(1)) * it.1;
        let mut there: Vec<f64> = self.stations.iter().zip(queues).map(all).collect();
        let left = f64::from(population) - throughput * self.delay - there.iter().sum::<f64>();
        let load = |it: &Station| it.demand.max(0.0) / it.capacity();
        let busiest = (0..there.len())
            .max_by(|a, b| load(&self.stations[*a]).total_cmp(&load(&self.stations[*b])));
        if let Some(busiest) = busiest {
            there[busiest] += left.max(0.0);
        }
        there.into_iter().map(|queue| queue / throughput.max(1e-300)).collect()
    }

    /// The throughput that no population exceeds: all servers of the busiest station at work.
    pub fn bound(&self) -> f64 {
        let of = |it: &Station| it.capacity() / it.demand.max(0.0);
        self.stations.iter().map(of).fold(f64::INFINITY, f64::min)
    }

    /// Time of one exchange alone. Unit: seconds.
    pub fn alone(&self) -> f64 {
        self.delay + self.stations.iter().map(Station::alone).sum::<f64>()
    }

    /// The operational bound with so many exchanges: each takes at least its time alone, and the busiest station is
    /// full at most. Unit: exchanges a second.
    pub fn most(&self, population: f64) -> f64 {
        self.bound().min(population / self.alone())
    }
}

impl Station {
    fn capacity(&self) -> f64 {
        self.servers.max(LEAST_SERVERS) * f64::from(self.copies.max(1))
    }

    /// Of an exchange alone: half a server takes twice the time. Unit: seconds.
    pub fn alone(&self) -> f64 {
        self.demand.max(0.0) / self.servers.clamp(LEAST_SERVERS, 1.0)
    }
}

/// A station in the recursion; unused ones are left out.
struct Group {
    /// Of one copy.
    demand: f64,
    servers: f64,
    copies: usize,
}

impl Group {
    fn of(station: &Station) -> Option<Self> {
        let copies = usize::from(station.copies.max(1));
        let demand = station.demand / copies as f64;
        let servers = station.servers.max(LEAST_SERVERS);
        (demand > 0.0).then_some(Self { demand, servers, copies })
    }

    /// From so many on all servers are at work.
    fn places(&self) -> usize {
        (self.servers.ceil() as usize).max(1)
    }

    /// The number of copies removed in the recursion: one server needs no marginals.
    fn levels(&self) -> usize {
        if self.places() > 1 { self.copies + 1 } else { 1 }
    }
}

/// The network with some copies of its multi-server stations removed.
struct Net {
    copies: Vec<usize>,
    /// By group, of one copy.
    queue: Vec<f64>,
    /// By group, of one copy: probability of so many exchanges there, below the number of servers.
    marginal: Vec<Vec<f64>>,
    /// By group: how much further down the list the net with one copy less is; 0: there is none.
    fewer: Vec<usize>,
    throughput: f64,
}

/// All of them, the whole one first. The number of copies removed of each group is a digit of a net's place in the
/// list.
fn nets(groups: &[Group]) -> Vec<Net> {
    let count: usize = groups.iter().map(Group::levels).product();
    let marginal = |group: &Group| {
        let mut marginal = vec![0.0; group.places()];
        marginal[0] = 1.0;
        marginal
    };
    (0..count)
        .map(|index| {
            let (mut rest, mut weight) = (index, 1);
            let (mut copies, mut fewer) = (Vec::new(), Vec::new());
            for group in groups {
                let gone = rest % group.levels();
                rest /= group.levels();
                copies.push(group.copies - gone);
                let more = group.levels() > 1 && gone + 1 < group.levels();
                fewer.push(if more { weight } else { 0 });
                weight *= group.levels();
            }
            Net {
                copies,
                fewer,
                queue: vec![0.0; groups.len()],
                marginal: groups.iter().map(marginal).collect(),
                throughput: 0.0,
            }
        })
        .collect()
}

impl Net {
    /// From `n - 1` exchanges to `n`; `of_fewer` is the throughput at `n` of a net further down.
    fn step(&mut self, n: u32, delay: f64, groups: &[Group], of_fewer: impl Fn(usize) -> f64) {
        let response = |index: usize, group: &Group| {
            if self.copies[index] == 0 {
                return 0.0;
            }
            let m = group.servers;
            // Servers that an arrival would find idle beyond its own.
            let idle = self.marginal[index][..group.places() - 1].iter().enumerate();
            let idle: f64 = idle.map(|(j, p)| (m - 1.0 - j as f64) * p).sum();
            group.demand / m * (1.0 + self.queue[index] + idle)
        };
        let responses: Vec<f64> =
            groups.iter().enumerate().map(|(index, group)| response(index, group)).collect();
        let there: f64 = responses.iter().zip(&self.copies).map(|(r, c)| r * *c as f64).sum();
        // An empty net lets exchanges through at once.
        self.throughput = f64::from(n) / (delay + there);
        for (index, group) in groups.iter().enumerate() {
            if self.copies[index] == 0 {
                continue;
            }
            self.queue[index] = self.throughput * responses[index];
            if group.places() == 1 {
                continue;
            }
            let without = of_fewer(self.fewer[index]);
            let marginal = &mut self.marginal[index];
            for j in (1..marginal.len()).rev() {
                marginal[j] = group.demand * self.throughput / j as f64 * marginal[j - 1];
            }
            marginal[0] *= self.throughput / without;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn one(demand: f64, servers: u16) -> Station {
        Station { demand, servers: f64::from(servers), copies: 1 }
    }

    /// M/M/c//N by its state probabilities, `P(j) = N!/(N-j)! (S/Z)^j / Π min(i, c)`, scaled as they are
    /// summed. Throughput is the mean number at the delay by the delay.
    fn birth_and_death(population: u32, servers: u16, service: f64, think: f64) -> f64 {
        let (mut term, mut sum, mut thinking) = (1.0f64, 0.0f64, 0.0f64);
        for j in 0..=population {
            if j > 0 {
                let busy = f64::from(j.min(u32::from(servers)));
                term *= f64::from(population - j + 1) * service / think / busy;
            }
            sum += term;
            thinking += term * f64::from(population - j);
            if sum > 1e200 {
                (term, sum, thinking) = (term / 1e200, sum / 1e200, thinking / 1e200);
            }
        }
        thinking / sum / think
    }

    #[test]
    fn a_lone_exchange_meets_no_queue() {
        // 1 / (60 us + 40 us) = 10 000/s
        let rate = closed_network(1, 2, Demand { cpu: 60e-6, delay: 40e-6 });
        assert!((rate.0 - 10_000.0).abs() < 1e-6, "{rate}");
    }

    #[test]
    fn many_exchanges_meet_the_cpus_bound() {
        // 2 CPUs / 50 us = 40 000/s
        let rate = closed_network(500, 2, Demand { cpu: 50e-6, delay: 100e-6 });
        assert!((rate.0 - 40_000.0).abs() < 40.0, "{rate}");
    }

    #[test]
    fn one_cpu_is_the_textbook_recursion() {
        // Two exchanges, D = 1, Z = 1: R(1) = 1, X = 1/2, Q = 1/2; R(2) = 1.5, X = 2/2.5 = 0.8.
        let rate = closed_network(2, 1, Demand { cpu: 1.0, delay: 1.0 });
        assert!((rate.0 - 0.8).abs() < 1e-9, "{rate}");
    }

    #[test]
    fn nothing_but_delay_is_littles_law() {
        let rate = closed_network(64, 2, Demand { cpu: 0.0, delay: 0.01 });
        assert!((rate.0 - 6_400.0).abs() < 1e-6, "{rate}");
    }

    #[test]
    fn the_repairmans_closed_form_holds_from_one_server_to_a_hundred_and_twenty_eight() {
        for (population, servers, service, think) in [
            (7, 1, 1.0, 2.0),
            (10, 3, 1.0, 1.0),
            (60, 16, 0.2e-3, 1e-3),
            (400, 128, 200e-6, 250e-6),
            (4_000, 128, 200e-6, 5e-3),
            (4_000, 128, 200e-6, 6.2e-3),
            (1_000, 1_000, 1e-3, 1e-3),
        ] {
            let network = Closed { delay: think, stations: vec![one(service, servers)] };
            let exact = birth_and_death(population, servers, service, think);
            let found = network.solve(population).throughput.0;
            assert!((found / exact - 1.0).abs() < 1e-9, "{population}/{servers}: {found} {exact}");
        }
    }

    #[test]
    fn balanced_single_servers_without_delay_are_n_over_n_plus_k_minus_one() {
        // K stations of D each: X(N) = N / (N + K - 1) / D.
        let four = Station { demand: 4.0, servers: 1.0, copies: 4 };
        let found = Closed { delay: 0.0, stations: vec![four] }.solve(9).throughput.0;
        assert!((found - 9.0 / 12.0).abs() < 1e-12, "{found}");
    }

    #[test]
    fn copies_are_as_many_stations_written_out() {
        let alike = Station { demand: 3e-3, servers: 4.0, copies: 3 };
        let group = Closed { delay: 2e-3, stations: vec![alike, one(0.2e-3, 1)] };
        let apart = Closed {
            delay: 2e-3,
            stations: vec![one(1e-3, 4), one(1e-3, 4), one(1e-3, 4), one(0.2e-3, 1)],
        };
        for population in [1, 5, 40, 300] {
            let (a, b) =
                (group.solve(population).throughput.0, apart.solve(population).throughput.0);
            assert!((a / b - 1.0).abs() < 1e-12, "{population}: {a} {b}");
        }
    }

    #[test]
    fn four_servers_of_thirty_two_schedulers_stay_within_the_operational_bounds() {
        let hosts = Station { demand: 200e-6, servers: 32.0, copies: 4 };
        let network = Closed { delay: 250e-6, stations: vec![hosts] };
        let (bound, alone) = (network.bound(), network.alone());
        let mut last = 0.0;
        for population in [1, 50, 100, 200, 400, 800, 2_000, 4_000] {
            let found = network.solve(population).throughput.0;
            let most = bound.min(f64::from(population) / alone);
            assert!(found > last && found <= most * (1.0 + 1e-12), "{population}: {found}, {most}");
            last = found;
        }
        // Source: Lazowska et al., 1984, chapter 5: N / (D + Z + (N - 1) Dmax) is the lower bound.
        let least = 4_000.0 / (alone + 3_999.0 / bound);
        assert!(last >= least && last > 0.98 * bound, "{last}, {least}, {bound}");
    }

    #[test]
    fn littles_law_holds_of_a_solution_far_beyond_the_bottleneck_too() {
        let network = Closed { delay: 1e-3, stations: vec![one(100e-6, 2), one(40e-6, 1)] };
        for population in [1, 30, 5_000] {
            let found = network.solve(population);
            let all = 1e-3 + found.residence.iter().sum::<f64>();
            assert!((found.throughput.0 * all / f64::from(population) - 1.0).abs() < 1e-9);
        }
        let rates = network.rates(5_000);
        assert_eq!(rates.len(), 5_000);
        assert!((rates[29] / network.solve(30).throughput.0 - 1.0).abs() < 1e-12);
    }

    #[test]
    fn fractions_of_a_server_are_a_slower_last_one() {
        // min(j, 1.6) at work with j there, and the delay: the birth-and-death chain by hand for two.
        // P(1)/P(0) = 2 S/Z / 1, P(2)/P(1) = 1 S/Z / 1.6; S = Z = 1: 1, 2, 1.25.
        let two =
            Closed { delay: 1.0, stations: vec![Station { demand: 1.0, servers: 1.6, copies: 1 }] };
        let by_hand = (2.0 * 1.0 + 1.25 * 1.6) / 4.25;
        assert!((two.solve(2).throughput.0 - by_hand).abs() < 1e-12);
        // Half a server alone takes twice the time.
        let half =
            Closed { delay: 0.0, stations: vec![Station { demand: 1.0, servers: 0.5, copies: 1 }] };
        assert!((half.solve(1).throughput.0 - 0.5).abs() < 1e-12);
    }
}
