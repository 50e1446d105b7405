//! Two sides compared, each of one run or several: the JSON that `linerate compare` writes
//! (`schema/compare.json`).

use std::collections::BTreeMap;

use serde::{Deserialize, Serialize};

use crate::document::{Gated, open_ended};

/// A comparison.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct CompareDocument {
    /// [`CompareDocument::SCHEMA`].
    pub schema: String,
    /// Version of the program.
    pub program: String,
    /// What all of its runs are called; absent: nobody gave them one name.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub name: Option<String>,
    /// The labels that all of them have.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub labels: BTreeMap<String, String>,
    /// The runs before, in the order in which they were given.
    pub before: Vec<ComparedRun>,
    /// The runs after.
    pub after: Vec<ComparedRun>,
    /// What may be lost, or grow, and is still no regression.
    pub tolerance: f64,
    /// How often one of the figures is called different between sides of the same build.
    pub false_alarms: f64,
    /// What differs between the sides' plans and hosts, `key: before -> after`.
    pub differs: Vec<String>,
    /// What is to be known of the comparison as a whole.
    pub notes: Vec<String>,
    /// Figure by figure.
    pub figures: Vec<ComparedFigure>,
    /// Whether one of them regressed.
    pub regressed: bool,
    /// What became of the gates that were asked for, of the runs after.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub gates: Vec<Gated>,
}

/// One run of a side.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedRun {
    /// Its file.
    pub file: String,
    /// When it began, RFC 3339.
    pub started: String,
    /// Answers a second.
    pub throughput_per_s: f64,
    /// What held it: a roof's id, or `unexplained`.
    pub limit: String,
}

/// One figure of both sides.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComparedFigure {
    /// `throughput`, `latency p50`, `latency p99`, `errors`.
    pub figure: String,
    /// `/s`, `us`, or `share`.
    pub unit: String,
    /// Geometric mean of the runs before; of errors their share of all that was due.
    pub before: f64,
    /// After.
    pub after: f64,
    /// After by before; of errors after minus before.
    pub ratio: f64,
    /// Interval of the ratio, so wide that all figures' hold together in `1 - false_alarms` of comparisons. No
    /// upper end (written `null`) where nothing is known of the spread.
    #[serde(with = "open_ended")]
    pub interval: [f64; 2],
    /// The smallest difference that would have been seen, as a share; absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub could_see: Option<f64>,
    /// In words.
    pub says: String,
    /// Worse by more than the tolerance, and beyond chance.
    pub regressed: bool,
}

impl CompareDocument {
    /// As [`CompareDocument::schema`] has it.
    pub const SCHEMA: &'static str = "linerate/compare/2";
}
