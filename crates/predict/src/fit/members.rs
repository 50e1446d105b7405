//! All networks that explain the observations, with their likelihoods.

use super::falls::Falls;
use super::solver::Solver;
use super::{Alone, Known, LEAST, Observed, Removed, UNKNOWN, deviation};
use crate::beyond::{Beyond, quantile};
use crate::network::{Network, QueueStation, Solved};

/// The known stations, and each member's assumption for the rest.
#[derive(Clone, Debug)]
pub(super) struct Members {
    known: Vec<Known>,
    /// From so many connections on the known stations' demands are those with all.
    connections: u32,
    /// The clients' pause between an answer and the next request. Unit: seconds.
    think: f64,
    /// Sorted so that equal delays are together.
    all: Vec<Member>,
}

/// One possible network.
#[derive(Clone, Copy, Debug)]
pub(super) struct Member {
    /// Unit: seconds.
    delay: f64,
    /// At the unmeasured station: seconds of a server; 0: there is none.
    pub demand: f64,
    pub servers: f64,
    /// Whether the known work is done there and in the delay, and is no station beside them: a lock that is held
    /// while its holder computes.
    during: bool,
    /// How the known work changes with connections.
    falls: Falls,
    /// Variation of service: 0 as a timer, 1 as an exponential.
    varies: f64,
    /// Its share of the probability.
    weight: f64,
    /// Its likelihood relative to others, whatever part of the grid it stands for.
    density: f64,
}

// Chosen: from all of the time alone at the station (a pool) to a thousandth of it (a short lock).
const PARTS: [f64; 14] =
    [1.0, 0.75, 0.56, 0.42, 0.32, 0.24, 0.18, 0.13, 0.1, 0.06, 0.03, 0.015, 0.005, 0.001];
const VARIES: [f64; 3] = [0.0, 0.5, 1.0];

// Source: Gauss and Hermite's three nodes of a normal distribution, in standard deviations, with their weights.
const NODES: [(f64, f64); 3] = [(-1.732, 1.0 / 6.0), (0.0, 2.0 / 3.0), (1.732, 1.0 / 6.0)];

// Chosen: an unmeasured limit is the exception: one service in four has one where the observations do not show it,
// anywhere in the next two powers of ten.
const NO_STATION: f64 = 0.75;
const NEXT: f64 = 100.0;

// Chosen: the station's bound may be lower than the observed rate by this factor, farther than intervals reach.
const BELOW: f64 = 0.5;

// Chosen: points of the bound's logarithm, before they are set closer where the likelihood is.
const COARSE: usize = 24;
const CLOSER: usize = 4;

// Chosen: what is e^8 times less likely than the best is negligible.
const UNLIKELY: f64 = 8.0;

// Chosen: a delay and the time alone are each known to a few percent; where hardly any member has such a delay, all
// are used.
const NEARLY: f64 = 0.9;
const RARE: f64 = 1e-3;

/// The unmeasured part of an exchange alone, `part` of it at the station.
#[derive(Clone, Copy)]
struct Slice {
    time: f64,
    part: f64,
    prior: f64,
    during: bool,
    falls: Falls,
}

