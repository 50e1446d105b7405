//! A study of users: servers that are climbed until their first limit, limits that were met on the way, and what can be
//! turned; each climb is a `linerate capacity --hold` with its own flags.

use std::path::Path;

use clap::Parser;
use linerate_model::Bytes;
use linerate_report::{
    BytesEach, Claim, Document, Held, PublishedUsers, Purpose, StudyDocument, UsersClimb,
    UsersEffect, UsersSetting, UsersStudy,
};

use crate::args::{CapacityArgs, StudyArgs};
use crate::commands::capacity::{self, number};
use crate::failure::Failure;
use crate::output::{Output, say};
use crate::plan_of::plan_of;
use crate::privileges;
use crate::signals::Signals;

mod file;
mod service;

use super::claims::Outcome;
pub use file::UsersFile;
use file::{ClimbRule, SettingRule, UsersClaim};
use service::{Service, is_there};

/// Flags of a climb, as they are typed. What stands last holds.
#[derive(Debug, Parser)]
#[command(name = "linerate capacity", args_override_self = true, disable_help_flag = true)]
struct Flags {
    #[command(flatten)]
    capacity: CapacityArgs,
}

/// See the module.
pub fn study(args: &StudyArgs, path: &Path) -> Result<u8, Failure> {
    let mut file = UsersFile::read(path)?;
    if args.connections.is_some() {
        return Err(Failure::plan(format!(
            "--connections: the climbs of {} have their own numbers of users: leave it out, or write --short",
            file.name
        )));
    }
    let memory: Bytes =
        file.memory.parse().map_err(|bad| Failure::plan(format!("memory: {bad}")))?;
    let short = std::mem::take(&mut file.short.says);
    if args.short {
        file.shorten();
    }
    if let Some(hold) = &args.duration {
        // Behind the flags of each.
        file.climbs.iter_mut().for_each(|climb| climb.flags.push(format!("--hold={hold}")));
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    let published = published(&folder.join(&file.published))?;
    let output = Output::new(&args.output)?.without_evidence("study makes several")?;
    let signals = Signals::install().map_err(Failure::run)?;
    let kept = args.resume.as_deref().map(|earlier| kept(earlier, &file.name)).transpose()?;
    let mut made = Made {
        file: &file,
        folder: folder.display().to_string(),
        signals: &signals,
        quiet: args.output.quiet,
        kept: kept.unwrap_or_default(),
        climbs: Vec::new(),
        left_out: args.short.then_some(short).into_iter().collect(),
    };
    let ended = made.all();
    if made.climbs.is_empty() {
        ended?;
        return Ok(signals.exit_code().unwrap_or(0));
    }
    let Made { climbs, left_out, .. } = made;
    let effects = effects(&file, memory, &climbs);
    let settings = file.settings.iter().map(|rule| setting(rule, &published)).collect();
    let claims = file.claims.iter().map(|rule| claim(rule, &climbs, &effects)).collect();
    let document = Document::Study(StudyDocument {
        schema: "linerate/study/1".into(),
        program: env!("CARGO_PKG_VERSION").into(),
        name: file.name.clone(),
        about: file.about.clone(),
        scale: None,
        rows: Vec::new(),
        claims,
        scan: Vec::new(),
        cases: None,
        wire: Vec::new(),
        published_wire_bit_s: None,
        parts: Vec::new(),
        accounts: Vec::new(),
        users: Some(Box::new(UsersStudy {
            memory: memory.0,
            published,
            settings,
            climbs,
            effects,
            left_out,
        })),
    });
    output.write(&document)?;
    // What was measured before a failure is reported all the same.
    ended?;
    Ok(signals.exit_code().unwrap_or(0))
}

/// `os,settings,users`, comments with `#`.
fn published(path: &Path) -> Result<Vec<PublishedUsers>, Failure> {
    let shown = path.display();
    let text = std::fs::read_to_string(path)
        .map_err(|error| Failure::plan(format!("{shown}: cannot be read: {error}")))?;
    let lines = text.lines().filter(|line| !(line.starts_with('#') || line.trim().is_empty()));
    let row = |line: &str| {
        let mut words = line.split(',').map(str::trim);
        let (os, settings, users) = (words.next()?, words.next()?, words.next()?);
        let users = users.parse().ok().filter(|_| words.next().is_none())?;
        Some(PublishedUsers { os: os.into(), settings: settings.into(), users })
    };
    let wrong = |line| {
        Failure::plan(format!("{shown}: expected os,settings,users as 3 columns, found `{line}`"))
    };
    lines.skip(1).map(|line| row(line).ok_or_else(|| wrong(line))).collect()
}

/// Climbs that an earlier one made.
fn kept(earlier: &Path, name: &str) -> Result<Vec<UsersClimb>, Failure> {
    let shown = earlier.display();
    let text = std::fs::read_to_string(earlier)
        .map_err(|error| Failure::plan(format!("--resume {shown}: cannot be read: {error}")))?;
    match Document::read(&text) {
        Ok(Document::Study(StudyDocument { name: its, users: Some(users), .. })) if its == name => {
            Ok(users.climbs)
        }
        Ok(_) => Err(Failure::plan(format!(
            "--resume {shown}: it is no study {name}: write the JSON of one"
        ))),
        Err(bad) => Err(Failure::plan(format!("--resume {shown}: {bad}"))),
    }
}

/// What was measured so far.
struct Made<'a> {
    file: &'a UsersFile,
    folder: String,
    signals: &'a Signals,
    quiet: bool,
    kept: Vec<UsersClimb>,
    climbs: Vec<UsersClimb>,
    left_out: Vec<String>,
}

