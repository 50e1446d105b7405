//! Signals to a command that linerate waits for.
//!
//! What a terminal sends goes to the whole process group, so the command has it already. What another
//! process sends to linerate alone is passed on.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, AtomicU32, Ordering};

use rustix::process::{Pid, Signal, kill_process};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
use signal_hook::iterator::Signals;

/// What was received so far, and who is told.
#[derive(Clone, Debug, Default)]
pub(super) struct Relay {
    stop: Arc<AtomicBool>,
    child: Child,
}

/// Who is told.
#[derive(Clone, Debug, Default)]
pub(super) struct Child {
    /// 0 for nobody.
    pid: Arc<AtomicU32>,
    /// The first signal that was received.
    first: Arc<AtomicI32>,
}

impl Child {
    /// From now on it is told, and now of what came before it was there.
    pub fn begin(&self, pid: u32) {
        self.pid.store(pid, Ordering::SeqCst);
        let first = self.first.load(Ordering::SeqCst);
        if first > 0 {
            self.tell(first);
        }
    }

    /// From now on nobody is.
    pub fn end(&self) {
        self.pid.store(0, Ordering::SeqCst);
    }

    fn tell(&self, signal: i32) {
        let pid = i32::try_from(self.pid.load(Ordering::SeqCst)).ok().and_then(Pid::from_raw);
        if let (Some(pid), Some(signal)) = (pid, Signal::from_named_raw(signal)) {
            // It may have ended just now.
            let _ = kill_process(pid, signal);
        }
    }
}

impl Relay {
    /// From now on no signal ends linerate: before the command begins they stop the laying, then they are
    /// the command's, which ends linerate by its own end.
    pub fn install() -> io::Result<Self> {
        let relay = Self::default();
        let mut signals = Signals::new([SIGINT, SIGQUIT, SIGTERM, SIGHUP])?;
        let to = relay.clone();
        let pass_on = move || {
            for signal in signals.forever() {
                to.on(signal);
            }
        };
        std::thread::Builder::new().name("cli-signals".into()).spawn(pass_on)?;
        Ok(relay)
    }

    /// Set once a signal came.
    pub fn flag(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.stop)
    }

    /// The first signal.
    pub fn received(&self) -> Option<i32> {
        Some(self.child.first.load(Ordering::SeqCst)).filter(|signal| *signal > 0)
    }

    /// To be told who the command is.
    pub fn child(&self) -> Child {
        self.child.clone()
    }

    fn on(&self, signal: i32) {
        let first = &self.child.first;
        let _ = first.compare_exchange(0, signal, Ordering::SeqCst, Ordering::SeqCst);
        self.stop.store(true, Ordering::SeqCst);
        let by_terminal = matches!(signal, SIGINT | SIGQUIT) && in_foreground();
        if !by_terminal {
            self.child.tell(signal);
        }
    }
}

/// Whether a terminal's Ctrl-C reaches our process group. Source: proc_pid_stat(5): the fifth field is the
/// group, the eighth the terminal's foreground group.
fn in_foreground() -> bool {
    let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
    is_foreground(&stat)
}

fn is_foreground(stat: &str) -> bool {
    // The name, which may hold anything, ends at the last bracket.
    let after_name = stat.rsplit_once(") ").map_or("", |(_, rest)| rest);
    let words: Vec<_> = after_name.split(' ').collect();
    matches!(words[..], [_, _, group, _, _, foreground, ..] if group == foreground)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_foreground_group_is_told_by_its_number() {
        assert!(is_foreground("7 (a ) b) S 1 42 40 34816 42 4194304"));
        assert!(!is_foreground("7 (sh) S 1 42 40 34816 43 4194304"));
        // No terminal.
        assert!(!is_foreground("7 (sh) S 1 42 40 0 -1 4194304"));
        assert!(!is_foreground(""));
    }
}
