//! Answers: nothing leaves that we ourselves would refuse, and nobody is answered twice.

use interzone_jsonrpc::{
    Answers, Error, ErrorCode, Message, MethodName, Parsed, Policy, RawJson, Request, parse,
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

fn sent(answers: Answers) -> Value {
    serde_json::from_slice(&answers.finish().unwrap()).unwrap()
}

#[test]
fn a_result_that_nobody_could_read_becomes_an_internal_error() {
    let half = RawValue::from_string(r#"{"a":"\udc00"}"#.to_owned()).unwrap();
    let keys_that_are_no_strings = std::collections::BTreeMap::from([((1, 2), 3)]);
    let fails: [&dyn Fn(&mut Answers) -> bool; 3] = [
        &|answers| answers.result(&request(), &half).is_err(),
        &|answers| answers.result(&request(), &nested(128)).is_err(),
        &|answers| {
            answers
                .result(&request(), &keys_that_are_no_strings)
                .is_err()
        },
    ];
    for fail in fails {
        let mut answers = Answers::to(&single());
        assert!(fail(&mut answers), "the error is handed back for the log");
        let internal = json!({"code": -32603, "message": "Internal error"});
        assert_eq!(
            sent(answers),
            json!({"jsonrpc": "2.0", "id": 7, "error": internal})
        );
    }
    let mut answers = Answers::to(&single());
    answers.result(&request(), &nested(127)).unwrap();
    let bytes = answers.finish().unwrap();
    assert!(matches!(parse(&bytes, &Policy::CLIENT), Parsed::One(Ok(_))));
}

#[test]
fn what_cannot_be_read_cannot_be_built() {
    assert!(RawJson::of(&nested(127)).is_ok());
    assert!(RawJson::of(&nested(128)).is_err());
    let half = RawValue::from_string(r#""\ud83e""#.to_owned()).unwrap();
    assert!(RawJson::of(&half).is_err());
}

#[test]
fn a_single_message_is_answered_once() {
    let mut answers = Answers::to(&single());
    answers.result(&request(), &1).unwrap();
    answers.push(&request().fail(Error::standard(ErrorCode::INTERNAL_ERROR)));
    answers.result(&request(), &2).unwrap();
    assert_eq!(
        sent(answers),
        json!({"jsonrpc": "2.0", "id": 7, "result": 1})
    );
}

#[test]
fn named_parameters_are_not_taken_by_position() {
    #[derive(serde::Deserialize, Debug, PartialEq)]
    struct Get {
        task: Option<String>,
    }
    let with = |params: Value| request().with_params(RawJson::of(&params).unwrap());
    let named = with(json!({"task": "t"})).decode_named::<Get>().unwrap();
    assert_eq!(named.task.as_deref(), Some("t"));
    assert_eq!(request().decode_named::<Get>().unwrap(), Get { task: None });
    for (params, kind) in [
        (json!(["t"]), "an array"),
        (json!("t"), "a string"),
        (json!(1), "a number"),
    ] {
        let error = with(params).decode_named::<Get>().unwrap_err().to_string();
        assert_eq!(
            error,
            format!("`params` must be an object, and this is {kind}")
        );
    }
}
