//! The requirements (FR) and success criteria (SC) of the founding specification, each by its name.

use super::{BOT_TOKEN, Setup, World, actor, call, checked, demo, params, params_with};
use http::StatusCode;
use interzone_hub::{AgentError, Outcome, failure};
use interzone_jsonrpc::{MethodName, Parsed, Policy, RawJson, Request, parse};
use interzone_protocol::JsonRpcDoor;
use interzone_protocol::vocab::Message;
use interzone_protocol::zone::{Attachment, ErrorWord, ExecuteTaskParams, MessageKey};
use serde_json::{Value, json};
use std::sync::Arc;

/// Fails as it is told.
fn failing() -> Arc<dyn interzone_hub::Agent> {
    actor("failing", |turn, _| async move {
        let text = turn.message.text();
        let (kind, word) = text.split_once(' ').unwrap_or((&text, ""));
        match kind {
            "word" => Ok(Outcome::Failed(failure(word, "In public words."))),
            "failed" => Ok(Outcome::Failed(Message::agent_text("In public words."))),
            "rejected" => Ok(Outcome::Rejected(None)),
            "broken" => Err(AgentError {
                code: "agent_broke",
                detail: "SECRET internals".to_owned(),
            }),
            _ => panic!("SECRET panic"),
        }
    })
}

async fn failing_world() -> World {
    World::with(Setup {
        agents: vec![failing()],
        ..Setup::default()
    })
    .await
}

#[tokio::test]
async fn fr_001_a_call_is_a_json_rpc_request_and_nothing_else_is_taken() {
    let world = World::new().await;
    let token = world.token("vz").await;
    let good = call(
        &json!("5f0f0a5c-8f0a-4c1e-9d59-000000000001"),
        &params("echo hi"),
    );
    let (status, _, body) = world.post(&token, good.to_string()).await;
    assert_eq!(status, StatusCode::OK, "{body}");
    for member in ["jsonrpc", "method", "id"] {
        let mut bad = good.clone();
        bad.as_object_mut().unwrap().remove(member);
        let (status, _, body) = world.post(&token, bad.to_string()).await;
        let answer = checked(serde_json::from_str(&body).unwrap());
        assert_eq!(status, StatusCode::BAD_REQUEST, "without {member}");
        assert_eq!(answer["error"]["code"], -32600);
        assert_eq!(answer["id"], Value::Null);
    }
}

#[tokio::test]
async fn fr_002_and_sc_002_every_answer_is_a_json_rpc_response() {
    let world = World::new().await;
    let token = world.token("vz").await;
    for body in [
        call(&json!(1), &params("echo hi")).to_string(),
        call(&json!("a"), &params("fail")).to_string(),
        call(&json!(null), &params("file csv a,b")).to_string(),
        call(&json!(2), &json!([])).to_string(),
        call(&json!(3), &json!(null)).to_string(),
        call(&json!(1.5), &params("x")).to_string(),
        call(&json!({}), &params("x")).to_string(),
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
        checked(serde_json::from_str(&answer).unwrap());
    }
}

#[tokio::test]
async fn fr_003_what_is_no_valid_request_gets_an_error() {
    let world = World::new().await;
    let token = world.token("vz").await;
    let method = |name: &str| json!({"jsonrpc": "2.0", "id": "i", "method": name});
    for (body, status, code, id, word) in [
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
        let (told, _, answer) = world.post(&token, body.clone()).await;
        let answer = checked(serde_json::from_str(&answer).unwrap());
        let error = &answer["error"];
        assert_eq!(
            (
                told.as_u16(),
                &error["code"],
                &answer["id"],
                &error["data"]["error_code"]
            ),
            (status, &json!(code), &id, &json!(word)),
            "{body}: {answer}"
        );
    }
    let (_, data) = world
        .fault(&token, "execute_task", json!({"text": " "}))
        .await;
    assert_eq!(data["missing"], json!(["channel", "text", "bot_token"]));
}

