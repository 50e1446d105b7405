//! A node on another host that ssh starts for us, and that ends with us.
//!
//! `ssh HOST erl ...`: the node reads its cookie from its standard input, which nobody else sees, listens on its host's
//! loopback only, and is reached through the same connection of ssh (`-L`). It lives as long as its input: when this is
//! dropped, when linerate is killed, or when the connection breaks, it ends. As a node of OTP's `peer` does, without an
//! Erlang here.

use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use crate::cookie::Cookie;
use crate::place::Where;

/// The scheme of such a host.
pub const SCHEME: &str = "ssh://";

// Chosen: ssh has 10 s to connect, and a node is up in one.
const STARTING: Duration = Duration::from_secs(25);

// Chosen: a node without anything to do ends in a tenth of it.
const ENDING: Duration = Duration::from_secs(3);

// Chosen: the last words of ssh or of a node that could not start.
const LONGEST_WORDS: usize = 4_096;

// Chosen: more than any line of ssh or of a shell's start files.
const LONGEST_LINE: u64 = 1 << 16;

/// Chosen: by chance a port is taken already, and hardly three of three are.
const TRIES: u32 = 3;

/// What the node is told by its command line. It is shown to everybody there, so nothing of it is secret; its cookie,
/// name and domain are the first line of its input. It has no quotes and nothing that a shell would take for its own.
///
/// Until it has its cookie it has that of its user (`~/.erlang.cookie`), and not none. A node that nobody has been connected
/// to for a minute ends, whatever became of its input.
const CODE: &str = "case string:lexemes(io:get_line([]), [32, 10]) of \
    [Cookie, Name, Domain] -> \
    case net_kernel:start(list_to_atom(Name), #{name_domain => list_to_atom(Domain), hidden => true}) of \
    {ok, _} -> erlang:set_cookie(list_to_atom(Cookie)), io:format(linerate_up), io:nl(); \
    {error, Reason} -> io:format(standard_error, [126, 112, 10], [Reason]), erlang:halt(1, [{flush, true}]) end; \
    _ -> erlang:halt(0, [{flush, false}]) end, \
    spawn(fun Input() -> case io:get_line([]) of eof -> erlang:halt(0, [{flush, false}]); \
    {error, _} -> erlang:halt(0, [{flush, false}]); _ -> Input() end end), \
    spawn(fun() -> (fun Wanted(Looks) -> timer:sleep(5000), case nodes(hidden) of \
    [] when Looks > 10 -> erlang:halt(0, [{flush, false}]); [] -> Wanted(Looks + 1); _ -> Wanted(0) end end)(0) end).";

/// Why there is no node. Each is a sentence that says what to do.
#[derive(Clone, Debug, Eq, PartialEq, thiserror::Error)]
pub enum NotStarted {
    /// Not written as a host.
    #[error("`{0}` is no host of ssh: write ssh://HOST, ssh://USER@HOST or ssh://USER@HOST:PORT")]
    NoHost(String),
    /// No ssh on this host.
    #[error(
        "`{0}` can't be run here ({1}): install openssh-client, or write another with --host-ssh"
    )]
    NoSsh(String, String),
    /// The other side does not let us in.
    #[error(
        "ssh was not let in ({0}): give it a key that needs no password, so that `ssh {1} true` works by itself"
    )]
    KeyRefused(String, String),
    /// It may be another host.
    #[error(
        "ssh does not know the host's key ({0}): connect once by hand (`ssh {1}`) and check it"
    )]
    UnknownHost(String, String),
    /// ssh said something else.
    #[error("ssh could not connect: {0}")]
    Ssh(String),
    /// No Erlang there.
    #[error(
        "no `erl` is in the PATH there: install Erlang/OTP 25 or newer (Debian: erlang-base), or have the user's PATH name it for commands of ssh"
    )]
    NoErl,
    /// It did not start, or not in time.
    #[error("the node there did not start: {0}")]
    Node(String),
    /// The connection through ssh.
    #[error(
        "ssh forwards no connection to the node ({0}): set AllowTcpForwarding to local or yes in its sshd_config"
    )]
    NoForward(String),
}

/// See the module. Ended when it is dropped.
#[derive(Debug)]
pub struct SshNode {
    child: Child,
    /// Its end is the node's.
    input: Option<ChildStdin>,
    words: Arc<Mutex<String>>,
    place: Where,
    cookie: Cookie,
}

/// Why one try came to nothing.
enum Failed {
    PortTaken(String),
    For(NotStarted),
}

impl SshNode {
    /// Starts one on a host (`ssh://USER@HOST:PORT`, as ssh takes it), by this command with its own arguments in front.
    pub fn start(host: &str, ssh: &[String]) -> Result<Self, NotStarted> {
        let name = host_of(host).ok_or_else(|| NotStarted::NoHost(host.to_owned()))?;
        let mut last = String::new();
        for _ in 0..TRIES {
            match Self::once(host, name, ssh) {
                Ok(node) => return Ok(node),
                Err(Failed::PortTaken(words)) => last = words,
                Err(Failed::For(why)) => return Err(why),
            }
        }
        Err(NotStarted::Node(last))
    }

