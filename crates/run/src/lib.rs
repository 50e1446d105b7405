//! One run: lays what the plan asks for, makes the first exchanges, loads, samples, and keeps the evidence.
//!
//! `run`, `climb` and `study` are made of [`Runner`]: `lay`, `set`, `measure`, `remove`. Nothing here prints, knows
//! a flag or handles a signal: whoever runs it is told by an [`Observer`] and ends it by a flag.

mod beam_client;
mod body;
mod capacity;
mod deploy;
mod error;
mod evidence_file;
mod experiment;
mod header;
mod hold;
mod hosts;
mod inside;
mod limits;
mod links;
mod load;
pub mod local_node;
mod memory_group;
mod meter;
mod observer;
mod pace;
mod places;
mod preflight;
mod runner;
mod sampler;
mod steps;
mod streams;
mod users;
mod workers;

pub use capacity::{foresee, foresee_users};
pub use deploy::Deployment;
pub use error::{Refused, RunError};
pub use evidence_file::EvidenceFile;
pub use hosts::Access;
pub use limits::raise_descriptors;
pub use observer::Observer;
pub use pace::Pace;
pub use runner::{Measured, Runner, tls_with};
pub use users::{Speaks, UsersTls};
pub use workers::{COMMAND, worker};
