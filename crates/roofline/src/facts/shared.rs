//! Connections to peers that many requests share, as a channel between nodes: each shows one question at most, and one that
//! carries signals that nobody answers always shows one. Where segments don't tell ([`Inside::by_segments`]), the experiment
//! decides, and of a watched service what else its requests can wait for.

use crate::prelude::*;

impl Facts<'_> {
    /// Requests that wait for answers on fewer, shared connections: a single request waits there, and either nothing is waited
    /// for between requests, or as much comes for each, however many there are. None where more connections give no more
    /// throughput and the peer is not known to be busy: they wait for the target to ask.
    pub(crate) fn shared(&self, asked: &Asked) -> Option<f64> {
        let (place, asleep) = (&self.place, self.inside.asleep);
        let serves_few = place.at_once.is_some_and(|k| k.high < HALFWAY * asleep);
        let is_idle = asked.cores.is_none_or(|cores| cores < HALFWAY);
        if place.regime == Regime::Full && serves_few && is_idle {
            return None;
        }
        if self.load == Load::Watched && self.is_all_that_is_waited_for(asked) {
            return Some(asleep);
        }
        // The share of the time with a question out, and what comes for a request.
        let seen = |kind, least| {
            let step = self.run.evidence.step(kind)?;
            let [samples, out] = self.asked_in(step.begun, step, asked)?.samples;
            let came = self.asked_in(step.from, step, asked)?.came;
            let came = came.map(|came| came / (step.answered as f64).max(1.0));
            (samples >= least).then_some((out / samples, came))
        };
        let are_few = asked.connections <= HALFWAY * asleep;
        // Those without times count only while somebody waits there: one lookup of a name that all ask for, say.
        if asked.is_timeless() {
            let (alone, _) = seen(StepKind::Alone, SAMPLES as f64)?;
            let is_shared = are_few && alone >= HALFWAY && asked.asked >= HALFWAY;
            return is_shared.then_some(alone * asleep);
        }
        let [(alone, each), (spaced, each_spaced)] =
            [seen(StepKind::Alone, FEW)?, seen(StepKind::Spaced, FEW)?];
        // What comes by the clock is less for each where more are asked, and more with pauses. Segments of several answers
        // may be one.
        let under_load = asked.came.map(|came| came / self.run.load.exchanges.max(1) as f64);
        let comes = |((alone, spaced), all)| {
            alone >= HALFWAY && (spaced * HALFWAY <= alone || all >= HALFWAY * alone)
        };
        let for_each = each.zip(each_spaced).zip(under_load).is_some_and(comes);
        let is_shared = are_few && alone >= HALFWAY && (spaced <= HALFWAY * alone || for_each);
        is_shared.then_some(alone * asleep)
    }

    /// Those who may be asked on a shared connection, whoever opened it, and the requests that wait there.
    pub(crate) fn asked_by_many(&self) -> impl Iterator<Item = (&Asked, f64)> {
        self.inside.peers().filter_map(|asked| Some((asked, self.shared(asked)?)))
    }

    /// A peer that has more questions at a time than are served, where more connections give no more: it serves so few, and the
    /// others wait for it, or for a connection to ask it. A request may ask several at once.
    pub(crate) fn serves_fewer(&self) -> Option<(&Asked, f64)> {
        let at_once = match (self.load, self.pace()) {
            // By the order of its answers, which the service passes on.
            (Load::Watched, Some(Pace::AtOnce(at_once))) => Estimate::exact(at_once),
            _ => self.place.at_once.filter(|_| self.place.is_full_of(Resource::Slots))?,
        };
        let most = self.inside.asked.first()?;
        // A watched one shows how many are served of those that ask, wherever they are served.
        let is_there = self.load == Load::Made || most.asked >= EXPLAINED * self.inside.asleep;
        let served = at_once.high * self.asked_at_once(most);
        // With a connection for each to ask on, those that don't ask wait for the target; a pool may keep more than are used.
        let waits = most.asked >= HALFWAY * most.connections.min(self.inside.asleep)
            || most.asked >= 2.0 * TWO * served;
        (is_there && waits && most.asked >= TWO && most.asked >= (1.0 + HALFWAY) * served)
            .then_some((most, at_once.mid))
    }

    /// The same of the service's own application, which a web server asks and which asks nobody itself: what serves so few is a
    /// part of the service.
    pub(crate) fn application_serves_fewer(&self) -> Option<(&Asked, f64)> {
        let (peer, at_once) = self.serves_fewer()?;
        let process = peer.process.as_deref().unwrap_or_default();
        let is_application = APPLICATIONS.iter().any(|name| process.starts_with(name));
        (is_application && onward(peer).next().is_none()).then_some((peer, at_once))
    }

    /// How many questions to a peer one request has out at a time, as one alone has; 1 where that was not tried.
    pub(crate) fn asked_at_once(&self, asked: &Asked) -> f64 {
        let alone = self.run.evidence.step(StepKind::Alone);
        let alone = alone.and_then(|step| self.asked_in(step.from, step, asked));
        alone.map_or(1.0, |of| of.asked.max(1.0))
    }

    /// Segments with data that come from a peer for one request, alone: answers, unless they are large. None: that was not tried.
    pub(crate) fn answers_of(&self, asked: &Asked) -> Option<f64> {
        let step = self.run.evidence.step(StepKind::Alone).filter(|step| step.answered > 0)?;
        Some(self.asked_in(step.from, step, asked)?.came? / step.answered as f64)
    }

    /// The same peer from such an instant of a step on.
    fn asked_in(&self, from: Timestamp, step: &Step, asked: &Asked) -> Option<Asked> {
        let all = Asked::all(self.run.evidence, &(from..=step.to));
        all.into_iter().find(|of| of.address == asked.address)
    }

    /// Whether a watched service waits for this one alone: each of its requests waits for a time of its own, its threads wait
    /// for events only, this peer always has a question, and no other one has, or may have.
    fn is_all_that_is_waited_for(&self, asked: &Asked) -> bool {
        let exchanges = self.run.load.exchanges as f64;
        let mut others = self.inside.peers().filter(|of| of.address != asked.address);
        self.place.regime == Regime::Delayed
            && self.inside.waits_for_events(self.exchange_s(), exchanges)
            && self.is_always_asked(asked, self.place.of)
            && !others.any(|of| of.asked + of.untold >= HALFWAY || of.may_answer())
    }

    /// Whether few connections to a peer have a question out nearly all the time, with an answer for each exchange: whoever
    /// waits is waiting for their turn to ask, and not for a clock.
    pub(crate) fn asks_always(&self, under_way: f64) -> bool {
        self.inside.asked.iter().any(|of| self.is_always_asked(of, under_way))
    }

    fn is_always_asked(&self, of: &Asked, under_way: f64) -> bool {
        let exchanges = self.run.load.exchanges as f64;
        let are_few = of.connections >= EXPLAINED && of.connections <= HALFWAY * under_way;
        let answers = of.came.is_some_and(|came| came >= HALFWAY * exchanges);
        are_few && of.asked >= EXPLAINED * of.connections && answers
    }
}

/// Programs that are there to serve an application to web servers.
/// Source: FastCGI specification, 1.0; `php-fpm`(8), `uwsgi`(1), `fcgiwrap`(8).
const APPLICATIONS: [&str; 3] = ["php-fpm", "uwsgi", "fcgiwrap"];

/// Those for whom a peer waits in its turn: each has questions out at half of its asker's or more.
pub(crate) fn onward(asked: &Asked) -> impl Iterator<Item = &Asked> {
    fn next<'a>(of: &&'a Asked) -> Option<&'a Asked> {
        let least = (HALFWAY * of.asked).max(HALFWAY);
        of.onward.first().filter(|next| next.asked >= least)
    }
    std::iter::successors(next(&asked), next)
}
