//! The census against this kernel: real servers on the loopback, of which it is known where an exchange is.
// The helpers of tests are tests too, but not to the lint.
#![allow(clippy::unwrap_used)]

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use linerate_evidence::sources::census::{
    COST, Connections, Held, INSTANTS, SlotState, SlotView, Station,
};
use linerate_evidence::{Evidence, Subject};
use linerate_model::Timestamp;
use linerate_probe::{Asked, Census, CensusSampler, Scope};
use rustix::time::{ClockId, clock_gettime};

fn now() -> Timestamp {
    let time = clock_gettime(ClockId::Monotonic);
    Timestamp(time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64)
}

fn scope(local: bool) -> Scope {
    Scope {
        target_pids: vec![],
        target_ports: vec![],
        client_netns: vec![None],
        server_netns: vec![None],
        local,
    }
}

/// What the engine's board is in a run.
#[derive(Clone)]
struct Board(Arc<Vec<Mutex<SlotView>>>);

impl Board {
    fn new(count: usize) -> Self {
        let idle = SlotView {
            state: SlotState::Idle,
            sequence: 0,
            written: Timestamp(0),
            client: None,
            server: 0,
            host: 0,
        };
        Self(Arc::new((0..count).map(|_| Mutex::new(idle)).collect()))
    }

    fn set(&self, number: usize, change: impl FnOnce(&mut SlotView)) {
        change(&mut self.0[number].lock().unwrap());
    }

    fn begin(&self, number: usize, stream: &TcpStream) {
        self.set(number, |slot| {
            slot.client = Some(stream.local_addr().unwrap());
            slot.sequence += 1;
            (slot.state, slot.written) = (SlotState::Waiting, now());
        });
    }
}

impl Connections for Board {
    fn count(&self) -> u32 {
        self.0.len() as u32
    }

    fn read(&self, number: u32) -> Option<SlotView> {
        Some(*self.0.get(number as usize)?.lock().unwrap())
    }
}

/// How many connections each test has.
const CONNECTIONS: usize = 4;

/// Serves each connection in a thread of its own until the test's process ends.
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

/// Asks for `answer` bytes with 64, again and again, and reads what comes when it has slept.
fn ask(server: SocketAddr, answer: usize, sleep: Duration) -> Board {
    let board = Board::new(CONNECTIONS);
    for number in 0..CONNECTIONS {
        let (board, mut buffer) = (board.clone(), vec![0; answer]);
        std::thread::spawn(move || {
            let mut stream = TcpStream::connect(server).unwrap();
            loop {
                board.begin(number, &stream);
                stream.write_all(&[7; 64]).unwrap();
                std::thread::sleep(sleep);
                let mut filled = 0;
                while filled < answer {
                    let Ok(more @ 1..) = stream.read(&mut buffer[filled..]) else { return };
                    filled += more;
                    board.set(number, |slot| slot.state = SlotState::Answering);
                }
                board.set(number, |slot| slot.state = SlotState::Idle);
            }
        });
    }
    board
}

/// The shares of stations in a second and a half, and the evidence.
fn sample(
    scope: &Scope,
    server: SocketAddr,
    board: &Board,
) -> (impl Fn(Station) -> f64 + use<>, Evidence) {
    // Delayed ACKs begin when a connection has gone back and forth for a while.
    std::thread::sleep(Duration::from_millis(200));
    let connections = Arc::new(board.clone());
    let sampler = CensusSampler::start(scope, &[server], connections, now, 7);
    std::thread::sleep(Duration::from_millis(700));
    let mut evidence = sampler.drain();
    std::thread::sleep(Duration::from_millis(800));
    evidence.absorb(sampler.finish());
    let of = evidence.of(Subject::Census(0));
    let grown = |metric| of.delta(metric).unwrap().0;
    let (instants, cost) = (grown(INSTANTS), of.delta(COST).unwrap().0);
    println!("{instants} instants, {cost:?} in all, {:?} each", cost / instants.max(1) as u32);
    assert!(of.all(INSTANTS).unwrap().len() >= 5, "a row each 200 ms");
    assert_eq!(Station::ALL.iter().map(|one| grown(one.metric())).sum::<u64>(), instants);
    for station in Station::ALL {
        let count = grown(station.metric());
        if count > 0 {
            println!("  {station:?}: {:.3}", count as f64 / instants as f64);
        }
    }
    let shares: Vec<(Station, f64)> = Station::ALL
        .iter()
        .map(|one| (*one, grown(one.metric()) as f64 / instants as f64))
        .collect();
    assert!(evidence.unread.is_empty(), "{:?}", evidence.unread);
    let share = move |of| shares.iter().find(|(one, _)| *one == of).unwrap().1;
    (share, evidence)
}

fn sleeper() -> SocketAddr {
    serve(|mut stream| {
        let mut buffer = [0; 64];
        while stream.read_exact(&mut buffer).is_ok() {
            std::thread::sleep(Duration::from_millis(20));
            if stream.write_all(&buffer).is_err() {
                return;
            }
        }
    })
}

#[test]
fn a_target_that_sleeps_on_a_request_has_it_in_the_application() {
    let server = sleeper();
    let board = ask(server, 64, Duration::ZERO);
    let (share, _) = sample(&scope(true), server, &board);
    assert!(share(Station::Application) > 0.8);
}

#[test]
fn of_a_target_elsewhere_only_our_end_is_seen() {
    let server = sleeper();
    let board = ask(server, 64, Duration::ZERO);
    let (share, _) = sample(&scope(false), server, &board);
    // It is read at once and acknowledged late: that is not the path's.
    assert!(share(Station::Beyond) > 0.8);
    assert_eq!(share(Station::Application), 0.0);
}

