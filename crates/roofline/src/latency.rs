//! Where an exchange's time is spent: of a standing queue before a full line the verdict names the line, and this the queue.

use crate::prelude::*;

/// See the module.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Latency {
    /// Where most of it is spent; `null`: unknown.
    pub station: Option<Station>,
    /// How long an exchange is there, or waits for what [`Latency::by`] names. Unit: seconds.
    pub seconds: f64,
    /// The roof whose mechanism adds most of it; `null`: unknown.
    pub by: Option<String>,
    /// As a sentence.
    pub says: String,
}

impl Latency {
    /// None where neither station nor cause is known. Claims come with id and title.
    pub(crate) fn of(facts: &Facts, claims: &[(&str, &str, Claim)]) -> Option<Self> {
        let whole = facts.exchange_s();
        if facts.attained <= 0.0 || whole <= 0.0 {
            return None;
        }
        let station = facts.place.station;
        let there = station.map_or(whole, |_| facts.place.exchanges / facts.attained);
        let fits = |part: &Part| match part {
            Part::Delay { at, each } if *each >= HOLDS * there => {
                station.is_none_or(|station| at.covers(station)).then_some(*each)
            }
            _ => None,
        };
        let sized = claims.iter().filter(|(.., claim)| claim.is_sized);
        let delays =
            sized.flat_map(|of| of.2.parts.iter().filter_map(fits).map(move |each| (of, each)));
        let largest = delays.reduce(|most, of| if of.1 > most.1 { of } else { most });
        let by = largest.map(|((id, ..), _)| (*id).to_owned());
        let (here, takes, each) = (duration(there), duration(whole), facts.each());
        let cause = largest.map(|((_, title, claim), _)| format!("{title}: {}", claim.sum));
        let here = station.map(|station| format!("{here} of {takes} {each} {}", station.words()));
        let says = match (here, cause) {
            (Some(here), Some(cause)) => format!("{here}: {cause}"),
            (Some(here), None) => here,
            (None, cause) => format!("{}; {each} takes {takes}", cause?),
        };
        let longest = largest.filter(|_| station.is_none()).map(|(_, each)| each.min(whole));
        Some(Self { station, seconds: longest.unwrap_or(there), by, says })
    }
}
