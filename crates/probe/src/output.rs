//! Whether what reads the target's standard output and error takes more: a log shipper, a container's log driver, a
//! terminal; and what reads the other pipes that it writes to. Where they are files, and of logs that are appended to: how far
//! they have been written.
//!
//! Each is asked of the kernel whether it takes data, on a copy of the descriptor that is closed at once: nothing is
//! written, and nobody else sees a change. No file is copied, or touched: closing a copy of one would write out what a remote file
//! system has not yet, and looking at it may wait for that. What the kernel says of its descriptor waits for nothing.
//!
//! Blind spot: sockets, as those to journald; the kernel says that one takes no more from a quarter of its buffer on.
//! Source: pidfd_getfd(2), poll(2), pipe(7); `/proc/PID/fd`, `/proc/PID/fdinfo`, `/proc/PID/mountinfo` (proc(5)).

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use linerate_evidence::sources::process::{LOG_WRITTEN, OUTPUT_FULL, PIPE_FULL, READERS};
use linerate_evidence::{Evidence, Subject};
use linerate_model::{Bytes, Timestamp};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use rustix::process::{Pid, PidfdFlags, PidfdGetfdFlags, pidfd_getfd, pidfd_open};

use crate::tree::{ID, numbers, read};

/// Chosen: workers have inherited those of the first processes.
const PROCESSES: usize = 4;

/// Descriptors that are looked at, of each process. Chosen: pipes to programs are made at the start.
const LOOKED_AT: usize = 64;

/// File systems of this host, on which a pipe with a name may be looked at.
const LOCAL: [&str; 8] = ["btrfs", "ext3", "ext4", "f2fs", "overlay", "tmpfs", "xfs", "zfs"];

/// Samples in which a pipe was full, before it is looked for who reads it. Chosen: one that is full now and then has been in fewer.
const SEEN: u32 = 3;

/// A process, and its descriptor.
type Of = (u32, u32);

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Outputs {
    /// Standard outputs and errors that are no files, and other pipes that are written to.
    asked: [Vec<Of>; 2],
    /// In how many samples each pipe was full.
    full: BTreeMap<PathBuf, u32>,
    /// Logs that are files: one descriptor of each, and how far it had been written at the last sample.
    logs: BTreeMap<PathBuf, (Of, Option<u64>)>,
    /// Bytes of all of them since the first look.
    logged: u64,
    /// Processes whose descriptors may not be copied.
    denied: BTreeSet<u32>,
}

impl Outputs {
    /// Looks for those of these processes; called where the tree has been walked.
    pub(crate) fn look(&mut self, members: &[u32]) {
        self.asked = Default::default();
        let mut logs = BTreeMap::new();
        for pid in members.iter().take(PROCESSES) {
            for descriptor in numbers(format!("/proc/{pid}/fd")).take(LOOKED_AT) {
                let of = (*pid, descriptor);
                // What the kernel says of others, as of an event loop's, may be long, and hold up who uses it.
                let is_one = |link: &PathBuf| link.is_absolute() || is_pipe(link);
                let Some(link) = link(of).filter(is_one) else { continue };
                let Some(flags) = flags(of).filter(|flags| flags & MODE != READ_ONLY) else {
                    continue;
                };
                let is_output = matches!(descriptor, 1 | 2);
                if descriptor > 0 && is_pipe(&link) || is_output && may_fill(of, &link) {
                    if !self.denied.contains(pid) {
                        self.asked[usize::from(!is_output)].push(of);
                    }
                } else if is_output || flags & APPENDS != 0 && is_called_log(&link) {
                    let known = self.logs.get(&link).filter(|(known, _)| *known == of);
                    let known = known.and_then(|(_, to)| *to);
                    let is_file = link.is_absolute() && !link.starts_with("/dev");
                    is_file.then(|| logs.insert(link, (of, known)));
                }
            }
        }
        self.logs = logs;
    }

