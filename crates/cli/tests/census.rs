//! The census of a real load agrees with what the load's own stamps say.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use linerate_engine::{EngineHost, Job, ServerAddress, now, start};
use linerate_evidence::sources::census::{INSTANTS, LATE, Station};
use linerate_evidence::{Evidence, LoadSummary, Subject, summarise};
use linerate_model::Plan;
use linerate_probe::{CensusSampler, Scope};
use linerate_workload::Given;

/// Answers 64 bytes with as many, after `delay`.
fn echo(delay: Duration) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            std::thread::spawn(move || {
                stream.set_nodelay(true).unwrap();
                let mut buffer = [0; 64];
                while stream.read_exact(&mut buffer).is_ok() {
                    if !delay.is_zero() {
                        std::thread::sleep(delay);
                    }
                    if stream.write_all(&buffer).is_err() {
                        return;
                    }
                }
            });
        }
    });
    address
}

/// The load, and the mean number of exchanges at each station.
fn run(address: SocketAddr, kind: &str) -> (LoadSummary, impl Fn(Station) -> f64 + use<>) {
    let plan = Plan::from_toml(&format!(
        "[target]\naddress = '{address}'\n[workload]\nkind = '{kind}'\nrequest = 64\nresponse = 64\n\
         [load]\nconnections = 8\n[until]\nduration = '3s'\n"
    ))
    .unwrap();
    let plan = Arc::new(plan);
    let name = address.to_string();
    let job = Job {
        template: linerate_workload::template(&plan.workload, &Given::of(&name)).unwrap(),
        plan: Arc::clone(&plan),
        servers: vec![ServerAddress { name, site: String::new(), address }],
        hosts: vec![EngineHost::default()],
        tls: None,
        stop: Arc::new(AtomicBool::new(false)),
        threads: 1,
        process: (0, 1),
        slice: None,
    };
    let scope = Scope {
        target_pids: vec![],
        target_ports: vec![address.port()],
        client_netns: vec![None],
        server_netns: vec![None],
        local: true,
    };
    let running = start(job).unwrap();
    let board = Arc::new(running.board.clone());
    let sampler = CensusSampler::start(&scope, &[address], board, now, 5);
    let mut evidence = Evidence::default();
    for slice in &running.slices {
        evidence.slices.push(slice.pack());
        evidence.absorb(sampler.drain());
    }
    running.join().unwrap();
    evidence.absorb(sampler.finish());
    assert!(evidence.unread.is_empty(), "{:?}", evidence.unread);
    let load = summarise(&evidence, &plan);
    let of = evidence.of(Subject::Census(0));
    let instants = of.delta(INSTANTS).unwrap().0 as f64;
    let late = of.delta(LATE).unwrap().0.as_micros() as f64 / instants;
    println!("{kind}: {instants} instants, {late:.0} us late, {:.2} in flight", load.in_flight);
    let mut means = Vec::new();
    for station in Station::ALL {
        let mean = 8.0 * of.delta(station.metric()).unwrap().0 as f64 / instants;
        if mean > 0.0 {
            println!("  {mean:.2} {station:?}");
        }
        means.push((station, mean));
    }
    (load, move |of| means.iter().find(|(one, _)| *one == of).unwrap().1)
}

#[test]
fn the_time_in_a_sleeping_application_is_what_it_sleeps() {
    let (load, mean) = run(echo(Duration::from_millis(5)), "rr");
    // Little's law: so many are answered a second, after 5 ms and a little each.
    let asleep = load.throughput.0 * 0.005;
    assert!(mean(Station::Application) > 0.8 * asleep, "{asleep}");
    assert!(mean(Station::Application) < 8.0);
}

#[test]
fn a_connection_for_each_exchange_is_found_by_its_address_too() {
    let (load, mean) = run(echo(Duration::from_millis(5)), "crr");
    let asleep = load.throughput.0 * 0.005;
    assert!(mean(Station::Application) > 0.6 * asleep, "{asleep}");
}

/// Not an assertion: how much of an exchange that is as short as the sampler's questions is resolved.
#[test]
fn fast_exchanges_are_resolved_as_far_as_they_can_be() {
    let (load, mean) = run(echo(Duration::ZERO), "rr");
    println!("  p50 {:?} ns", load.service.at(50.0).map(|one| one.value));
    assert!(mean(Station::Unresolved) < 8.0);
}
