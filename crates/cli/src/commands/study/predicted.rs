//! What a study predicts: a series from another one and a path alone, beside what was measured of it, or
//! published.

use linerate_model::{Bytes, Framing, OpRate, Path, Plan, Share, Workload};
use linerate_predict::{Crossing, Curve, Ends, Forecast, Row, forecast};
use linerate_report::StudyRow;

use super::claims::Outcome;
use super::published::{Figures, Published};

/// Two series' plans: the one predicted from, and the one that is predicted.
pub(super) struct Between<'a> {
    pub from: &'a Plan,
    pub to: &'a Plan,
}

impl Between<'_> {
    /// What the second has on its path that the first has not.
    fn crossing(&self) -> Crossing {
        let path_of =
            |plan: &Plan| plan.paths().first().map_or_else(Path::default, |it| (*it).clone());
        let (before, mut path) = (path_of(self.from), path_of(self.to));
        path.rtt = path.rtt.saturating_sub(before.rtt);
        let (share, ends) = crosses(self.to);
        let (request, response) = payload(&self.to.workload);
        let servers = self.to.servers();
        Crossing { path, share, servers, ends, request, response, window: None }
    }

    fn forecasts(&self, rows: &[Row], counts: &[u32]) -> Result<Vec<Forecast>, String> {
        let before = self.from.paths().first().map_or(0.0, |path| path.round_trip().as_secs_f64());
        let (share, _) = crosses(self.from);
        let curve = Curve::new(rows, Some(before * share.0)).map_err(|error| error.to_string())?;
        let crossing = self.crossing();
        Ok(counts.iter().map(|count| forecast(&curve, &crossing, *count)).collect())
    }

    /// Sets the second series' rows beside what the first says of them.
    pub fn measured(&self, from: &str, to: &str, within: f64, rows: &mut [StudyRow]) -> Outcome {
        let column: Vec<Row> = rows.iter().filter(|row| row.series == from).map(measured).collect();
        let of_second = || rows.iter().filter(|row| row.series == to);
        let counts: Vec<u32> = of_second().map(|row| row.connections).collect();
        if column.is_empty() || counts.is_empty() {
            return Outcome::unmeasured();
        }
        let forecasts = match self.forecasts(&column, &counts) {
            Ok(forecasts) => forecasts,
            Err(because) => return Outcome { held: Some(false), because },
        };
        let mut worst: Option<(f64, String)> = None;
        for (row, said) in rows.iter_mut().filter(|row| row.series == to).zip(forecasts) {
            let (predicted, here) = (said.throughput_per_s.mid.0, row.run.load.throughput_per_s);
            row.predicted_per_s = Some(predicted);
            let off = predicted / here - 1.0;
            if worst.as_ref().is_none_or(|(most, _)| off.abs() > most.abs()) {
                let words = format!(
                    "farthest: {} predicted at {}, {} measured ({:+.1} %)",
                    OpRate(predicted),
                    row.connections,
                    OpRate(here),
                    off * 100.0
                );
                worst = Some((off, words));
            }
        }
        let (off, because) = worst.unwrap_or((f64::INFINITY, String::new()));
        Outcome { held: Some(off.abs() <= within), because }
    }

    /// The same of two published series.
    pub fn published(&self, names: [&str; 2], within: [f64; 2], figures: &Figures) -> Outcome {
        let [from, to] = names;
        let of = |name: &str| -> Vec<(u32, Published)> {
            let of = figures.iter().filter(|((series, _), _)| series == name);
            of.map(|((_, count), row)| (*count, *row)).collect()
        };
        let column = of(from).into_iter().map(|(connections, row)| Row {
            connections,
            throughput: OpRate(row.per_s),
            fastest: None,
        });
        let second = of(to);
        let counts: Vec<u32> = second.iter().map(|(count, _)| *count).collect();
        let forecasts = match self.forecasts(&column.collect::<Vec<_>>(), &counts) {
            Ok(forecasts) => forecasts,
            Err(because) => return Outcome { held: Some(false), because },
        };
        let off = |of: &dyn Fn(&Forecast, &Published) -> f64| {
            let rows =
                forecasts.iter().zip(&second).map(|(said, (count, row))| (of(said, row), *count));
            rows.max_by(|a, b| a.0.abs().total_cmp(&b.0.abs())).unwrap_or((f64::INFINITY, 0))
        };
        let (rate, rate_at) = off(&|said, row| said.throughput_per_s.mid.0 / row.per_s - 1.0);
        let (mean, mean_at) = off(&|said, row| said.mean_latency_us[1] / row.mean_us - 1.0);
        Outcome {
            held: Some(rate.abs() <= within[0] && mean.abs() <= within[1]),
            because: format!(
                "farthest: throughput {:+.1} % at {rate_at}, mean latency {:+.1} % at {mean_at}",
                rate * 100.0,
                mean * 100.0
            ),
        }
    }
}

