//! `stream`: bulk bytes in one direction, as fast as they go. An exchange is a block that the kernel has taken of us
//! (up) or given to us (down); nothing is answered, so one is over with its last byte.
//!
//! A far end of our own (`linerate serve`) is told in a line what a connection is for, and says `ok` or why not. Bare
//! services are told nothing: what reads everything (discard) takes a stream up, what writes unasked (chargen) gives
//! one down.
//!
//! Blind spot: a block that the kernel has taken may still be in its send buffer. What arrived is counted by a far
//! end of ours ([`Totals`]), and by the kernel.

use std::fmt::Write;
use std::sync::Arc;

use linerate_model::{Flow, Workload};

use crate::Kind;
use crate::session::{Answer, Broken, Session, Step, Template};

/// See the module.
pub(crate) static KIND: Kind = Kind {
    name: "stream",
    says: "bulk bytes to the target, from it or both directions, as fast as they go (iperf3)",
    template: |workload, given| match workload {
        Workload::Stream { direction, block, zerocopy, bare } => {
            let mut bytes = vec![0; block.0 as usize];
            fastrand::Rng::with_seed(given.seed).fill(&mut bytes);
            let greeting = (!bare).then(|| Hello {
                down: false,
                block: block.0,
                zerocopy: *zerocopy,
                congestion: given.congestion.map(str::to_owned),
                run: given.run,
            });
            let (block, zerocopy) = (bytes.into(), *zerocopy);
            let stream = Stream { block, zerocopy, greeting };
            Some(Ok(Arc::new(StreamTemplate { stream, direction: *direction })))
        }
        _ => None,
    },
};

/// What an engine has to know of streams.
#[derive(Clone, Debug)]
pub struct Stream {
    /// What each write hands over.
    pub block: Arc<[u8]>,
    /// Have the kernel send it from its page cache.
    pub zerocopy: bool,
    /// How a far end of ours is greeted, but for the direction; none: it is not.
    pub greeting: Option<Hello>,
}

/// What a far end is told of a connection.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Hello {
    /// The far end writes, and does not read.
    pub down: bool,
    /// What it writes, or reads, at a time. Unit: bytes.
    pub block: u64,
    /// It is to write from the page cache.
    pub zerocopy: bool,
    /// `TCP_CONGESTION` of its socket; absent: its host's.
    pub congestion: Option<String>,
    /// By which it adds up what belongs together.
    pub run: u64,
}

/// What a far end counted of a run.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Totals {
    /// Its connections, and those that are still open.
    pub connections: u64,
    /// See above.
    pub open: u64,
    /// Bytes read, greetings included, as the engine counts them.
    pub read: u64,
    /// Bytes written.
    pub written: u64,
    /// CPU time of the threads that did. Unit: ns.
    pub cpu: u64,
    /// Writes that were not zero copy though that was asked for.
    pub copied: u64,
}

/// What is asked of a far end in a connection's first line.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Asked {
    /// A stream.
    Stream(Hello),
    /// What it counted of a run.
    Totals(u64),
}

/// A first line that asks for nothing we know: what is wrong with it.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum BadHello {
    /// Somebody else's protocol.
    #[error(
        "this is a far end of linerate's streams: load it with `linerate run stream://HOST:PORT`"
    )]
    NotOurs,
    /// A word that is not known.
    #[error("`{0}` is not known here: is one end's linerate older?")]
    Word(String),
}

/// How each first line begins; the number is the protocol's.
const OURS: &str = "linerate-stream/1";

/// The far end agrees.
pub const OK: &[u8] = b"ok\n";

/// The far end does not; its reason and a line's end follow.
pub const NO: &[u8] = b"no:";

/// The longest line of either end.
// Chosen: twice what the longest greeting has.
pub const LONGEST_LINE: usize = 256;

// Source: `TCP_CA_NAME_MAX`, linux/include/net/tcp.h.
const LONGEST_NAME: usize = 16;

impl Asked {
    /// The line, its end included.
    pub fn line(&self) -> String {
        let mut line = OURS.to_owned();
        // Writing to a String does not fail.
        let _ = match self {
            Asked::Totals(run) => write!(line, " totals run={run:016x}"),
            Asked::Stream(Hello { down, block, zerocopy, congestion, run }) => {
                let way = if *down { Flow::Down } else { Flow::Up };
                let copy = if *zerocopy { " zerocopy" } else { "" };
                let congestion = congestion.as_ref().map(|name| format!(" congestion={name}"));
                let congestion = congestion.unwrap_or_default();
                write!(line, " {way} run={run:016x} block={block}{copy}{congestion}")
            }
        };
        line.push('\n');
        line
    }

