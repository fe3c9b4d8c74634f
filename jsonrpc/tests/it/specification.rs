//! Every example of section 7 of the JSON-RPC 2.0 specification, against a small server.
//!
//! Responses are compared as JSON values, without `error.data`, which the specification leaves to the server.

use interzone_jsonrpc::{
    ErrorCode, ErrorObject, Item, Message, Parsed, Policy, Request, ResponseWriter, parse,
};
use serde::Deserialize;
use serde_json::{Value, json};

/// Serves a request like the server of the examples.
fn serve(bytes: &[u8]) -> Option<Value> {
    let parsed = parse(bytes, &Policy::SERVER);
    let mut writer = ResponseWriter::for_parsed(&parsed);
    let mut serve_item = |item: Item| match item {
        Ok(Message::Request(request)) => call(&request, &mut writer),
        Ok(Message::Notification(_)) => {}
        Ok(Message::Response(response)) => panic!("a server does not accept responses: {response}"),
        Err(rejection) => writer.extend(rejection.response().as_ref()),
    };
    match parsed {
        Parsed::One(item) => serve_item(item),
        Parsed::Batch(items) => items.into_iter().for_each(serve_item),
    }
    writer
        .finish()
        .map(|bytes| serde_json::from_slice(&bytes).unwrap())
}

#[derive(Deserialize)]
struct Subtract {
    minuend: i64,
    subtrahend: i64,
}

fn call(request: &Request<'_>, writer: &mut ResponseWriter) {
    // Positional or by name: serde reads a struct from either.
    let result = match request.method() {
        "subtract" => request.decode_params::<Subtract>().map(
            |Subtract {
                 minuend,
                 subtrahend,
             }| json!(minuend - subtrahend),
        ),
        "sum" => request
            .decode_params::<Vec<i64>>()
            .map(|terms| json!(terms.iter().sum::<i64>())),
        "get_data" => Ok(json!(["hello", 5])),
        _ => {
            return writer.push(&request.fail(ErrorObject::standard(ErrorCode::METHOD_NOT_FOUND)));
        }
    };
    match result {
        Ok(result) => writer.result(request, &result).unwrap(),
        Err(_) => writer.push(&request.fail(ErrorObject::standard(ErrorCode::INVALID_PARAMS))),
    }
}

/// Removes `error.data`, which the specification does not prescribe.
fn without_data(mut answer: Value) -> Value {
    let answers = match &mut answer {
        Value::Array(answers) => answers.iter_mut().collect(),
        one => vec![one],
    };
    for answer in answers {
        if let Some(Value::Object(error)) = answer.get_mut("error") {
            error.remove("data");
        }
    }
    answer
}

fn check(sent: &str, expected: Option<Value>) {
    assert_eq!(serve(sent.as_bytes()).map(without_data), expected, "{sent}");
}

fn failure(code: i64, message: &str, id: Value) -> Value {
    json!({"jsonrpc": "2.0", "error": {"code": code, "message": message}, "id": id})
}

#[test]
fn positional_params_are_decoded() {
    check(
        r#"{"jsonrpc": "2.0", "method": "subtract", "params": [42, 23], "id": 1}"#,
        Some(json!({"jsonrpc": "2.0", "result": 19, "id": 1})),
    );
    check(
        r#"{"jsonrpc": "2.0", "method": "subtract", "params": [23, 42], "id": 2}"#,
        Some(json!({"jsonrpc": "2.0", "result": -19, "id": 2})),
    );
}

#[test]
fn named_params_are_decoded() {
    check(
        r#"{"jsonrpc": "2.0", "method": "subtract", "params": {"subtrahend": 23, "minuend": 42}, "id": 3}"#,
        Some(json!({"jsonrpc": "2.0", "result": 19, "id": 3})),
    );
    check(
        r#"{"jsonrpc": "2.0", "method": "subtract", "params": {"minuend": 42, "subtrahend": 23}, "id": 4}"#,
        Some(json!({"jsonrpc": "2.0", "result": 19, "id": 4})),
    );
}

#[test]
fn notification_gets_no_response() {
    check(
        r#"{"jsonrpc": "2.0", "method": "update", "params": [1,2,3,4,5]}"#,
        None,
    );
    check(r#"{"jsonrpc": "2.0", "method": "foobar"}"#, None);
}

#[test]
fn unknown_method_is_method_not_found() {
    check(
        r#"{"jsonrpc": "2.0", "method": "foobar", "id": "1"}"#,
        Some(failure(-32601, "Method not found", json!("1"))),
    );
}

#[test]
fn invalid_json_is_a_parse_error() {
    check(
        r#"{"jsonrpc": "2.0", "method": "foobar, "params": "bar", "baz]"#,
        Some(failure(-32700, "Parse error", Value::Null)),
    );
}

#[test]
fn invalid_request_object_is_an_invalid_request() {
    check(
        r#"{"jsonrpc": "2.0", "method": 1, "params": "bar"}"#,
        Some(failure(-32600, "Invalid Request", Value::Null)),
    );
}

#[test]
fn batch_with_invalid_json_is_a_parse_error() {
    check(
        r#"[
            {"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},
            {"jsonrpc": "2.0", "method"
        ]"#,
        Some(failure(-32700, "Parse error", Value::Null)),
    );
}

#[test]
fn empty_array_is_an_invalid_request() {
    check("[]", Some(failure(-32600, "Invalid Request", Value::Null)));
}

#[test]
fn invalid_batch_item_gets_an_array_response() {
    check(
        "[1]",
        Some(json!([failure(-32600, "Invalid Request", Value::Null)])),
    );
}

#[test]
fn invalid_batch_items_get_one_error_each() {
    let invalid = failure(-32600, "Invalid Request", Value::Null);
    check("[1,2,3]", Some(json!([invalid, invalid, invalid])));
}

#[test]
fn mixed_batch_gets_all_responses() {
    check(
        r#"[
            {"jsonrpc": "2.0", "method": "sum", "params": [1,2,4], "id": "1"},
            {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]},
            {"jsonrpc": "2.0", "method": "subtract", "params": [42,23], "id": "2"},
            {"foo": "boo"},
            {"jsonrpc": "2.0", "method": "foo.get", "params": {"name": "myself"}, "id": "5"},
            {"jsonrpc": "2.0", "method": "get_data", "id": "9"}
        ]"#,
        Some(json!([
            {"jsonrpc": "2.0", "result": 7, "id": "1"},
            {"jsonrpc": "2.0", "result": 19, "id": "2"},
            failure(-32600, "Invalid Request", Value::Null),
            failure(-32601, "Method not found", json!("5")),
            {"jsonrpc": "2.0", "result": ["hello", 5], "id": "9"}
        ])),
    );
}

#[test]
fn notification_batch_gets_no_response() {
    check(
        r#"[
            {"jsonrpc": "2.0", "method": "notify_sum", "params": [1,2,4]},
            {"jsonrpc": "2.0", "method": "notify_hello", "params": [7]}
        ]"#,
        None,
    );
}

#[test]
fn mismatched_params_are_invalid_params() {
    for params in [r#"["a",1]"#, "[1]", "[1,2,3]", "{}", r#"{"minuend":1}"#] {
        let sent = format!(r#"{{"jsonrpc":"2.0","method":"subtract","params":{params},"id":1}}"#);
        check(&sent, Some(failure(-32602, "Invalid params", json!(1))));
    }
}
