//! The one model: a closed network fitted to the run. All predictions come from it.
//!
//! Its known stations were measured ([`crate::stations`]): CPUs by their demand an exchange, the fullest thread or
//! process, the line. A station within another one, and less full than it, is only an upper bound. The delay is an
//! exchange's time alone, less those demands. What the run lost besides is one more station, fitted to the
//! experiment. The clients' pause between requests (think time) is a delay of its own, and no part of an exchange.
//!
//! Demands are the main phase's. On CPUs that idled then, exchanges may cost less once they are busy ([`Heat`]): a
//! prediction's low end takes the measured demand, its middle and high end that of busy CPUs.
//! Source: Lazowska et al., "Quantitative System Performance", 1984, chapters 7 and 12.

use linerate_account::observed;
use linerate_predict::{
    Alone, Fit, Known, Network, Observed, Removed, Solved, UNKNOWN, fit_thinking, predict_at,
    without_at,
};

use crate::prelude::*;

pub struct Model {
    fit: Fit,
    /// In the fit's order.
    stations: Vec<InUse>,
    measured: Stations,
    by: By,
    /// Service times under this load. Unit: ns.
    service: Percentiles,
    connections: u32,
    /// An exchange's time under this load. Unit: seconds.
    exchange_s: f64,
    think_s: f64,
    /// The part of the time alone at no known station. Unit: seconds.
    delay_s: f64,
    /// Time of an exchange alone. Unit: seconds.
    pub alone: Estimate,
    /// Throughput of the network of the known stations alone, with the run's connections. Unit: exchanges a second.
    pub known_per_s: f64,
    /// `d ln X / d ln N` there.
    pub known_elasticity: f64,
    /// What half of the connections are expected to give, predicted without the experiment's own half.
    pub half: Option<Predicted>,
}

/// A change of a known station.
type Then<'a> = &'a dyn Fn(&InUse, &mut QueueStation);

impl Model {
    pub(crate) fn of(facts: &Facts) -> Option<Self> {
        let (run, measured, attained) = (&facts.run, &facts.stations, facts.attained);
        if facts.load == Load::Watched || attained <= 0.0 {
            return None;
        }
        let by = By::of(run, attained);
        let stations = measured.apart();
        let experiment = facts.experiment.as_ref();
        let alone = alone(run, experiment)?;
        // Who is served sooner among others is served otherwise then: for as long as Little's law says, waiting included.
        let among = (f64::from(run.connections()) / attained - run.think_s()).max(0.0);
        let alone = if alone.low > among { Estimate::exact(among) } else { alone };
        let queues = at(&stations, Heat::Cold, by);
        let delay = (alone.mid - work(&queues)).max(0.0);
        let dearer = dearer(run, experiment).unwrap_or(1.0);
        let known = stations.iter().zip(&queues).map(|(of, station)| {
            let dearer = 1.0 + (dearer - 1.0) * of.cpu / of.used;
            Known { alone: station.demand * dearer, station: station.clone() }
        });
        let (known, think) = (Vec::from_iter(known), run.think_s());
        let time = Alone { service_s: alone.mid, low: alone.low, high: alone.high };
        let fit = |seen: &[Observed]| fit_thinking(&known, time, think, seen);
        let network = Network { delay: delay + think, stations: queues.clone() };
        let connections = run.connections();
        let whole = network.throughput(f64::from(connections));
        let fewer = network.throughput(f64::from(connections) / 2.0);
        let elasticity = (whole.low / fewer.low.max(1e-12)).ln() / 2.0_f64.ln();
        // The half checks the model, so the check is of a fit that has not seen it.
        let mut seen = vec![observed(connections, OpRate(attained), run.load.throughput_interval)];
        // One connection without pause is another load than clients that think, or than one to each server.
        let is_alike = think == 0.0 && !run.header.plan.names_servers();
        seen.extend(experiment.and_then(|it| it.alone).filter(|_| is_alike));
        // Refused requests are none of its exchanges.
        let answered = run.load.good_throughput.0 >= (1.0 - TURNED_AWAY) * attained;
        let half = experiment.and_then(|it| it.half);
        // Where something is nearly full hardly anybody sleeps: the time alone beside its work may be the waking of sleepers.
        let is_full = measured.fullest().is_some_and(|(_, used)| used >= EXPLAINED);
        let is_waking = is_full && delay <= COLD * COLD * work(&queues);
        let awake = Network { delay: think, stations: queues };
        let checked = half.filter(|_| answered).map(|half| {
            let few = f64::from(half.connections);
            let of = predict_at(&fit(&seen), half.connections);
            let most = if is_waking { awake.throughput(few).high } else { 0.0 };
            // The service may have changed by then, as `again` shows.
            let again = experiment.and_then(|it| it.again).map_or(1.0, |it| it.per_s / attained);
            let low = of.low.0 * again.min(1.0);
            // Among half as many an exchange takes no longer than among all, and may take as long: what delays each among others
            // need not be a queue. Where nothing is nearly full that is little less.
            let least = attained * again.min(1.0) * few / f64::from(connections);
            let low = if least >= EXPLAINED * low { low.min(least) } else { low };
            agreed([low, of.mid.0, of.high.0.max(most) * again.max(1.0)])
        });
        seen.extend(half);
        Some(Self {
            fit: fit(&seen),
            stations,
            measured: measured.clone(),
            by,
            service: run.load.service.clone(),
            connections,
            exchange_s: facts.exchange_s(),
            think_s: think,
            delay_s: delay,
            alone: experiment.and_then(|it| it.alone_s).unwrap_or(alone),
            known_per_s: whole.low,
            known_elasticity: elasticity.clamp(0.0, 1.0),
            half: checked,
        })
    }

