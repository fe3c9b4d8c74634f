//! Bedrock's way of speaking.

use super::attachments::{csv, dot, file, pdf, with};
use super::*;
use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message as Frame};
use bytes::Bytes;
use interzone_client::aws::{SignError, Signer};
use serde_json::json;

fn frame(kind: &str, name: (&str, &str), payload: &Value) -> Vec<u8> {
    let text = |text: &str| HeaderValue::String(text.to_owned().into());
    let frame = Frame::new(payload.to_string().into_bytes())
        .add_header(Header::new(":message-type", text(kind)))
        .add_header(Header::new(name.0.to_owned(), text(name.1)))
        .add_header(Header::new(":content-type", text("application/json")));
    let mut bytes = Vec::new();
    write_message_to(&frame, &mut bytes).unwrap();
    bytes
}

fn event(name: &str, payload: &Value) -> Vec<u8> {
    frame("event", (":event-type", name), payload)
}

fn exception(name: &str) -> Vec<u8> {
    frame(
        "exception",
        (":exception-type", name),
        &json!({"message": "No."}),
    )
}

fn text(text: &str) -> Vec<u8> {
    event(
        "contentBlockDelta",
        &json!({"contentBlockIndex": 0, "delta": {"text": text}, "p": "abcd"}),
    )
}

fn end(reason: &str) -> Vec<u8> {
    let stop = event("messageStop", &json!({"stopReason": reason}));
    let usage = json!({"usage": {"inputTokens": 30, "outputTokens": 4, "totalTokens": 34},
        "metrics": {"latencyMs": 1}});
    [stop, event("metadata", &usage)].concat()
}

fn frames() -> Play {
    let kind = [("content-type", "application/vnd.amazon.eventstream")];
    Play::status(
        200,
        &kind,
        event("messageStart", &json!({"role": "assistant"})),
    )
}

fn plain(texts: &[&str]) -> Play {
    let play = texts
        .iter()
        .fold(frames(), |play, one| play.send(text(one)));
    play.send(event("contentBlockStop", &json!({"contentBlockIndex": 0})))
        .send(end("end_turn"))
}

/// Signs like somebody who only knows his own name.
struct Seal;

#[async_trait]
impl Signer for Seal {
    async fn sign(&self, request: &mut http::Request<Bytes>) -> Result<(), SignError> {
        let seal = format!("Seal {} {}", request.uri().path(), request.body().len());
        request
            .headers_mut()
            .insert("authorization", seal.parse().unwrap());
        Ok(())
    }
}

/// Has nothing to sign with.
struct Empty;

#[async_trait]
impl Signer for Empty {
    async fn sign(&self, _request: &mut http::Request<Bytes>) -> Result<(), SignError> {
        let none = std::io::Error::other("no credentials");
        Err(SignError::Credentials(Arc::new(none)))
    }
}

fn bedrock_at(stage: &Stage, credentials: BedrockCredentials) -> LlmOptions {
    let mut options = options(Provider::Bedrock {
        region: "eu-central-1".to_owned(),
        endpoint: Some(stage.url("")),
        credentials,
    });
    options.model = "anthropic.tiny-1:0".to_owned();
    options
}

fn bearer(stage: &Stage) -> LlmOptions {
    bedrock_at(stage, BedrockCredentials::Bearer(Secret::new(KEY)))
}

#[tokio::test]
async fn an_answer_streams_and_says_what_it_cost() {
    for size in [1, 5, 4096] {
        let stage = Stage::new(vec![plain(&["Hel", "lo, wörld"]).cut(size)]).await;
        let ran = ask(bearer(&stage), "Say hello.").await;
        assert_eq!(ran.text(), "Hello, wörld");
        assert_eq!(
            ran.metadata("usage"),
            json!({"input_tokens": 30, "output_tokens": 4, "total_tokens": 34,
                "model": "anthropic.tiny-1:0", "provider": "bedrock", "stop_reason": "end"})
        );
        let asked = stage.asked();
        assert_eq!(
            asked[0].line,
            "POST /model/anthropic.tiny-1%3A0/converse-stream HTTP/1.1"
        );
        assert_eq!(asked[0].headers["authorization"], format!("Bearer {KEY}"));
        let mut body = stage.body();
        let tools = body["toolConfig"].take();
        assert_eq!(tools["tools"][0]["toolSpec"]["name"], "create_file");
        assert_eq!(
            tools["tools"][0]["toolSpec"]["inputSchema"]["json"]["type"],
            "object"
        );
        assert_eq!(
            body,
            json!({"messages": [{"role": "user", "content": [{"text": "Say hello."}]}],
                "system": [{"text": "Be brief."}], "inferenceConfig": {"maxTokens": 256},
                "toolConfig": null})
        );
    }
}