#[test]
fn a_target_that_does_not_read_has_it_unread() {
    let server = serve(|stream| {
        std::thread::sleep(Duration::from_secs(60));
        drop(stream);
    });
    let board = ask(server, 64, Duration::ZERO);
    let (share, _) = sample(&scope(true), server, &board);
    assert!(share(Station::Unread) > 0.9);
}

#[test]
fn a_target_that_never_accepts_has_it_in_its_accept_queue() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let server = listener.local_addr().unwrap();
    let board = ask(server, 64, Duration::ZERO);
    let (share, _) = sample(&scope(true), server, &board);
    assert!(share(Station::AcceptQueue) > 0.9);
    drop(listener);
}

#[test]
fn the_second_of_two_small_writes_is_held_by_nagle_until_the_first_is_acknowledged() {
    let server = serve(|mut stream| {
        let mut buffer = [0; 64];
        while stream.read_exact(&mut buffer).is_ok() {
            if stream.write_all(&buffer[..20]).is_err() || stream.write_all(&buffer).is_err() {
                return;
            }
        }
    });
    let board = ask(server, 84, Duration::ZERO);
    let (share, _) = sample(&scope(true), server, &board);
    assert!(share(Station::ServerSending(Held::Nagle)) > 0.7);
}

#[test]
fn an_engine_that_is_slow_to_read_has_it_itself() {
    let server = serve(|mut stream| {
        let mut buffer = [0; 64];
        while stream.read_exact(&mut buffer).is_ok() && stream.write_all(&buffer).is_ok() {}
    });
    let board = ask(server, 64, Duration::from_millis(20));
    let (share, _) = sample(&scope(true), server, &board);
    assert!(share(Station::Engine) > 0.8);
}

#[test]
fn a_large_answer_into_a_small_window_waits_for_whoever_does_not_read_it() {
    // The engine reads nothing: its window is shut, and it is the engine all the same.
    let server = serve(|mut stream| {
        let mut buffer = [0; 64];
        while stream.read_exact(&mut buffer).is_ok() {
            if stream.write_all(&vec![7; 8 << 20]).is_err() {
                return;
            }
        }
    });
    let board = ask(server, 8 << 20, Duration::from_secs(60));
    let (share, _) = sample(&scope(true), server, &board);
    assert!(share(Station::Engine) > 0.9);
}

#[test]
fn connections_without_an_exchange_cost_no_question() {
    let server = sleeper();
    let board = Board::new(1);
    let mut census = Census::open(&scope(true), &[server]);
    let sample = census.sample(&board, 0, now).unwrap();
    assert_eq!((sample.station, sample.asked), (Station::Idle, Asked::Engine));
    assert_eq!(census.sample(&board, 1, now), None);
}

#[test]
fn an_exchange_that_ends_between_the_questions_is_unresolved() {
    /// Has another exchange whenever it is read.
    struct Restless(Mutex<SlotView>);
    impl Connections for Restless {
        fn count(&self) -> u32 {
            1
        }
        fn read(&self, _: u32) -> Option<SlotView> {
            let mut slot = self.0.lock().unwrap();
            slot.sequence += 1;
            Some(*slot)
        }
    }
    let server = sleeper();
    let stream = TcpStream::connect(server).unwrap();
    let board = Board::new(1);
    board.begin(0, &stream);
    let slot = board.read(0).unwrap();
    let mut census = Census::open(&scope(true), &[server]);
    let sample = census.sample(&Restless(Mutex::new(slot)), 0, now).unwrap();
    assert_eq!(sample.station, Station::Unresolved);
}

#[test]
fn an_engine_that_does_not_tell_is_said_to_be_unread() {
    let server = sleeper();
    let connections = Arc::new(Board::new(0));
    let sampler = CensusSampler::start(&scope(true), &[server], connections, now, 1);
    let evidence = sampler.finish();
    assert!(evidence.unread["census"].contains("do not tell"), "{:?}", evidence.unread);
}

/// Neighbours can make a sample dear, so one of three tries is enough.
#[test]
fn sampling_takes_a_hundredth_of_a_cpu_at_most() {
    let server = sleeper();
    let board = ask(server, 64, Duration::ZERO);
    let mut shares = Vec::new();
    for _ in 0..3 {
        let (_, evidence) = sample(&scope(true), server, &board);
        let (cost, over) = evidence.of(Subject::Census(0)).delta(COST).unwrap();
        shares.push(cost.as_secs_f64() / over.as_secs_f64());
        // The rate follows the cost with some delay.
        if shares.last().is_some_and(|share| *share < 0.0115) {
            return;
        }
    }
    panic!("{shares:?}");
}

/// `--nocapture` prints it.
#[test]
fn cost() {
    let server = serve(|stream| {
        std::thread::sleep(Duration::from_secs(60));
        drop(stream);
    });
    let stream = TcpStream::connect(server).unwrap();
    let board = Board::new(1);
    board.begin(0, &stream);
    let mut census = Census::open(&scope(true), &[server]);
    let mut costs: Vec<Duration> = (0..2_000)
        .map(|_| {
            let began = Instant::now();
            census.sample(&board, 0, now).unwrap();
            began.elapsed()
        })
        .collect();
    costs.sort_unstable();
    println!("a sample of both ends: {:?}, 90th percentile {:?}", costs[1_000], costs[1_800]);
    // Thirty times what was measured is a defect on any machine.
    assert!(costs[1_000] < Duration::from_micros(300), "{:?}", costs[1_000]);
}
