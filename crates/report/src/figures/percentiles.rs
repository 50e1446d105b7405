//! Latency by percentile, the tail drawn out: `1 / (1 - p)` on a logarithmic axis, as HdrHistogram
//! plots it, so that 99 % and 99.9 % are as far apart as 90 % and 99 %.

use super::{figure, tick_time};
use crate::document::Distribution;
use crate::number::{self, time};
use crate::svg::{Chart, Label, Scale, Size, wrap};

/// One distribution and its name.
pub(crate) struct Curve<'a> {
    pub(crate) name: String,
    pub(crate) of: &'a Distribution,
    /// Its colour and dash, 0 to 5.
    pub(crate) style: usize,
}

/// The figure; nothing when nothing was timed.
pub(crate) fn percentiles(curves: &[Curve], caption: &str) -> String {
    if curves.iter().all(|curve| points(curve.of).is_empty()) {
        return String::new();
    }
    figure("percentiles", caption, |size| draw(curves, size))
}

/// `(1 / (1 - p), us)`. The last exchange of n stands at n.
fn points(of: &Distribution) -> Vec<(f64, f64)> {
    let listed = if of.curve.is_empty() { &of.percentiles } else { &of.curve };
    let end = (of.count.max(2)) as f64;
    listed
        .iter()
        .filter(|[_, us]| us.is_finite() && *us > 0.0)
        .map(|[percentile, us]| ((1.0 / (1.0 - percentile / 100.0).max(1.0 / end)).min(end), *us))
        .collect()
}

fn draw(curves: &[Curve], mut size: Size) -> String {
    size.height *= 0.8;
    let all: Vec<(f64, f64)> = curves.iter().flat_map(|curve| points(curve.of)).collect();
    let least = all.iter().map(|at| at.1).fold(f64::INFINITY, f64::min);
    let most = all.iter().map(|at| at.1).fold(0.0, f64::max);
    let end = all.iter().map(|at| at.0).fold(100.0, f64::max);
    let room = size.characters(size.gutter - size.font * 1.6);
    let label = |curve: &Curve, wants| {
        let max = curve.of.percentiles.last().map_or(0.0, |[_, us]| *us);
        let bound = if curve.of.at_least_from.is_some() { ">= " } else { "" };
        let (title, rest) =
            (wrap(&curve.name, room), wrap(&format!("max {bound}{}", time(max)), room));
        Label { wants, title, rest, class: format!("series s{}", curve.style % 6) }
    };
    let draft: Vec<Label> = curves.iter().map(|curve| label(curve, 0.0)).collect();
    let (left, top, under) = (size.font * 4.6, size.font * 3.0, size.font * 3.8);
    size.height = size.height.max(Chart::room(&size, &draft) + top + under).ceil();
    let (right, bottom) = (size.width - size.gutter, size.height - under);
    let x = Scale::decades(1.0, end, (left, right));
    let y = Scale::log(least, most, (bottom, top));

    let mut chart = Chart::new(size, (left, top, right, bottom));
    chart.axes((&x, "percentile", tick_share), (&y, "time", tick_time));
    // The median is no power of ten.
    chart.path("grid", &[(x.at(2.0), top), (x.at(2.0), bottom)], "");
    chart.text("tick middle", x.at(2.0), bottom + size.font * 1.7, "50 %");
    let mut labels = Vec::new();
    for curve in curves {
        let points = points(curve.of);
        let Some(last) = points.last() else { continue };
        let places: Vec<(f64, f64)> = points.iter().map(|(p, us)| (x.at(*p), y.at(*us))).collect();
        let style = curve.style % 6;
        // From here up the values are lower bounds: dotted.
        let bounds = curve
            .of
            .at_least_from
            .map_or(f64::INFINITY, |from| 1.0 / (1.0 - from / 100.0).max(1e-9));
        let split = points.iter().position(|(p, _)| *p >= bounds).unwrap_or(points.len());
        chart.path(&format!("curve s{style} d{style}"), &places[..split.max(1)], "");
        if split < points.len() {
            chart.path(&format!("curve s{style} bound"), &places[split.saturating_sub(1)..], "");
        }
        if let Some(end) = places.last() {
            chart.path(&format!("lead s{style}"), &[*end, (right, end.1)], "");
        }
        for [percentile, us] in &curve.of.percentiles {
            if *percentile > 0.0 && *us > 0.0 {
                let at = (1.0 / (1.0 - percentile / 100.0).max(1e-12)).min(last.0);
                let says =
                    format!("{} {}: {}", curve.name, number::percentile(*percentile), time(*us));
                chart.mark(&format!("s{style}"), style, (x.at(at), y.at(*us)), &says);
            }
        }
        labels.push(label(curve, y.at(last.1)));
    }
    chart.gutter(&labels);
    let says: Vec<String> = curves
        .iter()
        .map(|curve| {
            let listed: Vec<String> = curve
                .of
                .percentiles
                .iter()
                .map(|[p, us]| format!("{} {}", number::percentile(*p), time(*us)))
                .collect();
            format!("{}: {}", curve.name, listed.join(", "))
        })
        .collect();
    chart.finish("percentiles", "Time by percentile", &says.join(". "))
}

/// 10 is 90 %, 100 is 99 %. The foot of the axis, 0 %, stands too near the median to be named.
fn tick_share(of: f64) -> String {
    if of < 2.0 {
        return String::new();
    }
    let share = 100.0 - 100.0 / of;
    let decimals = (of.log10().round() as usize).saturating_sub(2);
    format!("{share:.decimals$} %")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ticks_are_nines() {
        assert_eq!(
            [1.0, 10.0, 100.0, 1e3, 1e4].map(tick_share),
            ["", "90 %", "99 %", "99.9 %", "99.99 %"]
        );
    }

    #[test]
    fn the_largest_of_n_stands_at_n_and_not_at_infinity() {
        let of = Distribution {
            count: 1_000,
            percentiles: vec![[50.0, 10.0], [100.0, 20.0]],
            ..Distribution::default()
        };
        assert_eq!(points(&of), [(2.0, 10.0), (1_000.0, 20.0)]);
    }
}
