//! What can be said on the command line, and who does it.
//!
//! A command's arguments and work are in its own file; only what all commands share is here.

mod check;

use crate::exit::{Exit, Failure};
use crate::output::Format;
use clap::{Parser, Subcommand};

/// Lets AI agents reach each other by JSON-RPC 2.0.
#[derive(Debug, Parser)]
#[command(
    name = "interzone",
    version,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "`interzone COMMAND --help` tells more about a command."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,

    /// The form of the answer
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "FORMAT",
        default_value_t
    )]
    output: Format,
}

#[derive(Debug, Subcommand)]
enum Command {
    Check(check::Check),
}

/// Reads the command line.
///
/// # Errors
/// It names no command, or says what no command understands. Asking for help or for the version
/// comes back as an "error" too, which [`Failure::tell`] knows to be none.
pub(crate) fn parse() -> Result<Cli, Failure> {
    Ok(Cli::try_parse()?)
}

/// Does what the command line asks for.
///
/// # Errors
/// It could not be done, which is not the same as an answer that nobody likes: a message that is
/// not valid is an answer.
pub(crate) fn run(cli: Cli) -> Result<Exit, Failure> {
    match cli.command {
        Command::Check(check) => check.run(cli.output),
    }
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }
}