    /// Asks all of them.
    pub(crate) fn sample(&mut self, at: Timestamp, evidence: &mut Evidence) {
        let metrics = [OUTPUT_FULL, PIPE_FULL];
        for ((asked, metric), reader) in self.asked.clone().iter().zip(metrics).zip(READERS) {
            let mut is_full = None;
            for of in asked {
                let takes_none = match takes_none(*of) {
                    Ok(takes_none) => takes_none,
                    Err(Errno::PERM | Errno::NOSYS) => {
                        self.deny(of.0, evidence);
                        continue;
                    }
                    Err(_) => continue,
                };
                is_full = is_full.max(Some(takes_none));
                if takes_none {
                    self.found(*of, reader, evidence);
                }
            }
            if let Some(is_full) = is_full {
                evidence.push(at, Subject::Target, metric, u64::from(is_full));
            }
        }
        self.read_logs(at, evidence);
    }

    /// Adds what came to the logs since the last sample. One that was cut is written from its start. One that is appended to is at 0
    /// until it is written to: what was there before is none of it.
    fn read_logs(&mut self, at: Timestamp, evidence: &mut Evidence) {
        for (of, known) in self.logs.values_mut() {
            let Some(to) = about(*of, "pos:").and_then(|to| to.parse::<u64>().ok()) else {
                continue;
            };
            let before = known.filter(|before| *before > 0);
            self.logged += before.map_or(0, |before| to.checked_sub(before).unwrap_or(to));
            *known = Some(to);
        }
        if !self.logs.is_empty() {
            evidence.push(at, Subject::Target, LOG_WRITTEN, Bytes(self.logged));
        }
    }

    fn deny(&mut self, pid: u32, evidence: &mut Evidence) {
        self.denied.insert(pid);
        self.asked.iter_mut().for_each(|asked| asked.retain(|of| of.0 != pid));
        let reason = format!(
            "whether the standard output of process {pid} takes more may not be asked: run linerate as root, or with \
             CAP_SYS_PTRACE"
        );
        evidence.unread.insert(ID.into(), reason);
    }

    /// Says who reads it, once.
    fn found(&mut self, of: Of, reader: &str, evidence: &mut Evidence) {
        let Some(pipe) = link(of) else { return };
        let seen = self.full.entry(pipe.clone()).or_default();
        *seen += 1;
        if *seen != SEEN {
            return;
        }
        let is_it = |of: Of| link(of).as_ref() == Some(&pipe);
        let reads = |pid: &u32| {
            let mut its = numbers(format!("/proc/{pid}/fd")).map(|descriptor| (*pid, descriptor));
            its.any(|of| is_it(of) && flags(of).is_some_and(|flags| flags & MODE == READ_ONLY))
        };
        let own = std::process::id();
        let others = || numbers("/proc").filter(|pid| *pid != own && *pid != of.0);
        // Who started it may have kept that end too.
        let found = others().find(|pid| is_it((*pid, 0))).or_else(|| others().find(reads));
        if let Some(pid) = found
            && let Ok(name) = read(format!("/proc/{pid}/comm"))
        {
            let words = format!("{}, pid {pid}", String::from_utf8_lossy(&name).trim_end());
            evidence.push_fact(Subject::Target, reader, words);
        }
    }
}

fn is_pipe(link: &Path) -> bool {
    link.to_str().is_some_and(|link| link.starts_with("pipe:["))
}

/// Whether a file is a log by a word of its name, as `access.log`, `erlang.log.1`, `error_log`: others that are appended to may be
/// anything, and so is a catalogue.
fn is_called_log(link: &Path) -> bool {
    let name = link.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    name.split(|of: char| !of.is_alphanumeric()).any(|word| word == "log")
}

/// What a descriptor is: `pipe:[4711]`, or a path.
fn link((pid, descriptor): Of) -> Option<PathBuf> {
    fs::read_link(format!("/proc/{pid}/fd/{descriptor}")).ok()
}

/// Whether it is a terminal, or a pipe with a name.
fn may_fill(of: Of, link: &Path) -> bool {
    let terminals = ["/dev/pts/", "/dev/tty", "/dev/console"];
    if terminals.iter().any(|of| link.to_string_lossy().starts_with(of)) {
        return true;
    }
    let metadata = || fs::metadata(format!("/proc/{}/fd/{}", of.0, of.1)).ok();
    link.is_absolute() && is_local(of) && metadata().is_some_and(|of| of.file_type().is_fifo())
}

