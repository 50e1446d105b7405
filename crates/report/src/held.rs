//! How many users a service held: what `linerate capacity --hold --json` has under `held`, and each climb of a study.

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

/// One climb.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Held {
    /// What users speak; none: bare connections.
    pub protocol: Option<String>,
    /// Users asked for.
    pub asked: u64,
    /// Classes of users, as `--mix` has them.
    pub mix: String,
    /// Users held for the whole of the hold, clean.
    pub held: u64,
    /// How long they were held.
    pub hold_s: f64,
    /// The most that were online at a moment.
    pub most_online: u64,
    /// The fewest in the hold.
    pub fewest_in_hold: u64,
    /// Users that were lost in the hold, and came back.
    #[serde(default)]
    pub dips: Vec<HeldDip>,
    /// Engine processes that were lost, a sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub lost_processes: Vec<String>,
    /// Engine processes of other hosts.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub engine_hosts: Vec<HeldHost>,
    /// Whether a signal ended it.
    pub interrupted: bool,
    /// The limit that ended the climb; none: none was met.
    pub limit: Option<MetLimit>,
    /// What was seen then.
    pub met: Option<Seen>,
    /// The first limit that the forecast named.
    #[serde(rename = "foretold")]
    pub forecast: Option<ForecastLimit>,
    /// Limits that were not met, the nearest first.
    pub next: Vec<NextLimit>,
    /// Where everybody was at the end.
    pub account: Users,
    /// Level by level.
    pub levels: Vec<HeldLevel>,
    /// By class of the mix.
    pub classes: Vec<HeldClass>,
    /// Whether both ends of each connection were on this host.
    pub both_ends_here: bool,
    /// What a user costs, by kind of memory.
    pub costs: Vec<UserCost>,
    /// Users that a given memory would hold; none: not known.
    pub fit: Option<Fit>,
    /// All readings of host and target.
    pub points: Vec<HeldPoint>,
    /// The climb over time. Absent: of an older linerate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub course: Vec<HeldMoment>,
}

/// An engine process on another host, by whose clock it tells.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldHost {
    /// What its host is called.
    pub host: String,
    /// How far that clock is ahead of the coordinator's. Unit: microseconds.
    pub clock_offset_us: f64,
    /// Half of the interval that says so. Unit: microseconds.
    pub clock_interval_us: f64,
}

/// From the first connection that ended in a hold to the moment at which all users were there again.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldDip {
    /// When it began, from the beginning of the hold.
    pub at_s: f64,
    /// How long it was until all were back; none: they were not when the hold ended.
    pub back_after_s: Option<f64>,
    /// Users online before.
    pub of: u64,
    /// The fewest online in it.
    pub fewest: u64,
    /// Connections that ended, by cause.
    pub lost: BTreeMap<String, u64>,
    /// Attempts to come back that failed, by cause.
    pub failed_again: BTreeMap<String, u64>,
}

/// The limit that ended a climb.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct MetLimit {
    /// `target.descriptors`; `unexplained`.
    pub id: String,
    /// What it is, with its sum.
    pub says: String,
}

/// What was seen when it was met.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Seen {
    /// Users online.
    pub online: u64,
    /// Users that had come since the last clean level.
    #[serde(default)]
    pub came: u64,
    /// Of those online, how many the service had not accepted.
    #[serde(default)]
    pub not_accepted: u64,
    /// Users that failed since the last clean level, by cause.
    pub failed: BTreeMap<String, u64>,
    /// The percentile of message latency that was above the gate.
    pub p99_ns: Option<u64>,
}

/// The first limit that a forecast named.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ForecastLimit {
    /// The limit.
    pub id: String,
    /// Connections that it holds.
    pub holds: u64,
}

/// A limit that was not met.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct NextLimit {
    /// The limit.
    pub id: String,
    /// In words.
    pub what: String,
    /// Users at which it would be met.
    pub holds: u64,
    /// Used at the highest clean level.
    pub used: u64,
    /// What there is.
    pub most: u64,
}

/// asked = connecting + logging in + online + failed + closed.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Users {
    /// Users that a connection was begun for.
    pub asked: u64,
    /// Their connect is under way.
    pub connecting: u64,
    /// Connected, and not logged in yet.
    pub logging_in: u64,
    /// Logged in.
    pub online: u64,
    /// Closed by us.
    pub closed: u64,
    /// Failed, by cause.
    pub failed: BTreeMap<String, u64>,
}

/// One level.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldLevel {
    /// Users asked for so far.
    pub users: u32,
    /// Online when it was judged.
    pub online: u64,
    /// Whether all was as it should be.
    pub clean: bool,
    /// Users that failed in it.
    pub failed: u64,
    /// Of those online, how many the service had not accepted.
    #[serde(default)]
    pub not_accepted: u64,
    /// Messages answered or delivered while it was held.
    pub messages: u64,
    /// The 99th percentile of their latency.
    pub p99_ns: Option<u64>,
    /// How long its users took to come.
    pub came_s: f64,
}

/// A class of users.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldClass {
    /// Its name.
    pub name: String,
    /// Its share of all users.
    pub share: f64,
    /// The pause between two messages; none: it says nothing.
    pub think: Option<String>,
    /// From the connect call to the connection.
    pub connect: Option<HeldTimes>,
    /// From there to being online.
    pub login: Option<HeldTimes>,
    /// From when a message was due to its delivery.
    pub delivered: Option<HeldTimes>,
    /// From when a message was due to the server's answer to its sender.
    pub answered: Option<HeldTimes>,
}

