//! Where an exchange's time is spent, whatever holds the rate.
//!
//! Throughput and latency are two answers. Before a full line a standing queue costs time and no rate: the
//! verdict names the line, and this the queue.

use linerate_account::Station;
use serde::{Deserialize, Serialize};

use crate::chosen::HOLDS;
use crate::claim::{Claim, Known, Part};
use crate::facts::Facts;
use crate::run::duration;

/// See the module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Where most of it is spent; `null` where nobody could see.
    pub station: Option<Station>,
    /// How long an exchange is there, or waits for what [`Latency::by`] names. Unit: seconds.
    pub seconds: f64,
    /// The roof whose mechanism adds most of it; `null`: none that is known.
    pub by: Option<String>,
    /// As a sentence.
    pub says: String,
}

impl Latency {
    /// None where neither a station nor a cause is known. Claims come with their id and title.
    pub(crate) fn of(facts: &Facts, claims: &[(&str, &str, Claim)]) -> Option<Self> {
        let whole = facts.exchange_s();
        if facts.attained <= 0.0 || whole <= 0.0 {
            return None;
        }
        let place = &facts.place;
        let station = place.station;
        let there = station.map_or(whole, |_| place.exchanges / facts.attained);
        let mut largest: Option<(&str, &str, &Claim, f64)> = None;
        for (id, title, claim) in claims.iter().filter(|(.., claim)| claim.known == Known::Sized) {
            for part in &claim.parts {
                let Part::Delay { at, each } = part else { continue };
                let fits =
                    station.is_none_or(|station| at.covers(station)) && *each >= HOLDS * there;
                if fits && largest.is_none_or(|(.., most)| *each > most) {
                    largest = Some((id, title, claim, *each));
                }
            }
        }
        let by = largest.map(|(id, ..)| id.to_owned());
        let of_whole = format!("of {} {}", duration(whole), facts.each());
        let (seconds, says) = match (station, largest) {
            (Some(station), Some((_, title, claim, _))) => (
                there,
                format!(
                    "{} {of_whole} {}: {title}: {}",
                    duration(there),
                    station.words(),
                    claim.sum
                ),
            ),
            (Some(station), None) => {
                (there, format!("{} {of_whole} {}", duration(there), station.words()))
            }
            (None, Some((_, title, claim, each))) => (
                each.min(whole),
                format!("{title}: {}; {} takes {}", claim.sum, facts.each(), duration(whole)),
            ),
            (None, None) => return None,
        };
        Some(Self { station, seconds, by, says })
    }
}
