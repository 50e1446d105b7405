//! What a sample is about.

use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// Which end of a connection; also which end's network stack.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Side {
    /// The engine's end.
    Client,
    /// The target's end.
    Server,
}

/// A direction of a link, as the plan has it.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Direction {
    /// From engine to target, or from a link's first site to its second.
    Outbound,
    /// The other direction.
    Return,
}

/// What a sample is about. Written `host`, `cpu/0`, `stack/server`, `flow/12/client`,
/// `listener/8080`, `target`, `peer/0`, `node`, `scheduler/1`, `process/3`, `queue/0`, `engine`, `engine/0`, `link/0/out`,
/// `census/0`.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub enum Subject {
    /// The machine.
    Host,
    /// One of its CPUs.
    Cpu(u16),
    /// A network stack (network namespace): the target's, or the engine's where it is another.
    Stack(Side),
    /// One end of one connection: the engine's, by the engine's own number for it, or another of
    /// the target's, from [`Subject::OTHER_FLOWS`] up. Kernel and node have the same subject.
    Flow(u32, Side),
    /// A listening socket of the target, by port.
    Listener(u16),
    /// The target's process tree.
    Target,
    /// A peer that the target asks, by linerate's own number for the address; the address is a fact.
    Peer(u16),
    /// The target's BEAM node as a whole.
    Node,
    /// One of its schedulers, from 1.
    Scheduler(u16),
    /// One of its processes, by linerate's own number for it; its pid is a fact.
    Process(u32),
    /// A queue of a message broker, by linerate's own number for it; its name is a fact.
    Queue(u32),
    /// The load engine as a whole.
    Engine,
    /// One of its threads.
    EngineThread(u16),
    /// One direction of one link between sites, by its place in the plan; 0 where the plan has a path. Its name and
    /// its emulator are the facts `name` and `backend`.
    Link(u16, Direction),
    /// Samples of the engine's connections to one server, by its place in the plan's list.
    Census(u16),
}

impl Direction {
    /// Both, in the order of `linerate_model::Path::directions`.
    pub const BOTH: [Direction; 2] = [Direction::Outbound, Direction::Return];
}

impl Subject {
    /// The first number of a connection that is not the engine's.
    // Chosen: beyond the number of connections that the engine has watched.
    pub const OTHER_FLOWS: u32 = 1000;
}

impl fmt::Display for Side {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Client => "client",
            Side::Server => "server",
        })
    }
}

impl fmt::Display for Direction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Direction::Outbound => "out",
            Direction::Return => "back",
        })
    }
}

impl fmt::Display for Subject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Subject::Host => f.write_str("host"),
            Subject::Cpu(cpu) => write!(f, "cpu/{cpu}"),
            Subject::Stack(side) => write!(f, "stack/{side}"),
            Subject::Flow(id, side) => write!(f, "flow/{id}/{side}"),
            Subject::Listener(port) => write!(f, "listener/{port}"),
            Subject::Target => f.write_str("target"),
            Subject::Peer(peer) => write!(f, "peer/{peer}"),
            Subject::Node => f.write_str("node"),
            Subject::Scheduler(scheduler) => write!(f, "scheduler/{scheduler}"),
            Subject::Process(process) => write!(f, "process/{process}"),
            Subject::Queue(queue) => write!(f, "queue/{queue}"),
            Subject::Engine => f.write_str("engine"),
            Subject::EngineThread(thread) => write!(f, "engine/{thread}"),
            Subject::Link(link, direction) => write!(f, "link/{link}/{direction}"),
            Subject::Census(server) => write!(f, "census/{server}"),
        }
    }
}

/// A subject that could not be read.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error(
    "`{0}` is not a subject: expected host, cpu/N, stack/SIDE, flow/N/SIDE, listener/PORT, target, peer/N, node, scheduler/N, process/N, queue/N, engine, engine/N, link/N/out, link/N/back or census/N"
)]
pub struct BadSubject(String);

impl FromStr for Subject {
    type Err = BadSubject;

    fn from_str(text: &str) -> Result<Self, BadSubject> {
        let bad = || BadSubject(text.to_owned());
        let side = |word: &str| match word {
            "client" => Ok(Side::Client),
            "server" => Ok(Side::Server),
            _ => Err(bad()),
        };
        let words: Vec<&str> = text.split('/').collect();
        match words[..] {
            ["host"] => Ok(Subject::Host),
            ["target"] => Ok(Subject::Target),
            ["peer", number] => number.parse().map(Subject::Peer).map_err(|_| bad()),
            ["node"] => Ok(Subject::Node),
            ["scheduler", number] => number.parse().map(Subject::Scheduler).map_err(|_| bad()),
            ["process", number] => number.parse().map(Subject::Process).map_err(|_| bad()),
            ["queue", number] => number.parse().map(Subject::Queue).map_err(|_| bad()),
            ["engine"] => Ok(Subject::Engine),
            ["cpu", cpu] => cpu.parse().map(Subject::Cpu).map_err(|_| bad()),
            ["stack", end] => side(end).map(Subject::Stack),
            ["flow", id, end] => Ok(Subject::Flow(id.parse().map_err(|_| bad())?, side(end)?)),
            ["listener", port] => port.parse().map(Subject::Listener).map_err(|_| bad()),
            ["link", link, way] => {
                let direction = match way {
                    "out" => Direction::Outbound,
                    "back" => Direction::Return,
                    _ => return Err(bad()),
                };
                link.parse().map(|link| Subject::Link(link, direction)).map_err(|_| bad())
            }
            ["census", server] => server.parse().map(Subject::Census).map_err(|_| bad()),
            ["engine", thread] => thread.parse().map(Subject::EngineThread).map_err(|_| bad()),
            _ => Err(bad()),
        }
    }
}

impl Serialize for Subject {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> Deserialize<'de> for Subject {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_subject_reads_back_as_it_is_written() {
        for subject in [
            Subject::Host,
            Subject::Cpu(3),
            Subject::Stack(Side::Server),
            Subject::Flow(12, Side::Client),
            Subject::Listener(8080),
            Subject::Target,
            Subject::Peer(5),
            Subject::Node,
            Subject::Scheduler(2),
            Subject::Process(7),
            Subject::Queue(2),
            Subject::Engine,
            Subject::EngineThread(1),
            Subject::Link(0, Direction::Outbound),
            Subject::Link(3, Direction::Return),
            Subject::Census(1),
        ] {
            assert_eq!(subject.to_string().parse(), Ok(subject));
        }
        assert!("flow/12".parse::<Subject>().is_err());
        assert!("link/1".parse::<Subject>().is_err());
    }
}
