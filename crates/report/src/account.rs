//! The account of time as data: at which station a request's time goes, and what those in the application
//! wait for.
//!
//! `seconds = exchanges / per_s` at each station, by Little's law.

use linerate_account::{Held, Station, Watched, agreements};
use linerate_roofline::{Facts, Load, Run};
use serde::{Deserialize, Serialize};

use crate::number::finite;

/// Where the requests under way are.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Account {
    /// What the split is made of.
    pub source: Source,
    /// Requests under way on average.
    pub under_way: f64,
    /// Answered a second; absent where nobody counted answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub per_s: Option<f64>,
    /// Random instants at which connections were sampled.
    pub instants: f64,
    /// Of the requests under way, the share that no station has, 0 to 1.
    pub unplaced_share: f64,
    /// How far the samples' number under way is from that of the engine's stamps, by the latter.
    pub disagreement: f64,
    /// In the order in which a request passes them; those without any are left out.
    pub stations: Vec<StationTime>,
    /// Figures of it beside those that were measured in another way; those too small to compare are left out.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub agreement: Vec<Agreement>,
}

/// A figure of the account, and the same measured in another way.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Agreement {
    /// The metric of the other way.
    pub by: String,
    /// As the account has it, a request.
    pub seconds: f64,
    /// As it was measured otherwise, a request.
    pub measured_seconds: f64,
}

/// What an account is made of.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Source {
    /// Both ends of random connections at random instants, and the engine's stamps.
    Census,
    /// The engine's stamps alone: nothing is split.
    Stamps,
    /// The sockets of a service that is watched.
    Sockets,
    /// Its sockets, and the headers of its packets.
    Headers,
}

/// One station's part.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct StationTime {
    /// Which.
    pub id: Station,
    /// What holds unsent bytes there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub held: Option<Held>,
    /// Requests there on average.
    pub exchanges: f64,
    /// 95 % interval of that; absent where it was not sampled at random instants.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interval: Option<[f64; 2]>,
    /// What a request spends there. Absent where nobody counted answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub seconds: Option<f64>,
    /// Of the requests under way, 0 to 1.
    pub share: f64,
}

/// What the requests in the application wait for: their mean numbers.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Inside {
    /// On a CPU.
    pub running: f64,
    /// Ready, and without a CPU.
    pub runnable: f64,
    /// Stopped by the control group's quota.
    pub throttled: f64,
    /// In a thread that waits for a disk.
    pub disk: f64,
    /// In no thread that does anything.
    pub asleep: f64,
    /// What the target itself has asked of others, the most first.
    pub asked: Vec<Asked>,
    /// What its threads were at; absent where they were not sampled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub threads: Option<Threads>,
}

/// Somebody whom the target asks.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Asked {
    /// Its address.
    pub address: String,
    /// Its process on this host, in words.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub process: Option<String>,
    /// Connections to it on average.
    pub connections: f64,
    /// Of them, those with a question out.
    pub asked: f64,
    /// CPUs' worth of time that its process used.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cores: Option<f64>,
}

/// Mean numbers of the target's threads by what they do.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Threads {
    /// On a CPU or ready for one.
    pub running: f64,
    /// Waiting for a disk.
    pub disk: f64,
    /// Sleeping for a set time.
    pub timer: f64,
    /// In a lock, a condition or an empty queue, with a timeout or without.
    pub lock: f64,
    /// Waiting for events.
    pub poll: f64,
    /// Reading.
    pub read: f64,
    /// Writing.
    pub write: f64,
    /// Waiting for a connection.
    pub accept: f64,
    /// Waiting for a child process.
    pub child: f64,
    /// Anything else.
    pub other: f64,
    /// The share of instants at which two or more ran, 0 to 1.
    pub together: f64,
    /// The share of instants at which the fullest thread ran or waited for a disk, 0 to 1.
    pub fullest: f64,
    /// Its name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub fullest_name: Option<String>,
    /// The commonest, in words.
    pub says: String,
}

/// The stations' names, in the order in which a request passes them.
pub fn station_ids() -> impl Iterator<Item = &'static str> {
    Station::ALL.into_iter().map(Station::id)
}

impl Account {
    /// Of the requests under way, the share at this station; none where nothing was split.
    pub fn share_at(&self, id: &str) -> Option<f64> {
        let here = self.stations.iter().filter(|of| of.id.id() == id);
        (!self.stations.is_empty()).then(|| here.map(|of| of.share).sum())
    }

    /// Of a run or of a service that is watched; none where nothing was counted.
    pub(crate) fn of(facts: &Facts) -> Option<Self> {
        match facts.load {
            Load::Made => made(facts.account.as_ref()?, &facts.run),
            Load::Watched => watched(&facts.watched),
        }
    }

