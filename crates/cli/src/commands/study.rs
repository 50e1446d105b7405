//! `study`: a published study's cases, run here, its figures beside ours.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use linerate_model::{OpRate, Plan, Target, Workload};
use linerate_report::{Claim, Document, RunDocument, StudyDocument, StudyRow};
use serde::Deserialize;

use crate::args::StudyArgs;
use crate::commands::run::{exit_code, one};
use crate::failure::Failure;
use crate::measure::Bench;
use crate::output::{Output, print};
use crate::plan_of::duration;
use crate::signals::Signals;

/// A study's file.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Study {
    name: String,
    about: String,
    /// CSV of published figures, beside the study's file.
    published: Option<String>,
    /// Length of each run.
    duration: String,
    connections: Vec<u32>,
    series: Vec<Series>,
    #[serde(default)]
    claims: Vec<ClaimRule>,
}

/// One line of the study's figure.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
struct Series {
    name: String,
    /// Its name among the published figures.
    published: Option<String>,
    target: Target,
    #[serde(default)]
    workload: Workload,
}

/// What the study claims, as something that can be checked.
#[derive(Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
enum ClaimRule {
    /// At each connection count throughput is connections by the median service time of one connection.
    Stall { says: String, series: String, within: f64 },
    /// Throughput of one series is at least so many times another's, at this connection count.
    Ratio { says: String, of: String, to: String, connections: u32, least: f64 },
    /// A series' verdict at each connection count.
    Verdict { says: String, series: String, by: String },
}

/// What was published of one case.
#[derive(Clone, Copy)]
struct Published {
    per_s: f64,
    mean_us: f64,
}

/// By series and connections.
type Figures = BTreeMap<(String, u32), Published>;

/// Studies that come with linerate: name, file. Their folder is found beside the program or below the
/// current one.
const FOLDER: &str = "studies";

