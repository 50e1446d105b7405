//! What users do while they are online, and when it was answered.

use std::cmp::Reverse;
use std::time::Duration;

use linerate_model::Timestamp;
use linerate_session::{Act, Token, UserId};

use super::users::State;
use super::{Action, Ramp};

/// The token's lower bits are the sender, the others the instant in microseconds of the run: 12 days of it.
const SENDER_BITS: u32 = 24;

impl Ramp {
    /// The server has answered what this token was of.
    pub fn on_answered(&mut self, token: Token, at: Timestamp) {
        if let Some((user, due)) = self.of_token(token) {
            self.classes[usize::from(self.users[user as usize].class)]
                .answered
                .record(at.nanos_since(due));
            self.came(user, due, at);
        }
    }

    /// A message of ours has come to another user.
    pub fn on_delivered(&mut self, token: Token, at: Timestamp) {
        if let Some((user, due)) = self.of_token(token) {
            self.classes[usize::from(self.users[user as usize].class)]
                .delivered
                .record(at.nanos_since(due));
            self.came(user, due, at);
        }
    }

    pub(super) fn came(&mut self, user: u32, due: Timestamp, at: Timestamp) {
        self.window.record(at.nanos_since(due));
        let it = &mut self.users[user as usize];
        if it.waits == Some(due) {
            it.waits = None;
        }
    }

    pub(super) fn token(&self, user: u32, due: Timestamp) -> Token {
        let us = due.nanos_since(self.started) / 1_000;
        Token(us << SENDER_BITS | u64::from(user))
    }

    /// Who it was of, and when it was due; none: none of ours.
    pub(super) fn of_token(&self, token: Token) -> Option<(u32, Timestamp)> {
        let user = (token.0 & ((1 << SENDER_BITS) - 1)) as u32;
        let due = self.started.0.checked_add((token.0 >> SENDER_BITS).checked_mul(1_000)?)?;
        ((user as usize) < self.users.len()).then_some((user, Timestamp(due)))
    }

    /// The next that somebody does.
    pub(super) fn act(&mut self, at: Timestamp) -> Option<Action> {
        while let Some(Reverse((due, user, attempt))) = self.due.peek().copied()
            && due <= at
        {
            self.due.pop();
            let it = &mut self.users[user as usize];
            if it.state != State::Online || it.attempt != attempt {
                continue;
            }
            let Some(thinking) = &mut it.thinking else { continue };
            let pause = thinking.pause();
            // Without a pause it would be due again at once, and for ever.
            let next = due.after(pause.max(Duration::from_micros(1)));
            self.due.push(Reverse((next, user, attempt)));
            if it.waits.is_some() {
                // One thing at a time: what is not answered yet is counted at its age, if it never is.
                continue;
            }
            // Instants cross the wire in microseconds.
            let due = Timestamp(self.started.0 + due.nanos_since(self.started) / 1_000 * 1_000);
            it.waits = Some(due);
            self.acts.push_back((due.after(self.asked.timeout), user, due));
            let to = self.peer_of(user);
            let act = Act::Message { to: UserId(to), size: self.asked.message };
            return Some(Action::Act(user, act, self.token(user, due)));
        }
        None
    }

    /// Another user that is online; oneself, where there is nobody else.
    pub(super) fn peer_of(&mut self, user: u32) -> u32 {
        let others = self.online.len().saturating_sub(1);
        if others == 0 {
            return user;
        }
        let place = self.random.usize(0..others);
        let peer = self.online[place];
        if peer == user { self.online[others] } else { peer }
    }
}
