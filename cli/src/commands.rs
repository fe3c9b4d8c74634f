//! Command-line arguments and dispatch. Each command's arguments and implementation are in its own module.

mod ask;
mod backup;
mod call;
mod check;
mod completions;
mod doctor;
mod extract_file;
mod feedback;
mod health;
mod man;
mod oauth_accounts;
mod policy;
mod requests;
#[cfg(target_os = "linux")]
mod run_program;
mod serve_execution;
mod serve_verification;
mod stream;
mod task;
mod token;
mod up;

use crate::config::parse_duration;
use crate::exit::{Exit, Failure};
use crate::output::OutputFormat;
use crate::runtime;
use crate::version::VERSION;
use clap::{Args, Parser, Subcommand};
use std::str::FromStr;
use std::time::Duration;

/// Connect AI agents over JSON-RPC 2.0.
#[derive(Debug, Parser)]
#[command(
    name = "interzone",
    version = VERSION,
    arg_required_else_help = true,
    disable_help_subcommand = true,
    after_help = "\
Start with `interzone up`. Use `interzone COMMAND --help` for more about a command.

Exit codes: 0 success, 1 failure, 2 usage, 3 unreachable, 4 refused, 5 timeout,
6 store disk failure (restart the process)."
)]
pub(crate) struct Cli {
    #[command(subcommand)]
    command: Command,

    /// Output format
    #[arg(
        long,
        global = true,
        value_enum,
        value_name = "FORMAT",
        default_value_t
    )]
    output: OutputFormat,
}

#[derive(Debug, Subcommand)]
enum Command {
    Up(up::Up),
    Serve(Serve),
    Ask(ask::Ask),
    Task(task::Task),
    Stream(stream::Stream),
    Call(call::Call),
    Requests(requests::Requests),
    Policy(policy::PolicyCommand),
    Feedback(feedback::Feedback),
    Token(token::Token),
    Client(oauth_accounts::Client),
    User(oauth_accounts::User),
    Check(check::Check),
    Backup(backup::Backup),
    Doctor(doctor::Doctor),
    Health(health::Health),
    Completions(completions::Completions),
    Man(man::Man),
    #[cfg(target_os = "linux")]
    #[command(hide = true)]
    RunProgram(run_program::RunProgram),
    #[command(hide = true)]
    ExtractFile(extract_file::ExtractFile),
}

/// Run a zone as a server
#[derive(Debug, Args)]
struct Serve {
    #[command(subcommand)]
    zone: ServeCommand,
}

#[derive(Debug, Subcommand)]
enum ServeCommand {
    Execution(serve_execution::ServeExecution),
    Verification(serve_verification::ServeVerification),
}

impl Serve {
    fn run(&self, format: OutputFormat) -> Result<Exit, Failure> {
        match &self.zone {
            ServeCommand::Execution(execution) => execution.run(format),
            ServeCommand::Verification(verification) => verification.run(format),
        }
    }
}

/// Parses the command line.
///
/// # Errors
/// No command is named, or an argument is invalid. Requests for help or the version are also returned as an
/// "error", which [`Failure::report`] prints as normal output.
pub(crate) fn parse() -> Result<Cli, Failure> {
    Ok(Cli::try_parse()?)
}

impl Cli {
    /// Returns the selected output format.
    pub(crate) fn format(&self) -> OutputFormat {
        self.output
    }

    /// Runs the command.
    ///
    /// # Errors
    /// The command failed. A negative result, such as an invalid message, is an [`Exit`] and not an error.
    pub(crate) fn run(self) -> Result<Exit, Failure> {
        let format = self.output;
        match self.command {
            Command::Up(up) => up.run(format),
            Command::Serve(serve) => serve.run(format),
            Command::Ask(ask) => runtime::run(ask.run(format)),
            Command::Task(task) => runtime::run(task.run(format)),
            Command::Stream(stream) => runtime::run(stream.run(format)),
            Command::Call(call) => runtime::run(call.run()),
            Command::Requests(requests) => runtime::run(requests.run(format)),
            Command::Feedback(feedback) => runtime::run(feedback.run(format)),
            Command::Policy(policy) => policy.run(format),
            Command::Token(token) => runtime::run(token.run(format)),
            Command::Client(client) => runtime::run(client.run(format)),
            Command::User(user) => runtime::run(user.run(format)),
            Command::Check(check) => check.run(format),
            Command::Backup(backup) => runtime::run(backup.run(format)),
            Command::Doctor(doctor) => runtime::run(doctor.run(format)),
            Command::Health(health) => runtime::run(health.run(format)),
            Command::Completions(completions) => completions.run(),
            Command::Man(man) => man.run(format),
            #[cfg(target_os = "linux")]
            Command::RunProgram(program) => program.run(),
            Command::ExtractFile(extract) => extract.run(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::Cli;
    use clap::CommandFactory;

    #[test]
    fn clap_definition_is_consistent() {
        Cli::command().debug_assert();
    }
}

/// A duration argument, in the notation of the configuration.
#[derive(Clone, Copy, Debug)]
struct DurationArg(Duration);

impl FromStr for DurationArg {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        match parse_duration(text) {
            Some(time) if !time.is_zero() => Ok(Self(time)),
            _ => Err("write a duration such as 30s, 10m or 2h".to_owned()),
        }
    }
}
