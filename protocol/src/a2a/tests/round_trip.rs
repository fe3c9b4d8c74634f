//! Properties: objects of 1.0 survive the way through 0.3, and no input causes a panic.

use super::{read, write};
use crate::a2a::{
    A2aAgentCard, A2aMessage, A2aPart, A2aTask, Codec, RestRoute, SendMessageRequest,
    StreamResponse, TaskPushNotificationConfig, WireFormat, WireObject,
};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const V1: WireFormat = WireFormat::V1;

fn any_json() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        any::<i64>().prop_map(Value::from),
        any::<f64>().prop_map(Value::from),
        ".{0,12}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            prop::collection::btree_map(".{0,6}", inner, 0..4)
                .prop_map(|map| Value::Object(map.into_iter().collect())),
        ]
    })
}

/// Metadata is absent or has a member.
fn any_metadata() -> impl Strategy<Value = Option<Value>> {
    let members = prop::collection::btree_map(".{0,6}", any_json(), 1..3);
    prop::option::of(members.prop_map(|map| Value::Object(map.into_iter().collect())))
}

/// An object of the members that are present.
fn object<const N: usize>(members: [(&str, Option<Value>); N]) -> Value {
    let present = members
        .into_iter()
        .filter_map(|(name, value)| Some((name.to_owned(), value?)));
    Value::Object(present.collect::<Map<_, _>>())
}

fn any_part() -> impl Strategy<Value = Value> {
    let content = prop_oneof![
        ".{0,12}".prop_map(|text| ("text", Value::from(text))),
        "([A-Za-z0-9+/]{4}){0,3}".prop_map(|raw| ("raw", Value::from(raw))),
        ".{0,12}".prop_map(|url| ("url", Value::from(url))),
        any_json().prop_map(|data| ("data", data)),
    ];
    let name = || prop::option::of(".{1,8}".prop_map(Value::from));
    (content, name(), name(), any_metadata()).prop_map(
        |((content, value), filename, media_type, metadata)| {
            object([
                (content, Some(value)),
                ("filename", filename),
                ("mediaType", media_type),
                ("metadata", metadata),
            ])
        },
    )
}

fn any_parts() -> impl Strategy<Value = Value> {
    prop::collection::vec(any_part(), 1..4).prop_map(Value::from)
}

fn any_texts() -> impl Strategy<Value = Option<Value>> {
    prop::option::of(prop::collection::vec(".{0,6}", 1..3).prop_map(Value::from))
}

fn any_id() -> impl Strategy<Value = Option<Value>> {
    prop::option::of(".{1,6}".prop_map(Value::from))
}

fn any_message() -> impl Strategy<Value = Value> {
    let role = prop::sample::select(vec!["ROLE_USER", "ROLE_AGENT"]);
    let lists = (any_texts(), any_texts());
    (
        ".{1,6}",
        role,
        any_parts(),
        any_id(),
        any_id(),
        any_metadata(),
        lists,
    )
        .prop_map(
            |(id, role, parts, context_id, task_id, metadata, (extensions, references))| {
                object([
                    ("messageId", Some(id.into())),
                    ("role", Some(role.into())),
                    ("parts", Some(parts)),
                    ("contextId", context_id),
                    ("taskId", task_id),
                    ("metadata", metadata),
                    ("extensions", extensions),
                    ("referenceTaskIds", references),
                ])
            },
        )
}

fn any_status() -> impl Strategy<Value = Value> {
    let state = prop::sample::select(vec![
        "TASK_STATE_UNSPECIFIED",
        "TASK_STATE_SUBMITTED",
        "TASK_STATE_WORKING",
        "TASK_STATE_COMPLETED",
        "TASK_STATE_FAILED",
        "TASK_STATE_CANCELED",
        "TASK_STATE_INPUT_REQUIRED",
        "TASK_STATE_REJECTED",
        "TASK_STATE_AUTH_REQUIRED",
    ]);
    (state, prop::option::of(any_message())).prop_map(|(state, message)| {
        object([
            ("state", Some(state.into())),
            ("message", message),
            ("timestamp", Some("2026-01-02T03:04:05.678Z".into())),
        ])
    })
}

