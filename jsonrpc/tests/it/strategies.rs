//! Random messages for the property tests: valid, nearly valid, and garbage.

use interzone_jsonrpc::{
    ErrorObject, Message, MethodName, Notification, RawJson, Request, RequestId, Response,
};
use proptest::collection::vec;
use proptest::prelude::{Just, Strategy, any, prop_oneof};
use proptest::sample::select;
use serde_json::{Number, Value};

/// Any text, including escapes and unusual characters.
pub(crate) fn text() -> impl Strategy<Value = String> {
    prop_oneof![
        "[a-z]{0,8}",
        vec(any::<char>(), 0..6).prop_map(String::from_iter),
        vec(
            select(&['"', '\\', '\n', '\0', '\u{7f}', 'é', '🦀', '/'][..]),
            0..5
        )
        .prop_map(String::from_iter),
    ]
}

/// Any JSON value, a few levels deep.
pub(crate) fn json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::Bool),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(|number| Number::from_f64(number).map_or(Value::Null, Value::Number)),
        text().prop_map(Value::String),
    ];
    leaf.prop_recursive(4, 24, 4, |inner| {
        prop_oneof![
            vec(inner.clone(), 0..4).prop_map(Value::Array),
            vec((text(), inner), 0..4).prop_map(|members| members.into_iter().collect()),
        ]
    })
}

/// Any id.
pub(crate) fn id() -> impl Strategy<Value = RequestId<'static>> {
    prop_oneof![
        any::<i64>().prop_map(RequestId::from),
        (-2_i32..3).prop_map(RequestId::from),
        text().prop_map(RequestId::from),
    ]
}

/// Any valid method name.
fn method() -> impl Strategy<Value = MethodName<'static>> {
    text().prop_filter_map("empty or reserved", |name| MethodName::new(name).ok())
}

fn raw() -> impl Strategy<Value = RawJson<'static>> {
    json().prop_map(|value| RawJson::from_value(&value).unwrap())
}

/// Any message that can be built.
pub(crate) fn message() -> impl Strategy<Value = Message<'static>> {
    let optional = || proptest::option::of(raw());
    prop_oneof![
        (id(), method(), optional()).prop_map(|(id, method, params)| {
            let request = Request::new(id, method);
            match params {
                Some(params) => request.with_params(params).into(),
                None => request.into(),
            }
        }),
        (method(), optional()).prop_map(|(method, params)| {
            let note = Notification::new(method);
            match params {
                Some(params) => note.with_params(params).into(),
                None => note.into(),
            }
        }),
        (id(), raw()).prop_map(|(id, result)| Response::success(id, result).into()),
        (proptest::option::of(id()), any::<i32>(), text(), optional()).prop_map(
            |(id, code, message, data)| {
                let error = ErrorObject::new(code, message);
                Response::failure(
                    id,
                    match data {
                        Some(data) => error.with_data(data),
                        None => error,
                    },
                )
                .into()
            }
        ),
    ]
}

/// Members of an envelope, valid and invalid, some of them more than once.
pub(crate) fn members() -> impl Strategy<Value = Vec<&'static str>> {
    let pool = [
        r#""id":1"#,
        r#""id":"\u00e9""#,
        r#""id":null"#,
        r#""id":1.5"#,
        r#""i\u0064":2"#,
        r#""method":"a""#,
        r#""method":"rpc.a""#,
        r#""method":"""#,
        r#""method":7"#,
        r#""params":{"id":1,"x":[1,2]}"#,
        r#""params":["a"]"#,
        r#""params":1"#,
        r#""params":null"#,
        r#""result":null"#,
        r#""result":{"a":1e5}"#,
        r#""error":{"code":1,"message":"m"}"#,
        r#""error":{"message":"m","code":1,"data":null,"x":1}"#,
        r#""error":{"code":1.5}"#,
        r#""error":null"#,
        r#""extra":true"#,
        r#""":{}"#,
        r#""jsonrpc":"2.0""#,
    ];
    let version = prop_oneof![9 => Just(r#""jsonrpc":"2.0""#), 1 => Just(r#""jsonrpc":2"#)];
    (version, vec(select(pool.to_vec()), 0..5)).prop_map(|(version, mut members)| {
        members.insert(0, version);
        members
    })
}

/// The text of a message with these members.
pub(crate) fn object(members: &[&str]) -> String {
    format!("{{{}}}", members.join(","))
}

/// A change to some bytes. Offsets are taken modulo the length.
#[derive(Clone, Debug)]
pub(crate) enum Damage {
    Flip(usize, u8),
    Insert(usize, u8),
    Delete(usize),
    Cut(usize),
}

impl Damage {
    pub(crate) fn apply(&self, bytes: &mut Vec<u8>) {
        let length = bytes.len();
        match *self {
            Self::Insert(at, byte) => bytes.insert(at % (length + 1), byte),
            _ if length == 0 => {}
            Self::Flip(at, bit) => bytes[at % length] ^= 1 << (bit % 8),
            Self::Delete(at) => {
                bytes.remove(at % length);
            }
            Self::Cut(at) => bytes.truncate(at % length),
        }
    }
}

/// One to four mutations; inserted bytes are mostly JSON syntax.
pub(crate) fn damage() -> impl Strategy<Value = Vec<Damage>> {
    let byte = || {
        prop_oneof![
            select(&b"{}[],:\"\\u0123456789eE+-.tfn \n\0"[..]),
            any::<u8>()
        ]
    };
    let one = prop_oneof![
        3 => (any::<usize>(), any::<u8>()).prop_map(|(at, bit)| Damage::Flip(at, bit)),
        3 => (any::<usize>(), byte()).prop_map(|(at, byte)| Damage::Insert(at, byte)),
        3 => any::<usize>().prop_map(Damage::Delete),
        1 => any::<usize>().prop_map(Damage::Cut),
    ];
    vec(one, 1..5)
}

/// Bytes similar to messages, and random bytes.
pub(crate) fn rubbish() -> impl Strategy<Value = Vec<u8>> {
    let pieces = [
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\"jsonrpc\"",
        "\"2.0\"",
        "\"id\"",
        "\"method\"",
        "\"params\"",
        "\"result\"",
        "\"error\"",
        "\"code\"",
        "\"message\"",
        "\"data\"",
        "1",
        "-0",
        "1.5",
        "1e9",
        "null",
        "true",
        "\"a\"",
        "\"rpc.a\"",
        "\"\\ud800\"",
        "\"\\u0069d\"",
        " ",
        "\n",
        "\\",
        "\"",
        "é",
        "\u{feff}",
    ];
    prop_oneof![
        vec(any::<u8>(), 0..64),
        vec(select(pieces.to_vec()), 0..24).prop_map(|pieces| pieces.concat().into_bytes()),
    ]
}
