//! The simulation against theory, and against the published study at full scale.
#![allow(clippy::unwrap_used)]

use std::time::Duration;

use linerate_model::{BitRate, Link, Path, Plan, Queue, Share, Site};
use linerate_simulate::{Acks, BadScenario, Outcome, Scenario, Service, Station, Tcp, simulate};

fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

fn near(found: f64, expected: f64, tolerance: f64) {
    assert!((found / expected - 1.0).abs() <= tolerance, "{found} is not {expected}");
}

/// Throughput of exact mean value analysis: a delay and stations of so many CPUs each, picked evenly.
fn mva(workers: u32, delay: f64, stations: usize, cpus: usize, demand: f64) -> f64 {
    // marginal[j]: probability of j exchanges at a station; all stations are alike.
    let mut marginal = vec![0.0; workers as usize + 1];
    marginal[0] = 1.0;
    let mut throughput = 0.0;
    for n in 1..=workers as usize {
        let rate = |j: usize| j.min(cpus) as f64 / demand;
        let response: f64 = (1..=n).map(|j| j as f64 / rate(j) * marginal[j - 1]).sum();
        throughput = n as f64 / (delay + response);
        let each = throughput / stations as f64;
        let mut next = vec![0.0; marginal.len()];
        for j in 1..=n {
            next[j] = each / rate(j) * marginal[j - 1];
        }
        next[0] = 1.0 - next.iter().sum::<f64>();
        marginal = next;
    }
    throughput
}

#[test]
fn with_cpus_for_all_throughput_is_workers_over_the_round_trip() {
    let outcome = simulate(&Scenario::across(Path::of_rtt(ms(10)), 1, 100)).unwrap();
    near(outcome.throughput.0, 100.0 / 0.010, 1e-3);
    near(outcome.latency.mean.as_secs_f64(), 0.010, 1e-3);
    assert_eq!(outcome.server_busy, None);
    let way = outcome.links[0].directions[0];
    assert_eq!((way.dropped(), way.retransmitted.0, outcome.stalled_workers), (0.0, 0.0, 0.0));
    // Each request carries the acknowledgement of the answer before it.
    assert_eq!(way.pure_acks.0, 0.0);
}

#[test]
fn what_servers_need_adds_to_the_round_trip() {
    let server = Station { cpus: None, demand: ms(5), service: Service::Constant };
    let scenario = Scenario { server, ..Scenario::across(Path::of_rtt(ms(10)), 2, 100) };
    near(simulate(&scenario).unwrap().throughput.0, 100.0 / 0.015, 2e-3);
    let client = Station { cpus: None, demand: ms(5), service: Service::Constant };
    let scenario = Scenario { client, ..scenario };
    near(simulate(&scenario).unwrap().throughput.0, 100.0 / 0.020, 2e-3);
}

#[test]
fn exponential_servers_do_what_mean_value_analysis_says() {
    let far = |servers, workers, cpus| {
        let server = Station { cpus: Some(cpus), demand: ms(1), service: Service::Exponential };
        let run = Duration::from_secs(20);
        let across = Scenario::across(Path::of_rtt(ms(5)), servers, workers);
        simulate(&Scenario { server, run, ..across }).unwrap()
    };
    for (servers, workers, cpus) in [(1, 40, 8), (1, 60, 8), (4, 20, 1), (4, 100, 4)] {
        let outcome = far(servers, workers, cpus);
        let expected = mva(workers, 0.005, servers.into(), cpus.into(), 0.001);
        near(outcome.throughput.0, expected, 0.02);
        // The utilisation law, U = X D / CPUs.
        let busy = outcome.throughput.0 * 0.001 / f64::from(cpus * servers);
        near(outcome.server_busy.unwrap().0, busy, 0.02);
        // Little's law.
        let inside = outcome.throughput.0 * outcome.latency.mean.as_secs_f64();
        near(inside, f64::from(workers), 0.01);
    }
}

