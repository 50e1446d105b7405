//! The account and the experiment, of evidence made by hand.

mod hand;

use hand::{counted, header, load, second, step};
use linerate_account::{Account, Experiment, Held, Inconclusive, Station, agreements, ratio};
use linerate_evidence::{
    Evidence, Packed, Side, Slice, Step, StepKind, Subject, live_histogram, summarise,
};
use linerate_model::Timestamp;
use proptest::prelude::*;

const CENSUS: Subject = Subject::Census(0);

/// Of 100 instants a second, 20 idle, 60 in the application and 20 unread.
fn census() -> Evidence {
    let mut evidence = Evidence::default();
    let by = |each: u64| (0..=12).map(|at| at * each).collect::<Vec<_>>();
    for (name, each) in [("instants", 100), ("idle", 20), ("application", 60), ("unread", 20)] {
        counted(&mut evidence, CENSUS, &format!("census.{name}"), 0, &by(each));
    }
    evidence
}

#[test]
fn the_census_shares_out_what_the_stamps_count() {
    let header = header("connections = 10");
    let account = Account::of(&header, &census(), &load(&header, 400.0, 8.0)).unwrap();
    assert_eq!((account.instants > 0.0, account.under_way), (true, 8.0));
    // 60 of the 80 instants at which one was under way; 6 exchanges at 400/s are 15 ms of each.
    assert!((account.at(Station::Application) - 6.0).abs() < 1e-9);
    assert!((account.at(Station::Unread) / account.under_way - 0.25).abs() < 1e-9);
    let place = account.places.iter().find(|place| place.station == Station::Application).unwrap();
    assert!((place.seconds.mid - 0.015).abs() < 1e-9);
    assert_eq!(account.largest(), Some((Station::Application, account.at(Station::Application))));
    // Ten connections of which 80 % had one under way are the 8 of the stamps.
    assert!(account.disagreement < 1e-9 && account.is_split());
    // The window has 8 s of the 12.
    assert_eq!(account.instants, 800.0);
    assert!((account.seconds() - 0.02).abs() < 1e-9);
}

#[test]
fn what_stamps_and_census_disagree_on_is_shown() {
    let header = header("connections = 10");
    let account = Account::of(&header, &census(), &load(&header, 400.0, 4.0)).unwrap();
    assert!((account.disagreement - 1.0).abs() < 1e-9);
    assert_eq!(account.unplaced(), 1.0);
}

#[test]
fn a_connection_that_is_opened_again_is_under_way_though_its_request_is_not_written() {
    let header = header("connections = 10");
    let mut evidence = Evidence::default();
    let by = |each: u64| (0..=12).map(|at| at * each).collect::<Vec<_>>();
    for (name, each) in [("instants", 100), ("tls_handshake", 60), ("connect", 20), ("unread", 20)]
    {
        counted(&mut evidence, CENSUS, &format!("census.{name}"), 0, &by(each));
    }
    let account = Account::of(&header, &evidence, &load(&header, 400.0, 2.0)).unwrap();
    let near = |station, exchanges: f64| (account.at(station) - exchanges).abs() < 1e-9;
    assert!(near(Station::TlsHandshake, 6.0) && near(Station::Connect, 2.0), "{account:?}");
    assert!(near(Station::Unread, 2.0) && (account.under_way - 10.0).abs() < 1e-9, "{account:?}");
    assert!(account.disagreement < 1e-9 && account.is_split());
}

