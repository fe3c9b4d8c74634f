//! `interzone feedback`: what people in Slack thought of answers.
//!
//! It reads the store itself, also while a zone runs on it.

use crate::config::{FOLDER, StoreConfig, Surroundings};
use crate::exit::{Exit, Failure};
use crate::output::{self, Format};
use crate::printable;
use crate::time::Limit;
use crate::wiring::{self, StartError};
use clap::Args;
use interzone_hub::{Clock, SystemClock};
use interzone_verification::FeedbackGiven;
use serde_json::json;
use std::io::{self, Write};
use std::path::PathBuf;

/// Show what people in Slack thought of answers
///
/// The newest come last. A thumb counts until its owner presses the other one.
#[derive(Debug, Args)]
#[command(
    verbatim_doc_comment,
    after_help = "\
`interzone pairs QUESTION` on the Execution Zone tells what became of the question.

Examples:
  interzone feedback
  interzone feedback --config interzone.toml --since 7d --bad"
)]
pub(crate) struct Feedback {
    /// Only within this time, such as 12h or 7d
    #[arg(long, value_name = "TIME")]
    since: Option<Limit>,

    /// Only thumbs down
    #[arg(long)]
    bad: bool,

    /// The configuration of the Verification Zone whose store is meant
    #[arg(long, value_name = "FILE", conflicts_with = "folder")]
    config: Option<PathBuf>,

    /// The folder of `interzone up` whose store is meant; else the nearest one
    #[arg(long, value_name = "FOLDER")]
    folder: Option<PathBuf>,
}

impl Feedback {
    pub(crate) async fn run(&self, format: Format) -> Result<Exit, Failure> {
        let mut kept = Vec::new();
        for store in self.stores()? {
            let keep = wiring::records(&store).await.map_err(StartError::Store)?;
            let listed = keep.list(FeedbackGiven::KIND).await;
            kept.extend(listed.map_err(StartError::Kept)?);
        }
        let since = self.since.map(|Limit(time)| SystemClock.now().before(time));
        let mut thumbs: Vec<FeedbackGiven> = kept
            .iter()
            .filter_map(|kept| serde_json::from_str(&kept.value).ok())
            .filter(|thumb: &FeedbackGiven| since.is_none_or(|since| thumb.at >= since))
            .filter(|thumb| !self.bad || !thumb.good)
            .collect();
        thumbs.sort_by_key(|thumb| thumb.at);
        output::write(|out| match format {
            Format::Json => output::write_json(out, &json!({"feedback": thumbs})),
            Format::Text => write_text(out, &thumbs),
        })?;
        Ok(Exit::Done)
    }

    fn stores(&self) -> Result<Vec<StoreConfig>, Failure> {
        if let Some(file) = &self.config {
            return Ok(vec![StoreConfig::of_verification(file)?]);
        }
        let folder = self.folder.clone().or_else(|| Surroundings::look().folder);
        match folder.filter(|folder| folder.is_dir()) {
            // Of the workspace on this machine, and of a real one.
            Some(folder) => Ok(["verification.db", "slack.db"]
                .into_iter()
                .filter(|name| folder.join(name).is_file())
                .map(|name| StoreConfig::of_folder(&folder, name))
                .collect()),
            None => Err(Failure::Misuse(format!(
                "no store is known; name a configuration with --config, or the folder of \
                 `interzone up` ({FOLDER}) with --folder"
            ))),
        }
    }
}

fn write_text(out: &mut dyn Write, thumbs: &[FeedbackGiven]) -> io::Result<()> {
    for thumb in thumbs {
        let word = if thumb.good { "good" } else { "bad " };
        writeln!(
            out,
            "{}  {word}  {} in {} of {}  question {}",
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
    use super::{FeedbackGiven, write_text};
    use serde_json::json;

    #[test]
    fn thumbs_are_told_and_counted() {
        let thumb = |good, user: &str| -> FeedbackGiven {
            let kept = json!({
                "team": "T1", "channel": "C1", "message": "2.5", "user": user, "good": good,
                "question": "6f1e2d3c-0000-8000-8000-000000000001",                 "at": "2026-01-02T03:04:05.000Z",
            });
            serde_json::from_value(kept).unwrap()
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
