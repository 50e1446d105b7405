//! A BEAM node of our own with the agent in it, and the line over which it is asked.
//!
//! One line a message: `ID VERB key=value ...`, answered by `ID ok key=value ...` or
//! `ID error reason=...`; space, `%`, `=` and line ends stand as `%20` and so on. The node lives as
//! long as its standard input.
//! Source: agent/src/control/linerate_control.erl and linerate_line.erl.

use std::collections::BTreeMap;
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, ChildStdout, Command};
use std::time::{Duration, Instant};

use linerate_model::Target;
use rustix::event::{PollFd, PollFlags, Timespec, poll};

use super::{End, check_cpus};
use crate::cancel::Cancel;
use crate::lay_error::LayError;
use crate::process::{Process, Start, Talk, in_words};

/// Chosen: a node is up in 0.3 s; an emulator with many schedulers on a busy machine in several.
const BOOT: Duration = Duration::from_secs(15);

/// Of the agent's protocol: what this client was written for.
const PROTOCOL: &str = "1";

/// Chosen: an answer is a page of text at most.
const LONGEST_LINE: usize = 1 << 20;

/// Keys and values of an answer, in order.
pub(super) type Words = Vec<(String, String)>;

/// See the module.
pub(super) struct Node {
    process: Process,
    /// None once the node was told to end.
    requests: Option<ChildStdin>,
    answers: ChildStdout,
    begun: Vec<u8>,
    last_id: u64,
    pub pid: u32,
    pub schedulers: Option<u16>,
}

/// Why a question has no answer.
pub(super) enum Unanswered {
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
        // +Bd: no break handler. -noinput leaves standard input to the agent.
        command.args(["+Bd", "-noshell", "-noinput", "-pa"]).arg(ebin);
        command.args(flags).args(["-s", "linerate_control", "main"]);
        // A node that is killed must not leave a dump in the folder linerate was called from.
        command.env("ERL_CRASH_DUMP_BYTES", "0");
        let netns = end.map(|end| end.netns.clone());
        let start = Start { command, netns, cpus, descriptors: target.descriptors, talk: Talk::Yes };
        let mut process = Process::start(start).map_err(|error| match error.kind() {
            io::ErrorKind::NotFound => LayError::NoErlang,
            _ => LayError::Node {
                trouble: format!("could not be started: {error}"),
                last_words: String::new(),
            },
        })?;
        let requests = process.take_stdin();
        let answers = process.take_stdout().ok_or_else(|| LayError::Node {
            trouble: "was started without an output to read".into(),
            last_words: String::new(),
        })?;
        let pid = process.root();
        let mut node = Self {
            process,
            requests,
            answers,
            begun: Vec::new(),
            last_id: 0,
            pid,
            schedulers: None,
        };
        let line =
            node.line(Instant::now() + BOOT, cancel).map_err(|no| node.no_boot(no, flags))?;
        let said: BTreeMap<_, _> = match line.strip_prefix("ready") {
            Some(words) => decode(words).into_iter().collect(),
            None => {
                let trouble = format!(
                    "said `{line}` and not `ready`; take out of target.vm_flags what prints, or run `make agent` again"
                );
                return Err(node.in_trouble(trouble));
            }
        };
        if said.get("proto").is_none_or(|proto| proto != PROTOCOL) {
            let proto = said.get("proto").map_or("none", String::as_str);
            let trouble = format!(
                "speaks protocol {proto} of the agent and linerate {PROTOCOL}; run `make agent` again"
            );
            return Err(node.in_trouble(trouble));
        }
        node.schedulers = said.get("schedulers").and_then(|number| number.parse().ok());
        node.process.note();
        Ok(node)
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

