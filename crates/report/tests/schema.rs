//! What `--json` writes is what `schema/` promises, and what `Document::read` takes back.
#![allow(clippy::unwrap_used)]

use jsonschema::{Registry, Validator};
use linerate_report::{Document, FORMATS, Look};
use serde_json::Value;

mod samples;

/// Where the schemas stand for each other; nothing is fetched.
const BASE: &str = "linerate:///schema/";

#[allow(clippy::disallowed_methods, reason = "a test reads the repository")]
fn schema(name: &str) -> Value {
    let path = format!("{}/../../schema/{name}.json", env!("CARGO_MANIFEST_DIR"));
    let text = std::fs::read_to_string(&path).expect("schema/ is part of the repository");
    serde_json::from_str(&text).expect("a schema is JSON")
}

fn check(name: &str, document: &Value) {
    let [run, climb, capacity] = ["run", "climb", "capacity"].map(schema);
    let registry = Registry::new()
        .add(format!("{BASE}run.json"), &run)
        .and_then(|registry| registry.add(format!("{BASE}climb.json"), &climb))
        .and_then(|registry| registry.add(format!("{BASE}capacity.json"), &capacity))
        .and_then(|registry| registry.prepare())
        .expect("run.json stands for itself");
    let schema = schema(name);
    let validator: Validator = jsonschema::options()
        .with_base_uri(format!("{BASE}{name}.json"))
        .with_registry(&registry)
        .build(&schema)
        .expect("a schema is a schema");
    let wrong: Vec<String> = validator
        .iter_errors(document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(wrong.is_empty(), "{name}: {wrong:#?}");
}

fn documents() -> Vec<(&'static str, Document)> {
    let run = |run| Document::Run(Box::new(run));
    vec![
        ("run", run(samples::nagle())),
        ("run", run(samples::pool())),
        ("run", run(samples::gated())),
        ("run", run(samples::overloaded())),
        ("run", run(samples::void())),
        ("run", run(samples::hostile())),
        ("run", run(samples::across_sites())),
        ("climb", Document::Climb(samples::climb())),
        ("study", Document::Study(samples::study())),
        ("study", Document::Study(samples::link())),
        ("study", Document::Study(samples::users())),
        ("study", Document::Study(samples::scan())),
        ("doctor", Document::Doctor(Box::new(samples::doctor()))),
        ("doctor", Document::Doctor(Box::new(samples::idle()))),
        ("compare", Document::Compare(Box::new(samples::compare()))),
    ]
}

fn json(document: &Document) -> String {
    let format = FORMATS.iter().find(|format| format.name == "json").expect("json is a format");
    (format.render)(document, &Look::default())
}

#[test]
fn every_kind_of_document_is_as_its_schema_says() {
    for (name, document) in documents() {
        check(name, &serde_json::from_str(&json(&document)).unwrap());
    }
}

#[test]
fn a_key_that_no_schema_describes_is_found() {
    // A run by itself may have more keys, since steps and rows are runs with more; as a step it
    // may not, so a new key of a run that is not in run.json fails the test above.
    let mut climb: Value = serde_json::from_str(&json(&Document::Climb(samples::climb()))).unwrap();
    climb["steps"][0]["undescribed"] = Value::from(1);
    let failed = std::panic::catch_unwind(|| check("climb", &climb));
    assert!(failed.is_err());
}

#[test]
fn a_document_reads_back_as_it_was_written() {
    for (_, document) in documents() {
        assert_eq!(Document::read(&json(&document)), Ok(document));
    }
}

#[test]
fn the_keys_that_scripts_use_are_where_they_were() {
    let climb: Value = serde_json::from_str(&json(&Document::Climb(samples::climb()))).unwrap();
    let step = &climb["steps"][1];
    assert_eq!(step["verdict"]["by"], "target.cpu");
    assert_eq!(step["prediction_held"], true);
    assert_eq!(step["load"]["latency_us"]["percentiles"][2][0], 50.0);
    let advice = &climb["steps"][0]["advice"][0];
    assert_eq!(advice["predicted_per_s"].as_array().map(Vec::len), Some(3));
    let study: Value = serde_json::from_str(&json(&Document::Study(samples::study()))).unwrap();
    assert_eq!(study["rows"][0]["roofline"]["roofs"][0]["binds"], true);
}
