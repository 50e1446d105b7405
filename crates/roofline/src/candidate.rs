//! Candidates for the verdict: claims and rules that hold at the place, with what lifting each gives.

use crate::prelude::*;

/// The target's, from its thread's on up.
const CPUS: [Resource; 3] = [Resource::TargetThread, Resource::TargetCpu, Resource::HostCpu];

pub(crate) struct Candidate {
    pub id: String,
    pub rank: Rank,
    /// The one of its claim's parts that is named first, and gives most.
    pub part: Part,
    /// Attained after lifting it by attained now; of what was turned away, asked by served.
    pub gain: f64,
    pub interval: (f64, f64),
    pub advice: Vec<Advice>,
}

/// In the order of naming.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(crate) enum Rank {
    TurnedAway,
    /// Turned away for no known reason.
    TurnedAwayOnly,
    Cause,
    Elsewhere,
    Place,
    Load,
    /// Turned away for no known reason, and less than two runs differ by: it limits no rate.
    FewTurnedAway,
}

impl Candidate {
    /// Whether so many more got nothing that this is no cause of most of it.
    pub fn is_part_of(&self, other: &Self) -> bool {
        let (ranks, most) = ((self.rank, other.rank), HALFWAY * other.part.lost());
        ranks == (Rank::TurnedAway, Rank::TurnedAwayOnly) && self.part.lost() < most
    }

    /// Whether the other's gain lies within this one's interval.
    pub fn ties(&self, other: &Self) -> bool {
        let is_within = (self.interval.0..=self.interval.1).contains(&other.gain);
        is_within && self.rank == Rank::Cause && other.rank == Rank::Cause
    }
}

/// A claim as reports list it, and as a candidate where it explains the place.
pub(crate) fn of_claim(facts: &Facts, claim: &Claim, of: &mut Assessed) -> Option<Candidate> {
    let ceiling = claim.parts.iter().filter_map(|part| ceiling(facts, part)).reduce(f64::min);
    of.state = State::Ceiling;
    of.kind = match claim.parts.first() {
        Some(Part::Capacity { resource: Resource::Load, .. }) => Kind::Demand,
        Some(Part::Capacity { .. }) => Kind::Resource,
        _ => Kind::Defect,
    };
    of.ceiling = ceiling.map(OpRate);
    of.share = ceiling.map(|rate| facts.attained / rate);
    (of.sum, of.because) = (claim.sum.clone(), claim.seen.clone());
    let of_part = |part| Some((rank(claim, part), lifted(facts, claim, part)?, *part));
    let parts = claim.parts.iter().filter(|_| claim.is_sized).filter_map(of_part);
    let (rank, predicted, part) =
        parts.reduce(|a, b| if (b.0, -b.1.mid.0) < (a.0, -a.1.mid.0) { b } else { a })?;
    let by = |rate: OpRate| rate.0 / facts.attained.max(1e-12);
    let gain = by(predicted.mid);
    let predicted = claim.least.map_or(predicted, |least| at_least(facts, least, predicted));
    let interval = (by(predicted.low), by(predicted.high));
    let advice = advice(facts, claim, &part, predicted);
    Some(Candidate { id: of.id.clone(), rank, part, gain, interval, advice })
}

/// Where the part is what it takes at least, all that the service takes may be its own. It ranks by what is known.
fn at_least(facts: &Facts, least: Least, known: Predicted) -> Predicted {
    let both = least == Least::OfBothEnds;
    let path = min_rtt(&facts.run).unwrap_or(0.0);
    let high = match (least, &facts.model) {
        // Nothing puts to sleep who does the rest then: as on the busiest of machines. Watched clients may ask no more.
        (Least::Asleep, model) => {
            let low = if model.is_some() { known.mid } else { known.low };
            return [low.0, known.high.0, known.high.0 * COLD].into();
        }
        (_, Some(model)) => model.without_service(path, both).0.max(known.high.0),
        // What clients that are only watched have of it is theirs to know.
        (_, None) if both => known.high.0 * FEW,
        (_, None) => return known,
    };
    [known.low.0, (known.mid.0 * high).sqrt(), high].into()
}

