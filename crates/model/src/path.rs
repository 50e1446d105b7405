//! A network path: what a packet meets on its way, in each direction.

use std::collections::BTreeMap;
use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

use crate::plan::BadPlan;
use crate::units::{BadQuantity, BitRate, Bytes, Share, duration, optional_duration};

/// A path between two ends: the same in both directions, but for `out` and `back`.
///
/// A packet meets, in this order: a size that it may not exceed, loss, duplication, the queue and the
/// rate, the delay. `limit` counts what the path holds in all, as netem's does.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct Path {
    /// Round-trip time added, half of it each way.
    #[serde(with = "duration")]
    pub rtt: Duration,
    /// Each packet's delay each way differs from half the round trip by up to so much either way, evenly.
    #[serde(with = "duration", skip_serializing_if = "Duration::is_zero")]
    pub jitter: Duration,
    /// Packets leave in the order in which they came, whatever the jitter. Default true.
    #[serde(skip_serializing_if = "Clone::clone")]
    pub keep_order: bool,
    /// Bits a second each way, IP headers included; absent: as fast as the machine.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitRate>,
    /// Instead of `rate`: a trace of delivery opportunities in mahimahi's format (a line of milliseconds for
    /// each 1504 bytes), repeated for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<PathBuf>,
    /// What may wait for the rate: packets (`1000`) or bytes (`256KiB`). Absent: a second's worth at the rate, 100
    /// packets at least and 10,000 at most; of a trace 1,000.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
    /// Which packets are dropped from that queue.
    #[serde(skip_serializing_if = "Aqm::is_droptail")]
    pub aqm: Aqm,
    /// Packets that the path holds in all, those in delay included: netem's `limit`. Absent: no limit.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Packets lost at random, each way.
    #[serde(skip_serializing_if = "is_none")]
    pub loss: Share,
    /// Mean number of consecutive packets in a loss (Gilbert-Elliott); 1: each by itself.
    #[serde(skip_serializing_if = "is_one")]
    pub loss_burst: f64,
    /// Packets that are duplicated.
    #[serde(skip_serializing_if = "is_none")]
    pub duplicate: Share,
    /// Packets that skip the delay, and so overtake others.
    #[serde(skip_serializing_if = "is_none")]
    pub reorder: Share,
    /// Larger packets are dropped without a word: an MTU black hole. Bytes with IP header.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest: Option<Bytes>,
    /// What differs outbound, from engine to target or from the first site to the second.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub out: Option<DirectionChange>,
    /// What differs in the return direction.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub back: Option<DirectionChange>,
    /// What delays the packets.
    #[serde(skip_serializing_if = "PathBackend::is_auto")]
    pub backend: PathBackend,
    /// Let the ends hand over super-frames of many segments (our own line). Each segment is still lost,
    /// queued and paced by itself. Default true.
    #[serde(skip_serializing_if = "Clone::clone")]
    pub offload: bool,
    /// Seed of the path's random choices. Default 1.
    #[serde(skip_serializing_if = "is_seed_one")]
    pub seed: u64,
    /// How far the round trip that the path delivers, by the proof's median, may be from the one that was
    /// asked for. Absent: a twentieth of that, half a millisecond at least.
    #[serde(with = "optional_duration", skip_serializing_if = "Option::is_none")]
    pub tolerance: Option<Duration>,
    /// Kernel settings of both its ends, by name: `net.ipv4.tcp_wmem`. The host keeps its own.
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    pub sysctls: BTreeMap<String, String>,
}

/// What differs in one direction. Keys as in [`Path`]; what is absent is as there.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub struct DirectionChange {
    /// One way, not a round trip.
    #[serde(with = "optional_duration", skip_serializing_if = "Option::is_none")]
    pub delay: Option<Duration>,
    /// See [`Path::jitter`].
    #[serde(with = "optional_duration", skip_serializing_if = "Option::is_none")]
    pub jitter: Option<Duration>,
    /// See [`Path::rate`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rate: Option<BitRate>,
    /// See [`Path::trace`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub trace: Option<PathBuf>,
    /// See [`Path::queue`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub queue: Option<Queue>,
    /// See [`Path::limit`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// See [`Path::loss`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub loss: Option<Share>,
    /// See [`Path::largest`].
    #[serde(skip_serializing_if = "Option::is_none")]
    pub largest: Option<Bytes>,
}

impl DirectionChange {
    /// Whether that key differs in this direction.
    pub fn sets(&self, key: &str) -> bool {
        match key {
            "delay" => self.delay.is_some(),
            "jitter" => self.jitter.is_some(),
            "rate" => self.rate.is_some(),
            "trace" => self.trace.is_some(),
            "queue" => self.queue.is_some(),
            "limit" => self.limit.is_some(),
            "loss" => self.loss.is_some(),
            "largest" => self.largest.is_some(),
            _ => false,
        }
    }
}

