//! How the program ends: the exit codes, and what is said when something could not be done.
//!
//! Each code is given here once. No file but this one turns an error into words on standard error.

use crate::input::InputError;
use crate::printable;
use std::io::{self, Write};
use std::process::ExitCode;

/// What the program's end tells the one who started it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done, and the answer is yes.
    Done,
    /// Done, and the answer is no.
    No,
    /// Not done: there is no answer.
    Misuse,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::No => 1,
            Exit::Misuse => 2,
        })
    }
}

/// Why a command gave no answer.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    CommandLine(#[from] clap::Error),
    #[error(transparent)]
    Input(#[from] InputError),
    #[error("cannot write the answer: {0}; send it to a place that can take it")]
    Output(#[source] io::Error),
}

impl Failure {
    /// Tells the user, and says how to end.
    ///
    /// What cannot be told because nobody listens any more is left untold.
    pub(crate) fn tell(&self) -> Exit {
        let told = match self {
            // Help and version are what was asked for; clap sends them to standard output.
            Self::CommandLine(error) if !error.use_stderr() => {
                let _ = error.print();
                return Exit::Done;
            }
            // It quotes arguments, and those may be names of files that somebody else chose.
            Self::CommandLine(error) => printable::lines(&error.to_string()),
            _ => format!("error: {self}\n"),
        };
        let _ = io::stderr().write_all(told.as_bytes());
        // An answer that was lost on its way must not look like a "no".
        Exit::Misuse
    }
}