impl Made<'_> {
    fn all(&mut self) -> Result<(), Failure> {
        let file = self.file;
        self.check()?;
        for round in 1..=file.rounds {
            // What says what a setting does is made in turn, so that what drifts meets all alike.
            let of_round = |climb: &&ClimbRule| round == 1 || climb.purpose == Purpose::Turned;
            for rule in file.climbs.iter().filter(of_round) {
                self.one(rule, round)?;
                if self.signals.received() {
                    return Ok(());
                }
            }
        }
        Ok(())
    }

    /// Every flag before the first climb; networks are laid by a process that has one thread.
    fn check(&mut self) -> Result<(), Failure> {
        let mut plans = Vec::new();
        for rule in self.file.climbs.iter().filter(|rule| rule.service.is_empty()) {
            plans.push(plan_of(&self.flags(rule, &[])?.load)?);
        }
        if let Err(why) = privileges::for_plans(&plans, false) {
            self.warn(format!("no network can be laid: {why}"));
        }
        Ok(())
    }

    fn warn(&mut self, sentence: String) {
        say(&format!("warning: {sentence}\n"));
        self.left_out.push(sentence);
    }

    /// Its flags, with what its service told put for its names.
    fn flags(&self, rule: &ClimbRule, told: &[(String, String)]) -> Result<CapacityArgs, Failure> {
        let words = self.file.flags_of(rule);
        let words = words.iter().map(|word| filled(word, told));
        let parsed = Flags::try_parse_from(std::iter::once("capacity".to_owned()).chain(words));
        let flags = parsed.map_err(|bad| {
            let text = bad.to_string();
            let first = text.lines().next().unwrap_or_default().trim_start_matches("error: ");
            Failure::plan(format!("climb {}: {first}", rule.name))
        })?;
        Ok(flags.capacity)
    }

    fn one(&mut self, rule: &ClimbRule, round: u32) -> Result<(), Failure> {
        let command = command(&self.file.flags_of(rule));
        let is_it = |climb: &UsersClimb| {
            (climb.series.as_str(), climb.round, climb.command.as_str())
                == (&rule.name, round, &command)
        };
        if let Some(place) = self.kept.iter().position(is_it) {
            self.climbs.push(self.kept.swap_remove(place));
            return Ok(());
        }
        if let Some(need) = rule.needs.iter().find(|need| !is_there(&need.program)) {
            self.warn(format!("{} was not measured: {}", rule.name, need.install));
            return Ok(());
        }
        match self.climb(rule, round) {
            Ok(held) if held.interrupted => {}
            Ok(held) => {
                let (series, purpose) = (rule.name.clone(), rule.purpose);
                self.climbs.push(UsersClimb { series, purpose, round, command, held });
            }
            // The others are of use without it.
            Err(failure) if failure.code == 1 && !self.signals.received() => {
                self.warn(format!("{} was not measured: {failure}", rule.name));
            }
            Err(failure) => return Err(failure),
        }
        Ok(())
    }

    fn climb(&self, rule: &ClimbRule, round: u32) -> Result<Held, Failure> {
        let folder = [("folder".to_owned(), self.folder.clone())];
        let mut told = folder.to_vec();
        let mut service = None;
        if !rule.service.is_empty() {
            // What the service must know of the climb: how many come.
            let with = |word: &String| filled(word, &folder);
            let words: Vec<String> = rule.service.iter().map(with).collect();
            let users = users_of(&self.file.flags_of(rule)).unwrap_or_default();
            let words: Vec<String> =
                words.iter().map(|word| filled(word, &[("users".into(), users.clone())])).collect();
            let started = Service::start(&words).map_err(Failure::run)?;
            told.extend(started.told.clone());
            service = Some(started);
        }
        let flags = self.flags(rule, &told)?;
        let of = if self.file.rounds > 1 { format!(", round {round}") } else { String::new() };
        let label = format!("{}{of}: ", rule.name);
        if self.quiet {
            // A line a climb at least, for whoever waits.
            say(&format!("{label}\n"));
        }
        let held = capacity::climb(&flags, self.signals, &label);
        drop(service);
        Ok(capacity::document(&held?))
    }
}

