//! A roof: a limit as a rule. Does it apply, where is its ceiling, does it bind, what lifts it.

use linerate_evidence::Missing;
use linerate_model::OpRate;
use serde::{Deserialize, Serialize};

use crate::predict::Predicted;
use crate::run::Run;

/// A limit as a rule.
///
/// An implementation reads the run and nothing else. It never guesses: a metric without samples
/// leaves it through `?` and the report says what was missing.
pub trait Roof: Sync {
    /// `layer.limit`; stable for ever.
    fn id(&self) -> &'static str;
    /// A heading for people.
    fn title(&self) -> &'static str;
    /// What sort of limit it is: decides which of several binding ones is named.
    fn kind(&self) -> Kind;
    /// Its page, `docs/roofs/ID.md`.
    fn page(&self) -> &'static str;
    /// What the run's evidence says of it.
    fn judge(&self, run: &Run) -> Result<Finding, Missing>;
}

/// What sort of limit a roof is. When several bind, the first kind here is named: a mechanism that
/// holds a connection back also makes concurrency bind, never the other way.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Kind {
    /// Something is set wrong, and the same hardware does more when it is set right.
    Defect,
    /// Something is used up.
    Resource,
    /// No more was asked for.
    Demand,
}

/// What a roof has to say.
#[derive(Clone, Debug, PartialEq)]
pub enum Finding {
    /// It applies.
    Ceiling(Ceiling),
    /// It does not apply, and why.
    DoesNotApply(String),
}

/// Where a roof's ceiling is, and whether the run stands against it.
#[derive(Clone, Debug, PartialEq)]
pub struct Ceiling {
    /// In the run's own unit: exchanges a second.
    pub rate: OpRate,
    /// How it is computed, in words and numbers: `1 connection / 40.4 ms = 24.8/s`.
    pub sum: String,
    /// Whether it binds, and by which evidence.
    pub binds: Binds,
    /// What lifts it, best first.
    pub advice: Vec<Advice>,
}

/// Whether a ceiling binds: not only that it is near, but that it is what holds the run.
#[derive(Clone, Debug, PartialEq)]
pub enum Binds {
    /// By this evidence.
    Yes(String),
    /// Because of this.
    No(String),
}

/// A knob and the value it should have.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Advice {
    /// A knob of the target, or a dotted key of the plan (`load.connections`).
    pub knob: String,
    /// The value to turn it to.
    pub value: String,
    /// What that does, in a sentence.
    pub does: String,
    /// How a person does it where no machine can: a line to paste.
    pub by_hand: String,
    /// Throughput to expect.
    #[serde(rename = "predicted_per_s")]
    pub predicted: Predicted,
}
