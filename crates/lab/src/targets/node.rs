//! A BEAM node of our own with the agent in it, asked over Erlang's distribution.
//!
//! Its standard input is its lifeline: the first line brings the cookie, which no command line and no
//! environment shows; after that nothing is written, and the node ends when the input does. The one
//! line on its standard output tells its port.
//! Source: agent/src/control/linerate_control.erl and linerate_verbs.erl.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::process::{ChildStdin, ChildStdout, Command};
use std::time::{Duration, Instant};

use linerate_beam::term::{
    Term, as_atom, as_list, as_text, as_tuple, binary, in_words, list, tuple,
};
use linerate_beam::{CallFault, Cookie, Where};
use linerate_model::Target;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{End, check_cpus};
use crate::cancel::{Cancel, SLICE};
use crate::lay_error::LayError;
use crate::process::{self, Process, Start, Talk, next_number};

/// Chosen: a node is up in 0.3 s; an emulator with many schedulers on a busy machine in several.
const BOOT: Duration = Duration::from_secs(15);

/// Of the agent's protocol: what this client was written for.
const PROTOCOL: &str = "2";

/// Chosen: the ready line is a hundred bytes; what a flag makes the node print, a page.
const LONGEST_LINE: usize = 1 << 16;

/// Keys and values of an answer, in order.
pub(crate) type Words = Vec<(String, String)>;

/// See the module.
pub(crate) struct Node {
    process: Process,
    /// None once the node was told to end.
    lifeline: Option<ChildStdin>,
    answers: ChildStdout,
    begun: Vec<u8>,
    /// None until it is ready.
    link: Option<linerate_beam::Node>,
    pub pid: u32,
    pub schedulers: Option<u16>,
}

/// Why a question has no answer.
pub(crate) enum Unanswered {
    /// The node said no, and why.
    Refused(String),
    /// It ended, was silent, or what it said can't be read.
    Broken(String),
    /// The caller wished to stop.
    Interrupted,
}

