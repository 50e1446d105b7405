//! Whether a run's figures may be believed: each reason says what was found.

use linerate_model::Plan;
use serde::{Deserialize, Serialize};

use super::{LoadSummary, change_point};
use crate::engine::{Phase, Slice};

/// How far a run's figures may be believed.
#[derive(Clone, Copy, Debug, Default, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ValidityState {
    /// They may.
    #[default]
    Valid,
    /// They may, with the reasons in mind.
    Suspect,
    /// They may not.
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

    let accounted = load.answered + failed + load.timed_out + load.in_flight_at_end;
    if load.scheduled != accounted {
        validity.because(
            ValidityState::Void,
            format!(
                "{} exchanges were due but {accounted} are accounted for: a defect of the engine",
                load.scheduled
            ),
        );
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
    if plan.is_open_loop()
        && let (Some(own), Some(latency)) = (load.own_lateness.at(99.0), load.latency.at(99.0))
        // Chosen: 200 us is a scheduler's delay on a shared machine, whatever the latency.
        && own.value > 200_000
    {
        let share = own.value as f64 / latency.value.max(1) as f64;
        // Chosen: past 5 % of what is reported the engine measures itself (as Nighthawk separates);
        // past a half there is nothing else to see.
        // A millisecond is what a busy shared machine may do to any sleeper.
        let state = if share > 0.5 && own.value > 1_000_000 {
            ValidityState::Void
        } else if share > 0.05 {
            ValidityState::Suspect
        } else {
            ValidityState::Valid
        };
        if state != ValidityState::Valid {
            validity.because(
                state,
                format!(
                    "the engine itself was late: p99 of its own lateness is {:.2} ms, {:.0} % of the latency's p99",
                    own.value as f64 / 1e6,
                    share * 100.0
                ),
            );
        }
    }
    let done = (load.answered + failed + load.timed_out) as f64;
    let lost = (failed + load.timed_out) as f64 / done.max(1.0);
    if lost > 0.01 {
        validity.because(
            ValidityState::Suspect,
            format!("{:.1} % of exchanges failed or timed out", lost * 100.0),
        );
    }
    let answered_status: u64 = load.status.iter().sum();
    let refused = load.status[3] + load.status[4];
    if refused as f64 > 0.01 * answered_status as f64 {
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
    if !steady(load, slices) {
        validity.because(
            ValidityState::Suspect,
            "throughput changed in the middle of the measured stretch: run longer (-d), or see the time series"
                .into(),
        );
    }
    validity
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
            // stretch, is a neighbour's doing on a shared machine.
            let short = split.min(rates.len() - split) * 5 < rates.len();
            short || (after - before).abs() < 0.25 * before.max(after)
        }
    }
}
