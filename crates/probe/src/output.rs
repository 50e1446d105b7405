//! Whether what reads the target's standard output and error takes more: a log shipper, journald, a terminal; and what
//! reads its other pipes: a program that it started.
//!
//! Each is asked of the kernel whether it takes data, on a copy of the descriptor that is closed at once: nothing is
//! written, and nobody else sees a change.
//!
//! Source: pidfd_getfd(2), poll(2), pipe(7); `/proc/PID/fd`, `/proc/PID/fdinfo` (proc(5)).

use std::fs;
use std::os::fd::OwnedFd;
use std::os::unix::fs::FileTypeExt;
use std::path::PathBuf;

use linerate_evidence::sources::process::OUTPUT_READER;
use linerate_evidence::{Evidence, Subject};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FileType, fstat};
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::tree::{numbers, read};

/// Standard output and error.
const ASKED: [u32; 2] = [1, 2];

/// Chosen: workers have inherited those of the first processes.
const PROCESSES: usize = 4;

/// Descriptors that are looked at for pipes, of each process. Chosen: pipes to programs are made at the start.
const LOOKED_AT: usize = 64;

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    /// Pipes besides those two that are written to, by process and descriptor.
    pipes: Vec<(u32, u32)>,
    /// The pipe of which it was told who reads it.
    told: Option<PathBuf>,
}

impl Outputs {
    /// Looks for pipes of these processes; called where the tree has been walked.
    pub(crate) fn look(&mut self, members: &[u32]) {
        let of = |pid: &u32| {
            let pid = *pid;
            let all = numbers(format!("/proc/{pid}/fd")).take(LOOKED_AT);
            let others = all.filter(|descriptor| *descriptor > 2);
            let is_pipe = move |descriptor: &u32| {
                pipe_of(pid, *descriptor).is_some() && mode(pid, *descriptor) == Some(WRITE_ONLY)
            };
            others.filter(is_pipe).map(move |descriptor| (pid, descriptor))
        };
        self.pipes = members.iter().take(PROCESSES).flat_map(of).collect();
    }

    /// Whether one of these processes' outputs takes no more, and whether one of their other pipes does. None where all are
    /// files, or may not be asked.
    pub(crate) fn full(&mut self, members: &[u32], evidence: &mut Evidence) -> [Option<bool>; 2] {
        let first = members.iter().take(PROCESSES);
        let outputs: Vec<_> = first.flat_map(|pid| ASKED.map(|of| (*pid, of))).collect();
        let pipes = self.pipes.clone();
        [outputs, pipes].map(|of| {
            let asked = of.into_iter().filter_map(|of| Some((takes_none(of)?, of)));
            let (is_full, of) = asked.max_by_key(|(is_full, _)| *is_full)?;
            if is_full {
                self.tell(of, evidence);
            }
            Some(is_full)
        })
    }

    /// Who reads it, once. Of a socket that is not to be told.
    fn tell(&mut self, (pid, descriptor): (u32, u32), evidence: &mut Evidence) {
        let Some(pipe) = pipe_of(pid, descriptor) else { return };
        if self.told.as_ref() == Some(&pipe) {
            return;
        }
        let is_it = |of: u32, fd: u32| pipe_of(of, fd).as_ref() == Some(&pipe);
        let reads = |of: &u32| {
            let mut its = numbers(format!("/proc/{of}/fd"));
            its.any(|fd| is_it(*of, fd) && mode(*of, fd) == Some(READ_ONLY))
        };
        let own = std::process::id();
        let others = || numbers("/proc").filter(|of| *of != own && *of != pid);
        // Who started it may have kept that end too.
        let reader = others().find(|of| is_it(*of, 0)).or_else(|| others().find(reads));
        if let Some(reader) = reader
            && let Ok(name) = read(format!("/proc/{reader}/comm"))
        {
            let words = format!("{}, pid {reader}", String::from_utf8_lossy(&name).trim_end());
            evidence.push_fact(Subject::Target, OUTPUT_READER, words);
        }
        self.told = Some(pipe);
    }
}

/// The pipe behind a descriptor: `pipe:[4711]`, or the path of one with a name.
fn pipe_of(pid: u32, descriptor: u32) -> Option<PathBuf> {
    let path = format!("/proc/{pid}/fd/{descriptor}");
    let link = fs::read_link(&path).ok()?;
    let is_pipe = link.to_str()?.starts_with("pipe:[")
        || (link.is_absolute() && fs::metadata(&path).ok()?.file_type().is_fifo());
    is_pipe.then_some(link)
}