    /// Of a line without its end.
    pub fn parse(line: &[u8]) -> Result<Self, BadHello> {
        let text = std::str::from_utf8(line).map_err(|_| BadHello::NotOurs)?;
        let mut words = text.split_ascii_whitespace();
        if words.next() != Some(OURS) {
            return Err(BadHello::NotOurs);
        }
        let bad = |word: &str| BadHello::Word(word.chars().take(40).collect());
        let what = words.next().unwrap_or_default();
        let mut hello =
            Hello { down: what == "down", block: 0, zerocopy: false, congestion: None, run: 0 };
        for word in words {
            let (key, value) = word.split_once('=').unwrap_or((word, ""));
            let known = match key {
                "run" => u64::from_str_radix(value, 16).map(|run| hello.run = run).is_ok(),
                "block" => {
                    hello.block = value.parse().unwrap_or(0);
                    (1..=linerate_model::MOST_BLOCK).contains(&hello.block)
                }
                "zerocopy" => {
                    hello.zerocopy = true;
                    value.is_empty()
                }
                "congestion" => {
                    hello.congestion = Some(value.to_owned());
                    (1..LONGEST_NAME).contains(&value.len())
                }
                _ => false,
            };
            if !known {
                return Err(bad(word));
            }
        }
        match what {
            "totals" => Ok(Asked::Totals(hello.run)),
            "up" | "down" if hello.block > 0 => Ok(Asked::Stream(hello)),
            other => Err(bad(other)),
        }
    }
}

impl Totals {
    /// The line, its end included.
    pub fn line(&self) -> String {
        let Totals { connections, open, read, written, cpu, copied } = self;
        format!(
            "connections={connections} open={open} read={read} written={written} cpu={cpu} copied={copied}\n"
        )
    }

    /// Of a line; none: it is no such line. Words of a newer linerate are passed over.
    pub fn parse(line: &str) -> Option<Self> {
        let mut totals = Totals::default();
        for word in line.split_ascii_whitespace() {
            let (key, value) = word.split_once('=')?;
            let value = value.parse().ok()?;
            match key {
                "connections" => totals.connections = value,
                "open" => totals.open = value,
                "read" => totals.read = value,
                "written" => totals.written = value,
                "cpu" => totals.cpu = value,
                "copied" => totals.copied = value,
                _ => {}
            }
        }
        line.starts_with("connections=").then_some(totals)
    }

    /// What came since.
    pub fn since(self, before: Totals) -> Totals {
        Totals {
            connections: self.connections.saturating_sub(before.connections),
            open: self.open,
            read: self.read.saturating_sub(before.read),
            written: self.written.saturating_sub(before.written),
            cpu: self.cpu.saturating_sub(before.cpu),
            copied: self.copied.saturating_sub(before.copied),
        }
    }
}

struct StreamTemplate {
    stream: Stream,
    direction: Flow,
}

impl Template for StreamTemplate {
    fn session(&self) -> Box<dyn Session> {
        self.session_of(0)
    }

    fn session_of(&self, worker: u32) -> Box<dyn Session> {
        let down = self.direction.of(worker) == Flow::Down;
        let greeting = self.stream.greeting.clone().map(|hello| Hello { down, ..hello });
        let greeting = greeting.map(|hello| Asked::Stream(hello).line().into_bytes());
        let block = Arc::clone(&self.stream.block);
        let done = block.len();
        let at = At::fresh(&greeting);
        Box::new(One { block, down, greeting, at, done, reply: Vec::new() })
    }

    fn stream(&self) -> Option<&Stream> {
        Some(&self.stream)
    }
}

