//! How many connections a load and its target can hold, before any is opened: what the ask needs of each limited
//! resource on both sides, what there is, and which of them ends it where.
//!
//! [`forecast`] is arithmetic over an [`Ask`] and the [`Limits`] that somebody read. A limit that could not be read
//! is unknown, and never taken for none.
//!
//! Pure: no clock, no socket, no file, no thread.

#![forbid(unsafe_code)]

mod ask;
mod forecast;
mod limits;
mod resources;
mod source_ports;

pub use ask::{Ask, Place};
pub use forecast::{Forecast, Need, Side, forecast};
pub use limits::{Limits, Vm};
pub use resources::RESOURCES;
