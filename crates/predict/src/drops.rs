//! What a full path drops, and what a drop costs.
//!
//! Packets in delay are an Erlang loss system: each stays for the delay, whatever its distribution, and one that
//! finds `limit` of them there is dropped, with probability `B(limit, rate × delay)`. Packets that wait for a rate
//! are M/M/1/K. A dropped packet that nothing follows is sent again after the retransmission timeout.
//!
//! Blind spot: packets in bursts meet the limit sooner than Poisson ones. At the interval's low end they come in
//! sixes (Hayward's approximation), at its high end evenly spaced. Packets dropped together are sent again together,
//! which matters where the limit is small beside the number of workers: there the middle is too high, and the
//! simulation is not.
//! Source: Erlang, 1917; RFC 6298; `TCP_RTO_MIN` = 200 ms, linux/include/net/tcp.h.

use linerate_model::{OneDirection, Queue};

use crate::forecast::Lean;

// Source: TCP_RTO_MIN = HZ/5, linux/include/net/tcp.h, to which the smoothed round trip is added. A tail loss probe
// comes no sooner with one packet in flight: it allows for the delayed ACK. Unit: seconds.
const RTO_MIN: f64 = 0.200;

// Measured: 200 workers, 50 packets, 5 ms each way on our own line did 6,122 exchanges a second; by Hayward's
// approximation between fours (6,286) and sixes (5,576).
const BURST: f64 = 6.0;

/// The offered packets of one direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offered {
    /// Sent again when lost. Unit: packets a second, each counted once.
    pub data: f64,
    /// Not sent again: pure ACKs. Unit: packets a second.
    pub acks: f64,
    /// Mean size on the wire. Unit: bytes.
    pub bytes: f64,
    /// Packets that all workers can have in flight.
    pub most: f64,
}

/// The share of its packets that a direction drops, retransmissions among those offered.
pub(crate) fn dropped(direction: &OneDirection, offered: Offered, lean: Lean) -> f64 {
    // With more drops a packet is offered more often: p = f(offered(p)), f rising.
    let (mut low, mut high) = (0.0, 0.95);
    for _ in 0..48 {
        let p = (low + high) / 2.0;
        let packets = offered.data / (1.0 - p) + offered.acks;
        if of(direction, packets, offered, lean) > p { low = p } else { high = p }
    }
    low
}

fn of(direction: &OneDirection, packets: f64, offered: Offered, lean: Lean) -> f64 {
    let passes = 1.0 - direction.loss.0;
    let full = direction.limit.map_or(0.0, |limit| {
        let held = packets * passes * direction.delay.as_secs_f64();
        match lean {
            Lean::Low => erlang_b(f64::from(limit) / BURST, held / BURST),
            Lean::Middle => erlang_b(f64::from(limit), held),
            Lean::High => (1.0 - f64::from(limit) / held.max(1e-9)).max(0.0),
        }
    });
    let overflows = direction.rate.map_or(0.0, |rate| {
        let room = room(direction, offered.bytes);
        // Where they all fit, none is dropped.
        if room >= offered.most {
            return 0.0;
        }
        let busy = packets * passes * offered.bytes * 8.0 / rate.0;
        match lean {
            Lean::Low => finite_queue(busy, room / BURST),
            Lean::Middle => finite_queue(busy, room),
            Lean::High => (1.0 - 1.0 / busy.max(1e-9)).max(0.0),
        }
    });
    1.0 - passes * (1.0 - full) * (1.0 - overflows)
}

/// Packets that may wait for the rate.
pub(crate) fn room(direction: &OneDirection, bytes: f64) -> f64 {
    match direction.queue {
        Queue::Packets(packets) => f64::from(packets),
        Queue::Bytes(size) => size.0 as f64 / bytes.max(1.0),
    }
}

// Chosen: how much longer or shorter than computed a timeout may be: timers tick, and retransmissions meet the same
// queue.
const LATER: f64 = 1.2;
const SOONER: f64 = 0.85;

/// Time that drops add to a message of so many segments, in the mean. Unit: seconds.
///
/// The last segment waits for the timeout, which doubles each time; the loss of one that others follow is noticed
/// after a round trip.
pub(crate) fn stall(p: f64, segments: f64, rtt: f64, lean: Lean) -> f64 {
    let p = p.min(0.49);
    let stall = (segments - 1.0).max(0.0) * p * rtt + p / (1.0 - 2.0 * p) * (RTO_MIN + rtt);
    match lean {
        Lean::Low => stall * LATER,
        Lean::Middle => stall,
        Lean::High => stall * SOONER,
    }
}

/// Erlang's B: the share that finds all `servers` taken. `1/B = Σ_k s!/(s-k)! / a^k`.
fn erlang_b(servers: f64, load: f64) -> f64 {
    if load <= 0.0 {
        return 0.0;
    }
    let (mut term, mut sum, mut left) = (1.0, 1.0, servers);
    while left > 0.0 && term > sum * 1e-15 {
        term *= left / load;
        sum += term;
        left -= 1.0;
        if sum > 1e15 {
            return 0.0;
        }
    }
    1.0 / sum
}

/// The share that M/M/1/K drops: `ρ^K (1 - ρ) / (1 - ρ^(K+1))`.
fn finite_queue(busy: f64, room: f64) -> f64 {
    // One more is in service.
    let places = room + 1.0;
    if (busy - 1.0).abs() < 1e-9 {
        return 1.0 / (places + 1.0);
    }
    if busy > 1.0 {
        // The same divided by ρ^(K+1), which may be beyond all numbers.
        return (busy - 1.0) / busy / (1.0 - busy.powf(-(places + 1.0)));
    }
    busy.powf(places) * (1.0 - busy) / (1.0 - busy.powf(places + 1.0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn erlangs_table() {
        // Tables of B: 10 servers at 5 erlang 1.84 %; 20 at 12 0.98 %; 100 at 84.06 1 %; 1 at 1 is a half.
        for (servers, load, says) in
            [(10.0, 5.0, 0.018_38), (20.0, 12.0, 0.009_8), (100.0, 84.06, 0.01), (1.0, 1.0, 0.5)]
        {
            assert!((erlang_b(servers, load) - says).abs() < 2e-4, "{servers} {load}");
        }
        // Far above the limit the excess is lost; far below it nothing.
        assert!((erlang_b(1_000.0, 4_000.0) - 0.75).abs() < 1e-3);
        assert_eq!(erlang_b(1_000.0, 500.0), 0.0);
    }

    #[test]
    fn a_finite_queue_loses_what_does_not_fit() {
        assert!((finite_queue(2.0, 50.0) - 0.5).abs() < 1e-9);
        assert!((finite_queue(1.0, 8.0) - 0.1).abs() < 1e-9);
        assert!(finite_queue(0.5, 30.0) < 1e-9);
        assert!(finite_queue(5_000.0, 1_000.0).is_finite());
    }

    #[test]
    fn a_lone_packet_that_is_lost_costs_the_timeout() {
        // 1 % of 210 ms, and the second loss that doubles: 0.01 / 0.98 x 210 ms = 2.14 ms.
        assert!((stall(0.01, 1.0, 0.010, Lean::Middle) - 2.143e-3).abs() < 1e-6);
        assert_eq!(stall(0.0, 5.0, 0.1, Lean::Low), 0.0);
    }
}
