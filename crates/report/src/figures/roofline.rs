//! The roofline: throughput over connections, both logarithmic, and every ceiling over it.
//!
//! A ceiling that each connection has for itself (a stall, a window, a round trip) grows with their
//! number and is a slanted line; one that all share (CPU, the offered rate) is level.
//! Source: after Williams, Waterman and Patterson, "Roofline", 2009.

use linerate_roofline::{Assessed, State};

use super::{figure, tick_rate};
use crate::document::{ClimbDocument, RunDocument, StudyDocument};
use crate::facts;
use crate::number::rate;
use crate::svg::{Chart, Label, Scale, Size, says_attribute, wrap};

/// What is to be drawn.
#[derive(Default)]
pub(crate) struct Picture {
    lines: Vec<Line>,
    groups: Vec<Group>,
    /// Whether the lines are one state's: then what lies under all of them can be shaded.
    one_state: bool,
}

struct Line {
    id: String,
    title: String,
    ceiling: f64,
    /// Where the ceiling was computed.
    connections: f64,
    sum: String,
    binds: bool,
    stroke: Stroke,
}

/// How a ceiling is drawn.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Stroke {
    /// What holds the state that the picture is about.
    Loud,
    /// Another ceiling of it.
    Plain,
    /// What held the group of that number: in its colour.
    Group(usize),
}

/// Points that belong together.
struct Group {
    name: String,
    points: Vec<Point>,
    published: bool,
    shape: usize,
}

struct Point {
    connections: f64,
    per_s: f64,
}

impl Picture {
    /// One run under all its ceilings.
    pub(crate) fn of_run(run: &RunDocument) -> Self {
        let lines = ceilings(run).map(|roof| Line::new(roof, run, None)).collect();
        let group = Group {
            name: "this run".into(),
            points: vec![Point::of(run)],
            published: false,
            shape: 0,
        };
        Self { lines, groups: vec![group], one_state: true }
    }

    /// Every step, the roof that held it, and all ceilings of the last one.
    pub(crate) fn of_climb(climb: &ClimbDocument) -> Self {
        let mut picture = Self::default();
        let last = climb.steps.len().saturating_sub(1);
        for (index, step) in climb.steps.iter().enumerate() {
            let run = &step.run;
            let by = facts::binding(run).map(|roof| roof.id.as_str());
            for roof in ceilings(run) {
                if index == last || Some(roof.id.as_str()) == by {
                    let group = (index != last).then_some(index);
                    picture.lines.push(Line::new(roof, run, group));
                }
            }
            picture.groups.push(Group {
                name: format!("step {index}: {}", facts::turned(step)),
                points: vec![Point::of(run)],
                published: false,
                shape: index,
            });
        }
        picture
    }

    /// Every series, measured and published, and the roof that held its largest case.
    pub(crate) fn of_study(study: &StudyDocument) -> Self {
        let mut picture = Self::default();
        for row in &study.rows {
            if picture.groups.iter().any(|group| group.name == row.series) {
                continue;
            }
            let shape = picture.groups.iter().filter(|group| !group.published).count();
            let mut rows: Vec<_> =
                study.rows.iter().filter(|other| other.series == row.series).collect();
            rows.sort_by_key(|row| row.connections);
            let measured = rows.iter().map(|row| Point {
                connections: f64::from(row.connections),
                per_s: row.run.load.throughput_per_s,
            });
            let published = rows.iter().filter_map(|row| {
                let factor = row.published_connections.and(study.scale.as_ref());
                let per_s = row.published_per_s? * factor.map_or(1.0, |scale| scale.factor);
                Some(Point { connections: f64::from(row.connections), per_s })
            });
            let group = |points, name, published| Group { name, points, published, shape };
            picture.groups.push(group(measured.collect(), row.series.clone(), false));
            let published: Vec<Point> = published.collect();
            if !published.is_empty() {
                let name = format!("{}, published", row.series);
                picture.groups.push(group(published, name, true));
            }
            // A roof may hold the few-connection cases and another the rest: each where it binds last.
            let mut seen = Vec::new();
            for row in rows.iter().rev() {
                if let Some(roof) = facts::binding(&row.run)
                    && roof.ceiling.is_some()
                    && !seen.contains(&roof.id)
                {
                    seen.push(roof.id.clone());
                    picture.lines.push(Line::new(roof, &row.run, Some(shape)));
                }
            }
        }
        picture
    }

