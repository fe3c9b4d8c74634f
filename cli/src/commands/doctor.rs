//! `interzone doctor`: diagnoses a zone and suggests fixes.
//!
//! Read-only: it changes and posts nothing, and does not disturb a running zone.

mod files;
mod http_probe;
mod report;
mod slack;
mod zone_checks;

use crate::config::{Config, ConfigSummary, VerificationZoneConfig};
use crate::exit::{Exit, Failure};
use crate::output::{self, OutputFormat};
use clap::Args;
use http_probe::HttpProbe;
use report::{DoctorReport, DoctorVerdict};
use std::path::PathBuf;

/// Diagnose a zone's configuration and connections
///
/// Checks the configuration, its files and their permissions, certificates, the store, the
/// clock, and the zone's dependencies: its issuer, or the Execution Zone, Slack, tokens and
/// scopes. Prints one line per check, with the result and what to do next. Changes nothing.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Exit codes:
  0  no check failed
  1  a check failed
  2  the configuration cannot be read

Examples:
  interzone doctor
  interzone doctor --config verification.toml --output json"
)]
pub(crate) struct Doctor {
    /// Configuration file of either zone
    #[arg(long, value_name = "FILE", default_value = "interzone.toml")]
    config: PathBuf,
}

impl Doctor {
    pub(crate) async fn run(&self, format: OutputFormat) -> Result<Exit, Failure> {
        let outline = ConfigSummary::load(&self.config)?;
        let mut report = DoctorReport::default();
        files::check(&outline.files, &mut report);
        if outline.execution {
            self.execution(&mut report).await;
        }
        if outline.verification {
            self.verification(&mut report).await;
        }
        output::write(|out| match format {
            OutputFormat::Text => report.write_text(out),
            OutputFormat::Json => report.write_json(out),
        })?;
        Ok(match report.count(DoctorVerdict::Fail) {
            0 => Exit::Done,
            _ => Exit::Failed,
        })
    }

    async fn execution(&self, report: &mut DoctorReport) {
        const NAME: &str = "configuration of the Execution Zone";
        let config = match Config::load(&self.config) {
            Ok(config) => config,
            Err(error) => return report.fail(NAME, error.to_string(), "fix the configuration"),
        };
        report.pass(NAME, self.config.to_string_lossy());
        files::server_certificate(config.tls.server.as_ref(), report);
        zone_checks::store(&config.store, report).await;
        zone_checks::agents(&config, report);
        match HttpProbe::new(&config.tls.trust) {
            Err(error) => report.fail("network", error.to_string(), "fix [tls] trust"),
            Ok(wire) => {
                zone_checks::issuer(&config, &wire, report).await;
                if config.tls.server.is_some() {
                    let public = &config.execution.public_url;
                    zone_checks::this_zone(public, "execution", &wire, report).await;
                }
            }
        }
    }

    async fn verification(&self, report: &mut DoctorReport) {
        const NAME: &str = "configuration of the Verification Zone";
        let config = match VerificationZoneConfig::load(&self.config) {
            Ok(config) => config,
            Err(error) => return report.fail(NAME, error.to_string(), "fix the configuration"),
        };
        report.pass(NAME, self.config.to_string_lossy());
        files::server_certificate(config.tls.server.as_ref(), report);
        zone_checks::store(&config.store, report).await;
        match HttpProbe::new(&config.tls.trust) {
            Err(error) => report.fail("network", error.to_string(), "fix [tls] trust"),
            Ok(wire) => {
                zone_checks::execution(&config, &wire, report).await;
                slack::check(&config, &wire, report).await;
                let public = &config.verification.public_url;
                zone_checks::this_zone(public, "verification", &wire, report).await;
            }
        }
    }
}
