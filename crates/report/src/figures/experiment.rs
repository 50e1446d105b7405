//! The experiment: throughput over connections, measured with its intervals, and the model's curve.

use super::{figure, tick_rate};
use crate::experiment::{Experiment, Tried};
use crate::number::rate;
use crate::svg::{Chart, Label, Scale, Size, wrap};

/// The figure; nothing without a curve and a second point.
pub(crate) fn experiment(of: Option<&Experiment>, caption: &str) -> String {
    let Some(of) = of.filter(|of| of.modelled.len() > 1 && points(of).len() > 1) else {
        return String::new();
    };
    figure("experiment", caption, |size| draw(of, size))
}

fn points(of: &Experiment) -> Vec<(&'static str, Tried)> {
    let half = of.half.map(|half| Tried {
        connections: half.connections,
        per_s: half.measured_per_s,
        interval: half.interval,
    });
    let all =
        [("alone", of.alone), ("half", half), ("all", Some(of.full)), ("all again", of.again)];
    all.into_iter().filter_map(|(name, tried)| Some((name, tried?))).collect()
}

fn draw(of: &Experiment, size: Size) -> String {
    let left = size.font * 3.6;
    let (top, right) = (size.font * 3.0, size.width - size.gutter);
    let bottom = size.height - size.font * 3.8;
    let points = points(of);
    let highest = points.iter().map(|(_, tried)| tried.interval[1].max(tried.per_s));
    let highest = highest.chain(of.modelled.iter().map(|point| point.per_s.high.0));
    let highest = highest.fold(0.0, f64::max);
    let x = Scale::linear(f64::from(of.full.connections) * 1.05, (left, right));
    let y = Scale::linear(highest, (bottom, top));
    let mut chart = Chart::new(size, (left, top, right, bottom));
    chart.axes((&x, "connections", tick_rate), (&y, "exchanges/s", tick_rate));
    let at = |connections: u32, per_s: f64| (x.at(f64::from(connections)), y.at(per_s));
    let low = of.modelled.iter().map(|point| at(point.connections, point.per_s.low.0));
    let high = of.modelled.iter().rev().map(|point| at(point.connections, point.per_s.high.0));
    chart.path("under", &low.chain(high).collect::<Vec<_>>(), "");
    let line = of.modelled.iter().map(|point| at(point.connections, point.per_s.mid.0));
    chart.path("curve s1 d1", &line.collect::<Vec<_>>(), "");
    for (shape, (name, tried)) in points.iter().enumerate() {
        let [from, to] = tried.interval.map(|end| at(tried.connections, end));
        chart.path("curve s0", &[from, to], "");
        let says = format!(
            "{name}: {} with {} ({} to {})",
            rate(tried.per_s),
            crate::facts::connections(tried.connections),
            rate(tried.interval[0]),
            rate(tried.interval[1])
        );
        chart.mark("s0", shape, at(tried.connections, tried.per_s), &says);
    }
    let room = size.characters(size.gutter - size.font * 1.6);
    let label = |wants, title: &str, rest: String, class: &str| Label {
        wants,
        title: wrap(title, room),
        rest: wrap(&rest, room),
        class: format!("series {class}"),
    };
    let mut labels = vec![label(y.at(of.full.per_s), "measured", rate(of.full.per_s), "s0")];
    if let Some(last) = of.modelled.last() {
        let expected = rate(last.per_s.mid.0);
        labels.push(label(y.at(last.per_s.mid.0), "model (dashed)", expected, "s1"));
    }
    chart.gutter(&labels);
    let said: Vec<String> = points
        .iter()
        .map(|(name, tried)| format!("{name} ({}): {}", tried.connections, rate(tried.per_s)))
        .collect();
    chart.finish("experiment", "Throughput over connections", &said.join("; "))
}
