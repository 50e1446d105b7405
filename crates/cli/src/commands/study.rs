//! `study`: a published study's cases, run here, its figures beside ours.

use std::path::{Path, PathBuf};
use std::time::Duration;

use linerate_model::{OpRate, Plan};
use linerate_report::{
    Claim, Document, LinkAccount, LinkPart, RunDocument, Scale, StudyDocument, StudyRow, Wire,
};
use linerate_run::{Access, Observer, Runner};

use crate::args::StudyArgs;
use crate::commands::run::{exit_code, one};
use crate::failure::Failure;
use crate::output::{Output, print};
use crate::plan_of::duration;
use crate::privileges;
use crate::progress::Progress;
use crate::signals::Signals;

mod accounts;
mod claims;
mod embedded;
mod file;
mod predicted;
pub(crate) mod published;
mod users;
mod wire;

use accounts::Round;
use claims::{Outcome, account, claim};
use file::{Case, ClaimRule, ScaleRule, Series, Study};
use predicted::Between;
use published::{Publication, published};
use users::UsersFile;

/// The folder of the studies in the repository.
const FOLDER: &str = "studies";

/// See the module.
pub fn study(args: &StudyArgs) -> Result<u8, Failure> {
    let Some(name) = &args.study else {
        return list();
    };
    let path = find(name)?;
    if UsersFile::is_one(&path) {
        return users::study(args, &path);
    }
    if let Some(file) = &args.resume {
        return Err(Failure::plan(format!(
            "--resume {}: {name} alternates its measurements and cannot be resumed: leave it out",
            file.display()
        )));
    }
    let mut study = Study::read(&path)?;
    if args.short {
        study.shorten()?;
    }
    if let Some(counts) = &args.connections {
        if study.connections.is_empty() {
            return Err(Failure::plan(format!(
                "--connections: the cases of {} do not differ in them: leave it out, or write --short",
                study.name
            )));
        }
        study.connections = counts_of(counts)?;
        for series in &mut study.series {
            series.connections = None;
        }
    }
    if let Some(length) = &args.duration {
        study.duration = length.clone();
    }
    let folder = path.parent().unwrap_or(Path::new("."));
    let published = match &study.published {
        Some(file) => published(&folder.join(file))?,
        None => Publication::default(),
    };
    let output = Output::new(&args.output)?.without_evidence("study makes several")?;
    let signals = Signals::install().map_err(Failure::run)?;
    let observer = output.progress(&args.output);
    let runner = Runner {
        observer,
        cancel: signals.flag(),
        verbose: args.output.verbose,
        show_secrets: args.output.show_secrets,
        access: Access::default(),
    };
    let mut made = Made {
        study: &study,
        folder,
        published: &published,
        runner,
        checks: !args.no_check && study.check,
        scale: None,
        rows: Vec::new(),
        rounds: Vec::new(),
        wire: Vec::new(),
    };
    let ended = made.all();
    if made.rows.is_empty() {
        ended?;
        return Ok(signals.exit_code().unwrap_or(0));
    }
    let accounts = made.accounts();
    let claims = study.claims.iter().map(|rule| made.claim(rule, &accounts)).collect();
    let accounts = accounts.into_iter().filter_map(|(_, account)| account.ok()).collect();
    let parts = made.parts();
    let Made { scale, mut rows, wire, .. } = made;
    // Nothing crosses between nodes in them: their figures are in the parts and claims.
    rows.retain(|row| study.series.iter().all(|of| of.name != row.series || !of.part));
    let document = Document::Study(StudyDocument {
        scan: Vec::new(),
        published_wire_bit_s: published_wire(&study).filter(|_| !rows.is_empty()),
        cases: study.cases_are,
        wire,
        parts,
        accounts,
        users: None,
        schema: "linerate/study/1".into(),
        program: env!("CARGO_PKG_VERSION").into(),
        name: study.name,
        about: study.about,
        scale,
        rows,
        claims,
    });
    output.write(&document)?;
    // The rows before a failure are reported all the same.
    ended?;
    Ok(exit_code(&document, &signals))
}

