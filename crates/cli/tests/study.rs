//! The study of two sites in its short form: its claims are made, its verdicts are the study's.
#![allow(clippy::unwrap_used)]

use std::process::Command;

use serde_json::Value;

/// Once more, if a neighbour had the CPUs.
const TRIES: usize = 3;

#[test]
fn over_two_sites_it_is_the_queue_limit_that_holds_b_and_lifted_it_does_not() {
    let mut last = String::new();
    for _ in 0..TRIES {
        let folder = tempfile::tempdir().unwrap();
        let (json, page) = (folder.path().join("study.json"), folder.path().join("study.html"));
        let output = Command::new(env!("CARGO_BIN_EXE_linerate"))
            .args(["study", "echo-sites", "--short", "-q", "-o"])
            .arg(&json)
            .arg("-o")
            .arg(&page)
            .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
            .output()
            .unwrap();
        last = format!(
            "{}\n{}",
            String::from_utf8_lossy(&output.stderr),
            String::from_utf8_lossy(&output.stdout)
        );
        let Ok(text) = std::fs::read_to_string(&json) else { continue };
        let study: Value = serde_json::from_str(&text).unwrap();
        // Valid or suspect: a void run says nothing of roofs.
        assert!(study["scale"]["factor"].as_f64().unwrap() > 0.0);
        assert!(std::fs::metadata(&page).unwrap().len() > 10_000);
        if [says(&study, "What held it"), says(&study, "Lifted, it is not named")] == [true, true]
            && says(&study, "The published table B")
        {
            return;
        }
    }
    panic!("{last}");
}

/// Whether the claim that begins so held.
fn says(study: &Value, begins: &str) -> bool {
    let claims = study["claims"].as_array().unwrap();
    let claim = claims.iter().find(|claim| claim["says"].as_str().unwrap().starts_with(begins));
    claim.unwrap()["held"].as_bool().unwrap()
}
