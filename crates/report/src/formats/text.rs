//! For the terminal: the verdict first, 80 columns, nothing said by colour alone.

use std::collections::BTreeMap;

use linerate_evidence::ValidityState;
use linerate_roofline::{Advice, Assessed, State};

use crate::breakdown;
use crate::document::{ClimbDocument, Roofline, RunDocument, StudyDocument};
use crate::facts;
use crate::formats::{Format, Look};
use crate::number::rate;
use crate::read::Document;
use crate::table::Table;

mod doctor;
mod sheet;

use sheet::{Sheet, Tone};

pub(super) const FORMAT: Format = Format {
    name: "text",
    extension: "txt",
    says: "For the terminal: the verdict, the figures, the ceilings, the cure.",
    render,
};

fn render(document: &Document, look: &Look) -> String {
    let mut sheet = Sheet::new(*look);
    match document {
        Document::Run(run) => whole_run(&mut sheet, run),
        Document::Climb(climb) => whole_climb(&mut sheet, climb),
        Document::Study(study) => whole_study(&mut sheet, study),
        Document::Doctor(doctor) => doctor::whole(&mut sheet, doctor),
        Document::Predict(of) => told(&mut sheet, &facts::predict(of)),
        Document::WhatIf(of) => told(&mut sheet, &facts::what_if(of)),
    }
    sheet.finish()
}

fn whole_run(sheet: &mut Sheet, run: &RunDocument) {
    head(sheet, run);
    sheet.gap();
    let times = facts::times(run);
    if !times.rows.is_empty() {
        table(sheet, 2, &times);
        sheet.wrapped(2, &facts::times_note(run));
        sheet.gap();
    }
    for part in breakdown::tables(&run.load.breakdown) {
        sheet.heading(&part.caption);
        table(sheet, 2, &part);
        sheet.gap();
    }
    for failure in facts::failures(run) {
        sheet.wrapped(2, &failure);
    }
    sheet.wrapped(2, &format!("warm-up: {}", facts::warm_up(run)));
    ceilings(sheet, &run.roofline, &run.unread);
    cures(sheet, &run.advice);
    sheet.gap();
    sheet.wrapped(2, &format!("engine: {}", facts::engine(run)));
}

/// Whether it may be believed, what held it, how fast it was.
fn head(sheet: &mut Sheet, run: &RunDocument) {
    // Over a run that may not be believed no verdict may stand first.
    if run.validity.state == ValidityState::Void {
        sheet.labelled("VOID", Tone::Alarm, "this run may not be believed");
        reasons(sheet, run);
        sheet.gap();
    }
    sheet.labelled("LIMIT", Tone::Loud, &facts::limit(run));
    if let Some(roof) = facts::binding(run)
        && !roof.because.is_empty()
    {
        sheet.wrapped(7, &roof.because);
    }
    sheet.labelled("RATE", Tone::Loud, &facts::throughput(run));
    sheet.wrapped(7, &facts::setting(run));
    if run.validity.state == ValidityState::Suspect {
        sheet.labelled("SUSPECT", Tone::Alarm, "read these figures with the following in mind");
        reasons(sheet, run);
    }
}

fn reasons(sheet: &mut Sheet, run: &RunDocument) {
    for reason in &run.validity.reasons {
        sheet.item(7, "- ", reason);
    }
}

// Chosen: a ceiling that is a hundred times as high as what is done says nothing but that it is far away.
const FAR: f64 = 100.0;

fn ceilings(sheet: &mut Sheet, roofline: &Roofline, unread: &BTreeMap<String, String>) {
    sheet.gap();
    sheet.heading(&format!("Ceilings ({})", roofline.unit));
    let mut table = Table::new("", &["", ""], &["ceiling", "attained"]);
    let is_far = |roof: &&Assessed| {
        !roof.binds && roof.ceiling.is_some_and(|rate| rate.0 > FAR * roofline.attained)
    };
    let (far, applying): (Vec<_>, Vec<_>) =
        facts::roofs(roofline, State::Ceiling).partition(is_far);
    for roof in &applying {
        let mark = if roof.binds { "binds" } else { "" };
        let row = vec![mark.into(), roof.id.clone(), facts::ceiling(roof), facts::attained(roof)];
        table.rows.push(row);
    }
    let lines = if applying.is_empty() { Vec::new() } else { table.lines() };
    for (index, line) in lines.into_iter().enumerate() {
        match index.checked_sub(1).and_then(|index| applying.get(index)) {
            Some(roof) => {
                sheet.line(2, if roof.binds { Tone::Loud } else { Tone::Plain }, &line);
                sheet.wrapped(9, &roof.sum);
            }
            None => sheet.line(2, Tone::Quiet, &line),
        }
    }
    let aside: Vec<_> = facts::roofs(roofline, State::DoesNotApply).collect();
    for (label, roofs) in [("far away: ", far), ("does not apply: ", aside)] {
        if !roofs.is_empty() {
            let ids: Vec<_> = roofs.iter().map(|roof| roof.id.as_str()).collect();
            sheet.item(2, label, &ids.join(", "));
        }
    }
    for roof in facts::roofs(roofline, State::Unmeasured) {
        sheet.item(2, "unmeasured: ", &format!("{}: {}", roof.id, roof.sum));
    }
    // One reason often keeps several from being read.
    let mut by_reason: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for (source, reason) in unread {
        by_reason.entry(reason).or_default().push(source);
    }
    for (reason, sources) in by_reason {
        sheet.item(2, "not read: ", &format!("{}: {reason}", sources.join(", ")));
    }
}

