//! What came of a climb.

use linerate_evidence::Live;
use serde::Serialize;

use crate::account::Account;
use crate::asked::Asked;
use crate::dip::Dip;
use crate::limit::{self, Limit, Met, Seen};
use crate::reading::{Moment, Reading};
use crate::slope::{Estimate, Slopes, slopes};

/// One level: users asked for, and how it went.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Level {
    /// Users asked for so far.
    pub users: u32,
    /// Online when it was judged.
    pub online: u64,
    /// Whether all was as it should be.
    pub clean: bool,
    /// Users that failed in it.
    pub failed: u64,
    /// Users that were online when it was judged, and whom the service had not accepted.
    pub not_accepted: u64,
    /// Messages answered or delivered while it was held.
    pub messages: u64,
    /// The 99th percentile of their latency; none where there were too few. Unit: ns.
    pub p99_ns: Option<u64>,
    /// How long its users took to come. Unit: s.
    pub came_s: f64,
}

/// What was measured of one class of users.
#[derive(Clone, Debug, Default)]
pub struct ClassTimes {
    /// From the connect call to the connection.
    pub connect: Live,
    /// From there to being online.
    pub login: Live,
    /// From when a message was due to its delivery to another user.
    pub delivered: Live,
    /// From when something was due to the server's answer to its sender. What never came is here at its age.
    pub answered: Live,
}

/// A reading, and the users of that moment.
#[derive(Clone, Debug, PartialEq)]
pub struct Point {
    /// When it was taken.
    pub moment: Moment,
    /// Online, saying nothing.
    pub idle: u64,
    /// Online, saying something now and then.
    pub active: u64,
    /// Connecting, or logging in.
    pub under_way: u64,
    /// What was read.
    pub reading: Reading,
}

/// What a user costs of one kind of memory.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Cost {
    /// `target.rss`.
    pub kind: String,
    /// By slope.
    #[serde(flatten)]
    pub slopes: Slopes,
}

/// A limit that was not met, and the users at which it would be.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Next {
    /// `target.descriptors`.
    pub id: String,
    /// In words.
    pub what: String,
    /// Users that it holds, by what users were seen to take of it.
    pub holds: u64,
    /// Used at the highest level.
    pub used: u64,
    /// What there is.
    pub most: u64,
}

/// See the module.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// What was asked.
    pub asked: Asked,
    /// Users held clean for the whole of the last hold.
    pub held: u64,
    /// The most that were online at a moment.
    pub most_online: u64,
    /// The fewest in the last hold.
    pub fewest_in_hold: u64,
    /// Users that were lost in the last hold, and came back.
    pub dips: Vec<Dip>,
    /// What was seen when the climb ended; none: all that were asked for are held.
    pub met: Option<Met>,
    /// Where everybody was when it ended, before all were closed.
    pub account: Account,
    /// Level by level.
    pub levels: Vec<Level>,
    /// Processes of the engine that were lost, a sentence each.
    pub lost: Vec<String>,
    /// By class of the mix.
    pub classes: Vec<ClassTimes>,
    /// All readings.
    pub points: Vec<Point>,
    /// It was stopped by its caller.
    pub interrupted: bool,
}

impl Outcome {
    /// The limit that ended it; none: none was met.
    pub fn limit(&self) -> Option<Limit> {
        let met = self.met.as_ref()?;
        let mut stopped = self.points.iter().filter(|point| point.moment == Moment::Stopped);
        let at = stopped.next()?;
        let later = stopped.clone().next().unwrap_or(at);
        let clean =
            |point: &&Point| point.moment != Moment::Stopped && point.reading.at < at.reading.at;
        let before = self.points.iter().rfind(clean).unwrap_or(at);
        // That it ended may have been seen only later.
        let ended = stopped.find(|point| point.reading.died.is_some()).unwrap_or(at);
        let at = if at.reading.died.is_some() { at } else { ended };
        Some(limit::name(&Seen {
            met,
            before: &before.reading,
            at: &at.reading,
            later: &later.reading,
            under_way: at.under_way,
            gate: self.asked.gate,
        }))
    }

