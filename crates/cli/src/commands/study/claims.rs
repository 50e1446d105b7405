//! What a study claims, and what became of it here.

use linerate_model::OpRate;
use linerate_report::{Claim, LinkAccount, RunDocument, StudyRow, Wire};

use super::file::ClaimRule;

/// Holds the measured rows to what was claimed of them.
pub(super) fn claim(rule: &ClaimRule, rows: &[StudyRow], wires: &[Wire]) -> Claim {
    match rule {
        ClaimRule::Stall { says, series, within } => stall(rows, series, *within).of(says),
        ClaimRule::Ratio {
            says,
            of,
            to,
            connections,
            to_connections,
            equal_cpu,
            least,
            most,
            otherwise,
        } => {
            let of = [(of.as_str(), *connections), (to, to_connections.unwrap_or(*connections))];
            let outcome = match equal_cpu {
                true => ratio_at_equal_cpu(rows, of, [*least, *most]),
                false => ratio(rows, of, [*least, *most]),
            };
            outcome.or_else(otherwise.as_deref()).of(says)
        }
        ClaimRule::Wire { says, series, case, least, most, otherwise } => {
            let outcome = wire_share(rows, wires, (series, *case), [*least, *most]);
            outcome.or_else(otherwise.as_deref()).of(says)
        }
        ClaimRule::Sum { says, series, of, case, within, otherwise } => {
            let outcome = sum(rows, series, of, *case, *within);
            outcome.or_else(otherwise.as_deref()).of(says)
        }
        ClaimRule::Verdict { says, series, by, connections } => {
            verdict(rows, series, by, connections.as_deref()).of(says)
        }
        ClaimRule::Never { says, series, by } => never(rows, series, by).of(says),
        ClaimRule::Slope { says, series, connections, within } => {
            slope(rows, series, connections, *within).of(says)
        }
        // Made of accounts, see below, or of two plans as well, see `predicted.rs`.
        ClaimRule::Account { says, .. }
        | ClaimRule::Predicted { says, .. }
        | ClaimRule::Forecast { says, .. } => Outcome::unmeasured().of(says),
    }
}

/// Whether a claim held, and the figures.
pub(super) struct Outcome {
    /// None: the runs that it is about were not made.
    pub held: Option<bool>,
    pub because: String,
}

impl Outcome {
    pub fn unmeasured() -> Self {
        Self { held: None, because: "not measured in this run".into() }
    }

    /// With the reason, where it was measured and does not hold.
    pub fn or_else(mut self, otherwise: Option<&str>) -> Self {
        if let (Some(false), Some(otherwise)) = (self.held, otherwise) {
            self.because = format!("{}. {otherwise}", self.because);
        }
        self
    }

    pub fn of(self, says: &str) -> Claim {
        Claim { says: says.to_owned(), held: self.held, because: self.because }
    }
}

/// As the study counts connections, unscaled, or its cases.
pub(super) fn counted(row: &StudyRow) -> u32 {
    row.case.or(row.published_connections).unwrap_or(row.connections)
}

fn rows_of<'a>(rows: &'a [StudyRow], series: &str) -> Vec<&'a StudyRow> {
    rows.iter().filter(|row| row.series == series).collect()
}

fn stall(rows: &[StudyRow], series: &str, within: f64) -> Outcome {
    let rows = rows_of(rows, series);
    let Some(stall) = rows.iter().find(|row| row.connections == 1).map(|row| median(&row.run))
    else {
        return Outcome::unmeasured();
    };
    let worst = rows
        .iter()
        .map(|row| row.run.load.throughput_per_s / (f64::from(row.connections) / stall) - 1.0)
        .max_by(|a, b| a.abs().total_cmp(&b.abs()))
        .unwrap_or(f64::INFINITY);
    Outcome {
        held: Some(worst.abs() <= within),
        because: format!(
            "stall {:.1} ms; farthest from connections / stall: {:+.1} %",
            stall * 1e3,
            worst * 100.0
        ),
    }
}

