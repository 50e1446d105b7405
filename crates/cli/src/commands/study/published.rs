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

/// Names that a column may have, and what its numbers are multiplied by.
type Column = (&'static [&'static str], &'static [f64]);

const SERIES: Column = (&["server", "scenario"], &[1.0, 1.0]);
const CONNECTIONS: Column = (&["connections", "total_clients"], &[1.0, 1.0]);
const PER_S: Column = (&["requests_per_s", "throughput_rps"], &[1.0, 1.0]);
const MEAN_US: Column = (&["mean_latency_us", "mean_latency_ms"], &[1.0, 1e3]);

/// Reads such a file; columns that it does not know it passes over.
pub(crate) fn published(path: &Path) -> Result<Figures, Failure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::plan(format!("{shown}: cannot be read: {error}")))?;
    figures(&text).map_err(|wrong| Failure::plan(format!("{shown}: {wrong}")))
}

fn figures(text: &str) -> Result<Figures, String> {
    let mut lines = (1..).zip(text.lines());
    let mut lines =
        lines.by_ref().filter(|(_, line)| !(line.starts_with('#') || line.trim().is_empty()));
    let (_, head) = lines.next().ok_or("no line with the columns' names")?;
    let head: Vec<&str> = head.split(',').map(str::trim).collect();
    let find = |(names, each): Column| {
        let place = |name: &&str| head.iter().position(|column| column == name);
        let found = names.iter().zip(each).find_map(|(name, each)| Some((place(name)?, *each)));
        found.ok_or(format!("no column {}", names.join(" or ")))
    };
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
        let figures = figures(text).unwrap();
        let row = figures[&("B".to_owned(), 200)];
        assert!((row.per_s - 38_660.02).abs() < 1e-6 && (row.mean_us - 5_182.687).abs() < 1e-6);
    }

    #[test]
    fn a_line_that_is_no_row_is_quoted() {
        let head = "server,threads,connections,requests_per_s,mean_latency_us\n";
        let error = figures(&format!("{head}x,1,many,2,3\n")).unwrap_err();
        assert!(error.starts_with("line 2: expected server,threads"), "{error}");
        assert!(figures("a,b\n").unwrap_err().contains("no column server or scenario"));
        assert!(figures("").is_err());
    }
}
