//! `interzone completions`: generates shell completion scripts.

use super::Cli;
use crate::exit::{Exit, Failure};
use crate::output;
use crate::version::VERSION;
use clap::{Args, Command, CommandFactory};
use clap_complete::Shell;

/// Generate shell completions
#[derive(Debug, Args)]
#[command(after_help = "\
Examples:
  interzone completions bash > ~/.local/share/bash-completion/completions/interzone
  interzone completions zsh > ~/.zfunc/_interzone
  interzone completions fish > ~/.config/fish/completions/interzone.fish")]
pub(crate) struct Completions {
    /// Shell
    shell: Shell,
}

impl Completions {
    pub(crate) fn run(&self) -> Result<Exit, Failure> {
        let mut script = Vec::new();
        clap_complete::generate(
            self.shell,
            &mut visible_commands(),
            "interzone",
            &mut script,
        );
        output::write(|out| out.write_all(&script))?;
        Ok(Exit::Done)
    }
}

/// Returns the command line without hidden commands, which the generator would include.
fn visible_commands() -> Command {
    let root = Cli::command();
    let commands = root
        .get_subcommands()
        .filter(|command| !command.is_hide_set());
    Command::new("interzone")
        .version(VERSION)
        .disable_help_subcommand(root.is_disable_help_subcommand_set())
        .args(root.get_arguments())
        .subcommands(commands.cloned())
}
