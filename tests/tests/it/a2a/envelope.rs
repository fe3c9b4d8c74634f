//! Versions, envelopes, batches, and what is refused before a method runs.

use super::{A2aZone, error_of, refused, send_params, send_params_v03};
use http::StatusCode;
use serde_json::{Value, json};

fn get_task(method: &str) -> String {
    let params = json!({"id": "no-such-task"});
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params}).to_string()
}

#[tokio::test]
async fn version_refuses_only_what_is_not_served() {
    let zone = A2aZone::new().await;
    let token = zone.zone.token("anna").await;
    for (version, is_served) in [
        ("", true),
        ("0.3", true),
        ("0.3.0", true),
        ("1", true),
        ("1.0, 1.0", true),
        ("1.0.1", true),
        ("1.1", false),
        ("0.2", false),
        ("v1.0", false),
        ("99.0", false),
    ] {
        for method in ["GetTask", "tasks/get"] {
            let headers = [("A2A-Version", version)];
            let by_header = zone.post(&token, "/a2a", &headers, get_task(method)).await;
            let query = version.replace(' ', "%20");
            let path = format!("/a2a?a2a-version={query}");
            let by_query = zone.post(&token, &path, &[], get_task(method)).await;
            for (status, _, body) in [by_header, by_query] {
                assert_eq!(status, StatusCode::OK);
                let expected = match is_served {
                    true => refused(-32001, "TASK_NOT_FOUND"),
                    false => refused(-32009, "VERSION_NOT_SUPPORTED"),
                };
                assert_eq!(error_of(&body), expected, "{version} {method}");
                if !is_served {
                    let metadata = &body["error"]["data"][0]["metadata"];
                    assert_eq!(
                        *metadata,
                        json!({"requested": version, "supported": "0.3,1.0"})
                    );
                }
            }
        }
    }
}

#[tokio::test]
async fn request_without_id_is_answered_with_null_id() {
    let zone = A2aZone::new().await;
    let token = zone.zone.token("anna").await;
    for path in ["/a2a", "/a2a/", "/jsonrpc"] {
        let call = json!({"jsonrpc": "2.0", "method": "GetTask", "params": {"id": "x"}});
        let (status, _, body) = zone.post(&token, path, &[], call.to_string()).await;
        assert_eq!(
            (status, body.get("id")),
            (StatusCode::OK, Some(&Value::Null))
        );
        assert_eq!(error_of(&body), refused(-32001, "TASK_NOT_FOUND"));
    }
}

#[tokio::test]
async fn invalid_requests_have_status_200_and_error_info() {
    let zone = A2aZone::new().await;
    let token = zone.zone.token("anna").await;
    for (body, expected) in [
        ("{", refused(-32700, "INVALID_REQUEST")),
        ("[]", refused(-32600, "INVALID_REQUEST")),
        ("1", refused(-32600, "INVALID_REQUEST")),
        (
            r#"{"jsonrpc":"1.0","id":1,"method":"GetTask"}"#,
            refused(-32600, "INVALID_REQUEST"),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1.5,"method":"GetTask"}"#,
            refused(-32600, "INVALID_REQUEST"),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tasks/list"}"#,
            refused(-32601, "METHOD_NOT_FOUND"),
        ),
        // Only A2A is served here.
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tasks.list"}"#,
            refused(-32601, "METHOD_NOT_FOUND"),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"GetTask","params":[]}"#,
            refused(-32602, "INVALID_PARAMS"),
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"GetTask"}"#,
            refused(-32602, "INVALID_PARAMS"),
        ),
    ] {
        let (status, _, answer) = zone.post(&token, "/a2a", &[], body).await;
        assert_eq!(
            (status, error_of(&answer)),
            (StatusCode::OK, expected),
            "{body}"
        );
        assert!(answer.get("id").is_some() && answer.get("result").is_none());
    }
}

#[tokio::test]
async fn invalid_param_is_named_in_a_bad_request_detail() {
    let zone = A2aZone::new().await;
    let token = zone.zone.token("anna").await;
    let params = json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": []}});
    let body = zone.call_at(&token, "/a2a", "SendMessage", params).await;
    let detail = &body["error"]["data"][1];
    assert_eq!(detail["@type"], "type.googleapis.com/google.rpc.BadRequest");
    assert_eq!(detail["fieldViolations"][0]["field"], "message.parts");
}

#[tokio::test]
async fn batch_answers_every_call() {
    let zone = A2aZone::new().await;
    let token = zone.zone.token("anna").await;
    let send = json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": send_params("echo a")});
    let old = json!({"jsonrpc": "2.0", "id": "2", "method": "message/send", "params": send_params_v03("echo b")});
    let stream = json!({"jsonrpc": "2.0", "id": 3, "method": "message/stream", "params": {}});
    let batch = json!([send, old, stream, {"jsonrpc": "2.0", "method": "GetTask"}]);
    let key = [("Idempotency-Key", "not a key: ignored here")];
    let (status, _, body) = zone.post(&token, "/a2a", &key, batch.to_string()).await;
    assert_eq!(status, StatusCode::OK);
    let answers = body.as_array().unwrap();
    let answer = |id: Value| answers.iter().find(|answer| answer["id"] == id).unwrap();
    assert_eq!(answers.len(), 4);
    assert_eq!(
        answer(json!(1))["result"]["message"]["parts"][0]["text"],
        "a"
    );
    assert_eq!(answer(json!("2"))["result"]["parts"][0]["text"], "b");
    assert_eq!(error_of(answer(json!(3))).0, -32004);
    assert_eq!(error_of(answer(Value::Null)).0, -32602);
}

