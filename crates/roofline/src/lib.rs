//! The roofline: every ceiling that applies to a run, the one that binds, and what lifting it gives.
//!
//! Pure: a function of the evidence. Nothing here reads a clock, a socket or a file.

#![forbid(unsafe_code)]

mod node_cpu;
mod predict;
mod roof;
pub mod roofs;
mod run;
mod utilisation;
mod verdict;

pub use predict::{Demand, Predicted, closed_network, is_modelled, measured};
pub use roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
pub use run::Run;
pub use verdict::{Assessed, Judgement, State, Verdict, judge};
