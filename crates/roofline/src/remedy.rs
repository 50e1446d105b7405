//! A remedy: what to change, and how, for the operator of the target. Only a knob that the target has is named.

use crate::prelude::*;

pub trait Text: Into<String> {}

impl<T: Into<String>> Text for T {}

#[derive(Clone, Debug, PartialEq)]
pub struct Remedy {
    /// A key of the plan (`load.connections`), or its equivalent elsewhere: `socket.nodelay`, `net.core.somaxconn`.
    pub key: String,
    pub value: String,
    /// How many are served at once then, of a key that sets it.
    pub at_once: Option<f64>,
    /// In a sentence that goes on from "it".
    pub does: String,
    pub by_hand: String,
    /// Of a server of ours, and its value.
    pub knob: Option<(&'static str, String)>,
    /// Time saved an exchange besides the claimed delay. Unit: seconds.
    pub spares: f64,
    /// Whose work it may spare besides. None: as the claim says.
    pub least: Option<Least>,
}

/// A knob and the value it should have, as reports and `climb` read it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// A knob of the target, or a dotted key of the plan (`load.connections`).
    pub knob: String,
    /// The value to set it to.
    pub value: String,
    /// What that does, in a sentence.
    pub does: String,
    /// How a person does it where no machine can: a line to paste.
    pub by_hand: String,
    /// Throughput to expect.
    #[serde(rename = "predicted_per_s")]
    pub predicted: Predicted,
    /// Whether only its high end is known: throughput to expect at most.
    #[serde(rename = "bound", default)]
    pub is_bound: bool,
}

/// An option of a socket, as it should be.
pub struct SocketOption {
    /// Its name and value, its value as a knob of a server of ours, and as a key of a plan for our engine.
    names: (&'static str, &'static str, Option<&'static str>, Option<&'static str>),
    /// By hand: for an Erlang programmer, and for others.
    erlang: &'static str,
    other: &'static str,
}

impl Remedy {
    /// A key of the plan, and the same by hand in a client or on a command line.
    pub fn plan((key, value): (impl Text, impl Text), does: impl Text, by_hand: impl Text) -> Self {
        let (key, value, does, by_hand) = (key.into(), value.into(), does.into(), by_hand.into());
        Self { key, value, does, by_hand, at_once: None, knob: None, spares: 0.0, least: None }
    }

    pub fn serving(self, at_once: f64) -> Self {
        Self { at_once: Some(at_once), ..self }
    }

    pub fn human(does: impl Text, by_hand: impl Text) -> Self {
        Self::plan(("by-hand", "change"), does, by_hand)
    }

