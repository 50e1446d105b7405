//! A service as measured: throughput by concurrency, whatever its internals.
//!
//! Between two rows a cycle's time is linear in the number inside; above the last row all curves that meet the rows
//! continue ([`Beyond`]), and with only two rows the curves' spread also applies between them; below the first row
//! the fitted demands lead up to it ([`Demands`]). At the interval's low end an exchange below the first row takes as
//! long as in it, at its high end only as long as the first row's rate needs.
//!
//! Blind spot: what the column's machines did not do while it was measured is not known.

use linerate_model::OpRate;

use crate::beyond::Beyond;
use crate::closed::circulate;
use crate::demands::Demands;
use crate::forecast::{Ceiling, Lean, Service};
use crate::usl::Usl;
use crate::words::{count, duration};

/// One row of a measured column.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Row {
    /// Workers, each with one exchange out.
    pub connections: u32,
    /// Their throughput.
    pub throughput: OpRate,
    /// The shortest time of an exchange that was seen. Unit: seconds.
    pub fastest: Option<f64>,
}

/// A column without a curve.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadCurve {
    /// No rows.
    #[error("no rows to predict from")]
    Empty,
    /// A row without throughput.
    #[error("{0} connections with nothing done: leave that row out")]
    Nothing(u32),
    /// Two rows of one concurrency.
    #[error("two rows of {0} connections: choose one of them with --where")]
    Twice(u32),
}

/// The column as a station whose rate depends on how many are inside.
#[derive(Clone, Debug)]
pub struct Curve {
    /// Ascending: connections, exchanges a second.
    rows: Vec<(f64, f64)>,
    /// Below the first row and up to it: `(inside, cycle in seconds)`, ascending.
    below: Vec<(f64, f64)>,
    /// The shortest possible time of an exchange. Unit: seconds; 0: unknown.
    fastest: f64,
    demands: Option<Demands>,
    usl: Option<Usl>,
    /// Throughput by the last row's: logarithm of the number, and low, mid and high; ascending.
    beyond: Vec<(f64, [f64; 3])>,
    /// The error of a row interpolated from its neighbours, as a share.
    spread: f64,
}

// Chosen: a published figure is read to a percent at best.
const LEAST_SPREAD: f64 = 0.01;

// Chosen: more is never asked for, and four points for each doubling are enough.
const MOST: f64 = 1e6;
const POINTS: f64 = 4.0;

// Chosen: below a first row of more than this a fit costs more than it is worth.
const MOST_TO_FIT: f64 = 20_000.0;

impl Curve {
    /// From the rows of a column; `round_trip` is that of the path it was measured on, in seconds, where known.
    pub fn new(rows: &[Row], round_trip: Option<f64>) -> Result<Self, BadCurve> {
        let mut sorted: Vec<&Row> = rows.iter().collect();
        sorted.sort_by_key(|row| row.connections);
        for row in &sorted {
            if !(row.throughput.0 > 0.0 && row.connections > 0) {
                return Err(BadCurve::Nothing(row.connections));
            }
        }
        if let Some(twice) = sorted.windows(2).find(|two| two[0].connections == two[1].connections)
        {
            return Err(BadCurve::Twice(twice[0].connections));
        }
        let fastest = rows.iter().filter_map(|row| row.fastest).fold(f64::INFINITY, f64::min);
        let rows: Vec<(f64, f64)> =
            sorted.iter().map(|row| (f64::from(row.connections), row.throughput.0)).collect();
        let (first, x) = *rows.first().ok_or(BadCurve::Empty)?;
        let cycle = first / x;
        let fastest = if fastest.is_finite() { fastest.min(cycle) } else { 0.0 };
        let known = round_trip.filter(|rtt| *rtt > 0.0 && *rtt < cycle);
        let demands = if first <= MOST_TO_FIT { Demands::fit(&rows, known) } else { None };
        let below = below(first, cycle, known.unwrap_or(fastest), demands.as_ref());
        let usl = Usl::fit(&rows);
        let spread = spread(&rows);
        let alone = known.or((fastest > 0.0).then_some(fastest)).filter(|_| first > 1.0);
        let alone = demands.map(|of| 1.0 / of.throughput(1)).or(alone);
        let beyond = beyond(&rows, alone, usl);
        Ok(Self { rows, below, fastest, demands, usl, beyond, spread })
    }

    /// What an exchange needs, where the rows are enough to fit it.
    pub fn demands(&self) -> Option<Demands> {
        self.demands
    }

    /// The scalability law's coefficients, where the rows are enough.
    pub fn usl(&self) -> Option<Usl> {
        self.usl
    }

    /// The least and the most connections that were measured.
    pub fn measured(&self) -> (u32, u32) {
        let of = |row: Option<&(f64, f64)>| row.map_or(0, |(n, _)| *n as u32);
        (of(self.rows.first()), of(self.rows.last()))
    }