    fn x(&self, range: (f64, f64)) -> Scale {
        let points = || self.groups.iter().flat_map(|group| &group.points);
        let low = points().map(|point| point.connections).fold(f64::INFINITY, f64::min);
        let high = points().map(|point| point.connections).fold(1.0, f64::max);
        // Room on both sides, so that a slanted line is seen to slant.
        Scale::log((low / 5.0).max(1.0), high * 3.0, range)
    }

    fn y(&self, x: &Scale, range: (f64, f64)) -> Scale {
        let (left, right) = x.domain();
        let ends = self.lines.iter().flat_map(|line| [line.at(left), line.at(right)]);
        let points = self.groups.iter().flat_map(|group| &group.points).map(|point| point.per_s);
        let all: Vec<f64> = ends.chain(points).filter(|value| *value > 0.0).collect();
        let low = all.iter().copied().fold(f64::INFINITY, f64::min);
        let high = all.iter().copied().fold(0.0, f64::max);
        Scale::log(low / 1.5, high * 1.5, range)
    }

    fn labels(&self, size: &Size, right: f64, y: &Scale) -> Vec<Label> {
        let room = size.characters(size.gutter - size.font * 1.6);
        let binds = |line: &Line| if line.binds { ", binds" } else { "" };
        let own = self.lines.iter().filter(|line| !matches!(line.stroke, Stroke::Group(_)));
        let own = own.map(|line| Label {
            wants: y.at(line.at(right)),
            title: wrap(&line.title, room),
            rest: wrap(&format!("{}{}", rate(line.ceiling), binds(line)), room),
            class: line.class(),
        });
        let groups = self.groups.iter().filter(|group| !group.published).filter_map(|group| {
            let point = group.points.last()?;
            // What held a group is said at its label: two labels each would be a crowd.
            let held = self.lines.iter().filter(|line| line.stroke == Stroke::Group(group.shape));
            let held = held.flat_map(|line| {
                wrap(&format!("under {}, {}", line.title, rate(line.ceiling)), room)
            });
            Some(Label {
                wants: y.at(point.per_s),
                title: wrap(&group.name, room),
                rest: std::iter::once(rate(point.per_s)).chain(held).collect(),
                class: format!("series s{}", group.shape % 6),
            })
        });
        own.chain(groups).collect()
    }

    fn draw(&self, mut size: Size) -> String {
        let left = size.font * 3.6;
        let (top, under) = (size.font * 3.0, size.font * 3.8);
        let right = size.width - size.gutter;
        let x = self.x((left, right));
        // The labels are wrapped first: when they need more room than the plot has, it grows.
        let draft = self.labels(&size, x.domain().1, &self.y(&x, (1.0, 0.0)));
        size.height = size.height.max(Chart::room(&size, &draft) + top + under).ceil();
        let bottom = size.height - under;
        let y = self.y(&x, (bottom, top));
        let labels = self.labels(&size, x.domain().1, &y);

        let mut chart = Chart::new(size, (left, top, right, bottom));
        if self.one_state && !self.lines.is_empty() {
            self.shade(&mut chart, &x, &y);
        }
        chart.axes((&x, "connections", tick_rate), (&y, "exchanges/s", tick_rate));
        self.ceilings(&mut chart, &x, &y);
        self.points(&mut chart, &x, &y);
        chart.gutter(&labels);
        let says: Vec<String> = self
            .lines
            .iter()
            .map(|line| format!("{}: {}", line.title, rate(line.ceiling)))
            .collect();
        chart.finish("roofline", "Roofline", &format!("Ceilings: {}.", says.join("; ")))
    }

    fn ceilings(&self, chart: &mut Chart, x: &Scale, y: &Scale) {
        let (from, to) = x.domain();
        // The loud one last, on top of what coincides with it.
        for loud in [false, true] {
            for line in self.lines.iter().filter(|line| (line.stroke == Stroke::Loud) == loud) {
                let points = [(x.at(from), y.at(line.at(from))), (x.at(to), y.at(line.at(to)))];
                let says = format!("{}: {}. {}", line.title, rate(line.ceiling), line.sum);
                let more = format!(
                    r#" data-roof="{}"{}"#,
                    crate::svg::escape(&line.id),
                    says_attribute(&says)
                );
                chart.path(&line.class(), &points, &more);
            }
        }
    }

