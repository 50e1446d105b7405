//! The engine against several servers: each worker holds a connection to every one of them and chooses.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use linerate_engine::{EngineHost, Flow, Job, ServerAddress, probe, start};
use linerate_evidence::{Evidence, LoadSummary, PairLoad, Slice, ValidityState, summarise};
use linerate_model::Plan;
use linerate_workload::Given;

/// A server that echoes 64 bytes after `delay`, and how many connections it took.
fn echo(delay: Duration) -> (SocketAddr, Arc<AtomicU32>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let taken = Arc::new(AtomicU32::new(0));
    let count = Arc::clone(&taken);
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            count.fetch_add(1, Ordering::Relaxed);
            std::thread::spawn(move || {
                let mut buffer = [0; 64];
                stream.set_nodelay(true).unwrap();
                while stream.read_exact(&mut buffer).is_ok() {
                    std::thread::sleep(delay);
                    if stream.write_all(&buffer).is_err() {
                        break;
                    }
                }
            });
        }
    });
    (address, taken)
}

/// A port on which nobody listens, and that nobody else is given meanwhile.
fn dead() -> (SocketAddr, TcpListener) {
    // Bound by a connection of ours that is kept: its local port is in use, and not listening.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let keeper = std::net::TcpStream::connect(listener.local_addr().unwrap()).unwrap();
    let address = keeper.local_addr().unwrap();
    std::mem::forget(keeper);
    (address, listener)
}

fn job(servers: &[SocketAddr], hosts: u16, rest: &str) -> Job {
    let plan = "[workload]\nkind = 'rr'\nrequest = 64\nresponse = 64\necho = true\n";
    let plan = format!("[target]\naddress = '{}'\n{plan}{rest}", servers[0]);
    let plan = Plan::from_toml(&plan).unwrap();
    let server = |address: &SocketAddr| ServerAddress {
        name: address.to_string(),
        site: String::new(),
        address: *address,
    };
    let host = |number| EngineHost { name: format!("e{number}"), ..EngineHost::default() };
    Job {
        template: linerate_workload::template(&plan.workload, &Given::of("a")).unwrap(),
        plan: Arc::new(plan),
        servers: servers.iter().map(server).collect(),
        hosts: (0..hosts).map(host).collect(),
        tls: None,
        stop: Arc::new(AtomicBool::new(false)),
        threads: 2,
        process: (0, 1),
        slice: None,
    }
}

fn run(job: Job) -> (LoadSummary, Vec<Slice>, Vec<Flow>) {
    let plan = Arc::clone(&job.plan);
    let running = start(job).unwrap();
    let flows = running.flows.clone();
    let mut evidence = Evidence::default();
    for slice in &running.slices {
        evidence.slices.push(slice.pack());
    }
    running.join().unwrap();
    (summarise(&evidence, &plan), evidence.slices, flows.snapshot())
}

/// Every exchange is accounted for, in all and at each server.
fn assert_conserved(load: &LoadSummary) {
    let failed: u64 = load.errors.values().sum();
    assert_eq!(load.scheduled, load.answered + failed + load.timed_out + load.in_flight_at_end);
    let sum = |of: fn(&PairLoad) -> u64| load.pairs.iter().map(of).sum::<u64>();
    assert_eq!(sum(|pair| pair.answered), load.answered);
    assert_eq!(sum(|pair| pair.errors.values().sum()), failed);
    assert_eq!(sum(|pair| pair.timed_out), load.timed_out);
    for pair in &load.pairs {
        let ended = pair.answered + pair.errors.values().sum::<u64>() + pair.timed_out;
        assert!(pair.chosen >= ended, "{pair:?}");
        assert!(pair.chosen - ended <= load.in_flight_at_end, "{pair:?}");
    }
}

fn by_server(load: &LoadSummary) -> Vec<PairLoad> {
    PairLoad::merged(&load.pairs, |pair| pair.server).into_values().collect()
}

#[test]
fn workers_choose_alike_and_hold_one_connection_to_each_server() {
    let servers: Vec<_> = (0..4).map(|_| echo(Duration::ZERO)).collect();
    let addresses: Vec<_> = servers.iter().map(|(address, _)| *address).collect();
    let plan = "[load]\nconnections = 6\n[until]\nexchanges = 4000\n";

    let (load, slices, flows) = run(job(&addresses, 1, plan));

    assert_conserved(&load);
    assert_eq!((load.scheduled, load.answered), (4000, 4000));
    assert_eq!((load.opened, load.open), (24, 24)); // 6 workers x 4 servers
    for (_, taken) in &servers {
        assert_eq!(taken.load(Ordering::Relaxed), 6);
    }
    // Pearson's statistic of 3 degrees of freedom: 30 is passed once in 700 000.
    let each: Vec<_> = by_server(&load).iter().map(|server| server.chosen as f64).collect();
    let statistic: f64 = each.iter().map(|count| (count - 1000.0).powi(2) / 1000.0).sum();
    assert!(statistic < 30.0, "{each:?}");
    // The whole is the sum of its parts.
    for slice in &slices {
        let parts = slice.parts.iter().map(|part| part.service.len()).sum::<u64>();
        assert_eq!(parts, slice.service.len());
    }
    let mut seen: Vec<_> = flows.iter().map(|flow| (flow.id, flow.server_host)).collect();
    seen.sort_unstable();
    let first: Vec<_> = (0..16).map(|id| (id, (id % 4) as u16)).collect();
    assert_eq!(seen, first);
}

