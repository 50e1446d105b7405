//! The background sampler, the engine's threads and the target's new counters against this kernel: real
//! processes that sleep, wait, sync and ask. Margins are wide: others use the machine too.

// The helpers of tests are tests too, but not to the lint.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{TcpListener, TcpStream, UdpSocket};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use linerate_evidence::sources::peers::Asked;
use linerate_evidence::sources::{engine, peers, process, threads};
use linerate_evidence::{Evidence, Metric, Subject};
use linerate_model::{Bytes, Timestamp};
use linerate_probe::{Probe, Scope, TargetSampler};

fn clock() -> impl Fn() -> Timestamp + Send + Clone + 'static {
    let began = Instant::now();
    move || Timestamp(began.elapsed().as_nanos() as u64)
}

fn scope(pid: u32) -> Scope {
    Scope {
        target_pids: vec![pid],
        target_ports: Vec::new(),
        client_netns: vec![None],
        server_netns: vec![None],
        local: true,
    }
}

/// A Python program that said `ready`; ended with the test.
struct Program(Child);

impl Program {
    fn new(text: &str, arguments: &[&str]) -> Self {
        let mut child = Command::new("python3")
            .args(["-c", text])
            .args(arguments)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self(child)
    }

    fn pid(&self) -> u32 {
        self.0.id()
    }
}

