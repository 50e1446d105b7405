//! The climb: who connects, acts and leaves when, and what is judged of it.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::Duration;

use linerate_evidence::Live;
use linerate_model::Timestamp;
use linerate_session::{Act, Doing, Token, UserId};
use linerate_workload::Thinking;

use crate::account::Account;
use crate::asked::Asked;
use crate::limit::Met;
use crate::outcome::{ClassTimes, Level, Outcome, Point};
use crate::reading::{Moment, Reading};

// Chosen: one or two that fail of thousands are no limit, and three in a row are.
const FEW: u64 = 2;

// Chosen: of few users no more than one in so many.
const OF_FEW: u64 = 20;

// Chosen: of a large level so many more, as a share.
const FEW_SHARE: f64 = 0.001;

// Chosen: a percentile of fewer says nothing.
const ENOUGH: u64 = 20;

/// The token's lower bits are the sender, the others the instant in microseconds of the run: 12 days of it.
const SENDER_BITS: u32 = 24;

/// What the caller is to do. Users are named by their number, `0..`[`Asked::users`].
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Action {
    /// Open a connection for this user, and report [`Ramp::on_connected`] and [`Ramp::on_online`], or
    /// [`Ramp::on_failed`].
    Connect(u32),
    /// Have this user do something; report [`Ramp::on_answered`] and [`Ramp::on_delivered`] by the token.
    Act(u32, Act, Token),
    /// Close this user's connection. Nothing more is to be told of it.
    Close(u32),
    /// Read host and target, and report [`Ramp::on_reading`] at once.
    Measure(Moment),
}

/// How far it is.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Stage {
    /// Before the first user.
    Starting,
    /// Users of this level come, by its number from 0.
    Adding(usize),
    /// A level is held before it is judged.
    Settling(usize),
    /// A limit was met: nobody is added.
    Stopped,
    /// Users above the last clean level leave; those below it that failed come again.
    SteppingBack,
    /// It is held, before it is held for good.
    SettlingBack,
    /// The highest clean level is held.
    Holding,
    /// Over.
    Over,
}

#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum State {
    Unasked,
    Connecting,
    LoggingIn,
    Online,
    Closed,
    Failed(u16),
}

struct User {
    state: State,
    class: u8,
    /// Attempts so far: what was set for an earlier one does not concern this.
    attempt: u32,
    /// When the state began.
    since: Timestamp,
    /// What it did last and what was not answered yet, by when that was due.
    waits: Option<Timestamp>,
    thinking: Option<Box<Thinking>>,
}

/// See the module.
pub struct Ramp {
    asked: Asked,
    bounds: Vec<u32>,
    /// Of each level: where the users end that say nothing.
    quiet: Vec<u32>,
    users: Vec<User>,
    causes: Vec<String>,
    account: Account,
    /// Users that are online, and where each stands in that list.
    online: Vec<u32>,
    place: Vec<u32>,
    idle: u64,
    most_online: u64,
    fewest: u64,
    random: fastrand::Rng,
    /// Who acts next.
    due: BinaryHeap<Reverse<(Timestamp, u32, u32)>>,
    /// When connects and logins time out, the first in front.
    logins: VecDeque<(Timestamp, u32, u32)>,
    /// When acts do: by when they were due.
    acts: VecDeque<(Timestamp, u32, Timestamp)>,
    stage: Stage,
    /// When the stage began, and when it ends where time ends it.
    since: Timestamp,
    until: Timestamp,
    started: Timestamp,
    next_user: u32,
    /// When the next user comes, where there is a rate.
    next_comes: Timestamp,
    /// Users to be closed, and to be connected again.
    leaving: VecDeque<u32>,
    again: VecDeque<u32>,
    measures: VecDeque<Moment>,
    measured_quiet: bool,
    /// Failures since the last level that was clean, by cause, and of this stage.
    failed: BTreeMap<String, u64>,
    failed_now: u64,
    /// Message latency of this stage.
    window: Live,
    classes: Vec<ClassTimes>,
    levels: Vec<Level>,
    /// Users of the levels that were clean.
    clean: Vec<u32>,
    points: Vec<Point>,
    met: Option<Met>,
    held: u64,
    interrupted: bool,
}