fn counts_of(counts: &str) -> Result<Vec<u32>, Failure> {
    let count = |count: &str| {
        count.trim().parse().ok().filter(|count| *count > 0).ok_or_else(|| {
            Failure::plan(format!(
                "--connections: `{count}` is not a number: write for example 1,10,50"
            ))
        })
    };
    counts.split(',').map(count).collect()
}

/// What was measured so far.
struct Made<'a> {
    study: &'a Study,
    folder: &'a Path,
    published: &'a Publication,
    runner: Runner<Progress>,
    /// Whether the experiment follows each run.
    checks: bool,
    scale: Option<Scale>,
    rows: Vec<StudyRow>,
    /// Both nodes' CPU time in every round.
    rounds: Vec<Round>,
    wire: Vec<Wire>,
}

fn published_wire(study: &Study) -> Option<f64> {
    Some(study.wire.as_ref()?.published_gbit_s? * 1e9)
}

impl Made<'_> {
    fn all(&mut self) -> Result<(), Failure> {
        // Every plan before the first run.
        let study = self.study;
        let mut plans = Vec::new();
        for series in &study.series {
            let mut plan = study.plan_of(series, self.folder)?;
            plan.until.duration = Some(duration("duration", &study.duration)?);
            plan.until.check &= self.checks;
            plans.push((series, plan));
        }
        privileges::for_plans(plans.iter().map(|(_, plan)| plan), self.runner.verbose)?;
        if let Some(rule) = &study.scale {
            let plan = plans.iter().find(|(series, _)| series.name == rule.series);
            let (_, plan) = plan.ok_or_else(|| {
                Failure::plan(format!("scale.series: `{}` is no series: name one", rule.series))
            })?;
            self.scale = self.scale(rule, plan.clone())?;
        }
        if !study.cases.is_empty() {
            return self.cases();
        }
        for (series, plan) in plans {
            if self.runner.is_cancelled() {
                break;
            }
            self.series(series, plan)?;
        }
        Ok(())
    }

    /// What this machine does of the published throughput; none: interrupted.
    fn scale(&mut self, rule: &ScaleRule, mut plan: Plan) -> Result<Option<Scale>, Failure> {
        plan.load.connections = rule.connections;
        plan.until.check = false;
        let mut deployment = self.runner.lay(&plan)?;
        self.runner.observer.label(format!("{}, for the scale", rule.series));
        let run = one(&mut self.runner, &mut deployment, &plan);
        self.runner.remove(deployment);
        if self.runner.is_cancelled() {
            return Ok(None);
        }
        let peak = run?.load.throughput_per_s;
        let factor = peak / rule.published_per_s;
        let says = format!(
            "{} reaches {} here with {} connections, {} were published: connections and what a path \
             holds are scaled by {factor:.4}; times are not",
            rule.series,
            OpRate(peak),
            rule.connections,
            OpRate(rule.published_per_s),
        );
        Ok(Some(Scale { factor, says }))
    }

    fn series(&mut self, series: &Series, mut plan: Plan) -> Result<(), Failure> {
        plan.links = self.plan_at_scale(series)?.links;
        let factor = match &self.scale {
            Some(scale) if !series.unscaled => scale.factor,
            _ => 1.0,
        };
        let mut counts: Vec<(u32, u32)> = Vec::new();
        for counted in series.connections.as_ref().unwrap_or(&self.study.connections) {
            let engines: u16 = plan.sites.iter().map(|site| site.engines).sum();
            counts.push((*counted, scaled(*counted, factor).max(u32::from(engines).max(1))));
        }
        plan.load.connections = counts.first().map_or(1, |(_, connections)| *connections);
        plan.check().map_err(Failure::plan)?;
        let mut deployment = self.runner.lay(&plan)?;
        for (counted, connections) in counts {
            plan.load.connections = connections;
            self.runner.observer.label(format!("{}, {connections} connections", series.name));
            let run = match one(&mut self.runner, &mut deployment, &plan) {
                Ok(run) => run,
                Err(failure) => {
                    self.runner.remove(deployment);
                    return Err(failure);
                }
            };
            let known = series
                .published
                .as_ref()
                .and_then(|name| self.published.exchanges.get(&(name.clone(), counted)).copied());
            let published_connections = (counted != connections).then_some(counted);
            self.rows.push(StudyRow {
                published_connections,
                published_per_s: known.map(|known| known.per_s),
                published_mean_us: known.map(|known| known.mean_us),
                ..self.row(series, counted, run)
            });
            if self.runner.is_cancelled() {
                break;
            }
        }
        self.runner.remove(deployment);
        Ok(())
    }

    /// Case by case, in each round every series of it and then the wire, so that what drifts meets all alike.
    fn cases(&mut self) -> Result<(), Failure> {
        let study = self.study;
        let length = duration("duration", &study.duration)?;
        for case in &study.cases {
            let (mut runs, mut wires) = (Vec::new(), Vec::new());
            let mut failed = Ok(());
            for round in 1..=study.rounds {
                let measured = self.round(case, length, round, &mut runs, &mut wires);
                if measured.is_err() || self.runner.is_cancelled() {
                    failed = measured;
                    break;
                }
            }
            self.keep(case, runs, wires);
            failed?;
            if self.runner.is_cancelled() {
                break;
            }
        }
        let place = |row: &StudyRow| study.series.iter().position(|it| it.name == row.series);
        self.rows.sort_by_key(place);
        Ok(())
    }

    fn round(
        &mut self,
        case: &Case,
        length: Duration,
        round: u32,
        runs: &mut Vec<StudyRow>,
        wires: &mut Vec<Wire>,
    ) -> Result<(), Failure> {
        let study = self.study;
        let of = if study.rounds > 1 { format!(", round {round}") } else { String::new() };
        let is_due = |series: &&Series| {
            series.has(case) && series.rounds.is_none_or(|rounds| round <= rounds)
        };
        for series in study.series.iter().filter(is_due) {
            if self.runner.is_cancelled() {
                return Ok(());
            }
            let mut plan = study.plan_in(Some(case), series, self.folder)?;
            plan.until.duration = Some(length);
            plan.until.check &= self.checks;
            match self.measured(series, &plan, &format!("{}{of}", case.case)) {
                Ok(run) => {
                    let row = self.row(series, case.case, run);
                    self.rounds.extend(Round::of(&row, case.case));
                    runs.push(StudyRow { case: Some(case.case), ..row });
                }
                Err(failure) => {
                    let is_first = runs.is_empty() && self.rows.is_empty();
                    if is_first || self.runner.is_cancelled() {
                        return Err(failure);
                    }
                    // The rest is of use without it.
                    let says = format!("{} was not measured: {failure}", series.name);
                    self.runner.observer.warn(&says);
                }
            }
        }
        let Some(rule) = study.wire.as_ref().filter(|_| !self.runner.is_cancelled()) else {
            return Ok(());
        };
        self.runner.observer.label(format!("the wire, {}{of}", case.case));
        // In turn, so that neither is always the first.
        let stream = || wire::stream(rule, length);
        let (own, other) = match wires.len() % 2 {
            0 => (stream(), wire::wire(rule, length)),
            _ => {
                let other = wire::wire(rule, length);
                (stream(), other)
            }
        };
        if let Err(trouble) = &own {
            self.runner.observer.warn(&format!("the stream was not measured: {trouble}"));
        }
        // The rows are of use without it.
        if let Err(trouble) = &other {
            self.runner.observer.warn(&format!("the wire was not measured: {trouble}"));
        }
        let own = own.ok();
        let alone = own.map(|bit_s| (bit_s, "linerate's own stream".to_owned()));
        if let Some((bit_s, says)) = other.ok().or(alone) {
            let (case, rounds_bit_s) = (case.case, Vec::new());
            wires.push(Wire { case, bit_s, rounds_bit_s, stream_bit_s: own, says });
        }
        Ok(())
    }

    fn measured(&mut self, series: &Series, plan: &Plan, at: &str) -> Result<RunDocument, Failure> {
        let mut deployment = self.runner.lay(plan)?;
        self.runner.observer.label(format!("{}, {at}", series.name));
        let run = one(&mut self.runner, &mut deployment, plan);
        self.runner.remove(deployment);
        run
    }

    /// Of the rounds of a case the median of each series, and of the wire.
    fn keep(&mut self, case: &Case, runs: Vec<StudyRow>, wires: Vec<Wire>) {
        for series in self.study.series.iter().filter(|series| series.has(case)) {
            let of = runs.iter().filter(|row| row.series == series.name).cloned();
            let measured = |row: &StudyRow| row.measured_bit_s.unwrap_or_default();
            if let Some((mut row, rounds)) = median(of.collect(), measured) {
                row.rounds_bit_s = rounds;
                self.rows.push(row);
            }
        }
        let own: Vec<f64> = wires.iter().filter_map(|wire| wire.stream_bit_s).collect();
        if let Some((mut wire, rounds)) = median(wires, |wire| wire.bit_s) {
            wire.rounds_bit_s = rounds;
            wire.stream_bit_s = median(own, |bit_s| *bit_s).map(|(middle, _)| middle);
            self.wire.push(wire);
        }
    }

    /// A run beside what was published of its series in bits.
    fn row(&self, series: &Series, counted: u32, run: RunDocument) -> StudyRow {
        let named = series.published.as_ref();
        let carried = run.load.carried.as_ref();
        let measured = carried.map(|it| it.bytes_per_s * 8.0 * self.study.counts_each);
        StudyRow {
            series: series.name.clone(),
            connections: run.plan.load.connections,
            published_connections: None,
            published_per_s: None,
            published_mean_us: None,
            predicted_per_s: None,
            case: None,
            published_bit_s: named.and_then(|name| self.published.bit_s(name, counted)),
            measured_bit_s: measured,
            rounds_bit_s: Vec::new(),
            run,
        }
    }

    /// From the wire to the link, as far as both were measured.
    fn parts(&self) -> Vec<LinkPart> {
        let Some(rule) = &self.study.parts else { return Vec::new() };
        let wire = self.wire.iter().find(|wire| wire.case == rule.case);
        let wire = wire.map(|wire| (wire.says.clone(), "wire".to_owned(), wire.bit_s));
        let measured = |series: &str| {
            let is = |row: &&StudyRow| row.series == *series && row.case == Some(rule.case);
            self.rows.iter().find(is)?.measured_bit_s
        };
        let steps = rule.steps.iter().filter_map(|step| {
            Some((step.adds.clone(), step.series.clone(), measured(&step.series)?))
        });
        let mut parts = LinkPart::steps(wire.into_iter().chain(steps));
        for part in &mut parts {
            let step = rule.steps.iter().find(|step| step.series == part.series);
            let alone = step.and_then(|step| measured(step.alone.as_ref()?));
            part.alone_us_per_mb = alone.filter(|bit_s| *bit_s > 0.0).map(|bit_s| 8e12 / bit_s);
        }
        parts
    }
}

