//! From what was typed to a plan.

use std::collections::BTreeMap;
use std::io::Read;
use std::path::Path;
use std::str::FromStr;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use linerate_beam::TlsFiles;
use linerate_model::{
    Also, Arrivals, Body, Bytes, Endian, Ending, Expected, Flow, Framing, LengthField, MOST_SENT,
    OpRate, Order, Plan, Requests, Sent, Stage, Target, Until, Workload,
};
use linerate_run::Access;

use crate::args::LoadArgs;
use crate::failure::Failure;
use crate::overrides::overridden;

const AUTHORIZATION: &str = "Authorization";

/// Where `linerate serve` listens by itself.
const FAR_END: u16 = 5210;

/// The plan that the flags ask for.
pub fn plan_of(args: &LoadArgs) -> Result<Plan, Failure> {
    let mut plan = match &args.target {
        Some(file) if !file.contains("://") && looks_like_a_file(file) => {
            nothing_of_its_own(file, args)?;
            from_file(Path::new(file))?
        }
        _ => from_flags(args)?,
    };
    named(args, &mut plan)?;
    load(args, &mut plan)?;
    workload(args, &mut plan)?;
    for (knob, value) in &args.knobs {
        plan = overridden(&plan, knob, value)?;
    }
    plan.check().map_err(Failure::plan)?;
    Ok(plan)
}

/// `key=value`, both there.
pub fn label(text: &str) -> Result<(String, String), String> {
    match text.split_once('=') {
        Some((key, value)) if !key.trim().is_empty() && !value.trim().is_empty() => {
            Ok((key.trim().to_owned(), value.trim().to_owned()))
        }
        Some((key, _)) if !key.trim().is_empty() => Err(format!(
            "`{text}` has no value: write KEY=VALUE, as in build=1423; is a variable empty?"
        )),
        _ => Err(format!("`{text}` is no label: write KEY=VALUE, as in build=1423")),
    }
}

/// What the plan is called, and what else is said of it.
fn named(args: &LoadArgs, plan: &mut Plan) -> Result<(), Failure> {
    if let Some(name) = &args.name {
        if name.trim().is_empty() {
            return Err(Failure::plan("--name: it is empty: write one, or leave it out"));
        }
        plan.name = name.trim().to_owned();
    }
    let mut given: BTreeMap<String, String> = BTreeMap::new();
    for (key, value) in &args.labels {
        if let Some(other) = given.insert(key.clone(), value.clone()) {
            return Err(Failure::plan(format!(
                "--label {key}={other} and --label {key}={value}: a key has one value: keep one"
            )));
        }
    }
    plan.labels.extend(given);
    Ok(())
}

