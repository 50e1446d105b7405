//! The headers of a watched service's packets: when a request was complete, when its answer began and when it ended.
//!
//! From IP and TCP headers alone: no byte of payload leaves the kernel, which itself compares an answer's first bytes
//! with refusals ([`refusal`]), a request's with TLS ([`Record`]), and reports a match. A request's last byte is the last data towards the port before
//! data comes back, an answer's first byte is that, and its last byte is the last before the next request. Read by
//! [`segment`], combined by [`Exchanges`]. Of one connection in n, all counts and times are multiplied by n, so that
//! they are of the whole service. A capture that would cost too much pauses; everything is of `watched`, the time
//! without pauses: `exchanges / watched` is a rate, `asked_area / watched` connections were asked and unanswered on
//! average, and by Little's law that is the rate times (`service_time` + `request_time`) an exchange: both have the
//! same instants, so this checks only what is cut off at the ends.
//!
//! Blind spot: where requests and answers don't alternate (HTTP/2, AMQP, XMPP) times mean nothing, as `duplex` and
//! `unasked` beside `exchanges` show; pipelined requests before the first answer are one request, and so is a batch;
//! a TLS handshake is one or two exchanges of its connection, counted apart too. The service time includes everything at the server's
//! end: unread, in the application, held in the send queue. Silent connections are not seen. A capture that pauses
//! cuts off what is under way, so exchanges that take long beside its windows are too few. IPv6 with extension
//! headers is skipped.
//!
//! Source: RFC 9293 (TCP), RFC 791 and 8200 (IP); the method is that of Percona's pt-tcp-model.

mod connection;
mod exchanges;
mod headers;
mod orders;
mod port;
mod read;
mod record;
pub mod refusal;
mod rhythm;
mod sampling;
mod servers;
#[cfg(test)]
mod testing;
mod totals;
mod transactions;

use std::time::Duration;

use linerate_model::Timestamp;

use super::{Fetch, Parse, Source};
use crate::evidence::Evidence;
use crate::metric::Metric;
use crate::subject::Subject;

pub use exchanges::{Exchanges, MOST_CONNECTIONS};
pub use headers::{Seen, Segment, segment};
pub use read::{Beat, Rhythm, Served};
pub use record::Record;
pub use refusal::Refusal;
pub use rhythm::Told;
pub use sampling::Sampling;
pub use totals::Totals;

pub(super) const SOURCE: Source = Source {
    id: "capture",
    says: "exchanges of a watched port, from the headers of its packets",
    of: "listener/PORT",
    fetch: Fetch::Capture,
    metrics: METRICS,
    parse: Parse::Capture,
};

