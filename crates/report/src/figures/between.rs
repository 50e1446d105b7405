//! What moves between nodes over what a message carries: throughput of each series, what was published of it, and the
//! wire; and the messages a second that it is.

use super::{figure, tick_rate};
use crate::document::{StudyDocument, StudyRow};
use crate::number::{bits, rate};
use crate::svg::{Chart, Label, Scale, Size, wrap};

/// Points of one name.
struct Line {
    name: String,
    /// Case, value.
    points: Vec<(f64, f64)>,
    published: bool,
    shape: usize,
}

/// What a figure is of.
struct Of {
    id: &'static str,
    title: &'static str,
    axis: &'static str,
    tick: fn(f64) -> String,
    says: fn(f64) -> String,
    /// The vertical axis, from the lowest and highest value.
    scale: fn(f64, f64, (f64, f64)) -> Scale,
}

const THROUGHPUT: Of = Of {
    id: "between",
    title: "Throughput by what a message carries",
    axis: "Gbit/s",
    tick: |bit_s| format!("{}", bit_s / 1e9),
    says: |bit_s| bits(bit_s / 8.0),
    scale: |_, most, range| Scale::linear(most * 1.05, range),
};

/// From messages of some bytes to those of many megabytes are decades.
const MESSAGES: Of = Of {
    id: "messages",
    title: "Messages a second by what each carries",
    axis: "messages/s",
    tick: tick_rate,
    says: rate,
    scale: Scale::log,
};

/// Throughput; nothing when nothing was moved.
pub(crate) fn between(study: &StudyDocument, caption: &str) -> String {
    whole(&THROUGHPUT, study, &lines(study), caption)
}

/// Messages a second; nothing when nothing was moved.
pub(crate) fn messages(study: &StudyDocument, caption: &str) -> String {
    whole(
        &MESSAGES,
        study,
        &measured(study, |row| Some(row.run.load.carried.as_ref()?.messages_per_s)),
        caption,
    )
}

fn whole(of: &Of, study: &StudyDocument, lines: &[Line], caption: &str) -> String {
    if lines.is_empty() {
        return String::new();
    }
    let x = study.cases.as_deref().unwrap_or("case");
    figure(of.id, caption, |size| draw(of, lines, x, size))
}

fn names(study: &StudyDocument) -> Vec<&str> {
    let mut names: Vec<&str> = Vec::new();
    for row in &study.rows {
        if !names.contains(&row.series.as_str()) {
            names.push(&row.series);
        }
    }
    names
}

fn points(
    study: &StudyDocument,
    name: &str,
    value: fn(&StudyRow) -> Option<f64>,
) -> Vec<(f64, f64)> {
    let rows = study.rows.iter().filter(|row| row.series == name);
    rows.filter_map(|row| Some((f64::from(row.case?), value(row)?))).collect()
}

/// A line of each series that has several cases.
fn measured(study: &StudyDocument, value: fn(&StudyRow) -> Option<f64>) -> Vec<Line> {
    let lines = names(study).into_iter().map(|name| (name, points(study, name, value)));
    let lines = lines.filter(|(_, points)| points.len() > 1).enumerate();
    let line = |(shape, (name, points)): (usize, (&str, _))| Line {
        name: name.into(),
        points,
        published: false,
        shape,
    };
    lines.map(line).collect()
}

/// With what was published behind each, and the wire.
fn lines(study: &StudyDocument) -> Vec<Line> {
    let mut lines = Vec::new();
    for line in measured(study, |row| row.measured_bit_s) {
        let points = points(study, &line.name, |row| row.published_bit_s);
        let (name, shape) = (format!("{}, published", line.name), line.shape);
        lines.push(line);
        if !points.is_empty() {
            lines.push(Line { name, points, published: true, shape });
        }
    }
    let wire: Vec<_> = study.wire.iter().map(|wire| (f64::from(wire.case), wire.bit_s)).collect();
    if wire.len() > 1 {
        let shape = lines.iter().filter(|line| !line.published).count();
        let ends = wire.iter().map(|(case, _)| *case);
        if let Some(bit_s) = study.published_wire_bit_s {
            let points = ends.map(|case| (case, bit_s)).collect();
            lines.push(Line { name: "the wire, published".into(), points, published: true, shape });
        }
        lines.push(Line { name: "the wire".into(), points: wire, published: false, shape });
    }
    lines
}

fn draw(of: &Of, lines: &[Line], of_x: &str, mut size: Size) -> String {
    let all = || lines.iter().flat_map(|line| &line.points);
    let low = all().map(|at| at.0).fold(f64::INFINITY, f64::min);
    let high = all().map(|at| at.0).fold(0.0, f64::max);
    let least = all().map(|at| at.1).fold(f64::INFINITY, f64::min);
    let most = all().map(|at| at.1).fold(0.0, f64::max);
    let room = size.characters(size.gutter - size.font * 1.6);
    let labels = |y: &Scale| -> Vec<Label> {
        let labels = lines.iter().filter_map(|line| {
            let last = line.points.last()?;
            Some(Label {
                wants: y.at(last.1),
                title: wrap(&line.name, room),
                rest: vec![(of.says)(last.1)],
                class: format!("series s{}", line.shape % 6),
            })
        });
        labels.collect()
    };
    let (left, top) = (size.font * 3.6, size.font * 3.0);
    let (right, under) = (size.width - size.gutter, size.font * 3.8);
    let draft = labels(&(of.scale)(least, most, (1.0, 0.0)));
    size.height = size.height.max(Chart::room(&size, &draft) + top + under).ceil();
    let bottom = size.height - under;
    let x = Scale::log(low, high, (left, right));
    let y = (of.scale)(least, most, (bottom, top));
    let mut chart = Chart::new(size, (left, top, right, bottom));
    chart.axes((&x, of_x, tick_rate), (&y, of.axis, of.tick));
    for line in lines {
        let published = if line.published { " published" } else { "" };
        let class = format!("s{}{published}", line.shape % 6);
        let places: Vec<(f64, f64)> =
            line.points.iter().map(|(case, value)| (x.at(*case), y.at(*value))).collect();
        chart.path(&format!("curve {class}"), &places, "");
        for ((case, value), at) in line.points.iter().zip(&places) {
            let says = format!("{}: {} at {}", line.name, (of.says)(*value), tick_rate(*case));
            chart.mark(&class, line.shape, *at, &says);
        }
    }
    chart.gutter(&labels(&y));
    let says: Vec<String> = lines
        .iter()
        .map(|line| {
            let points = line.points.iter();
            let points = points
                .map(|(case, value)| format!("{} at {}", (of.says)(*value), tick_rate(*case)));
            format!("{}: {}", line.name, points.collect::<Vec<_>>().join(", "))
        })
        .collect();
    chart.finish(of.id, of.title, &says.join(". "))
}
