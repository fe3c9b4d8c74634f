//! Slack Block Kit builders, and the metadata key attached to each message.

use super::feedback;
use crate::texts::{Language, UserPhrase, phrase_text};
use serde_json::{Value, json};

/// Action id of the stop button; its value is the question id.
pub const STOP_ACTION: &str = "interzone_stop";

/// Action id of the feedback buttons under an answer.
pub const FEEDBACK_ACTION: &str = "interzone_feedback";

/// Metadata event type of messages posted by this app.
pub(super) const METADATA_EVENT_TYPE: &str = "interzone_reply";

/// A Markdown block.
fn markdown_block(text: &str) -> Value {
    json!({"type": "markdown", "text": text})
}

/// Blocks of a message: its text, and optionally feedback buttons for a question's answer.
pub(super) fn message_blocks(text: &str, feedback: Option<(&str, Language)>) -> Value {
    let mut blocks = vec![markdown_block(text)];
    blocks.extend(feedback.map(|(question, language)| feedback_buttons(question, language)));
    Value::Array(blocks)
}

/// The feedback buttons shown under an answer.
pub(super) fn feedback_buttons(question: &str, language: Language) -> Value {
    let button = |label, good| {
        json!({
            "text": {"type": "plain_text", "text": phrase_text(language, label)},
            "value": feedback::button_value(question, good),
        })
    };
    json!({
        "type": "context_actions",
        "elements": [{
            "type": "feedback_buttons",
            "action_id": FEEDBACK_ACTION,
            "positive_button": button(UserPhrase::Good, true),
            "negative_button": button(UserPhrase::Bad, false),
        }],
    })
}

/// Blocks of an unfinished message, with a stop button.
pub(super) fn in_progress_blocks(text: &str, question: &str, language: Language) -> Value {
    json!([markdown_block(text), stop_button(question, language)])
}

/// Blocks of a separate message that offers to stop an answer.
pub(super) fn stop_offer_blocks(question: &str, language: Language) -> Value {
    let hint = phrase_text(language, UserPhrase::StopHint);
    json!([
        {"type": "section", "text": {"type": "plain_text", "text": hint}},
        stop_button(question, language),
    ])
}

fn stop_button(question: &str, language: Language) -> Value {
    json!({
        "type": "actions",
        "elements": [{
            "type": "button",
            "action_id": STOP_ACTION,
            "text": {"type": "plain_text", "text": phrase_text(language, UserPhrase::Stop)},
            "style": "danger",
            "value": question,
        }],
    })
}

/// Message metadata that holds the key, so that the message can be found again.
pub(super) fn key_metadata(key: &str) -> Value {
    json!({"event_type": METADATA_EVENT_TYPE, "event_payload": {"key": key}})
}