/// What a packet meets in one direction: a [`Path`] with its changes applied.
#[derive(Clone, Debug, PartialEq)]
pub struct OneDirection {
    /// One way.
    pub delay: Duration,
    /// See [`Path::jitter`]; never more than the delay.
    pub jitter: Duration,
    /// See [`Path::keep_order`].
    pub keep_order: bool,
    /// See [`Path::rate`].
    pub rate: Option<BitRate>,
    /// See [`Path::trace`].
    pub trace: Option<PathBuf>,
    /// What may wait for the rate or trace. Where a plan names none: one second's worth at the rate, and
    /// 100 packets at least, 10,000 at most (1,000 for a trace).
    pub queue: Queue,
    /// See [`Path::aqm`].
    pub aqm: Aqm,
    /// See [`Path::limit`].
    pub limit: Option<u32>,
    /// See [`Path::loss`].
    pub loss: Share,
    /// See [`Path::loss_burst`].
    pub loss_burst: f64,
    /// See [`Path::duplicate`].
    pub duplicate: Share,
    /// See [`Path::reorder`].
    pub reorder: Share,
    /// See [`Path::largest`].
    pub largest: Option<Bytes>,
    /// Of this direction: the path's, and another for the return direction.
    pub seed: u64,
}

/// How much a queue holds. Written `1000` or `"256KiB"`.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Queue {
    /// So many packets (segments; a super-frame counts as what it holds).
    Packets(u32),
    /// So many bytes with IP headers.
    Bytes(Bytes),
}

/// Who is dropped from a queue.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Aqm {
    /// Who finds it full.
    #[default]
    Droptail,
    /// Who has waited too long: CoDel (RFC 8289), with its defaults of 5 ms and 100 ms.
    Codel,
}

/// Who delays packets.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PathBackend {
    /// The kernel's netem where it is there and can do what is asked, else our own line.
    #[default]
    Auto,
    /// The kernel's netem.
    Netem,
    /// Our own line between TUN devices.
    Line,
}

// Source: Ethernet's; what a queue's default counts in.
const MTU: f64 = 1500.0;

// Chosen: a satellite's is 0.6 s; the proof of a path takes several.
const LONGEST: Duration = Duration::from_secs(10);

fn is_none(share: &Share) -> bool {
    share.0 == 0.0
}

fn is_one(number: &f64) -> bool {
    *number == 1.0
}

fn is_seed_one(seed: &u64) -> bool {
    *seed == 1
}

impl Aqm {
    fn is_droptail(&self) -> bool {
        *self == Aqm::Droptail
    }
}

impl PathBackend {
    fn is_auto(&self) -> bool {
        *self == PathBackend::Auto
    }
}

impl Default for Path {
    fn default() -> Self {
        Self {
            rtt: Duration::ZERO,
            jitter: Duration::ZERO,
            keep_order: true,
            rate: None,
            trace: None,
            queue: None,
            aqm: Aqm::Droptail,
            limit: None,
            loss: Share(0.0),
            loss_burst: 1.0,
            duplicate: Share(0.0),
            reorder: Share(0.0),
            largest: None,
            out: None,
            back: None,
            backend: PathBackend::Auto,
            offload: true,
            seed: 1,
            tolerance: None,
            sysctls: BTreeMap::new(),
        }
    }
}

impl Path {
    /// One that adds so much to a round trip and is otherwise as the host.
    pub fn of_rtt(rtt: Duration) -> Self {
        Self { rtt, ..Self::default() }
    }

    /// The outbound and the return direction.
    pub fn directions(&self) -> [OneDirection; 2] {
        [self.way(self.out.as_ref(), 0), self.way(self.back.as_ref(), 1)]
    }

    /// The delay that a packet and its answer meet when nothing else is on the path.
    pub fn round_trip(&self) -> Duration {
        let [out, back] = self.directions();
        out.delay + back.delay
    }

    fn way(&self, change: Option<&DirectionChange>, direction: u64) -> OneDirection {
        let change = change.cloned().unwrap_or_default();
        let delay = change.delay.unwrap_or(self.rtt / 2);
        // A rate in one direction takes the place of a trace of both, and the other way round.
        let trace = change.trace.or_else(|| self.trace.clone().filter(|_| change.rate.is_none()));
        let rate = change.rate.or(self.rate).filter(|_| trace.is_none());
        let by_default = || match rate {
            Some(BitRate(rate)) => Queue::Packets((rate / 8.0 / MTU).clamp(100.0, 10_000.0) as u32),
            None => Queue::Packets(1000),
        };
        OneDirection {
            delay,
            jitter: change.jitter.unwrap_or(self.jitter).min(delay),
            keep_order: self.keep_order,
            rate,
            trace,
            queue: change.queue.or(self.queue).unwrap_or_else(by_default),
            aqm: self.aqm,
            limit: change.limit.or(self.limit),
            loss: change.loss.unwrap_or(self.loss),
            loss_burst: self.loss_burst,
            duplicate: self.duplicate,
            reorder: self.reorder,
            largest: change.largest.or(self.largest),
            seed: self.seed.wrapping_mul(2).wrapping_add(direction),
        }
    }

