//! Whether a run's figures are valid: each reason says what was found.

use linerate_model::Plan;
use serde::{Deserialize, Serialize};

use super::{LoadSummary, Service, change_point};
use crate::engine::{Phase, Slice};

/// How valid a run's figures are.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ValidityState {
    /// Valid.
    #[default]
    Valid,
    /// Valid with reservations.
    Suspect,
    /// Not valid.
    Void,
}

/// A state and its reasons.
#[derive(Clone, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
pub struct Validity {
    /// The worst of the reasons'.
    pub state: ValidityState,
    /// Each a sentence: what was found.
    pub reasons: Vec<String>,
}

impl Validity {
    /// Adds a reason; the state only gets worse.
    pub fn because(&mut self, state: ValidityState, reason: String) {
        self.state = self.state.max(state);
        self.reasons.push(reason);
    }
}

pub(super) fn judge(load: &LoadSummary, plan: &Plan, slices: &[Slice]) -> Validity {
    let mut validity = Validity::default();
    let failed: u64 = load.errors.values().sum();
    let service = Service::of(slices, plan, load);

    let accounted = load.answered + failed + load.timed_out + load.lost + load.in_flight_at_end;
    if load.scheduled != accounted {
        validity.because(
            ValidityState::Void,
            format!(
                "{} exchanges were due but {accounted} are accounted for: a defect of the engine",
                load.scheduled
            ),
        );
    }
    for outage in service.outages.iter().filter(|_| load.answered > 0) {
        let from = outage.from.as_secs_f64();
        let (state, when) = match outage.lasted {
            true => (ValidityState::Void, format!("from {from:.1} s on")),
            false => {
                let to = outage.to.as_secs_f64();
                (ValidityState::Suspect, format!("from {from:.1} s to {to:.1} s"))
            }
        };
        validity.because(state, format!("the target {} {when}", outage.says()));
    }
    if load.exchanges == 0 {
        let why = if load.scheduled == 0 { "nothing was sent" } else { "nothing was answered" };
        validity.because(ValidityState::Void, format!("{why} in the measured stretch"));
        return validity;
    }
    // Source: Little's law, N = X R. 2 % leaves room for the histogram's 0.1 % and clock reads.
    let (n, xr) = (load.in_flight, load.in_flight_by_little);
    if (n - xr).abs() > 0.02 * n.max(xr) {
        validity.because(
            ValidityState::Void,
            format!(
                "Little's law does not hold: {n:.2} in flight, but throughput x service time is {xr:.2}"
            ),
        );
    }
    if plan.has_due_times()
        && let Some((state, reason)) = own_lateness(load)
    {
        validity.because(state, reason);
    }
    let lost = failed + load.timed_out + service.not_asked + service.unanswered;
    let share = lost as f64 / service.decided.max(1) as f64;
    if share > 0.01 {
        let unserved = match service.not_asked + service.unanswered {
            0 => String::new(),
            unserved => {
                format!(", {unserved} of them because the target was away when they were due")
            }
        };
        validity.because(
            ValidityState::Suspect,
            format!("{:.1} % of exchanges failed or timed out{unserved}", share * 100.0),
        );
    }
    let answered_status: u64 = load.status.iter().sum();
    let refused = load.status[3] + load.status[4];
    if let Some(wrong) = &load.wrong {
        let all: u64 = wrong.values().sum();
        let share = all as f64 / load.answered.max(1) as f64;
        if share > 0.01 {
            let causes: Vec<String> =
                wrong.iter().map(|(cause, count)| format!("{cause} {count}")).collect();
            validity.because(
                ValidityState::Suspect,
                format!("{:.1} % of answers are wrong ({})", share * 100.0, causes.join(", ")),
            );
        }
    } else if refused as f64 > 0.01 * answered_status as f64 {
        validity.because(
            ValidityState::Suspect,
            format!(
                "{:.1} % of answers have status 4xx or 5xx: this measures error pages",
                refused as f64 / answered_status as f64 * 100.0
            ),
        );
    }
    // Chosen: fewer say little about a 99th percentile.
    if load.exchanges < 40 {
        validity.because(
            ValidityState::Suspect,
            format!("only {} exchanges were measured: run longer (-d)", load.exchanges),
        );
    }
    // An outage is such a change, and is reported already.
    if service.outages.is_empty() && !steady(load, slices) {
        validity.because(
            ValidityState::Suspect,
            "throughput changed in the middle of the measured stretch: run longer (-d), or see the time series"
                .into(),
        );
    }
    validity
}

/// Source: prctl(2), `PR_SET_TIMERSLACK`: a sleeper is woken up to 50 us late by default. Chosen: as much
/// again until it runs. Unit: ns.
pub const WAKING: f64 = 100_000.0;

