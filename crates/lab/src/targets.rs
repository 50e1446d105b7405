//! What can be loaded. To add one: a file in `targets/`, and its line in [`TARGETS`].

use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;

use linerate_beam::{NoAgent, agent};
use linerate_evidence::TargetFacts;
use linerate_model::{Plan, Target};

use crate::cancel::Cancel;
use crate::front::Seen;
use crate::knob::KnobSpec;
use crate::lay_error::LayError;

pub(crate) mod address;
mod beam;
mod command;
pub(crate) mod node;

/// Every kind of target.
pub static TARGETS: &[Kind] = &[address::KIND, command::KIND, beam::KIND];

/// A kind of target.
pub struct Kind {
    /// Its key in a plan's `[target]`.
    pub name: &'static str,
    /// Whether a plan names one of this kind.
    pub named: fn(&Target) -> bool,
    pub(crate) start: StartOf,
}

/// Starts a target of one kind: on return it listens.
pub(crate) type StartOf = fn(&Plan, &Place) -> Result<Box<dyn Running>, LayError>;

/// Where a target is started.
#[derive(Clone, Debug)]
pub(crate) struct Place {
    /// Namespace and address there; none: this host as it is.
    pub end: Option<End>,
    /// How an address is seen through a path that is in front of it; none: as it is.
    pub seen: Option<Seen>,
    /// Where to look for the agent before anywhere else.
    pub agent: Option<PathBuf>,
    /// The caller's wish to stop.
    pub cancel: Cancel,
}

/// A host's namespace, and its address.
#[derive(Clone, Debug)]
pub(crate) struct End {
    /// The namespace's file.
    pub netns: PathBuf,
    /// The address there.
    pub ip: IpAddr,
}

/// A target that can be loaded. Ended by its drop, or by `stop`, which tells what is left.
pub(crate) trait Running: Send + Sync {
    /// Where the current variant listens.
    fn address(&self) -> SocketAddr;
    /// The namespace of the engine's peers, where it is another than the target's.
    fn netns(&self) -> Option<PathBuf> {
        None
    }
    /// What is known of the current variant.
    fn facts(&self) -> TargetFacts;
    /// The root of its processes, where that is known.
    fn pid(&self) -> Option<u32>;
    /// What can be turned.
    fn knobs(&self) -> &[KnobSpec];
    /// Makes the target with these knobs, over the plan's, the current one.
    fn variant(&mut self, knobs: &BTreeMap<String, String>) -> Result<SocketAddr, LayError>;
    /// What kernel and driver say of the current variant's options.
    fn readback(&self) -> BTreeMap<String, String>;
    /// The connection to the BEAM node that it is; none for what is none.
    fn node(&self) -> Option<linerate_beam::Node> {
        None
    }
    /// An error that says how it ended, once it has.
    fn alive(&mut self) -> Result<(), String>;
    /// Ends it. Returns what could not be taken away.
    fn stop(&mut self) -> Vec<String>;
}

/// Starts what the plan names.
pub(crate) fn start(plan: &Plan, place: &Place) -> Result<Box<dyn Running>, LayError> {
    match TARGETS.iter().find(|kind| (kind.named)(&plan.target)) {
        Some(kind) => (kind.start)(plan, place),
        // `Plan::check` refuses such a plan; one made by hand may skip it.
        None => Err(LayError::NotAnAddress(String::new())),
    }
}

/// The folder of the agent's .beam files, and Erlang to run them.
pub(crate) fn agent_of(place: &Place) -> Result<PathBuf, LayError> {
    if !is_in(&search_path(), "erl") {
        return Err(LayError::NoErlang);
    }
    agent(place.agent.as_deref()).map_err(|none| match none {
        NoAgent::NotBuilt { looked } => LayError::AgentNotBuilt { looked },
        NoAgent::NotCompiled { reason } => LayError::AgentNotCompiled { reason },
    })
}

/// `PATH`.
fn search_path() -> OsString {
    std::env::var_os("PATH").unwrap_or_default()
}

/// Whether one of the path's folders has a program of this name.
fn is_in(path: &OsStr, program: &str) -> bool {
    std::env::split_paths(path).any(|folder| folder.join(program).is_file())
}

/// CPUs that a process may use; none if it can't be asked.
fn cpus_of(pid: u32) -> Option<u16> {
    let set = rustix::thread::sched_getaffinity(Some(crate::sys::pid(pid)?)).ok()?;
    u16::try_from(set.count()).ok()
}

/// Refuses CPUs that this process may not use: the kernel would take the rest without a word.
fn check_cpus(asked: &[u16]) -> Result<(), LayError> {
    let ours = rustix::thread::sched_getaffinity(None)
        .map_err(|error| LayError::system("asking for this process's CPUs")(error.into()))?;
    if asked.iter().all(|cpu| ours.is_set(usize::from(*cpu))) {
        return Ok(());
    }
    let there: Vec<_> = (0..rustix::thread::CpuSet::MAX_CPU)
        .filter(|cpu| ours.is_set(*cpu))
        .map(|cpu| cpu.to_string())
        .collect();
    Err(LayError::NoSuchCpus { asked: asked.to_vec(), there: there.join(", ") })
}

/// Permitted values by knob, as the evidence file has them; an empty list: anything.
fn turnable(knobs: &[KnobSpec]) -> BTreeMap<String, Vec<String>> {
    let values = |knob: &KnobSpec| {
        let listed = knob.values.iter().filter(|value| **value != crate::Permitted::Any);
        listed.map(ToString::to_string).collect()
    };
    knobs.iter().map(|knob| (knob.name.clone(), values(knob))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_kind_is_a_key_of_a_plan_and_is_named_by_it_alone() {
        for (kind, value) in TARGETS.iter().zip(["'127.0.0.1:80'", "['true']", "'http'"]) {
            let plan = format!("[target]\n{} = {value}\n", kind.name);
            let plan = Plan::from_toml(&plan).unwrap();
            let named: Vec<_> = TARGETS
                .iter()
                .filter(|kind| (kind.named)(&plan.target))
                .map(|it| it.name)
                .collect();
            assert_eq!(named, [kind.name]);
        }
    }

    #[test]
    fn without_erl_in_path_it_is_said_what_to_install() {
        assert!(!is_in(OsStr::new("/nonexistent:/also/not"), "erl"));
        assert!(is_in(OsStr::new("/nonexistent:/bin"), "sh"));
        let expected = "`erl` is not in PATH: run `make setup` or install erlang-nox";
        assert_eq!(LayError::NoErlang.to_string(), expected);
    }
}
