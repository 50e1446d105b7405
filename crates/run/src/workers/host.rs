//! A worker on another host: this program, put there through a BEAM node, told and heard over the node's distribution.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Sender, SyncSender, TrySendError, sync_channel};
use std::time::Duration;

use linerate_beam::{FarProgram, Host, HostFault, Taken};

use super::format::LONGEST;
use super::process::COMMAND;
use super::{Event, Link};

// Chosen: what it says comes as it is said; this is how often it is asked when it says nothing.
const PATIENCE: Duration = Duration::from_millis(500);

// Chosen: a host that is cut off takes no more, and who tells it goes on with the others.
/// What waits for its way there, as it was handed over.
const WAITING: usize = 64;

/// See the module. Ended when it is dropped: its output is heard no more, and its input ends with the host's keeper.
pub struct FarProcess {
    program: FarProgram,
    name: String,
    wanted: Arc<AtomicBool>,
    /// Once nobody waits for it: what it is to be told.
    told: Option<SyncSender<Vec<u8>>>,
}

impl FarProcess {
    /// Starts one. What it says is sent with its number, line by line, then that it has ended.
    pub fn start(
        number: usize,
        events: Sender<(usize, Event)>,
        host: &Host,
    ) -> Result<Self, HostFault> {
        let program = host.run(&[COMMAND])?;
        let wanted = Arc::new(AtomicBool::new(true));
        let process = Self {
            program: program.clone(),
            name: host.name().to_owned(),
            wanted: Arc::clone(&wanted),
            told: None,
        };
        let heard = move || {
            let mut lines = Lines::default();
            let ended = loop {
                if !wanted.load(Ordering::Relaxed) {
                    return;
                }
                match program.take(PATIENCE) {
                    Ok(Taken::Said(bytes)) => match lines
                        .take(&bytes, |line| events.send((number, Event::Line(line))).is_ok())
                    {
                        Ok(()) => {}
                        Err(why) => break why,
                    },
                    Ok(Taken::Ended(status)) => break how(status),
                    Err(fault) => break fault.to_string(),
                }
            };
            let _ = events.send((number, Event::Ended(Some(ended))));
        };
        let thread = std::thread::Builder::new().name("linerate-heard".into()).spawn(heard);
        match thread {
            Ok(_) => Ok(process),
            Err(error) => Err(HostFault::Failed {
                node: process.name.clone(),
                what: "be heard",
                reason: error.to_string(),
            }),
        }
    }
}

/// Of its exit status. Source: erl's child setup, which adds a signal's number to 128.
fn how(status: u64) -> String {
    match status {
        129.. => format!("signal {} ended it", status - 128),
        // Source: posix, 2.8.2; execve(2), ENOEXEC.
        126 | 127 => "its host can't run this program: it is of another architecture, or its folder is mounted noexec".into(),
        status => format!("it ended with exit code {status}"),
    }
}

/// Bytes cut into lines.
#[derive(Default)]
struct Lines {
    rest: Vec<u8>,
}

impl Lines {
    /// The error says why no more is heard.
    fn take(&mut self, bytes: &[u8], mut tell: impl FnMut(String) -> bool) -> Result<(), String> {
        let mut searched = self.rest.len();
        self.rest.extend_from_slice(bytes);
        while let Some(end) = self.rest[searched..].iter().position(|byte| *byte == b'\n') {
            let line: Vec<u8> = self.rest.drain(..=searched + end).collect();
            searched = 0;
            let line = String::from_utf8(line)
                .map_err(|_| "it sent bytes that are not text".to_owned())?;
            if !tell(line) {
                return Err("nothing listens".into());
            }
        }
        if self.rest.len() > LONGEST {
            return Err(format!("it sent a line of over {LONGEST} bytes"));
        }
        Ok(())
    }
}

impl Link for FarProcess {
    fn tell(&mut self, line: &str) -> io::Result<()> {
        self.program.tell(line.as_bytes()).map_err(io::Error::other)
    }

    fn never_wait(&mut self) -> io::Result<()> {
        let (tell, told) = sync_channel::<Vec<u8>>(WAITING);
        let program = self.program.clone();
        // It ends with what holds the other end, or with the connection.
        let send = move || told.iter().try_for_each(|bytes| program.tell(&bytes));
        std::thread::Builder::new().name("linerate-told".into()).spawn(send)?;
        self.told = Some(tell);
        Ok(())
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let told = self.told.as_ref().ok_or(io::ErrorKind::BrokenPipe)?;
        match told.try_send(bytes.to_vec()) {
            Ok(()) => Ok(bytes.len()),
            Err(TrySendError::Full(_)) => Ok(0),
            Err(TrySendError::Disconnected(_)) => Err(io::ErrorKind::BrokenPipe.into()),
        }
    }

    fn name(&self) -> String {
        format!("host {}", self.name)
    }

    fn how_it_ended(&mut self) -> String {
        "its output ended".into()
    }
}

impl Drop for FarProcess {
    fn drop(&mut self) {
        self.wanted.store(false, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_whole_wherever_bytes_are_cut() {
        let text = "{\"alive\":1}\n{\"alive\":22}\n\n{\"done\":3}\n";
        for size in 1..text.len() {
            let (mut lines, mut all) = (Lines::default(), Vec::new());
            for piece in text.as_bytes().chunks(size) {
                lines
                    .take(piece, |line| {
                        all.push(line);
                        true
                    })
                    .unwrap();
            }
            assert_eq!(all.concat(), text, "{size}");
            assert_eq!(all.len(), 4);
        }
        let mut lines = Lines::default();
        assert!(lines.take(b"\xff\n", |_| true).is_err());
        assert!(lines.take(&vec![b'x'; LONGEST + 1], |_| true).is_err());
    }
}
