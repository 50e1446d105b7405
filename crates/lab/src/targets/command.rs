//! A command: started by us, waited for until it listens, ended with all that it started.

use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;
use std::process::Command as Program;
use std::thread;
use std::time::{Duration, Instant};

use linerate_evidence::TargetFacts;
use linerate_model::{Plan, Target};

use super::{End, Kind, Place, Running, check_cpus, cpus_of, is_in, search_path, turnable};
use crate::cancel::Cancel;
use crate::connect::{connect, free_port, is_free};
use crate::knob::{KnobSpec, Permitted};
use crate::lay_error::LayError;
use crate::listeners;
use crate::process::{Process, Start, Talk, in_words, inside};

/// See the module.
pub(super) const KIND: Kind = Kind {
    name: "command",
    named: |target| !target.command.is_empty(),
    start: |plan, place| Ok(Box::new(Command::start(plan, place)?)),
};

/// Chosen: a server on a small machine is up in a second; a JVM in several.
const PATIENCE: Duration = Duration::from_secs(10);

/// Chosen: what waiting costs a server that is up at once, and how often a slow one is asked.
const FIRST_WAIT: Duration = Duration::from_millis(1);
/// See [`FIRST_WAIT`].
const LAST_WAIT: Duration = Duration::from_millis(50);

/// Chosen: a server opens its sockets one after the other; one that for so long listens on the right port
/// of the wrong address will not come.
const ELSEWHERE: Duration = Duration::from_secs(1);

struct Command {
    target: Target,
    end: Option<End>,
    cancel: Cancel,
    specs: Vec<KnobSpec>,
    /// Those of the process that runs.
    knobs: BTreeMap<String, String>,
    /// None once it was stopped and the next one did not come up.
    up: Option<Up>,
    address: SocketAddr,
    last_end: String,
}

struct Up {
    process: Process,
    name: String,
}

impl Command {
    fn start(plan: &Plan, place: &Place) -> Result<Self, LayError> {
        let target = plan.target.clone();
        check_cpus(&target.cpus)?;
        let specs = specs(&target)?;
        let (end, cancel) = (place.end.clone(), place.cancel.clone());
        let knobs = target.knobs.clone();
        let (up, address) = launch(&target, &knobs, end.as_ref(), &cancel)?;
        let last_end = String::new();
        Ok(Self { target, end, cancel, specs, knobs, up: Some(up), address, last_end })
    }
}

/// A knob is a name in braces in one of the words, with a value in the plan.
fn specs(target: &Target) -> Result<Vec<KnobSpec>, LayError> {
    let spec = |(name, default): (&String, &String)| {
        let hole = format!("{{{name}}}");
        if name == "port" || !target.command.iter().any(|word| word.contains(&hole)) {
            return Err(LayError::UnknownKnob {
                knob: name.clone(),
                target: "the command".into(),
                there: format!(
                    "no word has `{hole}` to put its value for; write it there or remove the knob"
                ),
            });
        }
        Ok(KnobSpec {
            name: name.clone(),
            values: vec![Permitted::Any],
            default: default.clone(),
            how: "at start",
            says: format!("put for `{hole}` in the command"),
        })
    };
    target.knobs.iter().map(spec).collect()
}

/// The words with their holes filled; `{linerate}` is this program.
fn fill(words: &[String], port: u16, knobs: &BTreeMap<String, String>) -> Vec<String> {
    let own = std::env::current_exe().unwrap_or_else(|_| "linerate".into());
    let fill = |word: &String| {
        let word = word.replace("{port}", &port.to_string());
        let word = word.replace("{linerate}", &own.to_string_lossy());
        knobs.iter().fold(word, |word, (name, value)| word.replace(&format!("{{{name}}}"), value))
    };
    words.iter().map(fill).collect()
}

fn launch(
    target: &Target,
    knobs: &BTreeMap<String, String>,
    end: Option<&End>,
    cancel: &Cancel,
) -> Result<(Up, SocketAddr), LayError> {
    let netns = end.map(|end| end.netns.as_path());
    let port = port(target, netns)?;
    let words = fill(&target.command, port, knobs);
    let name = words.join(" ");
    let mut command = Program::new(&words[0]);
    command.args(&words[1..]);
    let start = Start {
        command,
        netns: netns.map(Path::to_path_buf),
        cpus: target.cpus.clone(),
        descriptors: target.descriptors,
        talk: Talk::No,
    };
    let mut process = Process::start(start).map_err(|error| not_a_program(&words[0], &error))?;
    let candidates = match end {
        Some(end) => vec![end.ip],
        None => vec![IpAddr::V4(Ipv4Addr::LOCALHOST), IpAddr::V6(Ipv6Addr::LOCALHOST)],
    };
    let awaiting = || await_listener(&mut process, &name, port, &candidates, cancel);
    let address = inside(netns, awaiting)
        .map_err(LayError::system("entering the target's network namespace"))??;
    process.note();
    Ok((Up { process, name }, address))
}

