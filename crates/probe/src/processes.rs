//! Samples the processes of Erlang VMs that are not entered, as [`crate::erlang`] reads them from memory.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use linerate_evidence::sources::{erlang as metrics, suspect};
use linerate_evidence::{Evidence, Subject};
use linerate_model::{Bytes, Timestamp};

use crate::erlang::{Doing, Seen, Vm};
use crate::pace::{Pace, Random, cpu_time};

/// How often, and one part in so many of a CPU at most.
///
/// Chosen: fifty samples in a run of five seconds; half a percent of a CPU.
const EVERY: Duration = Duration::from_millis(100);
const SHARE: u32 = 200;

/// To find out what a VM is takes some milliseconds, once.
///
/// Chosen: a tenth of a percent of a CPU in ten seconds.
const AT_FIRST: Duration = Duration::from_millis(10);

/// Of a program that may be a VM soon, which is looked at again: so often, and of so many processes at most.
///
/// Chosen: as often as the tree is walked; a service of Erlang has a handful of processes of the kernel.
const AGAIN: Duration = Duration::from_secs(1);
const FEW_MEMBERS: usize = 64;

/// Chosen: as many as are read completely in about two milliseconds.
const MOST: usize = 1000;

/// Processes that are told one by one.
///
/// Chosen: as the probe inside a node (`linerate_probe_processes`).
const TOLD: usize = 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct ProcessSampler {
    /// By process of the kernel; none: it is no such VM, or can't be read.
    vms: BTreeMap<u32, Option<Vm>>,
    /// When those that are none are tried again: some had only just begun.
    again: Timestamp,
    pace: Pace,
    sums: Sums,
    /// By the kernel's process and the VM's: linerate's number, and at how many instants it had messages or ran.
    known: BTreeMap<Id, (u32, u64)>,
    numbers: u32,
}

/// A process of the kernel, and one of its VM.
type Id = (u32, String);

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    rounds: u64,
    processes: u64,
    running: u64,
    traced: u64,
    collecting: u64,
    logging: u64,
    sleeping: u64,
    calling: u64,
}

impl ProcessSampler {
    pub(crate) fn new() -> Self {
        let pace = Pace::new(EVERY, SHARE).at_first(AT_FIRST).at_most(EVERY * 10);
        let (vms, known, again) = (BTreeMap::new(), BTreeMap::new(), Timestamp(0));
        Self { vms, again, pace, sums: Sums::default(), known, numbers: 0 }
    }

    /// When the next sample is due.
    pub(crate) fn next(&self) -> Timestamp {
        self.pace.next()
    }

    /// Reads the processes of all VMs among these processes of the kernel, and pushes what they are at.
    pub(crate) fn sample(
        &mut self,
        at: Timestamp,
        members: &[u32],
        random: &mut Random,
        evidence: &mut Evidence,
    ) {
        let began = cpu_time();
        self.find(at, members, evidence);
        let vms = self.vms.iter_mut().filter_map(|(pid, vm)| Some((*pid, vm.as_mut()?)));
        // One that ended is gone from the members at the next walk.
        let seen = vms.filter_map(|(pid, vm)| Some((pid, vm.processes(MOST).ok()?)));
        let seen = seen.flat_map(|(pid, seen)| seen.into_iter().map(move |of| (pid, of)));
        let seen: Vec<(u32, Seen)> = seen.collect();
        if !seen.is_empty() {
            self.take(&seen);
            self.push(at, &seen, evidence);
        }
        self.pace.sampled(at, cpu_time().saturating_sub(began), random);
    }

    /// Looks which of the members are such VMs, as far as that is not known.
    fn find(&mut self, at: Timestamp, members: &[u32], evidence: &mut Evidence) {
        if self.vms.len() != members.len() || !members.iter().all(|pid| self.vms.contains_key(pid))
        {
            let there: HashSet<&u32> = members.iter().collect();
            self.vms.retain(|pid, _| there.contains(pid));
        }
        let is_due = at >= self.again && members.len() <= FEW_MEMBERS;
        self.again = if is_due { at.after(AGAIN) } else { self.again };
        for pid in members {
            let vm = self.vms.entry(*pid);
            let is_new = matches!(vm, Entry::Vacant(_));
            let vm = vm.or_default();
            if is_new || is_due && vm.is_none() {
                *vm = Vm::of(*pid);
                if vm.is_none() && is_beam(*pid) {
                    let why =
                        "the memory of the VM can't be read: that needs root, and OTP 25 on x86-64";
                    evidence.unread.insert("erlang".into(), why.into());
                }
            }
        }
    }

