//! The kernel's side of a node on another host, from files that the node itself read there.
//!
//! Source: `agent/src/probe/linerate_probe_kernel.erl`: `/proc/self` of the node, its threads, its control groups,
//! `/proc/stat` and `/proc/net`. Each text is read by the source that reads it on this host, and its numbers have the
//! same subjects: `target`, `host`, `cpu/N`, `stack/server`.
//!
//! Blind spots: processes that the node started are no part of `target`; of a node with more than 256 threads the
//! others are left out.

use std::collections::BTreeMap;

use linerate_model::Timestamp;

use super::node::{NodeRow, NodeSubject, NodeValue};
use super::process::{GroupReading, ProcessReading, Reading, ThreadReading, Tree};
use super::{Answer, Fetch, Parse, SOURCES, Source, process};
use crate::evidence::Evidence;
use crate::subject::{Side, Subject};

/// See the module.
#[derive(Clone, Debug, Default)]
pub struct Far {
    tree: Tree,
    /// The last reading of each thread: they are read in turn.
    threads: BTreeMap<u32, ThreadTexts>,
    /// The last reading.
    limits: Option<Vec<u8>>,
}

/// Its `status` and its `schedstat`.
type ThreadTexts = (Option<Vec<u8>>, Option<Vec<u8>>);

/// Files of the host and of the network namespace, as sources ask for them: the node reads these besides its own.
pub fn files() -> Vec<String> {
    let path = |source: &&Source| match source.fetch {
        Fetch::HostFile(path) => Some(path.to_owned()),
        Fetch::StackFile(name) => Some(format!("{STACK}{name}")),
        _ => None,
    };
    SOURCES.iter().filter_map(path).collect()
}

const STACK: &str = "/proc/net/";
const SELF: &str = "/proc/self/";
const TASK: &str = "/proc/self/task/";
/// The threads that will be read, by their numbers.
const TASKS: &str = "/proc/self/task";

/// The node's answer for one file.
enum Said<'a> {
    Text(&'a [u8]),
    Size(u64),
    Error(&'a str),
}

impl Far {
    /// Reads the files among a round's rows.
    pub fn take(&mut self, at: Timestamp, rows: &[NodeRow], evidence: &mut Evidence) {
        let mut own = Own { threads: std::mem::take(&mut self.threads), ..Own::default() };
        for row in rows {
            let NodeSubject::File(path) = &row.of else { continue };
            let Some(said) = row.values.iter().find_map(said) else { continue };
            match (of_all(path), said) {
                (Some((source, of)), Said::Text(bytes)) => {
                    let Parse::Each(parse) = source.parse else { continue };
                    if let Err(error) = parse(&Answer { at, of, bytes }, evidence) {
                        evidence.unread.insert(source.id.into(), error.to_string());
                    }
                }
                (Some((source, _)), Said::Error(why)) => {
                    evidence.unread.insert(source.id.into(), format!("{path}: {why}"));
                }
                (Some(_), Said::Size(_)) => {}
                (None, said) => own.take(path, said, evidence),
            }
        }
        let reading = own.reading();
        self.threads = own.threads;
        self.limits = own.limits.take().or(self.limits.take());
        let read = match reading {
            Some(reading) => self.tree.read(at, &reading, evidence),
            // They are not read in each round; without descriptors left only their number is reported.
            None => {
                let (limits, descriptors) = (self.limits.clone(), own.descriptors);
                let process = ProcessReading { limits, descriptors, ..ProcessReading::default() };
                process::push_descriptors(at, &[process], evidence)
            }
        };
        if let Err(error) = read {
            evidence.unread.insert(process::SOURCE.id.into(), error.to_string());
        }
    }
}

fn said((name, value): &(String, NodeValue)) -> Option<Said<'_>> {
    match value {
        NodeValue::Raw(bytes) => Some(Said::Text(bytes)),
        NodeValue::Number(size) if name == "size" => Some(Said::Size(*size)),
        NodeValue::Text(why) if name == "error" => Some(Said::Error(why)),
        _ => None,
    }
}

/// The source of a file that is of no process, and its subject.
fn of_all(path: &str) -> Option<(&'static Source, Subject)> {
    SOURCES.iter().find_map(|source| match source.fetch {
        Fetch::HostFile(of) if of == path => Some((*source, Subject::Host)),
        Fetch::StackFile(name) if path.strip_prefix(STACK) == Some(name) => {
            Some((*source, Subject::Stack(Side::Server)))
        }
        _ => None,
    })
}

/// A control group's `cpu.stat`, and its quota and period.
type GroupTexts = (Option<Vec<u8>>, [Vec<u8>; 2]);

/// A round's texts of the node's own process.
#[derive(Default)]
struct Own {
    stat: Option<Vec<u8>>,
    limits: Option<Vec<u8>>,
    descriptors: Option<u64>,
    threads: BTreeMap<u32, ThreadTexts>,
    /// By their folder.
    groups: BTreeMap<String, GroupTexts>,
}