#[test]
fn time_limited_by_a_window_stands_beside_the_kernels_clock_of_it_and_run_time_beside_cpu_time() {
    let header = header("connections = 10");
    let mut evidence = Evidence::default();
    let by = |each: u64| (0..=12).map(|at| at * each).collect::<Vec<_>>();
    // Limited by the window 60 times in a hundred, mostly while the exchange is elsewhere.
    let counts = [("instants", 100), ("unread", 80), ("client_window", 20)];
    for (name, each) in counts.into_iter().chain([("client_rwnd", 60), ("server_rwnd", 0)]) {
        counted(&mut evidence, CENSUS, &format!("census.{name}"), 0, &by(each));
    }
    // Two of the ten are sampled: limited for half and for 70 % of the time. The other end's clock stands still.
    for (id, each) in [(1, 500_000_000), (2, 700_000_000)] {
        for (side, each) in [(Side::Client, each), (Side::Server, 0)] {
            counted(&mut evidence, Subject::Flow(id, side), "tcp.rwnd_limited", 0, &by(each));
        }
    }
    for (name, each) in [("run", 200_000_000), ("utime", 90_000_000), ("stime", 90_000_000)] {
        counted(&mut evidence, Subject::Target, &format!("process.{name}"), 0, &by(each));
    }
    let account = Account::of(&header, &evidence, &load(&header, 100.0, 10.0)).unwrap();
    let window = second(2)..=second(10);
    let of = agreements(&account, &header, &evidence, &window);
    let said: Vec<_> = of.iter().map(|it| (it.by, it.account_s, it.other_s)).collect();
    // 6 of the 10 are limited, at 100/s: 60 ms each, and by the clock (0.5 + 0.7) / 2 of each connection's time.
    let near = |a: f64, b: f64| (a - b).abs() < 1e-9;
    assert_eq!(said.len(), 2, "{said:?}");
    assert!(said[0].0 == "tcp.rwnd_limited" && near(said[0].1, 0.06) && near(said[0].2, 0.06));
    assert!(said[1].0 == "process.utime" && near(said[1].1, 0.002) && near(said[1].2, 0.0018));
    // A hundredth of a CPU is too little to compare by ticks.
    let idle = agreements(&account, &header, &Evidence::default(), &window);
    assert!(idle.is_empty(), "{idle:?}");
}

#[test]
fn a_counter_that_stands_still_is_not_counted_again_where_it_is_told_next() {
    let header = header("connections = 10");
    let mut evidence = Evidence::default();
    let instants: Vec<u64> = (0..=12).map(|at| at * 100).collect();
    counted(&mut evidence, CENSUS, "census.instants", 0, &instants);
    // 100 in the first second, 700 from the fifth on; nothing in between, and no row.
    for (at, engine) in [(0, 0), (1, 100), (5, 100), (6, 200), (12, 800)] {
        evidence.push_raw(second(at), CENSUS, "census.engine", engine);
    }
    let account = Account::of(&header, &evidence, &load(&header, 100.0, 10.0)).unwrap();
    // Rows of the window: 100 up to the 5th second, 200 from the 6th to the 10th.
    assert!(
        (account.at(Station::Engine) / account.under_way - 100.0 / 800.0).abs() < 1e-9,
        "{account:?}"
    );
}

#[test]
fn held_bytes_are_told_apart_and_add_up() {
    let header = header("connections = 10");
    let mut evidence = Evidence::default();
    let by = |each: u64| (0..=12).map(|at| at * each).collect::<Vec<_>>();
    // Two servers: of the second's connections no instant was taken.
    counted(&mut evidence, Subject::Census(1), "census.instants", 0, &by(0));
    for (name, each) in
        [("instants", 100), ("idle", 20), ("server_nagle", 60), ("server_window", 20)]
    {
        counted(&mut evidence, CENSUS, &format!("census.{name}"), 0, &by(each));
    }
    let account = Account::of(&header, &evidence, &load(&header, 400.0, 8.0)).unwrap();
    let nagle = account.held(Station::ServerSending, Held::Nagle);
    let window = account.held(Station::ServerSending, Held::Window);
    assert!((account.at(Station::ServerSending) - nagle - window).abs() < 1e-9);
    assert!((nagle - 3.0 * window).abs() < 1e-9 && window > 0.0);
}

#[test]
fn without_a_census_nothing_is_split_and_without_answers_there_is_no_account() {
    let header = header("connections = 10");
    let empty = Evidence::default();
    let account = Account::of(&header, &empty, &load(&header, 400.0, 8.0)).unwrap();
    assert_eq!((account.instants, account.is_split()), (0.0, false));
    assert_eq!((account.largest(), account.unplaced()), (None, 1.0));
    assert_eq!(Account::of(&header, &census(), &load(&header, 0.0, 8.0)), None);
    // One row is no batch.
    let mut one = Evidence::default();
    counted(&mut one, CENSUS, "census.instants", 5, &[100]);
    let account = Account::of(&header, &one, &load(&header, 400.0, 8.0)).unwrap();
    assert_eq!(account.instants, 0.0);
}

