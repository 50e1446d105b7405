//! RabbitMQ, ejabberd and Yaws as Debian has them: healthy, doctor names no defect; with a fault that
//! their own configuration makes, it names that.
//!
//! One test each, so that no two loads run at once. Without more each healthy node is watched once and
//! [`CORE`] is planted; `DOCTOR_RUNS=10` watches every case so many times (`make soak`), of which nine
//! tenths must be right. `DOCTOR_CASES=yaws,backlog` takes those with such a word in their name.
#![allow(clippy::unwrap_used)]

use std::thread;
use std::time::Duration;

use serde_json::Value;

mod nodes;

use nodes::{Case, Node, cases, is_soak, runs};

/// Planted by `make test`; the rest by `make soak`.
const CORE: &[&str] = &["yaws nagle", "ejabberd backlog", "rabbitmq backlog"];

/// Once a roof was not named, it is tried so often in all. Other programs use these CPUs too.
const TRIES: usize = 3;

/// Until every client is in and the node has what it is to have.
const SETTLES: Duration = Duration::from_secs(4);

/// The load outlasts it all.
const LOAD: Duration = Duration::from_secs(60);

#[test]
fn a_healthy_node_has_no_defect_named() {
    let mut named = Vec::new();
    for case in cases_of(|case| case.roof.is_none()) {
        for run in 0..runs(1) {
            let document = examined(&case);
            println!("{} {:<16} {run}: {}", case.node, case.case, says(&document));
            if let Some(defect) = defect(&document) {
                named.push(format!("{} {}: {defect}\n{document:#}", case.node, case.case));
            }
        }
    }
    assert!(named.is_empty(), "{}", named.join("\n"));
}

#[test]
fn a_node_with_a_fault_has_that_named_first() {
    let mut wrong = Vec::new();
    for case in cases_of(|case| case.roof.is_some()) {
        let name = format!("{} {}", case.node, case.case);
        if !is_soak() && std::env::var_os("DOCTOR_CASES").is_none() && !CORE.contains(&&name[..]) {
            continue;
        }
        let roof = case.roof.clone().unwrap();
        let (mut right, mut last) = (0, Value::Null);
        let (wanted, tries) = if is_soak() { (runs(10) * 9 / 10, runs(10)) } else { (1, TRIES) };
        for run in 0..tries {
            last = examined(&case);
            println!("{name:<28} {run}: planted {roof}, {}", says(&last));
            right += usize::from(last["verdict"]["by"] == roof.as_str());
            if !is_soak() && right >= wanted {
                break;
            }
        }
        println!("{name:<28} {right} right");
        if right < wanted {
            wrong.push(format!(
                "{name}: {roof} named {right} of {tries} times; the last:\n{last:#}"
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
    // The bare node is for other tests, and no roof tells what is untold.
    let is_ours = |case: &Case| case.node != "echo" && case.roof.as_deref() != Some("untold");
    cases().into_iter().filter(|case| is_ours(case) && is_wanted(case) && is_asked(case)).collect()
}

/// A node of its own, loaded, and what doctor says of it.
fn examined(case: &Case) -> Value {
    let node = Node::start(&case.node, &case.case, LOAD);
    let mut load = node.load();
    thread::sleep(SETTLES);
    assert!(load.is_running(), "{} {}: its load ended at once", case.node, case.case);
    let output = node.doctor(&["--for", "6s", "--json", "-q"]).output().unwrap();
    let document = serde_json::from_slice(&output.stdout).unwrap_or_else(|error| {
        panic!("{} {}: {error}: {}", case.node, case.case, String::from_utf8_lossy(&output.stderr))
    });
    assert_eq!(output.status.code(), Some(0), "{}", String::from_utf8_lossy(&output.stderr));
    document
}

fn says(document: &Value) -> String {
    let by = document["verdict"]["by"].as_str().unwrap_or("nothing");
    format!("named {by} at {:.0} reads/s", document["traffic"]["reads_per_s"].as_f64().unwrap())
}

/// The defect that is named, if one is.
fn defect(document: &Value) -> Option<String> {
    let by = document["verdict"]["by"].as_str()?;
    let roofs = document["roofline"]["roofs"].as_array().unwrap();
    let roof = roofs.iter().find(|roof| roof["id"] == by).expect("the one that binds is listed");
    (roof["kind"] == "defect").then(|| by.to_owned())
}
