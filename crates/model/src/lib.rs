//! What is decided before a run, and the units every number crosses a crate boundary in.
//!
//! Pure: no clock, no socket, no file, no thread.

#![forbid(unsafe_code)]

mod path;
mod plan;
mod raw;
mod requests;
mod secrets;
mod sites;
mod stream;
mod think;
mod units;
pub mod words;

pub use path::{Aqm, DirectionChange, OneDirection, Path, PathBackend, Queue};
pub use plan::{
    Also, Arrivals, BadPlan, Body, Client, EngineOptions, Expect, Framing, Load, MOST_PROCESSES,
    MOST_SENT, Plan, Stage, Target, Until, Workload, check_request,
};
pub use raw::{Endian, Ending, LengthField, Sent};
pub use requests::{BadStatus, Expected, Order, Requests, Statuses};
pub use secrets::REDACTED;
pub use sites::{Link, Site};
pub use stream::{BadFlow, Flow, MOST_BLOCK};
pub use think::{BadThink, Think};
pub use units::{
    BadDuration, BadQuantity, BitRate, Bytes, Cpus, OpRate, Share, Timestamp, parse_duration,
};
