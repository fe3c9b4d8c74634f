//! `interzone execute`: an Execution Zone by its configuration.

use crate::config::Config;
use crate::exit::{Exit, Failure};
use crate::output::{self, Format};
use crate::runtime;
use crate::wiring::{Running, Signals, StartError, start_log};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;

/// Run an Execution Zone
///
/// Prints one line with its address once it serves; everything else goes to standard error.
/// SIGTERM or Ctrl-C stops it in order, a second one at once.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
config.default.toml and docs/config.md describe every key.

Example:
  interzone execute --config interzone.toml
  interzone execute --config interzone.toml --agentcore"
)]
pub(crate) struct Execute {
    /// The configuration
    #[arg(long, value_name = "FILE", default_value = "interzone.toml")]
    config: PathBuf,

    /// Serve the runtime of Amazon Bedrock AgentCore: plain HTTP on ports 8080 and 9000
    ///
    /// The same as `agentcore.enabled = true` in the configuration. Its runtime ends TLS and proves who calls; do not
    /// use it anywhere else.
    #[arg(long)]
    agentcore: bool,
}

impl Execute {
    pub(crate) fn run(&self, format: Format) -> Result<Exit, Failure> {
        let said: &[(&str, &str)] = match self.agentcore {
            true => &[("INTERZONE__AGENTCORE__ENABLED", "true")],
            false => &[],
        };
        let config = Config::load_with(&self.config, said)?;
        let log = start_log(&config.tls, &config.log)?;
        let served = runtime::serve(config.execution.threads, serve(config, format));
        // What the log still holds leaves now.
        drop(log);
        served
    }
}

async fn serve(config: Config, format: Format) -> Result<Exit, Failure> {
    let mut signals = Signals::listen().map_err(StartError::Signals)?;
    let zone = Running::start(config, "`listen` in [execution]").await?;
    let url = zone.public_url();
    output::write(|out| match format {
        Format::Text => writeln!(out, "interzone: execution zone ready at {url}"),
        Format::Json => output::write_json(out, &json!({"url": url})),
    })?;
    signals.then(zone.store_failed(), zone.wind_up()).await?;
    Ok(Exit::Done)
}
