//! A way into a live BEAM node: a hidden node of our own that speaks Erlang's distribution protocol,
//! calls functions there, and puts linerate's probe in and takes it out again.
//!
//! The interface blocks. A connection has one thread of its own, which reads; it ends with the last
//! [`Node`] handle. No async runtime: `erl_dist` is generic over the stream, and a socket that blocks
//! is ready whenever it is asked (`blocking.rs`).
//!
//! What comes from the peer is taken for hostile: frames are bounded, and every announced length is
//! held to the bytes that are there before a term is built of them (`check.rs`).

#![forbid(unsafe_code)]

mod agent;
mod attached;
mod blocking;
pub mod cache;
mod check;
mod cookie;
mod deadline;
mod delivery;
mod dial;
mod embedded;
mod epmd;
mod files;
mod frames;
mod host;
mod listening;
mod node;
mod place;
mod rows;
mod ssh;
mod stream;
pub mod term;
mod tls;
mod unreached;

pub use agent::{NoAgent, agent, find_agent};
pub use attached::{Attached, KernelSide, ProbeFault, ProbeOptions};
pub use cookie::Cookie;
pub use delivery::{MODULES, Module, Undelivered};
pub use embedded::{agent_modules, agent_version};
pub use frames::{BadFrame, read_message};
pub use host::{FarProgram, Host, HostFault, Taken};
pub use listening::{listening, named_at};
pub use node::{Asked, CallFault, Node};
pub use place::{BadPlace, TlsFiles, Where};
pub use rows::rows;
pub use ssh::{NotStarted, SCHEME as SSH, SshNode};
pub use unreached::Unreached;
