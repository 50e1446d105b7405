//! What a comparison says, as lines and a table.

use crate::compare::{CompareDocument, ComparedFigure, ComparedRun};
use crate::number::{count, rate, share, time};
use crate::table::Table;

/// What is compared, as it was named: `checkout (build=1423)`; none where nothing was said.
pub(crate) fn named(of: &CompareDocument) -> Option<String> {
    match (&of.name, super::labels(&of.labels)) {
        (Some(name), Some(labels)) => Some(format!("{name} ({labels})")),
        (Some(name), None) => Some(name.clone()),
        (None, labels) => labels,
    }
}

/// The answer in a sentence.
pub(crate) fn compared(of: &CompareDocument) -> String {
    let worse: Vec<&str> = of
        .figures
        .iter()
        .filter(|figure| figure.regressed)
        .map(|figure| figure.figure.as_str())
        .collect();
    let runs = |side: &[ComparedRun]| match side.len() {
        1 => "1 run".to_owned(),
        many => format!("{} runs", count(many as u64)),
    };
    let sides = format!("{} before, {} after", runs(&of.before), runs(&of.after));
    match worse.as_slice() {
        [] => format!("no regression; {sides}"),
        worse => format!(
            "REGRESSED: {} worse by more than {}, beyond chance; {sides}",
            worse.join(", "),
            share(of.tolerance)
        ),
    }
}

/// Figure by figure.
pub(crate) fn figures(of: &CompareDocument) -> Table {
    let mut table = Table::new("Figures", &[""], &["before", "after"]);
    table.head.extend(Table::new("", &["after / before"], &[]).head);
    table.rows = of
        .figures
        .iter()
        .map(|figure| {
            let regressed = if figure.regressed { "  REGRESSED" } else { "" };
            vec![
                figure.figure.clone(),
                value(figure, figure.before),
                value(figure, figure.after),
                format!("{}{regressed}", figure.says),
            ]
        })
        .collect();
    table
}

fn value(of: &ComparedFigure, value: f64) -> String {
    match of.unit.as_str() {
        "us" => time(value),
        "share" => share(value),
        _ => rate(value),
    }
}

/// What differs, what held either side, and what else is to be known.
pub(crate) fn notes(of: &CompareDocument) -> Vec<String> {
    let limits = |side: &[ComparedRun]| {
        let mut all: Vec<&str> = side.iter().map(|run| run.limit.as_str()).collect();
        all.sort_unstable();
        all.dedup();
        all.join(", ")
    };
    let mut notes: Vec<String> = Vec::new();
    notes.extend(named(of).map(|name| format!("of: {name}")));
    notes.extend(of.differs.iter().map(|key| format!("differs: {key}")));
    notes.push(format!("limit: {} -> {}", limits(&of.before), limits(&of.after)));
    notes.extend(of.notes.iter().cloned());
    notes
}
