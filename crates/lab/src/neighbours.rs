//! Neighbours: processes that do nothing but burn CPU time, beside a target.

use std::process::Command;

use crate::lay_error::LayError;
use crate::process::{Process, Start, Talk};

/// See the module.
#[derive(Debug)]
pub(crate) struct Neighbours(Vec<Process>);

impl Neighbours {
    /// Starts so many.
    pub fn start(count: u16) -> Result<Self, LayError> {
        let mut neighbours = Self(Vec::new());
        for _ in 0..count {
            let mut command = Command::new("sh");
            command.args(["-c", "while :; do :; done"]);
            let start =
                Start { command, netns: None, cpus: Vec::new(), descriptors: None, talk: Talk::No };
            match Process::start(start) {
                Ok(process) => neighbours.0.push(process),
                Err(error) => {
                    neighbours.take_away();
                    return Err(LayError::system("starting a neighbour")(error));
                }
            }
        }
        Ok(neighbours)
    }

    /// Ends them. Returns who is left.
    pub fn take_away(&mut self) -> Vec<String> {
        self.0.drain(..).flat_map(|mut process| process.stop()).collect()
    }
}

impl Drop for Neighbours {
    fn drop(&mut self) {
        self.take_away();
    }
}