fn rank(claim: &Claim, part: &Part) -> Rank {
    match (part, claim.role) {
        (Part::TurnedAway { .. }, Role::Cause | Role::Elsewhere) => Rank::TurnedAway,
        (Part::TurnedAway { .. }, Role::Place) if part.lost() < AGREE => Rank::FewTurnedAway,
        (Part::TurnedAway { .. }, Role::Place) => Rank::TurnedAwayOnly,
        (Part::Capacity { resource: Resource::Load, .. }, _) => Rank::Load,
        (_, Role::Cause) => Rank::Cause,
        (_, Role::Elsewhere) => Rank::Elsewhere,
        (_, Role::Place) => Rank::Place,
    }
}

/// Where a part alone would limit the run. Unit: exchanges a second.
fn ceiling(facts: &Facts, part: &Part) -> Option<f64> {
    let rate = match part {
        Part::Delay { each, .. } => f64::from(facts.run.connections()) / each,
        Part::Work { resource, each } | Part::Taken { resource, each } => {
            facts.servers(*resource)? / each
        }
        Part::Capacity { at_once, each, .. } => at_once / each,
        Part::TurnedAway { .. } => return None,
    };
    (rate.is_finite() && rate > 0.0).then_some(rate)
}

/// What the model predicts without a part, where that explains the place.
fn lifted(facts: &Facts, claim: &Claim, part: &Part) -> Option<Predicted> {
    match *part {
        Part::TurnedAway { asked, served } => turned_away(facts, asked, served),
        Part::Delay { at, each } => delay(facts, claim, at, each),
        Part::Work { resource, each } => work(facts, resource, each, false),
        Part::Taken { resource, each } => work(facts, resource, each, true),
        Part::Capacity { resource: Resource::Load, .. } => load(facts),
        Part::Capacity { resource: of, at_once, each } => {
            capacity(facts, claim, of, [at_once, each])
        }
    }
}

/// The rate without refusals, which are quick: each request takes what it takes alone, as far as resources carry it.
fn turned_away(facts: &Facts, asked: f64, served: f64) -> Option<Predicted> {
    let lost = asked - served;
    // A few are chance, unless they are a large part of all.
    let few = lost < FEW && (lost < SAMPLES as f64 || lost < HOLDS * asked);
    if few || lost < TURNED_AWAY * asked {
        return None;
    }
    let (times, load) = (asked / served.max(1.0), facts.run.load);
    let good = load.good_throughput.0;
    let then = match &facts.model {
        None => [good, facts.attained, facts.attained * times].into(),
        // A refusal cost at most as much as an answer.
        Some(model) => {
            // Where one connection alone was turned away too, few were served, and under another load.
            let turned_away = facts.experiment.as_ref().is_some_and(|it| it.alone_is_turned_away);
            let served = load.good_service.filter(|_| turned_away).map(|of| of.as_secs_f64());
            let served = served.map(|mid| Estimate { low: 0.0, mid, high: 2.0 * mid });
            let then = model.with_alone(served, 1.0 / times.max(1.0));
            // Nothing was served, so what that takes was not seen.
            let is_unseen = turned_away && served.is_none();
            Predicted { low: if is_unseen { OpRate(good) } else { then.low }, ..then }
        }
    };
    // An open loop gets no more answers than it asks for.
    let is_open = facts.model.is_some() && facts.run.header.plan.is_open_loop();
    let most = if is_open { good * times } else { f64::INFINITY };
    let [low, mid, high] = [then.low, then.mid, then.high].map(|rate| rate.0.min(most).max(good));
    // What was asked, in another run, is known no better than two runs agree.
    Some([(low * (1.0 - AGREE)).max(good), mid, high * (1.0 + AGREE)].into())
}