impl Members {
    pub fn fit(known: &[Known], alone: Alone, think: f64, observed: &[Observed]) -> Self {
        let known = affordable(known, alone.service_s, observed);
        let one = known.iter().map(|it| QueueStation { demand: it.alone, ..it.station.clone() });
        let of_known = Network { delay: 0.0, stations: one.collect() }.alone();
        let spread = deviation(alone.low, alone.high).max(LEAST / 2.0);
        let most = observed.iter().map(|it| it.per_s).fold(0.0, f64::max);
        let connections = observed.iter().map(|it| it.connections).max().unwrap_or(1);
        let is_steady = known.iter().all(|it| it.alone == it.station.demand);
        let directions = if is_steady { &Falls::ALL[..1] } else { &Falls::ALL[..] };
        let mut this = Self { known, connections, think, all: Vec::new() };
        for (falls, (at, prior)) in
            directions.iter().flat_map(|falls| NODES.map(|node| (*falls, node)))
        {
            let prior = prior / directions.len() as f64;
            let whole = alone.service_s * (at * spread).exp();
            // The CPUs' known time may exceed the measured time alone.
            let time = (whole - of_known).max(whole * LEAST);
            let none = Member {
                delay: time,
                demand: 0.0,
                servers: f64::INFINITY,
                during: false,
                falls,
                varies: 0.0,
                weight: prior * NO_STATION,
                density: prior * NO_STATION,
            };
            this.add(vec![none], observed);
            for part in PARTS {
                let prior = prior * (1.0 - NO_STATION) / PARTS.len() as f64 / 2.0;
                this.along(Slice { time, part, prior, during: false, falls }, most, observed);
                let slice = Slice { time: whole, part, prior, during: true, falls };
                this.along(slice, most, observed);
            }
        }
        let best = this.all.iter().map(|it| it.density).fold(f64::NEG_INFINITY, f64::max);
        // Until here weights and densities are logarithms.
        let heaviest = this.all.iter().map(|it| it.weight).fold(f64::NEG_INFINITY, f64::max);
        for member in &mut this.all {
            member.weight = (member.weight - heaviest).exp();
            member.density = (member.density - best).exp();
        }
        let sum: f64 = this.all.iter().map(|it| it.weight).sum();
        this.all.iter_mut().for_each(|it| it.weight /= sum);
        this.thin();
        this
    }

    /// Members along the bound's logarithm, closer where it matters.
    fn along(&mut self, slice: Slice, most: f64, observed: &[Observed]) {
        let Slice { time, part, prior, during, falls } = slice;
        let demand = time * part;
        // Fewer than one server is a configured rate, and no part of the delay.
        let least = if part < 1.0 { NEARLY / demand } else { 0.0 };
        let from = (most * BELOW).max(least).ln();
        let to = (most * NEXT).ln();
        if from >= to {
            return;
        }
        let delay = self.think + time - demand;
        let solver = self.solver(&self.known, delay, during, falls, observed);
        let likely = |at: f64| {
            let (bound, mut best) = (at.exp(), [0.0; VARIES.len()]);
            let of = |varies| Member {
                delay: time - demand,
                demand,
                servers: bound * demand,
                during,
                falls,
                varies,
                weight: 0.0,
                density: 0.0,
            };
            let ends = solver.ends(&of(0.0));
            for (best, varies) in best.iter_mut().zip(VARIES) {
                *best = solver.likelihood(&ends, varies);
            }
            (at, best)
        };
        let step = (to - from) / (COARSE - 1) as f64;
        let mut points: Vec<_> = (0..COARSE).map(|i| likely(from + step * i as f64)).collect();
        for _ in 0..CLOSER {
            let top = |it: &(f64, [f64; 3])| it.1.iter().fold(f64::NEG_INFINITY, |a, b| a.max(*b));
            let best = points.iter().map(top).fold(f64::NEG_INFINITY, f64::max);
            let mut closer = Vec::with_capacity(points.len() * 2);
            for (index, point) in points.iter().enumerate() {
                closer.push(*point);
                let Some(next) = points.get(index + 1) else { continue };
                let differ = (top(point) - top(next)).abs() > 0.5;
                if differ && top(point).max(top(next)) > best - UNLIKELY {
                    closer.push(likely((point.0 + next.0) / 2.0));
                }
            }
            points = closer;
        }
        let density = prior / (100.0f64 / BELOW).ln() / VARIES.len() as f64;
        for (index, (at, likelihoods)) in points.iter().enumerate() {
            let before = index.checked_sub(1).map_or(*at, |index| points[index].0);
            let after = points.get(index + 1).map_or(*at, |next| next.0);
            let width = (after - before) / 2.0;
            for (varies, likelihood) in VARIES.into_iter().zip(likelihoods) {
                self.all.push(Member {
                    delay: time - demand,
                    demand,
                    servers: at.exp() * demand,
                    during,
                    falls,
                    varies,
                    weight: likelihood + (density * width).max(1e-300).ln(),
                    density: likelihood + density.ln(),
                });
            }
        }
    }

