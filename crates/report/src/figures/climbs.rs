//! A climb over time: users online above, with the limit as a line; memory stacked by kind below.

use super::{figure, round, tick_rate};
use crate::facts;
use crate::held::{Held, HeldPoint, Purpose, UsersStudy};
use crate::number::count;
use crate::svg::{Chart, Label, Scale, Size, says_attribute, wrap};

/// A figure for each server; nothing where none was climbed.
pub(crate) fn climbs(users: &UsersStudy) -> String {
    let servers = users.climbs.iter().filter(|climb| climb.purpose == Purpose::Server);
    let drawn = servers.enumerate().map(|(number, climb)| {
        if climb.held.course.len() < 2 {
            return String::new();
        }
        let id = format!("climb-{number}");
        let caption = format!(
            "{}: users online over time, failed ones marked; the limit is a line ({}). Below, memory by kind, stacked: \
             the kernel's is half of what its connections have taken since the beginning.",
            climb.series,
            facts::limit_met(&climb.held)
        );
        figure(&id, &caption, |size| draw(&id, &climb.series, &climb.held, size))
    });
    drawn.collect()
}

/// Kinds from below, with what is said of them.
fn layers(point: &HeldPoint, first: &HeldPoint) -> Vec<(&'static str, f64)> {
    let of = |point: &HeldPoint, kind: &str| point.memory.get(kind).map(|bytes| *bytes as f64);
    let rss = of(point, "target.rss");
    let total = of(point, "vm.total");
    let mut layers = Vec::new();
    if let Some(total) = total {
        let kinds =
            [("processes", "vm.processes"), ("binaries", "vm.binary"), ("tables", "vm.ets")];
        let parts = kinds.map(|(says, kind)| (says, of(point, kind).unwrap_or(0.0)));
        let sum: f64 = parts.iter().map(|(_, bytes)| bytes).sum();
        layers.extend(parts);
        layers.push(("code, drivers and more", (total - sum).max(0.0)));
        layers.push(("resident beyond that", (rss.unwrap_or(0.0) - total).max(0.0)));
    } else if let Some(rss) = rss {
        layers.push(("resident", rss));
    }
    let grown: f64 = ["kernel.slab", "kernel.tcp"]
        .iter()
        .filter_map(|kind| Some((of(point, kind)? - of(first, kind)?).max(0.0) / 2.0))
        .sum();
    if point.memory.contains_key("kernel.slab") {
        layers.push(("kernel, one end", grown));
    }
    layers
}

