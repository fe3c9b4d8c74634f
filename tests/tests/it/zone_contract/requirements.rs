//! The requirements (FR) and success criteria (SC) of the founding specification, each by its number.

use super::{
    BOT_TOKEN, ZoneFixture, ZoneSetup, call_object, check_response, demo_agent, params,
    params_with, scripted_agent,
};
use http::StatusCode;
use interzone_hub::{AgentError, TurnOutcome, failure_message};
use interzone_jsonrpc::{MethodName, Parsed, Policy, RawJson, Request, parse};
use interzone_protocol::SharedEndpointPolicy;
use interzone_protocol::vocab::Message;
use interzone_protocol::zone::{Attachment, ErrorReason, ExecuteTaskParams, UserMessageKey};
use serde_json::{Value, json};
use std::sync::Arc;

/// Agent that fails as its message says.
fn failing_agent() -> Arc<dyn interzone_hub::Agent> {
    scripted_agent("failing", |turn, _| async move {
        let text = turn.message.text();
        let (kind, code) = text.split_once(' ').unwrap_or((&text, ""));
        match kind {
            "word" => Ok(TurnOutcome::Failed(failure_message(
                code,
                "In public words.",
            ))),
            "failed" => Ok(TurnOutcome::Failed(Message::agent_text("In public words."))),
            "rejected" => Ok(TurnOutcome::Rejected(None)),
            "broken" => Err(AgentError {
                code: "agent_broke",
                detail: "SECRET internals".to_owned(),
            }),
            _ => panic!("SECRET panic"),
        }
    })
}

async fn zone_with_failing_agent() -> ZoneFixture {
    ZoneFixture::with_setup(ZoneSetup {
        agents: vec![failing_agent()],
        ..ZoneSetup::default()
    })
    .await
}

#[tokio::test]
async fn fr_001_only_json_rpc_requests_are_accepted() {
    let world = ZoneFixture::new().await;
    let token = world.token("vz").await;
    let good = call_object(
        &json!("5f0f0a5c-8f0a-4c1e-9d59-000000000001"),
        &params("echo hi"),
    );
    let (status, _, body) = world.post(&token, good.to_string()).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    for member in ["jsonrpc", "method", "id"] {
        let mut bad = good.clone();
        bad.as_object_mut().unwrap().remove(member);
        let (status, _, body) = world.post(&token, bad.to_string()).await;
        let answer = check_response(serde_json::from_str(&body).unwrap());
        assert_eq!(status, StatusCode::BAD_REQUEST, "without {member}");
        assert_eq!(answer["error"]["code"], -32600);
        assert_eq!(answer["id"], Value::Null);
    }
}

#[tokio::test]
async fn fr_002_sc_002_every_response_is_json_rpc() {
    let world = ZoneFixture::new().await;
    let token = world.token("vz").await;
    for body in [
        call_object(&json!(1), &params("echo hi")).to_string(),
        call_object(&json!("a"), &params("fail")).to_string(),
        call_object(&json!(null), &params("file csv a,b")).to_string(),
        call_object(&json!(2), &json!([])).to_string(),
        call_object(&json!(3), &json!(null)).to_string(),
        call_object(&json!(1.5), &params("x")).to_string(),
        call_object(&json!({}), &params("x")).to_string(),
        r#"{"jsonrpc":"2.0","id":1,"method":"get_task_result"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"method":"get_agent_card"}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"method":"cancel_task","params":{"task_id":7}}"#.to_owned(),
        r#"{"jsonrpc":"2.0","id":1,"method":"executeTask"}"#.to_owned(),
        "{".to_owned(),
        "7".to_owned(),
        String::new(),
    ] {
        let (_, headers, answer) = world.post(&token, body.clone()).await;
        assert_eq!(headers["content-type"], "application/json", "{body}");
        let parsed = parse(answer.as_bytes(), &Policy::CLIENT);
        let Parsed::One(Ok(interzone_jsonrpc::Message::Response(_))) = parsed else {
            panic!("{body}: {answer}");
        };
        check_response(serde_json::from_str(&answer).unwrap());
    }
}