    pub fn with_connections(&self, connections: u32) -> Predicted {
        predict_at(&self.fit, connections)
    }

    /// Without so much delay an exchange, in seconds. Whatever queues, no exchange is spared more, so by Little's law the rate
    /// is at most `N / (R - each + think)`, and no more than the known stations carry. What serves no other exchange while
    /// one waits in the application is free then.
    pub fn without_delay(&self, each: f64, at: At) -> Predicted {
        let waits = if at.covers(Station::Application) { each * self.by.attained } else { 0.0 };
        let free: Vec<_> = self.stations.iter().map(|of| of.without_waits(waits)).collect();
        self.without(each, &free)
    }

    /// The same where linerate is delayed, by its quota or by others on its CPUs.
    pub fn without_delay_of_engine(&self, each: f64) -> Predicted {
        self.without(each, &self.measured.with_free_engine().apart())
    }

    fn without(&self, each: f64, stations: &[InUse]) -> Predicted {
        let connections = f64::from(self.connections);
        // A small rest is known no better than what was taken off, and may itself be of it. Exchanges that ended
        // before it could have held them show the rest, by their median; else it is between all that is left and only work.
        let (most, least) = (self.left(each * (1.0 - SPLIT)), self.left(each * (1.0 + SPLIT)));
        let share = self.service.share_within(0, (each * HALFWAY * 1e9) as u64);
        let quick = self.service.at(share * 100.0 / 2.0).filter(|_| share > 0.0);
        let quick = quick.map(|median| median.value as f64 / 1e9).filter(|quick| *quick < most);
        let solve = |left: f64, heat: Heat| {
            let stations = at(stations, heat, self.by);
            let demands = work(&stations);
            let left = left.max(demands);
            let delay = left - demands + self.think_s;
            let solved = Network { delay, stations }.throughput(connections);
            let most = connections / (left + self.think_s);
            [solved.low, solved.high].map(|rate| rate.min(most))
        };
        let [low, _] = solve(most, Heat::Cold);
        let [_, high] = solve(quick.unwrap_or(least).min(least), Heat::Hot);
        let high = high.max(low);
        let mid = |left| solve(left, Heat::Warm).into_iter().product::<f64>().sqrt();
        let mid = quick.map_or_else(|| (mid(self.left(each)) * mid(least)).sqrt(), mid);
        agreed([low, mid.clamp(low, high), high])
    }

    /// The same of streams, whose resources work side by side: limited by what is left, and by the fullest of them.
    pub fn without_delay_of_streams(&self, each: f64) -> Predicted {
        let rate = |share: f64| f64::from(self.connections) / self.left(each * share);
        self.bounded([1.0 - SPLIT, 1.0, 1.0 + SPLIT].map(rate), self.by.attained, &|_, _| {})
    }

    /// The rest of an exchange, above 0 so that it can be solved. Unit: seconds.
    fn left(&self, each: f64) -> f64 {
        (self.exchange_s - each).max(self.exchange_s * 1e-3)
    }

    /// Without so much of the time for which each is served. Unit: seconds.
    pub fn without_held(&self, each: f64) -> Predicted {
        let removed = Removed::Work { station: UNKNOWN.to_owned(), seconds: each };
        self.after(removed, self.connections, &|_, _| {})
    }

