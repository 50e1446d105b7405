//! Each provoking plan makes its roof bind and be named first; lifted, it is not named any more.
//!
//! One test, so that no two loads run at once. Without more it runs [`CORE`], one plan or two a family;
//! `PROVOKE=all` runs every plan (`make provoke`), `PROVOKE=nagle,funnel` those with such a word in their
//! name. At the end stands the confusion matrix: what was planted against what was named.
//!
//! A try that named another roof is made again, three times at most, and is printed with the share of the
//! CPUs that others took meanwhile: most are of that. The matrix has the last try of each plan. A plan that
//! never had the machine to itself counts as disturbed and not as wrong, and is printed as such; a tenth of
//! the plans that were asked for may, and half of [`CORE`]: `make test` is run on machines that are nobody's own.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use linerate_evidence::sources::{link, process, stat};
use linerate_evidence::{Evidence, Header, Subject, read, summarise};
use linerate_model::Plan;
use serde_json::Value;

mod sound;

const TRIES: usize = 4;

/// How a run that could not be made begins: a path that neighbours kept from its proof, mostly.
const NO_RUN: &str = "error:";

// Chosen: of the machine's CPUs, taken by others while a plan ran; a seventh of two CPUs turns a verdict
// between the resources.
const DISTURBED: f64 = 0.15;

/// Run by `make test`; the rest by `make provoke`, and all of them over recorded evidence in
/// `crates/roofline/tests/recorded.rs`.
const CORE: &[&str] = &[
    "acceptor",
    "concurrency",
    "connection-churn",
    "descriptors",
    "dist-fragments",
    "ephemeral-ports",
    "funnel",
    "host-cpu",
    "line-rate",
    "list-mode",
    "listen-backlog",
    "nagle-delayed-ack",
    "offered-rate",
    "queue-limit",
    "receive-window",
    "send-buffer",
    "slow-reader",
];

/// Plans of what newer releases of Erlang no longer have: from which on, and why.
const GONE: &[(&str, u32, &str)] = &[(
    "send-mailbox-scan",
    26,
    "gen_tcp:send/2 marks the mailbox before it asks, and searches what came since",
)];

/// What became of a plan or its lifted twin.
struct Outcome {
    named: String,
    tries: usize,
    /// No try had the machine to itself.
    disturbed: bool,
}

#[test]
fn every_plan_names_its_roof_and_stops_naming_it_when_lifted() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut confused: BTreeMap<(String, String), usize> = BTreeMap::new();
    let (mut wrong, mut disturbed, mut ran) = (Vec::new(), Vec::new(), 0);
    let release = release();
    println!("OTP {release}");
    println!("{:<28} {:<26} {:<26} {:<24} tries", "plan", "planted", "named", "lifted");
    for path in plans(&root) {
        let name = path.file_stem().unwrap().to_string_lossy().into_owned();
        let gone = GONE.iter().find(|(plan, since, _)| *plan == name && release >= *since);
        if let Some((_, since, why)) = gone {
            println!("{name:<28} not on OTP {since} and later: {why}");
            ran += 1;
            continue;
        }
        let plan = Plan::from_toml(&std::fs::read_to_string(&path).unwrap()).unwrap();
        let expect = plan.expect.expect("a provoking plan says what it provokes");
        let lift: Vec<String> = expect
            .lift
            .iter()
            .flat_map(|(knob, to)| ["-k".into(), format!("{knob}={to}")])
            .collect();
        let planted = until(|by| by == expect.verdict, || run(&root, &path, &[]));
        // A run that could not be made names nothing, and shows nothing.
        let is_lifted = |by: &str| by != expect.verdict && !by.starts_with(NO_RUN);
        let lifted = until(is_lifted, || run(&root, &path, &lift));
        println!(
            "{name:<28} {:<26} {:<26} {:<24} {}+{}",
            expect.verdict, planted.named, lifted.named, planted.tries, lifted.tries
        );
        ran += 1;
        *confused.entry((expect.verdict.clone(), planted.named.clone())).or_default() += 1;
        let faults = [
            (planted.named != expect.verdict, &planted, "named"),
            (!is_lifted(&lifted.named), &lifted, "lifted, still named"),
        ];
        for (is_wrong, outcome, how) in faults {
            if is_wrong {
                let says = format!("{name}: planted {}, {how} {}", expect.verdict, outcome.named);
                if outcome.disturbed { &mut disturbed } else { &mut wrong }.push(says);
            }
        }
    }
    print_matrix(&confused);
    for says in &disturbed {
        println!("disturbed in every try, and so not shown: {says}");
    }
    assert!(ran > 0, "no plan has `{}` in its name", std::env::var("PROVOKE").unwrap_or_default());
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    let one_in = if asked().is_some() { 10 } else { 2 };
    assert!(disturbed.len() * one_in <= ran, "too many were disturbed:\n{}", disturbed.join("\n"));
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

fn until(good: impl Fn(&str) -> bool, run: impl Fn() -> (String, f64)) -> Outcome {
    let mut always_disturbed = true;
    for tries in 1.. {
        let (named, others) = run();
        always_disturbed &= others >= DISTURBED;
        if good(&named) || tries == TRIES {
            return Outcome { named, tries, disturbed: always_disturbed };
        }
        println!(
            "  again: it was {named}, with {:.0} % of the CPUs taken by others",
            others * 100.0
        );
        // Neighbours come and go.
        std::thread::sleep(Duration::from_secs(tries as u64));
    }
    unreachable!("the loop ends at the last try")
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
    (named, taken_by_others(&header, &evidence))
}

/// The share of the machine's CPU time that neither target nor engine used: neighbours, and what the
/// hypervisor took. Without samples: 0.
fn taken_by_others(header: &Header, evidence: &Evidence) -> f64 {
    let load = summarise(evidence, &header.plan);
    let seconds = load.window.1.since(load.window.0).as_secs_f64();
    let cpus = f64::from(header.host.cpus);
    let host = evidence.of(Subject::Host);
    let Ok((idle, over)) = host.delta(stat::IDLE) else { return 0.0 };
    let waiting = host.delta(stat::IOWAIT).map_or(0.0, |(time, _)| time.as_secs_f64());
    let idle = (idle.as_secs_f64() + waiting) / over.as_secs_f64();
    let target = evidence.of(Subject::Target);
    let used = |metric: linerate_evidence::Metric<Duration>| {
        target.delta(metric).map_or(0.0, |(time, over)| time.as_secs_f64() / over.as_secs_f64())
    };
    let ways = evidence.subjects().filter(|of| matches!(of, Subject::Link(..)));
    let path: f64 = ways
        .filter_map(|of| evidence.of(of).delta(link::CPU).ok())
        .map(|(time, over)| time.as_secs_f64() / over.as_secs_f64())
        .sum();
    let ours = used(process::UTIME)
        + used(process::STIME)
        + path
        + load.engine_cpu.as_secs_f64() / seconds.max(1e-9);
    ((cpus - idle - ours) / cpus).max(0.0)
}
