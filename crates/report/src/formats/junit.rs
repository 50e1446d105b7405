//! For CI servers: a test for each thing that a document passes or fails.
//!
//! A gate that was breached, a figure that regressed, a claim that did not hold is a failure; a run that may not be
//! believed is an error. A document of which nothing is asked has one test, which passes.
//!
//! Source: the JUnit XML that Jenkins, GitLab and GitHub's reporters read
//! (`testsuites/testsuite/testcase`, `failure` and `error` with a `message`).

use std::collections::BTreeMap;
use std::fmt::Write;

use linerate_evidence::ValidityState;

use crate::compare::CompareDocument;
use crate::document::RunDocument;
use crate::facts;
use crate::formats::{Format, Look};
use crate::read::Document;
use crate::svg::escape;

pub(super) const FORMAT: Format = Format {
    name: "junit",
    extension: "xml",
    says: "JUnit XML for CI servers: gates, comparisons and claims as tests.",
    render,
};

/// Tests that belong together.
struct Suite {
    name: String,
    /// RFC 3339; empty: not known.
    at: String,
    seconds: f64,
    properties: BTreeMap<String, String>,
    cases: Vec<Case>,
}

struct Case {
    name: String,
    outcome: Outcome,
    /// What was found.
    says: String,
}

#[derive(Clone, Copy, Eq, PartialEq)]
enum Outcome {
    Passed,
    Failed,
    /// Nothing can be said of it.
    Error,
    /// It was not tried.
    Skipped,
}

impl Case {
    fn new(name: &str, failed: bool, says: String) -> Self {
        let outcome = if failed { Outcome::Failed } else { Outcome::Passed };
        Self { name: name.to_owned(), outcome, says }
    }
}

fn render(document: &Document, _: &Look) -> String {
    let suites: Vec<Suite> = match document {
        Document::Run(run) => vec![of_run(facts::subject(run), run)],
        Document::Climb(climb) => {
            let steps = climb.steps.iter();
            steps.map(|step| of_run(facts::turned(step), &step.run)).collect()
        }
        Document::Study(study) => {
            let rows = study.rows.iter().map(|row| {
                let of = format!("{}, {}", row.series, facts::connections(row.connections));
                of_run(of, &row.run)
            });
            let claims = study.claims.iter().map(|claim| {
                let judged =
                    Case::new(&claim.says, claim.held == Some(false), claim.because.clone());
                let tried = claim.held.map_or(Outcome::Skipped, |_| judged.outcome);
                Case { outcome: tried, ..judged }
            });
            let mut suites: Vec<Suite> = rows.collect();
            if !study.claims.is_empty() {
                suites.push(Suite::of(&study.name, claims.collect()));
            }
            suites
        }
        Document::Compare(of) => vec![of_compare(of)],
        Document::Doctor(doctor) => {
            let (label, says) = facts::answer(doctor);
            let case = Case::new("watched", false, format!("{label} {says}"));
            vec![Suite::of(&doctor.watched, vec![case])]
        }
        Document::Predict(of) => vec![told(&facts::predict(of))],
        Document::WhatIf(of) => vec![told(&facts::what_if(of))],
    };
    written(&suites)
}

impl Suite {
    fn of(name: &str, cases: Vec<Case>) -> Self {
        let (name, at) = (name.to_owned(), String::new());
        Self { name, at, seconds: 0.0, properties: BTreeMap::new(), cases }
    }

    fn count(&self, of: Outcome) -> usize {
        self.cases.iter().filter(|case| case.outcome == of).count()
    }
}

