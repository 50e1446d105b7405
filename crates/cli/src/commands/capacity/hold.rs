//! `capacity --hold`: users connect until the first limit.

use std::io::IsTerminal;
use std::time::Duration;

use linerate_beam::{Cookie, Node, Where};
use linerate_capacity::Forecast;
use linerate_model::{Bytes, Plan, Timestamp};
use linerate_ramp::{Asked, Mix, Outcome, Ramp, Stage};
use linerate_report::HeldHost;
use linerate_run::{Observer, Runner, Speaks, UsersTls};
use linerate_session::{Kind, Mechanism, PROTOCOLS, Pattern, Settings, Tls, kind};

use crate::args::CapacityArgs;
use crate::failure::Failure;
use crate::output::say;
use crate::plan_of::{access_of, duration};
use crate::privileges;
use crate::signals::Signals;

/// The most users of one climb: their numbers fit beside an instant in a message.
const MOST: u32 = (1 << 24) - 1;

/// The agent's server that users log in to, and what they speak there.
const CHAT: (&str, &str) = ("chat", "line");

/// The protocol in which TLS can be begun.
const STARTS_TLS: &str = "xmpp";

/// A target, as the plan's flags want it, and the protocol that its address or flag names.
pub fn target_of(args: &CapacityArgs) -> Result<(Option<String>, Option<&'static Kind>), Failure> {
    let Some(target) = &args.load.target else {
        return Ok((None, named(args)?));
    };
    let scheme = target.split_once("://").and_then(|(scheme, rest)| Some((kind(scheme)?, rest)));
    let Some((kind, rest)) = scheme else { return Ok((Some(target.clone()), named(args)?)) };
    if let Some(other) = named(args)?
        && other.name != kind.name
    {
        return Err(Failure::plan(format!(
            "--protocol {} beside {target}: keep one of both",
            other.name
        )));
    }
    let host = rest.trim_end_matches('/');
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let address = if has_port { host.to_owned() } else { format!("{host}:{}", kind.port) };
    Ok((Some(format!("tcp://{address}")), Some(kind)))
}

fn named(args: &CapacityArgs) -> Result<Option<&'static Kind>, Failure> {
    let chat = args.load.beam.as_deref().filter(|server| *server == CHAT.0).map(|_| CHAT.1);
    let Some(name) = args.protocol.as_deref().or(chat) else { return Ok(None) };
    let known = || PROTOCOLS.iter().map(|kind| kind.name).collect::<Vec<_>>().join(", ");
    let wrong =
        || Failure::plan(format!("--protocol: `{name}` is not supported: write {}", known()));
    kind(name).map(Some).ok_or_else(wrong)
}

/// What is asked of the climb.
fn asked(args: &CapacityArgs, plan: &Plan, speaks: bool) -> Result<Asked, Failure> {
    let users = plan.load.connections;
    if users == 0 || users > MOST {
        return Err(Failure::plan(format!("-c {users}: write 1 to {MOST} users")));
    }
    let mix: Mix = match &args.mix {
        Some(text) => text.parse::<Mix>().map_err(|bad| Failure::plan(format!("--mix: {bad}")))?,
        None if speaks => Mix::default(),
        None => Mix::idle(),
    };
    if !speaks && mix.classes().iter().any(|class| class.think.is_some()) {
        let schemes: Vec<_> = PROTOCOLS.iter().map(|kind| format!("{}://", kind.name)).collect();
        return Err(Failure::plan(format!(
            "--mix {mix}: connections to a target of unknown protocol send nothing: write {} or --protocol, or --mix \
             idle=100",
            schemes.join(", ")
        )));
    }
    let by_default = Asked::of(users);
    let time = |flag: &str, text: &Option<String>, otherwise: Duration| {
        text.as_ref().map_or(Ok(otherwise), |text| duration(flag, text))
    };
    if args.levels == Some(0) {
        return Err(Failure::plan("--levels 0: write 1 or more"));
    }
    let rate = args.arrival_rate.as_ref().map(|text| {
        let rate = text.parse::<linerate_model::OpRate>();
        let rate = rate.map_err(|bad| Failure::plan(format!("--arrival-rate: {bad}")))?;
        if rate.0 > 0.0 {
            Ok(rate.0)
        } else {
            Err(Failure::plan("--arrival-rate: write more than 0"))
        }
    });
    Ok(Asked {
        mix,
        levels: args.levels.unwrap_or(by_default.levels),
        rate: rate.transpose()?,
        settle: time("--settle", &args.settle, by_default.settle)?,
        hold: time("--hold", &args.hold, by_default.hold)?,
        gate: time("--gate", &args.gate, by_default.gate)?,
        timeout: plan.load.timeout,
        seed: plan.engine.seed,
        ..by_default
    })
}