impl Made<'_> {
    /// What became of a claim; predictions set theirs beside the rows.
    fn claim(
        &mut self,
        rule: &ClaimRule,
        accounts: &[(&str, Result<LinkAccount, String>)],
    ) -> Claim {
        let plan = |is: &dyn Fn(&Series) -> bool| {
            let series = self.study.series.iter().find(|series| is(series))?;
            self.plan_at_scale(series).ok()
        };
        match rule {
            ClaimRule::Account { says, series, within, otherwise } => {
                let of = accounts.iter().find(|(of, _)| of == series);
                let outcome = of.map(|(_, of)| account(of, *within));
                let outcome = outcome.unwrap_or_else(Outcome::unmeasured);
                outcome.or_else(otherwise.as_deref()).of(says)
            }
            ClaimRule::Predicted { says, series, from, within } => {
                let plans = (plan(&|it| it.name == *from), plan(&|it| it.name == *series));
                let (Some(first), Some(second)) = plans else {
                    return Outcome::unmeasured().of(says);
                };
                let between = Between { from: &first, to: &second };
                between.measured(from, series, *within, &mut self.rows).of(says)
            }
            ClaimRule::Forecast { says, of, from, within, within_latency } => {
                // As published: nothing is scaled.
                let unscaled = |name: &str| {
                    let is = |it: &&Series| it.published.as_deref() == Some(name);
                    let series = self.study.series.iter().find(is)?;
                    self.study.plan_of(series, self.folder).ok()
                };
                let (Some(first), Some(second)) = (unscaled(from), unscaled(of)) else {
                    return Outcome::unmeasured().of(says);
                };
                let between = Between { from: &first, to: &second };
                between
                    .published([from, of], [*within, *within_latency], &self.published.exchanges)
                    .of(says)
            }
            _ => claim(rule, &self.rows, &self.wire),
        }
    }

    /// A series' plan with what its paths hold scaled.
    fn plan_at_scale(&self, series: &Series) -> Result<Plan, Failure> {
        let mut plan = self.study.plan_of(series, self.folder)?;
        let factor = self.scale.as_ref().map_or(1.0, |scale| scale.factor);
        for link in &mut plan.links {
            link.path.limit = link.path.limit.map(|limit| scaled(limit, factor).max(2));
        }
        Ok(plan)
    }
}

