//! Network namespaces, and the commands that make them: as a user could read and repeat them.
//!
//! A namespace is this process's by name: `lr-PID-HOST`, and `lr-PID.N-HOST` in its second and later
//! labs. Those of processes that no longer live are removed before others are laid. In a user
//! namespace of our own (see `privileges`), `/run/netns` is ours alone and goes with the process.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::process::{Signal, kill_process};

use crate::lay_error::LayError;
use crate::process::inside;
use crate::{privileges, sys, tree};

/// Source: iproute2's `NETNS_RUN_DIR`.
pub(crate) const FOLDER: &str = "/run/netns";

/// Labs with namespaces that this process has laid so far.
static LABS: AtomicU32 = AtomicU32::new(0);

/// What the namespaces of one more lab of this process begin with: `lr-42`.
pub(crate) fn prefix() -> String {
    match LABS.fetch_add(1, Ordering::Relaxed) {
        0 => format!("lr-{}", std::process::id()),
        n => format!("lr-{}.{n}", std::process::id()),
    }
}

/// Runs `ip`, and other tools of its kind.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ip {
    /// Print each command to standard error before it runs.
    pub verbose: bool,
}

impl Ip {
    /// Prints a command, if that was asked for.
    pub fn say(&self, command: &str) {
        if self.verbose {
            // The namespace that we are in has no name (see `Netns::here`).
            let command = command.replacen(" -n  ", " ", 1);
            // Whether or not anybody reads it: `eprintln!` would panic.
            let _ = std::io::stderr().write_all(format!("+ {command}\n").as_bytes());
        }
    }

    /// Runs one command of `ip` to its end, which takes some milliseconds.
    pub fn run(&self, arguments: &[&str]) -> Result<String, LayError> {
        self.tool("ip", arguments)
    }

    /// Runs one command to its end: `tc` is another of iproute2's.
    pub fn tool(&self, program: &str, arguments: &[&str]) -> Result<String, LayError> {
        // The one that we are in has no name (see `Netns::here`).
        let arguments = if let ["-n", "", rest @ ..] = arguments { rest } else { arguments };
        let command = format!("{program} {}", arguments.join(" "));
        self.say(&command);
        execute(program, arguments, &[]).map_err(|reason| LayError::Command { command, reason })
    }

    /// Removes the namespaces of linerates that no longer live, and whoever is still in them.
    pub fn clear_stale(&self) -> Result<(), LayError> {
        let Ok(entries) = std::fs::read_dir(FOLDER) else { return Ok(()) };
        for name in entries.flatten().filter_map(|entry| entry.file_name().into_string().ok()) {
            if owner(&name).is_some_and(|pid| tree::stat(pid).is_none()) {
                for pid in self.run(&["netns", "pids", &name]).unwrap_or_default().lines() {
                    let pid = pid.trim().parse().ok().and_then(sys::pid);
                    let _ = pid.map(|pid| kill_process(pid, Signal::KILL));
                }
                // Another linerate may have been at it at the same time.
                if let Err(error) = self.run(&["netns", "delete", &name])
                    && file_of(&name).exists()
                {
                    return Err(error);
                }
            }
        }
        Ok(())
    }
}

