//! What can be said on the command line, and who does it.
//!
//! A command's arguments and work are in its own file; only what all commands share is here.

mod accounts;
mod ask;
mod backup;
mod call;
mod check;
mod completions;
mod doctor;
mod execute;
mod feedback;
mod health;
mod man;
mod pairs;
mod policy;
mod stream;
mod task;
mod token;
mod up;
mod verify;

use crate::exit::{Exit, Failure};
use crate::output::Format;
use crate::runtime;
use crate::version::VERSION;
use clap::{Parser, Subcommand};

/// Lets AI agents reach each other by JSON-RPC 2.0.
#[derive(Debug, Parser)]
#[command(
    name = "interzone",
    version = VERSION,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
Begin with `interzone up`. `interzone COMMAND --help` tells more about a command.

Exit codes: 0 done, 1 failure, 2 usage, 3 unreachable, 4 refused, 5 timeout,
6 the disk of the store failed (start it again)."
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
    Up(up::Up),
    Execute(execute::Execute),
    Verify(verify::Verify),
    Ask(ask::Ask),
    Task(task::Task),
    Stream(stream::Stream),
    Call(call::Call),
    Pairs(pairs::Pairs),
    Policy(policy::Policy),
    Feedback(feedback::Feedback),
    Token(token::Token),
    Client(accounts::Client),
    Person(accounts::Person),
    Check(check::Check),
    Backup(backup::Backup),
    Doctor(doctor::Doctor),
    Health(health::Health),
    Completions(completions::Completions),
    Man(man::Man),
}

/// Reads the command line.
///
/// # Errors
/// It names no command, or says what no command understands. Asking for help or for the version
/// comes back as an "error" too, which [`Failure::tell`] knows to be none.
pub(crate) fn parse() -> Result<Cli, Failure> {
    Ok(Cli::try_parse()?)
}

impl Cli {
    /// The form of the answer.
    pub(crate) fn format(&self) -> Format {
        self.output
    }

    /// Does what the command line asks for.
    ///
    /// # Errors
    /// It could not be done, which is not the same as an answer that nobody likes: a message that is
    /// not valid is an answer.
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let format = self.output;
        match self.command {
            Command::Up(up) => up.run(format),
            Command::Execute(execute) => execute.run(format),
            Command::Verify(verify) => verify.run(format),
            Command::Ask(ask) => runtime::run(ask.run(format)),
            Command::Task(task) => runtime::run(task.run(format)),
            Command::Stream(stream) => runtime::run(stream.run(format)),
            Command::Call(call) => runtime::run(call.run()),
            Command::Pairs(pairs) => runtime::run(pairs.run(format)),
            Command::Feedback(feedback) => runtime::run(feedback.run(format)),
            Command::Policy(policy) => policy.run(format),
            Command::Token(token) => runtime::run(token.run(format)),
            Command::Client(client) => runtime::run(client.run(format)),
            Command::Person(person) => runtime::run(person.run(format)),
            Command::Check(check) => check.run(format),
            Command::Backup(backup) => runtime::run(backup.run(format)),
            Command::Doctor(doctor) => runtime::run(doctor.run(format)),
            Command::Health(health) => runtime::run(health.run(format)),
            Command::Completions(completions) => completions.run(),
            Command::Man(man) => man.run(format),
        }
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
