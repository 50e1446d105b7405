//! `compare`: two sides of runs, figure by figure with intervals; exit 5 when the second is worse.
//!
//! What is not valid, or answers something else, is not compared.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

use linerate_evidence::{Packed, ValidityState, live_histogram};
use linerate_model::Share;
use linerate_report::{CompareDocument, ComparedFigure, ComparedRun, Document, RunDocument};
use serde_json::Value;

use crate::args::CompareArgs;
use crate::failure::Failure;
use crate::gate::Gate;
use crate::output::{Output, say};
use crate::plan_of::read;
use crate::sides::{FALSE_ALARMS, Sides};

/// A figure that is compared as a ratio.
struct Figure {
    name: &'static str,
    unit: &'static str,
    of: fn(&RunDocument) -> Option<f64>,
    /// What runs of one build on one machine spread by: standard deviation of the logarithm, or of the normal
    /// distribution that has the 98.3 % quantile of the differences between two, where that is more: tails are fat.
    between: f64,
    /// Whether more of it is better.
    more_is_better: bool,
}

/// Measured: docs/comparison.md, 40 runs of 2 s of one build on two shared cores.
const FIGURES: [Figure; 3] = [
    Figure {
        name: "throughput",
        unit: "/s",
        of: |run| Some(run.load.throughput_per_s),
        between: 0.094,
        more_is_better: true,
    },
    Figure {
        name: "latency p50",
        unit: "us",
        of: |run| percentile(run, 0.5),
        between: 0.139,
        more_is_better: false,
    },
    Figure {
        name: "latency p99",
        unit: "us",
        of: |run| percentile(run, 0.99),
        between: 0.192,
        more_is_better: false,
    },
];

// Chosen: a hundredth more of all that was due lost is a regression, whatever the rate does.
const MORE_ERRORS: f64 = 0.01;

// Chosen: sides of which a tenth of the answers are of another class were asked, or answer, something else.
const OTHER_ANSWERS: f64 = 0.1;

/// Keys of a plan that may differ between the sides: what is compared is often a knob of the target, and the rest
/// changes nothing that is measured.
const MAY_DIFFER: [&str; 8] = [
    "target.",
    "name",
    "about",
    "labels.",
    "expect.",
    "engine.seed",
    "until.check",
    "until.duration",
];

/// See the module.
pub fn compare(args: &CompareArgs) -> Result<u8, Failure> {
    let tolerance: Share = read("--tolerance", &args.tolerance)?;
    let gates = Gate::all(&args.fail_if).map_err(Failure::plan)?;
    let output = Output::new(&args.output)?.without_evidence("compare makes none")?;
    let (before, after) = sides(args)?;
    let [before, after] = [load(before)?, load(after)?];
    let all: Vec<&(PathBuf, RunDocument)> = before.iter().chain(&after).collect();
    for (file, run) in &all {
        valid(file, run)?;
    }
    same_answers(&before, &after)?;
    let differs = differs(&before, &after, args.other_plans)?;
    let document = document(&before, &after, tolerance, differs, FALSE_ALARMS);
    written(document, &gates, &after, &output)
}

/// Judges the gates by the runs after, and writes all. A regression before a breached gate.
pub fn written(
    mut document: CompareDocument,
    gates: &[Gate],
    after: &[(PathBuf, RunDocument)],
    output: &Output,
) -> Result<u8, Failure> {
    let after: Vec<&RunDocument> = after.iter().map(|(_, run)| run).collect();
    document.gates = gates.iter().map(|gate| gate.judge_side(&after)).collect();
    let regressed = document.regressed;
    let breached: Vec<String> = document
        .gates
        .iter()
        .filter(|gate| gate.breached)
        .map(|gate| format!("gate breached: {}: {}\n", gate.gate, gate.says))
        .collect();
    output.write(&Document::Compare(Box::new(document)))?;
    breached.iter().for_each(|line| say(line));
    Ok(match () {
        () if regressed => 5,
        () if !breached.is_empty() => 3,
        () => 0,
    })
}

