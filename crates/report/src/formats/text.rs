//! For the terminal: the answer in at most fifteen lines of 80 columns; with `-v` everything. Nothing is
//! said by colour alone.

use crate::compare::CompareDocument;
use crate::document::{RunDocument, StudyDocument};
use crate::facts;
use crate::formats::{Format, Look};
use crate::read::Document;
use crate::table::Table;

mod ceilings;
mod climb;
mod doctor;
mod run;
mod sheet;

use sheet::{Sheet, Tone};

pub(super) const FORMAT: Format = Format {
    name: "text",
    extension: "txt",
    says: "For the terminal: the limit, the time, the cure; with -v every figure and ceiling.",
    render,
};

fn render(document: &Document, look: &Look) -> String {
    let mut sheet = Sheet::new(*look);
    match document {
        Document::Run(run) => run::whole(&mut sheet, run),
        Document::Climb(climb) => climb::whole(&mut sheet, climb),
        Document::Study(study) if !study.scan.is_empty() => whole_scan(&mut sheet, study),
        Document::Study(study) => whole_study(&mut sheet, study),
        Document::Doctor(doctor) => doctor::whole(&mut sheet, doctor),
        Document::Predict(of) => told(&mut sheet, &facts::predict(of)),
        Document::WhatIf(of) => told(&mut sheet, &facts::what_if(of)),
        Document::Compare(of) => compared(&mut sheet, of),
    }
    sheet.finish()
}

fn whole_study(sheet: &mut Sheet, study: &StudyDocument) {
    sheet.labelled("STUDY", Tone::Loud, &study.name);
    sheet.wrapped(7, &study.about);
    if let Some(scale) = &study.scale {
        sheet.labelled("SCALE", Tone::Plain, &scale.says);
    }
    let cases = facts::study_brief(study);
    let mut from = 0;
    while let Some(series) = cases.rows.get(from).map(|row| &row[0]) {
        let length = cases.rows[from..].iter().take_while(|row| row[0] == *series).count();
        sheet.gap();
        sheet.heading(series);
        let of_series = Table {
            head: cases.head[1..].to_vec(),
            rows: cases.rows[from..from + length].iter().map(|row| row[1..].to_vec()).collect(),
            ..Table::default()
        };
        table(sheet, 2, &of_series);
        from += length;
    }
    for of in facts::users(study) {
        sheet.gap();
        sheet.heading(&of.caption);
        items(sheet, &of);
    }
    for note in facts::users_notes(study) {
        sheet.item(2, "", &note);
    }
    let notes = [facts::wire_notes(study), Vec::new()];
    for (of, notes) in [facts::wire(study), facts::parts(study)].into_iter().zip(notes) {
        if !of.rows.is_empty() {
            sheet.gap();
            sheet.heading(&of.caption);
            table(sheet, 2, &of);
            notes.iter().for_each(|note| sheet.wrapped(2, note));
        }
    }
    for account in &study.accounts {
        let of = facts::link_account(account);
        sheet.gap();
        sheet.heading(&of.caption);
        table(sheet, 2, &of);
        facts::link_account_notes(account).iter().for_each(|note| sheet.wrapped(2, note));
        if let Some((did, notes)) = facts::did_in_study(study, account) {
            sheet.gap();
            sheet.heading(&did.caption);
            table(sheet, 2, &did);
            notes.iter().for_each(|note| sheet.wrapped(2, note));
        }
    }
    if !study.claims.is_empty() {
        sheet.gap();
        sheet.heading("Claims");
    }
    for claim in &study.claims {
        let label = match claim.held {
            Some(true) => "held      ",
            Some(false) => "NOT HELD  ",
            None => "not tried ",
        };
        sheet.item(2, label, &claim.says);
        sheet.wrapped(12, &claim.because);
    }
}

/// A scan: one table, and what is to be known of its rows.
fn whole_scan(sheet: &mut Sheet, scan: &StudyDocument) {
    sheet.labelled("SCAN", Tone::Loud, &format!("{}: {}", scan.name, scan.about));
    labels(sheet, scan.rows.first().map(|row| &row.run));
    table(sheet, 2, &facts::scan(scan));
    for note in facts::scan_notes(scan) {
        sheet.item(2, "", &note);
    }
    if !sheet.is_verbose() {
        return;
    }
    for row in &scan.rows {
        sheet.gap();
        sheet.heading(&row.series);
        run::whole(sheet, &row.run);
    }
}

/// What the user says of it, where that is anything.
fn labels(sheet: &mut Sheet, run: Option<&RunDocument>) {
    if let Some(says) = run.and_then(|run| facts::labels(&run.plan.labels)) {
        sheet.labelled("LABEL", Tone::Plain, &says);
    }
}

/// A prediction: what was asked of what, the table with a sentence under each row, what it can't see.
fn told(sheet: &mut Sheet, told: &facts::Told) {
    sheet.labelled("FROM", Tone::Loud, &told.from);
    for (label, says) in &told.lines {
        sheet.labelled(label, Tone::Loud, says);
    }
    sheet.gap();
    sheet.heading(&told.table.caption);
    let last = told.table.head.len().saturating_sub(1);
    let narrow = Table {
        head: told.table.head[..last].to_vec(),
        rows: told.table.rows.iter().map(|row| row[..last].to_vec()).collect(),
        ..Table::default()
    };
    for (index, line) in narrow.lines().into_iter().enumerate() {
        sheet.line(2, if index == 0 { Tone::Quiet } else { Tone::Plain }, &line);
        if let Some(row) = index.checked_sub(1).and_then(|index| told.table.rows.get(index)) {
            sheet.item(9, "", &row[last]);
        }
    }
    sheet.gap();
    for spot in &told.blind_spots {
        sheet.item(2, "not seen: ", spot);
    }
}

/// A comparison: the answer, the figures, what else is to be known.
fn compared(sheet: &mut Sheet, of: &CompareDocument) {
    let is_bad = of.regressed || of.gates.iter().any(|gate| gate.breached);
    let tone = if is_bad { Tone::Alarm } else { Tone::Loud };
    sheet.labelled("COMPARE", tone, &facts::compared(of));
    table(sheet, 2, &facts::compared_figures(of));
    let gates = facts::compared_gates(of);
    if !gates.rows.is_empty() {
        sheet.gap();
        table(sheet, 2, &gates);
    }
    for note in facts::compared_notes(of) {
        sheet.item(2, "", &note);
    }
}

/// A table whose rows are wider than a terminal: each as its first cell, and the others with what they are.
fn items(sheet: &mut Sheet, table: &Table) {
    for row in &table.rows {
        let said = table.head.iter().zip(row).skip(1).filter(|(_, cell)| *cell != "-");
        let said: Vec<String> = said.map(|(head, cell)| format!("{}: {cell}", head.says)).collect();
        sheet.item(2, "", &row[0]);
        sheet.wrapped(6, &said.join("; "));
    }
}

fn table(sheet: &mut Sheet, indent: usize, table: &Table) {
    for (index, line) in table.lines().into_iter().enumerate() {
        sheet.line(indent, if index == 0 { Tone::Quiet } else { Tone::Plain }, &line);
    }
}
