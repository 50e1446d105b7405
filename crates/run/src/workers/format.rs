//! What the coordinator and its engine workers say to each other: one JSON object a line, each way. A worker's slices
//! and samples are lines of the evidence file. `docs/processes.md` describes it.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use linerate_engine::{EngineHost, Flow, Job, ServerAddress};
use linerate_evidence::{Line, Reader};
use linerate_model::{EngineOptions, Plan, Timestamp};
use linerate_probe::Scope;
use serde::{Deserialize, Serialize};

use crate::body::Outside;
use crate::users::Speaks;

/// Of the format. Raised when either side could misread the other.
pub const VERSION: u32 = 1;

// Chosen: a slice with every status there is and seven full histograms is a tenth of it.
/// The longest line, in bytes.
pub const LONGEST: usize = 4 << 20;

/// What a worker is told.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Told {
    /// What it is to do. The first line.
    Order(Box<Order>),
    /// How the users connect that it is to have. The first line, in place of an order.
    Users(Box<UsersOrder>),
    /// What users are to do.
    Do(Vec<Do>),
    /// Open connections, at this instant.
    Start(Timestamp),
    /// Begin the load, at this instant.
    Begin(Timestamp),
    /// Say what time it is; this is when it was asked, by the asker's clock.
    Ping(Timestamp),
    /// Begin nothing more. The end of its input means the same.
    Stop(Timestamp),
}

/// A worker's part of a run.
#[derive(Debug, Deserialize, Serialize)]
pub struct Order {
    /// The plan, of which it makes a part.
    pub plan: Plan,
    /// The target's authority.
    pub authority: String,
    /// The run among all that a far end of streams serves.
    pub run: u64,
    /// Its place among the workers, how many they are, and which of the run's jobs this is, from 1. It has every
    /// so-many-th thread, from that of its place on.
    pub part: (u16, u16, u16),
    /// Engine threads of all workers.
    pub threads: u16,
    /// How long a slice is.
    pub slice_ns: Option<u64>,
    /// Where to connect.
    pub servers: Vec<Place>,
    /// Where its threads work.
    pub hosts: Vec<Place>,
    /// Whether the target's sockets are on its host.
    pub local: bool,
    /// What it is not to look for on its own host.
    #[serde(default, skip_serializing_if = "Outside::is_empty")]
    pub outside: Outside,
}

/// How users connect, and what they say.
#[derive(Debug, Deserialize, Serialize)]
pub struct UsersOrder {
    /// What they speak; none: nothing.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub speaks: Option<Speaks>,
    /// Where: users of each process take them in turn.
    pub servers: Vec<SocketAddr>,
    /// The network namespace that they connect from.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub netns: Option<PathBuf>,
    /// Of their sockets.
    pub options: EngineOptions,
    /// See [`linerate_engine::UsersSetup::timeout`].
    pub timeout_ns: u64,
    /// Its place among the workers, and how many they are.
    pub part: (u16, u16),
}

/// What a user is to do, by the user's number. Its connections are counted by both sides, from 1.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Do {
    /// Connect.
    Connect(u32),
    /// Send a message: to whom, of how many bytes, with which token.
    Message(u32, u32, u64, u64),
    /// Leave.
    Close(u32),
}

/// What became of users. Instants stand last.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Became {
    /// Of this user, by this of its connections: connected, from when to when.
    Connected(u32, u32, Timestamp, Timestamp),
    /// Logged in.
    Online(u32, u32, Timestamp),
    /// Failed, and why.
    Failed(u32, u32, String, Timestamp),
    /// Of the message of this token: answered to its sender.
    Answered(u64, Timestamp),
    /// Delivered to another.
    Delivered(u64, Timestamp),
}

/// A host of a run.
#[derive(Debug, Default, Deserialize, Serialize)]
pub struct Place {
    name: String,
    site: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    address: Option<SocketAddr>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    netns: Option<PathBuf>,
}

/// What a worker says.
#[derive(Debug, Deserialize, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Said {
    /// Who it is. The first line, before its order.
    Worker(Hello),
    /// It waits for the start.
    Ready(Timestamp),
    /// Its connections are open, or have had their time.
    Opened(Timestamp),
    /// The ends of one of the watched connections.
    Flow(Ends),
    /// When it was asked, and what time it is.
    Pong(Timestamp, Timestamp),
    /// It lives.
    Alive(Timestamp),
    /// What became of users, in its order.
    Users(Vec<Became>),
    /// It has done its part.
    Done(Timestamp),
    /// Why it can't.
    Failed(String),
}

/// Who a worker is.
#[derive(Clone, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Hello {
    /// Of the format: [`VERSION`].
    pub version: u32,
    /// Of the program.
    pub program: String,
    /// Its process.
    pub pid: u32,
}

/// A watched connection.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
pub struct Ends {
    id: u32,
    host: u16,
    server_host: u16,
    client: SocketAddr,
    server: SocketAddr,
}

/// A line of a worker.
#[derive(Debug)]
pub enum Heard {
    /// Of its own.
    Said(Said),
    /// Of the evidence.
    Evidence(Line),
}

/// With its line end.
pub fn line(of: &impl Serialize) -> String {
    let mut line = serde_json::to_string(of).expect("keys are strings and numbers are finite");
    line.push('\n');
    line
}

