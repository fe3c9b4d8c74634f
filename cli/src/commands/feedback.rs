//! `interzone feedback`: lists feedback from Slack users.
//!
//! It reads the store directly, even while a zone is running on it.

use super::DurationArg;
use crate::config::{CliEnvironment, DATA_DIR, StoreConfig};
use crate::exit::{Exit, Failure};
use crate::output::{self, OutputFormat};
use crate::printable;
use crate::wiring::{self, StartError};
use clap::Args;
use interzone_hub::{Clock, SystemClock};
use interzone_verification::SlackFeedback;
use serde_json::json;
use std::io::{self, Write};
use std::path::PathBuf;

/// Show feedback on answers from Slack users
///
/// Newest last. Only a user's latest rating of an answer counts.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
To see what happened to a question, run `interzone requests QUESTION` on the Execution Zone.

Examples:
  interzone feedback
  interzone feedback --config interzone.toml --since 7d --bad"
)]
pub(crate) struct Feedback {
    /// Show only feedback from this period, such as 12h or 7d
    #[arg(long, value_name = "TIME")]
    since: Option<DurationArg>,

    /// Show only thumbs down
    #[arg(long)]
    bad: bool,

    /// Configuration file of the Verification Zone
    #[arg(long, value_name = "FILE", conflicts_with = "folder")]
    config: Option<PathBuf>,

    /// Data folder of `interzone up` [default: the nearest one]
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

impl Feedback {
    pub(crate) async fn run(&self, format: OutputFormat) -> Result<Exit, Failure> {
        let mut records = Vec::new();
        for store in self.stores()? {
            let store = wiring::record_store(&store)
                .await
                .map_err(StartError::Store)?;
            let kind = SlackFeedback::RECORD_KIND;
            let listed = store.records(kind, SystemClock.now()).await;
            records.extend(listed.map_err(StartError::Store)?);
        }
        let since = self
            .since
            .map(|DurationArg(time)| SystemClock.now().minus(time));
        let mut thumbs: Vec<SlackFeedback> = records
            .iter()
            .filter_map(|(_, record)| serde_json::from_str(&record.value).ok())
            .filter(|thumb: &SlackFeedback| since.is_none_or(|since| thumb.at >= since))
            .filter(|thumb| !self.bad || !thumb.good)
            .collect();
        thumbs.sort_by_key(|thumb| thumb.at);
        output::write(|out| match format {
            OutputFormat::Json => output::write_json(out, &json!({"feedback": thumbs})),
            OutputFormat::Text => write_text(out, &thumbs),
        })?;
        Ok(Exit::Done)
    }

    fn stores(&self) -> Result<Vec<StoreConfig>, Failure> {
        if let Some(file) = &self.config {
            return Ok(vec![StoreConfig::load_for_verification(file)?]);
        }
        let folder = self
            .folder
            .clone()
            .or_else(|| CliEnvironment::load().folder);
        match folder.filter(|folder| folder.is_dir()) {
            // The local workspace and a real one.
            Some(folder) => Ok(["verification.db", "slack.db"]
                .into_iter()
                .filter(|name| folder.join(name).is_file())
                .map(|name| StoreConfig::in_data_dir(&folder, name))
                .collect()),
            None => Err(Failure::Misuse(format!(
                "no store found; pass a configuration with --config, or the folder of \
                 `interzone up` ({DATA_DIR}) with --folder"
            ))),
        }
    }
}

fn write_text(out: &mut dyn Write, thumbs: &[SlackFeedback]) -> io::Result<()> {
    for thumb in thumbs {
        let label = if thumb.good { "good" } else { "bad " };
        writeln!(
            out,
            "{}  {label}  {} in {} of {}  question {}",
            thumb.at,
            thumb.user,
            thumb.channel,
            thumb.team,
            printable::text(&thumb.question)
        )?;
    }
    let good = thumbs.iter().filter(|thumb| thumb.good).count();
    writeln!(out, "{good} good, {} bad", thumbs.len() - good)
}

#[cfg(test)]
mod tests {
    use super::{SlackFeedback, write_text};
    use serde_json::json;

    #[test]
    fn feedback_is_listed_and_counted() {
        let thumb = |good, user: &str| -> SlackFeedback {
            let record = json!({
                "team": "T1", "channel": "C1", "message": "2.5", "user": user, "good": good,
                "question": "6f1e2d3c-0000-8000-8000-000000000001",                 "at": "2026-01-02T03:04:05.000Z",
            });
            serde_json::from_value(record).unwrap()
        };
        let mut out = Vec::new();
        write_text(&mut out, &[thumb(true, "U1"), thumb(false, "U2")]).unwrap();
        let text = String::from_utf8(out).unwrap();
        let first = "2026-01-02T03:04:05.000Z  good  U1 in C1 of T1  question \
                     6f1e2d3c-0000-8000-8000-000000000001";
        assert_eq!(text.lines().next(), Some(first));
        assert_eq!(text.lines().last(), Some("1 good, 1 bad"));
    }
}