impl Drop for Program {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Samples a tree for a while.
fn sampled(pid: u32, time: Duration) -> Evidence {
    let sampler = TargetSampler::start(vec![pid], Vec::new(), false, clock());
    std::thread::sleep(time);
    let mut evidence = sampler.drain();
    evidence.absorb(sampler.finish());
    assert!(evidence.unread.is_empty(), "{:?}", evidence.unread);
    evidence
}

/// The mean number of threads that a metric counts.
fn mean(evidence: &Evidence, metric: Metric<u64>) -> f64 {
    let of = evidence.of(Subject::Target);
    of.delta(metric).unwrap().0 as f64 / of.delta(threads::INSTANTS).unwrap().0 as f64
}

const WAITING: &str = "
import sys, threading, time
held = threading.Lock(); held.acquire()
threading.Thread(target=lambda: time.sleep(60), daemon=True).start()
threading.Thread(target=held.acquire, daemon=True).start()
time.sleep(0.2); print('ready', flush=True)
sys.stdin.buffer.raw.read(1)
";

#[test]
fn each_thread_is_told_by_what_it_waits_for() {
    let program = Program::new(WAITING, &[]);
    let evidence = sampled(program.pid(), Duration::from_secs(2));

    let instants = evidence.of(Subject::Target).delta(threads::INSTANTS).unwrap().0;
    assert!(instants >= 15, "{instants} of about 80");
    for metric in [threads::TIMER, threads::LOCK, threads::READ] {
        let mean = mean(&evidence, metric);
        assert!((0.9..=1.0).contains(&mean), "{}: {mean}", metric.name);
    }
    for metric in [threads::OCCUPIED, threads::SOME_RUNNING, threads::UNKNOWN, threads::OTHER] {
        assert!(mean(&evidence, metric) < 0.1, "{}", metric.name);
    }
}

const SYNCING: &str = "
import os, sys, threading
file = os.open(sys.argv[1], os.O_CREAT | os.O_WRONLY)
def sync():
    while True:
        os.pwrite(file, bytes(4096), 0); os.fsync(file)
threading.Thread(target=sync, daemon=True, name='syncs').start()
print('ready', flush=True)
threading.Event().wait()
";

#[test]
fn a_thread_that_writes_and_syncs_is_full_however_little_it_computes() {
    let path = format!("{}/synced-{}", env!("CARGO_TARGET_TMPDIR"), std::process::id());
    let program = Program::new(SYNCING, &[&path]);
    let (mut probe, now) = (Probe::open(scope(program.pid())), clock());
    let mut passes = probe.sample(&now, &[]);
    let evidence = sampled(program.pid(), Duration::from_secs(2));
    passes.absorb(probe.sample(&now, &[]));
    std::fs::remove_file(&path).unwrap();

    let (occupied, fullest) =
        (mean(&evidence, threads::OCCUPIED), mean(&evidence, threads::FULLEST));
    assert!(occupied > 0.8 && fullest > 0.8, "{occupied} {fullest}");
    assert!(evidence.fact(Subject::Target, "fullest_thread").is_some());
    assert!((0.5..=1.1).contains(&mean(&evidence, threads::LOCK)), "the other waits");
    let target = passes.of(Subject::Target);
    let (run, over) = target.delta(process::RUN).unwrap();
    println!(
        "disk {:.2}, running {:.2}, CPU {:.2}",
        mean(&evidence, threads::DISK),
        mean(&evidence, threads::RUNNING),
        run.as_secs_f64() / over.as_secs_f64()
    );
    // A memory file system writes nothing; everything else does.
    if mean(&evidence, threads::DISK) > 0.2 {
        assert!(target.delta(process::DISK_WRITTEN).unwrap().0 > Bytes(0));
    }
    assert!(target.delta(process::DISK_READ).is_ok());
}

const SPINNING: &str = "
import os, sys, time
def spin(seconds):
    end = time.process_time() + seconds
    while time.process_time() < end: pass
first, second = os.pipe(), os.pipe()
mine, others = (first[0], second[1]) if os.fork() else (second[0], first[1])
if others == second[1]:
    print('ready', flush=True)
    os.write(first[1], b'.')
while True:
    if sys.argv[1] == 'in turn': os.read(mine, 1)
    spin(0.005)
    if sys.argv[1] == 'in turn': os.write(others, b'.')
";

#[test]
fn processes_that_take_turns_are_distinguished_from_those_that_run_together() {
    for (how, range) in [("in turn", 0.0..0.7), ("together", 0.9..1.01)] {
        let program = Program::new(SPINNING, &[how]);
        let evidence = sampled(program.pid(), Duration::from_millis(1500));
        let below = linerate_probe::processes_below(program.pid());
        for pid in below.into_iter().skip(1) {
            Command::new("kill").arg(pid.to_string()).status().unwrap();
        }
        let some = mean(&evidence, threads::SOME_RUNNING);
        let together = mean(&evidence, threads::TOGETHER);
        println!("{how}: some {some:.2}, together {together:.2}");
        assert!(some > 0.9 && range.contains(&together), "{how}: {some} {together}");
    }
}

const ASKING: &str = "
import socket, sys
peers = [socket.create_connection((sys.argv[1], int(sys.argv[2]))) for _ in range(3)]
for peer in peers[:2]: peer.sendall(b'?')
print('ready', flush=True)
for peer in peers[:2]: peer.recv(1)
sys.stdin.read()
";

#[test]
fn whom_a_process_asks_is_told_with_the_questions_that_are_out() {
    for host in ["127.0.0.1", "::1"] {
        let Ok(listener) = TcpListener::bind((host, 0)) else { continue };
        let address = listener.local_addr().unwrap();
        let program = Program::new(ASKING, &[host, &address.port().to_string()]);
        let mut accepted: Vec<_> = (0..3).map(|_| listener.accept().unwrap().0).collect();
        for peer in &mut accepted[..2] {
            let _ = peer.set_read_timeout(Some(Duration::from_secs(5)));
            peer.read_exact(&mut [0]).unwrap();
        }
        // Longer than a greeting is due on the third.
        std::thread::sleep(Duration::from_millis(1_050));

        let evidence = sampled(program.pid(), Duration::from_millis(1500));
        let of = evidence.of(Subject::Peer(0));
        let instants = of.last(peers::INSTANTS).unwrap();
        assert_eq!(evidence.fact(Subject::Peer(0), "address"), Some(&*address.to_string()));
        assert_eq!(of.last(peers::CONNECTIONS), Ok(3 * instants));
        assert_eq!(of.last(peers::ASKED), Ok(2 * instants), "the third was never asked");
        assert_eq!(of.last(peers::UNSENT), Ok(0));
        let pid = std::process::id().to_string();
        assert_eq!(evidence.fact(Subject::Peer(0), "pid"), Some(&*pid));
        assert!(evidence.fact(Subject::Peer(0), "process").is_some());
        assert!(of.last(peers::RUN).unwrap() > Duration::ZERO);

        for peer in &mut accepted[..2] {
            peer.write_all(b"!").unwrap();
        }
        std::thread::sleep(Duration::from_millis(20));
        let evidence = sampled(program.pid(), Duration::from_secs(1));
        let of = evidence.of(Subject::Peer(0));
        assert_eq!((of.last(peers::ASKED), of.last(peers::ASKED_MAYBE)), (Ok(0), Ok(0)));
    }
}

const ACCEPTING: &str = "
import socket, sys, threading
def serve(port):
    listener = socket.create_server(('127.0.0.1', int(port)))
    def ask():
        kept = []
        while True:
            kept.append(listener.accept()[0])
            kept[-1].sendall(b'?')
    threading.Thread(target=ask, daemon=True).start()
for port in sys.argv[1:]: serve(port)
print('ready', flush=True)
sys.stdin.read()
";

const CALLING: &str = "
import socket, sys
channel, crowd = ((('127.0.0.1', int(port))) for port in sys.argv[1:])
peers = [socket.create_connection(to) for to in [channel] + 9 * [crowd]]
for peer in peers: peer.recv(1)
print('ready', flush=True)
sys.stdin.read()
";

#[test]
fn few_who_came_to_a_port_that_is_not_loaded_may_be_asked_and_linerate_is_none_of_them() {
    let free = || TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let ports = [free(), free()].map(|address| address.port().to_string());
    let words = ports.each_ref().map(String::as_str);
    let (target, peer) = (Program::new(ACCEPTING, &words), Program::new(CALLING, &words));
    let _ours = TcpStream::connect(("127.0.0.1", ports[0].parse().unwrap())).unwrap();
    let evidence = sampled(target.pid(), Duration::from_millis(2500));
    let came: Vec<_> =
        evidence.subjects().filter(|of| evidence.fact(*of, "opened_by").is_some()).collect();
    let [channel] = came[..] else { panic!("{came:?} {:?}", evidence.unread) };
    assert_eq!(evidence.fact(channel, "pid"), Some(&*peer.pid().to_string()));
    let of = evidence.of(channel);
    let counts = [peers::CONNECTIONS, peers::ASKED].map(|metric| of.last(metric).unwrap());
    assert!(counts[0] > 0 && counts[0] == counts[1], "{counts:?}: it sent last");
    assert_eq!(evidence.subjects().filter(|of| matches!(of, Subject::Peer(_))).count(), 1);
}

const LOOKING_UP: &str = "
import socket, sys, threading
sink = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
sink.connect(('127.0.0.1', int(sys.argv[1])))
kept = socket.socket(socket.AF_UNIX)
kept.connect('\\0' + sys.argv[2])
def ask():
    while True:
        for family, kind, whom in (
            (socket.AF_INET, socket.SOCK_DGRAM, ('127.0.0.1', int(sys.argv[3]))),
            (socket.AF_UNIX, socket.SOCK_STREAM, '\\0' + sys.argv[4]),
        ):
            with socket.socket(family, kind) as one:
                one.settimeout(0.03)
                one.connect(whom)
                one.send(b'?')
                try: one.recv(1)
                except TimeoutError: pass
for nth in range(4): threading.Timer(0.013 * nth, ask).start()
print('ready', flush=True)
sys.stdin.read()
";

/// Accepts and never answers: each client gives up after 30 ms.
const SILENT: &str = "
import socket, sys, threading
accepted = []
def accept(listener):
    while True: accepted.append(listener.accept())
for name in sys.argv[1:]:
    listener = socket.socket(socket.AF_UNIX)
    listener.bind('\\0' + name)
    listener.listen()
    threading.Thread(target=accept, args=(listener,), daemon=True).start()
print('ready', flush=True)
sys.stdin.read()
";

#[test]
fn sockets_that_are_opened_for_a_question_each_are_told_from_those_that_stay() {
    let [kept, asked] =
        ["kept", "asked"].map(|name| format!("linerate-{}-{name}", std::process::id()));
    let _silent = Program::new(SILENT, &[&kept, &asked]);
    let [sink, names] = [(); 2].map(|()| UdpSocket::bind("127.0.0.1:0").unwrap());
    let port = |of: &UdpSocket| of.local_addr().unwrap().port().to_string();
    let words = [port(&sink), kept.clone(), port(&names), asked.clone()];
    let program = Program::new(LOOKING_UP, &words.each_ref().map(String::as_str));
    // The budget allows two instants a second on a slow machine, and the first ones have no descriptors yet.
    let evidence = sampled(program.pid(), Duration::from_secs(12));
    let of = |address: &str| {
        let named = |of: &Subject| evidence.fact(*of, "address") == Some(address);
        let told = evidence.subjects().find(named);
        let of = evidence.of(told.unwrap_or_else(|| panic!("{address}: {:?}", evidence.unread)));
        let instants = of.last(peers::INSTANTS).unwrap() as f64;
        [peers::CONNECTIONS, peers::ASKED].map(|metric| of.last(metric).unwrap() as f64 / instants)
    };
    let unix = |name: &str| of(&format!("unix:@{name}"));
    let udp = |socket: &UdpSocket| of(&format!("127.0.0.1:{}/udp", port(socket)));
    assert_eq!(udp(&sink), [1.0, 0.0], "it stays");
    // A thread that is accepting another client just now might be at work for it.
    let [open, asked_of_kept] = unix(&kept);
    assert!(open == 1.0 && asked_of_kept < 0.2, "{asked_of_kept}");
    // Four threads, half of the time at each.
    for [open, asked] in [unix(&asked), udp(&names)] {
        // Where reading descriptors and sockets takes as long as these live, few are met: 0.36 of 2, on a busy machine.
        assert!(open > 0.0 && open < 3.5 && asked > 0.4 * open, "{open} {asked}");
    }
    let own = |of: &Subject| evidence.fact(*of, "asked_by").is_none();
    let named = evidence.subjects().filter(own);
    let named = named.filter(|of| evidence.fact(*of, "pid").is_some()).count();
    assert_eq!(named, 4, "all are here");
}

const CROWD: &str = "
import socket, sys, threading, time
for _ in range(int(sys.argv[1])):
    threading.Thread(target=lambda: time.sleep(60), daemon=True).start()
port = int(sys.argv[2])
peers = [socket.create_connection(('127.0.0.1', port)) for _ in range(int(sys.argv[3]))]
print('ready', flush=True)
sys.stdin.read()
";

/// `--nocapture` prints its cost.
#[test]
fn a_target_of_many_threads_and_connections_is_sampled_less_often() {
    let mut all_used = Vec::new();
    for (count, connections) in [(1, 1), (50, 50), (400, 400)] {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let mut accepted = Vec::new();
            while let Ok((peer, _)) = listener.accept() {
                accepted.push(peer);
            }
        });
        let words = [count, i32::from(port), connections].map(|word: i32| word.to_string());
        let program = Program::new(CROWD, &words.each_ref().map(String::as_str));
        let sampler = TargetSampler::start(vec![program.pid()], Vec::new(), false, clock());
        std::thread::sleep(Duration::from_secs(3));
        let used = sampler.cpu_time().as_secs_f64() / 3.0;
        let evidence = sampler.finish();
        let target = evidence.of(Subject::Target);
        let of = evidence.of(Subject::Peer(0));
        println!(
            "{count} threads, {connections} connections: {:.2} % of a CPU, {} and {} instants, {:.1} asleep",
            100.0 * used,
            target.last(threads::INSTANTS).unwrap(),
            of.last(peers::INSTANTS).unwrap(),
            mean(&evidence, threads::TIMER),
        );
        assert_eq!(
            of.last(peers::CONNECTIONS).unwrap() as f64 / of.last(peers::INSTANTS).unwrap() as f64,
            f64::from(connections)
        );
        assert!((0.95..1.05).contains(&(mean(&evidence, threads::TIMER) / f64::from(count))));
        all_used.push(used);
    }
    // As often as one thread and one connection, so many would take hundreds of times as much. Measured: twice.
    let [one, .., many] = all_used[..] else { unreachable!() };
    assert!(many < 10.0 * one, "{all_used:?}");
}

