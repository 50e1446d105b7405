//! For issues, pull requests and notebooks: the text report with tables.

use std::fmt::Write;

use linerate_evidence::ValidityState;
use linerate_roofline::{Advice, State};

use crate::breakdown;
use crate::doctor::DoctorDocument;
use crate::document::{ClimbDocument, Roofline, RunDocument, StudyDocument};
use crate::facts;
use crate::formats::{Format, Look};
use crate::read::Document;
use crate::table::{Side, Table};

pub(super) const FORMAT: Format =
    Format { name: "markdown", extension: "md", says: "For issues and pull requests.", render };

fn render(document: &Document, _: &Look) -> String {
    let mut out = String::new();
    match document {
        Document::Run(run) => {
            let _ = writeln!(out, "# {}\n", escape(&facts::subject(run)));
            labels(&mut out, Some(run));
            captioned(&mut out, &facts::gates(run), &[]);
            whole_run(&mut out, run);
        }
        Document::Climb(climb) => whole_climb(&mut out, climb),
        Document::Study(study) if !study.scan.is_empty() => whole_scan(&mut out, study),
        Document::Study(study) => whole_study(&mut out, study),
        Document::Doctor(doctor) => whole_doctor(&mut out, doctor),
        Document::Predict(of) => told(&mut out, &facts::predict(of)),
        Document::WhatIf(of) => told(&mut out, &facts::what_if(of)),
        Document::Compare(of) => {
            let _ = writeln!(out, "# {}\n", escape(&facts::compared(of)));
            table(&mut out, &facts::compared_figures(of));
            captioned(&mut out, &facts::compared_gates(of), &[]);
            for note in facts::compared_notes(of) {
                let _ = writeln!(out, "- {}", escape(&note));
            }
        }
    }
    out
}

fn whole_run(out: &mut String, run: &RunDocument) {
    validity(out, run);
    let _ = writeln!(out, "**Limit:** {}\n", escape(&facts::limit(run)));
    paragraph(out, &facts::evidence(run));
    if let Some(bar) = facts::time_bar(run) {
        let _ = writeln!(out, "**Time:** {}\n", escape(&bar));
    }
    let _ = writeln!(out, "**Rate:** {}; {}\n", facts::throughput(run), facts::setting(run));
    if let Some(carried) = &run.load.carried {
        let _ = writeln!(out, "**Moved:** {}\n", escape(&carried.says()));
    }
    if let Some(streamed) = &run.load.streamed {
        let _ = writeln!(out, "**Moved:** {}\n", escape(&streamed.says()));
    }
    account(out, run);
    if let Some(did) = facts::did(run) {
        captioned(out, &did, &facts::did_notes(run));
    }
    let times = facts::times(run);
    if !times.rows.is_empty() {
        table(out, &times);
        paragraph(out, &facts::times_note(run));
    }
    captioned(out, &facts::stages(run), &[]);
    captioned(out, &facts::codes(run), &[]);
    for part in breakdown::tables(&run.load.breakdown) {
        paragraph(out, &format!("{}:", part.caption));
        table(out, &part);
    }
    for failure in facts::failures(run) {
        paragraph(out, &failure);
    }
    paragraph(out, &format!("Warm-up: {}", facts::warm_up(run)));
    ceilings(out, &run.roofline);
    cures(out, &run.advice);
    paragraph(out, &format!("Engine: {}", facts::engine(run)));
}

fn account(out: &mut String, run: &RunDocument) {
    if let Some(account) = &run.account {
        let split = facts::account(account, run.inside.as_ref());
        let notes = facts::account_notes(account, run.inside.as_ref());
        captioned(out, &split, &notes);
    }
    if let Some(experiment) = facts::experiment(run) {
        captioned(out, &experiment, &facts::experiment_notes(run));
    }
}

fn captioned(out: &mut String, of: &Table, notes: &[String]) {
    if !of.rows.is_empty() {
        paragraph(out, &format!("{}:", of.caption));
        table(out, of);
    }
    notes.iter().for_each(|note| paragraph(out, note));
}

