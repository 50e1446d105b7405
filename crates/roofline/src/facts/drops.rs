//! What dropped packets cost an exchange: the time for which it stands until the retransmission timer, and the
//! time for which losses keep its congestion window small.
//!
//! A small exchange has nothing behind it that could tell of a lost packet, so it waits for the timer: 200 ms
//! at the least, whatever the round trip. A large one is told by what follows, and pays with its window:
//! `round trips = bytes / W`, `W = max(1.22 / sqrt(p), 1.054 (RTT / p)^0.75)` segments, Reno's and CUBIC's.
//!
//! Where packets are lost one by one at random, whatever the congestion control: what is sent again comes a round trip
//! later, and may be lost again. `round trips = sum over k of 1 - (1 - p^k)^n`, the mean of the most losses that
//! any of n segments has.
//!
//! Blind spot: where most exchanges stand, what they take otherwise is not seen.
//! Source: `TCP_RTO_MIN`, include/net/tcp.h; RFC 6298; RFC 8985 (tail loss probes, which need two round
//! trips and, for one segment alone, the same 200 ms); RFC 5681; Mathis, Semke, Mahdavi, Ott, "The macroscopic
//! behavior of the TCP congestion avoidance algorithm", 1997; RFC 9438, 5.1 (CUBIC's response function, with
//! C = 0.4 and a cut to 0.7).

use linerate_evidence::sources::{link, tcp_info};
use linerate_evidence::{Missing, Of};

use super::Facts;
use super::ways::LaidWay;
use crate::chosen::{FULL, HALFWAY};
use crate::claim::missing;
use crate::facts::flows::{directions, mean_over, min_rtt};
use crate::run::Run;
use crate::utilisation::unhindered;

/// Unit: seconds. Source: see the module.
pub(crate) const TIMER: f64 = 0.2;

/// So many segments after it tell of one that was lost; what has fewer behind it stands for the timer.
// Source: RFC 5681, 3.2, three duplicate acknowledgements.
const TELLING: f64 = 3.0;

/// So often in a row the same segment may be lost.
// Source: `TCP_RETR2`, include/net/tcp.h: then the connection ends.
const MOST_TIMES: i32 = 15;

/// What the drops of one mechanism cost.
pub(crate) struct Cost {
    /// Unit: seconds an exchange.
    pub each: f64,
    /// What was seen of it.
    pub words: String,
}

impl Cost {
    /// Of so many drops a second, at one share of the packets of the way that drops most.
    pub fn of(facts: &Facts, per_second: f64, share: f64) -> Result<Self, Missing> {
        Self::with(facts, per_second, share, |_| 0.0)
    }

    /// The same of drops that know nothing of each other.
    pub fn at_random(facts: &Facts, per_second: f64, share: f64) -> Result<Self, Missing> {
        Self::with(facts, per_second, share, |windows| windows.sent_again(share))
    }

    fn with(
        facts: &Facts,
        per_second: f64,
        share: f64,
        again: impl Fn(&Windows) -> f64,
    ) -> Result<Self, Missing> {
        let stalls = Stalls::of(&facts.run)?;
        let all: f64 = facts.ways.iter().map(dropped).sum();
        let mut timers =
            stalls.by(per_second / facts.attained.max(1e-9), per_second / all.max(1e-9));
        let mut words = stalls.words();
        let windows = Windows::of(&facts.run);
        let mut held = 0.0;
        if let Ok(windows) = &windows {
            held = windows.by(share);
            timers += again(windows) * (1.0 - stalls.exchanges);
            words = format!("{words}; {}", windows.words());
        }
        Ok(Self { each: timers.max(held), words })
    }
}

/// All that a way dropped, a second, for whatever reason.
fn dropped(way: &LaidWay) -> f64 {
    let reasons = [
        way.lost_per_second(),
        way.overflows().map(|full| full.sum()),
        way.too_large(),
        way.per_second(link::DROPPED_DEVICE),
    ];
    reasons.into_iter().flatten().sum()
}

/// Exchanges that stood until the timer.
struct Stalls {
    exchanges: f64,
    /// Time that they took longer. Unit: seconds an exchange, over all of them.
    each: f64,
    /// The same as a share of all time.
    time: f64,
}

impl Stalls {
    /// Missing where no exchange was answered.
    fn of(run: &Run) -> Result<Self, Missing> {
        let missing = || missing("service", "engine");
        let service = &run.load.service;
        let alone = unhindered(run).ok_or_else(missing)?;
        let mean = service.mean() / 1e9;
        // Some exchanges are quicker than the median of those alone, and stand for the timer as others do.
        let late = ((alone + FULL * TIMER) * 1e9) as u64;
        let quick = service.share_within(0, late);
        let typical = service.at(50.0).map_or(alone, |at| at.value as f64 / 1e9);
        // Most exchanges late: then the median is one of those. Servers near and far: it is one of either.
        let typical = if quick > HALFWAY && run.load.pairs.is_empty() { typical } else { alone };
        let time = (1.0 - quick * typical / mean.max(1e-9)).clamp(0.0, 1.0);
        Ok(Self { exchanges: 1.0 - quick, each: time * mean, time })
    }

    /// What so many drops an exchange, such a share of all, have to do with it: none stands without a drop.
    fn by(&self, drops_each: f64, of_all: f64) -> f64 {
        let stood = (self.exchanges * of_all.min(1.0)).min(drops_each);
        if self.exchanges > 0.0 { self.each * stood / self.exchanges } else { 0.0 }
    }

    fn words(&self) -> String {
        format!(
            "{} of the exchanges stood until a retransmission timer ran out, and that was {:.0} % of their time",
            percent(self.exchanges),
            self.time * 100.0
        )
    }
}

