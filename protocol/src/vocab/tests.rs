//! Round trips of messages, parts and artifacts.

use super::*;
use proptest::prelude::*;
use serde_json::{Value, json};

fn json_leaf() -> impl Strategy<Value = Value> {
    prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<u64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ]
}

fn any_json() -> impl Strategy<Value = Value> {
    json_leaf().prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".{0,6}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Extra fields, with names that none of our types defines.
fn extra_fields() -> impl Strategy<Value = serde_json::Map<String, Value>> {
    prop::collection::btree_map("x-.{0,8}", any_json(), 0..4)
        .prop_map(|map| map.into_iter().collect())
}

/// An object with these extra fields only.
fn with_extra(extra: serde_json::Map<String, Value>) -> serde_json::Map<String, Value> {
    let mut members = serde_json::Map::new();
    if !extra.is_empty() {
        members.insert("extra".into(), extra.into());
    }
    members
}

fn any_part() -> impl Strategy<Value = Value> {
    let kind = prop::sample::select(vec![
        "TextPart",
        "DataPart",
        "FilePart",
        "ImagePart",
        "AudioPart",
    ]);
    (
        kind,
        any_json(),
        prop::option::of(any::<u64>()),
        prop::option::of(extra_fields()),
        extra_fields(),
    )
        .prop_map(|(kind, content, size, metadata, extra)| {
            let mut members = with_extra(extra);
            members.insert("type".into(), kind.into());
            members.extend(metadata.map(|metadata| ("metadata".to_owned(), metadata.into())));
            if !content.is_null() {
                members.insert("content".into(), content);
            }
            members.extend(size.map(|size| ("size".to_owned(), size.into())));
            Value::Object(members)
        })
}

fn round_trip<T: serde::de::DeserializeOwned + serde::Serialize>(value: &Value) -> Value {
    let typed: T = serde_json::from_str(&value.to_string()).unwrap();
    let text = serde_json::to_string(&typed).unwrap();
    serde_json::from_str(&text).unwrap()
}

proptest! {
    #[test]
    fn part_round_trips(part in any_part()) {
        prop_assert_eq!(round_trip::<Part>(&part), part);
    }

    #[test]
    fn message_round_trips(
        parts in prop::collection::vec(any_part(), 1..4),
        metadata in prop::option::of(extra_fields()),
        extra in extra_fields(),
    ) {
        let mut members = with_extra(extra);
        members.insert("role".into(), "user".into());
        members.insert("parts".into(), parts.into());
        members.extend(metadata.map(|metadata| ("metadata".to_owned(), Value::Object(metadata))));
        let message = Value::Object(members);
        prop_assert_eq!(round_trip::<Message>(&message), message);
    }

    #[test]
    fn artifact_round_trips(
        parts in prop::collection::vec(any_part(), 0..3),
        name in ".{0,20}",
        extra in extra_fields(),
    ) {
        let mut members = with_extra(extra);
        members.insert("artifactId".into(), "a-1".into());
        members.insert("name".into(), name.into());
        members.insert("parts".into(), parts.into());
        let artifact = Value::Object(members);
        prop_assert_eq!(round_trip::<Artifact>(&artifact), artifact);
    }

    #[test]
    fn text_part_round_trips(text in ".{0,40}") {
        let part = Part::text(&text);
        prop_assert_eq!(part.as_text(), Some(text.as_str().into()));
        prop_assert_eq!(Message::user_text(&text).text(), text);
    }
}

#[test]
fn part_keeps_number_digits_and_field_order() {
    let sent = concat!(
        r#"{"type":"DataPart","content":{"z":1.00,"a":1e400,"m":12345678901234567890123},"#,
        r#""extra":{"zeta":-0,"alpha":0.10}}"#
    );
    let part: Part = serde_json::from_str(sent).unwrap();
    assert_eq!(serde_json::to_string(&part).unwrap(), sent);
}

#[test]
fn explicit_nulls_are_read_as_absent_and_not_sent() {
    let message: Message = serde_json::from_value(json!({
        "role": "agent", "timestamp": null, "agentId": null, "messageId": null, "metadata": null,
        "parts": [{"type": "TextPart", "content": null, "mimeType": null, "filename": null,
                   "size": null, "encoding": null}],
    }))
    .unwrap();
    assert_eq!(
        serde_json::to_string(&message).unwrap(),
        r#"{"role":"agent","parts":[{"type":"TextPart"}]}"#
    );
}

#[test]
fn invalid_messages_are_rejected_with_a_hint() {
    for (bad, hint) in [
        (r#"{"role":"user","parts":[]}"#, "at least one part"),
        (r#"{"role":"user"}"#, "missing field `parts`"),
        (r#"{"role":"user","parts":null}"#, "missing field `parts`"),
        (r#"{"parts":[{"type":"TextPart"}]}"#, "missing field `role`"),
        (
            r#"{"role":"robot","parts":[{"type":"TextPart"}]}"#,
            "unknown variant",
        ),
        (
            r#"{"role":"user","parts":[{"content":"x"}]}"#,
            "missing field `type`",
        ),
        (
            r#"{"role":"user","parts":[{"type":"text"}]}"#,
            "unknown variant",
        ),
        (
            r#"{"role":"user","role":"user","parts":[{"type":"TextPart"}]}"#,
            "duplicate field `role`",
        ),
        (
            r#"{"role":"user","parts":[{"type":"TextPart","size":null,"size":1}]}"#,
            "duplicate field `size`",
        ),
        (
            r#"{"role":"user","parts":[{"type":"TextPart","size":-1}]}"#,
            "invalid value",
        ),
        (
            r#"{"role":"user","parts":[{"type":"TextPart"}],"timestamp":"2024-01-15T10:30:00"}"#,
            "offset",
        ),
        (
            r#"{"role":"user","parts":[{"type":"TextPart"}],"metadata":[]}"#,
            "must be an object",
        ),
        (r#"["user",[]]"#, "a message: an object"),
    ] {
        let error = serde_json::from_str::<Message>(bad)
            .unwrap_err()
            .to_string();
        assert!(error.contains(hint), "{bad} gave {error}");
    }
}

#[test]
fn with_extra_cannot_override_known_fields() {
    let part = Part::text("hi")
        .with_extra("type", VerbatimJson::from_value("FilePart").unwrap())
        .with_extra("width", VerbatimJson::from_value(&1).unwrap())
        .with_extra("width", VerbatimJson::from_value(&2).unwrap());
    assert_eq!(
        serde_json::to_string(&part).unwrap(),
        r#"{"type":"TextPart","content":"hi","extra":{"width":2}}"#
    );
}

#[test]
fn members_of_all_dialects_round_trip() {
    let message = concat!(
        r#"{"role":"agent","parts":[{"type":"FilePart","mimeType":"image/png","filename":"a.png","#,
        r#""url":"https://a/b","metadata":{"z":1.00},"extra":{"metadata":7,"url":false}}],"#,
        r#""messageId":"m","contextId":"c","taskId":"t","metadata":{"a":1},"extensions":["urn:x"],"#,
        r#""referenceTaskIds":["t1","t2"],"author":"client","answers":3,"extra":{"extensions":1}}"#
    );
    let read: Message = serde_json::from_str(message).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), message);
    let artifact =
        r#"{"artifactId":"a","name":"n","parts":[],"extensions":["urn:x"],"extra":{"x":1}}"#;
    let read: Artifact = serde_json::from_str(artifact).unwrap();
    assert_eq!(serde_json::to_string(&read).unwrap(), artifact);
}

#[test]
fn unknown_members_are_read_as_extra_fields() {
    let part: Part =
        serde_json::from_str(r#"{"type":"TextPart","width":1,"extra":{"alt":"x"}}"#).unwrap();
    assert_eq!(
        serde_json::to_string(&part).unwrap(),
        r#"{"type":"TextPart","extra":{"alt":"x","width":1}}"#
    );
}

#[test]
fn agent_role_of_caller_is_no_agent_output() {
    let client = PrincipalId::new("client").unwrap();
    assert!(Message::agent_text("x").is_agent_output());
    let sent = Message::agent_text("x").with_author(Some(client));
    assert!(!sent.is_agent_output());
    assert!(!Message::user_text("x").is_agent_output());
}

#[test]
fn message_text_joins_text_parts_only() {
    let parts = vec![
        Part::text("one"),
        Part::file("aGk="),
        Part::new(PartKind::Text),
        Part::data(VerbatimJson::from_value("not words").unwrap()),
        Part::text("two \"quoted\""),
    ];
    assert_eq!(
        Message::new(Role::Agent, parts).unwrap().text(),
        "one\ntwo \"quoted\""
    );
    assert_eq!(Message::new(Role::Agent, Vec::new()), Err(EmptyMessage));
}

#[test]
fn debug_output_shows_no_content() {
    let message = Message::user_text("my secret");
    assert!(!format!("{message:?}").contains("secret"));
}
