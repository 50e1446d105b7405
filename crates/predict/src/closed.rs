//! A delay and one station whose rate depends on how many are in it: a flow-equivalent centre.
//!
//! By Norton's theorem for queueing networks a part of a network is equivalent to one station whose rate with `n`
//! inside is the part's throughput alone with `n`. The two then are a birth-and-death chain: `P(j) / P(j-1) = (N-j+1)
//! / (Z μ(j))`.
//!
//! Source: Chandy, Herzog and Woo, "Parametric analysis of queuing networks", 1975; exact for networks with a
//! product form, a good approximation for others (Lazowska et al., 1984, chapter 8).

/// Throughput of `population` exchanges between a delay of `delay` seconds and a station that serves `rate(n)` a
/// second with `n` inside. Unit: exchanges a second.
pub(crate) fn circulate(population: u32, delay: f64, rate: impl Fn(u32) -> f64) -> f64 {
    if delay <= 0.0 {
        return if population == 0 { 0.0 } else { rate(population) };
    }
    between(population, |n| f64::from(n) / delay, rate)
}

/// The same between two stations: with `n` in it, one sends `feed(n)` a second to the other, which sends `rate(n)` a
/// second back. Unit: exchanges a second.
pub(crate) fn between(
    population: u32,
    feed: impl Fn(u32) -> f64,
    rate: impl Fn(u32) -> f64,
) -> f64 {
    if population == 0 {
        return 0.0;
    }
    if !feed(1).is_finite() {
        return rate(population);
    }
    // Kept small by dividing when it grows: only ratios count.
    const LARGE: f64 = 1e200;
    let (mut term, mut sum, mut served) = (1.0f64, 1.0f64, 0.0f64);
    for j in 1..=population {
        let rate = rate(j).max(1e-300);
        let ratio = feed(population - j + 1) / rate;
        term *= ratio;
        sum += term;
        served += term * rate;
        if sum > LARGE {
            (term, sum, served) = (term / LARGE, sum / LARGE, served / LARGE);
        }
        // Past the maximum, the remaining terms are negligible.
        if ratio < 1.0 && term < sum * 1e-18 {
            break;
        }
    }
    served / sum
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mva::{Closed, Station};

    #[test]
    fn a_network_taken_for_one_station_does_what_it_did_with_the_delay_inside() {
        let four = Station { demand: 200e-6, servers: 32.0, copies: 4 };
        let inside = Closed { delay: 250e-6, stations: vec![four] };
        let alone: Vec<f64> = (1..=600).map(|n| inside.solve(n).throughput.0).collect();
        for population in [1, 20, 300, 600] {
            let apart = circulate(population, 1e-3, |n| alone[n as usize - 1]);
            let whole = Closed { delay: 1.25e-3, ..inside.clone() }.solve(population);
            assert!((apart / whole.throughput.0 - 1.0).abs() < 1e-9, "{population}: {apart}");
        }
    }

    #[test]
    fn a_long_delay_and_many_workers_are_littles_law() {
        let found = circulate(4_000, 1.0, |n| 2_000.0 * f64::from(n));
        assert!((found / (4_000.0 / 1.0005) - 1.0).abs() < 1e-9, "{found}");
    }
}