/// What it wrote, or what it complained of.
fn execute(program: &str, arguments: &[&str], input: &[u8]) -> Result<String, String> {
    let output = start(program, arguments, input).and_then(Child::wait_with_output);
    match output {
        Ok(output) if output.status.success() => {
            Ok(String::from_utf8_lossy(&output.stdout).into_owned())
        }
        Ok(output) => Err(String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; ")),
        Err(error) => Err(format!("{error}; install iproute2")),
    }
}

fn start(program: &str, arguments: &[&str], input: &[u8]) -> std::io::Result<Child> {
    let mut command = Command::new(program);
    let stdin = if input.is_empty() { Stdio::null() } else { Stdio::piped() };
    command.args(arguments).stdin(stdin).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A terminal's Ctrl-C is for linerate, which then needs `ip` to clear up.
    std::os::unix::process::CommandExt::process_group(&mut command, 0);
    let mut child = privileges::spawn(&mut command)?;
    if let Some(mut stdin) = child.stdin.take() {
        // One that ended at its first line says itself why.
        let _ = stdin.write_all(input);
    }
    Ok(child)
}

/// Which line of a batch failed, from 0, and the complaint without that line.
/// Source: iproute2 ends with `Command failed -:LINE`.
fn failed_line(said: &str) -> (Option<usize>, String) {
    let Some((reason, line)) = said.rsplit_once("Command failed -:") else {
        return (None, said.to_owned());
    };
    let line = line.trim().parse::<usize>().ok().and_then(|line| line.checked_sub(1));
    (line, reason.trim_end_matches(['\n', ' ', ';']).to_owned())
}

/// The process that a namespace's name says it belongs to: `lr-PID-c`, `lr-PID.N-east-s1`.
fn owner(name: &str) -> Option<u32> {
    let (numbers, host) = name.strip_prefix("lr-")?.split_once('-')?;
    let (pid, lab) = numbers.split_once('.').unwrap_or((numbers, "0"));
    let is_host = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let ours = !host.is_empty() && host.chars().all(is_host) && lab.parse::<u32>().is_ok();
    pid.parse().ok().filter(|_| ours)
}

/// Where iproute2 binds a namespace of this name.
fn file_of(name: &str) -> PathBuf {
    Path::new(FOLDER).join(name)
}

/// A namespace, removed with this.
#[derive(Debug)]
pub(crate) struct Netns {
    ip: Ip,
    pub name: String,
    pub file: PathBuf,
    there: bool,
}

impl Netns {
    pub fn add(ip: Ip, name: String) -> Result<Self, LayError> {
        let file = file_of(&name);
        // Ours by name and not by us: a linerate with this very pid was killed.
        if file.exists() {
            ip.run(&["netns", "delete", &name])?;
        }
        if privileges::entered() {
            // `ip` goes back to where it came from, which must be a namespace of our user namespace's.
            ip.tool("unshare", &["--net", "ip", "netns", "add", &name])?;
        } else {
            ip.run(&["netns", "add", &name])?;
        }
        Ok(Self { ip, name, file, there: true })
    }

    /// The namespace that linerate itself is in: nothing of it is removed with this.
    pub fn here(ip: Ip) -> Self {
        let file = PathBuf::from("/proc/thread-self/ns/net");
        Self { ip, name: String::new(), file, there: false }
    }

    /// The words of `ip` that lead to it.
    fn words(&self) -> Vec<&str> {
        if self.name.is_empty() { Vec::new() } else { vec!["-n", &self.name] }
    }

    /// Runs one command of `ip` in it.
    pub fn run(&self, arguments: &[&str]) -> Result<String, LayError> {
        self.ip.run(&[&self.words(), arguments].concat())
    }

    /// Runs many commands of `ip` in it, by one process. The first that fails ends it.
    pub fn batch(&self, commands: &[String]) -> Result<(), LayError> {
        let whole = |command: &str| {
            ["ip"].into_iter().chain(self.words()).chain([command]).collect::<Vec<_>>().join(" ")
        };
        for command in commands {
            self.ip.say(&whole(command));
        }
        let lines: String = commands.iter().map(|command| format!("{command}\n")).collect();
        let arguments = [&self.words()[..], &["-batch", "-"]].concat();
        match execute("ip", &arguments, lines.as_bytes()) {
            Ok(_) => Ok(()),
            Err(said) => {
                let (line, reason) = failed_line(&said);
                let command = line.and_then(|line| commands.get(line));
                let command = whole(command.map_or("-batch -", String::as_str));
                Err(LayError::Command { command, reason })
            }
        }
    }

    /// Sets what the kernel keeps for each network namespace.
    pub fn set(&self, setting: &str, value: &str) -> Result<(), LayError> {
        let command = match self.name.as_str() {
            "" => format!("sysctl -w {setting}='{value}'"),
            name => format!("ip netns exec {name} sysctl -w {setting}='{value}'"),
        };
        self.ip.say(&command);
        let file = Path::new("/proc/sys").join(setting.replace('.', "/"));
        // It shows the namespace of the thread that looks.
        let written = inside(Some(&self.file), || std::fs::write(&file, value)).and_then(|set| set);
        written.map_err(|error| {
            let reason = match error.kind() {
                std::io::ErrorKind::NotFound => {
                    "a network namespace has no such setting".to_owned()
                }
                _ => format!("{error}: write in path.sysctls what sysctl(8) takes"),
            };
            LayError::Command { command, reason }
        })
    }

    /// Returns what is left, and how to remove it.
    pub fn remove(&mut self) -> Option<String> {
        if !std::mem::take(&mut self.there) {
            return None;
        }
        let error = self.ip.run(&["netns", "delete", &self.name]).err()?;
        Some(format!("namespace {}, because {error}", self.name))
    }
}

impl Drop for Netns {
    fn drop(&mut self) {
        self.remove();
    }
}

/// For tests that lay some: they measure time, so no two at once. None without the privilege.
#[cfg(test)]
pub(crate) fn one_at_a_time() -> Option<std::sync::MutexGuard<'static, ()>> {
    static ONE: std::sync::Mutex<()> = std::sync::Mutex::new(());
    let one = ONE.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    privileges::check().is_ok().then_some(one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_names_its_owner_and_others_are_nobodys() {
        assert_eq!(owner("lr-42-c"), Some(42));
        assert_eq!(owner("lr-42.3-s"), Some(42));
        assert_eq!(owner("lr-42-far-east-s12"), Some(42));
        for other in ["lr-42", "lr-42-", "lr--c", "lrx-42-c", "blue", "lr-4a-c", "lr-42.x-s"] {
            assert_eq!(owner(other), None, "{other}");
        }
    }

    #[test]
    fn the_line_of_a_batch_that_failed_is_named() {
        let said = "Error: Unknown device type.; Command failed -:3";
        assert_eq!(failed_line(said), (Some(2), "Error: Unknown device type.".to_owned()));
        assert_eq!(failed_line("no such thing"), (None, "no such thing".to_owned()));
    }
}