metrics! {
    /// Packets of the port, since the capture began; a super-frame is one.
    PACKETS: u64 = "capture.packets", "1";
    /// Answers that began, since the capture began; where the server speaks first its greeting is one.
    EXCHANGES: u64 = "capture.exchanges", "1";
    /// Time from a request's last byte to its answer's first, summed up since the capture began.
    SERVICE_TIME: Duration = "capture.service_time", "ns";
    /// Time from a request's first byte to its last, of those answered, summed up since the capture began.
    REQUEST_TIME: Duration = "capture.request_time", "ns";
    /// Times that a small part of a request was acknowledged late (36 ms or more, a delayed ACK), and another small part came next, since the capture began.
    REQUEST_ACKS: u64 = "capture.request_acks", "1";
    /// Requests without an answer when their client sent the next one, since the capture began: both are less than a segment, at least six tenths as long as the mean of those that were answered, and a delayed ACK or more apart.
    ASKED_AGAIN: u64 = "capture.asked_again", "1";
    /// The sum of the times between those two.
    AGAIN_TIME: Duration = "capture.again_time", "ns";
    /// Of the time of requests, that between such two parts.
    REQUEST_HELD: Duration = "capture.request_held", "ns";
    /// Of that, from the acknowledgement on: a round trip, where the client's stack waited for it.
    REQUEST_REACTION: Duration = "capture.request_reaction", "ns";
    /// Time from an answer's first byte to its last, summed up since the capture began; the last is known when the next request comes or the connection ends.
    ANSWER_TIME: Duration = "capture.answer_time", "ns";
    /// Time from an answer's last byte to the connection's next request, summed up since the capture began.
    IDLE_TIME: Duration = "capture.idle_time", "ns";
    /// Connections asked and unanswered, summed up over time since the capture began: a second of one connection is a second.
    ASKED_AREA: Duration = "capture.asked_area", "ns";
    /// Connections that carried data or began, since the capture began.
    CONNECTIONS: u64 = "capture.connections", "1";
    /// Connections begun by a SYN, since the capture began; a SYN sent again does not count.
    OPENED: u64 = "capture.opened", "1";
    /// Of those, answered with a RST, or ended by the server before any answer but a line, since the capture began; one that said nothing for a second is closed as idle ones are.
    REFUSED: u64 = "capture.refused", "1";
    /// Connections that the server ended by a RST after it had answered on them, since the capture began.
    RESET: u64 = "capture.reset", "1";
    /// Answers that began with HTTP's status 400, 408, 413, 414, 429, 431 or 5xx, since the capture began.
    NO_HTTP: u64 = "capture.no_http", "1";
    /// Answers that began with a reply of SMTP or FTP that refuses service (421, 450, 451, 452, 454, 530, 554), or of DNS (SERVFAIL, REFUSED), since the capture began.
    NO_REPLY: u64 = "capture.no_reply", "1";
    /// Answers that began with an error word of Redis, memcached, NATS, POP or IMAP that refuses service, since the capture began.
    NO_WORD: u64 = "capture.no_word", "1";
    /// Answers by which PostgreSQL or MySQL refused a connection, or said that they can't do it now, since the capture began.
    NO_DATABASE: u64 = "capture.no_database", "1";
    /// Answers by which a broker closed a connection or a channel of AMQP, gave a message back, or refused a login by MQTT, since the capture began.
    NO_BROKER: u64 = "capture.no_broker", "1";
    /// Answers by which XMPP ended a stream with an error, a login failed, or a stanza's error said to wait, since the capture began.
    NO_XMPP: u64 = "capture.no_xmpp", "1";
    /// Answers that began with another error, of which the asker may be the cause, since the capture began.
    NO_ERROR: u64 = "capture.no_error", "1";
    /// Answered requests that began with a record of TLS, since the capture began.
    TLS: u64 = "capture.tls", "1";
    /// Of those, the ones that are part of a handshake.
    HANDSHAKES: u64 = "capture.handshakes", "1";
    /// Time from such a request's first byte to its answer's last, summed up since the capture began.
    HANDSHAKE_TIME: Duration = "capture.handshake_time", "ns";
    /// Answers until a client is let in, of connections whose begin was seen: until what PostgreSQL, MariaDB, AMQP and MQTT say then, and where AMQP opens a channel.
    LOGINS: u64 = "capture.logins", "1";
    /// Time of these, as `capture.service_time` of all.
    LOGIN_TIME: Duration = "capture.login_time", "ns";
    /// Connections that were answered and ended, since the capture began.
    SESSIONS: u64 = "capture.sessions", "1";
    /// Answers on these.
    SESSIONS_EXCHANGES: u64 = "capture.sessions_exchanges", "1";
    /// As `capture.servers`, of whole connections: from the first request, or the capture's begin, to the end.
    SESSIONS_SERVERS: u64 = "capture.sessions_servers", "1";
    /// As `capture.servers_narrower`.
    SESSIONS_NARROWER: u64 = "capture.sessions_narrower", "1";
    /// As `capture.servers_early`.
    SESSIONS_EARLY: u64 = "capture.sessions_early", "1";
    /// As `capture.servers_p50`.
    SESSIONS_P50: Duration = "capture.sessions_p50", "ns";
    /// Of the answers, those on connections that had waited for answers for half of their time or more until then.
    WAITERS_EXCHANGES: u64 = "capture.waiters_exchanges", "1";
    /// Transactions that ended, since the capture began: a request that took half of the mean time or longer, with the quick ones of its connection that followed.
    TRANSACTIONS: u64 = "capture.transactions", "1";
    /// As `capture.servers`, of transactions.
    TRANSACTIONS_SERVERS: u64 = "capture.transactions_servers", "1";
    /// As `capture.servers_narrower`.
    TRANSACTIONS_NARROWER: u64 = "capture.transactions_narrower", "1";
    /// As `capture.servers_early`.
    TRANSACTIONS_EARLY: u64 = "capture.transactions_early", "1";
    /// As `capture.servers_p50`.
    TRANSACTIONS_P50: Duration = "capture.transactions_p50", "ns";
    /// Requests whose connection ended before an answer began, since the capture began.
    UNANSWERED: u64 = "capture.unanswered", "1";
    /// Of those, the requests in place of whose answer the server closed the connection, though it had answered on it; at least six tenths as long as the mean of those that were answered, since the capture began.
    HUNG_UP: u64 = "capture.hung_up", "1";
    /// Times data came towards the port while an answer was on its way, or again after a second without an answer, since the capture began.
    DUPLEX: u64 = "capture.duplex", "1";
    /// Times data came back with nothing asked, or after an answer had been silent for a second, since the capture began; a greeting does not count.
    UNASKED: u64 = "capture.unasked", "1";
    /// Of these silences, those in the midst of an answer: 1,460 bytes or more came after each, and the client went on, or the connection ended, within a quarter of a second.
    RESUMED: u64 = "capture.resumed", "1";
    /// Times an acknowledgement told of data that the capture had not seen, since it began; the exchange is left out.
    MISSED: u64 = "capture.missed", "1";
    /// Packets that the kernel dropped because the capture was behind, since it began; of all ports.
    LOST: u64 = "capture.lost", "1";
    /// The capture keeps one connection in this many; a state.
    ONE_IN: u64 = "capture.one_in", "1";
    /// Time during which packets were taken, since the capture began: rates and means are of it.
    WATCHED: Duration = "capture.watched", "ns";
    /// CPU time of the capture's own thread since it began, of all ports; the kernel's part, in the sender's time, is not in it.
    COST: Duration = "capture.cost", "ns";
    /// Median of the time from a request's last byte to its answer's first, since the capture began.
    SERVICE_P50: Duration = "capture.service_p50", "ns";
    /// 99th percentile of the same.
    SERVICE_P99: Duration = "capture.service_p99", "ns";
    /// Answers that were sent over a tenth of a second or longer, since the capture began. Absent where there was none.
    LASTING: u64 = "capture.lasting", "1";
    /// Bytes a second of such an answer, from its first segment on: tenth percentile. Unit: bytes/s.
    LASTING_LOW: u64 = "capture.lasting_low", "1";
    /// The same: 90th percentile. Unit: bytes/s.
    LASTING_HIGH: u64 = "capture.lasting_high", "1";
    /// Times from one answer to the next, over all connections of the port, since the capture began. Absent where not all connections are kept.
    GAPS: u64 = "capture.gaps", "1";
    /// The same, summed up.
    GAP_TIME: Duration = "capture.gap_time", "ns";
    /// Of that, what lies after the last request on any connection of the port.
    GAP_UNASKED: Duration = "capture.gap_unasked", "ns";
    /// Fifth percentile of the time from one answer to the next, of the last 4,096.
    GAP_LOW: Duration = "capture.gap_low", "ns";
    /// Spread of the time from one answer to the next, of the last 4,096: the width of its middle nine tenths as a normal distribution's standard deviation.
    GAP_SPREAD: Duration = "capture.gap_spread", "ns";
    /// The same spread of the time from one request to the next, of the requests of these answers.
    ASKED_SPREAD: Duration = "capture.asked_spread", "ns";
    /// After so many answers, 1 to 64, the times between them repeat best: the time of so many in a row spreads least; a state.
    TURN: u64 = "capture.turn", "1";
    /// Spread of the time of so many answers in a row, as of `capture.gap_spread`.
    TURN_SPREAD: Duration = "capture.turn_spread", "ns";
    /// Spread of the time of 4 answers in a row, as of `capture.gap_spread`.
    SPREAD_4: Duration = "capture.spread_4", "ns";
    /// Spread of the time of 32 answers in a row, as of `capture.gap_spread`.
    SPREAD_32: Duration = "capture.spread_32", "ns";
    /// Where answers come in bursts, and pauses are most of the time: from one burst's begin to the next one's, the median of the last 4,096 answers. Absent elsewhere.
    BEAT: Duration = "capture.beat", "ns";
    /// The longest of these times less the shortest.
    BEAT_SPREAD: Duration = "capture.beat_spread", "ns";
    /// Answers of a burst on average.
    BURST: u64 = "capture.burst", "1";
    /// The most answers of a burst less the fewest.
    BURST_SPREAD: u64 = "capture.burst_spread", "1";
    /// From a burst's first answer to its last, the median.
    BURST_TIME: Duration = "capture.burst_time", "ns";
    /// The longest of these times less the shortest.
    BURST_TIME_SPREAD: Duration = "capture.burst_time_spread", "ns";
    /// From a burst's first answer to its last, of those whose requests came before the burst, the median.
    BURST_RELEASE: Duration = "capture.burst_release", "ns";
    /// Of the same answers, the longest time from request to answer less the shortest, the median of the bursts.
    BURST_WAITS_SPREAD: Duration = "capture.burst_waits_spread", "ns";
    /// The number served at a time, 1 to 64, that makes times in service most alike if requests are served in the order in which they came; 0 if no number does better than each being served when it comes. Of the last 1,024 answers; a state.
    SERVERS: u64 = "capture.servers", "1";
    /// By so many thousandths these times in service are narrower distributed than times from request to answer.
    SERVERS_NARROWER: u64 = "capture.servers_narrower", "1";
    /// Of a thousand requests, those that would have ended before they began.
    SERVERS_EARLY: u64 = "capture.servers_early", "1";
    /// Median of these times in service.
    SERVERS_P50: Duration = "capture.servers_p50", "ns";
    /// Rank correlation of the times of requests that came one after the other, in thousandths; a negative one is 0.
    SERVICE_ALIKE: u64 = "capture.service_alike", "1";
}

