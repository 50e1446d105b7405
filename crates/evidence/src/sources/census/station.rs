//! The station of an exchange, from the two ends of its connection.
//!
//! Where several would do, as while an answer is streamed, the one furthest downstream counts: a slow engine fills
//! the window, and the window is not the cause.
//!
//! Blind spot: the two ends are not asked at the same instant. What moves from one to the other in between, some ten
//! microseconds, is seen at both or at neither.

use serde::{Deserialize, Serialize};

use super::{End, Sender, SlotState, SlotView};
use crate::sources::sock_diag::{CLOSE_WAIT, ESTABLISHED, is_unaccepted};

/// Where an exchange is.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Station {
    /// Nowhere: the connection has no exchange.
    Idle,
    /// Connecting: the handshake of TCP is not complete at both ends.
    Connect,
    /// In the TLS handshake.
    TlsHandshake,
    /// Connected, and not accepted.
    AcceptQueue,
    /// Written by the engine, and not wholly sent.
    ClientSending(Held),
    /// Sent by the engine, and not arrived.
    PathOut,
    /// Arrived, and not read.
    Unread,
    /// Read, and the answer not written.
    Application,
    /// The answer written, and not wholly sent.
    ServerSending(Held),
    /// The answer sent, and not arrived.
    PathBack,
    /// The answer arrived, and not read by the engine.
    Engine,
    /// Acknowledged and not answered by a target whose end is not seen.
    Beyond,
    /// The exchange ended meanwhile, or an end had too little information.
    Unresolved,
}

/// What holds bytes that are written.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Held {
    /// A small rest waits until what is in flight is acknowledged.
    Nagle,
    /// As much is in flight as the congestion window permits.
    Congestion,
    /// As much is in flight as the peer's receive window permits.
    Window,
    /// As much is written as the send buffer holds: the rest is still with the application.
    Buffer,
    /// Anything else: the stack spaces the packets, they are corked, or the device's queue is full.
    Pacing,
}

impl Held {
    /// All of them.
    pub const ALL: [Held; 5] =
        [Held::Nagle, Held::Congestion, Held::Window, Held::Buffer, Held::Pacing];

    fn names(self) -> [&'static str; 2] {
        match self {
            Held::Nagle => ["nagle", "held by Nagle until an ACK comes"],
            Held::Congestion => ["congestion", "held by the congestion window"],
            Held::Window => ["window", "held by the peer's receive window"],
            Held::Buffer => ["buffer", "its send buffer full"],
            Held::Pacing => ["pacing", "paced, corked, or between two segments"],
        }
    }

    /// Its name in metrics: `census.server_nagle`.
    pub fn id(self) -> &'static str {
        self.names()[0]
    }

    /// In words: `held by Nagle`.
    pub fn words(self) -> &'static str {
        self.names()[1]
    }
}

impl Station {
    /// All of them, upstream first.
    pub const ALL: [Station; 21] = [
        Station::Idle,
        Station::Connect,
        Station::TlsHandshake,
        Station::AcceptQueue,
        Station::ClientSending(Held::Nagle),
        Station::ClientSending(Held::Congestion),
        Station::ClientSending(Held::Window),
        Station::ClientSending(Held::Buffer),
        Station::ClientSending(Held::Pacing),
        Station::PathOut,
        Station::Unread,
        Station::Application,
        Station::ServerSending(Held::Nagle),
        Station::ServerSending(Held::Congestion),
        Station::ServerSending(Held::Window),
        Station::ServerSending(Held::Buffer),
        Station::ServerSending(Held::Pacing),
        Station::PathBack,
        Station::Engine,
        Station::Beyond,
        Station::Unresolved,
    ];
}

// Source: net/tcp_states.h.
const SYN_SENT: u8 = 2;
const SYN_RECV: u8 = 3;
const NEW_SYN_RECV: u8 = 12;

/// The station of an exchange. An end that was not found, or can't be asked for, is none.
///
/// `slot` has to be read before the ends are asked for, and again after: an exchange that has changed meanwhile is
/// [`Station::Unresolved`], whatever the ends say.
pub fn place(slot: &SlotView, client: Option<&End>, server: Option<&End>) -> Station {
    match slot.state {
        SlotState::Closed | SlotState::Idle => Station::Idle,
        SlotState::Connecting => match client {
            // Connected in the kernel: the engine only has to notice.
            Some(client) if client.state == ESTABLISHED => Station::Engine,
            _ => Station::Connect,
        },
        SlotState::TlsHandshake => handshake(client, server),
        SlotState::Waiting | SlotState::Answering | SlotState::Sending | SlotState::Receiving => {
            let station = match (client, server) {
                (None, _) => Station::Unresolved,
                (Some(client), None) => one_sided(slot, client),
                (Some(client), Some(server)) => two_sided(slot, client, server),
            };
            match station {
                // A stream to the target is only to be read: all was, and the engine is next.
                Station::Application | Station::Beyond if slot.state == SlotState::Sending => {
                    Station::Engine
                }
                station => station,
            }
        }
    }
}

