//! The account: a request's time as one bar, station by station; of a climb a bar a step.
//!
//! Each segment has a number, which its line below has too: nothing is told by colour alone.

use linerate_account::Station;

use super::figure;
use crate::account::{Account, Inside};
use crate::document::RunDocument;
use crate::number::{seconds, share};
use crate::segments::{Segment, segments};
use crate::svg::{Chart, Scale, Size, says_attribute};

/// One bar.
pub(crate) struct Bar {
    name: String,
    seconds: f64,
    segments: Vec<Segment>,
}

impl Bar {
    /// Of an account that is split and has times.
    pub(crate) fn new(name: &str, account: &Account, inside: Option<&Inside>) -> Option<Self> {
        let all = account.seconds().filter(|all| *all > 0.0)?;
        let mut found = segments(account, inside);
        if found.is_empty() {
            return None;
        }
        let seen: f64 = found.iter().map(|segment| segment.seconds).sum();
        let rest = Segment {
            station: Station::Brief,
            label: "not placed".into(),
            seconds: (all - seen).max(0.0),
        };
        found.push(rest);
        // Chosen: thinner than a pixel.
        found.retain(|segment| segment.seconds > 0.001 * all);
        Some(Self { name: name.to_owned(), seconds: all, segments: found })
    }

    /// A run's.
    pub(crate) fn of_run(name: &str, run: &RunDocument) -> Option<Self> {
        Self::new(name, run.account.as_ref()?, run.inside.as_ref())
    }
}

/// The figure; nothing without a bar.
pub(crate) fn account(bars: &[Bar], caption: &str) -> String {
    if bars.is_empty() {
        return String::new();
    }
    figure("account", caption, |size| draw(bars, size))
}

fn draw(bars: &[Bar], mut size: Size) -> String {
    // Every segment of every bar once, in the order in which they are met.
    let mut labels: Vec<&str> = Vec::new();
    for segment in bars.iter().flat_map(|bar| &bar.segments) {
        if !labels.contains(&segment.label.as_str()) {
            labels.push(&segment.label);
        }
    }
    let row = size.font * 4.4;
    let (left, top) = (size.font, size.font * 0.6);
    let right = size.width - size.font;
    let bottom = top + row * bars.len() as f64;
    let legend = bottom + size.font * 4.6;
    size.height = (legend + size.line() * 1.15 * labels.len() as f64).ceil();
    let mut chart = Chart::new(size, (left, top, right, bottom));
    let x = Scale::linear_exact(0.0, 1.0, (left, right));
    chart.across(&x, "of a request's time", share);
    for (index, bar) in bars.iter().enumerate() {
        let head = top + row * index as f64 + size.font * 1.2;
        let room = size.characters(right - left);
        let says = format!("{}: {}", bar.name, seconds(bar.seconds));
        chart.text("step", left, head, &says.chars().take(room).collect::<String>());
        let (upper, lower) = (head + size.font * 0.6, head + size.font * 2.4);
        let mut at = 0.0;
        for segment in &bar.segments {
            let part = segment.seconds / bar.seconds;
            let (from, to) = (x.at(at), x.at((at + part).min(1.0)));
            at += part;
            let number = labels.iter().position(|of| *of == segment.label).unwrap_or(0);
            let says = format!("{}: {} ({})", segment.label, seconds(segment.seconds), share(part));
            let class = format!("segment s{}", number % 6);
            let corners = [(from, upper), (to, upper), (to, lower), (from, lower), (from, upper)];
            chart.path(&class, &corners, &says_attribute(&says));
            let name = (number + 1).to_string();
            if to - from > size.font * (0.7 * name.len() as f64 + 0.5) {
                let middle = (from + to) / 2.0;
                chart.text(
                    "inside middle",
                    middle,
                    (upper + lower) / 2.0 + size.font * 0.36,
                    &name,
                );
            }
        }
    }
    for (number, label) in labels.iter().enumerate() {
        let y = legend + size.line() * 1.15 * number as f64;
        let times = bars.iter().map(|bar| {
            let of = bar.segments.iter().find(|segment| segment.label == **label);
            of.map_or_else(|| "-".into(), |segment| seconds(segment.seconds))
        });
        let says = format!("{}  {label}: {}", number + 1, times.collect::<Vec<_>>().join(", "));
        let side = size.font * 0.8;
        let class = format!("segment s{}", number % 6);
        let (upper, right) = (y - side, left + side);
        let corners = [(left, upper), (right, upper), (right, y), (left, y), (left, upper)];
        chart.path(&class, &corners, "");
        let room = size.characters(size.width - left - side * 2.0);
        let says: String = says.chars().take(room).collect();
        chart.text("legend", left + side * 1.6, y, &says);
    }
    let says: Vec<String> = bars
        .iter()
        .map(|bar| {
            let parts = bar.segments.iter();
            let parts = parts.map(|of| format!("{} {}", of.label, seconds(of.seconds)));
            format!("{}: {}", bar.name, parts.collect::<Vec<_>>().join(", "))
        })
        .collect();
    chart.finish("account", "Where a request's time goes", &says.join("; "))
}
