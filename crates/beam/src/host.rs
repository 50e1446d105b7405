//! A program of ours on a node's host: put into a file there, started, told by its standard input and heard by its
//! output, and gone with us.
//!
//! The contract with `agent/src/host/linerate_host.erl`, which the node compiles from its text.

use std::fmt;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use crate::delivery::Undelivered;
use crate::delivery::{Module, compile, own_file, refused};
use crate::node::{Asked, CallFault, Node};
use crate::ssh::SshNode;
use crate::term::{
    Pid, Term, as_atom, as_text, as_tuple, as_u64, atom, binary, in_words, integer, list, string,
};

/// What does it there.
pub(crate) const MODULE: Module = Module {
    name: "linerate_host",
    text: include_str!("../../../agent/src/host/linerate_host.erl"),
};

/// Chosen: an answer takes milliseconds, and seconds where all schedulers are busy or a disk is slow.
const PATIENCE: Duration = Duration::from_secs(10);

/// Chosen: five times what one that was told to close takes.
const LEAVING: Duration = Duration::from_secs(1);

/// Chosen: a busy line is not held for long by a piece, and ticks go between two of them.
const PIECE: usize = 1 << 20;

/// Chosen: five times in what the keeper there takes for silence.
const ALIVE: Duration = Duration::from_secs(2);

/// Why a program is not there, or not running.
#[derive(Debug, thiserror::Error)]
pub enum HostFault {
    /// The connection, or the node.
    #[error(transparent)]
    Call(#[from] CallFault),
    /// The module that would do it.
    #[error(transparent)]
    Undelivered(#[from] Undelivered),
    /// Another linerate is there.
    #[error("another linerate uses {0} as a host of its engine: wait until it is done, or end it")]
    Already(String),
    /// The node could not.
    #[error("{node} could not {what}: {reason}{}", remedy(.reason))]
    Failed {
        /// The node.
        node: String,
        /// What it was to do.
        what: &'static str,
        /// As the node has it.
        reason: String,
    },
}

fn remedy(reason: &str) -> &'static str {
    match reason {
        _ if reason.contains("enospc") => {
            "; free space there, or start the node with TMPDIR set to another folder"
        }
        _ if reason.contains("eacces") => {
            "; start the node with TMPDIR set to a folder whose files may be run (not mounted noexec)"
        }
        _ => "",
    }
}

/// A node's host, on which programs of ours may run. All is gone there when this is dropped.
pub struct Host {
    node: Node,
    keeper: Pid,
    architecture: String,
    cpus: u16,
    alive: Option<(Sender<()>, JoinHandle<()>)>,
    name: String,
    /// What started the node, if that is ours: it ends with it. The last field, so that it goes last.
    _started: Option<SshNode>,
}

/// A program that runs there.
#[derive(Clone)]
pub struct FarProgram {
    node: Node,
    worker: Pid,
}

/// What a program has said.
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Taken {
    /// Bytes of its output; none: nothing yet.
    Said(Vec<u8>),
    /// It has ended, with this exit status (128 and more: a signal's), and all it said was taken.
    Ended(u64),
}

impl fmt::Debug for Host {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Host").field(&self.node).finish()
    }
}