fn handshake(client: Option<&End>, server: Option<&End>) -> Station {
    if client.is_some_and(|client| client.rqueue > 0) {
        return Station::Engine;
    }
    match server {
        Some(server) if is_half_open(server) => Station::Connect,
        Some(server) if is_unaccepted(server.state, server.inode) => Station::AcceptQueue,
        _ => Station::TlsHandshake,
    }
}

/// Furthest downstream first.
fn two_sided(slot: &SlotView, client: &End, server: &End) -> Station {
    if client.state == SYN_SENT {
        return Station::Connect;
    }
    // Bytes in our kernel, or the end of the stream: only the engine is waited for.
    if client.rqueue > 0 {
        return Station::Engine;
    }
    // The engine's end is connected, the target's is not: a full accept queue dropped the last ACK, or the
    // acceptor is deferred until there is data.
    if is_half_open(server) {
        return Station::Connect;
    }
    let Some(request) = &client.sender else { return Station::Unresolved };
    let Some(answer) = &server.sender else {
        // TIME-WAIT and its like: all is acknowledged and closed, only the end of the stream is not here.
        let is_closed = !matches!(server.state, ESTABLISHED | CLOSE_WAIT);
        return if is_closed { Station::PathBack } else { Station::Unresolved };
    };
    if let Some(held) = held(answer) {
        return Station::ServerSending(held);
    }
    if answer.sent > request.received {
        return Station::PathBack;
    }
    // Part of the answer is here and the rest is not written: the application has it, and unread or unsent parts of
    // the request don't delay it.
    if slot.state == SlotState::Answering {
        return Station::Application;
    }
    if is_unaccepted(server.state, server.inode) {
        return Station::AcceptQueue;
    }
    if server.rqueue > 0 {
        return Station::Unread;
    }
    if let Some(held) = held(request) {
        return Station::ClientSending(held);
    }
    if request.sent > answer.received {
        return Station::PathOut;
    }
    Station::Application
}

/// The station by the engine's end alone.
fn one_sided(slot: &SlotView, client: &End) -> Station {
    if client.state == SYN_SENT {
        return Station::Connect;
    }
    if client.rqueue > 0 {
        return Station::Engine;
    }
    let Some(request) = &client.sender else { return Station::Unresolved };
    if matches!(slot.state, SlotState::Answering | SlotState::Receiving) {
        return Station::Beyond;
    }
    if let Some(held) = held(request) {
        return Station::ClientSending(held);
    }
    if request.outstanding == 0 {
        return Station::Beyond;
    }
    // A stream's bytes are on their way until acknowledged; the window shows whether they are read.
    if slot.state == SlotState::Sending {
        return Station::PathOut;
    }
    // A peer may delay its ACK for as long as it works on the request: what is older than a round trip, and not being
    // sent again, has arrived. So the path has a round trip of each exchange, both directions together.
    let age = client.at.nanos_since(slot.written);
    let is_old = request.min_rtt.is_some_and(|rtt| age > u64::from(rtt) * 1_000);
    if is_old && !request.is_repairing { Station::Beyond } else { Station::PathOut }
}

/// What keeps written bytes from being sent, or the application from writing more. None: nothing does.
fn held(sender: &Sender) -> Option<Held> {
    if sender.notsent == 0 {
        let waits = sender.outstanding > 0 && is_full(sender.wmem_queued, sender.sndbuf);
        return waits.then_some(Held::Buffer);
    }
    let next = sender.notsent.min(sender.mss);
    let congestion = sender.in_flight >= sender.cwnd;
    let window = sender.outstanding.saturating_add(next) > sender.snd_wnd;
    match (congestion, window) {
        (true, true) => return Some(narrower(sender)),
        (true, false) => return Some(Held::Congestion),
        (false, true) => return Some(Held::Window),
        (false, false) => {}
    }
    // Less than a segment, with something in flight.
    if sender.notsent < sender.mss && sender.outstanding > 0 {
        return Some(Held::Nagle);
    }
    // Source: `tcp_tso_should_defer`, net/ipv4/tcp_output.c, and `tcp_tso_win_divisor`: with less than a
    // third of the window open, it waits for more of it.
    let deferred = |out: u64, window: u64| out * 3 > window * 2;
    let bytes = u64::from(sender.outstanding);
    if deferred(sender.in_flight.into(), sender.cwnd.into())
        || deferred(bytes, sender.snd_wnd.into())
    {
        return Some(narrower(sender));
    }
    Some(Held::Pacing)
}