fn of_run(name: String, run: &RunDocument) -> Suite {
    let reasons = run.validity.reasons.join("; ");
    let believed = match run.validity.state {
        ValidityState::Void => (Outcome::Error, format!("the run is void: {reasons}")),
        _ if run.ended != "done" => (Outcome::Error, run.ended.clone()),
        ValidityState::Suspect => (Outcome::Passed, format!("suspect: {reasons}")),
        ValidityState::Valid => (Outcome::Passed, String::new()),
    };
    let (outcome, says) = believed;
    let mut cases = vec![Case { name: "the run may be believed".into(), outcome, says }];
    cases.extend(run.gates.iter().map(|gate| {
        // Of a run that may not be believed no gate can be judged.
        let judged = Case::new(&gate.gate, gate.breached, gate.says.clone());
        Case { outcome: if outcome == Outcome::Error { outcome } else { judged.outcome }, ..judged }
    }));
    let mut properties = run.plan.labels.clone();
    properties.insert("throughput".into(), facts::throughput(run));
    if !run.load.codes.is_empty() {
        let codes = run.load.codes.iter().map(|(code, count)| format!("{code}: {count}"));
        properties.insert("answers".into(), codes.collect::<Vec<_>>().join(", "));
    }
    properties.insert("limit".into(), facts::limit(run));
    Suite {
        at: run.started.clone(),
        seconds: run.load.measured_s,
        properties,
        ..Suite::of(&name, cases)
    }
}

fn of_compare(of: &CompareDocument) -> Suite {
    let figure = |figure: &crate::ComparedFigure| {
        Case::new(&figure.figure, figure.regressed, figure.says.clone())
    };
    let name = of.name.as_deref().unwrap_or("compare");
    let gate = |gate: &crate::Gated| Case::new(&gate.gate, gate.breached, gate.says.clone());
    let cases = of.figures.iter().map(figure).chain(of.gates.iter().map(gate));
    let suite = Suite::of(name, cases.collect());
    Suite { properties: of.labels.clone(), ..suite }
}

fn told(told: &facts::Told) -> Suite {
    Suite::of(told.kind, vec![Case::new(&told.from, false, String::new())])
}

fn written(suites: &[Suite]) -> String {
    let all = |of: fn(&Suite) -> usize| suites.iter().map(of).sum::<usize>();
    let mut out = String::from("<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n");
    let _ = writeln!(
        out,
        "<testsuites name=\"linerate\" tests=\"{}\" failures=\"{}\" errors=\"{}\">",
        all(|suite| suite.cases.len()),
        all(|suite| suite.count(Outcome::Failed)),
        all(|suite| suite.count(Outcome::Error)),
    );
    suites.iter().for_each(|suite| one(&mut out, suite));
    out + "</testsuites>\n"
}

fn one(out: &mut String, suite: &Suite) {
    let name = escape(&suite.name);
    let _ = write!(
        out,
        "  <testsuite name=\"{name}\" tests=\"{}\" failures=\"{}\" errors=\"{}\" skipped=\"{}\" time=\"{:.3}\"",
        suite.cases.len(),
        suite.count(Outcome::Failed),
        suite.count(Outcome::Error),
        suite.count(Outcome::Skipped),
        suite.seconds,
    );
    if !suite.at.is_empty() {
        let _ = write!(out, " timestamp=\"{}\"", escape(&suite.at));
    }
    *out += ">\n";
    if !suite.properties.is_empty() {
        *out += "    <properties>\n";
        for (key, value) in &suite.properties {
            let (key, value) = (escape(key), escape(value));
            let _ = writeln!(out, "      <property name=\"{key}\" value=\"{value}\"/>");
        }
        *out += "    </properties>\n";
    }
    for case in &suite.cases {
        let (case_name, says) = (escape(&case.name), escape(&case.says));
        let _ = write!(out, "    <testcase classname=\"{name}\" name=\"{case_name}\" time=\"0\"");
        let _ = match case.outcome {
            Outcome::Passed if says.is_empty() => writeln!(out, "/>"),
            Outcome::Passed => writeln!(out, "><system-out>{says}</system-out></testcase>"),
            Outcome::Failed => {
                writeln!(out, "><failure message=\"{says}\">{says}</failure></testcase>")
            }
            Outcome::Error => writeln!(out, "><error message=\"{says}\">{says}</error></testcase>"),
            Outcome::Skipped => writeln!(out, "><skipped message=\"{says}\"/></testcase>"),
        };
    }
    *out += "  </testsuite>\n";
}
