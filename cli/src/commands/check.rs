//! `interzone check`: whether a file holds a valid JSON-RPC 2.0 message, or a server keeps the rules;
//! and if not, why and where.
//!
//! What a valid message is, is decided in `interzone-jsonrpc` and nowhere here: this command only asks.

mod report;
mod server;
mod text;

use crate::connect::ConnectOptions;
use crate::exit::{Exit, Failure};
use crate::input::Input;
use crate::output::{self, Format};
use crate::runtime;
use crate::time::Limit;
use clap::Args;
use std::ffi::OsString;
use std::time::Duration;

/// How long the server may take for each answer.
const PATIENCE: Duration = Duration::from_secs(15);

/// Say whether a file holds a valid JSON-RPC 2.0 message, or whether a server keeps the rules
///
/// A file holds one request, notification or response, or one batch of them.
/// Only the envelope is judged, not what a method makes of its params.
///
/// A server is looked at from outside: transport, envelope, and if it speaks ACP its
/// authentication, methods, streams, agent card and health. It makes a few tasks and streams.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Exit codes:
  0  the message is valid, and so is every message of a batch; the server fails no check
  1  it is not valid; the server fails a check
  2  there is no verdict: nothing to read, or the command was not understood
  3  the server cannot be reached
  4  the server gives no token

Examples:
  interzone check examples/messages/request.json
  echo '{\"jsonrpc\":\"2.0\",\"method\":\"tasks.get\",\"id\":1}' | interzone check -
  interzone check --output json examples/messages/batch.json
  interzone check https://localhost:8443"
)]
pub(crate) struct Check {
    /// The file to read, - for standard input, or the https:// address of a server
    #[arg(value_name = "FILE|URL")]
    subject: OsString,

    /// A server: which rules it is held to
    #[arg(long, value_enum, default_value_t)]
    protocol: server::Protocol,

    /// A server: how long it may take for each answer, such as 30s
    #[arg(long, value_name = "TIME")]
    timeout: Option<Limit>,

    #[command(flatten)]
    connect: ConnectOptions,
}

impl Check {
    pub(crate) fn run(&self, format: Format) -> Result<Exit, Failure> {
        let url = self
            .subject
            .to_str()
            .filter(|text| text.starts_with("https://") || text.starts_with("http://"));
        match url {
            Some(url) => self.check_server(url, format),
            None => self.check_file(format),
        }
    }

    fn check_server(&self, url: &str, format: Format) -> Result<Exit, Failure> {
        let connection = self.connect.find_at(Some(url))?;
        let patience = self.timeout.map_or(PATIENCE, |Limit(limit)| limit);
        runtime::run(server::examine(
            &connection,
            self.protocol,
            patience,
            format,
        ))
    }

    fn check_file(&self, format: Format) -> Result<Exit, Failure> {
        let bytes = Input::from(self.subject.as_os_str()).read()?;
        let report = report::judge(&bytes);
        output::write(|out| match format {
            Format::Text => text::write(out, &report, &bytes),
            Format::Json => output::write_json(out, &report),
        })?;
        Ok(if report.valid { Exit::Done } else { Exit::No })
    }
}
