//! `ab`: two targets, started and loaded in turn (A B B A), until the difference is as well known as was asked.

use std::path::PathBuf;

use linerate_model::{Plan, Share};
use linerate_report::RunDocument;
use linerate_run::Runner;

use crate::args::{AbArgs, LoadArgs};
use crate::commands::compare::{differs, document, same_answers, valid, written};
use crate::commands::run::one;
use crate::failure::Failure;
use crate::gate::Gate;
use crate::output::Output;
use crate::plan_of::{access_of, plan_of, read};
use crate::privileges;
use crate::sides::FALSE_ALARMS;
use crate::signals::Signals;

// Chosen: of fewer runs a side Student's t knows next to nothing.
const FIRST_LOOK: usize = 3;

// Chosen: as `-d` of one of many runs; a process that warms up for longer wants its own.
const LENGTH: &str = "2s";

/// See the module.
pub fn ab(args: &AbArgs) -> Result<u8, Failure> {
    let tolerance: Share = read("--tolerance", &args.tolerance)?;
    let gates = Gate::all(&args.fail_if).map_err(Failure::plan)?;
    let resolve: Share = read("--resolve", &args.resolve)?;
    if args.rounds < FIRST_LOOK {
        return Err(Failure::plan(format!(
            "--rounds {}: too few for an interval: write {FIRST_LOOK} or more",
            args.rounds
        )));
    }
    let words = sides(&args.sides)?;
    let mut plans = [plan(args, words[0])?, plan(args, words[1])?];
    // A probe on one side would be measured as a difference.
    let are_ours = plans.iter().all(|plan| plan.target.beam.is_some());
    plans.iter_mut().for_each(|plan| plan.target.inside &= are_ours);
    let output = Output::new(&args.output)?.without_evidence("ab makes several")?;
    privileges::for_plans(plans.iter(), args.output.verbose)?;
    let signals = Signals::install().map_err(Failure::run)?;
    let mut runner = Runner {
        observer: output.progress(&args.output),
        cancel: signals.flag(),
        verbose: args.output.verbose,
        show_secrets: args.output.show_secrets,
        access: access_of(&args.load)?,
    };
    let looks = looks(args.rounds);
    // A look at the figures is a chance to be wrong: each has its part.
    let level = FALSE_ALARMS / looks.len() as f64;
    let mut runs: [Vec<(PathBuf, RunDocument)>; 2] = Default::default();
    let mut found = None;
    for round in 1..=args.rounds {
        let order = if round % 2 == 1 { [0, 1] } else { [1, 0] };
        for side in order {
            let name = format!("{} {round}", ["A", "B"][side]);
            runner.observer.label(name.clone());
            let mut deployment = runner.lay(&plans[side])?;
            let run = one(&mut runner, &mut deployment, &plans[side]);
            runner.remove(deployment);
            let run = (PathBuf::from(name), run?);
            if let Some(code) = signals.exit_code() {
                return Ok(code);
            }
            valid(&run.0, &run.1)?;
            runs[side].push(run);
        }
        let [a, b] = &runs;
        if round == 1 {
            differs(a, b, args.other_plans)?;
        }
        same_answers(a, b)?;
        if !looks.contains(&round) {
            continue;
        }
        let mut seen = document(a, b, tolerance, differs(a, b, true)?, level);
        let of = &seen.figures[0];
        let clear = of.interval[0] > 1.0 || of.interval[1] < 1.0 || seen.regressed;
        let fine = of.could_see.is_some_and(|could_see| could_see <= resolve.0);
        if !clear && !fine && round == args.rounds {
            seen.notes.push(format!(
                "{} rounds do not resolve {resolve} of throughput here: --rounds takes more, -d longer runs",
                args.rounds
            ));
        }
        let ends = clear || fine;
        found = Some(seen);
        if ends {
            break;
        }
    }
    let mut found = found.ok_or_else(|| Failure::run("no round was made"))?;
    // Of the looks that were planned together, not of this one.
    found.false_alarms = FALSE_ALARMS;
    written(found, &gates, &runs[1], &output)
}

/// After which rounds the figures are looked at: from the first on at each doubling, and at the last.
fn looks(rounds: usize) -> Vec<usize> {
    let mut looks: Vec<usize> = std::iter::successors(Some(FIRST_LOOK), |look| Some(look * 2))
        .take_while(|look| *look < rounds)
        .collect();
    looks.push(rounds);
    looks
}

/// The two sides of `-- A -- B`.
fn sides(words: &[String]) -> Result<[&str; 2], Failure> {
    match words {
        [a, between, b] if between == "--" => Ok([a, b]),
        _ => Err(Failure::plan(
            "two sides, each one word: write -- 'COMMAND A' -- 'COMMAND B', or two URLs or plans",
        )),
    }
}

fn plan(args: &AbArgs, side: &str) -> Result<Plan, Failure> {
    if args.load.target.is_some() || args.load.command.is_some() || args.load.beam.is_some() {
        return Err(Failure::plan("the targets of ab stand after --: leave the other one out"));
    }
    let is_target = side.contains("://") || side.ends_with(".toml");
    let load = LoadArgs {
        target: is_target.then(|| side.to_owned()),
        command: (!is_target).then(|| side.to_owned()),
        duration: args.load.duration.clone().or_else(|| {
            (!side.ends_with(".toml") && args.load.exchanges.is_none()).then(|| LENGTH.to_owned())
        }),
        no_check: true,
        ..args.load.clone()
    };
    plan_of(&load)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_figures_are_looked_at_a_few_times_only() {
        assert_eq!(looks(3), [3]);
        assert_eq!(looks(24), [3, 6, 12, 24]);
        assert_eq!(looks(20), [3, 6, 12, 20]);
    }

    #[test]
    fn two_sides_are_told_apart_by_two_dashes() {
        let of = |words: &[&str]| {
            let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
            sides(&words).map(|[a, b]| (a.to_owned(), b.to_owned()))
        };
        assert_eq!(of(&["a {port}", "--", "b {port}"]), Ok(("a {port}".into(), "b {port}".into())));
        assert!(of(&["a", "b"]).is_err());
        assert!(of(&["a", "x", "--", "b"]).unwrap_err().sentence.contains("each one word"));
    }
}
