//! The engine against small real servers on loopback: conservation, Little's law, honest clocks.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use linerate_engine::{EngineHost, Job, ServerAddress, Trouble, probe, start};
use linerate_evidence::{Evidence, LoadSummary, ValidityState, summarise};
use linerate_model::Plan;
use linerate_workload::Given;

/// Serves each connection in a thread of its own until the test ends.
fn serve(each: impl Fn(TcpStream) + Send + Sync + 'static) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let each = Arc::new(each);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let each = Arc::clone(&each);
            std::thread::spawn(move || each(stream));
        }
    });
    address
}

/// Echoes `size` bytes at a time, after `delay`.
fn echo(size: usize, delay: Duration) -> SocketAddr {
    serve(move |mut stream| {
        let mut buffer = vec![0; size];
        stream.set_nodelay(true).unwrap();
        while stream.read_exact(&mut buffer).is_ok() {
            std::thread::sleep(delay);
            if stream.write_all(&buffer).is_err() {
                break;
            }
        }
    })
}

fn server(address: SocketAddr) -> ServerAddress {
    ServerAddress { name: address.to_string(), site: String::new(), address }
}

fn job(address: SocketAddr, rest: &str) -> Job {
    let plan = Plan::from_toml(&format!("[target]\naddress = '{address}'\n{rest}")).unwrap();
    Job {
        template: linerate_workload::template(&plan.workload, &Given::of(&address.to_string()))
            .unwrap(),
        plan: Arc::new(plan),
        servers: vec![server(address)],
        hosts: vec![EngineHost::default()],
        tls: None,
        stop: Arc::new(AtomicBool::new(false)),
        threads: 2,
        process: (0, 1),
        slice: None,
    }
}

fn run(job: Job) -> LoadSummary {
    let plan = Arc::clone(&job.plan);
    let running = start(job).unwrap();
    let mut evidence = Evidence::default();
    for slice in &running.slices {
        evidence.slices.push(slice.pack());
    }
    running.join().unwrap();
    summarise(&evidence, &plan)
}

const RR: &str = "[workload]\nkind = 'rr'\nrequest = 64\nresponse = 64\n";

fn assert_conserved(load: &LoadSummary) {
    let failed: u64 = load.errors.values().sum();
    assert_eq!(load.scheduled, load.answered + failed + load.timed_out + load.in_flight_at_end);
}

/// Serves, and counts who is connected.
fn counted(open: &Arc<AtomicUsize>, most: &Arc<AtomicUsize>) -> SocketAddr {
    let (open, most) = (Arc::clone(open), Arc::clone(most));
    serve(move |mut stream| {
        most.fetch_max(open.fetch_add(1, Ordering::Relaxed) + 1, Ordering::Relaxed);
        let mut buffer = [0; 64];
        while stream.read_exact(&mut buffer).is_ok() {
            std::thread::sleep(Duration::from_millis(10));
            if stream.write_all(&buffer).is_err() {
                break;
            }
        }
        open.fetch_sub(1, Ordering::Relaxed);
    })
}

#[test]
fn stages_hold_their_connections_one_after_the_other_and_lose_no_exchange() {
    let (open, most) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    let plan = "[workload]\nkind = 'rr'\nrequest = 64\nresponse = 64\n[load]\nconnections = 3\n\
                stages = [{ length = '500ms', connections = 2 }, { length = '600ms', connections = 16 }]\n\
                [until]\nduration = '900ms'\n";
    let job = job(counted(&open, &most), plan);
    let load = run(job);
    assert_eq!(most.load(Ordering::Relaxed), 16);
    assert!(load.errors.is_empty() && load.timed_out == 0, "{:?}", load.errors);
    assert_eq!(load.scheduled, load.answered);
    assert_ne!(load.validity.state, ValidityState::Void, "{:?}", load.validity);
    let levels: Vec<_> = load.stages.iter().map(|it| it.stage.connections.unwrap()).collect();
    assert_eq!(levels, [2, 16, 3]);
    // 8 times as many connections, and 3 of 16; what is beside the 10 ms of an answer differs a little.
    let rates: Vec<_> = load.stages.iter().map(|it| it.throughput.0).collect();
    assert!((5.0..12.0).contains(&(rates[1] / rates[0])), "{rates:?}");
    assert!((0.12..0.3).contains(&(rates[2] / rates[1])), "{rates:?}");
    // The run's own figures are the last stage's.
    assert!(
        (0.8..1.25).contains(&(load.throughput.0 / rates[2])),
        "{} {rates:?}",
        load.throughput.0
    );
    assert!((2.5..3.5).contains(&load.in_flight), "{}", load.in_flight);
}

