//! Reports skipped attachments: as a sentence to the user, and in the message's metadata to programs.

use super::PreparedTurn;
use crate::files::{FileError, Language};
use async_trait::async_trait;
use interzone_hub::{HubError, TurnOutcome, TurnOutput};
use interzone_protocol::vocab::{Artifact, Message, Metadata, Part, VerbatimJson};
use interzone_protocol::zone::SkippedAttachment;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Returns the sentence for the user.
pub(super) fn skipped_sentence(errors: &[(String, FileError)], language: Language) -> String {
    let item = |(name, error): &(String, FileError)| match language {
        Language::English => format!("\"{name}\" ({})", error.localized(language)),
        Language::Japanese => format!("「{name}」（{}）", error.localized(language)),
    };
    let items: Vec<String> = errors.iter().map(item).collect();
    match (items.is_empty(), language) {
        (true, _) => String::new(),
        (false, Language::English) => format!("Left out: {}.", items.join(", ")),
        (false, Language::Japanese) => format!("使用しなかった添付ファイル: {}", items.join("、")),
    }
}

/// Output wrapper that records if an agent streams its answer.
pub(crate) struct StreamDetector {
    output: Arc<dyn TurnOutput>,
    streamed: AtomicBool,
}

impl StreamDetector {
    pub(crate) fn new(output: Arc<dyn TurnOutput>) -> Arc<Self> {
        let streamed = AtomicBool::new(false);
        Arc::new(Self { output, streamed })
    }
}

#[async_trait]
impl TurnOutput for StreamDetector {
    async fn text(&self, delta: &str) -> Result<(), HubError> {
        self.streamed.store(true, Ordering::Relaxed);
        self.output.text(delta).await
    }

    async fn status(&self, text: &str) -> Result<(), HubError> {
        self.output.status(text).await
    }

    async fn artifact(&self, artifact: Artifact, append: bool, last: bool) -> Result<(), HubError> {
        self.output.artifact(artifact, append, last).await
    }
}

/// Adds the skipped attachments to an answer. A streamed answer also gets the sentence as its last text delta.
pub(crate) async fn append_skipped(
    outcome: TurnOutcome,
    skipped: &[SkippedAttachment],
    sentence: &str,
    output: &StreamDetector,
) -> Result<TurnOutcome, HubError> {
    let outcome = match outcome {
        TurnOutcome::Completed { message, direct } => TurnOutcome::Completed {
            message: Some(append_sentence(message, skipped, sentence)),
            direct,
        },
        TurnOutcome::InputRequired(message) => {
            TurnOutcome::InputRequired(append_sentence(Some(message), skipped, sentence))
        }
        other => return Ok(other),
    };
    if output.streamed.load(Ordering::Relaxed) {
        output.text(&format!("\n{sentence}")).await?;
    }
    Ok(outcome)
}

fn append_sentence(
    message: Option<Message>,
    skipped: &[SkippedAttachment],
    sentence: &str,
) -> Message {
    let Some(message) = message else {
        return add_metadata(Message::agent_text(sentence), skipped);
    };
    let mut parts = message.parts().to_vec();
    parts.push(Part::text(sentence));
    add_metadata(message.replace_parts(parts), skipped)
}

fn add_metadata(message: Message, skipped: &[SkippedAttachment]) -> Message {
    let existing = message.metadata().map(Metadata::as_json);
    let existing = existing.and_then(|json| json.decode::<Map<String, Value>>().ok());
    let mut fields = existing.unwrap_or_default();
    let Ok(list) = serde_json::to_value(skipped) else {
        return message;
    };
    // The agent may have skipped files too.
    match (fields.get_mut(PreparedTurn::SKIPPED_FIELD), list) {
        (Some(Value::Array(existing)), Value::Array(mut list)) => existing.append(&mut list),
        (_, list) => {
            fields.insert(PreparedTurn::SKIPPED_FIELD.to_owned(), list);
        }
    }
    match VerbatimJson::from_value(&fields).and_then(Metadata::new) {
        Ok(metadata) => message.with_metadata(metadata),
        Err(_) => message,
    }
}

impl PreparedTurn {
    /// Field of an answer's metadata that lists the skipped attachments.
    pub const SKIPPED_FIELD: &'static str = "skipped";
}