impl Node {
    pub fn boot(
        ebin: &Path,
        target: &Target,
        end: Option<&End>,
        cancel: &Cancel,
    ) -> Result<Self, LayError> {
        let (flags, cpus) = (&target.vm_flags, target.cpus.clone());
        check_cpus(&cpus)?;
        let mut command = Command::new("erl");
        // +Bd: no break handler. -noinput leaves standard input to the agent. The others: no cookie of
        // the user's, and no epmd.
        command.args(["+Bd", "-noshell", "-noinput", "-nocookie", "-start_epmd", "false"]);
        command.args(["-epmd_module", "linerate_epmd", "-pa"]).arg(ebin);
        command.args(flags).args(["-s", "linerate_control", "main"]);
        // A node that is killed must not leave a dump in the folder linerate was called from.
        command.env("ERL_CRASH_DUMP_BYTES", "0");
        let netns = end.map(|end| end.netns.clone());
        let start =
            Start { command, netns, cpus, descriptors: target.descriptors, talk: Talk::Yes };
        let unstarted = |trouble: String| LayError::Node { trouble, last_words: String::new() };
        let mut process = Process::start(start).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => LayError::NoErlang,
            _ => unstarted(format!("could not be started: {error}")),
        })?;
        let lifeline = process.take_stdin();
        let no_output = || unstarted("was started without an output to read".into());
        let answers = process.take_stdout().ok_or_else(no_output)?;
        let pid = process.root();
        let mut node = Self {
            process,
            lifeline,
            answers,
            begun: Vec::new(),
            link: None,
            pid,
            schedulers: None,
        };
        let cookie = Cookie::random().map_err(LayError::system("making a cookie"))?;
        let mut place = place(end);
        let ip = end.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |end| end.ip);
        let said = node.begin(&format!("{} {place} {ip}\n", cookie.reveal()), flags, cancel)?;
        node.schedulers = said.get("schedulers").and_then(|number| number.parse().ok());
        place.port = said.get("port").and_then(|port| port.parse().ok());
        let link = linerate_beam::Node::connect(&place, &cookie)
            .map_err(|no| node.in_trouble(format!("was started and can't be reached: {no}")))?;
        node.link = Some(link);
        node.process.note();
        Ok(node)
    }

    /// Tells it what to be, and reads what it says to that.
    fn begin(
        &mut self,
        first: &str,
        flags: &[String],
        cancel: &Cancel,
    ) -> Result<BTreeMap<String, String>, LayError> {
        // A node that died takes nothing, and says why itself.
        let _ = self.lifeline.as_mut().map(|lifeline| lifeline.write_all(first.as_bytes()));
        let line =
            self.line(Instant::now() + BOOT, cancel).map_err(|no| self.no_boot(no, flags))?;
        let Some(words) = line.strip_prefix("ready") else {
            return Err(self.in_trouble(format!(
                "said `{line}` and not `ready`; remove from target.vm_flags what prints, or run `make agent` again"
            )));
        };
        let said: BTreeMap<_, _> = words
            .split(' ')
            .filter_map(|word| word.split_once('='))
            .map(|(key, value)| (key.to_owned(), value.to_owned()))
            .collect();
        if said.get("proto").is_none_or(|proto| proto != PROTOCOL) {
            let proto = said.get("proto").map_or("none", String::as_str);
            return Err(self.in_trouble(format!(
                "speaks protocol {proto} of the agent and linerate {PROTOCOL}; run `make agent` again"
            )));
        }
        Ok(said)
    }

    fn no_boot(&mut self, no: Unanswered, flags: &[String]) -> LayError {
        match no {
            Unanswered::Interrupted => LayError::Interrupted,
            Unanswered::Refused(reason) | Unanswered::Broken(reason) if flags.is_empty() => {
                self.in_trouble(format!("{reason} before it was ready"))
            }
            Unanswered::Refused(reason) | Unanswered::Broken(reason) => {
                let flags = flags.join(" ");
                self.in_trouble(format!(
                    "{reason} before it was ready; check target.vm_flags `{flags}`, and erl(1)"
                ))
            }
        }
    }

    fn in_trouble(&self, trouble: String) -> LayError {
        LayError::Node { trouble, last_words: self.process.last_words() }
    }

    /// The connection to it; none once it was told to end.
    pub fn link(&self) -> Option<linerate_beam::Node> {
        self.link.clone()
    }

    /// Asks, and waits for the answer.
    pub fn ask(
        &mut self,
        verb: &str,
        words: &[(&str, &str)],
        patience: Duration,
        cancel: &Cancel,
    ) -> Result<Words, Unanswered> {
        let Some(link) = self.link.clone() else { return Err(Unanswered::Broken(self.end())) };
        let words = words.iter().map(|(key, value)| tuple(vec![binary(*key), binary(*value)]));
        let arguments = vec![binary(verb), list(words.collect())];
        let deadline = Instant::now() + patience;
        let answer = link.ask("linerate_verbs", "answer", arguments).and_then(|asked| {
            loop {
                if cancel.check().is_err() {
                    return Ok(None);
                }
                if let Some(answer) = asked.poll(cancel.slice(deadline)) {
                    return answer.map(Some);
                }
                if Instant::now() >= deadline {
                    return asked.wait(Duration::ZERO).map(Some);
                }
            }
        });
        match answer {
            Ok(Some(answer)) => read(&answer),
            Ok(None) => Err(Unanswered::Interrupted),
            Err(CallFault::Silent { .. }) => Err(Unanswered::Broken("was silent".into())),
            Err(CallFault::Crashed { reason, .. }) => {
                Err(Unanswered::Broken(format!("crashed with {}", in_words(&reason))))
            }
            Err(CallFault::Lost { .. }) => Err(Unanswered::Broken(self.end())),
        }
    }

    fn line(&mut self, deadline: Instant, cancel: &Cancel) -> Result<String, Unanswered> {
        loop {
            if let Some(end) = self.begun.iter().position(|byte| *byte == b'\n') {
                let line: Vec<u8> = self.begun.drain(..=end).collect();
                return Ok(String::from_utf8_lossy(&line[..end]).into_owned());
            }
            cancel.check().map_err(|_| Unanswered::Interrupted)?;
            let slice = Timespec::try_from(cancel.slice(deadline)).expect("a slice is short");
            let mut polled = [PollFd::new(&self.answers, PollFlags::IN)];
            match poll(&mut polled, Some(&slice)) {
                Ok(0) | Err(rustix::io::Errno::INTR) if Instant::now() >= deadline => {
                    return Err(Unanswered::Broken("was silent".into()));
                }
                Ok(0) | Err(rustix::io::Errno::INTR) => continue,
                Ok(_) => {}
                Err(error) => return Err(Unanswered::Broken(error.to_string())),
            }
            let mut piece = [0; 4096];
            match self.answers.read(&mut piece) {
                Ok(0) | Err(_) => return Err(Unanswered::Broken(self.end())),
                Ok(_) if self.begun.len() > LONGEST_LINE => {
                    return Err(Unanswered::Broken("writes without an end of line".into()));
                }
                Ok(n) => self.begun.extend_from_slice(&piece[..n]),
            }
        }
    }

    /// How it ended: its output or its connection did, so it is about to.
    fn end(&mut self) -> String {
        let deadline = Instant::now() + SLICE;
        loop {
            match self.process.ended() {
                Some(status) => return format!("ended with {}", process::in_words(status)),
                None if Instant::now() > deadline => return "cut its connection".into(),
                None => std::thread::sleep(Duration::from_millis(1)),
            }
        }
    }

    /// An error that says how it ended, once it has.
    pub fn alive(&mut self) -> Result<(), String> {
        match self.process.ended() {
            None => Ok(()),
            Some(status) => {
                let words = self.process.last_words();
                Err(format!("the BEAM node ended with {}{words}", process::in_words(status)))
            }
        }
    }

    /// What it wrote last, as the end of a sentence.
    pub fn last_words(&self) -> String {
        self.process.last_words()
    }

    /// Ends it. Returns what is left.
    pub fn stop(&mut self) -> Vec<String> {
        self.link = None;
        // The end of its input halts it at once; whatever does not heed that is ended as any process.
        self.lifeline = None;
        let deadline = Instant::now() + Duration::from_millis(500);
        while self.process.ended().is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.process.stop()
    }
}

