//! Stops: for many times an exchange's time nothing is answered: a garbage collection, a lock, a busy event loop.
//!
//! `share = sum of an engine thread's long times without an answer / (threads x window)`
//!
//! Long is ten times the median exchange. If each of a thread's `n` connections waits by itself for the share `p` of
//! its time, all wait at once for `p^n`. Common stops are as much as `p`. The threshold is a quarter of the time beyond
//! chance, which is never below the middle of the two, `p^((n+1)/2)`.
//!
//! At a watched service the share is what lies after the last request of any client, of the time between answers, and `p`
//! the requests under way by the connections; where the capture has pauses, the share of instants at which most wait and
//! no socket has moved for long.
//!
//! Blind spots: fewer than three connections a thread, clients of a watched service that never rest, or nearly all time in slow requests, can't be distinguished.
//! What stops linerate stops all it sees: where a quota held it or the target, nothing is claimed.

use crate::prelude::*;

#[derive(Clone, Copy)]
pub(crate) struct Stops {
    /// Of the time, 0 to 1.
    pub share: f64,
    /// Mean length of one, and how many there are a second; none at a watched service. Unit: seconds.
    pub each: Option<(f64, f64)>,
}

impl Stops {
    /// `all exchanges stop together 10.0 times a second, for 80.2 ms each: 80 % of the time`.
    pub fn words(&self) -> String {
        let often = self.each.map_or(String::new(), |(lasts, often)| {
            format!(" {often:.1} times a second, for {} each", duration(lasts))
        });
        format!("all exchanges stop together{often}: {} of the time", in_percent(self.share))
    }

    /// One holds what all need, for much longer than an exchange takes; no quota, and no full thread of linerate's.
    pub fn of(facts: &Facts) -> Option<Self> {
        let mut sides = [&facts.target, &facts.engine].into_iter().flatten();
        match facts.load {
            _ if sides.any(|of| of.throttled > 0.0) => None,
            _ if facts.stations.fullness(Resource::EngineCpu) >= FULL => None,
            Load::Made => Self::among(facts.run.load),
            Load::Watched => Self::watched(facts),
        }
    }

    /// At a watched service that waits for none of its peers, by the headers of its packets. Connections that it has not
    /// accepted are stopped by nothing inside.
    fn watched(facts: &Facts) -> Option<Self> {
        let (port, headers) = facts.captured().ok()?;
        let waits_for_peers = facts.inside.questions() >= HOLDS * headers.under_way;
        let is_inside = facts.place.station != Some(Station::AcceptQueue);
        // Stops longer than the capture's windows cut all of them off; the sockets show them.
        let is_long = headers.p50_s * FEW <= f64::from(bursts::STILL_MS) / 1e3;
        let is_clock = facts.pace() == Some(Pace::Clock);
        let by_sockets = Some(port.still).filter(|of| *of >= HOLDS && is_long && !is_clock);
        let share = headers.stopped(port.connections).or(by_sockets);
        let share = share.filter(|_| is_inside && !waits_for_peers)?;
        Some(Self { share, each: None })
    }

    /// None where there are none, or they can't be distinguished.
    fn among(load: &LoadSummary) -> Option<Self> {
        let threads = load.threads.max(1) as f64;
        let each = load.in_flight / threads;
        let long = (FEW * load.service.at(50.0)?.value as f64).max(SILENT as f64) as u64;
        let window = threads * load.window.1.since(load.window.0).as_secs_f64() * 1e9;
        let share = load.silence.sum_from(long) / window.max(1.0);
        let alone = load.service.sum_from(long) / load.service.sum_from(0).max(1.0);
        let count = load.silence.count() as f64 * load.silence.share_within(long, u64::MAX);
        let (is_of_all, least) = (share - alone.powf(each) >= HOLDS, SAMPLES as f64);
        let (each_s, per_s) = (share * window / 1e9 / count.max(1.0), count / (window / 1e9));
        let are_many = each >= least && count / threads >= least;
        let found = Self { share: share.min(1.0), each: Some((each_s, per_s)) };
        (is_of_all && are_many).then_some(found)
    }
}
