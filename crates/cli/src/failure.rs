//! What ends a command early: one sentence and an exit code.

use std::fmt;

use linerate_run::RunError;

use crate::signals;

/// Exit codes, as `--help` documents them.
pub const EXIT_CODES: &str = "\
Exit codes:
  0    done
  1    the run could not be made
  2    the plan or the flags are wrong
  3    a gate (--fail-if) was breached
  4    the run is void: its figures may not be believed
  5    a comparison found a regression
  130  interrupted (Ctrl-C), with a partial report
  143  terminated, with a partial report";

/// One sentence for a person, and the exit code.
#[derive(Debug, PartialEq)]
pub struct Failure {
    /// See [`EXIT_CODES`].
    pub code: u8,
    /// What was found, what is wrong, what to do.
    pub sentence: String,
}

impl Failure {
    /// The run could not be made.
    pub fn run(sentence: impl fmt::Display) -> Self {
        Self { code: 1, sentence: sentence.to_string() }
    }

    /// The plan or the flags are wrong.
    pub fn plan(sentence: impl fmt::Display) -> Self {
        Self { code: 2, sentence: sentence.to_string() }
    }
}

impl From<RunError> for Failure {
    fn from(error: RunError) -> Self {
        let code = match &error {
            error if error.is_interrupted() => signals::exit_code().unwrap_or(1),
            error if error.is_the_plans() => 2,
            _ => 1,
        };
        Self { code, sentence: error.to_string() }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.sentence)
    }
}
