//! `climb`: run, read the advice, predict, turn the knob, measure interleaved against the last state, and
//! so on until no advice promises enough or a knob repeats.

use std::collections::BTreeSet;

use linerate_model::{OpRate, Plan, Share};
use linerate_report::{ClimbDocument, Document, RunDocument, Step};
use linerate_roofline::Advice;
use linerate_run::{Deployment, Runner};

use crate::args::ClimbArgs;
use crate::commands::run::{exit_code, one};
use crate::failure::Failure;
use crate::output::Output;
use crate::overrides::{needs_new_lab, overridden, whole_name};
use crate::pairs::effect;
use crate::plan_of::{access_of, plan_of, read};
use crate::privileges;
use crate::progress::Progress;
use crate::signals::Signals;

/// See the module.
pub fn climb(args: &ClimbArgs) -> Result<u8, Failure> {
    let plan = plan_of(&args.load)?;
    let least: Share = read("--least", &args.least)?;
    privileges::for_plans([&plan], args.output.verbose)?;
    let output = Output::new(&args.output)?.without_evidence("climb makes several")?;
    let signals = Signals::install().map_err(Failure::run)?;
    let observer = output.progress(&args.output);
    let mut runner = Runner {
        observer,
        cancel: signals.flag(),
        verbose: args.output.verbose,
        show_secrets: args.output.show_secrets,
        access: access_of(&args.load)?,
    };

    let deployment = runner.lay(&plan)?;
    let mut climber = Climber {
        runner: &mut runner,
        deployment: Some(deployment),
        plan: plan.clone(),
        turned: BTreeSet::new(),
        least: least.0,
    };
    let climbed = climber.climb(args.steps);
    if let Some(deployment) = climber.deployment.take() {
        runner.remove(deployment);
    }
    let (steps, ended) = climbed?;
    let (ended, failure) = match ended {
        Ok(ended) => (ended, None),
        Err(failure) => (failure.sentence.clone(), Some(failure)),
    };
    let document = Document::Climb(ClimbDocument {
        schema: "linerate/climb/1".into(),
        program: env!("CARGO_PKG_VERSION").into(),
        name: plan.name.clone(),
        steps,
        ended,
    });
    output.write(&document)?;
    // The steps before a failure are reported all the same.
    if let Some(failure) = failure {
        return Err(failure);
    }
    Ok(exit_code(&document, &signals))
}

/// Whether the experiment follows a run. It takes about as long as a pair does, and says nothing of a comparison.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Experiment {
    Follows,
    LeftOut,
}

struct Climber<'a> {
    runner: &'a mut Runner<Progress>,
    deployment: Option<Deployment>,
    /// The state that is reached.
    plan: Plan,
    /// Knobs turned so far, by their whole names.
    turned: BTreeSet<String>,
    least: f64,
}

fn gained(step: &Step) -> bool {
    step.effect.as_ref().is_some_and(|effect| effect.interval[0] > 1.0)
}

/// Of a step that has none for certain: so, in a sentence.
fn without_gain(step: &Step) -> Option<String> {
    let (advice, effect) = step.turned.as_ref().zip(step.effect.as_ref())?;
    (!gained(step)).then(|| format!("{} gave no certain gain: {}", advice.knob, effect.says))
}

