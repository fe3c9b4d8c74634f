//! OpenAI chat completions API.

use super::*;
use crate::agents::llm::chat::ModelEvent;
use crate::agents::llm::openai::OpenAiProvider;
use crate::agents::llm::provider::ModelProvider;
use serde_json::json;

pub(super) fn text_delta(text: &str) -> Value {
    json!({"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "tiny-1",
        "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}], "usage": null})
}

pub(super) fn finish_chunk(reason: &str) -> Value {
    json!({"id": "c-1", "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": null})
}

pub(super) fn usage_chunk(input: u64, output: u64) -> Value {
    json!({"id": "c-1", "choices": [], "usage": {"prompt_tokens": input,
        "completion_tokens": output, "total_tokens": input + output}})
}

/// A chunk of a tool call.
pub(super) fn tool_call_chunk(
    index: u64,
    id: Option<&str>,
    name: Option<&str>,
    arguments: &str,
) -> Value {
    let mut call = json!({"index": index, "function": {"arguments": arguments}});
    if let Some(id) = id {
        call["id"] = json!(id);
        call["type"] = json!("function");
    }
    if let Some(name) = name {
        call["function"]["name"] = json!(name);
    }
    json!({"choices": [{"index": 0, "delta": {"tool_calls": [call]}, "finish_reason": null}]})
}

pub(super) fn text_response(texts: &[&str]) -> ScriptedResponse {
    let response = ScriptedResponse::events().event(&json!({"choices": [{"index": 0,
        "delta": {"role": "assistant", "content": ""}, "finish_reason": null}]}));
    let response = texts
        .iter()
        .fold(response, |response, text| response.event(&text_delta(text)));
    response
        .event(&finish_chunk("stop"))
        .event(&usage_chunk(11, 5))
        .send("data: [DONE]\n\n")
}

#[tokio::test]
async fn answer_is_streamed_with_token_usage() {
    let mock = MockProvider::new(vec![text_response(&["Hel", "lo, ", "wörld"])]).await;
    let result = ask(openai_options(&mock), "Say hello.").await;
    assert_eq!(result.text(), "Hello, wörld");
    assert_eq!(
        *result.output.lines.lock().unwrap(),
        ["Hel", "lo, ", "wörld"]
    );
    assert_eq!(
        result.metadata("usage"),
        json!({"input_tokens": 11, "output_tokens": 5, "total_tokens": 16, "model": "tiny-1",
            "provider": "openai", "stop_reason": "end"})
    );
    let requests = mock.requests();
    assert_eq!(
        requests[0].request_line,
        "POST /v1/chat/completions HTTP/1.1"
    );
    assert_eq!(
        requests[0].headers["authorization"],
        format!("Bearer {KEY}")
    );
    assert_eq!(requests[0].headers["content-type"], "application/json");
    let mut body = mock.body();
    let tool = body["tools"].take();
    assert_eq!(tool[0]["type"], "function");
    assert_eq!(tool[0]["function"]["name"], "create_file");
    assert_eq!(
        tool[0]["function"]["parameters"]["properties"]["format"]["enum"],
        json!(["csv", "json", "txt", "md", "xlsx"])
    );
    assert_eq!(
        body,
        json!({"model": "tiny-1", "stream": true, "stream_options": {"include_usage": true},
            "max_tokens": 256, "tools": null,
            "messages": [{"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Say hello."}]})
    );
}

#[tokio::test]
async fn answer_does_not_depend_on_how_the_stream_is_split() {
    for size in [1, 2, 3, 7] {
        let mock = MockProvider::new(vec![
            text_response(&["日本", "語 \"é\"\n", "\u{1f600}"]).split(size),
        ])
        .await;
        let result = ask(openai_options(&mock), "Say hello.").await;
        assert_eq!(
            result.text(),
            "日本語 \"é\"\n\u{1f600}",
            "in pieces of {size}"
        );
    }
}

#[test]
fn events_do_not_depend_on_how_the_stream_is_split() {
    let options = options(LlmProvider::OpenAi {
        base_url: "http://localhost".parse().unwrap(),
        key: None,
        native_files: false,
        images: true,
    });
    let base = "http://localhost".parse().unwrap();
    let provider = OpenAiProvider::new(&options, &base, None, false, true).unwrap();
    let input = format!(
        ": keep-alive\r\n\r\ndata: {}\r\n\r\ndata: {}\r\rdata: {}\n\ndata:{}\n\ndata: [DONE]\n\n",
        text_delta("é日"),
        tool_call_chunk(0, Some("a"), Some("create_file"), "{\"x\":"),
        tool_call_chunk(0, None, None, "1}"),
        finish_chunk("tool_calls"),
    );
    let expected = [
        ModelEvent::Text("é日".to_owned()),
        ModelEvent::ToolCall {
            index: 0,
            id: Some("a".to_owned()),
            name: "create_file".to_owned(),
        },
        ModelEvent::Arguments {
            index: 0,
            piece: "{\"x\":".to_owned(),
        },
        ModelEvent::Arguments {
            index: 0,
            piece: "1}".to_owned(),
        },
        ModelEvent::Progress,
        ModelEvent::Stop(StopReason::Tools),
    ];
    for cut in 0..=input.len() {
        let (one, two) = input.as_bytes().split_at(cut);
        let mut decoder = provider.decoder(AnswerLimits::from_options(&options));
        let mut events = Vec::new();
        decoder.push(one, &mut events).unwrap();
        decoder.push(two, &mut events).unwrap();
        assert_eq!(events, expected, "cut at {cut}");
        assert!(decoder.is_complete() && decoder.is_over());
    }
}

#[tokio::test]
async fn stream_without_done_marker_is_complete() {
    let response = ScriptedResponse::events()
        .event(&text_delta("Hi."))
        .event(&finish_chunk("stop"));
    let mock = MockProvider::new(vec![response]).await;
    assert_eq!(ask(openai_options(&mock), "Hi").await.text(), "Hi.");
}

#[tokio::test]
async fn rejected_fields_are_omitted_from_then_on() {
    let rejection = |text: &str| {
        ScriptedResponse::json(400, &json!({"error": {"message": text, "code": null}}))
    };
    let mock = MockProvider::new(vec![
        rejection("Unrecognized request argument supplied: stream_options"),
        rejection("Use 'max_completion_tokens' instead."),
        rejection("'temperature' does not support 0.5 with this model."),
        rejection("tiny-1 does not support tools"),
        text_response(&["Hi."]),
        text_response(&["Again."]),
    ])
    .await;
    let mut options = openai_options(&mock);
    options.temperature = Some(0.5);
    options.retries = 0;
    let agent = LlmAgent::new(options).unwrap();
    for _ in 0..2 {
        let output = Arc::new(RecordedOutput::default());
        let given = turn("t", Message::user_text("Hi"), Vec::new());
        let outcome = agent.run(given, output).await.unwrap();
        assert!(
            matches!(outcome, TurnOutcome::Completed { .. }),
            "{outcome:?}"
        );
    }
    let requests = mock.requests();
    assert_eq!(requests.len(), 6);
    assert_eq!(requests[0].body["temperature"], 0.5);
    for request in &requests[4..] {
        let mut fields: Vec<&String> = request.body.as_object().unwrap().keys().collect();
        fields.sort();
        assert_eq!(
            fields,
            ["max_completion_tokens", "messages", "model", "stream"]
        );
    }
}

#[tokio::test]
async fn reasoning_content_is_not_passed_on() {
    let thought = json!({"choices": [{"index": 0, "delta": {"reasoning_content": "Hm."}}]});
    let response = ScriptedResponse::events()
        .event(&thought)
        .event(&text_delta("Yes."))
        .event(&finish_chunk("stop"));
    let mock = MockProvider::new(vec![response]).await;
    assert_eq!(ask(openai_options(&mock), "Is it?").await.text(), "Yes.");
}

#[tokio::test]
async fn truncated_answer_ends_with_a_notice() {
    let response = ScriptedResponse::events()
        .event(&text_delta("One, two"))
        .event(&finish_chunk("length"));
    let mock = MockProvider::new(vec![response]).await;
    let result = ask(openai_options(&mock), "Count.").await;
    assert!(
        result.text().starts_with("One, two\n\n("),
        "{}",
        result.text()
    );
    assert_eq!(result.metadata("usage")["stop_reason"], "max_tokens");
}

#[tokio::test]
async fn refusal_rejects_the_task() {
    let refusal = json!({"choices": [{"index": 0, "delta": {"refusal": "I will not."}}]});
    for (response, text) in [
        (
            ScriptedResponse::events()
                .event(&refusal)
                .event(&finish_chunk("stop")),
            "I will not.",
        ),
        (
            ScriptedResponse::events().event(&finish_chunk("content_filter")),
            "The model declined to answer this.",
        ),
        (
            ScriptedResponse::json(
                400,
                &json!({"error": {"code": "content_filter", "message": "flagged"}}),
            ),
            "The model declined to answer this.",
        ),
    ] {
        let mock = MockProvider::new(vec![response]).await;
        let result = ask(openai_options(&mock), "Do it.").await;
        let Ok(TurnOutcome::Rejected(Some(message))) = result.outcome else {
            panic!("{:?}", result.outcome)
        };
        assert_eq!(message.text(), text);
    }
}
