//! What is asked of a climb.

use std::time::Duration;

use linerate_model::Bytes;

use crate::mix::Mix;

/// See the module.
#[derive(Clone, Debug, PartialEq)]
pub struct Asked {
    /// Users, if no limit comes before.
    pub users: u32,
    /// Who they are.
    pub mix: Mix,
    /// Levels on the way, as many users more at each.
    pub levels: u32,
    /// New users a second; none: as fast as the service logs them in, `under_way` at a time.
    pub rate: Option<f64>,
    /// How many may be connecting or logging in at once, where there is no rate.
    pub under_way: u32,
    /// How long each level is held before it is judged.
    pub settle: Duration,
    /// How long the highest clean level is held at last.
    pub hold: Duration,
    /// A level whose 99th percentile of message latency is above this is not clean.
    pub gate: Duration,
    /// Connects, logins and messages that take longer have failed.
    pub timeout: Duration,
    /// Of a message's text.
    pub message: Bytes,
    /// Of every random choice.
    pub seed: u64,
}

impl Asked {
    /// So many users, all else as it is by default.
    pub fn of(users: u32) -> Self {
        Self {
            users,
            mix: Mix::default(),
            // Chosen: the limit is known to a tenth, and a cost by slope has 20 points.
            levels: 10,
            rate: None,
            // Chosen: as the engine opens connections, so that a backlog is not measured by accident.
            under_way: 32,
            settle: Duration::from_secs(5),
            hold: Duration::from_secs(30),
            // Chosen: what a person who talks to another still takes for at once.
            gate: Duration::from_secs(1),
            timeout: Duration::from_secs(10),
            message: Bytes(64),
            seed: 1,
        }
    }

    /// How many users there are at the end of each level.
    pub(crate) fn bounds(&self) -> Vec<u32> {
        let levels = u64::from(self.levels.clamp(1, self.users.max(1)));
        (1..=levels).map(|level| (u64::from(self.users) * level / levels) as u32).collect()
    }
}
