//! Connections as a list: what kernel and node say of one and the same.

use std::collections::BTreeMap;

use linerate_evidence::sources::{port, tcp_info};
use linerate_evidence::{Evidence, Metric, Of, Side, Subject};
use serde::{Deserialize, Serialize};

// Chosen: what a person reads.
const LISTED: usize = 10;

/// One connection of the target. Counts are of the time it was watched.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Connection {
    /// Its end, `ip:port`.
    pub local: String,
    /// The other end.
    pub peer: String,
    /// The process that owns it, as the node names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub owner: Option<String>,
    /// Messages in that one's mailbox at most.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mailbox: Option<u64>,
    /// Reads a second.
    pub reads_per_s: f64,
    /// Bytes a second it read.
    pub read_bytes_per_s: f64,
    /// Bytes a second it wrote.
    pub written_bytes_per_s: f64,
    /// Most bytes in the driver's queue, which the kernel would not take.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub driver_queue_bytes: Option<u64>,
    /// Options of the socket, in the words of `inet:setopts/2`.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub options: BTreeMap<String, String>,
    /// What the kernel says; absent when it was not asked.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kernel: Option<Kernel>,
    /// What is wrong with it, in words; empty when nothing stands out.
    pub trouble: Vec<String>,
    /// Sampled connections with the same owner, options and trouble, this one among them.
    #[serde(default, skip_serializing_if = "is_nought")]
    pub alike: u64,
}

/// Of documents of an older linerate.
fn is_nought(count: &u64) -> bool {
    *count == 0
}

/// One end of a connection as the kernel has it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Kernel {
    /// Smoothed round-trip time, median. Unit: microseconds.
    pub rtt_us: f64,
    /// The shortest.
    pub min_rtt_us: f64,
    /// Segments sent and not acknowledged, at most.
    pub unacked: u64,
    /// Bytes written and not sent, at most.
    pub notsent_bytes: u64,
    /// Bytes received and not read, at most.
    pub unread_bytes: u64,
    /// Segments sent again.
    pub retransmitted: u64,
    /// Share of its busy time in which the peer's window held it back; absent when it was not busy.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub window_limited: Option<f64>,
}

/// Sampled connections, those in most trouble first; of equal ones the longest queues, then the busiest.
pub(super) fn worst(evidence: &Evidence) -> Vec<Connection> {
    let mut found: Vec<(f64, u64, f64, Connection)> = evidence
        .flows(Side::Server)
        .into_iter()
        .map(|id| {
            let of = Subject::Flow(id, Side::Server);
            let (connection, trouble) = connection(evidence, of);
            let moved = connection.read_bytes_per_s + connection.written_bytes_per_s;
            (trouble, connection.queued_bytes(), moved, connection)
        })
        .collect();
    found.sort_by(|a, b| b.0.total_cmp(&a.0).then(b.1.cmp(&a.1)).then(b.2.total_cmp(&a.2)));
    let mut alike: BTreeMap<String, u64> = BTreeMap::new();
    for (.., connection) in &found {
        *alike.entry(connection.likeness()).or_default() += 1;
    }
    let counted = |(.., connection): (f64, u64, f64, Connection)| {
        let alike = alike[&connection.likeness()];
        Connection { alike, ..connection }
    };
    found.into_iter().take(LISTED).map(counted).collect()
}

impl Connection {
    /// What it has in common with others: its owner but for the pid, its options, its trouble but for how
    /// much.
    pub(crate) fn likeness(&self) -> String {
        let owner = self.owner.as_deref().unwrap_or("");
        let owner = owner.split(" <").next().unwrap_or(owner);
        let port = self.local.rsplit(':').next().unwrap_or("");
        let trouble: String =
            self.trouble.join("; ").chars().filter(|c| !c.is_ascii_digit() && *c != '.').collect();
        // A pid alone is no name.
        let owner = if owner.starts_with('<') { "" } else { owner };
        format!("{port} {owner} {:?} {trouble}", self.options)
    }

    /// What waits at it, each queue at its longest.
    fn queued_bytes(&self) -> u64 {
        let kernel = self.kernel.as_ref();
        let of_kernel = kernel.map_or(0, |kernel| kernel.unread_bytes + kernel.notsent_bytes);
        self.driver_queue_bytes.unwrap_or(0) + of_kernel
    }
}

