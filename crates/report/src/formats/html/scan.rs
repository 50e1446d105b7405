//! The page of a scan: one table, and each value's time and latency in one figure.

use super::parts;
use crate::document::StudyDocument;
use crate::facts;
use crate::figures::{Bar, Curve, Picture, account, percentiles, roofline};

pub(super) fn page(scan: &StudyDocument) -> String {
    let mut out = parts::masthead("scan", &scan.name, &scan.about);
    out += &parts::labels(scan.rows.first().map(|row| &row.run));
    out += "<section>\n";
    out += &parts::table(&facts::scan(scan));
    let notes = facts::scan_notes(scan);
    if !notes.is_empty() {
        out += &parts::list(&notes);
    }
    out += "</section>\n";
    out += &parts::section("Gates", &facts::study_gates(scan), &[]);
    let bars = scan.rows.iter().filter_map(|row| Bar::of_run(&row.series, &row.run));
    out += &account(
        &bars.collect::<Vec<_>>(),
        "Where a request's time goes, a bar a value. The times below are those of the values, in their order.",
    );
    // Over connections there is a curve only where they were turned.
    let first = scan.rows.first().map(|row| row.connections);
    if scan.rows.iter().any(|row| Some(row.connections) != first) {
        out += &roofline(
            &Picture::of_study(scan),
            "Throughput over connections, both logarithmic. Dashed: the limit that a value stood under.",
        );
    }
    let curves: Vec<Curve> = scan
        .rows
        .iter()
        .enumerate()
        .map(|(style, row)| Curve { name: row.series.clone(), of: &row.run.load.latency_us, style })
        .collect();
    out += &percentiles(&curves, "Latency by percentile, value by value.");
    let held: Vec<String> = scan
        .rows
        .iter()
        .map(|row| format!("{}: {}", row.series, facts::short_limit(&row.run)))
        .collect();
    out += "<section><h2>The limit of each</h2>\n";
    out += &parts::list(&held);
    out += "</section>\n";
    if let Some(row) = scan.rows.first() {
        out += &parts::setting(&row.run);
    }
    out
}
