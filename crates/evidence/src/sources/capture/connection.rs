//! One connection, segment by segment: a state machine.

use std::time::Duration;

use linerate_model::Timestamp;

use super::headers::Segment;
use super::orders::InOrders;
use super::port::{Answer, Port};
use super::record::Record;
use super::refusal::Refusal;
use super::totals::Totals;
use crate::subject::Direction;

/// After such a silence data belongs to another request or answer.
// Chosen: longer than retransmission timeouts, delayed acknowledgements and most pauses of a streamed answer,
// shorter than the pauses of chat users.
const SILENCE: Duration = Duration::from_secs(1);

/// A client that sends within this time after data that followed a silence has waited for that data: it was the rest of
/// its answer.
// Chosen: a quarter of that silence; clients that load a service ask again in less, people do not.
const REACTS: Duration = Duration::from_millis(250);

/// An acknowledgement alone that comes so late was delayed.
// Source: `TCP_DELACK_MIN` (HZ/25), include/net/tcp.h, and a tick of 4 ms before it.
const DELAYED_ACK: Duration = Duration::from_millis(36);

/// What comes after a silence and is less was sent unasked: a ping, a message, a tick. Also what Nagle's algorithm may hold.
/// Unit: bytes.
// Source: a segment over Ethernet. A shaper sends all that it may.
const PART: u64 = 1_460;

/// A server that sends no more than this before any request, and closes, has refused. Unit: bytes.
// Chosen: a line; services that send unasked and close (a stream, a file) send more.
const REFUSAL: u32 = 200;

/// A server that sends more segments than these before it is asked does not greet: it sends on its own. Unit: segments.
// Chosen: a banner of some lines, in two or three writes.
const GREETING: u8 = 4;

/// The most answers before a client is let in. Unit: answers.
// Chosen: one more than PostgreSQL's five, with a request for TLS and SCRAM.
const LOGIN: u32 = 6;

/// See the module.
#[derive(Clone, Copy, Debug)]
pub(super) struct Connection {
    /// Its place in the list of watched ports.
    pub port: usize,
    /// Where it was first seen. Packets seen elsewhere are copies: a bridge and its members, a
    /// bond.
    pub device: u32,
    phase: Phase,
    pub last_seen: Timestamp,
    /// One past the last byte seen towards the server, and back.
    ends: [Option<u32>; 2],
    /// Whether each end has sent a FIN.
    done: [bool; 2],
    /// Whether it may have been served: a request was answered, or more was sent than a refusal has.
    served: bool,
    /// Answers since its begin, or since the client was last let in, and their time in ns; none once they are too many.
    login: Option<(u32, u64)>,
    /// When its first request was seen, and how long it has waited for answers since then, in ns.
    asks_since: Option<Timestamp>,
    waited: u64,
    /// When the last data towards the server, a small part, was acknowledged late.
    acked: Option<Timestamp>,
    in_orders: InOrders,
}

#[derive(Clone, Copy, Debug)]
enum Phase {
    /// A SYN, not yet answered.
    Opening,
    /// Met in the midst of it: the next request shows its state.
    Unknown,
    /// Open since then, and neither end has sent anything.
    Fresh {
        since: Timestamp,
    },
    /// The server sent first; all that it sends before it is asked is its greeting.
    Greeting {
        first: Timestamp,
        last: Timestamp,
        parts: u8,
    },
    Asked {
        first: Timestamp,
        last: Timestamp,
        /// The record of TLS that the request begins with.
        record: Option<Record>,
        /// Whether the last of it was less than a segment.
        is_small: bool,
        bytes: u64,
        /// Bytes of its last segment.
        part: u64,
    },
    Answering(Answer),
    /// Data that was not asked for, as it seems.
    Unasked {
        last: Timestamp,
        /// The answer whose rest it may be.
        resumed: Option<Resumed>,
    },
    /// The server has sent a FIN.
    Over,
}

/// An answer that was silent, with what came after: the client's next step tells whether that was its rest.
#[derive(Clone, Copy, Debug)]
struct Resumed {
    whole: Answer,
    /// The last of it before the first silence, and the bytes until then.
    last: Timestamp,
    bytes: u64,
    silences: u32,
}

impl Resumed {
    /// The answer, if what came after was none of it.
    fn before(&self) -> Answer {
        Answer { last: self.last, bytes: self.bytes, ..self.whole }
    }
}

