//! The envelope: what JSON-RPC 2.0 asks of every server, whatever its methods are.

use super::answer::Answer;
use super::probe::Probe;
use super::verdict::{Checks, Finding, Flaw};
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
/// Where a server may stop reading at any of several points.
const ANY_REFUSAL: &[ErrorCode] = &[
    ErrorCode::PARSE_ERROR,
    ErrorCode::INVALID_REQUEST,
    ErrorCode::INVALID_PARAMS,
    ErrorCode::METHOD_NOT_FOUND,
];

/// Bodies that are no messages, and what they must be answered with.
const REFUSALS: &[(&str, &[u8], &[ErrorCode], &str)] = &[
    (
        "an unfinished text",
        b"{\"jsonrpc\":\"2.0\",\"method\"",
        PARSE,
        ERROR,
    ),
    ("an empty body", b"", PARSE, ERROR),
    ("text that is no JSON", b"hello", PARSE, ERROR),
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

/// Ids, as they must come back letter by letter.
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
const NOTHING: &str = "interzone.check.nothing";

pub(super) async fn check(probe: &Probe, acp: bool, out: &mut Checks) {
    out.group("envelope");
    if let Err(flaw) = probe.need_token()
        && let Ok(answer) = probe.post(call("1")).await
        && answer.status == http::StatusCode::UNAUTHORIZED
    {
        out.note("every rule of the envelope", REQUEST, Err(flaw));
        return;
    }
    out.note("an unknown method is refused", ERROR, unknown(probe).await);
    for id in IDS {
        out.note(
            format!("id {id} comes back"),
            RESPONSE,
            echo(probe, id).await,
        );
    }
    out.note("id null is answered", RESPONSE, null_id(probe).await);
    out.note(
        "a notification is not answered",
        NOTIFICATION,
        silence(probe).await,
    );
    for (name, body, codes, reference) in REFUSALS {
        let found = refusal(probe, body, codes).await;
        out.note(format!("refused: {name}"), reference, found);
    }
    out.note(
        "params that are a string are refused",
        REQUEST,
        scalar_params(probe).await,
    );
    out.note(
        "a member that nobody knows",
        "ACP §2",
        extra(probe, acp).await,
    );
    out.note(
        "100,000 levels of nesting are survived",
        ERROR,
        nesting(probe).await,
    );
    out.note(
        "a batch is answered item by item",
        BATCH,
        batch(probe).await,
    );
    out.note(
        "a batch of rubbish is answered item by item",
        BATCH,
        rubbish(probe).await,
    );
    out.note(
        "a batch of notifications is not answered",
        BATCH,
        silent_batch(probe).await,
    );
    out.note(
        "a batch of 10,000 is refused or answered",
        BATCH,
        large_batch(probe).await,
    );
}

fn call(id: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{NOTHING}","id":{id}}}"#)
}

fn notification() -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"{NOTHING}"}}"#)
}

async fn unknown(probe: &Probe) -> Finding {
    probe.post(call("1")).await?.refused_with(UNKNOWN)
}

async fn echo(probe: &Probe, id: &str) -> Finding {
    let answer = probe.post(call(id)).await?;
    let response = answer.response()?;
    let sent: Value = serde_json::from_str(id).unwrap_or_default();
    match response.get("id") {
        Some(came) if *came == sent => Ok(String::new()),
        Some(came) => Err(Flaw::broken(format!(
            "{} comes back",
            crate::printable::quoted(&came.to_string())
        ))),
        None => Err(Flaw::broken("the answer has no id")),
    }
}

async fn null_id(probe: &Probe) -> Finding {
    let answer = probe.post(call("null")).await?;
    if answer.body.is_empty() {
        return Err(Flaw::poor("it is taken for a notification"));
    }
    match answer.response()?.get("id") {
        Some(Value::Null) => Ok(String::new()),
        _ => Err(Flaw::broken("another id comes back")),
    }
}

async fn silence(probe: &Probe) -> Finding {
    probe.post(notification()).await?.silent()
}

async fn refusal(probe: &Probe, body: &'static [u8], codes: &[ErrorCode]) -> Finding {
    let answer = probe.post(body).await?;
    if answer.status.is_server_error() {
        return Err(Flaw::broken(format!("HTTP {}", answer.status.as_u16())));
    }
    let words = answer.refused_with(codes)?;
    // Where nothing could be read, there is no id to answer to.
    if codes == PARSE && answer.response()?.get("id") != Some(&Value::Null) {
        return Err(Flaw::broken("the answer's id is not null"));
    }
    Ok(words)
}