    /// Without so much work at a resource. Unit: seconds an exchange. What is left is known no better.
    /// The machine's is spread over all that run on it, linerate too; a part's is none of the rest of the machine beside it.
    pub fn without_work(&self, resource: Resource, each: f64) -> Predicted {
        let cold = |of: &InUse| of.station(Heat::Cold, self.by).demand;
        let machine = self.measured.all.iter().find(|of| of.resource == Resource::HostCpu);
        let all = machine.map_or(each, cold);
        let is_apart = |of: &&InUse| !of.is_rest && resource.is_part_of(of.resource);
        let apart: f64 = self.stations.iter().filter(is_apart).map(cold).sum();
        let [likely, most] = [1.0, 1.0 + SPLIT].map(|share| {
            let each = each * share;
            self.known_with(self.connections, &|known, of| match resource {
                Resource::HostCpu if known.resource.is_part_of(resource) => {
                    of.demand *= (1.0 - each / all).max(0.0);
                }
                _ if resource.is_part_of(known.resource) => {
                    let elsewhere = if known.is_rest { apart } else { 0.0 };
                    of.demand = (of.demand - (each - elsewhere).max(0.0)).max(0.0);
                }
                _ => {}
            })
        });
        Predicted { high: most.high, ..likely }
    }

    /// At most, if an exchange took nothing but this time on the path, and linerate's own work. Beside work that is spared
    /// that was cold; where it is done at both ends, a small part of it is left. Unit: seconds.
    pub fn without_service(&self, path_s: f64, is_of_both_ends: bool) -> OpRate {
        let kept = if is_of_both_ends { FEW } else { COLD }.recip();
        let spare = |known: &InUse, of: &mut QueueStation| {
            let cold = known.station(Heat::Cold, self.by).demand;
            let own = match known.resource {
                Resource::Line | Resource::Emulator | Resource::Slots | Resource::Load => return,
                Resource::EngineCpu => 1.0,
                Resource::HostCpu => (self.by.engine / known.used).min(1.0),
                _ => 0.0,
            };
            of.demand = own * of.demand.min(kept * cold);
        };
        let most = self.solved(path_s, Heat::Hot, self.connections, &spare).high;
        self.bounded([0.0, most, most], self.by.attained, &spare).high
    }

    /// With no other programs on the CPUs.
    pub fn without_others(&self) -> Predicted {
        contended(self.known_with(self.connections, &|known, of| of.servers += known.lost()))
    }

    /// If an exchange took this time alone (none: the measured one), with such a share of the measured demands at the
    /// known stations, or all of them. Unit: seconds. The rest is a delay. A rest no longer than cold work may take is
    /// the waking of sleeping threads, and shrinks as that work does.
    pub fn with_alone(&self, alone: Option<Estimate>, share: f64) -> Predicted {
        let alone = alone.unwrap_or(self.alone);
        let known = |heat: Heat, share: f64| -> f64 {
            self.stations.iter().map(|of| of.station(heat, self.by).demand * share).sum()
        };
        let solve = |heat: Heat, alone: f64, share: f64| {
            let (cold, warm) = (known(Heat::Cold, share), known(heat, share));
            let rest = (alone - cold).max(0.0);
            let is_waking = rest <= COLD * cold && cold > 0.0;
            let delay = if is_waking { rest * warm / cold } else { (alone - warm).max(0.0) };
            self.solved(delay, heat, self.connections, &|_, of| of.demand *= share)
        };
        let low = solve(Heat::Cold, alone.high, 1.0).low;
        let mid = solve(Heat::Warm, alone.mid, share).per_s.max(low);
        agreed([low, mid, solve(Heat::Hot, alone.low, share).high.max(mid)])
    }

    /// With so many times as much of a resource, and so many connections.
    pub fn with_more_at(&self, resource: Resource, times: f64, connections: u32) -> Predicted {
        // A thread that does everything is what serves one at a time.
        let is_it = |of: &InUse| match (resource, of.resource) {
            (Resource::Slots, Resource::TargetThread | Resource::Process) => true,
            (Resource::TargetCpu, _) if of.is_targets_part => true,
            (resource, of) => of == resource,
        };
        let more = |known: &InUse, of: &mut QueueStation| {
            of.servers *= if is_it(known) { times } else { 1.0 };
        };
        if self.measured.of_resource(resource).is_some() {
            let then = self.known_with(connections, &more);
            return if resource == Resource::Line { then } else { contended(then) };
        }
        let servers = self.fit.k.map_or(1.0, |(_, mid, _)| mid) * times;
        self.after(Removed::Servers { station: UNKNOWN.to_owned(), servers }, connections, &more)
    }

    /// The known stations' rate after the change by that before it, times the measured rate.
    fn known_with(&self, connections: u32, then: Then) -> Predicted {
        let solve = |heat: Heat| self.solved(self.delay_s, heat, connections, then);
        let now = self.solved(self.delay_s, Heat::Cold, self.connections, &|_, _| {}).per_s;
        let rates = [solve(Heat::Cold).low, solve(Heat::Warm).per_s, solve(Heat::Hot).high];
        self.bounded(rates, now, then)
    }

