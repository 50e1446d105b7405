//! The probe against this kernel: real sockets on the loopback, this very process as the target.

// The helpers of tests are tests too, but not to the lint.
#![allow(clippy::unwrap_used)]

use std::io::Write;
use std::net::{Ipv6Addr, SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use linerate_evidence::sources::{listener, netstat, process, snmp, softnet, stat, tcp_info};
use linerate_evidence::{Evidence, Side, Subject};
use linerate_model::{Bytes, Timestamp};
use linerate_probe::{
    FlowAddress, Probe, ProcessSockets, Scope, cpus_of, host_facts, owner_of_port,
};

fn clock() -> impl Fn() -> Timestamp {
    let began = Instant::now();
    move || Timestamp(began.elapsed().as_nanos() as u64)
}

fn scope(port: u16) -> Scope {
    Scope {
        target_pids: vec![std::process::id()],
        target_ports: vec![port],
        client_netns: vec![None],
        server_netns: vec![None],
        local: true,
    }
}

/// A connection of this process with itself.
struct Pair {
    listener: TcpListener,
    client: TcpStream,
    server: TcpStream,
}

impl Pair {
    fn new() -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (server, _) = listener.accept().unwrap();
        Self { listener, client, server }
    }

    fn flow(&self) -> FlowAddress {
        FlowAddress {
            id: 3,
            client: self.client.local_addr().unwrap(),
            server: self.client.peer_addr().unwrap(),
            client_host: 0,
            server_host: 0,
        }
    }

    fn port(&self) -> u16 {
        self.listener.local_addr().unwrap().port()
    }
}

const CLIENT: Subject = Subject::Flow(3, Side::Client);
const SERVER: Subject = Subject::Flow(3, Side::Server);

/// Samples until the evidence is as awaited: the loopback delivers soon, not at once.
fn sample_until(probe: &mut Probe, flow: FlowAddress, awaited: impl Fn(&Evidence) -> bool) {
    let (now, began) = (clock(), Instant::now());
    loop {
        let evidence = probe.sample(&now, &[flow]);
        if awaited(&evidence) {
            return;
        }
        assert!(began.elapsed() < Duration::from_secs(5), "{:?}", evidence.rows());
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn both_ends_of_a_connection_are_found_by_their_addresses() {
    let mut pair = Pair::new();
    pair.client.write_all(&[7; 100]).unwrap();
    let mut probe = Probe::open(scope(pair.port()));

    let evidence = probe.sample(clock(), &[pair.flow()]);

    assert!(evidence.of(CLIENT).last(tcp_info::MIN_RTT).unwrap() > Duration::ZERO);
    assert!(evidence.of(SERVER).last(tcp_info::MIN_RTT).unwrap() > Duration::ZERO);
    assert_eq!(evidence.of(CLIENT).last(tcp_info::STATE), Ok(1));
    assert!(evidence.of(CLIENT).last(tcp_info::SNDBUF).unwrap() > Bytes(0));
    assert!(evidence.fact(CLIENT, "congestion").is_some_and(|name| !name.is_empty()));
    assert_eq!(evidence.fact(CLIENT, "congestion"), evidence.fact(SERVER, "congestion"));
    let again = probe.sample(clock(), &[pair.flow()]);
    assert_eq!(again.fact(CLIENT, "congestion"), None, "it is told once");
    assert!(!probe.unread().contains_key("tcp_info"), "{:?}", probe.unread());
}

#[test]
fn the_sockets_of_a_process_are_found_by_what_its_descriptors_name() {
    let mut pair = Pair::new();
    pair.client.write_all(&[7; 5_000]).unwrap();
    let (client, server) = (pair.flow().client, pair.flow().server);

    let sockets = ProcessSockets::open(std::process::id()).unwrap().read().unwrap();

    assert!(sockets.listening.contains(&pair.port()));
    let of = |local: SocketAddr, peer: SocketAddr| {
        sockets.connections.iter().find(|found| found.local == local && found.peer == peer)
    };
    assert!(of(client, server).is_some() && of(server, client).is_some(), "{sockets:?}");
    // Other tests of this process have connections too; none comes before one with more queued.
    assert!(sockets.connections.is_sorted_by(|a, b| a.queued >= b.queued));
}

#[test]
fn the_sockets_of_a_process_that_is_gone_are_an_error_that_names_it() {
    let mut gone = Command::new("true").spawn().unwrap();
    gone.wait().unwrap();
    let error = ProcessSockets::open(gone.id()).err().map(|error| error.to_string());
    assert!(error.is_some_and(|error| error.contains(&format!("process {}", gone.id()))));
}

#[test]
fn what_the_server_does_not_read_stands_in_its_queue() {
    let mut pair = Pair::new();
    let mut probe = Probe::open(scope(pair.port()));
    let rqueue = |evidence: &Evidence| evidence.of(SERVER).last(tcp_info::RQUEUE);
    sample_until(&mut probe, pair.flow(), |evidence| rqueue(evidence) == Ok(Bytes(0)));

    pair.client.write_all(&[7; 5_000]).unwrap();

    sample_until(&mut probe, pair.flow(), |evidence| rqueue(evidence) == Ok(Bytes(5_000)));
    drop(pair.server);
}

#[test]
fn an_ipv4_client_of_a_server_that_listens_on_ipv6_is_found_too() {
    let Ok(listener) = TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)) else {
        println!("this kernel has no IPv6: nothing to test");
        return;
    };
    let port = listener.local_addr().unwrap().port();
    let client = TcpStream::connect(("127.0.0.1", port)).unwrap();
    let (server, _) = listener.accept().unwrap();
    let flow = FlowAddress {
        id: 3,
        client: client.local_addr().unwrap(),
        server: client.peer_addr().unwrap(),
        client_host: 0,
        server_host: 0,
    };

    let evidence = Probe::open(scope(port)).sample(clock(), &[flow]);

    assert!(evidence.of(SERVER).last(tcp_info::MIN_RTT).is_ok());
    drop(server);

    let client = TcpStream::connect((Ipv6Addr::LOCALHOST, port)).unwrap();
    let flow = FlowAddress {
        id: 3,
        client: client.local_addr().unwrap(),
        server: client.peer_addr().unwrap(),
        client_host: 0,
        server_host: 0,
    };
    let (_server, _) = listener.accept().unwrap();
    let evidence = Probe::open(scope(port)).sample(clock(), &[flow]);
    assert!(evidence.of(CLIENT).last(tcp_info::MIN_RTT).is_ok());
    assert!(evidence.of(SERVER).last(tcp_info::MIN_RTT).is_ok());
}