/// The files of either side, as they were typed.
fn sides(args: &CompareArgs) -> Result<(&[PathBuf], &[PathBuf]), Failure> {
    match (args.runs.as_slice(), args.after.as_slice()) {
        ([before, after], []) => Ok((std::slice::from_ref(before), std::slice::from_ref(after))),
        (_, []) => Err(Failure::plan(
            "which runs are before and which after: write BEFORE AFTER, or BEFORE... -- AFTER...",
        )),
        (before, after) => Ok((before, after)),
    }
}

/// The runs of files and folders; of a folder all that are JSON of a run.
fn load(paths: &[PathBuf]) -> Result<Vec<(PathBuf, RunDocument)>, Failure> {
    let mut runs = Vec::new();
    for path in paths {
        if !path.is_dir() {
            runs.push((path.clone(), run_of(path)?));
            continue;
        }
        let unread = |error| Failure::plan(format!("{}: cannot be read: {error}", path.display()));
        let entries = std::fs::read_dir(path).map_err(unread)?;
        let mut files: Vec<PathBuf> = entries
            .filter_map(|entry| entry.ok().map(|entry| entry.path()))
            .filter(|file| file.extension().is_some_and(|ending| ending == "json"))
            .collect();
        files.sort();
        if files.is_empty() {
            return Err(Failure::plan(format!(
                "{}: no .json in it: put runs there with `run -o {0}/1.json`",
                path.display()
            )));
        }
        for file in files {
            let run = run_of(&file)?;
            runs.push((file, run));
        }
    }
    Ok(runs)
}

fn run_of(path: &Path) -> Result<RunDocument, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::plan(format!("{}: cannot be read: {error}", path.display())))?;
    match Document::read(&text) {
        Ok(Document::Run(run)) => Ok(*run),
        Ok(_) => Err(Failure::plan(format!(
            "{}: not one run but several, or none: compare takes the JSON of `linerate run`",
            path.display()
        ))),
        Err(error) => Err(Failure::plan(format!("{}: {error}", path.display()))),
    }
}

fn void(sentence: String) -> Failure {
    Failure { code: 4, sentence }
}

/// Refuses a run that may not be believed.
pub fn valid(file: &Path, run: &RunDocument) -> Result<(), Failure> {
    let file = file.display();
    if run.ended != "done" {
        return Err(void(format!("{file}: not compared: the run ended early: {}", run.ended)));
    }
    match run.validity.state {
        ValidityState::Void => Err(void(format!(
            "{file}: not compared: the run is void: {}",
            run.validity.reasons.join("; ")
        ))),
        _ => Ok(()),
    }
}

/// The sides' answers are of the same classes of status.
pub fn same_answers(
    before: &[(PathBuf, RunDocument)],
    after: &[(PathBuf, RunDocument)],
) -> Result<(), Failure> {
    let shares = |side: &[(PathBuf, RunDocument)]| {
        let mut sum = [0u64; 5];
        for (_, run) in side {
            sum.iter_mut().zip(run.load.status).for_each(|(sum, count)| *sum += count);
        }
        let all = sum.iter().sum::<u64>().max(1) as f64;
        sum.map(|count| count as f64 / all)
    };
    let (a, b) = (shares(before), shares(after));
    if a.iter().zip(&b).all(|(a, b)| (a - b).abs() <= OTHER_ANSWERS) {
        return Ok(());
    }
    let words = |shares: [f64; 5]| {
        let classes = (1..=5).zip(shares).filter(|(_, share)| *share >= 0.001);
        let classes = classes.map(|(class, part)| format!("{} {class}xx", Share(part)));
        let classes: Vec<String> = classes.collect();
        if classes.is_empty() { "none".to_owned() } else { classes.join(", ") }
    };
    Err(void(format!(
        "not compared: the answers differ in kind: {} before, {} after",
        words(a),
        words(b)
    )))
}