    /// Throughput with so many inside. Unit: exchanges a second.
    pub fn rate(&self, inside: u32, lean: Lean) -> f64 {
        let n = f64::from(inside);
        let (first, x) = self.rows[0];
        let (last, most) = self.rows[self.rows.len() - 1];
        if n < first {
            let cycle = first / x;
            return match lean {
                Lean::Low => x * n / first,
                Lean::Middle => n / straight(&self.below, n),
                Lean::High => n / (cycle * n / first).max(self.fastest),
            };
        }
        let of_curves = |end: usize| {
            let of_end = |(at, ratios): &(f64, [f64; 3])| (*at, ratios[end]);
            most * straight(&self.beyond.iter().map(of_end).collect::<Vec<_>>(), n.ln())
        };
        if n > last {
            return match lean {
                Lean::Low => of_curves(0) * (1.0 - self.spread),
                Lean::Middle => of_curves(1),
                Lean::High => of_curves(2) * (1.0 + self.spread),
            };
        }
        let cycles: Vec<(f64, f64)> = self.rows.iter().map(|(n, x)| (*n, n / x)).collect();
        let mid = n / straight(&cycles, n);
        let few = self.rows.len() == FEW;
        match lean {
            Lean::Low if few => mid.min(of_curves(0)) * (1.0 - self.spread),
            Lean::High if few => mid.max(of_curves(2)) * (1.0 + self.spread),
            Lean::Low => mid * (1.0 - self.spread),
            Lean::Middle => mid,
            Lean::High => mid * (1.0 + self.spread),
        }
    }

    /// How uncertain numbers beyond the last row are; none for others.
    pub fn says_beyond(&self, population: u32) -> Option<String> {
        let (_, last) = self.measured();
        let rows = match self.rows.len() {
            1 => {
                "one row fixes one of three unknowns (what one does alone, and how many is too many, are open)"
            }
            2 => "two rows fix two of three unknowns (what limits beyond them is open)",
            _ => "the rows tell what was, and not what limits beyond them",
        };
        (population > last).then(|| {
            format!(
                "more than the {} measured: {rows}. The interval is what 80 % of the curves through them say: \
                 a queue that is full, contention, coherency, a power law that a limit ends. One more row at \
                 {} or above says more than any of these",
                count(last),
                count(population)
            )
        })
    }
}

/// With so few rows nothing lies between two others, to show the error there.
const FEW: usize = 2;

/// The curves through the rows, at some points.
fn beyond(rows: &[(f64, f64)], alone: Option<f64>, usl: Option<Usl>) -> Vec<(f64, [f64; 3])> {
    let (first, last) = (rows[0].0, rows[rows.len() - 1].0);
    let curves = Beyond::through(rows, alone, usl);
    let from = if rows.len() == FEW { first } else { last };
    let points = ((MOST.max(last) / from).log2() * POINTS).ceil().max(1.0) as u32;
    let at = |point: u32| from * (f64::from(point) / POINTS).exp2();
    let mut all: Vec<f64> = (0..=points).map(at).chain([last]).collect();
    all.sort_by(f64::total_cmp);
    all.dedup();
    all.into_iter().map(|n| (n.ln(), curves.ratio(last, n))).collect()
}

impl Service for Curve {
    fn throughput(&self, population: u32, away: f64, lean: Lean) -> f64 {
        circulate(population, away, |n| self.rate(n, lean))
    }

    fn alone(&self) -> f64 {
        1.0 / self.rate(1, Lean::Middle)
    }

    fn ceilings(&self, population: u32) -> Vec<Ceiling> {
        let rate = OpRate(self.rate(population, Lean::Middle));
        let (first, last) = self.measured();
        let how = match population {
            n if self.rows.iter().any(|(row, _)| *row as u32 == n) => "as measured".to_owned(),
            n if n < first => format!("fewer than the {} measured", count(first)),
            n if n > last => {
                format!("more than the {} measured, by the curves that meet them", count(last))
            }
            _ => "between two measured rows".to_owned(),
        };
        let sum = format!("the service with {} inside, {how}: {rate}", count(population));
        vec![Ceiling { id: "service".into(), per_s: rate, sum }]
    }
}

/// The points below the first row.
fn below(first: f64, cycle: f64, base: f64, demands: Option<&Demands>) -> Vec<(f64, f64)> {
    if first <= 1.0 {
        return vec![(1.0, cycle)];
    }
    let Some(demands) = demands else {
        // Chosen: with the time alone unknown, half of what an exchange takes in the first row.
        let base = if base > 0.0 { base } else { cycle / 2.0 };
        return vec![(1.0, base), (first, cycle)];
    };
    let fitted = |n: f64| n / demands.throughput(n as u32);
    let off = cycle / fitted(first) - 1.0;
    // Chosen: some two dozen points are enough.
    let mut points: Vec<f64> = (0..24).map(|i| first.powf(f64::from(i) / 24.0).round()).collect();
    points.push(first);
    points.dedup();
    // The fit is made to meet the row: its error there is taken off in proportion to how near it
    // is.
    points.into_iter().map(|n| (n, fitted(n) * (1.0 + off * n / first))).collect()
}

