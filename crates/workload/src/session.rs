//! A session: one connection's part of a workload, as a state machine over bytes.

use crate::stream::Stream;

/// What a session made of bytes that arrived.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Step {
    /// The answer is not whole yet.
    More,
    /// It is.
    Done(Answer),
}

/// A whole answer.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Answer {
    /// Its status, 100 to 599, for protocols that have one.
    pub status: Option<u16>,
    /// The peer will close, or what follows can't be told apart: open another connection.
    pub last: bool,
    /// Whether it is the right one.
    pub judged: Judged,
}

/// Whether an answer is the right one.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub enum Judged {
    /// Nobody said what that would be.
    #[default]
    Not,
    /// It is.
    Right,
    /// It is not, by this cause.
    Wrong(&'static str),
}

/// Bytes that are not an answer of this protocol.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Broken {
    /// Not HTTP at all.
    #[error("the answer is not HTTP/1.1: it begins with `{0}`")]
    NotHttp(String),
    /// A head that never ends.
    #[error("the answer's head is longer than {0} bytes")]
    LongHead(usize),
    /// A chunk size that is none.
    #[error("the answer's chunk size is not a number")]
    BadChunk,
    /// A Content-Length that is none.
    #[error("the answer's Content-Length `{0}` is not a number")]
    BadLength(String),
    /// More than was asked for.
    #[error("{0} bytes more than the answer was to have")]
    Extra(usize),
    /// Less.
    #[error("the connection was closed in the middle of an answer")]
    CutShort,
    /// A length in an answer that none can have.
    #[error(
        "the answer's length field says {0}, which no answer is long: are its place, width, byte order and what it counts right?"
    )]
    NoLength(u64),
    /// A far end of streams that will not.
    #[error("the far end refuses the stream: {0}")]
    Refused(String),
    /// None at all.
    #[error(
        "no far end of streams: start `linerate serve` there, or load other services with tcp:// and --stream"
    )]
    NoFarEnd,
    /// An echo of something else.
    #[error("the answer is not the request's own bytes, as an echo's is")]
    NotTheSame,
}

/// One connection's part of a workload. One exchange at a time.
pub trait Session: Send {
    /// An exchange begins: its request is now unsent.
    fn begin(&mut self);
    /// What is still to be written of it.
    fn unsent(&self) -> &[u8];
    /// So many bytes of [`Session::unsent`] were written.
    fn sent(&mut self, bytes: usize);
    /// Bytes arrived.
    fn received(&mut self, bytes: &[u8]) -> Result<Step, Broken>;
    /// The peer closed. For some protocols that ends an answer.
    fn closed(&mut self) -> Result<Step, Broken>;
    /// A new connection took the place of the old one.
    fn renew(&mut self);

    /// How many bytes to read at most: what comes behind them is another exchange's.
    fn wanted(&self) -> usize {
        usize::MAX
    }
    /// Whether the exchange is over though nothing is answered: with its last byte written.
    fn is_over(&self) -> bool {
        false
    }
    /// Where [`Session::unsent`] begins in [`crate::Stream::block`], where it is a part of that.
    fn offset(&self) -> Option<u64> {
        None
    }
}

/// Makes the sessions of one plan; shared by all threads.
pub trait Template: Send + Sync {
    /// A session for one connection.
    fn session(&self) -> Box<dyn Session>;

    /// A session for one connection of this worker, where it makes a difference whose it is.
    fn session_of(&self, _worker: u32) -> Box<dyn Session> {
        self.session()
    }

    /// Of streams; none: exchanges are asked and answered.
    fn stream(&self) -> Option<&Stream> {
        None
    }
}
