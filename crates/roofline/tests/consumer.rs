//! Queues of a broker that grow, and those that do not: counts as RabbitMQ keeps them, put into a recorded
//! RabbitMQ that was watched (`fixtures/evidence/watched/record`).
#![allow(clippy::unwrap_used, clippy::disallowed_methods)]

use linerate_evidence::sources::{broker, queue};
use linerate_evidence::{Evidence, Metric, Subject};
use linerate_model::Timestamp;
use linerate_roofline::{Judgement, State};

mod altered;

use altered::{changed, judged, of, recording};

const SECONDS: u64 = 6;

/// What is counted twice a second of one queue with one consumer, each a function of the time in half seconds.
struct Broker {
    published: fn(u64) -> u64,
    taken: fn(u64) -> u64,
    prefetch: u64,
    consumers: u64,
    nodes: u64,
    streams: u64,
}

#[test]
fn queues_of_other_brokers_are_named_by_what_these_tell_themselves() {
    // beanstalkd: 317/s put, one worker that takes 10 ms for each; and the same with a list of Redis.
    for (name, says) in [
        ("foreign/tube-that-grows", "queue orders grew by 882"),
        ("foreign/list-that-grows", "queue jobs grew by 766"),
    ] {
        let (header, evidence) = recording(name);
        let judgement = judged(&header, &evidence);
        assert_eq!(judgement.verdict.by(), Some("app.consumer"), "{name}");
        assert!(judgement.verdict.says.contains(says), "{}", judgement.verdict.says);
        let cure = judgement.advice.iter().map(|of| of.by_hand.as_str()).collect::<String>();
        assert!(!cure.contains("rabbit") && !cure.contains("basic.qos"), "{cure}");
        // The same length all the time.
        let stands = changed(&evidence, |_, metric, raw| match metric {
            "queue.ready" => Some(700),
            "queue.published" | "broker.published" => None,
            _ => Some(raw),
        });
        assert_eq!(judged(&header, &stands).verdict.by(), None, "{name}");
    }
}

/// 434/s published, 48/s acknowledged, one message at a time.
const SLOW: Broker = Broker {
    published: |at| 217 * at,
    taken: |at| 24 * at,
    prefetch: 1,
    consumers: 1,
    nodes: 1,
    streams: 0,
};

impl Broker {
    /// The recording of a quiet RabbitMQ, with these counts.
    fn judged(&self, is_counted: bool) -> Judgement {
        let (header, mut evidence) = recording("watched/alarm");
        let first = evidence.rows().iter().map(|(at, ..)| *at).min().unwrap();
        evidence = altered::changed(&evidence, |_, name, raw| {
            Some(if name == "vm.alarms" { 0 } else { raw })
        });
        for half in 0..=2 * SECONDS {
            let at = Timestamp(first.0 + half * 500_000_000);
            self.push(&mut evidence, at, half, is_counted);
        }
        evidence.push_fact(Subject::Queue(0), "name", "work".into());
        judged(&header, &evidence)
    }

    fn push(&self, evidence: &mut Evidence, at: Timestamp, half: u64, is_counted: bool) {
        let of = Subject::Queue(0);
        let (published, taken) = ((self.published)(half), (self.taken)(half));
        let held = self.prefetch.min(published - taken);
        let mut push = |of, metric: Metric<u64>, value| evidence.push(at, of, metric, value);
        for (metric, value) in [
            (broker::PUBLISHED, published),
            (broker::DELIVERED, taken + held),
            (broker::REDELIVERED, 0),
            (broker::ACKNOWLEDGED, taken),
            (broker::DROPPED, 0),
            (broker::REJECTED, 0),
            (broker::CONSUMERS, self.consumers),
            (broker::QUEUES, 1),
            (broker::STREAMS, self.streams),
            (broker::NODES, self.nodes),
        ] {
            push(Subject::Node, metric, value);
        }
        push(of, queue::CONSUMERS, self.consumers);
        push(of, queue::PREFETCH, self.prefetch);
        push(of, queue::CONSUMERS_UNLIMITED, 0);
        push(of, queue::CONSUMERS_NO_ACK, 0);
        if is_counted {
            // Renewed every 5 s, the first time after 2.
            let known = if half < 4 { 0 } else { 4 + (half - 4) / 10 * 10 };
            let waits = (self.published)(known) - (self.taken)(known);
            push(of, queue::READY, waits.saturating_sub(held));
            push(of, queue::UNACKNOWLEDGED, held);
            push(of, queue::PUBLISHED, published);
            push(of, queue::DELIVERED, taken + held);
            push(of, queue::DELIVERED_NO_ACK, 0);
            push(of, queue::REDELIVERED, 0);
            push(of, queue::ACKNOWLEDGED, taken);
        }
    }

