//! The `linerate` binary: flags in, reports and exit codes out.

mod args;
mod commands;
mod failure;
mod gate;
mod known;
mod output;
mod overrides;
mod pairs;
mod path_flags;
mod plan_of;
mod privileges;
mod progress;
#[cfg(test)]
mod reference;
mod sides;
mod signals;
mod version;

use std::process::ExitCode;

use clap::Parser;
use clap::error::ErrorKind;

use crate::args::{Cli, Command};
use crate::failure::Failure;
use crate::output::say;

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return typing_error(&error),
    };
    let result = match &cli.command {
        Command::Run(args) => commands::run::run(args),
        Command::Ab(args) => commands::ab::ab(args),
        Command::Climb(args) => commands::climb::climb(args),
        Command::Diagnose(args) => commands::diagnose::diagnose(args),
        Command::Doctor(args) => commands::doctor::doctor(args),
        Command::Explain { id } => commands::explain::explain(id.as_deref()),
        Command::EngineWorker => commands::engine_worker::engine_worker(),
        Command::Capacity(args) => commands::capacity::capacity(args),
        Command::Path(args) => commands::path::path(args),
        Command::Serve(args) => commands::serve::serve(args),
        Command::Study(args) => commands::study::study(args),
        Command::Predict(args) => commands::predict::predict(args),
        Command::WhatIf(args) => commands::what_if::what_if(args),
        Command::Compare(args) => commands::compare::compare(args),
        Command::Completions { shell } => commands::shell::completions(*shell),
        Command::Man { command, folder } => {
            commands::shell::man(command.as_deref(), folder.as_deref())
        }
    };
    match result {
        Ok(code) => ExitCode::from(code),
        Err(Failure { code, sentence }) => {
            say(&format!("error: {sentence}\n"));
            ExitCode::from(code)
        }
    }
}

/// clap's several lines as one sentence; help and version as they are.
fn typing_error(error: &clap::Error) -> ExitCode {
    if !error.use_stderr() || error.kind() == ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand {
        error.exit();
    }
    say(&format!("error: {}\n", sentence(&error.to_string())));
    ExitCode::from(2)
}

fn sentence(text: &str) -> String {
    let text = text.split("\nUsage:").next().unwrap_or(text);
    let text = text.split("\nFor more information").next().unwrap_or(text);
    let lines = text.trim_start_matches("error: ").lines().map(str::trim);
    let joined = lines.filter(|line| !line.is_empty()).fold(String::new(), |so_far, line| {
        match so_far.chars().last() {
            None => line.to_owned(),
            Some(':') => format!("{so_far} {line}"),
            Some(_) => format!("{so_far}; {line}"),
        }
    });
    format!("{joined}; see --help")
}

#[cfg(test)]
mod tests {
    use super::*;

    /// clap looks for this itself in debug builds only.
    #[test]
    fn no_command_has_two_flags_of_one_name() {
        fn assert_each_is_one(command: &clap::Command) {
            let mut names: Vec<_> =
                command.get_arguments().filter_map(|it| it.get_long()).collect();
            let all = names.len();
            names.sort_unstable();
            names.dedup();
            assert_eq!(names.len(), all, "{}: {names:?}", command.get_name());
            command.get_subcommands().for_each(assert_each_is_one);
        }
        assert_each_is_one(&<Cli as clap::CommandFactory>::command());
    }

    #[test]
    fn what_was_typed_wrong_is_said_in_one_line() {
        let of = |words: &[&str]| sentence(&Cli::try_parse_from(words).unwrap_err().to_string());
        assert_eq!(
            of(&["linerate", "run", "--connection", "3"]),
            "unexpected argument '--connection' found; tip: a similar argument exists: \
             '--connections'; see --help"
        );
        assert_eq!(
            of(&["linerate", "diagnose"]),
            "the following required arguments were not provided: <FILE>; see --help"
        );
    }
}
