//! What is simulated.

use std::time::Duration;

use linerate_model::{Bytes, EngineOptions, Link, Load, Path, Plan, Site, Target, Until, Workload};
use serde::{Deserialize, Serialize};

use crate::nanos;
use crate::outcome::PARTS;

/// Workers in a closed loop over servers in sites: each worker has a connection to every server, picks one
/// uniformly at random, asks, waits for the answer, and begins again.
///
/// Durations are whole nanoseconds in files.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Scenario {
    /// Places with servers and client hosts (`engines`).
    pub sites: Vec<Site>,
    /// Paths between them. A path's trace is a file, and cannot be simulated.
    pub links: Vec<Link>,
    /// Round trip within a site; a packet to another site takes half of it on top of the path.
    #[serde(with = "nanos")]
    pub lan: Duration,
    /// In all, dealt out evenly over the client hosts.
    pub workers: u32,
    /// CPUs of each server, and what an exchange needs of them.
    pub server: Station,
    /// CPUs of each client host, and what an exchange needs of them before it is sent.
    pub client: Station,
    /// Bytes that a worker sends, framing included.
    pub request: Bytes,
    /// Bytes that it waits for.
    pub response: Bytes,
    /// How connections behave.
    pub tcp: Tcp,
    /// Cut off; lengthened to whole tenths of `run`. Workers begin one after another in its first half.
    #[serde(with = "nanos")]
    pub warm_up: Duration,
    /// Measured, after the warm-up.
    #[serde(with = "nanos")]
    pub run: Duration,
    /// Of all random choices but the paths', which have their own.
    pub seed: u64,
}

/// CPUs with one queue before them.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Station {
    /// How many; absent: always one that is free.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpus: Option<u16>,
    /// CPU time of an exchange, in the mean.
    #[serde(with = "nanos")]
    pub demand: Duration,
    /// How it differs from exchange to exchange.
    pub service: Service,
}

/// Distribution of service demands.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Service {
    /// Exponential, as mean value analysis has it.
    #[default]
    Exponential,
    /// Each the same.
    Constant,
}

/// TCP as far as it matters to exchanges: segments, acknowledgements, windows, retransmission.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Tcp {
    /// Bytes of data in a segment at most.
    pub mss: Bytes,
    /// Bytes of IP and TCP headers of each.
    pub headers: Bytes,
    /// Segments sent before the first acknowledgement, and after a rest.
    pub initial_window: u32,
    /// The most in flight, whatever the congestion window: the receiver's.
    pub window: Bytes,
    /// How long an acknowledgement waits for data to ride on.
    #[serde(with = "nanos")]
    pub delayed_ack: Duration,
    /// Which acknowledgements wait.
    pub acks: Acks,
    /// The least that a retransmission waits on top of the round trip.
    #[serde(with = "nanos")]
    pub min_rto: Duration,
}

/// Which acknowledgements wait for data to ride on.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Acks {
    /// Those of every first of two segments: RFC 1122, and Linux before 6.6 with messages of one size.
    #[default]
    Delayed,
    /// The same, but once one waited in vain the next are sent as soon as the application has read, until it
    /// sends soon after it received ("pingpong"): Linux since 6.6 ("fix delayed ACKs for MSS boundary
    /// condition"), where a segment ends a write.
    Pushed,
}

