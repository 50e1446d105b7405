//! How a demand measured on CPUs with idle time changes where they are busy.
//!
//! After a pause an exchange meets cold caches, wakes sleeping threads, and is alone where it would be one of a
//! batch. That costs idle time, and shows at linerate's own end: its peer does not pay many times more.

use crate::prelude::*;

/// The demand as measured, the likely one of a busy CPU, or the least.
#[derive(Clone, Copy)]
pub(crate) enum Heat {
    Cold,
    Warm,
    Hot,
}

/// What turns a use into a demand.
#[derive(Clone, Copy, Debug)]
pub(crate) struct By {
    pub attained: f64,
    /// linerate's use for them. Unit: CPUs' worth of time.
    pub engine: f64,
}

impl InUse {
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
