//! `run`: one run, or one for each combination of a scan.

use std::collections::BTreeMap;

use linerate_evidence::ValidityState;
use linerate_model::Plan;
use linerate_report::{Document, RunDocument, StudyDocument, StudyRow, run_document};

use crate::args::RunArgs;
use crate::failure::Failure;
use crate::gate::Gate;
use crate::measure::{Bench, Stand};
use crate::output::{Output, say};
use crate::plan_of::{combinations, plan_of};
use crate::privileges;
use crate::signals::Signals;
use crate::turn::{needs_new_lab, turn};

/// See the module.
pub fn run(args: &RunArgs) -> Result<u8, Failure> {
    let plan = plan_of(&args.load)?;
    let gates = args
        .fail_if
        .iter()
        .map(|gate| gate.parse::<Gate>().map_err(Failure::plan))
        .collect::<Result<Vec<_>, _>>()?;
    let turned = turned(&args.scan, &plan)?;
    let plans = std::iter::once(&plan).chain(turned.iter().map(|turned| &turned.plan));
    privileges::for_plans(plans, args.output.verbose)?;
    let mut output = Output::new(&args.output)?;
    if !turned.is_empty() {
        output = output.without_evidence("--scan makes several")?;
    }
    let signals = Signals::install().map_err(Failure::run)?;
    let progress = output.progress(&args.output);
    let mut bench = Bench { progress, signals: &signals, verbose: args.output.verbose };

    let (document, ended) = if turned.is_empty() {
        let mut stand = bench.lay(&plan)?;
        let measured = bench.measure(&mut stand, &plan, output.evidence.as_deref());
        stand.close();
        let measured = measured?;
        let run = run_document(&measured.header, &measured.evidence, &measured.ended);
        (Document::Run(Box::new(run)), Ok(()))
    } else {
        let (rows, ended) = scan(&turned, &mut bench);
        if rows.is_empty() {
            ended?;
            return Ok(signals.exit_code().unwrap_or(0));
        }
        (Document::Study(study(args, rows)), ended)
    };
    output.write(&document)?;
    // What was measured before a failure is reported all the same.
    ended?;
    Ok(exit_code(&document, &gates, &signals))
}

/// A signal before a dead target before a void run before a breached gate.
pub fn exit_code(document: &Document, gates: &[Gate], signals: &Signals) -> u8 {
    if let Some(code) = signals.exit_code() {
        return code;
    }
    let runs = document.runs();
    if let Some(died) = runs.iter().find(|run| run.ended != "done") {
        say(&format!("error: {}\n", died.ended));
        return 1;
    }
    if let Some(void) = runs.iter().find(|run| run.validity.state == ValidityState::Void) {
        say(&format!("error: the run is void: {}\n", void.validity.reasons.join("; ")));
        return 4;
    }
    let breached: Vec<String> =
        runs.iter().flat_map(|run| gates.iter().filter_map(|gate| gate.breached(run))).collect();
    for sentence in &breached {
        say(&format!("{sentence}\n"));
    }
    if breached.is_empty() { 0 } else { 3 }
}

/// One combination of a scan.
struct Turned {
    label: String,
    plan: Plan,
    new_lab: bool,
}

/// All combinations, so that a value that no plan takes is refused before the first run.
fn turned(scans: &[(String, String)], plan: &Plan) -> Result<Vec<Turned>, Failure> {
    if let Some((knob, values)) =
        scans.iter().find(|(_, values)| values.split(',').all(|value| value.trim().is_empty()))
    {
        return Err(Failure::plan(format!(
            "--scan {knob}={values}: no values: write some, as in {knob}=1,10"
        )));
    }
    if scans.is_empty() {
        return Ok(Vec::new());
    }
    let one = |combination: BTreeMap<String, String>| {
        let mut turned = plan.clone();
        for (knob, value) in &combination {
            turned = turn(&turned, knob, value)?;
        }
        let label: Vec<_> =
            combination.iter().map(|(knob, value)| format!("{knob}={value}")).collect();
        let new_lab = combination.keys().any(|knob| needs_new_lab(knob));
        Ok(Turned { label: label.join(" "), plan: turned, new_lab })
    };
    combinations(scans).into_iter().map(one).collect()
}

/// The rows that were measured, and what kept the rest from it.
fn scan(scanned: &[Turned], bench: &mut Bench) -> (Vec<StudyRow>, Result<(), Failure>) {
    let mut rows = Vec::new();
    let mut laid: Option<Stand> = None;
    let ended = (|| {
        for turned in scanned {
            if bench.signals.received() {
                break;
            }
            bench.progress.label(&turned.label);
            if turned.new_lab
                && let Some(stand) = laid.take()
            {
                stand.close();
            }
            let stand = match &mut laid {
                Some(stand) => stand,
                None => laid.insert(bench.lay(&turned.plan)?),
            };
            bench.set(stand, &turned.plan)?;
            rows.push(row(turned.label.clone(), one(bench, stand, &turned.plan)?));
        }
        Ok(())
    })();
    if let Some(stand) = laid {
        stand.close();
    }
    (rows, ended)
}

fn study(args: &RunArgs, rows: Vec<StudyRow>) -> StudyDocument {
    StudyDocument {
        schema: "linerate/study/1".into(),
        program: env!("CARGO_PKG_VERSION").into(),
        name: "scan".into(),
        about: args
            .scan
            .iter()
            .map(|(knob, values)| format!("{knob}={values}"))
            .collect::<Vec<_>>()
            .join(" "),
        scale: None,
        rows,
        claims: Vec::new(),
    }
}

/// One run's document.
pub fn one(bench: &mut Bench, stand: &mut Stand, plan: &Plan) -> Result<RunDocument, Failure> {
    let measured = bench.measure(stand, plan, None)?;
    Ok(run_document(&measured.header, &measured.evidence, &measured.ended))
}

fn row(series: String, run: RunDocument) -> StudyRow {
    StudyRow {
        series,
        connections: run.plan.load.connections,
        published_connections: None,
        published_per_s: None,
        published_mean_us: None,
        predicted_per_s: None,
        run,
    }
}