/// The same of a watched service. Its clients may ask no more than before: only the high end is above what was attained.
fn watched_delay(facts: &Facts, claim: &Claim, at: At, each: f64) -> Option<Predicted> {
    if facts.watched.is_empty() {
        // Recorded without its connections' states: the claim's own size has to do.
        let left = 1.0 - each * facts.attained / facts.most_under_way();
        // That may be less than samples resolve: at least as little as chance.
        let least = [1.0 / FEW, 1.0 / FEW / FEW];
        let [low, high] = least.map(|least| facts.attained / left.clamp(least, 1.0));
        let holds = covers(facts, at, each) && low > facts.attained;
        return holds.then(|| [low, (low * high).sqrt(), high].into());
    }
    let place = &facts.place;
    let share = each * facts.attained / place.of.max(1e-9);
    let is_there = place.station.is_some_and(|station| at.covers(station));
    // Where CPUs are full, time elsewhere does not limit the rate.
    let is_elsewhere = CPUS.into_iter().any(|cpu| place.is_full_of(cpu));
    // Where most connections are idle, and hardly two ask at a time, or those that ask rest for longer than they
    // wait, clients set the rate; not if requests are held.
    let rests = facts.captured().is_ok_and(|(_, headers)| headers.clients_rest());
    let resting = facts.ports(|port| port.idle);
    let is_asked = at != At::Station(Station::Application)
        || place.of >= 2.0 && !rests
        || place.of >= HALFWAY * (place.of + resting);
    // Fewer than one wait: what holds them is a cause if clients that rest as they do now would ask that much more. How
    // long those rest is not known that have no connection meanwhile.
    let left = (1.0 - share).clamp(FEW.recip(), 1.0);
    let stalls_all = claim.stalls_all && facts.run.counted() == Counted::Written;
    let idle = if stalls_all { 0.0 } else { resting };
    let asks_more = resting >= HALFWAY && asked_with(facts, left, idle) >= 1.0 + SPLIT;
    let is_much = place.of >= 1.0 || claim.role == Role::Cause && asks_more;
    (is_much && share >= HOLDS && is_asked && is_there && !is_elsewhere)
        .then(|| watched_with(facts, left, idle, (None, 0.0)))
}

fn delay(facts: &Facts, claim: &Claim, at: At, each: f64) -> Option<Predicted> {
    if facts.load == Load::Watched {
        return watched_delay(facts, claim, at, each);
    }
    let place = &facts.place;
    if place.regime == Regime::Met || !covers(facts, at, each) {
        return None;
    }
    // A small share of the exchanges there is no cause.
    let is_all = place.regime != Regime::Full && !facts.is_split();
    let model = facts.model.as_ref().filter(|_| is_all || is_much(facts, each))?;
    let is_set = matches!(place.regime, Regime::Full | Regime::RateSet);
    let predicted = match place.resource {
        Some(Resource::EngineCpu) if at == At::Station(Station::Engine) => {
            model.without_delay_of_engine(each)
        }
        // What drops packets gives more connections no more, and is no service that takes turns.
        Some(Resource::Slots) if is_set && at == At::Path => model.without_delay(each, at),
        Some(Resource::Slots) if is_set => model.without_held(each),
        // Where something is full, time elsewhere does not limit the rate.
        _ if is_set => return None,
        _ if facts.streams() => model.without_delay_of_streams(each),
        _ => model.without_delay(each, at),
    };
    gains(facts, predicted).then_some(predicted)
}

