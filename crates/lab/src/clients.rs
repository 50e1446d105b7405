//! BEAM nodes that make the load, where the plan's client is the BEAM: one on each engine host, with the
//! agent in it and no server.

use linerate_model::{Plan, Target};

use crate::lay_error::LayError;
use crate::targets::node::Node;
use crate::targets::{Place, agent_of};

/// See the module. Ends with this.
pub(crate) struct Client(Node);

impl Client {
    pub fn start(plan: &Plan, place: &Place) -> Result<Self, LayError> {
        let ebin = agent_of(place)?;
        // A scheduler that waits for work sleeps: its CPU time then says how much it had to do.
        let mut flags: Vec<String> =
            ["+sbwt", "none", "+sbwtdcpu", "none", "+sbwtdio", "none"].map(str::to_owned).into();
        // A scheduler a thread, as our own engine has.
        if plan.engine.threads > 0 {
            let threads = plan.engine.threads;
            flags.extend(["+S".to_owned(), format!("{threads}:{threads}")]);
        }
        let like_a_target =
            Target { vm_flags: flags, cpus: plan.engine.cpus.clone(), ..Target::default() };
        Node::boot(&ebin, &like_a_target, place.end.as_ref(), &place.cancel).map(Self)
    }

    pub fn link(&self) -> Option<linerate_beam::Node> {
        self.0.link()
    }

    pub fn pid(&self) -> u32 {
        self.0.pid
    }

    pub fn alive(&mut self) -> Result<(), String> {
        self.0.alive()
    }

    /// Returns what is left.
    pub fn stop(&mut self) -> Vec<String> {
        self.0.stop()
    }
}
