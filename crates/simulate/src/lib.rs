//! A packet-level simulation, in virtual time, of what mean value analysis cannot say: drops at a full
//! queue, the retransmissions that follow, and what they do to a closed loop of workers.
//!
//! `simulate(&Scenario) -> Outcome`: workers over servers in sites, TCP as far as it matters, links as
//! `linerate_netpath` has them. Each engine host is a `linerate_drive::Driver`, the core of the real engine: it opens
//! connections, chooses servers, begins exchanges and counts them. Seconds of a hundred thousand exchanges a second take
//! about a second.
//!
//! Pure: no clock, no socket, no file, no thread. The same scenario gives the same outcome.
#![forbid(unsafe_code)]

mod agenda;
mod nanos;
mod outcome;
mod scenario;
mod station;
mod tcp;
mod world;

pub use outcome::{DirectionOutcome, Latency, LinkOutcome, Outcome, Pair, Retransmitted};
pub use scenario::{Acks, BadScenario, Scenario, Service, Station, Tcp};

/// Simulates a scenario.
pub fn simulate(scenario: &Scenario) -> Result<Outcome, BadScenario> {
    Ok(world::World::new(scenario)?.run())
}
