//! `predict` and `what-if`: no network, no clock, no root; the same files give the same figures anywhere.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use assert_cmd::Command;
use serde_json::Value;

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn linerate(words: &[&str]) -> assert_cmd::assert::Assert {
    Command::new(env!("CARGO_BIN_EXE_linerate")).current_dir(root()).args(words).assert()
}

fn json(words: &[&str]) -> Value {
    let words: Vec<&str> = words.iter().copied().chain(["--json"]).collect();
    let done = linerate(&words).success();
    serde_json::from_slice(&done.get_output().stdout).unwrap()
}

fn refused(words: &[&str]) -> String {
    let done = linerate(words).code(2);
    let said = String::from_utf8(done.get_output().stderr.clone()).unwrap();
    assert!(said.starts_with("error: ") && said.lines().count() == 1, "{said}");
    said
}

const SITES: &str = "studies/published/echo-sites.csv";

/// The study's path: 10 ms, netem's default limit, half of the servers on the other side.
const PATH: [&str; 8] = ["--rtt", "10ms", "--limit", "1000", "--share", "50%", "--servers", "4"];

#[test]
fn the_published_table_b_follows_from_table_a_and_the_path() {
    let mut words = vec!["predict", SITES, "--where", "scenario=A", "--against", "scenario=B"];
    words.extend(PATH);
    let document = json(&words);
    assert_eq!(document["schema"], "linerate/predict/1");
    let rows = document["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 5);
    for row in rows {
        assert!(row["off"].as_f64().unwrap().abs() < 0.10, "{row}");
        assert!(row["latency_off"].as_f64().unwrap().abs() < 0.20, "{row}");
        let few = row["connections"].as_u64().unwrap() <= 400;
        assert_eq!(row["by"], if few { "load.concurrency" } else { "path.queue-limit" });
    }
}

#[test]
fn the_limit_lifted_is_the_rise_that_the_author_expected() {
    let mut words = vec!["predict", SITES, "--where", "scenario=A", "-c", "8000"];
    words.extend(PATH);
    let held = json(&words)["rows"][0]["throughput_per_s"][1].as_f64().unwrap();
    let at = words.iter().position(|word| *word == "1000").unwrap();
    words[at] = "none";
    let lifted = json(&words)["rows"][0]["throughput_per_s"][1].as_f64().unwrap();
    assert!(held < 350_000.0 && lifted > 590_000.0, "{held} {lifted}");
}

#[test]
fn the_simulation_agrees_where_nothing_is_dropped() {
    let mut words = vec!["predict", SITES, "--where", "scenario=A", "--simulate", "-c", "200"];
    words.extend(PATH);
    let row = &json(&words)["rows"][0];
    let simulated = row["simulated"]["throughput_per_s"].as_f64().unwrap();
    let predicted = row["throughput_per_s"][1].as_f64().unwrap();
    assert!((simulated / predicted - 1.0).abs() < 0.10, "{row}");
}

#[test]
fn every_recorded_run_has_an_answer_and_a_longer_path_never_makes_it_faster() {
    let mut answered = 0;
    for entry in std::fs::read_dir(root().join("fixtures/evidence")).unwrap().flatten() {
        let path = entry.path();
        if path.extension().is_none_or(|ending| ending != "jsonl") {
            continue;
        }
        let file = path.to_str().unwrap();
        let run = |words: &[&str]| {
            let words: Vec<&str> =
                ["what-if", file, "--json"].into_iter().chain(words.iter().copied()).collect();
            linerate(&words).get_output().clone()
        };
        let same = run(&[]);
        // Watched services and open loops that kept up are refused, with the reason.
        if same.status.code() != Some(0) {
            let said = String::from_utf8(same.stderr).unwrap();
            let known = [
                "was watched",
                "open loop that met its rate",
                "nothing was answered",
                "no one rate",
            ];
            assert!(known.iter().any(|reason| said.contains(reason)), "{file}: {said}");
            continue;
        }
        answered += 1;
        let read = |bytes: &[u8]| serde_json::from_slice::<Value>(bytes).unwrap();
        let same = read(&same.stdout);
        let ratio = same["ratio"].as_f64().unwrap();
        // What nothing is changed of does what it did, but for what chance lost on a path.
        assert!((0.8..1.25).contains(&ratio), "{file}: x{ratio}");
        let far = read(&run(&["--rtt", "5s"]).stdout);
        assert!(far["ratio"].as_f64().unwrap() < ratio * 1.001, "{file}: {}", far["ratio"]);
        let more = same["run"]["connections"].as_u64().unwrap() * 4;
        let more = read(&run(&["-c", &more.to_string()]).stdout);
        let [low, mid, high] =
            [0, 1, 2].map(|at| more["expect"]["throughput_per_s"][at].as_f64().unwrap());
        assert!(0.0 < low && low <= mid && mid <= high, "{file}: {low} {mid} {high}");
    }
    assert!(answered > 20, "{answered}");
}

#[test]
fn what_cannot_be_predicted_is_refused_in_one_sentence() {
    for (words, piece) in [
        (&["predict", SITES][..], "two rows of 200 connections: choose one of them with --where"),
        (&["predict", SITES, "--where", "scenario=Z"], "no row has scenario=Z: there are A; B"),
        (&["predict", SITES, "--where", "site=A"], "no column `site`"),
        (&["predict", "Cargo.toml"], "no column"),
        (&["predict", "nowhere.csv"], "cannot be read"),
        (&["predict", SITES, "--where", "scenario=A", "--limit", "0"], "limit: 0 lets no packet"),
        (&["predict", SITES, "--where", "scenario=A", "--rate", "10MB"], "200Mbit"),
        (&["predict", SITES, "--where", "scenario=A", "--share", "0%"], "--share: nothing crosses"),
        (&["predict", SITES, "--where", "scenario=A", "-c", "0"], "--connections: `0`"),
        (&["predict", SITES, "--where", "scenario=A", "--sides", "three"], "write one or both"),
        (&["what-if", "fixtures/evidence/concurrency.jsonl", "--cpus", "0"], "--cpus: 0"),
        (
            &["predict", SITES, "--where", "scenario=A", "--share", "30%", "--simulate"],
            "--simulate: no 1 servers",
        ),
        (&["what-if", SITES], "line 1"),
        (&["what-if", "nowhere.jsonl"], "cannot be read"),
        (&["what-if", "fixtures/evidence/offered-rate.jsonl"], "without --rate"),
    ] {
        let said = refused(words);
        assert!(said.contains(piece), "{words:?}: {said}");
    }
}
