//! The rhythm of a port's answers, read from its samples. Unit of times: seconds.

use std::time::Duration;

use crate::evidence::Of;
use crate::metric::Metric;

/// How evenly answers follow each other, over all connections of a port. Unit: seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rhythm {
    /// How many gaps between answers were counted.
    pub gaps: f64,
    /// Their mean.
    pub mean_s: f64,
    /// The part of it after the last request of any client; absent in older evidence.
    pub unasked_s: Option<f64>,
    /// Their fifth percentile.
    pub low_s: f64,
    /// Their spread, as a standard deviation.
    pub spread_s: f64,
    /// The same of the times between their requests; absent in older evidence.
    pub asked_spread_s: Option<f64>,
    /// After so many answers the times repeat best.
    pub turn: f64,
    /// Spread of the time of so many in a row.
    pub turn_spread_s: f64,
    /// Of 4 in a row, and of 32.
    pub spreads_s: [f64; 2],
    /// Bursts, where answers come in bursts.
    pub beat: Option<Beat>,
    /// How many are served at a time, by the order of requests and answers; absent in older evidence, and where no
    /// number explains that order.
    pub served: Option<Served>,
    /// Correlation of the times of requests that came one after the other, 0 to 1: those that wait for the same, or for each other,
    /// wait alike. None with too few answers, and in older evidence.
    pub alike: Option<f64>,
}

/// The likeliest number that is served at a time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Served {
    /// That number.
    pub at_once: f64,
    /// By this share times in service spread less with it than without a number.
    pub narrower: f64,
    /// The share of requests that it can't explain: they ended before they began.
    pub early: f64,
    /// Median time in service. Unit: seconds.
    pub p50_s: f64,
}

/// Answers in bursts, with pauses that are most of the time. Unit: seconds.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Beat {
    /// From one burst's begin to the next one's.
    pub period_s: f64,
    /// The longest of these times less the shortest.
    pub spread_s: f64,
    /// Answers of a burst.
    pub answers: f64,
    /// From a burst's first answer to its last; 0 in older evidence.
    pub lasts_s: f64,
    /// The share by which the bursts' answers differ, but for one more or less, and that by which their times do;
    /// absent in older evidence.
    pub differ: Option<[f64; 2]>,
    /// Of those that waited for a burst: from the first of their answers to the last, and the longest wait less the
    /// shortest; absent in older evidence.
    pub held: Option<[f64; 2]>,
}

impl Served {
    fn requests(of: &Of) -> Option<Self> {
        let counts = [super::SERVERS, super::SERVERS_NARROWER, super::SERVERS_EARLY];
        Self::of(of, counts, super::SERVERS_P50)
    }

    /// The same of whole connections.
    pub fn sessions(of: &Of) -> Option<Self> {
        let counts = [super::SESSIONS_SERVERS, super::SESSIONS_NARROWER, super::SESSIONS_EARLY];
        Self::of(of, counts, super::SESSIONS_P50)
    }

    /// The same of transactions.
    pub fn transactions(of: &Of) -> Option<Self> {
        let counts =
            [super::TRANSACTIONS_SERVERS, super::TRANSACTIONS_NARROWER, super::TRANSACTIONS_EARLY];
        Self::of(of, counts, super::TRANSACTIONS_P50)
    }

    fn of(
        of: &Of,
        [servers, narrower, early]: [Metric<u64>; 3],
        p50: Metric<Duration>,
    ) -> Option<Self> {
        let at_once = of.latest(servers).ok().filter(|servers| *servers > 0.0)?;
        let share = |metric| of.latest(metric).ok().map(|permille| permille / 1000.0);
        let (narrower, early) = (share(narrower)?, share(early)?);
        Some(Self { at_once, narrower, early, p50_s: of.latest(p50).ok()? })
    }
}

impl Rhythm {
    /// The whole of it, not what grew: most of its figures are states.
    pub fn of(of: &Of) -> Option<Self> {
        let gaps = of.latest(super::GAPS).ok().filter(|gaps| *gaps > 0.0)?;
        let time = |metric: Metric<Duration>| of.latest(metric).ok();
        let beat = || {
            let answers = of.latest(super::BURST).ok()?;
            let lasts_s = time(super::BURST_TIME).unwrap_or(0.0);
            let differ = of.latest(super::BURST_SPREAD).ok().zip(time(super::BURST_TIME_SPREAD));
            let differ = differ.map(|(count, time)| {
                [(count - 2.0).max(0.0) / answers.max(1e-9), time / lasts_s.max(1e-9)]
            });
            let (period_s, spread_s) = (time(super::BEAT)?, time(super::BEAT_SPREAD)?);
            let held = time(super::BURST_RELEASE).zip(time(super::BURST_WAITS_SPREAD));
            let held = held.map(|(release, waits)| [release, waits]);
            Some(Beat { period_s, spread_s, answers, lasts_s, differ, held })
        };
        Some(Self {
            gaps,
            mean_s: time(super::GAP_TIME)? / gaps,
            unasked_s: time(super::GAP_UNASKED).map(|time| time / gaps),
            low_s: time(super::GAP_LOW)?,
            spread_s: time(super::GAP_SPREAD)?,
            asked_spread_s: time(super::ASKED_SPREAD),
            turn: of.latest(super::TURN).ok()?,
            turn_spread_s: time(super::TURN_SPREAD)?,
            spreads_s: [time(super::SPREAD_4)?, time(super::SPREAD_32)?],
            beat: beat(),
            served: Served::requests(of),
            alike: of.latest(super::SERVICE_ALIKE).ok().map(|permille| permille / 1000.0),
        })
    }
}
