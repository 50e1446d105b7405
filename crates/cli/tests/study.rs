//! Studies in their short form: their claims are made, their verdicts and ratios are the study's.
#![allow(clippy::unwrap_used)]

use std::ops::Range;
use std::process::Command;

use serde_json::Value;

/// Predicted by measured rate in accounts of a single round. Of the terms' twelve such accounts in four short forms eight were
/// within 15 % and all in 0.85 to 1.26: what a CPU does in a second changes by half from run to run on a machine that is shared.
const SHORT_TERMS: Range<f64> = 0.6..1.6;
const SHORT_LINK: Range<f64> = 0.5..2.0;

/// A study in its short form and its page; none: it was not written. And what the program said.
fn made(name: &str) -> (Option<(Value, String)>, String) {
    let folder = tempfile::tempdir().unwrap();
    let (json, page) = (folder.path().join("study.json"), folder.path().join("study.html"));
    let output = Command::new(env!("CARGO_BIN_EXE_linerate"))
        .args(["study", name, "--short", "-q", "-o"])
        .arg(&json)
        .arg("-o")
        .arg(&page)
        .current_dir(concat!(env!("CARGO_MANIFEST_DIR"), "/../.."))
        .output()
        .unwrap();
    let said = format!(
        "{}\n{}",
        String::from_utf8_lossy(&output.stderr),
        String::from_utf8_lossy(&output.stdout)
    );
    let texts = std::fs::read_to_string(&json).ok().zip(std::fs::read_to_string(&page).ok());
    (texts.map(|(json, page)| (serde_json::from_str(&json).unwrap(), page)), said)
}

#[test]
fn over_two_sites_it_is_the_queue_limit_that_holds_b_and_lifted_it_does_not() {
    let (study, said) = made("echo-sites");
    let (study, page) = study.unwrap_or_else(|| panic!("{said}"));
    assert!(study["scale"]["factor"].as_f64().unwrap() > 0.0);
    assert!(page.len() > 10_000);
    // A neighbour may have had the CPUs of one of its eight runs.
    let claims = ["What held it", "Lifted, it is not named", "The published table B"];
    let held = claims.iter().filter(|claim| says(&study, claim)).count();
    assert!(held >= 2, "{said}");
}

