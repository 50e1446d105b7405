//! Dirty schedulers: those for computing, or those for I/O, all have a job, and more jobs wait.
//!
//! `ceiling = attained / utilisation of that pool`
//!
//! They run what would block a normal scheduler: file operations (I/O), long native code as of crypto
//! (computing), and collections of large heaps (computing as well, told apart here).
//! Blind spot: jobs of the service and of anything else on the node share the pools.
//! Source: `+SDcpu`, `+SDio`, erl(1).

use linerate_evidence::sources::vm;
use linerate_evidence::{Metric, Missing, Of};
use linerate_model::OpRate;

use super::large_heap::are_collected;
use super::suspects::serving_node;
use crate::predict::Predicted;
use crate::roof::{Advice, Binds, Ceiling, Finding, Kind, Roof};
use crate::run::{Run, duration};
use crate::utilisation::Utilisation;

// Chosen: a pool that is this busy, with jobs that wait in most samples.
const FULL: f64 = 0.85;

// Chosen: of a CPU that must be idle for more schedulers that compute to be of use.
const SPARE: f64 = 0.3;

/// One of the two pools.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum DirtySchedulers {
    Computing,
    Io,
}

impl DirtySchedulers {
    fn active(self) -> (Metric<u64>, Metric<u64>) {
        match self {
            Self::Computing => (vm::DIRTY_CPU_ACTIVE, vm::DIRTY_CPU_TOTAL),
            Self::Io => (vm::DIRTY_IO_ACTIVE, vm::DIRTY_IO_TOTAL),
        }
    }

    fn queue(self) -> Metric<u64> {
        match self {
            Self::Computing => vm::RUN_QUEUE_DIRTY_CPU,
            Self::Io => vm::RUN_QUEUE_DIRTY_IO,
        }
    }

    fn count(self) -> Metric<u64> {
        match self {
            Self::Computing => vm::DIRTY_CPU_SCHEDULERS,
            Self::Io => vm::DIRTY_IO_SCHEDULERS,
        }
    }

    fn flag(self) -> &'static str {
        match self {
            Self::Computing => "+SDcpu",
            Self::Io => "+SDio",
        }
    }

    /// How many of them take jobs.
    fn online(self, node: &Of, all: u64) -> u64 {
        match self {
            Self::Computing => node.last(vm::DIRTY_CPU_SCHEDULERS_ONLINE).unwrap_or(all),
            Self::Io => all,
        }
    }

    /// How many there should be: a job of I/O mostly waits, one of computing wants a CPU.
    fn enough(self, count: u64, cpus: u64, waiting: f64) -> u64 {
        match self {
            Self::Computing => cpus.max(count + 1),
            Self::Io => (count * 2).max(count + waiting.ceil() as u64).clamp(10, 1024),
        }
    }
}

impl Roof for DirtySchedulers {
    fn id(&self) -> &'static str {
        match self {
            Self::Computing => "vm.dirty-cpu",
            Self::Io => "vm.dirty-io",
        }
    }

    fn title(&self) -> &'static str {
        match self {
            Self::Computing => "dirty schedulers for computing",
            Self::Io => "dirty schedulers for I/O",
        }
    }

    fn kind(&self) -> Kind {
        Kind::Defect
    }

    fn page(&self) -> &'static str {
        match self {
            Self::Computing => include_str!("../../../../docs/roofs/vm.dirty-cpu.md"),
            Self::Io => include_str!("../../../../docs/roofs/vm.dirty-io.md"),
        }
    }

    fn judge(&self, run: &Run) -> Result<Finding, Missing> {
        let node = match serving_node(run) {
            Ok(node) => node,
            Err(finding) => return Ok(finding),
        };
        let (active, total) = self.active();
        let share = node.delta(active)?.0 as f64 / (node.delta(total)?.0 as f64).max(1.0);
        let queue = node.all(self.queue())?;
        let mean = |sum: u64| sum as f64 / queue.len() as f64;
        let waiting = mean(queue.iter().map(|(_, length)| *length).sum());
        let often = mean(queue.iter().filter(|(_, length)| *length > 0).count() as u64);
        let all = node.last(self.count())?;
        let count = self.online(&node, all).max(1);
        let used = share * all as f64 / count as f64;
        let attained = run.attained().0.max(1e-9);
        let rate = OpRate(attained / used.max(1e-3));
        let seen = format!(
            "{:.2} of {count} had a job, and {waiting:.1} more jobs waited",
            used * count as f64
        );
        let full = used >= FULL && often >= 0.5;
        let binds = match self.in_vain(run) {
            _ if !full || !run.is_held_back() => Binds::No(seen),
            Some(why) => Binds::No(format!("{seen}; {why}")),
            None => Binds::Yes(seen),
        };
        let cpus = u64::from(run.header.target.cpus.unwrap_or(run.header.host.cpus));
        let enough = self.enough(count, cpus, waiting);
        // Of those that compute the emulator has no more than of the others (erl(1)).
        let few = node.last(vm::SCHEDULERS_ONLINE).is_ok_and(|schedulers| schedulers < enough);
        let gain = (enough as f64 / count as f64).min(1.0 + waiting / count as f64);
        Ok(Finding::Ceiling(Ceiling {
            rate,
            sum: format!(
                "{count} of them, {} of a job {} = {rate}",
                duration(used * count as f64 / attained),
                run.each()
            ),
            binds,
            advice: vec![Advice {
                knob: "target.vm_flags".into(),
                value: self.flags(run, enough, few),
                does: format!("runs {enough} such jobs at once"),
                by_hand: match self {
                    Self::Computing if few => format!(
                        "+S {enough}:{enough} +SDcpu {enough}:{enough} in vm.args: there can be one for each \
                         scheduler"
                    ),
                    Self::Computing => format!(
                        "+SDcpu {enough}:{enough} in vm.args, or take the flag out: by default there is one \
                         for each scheduler"
                    ),
                    Self::Io => format!(
                        "+SDio {enough} in vm.args; 16 to 64 is usual for databases. Or fewer and larger \
                         file operations"
                    ),
                },
                predicted: Predicted {
                    low: OpRate(attained),
                    mid: OpRate(attained * (1.0 + (gain - 1.0) * 0.7)),
                    high: OpRate(attained * gain * 1.3),
                },
            }],
        }))
    }
}

impl DirtySchedulers {
    /// Why more of them would change nothing.
    fn in_vain(self, run: &Run) -> Option<String> {
        if self == Self::Io {
            return None;
        }
        if are_collected(run) {
            return Some("the jobs are collections of large heaps".into());
        }
        let host = Utilisation::of(run).host.ok()?;
        (host.cpus - host.busy < SPARE).then(|| "there is no idle CPU for more of them".into())
    }

    /// The plan's flags with as many; and as many other schedulers, where they are too few for that.
    fn flags(self, run: &Run, enough: u64, few: bool) -> String {
        let mut flags: Vec<String> = Vec::new();
        let mut words = run.header.plan.target.vm_flags.iter();
        while let Some(word) = words.next() {
            let number = word.trim_start_matches(|each: char| !each.is_ascii_digit());
            let flag = word.strip_suffix(number).unwrap_or(word);
            if flag != self.flag() && !(few && flag == "+S") {
                flags.push(word.clone());
            } else if number.is_empty() {
                let _ = words.next();
            }
        }
        if few {
            flags.push(format!("+S {enough}:{enough}"));
        }
        flags.push(match self {
            Self::Computing => format!("+SDcpu {enough}:{enough}"),
            Self::Io => format!("+SDio {enough}"),
        });
        flags.join(" ")
    }
}
