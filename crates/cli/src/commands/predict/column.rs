//! A column of measurements: CSV with a head, or the JSON that `run`, `--scan` and `study` write.

use linerate_model::{Bytes, OpRate};
use linerate_predict::{Crossing, Row};
use linerate_report::{Document, RunDocument};

/// All rows of a file.
#[derive(Debug)]
pub(super) struct Column(Vec<Cell>);

/// One row, with all that a filter may ask of it.
#[derive(Debug)]
struct Cell {
    names: Vec<(String, String)>,
    row: Row,
    mean_us: Option<f64>,
    round_trip: Option<f64>,
    messages: Option<[u64; 2]>,
}

/// Those that were chosen.
#[derive(Debug)]
pub(super) struct Rows {
    pub measured: Vec<Row>,
    /// By row: mean latency.
    pub mean_us: Vec<Option<f64>>,
    /// That all of them were measured on. Unit: seconds.
    pub round_trip: Option<f64>,
    pub request: Bytes,
    pub response: Bytes,
}

/// Names that a column of a CSV may have, and what its numbers are multiplied by.
type Names = &'static [(&'static str, f64)];

const CONNECTIONS: Names =
    &[("total_clients", 1.0), ("connections", 1.0), ("clients", 1.0), ("workers", 1.0)];
const PER_S: Names =
    &[("throughput_rps", 1.0), ("requests_per_s", 1.0), ("throughput_per_s", 1.0), ("per_s", 1.0)];
const MEAN: Names = &[
    ("mean_latency_us", 1.0),
    ("mean_latency_ms", 1e3),
    ("latency_mean_us", 1.0),
    ("mean_us", 1.0),
];
const RTT: Names = &[("rtt_ms", 1e-3), ("rtt_us", 1e-6)];

impl Column {
    pub fn read(text: &str) -> Result<Self, String> {
        if text.trim_start().starts_with('{') {
            let document = Document::read(text).map_err(|error| error.to_string())?;
            return of_document(&document);
        }
        of_csv(text)
    }

    /// The rows that every part of a filter holds of.
    pub fn rows(&self, filter: &[(String, String)]) -> Result<Rows, String> {
        let value = |cell: &Cell, name: &str| {
            let of_name = cell.names.iter().find(|(column, _)| column == name);
            of_name.map(|(_, value)| value.clone())
        };
        for (name, wanted) in filter {
            let values: Vec<String> = self.0.iter().filter_map(|cell| value(cell, name)).collect();
            if values.is_empty() {
                let mut known: Vec<&str> =
                    self.0.iter().flat_map(|cell| &cell.names).map(|(name, _)| &**name).collect();
                known.sort_unstable();
                known.dedup();
                return Err(format!("no column `{name}`: there are {}", known.join(", ")));
            }
            if !values.contains(wanted) {
                let mut there = values;
                there.dedup();
                return Err(format!("no row has {name}={wanted}: there are {}", there.join("; ")));
            }
        }
        let chosen: Vec<&Cell> = self
            .0
            .iter()
            .filter(|cell| {
                filter.iter().all(|(name, wanted)| value(cell, name).as_ref() == Some(wanted))
            })
            .collect();
        let Some(first) = chosen.first() else {
            return Err("no row has all of that".into());
        };
        let round_trip =
            first.round_trip.filter(|rtt| chosen.iter().all(|cell| cell.round_trip == Some(*rtt)));
        let default = Crossing::default();
        let [request, response] =
            first.messages.unwrap_or([default.request.0, default.response.0]).map(Bytes);
        Ok(Rows {
            measured: chosen.iter().map(|cell| cell.row).collect(),
            mean_us: chosen.iter().map(|cell| cell.mean_us).collect(),
            round_trip,
            request,
            response,
        })
    }
}

