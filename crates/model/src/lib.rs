//! What is decided before a run, and the units every number crosses a crate boundary in.
//!
//! Pure: no clock, no socket, no file, no thread.

#![forbid(unsafe_code)]

mod path;
mod plan;
mod sites;
mod units;

pub use path::{Aqm, Path, PathBackend, Queue, Way, WayChange};
pub use plan::{
    Arrivals, BadPlan, Body, Client, EngineOptions, Expect, Framing, Load, Plan, Target, Until,
    Workload,
};
pub use sites::{Link, Site};
pub use units::{
    BadDuration, BadQuantity, BitRate, Bytes, Cpus, OpRate, Share, Timestamp, parse_duration,
};
