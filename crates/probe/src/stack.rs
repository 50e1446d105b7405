//! One network namespace: its files, and a socket to ask it questions.

use std::path::Path;

use linerate_evidence::Side;
use linerate_evidence::sources::{Fetch, SOURCES, Source};

use crate::kept::Kept;
use crate::namespace::inside;
use crate::netlink::SockDiag;

/// See the module.
#[derive(Debug)]
pub(crate) struct Stack {
    /// Its subject.
    pub(crate) side: Side,
    /// The ends of flows that are in it.
    pub(crate) ends: Ends,
    pub(crate) files: Vec<(&'static Source, Kept)>,
    pub(crate) diag: Option<SockDiag>,
}

/// Ends of flows by side, each with its host's place among the hosts of that side.
pub(crate) type Ends = Vec<(Side, u16)>;

/// Sources that will not be read, and why.
type Faults = Vec<(&'static str, String)>;

impl Stack {
    /// Opens what it can, and returns what it could not.
    pub(crate) fn open(side: Side, ends: Ends, netns: Option<&Path>) -> (Self, Faults) {
        inside(netns, || Self::open_here(side, ends.clone())).unwrap_or_else(|error| {
            let path = netns.unwrap_or(Path::new("")).display().to_string();
            let reason = format!("the network namespace {path} could not be entered: {error}");
            let of_it = |fetch: Fetch| {
                matches!(fetch, Fetch::StackFile(_) | Fetch::Connection | Fetch::Listeners)
            };
            let faults = SOURCES.iter().filter(|source| of_it(source.fetch));
            let faults = faults.map(|source| (source.id, reason.clone())).collect();
            (Self { side, ends, files: Vec::new(), diag: None }, faults)
        })
    }

    fn open_here(side: Side, ends: Ends) -> (Self, Faults) {
        let mut stack = Self { side, ends, files: Vec::new(), diag: None };
        let mut faults = Vec::new();
        let diag = SockDiag::open();
        for source in SOURCES {
            match source.fetch {
                // `/proc/net` would be the namespace of the process's first thread.
                Fetch::StackFile(name) => match Kept::open(format!("/proc/thread-self/net/{name}"))
                {
                    Ok(kept) => stack.files.push((source, kept)),
                    Err(error) => faults.push((source.id, error.to_string())),
                },
                Fetch::Connection | Fetch::Listeners => {
                    if let Err(error) = &diag {
                        let reason = format!("a sock_diag socket could not be opened: {error}");
                        faults.push((source.id, reason));
                    }
                }
                Fetch::HostFile(_)
                | Fetch::TargetTree
                | Fetch::OwnThreads
                | Fetch::Threads
                | Fetch::Calls
                | Fetch::Peers
                | Fetch::Node
                | Fetch::Link
                | Fetch::FarEnd
                | Fetch::Census
                | Fetch::Capture
                | Fetch::Bursts => {}
            }
        }
        stack.diag = diag.ok();
        (stack, faults)
    }
}
