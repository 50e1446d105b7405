//! RabbitMQ, ejabberd and Yaws as Debian has them: healthy, doctor names no defect; with a fault that
//! their own configuration makes, it names that.
//!
//! One test each, so that no two loads run at once. Without more each healthy node is watched once and
//! [`CORE`] is planted; `DOCTOR_RUNS=10` watches every case so many times (`make soak`), of which nine
//! tenths must be right, and of healthy nodes all; a node serves five of them. `DOCTOR_CASES=yaws,backlog`
//! takes those with such a word in their name. The figures are in `docs/doctor.md`.
#![allow(clippy::unwrap_used)]

use std::thread;
use std::time::Duration;

use serde_json::Value;

mod nodes;

use nodes::{Case, Node, cases, is_soak, runs};

/// Planted by `make test`; the rest by `make soak`.
/// One of what only `doctor` sees, a wait, and one of admission.
const CORE: &[&str] = &["yaws nagle", "ejabberd backlog"];

/// After a wrong name the majority of so many tries decides.
const TRIES: usize = 3;

/// Until every client is in and the node has what it is to have.
const SETTLES: Duration = Duration::from_secs(4);

/// Times a node is watched under one load. Starting it costs more than watching it.
const WATCHES: usize = 5;

/// The load outlasts them all.
const LOAD: Duration = Duration::from_secs(120);

#[test]
fn a_healthy_node_has_no_defect_named() {
    let mut named = Vec::new();
    for case in cases_of(|case| case.roof.is_none()) {
        let documents = watched(&case, runs(1));
        let found: Vec<String> = documents.iter().filter_map(defect).collect();
        println!(
            "{:<28} {} of {} without a defect",
            name(&case),
            documents.len() - found.len(),
            documents.len()
        );
        if let (Some(defect), Some(last)) = (found.first(), documents.last()) {
            named.push(format!(
                "{}: {} times, {defect}; the last:\n{last:#}",
                name(&case),
                found.len()
            ));
        }
    }
    assert!(named.is_empty(), "{}", named.join("\n"));
}

#[test]
fn a_node_with_a_fault_has_that_named_first() {
    let mut wrong = Vec::new();
    for case in cases_of(|case| case.roof.is_some()) {
        let name = name(&case);
        if !is_soak() && std::env::var_os("DOCTOR_CASES").is_none() && !CORE.contains(&&name[..]) {
            continue;
        }
        let roof = case.roof.clone().unwrap();
        let is_right = |document: &Value| document["verdict"]["by"] == roof.as_str();
        let documents = if is_soak() {
            watched(&case, runs(10))
        } else {
            let first = watched(&case, 1);
            let is_enough = first.iter().all(is_right);
            let more = if is_enough { Vec::new() } else { watched(&case, TRIES - 1) };
            [first, more].concat()
        };
        let tries = documents.len();
        let wanted = if is_soak() { tries * 9 / 10 } else { tries / 2 + 1 };
        let right = documents.iter().filter(|document| is_right(document)).count();
        println!("{name:<28} {right} of {tries} named {roof}");
        if right < wanted {
            let last = documents.iter().rfind(|document| !is_right(document));
            wrong.push(format!(
                "{name}: {roof} named {right} of {tries} times; the last:\n{last:#?}"
            ));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
}

fn cases_of(is_wanted: impl Fn(&Case) -> bool) -> Vec<Case> {
    let asked = std::env::var("DOCTOR_CASES").unwrap_or_default();
    let is_asked = |case: &Case| {
        let name = format!("{} {}", case.node, case.case);
        asked.split(',').any(|word| name.contains(word))
    };
    // The bare node is for other tests.
    let is_ours = |case: &Case| case.node != "echo";
    cases().into_iter().filter(|case| is_ours(case) && is_wanted(case) && is_asked(case)).collect()
}

fn name(case: &Case) -> String {
    format!("{} {}", case.node, case.case)
}

/// What doctor says of a node of its own under load, so many times.
fn watched(case: &Case, times: usize) -> Vec<Value> {
    let mut documents = Vec::new();
    while documents.len() < times {
        let node = Node::start(&case.node, &case.case, LOAD);
        let mut load = node.load();
        thread::sleep(SETTLES);
        for _ in 0..WATCHES.min(times - documents.len()) {
            assert!(load.is_running(), "{}: its load ended at once", name(case));
            let document = examined(&node, case);
            println!("{:<28} {}: {}", name(case), documents.len(), says(&document));
            documents.push(document);
            // Each of few tries is made with a node of its own.
            if !is_soak() {
                break;
            }
        }
    }
    documents
}

/// What doctor says of a node under load; null if there is no report, which is right of no case.
fn examined(node: &Node, case: &Case) -> Value {
    let output = node.doctor(&["--for", "6s", "--json", "-q"]).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    let Ok(document) = serde_json::from_slice(&output.stdout) else {
        let lives = std::path::Path::new(&format!("/proc/{}", node.pid())).exists();
        let is = if lives { "lives" } else { "is dead" };
        println!("{:<28} no report, and the node {is}: {said}", name(case));
        return Value::Null;
    };
    assert_eq!(output.status.code(), Some(0), "{said}");
    document
}

fn says(document: &Value) -> String {
    let by = document["verdict"]["by"].as_str().unwrap_or("nothing");
    let reads = document["traffic"]["reads_per_s"].as_f64().unwrap_or_default();
    format!("named {by} at {reads:.0} reads/s")
}

/// The defect that is named, if one is; that there is no report is one.
fn defect(document: &Value) -> Option<String> {
    if document.is_null() {
        return Some("no report".into());
    }
    let by = document["verdict"]["by"].as_str()?;
    let roofs = document["roofline"]["roofs"].as_array().unwrap();
    let roof = roofs.iter().find(|roof| roof["id"] == by).expect("the one that binds is listed");
    // Where others take CPUs, that they do is true.
    (roof["kind"] == "defect" && by != "host.neighbours").then(|| by.to_owned())
}
