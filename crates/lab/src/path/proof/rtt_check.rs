//! The round-trip check: round trips, one at a time.

use std::time::{Duration, Instant};

use linerate_model::{OneDirection, Path};

use super::wire::Wire;
use super::{Delivered, HEADERS, LATE_ROUNDS, PAUSE, PathProof, ProofRow, ROUNDS, at_rate};
use crate::cancel::Cancel;
use crate::lay_error::LayError;

/// Chosen: beyond the delay, a packet that takes so long is not coming.
const PATIENCE: Duration = Duration::from_secs(1);

/// The same on a path that loses packets on purpose, where it happens often.
const LOSSY_PATIENCE: Duration = Duration::from_millis(200);

/// Chosen: what is lost in a row by 200 such in half of all tries, or by 9 % of losses never.
const LOST_IN_A_ROW: usize = 30;

/// Bytes of a probe on the path: headers and a number.
const PROBE: u64 = HEADERS + 4;

/// What was measured.
pub(super) struct RttCheck {
    asked: Duration,
    trips: Vec<(Duration, Duration)>,
    /// The time that a probe's bytes take at the path's rates.
    own: Duration,
}

impl RttCheck {
    /// Measures up to [`ROUNDS`] times, until the median is within the tolerance; and longer while it is late,
    /// as all is on a machine whose CPUs others have.
    pub fn prove(wire: &Wire, path: &Path, cancel: &Cancel) -> Result<Self, LayError> {
        let directions = &path.directions();
        let [out, back] = directions;
        let asked = out.delay + back.delay;
        let own = at_rate(out, PROBE) + at_rate(back, PROBE);
        let tolerance = path.tolerance.unwrap_or(usual(asked)) + (out.jitter + back.jitter) / 2;
        let mut prober = Prober {
            wire,
            back: &wire.turned()?,
            directions,
            expected: asked + own,
            number: 0,
            cancel,
        };
        let mut measured = RttCheck { asked, trips: Vec::new(), own };
        for round in 0..LATE_ROUNDS {
            if round >= ROUNDS {
                if measured.median() < asked {
                    break;
                }
                std::thread::sleep(PAUSE);
            }
            // The first finds caches cold and is not counted.
            prober.round_trip()?;
            measured.trips.clear();
            for _ in 0..probes(asked) {
                measured.trips.push(prober.round_trip()?);
            }
            if measured.median().abs_diff(asked) <= tolerance || !judged(directions) {
                return Ok(measured);
            }
        }
        Err(LayError::PathOff { asked, delivered: measured.median(), tolerance })
    }

    pub fn row(&self) -> ProofRow {
        ProofRow {
            what: "rtt".into(),
            asked: milliseconds(self.asked),
            delivered: Delivered::Proven(milliseconds(self.median())),
        }
    }

    pub fn proof(&self, rows: Vec<ProofRow>) -> PathProof {
        let round = self.rounds();
        PathProof {
            asked: self.asked,
            delivered_median: self.median(),
            delivered_min: round.first().copied().unwrap_or_default(),
            delivered_max: round.last().copied().unwrap_or_default(),
            out_median: middle(&sorted(&self.trips, |(out, _)| *out)),
            back_median: middle(&sorted(&self.trips, |(_, back)| *back)),
            probes: self.trips.len(),
            rows,
        }
    }

    fn median(&self) -> Duration {
        middle(&self.rounds())
    }

    fn rounds(&self) -> Vec<Duration> {
        sorted(&self.trips, |(out, back)| (*out + *back).saturating_sub(self.own))
    }
}

/// Of the median. Chosen: half a millisecond is what two threads wake late on a busy machine, and
/// a study that needs better than 5 % says so itself.
fn usual(asked: Duration) -> Duration {
    (asked / 20).max(Duration::from_micros(500))
}

/// Odd, for a median; fewer on long paths, so that the proof takes a second and not ten.
fn probes(asked: Duration) -> usize {
    match asked.as_millis() {
        0..50 => 11,
        50..200 => 5,
        _ => 3,
    }
}

/// A trace's opportunities come when they come, and of packets that skip the delay the median says nothing.
fn judged(directions: &[OneDirection; 2]) -> bool {
    directions.iter().all(|way| way.trace.is_none() && way.reorder.0 < 0.2)
}

/// Chosen: as many as fit on the terminal, and a microsecond is less than any machine's noise.
fn milliseconds(time: Duration) -> String {
    format!("{:.3} ms", time.as_secs_f64() * 1e3)
}

fn sorted(
    trips: &[(Duration, Duration)],
    of: impl Fn(&(Duration, Duration)) -> Duration,
) -> Vec<Duration> {
    let mut values: Vec<_> = trips.iter().map(of).collect();
    values.sort_unstable();
    values
}

fn middle(values: &[Duration]) -> Duration {
    values.get(values.len() / 2).copied().unwrap_or_default()
}

struct Prober<'a> {
    wire: &'a Wire,
    back: &'a Wire,
    directions: &'a [OneDirection; 2],
    expected: Duration,
    number: u32,
    cancel: &'a Cancel,
}

impl Prober<'_> {
    /// The directions outbound and return; those that are lost on purpose are tried again.
    fn round_trip(&mut self) -> Result<(Duration, Duration), LayError> {
        let lossy = self.directions.iter().any(|way| way.loss.0 > 0.0);
        let patience = self.expected + if lossy { LOSSY_PATIENCE } else { PATIENCE };
        for _ in 0..if lossy { LOST_IN_A_ROW } else { 1 } {
            self.number += 1;
            if let Some(out) = self.one_way(self.wire, patience)?
                && let Some(back) = self.one_way(self.back, patience)?
            {
                return Ok((out, back));
            }
        }
        Err(LayError::PathDead(patience))
    }

    fn one_way(&self, wire: &Wire, patience: Duration) -> Result<Option<Duration>, LayError> {
        let deadline = Instant::now() + patience;
        let sent = Instant::now();
        wire.send(self.number, PROBE)?;
        while let Some((number, arrived)) = wire.receive(deadline, self.cancel)? {
            // Others are copies, or came after they had been given up.
            if number == self.number {
                return Ok(Some(arrived - sent));
            }
        }
        Ok(None)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn the_median_of_three_is_the_middle_one_in_each_direction() {
        let trips = vec![(10 * MS, 12 * MS), (11 * MS, 10 * MS), (15 * MS, 11 * MS)];
        let proof = RttCheck { asked: 20 * MS, trips, own: MS }.proof(Vec::new());
        // Round trips: 22, 21, 26; less one for the probe itself.
        assert_eq!(proof.delivered_median, 21 * MS);
        assert_eq!((proof.delivered_min, proof.delivered_max), (20 * MS, 25 * MS));
        assert_eq!((proof.out_median, proof.back_median), (11 * MS, 11 * MS));
    }

    #[test]
    fn the_usual_tolerance_is_five_percent_and_at_least_half_a_millisecond() {
        assert_eq!(usual(100 * MS), 5 * MS);
        assert_eq!(usual(2 * MS), Duration::from_micros(500));
    }
}
