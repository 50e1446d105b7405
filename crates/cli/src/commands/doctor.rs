//! `doctor`: a live service watched from outside and, where it is a BEAM node, from inside.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use linerate_engine::now;
use linerate_evidence::{Header, TargetFacts, VERSION};
use linerate_model::{Plan, Share, Target};
use linerate_probe::{cpus_of, host_facts};
use linerate_report::{Document, doctor_document};
use linerate_run::{EvidenceFile, Observer, raise_descriptors};

use crate::args::DoctorArgs;
use crate::failure::Failure;
use crate::output::{Output, say};
use crate::plan_of::duration;
use crate::signals::Signals;

mod apply;
mod asked;
mod far;
mod inside;
mod outside;
mod sampled;
mod samplers;
mod watch;

use apply::Apply;
use asked::Asked;
use inside::{Inside, enter};
use outside::Outside;
use watch::Watch;

/// See the module.
pub fn doctor(args: &DoctorArgs) -> Result<u8, Failure> {
    let asked: Asked = args.target.parse()?;
    let length = duration("--for", &args.length)?;
    if length.is_zero() {
        return Err(Failure::plan("--for: 0 is no time: write for example 10s"));
    }
    let budget = budget(&args.budget)?;
    let apply = args.apply.as_ref().map(|knob| Apply::new(knob, args)).transpose()?;
    let output = Output::new(&args.output)?;
    let signals = Signals::install().map_err(Failure::run)?;
    raise_descriptors();

    let mut outside = Outside::find(&asked)?;
    let inside = enter(&asked, args, budget, &mut outside)?;
    let header = header(args, length, &outside, inside.as_ref());
    let file = output.evidence.as_ref().map(|path| EvidenceFile::create(path, &header));
    let mut progress = output.progress(&args.output);
    progress.begin(&header.plan, header.started);
    let returns = apply.is_none();
    let mut watch = Watch::open(inside, outside, file.transpose()?, &signals, progress, returns);
    let applied = match apply {
        None => watch.until(header.started.after(length)).map(|()| None),
        Some(apply) => apply.measure(&mut watch, header.started, length),
    };
    let (evidence, ended, applied) = match applied {
        Ok(applied) => {
            let (evidence, ended) = watch.close()?;
            (evidence, ended, applied)
        }
        Err(failure) => {
            watch.close()?;
            return Err(failure);
        }
    };
    let mut document = doctor_document(&header, &evidence, &ended);
    document.applied = applied;
    output.write(&Document::Doctor(Box::new(document)))?;
    match signals.exit_code() {
        Some(code) => Ok(code),
        None if ended != "done" => {
            say(&format!("error: {ended}\n"));
            Ok(1)
        }
        None => Ok(0),
    }
}

fn budget(text: &str) -> Result<Share, Failure> {
    let share: Share = text.parse().map_err(|error| Failure::plan(format!("--budget: {error}")))?;
    // Source: linerate_probe.erl takes 1 to 1000 permille.
    if share.0 < 0.001 || share.0 > 1.0 {
        return Err(Failure::plan(format!(
            "--budget: {text} of a scheduler can't be had: write 0.1% to 100%"
        )));
    }
    Ok(share)
}

fn header(
    args: &DoctorArgs,
    length: Duration,
    outside: &Outside,
    inside: Option<&Inside>,
) -> Header {
    let started_unix_ns =
        SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_nanos() as u64);
    let far = inside.and_then(|inside| inside.far.as_ref());
    let target = Target { watch: Some(args.target.clone()), ..Target::default() };
    let mut plan = Plan::of(target);
    plan.name = "doctor".into();
    plan.until.duration = Some(length);
    Header {
        linerate: "evidence".into(),
        version: VERSION,
        program: env!("CARGO_PKG_VERSION").into(),
        started_unix_ns,
        started: now(),
        plan,
        host: far.map_or_else(host_facts, |far| far.facts.clone()),
        target: TargetFacts {
            kind: "watch".into(),
            address: outside.address(),
            local: outside.is_here() || far.is_some(),
            through_node: far.is_some(),
            pid: outside.pid,
            name: inside.map_or_else(|| outside.name.clone(), |inside| inside.name().to_owned()),
            cpus: far.map_or_else(|| outside.pid.and_then(cpus_of), |far| far.cpus),
            schedulers: inside.and_then(|inside| inside.schedulers),
            ..TargetFacts::default()
        },
        preflight_ns: Vec::new(),
        places: Default::default(),
    }
}
