//! One run.

use linerate_evidence::ValidityState;

use super::ceilings::{CureLines, ceilings, cures, first_cure};
use super::sheet::{Sheet, Tone};
use super::table;
use crate::breakdown;
use crate::document::RunDocument;
use crate::facts;

/// What a screen has beside other things.
// Chosen: what can be read at a glance.
const LINES: usize = 15;

/// How often the answer may be made shorter.
const SHORTEST: usize = 6;

pub(super) fn whole(sheet: &mut Sheet, run: &RunDocument) {
    if !sheet.is_verbose() {
        sheet.fit(LINES, SHORTEST, |sheet, left_out| answer(sheet, run, left_out));
        stages(sheet, run);
        return;
    }
    answer(sheet, run, 0);
    stages(sheet, run);
    cures(sheet, &run.advice);
    sheet.gap();
    if let Some(account) = &run.account {
        let split = facts::account(account, run.inside.as_ref());
        if !split.rows.is_empty() {
            sheet.heading(&split.caption);
            table(sheet, 2, &split);
        }
        for note in facts::account_notes(account, run.inside.as_ref()) {
            sheet.wrapped(2, &note);
        }
        sheet.gap();
    }
    if let Some(experiment) = facts::experiment(run) {
        sheet.heading(&experiment.caption);
        table(sheet, 2, &experiment);
        for note in facts::experiment_notes(run) {
            sheet.wrapped(2, &note);
        }
        sheet.gap();
    }
    let times = facts::times(run);
    if !times.rows.is_empty() {
        table(sheet, 2, &times);
        sheet.wrapped(2, &facts::times_note(run));
        sheet.gap();
    }
    if let Some(did) = facts::did(run) {
        sheet.heading(&did.caption);
        table(sheet, 2, &did);
        facts::did_notes(run).iter().for_each(|note| sheet.wrapped(2, note));
        sheet.gap();
    }
    let codes = facts::codes(run);
    if !codes.rows.is_empty() {
        sheet.heading(&codes.caption);
        table(sheet, 2, &codes);
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
    sheet.gap();
    sheet.wrapped(2, &format!("engine: {}", facts::engine(run)));
}

fn stages(sheet: &mut Sheet, run: &RunDocument) {
    let stages = facts::stages(run);
    if !stages.rows.is_empty() {
        sheet.gap();
        sheet.heading(&stages.caption);
        table(sheet, 2, &stages);
    }
}

/// Whether it may be believed, what held it, where the time is, what lifts it, how fast it was, what is
/// next; the less of it, the more must be left out.
fn answer(sheet: &mut Sheet, run: &RunDocument, left_out: usize) {
    let is_verbose = sheet.is_verbose();
    let all = |lines: usize| if is_verbose { usize::MAX } else { lines };
    // Over a run that may not be believed no verdict may stand first.
    let label = match run.validity.state {
        ValidityState::Valid => None,
        ValidityState::Suspect => Some("SUSPECT"),
        ValidityState::Void => {
            sheet.labelled("VOID", Tone::Alarm, "this run may not be believed");
            Some("")
        }
    };
    match label {
        Some(label) if is_verbose => {
            sheet.clauses(label, Tone::Alarm, &run.validity.reasons.join("; "), usize::MAX);
        }
        Some(label) => sheet.clauses(label, Tone::Alarm, &facts::doubt(run), 2),
        None => {}
    }
    sheet.labelled("LIMIT", Tone::Loud, &facts::limit(run));
    let evidence = [3, 3, 2, 2, 1, 1, 0][left_out.min(SHORTEST)];
    if evidence > 0 {
        sheet.clauses("", Tone::Plain, &facts::evidence(run), all(evidence));
    }
    if let Some(half) = facts::half_of_them(run) {
        sheet.labelled("MODEL", Tone::Alarm, &half);
    } else if let (Some(says), true) = (facts::inconclusive(run), left_out < 1) {
        sheet.labelled("MODEL", Tone::Plain, &says);
    }
    if let Some(bar) = facts::time_bar(run) {
        sheet.labelled("TIME", Tone::Loud, &bar);
    }
    let lines = if left_out < 4 { CureLines::WithByHand } else { CureLines::Knob };
    if !is_verbose {
        first_cure(sheet, &run.advice, &run.roofline, lines);
    }
    sheet.labelled("RATE", Tone::Loud, &facts::rate_line(run));
    if let Some(carried) = &run.load.carried {
        sheet.labelled("MOVED", Tone::Plain, &carried.says());
    }
    if let Some(streamed) = &run.load.streamed {
        sheet.labelled("MOVED", Tone::Plain, &streamed.says());
    }
    if left_out < 3 {
        sheet.wrapped(7, &facts::setting(run));
    }
    if !is_verbose {
        sheet.clauses("", Tone::Plain, &facts::failures(run).join("; "), 1);
    }
    if let Some(name) = run.plan.given_name() {
        sheet.labelled("NAME", Tone::Plain, name);
    }
    super::labels(sheet, Some(run));
    let next = facts::next(&run.roofline);
    if !next.is_empty() && left_out < SHORTEST {
        sheet.labelled("NEXT", Tone::Plain, &next);
    }
}