impl Own {
    fn take(&mut self, path: &str, said: Said<'_>, evidence: &mut Evidence) {
        let bytes = match said {
            Said::Text(bytes) => bytes.to_vec(),
            Said::Size(open) => {
                self.descriptors = Some(open);
                return;
            }
            Said::Error(why) => {
                // A thread ends between two calls, and not every control group has every file.
                if let Some((tid, "status")) =
                    path.strip_prefix(TASK).and_then(|path| path.split_once('/'))
                    && let Ok(tid) = tid.parse::<u32>()
                {
                    self.threads.remove(&tid);
                }
                if path.starts_with(SELF) && !path.starts_with(TASK) {
                    evidence.unread.insert(process::SOURCE.id.into(), format!("{path}: {why}"));
                }
                return;
            }
        };
        if path == TASKS {
            let text = String::from_utf8_lossy(&bytes);
            let there: Vec<u32> =
                text.split_ascii_whitespace().filter_map(|tid| tid.parse().ok()).collect();
            self.threads.retain(|tid, _| there.contains(tid));
            for tid in there {
                self.threads.entry(tid).or_default();
            }
            return;
        }
        let Some((folder, file)) = path.rsplit_once('/') else { return };
        if let Some(thread) = folder.strip_prefix(TASK).and_then(|tid| tid.parse().ok()) {
            let (status, schedstat) = self.threads.entry(thread).or_default();
            match file {
                "status" => *status = Some(bytes),
                "schedstat" => *schedstat = Some(bytes),
                _ => {}
            }
            return;
        }
        match file {
            "stat" => self.stat = Some(bytes),
            "limits" => self.limits = Some(bytes),
            "cpu.stat" => self.groups.entry(folder.to_owned()).or_default().0 = Some(bytes),
            "cpu.max" | "cpu.cfs_quota_us" => {
                self.groups.entry(folder.to_owned()).or_default().1[0] = bytes;
            }
            "cpu.cfs_period_us" => self.groups.entry(folder.to_owned()).or_default().1[1] = bytes,
            _ => {}
        }
    }

