//! Packets made by hand, for tests.

use std::net::SocketAddr;

use linerate_model::Timestamp;

use super::exchanges::Exchanges;
use super::headers::Segment;
use crate::subject::Direction;

pub(super) const SYN: u8 = 2;
pub(super) const RST: u8 = 4;
pub(super) const ACK: u8 = 16;
pub(super) const FIN_ACK: u8 = 17;

/// A packet of the connection from a port of the client to port 80.
pub(super) fn packet(
    client: u16,
    direction: Direction,
    (sequence, data): (u32, u32),
    acknowledged: u32,
    flags: u8,
) -> Segment {
    Segment {
        client: SocketAddr::from(([10, 0, 0, 9], client)),
        server: SocketAddr::from(([10, 0, 0, 1], 80)),
        direction,
        data,
        sequence,
        acknowledged,
        flags,
        refusal: None,
        welcome: false,
        record: None,
    }
}

/// A connection of its own, whose answer comes in two pieces, a fifth of a second apart, and ends with it.
pub(super) fn lasting(exchanges: &mut Exchanges) {
    let packets = [
        (1, packet(5000, Direction::Outbound, (1, 10), 1, ACK)),
        (2, packet(5000, Direction::Return, (1, 100), 11, ACK)),
        (202, packet(5000, Direction::Return, (101, 2000), 11, ACK)),
        (203, packet(5000, Direction::Return, (2101, 0), 11, FIN_ACK)),
    ];
    for (ms, segment) in packets {
        exchanges.on_segment(Timestamp(ms * 1_000_000), 1, &segment);
    }
}

/// So many connections one after another, each with two requests.
pub(super) fn visits(exchanges: &mut Exchanges, count: u16) {
    for nth in 0..count {
        let packet = |direction, numbers, acknowledged, flags| {
            packet(6000 + nth, direction, numbers, acknowledged, flags)
        };
        let packets = [
            packet(Direction::Outbound, (0, 0), 0, SYN),
            packet(Direction::Return, (0, 0), 1, SYN | ACK),
            packet(Direction::Outbound, (1, 10), 1, ACK),
            packet(Direction::Return, (1, 20), 11, ACK),
            packet(Direction::Outbound, (11, 10), 21, ACK),
            packet(Direction::Return, (21, 20), 21, ACK),
            packet(Direction::Outbound, (21, 0), 41, FIN_ACK),
            packet(Direction::Return, (41, 0), 22, FIN_ACK),
        ];
        for (step, segment) in (0..).zip(packets) {
            let at = 300_000_000 + 10_000_000 * u64::from(nth) + 1_000_000 * step;
            exchanges.on_segment(Timestamp(at), 1, &segment);
        }
    }
}

/// One request of 10 bytes and its answer of 20, after so many others of its connection.
pub(super) fn exchange(exchanges: &mut Exchanges, nth: u32, at: [u64; 2]) {
    let (sent, received) = (1 + 10 * nth, 1 + 20 * nth);
    let request = packet(4000, Direction::Outbound, (sent, 10), received, ACK);
    exchanges.on_segment(Timestamp(at[0]), 1, &request);
    let answer = packet(4000, Direction::Return, (received, 20), sent + 10, ACK);
    exchanges.on_segment(Timestamp(at[1]), 1, &answer);
}
