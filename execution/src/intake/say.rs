//! Saying what was left out: to the user in a sentence, to programs in the message's metadata.

use super::Prepared;
use crate::files::{Fault, Language};
use async_trait::async_trait;
use interzone_hub::{HubError, Outcome, Output};
use interzone_protocol::vocab::{Artifact, Json, Message, Metadata, Part};
use interzone_protocol::zone::Skipped;
use serde_json::{Map, Value};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// What the user is told.
pub(super) fn left_out(faults: &[(String, Fault)], language: Language) -> String {
    let one = |(name, fault): &(String, Fault)| match language {
        Language::English => format!("\"{name}\" ({})", fault.told(language)),
        Language::Japanese => format!("「{name}」（{}）", fault.told(language)),
    };
    let all: Vec<String> = faults.iter().map(one).collect();
    match (all.is_empty(), language) {
        (true, _) => String::new(),
        (false, Language::English) => format!("Left out: {}.", all.join(", ")),
        (false, Language::Japanese) => format!("使用しなかった添付ファイル: {}", all.join("、")),
    }
}

/// What an agent writes on, with an ear for whether it streams its answer.
pub(crate) struct Listener {
    output: Arc<dyn Output>,
    streamed: AtomicBool,
}

impl Listener {
    pub(crate) fn new(output: Arc<dyn Output>) -> Arc<Self> {
        let streamed = AtomicBool::new(false);
        Arc::new(Self { output, streamed })
    }
}

#[async_trait]
impl Output for Listener {
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

/// Adds to an answer what was left out. An answer that was streamed gets it at its end there too.
pub(crate) async fn add_skipped(
    outcome: Outcome,
    skipped: &[Skipped],
    sentence: &str,
    output: &Listener,
) -> Result<Outcome, HubError> {
    let outcome = match outcome {
        Outcome::Completed { message, direct } => Outcome::Completed {
            message: Some(with(message, skipped, sentence)),
            direct,
        },
        Outcome::InputRequired(message) => {
            Outcome::InputRequired(with(Some(message), skipped, sentence))
        }
        other => return Ok(other),
    };
    if output.streamed.load(Ordering::Relaxed) {
        output.text(&format!("\n{sentence}")).await?;
    }
    Ok(outcome)
}

fn with(message: Option<Message>, skipped: &[Skipped], sentence: &str) -> Message {
    let Some(message) = message else {
        return noted(Message::agent_text(sentence), skipped);
    };
    let mut parts = message.parts().to_vec();
    parts.push(Part::text(sentence));
    noted(message.replace_parts(parts), skipped)
}

fn noted(message: Message, skipped: &[Skipped]) -> Message {
    let before = message.metadata().map(Metadata::as_json);
    let before = before.and_then(|json| json.decode::<Map<String, Value>>().ok());
    let mut members = before.unwrap_or_default();
    let Ok(list) = serde_json::to_value(skipped) else {
        return message;
    };
    // An agent may have left files out too.
    match (members.get_mut(Prepared::SKIPPED), list) {
        (Some(Value::Array(known)), Value::Array(mut list)) => known.append(&mut list),
        (_, list) => {
            members.insert(Prepared::SKIPPED.to_owned(), list);
        }
    }
    match Json::of(&members).and_then(Metadata::new) {
        Ok(metadata) => message.with_metadata(metadata),
        Err(_) => message,
    }
}

impl Prepared {
    /// The member of an answer's metadata that lists what was left out.
    pub const SKIPPED: &'static str = "skipped";
}
