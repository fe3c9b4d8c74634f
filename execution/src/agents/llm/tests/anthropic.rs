//! Anthropic's way of speaking.

use super::*;
use serde_json::json;

fn start() -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant",
        "content": [], "model": "tiny-1", "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": 20, "cache_read_input_tokens": 5, "output_tokens": 1}}})
}

fn begin(index: u64, block: &Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn text(index: u64, text: &str) -> Value {
    json!({"type": "content_block_delta", "index": index,
        "delta": {"type": "text_delta", "text": text}})
}

fn arguments(index: u64, piece: &str) -> Value {
    json!({"type": "content_block_delta", "index": index,
        "delta": {"type": "input_json_delta", "partial_json": piece}})
}

fn end(play: Play, reason: &str) -> Play {
    play.named(&json!({"type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": {"output_tokens": 9}}))
        .named(&json!({"type": "message_stop"}))
}

fn plain(texts: &[&str]) -> Play {
    let play = Play::events()
        .named(&start())
        .named(&begin(0, &json!({"type": "text", "text": ""})))
        .named(&json!({"type": "ping"}));
    let play = texts
        .iter()
        .fold(play, |play, delta| play.named(&text(0, delta)));
    end(
        play.named(&json!({"type": "content_block_stop", "index": 0})),
        "end_turn",
    )
}

#[tokio::test]
async fn an_answer_streams_and_says_what_it_cost() {
    let stage = Stage::new(vec![plain(&["Hel", "lo, wörld"]).cut(5)]).await;
    let mut options = anthropic_at(&stage);
    options.temperature = Some(0.2);
    let ran = ask(options, "Say hello.").await;
    assert_eq!(ran.text(), "Hello, wörld");
    assert_eq!(
        ran.metadata("usage"),
        json!({"input_tokens": 25, "output_tokens": 9, "total_tokens": 34, "model": "tiny-1",
            "provider": "anthropic", "stop_reason": "end"})
    );
    let asked = stage.asked();
    assert_eq!(asked[0].line, "POST /v1/messages HTTP/1.1");
    assert_eq!(asked[0].headers["x-api-key"], KEY);
    assert_eq!(asked[0].headers["anthropic-version"], "2023-06-01");
    assert!(!asked[0].headers.contains_key("authorization"));
    let mut body = stage.body();
    let tool = body["tools"].take();
    assert_eq!(tool[0]["name"], "create_file");
    assert_eq!(tool[0]["input_schema"]["type"], "object");
    assert_eq!(
        body,
        json!({"model": "tiny-1", "stream": true, "max_tokens": 256, "temperature": 0.2,
            "system": "Be brief.", "tools": null,
            "messages": [{"role": "user", "content": [{"type": "text", "text": "Say hello."}]}]})
    );
}

#[tokio::test]
async fn both_ways_to_write_the_address_are_one() {
    let stage = Stage::new(vec![plain(&["Hi."])]).await;
    let options = options(Provider::Anthropic {
        base_url: stage.url("/v1/"),
        key: None,
    });
    ask(options, "Hi").await.text();
    assert_eq!(stage.asked()[0].line, "POST /v1/messages HTTP/1.1");
}

#[tokio::test]
async fn a_tool_is_called_and_told_of() {
    let play = Play::events()
        .named(&start())
        .named(&begin(0, &json!({"type": "text", "text": ""})))
        .named(&text(0, "I make it."))
        .named(&begin(
            1,
            &json!({"type": "tool_use", "id": "toolu_1", "name": "create_file", "input": {}}),
        ))
        .named(&arguments(1, ""))
        .named(&arguments(
            1,
            "{\"file_name\": \"a.csv\", \"format\": \"csv\",",
        ))
        .named(&arguments(1, " \"content\": \"x,y\\n1,2\\n\"}"));
    let stage = Stage::new(vec![end(play, "tool_use"), plain(&["Done."])]).await;
    let ran = ask(anthropic_at(&stage), "Make a table.").await;
    assert_eq!(ran.text(), "I make it.\n\nDone.");
    assert_eq!(ran.metadata("usage")["total_tokens"], 68);
    let artifacts = ran.kept.artifacts.lock().unwrap();
    assert_eq!(artifacts[0].parts()[0].filename(), Some("a.csv"));
    let messages = stage.asked()[1].body["messages"].clone();
    assert_eq!(
        messages[1],
        json!({"role": "assistant", "content": [
            {"type": "text", "text": "I make it."},
            {"type": "tool_use", "id": "toolu_1", "name": "create_file",
                "input": {"file_name": "a.csv", "format": "csv", "content": "x,y\n1,2\n"}}]})
    );
    let result = &messages[2]["content"][0];
    assert_eq!(messages[2]["role"], "user");
    assert_eq!(result["type"], "tool_result");
    assert_eq!(result["tool_use_id"], "toolu_1");
    assert_eq!(result["is_error"], false);
    assert!(result["content"].as_str().unwrap().contains("a.csv"));
}

#[tokio::test]
async fn an_overload_before_the_first_word_is_tried_again() {
    let busy = Play::events().named(&start()).named(
        &json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    );
    let stage = Stage::new(vec![busy, plain(&["Hi."])]).await;
    assert_eq!(ask(anthropic_at(&stage), "Hi").await.text(), "Hi.");
    assert_eq!(stage.asked().len(), 2);
}

#[tokio::test]
async fn an_overload_after_the_first_word_is_not() {
    let busy = Play::events().named(&start()).named(&text(0, "Well,")).named(
        &json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    );
    let stage = Stage::new(vec![busy, plain(&["Hi."])]).await;
    let ran = ask(anthropic_at(&stage), "Hi").await;
    assert_eq!(ran.word(), "bedrock_throttling");
    assert_eq!(ran.streamed(), "Well,");
    assert_eq!(stage.asked().len(), 1);
}

#[tokio::test]
async fn a_stream_without_its_last_event_is_half_a_stream() {
    let play = Play::events().named(&start()).named(&text(0, "Half an"));
    let stage = Stage::new(vec![play, plain(&["Hi."])]).await;
    assert_eq!(
        ask(anthropic_at(&stage), "Hi").await.word(),
        "invalid_response"
    );
    assert_eq!(stage.asked().len(), 1);
}

#[tokio::test]
async fn a_refusal_is_a_rejection() {
    let play = end(Play::events().named(&start()), "refusal");
    let stage = Stage::new(vec![play]).await;
    let ran = ask(anthropic_at(&stage), "これを教えて").await;
    let Ok(Outcome::Rejected(Some(message))) = ran.outcome else {
        panic!("{:?}", ran.outcome)
    };
    assert_eq!(message.text(), "モデルはこの内容への回答を控えました。");
}