    /// Refuses what no path could be. `key` is where it stands in the plan: `path`.
    pub fn check(&self, key: &'static str) -> Result<(), BadPlan> {
        let wrong = |part: &str, wrong: String| {
            Err(BadPlan::Wrong { key, wrong: format!("{part}: {wrong}") })
        };
        let changes = [&self.out, &self.back].into_iter().flatten();
        let mut delays = vec![("rtt", self.rtt), ("jitter", self.jitter)];
        delays.extend(changes.clone().filter_map(|change| Some(("delay", change.delay?))));
        if let Some((part, delay)) = delays.into_iter().find(|(_, delay)| *delay > LONGEST) {
            return wrong(
                part,
                format!("{delay:?} is more than any path takes: write {LONGEST:?} or less"),
            );
        }
        if self.jitter > self.rtt / 2 && changes.clone().all(|change| change.delay.is_none()) {
            return wrong(
                "jitter",
                format!(
                    "{:?} would have packets arrive before they are sent: write {:?} or less",
                    self.jitter,
                    self.rtt / 2
                ),
            );
        }
        let rates = [self.rate].into_iter().chain(changes.clone().map(|change| change.rate));
        // Chosen: a packet of 1500 bytes each 12 s is no path, and no virtual machine does more than 1 Tbit/s.
        if let Some(rate) = rates.flatten().find(|rate| !(1e3..=1e12).contains(&rate.0)) {
            return wrong(
                "rate",
                format!("{rate} carries nothing: write 1kbit to 1000Gbit, as in 200Mbit"),
            );
        }
        if self.rate.is_some() && self.trace.is_some() {
            return wrong("trace", "a path has a rate or a trace: leave one of them out".into());
        }
        let paced = |way: &OneDirection| way.rate.is_some() || way.trace.is_some();
        for (way, change) in self.directions().into_iter().zip([&self.out, &self.back]) {
            match way.queue {
                Queue::Packets(0) | Queue::Bytes(Bytes(0)) => {
                    return wrong("queue", "0 lets no packet in: write 1 packet or more".into());
                }
                Queue::Bytes(Bytes(bytes)) if bytes < 1500 => {
                    return wrong(
                        "queue",
                        format!("{bytes} bytes hold no whole packet: write 1500 or more"),
                    );
                }
                _ => {}
            }
            // The path's own may be for one way only.
            let queues = change.as_ref().is_some_and(|change| change.queue.is_some())
                || self.queue.is_some() && !self.directions().iter().any(paced);
            if queues && !paced(&way) {
                return wrong(
                    "queue",
                    "nothing waits where no rate is: write rate or trace too, or limit for all that the path holds"
                        .into(),
                );
            }
            if way.limit == Some(0) {
                return wrong("limit", "0 lets no packet in: write 1 packet or more".into());
            }
            if way.loss.0 >= 1.0 {
                return wrong("loss", format!("{} leaves nothing: write less than 100%", way.loss));
            }
            if way.largest.is_some_and(|largest| largest.0 < 100) {
                return wrong(
                    "largest",
                    "no TCP segment fits: write 100 bytes or more, as in 1400".into(),
                );
            }
        }
        if !(1.0..=10_000.0).contains(&self.loss_burst) {
            return wrong(
                "loss_burst",
                format!("{} is no mean number of packets: write 1 to 10000", self.loss_burst),
            );
        }
        // Source: in a two-state chain the share of time in the bad state is at most 1 - 1/(1 + burst).
        if self.loss.0 > 0.0 && self.loss_burst > 1.0 && self.loss.0 > 0.9 {
            return wrong("loss", "bursts of more than 90%: write less".into());
        }
        if self.reorder.0 > 0.0 && self.directions().iter().all(|way| way.delay.is_zero()) {
            return wrong("reorder", "nothing to skip without a delay: write rtt too".into());
        }
        // Only settings below `net` are a namespace's own; all others are the whole machine's.
        let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
        let is_setting = |name: &str| {
            name.starts_with("net.") && !name.contains("..") && name.chars().all(plain)
        };
        if let Some(name) = self.sysctls.keys().find(|name| !is_setting(name)) {
            return wrong(
                "sysctls",
                format!("`{name}` is no setting of a network: write one as in net.ipv4.tcp_rmem"),
            );
        }
        Ok(())
    }
}

impl FromStr for Queue {
    type Err = BadQuantity;

