//! Throughput between nodes over what a message carries: each series, what was published of it, the wire.

use super::{figure, tick_rate};
use crate::document::{StudyDocument, StudyRow};
use crate::number::bits;
use crate::svg::{Chart, Label, Scale, Size, wrap};

/// Points of one name.
struct Line {
    name: String,
    /// Case, bit/s.
    points: Vec<(f64, f64)>,
    published: bool,
    shape: usize,
}

/// The figure; nothing when nothing was moved.
pub(crate) fn between(study: &StudyDocument, caption: &str) -> String {
    let lines = lines(study);
    if lines.is_empty() {
        return String::new();
    }
    let x = study.cases.as_deref().unwrap_or("case");
    figure("between", caption, |size| draw(&lines, x, size))
}

/// Only what has several cases is a line.
fn lines(study: &StudyDocument) -> Vec<Line> {
    let mut names: Vec<&str> = Vec::new();
    for row in &study.rows {
        if !names.contains(&row.series.as_str()) {
            names.push(&row.series);
        }
    }
    let mut lines = Vec::new();
    for name in names {
        let of = |bit_s: fn(&StudyRow) -> Option<f64>| -> Vec<(f64, f64)> {
            let rows = study.rows.iter().filter(|row| row.series == name);
            rows.filter_map(|row| Some((f64::from(row.case?), bit_s(row)?))).collect()
        };
        let shape = lines.iter().filter(|line: &&Line| !line.published).count();
        let measured = of(|row| row.measured_bit_s);
        if measured.len() > 1 {
            lines.push(Line { name: name.into(), points: measured, published: false, shape });
            let published = of(|row| row.published_bit_s);
            if !published.is_empty() {
                let name = format!("{name}, published");
                lines.push(Line { name, points: published, published: true, shape });
            }
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

fn draw(lines: &[Line], of_x: &str, mut size: Size) -> String {
    let all = || lines.iter().flat_map(|line| &line.points);
    let low = all().map(|at| at.0).fold(f64::INFINITY, f64::min);
    let high = all().map(|at| at.0).fold(0.0, f64::max);
    let most = all().map(|at| at.1).fold(0.0, f64::max);
    let room = size.characters(size.gutter - size.font * 1.6);
    let labels = |y: &Scale| -> Vec<Label> {
        let of = lines.iter().filter_map(|line| {
            let last = line.points.last()?;
            Some(Label {
                wants: y.at(last.1),
                title: wrap(&line.name, room),
                rest: vec![bits(last.1 / 8.0)],
                class: format!("series s{}", line.shape % 6),
            })
        });
        of.collect()
    };
    let (left, top) = (size.font * 3.6, size.font * 3.0);
    let (right, under) = (size.width - size.gutter, size.font * 3.8);
    let draft = labels(&Scale::linear(most, (1.0, 0.0)));
    size.height = size.height.max(Chart::room(&size, &draft) + top + under).ceil();
    let bottom = size.height - under;
    let x = Scale::log(low, high, (left, right));
    let y = Scale::linear(most * 1.05, (bottom, top));
    let mut chart = Chart::new(size, (left, top, right, bottom));
    chart.axes((&x, of_x, tick_rate), (&y, "Gbit/s", |bit_s| format!("{}", bit_s / 1e9)));
    for line in lines {
        let published = if line.published { " published" } else { "" };
        let class = format!("s{}{published}", line.shape % 6);
        let places: Vec<(f64, f64)> =
            line.points.iter().map(|(case, bit_s)| (x.at(*case), y.at(*bit_s))).collect();
        chart.path(&format!("curve {class}"), &places, "");
        for ((case, bit_s), at) in line.points.iter().zip(&places) {
            let says = format!("{}: {} at {}", line.name, bits(bit_s / 8.0), tick_rate(*case));
            chart.mark(&class, line.shape, *at, &says);
        }
    }
    chart.gutter(&labels(&y));
    let says: Vec<String> = lines
        .iter()
        .map(|line| {
            let points = line.points.iter();
            let points = points
                .map(|(case, bit_s)| format!("{} at {}", bits(bit_s / 8.0), tick_rate(*case)));
            format!("{}: {}", line.name, points.collect::<Vec<_>>().join(", "))
        })
        .collect();
    chart.finish("between", "Throughput by what a message carries", &says.join(". "))
}