/// One connection's stream.
struct One {
    block: Arc<[u8]>,
    down: bool,
    greeting: Option<Vec<u8>>,
    at: At,
    /// Of the greeting, or of the block, what is done.
    done: usize,
    /// What the far end said to the greeting, so far.
    reply: Vec<u8>,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum At {
    /// Not greeted yet.
    New,
    /// Greeted, and not answered.
    Greeting,
    /// Blocks flow.
    Open,
}

impl At {
    fn fresh(greeting: &Option<Vec<u8>>) -> Self {
        if greeting.is_some() { At::New } else { At::Open }
    }
}

impl One {
    fn on_reply(&mut self, bytes: &[u8]) -> Result<Step, Broken> {
        self.reply.extend_from_slice(bytes);
        let begins =
            |what: &[u8]| what.starts_with(&self.reply[..self.reply.len().min(what.len())]);
        if self.reply == OK {
            (self.at, self.done) = (At::Open, 0);
        } else if self.reply.starts_with(NO) {
            if self.reply.contains(&b'\n') || self.reply.len() >= LONGEST_LINE {
                return Err(self.refused());
            }
        } else if !(begins(OK) || begins(NO)) {
            return Err(Broken::NoFarEnd);
        }
        Ok(Step::More)
    }

    fn refused(&self) -> Broken {
        let reason = String::from_utf8_lossy(&self.reply[NO.len()..]);
        // What a stranger sends is shown, and moves no cursor.
        let reason: String = reason.chars().filter(|one| !one.is_control()).collect();
        Broken::Refused(reason.trim().to_owned())
    }
}

impl Session for One {
    fn begin(&mut self) {
        self.done = 0;
        if self.at == At::New {
            self.at = At::Greeting;
            self.reply.clear();
        }
    }

    fn unsent(&self) -> &[u8] {
        match (self.at, &self.greeting) {
            (At::Greeting, Some(greeting)) => &greeting[self.done.min(greeting.len())..],
            (At::Open, _) if !self.down => &self.block[self.done..],
            _ => &[],
        }
    }

    fn sent(&mut self, bytes: usize) {
        self.done += bytes;
    }

    fn received(&mut self, bytes: &[u8]) -> Result<Step, Broken> {
        match self.at {
            At::New => Err(Broken::NoFarEnd),
            At::Greeting => self.on_reply(bytes),
            // Somebody says something to what he gets: an echo does.
            At::Open if !self.down => Ok(Step::More),
            At::Open => {
                self.done += bytes.len();
                match self.done.checked_sub(self.block.len()) {
                    None => Ok(Step::More),
                    Some(0) => Ok(Step::Done(Answer::default())),
                    Some(extra) => Err(Broken::Extra(extra)),
                }
            }
        }
    }

    fn closed(&mut self) -> Result<Step, Broken> {
        Err(match self.at {
            At::Greeting if self.reply.starts_with(NO) => self.refused(),
            At::Greeting => Broken::NoFarEnd,
            _ => Broken::CutShort,
        })
    }

    fn renew(&mut self) {
        self.at = At::fresh(&self.greeting);
        self.done = self.block.len();
    }

    fn wanted(&self) -> usize {
        match self.at {
            At::Greeting if self.reply.starts_with(NO) => LONGEST_LINE - self.reply.len(),
            // No byte of a block is read with it.
            At::Greeting => OK.len() - self.reply.len(),
            At::Open if self.down => self.block.len() - self.done,
            _ => usize::MAX,
        }
    }

    fn is_over(&self) -> bool {
        self.at == At::Open && !self.down && self.done == self.block.len()
    }

    fn offset(&self) -> Option<u64> {
        (self.at == At::Open && !self.down).then_some(self.done as u64)
    }
}

#[cfg(test)]
mod tests {
    use linerate_model::Bytes;
    use proptest::prelude::*;

    use super::*;
    use crate::Given;

    fn session(direction: Flow, bare: bool) -> Box<dyn Session> {
        let workload = Workload::Stream { direction, block: Bytes(10), zerocopy: false, bare };
        let template = (KIND.template)(&workload, &Given::of("a")).unwrap().unwrap();
        template.session()
    }

    fn greeted(direction: Flow) -> Box<dyn Session> {
        let mut session = session(direction, false);
        session.begin();
        let greeting = session.unsent().len();
        session.sent(greeting);
        session
    }

