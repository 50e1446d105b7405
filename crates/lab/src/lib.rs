//! Lays what a plan asks for (a target and the path to it, or hosts at sites) and takes it away again.
//!
//! Nothing that was laid outlives its [`Lab`]: `close` or drop end every process of the target,
//! whichever way it went into the background, and remove the namespaces. A linerate that is killed
//! takes its target's first process with it; what else it left behind, the next one finds and clears.

mod behind;
mod block;
mod cancel;
mod clients;
mod connect;
mod forward;
mod front;
mod hosts;
mod knob;
mod lab;
mod lay_error;
mod ledger;
mod listeners;
mod neighbours;
mod netns;
mod path;
mod privileges;
mod process;
mod quota;
mod sites;
mod sys;
mod tail;
mod targets;
mod tree;

pub use behind::Behind;
pub use connect::is_local;
pub use hosts::{EngineHost, ServerHost};
pub use knob::{KnobSpec, Permitted};
pub use lab::{Lab, Left, Options};
pub use lay_error::LayError;
pub use path::{Delivered, LinkMeter, PathProof, ProofRow};
pub use privileges::acquire_privileges;
pub use targets::{Kind, TARGETS};