/// See the module.
pub fn study(args: &StudyArgs) -> Result<u8, Failure> {
    let Some(name) = &args.study else {
        return list();
    };
    let path = find(name)?;
    let shown = path.display();
    let text = std::fs::read_to_string(&path)
        .map_err(|error| Failure::plan(format!("{shown}: cannot be read: {error}")))?;
    let mut study: Study = toml::from_str(&text).map_err(|error| {
        Failure::plan(format!("{shown}: {}", error.to_string().trim().replace('\n', " ")))
    })?;
    if let Some(counts) = &args.connections {
        study.connections = counts
            .split(',')
            .map(|count| {
                count.trim().parse().map_err(|_| {
                    Failure::plan(format!(
                        "--connections: `{count}` is not a number: write for example 1,10,50"
                    ))
                })
            })
            .collect::<Result<_, _>>()?;
    }
    if let Some(length) = &args.duration {
        study.duration = length.clone();
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    let published = match &study.published {
        Some(file) => published(&folder.join(file))?,
        None => BTreeMap::new(),
    };
    let output = Output::new(&args.output)?.without_evidence("study makes several")?;
    let signals = Signals::install().map_err(Failure::run)?;
    let progress = output.progress(&args.output);
    let mut bench = Bench { progress, signals: &signals, verbose: args.output.verbose };
    let mut rows = Vec::new();
    let ended = measure(&study, folder, &published, &mut bench, &mut rows);
    if rows.is_empty() {
        ended?;
        return Ok(signals.exit_code().unwrap_or(0));
    }
    let claims = study.claims.iter().map(|rule| claim(rule, &rows)).collect();
    let document = Document::Study(StudyDocument {
        schema: "linerate/study/1".into(),
        program: env!("CARGO_PKG_VERSION").into(),
        name: study.name,
        about: study.about,
        rows,
        claims,
    });
    output.write(&document)?;
    // The rows before a failure are reported all the same.
    ended?;
    Ok(exit_code(&document, &[], &signals))
}

fn measure(
    study: &Study,
    folder: &Path,
    published: &Figures,
    bench: &mut Bench,
    rows: &mut Vec<StudyRow>,
) -> Result<(), Failure> {
    for series in &study.series {
        let mut target = series.target.clone();
        for word in &mut target.command {
            *word = word.replace("{folder}", &folder.display().to_string());
        }
        let mut plan = Plan::of(target);
        plan.name = format!("{} {}", study.name, series.name);
        plan.workload = series.workload.clone();
        plan.until.duration = Some(duration("duration", &study.duration)?);
        plan.check().map_err(Failure::plan)?;
        if bench.signals.received() {
            break;
        }
        let mut stand = bench.lay(&plan)?;
        for connections in &study.connections {
            plan.load.connections = *connections;
            bench.progress.label(format!("{}, {connections} connections", series.name));
            let run = match one(bench, &mut stand, &plan) {
                Ok(run) => run,
                Err(failure) => {
                    stand.close();
                    return Err(failure);
                }
            };
            let known = series
                .published
                .as_ref()
                .and_then(|name| published.get(&(name.clone(), *connections)).copied());
            rows.push(StudyRow {
                series: series.name.clone(),
                connections: *connections,
                published_per_s: known.map(|known| known.per_s),
                published_mean_us: known.map(|known| known.mean_us),
                run,
            });
            if bench.signals.received() {
                break;
            }
        }
        stand.close();
    }
    Ok(())
}

fn claim(rule: &ClaimRule, rows: &[StudyRow]) -> Claim {
    let of = |name: &str| rows.iter().filter(|row| row.series == name).collect::<Vec<_>>();
    let at = |name: &str, connections: u32| {
        rows.iter().find(|row| row.series == name && row.connections == connections)
    };
    let unmeasured = |says: &str| Claim {
        says: says.to_owned(),
        held: false,
        because: "not measured in this run".into(),
    };
    match rule {
        ClaimRule::Stall { says, series, within } => {
            let rows = of(series);
            let Some(stall) =
                rows.iter().find(|row| row.connections == 1).map(|row| median(&row.run))
            else {
                return unmeasured(says);
            };
            let worst = rows
                .iter()
                .map(|row| {
                    row.run.load.throughput_per_s / (f64::from(row.connections) / stall) - 1.0
                })
                .max_by(|a, b| a.abs().total_cmp(&b.abs()))
                .unwrap_or(f64::INFINITY);
            Claim {
                says: says.clone(),
                held: worst.abs() <= *within,
                because: format!(
                    "stall {:.1} ms; farthest from connections / stall: {:+.1} %",
                    stall * 1e3,
                    worst * 100.0
                ),
            }
        }
        ClaimRule::Ratio { says, of, to, connections, least } => {
            let (Some(high), Some(low)) = (at(of, *connections), at(to, *connections)) else {
                return unmeasured(says);
            };
            let (high, low) = (high.run.load.throughput_per_s, low.run.load.throughput_per_s);
            Claim {
                says: says.clone(),
                held: high >= least * low,
                because: format!("{} against {}: x{:.2}", OpRate(high), OpRate(low), high / low),
            }
        }
        ClaimRule::Verdict { says, series, by } => {
            let rows = of(series);
            if rows.is_empty() {
                return unmeasured(says);
            }
            let others: Vec<String> = rows
                .iter()
                .filter(|row| row.run.verdict.by() != Some(by))
                .map(|row| {
                    format!("{} at {}", row.run.verdict.by().unwrap_or("none"), row.connections)
                })
                .collect();
            Claim {
                says: says.clone(),
                held: others.is_empty(),
                because: if others.is_empty() {
                    format!("{by} at every connection count")
                } else {
                    format!("instead {}", others.join(", "))
                },
            }
        }
    }
}

/// Median service time. Unit: seconds.
fn median(run: &RunDocument) -> f64 {
    let list = &run.load.service_us.percentiles;
    list.iter()
        .find(|[percentile, _]| *percentile == 50.0)
        .map_or(f64::INFINITY, |[_, value]| value / 1e6)
}

/// `server,threads,connections,requests_per_s,mean_latency_us`, comments with #.
fn published(path: &Path) -> Result<Figures, Failure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::plan(format!("{shown}: cannot be read: {error}")))?;
    let mut figures = Figures::new();
    for (index, line) in text.lines().enumerate() {
        if line.starts_with('#') || line.starts_with("server,") || line.trim().is_empty() {
            continue;
        }
        let words: Vec<&str> = line.split(',').collect();
        let row = || {
            let [server, _, connections, rate, mean] = words[..] else { return None };
            let case = (server.to_owned(), connections.parse().ok()?);
            Some((case, Published { per_s: rate.parse().ok()?, mean_us: mean.parse().ok()? }))
        };
        let (key, value) = row().ok_or_else(|| {
            Failure::plan(format!(
                "{shown}: line {}: expected server,threads,connections,requests_per_s,mean_latency_us, found `{line}`",
                index + 1
            ))
        })?;
        figures.insert(key, value);
    }
    Ok(figures)
}

fn find(name: &str) -> Result<PathBuf, Failure> {
    if name.ends_with(".toml") {
        return Ok(PathBuf::from(name));
    }
    let file = format!("{name}.toml");
    folders().into_iter().map(|folder| folder.join(&file)).find(|path| path.is_file()).ok_or_else(
        || Failure::plan(format!("`{name}` is no study: write one of {}", names().join(", "))),
    )
}

/// Below the current folder, or below one above the program.
fn folders() -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from(FOLDER)];
    if let Ok(program) = std::env::current_exe() {
        folders.extend(program.ancestors().skip(1).map(|above| above.join(FOLDER)));
    }
    folders
}

fn names() -> Vec<String> {
    let Some(folder) = folders().into_iter().find(|folder| folder.is_dir()) else {
        return Vec::new();
    };
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".toml")?.to_owned()))
        .collect();
    names.sort();
    names
}

fn list() -> Result<u8, Failure> {
    let names = names();
    if names.is_empty() {
        return Err(Failure::run(
            "no studies found: run linerate in its repository, or name a file",
        ));
    }
    print(&format!("{}\n", names.join("\n")))?;
    Ok(0)
}
