//! A session: one user's connection, from its first byte to its last.

use std::sync::Arc;

use linerate_model::Bytes;

/// A user, by number. The name is made of it: [`crate::Pattern`].
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct UserId(pub u32);

/// What a caller knows an act by again, for example the instant at which it was due.
///
/// It crosses the wire in a message or an identifier wherever the protocol has a place for it, and nothing
/// is kept of it here. So it is to be a number that says all that the caller needs.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Token(pub u64);

/// What a user who is online does.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Act {
    /// A message to another user: it is [`Event::Delivered`] there, and [`Event::Answered`] here where the
    /// protocol acknowledges messages.
    Message {
        /// To whom. Where a protocol has rooms only, those in the room of the sender hear it instead.
        to: UserId,
        /// How long its text is. At least the token's own 18 bytes; at most [`crate::LONGEST`].
        size: Bytes,
    },
    /// Asks the server whether it is there.
    Ping,
    /// Says that the user is there, to all who want to know.
    Presence,
}

/// A kind of [`Act`].
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Doing {
    /// [`Act::Message`].
    Message,
    /// [`Act::Ping`].
    Ping,
    /// [`Act::Presence`].
    Presence,
}

impl Act {
    /// Its kind.
    pub fn doing(self) -> Doing {
        match self {
            Act::Message { .. } => Doing::Message,
            Act::Ping => Doing::Ping,
            Act::Presence => Doing::Presence,
        }
    }
}

/// What happened.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Event {
    /// The user is logged in and reachable for others: acts may begin.
    Online,
    /// The server has answered an act.
    Answered(Doing, Token),
    /// The server has answered an act that it does not do it. The session goes on.
    Declined(Doing, Token, Reason),
    /// A message has come. Its token, if it is one of ours.
    Delivered(Option<Token>),
    /// The server does not let the user in: close the connection.
    Refused(Reason),
    /// The server ends a session that was online: close the connection.
    Ended(Reason),
    /// The connection is to be wrapped in TLS, beginning with the next byte of both directions; then
    /// [`Session::connected`] is to be called again.
    StartTls,
}

/// Why a server does not do what was asked.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct Reason {
    /// What it counts as.
    pub cause: Cause,
    /// What the server said.
    pub said: String,
}

/// What a reason counts as.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Cause {
    /// Name or password.
    Credentials,
    /// The user may not do this.
    NotAllowed,
    /// Too many already, or the server is short of something.
    Overloaded,
    /// Another session took the place of this one.
    Replaced,
    /// The server is stopping.
    Stopping,
    /// No way to log in that both have: mechanism, protocol version, TLS.
    NothingInCommon,
    /// Something else.
    Other,
}

impl Cause {
    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Cause::Credentials => "wrong credentials",
            Cause::NotAllowed => "not allowed",
            Cause::Overloaded => "server overloaded",
            Cause::Replaced => "replaced by another session",
            Cause::Stopping => "server stopping",
            Cause::NothingInCommon => "no common way to log in",
            Cause::Other => "another reason",
        }
    }
}

/// Bytes that are not this protocol's, or not now: the connection is of no more use.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum Fault {
    /// Not this protocol.
    #[error("the server does not speak {protocol}: {wrong}, found `{found}`")]
    Malformed {
        /// Which protocol.
        protocol: &'static str,
        /// What is wrong.
        wrong: &'static str,
        /// The bytes, escaped and cut short.
        found: String,
    },
    /// More than is kept of any server's answer.
    #[error("the server sends {what} longer than {most} bytes")]
    TooLong {
        /// What.
        what: &'static str,
        /// What is kept.
        most: usize,
    },
    /// This protocol, but not what may come now.
    #[error("the server sends {found} where {expected} was expected")]
    Unexpected {
        /// What came.
        found: String,
        /// What was to come.
        expected: &'static str,
    },
}

impl Fault {
    /// Of bytes as they came.
    pub(crate) fn malformed(protocol: &'static str, wrong: &'static str, found: &[u8]) -> Self {
        // Chosen: enough to recognise what answers instead.
        const SHOWN: usize = 40;
        let found = found[..found.len().min(SHOWN)].escape_ascii().to_string();
        Fault::Malformed { protocol, wrong, found }
    }
}

/// Why an act was not begun.
#[derive(Clone, Copy, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NotDone {
    /// Not yet, or not any more.
    #[error("the user is not online")]
    NotOnline,
    /// The protocol has none.
    #[error("the protocol has no such request")]
    NoSuchAct,
    /// So many are not answered yet that no more can be told apart.
    #[error("too many requests are unanswered")]
    TooMany,
}

/// One user's connection.
///
/// Where what arrives is cut makes no difference, and bytes to write are whole at the end of each call. After
/// a [`Fault`], [`Event::Refused`], [`Event::Ended`] or [`Session::close`] it is of no more use: the next
/// connection of the same user has another session.
pub trait Session: Send {
    /// The connection is open: appends what to write first.
    fn connected(&mut self, out: &mut Vec<u8>);

    /// Bytes arrived: appends what to write and what happened.
    fn received(
        &mut self,
        bytes: &[u8],
        out: &mut Vec<u8>,
        events: &mut Vec<Event>,
    ) -> Result<(), Fault>;

    /// The user does something: appends what to write. [`Event::Answered`] has the token again.
    fn act(&mut self, act: Act, token: Token, out: &mut Vec<u8>) -> Result<(), NotDone>;

    /// The user leaves: appends what to write last.
    fn close(&mut self, out: &mut Vec<u8>);

    /// Heap that is held now, for the account of memory: what is not answered or not whole yet.
    fn held(&self) -> Bytes;
}

/// A protocol with its settings: what all sessions share.
pub trait Protocol: Send + Sync {
    /// A session of this user, for one connection.
    fn session(self: Arc<Self>, user: UserId) -> Box<dyn Session>;
}
