//! Property tests of the parser and the writer.

use crate::classify::{classify, label};
use crate::strategies::{damage, id, members, message, object, rubbish};
use interzone_jsonrpc::{
    Batches, ErrorCode, ErrorObject, ExtraMembers, Item, Message, MissingId, Parsed, Policy,
    RawJson, RequestId, Response, parse,
};
use proptest::collection::vec;
use proptest::prelude::{
    Just, ProptestConfig, Strategy, any, prop_assert, prop_assert_eq, proptest,
};
use proptest::sample::select;
use serde_json::Value;

const STRICT: Policy = Policy {
    extra_members: ExtraMembers::Refuse,
    missing_id: MissingId::Refuse,
    batches: Batches::UpTo(2),
    max_depth: 4,
    ..Policy::SERVER
};
const POLICIES: [Policy; 4] = [Policy::STANDARD, Policy::SERVER, Policy::CLIENT, STRICT];

/// Returns true if the bytes are JSON for `serde_json`; `None` if unknown, because it also rejects numbers that are
/// too large for its types.
fn is_json(bytes: &[u8]) -> Option<bool> {
    match serde_json::from_slice::<Value>(bytes) {
        Ok(_) => Some(true),
        Err(error) if error.to_string().starts_with("number out of range") => None,
        Err(_) => Some(false),
    }
}

fn items<'a>(parsed: Parsed<'a>) -> Vec<Item<'a>> {
    match parsed {
        Parsed::One(item) => vec![item],
        Parsed::Batch(items) => items,
    }
}

/// Checks the error response to rejected bytes by its text alone.
fn well_formed(answer: &[u8]) -> Result<(), String> {
    let answer: Value = serde_json::from_slice(answer).map_err(|error| error.to_string())?;
    let members = answer.as_object().ok_or("no object")?;
    if members.len() != 3 || members.get("jsonrpc") != Some(&Value::from("2.0")) {
        return Err(format!("not jsonrpc, id and error: {answer}"));
    }
    let code = answer["error"]["code"].as_i64().ok_or("no code")?;
    let message = answer["error"]["message"].as_str().ok_or("no message")?;
    let id = members.get("id").ok_or("no id")?;
    match (code, message) {
        (-32700, "Parse error") | (-32600, "Invalid Request") if id.is_null() => Ok(()),
        // Only calls to reserved methods echo the id.
        (-32601, "Method not found") if id.is_null() || id.is_string() || id.is_i64() => Ok(()),
        _ => Err(format!("{answer}")),
    }
}

/// Splits JSON text into tokens.
fn tokens(text: &str) -> Vec<&str> {
    let bytes = text.as_bytes();
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let start = at;
        match bytes[at] {
            b'"' => {
                at += 1;
                while bytes[at] != b'"' {
                    at += if bytes[at] == b'\\' { 2 } else { 1 };
                }
                at += 1;
            }
            b'{' | b'}' | b'[' | b']' | b',' | b':' => at += 1,
            b' ' | b'\n' | b'\r' | b'\t' => {
                at += 1;
                continue;
            }
            _ => {
                while at < bytes.len() && !b"{}[],: \n\r\t\"".contains(&bytes[at]) {
                    at += 1;
                }
            }
        }
        tokens.push(&text[start..at]);
    }
    tokens
}

