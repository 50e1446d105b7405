//! iproute2: commands that a user can read and repeat, and the namespaces made with them.

use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use rustix::process::{Signal, kill_process};

use super::file_of;
use crate::lay_error::LayError;
use crate::{sys, tree};

/// Runs `ip`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ip {
    /// Print each command to standard error before it runs.
    pub verbose: bool,
}

impl Ip {
    /// Prints a command, if that was asked for.
    pub fn say(&self, command: &str) {
        if self.verbose {
            // Whether or not anybody reads it: `eprintln!` would panic.
            let _ = std::io::Write::write_all(
                &mut std::io::stderr(),
                format!("+ {command}\n").as_bytes(),
            );
        }
    }

    /// Runs one command to its end, which takes some milliseconds.
    pub fn run(&self, arguments: &[&str]) -> Result<String, LayError> {
        let command = format!("ip {}", arguments.join(" "));
        self.say(&command);
        let output = Command::new("ip")
            .args(arguments)
            .stdin(Stdio::null())
            // A terminal's Ctrl-C is for linerate, which then needs `ip` to clear up.
            .process_group(0)
            .output();
        match output {
            Ok(output) if output.status.success() => {
                Ok(String::from_utf8_lossy(&output.stdout).into_owned())
            }
            Ok(output) => Err(LayError::Command {
                command,
                reason: String::from_utf8_lossy(&output.stderr).trim().replace('\n', "; "),
            }),
            Err(error) => {
                let reason = format!("{error}; install iproute2");
                Err(LayError::Command { command, reason })
            }
        }
    }

    /// Removes the namespaces of linerates that no longer live, and whoever is still in them.
    pub fn clear_stale(&self) -> Result<(), LayError> {
        let Ok(entries) = std::fs::read_dir("/run/netns") else { return Ok(()) };
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

/// The process that a namespace's name says it belongs to: `lr-PID-c`, `lr-PID.N-s`.
fn owner(name: &str) -> Option<u32> {
    let inner = name.strip_prefix("lr-")?;
    let inner = inner.strip_suffix("-c").or_else(|| inner.strip_suffix("-s"))?;
    inner.split('.').next()?.parse().ok()
}

/// A namespace, removed with this.
#[derive(Debug)]
pub(super) struct Netns {
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
        ip.run(&["netns", "add", &name])?;
        Ok(Self { ip, name, file, there: true })
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_namespace_names_its_owner_and_others_are_nobodys() {
        assert_eq!(owner("lr-42-c"), Some(42));
        assert_eq!(owner("lr-42.3-s"), Some(42));
        for other in ["lr-42", "lr--c", "lrx-42-c", "blue", "lr-4a-c", "lr-42-x"] {
            assert_eq!(owner(other), None, "{other}");
        }
    }
}
