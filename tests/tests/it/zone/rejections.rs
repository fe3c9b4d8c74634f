//! Requests rejected before a method runs: status, error code and headers.

use super::{ZoneFixture, ZoneFixtureOptions, error_code, user_message};
use http::{Request, StatusCode};
use http_body_util::Full;
use interzone_edge::limits::HttpLimits;
use interzone_jsonrpc::ErrorCode;
use interzone_protocol::Scope;
use interzone_protocol::acp::{Method, codes};
use serde_json::{Value, json};

fn call(method: &str) -> String {
    json!({"jsonrpc": "2.0", "id": "a", "method": method, "params": {"taskId": "t"}}).to_string()
}

#[tokio::test]
async fn invalid_envelope_returns_status_and_code() {
    let world = ZoneFixture::new().await;
    let token = world.token("alice").await;
    let deep = format!(
        r#"{{"jsonrpc":"2.0","id":1,"method":"tasks.get","params":{}{}}}"#,
        "[".repeat(2_000),
        "]".repeat(2_000)
    );
    for (body, status, code) in [
        ("", 400, ErrorCode::PARSE_ERROR),
        ("{", 400, ErrorCode::PARSE_ERROR),
        ("{} x", 400, ErrorCode::PARSE_ERROR),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"x","params":NaN}"#,
            400,
            ErrorCode::PARSE_ERROR,
        ),
        (&deep, 400, ErrorCode::PARSE_ERROR),
        ("[]", 400, ErrorCode::INVALID_REQUEST),
        ("7", 400, ErrorCode::INVALID_REQUEST),
        (
            r#"{"jsonrpc":"1.0","id":1,"method":"tasks.get"}"#,
            400,
            ErrorCode::INVALID_REQUEST,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1.5,"method":"tasks.get"}"#,
            400,
            ErrorCode::INVALID_REQUEST,
        ),
        (
            r#"{"jsonrpc":"2.0","id":true,"method":"tasks.get"}"#,
            400,
            ErrorCode::INVALID_REQUEST,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tasks.get","x":1}"#,
            400,
            ErrorCode::INVALID_REQUEST,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"result":1}"#,
            400,
            ErrorCode::INVALID_REQUEST,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"tasks.getBatch"}"#,
            200,
            ErrorCode::METHOD_NOT_FOUND,
        ),
        (
            r#"{"jsonrpc":"2.0","id":1,"method":"rpc.list"}"#,
            200,
            ErrorCode::METHOD_NOT_FOUND,
        ),
    ] {
        let (got, _, answer) = world.post(&token, body.to_owned()).await;
        assert_eq!(got.as_u16(), status, "{body}");
        let answer: Value = serde_json::from_str(&answer).unwrap();
        assert_eq!(error_code(&answer), code, "{body}");
    }
    let (status, _, answer) = world.post(&token, vec![b'"', 0xff, b'"']).await;
    assert_eq!(status, StatusCode::BAD_REQUEST, "{answer}");
}

#[tokio::test]
async fn invalid_token_returns_401_with_the_token_url() {
    let world = ZoneFixture::new().await;
    for (header, code) in [
        (None, codes::AUTHENTICATION_FAILED),
        (Some("Basic abc"), codes::AUTHENTICATION_FAILED),
        (Some("Bearer"), codes::AUTHENTICATION_FAILED),
        (Some("Bearer rubbish"), codes::AUTHENTICATION_FAILED),
        (
            Some("Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJhbGljZSJ9."),
            codes::AUTHENTICATION_FAILED,
        ),
    ] {
        let mut request = Request::post("/jsonrpc").header("content-type", "application/json");
        if let Some(header) = header {
            request = request.header("authorization", header);
        }
        let request = request.body(Full::from(call("tasks.get"))).unwrap();
        let (status, headers, body) = world.send(request).await;
        assert_eq!(status, StatusCode::UNAUTHORIZED, "{header:?}");
        let answer: Value = serde_json::from_str(&body).unwrap();
        assert_eq!(
            (error_code(&answer), &answer["id"]),
            (code, &json!("a")),
            "{header:?}"
        );
        let data = &answer["error"]["data"];
        assert_eq!(data["tokenUrl"], "https://zone.test/oauth2/token");
        assert_eq!(data["error"], "invalid_token");
        let challenge = headers["www-authenticate"].to_str().unwrap();
        assert!(challenge.starts_with("Bearer "), "{challenge}");
        assert!(challenge.contains("resource_metadata=\"https://zone.test/.well-known/"));
    }
    // Invalid JSON is reported before the missing token; other errors of the body are not.
    let unauthenticated = |body: &'static str| {
        Request::post("/jsonrpc")
            .header("content-type", "application/json")
            .body(Full::from(body))
            .unwrap()
    };
    assert_eq!(
        world.send(unauthenticated("{")).await.0,
        StatusCode::BAD_REQUEST
    );
    assert_eq!(
        world.send(unauthenticated("[]")).await.0,
        StatusCode::UNAUTHORIZED
    );
    let note = r#"{"jsonrpc":"2.0","method":"tasks.cancel","params":{"taskId":"t"}}"#;
    assert_eq!(
        world.send(unauthenticated(note)).await.0,
        StatusCode::UNAUTHORIZED
    );
}