/// Whether it is on a file system of this host, which answers at once.
fn is_local(of: Of) -> bool {
    let Some(mount) = about(of, "mnt_id:") else { return false };
    let mounts = read(format!("/proc/{}/mountinfo", of.0)).unwrap_or_default();
    let mounts = String::from_utf8_lossy(&mounts);
    // The mount's number first; behind ` - ` the type of its file system.
    let is_mount = |line: &&str| line.split(' ').next() == Some(mount.as_str());
    let kind = mounts.lines().find(is_mount).and_then(|line| line.split_once(" - "));
    kind.is_some_and(|(_, rest)| LOCAL.iter().any(|of| rest.split(' ').next() == Some(of)))
}

/// Whether a descriptor takes no more.
fn takes_none((pid, descriptor): Of) -> Result<bool, Errno> {
    let pid = i32::try_from(pid).ok().and_then(Pid::from_raw).ok_or(Errno::SRCH)?;
    let process = pidfd_open(pid, PidfdFlags::empty())?;
    let copy = pidfd_getfd(process, descriptor as i32, PidfdGetfdFlags::empty())?;
    let mut asked = [PollFd::new(&copy, PollFlags::OUT)];
    poll(&mut asked, Some(&Timespec::default()))?;
    Ok(asked[0].revents().is_empty())
}

/// Source: `O_ACCMODE`, `O_RDONLY` and `O_APPEND`, asm-generic/fcntl.h.
const MODE: u32 = 3;
const READ_ONLY: u32 = 0;
const APPENDS: u32 = 0o2000;

/// With which a descriptor was opened.
fn flags(of: Of) -> Option<u32> {
    u32::from_str_radix(&about(of, "flags:")?, 8).ok()
}

/// What the kernel says of a descriptor under this head.
fn about((pid, descriptor): Of, head: &str) -> Option<String> {
    let text = read(format!("/proc/{pid}/fdinfo/{descriptor}")).ok()?;
    let text = String::from_utf8_lossy(&text);
    text.lines().find_map(|line| line.strip_prefix(head)).map(|word| word.trim().to_owned())
}

#[cfg(test)]
#[allow(clippy::unwrap_used)]
mod tests {
    use std::io::{Read, Write};
    use std::net::{TcpListener, TcpStream};
    use std::os::fd::OwnedFd;
    use std::process::{Child, Command, Stdio};
    use std::time::{Duration, Instant};

    use super::*;

    /// Whether outputs and other pipes of a process were full.
    fn full(outputs: &mut Outputs, pid: u32, evidence: &mut Evidence) -> [Option<bool>; 2] {
        let mut of_now = Evidence::default();
        outputs.look(&[pid]);
        outputs.sample(Timestamp(1), &mut of_now);
        let target = of_now.of(Subject::Target);
        let [output, pipe] =
            [OUTPUT_FULL, PIPE_FULL].map(|of| target.last(of).ok().map(|full| full == 1));
        // Who starts the tests may have left pipes open, which nobody fills.
        let full = [output, pipe.filter(|full| *full)];
        evidence.absorb(of_now);
        full
    }

    /// Waits until they are as expected, in as many samples as are needed to say who reads them; then ends the process.
    fn becomes(mut child: Child, expected: [Option<bool>; 2]) -> Evidence {
        let (mut outputs, mut evidence) = (Outputs::default(), Evidence::default());
        let (began, mut seen) = (Instant::now(), 0);
        while seen < SEEN {
            let found = full(&mut outputs, child.id(), &mut evidence);
            seen = if found == expected { seen + 1 } else { 0 };
            assert!(began.elapsed() < Duration::from_secs(10), "{found:?}");
            std::thread::sleep(Duration::from_millis(5));
        }
        child.kill().unwrap();
        child.wait().unwrap();
        assert_eq!(full(&mut outputs, child.id(), &mut evidence), [None; 2], "it is gone");
        evidence
    }

    /// A process that writes without end, to there.
    fn yes(to: impl Into<Stdio>) -> Command {
        let mut command = Command::new("yes");
        command.stdout(to).stderr(Stdio::null());
        command
    }

    #[test]
    fn an_output_that_nobody_reads_is_full_and_nothing_is_taken_from_it() {
        let mut writer = yes(Stdio::piped()).spawn().unwrap();
        let mut output = writer.stdout.take().unwrap();
        becomes(writer, [Some(true), None]);
        let mut left = Vec::new();
        output.read_to_end(&mut left).unwrap();
        assert!(left.len() >= 4096 && left.starts_with(b"y\n"));
    }

