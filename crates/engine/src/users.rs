//! Users of a service that logs them in: the loop between a climb and whoever has their connections, which are the
//! sockets of this process ([`UserSockets`]), or processes that have them.

mod entered;
mod sockets;

use std::io;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use linerate_model::Timestamp;
use linerate_ramp::{Action, Moment, Ramp, Reading};
use linerate_session::{Act, Token};

use crate::clock::now;

pub use entered::Entered;
pub use sockets::{UserSockets, UsersSetup};

// Chosen: what comes meanwhile is not kept waiting for all that is due.
const AT_ONCE: usize = 256;

// Chosen: how often its caller hears how far it is, and may stop it.
const TELL: Duration = Duration::from_millis(100);

/// Whoever has the users' connections.
pub trait UserConnections {
    /// Opens one, and tells what becomes of it.
    fn connect(&mut self, user: u32);

    /// Has a user do something.
    fn act(&mut self, user: u32, act: Act, token: Token);

    /// Closes a user's connection, and tells nothing more of it.
    fn close(&mut self, user: u32);

    /// Waits for something to happen, until then at most.
    fn wait(&mut self, until: Timestamp) -> io::Result<()>;

    /// Appends what has happened since this was asked last, in its order.
    fn take(&mut self, happened: &mut Vec<Happened>);
}

/// What happened to a user, and when.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Happened {
    /// The connection was begun, and is there.
    Connected {
        /// Who.
        user: u32,
        /// Which of its connections: they are counted from 1.
        attempt: u32,
        /// When the connect call was made.
        begun: Timestamp,
        /// When it had succeeded.
        at: Timestamp,
    },
    /// Logged in.
    Online {
        /// Who.
        user: u32,
        /// Which of its connections.
        attempt: u32,
        /// When.
        at: Timestamp,
    },
    /// The connection is over, and not by us.
    Failed {
        /// Who.
        user: u32,
        /// Which of its connections.
        attempt: u32,
        /// In a word or a sentence.
        why: String,
        /// When.
        at: Timestamp,
    },
    /// The server has answered what this token was of.
    Answered {
        /// Of what was done.
        token: Token,
        /// When.
        at: Timestamp,
    },
    /// A message of ours has come to another user.
    Delivered {
        /// Of the message.
        token: Token,
        /// When.
        at: Timestamp,
    },
    /// A process that had connections was lost, in a sentence. That its users have failed is told one by one.
    Lost(String),
}

/// What happens beside a climb, on the thread that runs it.
pub trait Beside {
    /// Reads host and target.
    fn measure(&mut self, moment: Moment) -> Reading;

    /// Is told how far it is, ten times a second.
    fn tell(&mut self, ramp: &Ramp, at: Timestamp);

    /// Something a person should know and that stops nothing.
    fn warn(&mut self, sentence: &str);
}

/// Runs a climb to its end; as it is then. What `stop` says ends it before its time.
pub fn climb(
    mut ramp: Ramp,
    connections: &mut dyn UserConnections,
    stop: &AtomicBool,
    beside: &mut dyn Beside,
) -> io::Result<Ramp> {
    let mut happened = Vec::new();
    let mut next_tell = now();
    loop {
        let mut at = now();
        for _ in 0..AT_ONCE {
            let Some(action) = ramp.poll(at) else { break };
            match action {
                Action::Connect(user) => connections.connect(user),
                Action::Act(user, act, token) => connections.act(user, act, token),
                Action::Close(user) => connections.close(user),
                Action::Measure(moment) => {
                    let reading = beside.measure(moment);
                    ramp.on_reading(moment, reading);
                }
            }
            // One that fails at once makes place for the next.
            tell_all(connections, &mut happened, &mut ramp, beside);
            at = now();
        }
        if stop.load(Ordering::Relaxed) {
            ramp.stop();
        }
        if ramp.is_over() {
            return Ok(ramp);
        }
        if at >= next_tell {
            next_tell = at.after(TELL);
            beside.tell(&ramp, at);
        }
        connections.wait(ramp.next(at).min(next_tell))?;
        tell_all(connections, &mut happened, &mut ramp, beside);
    }
}

fn tell_all(
    connections: &mut dyn UserConnections,
    happened: &mut Vec<Happened>,
    ramp: &mut Ramp,
    beside: &mut dyn Beside,
) {
    connections.take(happened);
    for happened in happened.drain(..) {
        match happened {
            Happened::Connected { user, begun, at, .. } => {
                ramp.on_begun(user, begun);
                ramp.on_connected(user, at);
            }
            Happened::Online { user, at, .. } => ramp.on_online(user, at),
            Happened::Failed { user, why, at, .. } => ramp.on_failed(user, &why, at),
            Happened::Answered { token, at } => ramp.on_answered(token, at),
            Happened::Delivered { token, at } => ramp.on_delivered(token, at),
            Happened::Lost(sentence) => {
                beside.warn(&sentence);
                ramp.on_lost(sentence);
            }
        }
    }
}
