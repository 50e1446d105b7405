//! The target's peers: the connections that it opened itself, by the address at their other end; and those that came to
//! another of its ports than the loaded ones, where they are few, as a channel between nodes does that the other node opened.
//! Of a peer whose process is on this host the connections that it opened are sampled alike, and so on.
//!
//! A connection is *asked* while its last bytes went out later than any came in, or are not all sent or acknowledged,
//! while it connects, or in its first second if neither end has sent anything: a greeting is due. It is asked too
//! if more came after the instant, before it sent again: then it was in the midst of an answer. Counts are sums over
//! the instants of a dump: divided by `peer.instants` they are mean numbers, and `asked` is how many questions are
//! out at once.
//!
//! The kernel has no times of UDP and Unix sockets. Where they come and go (a resolver opens one for each lookup,
//! nginx one for each request to php-fpm) each open one has a question out; where they stay (a metrics sink, a pool
//! of a database's connections) only those count from which a thread of the target waits to read, and Unix sockets whose
//! other end has not read all of the question, or has threads that wait to read from others and not from it. An event loop
//! waits for all of its sockets at once: where it is at both ends, none is counted.
//!
//! Source: a `sock_diag` dump with `INET_DIAG_INFO` (`struct tcp_info`, `linux/tcp.h`) of the target's network
//! namespace, and dumps of its UDP and Unix sockets; which sockets are the target's, by `/proc/PID/fd`; of a peer on
//! this host, `/proc/PID/task/TID/schedstat` of its process tree. Facts besides: `address` (`10.0.0.2:5432`,
//! `10.0.0.2:53/udp`, `unix:/run/php.sock`); of a peer on this host `process`, its name, and `pid`.
//!
//! Blind spots: the kernel's times are whole ticks: what was sent and came in the same one is distinguished by the
//! number of segments, and undecided (`asked_maybe`) where answers have several; a peer that never answers (a log, a
//! metrics sink) is asked for ever; two questions on one connection are one; a Unix socket from which a thread reads a
//! subscription counts as asked; Unix sockets without a name at the other end have no known peer; peers beyond the eight
//! addresses with most connections are left out.

use std::time::Duration;

use super::{Fetch, Parse, Source};

mod asked;
mod contact;
mod sums;

pub use asked::Asked;
pub use contact::{Answered, Contact, Question, Socket, Then, Whom, sockets};
pub use sums::Peers;

pub(super) const SOURCE: Source = Source {
    id: "peers",
    says: "the target's dependencies, and its requests to them under way",
    of: "peer/N",
    fetch: Fetch::Peers,
    metrics: METRICS,
    parse: Parse::AddedUp,
};

metrics! {
    /// Instants at which the target's own connections were sampled, since sampling began; most of what follows are sums over them.
    INSTANTS: u64 = "peer.instants", "1";
    /// Sockets of the target to this address: those that it opened, or those that came from there to a port that is not loaded.
    CONNECTIONS: u64 = "peer.connections", "1";
    /// Of those, the ones with a question out: connecting, new and without a greeting, sent and not acknowledged, sent later than received, or in the midst of an answer; of UDP and Unix sockets those that come and go, those that a thread waits to read from, and those at whose other end the question is unread or a thread works.
    ASKED: u64 = "peer.asked", "1";
    /// Of those, the ones on which the last bytes went out and came in within the same millisecond: half of them may be asked.
    ASKED_MAYBE: u64 = "peer.asked_maybe", "1";
    /// Of those, the ones with bytes that the target wrote and the kernel could not send yet (`tcpi_notsent_bytes`).
    UNSENT: u64 = "peer.unsent", "1";
    /// Of those, the ones that are held by Nagle: less than a segment is unsent, an ACK is outstanding, and both windows have room.
    HELD_NAGLE: u64 = "peer.held_nagle", "1";
    /// Of the connections with a question out, the ones that have sent one segment at most: their peer does what it does for a new connection, or answers their only question.
    ASKED_FIRST: u64 = "peer.asked_first", "1";
    /// Of the connections with a question out, the ones that have sent two.
    ASKED_SECOND: u64 = "peer.asked_second", "1";
    /// Sightings of connections to this address on which a second question had been sent after an answer, where each is a segment.
    SECOND: u64 = "peer.second", "1";
    /// Sightings of those on which a third had been.
    THIRD: u64 = "peer.third", "1";
    /// Unix sockets that stay, of which nothing tells whether a question is out: event loops are at both ends.
    UNTOLD: u64 = "peer.untold", "1";
    /// Connections with a question out at the first instant, and without a segment of data either way until the last: it has hung, or is a subscription; a state.
    UNANSWERED: u64 = "peer.unanswered", "1";
    /// Samples of single connections to it, since sampling began: those of the addresses with fewest, four in all, are sampled more often than all are dumped.
    LOOKS: u64 = "peer.looks", "1";
    /// Of those, the ones that found a question out.
    LOOKS_ASKED: u64 = "peer.looks_asked", "1";
    /// Segments with data that came on these single connections, since sampling began.
    CAME: u64 = "peer.came", "1";
    /// Segments with data sent on these, since each was opened; a state.
    SEGMENTS_OUT: u64 = "peer.segments_out", "1";
    /// Segments with data that came on these, since each was opened; a state. Where a message is a segment, questions out are what
    /// is sent beyond it.
    SEGMENTS_IN: u64 = "peer.segments_in", "1";
    /// Connections to it in TIME_WAIT when sampling ended.
    TIME_WAIT: u64 = "peer.time_wait", "1";
    /// How many ports there are from the lowest to the highest local port of these and of the open ones.
    PORTS: u64 = "peer.ports", "1";
    /// CPU time of the peer's process tree where it is on this host, since it began, children that ended included; counted in ticks of 10 ms (`utime`, `stime`, `cutime`, `cstime`).
    RUN: Duration = "peer.run", "ns";
    /// Time on a CPU of its thread that ran most since it was found, from then on.
    BUSIEST_THREAD: Duration = "peer.busiest_thread", "ns";
}
