//! What several roofs need before they can claim anything, or why it is not there.

use crate::prelude::*;

impl<'a> Facts<'a> {
    /// The node's samples; silent where there is none, or it serves no request.
    pub(crate) fn serving_node(&self) -> Result<Of<'a>, Silent> {
        let node = self.run.node()?;
        self.has_traffic()?;
        Ok(node)
    }

    /// What the node's schedulers did, what the kernel gave the target, and the part of the former that ran.
    pub(crate) fn schedulers(&self) -> Result<(&NodeCpu, &Target, f64), Missing> {
        let node = self.node.as_ref().map_err(Clone::clone)?;
        let target = self.target_cpu()?;
        Ok((node, target, node.let_run(target.cores)))
    }

    /// `its schedulers had work for 1.20 CPUs`; none where no node was sampled inside.
    pub(crate) fn scheduled(&self) -> Option<String> {
        let work = self.node.as_ref().ok()?.scheduled();
        Some(format!("its schedulers had work for {work:.2} CPUs"))
    }

    pub(crate) fn target_cpu(&self) -> Result<&Target, Missing> {
        self.target_cpu.as_ref().map_err(Clone::clone)
    }

    /// Silent where nothing was read from a watched service.
    pub(crate) fn has_traffic(&self) -> Result<(), Silent> {
        let run = &self.run;
        let is_quiet = run.is_watched() && run.load.exchanges == 0 && run.attained().0 <= 0.0;
        silent_if(is_quiet, "no sampled connection was read")
    }

    /// Silent where the load is not ours.
    pub(crate) fn is_made(&self) -> Result<(), Silent> {
        silent_if(self.load == Load::Watched, "linerate makes no load in this run")
    }

    /// Silent where the target's own host is not the sampled one.
    pub(crate) fn is_local(&self) -> Result<(), Silent> {
        silent_if(!self.run.header.target.local, "the target is on another host")?;
        self.has_traffic()
    }
}
