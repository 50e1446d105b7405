//! Bulk streams, as a plan says them: which way the bytes go, and in blocks of which size.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Serialize};

use crate::units::Bytes;

/// Which way the bytes of a stream go.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Flow {
    /// From the engine to the target, as iperf3's without `-R`.
    #[default]
    Up,
    /// From the target to the engine, as iperf3's `-R`.
    Down,
    /// Both: every second connection goes down, as iperf3's `--bidir`.
    Both,
}

impl Flow {
    /// Which way the connection of this worker goes; never [`Flow::Both`].
    pub fn of(self, worker: u32) -> Flow {
        match self {
            Flow::Both if worker.is_multiple_of(2) => Flow::Up,
            Flow::Both => Flow::Down,
            one_way => one_way,
        }
    }

    /// Its name in plans and on the wire.
    pub fn name(self) -> &'static str {
        match self {
            Flow::Up => "up",
            Flow::Down => "down",
            Flow::Both => "both",
        }
    }
}

impl fmt::Display for Flow {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// No direction.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("`{0}` is no direction: write up (to the target), down (from it) or both")]
pub struct BadFlow(String);

impl FromStr for Flow {
    type Err = BadFlow;

    fn from_str(text: &str) -> Result<Self, BadFlow> {
        let all = [Flow::Up, Flow::Down, Flow::Both];
        all.into_iter().find(|one| one.name() == text).ok_or_else(|| BadFlow(text.to_owned()))
    }
}

/// What a write hands over by default.
// Source: iperf3(1), `-l`: 128 KB for TCP.
pub(crate) fn block() -> Bytes {
    Bytes(128 * 1024)
}

/// The largest block that a write hands over.
// Chosen: more than any send buffer that a kernel grows by itself.
pub const MOST_BLOCK: u64 = 64 << 20;