impl Connection {
    /// One that begins with this packet, or is met in the midst.
    pub fn new(port: usize, device: u32, at: Timestamp, begins: bool, began: Timestamp) -> Self {
        Self {
            port,
            device,
            phase: if begins { Phase::Opening } else { Phase::Unknown },
            last_seen: at,
            ends: [None; 2],
            done: [false; 2],
            served: !begins,
            login: begins.then_some((0, 0)),
            asks_since: None,
            waited: 0,
            acked: None,
            in_orders: if begins { InOrders::fresh() } else { InOrders::older(began) },
        }
    }

    /// Whether its SYN is not answered yet.
    pub fn is_opening(&self) -> bool {
        matches!(self.phase, Phase::Opening)
    }

    /// Whether it waits for an answer.
    pub fn is_asked(&self) -> bool {
        matches!(self.phase, Phase::Asked { .. })
    }

    /// No packets are read from now on: its state is cut off.
    pub fn pause(&mut self, at: Timestamp, weight: u64, port: &mut Port) {
        port.totals.asked_area += weight * self.asked_for(at, port);
        match self.phase {
            Phase::Answering(answer) => port.answered_in(&answer, weight),
            Phase::Unasked { resumed: Some(of), .. } => port.answered_in(&of.before(), weight),
            _ => {}
        }
        (self.phase, self.ends) = (Phase::Unknown, [None; 2]);
        (self.served, self.login) = (true, None);
        // What it waited meanwhile is not known.
        (self.asks_since, self.waited) = (None, 0);
        self.in_orders.paused();
    }

    /// How long it has been asked and unanswered; where the server sends first, how long it has not. Unit: ns.
    pub fn asked_for(&self, at: Timestamp, port: &Port) -> u64 {
        match self.phase {
            Phase::Asked { first, .. } => at.nanos_since(first),
            Phase::Fresh { since } if port.greets() => at.nanos_since(since),
            _ => 0,
        }
    }

    /// Whether it has been silent for a while, with the client to send next: it is closed as idle ones are.
    fn was_idle(&self, at: Timestamp, port: &Port) -> bool {
        matches!(self.phase, Phase::Fresh { since } if at.since(since) > SILENCE && !port.greets())
    }

    /// Whether a request, and no goodbye, waits for its answer, on a connection that had answers before.
    fn waits_still(&self, port: &Port) -> bool {
        self.served && matches!(self.phase, Phase::Asked { bytes, .. } if port.is_request(bytes))
    }

    /// Returns whether that was its last.
    pub fn on_segment(
        &mut self,
        at: Timestamp,
        segment: &Segment,
        weight: u64,
        port: &mut Port,
    ) -> bool {
        let back = segment.direction == Direction::Return;
        let ends = back && self.done == [false; 2];
        if ends && segment.data == 0 && (segment.rst() || segment.fin()) && self.waits_still(port) {
            port.totals.hung_up += weight;
        }
        if segment.rst() {
            // A client may close at any time.
            if ends {
                if self.served {
                    port.totals.reset += weight;
                } else if !self.was_idle(at, port) {
                    port.totals.refused += weight;
                }
            }
            self.close(at, weight, port);
            return true;
        }
        if segment.syn() {
            if back && matches!(self.phase, Phase::Opening) {
                self.phase = Phase::Fresh { since: at };
            }
            self.ends[usize::from(back)] = Some(segment.sequence.wrapping_add(1));
            return false;
        }
        if back && segment.data == 0 && self.acked.is_none() {
            self.acked = match self.phase {
                Phase::Asked { last, is_small: true, .. } => {
                    Some(at).filter(|at| at.since(last) >= DELAYED_ACK)
                }
                _ => None,
            };
        }
        if segment.data > 0 {
            let end = segment.sequence.wrapping_add(segment.data);
            if self.ends[usize::from(back)].is_none_or(|seen| before(seen, end)) {
                self.on_data(at, segment, weight, port);
                self.ends[usize::from(back)] = Some(end);
            }
        }
        if segment.fin() {
            if ends && !self.served && !self.was_idle(at, port) {
                port.totals.refused += weight;
            }
            self.done[usize::from(back)] = true;
            if back {
                self.close(at, weight, port);
            }
        }
        self.done == [true; 2]
    }

