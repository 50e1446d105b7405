//! The account of time: at which station the exchanges in flight are, how many, and so for how long.
//!
//! Every exchange in flight is at every instant at one station, so `N = Σ N_i`; by Little's law each station
//! has `R_i = N_i / X` of an exchange's time. [`Experiment`]: what throughput did with other connections.
//!
//! Pure: a function of the evidence.
//! Source: J. D. C. Little, "A proof for the queuing formula L = λW", 1961; R. W. Wolff, "Poisson arrivals
//! see time averages", 1982.

#![forbid(unsafe_code)]

mod account;
mod agreement;
pub mod chosen;
mod cpu;
mod experiment;
mod inside;
mod prelude;
mod share;
mod station;
mod watched;

pub use account::{Account, Place};
pub use agreement::{Agreement, agreements};
pub use cpu::{Cpus, Running};
pub use experiment::{Experiment, Inconclusive, observed};
pub use inside::Inside;
pub use share::{Estimate, ratio};
pub use station::{Held, Station};
pub use watched::{Exchanges, Pace, Watched};