/// Whether the kernel's clock of the peer's window (`tcp.rwnd_limited`) runs: the congestion window has room, the peer's
/// none for the next segment.
///
/// Source: `tcp_write_xmit` and `tcp_snd_wnd_test`, net/ipv4/tcp_output.c.
pub fn is_rwnd_limited(sender: &Sender) -> bool {
    let next = sender.notsent.min(sender.mss);
    next > 0
        && sender.in_flight < sender.cwnd
        && sender.outstanding.saturating_add(next) > sender.snd_wnd
}

/// Which of the two windows is the smaller.
fn narrower(sender: &Sender) -> Held {
    let congestion = u64::from(sender.cwnd) * u64::from(sender.mss);
    if congestion <= u64::from(sender.snd_wnd) { Held::Congestion } else { Held::Window }
}

/// Whether a writer may be waiting for the send buffer, with so many bytes queued of so many at most.
///
/// Source: `sk_stream_memory_free` and `sk_stream_is_writeable`, include/net/sock.h: it waits once the buffer is
/// full, and until a third of it is free.
pub(in crate::sources) fn is_full(queued: u32, most: u32) -> bool {
    most > 0 && u64::from(queued) * 3 > u64::from(most) * 2
}

/// The last ACK of TCP's handshake has not been taken.
fn is_half_open(end: &End) -> bool {
    matches!(end.state, SYN_RECV | NEW_SYN_RECV)
}

#[cfg(test)]
mod tests {
    use linerate_model::Timestamp;

    use super::*;

    /// 1 ms into an exchange.
    fn slot(state: SlotState) -> SlotView {
        let (sequence, written) = (7, Timestamp(0));
        SlotView { state, sequence, written, client: None, server: 0, host: 0 }
    }

    /// Has sent 100 bytes and received as many, all of them acknowledged; over a path of 40 us.
    fn sender() -> Sender {
        Sender {
            sent: 100,
            received: 100,
            cwnd: 10,
            mss: 1_000,
            snd_wnd: 65_536,
            min_rtt: Some(40),
            sndbuf: 87_040,
            ..Sender::default()
        }
    }

    fn end(sender: Sender) -> End {
        let at = Timestamp(1_000_000);
        End { at, state: ESTABLISHED, rqueue: 0, inode: 42, sender: Some(sender) }
    }

    fn quiet() -> End {
        end(sender())
    }

    fn waiting(client: &End, server: &End) -> Station {
        place(&slot(SlotState::Waiting), Some(client), Some(server))
    }

    fn answering(client: &End, server: &End) -> Station {
        place(&slot(SlotState::Answering), Some(client), Some(server))
    }

    #[test]
    fn a_connection_without_an_exchange_is_idle_whatever_its_ends_hold() {
        let unread = End { rqueue: 9, ..quiet() };
        for state in [SlotState::Idle, SlotState::Closed] {
            assert_eq!(place(&slot(state), Some(&unread), Some(&unread)), Station::Idle);
            assert_eq!(place(&slot(state), None, None), Station::Idle);
        }
    }

    #[test]
    fn a_block_of_a_stream_is_the_engines_once_all_before_it_was_read() {
        let sending = slot(SlotState::Sending);
        assert_eq!(place(&sending, Some(&quiet()), Some(&quiet())), Station::Engine);
        assert_eq!(place(&sending, Some(&quiet()), None), Station::Engine);
        let unread = End { rqueue: 9, ..quiet() };
        assert_eq!(place(&sending, Some(&quiet()), Some(&unread)), Station::Unread);
        let out = end(Sender { sent: 200, outstanding: 100, ..sender() });
        assert_eq!(place(&sending, Some(&out), Some(&quiet())), Station::PathOut);
        assert_eq!(place(&sending, Some(&out), None), Station::PathOut);
        let shut = Sender { notsent: 9_000, outstanding: 60_000, snd_wnd: 60_500, ..sender() };
        let held = Station::ClientSending(Held::Window);
        assert_eq!(place(&sending, Some(&end(shut)), Some(&quiet())), held);
        // In the other direction the far end's turn is the application's.
        let receiving = slot(SlotState::Receiving);
        assert_eq!(place(&receiving, Some(&quiet()), Some(&quiet())), Station::Application);
        assert_eq!(place(&receiving, Some(&quiet()), None), Station::Beyond);
        assert_eq!(place(&receiving, Some(&unread), Some(&quiet())), Station::Engine);
    }

