//! How many users a service holds: connects them level by level until the first limit, steps back to the highest level
//! that was clean, and holds that, as a state machine without input or output.
//!
//! [`Ramp`] is told what happened (`on_…`) and asked what is to be done ([`Ramp::poll`]) and when to ask again
//! ([`Ramp::next`]). [`Outcome`] says what came of it: users held, the [`Limit`] that ended the climb, and what a user
//! costs, by slope.
//!
//! Pure: no clock, no socket, no file, no thread.

#![forbid(unsafe_code)]

mod account;
mod asked;
mod dip;
mod limit;
mod mix;
mod outcome;
mod ramp;
mod reading;
mod slope;

pub use account::Account;
pub use asked::Asked;
pub use dip::Dip;
pub use limit::{Limit, Met};
pub use mix::{BadMix, Class, Mix};
pub use outcome::{ClassTimes, Cost, Level, Next, Outcome, Point};
pub use ramp::{Action, LOST, Ramp, Stage};
pub use reading::{Moment, Queue, Reading, Roof};
pub use slope::{Estimate, Slopes, slopes};