async fn scalar_params(probe: &Probe) -> Finding {
    let body = format!(r#"{{"jsonrpc":"2.0","method":"{NOTHING}","params":"a","id":1}}"#);
    let answer = probe.post(body).await?;
    let words = answer.refused_with(ANY_REFUSAL)?;
    match answer.refused_with(UNKNOWN) {
        Ok(_) => Ok(format!("{words}, as the method is looked at first")),
        Err(_) => Ok(words),
    }
}

/// JSON-RPC itself says nothing about it, ACP does.
async fn extra(probe: &Probe, acp: bool) -> Finding {
    let method = if acp {
        Method::TasksGet.name()
    } else {
        NOTHING
    };
    let params = r#"{"taskId":"interzone-check"}"#;
    let body =
        format!(r#"{{"jsonrpc":"2.0","method":"{method}","params":{params},"id":1,"extra":true}}"#);
    let answer = probe.post(body).await?;
    match answer.refused_with(INVALID) {
        Ok(words) => Ok(words),
        Err(_) if !acp => answer.refused_with(UNKNOWN).map(|_| "ignored".to_owned()),
        Err(_) => match answer.refused_with(&[codes::TASK_NOT_FOUND]) {
            Ok(_) => Err(Flaw::poor("ignored; ACP's schema allows no other member")),
            Err(flaw) => Err(flaw),
        },
    }
}

async fn nesting(probe: &Probe) -> Finding {
    let deep = 100_000;
    let (open, close) = ("[".repeat(deep), "]".repeat(deep));
    let body = format!(r#"{{"jsonrpc":"2.0","method":"{NOTHING}","params":{open}{close},"id":1}}"#);
    let answer = probe.post(body).await?;
    if answer.status.is_server_error() {
        return Err(Flaw::broken(format!("HTTP {}", answer.status.as_u16())));
    }
    answer.refused_with(ANY_REFUSAL)
}

fn items(answer: &Answer) -> Result<Vec<Value>, Flaw> {
    match answer.json()? {
        Value::Array(items) => Ok(items),
        _ => Err(Flaw::broken(format!(
            "a list was due, and {} came",
            answer.told()
        ))),
    }
}

fn code(item: &Value) -> Option<i64> {
    item.get("error")?.get("code")?.as_i64()
}

async fn batch(probe: &Probe) -> Finding {
    let body = format!("[{},{},{}]", call("\"a\""), notification(), call("2"));
    let mut ids: Vec<String> = items(&probe.post(body).await?)?
        .iter()
        .filter_map(|item| item.get("id").map(Value::to_string))
        .collect();
    ids.sort();
    if ids == ["\"a\"", "2"] {
        Ok("two calls and a notification get two answers".to_owned())
    } else {
        Err(Flaw::broken(format!(
            "ids \"a\" and 2 were due, and {} came",
            crate::printable::quoted(&ids.join(" "))
        )))
    }
}

async fn rubbish(probe: &Probe) -> Finding {
    let items = items(&probe.post("[1,2,3]").await?)?;
    let invalid = i64::from(ErrorCode::INVALID_REQUEST.get());
    let good =
        |item: &Value| code(item) == Some(invalid) && item.get("id").is_some_and(Value::is_null);
    if items.len() == 3 && items.iter().all(good) {
        Ok("[1,2,3] gets three answers".to_owned())
    } else {
        Err(Flaw::broken(format!(
            "[1,2,3] does not get {} three times with a null id",
            ErrorCode::INVALID_REQUEST
        )))
    }
}

async fn silent_batch(probe: &Probe) -> Finding {
    let body = format!("[{0},{0}]", notification());
    probe.post(body).await?.silent()
}

async fn large_batch(probe: &Probe) -> Finding {
    let item = call("1");
    let body = format!("[{}]", vec![item.as_str(); 10_000].join(","));
    let answer = probe.post(body).await?;
    if answer.status == http::StatusCode::PAYLOAD_TOO_LARGE {
        return Ok("HTTP 413".to_owned());
    }
    if let Ok(items) = items(&answer) {
        return match items.len() {
            10_000 => Ok("answered".to_owned()),
            count => Err(Flaw::broken(format!("{count} answers"))),
        };
    }
    answer.refused_with(INVALID)
}