#[tokio::test]
async fn every_try_is_signed() {
    let busy = Play::status(
        429,
        &[
            ("x-amzn-errortype", "ThrottlingException:http://x/"),
            ("retry-after-ms", "1"),
        ],
        r#"{"message": "Too many requests"}"#,
    );
    let stage = Stage::new(vec![busy, plain(&["Hi."])]).await;
    let signed = BedrockCredentials::Signed(Arc::new(Seal));
    assert_eq!(ask(bedrock_at(&stage, signed), "Hi").await.text(), "Hi.");
    for asked in stage.asked() {
        let length = &asked.headers["content-length"];
        assert_eq!(
            asked.headers["authorization"],
            format!("Seal /model/anthropic.tiny-1%3A0/converse-stream {length}")
        );
    }
}

#[tokio::test]
async fn without_credentials_nothing_is_sent() {
    let stage = Stage::new(Vec::new()).await;
    let signed = BedrockCredentials::Signed(Arc::new(Empty));
    let ran = ask(bedrock_at(&stage, signed), "Hi").await;
    assert_eq!(ran.word(), "bedrock_access_denied");
}

#[tokio::test]
async fn a_tool_is_called_and_told_of() {
    let start = json!({"contentBlockIndex": 1,
        "start": {"toolUse": {"toolUseId": "tooluse_1", "name": "create_file"}}});
    let piece = |input: &str| {
        event(
            "contentBlockDelta",
            &json!({"contentBlockIndex": 1, "delta": {"toolUse": {"input": input}}}),
        )
    };
    let play = frames()
        .send(text("I make it."))
        .send(event("contentBlockStart", &start))
        .send(piece("{\"file_name\": \"a.txt\", \"format\": \"txt\","))
        .send(piece(" \"content\": \"x\"}"))
        .send(end("tool_use"));
    let stage = Stage::new(vec![play, plain(&["Done."])]).await;
    let ran = ask(bearer(&stage), "Make a file.").await;
    assert_eq!(ran.text(), "I make it.\n\nDone.");
    assert_eq!(ran.kept.artifacts.lock().unwrap().len(), 1);
    let messages = stage.asked()[1].body["messages"].clone();
    assert_eq!(
        messages[1]["content"][1],
        json!({"toolUse": {"toolUseId": "tooluse_1", "name": "create_file",
            "input": {"file_name": "a.txt", "format": "txt", "content": "x"}}})
    );
    let result = &messages[2]["content"][0]["toolResult"];
    assert_eq!(result["toolUseId"], "tooluse_1");
    assert_eq!(result["status"], "success");
    assert!(
        result["content"][0]["text"]
            .as_str()
            .unwrap()
            .contains("a.txt")
    );
}

