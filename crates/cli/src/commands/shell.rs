//! Completions and man pages, derived from the flags.

use std::path::Path;

use clap::CommandFactory;

use crate::args::Cli;
use crate::failure::Failure;
use crate::known;
use crate::output::{print, write_file};

/// Completions for a shell.
pub fn completions(shell: clap_complete::Shell) -> Result<u8, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "linerate", &mut text);
    let mut text = String::from_utf8_lossy(&text).into_owned();
    if shell == clap_complete::Shell::Fish {
        // clap completes no arguments without a flag there.
        for (command, names) in [("explain", known::roofs()), ("study", known::studies())] {
            let names: Vec<String> = names.names();
            let condition = format!("__fish_seen_subcommand_from {command}");
            text +=
                &format!("complete -c linerate -n \"{condition}\" -f -a \"{}\"\n", names.join(" "));
        }
    }
    print(&text)?;
    Ok(0)
}

/// A man page: the program's, or a command's by itself; into a folder all of them.
pub fn man(command: Option<&str>, folder: Option<&Path>) -> Result<u8, Failure> {
    if let Some(folder) = folder {
        return pages(folder);
    }
    let whole = whole();
    let page = match command {
        None => page(whole)?,
        Some(name) => {
            let part = whole.get_subcommands().find(|part| part.get_name() == name);
            let part = part.ok_or_else(|| {
                let names: Vec<_> = whole.get_subcommands().map(clap::Command::get_name).collect();
                Failure::plan(format!("`{name}` is no command: write one of {}", names.join(", ")))
            })?;
            page(of_part(part))?
        }
    };
    print(&page)?;
    Ok(0)
}

fn pages(folder: &Path) -> Result<u8, Failure> {
    std::fs::create_dir_all(folder)
        .map_err(|error| Failure::run(format!("{}: cannot be made: {error}", folder.display())))?;
    let whole = whole();
    let parts: Vec<clap::Command> = whole.get_subcommands().map(of_part).collect();
    for command in std::iter::once(whole).chain(parts) {
        let file = folder.join(format!("{}.1", command.get_name()));
        write_file(&file, &page(command)?)?;
    }
    Ok(0)
}

/// A page has the version alone, not what is in this program.
fn whole() -> clap::Command {
    Cli::command().long_version(env!("CARGO_PKG_VERSION"))
}

/// A command as a page of its own has it: `linerate-run`.
fn of_part(part: &clap::Command) -> clap::Command {
    // clap keeps names for ever; this program prints once and ends.
    let name: &'static str = format!("linerate-{}", part.get_name()).leak();
    let usage: &'static str = format!("linerate {}", part.get_name()).leak();
    part.clone().name(name).bin_name(usage).version(env!("CARGO_PKG_VERSION"))
}

fn page(command: clap::Command) -> Result<String, Failure> {
    let mut text = Vec::new();
    clap_mangen::Man::new(command).render(&mut text).map_err(Failure::run)?;
    Ok(String::from_utf8_lossy(&text).into_owned())
}