    #[test]
    fn a_connect_is_a_connect_until_the_engine_has_only_to_notice() {
        let connecting = slot(SlotState::Connecting);
        assert_eq!(place(&connecting, None, None), Station::Connect);
        let asked = End { state: SYN_SENT, sender: None, ..quiet() };
        assert_eq!(place(&connecting, Some(&asked), None), Station::Connect);
        assert_eq!(place(&connecting, Some(&quiet()), Some(&quiet())), Station::Engine);
    }

    #[test]
    fn an_end_that_is_half_open_is_still_connecting_though_the_request_is_sent() {
        for state in [SYN_RECV, NEW_SYN_RECV] {
            let server = End { state, inode: 0, sender: None, ..quiet() };
            assert_eq!(waiting(&quiet(), &server), Station::Connect);
            let shaking = slot(SlotState::TlsHandshake);
            assert_eq!(place(&shaking, Some(&quiet()), Some(&server)), Station::Connect);
        }
    }

    #[test]
    fn a_tls_handshake_waits_for_acceptor_for_engine_or_for_the_target() {
        let shaking = slot(SlotState::TlsHandshake);
        let unaccepted = End { inode: 0, ..quiet() };
        assert_eq!(place(&shaking, Some(&quiet()), Some(&unaccepted)), Station::AcceptQueue);
        let arrived = End { rqueue: 3_000, ..quiet() };
        assert_eq!(place(&shaking, Some(&arrived), Some(&quiet())), Station::Engine);
        assert_eq!(place(&shaking, Some(&quiet()), Some(&quiet())), Station::TlsHandshake);
        assert_eq!(place(&shaking, Some(&quiet()), None), Station::TlsHandshake);
    }

    #[test]
    fn what_nobody_accepted_is_in_the_accept_queue_though_it_is_unread_too() {
        let server = End { inode: 0, rqueue: 64, ..quiet() };
        assert_eq!(waiting(&quiet(), &server), Station::AcceptQueue);
    }

    #[test]
    fn a_socket_that_its_process_closed_was_accepted_once() {
        // FIN_WAIT1, with its answer on the way.
        let sent = Sender { sent: 600, outstanding: 500, ..sender() };
        let server = End { state: 4, inode: 0, ..end(sent) };
        assert_eq!(waiting(&quiet(), &server), Station::PathBack);
        // TIME-WAIT has no numbers; its FIN is on the way.
        let server = End { state: 6, inode: 0, sender: None, ..quiet() };
        assert_eq!(waiting(&quiet(), &server), Station::PathBack);
    }

    #[test]
    fn a_request_is_followed_from_the_sending_socket_to_the_application() {
        let unsent = end(Sender { notsent: 5_000, in_flight: 10, outstanding: 10_000, ..sender() });
        assert_eq!(waiting(&unsent, &quiet()), Station::ClientSending(Held::Congestion));
        let sent = end(Sender { sent: 164, outstanding: 64, in_flight: 1, ..sender() });
        assert_eq!(waiting(&sent, &quiet()), Station::PathOut);
        let arrived = end(Sender { received: 164, ..sender() });
        assert_eq!(waiting(&sent, &End { rqueue: 64, ..arrived }), Station::Unread);
        // A request that is still being sent is unread first: the target could go on with that.
        assert_eq!(waiting(&unsent, &End { rqueue: 64, ..arrived }), Station::Unread);
        // Read, its ACK delayed.
        assert_eq!(waiting(&sent, &arrived), Station::Application);
    }

    #[test]
    fn an_answer_is_followed_from_the_application_to_the_engine() {
        let unread = End { rqueue: 64, ..quiet() };
        // Once an answer has begun, an unread rest of the request is no station.
        assert_eq!(answering(&quiet(), &unread), Station::Application);
        let out = Sender { outstanding: 8_000, in_flight: 8, ..sender() };
        let unsent = end(Sender { notsent: 100, ..out });
        assert_eq!(answering(&quiet(), &unsent), Station::ServerSending(Held::Nagle));
        let sent = end(Sender { sent: 600, outstanding: 500, in_flight: 1, ..sender() });
        assert_eq!(waiting(&quiet(), &sent), Station::PathBack);
        // The engine is slow: whatever the window does, the engine is waited for.
        let arrived = End { rqueue: 64, ..quiet() };
        assert_eq!(answering(&arrived, &unsent), Station::Engine);
    }

