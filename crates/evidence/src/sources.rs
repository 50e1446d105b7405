//! Evidence sources: what to fetch, and how to read the answer. To add one: a file here, its line
//! in [`SOURCES`], and its metrics in `docs/evidence.md` (a test prints the lines to paste).
//!
//! A source fetches nothing itself: the probe does, and passes the bytes on with the instant at
//! which they were read. What an older kernel lacks is not pushed; what can't be read is an
//! [`UnreadableSource`] that quotes it.

use std::fmt;

use linerate_model::Timestamp;

use crate::evidence::Evidence;
use crate::metric::AnyMetric;
use crate::subject::Subject;

/// Metrics from one block each: the constant for rules, and its row for tables.
macro_rules! metrics {
    ($($(#[doc = $says:literal])+ $name:ident: $quantity:ty = $id:literal, $unit:literal;)+) => {
        $(
            $(#[doc = $says])+
            #[doc = concat!("\n\nStored in `", $unit, "` as `", $id, "`.")]
            pub const $name: crate::metric::Metric<$quantity> = crate::metric::Metric::new($id);
        )+

        /// Every metric above, for tables.
        pub(super) const METRICS: &[crate::metric::AnyMetric] = &[$(
            crate::metric::AnyMetric { name: $id, unit: $unit, says: concat!($($says),+) }
        ),+];
    };
}

pub mod acceptor;
pub mod between;
pub mod broker;
pub mod bursts;
pub mod callees;
pub mod calls;
pub mod capture;
pub mod census;
pub mod clients;
pub mod code;
pub mod cpus;
pub mod diskstats;
pub mod dist;
pub mod doing;
pub mod engine;
pub mod epoll;
pub mod erlang;
pub mod far;
pub mod kernel_code;
pub mod link;
pub mod listener;
pub mod netstat;
pub mod node;
pub mod owner;
pub mod peers;
pub mod port;
pub mod process;
pub mod queue;
pub mod run_times;
pub mod scheduler;
pub mod snmp;
pub mod sockets;
pub mod sockstat;
pub mod softnet;
pub mod spinning;
pub mod stat;
pub mod stream;
pub mod suspect;
pub mod tcp_info;
pub mod threads;
pub mod unix_diag;
pub mod vm;
pub mod waits;

mod groups;
mod pairs;
mod sock_diag;
mod syscalls;

/// Every source, in the order in which a sampling round reads them.
pub static SOURCES: &[&Source] = &[
    &tcp_info::SOURCE,
    &listener::SOURCE,
    &capture::SOURCE,
    &bursts::SOURCE,
    &netstat::SOURCE,
    &snmp::SOURCE,
    &sockstat::SOURCE,
    &diskstats::SOURCE,
    &softnet::SOURCE,
    &stat::SOURCE,
    &link::SOURCE,
    &census::SOURCE,
    &process::SOURCE,
    &calls::SOURCE,
    &stream::SOURCE,
    &engine::SOURCE,
    &threads::SOURCE,
    &spinning::SOURCE,
    &code::SOURCE,
    &kernel_code::SOURCE,
    &erlang::SOURCE,
    &peers::SOURCE,
    &clients::SOURCE,
    &port::SOURCE,
    &owner::SOURCE,
    &acceptor::SOURCE,
    &dist::SOURCE,
    &vm::SOURCE,
    &scheduler::SOURCE,
    &suspect::SOURCE,
    &waits::SOURCE,
    &doing::SOURCE,
    &callees::SOURCE,
    &broker::SOURCE,
    &queue::SOURCE,
    &between::SOURCE,
];

/// One kind of evidence.
#[derive(Debug)]
pub struct Source {
    /// Its name in `unread` lines.
    pub id: &'static str,
    /// What it has, in a sentence.
    pub says: &'static str,
    /// What its samples are about, as in `docs/evidence.md`: `flow/N/SIDE`.
    pub of: &'static str,
    /// What to fetch.
    pub fetch: Fetch,
    /// Every metric it may push.
    pub metrics: &'static [AnyMetric],
    /// How to read the answer.
    pub parse: Parse,
}

/// What to fetch.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fetch {
    /// A file, the same for the whole machine.
    HostFile(&'static str),
    /// A file of `/proc/net` as each side's network namespace shows it, by its name there.
    StackFile(&'static str),
    /// The kernel's answer to a `sock_diag` question for one connection: `struct inet_diag_msg`
    /// and its attributes. Asked of each end.
    Connection,
    /// The kernel's answers to a `sock_diag` dump of the listening sockets, headers included.
    Listeners,
    /// Files of every process and thread of the target's tree.
    TargetTree,
    /// Files of the engine's threads, and of the control groups that this process is in.
    OwnThreads,
    /// The states of the threads in the target's tree, at random instants.
    Threads,
    /// System calls of the threads in the target's tree, counted by the kernel for a part of the time.
    Calls,
    /// The connections that the target's tree opened, at random instants.
    Peers,
    /// The probe inside the target's BEAM node: rows of all such sources at once.
    Node,
    /// The lab's links, by their own counters.
    Link,
    /// Samples of both ends of the engine's connections.
    Census,
    /// The headers of the target's packets, where a capture of them is asked for.
    Capture,
    /// The kernel's answers to `sock_diag` dumps of the connections of a port, where they are asked for.
    Bursts,
    /// The far end of streams, by its own counters.
    FarEnd,
}

/// How to read what was fetched.
#[derive(Clone, Copy, Debug)]
pub enum Parse {
    /// Answer by answer.
    Each(fn(&Answer<'_>, &mut Evidence) -> Result<(), UnreadableSource>),
    /// A round over the tree at a time, by [`process::Tree`], which remembers the threads that
    /// went.
    Tree,
    /// Added up by the source's own type: [`engine::Engine`], [`threads::Threads`], [`peers::Peers`], [`calls::Calls`].
    AddedUp,
    /// The probe's rows name their metrics: [`node::take`].
    Node,
    /// Nothing to read: [`link::DirectionReading::push`].
    Link,
    /// The sampler counts: [`census::Counts::push`].
    Census,
    /// Packet by packet, by [`capture::Exchanges`].
    Capture,
    /// A round of dumps at a time, by [`bursts::Counts`].
    Bursts,
    /// Nothing to read: [`stream::FarEndReading::push`].
    FarEnd,
}

/// An answer.
#[derive(Clone, Copy, Debug)]
pub struct Answer<'a> {
    /// When it was read.
    pub at: Timestamp,
    /// Its subject.
    pub of: Subject,
    /// As it came.
    pub bytes: &'a [u8],
}

/// An answer that could not be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("{place}: expected {expected}, found {found}")]
pub struct UnreadableSource {
    /// `line 3`, `byte 16`.
    pub place: String,
    /// What should have been there.
    pub expected: &'static str,
    /// What was there.
    pub found: String,
}

impl UnreadableSource {
    /// A line of text, from 0, that is not what it should be.
    pub(crate) fn line(index: usize, expected: &'static str, line: &str) -> Self {
        Self { place: format!("line {}", index + 1), expected, found: quoted(line) }
    }

    /// Text that ends without what should have been there.
    pub(crate) fn missing(expected: &'static str, text: &str) -> Self {
        Self {
            place: format!("line {}", text.lines().count() + 1),
            expected,
            found: "the end".into(),
        }
    }

    /// Bytes that end too early.
    pub(crate) fn short(offset: usize, expected: &'static str, left: usize) -> Self {
        Self { place: format!("byte {offset}"), expected, found: format!("{left} bytes") }
    }
}

/// Enough of a line to identify it: kernel lines can run to kilobytes.
fn quoted(line: &str) -> String {
    let mut cut: String = line.chars().take(80).collect();
    if cut.len() < line.len() {
        cut.push('…');
    }
    format!("`{cut}`")
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.id)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::subject::Side;
    use proptest::prelude::*;
    use std::collections::BTreeSet;

    #[test]
    fn ids_and_metric_names_are_unique_and_metrics_are_named_source_dot_what() {
        let (mut ids, mut names) = (BTreeSet::new(), BTreeSet::new());
        for source in SOURCES {
            assert!(ids.insert(source.id), "{source} stands twice");
            for metric in source.metrics {
                assert!(names.insert(metric.name), "{} stands twice", metric.name);
                let words: Vec<&str> = metric.name.split('.').collect();
                assert_eq!(words.len(), 2, "{}", metric.name);
                let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
                assert!(words.iter().all(|word| word.chars().all(plain)), "{}", metric.name);
                assert!(["ns", "B", "B/s", "1", "segments"].contains(&metric.unit), "{metric:?}");
                assert!(metric.says.trim().ends_with('.'), "{metric:?}");
            }
        }
    }

    /// A metric's line in the document's table.
    fn row(source: &Source, metric: &AnyMetric) -> String {
        format!("| `{}` | {} | {} | {} |", metric.name, metric.unit, source.of, metric.says.trim())
    }

    #[test]
    fn every_metric_is_in_the_document_in_the_words_of_the_code() {
        let document = include_str!("../../../docs/evidence.md");
        let lines: BTreeSet<&str> = document.lines().collect();
        let mut missing = String::new();
        for source in SOURCES {
            for metric in source.metrics {
                let row = row(source, metric);
                if !lines.contains(row.as_str()) {
                    missing.push_str(&row);
                    missing.push('\n');
                }
            }
        }
        assert!(missing.is_empty(), "docs/evidence.md lacks these lines:\n{missing}");
    }

    #[test]
    fn the_document_names_no_metric_that_no_source_has() {
        let document = include_str!("../../../docs/evidence.md");
        let names: BTreeSet<&str> =
            SOURCES.iter().flat_map(|source| source.metrics).map(|metric| metric.name).collect();
        let (_, tables) = document.split_once("\n## Sources\n").unwrap();
        for line in tables.lines().filter(|line| line.starts_with("| `")) {
            let name = line.split('`').nth(1).unwrap_or_default();
            assert!(names.contains(name), "{name}");
        }
    }

    fn parse_all(bytes: &[u8]) {
        for source in SOURCES {
            let of = match source.fetch {
                Fetch::Connection => Subject::Flow(0, Side::Server),
                Fetch::Listeners => Subject::Listener(80),
                _ => Subject::Host,
            };
            if let Parse::Each(parse) = source.parse {
                let _ = parse(&Answer { at: Timestamp(0), of, bytes }, &mut Evidence::default());
            }
        }
    }

    proptest! {
        #[test]
        fn no_bytes_make_a_parser_panic(bytes in proptest::collection::vec(any::<u8>(), 0..600)) {
            parse_all(&bytes);
        }

        #[test]
        fn nor_does_text_that_looks_like_the_kernels(
            text in "((TcpExt|Tcp|TCP|sockets|cpu[0-9]{0,6}|ctxt|intr)[: ]([A-Za-z]+ |-?[0-9a-f]{1,22} ){0,14}\n){0,6}",
        ) {
            parse_all(text.as_bytes());
        }
    }
}