#[test]
fn a_connection_that_is_not_there_is_not_mistaken_for_its_listener() {
    let pair = Pair::new();
    let nobody: SocketAddr = "127.0.0.1:1".parse().unwrap();
    let flow =
        FlowAddress { client: nobody, server: pair.listener.local_addr().unwrap(), ..pair.flow() };

    let mut probe = Probe::open(scope(pair.port()));
    let evidence = probe.sample(clock(), &[flow, FlowAddress { id: 4, ..pair.flow() }]);

    assert_eq!(evidence.flows(Side::Server), [4]);
    assert!(!probe.unread().contains_key("tcp_info"), "{:?}", probe.unread());
}

#[test]
fn who_else_listens_on_the_port_at_another_address_is_not_the_target() {
    let others = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = others.local_addr().unwrap().port();
    let waiting: Vec<TcpStream> =
        (0..3).map(|_| TcpStream::connect(("127.0.0.1", port)).unwrap()).collect();
    // Its standard input is the socket that it listens on.
    let own = OwnedFd::from(TcpListener::bind(("127.0.0.2", port)).unwrap());
    let mut target = Command::new("sleep").arg("60").stdin(Stdio::from(own)).spawn().unwrap();
    let of_target = Scope { target_pids: vec![target.id()], ..scope(port) };

    let evidence = Probe::open(of_target).sample(clock(), &[]);

    target.kill().unwrap();
    target.wait().unwrap();
    let of = evidence.of(Subject::Listener(port));
    assert_eq!((of.last(listener::RQUEUE_TOTAL), of.last(listener::SOCKETS)), (Ok(0), Ok(1)));
    drop(waiting);
}

#[test]
fn connections_that_wait_to_be_accepted_are_counted_against_the_backlog() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let waiting: Vec<TcpStream> = (0..3).map(|_| TcpStream::connect(address).unwrap()).collect();

    let evidence = Probe::open(scope(address.port())).sample(clock(), &[]);

    let of = evidence.of(Subject::Listener(address.port()));
    assert_eq!(of.last(listener::RQUEUE), Ok(3));
    assert!(of.last(listener::WQUEUE).unwrap() >= 3);
    assert_eq!(of.last(listener::SOCKETS), Ok(1));
    drop(waiting);
}