fn speaks(
    args: &CapacityArgs,
    kind: Option<&'static Kind>,
    plan: &Plan,
) -> Result<Option<Speaks>, Failure> {
    let starts = |kind: &Kind| kind.name == STARTS_TLS;
    if args.starttls && !kind.is_some_and(starts) {
        return Err(Failure::plan(format!(
            "--starttls: TLS is begun inside of {STARTS_TLS}: write {STARTS_TLS}:// or --protocol {STARTS_TLS}"
        )));
    }
    let Some(kind) = kind else { return Ok(None) };
    let pattern = |flag: &str, text: &Option<String>, otherwise: Pattern| match text {
        None => Ok(otherwise),
        Some(text) => {
            text.parse::<Pattern>().map_err(|bad| Failure::plan(format!("{flag}: {bad}")))
        }
    };
    let by_default = Settings::default();
    let settings = Settings {
        users: pattern("--users", &args.users, by_default.users)?,
        passwords: pattern("--passwords", &args.passwords, by_default.passwords)?,
        domain: args.domain.clone().unwrap_or(by_default.domain),
        mechanism: args.mechanism.as_deref().map(mechanism).transpose()?,
        tls: if args.starttls { Tls::Required } else { Tls::Never },
        seed: plan.engine.seed,
        ..by_default
    };
    let tls = args.starttls.then(|| UsersTls {
        name: settings.domain.clone(),
        file: args.load.cacert.clone().map(Into::into),
        anybody: args.load.cacert.is_none() && args.load.insecure,
    });
    let speaks = Speaks { protocol: kind.name.to_owned(), settings, tls };
    let made = speaks.protocol();
    made.map_err(|bad| Failure::plan(format!("--users or --passwords: {bad}")))?;
    Ok(Some(speaks))
}

fn mechanism(name: &str) -> Result<Mechanism, Failure> {
    const ALL: [(&str, Mechanism); 3] = [
        ("plain", Mechanism::Plain),
        ("scram-sha-1", Mechanism::ScramSha1),
        ("scram-sha-256", Mechanism::ScramSha256),
    ];
    let found = ALL.iter().find(|(known, _)| name.eq_ignore_ascii_case(known));
    found.map(|(_, mechanism)| *mechanism).ok_or_else(|| {
        let known = ALL.map(|(known, _)| known).join(", ");
        Failure::plan(format!("--mechanism: `{name}` is not supported: write {known}"))
    })
}

/// The node that the address is in, reached.
fn node(args: &CapacityArgs) -> Result<Option<Node>, Failure> {
    let Some(name) = &args.node else { return Ok(None) };
    let place: Where = name.parse().map_err(Failure::plan)?;
    let place = Where { port: args.node_port, ..place };
    let cookie = Cookie::find(args.load.cookie_file.as_deref()).map_err(Failure::run)?;
    Node::connect(&place, &cookie).map(Some).map_err(Failure::run)
}

