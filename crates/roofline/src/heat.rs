//! What a demand that was measured on CPUs with idle time is where they are busy.

use linerate_predict::QueueStation;

use crate::chosen::COLD;
use crate::claim::Resource;
use crate::stations::InUse;

/// A station of a network, and what an exchange costs there.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Known {
    pub resource: Resource,
    /// See [`InUse::is_targets_part`].
    pub is_targets_part: bool,
    /// With the demand that was measured.
    pub of: QueueStation,
    /// Servers' worth of it that others took.
    pub lost: f64,
    pub warm: Warm,
}

/// The parts of a demand that are left where its CPUs are busy.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Warm {
    likely: f64,
    least: f64,
}

/// Which of the demands: the one measured, the one likely of a busy CPU, or the least.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Heat {
    Cold,
    Warm,
    Hot,
}

impl Known {
    /// The station with such a demand.
    pub fn at(&self, heat: Heat) -> QueueStation {
        let left = match heat {
            Heat::Cold => 1.0,
            Heat::Warm => self.warm.likely,
            Heat::Hot => self.warm.least,
        };
        QueueStation { demand: self.of.demand * left, ..self.of.clone() }
    }
}

impl Warm {
    /// After a pause an exchange meets cold caches, wakes what sleeps, and stands alone where it would be one of
    /// a batch. What that costs lies in the idle part of the time, and shows at linerate's own end: it
    /// does not cost its peer many times more.
    pub fn of(of: &InUse, engine: f64) -> Self {
        let idle = 1.0 - of.fullness();
        let left = |times: f64| {
            let spared = (1.0 - times.powf(-idle)) * of.cpu;
            1.0 - spared.min(engine * times * idle) / (of.used - of.lost())
        };
        Self { likely: left(COLD), least: left(COLD * COLD) }
    }
}