impl Host {
    /// Has the node keep a program for us.
    pub fn of(node: Node) -> Result<Self, HostFault> {
        let beam =
            compile(&node, &MODULE)?.map_err(|reason| refused(&node, MODULE.name, reason))?;
        // One that is there is another linerate's, whose processes run in it, or is about to leave.
        let deadline = Instant::now() + LEAVING;
        while matches!(
            node.call("erlang", "whereis", vec![atom(MODULE.name)], PATIENCE)?,
            Term::Pid(_)
        ) {
            if Instant::now() >= deadline {
                return Err(HostFault::Already(node.name().to_owned()));
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let file = string(&own_file(MODULE.name));
        node.call("code", "purge", vec![atom(MODULE.name)], PATIENCE)?;
        let load = vec![atom(MODULE.name), file, binary(beam)];
        let loaded = node.call("code", "load_binary", load, PATIENCE)?;
        if !matches!(as_tuple(&loaded), Some([tag, _]) if as_atom(tag) == Some("module")) {
            return Err(refused(&node, MODULE.name, in_words(&loaded)).into());
        }
        let owner = node.own_pid().clone().into();
        let answer = node.call(MODULE.name, "start", vec![owner], PATIENCE)?;
        match as_tuple(&answer) {
            Some([_, Term::Pid(keeper), architecture, cpus]) => {
                let architecture = as_text(architecture).unwrap_or_default();
                let cpus = as_u64(cpus).and_then(|cpus| u16::try_from(cpus).ok()).unwrap_or(1);
                let alive = beat(&node, keeper);
                let (name, keeper) = (node.name().to_owned(), keeper.clone());
                Ok(Self { keeper, architecture, cpus, alive, node, name, _started: None })
            }
            _ => Err(HostFault::Already(node.name().to_owned())),
        }
    }

    /// The same, of a node that was started for it and ends with it; `name` is what a person calls it.
    pub fn of_started(node: Node, started: SshNode, name: &str) -> Result<Self, HostFault> {
        let mut host = Self::of(node)?;
        (host.name, host._started) = (name.to_owned(), Some(started));
        Ok(host)
    }

    /// What a person calls it: its node's name, or how it was written.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The node.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// As the node has it: `x86_64-pc-linux-gnu`.
    pub fn architecture(&self) -> &str {
        &self.architecture
    }

    /// CPUs that its processes may use.
    pub fn cpus(&self) -> u16 {
        self.cpus
    }

    /// Has it have this program, of that MD5: the one that it has installed, or a copy. How many bytes were sent.
    pub fn deliver(&self, program: &[u8], md5: &[u8]) -> Result<usize, HostFault> {
        let found = self.call("find", vec![binary(md5)])?;
        if as_atom(&found) == Some("true") {
            return Ok(0);
        }
        for piece in program.chunks(PIECE) {
            self.done("put", "write the program into a file", vec![binary(piece)])?;
        }
        self.done("finish", "write the program into a file", vec![binary(md5)])?;
        Ok(program.len())
    }

    /// Starts it.
    pub fn run(&self, words: &[&str]) -> Result<FarProgram, HostFault> {
        let words = list(words.iter().map(|word| binary(*word)).collect());
        let answer = self.call("run", vec![words])?;
        match as_tuple(&answer) {
            Some([tag, Term::Pid(worker)]) if as_atom(tag) == Some("ok") => {
                Ok(FarProgram { node: self.node.clone(), worker: worker.clone() })
            }
            _ => Err(self.failed("start the program", &answer)),
        }
    }

    fn call(&self, function: &str, more: Vec<Term>) -> Result<Term, CallFault> {
        let arguments = std::iter::once(self.keeper.clone().into()).chain(more).collect();
        self.node.call(MODULE.name, function, arguments, PATIENCE)
    }

    fn done(&self, function: &str, what: &'static str, more: Vec<Term>) -> Result<(), HostFault> {
        let answer = self.call(function, more)?;
        match as_atom(&answer) {
            Some("ok") => Ok(()),
            _ => Err(self.failed(what, &answer)),
        }
    }

    fn failed(&self, what: &'static str, answer: &Term) -> HostFault {
        let reason = match as_tuple(answer) {
            Some([_, reason]) => in_words(reason),
            _ => in_words(answer),
        };
        HostFault::Failed { node: self.node.name().to_owned(), what, reason }
    }
}

/// Says now and then that somebody still wants the keeper. Without a thread it ends when nothing is asked of it.
fn beat(node: &Node, keeper: &Pid) -> Option<(Sender<()>, JoinHandle<()>)> {
    let (stop, stopped) = channel();
    let (node, keeper) = (node.clone(), keeper.clone());
    let thread = std::thread::Builder::new().name("beam-host".into()).spawn(move || {
        while stopped.recv_timeout(ALIVE) == Err(RecvTimeoutError::Timeout) {
            if node.say_alive(&keeper).is_err() {
                return;
            }
        }
    });
    thread.ok().map(|thread| (stop, thread))
}

impl Drop for Host {
    fn drop(&mut self) {
        if let Some((stop, thread)) = self.alive.take() {
            drop(stop);
            // It waits for nothing but the channel.
            let _ = thread.join();
        }
        // One that does not hear it notices that we are gone.
        let close = vec![self.keeper.clone().into()];
        let _ = self.node.call(MODULE.name, "close", close, Duration::from_secs(1));
    }
}

impl FarProgram {
    /// Tells it something, behind what it was told before. How it gets there is not waited for.
    pub fn tell(&self, bytes: &[u8]) -> Result<(), CallFault> {
        // Dropped at once: nobody waits for the answer.
        self.node.request_with(&self.worker, "tell", binary(bytes)).map(|_: Asked| ())
    }

    /// What it has said since, waiting so long for something.
    pub fn take(&self, patience: Duration) -> Result<Taken, HostFault> {
        let wait = i64::try_from(patience.as_millis()).unwrap_or(i64::MAX);
        let arguments = vec![self.worker.clone().into(), integer(wait)];
        let answer = self.node.call(MODULE.name, "take", arguments, patience + PATIENCE)?;
        match as_tuple(&answer) {
            Some([_, Term::Binary(said)]) => Ok(Taken::Said(said.bytes.clone())),
            Some([tag, status]) if as_atom(tag) == Some("ended") => {
                Ok(Taken::Ended(as_u64(status).unwrap_or_default()))
            }
            _ => Err(HostFault::Failed {
                node: self.node.name().to_owned(),
                what: "relay its program's output",
                reason: in_words(&answer),
            }),
        }
    }
}
