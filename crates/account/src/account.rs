//! The account of a run whose load is ours: `N = Σ N_i` exchanges by station, and `R_i = N_i / X`.
//!
//! `N` and `X` are the stamps'; the census gives the shares. Its own `N` is connections by the share of
//! instants at which one had an exchange under way: what the two disagree on is [`Account::disagreement`].
//!
//! Blind spot: an exchange that is over before both its ends were asked is [`Station::Brief`]: kernel, wire
//! and application stay together there.

use std::ops::RangeInclusive;

use linerate_evidence::sources::census;
use linerate_evidence::{Evidence, Header, LoadSummary, Metric, Subject};
use linerate_model::Timestamp;
use serde::{Deserialize, Serialize};

use crate::chosen::HALFWAY;
use crate::share::{Estimate, ratio};
use crate::station::{Held, Station};

/// Where the exchanges under way are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account {
    /// What the split is made of.
    pub source: Source,
    /// Exchanges under way on average: written (in an open loop: due, and late by the engine's own doing)
    /// and not read whole.
    pub under_way: f64,
    /// Answered a second.
    pub per_s: f64,
    /// The stations that have any, in the order in which an exchange passes them.
    pub places: Vec<Place>,
    /// Random instants that the split is made of.
    pub instants: f64,
    /// How far the census' number under way is from the stamps', by the latter; 0 without a census.
    pub disagreement: f64,
}

/// What an account's split is made of.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Both ends of random connections, asked at random instants.
    Census,
    /// The engine's stamps alone: nothing is split.
    #[default]
    Stamps,
}

/// One station's share.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Place {
    /// Which.
    pub station: Station,
    /// What holds the bytes that are unsent there.
    pub held: Option<Held>,
    /// Exchanges there on average.
    pub exchanges: Estimate,
    /// What an exchange spends there. Unit: seconds.
    pub seconds: Estimate,
}

/// A stretch of the census: counts by station, batch by batch.
pub(crate) struct Split {
    /// Of each batch: instants, and those at which the connection had nothing under way.
    pub instants: Vec<(f64, f64)>,
    /// By station of the census: counts of the same batches.
    pub counts: [Vec<f64>; census::Station::ALL.len()],
}

impl Split {
    /// What was counted between two instants; none without a census.
    pub fn of(evidence: &Evidence, window: &RangeInclusive<Timestamp>) -> Option<Self> {
        let mut instants = Vec::new();
        let mut counts = census::Station::ALL.map(|_| Vec::new());
        for subject in evidence.subjects().filter(|of| matches!(of, Subject::Census(_))) {
            let of = evidence.of(subject);
            let Ok(all) = of.clone().within(window.clone()).all(census::INSTANTS) else { continue };
            let grown = |metric: Metric<u64>| {
                let samples = of.all(metric).unwrap_or_default();
                // A count that stood still may not be repeated in every row, nor within the window at all.
                let value = |at: &(Timestamp, u64)| {
                    let before = samples.partition_point(|(when, _)| *when <= at.0);
                    before.checked_sub(1).map_or(0, |index| samples[index].1)
                };
                let pairs = all.windows(2).map(|of| value(&of[1]).saturating_sub(value(&of[0])));
                pairs.map(|grown| grown as f64).collect::<Vec<_>>()
            };
            instants.extend(grown(census::INSTANTS).into_iter().zip(grown(census::IDLE)));
            for (station, counts) in census::Station::ALL.iter().zip(&mut counts) {
                counts.extend(grown(station.metric()));
            }
        }
        (!instants.is_empty()).then_some(Self { instants, counts })
    }

    /// Instants at which something was under way, batch by batch.
    fn busy(&self) -> Vec<f64> {
        self.instants.iter().map(|(all, idle)| (all - idle).max(0.0)).collect()
    }

