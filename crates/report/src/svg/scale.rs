//! From values to places, and where an axis has its ticks.

/// A linear or a logarithmic axis.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Scale {
    kind: Kind,
    domain: (f64, f64),
    range: (f64, f64),
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Kind {
    Linear,
    Log,
    /// Logarithmic, and only powers of ten are named.
    Decades,
}

impl Scale {
    /// Logarithmic, its ends moved out to 1, 2 or 5 times a power of ten.
    pub(crate) fn log(low: f64, high: f64, range: (f64, f64)) -> Self {
        let low = if low.is_finite() && low > 0.0 { low } else { 1.0 };
        let high = if high.is_finite() { high.max(low) } else { low };
        let (mut from, mut to) = (floor125(low), ceil125(high));
        if from == to {
            (from, to) = (floor125(from * 0.9), ceil125(to * 1.1));
        }
        Self { kind: Kind::Log, domain: (from, to), range }
    }

    /// Logarithmic, its ends as they are, only powers of ten named.
    pub(crate) fn decades(low: f64, high: f64, range: (f64, f64)) -> Self {
        Self { kind: Kind::Decades, domain: (low, high.max(low * 1.001)), range }
    }

    /// Linear from 0, its end moved out to a round number.
    pub(crate) fn linear(high: f64, range: (f64, f64)) -> Self {
        let high = if high.is_finite() && high > 0.0 { high } else { 1.0 };
        let step = step(high);
        Self { kind: Kind::Linear, domain: (0.0, (high / step).ceil() * step), range }
    }

    /// Linear, its ends as they are.
    pub(crate) fn linear_exact(low: f64, high: f64, range: (f64, f64)) -> Self {
        Self { kind: Kind::Linear, domain: (low, high.max(low + 1e-9)), range }
    }

    /// The values at its ends.
    pub(crate) fn domain(&self) -> (f64, f64) {
        self.domain
    }

    /// The place of a value; values outside stand at the nearer end.
    pub(crate) fn at(&self, value: f64) -> f64 {
        let (low, high) = self.domain;
        let part = match self.kind {
            Kind::Linear => (value - low) / (high - low),
            Kind::Log | Kind::Decades => (value.max(low) / low).ln() / (high / low).ln(),
        };
        let part = if part.is_finite() { part.clamp(0.0, 1.0) } else { 0.0 };
        self.range.0 + part * (self.range.1 - self.range.0)
    }

    /// Round values, not many more than `most`.
    pub(crate) fn ticks(&self, most: usize) -> Vec<f64> {
        let (low, high) = self.domain;
        match self.kind {
            Kind::Linear => {
                let mut step = step(high - low);
                while (high - low) / step > most.max(1) as f64 {
                    step = ceil125(step * 1.5);
                }
                let first = (low / step).ceil() as i64;
                (first..)
                    .map(|n| n as f64 * step)
                    .take_while(|tick| *tick <= high * 1.0001)
                    .collect()
            }
            Kind::Log | Kind::Decades => {
                let decades = (low.log10().floor() as i32)..=(high.log10().ceil() as i32);
                let every = |mantissas: &[f64], nth: usize| -> Vec<f64> {
                    decades
                        .clone()
                        .step_by(nth)
                        .flat_map(|power| mantissas.iter().map(move |m| m * 10f64.powi(power)))
                        .filter(|tick| (low * 0.999..=high * 1.001).contains(tick))
                        .collect()
                };
                let candidates = [every(&[1.0, 2.0, 5.0], 1), every(&[1.0, 3.0], 1)];
                let sparse = (1..10).map(|nth| every(&[1.0], nth));
                let fits = |ticks: &Vec<f64>| ticks.len() <= most.max(1);
                let candidates = candidates.into_iter().filter(|_| self.kind == Kind::Log);
                candidates.chain(sparse).find(fits).unwrap_or_default()
            }
        }
    }
}

fn step(span: f64) -> f64 {
    // Five or so steps.
    ceil125(span / 6.0)
}

fn floor125(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    // The slack takes care of 0.1 + 0.2.
    let mantissa = value / power * 1.000_001;
    power
        * if mantissa >= 5.0 {
            5.0
        } else if mantissa >= 2.0 {
            2.0
        } else {
            1.0
        }
}

fn ceil125(value: f64) -> f64 {
    let power = 10f64.powf(value.log10().floor());
    let mantissa = value / power * 0.999_999;
    power
        * if mantissa <= 1.0 {
            1.0
        } else if mantissa <= 2.0 {
            2.0
        } else if mantissa <= 5.0 {
            5.0
        } else {
            10.0
        }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_log_axis_ends_at_round_values_and_places_powers_evenly() {
        let scale = Scale::log(3.0, 700.0, (0.0, 100.0));
        assert_eq!(scale.domain(), (2.0, 1_000.0));
        let gap = scale.at(100.0) - scale.at(10.0);
        assert!((scale.at(1_000.0) - scale.at(100.0) - gap).abs() < 1e-9);
        assert_eq!(scale.ticks(9).len(), 9); // 2 5 10 20 50 100 200 500 1000
        assert_eq!(scale.ticks(6), [3.0, 10.0, 30.0, 100.0, 300.0, 1_000.0]);
        assert_eq!(scale.ticks(4), [10.0, 100.0, 1_000.0]);
    }

    #[test]
    fn an_axis_of_one_value_is_still_an_axis() {
        let scale = Scale::log(10.0, 10.0, (0.0, 100.0));
        assert!(scale.domain().0 < 10.0 && scale.domain().1 > 10.0);
        assert!(Scale::log(f64::NAN, f64::INFINITY, (0.0, 1.0)).at(5.0).is_finite());
        assert!(Scale::linear(0.0, (0.0, 1.0)).at(0.0).is_finite());
    }

    #[test]
    fn a_linear_axis_begins_at_nothing_and_has_round_ticks() {
        let scale = Scale::linear(247.0, (100.0, 0.0));
        assert_eq!(scale.ticks(6), [0.0, 50.0, 100.0, 150.0, 200.0, 250.0]);
        assert_eq!(scale.at(250.0), 0.0);
    }
}