    fn from_str(text: &str) -> Result<Self, BadQuantity> {
        let bad = || BadQuantity::NotAQueue(text.to_owned());
        if let Ok(packets) = text.trim().parse() {
            return Ok(Queue::Packets(packets));
        }
        match text.parse() {
            Ok(bytes) if text.contains(['B']) => Ok(Queue::Bytes(bytes)),
            _ => Err(bad()),
        }
    }
}

impl Queue {
    /// How many packets of full size it holds.
    pub fn packets(self) -> f64 {
        match self {
            Queue::Packets(packets) => f64::from(packets),
            Queue::Bytes(bytes) => bytes.0 as f64 / MTU,
        }
    }
}

impl fmt::Display for Queue {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Queue::Packets(1) => f.write_str("1 packet"),
            Queue::Packets(packets) => write!(f, "{packets} packets"),
            Queue::Bytes(bytes) => write!(f, "{bytes}"),
        }
    }
}

impl Serialize for Queue {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        match self {
            Queue::Packets(packets) => serializer.serialize_u32(*packets),
            Queue::Bytes(Bytes(bytes)) => serializer.collect_str(&format_args!("{bytes}B")),
        }
    }
}

impl<'de> Deserialize<'de> for Queue {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        crate::units::written(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Plan;

    fn path(lines: &str) -> Result<Plan, String> {
        let text = format!("[target]\nbeam = 'echo'\n[path]\n{lines}\n");
        Plan::from_toml(&text).map_err(|error| error.to_string())
    }

    #[test]
    fn a_path_is_written_as_people_write_it_and_reads_back() {
        let plan = path(
            "rtt = '10ms'\njitter = '1ms'\nrate = '200Mbit'\nqueue = 1000\nloss = '0.1%'\nloss_burst = 3\n\
             back = { rate = '20Mbit', queue = '64KiB', delay = '7ms' }",
        )
        .unwrap();
        let [out, back] = plan.path.as_ref().unwrap().directions();
        assert_eq!((out.delay, back.delay), (Duration::from_millis(5), Duration::from_millis(7)));
        assert_eq!((out.rate, back.rate), (Some(BitRate(2e8)), Some(BitRate(2e7))));
        assert_eq!(out.queue, Queue::Packets(1000));
        assert_eq!(back.queue, Queue::Bytes(Bytes(65_536)));
        assert!((out.loss.0 - 0.001).abs() < 1e-12);
        assert_ne!(out.seed, back.seed);
        assert_eq!(Plan::from_toml(&plan.to_toml()).unwrap(), plan);
    }

    #[test]
    fn one_way_may_have_a_rate_and_a_queue_and_the_other_none() {
        let plan = path("out = { rate = '1Mbit', queue = 10 }").unwrap();
        let [out, back] = plan.path.as_ref().unwrap().directions();
        assert_eq!((out.queue, back.rate), (Queue::Packets(10), None));
    }

    #[test]
    fn a_rate_without_a_queue_has_one_of_a_second_and_never_the_kernels_default() {
        let queue =
            |rate: f64| Path { rate: Some(BitRate(rate)), ..Path::default() }.directions()[0].queue;
        assert_eq!(queue(12e6), Queue::Packets(1000));
        assert_eq!(queue(1e5), Queue::Packets(100));
        assert_eq!(queue(1e10), Queue::Packets(10_000));
    }

    #[test]
    fn what_no_path_could_be_is_refused_by_key() {
        for (part, lines) in [
            ("rtt", "rtt = '100h'"),
            ("jitter", "rtt = '10ms'\njitter = '6ms'"),
            ("rate", "rate = 1"),
            ("trace", "rate = '1Mbit'\ntrace = 'a'"),
            ("queue", "rate = '1Mbit'\nqueue = 0"),
            ("queue", "rate = '1Mbit'\nqueue = '1KiB'"),
            ("queue", "rtt = '1ms'\nqueue = 10"),
            ("queue", "rtt = '1ms'\nout = { rate = '1Mbit' }\nback = { queue = 10 }"),
            ("limit", "limit = 0"),
            ("loss", "loss = '100%'"),
            ("loss_burst", "loss = '1%'\nloss_burst = 0.5"),
            ("reorder", "reorder = '1%'"),
            ("largest", "largest = 40"),
            ("sysctls", "sysctls = { 'kernel.pid_max' = '1' }"),
        ] {
            let error = path(lines).unwrap_err();
            assert!(error.starts_with(&format!("path: {part}: ")), "{lines}: {error}");
        }
        for (lines, says) in [
            ("rate = '0Mbit'", "is not a rate"),
            ("loss = '101%'", "is not a share"),
            ("rate = '1Mbit'\nqueue = 'many'", "is not a queue"),
        ] {
            let error = path(lines).unwrap_err();
            assert!(error.contains(says), "{lines}: {error}");
        }
    }
}
