//! A worker as a process of this host: this very program again, told by its standard input and heard by its output.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::Sender;
use std::time::{Duration, Instant};

use linerate_probe::EngineProcesses;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use super::format::LONGEST;
use super::{Event, Link};

/// The hidden command that a worker is.
pub const COMMAND: &str = "engine-worker";

// Chosen: one whose output has ended is on its way out.
const ENDING: Duration = Duration::from_secs(1);

/// See the module. Ended when it is dropped.
pub struct Process {
    child: Child,
    input: Option<ChildStdin>,
    known: EngineProcesses,
}

impl Process {
    /// Starts one. What it says is sent with its number, line by line, then that it has ended.
    pub fn start(
        number: usize,
        events: Sender<(usize, Event)>,
        known: &EngineProcesses,
    ) -> io::Result<Self> {
        // The file that this process was made of, whatever has its name now.
        let mut command = Command::new("/proc/self/exe");
        command.arg0("linerate").arg(COMMAND).stdin(Stdio::piped()).stdout(Stdio::piped());
        // A signal of the terminal is for whoever coordinates.
        command.process_group(0);
        let mut child = command.spawn()?;
        known.add(child.id());
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let process = Self { child, input, known: known.clone() };
        let output = output.ok_or_else(|| io::Error::other("it has no output"))?;
        std::thread::Builder::new()
            .name("linerate-heard".into())
            .spawn(move || listen(output, |event| events.send((number, event)).is_ok()))?;
        Ok(process)
    }

    fn ended(&mut self) -> Option<ExitStatus> {
        let deadline = Instant::now() + ENDING;
        loop {
            match self.child.try_wait() {
                Ok(Some(status)) => return Some(status),
                Ok(None) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(5))
                }
                _ => return None,
            }
        }
    }
}

/// Lines, until they end.
fn listen(output: impl Read, mut tell: impl FnMut(Event) -> bool) {
    let mut output = BufReader::with_capacity(1 << 16, output);
    loop {
        let mut text = String::new();
        let read = (&mut output).take(LONGEST as u64).read_line(&mut text);
        let wrong = match read {
            Ok(0) => None,
            Ok(_) if text.ends_with('\n') => {
                if tell(Event::Line(text)) {
                    continue;
                }
                return;
            }
            Ok(length) if length >= LONGEST => {
                Some(format!("it sent a line of over {LONGEST} bytes"))
            }
            // The last words of one that was ended in the middle of them.
            Ok(_) => None,
            Err(error) => Some(error.to_string()),
        };
        tell(Event::Ended(wrong));
        return;
    }
}

impl Process {
    pub fn pid(&self) -> u32 {
        self.child.id()
    }
}

impl Link for Process {
    fn tell(&mut self, line: &str) -> io::Result<()> {
        let input = self.input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?;
        input.write_all(line.as_bytes())?;
        input.flush()
    }

    fn never_wait(&mut self) -> io::Result<()> {
        let Some(input) = &self.input else { return Ok(()) };
        let flags = fcntl_getfl(input)?;
        Ok(fcntl_setfl(input, flags | OFlags::NONBLOCK)?)
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self.input.as_mut().ok_or(io::ErrorKind::BrokenPipe)?.write(bytes) {
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => Ok(0),
            written => written,
        }
    }

    fn name(&self) -> String {
        format!("process {}", self.child.id())
    }

    fn how_it_ended(&mut self) -> String {
        match self.ended() {
            None => "its output ended".into(),
            Some(status) => match (status.signal(), status.code()) {
                (Some(signal), _) => format!("signal {signal} ended it"),
                (None, code) => format!("it ended with exit code {}", code.unwrap_or_default()),
            },
        }
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        self.input = None;
        if self.child.try_wait().is_ok_and(|ended| ended.is_none()) {
            // One that has done its part is on its way out; any other is not wanted any more.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
        self.known.remove(self.child.id());
    }
}