/// `{NAME}` by what is told of it.
fn filled(word: &str, told: &[(String, String)]) -> String {
    told.iter()
        .fold(word.to_owned(), |word, (name, value)| word.replace(&format!("{{{name}}}"), value))
}

/// The users that flags ask for: the value behind the last `-c`.
fn users_of(flags: &[String]) -> Option<String> {
    let place = flags.iter().rposition(|flag| flag == "-c")?;
    flags.get(place + 1).cloned()
}

/// As a shell takes it.
fn command(flags: &[String]) -> String {
    let plain = |c: char| c.is_ascii_alphanumeric() || "-_=./:,@{}%".contains(c);
    let word = |word: &String| match word.chars().all(plain) && !word.is_empty() {
        true => word.clone(),
        false => format!("'{}'", word.replace('\'', r"'\''")),
    };
    let words: Vec<String> = flags.iter().map(word).collect();
    format!("linerate capacity {}", words.join(" "))
}

/// What a setting did then: the published users with it by those without it, of each system.
fn setting(rule: &SettingRule, published: &[PublishedUsers]) -> UsersSetting {
    let of = |os: &str, settings: &str| {
        let is = |row: &&PublishedUsers| row.os == os && row.settings == settings;
        published.iter().find(is).map(|row| row.users as f64)
    };
    let mut systems: Vec<&str> = published.iter().map(|row| row.os.as_str()).collect();
    systems.dedup();
    let ratios = rule.published.iter().flat_map(|[with, without]| {
        systems.iter().filter_map(move |os| {
            Some(format!("x{:.2} users ({os})", of(os, with)? / of(os, without)?))
        })
    });
    let then: Vec<String> = rule.then.iter().cloned().chain(ratios).collect();
    UsersSetting {
        says: rule.says.clone(),
        then: then.join(", "),
        today: rule.today.clone(),
        series: rule.climb.clone(),
    }
}

/// A figure of each round, and half of its interval.
type Figures = Vec<(f64, f64)>;

/// The mean of rounds, and half of its 95 % interval: what the rounds' own intervals make of it, or what the rounds
/// differ by, whichever is more.
fn mean(figures: &Figures) -> Option<(f64, f64)> {
    let count = figures.len() as f64;
    let middle = figures.iter().map(|(value, _)| value).sum::<f64>() / count;
    let own = figures.iter().map(|(_, within)| within.powi(2)).sum::<f64>().sqrt() / count;
    let most = figures.iter().map(|(value, _)| (value - middle).abs()).fold(0.0, f64::max);
    (!figures.is_empty()).then_some((middle, own.max(most)))
}