fn any_artifact() -> impl Strategy<Value = Value> {
    (
        ".{1,6}",
        any_id(),
        any_id(),
        any_parts(),
        any_metadata(),
        any_texts(),
    )
        .prop_map(|(id, name, description, parts, metadata, extensions)| {
            object([
                ("artifactId", Some(id.into())),
                ("name", name),
                ("description", description),
                ("parts", Some(parts)),
                ("metadata", metadata),
                ("extensions", extensions),
            ])
        })
}

fn any_task() -> impl Strategy<Value = Value> {
    let artifacts = prop::option::of(prop::collection::vec(any_artifact(), 0..3));
    let history = prop::option::of(prop::collection::vec(any_message(), 1..3));
    (
        ".{1,6}",
        ".{1,6}",
        any_status(),
        artifacts,
        history,
        any_metadata(),
    )
        .prop_map(|(id, context_id, status, artifacts, history, metadata)| {
            object([
                ("id", Some(id.into())),
                ("contextId", Some(context_id.into())),
                ("status", Some(status)),
                ("artifacts", artifacts.map(Value::from)),
                ("history", history.map(Value::from)),
                ("metadata", metadata),
            ])
        })
}

fn any_config() -> impl Strategy<Value = Value> {
    let authentication = (".{1,6}", any_id()).prop_map(|(scheme, credentials)| {
        object([
            ("scheme", Some(scheme.into())),
            ("credentials", credentials),
        ])
    });
    (
        ".{1,6}",
        any_id(),
        ".{1,6}",
        any_id(),
        prop::option::of(authentication),
    )
        .prop_map(|(task_id, id, url, token, authentication)| {
            object([
                ("taskId", Some(task_id.into())),
                ("id", id),
                ("url", Some(url.into())),
                ("token", token),
                ("authentication", authentication),
            ])
        })
}

/// Reads 1.0, writes 0.3, reads it back and writes 1.0; all must be equal.
fn assert_survives<T>(v1: &Value, format: WireFormat)
where
    T: WireObject + PartialEq + std::fmt::Debug,
{
    let object: T = read(V1, v1).unwrap();
    assert_eq!(&write(V1, &object), v1);
    let v03 = write(format, &object);
    let returned: T = read(format, &v03).unwrap();
    assert_eq!(&write(V1, &returned), v1, "{v03}");
}

proptest! {
    #[test]
    fn parts_survive_both_formats_of_0_3(part in any_part()) {
        assert_survives::<A2aPart>(&part, WireFormat::V03);
        assert_survives::<A2aPart>(&part, WireFormat::RestV03);
    }

    #[test]
    fn messages_survive_0_3(message in any_message()) {
        assert_survives::<A2aMessage>(&message, WireFormat::V03);
    }

    #[test]
    fn tasks_survive_0_3(task in any_task()) {
        assert_survives::<A2aTask>(&task, WireFormat::V03);
        let event = json!({"task": task});
        assert_survives::<StreamResponse>(&event, WireFormat::V03);
    }

    #[test]
    fn push_configs_survive_0_3(config in any_config()) {
        assert_survives::<TaskPushNotificationConfig>(&config, WireFormat::V03);
    }

    #[test]
    fn any_json_is_read_or_refused(json in any_json()) {
        let text = json.to_string();
        for format in WireFormat::ALL {
            for codec in [Codec::server(format), Codec::client(format)] {
                let _ = SendMessageRequest::decode(&text, codec);
                let _ = StreamResponse::decode(&text, codec);
                let _ = A2aAgentCard::decode(&text, codec);
            }
        }
    }

    #[test]
    fn any_text_is_read_or_refused(text in ".{0,40}") {
        let _ = A2aPart::decode(&text, Codec::server(V1));
        let _ = RestRoute::parse("GET", &text);
    }
}
