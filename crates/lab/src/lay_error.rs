//! Why a lab could not be laid: what was found, what is wrong, what to write or do.

use std::time::Duration;

/// See the module.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum LayError {
    /// Not `host:port`.
    #[error("`{0}` is not an address: write host:port, as in `127.0.0.1:8080` or `[::1]:8080`")]
    NotAnAddress(String),
    /// A name that nobody knows.
    #[error(
        "`{host}` has no address: {reason}; write the name as DNS or /etc/hosts has it, or an IP address"
    )]
    Unresolvable {
        /// As written.
        host: String,
        /// What the resolver said.
        reason: String,
    },
    /// The host is there and the port is not.
    #[error(
        "nothing listens at {address}: the connection was refused; start the server there or correct target.address"
    )]
    Refused {
        /// The last one tried.
        address: String,
    },
    /// No answer, or another fault on the way.
    #[error("{address} can't be reached: {reason}; check host, port, and any firewall between")]
    Unreachable {
        /// The last one tried.
        address: String,
        /// What the kernel said.
        reason: String,
    },
    /// The first word of a command is no program.
    #[error("`{program}` can't be started: {reason}; {advice}")]
    NotAProgram {
        /// The command's first word.
        program: String,
        /// What is wrong with it.
        reason: String,
        /// What to do.
        advice: &'static str,
    },
    /// It ended before it listened.
    #[error("`{name}` ended with {status} before it listened on port {port}{last_words}")]
    DiedFirst {
        /// Its command line.
        name: String,
        /// `exit status 1`, `signal 9`.
        status: String,
        /// Where it was waited for.
        port: u16,
        /// What it wrote last.
        last_words: String,
    },
    /// It runs and does not listen where it should.
    #[error("`{name}` does not listen on port {port} after {waited:?}: {found}{last_words}")]
    NeverListened {
        /// Its command line.
        name: String,
        /// Where it was waited for.
        port: u16,
        /// How long.
        waited: Duration,
        /// Where it listens instead, and what to write.
        found: String,
        /// What it wrote last.
        last_words: String,
    },
    /// Somebody else has the port.
    #[error(
        "port {port} is in use by {holder}: stop that, or leave target.port out and write `{{port}}` in the command"
    )]
    PortInUse {
        /// The port.
        port: u16,
        /// Who has it.
        holder: String,
    },
    /// A command that does not say where it listens.
    #[error(
        "the command has neither `{{port}}` in its words nor target.port: write one, so that linerate knows where it listens"
    )]
    NoPort,
    /// A CPU that is not there.
    #[error(
        "target.cpus {asked:?} are not available: write some of {there}, which linerate may use"
    )]
    NoSuchCpus {
        /// As written.
        asked: Vec<u16>,
        /// What there is.
        there: String,
    },
    /// No Erlang.
    #[error("`erl` is not in PATH: run `make setup` or install erlang-nox")]
    NoErlang,
    /// No agent.
    #[error(
        "the agent is not built: no linerate_control.beam in {looked}; run `make agent`, or set LINERATE_AGENT to the folder of its .beam files"
    )]
    AgentNotBuilt {
        /// Where it was looked for.
        looked: String,
    },
    /// The agent inside this program was not compiled.
    #[error(
        "the agent can't be compiled here: {reason}; set XDG_CACHE_HOME to a folder of your own, or LINERATE_AGENT to the folder of its .beam files"
    )]
    AgentNotCompiled {
        /// What was tried, and why it failed.
        reason: String,
    },
    /// The node did not come up.
    #[error("the BEAM node {trouble}{last_words}")]
    Node {
        /// What happened, and what to do where that is known.
        trouble: String,
        /// What it wrote last.
        last_words: String,
    },
    /// A server that the agent does not have.
    #[error("`{server}` is not one of the agent's servers: write target.beam as one of {servers}")]
    UnknownServer {
        /// As written.
        server: String,
        /// Those there are.
        servers: String,
    },
    /// A knob that the target does not have.
    #[error("`{knob}` is not a knob of {target}: {there}")]
    UnknownKnob {
        /// As written.
        knob: String,
        /// Of what.
        target: String,
        /// What there is, and what to write.
        there: String,
    },
    /// A value that the knob does not take.
    #[error("`{value}` is not a value of {target}'s {knob}: write {permitted}")]
    BadKnob {
        /// The knob.
        knob: String,
        /// As written.
        value: String,
        /// Of what.
        target: String,
        /// What it takes.
        permitted: String,
    },
    /// The node would not start a server.
    #[error("{server} could not be started: {reason}")]
    Unstarted {
        /// The server.
        server: String,
        /// What the node said.
        reason: String,
    },
    /// A path to another host.
    #[error(
        "a path needs a target on this host, and {0} is not: run linerate there, or leave the path (--rtt, --path, \
         [path]) out"
    )]
    PathToAddress(String),
    /// Namespaces and devices need privileges.
    #[error(
        "a path needs network namespaces, and this process has no {0}: run as root, or leave [path] out"
    )]
    NotPrivileged(&'static str),
    /// A user who may have no namespaces at all.
    #[error(
        "a path needs network namespaces, and this process has no {missing} and may make no user namespace: {reason}; run as root, or {advice}, or leave [path] out"
    )]
    NoUserNamespace {
        /// The capability.
        missing: &'static str,
        /// Why there is no user namespace.
        reason: String,
        /// What to do about that.
        advice: String,
    },
    /// One of several hosts.
    #[error("on host {host}: {error}")]
    OnHost {
        /// Its name.
        host: String,
        /// What happened there.
        error: Box<LayError>,
    },
    /// No TUN driver.
    #[error("a path needs TUN devices, and /dev/net/tun can't be opened: {0}, or leave [path] out")]
    NoTun(String),
    /// A trace that can't be read.
    #[error("the path's trace {path}: {reason}")]
    BadTrace {
        /// The file.
        path: String,
        /// What is wrong, and what to write.
        reason: String,
    },
    /// No backend can lay what is asked.
    #[error("the path can't be laid: {0}")]
    NoBackend(String),
    /// No addresses for a place behind a path.
    #[error("no addresses for a path: {0}")]
    NoAddress(String),
    /// A port that can't be shown behind a path.
    #[error(
        "port {port} can't be forwarded: {reason}; what listens on 0.0.0.0 is reachable without --forward"
    )]
    NoForward {
        /// The port.
        port: u16,
        /// What the kernel said.
        reason: String,
    },
    /// iproute2 refused.
    #[error("`{command}` failed: {reason}")]
    Command {
        /// As printed by `verbose`.
        command: String,
        /// What it wrote.
        reason: String,
    },
    /// No control group could be made or entered.
    #[error(
        "target.cpu_quota: {reason}; it needs root and a control group of the cpu controller that may have children"
    )]
    NoQuota {
        /// What the kernel refused.
        reason: String,
    },
    /// A path that does not deliver what was asked.
    #[error(
        "the path was asked for a round trip of {asked:?} and delivers {delivered:?}: more than {tolerance:?} off; the machine is too busy or too coarse for it: free a CPU, ask for more, or allow as much (path.tolerance)"
    )]
    PathOff {
        /// By the plan.
        asked: Duration,
        /// Median.
        delivered: Duration,
        /// What would have passed.
        tolerance: Duration,
    },
    /// A path whose rate or queue is another than asked.
    #[error(
        "the path was asked for a {what} of {asked} and delivers {delivered}: more than {tolerance} off; the machine is too busy for it: free a CPU, or ask for less"
    )]
    PathNot {
        /// Of which way.
        what: String,
        /// By the plan.
        asked: String,
        /// As measured.
        delivered: String,
        /// What would have passed.
        tolerance: String,
    },
    /// A path that loses what is sent over it.
    #[error(
        "the path delivered no packet within {0:?}: free a CPU, or report this with the output of -v"
    )]
    PathDead(Duration),
    /// The kernel refused something that should work.
    #[error("{doing}: {reason}")]
    System {
        /// What was being done.
        doing: String,
        /// What the kernel said.
        reason: String,
    },
    /// The caller wished to stop.
    #[error("interrupted while the lab was being laid")]
    Interrupted,
}

impl LayError {
    /// With what to do about it.
    pub(crate) fn no_tun(error: std::io::Error) -> Self {
        LayError::NoTun(match error.kind() {
            std::io::ErrorKind::NotFound => {
                "it is not there; load the tun module (`modprobe tun`)".into()
            }
            std::io::ErrorKind::PermissionDenied => {
                "permission denied; let every user open it as most systems do (`chmod 0666 /dev/net/tun`), run as root"
                    .into()
            }
            _ => format!("{error}; load the tun module (`modprobe tun`)"),
        })
    }

    /// Says on which of several hosts it happened, unless it is the same on all of them.
    pub(crate) fn on(self, host: &str) -> Self {
        match self {
            LayError::DiedFirst { .. }
            | LayError::NeverListened { .. }
            | LayError::PortInUse { .. }
            | LayError::Node { .. }
            | LayError::Unstarted { .. }
            | LayError::Command { .. }
            | LayError::System { .. } => {
                LayError::OnHost { host: host.to_owned(), error: Box::new(self) }
            }
            other => other,
        }
    }

    /// A fault of the kernel's that nobody expects.
    pub(crate) fn system(doing: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let doing = doing.into();
        move |error| LayError::System { doing, reason: error.to_string() }
    }
}
