//! A service of somebody else's for a climb: started by a program of the study's, which says in a line of JSON where it
//! is, and which ends it when its input ends.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::process::{Child, Command, Stdio};

use serde_json::Value;

/// It ends with this.
pub(super) struct Service {
    child: Child,
    /// What it told, by name; those of `ports` by their own.
    pub told: BTreeMap<String, String>,
}

impl Service {
    pub fn start(words: &[String]) -> Result<Self, String> {
        let [program, rest @ ..] = words else { return Err("no program is named".into()) };
        let mut child = Command::new(program)
            .args(rest)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(|error| format!("{program}: {error}"))?;
        let mut line = String::new();
        // One that does not come up ends, and closes this.
        if let Some(out) = child.stdout.take() {
            let _ = BufReader::new(out).read_line(&mut line);
        }
        match told(&line) {
            Some(told) => Ok(Self { child, told }),
            None => {
                let said = child.wait_with_output().map(|output| output.stderr);
                let said = said.unwrap_or_default();
                let said = String::from_utf8_lossy(&said);
                Err(said.lines().next().unwrap_or("it said nothing").to_owned())
            }
        }
    }
}

fn told(line: &str) -> Option<BTreeMap<String, String>> {
    let Value::Object(said) = serde_json::from_str(line).ok()? else { return None };
    let ports = said.get("ports").and_then(Value::as_object).into_iter().flatten();
    let word = |(name, value): (&String, &Value)| {
        let value = match value {
            Value::String(text) => text.clone(),
            Value::Number(number) => number.to_string(),
            _ => return None,
        };
        Some((name.clone(), value))
    };
    Some(said.iter().chain(ports).filter_map(word).collect())
}

impl Drop for Service {
    fn drop(&mut self) {
        // The end of its input ends it, and what it started.
        drop(self.child.stdin.take());
        let _ = self.child.wait();
    }
}

/// Whether a program is found where programs are, or where those of administrators are.
pub(super) fn is_there(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path);
    folders.chain(["/usr/sbin".into(), "/sbin".into()]).any(|it| it.join(program).is_file())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_service_tells_is_put_for_its_names() {
        let said = told(r#"{"node": "a@b", "pid": 7, "ports": {"xmpp": 5222}, "roof": null}"#);
        let said = said.unwrap();
        assert_eq!([&said["node"], &said["pid"], &said["xmpp"]], ["a@b", "7", "5222"]);
        assert_eq!(told(""), None);
    }

    #[test]
    fn one_that_does_not_come_up_is_told_in_its_own_words() {
        let words = ["sh", "-c", "echo error: no place >&2; exit 1"].map(str::to_owned);
        assert_eq!(Service::start(&words).err().unwrap(), "error: no place");
    }
}