/// Series and count of both, and between what their ratio is to be.
fn ratio(rows: &[StudyRow], of: [(&str, u32); 2], between: [Option<f64>; 2]) -> Outcome {
    let [Some(first), Some(second)] = of.map(|of| at(rows, of)) else {
        return Outcome::unmeasured();
    };
    let held = |first: f64, second: f64| lies(first / second, between);
    if let (Some(first), Some(second)) = (first.measured_bit_s, second.measured_bit_s) {
        let [says, against] = [first, second].map(gbit);
        let because = format!("{says} against {against}: x{:.2}", first / second);
        return Outcome { held: Some(held(first, second)), because };
    }
    let (first, second) = (first.run.load.throughput_per_s, second.run.load.throughput_per_s);
    let because = format!("{} against {}: x{:.2}", OpRate(first), OpRate(second), first / second);
    Outcome { held: Some(held(first, second)), because }
}

/// The same of what each moves in a second of both nodes' CPU time.
fn ratio_at_equal_cpu(
    rows: &[StudyRow],
    of: [(&str, u32); 2],
    between: [Option<f64>; 2],
) -> Outcome {
    let by_cpu = |of: (&str, u32)| {
        let row = at(rows, of)?;
        let carried = row.run.load.carried.as_ref()?;
        let us = carried.cpu_us_per_message.filter(|us| *us > 0.0)?;
        Some((us, row.measured_bit_s? / (carried.messages_per_s * us)))
    };
    let [Some((first_us, first)), Some((second_us, second))] = of.map(by_cpu) else {
        return Outcome::unmeasured();
    };
    let because = format!(
        "a message {first_us:.3} us of CPU against {second_us:.3}: x{:.1} at equal CPU",
        first / second
    );
    Outcome { held: Some(lies(first / second, between)), because }
}

fn at<'a>(rows: &'a [StudyRow], (series, count): (&str, u32)) -> Option<&'a StudyRow> {
    rows.iter().find(|row| row.series == series && counted(row) == count)
}

fn lies(ratio: f64, [least, most]: [Option<f64>; 2]) -> bool {
    least.is_none_or(|least| ratio >= least) && most.is_none_or(|most| ratio <= most)
}

/// A throughput between nodes in the unit of these studies.
fn gbit(bit_s: f64) -> String {
    if bit_s < 1e9 {
        format!("{:.1} Mbit/s", bit_s / 1e6)
    } else {
        format!("{:.2} Gbit/s", bit_s / 1e9)
    }
}

/// Throughput of a series by the wire's beside it: in every case the share must lie between both.
fn wire_share(
    rows: &[StudyRow],
    wires: &[Wire],
    (series, at): (&str, Option<u32>),
    between: [Option<f64>; 2],
) -> Outcome {
    let rows =
        rows_of(rows, series).into_iter().filter(|row| at.is_none_or(|at| row.case == Some(at)));
    let shares: Vec<(u32, f64)> = rows
        .filter_map(|row| {
            let wire = wires.iter().find(|wire| Some(wire.case) == row.case)?;
            Some((wire.case, row.measured_bit_s? / wire.bit_s))
        })
        .collect();
    if shares.is_empty() {
        return Outcome::unmeasured();
    }
    let says = shares.iter().map(|(case, share)| format!("{:.1} % at {case}", share * 100.0));
    let held = shares.iter().all(|(_, share)| lies(*share, between));
    Outcome { held: Some(held), because: says.collect::<Vec<_>>().join(", ") }
}

/// What a megabyte takes in a series beside the sum of what it takes in others, each measured in runs of its own.
fn sum(rows: &[StudyRow], series: &str, of: &[String], case: u32, within: f64) -> Outcome {
    let us = |series: &str| {
        let row = rows.iter().find(|row| row.series == series && row.case == Some(case))?;
        row.measured_bit_s.filter(|bit_s| *bit_s > 0.0).map(|bit_s| 8e12 / bit_s)
    };
    let parts: Option<Vec<f64>> = of.iter().map(|part| us(part)).collect();
    let (Some(whole), Some(parts)) = (us(series), parts) else { return Outcome::unmeasured() };
    adds_up(&parts, whole, within)
}

fn adds_up(parts: &[f64], whole: f64, within: f64) -> Outcome {
    let sum = parts.iter().sum::<f64>();
    let off = sum / whole - 1.0;
    let says: Vec<String> = parts.iter().map(|us| format!("{us:.1}")).collect();
    let says = says.join(" + ");
    Outcome {
        held: Some(off.abs() <= within),
        because: format!(
            "{says} = {sum:.0} us a megabyte, and measured {whole:.0}: {:+.0} %",
            off * 100.0
        ),
    }
}