#[test]
fn cpu_time_and_threads_of_this_process_are_seen_to_grow() {
    let mut probe = Probe::open(scope(1));
    let now = clock();
    let mut evidence = probe.sample(&now, &[]);
    let until = Instant::now() + Duration::from_millis(150);
    std::thread::spawn(move || while Instant::now() < until {}).join().unwrap();
    let stop = Arc::new(AtomicBool::new(false));
    let stopped = Arc::clone(&stop);
    let spinning = std::thread::spawn(move || while !stopped.load(Ordering::Relaxed) {});
    // On a busy machine a thread that always could run runs for a part of the time.
    let deadline = Instant::now() + Duration::from_secs(20);
    let spent = loop {
        std::thread::sleep(Duration::from_millis(200));
        evidence.absorb(probe.sample(&now, &[]));
        let target = evidence.of(Subject::Target);
        let [user, system] = [process::UTIME, process::STIME].map(|of| target.delta(of).unwrap().0);
        if user + system >= Duration::from_millis(50) || Instant::now() > deadline {
            break user + system;
        }
    };
    stop.store(true, Ordering::Relaxed);
    spinning.join().unwrap();

    let target = evidence.of(Subject::Target);
    assert!(spent >= Duration::from_millis(50), "{spent:?}");
    assert!(target.last(process::THREADS).unwrap() >= 2);
    assert!(target.last(process::RSS).unwrap() > Bytes(0));
    assert!(target.last(process::FDS).unwrap() >= 3);
    assert!(target.last(process::VOLUNTARY_SWITCHES).is_ok());
    // A kernel without scheduler statistics has neither.
    if let Ok((busiest, _)) = target.delta(process::BUSIEST_THREAD) {
        assert!(busiest > Duration::ZERO, "{busiest:?}");
        assert!(probe.busiest_thread().is_some());
    }
}

#[test]
fn a_child_of_the_target_belongs_to_it() {
    let child = Sleeper::new(Command::new("sleep").arg("60"));
    let evidence = Probe::open(scope(1)).sample(clock(), &[]);
    assert!(evidence.of(Subject::Target).last(process::PROCESSES).unwrap() >= 2);
    assert!(cpus_of(child.0.id()).unwrap() > 0);
}

#[test]
fn stack_and_host_are_read_once_for_both_ends() {
    let evidence = Probe::open(scope(1)).sample(clock(), &[]);
    let server = evidence.of(Subject::Stack(Side::Server));
    assert!(server.last(netstat::DELAYED_ACKS).is_ok());
    assert!(server.last(snmp::IN_SEGS).is_ok());
    assert!(evidence.of(Subject::Stack(Side::Client)).last(snmp::IN_SEGS).is_err());
    assert!(evidence.of(Subject::Host).last(stat::IDLE).is_ok());
    assert!(evidence.subjects().any(|of| matches!(of, Subject::Cpu(_))));
    let cpu = evidence.subjects().find(|of| matches!(of, Subject::Cpu(_))).unwrap();
    assert!(evidence.of(cpu).last(softnet::PROCESSED).is_ok());
}

#[test]
fn a_target_elsewhere_leaves_its_sources_unread_in_words_and_is_told_once() {
    let elsewhere = Scope { target_pids: vec![], local: false, ..scope(80) };
    let mut probe = Probe::open(elsewhere);
    assert_eq!(probe.unread()["listener"], "the target is not on this host");
    assert!(probe.unread()["process"].contains("no process"), "{:?}", probe.unread());

    let first = probe.sample(clock(), &[]);
    assert_eq!(first.unread, *probe.unread());
    assert!(first.of(Subject::Stack(Side::Client)).last(snmp::IN_SEGS).is_ok());
    assert!(first.of(Subject::Stack(Side::Server)).last(snmp::IN_SEGS).is_err());
    assert!(probe.sample(clock(), &[]).unread.is_empty());
}

#[test]
fn a_process_or_a_namespace_that_is_gone_is_told_and_ends_nothing() {
    let mut child = Sleeper::new(Command::new("sleep").arg("60"));
    let pid = child.0.id();
    let mut probe = Probe::open(Scope { target_pids: vec![pid], ..scope(1) });
    assert!(probe.sample(clock(), &[]).of(Subject::Target).last(process::THREADS).is_ok());
    child.end();
    assert!(probe.sample(clock(), &[]).of(Subject::Target).last(process::THREADS).is_err());

    let gone = vec![Some(PathBuf::from("/run/netns/no-such-namespace"))];
    let probe = Probe::open(Scope { target_pids: vec![pid], server_netns: gone, ..scope(1) });
    assert!(probe.unread()["process"].starts_with(&format!("process {pid}: ")));
    assert!(probe.unread()["netstat"].contains("/run/netns/no-such-namespace"));
}

