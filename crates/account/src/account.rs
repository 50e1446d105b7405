//! The account of a run whose load is ours: `N = Σ N_i` exchanges by station, and `R_i = N_i / X`.
//!
//! `N` and `X` come from the stamps, the shares from the census. The census counts an `N` of its own: connections x
//! the share of instants with an exchange under way. [`Account::disagreement`] is how far the two differ.
//!
//! Blind spot: an exchange that ends before both its ends were asked is [`Station::Brief`], which is not split.

use crate::prelude::*;

/// Where the exchanges under way are.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Account {
    /// Exchanges under way on average: written (or late by the engine) and not read whole, or being reconnected.
    pub under_way: f64,
    /// Answered a second.
    pub per_s: f64,
    /// The stations that have any, in the order in which an exchange passes them.
    pub places: Vec<Place>,
    /// Random instants at which both ends of a connection were asked; 0: nothing is split, the stamps are all there is.
    pub instants: f64,
    /// How far the census' number under way is from the stamps', by the latter; 0 without a census.
    pub disagreement: f64,
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

/// Of the exchanges under way in a stretch of the census, the share at each station.
pub(crate) fn shares(census: &Batches) -> Vec<(Station, Option<Held>, Estimate)> {
    let busy = census.busy();
    let share = |(found, counts): (_, &Vec<f64>)| {
        let (station, held) = Station::of(found)?;
        let batches: Vec<_> = counts.iter().copied().zip(busy.iter().copied()).collect();
        let share = ratio(&batches)?;
        let share = Estimate { high: share.high.min(1.0).max(share.mid), ..share };
        (share.mid > 0.0).then_some((station, held, share))
    };
    census::Station::ALL.into_iter().zip(&census.counts).filter_map(share).collect()
}

impl Account {
    /// The account of the measured window; without a census nothing is split.
    pub fn of(header: &Header, evidence: &Evidence, load: &LoadSummary) -> Option<Self> {
        let per_s = load.throughput.0;
        if header.plan.target.watch.is_some() || per_s <= 0.0 {
            return None;
        }
        // An exchange that the engine itself sends late is with the engine from its due time on.
        let late = load.own_lateness.mean() / 1e9 * per_s;
        let (in_flight, under_way) = (load.in_flight, load.in_flight + late);
        let stamps = Self { under_way, per_s, ..Self::default() };
        let census = Batches::of(evidence, &(load.window.0..=load.window.1));
        let Some(census) = census else { return Some(stamps) };
        // The share of its instants at which a connection had an exchange under way.
        let instants = census.busy().into_iter().zip(census.instants.iter().map(|(all, _)| *all));
        let Some(busy) = ratio(&Vec::from_iter(instants)) else { return Some(stamps) };
        let counted = busy.mid * f64::from(header.plan.connections());
        let mut places = shares(&census);
        // Where a connection outlives an exchange, stamps begin when it is ready: opening it again is the census' alone.
        let is_reopened = |station| {
            !header.plan.opens_each() && matches!(station, Station::Connect | Station::TlsHandshake)
        };
        let reopened = places.iter().filter(|of| is_reopened(of.0)).map(|of| of.2.mid).sum::<f64>();
        let of_stamps = in_flight / (1.0 - reopened).max(1e-9);
        for (station, _, share) in &mut places {
            *share = share.times(if is_reopened(*station) { counted } else { of_stamps });
        }
        let opening = reopened * counted;
        if late > 0.0 {
            match places.iter_mut().find(|(station, ..)| *station == Station::Engine) {
                Some((.., of)) => *of = of.map(|count| count + late),
                None => places.push((Station::Engine, None, Estimate::exact(late))),
            }
        }
        places.sort_by_key(|(station, held, _)| (*station, *held));
        let places = places.into_iter().map(|(station, held, exchanges)| Place {
            station,
            held,
            exchanges,
            seconds: exchanges.times(1.0 / per_s),
        });
        let stamped = in_flight + opening;
        Some(Self {
            under_way: under_way + opening,
            places: places.collect(),
            instants: census.instants.iter().map(|(all, _)| all).sum(),
            disagreement: (counted - stamped).abs() / stamped.max(1e-9),
            ..stamps
        })
    }

    /// Whether it locates the exchanges: the census saw most of those that the stamps count, and not as many again.
    pub fn is_split(&self) -> bool {
        !self.places.is_empty() && self.disagreement < HALFWAY
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

    /// The station with most exchanges, whatever holds them there.
    pub fn largest(&self) -> Option<(Station, f64)> {
        let stations = Station::ALL.into_iter().map(|station| (station, self.at(station)));
        stations.max_by(|a, b| a.1.total_cmp(&b.1)).filter(|(_, exchanges)| *exchanges > 0.0)
    }

    /// Mean time of an exchange. Unit: seconds.
    pub fn seconds(&self) -> f64 {
        self.under_way / self.per_s.max(1e-12)
    }

    /// The share of the exchanges at no station, 0 to 1: stamps and census disagree on them.
    pub fn unplaced(&self) -> f64 {
        if self.is_split() { self.disagreement.min(1.0) } else { 1.0 }
    }
}
