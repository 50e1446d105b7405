//! Turning a knob: a knob of the target by its name, anything of the plan by its dotted key.

use linerate_model::Plan;

use crate::failure::Failure;

/// Short names for what is turned most.
const ALIASES: [(&str, &str); 6] = [
    ("c", "load.connections"),
    ("connections", "load.connections"),
    ("rate", "load.rate"),
    ("d", "until.duration"),
    ("n", "until.exchanges"),
    ("t", "engine.threads"),
];

/// Keys that are lists, and by what their values are divided when they are turned.
const LISTS: [(&str, char); 3] =
    [("target.vm_flags", ' '), ("target.cpus", ','), ("engine.cpus", ',')];

/// The knob's whole name.
pub fn whole_name(knob: &str) -> &str {
    ALIASES.iter().find(|(short, _)| *short == knob).map_or(knob, |(_, whole)| whole)
}

/// Whether turning it needs the lab to be laid anew.
pub fn needs_new_lab(knob: &str) -> bool {
    let knob = whole_name(knob);
    knob.starts_with("path.") || knob.starts_with("target.")
}

/// The plan with one knob turned; `default` takes a plan's key out.
pub fn turn(plan: &Plan, knob: &str, value: &str) -> Result<Plan, Failure> {
    let knob = whole_name(knob);
    let Some((table, key)) = knob.split_once('.') else {
        let mut turned = plan.clone();
        turned.target.knobs.insert(knob.to_owned(), value.to_owned());
        return Ok(turned);
    };
    let wrong = |why: String| Failure::plan(format!("{knob}={value}: {why}"));
    let mut document: toml::Table =
        plan.to_toml().parse().map_err(|error| wrong(format!("{error}")))?;
    let entry = document
        .entry(table.to_owned())
        .or_insert_with(|| toml::Value::Table(toml::Table::new()))
        .as_table_mut()
        .ok_or_else(|| wrong(format!("`{table}` is no part of a plan")))?;
    if value == "default" {
        entry.remove(key);
    } else {
        let list = LISTS.iter().find(|(of, _)| *of == knob);
        let value = list.map_or_else(|| scalar(value), |(_, divided)| words(value, *divided));
        entry.insert(key.to_owned(), value);
    }
    let text = toml::to_string(&document).map_err(|error| wrong(format!("{error}")))?;
    // Line and column would be those of a text that nobody has seen.
    Plan::from_toml(&text).map_err(|error| {
        let text = error.to_string();
        let why =
            text.split_once(": ").filter(|(at, _)| at.starts_with("line ")).map(|(_, why)| why);
        wrong(why.unwrap_or(&text).to_owned())
    })
}

/// `name=value`, both there.
pub fn assignment(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((name, value)) if !name.is_empty() && !value.is_empty() => {
            Ok((name.trim().to_owned(), value.trim().to_owned()))
        }
        _ => {
            Err(format!("`{text}` is not a knob and its value: write NAME=VALUE, as in nodelay=on"))
        }
    }
}

fn scalar(value: &str) -> toml::Value {
    if let Ok(number) = value.parse::<i64>() {
        return toml::Value::Integer(number);
    }
    // Not `inf`, `1e3` or `.5`: words to whoever wrote them.
    let decimal = |c: char| c.is_ascii_digit() || c == '.';
    if value.starts_with(|c: char| c.is_ascii_digit())
        && value.chars().all(decimal)
        && let Ok(number) = value.parse::<f64>()
    {
        return toml::Value::Float(number);
    }
    match value {
        "true" => toml::Value::Boolean(true),
        "false" => toml::Value::Boolean(false),
        _ => toml::Value::String(value.to_owned()),
    }
}

/// A list; what is a number in a list of numbers is one, flags stay words.
fn words(value: &str, divided: char) -> toml::Value {
    let words = value.split(divided).map(str::trim).filter(|word| !word.is_empty());
    let element = |word: &str| match divided {
        ',' => scalar(word),
        _ => toml::Value::String(word.to_owned()),
    };
    toml::Value::Array(words.map(element).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plan() -> Plan {
        Plan::from_toml("[target]\nbeam = 'httpd'\n[load]\nrate = 500\n").unwrap()
    }

    #[test]
    fn a_bare_name_is_the_targets_and_a_dotted_one_the_plans() {
        let turned = turn(&plan(), "nodelay", "on").unwrap();
        assert_eq!(turned.target.knobs["nodelay"], "on");
        assert_eq!(turn(&plan(), "c", "64").unwrap().load.connections, 64);
        assert_eq!(
            turn(&plan(), "until.duration", "3s").unwrap().until.duration.unwrap().as_secs(),
            3
        );
    }

    #[test]
    fn default_takes_a_key_out() {
        assert!(turn(&plan(), "load.rate", "default").unwrap().load.rate.is_none());
    }

    #[test]
    fn lists_are_turned_as_a_person_writes_them() {
        let turned = turn(&plan(), "target.vm_flags", "+S 1:1 +sbwt none").unwrap();
        assert_eq!(turned.target.vm_flags, ["+S", "1:1", "+sbwt", "none"]);
        assert!(turn(&turned, "target.vm_flags", "default").unwrap().target.vm_flags.is_empty());
        assert_eq!(turn(&plan(), "target.cpus", "0,1").unwrap().target.cpus, [0, 1]);
        assert!(turn(&plan(), "target.cpus", "all").unwrap_err().sentence.contains("target.cpus"));
    }

    #[test]
    fn a_fraction_is_a_number() {
        let turned = turn(&plan(), "target.cpu_quota", "0.5").unwrap();
        assert_eq!(turned.target.cpu_quota.map(|quota| quota.0), Some(0.5));
        assert_eq!(turn(&plan(), "load.rate", "1.5").unwrap().load.rate.unwrap().0, 1.5);
    }

    #[test]
    fn a_key_that_a_plan_does_not_have_is_refused_by_name() {
        let failure = turn(&plan(), "load.speed", "9").unwrap_err();
        assert_eq!(failure.code, 2);
        assert!(failure.sentence.contains("load.speed=9: unknown field `speed`"), "{failure}");
    }
}