    /// The fit's rate after the change by that before it, times the measured rate: its error is in both.
    fn after(&self, removed: Removed, connections: u32, then: Then) -> Predicted {
        let found = |heat: Heat| {
            let mut removed = vec![removed.clone()];
            for known in &self.stations {
                let after = self.changed(known, heat, then);
                let seconds = known.station(Heat::Cold, self.by).demand - after.demand;
                removed.push(Removed::Work { station: after.id.clone(), seconds });
                removed.push(Removed::Servers { station: after.id, servers: after.servers });
            }
            without_at(&self.fit, &removed, connections)
        };
        let now = predict_at(&self.fit, self.connections).mid.0;
        let rates = [found(Heat::Cold).low, found(Heat::Warm).mid, found(Heat::Hot).high];
        self.bounded(rates.map(|rate| rate.0), now, then)
    }

    /// The measured rate by that solved for `now`, times these; at most what each resource carries after the change.
    fn bounded(&self, rates: [f64; 3], now: f64, then: Then) -> Predicted {
        let scale = if now > 0.0 { self.by.attained / now } else { 1.0 };
        let [low, mid, high] = rates.map(|rate| rate * scale);
        let most = |heat: Heat| {
            let after = self.measured.all.iter().map(|known| self.changed(known, heat, then));
            let bounds = after.filter(|of| of.demand > 0.0).map(|of| of.servers / of.demand);
            bounds.fold(f64::INFINITY, f64::min)
        };
        let low = low.min(most(Heat::Cold));
        let mid = mid.min(most(Heat::Warm)).max(low);
        agreed([low, mid, high.min(most(Heat::Hot)).max(mid)])
    }

    /// The known stations after the change, with such a delay beside the clients' pause. Unit: seconds.
    fn solved(&self, delay: f64, heat: Heat, connections: u32, then: Then) -> Solved {
        let stations = self.stations.iter().map(|of| self.changed(of, heat, then)).collect();
        Network { delay: delay + self.think_s, stations }.throughput(f64::from(connections))
    }

    fn changed(&self, known: &InUse, heat: Heat, then: Then) -> QueueStation {
        let mut of = known.station(heat, self.by);
        then(known, &mut of);
        of
    }
}

/// More of a machine is of the same caches and memory: it may carry that much less.
fn contended(more: Predicted) -> Predicted {
    Predicted { low: OpRate(more.low.0 * (1.0 - SPLIT)), ..more }
}

/// An interval no narrower than two runs agree.
fn agreed([low, mid, high]: [f64; 3]) -> Predicted {
    [low * (1.0 - AGREE), mid, high * (1.0 + AGREE)].into()
}

fn at(stations: &[InUse], heat: Heat, by: By) -> Vec<QueueStation> {
    stations.iter().map(|of| of.station(heat, by)).collect()
}

fn work(stations: &[QueueStation]) -> f64 {
    stations.iter().map(|of| of.demand).sum()
}

/// Time of an exchange alone. Unit: seconds.
fn alone(run: &Run, experiment: Option<&Experiment>) -> Option<Estimate> {
    let each = |per_s: f64| 1.0 / per_s.max(1e-12);
    let estimate =
        |of: Observed| Estimate { mid: each(of.per_s), low: each(of.high), high: each(of.low) };
    let one = experiment.and_then(|it| it.alone).map(estimate);
    if run.header.plan.is_stream() {
        // A block alone finds an empty buffer; what a stream takes for one is all there is.
        return Some(one.unwrap_or(Estimate::exact(run.load.in_flight / run.attained().0)));
    }
    // Of several servers one connection asks one, near or far.
    let asks_all = !run.header.plan.names_servers();
    if let Some(alone) = experiment.and_then(|it| it.alone_s).filter(|_| asks_all) {
        // Refused connections pause before they ask again.
        return Some(one.filter(|one| one.low > alone.high).unwrap_or(alone));
    }
    // Preflight exchanges are few: their median is known only to their spread.
    let median = run.header.unhindered(run.load)?;
    let mut all: Vec<f64> = run.header.preflight_ns.iter().map(|ns| *ns as f64 / 1e9).collect();
    all.sort_by(f64::total_cmp);
    let last = all.len().saturating_sub(1) as f64;
    let at = |share: f64| all.get((last * share) as usize).copied().unwrap_or(median);
    Some(Estimate { mid: median, low: at(0.25).min(median), high: at(0.75).max(median) })
}