#[test]
fn what_the_engine_sends_late_in_an_open_loop_is_with_the_engine() {
    let header = header("rate = 100\nconnections = 10");
    let mut evidence = census();
    // 100 exchanges a second that the engine itself sent 10 ms late: one of them is late at any time.
    let times = |ns: u64| {
        let mut live = live_histogram();
        live.record_n(ns, 100).unwrap();
        Packed::pack(&live)
    };
    for index in 0..12u32 {
        let mut slice = Slice::new(0, index, Timestamp(u64::from(index) * 1_000_000_000));
        slice.to = second(u64::from(index) + 1);
        (slice.scheduled, slice.begun, slice.answered) = (100, 100, 100);
        slice.in_flight_area = 2_000_000_000;
        (slice.service, slice.own_lateness) = (times(20_000_000), times(10_000_000));
        (slice.latency, slice.lateness) = (times(30_000_000), times(10_000_000));
        evidence.slices.push(slice);
    }
    let load = summarise(&evidence, &header.plan);
    let account = Account::of(&header, &evidence, &load).unwrap();
    assert!((account.at(Station::Engine) - 1.0).abs() < 0.02, "{account:?}");
    assert!((account.under_way - load.in_flight - 1.0).abs() < 0.02);
    let sum: f64 = account.places.iter().map(|place| place.exchanges.mid).sum();
    assert!((sum - account.under_way).abs() < 1e-6);
}

proptest! {
    /// `N = Σ N_i`, in order, each within its interval and none of more than there are.
    #[test]
    fn shares_sum_to_what_is_under_way(
        batches in prop::collection::vec(prop::array::uniform8(prop_oneof![5 => Just(0u64), 1 => 0u64..50]), 1..40),
        in_flight in 0.1f64..1e4,
        per_s in 0.1f64..1e6,
    ) {
        const NAMES: [&str; 8] = ["idle", "unread", "application", "server_nagle", "server_window",
            "path_back", "engine", "unresolved"];
        let mut evidence = Evidence::default();
        let mut sums = [0u64; 8];
        let at = |batch: usize| Timestamp(2_000_000_000 + batch as u64 * 100_000_000);
        for (index, batch) in std::iter::once(&[0; 8]).chain(&batches).enumerate() {
            for ((sum, count), name) in sums.iter_mut().zip(batch).zip(NAMES) {
                *sum += count;
                evidence.push_raw(at(index), CENSUS, &format!("census.{name}"), *sum);
            }
            evidence.push_raw(at(index), CENSUS, "census.instants", sums.iter().sum());
        }
        let header = header("connections = 10");
        let account = Account::of(&header, &evidence, &load(&header, per_s, in_flight)).unwrap();
        let busy: u64 = sums[1..].iter().sum();
        prop_assert_eq!(account.places.is_empty(), busy == 0);
        prop_assert!(busy > 0 || !account.is_split(), "of nothing");
        let sum: f64 = account.places.iter().map(|place| place.exchanges.mid).sum();
        prop_assert!(busy == 0 || (sum - in_flight).abs() < 1e-9 * in_flight, "{} {}", sum, in_flight);
        for place in &account.places {
            let of = place.exchanges;
            prop_assert!(of.low <= of.mid && of.mid <= of.high, "{:?}", place);
            prop_assert!(of.high <= in_flight * (1.0 + 1e-9), "{:?} of {}", place, in_flight);
            prop_assert!((place.seconds.mid * per_s - of.mid).abs() < 1e-9 * in_flight);
        }
        let order = |station| Station::ALL.iter().position(|of| *of == station);
        prop_assert!(account.places.is_sorted_by_key(|place| order(place.station)));
    }
}

fn stepped(mut evidence: Evidence, steps: Vec<Step>) -> Evidence {
    evidence.steps = steps;
    evidence
}

/// A run of 10 connections at 500/s, with these steps.
fn experiment(steps: Vec<Step>) -> Option<Experiment> {
    let header = header("connections = 10");
    let evidence = stepped(Evidence::default(), steps);
    Experiment::of(&header, &evidence, &load(&header, 500.0, 10.0))
}

#[test]
fn a_pool_gives_half_of_the_connections_as_much() {
    let of = experiment(vec![
        step(StepKind::Alone, 1, 100, 10),
        step(StepKind::Half, 5, 500, 10),
        step(StepKind::Again, 10, 500, 20),
    ])
    .unwrap();
    assert_eq!(of.inconclusive, None);
    let e = of.elasticity.unwrap();
    assert!(e.low <= 0.0 && e.high >= 0.0 && e.value.abs() < 0.01, "{e:?}");
    // 500/s x 10 ms.
    let at_once = of.at_once().unwrap();
    assert!((at_once.mid - 5.0).abs() < 0.01, "{at_once:?}");
}

