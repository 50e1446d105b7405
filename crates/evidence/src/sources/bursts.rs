//! Where a watched port's connections are, sampled at the server's end alone.
//!
//! At an instant each connection is at one place: in the accept queue, idle, unread, in the application (received
//! later than sent), held in its send queue, or in flight. Counts are summed up over instants, so that
//! `bursts.application / bursts.instants` connections were in the application on average; with random instants, that
//! is the mean over time. Where several would do, the one furthest downstream counts.
//!
//! The kernel's "last received" and "last sent" are in jiffies (1 to 10 ms): equal ones don't show which was later.
//! Later samples, a millisecond apart, do: a server that sent next had been asked ([`places`]); so does a client that
//! acknowledges with its next request only ([`End::place`]).
//!
//! Blind spot: requests and answers are taken to alternate: a server that sends on its own is idle, and a message
//! that needs no answer stays in the application for ever. On a path of less than 0.5 ms what is in flight counts as
//! idle; on a longer one an answer may seem in flight a tick longer than it was.
//!
//! Source: `sock_diag` with `INET_DIAG_INFO` and `INET_DIAG_SKMEMINFO`; `struct tcp_info`, `linux/tcp.h`; a socket that
//! is not accepted has no inode (`inet_csk_accept`, `sock_graft`).

mod counts;
mod unanswered;

use std::net::SocketAddr;

use super::census::is_full;
use super::sock_diag::{self, Message, u32_at, u64_at};
use super::{Fetch, Parse, Source, sockets};
use crate::metric::Metric;

pub use counts::Counts;
pub use unanswered::Unanswered;

pub(super) const SOURCE: Source = Source {
    id: "bursts",
    says: "where a watched port's connections are, at random instants",
    of: "listener/PORT",
    fetch: Fetch::Bursts,
    metrics: METRICS,
    parse: Parse::Bursts,
};

metrics! {
    /// Instants at which the port's connections were sampled, since sampling began.
    INSTANTS: u64 = "bursts.instants", "1";
    /// Connections that were there, summed up over the instants.
    CONNECTIONS: u64 = "bursts.connections", "1";
    /// Of those, in the accept queue: made, and not accepted.
    ACCEPT_QUEUE: u64 = "bursts.accept_queue", "1";
    /// With nothing asked, or nothing ever.
    IDLE: u64 = "bursts.idle", "1";
    /// With data that arrived and was not read.
    UNREAD: u64 = "bursts.unread", "1";
    /// With the application: all was read, and received later than sent.
    APPLICATION: u64 = "bursts.application", "1";
    /// With bytes unsent that Nagle's algorithm holds: less than a segment, while others are unacknowledged.
    HELD_NAGLE: u64 = "bursts.held_nagle", "1";
    /// With bytes unsent that the congestion window holds.
    HELD_CONGESTION: u64 = "bursts.held_congestion", "1";
    /// With bytes unsent that the peer's receive window holds.
    HELD_WINDOW: u64 = "bursts.held_window", "1";
    /// With all written bytes sent, some unacknowledged, and the send buffer so full that a writer waits: whether one does
    /// is seen by the answers alone. Of those some are idle.
    HELD_BUFFER: u64 = "bursts.held_buffer", "1";
    /// With bytes unsent that something else holds: pacing, the device's queue, a cork.
    HELD_OTHER: u64 = "bursts.held_other", "1";
    /// With all sent, not long enough ago to have arrived, or to be sent again; within 0.5 ms of round trip idle instead.
    AIR: u64 = "bursts.air", "1";
    /// Received and sent in the same tick, and nothing followed by which to tell which was later.
    UNDECIDED: u64 = "bursts.undecided", "1";
    /// Instants at which all of the port's connections were sampled, three or more of them.
    WHOLE: u64 = "bursts.whole", "1";
    /// Of these, the ones at which most connections were unread or with the application, and nothing had come or gone on any for 20 ms.
    STILL: u64 = "bursts.still", "1";
    /// Connections with the application, or unread, in the first dump of all, and without a byte either way until the last; of those that were read none where the port answers nobody; a state.
    UNANSWERED: u64 = "bursts.unanswered", "1";
    /// Of these, the ones that are not even read; a state.
    UNANSWERED_UNREAD: u64 = "bursts.unanswered_unread", "1";
    /// Of these, the ones whose requests are as long as those of a connection that was answered meanwhile; a state.
    UNANSWERED_ALIKE: u64 = "bursts.unanswered_alike", "1";
    /// Connections as those of `bursts.unanswered`, read, at a port that has sent nothing on any open one; a state.
    SILENT: u64 = "bursts.silent", "1";
    /// Of these, the ones whose requests are as long as one on a connection that came since the first dump; a state.
    SILENT_ALIKE: u64 = "bursts.silent_alike", "1";
}

