//! `--fail-if`: a condition on a run's figures that must not hold.

use std::str::FromStr;

use linerate_model::{OpRate, Share, parse_duration};
use linerate_report::RunDocument;

/// A condition.
#[derive(Clone, Debug, PartialEq)]
pub struct Gate {
    written: String,
    figure: Figure,
    above: bool,
    bound: f64,
}

#[derive(Clone, Copy, Debug, PartialEq)]
enum Figure {
    /// Of latency from due. Unit: microseconds.
    Percentile(f64),
    Mean,
    Rate,
    /// Failed and timed-out share of exchanges; answers 4xx and 5xx among them.
    Errors,
}

impl FromStr for Gate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bad = |why: &str| {
            format!(
                "--fail-if `{text}`: {why}; write for example p99>10ms, mean>5ms, rate<20k or errors>0.1%"
            )
        };
        let at = text.find(['<', '>']).ok_or_else(|| bad("no < or > in it"))?;
        let (name, rest) = text.split_at(at);
        let above = rest.starts_with('>');
        let value = rest[1..].trim_start_matches('=').trim();
        let time = |value: &str| {
            parse_duration(value)
                .map(|time| time.as_secs_f64() * 1e6)
                .map_err(|error| bad(&error.to_string()))
        };
        let (figure, bound) = match name.trim() {
            "mean" => (Figure::Mean, time(value)?),
            "max" => (Figure::Percentile(100.0), time(value)?),
            "rate" => {
                let rate: OpRate = value.parse().map_err(|error| bad(&format!("{error}")))?;
                (Figure::Rate, rate.0)
            }
            "errors" => {
                let share: Share = value.parse().map_err(|error| bad(&format!("{error}")))?;
                (Figure::Errors, share.0)
            }
            name => {
                match name.strip_prefix('p').and_then(|percentile| percentile.parse::<f64>().ok()) {
                    Some(percentile) if (0.0..=100.0).contains(&percentile) => {
                        (Figure::Percentile(percentile), time(value)?)
                    }
                    _ => return Err(bad(&format!("`{name}` is no figure"))),
                }
            }
        };
        Ok(Self { written: text.to_owned(), figure, above, bound })
    }
}

impl Gate {
    /// The sentence that says how it was breached; none when it was not.
    pub fn breached(&self, run: &RunDocument) -> Option<String> {
        let load = &run.load;
        let (found, words) = match self.figure {
            Figure::Percentile(percentile) => {
                let found = percentile_of(load, percentile);
                (found, format!("p{percentile} is {:.3} ms", found / 1e3))
            }
            Figure::Mean => {
                (load.latency_us.mean, format!("the mean is {:.3} ms", load.latency_us.mean / 1e3))
            }
            Figure::Rate => {
                (load.throughput_per_s, format!("throughput is {}", OpRate(load.throughput_per_s)))
            }
            Figure::Errors => {
                let lost = load.errors.values().sum::<u64>()
                    + load.timed_out
                    + load.status[3]
                    + load.status[4];
                let share = lost as f64 / load.scheduled.max(1) as f64;
                (share, format!("{} failed", Share(share)))
            }
        };
        let holds = if self.above { found > self.bound } else { found < self.bound };
        holds.then(|| format!("gate breached: {}: {words}", self.written))
    }
}

/// Any percentile, recomputed from the histogram itself.
fn percentile_of(load: &linerate_report::Load, percentile: f64) -> f64 {
    match linerate_evidence::Packed::from_base64(&load.histogram_v2_base64) {
        Ok(packed) => {
            let mut live = linerate_evidence::live_histogram();
            packed.add_to(&mut live);
            live.value_at_percentile(percentile) as f64 / 1e3
        }
        // Nothing was answered: no latency is low enough.
        Err(_) => f64::INFINITY,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gates_read_as_they_are_written() {
        let gate: Gate = "p99>10ms".parse().unwrap();
        assert_eq!(
            (gate.figure, gate.above, gate.bound),
            (Figure::Percentile(99.0), true, 10_000.0)
        );
        assert!("rate<20k".parse::<Gate>().is_ok());
        assert!("errors>0.1%".parse::<Gate>().is_ok());
        assert!("p99=10ms".parse::<Gate>().unwrap_err().contains("no < or >"));
        assert!("speed>1".parse::<Gate>().unwrap_err().contains("`speed` is no figure"));
    }
}