    /// Points of clean levels: a climb that was stopped shows what a full target does.
    fn clean_points(&self) -> impl Iterator<Item = &Point> {
        let most = self.levels.iter().filter(|level| level.clean).map(|level| level.users);
        let most = most.max().unwrap_or(0);
        self.points.iter().filter(move |point| {
            matches!(point.moment, Moment::Before | Moment::Quiet | Moment::Level)
                && point.idle + point.active <= u64::from(most)
        })
    }

    /// What a user costs, by kind of memory.
    pub fn costs(&self) -> Vec<Cost> {
        let mut kinds: Vec<&'static str> =
            self.points.iter().flat_map(|point| point.reading.memory.keys().copied()).collect();
        kinds.sort_unstable();
        kinds.dedup();
        let cost = |kind: &'static str| {
            let points: Vec<_> = self
                .clean_points()
                .filter_map(|point| {
                    let bytes = *point.reading.memory.get(kind)?;
                    Some([point.idle as f64, point.active as f64, bytes as f64])
                })
                .collect();
            Some(Cost { kind: kind.to_owned(), slopes: slopes(&points)? })
        };
        kinds.into_iter().filter_map(cost).collect()
    }

    /// What a mean user of the mix takes of these kinds of memory together, each with a weight, and what is taken
    /// without any user. Kinds that were not read count nothing; none where none of them was.
    pub fn of_a_user(&self, kinds: &[(&str, f64)]) -> Option<(Estimate, Estimate)> {
        let classes = self.asked.mix.classes().iter().enumerate();
        let talks = classes.filter(|(_, class)| class.think.is_some());
        let talking: f64 = talks.map(|(at, _)| self.asked.mix.share(at)).sum();
        let point = |point: &Point| {
            let memory = &point.reading.memory;
            let read = kinds
                .iter()
                .filter_map(|(kind, weight)| Some(memory.get(kind).copied()? as f64 * weight));
            let read: Vec<f64> = read.collect();
            let all = (point.idle + point.active) as f64;
            // By how many fewer talk than of the mix: the slope over all users is then one of the mix.
            let fewer = (talking * all - point.active as f64).round();
            (!read.is_empty()).then(|| [all, fewer, read.iter().sum()])
        };
        let points: Vec<_> = self.clean_points().filter_map(point).collect();
        let slopes = slopes(&points)?;
        Some((slopes.idle?, slopes.base))
    }

    /// Other limits, by the users they hold, the nearest first: what the users that were there took, as a line.
    pub fn next(&self) -> Vec<Next> {
        let named = self.limit().map(|limit| limit.id);
        let Some(last) = self.clean_points().last() else { return Vec::new() };
        let next = |roof: &crate::reading::Roof| {
            let points: Vec<_> = self
                .clean_points()
                .filter_map(|point| {
                    let used = point.reading.roofs.iter().find(|it| it.id == roof.id)?.used;
                    Some([(point.idle + point.active) as f64, 0.0, used as f64])
                })
                .collect();
            let slopes = slopes(&points)?;
            let each = slopes.idle?;
            // What users take none of, as far as can be seen, has no end by them.
            if each.bytes <= each.within.max(1e-3) {
                return None;
            }
            let holds = ((roof.most as f64 - slopes.base.bytes) / each.bytes).max(0.0);
            Some(Next {
                id: roof.id.to_owned(),
                what: roof.what.to_owned(),
                holds: holds as u64,
                used: roof.used,
                most: roof.most,
            })
        };
        let mut next: Vec<_> = last
            .reading
            .roofs
            .iter()
            .filter(|roof| Some(roof.id) != named.as_deref())
            .filter_map(next)
            .collect();
        next.sort_by_key(|next| next.holds);
        next
    }
}