/// What came of it.
pub struct Held {
    /// Its protocol; none: bare connections.
    pub protocol: Option<&'static str>,
    /// See [`Outcome`].
    pub outcome: Outcome,
    /// The first limit that the forecast named.
    pub forecast: Option<(&'static str, u64)>,
    /// Whether both ends of each connection were on this host.
    pub local: bool,
    /// Engine processes of other hosts.
    pub hosts: Vec<HeldHost>,
    /// Memory that users are to fit in.
    pub fit: Bytes,
    /// How it went, twice a second.
    pub course: Vec<Told>,
    /// A signal's exit code.
    pub code: u8,
}

/// Lays the target, climbs, takes it away. `label` stands before each line that is said.
pub fn hold(
    args: &CapacityArgs,
    plan: &Plan,
    kind: Option<&'static Kind>,
    forecast: &Forecast,
    signals: &Signals,
    label: &str,
) -> Result<Held, Failure> {
    let asked = asked(args, plan, kind.is_some())?;
    let speaks = speaks(args, kind, plan)?;
    // What is wrong with it is said before anything is laid.
    speaks.as_ref().map(Speaks::tls).transpose()?;
    let fit: Bytes = match &args.fit {
        Some(text) => {
            text.parse::<Bytes>().map_err(|bad| Failure::plan(format!("--fit: {bad}")))?
        }
        // Source: the study's host, published/capacity (2007).
        None => Bytes(512 << 20),
    };
    privileges::for_plans([plan], false)?;
    let node = node(args)?;
    let quiet = args.json && !std::io::stderr().is_terminal();
    let observer =
        Climb { quiet, label: label.to_owned(), told: None, course: Vec::new(), hosts: Vec::new() };
    let (cancel, secrets) = (signals.flag(), false);
    let access = access_of(&args.load)?;
    let mut runner = Runner { observer, cancel, verbose: false, show_secrets: secrets, access };
    let mut deployment = runner.lay(plan)?;
    let made = runner.hold(&mut deployment, plan, asked, speaks.as_ref(), node);
    runner.remove(deployment);
    let outcome = made?;
    Ok(Held {
        protocol: kind.map(|kind| kind.name),
        // Ends on other hosts are in their kernels.
        local: plan.engine.hosts.is_empty()
            && outcome.points.iter().any(|point| point.reading.memory.contains_key("kernel.slab")),
        hosts: runner.observer.hosts,
        outcome,
        forecast: forecast.short().next().map(|need| (need.id, need.holds.unwrap_or(0))),
        fit,
        course: runner.observer.course,
        code: signals.exit_code().unwrap_or(0),
    })
}

/// How far it was at a moment.
pub struct Told {
    /// When.
    pub at: Timestamp,
    /// Users online.
    pub online: u64,
    /// Users that had failed.
    pub failed: u64,
    /// What was done.
    pub stage: Stage,
}

// Chosen: a climb of minutes has some hundred points.
const EVERY: Duration = Duration::from_millis(500);

/// Says a line a stage, and keeps the course.
struct Climb {
    quiet: bool,
    label: String,
    told: Option<Stage>,
    course: Vec<Told>,
    hosts: Vec<HeldHost>,
}

impl Observer for Climb {
    fn warn(&mut self, sentence: &str) {
        say(&format!("warning: {sentence}\n"));
    }

    fn on_clock(&mut self, host: &str, offset: i64, interval: u64) {
        let (offset, interval) = (offset as f64 / 1e3, interval as f64 / 1e3);
        let host = host.to_owned();
        self.hosts.push(HeldHost { host, clock_offset_us: offset, clock_interval_us: interval });
    }

    fn on_users(&mut self, ramp: &Ramp, at: Timestamp) {
        let (stage, account) = (ramp.stage(), ramp.account());
        let is_due = |last: &Told| at.since(last.at) >= EVERY || stage != last.stage;
        if self.course.last().is_none_or(is_due) {
            let (online, failed) = (account.online, account.all_failed());
            self.course.push(Told { at, online, failed, stage });
        }
        if self.quiet || self.told == Some(stage) {
            return;
        }
        self.told = Some(stage);
        let doing = match stage {
            Stage::Starting | Stage::Over => return,
            Stage::Adding(level) => format!("level {}: users come", level + 1),
            Stage::Settling(level) => format!("level {}: held", level + 1),
            Stage::Stopped => "a limit was reached: no users are added".to_owned(),
            Stage::SteppingBack => "back to the last clean level".to_owned(),
            Stage::SettlingBack | Stage::Holding => "the highest clean level is held".to_owned(),
        };
        let label = &self.label;
        say(&format!(
            "{label}{doing} ({} online, {} failed)\n",
            account.online,
            account.all_failed()
        ));
    }
}