    /// Members with prior weights, which become logarithms of posterior ones.
    fn add(&mut self, members: Vec<Member>, observed: &[Observed]) {
        for member in members {
            let Member { delay, during, falls, .. } = member;
            let solver = self.solver(&self.known, self.think + delay, during, falls, observed);
            let ends = solver.ends(&member);
            for varies in VARIES {
                let likelihood = solver.likelihood(&ends, varies);
                let weight = likelihood + (member.weight / VARIES.len() as f64).ln();
                self.all.push(Member { varies, weight, density: weight, ..member });
            }
        }
    }

    /// Delay and known stations for the observations.
    fn solver<'a>(
        &self,
        known: &[Known],
        delay: f64,
        during: bool,
        falls: Falls,
        observed: &'a [Observed],
    ) -> Solver<'a> {
        let at = |it: &Observed| {
            let left = falls.left(it.connections, self.connections);
            let of = |it: &Known| {
                let demand = it.station.demand + (it.alone - it.station.demand) * left;
                QueueStation { demand, ..it.station.clone() }
            };
            known.iter().map(of).collect::<Vec<_>>()
        };
        Solver::of(at, delay, during, observed)
    }

    /// Drops members that change no quantile.
    fn thin(&mut self) {
        // Chosen: a hundredth of the smallest quantile, in all.
        const LEFT_OUT: f64 = 2.5e-4;
        let mut weights: Vec<f64> = self.all.iter().map(|it| it.weight).collect();
        weights.sort_by(f64::total_cmp);
        let mut sum = 0.0;
        let least = weights.into_iter().find(|weight| {
            sum += weight;
            sum > LEFT_OUT
        });
        self.all.retain(|it| it.weight >= least.unwrap_or(0.0));
    }

    /// By member: how many are served at a time, and its weight.
    pub fn served(&self) -> Vec<(f64, f64)> {
        self.all.iter().map(|it| (it.served(), it.weight)).collect()
    }

    pub fn likeliest(&self) -> Network {
        self.likeliest_without(&[])
    }

    pub fn likeliest_without(&self, removed: &[Removed]) -> Network {
        let best = self.all.iter().max_by(|a, b| a.density.total_cmp(&b.density));
        let Some(best) = best else { return Network::default() };
        let (known, member) = changed(&self.known, *best, removed);
        let known = if member.during { Vec::new() } else { known };
        let known = known.into_iter().map(|it| it.station);
        let unknown =
            QueueStation { id: UNKNOWN.into(), demand: member.demand, servers: member.servers };
        let unknown = (member.demand > 0.0).then_some(unknown);
        Network { delay: self.think + member.delay, stations: known.chain(unknown).collect() }
    }

    /// Quantiles of their throughput with so many. Unit: exchanges a second.
    pub fn predict(&self, connections: u32, ends: [f64; 3], removed: &[Removed]) -> [f64; 3] {
        let mut done = self.rates(connections, removed);
        ends.map(|at| quantile(&mut done, at))
    }

    /// The same quantile where a limit may come at any multiple of their throughput with `observed`.
    pub fn capped(&self, connections: u32, observed: u32, at: f64) -> f64 {
        let now = self.rates(observed, &[]);
        let then = self.rates(connections, &[]);
        let held = now.iter().zip(&then).flat_map(|((now, weight), (then, _))| {
            Beyond::nodes().map(move |times| (then.min(now * times), *weight))
        });
        quantile(&mut held.collect::<Vec<_>>(), at)
    }

    /// Those with the delay that is to be removed: then it is known that nothing queues for it.
    fn with_delay(&self, removed: &[Removed]) -> impl Iterator<Item = &Member> {
        let of = |it: &Removed| if let Removed::Delay(seconds) = it { *seconds } else { 0.0 };
        let least = removed.iter().map(of).sum::<f64>() * NEARLY;
        let some = self.all.iter().filter(|it| it.delay >= least).map(|it| it.weight).sum::<f64>();
        self.all.iter().filter(move |it| it.delay >= least || some < RARE)
    }

    /// By member: its throughput with so many, and its weight.
    fn rates(&self, connections: u32, removed: &[Removed]) -> Vec<(f64, f64)> {
        let asked = [Observed { connections, per_s: 1.0, low: 1.0, high: 1.0 }];
        let mut solver: Option<((f64, bool, Falls), Solver)> = None;
        // Members that differ in the variation of service alone stand together, and have the same ends.
        let mut last: Option<((f64, f64), (f64, f64))> = None;
        let mut done = Vec::with_capacity(self.all.len());
        for member in self.with_delay(removed) {
            let (known, changed) = changed(&self.known, *member, removed);
            let of @ (delay, during, falls) = (changed.delay, changed.during, changed.falls);
            if solver.as_ref().is_none_or(|(solved, _)| *solved != of) {
                let delay = self.think + delay;
                let solved = self.solver(&known, delay, during, falls, &asked);
                solver = Some((of, solved));
                last = None;
            }
            let Some((_, solver)) = &solver else { continue };
            let of = (changed.demand, changed.servers);
            let (low, high) = match last {
                Some((solved, ends)) if solved == of => ends,
                _ => solver.ends(&changed).first().copied().unwrap_or_default(),
            };
            last = Some((of, (low, high)));
            done.push((Solved::with(low, high, changed.varies), member.weight));
        }
        done
    }
}

