//! The `interzone` binary: from arguments to an exit code, and nothing else.
//!
//! No command's work enters this file; that is in `commands/`.

mod commands;
mod config;
mod excerpt;
mod exit;
mod input;
mod output;
mod printable;
mod save;

use std::process::ExitCode;

fn main() -> ExitCode {
    match commands::parse().and_then(commands::run) {
        Ok(exit) => exit.into(),
        Err(failure) => failure.tell().into(),
    }
}