fn cures(out: &mut String, advice: &[Advice]) {
    for advice in advice {
        let _ = writeln!(out, "**Cure:** `{}`\n", code(&facts::cure_heading(advice)));
        paragraph(out, &advice.does);
        if let Some(expected) = facts::expected(&advice.predicted) {
            paragraph(out, &format!("Expect {expected}."));
        }
        let _ = writeln!(out, "By hand:\n\n    {}\n", line(&advice.by_hand));
    }
}

fn whole_doctor(out: &mut String, doctor: &DoctorDocument) {
    let _ = writeln!(out, "# {}\n", escape(&doctor.watched));
    let (label, answer) = facts::answer(doctor);
    let label = label[..1].to_owned() + &label[1..].to_lowercase();
    let _ = writeln!(out, "**{label}:** {}\n", escape(&answer));
    paragraph(out, facts::because(doctor));
    if let Some(states) = facts::states(doctor) {
        let _ = writeln!(out, "**Where:** {}\n", escape(&states));
    }
    if let Some(account) = &doctor.account {
        let notes = facts::account_notes(account, doctor.inside.as_ref());
        captioned(out, &facts::ports(doctor), &notes);
    }
    let _ = writeln!(out, "**Reads:** {}\n", escape(&facts::reads(doctor)));
    paragraph(out, &facts::watched(doctor));
    if let Some(applied) = &doctor.applied {
        let knob = code(&format!("{}={}", applied.knob, applied.value));
        let _ = writeln!(
            out,
            "**Effect of `{knob}`:** {}\n",
            escape(&facts::doctor_effect(doctor, applied))
        );
        paragraph(out, &applied.says);
    }
    cures(out, &doctor.advice);
    let mut connections = facts::doctor_connections(doctor);
    connections.head.extend(Table::new("", &["says"], &[]).head);
    for (row, of) in connections.rows.iter_mut().zip(&doctor.connections) {
        row.push(format!("{} {}", facts::address(of), facts::options(of)));
    }
    let tables = [
        connections,
        facts::sampled_processes(doctor),
        facts::vitals(doctor, false),
        facts::vitals(doctor, true),
    ];
    for of in tables.iter().filter(|table| !table.rows.is_empty()) {
        let _ = writeln!(out, "## {}\n", escape(&of.caption));
        table(out, of);
    }
    let _ = writeln!(out, "## Ceilings\n");
    ceilings(out, &doctor.roofline);
    if let Some(probe) = &doctor.probe {
        paragraph(out, &format!("The probe took {}.", facts::cost(probe)));
    }
}

fn validity(out: &mut String, run: &RunDocument) {
    let heading = match run.validity.state {
        ValidityState::Valid => return,
        ValidityState::Suspect => "Suspect: read these figures with the following in mind.",
        ValidityState::Void => "Void: this run may not be believed.",
    };
    let _ = writeln!(out, "> **{heading}**");
    for reason in &run.validity.reasons {
        let _ = writeln!(out, "> - {}", escape(reason));
    }
    out.push('\n');
}

fn ceilings(out: &mut String, roofline: &Roofline) {
    let mut ceilings = Table::new("Ceilings", &["roof"], &["ceiling", "attained"]);
    ceilings.head.extend(Table::new("", &["binds", "sum"], &[]).head);
    for roof in facts::ceilings(roofline) {
        let binds = if roof.binds { "binds" } else { "" };
        ceilings.rows.push(vec![
            roof.id.clone(),
            facts::ceiling(roof),
            facts::attained(roof),
            binds.into(),
            roof.sum.clone(),
        ]);
    }
    table(out, &ceilings);
    for (state, says) in
        [(State::DoesNotApply, "Does not apply"), (State::Unmeasured, "Unmeasured")]
    {
        let roofs: Vec<_> = facts::roofs(roofline, state).collect();
        if roofs.is_empty() {
            continue;
        }
        let _ = writeln!(out, "{says}:\n");
        for roof in roofs {
            let _ = writeln!(out, "- {}: {}", escape(&roof.id), escape(&roof.sum));
        }
        out.push('\n');
    }
}

