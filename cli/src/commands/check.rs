//! `interzone check`: whether a file holds a valid JSON-RPC 2.0 message, and if not, why and where.
//!
//! What is valid is decided in `interzone-jsonrpc` and nowhere here: this command only asks.

mod report;
mod text;

use crate::exit::{Exit, Failure};
use crate::input::Input;
use crate::output::{self, Format};
use clap::Args;
use std::ffi::OsString;

/// Say whether a file holds a valid JSON-RPC 2.0 message, and if not, why and where
///
/// The file holds one request, notification or response, or one batch of them.
/// Only the envelope is judged, not what a method makes of its params.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Exit codes:
  0  the message is valid, and so is every message of a batch
  1  it is not valid
  2  there is no verdict: nothing to read, or the command was not understood

Examples:
  interzone check examples/messages/request.json
  echo '{\"jsonrpc\":\"2.0\",\"method\":\"tasks.get\",\"id\":1}' | interzone check -
  interzone check --output json examples/messages/batch.json"
)]
pub(crate) struct Check {
    /// The file to read, or - for standard input; up to 64 MiB
    #[arg(value_name = "FILE")]
    file: OsString,
}

impl Check {
    pub(crate) fn run(&self, format: Format) -> Result<Exit, Failure> {
        let bytes = Input::from(self.file.as_os_str()).read()?;
        let report = report::judge(&bytes);
        output::write(|out| match format {
            Format::Text => text::write(out, &report, &bytes),
            Format::Json => output::write_json(out, &report),
        })?;
        Ok(if report.valid { Exit::Done } else { Exit::No })
    }
}