impl Climber<'_> {
    /// The steps, and why there are no more.
    fn climb(&mut self, most: usize) -> Result<(Vec<Step>, Result<String, Failure>), Failure> {
        self.runner.observer.label("base");
        let base = self.measure(&self.plan.clone(), Experiment::Follows)?;
        let mut steps = vec![Step {
            turned: None,
            effect: None,
            prediction_held: None,
            because: None,
            run: base,
        }];
        let mut judged = 1;
        let ended = loop {
            if self.runner.is_cancelled() {
                break Ok("interrupted".to_owned());
            }
            if steps.len() > most {
                break Ok(format!("{most} knobs were set, as many as --steps allows"));
            }
            let before = steps[steps.len() - 1].run.clone();
            let advice = match self.follow(&before) {
                Ok(advice) => advice,
                // Without its experiment a run may name nothing: that is no reason yet.
                Err(why) => match self.reached(&mut steps, &mut judged) {
                    Ok(true) => continue,
                    Ok(false) => break Ok(why),
                    Err(failure) => break Err(failure),
                },
            };
            let step = match self.step(&before, advice) {
                Ok(step) => step,
                Err(failure) => break Err(failure),
            };
            let without = without_gain(&step);
            steps.push(step);
            if let Some(why) = without
                && !self.runner.is_cancelled()
            {
                break Ok(why);
            }
        };
        let ended = match (self.reached(&mut steps, &mut judged), ended) {
            (Err(failure), Ok(_)) => Err(failure),
            (_, ended) => ended,
        };
        Ok((steps, ended))
    }

    /// Measures the state that was reached once more, with the experiment, unless it is among the first `judged`
    /// steps, which had it; whether it did.
    fn reached(&mut self, steps: &mut [Step], judged: &mut usize) -> Result<bool, Failure> {
        let last = steps.iter().rposition(gained).unwrap_or(0);
        let is_judged = last < *judged;
        if is_judged || !self.plan.until.check || self.runner.is_cancelled() {
            return Ok(false);
        }
        *judged = last + 1;
        self.runner.observer.label("reached");
        if let Some(deployment) = self.deployment.take() {
            self.runner.remove(deployment);
        }
        steps[last].run = self.measure(&self.plan.clone(), Experiment::Follows)?;
        Ok(true)
    }

    /// The first advice that a machine can follow, promises enough and is new; or why there is none.
    fn follow(&self, run: &RunDocument) -> Result<Advice, String> {
        let Some(by) = run.verdict.by() else {
            return Err("no known roof binds: nothing to lift".into());
        };
        if run.advice.is_empty() {
            return Err(format!("{by} binds, and there is no advice for it"));
        }
        let mut why = String::new();
        for advice in &run.advice {
            let attained = run.load.throughput_per_s;
            if advice.predicted.mid.0 < attained * (1.0 + self.least) {
                why = format!(
                    "{by}: {}={} promises {} at {}, less than {:.0} % more",
                    advice.knob,
                    advice.value,
                    advice.predicted.mid,
                    OpRate(attained),
                    self.least * 100.0
                );
            } else if self.turned.contains(whole_name(&advice.knob)) {
                why = format!("{by}: {} was set before", advice.knob);
            } else if !self.is_turnable(advice) {
                why = format!(
                    "{by}: {}={} must be done by hand: {}",
                    advice.knob, advice.value, advice.by_hand
                );
            } else {
                return Ok(advice.clone());
            }
        }
        Err(why)
    }

    fn is_turnable(&self, advice: &Advice) -> bool {
        if advice.knob.contains('.') {
            return overridden(&self.plan, &advice.knob, &advice.value).is_ok();
        }
        let knobs = self.deployment.as_ref().map(Deployment::knobs).unwrap_or_default();
        knobs.iter().any(|(name, _)| *name == advice.knob)
    }

    /// A knob turned, and measured against the state before: A (already measured) B B A.
    fn step(&mut self, before: &RunDocument, advice: Advice) -> Result<Step, Failure> {
        let from = self.plan.clone();
        let to = overridden(&from, &advice.knob, &advice.value)?;
        self.turned.insert(whole_name(&advice.knob).to_owned());
        let label = format!("{}={}", advice.knob, advice.value);
        let new_lab = needs_new_lab(&advice.knob);
        let mut runs = Vec::new();
        for (plan, words) in [(&to, "after"), (&to, "after, again"), (&from, "before, again")] {
            if self.runner.is_cancelled() && !runs.is_empty() {
                break;
            }
            self.runner.observer.label(format!("{label}: {words}"));
            if new_lab {
                if let Some(deployment) = self.deployment.take() {
                    self.runner.remove(deployment);
                }
                self.deployment = Some(self.runner.lay(plan)?);
            }
            runs.push(self.measure(plan, Experiment::LeftOut)?);
        }
        let (after, again) = (&runs[..runs.len().min(2)], runs.get(2));
        let before: Vec<&RunDocument> = std::iter::once(before).chain(again).collect();
        let after: Vec<&RunDocument> = after.iter().collect();
        let mut effect = effect(&before, &after);
        effect.predicted_per_s = Some(advice.predicted);
        let measured = effect.after_per_s.iter().sum::<f64>() / effect.after_per_s.len() as f64;
        let held = advice.predicted.holds(OpRate(measured));
        let run = runs.swap_remove(runs.len().min(2) - 1);
        let because = (!held).then(|| match run.verdict.by() {
            Some(by) if measured < advice.predicted.low.0 => {
                format!("{by} is the limit below that rate")
            }
            Some(by) => {
                format!("{label} saves more than was measured, and {by} is the limit now")
            }
            None => "no known limit explains the result".to_owned(),
        });
        if effect.interval[0] > 1.0 {
            self.plan = to;
        }
        Ok(Step {
            turned: Some(advice),
            effect: Some(effect),
            prediction_held: Some(held),
            because,
            run,
        })
    }

    fn measure(&mut self, plan: &Plan, experiment: Experiment) -> Result<RunDocument, Failure> {
        let mut plan = plan.clone();
        plan.until.check &= experiment == Experiment::Follows;
        let plan = &plan;
        let deployment = match &mut self.deployment {
            Some(deployment) => deployment,
            None => self.deployment.insert(self.runner.lay(plan)?),
        };
        self.runner.set(deployment, plan)?;
        one(self.runner, deployment, plan)
    }
}
