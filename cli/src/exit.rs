//! How the program ends: the exit codes, and what is said when something could not be done.
//!
//! Each code is given here once. No file but this one turns an error into words on standard error.

use crate::config::{ConfigError, ProfileError};
use crate::input::InputError;
use crate::output::{self, Format};
use crate::printable;
use crate::refusal::Told;
use crate::wiring::StartError;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

/// What the program's end tells the one who started it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Done, and the answer is yes.
    Done,
    /// Done, and the answer is no; or it failed.
    No,
    /// Not done: the command, a file or the configuration is not right.
    Misuse,
    /// The server cannot be reached.
    Unreachable,
    /// The server does not let us.
    Refused,
    /// It took too long.
    TimedOut,
    /// The disk of the store failed; the process is to be started again.
    StoreFailed,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::No => 1,
            Exit::Misuse => 2,
            Exit::Unreachable => 3,
            Exit::Refused => 4,
            Exit::TimedOut => 5,
            Exit::StoreFailed => 6,
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
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Profile(#[from] ProfileError),
    #[error("{0}")]
    Misuse(String),
    #[error(transparent)]
    Start(#[from] StartError),
    #[error(transparent)]
    Call(#[from] interzone_client::Error),
    #[error("no end after {} s", .0.as_secs())]
    TooSlow(Duration),
    #[error("client {client} may not have {}", lacking.join(" and "))]
    Lacks {
        client: String,
        lacking: Vec<&'static str>,
    },
    #[error("the runtime cannot be started: {0}")]
    Runtime(#[source] io::Error),
    #[error("cannot write {path}: {1}", path = printable::text(&.0.to_string_lossy()))]
    Save(std::path::PathBuf, #[source] io::Error),
}

impl Failure {
    /// Tells the user, and says how to end.
    ///
    /// What cannot be told because nobody listens any more is left untold.
    pub(crate) fn tell(&self, format: Format) -> Exit {
        let told = match self {
            // Help and version are what was asked for: an answer like any other.
            Self::CommandLine(error) if !error.use_stderr() => {
                return match output::write(|out| write!(out, "{error}")) {
                    Ok(()) => Exit::Done,
                    Err(failure) => failure.tell(format),
                };
            }
            // It quotes arguments, and those may be names of files that somebody else chose.
            Self::CommandLine(error) => printable::lines(&error.to_string()),
            Self::Call(error) => {
                let told = Told::of(error);
                if format == Format::Json {
                    // Programs read one place only, whatever came of it.
                    let _ = output::write(|out| output::write_json(out, &told));
                }
                told.to_string()
            }
            _ => {
                let told = Told::new(self.exit(), self.to_string(), self.advice());
                if format == Format::Json && !matches!(self, Self::Output(_) | Self::Input(_)) {
                    let _ = output::write(|out| output::write_json(out, &told));
                }
                told.to_string()
            }
        };
        let _ = io::stderr().write_all(told.as_bytes());
        self.exit()
    }

    /// What to do next, where the message itself does not say.
    fn advice(&self) -> Option<String> {
        match self {
            Self::Lacks { lacking, .. } => Some(format!(
                "use a client that may, or make one: interzone client add --name NAME --scope {}, with whatever else it needs",
                lacking.join(" --scope ")
            )),
            _ => None,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            // An answer that was lost on its way must not look like a "no".
            Self::CommandLine(_)
            | Self::Input(_)
            | Self::Output(_)
            | Self::Config(_)
            | Self::Profile(_)
            | Self::Misuse(_)
            | Self::Save(..) => Exit::Misuse,
            Self::Start(StartError::StoreFailed(_)) => Exit::StoreFailed,
            Self::Start(_) | Self::Runtime(_) => Exit::No,
            Self::Lacks { .. } => Exit::Refused,
            Self::TooSlow(_) => Exit::TimedOut,
            Self::Call(error) => Told::of(error).exit,
        }
    }
}
