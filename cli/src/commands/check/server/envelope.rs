//! Envelope checks: what JSON-RPC 2.0 requires of every server.

use super::check_result::{CheckFailure, CheckOutcome, Checks};
use super::http_client::CheckClient;
use super::response::ServerResponse;
use interzone_jsonrpc::ErrorCode;
use interzone_protocol::acp::{Method, codes};
use serde_json::Value;

const REQUEST: &str = "JSON-RPC 2.0 §4";
const NOTIFICATION: &str = "JSON-RPC 2.0 §4.1";
const RESPONSE: &str = "JSON-RPC 2.0 §5";
const ERROR: &str = "JSON-RPC 2.0 §5.1";
const BATCH: &str = "JSON-RPC 2.0 §6";

const PARSE: &[ErrorCode] = &[ErrorCode::PARSE_ERROR];
const INVALID: &[ErrorCode] = &[ErrorCode::INVALID_REQUEST];
const UNKNOWN: &[ErrorCode] = &[ErrorCode::METHOD_NOT_FOUND];
/// For cases in which a server may stop parsing at different points.
const ANY_REFUSAL: &[ErrorCode] = &[
    ErrorCode::PARSE_ERROR,
    ErrorCode::INVALID_REQUEST,
    ErrorCode::INVALID_PARAMS,
    ErrorCode::METHOD_NOT_FOUND,
];

/// Bodies that are not valid messages, with the expected error codes.
const REFUSALS: &[(&str, &[u8], &[ErrorCode], &str)] = &[
    (
        "truncated JSON",
        b"{\"jsonrpc\":\"2.0\",\"method\"",
        PARSE,
        ERROR,
    ),
    ("an empty body", b"", PARSE, ERROR),
    ("text that is not JSON", b"hello", PARSE, ERROR),
    ("two values", b"{} {}", PARSE, ERROR),
    (
        "NaN",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"params\":[NaN],\"id\":1}",
        PARSE,
        ERROR,
    ),
    (
        "invalid UTF-8",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"\xff\",\"id\":1}",
        PARSE,
        ERROR,
    ),
    (
        "no version",
        b"{\"method\":\"a\",\"id\":1}",
        INVALID,
        REQUEST,
    ),
    (
        "version 1.0",
        b"{\"jsonrpc\":\"1.0\",\"method\":\"a\",\"id\":1}",
        INVALID,
        REQUEST,
    ),
    (
        "version as a number",
        b"{\"jsonrpc\":2.0,\"method\":\"a\",\"id\":1}",
        INVALID,
        REQUEST,
    ),
    (
        "no method",
        b"{\"jsonrpc\":\"2.0\",\"id\":1}",
        INVALID,
        REQUEST,
    ),
    (
        "a method that is a number",
        b"{\"jsonrpc\":\"2.0\",\"method\":1,\"id\":1}",
        INVALID,
        REQUEST,
    ),
    (
        "an id that is an object",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"id\":{}}",
        INVALID,
        REQUEST,
    ),
    (
        "an id that is an array",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"id\":[1]}",
        INVALID,
        REQUEST,
    ),
    (
        "an id that is true",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"id\":true}",
        INVALID,
        REQUEST,
    ),
    (
        "an id with a fraction",
        b"{\"jsonrpc\":\"2.0\",\"method\":\"a\",\"id\":1.5}",
        INVALID,
        REQUEST,
    ),
    ("a string", b"\"a\"", INVALID, REQUEST),
    ("an empty batch", b"[]", INVALID, BATCH),
];

/// Ids that must be echoed exactly.
const IDS: &[&str] = &[
    "\"a\"",
    "\"\"",
    "\"1\"",
    "\"\\u00e9 \\\"quoted\\\"\"",
    "0",
    "1",
    "-7",
    "9007199254740993",
    "9223372036854775807",
];

/// A method that no server has.
const UNKNOWN_METHOD: &str = "interzone.check.nothing";

