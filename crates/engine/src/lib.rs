//! The load engine: a thread and an event loop a core, nothing shared, histograms merged at the end.
//!
//! [`probe`] makes a few exchanges first and says what is wrong in words; [`start`] makes the load.

mod alarm;
mod board;
mod clock;
mod connection;
mod far;
mod job;
mod opening;
mod probe;
mod socket;
mod spaced;
mod sys;
mod thread;
mod tls;
mod trust;
mod users;
mod zero_copy;

pub use board::Board;
pub use clock::now;
pub use far::{Ended, FarEnd, FarEndOptions, totals};
pub use job::{
    Begins, Delivered, EngineHost, Flow, Flows, Job, Prepared, Running, ServerAddress, prepare,
    start,
};
pub use linerate_drive::slice_width;
pub use opening::Opening;
pub use probe::{PairPreflight, Preflight, Trouble, probe};
pub use spaced::{Spaced, Spacing, spaced};
pub use tls::Tls;
pub use trust::{BadTrust, Trust, client_config};
pub use users::{Beside, Entered, Happened, UserConnections, UserSockets, UsersSetup, climb};
