//! A path from its flags: each is a key of a plan's `[path]`, read and refused as there.

use linerate_model::Path;
use serde::Deserialize;

use crate::args::{LoadArgs, PathChange, PathFlags};
use crate::failure::Failure;
use crate::overrides::scalar;

/// A flag as it was typed, the key that it sets, and the value.
struct Set<'a> {
    flag: &'a str,
    key: String,
    value: &'a str,
}

/// Tables in a path, whose keys are written `out.rate`.
const TABLES: [&str; 3] = ["out", "back", "sysctls"];

/// `key=value`, both there.
pub fn setting(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() && !value.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        _ => {
            Err(format!("`{text}` is not a key and its value: write KEY=VALUE, as in rate=200Mbit"))
        }
    }
}

/// The path of a load: the plan's, if it has one, with what the flags say of it.
pub fn of_load(args: &LoadArgs, plans: Option<Path>) -> Result<Option<Path>, Failure> {
    let mut sets = Vec::new();
    if let Some(rtt) = &args.rtt {
        sets.push(Set { flag: "--rtt", key: "rtt".into(), value: rtt });
    }
    for (key, value) in &args.path {
        sets.push(Set { flag: "--path", key: key.clone(), value });
    }
    if let Some(backend) = &args.path_backend {
        sets.push(Set { flag: "--path-backend", key: "backend".into(), value: backend });
    }
    if sets.is_empty() { Ok(plans) } else { with(plans.unwrap_or_default(), &sets).map(Some) }
}

/// The path that the flags of `path` ask for, checked.
pub fn of_flags(flags: &PathFlags) -> Result<Path, Failure> {
    let one = |flag, key: &str, value: &'_ Option<String>| {
        value.as_deref().map(|value| (flag, key.to_owned(), value.to_owned()))
    };
    let many = |flag, table: &str, of: &[(String, String)]| {
        of.iter()
            .map(|(key, value)| (flag, format!("{table}.{key}"), value.clone()))
            .collect::<Vec<_>>()
    };
    let off =
        |flag, key: &str, given: bool| given.then(|| (flag, key.to_owned(), "false".to_owned()));
    let mut typed: Vec<(&str, String, String)> = [
        one("--rtt", "rtt", &flags.rtt),
        one("--jitter", "jitter", &flags.jitter),
        off("--no-order", "keep_order", flags.no_order),
        one("--rate", "rate", &flags.rate),
        one("--trace", "trace", &flags.trace),
        one("--queue", "queue", &flags.queue),
        one("--aqm", "aqm", &flags.aqm),
        one("--limit", "limit", &flags.limit),
        one("--loss", "loss", &flags.loss),
        one("--loss-burst", "loss_burst", &flags.loss_burst),
        one("--duplicate", "duplicate", &flags.duplicate),
        one("--reorder", "reorder", &flags.reorder),
        one("--largest", "largest", &flags.largest),
        one("--backend", "backend", &flags.backend),
        off("--no-offload", "offload", flags.no_offload),
        one("--seed", "seed", &flags.seed),
        one("--tolerance", "tolerance", &flags.tolerance),
    ]
    .into_iter()
    .flatten()
    .collect();
    typed.extend(many("--out", "out", &flags.out));
    typed.extend(many("--back", "back", &flags.back));
    typed.extend(many("--sysctl", "sysctls", &flags.sysctl));
    let sets: Vec<Set<'_>> =
        typed.iter().map(|(flag, key, value)| Set { flag, key: key.clone(), value }).collect();
    let path = with(Path::default(), &sets)?;
    path.check("path").map_err(Failure::plan)?;
    Ok(path)
}

/// A path with what the flags of a prediction say of it; `none` takes a limit, a rate or a queue away.
pub fn changed(path: Path, flags: &PathChange) -> Result<Path, Failure> {
    let mut path = path;
    let mut typed: Vec<(&str, &str, &str)> = [
        ("--rtt", "rtt", &flags.rtt),
        ("--rate", "rate", &flags.rate),
        ("--queue", "queue", &flags.queue),
        ("--limit", "limit", &flags.limit),
        ("--loss", "loss", &flags.loss),
    ]
    .into_iter()
    .filter_map(|(flag, key, value)| Some((flag, key, value.as_deref()?)))
    .collect();
    typed.extend(flags.path.iter().map(|(key, value)| ("--path", key.as_str(), value.as_str())));
    let mut sets = Vec::new();
    for (flag, key, value) in typed {
        match (value, key) {
            ("none", "rate") => (path.rate, path.queue) = (None, None),
            ("none", "queue") => path.queue = None,
            ("none", "limit") => path.limit = None,
            _ => sets.push(Set { flag, key: key.to_owned(), value }),
        }
    }
    let path = with(path, &sets)?;
    path.check("path").map_err(Failure::plan)?;
    if path.directions().iter().any(|way| way.trace.is_some()) {
        return Err(Failure::plan("a trace has no one rate to predict with: write --rate instead"));
    }
    Ok(path)
}

