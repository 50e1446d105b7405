//! The lab: what was laid for one plan, and what is asked of it.

use std::collections::BTreeMap;
use std::fmt;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use linerate_evidence::TargetFacts;
use linerate_model::Plan;

use crate::cancel::Cancel;
use crate::knob::KnobSpec;
use crate::lay_error::LayError;
use crate::ledger;
use crate::neighbours::Neighbours;
use crate::path::{LaidPath, LinkMeter, PathProof};
use crate::quota::Quota;
use crate::targets::{self, Running, Site};

/// A target that runs, and the path to it. All of it goes with the lab, in reverse order.
pub struct Lab {
    neighbours: Option<Neighbours>,
    target: Option<Box<dyn Running>>,
    quota: Option<Quota>,
    path: Option<LaidPath>,
}

/// How a lab is laid.
#[derive(Clone, Debug, Default)]
pub struct Options {
    /// Folder of the agent's .beam files. None: `LINERATE_AGENT`, or where `make agent` puts them,
    /// below the current folder or one above the program.
    pub agent: Option<PathBuf>,
    /// Print each `ip` command to standard error, as a user could repeat it.
    pub verbose: bool,
    /// Set from a signal's handler: laying ends within 100 ms with [`LayError::Interrupted`].
    pub cancel: Option<Arc<AtomicBool>>,
}

/// What could not be taken away, and how to do it by hand.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
#[error("left behind: {}", .0.join("; "))]
pub struct Left(pub Vec<String>);

impl Lab {
    /// Lays the path and starts the target: on return it listens.
    ///
    /// What linerates that were killed have left behind is cleared first.
    pub fn lay(plan: &Plan, options: &Options) -> Result<Lab, LayError> {
        let cancel = Cancel(options.cancel.clone());
        cancel.check()?;
        ledger::sweep();
        if let (Some(_), Some(address)) = (&plan.path, &plan.target.address) {
            return Err(LayError::PathToAddress(address.clone()));
        }
        let path = match &plan.path {
            Some(path) => Some(LaidPath::lay(path, options.verbose, &cancel)?),
            None => None,
        };
        let end = path.as_ref().map(LaidPath::server);
        // From here the path is taken away by its own drop if the target does not start.
        let site = Site { end, agent: options.agent.clone(), cancel };
        let target = targets::start(plan, &site)?;
        let mut lab = Lab { neighbours: None, target: Some(target), quota: None, path };
        // After the target: what it measures of this machine when it starts is not disturbed.
        if let Some(cpus) = plan.target.cpu_quota {
            lab.quota = Some(Quota::lay(cpus)?);
            lab.hold_to_quota()?;
        }
        if plan.target.neighbours > 0 {
            lab.neighbours = Some(Neighbours::start(plan.target.neighbours)?);
        }
        Ok(lab)
    }

    fn hold_to_quota(&self) -> Result<(), LayError> {
        match (&self.quota, self.target().facts().pid) {
            (Some(quota), Some(pid)) => quota.take_in(pid),
            _ => Ok(()),
        }
    }

    /// Where the engine connects to.
    pub fn address(&self) -> SocketAddr {
        self.target().address()
    }

    /// What is known of the target. Its readback is asked for now.
    pub fn facts(&self) -> TargetFacts {
        self.target().facts()
    }

    /// The network namespace that the engine's threads enter; none: the host's own.
    pub fn client_netns(&self) -> Option<&Path> {
        self.path.as_ref().map(LaidPath::client_netns)
    }

    /// The network namespace of the target; none: the host's own.
    pub fn server_netns(&self) -> Option<&Path> {
        self.path.as_ref().map(LaidPath::server_netns)
    }

    /// What the path was asked for and what it delivered before the target was started.
    pub fn path(&self) -> Option<PathProof> {
        self.path.as_ref().map(LaidPath::proof)
    }

    /// Reads what the links carry, by the link's name: `path`.
    pub fn link_meters(&self) -> Vec<(String, LinkMeter)> {
        self.path.iter().map(|path| ("path".to_owned(), path.meter())).collect()
    }

    /// What can be turned at the target.
    pub fn knobs(&self) -> &[KnobSpec] {
        self.target().knobs()
    }

    /// The same target with these knobs over those of the plan, ready to be loaded.
    ///
    /// A BEAM node opens another listener and keeps the ones before; a command is restarted if the
    /// values differ from the current ones.
    pub fn variant(&mut self, knobs: &BTreeMap<String, String>) -> Result<SocketAddr, LayError> {
        let address = self.target_mut().variant(knobs)?;
        // A command that was started again is another process.
        self.hold_to_quota()?;
        Ok(address)
    }

    /// What kernel and driver say of the current variant's options, now; empty where nobody can say.
    pub fn readback(&mut self) -> BTreeMap<String, String> {
        self.target().readback()
    }

    /// The connection to the BEAM node that the target is; none for what is none. It is shared with the
    /// lab, which asks the node over it.
    pub fn node(&self) -> Option<linerate_beam::Node> {
        self.target().node()
    }

    /// An error that says how the target ended, once it has.
    pub fn alive(&mut self) -> Result<(), String> {
        self.target_mut().alive()
    }

    /// Takes everything away. What could not be is named, with how to do it by hand.
    pub fn close(mut self) -> Result<(), Left> {
        let left = self.take_away();
        if left.is_empty() { Ok(()) } else { Err(Left(left)) }
    }

    fn take_away(&mut self) -> Vec<String> {
        let mut left =
            self.neighbours.take().map(|mut beside| beside.take_away()).unwrap_or_default();
        left.extend(self.target.take().map(|mut target| target.stop()).unwrap_or_default());
        left.extend(self.quota.take().map(|quota| quota.take_away()).unwrap_or_default());
        left.extend(self.path.take().map(|mut path| path.take_away()).unwrap_or_default());
        left
    }

    fn target(&self) -> &dyn Running {
        self.target.as_deref().expect("only close and drop take it, and nothing comes after them")
    }

    fn target_mut(&mut self) -> &mut Box<dyn Running> {
        self.target.as_mut().expect("only close and drop take it, and nothing comes after them")
    }
}

impl Drop for Lab {
    fn drop(&mut self) {
        self.take_away();
    }
}

impl fmt::Debug for Lab {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.target.as_ref().map(|target| target.address());
        f.debug_struct("Lab").field("address", &address).field("path", &self.path).finish()
    }
}

// A watcher may ask for facts while another thread drives the run.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Lab>()
};
