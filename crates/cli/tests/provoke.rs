//! Each provoking plan makes its roof bind and be named first; lifted, it is not named any more.
//!
//! One test, so that no two loads run at once. Without more it runs [`CORE`], one plan or two a layer;
//! `PROVOKE=all` runs every plan (`make provoke`), `PROVOKE=nagle,funnel` those with such a word in their
//! name. At the end stands the confusion matrix: what was planted against what was named.
//!
//! What is printed is how many of the undisturbed tries were right (`tries`): one try a plan, or
//! `PROVOKE_TRIES` of them. A plan without an undisturbed try shows nothing. Where that is more than a tenth
//! of the plans that were asked for, the whole run shows nothing, and fails; of [`CORE`], which is run on
//! machines that are nobody's own, half may, and those do not count that most disturbed tries named rightly.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;

use linerate_evidence::read;
use linerate_model::{Expect, Plan};
use serde_json::Value;

mod sound;
mod tries;

use tries::{Shows, Tally, taken_by_others, tried};

/// How a run that could not be made begins: a path that neighbours kept from its proof, mostly.
const NO_RUN: &str = "error:";

/// Run by `make test`; the rest by `make provoke`, and all of them over recorded evidence in
/// `crates/roofline/tests/recorded.rs`.
const CORE: &[&str] = &["dist-fragments", "funnel", "host-cpu", "line-rate", "nagle-delayed-ack"];

/// Plans of what newer releases of Erlang no longer have: from which on, and why.
const GONE: &[(&str, u32, &str)] = &[(
    "send-mailbox-scan",
    26,
    "gen_tcp:send/2 marks the mailbox before it asks, and searches what came since",
)];

#[test]
fn every_plan_names_its_roof_and_stops_naming_it_when_lifted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut confused: BTreeMap<(String, String), usize> = BTreeMap::new();
    let (mut wrong, mut shown_nothing, mut ran) = (Vec::new(), Vec::new(), 0);
    let release = release();
    println!("OTP {release}");
    println!("{:<28} {:<26} {:<26} {:<24} right", "plan", "planted", "named", "lifted");
    for path in plans(&root) {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        ran += 1;
        let gone = GONE.iter().find(|(plan, since, _)| *plan == name && release >= *since);
        if let Some((_, since, why)) = gone {
            println!("{name:<28} not on OTP {since} and later: {why}");
            continue;
        }
        let plan = Plan::from_toml(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let expect = plan.expect.expect("a provoking plan says what it provokes");
        let lift: Vec<String> = expect
            .lift
            .iter()
            .flat_map(|(knob, to)| ["-k".into(), format!("{knob}={to}")])
            .collect();
        // The plan's own neighbours are no disturbance: they are what is planted.
        let are_planted = expect.verdict == "host.neighbours";
        let undisturbed = |(by, others)| (by, if are_planted { 0.0 } else { others });
        let planted =
            tried(asked_tries(), |by| by == expect.verdict, || undisturbed(run(&root, &path, &[])));
        let lifted = tried(asked_tries(), |by| is_lifted(&expect, by), || run(&root, &path, &lift));
        println!(
            "{name:<28} {:<26} {:<26} {:<24} {planted}; lifted {lifted}",
            expect.verdict, planted.named, lifted.named
        );
        *confused.entry((expect.verdict.clone(), planted.named.clone())).or_default() += 1;
        let lifted_must = match &expect.then_named[..] {
            [] => format!("lifted not {}", expect.verdict),
            roofs => format!("lifted {}", roofs.join(" or ")),
        };
        for (tally, must) in
            [(&planted, format!("planted {}", expect.verdict)), (&lifted, lifted_must)]
        {
            let says = format!("{name}: {must}; {tally}: {}", named(tally));
            match tally.shows() {
                Shows::Right => {}
                Shows::Wrong => wrong.push(says),
                Shows::Nothing { most_right: true } if asked().is_none() => println!("  {says}"),
                Shows::Nothing { .. } => shown_nothing.push(says),
            }
        }
    }
    print_matrix(&confused);
    for says in &shown_nothing {
        println!("disturbed in every try, and so not shown: {says}");
    }
    assert!(ran > 0, "no plan has `{}` in its name", std::env::var("PROVOKE").unwrap_or_default());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let one_in = if asked().is_some() { 10 } else { 2 };
    assert!(
        shown_nothing.len() * one_in <= ran,
        "inconclusive: too many were disturbed:\n{}",
        shown_nothing.join("\n")
    );
}