fn of_csv(text: &str) -> Result<Column, String> {
    let mut lines = (1..)
        .zip(text.lines())
        .filter(|(_, line)| !(line.starts_with('#') || line.trim().is_empty()));
    let (_, head) = lines.next().ok_or("no line with the columns' names")?;
    let head: Vec<&str> = head.split(',').map(str::trim).collect();
    let find = |names: Names| {
        names
            .iter()
            .find_map(|(name, each)| Some((head.iter().position(|column| column == name)?, *each)))
    };
    let must = |names: Names| {
        let all: Vec<&str> = names.iter().map(|(name, _)| *name).collect();
        find(names).ok_or(format!("no column {}", all.join(" or ")))
    };
    let (connections, per_s) = (must(CONNECTIONS)?, must(PER_S)?);
    let (mean, rtt) = (find(MEAN), find(RTT));
    let mut cells = Vec::new();
    for (number, line) in lines {
        let words: Vec<&str> = line.split(',').map(str::trim).collect();
        let value =
            |(place, each): (usize, f64)| Some(words.get(place)?.parse::<f64>().ok()? * each);
        let row = || {
            let connections = value(connections).filter(|count| *count >= 1.0)?;
            let throughput = value(per_s).filter(|rate| rate.is_finite())?;
            Some(Row {
                connections: (connections.fract() == 0.0).then_some(connections as u32)?,
                throughput: OpRate(throughput),
                fastest: None,
            })
        };
        let row =
            row().ok_or(format!("line {number}: expected {}, found `{line}`", head.join(",")))?;
        cells.push(Cell {
            names: head.iter().zip(&words).map(|(a, b)| ((*a).into(), (*b).into())).collect(),
            row,
            mean_us: mean.and_then(value),
            round_trip: rtt.and_then(value),
            messages: None,
        });
    }
    Ok(Column(cells))
}

fn of_document(document: &Document) -> Result<Column, String> {
    let cell = |series: &str, connections: u32, run: &RunDocument| {
        let load = &run.load;
        let least = load.service_us.percentiles.first().map(|[_, us]| us / 1e6);
        let each = |bytes: f64| (bytes / load.throughput_per_s.max(1e-9)).round() as u64;
        Cell {
            names: vec![
                ("series".into(), series.to_owned()),
                ("connections".into(), connections.to_string()),
            ],
            row: Row {
                connections,
                throughput: OpRate(load.throughput_per_s),
                fastest: least.filter(|least| *least > 0.0),
            },
            mean_us: Some(load.latency_us.mean),
            round_trip: None,
            messages: Some([each(load.written_bytes_per_s), each(load.read_bytes_per_s)]),
        }
    };
    let cells = match document {
        Document::Run(run) => vec![cell(&run.plan.name, run.plan.load.connections, run)],
        Document::Study(study) => {
            study.rows.iter().map(|row| cell(&row.series, row.connections, &row.run)).collect()
        }
        _ => {
            return Err(
                "not a run, a scan or a study: predict takes what `run --json` and `study --json` write"
                    .into(),
            );
        }
    };
    Ok(Column(cells))
}

#[cfg(test)]
mod tests {
    use super::*;

    const SITES: &str = include_str!("../../../../../studies/published/echo-sites.csv");

    fn filter(name: &str, value: &str) -> Vec<(String, String)> {
        vec![(name.into(), value.into())]
    }

    #[test]
    fn a_published_scenario_is_read_with_its_round_trip() {
        let rows = Column::read(SITES).unwrap().rows(&filter("scenario", "A")).unwrap();
        assert_eq!(rows.measured.len(), 5);
        assert_eq!((rows.measured[4].connections, rows.round_trip), (4_000, Some(0.25e-3)));
        assert_eq!(rows.mean_us[0].map(f64::round), Some(440.0));
    }

    #[test]
    fn what_is_not_there_is_refused_with_what_is() {
        let column = Column::read(SITES).unwrap();
        let says = |name, value| column.rows(&filter(name, value)).unwrap_err();
        assert_eq!(says("scenario", "C"), "no row has scenario=C: there are A; B");
        assert!(says("site", "A").starts_with("no column `site`: there are clients, mean_latency"));
        assert!(Column::read("a,b\n1,2\n").unwrap_err().contains("no column total_clients or"));
        assert!(Column::read("").unwrap_err().contains("columns' names"));
        let head = "connections,per_s\n";
        let wrong = Column::read(&format!("{head}2,3\nmany,1\n")).unwrap_err();
        assert_eq!(wrong, "line 3: expected connections,per_s, found `many,1`");
    }
}