    /// Of the exchanges under way, the share at each station.
    pub fn shares(&self) -> Vec<(Station, Option<Held>, Estimate)> {
        let busy = self.busy();
        let share = |(found, counts): (_, &Vec<f64>)| {
            let (station, held) = Station::of(found)?;
            let batches: Vec<_> = counts.iter().copied().zip(busy.iter().copied()).collect();
            let share = ratio(&batches)?;
            // An interval may reach beyond all there is.
            let share = Estimate { high: share.high.min(1.0).max(share.mid), ..share };
            (share.mid > 0.0).then_some((station, held, share))
        };
        census::Station::ALL.into_iter().zip(&self.counts).filter_map(share).collect()
    }

    /// The share of instants at which a connection had an exchange under way.
    pub fn share_busy(&self) -> Option<Estimate> {
        let all = self.instants.iter().map(|(all, _)| *all);
        ratio(&self.busy().into_iter().zip(all).collect::<Vec<_>>())
    }
}

impl Account {
    /// The account of the measured window; without a census nothing is split.
    pub fn of(header: &Header, evidence: &Evidence, load: &LoadSummary) -> Option<Self> {
        let per_s = load.throughput.0;
        if header.plan.target.watch.is_some() || per_s <= 0.0 {
            return None;
        }
        // An exchange that is due by the clock and that the engine itself sends late is with the engine until then.
        let is_late = header.plan.has_due_times() && load.own_lateness.count() > 0;
        let late = if is_late { load.own_lateness.mean() / 1e9 * per_s } else { 0.0 };
        let (in_flight, under_way) = (load.in_flight, load.in_flight + late);
        let stamps = Self { under_way, per_s, ..Self::default() };
        let split = Split::of(evidence, &(load.window.0..=load.window.1));
        let Some((split, busy)) = split.and_then(|split| split.share_busy().map(|of| (split, of)))
        else {
            return Some(stamps);
        };
        let mut places = split.shares();
        places.iter_mut().for_each(|(.., share)| *share = share.times(in_flight));
        if late > 0.0 {
            match places.iter_mut().find(|(station, ..)| *station == Station::Engine) {
                Some((.., of)) => *of = of.plus(late),
                None => places.push((Station::Engine, None, Estimate::exact(late))),
            }
        }
        places.sort_by_key(|(station, held, _)| (*station, *held));
        let place = |(station, held, exchanges): (_, _, Estimate)| {
            let seconds = exchanges.times(1.0 / per_s);
            Place { station, held, exchanges, seconds }
        };
        let counted = busy.mid * f64::from(header.plan.connections());
        Some(Self {
            source: Source::Census,
            places: places.into_iter().map(place).collect(),
            instants: split.instants.iter().map(|(all, _)| all).sum(),
            disagreement: (counted - in_flight).abs() / in_flight.max(1e-9),
            ..stamps
        })
    }

    /// Whether it says where the exchanges are: the census saw most of those that the stamps know of, and not as
    /// many again.
    pub fn is_split(&self) -> bool {
        self.source == Source::Census && !self.places.is_empty() && self.disagreement < HALFWAY
    }

    /// Exchanges at a station, whatever holds them there.
    pub fn at(&self, station: Station) -> f64 {
        self.sum(|place| place.station == station)
    }

    /// Those held there by this.
    pub fn held(&self, station: Station, held: Held) -> f64 {
        self.sum(|place| place.station == station && place.held == Some(held))
    }

    fn sum(&self, is: impl Fn(&&Place) -> bool) -> f64 {
        self.places.iter().filter(is).map(|place| place.exchanges.mid).sum()
    }

    /// The share of the exchanges under way at a station, 0 to 1.
    pub fn share(&self, station: Station) -> f64 {
        self.at(station) / self.under_way.max(1e-12)
    }

    /// The station with most exchanges, whatever holds them there.
    pub fn largest(&self) -> Option<(Station, f64)> {
        let stations = Station::ALL.into_iter().map(|station| (station, self.at(station)));
        stations.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, exchanges)| *exchanges > 0.0)
    }

    /// Mean time of an exchange. Unit: seconds.
    pub fn seconds(&self) -> f64 {
        self.under_way / self.per_s.max(1e-12)
    }

    /// The share of the exchanges that no station has, 0 to 1: what stamps and census disagree on.
    pub fn unplaced(&self) -> f64 {
        if self.is_split() { self.disagreement.min(1.0) } else { 1.0 }
    }
}
