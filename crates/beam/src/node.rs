//! A connection to a node, and calls over it.
//!
//! A call is a request to `rex`, the server that every node has for `rpc:call`. What the called
//! function prints goes to the node's own `user`: with our pid as its group leader it would wait for
//! us to print it.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};
use std::net::SocketAddr;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use erl_dist::message::Message;

use crate::cookie::Cookie;
use crate::dial::{Dialled, dial};
use crate::frames::{Beat, Frames, read_message, write_message};
use crate::place::Where;
use crate::stream::Outgoing;
use crate::term::{self, Atom, Pid, Reference, Term, atom, list, tuple};
use crate::unreached::Unreached;

/// A node hears from us at least so often while it talks itself. Chosen: a node ticks four times in
/// its net_ticktime, which is a second at least, and drops who was silent for all four.
const TICK: Duration = Duration::from_millis(200);

/// A live node. Clones are the same connection, which ends with the last of them.
#[derive(Clone)]
pub struct Node(Arc<Connection>);

struct Connection {
    place: Where,
    cookie: Cookie,
    ends: (SocketAddr, SocketAddr),
    shared: Arc<Shared>,
    reader: Option<JoinHandle<()>>,
}

struct Shared {
    /// What the node calls itself.
    peer: String,
    own: Pid,
    sending: Mutex<Sending>,
    waiting: Mutex<Waiting>,
}

struct Sending {
    outgoing: Outgoing,
    last: Instant,
}

struct Waiting {
    last_number: u64,
    answers: BTreeMap<u64, SyncSender<Term>>,
    /// Why the connection is no more.
    ended: Option<String>,
}

/// Why a call has no result.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
pub enum CallFault {
    /// The connection is no more.
    #[error("the connection to {node} is lost: {reason}")]
    Lost {
        /// The node.
        node: String,
        /// What happened.
        reason: String,
    },
    /// No answer in time.
    #[error("{node} did not answer {what} within {waited:?}")]
    Silent {
        /// The node.
        node: String,
        /// `module:function/arity`.
        what: String,
        /// How long.
        waited: Duration,
    },
    /// The function is not there, or crashed.
    #[error("{what} failed on {node}: {}", term::in_words(.reason))]
    Crashed {
        /// The node.
        node: String,
        /// `module:function/arity`.
        what: String,
        /// As `{badrpc, Reason}` has it.
        reason: Box<Term>,
    },
}

impl fmt::Debug for Node {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Node").field(&self.0.shared.peer).finish()
    }
}

impl Node {
    /// Reaches the node as a hidden one.
    pub fn connect(place: &Where, cookie: &Cookie) -> Result<Node, Unreached> {
        let Dialled { incoming, outgoing, own: (name, creation), peer, ends } =
            dial(place, cookie)?;
        let own = Pid { node: Atom::from(name), id: 1, serial: 0, creation };
        let shared = Arc::new(Shared {
            peer,
            own,
            sending: Mutex::new(Sending { outgoing, last: Instant::now() }),
            waiting: Mutex::new(Waiting { last_number: 0, answers: BTreeMap::new(), ended: None }),
        });
        let unreachable = |error: io::Error| Unreached::Unreachable {
            address: place.to_string(),
            reason: error.to_string(),
        };
        let frames = Frames::new(incoming).map_err(unreachable)?;
        let reader = std::thread::Builder::new()
            .name("beam-reader".into())
            .spawn({
                let shared = Arc::clone(&shared);
                move || shared.read(frames)
            })
            .map_err(unreachable)?;
        let (place, cookie) = (place.clone(), cookie.clone());
        Ok(Node(Arc::new(Connection { place, cookie, ends, shared, reader: Some(reader) })))
    }

    /// Another connection to the same node, after this one was lost.
    pub fn reconnect(&self) -> Result<Node, Unreached> {
        Node::connect(&self.0.place, &self.0.cookie)
    }

    /// What the node calls itself: `name@host`.
    pub fn name(&self) -> &str {
        &self.0.shared.peer
    }

    /// Where it was reached.
    pub fn place(&self) -> &Where {
        &self.0.place
    }

    /// Our end of the connection, and the node's.
    pub fn ends(&self) -> (SocketAddr, SocketAddr) {
        self.0.ends
    }