/// The one with the median value (of an even number the lower of the middle), and all values in order; the
/// latter empty of one alone.
fn median<T>(all: Vec<T>, value: impl Fn(&T) -> f64) -> Option<(T, Vec<f64>)> {
    let values: Vec<f64> = all.iter().map(&value).collect();
    let mut all = all;
    all.sort_by(|a, b| value(a).total_cmp(&value(b)));
    let middle = all.len().checked_sub(1)? / 2;
    let rounds = if values.len() > 1 { values } else { Vec::new() };
    Some((all.swap_remove(middle), rounds))
}

fn scaled(count: u32, factor: f64) -> u32 {
    (f64::from(count) * factor).round() as u32
}

fn find(name: &str) -> Result<PathBuf, Failure> {
    if name.ends_with(".toml") {
        return Ok(PathBuf::from(name));
    }
    let file = format!("{name}.toml");
    // Below the current folder, or below one above the program; else of those inside the program.
    let program = std::env::current_exe().ok();
    let above = program.iter().flat_map(|program| program.ancestors().skip(1));
    let mut paths = std::iter::once(PathBuf::from(FOLDER))
        .chain(above.map(|of| of.join(FOLDER)))
        .map(|folder| folder.join(&file));
    if let Some(path) = paths.find(|path| path.is_file()) {
        return Ok(path);
    }
    if !embedded::names().any(|of| of == name) {
        let names = names().join(", ");
        return Err(Failure::plan(format!("`{name}` is no study: write one of {names}")));
    }
    Ok(embedded::folder().map_err(Failure::run)?.join(file))
}

/// The studies that come with linerate.
pub fn names() -> Vec<String> {
    embedded::names().map(str::to_owned).collect()
}

fn list() -> Result<u8, Failure> {
    print(&format!("{}\n", names().join("\n")))?;
    Ok(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_one_that_was_measured_and_its_rounds_stay_in_their_order() {
        let of = |values: &[f64]| median(values.to_vec(), |value| *value);
        assert_eq!(of(&[3.0, 1.0, 2.0]), Some((2.0, vec![3.0, 1.0, 2.0])));
        assert_eq!(of(&[2.0, 1.0]), Some((1.0, vec![2.0, 1.0])));
        assert_eq!(of(&[5.0]), Some((5.0, vec![])));
        assert_eq!(of(&[]), None);
    }
}
