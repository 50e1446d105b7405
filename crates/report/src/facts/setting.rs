//! What was asked, where, and against what, a row a key.

use std::collections::BTreeMap;

use linerate_model::Workload;
use serde::Serialize;
use serde_json::Value;

use super::*;

/// What a reader calls it: the name that was given to it, or else what was loaded.
pub(crate) fn subject(run: &RunDocument) -> String {
    let plan = &run.plan;
    if let Some(name) = plan.given_name() {
        return name.to_owned();
    }
    let target = &plan.target;
    match (&target.address, &target.beam, target.command.as_slice()) {
        (Some(address), ..) => match &plan.workload {
            Workload::Http { path, also, .. } => {
                let scheme = if target.tls { "https" } else { "http" };
                let more = match also.len() {
                    0 => String::new(),
                    more => format!(" and {more} more"),
                };
                format!("{scheme}://{address}{path}{more}")
            }
            _ => format!("tcp://{address}"),
        },
        (_, Some(server), _) => server.clone(),
        (_, _, words) => words.join(" "),
    }
}

/// What a reader calls a climb.
pub(crate) fn climbed(climb: &ClimbDocument) -> String {
    // Its name is its plan's, and a plan without one has the same for all.
    climb.steps.first().map_or_else(|| climb.name.clone(), |base| subject(&base.run))
}

/// `build=1423, branch=main`; none where nothing was said.
pub(crate) fn labels(labels: &BTreeMap<String, String>) -> Option<String> {
    let said: Vec<String> = labels.iter().map(|(key, value)| format!("{key}={value}")).collect();
    (!said.is_empty()).then(|| said.join(", "))
}

/// What the plan said, defaults filled in, a row a key.
pub(crate) fn plan(run: &RunDocument) -> Table {
    keys("Plan", &run.plan)
}

/// Where the engine ran.
pub(crate) fn host(run: &RunDocument) -> Table {
    keys("Host", &run.host)
}

/// Against what.
pub(crate) fn target(run: &RunDocument) -> Table {
    let mut table = keys("Target", &run.target);
    // What could be turned is the climb's business, and long.
    table.rows.retain(|row| !row[0].starts_with("turnable"));
    table
}

fn keys(caption: &str, of: &impl Serialize) -> Table {
    let mut table = Table::new(caption, &["key", "value"], &[]);
    let value = serde_json::to_value(of).unwrap_or_default();
    flatten(&mut table.rows, "", &value);
    table
}

fn flatten(rows: &mut Vec<Vec<String>>, at: &str, value: &Value) {
    let said = match value {
        Value::Object(keys) => {
            for (key, value) in keys {
                let at = if at.is_empty() { key.clone() } else { format!("{at}.{key}") };
                flatten(rows, &at, value);
            }
            return;
        }
        Value::Array(items) => items.iter().map(plain).collect::<Vec<_>>().join(" "),
        other => plain(other),
    };
    rows.push(vec![at.to_owned(), said]);
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_owned)
}
