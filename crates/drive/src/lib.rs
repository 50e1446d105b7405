//! What a load's connections do next, and the account of what became of each exchange: the engine's core, without
//! input or output.
//!
//! [`Driver`] is told what happened (`on_…`) and asked what is to be done ([`Driver::poll`]) and when to ask again
//! ([`Driver::next`]). Bytes are its caller's, and so is the clock: every call says what time it is, so that a test
//! makes minutes of a load in virtual time.
//!
//! Pure: no clock, no socket, no file, no thread.

#![forbid(unsafe_code)]

mod connection;
mod connections;
mod driver;
mod exchanges;
mod record;
mod thinking;
mod workers;

pub use connection::State;
pub use driver::{Action, Driver, Share, Then, slice_width};