#[test]
fn a_lost_message_costs_a_timeout() {
    let path = Path { loss: Share(0.01), ..Path::of_rtt(ms(10)) };
    let run = Duration::from_secs(20);
    let outcome = simulate(&Scenario { run, ..Scenario::across(path, 1, 100) }).unwrap();
    // Request and answer are lost in 1 of 100 each, and repaired after some 210 ms: 10 + 2 x 1 % x 210.
    near(outcome.throughput.0, 100.0 / 0.0142, 0.1);
    assert!(outcome.retransmitted.probes.0 > 0.0);
    assert!(outcome.stalled_workers > 10.0, "{}", outcome.stalled_workers);
}

#[test]
fn a_rate_carries_its_bits_and_no_more() {
    // 1078 bytes an exchange each way: 50 Mbit/s are 5,798 exchanges/s, 500 workers could do 50,000.
    let path = Path {
        rate: Some(BitRate(50e6)),
        queue: Some(Queue::Packets(1000)),
        ..Path::of_rtt(ms(10))
    };
    let outcome = simulate(&Scenario::across(path, 1, 500)).unwrap();
    near(outcome.throughput.0, 50e6 / 8.0 / 1078.0, 0.02);
    // All wait in its queue: nothing is dropped.
    assert_eq!(outcome.links[0].directions[0].dropped(), 0.0);
    near(outcome.latency.mean.as_secs_f64(), 500.0 / outcome.throughput.0, 0.02);
}

#[test]
fn a_warm_up_of_any_length_is_cut_off() {
    let of = |warm_up, run| {
        let across = Scenario::across(Path::of_rtt(ms(10)), 2, 100);
        simulate(&Scenario { warm_up, run, ..across }).unwrap()
    };
    for (warm_up, run) in [(ms(1_000), ms(300)), (ms(130), ms(1_000)), (ms(100), ms(7_001))] {
        let outcome = of(warm_up, run);
        near(outcome.throughput.0, 10_000.0, 2e-3);
        assert!(outcome.throughput_error.0 < 20.0, "{outcome:?}");
    }
    // None: all workers begin at once, and the answers of the 300th ms come when it is over.
    near(of(ms(0), ms(300)).throughput.0, 100.0 * 29.0 / 0.3, 1e-9);
}

#[test]
fn all_workers_have_begun_after_the_warm_up_however_many_servers_there_are() {
    let outcome = simulate(&Scenario::across(Path::of_rtt(ms(10)), 200, 100)).unwrap();
    near(outcome.throughput.0, 10_000.0, 1e-3);
}

#[test]
fn choices_of_servers_are_the_engines() {
    let scenario = Scenario { workers: 1, ..study(10, None, 1) };
    let outcome = simulate(&Scenario { warm_up: ms(0), ..scenario.clone() }).unwrap();
    // The first worker's, on the first host, which is in the east as the first two servers are.
    let mut choice = linerate_workload::Choice::new(scenario.seed, 0);
    let (mut here, mut all) = (0, 0);
    let exchanges = (outcome.throughput.0 * scenario.run.as_secs_f64()).round() as u32;
    for _ in 0..exchanges {
        all += 1;
        here += u32::from(choice.next(4) < 2);
    }
    let [east, west] = &outcome.pairs[..] else { panic!("{:?}", outcome.pairs) };
    let of = |count: u32| f64::from(count) / scenario.run.as_secs_f64();
    assert_eq!((east.to.as_str(), east.throughput.0), ("east", of(here)));
    assert_eq!((west.to.as_str(), west.throughput.0), ("west", of(all - here)));
}

#[test]
fn the_same_seed_gives_the_same_and_an_outcome_reads_back() {
    let scenario = Scenario { run: ms(200), ..study(10, Some(100), 400) };
    let outcome = simulate(&scenario).unwrap();
    assert_eq!(simulate(&scenario).unwrap(), outcome);
    assert_ne!(simulate(&Scenario { seed: 2, ..scenario.clone() }).unwrap(), outcome);
    let text = serde_json::to_string(&outcome).unwrap();
    assert_eq!(serde_json::from_str::<Outcome>(&text).unwrap(), outcome);
    let text = serde_json::to_string(&scenario).unwrap();
    assert_eq!(serde_json::from_str::<Scenario>(&text).unwrap(), scenario);
}

