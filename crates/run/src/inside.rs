//! The probe inside the node that a run loads, on a thread of its own: a node that is slow to answer
//! must not hold up what the kernel tells.
//!
//! It is put in before the load begins and taken out after it has ended, so that neither is measured.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread::JoinHandle;
use std::time::Duration;

use linerate_beam::term::{Term, as_list, as_tuple, as_u64};
use linerate_beam::{Attached, Node, ProbeFault, ProbeOptions, rows};
use linerate_engine::{Flows, now};
use linerate_evidence::Evidence;
use linerate_evidence::sources::between;
use linerate_evidence::sources::node::Numbering;
use linerate_model::Share;

use crate::local_node;
use crate::pace::Pace;

// Chosen: a full node is granted a quarter of it (`linerate_probe_worker`), and a run is short: 1 % of one
// scheduler where it matters.
const OWN: Share = Share(0.04);

// Chosen: five samples in a run of two seconds; a pass takes a millisecond or two of a scheduler.
const EVERY: Duration = Duration::from_millis(500);

// Chosen: the probe has a high priority, and an overloaded node's answers in tens of milliseconds. One whose
// native code holds each scheduler for 60 ms at a time needs more than a second (measured), since an answer
// of all schedulers is waited for ten times a pass. A run does not wait longer for one that hangs.
const PATIENCE: Duration = Duration::from_secs(3);

/// How the thread's faults are called in the evidence.
const ID: &str = "node";

/// A probe that is in a node, and not yet asked.
pub struct Inside {
    attached: Result<Attached, String>,
    load: OfLoad,
}

/// Whether the node's service moves something to another node, and counts what both do for it.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum OfLoad {
    /// It does, and is asked for it.
    Counted,
    /// Nothing is to be asked.
    No,
}

impl Inside {
    /// Puts it there, where the node was reached. What goes wrong is told with the first samples, and fails nothing.
    pub fn attach(node: Result<Node, String>, load: OfLoad) -> Self {
        let options = ProbeOptions { budget: OWN, interval: EVERY, ..ProbeOptions::default() };
        let attach = |node: Node| node.attach(&options).map_err(|fault| fault.to_string());
        Self { attached: node.and_then(attach), load }
    }

    /// The same with a node that somebody else started, if one of these processes is one: we wait no longer for it than for its
    /// answers, and not after the run was cancelled.
    pub fn enter(pids: Vec<u32>, load: OfLoad, cancel: &AtomicBool) -> Option<Self> {
        let (sender, entered) = channel();
        std::thread::spawn(move || {
            let inside = local_node::enter(&pids).map(|node| Self::attach(node, load));
            // With nobody there it is dropped, and the probe goes with its connection.
            let _ = sender.send(inside);
        });
        let begun = now();
        loop {
            match entered.recv_timeout(Duration::from_millis(20)) {
                Ok(inside) => return inside,
                Err(RecvTimeoutError::Disconnected) => return None,
                Err(RecvTimeoutError::Timeout) if cancel.load(Ordering::Relaxed) => return None,
                Err(RecvTimeoutError::Timeout) if now().since(begun) < PATIENCE => {}
                Err(RecvTimeoutError::Timeout) => {
                    let late = format!("the node did not let us in within {PATIENCE:?}");
                    return Some(Self { attached: Err(late), load });
                }
            }
        }
    }

    /// Why it is not there.
    pub fn refusal(&self) -> Option<String> {
        self.attached.as_ref().err().cloned()
    }

    /// Begins to ask.
    pub fn begin(self, flows: Flows) -> InsideSampler {
        let (sender, samples) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&stop);
        let thread = std::thread::spawn(move || {
            let attached = match self.attached {
                Ok(attached) => attached,
                Err(reason) => {
                    // Whoever took the samples is gone only with the run.
                    let _ = sender.send(unread(reason));
                    return;
                }
            };
            let mut numbering = Numbering::default();
            let mut pace = Pace::new(EVERY, now());
            loop {
                let last = until.load(Ordering::Relaxed);
                let evidence = match pass(&attached, &flows, &mut numbering) {
                    Ok(evidence) if self.load == OfLoad::Counted => {
                        of_load(attached.node(), &mut numbering, evidence)
                    }
                    Ok(evidence) => evidence,
                    // Slow once; what follows may be there in time.
                    Err(fault) if attached.node().alive().is_ok() && !is_over(&fault) => {
                        unread(fault.to_string())
                    }
                    Err(fault) => {
                        let _ = sender.send(unread(fault.to_string()));
                        return;
                    }
                };
                if sender.send(evidence).is_err() || last {
                    break;
                }
                let next = pace.next(now());
                while now() < next && !until.load(Ordering::Relaxed) {
                    std::thread::sleep(next.since(now()).min(Duration::from_millis(20)));
                }
            }
            // The node does it by itself if this does not go.
            let _ = attached.detach_within(PATIENCE);
        });
        InsideSampler { samples, stop, thread }
    }
}

fn unread(reason: String) -> Evidence {
    let mut evidence = Evidence::default();
    evidence.unread.insert(ID.to_owned(), reason);
    evidence
}

fn is_over(fault: &ProbeFault) -> bool {
    fault.is_lost() || matches!(fault, ProbeFault::Gone(_))
}

fn pass(
    attached: &Attached,
    flows: &Flows,
    numbering: &mut Numbering,
) -> Result<Evidence, ProbeFault> {
    for flow in flows.snapshot() {
        numbering.engine_flow(flow.id, flow.server, flow.client);
    }
    let rows = attached.sample(PATIENCE)?;
    let mut evidence = Evidence::default();
    numbering.take(now(), &rows, &mut evidence);
    Ok(evidence)
}

/// Adds what both nodes counted of the load between them. Source: `linerate_between_counts:told/0`.
fn of_load(node: &Node, numbering: &mut Numbering, mut evidence: Evidence) -> Evidence {
    let told = node.call("linerate_between_counts", "told", Vec::new(), PATIENCE);
    let at = now();
    let unread = |why: String| (between::ID.to_owned(), why);
    match told.as_ref().map(as_tuple) {
        Ok(Some([told, times])) => {
            numbering.take(at, &rows(told).unwrap_or_default(), &mut evidence);
            let times = as_list(times).unwrap_or_default();
            let times: Vec<(u64, u64)> = times.iter().filter_map(pair).collect();
            between::push_latency(at, &times, &mut evidence);
        }
        Ok(_) => evidence.unread.extend([unread("the node answered what is no count".into())]),
        Err(fault) => evidence.unread.extend([unread(fault.to_string())]),
    }
    evidence
}

fn pair(term: &Term) -> Option<(u64, u64)> {
    let [time, count] = as_tuple(term)? else { return None };
    Some((as_u64(time)?, as_u64(count)?))
}

/// The thread that asks.
pub struct InsideSampler {
    /// What it was told, pass by pass.
    pub samples: Receiver<Evidence>,
    stop: Arc<AtomicBool>,
    thread: JoinHandle<()>,
}

impl InsideSampler {
    /// The samples not yet taken, the last pass among them. The probe is out on return.
    pub fn finish(self) -> Vec<Evidence> {
        self.stop.store(true, Ordering::Relaxed);
        // It ends by itself; a panic in it leaves what it had sent.
        let _ = self.thread.join();
        self.samples.try_iter().collect()
    }
}
