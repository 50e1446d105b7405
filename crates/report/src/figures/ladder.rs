//! The climb: a row a step, what was predicted as a bar, what was measured as a dot.

use super::{figure, tick_rate};
use crate::document::{ClimbDocument, Step};
use crate::facts;
use crate::number::{rate, ratio};
use crate::svg::{Chart, Scale, Size};

/// The figure.
pub(crate) fn ladder(climb: &ClimbDocument, caption: &str) -> String {
    figure("ladder", caption, |size| draw(climb, size))
}

fn draw(climb: &ClimbDocument, mut size: Size) -> String {
    let row = size.font * 6.6;
    let (left, top, under) = (size.font * 1.6, size.font * 0.6, size.font * 3.8);
    size.height = (top + under + row * climb.steps.len() as f64).ceil();
    let (right, bottom) = (size.width - size.font * 1.6, size.height - under);
    let measured = |step: &Step| step.run.load.throughput_per_s;
    let predicted = |step: &Step| step.effect.as_ref().and_then(|effect| effect.predicted_per_s);
    let all: Vec<f64> = climb
        .steps
        .iter()
        .flat_map(|step| {
            let ends = predicted(step).map(|of| [of.low.0, of.high.0]).into_iter().flatten();
            ends.chain([measured(step)])
        })
        .filter(|value| *value > 0.0 && value.is_finite())
        .collect();
    let x = Scale::log(
        all.iter().copied().fold(f64::INFINITY, f64::min) / 1.3,
        all.iter().copied().fold(0.0, f64::max) * 1.3,
        (left, right),
    );
    let mut chart = Chart::new(size, (left, top, right, bottom));
    chart.across(&x, "exchanges/s", tick_rate);

    let mut before: Option<f64> = None;
    for (index, step) in climb.steps.iter().enumerate() {
        let head = top + row * index as f64 + size.font * 1.5;
        let middle = head + size.font * 2.9;
        let outcome = match step.prediction_held {
            Some(true) => "inside the predicted interval",
            Some(false) => "outside the predicted interval",
            None => "nothing was predicted",
        };
        let room = size.characters(right - left);
        let turned = format!("{index}  {}", facts::turned(step));
        chart.text("step", left, head, &turned.chars().take(room).collect::<String>());
        if let Some(effect) = &step.effect {
            let against = format!("{}, {outcome}", ratio(effect.ratio));
            chart.text("name", left, head + size.line(), &against);
        }
        let now = measured(step);
        if let Some(expected) = predicted(step) {
            let half = size.font * 0.45;
            let (from, to) = (x.at(expected.low.0), x.at(expected.high.0));
            let said =
                crate::svg::says_attribute(&format!("predicted {}", facts::predicted(&expected)));
            chart.area("predicted", (from, middle - half), (to, middle + half), &said);
            if !expected.is_bound() {
                let mid = x.at(expected.mid.0);
                let mark = [(mid, middle - half * 1.7), (mid, middle + half * 1.7)];
                chart.path("expected", &mark, "");
            }
        }
        if let Some(before) = before {
            chart.path("lead s0", &[(x.at(before), middle), (x.at(now), middle)], "");
            chart.mark(
                "s0 published",
                0,
                (x.at(before), middle),
                &format!("before: {}", rate(before)),
            );
        }
        let class = if step.prediction_held == Some(false) { "bad" } else { "s0" };
        chart.mark(class, 0, (x.at(now), middle), &format!("measured {}", rate(now)));
        let words = size.font * 0.62 * rate(now).chars().count() as f64;
        // Beside the dot, on the side that has room.
        let at = x.at(now);
        if at + words + size.font * 1.2 < right {
            chart.text("value", at + size.font * 0.8, middle + size.font * 1.6, &rate(now));
        } else {
            chart.text("value end", at + size.font * 0.4, middle + size.font * 1.6, &rate(now));
        }
        before = Some(now);
    }
    let says: Vec<String> = climb
        .steps
        .iter()
        .map(|step| format!("{}: {}", facts::turned(step), rate(measured(step))))
        .collect();
    chart.finish("ladder", "The climb", &says.join("; "))
}
