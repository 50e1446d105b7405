//! What became of a run's gates.

use super::*;
use crate::compare::CompareDocument;
use crate::document::Gated;

/// A row a gate; empty where none was asked for.
pub(crate) fn gates(run: &RunDocument) -> Table {
    of_runs([("", run)].into_iter())
}

/// Those of all rows of a study or a scan, each by its series.
pub(crate) fn study_gates(study: &StudyDocument) -> Table {
    of_runs(study.rows.iter().map(|row| (row.series.as_str(), &row.run)))
}

/// Those of the runs after, of a comparison.
pub(crate) fn compared_gates(of: &CompareDocument) -> Table {
    let mut table = Table::new("Gates", &["gate", "result", "found"], &[]);
    let row = |gate: &Gated| vec![gate.gate.clone(), result(gate).into(), gate.says.clone()];
    table.rows = of.gates.iter().map(row).collect();
    table
}

fn of_runs<'a>(runs: impl Iterator<Item = (&'a str, &'a RunDocument)>) -> Table {
    let mut table = Table::new("Gates", &["gate", "result", "found"], &[]);
    for (series, run) in runs {
        for gate in &run.gates {
            let of = if series.is_empty() { "" } else { ": " };
            let name = format!("{series}{of}{}", gate.gate);
            table.rows.push(vec![name, result(gate).into(), gate.says.clone()]);
        }
    }
    table
}

fn result(gate: &Gated) -> &'static str {
    if gate.breached { "BREACHED" } else { "passed" }
}
