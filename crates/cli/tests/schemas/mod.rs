//! What linerate writes is what `schema/` promises. Not every test binary uses all of it.

#![allow(dead_code)]

use jsonschema::Registry;
use serde_json::Value;

/// Where the schemas stand for each other; nothing is fetched.
const BASE: &str = "linerate:///schema/";

fn schema(name: &str) -> Value {
    let path = format!("{}/../../schema/{name}.json", env!("CARGO_MANIFEST_DIR"));
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

/// Panics with all that is not as the schema says.
pub fn assert_as_promised(name: &str, document: &Value) {
    let [run, climb, capacity] = ["run", "climb", "capacity"].map(schema);
    let registry = Registry::new()
        .add(format!("{BASE}run.json"), &run)
        .and_then(|registry| registry.add(format!("{BASE}climb.json"), &climb))
        .and_then(|registry| registry.add(format!("{BASE}capacity.json"), &capacity))
        .and_then(|registry| registry.prepare())
        .unwrap();
    let validator = jsonschema::options()
        .with_base_uri(format!("{BASE}{name}.json"))
        .with_registry(&registry)
        .build(&schema(name))
        .unwrap();
    let wrong: Vec<String> = validator
        .iter_errors(document)
        .map(|error| format!("{}: {error}", error.instance_path()))
        .collect();
    assert!(wrong.is_empty(), "{name}: {wrong:#?}");
}

/// Of each event and of the report at the end, by the schema that it names.
pub fn assert_stream(events: &[Value]) {
    for event in events {
        assert_as_promised("event", event);
    }
    let report =
        events.last().filter(|last| last["event"] == "report").expect("it ends in a report");
    let named = report["data"]["schema"].as_str().unwrap();
    assert_as_promised(named.split('/').nth(1).unwrap(), &report["data"]);
}
