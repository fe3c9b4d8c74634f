//! Providers that reject requests, fail, disconnect or send invalid data.

use super::openai::{finish_chunk, text_delta, text_response};
use super::*;
use serde_json::json;

fn error_response(status: u16, headers: &[(&str, &str)]) -> ScriptedResponse {
    let mut all = vec![("content-type", "application/json")];
    all.extend_from_slice(headers);
    let body = json!({"error": {"type": "x", "message": format!("No: {KEY} at tiny-1")}});
    ScriptedResponse::status(status, &all, body.to_string())
}

#[tokio::test]
async fn retry_waits_as_long_as_the_provider_requests() {
    let mock = MockProvider::new(vec![
        error_response(429, &[("retry-after-ms", "40"), ("retry-after", "3600")]),
        error_response(503, &[("retry-after", "0.04")]),
        error_response(529, &[("retry-after-ms", "40")]),
        text_response(&["Hi."]),
    ])
    .await;
    let started_at = std::time::Instant::now();
    assert_eq!(ask(openai_options(&mock), "Hi").await.text(), "Hi.");
    assert!(started_at.elapsed() >= Duration::from_millis(120));
    let requests = mock.requests();
    assert_eq!(requests.len(), 4);
    assert!(requests.iter().all(|retry| retry.body == requests[0].body));
}

#[tokio::test]
async fn http_errors_map_to_error_codes() {
    let soon: &[(&str, &str)] = &[("retry-after-ms", "1")];
    for (status, tries, code) in [
        (429, 4, "bedrock_throttling"),
        (529, 4, "bedrock_throttling"),
        (503, 4, "bedrock_throttling"),
        (500, 4, "invalid_response"),
        (502, 4, "invalid_response"),
        (504, 4, "bedrock_timeout"),
        (401, 1, "bedrock_access_denied"),
        (403, 1, "bedrock_access_denied"),
        (404, 1, "bedrock_access_denied"),
        (400, 1, "invalid_response"),
        (413, 1, "invalid_response"),
        (302, 1, "invalid_response"),
    ] {
        let script = (0..5).map(|_| error_response(status, soon).header("location", "/v2"));
        let mock = MockProvider::new(script.collect()).await;
        let result = ask(openai_options(&mock), "Hi").await;
        assert_eq!(result.error_code(), code, "{status}");
        assert_eq!(mock.requests().len(), tries, "{status}");
        assert_eq!(result.streamed(), "");
    }
}

#[tokio::test]
async fn excessive_retry_delay_is_not_awaited() {
    let mock = MockProvider::new(vec![
        error_response(429, &[("retry-after", "3600")]),
        text_response(&["Hi."]),
    ])
    .await;
    assert_eq!(
        ask(openai_options(&mock), "Hi").await.error_code(),
        "bedrock_throttling"
    );
    assert_eq!(mock.requests().len(), 1);
}

#[tokio::test]
async fn error_body_overrides_the_status() {
    for (status, code, text, error_code, sentence) in [
        (
            429,
            "insufficient_quota",
            "You exceeded your quota",
            "bedrock_access_denied",
            "permission",
        ),
        (
            400,
            "context_length_exceeded",
            "",
            "invalid_response",
            "too long",
        ),
        (
            400,
            "invalid_request_error",
            "prompt is too long: 210000 tokens > 200000 maximum",
            "invalid_response",
            "too long",
        ),
        (
            500,
            "",
            "the request exceeds the available context size",
            "invalid_response",
            "too long",
        ),
        (
            400,
            "model_not_found",
            "",
            "bedrock_access_denied",
            "permission",
        ),
    ] {
        let body = json!({"error": {"message": text, "code": code}});
        let mock = MockProvider::new(vec![ScriptedResponse::json(status, &body)]).await;
        let (found, user_message) = ask(openai_options(&mock), "Hi").await.failure();
        assert_eq!(found, error_code, "{code} {text}");
        assert!(user_message.contains(sentence), "{user_message}");
    }
}

