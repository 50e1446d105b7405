//! What a scan says: a row a value.

use super::*;
use crate::document::Scanned;

/// Knobs in front, then what each value gave.
pub(crate) fn scan(study: &StudyDocument) -> Table {
    let rows = &study.scan;
    let mut knobs: Vec<&str> = Vec::new();
    for knob in rows.iter().flat_map(|row| row.values.keys()) {
        if !knobs.contains(&knob.as_str()) {
            knobs.push(knob);
        }
    }
    let numbers = ["rate", "by the first", "p50", "p99"];
    let mut table = Table::new("A row a value", &knobs, &numbers);
    table.head.extend(Table::new("", &["limit"], &[]).head);
    table.rows = rows
        .iter()
        .map(|row| {
            let value = |knob: &&str| row.values.get(*knob).cloned().unwrap_or_default();
            let dash = || "-".to_owned();
            let mut cells: Vec<String> = knobs.iter().map(value).collect();
            cells.push(rate(row.throughput_per_s));
            cells.push(row.ratio.map_or_else(dash, ratio));
            cells.extend([row.p50_us, row.p99_us].map(|us| us.map_or_else(dash, time)));
            cells.push(doubted(row));
            cells
        })
        .collect();
    table
}

/// The limit; over a run that may not be believed that stands first.
fn doubted(row: &Scanned) -> String {
    match row.validity.as_str() {
        "valid" => row.limit.clone(),
        doubt => format!("{doubt}: {}", row.limit),
    }
}

/// Why a value's run is suspect or void, and what went wrong in it: a sentence each.
pub(crate) fn scan_notes(study: &StudyDocument) -> Vec<String> {
    let notes = study.rows.iter().map(|row| {
        let state = format!("{:?}", row.run.validity.state).to_lowercase();
        let reasons = &row.run.validity.reasons;
        let doubt = reasons.iter().map(|reason| format!("{}: {state}: {reason}", row.series));
        let failed = failures(&row.run).into_iter().map(|says| format!("{}: {says}", row.series));
        doubt.chain(failed).collect::<Vec<_>>()
    });
    notes.flatten().collect()
}
