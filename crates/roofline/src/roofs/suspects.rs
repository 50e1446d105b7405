//! The node's processes that were looked at, each with its figures over the run.

use linerate_evidence::sources::suspect;
use linerate_evidence::{Of, Side, Subject};

use crate::roof::Finding;
use crate::run::Run;

/// The samples of a node that serves somebody, or why there is nothing to judge.
pub(super) fn serving_node<'a>(run: &Run<'a>) -> Result<Of<'a>, Finding> {
    let node = run.node()?;
    run.no_traffic().map_or(Ok(node), Err)
}

impl<'a> Run<'a> {
    /// Pids of the processes that own a connection which was sampled.
    pub(super) fn owners(&self) -> Vec<&'a str> {
        let flows = self.evidence.flows(Side::Server).into_iter();
        flows.filter_map(|id| self.fact(Subject::Flow(id, Side::Server), "owner")).collect()
    }
}

/// Fewer looks than this say nothing about a process.
// Chosen: at two a second, a good part of the shortest run.
const LOOKS: usize = 3;

/// One process.
pub(super) struct Suspect<'a> {
    /// Its pid, or linerate's number for it.
    pub pid: String,
    pub name: &'a str,
    /// Where it was when it was last looked at.
    pub function: &'a str,
    pub stack: &'a str,
    /// Parts of the looks, 0 to 1: it ran or could have run, it collected garbage, it had mail.
    pub running: f64,
    pub collecting: f64,
    pub with_mail: f64,
    /// Median of its mailbox's lengths.
    pub mailbox: u64,
    /// The most its heaps had. Unit: bytes.
    pub heap: f64,
    /// Reductions a second.
    pub reductions: f64,
    pub traced: bool,
    pub fullsweep_after: Option<&'a str>,
    /// Whether it owns a connection that was sampled.
    pub is_owner: bool,
}

impl Suspect<'_> {
    /// How people know it: `my_server:init/1 (<0.123.0>)`.
    pub fn words(&self) -> String {
        format!("{} ({})", self.name, self.pid)
    }
}

/// All that were looked at often enough.
pub(super) fn suspects<'a>(run: &Run<'a>) -> Vec<Suspect<'a>> {
    let owners = run.owners();
    let all = run.evidence.processes();
    all.into_iter().filter_map(|of| suspect(run, of, &owners)).collect()
}

fn suspect<'a>(run: &Run<'a>, subject: Subject, owners: &[&str]) -> Option<Suspect<'a>> {
    // Of the whole run: there are few looks, and what a process is does not change when a run is warm.
    let of = run.evidence.of(subject);
    let running = of.all(suspect::RUNNING).ok()?;
    if running.len() < LOOKS {
        return None;
    }
    let fact = |name| run.fact(subject, name);
    let pid = fact("pid").map_or_else(|| subject.to_string(), str::to_owned);
    Some(Suspect {
        name: fact("name").unwrap_or("a process"),
        function: fact("function").unwrap_or("?"),
        stack: fact("stack").unwrap_or(""),
        running: share(&of, suspect::RUNNING),
        collecting: share(&of, suspect::COLLECTING),
        with_mail: share(&of, suspect::MAILBOX),
        mailbox: of.median(suspect::MAILBOX).unwrap_or(0),
        heap: of.max(suspect::HEAP).map_or(0.0, |heap| heap.0 as f64),
        reductions: of
            .delta(suspect::REDUCTIONS)
            .map_or(0.0, |(count, over)| count as f64 / over.as_secs_f64()),
        traced: of.max(suspect::TRACED).is_ok_and(|traced| traced > 0),
        fullsweep_after: fact("fullsweep_after"),
        is_owner: owners.contains(&pid.as_str()),
        pid,
    })
}

/// The part of the samples that are not nought.
fn share(of: &Of, metric: linerate_evidence::Metric<u64>) -> f64 {
    let samples = of.all(metric).unwrap_or_default();
    samples.iter().filter(|(_, value)| *value > 0).count() as f64 / samples.len().max(1) as f64
}