#[test]
fn a_port_has_its_owner() {
    let pair = Pair::new();
    assert_eq!(owner_of_port(pair.port()), Some(std::process::id()));
    let in_use_but_nobody_listens = pair.flow().client.port();
    assert_eq!(owner_of_port(in_use_but_nobody_listens), None);
    assert!(host_facts().sysctls.contains_key("net.core.somaxconn"));
}

#[test]
fn another_network_namespace_is_another_stack() {
    // As root alone, or the kernel refuses; the paths that need no right are tested above.
    let child = Sleeper::new(Command::new("unshare").args(["--net", "sleep", "60"]));
    let netns = PathBuf::from(format!("/proc/{}/ns/net", child.0.id()));
    let own = std::fs::read_link("/proc/self/ns/net").unwrap();
    let began = Instant::now();
    while std::fs::read_link(&netns).map_or(true, |theirs| theirs == own) {
        if began.elapsed() > Duration::from_secs(2) {
            // Root may; for others the kernel decides.
            assert!(!rustix::process::geteuid().is_root(), "root made no network namespace");
            println!("no right to make a network namespace: nothing to test");
            return;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    let mut probe = Probe::open(Scope { server_netns: vec![Some(netns.clone())], ..scope(port) });

    let evidence = probe.sample(clock(), &[]);

    assert!(probe.unread().is_empty(), "{:?}", probe.unread());
    // Nothing has ever been sent in there, and our listener is out here.
    let server = evidence.of(Subject::Stack(Side::Server));
    assert_eq!(server.last(snmp::IN_SEGS), Ok(0));
    assert!(evidence.of(Subject::Stack(Side::Client)).last(snmp::IN_SEGS).is_ok());
    assert!(evidence.of(Subject::Listener(port)).last(listener::RQUEUE).is_err());
    assert!(linerate_probe::sysctls_of(Some(&netns)).contains_key("net.ipv4.tcp_wmem"));
}

#[test]
fn several_processes_and_stacks_are_one_target_and_one_stack() {
    let (one, two) = (
        Sleeper::new(Command::new("sleep").arg("60")),
        Sleeper::new(Command::new("sleep").arg("60")),
    );
    let pids = vec![one.0.id(), two.0.id()];
    // The same namespace by another name is not counted twice.
    let netns = vec![None, Some(PathBuf::from("/proc/self/ns/net"))];
    let both = Scope { target_pids: pids, server_netns: netns, ..scope(1) };
    let mut probe = Probe::open(both);

    let evidence = probe.sample(clock(), &[]);

    assert!(probe.unread().is_empty(), "{:?}", probe.unread());
    assert_eq!(evidence.of(Subject::Target).last(process::THREADS), Ok(2));
    let server = evidence.of(Subject::Stack(Side::Server)).all(snmp::IN_SEGS).unwrap();
    assert_eq!(server.len(), 1);
}

#[test]
fn a_flow_is_looked_for_on_its_own_host_alone() {
    let pair = Pair::new();
    let mut probe = Probe::open(scope(pair.port()));
    let elsewhere = FlowAddress { client_host: 1, ..pair.flow() };

    let evidence = probe.sample(clock(), &[elsewhere]);

    assert!(evidence.of(CLIENT).last(tcp_info::MIN_RTT).is_err());
    assert!(evidence.of(SERVER).last(tcp_info::MIN_RTT).is_ok());
}

/// A pass is cheap enough to be made five times a second beside a load; `--nocapture` prints its cost.
#[test]
fn a_pass_over_64_flows_takes_a_small_part_of_its_interval() {
    let pairs: Vec<Pair> = (0..64).map(|_| Pair::new()).collect();
    let flows: Vec<FlowAddress> = pairs
        .iter()
        .enumerate()
        .map(|(id, pair)| FlowAddress { id: id as u32, ..pair.flow() })
        .collect();
    let (mut probe, now) = (Probe::open(scope(pairs[0].port())), clock());
    let mut costs: Vec<Duration> = (0..20)
        .map(|_| {
            let began = Instant::now();
            probe.sample(&now, &flows);
            began.elapsed()
        })
        .collect();
    costs.sort_unstable();
    println!("64 flows, this process: {:?}", costs[10]);
    // Measured: 5 ms on two busy cores; ten times that is a defect on any machine.
    assert!(costs[10] < Duration::from_millis(50), "{costs:?}");
}

/// A process that is ended with the test.
struct Sleeper(Child);

impl Sleeper {
    fn new(command: &mut Command) -> Self {
        Self(command.stderr(Stdio::null()).spawn().unwrap())
    }

    fn end(&mut self) {
        self.0.kill().unwrap();
        self.0.wait().unwrap();
    }
}

impl Drop for Sleeper {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
