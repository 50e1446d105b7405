//! The course of a run: throughput above, 99th percentile below, the measured stretch shaded.

use super::{figure, round, tick_rate, tick_time};
use crate::document::{RunDocument, SeriesPoint};
use crate::number::{rate, time};
use crate::svg::{Chart, Scale, Size, says_attribute};

/// The figure; nothing when the run has no course.
pub(crate) fn series(run: &RunDocument, caption: &str) -> String {
    if run.load.series.len() < 2 {
        return String::new();
    }
    figure("series", caption, |size| draw(&run.load.series, size))
}

fn draw(points: &[SeriesPoint], mut size: Size) -> String {
    // No labels stand at the right of this one.
    size.height *= 0.9;
    let (left, right) = (size.font * 4.6, size.width - size.font);
    let (top, under, between) = (size.font * 3.0, size.font * 3.8, size.font * 4.6);
    let each = (size.height - top - under - between) / 2.0;
    let end = points.last().map_or(1.0, |point| point.at_s);
    let x = Scale::linear_exact(0.0, end, (left, right));
    let highest = points.iter().map(|point| point.throughput_per_s).fold(0.0, f64::max);
    let y = Scale::linear(highest, (top + each, top));
    let times: Vec<f64> =
        points.iter().flat_map(|point| [point.p50_us, point.p99_us]).flatten().collect();
    let below = (top + each + between, top + 2.0 * each + between);
    let z = Scale::log(
        times.iter().copied().fold(f64::INFINITY, f64::min),
        times.iter().copied().fold(0.0, f64::max),
        (below.1, below.0),
    );

    let mut chart = Chart::new(size, (left, top, right, top + each));
    let measured: Vec<usize> = (0..points.len()).filter(|at| points[*at].measured).collect();
    let begin = |index: usize| if index == 0 { 0.0 } else { points[index - 1].at_s };
    if let (Some(first), Some(last)) = (measured.first(), measured.last()) {
        let (from, to) = (x.at(begin(*first)), x.at(points[*last].at_s));
        for panel in [(top, top + each), below] {
            chart.area("window", (from, panel.0), (to, panel.1), "");
        }
        chart.text("note end", to - 4.0, top - size.font * 0.9, "shaded: measured");
    }
    chart.axes((&x, "", |_| String::new()), (&y, "exchanges/s", tick_rate));
    let stairs = |value: &dyn Fn(&SeriesPoint) -> Option<f64>| {
        let mut runs: Vec<Vec<(f64, f64)>> = vec![Vec::new()];
        for (index, point) in points.iter().enumerate() {
            match (value(point), runs.last_mut()) {
                (Some(at), Some(run)) => {
                    run.extend([(x.at(begin(index)), at), (x.at(point.at_s), at)]);
                }
                // A slice in which nothing was answered has no percentile: a gap, not a nought.
                _ => runs.push(Vec::new()),
            }
        }
        runs
    };
    for run in stairs(&|point| Some(y.at(point.throughput_per_s))) {
        chart.path("curve s0", &run, "");
    }
    chart.plot = (left, below.0, right, below.1);
    chart.axes((&x, "seconds", round), (&z, "p99 (solid) and p50 (dashed)", tick_time));
    for run in stairs(&|point| point.p99_us.map(|us| z.at(us))) {
        chart.path("curve s1", &run, "");
    }
    for run in stairs(&|point| point.p50_us.map(|us| z.at(us))) {
        chart.path("curve s1 bound", &run, "");
    }
    for (index, point) in points.iter().enumerate() {
        let said = |us: Option<f64>| us.map_or_else(|| "-".into(), time);
        let mut says = format!(
            "{:.1} s: {}, p50 {}, p99 {}, {} in flight",
            point.at_s,
            rate(point.throughput_per_s),
            said(point.p50_us),
            said(point.p99_us),
            point.in_flight
        );
        let (from, to) = (x.at(begin(index)), x.at(point.at_s));
        if point.failed > 0 {
            says += &format!(", {} failed", point.failed);
            chart.mark("bad", 2, ((from + to) / 2.0, top + each - size.font * 0.5), &says);
        }
        chart.area("touch", (from, top), (to, below.1), &says_attribute(&says));
    }
    let failed: u64 = points.iter().map(|point| point.failed).sum();
    let says = format!(
        "{} slices over {end:.1} s; throughput up to {}; {failed} failed.",
        points.len(),
        rate(highest)
    );
    chart.finish("series", "Course of the run", &says)
}
