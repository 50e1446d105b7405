//! Completions and the man page, derived from the flags.

use clap::CommandFactory;

use crate::args::Cli;
use crate::failure::Failure;
use crate::output::print;

/// Completions for a shell.
pub fn completions(shell: clap_complete::Shell) -> Result<u8, Failure> {
    let mut text = Vec::new();
    clap_complete::generate(shell, &mut Cli::command(), "linerate", &mut text);
    print(&String::from_utf8_lossy(&text))?;
    Ok(0)
}

/// The man page, the commands' flags after the program's.
pub fn man() -> Result<u8, Failure> {
    let mut text = Vec::new();
    let command = Cli::command();
    clap_mangen::Man::new(command.clone()).render(&mut text).map_err(Failure::run)?;
    for part in command.get_subcommands() {
        // clap keeps names for ever; this program prints once and ends.
        let name: &'static str = format!("linerate-{}", part.get_name()).leak();
        let part = part.clone().name(name);
        let page = clap_mangen::Man::new(part);
        page.render_name_section(&mut text).map_err(Failure::run)?;
        page.render_options_section(&mut text).map_err(Failure::run)?;
    }
    print(&String::from_utf8_lossy(&text))?;
    Ok(0)
}
