//! What sets the rate of a watched service, by the rhythm of its answers.

use linerate_account::{Exchanges, Pace};
use linerate_evidence::sources::capture::{Beat, Rhythm, Served};

fn headers(rhythm: Rhythm) -> Exchanges {
    Exchanges {
        per_s: 400.0,
        under_way: 20.0,
        asking: 0.0,
        asking_for_ack: 0.0,
        after_ack_s: 0.0,
        asking_again: 0.0,
        hung_up_per_s: 0.0,
        service_s: 0.05,
        p50_s: 0.05,
        p99_s: 0.06,
        refused_per_s: 0.0,
        opened_per_s: 0.0,
        told_no: [0.0; 7],
        answering: 0.0,
        lasting: None,
        tls: 0.0,
        shaking: 0.0,
        alternate: true,
        idle_s: 0.0001,
        rhythm: Some(rhythm),
        logins: [0.0; 2],
        sessions: None,
        per_session: 0.0,
        transactions: None,
        to_waiters: None,
    }
}

/// 20 requests wait, 400 answers a second; as they are told with this rhythm.
fn paced(rhythm: Rhythm) -> Option<Pace> {
    let headers = headers(rhythm);
    if rhythm.served.is_none() {
        let asks_late = Exchanges { idle_s: 0.01, p99_s: headers.p50_s, ..headers };
        assert_eq!(asks_late.pace(), None, "its clients set when");
        let clumps = Exchanges { per_s: 100.0, ..headers };
        assert_eq!(clumps.pace(), None, "pauses are most of it");
        let steps = Exchanges { p50_s: 0.001, ..headers };
        assert!(!matches!(steps.pace(), Some(Pace::AtOnce(k)) if k > 1.0), "a transaction's steps");
    }
    headers.pace()
}

const ONE: Rhythm = Rhythm {
    gaps: 2000.0,
    mean_s: 0.0025,
    unasked_s: Some(0.0022),
    low_s: 0.0021,
    spread_s: 0.0003,
    asked_spread_s: None,
    turn: 1.0,
    turn_spread_s: 0.0003,
    spreads_s: [0.0006, 0.0017],
    beat: None,
    served: None,
    alike: None,
};

#[test]
fn bursts_of_more_than_wait_are_what_a_clock_gives_out() {
    let differ = Some([0.0, 0.3]);
    let held = Some([0.001, 0.03]);
    let beat = Beat { period_s: 0.1, spread_s: 0.001, answers: 40.0, lasts_s: 0.01, differ, held };
    let bursts = Rhythm { low_s: 0.0, beat: Some(beat), ..ONE };
    assert_eq!(paced(bursts), Some(Pace::Clock));
    let of = |beat| paced(Rhythm { beat: Some(beat), ..bursts });
    assert_eq!(of(Beat { answers: 20.0, ..beat }), None, "all that wait, once");
    assert_eq!(of(Beat { spread_s: 0.03, ..beat }), None, "uneven");
    let stopped = Beat { differ: Some([0.3, 0.3]), spread_s: 0.03, ..beat };
    assert_eq!(
        of(stopped),
        Some(Pace::AtOnce(1.0)),
        "as many as happen to come until the next stop"
    );
    assert_eq!(of(Beat { differ: Some([0.0, 0.0]), ..beat }), None, "either");
    assert_eq!(of(Beat { differ: None, held: None, ..beat }), Some(Pace::Clock), "older evidence");
    let apart = Some([0.03, 0.001]);
    assert_eq!(of(Beat { held: apart, ..beat }), Some(Pace::Apart), "each after its own time");
    let near = Some([0.0006, 0.0002]);
    assert_eq!(
        of(Beat { held: near, ..beat }),
        Some(Pace::Clock),
        "in the order of their requests"
    );
}

#[test]
fn answers_that_keep_apart_are_of_one_at_a_time_or_of_a_clock() {
    assert_eq!(paced(ONE), Some(Pace::AtOnce(1.0)));
    assert_eq!(paced(Rhythm { spreads_s: [0.0003, 0.0003], ..ONE }), Some(Pace::Clock));
    assert_eq!(paced(Rhythm { gaps: 50.0, ..ONE }), None, "too few");
    let rest = |rhythm, idle_s| Exchanges { idle_s, ..headers(rhythm) }.pace();
    let even = Rhythm { spreads_s: [0.0003, 0.0003], ..ONE };
    assert_eq!(rest(even, 0.01), Some(Pace::Clock), "some always wait");
    assert_eq!(rest(even, 0.03), None, "clients mostly rest");
    assert_eq!(rest(ONE, 0.01), Some(Pace::AtOnce(1.0)), "a late answer makes the next one late");
    // All wait alike, and clients rest for longer than it takes from one answer to the next.
    let alike = |asked_spread_s| {
        let rhythm = Rhythm { asked_spread_s: Some(asked_spread_s), ..even };
        let headers = headers(rhythm);
        Exchanges { idle_s: 0.01, p99_s: headers.p50_s, ..headers }.pace()
    };
    assert_eq!(alike(0.0004), Some(Pace::Clock), "requests follow answers, and are less even");
    assert_eq!(alike(0.0002), None, "answers follow requests of a clock");
}