impl Member {
    /// Its bound in exchanges' time alone.
    fn served(&self) -> f64 {
        if self.demand > 0.0 {
            self.servers / self.demand * (self.demand + self.delay)
        } else {
            f64::INFINITY
        }
    }
}

/// A CPU that seems to have done more than it can, or to have worked longer on one exchange than that took, was
/// counted too dear: part of the work is done after the answer.
fn affordable(known: &[Known], alone: f64, observed: &[Observed]) -> Vec<Known> {
    let most = observed.iter().map(|it| it.per_s).fold(0.0, f64::max);
    let of = |it: &Known| {
        let of = &it.station;
        let demand = of.demand.max(0.0).min(of.servers / most.max(1e-300));
        let station = QueueStation { demand, ..of.clone() };
        Known { station, alone: it.alone.max(0.0) }
    };
    let mut known: Vec<Known> = known.iter().map(of).collect();
    let sum = |of: fn(&Known) -> f64| known.iter().map(of).sum::<f64>();
    let (one, all) = (sum(|it| it.alone), sum(|it| it.station.demand));
    let spared =
        if one > alone { ((one - alone.max(all)) / (one - all)).clamp(0.0, 1.0) } else { 0.0 };
    for it in &mut known {
        it.alone -= (it.alone - it.station.demand) * spared;
    }
    known
}

/// A member and the known stations, without what is removed.
fn changed(known: &[Known], mut member: Member, removed: &[Removed]) -> (Vec<Known>, Member) {
    let mut known = known.to_vec();
    let less = |from: &mut f64, seconds: f64| {
        let taken = seconds.clamp(0.0, *from);
        *from -= taken;
        seconds - taken
    };
    for it in removed {
        match it {
            // What is not in the delay was attributed to the station.
            Removed::Delay(seconds) => {
                let rest = less(&mut member.delay, *seconds);
                less(&mut member.demand, rest);
            }
            Removed::Work { station, seconds } if station == UNKNOWN => {
                let rest = less(&mut member.demand, *seconds);
                less(&mut member.delay, rest);
            }
            Removed::Servers { station, servers } if station == UNKNOWN => {
                let time = member.demand + member.delay;
                member.servers = (servers * member.demand / time.max(1e-300)).max(member.servers);
            }
            Removed::Queue { station } if station == UNKNOWN => {
                member.delay += member.demand;
                member.demand = 0.0;
            }
            Removed::Work { station, seconds } => {
                // Work done while the lock is held shortens the hold.
                if member.during {
                    let rest = less(&mut member.demand, *seconds);
                    less(&mut member.delay, rest);
                }
                for it in known.iter_mut().filter(|it| it.station.id == *station) {
                    let before = it.station.demand;
                    less(&mut it.station.demand, *seconds);
                    it.alone *= it.station.demand / before.max(1e-300);
                }
            }
            Removed::Servers { station, servers } => {
                known
                    .iter_mut()
                    .filter(|it| it.station.id == *station)
                    .for_each(|it| it.station.servers = *servers);
            }
            Removed::Queue { station } => {
                for it in known.iter().filter(|it| it.station.id == *station) {
                    member.delay += it.station.demand;
                }
                known.retain(|it| it.station.id != *station);
            }
        }
    }
    if member.demand <= 0.0 {
        member.servers = f64::INFINITY;
    }
    (known, member)
}