/// What of plans and hosts differs, by dotted key. A difference in what was asked is refused unless it is wanted:
/// a comparison of two loads explains neither service.
pub fn differs(
    before: &[(PathBuf, RunDocument)],
    after: &[(PathBuf, RunDocument)],
    other_plans: bool,
) -> Result<Vec<String>, Failure> {
    let [(first, base), ..] = before else { return Ok(Vec::new()) };
    let base = keys(base);
    let mut found = BTreeSet::new();
    for (file, run) in before.iter().chain(after) {
        let keys = keys(run);
        let names: BTreeSet<&String> = base.keys().chain(keys.keys()).collect();
        for key in names.into_iter().filter(|key| base.get(*key) != keys.get(*key)) {
            let show = |side: Option<&String>| side.map_or("absent".to_owned(), Clone::clone);
            let change = format!("{key}: {} -> {}", show(base.get(key)), show(keys.get(key)));
            let may = key.starts_with("host.") || MAY_DIFFER.iter().any(|may| key.starts_with(may));
            if !may && !other_plans {
                return Err(Failure::plan(format!(
                    "{} has another plan than {}: {change}; --other-plans compares them anyway",
                    file.display(),
                    first.display(),
                )));
            }
            found.insert(change);
        }
    }
    Ok(found.into_iter().collect())
}

/// What was asked, and on what machine.
fn keys(run: &RunDocument) -> BTreeMap<String, String> {
    let mut keys = BTreeMap::new();
    flatten("", &serde_json::to_value(&run.plan).unwrap_or_default(), &mut keys);
    let host = &run.host;
    keys.insert("host.cpu_model".into(), host.cpu_model.clone());
    keys.insert("host.cpus".into(), host.cpus.to_string());
    keys.insert("host.kernel".into(), host.kernel.clone());
    keys
}

fn flatten(prefix: &str, value: &Value, into: &mut BTreeMap<String, String>) {
    match value {
        Value::Object(map) => {
            for (key, value) in map {
                let name = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
                flatten(&name, value, into);
            }
        }
        other => {
            into.insert(prefix.to_owned(), other.to_string());
        }
    }
}

/// The name and the labels that all runs have.
fn in_common(runs: &[&RunDocument]) -> (Option<String>, BTreeMap<String, String>) {
    let Some((first, rest)) = runs.split_first() else { return Default::default() };
    let name = first.plan.given_name();
    let name = name.filter(|name| rest.iter().all(|run| run.plan.name == *name));
    let mut labels = first.plan.labels.clone();
    labels.retain(|key, value| rest.iter().all(|run| run.plan.labels.get(key) == Some(value)));
    (name.map(str::to_owned), labels)
}

/// The comparison of two sides; `false_alarms` is its level.
pub fn document(
    before: &[(PathBuf, RunDocument)],
    after: &[(PathBuf, RunDocument)],
    tolerance: Share,
    differs: Vec<String>,
    false_alarms: f64,
) -> CompareDocument {
    let mut figures: Vec<ComparedFigure> = FIGURES
        .iter()
        .filter_map(|figure| figure.compared(before, after, tolerance.0, false_alarms))
        .collect();
    figures.push(errors(before, after));
    let mut notes = Vec::new();
    if before.len() + after.len() == 2 {
        let below = figures[0].could_see.map_or("any".to_owned(), |see| Share(see).to_string());
        notes.push(format!(
            "one run a side: runs of one build differ by {below}, so no verdict on throughput below that; give \
             several a side"
        ));
    }
    for (file, run) in before.iter().chain(after) {
        if run.validity.state == ValidityState::Suspect {
            notes.push(format!(
                "{} is suspect: {}",
                file.display(),
                run.validity.reasons.join("; ")
            ));
        }
    }
    let run = |(file, run): &(PathBuf, RunDocument)| ComparedRun {
        file: file.display().to_string(),
        started: run.started.clone(),
        throughput_per_s: run.load.throughput_per_s,
        limit: run.verdict.by().unwrap_or("unexplained").to_owned(),
    };
    let all: Vec<&RunDocument> = before.iter().chain(after).map(|(_, run)| run).collect();
    let (name, labels) = in_common(&all);
    CompareDocument {
        name,
        labels,
        schema: CompareDocument::SCHEMA.into(),
        program: env!("CARGO_PKG_VERSION").into(),
        before: before.iter().map(run).collect(),
        after: after.iter().map(run).collect(),
        tolerance: tolerance.0,
        false_alarms,
        differs,
        notes,
        regressed: figures.iter().any(|figure| figure.regressed),
        gates: Vec::new(),
        figures,
    }
}