fn draw(id: &str, name: &str, held: &Held, mut size: Size) -> String {
    size.height *= 1.35;
    let (left, right) = (size.font * 4.6, size.width - size.gutter);
    let (top, under, between) = (size.font * 3.0, size.font * 3.8, size.font * 4.6);
    let each = (size.height - top - under - between) / 2.0;
    let below = (top + each + between, top + 2.0 * each + between);
    let points: Vec<(f64, &HeldPoint)> =
        held.points.iter().filter_map(|point| Some((point.at_s?, point))).collect();
    let end = held.course.last().map_or(1.0, |moment| moment.at_s);
    let end = points.last().map_or(end, |(at, _)| end.max(*at));
    let met = held.met.as_ref().map(|met| met.online);
    let most = held.course.iter().map(|moment| moment.online).max().unwrap_or(1);
    let highest = most.max(met.unwrap_or(0)).max(1) as f64;
    let x = Scale::linear_exact(0.0, end.max(0.1), (left, right));
    let y = Scale::linear(highest * 1.05, (top + each, top));

    let mut chart = Chart::new(size, (left, top, right, top + each));
    chart.axes((&x, "", |_| String::new()), (&y, "users online", tick_rate));
    let course: Vec<(f64, f64)> =
        held.course.iter().map(|it| (x.at(it.at_s), y.at(it.online as f64))).collect();
    chart.path("curve s0", &course, "");
    for pair in held.course.windows(2) {
        let says = format!(
            "{:.1} s: {} online, {} failed, {}",
            pair[1].at_s,
            count(pair[1].online),
            count(pair[1].failed),
            pair[1].stage
        );
        let (from, to) = (x.at(pair[0].at_s), x.at(pair[1].at_s));
        if pair[1].failed > pair[0].failed {
            chart.mark("bad", 2, (to, top + each - size.font * 0.5), &says);
        }
        chart.area("touch", (from, top), (to, top + each), &says_attribute(&says));
    }
    let room = size.characters(size.gutter - size.font * 1.6);
    let (title, users, wants) = match held.until_it_ended() {
        Some((clean, _)) => ("held until it ended", clean, y.at(clean as f64)),
        None => ("held", held.held, course.last().map_or(top, |at| at.1)),
    };
    let mut labels = vec![Label {
        wants,
        title: wrap(title, room),
        rest: vec![count(users)],
        class: "series s0".into(),
    }];
    if let Some((limit, online)) = held.limit.as_ref().zip(met) {
        let at = y.at(online as f64);
        chart.path("roof binds", &[(left, at), (right, at)], &says_attribute(&limit.says));
        let class = "binds".into();
        let (title, rest) = (wrap(&limit.id, room), vec![count(online)]);
        labels.push(Label { wants: at, title, rest, class });
    }
    chart.gutter(&labels);

    let Some((_, first)) = points.first() else {
        return chart.finish(id, name, &says(held));
    };
    let stacks: Vec<(f64, Vec<(&str, f64)>)> =
        points.iter().map(|(at, point)| (*at, layers(point, first))).collect();
    let sum = |layers: &Vec<(&str, f64)>| layers.iter().map(|(_, bytes)| bytes).sum::<f64>();
    let largest = stacks.iter().map(|(_, layers)| sum(layers)).fold(1.0, f64::max);
    let z = Scale::linear(largest / MIB * 1.05, (below.1, below.0));
    chart.plot = (left, below.0, right, below.1);
    chart.axes((&x, "seconds", round), (&z, "MiB", round));
    let mut floor = vec![0.0; stacks.len()];
    let mut labels = Vec::new();
    // Each moment has the same layers but one: a target that has ended has none.
    let kinds = stacks.iter().map(|(_, layers)| layers).max_by_key(|layers| layers.len());
    for (number, (kind, _)) in kinds.into_iter().flatten().enumerate() {
        let of = |layers: &Vec<(&str, f64)>| {
            layers.iter().find(|(name, _)| name == kind).map_or(0.0, |(_, bytes)| bytes / MIB)
        };
        let upper: Vec<f64> =
            stacks.iter().zip(&floor).map(|((_, layers), floor)| floor + of(layers)).collect();
        let times = || stacks.iter().map(|(at, _)| *at);
        let place = |(at, mib): (f64, &f64)| (x.at(at), z.at(*mib));
        let mut outline: Vec<(f64, f64)> = times().zip(&upper).map(place).collect();
        outline.extend(times().zip(&floor).map(place).rev());
        outline.extend(outline.first().copied());
        let class = format!("s{}", number % 6);
        let last = stacks.iter().map(|(_, layers)| of(layers)).fold(0.0, f64::max);
        let says = format!("{kind}: up to {} MiB", round((last * 10.0).round() / 10.0));
        chart.path(&format!("segment {class}"), &outline, &says_attribute(&says));
        // Chosen: thinner than a pixel or two is not named.
        if last > 0.01 * largest / MIB {
            let middle = (upper.last().unwrap_or(&0.0) + floor.last().unwrap_or(&0.0)) / 2.0;
            let rest = vec![format!("{} MiB", round((last * 10.0).round() / 10.0))];
            let (wants, title) = (z.at(middle), wrap(kind, room));
            labels.push(Label { wants, title, rest, class: format!("series {class}") });
        }
        floor = upper;
    }
    chart.gutter(&labels);
    chart.finish(id, name, &says(held))
}

const MIB: f64 = 1_048_576.0;

fn says(held: &Held) -> String {
    let limit = held
        .limit
        .as_ref()
        .map_or("no limit was reached".to_owned(), |limit| format!("{}: {}", limit.id, limit.says));
    let asked = count(held.asked);
    match held.until_it_ended() {
        Some((clean, most)) => {
            let (clean, most) = (count(clean), count(most));
            format!("{clean} of {asked} users held until it ended, with {most} online; {limit}")
        }
        None => format!("{} of {asked} users held; {limit}", count(held.held)),
    }
}
