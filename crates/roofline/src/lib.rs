//! The roofline: every ceiling that applies to a run, the one that binds, and what lifting it gives.
//!
//! Pure: a function of the evidence. Nothing here reads a clock, a socket or a file.

#![forbid(unsafe_code)]

mod candidate;
mod claim;
mod facts;
mod latency;
mod model;
mod node_cpu;
mod place;
mod predict;
mod prelude;
mod remedy;
pub mod roofs;
mod run;
mod stations;
mod utilisation;
mod verdict;
mod waiting;

use linerate_account::chosen;
pub use linerate_predict::Predicted;

pub use facts::{Facts, Load};
pub use latency::Latency;
pub use place::{Place, Regime};
pub use predict::{is_modelled, measured};
pub use remedy::Advice;
pub use roofs::Roof;
pub use run::{Counted, Run};
pub use verdict::{Answer, Assessed, Judgement, Kind, State, Verdict, judge, judge_facts};
