//! Synced writes: for each exchange the node waits until the disk has what it wrote, and it does so once
//! a record rather than once for many.
//!
//! `ceiling = connections / time in the disk's calls for an exchange`
//!
//! The calls are made on dirty I/O schedulers, so how many of those are busy is how many exchanges wait
//! for the disk; that it is for a sync is what the processes' stacks say (`waits.disk`).
//! Blind spot: a process that syncs for all others is one of the many; they wait for its mailbox then.
//! Source: fsync(2); `sync_nif`, erts/preloaded/src/prim_file.erl; erl(1), `+SDio`.

use linerate_evidence::Missing;
use linerate_evidence::sources::{vm, waits};
use linerate_model::OpRate;

use super::channels::{knob, rate, share};
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};

pub(super) struct DiskSync;

impl Roof for DiskSync {
    fn id(&self) -> &'static str {
        "app.disk-sync"
    }

    fn title(&self) -> &'static str {
        "writes that wait for the disk, one by one"
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        include_str!("../../../../docs/roofs/app.disk-sync.md")
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let node = match run.node() {
            Ok(node) => node,
            Err(finding) => return Ok(finding),
        };
        let threads = node.last(vm::DIRTY_IO_SCHEDULERS)? as f64;
        let busy = rate(&node, vm::DIRTY_IO_ACTIVE)? / rate(&node, vm::DIRTY_IO_TOTAL)?.max(1e-9)
            * threads;
        let syncing = share(&node, &[waits::DISK])?;
        if syncing == 0.0 {
            return Ok(Finding::DoesNotApply("no process was seen to wait for a sync".into()));
        }
        let attained = run.attained();
        let each = busy / attained.0.max(1e-9);
        let connections = f64::from(run.connections());
        let rate = OpRate(connections / each.max(1e-9));
        let service = run.load.service.mean() / 1e9;
        // Chosen: half of an exchange; where no service time is known, a scheduler for the disk busy most of
        // the time.
        let most = if run.is_watched() { busy >= 0.6 } else { each >= 0.4 * service };
        let seen = format!(
            "{busy:.2} dirty I/O schedulers were busy on average, {} for each; {:.0} % of the processes at \
             work were in a sync",
            duration(each),
            syncing * 100.0
        );
        // Chosen: some of those at work. Writes come between, and take their time where syncs are under way.
        let binds = if most && syncing >= 0.05 && run.is_held_back() {
            Binds::Yes(seen)
        } else {
            Binds::No(seen)
        };
        let (knob, value) = knob(run, "sync", "off", "app.sync");
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!("{} / {} in the disk's calls = {rate}", run.connections_words(), duration(each)),
            binds,
            advice: vec![Advice {
                knob,
                value,
                does: "takes the wait for the disk out of each record".into(),
                by_hand: "sync once for all that is queued (group commit), as disk_log and ra do; or less \
                          often, where losing the last records is bearable; a disk with a write cache that \
                          survives a power cut"
                    .into(),
                predicted: Predicted {
                    low: attained,
                    mid: OpRate(attained.0 * 5.0),
                    high: OpRate(attained.0 * 200.0),
                },
            }],
        }))
    }
}
