//! Bedrock Converse API.

use super::attachments::{csv_part, file_part, message_with, pdf_part, png_part};
use super::*;
use aws_smithy_eventstream::frame::write_message_to;
use aws_smithy_types::event_stream::{Header, HeaderValue, Message as Frame};
use bytes::Bytes;
use interzone_client::aws::{RequestSigner, SignError};
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

fn end_message(reason: &str) -> Vec<u8> {
    let stop = event("messageStop", &json!({"stopReason": reason}));
    let usage = json!({"usage": {"inputTokens": 30, "outputTokens": 4, "totalTokens": 34},
        "metrics": {"latencyMs": 1}});
    [stop, event("metadata", &usage)].concat()
}

fn response_start() -> ScriptedResponse {
    let kind = [("content-type", "application/vnd.amazon.eventstream")];
    ScriptedResponse::status(
        200,
        &kind,
        event("messageStart", &json!({"role": "assistant"})),
    )
}

fn text_response(texts: &[&str]) -> ScriptedResponse {
    let response = texts.iter().fold(response_start(), |response, delta| {
        response.send(text(delta))
    });
    response
        .send(event("contentBlockStop", &json!({"contentBlockIndex": 0})))
        .send(end_message("end_turn"))
}

/// Signer that writes only the path and the body length.
struct FakeSigner;

#[async_trait]
impl RequestSigner for FakeSigner {
    async fn sign(&self, request: &mut http::Request<Bytes>) -> Result<(), SignError> {
        let signature = format!("Seal {} {}", request.uri().path(), request.body().len());
        request
            .headers_mut()
            .insert("authorization", signature.parse().unwrap());
        Ok(())
    }
}

/// Signer without credentials.
struct SignerWithoutCredentials;

#[async_trait]
impl RequestSigner for SignerWithoutCredentials {
    async fn sign(&self, _request: &mut http::Request<Bytes>) -> Result<(), SignError> {
        let none = std::io::Error::other("no credentials");
        Err(SignError::Credentials(Arc::new(none)))
    }
}

fn bedrock_options(mock: &MockProvider, credentials: BedrockCredentials) -> LlmOptions {
    let mut options = options(LlmProvider::Bedrock {
        region: "eu-central-1".to_owned(),
        endpoint: Some(mock.url("")),
        credentials,
    });
    options.model = "anthropic.tiny-1:0".to_owned();
    options
}

fn bearer_options(mock: &MockProvider) -> LlmOptions {
    bedrock_options(mock, BedrockCredentials::Bearer(Secret::new(KEY)))
}