    /// Asks, and waits for the answer.
    pub fn ask(
        &mut self,
        verb: &str,
        words: &[(&str, &str)],
        patience: Duration,
        cancel: &Cancel,
    ) -> Result<Words, Unanswered> {
        self.last_id += 1;
        let id = self.last_id.to_string();
        let mut line = format!("{id} {verb}");
        for (key, value) in words {
            line.push_str(&format!(" {key}={}", encode(value)));
        }
        line.push('\n');
        let requests = self.requests.as_mut();
        let sent = requests.map(|requests| requests.write_all(line.as_bytes()));
        if !matches!(sent, Some(Ok(()))) {
            return Err(Unanswered::Broken(self.end()));
        }
        let deadline = Instant::now() + patience;
        loop {
            let line = self.line(deadline, cancel)?;
            let (to, answer) = line.split_once(' ').unwrap_or((&line, ""));
            // The answer to an earlier question that was given up comes first.
            if to != id {
                continue;
            }
            let (outcome, words) = answer.split_once(' ').unwrap_or((answer, ""));
            let words = decode(words);
            return match outcome {
                "ok" => Ok(words),
                "error" => Err(Unanswered::Refused(
                    words.into_iter().find(|(key, _)| key == "reason").unwrap_or_default().1,
                )),
                _ => Err(Unanswered::Broken(format!("answered `{line}`, which can't be read"))),
            };
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

    /// How it ended: its output did, so it is about to.
    fn end(&mut self) -> String {
        let deadline = Instant::now() + Duration::from_millis(90);
        loop {
            match self.process.ended() {
                Some(status) => return format!("ended with {}", in_words(status)),
                None if Instant::now() > deadline => return "closed its control line".into(),
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
                Err(format!("the BEAM node ended with {}{words}", in_words(status)))
            }
        }
    }

    /// What it wrote last, as the end of a sentence.
    pub fn last_words(&self) -> String {
        self.process.last_words()
    }

    /// Ends it. Returns what is left.
    pub fn stop(&mut self) -> Vec<String> {
        // The end of its input halts it at once; whatever does not heed that is ended as any process.
        self.requests = None;
        let deadline = Instant::now() + Duration::from_millis(500);
        while self.process.ended().is_none() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(2));
        }
        self.process.stop()
    }
}

/// The folder of the agent's beams: the first that has them of what was given, the environment's, and
/// the build's place below this folder and below the program's.
pub(super) fn find_agent(given: Option<&Path>) -> Result<PathBuf, LayError> {
    let environment = std::env::var_os("LINERATE_AGENT").map(PathBuf::from);
    let program = std::env::current_exe().ok();
    let folders = folders(given, environment.as_deref(), program.as_deref());
    let built = |folder: &&PathBuf| folder.join("linerate_control.beam").is_file();
    match folders.iter().find(built) {
        // The node's folder is ours, but what it loads later is found from where it stands then.
        Some(folder) => Ok(folder.canonicalize().unwrap_or_else(|_| folder.clone())),
        None => {
            let looked: Vec<_> = folders.iter().map(|it| it.display().to_string()).collect();
            Err(LayError::AgentNotBuilt { looked: looked.join(", ") })
        }
    }
}

/// Source: rebar3's place for what it builds.
const BUILT: &str = "agent/_build/default/lib/linerate/ebin";

fn folders(
    given: Option<&Path>,
    environment: Option<&Path>,
    program: Option<&Path>,
) -> Vec<PathBuf> {
    // Who names a folder means that one: a build found elsewhere would be another agent.
    if let Some(named) = given.or(environment) {
        return vec![named.to_path_buf()];
    }
    let above = program.into_iter().flat_map(|program| program.ancestors().skip(1));
    std::iter::once(PathBuf::from(BUILT)).chain(above.map(|folder| folder.join(BUILT))).collect()
}

fn encode(value: &str) -> String {
    let mut encoded = String::new();
    for letter in value.chars() {
        match letter {
            ' ' => encoded.push_str("%20"),
            '%' => encoded.push_str("%25"),
            '=' => encoded.push_str("%3D"),
            '\n' => encoded.push_str("%0A"),
            '\r' => encoded.push_str("%0D"),
            _ => encoded.push(letter),
        }
    }
    encoded
}

fn decode(words: &str) -> Words {
    let words = words.split(' ').filter_map(|word| word.split_once('='));
    words.map(|(key, value)| (decode_value(key), decode_value(value))).collect()
}

fn decode_value(text: &str) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((first, after)) = rest.split_first() {
        let code = (*first == b'%').then(|| after.get(..2)).flatten();
        let code = code.and_then(|code| std::str::from_utf8(code).ok());
        match code.and_then(|code| u8::from_str_radix(code, 16).ok()) {
            Some(byte) => {
                bytes.push(byte);
                rest = &after[2..];
            }
            None => {
                bytes.push(*first);
                rest = after;
            }
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_go_through_the_line_unchanged() {
        for value in ["", "a b=c%d\r\n", "%20", "größer", "100%"] {
            let line = format!("x=1 key={}", encode(value));
            assert_eq!(decode(&line)[1], ("key".to_owned(), value.to_owned()));
        }
    }

    #[test]
    fn a_percent_sign_without_digits_is_left() {
        assert_eq!(decode_value("100%"), "100%");
        assert_eq!(decode_value("%zz%2"), "%zz%2");
    }

    #[test]
    fn a_named_folder_is_the_only_one_looked_in() {
        let (a, b) = (Path::new("/a"), Path::new("/b"));
        assert_eq!(folders(Some(a), Some(b), None), [a]);
        assert_eq!(folders(None, Some(b), None), [b]);
        let found = folders(None, None, Some(Path::new("/r/target/release/linerate")));
        assert_eq!(found[0], Path::new(BUILT));
        assert!(found.contains(&Path::new("/r").join(BUILT)));
    }
}
