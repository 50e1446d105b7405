//! From the wire to a link: a row a step, the time of a megabyte; what the step adds or spares is filled.

use super::{figure, tick_time};
use crate::document::{LinkPart, StudyDocument};
use crate::number::{bits, time};
use crate::svg::{Chart, Scale, Size, says_attribute};

/// The figure; nothing without two steps.
pub(crate) fn steps(study: &StudyDocument, caption: &str) -> String {
    if study.parts.len() < 2 {
        return String::new();
    }
    figure("steps", caption, |size| draw(&study.parts, size))
}

fn draw(parts: &[LinkPart], mut size: Size) -> String {
    let row = size.font * 3.6;
    let (left, top, under) = (size.font, size.font * 0.6, size.font * 3.8);
    let bottom = top + row * parts.len() as f64;
    size.height = (bottom + under).ceil();
    let right = size.width - size.font * 2.0;
    let most = parts.iter().map(|part| part.us_per_mb).fold(0.0, f64::max);
    let x = Scale::linear(most, (left, right));
    let mut chart = Chart::new(size, (left, top, right, bottom));
    chart.across(&x, "time a megabyte", tick_time);
    let mut before = 0.0_f64;
    for (index, part) in parts.iter().enumerate() {
        let head = top + row * index as f64 + size.font * 1.2;
        let (upper, lower) = (head + size.font * 0.5, head + size.font * 1.9);
        let says = format!("{}: {}", named(part), bits(part.bit_s / 8.0));
        let room = size.characters(right - left);
        chart.text("step", left, head, &says.chars().take(room).collect::<String>());
        let mut bar = |class: &str, from: f64, to: f64, says: &str| {
            let (from, to) = (x.at(from), x.at(to));
            let corners = [(from, upper), (to, upper), (to, lower), (from, lower), (from, upper)];
            chart.path(class, &corners, &says_attribute(says));
        };
        // What stays of the step before, then what differs; what is spared is dashed by its class.
        bar("bar", 0.0, before.min(part.us_per_mb), &time(part.us_per_mb));
        let class = if part.us_per_mb < before { "segment s2" } else { "segment s1" };
        bar(class, before, part.us_per_mb, &adds(part));
        before = part.us_per_mb;
    }
    let says: Vec<String> =
        parts.iter().map(|part| format!("{}: {}", named(part), adds(part))).collect();
    chart.finish("steps", "From the wire to the link", &says.join("; "))
}

fn named(part: &LinkPart) -> &str {
    if part.series == "wire" { "the wire" } else { &part.says }
}

fn adds(part: &LinkPart) -> String {
    match part.adds_us_per_mb {
        Some(us) if us < 0.0 => format!("{} less", time(-us)),
        Some(us) => format!("{} more", time(us)),
        None => time(part.us_per_mb),
    }
}