/// The congestion windows of who sends the bulk.
struct Windows {
    /// The share of busy samples in which they were full.
    full: f64,
    /// Unit: bytes of an exchange.
    bytes: f64,
    /// Unit: bytes.
    segment: f64,
    /// Unit: seconds.
    rtt: f64,
    /// What an exchange takes. Unit: seconds.
    mean: f64,
}

impl Windows {
    fn of(run: &Run) -> Result<Self, Missing> {
        let [heavier, _] = directions(run);
        let senders = run.flows(heavier.sender);
        Ok(Self {
            full: mean_over(&senders, full_share)?,
            bytes: heavier.bytes,
            segment: mean_over(&senders, |flow| Ok(flow.max(tcp_info::SND_MSS)?.0 as f64))?
                .max(1.0),
            rtt: min_rtt(run)?,
            mean: run.load.service.mean() / 1e9,
        })
    }

    /// What such a share of lost packets adds: round trips with the window that it leaves, in so far as windows
    /// were full; the first round trip would be there anyway.
    fn by(&self, share: f64) -> f64 {
        let window = segments(share, self.rtt) * self.segment;
        let moved = self.bytes / window.max(1.0) * self.rtt;
        (moved.min(self.full * self.mean) - self.rtt).max(0.0)
    }

    /// Round trips in which what was lost is sent again, until all of an exchange is there.
    fn sent_again(&self, share: f64) -> f64 {
        let told = (self.bytes / self.segment - TELLING).max(0.0);
        let lost_often = |times| 1.0 - (1.0 - share.powi(times)).powf(told);
        self.rtt * (1..=MOST_TIMES).map(lost_often).sum::<f64>()
    }

    fn words(&self) -> String {
        format!("in {:.0} % of busy samples the congestion window was full", self.full * 100.0)
    }
}

/// The window that one loss in `1/p` segments leaves. Unit: segments.
pub(crate) fn segments(p: f64, rtt: f64) -> f64 {
    let p = p.max(1e-12);
    let reno = 1.22 / p.sqrt();
    let cubic = 1.054 * (rtt / p).powf(0.75);
    reno.max(cubic)
}

/// `0.12 %`: so many digits that it is not zero.
pub(crate) fn percent(share: f64) -> String {
    match share * 100.0 {
        most if most >= 10.0 => format!("{most:.0} %"),
        some if some >= 1.0 => format!("{some:.1} %"),
        few => format!("{few:.2} %"),
    }
}

/// Of the samples in which a sender had segments out: in how many they were as many as congestion control
/// lets it have, or it was mending a loss.
fn full_share(flow: &Of) -> Result<f64, Missing> {
    let unacked = flow.all(tcp_info::UNACKED)?;
    let cwnd = flow.all(tcp_info::SND_CWND)?;
    let state = flow.all(tcp_info::CA_STATE)?;
    let (mut busy, mut full) = (0u32, 0u32);
    for (((_, unacked), (_, cwnd)), (_, state)) in unacked.iter().zip(&cwnd).zip(&state) {
        if *unacked == 0 {
            continue;
        }
        busy += 1;
        // Source: `TCP_CA_Recovery`, linux/tcp.h; from then on the window is being cut down.
        full += u32::from(*unacked as f64 >= FULL * *cwnd as f64 || *state >= 3);
    }
    match busy {
        0 => Err(missing("tcp.unacked", "flow/* while sending")),
        busy => Ok(f64::from(full) / f64::from(busy)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_renos_on_short_paths_and_cubics_on_long_ones() {
        // 1.22 / sqrt(0.001) = 38.6 segments; CUBIC: 1.054 x (0.02 / 0.001)^0.75 = 10.
        assert!((segments(1e-3, 0.02) - 38.58).abs() < 0.01);
        // 1.22 / sqrt(0.0001) = 122; CUBIC: 1.054 x (0.2 / 0.0001)^0.75 = 315.
        assert!((segments(1e-4, 0.2) - 315.2).abs() < 1.0, "{}", segments(1e-4, 0.2));
    }

    #[test]
    fn no_exchange_stands_without_a_drop_and_none_for_anothers() {
        let stalls = Stalls { exchanges: 0.02, each: 0.004, time: 0.3 };
        assert_eq!(stalls.by(0.05, 1.0), 0.004);
        assert_eq!(stalls.by(0.01, 1.0), 0.002);
        assert_eq!(stalls.by(0.05, 0.5), 0.002);
    }

    #[test]
    fn what_is_lost_at_random_comes_a_round_trip_later() {
        let windows = Windows { full: 0.0, bytes: 200e3, segment: 1448.0, rtt: 0.02, mean: 0.06 };
        // Of 135 segments at 2 % 93 of 100 times one or more are lost, and 5 of 100 times one of them again.
        assert!((windows.sent_again(0.02) - 0.0197).abs() < 0.0002, "{}", windows.sent_again(0.02));
        let small = Windows { bytes: 2e3, ..windows };
        assert_eq!(small.sent_again(0.02), 0.0);
    }

    #[test]
    fn a_window_costs_the_round_trips_after_the_first_and_no_more_than_it_was_full() {
        let windows = Windows { full: 0.5, bytes: 173e3, segment: 1000.0, rtt: 0.02, mean: 1.0 };
        // 1.22 / sqrt(0.005) = 17.3 segments: ten round trips.
        assert!((windows.by(0.005) - 0.18).abs() < 0.001);
        let seldom = Windows { full: 0.1, ..windows };
        assert!((seldom.by(0.005) - 0.08).abs() < 0.001);
    }
}