/// The effect of the engine's own lateness on an open loop's latencies; none: no effect.
///
/// It is judged by its share of all reported time, that is its mean by theirs. Percentiles of the two are of
/// different exchanges, and near the top one stall of the machine moves them from one run to the next.
fn own_lateness(load: &LoadSummary) -> Option<(ValidityState, String)> {
    let sum = |times: &super::Percentiles| times.mean() * times.count() as f64;
    let (own, all) = (sum(&load.own_lateness), sum(&load.latency));
    if all <= 0.0 {
        return None;
    }
    // The lateness of every sleeper is taken off and is no threshold: there is no step in it.
    let beyond = (own - WAKING * load.own_lateness.count() as f64).max(0.0);
    let share = (beyond / all).min(1.0);
    // Chosen: past 5 % of what is reported the engine measures itself too (as Nighthawk separates); past a
    // half it measures mostly itself.
    let state = match share {
        0.5.. => ValidityState::Void,
        0.05.. => ValidityState::Suspect,
        _ => return None,
    };
    Some((
        state,
        format!(
            "the engine itself was late: by {:.2} ms in the mean, {:.0} % of the mean latency",
            load.own_lateness.mean() / 1e6,
            (own / all).min(1.0) * 100.0
        ),
    ))
}

fn steady(load: &LoadSummary, slices: &[Slice]) -> bool {
    if !slices.iter().any(|slice| slice.phase == Phase::Load) {
        return true;
    }
    let rates: Vec<f64> =
        load.points.iter().filter(|point| point.measured).map(|point| point.throughput.0).collect();
    match change_point::change(&rates) {
        None => true,
        Some(split) => {
            let mean = |part: &[f64]| part.iter().sum::<f64>() / part.len() as f64;
            let (before, after) = (mean(&rates[..split]), mean(&rates[split..]));
            // Chosen: a step of less than a quarter, or one lasting less than a fifth of the
            // stretch, is due to other programs on a shared machine.
            let short = split.min(rates.len() - split) * 5 < rates.len();
            short || (after - before).abs() < 0.25 * before.max(after)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::engine::Slice;
    use crate::evidence::Evidence;
    use crate::load::summarise;
    use crate::packed::{Packed, live_histogram};
    use linerate_model::Timestamp;

    /// An open loop for 4 s, 60 exchanges in each slice of 200 ms; of the times, value and count. Unit: ns.
    fn judged(latency: &[(u64, u64)], own_lateness: &[(u64, u64)]) -> Validity {
        let times = |of: &[(u64, u64)]| {
            let mut live = live_histogram();
            of.iter().for_each(|&(value, count)| live.record_n(value, count).unwrap());
            Packed::pack(&live)
        };
        let mut evidence = Evidence::default();
        for index in 0..20 {
            let from = Timestamp(index * 200_000_000);
            let mut slice = Slice::new(0, index as u32, from);
            slice.to = Timestamp(from.0 + 200_000_000);
            (slice.scheduled, slice.begun, slice.answered) = (60, 60, 60);
            (slice.latency, slice.service) = (times(latency), times(latency));
            slice.in_flight_area = slice.service.sum() as u128;
            slice.own_lateness = times(own_lateness);
            evidence.slices.push(slice);
        }
        let plan = "[target]\naddress = '127.0.0.1:80'\n[load]\nconnections = 8\nrate = 300\n";
        summarise(&evidence, &Plan::from_toml(plan).unwrap()).validity
    }

    #[test]
    fn a_stall_of_the_machine_in_one_exchange_of_thirty_does_not_void_a_run() {
        // p99 of its own lateness is 1.2 ms of 1.5: void by the percentiles, and valid at 0.9 ms.
        for stall in [900_000, 1_200_000] {
            let latency = [(300_000, 58), (300_000 + stall, 2)];
            let validity = judged(&latency, &[(60_000, 58), (stall, 2)]);
            assert_eq!(validity.state, ValidityState::Valid, "{:?}", validity.reasons);
        }
    }

    #[test]
    fn what_is_mostly_the_engine_is_void_and_what_is_in_part_is_suspect() {
        // 1 ms of 1.5; 1 ms of 5.
        let validity = judged(&[(1_500_000, 60)], &[(1_000_000, 60)]);
        assert_eq!(validity.state, ValidityState::Void);
        assert_eq!(
            validity.reasons,
            ["the engine itself was late: by 1.00 ms in the mean, 67 % of the mean latency"]
        );
        assert_eq!(judged(&[(5_000_000, 60)], &[(1_000_000, 60)]).state, ValidityState::Suspect);
    }

    #[test]
    fn a_service_as_fast_as_a_sleeper_wakes_can_be_measured() {
        // 80 us of 150 us, on an idle machine.
        assert_eq!(judged(&[(150_000, 60)], &[(80_000, 60)]).state, ValidityState::Valid);
    }
}
