//! Stages of the climb: who comes when, and what is judged of a level.

use std::time::Duration;

use linerate_evidence::Live;
use linerate_model::Timestamp;

use super::users::State;
use super::{Ramp, Stage};
use crate::dip::Dips;
use crate::limit::Met;
use crate::outcome::Level;
use crate::reading::Moment;

// Chosen: one or two that fail of thousands are no limit, and three in a row are.
const FEW: u64 = 2;

// Chosen: of few users no more than one in so many.
const OF_FEW: u64 = 20;

// Chosen: of a large level so many more, as a share.
const FEW_SHARE: f64 = 0.001;

// Chosen: a percentile of fewer says nothing.
const ENOUGH: u64 = 20;

impl Ramp {
    /// Who is asked for next, if it is time.
    pub(super) fn comes(&mut self, at: Timestamp) -> Option<u32> {
        match self.stage {
            Stage::Adding(level) if self.next_user < self.bound_now(level) => {
                match self.asked.rate {
                    Some(_) if self.next_comes > at => return None,
                    Some(rate) => {
                        self.next_comes =
                            self.next_comes.after(Duration::from_secs_f64(1.0 / rate));
                    }
                    None if self.is_busy() => return None,
                    None => {}
                }
                self.next_user += 1;
                Some(self.next_user - 1)
            }
            Stage::SteppingBack if !self.is_busy() => self.again.pop_front(),
            Stage::Holding => self.comes_back(at),
            _ => None,
        }
    }

    /// Users that connect or log in.
    fn under_way(&self) -> u64 {
        self.account.connecting + self.account.logging_in
    }

    /// As many of them as there may be at once.
    pub(super) fn is_busy(&self) -> bool {
        self.under_way() >= u64::from(self.asked.under_way)
    }

    /// Where this level's users end for now: first come those that say nothing, and are measured.
    pub(super) fn bound_now(&self, level: usize) -> u32 {
        if self.measured_quiet { self.bounds[level] } else { self.quiet[level] }
    }

