//! `ResponseWriter`: writes only valid responses, and each at most once.

use interzone_jsonrpc::{
    ErrorCode, ErrorObject, Message, MethodName, Parsed, Policy, RawJson, Request, ResponseWriter,
    parse,
};
use serde_json::value::RawValue;
use serde_json::{Value, json};

fn request() -> Request<'static> {
    Request::new(7, MethodName::new("a").unwrap())
}

fn single() -> Parsed<'static> {
    Parsed::One(Ok(Message::Request(request())))
}

fn nested(levels: usize) -> Value {
    (1..levels).fold(json!([]), |inner, _| json!([inner]))
}

fn finish(writer: ResponseWriter) -> Value {
    serde_json::from_slice(&writer.finish().unwrap()).unwrap()
}

#[test]
fn unreadable_result_becomes_internal_error() {
    let lone_surrogate = RawValue::from_string(r#"{"a":"\udc00"}"#.to_owned()).unwrap();
    let non_string_keys = std::collections::BTreeMap::from([((1, 2), 3)]);
    let failing_writes: [&dyn Fn(&mut ResponseWriter) -> bool; 3] = [
        &|answers| answers.result(&request(), &lone_surrogate).is_err(),
        &|answers| answers.result(&request(), &nested(126)).is_err(),
        &|answers| answers.result(&request(), &non_string_keys).is_err(),
    ];
    for fail in failing_writes {
        let mut writer = ResponseWriter::for_parsed(&single());
        assert!(fail(&mut writer), "the error is handed back for the log");
        let internal = json!({"code": -32603, "message": "Internal error"});
        assert_eq!(
            finish(writer),
            json!({"jsonrpc": "2.0", "id": 7, "error": internal})
        );
    }
    let mut writer = ResponseWriter::for_parsed(&single());
    writer.result(&request(), &nested(125)).unwrap();
    let bytes = writer.finish().unwrap();
    assert!(matches!(parse(&bytes, &Policy::CLIENT), Parsed::One(Ok(_))));
}

#[test]
fn brackets_and_escapes_in_strings_are_valid() {
    for value in [
        json!("[{".repeat(500)),
        json!(vec![json!([{}]); 500]),
        json!({"a\n": "\u{1}\u{1f980}", "\\ud800": "\""}),
        nested(125),
    ] {
        let mut writer = ResponseWriter::for_parsed(&single());
        writer.result(&request(), &value).unwrap();
        assert_eq!(
            finish(writer),
            json!({"jsonrpc": "2.0", "id": 7, "result": value})
        );
    }
}

#[test]
fn raw_json_from_value_rejects_unreadable_values() {
    assert!(RawJson::from_value(&nested(125)).is_ok());
    assert!(RawJson::from_value(&nested(126)).is_err());
    let lone_surrogate = RawValue::from_string(r#""\ud83e""#.to_owned()).unwrap();
    assert!(RawJson::from_value(&lone_surrogate).is_err());
}

#[test]
fn single_request_gets_one_response() {
    let mut writer = ResponseWriter::for_parsed(&single());
    writer.result(&request(), &1).unwrap();
    writer.push(&request().fail(ErrorObject::standard(ErrorCode::INTERNAL_ERROR)));
    writer.result(&request(), &2).unwrap();
    assert_eq!(
        finish(writer),
        json!({"jsonrpc": "2.0", "id": 7, "result": 1})
    );
}

#[test]
fn decode_named_rejects_positional_params() {
    #[derive(serde::Deserialize, Debug, PartialEq)]
    struct Get {
        task: Option<String>,
    }
    let request_with = |params: Value| request().with_params(RawJson::from_value(&params).unwrap());
    let named = request_with(json!({"task": "t"}))
        .decode_named::<Get>()
        .unwrap();
    assert_eq!(named.task.as_deref(), Some("t"));
    assert_eq!(request().decode_named::<Get>().unwrap(), Get { task: None });
    for (params, kind) in [
        (json!(["t"]), "an array"),
        (json!("t"), "a string"),
        (json!(1), "a number"),
    ] {
        let error = request_with(params)
            .decode_named::<Get>()
            .unwrap_err()
            .to_string();
        assert_eq!(
            error,
            format!("`params` must be an object, and this is {kind}")
        );
    }
}

#[test]
fn batch_gets_only_expected_responses() {
    let text = br#"[{"jsonrpc":"2.0","method":"note"},{"jsonrpc":"2.0","method":"a","id":7},1]"#;
    let mut writer = ResponseWriter::for_parsed(&parse(text, &Policy::SERVER));
    for n in 0..5 {
        writer.result(&request(), &n).unwrap();
    }
    let sent = finish(writer);
    assert_eq!(sent.as_array().map(Vec::len), Some(2), "{sent}");
    let notes = br#"[{"jsonrpc":"2.0","method":"note"}]"#;
    let mut writer = ResponseWriter::for_parsed(&parse(notes, &Policy::SERVER));
    writer.result(&request(), &1).unwrap();
    assert_eq!(writer.finish(), None);
}

#[test]
fn invalid_response_is_not_answered_by_client() {
    for text in [
        r#"{"jsonrpc":"2.0","id":1.5,"result":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#,
        r#"{"id":1,"result":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":null}"#,
    ] {
        for (policy, expects_response) in [(Policy::SERVER, true), (Policy::CLIENT, false)] {
            let Parsed::One(Err(rejection)) = parse(text.as_bytes(), &policy) else {
                panic!("{text}")
            };
            assert_eq!(rejection.response().is_some(), expects_response, "{text}");
        }
    }
    let call = parse(
        br#"{"jsonrpc":"2.0","id":1.5,"method":"a"}"#,
        &Policy::CLIENT,
    );
    assert!(matches!(call, Parsed::One(Err(rejection)) if rejection.response().is_some()));
}

#[test]
fn absent_params_decode_as_null_or_empty_object() {
    assert_eq!(request().decode_params::<Option<u8>>().unwrap(), None);
    request().decode_params::<()>().unwrap();
    let empty: std::collections::BTreeMap<String, u8> = request().decode_params().unwrap();
    assert!(empty.is_empty());
    assert!(request().decode_params::<Vec<u8>>().is_err());
}
