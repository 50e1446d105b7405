//! `study`: a published study's cases, run here, its figures beside ours.

use std::path::{Path, PathBuf};

use linerate_model::{OpRate, Plan};
use linerate_report::{Claim, Document, Scale, StudyDocument, StudyRow};
use linerate_run::Runner;

use crate::args::StudyArgs;
use crate::commands::run::{exit_code, one};
use crate::failure::Failure;
use crate::output::{Output, print};
use crate::plan_of::duration;
use crate::privileges;
use crate::progress::Progress;
use crate::signals::Signals;

mod claims;
mod file;
mod predicted;
pub(crate) mod published;

use claims::{Outcome, claim};
use file::{ClaimRule, ScaleRule, Series, Study};
use predicted::Between;
use published::{Figures, published};

/// Studies that come with linerate: name, file. Their folder is found beside the program or below the
/// current one.
const FOLDER: &str = "studies";

/// See the module.
pub fn study(args: &StudyArgs) -> Result<u8, Failure> {
    let Some(name) = &args.study else {
        return list();
    };
    let path = find(name)?;
    let mut study = Study::read(&path)?;
    if args.short {
        study.shorten()?;
    }
    if let Some(counts) = &args.connections {
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
        None => Figures::new(),
    };
    let output = Output::new(&args.output)?.without_evidence("study makes several")?;
    let signals = Signals::install().map_err(Failure::run)?;
    let observer = output.progress(&args.output);
    let runner = Runner {
        observer,
        cancel: signals.flag(),
        verbose: args.output.verbose,
        show_secrets: args.output.show_secrets,
    };
    let mut made = Made {
        study: &study,
        folder,
        published: &published,
        runner,
        checks: !args.no_check,
        scale: None,
        rows: Vec::new(),
    };
    let ended = made.all();
    if made.rows.is_empty() {
        ended?;
        return Ok(signals.exit_code().unwrap_or(0));
    }
    let claims = study.claims.iter().map(|rule| made.claim(rule)).collect();
    let Made { scale, rows, .. } = made;
    let document = Document::Study(StudyDocument {
        scan: Vec::new(),
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
    published: &'a Figures,
    runner: Runner<Progress>,
    /// Whether the experiment follows each run.
    checks: bool,
    scale: Option<Scale>,
    rows: Vec<StudyRow>,
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
                .and_then(|name| self.published.get(&(name.clone(), counted)).copied());
            self.rows.push(StudyRow {
                series: series.name.clone(),
                connections,
                published_connections: (counted != connections).then_some(counted),
                published_per_s: known.map(|known| known.per_s),
                published_mean_us: known.map(|known| known.mean_us),
                predicted_per_s: None,
                run,
            });
            if self.runner.is_cancelled() {
                break;
            }
        }
        self.runner.remove(deployment);
        Ok(())
    }
}

impl Made<'_> {
    /// What became of a claim; predictions set theirs beside the rows.
    fn claim(&mut self, rule: &ClaimRule) -> Claim {
        let plan = |is: &dyn Fn(&Series) -> bool| {
            let series = self.study.series.iter().find(|series| is(series))?;
            self.plan_at_scale(series).ok()
        };
        match rule {
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
                between.published([from, of], [*within, *within_latency], self.published).of(says)
            }
            _ => claim(rule, &self.rows),
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

fn scaled(count: u32, factor: f64) -> u32 {
    (f64::from(count) * factor).round() as u32
}

fn find(name: &str) -> Result<PathBuf, Failure> {
    if name.ends_with(".toml") {
        return Ok(PathBuf::from(name));
    }
    let file = format!("{name}.toml");
    folders().into_iter().map(|folder| folder.join(&file)).find(|path| path.is_file()).ok_or_else(
        || Failure::plan(format!("`{name}` is no study: write one of {}", names().join(", "))),
    )
}

/// Below the current folder, or below one above the program.
fn folders() -> Vec<PathBuf> {
    let mut folders = vec![PathBuf::from(FOLDER)];
    if let Ok(program) = std::env::current_exe() {
        folders.extend(program.ancestors().skip(1).map(|above| above.join(FOLDER)));
    }
    folders
}

/// The studies that are found here.
pub fn names() -> Vec<String> {
    let Some(folder) = folders().into_iter().find(|folder| folder.is_dir()) else {
        return Vec::new();
    };
    let mut names: Vec<String> = std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some(entry.file_name().to_str()?.strip_suffix(".toml")?.to_owned()))
        .collect();
    names.sort();
    names
}

fn list() -> Result<u8, Failure> {
    let names = names();
    if names.is_empty() {
        return Err(Failure::run(
            "no studies found: run linerate in its repository, or name a file",
        ));
    }
    print(&format!("{}\n", names.join("\n")))?;
    Ok(0)
}