#[tokio::test]
async fn method_without_a_required_scope_returns_403() {
    let world = ZoneFixture::new().await;
    for method in Method::ALL {
        let needed: Vec<&str> = method.scopes().iter().map(|scope| scope.name()).collect();
        for &missing in &needed {
            let granted: Vec<&str> = Scope::ALL
                .iter()
                .map(|scope| scope.name())
                .filter(|name| *name != missing)
                .collect();
            let client = format!("{}-{}", method.name(), missing.replace(':', "-"));
            let token = world.token_with(&client, &granted).await;
            let (status, headers, body) = world.post(&token, call(method.name())).await;
            assert_eq!(status, StatusCode::FORBIDDEN, "{body}");
            let answer: Value = serde_json::from_str(&body).unwrap();
            assert_eq!(error_code(&answer), codes::INSUFFICIENT_SCOPE);
            let data = &answer["error"]["data"];
            assert_eq!(data["requiredScopes"], json!(needed));
            assert_eq!(
                data["providedScopes"].as_array().unwrap().len(),
                granted.len()
            );
            let challenge = headers["www-authenticate"].to_str().unwrap();
            assert!(
                challenge.contains("error=\"insufficient_scope\""),
                "{challenge}"
            );
            assert!(challenge.contains(&needed.join(" ")), "{challenge}");
        }
    }
}

#[tokio::test]
async fn always_200_returns_200_unless_rate_limited() {
    let world = ZoneFixture::with_options(ZoneFixtureOptions {
        always_200: true,
        per_minute: 3,
        ..ZoneFixtureOptions::default()
    })
    .await;
    let token = world.token_with("alice", &["acp:agent:identify"]).await;
    for (token, body, status, code) in [
        (&*token, "{", 200, ErrorCode::PARSE_ERROR),
        (&token, "[]", 200, ErrorCode::INVALID_REQUEST),
        (
            "rubbish",
            &call("tasks.get"),
            200,
            codes::AUTHENTICATION_FAILED,
        ),
        (&token, &call("tasks.get"), 200, codes::INSUFFICIENT_SCOPE),
        (&token, &call("nope"), 200, ErrorCode::METHOD_NOT_FOUND),
        (&token, &call("nope"), 200, ErrorCode::METHOD_NOT_FOUND),
        (&token, &call("tasks.get"), 429, codes::RATE_LIMITED),
    ] {
        let (got, _, answer) = world.post(token, body.to_owned()).await;
        assert_eq!(got.as_u16(), status, "{answer}");
        assert_eq!(
            error_code(&serde_json::from_str(&answer).unwrap()),
            code,
            "{answer}"
        );
    }
}

#[tokio::test]
async fn rate_limited_caller_gets_429_with_retry_after() {
    let world = ZoneFixture::with_options(ZoneFixtureOptions {
        per_minute: 2,
        ..ZoneFixtureOptions::default()
    })
    .await;
    let alice = world.token("alice").await;
    let bob = world.token("bob").await;
    for _ in 0..2 {
        assert_eq!(
            world.post(&alice, call("tasks.get")).await.0,
            StatusCode::OK
        );
    }
    let (status, headers, body) = world.post(&alice, call("tasks.get")).await;
    assert_eq!(status, StatusCode::TOO_MANY_REQUESTS);
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(error_code(&answer), codes::RATE_LIMITED);
    let seconds = answer["error"]["data"]["retryAfter"].as_u64().unwrap();
    assert!((1..=60).contains(&seconds));
    assert_eq!(headers["retry-after"], seconds.to_string());
    assert_eq!(answer["error"]["data"]["limit"], 2);
    let code = world
        .call_error_code(&bob, "tasks.get", json!({"taskId": "t"}))
        .await;
    assert_eq!(code, codes::TASK_NOT_FOUND, "other callers are not limited");
}

