//! Exit codes and error output.
//!
//! This is the only file that writes errors to standard error.

use crate::config::{ConfigError, ProfileError};
use crate::error_report::ErrorReport;
use crate::input::InputError;
use crate::output::{self, OutputFormat};
use crate::printable;
use crate::wiring::StartError;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::Duration;

/// Exit status of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Success; the result is positive.
    Done,
    /// Failure, or the result is negative.
    Failed,
    /// The command line, a file or the configuration is invalid.
    Misuse,
    /// The server cannot be reached.
    Unreachable,
    /// The server rejected the credentials or the request.
    Refused,
    /// Timeout.
    TimedOut,
    /// Exit code of a program that we ran.
    #[cfg(target_os = "linux")]
    Program(u8),
    /// The disk of the store failed; the process must be restarted.
    StoreFailed,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Misuse => 2,
            Exit::Unreachable => 3,
            Exit::Refused => 4,
            Exit::TimedOut => 5,
            #[cfg(target_os = "linux")]
            Exit::Program(code) => code,
            Exit::StoreFailed => 6,
        })
    }
}

/// Error of a command.
#[derive(Debug, thiserror::Error)]
pub(crate) enum Failure {
    #[error(transparent)]
    CommandLine(#[from] clap::Error),
    #[error(transparent)]
    Input(#[from] InputError),
    #[error("cannot write the output: {0}; redirect it elsewhere")]
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
    #[error("timed out after {}s", .0.as_secs())]
    TimedOut(Duration),
    #[error("client {client} is not allowed {}", lacking.join(" and "))]
    MissingScopes {
        client: String,
        lacking: Vec<&'static str>,
    },
    #[error("the runtime cannot be started: {0}")]
    Runtime(#[source] io::Error),
    #[cfg(target_os = "linux")]
    #[error("the program cannot be started: {0}")]
    Program(#[source] io::Error),
    #[error("the file cannot be read within limits: {0}")]
    ExtractFile(#[source] io::Error),
    #[error("cannot write {path}: {1}", path = printable::text(&.0.to_string_lossy()))]
    Save(std::path::PathBuf, #[source] io::Error),
}

impl Failure {
    /// Writes the error and returns the exit status.
    ///
    /// Errors of writing to standard error are ignored.
    pub(crate) fn report(&self, format: OutputFormat) -> Exit {
        let text = match self {
            // Help and version were requested, so they go to standard output.
            Self::CommandLine(error) if !error.use_stderr() => {
                return match output::write(|out| write!(out, "{error}")) {
                    Ok(()) => Exit::Done,
                    Err(failure) => failure.report(format),
                };
            }
            // The message quotes arguments, which may be file names chosen by others.
            Self::CommandLine(error) => printable::lines(&error.to_string()),
            Self::Call(error) => {
                let report = ErrorReport::from_client_error(error);
                if format == OutputFormat::Json {
                    // Programs only read standard output.
                    let _ = output::write(|out| output::write_json(out, &report));
                }
                report.to_string()
            }
            _ => {
                let report = ErrorReport::new(self.exit(), self.to_string(), self.advice());
                if format == OutputFormat::Json && !matches!(self, Self::Output(_) | Self::Input(_))
                {
                    let _ = output::write(|out| output::write_json(out, &report));
                }
                report.to_string()
            }
        };
        let _ = io::stderr().write_all(text.as_bytes());
        self.exit()
    }

    /// Returns the remedy, if the message does not contain it.
    fn advice(&self) -> Option<String> {
        match self {
            Self::MissingScopes { lacking, .. } => Some(format!(
                "use another client, or create one: interzone client add --name NAME --scope {}, with the other scopes it needs",
                lacking.join(" --scope ")
            )),
            _ => None,
        }
    }

    fn exit(&self) -> Exit {
        match self {
            // A lost result must not look like a negative one.
            Self::CommandLine(_)
            | Self::Input(_)
            | Self::Output(_)
            | Self::Config(_)
            | Self::Profile(_)
            | Self::Misuse(_)
            | Self::Save(..) => Exit::Misuse,
            Self::Start(StartError::StoreFailed(_)) => Exit::StoreFailed,
            Self::Start(_) | Self::Runtime(_) | Self::ExtractFile(_) => Exit::Failed,
            #[cfg(target_os = "linux")]
            Self::Program(_) => Exit::Failed,
            Self::MissingScopes { .. } => Exit::Refused,
            Self::TimedOut(_) => Exit::TimedOut,
            Self::Call(error) => ErrorReport::from_client_error(error).exit,
        }
    }
}