/// The rate that an account predicts beside what was measured.
pub(super) fn account(account: &Result<LinkAccount, String>, within: f64) -> Outcome {
    let account = match account {
        Ok(account) => account,
        Err(missing) => return Outcome { held: None, because: missing.clone() },
    };
    let off = account.ratio() - 1.0;
    Outcome {
        held: Some(off.abs() <= within),
        because: format!(
            "{}, so {}, and measured {}: {:+.0} %",
            account.sum(),
            account.rate(account.predicted_bit_s),
            account.rate(account.run.measured_bit_s),
            off * 100.0
        ),
    }
}

fn verdict(rows: &[StudyRow], series: &str, by: &str, at: Option<&[u32]>) -> Outcome {
    let mut rows = rows_of(rows, series);
    rows.retain(|row| at.is_none_or(|at| at.contains(&counted(row))));
    if rows.is_empty() {
        return Outcome::unmeasured();
    }
    let others: Vec<String> = rows
        .iter()
        .filter(|row| row.run.verdict.by() != Some(by))
        .map(|row| format!("{} at {}", row.run.verdict.by().unwrap_or("none"), counted(row)))
        .collect();
    let counts: Vec<String> = rows.iter().map(|row| counted(row).to_string()).collect();
    Outcome {
        held: Some(others.is_empty()),
        because: match (others.is_empty(), at) {
            (true, None) => format!("{by} in every case"),
            (true, Some(_)) => format!("{by} at {}", counts.join(", ")),
            (false, _) => format!("instead {}", others.join(", ")),
        },
    }
}

fn never(rows: &[StudyRow], series: &str, by: &str) -> Outcome {
    let rows = rows_of(rows, series);
    if rows.is_empty() {
        return Outcome::unmeasured();
    }
    let named: Vec<String> = rows
        .iter()
        .filter(|row| row.run.verdict.by() == Some(by))
        .map(|row| counted(row).to_string())
        .collect();
    let others: Vec<&str> = rows.iter().filter_map(|row| row.run.verdict.by()).collect();
    Outcome {
        held: Some(named.is_empty()),
        because: if named.is_empty() {
            format!("{} runs: {}", rows.len(), others.join(", "))
        } else {
            format!("{by} at {}", named.join(", "))
        },
    }
}

/// Throughput a connection, beside the published one.
fn slope(rows: &[StudyRow], series: &str, at: &[u32], within: f64) -> Outcome {
    let rows = rows_of(rows, series);
    let worst = rows
        .iter()
        .filter(|row| at.contains(&counted(row)))
        .filter_map(|row| {
            let here = row.run.load.throughput_per_s / f64::from(row.connections);
            Some((here, row.published_per_s? / f64::from(counted(row))))
        })
        .max_by(|a, b| (a.0 / a.1).ln().abs().total_cmp(&(b.0 / b.1).ln().abs()));
    let Some((here, published)) = worst else { return Outcome::unmeasured() };
    Outcome {
        held: Some((here / published - 1.0).abs() <= within),
        because: format!(
            "farthest: {here:.1}/s a connection, published {published:.1}/s ({:+.1} %)",
            (here / published - 1.0) * 100.0
        ),
    }
}

/// Median service time. Unit: seconds.
fn median(run: &RunDocument) -> f64 {
    let list = &run.load.service_us.percentiles;
    list.iter()
        .find(|[percentile, _]| *percentile == 50.0)
        .map_or(f64::INFINITY, |[_, value]| value / 1e6)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_that_were_measured_by_themselves_may_or_may_not_add_up() {
        let of = |whole| adds_up(&[170.0, 0.5, 29.5], whole, 0.15);
        assert_eq!(of(200.0).held, Some(true));
        assert_eq!(
            of(200.0).because,
            "170.0 + 0.5 + 29.5 = 200 us a megabyte, and measured 200: +0 %"
        );
        assert_eq!(of(250.0).held, Some(false));
        assert_eq!(of(170.0).held, Some(false));
        assert_eq!(of(180.0).held, Some(true));
    }
}