#[test]
fn stages_of_a_rate_are_offered_as_they_say() {
    let plan = "[workload]\nkind = 'rr'\nrequest = 64\nresponse = 64\n[load]\nconnections = 4\nrate = 200\n\
                stages = [{ length = '500ms', rate = 100 }, { length = '500ms', rate = 600 }]\n\
                [until]\nduration = '500ms'\n";
    let load = run(job(echo(64, Duration::ZERO), plan));
    // 50 + 300 + 100; an instant that falls on a stage's end is the next one's.
    assert!(load.scheduled.abs_diff(450) <= 1, "{}", load.scheduled);
    assert_eq!(load.answered, load.scheduled);
    for (stage, rate) in load.stages.iter().zip([100.0, 600.0, 200.0]) {
        assert!((0.6..1.4).contains(&(stage.throughput.0 / rate)), "{stage:?}");
    }
    assert_eq!(load.stages.len(), 3);
}

#[test]
fn clients_that_think_ask_as_often_as_little_says_and_are_no_stall() {
    // 8 / (5 ms + 20 ms) = 320/s, of which 320/s x 5 ms = 1.6 are under way; answers take a little longer.
    for think in ["20ms", "10ms..30ms", "exp:20ms"] {
        let address = echo(64, Duration::from_millis(5));
        let plan =
            format!("{RR}[load]\nconnections = 8\nthink = '{think}'\n[until]\nduration = '2s'\n");
        let load = run(job(address, &plan));
        assert_conserved(&load);
        assert_ne!(load.validity.state, ValidityState::Void, "{think}: {:?}", load.validity);
        let service = load.service.mean() / 1e9;
        // A request that is late counts from when it was due.
        let expected = 8.0 / (0.02 + load.latency.mean() / 1e9);
        let off = load.throughput.0 / expected;
        assert!((0.88..1.12).contains(&off), "{think}: {} {expected}", load.throughput);
        let under_way = load.throughput.0 * service;
        assert!((load.in_flight / under_way - 1.0).abs() < 0.03, "{think}: {}", load.in_flight);
        // Latency is counted from when a request was due.
        assert!(load.latency.mean() >= load.service.mean(), "{think}");
        // Begun before the measured stretch and answered in it, or the other way round: those under way at its edges.
        let [own, all] = [&load.own_lateness, &load.latency].map(|of| of.count());
        assert!(own.abs_diff(all) <= 8, "{think}: {own} {all}");
    }
}

#[test]
fn a_target_that_is_away_is_asked_by_clients_that_think_when_they_are_due() {
    // Its port is closed: each client is due four times at most.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    drop(listener);
    let plan = format!("{RR}[load]\nconnections = 4\nthink = '300ms'\n[until]\nduration = '1s'\n");
    let load = run(job(address, &plan));
    assert_conserved(&load);
    assert_eq!(load.answered, 0);
    assert!((4..=16).contains(&load.scheduled), "{}", load.scheduled);
}

#[test]
fn clients_that_think_are_stages_too_and_open_a_connection_for_each_exchange() {
    let address = serve(|mut stream| {
        let mut buffer = [0; 64];
        let _ = stream.read_exact(&mut buffer).and_then(|()| stream.write_all(&buffer));
    });
    let plan = "[workload]\nkind = 'crr'\nrequest = 64\nresponse = 64\n[load]\nconnections = 4\nthink = '20ms'\n\
                stages = [{ length = '800ms', connections = 16 }]\n[until]\nduration = '800ms'\n";
    let load = run(job(address, plan));
    assert_conserved(&load);
    assert!(load.errors.is_empty() && load.answered > 0, "{:?}", load.errors);
    let rates: Vec<_> = load.stages.iter().map(|it| it.throughput.0).collect();
    assert!((2.5..5.5).contains(&(rates[0] / rates[1])), "{rates:?}");
}

