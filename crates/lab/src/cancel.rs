//! The caller's wish to stop, asked for between steps: no step waits longer than [`SLICE`].

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::lay_error::LayError;

/// Chosen: half of the 100 ms in which a signal must be answered.
pub(crate) const SLICE: Duration = Duration::from_millis(50);

/// See the module.
#[derive(Clone, Debug, Default)]
pub(crate) struct Cancel(pub Option<Arc<AtomicBool>>);

impl Cancel {
    /// An error once the caller wished to stop.
    pub fn check(&self) -> Result<(), LayError> {
        match &self.0 {
            Some(flag) if flag.load(Ordering::Relaxed) => Err(LayError::Interrupted),
            _ => Ok(()),
        }
    }

    /// How long to wait at most before the next [`Cancel::check`], and before `deadline`.
    pub fn slice(&self, deadline: Instant) -> Duration {
        deadline.saturating_duration_since(Instant::now()).min(SLICE)
    }
}