    #[test]
    fn a_stream_up_is_greeted_once_and_each_block_is_over_when_it_is_written() {
        let mut up = session(Flow::Up, false);
        up.begin();
        assert!(up.unsent().starts_with(b"linerate-stream/1 up run="), "{:?}", up.unsent());
        let greeting = up.unsent().len();
        up.sent(greeting);
        assert!(up.unsent().is_empty() && !up.is_over());
        assert_eq!(up.wanted(), 3);
        assert_eq!(up.received(b"o"), Ok(Step::More));
        assert_eq!(up.received(b"k\n"), Ok(Step::More));
        assert_eq!((up.unsent().len(), up.offset()), (10, Some(0)));
        up.sent(4);
        assert_eq!((up.unsent().len(), up.offset(), up.is_over()), (6, Some(4), false));
        up.sent(6);
        assert!(up.is_over());
        up.begin();
        assert_eq!(up.unsent().len(), 10);
        up.renew();
        up.begin();
        assert!(up.unsent().starts_with(b"linerate-stream/1"));
    }

    #[test]
    fn a_stream_down_reads_no_further_than_its_block() {
        let mut down = greeted(Flow::Down);
        assert_eq!(down.received(b"ok\n"), Ok(Step::More));
        assert_eq!((down.unsent().len(), down.wanted()), (0, 10));
        assert_eq!(down.received(b"......"), Ok(Step::More));
        assert_eq!(down.wanted(), 4);
        assert_eq!(down.received(b"...."), Ok(Step::Done(Answer::default())));
        down.begin();
        assert_eq!(down.wanted(), 10);
        assert_eq!(down.closed(), Err(Broken::CutShort));
    }

    #[test]
    fn a_far_end_that_refuses_says_why_and_a_stranger_is_none() {
        let mut refused = greeted(Flow::Up);
        assert_eq!(refused.received(b"no:"), Ok(Step::More));
        assert_eq!(refused.received(b" it has no `b"), Ok(Step::More));
        let why = Err(Broken::Refused("it has no `bbr`".into()));
        assert_eq!(refused.received(b"br`\n"), why);
        assert_eq!(greeted(Flow::Up).received(b"HTT"), Err(Broken::NoFarEnd));
        assert_eq!(greeted(Flow::Down).closed(), Err(Broken::NoFarEnd));
    }

    #[test]
    fn a_bare_service_is_not_greeted() {
        let mut up = session(Flow::Up, true);
        up.begin();
        assert_eq!(up.unsent().len(), 10);
        let mut down = session(Flow::Down, true);
        down.begin();
        assert_eq!((down.unsent().len(), down.wanted()), (0, 10));
    }

    #[test]
    fn a_line_reads_back_as_it_was_written() {
        let hello = Hello {
            down: true,
            block: 131_072,
            zerocopy: true,
            congestion: Some("cubic".into()),
            run: 0xfeed,
        };
        for asked in [
            Asked::Stream(hello.clone()),
            Asked::Stream(Hello { down: false, zerocopy: false, congestion: None, ..hello }),
            Asked::Totals(7),
        ] {
            let line = asked.line();
            assert!(line.len() < LONGEST_LINE / 2, "{line}");
            assert_eq!(Asked::parse(line.trim_end().as_bytes()), Ok(asked));
        }
        let totals = Totals { connections: 3, open: 1, read: 9, written: 8, cpu: 7, copied: 6 };
        assert_eq!(Totals::parse(totals.line().trim()), Some(totals));
        assert_eq!(Totals::parse("no: such run"), None);
        for (line, wrong) in [
            ("GET / HTTP/1.1", BadHello::NotOurs),
            ("linerate-stream/1 up block=0", BadHello::Word("block=0".into())),
            ("linerate-stream/1 up", BadHello::Word("up".into())),
            ("linerate-stream/1 sideways block=1", BadHello::Word("sideways".into())),
            ("linerate-stream/1 up block=1 colour=red", BadHello::Word("colour=red".into())),
        ] {
            assert_eq!(Asked::parse(line.as_bytes()), Err(wrong), "{line}");
        }
    }

    proptest! {
        #[test]
        fn no_line_makes_a_far_end_panic(line in proptest::collection::vec(any::<u8>(), 0..300)) {
            let _ = Asked::parse(&line);
            let _ = Totals::parse(&String::from_utf8_lossy(&line));
        }

        #[test]
        fn no_reply_makes_a_session_panic(pieces in proptest::collection::vec("(ok\n|no:|[ -~\n]{0,9}){1,3}", 1..6)) {
            let mut down = greeted(Flow::Down);
            for piece in &pieces {
                let most = piece.len().min(down.wanted());
                if most > 0 && down.received(&piece.as_bytes()[..most]).is_err() {
                    break;
                }
            }
        }
    }
}