/// The error says what the line is not.
pub fn heard(line: &str) -> Result<Heard, String> {
    match serde_json::from_str(line) {
        Ok(said) => Ok(Heard::Said(said)),
        Err(_) => match Reader::default().line(line) {
            Ok(Line::Unknown) => Err("it sent an unknown message".into()),
            Ok(line) => Ok(Heard::Evidence(line)),
            Err(wrong) => Err(wrong.wrong),
        },
    }
}

impl Hello {
    /// This program's.
    pub fn own() -> Self {
        let program = env!("CARGO_PKG_VERSION").to_owned();
        Self { version: VERSION, program, pid: std::process::id() }
    }

    /// What keeps it from working for this program.
    pub fn refused(&self) -> Option<String> {
        let own = Self::own();
        if self.version != own.version {
            return Some(format!(
                "it speaks version {} of the workers' format, and this linerate version {VERSION}",
                self.version
            ));
        }
        (self.program != own.program)
            .then(|| format!("it is linerate {}, and this is {}", self.program, own.program))
    }
}

impl Order {
    /// Of a job, this part.
    pub fn of(job: &Job, scope: &Scope, part: (u16, u16, u16), outside: Outside) -> Self {
        let plan = Plan::clone(&job.plan);
        let server = |of: &ServerAddress| Place {
            name: of.name.clone(),
            site: of.site.clone(),
            address: Some(of.address),
            netns: None,
        };
        let host = |of: &EngineHost| Place {
            name: of.name.clone(),
            site: of.site.clone(),
            address: None,
            netns: of.netns.clone(),
        };
        let first = job.servers.first().map(|server| server.address.to_string());
        let greeting = job.template.stream().and_then(|stream| stream.greeting.as_ref());
        let mut servers: Vec<Place> = job.servers.iter().map(server).collect();
        for (server, netns) in servers.iter_mut().zip(&scope.server_netns) {
            server.netns = netns.clone();
        }
        Self {
            authority: plan.target.address.clone().or(first).unwrap_or_default(),
            run: greeting.map_or(0, |hello| hello.run),
            part,
            threads: job.threads,
            slice_ns: job.slice.map(|width| width.as_nanos() as u64),
            servers,
            hosts: job.hosts.iter().map(host).collect(),
            local: scope.local,
            outside,
            plan,
        }
    }

    /// How long a slice is.
    pub fn slice(&self) -> Option<Duration> {
        self.slice_ns.map(Duration::from_nanos)
    }

    /// Where to connect; none: an address is missing.
    pub fn servers(&self) -> Option<Vec<ServerAddress>> {
        let server = |of: &Place| {
            Some(ServerAddress {
                name: of.name.clone(),
                site: of.site.clone(),
                address: of.address?,
            })
        };
        self.servers.iter().map(server).collect()
    }

    /// Where its threads work.
    pub fn hosts(&self) -> Vec<EngineHost> {
        let host = |of: &Place| EngineHost {
            name: of.name.clone(),
            site: of.site.clone(),
            netns: of.netns.clone(),
        };
        self.hosts.iter().map(host).collect()
    }

    /// Where both ends of its connections are.
    pub fn scope(&self) -> Scope {
        Scope {
            target_pids: Vec::new(),
            target_ports: Vec::new(),
            client_netns: self.hosts.iter().map(|host| host.netns.clone()).collect(),
            server_netns: self.servers.iter().map(|server| server.netns.clone()).collect(),
            local: self.local,
        }
    }
}

impl From<Flow> for Ends {
    fn from(flow: Flow) -> Self {
        let Flow { id, host, server_host, client, server } = flow;
        Self { id, host, server_host, client, server }
    }
}

impl From<Ends> for Flow {
    fn from(ends: Ends) -> Self {
        let Ends { id, host, server_host, client, server } = ends;
        Self { id, host, server_host, client, server }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_said_reads_back_and_what_is_not_is_said_to_be_so() {
        let hello = line(&Said::Worker(Hello::own()));
        let Ok(Heard::Said(Said::Worker(back))) = heard(&hello) else { panic!("{hello}") };
        assert_eq!((back.refused(), back), (None, Hello::own()));
        assert_eq!(line(&Told::Start(Timestamp(5))), "{\"start\":5}\n");
        let row = "{\"at\":5,\"of\":\"census/0\",\"census.idle\":3}";
        assert!(matches!(heard(row), Ok(Heard::Evidence(Line::Row { .. }))));
        for other in ["", "{", "[]", "hello", "{\"slice\":3}", "{\"ready\":\"x\"}"] {
            assert!(heard(other).is_err(), "{other}");
        }
    }

    #[test]
    fn a_worker_of_another_version_is_refused_in_words() {
        let other = Hello { program: "9.9.9".into(), ..Hello::own() };
        assert!(other.refused().unwrap().starts_with("it is linerate 9.9.9, and this is "));
        let other = Hello { version: 7, ..Hello::own() };
        assert!(other.refused().unwrap().starts_with("it speaks version 7 of "));
    }

    proptest::proptest! {
        #[test]
        fn no_line_makes_the_reader_panic(text in ".{0,200}") {
            let _ = heard(&text);
        }
    }
}