impl Ramp {
    /// Nothing happens before [`Ramp::poll`].
    pub fn new(asked: Asked, at: Timestamp) -> Self {
        let bounds = asked.bounds();
        // Who says nothing stands first in each level.
        let mut users: Vec<User> = Vec::with_capacity(asked.users as usize);
        let mut quiet = Vec::new();
        let mut there = vec![0; asked.mix.classes().len()];
        for bound in &bounds {
            let mut end = users.len() as u32;
            for (class, count) in asked.mix.counts(*bound).into_iter().enumerate() {
                let think = asked.mix.classes()[class].think;
                // Rounding may give a class one less than at the level before, and another one more.
                let new = count.saturating_sub(there[class]).min(bound - users.len() as u32);
                there[class] += new;
                end += if think.is_none() { new } else { 0 };
                for _ in 0..new {
                    let user = users.len() as u32;
                    let thinking = think.map(|it| Box::new(Thinking::new(it, asked.seed, user)));
                    let (class, state) = (class as u8, State::Unasked);
                    let user = User { state, class, attempt: 0, since: at, waits: None, thinking };
                    users.push(user);
                }
            }
            quiet.push(end);
        }
        Self {
            classes: vec![ClassTimes::default(); asked.mix.classes().len()],
            place: vec![0; users.len()],
            random: fastrand::Rng::with_seed(asked.seed),
            asked,
            bounds,
            quiet,
            users,
            causes: Vec::new(),
            account: Account::default(),
            online: Vec::new(),
            idle: 0,
            most_online: 0,
            fewest: 0,
            due: BinaryHeap::new(),
            logins: VecDeque::new(),
            acts: VecDeque::new(),
            stage: Stage::Starting,
            since: at,
            until: at,
            started: at,
            next_user: 0,
            next_comes: at,
            leaving: VecDeque::new(),
            again: VecDeque::new(),
            measures: VecDeque::from([Moment::Before]),
            measured_quiet: false,
            failed: BTreeMap::new(),
            failed_now: 0,
            window: Live::default(),
            levels: Vec::new(),
            clean: Vec::new(),
            points: Vec::new(),
            met: None,
            held: 0,
            interrupted: false,
        }
    }

    /// How far it is.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// Where everybody is.
    pub fn account(&self) -> &Account {
        &self.account
    }

    /// Whether nothing more is to be done.
    pub fn is_over(&self) -> bool {
        self.stage == Stage::Over && self.measures.is_empty()
    }

    /// Ends it before its time.
    pub fn stop(&mut self) {
        self.interrupted = true;
        self.stage = Stage::Over;
        self.measures.clear();
    }

    /// What is to be done now; none: nothing before [`Ramp::next`], or until something is told.
    pub fn poll(&mut self, at: Timestamp) -> Option<Action> {
        if let Some(moment) = self.measures.pop_front() {
            return Some(Action::Measure(moment));
        }
        if self.stage == Stage::Over {
            return None;
        }
        if let Some(user) = self.time_out(at) {
            return Some(Action::Close(user));
        }
        if let Some(action) = self.act(at) {
            return Some(action);
        }
        if let Some(user) = self.leaving.pop_front() {
            if self.leave(user) {
                return Some(Action::Close(user));
            }
            return self.poll(at);
        }
        if let Some(user) = self.comes(at) {
            self.ask(user, at);
            return Some(Action::Connect(user));
        }
        self.step(at).then(|| self.poll(at)).flatten()
    }

