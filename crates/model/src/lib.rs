//! What is decided before a run, and the units every number crosses a crate boundary in.
//!
//! Pure: no clock, no socket, no file, no thread.

#![forbid(unsafe_code)]

mod plan;
mod units;

pub use plan::{
    Arrivals, BadPlan, Body, EngineOptions, Expect, Framing, Load, Path, Plan, Target, Until,
    Workload,
};
pub use units::{BadDuration, BadQuantity, Bytes, Cpus, OpRate, Share, Timestamp, parse_duration};