/// How many answers began with it.
pub fn told_no(refusal: Refusal) -> Metric<u64> {
    match refusal {
        Refusal::Http => NO_HTTP,
        Refusal::Reply => NO_REPLY,
        Refusal::Word => NO_WORD,
        Refusal::Database => NO_DATABASE,
        Refusal::Broker => NO_BROKER,
        Refusal::Xmpp => NO_XMPP,
        Refusal::Error => NO_ERROR,
    }
}

/// The capture's own figures.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Own {
    /// See [`LOST`].
    pub lost: u64,
    /// See [`WATCHED`].
    pub watched: Duration,
    /// See [`COST`].
    pub cost: Duration,
}

/// Adds the capture's figures of each of its ports as samples. Instants of packets are on `seen`'s clock; the samples
/// are stamped `at`.
pub fn push(
    at: Timestamp,
    seen: Timestamp,
    exchanges: &Exchanges,
    own: Own,
    evidence: &mut Evidence,
) {
    for (port, totals) in exchanges.totals(seen) {
        let of = Subject::Listener(port);
        let mut count = |metric, value| evidence.push(at, of, metric, value);
        count(PACKETS, totals.packets);
        count(EXCHANGES, totals.exchanges);
        count(CONNECTIONS, totals.connections);
        count(REQUEST_ACKS, totals.request_acks);
        count(ASKED_AGAIN, totals.asked_again);
        count(OPENED, totals.opened);
        count(REFUSED, totals.refused);
        count(RESET, totals.reset);
        for refusal in Refusal::ALL {
            count(told_no(refusal), totals.told_no[refusal.index()]);
        }
        count(TLS, totals.tls);
        count(HANDSHAKES, totals.handshakes);
        count(LOGINS, totals.logins);
        count(SESSIONS, totals.sessions);
        count(SESSIONS_EXCHANGES, totals.session_exchanges);
        count(WAITERS_EXCHANGES, totals.waiters_exchanges);
        count(TRANSACTIONS, totals.transactions);
        count(UNANSWERED, totals.unanswered);
        count(HUNG_UP, totals.hung_up);
        count(DUPLEX, totals.duplex);
        count(UNASKED, totals.unasked);
        count(RESUMED, totals.resumed);
        count(MISSED, totals.missed);
        count(LOST, own.lost);
        count(ONE_IN, u64::from(exchanges.sampling().one_in()));
        let mut time = |metric, nanos| evidence.push(at, of, metric, Duration::from_nanos(nanos));
        time(SERVICE_TIME, totals.service_time);
        time(REQUEST_TIME, totals.request_time);
        time(REQUEST_HELD, totals.request_held);
        time(REQUEST_REACTION, totals.request_reaction);
        time(AGAIN_TIME, totals.again_time);
        time(ANSWER_TIME, totals.answer_time);
        time(IDLE_TIME, totals.idle_time);
        time(ASKED_AREA, totals.asked_area);
        time(HANDSHAKE_TIME, totals.handshake_time);
        time(LOGIN_TIME, totals.login_time);
        time(WATCHED, own.watched.as_nanos() as u64);
        time(COST, own.cost.as_nanos() as u64);
        // No answer yet: no percentile, and not one of zero.
        if let Some(times) = exchanges.service_times(port) {
            time(SERVICE_P50, times.value_at_quantile(0.5));
            time(SERVICE_P99, times.value_at_quantile(0.99));
        }
        if let Some(paces) = exchanges.paces(port) {
            evidence.push(at, of, LASTING, paces.len());
            evidence.push(at, of, LASTING_LOW, paces.value_at_quantile(0.1));
            evidence.push(at, of, LASTING_HIGH, paces.value_at_quantile(0.9));
        }
        let mut time = |metric, nanos| evidence.push(at, of, metric, Duration::from_nanos(nanos));
        if let Some(rhythm) = exchanges.rhythm(port) {
            time(GAP_TIME, rhythm.time);
            time(GAP_UNASKED, rhythm.unasked);
            time(GAP_LOW, rhythm.low);
            time(GAP_SPREAD, rhythm.spread);
            time(ASKED_SPREAD, rhythm.asked_spread);
            time(TURN_SPREAD, rhythm.turn_spread);
            time(SPREAD_4, rhythm.spread_4);
            time(SPREAD_32, rhythm.spread_32);
            let beat = rhythm.beat.inspect(|beat| {
                time(BEAT, beat.period);
                time(BEAT_SPREAD, beat.spread);
                time(BURST_TIME, beat.lasts);
                time(BURST_TIME_SPREAD, beat.lasts_spread);
                time(BURST_RELEASE, beat.release);
                time(BURST_WAITS_SPREAD, beat.waits_spread);
            });
            evidence.push(at, of, GAPS, rhythm.gaps);
            evidence.push(at, of, TURN, rhythm.turn);
            if let Some(beat) = beat {
                evidence.push(at, of, BURST, beat.answers);
                evidence.push(at, of, BURST_SPREAD, beat.answers_spread);
            }
        }
        let estimates =
            [exchanges.servers(port), exchanges.sessions(port), exchanges.transactions(port)];
        if let Some(served) = estimates[0] {
            evidence.push(at, of, SERVICE_ALIKE, served.alike_permille);
        }
        for (estimate, [servers, narrower, early], p50) in [
            (estimates[0], [SERVERS, SERVERS_NARROWER, SERVERS_EARLY], SERVERS_P50),
            (estimates[1], [SESSIONS_SERVERS, SESSIONS_NARROWER, SESSIONS_EARLY], SESSIONS_P50),
            (
                estimates[2],
                [TRANSACTIONS_SERVERS, TRANSACTIONS_NARROWER, TRANSACTIONS_EARLY],
                TRANSACTIONS_P50,
            ),
        ] {
            let Some(served) = estimate else { continue };
            evidence.push(at, of, servers, served.servers);
            evidence.push(at, of, narrower, served.narrower_permille);
            evidence.push(at, of, early, served.early_permille);
            evidence.push(at, of, p50, Duration::from_nanos(served.p50));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_metric_is_pushed_and_percentiles_only_where_there_was_an_answer() {
        let mut exchanges = Exchanges::new(&[80], Sampling::all());
        let mut evidence = Evidence::default();
        push(Timestamp(5), Timestamp(5), &exchanges, Own::default(), &mut evidence);
        let of = Subject::Listener(80);
        assert_eq!(evidence.of(of).last(EXCHANGES), Ok(0));
        assert!(evidence.of(of).last(SERVICE_P50).is_err());

        for nth in 0..400 {
            let begin = 1_000 + 5_000 * u64::from(nth);
            // One that waits, and two quick ones of its transaction.
            let took = if nth % 3 == 0 { 4_000 } else { 500 };
            testing::exchange(&mut exchanges, nth, [begin, begin + took]);
        }
        testing::lasting(&mut exchanges);
        testing::visits(&mut exchanges, 64);
        let mut evidence = Evidence::default();
        push(Timestamp(9), Timestamp(2_000_000_000), &exchanges, Own::default(), &mut evidence);
        let (_, _, values) = evidence.rows().remove(0);
        assert_eq!(values.len(), METRICS.len());
        assert!(METRICS.iter().all(|metric| values.contains_key(metric.name)));
        assert_eq!(evidence.of(of).last(SERVICE_P50), Ok(Duration::from_nanos(500)));
    }
}
