//! A study's file: its series, each a plan, and what it claims.

use std::path::Path;

use linerate_model::Plan;
use linerate_report::End;
use serde::Deserialize;
use toml::{Table, Value};

use crate::failure::Failure;

/// The file. A user's own looks the same.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Study {
    pub name: String,
    pub about: String,
    /// CSV of published figures, beside the study's file.
    pub published: Option<String>,
    /// Length of each run.
    pub duration: String,
    /// Of each series, as published. Where there is a scale, a run has so many times it.
    #[serde(default)]
    pub connections: Vec<u32>,
    /// What the cases differ in, where that is not connections: `bytes a message`.
    pub cases_are: Option<String>,
    /// Instead of connections. They are measured in turn: each series of a case, and the wire, and then the
    /// next case.
    #[serde(default)]
    pub cases: Vec<Case>,
    /// How often what is published counts a byte that crosses between nodes: 2 where both ends count it.
    #[serde(default = "once")]
    pub counts_each: f64,
    /// How often all series of a case are measured, in turn; the median of each is its row.
    #[serde(default = "one")]
    pub rounds: u32,
    /// Measured beside each case.
    pub wire: Option<WireRule>,
    /// From the wire to the link, a step a series.
    pub parts: Option<PartsRule>,
    /// What a megabyte costs at either node, by parts.
    #[serde(default)]
    pub accounts: Vec<AccountRule>,
    /// What `--short` makes of it.
    pub short: Option<Short>,
    /// Whether the experiment follows each run.
    #[serde(default = "yes")]
    pub check: bool,
    /// Measured as a model of the published machines, at the scale of this one.
    pub scale: Option<ScaleRule>,
    /// Keys of the plan that all series have.
    #[serde(default)]
    pub plan: Table,
    pub series: Vec<Series>,
    #[serde(default)]
    pub claims: Vec<ClaimRule>,
}

fn yes() -> bool {
    true
}

fn one() -> u32 {
    1
}

fn once() -> f64 {
    1.0
}

/// What the rows of a series differ in.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    /// Its number, as published.
    pub case: u32,
    /// Keys of its plan, over those of the study and under those of the series.
    #[serde(default)]
    pub plan: Table,
}

/// What the network between the nodes carries by itself.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct WireRule {
    /// Bytes of each write.
    pub length: u32,
    /// As published. Unit: Gbit/s.
    pub published_gbit_s: Option<f64>,
}

/// What the link adds to the wire, step by step.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PartsRule {
    /// The case in which they are compared.
    pub case: u32,
    pub steps: Vec<PartRule>,
}

/// A step.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct PartRule {
    /// The series that has it.
    pub series: String,
    /// What is done more than in the step before.
    pub adds: String,
    /// The series that does that and nothing else, where there is one.
    pub alone: Option<String>,
}

/// The account of a link.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct AccountRule {
    /// The series that it is of, and in which case.
    pub series: String,
    pub case: u32,
    /// What a message is called, where people are told what one costs and not what a megabyte does: `term`.
    pub unit: Option<String>,
    pub costs: Vec<CostRule>,
}

/// A part of it, and how it is measured: by a series that does that and nothing else (of one pair by the time that it
/// took, of several by the CPU time), by the CPU time that the same node took in its own code in a series without the other
/// parts, or by the time in which the kernel worked for the node.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct CostRule {
    pub says: String,
    pub node: End,
    pub alone: Option<String>,
    pub own_code_alone: Option<String>,
    pub own_code_of: Option<String>,
    /// A series that does a part of that and nothing else, which has its own cost.
    pub without: Option<String>,
    /// How often it copies each byte, by the rule of who does it.
    pub copies: Option<u32>,
}

/// A quicker form, for a first look.
#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Short {
    pub duration: String,
    #[serde(default)]
    pub connections: Vec<u32>,
    /// Of the study's cases those that it keeps.
    #[serde(default)]
    pub cases: Vec<u32>,
    /// Whether the experiment follows each run.
    #[serde(default = "yes")]
    pub check: bool,
    /// Series that it leaves out.
    #[serde(default)]
    pub without: Vec<String>,
}

/// One line of the study's figure.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Series {
    pub name: String,
    /// Its name among the published figures.
    pub published: Option<String>,
    /// Its own counts instead of the study's.
    pub connections: Option<Vec<u32>>,
    /// Of the study's cases its own; absent: all.
    pub cases: Option<Vec<u32>>,
    /// How many of the study's rounds it is measured in; absent: all.
    pub rounds: Option<u32>,
    /// Its counts are this machine's, whatever the scale.
    #[serde(default)]
    pub unscaled: bool,
    /// A part alone, at one node: it is in the study's parts and claims, and has no rows.
    #[serde(default)]
    pub part: bool,
    /// Keys of its plan, over those of the study.
    #[serde(default)]
    pub plan: Table,
}