    /// Whose messages the node sees from us.
    pub fn own_pid(&self) -> &Pid {
        &self.0.shared.own
    }

    /// An error that says why, once the connection is lost.
    pub fn alive(&self) -> Result<(), CallFault> {
        match &self.0.shared.waiting().ended {
            None => Ok(()),
            Some(reason) => Err(self.0.shared.lost(reason)),
        }
    }

    /// Calls a function there and waits for its result.
    pub fn call(
        &self,
        module: &str,
        function: &str,
        arguments: Vec<Term>,
        timeout: Duration,
    ) -> Result<Term, CallFault> {
        self.ask(module, function, arguments)?.wait(timeout)
    }

    /// Calls a function there, whose result is waited for later or not at all.
    pub fn ask(
        &self,
        module: &str,
        function: &str,
        arguments: Vec<Term>,
    ) -> Result<Asked, CallFault> {
        let what = format!("{module}:{function}/{}", arguments.len());
        let own = self.own_pid().clone();
        self.0.shared.send(what, |reference| {
            let from = tuple(vec![own.clone().into(), reference]);
            let call =
                vec![atom("call"), atom(module), atom(function), list(arguments), atom("user")];
            let request = tuple(vec![atom("$gen_call"), from, tuple(call)]);
            Message::reg_send(own, Atom::from("rex"), request)
        })
    }

    /// Tells the probe `{alive, Reference}`, which nobody answers.
    pub(crate) fn say_alive(&self, to: &Pid) -> Result<(), CallFault> {
        let say = |reference| Message::send(to.clone(), tuple(vec![atom("alive"), reference]));
        self.0.shared.send("alive".to_owned(), say).map(drop)
    }

    /// Sends a process `{Verb, OurPid, Reference}`, which it answers with `{Reference, Result}`.
    pub(crate) fn request(&self, to: &Pid, verb: &str) -> Result<Asked, CallFault> {
        let own = self.own_pid().clone();
        self.0.shared.send(verb.to_owned(), |reference| {
            Message::send(to.clone(), tuple(vec![atom(verb), own.into(), reference]))
        })
    }

    /// The same with something beside the verb: `{{Verb, What}, OurPid, Reference}`. What one process is sent so arrives in
    /// the order in which it was sent, as calls do not.
    pub(crate) fn request_with(
        &self,
        to: &Pid,
        verb: &str,
        what: Term,
    ) -> Result<Asked, CallFault> {
        let own = self.own_pid().clone();
        let what = tuple(vec![atom(verb), what]);
        self.0.shared.send(verb.to_owned(), |reference| {
            Message::send(to.clone(), tuple(vec![what, own.into(), reference]))
        })
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.shared.sending().outgoing.shut();
        if let Some(reader) = self.reader.take() {
            // Its read returns at the socket's end.
            let _ = reader.join();
        }
    }
}

impl Shared {
    fn sending(&self) -> MutexGuard<'_, Sending> {
        self.sending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn waiting(&self) -> MutexGuard<'_, Waiting> {
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn lost(&self, reason: &str) -> CallFault {
        CallFault::Lost { node: self.peer.clone(), reason: reason.to_owned() }
    }

