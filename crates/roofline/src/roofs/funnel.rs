//! Funnel: every request asks one process, which serves one caller at a time.
//!
//! `ceiling = attained / part of the time in which that process works`
//!
//! It has mail whenever it is looked at, it works, and schedulers have room: more of them would not help,
//! a second such process would.
//! Blind spot: a funnel that waits itself, for a disk or another node, works little; it looks idle here.
//! Source: the same as for one server of a closed network, Lazowska et al., 1984, chapter 5.

use linerate_evidence::Missing;
use linerate_model::OpRate;

use super::large_heap::is_collecting;
use super::suspects::{Suspect, serving_node, suspects};
use crate::node_cpu::NodeCpu;
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};

// Measured: a funnel of 50 us a call and 20 callers ran in 97 % of looks, of 1 ms in all of them; the next
// busiest process of healthy nodes ran in a third.
const WORKING: f64 = 0.8;

// Chosen: of the schedulers; above it there is no room for a second one.
const ROOM: f64 = 0.85;

// Chosen: a process with more mail than this has another trouble: nobody waits for its answers, or it
// searches its mailbox.
const CALLERS: u64 = 1000;

pub(super) struct Funnel;

impl Roof for Funnel {
    fn id(&self) -> &'static str {
        "vm.funnel"
    }

    fn title(&self) -> &'static str {
        "one process that all requests ask"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/vm.funnel.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        if let Err(finding) = serving_node(run) {
            return Ok(finding);
        }
        let node = NodeCpu::of(run)?;
        let mut found = suspects(run);
        found.retain(|suspect| suspect.with_mail >= 0.5 && !suspect.is_owner);
        let Some(funnel) = found.iter().max_by(|a, b| load(a).total_cmp(&load(b))) else {
            return Ok(Finding::DoesNotApply("no process had mail in most looks".into()));
        };
        let working = funnel.running;
        let attained = run.attained().0.max(1e-9);
        let rate = OpRate(attained / working.max(0.01));
        let seen = format!(
            "{} had {} messages waiting and worked in {:.0} % of looks, with {:.2} of {:.0} schedulers in use",
            funnel.words(),
            funnel.mailbox,
            working * 100.0,
            node.active,
            node.online
        );
        let room = node.active < ROOM * node.online;
        let binds = if working < WORKING {
            Binds::No(format!("{seen}: it waits for something itself"))
        } else if funnel.collecting > 0.5 * working {
            Binds::No(format!("{seen}: it collects garbage in most of them"))
        } else if is_collecting(run, funnel, &node) {
            Binds::No(format!("{seen}: most of that is the collection of its heap, vm.large-heap"))
        } else if funnel.mailbox > CALLERS {
            Binds::No(format!("{seen}: that is more than callers who wait for an answer"))
        } else if funnel.mailbox < 1 || !room || !run.is_held_back() {
            Binds::No(seen)
        } else {
            Binds::Yes(format!("{seen}; it was in {}", funnel.function))
        };
        // As many as there are schedulers with nothing to do, and no more than have callers.
        let spare = (node.online - node.active).max(0.0);
        let gain = (1.0 + spare).min(funnel.mailbox as f64 + 1.0);
        let shards = (node.online.ceil() as u64).max(2);
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "{}: one call at a time, {} each = {rate}",
                funnel.words(),
                duration(working / attained)
            ),
            binds,
            advice: vec![Advice {
                knob: "shards".into(),
                value: shards.to_string(),
                does: format!(
                    "spreads the calls over {shards} processes, each with a part of the keys"
                ),
                by_hand: format!(
                    "what it does for a call, do in the caller: read from ets ({{read_concurrency, true}}) or \
                     persistent_term, count with counters; else start one for each scheduler and choose by \
                     erlang:phash2(Key, {shards}). Its stack: {}",
                    if funnel.stack.is_empty() { "not seen" } else { funnel.stack }
                ),
                predicted: Predicted {
                    low: OpRate(attained),
                    mid: OpRate(attained * (1.0 + (gain - 1.0) * 0.7)),
                    high: OpRate(attained * gain * 1.3),
                },
            }],
        }))
    }
}

/// Who works most, and of those who work all the time the one with most mail.
fn load(suspect: &Suspect) -> f64 {
    suspect.running + suspect.mailbox.min(CALLERS) as f64 / 1e4
}
