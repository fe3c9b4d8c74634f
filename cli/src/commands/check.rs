//! `interzone check`: validates a JSON-RPC 2.0 message, or tests a server for conformance.
//!
//! Messages are validated by `interzone-jsonrpc`; this command only reports the result.

mod report;
mod server;
mod text;

use super::DurationArg;
use crate::connect::ConnectOptions;
use crate::exit::{Exit, Failure};
use crate::input::Input;
use crate::output::{self, OutputFormat};
use crate::runtime;
use clap::Args;
use std::ffi::OsString;
use std::time::Duration;

/// Default timeout for each response of a server.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(15);

/// Validate a JSON-RPC 2.0 message, or test a server for conformance
///
/// A file holds one request, notification or response, or one batch of them.
/// Only the envelope is validated, not the params of a method.
///
/// A server is tested from outside: transport, envelope, and, if it supports ACP, its
/// authentication, methods, streams, agent card and health. This creates a few tasks and streams.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Exit codes:
  0  the message, or every message of the batch, is valid; the server passes all checks
  1  a message is not valid; the server fails a check
  2  no result: nothing to read, or invalid usage
  3  the server cannot be reached
  4  no access token could be obtained

Examples:
  interzone check examples/messages/request.json
  echo '{\"jsonrpc\":\"2.0\",\"method\":\"tasks.get\",\"id\":1}' | interzone check -
  interzone check --output json examples/messages/batch.json
  interzone check https://localhost:8443"
)]
pub(crate) struct Check {
    /// File to read, - for standard input, or the https:// URL of a server
    #[arg(value_name = "FILE|URL")]
    subject: OsString,

    /// Protocol to test a server for
    #[arg(long, value_enum, default_value_t)]
    protocol: server::Protocol,

    /// Timeout for each response of a server, such as 30s
    #[arg(long, value_name = "TIME")]
    timeout: Option<DurationArg>,

    #[command(flatten)]
    connect: ConnectOptions,
}

impl Check {
    pub(crate) fn run(&self, format: OutputFormat) -> Result<Exit, Failure> {
        let url = self
            .subject
            .to_str()
            .filter(|text| text.starts_with("https://") || text.starts_with("http://"));
        match url {
            Some(url) => self.check_server(url, format),
            None => self.check_file(format),
        }
    }

    fn check_server(&self, url: &str, format: OutputFormat) -> Result<Exit, Failure> {
        let connection = self.connect.resolve_for(Some(url))?;
        let timeout = self
            .timeout
            .map_or(DEFAULT_TIMEOUT, |DurationArg(limit)| limit);
        runtime::run(server::run(&connection, self.protocol, timeout, format))
    }

    fn check_file(&self, format: OutputFormat) -> Result<Exit, Failure> {
        let bytes = Input::from(self.subject.as_os_str()).read()?;
        let report = report::validate(&bytes);
        output::write(|out| match format {
            OutputFormat::Text => text::write(out, &report, &bytes),
            OutputFormat::Json => output::write_json(out, &report),
        })?;
        Ok(if report.valid {
            Exit::Done
        } else {
            Exit::Failed
        })
    }
}