/// How a study of larger machines is made on this one: connections, and what a path holds in packets, are
/// scaled by what this machine does of the published throughput. Times stay as they are: by Little's law a
/// model so scaled has the mean latencies of the original.
#[derive(Clone, Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ScaleRule {
    /// The series whose peak stands for the machine.
    pub series: String,
    /// Published peak of that series. Unit: exchanges a second.
    pub published_per_s: f64,
    /// Connections with which this machine's is found: enough to fill its CPUs.
    pub connections: u32,
}

/// What the study claims, as something that can be checked.
#[derive(Clone, Debug, Deserialize)]
#[serde(tag = "kind", rename_all = "lowercase", deny_unknown_fields)]
pub(super) enum ClaimRule {
    /// At each connection count throughput is connections by the median service time of one connection.
    Stall { says: String, series: String, within: f64 },
    /// Throughput of one series by another's, at this connection count or in this case. Between nodes it is in
    /// bits.
    Ratio {
        says: String,
        of: String,
        to: String,
        #[serde(alias = "case")]
        connections: u32,
        /// Of the other; absent: the same.
        #[serde(alias = "to_case")]
        to_connections: Option<u32>,
        /// Between nodes: throughput by the CPU time that both nodes took for it.
        #[serde(default)]
        equal_cpu: bool,
        #[serde(default)]
        least: Option<f64>,
        #[serde(default)]
        most: Option<f64>,
        /// Why, where it does not hold any more.
        otherwise: Option<String>,
    },
    /// Throughput of a series by the wire's beside it, in this case or in each.
    Wire {
        says: String,
        series: String,
        case: Option<u32>,
        #[serde(default)]
        least: Option<f64>,
        #[serde(default)]
        most: Option<f64>,
        /// Why, where it does not hold any more.
        otherwise: Option<String>,
    },
    /// What a byte takes in a series is what it takes in these together, in this case.
    Sum {
        says: String,
        series: String,
        of: Vec<String>,
        case: u32,
        within: f64,
        /// Why, where it does not hold.
        otherwise: Option<String>,
    },
    /// The account of a series predicts its rate.
    Account {
        says: String,
        series: String,
        within: f64,
        /// Why, where it does not hold.
        otherwise: Option<String>,
    },
    /// A series' verdict, at each connection count or at these.
    Verdict {
        says: String,
        series: String,
        by: String,
        #[serde(alias = "cases")]
        connections: Option<Vec<u32>>,
    },
    /// No run of a series has this verdict.
    Never { says: String, series: String, by: String },
    /// Throughput by connections is as published, at these counts.
    Slope { says: String, series: String, connections: Vec<u32>, within: f64 },
    /// A series from another one and a path alone: predicted beside measured.
    Predicted { says: String, series: String, from: String, within: f64 },
    /// A published series from another published one and a path alone.
    Forecast {
        says: String,
        /// The series that is predicted, by its published name.
        of: String,
        /// The one it is predicted from.
        from: String,
        within: f64,
        within_latency: f64,
    },
}

impl Series {
    /// Whether it is measured in this case.
    pub fn has(&self, case: &Case) -> bool {
        self.cases.as_ref().is_none_or(|cases| cases.contains(&case.case))
    }
}

impl Study {
    /// Reads a study's file.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let shown = path.display();
        let text = std::fs::read_to_string(path)
            .map_err(|error| Failure::plan(format!("{shown}: cannot be read: {error}")))?;
        let study: Self = toml::from_str(&text).map_err(|error| {
            Failure::plan(format!("{shown}: {}", error.to_string().trim().replace('\n', " ")))
        })?;
        match (study.connections.is_empty(), study.cases.is_empty()) {
            (true, true) => Err(Failure::plan(format!(
                "{shown}: no case is named: write connections = [1, 10], or [[cases]]"
            ))),
            (false, false) => Err(Failure::plan(format!(
                "{shown}: connections and [[cases]] are both named: keep one, and write connections into the \
                 plan of each case"
            ))),
            _ => Ok(study),
        }
    }

    /// What is left of it with `--short`.
    pub fn shorten(&mut self) -> Result<(), Failure> {
        let Some(short) = self.short.take() else {
            return Err(Failure::plan(format!(
                "--short: {} has no short form: write -c and -d instead",
                self.name
            )));
        };
        self.duration = short.duration;
        self.connections = short.connections;
        self.cases.retain(|case| short.cases.contains(&case.case));
        self.check = short.check;
        self.rounds = 1;
        self.series.retain(|series| !short.without.contains(&series.name));
        Ok(())
    }

    /// A series' plan, not yet scaled. `{folder}` in a command stands for the study's own folder.
    pub fn plan_of(&self, series: &Series, folder: &Path) -> Result<Plan, Failure> {
        self.plan_in(None, series, folder)
    }

    /// The same in one of the study's cases.
    pub fn plan_in(
        &self,
        case: Option<&Case>,
        series: &Series,
        folder: &Path,
    ) -> Result<Plan, Failure> {
        let mut table = self.plan.clone();
        if let Some(case) = case {
            lay_over(&mut table, case.plan.clone());
        }
        lay_over(&mut table, series.plan.clone());
        let text = table.to_string().replace("{folder}", &folder.display().to_string());
        let mut plan = Plan::from_toml(&text)
            .map_err(|error| Failure::plan(format!("series {}: {error}", series.name)))?;
        plan.name = format!("{} {}", self.name, series.name);
        Ok(plan)
    }
}