    /// The same where a server of ours has a knob for it.
    pub fn by_knob(knob: (&'static str, impl Text), does: impl Text, by_hand: impl Text) -> Self {
        Self::human(does, by_hand).with_knob(knob.0, knob.1)
    }

    /// A socket option that only Erlang has; servers of ours have it as a knob.
    pub fn erlang((name, value): (&'static str, &str), does: impl Text, how: &str) -> Self {
        Self::plan((format!("socket.{name}"), value), does, how).with_knob(name, value)
    }

    /// A flag of the BEAM; a key of the plan where linerate starts the target.
    pub fn vm(flag: String, does: impl Text) -> Self {
        Self::plan(("target.vm_flags", &flag), does, format!("start the node with {flag}"))
    }

    /// A socket option of one end; a key of the plan for our own engine.
    pub fn socket(facts: &Facts, option: SocketOption, side: Side, does: impl Text) -> Self {
        let (name, value, of_server, of_engine) = option.names;
        if side == Side::Server {
            let by_hand = if facts.is_beam() { option.erlang } else { option.other };
            let knob = of_server.map(|value| (name, value.to_owned()));
            return Self { knob, ..Self::plan((format!("socket.{name}"), value), does, by_hand) };
        }
        let Some(value) = of_engine.filter(|_| facts.load == Load::Made) else {
            return Self::plan((format!("client.{name}"), value), does, option.other);
        };
        let by_hand = option.other.replace("the accepted sockets", "its sockets");
        Self::plan((format!("engine.{name}"), value), does, format!("in the client: {by_hand}"))
    }

    pub fn kernel(name: &str, value: impl Text, side: Side, does: impl Text) -> Self {
        let value = value.into();
        let by_hand = format!("sysctl -w {name}='{value}' on the {side}'s host");
        Self::plan((name, value), does, by_hand)
    }

    /// The engine on a machine of its own.
    pub fn own_machine(does: &str) -> Self {
        let by_hand = "run linerate on a second machine against this one's address";
        Self::plan(("engine.host", "another machine"), does, by_hand)
    }

    /// The same for hosts that the plan's path may lay: then a key of the plan.
    pub fn or_of_path(self, facts: &Facts) -> Self {
        let key = facts.run.path_key(&format!("sysctls.{}", self.key));
        if !facts.run.header.plan.paths().is_empty() { Self { key, ..self } } else { self }
    }

    /// Connections kept for the next exchange; a key of the plan where our own load opens one for each.
    pub fn keep_connections(facts: &Facts, does: &str, by_hand: impl Text) -> Self {
        let plan = &facts.run.header.plan;
        if facts.load == Load::Watched || !plan.opens_each() {
            return Self::by_knob(("keepalive", "on"), does, by_hand);
        }
        let is_crr = matches!(plan.workload, Workload::Crr { .. });
        let key = if is_crr { ("workload.kind", "rr") } else { ("workload.close", "false") };
        Self::plan(key, does, by_hand)
    }

    /// More CPUs where the target may not use all, else less work.
    pub fn more_cpus(facts: &Facts, limit: f64) -> Self {
        let cpus = f64::from(facts.run.header.host.cpus);
        if limit < cpus && facts.run.header.target.local {
            let does = format!("lets it use all {cpus:.0} CPUs instead of {limit}");
            let by_hand = "raise its affinity or CPU set (taskset, cpuset.cpus, CPUAffinity=)";
            return Self::plan(("target.cpus", "all"), does, by_hand).serving(cpus);
        }
        let of_node = facts.if_beam(
            " with the node started by +JPperf true; msacc:start(1000), msacc:print(); eprof",
        );
        let does = "profile it: only less CPU time an exchange, or more CPUs, helps";
        Self::human(does, format!("perf top -p PID{of_node}"))
    }

    pub fn with_knob(self, name: &'static str, value: impl Text) -> Self {
        Self { knob: Some((name, value.into())), ..self }
    }

    /// Knob and value for the advice: that of a server of ours where it has it, else the key.
    pub fn knob(&self, facts: &Facts) -> (String, String) {
        let turnable = &facts.run.header.target.turnable;
        match &self.knob {
            Some((name, value)) if turnable.contains_key(*name) => ((*name).into(), value.clone()),
            _ => (self.key.clone(), self.value.clone()),
        }
    }
}

impl SocketOption {
    pub const NO_DELAY: Self = Self {
        names: ("nodelay", "on", Some("on"), Some("true")),
        erlang: "{nodelay, true} in the listen options; without touching code: \
                 erl -kernel inet_default_listen_options '[{nodelay,true}]'",
        other: "set TCP_NODELAY on the accepted sockets (nginx: tcp_nodelay on; Java: setTcpNoDelay(true); \
                 Python: setsockopt(IPPROTO_TCP, TCP_NODELAY, 1))",
    };

    /// Head and body in one write; no option.
    pub const ONE_WRITE: Self = Self {
        names: ("write", "combined", Some("combined"), None),
        erlang: "one gen_tcp:send(Socket, [Head, Body]) instead of two sends",
        other: "write head and body with one call (writev, a buffered writer flushed once)",
    };

    pub const DEFAULT_RECEIVE_BUFFER: Self = Self {
        names: ("recbuf", "default", Some("0"), Some("default")),
        erlang: "remove {recbuf, N} from the socket options (set {buffer, N} instead, if it was meant for the \
                 driver): the kernel then sizes the window",
        other: "do not set SO_RCVBUF: the kernel then sizes the window, up to net.ipv4.tcp_rmem",
    };

    pub const DEFAULT_SEND_BUFFER: Self = Self {
        names: ("sndbuf", "default", Some("0"), Some("default")),
        erlang: "remove {sndbuf, N} from the socket options: the kernel then sizes the buffer",
        other: "do not set SO_SNDBUF: the kernel then sizes the buffer, up to net.ipv4.tcp_wmem",
    };

    pub const NO_PACING: Self = Self {
        names: ("pacing", "none", None, None),
        erlang: "remove {raw, 1, 47, _} (SO_MAX_PACING_RATE) from the socket options, or raise it",
        other: "remove SO_MAX_PACING_RATE from the sender's sockets, or raise it",
    };

    /// No `TCP_CORK`, or taken out after each answer.
    pub const NO_CORK: Self = Self {
        names: ("cork", "off", None, None),
        erlang: "remove {raw, 6, 3, _} (TCP_CORK) from the socket options, or set it to <<0:32/native>> when an answer is \
                 written; write an answer in one gen_tcp:send",
        other: "set TCP_CORK to 0 when an answer is written, and no MSG_MORE with its last part; better, one write an answer",
    };
}
