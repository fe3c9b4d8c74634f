//! What messages are made of: Slack's blocks, and the key that we write behind each message. What they
//! say comes from elsewhere.

use super::feedback;
use crate::texts::{Language, Phrase, phrase};
use serde_json::{Value, json};

/// The action of the button that stops an answer; its value is the question's id.
pub const STOP_ACTION: &str = "interzone_stop";

/// The action of the buttons under an answer.
pub const FEEDBACK_ACTION: &str = "interzone_feedback";

/// The type of what we write behind our messages.
pub(super) const KEY_TYPE: &str = "interzone_reply";

/// A text in Markdown.
fn markdown(text: &str) -> Value {
    json!({"type": "markdown", "text": text})
}

/// A message: its text, and under it the buttons for feedback on a question's answer.
pub(super) fn message(text: &str, feedback: Option<(&str, Language)>) -> Value {
    let mut blocks = vec![markdown(text)];
    blocks.extend(feedback.map(|(question, language)| feedback_buttons(question, language)));
    Value::Array(blocks)
}

/// What stands under an answer.
pub(super) fn feedback_buttons(question: &str, language: Language) -> Value {
    let button = |what, good| {
        json!({
            "text": {"type": "plain_text", "text": phrase(language, what)},
            "value": feedback::value(question, good),
        })
    };
    json!({
        "type": "context_actions",
        "elements": [{
            "type": "feedback_buttons",
            "action_id": FEEDBACK_ACTION,
            "positive_button": button(Phrase::Good, true),
            "negative_button": button(Phrase::Bad, false),
        }],
    })
}

/// A message that is not over, with the button that stops it.
pub(super) fn growing(text: &str, question: &str, language: Language) -> Value {
    json!([markdown(text), stop_button(question, language)])
}

/// The offer to stop an answer, as a message of its own.
pub(super) fn stop_offer(question: &str, language: Language) -> Value {
    let hint = phrase(language, Phrase::StopHint);
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
            "text": {"type": "plain_text", "text": phrase(language, Phrase::Stop)},
            "style": "danger",
            "value": question,
        }],
    })
}

/// What is written behind a message, so that it is found again.
pub(super) fn metadata(key: &str) -> Value {
    json!({"event_type": KEY_TYPE, "event_payload": {"key": key}})
}