/// The largest error of a row interpolated from its two neighbours.
fn spread(rows: &[(f64, f64)]) -> f64 {
    let inner = rows.windows(3).map(|three| {
        let ends = [(three[0].0, three[0].0 / three[0].1), (three[2].0, three[2].0 / three[2].1)];
        let (n, x) = three[1];
        (n / straight(&ends, n) / x - 1.0).abs()
    });
    match rows.len() {
        0..=FEW => LEAST_SPREAD,
        _ => inner.fold(LEAST_SPREAD, f64::max),
    }
}

/// Linear between ascending points; constant beyond them.
fn straight(points: &[(f64, f64)], at: f64) -> f64 {
    let after = points.partition_point(|(x, _)| *x < at);
    match (after.checked_sub(1).map(|before| points[before]), points.get(after)) {
        (Some((x0, y0)), Some((x1, y1))) => y0 + (y1 - y0) * (at - x0) / (x1 - x0),
        (Some((_, y)), None) => y,
        (None, Some((_, y))) => *y,
        (None, None) => f64::NAN,
    }
}

impl std::fmt::Display for Demands {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let [low, mid, high] = self.busy_demand;
        write!(
            f,
            "an exchange takes {} without waiting, and of the bottleneck {} ({} to {}) with a hundred inside, which \
             grows as n^{:.2}",
            duration(self.delay),
            duration(mid),
            duration(low),
            duration(high),
            -self.economy
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn rows(of: &[(u32, f64)]) -> Vec<Row> {
        let row = |&(connections, x): &(u32, f64)| Row {
            connections,
            throughput: OpRate(x),
            fastest: None,
        };
        of.iter().map(row).collect()
    }

    #[test]
    fn each_row_is_met_and_the_way_between_them_has_no_step() {
        let table = [(200, 457_279.5), (400, 514_436.5), (2_000, 594_367.7), (4_000, 627_434.9)];
        let curve = Curve::new(&rows(&table), Some(0.25e-3)).unwrap();
        for (n, x) in table {
            assert!((curve.rate(n, Lean::Middle) / x - 1.0).abs() < 1e-9, "{n}");
        }
        let mut last = 0.0;
        for n in 1..=4_000 {
            let rate = curve.rate(n, Lean::Middle);
            assert!(rate >= last * 0.999, "{n}: {rate} {last}");
            assert!(curve.rate(n, Lean::Low) <= rate * 1.000_001, "{n}");
            assert!(curve.rate(n, Lean::High) >= rate * 0.999_999, "{n}");
            last = rate;
        }
        // Alone it is little more than the round trip.
        assert!((0.25e-3..0.30e-3).contains(&curve.alone()), "{}", curve.alone());
    }

    #[test]
    fn without_more_delay_the_column_is_its_own_prediction() {
        let table = [(10, 900.0), (20, 1_500.0), (40, 1_800.0)];
        let curve = Curve::new(&rows(&table), None).unwrap();
        for (n, x) in table {
            assert!((curve.throughput(n, 0.0, Lean::Middle) / x - 1.0).abs() < 1e-9, "{n}");
        }
    }

    #[test]
    fn a_column_that_is_none_is_refused() {
        assert_eq!(Curve::new(&[], None).unwrap_err(), BadCurve::Empty);
        let says = |of: &[(u32, f64)]| Curve::new(&rows(of), None).unwrap_err().to_string();
        assert!(says(&[(5, 1.0), (5, 2.0)]).starts_with("two rows of 5 connections"));
        assert!(says(&[(5, 0.0)]).contains("leave that row out"));
    }

    #[test]
    fn one_row_is_enough_to_go_on_from() {
        let curve = Curve::new(&rows(&[(10, 1_000.0)]), None).unwrap();
        // The rate of one alone is unknown: so is that of twenty.
        let of = |lean| curve.rate(20, lean);
        assert!(of(Lean::Low) < 1_000.0 && of(Lean::High) > 1_200.0, "{}", of(Lean::High));
        assert!((950.0..1_500.0).contains(&of(Lean::Middle)), "{}", of(Lean::Middle));
        assert!(curve.says_beyond(20).unwrap().contains("one row fixes one of three"));
        assert_eq!(curve.says_beyond(10), None);
        assert!((curve.alone() - 5e-3).abs() < 1e-9);
    }
}