#[tokio::test]
async fn invalid_responses_are_rejected() {
    let html = ("content-type", "text/html");
    let stream = ("content-type", "text/event-stream");
    let json = ("content-type", "application/json");
    for (what, response) in [
        (
            "a page",
            ScriptedResponse::status(200, &[html], "<html>Sign in</html>"),
        ),
        (
            "a page as a stream",
            ScriptedResponse::status(200, &[stream], "<html>\n\n</html>\n\n"),
        ),
        (
            "no stream",
            ScriptedResponse::status(200, &[json], finish_chunk("stop").to_string()),
        ),
        (
            "no type",
            ScriptedResponse::status(200, &[], "data: [DONE]\n\n"),
        ),
        (
            "rubbish",
            ScriptedResponse::events().send("data: {\"choices\": [rubbish\n\n"),
        ),
        (
            "other JSON",
            ScriptedResponse::events().send("data: [1, 2]\n\n"),
        ),
        (
            "wrong types",
            ScriptedResponse::events().send("data: {\"choices\": 7}\n\n"),
        ),
        (
            "bytes",
            ScriptedResponse::events().send(b"data: \"\xff\xfe\"\n\n"),
        ),
        (
            "an error",
            ScriptedResponse::events().event(&json!({"error": {"message": "x", "code": 400}})),
        ),
        (
            "half an answer",
            ScriptedResponse::events().event(&text_delta("Half an ans")),
        ),
        (
            "half an event",
            ScriptedResponse::events()
                .event(&text_delta("Half"))
                .send("data: {\"choi"),
        ),
        (
            "nothing said",
            ScriptedResponse::events()
                .event(&finish_chunk("stop"))
                .send("data: [DONE]\n\n"),
        ),
        (
            "only blanks",
            ScriptedResponse::events()
                .event(&text_delta(" \n "))
                .event(&finish_chunk("stop")),
        ),
    ] {
        let mock = MockProvider::new(vec![response]).await;
        let mut options = openai_options(&mock);
        options.retries = 0;
        let result = ask(options, "Hi").await;
        assert_eq!(result.error_code(), "invalid_response", "{what}");
        assert_eq!(mock.requests().len(), 1, "{what}");
    }
}

#[tokio::test]
async fn empty_stream_is_retried() {
    let mock = MockProvider::new(vec![ScriptedResponse::events(), text_response(&["Hi."])]).await;
    assert_eq!(ask(openai_options(&mock), "Hi").await.text(), "Hi.");
}

#[tokio::test]
async fn connection_refused_is_access_denied() {
    let mock = MockProvider::new(Vec::new()).await;
    let mut options = openai_options(&mock);
    options.retries = 1;
    // The script is empty, so the listener is closed.
    mock.wait_until_closed().await;
    assert_eq!(
        ask(options, "Hi").await.error_code(),
        "bedrock_access_denied"
    );
}

#[tokio::test]
async fn answer_size_is_limited() {
    let long = "x".repeat(600);
    let response = ScriptedResponse::events()
        .event(&text_delta(&long))
        .event(&text_delta(&long))
        .hang();
    let mock = MockProvider::new(vec![response]).await;
    let mut options = openai_options(&mock);
    options.text_bytes = 1_000;
    let result = ask(options, "Hi").await;
    let (code, sentence) = result.failure();
    assert_eq!(code, "invalid_response");
    assert!(sentence.contains("longer"), "{sentence}");
    assert_eq!(result.streamed(), long);
    mock.wait_for_disconnect().await;
}

#[tokio::test]
async fn event_size_is_limited() {
    let line = vec![b'x'; 64 * 1024];
    let response = (0..40).fold(ScriptedResponse::events().send("data: "), |response, _| {
        response.send(&line)
    });
    let mock = MockProvider::new(vec![response.hang()]).await;
    let mut options = openai_options(&mock);
    options.files = Arc::new(FileRules {
        max_bytes: 1024,
        ..FileRules::default()
    });
    assert_eq!(ask(options, "Hi").await.error_code(), "invalid_response");
}

#[tokio::test]
async fn blank_message_is_not_sent() {
    let mock = MockProvider::new(Vec::new()).await;
    assert_eq!(
        ask(openai_options(&mock), " \n ").await.error_code(),
        "missing_text"
    );
}

#[tokio::test]
async fn error_text_is_in_the_users_language() {
    let mock = MockProvider::new(vec![error_response(401, &[])]).await;
    let (_, user_message) = ask(openai_options(&mock), "こんにちは").await.failure();
    assert!(user_message.contains("管理者"), "{user_message}");
}
