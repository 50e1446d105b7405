//! `path`: a command, or a shell, behind a network path, as mahimahi's shells do it.
//!
//! linerate stays the command's parent and in its process group, as `env` or `nice` would: a terminal's
//! Ctrl-C and Ctrl-Z reach the command by themselves, and job control is the calling shell's. What is
//! said of the path goes to standard error; the command's outputs are its own.

mod account;
mod relay;

use std::os::unix::process::ExitStatusExt;
use std::path::Path as File;
use std::process::{Command, ExitStatus};
use std::time::Instant;

use linerate_evidence::sources::link::DirectionReading;
use linerate_lab::{Behind, Options};
use linerate_model::{Bytes, Path};

use crate::args::PathArgs;
use crate::failure::Failure;
use crate::output::{say, write_file};
use crate::path_flags::of_flags;
use account::Account;
use relay::Relay;

/// The host's address as seen through the path; behind several, through all of them.
const PEER: &str = "LINERATE_PATH_PEER";

/// The near side's address of the nearest path.
const GATEWAY: &str = "LINERATE_PATH_GATEWAY";

/// The paths that a process is behind, in words.
const PATHS: &str = "LINERATE_PATH";

/// In the command's words, what stands for the host's address.
const HOLE: &str = "{peer}";

/// Source: POSIX shells: no such program; a program that can't be started.
const NOT_FOUND: u8 = 127;
/// See [`NOT_FOUND`].
const NOT_STARTED: u8 = 126;

/// See the module.
pub fn path(args: &PathArgs) -> Result<u8, Failure> {
    let asked = of_flags(&args.path)?;
    if let Some(file) = &args.json {
        write_file(file, "")?;
    }
    // Before there is a second thread.
    linerate_lab::acquire_privileges(args.verbose).map_err(Failure::run)?;
    let relay = Relay::install().map_err(Failure::run)?;
    let options = Options { agent: None, verbose: args.verbose, cancel: Some(relay.flag()) };
    let laid = Behind::lay(&asked, &args.forward, &options);
    let behind = laid.map_err(|error| match relay.received() {
        Some(signal) => Failure { code: signal_code(signal), sentence: error.to_string() },
        None => Failure::run(error),
    })?;
    let place = Place::new(&behind, &asked);
    if !args.quiet {
        say(&place.in_words(&behind, &asked, &args.forward));
    }

    let words = place.words(&args.command);
    let meter = behind.meter();
    // What the proof sent is not the command's.
    let before = meter.read();
    let begun = Instant::now();
    let (child, ended) = (relay.child(), relay.child());
    let command = place.command(&words, args.command.is_empty());
    let run = behind.run(command, move |pid| child.begin(pid), move || ended.end());
    let length = begun.elapsed();
    let directions = meter.read();
    let left = behind.close();

    let status = run.map_err(|error| not_started(&words[0], &error))?;
    let directions: [DirectionReading; 2] =
        [since(&before[0], &directions[0]), since(&before[1], &directions[1])];
    let account =
        Account { asked: &asked, place: &place, words: &words, status, length, directions };
    if !args.quiet {
        say(&account.in_words());
    }
    if let Some(file) = &args.json {
        write_file(file, &account.json())?;
    }
    left.map_err(Failure::run)?;
    Ok(exit_code(status))
}

/// What is to be known of the place behind the path once it is laid.
struct Place {
    backend: &'static str,
    /// The host, through all paths.
    peer: String,
    gateway: String,
    own: String,
    /// All paths from the host on, in words.
    paths: String,
    /// What was asked of the last, beside what it delivers.
    proof: Vec<[String; 3]>,
}

impl Place {
    fn new(behind: &Behind, asked: &Path) -> Self {
        let gateway = behind.peer().to_string();
        // Only behind a path are the variables one's own; elsewhere they are a stale shell's.
        let inherited = |name| std::env::var(name).ok().filter(|_| behind.is_nested());
        let path = account::path_in_words(asked);
        Self {
            backend: behind.meter().backend(),
            peer: inherited(PEER).unwrap_or_else(|| gateway.clone()),
            own: behind.own().to_string(),
            gateway,
            paths: inherited(PATHS).map_or(path.clone(), |outer| format!("{outer} | {path}")),
            proof: account::proof(behind.proof()),
        }
    }

