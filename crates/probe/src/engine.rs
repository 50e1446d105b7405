//! The engine's own threads, those of its other processes among them, and the control groups of this process.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use linerate_evidence::Evidence;
use linerate_evidence::sources::engine::{Engine, Reading, ThreadReading, is_engine_thread};
use linerate_model::Timestamp;

use crate::groups::{Group, groups_of};
use crate::kept::Kept;
use crate::tree::{numbers, read};

/// The source it reads.
pub(crate) const ID: &str = "engine";

/// How often threads are looked for.
///
/// Chosen: they begin together, before the run, and stay.
const LIST_EVERY: Duration = Duration::from_secs(1);

/// The processes that make the load beside this one, as they come and go.
#[derive(Clone, Debug, Default)]
pub struct EngineProcesses(Arc<Mutex<BTreeSet<u32>>>);

impl EngineProcesses {
    /// One more.
    pub fn add(&self, pid: u32) {
        self.with(|pids| pids.insert(pid));
    }

    /// One has ended.
    pub fn remove(&self, pid: u32) {
        self.with(|pids| pids.remove(&pid));
    }

    fn with<T>(&self, work: impl FnOnce(&mut BTreeSet<u32>) -> T) -> T {
        // The set is whole, even after a panic.
        work(&mut self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }
}

/// See the module. Where this process has no engine it finds no thread, and pushes nothing.
#[derive(Debug, Default)]
pub(crate) struct OwnThreads {
    pub(crate) others: EngineProcesses,
    /// `schedstat` by thread.
    threads: BTreeMap<u32, Kept>,
    groups: Vec<Group>,
    sums: Engine,
    next_list: Timestamp,
}

impl OwnThreads {
    /// Measured, CPU time on two cores that other work had filled: 55 us for two threads and two groups,
    /// 130 us more once a second.
    pub(crate) fn sample(
        &mut self,
        now: &impl Fn() -> Timestamp,
        evidence: &mut Evidence,
    ) -> Result<(), String> {
        let at = now();
        // A run's experiment has threads of its own, one step's after the other.
        let lists = at >= self.next_list || self.threads.is_empty();
        let found = if lists { self.list() } else { Ok(()) };
        if lists {
            self.next_list = at.after(LIST_EVERY);
        }
        let mut threads = Vec::new();
        // One that can't be read has ended.
        self.threads.retain(|tid, kept| {
            let Ok(schedstat) = kept.read() else { return false };
            // A thread's own folder is there under its number too, whichever process it is of.
            let status = lists.then(|| read(format!("/proc/{tid}/status")).ok());
            let schedstat = schedstat.to_vec();
            threads.push(ThreadReading { tid: *tid, schedstat, status: status.flatten() });
            true
        });
        let groups = self.groups.iter_mut().filter_map(Group::read).collect();
        let reading = Reading { threads, groups };
        self.sums.read(now(), &reading, evidence).map_err(|error| error.to_string())?;
        found
    }

    fn list(&mut self) -> Result<(), String> {
        let others = self.others.with(|pids| pids.iter().map(u32::to_string).collect::<Vec<_>>());
        for process in std::iter::once("self").chain(others.iter().map(String::as_str)) {
            let tasks = format!("/proc/{process}/task");
            for tid in numbers(&tasks) {
                if self.threads.contains_key(&tid) {
                    continue;
                }
                let comm = read(format!("{tasks}/{tid}/comm")).unwrap_or_default();
                if !is_engine_thread(&comm) {
                    continue;
                }
                match Kept::open(format!("{tasks}/{tid}/schedstat")) {
                    Ok(kept) => self.threads.insert(tid, kept),
                    // Another process's may have ended meanwhile.
                    Err(_) if process != "self" => continue,
                    Err(error) => return Err(error.to_string()),
                };
                // They begin in the same groups as this process.
                if self.groups.is_empty() {
                    self.groups = groups_of("self");
                }
            }
        }
        Ok(())
    }
}