pub(super) async fn check(probe: &CheckClient, acp: bool, out: &mut Checks) {
    out.group("envelope");
    if let Err(flaw) = probe.require_token()
        && let Ok(answer) = probe.post(call("1")).await
        && answer.status == http::StatusCode::UNAUTHORIZED
    {
        out.record("all envelope checks", REQUEST, Err(flaw));
        return;
    }
    out.record(
        "an unknown method is refused",
        ERROR,
        unknown_method_is_refused(probe).await,
    );
    for id in IDS {
        out.record(
            format!("id {id} is echoed"),
            RESPONSE,
            id_is_echoed(probe, id).await,
        );
    }
    out.record(
        "id null is answered",
        RESPONSE,
        null_id_is_answered(probe).await,
    );
    out.record(
        "a notification is not answered",
        NOTIFICATION,
        notification_has_no_response(probe).await,
    );
    for (name, body, codes, reference) in REFUSALS {
        let found = invalid_body_is_refused(probe, body, codes).await;
        out.record(format!("refused: {name}"), reference, found);
    }
    out.record(
        "params that are a string are refused",
        REQUEST,
        scalar_params_are_refused(probe).await,
    );
    out.record(
        "an unknown member",
        "ACP §2",
        unknown_member(probe, acp).await,
    );
    out.record(
        "100,000 levels of nesting are handled",
        ERROR,
        deep_nesting_is_handled(probe).await,
    );
    out.record(
        "a batch is answered item by item",
        BATCH,
        batch(probe).await,
    );
    out.record(
        "an invalid batch is answered item by item",
        BATCH,
        invalid_batch(probe).await,
    );
    out.record(
        "a batch of notifications is not answered",
        BATCH,
        silent_batch(probe).await,
    );
    out.record(
        "a batch of 10,000 is refused or answered",
        BATCH,
        large_batch(probe).await,
    );
}

fn call(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{UNKNOWN_METHOD}","id":{id}}}"#)
}

fn notification() -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{UNKNOWN_METHOD}"}}"#)
}

async fn unknown_method_is_refused(probe: &CheckClient) -> CheckOutcome {
    probe.post(call("1")).await?.refused_with(UNKNOWN)
}

async fn id_is_echoed(probe: &CheckClient, id: &str) -> CheckOutcome {
    let answer = probe.post(call(id)).await?;
    let response = answer.response()?;
    let sent: Value = serde_json::from_str(id).unwrap_or_default();
    match response.get("id") {
        Some(echoed) if *echoed == sent => Ok(String::new()),
        Some(echoed) => Err(CheckFailure::violation(format!(
            "{} is returned",
            crate::printable::quoted(&echoed.to_string())
        ))),
        None => Err(CheckFailure::violation("the response has no id")),
    }
}

async fn null_id_is_answered(probe: &CheckClient) -> CheckOutcome {
    let answer = probe.post(call("null")).await?;
    if answer.body.is_empty() {
        return Err(CheckFailure::warning("it is treated as a notification"));
    }
    match answer.response()?.get("id") {
        Some(Value::Null) => Ok(String::new()),
        _ => Err(CheckFailure::violation("a different id is returned")),
    }
}

async fn notification_has_no_response(probe: &CheckClient) -> CheckOutcome {
    probe.post(notification()).await?.has_no_response()
}

async fn invalid_body_is_refused(
    probe: &CheckClient,
    body: &'static [u8],
    codes: &[ErrorCode],
) -> CheckOutcome {
    let answer = probe.post(body).await?;
    if answer.status.is_server_error() {
        return Err(CheckFailure::violation(format!(
            "HTTP {}",
            answer.status.as_u16()
        )));
    }
    let reply = answer.refused_with(codes)?;
    // Without a parsable request there is no id to echo.
    if codes == PARSE && answer.response()?.get("id") != Some(&Value::Null) {
        return Err(CheckFailure::violation("the response id is not null"));
    }
    Ok(reply)
}

