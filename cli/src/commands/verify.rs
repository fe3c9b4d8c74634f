//! `interzone verify`: a Verification Zone by its configuration.

use crate::config::VerifyConfig;
use crate::exit::{Exit, Failure};
use crate::output::{self, Format};
use crate::runtime;
use crate::wiring::{Signals, StartError, Verifying, start_log};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;

/// Run a Verification Zone: Slack's front door
///
/// Prints one line with its address once it serves; everything else goes to standard error.
/// Slack or the Execution Zone may be away then: /readyz tells, and questions wait in the store.
/// SIGTERM or Ctrl-C stops it in order, a second one at once.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
docs/slack.md tells how to connect it; config.default.toml and docs/config.md describe every key.

Example:
  interzone verify --config interzone.toml"
)]
pub(crate) struct Verify {
    /// The configuration
    #[arg(long, value_name = "FILE", default_value = "interzone.toml")]
    config: PathBuf,
}

impl Verify {
    pub(crate) fn run(&self, format: Format) -> Result<Exit, Failure> {
        let config = VerifyConfig::load(&self.config)?;
        let log = start_log(&config.tls, &config.log)?;
        let served = runtime::serve(config.verification.threads, serve(config, format));
        // What the log still holds leaves now.
        drop(log);
        served
    }
}

async fn serve(config: VerifyConfig, format: Format) -> Result<Exit, Failure> {
    let mut signals = Signals::listen().map_err(StartError::Signals)?;
    let zone = Verifying::start(config, "`listen` in [verification]").await?;
    let url = zone.public_url();
    output::write(|out| match format {
        Format::Text => writeln!(out, "interzone: verification zone ready at {url}"),
        Format::Json => output::write_json(out, &json!({"url": url})),
    })?;
    signals.then(zone.store_failed(), zone.wind_up()).await?;
    Ok(Exit::Done)
}