fn port(target: &Target, netns: Option<&Path>) -> Result<u16, LayError> {
    let asked = target.port.filter(|port| *port != 0);
    let Some(port) = asked else {
        if !target.command.iter().any(|word| word.contains("{port}")) {
            return Err(LayError::NoPort);
        }
        return free_port(netns).map_err(LayError::system("looking for a free port"));
    };
    let holder = inside(netns, || {
        (!is_free(port)).then(|| {
            let pid = listeners::holder_of(port);
            pid.map_or_else(|| "a process that can't be seen from here".into(), listeners::name)
        })
    });
    match holder.map_err(LayError::system("looking at the port"))? {
        // Without the privilege to listen there it looks taken; the command will say so itself.
        Some(_) if port < 1024 && !rustix::process::geteuid().is_root() => Ok(port),
        Some(holder) => Err(LayError::PortInUse { port, holder }),
        None => Ok(port),
    }
}

fn not_a_program(program: &str, error: &io::Error) -> LayError {
    let (reason, advice) = match error.kind() {
        io::ErrorKind::NotFound if Path::new(program).is_file() => (
            "the interpreter in its first line is not there".to_owned(),
            "install that, or correct the line after `#!`",
        ),
        io::ErrorKind::NotFound if program.contains('/') => {
            ("there is no such file".to_owned(), "correct the first word of target.command")
        }
        // A folder of PATH that may not be entered makes the kernel say that permission was denied.
        io::ErrorKind::NotFound | io::ErrorKind::PermissionDenied
            if !program.contains('/') && !is_in(&search_path(), program) =>
        {
            (
                "it is not in PATH".to_owned(),
                "install it, or write its path as the first word of target.command",
            )
        }
        io::ErrorKind::PermissionDenied => (
            "it is not executable".to_owned(),
            "run `chmod +x` on it, or write its interpreter as the first word of target.command",
        ),
        _ => {
            (error.to_string(), "write as the first word of target.command what a shell would run")
        }
    };
    LayError::NotAProgram { program: program.to_owned(), reason, advice }
}

fn await_listener(
    process: &mut Process,
    name: &str,
    port: u16,
    candidates: &[IpAddr],
    cancel: &Cancel,
) -> Result<SocketAddr, LayError> {
    let began = Instant::now();
    let mut wait = FIRST_WAIT;
    let (mut look, mut elsewhere) = (began + ELSEWHERE, false);
    while began.elapsed() < PATIENCE {
        for ip in candidates {
            let address = SocketAddr::new(*ip, port);
            if connect(address, Instant::now() + LAST_WAIT, cancel)?.is_ok() {
                return Ok(address);
            }
        }
        if let Some(status) = process.ended() {
            return Err(LayError::DiedFirst {
                name: name.to_owned(),
                status: in_words(status),
                port,
                last_words: process.last_words(),
            });
        }
        if Instant::now() > look {
            let before = std::mem::replace(
                &mut elsewhere,
                only_elsewhere(&listeners_of(process), port, candidates),
            );
            if before && elsewhere {
                break;
            }
            look += ELSEWHERE;
        }
        thread::sleep(wait);
        wait = (wait * 2).min(LAST_WAIT);
    }
    Err(LayError::NeverListened {
        name: name.to_owned(),
        port,
        waited: Duration::from_secs(began.elapsed().as_secs()),
        found: instead(&listeners_of(process), port, candidates),
        last_words: process.last_words(),
    })
}

fn listeners_of(process: &Process) -> Vec<SocketAddr> {
    let pids: Vec<_> = process.living().iter().map(|stat| stat.pid).collect();
    listeners::of_processes(&pids)
}

/// Whether it has the port, but on no address that is one of the candidates or all.
fn only_elsewhere(found: &[SocketAddr], port: u16, candidates: &[IpAddr]) -> bool {
    let reached = |ip: IpAddr| ip.is_unspecified() || candidates.contains(&ip);
    let mut with_port = found.iter().filter(|address| address.port() == port).peekable();
    with_port.peek().is_some() && !with_port.any(|address| reached(address.ip()))
}

/// Where it listens instead, and what to write.
fn instead(found: &[SocketAddr], port: u16, candidates: &[IpAddr]) -> String {
    let listed = found.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ");
    let same_port = found.iter().any(|address| address.port() == port);
    match found.first() {
        None => format!(
            "nothing of it listens anywhere; write in target.command what makes it listen on {port}"
        ),
        Some(_) if same_port => {
            format!(
                "it listens on {listed} and not on {}; have it listen on 0.0.0.0",
                candidates[0]
            )
        }
        Some(first) => format!(
            "it listens on {listed}; write target.port = {}, or `{{port}}` where the command says its port",
            first.port()
        ),
    }
}

