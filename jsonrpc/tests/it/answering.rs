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
        &|answers| answers.result(&request(), &nested(126)).is_err(),
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
    answers.result(&request(), &nested(125)).unwrap();
    let bytes = answers.finish().unwrap();
    assert!(matches!(parse(&bytes, &Policy::CLIENT), Parsed::One(Ok(_))));
}

#[test]
fn brackets_and_escapes_alone_are_no_fault() {
    for value in [
        json!("[{".repeat(500)),
        json!(vec![json!([{}]); 500]),
        json!({"a\n": "\u{1}\u{1f980}", "\\ud800": "\""}),
        nested(125),
    ] {
        let mut answers = Answers::to(&single());
        answers.result(&request(), &value).unwrap();
        assert_eq!(
            sent(answers),
            json!({"jsonrpc": "2.0", "id": 7, "result": value})
        );
    }
}

#[test]
fn what_cannot_be_read_cannot_be_built() {
    assert!(RawJson::of(&nested(125)).is_ok());
    assert!(RawJson::of(&nested(126)).is_err());
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

#[test]
fn a_batch_gets_as_many_answers_as_are_due() {
    let text = br#"[{"jsonrpc":"2.0","method":"note"},{"jsonrpc":"2.0","method":"a","id":7},1]"#;
    let mut answers = Answers::to(&parse(text, &Policy::SERVER));
    for n in 0..5 {
        answers.result(&request(), &n).unwrap();
    }
    let sent = sent(answers);
    assert_eq!(sent.as_array().map(Vec::len), Some(2), "{sent}");
    let notes = br#"[{"jsonrpc":"2.0","method":"note"}]"#;
    let mut answers = Answers::to(&parse(notes, &Policy::SERVER));
    answers.result(&request(), &1).unwrap();
    assert_eq!(answers.finish(), None);
}

#[test]
fn broken_answers_are_not_answered_where_answers_come_in() {
    for text in [
        r#"{"jsonrpc":"2.0","id":1.5,"result":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"result":1,"error":{}}"#,
        r#"{"id":1,"result":1}"#,
        r#"{"jsonrpc":"2.0","id":1,"error":null}"#,
    ] {
        for (policy, answered) in [(Policy::SERVER, true), (Policy::CLIENT, false)] {
            let Parsed::One(Err(rejection)) = parse(text.as_bytes(), &policy) else {
                panic!("{text}")
            };
            assert_eq!(rejection.answer().is_some(), answered, "{text}");
        }
    }
    let call = parse(
        br#"{"jsonrpc":"2.0","id":1.5,"method":"a"}"#,
        &Policy::CLIENT,
    );
    assert!(matches!(call, Parsed::One(Err(rejection)) if rejection.answer().is_some()));
}

#[test]
fn absent_parameters_are_what_the_type_takes() {
    assert_eq!(request().decode_params::<Option<u8>>().unwrap(), None);
    request().decode_params::<()>().unwrap();
    let empty: std::collections::BTreeMap<String, u8> = request().decode_params().unwrap();
    assert!(empty.is_empty());
    assert!(request().decode_params::<Vec<u8>>().is_err());
}
