//! A climb: what gave something first.

use super::run;
use super::sheet::{Sheet, Tone};
use crate::document::{ClimbDocument, Step};
use crate::facts;
use crate::number::rate;

pub(super) fn whole(sheet: &mut Sheet, climb: &ClimbDocument) {
    sheet.labelled(
        "CLIMB",
        Tone::Loud,
        &format!("{}: {}", facts::climbed(climb), facts::climb_line(climb)),
    );
    sheet.wrapped(7, &format!("ended: {}", climb.ended));
    super::labels(sheet, climb.steps.first().map(|step| &step.run));
    sheet.gap();
    for (index, step) in climb.steps.iter().enumerate() {
        one(sheet, index, step);
    }
    if !sheet.is_verbose() {
        return;
    }
    for (index, step) in climb.steps.iter().enumerate() {
        sheet.gap();
        sheet.heading(&format!("Step {index}: {}", facts::turned(step)));
        run::whole(sheet, &step.run);
    }
}

/// What a step gave and what holds it, a line each.
fn one(sheet: &mut Sheet, index: usize, step: &Step) {
    let gave = facts::effect_line(step).unwrap_or_else(|| rate(step.run.load.throughput_per_s));
    sheet.item(0, &format!("{index}  "), &format!("{}: {gave}", facts::turned(step)));
    if let Some(because) = facts::outcome(step) {
        sheet.wrapped(3, &because);
    }
    sheet.item(3, "LIMIT  ", &facts::short_limit(&step.run));
}