    #[test]
    fn written_bytes_are_held_by_the_first_of_what_has_no_room() {
        let held = |sender: Sender| match answering(&quiet(), &end(sender)) {
            Station::ServerSending(held) => held,
            other => panic!("{other:?}"),
        };
        let out = Sender { notsent: 50_000, outstanding: 5_000, in_flight: 5, ..sender() };
        assert_eq!(held(Sender { in_flight: 10, outstanding: 10_000, ..out }), Held::Congestion);
        // 5,000 out, and a segment of 1,000 more: 5,999 are too few.
        assert_eq!(held(Sender { snd_wnd: 5_999, ..out }), Held::Window);
        assert_eq!(held(Sender { notsent: 999, snd_wnd: 5_999, ..out }), Held::Nagle);
        assert_eq!(held(Sender { notsent: 999, snd_wnd: 5_998, ..out }), Held::Window);
        // Nothing out, and the peer takes nothing.
        let shut = Sender { snd_wnd: 0, outstanding: 0, in_flight: 0, ..out };
        assert_eq!(held(shut), Held::Window);
        // Half of the window is open: it could be sent.
        assert_eq!(held(out), Held::Pacing);
        // Less than a third is: the stack waits for more of it.
        assert_eq!(held(Sender { in_flight: 7, ..out }), Held::Congestion);
        assert_eq!(held(Sender { snd_wnd: 7_000, ..out }), Held::Window);
        // Both are full: the smaller one.
        let both = Sender { in_flight: 10, outstanding: 10_000, ..out };
        assert_eq!(held(Sender { snd_wnd: 9_999, ..both }), Held::Window);
        assert_eq!(held(Sender { snd_wnd: 10_000, ..both }), Held::Congestion);
        // A corked rest, with nothing out.
        let corked = Sender { notsent: 10, outstanding: 0, in_flight: 0, ..out };
        assert_eq!(held(corked), Held::Pacing);
    }

    #[test]
    fn a_full_send_buffer_holds_the_writer_until_a_third_of_it_is_free() {
        let full = Sender { outstanding: 4_000, sndbuf: 9_000, wmem_queued: 6_001, ..sender() };
        assert_eq!(answering(&quiet(), &end(full)), Station::ServerSending(Held::Buffer));
        assert_eq!(waiting(&end(full), &quiet()), Station::ClientSending(Held::Buffer));
        let free = Sender { wmem_queued: 6_000, ..full };
        assert_eq!(answering(&quiet(), &end(free)), Station::Application);
        // What a socket keeps for its next packet was not queued by an application.
        let empty = Sender { outstanding: 0, ..full };
        assert_eq!(answering(&quiet(), &end(empty)), Station::Application);
    }

    #[test]
    fn without_the_targets_end_a_round_trip_is_the_paths_and_the_rest_is_beyond() {
        let alone = |client: End| place(&slot(SlotState::Waiting), Some(&client), None);
        assert_eq!(alone(quiet()), Station::Beyond);
        assert_eq!(alone(End { rqueue: 1, ..quiet() }), Station::Engine);
        let out = Sender { sent: 164, outstanding: 64, in_flight: 1, ..sender() };
        let unsent = Sender { notsent: 10, ..out };
        assert_eq!(alone(end(unsent)), Station::ClientSending(Held::Nagle));
        // Sent 1 ms ago over 40 us, and not acknowledged: the peer delays its ACK.
        assert_eq!(alone(end(out)), Station::Beyond);
        assert_eq!(alone(end(Sender { min_rtt: Some(2_000), ..out })), Station::PathOut);
        assert_eq!(alone(end(Sender { is_repairing: true, ..out })), Station::PathOut);
        assert_eq!(alone(end(Sender { min_rtt: None, ..out })), Station::PathOut);
        let begun = place(&slot(SlotState::Answering), Some(&end(out)), None);
        assert_eq!(begun, Station::Beyond);
    }

    #[test]
    fn an_end_that_is_gone_or_tells_too_little_resolves_nothing() {
        assert_eq!(place(&slot(SlotState::Waiting), None, Some(&quiet())), Station::Unresolved);
        let old = End { sender: None, ..quiet() };
        assert_eq!(waiting(&old, &quiet()), Station::Unresolved);
        assert_eq!(waiting(&quiet(), &old), Station::Unresolved);
    }

    #[test]
    fn no_station_stands_twice() {
        let all: std::collections::BTreeSet<_> = Station::ALL.into_iter().collect();
        assert_eq!(all.len(), Station::ALL.len());
    }
}
