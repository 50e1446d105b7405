//! linerate's probe inside a node: delivered, started, asked, and taken away again.
//!
//! The contract with `agent/src/probe/linerate_probe.erl`: `start(Options)` of the module it is in answers
//! `{ok, Pid}` or `{error, Reason}`. That process answers `{sample, From, Ref}` with `{Ref, Rows}` and
//! `{stop, From, Ref}` with `{Ref, stopped}`, and then it is gone with all modules of `unload`. It goes
//! by itself when the owner does, or after four seconds in which it hears nothing; `{alive, Ref}` is
//! to be heard.

use std::path::{Path, PathBuf};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use linerate_evidence::sources::node::NodeRow;
use linerate_model::Share;

use crate::agent::{agent, at_hand};
use crate::delivery::{
    Delivered, Parcel, REGISTERED, Undelivered, options, parts, refused, unload, whole,
};
use crate::node::{CallFault, Node};
use crate::rows::rows;
use crate::term::{Pid, Term, as_atom, as_tuple, atom, in_words};

/// How the probe is to be.
#[derive(Clone, Debug)]
pub struct ProbeOptions {
    /// How much of one scheduler it may take.
    pub budget: Share,
    /// How often it will be asked.
    pub interval: Duration,
    /// Folder of the agent's beams; none: where [`crate::find_agent`] finds it.
    pub agent: Option<PathBuf>,
    /// Whether it tells the kernel's side too, and what of it: for a node on another host.
    pub kernel: Option<KernelSide>,
}

/// What the node reads for us of its kernel, besides its sockets and threads.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct KernelSide {
    /// Paths there.
    pub files: Vec<String>,
    /// How many descriptors it may open; none: as many as it likes. It opens no file while few are left.
    pub descriptors: Option<u64>,
}

impl Default for ProbeOptions {
    fn default() -> Self {
        // Chosen: what nobody notices, and twice a second.
        Self {
            budget: Share(0.01),
            interval: Duration::from_millis(500),
            agent: None,
            kernel: None,
        }
    }
}

/// Why there are no rows.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum ProbeFault {
    /// The connection, or the node.
    #[error(transparent)]
    Call(#[from] CallFault),
    /// Its code is not there.
    #[error(transparent)]
    Undelivered(#[from] Undelivered),
    /// Another linerate is in the node.
    #[error(
        "another linerate is attached to {0}: wait until it is done, or end it; a load for `doctor` to watch is `run --no-inside`"
    )]
    Already(String),
    /// It did not start.
    #[error(
        "the probe did not start on {node}: {reason}; if linerate and its agent are of different builds, run `make build`"
    )]
    Unstarted {
        /// The node.
        node: String,
        /// As the node has it.
        reason: String,
    },
    /// It ended by itself: it took too much, or somebody killed it.
    #[error("the probe on {0} has ended by itself, and left the node as it was; attach again")]
    Gone(String),
    /// An answer that is none.
    #[error("the probe on {node} answered {found}, which is not a list of rows")]
    Unreadable {
        /// The node.
        node: String,
        /// What it was.
        found: String,
    },
}

impl ProbeFault {
    /// Whether the connection is gone, and another one might do.
    pub fn is_lost(&self) -> bool {
        matches!(
            self,
            ProbeFault::Call(CallFault::Lost { .. })
                | ProbeFault::Undelivered(Undelivered::Call(CallFault::Lost { .. }))
        )
    }
}

/// Chosen: starting takes milliseconds, and seconds where all schedulers are busy.
const PATIENCE: Duration = Duration::from_secs(10);

/// How long a probe that is in the way is waited for. Source: linerate_probe.erl ends by itself after
/// four seconds without a word; this is for one whose linerate was killed.
const LEFTOVER: Duration = Duration::from_secs(6);

/// Chosen: four times in what the probe takes for silence.
const ALIVE: Duration = Duration::from_secs(1);

