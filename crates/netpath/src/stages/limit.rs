//! Limit: so many packets are in the path in all, those in delay included; more are dropped. This is
//! netem's `limit`, 1,000 where nobody says otherwise: at 5 ms it admits 200,000 packets/s and no more.

use crate::counters::Counters;
use crate::packet::{Packet, first};
use crate::stages::Stage;

pub(super) const STAGE: Stage = Stage {
    name: "limit",
    does: "Drops packets that find the path full, those in delay counted.",
    keys: &["limit"],
};

/// See the module.
#[derive(Clone, Debug)]
pub(crate) struct Limit {
    most: u64,
}

impl Limit {
    pub fn new(most: Option<u32>) -> Self {
        Self { most: most.map_or(u64::MAX, u64::from) }
    }

    /// What finds room of a packet while so many are held.
    pub fn pass<P: Packet>(&self, packet: P, held: u64, counters: &mut Counters) -> Option<P> {
        let (room, segments) = (self.most.saturating_sub(held), u64::from(packet.segments()));
        if segments <= room {
            return Some(packet);
        }
        counters.dropped_limit += segments - room;
        if room == 0 { None } else { first(&mut Some(packet), room) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::Frame;

    #[test]
    fn the_first_segments_find_room_and_the_rest_do_not() {
        let limit = Limit::new(Some(10));
        let mut counters = Counters::default();
        let passed = limit.pass(Frame::of(0, 5, 1500, 200), 7, &mut counters).unwrap();
        assert_eq!(passed.ids(), [0, 1, 2]);
        assert!(limit.pass(Frame::plain(5, 100), 10, &mut counters).is_none());
        assert_eq!(counters.dropped_limit, 3);
    }
}
