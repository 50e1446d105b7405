//! `run`: one run, or one for each combination of a scan.

use std::collections::BTreeMap;

use linerate_evidence::ValidityState;
use linerate_model::Plan;
use linerate_report::{Document, Gated, RunDocument, StudyDocument, run_document, series_of};
use linerate_run::{Deployment, Runner};

use crate::args::RunArgs;
use crate::failure::Failure;
use crate::gate::Gate;
use crate::output::{Output, say};
use crate::overrides::{needs_new_lab, overridden};
use crate::plan_of::{access_of, combinations, plan_of};
use crate::privileges;
use crate::progress::Progress;
use crate::signals::Signals;

/// See the module.
pub fn run(args: &RunArgs) -> Result<u8, Failure> {
    let plan = plan_of(&args.load)?;
    let gates = Gate::all(&args.fail_if).map_err(Failure::plan)?;
    let turned = turned(&args.scan, &plan)?;
    let plans = std::iter::once(&plan).chain(turned.iter().map(|turned| &turned.plan));
    privileges::for_plans(plans, args.output.verbose)?;
    let mut output = Output::new(&args.output)?;
    if !turned.is_empty() {
        output = output.without_evidence("--scan makes several")?;
    }
    let signals = Signals::install().map_err(Failure::run)?;
    let observer = output.progress(&args.output);
    let mut runner = Runner {
        observer,
        cancel: signals.flag(),
        verbose: args.output.verbose,
        show_secrets: args.output.show_secrets,
        access: access_of(&args.load)?,
    };

    let (mut document, ended) = if turned.is_empty() {
        let mut deployment = runner.lay(&plan)?;
        let measured = runner.measure(&mut deployment, &plan, output.evidence.as_deref());
        runner.remove(deployment);
        let measured = measured?;
        let run = run_document(&measured.header, &measured.evidence, &measured.ended);
        (Document::Run(Box::new(run)), Ok(()))
    } else {
        let (rows, ended) = scan(&turned, &mut runner);
        if rows.is_empty() {
            ended?;
            return Ok(signals.exit_code().unwrap_or(0));
        }
        (Document::Study(StudyDocument::of_scan(scanned(args), rows)), ended)
    };
    Gate::judge_all(&gates, &mut document);
    output.write(&document)?;
    // What was measured before a failure is reported all the same.
    ended?;
    Ok(exit_code(&document, &signals))
}

/// A signal before a dead target before what the runs say themselves.
pub fn exit_code(document: &Document, signals: &Signals) -> u8 {
    if let Some(code) = signals.exit_code() {
        return code;
    }
    if let Some(died) = document.runs().iter().find(|run| run.ended != "done") {
        say(&format!("error: {}\n", died.ended));
        return 1;
    }
    judged(document)
}

/// A void run before a breached gate.
pub fn judged(document: &Document) -> u8 {
    let runs = document.runs();
    if let Some(void) = runs.iter().find(|run| run.validity.state == ValidityState::Void) {
        say(&format!("error: the run is void: {}\n", void.validity.reasons.join("; ")));
        return 4;
    }
    let gates = runs.iter().flat_map(|run| &run.gates);
    let breached: Vec<&Gated> = gates.filter(|gate| gate.breached).collect();
    for Gated { gate, says, .. } in &breached {
        say(&format!("gate breached: {gate}: {says}\n"));
    }
    if breached.is_empty() { 0 } else { 3 }
}

/// One combination of a scan.
struct Turned {
    values: BTreeMap<String, String>,
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
            turned = overridden(&turned, knob, value)?;
        }
        let new_lab = combination.keys().any(|knob| needs_new_lab(knob));
        Ok(Turned { values: combination, plan: turned, new_lab })
    };
    combinations(scans).into_iter().map(one).collect()
}

/// What was turned, and what came of it.
type Row = (BTreeMap<String, String>, RunDocument);

/// The rows that were measured, and what kept the rest from it.
fn scan(scanned: &[Turned], runner: &mut Runner<Progress>) -> (Vec<Row>, Result<(), Failure>) {
    let mut rows = Vec::new();
    let mut laid: Option<Deployment> = None;
    let ended = (|| {
        for turned in scanned {
            if runner.is_cancelled() {
                break;
            }
            runner.observer.label(series_of(&turned.values));
            if turned.new_lab
                && let Some(deployment) = laid.take()
            {
                runner.remove(deployment);
            }
            let deployment = match &mut laid {
                Some(deployment) => deployment,
                None => laid.insert(runner.lay(&turned.plan)?),
            };
            runner.set(deployment, &turned.plan)?;
            rows.push((turned.values.clone(), one(runner, deployment, &turned.plan)?));
        }
        Ok(())
    })();
    if let Some(deployment) = laid {
        runner.remove(deployment);
    }
    (rows, ended)
}

/// `c=1,10 nodelay=on,off`.
fn scanned(args: &RunArgs) -> String {
    let said = args.scan.iter().map(|(knob, values)| format!("{knob}={values}"));
    said.collect::<Vec<_>>().join(" ")
}

/// One run's document.
pub fn one(
    runner: &mut Runner<Progress>,
    deployment: &mut Deployment,
    plan: &Plan,
) -> Result<RunDocument, Failure> {
    let measured = runner.measure(deployment, plan, None)?;
    Ok(run_document(&measured.header, &measured.evidence, &measured.ended))
}