#[test]
fn several_terms_a_call_and_larger_terms_move_more_between_two_nodes() {
    let (study, said) = made("stream-terms");
    let (study, page) = study.unwrap_or_else(|| panic!("{said}"));
    let bit_s = |series: &str| row(&study, series, None)["measured_bit_s"].as_f64().unwrap();
    let baseline = row(&study, "1 a pair", None);
    assert_eq!(baseline["published_bit_s"], 23e6);
    // What both ends count is twice what crossed, and each term has 19 bytes.
    let carried = &baseline["load"]["carried"];
    let bytes = carried["bytes_per_s"].as_f64().unwrap();
    assert!((bytes / carried["messages_per_s"].as_f64().unwrap() - 19.0).abs() < 1e-6);
    assert!((baseline["measured_bit_s"].as_f64().unwrap() / (bytes * 16.0) - 1.0).abs() < 1e-9);
    // Measured on two CPUs: eight times, and fifteen.
    assert!(bit_s("1 + 64 terms a call, cut") > 1.5 * bit_s("1 a pair"), "{said}");
    assert!(bit_s("4 + 64 leaves") > 1.5 * bit_s("3 +"), "{said}");
    // As machine words a term takes a small part of the CPU time: measured, a twentieth.
    let cpu_us = |series: &str| {
        row(&study, series, None)["load"]["carried"]["cpu_us_per_message"].as_f64().unwrap()
    };
    assert!(
        cpu_us("1 a pair") > 5.0 * cpu_us("1 + 1,000 terms a call, as machine words"),
        "{said}"
    );
    // A term a call is a call of the port to send it, and {active, once} one more to be given the next; with 64 a call
    // it is a sixty-fourth of the former.
    let work =
        |series: &str, of: &str| row(&study, series, None)["load"]["carried"]["work"][of].clone();
    let calls = |series, of| work(series, of)["port_calls"].as_f64().unwrap();
    let expected: [(&str, f64, f64); 2] =
        [("1 a pair", 1.0, 1.0), ("1 + 64 terms a call, cut", 1.0 / 64.0, 0.0)];
    for (series, near, far) in expected {
        assert!((calls(series, "near") - near).abs() < 0.2 * near.max(0.1), "{said}");
        assert!((calls(series, "far") - far).abs() < 0.2 * far.max(0.5), "{said}");
    }
    // Both nodes have done something for each term, and told what.
    for of in ["near", "far"] {
        let work = work("1 a pair", of);
        let own = work["reductions"].as_f64().unwrap();
        assert!(own > 1.0 && work["all_reductions"].as_f64().unwrap() >= 0.8 * own, "{work}");
        // The term, and answers.
        let copied = work["kernel_copied_bytes"].as_f64().unwrap();
        assert!((15.0..40.0).contains(&copied), "{work}");
        let schedulers = &work["schedulers_us"];
        assert!(schedulers["ports"].as_f64().unwrap() > 0.0, "{work}");
    }
    assert!(page.contains("by first"), "{page}");
    agrees(&study);
    // Of a term a call, of 64 and of a list: each part of what a term takes at either node was measured.
    let port = "port, {active, once}, deliver";
    let (sends, receives) = (["encode", "call of the port", "writev"], ["recv", port]);
    let batched = |last| [&sends[..], &receives, &[last]].concat();
    let expected = [
        (
            "1 a pair a call, {active, once}",
            [&sends[..], &["recv", "port, {active, once}", "deliver", "decode"]].concat(),
        ),
        ("1 + 64 terms a call, cut by the receiver", batched("cut, decode")),
        ("1 + 1,000 terms a call, as one list", batched("decode")),
    ];
    for account in study["accounts"].as_array().unwrap() {
        follows(account, SHORT_TERMS);
        assert_eq!((&account["pairs"], &account["unit"]["says"]), (&4.into(), &"term".into()));
        assert!((account["unit"]["bytes"].as_f64().unwrap() - 19.0).abs() < 1e-6);
        let encode = account["costs"][0]["us_per_mb"].as_f64().unwrap();
        assert!(encode > 0.0, "{account:#}");
    }
    let begins = ["The parts of a term", "So do the parts of 64", "So do the parts of a list"];
    claimed(&study, &expected, &begins);
    assert!(page.contains(r#"id="costs""#) && page.contains("What a term costs"), "{said}");
}

/// The rate that an account predicts is of its own sums, and by the measured one as far from 1 as it may.
fn follows(account: &Value, may: Range<f64>) {
    let us = |value: &Value, key: &str| value[key].as_f64().unwrap_or(0.0);
    let keys = ["near_us_per_mb", "far_us_per_mb", "busy", "cpus_left", "pairs"];
    let [near, far, busy, left, pairs] = keys.map(|key| us(account, key));
    for (node, sum) in [("near", near), ("far", far)] {
        let costs = account["costs"].as_array().unwrap().iter();
        let costs = costs.filter(|cost| cost["node"] == node);
        let parts: f64 = costs.map(|cost| us(cost, "us_per_mb")).sum();
        assert!((parts - sum).abs() < 1e-6, "{account:#}");
    }
    let sets = (near.max(far) / busy / pairs).max((near + far) / left.clamp(0.01, 2.0 * pairs));
    assert!((0.5..=1.0).contains(&busy), "{account:#}");
    let [predicted, measured] = ["predicted_bit_s", "measured_bit_s"].map(|key| us(account, key));
    assert!((8e12 / sets / predicted - 1.0).abs() < 1e-9, "{account:#}");
    assert!(may.contains(&(predicted / measured)), "{account:#}");
    // What both nodes took by the kernel's account holds what was measured of them.
    let cpu = us(account, "near_cpu_us_per_mb") + us(account, "far_cpu_us_per_mb");
    assert!((0.5..1.5).contains(&((near + far) / cpu)), "{account:#}");
}

/// Each series has an account of these parts, and the claim that begins so says of it whether it is within 15 %. On a busy
/// machine a run's second may have too few samples: then its nodes' CPU time is not told, and the claim says of which.
fn claimed(study: &Value, expected: &[(&str, Vec<&str>)], begins: &[&str]) {
    let accounts = study["accounts"].as_array().unwrap();
    assert!(!accounts.is_empty() && expected.len() == begins.len());
    let known = |account: &Value| expected.iter().any(|(series, _)| account["series"] == *series);
    assert!(accounts.iter().all(known));
    for (begins, (series, parts)) in begins.iter().zip(expected) {
        let claims = study["claims"].as_array().unwrap();
        let is = |claim: &&Value| claim["says"].as_str().unwrap().starts_with(begins);
        let claim = claims.iter().find(is).unwrap();
        let Some(account) = accounts.iter().find(|account| account["series"] == *series) else {
            let because = claim["because"].as_str().unwrap();
            assert!(claim.get("held").is_none(), "{claim}");
            assert!(because.starts_with("the nodes' CPU time in `"), "{series}: {because}");
            continue;
        };
        let costs = account["costs"].as_array().unwrap().iter();
        let named: Vec<&str> = costs.map(|cost| cost["says"].as_str().unwrap()).collect();
        assert_eq!(named, *parts, "{series}");
        let [predicted, measured] =
            ["predicted_bit_s", "measured_bit_s"].map(|key| account[key].as_f64().unwrap());
        let off = predicted / measured - 1.0;
        assert_eq!(claim["held"].as_bool().unwrap(), off.abs() <= 0.15, "{account:#}");
    }
}

/// The account of each row beside the same measured in another way: its run time beside the CPU time of the processes.
/// On a busy machine a row's second may have too few samples: then its CPU time is not told either.
fn agrees(study: &Value) {
    let rows = study["rows"].as_array().unwrap();
    let mut compared = 0;
    for row in rows {
        let Some(agreements) = row["account"]["agreement"].as_array() else {
            let cpu = &row["load"]["carried"]["cpu_us_per_message"];
            assert!(cpu.is_null(), "{}: {cpu}", row["series"]);
            continue;
        };
        compared += 1;
        for by in agreements {
            let [says, measured] =
                ["seconds", "measured_seconds"].map(|key| by[key].as_f64().unwrap());
            assert!((says / measured - 1.0).abs() < 0.15, "{}: {by}", row["series"]);
        }
    }
    assert!(4 * compared >= 3 * rows.len(), "{compared} of {}", rows.len());
}

#[test]
fn a_link_has_published_figures_and_the_wire_beside_it() {
    let (study, said) = made("dist-link");
    let (study, page) = study.unwrap_or_else(|| panic!("{said}"));
    let wires = study["wire"].as_array().unwrap();
    assert_eq!(wires.len(), 2, "{said}");
    for (case, published) in [(60_000, 14.4e9), (1_000_000, 12.8e9)] {
        let link = row(&study, "the link", Some(case));
        assert_eq!(link["published_bit_s"], published);
        assert!(link["measured_bit_s"].as_f64().unwrap() > 0.0);
        let wire = wires.iter().find(|wire| wire["case"] == case).unwrap();
        assert!(wire["says"].as_str().unwrap().contains("iperf 3"), "{wire}");
    }
    // A message of a megabyte takes longer to move than one of 60 kB.
    let per_s =
        |case| row(&study, "the link", Some(case))["load"]["carried"]["messages_per_s"].as_f64();
    assert!(per_s(60_000) > per_s(1_000_000));
    // How long a tiny message took beside large ones is measured by the process that sent it, and drawn.
    for series in ["100 bytes beside, the link", "100 bytes beside, linerate_link"] {
        let times = &row(&study, series, Some(1_000_000))["load"]["carried"]["latency_us"];
        assert!(times["count"].as_u64().unwrap() > 10, "{said}");
    }
    assert!(page.contains(r#"id="percentiles""#), "{said}");
    assert!(page.contains("What the nodes did for a megabyte"), "{said}");
    // The steps add up to the last: each is what it has more than the one before.
    let parts = study["parts"].as_array().unwrap();
    let us = |part: &Value, key: &str| part[key].as_f64().unwrap_or(0.0);
    let sum: f64 = parts.iter().map(|part| us(part, "adds_us_per_mb")).sum();
    let (first, last) = (&parts[0], &parts[parts.len() - 1]);
    assert_eq!(
        (&first["series"], &last["series"]),
        (&"wire".into(), &"one pair, linerate_link".into())
    );
    let whole = us(last, "us_per_mb");
    assert!((us(first, "us_per_mb") + sum - whole).abs() < whole * 1e-6);
    // Up to the link's own step they add up to what it moved.
    let to_link = parts.iter().position(|part| part["series"] == "one pair, the link").unwrap();
    let up_to: f64 = parts[..=to_link].iter().map(|part| us(part, "adds_us_per_mb")).sum();
    let moved = row(&study, "one pair, the link", Some(1_000_000));
    let measured = 8e12 / moved["measured_bit_s"].as_f64().unwrap();
    assert!(((us(first, "us_per_mb") + up_to) / measured - 1.0).abs() < 0.15, "{said}");
    // What a part takes by itself was measured in runs of its own, at one node.
    let alone = |series: &str| {
        let part = parts.iter().find(|part| part["series"] == series).unwrap();
        us(part, "alone_us_per_mb")
    };
    let [encode, decode] =
        ["one pair, encoded over gen_tcp", "one pair, terms over gen_tcp"].map(alone);
    assert!(encode > 0.0 && decode > 0.0, "{said}");
    // Each part of the account is measured, and none is what is left: what follows may differ from what was moved. Here a
    // wide ratio; within 15 % is a claim that can fail, of a quiet machine.
    let of_link =
        ["encode", "queue", "port", "writev", "recv", "port", "reassemble, decode", "deliver"];
    let of_terms = ["encode", "port", "writev", "recv", "port", "decode", "deliver"];
    let expected = [
        ("one pair, the link", of_link.to_vec()),
        ("one pair, terms passed on", of_terms.to_vec()),
    ];
    for account in study["accounts"].as_array().unwrap() {
        follows(account, SHORT_LINK);
    }
    claimed(&study, &expected, &["The parts of the link", "So do the parts of terms"]);
    agrees(&study);
    for figure in ["between", "messages", "steps", "costs"] {
        assert!(page.contains(&format!(r#"id="{figure}""#)), "{figure}");
    }
    // What a short form leaves out is not tried, and not refuted.
    let claims = study["claims"].as_array().unwrap();
    let large =
        claims.iter().find(|claim| claim["says"].as_str().unwrap().starts_with("Large messages"));
    assert!(large.unwrap().get("held").is_none(), "{said}");
}

/// The row of the series that begins so, in that case.
fn row<'a>(study: &'a Value, series: &str, case: Option<u32>) -> &'a Value {
    let rows = study["rows"].as_array().unwrap();
    let is = |row: &&Value| {
        row["series"].as_str().unwrap().starts_with(series)
            && case.is_none_or(|case| row["case"] == case)
    };
    rows.iter().find(is).unwrap_or_else(|| panic!("no row of {series}"))
}

/// Whether the claim that begins so held.
fn says(study: &Value, begins: &str) -> bool {
    let claims = study["claims"].as_array().unwrap();
    let claim = claims.iter().find(|claim| claim["says"].as_str().unwrap().starts_with(begins));
    claim.unwrap()["held"].as_bool().unwrap()
}
