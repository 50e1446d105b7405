//! Published figures: a CSV with a head, comments with `#`.

use std::collections::BTreeMap;
use std::path::Path;

use crate::failure::Failure;

/// What was published of one case.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Published {
    /// Unit: exchanges a second.
    pub per_s: f64,
    /// Unit: microseconds.
    pub mean_us: f64,
}

/// By series and connections.
pub(crate) type Figures = BTreeMap<(String, u32), Published>;

/// What was published of a study.
#[derive(Default)]
pub(crate) struct Publication {
    /// Exchanges a second, and their mean latency.
    pub exchanges: Figures,
    /// Throughput between nodes.
    pub between: Vec<Bits>,
}

/// A throughput between nodes as published.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Bits {
    /// None: there is one series.
    series: Option<String>,
    /// None: a series has one case.
    case: Option<u32>,
    /// Unit: bit/s.
    bit_s: f64,
}

impl Publication {
    /// Of that series and case. Unit: bit/s.
    pub fn bit_s(&self, series: &str, case: u32) -> Option<f64> {
        let is = |bits: &&Bits| {
            bits.series.as_deref().is_none_or(|of| of == series)
                && bits.case.is_none_or(|of| of == case)
        };
        self.between.iter().find(is).map(|bits| bits.bit_s)
    }
}

/// Names that a column may have, and what its numbers are multiplied by.
type Column = (&'static [&'static str], &'static [f64]);

const SERIES: Column = (&["server", "scenario"], &[1.0, 1.0]);
const CONNECTIONS: Column = (&["connections", "total_clients"], &[1.0, 1.0]);
const PER_S: Column = (&["requests_per_s", "throughput_rps"], &[1.0, 1.0]);
const MEAN_US: Column = (&["mean_latency_us", "mean_latency_ms"], &[1.0, 1e3]);
const STEP: Column = (&["step"], &[1.0]);
const CASE: Column = (&["payload_bytes"], &[1.0]);
const BIT_S: Column = (&["gbit_s", "throughput_mbit_s"], &[1e9, 1e6]);

/// Reads such a file; columns that it does not know it passes over.
pub(crate) fn published(path: &Path) -> Result<Publication, Failure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::plan(format!("{shown}: cannot be read: {error}")))?;
    publication(&text).map_err(|wrong| Failure::plan(format!("{shown}: {wrong}")))
}

fn publication(text: &str) -> Result<Publication, String> {
    let mut lines = (1..).zip(text.lines());
    let mut lines =
        lines.by_ref().filter(|(_, line)| !(line.starts_with('#') || line.trim().is_empty()));
    let (_, head) = lines.next().ok_or("no line with the columns' names")?;
    let head: Vec<&str> = head.split(',').map(str::trim).collect();
    if place(BIT_S, &head).is_some() {
        return Ok(Publication { between: bits(lines, &head)?, ..Publication::default() });
    }
    Ok(Publication { exchanges: figures(lines, &head)?, ..Publication::default() })
}

/// Where a column is, and what its numbers are multiplied by.
fn place((names, each): Column, head: &[&str]) -> Option<(usize, f64)> {
    let place = |name: &&str| head.iter().position(|column| column == name);
    names.iter().zip(each).find_map(|(name, each)| Some((place(name)?, *each)))
}

fn bits<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
    head: &[&str],
) -> Result<Vec<Bits>, String> {
    let [step, case, bit_s] = [STEP, CASE, BIT_S].map(|column| place(column, head));
    let row = |(number, line): (usize, &str)| {
        let words: Vec<&str> = line.split(',').map(str::trim).collect();
        let word = |(place, _): (usize, f64)| words.get(place).copied();
        let bits = || {
            let (_, each) = bit_s?;
            Some(Bits {
                series: match step {
                    Some(step) => Some(word(step)?.to_owned()),
                    None => None,
                },
                case: match case {
                    Some(case) => Some(word(case)?.parse().ok()?),
                    None => None,
                },
                bit_s: word(bit_s?)?.parse::<f64>().ok()? * each,
            })
        };
        bits().ok_or(format!("line {number}: expected {}, found `{line}`", head.join(",")))
    };
    lines.map(row).collect()
}

fn figures<'a>(
    lines: impl Iterator<Item = (usize, &'a str)>,
    head: &[&str],
) -> Result<Figures, String> {
    let find =
        |column: Column| place(column, head).ok_or(format!("no column {}", column.0.join(" or ")));
    let columns = (find(SERIES)?, find(CONNECTIONS)?, find(PER_S)?, find(MEAN_US)?);
    let ((series, _), connections, per_s, mean_us) = columns;
    let mut figures = Figures::new();
    for (number, line) in lines {
        let words: Vec<&str> = line.split(',').map(str::trim).collect();
        let value =
            |(place, each): (usize, f64)| Some(words.get(place)?.parse::<f64>().ok()? * each);
        let row = || {
            let connections =
                value(connections).filter(|count| *count >= 1.0 && count.fract() == 0.0)?;
            let case = ((*words.get(series)?).to_owned(), connections as u32);
            Some((case, Published { per_s: value(per_s)?, mean_us: value(mean_us)? }))
        };
        let (case, row) =
            row().ok_or(format!("line {number}: expected {}, found `{line}`", head.join(",")))?;
        figures.insert(case, row);
    }
    Ok(figures)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_heads_that_studies_have_are_read_and_milliseconds_become_microseconds() {
        let text = "# a comment\nscenario,rtt_ms,clients,total_clients,throughput_rps,mean_latency_ms\nB,10,50,200,38660.02,5.182687\n";
        let figures = publication(text).unwrap().exchanges;
        let row = figures[&("B".to_owned(), 200)];
        assert!((row.per_s - 38_660.02).abs() < 1e-6 && (row.mean_us - 5_182.687).abs() < 1e-6);
    }

    #[test]
    fn a_line_that_is_no_row_is_quoted() {
        let head = "server,threads,connections,requests_per_s,mean_latency_us\n";
        let error = wrong(&format!("{head}x,1,many,2,3\n"));
        assert!(error.starts_with("line 2: expected server,threads"), "{error}");
        assert!(wrong("a,b\n").contains("no column server or scenario"));
        assert_eq!(
            wrong("payload_bytes,gbit_s\n60000,much\n"),
            "line 2: expected payload_bytes,gbit_s, found `60000,much`"
        );
        assert!(publication("").is_err());
    }

    fn wrong(text: &str) -> String {
        publication(text).err().unwrap_or_default()
    }

    #[test]
    fn throughput_between_nodes_is_read_in_bits_by_step_or_by_size() {
        let steps = "step,change,throughput_mbit_s\n1,baseline,23\n2,more,31\n";
        let steps = publication(steps).unwrap();
        assert_eq!([steps.bit_s("2", 4), steps.bit_s("3", 4)], [Some(31e6), None]);
        let sizes = publication("payload_bytes,gbit_s,share_of_iperf\n60000,14.4,0.505\n").unwrap();
        assert_eq!([sizes.bit_s("link", 60_000), sizes.bit_s("link", 1)], [Some(14.4e9), None]);
    }
}
