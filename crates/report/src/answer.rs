//! The two answers as data: what holds the rate, and where the time is spent.

use linerate_account::Station;
use linerate_roofline::{Judgement, Regime};
use serde::{Deserialize, Serialize};

use crate::account::{Account, Inside};
use crate::number::{seconds, share};
use crate::segments::segments;

/// What holds the rate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Limit {
    /// Id of the roof that is named; `null` where none is.
    pub id: Option<String>,
    /// Where: `turned_away`, a resource (`host_cpu`) or a station (`application`); `null` where nobody
    /// could see.
    pub place: Option<String>,
    /// `full`, `rate_set`, `delayed`, `met` or `unknown`.
    pub regime: String,
    /// How many are served at a time there, where it is no CPU that is full.
    pub at_once: Option<f64>,
    /// The rate that it allows. Unit: that of the roofline.
    pub rate_per_s: Option<f64>,
    /// As a sentence.
    pub says: String,
    /// Roofs whose lifting would give as much.
    pub also: Vec<String>,
}

/// Where the time is spent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// The station at which a request spends most of its time.
    pub station: Station,
    /// How much. Unit: seconds.
    pub seconds: f64,
    /// Of a request's time, 0 to 1.
    pub share: f64,
    /// As a sentence.
    pub says: String,
}

impl Limit {
    pub(crate) fn of(judged: &Judgement) -> Self {
        let place = &judged.place;
        let station = || place.station.map(Station::id);
        let resource = place.resource.map(|of| of.id()).filter(|id| *id != "slots");
        let at = match place.regime {
            _ if judged.turned_away => Some("turned_away"),
            Regime::Full | Regime::RateSet | Regime::Met => resource.or_else(station),
            Regime::Delayed | Regime::Unknown => station(),
        };
        let regime = match place.regime {
            Regime::Unknown => "unknown",
            Regime::Full => "full",
            Regime::RateSet => "rate_set",
            Regime::Delayed => "delayed",
            Regime::Met => "met",
        };
        let id = judged.verdict.by().map(str::to_owned);
        let roof = judged.roofs.iter().find(|roof| Some(&roof.id) == id.as_ref());
        let rate = roof.and_then(|roof| roof.ceiling).map(|rate| rate.0);
        let is_full = matches!(place.regime, Regime::Full | Regime::RateSet);
        Self {
            id,
            place: at.map(str::to_owned),
            regime: regime.into(),
            at_once: place.at_a_time().filter(|k| k.is_finite() && is_full),
            rate_per_s: rate.filter(|rate| rate.is_finite()),
            says: judged.verdict.says.to_owned(),
            also: judged.also.clone(),
        }
    }
}

impl Latency {
    /// None where nothing is split.
    pub(crate) fn of(account: &Account, inside: Option<&Inside>) -> Option<Self> {
        let all = account.seconds()?;
        let (mut station, mut most) = (None, 0.0);
        for id in Station::ALL {
            let here = account.stations.iter().filter(|of| of.id == id);
            let here: f64 = here.filter_map(|of| of.seconds).sum();
            if here > most {
                (station, most) = (Some(id), here);
            }
        }
        let station = station?;
        let parts = segments(account, inside).into_iter().filter(|part| part.station == station);
        let largest = parts.max_by(|a, b| a.seconds.total_cmp(&b.seconds));
        let spent = match largest.filter(|part| part.label != station.label()) {
            Some(part) => {
                let what = part.label.trim_start_matches(station.label()).trim_start_matches(", ");
                format!("{}, mostly {}", station.words(), what.trim_start())
            }
            None => station.words().to_owned(),
        };
        let part = most / all;
        Some(Self {
            station,
            seconds: most,
            share: part,
            says: format!("{} of {} {spent} ({})", seconds(most), seconds(all), share(part)),
        })
    }
}
