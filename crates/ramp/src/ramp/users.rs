//! Users: where each is, and how it gets from there to somewhere else.

use std::cmp::Reverse;

use linerate_model::Timestamp;
use linerate_workload::Thinking;

use super::{Ramp, Stage};

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum State {
    Unasked,
    Connecting,
    LoggingIn,
    Online,
    Closed,
    Failed(u16),
}

pub(super) struct User {
    pub(super) state: State,
    pub(super) class: u8,
    /// Attempts so far: what was set for an earlier one does not concern this.
    pub(super) attempt: u32,
    /// Attempts to come back since it was online.
    pub(super) tries: u32,
    /// When the state began.
    pub(super) since: Timestamp,
    /// What it did last and what was not answered yet, by when that was due.
    pub(super) waits: Option<Timestamp>,
    pub(super) thinking: Option<Box<Thinking>>,
}

impl Ramp {
    /// Its connect call was made now: later than it was asked for, where another process makes it.
    pub fn on_begun(&mut self, user: u32, at: Timestamp) {
        let it = &mut self.users[user as usize];
        if it.state == State::Connecting {
            it.since = it.since.max(at);
        }
    }

    /// Connected; the login is to come.
    pub fn on_connected(&mut self, user: u32, at: Timestamp) {
        let it = &mut self.users[user as usize];
        if it.state != State::Connecting {
            return;
        }
        self.classes[usize::from(it.class)].connect.record(at.nanos_since(it.since));
        it.state = State::LoggingIn;
        it.since = at;
        self.account.connecting -= 1;
        self.account.logging_in += 1;
    }

    /// Logged in.
    pub fn on_online(&mut self, user: u32, at: Timestamp) {
        let it = &mut self.users[user as usize];
        if it.state != State::LoggingIn {
            return;
        }
        self.classes[usize::from(it.class)].login.record(at.nanos_since(it.since));
        it.state = State::Online;
        it.since = at;
        it.waits = None;
        let (attempt, rest) = (it.attempt, it.thinking.as_mut().map(|it| it.rest()));
        match rest {
            Some(rest) => self.due.push(Reverse((at.after(rest), user, attempt))),
            None => self.idle += 1,
        }
        self.place[user as usize] = self.online.len() as u32;
        self.online.push(user);
        self.account.logging_in -= 1;
        self.account.online += 1;
        self.most_online = self.most_online.max(self.account.online);
        if self.stage == Stage::Holding {
            self.dips.on_back(self.account.online, at);
        }
    }

    /// Its connection is over, and not by us: `why` is a word, what it was doing is added here.
    pub fn on_failed(&mut self, user: u32, why: &str, at: Timestamp) {
        let was = self.users[user as usize].state;
        let doing = match was {
            State::Connecting => "while connecting",
            State::LoggingIn => "while logging in",
            State::Online => "while online",
            State::Unasked | State::Closed | State::Failed(_) => return,
        };
        let cause = format!("{why} {doing}");
        self.part(user);
        let number = self.causes.iter().position(|it| *it == cause).unwrap_or_else(|| {
            self.causes.push(cause.clone());
            self.causes.len() - 1
        });
        self.users[user as usize].state = State::Failed(number as u16);
        self.users[user as usize].since = at;
        *self.account.failed.entry(cause.clone()).or_default() += 1;
        self.come_back(user, was == State::Online, &cause, at);
        *self.failed.entry(cause).or_default() += 1;
        self.failed_now += 1;
    }

    pub(super) fn ask(&mut self, user: u32, at: Timestamp) {
        let it = &mut self.users[user as usize];
        match it.state {
            State::Failed(cause) => {
                let cause = &self.causes[usize::from(cause)];
                if let Some(count) = self.account.failed.get_mut(cause) {
                    *count -= 1;
                }
            }
            State::Closed => self.account.closed -= 1,
            _ => self.account.asked += 1,
        }
        it.state = State::Connecting;
        it.attempt += 1;
        it.since = at;
        self.account.connecting += 1;
        self.logins.push_back((at.after(self.asked.timeout), user, it.attempt));
    }

    /// Takes a user out of where it is; whether it was anywhere.
    pub(super) fn part(&mut self, user: u32) -> bool {
        match self.users[user as usize].state {
            State::Connecting => self.account.connecting -= 1,
            State::LoggingIn => self.account.logging_in -= 1,
            State::Online => {
                self.account.online -= 1;
                self.idle -= u64::from(self.users[user as usize].thinking.is_none());
                let place = self.place[user as usize] as usize;
                self.online.swap_remove(place);
                if let Some(moved) = self.online.get(place) {
                    self.place[*moved as usize] = place as u32;
                }
                if self.stage == Stage::Holding {
                    self.fewest = self.fewest.min(self.account.online);
                }
            }
            State::Unasked | State::Closed | State::Failed(_) => return false,
        }
        self.users[user as usize].waits = None;
        true
    }

    pub(super) fn leave(&mut self, user: u32) -> bool {
        let was = self.part(user);
        if was {
            self.users[user as usize].state = State::Closed;
            self.account.closed += 1;
        }
        was
    }
}