    /// When time alone brings about something; an instant that is past: now.
    pub fn next(&self, at: Timestamp) -> Timestamp {
        if !self.measures.is_empty() || !self.leaving.is_empty() {
            return at;
        }
        // Chosen: a second, where nothing else is known, costs nothing.
        let mut next = at.after(Duration::from_secs(1));
        let mut sooner = |instant: Timestamp| next = next.min(instant);
        if let Some(Reverse((due, _, _))) = self.due.peek() {
            sooner(*due);
        }
        if let Some((deadline, _, _)) = self.logins.front() {
            sooner(*deadline);
        }
        if let Some((deadline, _, _)) = self.acts.front() {
            sooner(*deadline);
        }
        match self.stage {
            Stage::Settling(_) | Stage::Stopped | Stage::SettlingBack | Stage::Holding => {
                sooner(self.until);
            }
            Stage::Adding(level)
                if self.next_user < self.bound_now(level) && self.asked.rate.is_some() =>
            {
                sooner(self.next_comes);
            }
            _ => {}
        }
        next
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
    }

    /// Its connection is over, and not by us: `why` is a word, what it was doing is added here.
    pub fn on_failed(&mut self, user: u32, why: &str, at: Timestamp) {
        let doing = match self.users[user as usize].state {
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
        *self.failed.entry(cause).or_default() += 1;
        self.failed_now += 1;
    }

    /// The server has answered what this token was of.
    pub fn on_answered(&mut self, _doing: Doing, token: Token, at: Timestamp) {
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

    /// What was read at this moment.
    pub fn on_reading(&mut self, moment: Moment, reading: Reading) {
        let idle = self.idle;
        let active = self.account.online - idle;
        if reading.died.is_some() {
            // There is nothing to step back to.
            self.enter(Stage::Over, Duration::ZERO, reading.at);
        }
        self.points.push(Point { moment, idle, active, reading });
    }

    /// All that came of it.
    pub fn finish(self) -> Outcome {
        Outcome {
            held: self.held,
            most_online: self.most_online,
            fewest_in_hold: self.fewest,
            met: self.met,
            account: self.account,
            levels: self.levels,
            classes: self.classes,
            points: self.points,
            interrupted: self.interrupted,
            asked: self.asked,
        }
    }

    fn came(&mut self, user: u32, due: Timestamp, at: Timestamp) {
        self.window.record(at.nanos_since(due));
        let it = &mut self.users[user as usize];
        if it.waits == Some(due) {
            it.waits = None;
        }
    }

    fn token(&self, user: u32, due: Timestamp) -> Token {
        let us = due.nanos_since(self.started) / 1_000;
        Token(us << SENDER_BITS | u64::from(user))
    }

    /// Who it was of, and when it was due; none: none of ours.
    fn of_token(&self, token: Token) -> Option<(u32, Timestamp)> {
        let user = (token.0 & ((1 << SENDER_BITS) - 1)) as u32;
        let due = self.started.0.checked_add((token.0 >> SENDER_BITS).checked_mul(1_000)?)?;
        ((user as usize) < self.users.len()).then_some((user, Timestamp(due)))
    }

    /// Who is asked for next, if it is time.
    fn comes(&mut self, at: Timestamp) -> Option<u32> {
        let under_way = self.account.connecting + self.account.logging_in;
        match self.stage {
            Stage::Adding(level) if self.next_user < self.bound_now(level) => {
                match self.asked.rate {
                    Some(_) if self.next_comes > at => return None,
                    Some(rate) => {
                        self.next_comes =
                            self.next_comes.after(Duration::from_secs_f64(1.0 / rate));
                    }
                    None if under_way >= u64::from(self.asked.under_way) => return None,
                    None => {}
                }
                self.next_user += 1;
                Some(self.next_user - 1)
            }
            Stage::SteppingBack if under_way < u64::from(self.asked.under_way) => {
                self.again.pop_front()
            }
            _ => None,
        }
    }

    /// Where this level's users end for now: first come those that say nothing, and are measured.
    fn bound_now(&self, level: usize) -> u32 {
        if self.measured_quiet { self.bounds[level] } else { self.quiet[level] }
    }

    fn ask(&mut self, user: u32, at: Timestamp) {
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
    fn part(&mut self, user: u32) -> bool {
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

    fn leave(&mut self, user: u32) -> bool {
        let was = self.part(user);
        if was {
            self.users[user as usize].state = State::Closed;
            self.account.closed += 1;
        }
        was
    }

    /// A user whose login takes too long; acts that were not answered are counted at their age.
    fn time_out(&mut self, at: Timestamp) -> Option<u32> {
        while let Some((deadline, user, due)) = self.acts.front().copied()
            && deadline <= at
        {
            self.acts.pop_front();
            let it = &mut self.users[user as usize];
            if it.waits == Some(due) {
                it.waits = None;
                self.window.record(at.nanos_since(due));
                self.classes[usize::from(it.class)].answered.record(at.nanos_since(due));
            }
        }
        while let Some((deadline, user, attempt)) = self.logins.front().copied()
            && deadline <= at
        {
            self.logins.pop_front();
            let it = &self.users[user as usize];
            if it.attempt == attempt && matches!(it.state, State::Connecting | State::LoggingIn) {
                self.on_failed(user, "timed out", at);
                return Some(user);
            }
        }
        None
    }

    /// The next that somebody does.
    fn act(&mut self, at: Timestamp) -> Option<Action> {
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
    fn peer_of(&mut self, user: u32) -> u32 {
        let others = self.online.len().saturating_sub(1);
        if others == 0 {
            return user;
        }
        let place = self.random.usize(0..others);
        let peer = self.online[place];
        if peer == user { self.online[others] } else { peer }
    }

    /// What the stage comes to; whether it changed.
    fn step(&mut self, at: Timestamp) -> bool {
        let under_way = self.account.connecting + self.account.logging_in;
        match self.stage {
            Stage::Starting => self.add(0, at),
            Stage::Adding(_) if self.fails() => self.meet(None, at),
            Stage::Adding(level) => {
                if self.next_user < self.bound_now(level) || under_way > 0 {
                    return false;
                }
                if self.measured_quiet {
                    self.settle(level, at);
                } else {
                    self.measured_quiet = true;
                    // Where nobody says anything the level's own reading is the same.
                    if self.quiet[level] < self.bounds[level] {
                        self.measures.push_back(Moment::Quiet);
                    }
                }
            }
            Stage::Settling(_) if self.fails() => self.meet(None, at),
            Stage::Settling(level) if at >= self.until => self.judge(level, at),
            Stage::Stopped if at >= self.until => {
                // A target that ends closes its connections first, and is seen to have ended after that.
                self.measures.push_back(Moment::Stopped);
                self.step_back(at);
            }
            Stage::SteppingBack => {
                if !self.leaving.is_empty() || !self.again.is_empty() || under_way > 0 {
                    return false;
                }
                self.enter(Stage::SettlingBack, self.asked.settle, at);
            }
            Stage::SettlingBack if at >= self.until => self.hold(at),
            Stage::Holding if at >= self.until => self.judge_hold(at),
            _ => return false,
        }
        true
    }

    fn enter(&mut self, stage: Stage, length: Duration, at: Timestamp) {
        self.stage = stage;
        self.since = at;
        self.until = at.after(length);
        self.failed_now = 0;
        self.window = Live::default();
    }

    fn add(&mut self, level: usize, at: Timestamp) {
        self.measured_quiet = false;
        self.next_comes = self.next_comes.max(at);
        self.enter(Stage::Adding(level), Duration::ZERO, at);
    }

    fn settle(&mut self, level: usize, at: Timestamp) {
        let failed = self.failed_now;
        let came_s = at.since(self.since).as_secs_f64();
        self.levels.push(Level {
            users: self.bounds[level],
            online: self.account.online,
            clean: false,
            failed: 0,
            messages: 0,
            p99_ns: None,
            came_s,
        });
        self.enter(Stage::Settling(level), self.asked.settle, at);
        // Those that failed while it came are of this level.
        self.failed_now = failed;
    }

    /// Whether more users have failed in this stage than happens.
    fn fails(&self) -> bool {
        let level = match self.stage {
            Stage::Adding(level) | Stage::Settling(level) => self.bounds[level],
            _ => 0,
        };
        let users = self.account.asked.max(u64::from(level));
        self.failed_now > FEW.min(users / OF_FEW).max((users as f64 * FEW_SHARE) as u64)
    }

    /// The 99th percentile of message latency in this stage, if there are enough for one.
    fn p99(&self) -> (u64, Option<u64>) {
        let recorded = self.window.recorded();
        let count = recorded.map_or(0, |recorded| recorded.len());
        let p99 = recorded.filter(|_| count >= ENOUGH).map(|it| it.value_at_quantile(0.99));
        (count, p99)
    }

    fn gate_ns(&self) -> u64 {
        self.asked.gate.as_nanos() as u64
    }

    fn judge(&mut self, level: usize, at: Timestamp) {
        let (messages, p99_ns) = self.p99();
        let slow = p99_ns.filter(|p99| *p99 > self.gate_ns());
        let (online, failed) = (self.account.online, self.failed_now);
        if let Some(last) = self.levels.last_mut() {
            (last.online, last.messages, last.p99_ns) = (online, messages, p99_ns);
            (last.failed, last.clean) = (failed, slow.is_none());
        }
        if slow.is_some() {
            return self.meet(slow, at);
        }
        self.clean.push(self.bounds[level]);
        self.failed.clear();
        self.measures.push_back(Moment::Level);
        if level + 1 < self.bounds.len() {
            self.add(level + 1, at);
        } else {
            self.hold(at);
        }
    }

    /// A limit was met: nobody is added, and what there is is read.
    fn meet(&mut self, p99_ns: Option<u64>, at: Timestamp) {
        if let Stage::Adding(level) = self.stage {
            self.settle(level, at);
        }
        if let Some(last) = self.levels.last_mut() {
            (last.online, last.failed) = (self.account.online, self.failed_now);
        }
        self.met = Some(Met { online: self.account.online, failed: self.failed.clone(), p99_ns });
        self.measures.push_back(Moment::Stopped);
        self.enter(Stage::Stopped, self.asked.settle, at);
    }

    /// Down to the highest level that was clean; over, where there is none.
    fn step_back(&mut self, at: Timestamp) {
        if let Some(met) = &mut self.met {
            // What failed while it was held there belongs to it.
            met.failed = self.failed.clone();
        }
        let Some(level) = self.clean.last().copied() else {
            self.enter(Stage::Over, Duration::ZERO, at);
            return;
        };
        let state = |user: &u32| self.users[*user as usize].state;
        let there = |user: &u32| {
            matches!(state(user), State::Online | State::Connecting | State::LoggingIn)
        };
        let gone = |user: &u32| matches!(state(user), State::Failed(_) | State::Closed);
        self.leaving = (level..self.next_user).filter(there).collect();
        self.again = (0..level).filter(gone).collect();
        self.enter(Stage::SteppingBack, Duration::ZERO, at);
    }

    fn hold(&mut self, at: Timestamp) {
        self.fewest = self.account.online;
        self.enter(Stage::Holding, self.asked.hold, at);
    }

    fn judge_hold(&mut self, at: Timestamp) {
        let (_, p99_ns) = self.p99();
        let slow = p99_ns.filter(|p99| *p99 > self.gate_ns());
        if !self.fails() && slow.is_none() {
            self.held = self.account.online;
            self.measures.push_back(Moment::Held);
            self.enter(Stage::Over, Duration::ZERO, at);
            return;
        }
        // What held for a moment does not hold for long: the one below it.
        self.clean.pop();
        if self.met.is_none() {
            let met = Met { online: self.fewest, failed: self.failed.clone(), p99_ns: slow };
            self.met = Some(met);
            self.measures.push_back(Moment::Stopped);
        }
        self.step_back(at);
    }
}
