//! `interzone doctor`: what keeps a zone from working, and what to do about it.
//!
//! It only looks: nothing is changed, posted or left behind, and a zone that runs is not disturbed.

mod files;
#[cfg(test)]
mod manifest;
mod report;
mod slack;
mod wire;
mod zones;

use crate::config::{Config, Outline, VerifyConfig};
use crate::exit::{Exit, Failure};
use crate::output::{self, Format};
use clap::Args;
use report::{Report, Verdict};
use std::path::PathBuf;
use wire::Wire;

/// Find out what keeps a zone from working
///
/// Looks at the configuration, its files and their permissions, certificates, the store, the
/// clock, and whatever the zone needs: its issuer, or the Execution Zone, Slack, tokens and
/// scopes. Each look is a line that says what was found and what to do next. Nothing is changed.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
Exit codes:
  0  nothing failed
  1  something failed
  2  the configuration cannot be read

Examples:
  interzone doctor
  interzone doctor --config verification.toml --output json"
)]
pub(crate) struct Doctor {
    /// The configuration, of either zone
    #[arg(long, value_name = "FILE", default_value = "interzone.toml")]
    config: PathBuf,
}

impl Doctor {
    pub(crate) async fn run(&self, format: Format) -> Result<Exit, Failure> {
        let outline = Outline::of(&self.config)?;
        let mut report = Report::default();
        files::check(&outline.files, &mut report);
        if outline.execution {
            self.execution(&mut report).await;
        }
        if outline.verification {
            self.verification(&mut report).await;
        }
        output::write(|out| match format {
            Format::Text => report.write_text(out),
            Format::Json => report.write_json(out),
        })?;
        Ok(match report.count(Verdict::Fail) {
            0 => Exit::Done,
            _ => Exit::No,
        })
    }

    async fn execution(&self, report: &mut Report) {
        const NAME: &str = "configuration of the Execution Zone";
        let config = match Config::load(&self.config) {
            Ok(config) => config,
            Err(error) => return report.fail(NAME, error.to_string(), "correct it"),
        };
        report.pass(NAME, self.config.to_string_lossy());
        files::serving(config.tls.server.as_ref(), report);
        zones::store(&config.store, report).await;
        zones::agents(&config, report);
        match Wire::new(&config.tls.trust) {
            Err(error) => report.fail("network", error.to_string(), "correct [tls] trust"),
            Ok(wire) => {
                zones::issuer(&config, &wire, report).await;
                if config.tls.server.is_some() {
                    let public = &config.execution.public_url;
                    zones::own(public, "execute", &wire, report).await;
                }
            }
        }
    }

    async fn verification(&self, report: &mut Report) {
        const NAME: &str = "configuration of the Verification Zone";
        let config = match VerifyConfig::load(&self.config) {
            Ok(config) => config,
            Err(error) => return report.fail(NAME, error.to_string(), "correct it"),
        };
        report.pass(NAME, self.config.to_string_lossy());
        files::serving(config.tls.server.as_ref(), report);
        zones::store(&config.store, report).await;
        match Wire::new(&config.tls.trust) {
            Err(error) => report.fail("network", error.to_string(), "correct [tls] trust"),
            Ok(wire) => {
                zones::execution(&config, &wire, report).await;
                slack::check(&config, &wire, report).await;
                let public = &config.verification.public_url;
                zones::own(public, "verify", &wire, report).await;
            }
        }
    }
}