#[test]
fn a_delay_gives_half_of_the_connections_half() {
    let of = experiment(vec![step(StepKind::Half, 5, 250, 20), step(StepKind::Again, 10, 500, 20)]);
    let e = of.unwrap().elasticity.unwrap();
    assert!((e.value - 1.0).abs() < 0.01 && e.low > 0.5, "{e:?}");
}

#[test]
fn time_on_the_path_is_not_served() {
    let header = header("connections = 10");
    let mut evidence = stepped(census(), vec![step(StepKind::Alone, 1, 100, 10)]);
    // In the step itself half of the instants are on the path.
    for (name, grown) in [("instants", 100), ("path_out", 30), ("path_back", 20), ("unread", 50)] {
        counted(&mut evidence, CENSUS, &format!("census.{name}"), 20, &[5000, 5000 + grown]);
    }
    let of = Experiment::of(&header, &evidence, &load(&header, 500.0, 10.0)).unwrap();
    assert!((of.alone_outside - 0.5).abs() < 1e-9, "{}", of.alone_outside);
    assert!((of.at_once().unwrap().mid - 2.5).abs() < 0.01);
}

#[test]
fn what_one_connection_gives_tells_where_two_stretches_of_the_same_load_differ() {
    let steps = |alone| {
        vec![
            step(StepKind::Alone, 1, alone, 2),
            step(StepKind::Half, 5, 320, 20),
            step(StepKind::Again, 10, 300, 20),
        ]
    };
    // One gave 450 a second, all of them 500 and later 300: they differ, and neither is more.
    let of = experiment(steps(450)).unwrap();
    assert!(matches!(of.inconclusive, Some(Inconclusive::Drift { .. })), "{of:?}");
    assert!(of.elastic_at_most().unwrap() < 0.2, "{of:?}");
    // One gave 50: all of them are worth several of it.
    let of = experiment(steps(50)).unwrap();
    assert!(of.elastic_at_most().unwrap() > 0.8, "{of:?}");
}

#[test]
fn a_service_that_changed_meanwhile_and_a_step_that_failed_say_nothing() {
    let of = experiment(vec![step(StepKind::Half, 5, 250, 20), step(StepKind::Again, 10, 300, 20)]);
    let drift = of.unwrap().inconclusive.unwrap();
    assert!(matches!(drift, Inconclusive::Drift { before: 500.0, after: 300.0 }), "{drift:?}");
    assert!(drift.says().contains("500/s before") && drift.says().contains("300/s after"));
    let mut half = step(StepKind::Half, 5, 10, 20);
    half.failed = 11;
    let of = experiment(vec![half]).unwrap();
    assert_eq!((of.half, of.elasticity), (None, None));
    assert_eq!(of.inconclusive, Some(Inconclusive::Failed));
    assert_eq!(experiment(Vec::new()), None);
}

#[test]
fn one_connection_has_no_half() {
    let header = header("connections = 1");
    let steps = vec![step(StepKind::Half, 1, 100, 10), step(StepKind::Again, 1, 100, 10)];
    let evidence = stepped(Evidence::default(), steps);
    let of = Experiment::of(&header, &evidence, &load(&header, 100.0, 1.0)).unwrap();
    assert_eq!(of.elasticity, None);
}

#[test]
fn a_share_is_of_all_and_its_interval_of_what_batches_differ() {
    let even = ratio(&[(5.0, 10.0), (5.0, 10.0), (5.0, 10.0), (5.0, 10.0)]).unwrap();
    assert_eq!((even.mid, even.low, even.high), (0.5, 0.5, 0.5));
    let uneven = ratio(&[(0.0, 10.0), (10.0, 10.0), (0.0, 10.0), (10.0, 10.0)]).unwrap();
    // Standard error of four means of 0 and 1: 0.289; t of 3 degrees: 3.18.
    assert_eq!(uneven.mid, 0.5);
    assert!((uneven.high - 0.5 - 0.289 * 3.18).abs() < 0.03, "{uneven:?}");
}

#[test]
fn nothing_counted_is_no_share_and_two_batches_are_no_interval() {
    assert_eq!(ratio(&[]), None);
    assert_eq!(ratio(&[(0.0, 0.0)]), None);
    let two = ratio(&[(1.0, 10.0), (1.0, 10.0)]).unwrap();
    assert_eq!((two.low, two.high), (0.0, 1.0));
}
