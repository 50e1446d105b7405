//! From what was typed to a plan.

use std::collections::BTreeMap;
use std::path::Path;
use std::str::FromStr;

use linerate_model::{Arrivals, Body, Bytes, Framing, OpRate, Plan, Target, Until, Workload};

use crate::args::LoadArgs;
use crate::failure::Failure;
use crate::turn::turn;

/// The plan that the flags ask for.
pub fn plan_of(args: &LoadArgs) -> Result<Plan, Failure> {
    let mut plan = match &args.target {
        Some(file) if !file.contains("://") && looks_like_a_file(file) => {
            nothing_of_its_own(file, args)?;
            from_file(Path::new(file))?
        }
        _ => from_flags(args)?,
    };
    load(args, &mut plan)?;
    workload(args, &mut plan)?;
    for (knob, value) in &args.knobs {
        plan = turn(&plan, knob, value)?;
    }
    plan.check().map_err(Failure::plan)?;
    Ok(plan)
}

/// A plan's file names target and workload; flags that name others would be passed over.
fn nothing_of_its_own(file: &str, args: &LoadArgs) -> Result<(), Failure> {
    let flags = [("--beam", args.beam.is_some()), ("--command", args.command.is_some())];
    match flags.into_iter().chain(rr_flags(args)).find(|(_, given)| *given) {
        None => Ok(()),
        Some((flag, _)) => Err(Failure::plan(format!(
            "{flag} beside {file}, which names target and workload itself: leave it out, or turn a key of the plan with -k, as in -k workload.request=1KiB"
        ))),
    }
}

/// Flags that mean `rr` or `crr`, and whether they were given.
fn rr_flags(args: &LoadArgs) -> [(&'static str, bool); 4] {
    [
        ("--request", args.request.is_some()),
        ("--response", args.response.is_some()),
        ("--framing", args.framing.is_some()),
        ("--crr", args.crr),
    ]
}

fn looks_like_a_file(text: &str) -> bool {
    text.ends_with(".toml") || Path::new(text).is_file()
}

/// A plan from its file; the file's name stands in front of what is wrong with it.
pub fn from_file(path: &Path) -> Result<Plan, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::plan(format!("{}: cannot be read: {error}", path.display())))?;
    Plan::from_toml(&text).map_err(|error| Failure::plan(format!("{}: {error}", path.display())))
}

fn from_flags(args: &LoadArgs) -> Result<Plan, Failure> {
    let (target, workload) = match (&args.target, &args.beam, &args.command) {
        (Some(url), None, None) => from_url(url, args)?,
        (path, Some(server), None) => (
            Target { beam: Some(server.clone()), tls: server == "https", ..Target::default() },
            of_started(path.as_deref(), server_speaks_http(server), args)?,
        ),
        (path, None, Some(command)) => {
            let http = rr_flags(args).iter().all(|(_, given)| !given);
            (
                Target { command: words(command)?, port: args.port, ..Target::default() },
                of_started(path.as_deref(), http, args)?,
            )
        }
        (None, None, None) => {
            return Err(Failure::plan(
                "no target: write a URL (http://127.0.0.1:8080/), a plan's file, --beam SERVER or --command COMMAND",
            ));
        }
        (_, Some(_), Some(_)) => {
            return Err(Failure::plan("--beam and --command are two targets: keep one"));
        }
    };
    let mut plan = Plan::of(target);
    plan.workload = workload;
    Ok(plan)
}

fn server_speaks_http(server: &str) -> bool {
    matches!(server, "http" | "httpd" | "https")
}

/// Servers whose messages have four bytes of length in front.
fn asks_by_length4(server: &str) -> bool {
    let of_swallowers = ["rr", "funnel", "pool", "heap", "terms", "logs", "jobs", "traced"];
    of_swallowers.contains(&server) || ["journal", "relay", "shaped", "hub"].contains(&server)
}

/// The workload against something that linerate starts; the positional argument may be a path.
fn of_started(path: Option<&str>, http: bool, args: &LoadArgs) -> Result<Workload, Failure> {
    match path {
        None if http => Ok(Workload::default()),
        None => rr(args),
        Some(path) if http && path.starts_with('/') => Ok(http_on(path)),
        Some(other) => Err(Failure::plan(format!(
            "`{other}` beside a target that linerate starts: write a path (/...) or leave it out"
        ))),
    }
}

fn http_on(path: &str) -> Workload {
    match Workload::default() {
        Workload::Http { method, host, headers, body, close, .. } => {
            Workload::Http { method, path: path.to_owned(), host, headers, body, close }
        }
        other => other,
    }
}