fn measured(row: &StudyRow) -> Row {
    let throughput = OpRate(row.run.load.throughput_per_s);
    Row { connections: row.connections, throughput, fastest: None }
}

/// Of all exchanges those between two sites, each server being as likely as the others; and where workers are.
fn crosses(plan: &Plan) -> (Share, Ends) {
    let sites = &plan.sites;
    if sites.is_empty() {
        return (Share(1.0), Ends::One);
    }
    let servers: f64 = sites.iter().map(|site| f64::from(site.servers)).sum();
    let engines: f64 = sites.iter().map(|site| f64::from(site.engines)).sum();
    let near: f64 =
        sites.iter().map(|site| f64::from(site.servers) * f64::from(site.engines)).sum();
    let ends = match sites.iter().filter(|site| site.engines > 0).count() {
        1 => Ends::One,
        _ => Ends::Both,
    };
    (Share(1.0 - near / (servers * engines).max(1.0)), ends)
}

/// Bytes of a request and of its answer, framing included.
fn payload(workload: &Workload) -> (Bytes, Bytes) {
    match workload {
        Workload::Rr { framing, request, response, .. }
        | Workload::Crr { framing, request, response, .. } => {
            let prefix = match framing {
                Framing::Fixed => 0,
                Framing::Length2 => 2,
                Framing::Length4 => 4,
            };
            (Bytes(request.0 + prefix), Bytes(response.0 + prefix))
        }
        // A request's and a small answer's head; no study has a raw one.
        Workload::Http { .. } | Workload::Raw { .. } | Workload::Stream { .. } => {
            (Bytes(100), Bytes(200))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::commands::study::file::Study;
    use crate::commands::study::published::published;
    use std::path::Path as File;

    #[test]
    fn the_published_table_b_follows_from_table_a_and_the_path() {
        let folder = File::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies"));
        let study = Study::read(&folder.join("echo-sites.toml")).unwrap();
        let figures = published(&folder.join("published/echo-sites.csv")).unwrap().exchanges;
        let plan = |name: &str| {
            let series = study.series.iter().find(|it| it.published.as_deref() == Some(name));
            study.plan_of(series.unwrap(), folder).unwrap()
        };
        let (a, b) = (plan("A"), plan("B"));
        let outcome = Between { from: &a, to: &b }.published(["A", "B"], [0.10, 0.20], &figures);
        assert_eq!(outcome.held, Some(true), "{}", outcome.because);
    }

    #[test]
    fn of_two_sites_with_as_many_hosts_half_of_all_exchanges_cross() {
        let plan = |east: &str, west: &str| {
            let text = format!(
                "[target]\nbeam = 'echo'\n[[sites]]\nname = 'east'\n{east}\n[[sites]]\nname = 'west'\n{west}\n\
                 [[links]]\nbetween = ['east', 'west']\n"
            );
            crosses(&Plan::from_toml(&text).unwrap())
        };
        let both = "servers = 2\nengines = 1";
        assert_eq!(plan(both, both), (Share(0.5), Ends::Both));
        assert_eq!(plan("engines = 1", "servers = 3"), (Share(1.0), Ends::One));
    }
}