    /// The command's words with the host's address in them, or the user's shell.
    fn words(&self, typed: &[String]) -> Vec<String> {
        if typed.is_empty() {
            let shell = std::env::var("SHELL").ok().filter(|shell| File::new(shell).is_file());
            return vec![shell.unwrap_or_else(|| "/bin/sh".to_owned())];
        }
        typed.iter().map(|word| word.replace(HOLE, &self.peer)).collect()
    }

    fn command(&self, words: &[String], is_shell: bool) -> Command {
        let mut command = Command::new(&words[0]);
        command.args(&words[1..]);
        command.env(PEER, &self.peer).env(GATEWAY, &self.gateway).env(PATHS, &self.paths);
        if is_shell {
            // bash runs it before its first prompt, after its start-up files have made one.
            let prompt = format!("PS1='[{}] '\"$PS1\"; unset PROMPT_COMMAND", self.paths);
            command.env("PROMPT_COMMAND", prompt);
        }
        command
    }

    fn in_words(&self, behind: &Behind, asked: &Path, forwarded: &[u16]) -> String {
        let mut text = format!("path  {} ({})\n", account::path_in_words(asked), self.backend);
        for [what, asked, delivered] in &self.proof {
            text += &format!("      {what} {asked}: {delivered}\n");
        }
        let what = match (behind.reaches_host(), forwarded) {
            (true, _) => "this host".to_owned(),
            (false, []) => "nothing (no root: forward this host's ports with --forward)".to_owned(),
            (false, ports) => {
                let ports: Vec<_> = ports.iter().map(u16::to_string).collect();
                format!("this host's port {}, and nothing more without root", ports.join(", "))
            }
        };
        text + &format!("      {} here; {what} is {}\n", self.own, self.peer)
    }
}

/// What came between two readings. Most and states are of the second, which is since the first.
fn since(before: &DirectionReading, after: &DirectionReading) -> DirectionReading {
    let bytes = |after: Option<Bytes>, before: Option<Bytes>| {
        after.zip(before).map(|(after, before)| Bytes(after.0 - before.0))
    };
    macro_rules! less {
        ($($counter:ident)*) => {
            DirectionReading {
                $($counter: after.$counter.zip(before.$counter).map(|(after, before)| after - before),)*
                bytes_in: bytes(after.bytes_in, before.bytes_in),
                bytes_out: bytes(after.bytes_out, before.bytes_out),
                ..*after
            }
        };
    }
    less! {
        packets_in packets_out frames_in frames_out dropped_queue dropped_limit dropped_loss
        dropped_size dropped_device dropped duplicated reordered late cpu
    }
}

fn not_started(program: &str, error: &std::io::Error) -> Failure {
    match error.kind() {
        std::io::ErrorKind::NotFound => Failure {
            code: NOT_FOUND,
            sentence: format!(
                "`{program}` can't be started: there is no such program; write its whole path, or install it"
            ),
        },
        _ => Failure {
            code: NOT_STARTED,
            sentence: format!("`{program}` can't be started: {error}"),
        },
    }
}

/// As a shell has it: the command's, or 128 and the signal that ended it.
fn exit_code(status: ExitStatus) -> u8 {
    match (status.code(), status.signal()) {
        (Some(code), _) => code as u8,
        (None, signal) => signal_code(signal.unwrap_or_default()),
    }
}

fn signal_code(signal: i32) -> u8 {
    128 + signal as u8
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_signal_ends_with_128_and_its_number() {
        assert_eq!(exit_code(ExitStatus::from_raw(3 << 8)), 3);
        assert_eq!(exit_code(ExitStatus::from_raw(15)), 143);
        assert_eq!(exit_code(ExitStatus::from_raw(0)), 0);
    }

    #[test]
    fn what_was_before_the_command_is_not_its() {
        let reading = |packets, most| DirectionReading {
            packets_in: Some(packets),
            queue_most: Some(most),
            ..DirectionReading::default()
        };
        let own = since(&reading(5, 9), &reading(12, 2));
        assert_eq!((own.packets_in, own.queue_most, own.cpu), (Some(7), Some(2), None));
    }
}
