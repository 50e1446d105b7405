//! Users that were lost while they were held, and came back.

use std::collections::BTreeMap;
use std::time::Duration;

use linerate_model::Timestamp;
use serde::Serialize;

/// From the first connection that ended to the moment at which all of them were there again.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Dip {
    /// When it began, from the beginning of the hold. Unit: s.
    pub at_s: f64,
    /// How long it was until all were back; none: they were not when the hold ended. Unit: s.
    pub back_after_s: Option<f64>,
    /// Users that were online before.
    pub of: u64,
    /// The fewest that were online in it.
    pub fewest: u64,
    /// Connections that ended, by cause.
    pub lost: BTreeMap<String, u64>,
    /// Attempts to connect and log in again that failed, by cause.
    pub failed_again: BTreeMap<String, u64>,
}

// Chosen: more than anybody reads; what comes then is added to the last.
const MOST: usize = 100;

/// Those of one hold.
#[derive(Debug, Default)]
pub(crate) struct Dips {
    all: Vec<Dip>,
    /// The hold began.
    began: Timestamp,
    /// The last has not ended.
    is_open: bool,
}

impl Dips {
    pub(crate) fn of_hold(began: Timestamp) -> Self {
        Self { began, ..Self::default() }
    }

    fn since_s(&self, at: Timestamp) -> f64 {
        at.since(self.began).as_secs_f64()
    }

    /// A connection ended, and left so many online.
    pub(crate) fn on_lost(&mut self, cause: &str, online: u64, at: Timestamp) {
        if !self.is_open {
            self.is_open = true;
            if self.all.len() < MOST {
                let (at_s, of) = (self.since_s(at), online + 1);
                self.all.push(Dip { at_s, of, fewest: online, ..Dip::default() });
            }
        }
        let Some(dip) = self.all.last_mut() else { return };
        dip.back_after_s = None;
        dip.fewest = dip.fewest.min(online);
        *dip.lost.entry(cause.to_owned()).or_default() += 1;
    }

    /// An attempt to come back failed.
    pub(crate) fn on_failed_again(&mut self, cause: &str) {
        if let Some(dip) = self.all.last_mut() {
            *dip.failed_again.entry(cause.to_owned()).or_default() += 1;
        }
    }

    /// One is back, and so many are online.
    pub(crate) fn on_back(&mut self, online: u64, at: Timestamp) {
        let now_s = self.since_s(at);
        if let Some(dip) = self.all.last_mut().filter(|dip| self.is_open && online >= dip.of) {
            dip.back_after_s = Some(now_s - dip.at_s);
            self.is_open = false;
        }
    }

    /// How long more users were away than `few`, until now.
    pub(crate) fn away(&self, few: u64, at: Timestamp) -> Duration {
        let many = self.all.iter().filter(|dip| dip.of - dip.fewest > few);
        let until_now = |dip: &Dip| self.since_s(at) - dip.at_s;
        let seconds: f64 = many.map(|dip| dip.back_after_s.unwrap_or(until_now(dip))).sum();
        Duration::from_secs_f64(seconds)
    }

    pub(crate) fn into_all(self) -> Vec<Dip> {
        self.all
    }
}
