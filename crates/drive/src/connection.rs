//! One connection of the load: where it is in its life, and the stamps of its exchange.

use linerate_model::Timestamp;

/// Where a connection is in its life.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum State {
    /// Not open; to be opened not before this instant.
    Closed(Timestamp),
    /// Connect (and TLS handshake) under way.
    Opening,
    /// No exchange under way; open, but where each exchange has a connection of its own.
    Idle,
    /// An exchange is under way.
    Busy,
}

/// One connection.
#[derive(Clone, Debug)]
pub(crate) struct Connection {
    /// The worker that it belongs to, by its number among all threads'.
    pub(crate) worker: u32,
    /// The place of its server.
    pub(crate) server: u16,
    pub(crate) state: State,
    /// It has a socket.
    pub(crate) is_open: bool,
    /// Raised with each socket, so that an old entry of a queue is told apart.
    pub(crate) generation: u32,
    /// Attempts in a row that failed, at opening or at an exchange.
    pub(crate) failures: u32,
    /// Nothing was answered on this socket yet.
    pub(crate) is_new: bool,
    /// An exchange was begun with the connect (a connection for each exchange).
    pub(crate) carries: bool,
    /// When the connect was asked for.
    pub(crate) opened: Timestamp,
    /// When the current exchange was due.
    pub(crate) intended: Timestamp,
    /// When its request was written (the connect was asked for, where it opens one).
    pub(crate) written: Timestamp,
    /// When the connection last became free.
    pub(crate) free: Timestamp,
}

impl Connection {
    pub(crate) fn new(worker: u32, server: u16) -> Self {
        Self {
            worker,
            server,
            state: State::Closed(Timestamp(0)),
            is_open: false,
            generation: 0,
            failures: 0,
            is_new: false,
            carries: false,
            opened: Timestamp(0),
            intended: Timestamp(0),
            written: Timestamp(0),
            free: Timestamp(0),
        }
    }

    /// Whether an exchange of this connection is written and unanswered.
    pub(crate) fn is_charged(&self) -> bool {
        self.state == State::Busy || self.carries
    }
}
