//! Why a run could not be made: what was found, what is wrong, what to write or do.

use std::io;
use std::path::PathBuf;

use linerate_engine::{BadTrust, Trouble};
use linerate_lab::LayError;
use linerate_model::{Bytes, OpRate};
use linerate_workload::BadRequests;

/// See the module.
#[derive(Debug, thiserror::Error)]
pub enum RunError {
    /// The path or the target.
    #[error(transparent)]
    Lay(#[from] LayError),
    /// The plan asks for what can't be had here.
    #[error(transparent)]
    Refused(#[from] Refused),
    /// Cancelled before there was anything to report.
    #[error("interrupted before the load began")]
    Interrupted,
    /// The first exchanges.
    #[error(transparent)]
    Preflight(#[from] Trouble),
    /// The first exchanges' thread ended without a word.
    #[error("the first exchanges ended without a result")]
    NoPreflight,
    /// The target ended before the load began; how.
    #[error("{0}")]
    TargetDied(String),
    /// A thread of the engine.
    #[error("the engine: {0}")]
    Engine(io::Error),
    /// Whoever had the users' connections.
    #[error("{0}")]
    Users(io::Error),
    /// A host of the engine; which, and why.
    #[error("{0}")]
    Host(String),
    /// Every engine worker was lost; what became of the first.
    #[error("{0}")]
    Worker(String),
    /// A client inside the BEAM; which, and what it said.
    #[error("{0}")]
    BeamClient(String),
    /// TLS could not be set up.
    #[error(transparent)]
    Trust(#[from] BadTrust),
    /// The file that holds the requests.
    #[error("workload.requests: {}: {wrong}", .file.display())]
    Requests {
        /// Which.
        file: PathBuf,
        /// What is wrong with it.
        wrong: String,
    },
    /// What connections are to say.
    #[error(transparent)]
    Workload(BadRequests),
    /// The file that holds a request or its body.
    #[error("{key}: {}: {wrong}", .file.display())]
    Body {
        /// The plan's key that names it.
        key: &'static str,
        /// Which.
        file: PathBuf,
        /// What is wrong with it.
        wrong: String,
    },
    /// What the kernel was asked for and refused.
    #[error("{0}")]
    Kernel(io::Error),
    /// The evidence file can't be made.
    #[error("{}: cannot be written: {error}", .path.display())]
    Unwritable {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
    /// The evidence file can't be written on.
    #[error("{}: {error}{}", .path.display(), what_to_do(.error))]
    Unwritten {
        /// Which.
        path: PathBuf,
        /// Why.
        error: io::Error,
    },
}

/// What a plan asks for and this machine does not have.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum Refused {
    /// More connections than descriptors.
    #[error(
        "load.connections: {connections} need {needed} descriptors and {} may open {allowed}: raise `ulimit -n`, \
         or write {fit} or fewer", who(*.processes)
    )]
    Descriptors {
        /// By the plan.
        connections: u32,
        /// Of the engine.
        processes: u16,
        /// For them and for linerate itself.
        needed: u64,
        /// By the hard limit, of all of its processes.
        allowed: u64,
        /// Connections that there are descriptors for.
        fit: u64,
    },
    /// CPUs that this process may not use.
    #[error(
        "engine.cpus: {asked:?} are not available: write some of {there}, which linerate may use"
    )]
    Cpus {
        /// By the plan.
        asked: Vec<u16>,
        /// In words.
        there: String,
    },
    /// A congestion control that this kernel does not have.
    #[error("engine.congestion: this kernel has no `{asked}`: write one of {there}")]
    Congestion {
        /// By the plan.
        asked: String,
        /// In words.
        there: String,
    },
    /// A rate above what the connections carry, by Little's law.
    #[error("load.rate: {} (or --overload to run it all the same)", .0.says())]
    Rate(Carried),
    /// What requests are made of, for other hosts.
    #[error(
        "engine.hosts: the files of its requests are {size} (in base64), and a host is told {most}: write fewer or smaller requests"
    )]
    Outside {
        /// In base64.
        size: Bytes,
        /// In base64.
        most: Bytes,
    },
    /// A target's name that no certificate can have.
    #[error("`{0}` is not a name that TLS can ask for")]
    NoName(String),
    /// What an Erlang client can't do.
    #[error(
        "engine.local_ports: client = \"beam\" takes the ports that the kernel gives: leave it out"
    )]
    LocalPorts,
}

/// Whose limit it is.
fn who(processes: u16) -> String {
    match processes {
        0 | 1 => "this process".into(),
        many => format!("{many} engine processes"),
    }
}

/// What connections carry at most, and what was asked of them.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Carried {
    /// By the plan.
    pub connections: u32,
    /// Time of an exchange that meets nobody. Unit: s.
    pub service: f64,
    /// By the plan.
    pub asked: OpRate,
}

impl Carried {
    /// `connections / service time`.
    pub fn most(&self) -> OpRate {
        OpRate(f64::from(self.connections) / self.service)
    }

    /// The sum in words.
    pub fn says(&self) -> String {
        let connections = match self.connections {
            1 => "1 connection".to_owned(),
            many => format!("{many} connections"),
        };
        // Chosen: a fifth more than the mean needs, so that arrivals that bunch find one free.
        let needed = (self.asked.0 * self.service * 1.2).ceil();
        format!(
            "{connections} / {:.3} ms an exchange = {} at most, and {} were asked for: write -c {needed:.0} or more",
            self.service * 1e3,
            self.most(),
            self.asked,
        )
    }
}

impl RunError {
    /// Whether the plan or a flag is wrong, and not the world.
    pub fn is_the_plans(&self) -> bool {
        match self {
            RunError::Refused(_)
            | RunError::Trust(_)
            | RunError::Body { .. }
            | RunError::Workload(_)
            | RunError::Requests { .. } => true,
            RunError::Lay(error) => matches!(
                error,
                LayError::NotAnAddress(_)
                    | LayError::NoPort
                    | LayError::NoSuchCpus { .. }
                    | LayError::UnknownServer { .. }
                    | LayError::UnknownKnob { .. }
                    | LayError::BadKnob { .. }
                    | LayError::PathToAddress(_)
            ),
            _ => false,
        }
    }

    /// Whether it ended because its caller wished it.
    pub fn is_interrupted(&self) -> bool {
        matches!(self, RunError::Interrupted | RunError::Lay(LayError::Interrupted))
    }
}

fn what_to_do(error: &io::Error) -> &'static str {
    match error.kind() {
        io::ErrorKind::StorageFull => {
            "; free space, or write it elsewhere with -o: what was written so far stays readable"
        }
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_that_connections_cannot_carry_is_refused_with_its_sum() {
        let carried = Carried { connections: 10, service: 0.04, asked: OpRate(1000.0) };
        assert_eq!(carried.most(), OpRate(250.0)); // 10 / 40 ms
        let says = RunError::from(Refused::Rate(carried)).to_string();
        assert!(says.contains("10 connections / 40.000 ms an exchange = 250"), "{says}");
        assert!(says.contains("write -c 48 or more"), "{says}"); // 1000/s x 40 ms x 1.2
    }
}
