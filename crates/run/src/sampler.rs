//! The probe of the kernel, on a thread of its own.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use linerate_engine::{Flows, now};
use linerate_evidence::Evidence;
use linerate_probe::{EngineProcesses, FlowAddress, Probe, Scope};

use crate::links::Links;
use crate::places::{self, Names};

// Chosen: ten samples in a run of two seconds; a sampling round costs a millisecond or two.
const SAMPLE_EVERY: Duration = Duration::from_millis(200);

/// See the module.
pub(crate) struct Sampler {
    /// Sampling round by sampling round.
    pub samples: Receiver<Evidence>,
    stop: Arc<AtomicBool>,
    /// Whether connections are sampled no more.
    no_flows: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<()>,
}

impl Sampler {
    pub(crate) fn start(
        scope: Scope,
        flows: Flows,
        engine: EngineProcesses,
        mut names: Names,
        mut links: Links,
    ) -> Self {
        let (sender, samples) = channel();
        let stop = Arc::new(AtomicBool::new(false));
        let until = Arc::clone(&stop);
        let no_flows = Arc::new(AtomicBool::new(false));
        let without = Arc::clone(&no_flows);
        let thread = std::thread::spawn(move || {
            let mut probe = Probe::open(scope).with_engine(engine);
            let mut next = now();
            loop {
                let last = until.load(Ordering::Relaxed);
                let gone = without.load(Ordering::Relaxed);
                let flows = if gone { Vec::new() } else { flows.snapshot() };
                let asked: Vec<FlowAddress> = flows.iter().map(places::flow_address).collect();
                let mut evidence = probe.sample(now, &asked);
                names.tell(&flows, &mut evidence);
                links.tell(now, &mut evidence);
                if sender.send(evidence).is_err() || last {
                    return;
                }
                next = next.after(SAMPLE_EVERY);
                let is_due =
                    || until.load(Ordering::Relaxed) || gone != without.load(Ordering::Relaxed);
                while now() < next && !is_due() {
                    std::thread::sleep(next.since(now()).min(Duration::from_millis(20)));
                }
            }
        });
        Self { samples, stop, no_flows, thread }
    }

    /// The connections of the main phase are gone: only the rest is sampled from now on, first at once.
    pub(crate) fn forget_flows(&self) {
        self.no_flows.store(true, Ordering::Relaxed);
    }

    /// The samples not yet taken, the last round among them.
    pub(crate) fn finish(self) -> Vec<Evidence> {
        self.stop.store(true, Ordering::Relaxed);
        // It ends by itself; a panic in it leaves what it had sent.
        let _ = self.thread.join();
        self.samples.try_iter().collect()
    }
}
