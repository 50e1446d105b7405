//! Where every user is that was asked for.

use std::collections::BTreeMap;

use serde::Serialize;

/// asked = connecting + logging in + online + failed + closed, at every moment.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize)]
pub struct Account {
    /// Users that a connection was begun for.
    pub asked: u64,
    /// Their connect is under way.
    pub connecting: u64,
    /// Connected, and not logged in yet.
    pub logging_in: u64,
    /// Logged in.
    pub online: u64,
    /// Closed by us.
    pub closed: u64,
    /// Failed, by cause.
    pub failed: BTreeMap<String, u64>,
}

impl Account {
    /// All that failed.
    pub fn all_failed(&self) -> u64 {
        self.failed.values().sum()
    }

    /// Whether everybody is somewhere.
    pub fn closes(&self) -> bool {
        let known = self.connecting + self.logging_in + self.online + self.closed;
        self.asked == known + self.all_failed()
    }
}