fn from_url(url: &str, args: &LoadArgs) -> Result<(Target, Workload), Failure> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(Failure::plan(format!(
            "`{url}` is neither a URL nor a plan's file: write http://{url} or tcp://{url}"
        )));
    };
    let (authority, path) = match rest.find(['/', '?']) {
        Some(at) => (&rest[..at], &rest[at..]),
        None => (rest, "/"),
    };
    if authority.is_empty() || authority.contains('@') {
        return Err(Failure::plan(format!("`{url}` names no host: write {scheme}://HOST:PORT/")));
    }
    let path = if path.starts_with('?') { format!("/{path}") } else { path.to_owned() };
    let with_port = |default: u16| {
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| {
            !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
        });
        if has_port { authority.to_owned() } else { format!("{authority}:{default}") }
    };
    let target = |address, tls| Target { address: Some(address), tls, ..Target::default() };
    match scheme {
        "http" => Ok((target(with_port(80), false), http_on(&path))),
        "https" => Ok((target(with_port(443), true), http_on(&path))),
        "tcp" if authority.contains(':') => Ok((target(authority.to_owned(), false), rr(args)?)),
        "tcp" => Err(Failure::plan(format!("`{url}` has no port: write tcp://{authority}:PORT"))),
        other => Err(Failure::plan(format!(
            "`{other}://` is not spoken here: write http://, https:// or tcp://"
        ))),
    }
}

fn rr(args: &LoadArgs) -> Result<Workload, Failure> {
    let request: Bytes = read("--request", args.request.as_deref().unwrap_or("64"))?;
    let response = match &args.response {
        Some(text) => read("--response", text)?,
        None => request,
    };
    let framing = match (args.framing.as_deref(), args.beam.as_deref()) {
        (Some("fixed"), _) => Framing::Fixed,
        (Some("length2"), _) => Framing::Length2,
        (Some("length4"), _) => Framing::Length4,
        // What the agent's servers speak unless their knobs say otherwise.
        (None, Some("echo")) => Framing::Length2,
        (None, Some(server)) if asks_by_length4(server) => Framing::Length4,
        (None, _) => Framing::Fixed,
        (Some(other), _) => {
            return Err(Failure::plan(format!(
                "--framing: `{other}` is none: write fixed, length2 or length4"
            )));
        }
    };
    Ok(if args.crr {
        Workload::Crr { framing, request, response }
    } else {
        Workload::Rr { framing, request, response, echo: false }
    })
}

fn load(args: &LoadArgs, plan: &mut Plan) -> Result<(), Failure> {
    if let Some(connections) = args.connections {
        plan.load.connections = connections;
    }
    if let Some(rate) = &args.rate {
        plan.load.rate = Some(read::<OpRate>("--rate", rate)?);
    }
    plan.load.arrivals = match args.arrivals.as_deref() {
        None => plan.load.arrivals,
        Some("constant") => Arrivals::Constant,
        Some("poisson") => Arrivals::Poisson,
        Some(other) => {
            return Err(Failure::plan(format!(
                "--arrivals: `{other}` is none: write constant or poisson"
            )));
        }
    };
    plan.load.overload |= args.overload;
    if let Some(ramp) = &args.ramp {
        plan.load.ramp = duration("--ramp", ramp)?;
    }
    if let Some(timeout) = &args.timeout {
        plan.load.timeout = duration("--timeout", timeout)?;
    }
    if args.exchanges.is_some() {
        plan.until = Until { duration: None, exchanges: args.exchanges };
    }
    if let Some(length) = &args.duration {
        plan.until.duration = Some(duration("--duration", length)?);
    }
    if let Some(threads) = args.threads {
        plan.engine.threads = threads;
    }
    if let Some(seed) = args.seed {
        plan.engine.seed = seed;
    }
    plan.target.inside &= !args.no_inside;
    plan.path = crate::path_flags::of_load(args, plan.path.take())?;
    Ok(())
}