/// Work that could be spared, or that other processes did.
fn work(facts: &Facts, resource: Resource, each: f64, by_others: bool) -> Option<Predicted> {
    let place = &facts.place;
    let Some(model) = &facts.model else { return by_use(facts, resource, each) };
    // Where so many are served at a time, an exchange's work is the time it is served.
    let held = place.is_full_of(Resource::Slots);
    let fits = match place.regime {
        Regime::Full if held => is_much(facts, each),
        Regime::Full => place.resource.is_some_and(|full| resource.is_part_of(full)),
        Regime::RateSet | Regime::Met => false,
        // Where nothing is full, an exchange takes as long as its work.
        _ => is_much(facts, each) && covers(facts, At::Service, each),
    };
    let predicted = match () {
        () if by_others => model.without_others(),
        () if held => model.without_held(each),
        () => model.without_work(resource, each),
    };
    // What hardly anything comes of is no limit: the shares of a resource's time are known to a tenth.
    let is_much = predicted.mid.0 >= facts.attained * (1.0 + SPLIT);
    (fits && is_much && gains(facts, predicted)).then_some(predicted)
}

fn load(facts: &Facts) -> Option<Predicted> {
    let model = facts.model.as_ref().filter(|_| !facts.run.header.plan.is_open_loop());
    let twice = facts.run.connections().saturating_mul(2);
    let is_load = !matches!(facts.place.regime, Regime::Full | Regime::RateSet);
    let asked = || [1.0, TWICE, TWICE + AGREE].map(|gain| facts.attained * gain).into();
    is_load.then(|| model.map_or_else(asked, |model| model.with_connections(twice)))
}

fn capacity(facts: &Facts, claim: &Claim, resource: Resource, size: [f64; 2]) -> Option<Predicted> {
    let (place, [at_once, each]) = (&facts.place, size);
    let full = match place.regime {
        Regime::Full | Regime::RateSet => place.resource?,
        Regime::Unknown => Resource::Slots,
        _ => return None,
    };
    let of_target = |of| matches!(of, Resource::TargetCpu | Resource::TargetThread);
    // Several processes may serve one at a time by turns, and none of them is it.
    let in_processes = full == Resource::Process && resource == Resource::Slots;
    // What has headroom by its own figures is not full; slots of a watched service have a count of their own.
    let is_known = facts.load == Load::Made || resource != Resource::Slots;
    let has_room = is_known && each * facts.attained < HALFWAY * at_once;
    let is_it = resource == full || in_processes || of_target(resource) && of_target(full);
    if has_room || !is_it {
        return None;
    }
    let spaced = facts.experiment.as_ref().and_then(|it| it.spaced_s);
    Some(match (&facts.model, spaced) {
        // Without the set rate an exchange takes its time after a pause.
        (Some(model), Some(_)) if place.regime == Regime::RateSet => model.with_alone(spaced, 1.0),
        (Some(model), _) => {
            let (times, connections) = more(facts, claim, resource, at_once.max(1e-6));
            model.with_more_at(resource, times, connections)
        }
        (None, _) => {
            let more = if resource == Resource::Slots { place.of / at_once } else { TWICE };
            let left = more.recip().clamp(FEW.recip(), 1.0);
            watched_with(facts, left, facts.ports(|port| port.idle), (Some(resource), 0.0))
        }
    })
}

/// Of a watched service: the rate where those under way take this share of their time. Clients that ask again when
/// answered, after the pause they make now, ask more (a closed network); clients with a rate of their own do not.
/// Resources keep their headroom but for the one lifted, of which so much is spared.
fn watched_with(facts: &Facts, left: f64, idle: f64, of: (Option<Resource>, f64)) -> Predicted {
    let room = |most: f64, heat| most.min(facts.stations.room(heat, of.0, of.1).max(1.0));
    let mid = room(asked_with(facts, left, idle), Heat::Warm);
    [1.0, mid, room(left.recip(), Heat::Hot).max(mid)].map(|gain| facts.attained * gain).into()
}

/// By how much more is asked then, beside so many clients that rest; all it can answer where none are under way.
fn asked_with(facts: &Facts, left: f64, idle: f64) -> f64 {
    let of = facts.place.of;
    if of > 0.0 { (of + idle) / (idle + of * left).max(1e-9) } else { left.recip() }
}

/// Whether enough of the exchanges under way, or of those served at a time, are in what takes each so long, by Little's law.
fn is_much(facts: &Facts, each: f64) -> bool {
    let (place, all) = (&facts.place, facts.under_way());
    let of = if place.regime == Regime::Full { place.served(1.0) } else { all };
    each * facts.attained >= HOLDS * of
}