/// Where a connection is, seen from the server's end.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub enum Place {
    /// See [`ACCEPT_QUEUE`].
    AcceptQueue,
    /// See [`IDLE`].
    Idle,
    /// See [`UNREAD`].
    Unread,
    /// See [`APPLICATION`].
    Application,
    /// See [`HELD_NAGLE`].
    HeldNagle,
    /// See [`HELD_CONGESTION`].
    HeldCongestion,
    /// See [`HELD_WINDOW`].
    HeldWindow,
    /// See [`HELD_BUFFER`].
    HeldBuffer,
    /// See [`HELD_OTHER`].
    HeldOther,
    /// See [`AIR`].
    Air,
    /// See [`UNDECIDED`].
    Undecided,
}

impl Place {
    /// Every place.
    pub const ALL: [Place; 11] = [
        Place::AcceptQueue,
        Place::Idle,
        Place::Unread,
        Place::Application,
        Place::HeldNagle,
        Place::HeldCongestion,
        Place::HeldWindow,
        Place::HeldBuffer,
        Place::HeldOther,
        Place::Air,
        Place::Undecided,
    ];

    /// The metric that counts it.
    pub fn metric(self) -> Metric<u64> {
        match self {
            Place::AcceptQueue => ACCEPT_QUEUE,
            Place::Idle => IDLE,
            Place::Unread => UNREAD,
            Place::Application => APPLICATION,
            Place::HeldNagle => HELD_NAGLE,
            Place::HeldCongestion => HELD_CONGESTION,
            Place::HeldWindow => HELD_WINDOW,
            Place::HeldBuffer => HELD_BUFFER,
            Place::HeldOther => HELD_OTHER,
            Place::Air => AIR,
            Place::Undecided => UNDECIDED,
        }
    }
}

/// How much longer ago than a round trip something in flight may seem to have been sent.
// Source: `tcp_jiffies32`: stamps are of 4 ms where HZ is 250, the most usual; one tick and its rounding.
const TICK_MS: u32 = 5;

/// A peer within this round trip has what was sent: of a tick it is in flight for a small part, and for the rest its
/// acknowledgement waits for the client's next request.
// Chosen: a tenth of a tick; the loopback and a rack are below, another city is above.
const NEAR_US: u32 = 500;

/// Of the segments with data that were sent, at most one in so many was acknowledged alone.
// Chosen: a client that answers within the acknowledgement delay sends none alone, but for handshakes and pauses.
const ALONE: u32 = 20;

/// For so long nothing came or went while it is still.
// Chosen: five ticks; ten times an exchange that takes 2 ms.
pub const STILL_MS: u32 = 20;

/// One end of a connection, by the kernel.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct End {
    /// The watched end.
    pub local: SocketAddr,
    /// The other.
    pub peer: SocketAddr,
    accepted: bool,
    /// Received and not read; written and not acknowledged; of that, not sent. Unit: bytes.
    unread: u32,
    unacknowledged: u32,
    unsent: u32,
    /// Unit: ms.
    since_sent: u32,
    since_received: u32,
    since_acknowledged: u32,
    /// Unit: bytes.
    sent: u64,
    received: u64,
    /// Unit: segments with data.
    received_segments: u32,
    /// Unit: segments.
    in_flight: u32,
    window: u32,
    backoff: u8,
    /// Unit: bytes.
    segment: u32,
    peers_window: Option<u32>,
    /// Unit: us.
    round_trip: u32,
    acknowledgements_alone: u32,
    data_segments: u32,
    is_full: bool,
}

