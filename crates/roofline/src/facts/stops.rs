//! Stops: for many times an exchange's time nothing is answered: a garbage collection, a lock, a busy event loop.
//!
//! `share = sum of an engine thread's long times without an answer / (threads x window)`
//!
//! Long is ten times the median exchange. If each of a thread's `n` connections waits by itself for the share `p` of
//! its time, all wait at once for `p^n`. Common stops are as much as `p`. The threshold is the middle of the two,
//! `p^((n+1)/2)`, and a quarter of the time beyond chance.
//!
//! At a watched service the share is what lies after the last request of any client, of the time between answers, and `p`
//! the requests under way by the connections; where the capture has pauses, the share of instants at which most wait and
//! no socket has moved for long.
//!
//! Blind spots: fewer than three connections a thread, clients of a watched service that never rest, or nearly all time in slow requests, can't be distinguished.
//! What stops linerate stops all it sees: where a quota held it or the target, nothing is claimed.

use crate::prelude::*;

#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Stops {
    /// Of the time, 0 to 1.
    pub share: f64,
    /// Mean length of one, and how many there are a second; none at a watched service. Unit: seconds.
    pub each: Option<(f64, f64)>,
}

impl Stops {
    /// `all exchanges stop together 10.0 times a second, for 80.2 ms each: 80 % of the time`.
    pub fn words(&self) -> String {
        let each =
            |(lasts, often)| format!(" {often:.1} times a second, for {} each", duration(lasts));
        let often = self.each.map_or(String::new(), each);
        format!("all exchanges stop together{often}: {} of the time", in_percent(self.share))
    }

    /// At a watched service that waits for none of its peers, by the headers of its packets. Connections that it has not
    /// accepted are stopped by nothing inside.
    pub fn watched(facts: &Facts) -> Option<Self> {
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
    pub fn among(load: &LoadSummary) -> Option<Self> {
        let threads = load.threads.max(1) as f64;
        let each = load.in_flight / threads;
        let long = (FEW * load.service.at(50.0)?.value as f64).max(SILENT as f64) as u64;
        let window = threads * load.window.1.since(load.window.0).as_secs_f64() * 1e9;
        let share = load.silence.sum_from(long) / window.max(1.0);
        let alone = load.service.sum_from(long) / load.service.sum_from(0).max(1.0);
        let count = load.silence.count() as f64 * load.silence.share_within(long, u64::MAX);
        let (chance, least) = (alone.powf(each), SAMPLES as f64);
        let is_of_all = share >= (chance * alone).sqrt() && share - chance >= HOLDS;
        let (each_s, per_s) = (share * window / 1e9 / count.max(1.0), count / (window / 1e9));
        let are_many = each >= least && count / threads >= least && share >= HOLDS;
        let each = Some((each_s, per_s));
        (is_of_all && are_many).then_some(Self { share: share.min(1.0), each })
    }
}

#[cfg(test)]
mod tests {
    use linerate_evidence::{Evidence, Packed, Phase, Slice, live_histogram, summarise};
    use linerate_model::{Plan, Timestamp};

    use super::*;

    const MS: u64 = 1_000_000;

    fn times(of: &[(u64, u64)]) -> Packed {
        let mut times = live_histogram();
        for (value, count) in of {
            times.record_n(*value, *count).unwrap();
        }
        Packed::pack(&times)
    }

    /// One thread with 8 connections for a second: exchanges of 0.5 ms, and some of 80 ms; and its silences.
    fn load(long: u64, silence: &[(u64, u64)]) -> LoadSummary {
        let mut slice = Slice::new(0, 0, Timestamp(0));
        slice.to = Timestamp(1_000 * MS);
        slice.phase = Phase::Load;
        slice.in_flight_area = u128::from(8_000 * MS);
        slice.service = times(&[(MS / 2, 3_000), (80 * MS, long)]);
        slice.answered = 3_000 + long;
        slice.silence = times(silence);
        let mut evidence = Evidence::default();
        evidence.slices.push(slice);
        summarise(&evidence, &Plan::from_toml("[target]\naddress = '127.0.0.1:1'\n").unwrap())
    }

    #[test]
    fn all_stop_together_or_each_by_itself() {
        // Ten times a second all eight wait for 80 ms.
        let stops = Stops::among(&load(80, &[(80 * MS, 10)])).unwrap();
        assert!((stops.share - 0.8).abs() < 0.01, "{stops:?}");
        let (each_s, per_s) = stops.each.unwrap();
        assert!((each_s - 0.08).abs() < 0.001 && (per_s - 10.0).abs() < 0.1);
        // One request in 38 takes 80 ms: all eight wait at once for 0.8^8 = 0.17 of the time.
        assert_eq!(Stops::among(&load(80, &[(20 * MS, 8)])), None);
        // Times between answers that are no longer than some exchanges.
        assert_eq!(Stops::among(&load(0, &[(2 * MS, 400)])), None);
        // Nearly all time is in slow requests: each by itself, all wait for 0.99 of the time.
        assert_eq!(Stops::among(&load(3_000, &[(990 * MS / 5, 5)])), None);
        // Stopped once.
        assert_eq!(Stops::among(&load(8, &[(500 * MS, 1)])), None);
    }
}