/// Whether a gain is more than chance; the low end already allows for what two runs differ by.
fn gains(facts: &Facts, predicted: Predicted) -> bool {
    predicted.low.0 > facts.attained * (1.0 - AGREE) * (1.0 + NO_GAIN)
}

/// The growth predicted for a capacity whose new size is unknown: twice.
const TWICE: f64 = 1.0 / HALFWAY;

/// By how much a claim's remedy enlarges a capacity (slots to what is asked, others twice); the connections then.
fn more(facts: &Facts, claim: &Claim, resource: Resource, at_once: f64) -> (f64, u32) {
    let connections = facts.run.connections();
    match claim.remedies.iter().find_map(|of| Some((&of.key, of.at_once?))) {
        Some((key, then)) => {
            let asked = if key == "load.connections" { then as u32 } else { connections };
            ((then / at_once).max(1.0), asked.max(connections))
        }
        // Many wait for the one that serves them; how many it serves at a time is the place's figure.
        _ if resource == Resource::Slots => {
            ((f64::from(connections) / facts.place.served(at_once)).max(1.0), connections)
        }
        _ => (TWICE, connections),
    }
}

/// Without a model: at most what the utilisation law gives, if the work is a good part of what is used.
fn by_use(facts: &Facts, resource: Resource, each: f64) -> Option<Predicted> {
    let is_full = |of: &Resource| resource.is_part_of(*of) && facts.stations.fullness(*of) >= FULL;
    let at_place = facts.place.resource.filter(|full| resource.is_part_of(*full));
    let full = at_place.or_else(|| CPUS.into_iter().find(is_full))?;
    // A process that waits in the midst of a call is held by it, and not by what it uses.
    let of = facts.stations.of_resource(full).filter(|of| of.fullness() >= HALFWAY)?;
    let spared = (each * facts.attained).min(of.used);
    let left = ((of.used - spared) / of.used).max(1e-6);
    let is_much = spared >= HOLDS * of.used;
    is_much.then(|| watched_with(facts, left, facts.ports(|port| port.idle), (Some(full), spared)))
}

/// Whether enough exchanges are where a delay is claimed; without an account its size has to do.
fn covers(facts: &Facts, at: At, each: f64) -> bool {
    let Some(account) = facts.account.as_ref().filter(|account| account.is_split()) else {
        // Where exchanges wait for each other, a place has what each takes of it alone.
        let alone = facts.model.as_ref().map_or(f64::INFINITY, |model| model.alone.mid);
        // A round trip of each exchange is on the path in any case.
        let rtt = if at == At::Path { min_rtt(&facts.run).unwrap_or(0.0) } else { 0.0 };
        return each + rtt >= HOLDS * facts.exchange_s().min(alone);
    };
    let here: f64 = match at {
        At::Held(station, held) => account.held(station, held),
        at => Station::ALL.into_iter().filter(|of| at.covers(*of)).map(|of| account.at(of)).sum(),
    };
    here >= HOLDS * account.under_way
}

fn advice(facts: &Facts, claim: &Claim, part: &Part, predicted: Predicted) -> Vec<Advice> {
    let one = |remedy: &Remedy| {
        let (knob, value) = remedy.knob(facts);
        let more = match *part {
            Part::Delay { at, each } => delay(facts, claim, at, each + remedy.spares),
            _ => None,
        };
        let Remedy { does, by_hand, .. } = remedy.clone();
        let predicted = more.filter(|_| remedy.spares > 0.0).unwrap_or(predicted);
        let predicted = remedy.least.map_or(predicted, |least| at_least(facts, least, predicted));
        let predicted = predicted.as_lifted(facts.attained);
        Advice { knob, value, does, by_hand, predicted, is_bound: predicted.is_bound() }
    };
    claim.remedies.iter().map(one).collect()
}
