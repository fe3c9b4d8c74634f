//! The `interzone` binary: parses the arguments, runs the command and returns its exit code.

mod artifacts;
mod attachments;
mod commands;
mod config;
mod connect;
mod connect_error;
mod error_report;
mod excerpt;
mod exit;
mod input;
mod output;
mod printable;
mod private_file;
mod runtime;
mod save;
mod scopes;
mod task_follower;
#[cfg(test)]
mod tests;
mod version;
mod wiring;

use output::OutputFormat;
use std::process::ExitCode;

#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let cli = match commands::parse() {
        Ok(cli) => cli,
        // The output format is not known if the arguments are invalid.
        Err(failure) => return failure.report(OutputFormat::Text).into(),
    };
    let format = cli.format();
    match cli.run() {
        Ok(exit) => exit.into(),
        Err(failure) => failure.report(format).into(),
    }
}
