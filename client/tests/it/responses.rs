//! Invalid responses, and errors of every kind.

use crate::scripted_peer::{PeerAction, ScriptedPeer, task_result};
use interzone_client::{Client, ConfigError, Error, InvalidResponse};
use interzone_protocol::acp::{TasksGetParams, codes};
use serde_json::{Value, json};
use std::time::Duration;

fn get_params() -> TasksGetParams {
    TasksGetParams {
        task_id: "t-1".to_owned(),
        include_messages: None,
        include_artifacts: None,
    }
}

async fn error_for(
    step: impl Fn(&crate::scripted_peer::RecordedRequest) -> PeerAction + Send + Sync + 'static,
) -> Error {
    let client = ScriptedPeer::new(step)
        .builder()
        .retry(interzone_client::RetryPolicy::never())
        .max_response(1000)
        .build()
        .unwrap();
    client.tasks_get(&get_params()).await.unwrap_err()
}

#[tokio::test]
async fn response_id_must_match_in_type_and_value() {
    for wrong in [json!(99), json!("1"), json!(null), json!("")] {
        let sent = wrong.clone();
        let error = error_for(move |_| {
            let answer = json!({"jsonrpc": "2.0", "id": sent, "result": task_result("t-1")});
            PeerAction::json(200, &answer)
        })
        .await;
        let Error::InvalidResponse(InvalidResponse::IdMismatch { expected, received }) = error
        else {
            panic!("{wrong}: {error:?}");
        };
        assert_eq!((expected.as_str(), received), ("1", wrong.to_string()));
    }
}

#[tokio::test]
async fn error_response_with_other_id_is_rejected() {
    let error = error_for(|_| {
        let error = json!({"code": -40001, "message": "no"});
        PeerAction::json(200, &json!({"jsonrpc": "2.0", "id": 7, "error": error}))
    })
    .await;
    assert!(matches!(
        error,
        Error::InvalidResponse(InvalidResponse::IdMismatch { .. })
    ));
}

#[tokio::test]
async fn error_response_without_id_is_accepted() {
    let error = error_for(|_| {
        let error = json!({"code": -32700, "message": "Parse error"});
        PeerAction::json(400, &json!({"jsonrpc": "2.0", "id": null, "error": error}))
    })
    .await;
    assert_eq!(error.code().unwrap().get(), -32700);
    assert!(!error.is_retryable());
}