#[test]
fn a_closed_loop_conserves_exchanges_and_obeys_littles_law() {
    let address = echo(64, Duration::from_millis(5));
    let load =
        run(job(address, &format!("{RR}[load]\nconnections = 8\n[until]\nduration = '2s'\n")));
    assert_conserved(&load);
    // A neighbour who takes the CPUs in mid-run makes it suspect, and no account wrong.
    assert_ne!(load.validity.state, ValidityState::Void, "{:?}", load.validity);
    // 8 connections / 5 ms and a little = at most 1600/s
    assert!((400.0..1600.0).contains(&load.throughput.0), "{}", load.throughput);
    assert!((load.in_flight - 8.0).abs() < 0.2, "{}", load.in_flight);
    assert!((load.in_flight_by_little / load.in_flight - 1.0).abs() < 0.02);
}

#[test]
fn an_open_loop_offers_its_rate_and_no_more() {
    let address = echo(64, Duration::ZERO);
    let plan =
        "[load]\nconnections = 16\nrate = 500\narrivals = 'poisson'\n[until]\nduration = '2s'\n";
    let load = run(job(address, &format!("{RR}{plan}")));
    assert_conserved(&load);
    assert!((300.0..600.0).contains(&load.throughput.0), "{}", load.throughput);
}

#[test]
fn a_count_is_kept_exactly() {
    let address = echo(64, Duration::ZERO);
    let plan = "[load]\nconnections = 7\n[until]\nexchanges = 1001\n";
    let load = run(job(address, &format!("{RR}{plan}")));
    assert_eq!((load.scheduled, load.answered), (1001, 1001));
}

#[test]
fn an_open_loop_keeps_a_count_exactly_as_well() {
    let address = echo(64, Duration::ZERO);
    let plan = "[load]\nconnections = 7\nrate = 2000\n[until]\nexchanges = 1001\n";
    let load = run(job(address, &format!("{RR}{plan}")));
    assert_conserved(&load);
    assert_eq!((load.scheduled, load.answered), (1001, 1001));
}

#[test]
fn a_connection_for_each_exchange_is_opened_and_closed() {
    let address = echo(64, Duration::ZERO);
    let plan = "[workload]\nkind = 'crr'\nrequest = 64\nresponse = 64\n[load]\nconnections = 4\n[until]\nexchanges = 200\n";
    let load = run(job(address, plan));
    assert_conserved(&load);
    assert_eq!((load.answered, load.opened), (200, 200));
}

#[test]
fn a_stall_shows_in_latency_from_due_but_not_in_service_time_alone() {
    let stalls = Arc::new(AtomicBool::new(true));
    let address = serve(move |mut stream| {
        let mut buffer = [0; 64];
        while stream.read_exact(&mut buffer).is_ok() {
            if stalls.swap(false, std::sync::atomic::Ordering::Relaxed) {
                std::thread::sleep(Duration::from_millis(600));
            }
            if stream.write_all(&buffer).is_err() {
                break;
            }
        }
    });
    let plan =
        "[load]\nconnections = 1\nrate = 200\n[engine]\nthreads = 1\n[until]\nduration = '2s'\n";
    let mut job = job(address, &format!("{RR}{plan}"));
    job.threads = 1;
    let load = run(job);
    assert_conserved(&load);
    // One exchange stalls 600 ms; some 120 that were due meanwhile wait behind it.
    let (latency, service) = (load.latency.at(90.0).unwrap(), load.service.at(90.0).unwrap());
    assert!(latency.value > 100_000_000, "{latency:?}");
    assert!(service.value < 50_000_000, "{service:?}");
}