/// Times of one kind. Unit: ms.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldTimes {
    /// How many.
    pub count: u64,
    /// The median.
    pub p50_ms: f64,
    /// Absent: of an older linerate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p90_ms: Option<f64>,
    /// The 99th percentile.
    pub p99_ms: f64,
    /// The 99.9th.
    pub p999_ms: f64,
    /// The longest.
    pub max_ms: f64,
}

/// An estimate and half of its 95 % interval. Unit: bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct BytesEach {
    /// The best guess.
    pub bytes: f64,
    /// Half of the interval.
    pub within: f64,
}

/// What a user costs of one kind of memory, by slope.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UserCost {
    /// `target.rss`.
    pub kind: String,
    /// Without any user.
    pub base: BytesEach,
    /// A user that says nothing.
    pub idle: Option<BytesEach>,
    /// A user that does.
    pub active: Option<BytesEach>,
    /// A mean user of the mix. Absent: of an older linerate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mean: Option<BytesEach>,
}

/// Users that so much memory holds, with what the service takes without any.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Fit {
    /// So much. Unit: bytes.
    pub memory: u64,
    /// Users.
    pub users: u64,
    /// What one of the mix takes: `target.rss` and half of `kernel.*`. Unit: bytes.
    pub bytes_a_user: f64,
    /// Half of its 95 % interval. Absent: of an older linerate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub within: Option<f64>,
    /// Without any. Unit: bytes.
    pub base: f64,
}

/// A reading.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldPoint {
    /// From the first one. Absent: of an older linerate.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub at_s: Option<f64>,
    /// Online, saying nothing.
    pub idle: u64,
    /// Online, saying something now and then.
    pub active: u64,
    /// By kind. Unit: bytes.
    pub memory: BTreeMap<String, u64>,
    /// Resources that have an end.
    pub roofs: Vec<HeldRoof>,
}

/// A resource of which there is so much.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldRoof {
    /// Its id.
    pub id: String,
    /// In words.
    pub what: String,
    /// Used.
    pub used: u64,
    /// What there is.
    pub most: u64,
}

/// The climb at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HeldMoment {
    /// From the first reading.
    pub at_s: f64,
    /// Users online.
    pub online: u64,
    /// Failed so far.
    pub failed: u64,
    /// What was done: `adding`, `settling`, `stopped`, `back`, `holding`.
    pub stage: String,
}

impl Held {
    /// A mean user's part of one kind of memory.
    pub fn mean(&self, kind: &str) -> Option<BytesEach> {
        self.costs.iter().find(|cost| cost.kind == kind)?.mean
    }

    /// Users that [`Fit::memory`] holds at the ends of the interval of what each takes; no upper end where they may
    /// take nothing.
    pub fn fit_interval(&self) -> Option<(f64, Option<f64>)> {
        let fit = self.fit.as_ref()?;
        let room = (fit.memory as f64 - fit.base).max(0.0);
        let (each, within) = (fit.bytes_a_user, fit.within?);
        Some((room / (each + within), (each > within).then(|| room / (each - within))))
    }

    /// Users of the highest clean level and the most that were online, where the target ended by itself: it held them
    /// until then, and nobody afterwards.
    pub fn until_it_ended(&self) -> Option<(u64, u64)> {
        let ended = |id: &str| id == "target.died" || id == "target.memory";
        let limit = self.limit.as_ref().filter(|limit| ended(&limit.id));
        limit.filter(|_| self.held == 0 && self.clean() > 0)?;
        Some((self.clean(), self.most_online))
    }

    /// Users of the highest level that was clean: those that are held, or that were until the service ended.
    pub fn clean(&self) -> u64 {
        let clean = self.levels.iter().filter(|level| level.clean);
        clean.map(|level| u64::from(level.users)).max().unwrap_or(0)
    }
}

/// What a study of users found.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UsersStudy {
    /// What users are to fit in. Unit: bytes.
    pub memory: u64,
    /// What was published.
    pub published: Vec<PublishedUsers>,
    /// Published settings, and their effect here.
    pub settings: Vec<UsersSetting>,
    /// Each climb.
    pub climbs: Vec<UsersClimb>,
    /// What each thing that was turned did.
    pub effects: Vec<UsersEffect>,
    /// What was not measured, and why.
    pub left_out: Vec<String>,
}

/// Users that one host held, as published.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PublishedUsers {
    /// Its operating system.
    pub os: String,
    /// `default`, `K + A(25)`.
    pub settings: String,
    /// Users.
    pub users: u64,
}

/// A setting that mattered, or was tried, then.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UsersSetting {
    /// Its name.
    pub says: String,
    /// What it did, as published.
    pub then: String,
    /// What is left of it.
    pub today: String,
    /// The series that turns it here; absent: it cannot be turned.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub series: Option<String>,
}

/// Why a climb was made.
#[derive(Clone, Copy, Debug, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Purpose {
    /// How many a server holds.
    Server,
    /// A limit that was met on the way.
    Limit,
    /// Effect of a setting.
    Turned,
}

/// A climb of a study.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UsersClimb {
    /// The series it belongs to.
    pub series: String,
    /// Why it was made.
    pub purpose: Purpose,
    /// Which of its rounds, from 1.
    pub round: u32,
    /// The command that makes it again; `{xmpp}` and so on stand for what its server told.
    pub command: String,
    /// What came of it.
    pub held: Held,
}

/// What turning something did, beside the series without it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct UsersEffect {
    /// With it.
    pub series: String,
    /// Without it.
    pub beside: String,
    /// Rounds of each.
    pub rounds: u32,
    /// More bytes of the VM a user, where it told.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub vm: Option<BytesEach>,
    /// More bytes of the kernel a user, one end.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<BytesEach>,
    /// More resident bytes a user.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rss: Option<BytesEach>,
    /// Users that the memory holds with it, by those without it: the ratio, and its 95 % interval.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub users: Option<[f64; 3]>,
}
