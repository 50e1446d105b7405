//! A network path in virtual time: packets and the present go in, packets and the next instant at
//! which something is due come out.
//!
//! Pure: no clock, no socket, no file, no thread. Whoever moves real packets (the lab's delay line)
//! says what time it is; a test says any time it likes.
#![forbid(unsafe_code)]

mod delay;

pub use delay::Delay;