async fn scalar_params_are_refused(probe: &CheckClient) -> CheckOutcome {
    let body = format!(r#"{{"jsonrpc":"2.0","method":"{UNKNOWN_METHOD}","params":"a","id":1}}"#);
    let answer = probe.post(body).await?;
    let reply = answer.refused_with(ANY_REFUSAL)?;
    match answer.refused_with(UNKNOWN) {
        Ok(_) => Ok(format!("{reply}, as the method is checked first")),
        Err(_) => Ok(reply),
    }
}

/// JSON-RPC does not specify unknown members; ACP forbids them.
async fn unknown_member(probe: &CheckClient, acp: bool) -> CheckOutcome {
    let method = if acp {
        Method::TasksGet.name()
    } else {
        UNKNOWN_METHOD
    };
    let params = r#"{"taskId":"interzone-check"}"#;
    let body =
        format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params},"id":1,"extra":true}}"#);
    let answer = probe.post(body).await?;
    match answer.refused_with(INVALID) {
        Ok(reply) => Ok(reply),
        Err(_) if !acp => answer.refused_with(UNKNOWN).map(|_| "ignored".to_owned()),
        Err(_) => match answer.refused_with(&[codes::TASK_NOT_FOUND]) {
            Ok(_) => Err(CheckFailure::warning(
                "ignored; ACP's schema allows no other members",
            )),
            Err(flaw) => Err(flaw),
        },
    }
}

async fn deep_nesting_is_handled(probe: &CheckClient) -> CheckOutcome {
    let deep = 100_000;
    let (open, close) = ("[".repeat(deep), "]".repeat(deep));
    let body =
        format!(r#"{{"jsonrpc":"2.0","method":"{UNKNOWN_METHOD}","params":{open}{close},"id":1}}"#);
    let answer = probe.post(body).await?;
    if answer.status.is_server_error() {
        return Err(CheckFailure::violation(format!(
            "HTTP {}",
            answer.status.as_u16()
        )));
    }
    answer.refused_with(ANY_REFUSAL)
}

fn items(answer: &ServerResponse) -> Result<Vec<Value>, CheckFailure> {
    match answer.json()? {
        Value::Array(items) => Ok(items),
        _ => Err(CheckFailure::violation(format!(
            "expected an array, got {}",
            answer.summary()
        ))),
    }
}

fn code(item: &Value) -> Option<i64> {
    item.get("error")?.get("code")?.as_i64()
}

async fn batch(probe: &CheckClient) -> CheckOutcome {
    let body = format!("[{},{},{}]", call("\"a\""), notification(), call("2"));
    let mut ids: Vec<String> = items(&probe.post(body).await?)?
        .iter()
        .filter_map(|item| item.get("id").map(Value::to_string))
        .collect();
    ids.sort();
    if ids == ["\"a\"", "2"] {
        Ok("two calls and a notification get two responses".to_owned())
    } else {
        Err(CheckFailure::violation(format!(
            "expected ids \"a\" and 2, got {}",
            crate::printable::quoted(&ids.join(" "))
        )))
    }
}

async fn invalid_batch(probe: &CheckClient) -> CheckOutcome {
    let items = items(&probe.post("[1,2,3]").await?)?;
    let invalid = i64::from(ErrorCode::INVALID_REQUEST.get());
    let good =
        |item: &Value| code(item) == Some(invalid) && item.get("id").is_some_and(Value::is_null);
    if items.len() == 3 && items.iter().all(good) {
        Ok("[1,2,3] gets three responses".to_owned())
    } else {
        Err(CheckFailure::violation(format!(
            "[1,2,3] does not get {} three times with a null id",
            ErrorCode::INVALID_REQUEST
        )))
    }
}

async fn silent_batch(probe: &CheckClient) -> CheckOutcome {
    let body = format!("[{0},{0}]", notification());
    probe.post(body).await?.has_no_response()
}

async fn large_batch(probe: &CheckClient) -> CheckOutcome {
    let item = call("1");
    let body = format!("[{}]", vec![item.as_str(); 10_000].join(","));
    let answer = probe.post(body).await?;
    if answer.status == http::StatusCode::PAYLOAD_TOO_LARGE {
        return Ok("HTTP 413".to_owned());
    }
    if let Ok(items) = items(&answer) {
        return match items.len() {
            10_000 => Ok("answered".to_owned()),
            count => Err(CheckFailure::violation(format!("{count} responses"))),
        };
    }
    answer.refused_with(INVALID)
}
