//! Anthropic Messages API.

use super::*;
use serde_json::json;

fn message_start() -> Value {
    json!({"type": "message_start", "message": {"id": "msg_1", "type": "message", "role": "assistant",
        "content": [], "model": "tiny-1", "stop_reason": null, "stop_sequence": null,
        "usage": {"input_tokens": 20, "cache_read_input_tokens": 5, "output_tokens": 1}}})
}

fn block_start(index: u64, block: &Value) -> Value {
    json!({"type": "content_block_start", "index": index, "content_block": block})
}

fn text_delta(index: u64, text: &str) -> Value {
    json!({"type": "content_block_delta", "index": index,
        "delta": {"type": "text_delta", "text": text}})
}

fn arguments_delta(index: u64, piece: &str) -> Value {
    json!({"type": "content_block_delta", "index": index,
        "delta": {"type": "input_json_delta", "partial_json": piece}})
}

fn end_message(response: ScriptedResponse, reason: &str) -> ScriptedResponse {
    response
        .named_event(&json!({"type": "message_delta",
        "delta": {"stop_reason": reason, "stop_sequence": null}, "usage": {"output_tokens": 9}}))
        .named_event(&json!({"type": "message_stop"}))
}

fn text_response(texts: &[&str]) -> ScriptedResponse {
    let response = ScriptedResponse::events()
        .named_event(&message_start())
        .named_event(&block_start(0, &json!({"type": "text", "text": ""})))
        .named_event(&json!({"type": "ping"}));
    let response = texts.iter().fold(response, |response, delta| {
        response.named_event(&text_delta(0, delta))
    });
    end_message(
        response.named_event(&json!({"type": "content_block_stop", "index": 0})),
        "end_turn",
    )
}

#[tokio::test]
async fn answer_is_streamed_with_token_usage() {
    let mock = MockProvider::new(vec![text_response(&["Hel", "lo, wörld"]).split(5)]).await;
    let mut options = anthropic_options(&mock);
    options.temperature = Some(0.2);
    let result = ask(options, "Say hello.").await;
    assert_eq!(result.text(), "Hello, wörld");
    assert_eq!(
        result.metadata("usage"),
        json!({"input_tokens": 25, "output_tokens": 9, "total_tokens": 34, "model": "tiny-1",
            "provider": "anthropic", "stop_reason": "end"})
    );
    let requests = mock.requests();
    assert_eq!(requests[0].request_line, "POST /v1/messages HTTP/1.1");
    assert_eq!(requests[0].headers["x-api-key"], KEY);
    assert_eq!(requests[0].headers["anthropic-version"], "2023-06-01");
    assert!(!requests[0].headers.contains_key("authorization"));
    let mut body = mock.body();
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
async fn base_url_may_include_the_api_version() {
    let mock = MockProvider::new(vec![text_response(&["Hi."])]).await;
    let options = options(LlmProvider::Anthropic {
        base_url: mock.url("/v1/"),
        key: None,
    });
    ask(options, "Hi").await.text();
    assert_eq!(
        mock.requests()[0].request_line,
        "POST /v1/messages HTTP/1.1"
    );
}

#[tokio::test]
async fn tool_call_is_executed_and_its_result_sent() {
    let response = ScriptedResponse::events()
        .named_event(&message_start())
        .named_event(&block_start(0, &json!({"type": "text", "text": ""})))
        .named_event(&text_delta(0, "I make it."))
        .named_event(&block_start(
            1,
            &json!({"type": "tool_use", "id": "toolu_1", "name": "create_file", "input": {}}),
        ))
        .named_event(&arguments_delta(1, ""))
        .named_event(&arguments_delta(
            1,
            "{\"file_name\": \"a.csv\", \"format\": \"csv\",",
        ))
        .named_event(&arguments_delta(1, " \"content\": \"x,y\\n1,2\\n\"}"));
    let mock = MockProvider::new(vec![
        end_message(response, "tool_use"),
        text_response(&["Done."]),
    ])
    .await;
    let result = ask(anthropic_options(&mock), "Make a table.").await;
    assert_eq!(result.text(), "I make it.\n\nDone.");
    assert_eq!(result.metadata("usage")["total_tokens"], 68);
    let artifacts = result.output.artifacts.lock().unwrap();
    assert_eq!(artifacts[0].parts()[0].filename(), Some("a.csv"));
    let messages = mock.requests()[1].body["messages"].clone();
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
async fn overload_before_first_token_is_retried() {
    let overloaded = ScriptedResponse::events().named_event(&message_start()).named_event(
        &json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    );
    let mock = MockProvider::new(vec![overloaded, text_response(&["Hi."])]).await;
    assert_eq!(ask(anthropic_options(&mock), "Hi").await.text(), "Hi.");
    assert_eq!(mock.requests().len(), 2);
}

#[tokio::test]
async fn overload_after_first_token_is_not_retried() {
    let overloaded = ScriptedResponse::events().named_event(&message_start()).named_event(&text_delta(0, "Well,")).named_event(
        &json!({"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}),
    );
    let mock = MockProvider::new(vec![overloaded, text_response(&["Hi."])]).await;
    let result = ask(anthropic_options(&mock), "Hi").await;
    assert_eq!(result.error_code(), "bedrock_throttling");
    assert_eq!(result.streamed(), "Well,");
    assert_eq!(mock.requests().len(), 1);
}

#[tokio::test]
async fn stream_without_final_event_is_an_error() {
    let response = ScriptedResponse::events()
        .named_event(&message_start())
        .named_event(&text_delta(0, "Half an"));
    let mock = MockProvider::new(vec![response, text_response(&["Hi."])]).await;
    assert_eq!(
        ask(anthropic_options(&mock), "Hi").await.error_code(),
        "invalid_response"
    );
    assert_eq!(mock.requests().len(), 1);
}

#[tokio::test]
async fn refusal_rejects_the_task() {
    let response = end_message(
        ScriptedResponse::events().named_event(&message_start()),
        "refusal",
    );
    let mock = MockProvider::new(vec![response]).await;
    let result = ask(anthropic_options(&mock), "これを教えて").await;
    let Ok(TurnOutcome::Rejected(Some(message))) = result.outcome else {
        panic!("{:?}", result.outcome)
    };
    assert_eq!(message.text(), "モデルはこの内容への回答を控えました。");
}