/// A connection, and how much is wrong with it.
fn connection(evidence: &Evidence, subject: Subject) -> (Connection, f64) {
    let of = evidence.of(subject);
    let fact = |name| evidence.fact(subject, name).map(str::to_owned);
    let mut connection = Connection {
        local: fact("local").unwrap_or_default(),
        peer: fact("peer").unwrap_or_else(|| subject.to_string()),
        owner: match (fact("owner_name"), fact("owner")) {
            (Some(name), Some(pid)) if name != pid => Some(format!("{name} {pid}")),
            (name, pid) => name.or(pid),
        },
        mailbox: of.max(Metric::<u64>::new("owner.mailbox")).ok(),
        reads_per_s: rate(&of, port::RECV_CNT.name, tcp_info::DATA_SEGS_IN.name),
        read_bytes_per_s: rate(&of, port::RECV_OCT.name, tcp_info::BYTES_RECEIVED.name),
        written_bytes_per_s: rate(&of, port::SEND_OCT.name, tcp_info::BYTES_ACKED.name),
        driver_queue_bytes: of.max(port::QUEUE).ok().map(|bytes| bytes.0),
        options: options(&of),
        kernel: kernel(&of),
        trouble: Vec::new(),
        alike: 0,
    };
    let found = troubles(&of, &connection);
    let sum = found.iter().map(|(weight, _)| weight).sum();
    connection.trouble = found.into_iter().map(|(_, says)| says).collect();
    (connection, sum)
}

/// What stands out, and how much.
// Chosen: a queue that is never emptied outweighs one that was seen once.
fn troubles(of: &Of<'_>, connection: &Connection) -> Vec<(f64, String)> {
    let mut found = Vec::new();
    let mut say = |weight: f64, says: String| found.push((weight, says));
    let share = |metric: &'static str| share_above(of, metric, 0.0);
    let queued = share(port::QUEUE.name);
    if queued >= 0.1 {
        say(2.0 * queued, format!("driver queue in {:.0} % of samples", queued * 100.0));
    }
    if let Some(mailbox) = connection.mailbox.filter(|mailbox| *mailbox >= 10) {
        say((mailbox as f64).log10() / 2.0, format!("{mailbox} messages wait for its owner"));
    }
    let unsent = share(tcp_info::NOTSENT_BYTES.name);
    if unsent >= 0.3 {
        say(2.0 * unsent, format!("bytes unsent in {:.0} % of samples", unsent * 100.0));
    }
    // A request that is being answered is unread too: only a queue that fills its buffer tells.
    let buffer = of.max(tcp_info::RCVBUF).map_or(f64::INFINITY, |bytes| bytes.0 as f64);
    let unread = share_above(of, tcp_info::RQUEUE.name, buffer / 4.0);
    if unread >= 0.5 {
        say(unread, format!("receive buffer a quarter full in {:.0} % of samples", unread * 100.0));
    }
    let (sent, again) =
        (delta(of, tcp_info::DATA_SEGS_OUT.name), delta(of, tcp_info::TOTAL_RETRANS.name));
    if again > 0.0 && again >= 0.001 * sent {
        let part = again / sent.max(again);
        say(1.0 + part, format!("{:.1} % of segments retransmitted", part * 100.0));
    }
    let limited = connection.kernel.as_ref().and_then(|kernel| kernel.window_limited);
    if let Some(limited) = limited.filter(|limited| *limited >= 0.5) {
        say(limited, format!("rwnd-limited for {:.0} % of its busy time", limited * 100.0));
    }
    found
}

fn kernel(of: &Of<'_>) -> Option<Kernel> {
    let us = |time: std::time::Duration| time.as_secs_f64() * 1e6;
    let busy = of.delta(tcp_info::BUSY_TIME).ok().filter(|(busy, _)| !busy.is_zero());
    let limited = of.delta(tcp_info::RWND_LIMITED).ok();
    Some(Kernel {
        // Without it nothing of the kernel's is there.
        unacked: of.max(tcp_info::UNACKED).ok()?,
        rtt_us: of.median(tcp_info::RTT).map_or(0.0, us),
        min_rtt_us: of.min(tcp_info::MIN_RTT).map_or(0.0, us),
        notsent_bytes: of.max(tcp_info::NOTSENT_BYTES).map_or(0, |bytes| bytes.0),
        unread_bytes: of.max(tcp_info::RQUEUE).map_or(0, |bytes| bytes.0),
        retransmitted: delta(of, tcp_info::TOTAL_RETRANS.name) as u64,
        window_limited: busy
            .zip(limited)
            .map(|((busy, _), (limited, _))| limited.as_secs_f64() / busy.as_secs_f64()),
    })
}