#[test]
fn a_target_that_never_answers_times_out_at_its_age_and_nothing_is_lost() {
    let address = serve(|mut stream| {
        let mut sink = Vec::new();
        let _ = stream.read_to_end(&mut sink);
    });
    let plan = "[load]\nconnections = 4\ntimeout = '300ms'\n[until]\nduration = '1s'\n";
    let load = run(job(address, &format!("{RR}{plan}")));
    assert_conserved(&load);
    assert_eq!(load.answered, 0);
    assert!(load.timed_out >= 4, "{}", load.timed_out);
    assert_eq!(load.validity.state, ValidityState::Void);
}

#[test]
fn a_target_that_closes_in_mid_answer_is_an_error_by_cause() {
    let address = serve(|mut stream| {
        let mut buffer = [0; 64];
        let _ = stream.read_exact(&mut buffer);
        let _ = stream.write_all(&buffer[..10]);
    });
    let plan = "[load]\nconnections = 2\n[until]\nexchanges = 50\n";
    let load = run(job(address, &format!("{RR}{plan}")));
    assert_conserved(&load);
    assert_eq!(load.errors.get("closed"), Some(&50));
}

#[test]
fn a_target_that_is_not_there_is_refused_by_the_probe() {
    let address = {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.local_addr().unwrap()
    };
    let trouble = probe(&job(address, RR)).unwrap_err();
    assert_eq!(trouble, Trouble::Refused(address.to_string()));
}

#[test]
fn a_silent_target_is_told_from_a_slow_one_by_the_probe() {
    let address = serve(|stream| {
        std::thread::sleep(Duration::from_secs(3));
        drop(stream);
    });
    let began = Instant::now();
    let trouble = probe(&job(address, &format!("{RR}[load]\ntimeout = '200ms'\n"))).unwrap_err();
    assert!(matches!(trouble, Trouble::Silent { .. }), "{trouble}");
    assert!(began.elapsed() < Duration::from_secs(2));
}

#[test]
fn another_protocol_is_quoted_by_the_probe() {
    let address = serve(|mut stream| {
        let _ = stream.write_all(b"SSH-2.0-OpenSSH_9.2\r\n");
        std::thread::sleep(Duration::from_secs(1));
    });
    let trouble = probe(&job(address, "")).unwrap_err().to_string();
    assert!(trouble.contains("is not HTTP/1.1: it begins with `SSH-2.0"), "{trouble}");
}

/// Echoes 64 bytes at a time; every second connection, the first among them, is read and never answered.
fn half_hangs() -> SocketAddr {
    let count = AtomicUsize::new(0);
    serve(move |mut stream| {
        let hangs = count.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
        let mut buffer = [0; 64];
        stream.set_nodelay(true).unwrap();
        while stream.read_exact(&mut buffer).is_ok() {
            std::thread::sleep(Duration::from_millis(1));
            if !hangs && stream.write_all(&buffer).is_err() {
                break;
            }
        }
    })
}

#[test]
fn a_target_that_hangs_for_its_first_connection_is_probed_by_another() {
    let began = Instant::now();
    let preflight = probe(&job(half_hangs(), &format!("{RR}[load]\ntimeout = '8s'\n"))).unwrap();
    assert!(preflight.service.len() > 1);
    // The second attempt begins after a quarter of the timeout.
    assert!(began.elapsed() < Duration::from_secs(7), "{:?}", began.elapsed());
}

#[test]
fn connections_that_are_never_answered_are_counted_by_their_ages() {
    let load = "[load]\nconnections = 6\n[until]\nduration = '2s'\n";
    let summary = run(job(half_hangs(), &format!("{RR}{load}")));
    assert!(summary.answered > 100);
    assert!((2.7..3.05).contains(&summary.unanswered), "{}", summary.unanswered);
    let load = "[load]\nconnections = 6\n[until]\nduration = '1s'\n";
    let served = run(job(echo(64, Duration::from_millis(1)), &format!("{RR}{load}")));
    assert!(served.unanswered < 0.1, "{}", served.unanswered);
}
