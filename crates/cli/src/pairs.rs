//! Paired comparison: two states measured in turn, A B B A, and the ratio of their throughputs.

use linerate_report::{Effect, RunDocument};

// Chosen: batches of each run that stand for independent readings; slices themselves are autocorrelated.
const BATCHES: usize = 5;

/// After by before: ratio of geometric means with a 95 % interval.
///
/// Each run's measured slices are taken in [`BATCHES`] batches; all batches of a state, whichever run
/// they come from, are its sample, so drift between runs widens the interval. Welch's interval on the
/// logarithms.
/// Source: Welch, "The generalization of Student's problem", 1947.
pub fn effect(before: &[&RunDocument], after: &[&RunDocument]) -> Effect {
    let rates = |runs: &[&RunDocument]| runs.iter().map(|run| run.load.throughput_per_s).collect();
    of_logs(rates(before), rates(after), &logs(before), &logs(after))
}

/// The same of two states that were only watched, in turn: their stretches, each as rates in equal
/// steps of time.
pub fn effect_of_rates(before: &[Vec<f64>], after: &[Vec<f64>]) -> Effect {
    let mean_of = |stretches: &[Vec<f64>]| stretches.iter().map(|rates| mean(rates)).collect();
    let logs = |stretches: &[Vec<f64>]| -> Vec<f64> {
        stretches.iter().flatten().map(|rate| rate.max(0.5).ln()).collect()
    };
    // A stretch in which nothing was counted is none.
    let counted = |stretches: &[Vec<f64>]| -> Vec<Vec<f64>> {
        stretches.iter().filter(|rates| !rates.is_empty()).cloned().collect()
    };
    let (before, after) = (&counted(before), &counted(after));
    of_logs(mean_of(before), mean_of(after), &logs(before), &logs(after))
}

fn of_logs(before_per_s: Vec<f64>, after_per_s: Vec<f64>, a: &[f64], b: &[f64]) -> Effect {
    let (mean_a, mean_b) = (mean(a), mean(b));
    let ratio = (mean_b - mean_a).exp();
    let half = half_width(a, b);
    let interval = [(mean_b - mean_a - half).exp(), (mean_b - mean_a + half).exp()];
    Effect {
        before_per_s,
        after_per_s,
        ratio,
        interval,
        says: words(ratio, interval),
        predicted_per_s: None,
    }
}

/// Logarithms of a state's batch means.
fn logs(runs: &[&RunDocument]) -> Vec<f64> {
    runs.iter()
        .flat_map(|run| {
            let slices: Vec<f64> = run
                .load
                .series
                .iter()
                .filter(|point| point.measured)
                .map(|point| point.throughput_per_s)
                .collect();
            let per = (slices.len() / BATCHES).max(1);
            slices
                .chunks(per)
                .filter(|chunk| chunk.len() == per)
                .map(|chunk| chunk.iter().sum::<f64>() / per as f64)
                // Half an exchange a second stands for none: the logarithm needs something.
                .map(|rate| rate.max(0.5).ln())
                .collect::<Vec<_>>()
        })
        .collect()
}

fn half_width(a: &[f64], b: &[f64]) -> f64 {
    if a.len() < 2 || b.len() < 2 {
        return f64::INFINITY;
    }
    let (va, vb) = (variance(a) / a.len() as f64, variance(b) / b.len() as f64);
    let degrees = (va + vb).powi(2)
        / (va.powi(2) / (a.len() - 1) as f64 + vb.powi(2) / (b.len() - 1) as f64).max(1e-300);
    // Two-sided 95 % quantile of Student's t, by Cornish-Fisher from the normal's; exact to 1 % from 4 on.
    let z: f64 = 1.959_964;
    let v = degrees.clamp(1.0, 1e6);
    let t = z
        + (z.powi(3) + z) / (4.0 * v)
        + (5.0 * z.powi(5) + 16.0 * z.powi(3) + 3.0 * z) / (96.0 * v * v);
    t * (va + vb).sqrt()
}

fn mean(values: &[f64]) -> f64 {
    values.iter().sum::<f64>() / values.len().max(1) as f64
}

fn variance(values: &[f64]) -> f64 {
    let mean = mean(values);
    values.iter().map(|value| (value - mean).powi(2)).sum::<f64>() / (values.len() - 1) as f64
}

/// The ratio for people; where the interval holds 1, what could have been seen.
fn words(ratio: f64, [low, high]: [f64; 2]) -> String {
    if !ratio.is_finite() || !high.is_finite() {
        return "too little was measured to compare".into();
    }
    if low <= 1.0 && high >= 1.0 {
        let seen = (1.0 - low).max(high - 1.0) * 100.0;
        return format!("no difference found, could have seen {seen:.1} %");
    }
    let digits = |value: f64| match value {
        value if value >= 100.0 => format!("{value:.0}"),
        value if value >= 10.0 => format!("{value:.1}"),
        value => format!("{value:.2}"),
    };
    format!("x{} ({} to {})", digits(ratio), digits(low), digits(high))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_samples_are_no_difference() {
        let a = [10.0f64.ln(), 10.2f64.ln(), 9.8f64.ln(), 10.1f64.ln()];
        let half = half_width(&a, &a);
        assert!(half > 0.0 && half < 0.05, "{half}");
        assert!(words(1.0, [0.98, 1.02]).starts_with("no difference found, could have seen 2.0 %"));
    }

    #[test]
    fn welch_agrees_with_a_table() {
        // Variances 2.5 and 10 of 5 each: SE = sqrt(0.5 + 2) = 1.5811, df = 6.25 / (0.0625 + 1) = 5.88,
        // t(5.88) = 2.459; half = 3.888
        let a = [1.0, 2.0, 3.0, 4.0, 5.0];
        let b = [2.0, 4.0, 6.0, 8.0, 10.0];
        assert!((half_width(&a, &b) - 3.888).abs() < 0.05, "{}", half_width(&a, &b));
    }
}