#[tokio::test]
async fn fr_004_work_that_fails_is_an_error_with_a_code_of_the_contract() {
    let world = failing_world().await;
    let token = world.token("vz").await;
    let public = Some("In public words.");
    for (text, code, word, detail) in [
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
        let call = call(&json!(text), &params(text)).to_string();
        let (status, _, body) = world.post(&token, call).await;
        assert_eq!(status, StatusCode::OK);
        let answer = checked(serde_json::from_str(&body).unwrap());
        let error = &answer["error"];
        assert_eq!(
            (&error["code"], &error["data"]["error_code"], &answer["id"]),
            (&json!(code), &json!(word), &json!(text))
        );
        assert_eq!(error["data"]["detail"].as_str(), detail, "{answer}");
        assert!(!body.contains("SECRET"), "{body}");
        // The same when it is asked for later.
        let task = &error["data"]["task_id"];
        let later = world.outcome(&token, task).await;
        assert_eq!(
            (&later["status"], &later["error"]),
            (&json!("failed"), error)
        );
    }
}

#[tokio::test]
async fn fr_005_ids_come_back_bit_for_bit() {
    let world = World::new().await;
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
async fn fr_006_and_sc_003_whatever_comes_there_is_something_to_tell_the_user() {
    let world = World::with(Setup {
        agents: vec![demo(), failing()],
        channels: vec![("C-failing", "failing")],
        ..Setup::default()
    })
    .await;
    let token = world.token("vz").await;
    // An ordinary question gets an ordinary answer.
    let asked = params_with(
        "echo hello",
        &json!({"thread_ts": "17.1", "correlation_id": "c-1"}),
    );
    let answer = world.call(&token, "execute_task", asked).await;
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
    // And everything that goes wrong has a key by which words are found, and it is the right one.
    for (text, channel, key) in [
        ("", "C1", MessageKey::AskSomething),
        ("fail", "C1", MessageKey::Generic),
        ("word bedrock_timeout", "C-failing", MessageKey::ModelSlow),
        ("word bedrock_throttling", "C-failing", MessageKey::Busy),
        (
            "word bedrock_access_denied",
            "C-failing",
            MessageKey::AskAdmin,
        ),
        (
            "word invalid_response",
            "C-failing",
            MessageKey::UnexpectedReply,
        ),
        (
            "word download_failed",
            "C-failing",
            MessageKey::AttachmentNotFetched,
        ),
        ("word file_too_large", "C-failing", MessageKey::FileTooLarge),
        (
            "word unsupported_type",
            "C-failing",
            MessageKey::UnsupportedFormat,
        ),
        ("word file_encrypted", "C-failing", MessageKey::Unreadable),
        ("word tool_failure", "C-failing", MessageKey::FileNotMade),
        ("panic", "C-failing", MessageKey::Generic),
    ] {
        let params = params_with(text, &json!({"channel": channel}));
        let (_, data) = world.fault(&token, "execute_task", params).await;
        let word = ErrorWord::from_name(data["error_code"].as_str().unwrap()).unwrap();
        assert_eq!(word.message_key(), key, "{text}");
    }
}

#[tokio::test]
async fn fr_007_execute_task_and_its_companions_are_there() {
    let world = World::new().await;
    let token = world.token("vz").await;
    let result = world.ask(&token, "echo hi").await;
    assert_eq!(result["response_text"], "hi");
    let task = json!({"task_id": result["task_id"]});
    let later = world.call(&token, "get_task_result", task.clone()).await;
    assert_eq!(later["result"]["status"], "completed");
    let (code, data) = world.fault(&token, "cancel_task", task).await;
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
fn sc_001_what_our_types_write_is_a_request_that_our_door_takes() {
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
        let raw = RawJson::of(&params).unwrap();
        let method = MethodName::new("execute_task").unwrap();
        let mut bytes = Vec::new();
        Request::new("5f0f0a5c-8f0a-4c1e-9d59-00000000000b", method)
            .with_params(raw)
            .write_to(&mut bytes);
        let Parsed::One(Ok(interzone_jsonrpc::Message::Request(read))) =
            parse(&bytes, &JsonRpcDoor)
        else {
            panic!("{}", String::from_utf8_lossy(&bytes));
        };
        assert_eq!(read.decode_params::<ExecuteTaskParams>().unwrap(), params);
    }
}

#[tokio::test]
async fn sc_004_every_documented_error_has_a_code_and_a_message() {
    let world = failing_world().await;
    let token = world.token("vz").await;
    let mut asked = 0;
    for word in ErrorWord::ALL {
        let text = format!("word {}", word.name());
        let answer = world.call(&token, "execute_task", params(&text)).await;
        let error = &checked(answer)["error"];
        assert!(!error["message"].as_str().unwrap().is_empty());
        asked += 1;
    }
    assert_eq!(asked, ErrorWord::ALL.len());
    let none = world.token_with("nobody", &["acp:agent:identify"]).await;
    for (token, status, code, word) in [
        ("rubbish", 401, -40007, "token_invalid"),
        (&none, 403, -40008, "insufficient_scope"),
    ] {
        for method in ["execute_task", "get_task_result", "cancel_task"] {
            let call = json!({"jsonrpc": "2.0", "id": "x", "method": method});
            let (told, headers, body) = world.post(token, call.to_string()).await;
            let answer = checked(serde_json::from_str(&body).unwrap());
            assert_eq!(
                (told.as_u16(), &answer["error"]["code"], &answer["id"]),
                (status, &json!(code), &json!("x"))
            );
            assert_eq!(answer["error"]["data"]["error_code"], word);
            assert!(headers.contains_key("www-authenticate"));
        }
    }
}

#[tokio::test]
async fn sc_005_pairs_of_request_and_response_are_found_by_their_ids() {
    let world = World::new().await;
    let token = world.token("vz").await;
    let id = "5f0f0a5c-8f0a-4c1e-9d59-00000000000c";
    let named =
        |text: &str, correlation: &str| params_with(text, &json!({"correlation_id": correlation}));
    let body = call(&json!(id), &named("echo hi", "corr-1")).to_string();
    let (_, headers, body) = world.post(&token, body).await;
    assert_eq!(headers["x-correlation-id"], "corr-1");
    let task = serde_json::from_str::<Value>(&body).unwrap()["result"]["task_id"].clone();
    let body = call(&json!(7), &named("fail", "not well-formed\n")).to_string();
    let (_, headers, _) = world.post(&token, body).await;
    let generated = headers["x-correlation-id"].to_str().unwrap().to_owned();
    assert!(!generated.contains(' '));
    let kept = world
        .hub
        .store()
        .task(&task.as_str().unwrap().parse().unwrap())
        .await;
    let metadata = kept.unwrap().unwrap().metadata.unwrap();
    assert_eq!(
        metadata.as_str(),
        format!(r#"{{"zone":{{"channel":"C1","correlation_id":"corr-1","rpc_id":"{id}"}}}}"#)
    );
    let path = world.path("audit.log");
    // What waits is written when the last who writes is gone.
    let _folder = world.end().await;
    let lines: Vec<Value> = std::fs::read_to_string(path)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let by = |name: &str, value: &str| -> Vec<&Value> {
        lines.iter().filter(|line| line[name] == value).collect()
    };
    let (by_id, by_name) = (by("id", id), by("correlation", "corr-1"));
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
    let failed = by("correlation", &generated);
    assert_eq!(failed.len(), 1);
    assert_eq!(
        (&failed[0]["outcome"], &failed[0]["id"], &failed[0]["code"]),
        (&json!("agent_failed"), &json!("7"), &json!(-32000))
    );
}