impl Figure {
    fn compared(
        &self,
        before: &[(PathBuf, RunDocument)],
        after: &[(PathBuf, RunDocument)],
        tolerance: f64,
        false_alarms: f64,
    ) -> Option<ComparedFigure> {
        let of = |side: &[(PathBuf, RunDocument)]| {
            side.iter().map(|(_, run)| (self.of)(run)).collect::<Option<Vec<f64>>>()
        };
        let (a, b) = (of(before)?, of(after)?);
        let sides = Sides {
            before: &a,
            after: &b,
            between: self.between,
            level: false_alarms / FIGURES.len() as f64,
        };
        let difference = sides.difference();
        let (ratio, [low, high]) = (difference.ratio, difference.interval);
        let worse = match self.more_is_better {
            true => ratio < 1.0 - tolerance && high < 1.0,
            false => ratio > 1.0 + tolerance && low > 1.0,
        };
        let could_see = difference.could_see();
        let says = match (difference.is_real(), could_see) {
            (true, _) => format!("x{ratio:.3} ({low:.3} to {high:.3})"),
            (false, Some(see)) => {
                format!("no difference found, could have seen {:.1} %", see * 100.0)
            }
            (false, None) => "too little was measured to compare".to_owned(),
        };
        let mean = |side: &[f64]| {
            (side.iter().map(|value| value.ln()).sum::<f64>() / side.len() as f64).exp()
        };
        Some(ComparedFigure {
            figure: self.name.into(),
            unit: self.unit.into(),
            before: mean(&a),
            after: mean(&b),
            ratio,
            interval: difference.interval,
            could_see,
            says,
            regressed: worse,
        })
    }
}

/// What was lost of all that was due, 4xx and 5xx among it.
fn errors(before: &[(PathBuf, RunDocument)], after: &[(PathBuf, RunDocument)]) -> ComparedFigure {
    // A share and its 95 % deviation, as if requests failed independently of each other.
    let share = |side: &[(PathBuf, RunDocument)]| {
        let (mut lost, mut due) = (0, 0);
        for (_, run) in side {
            let (failed, all) = run.load.unserved();
            lost += failed + run.load.status[3] + run.load.status[4];
            due += all;
        }
        let share = lost as f64 / due.max(1) as f64;
        (share, (share * (1.0 - share).max(0.0) / due.max(1) as f64))
    };
    let ((a, va), (b, vb)) = (share(before), share(after));
    let (more, half) = (b - a, 1.96 * (va + vb).sqrt());
    ComparedFigure {
        figure: "errors".into(),
        unit: "share".into(),
        before: a,
        after: b,
        ratio: more,
        interval: [more - half, more + half],
        could_see: Some(MORE_ERRORS.max(half)),
        says: match more.abs() > half {
            true => format!("{:+.2} points", more * 100.0),
            false => "no difference found".to_owned(),
        },
        regressed: more > MORE_ERRORS && more > half,
    }
}

/// A percentile of latency, recomputed from the histogram. Unit: microseconds.
fn percentile(run: &RunDocument, share: f64) -> Option<f64> {
    let packed = Packed::from_base64(&run.load.histogram_v2_base64).ok()?;
    let mut live = live_histogram();
    packed.add_to(&mut live);
    (!live.is_empty()).then(|| (live.value_at_quantile(share) as f64 / 1e3).max(1e-3))
}