/// Whether a descriptor takes no more; none of a file's, and of one that may not be asked.
fn takes_none((pid, descriptor): (u32, u32)) -> Option<bool> {
    let copy = copy_of(pid, descriptor)?;
    let kind = FileType::from_raw_mode(fstat(&copy).ok()?.st_mode);
    if kind == FileType::RegularFile {
        return None;
    }
    let mut asked = [PollFd::new(&copy, PollFlags::OUT)];
    poll(&mut asked, Some(&Timespec::default())).ok()?;
    Some(asked[0].revents().is_empty())
}

fn copy_of(pid: u32, descriptor: u32) -> Option<OwnedFd> {
    let pid = Pid::from_raw(i32::try_from(pid).ok()?)?;
    let process = pidfd_open(pid, PidfdFlags::empty()).ok()?;
    pidfd_getfd(process, i32::try_from(descriptor).ok()?, PidfdGetfdFlags::empty()).ok()
}

/// Source: `O_RDONLY`, `O_WRONLY`, asm-generic/fcntl.h.
const READ_ONLY: u32 = 0;
const WRITE_ONLY: u32 = 1;

/// The last two of the flags, which are octal digits, with which a descriptor was opened.
fn mode(pid: u32, descriptor: u32) -> Option<u32> {
    let text = read(format!("/proc/{pid}/fdinfo/{descriptor}")).ok()?;
    let text = String::from_utf8_lossy(&text);
    let flags = text.lines().find_map(|line| line.strip_prefix("flags:"))?;
    Some(u32::from_str_radix(flags.trim(), 8).ok()? & 3)
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::Read;
    use std::process::{Command, Stdio};

    use super::*;

    /// A process that writes into a pipe which this one reads only after it was found full.
    #[test]
    fn an_output_that_nobody_reads_is_full_until_somebody_does() {
        let mut writer = Command::new("yes");
        let mut writer = writer.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let (mut outputs, mut evidence) = (Outputs::default(), Evidence::default());
        let began = std::time::Instant::now();
        while outputs.full(&[writer.id()], &mut evidence)[0] != Some(true) {
            assert!(began.elapsed() < std::time::Duration::from_secs(10));
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        writer.kill().unwrap();
        let mut left = Vec::new();
        writer.stdout.take().unwrap().read_to_end(&mut left).unwrap();
        writer.wait().unwrap();
        assert!(left.len() >= 4096 && left.starts_with(b"y\n"), "nothing was taken from it");
        assert_eq!(outputs.full(&[writer.id()], &mut evidence), [None; 2], "it is gone");
    }

    #[test]
    fn who_reads_a_pipe_is_told_and_a_file_is_never_full() {
        let mut reader = Command::new("sleep");
        let mut reader = reader.arg("60").stdin(Stdio::piped()).spawn().unwrap();
        let into = reader.stdin.take().unwrap();
        let mut writer = Command::new("yes").stdout(into).stderr(Stdio::null()).spawn().unwrap();
        let (mut outputs, mut evidence) = (Outputs::default(), Evidence::default());
        let began = std::time::Instant::now();
        while outputs.full(&[writer.id()], &mut evidence)[0] != Some(true) {
            assert!(began.elapsed() < std::time::Duration::from_secs(10));
            std::thread::sleep(std::time::Duration::from_millis(5));
        }
        let said = evidence.fact(Subject::Target, OUTPUT_READER).map(str::to_owned);
        writer.kill().unwrap();
        reader.kill().unwrap();
        writer.wait().unwrap();
        reader.wait().unwrap();
        assert_eq!(said, Some(format!("sleep, pid {}", reader.id())));

        let file = fs::File::open("/proc/self/exe").unwrap();
        let other = file.try_clone().unwrap();
        let mut sleeper = Command::new("sleep");
        let mut sleeper = sleeper.arg("60").stdout(file).stderr(other).spawn().unwrap();
        let full = outputs.full(&[sleeper.id()], &mut evidence);
        sleeper.kill().unwrap();
        sleeper.wait().unwrap();
        assert_eq!(full, [None; 2]);
    }
}