fn effects(file: &UsersFile, memory: Bytes, climbs: &[UsersClimb]) -> Vec<UsersEffect> {
    let of = |series: &str, figure: &dyn Fn(&Held) -> Option<(f64, f64)>| -> Figures {
        let its = climbs.iter().filter(|climb| climb.series == series);
        its.filter_map(|climb| figure(&climb.held)).collect()
    };
    let bytes = |kinds: &'static [&'static str], part: f64| {
        move |held: &Held| {
            let all: Vec<BytesEach> = kinds.iter().filter_map(|kind| held.mean(kind)).collect();
            let within = all.iter().map(|it| it.within.powi(2)).sum::<f64>().sqrt();
            let bytes: f64 = all.iter().map(|it| it.bytes).sum();
            (!all.is_empty()).then_some((bytes * part, within * part))
        }
    };
    let all = bytes(&["vm.total"], 1.0);
    let (resident, kernel) =
        (bytes(&["target.rss"], 1.0), bytes(&["kernel.slab", "kernel.tcp"], 0.5));
    // By what a node says of itself, where it does: RSS grows by carriers, and both climbs leave as much of those.
    let fit = |held: &Held| {
        let (bytes, within) = all(held).or_else(|| resident(held))?;
        let (more, within_more) = kernel(held).unwrap_or_default();
        let base = held.costs.iter().find(|cost| cost.kind == "target.rss")?.base.bytes;
        let (each, within) = (bytes + more, within.hypot(within_more));
        let users = (memory.0 as f64 - base) / each;
        (each > 0.0).then_some((users, users * within / each))
    };
    let effect = |rule: &ClimbRule| {
        let beside = rule.beside.clone()?;
        let both = |figure: &dyn Fn(&Held) -> Option<(f64, f64)>| {
            Some((mean(&of(&rule.name, figure))?, mean(&of(&beside, figure))?))
        };
        let more = |figure: &dyn Fn(&Held) -> Option<(f64, f64)>| {
            let ((with, one), (without, other)) = both(figure)?;
            Some(BytesEach { bytes: with - without, within: one.hypot(other) })
        };
        let rounds = climbs.iter().filter(|climb| climb.series == rule.name).count();
        if rounds == 0 {
            return None;
        }
        let users = both(&fit).map(|((with, one), (without, other))| {
            let ratio = with / without;
            let within = ratio * (one / with).hypot(other / without);
            [ratio, ratio - within, ratio + within]
        });
        Some(UsersEffect {
            series: rule.name.clone(),
            rounds: rounds as u32,
            vm: more(&bytes(&["vm.total"], 1.0)),
            // Both ends are in this kernel, and alike.
            kernel: more(&bytes(&["kernel.slab", "kernel.tcp"], 0.5)),
            rss: more(&bytes(&["target.rss"], 1.0)),
            users: users.filter(|users| users.iter().all(|it| it.is_finite())),
            beside,
        })
    };
    file.climbs.iter().filter_map(effect).collect()
}

