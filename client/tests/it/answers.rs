//! Answers that cannot be trusted, and refusals of every kind.

use crate::script::{Script, Step, task_result};
use interzone_client::{AnswerFault, Client, ConfigError, Error};
use interzone_protocol::acp::{TasksGetParams, codes};
use serde_json::{Value, json};
use std::time::Duration;

fn get() -> TasksGetParams {
    TasksGetParams {
        task_id: "t-1".to_owned(),
        include_messages: None,
        include_artifacts: None,
    }
}

async fn answered(step: impl Fn(&crate::script::Seen) -> Step + Send + Sync + 'static) -> Error {
    let client = Script::new(step)
        .builder()
        .retry(interzone_client::RetryPolicy::never())
        .max_response(1000)
        .build()
        .unwrap();
    client.tasks_get(&get()).await.unwrap_err()
}

#[tokio::test]
async fn ids_must_agree_in_type_and_value() {
    for wrong in [json!(99), json!("1"), json!(null), json!("")] {
        let sent = wrong.clone();
        let error = answered(move |_| {
            let answer = json!({"jsonrpc": "2.0", "id": sent, "result": task_result("t-1")});
            Step::json(200, &answer)
        })
        .await;
        let Error::Answer(AnswerFault::IdMismatch { expected, received }) = error else {
            panic!("{wrong}: {error:?}");
        };
        assert_eq!((expected.as_str(), received), ("1", wrong.to_string()));
    }
}

#[tokio::test]
async fn another_call_s_error_is_not_ours_either() {
    let error = answered(|_| {
        let error = json!({"code": -40001, "message": "no"});
        Step::json(200, &json!({"jsonrpc": "2.0", "id": 7, "error": error}))
    })
    .await;
    assert!(matches!(
        error,
        Error::Answer(AnswerFault::IdMismatch { .. })
    ));
}

#[tokio::test]
async fn an_error_without_an_id_is_ours() {
    let error = answered(|_| {
        let error = json!({"code": -32700, "message": "Parse error"});
        Step::json(400, &json!({"jsonrpc": "2.0", "id": null, "error": error}))
    })
    .await;
    assert_eq!(error.code().unwrap().get(), -32700);
    assert!(!error.is_retryable());
}

#[tokio::test]
async fn broken_answers_are_told_apart() {
    type Check = fn(&Error) -> bool;
    let envelope: Check = |error| matches!(error, Error::Answer(AnswerFault::Envelope(_)));
    let kind: Check = |error| matches!(error, Error::Answer(AnswerFault::Kind));
    let media: Check = |error| matches!(error, Error::Answer(AnswerFault::ContentType { .. }));
    let large: Check =
        |error| matches!(error, Error::Answer(AnswerFault::TooLarge { limit: 1000 }));
    let result: Check = |error| matches!(error, Error::Answer(AnswerFault::Result(_)));
    let http: Check = |error| matches!(error, Error::Http { .. });
    let json = |body: &str| Step::text(200, "application/json", body);
    let error = r#"{"code":1,"message":"m"}"#;
    let cases: Vec<(Step, Check)> = vec![
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
        (Step::text(200, "text/html", "<p>hello"), media),
        (Step::text(200, "application/jsonx", "{}"), media),
        (Step::text(502, "text/html", "<p>bad gateway"), http),
        (
            Step::text(500, "application/json", r#"{"oops":true}"#),
            http,
        ),
        (Step::text(404, "application/json", "null"), http),
        (Step::status(204), http),
        (
            Step::status(302).with("location", "https://other.test/jsonrpc"),
            http,
        ),
        (json(&format!("\"{}\"", "x".repeat(2000))), large),
        (json("{}").with("content-length", "1001"), large),
    ];
    for (step, check) in cases {
        let said = format!("{step:?}");
        let error = answered(move |_| step.clone()).await;
        assert!(check(&error), "{said}: {error:?}");
    }
}

#[tokio::test]
async fn refusals_are_read_whatever_the_status() {
    for (status, code) in [
        (200, -40001),
        (401, -40007),
        (403, -40008),
        (429, -32003),
        (500, -32603),
    ] {
        let data = json!({"taskId": "t-1", "requiredScopes": ["acp:tasks:read"]});
        let sent = data.clone();
        let error = answered(move |seen| seen.error(status, code, sent.clone())).await;
        let refusal = error
            .refusal()
            .unwrap_or_else(|| panic!("{status}: {error:?}"));
        assert_eq!(i64::from(refusal.code.get()), code);
        assert_eq!(refusal.message, "no");
        assert_eq!(refusal.status.as_u16(), status);
        assert_eq!(
            refusal.data.as_ref().unwrap().decode::<Value>().unwrap(),
            data
        );
        assert_eq!(refusal.detail::<String>("taskId").as_deref(), Some("t-1"));
        assert_eq!(
            error.is_retryable(),
            status == 429 || status == 500,
            "{status}"
        );
    }
}

#[tokio::test]
async fn how_long_to_wait_is_read_from_header_or_data() {
    let error = answered(|seen| {
        let step = seen.error(
            429,
            codes::RATE_LIMITED.get().into(),
            json!({"retryAfter": 7}),
        );
        step.with("retry-after", "9")
    })
    .await;
    assert_eq!(error.retry_after(), Some(Duration::from_secs(9)));
    let error = answered(|seen| seen.error(200, -32003, json!({"retryAfter": 7}))).await;
    assert_eq!(error.retry_after(), Some(Duration::from_secs(7)));
    let error = answered(|_| Step::status(503).with("retry-after", "99999999999999")).await;
    assert_eq!(error.retry_after(), None, "nobody means that");
}

#[test]
fn addresses_are_checked() {
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
