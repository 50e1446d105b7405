//! Healthy services, from one connection to hundreds: no defect is named.
//!
//! One test, so that no two loads run at once.
#![allow(clippy::unwrap_used)]

use std::path::Path;
use std::process::Command;

use linerate_evidence::read;
use serde_json::Value;
use tries::{DISTURBED, Shows, taken_by_others, tried};

mod sound;
mod tries;

const NGINX: &str = "fixtures/nginx/serve.sh {port} 13 1";

#[test]
fn twelve_healthy_runs_name_no_defect() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let (mut defects, mut shown_nothing) = (Vec::new(), 0);
    for connections in ["1", "10", "200"] {
        for target in [
            &["--command", NGINX, "/body"][..],
            &["--beam", "http"],
            &["--beam", "http", "-k", "nodelay=on", "-k", "active=passive"],
            &["--beam", "httpd", "-k", "nodelay=on"],
        ] {
            let words = format!("{} -c {connections}", target.join(" "));
            let tally = tried(1, |by| !is_defect(by), || run(&root, connections, target));
            println!("{words:<68} {:<26} {tally}", tally.named);
            match tally.shows() {
                Shows::Right | Shows::Nothing { most_right: true } => {}
                Shows::Nothing { most_right: false } => shown_nothing += 1,
                Shows::Wrong => defects.push(format!("{words}: {}", tally.wrong.join(", "))),
            }
        }
    }
    assert!(defects.is_empty(), "{}", defects.join("\n"));
    assert!(shown_nothing <= 6, "inconclusive: {shown_nothing} were disturbed in every try");
}

/// What is named, marked where it is a defect, and the share of the CPUs that others had meanwhile: of who has it
/// there that he has it is the truth.
fn run(root: &Path, connections: &str, target: &[&str]) -> (String, f64) {
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("run.jsonl");
    let output = Command::new(env!("CARGO_BIN_EXE_linerate"))
        .current_dir(root)
        .args(["run", "--json", "-q", "-d", "1s", "-c", connections])
        .args(["-o", &file.to_string_lossy()])
        .args(target)
        .output()
        .unwrap();
    let run: Value = serde_json::from_slice(&output.stdout)
        .unwrap_or_else(|_| panic!("{}", String::from_utf8_lossy(&output.stderr)));
    sound::assert_sound(&run);
    let by = run["verdict"]["by"].as_str().unwrap_or("none");
    let roofs = run["roofline"]["roofs"].as_array().unwrap();
    let kind = roofs.iter().find(|roof| roof["id"] == by).map(|roof| &roof["kind"]);
    let (header, evidence, _) = read(&std::fs::read_to_string(&file).unwrap()).unwrap();
    let others = taken_by_others(&header, &evidence);
    let is_true = others >= DISTURBED && by.ends_with(".neighbours");
    let mark = if kind.is_some_and(|kind| kind == "defect") && !is_true { DEFECT } else { "" };
    if !mark.is_empty() {
        println!("  {}", run["verdict"]["says"].as_str().unwrap_or_default());
    }
    (format!("{mark}{by}"), others)
}

const DEFECT: &str = "defect: ";

fn is_defect(named: &str) -> bool {
    named.starts_with(DEFECT)
}
