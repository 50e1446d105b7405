//! Size: a packet larger than the path takes is dropped without a word, as by a router whose "too big" is
//! filtered on its way back.

use crate::counters::Counters;
use crate::packet::{Packet, first};
use crate::stages::Stage;

pub(super) const STAGE: Stage =
    Stage { name: "size", does: "Drops packets that are too large.", keys: &["largest"] };

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Size {
    largest: u64,
}

impl Size {
    pub fn new(largest: Option<u64>) -> Self {
        Self { largest: largest.unwrap_or(u64::MAX) }
    }

    /// What is left of a packet.
    pub fn pass<P: Packet>(&self, packet: P, counters: &mut Counters) -> Option<P> {
        if packet.largest() <= self.largest {
            return Some(packet);
        }
        let segments = packet.segments();
        let mut rest = Some(packet);
        if segments > 1 {
            // Only the last may be smaller than the others.
            first(&mut rest, u64::from(segments - 1));
            counters.dropped_size += u64::from(segments - 1);
        }
        let last = rest.filter(|last| last.bytes() <= self.largest);
        counters.dropped_size += u64::from(last.is_none());
        last
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Frame;

    #[test]
    fn what_is_too_large_is_dropped_by_segment() {
        let size = Size::new(Some(1400));
        let mut counters = Counters::default();
        assert!(size.pass(Frame::plain(0, 1400), &mut counters).is_some());
        assert!(size.pass(Frame::plain(1, 1401), &mut counters).is_none());
        // two of 1500 and a last one of 900
        let left = size.pass(Frame::of(2, 3, 1500, 900), &mut counters).unwrap();
        assert_eq!((left.segments(), left.bytes(), left.id), (1, 900, 4));
        assert_eq!(counters.dropped_size, 3);
    }
}