    /// Where it is reached.
    pub fn place(&self) -> &Where {
        &self.place
    }

    /// What opens it.
    pub fn cookie(&self) -> &Cookie {
        &self.cookie
    }

    /// What a connection that failed was, in words, if it was ssh that failed.
    pub fn not_forwarded(&self) -> Option<NotStarted> {
        // ssh says why before it closes the connection, but the thread that reads its words may be late.
        let deadline = Instant::now() + ENDING;
        loop {
            let words = last_words(&self.words);
            if words.contains("open failed") || words.contains("forward") {
                return Some(NotStarted::NoForward(words));
            }
            if Instant::now() >= deadline {
                return None;
            }
            std::thread::sleep(Duration::from_millis(10));
        }
    }

    fn once(host: &str, name: &str, ssh: &[String]) -> Result<Self, Failed> {
        let random = Cookie::random();
        let node = |error: io::Error| Failed::For(NotStarted::Node(error.to_string()));
        let cookie = random.map_err(node)?;
        // Nobody guesses a cookie by what is made of another.
        let salt = Cookie::random().map_err(node)?;
        let number = u32::from_str_radix(&salt.reveal()[..8], 16).unwrap_or_default();
        // Source: IANA: ports of services end at 49151; most kernels give ports of clients from 32768 on.
        let there = 10_000 + (number % 20_000) as u16;
        let here = free_port().map_err(node)?;
        let mut place: Where = format!("linerate_{}@{name}", &salt.reveal()[8..16])
            .parse()
            .map_err(|_| Failed::For(NotStarted::NoHost(host.to_owned())))?;
        place.via = Some(SocketAddr::from((Ipv4Addr::LOCALHOST, here)));
        let mut child = command(host, ssh, here, there).spawn().map_err(|error| {
            let program = ssh.first().map_or("ssh", String::as_str).to_owned();
            Failed::For(NotStarted::NoSsh(program, error.to_string()))
        })?;
        let (input, output) = (child.stdin.take(), child.stdout.take());
        let words = Arc::new(Mutex::new(String::new()));
        if let Some(said) = child.stderr.take() {
            let words = Arc::clone(&words);
            std::thread::spawn(move || keep(said, &words));
        }
        let mut node = Self { child, input, words, place, cookie };
        let up = heard(output);
        let domain = if node.place.is_long() { "longnames" } else { "shortnames" };
        let first = format!("{} {} {domain}\n", node.cookie.reveal(), node.place);
        // One that has ended takes nothing, and says why itself.
        let _ = node.input.as_mut().map(|input| input.write_all(first.as_bytes()));
        match up.recv_timeout(STARTING) {
            Ok(()) => Ok(node),
            Err(why) => Err(node.failed(host, why)),
        }
    }

    fn failed(&mut self, host: &str, why: RecvTimeoutError) -> Failed {
        if why == RecvTimeoutError::Timeout {
            let words = last_words(&self.words);
            let says = format!("nothing was heard of it for {} s {words}", STARTING.as_secs());
            return Failed::For(NotStarted::Node(says.trim_end().to_owned()));
        }
        let status = self.ended(ENDING);
        // What it said last may come after its end.
        std::thread::sleep(Duration::from_millis(50));
        let words = last_words(&self.words);
        let all = self.words.lock().unwrap_or_else(PoisonError::into_inner).clone();
        // In words of the node, or of ssh.
        if ["eaddrinuse", "cannot listen to port"].iter().any(|taken| all.contains(taken)) {
            return Failed::PortTaken(words);
        }
        Failed::For(match status.and_then(|status| status.code()) {
            Some(127) => NotStarted::NoErl,
            // Source: ssh(1), EXIT STATUS.
            Some(255) => refused(words, host),
            _ => NotStarted::Node(words),
        })
    }

    fn ended(&mut self, patience: Duration) -> Option<ExitStatus> {
        let deadline = Instant::now() + patience;
        loop {
            match self.child.try_wait() {
                Ok(None) if Instant::now() < deadline => {
                    std::thread::sleep(Duration::from_millis(10));
                }
                Ok(status) => return status,
                Err(_) => return None,
            }
        }
    }
}

impl Drop for SshNode {
    fn drop(&mut self) {
        self.input = None;
        if self.ended(ENDING).is_none() {
            // The node ends when the connection does.
            let _ = self.child.kill();
            let _ = self.child.wait();
        }
    }
}

/// `db1` of `ssh://user@db1:2222`.
fn host_of(text: &str) -> Option<&str> {
    let rest = text.strip_prefix(SCHEME)?.trim_end_matches('/');
    let (user, host) = rest.rsplit_once('@').unwrap_or(("me", rest));
    let (host, port) = match host.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']')?,
        None => host.split_at(host.find(':').unwrap_or(host.len())),
    };
    let is_port =
        port.strip_prefix(':').map_or(port.is_empty(), |port| port.parse::<u16>().is_ok());
    let is_plain = |text: &str| {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '@');
        !text.is_empty() && !text.starts_with('-') && text.chars().all(fits)
    };
    (is_plain(user) && is_plain(host) && is_port).then_some(host)
}

