//! Providers that refuse, fail, break off or talk nonsense.

use super::openai::{delta, finish, plain};
use super::*;
use serde_json::json;

fn refused(status: u16, headers: &[(&str, &str)]) -> Play {
    let mut all = vec![("content-type", "application/json")];
    all.extend_from_slice(headers);
    let body = json!({"error": {"type": "x", "message": format!("No: {KEY} at tiny-1")}});
    Play::status(status, &all, body.to_string())
}

#[tokio::test]
async fn what_passes_is_waited_for_as_long_as_the_provider_says() {
    let stage = Stage::new(vec![
        refused(429, &[("retry-after-ms", "40"), ("retry-after", "3600")]),
        refused(503, &[("retry-after", "0.04")]),
        refused(529, &[("retry-after-ms", "40")]),
        plain(&["Hi."]),
    ])
    .await;
    let begun = std::time::Instant::now();
    assert_eq!(ask(openai_at(&stage), "Hi").await.text(), "Hi.");
    assert!(begun.elapsed() >= Duration::from_millis(120));
    let asked = stage.asked();
    assert_eq!(asked.len(), 4);
    assert!(asked.iter().all(|again| again.body == asked[0].body));
}

#[tokio::test]
async fn what_does_not_pass_has_a_word_of_its_own() {
    let soon: &[(&str, &str)] = &[("retry-after-ms", "1")];
    for (status, tries, word) in [
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
        let script = (0..5).map(|_| refused(status, soon).header("location", "/v2"));
        let stage = Stage::new(script.collect()).await;
        let ran = ask(openai_at(&stage), "Hi").await;
        assert_eq!(ran.word(), word, "{status}");
        assert_eq!(stage.asked().len(), tries, "{status}");
        assert_eq!(ran.streamed(), "");
    }
}

#[tokio::test]
async fn a_wait_that_nobody_would_wait_is_not_begun() {
    let stage = Stage::new(vec![
        refused(429, &[("retry-after", "3600")]),
        plain(&["Hi."]),
    ])
    .await;
    assert_eq!(
        ask(openai_at(&stage), "Hi").await.word(),
        "bedrock_throttling"
    );
    assert_eq!(stage.asked().len(), 1);
}

#[tokio::test]
async fn some_errors_say_more_than_their_status() {
    for (status, code, text, word, sentence) in [
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
        let stage = Stage::new(vec![Play::json(status, &body)]).await;
        let (found, said) = ask(openai_at(&stage), "Hi").await.failure();
        assert_eq!(found, word, "{code} {text}");
        assert!(said.contains(sentence), "{said}");
    }
}

#[tokio::test]
async fn what_is_no_answer_is_refused() {
    let html = ("content-type", "text/html");
    let stream = ("content-type", "text/event-stream");
    let json = ("content-type", "application/json");
    for (what, play) in [
        ("a page", Play::status(200, &[html], "<html>Sign in</html>")),
        (
            "a page as a stream",
            Play::status(200, &[stream], "<html>\n\n</html>\n\n"),
        ),
        (
            "no stream",
            Play::status(200, &[json], finish("stop").to_string()),
        ),
        ("no type", Play::status(200, &[], "data: [DONE]\n\n")),
        (
            "rubbish",
            Play::events().send("data: {\"choices\": [rubbish\n\n"),
        ),
        ("other JSON", Play::events().send("data: [1, 2]\n\n")),
        (
            "wrong types",
            Play::events().send("data: {\"choices\": 7}\n\n"),
        ),
        ("bytes", Play::events().send(b"data: \"\xff\xfe\"\n\n")),
        (
            "an error",
            Play::events().event(&json!({"error": {"message": "x", "code": 400}})),
        ),
        (
            "half an answer",
            Play::events().event(&delta("Half an ans")),
        ),
        (
            "half an event",
            Play::events().event(&delta("Half")).send("data: {\"choi"),
        ),
        (
            "nothing said",
            Play::events()
                .event(&finish("stop"))
                .send("data: [DONE]\n\n"),
        ),
        (
            "only blanks",
            Play::events().event(&delta(" \n ")).event(&finish("stop")),
        ),
    ] {
        let stage = Stage::new(vec![play]).await;
        let mut options = openai_at(&stage);
        options.retries = 0;
        let ran = ask(options, "Hi").await;
        assert_eq!(ran.word(), "invalid_response", "{what}");
        assert_eq!(stage.asked().len(), 1, "{what}");
    }
}

#[tokio::test]
async fn a_stream_that_says_nothing_and_ends_is_asked_again() {
    let stage = Stage::new(vec![Play::events(), plain(&["Hi."])]).await;
    assert_eq!(ask(openai_at(&stage), "Hi").await.text(), "Hi.");
}

#[tokio::test]
async fn nobody_there_is_a_missing_connection() {
    let stage = Stage::new(Vec::new()).await;
    let mut options = openai_at(&stage);
    options.retries = 1;
    // The script is over, so whoever listened is gone.
    stage.gone().await;
    assert_eq!(ask(options, "Hi").await.word(), "bedrock_access_denied");
}

#[tokio::test]
async fn an_answer_has_an_end() {
    let long = "x".repeat(600);
    let play = Play::events()
        .event(&delta(&long))
        .event(&delta(&long))
        .hang();
    let stage = Stage::new(vec![play]).await;
    let mut options = openai_at(&stage);
    options.text_bytes = 1_000;
    let ran = ask(options, "Hi").await;
    let (word, sentence) = ran.failure();
    assert_eq!(word, "invalid_response");
    assert!(sentence.contains("longer"), "{sentence}");
    assert_eq!(ran.streamed(), long);
    stage.left().await;
}

#[tokio::test]
async fn an_event_has_an_end() {
    let line = vec![b'x'; 64 * 1024];
    let play = (0..40).fold(Play::events().send("data: "), |play, _| play.send(&line));
    let stage = Stage::new(vec![play.hang()]).await;
    let mut options = openai_at(&stage);
    options.files = Arc::new(FileRules {
        max_bytes: 1024,
        ..FileRules::default()
    });
    assert_eq!(ask(options, "Hi").await.word(), "invalid_response");
}

#[tokio::test]
async fn nothing_asked_is_nothing_sent() {
    let stage = Stage::new(Vec::new()).await;
    assert_eq!(ask(openai_at(&stage), " \n ").await.word(), "missing_text");
}

#[tokio::test]
async fn users_are_told_in_their_language() {
    let stage = Stage::new(vec![refused(401, &[])]).await;
    let (_, said) = ask(openai_at(&stage), "こんにちは").await.failure();
    assert!(said.contains("管理者"), "{said}");
}
