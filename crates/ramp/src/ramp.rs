//! The climb: who connects, acts and leaves when, and what is judged of it.

mod acts;
mod reconnects;
mod stages;
mod users;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::time::Duration;

use linerate_evidence::Live;
use linerate_model::Timestamp;
use linerate_session::{Act, Token};
use linerate_workload::Thinking;

use crate::account::Account;
use crate::asked::Asked;
use crate::dip::Dips;
use crate::limit::Met;
use crate::outcome::{ClassTimes, Level, Outcome, Point};
use crate::reading::{Moment, Reading};
use users::{State, User};

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

/// Why a user has failed whose engine process was lost.
pub const LOST: &str = "lost with its engine process";

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
    /// Users that lost their connection in the hold, by when they come back.
    back: BinaryHeap<Reverse<(Timestamp, u32)>>,
    dips: Dips,
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
    lost: Vec<String>,
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
                    let (since, waits) = (at, None);
                    let user = User { state, class, attempt: 0, tries: 0, since, waits, thinking };
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
            back: BinaryHeap::new(),
            dips: Dips::default(),
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
            lost: Vec::new(),
            interrupted: false,
        }
    }

    /// How far it is.
    pub fn stage(&self) -> Stage {
        self.stage
    }

    /// What was asked.
    pub fn asked(&self) -> &Asked {
        &self.asked
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
        if let Some(due) = self.next_back() {
            sooner(due);
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

    /// What was read at this moment.
    pub fn on_reading(&mut self, moment: Moment, reading: Reading) {
        let (idle, at, died) = (self.idle, reading.at, reading.died.is_some());
        let (active, not_accepted) = (self.account.online - idle, reading.not_accepted());
        let under_way = self.account.connecting + self.account.logging_in;
        self.points.push(Point { moment, idle, active, under_way, reading });
        match (moment, self.stage) {
            // There is nothing to step back to.
            _ if died => self.enter(Stage::Over, Duration::ZERO, at),
            (Moment::Level, Stage::Settling(level)) => self.judge(level, not_accepted, at),
            _ => {}
        }
    }

    /// A process of the engine was lost, in a sentence. Its users are told one by one, by [`LOST`].
    pub fn on_lost(&mut self, sentence: String) {
        self.lost.push(sentence);
    }

    /// All that came of it.
    pub fn finish(self) -> Outcome {
        Outcome {
            held: self.held,
            lost: self.lost,
            most_online: self.most_online,
            fewest_in_hold: self.fewest,
            dips: self.dips.into_all(),
            met: self.met,
            account: self.account,
            levels: self.levels,
            classes: self.classes,
            points: self.points,
            interrupted: self.interrupted,
            asked: self.asked,
        }
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
}
