//! Acknowledgements that travel alone.
//!
//! A server's ACK is part of its answer. A worker's is part of its next request to the same server, unless that comes
//! later than the delayed-ACK timer. With `S` servers, one picked at random each time, the next request goes to
//! another one with `1 - 1/S`, and so does each after it; of those `T/c` come within the timer, in the mean, when a
//! cycle takes `c`. Cycles differ (near and far servers), so their number is taken for Poisson:
//!
//! `a = (1 - 1/S) exp(-T / (c S))`
//!
//! Were they all alike, `a` would lie between `(1 - 1/S)^(T/c + 1)` and `(1 - 1/S)^(T/c)`: the interval.
//!
//! Blind spot: a kernel that has learned that this connection answers slowly waits up to 200 ms.
//! Source: `TCP_DELACK_MIN`, linux/include/net/tcp.h.

use crate::forecast::Lean;

// Source: TCP_DELACK_MIN = HZ/25, linux/include/net/tcp.h. Unit: seconds.
const TIMER: f64 = 0.040;

/// The share of answers whose ACK is a packet of its own. `cycle`: from one request of a worker to its next,
/// in seconds.
pub(crate) fn alone(servers: u32, cycle: f64, lean: Lean) -> f64 {
    let other = 1.0 - 1.0 / f64::from(servers.max(1));
    if other <= 0.0 || cycle <= 0.0 {
        return 0.0;
    }
    let within = TIMER / cycle;
    match lean {
        Lean::Low => other.powf(within),
        Lean::Middle => other * (-within * (1.0 - other)).exp(),
        Lean::High => other.powf(within + 1.0),
    }
}

/// ACKs sent at once for a message of so many segments: one for each second segment.
// Source: RFC 5681, 4.2; a single segment's waits for the timer.
pub(crate) fn at_once(segments: f64) -> f64 {
    if segments > 1.0 { (segments / 2.0).floor() } else { 0.0 }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_server_is_always_asked_next() {
        assert_eq!(alone(1, 0.012, Lean::Middle), 0.0);
    }

    #[test]
    fn the_longer_the_cycle_the_more_travel_alone() {
        // S = 4, c = 10 ms: 0.75 e^(-40 / 40) = 0.276; (3/4)^4 = 0.316 at most, (3/4)^5 = 0.237 at least.
        let at = |lean| alone(4, 0.010, lean);
        assert!((at(Lean::Middle) - 0.2759).abs() < 1e-4);
        assert!((at(Lean::Low) - 0.3164).abs() < 1e-4 && (at(Lean::High) - 0.2373).abs() < 1e-4);
        assert!(alone(4, 0.005, Lean::Middle) < at(Lean::Middle));
    }
}