/// A probe that runs in a node. Dropped, it is taken out again.
#[derive(Debug)]
pub struct Attached {
    node: Node,
    probe: Pid,
    delivered: Delivered,
    alive: Option<(Sender<()>, JoinHandle<()>)>,
}

impl Node {
    /// Puts the probe into the node and starts it.
    pub fn attach(&self, asked: &ProbeOptions) -> Result<Attached, ProbeFault> {
        let beams = at_hand(asked.agent.as_deref());
        let deadline = Instant::now() + LEFTOVER;
        loop {
            // One that is leaving takes its modules along, and one that stays runs in them.
            let fault = if self.has_a_probe()? {
                ProbeFault::Already(self.name().to_owned())
            } else {
                match self.begin(asked, beams.as_deref()) {
                    Ok((probe, delivered)) => {
                        return Ok(Attached::new(self.clone(), probe, delivered));
                    }
                    Err(fault @ ProbeFault::Already(_)) => fault,
                    Err(fault) => return Err(fault),
                }
            };
            if Instant::now() >= deadline {
                return Err(fault);
            }
            std::thread::sleep(Duration::from_millis(100));
        }
    }

    /// Whether the process that `start` registers is there.
    fn has_a_probe(&self) -> Result<bool, CallFault> {
        let found = self.call("erlang", "whereis", vec![atom(REGISTERED)], PATIENCE)?;
        Ok(matches!(found, Term::Pid(_)))
    }

    fn begin(
        &self,
        asked: &ProbeOptions,
        beams: Option<&Path>,
    ) -> Result<(Pid, Delivered), ProbeFault> {
        if let Some(begun) = self.begin_whole(asked, beams)? {
            return Ok(begun);
        }
        let parcel = match parts(self) {
            Ok(parcel) => parcel,
            // A release without a compiler takes what the Erlang of this host makes of the same text.
            Err(refused) => {
                let compiled =
                    beams.is_none().then(|| agent(asked.agent.as_deref()).ok()).flatten();
                let begun = self.begin_whole(asked, compiled.as_deref())?;
                return begun.ok_or_else(|| refused.into());
            }
        };
        // To compile takes seconds.
        if self.has_a_probe()? {
            return Err(ProbeFault::Already(self.name().to_owned()));
        }
        let module = "linerate_probe";
        self.start(asked, &parcel)?.ok_or_else(|| {
            refused(self, module, "it will not have what its own compiler made".into()).into()
        })
    }

    /// With the probe as one module; none where that is not built, or the node will not have it.
    fn begin_whole(
        &self,
        asked: &ProbeOptions,
        beams: Option<&Path>,
    ) -> Result<Option<(Pid, Delivered)>, ProbeFault> {
        match whole(self, beams)? {
            Some(parcel) => self.start(asked, &parcel),
            None => Ok(None),
        }
    }

    /// None: the node will not have the code. After an error nothing of it is left, or the probe has started
    /// unheard, and goes by itself.
    fn start(
        &self,
        asked: &ProbeOptions,
        parcel: &Parcel,
    ) -> Result<Option<(Pid, Delivered)>, ProbeFault> {
        let permille = (asked.budget.0 * 1000.0).round().clamp(1.0, 1000.0) as i64;
        let interval = i64::try_from(asked.interval.as_millis()).unwrap_or(i64::MAX).max(1);
        let owner = self.own_pid().clone().into();
        let kernel = asked.kernel.as_ref();
        let options = options(owner, permille, &parcel.loaded(), interval, kernel);
        let Some(answer) = parcel.start(self, options)? else {
            unload(self, &parcel.loaded());
            return Ok(None);
        };
        let node = self.name().to_owned();
        let reason = match as_tuple(&answer) {
            Some([ok, Term::Pid(probe)]) if as_atom(ok) == Some("ok") => {
                return Ok(Some((probe.clone(), parcel.delivered())));
            }
            // Another was quicker by a hair: the modules are its own too.
            Some([_, reason]) if as_atom(reason) == Some("already") => {
                return Err(ProbeFault::Already(node));
            }
            Some([_, reason]) => in_words(reason),
            _ => in_words(&answer),
        };
        unload(self, &parcel.loaded());
        Err(ProbeFault::Unstarted { node, reason })
    }
}

