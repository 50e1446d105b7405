//! What dropped packets cost an exchange: waiting for the retransmission timer, and a small congestion window.
//!
//! Nothing follows a small exchange's packets that would reveal a loss, so it waits for the timer: at least 200 ms,
//! whatever the round trip. Of a large one later packets reveal it, and it pays with its window.
//!
//! Blind spot: where most exchanges wait for the timer, their time without it is not seen.
//! Source: `TCP_RTO_MIN`, include/net/tcp.h; RFC 6298; RFC 5681; RFC 8985 (a probe of one segment: 200 ms as well).

use crate::prelude::*;

/// Unit: seconds. Source: see the module.
pub(crate) const TIMER: f64 = 0.2;

pub(crate) struct Cost {
    /// Seconds an exchange.
    pub each: f64,
    pub words: String,
}

/// Whether drops are independent.
#[derive(Clone, Copy, PartialEq)]
pub(crate) enum Drops {
    /// Something was full.
    Together,
    AtRandom,
}

impl Cost {
    /// Of so many drops a second, at one share of the packets of the direction that drops most.
    pub fn of(facts: &Facts, drops: Drops, per_s: f64, share: f64) -> Result<Self, Missing> {
        let stalls = Stalls::of(&facts.run)?;
        let all: f64 = facts.directions.iter().map(dropped).sum();
        let mut timers = stalls.by(facts.per_exchange(per_s), per_s / all.max(1e-9));
        let (stood, time) = (percent(stalls.exchanges), in_percent(stalls.time));
        let mut words = format!(
            "{stood} of the exchanges waited for a retransmission timer, for {time} of their time"
        );
        let mut held = 0.0;
        if let Ok(windows) = Windows::of(&facts.run) {
            held = windows.by(share);
            if drops == Drops::AtRandom {
                // Time of round trips in which losses are sent again, until an exchange is complete.
                let trips = trips_again(share, windows.bytes / windows.segment);
                timers += windows.rtt * trips * (1.0 - stalls.exchanges);
            }
            let full = in_percent(windows.full);
            words += &format!("; the congestion window was full in {full} of busy samples");
        }
        Ok(Self { each: timers.max(held), words })
    }
}

fn dropped(direction: &LaidDirection) -> f64 {
    let reasons = [
        direction.lost_per_second(),
        direction.overflows().map(|[queue, limit]| queue + limit),
        direction.too_large(),
        direction.of.rate(link::DROPPED_DEVICE),
    ];
    reasons.into_iter().flatten().sum()
}

struct Stalls {
    exchanges: f64,
    /// How much longer they took. Unit: seconds an exchange, over all of them.
    each: f64,
    /// The same as a share of all time.
    time: f64,
}

impl Stalls {
    fn of(run: &Run) -> Result<Self, Missing> {
        let service = &run.load.service;
        let alone = run.header.unhindered(run.load).ok_or_else(|| missing("service", "engine"))?;
        let mean = service.mean() / 1e9;
        // Exchanges that are quicker alone than the median wait for the timer as others do.
        let quick = service.share_within(0, ((alone + FULL * TIMER) * 1e9) as u64);
        let typical = service.at(50.0).map_or(alone, |at| at.value as f64 / 1e9);
        // Where most are late the median is one of those; with servers near and far it is one of either.
        let typical = if quick > HALFWAY && run.load.pairs.is_empty() { typical } else { alone };
        let time = (1.0 - quick * typical / mean.max(1e-9)).clamp(0.0, 1.0);
        Ok(Self { exchanges: 1.0 - quick, each: time * mean, time })
    }

    /// The part due to so many drops an exchange, such a share of all: no exchange waits without a drop.
    fn by(&self, drops_each: f64, of_all: f64) -> f64 {
        let stood = (self.exchanges * of_all.min(1.0)).min(drops_each);
        if self.exchanges > 0.0 { self.each * stood / self.exchanges } else { 0.0 }
    }
}

/// The congestion windows of the end that sends the bulk; bytes and mean time of an exchange. Units: bytes, seconds.
struct Windows {
    /// The share of busy samples in which they were full.
    full: f64,
    bytes: f64,
    segment: f64,
    rtt: f64,
    mean: f64,
}

impl Windows {
    fn of(run: &Run) -> Result<Self, Missing> {
        let (sender, bytes) = heavier(run);
        let senders = run.flows(sender);
        Ok(Self {
            full: mean_over(&senders, full_share)?,
            bytes,
            segment: segment(&senders)?.max(1.0),
            rtt: min_rtt(run)?,
            mean: run.load.service.mean() / 1e9,
        })
    }

    /// What such losses add: round trips after the first with the window that they leave, while windows were full.
    fn by(&self, share: f64) -> f64 {
        let window = window_with_losses(share, self.rtt) * self.segment;
        let moved = self.bytes / window.max(1.0) * self.rtt;
        (moved.min(self.full * self.mean) - self.rtt).max(0.0)
    }
}

/// The share of a sender's busy samples with a full window or in recovery from a loss.
fn full_share(flow: &Of) -> Result<f64, Missing> {
    let windows = flow.both(tcp_info::UNACKED, tcp_info::SND_CWND)?;
    let mut busy: Vec<_> = windows.into_iter().zip(flow.values(tcp_info::CA_STATE)?).collect();
    busy.retain(|((unacked, _), _)| *unacked > 0);
    // Source: `TCP_CA_Recovery`, linux/tcp.h: from here on the window is reduced.
    part_sending(&busy, |((unacked, cwnd), state)| {
        *unacked as f64 >= FULL * *cwnd as f64 || *state >= 3
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_exchange_stands_without_a_drop_and_none_for_anothers() {
        let stalls = Stalls { exchanges: 0.02, each: 0.004, time: 0.3 };
        assert_eq!(stalls.by(0.05, 1.0), 0.004);
        assert_eq!(stalls.by(0.01, 1.0), 0.002);
        assert_eq!(stalls.by(0.05, 0.5), 0.002);
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
