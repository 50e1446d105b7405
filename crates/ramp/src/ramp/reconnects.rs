//! Whoever loses its connection while it is held comes back: not at once, and not all at the same time.

use std::cmp::Reverse;
use std::time::Duration;

use linerate_model::Timestamp;

use super::{Ramp, Stage};

// Source: RFC 6120, section 3.3: a client waits for a time that cannot be predicted, and then backs off exponentially,
// up to a bound. Chosen: the times, such that a restart of seconds is seen and not slept through.
const FIRST: Duration = Duration::from_millis(500);
const LONGEST: Duration = Duration::from_secs(8);

/// How long to wait before this attempt, counted from 0; `random` is 0 to 1, and takes up to half of it off.
fn pause(attempt: u32, random: f64) -> Duration {
    let whole = FIRST.saturating_mul(1 << attempt.min(16)).min(LONGEST);
    whole.mul_f64(1.0 - random / 2.0)
}

impl Ramp {
    /// It was lost, or an attempt to come back failed.
    pub(super) fn come_back(&mut self, user: u32, was_online: bool, cause: &str, at: Timestamp) {
        if self.stage != Stage::Holding {
            return;
        }
        let it = &mut self.users[user as usize];
        if was_online {
            it.tries = 0;
            self.dips.on_lost(cause, self.account.online, at);
        } else {
            self.dips.on_failed_again(cause);
        }
        let pause = pause(it.tries, self.random.f64());
        it.tries += 1;
        self.back.push(Reverse((at.after(pause), user)));
    }

    /// Who is to connect again now, if somebody is.
    pub(super) fn comes_back(&mut self, at: Timestamp) -> Option<u32> {
        let Reverse((due, user)) = *self.back.peek()?;
        if due > at || self.is_busy() {
            return None;
        }
        self.back.pop();
        Some(user)
    }

    /// When that is; none: nobody, or somebody must have come first.
    pub(super) fn next_back(&self) -> Option<Timestamp> {
        let Reverse((due, _)) = self.back.peek()?;
        (self.stage == Stage::Holding && !self.is_busy()).then_some(*due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_bound_and_differ_by_half() {
        let whole: Vec<_> = (0..6).map(|attempt| pause(attempt, 0.0).as_millis()).collect();
        assert_eq!(whole, [500, 1_000, 2_000, 4_000, 8_000, 8_000]);
        assert_eq!(pause(2, 1.0), Duration::from_secs(1));
        assert_eq!(pause(u32::MAX, 0.0), LONGEST);
    }
}