    fn send(
        self: &Arc<Self>,
        what: String,
        message: impl FnOnce(Term) -> Message,
    ) -> Result<Asked, CallFault> {
        let (tell, answer) = sync_channel(1);
        let number = {
            let mut waiting = self.waiting();
            if let Some(reason) = &waiting.ended {
                return Err(self.lost(reason));
            }
            waiting.last_number += 1;
            let number = waiting.last_number;
            waiting.answers.insert(number, tell);
            number
        };
        let asked = Asked { shared: Arc::clone(self), what, number, answer };
        let frame = write_message(message(self.reference(number).into()))
            .map_err(|error| self.lost(&error.to_string()))?;
        let mut sending = self.sending();
        if let Err(error) = sending.outgoing.write_all(&frame) {
            // Half a message may be out: nothing can follow it.
            sending.outgoing.shut();
            let reason = match error.kind() {
                io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                    "it takes no more data".to_owned()
                }
                _ => error.to_string(),
            };
            drop(sending);
            self.end(reason.clone());
            return Err(self.lost(&reason));
        }
        sending.last = Instant::now();
        drop(sending);
        Ok(asked)
    }

    /// Source: erl_ext_dist: of a reference's first word 18 bits count.
    fn reference(&self, number: u64) -> Reference {
        let words = vec![(number & 0x3ffff) as u32, (number >> 18) as u32, 0];
        Reference { node: self.own.node.clone(), id: words, creation: self.own.creation }
    }

    fn number_of(&self, reference: &Reference) -> Option<u64> {
        match reference.id[..] {
            [low, high, 0]
                if reference.node == self.own.node && reference.creation == self.own.creation =>
            {
                Some(u64::from(high) << 18 | u64::from(low))
            }
            _ => None,
        }
    }

    fn read(&self, mut frames: Frames) {
        let reason = loop {
            let frame = match frames.next(&mut |beat| self.beat(beat)) {
                Ok(frame) => frame,
                Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => {
                    break "the node closed it".to_owned();
                }
                Err(error) => break error.to_string(),
            };
            match read_message(frame) {
                Ok(Some(message)) => self.take(message),
                Ok(None) => {}
                Err(error) => break format!("the node sent {error}"),
            }
        };
        self.sending().outgoing.shut();
        self.end(reason);
    }

    /// Answers, and nothing else: a node may also link, monitor or print, which nobody here minds.
    fn take(&self, message: Message) {
        let content = match message {
            Message::Send(sent) => sent.message,
            Message::SendSender(sent) => sent.message,
            Message::RegSend(sent) => sent.message,
            _ => return,
        };
        let Term::Tuple(mut content) = content else { return };
        let [Term::Reference(reference), _] = &content.elements[..] else { return };
        let Some(number) = self.number_of(reference) else { return };
        let answer = self.waiting().answers.remove(&number);
        if let (Some(answer), Some(result)) = (answer, content.elements.pop()) {
            // Who asked may have given up.
            let _ = answer.try_send(result);
        }
    }

    fn beat(&self, beat: Beat) {
        // Whoever has it is sending, which is as good as a tick.
        let Ok(mut sending) = self.sending.try_lock() else { return };
        if beat == Beat::Silent || sending.last.elapsed() >= TICK {
            let tick = [0; 4];
            // A connection that is gone is noticed by the next read.
            let _ = sending.outgoing.write_all(&tick);
            sending.last = Instant::now();
        }
    }

    fn end(&self, reason: String) {
        let mut waiting = self.waiting();
        // The first reason stands: later ones follow from it.
        waiting.ended.get_or_insert(reason);
        waiting.answers.clear();
    }
}

/// A question that is out.
pub struct Asked {
    shared: Arc<Shared>,
    what: String,
    number: u64,
    answer: Receiver<Term>,
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Asked").field("what", &self.what).finish_non_exhaustive()
    }
}

impl Asked {
    /// Waits for the answer.
    pub fn wait(self, timeout: Duration) -> Result<Term, CallFault> {
        self.poll(timeout).unwrap_or_else(|| {
            Err(CallFault::Silent {
                node: self.shared.peer.clone(),
                what: self.what.clone(),
                waited: timeout,
            })
        })
    }

    /// Waits so long; none if there is no answer yet.
    pub fn poll(&self, timeout: Duration) -> Option<Result<Term, CallFault>> {
        match self.answer.recv_timeout(timeout) {
            Ok(result) => Some(self.of_rex(result)),
            Err(RecvTimeoutError::Timeout) => None,
            Err(RecvTimeoutError::Disconnected) => {
                let reason = self.shared.waiting().ended.clone();
                Some(Err(self.shared.lost(reason.as_deref().unwrap_or("it was asked twice"))))
            }
        }
    }

    fn of_rex(&self, result: Term) -> Result<Term, CallFault> {
        match term::as_tuple(&result) {
            Some([tag, reason]) if term::as_atom(tag) == Some("badrpc") => {
                Err(CallFault::Crashed {
                    node: self.shared.peer.clone(),
                    what: self.what.clone(),
                    reason: Box::new(reason.clone()),
                })
            }
            _ => Ok(result),
        }
    }
}

impl Drop for Asked {
    fn drop(&mut self) {
        self.shared.waiting().answers.remove(&self.number);
    }
}

// A sampler, a doctor and a progress line may share one.
const _: () = {
    const fn shared<T: Send + Sync>() {}
    shared::<Node>()
};
