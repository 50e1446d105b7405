//! A broker's own statistics, of a real beanstalkd and a real Redis: what is published and not taken shows, and a refusal is said.

// The helpers of tests are tests too, but not to the lint.
#![allow(clippy::unwrap_used)]

use std::io::{BufRead, BufReader, Write};
use std::net::{TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use linerate_evidence::sources::{broker, queue};
use linerate_evidence::{Evidence, Subject};
use linerate_model::Timestamp;
use linerate_probe::StatisticsSampler;

fn clock() -> impl Fn() -> Timestamp + Send + 'static {
    let began = Instant::now();
    move || Timestamp(began.elapsed().as_nanos() as u64)
}

/// A broker on a port of its own; ended with the test.
struct Broker {
    child: Child,
    port: u16,
}

impl Broker {
    fn start(command: &str, arguments: impl Fn(&str) -> Vec<String>) -> Self {
        let free = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = free.local_addr().unwrap().port();
        drop(free);
        let child = Command::new(command)
            .args(arguments(&port.to_string()))
            .stdout(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("{command}: {error}; `make setup` installs it"));
        let (broker, began) = (Self { child, port }, Instant::now());
        while TcpStream::connect(("127.0.0.1", port)).is_err() {
            assert!(began.elapsed() < Duration::from_secs(20), "{command} does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        broker
    }

    fn beanstalkd() -> Self {
        let words = |port: &str| ["-l", "127.0.0.1", "-p", port].map(str::to_owned).to_vec();
        Self::start("beanstalkd", words)
    }

    fn redis(more: &[&str]) -> Self {
        Self::start("redis-server", |port| {
            let own = ["--port", port, "--bind", "127.0.0.1", "--save", "", "--dir", "/tmp"];
            own.iter().chain(more).map(ToString::to_string).collect()
        })
    }

    /// Asks one thing after the other, with pauses, and waits for the first line of each answer; until that is enough.
    fn sampled(&self, questions: &[&str], is_enough: impl Fn(&Evidence) -> bool) -> Evidence {
        let sampler = StatisticsSampler::start(self.child.id(), None, &[self.port], clock());
        let (sampler, began) = (sampler.unwrap(), Instant::now());
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).unwrap();
        let mut answers = BufReader::new(stream.try_clone().unwrap());
        let mut evidence = Evidence::default();
        while !is_enough(&evidence) {
            assert!(began.elapsed() < Duration::from_secs(30), "{:?}", evidence.unread);
            for question in questions {
                stream.write_all(question.as_bytes()).unwrap();
                answers.read_line(&mut String::new()).unwrap();
            }
            std::thread::sleep(Duration::from_millis(5));
            evidence.absorb(sampler.drain());
        }
        evidence
    }
}

impl Drop for Broker {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Its lengths so far.
fn lengths(evidence: &Evidence, name: &str) -> Vec<u64> {
    let named = |of: &Subject| evidence.fact(*of, "name") == Some(name);
    let found = evidence.queues().into_iter().find(named);
    found.and_then(|of| evidence.of(of).values(queue::READY).ok()).unwrap_or_default()
}

/// It grew between its samples.
fn grows(evidence: &Evidence, name: &str) {
    let lengths = lengths(evidence, name);
    assert!(lengths.windows(2).all(|two| two[0] <= two[1]), "{lengths:?}");
    assert!(lengths.first() < lengths.last(), "{lengths:?}");
}

#[test]
fn a_tube_into_which_more_is_put_than_taken_grows() {
    let broker = Broker::beanstalkd();
    let puts = ["use orders\r\n", "put 0 0 60 5\r\norder\r\n"];
    let evidence = broker.sampled(&puts, |of| lengths(of, "orders").len() >= 3);
    assert!(evidence.unread.is_empty(), "{:?}", evidence.unread);
    grows(&evidence, "orders");
    let of = evidence.of(Subject::Target);
    assert!(of.grown(broker::PUBLISHED).unwrap() > 0.0);
    assert_eq!((of.last(broker::ACKNOWLEDGED), of.last(broker::CONSUMERS)), (Ok(0), Ok(0)));
}

#[test]
fn a_list_into_which_more_is_pushed_than_popped_grows_where_something_pops() {
    let broker = Broker::redis(&[]);
    let pushes = ["LPUSH jobs a b\r\n", "RPOP mails\r\n"];
    let evidence = broker.sampled(&pushes, |of| lengths(of, "jobs").len() >= 3);
    assert!(evidence.unread.is_empty(), "{:?}", evidence.unread);
    grows(&evidence, "jobs");
    let of = evidence.of(Subject::Target);
    assert!(of.grown(broker::PUBLISHED).unwrap() > 0.0);
    assert!(of.grown(broker::DELIVERED).unwrap() > 0.0);
    drop(broker);
    // A timeline: nobody ever takes from it.
    let rounds =
        |of: &Evidence| of.of(Subject::Target).values(broker::PUBLISHED).map_or(0, |of| of.len());
    let evidence = Broker::redis(&[]).sampled(&["LPUSH posts a\r\n"], |of| rounds(of) >= 5);
    assert!(evidence.queues().is_empty());
}

#[test]
fn a_refusal_is_said_and_other_programs_are_not_asked() {
    let broker = Broker::redis(&["--requirepass", "secret"]);
    let sampler = StatisticsSampler::start(broker.child.id(), None, &[broker.port], clock());
    let (sampler, began) = (sampler.unwrap(), Instant::now());
    loop {
        let said = sampler.drain().unread;
        if let Some(why) = said.get("broker") {
            assert!(why.contains("NOAUTH"), "{why}");
            break;
        }
        assert!(began.elapsed() < Duration::from_secs(10));
        std::thread::sleep(Duration::from_millis(20));
    }
    let own = StatisticsSampler::start(std::process::id(), None, &[broker.port], clock());
    assert!(own.is_none());
}
