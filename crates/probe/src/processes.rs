//! What the processes of Erlang VMs are at, where nobody is let in: sampled by [`crate::erlang`], which reads their memory.

use std::collections::BTreeMap;
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

/// Chosen: as many as are read completely in about two milliseconds.
const MOST: usize = 1000;

/// Processes that are told one by one.
///
/// Chosen: as the probe inside a node (`linerate_probe_processes`).
const TOLD: usize = 20;

/// See the module.
#[derive(Debug)]
pub(crate) struct ProcessSampler {
    /// By process of the kernel; none: it is no such VM, or may not be read.
    vms: BTreeMap<u32, Option<Vm>>,
    pace: Pace,
    sums: Sums,
    /// By pid: linerate's number, and at how many instants it had messages or ran.
    known: BTreeMap<String, (u32, u64)>,
    numbers: u32,
}

#[derive(Clone, Copy, Debug, Default)]
struct Sums {
    rounds: u64,
    processes: u64,
    running: u64,
    traced: u64,
    collecting: u64,
    logging: u64,
}

impl ProcessSampler {
    pub(crate) fn new() -> Self {
        let pace = Pace::new(EVERY, SHARE).at_most(EVERY * 2);
        let (vms, known) = (BTreeMap::new(), BTreeMap::new());
        Self { vms, pace, sums: Sums::default(), known, numbers: 0 }
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
        // To find out what a VM is takes some milliseconds, once.
        for pid in members {
            self.vms.entry(*pid).or_insert_with(|| Vm::of(*pid));
        }
        self.vms.retain(|pid, _| members.contains(pid));
        let (began, vms) = (cpu_time(), self.vms.values_mut().flatten());
        // One that ended is gone from the members at the next walk.
        let seen: Vec<Seen> = vms.filter_map(|vm| vm.processes(MOST).ok()).flatten().collect();
        if !seen.is_empty() {
            self.take(&seen);
            self.push(at, &seen, evidence);
        }
        self.pace.sampled(at, cpu_time().saturating_sub(began), random);
    }

    fn take(&mut self, seen: &[Seen]) {
        let sums = &mut self.sums;
        sums.rounds += 1;
        for of in seen {
            let is_at_work = runs(of.doing);
            sums.processes += 1;
            sums.running += u64::from(is_at_work);
            sums.traced += u64::from(is_at_work && of.traced);
            let collects = of.doing == Doing::Collecting && of.heap > metrics::LARGE;
            sums.collecting += u64::from(collects);
            sums.logging += u64::from(is_logging(of));
            if is_at_work || of.mailbox > 0 {
                let numbers = &mut self.numbers;
                let known = self.known.entry(of.pid.clone()).or_insert_with(|| {
                    *numbers += 1;
                    (*numbers, 0)
                });
                known.1 += 1;
            }
        }
        let is_there = |pid: &String| seen.iter().any(|of| of.pid == *pid);
        // Chosen: ended ones are forgotten when there are many times as many as are told.
        if self.known.len() > TOLD * 50 {
            self.known.retain(|pid, _| is_there(pid));
        }
    }

    fn push(&self, at: Timestamp, seen: &[Seen], evidence: &mut Evidence) {
        let Sums { rounds, processes, running, traced, collecting, logging } = self.sums;
        let mut push = |metric, count| evidence.push(at, Subject::Target, metric, count);
        push(metrics::ROUNDS, rounds);
        push(metrics::PROCESSES, processes);
        push(metrics::RUNNING, running);
        push(metrics::TRACED, traced);
        push(metrics::COLLECTING, collecting);
        push(metrics::LOGGING, logging);
        let known = |of: &&Seen| self.known.contains_key(&of.pid);
        let mut told: Vec<_> =
            seen.iter().filter(known).map(|of| (self.known[&of.pid], of)).collect();
        told.sort_unstable_by_key(|((number, often), _)| (u64::MAX - often, *number));
        for ((number, _), of) in told.into_iter().take(TOLD) {
            let subject = Subject::Process(number);
            evidence.push(at, subject, suspect::MAILBOX, of.mailbox);
            evidence.push(at, subject, suspect::RUNNING, u64::from(runs(of.doing)));
            evidence.push(
                at,
                subject,
                suspect::COLLECTING,
                u64::from(of.doing == Doing::Collecting),
            );
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

/// Whether it ran, could have run, or collected garbage, as `suspect.running` has it.
fn runs(doing: Doing) -> bool {
    matches!(doing, Doing::Running | Doing::Runnable | Doing::Collecting)
}

fn is_logging(of: &Seen) -> bool {
    of.doing == Doing::Waiting
        && of.stack.iter().any(|function| metrics::calls_log_handlers(function))
}