fn claim(rule: &UsersClaim, climbs: &[UsersClimb], effects: &[UsersEffect]) -> Claim {
    let of = |series: &str| climbs.iter().find(|climb| climb.series == series);
    let within = |value: f64, least: Option<f64>, most: Option<f64>| {
        least.is_none_or(|least| value >= least) && most.is_none_or(|most| value <= most)
    };
    match rule {
        UsersClaim::Limit { says, climb, by } => {
            let Some(climb) = of(climb) else { return Outcome::unmeasured().of(says) };
            let limit = climb.held.limit.as_ref();
            Outcome {
                held: Some(limit.is_some_and(|limit| limit.id == *by)),
                because: match limit {
                    Some(limit) => format!("{}: {}", limit.id, limit.says),
                    None => format!("none was met by {} users", number(climb.held.asked)),
                },
            }
            .of(says)
        }
        UsersClaim::Holds { says, climb, tried, least, most, otherwise } => {
            let Some(climb) = of(climb) else { return Outcome::unmeasured().of(says) };
            let by_slope = climb.held.fit.as_ref().map(|fit| fit.users);
            let users = if *tried { Some(climb.held.clean()) } else { by_slope };
            let Some(users) = users else { return Outcome::unmeasured().of(says) };
            let how = if *tried { "held" } else { "by what each takes" };
            Outcome {
                held: Some(within(users as f64, *least, *most)),
                because: format!("{} {how}", number(users)),
            }
            .or_else(otherwise.as_deref())
            .of(says)
        }
        UsersClaim::Effect { says, climb, none, least, most, otherwise } => {
            let effect = effects.iter().find(|effect| effect.series == *climb);
            let Some([ratio, low, high]) = effect.and_then(|effect| effect.users) else {
                return Outcome::unmeasured().of(says);
            };
            let held = match none {
                true => low <= 1.0 && 1.0 <= high,
                false => within(low, *least, None) && within(high, None, *most),
            };
            let because = format!("x{ratio:.2} users ({low:.2} to {high:.2})");
            Outcome { held: Some(held), because }.or_else(otherwise.as_deref()).of(says)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn comes_along() -> (UsersFile, &'static Path) {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies"));
        (UsersFile::read(&folder.join("capacity.toml")).unwrap(), folder)
    }

    #[test]
    fn flags_of_the_study_that_comes_along_are_flags_and_its_figures_are_read() {
        let (mut file, folder) = comes_along();
        assert_eq!(published(&folder.join(&file.published)).unwrap().len(), 18);
        for short in [false, true] {
            if short {
                file.shorten();
            }
            let signals = Signals::default();
            let made = Made {
                file: &file,
                folder: folder.display().to_string(),
                signals: &signals,
                quiet: true,
                kept: Vec::new(),
                climbs: Vec::new(),
                left_out: Vec::new(),
            };
            let told =
                ["xmpp", "dist", "node", "cookie_file"].map(|name| (name.into(), "7".into()));
            for rule in &file.climbs {
                let flags = made.flags(rule, &told).unwrap();
                assert!(flags.hold.is_some(), "{}", rule.name);
                let plan = plan_of(&flags.load);
                assert!(plan.is_ok() || !rule.service.is_empty(), "{}: {plan:?}", rule.name);
                assert!(users_of(&file.flags_of(rule)).is_some(), "{}", rule.name);
            }
        }
        for rule in &file.claims {
            assert_eq!(claim(rule, &[], &[]).held, None);
        }
    }

    #[test]
    fn what_a_setting_did_is_said_of_each_system() {
        let row = |os: &str, settings: &str, users| PublishedUsers {
            os: os.into(),
            settings: settings.into(),
            users,
        };
        let published = [
            row("a", "default", 100),
            row("a", "K", 134),
            row("b", "default", 50),
            row("b", "K", 60),
        ];
        let rule: SettingRule = toml::from_str(
            "says = 'K'\npublished = ['K', 'default']\ntoday = 'always on'\nclimb = 'x'\n",
        )
        .unwrap();
        assert_eq!(setting(&rule, &published).then, "x1.34 users (a), x1.20 users (b)");
    }

    #[test]
    fn rounds_that_differ_by_more_than_their_own_intervals_widen_the_mean() {
        assert_eq!(mean(&vec![]), None);
        assert_eq!(mean(&vec![(10.0, 4.0)]), Some((10.0, 4.0)));
        assert_eq!(mean(&vec![(10.0, 3.0), (10.0, 4.0)]), Some((10.0, 2.5)));
        assert_eq!(mean(&vec![(10.0, 1.0), (30.0, 1.0)]), Some((20.0, 10.0)));
    }

    #[test]
    fn a_command_is_as_a_shell_takes_it() {
        let flags = ["--hold=5s", "-k", "target.vm_flags=+Q 1024"].map(str::to_owned);
        assert_eq!(command(&flags), "linerate capacity --hold=5s -k 'target.vm_flags=+Q 1024'");
    }
}