    fn take(&mut self, seen: &[(u32, Seen)]) {
        let sums = &mut self.sums;
        sums.rounds += 1;
        for (vm, of) in seen {
            let is_at_work = runs(of.doing);
            sums.processes += 1;
            sums.running += u64::from(is_at_work);
            sums.traced += u64::from(is_at_work && of.traced);
            sums.collecting += u64::from(collects(of) && of.heap > metrics::LARGE);
            sums.logging += u64::from(is_logging(of));
            sums.sleeping += u64::from(waits_in(of, &metrics::SLEEP));
            sums.calling += u64::from(waits_in(of, &metrics::CALL));
            if is_at_work || of.mailbox > 0 {
                let numbers = &mut self.numbers;
                let known = self.known.entry((*vm, of.pid.clone())).or_insert_with(|| {
                    *numbers += 1;
                    (*numbers, 0)
                });
                known.1 += 1;
            }
        }
        // Chosen: those that were so once only are forgotten when there are many times as many as are told.
        if self.known.len() > TOLD * 50 {
            self.known.retain(|_, (_, often)| *often > 1);
        }
    }

    fn push(&self, at: Timestamp, seen: &[(u32, Seen)], evidence: &mut Evidence) {
        let Sums { rounds, processes, running, traced, collecting, logging, sleeping, calling } =
            self.sums;
        let mut push = |metric, count| evidence.push(at, Subject::Target, metric, count);
        push(metrics::ROUNDS, rounds);
        push(metrics::PROCESSES, processes);
        push(metrics::RUNNING, running);
        push(metrics::TRACED, traced);
        push(metrics::COLLECTING, collecting);
        push(metrics::LOGGING, logging);
        push(metrics::SLEEPING, sleeping);
        push(metrics::CALLING, calling);
        let known = |(vm, of): &(u32, Seen)| self.known.get(&(*vm, of.pid.clone())).copied();
        let mut told: Vec<_> = seen.iter().filter_map(|of| Some((known(of)?, &of.1))).collect();
        told.sort_unstable_by_key(|((number, often), _)| (u64::MAX - often, *number));
        for ((number, _), of) in told.into_iter().take(TOLD) {
            let subject = Subject::Process(number);
            evidence.push(at, subject, suspect::MAILBOX, of.mailbox);
            evidence.push(at, subject, suspect::RUNNING, u64::from(runs(of.doing)));
            evidence.push(at, subject, suspect::COLLECTING, u64::from(collects(of)));
            evidence.push(at, subject, suspect::TRACED, u64::from(of.traced));
            evidence.push(at, subject, suspect::HEAP, Bytes(of.heap));
            let mut fact = |name: &str, text: String| evidence.push_fact(subject, name, text);
            fact("pid", of.pid.clone());
            let name = of.name.as_ref().or(of.initial.as_ref());
            name.into_iter().for_each(|name| fact("name", name.clone()));
            of.function.iter().for_each(|function| fact("function", function.clone()));
            let stack: Vec<&str> =
                of.function.iter().chain(&of.stack).map(String::as_str).collect();
            fact("stack", stack.join(" < "));
            if of.doing == Doing::Waiting {
                fact("wait", if is_logging(of) { "logger" } else { "receive" }.to_owned());
            }
        }
    }
}

fn is_beam(pid: u32) -> bool {
    std::fs::read(format!("/proc/{pid}/comm")).is_ok_and(|name| name == b"beam.smp\n")
}

/// Whether it ran, could have run, or collected garbage, as `suspect.running` has it.
fn runs(doing: Doing) -> bool {
    matches!(doing, Doing::Running | Doing::Runnable | Doing::Collecting)
}

/// Whether its garbage is collected: between the steps of a long collection it runs, in the call that asked for one.
fn collects(of: &Seen) -> bool {
    of.doing == Doing::Collecting || runs(of.doing) && is_in(of, &metrics::COLLECT)
}

fn waits_in(of: &Seen, these: &[&str]) -> bool {
    of.doing == Doing::Waiting && is_in(of, these)
}

fn is_in(of: &Seen, these: &[&str]) -> bool {
    of.function.as_deref().is_some_and(|function| these.contains(&function))
}

fn is_logging(of: &Seen) -> bool {
    of.doing == Doing::Waiting
        && of.stack.iter().any(|function| metrics::calls_log_handlers(function))
}