fn whole_climb(out: &mut String, climb: &ClimbDocument) {
    let _ = writeln!(out, "# {}\n", escape(&facts::climbed(climb)));
    labels(out, climb.steps.first().map(|step| &step.run));
    paragraph(out, &facts::climb_line(climb));
    table(out, &facts::climb(climb));
    paragraph(out, &format!("Ended: {}", climb.ended));
    for (index, step) in climb.steps.iter().enumerate() {
        let _ = writeln!(out, "## Step {index}: {}\n", escape(&facts::turned(step)));
        if let Some(effect) = &step.effect {
            paragraph(out, &format!("Effect: {}", effect.says));
        }
        if let Some(because) = facts::outcome(step) {
            paragraph(out, &because);
        }
        whole_run(out, &step.run);
    }
}

fn whole_study(out: &mut String, study: &StudyDocument) {
    let _ = writeln!(out, "# {}\n", escape(&study.name));
    paragraph(out, &study.about);
    if let Some(scale) = &study.scale {
        paragraph(out, &scale.says);
    }
    if study.users.is_none() {
        table(out, &facts::study(study));
    }
    let mut notes = facts::users_notes(study);
    for of in facts::users(study) {
        captioned(out, &of, &std::mem::take(&mut notes));
    }
    captioned(out, &facts::wire(study), &facts::wire_notes(study));
    captioned(out, &facts::parts(study), &[]);
    for account in &study.accounts {
        captioned(out, &facts::link_account(account), &facts::link_account_notes(account));
        if let Some((did, notes)) = facts::did_in_study(study, account) {
            captioned(out, &did, &notes);
        }
    }
    if !study.claims.is_empty() {
        table(out, &facts::claims(study));
    }
}

fn whole_scan(out: &mut String, scan: &StudyDocument) {
    let _ = writeln!(out, "# {}\n", escape(&format!("{}: {}", scan.name, scan.about)));
    labels(out, scan.rows.first().map(|row| &row.run));
    table(out, &facts::scan(scan));
    captioned(out, &facts::study_gates(scan), &[]);
    for note in facts::scan_notes(scan) {
        let _ = writeln!(out, "- {}", escape(&note));
    }
}

/// What the user says of it, where that is anything.
fn labels(out: &mut String, run: Option<&RunDocument>) {
    if let Some(says) = run.and_then(|run| facts::labels(&run.plan.labels)) {
        let _ = writeln!(out, "**Labels:** {}\n", escape(&says));
    }
}

fn told(out: &mut String, told: &facts::Told) {
    let _ = writeln!(out, "# {}\n", escape(&format!("{}: {}", told.kind, told.from)));
    for (label, says) in &told.lines {
        let _ = writeln!(out, "**{}:** {}\n", capitalised(label), escape(says));
    }
    table(out, &told.table);
    let _ = writeln!(out, "Not seen:\n");
    for spot in &told.blind_spots {
        let _ = writeln!(out, "- {}", escape(spot));
    }
}

fn capitalised(label: &str) -> String {
    label[..1].to_owned() + &label[1..].to_lowercase()
}

fn paragraph(out: &mut String, says: &str) {
    if says.is_empty() {
        return;
    }
    let _ = writeln!(out, "{}\n", escape(says));
}

fn table(out: &mut String, table: &Table) {
    let row = |cells: Vec<String>| format!("| {} |\n", cells.join(" | "));
    *out += &row(table.head.iter().map(|head| escape(&head.says)).collect());
    let rule = |side| if side == Side::Right { "---:" } else { "---" };
    *out += &row(table.head.iter().map(|head| rule(head.side).to_owned()).collect());
    for cells in &table.rows {
        *out += &row(cells.iter().map(|cell| escape(cell)).collect());
    }
    out.push('\n');
}

/// Text that means nothing to Markdown or HTML.
fn escape(says: &str) -> String {
    let mut out = String::new();
    for c in line(says).chars() {
        match c {
            '<' => out += "&lt;",
            '>' => out += "&gt;",
            '&' => out += "&amp;",
            '\\' | '`' | '*' | '_' | '[' | ']' | '|' | '#' => {
                out.push('\\');
                out.push(c);
            }
            _ => out.push(c),
        }
    }
    out
}

/// Within backquotes only the backquote has a meaning.
fn code(says: &str) -> String {
    line(says).replace('`', "'")
}

fn line(says: &str) -> String {
    says.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_server_calls_itself_is_only_text() {
        assert_eq!(
            escape("<script>|`x`\n# y</script>"),
            "&lt;script&gt;\\|\\`x\\` \\# y&lt;/script&gt;"
        );
    }
}