    /// Data that was not seen before.
    fn on_data(&mut self, at: Timestamp, segment: &Segment, weight: u64, port: &mut Port) {
        let silent = |last: Timestamp| at.since(last) > SILENCE;
        if segment.direction == Direction::Outbound {
            self.settle(at, weight, port);
            if let Phase::Answering(answer) = self.phase {
                port.answered(&answer, weight);
            }
        }
        let asked_for = self.asked_for(at, port);
        let data = u64::from(segment.data);
        let is_small = data < PART;
        if let (Direction::Outbound, Phase::Asked { last, is_small: true, part, .. }) =
            (segment.direction, self.phase)
            && is_small
            && at.since(last) >= DELAYED_ACK
            && port.is_request(part)
            && port.is_request(data)
        {
            port.totals.asked_again += weight;
            port.totals.again_time += weight * at.nanos_since(last);
        }
        let Port { totals, service_times, rhythm, orders, spoke_first, asked_bytes, .. } = port;
        let theirs = &mut self.ends[usize::from(segment.direction == Direction::Outbound)];
        // Whether it was sent before everything from the other end had arrived.
        let mut crossed = false;
        if let (Some(acknowledged), Some(seen)) = (segment.ack(), *theirs) {
            if before(seen, acknowledged) && !self.done.contains(&true) {
                totals.missed += weight;
                totals.asked_area += weight * asked_for;
                *theirs = Some(acknowledged);
                self.phase = Phase::Unknown;
            }
            crossed = before(acknowledged, seen);
        }
        self.served |= segment.direction == Direction::Return && segment.data > REFUSAL;
        let acked = self.acked.take();
        if segment.direction == Direction::Outbound {
            rhythm.asked(at);
            self.asks_since.get_or_insert(at);
            self.in_orders.asked(at);
        }
        let record = segment.record;
        let asked = Phase::Asked { first: at, last: at, record, is_small, bytes: data, part: data };
        self.phase = match (segment.direction, self.phase) {
            (_, Phase::Over) => Phase::Over,
            (Direction::Outbound, Phase::Asked { first, last, record, bytes, .. }) => {
                totals.duplex += if silent(last) { weight } else { 0 };
                if let Some(acked) = acked.filter(|_| is_small) {
                    totals.request_acks += weight;
                    totals.request_held += weight * at.nanos_since(last);
                    totals.request_reaction += weight * at.nanos_since(acked);
                }
                // A request behind the end of a handshake is what is answered.
                let record = segment.record.filter(|of| *of == Record::Other).or(record);
                Phase::Asked { first, last: at, record, is_small, bytes: bytes + data, part: data }
            }
            (Direction::Outbound, Phase::Answering(Answer { last, .. })) => {
                totals.duplex += if crossed { weight } else { 0 };
                totals.idle_time += weight * at.nanos_since(last);
                asked
            }
            (Direction::Outbound, Phase::Greeting { first, last, .. }) => {
                // A client that waits for a greeting sends after its last part.
                let greeted = last.nanos_since(first);
                totals.exchanges += weight;
                totals.service_time += weight * greeted;
                self.answered_after(greeted, false, weight, totals);
                totals.asked_area += weight * greeted;
                totals.idle_time += weight * at.nanos_since(last);
                service_times.record_n(greeted, weight);
                asked
            }
            (Direction::Outbound, before) => {
                spoke_first[1] += u64::from(matches!(before, Phase::Fresh { .. }));
                asked
            }
            (Direction::Return, Phase::Asked { first, last, record, bytes, .. }) => {
                self.served = true;
                totals.exchanges += weight;
                *asked_bytes += weight * bytes;
                totals.tls += if record.is_some() { weight } else { 0 };
                let shakes = record == Some(Record::Handshake);
                if shakes {
                    totals.handshakes += weight;
                    totals.handshake_time += weight * at.nanos_since(first);
                }
                if let Some(refusal) = segment.refusal {
                    totals.told_no[refusal.index()] += weight;
                }
                totals.service_time += weight * at.nanos_since(last);
                totals.request_time += weight * last.nanos_since(first);
                totals.asked_area += weight * at.nanos_since(first);
                service_times.record_n(at.nanos_since(last), weight);
                rhythm.answered(last, at);
                let waited = at.nanos_since(last);
                self.answered_after(waited, segment.welcome, weight, totals);
                let is_long = waited.saturating_mul(2 * totals.exchanges) >= totals.service_time;
                orders.answered(&mut self.in_orders, last, at, is_long, weight);
                self.waited += waited;
                let since = self.asks_since.map_or(0, |since| at.nanos_since(since));
                totals.waiters_exchanges += if self.waited * 2 >= since { weight } else { 0 };
                Phase::Answering(Answer { first: at, last: at, bytes: 0, shakes })
            }
            (Direction::Return, Phase::Answering(answer)) if silent(answer.last) => {
                totals.unasked += weight;
                let bytes = answer.bytes + u64::from(segment.data);
                let whole = Answer { last: at, bytes, ..answer };
                let Answer { last, bytes, .. } = answer;
                let resumed = Some(Resumed { whole, last, bytes, silences: 1 });
                Phase::Unasked { last: at, resumed }
            }
            (Direction::Return, Phase::Answering(answer)) => {
                // A stream's error may come behind its head, in a segment of its own.
                if segment.refusal == Some(Refusal::Xmpp) {
                    totals.told_no[Refusal::Xmpp.index()] += weight;
                }
                let bytes = answer.bytes + u64::from(segment.data);
                Phase::Answering(Answer { last: at, bytes, ..answer })
            }
            (Direction::Return, Phase::Unasked { last, mut resumed }) => {
                totals.unasked += if silent(last) { weight } else { 0 };
                if let Some(of) = &mut resumed {
                    of.silences += u32::from(silent(last));
                    of.whole.last = at;
                    of.whole.bytes += u64::from(segment.data);
                }
                Phase::Unasked { last: at, resumed }
            }
            (Direction::Return, Phase::Fresh { since }) => {
                spoke_first[0] += 1;
                self.in_orders.greeted(since);
                Phase::Greeting { first: since, last: at, parts: 1 }
            }
            (Direction::Return, Phase::Greeting { first, parts, .. }) if parts < GREETING => {
                Phase::Greeting { first, last: at, parts: parts + 1 }
            }
            (Direction::Return, Phase::Greeting { .. }) => {
                Phase::Unasked { last: at, resumed: None }
            }
            // Data met in the midst of an answer may be its rest.
            (Direction::Return, Phase::Opening | Phase::Unknown) => Phase::Unknown,
        };
    }

