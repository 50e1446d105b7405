//! The machine, as far as a roof needs it.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use linerate_evidence::HostFacts;
use rustix::process::{Resource, getrlimit};

use crate::namespace::inside;
use crate::owner::affinity;

/// Kernel settings that a roof reads, or that advice changes.
const SYSCTLS: &[&str] = &[
    "net.core.default_qdisc",
    "net.core.netdev_max_backlog",
    "net.core.rmem_max",
    "net.core.somaxconn",
    "net.core.wmem_max",
    "net.ipv4.ip_local_port_range",
    "net.ipv4.tcp_autocorking",
    "net.ipv4.tcp_congestion_control",
    "net.ipv4.tcp_fin_timeout",
    "net.ipv4.tcp_max_syn_backlog",
    "net.ipv4.tcp_mem",
    "net.ipv4.tcp_mtu_probing",
    "net.ipv4.tcp_rmem",
    "net.ipv4.tcp_slow_start_after_idle",
    "net.ipv4.tcp_syncookies",
    "net.ipv4.tcp_tw_reuse",
    "net.ipv4.tcp_wmem",
];

/// Facts of the machine this runs on; kernel settings are those of this network namespace.
/// What can't be read is left empty. [`HostFacts::engine_threads`] is filled in by the engine.
pub fn host_facts() -> HostFacts {
    let text = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let cpus = text("/proc/stat").lines().filter(|line| is_cpu(line)).count();
    HostFacts {
        kernel: rustix::system::uname().release().to_string_lossy().into_owned(),
        cpu_model: cpu_model(&text("/proc/cpuinfo")),
        cpus: u16::try_from(cpus).unwrap_or(u16::MAX),
        memory_bytes: memory(&text("/proc/meminfo")),
        descriptors: getrlimit(Resource::Nofile).current.unwrap_or(u64::MAX),
        sysctls: sysctls(),
        engine_cpus: affinity(None).unwrap_or(0),
        engine_threads: 0,
    }
}

/// Files with the same of another host, for a reader there.
pub fn host_files() -> Vec<String> {
    let fixed = [RELEASE, STAT, MEMINFO].map(str::to_owned);
    fixed.into_iter().chain(SYSCTLS.iter().map(|name| path_of(name))).collect()
}

const RELEASE: &str = "/proc/sys/kernel/osrelease";
const STAT: &str = "/proc/stat";
const MEMINFO: &str = "/proc/meminfo";

/// Facts of another host, by the texts of [`host_files`] there. The engine's stay empty, and so does the CPUs' model:
/// a machine with many takes long to print it.
pub fn host_facts_of(text: impl Fn(&str) -> Option<String>) -> HostFacts {
    let of = |path: &str| text(path).unwrap_or_default();
    let cpus = of(STAT).lines().filter(|line| is_cpu(line)).count();
    let setting = |name: &&str| Some(((*name).to_owned(), in_one_line(&text(&path_of(name))?)));
    HostFacts {
        kernel: of(RELEASE).trim().to_owned(),
        cpus: u16::try_from(cpus).unwrap_or(u16::MAX),
        memory_bytes: memory(&of(MEMINFO)),
        sysctls: SYSCTLS.iter().filter_map(setting).collect(),
        ..HostFacts::default()
    }
}

fn path_of(sysctl: &str) -> String {
    format!("/proc/sys/{}", sysctl.replace('.', "/"))
}

/// Tabs between the numbers of `tcp_rmem`.
fn in_one_line(text: &str) -> String {
    let words: Vec<&str> = text.split_ascii_whitespace().collect();
    words.join(" ")
}

/// Kernel settings as a network namespace has them; none for this process's own. Empty when the
/// namespace can't be entered.
pub fn sysctls_of(netns: Option<&Path>) -> BTreeMap<String, String> {
    inside(netns, sysctls).unwrap_or_default()
}

/// `/proc/sys/net` shows the namespace of the reading thread.
fn sysctls() -> BTreeMap<String, String> {
    let read = |name: &&str| {
        let text = fs::read_to_string(path_of(name)).ok()?;
        Some(((*name).to_owned(), in_one_line(&text)))
    };
    SYSCTLS.iter().filter_map(read).collect()
}

/// `cpu0 ...`, and not the total.
fn is_cpu(line: &str) -> bool {
    line.strip_prefix("cpu").is_some_and(|rest| rest.starts_with(|c: char| c.is_ascii_digit()))
}

/// x86 has `model name`; arm64 has numbers only, and `Hardware` or `Model` on some boards.
fn cpu_model(cpuinfo: &str) -> String {
    let value = |key: &str| {
        let line =
            cpuinfo.lines().find(|line| line.split(':').next().map(str::trim) == Some(key))?;
        Some(line.split_once(':')?.1.trim().to_owned())
    };
    let part = || {
        let (implementer, part) = (value("CPU implementer")?, value("CPU part")?);
        Some(format!("implementer {implementer} part {part}"))
    };
    let known = ["model name", "Hardware", "Model"].into_iter().find_map(value);
    known.or_else(part).unwrap_or_default()
}

fn memory(meminfo: &str) -> u64 {
    let line = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
    let kib: Option<u64> =
        line.and_then(|rest| rest.split_ascii_whitespace().next()).and_then(|n| n.parse().ok());
    kib.unwrap_or(0).saturating_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_has_a_kernel_a_cpu_and_memory() {
        let facts = host_facts();
        assert!(!facts.kernel.is_empty());
        assert!(facts.cpus > 0 && facts.engine_cpus > 0 && facts.memory_bytes > 0);
        assert!(facts.descriptors > 0);
        assert_eq!(facts.sysctls["net.ipv4.tcp_rmem"].split(' ').count(), 3);
    }

    #[test]
    fn another_hosts_files_tell_what_this_hosts_tell() {
        let found = host_facts_of(|path| fs::read_to_string(path).ok());
        let own = host_facts();
        assert_eq!(
            (&found.kernel, found.cpus, &found.sysctls),
            (&own.kernel, own.cpus, &own.sysctls)
        );
        assert_eq!(found.memory_bytes, own.memory_bytes);
        let asked = host_files();
        host_facts_of(|path| {
            assert!(asked.iter().any(|file| file == path), "{path}");
            None
        });
    }

    #[test]
    fn a_cpu_without_a_name_is_told_by_its_numbers() {
        let arm = "processor\t: 0\nCPU implementer\t: 0x41\nCPU part\t: 0xd0c\n";
        assert_eq!(cpu_model(arm), "implementer 0x41 part 0xd0c");
        assert_eq!(cpu_model("model name\t: A CPU @ 2 GHz\n"), "A CPU @ 2 GHz");
        assert_eq!(memory("MemTotal:        2048 kB\n"), 2_097_152);
    }
}
