//! A node whose process can't be seen from here: what it is asked about its own host before it is watched, and
//! what the probe is to read there.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::time::Duration;

use linerate_beam::term::{as_atom, as_tuple, in_words};
use linerate_beam::{KernelSide, Node};
use linerate_evidence::HostFacts;
use linerate_evidence::sources::far;
use linerate_probe::{group_files, host_facts_of, host_files};

/// See the module.
#[derive(Clone, Debug, Default)]
pub(super) struct FarHost {
    /// The node's host; nothing in it is ours.
    pub(super) facts: HostFacts,
    /// CPUs that the node may use.
    pub(super) cpus: Option<u16>,
    pub(super) kernel: KernelSide,
}

const CGROUP: &str = "/proc/self/cgroup";
const MOUNTS: &str = "/proc/self/mountinfo";
const LIMITS: &str = "/proc/self/limits";
const STATUS: &str = "/proc/self/status";

/// Chosen: control groups of a process, as they are nested; a container's are three or four.
const MOST_GROUPS: usize = 8;

impl FarHost {
    /// Asks the node; or why its kernel can't be asked.
    pub(super) fn ask(node: &Node, patience: Duration) -> Result<Self, String> {
        let os =
            node.call("os", "type", Vec::new(), patience).map_err(|fault| fault.to_string())?;
        let linux = as_tuple(&os).and_then(|os| as_atom(os.get(1)?)) == Some("linux");
        if !linux {
            return Err(format!("the node's host is no Linux but {}", in_words(&os)));
        }
        let own = [CGROUP, MOUNTS, LIMITS, STATUS].map(str::to_owned);
        let paths: Vec<String> = own.into_iter().chain(host_files()).collect();
        let texts = node.read_files(&paths, patience).map_err(|fault| fault.to_string())?;
        if let Some(Err(why)) = texts.get(2) {
            return Err(format!("the node can't read {LIMITS}: {why}"));
        }
        let texts = paths.into_iter().zip(texts).filter_map(|(path, text)| {
            Some((path, String::from_utf8_lossy(&text.ok()?).into_owned()))
        });
        Ok(Self::of(&texts.collect()))
    }

    fn of(texts: &BTreeMap<String, String>) -> Self {
        let text = |path: &str| texts.get(path).cloned();
        let of = |path: &str| text(path).unwrap_or_default();
        let mut files = far::files();
        files.extend(["/proc/self/stat", LIMITS].map(str::to_owned));
        for group in group_files(&of(CGROUP), &of(MOUNTS)).into_iter().take(MOST_GROUPS) {
            let name = |path: PathBuf| path.into_os_string().into_string().ok();
            files.extend(name(group.cpu_stat));
            files.extend(group.max.into_iter().filter_map(name));
        }
        Self {
            facts: host_facts_of(text),
            cpus: allowed_cpus(&of(STATUS)),
            kernel: KernelSide { files, descriptors: most_descriptors(&of(LIMITS)) },
        }
    }
}

/// `Cpus_allowed:\tff,ffffffff`, of a process's `status`.
fn allowed_cpus(status: &str) -> Option<u16> {
    let mask = status.lines().find_map(|line| line.strip_prefix("Cpus_allowed:"))?;
    let bits: u32 = mask.chars().filter_map(|digit| Some(digit.to_digit(16)?.count_ones())).sum();
    u16::try_from(bits).ok().filter(|cpus| *cpus > 0)
}

/// `unlimited` is none.
fn most_descriptors(limits: &str) -> Option<u64> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    line.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_probe_is_to_read_what_the_sources_ask_for_and_the_nodes_own() {
        let texts = [
            (CGROUP, "0::/shop\n"),
            (MOUNTS, "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n"),
            (LIMITS, "Max open files            1024                 524288               files\n"),
            (
                STATUS,
                "Name:\tbeam.smp\nCpus_allowed:\t0f,00000003\nCpus_allowed_list:\t0-1,32-35\n",
            ),
            ("/proc/stat", "cpu  1\ncpu0 1\ncpu1 1\n"),
        ];
        let texts = texts.map(|(path, text)| (path.to_owned(), text.to_owned()));
        let far = FarHost::of(&texts.into());
        assert_eq!((far.cpus, far.facts.cpus, far.kernel.descriptors), (Some(6), 2, Some(1024)));
        let asks = |path: &str| far.kernel.files.iter().any(|file| file == path);
        assert!(asks("/proc/net/netstat") && asks("/proc/self/stat") && asks("/proc/stat"));
        assert!(asks("/sys/fs/cgroup/shop/cpu.max") && asks("/sys/fs/cgroup/cpu.stat"));
        let nothing = FarHost::of(&BTreeMap::new());
        assert_eq!((nothing.cpus, nothing.kernel.descriptors), (None, None));
    }
}
