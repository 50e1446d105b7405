//! What lost packets cost an exchange of many segments.
//!
//! They reduce its congestion window: `round trips = segments / W`, `W = max(1.22 / sqrt(p), 1.054 (RTT / p)^0.75)`,
//! for Reno and CUBIC. Where packets are lost independently, with any congestion control, a retransmission comes a
//! round trip later, and may be lost again: `round trips = sum over k of 1 - (1 - p^k)^n`, the mean of the largest
//! number of losses of any of n segments.
//!
//! Source: Mathis, Semke, Mahdavi, Ott, "The macroscopic behavior of the TCP congestion avoidance algorithm", 1997;
//! RFC 9438, 5.1 (CUBIC's response function, with C = 0.4 and a cut to 0.7).

/// So many segments after a lost one reveal it; with fewer behind it, it waits for the timer.
// Source: RFC 5681, 3.2, three duplicate acknowledgements.
const TELLING: f64 = 3.0;

/// How often in a row the same segment may be lost.
// Source: `TCP_RETR2`, include/net/tcp.h: then the connection ends.
const MOST_TIMES: i32 = 15;

/// The window that such a share of lost packets leaves. Unit: segments; of the round trip, seconds.
pub fn window_with_losses(lost: f64, rtt: f64) -> f64 {
    let lost = lost.max(1e-12);
    let reno = 1.22 / lost.sqrt();
    let cubic = 1.054 * (rtt / lost).powf(0.75);
    reno.max(cubic)
}

/// Round trips of retransmission until all of so many segments have arrived.
pub fn trips_again(lost: f64, segments: f64) -> f64 {
    let told = (segments - TELLING).max(0.0);
    let lost_often = |times| 1.0 - (1.0 - lost.powi(times)).powf(told);
    (1..=MOST_TIMES).map(lost_often).sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_window_is_renos_on_short_paths_and_cubics_on_long_ones() {
        // 1.22 / sqrt(0.001) = 38.6 segments; CUBIC: 1.054 x (0.02 / 0.001)^0.75 = 10.
        assert!((window_with_losses(1e-3, 0.02) - 38.58).abs() < 0.01);
        // 1.22 / sqrt(0.0001) = 122; CUBIC: 1.054 x (0.2 / 0.0001)^0.75 = 315.
        assert!((window_with_losses(1e-4, 0.2) - 315.2).abs() < 1.0);
    }

    #[test]
    fn what_is_lost_at_random_comes_a_round_trip_later() {
        // Of 135 segments at 2 %, 93 times in 100 one or more are lost, and 5 times in 100 one of them again.
        let trips = trips_again(0.02, 200e3 / 1448.0);
        assert!((trips * 0.02 - 0.0197).abs() < 0.0002, "{trips}");
        assert_eq!(trips_again(0.02, 2e3 / 1448.0), 0.0);
    }
}
