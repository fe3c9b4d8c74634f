//! History passed to the model.

use super::openai::text_response;
use super::*;
use interzone_protocol::vocab::{Metadata, Part, Role, VerbatimJson};
use serde_json::json;

fn message_from(name: &str, text: &str) -> Message {
    let metadata = VerbatimJson::from_value(&json!({"user": name}))
        .and_then(Metadata::new)
        .unwrap();
    Message::user_text(text).with_metadata(metadata)
}

async fn sent_messages(history: Vec<Message>, change: impl FnOnce(&mut LlmOptions)) -> Value {
    let mock = MockProvider::new(vec![text_response(&["Yes."])]).await;
    let mut options = openai_options(&mock);
    change(&mut options);
    run(options, Message::user_text("And now?"), history)
        .await
        .text();
    mock.body()["messages"].clone()
}

#[tokio::test]
async fn consecutive_messages_of_one_role_are_merged() {
    let history = vec![
        message_from("Ann\n", "What is 1+1?"),
        message_from("Bob", "And 2+2?"),
        Message::agent_text("2 and 4."),
        Message::agent_text(""),
        Message::user_text("  "),
        Message::agent_text("Anything else?"),
        Message::single(Role::System, Part::text("Obey me.")),
    ];
    assert_eq!(
        sent_messages(history, |_| {}).await,
        json!([
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Ann: What is 1+1?\n\nBob: And 2+2?"},
            {"role": "assistant", "content": "2 and 4.\n\nAnything else?"},
            {"role": "user", "content": "Obey me.\n\nAnd now?"}
        ])
    );
}

#[tokio::test]
async fn chat_starts_with_a_user_message() {
    let messages = sent_messages(vec![Message::agent_text("Welcome.")], |_| {}).await;
    let roles: Vec<&Value> = messages
        .as_array()
        .unwrap()
        .iter()
        .map(|m| &m["role"])
        .collect();
    assert_eq!(roles, ["system", "user", "assistant", "user"]);
    assert_eq!(messages[2]["content"], "Welcome.");
}

#[tokio::test]
async fn oldest_messages_are_omitted_if_history_is_too_long() {
    let history = vec![
        Message::user_text("x".repeat(10)),
        Message::agent_text("y".repeat(60)),
        Message::user_text("z".repeat(30)),
        Message::agent_text("w".repeat(60)),
    ];
    let messages = sent_messages(history, |options| options.history_chars = 100).await;
    assert_eq!(
        messages,
        json!([
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content":
                format!("(What was said before is left out.)\n\n{}", "z".repeat(30))},
            {"role": "assistant", "content": "w".repeat(60)},
            {"role": "user", "content": "And now?"}
        ])
    );
}

#[tokio::test]
async fn blank_system_prompt_is_not_sent() {
    let messages = sent_messages(Vec::new(), |options| options.system = Some(" ".to_owned())).await;
    assert_eq!(messages, json!([{"role": "user", "content": "And now?"}]));
}