fn cures(sheet: &mut Sheet, advice: &[Advice]) {
    for advice in advice {
        sheet.gap();
        sheet.labelled("CURE", Tone::Loud, &facts::knob(advice));
        sheet.wrapped(7, &advice.does);
        sheet.wrapped(7, &format!("expect {}", facts::predicted(&advice.predicted)));
        // To be pasted: never wrapped.
        sheet.item_whole(7, "by hand: ", &advice.by_hand);
    }
}

fn whole_climb(sheet: &mut Sheet, climb: &ClimbDocument) {
    sheet.labelled("CLIMB", Tone::Loud, &format!("{}: {}", climb.name, facts::climb_line(climb)));
    for (index, step) in climb.steps.iter().enumerate() {
        sheet.gap();
        sheet.heading(&format!("Step {index}: {}", facts::turned(step)));
        if let Some(effect) = &step.effect {
            let mean = |of: &[f64]| of.iter().sum::<f64>() / of.len().max(1) as f64;
            let (before, after) = (mean(&effect.before_per_s), mean(&effect.after_per_s));
            let text = format!("{} -> {}, {}", rate(before), rate(after), effect.says);
            sheet.labelled("EFFECT", Tone::Loud, &text);
            if let Some(expected) = &effect.predicted_per_s {
                let text =
                    format!("predicted {}: {}", facts::predicted(expected), facts::held(step));
                sheet.wrapped(8, &text);
            }
        }
        if let Some(overlooked) = &step.overlooked {
            sheet.wrapped(8, &format!("the prediction overlooked {overlooked}"));
        }
        head(sheet, &step.run);
        let latency = &step.run.load.latency_us;
        let at = |percentile| facts::value(latency, percentile);
        let text = format!("p50 {}, p99 {}, max {}", at(50.0), at(99.0), at(100.0));
        sheet.item(7, "latency ", &text);
    }
    sheet.gap();
    sheet.heading("Steps");
    let summary = facts::climb(climb);
    // The last column goes under its row: ids are long.
    let mut narrow = Table {
        head: summary.head[..6].to_vec(),
        rows: summary.rows.iter().map(|row| row[..6].to_vec()).collect(),
        ..Table::default()
    };
    narrow.head[0].says = "#".into();
    narrow.head[5].says = String::new();
    for (index, line) in narrow.lines().into_iter().enumerate() {
        sheet.line(2, if index == 0 { Tone::Quiet } else { Tone::Plain }, &line);
        if let Some(row) = index.checked_sub(1).and_then(|index| summary.rows.get(index)) {
            sheet.item(5, "limit: ", &row[6]);
        }
    }
    sheet.gap();
    sheet.wrapped(2, &format!("ended: {}", climb.ended));
}

fn whole_study(sheet: &mut Sheet, study: &StudyDocument) {
    sheet.labelled("STUDY", Tone::Loud, &study.name);
    sheet.wrapped(7, &study.about);
    if let Some(scale) = &study.scale {
        sheet.labelled("SCALE", Tone::Plain, &scale.says);
    }
    let cases = facts::study(study);
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
    if !study.claims.is_empty() {
        sheet.gap();
        sheet.heading("Claims");
    }
    for claim in &study.claims {
        let label = if claim.held { "held      " } else { "NOT HELD  " };
        sheet.item(2, label, &claim.says);
        sheet.wrapped(12, &claim.because);
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

fn table(sheet: &mut Sheet, indent: usize, table: &Table) {
    for (index, line) in table.lines().into_iter().enumerate() {
        sheet.line(indent, if index == 0 { Tone::Quiet } else { Tone::Plain }, &line);
    }
}