#[tokio::test]
async fn exceptions_have_words_of_their_own() {
    for (name, word) in [
        ("throttlingException", "bedrock_throttling"),
        ("serviceUnavailableException", "bedrock_throttling"),
        ("internalServerException", "invalid_response"),
        ("modelStreamErrorException", "invalid_response"),
        ("validationException", "invalid_response"),
        ("modelTimeoutException", "bedrock_timeout"),
        ("accessDeniedException", "bedrock_access_denied"),
    ] {
        let stage = Stage::new(vec![frames().send(exception(name))]).await;
        let mut options = bearer(&stage);
        options.retries = 0;
        assert_eq!(ask(options, "Hi").await.word(), word, "{name}");
    }
    for (status, name, word) in [
        (403, "AccessDeniedException", "bedrock_access_denied"),
        (404, "ResourceNotFoundException", "bedrock_access_denied"),
        (408, "ModelTimeoutException", "bedrock_timeout"),
        (424, "ModelErrorException", "invalid_response"),
    ] {
        let play = Play::status(status, &[("x-amzn-errortype", name)], r#"{"message": "x"}"#);
        let stage = Stage::new(vec![play]).await;
        let mut options = bearer(&stage);
        options.retries = 0;
        assert_eq!(ask(options, "Hi").await.word(), word, "{name}");
    }
    let body = r#"{"message": "The provided model identifier is invalid."}"#;
    let play = Play::status(400, &[("x-amzn-errortype", "ValidationException")], body);
    let stage = Stage::new(vec![play]).await;
    assert_eq!(
        ask(bearer(&stage), "Hi").await.word(),
        "bedrock_access_denied"
    );
}

#[tokio::test]
async fn damaged_frames_are_refused() {
    let mut damaged = text("Hello");
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    let huge = [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0];
    let tiny = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let nameless = frame("event", (":other", "x"), &json!({}));
    let whole = text("Half");
    for (what, bytes) in [
        ("a checksum", damaged),
        ("a length", huge.to_vec()),
        ("another length", tiny.to_vec()),
        ("no type", nameless),
        ("text", b"<html>this is no frame</html>".to_vec()),
        ("half a frame", whole[..whole.len() / 2].to_vec()),
        ("half an answer", whole),
        ("other JSON", event("contentBlockDelta", &json!([1]))),
    ] {
        let stage = Stage::new(vec![frames().send(bytes)]).await;
        let mut options = bearer(&stage);
        options.retries = 0;
        assert_eq!(
            ask(options, "Hi").await.word(),
            "invalid_response",
            "{what}"
        );
    }
}

#[tokio::test]
async fn documents_and_pictures_go_as_they_are() {
    let stage = Stage::new(vec![plain(&["42."])]).await;
    let again = file("sales csv", "text/csv", b"a,b\n");
    let message = with(vec![dot(), pdf(), csv(), again]);
    run(bearer(&stage), message, Vec::new()).await.text();
    let content = stage.body()["messages"][0]["content"].clone();
    assert_eq!(content[0], json!({"text": "What is in it?"}));
    assert_eq!(content[1]["document"]["format"], "pdf");
    assert_eq!(content[1]["document"]["name"], "report pdf");
    assert!(
        content[1]["document"]["source"]["bytes"]
            .as_str()
            .unwrap()
            .starts_with("JVBERi0")
    );
    assert_eq!(content[2]["document"]["format"], "csv");
    assert_eq!(content[2]["document"]["name"], "sales csv");
    assert_ne!(content[3]["document"]["name"], "sales csv");
    assert_eq!(content[4]["image"]["format"], "png");
}

#[tokio::test]
async fn what_is_too_large_for_bedrock_goes_as_text_or_not_at_all() {
    let large = "May,3\n".repeat(4_600_000 / 6);
    let stage = Stage::new(vec![plain(&["Much."])]).await;
    let message = with(vec![file("large.csv", "text/csv", large.as_bytes())]);
    run(bearer(&stage), message, Vec::new()).await.text();
    let content = stage.body()["messages"][0]["content"].clone();
    assert!(content[1]["text"].as_str().unwrap().contains("May,3"));

    let mut picture = base64::Engine::decode(
        &base64::engine::general_purpose::STANDARD,
        dot().as_text().unwrap().as_bytes(),
    )
    .unwrap();
    picture.resize(3_800_000, 0);
    let stage = Stage::new(vec![plain(&["A table."])]).await;
    let message = with(vec![file("large.png", "image/png", &picture), csv()]);
    let ran = run(bearer(&stage), message, Vec::new()).await;
    assert_eq!(
        ran.metadata("skipped"),
        json!([{"name": "large.png", "error_code": "file_too_large"}])
    );
}

#[tokio::test]
async fn a_refused_document_is_sent_as_text_once() {
    let no = Play::status(
        400,
        &[("x-amzn-errortype", "ValidationException")],
        r#"{"message": "The document could not be read."}"#,
    );
    let stage = Stage::new(vec![no, plain(&["42."])]).await;
    let ran = run(bearer(&stage), with(vec![pdf()]), Vec::new()).await;
    assert_eq!(ran.text(), "42.");
    let content = stage.asked()[1].body["messages"][0]["content"].clone();
    assert!(
        content[1]["text"]
            .as_str()
            .unwrap()
            .contains("Profit is 42")
    );
}

#[test]
fn a_region_is_a_name() {
    let region = |region: &str| {
        LlmAgent::new(options(Provider::Bedrock {
            region: region.to_owned(),
            endpoint: None,
            credentials: BedrockCredentials::Bearer(Secret::new(KEY)),
        }))
    };
    assert!(region("eu-central-1").is_ok());
    for wrong in ["", "eu central", "x.example/", "@x"] {
        assert!(region(wrong).is_err(), "{wrong}");
    }
}