#[tokio::test]
async fn wrong_verb_media_type_or_size_is_rejected() {
    let world = ZoneFixture::with_options(ZoneFixtureOptions {
        limits: HttpLimits {
            body_bytes: 500,
            ..HttpLimits::default()
        },
        ..ZoneFixtureOptions::default()
    })
    .await;
    let token = world.token("alice").await;
    for verb in ["GET", "PUT", "DELETE", "PATCH", "OPTIONS"] {
        for path in ["/jsonrpc", "/rpc"] {
            let request = Request::builder().method(verb).uri(path);
            let request = request.body(Full::default()).unwrap();
            let (status, headers, _) = world.send(request).await;
            assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED, "{verb} {path}");
            assert_eq!(headers["allow"], "POST");
        }
    }
    for (media_type, status) in [
        (Some("application/json"), 200),
        (Some("application/json; charset=utf-8"), 200),
        (Some("Application/JSON;charset=UTF-8"), 200),
        (Some("text/plain"), 415),
        (Some("application/jsonx"), 415),
        (None, 415),
    ] {
        let mut request = Request::post("/rpc").header("authorization", format!("Bearer {token}"));
        if let Some(media_type) = media_type {
            request = request.header("content-type", media_type);
        }
        let request = request.body(Full::from(call("tasks.get"))).unwrap();
        let (got, _, body) = world.send(request).await;
        assert_eq!(got.as_u16(), status, "{media_type:?} {body}");
    }
    let params = json!({"initialMessage": user_message(&"x".repeat(500))});
    let large = json!({"jsonrpc": "2.0", "id": 1, "method": "tasks.create", "params": params});
    let (status, _, body) = world.post(&token, large.to_string()).await;
    assert_eq!(status, StatusCode::PAYLOAD_TOO_LARGE);
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(
        (error_code(&answer), &answer["id"]),
        (ErrorCode::INVALID_REQUEST, &Value::Null)
    );
}

#[tokio::test]
async fn correlation_id_and_trace_id_are_returned() {
    let world = ZoneFixture::new().await;
    let request = |name: &str, value: &str| {
        Request::post("/jsonrpc")
            .header(name, value)
            .body(Full::from("{"))
            .unwrap()
    };
    let (_, headers, _) = world.send(request("x-correlation-id", "abc-1")).await;
    assert_eq!(headers["x-correlation-id"], "abc-1");
    let (_, headers, _) = world.send(request("x-correlation-id", "a b")).await;
    assert_eq!(
        headers["x-correlation-id"].len(),
        36,
        "an invalid id is replaced"
    );
    let parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
    let (_, headers, _) = world.send(request("traceparent", parent)).await;
    let returned = headers["traceparent"].to_str().unwrap();
    assert!(
        returned.starts_with("00-0af7651916cd43dd8448eb211c80319c-"),
        "{returned}"
    );
    assert_ne!(returned, parent);
    assert_eq!(headers["cache-control"], "no-store");
    assert_eq!(headers["x-content-type-options"], "nosniff");
    assert!(!headers.contains_key("access-control-allow-origin"));
}

#[tokio::test]
async fn expired_token_returns_token_expired() {
    let world = ZoneFixture::new().await;
    let token = world.token("alice").await;
    world.clock.advance(std::time::Duration::from_secs(1_000));
    let (status, headers, body) = world.post(&token, call("tasks.get")).await;
    assert_eq!(status, StatusCode::UNAUTHORIZED);
    let answer: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(error_code(&answer), codes::TOKEN_EXPIRED);
    let challenge = headers["www-authenticate"].to_str().unwrap();
    assert!(challenge.contains("error=\"invalid_token\""), "{challenge}");
}

#[tokio::test]
async fn panicking_handler_fails_only_its_own_call() {
    let world = ZoneFixture::new().await;
    let token = world.token("alice").await;
    let broken = json!({"initialMessage": user_message("x"), "assignTo": "zz-broken"});
    let broken = json!({"jsonrpc": "2.0", "id": 1, "method": "tasks.create", "params": broken});
    let (status, _, body) = world.post(&token, broken.to_string()).await;
    assert_eq!(status, StatusCode::INTERNAL_SERVER_ERROR);
    assert_eq!(
        error_code(&serde_json::from_str(&body).unwrap()),
        ErrorCode::INTERNAL_ERROR
    );
    assert!(!body.contains("broken"), "{body}");
    let good = json!({"jsonrpc": "2.0", "id": 2, "method": "stream.start"});
    let (status, _, body) = world.post(&token, json!([broken, good]).to_string()).await;
    let answers: Vec<Value> = serde_json::from_str(&body).unwrap();
    assert_eq!(status, StatusCode::OK);
    assert_eq!(error_code(&answers[0]), ErrorCode::INTERNAL_ERROR);
    assert_eq!(answers[1]["result"]["type"], "stream");
}