#[tokio::test]
async fn caller_without_token_or_scope_is_refused_outside_status_200() {
    let zone = A2aZone::new().await;
    let (status, headers, body) = zone
        .post("nonsense", "/a2a", &[], get_task("GetTask"))
        .await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    assert_eq!(error_of(&body), refused(-32000, "UNAUTHENTICATED"));
    let challenge = headers["www-authenticate"].to_str().unwrap();
    assert!(challenge.starts_with("Bearer "), "{challenge}");
    assert!(challenge.contains("/.well-known/oauth-protected-resource"));

    let reader = zone
        .zone
        .token_with_scopes("reader", &["acp:agent:identify", "acp:tasks:read"]);
    let reader = reader.await;
    let call =
        json!({"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": send_params("x")});
    let (status, headers, body) = zone.post(&reader, "/a2a", &[], call.to_string()).await;
    assert_eq!(status, StatusCode::FORBIDDEN);
    assert_eq!(error_of(&body), refused(-32000, "PERMISSION_DENIED"));
    assert!(
        headers["www-authenticate"]
            .to_str()
            .unwrap()
            .contains("insufficient_scope")
    );
}

#[tokio::test]
async fn media_type_of_the_request_is_any_json() {
    let zone = A2aZone::new().await;
    let token = zone.zone.token("anna").await;
    for (path, media_type, expected) in [
        ("/a2a", "application/a2a+json; charset=utf-8", 200),
        ("/a2a", "application/x+json", 200),
        ("/jsonrpc", "application/a2a+json", 200),
        ("/jsonrpc", "application/x+json", 415),
        ("/a2a", "text/plain", 415),
    ] {
        let headers = [("content-type", media_type)];
        let (status, _, body) = zone.post(&token, path, &headers, get_task("GetTask")).await;
        assert_eq!(status, expected, "{path} {media_type}: {body}");
        if (path, expected) == ("/a2a", 415) {
            assert_eq!(
                error_of(&body),
                refused(-32005, "CONTENT_TYPE_NOT_SUPPORTED")
            );
        }
    }
}

#[tokio::test]
async fn undeclared_capabilities_are_refused_by_their_errors() {
    let zone = A2aZone::new().await;
    let token = zone.zone.token("anna").await;
    let push = refused(-32003, "PUSH_NOTIFICATION_NOT_SUPPORTED");
    let unsupported = refused(-32004, "UNSUPPORTED_OPERATION");
    let no_card = refused(-32007, "EXTENDED_AGENT_CARD_NOT_CONFIGURED");
    for (method, expected) in [
        ("CreateTaskPushNotificationConfig", &push),
        ("tasks/pushNotificationConfig/get", &push),
        ("ListTaskPushNotificationConfigs", &push),
        ("tasks/pushNotificationConfig/delete", &push),
        ("GetExtendedAgentCard", &unsupported),
        ("agent/getAuthenticatedExtendedCard", &no_card),
    ] {
        assert_eq!(
            &zone.call_error(&token, method, json!({})).await,
            expected,
            "{method}"
        );
    }
    let mut params = send_params("x");
    params["configuration"] = json!({"taskPushNotificationConfig": {"url": "https://a.test"}});
    assert_eq!(zone.call_error(&token, "SendMessage", params).await, push);
}

#[tokio::test]
async fn refused_stream_has_the_form_that_its_client_reads() {
    let zone = A2aZone::new().await;
    let token = zone.zone.token("anna").await;
    for (method, headers, is_event) in [
        ("message/stream", vec![], true),
        ("message/stream", vec![("A2A-Version", "0.3")], false),
        ("SendStreamingMessage", vec![], false),
        (
            "SendStreamingMessage",
            vec![("user-agent", "Go-http-client/2.0")],
            true,
        ),
    ] {
        let call = json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": {}});
        let (status, received, body) = zone.post(&token, "/a2a", &headers, call.to_string()).await;
        assert_eq!(status, StatusCode::OK);
        let media_type = received["content-type"].to_str().unwrap();
        assert_eq!(
            media_type.starts_with("text/event-stream"),
            is_event,
            "{method}: {body}"
        );
        if is_event {
            let event = body.as_str().unwrap().strip_prefix("data: ").unwrap();
            let event: Value = serde_json::from_str(event.trim_end()).unwrap();
            assert_eq!(error_of(&event).0, -32602);
        }
    }
}