    /// An answer after so many ns, which may let the client in: those before it were of the login too.
    fn answered_after(&mut self, waited: u64, welcome: bool, weight: u64, totals: &mut Totals) {
        let Some((answers, time)) = self.login else { return };
        let (answers, time) = (answers + 1, time + waited);
        self.login = (answers < LOGIN).then_some((answers, time));
        if welcome {
            totals.logins += weight * u64::from(answers);
            totals.login_time += weight * time;
            self.login = Some((0, 0));
        }
    }

    /// The client goes on, or the connection ends: whether what came after a silence was the rest of an answer. Of a ping
    /// that clients answer at once it is not.
    fn settle(&mut self, at: Timestamp, weight: u64, port: &mut Port) {
        let Phase::Unasked { last, resumed: Some(of) } = self.phase else { return };
        let is_much = of.whole.bytes - of.bytes >= PART * u64::from(of.silences);
        if is_much && at.since(last) <= REACTS {
            port.totals.resumed += weight * u64::from(of.silences);
            self.phase = Phase::Answering(of.whole);
        } else {
            port.answered(&of.before(), weight);
            self.phase = Phase::Unasked { last, resumed: None };
        }
    }

    /// No answer comes any more.
    pub fn close(&mut self, at: Timestamp, weight: u64, port: &mut Port) {
        self.settle(at, weight, port);
        match self.phase {
            Phase::Asked { first, .. } => {
                port.totals.unanswered += weight;
                port.totals.asked_area += weight * at.nanos_since(first);
            }
            Phase::Answering(answer) => port.answered(&answer, weight),
            _ => {}
        }
        self.phase = Phase::Over;
        if let Some(answers) = port.orders.ended(&mut self.in_orders, at) {
            port.totals.sessions += weight;
            port.totals.session_exchanges += weight * answers;
        }
    }
}

/// Whether a sequence number comes before another; they wrap.
fn before(a: u32, b: u32) -> bool {
    (b.wrapping_sub(a) as i32) > 0
}
