//! What a full path drops, and what a drop costs.
//!
//! Packets in delay are an Erlang loss system: each stays for the delay, whatever it is, and one that finds
//! `limit` of them there is dropped, with probability `B(limit, rate × delay)`. Packets that wait for a rate
//! are M/M/1/K. A dropped packet that nothing follows is sent again after the retransmission timeout.
//!
//! Blind spot: packets that come in bursts find the limit sooner than Poisson ones. The interval's low end
//! has them come in sixes (Hayward's approximation), its high end evenly spaced. Packets that were dropped
//! together are sent again together, which tells where the limit is small beside the number of workers: there
//! the middle is too high, and the simulation is not.
//! Source: Erlang, 1917; RFC 6298; `TCP_RTO_MIN` = 200 ms, linux/include/net/tcp.h.

use linerate_model::{OneDirection, Queue};

use crate::forecast::Lean;

// Source: TCP_RTO_MIN = HZ/5, linux/include/net/tcp.h, to which the smoothed round trip is added. A tail loss
// probe comes no sooner where one packet is out: it allows for the delayed ACK. Unit: seconds.
const RTO_MIN: f64 = 0.200;

// Measured: 200 workers, 50 packets, 5 ms each way on our own line did 6,122 exchanges a second; by Hayward's
// approximation between fours (6,286) and sixes (5,576).
const BURST: f64 = 6.0;

/// The offered packets of one direction.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offered {
    /// That are sent again when they are lost. Unit: packets a second, each counted once.
    pub data: f64,
    /// That are not: pure ACKs. Unit: packets a second.
    pub acks: f64,
    /// Mean size on the wire. Unit: bytes.
    pub bytes: f64,
    /// Packets that all workers can have on their way at once.
    pub most: f64,
}

/// The share of its packets that a direction drops, retransmissions among those offered.
pub(crate) fn dropped(way: &OneDirection, offered: Offered, lean: Lean) -> f64 {
    // Dropped more often, a packet is offered more often: p = f(offered(p)), f rising.
    let (mut low, mut high) = (0.0, 0.95);
    for _ in 0..48 {
        let p = (low + high) / 2.0;
        let packets = offered.data / (1.0 - p) + offered.acks;
        if of(way, packets, offered, lean) > p { low = p } else { high = p }
    }
    low
}

fn of(way: &OneDirection, packets: f64, offered: Offered, lean: Lean) -> f64 {
    let passes = 1.0 - way.loss.0;
    let full = way.limit.map_or(0.0, |limit| {
        let held = packets * passes * way.delay.as_secs_f64();
        match lean {
            Lean::Low => erlang_b(f64::from(limit) / BURST, held / BURST),
            Lean::Middle => erlang_b(f64::from(limit), held),
            Lean::High => (1.0 - f64::from(limit) / held.max(1e-9)).max(0.0),
        }
    });
    let overflows = way.rate.map_or(0.0, |rate| {
        let room = room(way, offered.bytes);
        // Where they all fit, nobody is dropped.
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
pub(crate) fn room(way: &OneDirection, bytes: f64) -> f64 {
    match way.queue {
        Queue::Packets(packets) => f64::from(packets),
        Queue::Bytes(size) => size.0 as f64 / bytes.max(1.0),
    }
}

// Chosen: how much longer or shorter than computed a wait for the timeout may be: timers tick, and what is
// sent again meets the same crowd.
const LATER: f64 = 1.2;
const SOONER: f64 = 0.85;

/// Time that drops add to a message of so many segments, in the mean. Unit: seconds.
///
/// The last segment waits for the timeout, which doubles each time; one that others follow is missed after a
/// round trip.
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
        // Far above the limit what does not fit is lost; far below it nothing.
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
