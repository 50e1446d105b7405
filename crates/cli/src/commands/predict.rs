//! `predict`: a measured or published column behind a path that is only described.

use linerate_model::{Bytes, Share};
use linerate_predict::{Crossing, Curve, Ends, forecast};
use linerate_report::{Between, Document, Known, PredictDocument, PredictRow};

use crate::args::{PathChange, PredictArgs};
use crate::failure::Failure;
use crate::output::Output;
use crate::path_flags::changed;
use crate::plan_of::{duration, read};

mod column;
mod simulated;

use column::{Column, Rows};

// Chosen: more workers than this no column is of; the arithmetic would take minutes.
const MOST: u32 = 1_000_000;

/// See the module.
pub fn predict(args: &PredictArgs) -> Result<u8, Failure> {
    let output = Output::new(&args.output)?.without_evidence("predict makes none")?;
    let path = args.file.display();
    let wrong = |wrong: String| Failure::plan(format!("{path}: {wrong}"));
    let text = std::fs::read_to_string(&args.file)
        .map_err(|error| wrong(format!("cannot be read: {error}")))?;
    let column = Column::read(&text).map_err(wrong)?;
    let rows = column.rows(&args.filter).map_err(wrong)?;
    let held = match args.against.is_empty() {
        true => None,
        false => Some(column.rows(&args.against).map_err(wrong)?),
    };
    let round_trip = match &args.base_rtt {
        Some(rtt) => Some(duration("--base-rtt", rtt)?.as_secs_f64()),
        None => rows.round_trip,
    };
    let curve = Curve::new(&rows.measured, round_trip).map_err(|bad| wrong(bad.to_string()))?;
    let crossing = crossing(
        Crossing { request: rows.request, response: rows.response, ..Crossing::default() },
        &args.path,
    )?;
    let known = held.as_ref().map(Rows::known).unwrap_or_default();
    let counts = match &args.connections {
        Some(counts) => counts_of(counts)?,
        None if !known.is_empty() => known.iter().map(|known| known.connections).collect(),
        None => rows.measured.iter().map(|row| row.connections).collect(),
    };
    if let Some(many) = counts.iter().find(|count| **count > MOST) {
        return Err(Failure::plan(format!("{many} connections: write {MOST} or fewer")));
    }
    let mut predicted = Vec::new();
    for count in counts {
        let known = known.iter().find(|known| known.connections == count).copied();
        let mut row = PredictRow::new(forecast(&curve, &crossing, count), known);
        if args.simulate {
            let round_trip = round_trip.unwrap_or(0.0);
            row.simulated =
                Some(simulated::simulated(&curve, &crossing, round_trip, &row.forecast)?);
        }
        predicted.push(row);
    }
    let mut blind_spots = PredictDocument::blind_spots();
    let most = predicted.iter().map(|row| row.forecast.connections).max().unwrap_or(0);
    blind_spots.extend(curve.says_beyond(most));
    let document = PredictDocument {
        schema: PredictDocument::SCHEMA.into(),
        program: env!("CARGO_PKG_VERSION").into(),
        from: of(&path.to_string(), &args.filter),
        measured: rows.known(),
        crossing: Between::of(&crossing),
        demands: curve.demands(),
        usl: curve.usl(),
        rows: predicted,
        against: held.map(|_| of("", &args.against)),
        blind_spots,
    };
    output.write(&Document::Predict(Box::new(document)))?;
    Ok(0)
}

/// A file and what was chosen of it.
fn of(file: &str, filter: &[(String, String)]) -> String {
    let chosen = filter.iter().map(|(column, value)| format!("{column}={value}"));
    let chosen: Vec<String> = chosen.collect();
    match (file, chosen.join(" and ")) {
        ("", chosen) => chosen,
        (file, chosen) if chosen.is_empty() => file.to_owned(),
        (file, chosen) => format!("{file}, {chosen}"),
    }
}

/// What lies between, with what the flags say of it.
pub(super) fn crossing(was: Crossing, flags: &PathChange) -> Result<Crossing, Failure> {
    let size = |flag: &str, text: &Option<String>| -> Result<Option<Bytes>, Failure> {
        text.as_deref().map(|text| read(flag, text)).transpose()
    };
    let share = flags.share.as_deref().map(|text| read::<Share>("--share", text)).transpose()?;
    if share.is_some_and(|share| share.0 <= 0.0) {
        return Err(Failure::plan("--share: nothing crosses the path: write more than 0%"));
    }
    let ends = match flags.sides.as_deref() {
        None if share.is_some_and(|share| share.0 < 1.0) => Ends::Both,
        None => was.ends,
        Some("one") => Ends::One,
        Some("both") => Ends::Both,
        Some(other) => {
            return Err(Failure::plan(format!("--sides: `{other}` is neither: write one or both")));
        }
    };
    if flags.servers == Some(0) {
        return Err(Failure::plan("--servers: 0 answer nothing: write 1 or more"));
    }
    if let Some(Bytes(0)) = size("--window", &flags.window)? {
        return Err(Failure::plan("--window: 0 lets nothing through: write 1 or more"));
    }
    Ok(Crossing {
        path: changed(was.path, flags)?,
        share: share.unwrap_or(was.share),
        servers: flags.servers.unwrap_or(was.servers),
        ends,
        request: size("--request", &flags.request)?.unwrap_or(was.request),
        response: size("--response", &flags.response)?.unwrap_or(was.response),
        window: size("--window", &flags.window)?.or(was.window),
    })
}

fn counts_of(counts: &str) -> Result<Vec<u32>, Failure> {
    let count = |count: &str| {
        count.trim().parse().ok().filter(|count| *count > 0).ok_or_else(|| {
            Failure::plan(format!(
                "--connections: `{count}` is not a number: write for example 1,10,50"
            ))
        })
    };
    counts.split(',').map(count).collect()
}

impl Rows {
    fn known(&self) -> Vec<Known> {
        let of = self.measured.iter().zip(&self.mean_us);
        of.map(|(row, mean_us)| Known {
            connections: row.connections,
            per_s: row.throughput.0,
            mean_us: *mean_us,
        })
        .collect()
    }
}