/// One key after the other, so that what is wrong is known by its flag.
fn with(path: Path, sets: &[Set<'_>]) -> Result<Path, Failure> {
    let unwritten = |error: toml::ser::Error| Failure::plan(format!("path: {error}"));
    let mut table = toml::Table::try_from(&path).map_err(unwritten)?;
    let mut path = path;
    for Set { flag, key, value } in sets {
        let (into, key) = match key.split_once('.') {
            Some((within, rest)) if TABLES.contains(&within) => {
                let entry = table.entry(within).or_insert_with(|| toml::Table::new().into());
                (entry.as_table_mut().expect("they are tables in a path"), rest)
            }
            _ => (&mut table, key.as_str()),
        };
        // Settings of the kernel are text, whatever they look like.
        let is_text = *flag == "--sysctl" || key.starts_with("net.");
        let value_of = if is_text { toml::Value::String((*value).into()) } else { scalar(value) };
        into.insert(key.to_owned(), value_of);
        path = Path::deserialize(table.clone()).map_err(|error| {
            let of_key =
                if *flag == "--path" { format!("{flag} {key}={value}") } else { (*flag).into() };
            Failure::plan(format!("{of_key}: {}{}", error.message().trim(), meant(key)))
        })?;
    }
    Ok(path)
}

/// What other tools' words for a path are here.
fn meant(key: &str) -> &'static str {
    match key {
        "delay" | "latency" => "; for a delay of 10 ms each way write rtt=20ms",
        "bandwidth" | "speed" => "; for a bandwidth write rate=50Mbit",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use linerate_model::{BitRate, Bytes, PathBackend, Queue};

    use super::*;

    fn load(settings: &[&str]) -> Result<Path, Failure> {
        let path = settings.iter().map(|text| setting(text).unwrap()).collect();
        let args = LoadArgs { path, ..LoadArgs::default() };
        Ok(of_load(&args, None)?.unwrap())
    }

    #[test]
    fn keys_of_a_path_are_read_as_in_a_plan() {
        let path =
            load(&["rtt=10ms", "rate=200Mbit", "queue=1000", "loss=0.1%", "loss_burst=3"]).unwrap();
        assert_eq!(path.rtt, Duration::from_millis(10));
        assert_eq!((path.rate, path.queue), (Some(BitRate(2e8)), Some(Queue::Packets(1000))));
        assert_eq!(path.loss_burst, 3.0);
        let [out, back] = load(&["rtt=2ms", "out.rate=1Mbit", "back.queue=64KiB", "rate=5Mbit"])
            .unwrap()
            .directions();
        assert_eq!((out.rate, back.rate), (Some(BitRate(1e6)), Some(BitRate(5e6))));
        assert_eq!(back.queue, Queue::Bytes(Bytes(65_536)));
        let sysctls = load(&["sysctls.net.ipv4.tcp_no_metrics_save=1"]).unwrap().sysctls;
        assert_eq!(sysctls["net.ipv4.tcp_no_metrics_save"], "1");
    }

    #[test]
    fn flags_change_what_the_plan_says_and_leave_the_rest() {
        let plans = Path { limit: Some(7), ..Path::of_rtt(Duration::from_millis(40)) };
        let args = LoadArgs {
            rtt: Some("1ms".into()),
            path_backend: Some("line".into()),
            ..LoadArgs::default()
        };
        let path = of_load(&args, Some(plans.clone())).unwrap().unwrap();
        assert_eq!((path.rtt, path.limit), (Duration::from_millis(1), Some(7)));
        assert_eq!(path.backend, PathBackend::Line);
        assert_eq!(of_load(&LoadArgs::default(), Some(plans.clone())).unwrap(), Some(plans));
        assert_eq!(of_load(&LoadArgs::default(), None).unwrap(), None);
    }

    #[test]
    fn what_is_wrong_is_said_with_its_flag() {
        let says = |error: Failure| error.sentence;
        let flags = |flags: PathFlags| says(of_flags(&flags).unwrap_err());
        let some = |text: &str| Some(text.to_owned());
        assert_eq!(
            flags(PathFlags { rate: some("10MB/s"), ..PathFlags::default() }),
            "--rate: `10MB/s` is not a rate of bits: write a number with kbit, Mbit or Gbit, as in `200Mbit`"
        );
        let queue =
            flags(PathFlags { queue: some("0"), rate: some("1Mbit"), ..PathFlags::default() });
        assert!(queue.starts_with("path: queue: 0 lets no packet in"), "{queue}");
        let loss = flags(PathFlags { loss: some("101%"), ..PathFlags::default() });
        assert!(loss.starts_with("--loss: `101%` is not a share"), "{loss}");
        let out =
            flags(PathFlags { out: vec![setting("speed=9").unwrap()], ..PathFlags::default() });
        assert!(out.starts_with("--out: unknown field `speed`"), "{out}");
        let path = says(load(&["speed=9"]).unwrap_err());
        assert!(path.starts_with("--path speed=9: unknown field `speed`"), "{path}");
        assert!(path.ends_with("write rate=50Mbit"), "{path}");
        let delay = says(load(&["delay=10ms"]).unwrap_err());
        assert!(delay.ends_with("; for a delay of 10 ms each way write rtt=20ms"), "{delay}");
        assert!(setting("rate").unwrap_err().contains("write KEY=VALUE"));
    }
}