    #[test]
    fn who_reads_an_output_is_told() {
        let mut reader = Command::new("sleep");
        let mut reader = reader.arg("60").stdin(Stdio::piped()).spawn().unwrap();
        let writer = yes(reader.stdin.take().unwrap()).spawn().unwrap();
        let evidence = becomes(writer, [Some(true), None]);
        reader.kill().unwrap();
        reader.wait().unwrap();
        let said = evidence.fact(Subject::Target, READERS[0]);
        assert_eq!(said, Some(format!("sleep, pid {}", reader.id()).as_str()));
    }

    #[test]
    fn a_pipe_with_a_name_is_one() {
        let name = std::env::temp_dir().join(format!("linerate-{}.pipe", std::process::id()));
        assert!(Command::new("mkfifo").arg(&name).status().unwrap().success());
        let both = fs::File::options().read(true).write(true).open(&name).unwrap();
        fs::remove_file(&name).unwrap();
        becomes(yes(both).spawn().unwrap(), [Some(true), None]);
    }

    #[test]
    fn a_pipe_at_another_descriptor_is_none_of_its_outputs() {
        // The third is what `yes` writes to, which ends when nobody reads it.
        let script = "exec 3>&1 1>/dev/null; yes 1>&3 & exec sleep 60";
        let mut shell = Command::new("sh");
        let shell = shell.args(["-c", script]).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut shell = shell.spawn().unwrap();
        let _output = shell.stdout.take();
        becomes(shell, [None, Some(true)]);
    }

    #[test]
    fn how_far_a_log_was_written_is_told_once_for_both_outputs_and_not_of_other_files() {
        let name =
            |of: &str| std::env::temp_dir().join(format!("linerate-{}.{of}", std::process::id()));
        let [log, data] = [name("log"), name("data")];
        // What was there before is no part of it; the fourth is a log too, the fifth is not.
        let script = format!(
            "echo old; exec 4>>{0} 5>>{1}; echo first >&4; read go; echo twelve bytes; echo five >&4; echo data >&5; read end",
            log.display(),
            data.display()
        );
        let output = fs::File::create(name("out")).unwrap();
        let mut shell = Command::new("sh");
        shell.args(["-c", &script]).stdin(Stdio::piped());
        let mut shell = shell.stdout(output.try_clone().unwrap()).stderr(output).spawn().unwrap();
        let mut input = shell.stdin.take().unwrap();
        let (mut outputs, mut evidence) = (Outputs::default(), Evidence::default());
        let mut logged = |at: u64| {
            outputs.look(&[shell.id()]);
            outputs.sample(Timestamp(at), &mut evidence);
            evidence.of(Subject::Target).last(LOG_WRITTEN).unwrap().0
        };
        let began = Instant::now();
        while !data.exists() {
            assert!(began.elapsed() < Duration::from_secs(10));
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(logged(1), 0);
        input.write_all(b"go\n").unwrap();
        while logged(2) < 18 {
            assert!(began.elapsed() < Duration::from_secs(10));
            std::thread::sleep(Duration::from_millis(5));
        }
        assert_eq!(logged(3), 18);
        drop(input);
        shell.wait().unwrap();
        for of in [log, data, name("out")] {
            fs::remove_file(of).unwrap();
        }
    }

    #[test]
    fn a_log_is_known_by_a_word_of_its_name() {
        let is_one = |name: &str| is_called_log(Path::new(name));
        assert!(
            ["/a/claims.log", "/a/erlang.log.1", "/a/error_log", "/a/App.LOG"]
                .into_iter()
                .all(is_one)
        );
        assert!(!["/a/catalogue.dat", "/log/data", "/a/blog.db", "/"].into_iter().any(is_one));
    }

    #[test]
    fn files_sockets_and_ends_that_are_read_are_not_asked() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).unwrap();
        let (end, _other) = std::io::pipe().unwrap();
        let of_descriptors = [
            OwnedFd::from(fs::File::open("/proc/self/exe").unwrap()),
            listener.into(),
            client.into(),
            end.into(),
        ];
        for output in of_descriptors {
            let mut sleeper = Command::new("sleep");
            let sleeper = sleeper.arg("60").stdout(output).stderr(Stdio::null()).spawn().unwrap();
            becomes(sleeper, [None; 2]);
        }
    }
}
