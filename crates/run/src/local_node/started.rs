//! How a node's process was started: its name and its cookie, by its command line and environment.
//!
//! Blind spot: a cookie that the node was given by a call is not known, nor a name that its EPMD does not have.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use linerate_beam::{Cookie, Where, named_at};

/// See the module.
pub struct Started {
    pid: u32,
    words: Vec<String>,
    /// Empty where it may not be read.
    environment: Vec<String>,
}

impl Started {
    /// As far as the kernel tells it of that process.
    pub fn of(pid: u32) -> Result<Self, String> {
        let words = fs::read(format!("/proc/{pid}/cmdline"))
            .map_err(|error| format!("the command line of process {pid} can't be read: {error}"))?;
        let environment = fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        Ok(Self { pid, words: parts(&words), environment: parts(&environment) })
    }

    /// The node that it is, if it has a name. One that took its name later is known to EPMD by a port at which it listens.
    pub fn place(
        &self,
        listening: &BTreeSet<u16>,
        netns: Option<PathBuf>,
    ) -> Result<Option<Where>, String> {
        let epmd_port = self.variable("ERL_EPMD_PORT").and_then(|port| port.parse().ok());
        let Some(name) = self.value(&["-sname", "-name"]) else {
            // EPMD is asked from this namespace only.
            return Ok(netns.is_none().then(|| named_at(epmd_port, listening)).flatten());
        };
        let mut place: Where = name.parse().map_err(|error| format!("its name: {error}"))?;
        // What the node was told not to ask EPMD for, EPMD does not know.
        place.port = self.value(&["-erl_epmd_port"]).and_then(|port| port.parse().ok());
        (place.epmd_port, place.netns) = (epmd_port, netns);
        Ok(Some(place))
    }

    /// Whether its distribution is told to use TLS.
    pub fn speaks_tls(&self) -> bool {
        self.value(&["-proto_dist"]).is_some_and(|how| how.contains("tls"))
    }

    /// Its cookie, where whoever runs linerate may read it: of its command line, else of its user's file.
    pub fn cookie(&self) -> Option<Cookie> {
        if let Some(secret) = self.value(&["-setcookie"]) {
            return Some(Cookie::new(secret));
        }
        // As the process sees its files: it may be in a container.
        let home = Path::new(self.variable("HOME")?).strip_prefix("/").ok()?;
        let root = PathBuf::from(format!("/proc/{}/root", self.pid));
        Cookie::read(&root.join(home).join(".erlang.cookie")).ok()
    }

    fn value(&self, flags: &[&str]) -> Option<&str> {
        let at = self.words.iter().position(|word| flags.contains(&word.as_str()))?;
        self.words.get(at + 1).map(String::as_str)
    }

    fn variable(&self, name: &str) -> Option<&str> {
        let of = |line: &'_ String| line.split_once('=').is_some_and(|(key, _)| key == name);
        let line = self.environment.iter().find(|line| of(line))?;
        line.split_once('=').map(|(_, value)| value)
    }
}

/// The words of a list that ends each with a zero byte.
fn parts(bytes: &[u8]) -> Vec<String> {
    bytes.split(|byte| *byte == 0).map(|word| String::from_utf8_lossy(word).into_owned()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn started(words: &[&str], environment: &[&str]) -> Started {
        let [words, environment] =
            [words, environment].map(|all| all.iter().map(|of| (*of).to_owned()).collect());
        Started { pid: std::process::id(), words, environment }
    }

    #[test]
    fn a_name_and_a_cookie_are_the_words_after_their_flags() {
        let of = started(
            &["beam.smp", "--", "-sname", "shop", "-setcookie", "secret", "-x"],
            &["HOME=/nowhere", "ERL_EPMD_PORT=4370"],
        );
        let place = of.place(&BTreeSet::new(), None).unwrap().unwrap();
        assert_eq!((place.to_string().as_str(), place.epmd_port), ("shop", Some(4370)));
        assert_eq!(of.cookie(), Some(Cookie::new("secret")));
        assert_eq!(of.value(&["-x"]), None);
        assert!(
            !of.speaks_tls() && started(&["beam.smp", "-proto_dist", "inet_tls"], &[]).speaks_tls()
        );
    }

    #[test]
    fn a_cookie_is_in_the_home_of_the_process() {
        let home = tempfile::tempdir().unwrap();
        let of = started(&["beam.smp"], &[&format!("HOME={}", home.path().display())]);
        assert_eq!(of.cookie(), None);
        fs::write(home.path().join(".erlang.cookie"), "monster\n").unwrap();
        assert_eq!(of.cookie(), Some(Cookie::new("monster")));
        assert_eq!(started(&["beam.smp"], &[]).cookie(), None);
    }

    #[test]
    fn what_has_no_name_and_no_epmd_has_no_place() {
        // Nothing listens on the port of no protocol.
        let of = started(&["beam.smp"], &["ERL_EPMD_PORT=1"]);
        assert!(of.place(&[80].into(), None).unwrap().is_none());
        assert!(!of.speaks_tls());
    }
}