    /// What the stage comes to; whether it changed.
    pub(super) fn step(&mut self, at: Timestamp) -> bool {
        let under_way = self.under_way();
        match self.stage {
            Stage::Starting => self.add(0, at),
            Stage::Adding(_) if self.fails() => self.fail(at),
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
            Stage::Settling(_) if self.fails() => self.fail(at),
            // Judged by what is read then, too.
            Stage::Settling(_) if at >= self.until => self.measures.push_back(Moment::Level),
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

    pub(super) fn enter(&mut self, stage: Stage, length: Duration, at: Timestamp) {
        self.stage = stage;
        self.since = at;
        self.until = at.after(length);
        self.failed_now = 0;
        self.window = Live::default();
    }

    pub(super) fn add(&mut self, level: usize, at: Timestamp) {
        self.measured_quiet = false;
        self.next_comes = self.next_comes.max(at);
        self.enter(Stage::Adding(level), Duration::ZERO, at);
    }

    pub(super) fn settle(&mut self, level: usize, at: Timestamp) {
        let failed = self.failed_now;
        let came_s = at.since(self.since).as_secs_f64();
        self.levels.push(Level {
            users: self.bounds[level],
            online: self.account.online,
            clean: false,
            failed: 0,
            not_accepted: 0,
            messages: 0,
            p99_ns: None,
            came_s,
        });
        self.enter(Stage::Settling(level), self.asked.settle, at);
        // Those that failed while it came are of this level.
        self.failed_now = failed;
    }

    /// Whether more users have failed in this stage than happens.
    pub(super) fn fails(&self) -> bool {
        self.failed_now > self.few()
    }

    /// So many users may fail.
    fn few(&self) -> u64 {
        let level = match self.stage {
            Stage::Adding(level) | Stage::Settling(level) => self.bounds[level],
            _ => 0,
        };
        let all = self.account.asked.max(u64::from(level));
        FEW.min(all / OF_FEW).max((all as f64 * FEW_SHARE) as u64)
    }

    /// The 99th percentile of message latency in this stage, if there are enough for one.
    pub(super) fn p99(&self) -> (u64, Option<u64>) {
        let recorded = self.window.recorded();
        let count = recorded.map_or(0, |recorded| recorded.len());
        let p99 = recorded.filter(|_| count >= ENOUGH).map(|it| it.value_at_quantile(0.99));
        (count, p99)
    }

    pub(super) fn gate_ns(&self) -> u64 {
        self.asked.gate.as_nanos() as u64
    }

    /// By how its messages fared, and how many of its users the service had not accepted.
    pub(super) fn judge(&mut self, level: usize, not_accepted: u64, at: Timestamp) {
        let (messages, p99_ns) = self.p99();
        let slow = p99_ns.filter(|p99| *p99 > self.gate_ns());
        let is_clean = slow.is_none() && not_accepted <= self.few();
        let (online, failed) = (self.account.online, self.failed_now);
        if let Some(last) = self.levels.last_mut() {
            (last.online, last.messages, last.p99_ns) = (online, messages, p99_ns);
            (last.failed, last.not_accepted, last.clean) = (failed, not_accepted, is_clean);
        }
        if !is_clean {
            if let Some(point) = self.points.last_mut() {
                point.moment = Moment::Stopped;
            }
            return self.meet(slow, not_accepted, at);
        }
        self.clean.push(self.bounds[level]);
        self.failed.clear();
        if level + 1 < self.bounds.len() {
            self.add(level + 1, at);
        } else {
            self.hold(at);
        }
    }

    /// More users have failed than happens.
    fn fail(&mut self, at: Timestamp) {
        if let Stage::Adding(level) = self.stage {
            self.settle(level, at);
        }
        self.measures.push_back(Moment::Stopped);
        self.meet(None, 0, at);
    }

    /// A limit was met: nobody is added, and what there is was read, or is.
    fn meet(&mut self, p99_ns: Option<u64>, not_accepted: u64, at: Timestamp) {
        let (online, failed) = (self.account.online, self.failed.clone());
        if let Some(last) = self.levels.last_mut() {
            (last.online, last.failed) = (online, self.failed_now);
        }
        let came = u64::from(self.next_user - self.clean.last().copied().unwrap_or(0));
        self.met = Some(Met { online, came, not_accepted, failed, p99_ns });
        self.enter(Stage::Stopped, self.asked.settle, at);
    }

    /// Down to the highest level that was clean; over, where there is none.
    pub(super) fn step_back(&mut self, at: Timestamp) {
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
        self.back.clear();
        self.leaving = (level..self.next_user).filter(there).collect();
        self.again = (0..level).filter(gone).collect();
        self.enter(Stage::SteppingBack, Duration::ZERO, at);
    }

    pub(super) fn hold(&mut self, at: Timestamp) {
        self.fewest = self.account.online;
        self.dips = Dips::of_hold(at);
        self.enter(Stage::Holding, self.asked.hold, at);
    }

    /// All are there, and were for most of the time.
    fn is_held(&self, at: Timestamp) -> bool {
        let few = self.few();
        let away = self.back.len() as u64 + self.under_way();
        // Chosen: a service that keeps losing users, who keep coming back, does not hold them.
        away <= few && self.dips.away(few, at) <= at.since(self.since) / 2
    }

    pub(super) fn judge_hold(&mut self, at: Timestamp) {
        let (_, p99_ns) = self.p99();
        let slow = p99_ns.filter(|p99| *p99 > self.gate_ns());
        if self.is_held(at) && slow.is_none() {
            self.held = self.account.online;
            self.measures.push_back(Moment::Held);
            self.enter(Stage::Over, Duration::ZERO, at);
            return;
        }
        // What held for a moment does not hold for long: the one below it.
        self.clean.pop();
        if self.met.is_none() {
            let (online, failed) = (self.fewest, self.failed.clone());
            self.met = Some(Met { online, failed, p99_ns: slow, ..Met::default() });
            self.measures.push_back(Moment::Stopped);
        }
        self.step_back(at);
    }
}
