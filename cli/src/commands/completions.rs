//! `interzone completions`: what a shell needs to complete our commands.

use super::Cli;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::version::VERSION;
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;

/// Write a script with which a shell completes commands and options
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  interzone completions bash > ~/.local/share/bash-completion/completions/interzone
  interzone completions zsh > ~/.zfunc/_interzone
  interzone completions fish > ~/.config/fish/completions/interzone.fish")]
pub(crate) struct Completions {
    /// The shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self) -> Result<Exit, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(self.shell, &mut listed(), "interzone", &mut script);
        output::write(|out| out.write_all(&script))?;
        Ok(Exit::Done)
    }
}

/// The command line without the commands that only a zone uses: the generator does not leave hidden ones out.
fn listed() -> Command {
    let whole = Cli::command();
    let commands = whole
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    Command::new("interzone")
        .version(VERSION)
        .disable_help_subcommand(whole.is_disable_help_subcommand_set())
        .args(whole.get_arguments())
        .subcommands(commands.cloned())
}