    fn points(&self, chart: &mut Chart, x: &Scale, y: &Scale) {
        for group in &self.groups {
            let class =
                format!("s{}{}", group.shape % 6, if group.published { " published" } else { "" });
            let places: Vec<(f64, f64)> = group
                .points
                .iter()
                .map(|point| (x.at(point.connections), y.at(point.per_s)))
                .collect();
            if let (Some(last), false) = (places.last(), group.published) {
                chart.path(&format!("lead {class}"), &[*last, (chart.plot.2, last.1)], "");
            }
            if places.len() > 1 {
                chart.path(&format!("curve {class}"), &places, "");
            }
            for (point, at) in group.points.iter().zip(&places) {
                let says = format!(
                    "{}: {} at {}",
                    group.name,
                    rate(point.per_s),
                    facts::connections(point.connections as u32)
                );
                chart.mark(&class, group.shape, *at, &says);
            }
        }
    }

    /// What lies under every ceiling.
    fn shade(&self, chart: &mut Chart, x: &Scale, y: &Scale) {
        let (from, to) = x.domain();
        let steps = 60;
        let mut points: Vec<(f64, f64)> = (0..=steps)
            .map(|step| from * (to / from).powf(f64::from(step) / f64::from(steps)))
            .map(|at| {
                let lowest =
                    self.lines.iter().map(|line| line.at(at)).fold(f64::INFINITY, f64::min);
                (x.at(at), y.at(lowest))
            })
            .collect();
        let (left, _, right, bottom) = chart.plot;
        points.extend([(right, bottom), (left, bottom)]);
        chart.path("under", &points, "");
    }
}

impl Line {
    fn new(roof: &Assessed, run: &RunDocument, group: Option<usize>) -> Self {
        let binds = run.verdict.by() == Some(&roof.id);
        Self {
            stroke: match group {
                Some(group) => Stroke::Group(group),
                None if binds => Stroke::Loud,
                None => Stroke::Plain,
            },
            binds,
            id: roof.id.clone(),
            title: roof.title.clone(),
            ceiling: roof.ceiling.map_or(0.0, |ceiling| ceiling.0),
            connections: f64::from(run.plan.load.connections),
            sum: roof.sum.clone(),
        }
    }

    fn at(&self, connections: f64) -> f64 {
        if grows_with_connections(&self.id) {
            self.ceiling * connections / self.connections
        } else {
            self.ceiling
        }
    }

    fn class(&self) -> String {
        match self.stroke {
            Stroke::Loud => "roof binds".into(),
            Stroke::Plain => "roof".into(),
            Stroke::Group(group) => format!("roof of s{}", group % 6),
        }
    }
}

impl Point {
    fn of(run: &RunDocument) -> Self {
        Self { connections: f64::from(run.plan.load.connections), per_s: run.load.throughput_per_s }
    }
}

/// Roofs that each connection has for itself. The others are shared.
const PER_CONNECTION: [&str; 4] =
    ["tcp.nagle-delayed-ack", "tcp.receive-window", "tcp.send-buffer", "load.concurrency"];

fn grows_with_connections(id: &str) -> bool {
    PER_CONNECTION.contains(&id)
}

fn ceilings(run: &RunDocument) -> impl Iterator<Item = &Assessed> {
    facts::roofs(&run.roofline, State::Ceiling)
        .filter(|roof| roof.ceiling.is_some_and(|ceiling| ceiling.0.is_finite() && ceiling.0 > 0.0))
}

/// The figure; nothing when nothing was reached and nothing is known.
pub(crate) fn roofline(picture: &Picture, caption: &str) -> String {
    let reached = |group: &Group| group.points.iter().any(|point| point.per_s > 0.0);
    if picture.lines.is_empty() && !picture.groups.iter().any(reached) {
        return String::new();
    }
    figure("roofline", caption, |size| picture.draw(size))
}

#[cfg(test)]
mod tests {
    use linerate_roofline::roofs::ROOFS;

    use super::*;

    #[test]
    fn roofs_that_are_drawn_slanted_are_roofs() {
        for id in PER_CONNECTION {
            assert!(ROOFS.iter().any(|roof| roof.id == id), "{id}");
        }
    }
}
