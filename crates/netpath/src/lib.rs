//! A network path in virtual time: packets and the present go in, packets and the next instant at
//! which something is due come out.
//!
//! Pure: no clock, no socket, no file, no thread. Whoever moves real packets (the lab's delay line)
//! says what time it is; a test says any time it likes.
#![forbid(unsafe_code)]

mod chance;
mod codel;
mod counters;
mod fine;
mod packet;
mod pipe;
mod stages;
#[cfg(test)]
mod testing;
mod trace;

pub use counters::Counters;
pub use packet::Packet;
pub use pipe::Pipe;
pub use stages::{STAGES, Stage};
pub use trace::{BadTrace, Trace};
