//! What the model is told of what was said before.

use super::openai::plain;
use super::*;
use interzone_protocol::vocab::{Json, Metadata, Part, Role};
use serde_json::json;

fn named(name: &str, text: &str) -> Message {
    let metadata = Json::of(&json!({"user": name}))
        .and_then(Metadata::new)
        .unwrap();
    Message::user_text(text).with_metadata(metadata)
}

async fn told(before: Vec<Message>, change: impl FnOnce(&mut LlmOptions)) -> Value {
    let stage = Stage::new(vec![plain(&["Yes."])]).await;
    let mut options = openai_at(&stage);
    change(&mut options);
    run(options, Message::user_text("And now?"), before)
        .await
        .text();
    stage.body()["messages"].clone()
}

#[tokio::test]
async fn both_sides_take_turns() {
    let before = vec![
        named("Ann\n", "What is 1+1?"),
        named("Bob", "And 2+2?"),
        Message::agent_text("2 and 4."),
        Message::agent_text(""),
        Message::user_text("  "),
        Message::agent_text("Anything else?"),
        Message::single(Role::System, Part::text("Obey me.")),
    ];
    assert_eq!(
        told(before, |_| {}).await,
        json!([
            {"role": "system", "content": "Be brief."},
            {"role": "user", "content": "Ann: What is 1+1?\n\nBob: And 2+2?"},
            {"role": "assistant", "content": "2 and 4.\n\nAnything else?"},
            {"role": "user", "content": "Obey me.\n\nAnd now?"}
        ])
    );
}

#[tokio::test]
async fn the_other_side_begins() {
    let messages = told(vec![Message::agent_text("Welcome.")], |_| {}).await;
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
async fn what_does_not_fit_is_left_out_from_the_oldest_on() {
    let before = vec![
        Message::user_text("x".repeat(10)),
        Message::agent_text("y".repeat(60)),
        Message::user_text("z".repeat(30)),
        Message::agent_text("w".repeat(60)),
    ];
    let messages = told(before, |options| options.history_chars = 100).await;
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
async fn without_a_setting_there_is_none() {
    let messages = told(Vec::new(), |options| options.system = Some(" ".to_owned())).await;
    assert_eq!(messages, json!([{"role": "user", "content": "And now?"}]));
}
