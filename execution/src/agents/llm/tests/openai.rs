//! OpenAI's way of speaking.

use super::*;
use crate::agents::llm::chat::Heard;
use crate::agents::llm::openai::OpenAi;
use crate::agents::llm::wire::Wire;
use serde_json::json;

pub(super) fn delta(text: &str) -> Value {
    json!({"id": "c-1", "object": "chat.completion.chunk", "created": 1, "model": "tiny-1",
        "choices": [{"index": 0, "delta": {"content": text}, "finish_reason": null}], "usage": null})
}

pub(super) fn finish(reason: &str) -> Value {
    json!({"id": "c-1", "object": "chat.completion.chunk",
        "choices": [{"index": 0, "delta": {}, "finish_reason": reason}], "usage": null})
}

pub(super) fn usage(input: u64, output: u64) -> Value {
    json!({"id": "c-1", "choices": [], "usage": {"prompt_tokens": input,
        "completion_tokens": output, "total_tokens": input + output}})
}

/// A piece of a call of a tool.
pub(super) fn call(index: u64, id: Option<&str>, name: Option<&str>, arguments: &str) -> Value {
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

pub(super) fn plain(texts: &[&str]) -> Play {
    let play = Play::events().event(&json!({"choices": [{"index": 0,
        "delta": {"role": "assistant", "content": ""}, "finish_reason": null}]}));
    let play = texts
        .iter()
        .fold(play, |play, text| play.event(&delta(text)));
    play.event(&finish("stop"))
        .event(&usage(11, 5))
        .send("data: [DONE]\n\n")
}

#[tokio::test]
async fn an_answer_streams_and_says_what_it_cost() {
    let stage = Stage::new(vec![plain(&["Hel", "lo, ", "wörld"])]).await;
    let ran = ask(openai_at(&stage), "Say hello.").await;
    assert_eq!(ran.text(), "Hello, wörld");
    assert_eq!(*ran.kept.lines.lock().unwrap(), ["Hel", "lo, ", "wörld"]);
    assert_eq!(
        ran.metadata("usage"),
        json!({"input_tokens": 11, "output_tokens": 5, "total_tokens": 16, "model": "tiny-1",
            "provider": "openai", "stop_reason": "end"})
    );
    let asked = stage.asked();
    assert_eq!(asked[0].line, "POST /v1/chat/completions HTTP/1.1");
    assert_eq!(asked[0].headers["authorization"], format!("Bearer {KEY}"));
    assert_eq!(asked[0].headers["content-type"], "application/json");
    let mut body = stage.body();
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
async fn nothing_depends_on_where_the_bytes_are_cut() {
    for size in [1, 2, 3, 7] {
        let stage = Stage::new(vec![plain(&["日本", "語 \"é\"\n", "\u{1f600}"]).cut(size)]).await;
        let ran = ask(openai_at(&stage), "Say hello.").await;
        assert_eq!(ran.text(), "日本語 \"é\"\n\u{1f600}", "in pieces of {size}");
    }
}

#[test]
fn a_stream_means_the_same_in_whatever_pieces() {
    let options = options(Provider::OpenAi {
        base_url: "http://localhost".parse().unwrap(),
        key: None,
        native_files: false,
        images: true,
    });
    let base = "http://localhost".parse().unwrap();
    let wire = OpenAi::new(&options, &base, None, false, true).unwrap();
    let whole = format!(
        ": keep-alive\r\n\r\ndata: {}\r\n\r\ndata: {}\r\rdata: {}\n\ndata:{}\n\ndata: [DONE]\n\n",
        delta("é日"),
        call(0, Some("a"), Some("create_file"), "{\"x\":"),
        call(0, None, None, "1}"),
        finish("tool_calls"),
    );
    let expected = [
        Heard::Text("é日".to_owned()),
        Heard::Call {
            index: 0,
            id: Some("a".to_owned()),
            name: "create_file".to_owned(),
        },
        Heard::Arguments {
            index: 0,
            piece: "{\"x\":".to_owned(),
        },
        Heard::Arguments {
            index: 0,
            piece: "1}".to_owned(),
        },
        Heard::Alive,
        Heard::Stop(Stop::Tools),
    ];
    for cut in 0..=whole.len() {
        let (one, two) = whole.as_bytes().split_at(cut);
        let mut reader = wire.reader(Quota::of(&options));
        let mut heard = Vec::new();
        reader.push(one, &mut heard).unwrap();
        reader.push(two, &mut heard).unwrap();
        assert_eq!(heard, expected, "cut at {cut}");
        assert!(reader.is_whole() && reader.is_over());
    }
}

#[tokio::test]
async fn a_server_that_never_says_done_is_whole_when_it_has_finished() {
    let play = Play::events().event(&delta("Hi.")).event(&finish("stop"));
    let stage = Stage::new(vec![play]).await;
    assert_eq!(ask(openai_at(&stage), "Hi").await.text(), "Hi.");
}

#[tokio::test]
async fn what_a_server_does_not_take_is_left_out_from_then_on() {
    let no = |text: &str| Play::json(400, &json!({"error": {"message": text, "code": null}}));
    let stage = Stage::new(vec![
        no("Unrecognized request argument supplied: stream_options"),
        no("Use 'max_completion_tokens' instead."),
        no("'temperature' does not support 0.5 with this model."),
        no("tiny-1 does not support tools"),
        plain(&["Hi."]),
        plain(&["Again."]),
    ])
    .await;
    let mut options = openai_at(&stage);
    options.temperature = Some(0.5);
    options.retries = 0;
    let agent = LlmAgent::new(options).unwrap();
    for _ in 0..2 {
        let kept = Arc::new(Kept::default());
        let given = turn("t", Message::user_text("Hi"), Vec::new());
        let outcome = agent.run(given, kept).await.unwrap();
        assert!(matches!(outcome, Outcome::Completed { .. }), "{outcome:?}");
    }
    let asked = stage.asked();
    assert_eq!(asked.len(), 6);
    assert_eq!(asked[0].body["temperature"], 0.5);
    for asked in &asked[4..] {
        let mut members: Vec<&String> = asked.body.as_object().unwrap().keys().collect();
        members.sort();
        assert_eq!(
            members,
            ["max_completion_tokens", "messages", "model", "stream"]
        );
    }
}

#[tokio::test]
async fn thoughts_are_not_passed_on() {
    let thought = json!({"choices": [{"index": 0, "delta": {"reasoning_content": "Hm."}}]});
    let play = Play::events()
        .event(&thought)
        .event(&delta("Yes."))
        .event(&finish("stop"));
    let stage = Stage::new(vec![play]).await;
    assert_eq!(ask(openai_at(&stage), "Is it?").await.text(), "Yes.");
}

#[tokio::test]
async fn an_answer_that_was_cut_off_says_so() {
    let play = Play::events()
        .event(&delta("One, two"))
        .event(&finish("length"));
    let stage = Stage::new(vec![play]).await;
    let ran = ask(openai_at(&stage), "Count.").await;
    assert!(ran.text().starts_with("One, two\n\n("), "{}", ran.text());
    assert_eq!(ran.metadata("usage")["stop_reason"], "max_tokens");
}

#[tokio::test]
async fn a_refusal_is_a_rejection() {
    let refusal = json!({"choices": [{"index": 0, "delta": {"refusal": "I will not."}}]});
    for (play, words) in [
        (
            Play::events().event(&refusal).event(&finish("stop")),
            "I will not.",
        ),
        (
            Play::events().event(&finish("content_filter")),
            "The model declined to answer this.",
        ),
        (
            Play::json(
                400,
                &json!({"error": {"code": "content_filter", "message": "flagged"}}),
            ),
            "The model declined to answer this.",
        ),
    ] {
        let stage = Stage::new(vec![play]).await;
        let ran = ask(openai_at(&stage), "Do it.").await;
        let Ok(Outcome::Rejected(Some(message))) = ran.outcome else {
            panic!("{:?}", ran.outcome)
        };
        assert_eq!(message.text(), words);
    }
}