#[test]
fn a_slow_server_holds_its_share_of_workers_and_not_of_exchanges() {
    let (near, far) = (echo(Duration::ZERO), echo(Duration::from_millis(10)));
    let plan = "[load]\nconnections = 8\n[until]\nduration = '1500ms'\n";

    let (load, ..) = run(job(&[near.0, far.0], 2, plan));

    assert_conserved(&load);
    assert_ne!(load.validity.state, ValidityState::Void, "{:?}", load.validity);
    let [near, far] = &by_server(&load)[..] else { panic!("{:?}", load.pairs) };
    // Chosen alike; answered one at a time by each worker.
    let ratio = near.answered as f64 / far.answered as f64;
    assert!((0.6..1.6).contains(&ratio), "{} {}", near.answered, far.answered);
    assert!(far.service.mean() > 10e6 && near.service.mean() < far.service.mean());
    // Two hosts, each with both servers.
    assert_eq!(load.pairs.len(), 4);
}

#[test]
fn a_dead_servers_errors_are_counted_by_cause_and_at_that_server_alone() {
    let (alive, _) = echo(Duration::ZERO);
    let (dead, _keeper) = dead();
    let plan = "[load]\nconnections = 4\n[until]\nexchanges = 60\n";

    let (load, ..) = run(job(&[alive, dead], 1, plan));

    assert_conserved(&load);
    assert_eq!(load.scheduled, 60);
    let [alive, dead] = &by_server(&load)[..] else { panic!("{:?}", load.pairs) };
    assert!(alive.errors.is_empty() && alive.answered > 0, "{alive:?}");
    assert_eq!(dead.answered, 0);
    assert_eq!(dead.errors.keys().collect::<Vec<_>>(), ["refused"]);
    assert_eq!(alive.answered + dead.errors["refused"], 60);
}

#[test]
fn an_open_loop_sends_what_is_due_to_servers_of_its_choice() {
    let servers: Vec<_> = (0..3).map(|_| echo(Duration::ZERO).0).collect();
    let plan = "[load]\nconnections = 4\nrate = 2000\n[until]\nexchanges = 1500\n";

    let (load, ..) = run(job(&servers, 1, plan));

    assert_conserved(&load);
    assert_eq!((load.scheduled, load.answered), (1500, 1500));
    for server in by_server(&load) {
        assert!((350..650).contains(&server.chosen), "{server:?}");
    }
}

#[test]
fn an_open_loop_does_not_wait_for_a_server_that_is_stuck() {
    let (near, _) = echo(Duration::ZERO);
    let (stuck, _) = echo(Duration::from_secs(30));
    let plan =
        "[load]\nconnections = 2\nrate = 200\ntimeout = '400ms'\n[until]\nduration = '1500ms'\n";

    let (load, ..) = run(job(&[near, stuck], 1, plan));

    assert_conserved(&load);
    let [near, stuck] = &by_server(&load)[..] else { panic!("{:?}", load.pairs) };
    assert_eq!(stuck.answered, 0);
    assert!(stuck.timed_out > 10, "{stuck:?}");
    // Some 150 were due to it, and all but a few of a stalled machine were answered.
    assert!(near.answered > 75 && near.timed_out < near.answered, "{near:?}");
}

#[test]
fn a_connection_for_each_exchange_is_of_the_chosen_server() {
    let servers: Vec<_> = (0..2).map(|_| echo(Duration::ZERO)).collect();
    let addresses: Vec<_> = servers.iter().map(|(address, _)| *address).collect();
    let mut job = job(&addresses, 1, "[load]\nconnections = 3\n[until]\nexchanges = 200\n");
    let mut plan = Plan::clone(&job.plan);
    plan.workload = Plan::from_toml(
        "[target]\naddress = 'a:1'\n[workload]\nkind = 'crr'\nrequest = 64\nresponse = 64\n",
    )
    .unwrap()
    .workload;
    job.template = linerate_workload::template(&plan.workload, &Given::of("a")).unwrap();
    job.plan = Arc::new(plan);

    let (load, ..) = run(job);

    assert_conserved(&load);
    assert_eq!((load.answered, load.opened), (200, 200));
    assert_eq!(by_server(&load).iter().map(|server| server.answered).sum::<u64>(), 200);
}

#[test]
fn an_echo_of_other_bytes_is_malformed() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            let mut buffer = [0; 64];
            while stream.read_exact(&mut buffer).is_ok() {
                buffer[63] ^= 1;
                if stream.write_all(&buffer).is_err() {
                    break;
                }
            }
        }
    });
    let mut job = job(&[address], 1, "[load]\nconnections = 1\n[until]\nexchanges = 20\n");
    job.threads = 1;
    let (load, ..) = run(job);
    assert_eq!(load.errors.get("malformed"), Some(&20), "{:?}", load.errors);
    assert!(load.pairs.is_empty());
}

#[test]
fn the_first_exchanges_are_made_with_every_server_and_told_apart() {
    let servers = [echo(Duration::ZERO).0, echo(Duration::from_millis(20)).0];
    let preflight = probe(&job(&servers, 2, "")).unwrap();
    // Both hosts are of one site: the first speaks for it.
    let [near, far] = &preflight.pairs[..] else { panic!("{preflight:?}") };
    assert_eq!((near.host, near.server, far.host, far.server), (0, 0, 0, 1));
    assert_eq!(near.service.len(), far.service.len());
    let fastest = |of: &[Duration]| of.iter().copied().min().unwrap();
    assert!(fastest(&far.service) >= Duration::from_millis(20));
    assert!(fastest(&near.service) < fastest(&far.service));
    // A random choice takes the mean of the two.
    let mean = (near.service[0] + far.service[0]) / 2;
    assert_eq!(preflight.service[0], mean);
}