#[test]
fn what_cannot_be_simulated_is_refused_in_a_sentence() {
    let good = study(10, None, 10);
    let error = |scenario: Scenario| simulate(&scenario).unwrap_err().to_string();
    let apart = Scenario { links: Vec::new(), ..good.clone() };
    assert!(error(apart).contains("can't reach servers of"));
    assert!(error(Scenario { sites: Vec::new(), ..good.clone() }).contains("servers"));
    let mut crowd = good.clone();
    crowd.sites.iter_mut().for_each(|site| site.servers = 40_000);
    assert!(error(crowd).contains("80000 servers: 65535 are the most"));
    assert!(error(Scenario { workers: 0, ..good.clone() }).starts_with("workers is 0"));
    let mut traced = good.clone();
    traced.links[0].path.trace = Some("t".into());
    assert!(matches!(simulate(&traced), Err(BadScenario::Trace(..))));
    let mut nowhere = good;
    nowhere.links[0].between[1] = "moon".into();
    assert!(error(nowhere).contains("`moon` is no site"));
}

#[test]
fn a_plan_is_a_scenario_but_for_what_its_servers_can_do() {
    let plan = "[target]\nbeam = 'echo'\n[path]\nrtt = '10ms'\n[load]\nconnections = 20\n";
    let scenario = Scenario::of_plan(&Plan::from_toml(plan).unwrap());
    near(simulate(&scenario).unwrap().throughput.0, 2_000.0, 1e-3);
}

/// The study: two sites with two servers of 32 CPUs and two client hosts each.
fn study(rtt: u64, limit: Option<u32>, workers: u32) -> Scenario {
    let site = |name: &str| Site { name: name.into(), servers: 2, engines: 2 };
    let path = Path { limit, ..Path::of_rtt(ms(rtt)) };
    Scenario {
        sites: vec![site("east"), site("west")],
        links: vec![Link { between: ["east".into(), "west".into()], path }],
        workers,
        // Table A alone: 4 x 32 CPUs do 627,435 exchanges/s at most.
        server: Station {
            cpus: Some(32),
            demand: Duration::from_nanos(204_000),
            service: Service::Exponential,
        },
        ..Scenario::default()
    }
}

/// Throughput published for scenario B, by workers.
const PUBLISHED_B: [(u32, f64); 5] =
    [(200, 38_660.0), (400, 77_620.0), (2000, 348_516.0), (3000, 344_605.0), (4000, 340_299.0)];

#[test]
fn a_thousand_packets_at_5_ms_hold_the_study_where_it_was_held() {
    let mut found = Vec::new();
    for (workers, published) in PUBLISHED_B {
        let outcome = simulate(&study(10, Some(1000), workers)).unwrap();
        near(outcome.throughput.0, published, 0.10);
        near(outcome.latency.mean.as_secs_f64(), f64::from(workers) / published, 0.15);
        for way in outcome.links[0].directions {
            // No more than 1,000 packets leave in 5 ms.
            assert!(way.left.0 <= 200_000.0 * 1.001, "{way:?}");
            assert_eq!(way.dropped_limit.0, way.dropped());
            assert_eq!(way.dropped() > 0.0, workers >= 2000, "{way:?}");
        }
        found.push(outcome.throughput.0);
    }
    // It falls as clients are added.
    assert!(found[2] > found[4], "{found:?}");
}

#[test]
fn without_that_limit_the_study_reaches_its_other_plateau() {
    let held = simulate(&study(10, Some(1000), 4000)).unwrap().throughput.0;
    let free = simulate(&study(10, None, 4000)).unwrap();
    let near_by = simulate(&study(0, None, 4000)).unwrap().throughput.0;
    assert!(free.throughput.0 > 1.5 * held);
    assert!(free.throughput.0 > 0.95 * near_by);
    assert_eq!((free.retransmitted.probes.0, free.stalled_workers), (0.0, 0.0));
}

#[test]
fn acknowledgements_at_once_take_more_of_the_queue() {
    let with = |acks| {
        let tcp = Tcp { acks, ..Tcp::default() };
        simulate(&Scenario { tcp, ..study(10, Some(1000), 2000) }).unwrap()
    };
    let (delayed, pushed) = (with(Acks::Delayed), with(Acks::Pushed));
    let acks = |outcome: &Outcome| outcome.links[0].directions[0].pure_acks.0;
    assert!(acks(&pushed) > 1.3 * acks(&delayed));
    assert!(pushed.throughput.0 < delayed.throughput.0);
}
