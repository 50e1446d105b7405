//! Loss: at random, each packet by itself or in bursts.
//!
//! A Markov chain of two states (Gilbert 1960, Elliott 1963) with a step a packet: in the bad one each is
//! lost, in the good one none. With r the chance to leave the bad state and p to enter it, bursts are
//! 1/r packets long in the mean and p / (p + r) of all are lost. r = 1 - loss makes losses independent of
//! each other: bursts are never asked to be shorter than chance makes them.
//!
//! Source: E. N. Gilbert, "Capacity of a Burst-Noise Channel", 1960; netem's `loss gemodel p r` is the same.

use fastrand::Rng;
use linerate_model::Share;

use crate::chance::misses;
use crate::counters::Counters;
use crate::packet::{Packet, first};
use crate::stages::Stage;

pub(super) const STAGE: Stage = Stage {
    name: "loss",
    does: "Loses packets at random, each by itself or in bursts.",
    keys: &["loss", "loss_burst"],
};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Loss {
    /// Chance of a step from the good state to the bad one.
    enter: f64,
    /// And back.
    leave: f64,
    random: Rng,
    state: State,
    /// Packets until the state changes.
    left: u64,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Good,
    Bad,
}

impl Loss {
    pub fn new(loss: Share, burst: f64, mut random: Rng) -> Self {
        let loss = loss.0;
        let leave = (1.0 / burst).min(1.0 - loss);
        let enter = loss * leave / (1.0 - loss);
        let state = if random.f64() < loss { State::Bad } else { State::Good };
        let mut made = Self { enter, leave, random, state, left: 0 };
        made.draw();
        made
    }

    /// Takes the next piece that is not lost off what is left of a frame.
    pub fn next<P: Packet>(&mut self, rest: &mut Option<P>, counters: &mut Counters) -> Option<P> {
        loop {
            let piece = first(rest, self.left)?;
            let (state, segments) = (self.state, u64::from(piece.segments()));
            self.left -= segments;
            if self.left == 0 {
                self.state = if state == State::Good { State::Bad } else { State::Good };
                self.draw();
            }
            match state {
                State::Good => return Some(piece),
                State::Bad => counters.dropped_loss += segments,
            }
        }
    }

    /// A state lasts one packet and as many more as do not leave it.
    fn draw(&mut self) {
        let chance = if self.state == State::Good { self.enter } else { self.leave };
        self.left = misses(&mut self.random, chance).saturating_add(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::generator;
    use crate::testing::Frame;

    /// Which of so many packets are lost.
    fn lost(loss: f64, burst: f64, packets: u64) -> Vec<bool> {
        let mut stage = Loss::new(Share(loss), burst, generator(7, "loss"));
        let mut counters = Counters::default();
        (0..packets)
            .map(|id| stage.next(&mut Some(Frame::plain(id, 100)), &mut counters).is_none())
            .collect()
    }

    fn share(lost: &[bool]) -> f64 {
        lost.iter().filter(|lost| **lost).count() as f64 / lost.len() as f64
    }

    fn mean_burst(lost: &[bool]) -> f64 {
        let bursts = lost.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        share(lost) * lost.len() as f64 / bursts as f64
    }

    #[test]
    fn no_loss_loses_nothing() {
        assert_eq!(share(&lost(0.0, 1.0, 10_000)), 0.0);
        assert_eq!(share(&lost(0.0, 5.0, 10_000)), 0.0);
    }

    #[test]
    fn independent_losses_are_within_binomial_bounds() {
        for loss in [0.001, 0.02, 0.3, 0.95] {
            let lost = lost(loss, 1.0, 1_000_000);
            // Five deviations of the mean of a million.
            let bound = 5.0 * (loss * (1.0 - loss) / 1e6).sqrt();
            assert!((share(&lost) - loss).abs() < bound, "{loss}: {}", share(&lost));
            // In a row as often as chance has it: 1 / (1 - loss).
            let expected = 1.0 / (1.0 - loss);
            assert!((mean_burst(&lost) / expected - 1.0).abs() < 0.06, "{}", mean_burst(&lost));
        }
    }

    #[test]
    fn bursts_have_the_asked_share_and_mean_length() {
        for (loss, burst) in [(0.01, 3.0), (0.1, 20.0), (0.5, 4.0)] {
            let lost = lost(loss, burst, 4_000_000);
            assert!((share(&lost) / loss - 1.0).abs() < 0.05, "{}", share(&lost));
            assert!((mean_burst(&lost) / burst - 1.0).abs() < 0.05, "{}", mean_burst(&lost));
        }
    }

    #[test]
    fn a_frame_loses_the_same_segments_as_the_packets_that_it_holds() {
        let lost = lost(0.2, 2.0, 44 * 50);
        let mut stage = Loss::new(Share(0.2), 2.0, generator(7, "loss"));
        let mut counters = Counters::default();
        for frame in 0..50 {
            let mut rest = Some(Frame::of(frame * 44, 44, 1500, 300));
            let mut left = Vec::new();
            while let Some(piece) = stage.next(&mut rest, &mut counters) {
                left.extend(piece.ids());
            }
            let expected: Vec<u64> =
                (frame * 44..frame * 44 + 44).filter(|id| !lost[*id as usize]).collect();
            assert_eq!(left, expected);
        }
    }
}