/// A plan's file names target and workload; flags that name others would be passed over.
fn nothing_of_its_own(file: &str, args: &LoadArgs) -> Result<(), Failure> {
    let flags = [
        ("--beam", args.beam.is_some()),
        ("--command", args.command.is_some()),
        ("--stream", args.stream.is_some()),
    ];
    match flags.into_iter().chain(tcp_flags(args)).find(|(_, given)| *given) {
        None => Ok(()),
        Some((flag, _)) => Err(Failure::plan(format!(
            "{flag} beside {file}, which names target and workload itself: leave it out, or override a key of the \
             plan with -k, as in -k workload.request=1KiB"
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

/// Those that mean `raw`.
fn raw_flags(args: &LoadArgs) -> [(&'static str, bool); 5] {
    [
        ("--send", args.send.is_some()),
        ("--send-hex", args.send_hex.is_some()),
        ("--until", args.until.is_some()),
        ("--until-bytes", args.until_bytes.is_some()),
        ("--until-length", !args.until_length.is_empty()),
    ]
}

/// Those that mean bare TCP.
fn tcp_flags(args: &LoadArgs) -> impl Iterator<Item = (&'static str, bool)> {
    let stream = ("--stream", args.stream.is_some());
    rr_flags(args).into_iter().chain(raw_flags(args)).chain([stream])
}

/// Those that only streams have.
fn of_streams(args: &LoadArgs) -> [(&'static str, bool); 3] {
    [
        ("--block", args.block.is_some()),
        ("--bytes", args.bytes.is_some()),
        ("--zerocopy", args.zerocopy),
    ]
}

fn looks_like_a_file(text: &str) -> bool {
    text.ends_with(".toml") || Path::new(text).is_file()
}

/// A plan from its file; the file's name stands in front of what is wrong with it.
pub fn from_file(path: &Path) -> Result<Plan, Failure> {
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::plan(format!("{}: cannot be read: {error}", path.display())))?;
    let mut plan = Plan::from_toml(&text)
        .map_err(|error| Failure::plan(format!("{}: {error}", path.display())))?;
    // Files that a plan names lie beside it.
    let beside = |file: &mut String| {
        if let Some(folder) = path.parent() {
            *file = folder.join(&*file).display().to_string();
        }
    };
    if let Workload::Http { body: Body::File(file), .. } = &mut plan.workload {
        beside(file);
    }
    if let Workload::Http { requests: Some(requests), .. } = &mut plan.workload {
        beside(&mut requests.file);
    }
    if let Workload::Raw { send: Sent::File(file), .. } = &mut plan.workload {
        beside(file);
    }
    if let Some(file) = &mut plan.target.ca {
        beside(file);
    }
    Ok(plan)
}

fn from_flags(args: &LoadArgs) -> Result<Plan, Failure> {
    let given = args.target.as_deref().map(weighted).transpose()?;
    let own = given.map_or(1, |(weight, _)| weight);
    let (target, mut workload) = match (given.map(|(_, rest)| rest), &args.beam, &args.command) {
        (Some(url), None, None) => from_url(url, args)?,
        (path, Some(server), None) => (
            Target { beam: Some(server.clone()), tls: server == "https", ..Target::default() },
            of_started(path, server_speaks_http(server), args)?,
        ),
        (path, None, Some(command)) => {
            let http = tcp_flags(args).all(|(_, given)| !given);
            (
                Target { command: words(command)?, port: args.port, ..Target::default() },
                of_started(path, http, args)?,
            )
        }
        // The far end is this program too.
        (None, None, None) if args.stream.is_some() => {
            let command = ["{linerate}", "serve", "--quiet", "--port", "{port}"];
            let command = command.map(str::to_owned).to_vec();
            (Target { command, ..Target::default() }, stream(args, false)?)
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
    if let Workload::Http { weight, .. } = &mut workload {
        *weight = own;
    }
    let mut plan = Plan::of(target);
    if let Workload::Stream { direction, .. } = &workload {
        // As iperf3 has it: one, and one each way.
        plan.load.connections = if *direction == Flow::Both { 2 } else { 1 };
    }
    plan.workload = workload;
    Ok(plan)
}

fn server_speaks_http(server: &str) -> bool {
    matches!(server, "http" | "httpd" | "https")
}

/// Servers whose messages have four bytes of length in front.
fn asks_by_length4(server: &str) -> bool {
    let of_swallowers = ["rr", "funnel", "pool", "heap", "terms", "logs", "jobs", "traced"];
    let of_others = ["journal", "relay", "shaped", "hub", "stream-terms", "dist-link"];
    of_swallowers.contains(&server) || of_others.contains(&server)
}

/// The workload against something that linerate starts; the positional argument may be a path.
fn of_started(path: Option<&str>, http: bool, args: &LoadArgs) -> Result<Workload, Failure> {
    match path {
        None if http => Ok(Workload::default()),
        None => tcp(args),
        Some(path) if http && path.starts_with('/') => Ok(http_on(path)),
        Some(other) => Err(Failure::plan(format!(
            "`{other}` beside a target that linerate starts: write a path (/...) or leave it out"
        ))),
    }
}

fn http_on(asked: &str) -> Workload {
    let mut workload = Workload::default();
    if let Workload::Http { path, .. } = &mut workload {
        asked.clone_into(path);
    }
    workload
}

/// What stands in front of a URL or a path, `9:`, and the rest; 1 without.
fn weighted(text: &str) -> Result<(u64, &str), Failure> {
    let in_front = text.split_once(':').filter(|(weight, rest)| {
        let digits = !weight.is_empty() && weight.bytes().all(|byte| byte.is_ascii_digit());
        digits && (rest.starts_with('/') || rest.contains("://"))
    });
    match in_front {
        None => Ok((1, text)),
        Some((weight, rest)) => match weight.parse() {
            Ok(weight @ 1..) => Ok((weight, rest)),
            _ => Err(Failure::plan(format!(
                "`{weight}:{rest}`: {weight} is no weight: write 1 or more, as in 9:{rest}"
            ))),
        },
    }
}

/// The path of a URL that is asked beside the target's own.
fn beside(text: &str, target: &Target, args: &LoadArgs) -> Result<Also, Failure> {
    let (weight, rest) = weighted(text)?;
    if rest.starts_with('/') {
        return Ok(Also { path: rest.to_owned(), weight });
    }
    match from_url(rest, args)? {
        (of, Workload::Http { path, headers, .. })
            if of.address == target.address && of.tls == target.tls && headers.is_empty() =>
        {
            Ok(Also { path, weight })
        }
        _ => Err(Failure::plan(
            "--also: another service than the target, and a run loads one: write a path of the target (/...), or a URL of the same scheme, host and port, without a user",
        )),
    }
}

fn from_url(url: &str, args: &LoadArgs) -> Result<(Target, Workload), Failure> {
    let Some((scheme, rest)) = url.split_once("://") else {
        return Err(Failure::plan(format!(
            "`{url}` is neither a URL nor a plan's file: write http://{url} or tcp://{url}"
        )));
    };
    // Source: RFC 3986, 3.1: schemes are case-insensitive; 3.5: a fragment is not sent.
    let scheme = scheme.to_ascii_lowercase();
    let rest = rest.split_once('#').map_or(rest, |(rest, _)| rest);
    let (authority, path) = match rest.find(['/', '?']) {
        Some(at) => (&rest[..at], &rest[at..]),
        None => (rest, "/"),
    };
    let (user, authority) = match authority.rsplit_once('@') {
        Some((user, authority)) => (Some(user), authority),
        None => (None, authority),
    };
    // A URL with a password in it is not repeated.
    let shown = user.map_or(url.to_owned(), |_| format!("{scheme}://...@{authority}{path}"));
    // `host:` is `host`, as curl has it.
    let authority = authority.strip_suffix(':').unwrap_or(authority);
    if authority.is_empty() || authority.starts_with(':') {
        return Err(Failure::plan(format!("`{shown}` names no host: write {scheme}://HOST:PORT/")));
    }
    let path = if path.starts_with('?') { format!("/{path}") } else { path.to_owned() };
    let with_port = |default: u16| {
        let has_port = authority.rsplit_once(':').is_some_and(|(_, port)| {
            !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit())
        });
        if has_port { authority.to_owned() } else { format!("{authority}:{default}") }
    };
    let target = |address, tls| Target { address: Some(address), tls, ..Target::default() };
    let http = || match user {
        None => Ok(http_on(&path)),
        Some(user) => as_user(http_on(&path), user)
            .ok_or_else(|| Failure::plan(format!("`{shown}`: its user is no text in %XX"))),
    };
    match scheme.as_str() {
        "http" => Ok((target(with_port(80), false), http()?)),
        "https" => Ok((target(with_port(443), true), http()?)),
        "tcp" if user.is_some() => {
            Err(Failure::plan(format!("`{shown}`: bare TCP has no users: leave it out")))
        }
        "tcp" if authority.contains(':') => Ok((target(authority.to_owned(), false), tcp(args)?)),
        "tcp" => Err(Failure::plan(format!("`{url}` has no port: write tcp://{authority}:PORT"))),
        "stream" if user.is_some() || path != "/" => Err(Failure::plan(format!(
            "`{shown}`: a far end of streams has neither users nor paths: write stream://HOST:PORT"
        ))),
        "stream" => Ok((target(with_port(FAR_END), false), stream(args, false)?)),
        other => Err(Failure::plan(format!(
            "`{other}://` is not supported: write http://, https://, tcp:// or stream://"
        ))),
    }
}

/// With what a URL says of a user, `NAME` or `NAME:PASSWORD`, as curl sends it.
/// Source: RFC 7617, 2; RFC 3986, 3.2.1.
fn as_user(mut workload: Workload, user: &str) -> Option<Workload> {
    let pair = if user.contains(':') { user.to_owned() } else { format!("{user}:") };
    let mut bytes = Vec::new();
    let mut rest = pair.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        match (byte, after) {
            (b'%', [high, low, after @ ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16);
                bytes.push((digit(high)? * 16 + digit(low)?) as u8);
                rest = after;
            }
            (b'%', _) => return None,
            (byte, after) => {
                bytes.push(*byte);
                rest = after;
            }
        }
    }
    if let Workload::Http { headers, .. } = &mut workload {
        headers.push((AUTHORIZATION.into(), format!("Basic {}", BASE64.encode(&bytes))));
    }
    Some(workload)
}

/// Bulk bytes, to or from a far end of ours, or a bare service.
fn stream(args: &LoadArgs, bare: bool) -> Result<Workload, Failure> {
    let others = rr_flags(args).into_iter().chain(raw_flags(args));
    if let Some((other, _)) = others.into_iter().find(|(_, given)| *given) {
        return Err(Failure::plan(format!(
            "{other}: a stream has no requests or answers: leave it out, or write tcp:// without --stream"
        )));
    }
    let direction = args.stream.as_deref().map_or(Ok(Flow::Up), |text| read("--stream", text))?;
    let block = read("--block", args.block.as_deref().unwrap_or("128KiB"))?;
    Ok(Workload::Stream { direction, block, zerocopy: args.zerocopy, bare })
}

/// What is said over bare TCP.
fn tcp(args: &LoadArgs) -> Result<Workload, Failure> {
    if args.stream.is_some() {
        return stream(args, true);
    }
    let Some((of_raw, _)) = raw_flags(args).into_iter().find(|(_, given)| *given) else {
        return rr(args);
    };
    if let Some((of_rr, _)) = rr_flags(args).into_iter().find(|(_, given)| *given) {
        return Err(Failure::plan(format!(
            "{of_raw} and {of_rr} are of two workloads (raw; rr and crr): keep one"
        )));
    }
    let send = match (&args.send, &args.send_hex) {
        (Some(text), _) => match text.strip_prefix('@') {
            Some(file) => Sent::File(file.to_owned()),
            None => Sent::Text(text.clone()),
        },
        (None, Some(text)) => Sent::Hex(text.clone()),
        (None, None) => {
            return Err(Failure::plan(format!(
                "{of_raw} without a request: write --send TEXT, --send @FILE or --send-hex HEX"
            )));
        }
    };
    let until = Ending {
        text: args.until.clone(),
        times: args.until_times,
        bytes: args.until_bytes.as_ref().map(|text| read("--until-bytes", text)).transpose()?,
        length: length_field(&args.until_length)?,
    };
    if until == Ending::default() {
        return Err(Failure::plan(format!(
            "{of_raw} without an end of its answer: write --until TEXT, --until-bytes or --until-length"
        )));
    }
    Ok(Workload::Raw { send, until, close: false, expected: Expected::default() })
}

/// The number in an answer that says how long it is; none: nothing is said of one.
fn length_field(keys: &[(String, String)]) -> Result<Option<LengthField>, Failure> {
    if keys.is_empty() {
        return Ok(None);
    }
    let mut field = LengthField::default();
    for (key, value) in keys {
        let flag = format!("--until-length {key}");
        match key.as_str() {
            "at" => field.at = read(&flag, value)?,
            "width" => field.width = read(&flag, value)?,
            "from" => field.from = Some(read(&flag, value)?),
            "endian" => {
                field.endian = match value.as_str() {
                    "big" => Endian::Big,
                    "little" => Endian::Little,
                    other => {
                        return Err(Failure::plan(format!(
                            "{flag}: `{other}` is not a byte order: write big or little"
                        )));
                    }
                }
            }
            other => {
                return Err(Failure::plan(format!(
                    "--until-length: `{other}` is not one of its keys: write at, width, endian or from"
                )));
            }
        }
    }
    Ok(Some(field))
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
                "--framing: `{other}` is unknown: write fixed, length2 or length4"
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
                "--arrivals: `{other}` is unknown: write constant or poisson"
            )));
        }
    };
    plan.load.overload |= args.overload;
    plan.until.check &= !args.no_check;
    if let Some(think) = &args.think {
        plan.load.think = Some(read("--think", think)?);
    }
    if let Some(ramp) = &args.ramp {
        plan.load.ramp = duration("--ramp", ramp)?;
    }
    if let Some(timeout) = &args.timeout {
        plan.load.timeout = duration("--timeout", timeout)?;
    }
    if args.exchanges.is_some() {
        plan.until = Until { duration: None, exchanges: args.exchanges, ..plan.until };
    }
    if let Some(congestion) = &args.congestion {
        plan.engine.congestion = Some(congestion.clone());
    }
    if let (Some(bytes), Workload::Stream { block, .. }) = (&args.bytes, &plan.workload) {
        let bytes: Bytes = read("--bytes", bytes)?;
        let blocks = bytes.0.div_ceil(block.0.max(1));
        plan.until = Until { duration: None, exchanges: Some(blocks), ..plan.until };
    }
    if let Some(length) = &args.duration {
        plan.until.duration = Some(duration("--duration", length)?);
    }
    stages(args, plan)?;
    if let Some(threads) = args.threads {
        plan.engine.threads = threads;
    }
    if !args.servers.is_empty() {
        plan.target.servers = args.servers.clone();
    }
    if !args.hosts.is_empty() {
        plan.engine.hosts = args.hosts.clone();
    }
    if let Some(processes) = args.processes {
        plan.engine.processes = processes;
    }
    if let Some(seed) = args.seed {
        plan.engine.seed = seed;
    }
    plan.target.inside &= !args.no_inside;
    plan.target.insecure |= args.insecure;
    if let Some(file) = &args.cacert {
        plan.target.ca = Some(file.clone());
    }
    plan.path = crate::path_flags::of_load(args, plan.path.take())?;
    Ok(())
}

/// Levels of load: the last is the plan's own, those before it its stages.
fn stages(args: &LoadArgs, plan: &mut Plan) -> Result<(), Failure> {
    if args.stages.is_empty() {
        return Ok(());
    }
    let mut all = Vec::new();
    for text in &args.stages {
        all.push(stage(text)?);
    }
    let Some(last) = all.pop() else { return Ok(()) };
    if let (Some(_), Some(asked)) = (last.connections, args.connections) {
        return Err(Failure::plan(format!(
            "-c {asked} beside --stage, whose level is connections: keep one of both, or write rates (10s:500/s)"
        )));
    }
    plan.until.duration = Some(last.length);
    plan.load.connections = last.connections.unwrap_or(plan.load.connections);
    plan.load.rate = last.rate;
    plan.load.stages = all;
    Ok(())
}

fn stage(text: &str) -> Result<Stage, Failure> {
    let wrong = |why: &str| Err(Failure::plan(format!("--stage {text}: {why}")));
    let Some((length, level)) = text.split_once(':') else {
        return wrong("it has no level: write TIME:LEVEL, as in 10s:100 or 10s:500/s");
    };
    let length = duration(&format!("--stage {text}"), length)?;
    if length.is_zero() {
        return wrong("a stage of no time: write for example 10s in front");
    }
    let nothing = level.strip_suffix("/s").unwrap_or(level).parse() == Ok(0.0);
    if nothing {
        return wrong(
            "a stage of zero sends nothing: write 1 or more; the run ends with its last stage",
        );
    }
    let stage = Stage { length, connections: None, rate: None };
    if level.ends_with("/s") {
        let rate = Some(read(&format!("--stage {text}"), level)?);
        return Ok(Stage { rate, ..stage });
    }
    match level.parse() {
        Ok(connections) => Ok(Stage { connections: Some(connections), ..stage }),
        Err(_) => {
            wrong("its level is neither a number of connections nor a rate: write 100 or 500/s")
        }
    }
}

fn workload(args: &LoadArgs, plan: &mut Plan) -> Result<(), Failure> {
    if let Workload::Raw { close, expected, .. } = &mut plan.workload {
        *close |= args.close;
        expects(&args.expect_body, expected)?;
    }
    let is_raw = matches!(plan.workload, Workload::Raw { .. });
    if let (false, Some((flag, _))) =
        (plan.is_stream(), of_streams(args).into_iter().find(|(_, given)| *given))
    {
        return Err(Failure::plan(format!(
            "{flag} is for streams, and this workload is not one: write stream://HOST:PORT, or --stream"
        )));
    }
    let Workload::Http { method, headers, body, close, also, requests, expected, .. } =
        &mut plan.workload
    else {
        let flags = [
            ("-X", args.method.is_some()),
            ("-H", !args.headers.is_empty()),
            ("-b", args.body.is_some()),
            ("--body-raw", args.body_raw.is_some()),
            ("--body-size", args.body_size.is_some()),
            ("--close", args.close && !is_raw),
            ("--also", !args.also.is_empty()),
            ("--requests", args.requests.is_some()),
            ("--expect-status", args.expect_status.is_some()),
            ("--expect-body", args.expect_body.is_some() && !is_raw),
        ];
        return match flags.into_iter().find(|(_, given)| *given) {
            None => Ok(()),
            Some((flag, _)) => Err(Failure::plan(format!(
                "{flag} is HTTP's, and this workload is not: leave it out, or write an http:// target"
            ))),
        };
    };
    if let Some((flag, _)) = tcp_flags(args).find(|(_, given)| *given) {
        return Err(Failure::plan(format!(
            "{flag} is of bare TCP, and this workload is HTTP: leave it out, or write a tcp:// target"
        )));
    }
    for header in &args.headers {
        let Some((name, value)) = header.split_once(':') else {
            return Err(Failure::plan(format!("-H: `{header}` has no colon: write `Name: value`")));
        };
        // As curl has it: what is said of it by name stands, and not the URL's user.
        if name.trim().eq_ignore_ascii_case(AUTHORIZATION) {
            headers.retain(|(name, value)| name != AUTHORIZATION || !value.starts_with("Basic "));
        }
        headers.push((name.trim().to_owned(), value.trim().to_owned()));
    }
    if let Some(text) = &args.body {
        *body = body_of(text)?;
    }
    if let Some(text) = &args.body_raw {
        *body = as_it_is(text);
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
    for text in &args.also {
        also.push(beside(text, &plan.target, args)?);
    }
    if let Some(file) = &args.requests {
        let order = order_of(args.order.as_deref())?;
        *requests = Some(Requests { file: file.clone(), order, contents: None });
    }
    if let Some(status) = &args.expect_status {
        expected.status = Some(read("--expect-status", status)?);
    }
    expects(&args.expect_body, expected)
}

/// A text that a right answer has in it.
fn expects(asked: &Option<String>, expected: &mut Expected) -> Result<(), Failure> {
    if let Some(text) = asked {
        if text.is_empty() {
            return Err(Failure::plan("--expect-body: it is empty, which every body has in it"));
        }
        expected.body = Some(text.clone());
    }
    Ok(())
}

fn order_of(written: Option<&str>) -> Result<Order, Failure> {
    match written {
        None | Some("turn") => Ok(Order::Turn),
        Some("shuffled") => Ok(Order::Shuffled),
        Some("weighted") => Ok(Order::Weighted),
        Some(other) => Err(Failure::plan(format!(
            "--order: `{other}` is unknown: write turn, shuffled or weighted"
        ))),
    }
}

/// A body in which braces mean nothing.
fn as_it_is(text: &str) -> Body {
    Body::Text(text.replace("{{", "{{{{"))
}

/// What `-b` means, as curl's `--data-binary` does: `@FILE` is what the file holds.
fn body_of(text: &str) -> Result<Body, Failure> {
    match text.strip_prefix('@') {
        None => Ok(Body::Text(text.to_owned())),
        Some("") => {
            Err(Failure::plan("-b @: names no file: write @FILE, or --body-raw @ for the letter"))
        }
        Some("-") => {
            let mut text = String::new();
            let most = Read::take(std::io::stdin(), MOST_SENT + 1).read_to_string(&mut text);
            match most {
                Ok(bytes) if bytes as u64 <= MOST_SENT => Ok(as_it_is(&text)),
                Ok(_) => Err(Failure::plan("-b @-: longer than the 1GiB that a request may have")),
                Err(error) => Err(Failure::plan(format!(
                    "-b @-: {error}: write what is not text to a file, and -b @FILE"
                ))),
            }
        }
        Some(file) => {
            // Found out now rather than when the target has been started.
            let tried = std::fs::File::open(file).and_then(|file| file.metadata());
            match tried {
                Ok(of) if of.is_dir() => Err(Failure::plan(format!("-b @{file}: is a folder"))),
                Ok(_) => Ok(Body::File(file.to_owned())),
                Err(error) => Err(Failure::plan(format!(
                    "-b @{file}: cannot be read: {error}; --body-raw sends the text as it is"
                ))),
            }
        }
    }
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

/// What reaching the engine's hosts needs, beside their names.
pub fn access_of(args: &LoadArgs) -> Result<Access, Failure> {
    let ssh = args.host_ssh.as_deref().map(words).transpose()?;
    Ok(Access {
        cookie_file: args.cookie_file.clone(),
        tls: args.host_tls.then(|| TlsFiles {
            ca: args.host_ca.clone(),
            cert: args.host_cert.clone(),
            key: args.host_key.clone(),
        }),
        ssh: ssh.unwrap_or_default(),
    })
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
    fn a_url_is_read_as_curl_reads_it() {
        let headers = |url: &str| match of(url).unwrap().workload {
            Workload::Http { headers, path, .. } => (headers, path),
            _ => panic!("http"),
        };
        assert_eq!(of("HTTP://a/").unwrap().target.address.as_deref(), Some("a:80"));
        assert_eq!(of("http://a:/").unwrap().target.address.as_deref(), Some("a:80"));
        assert_eq!(headers("http://a/b#c").1, "/b");
        // printf 'user:p@ss' | base64
        let basic = vec![("Authorization".to_owned(), "Basic dXNlcjpwQHNz".to_owned())];
        let plan = of("http://user:p%40ss@a:8080/x").unwrap();
        assert_eq!(plan.target.address.as_deref(), Some("a:8080"));
        assert_eq!(headers("http://user:p%40ss@a:8080/x"), (basic.clone(), "/x".to_owned()));
        // An @ in the password is the last but one's.
        assert_eq!(headers("http://user:p@ss@a/").0, basic);
        assert_eq!(headers("http://user@a/").0[0].1, "Basic dXNlcjo=");
        for bad in ["http://user:secret@/", "http://user:secret%zz@a/", "ftp://user:secret@a/"] {
            assert!(!of(bad).unwrap_err().sentence.contains("secret"), "{bad}");
        }
        assert!(of("http://:80/").unwrap_err().sentence.contains("names no host"));
        let mut args = LoadArgs { target: Some("http://u:p@a/".into()), ..LoadArgs::default() };
        args.headers = vec!["authorization: Bearer t".into()];
        let plan = plan_of(&args).unwrap();
        let Workload::Http { headers, .. } = plan.workload else { panic!("http") };
        assert_eq!(headers, [("authorization".to_owned(), "Bearer t".to_owned())]);
    }

    #[test]
    fn other_paths_of_the_target_are_asked_by_their_weights() {
        let asked = |target: &str, also: &[&str]| {
            let also = also.iter().map(|text| (*text).to_owned()).collect();
            plan_of(&LoadArgs { target: Some(target.into()), also, ..LoadArgs::default() })
        };
        let plan = asked("9:http://a:1/x", &["/y?z", "2:http://a:1/{{counter}}"]).unwrap();
        let Workload::Http { path, also, weight, .. } = plan.workload else { panic!("http") };
        assert_eq!((path.as_str(), weight), ("/x", 9));
        let all: Vec<_> = also.iter().map(|one| (one.path.as_str(), one.weight)).collect();
        assert_eq!(all, [("/y?z", 1), ("/{{counter}}", 2)]);
        for (target, also, says) in [
            ("http://a/", "http://b/", "another service than the target"),
            ("http://a/", "https://a:80/", "another service"),
            ("http://a/", "http://u@a/", "without a user"),
            ("http://a/", "0:/b", "`0:/b`: 0 is no weight: write 1 or more, as in 9:/b"),
            ("http://a/", "/b c", "workload.also: "),
            ("tcp://a:1", "/b", "--also is HTTP's"),
        ] {
            let error = asked(target, &[also]).unwrap_err();
            assert!(error.sentence.contains(says), "{error}");
        }
        assert!(asked("9:http://a/", &[]).unwrap_err().sentence.contains("counts beside other"));
    }

    #[test]
    fn a_body_is_a_file_where_curl_would_take_it_for_one() {
        let body = |text: &str, raw: bool| {
            let mut args = LoadArgs { target: Some("http://a/".into()), ..LoadArgs::default() };
            *(if raw { &mut args.body_raw } else { &mut args.body }) = Some(text.to_owned());
            plan_of(&args).map(|plan| match plan.workload {
                Workload::Http { body, method, .. } => (body, method),
                _ => panic!("http"),
            })
        };
        let post = "POST".to_owned();
        let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
        assert_eq!(body(&format!("@{file}"), false), Ok((Body::File(file.into()), post.clone())));
        assert_eq!(body("@body", true), Ok((Body::Text("@body".into()), post.clone())));
        assert_eq!(body("{{uuid}}", false), Ok((Body::Text("{{uuid}}".into()), post.clone())));
        assert_eq!(body("{{uuid}}", true), Ok((Body::Text("{{{{uuid}}".into()), post)));
        assert!(body("@none.json", false).unwrap_err().sentence.contains("@none.json: cannot be"));
        assert!(body("@", false).unwrap_err().sentence.contains("names no file"));
        assert!(body("@/", false).unwrap_err().sentence.contains("is a folder"));
    }

    #[test]
    fn what_is_no_target_is_told_what_to_write() {
        assert!(of("localhost:80").unwrap_err().sentence.contains("write http://localhost:80"));
        assert!(of("ftp://a").unwrap_err().sentence.contains("`ftp://` is not supported"));
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
    fn a_label_has_a_key_and_a_value_and_a_key_has_one() {
        assert_eq!(label("build=a=b"), Ok(("build".into(), "a=b".into())));
        assert!(label("build").unwrap_err().contains("is no label: write KEY=VALUE"));
        assert!(label("build=").unwrap_err().contains("is a variable empty?"));
        let pair = |value: &str| ("build".to_owned(), value.to_owned());
        let mut args = LoadArgs { target: Some("http://a/".into()), ..LoadArgs::default() };
        args.labels = vec![pair("1")];
        assert_eq!(plan_of(&args).unwrap().labels["build"], "1");
        args.labels.push(pair("2"));
        assert!(plan_of(&args).unwrap_err().sentence.contains("a key has one value"));
        args = LoadArgs { name: Some(" ".into()), ..args };
        assert!(plan_of(&args).unwrap_err().sentence.starts_with("--name: it is empty"));
    }

    #[test]
    fn scans_combine() {
        let scans = [("nodelay".into(), "on,off".into()), ("c".into(), "1,10".into())];
        assert_eq!(combinations(&scans).len(), 4);
    }
}