/// A name that no other node of this machine has, at the address where it listens.
fn place(end: Option<&End>) -> Where {
    let host = end.map_or(IpAddr::V4(Ipv4Addr::LOCALHOST), |end| end.ip).to_string();
    Where {
        name: format!("linerate_{}_{}", std::process::id(), next_number()),
        host: Some(host),
        port: None,
        epmd_port: None,
        tls: None,
        netns: end.map(|end| end.netns.clone()),
        via: None,
    }
}

/// `{ok, Words}` or `{error, Sentence}`.
fn read(answer: &Term) -> Result<Words, Unanswered> {
    let strange =
        || Unanswered::Broken(format!("answered {}, which can't be read", in_words(answer)));
    let Some([outcome, content]) = as_tuple(answer) else { return Err(strange()) };
    match as_atom(outcome) {
        Some("error") => Err(as_text(content).map_or_else(strange, Unanswered::Refused)),
        Some("ok") => {
            let words = as_list(content).ok_or_else(strange)?;
            let pair = |word: &Term| match as_tuple(word) {
                Some([key, value]) => Some((as_text(key)?, as_text(value)?)),
                _ => None,
            };
            words.iter().map(pair).collect::<Option<Words>>().ok_or_else(strange)
        }
        _ => Err(strange()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use linerate_beam::term::atom;

    #[test]
    fn answers_are_words_or_a_sentence_and_nothing_else() {
        let pair = tuple(vec![binary("port"), binary("80")]);
        let answer = tuple(vec![atom("ok"), list(vec![pair])]);
        let Ok(words) = read(&answer) else { panic!("{answer:?}") };
        assert_eq!(words, [("port".to_owned(), "80".to_owned())]);
        let refusal = read(&tuple(vec![atom("error"), binary("größer")]));
        assert!(matches!(refusal, Err(Unanswered::Refused(why)) if why == "größer"));
        for strange in [atom("ok"), tuple(vec![atom("ok"), atom("x")]), tuple(vec![])] {
            assert!(matches!(read(&strange), Err(Unanswered::Broken(_))));
        }
    }

    #[test]
    fn no_two_nodes_have_one_name() {
        assert_ne!(place(None).name, place(None).name);
    }
}