    fn names_it(&self, is_counted: bool) -> bool {
        let judgement = self.judged(is_counted);
        let named = judgement.verdict.by() == Some("app.consumer");
        assert_eq!(named, of(&judgement, "app.consumer").state == State::Ceiling, "{judgement:?}");
        named
    }
}

#[test]
fn a_recorded_one_is_named_and_a_healthy_broker_is_not() {
    let (header, evidence) = recording("watched/consumer");
    let judgement = judged(&header, &evidence);
    assert_eq!(judgement.verdict.by(), Some("app.consumer"), "{:?}", judgement.verdict);
    let because = &of(&judgement, "app.consumer").because;
    assert!(because.contains("1 consumer with a prefetch of 1, 2"), "{because}");
    let (header, evidence) = recording("watched/broker");
    assert_ne!(judged(&header, &evidence).verdict.by(), Some("app.consumer"));
}

#[test]
fn a_consumer_that_holds_what_it_may_is_named_with_what_it_takes() {
    for is_counted in [false, true] {
        let judgement = SLOW.judged(is_counted);
        let says = &judgement.verdict.says;
        assert_eq!(judgement.verdict.by(), Some("app.consumer"), "{says}");
        assert!(judgement.turned_away);
        let wanted = "434/s published, 48.0/s acknowledged; queue work grew by";
        assert!(says.contains(wanted), "{says}");
        // 1 / 48 a second.
        let because = &of(&judgement, "app.consumer").because;
        assert!(
            because.contains("1 consumer with a prefetch of 1, 20.8 ms a message"),
            "{because}"
        );
        // 434 a second x 20.8 ms.
        let advice = &judgement.advice[0];
        assert_eq!((advice.knob.as_str(), advice.value.as_str()), ("consumer.prefetch", "10"));
    }
}

#[test]
fn a_queue_from_which_nobody_consumes_is_named_so() {
    let alone = Broker { taken: |_| 0, prefetch: 0, consumers: 0, ..SLOW };
    for is_counted in [false, true] {
        let judgement = alone.judged(is_counted);
        assert_eq!(judgement.verdict.by(), Some("app.consumer"), "{:?}", judgement.verdict);
        assert!(judgement.verdict.says.contains("434/s published, none consumed"));
        assert!(!judgement.turned_away);
    }
}

#[test]
fn what_is_taken_as_it_comes_or_stands_still_or_is_worked_off_is_not_named() {
    let wide = Broker { prefetch: 200, ..SLOW };
    let taken = Broker { taken: |at| 217 * at, ..wide };
    let still = Broker { published: |_| 5000, taken: |_| 0, ..wide };
    // Two seconds of 1,000 a second, then 100, and 300 taken all the time.
    let burst = Broker {
        published: |at| 500 * at.min(4) + 50 * at.saturating_sub(4),
        taken: |at| 150 * at,
        ..wide
    };
    for (name, broker) in [("taken", taken), ("still", still), ("burst", burst)] {
        assert!(!broker.names_it(false), "{name}");
        assert!(!broker.names_it(true), "{name}");
    }
}

#[test]
fn a_prefetch_that_fills_or_acknowledgements_in_batches_are_no_queue_that_grows() {
    // Handed out at once, acknowledged once in a while.
    let batches = Broker { taken: |at| 217 * at / 1000 * 1000, prefetch: 1000, ..SLOW };
    assert!(!batches.names_it(false));
}

#[test]
fn what_other_nodes_or_streams_keep_is_not_said_to_wait() {
    for broker in [Broker { nodes: 3, ..SLOW }, Broker { streams: 1, ..SLOW }] {
        assert!(!broker.names_it(false));
    }
    // A queue's own count stands, whatever there is beside it.
    assert!(Broker { streams: 1, ..SLOW }.names_it(true));
}

#[test]
fn a_node_without_a_broker_has_none() {
    let (header, evidence) = recording("watched/shaper");
    let judgement = judged(&header, &evidence);
    assert_eq!(of(&judgement, "app.consumer").state, State::DoesNotApply);
}

#[test]
fn messages_that_a_queue_dropped_are_refused_unless_a_dead_letter_exchange_has_them() {
    // RabbitMQ, x-max-length 2: questions beyond that are dropped at the head, and nobody is told.
    let (header, evidence) = recording("foreign/dropped-unheard");
    assert_eq!(judged(&header, &evidence).verdict.by(), Some("app.refused"));
    let kept = changed(&evidence, |_, name, raw| Some(if name == "broker.lost" { 0 } else { raw }));
    assert_eq!(judged(&header, &kept).verdict.by(), None);
    // Nobody has ever taken one: the last ones are kept for whoever may want them.
    let log =
        changed(&evidence, |_, name, raw| Some(if name == "broker.delivered" { 0 } else { raw }));
    assert_ne!(judged(&header, &log).verdict.by(), Some("app.refused"));
}