#[tokio::test]
async fn invalid_responses_are_distinguished() {
    type Check = fn(&Error) -> bool;
    let envelope: Check =
        |error| matches!(error, Error::InvalidResponse(InvalidResponse::Envelope(_)));
    let kind: Check = |error| {
        matches!(
            error,
            Error::InvalidResponse(InvalidResponse::UnexpectedKind)
        )
    };
    let media: Check = |error| {
        matches!(
            error,
            Error::InvalidResponse(InvalidResponse::ContentType { .. })
        )
    };
    let large: Check = |error| {
        matches!(
            error,
            Error::InvalidResponse(InvalidResponse::TooLarge { limit: 1000 })
        )
    };
    let result: Check = |error| {
        matches!(
            error,
            Error::InvalidResponse(InvalidResponse::InvalidResult(_))
        )
    };
    let http: Check = |error| matches!(error, Error::Http { .. });
    let json = |body: &str| PeerAction::text(200, "application/json", body);
    let error = r#"{"code":1,"message":"m"}"#;
    let cases: Vec<(PeerAction, Check)> = vec![
        (
            json(&format!(
                r#"{{"jsonrpc":"2.0","id":1,"result":1,"error":{error}}}"#
            )),
            envelope,
        ),
        (json(r#"{"jsonrpc":"2.0","id":1}"#), envelope),
        (json(r#"{"id":1,"result":1}"#), envelope),
        (json("not JSON"), envelope),
        (json(""), envelope),
        (json(r#"{"jsonrpc":"2.0","id":1,"method":"m"}"#), kind),
        (json(r#"[{"jsonrpc":"2.0","id":1,"result":1}]"#), kind),
        (json(r#"{"jsonrpc":"2.0","id":1,"result":1}"#), result),
        (
            json(r#"{"jsonrpc":"2.0","id":1,"result":{"type":"task"}}"#),
            result,
        ),
        (
            json(r#"{"jsonrpc":"2.0","id":1,"result":{"type":"success","message":"m"}}"#),
            result,
        ),
        (PeerAction::text(200, "text/html", "<p>hello"), media),
        (PeerAction::text(200, "application/jsonx", "{}"), media),
        (PeerAction::text(502, "text/html", "<p>bad gateway"), http),
        (
            PeerAction::text(500, "application/json", r#"{"oops":true}"#),
            http,
        ),
        (PeerAction::text(404, "application/json", "null"), http),
        (PeerAction::status(204), http),
        (
            PeerAction::status(302).with_header("location", "https://other.test/jsonrpc"),
            http,
        ),
        (json(&format!("\"{}\"", "x".repeat(2000))), large),
        (json("{}").with_header("content-length", "1001"), large),
    ];
    for (step, check) in cases {
        let description = format!("{step:?}");
        let error = error_for(move |_| step.clone()).await;
        assert!(check(&error), "{description}: {error:?}");
    }
}

#[tokio::test]
async fn rpc_errors_are_read_with_any_status() {
    for (status, code) in [
        (200, -40001),
        (401, -40007),
        (403, -40008),
        (429, -32003),
        (500, -32603),
    ] {
        let data = json!({"taskId": "t-1", "requiredScopes": ["acp:tasks:read"]});
        let sent = data.clone();
        let error = error_for(move |request| request.error(status, code, sent.clone())).await;
        let rpc_error = error
            .rpc_error()
            .unwrap_or_else(|| panic!("{status}: {error:?}"));
        assert_eq!(i64::from(rpc_error.code.get()), code);
        assert_eq!(rpc_error.message, "no");
        assert_eq!(rpc_error.status.as_u16(), status);
        assert_eq!(
            rpc_error.data.as_ref().unwrap().decode::<Value>().unwrap(),
            data
        );
        assert_eq!(
            rpc_error.data_field::<String>("taskId").as_deref(),
            Some("t-1")
        );
        assert_eq!(
            error.is_retryable(),
            status == 429 || status == 500,
            "{status}"
        );
    }
}

#[tokio::test]
async fn retry_after_is_read_from_header_or_data() {
    let error = error_for(|request| {
        let step = request.error(
            429,
            codes::RATE_LIMITED.get().into(),
            json!({"retryAfter": 7}),
        );
        step.with_header("retry-after", "9")
    })
    .await;
    assert_eq!(error.retry_after(), Some(Duration::from_secs(9)));
    let error = error_for(|request| request.error(200, -32003, json!({"retryAfter": 7}))).await;
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    let error =
        error_for(|_| PeerAction::status(503).with_header("retry-after", "99999999999999")).await;
    assert_eq!(error.retry_after(), None, "an absurd value is ignored");
}

#[test]
fn base_urls_are_validated() {
    let build = |url: &str| Client::builder(url).build();
    for url in [
        "http://agent.test",
        "http://127.0.0.1:8443",
        "HTTP://agent.test/",
    ] {
        let refused = build(url);
        assert!(
            matches!(refused, Err(Error::Config(ConfigError::PlainHttp { .. }))),
            "{url}"
        );
    }
    for url in [
        "",
        "agent.test",
        "ftp://agent.test",
        "file:///etc/passwd",
        "https://",
    ] {
        assert!(
            matches!(build(url), Err(Error::Config(ConfigError::Address))),
            "{url}"
        );
    }
    let user = build("https://me:secret@agent.test");
    assert!(matches!(user, Err(Error::Config(ConfigError::UserInfo))));
    let http = Client::builder("http://127.0.0.1:1")
        .allow_http(true)
        .build();
    assert_eq!(http.unwrap().url().as_str(), "http://127.0.0.1:1/");
    let named = build("https://agent.test/base/jsonrpc").unwrap();
    assert_eq!(named.url().as_str(), "https://agent.test/base");
}
