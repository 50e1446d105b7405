//! JSON names, of `schema/`. What is written is held to the schemas by the tests of `linerate-report`.

use std::fmt::Write;

use serde_json::{Map, Value};

use super::{cell, text};

/// Each schema and how its document is got.
const SCHEMAS: [(&str, &str); 10] = [
    ("run", "`run --json`, `diagnose --json`"),
    ("climb", "`climb --json`"),
    ("study", "`study --json`, `run --scan ... --json`"),
    ("doctor", "`doctor --json`"),
    ("compare", "`compare --json`, `ab --json`"),
    ("predict", "`predict --json`"),
    ("what-if", "`what-if --json`"),
    ("path", "`path --json FILE`"),
    ("capacity", "`capacity --json`"),
    ("event", "a line of `--json-stream`"),
];

pub(super) fn part() -> String {
    let mut page = "## JSON names\n\n\
        `a.b` is `b` in the object `a`, `a[]` each of the list `a`. A type in code letters has a table of its own, of the \
        same document where no other is said. The schemas themselves are in [schema/](../schema).\n"
        .to_owned();
    for (name, of) in SCHEMAS {
        let schema = schema(name);
        let about = schema["description"].as_str().unwrap_or_default();
        let _ = write!(page, "\n### {name}: {of}\n\n{about}\n");
        let whole = [(String::new(), &schema)];
        let defined = schema["$defs"].as_object().into_iter().flatten();
        for (title, object) in
            whole.into_iter().chain(defined.map(|(title, it)| (title.clone(), it)))
        {
            let mut rows = String::new();
            properties(name, object, "", &mut rows);
            if rows.is_empty() {
                continue;
            }
            if !title.is_empty() {
                let about = object["description"].as_str().unwrap_or_default();
                let _ = write!(page, "\n**{name}: `{title}`** {}\n", cell(about));
            }
            let _ = write!(page, "\n| name | type | is |\n|---|---|---|\n{rows}");
        }
    }
    page
}

fn schema(name: &str) -> Value {
    serde_json::from_str(&text(&format!("schema/{name}.json"))).expect("a schema is JSON")
}

/// A row for each property, and for those of the objects in it. `of` is the schema's name.
fn properties(of: &str, object: &Value, above: &str, rows: &mut String) {
    let none = Map::new();
    for (name, value) in object["properties"].as_object().unwrap_or(&none) {
        let path = format!("{above}{name}");
        let says = value["description"].as_str().map(str::to_owned);
        let says = says.or_else(|| {
            let (_, _, found) = referred(of, value["$ref"].as_str()?);
            Some(found["description"].as_str()?.to_owned())
        });
        let _ = writeln!(
            rows,
            "| `{path}` | {} | {} |",
            kind(of, value),
            cell(&says.unwrap_or_default())
        );
        properties(of, value, &format!("{path}."), rows);
        properties(of, &value["items"], &format!("{path}[]."), rows);
    }
}

/// What `run.json#/$defs/limit`, `#/$defs/limit` or `run.json` stands for: its schema, its name there, itself.
fn referred(from: &str, reference: &str) -> (String, String, Value) {
    let (file, place) = reference.split_once('#').unwrap_or((reference, ""));
    let of = if file.is_empty() { from } else { file.trim_end_matches(".json") };
    let schema = schema(of);
    let found = schema.pointer(place).unwrap_or_else(|| panic!("{from}: nothing at {reference}"));
    let name = place.rsplit('/').next().filter(|name| !name.is_empty()).unwrap_or(of);
    (of.to_owned(), name.to_owned(), found.clone())
}

/// The type of a value, in a word or two.
fn kind(from: &str, of: &Value) -> String {
    if let Some(reference) = of["$ref"].as_str() {
        let (schema, name, found) = referred(from, reference);
        if found["properties"].is_null() && found["$ref"].is_null() {
            return kind(&schema, &found);
        }
        return if schema == from || schema == name {
            format!("`{name}`")
        } else {
            format!("`{name}` of {schema}")
        };
    }
    if let Some(values) = of["enum"].as_array() {
        let values: Vec<String> =
            values.iter().map(|value| format!("`{value}`").replace('"', "")).collect();
        return values.join(", ");
    }
    if let Some(value) = of.get("const") {
        return format!("`{value}`").replace('"', "");
    }
    if let Some(any) = of["anyOf"].as_array().or(of["oneOf"].as_array()) {
        return any.iter().map(|of| kind(from, of)).collect::<Vec<_>>().join(" or ");
    }
    match &of["type"] {
        Value::String(name) if name == "array" && of["items"].is_object() => {
            format!("list of {}", kind(from, &of["items"]))
        }
        Value::String(name) if name == "object" && of["additionalProperties"].is_object() => {
            format!("object of {}", kind(from, &of["additionalProperties"]))
        }
        Value::String(name) => name.clone(),
        Value::Array(names) => {
            let names: Vec<&str> = names.iter().filter_map(Value::as_str).collect();
            names.join(" or ")
        }
        _ => String::new(),
    }
}

#[test]
fn each_schema_is_in_the_list() {
    let mut files: Vec<String> = std::fs::read_dir(super::file("schema"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    files.sort();
    let mut listed = SCHEMAS.map(|(name, _)| format!("{name}.json"));
    listed.sort();
    assert_eq!(files, listed);
}
