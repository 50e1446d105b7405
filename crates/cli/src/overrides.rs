//! Overrides: a knob of the target by its name, any key of the plan by its dotted name.

use linerate_model::Plan;

use crate::failure::Failure;

/// Short names for what is changed most.
const ALIASES: [(&str, &str); 6] = [
    ("c", "load.connections"),
    ("connections", "load.connections"),
    ("rate", "load.rate"),
    ("d", "until.duration"),
    ("n", "until.exchanges"),
    ("t", "engine.threads"),
];

/// Keys that are lists, and by what their values are divided when they are overridden.
const LISTS: [(&str, char); 5] = [
    ("target.servers", ','),
    ("target.vm_flags", ' '),
    ("target.cpus", ','),
    ("engine.cpus", ','),
    ("engine.hosts", ','),
];

/// What the lab lays before a run, by how its knobs begin.
const LAID: [&str; 5] = ["path.", "links.", "sites.", "target.", "engine.hosts"];

/// Of a plan's keys, those that it may have several of.
const TABLES_OF_A_LIST: [&str; 2] = ["links", "sites"];

/// The knob's whole name.
pub fn whole_name(knob: &str) -> &str {
    ALIASES.iter().find(|(short, _)| *short == knob).map_or(knob, |(_, whole)| whole)
}

/// Whether overriding it needs the lab to be laid anew.
pub fn needs_new_lab(knob: &str) -> bool {
    let knob = whole_name(knob);
    LAID.iter().any(|laid| knob.starts_with(laid))
}

/// The plan with one key overridden; `default` takes a plan's key out. What the plan has a list of (`links`)
/// is overridden in all of them at once.
pub fn overridden(plan: &Plan, knob: &str, value: &str) -> Result<Plan, Failure> {
    let knob = whole_name(knob);
    if !knob.contains('.') {
        let mut changed = plan.clone();
        changed.target.knobs.insert(knob.to_owned(), value.to_owned());
        return Ok(changed);
    }
    let wrong = |why: String| Failure::plan(format!("{knob}={value}: {why}"));
    let mut document: toml::Table =
        plan.to_toml().parse().map_err(|error| wrong(format!("{error}")))?;
    let value = match value {
        "default" => None,
        value => Some(as_plan_has_it(knob, value)),
    };
    set(&mut document, &keys(knob), value).map_err(wrong)?;
    let text = toml::to_string(&document).map_err(|error| wrong(format!("{error}")))?;
    // Line and column would be those of a text that nobody has seen.
    Plan::from_toml(&text).map_err(|error| {
        let text = error.to_string();
        let why =
            text.split_once(": ").filter(|(at, _)| at.starts_with("line ")).map(|(_, why)| why);
        wrong(why.unwrap_or(&text).to_owned())
    })
}

/// The keys of a dotted knob, outermost first. A kernel setting's name has dots of its own.
fn keys(knob: &str) -> Vec<&str> {
    let mut keys = Vec::new();
    let mut rest = knob;
    while let Some((key, after)) = rest.split_once('.') {
        keys.push(key);
        rest = after;
        if key == "sysctls" {
            break;
        }
    }
    keys.push(rest);
    keys
}

/// Puts a value where the keys lead, or takes out what is there.
fn set(table: &mut toml::Table, keys: &[&str], value: Option<toml::Value>) -> Result<(), String> {
    let (key, rest) = match keys {
        [] => return Ok(()),
        [key] => {
            match value {
                Some(value) => table.insert((*key).to_owned(), value),
                None => table.remove(*key),
            };
            return Ok(());
        }
        [key, rest @ ..] => (*key, rest),
    };
    if !table.contains_key(key) {
        if TABLES_OF_A_LIST.contains(&key) {
            return Err(format!("the plan has no [[{key}]]"));
        }
        if value.is_none() {
            return Ok(());
        }
        table.insert(key.to_owned(), toml::Value::Table(toml::Table::new()));
    }
    match table.get_mut(key) {
        Some(toml::Value::Table(inner)) => set(inner, rest, value),
        Some(toml::Value::Array(all)) => {
            let mut tables = all.iter_mut().filter_map(toml::Value::as_table_mut);
            tables.try_for_each(|inner| set(inner, rest, value.clone()))
        }
        _ => Err(format!("`{key}` is no part of a plan that has parts")),
    }
}