/// Whether the lifted plan named an expected roof: where the plan names none, any but the planted one. A run that could not be made names nothing, and shows nothing.
fn is_lifted(expect: &Expect, by: &str) -> bool {
    match &expect.then_named[..] {
        [] => by != expect.verdict && !by.starts_with(NO_RUN),
        roofs => roofs.iter().any(|roof| roof == by),
    }
}

/// What was named where it was wrong.
fn named(tally: &Tally) -> String {
    let disturbed = tally.disturbed.iter().filter(|(_, is_right)| !is_right).map(|(by, _)| by);
    tally.wrong.iter().chain(disturbed).cloned().collect::<Vec<_>>().join(", ")
}

/// Undisturbed tries of each plan and of its lifted twin.
fn asked_tries() -> usize {
    let tries = std::env::var("PROVOKE_TRIES").ok().filter(|tries| !tries.is_empty());
    tries.map_or(1, |tries| tries.parse().expect("PROVOKE_TRIES is a number"))
}

/// Of the Erlang that targets are started with.
fn release() -> u32 {
    let words = "io:format(\"~s\", [erlang:system_info(otp_release)]), halt().";
    let output = Command::new("erl").args(["-noshell", "-eval", words]).output().unwrap();
    let release = String::from_utf8_lossy(&output.stdout).trim().to_owned();
    release.parse().unwrap_or_else(|_| panic!("erl says that it is `{release}`"))
}

/// Which plans; none: [`CORE`].
fn asked() -> Option<String> {
    std::env::var("PROVOKE").ok().filter(|words| !words.is_empty())
}

fn plans(root: &Path) -> Vec<PathBuf> {
    let asked = asked();
    let is_asked = |name: &str| match asked.as_deref() {
        None => CORE.contains(&name),
        Some("all") => true,
        Some(words) => words.split(',').any(|word| name.contains(word)),
    };
    let mut plans: Vec<PathBuf> = std::fs::read_dir(root.join("fixtures/provoke"))
        .unwrap()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|ending| ending == "toml"))
        .filter(|path| is_asked(&path.file_stem().unwrap().to_string_lossy()))
        .collect();
    plans.sort();
    plans
}

fn print_matrix(confused: &BTreeMap<(String, String), usize>) {
    let right: usize = confused.iter().filter(|((a, b), _)| a == b).map(|(_, count)| count).sum();
    let roofs: std::collections::BTreeSet<_> =
        confused.keys().filter(|(a, b)| a == b).map(|(a, _)| a).collect();
    println!("\nplanted against named: {right} on the diagonal, {} roofs", roofs.len());
    for ((planted, named), count) in confused.iter().filter(|((a, b), _)| a != b) {
        println!("  off it: {planted} named {named} x {count}");
    }
}

/// The roof that a run names, and the share of the CPUs that others took meanwhile.
fn run(root: &Path, plan: &Path, knobs: &[String]) -> (String, f64) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.jsonl");
    let output = Command::new(env!("CARGO_BIN_EXE_linerate"))
        .current_dir(root)
        .args(["run", &plan.to_string_lossy(), "--json", "-q", "-o", &file.to_string_lossy()])
        .args(knobs)
        .output()
        .unwrap();
    let Ok(run) = serde_json::from_slice::<Value>(&output.stdout) else {
        let says = String::from_utf8_lossy(&output.stderr).trim().to_owned();
        // What the lab says of a path that others kept from its proof.
        let others = if says.contains("the machine is too busy") { 1.0 } else { 0.0 };
        return (says, others);
    };
    sound::assert_sound(&run);
    let (header, evidence, _) = read(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let named = run["verdict"]["by"].as_str().unwrap_or("none").to_owned();
    // A run that names nothing, since the rate changed while it measured, says so itself: it shows nothing either way.
    let is_unsteady = named == "none" && run["experiment"]["inconclusive"].is_string();
    (named, if is_unsteady { 1.0 } else { taken_by_others(&header, &evidence) })
}