/// Returns label and value of each item, independent of the spelling.
fn meaning(bytes: &[u8], policy: &Policy) -> Vec<(&'static str, Value)> {
    items(parse(bytes, policy))
        .iter()
        .map(|item| {
            let value = item
                .as_ref()
                .map(|message| serde_json::to_value(message).unwrap());
            (label(item), value.unwrap_or_default())
        })
        .collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 1000, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn built_message_round_trips_through_parse_and_serde(message in message()) {
        let mut written = Vec::new();
        message.write_to(&mut written);
        let Parsed::One(Ok(read)) = parse(&written, &Policy::STANDARD) else {
            panic!("{message} is rejected")
        };
        prop_assert_eq!(&read, &message);
        prop_assert_eq!(read.to_vec(), written.clone());
        prop_assert_eq!(read.into_owned(), message.clone());
        let by_serde: Message = serde_json::from_slice(&written).unwrap();
        prop_assert_eq!(by_serde, message.clone());
        prop_assert_eq!(serde_json::to_vec(&message).unwrap(), written);
    }

    #[test]
    fn any_bytes_give_a_message_or_a_valid_error_response(bytes in rubbish()) {
        for policy in POLICIES {
            for item in items(parse(&bytes, &policy)) {
                let Err(rejection) = item else { continue };
                let Some(answer) = rejection.response() else {
                    prop_assert_eq!(rejection.kind().name(), "method_reserved");
                    continue;
                };
                let text = answer.to_vec();
                prop_assert_eq!(well_formed(&text), Ok(()));
                prop_assert_eq!(classify(&text, &Policy::STANDARD), "failure");
                prop_assert_eq!(answer.error().map(ErrorObject::code), Some(rejection.kind().code()));
                prop_assert!(rejection.position().offset <= bytes.len());
            }
        }
    }

    #[test]
    fn response_id_keeps_type_and_value(id in id()) {
        let response = Response::success(id.borrowed(), RawJson::NULL).to_string();
        let Parsed::One(Ok(Message::Response(read))) =
            parse(response.as_bytes(), &Policy::STANDARD) else { panic!("{response}") };
        prop_assert_eq!(read.id(), Some(&id));
        let text = serde_json::to_string(&id).unwrap();
        prop_assert_eq!(&text, &id.to_string());
        prop_assert_eq!(serde_json::from_str::<RequestId>(&text).unwrap(), id);
    }

    #[test]
    fn mutated_message_is_json_exactly_if_serde_json_agrees(
        message in message(),
        damage in damage(),
    ) {
        let mut bytes = message.to_vec();
        for change in &damage {
            change.apply(&mut bytes);
        }
        for policy in [Policy::STANDARD, Policy::SERVER, Policy::CLIENT] {
            let parsed = parse(&bytes, &policy);
            let parse_error = matches!(
                &parsed,
                Parsed::One(Err(rejection)) if rejection.kind().code() == ErrorCode::PARSE_ERROR
            );
            if let Some(json) = is_json(&bytes) {
                prop_assert_eq!(parse_error, !json, "{}", String::from_utf8_lossy(&bytes));
            }
            let Parsed::One(Ok(message)) = parsed else { continue };
            let again = message.to_vec();
            let Parsed::One(Ok(read)) = parse(&again, &policy) else {
                panic!("{message} is rejected after it was written")
            };
            prop_assert_eq!(read, message);
        }
    }

    #[test]
    fn whitespace_between_tokens_changes_nothing(
        batch in vec(members(), 1..3),
        spaces in vec(select(&["", "", " ", "\n", "\t\r\n "][..]), 1..16),
        single in any::<bool>(),
    ) {
        let objects: Vec<_> = batch.iter().map(|members| object(members)).collect();
        let text = if single { objects[0].clone() } else { format!("[{}]", objects.join(",")) };
        let mut spaced = String::from(spaces[0]);
        for (token, space) in tokens(&text).iter().zip(spaces.iter().cycle()) {
            spaced += token;
            spaced += space;
        }
        for policy in POLICIES {
            prop_assert_eq!(
                meaning(spaced.as_bytes(), &policy),
                meaning(text.as_bytes(), &policy),
                "{}", spaced
            );
        }
    }

    #[test]
    fn member_order_changes_nothing(
        (members, shuffled) in members().prop_flat_map(|members| {
            let shuffled = Just(members.clone()).prop_shuffle();
            (Just(members), shuffled)
        }),
    ) {
        for policy in POLICIES {
            prop_assert_eq!(
                meaning(object(&members).as_bytes(), &policy),
                meaning(object(&shuffled).as_bytes(), &policy),
                "{:?} {:?}", members, shuffled
            );
        }
    }

    #[test]
    fn batch_item_is_classified_as_if_alone(batch in vec(members(), 1..6)) {
        let objects: Vec<_> = batch.iter().map(|members| object(members)).collect();
        let text = format!("[{}]", objects.join(","));
        for policy in [Policy::STANDARD, Policy::SERVER, Policy::CLIENT] {
            let alone: Vec<_> = objects
                .iter()
                .flat_map(|object| meaning(object.as_bytes(), &policy))
                .collect();
            prop_assert_eq!(meaning(text.as_bytes(), &policy), alone);
        }
    }
}