/// A value as TOML has it, by what the key takes.
fn as_plan_has_it(knob: &str, value: &str) -> toml::Value {
    // A kernel setting is words, also where they are a number.
    if knob.contains(".sysctls.") {
        return toml::Value::String(value.to_owned());
    }
    let list = LISTS.iter().find(|(of, _)| *of == knob);
    list.map_or_else(|| scalar(value), |(_, divided)| words(value, *divided))
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

/// A value of a plan as a person writes it: a number, true or false, or words.
pub fn scalar(value: &str) -> toml::Value {
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
        let changed = overridden(&plan(), "nodelay", "on").unwrap();
        assert_eq!(changed.target.knobs["nodelay"], "on");
        assert_eq!(overridden(&plan(), "c", "64").unwrap().load.connections, 64);
        assert_eq!(
            overridden(&plan(), "until.duration", "3s").unwrap().until.duration.unwrap().as_secs(),
            3
        );
    }

    #[test]
    fn default_takes_a_key_out() {
        assert!(overridden(&plan(), "load.rate", "default").unwrap().load.rate.is_none());
    }

    #[test]
    fn lists_are_overridden_as_a_person_writes_them() {
        let changed = overridden(&plan(), "target.vm_flags", "+S 1:1 +sbwt none").unwrap();
        assert_eq!(changed.target.vm_flags, ["+S", "1:1", "+sbwt", "none"]);
        assert!(
            overridden(&changed, "target.vm_flags", "default").unwrap().target.vm_flags.is_empty()
        );
        assert_eq!(overridden(&plan(), "target.cpus", "0,1").unwrap().target.cpus, [0, 1]);
        assert!(
            overridden(&plan(), "target.cpus", "all").unwrap_err().sentence.contains("target.cpus")
        );
    }

    #[test]
    fn every_key_of_a_path_can_be_overridden() {
        let plan = Plan::from_toml("[target]\nbeam = 'http'\n[path]\nrtt = '10ms'\n").unwrap();
        for (knob, value) in [
            ("path.rtt", "20ms"),
            ("path.jitter", "1ms"),
            ("path.keep_order", "false"),
            ("path.rate", "200Mbit"),
            ("path.limit", "1000"),
            ("path.loss", "0.1%"),
            ("path.loss_burst", "3"),
            ("path.loss_burst", "2.5"),
            ("path.duplicate", "1%"),
            ("path.reorder", "1%"),
            ("path.largest", "1400"),
            ("path.out.delay", "7ms"),
            ("path.back.rate", "20Mbit"),
            ("path.backend", "line"),
            ("path.offload", "false"),
            ("path.seed", "7"),
            ("path.tolerance", "5ms"),
            ("path.sysctls.net.ipv4.tcp_mtu_probing", "1"),
            ("path.sysctls.net.ipv4.tcp_rmem", "4096 131072 6291456"),
        ] {
            assert!(needs_new_lab(knob), "{knob}");
            let changed = overridden(&plan, knob, value).unwrap();
            assert_ne!(changed, plan, "{knob}");
            assert_ne!(overridden(&changed, knob, "default").unwrap(), changed, "{knob}");
        }
        let rated = overridden(&plan, "path.rate", "200Mbit").unwrap();
        for (knob, value) in [
            ("path.queue", "1000"),
            ("path.queue", "256KiB"),
            ("path.aqm", "codel"),
            ("path.back.queue", "50"),
        ] {
            assert_ne!(overridden(&rated, knob, value).unwrap(), rated, "{knob}={value}");
        }
        let probing = overridden(&plan, "path.sysctls.net.ipv4.tcp_mtu_probing", "1").unwrap();
        assert_eq!(probing.path.unwrap().sysctls["net.ipv4.tcp_mtu_probing"], "1");
    }

    #[test]
    fn a_key_of_links_is_overridden_in_all_of_them() {
        let plan = Plan::from_toml(
            "[target]\nbeam = 'echo'\n[[sites]]\nname = 'a'\nengines = 1\n[[sites]]\nname = 'b'\nservers = 1\n\
             [[sites]]\nname = 'c'\nservers = 1\n[[links]]\nbetween = ['a', 'b']\npath = { limit = 10 }\n\
             [[links]]\nbetween = ['a', 'c']\n",
        )
        .unwrap();
        let changed = overridden(&plan, "links.path.limit", "1000").unwrap();
        assert!(changed.links.iter().all(|link| link.path.limit == Some(1000)));
        let changed = overridden(&changed, "links.path.out.limit", "7").unwrap();
        assert!(changed.links.iter().all(|link| link.path.directions()[0].limit == Some(7)));
        let changed = overridden(&changed, "links.path.limit", "default").unwrap();
        assert!(changed.links.iter().all(|link| link.path.directions()[1].limit.is_none()));
    }

    #[test]
    fn links_that_a_plan_does_not_have_are_not_made_up() {
        let failure = overridden(&plan(), "links.path.limit", "7").unwrap_err();
        assert_eq!(failure.sentence, "links.path.limit=7: the plan has no [[links]]");
    }

    #[test]
    fn what_has_no_parts_is_told_by_its_name() {
        let failure = overridden(&plan(), "load.rate.most", "7").unwrap_err();
        assert!(failure.sentence.contains("`rate` is no part"), "{failure}");
    }

    #[test]
    fn a_fraction_is_a_number() {
        let changed = overridden(&plan(), "target.cpu_quota", "0.5").unwrap();
        assert_eq!(changed.target.cpu_quota.map(|quota| quota.0), Some(0.5));
        assert_eq!(overridden(&plan(), "load.rate", "1.5").unwrap().load.rate.unwrap().0, 1.5);
    }

    #[test]
    fn a_key_that_a_plan_does_not_have_is_refused_by_name() {
        let failure = overridden(&plan(), "load.speed", "9").unwrap_err();
        assert_eq!(failure.code, 2);
        assert!(failure.sentence.contains("load.speed=9: unknown field `speed`"), "{failure}");
    }
}