#[tokio::test]
async fn answer_is_streamed_with_token_usage() {
    for size in [1, 5, 4096] {
        let mock = MockProvider::new(vec![text_response(&["Hel", "lo, wörld"]).split(size)]).await;
        let result = ask(bearer_options(&mock), "Say hello.").await;
        assert_eq!(result.text(), "Hello, wörld");
        assert_eq!(
            result.metadata("usage"),
            json!({"input_tokens": 30, "output_tokens": 4, "total_tokens": 34,
                "model": "anthropic.tiny-1:0", "provider": "bedrock", "stop_reason": "end"})
        );
        let requests = mock.requests();
        assert_eq!(
            requests[0].request_line,
            "POST /model/anthropic.tiny-1%3A0/converse-stream HTTP/1.1"
        );
        assert_eq!(
            requests[0].headers["authorization"],
            format!("Bearer {KEY}")
        );
        let mut body = mock.body();
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
async fn every_attempt_is_signed() {
    let throttled = ScriptedResponse::status(
        429,
        &[
            ("x-amzn-errortype", "ThrottlingException:http://x/"),
            ("retry-after-ms", "1"),
        ],
        r#"{"message": "Too many requests"}"#,
    );
    let mock = MockProvider::new(vec![throttled, text_response(&["Hi."])]).await;
    let signed = BedrockCredentials::Signed(Arc::new(FakeSigner));
    assert_eq!(
        ask(bedrock_options(&mock, signed), "Hi").await.text(),
        "Hi."
    );
    for request in mock.requests() {
        let length = &request.headers["content-length"];
        assert_eq!(
            request.headers["authorization"],
            format!("Seal /model/anthropic.tiny-1%3A0/converse-stream {length}")
        );
    }
}

#[tokio::test]
async fn request_is_not_sent_without_credentials() {
    let mock = MockProvider::new(Vec::new()).await;
    let signed = BedrockCredentials::Signed(Arc::new(SignerWithoutCredentials));
    let result = ask(bedrock_options(&mock, signed), "Hi").await;
    assert_eq!(result.error_code(), "bedrock_access_denied");
}

#[tokio::test]
async fn tool_call_is_executed_and_its_result_sent() {
    let start = json!({"contentBlockIndex": 1,
        "start": {"toolUse": {"toolUseId": "tooluse_1", "name": "create_file"}}});
    let piece = |input: &str| {
        event(
            "contentBlockDelta",
            &json!({"contentBlockIndex": 1, "delta": {"toolUse": {"input": input}}}),
        )
    };
    let response = response_start()
        .send(text("I make it."))
        .send(event("contentBlockStart", &start))
        .send(piece("{\"file_name\": \"a.txt\", \"format\": \"txt\","))
        .send(piece(" \"content\": \"x\"}"))
        .send(end_message("tool_use"));
    let mock = MockProvider::new(vec![response, text_response(&["Done."])]).await;
    let result = ask(bearer_options(&mock), "Make a file.").await;
    assert_eq!(result.text(), "I make it.\n\nDone.");
    assert_eq!(result.output.artifacts.lock().unwrap().len(), 1);
    let messages = mock.requests()[1].body["messages"].clone();
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
async fn exceptions_map_to_error_codes() {
    for (name, code) in [
        ("throttlingException", "bedrock_throttling"),
        ("serviceUnavailableException", "bedrock_throttling"),
        ("internalServerException", "invalid_response"),
        ("modelStreamErrorException", "invalid_response"),
        ("validationException", "invalid_response"),
        ("modelTimeoutException", "bedrock_timeout"),
        ("accessDeniedException", "bedrock_access_denied"),
    ] {
        let mock = MockProvider::new(vec![response_start().send(exception(name))]).await;
        let mut options = bearer_options(&mock);
        options.retries = 0;
        assert_eq!(ask(options, "Hi").await.error_code(), code, "{name}");
    }
    for (status, name, code) in [
        (403, "AccessDeniedException", "bedrock_access_denied"),
        (404, "ResourceNotFoundException", "bedrock_access_denied"),
        (408, "ModelTimeoutException", "bedrock_timeout"),
        (424, "ModelErrorException", "invalid_response"),
    ] {
        let response =
            ScriptedResponse::status(status, &[("x-amzn-errortype", name)], r#"{"message": "x"}"#);
        let mock = MockProvider::new(vec![response]).await;
        let mut options = bearer_options(&mock);
        options.retries = 0;
        assert_eq!(ask(options, "Hi").await.error_code(), code, "{name}");
    }
    let body = r#"{"message": "The provided model identifier is invalid."}"#;
    let response =
        ScriptedResponse::status(400, &[("x-amzn-errortype", "ValidationException")], body);
    let mock = MockProvider::new(vec![response]).await;
    assert_eq!(
        ask(bearer_options(&mock), "Hi").await.error_code(),
        "bedrock_access_denied"
    );
}

#[tokio::test]
async fn damaged_frames_are_rejected() {
    let mut damaged = text("Hello");
    let last = damaged.len() - 1;
    damaged[last] ^= 1;
    let huge = [0x7f, 0xff, 0xff, 0xff, 0, 0, 0, 0, 0, 0, 0, 0];
    let tiny = [0, 0, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    let untyped = frame("event", (":other", "x"), &json!({}));
    let frame = text("Half");
    for (what, bytes) in [
        ("a checksum", damaged),
        ("a length", huge.to_vec()),
        ("another length", tiny.to_vec()),
        ("no type", untyped),
        ("text", b"<html>this is no frame</html>".to_vec()),
        ("half a frame", frame[..frame.len() / 2].to_vec()),
        ("half an answer", frame),
        ("other JSON", event("contentBlockDelta", &json!([1]))),
    ] {
        let mock = MockProvider::new(vec![response_start().send(bytes)]).await;
        let mut options = bearer_options(&mock);
        options.retries = 0;
        assert_eq!(
            ask(options, "Hi").await.error_code(),
            "invalid_response",
            "{what}"
        );
    }
}

#[tokio::test]
async fn documents_and_images_are_sent_unchanged() {
    let mock = MockProvider::new(vec![text_response(&["42."])]).await;
    let again = file_part("sales csv", "text/csv", b"a,b\n");
    let message = message_with(vec![png_part(), pdf_part(), csv_part(), again]);
    run(bearer_options(&mock), message, Vec::new()).await.text();
    let content = mock.body()["messages"][0]["content"].clone();
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
async fn oversized_documents_become_text_and_images_are_skipped() {
    let large = "May,3\n".repeat(4_600_000 / 6);
    let mock = MockProvider::new(vec![text_response(&["Much."])]).await;
    let message = message_with(vec![file_part("large.csv", "text/csv", large.as_bytes())]);
    run(bearer_options(&mock), message, Vec::new()).await.text();
    let content = mock.body()["messages"][0]["content"].clone();
    assert!(content[1]["text"].as_str().unwrap().contains("May,3"));

    let mut picture = base64::Engine::decode(
        &base64::engine::general_purpose::STANDARD,
        png_part().as_text().unwrap().as_bytes(),
    )
    .unwrap();
    picture.resize(3_800_000, 0);
    let mock = MockProvider::new(vec![text_response(&["A table."])]).await;
    let message = message_with(vec![
        file_part("large.png", "image/png", &picture),
        csv_part(),
    ]);
    let result = run(bearer_options(&mock), message, Vec::new()).await;
    assert_eq!(
        result.metadata("skipped"),
        json!([{"name": "large.png", "error_code": "file_too_large"}])
    );
}

#[tokio::test]
async fn rejected_document_is_resent_once_as_text() {
    let rejection = ScriptedResponse::status(
        400,
        &[("x-amzn-errortype", "ValidationException")],
        r#"{"message": "The document could not be read."}"#,
    );
    let mock = MockProvider::new(vec![rejection, text_response(&["42."])]).await;
    let result = run(
        bearer_options(&mock),
        message_with(vec![pdf_part()]),
        Vec::new(),
    )
    .await;
    assert_eq!(result.text(), "42.");
    let content = mock.requests()[1].body["messages"][0]["content"].clone();
    assert!(
        content[1]["text"]
            .as_str()
            .unwrap()
            .contains("Profit is 42")
    );
}

#[test]
fn invalid_region_is_rejected() {
    let region = |region: &str| {
        LlmAgent::new(options(LlmProvider::Bedrock {
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