impl Attached {
    fn new(node: Node, probe: Pid, delivered: Delivered) -> Self {
        let (stop, stopped) = channel();
        let beat = {
            let (node, probe) = (node.clone(), probe.clone());
            move || {
                while stopped.recv_timeout(ALIVE) == Err(RecvTimeoutError::Timeout) {
                    if node.say_alive(&probe).is_err() {
                        return;
                    }
                }
            }
        };
        let thread = std::thread::Builder::new().name("beam-alive".into()).spawn(beat);
        // Without a thread the probe ends when it is not asked for a while; nothing worse.
        let alive = thread.ok().map(|thread| (stop, thread));
        Self { node, probe, delivered, alive }
    }

    /// The node it is in.
    pub fn node(&self) -> &Node {
        &self.node
    }

    /// The modules that were loaded for it.
    pub fn loaded(&self) -> &[&'static str] {
        &self.delivered.loaded
    }

    /// Calls a function of a part of the probe, `linerate_probe_knob` for one.
    pub fn call(
        &self,
        part: &'static str,
        function: &str,
        arguments: Vec<Term>,
        timeout: Duration,
    ) -> Result<Term, CallFault> {
        self.node.call(self.delivered.module(part), function, arguments, timeout)
    }

    /// One pass over the node.
    pub fn sample(&self, timeout: Duration) -> Result<Vec<NodeRow>, ProbeFault> {
        let asked = self.node.request(&self.probe, "sample")?;
        let answer = match asked.wait(timeout) {
            Err(CallFault::Silent { .. }) if !self.lives()? => {
                return Err(ProbeFault::Gone(self.node.name().to_owned()));
            }
            answered => answered?,
        };
        rows(&answer).ok_or_else(|| ProbeFault::Unreadable {
            node: self.node.name().to_owned(),
            found: in_words(&answer),
        })
    }

    /// Ends the probe and takes its code away. An error: the node does it by itself within seconds.
    pub fn detach(self) -> Result<(), ProbeFault> {
        self.detach_within(PATIENCE)
    }

    /// The same where nobody waits long for a node that may hang.
    pub fn detach_within(mut self, patience: Duration) -> Result<(), ProbeFault> {
        self.end(patience)
    }

    fn lives(&self) -> Result<bool, CallFault> {
        let arguments = vec![self.probe.clone().into()];
        let lives = self.node.call("erlang", "is_process_alive", arguments, PATIENCE)?;
        Ok(as_atom(&lives) == Some("true"))
    }

    fn end(&mut self, patience: Duration) -> Result<(), ProbeFault> {
        let Some((stop, thread)) = self.alive.take() else { return Ok(()) };
        drop(stop);
        // It waits for nothing but the channel.
        let _ = thread.join();
        // One that says nothing is at it, or will be after four seconds without a word. To take its code away
        // now would end it before it has put anything back.
        self.node.request(&self.probe, "stop")?.wait(patience)?;
        // Its last step is to purge itself, after its answer.
        let deadline = Instant::now() + patience;
        while let Some(module) = self.delivered.loaded.last() {
            let is = |what| {
                let found = self.node.call("erlang", what, vec![atom(module)], patience)?;
                Ok::<_, CallFault>(as_atom(&found) == Some("true"))
            };
            if !is("module_loaded")? && !is("check_old_code")? {
                self.delivered.loaded.pop();
            } else if Instant::now() >= deadline {
                unload(&self.node, &self.delivered.loaded);
                break;
            } else {
                std::thread::sleep(Duration::from_millis(10));
            }
        }
        Ok(())
    }
}

impl Drop for Attached {
    fn drop(&mut self) {
        // Chosen: a program that ends for another reason does not wait for this.
        let _ = self.end(Duration::from_secs(1));
    }
}
