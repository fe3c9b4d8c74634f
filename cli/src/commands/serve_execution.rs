//! `interzone serve execution`: runs an Execution Zone from its configuration.

use crate::config::Config;
use crate::exit::{Exit, Failure};
use crate::output::{self, OutputFormat};
use crate::runtime;
use crate::wiring::{ExecutionServer, ShutdownSignals, StartError, start_log};
use clap::Args;
use serde_json::json;
use std::path::PathBuf;

/// Run an Execution Zone
///
/// Prints one line with its URL when ready; everything else goes to standard error.
/// SIGTERM or Ctrl-C shuts it down gracefully; a second one stops it immediately.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
config.default.toml and docs/config.md describe every key.

Examples:
  interzone serve execution --config interzone.toml
  interzone serve execution --config interzone.toml --agentcore"
)]
pub(crate) struct ServeExecution {
    /// Configuration file
    #[arg(long, value_name = "FILE", default_value = "interzone.toml")]
    config: PathBuf,

    /// Run as an Amazon Bedrock AgentCore runtime: plain HTTP on ports 8080 and 9000
    ///
    /// Same as `agentcore.enabled = true` in the configuration. AgentCore terminates TLS and authenticates callers;
    /// do not use it anywhere else.
    #[arg(long)]
    agentcore: bool,
}

impl ServeExecution {
    pub(crate) fn run(&self, format: OutputFormat) -> Result<Exit, Failure> {
        let overrides: &[(&str, &str)] = match self.agentcore {
            true => &[("INTERZONE__AGENTCORE__ENABLED", "true")],
            false => &[],
        };
        let config = Config::load_with(&self.config, overrides)?;
        let log = start_log(&config.tls, &config.log)?;
        let served = runtime::serve(config.execution.threads, serve(config, format));
        // Flushes the log.
        drop(log);
        served
    }
}

async fn serve(config: Config, format: OutputFormat) -> Result<Exit, Failure> {
    let mut signals = ShutdownSignals::listen().map_err(StartError::Signals)?;
    let zone = ExecutionServer::start(config, "`listen` in [execution]").await?;
    let url = zone.public_url();
    output::write(|out| match format {
        OutputFormat::Text => writeln!(out, "interzone: execution zone ready at {url}"),
        OutputFormat::Json => output::write_json(out, &json!({"url": url})),
    })?;
    signals
        .shut_down_on_signal(zone.store_failed(), zone.shut_down())
        .await?;
    Ok(Exit::Done)
}