    /// No threads before each was read once: a later one would be taken for a new one, with its whole past.
    fn reading(&mut self) -> Option<Reading> {
        let stat = self.stat.take()?;
        let read = |(status, schedstat): &ThreadTexts| [status.is_some(), schedstat.is_some()];
        let each: Vec<_> = self.threads.values().map(read).collect();
        // A kernel may have no `schedstat`.
        let all_read = each.iter().all(|[status, _]| *status)
            && each.windows(2).all(|pair| pair[0][1] == pair[1][1]);
        let text = String::from_utf8_lossy(&stat);
        let pid = text.split_ascii_whitespace().next()?.parse().ok()?;
        let threads =
            self.threads.iter().filter(|_| all_read).filter_map(|(tid, (status, schedstat))| {
                let (status, schedstat) = (status.clone()?, schedstat.clone());
                Some(ThreadReading { tid: *tid, status, schedstat, stat: None })
            });
        let groups =
            std::mem::take(&mut self.groups).into_values().filter_map(|(cpu_stat, max)| {
                let max = max.join(&b' ');
                let known = !max.trim_ascii().is_empty();
                Some(GroupReading { cpu_stat: cpu_stat?, max: known.then_some(max) })
            });
        let process = ProcessReading {
            io: None,
            pid,
            limits: self.limits.clone(),
            descriptors: self.descriptors,
            threads: threads.collect(),
            stat,
        };
        Some(Reading { processes: vec![process], groups: groups.collect() })
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use linerate_model::Bytes;

    use super::*;
    use crate::sources::{netstat, stat};

    fn file(path: &str, name: &str, value: NodeValue) -> NodeRow {
        NodeRow { of: NodeSubject::File(path.into()), values: vec![(name.into(), value)] }
    }

    fn text(path: &str, text: &str) -> NodeRow {
        file(path, "raw", NodeValue::Raw(text.into()))
    }

    fn status(rss: u32, switches: u32) -> String {
        format!(
            "Name:\t1_scheduler\nVmRSS:\t{rss} kB\nvoluntary_ctxt_switches:\t{switches}\n\
             nonvoluntary_ctxt_switches:\t2\n"
        )
    }

    #[test]
    fn files_of_the_node_tell_what_files_of_this_host_would() {
        let stat = "7 (beam.smp) S 1 7 7 0 -1 4194560 900 0 5 0 30 12 0 0 20 0 20 0 1 1 1";
        let rows = [
            text("/proc/self/stat", stat),
            text(
                "/proc/self/limits",
                "Max open files            1024                 524288               files\n",
            ),
            file("/proc/self/fd", "size", NodeValue::Number(33)),
            text("/proc/self/task", "7 9 11"),
            text("/proc/self/task/7/status", &status(500, 40)),
            text("/proc/self/task/7/schedstat", "1000 200 30\n"),
            text("/proc/self/task/9/status", &status(500, 60)),
            text("/proc/self/task/9/schedstat", "5000 300 30\n"),
            file("/proc/self/task/11/status", "error", NodeValue::Text("enoent".into())),
            text("/sys/fs/cgroup/a/cpu.stat", "nr_periods 9\nnr_throttled 4\nthrottled_usec 70\n"),
            text("/sys/fs/cgroup/a/cpu.max", "50000 100000\n"),
            text(
                "/sys/fs/cgroup/cpu/b/cpu.stat",
                "nr_periods 0\nnr_throttled 0\nthrottled_time 0\n",
            ),
            text("/sys/fs/cgroup/cpu/b/cpu.cfs_quota_us", "150000\n"),
            text("/sys/fs/cgroup/cpu/b/cpu.cfs_period_us", "100000\n"),
            text("/proc/stat", "cpu  100 0 0 0 0 0 0 0 0 0\ncpu0 100 0 0 0 0 0 0 0 0 0\n"),
            text("/proc/net/netstat", "TcpExt: ListenOverflows\nTcpExt: 3\n"),
            file("/proc/net/snmp", "error", NodeValue::Text("eacces".into())),
        ];
        let (mut far, mut evidence) = (Far::default(), Evidence::default());
        far.take(Timestamp(1), &rows, &mut evidence);
        let of = evidence.of(Subject::Target);
        assert_eq!(of.last(process::UTIME), Ok(Duration::from_millis(300)));
        assert_eq!(of.last(process::THREADS), Ok(2));
        assert_eq!(of.last(process::RSS), Ok(Bytes(512_000)));
        assert_eq!(of.last(process::RUN_DELAY), Ok(Duration::from_nanos(500)));
        assert_eq!((of.last(process::FDS), of.last(process::NOFILE)), (Ok(33), Ok(1024)));
        assert_eq!(of.last(process::NR_THROTTLED), Ok(4));
        assert_eq!(of.last(process::CPU_QUOTA), Ok(Duration::from_millis(500)));
        assert_eq!(evidence.of(Subject::Cpu(0)).last(stat::USER), Ok(Duration::from_secs(1)));
        let stack = evidence.of(Subject::Stack(Side::Server));
        assert_eq!(stack.last(netstat::LISTEN_OVERFLOWS), Ok(3));
        let unread: Vec<_> = evidence.unread.iter().collect();
        assert_eq!(unread, [(&"snmp".to_owned(), &"/proc/net/snmp: eacces".to_owned())]);
    }

    #[test]
    fn threads_that_are_read_in_turn_are_summed_once_all_are_known() {
        let stat =
            text("/proc/self/stat", "7 (b) S 1 7 7 0 -1 0 9 0 5 0 30 12 0 0 20 0 20 0 1 1 1");
        let thread = |tid: u32, delay: u32| {
            [
                text(&format!("/proc/self/task/{tid}/status"), &status(500, 40)),
                text(&format!("/proc/self/task/{tid}/schedstat"), &format!("1000 {delay} 3\n")),
            ]
        };
        let (mut far, mut evidence) = (Far::default(), Evidence::default());
        let mut pass = |at: u64, rows: &[&[NodeRow]]| {
            far.take(Timestamp(at), &rows.concat(), &mut evidence);
            evidence.of(Subject::Target).last(process::RUN_DELAY)
        };
        let stat = std::slice::from_ref(&stat);
        assert!(pass(1, &[stat, &[text(TASKS, "7 9")], &thread(7, 100)]).is_err());
        assert_eq!(pass(2, &[&thread(9, 50), stat]), Ok(Duration::from_nanos(150)));
        assert_eq!(pass(3, &[&thread(7, 130)]), Ok(Duration::from_nanos(150)));
        assert_eq!(pass(4, &[stat]), Ok(Duration::from_nanos(180)));
        // Without a descriptor for files their number is still reported.
        let limits = text("/proc/self/limits", "Max open files            64   64   files\n");
        let size = file("/proc/self/fd", "size", NodeValue::Number(63));
        assert!(pass(5, &[&[limits]]).is_ok() && pass(6, &[&[size]]).is_ok());
        // One has ended: what it did stays.
        assert_eq!(pass(7, &[stat, &[text(TASKS, "7")]]), Ok(Duration::from_nanos(180)));
        let of = evidence.of(Subject::Target);
        assert_eq!((of.last(process::FDS), of.last(process::NOFILE)), (Ok(63), Ok(64)));
    }

    #[test]
    fn a_pass_without_files_and_damaged_ones_add_nothing() {
        let (mut far, mut evidence) = (Far::default(), Evidence::default());
        far.take(Timestamp(1), &[], &mut evidence);
        assert_eq!((evidence.subjects().count(), evidence.unread.len()), (0, 0));
        far.take(Timestamp(1), &[text("/proc/self/stat", "x"), text("none", "x")], &mut evidence);
        assert_eq!(evidence.subjects().count(), 0);
        far.take(Timestamp(1), &[text("/proc/self/stat", "7 (a b")], &mut evidence);
        assert!(evidence.unread["process"].contains("PID (NAME)"));
    }

    #[test]
    fn every_file_that_is_asked_for_has_its_source() {
        let files = files();
        assert!(files.iter().any(|file| file == "/proc/net/netstat"));
        assert!(files.iter().all(|file| of_all(file).is_some()));
    }
}