fn workload(args: &LoadArgs, plan: &mut Plan) -> Result<(), Failure> {
    let Workload::Http { method, headers, body, close, .. } = &mut plan.workload else {
        let flags = [
            ("-X", args.method.is_some()),
            ("-H", !args.headers.is_empty()),
            ("-b", args.body.is_some()),
            ("--body-size", args.body_size.is_some()),
            ("--close", args.close),
        ];
        return match flags.into_iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((flag, _)) => Err(Failure::plan(format!(
                "{flag} is HTTP's, and this workload is not: leave it out, or write an http:// target"
            ))),
        };
    };
    if let Some((flag, _)) = rr_flags(args).into_iter().find(|(_, given)| *given) {
        return Err(Failure::plan(format!(
            "{flag} is of rr and crr, and this workload is HTTP: leave it out, or write a tcp:// target"
        )));
    }
    for header in &args.headers {
        let Some((name, value)) = header.split_once(':') else {
            return Err(Failure::plan(format!("-H: `{header}` has no colon: write `Name: value`")));
        };
        headers.push((name.trim().to_owned(), value.trim().to_owned()));
    }
    if let Some(text) = &args.body {
        *body = Body::Text(text.clone());
    }
    if let Some(size) = &args.body_size {
        *body = Body::Size(read("--body-size", size)?);
    }
    if *body != Body::None && method == "GET" {
        "POST".clone_into(method);
    }
    if let Some(asked) = &args.method {
        asked.clone_into(method);
    }
    *close |= args.close;
    Ok(())
}

/// Reads a flag's value; its name stands in front of what is wrong.
pub fn read<T: FromStr>(flag: &str, text: &str) -> Result<T, Failure>
where
    T::Err: std::fmt::Display,
{
    text.parse().map_err(|error| Failure::plan(format!("{flag}: {error}")))
}

/// The same for durations.
pub fn duration(flag: &str, text: &str) -> Result<std::time::Duration, Failure> {
    linerate_model::parse_duration(text).map_err(|error| Failure::plan(format!("{flag}: {error}")))
}

/// A command's words, as a shell would take them apart; quotes keep words together.
fn words(command: &str) -> Result<Vec<String>, Failure> {
    let mut words = Vec::new();
    let mut word: Option<String> = None;
    let mut quote = None;
    let mut characters = command.chars();
    while let Some(character) = characters.next() {
        match (quote, character) {
            (Some(open), close) if open == close => quote = None,
            (None, '\'' | '"') => {
                quote = Some(character);
                word.get_or_insert_default();
            }
            (None | Some('"'), '\\') => {
                let next = characters.next().unwrap_or('\\');
                word.get_or_insert_default().push(next);
            }
            (None, space) if space.is_whitespace() => words.extend(word.take()),
            (_, character) => word.get_or_insert_default().push(character),
        }
    }
    if let Some(open) = quote {
        return Err(Failure::plan(format!("--command: a quote {open} is not closed")));
    }
    words.extend(word);
    if words.is_empty() {
        return Err(Failure::plan("--command: no words: write the command to start"));
    }
    Ok(words)
}

/// Values of a scan, each with its name: the combinations in order.
pub fn combinations(scans: &[(String, String)]) -> Vec<BTreeMap<String, String>> {
    let mut all = vec![BTreeMap::new()];
    for (name, values) in scans {
        all = all
            .into_iter()
            .flat_map(|so_far| {
                values.split(',').map(str::trim).filter(|value| !value.is_empty()).map(
                    move |value| {
                        let mut next = so_far.clone();
                        next.insert(name.clone(), value.to_owned());
                        next
                    },
                )
            })
            .collect();
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(target: &str) -> Result<Plan, Failure> {
        plan_of(&LoadArgs { target: Some(target.into()), ..LoadArgs::default() })
    }

    #[test]
    fn a_url_is_a_target_and_a_workload() {
        let plan = of("http://localhost/a?b=c").unwrap();
        assert_eq!(plan.target.address.as_deref(), Some("localhost:80"));
        assert!(matches!(plan.workload, Workload::Http { path, .. } if path == "/a?b=c"));
        assert!(of("https://a").unwrap().target.tls);
        assert!(matches!(of("tcp://a:1").unwrap().workload, Workload::Rr { .. }));
        assert_eq!(of("http://[::1]/").unwrap().target.address.as_deref(), Some("[::1]:80"));
    }

    #[test]
    fn what_is_no_target_is_told_what_to_write() {
        assert!(of("localhost:80").unwrap_err().sentence.contains("write http://localhost:80"));
        assert!(of("ftp://a").unwrap_err().sentence.contains("`ftp://` is not spoken here"));
        assert!(of("tcp://a").unwrap_err().sentence.contains("has no port"));
        assert!(plan_of(&LoadArgs::default()).unwrap_err().sentence.starts_with("no target"));
    }

    #[test]
    fn quotes_keep_a_commands_words_together() {
        let read = words(r#"sh -c "a 'b' c" d\ e ''"#).unwrap();
        assert_eq!(read, ["sh", "-c", "a 'b' c", "d e", ""]);
        assert!(words("'open").is_err());
    }

    #[test]
    fn scans_combine() {
        let scans = [("nodelay".into(), "on,off".into()), ("c".into(), "1,10".into())];
        assert_eq!(combinations(&scans).len(), 4);
    }
}
