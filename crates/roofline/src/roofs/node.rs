//! What the roofs of a BEAM node share: the node's own samples, or why there are none.

use linerate_evidence::{Of, Subject};

use crate::roof::Finding;
use crate::run::Run;

impl<'a> Run<'a> {
    /// The samples of the node that the target is. Where it is none, or none that was sampled inside,
    /// the finding of every roof that needs one:
    /// `let node = match run.node() { Ok(node) => node, Err(finding) => return Ok(finding) };`
    pub(super) fn node(&self) -> Result<Of<'a>, Finding> {
        if self.evidence.subjects().any(|subject| subject == Subject::Node) {
            Ok(self.of(Subject::Node))
        } else {
            Err(Finding::DoesNotApply("the target is no BEAM node that is sampled inside".into()))
        }
    }
}
