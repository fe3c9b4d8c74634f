//! The `interzone` binary: from arguments to an exit code, and nothing else.
//!
//! No command's work enters this file; that is in `commands/`.

mod artifacts;
mod attachments;
mod commands;
mod config;
mod connect;
#[cfg(test)]
mod deploy;
mod excerpt;
mod exit;
mod follow;
mod input;
mod output;
mod printable;
mod private;
mod reach;
mod refusal;
mod runtime;
mod save;
mod scopes;
#[cfg(test)]
mod tests;
mod time;
mod version;
mod watched;
mod wiring;

use output::Format;
use std::process::ExitCode;

#[cfg(target_os = "linux")]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    let cli = match commands::parse() {
        Ok(cli) => cli,
        // Whoever could not say what they want could not say how to be answered either.
        Err(failure) => return failure.tell(Format::Text).into(),
    };
    let format = cli.format();
    match cli.run() {
        Ok(exit) => exit.into(),
        Err(failure) => failure.tell(format).into(),
    }
}
