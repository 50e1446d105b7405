//! What a demand that was measured on CPUs with idle time is where they are busy.
//!
//! After a pause an exchange meets cold caches, wakes what sleeps, and stands alone where it would be one of a
//! batch. What that costs lies in the idle part of the time, and shows at linerate's own end: it does not cost its
//! peer many times more.

use linerate_predict::QueueStation;

use crate::prelude::*;
use crate::stations::InUse;

/// Which of the demands: the one measured, the one likely of a busy CPU, or the least.
#[derive(Clone, Copy)]
pub(crate) enum Heat {
    Cold,
    Warm,
    Hot,
}

/// What makes a use a demand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct By {
    /// Exchanges a second.
    pub attained: f64,
    /// What linerate used for them. Unit: CPUs' worth of time.
    pub engine: f64,
}

impl InUse {
    /// The station of a network, with such a demand an exchange.
    pub(crate) fn station(&self, heat: Heat, by: By) -> QueueStation {
        let (lost, idle) = (self.lost(), 1.0 - self.fullness());
        let used = self.used - lost;
        let left = |times: f64| {
            let spared = (1.0 - times.powf(-idle)) * self.cpu;
            1.0 - spared.min(by.engine * times * idle) / used
        };
        let left = match heat {
            Heat::Cold => 1.0,
            Heat::Warm => left(COLD),
            Heat::Hot => left(COLD * COLD),
        };
        let (demand, servers) = (used / by.attained * left, self.servers - lost);
        QueueStation { id: self.resource.id().into(), demand, servers }
    }
}