/// `over` on `table`: tables key by key, all else as a whole.
fn lay_over(table: &mut Table, over: Table) {
    for (key, value) in over {
        match (table.get_mut(&key), value) {
            (Some(Value::Table(inner)), Value::Table(value)) => lay_over(inner, value),
            (_, value) => {
                table.insert(key, value);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_series_says_only_what_differs() {
        let text = "name = 'x'\nabout = 'y'\nduration = '1s'\nconnections = [1]\n\
            [plan.target]\nbeam = 'echo'\nknobs = { active = 'once', packet = '2' }\n\
            [[series]]\nname = 'one'\n[series.plan.target.knobs]\nactive = 'off'\n\
            [series.plan.path]\nrtt = '1ms'\n";
        let study: Study = toml::from_str(text).unwrap();
        let plan = study.plan_of(&study.series[0], Path::new(".")).unwrap();
        assert_eq!(plan.target.beam.as_deref(), Some("echo"));
        assert_eq!(plan.target.knobs["active"], "off");
        assert_eq!(plan.target.knobs["packet"], "2");
        assert!(plan.path.is_some());
    }

    #[test]
    fn a_study_names_connections_or_cases_and_not_both() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("own.toml");
        let series = "[[series]]\nname = 'one'\n[series.plan.target]\nbeam = 'dist-link'\n";
        let read = |head: &str, tail: &str| {
            let text = format!("name = 'x'\nabout = 'y'\nduration = '1s'\n{head}{series}{tail}");
            std::fs::write(&path, text).unwrap();
            Study::read(&path).map_err(|failure| failure.to_string())
        };
        let case = "[[cases]]\ncase = 7\nplan = { load = { connections = 3 } }\n";
        let study = read("", case).unwrap();
        let plan = study.plan_in(Some(&study.cases[0]), &study.series[0], folder.path()).unwrap();
        assert_eq!(plan.load.connections, 3);
        assert!(read("", "").unwrap_err().contains("write connections = [1, 10], or [[cases]]"));
        assert!(read("connections = [1]\n", case).unwrap_err().contains("both named: keep one"));
    }

    #[test]
    fn the_studies_that_come_along_are_readable_and_their_plans_are_plans() {
        let folder = Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/../../studies"));
        let mut seen = 0;
        for entry in std::fs::read_dir(folder).unwrap().flatten() {
            if entry.path().extension().is_some_and(|extension| extension == "toml") {
                if super::super::users::UsersFile::is_one(&entry.path()) {
                    continue;
                }
                let study = Study::read(&entry.path()).unwrap();
                for series in &study.series {
                    study.plan_of(series, folder).unwrap();
                    for case in study.cases.iter().filter(|case| series.has(case)) {
                        study.plan_in(Some(case), series, folder).unwrap();
                    }
                }
                let names: Vec<_> = study.series.iter().map(|series| &series.name).collect();
                for step in study.parts.iter().flat_map(|parts| &parts.steps) {
                    for series in std::iter::once(&step.series).chain(&step.alone) {
                        assert!(names.contains(&series), "{series}");
                    }
                }
                for claim in &study.claims {
                    let ClaimRule::Sum { series, of, .. } = claim else { continue };
                    for series in std::iter::once(series).chain(of) {
                        assert!(names.contains(&series), "{series}");
                    }
                }
                for account in &study.accounts {
                    let costs = account.costs.iter();
                    let of = costs.flat_map(|cost| {
                        let alone = cost.alone.iter().chain(&cost.own_code_alone);
                        alone.chain(&cost.without).chain(&cost.own_code_of)
                    });
                    for series in of.chain([&account.series]) {
                        assert!(names.contains(&series), "{series}");
                    }
                }
                seen += 1;
            }
        }
        assert!(seen >= 4);
    }
}
