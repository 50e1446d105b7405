//! Advice, as reports and `climb` read it: a knob, a value, and what to expect of it.

use crate::prelude::*;

/// What sort of limit a roof is, for readers of reports: it ranks nothing.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// A mechanism that adds time or work, or turns requests away.
    #[default]
    Defect,
    /// Something that can be used up.
    Resource,
    /// No more was asked for.
    Demand,
}

/// A knob and the value it should have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// A knob of the target, or a dotted key of the plan (`load.connections`).
    pub knob: String,
    /// The value to set it to.
    pub value: String,
    /// What that does, in a sentence.
    pub does: String,
    /// How a person does it where no machine can: a line to paste.
    pub by_hand: String,
    /// Throughput to expect.
    #[serde(rename = "predicted_per_s")]
    pub predicted: Predicted,
}