#[test]
fn the_order_of_requests_and_answers_tells_how_many_are_served_at_a_time() {
    let served = Served { at_once: 6.0, narrower: 0.4, early: 0.0, p50_s: 0.002 };
    // No rhythm: quick ones and slow ones.
    let mixed = Rhythm { low_s: 0.0, spread_s: 0.004, turn_spread_s: 0.004, ..ONE };
    let of = |served| paced(Rhythm { served: Some(served), ..mixed });
    assert_eq!(paced(mixed), None);
    assert_eq!(of(served), Some(Pace::AtOnce(6.0)));
    assert_eq!(of(Served { narrower: 0.02, ..served }), None, "hardly");
    assert_eq!(of(Served { early: 0.2, ..served }), None, "not in order");
    assert_eq!(of(Served { at_once: 11.0, ..served }), None, "hardly any wait");
    let one = Served { at_once: 1.0, ..served };
    assert_eq!(of(one), Some(Pace::AtOnce(1.0)));
    assert_eq!(of(Served { p50_s: 0.0001, ..one }), None, "let go together");
    let clock = Rhythm { served: Some(one), spreads_s: [0.0003, 0.0003], ..mixed };
    assert_eq!(paced(clock), Some(Pace::Clock));
    // Alike waits of as many as there are clients keep their order, and so do answers of a pool that come together.
    let repeats = Rhythm { turn_spread_s: 0.0005, ..clock };
    assert_eq!(paced(Rhythm { turn: 20.0, ..repeats }), Some(Pace::Apart));
    assert_eq!(paced(Rhythm { turn: 3.0, ..repeats }), Some(Pace::AtOnce(3.0)));
}

#[test]
fn answers_that_repeat_after_some_are_of_so_many_at_a_time_and_others_of_nothing() {
    let passed_on = Rhythm { unasked_s: Some(0.0004), ..ONE };
    assert_eq!(paced(passed_on), None, "the rhythm of whoever sends");
    assert!(paced(Rhythm { unasked_s: None, ..ONE }).is_some(), "older evidence");
    let pool = Rhythm { low_s: 0.0001, spread_s: 0.002, turn: 4.0, ..ONE };
    assert_eq!(paced(pool), Some(Pace::AtOnce(4.0)));
    assert_eq!(paced(Rhythm { turn_spread_s: 0.0015, ..pool }), None, "hardly");
    assert_eq!(paced(Rhythm { turn: 12.0, ..pool }), None, "hardly anybody waits");
    assert_eq!(paced(Rhythm { turn: 20.0, ..pool }), Some(Pace::Apart), "as many as ask");
}

#[test]
fn the_order_of_first_requests_and_ends_tells_how_many_connections_are_let_in() {
    let sessions = Served { at_once: 4.0, narrower: 0.8, early: 0.0, p50_s: 0.3 };
    // Ten requests a visit, of which the first waits.
    let limited =
        Exchanges { sessions: Some(sessions), per_session: 10.0, p50_s: 0.001, ..headers(ONE) };
    assert_eq!(limited.let_in(), Some(4.0));
    assert_eq!(Exchanges { p50_s: 0.05, ..limited }.let_in(), None, "each request waits");
    assert_eq!(
        Exchanges { per_session: 1.0, ..limited }.let_in(),
        None,
        "one request a connection"
    );
    assert_eq!(Exchanges { under_way: 1.0, ..limited }.let_in(), None, "hardly any wait");
    let by_chance = Served { narrower: 0.02, ..sessions };
    assert_eq!(Exchanges { sessions: Some(by_chance), ..limited }.let_in(), None, "by chance");
    let not_in_order = Served { early: 0.7, ..sessions };
    assert_eq!(
        Exchanges { sessions: Some(not_in_order), ..limited }.let_in(),
        None,
        "not in order"
    );
}

#[test]
fn clients_that_rest_for_longer_than_they_wait_set_the_rate() {
    let told = Exchanges { under_way: 4.0, per_s: 320.0, service_s: 0.0125, ..headers(ONE) };
    let rests = Exchanges { idle_s: 0.025, to_waiters: Some(0.03), ..told };
    assert!(rests.clients_rest());
    assert!(!Exchanges { idle_s: 0.01, ..rests }.clients_rest(), "they wait for longer");
    assert!(!Exchanges { idle_s: f64::INFINITY, ..rests }.clients_rest(), "a connection each");
    assert!(!Exchanges { under_way: 8.0, ..rests }.clients_rest(), "some are never answered");
    assert!(
        !Exchanges { to_waiters: Some(0.9), ..rests }.clients_rest(),
        "most answers are waited for"
    );
    assert!(!Exchanges { to_waiters: None, ..rests }.clients_rest(), "older evidence");
}