/// In the words in which they are set.
fn options(of: &Of<'_>) -> BTreeMap<String, String> {
    let mut options = BTreeMap::new();
    let mut last = |name: &str, metric: &'static str, words: &[(u64, &str)]| {
        let Ok(value) = of.last(Metric::<u64>::new(metric)) else { return };
        let word = words.iter().find(|(known, _)| *known == value);
        options.insert(
            name.to_owned(),
            word.map_or_else(|| value.to_string(), |(_, word)| (*word).to_owned()),
        );
    };
    let flag = &[(0, "false"), (1, "true")];
    last("nodelay", port::NODELAY.name, flag);
    last("delay_send", port::DELAY_SEND.name, flag);
    last("buffer", port::BUFFER.name, &[]);
    last("recbuf", port::RECBUF.name, &[]);
    last("sndbuf", port::SNDBUF.name, &[]);
    last("high_watermark", port::HIGH_WATERMARK.name, &[]);
    last("mode", port::LIST_MODE.name, &[(0, "binary"), (1, "list")]);
    let packet = &[(0, "raw"), (10, "line"), (11, "http"), (12, "other")];
    last("packet", port::PACKET.name, packet);
    last("active", port::ACTIVE.name, &[(0, "false"), (1, "once"), (2, "N"), (3, "true")]);
    last("backend", port::SOCKET_BACKEND.name, &[(0, "inet"), (1, "socket")]);
    options
}

/// Share of samples; none of a connection that was hardly seen.
// Chosen: one sample of two is chance.
fn share_above(of: &Of<'_>, metric: &'static str, limit: f64) -> f64 {
    let samples = of.all(Metric::<u64>::new(metric)).unwrap_or_default();
    if samples.len() < 3 {
        return 0.0;
    }
    let above = samples.iter().filter(|(_, value)| *value as f64 > limit).count();
    above as f64 / samples.len().max(1) as f64
}

fn delta(of: &Of<'_>, metric: &'static str) -> f64 {
    of.delta(Metric::<u64>::new(metric)).map_or(0.0, |(count, _)| count as f64)
}

/// A counter's growth a second: the driver's, or else the kernel's.
fn rate(of: &Of<'_>, driver: &'static str, kernel: &'static str) -> f64 {
    let of = |metric| of.delta(Metric::<u64>::new(metric));
    of(driver)
        .or_else(|_| of(kernel))
        .map_or(0.0, |(count, over)| count as f64 / over.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_model::{Bytes, Timestamp};

    #[test]
    fn one_in_trouble_stands_before_one_that_is_only_busy() {
        let mut evidence = Evidence::default();
        for (at, read) in [(0, 0), (500_000_000, 1), (1_000_000_000, 5_000_000)] {
            let (at, busy, stuck) = (
                Timestamp(at),
                Subject::Flow(1000, Side::Server),
                Subject::Flow(1001, Side::Server),
            );
            evidence.push(at, busy, port::RECV_OCT, Bytes(read));
            evidence.push(at, stuck, port::QUEUE, Bytes(70_000));
            evidence.push(at, stuck, port::NODELAY, 0);
        }
        let found = worst(&evidence);
        assert_eq!(found[0].peer, "flow/1001/server");
        assert_eq!(found[0].trouble, ["driver queue in 100 % of samples"]);
        assert_eq!(found[0].options["nodelay"], "false");
        assert_eq!((found[1].read_bytes_per_s, found[1].trouble.len()), (5_000_000.0, 0));
        assert!(found[1].kernel.is_none());
    }

    #[test]
    fn without_trouble_the_longest_queue_stands_first() {
        let mut evidence = Evidence::default();
        for (id, queue, read) in [(1000, 0, 9_000_000), (1001, 300, 10), (1002, 20_000, 0)] {
            let of = Subject::Flow(id, Side::Server);
            // Seen in two samples only: no trouble.
            for (at, times) in [(0, 0), (1_000_000_000, 1)] {
                evidence.push(Timestamp(at), of, port::QUEUE, Bytes(queue));
                evidence.push(Timestamp(at), of, port::RECV_OCT, Bytes(read * times));
            }
        }
        let peers: Vec<String> = worst(&evidence).into_iter().map(|of| of.peer).collect();
        assert_eq!(peers, ["flow/1002/server", "flow/1001/server", "flow/1000/server"]);
    }
}
