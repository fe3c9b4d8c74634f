//! `interzone serve verification`: runs a Verification Zone from its configuration.

use crate::config::VerificationZoneConfig;
use crate::exit::{Exit, Failure};
use crate::output::{self, OutputFormat};
use crate::runtime;
use crate::wiring::{ShutdownSignals, StartError, VerificationServer, start_log};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;

/// Run a Verification Zone, the frontend for Slack
///
/// Prints one line with its URL when ready; everything else goes to standard error.
/// It starts even if Slack or the Execution Zone is unreachable: /readyz reports this, and questions are
/// queued.
/// SIGTERM or Ctrl-C shuts it down gracefully; a second one stops it immediately.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
docs/slack.md explains the setup; config.default.toml and docs/config.md describe every key.

Example:
  interzone serve verification --config interzone.toml"
)]
pub(crate) struct ServeVerification {
    /// Configuration file
    #[arg(long, value_name = "FILE", default_value = "interzone.toml")]
    config: PathBuf,
}

impl ServeVerification {
    pub(crate) fn run(&self, format: OutputFormat) -> Result<Exit, Failure> {
        let config = VerificationZoneConfig::load(&self.config)?;
        let log = start_log(&config.tls, &config.log)?;
        let served = runtime::serve(config.verification.threads, serve(config, format));
        // Flushes the log.
        drop(log);
        served
    }
}

async fn serve(config: VerificationZoneConfig, format: OutputFormat) -> Result<Exit, Failure> {
    let mut signals = ShutdownSignals::listen().map_err(StartError::Signals)?;
    let zone = VerificationServer::start(config, "`listen` in [verification]").await?;
    let url = zone.public_url();
    output::write(|out| match format {
        OutputFormat::Text => writeln!(out, "interzone: verification zone ready at {url}"),
        OutputFormat::Json => output::write_json(out, &json!({"url": url})),
    })?;
    signals
        .shut_down_on_signal(zone.store_failed(), zone.shut_down())
        .await?;
    Ok(Exit::Done)
}