#[tokio::test]
async fn fr_003_invalid_requests_get_an_error() {
    let world = ZoneFixture::new().await;
    let token = world.token("vz").await;
    let method = |name: &str| json!({"jsonrpc": "2.0", "id": "i", "method": name});
    for (body, status, code, id, error_code) in [
        (
            "{\"jsonrpc\"".to_owned(),
            400,
            -32700,
            json!(null),
            "parse_error",
        ),
        (
            "\"x\"".to_owned(),
            400,
            -32600,
            json!(null),
            "invalid_request",
        ),
        ("[]".to_owned(), 400, -32600, json!(null), "invalid_request"),
        (
            r#"{"jsonrpc":"1.0","id":1,"method":"execute_task"}"#.to_owned(),
            400,
            -32600,
            json!(null),
            "invalid_request",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":7}"#.to_owned(),
            400,
            -32600,
            json!(null),
            "invalid_request",
        ),
        (
            r#"{"jsonrpc":"2.0","id":1.5,"method":"execute_task","params":{}}"#.to_owned(),
            400,
            -32600,
            json!(null),
            "invalid_request",
        ),
        (
            r#"{"jsonrpc":"2.0","method":"execute_task","params":{}}"#.to_owned(),
            400,
            -32600,
            json!(null),
            "invalid_request",
        ),
        (
            method("execute_tasks").to_string(),
            200,
            -32601,
            json!("i"),
            "method_not_found",
        ),
        (
            method("rpc.execute").to_string(),
            200,
            -32601,
            json!("i"),
            "method_not_found",
        ),
        (
            method("execute_task").to_string(),
            200,
            -32602,
            json!("i"),
            "invalid_params",
        ),
        (
            method("get_task_result").to_string(),
            200,
            -32602,
            json!("i"),
            "invalid_params",
        ),
        (
            method("cancel_task").to_string(),
            200,
            -32602,
            json!("i"),
            "invalid_params",
        ),
    ] {
        let (http_status, _, answer) = world.post(&token, body.clone()).await;
        let answer = check_response(serde_json::from_str(&answer).unwrap());
        let error = &answer["error"];
        assert_eq!(
            (
                http_status.as_u16(),
                &error["code"],
                &answer["id"],
                &error["data"]["error_code"]
            ),
            (status, &json!(code), &id, &json!(error_code)),
            "{body}: {answer}"
        );
    }
    let (_, data) = world
        .call_expecting_error(&token, "execute_task", json!({"text": " "}))
        .await;
    assert_eq!(data["missing"], json!(["channel", "text", "bot_token"]));
}

#[tokio::test]
async fn fr_004_failed_tasks_return_codes_of_the_contract() {
    let world = zone_with_failing_agent().await;
    let token = world.token("vz").await;
    let public = Some("In public words.");
    for (text, code, error_code, detail) in [
        ("failed", -32000, "agent_failed", public),
        ("rejected", -32000, "agent_rejected", None),
        ("broken", -32000, "agent_failed", None),
        ("panic", -32000, "agent_failed", None),
        ("word no_such_word", -32000, "agent_failed", public),
        ("word parse_error", -32000, "agent_failed", public),
        ("word agent_timeout", -32001, "async_timeout", public),
        ("word bedrock_timeout", -32001, "bedrock_timeout", public),
        (
            "word bedrock_throttling",
            -32000,
            "bedrock_throttling",
            public,
        ),
        (
            "word bedrock_access_denied",
            -32000,
            "bedrock_access_denied",
            public,
        ),
        ("word invalid_response", -32000, "invalid_response", public),
        (
            "word attachment_download_failed",
            -32000,
            "attachment_download_failed",
            public,
        ),
        ("word download_failed", -32000, "download_failed", public),
        (
            "word url_not_available",
            -32000,
            "url_not_available",
            public,
        ),
        ("word file_too_large", -32000, "file_too_large", public),
        (
            "word unsupported_file_type",
            -32000,
            "unsupported_file_type",
            public,
        ),
        (
            "word unsupported_image_type",
            -32000,
            "unsupported_image_type",
            public,
        ),
        ("word unsupported_type", -32000, "unsupported_type", public),
        (
            "word extraction_failed",
            -32000,
            "extraction_failed",
            public,
        ),
        (
            "word file_reader_unavailable",
            -32000,
            "file_reader_unavailable",
            public,
        ),
        ("word tool_failure", -32000, "tool_failure", public),
        (
            "word async_task_failed",
            -32000,
            "async_task_failed",
            public,
        ),
        ("word poll_error", -32000, "poll_error", public),
    ] {
        let call = call_object(&json!(text), &params(text)).to_string();
        let (status, _, body) = world.post(&token, call).await;
        assert_eq!(status, StatusCode::OK);
        let answer = check_response(serde_json::from_str(&body).unwrap());
        let error = &answer["error"];
        assert_eq!(
            (&error["code"], &error["data"]["error_code"], &answer["id"]),
            (&json!(code), &json!(error_code), &json!(text))
        );
        assert_eq!(error["data"]["detail"].as_str(), detail, "{answer}");
        assert!(!body.contains("SECRET"), "{body}");
        // `get_task_result` returns the same.
        let task = &error["data"]["task_id"];
        let later = world.wait_for_result(&token, task).await;
        assert_eq!(
            (&later["status"], &later["error"]),
            (&json!("failed"), error)
        );
    }
}