#[test]
fn the_engines_threads_are_those_of_its_name() {
    static STOP: AtomicBool = AtomicBool::new(false);
    let spin = || {
        while !STOP.load(Ordering::Relaxed) {
            std::hint::spin_loop();
        }
    };
    let engine = std::thread::Builder::new().name("linerate-0".into()).spawn(spin).unwrap();
    std::thread::sleep(Duration::from_millis(50));
    let (mut probe, now) = (Probe::open(scope(std::process::id())), clock());
    let mut evidence = probe.sample(&now, &[]);
    std::thread::sleep(Duration::from_millis(500));
    evidence.absorb(probe.sample(&now, &[]));
    STOP.store(true, Ordering::Relaxed);
    engine.join().unwrap();
    evidence.absorb(probe.sample(&now, &[]));

    let of = evidence.of(Subject::Engine);
    assert_eq!(of.max(engine::THREADS), Ok(1));
    let run = of.delta(engine::RUN).unwrap().0 + of.delta(engine::RUN_DELAY).unwrap().0;
    assert!(run > Duration::from_millis(400), "{run:?}");
    assert_eq!(of.delta(engine::RUN).unwrap().0, of.delta(engine::BUSIEST_RUN).unwrap().0);
    assert!(of.last(engine::CPUS_ALLOWED).unwrap() > 0);
    assert!(evidence.fact(Subject::Engine, "cpus").is_some());
    assert!(!probe.unread().contains_key("engine"), "{:?}", probe.unread());
    assert!(evidence.fact(Subject::Target, "cpus").is_some());
}

