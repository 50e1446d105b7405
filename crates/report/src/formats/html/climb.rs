//! The page of a climb: knob by knob, what was predicted and what came of it.

use std::fmt::Write;

use super::parts;
use crate::document::{ClimbDocument, Step};
use crate::facts;
use crate::figures::{Bar, Curve, Picture, account, ladder, percentiles, roofline};
use crate::svg::escape;

pub(super) fn page(climb: &ClimbDocument) -> String {
    let mut out = parts::masthead("climb", &facts::climbed(climb), &facts::climb_line(climb));
    out += &parts::labels(climb.steps.first().map(|step| &step.run));
    let bars = climb.steps.iter().enumerate();
    let bars = bars.filter_map(|(index, step)| {
        Bar::of_run(&format!("{index}  {}", facts::turned(step)), &step.run)
    });
    out += &account(
        &bars.collect::<Vec<_>>(),
        "Where a request's time goes, a bar a step. The times below are those of the steps, in their order.",
    );
    out += &ladder(
        climb,
        "Each step: from the throughput before (hollow) to the measured one (filled). The bar is what was predicted \
         before the knob was set.",
    );
    out += "<section><h2>Steps</h2>\n";
    out += &parts::table(&facts::climb(climb));
    let _ = writeln!(out, "<p>Ended: {}</p></section>", escape(&climb.ended));
    out += &roofline(
        &Picture::of_climb(climb),
        "Every step, the roof it stood under (dashed), and the ceilings of the last one (solid).",
    );
    let curves: Vec<Curve> = climb
        .steps
        .iter()
        .enumerate()
        .map(|(index, step)| Curve {
            name: format!("step {index}: {}", facts::turned(step)),
            of: &step.run.load.latency_us,
            style: index,
        })
        .collect();
    out += &percentiles(&curves, "Latency by percentile, step by step.");
    for (index, step) in climb.steps.iter().enumerate() {
        out += &one(index, step);
    }
    if let Some(last) = climb.steps.last() {
        out += &parts::setting(&last.run);
    }
    out
}

fn one(index: usize, step: &Step) -> String {
    let mut out = format!(
        "<section class=\"step\"><h2>Step {index}: <code>{}</code></h2>\n",
        escape(&facts::turned(step))
    );
    if let Some(turned) = &step.turned {
        let _ = writeln!(out, "<p>{}</p>", escape(&turned.does));
    }
    if let Some(effect) = &step.effect {
        let _ = write!(out, "<p class=\"effect\">{}", escape(&effect.says));
        if let Some(expected) = &effect.predicted_per_s {
            let _ = write!(
                out,
                "; expected {}: <strong>{}</strong> the interval",
                escape(&facts::predicted(expected)),
                facts::held(step)
            );
        }
        out += "</p>\n";
    }
    if let Some(because) = facts::outcome(step) {
        let _ = writeln!(out, "<p>{}.</p>", escape(&because));
    }
    out += &parts::validity(&step.run);
    out += &parts::verdict(&step.run);
    out += &parts::times(&step.run);
    out += "<details><summary>Ceilings and notes of this step</summary>\n";
    out += &parts::ceilings(&step.run.roofline, &step.run.unread);
    out += &parts::notes(&step.run);
    out + "</details></section>\n"
}