fn command(host: &str, ssh: &[String], here: u16, there: u16) -> Command {
    let (program, own) = ssh.split_first().map_or(("ssh", &[][..]), |(it, own)| (it.as_str(), own));
    let mut command = Command::new(program);
    command.args(own).args(["-T", "-a", "-x", "-S", "none"]);
    for option in [
        "BatchMode=yes",
        "ConnectTimeout=10",
        "ExitOnForwardFailure=yes",
        "ServerAliveInterval=5",
        "ServerAliveCountMax=3",
    ] {
        command.args(["-o", option]);
    }
    command.args(["-L", &format!("127.0.0.1:{here}:127.0.0.1:{there}"), "--", host]);
    // As many descriptors as it may have. The user's own shell may be any: all that it sees is in single quotes.
    command.arg(format!(
        "exec /bin/sh -c 'ulimit -n $(ulimit -Hn); ERL_CRASH_DUMP_BYTES=0; export ERL_CRASH_DUMP_BYTES; exec erl +Bd -noshell -start_epmd false -erl_epmd_port {there} \
         -kernel inet_dist_use_interface {{127,0,0,1}} -eval \"{CODE}\"'"
    ));
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    // A signal of the terminal is for linerate, which ends the node.
    command.process_group(0);
    command
}

/// A port of loopback that nobody has.
fn free_port() -> io::Result<u16> {
    Ok(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port())
}

/// Tells once the node is up; ends when its output does.
fn heard(output: Option<ChildStdout>) -> Receiver<()> {
    let (tell, up) = channel();
    std::thread::spawn(move || {
        let Some(output) = output else { return };
        let mut output = BufReader::new(output);
        let mut line = Vec::new();
        let is_up = |line: &[u8]| line.trim_ascii_end().ends_with(b"linerate_up");
        while !is_up(&line) {
            line.clear();
            // Start files of a shell may print something first.
            match (&mut output).take(LONGEST_LINE).read_until(b'\n', &mut line) {
                Ok(1..) => {}
                _ => return,
            }
        }
        let _ = tell.send(());
        // What it prints all the same is read, and kept by nobody.
        let _ = io::copy(&mut output, &mut io::sink());
    });
    up
}

/// Keeps the end of what was said.
fn keep(said: impl Read, words: &Mutex<String>) {
    let mut said = BufReader::new(said);
    let mut line = Vec::new();
    while let Ok(1..) = (&mut said).take(LONGEST_LINE).read_until(b'\n', &mut line) {
        let text: String = String::from_utf8_lossy(&line)
            .chars()
            .filter(|c| !c.is_control() || *c == '\n')
            .collect();
        line.clear();
        let mut words = words.lock().unwrap_or_else(PoisonError::into_inner);
        words.push_str(&text);
        if words.len() > LONGEST_WORDS {
            let from = (words.len() - LONGEST_WORDS..).find(|from| words.is_char_boundary(*from));
            words.drain(..from.unwrap_or_default());
        }
    }
}

/// The last line that is not empty.
fn last_words(words: &Mutex<String>) -> String {
    let words = words.lock().unwrap_or_else(PoisonError::into_inner);
    let last = words.lines().map(str::trim).rfind(|line| !line.is_empty());
    last.unwrap_or("it said nothing").to_owned()
}

/// What ssh said, as what to do.
fn refused(words: String, host: &str) -> NotStarted {
    let host = host.to_owned();
    match () {
        () if words.contains("Permission denied") => NotStarted::KeyRefused(words, host),
        () if words.contains("Host key verification failed") => {
            NotStarted::UnknownHost(words, host)
        }
        () => NotStarted::Ssh(words),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_is_what_ssh_takes_for_one() {
        for (text, host) in [
            ("ssh://db1", Some("db1")),
            ("ssh://load@10.0.1.1:2222", Some("10.0.1.1")),
            ("ssh://a@b@[fe80::1]:22/", Some("fe80::1")),
            ("ssh://", None),
            ("ssh://load@-oProxyCommand=x", None),
            ("ssh://a b", None),
            ("ssh://a b@db1", None),
            ("ssh://db1:22/x", None),
            ("ssh://db1:ssh", None),
            ("load@10.0.1.1", None),
        ] {
            assert_eq!(host_of(text), host, "{text}");
        }
    }

    #[test]
    fn the_code_has_nothing_that_a_shell_would_take_for_its_own() {
        assert!(!CODE.contains(['\'', '"', '$', '`', '\\', '!', '\n']), "{CODE}");
    }

    #[test]
    fn no_ssh_here_is_said_with_what_to_install() {
        let error =
            SshNode::start("ssh://localhost", &["/nonexistent/ssh".to_owned()]).unwrap_err();
        assert!(error.to_string().starts_with("`/nonexistent/ssh` can't be run here ("), "{error}");
        assert!(error.to_string().contains("install openssh-client"), "{error}");
    }
}