    /// What a request takes in all. Unit: seconds. Absent where nobody counted answers.
    pub(crate) fn seconds(&self) -> Option<f64> {
        self.per_s.filter(|per_s| *per_s > 0.0).map(|per_s| self.under_way / per_s)
    }
}

fn made(of: &linerate_account::Account, run: &Run) -> Option<Account> {
    let stations = of.places.iter().map(|place| StationTime {
        id: place.station,
        held: place.held,
        exchanges: finite(place.exchanges.mid),
        interval: Some([finite(place.exchanges.low), finite(place.exchanges.high)]),
        seconds: Some(finite(place.seconds.mid)),
        share: finite(place.exchanges.mid / of.under_way),
    });
    let window = run.load.window.0..=run.load.window.1;
    let agreement = agreements(of, run.header, run.evidence, &window).into_iter();
    let compared = |it: linerate_account::Agreement| Agreement {
        by: it.by.to_owned(),
        seconds: finite(it.account_s),
        measured_seconds: finite(it.other_s),
    };
    Some(Account {
        source: if of.instants > 0.0 { Source::Census } else { Source::Stamps },
        under_way: finite(of.under_way),
        per_s: Some(finite(of.per_s)),
        instants: finite(of.instants),
        unplaced_share: finite(of.unplaced()),
        disagreement: finite(of.disagreement),
        stations: stations.collect(),
        agreement: agreement.map(compared).collect(),
    })
}

fn watched(ports: &[Watched]) -> Option<Account> {
    if ports.is_empty() {
        return None;
    }
    let sum = |of: fn(&Watched) -> f64| ports.iter().map(of).sum::<f64>();
    let under_way = sum(Watched::under_way);
    // One port whose answers nobody counted, and the sum says nothing.
    let rate = |port: &Watched| port.exchanges.filter(|it| it.alternate).map(|it| it.per_s);
    let per_s: Option<f64> = ports.iter().filter(|port| port.under_way() > 0.0).map(rate).sum();
    let per_s = per_s.filter(|per_s| *per_s > 0.0);
    let places = [
        (Station::AcceptQueue, None, sum(|port| port.accept_queue)),
        (Station::PathOut, None, sum(Watched::asking)),
        (Station::Unread, None, sum(|port| port.unread)),
        (Station::TlsHandshake, None, sum(Watched::shaking)),
        (Station::Application, None, sum(Watched::in_application)),
        (Station::ServerSending, Some(Held::Nagle), sum(|port| port.held(Held::Nagle))),
        (Station::ServerSending, Some(Held::Congestion), sum(|port| port.held(Held::Congestion))),
        (Station::ServerSending, Some(Held::Window), sum(|port| port.held(Held::Window))),
        (Station::PathBack, None, sum(|port| port.air)),
    ];
    let stations = places.into_iter().filter(|(.., count)| *count > 0.0);
    let station = |(id, held, exchanges): (Station, Option<Held>, f64)| StationTime {
        id,
        held,
        exchanges,
        interval: None,
        seconds: per_s.map(|per_s| finite(exchanges / per_s)),
        share: finite(exchanges / under_way),
    };
    Some(Account {
        source: if per_s.is_some() { Source::Headers } else { Source::Sockets },
        under_way: finite(under_way),
        per_s,
        instants: 0.0,
        unplaced_share: 0.0,
        disagreement: 0.0,
        stations: stations.map(station).collect(),
        agreement: Vec::new(),
    })
}

impl Inside {
    /// None where the target's threads could not be counted.
    pub(crate) fn of(facts: &Facts) -> Option<Self> {
        facts.target.as_ref()?;
        let of = &facts.inside;
        let asked = of.asked.iter().map(|asked| Asked {
            address: asked.address.clone(),
            process: asked.process.clone(),
            connections: finite(asked.connections),
            asked: finite(asked.asked),
            cores: asked.cores.map(finite),
        });
        Some(Self {
            running: finite(of.running),
            runnable: finite(of.runnable),
            throttled: finite(of.throttled),
            disk: finite(of.disk),
            asleep: finite(of.asleep),
            asked: asked.collect(),
            threads: of.threads.as_ref().map(Threads::of),
        })
    }
}

impl Threads {
    fn of(of: &linerate_evidence::sources::threads::States) -> Self {
        Self {
            running: finite(of.running),
            disk: finite(of.disk),
            timer: finite(of.timer),
            lock: finite(of.lock + of.lock_timed),
            poll: finite(of.poll + of.poll_timed),
            read: finite(of.read),
            write: finite(of.write),
            accept: finite(of.accept),
            child: finite(of.child),
            other: finite(of.other),
            together: finite(of.together),
            fullest: finite(of.fullest),
            fullest_name: of.fullest_name.clone(),
            says: of.words(),
        }
    }
}