impl Running for Command {
    fn address(&self) -> SocketAddr {
        self.address
    }

    fn facts(&self) -> TargetFacts {
        if let Some(up) = &self.up {
            // What listened before it went into the background has got there by now.
            up.process.note();
        }
        let pid = self.pid();
        TargetFacts {
            kind: KIND.name.into(),
            address: self.address.to_string(),
            local: true,
            through_node: false,
            copied: false,
            pid,
            name: self.up.as_ref().map(|up| up.name.clone()).unwrap_or_default(),
            cpus: pid.and_then(cpus_of),
            schedulers: None,
            knobs: self.knobs.clone(),
            readback: self.readback(),
            turnable: turnable(&self.specs),
            carries: None,
        }
    }

    fn pid(&self) -> Option<u32> {
        self.up.as_ref().map(|up| up.process.root())
    }

    fn knobs(&self) -> &[KnobSpec] {
        &self.specs
    }

    fn variant(&mut self, knobs: &BTreeMap<String, String>) -> Result<SocketAddr, LayError> {
        if let Some(knob) = knobs.keys().find(|name| !self.target.knobs.contains_key(*name)) {
            let there: Vec<_> = self.target.knobs.keys().map(String::as_str).collect();
            return Err(LayError::UnknownKnob {
                knob: knob.clone(),
                target: "the command".into(),
                there: match there.is_empty() {
                    true => format!(
                        "it has none; write `{{{knob}}}` in a word of target.command and its value in target.knobs"
                    ),
                    false => format!("write one of {}", there.join(", ")),
                },
            });
        }
        let mut wanted = self.target.knobs.clone();
        wanted.extend(knobs.clone());
        if self.up.is_none() || wanted != self.knobs {
            // First the old one goes: both may want the same port, file or socket.
            if let Some(mut old) = self.up.take() {
                old.process.stop();
            }
            let (up, address) = launch(&self.target, &wanted, self.end.as_ref(), &self.cancel)?;
            (self.up, self.address, self.knobs) = (Some(up), address, wanted);
        }
        Ok(self.address)
    }

    /// Nobody but the command knows what it did with its words.
    fn readback(&self) -> BTreeMap<String, String> {
        BTreeMap::new()
    }

    fn alive(&mut self) -> Result<(), String> {
        let Some(up) = &mut self.up else {
            return Err("the command does not run: its last variant did not come up".into());
        };
        match up.process.ended() {
            None => Ok(()),
            Some(status) => {
                // Asked again it says the same, though its words are gone with its pipe.
                if self.last_end.is_empty() {
                    let words = up.process.last_words();
                    self.last_end = format!("`{}` ended with {}{words}", up.name, in_words(status));
                }
                Err(self.last_end.clone())
            }
        }
    }

    fn stop(&mut self) -> Vec<String> {
        self.up.take().map(|mut up| up.process.stop()).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn port_and_knobs_are_put_everywhere_and_other_braces_are_left() {
        let words = ["s".to_owned(), "--at=:{port}/{port}".into(), "{print}-{workers}".into()];
        let knobs = BTreeMap::from([("workers".to_owned(), "4".to_owned())]);
        assert_eq!(fill(&words, 80, &knobs), ["s", "--at=:80/80", "{print}-4"]);
    }

    #[test]
    fn a_listener_elsewhere_is_named_with_what_to_write() {
        let lo = [IpAddr::V4(Ipv4Addr::LOCALHOST)];
        assert!(instead(&[], 80, &lo).contains("nothing of it listens anywhere"));
        let other = instead(&["127.0.0.1:9000".parse().unwrap()], 80, &lo);
        assert!(other.contains("127.0.0.1:9000; write target.port = 9000"), "{other}");
        let elsewhere = instead(&["10.0.0.1:80".parse().unwrap()], 80, &lo);
        let expected = "10.0.0.1:80 and not on 127.0.0.1; have it listen on 0.0.0.0";
        assert!(elsewhere.contains(expected), "{elsewhere}");
    }

    #[test]
    fn a_listener_on_all_addresses_or_ours_is_not_elsewhere() {
        let ours: [IpAddr; 1] = ["10.199.0.2".parse().unwrap()];
        let of = |found: &[&str]| {
            let found: Vec<_> = found.iter().map(|it| it.parse().unwrap()).collect();
            only_elsewhere(&found, 80, &ours)
        };
        assert!(of(&["127.0.0.1:80"]) && of(&["127.0.0.1:80", "[::1]:80"]));
        assert!(!of(&["0.0.0.0:80"]) && !of(&["[::]:80"]) && !of(&["10.199.0.2:80"]));
        assert!(!of(&[]) && !of(&["127.0.0.1:81"]), "it may yet come");
    }
}