/// What cannot be simulated.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadScenario {
    /// Nobody to ask or nobody who asks.
    #[error("no site has {0}: a closed loop needs both servers and engines")]
    Nobody(&'static str),
    /// More than places are counted to.
    #[error("sites have {1} {0}: {max} are the most", max = u16::MAX)]
    TooMany(&'static str, u32),
    /// Workers of one site can't reach servers of another.
    #[error("engines of `{0}` can't reach servers of `{1}`: add a link between them")]
    NotLinked(String, String),
    /// A link to nowhere.
    #[error("`{0}` is no site: a link joins two of them")]
    NoSuchSite(String),
    /// Its trace would have to be read.
    #[error("the path between `{0}` and `{1}` follows a trace: give its mean rate instead")]
    Trace(String, String),
    /// A number that means nothing.
    #[error("{0} is 0: give 1 or more")]
    Zero(&'static str),
}

impl Default for Scenario {
    fn default() -> Self {
        Self {
            sites: Vec::new(),
            links: Vec::new(),
            lan: Duration::from_micros(250),
            workers: 1,
            server: Station::default(),
            client: Station::default(),
            request: Bytes(1026),
            response: Bytes(1026),
            tcp: Tcp::default(),
            warm_up: Duration::from_secs(1),
            run: Duration::from_secs(2),
            seed: 1,
        }
    }
}

impl Default for Station {
    fn default() -> Self {
        Self { cpus: None, demand: Duration::ZERO, service: Service::Exponential }
    }
}

impl Default for Tcp {
    /// Linux over Ethernet.
    fn default() -> Self {
        Self {
            // Source: 1500 less 20 of IP and 32 of TCP with timestamps.
            mss: Bytes(1448),
            headers: Bytes(52),
            // Source: RFC 6928.
            initial_window: 10,
            // Source: tcp(7), the largest that tcp_rmem gives by default, 6 MiB, half of it window.
            window: Bytes(3 << 20),
            // Source: TCP_DELACK_MIN, include/net/tcp.h.
            delayed_ack: Duration::from_millis(40),
            acks: Acks::Delayed,
            // Source: TCP_RTO_MIN, the same.
            min_rto: Duration::from_millis(200),
        }
    }
}

impl Station {
    /// One that no exchange spends time at.
    pub fn is_idle(&self) -> bool {
        self.demand.is_zero()
    }
}

impl Scenario {
    /// One site of clients, one of servers, a path between them.
    pub fn across(path: Path, servers: u16, workers: u32) -> Self {
        let site = |name: &str, servers, engines| Site { name: name.into(), servers, engines };
        Self {
            sites: vec![site("clients", 0, 1), site("servers", servers, 0)],
            links: vec![Link { between: ["clients".into(), "servers".into()], path }],
            lan: Duration::ZERO,
            workers,
            ..Self::default()
        }
    }

    /// Sites, links and connections of a plan. What the servers can do, a plan doesn't say.
    pub fn of_plan(plan: &Plan) -> Self {
        let workers = plan.load.connections;
        if plan.sites.is_empty() {
            return Self::across(plan.path.clone().unwrap_or_default(), 1, workers);
        }
        Self { sites: plan.sites.clone(), links: plan.links.clone(), workers, ..Self::default() }
    }

    /// The plan of its load, for the engine's core: a closed loop that grows over half of the warm-up.
    pub(crate) fn plan(&self) -> Plan {
        let (ramp, all) = (self.ramp(), self.warm_up_in_slices() + self.run);
        Plan {
            name: String::new(),
            about: String::new(),
            labels: Default::default(),
            target: Target::default(),
            workload: Workload::default(),
            // No exchange times out: TCP sends again until the end.
            load: Load { connections: self.workers, ramp, timeout: all, ..Load::default() },
            until: Until { duration: Some(all - ramp), ..Until::default() },
            engine: EngineOptions { seed: self.seed, ..EngineOptions::default() },
            path: None,
            sites: Vec::new(),
            links: Vec::new(),
            expect: None,
        }
    }

    /// How long the load grows.
    pub(crate) fn ramp(&self) -> Duration {
        self.warm_up / 2
    }

    /// How long a slice of the accounts is.
    pub(crate) fn slice(&self) -> Duration {
        (self.run / PARTS as u32).max(Duration::from_nanos(1))
    }

    /// The warm-up in whole slices, so that the measured part begins with one.
    pub(crate) fn warm_up_in_slices(&self) -> Duration {
        let (warm_up, slice) = (self.warm_up.as_nanos(), self.slice().as_nanos());
        Duration::from_nanos((warm_up.div_ceil(slice) * slice) as u64)
    }

    /// Refuses what cannot be simulated.
    pub(crate) fn check(&self) -> Result<(), BadScenario> {
        for (number, what) in [
            (u64::from(self.workers), "workers"),
            (self.request.0, "request"),
            (self.response.0, "response"),
            (self.tcp.mss.0, "tcp.mss"),
            (self.tcp.window.0, "tcp.window"),
            (u64::from(self.tcp.initial_window), "tcp.initial_window"),
            (self.run.as_nanos() as u64, "run"),
            (u64::from(self.server.cpus.unwrap_or(1)), "server.cpus"),
            (u64::from(self.client.cpus.unwrap_or(1)), "client.cpus"),
        ] {
            if number == 0 {
                return Err(BadScenario::Zero(what));
            }
        }
        let all = |number: fn(&Site) -> u16| self.sites.iter().map(number).map(u32::from).sum();
        for (number, what) in
            [(all(|site| site.servers), "servers"), (all(|site| site.engines), "engines")]
        {
            match number {
                0 => return Err(BadScenario::Nobody(what)),
                1..=0xffff => {}
                _ => return Err(BadScenario::TooMany(what, number)),
            }
        }
        for link in &self.links {
            let [first, second] = &link.between;
            for name in &link.between {
                self.site(name)?;
            }
            if link.path.directions().iter().any(|way| way.trace.is_some()) {
                return Err(BadScenario::Trace(first.clone(), second.clone()));
            }
        }
        for from in self.sites.iter().filter(|site| site.engines > 0) {
            for to in self.sites.iter().filter(|site| site.servers > 0 && site.name != from.name) {
                let joins = |link: &Link| {
                    link.between.contains(&from.name) && link.between.contains(&to.name)
                };
                if !self.links.iter().any(joins) {
                    return Err(BadScenario::NotLinked(from.name.clone(), to.name.clone()));
                }
            }
        }
        Ok(())
    }

    /// Its place among the sites.
    pub(crate) fn site(&self, name: &str) -> Result<usize, BadScenario> {
        let named = |site: &Site| site.name == name;
        self.sites.iter().position(named).ok_or_else(|| BadScenario::NoSuchSite(name.to_owned()))
    }
}