/// The ends of a port's connections in a dump with `INET_DIAG_INFO`, and of full send buffers with
/// `INET_DIAG_SKMEMINFO`. Those with too little in it (a kernel before
/// 4.19) are skipped.
pub fn ends(dump: &[u8], port: u16) -> Vec<End> {
    let ends = sock_diag::payloads(dump).filter_map(End::read);
    ends.filter(|end| end.local.port() == port).collect()
}

impl End {
    /// From one answer about one connection.
    pub fn read(payload: &[u8]) -> Option<Self> {
        const INFO: u16 = 2;
        const MEMORY: u16 = 7;
        let message = Message::read(payload).ok()?;
        let connection = sockets::connection(payload)?;
        let attribute = |of| sock_diag::attributes(payload).find(|(kind, _)| *kind == of);
        let (_, info) = attribute(INFO)?;
        // Source: `SK_MEMINFO_SNDBUF` and `SK_MEMINFO_WMEM_QUEUED`, linux/sock_diag.h.
        let memory = |at| attribute(MEMORY).and_then(|(_, words)| u32_at(words, at));
        let is_full =
            memory(12).zip(memory(20)).is_some_and(|(most, queued)| is_full(queued, most));
        let word = |at| u32_at(info, at);
        Some(Self {
            local: connection.local,
            peer: connection.peer,
            accepted: !sock_diag::is_unaccepted(message.state, message.inode),
            unread: message.rqueue,
            unacknowledged: message.wqueue,
            unsent: word(144)?,
            since_sent: word(44)?,
            since_received: word(52)?,
            since_acknowledged: word(56)?,
            sent: u64_at(info, 200)?,
            received: u64_at(info, 128)?,
            received_segments: word(152)?,
            in_flight: word(24)?,
            window: word(80)?,
            backoff: *info.get(4)?,
            segment: word(16)?,
            peers_window: word(228),
            round_trip: word(148).filter(|us| *us != u32::MAX).unwrap_or(0),
            acknowledgements_alone: word(140)?.saturating_sub(word(152)?),
            data_segments: word(156)?,
            is_full,
        })
    }

    /// Where it is, as far as one sample shows.
    pub fn place(&self) -> Place {
        if !self.accepted {
            return Place::AcceptQueue;
        }
        if self.unsent > 0 && self.unacknowledged > 0 {
            return self.held();
        }
        if self.unacknowledged > 0 {
            let arrives_ms = self.round_trip.div_ceil(1000).saturating_add(TICK_MS);
            let far = self.round_trip >= NEAR_US && self.since_sent <= arrives_ms;
            if self.backoff > 0 || far {
                return Place::Air;
            }
        }
        if self.unread > 0 {
            return Place::Unread;
        }
        if self.unacknowledged > 0 && self.is_full {
            return Place::HeldBuffer;
        }
        if self.received == 0 {
            return Place::Idle;
        }
        if self.sent == 0 || self.since_received < self.since_sent {
            return Place::Application;
        }
        if self.since_received > self.since_sent {
            return Place::Idle;
        }
        // A client that asks again acknowledges the answer.
        if self.unacknowledged > 0 {
            return Place::Idle;
        }
        // An answer that was acknowledged alone is the last word.
        if self.since_acknowledged.saturating_add(TICK_MS) < self.since_received {
            return Place::Idle;
        }
        // If the acknowledgement comes with the next request, there was one.
        let rides = self.acknowledgements_alone.saturating_mul(ALONE) <= self.data_segments;
        if rides && self.data_segments >= ALONE {
            return Place::Application;
        }
        Place::Undecided
    }

