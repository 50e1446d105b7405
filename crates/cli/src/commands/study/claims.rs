//! What a study claims, and what became of it here.

use linerate_model::OpRate;
use linerate_report::{Claim, RunDocument, StudyRow};

use super::file::ClaimRule;

/// Holds the measured rows to what was claimed of them.
pub(super) fn claim(rule: &ClaimRule, rows: &[StudyRow]) -> Claim {
    match rule {
        ClaimRule::Stall { says, series, within } => stall(rows, series, *within).of(says),
        ClaimRule::Ratio { says, of, to, connections, to_connections, least, most } => {
            let to = (to.as_str(), to_connections.unwrap_or(*connections));
            ratio(rows, [(of, *connections), to], [*least, *most]).of(says)
        }
        ClaimRule::Verdict { says, series, by, connections } => {
            verdict(rows, series, by, connections.as_deref()).of(says)
        }
        ClaimRule::Never { says, series, by } => never(rows, series, by).of(says),
        ClaimRule::Slope { says, series, connections, within } => {
            slope(rows, series, connections, *within).of(says)
        }
        // Made of two plans as well: see `predicted.rs`.
        ClaimRule::Predicted { says, .. } | ClaimRule::Forecast { says, .. } => {
            Outcome::unmeasured().of(says)
        }
    }
}

/// Whether a claim held, and the figures.
pub(super) struct Outcome {
    pub held: bool,
    pub because: String,
}

impl Outcome {
    pub fn unmeasured() -> Self {
        Self { held: false, because: "not measured in this run".into() }
    }

    pub fn of(self, says: &str) -> Claim {
        Claim { says: says.to_owned(), held: self.held, because: self.because }
    }
}

/// As the study counts connections: unscaled.
pub(super) fn counted(row: &StudyRow) -> u32 {
    row.published_connections.unwrap_or(row.connections)
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
        held: worst.abs() <= within,
        because: format!(
            "stall {:.1} ms; farthest from connections / stall: {:+.1} %",
            stall * 1e3,
            worst * 100.0
        ),
    }
}

/// Series and count of both, and between what their ratio is to be.
fn ratio(rows: &[StudyRow], of: [(&str, u32); 2], [least, most]: [Option<f64>; 2]) -> Outcome {
    let at = |(series, connections): (&str, u32)| {
        rows.iter().find(|row| row.series == series && counted(row) == connections)
    };
    let [Some(first), Some(second)] = of.map(at) else { return Outcome::unmeasured() };
    let (first, second) = (first.run.load.throughput_per_s, second.run.load.throughput_per_s);
    Outcome {
        held: least.is_none_or(|least| first >= least * second)
            && most.is_none_or(|most| first <= most * second),
        because: format!("{} against {}: x{:.2}", OpRate(first), OpRate(second), first / second),
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
        held: others.is_empty(),
        because: match (others.is_empty(), at) {
            (true, None) => format!("{by} at every connection count"),
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
        held: named.is_empty(),
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
        held: (here / published - 1.0).abs() <= within,
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
