//! Large heaps that are collected: processes keep much and make much garbage, and each collection copies
//! what they keep.
//!
//! `ceiling = attained / utilisation of what is busiest`, the collections in it
//!
//! Large heaps are collected on dirty schedulers for computing, and small ones where their process runs:
//! both are counted. A process that is collected answers nobody until that is done, so it is never seen
//! at it; what is seen is who has a large heap and is at work.
//! Blind spot: native code on dirty schedulers (crypto, images) in the same node counts as collection.
//! Source: "Garbage collector" in the ERTS user's guide; `fullsweep_after`, erlang(3).

use linerate_evidence::sources::{port, vm, waits};
use linerate_evidence::{Missing, Side};
use linerate_model::{Bytes, OpRate};

use super::suspects::{Suspect, serving_node, suspects};
use crate::node_cpu::NodeCpu;
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::Run;

// Chosen: of all the work of the node's schedulers. Healthy nodes stay below a tenth.
const COLLECTING: f64 = 0.4;

// Chosen: smaller ones are copied in a millisecond. Unit: bytes.
const LARGE: f64 = 4.0 * 1024.0 * 1024.0;

// Chosen: of the looks. One that is collected answers when that is done, mostly on its way to rest: it was
// seen at work in 40 to 60 % of looks where it did nothing else.
const WORKING: f64 = 0.2;

pub(super) struct LargeHeap;

impl Roof for LargeHeap {
    fn id(&self) -> &'static str {
        "vm.large-heap"
    }

    fn title(&self) -> &'static str {
        "garbage collection of large heaps"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/vm.large-heap.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let node = match serving_node(run) {
            Ok(node) => node,
            Err(finding) => return Ok(finding),
        };
        let mut large = suspects(run);
        large.retain(|suspect| suspect.heap >= LARGE);
        let Some(worst) = large.iter().max_by(|a, b| weight(a).total_cmp(&weight(b))) else {
            // Without a look at any process nothing is known of heaps.
            node.last(waits::ASKED)?;
            return Ok(Finding::DoesNotApply(format!(
                "no process that was looked at has {} of heap",
                Bytes(LARGE as u64)
            )));
        };
        let cpu = NodeCpu::of(run)?;
        let share = share(&cpu);
        let attained = run.attained().0.max(1e-9);
        let rate = OpRate(attained / worst.running.clamp(0.05, 1.0));
        let events = node.delta(vm::LONG_GC).map_or(0, |(events, _)| events);
        let longest = node.max(vm::LONG_GC_WORST).map_or(0.0, |longest| longest.as_secs_f64());
        let mut seen = format!(
            "{} has {} of heap and was at work in {:.0} % of looks; {:.2} of {:.2} schedulers' work was \
             garbage collection, {:.2} of it on dirty ones",
            worst.words(),
            Bytes(worst.heap as u64),
            worst.running * 100.0,
            cpu.collecting + cpu.dirty_cpu,
            cpu.scheduled(),
            cpu.dirty_cpu
        );
        if events > 0 {
            seen.push_str(&format!(
                "; {events} collections took 20 ms or more, the longest {:.0} ms",
                longest * 1e3
            ));
        }
        let listed = is_listed(run);
        let binds = if listed {
            Binds::No(format!("{seen}; data is delivered as lists, and that is the garbage"))
        } else if share >= COLLECTING && worst.running >= WORKING && run.is_held_back() {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        let sweeps = worst.fullsweep_after == Some("0");
        let advice = if sweeps {
            Advice {
                knob: "fullsweep_after".into(),
                value: "65535".into(),
                does: "copies only what is new at each collection, and all of it seldom".into(),
                by_hand:
                    "take fullsweep_after 0 out of spawn_opt, process_flag or the environment \
                          (ERL_FULLSWEEP_AFTER); what it was set for, binaries that are held, \
                          erlang:garbage_collect/1 of that process once a minute does too"
                        .into(),
                predicted: without_collecting(attained, share),
            }
        } else {
            Advice {
                knob: "keys".into(),
                value: "1000".into(),
                does: "keeps less in the process, so that a collection has less to copy".into(),
                by_hand: "keep the state in ets, which is not collected, or in several processes; a larger \
                          min_heap_size collects less often"
                    .into(),
                predicted: without_collecting(attained, share),
            }
        };
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "{:.0} % of the node's work is collection, and {} is at it {:.0} % of the time = {rate}",
                share * 100.0,
                worst.name,
                worst.running * 100.0
            ),
            binds,
            advice: vec![advice],
        }))
    }
}

/// The part of the node's work that was collection.
fn share(cpu: &NodeCpu) -> f64 {
    (cpu.collecting + cpu.dirty_cpu) / cpu.scheduled().max(1e-6)
}

/// Who is at work most, and of those the one with the largest heap.
fn weight(suspect: &Suspect) -> f64 {
    suspect.running.min(WORKING) + suspect.heap / 1e15
}

/// Whether what dirty schedulers compute is the collection of large heaps.
pub(super) fn are_collected(run: &Run) -> bool {
    suspects(run).iter().any(|suspect| suspect.heap >= LARGE && suspect.running >= WORKING)
}

/// Whether what this process does most of its time is to have its heap collected, and that is what a node's
/// work is.
pub(super) fn is_collecting(run: &Run, suspect: &Suspect, cpu: &NodeCpu) -> bool {
    let collected = cpu.collecting + cpu.dirty_cpu;
    suspect.heap >= LARGE
        && share(cpu) >= COLLECTING
        && collected >= 0.5 * suspect.running
        && !is_listed(run)
}

/// Whether connections that carry something deliver lists, whose elements are 16 bytes each.
fn is_listed(run: &Run) -> bool {
    run.flows(Side::Server).iter().any(|flow| {
        let listed = flow.last(port::LIST_MODE).is_ok_and(|mode| mode > 0);
        // Where no growth was seen it may have carried something.
        listed && flow.delta(port::RECV_OCT).map_or(true, |(bytes, _)| bytes.0 > 0)
    })
}

fn without_collecting(attained: f64, share: f64) -> Predicted {
    let gain = 1.0 / (1.0 - share.min(0.95));
    Predicted {
        low: OpRate(attained),
        mid: OpRate(attained * (1.0 + (gain - 1.0) * 0.7)),
        high: OpRate(attained * gain * 2.0),
    }
}