const RELAYING: &str = "
import socket, sys, threading
asked, asks = (('127.0.0.1', int(port)) for port in sys.argv[1:])
listener, kept = socket.create_server(asked), []
def relay():
    while True:
        kept.append(listener.accept()[0])
        kept[-1].recv(1)
        kept.append(socket.create_connection(asks))
        kept[-1].sendall(b'?')
threading.Thread(target=relay, daemon=True).start()
print('ready', flush=True)
sys.stdin.read()
";

#[test]
fn whom_a_peer_asks_in_turn_is_told_with_the_questions_that_are_out() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let end = listener.local_addr().unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port().to_string();
    let relay = Program::new(RELAYING, &[&free, &end.port().to_string()]);
    let target = Program::new(ASKING, &["127.0.0.1", &free]);
    let _accepted: Vec<_> = (0..2).map(|_| listener.accept().unwrap().0).collect();
    let evidence = sampled(target.pid(), Duration::from_millis(2500));
    let fact = |of: Subject, name| evidence.fact(of, name).map(str::to_owned);
    assert_eq!(fact(Subject::Peer(0), "pid"), Some(relay.pid().to_string()));
    assert_eq!(fact(Subject::Peer(0), "asked_by"), None);
    // This process asks too, in other tests.
    let asked = |of: &Subject| evidence.fact(*of, "asked_by") == Some("0");
    let onward: Vec<_> = evidence.subjects().filter(asked).collect();
    let [next] = onward[..] else { panic!("{onward:?} {:?}", evidence.unread) };
    assert_eq!(fact(next, "address"), Some(end.to_string()));
    assert_eq!(fact(next, "pid"), Some(std::process::id().to_string()));
    let of = |metric| evidence.of(next).last(metric).unwrap();
    assert!(of(peers::ASKED) > 0);
    assert_eq!(
        (of(peers::CONNECTIONS), of(peers::ASKED)),
        (2 * of(peers::INSTANTS), of(peers::CONNECTIONS))
    );
    let all = Asked::all(&evidence, &(Timestamp(0)..=Timestamp(u64::MAX)));
    // Nobody answers them.
    assert_eq!((all.len(), all[0].onward.len(), all[0].onward[0].unanswered), (1, 1, 2.0));
}