    fn held(&self) -> Place {
        let out = self.unacknowledged.saturating_sub(self.unsent);
        let next = self.unsent.min(self.segment.max(1));
        if self.peers_window.is_some_and(|window| window < out.saturating_add(next)) {
            Place::HeldWindow
        } else if self.in_flight >= self.window {
            Place::HeldCongestion
        } else if self.unsent < self.segment && out > 0 {
            Place::HeldNagle
        } else {
            Place::HeldOther
        }
    }

    /// Which of the two moved on since an earlier sample.
    fn moved_since(&self, earlier: &End) -> (bool, bool) {
        (self.received != earlier.received, self.sent != earlier.sent)
    }
}

/// Where one connection was at each of several samples, a millisecond or so apart: the next movement decides what one
/// sample leaves undecided, else the last one before.
pub fn places(samples: &[End]) -> Vec<Place> {
    let decided = |index: usize| {
        let here = &samples[index];
        let place = here.place();
        if place != Place::Undecided {
            return place;
        }
        let moved = |other: &&End| here.moved_since(other) != (false, false);
        let after = samples[index + 1..].iter().find(moved).map(|then| here.moved_since(then));
        let before = samples[..index].iter().rev().find(moved).map(|then| here.moved_since(then));
        match (after, before) {
            // It sent next, without being asked again; or was asked since it last sent.
            (Some((false, true)), _) | (_, Some((true, false))) => Place::Application,
            (Some((true, false)), _) | (_, Some((false, true))) => Place::Idle,
            _ => Place::Undecided,
        }
    };
    (0..samples.len()).map(decided).collect()
}

#[cfg(test)]
mod tests {
    use super::sock_diag::sample;
    use super::*;

    /// Accepted, asked once and answered long ago.
    pub(super) fn quiet() -> End {
        End {
            local: "127.0.0.1:80".parse().unwrap(),
            peer: "127.0.0.1:4000".parse().unwrap(),
            accepted: true,
            unread: 0,
            unacknowledged: 0,
            unsent: 0,
            since_sent: 500,
            since_received: 504,
            since_acknowledged: 460,
            sent: 1000,
            received: 1000,
            received_segments: 10,
            in_flight: 0,
            window: 10,
            backoff: 0,
            segment: 1448,
            peers_window: Some(65_536),
            round_trip: 40,
            acknowledgements_alone: 10,
            data_segments: 10,
            is_full: false,
        }
    }

    #[test]
    fn what_was_received_later_than_sent_is_with_the_application() {
        assert_eq!(quiet().place(), Place::Idle);
        assert_eq!(End { since_received: 20, ..quiet() }.place(), Place::Application);
        assert_eq!(End { unread: 10, since_received: 20, ..quiet() }.place(), Place::Unread);
        let never_asked = End { received: 0, since_received: 500, ..quiet() };
        assert_eq!(never_asked.place(), Place::Idle);
        // Never answered: stamps that are equal from the beginning don't matter.
        let unanswered = End { sent: 0, since_received: 500, ..quiet() };
        assert_eq!(unanswered.place(), Place::Application);
        assert_eq!(End { accepted: false, unread: 9, ..quiet() }.place(), Place::AcceptQueue);
    }

    #[test]
    fn a_full_send_buffer_is_told_until_its_bytes_are_acknowledged() {
        let full = End { unacknowledged: 4_000, is_full: true, ..quiet() };
        assert_eq!(full.place(), Place::HeldBuffer);
        assert_eq!(End { unread: 10, ..full }.place(), Place::Unread);
        assert_eq!(End { unacknowledged: 0, ..full }.place(), Place::Idle);
    }

    #[test]
    fn what_holds_unsent_bytes_is_named() {
        let out = End { unacknowledged: 1000, unsent: 400, in_flight: 1, ..quiet() };
        assert_eq!(out.place(), Place::HeldNagle);
        assert_eq!(End { in_flight: 10, ..out }.place(), Place::HeldCongestion);
        assert_eq!(End { peers_window: Some(999), ..out }.place(), Place::HeldWindow);
        assert_eq!(End { unsent: 2_000, unacknowledged: 3_000, ..out }.place(), Place::HeldOther);
        // Nothing out before it: Nagle lets it go.
        assert_eq!(End { unacknowledged: 400, ..out }.place(), Place::HeldOther);
    }

