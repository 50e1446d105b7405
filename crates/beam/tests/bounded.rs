//! Whatever a peer sends: no panic, and no more memory than its bytes are worth.
//!
//! One test alone in its process: the allocator counts for all threads.
#![allow(clippy::unwrap_used)]

mod counting;

use counting::most_held;
use linerate_beam::read_message;
use proptest::prelude::*;

/// Chosen: a term is some 40 bytes and a map's entry twice that with its room; an error quotes what it
/// could not use.
const A_BYTE: usize = 400;

fn read_within_bounds(frame: &[u8]) {
    let (_, took) = most_held(|| read_message(frame).is_ok());
    // Chosen: what an empty error costs, and other threads' small change.
    let allowed = A_BYTE * frame.len() + (64 << 10);
    assert!(took <= allowed, "{took} bytes for a frame of {}: {frame:?}", frame.len());
}

const SEEDS: [&[u8]; 3] = [
    include_bytes!("../../../fuzz/seeds/dist_frame/answer"),
    include_bytes!("../../../fuzz/seeds/dist_frame/monitor"),
    include_bytes!("../../../fuzz/seeds/dist_frame/prints"),
];

/// Bytes that are almost a message: a few of a real one's overwritten, the end cut off.
fn almost() -> impl Strategy<Value = Vec<u8>> {
    let changes = proptest::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6);
    (0..SEEDS.len(), changes, any::<prop::sample::Index>()).prop_map(|(seed, changes, end)| {
        let mut frame = SEEDS[seed].to_vec();
        for (at, byte) in changes {
            let at = at.index(frame.len());
            frame[at] = byte;
        }
        frame.truncate(frame.len() - end.index(frame.len()) / 4);
        frame
    })
}

/// Tags and lengths that go with them, in any order.
fn announced() -> impl Strategy<Value = Vec<u8>> {
    let tags: &[u8] = &[
        68, 70, 77, 80, 82, 88, 89, 90, 97, 98, 99, 100, 101, 102, 103, 104, 105, 106, 107, 108,
        109, 110, 111, 112, 113, 114, 115, 116, 117, 118, 119, 120, 121,
    ];
    let length = prop_oneof![Just(0_u32), Just(1), Just(255), Just(u32::MAX), any::<u32>()];
    let piece = (prop::sample::select(tags), length, 0..5_usize);
    proptest::collection::vec(piece, 0..40).prop_map(|pieces| {
        let mut frame = vec![112, 131];
        for (tag, length, width) in pieces {
            frame.push(tag);
            frame.extend(&length.to_be_bytes()[4 - width.min(4)..]);
        }
        frame
    })
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4_000))]

    #[test]
    fn no_bytes_panic_or_take_more_memory_than_they_are_worth(
        frame in prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..300),
            almost(),
            announced(),
        ]
    ) {
        read_within_bounds(&frame);
    }
}