#[tokio::test]
async fn fr_005_ids_are_echoed_byte_for_byte() {
    let world = ZoneFixture::new().await;
    let token = world.token("vz").await;
    for id in [
        r#""5F0F0A5C-8f0a-4c1e-9d59-00000000000a""#,
        "1",
        r#""1""#,
        "-7",
        "0",
        "9223372036854775807",
        r#""""#,
        r#""é☃ \"quoted\" \\ ""#,
        "null",
    ] {
        for text in ["echo hi", "fail", ""] {
            let params = params(text);
            let body = format!(
                r#"{{"jsonrpc":"2.0","id":{id},"method":"execute_task","params":{params}}}"#
            );
            let (_, _, answer) = world.post(&token, body).await;
            let start = format!(r#"{{"jsonrpc":"2.0","id":{id},"#);
            assert!(answer.starts_with(&start), "{answer}");
        }
    }
}

#[tokio::test]
async fn fr_006_sc_003_every_outcome_has_a_user_message() {
    let world = ZoneFixture::with_setup(ZoneSetup {
        agents: vec![demo_agent(), failing_agent()],
        channels: vec![("C-failing", "failing")],
        ..ZoneSetup::default()
    })
    .await;
    let token = world.token("vz").await;
    // A successful call returns the answer and echoes its context.
    let params = params_with(
        "echo hello",
        &json!({"thread_ts": "17.1", "correlation_id": "c-1"}),
    );
    let answer = world.call(&token, "execute_task", params).await;
    let result = &answer["result"];
    assert_eq!(result["status"], "success");
    assert_eq!(result["response_text"], "hello");
    assert_eq!(
        (
            &result["channel"],
            &result["thread_ts"],
            &result["correlation_id"]
        ),
        (&json!("C1"), &json!("17.1"), &json!("c-1"))
    );
    // Every failure has the right key of a message for the user.
    for (text, channel, key) in [
        ("", "C1", UserMessageKey::AskSomething),
        ("fail", "C1", UserMessageKey::Generic),
        (
            "word bedrock_timeout",
            "C-failing",
            UserMessageKey::ModelSlow,
        ),
        ("word bedrock_throttling", "C-failing", UserMessageKey::Busy),
        (
            "word bedrock_access_denied",
            "C-failing",
            UserMessageKey::AskAdmin,
        ),
        (
            "word invalid_response",
            "C-failing",
            UserMessageKey::UnexpectedReply,
        ),
        (
            "word download_failed",
            "C-failing",
            UserMessageKey::AttachmentNotFetched,
        ),
        (
            "word file_too_large",
            "C-failing",
            UserMessageKey::FileTooLarge,
        ),
        (
            "word unsupported_type",
            "C-failing",
            UserMessageKey::UnsupportedFormat,
        ),
        (
            "word file_encrypted",
            "C-failing",
            UserMessageKey::Unreadable,
        ),
        (
            "word tool_failure",
            "C-failing",
            UserMessageKey::FileNotMade,
        ),
        ("panic", "C-failing", UserMessageKey::Generic),
    ] {
        let params = params_with(text, &json!({"channel": channel}));
        let (_, data) = world
            .call_expecting_error(&token, "execute_task", params)
            .await;
        let reason = ErrorReason::from_name(data["error_code"].as_str().unwrap()).unwrap();
        assert_eq!(reason.message_key(), key, "{text}");
    }
}

#[tokio::test]
async fn fr_007_execute_task_and_related_methods_exist() {
    let world = ZoneFixture::new().await;
    let token = world.token("vz").await;
    let result = world.execute_task(&token, "echo hi").await;
    assert_eq!(result["response_text"], "hi");
    let task = json!({"task_id": result["task_id"]});
    let later = world.call(&token, "get_task_result", task.clone()).await;
    assert_eq!(later["result"]["status"], "completed");
    let (code, data) = world
        .call_expecting_error(&token, "cancel_task", task)
        .await;
    assert_eq!(
        (code, &data["error_code"]),
        (-32000, &json!("task_finished"))
    );
    let card = world.call(&token, "get_agent_card", json!({})).await;
    let request = http::Request::get("/.well-known/agent.json");
    let (_, _, public) = world.send(request.body("".into()).unwrap()).await;
    let public: Value = serde_json::from_str(&public).unwrap();
    assert_eq!(card["result"], public);
}

#[test]
fn sc_001_serialized_params_are_accepted_by_the_parser() {
    let mut all = ExecuteTaskParams::new("C1", "hello", BOT_TOKEN);
    all.attachments = Some(vec![Attachment {
        id: Some("F1".to_owned()),
        name: "a.csv".to_owned(),
        mimetype: "text/csv".to_owned(),
        size: Some(2),
        content_base64: Some("aGk=".to_owned()),
        presigned_url: None,
    }]);
    all.correlation_id = Some("c-1".to_owned());
    for params in [ExecuteTaskParams::new("C1", "hello", BOT_TOKEN), all] {
        let raw = RawJson::from_value(&params).unwrap();
        let method = MethodName::new("execute_task").unwrap();
        let mut bytes = Vec::new();
        Request::new("5f0f0a5c-8f0a-4c1e-9d59-00000000000b", method)
            .with_params(raw)
            .write_to(&mut bytes);
        let Parsed::One(Ok(interzone_jsonrpc::Message::Request(read))) =
            parse(&bytes, &SharedEndpointPolicy)
        else {
            panic!("{}", String::from_utf8_lossy(&bytes));
        };
        assert_eq!(read.decode_params::<ExecuteTaskParams>().unwrap(), params);
    }
}

#[tokio::test]
async fn sc_004_every_documented_error_has_code_and_message() {
    let world = zone_with_failing_agent().await;
    let token = world.token("vz").await;
    let mut checked_count = 0;
    for reason in ErrorReason::ALL {
        let text = format!("word {}", reason.name());
        let answer = world.call(&token, "execute_task", params(&text)).await;
        let error = &check_response(answer)["error"];
        assert!(!error["message"].as_str().unwrap().is_empty());
        checked_count += 1;
    }
    assert_eq!(checked_count, ErrorReason::ALL.len());
    let unprivileged = world
        .token_with_scopes("no-scopes", &["acp:agent:identify"])
        .await;
    for (token, status, code, error_code) in [
        ("rubbish", 401, -40007, "token_invalid"),
        (&unprivileged, 403, -40008, "insufficient_scope"),
    ] {
        for method in ["execute_task", "get_task_result", "cancel_task"] {
            let call = json!({"jsonrpc": "2.0", "id": "x", "method": method});
            let (http_status, headers, body) = world.post(token, call.to_string()).await;
            let answer = check_response(serde_json::from_str(&body).unwrap());
            assert_eq!(
                (
                    http_status.as_u16(),
                    &answer["error"]["code"],
                    &answer["id"]
                ),
                (status, &json!(code), &json!("x"))
            );
            assert_eq!(answer["error"]["data"]["error_code"], error_code);
            assert!(headers.contains_key("www-authenticate"));
        }
    }
}

#[tokio::test]
async fn sc_005_requests_are_found_in_audit_log_by_id() {
    let world = ZoneFixture::new().await;
    let token = world.token("vz").await;
    let id = "5f0f0a5c-8f0a-4c1e-9d59-00000000000c";
    let named =
        |text: &str, correlation: &str| params_with(text, &json!({"correlation_id": correlation}));
    let body = call_object(&json!(id), &named("echo hi", "corr-1")).to_string();
    let (_, headers, body) = world.post(&token, body).await;
    assert_eq!(headers["x-correlation-id"], "corr-1");
    let task = serde_json::from_str::<Value>(&body).unwrap()["result"]["task_id"].clone();
    let body = call_object(&json!(7), &named("fail", "not well-formed\n")).to_string();
    let (_, headers, _) = world.post(&token, body).await;
    let generated = headers["x-correlation-id"].to_str().unwrap().to_owned();
    assert!(!generated.contains(' '));
    let stored = world
        .hub
        .store()
        .task(&task.as_str().unwrap().parse().unwrap())
        .await;
    let metadata = stored.unwrap().unwrap().metadata.unwrap();
    assert_eq!(
        metadata.as_str(),
        format!(r#"{{"zone":{{"channel":"C1","correlation_id":"corr-1","rpc_id":"{id}"}}}}"#)
    );
    let path = world.path("audit.log");
    // The audit log is flushed when its last writer is dropped.
    let _folder = world.shut_down().await;
    let lines: Vec<Value> = std::fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let lines_with = |name: &str, value: &str| -> Vec<&Value> {
        lines.iter().filter(|line| line[name] == value).collect()
    };
    let (by_id, by_name) = (lines_with("id", id), lines_with("correlation", "corr-1"));
    assert_eq!(by_id, by_name);
    assert_eq!(by_id.len(), 1);
    assert_eq!(
        (
            &by_id[0]["outcome"],
            &by_id[0]["subject"],
            &by_id[0]["method"]
        ),
        (&json!("ok"), &task, &json!("execute_task"))
    );
    let failed = lines_with("correlation", &generated);
    assert_eq!(failed.len(), 1);
    assert_eq!(
        (&failed[0]["outcome"], &failed[0]["id"], &failed[0]["code"]),
        (&json!("agent_failed"), &json!("7"), &json!(-32000))
    );
}
