//! Duplication: a packet comes twice, the copy right behind it.

use fastrand::Rng;
use linerate_model::Share;

use crate::chance::{Hits, Piece};
use crate::counters::Counters;
use crate::packet::Packet;
use crate::stages::Stage;

pub(super) const STAGE: Stage =
    Stage { name: "duplicate", does: "Duplicates packets at random.", keys: &["duplicate"] };

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Duplicate {
    hits: Hits,
}

impl Duplicate {
    pub fn new(share: Share, random: Rng) -> Self {
        Self { hits: Hits::new(share, random) }
    }

    /// Takes the next piece off what is left of a frame, and its copy where it has one.
    pub fn next<P: Packet>(
        &mut self,
        rest: &mut Option<P>,
        counters: &mut Counters,
    ) -> Option<(P, Option<P>)> {
        Some(match self.hits.next(rest)? {
            Piece::Missed(piece) => (piece, None),
            Piece::Hit(piece) => {
                counters.duplicated += 1;
                let copy = piece.copy();
                (piece, Some(copy))
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::chance::generator;
    use crate::testing::Frame;

    #[test]
    fn copies_are_of_single_segments_and_as_many_as_asked() {
        let mut stage = Duplicate::new(Share(0.1), generator(3, "duplicate"));
        let mut counters = Counters::default();
        for frame in 0..1000 {
            let mut rest = Some(Frame::of(frame * 40, 40, 1500, 1500));
            let mut ids = Vec::new();
            while let Some((piece, copy)) = stage.next(&mut rest, &mut counters) {
                if let Some(copy) = copy {
                    assert_eq!((piece.ids(), piece.segments()), (copy.ids(), 1));
                }
                ids.extend(piece.ids());
            }
            assert_eq!(ids, (frame * 40..frame * 40 + 40).collect::<Vec<_>>());
        }
        // 4,000 of 40,000, deviation 60
        assert!((3_700..4_300).contains(&counters.duplicated), "{}", counters.duplicated);
    }
}