    #[test]
    fn an_answer_is_in_the_air_for_as_long_as_it_takes_and_not_for_its_acknowledgement() {
        let sent = End { unacknowledged: 100, since_sent: 3, since_received: 8, ..quiet() };
        // Its client is near, and has it.
        assert_eq!(sent.place(), Place::Idle);
        let sent = End { round_trip: 900, ..sent };
        assert_eq!(sent.place(), Place::Air);
        assert_eq!(End { since_sent: 30, since_received: 35, ..sent }.place(), Place::Idle);
        assert_eq!(End { since_sent: 30, round_trip: 80_000, ..sent }.place(), Place::Air);
        assert_eq!(End { since_sent: 900, backoff: 1, ..sent }.place(), Place::Air);
    }

    #[test]
    fn in_the_same_tick_an_acknowledgement_that_rides_on_requests_tells() {
        let same = End { since_sent: 12, since_received: 12, since_acknowledged: 12, ..quiet() };
        assert_eq!(same.place(), Place::Undecided);
        let rides = End { acknowledgements_alone: 2, data_segments: 1_000, ..same };
        assert_eq!(rides.place(), Place::Application);
        let rests = End { since_sent: 500, since_received: 500, ..rides };
        assert_eq!(End { since_acknowledged: 460, ..rests }.place(), Place::Idle);
        assert_eq!(End { since_acknowledged: 500, ..rests }.place(), Place::Application);
        // Its answer is unacknowledged: it was not asked again.
        assert_eq!(End { unacknowledged: 10, ..rides }.place(), Place::Idle);
        assert_eq!(End { unacknowledged: 10, ..same }.place(), Place::Idle);
    }

    #[test]
    fn the_next_movement_decides_and_else_the_last() {
        use Place::{Application, Idle, Undecided};
        let same = End { since_sent: 12, since_received: 12, ..quiet() };
        let asked = End { received: 1010, ..same };
        let answered = End { sent: 1020, ..asked };
        assert_eq!(places(&[same, same]), [Undecided, Undecided]);
        assert_eq!(places(&[same, same, asked]), [Idle, Idle, Application]);
        assert_eq!(places(&[asked, answered]), [Application, Idle]);
        // Both moved in between: undecided.
        assert_eq!(places(&[same, answered]), [Undecided, Undecided]);
    }

    #[test]
    fn an_end_is_read_from_the_kernels_answer() {
        let mut message = sample::message(1, 80, 5, 0);
        message[68..72].copy_from_slice(&77_u32.to_ne_bytes());
        let mut info = vec![0; 248];
        info[44..48].copy_from_slice(&12_u32.to_ne_bytes());
        info[128..136].copy_from_slice(&9_u64.to_ne_bytes());
        sample::attribute(&mut message, 2, &info);
        let mut dump = sample::framed(20, &message);
        dump.extend(sample::framed(20, &sample::message(1, 80, 5, 0)));
        let found = ends(&dump, 80);
        // The second is of a kernel that lacks it.
        assert_eq!((found.len(), ends(&dump, 81).len()), (1, 0));
        assert_eq!((found[0].since_sent, found[0].received), (12, 9));
        assert_eq!(found[0].place(), Place::Unread);
    }

    #[test]
    fn what_no_process_holds_waits_to_be_accepted_or_was_closed() {
        let of = |state| {
            let mut message = sample::message(state, 80, 5, 0);
            message[68..72].copy_from_slice(&0_u32.to_ne_bytes());
            sample::attribute(&mut message, 2, &[0; 248]);
            End::read(&message).unwrap().place()
        };
        assert_eq!((of(1), of(8)), (Place::AcceptQueue, Place::AcceptQueue));
        // `TCP_FIN_WAIT1`.
        assert_ne!(of(4), Place::AcceptQueue);
    }
}
