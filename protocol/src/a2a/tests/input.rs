//! Lenient input, and refusals with the path of the field.

use super::{read, write};
use crate::a2a::{
    A2aMessage, A2aPart, A2aTaskState, A2aTaskStatus, CancelTaskRequest, Codec, Expectation,
    GetTaskRequest, InvalidField, ListTasksRequest, PartContent, PushConfigRequest,
    SendMessageRequest, StreamResponse, TaskPushNotificationConfig, WireFormat, WireObject,
};
use crate::vocab::TaskState;
use serde_json::{Value, json};

const V1: WireFormat = WireFormat::V1;
const V03: WireFormat = WireFormat::V03;
const REST_V03: WireFormat = WireFormat::RestV03;

fn send(message: Value) -> Value {
    json!({"message": message})
}

/// A message with one part.
fn with_part(part: Value) -> Value {
    send(json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "a"}, part]}))
}

fn refusal<T: WireObject>(format: WireFormat, json: &Value) -> (String, Expectation) {
    match read::<T>(format, json) {
        Ok(_) => panic!("accepted {json}"),
        Err(error) => (error.path().to_owned(), error.expectation()),
    }
}

#[test]
fn snake_case_names_and_numbers_of_enums_are_accepted() {
    let camel = json!({
        "message": {"messageId": "m", "role": "ROLE_AGENT", "contextId": "c", "taskId": "t",
            "parts": [{"raw": "/+8=", "mediaType": "image/png"}], "referenceTaskIds": ["r"]},
        "configuration": {"acceptedOutputModes": ["text/plain"], "historyLength": 5,
            "returnImmediately": true,
            "taskPushNotificationConfig": {"url": "https://a.example",
                "authentication": {"scheme": "Bearer", "credentials": "x"}}},
    });
    let snake = json!({
        "message": {"message_id": "m", "role": 2, "context_id": "c", "task_id": "t",
            "parts": [{"raw": "_-8", "media_type": "image/png"}], "reference_task_ids": ["r"],
            "metadata": null, "unknown": {"a": 1}},
        "configuration": {"accepted_output_modes": ["text/plain"], "history_length": "5.0",
            "return_immediately": true,
            "task_push_notification_config": {"url": "https://a.example", "task_id": "",
                "authentication": {"scheme": "Bearer", "credentials": "x"}}},
        "tenant": null, "metadata": null,
    });
    let expected: SendMessageRequest = read(V1, &camel).unwrap();
    assert_eq!(read::<SendMessageRequest>(V1, &snake).unwrap(), expected);
    assert_eq!(write(V1, &expected), camel);
}

#[test]
fn base64_is_accepted_in_either_alphabet_with_or_without_padding() {
    for (text, bytes) in [
        ("", &b""[..]),
        ("/+8=", &[0xff, 0xef]),
        ("/+8", &[0xff, 0xef]),
        ("_-8=", &[0xff, 0xef]),
        ("_-8", &[0xff, 0xef]),
        ("/+9", &[0xff, 0xef]),
        ("AAAA", &[0, 0, 0]),
        ("AA==", &[0]),
    ] {
        let part: A2aPart = read(V1, &json!({"raw": text})).unwrap();
        let PartContent::Raw(raw) = &part.content else {
            panic!("{part:?}")
        };
        assert_eq!(raw.to_bytes(), bytes, "{text}");
        assert_eq!(raw.byte_len(), bytes.len());
        let standard = if bytes.len() == 2 { "/+8=" } else { text };
        assert_eq!(raw.as_str(), standard);
    }
    for text in ["?", "A", "AA=A", "====", "AAA\n", "+-AA", "A A="] {
        let (path, expectation) = refusal::<A2aPart>(V1, &json!({"raw": text}));
        assert_eq!(
            (path.as_str(), expectation),
            ("raw", Expectation::Base64),
            "{text}"
        );
    }
}

#[test]
fn integers_are_numbers_or_strings_of_whole_numbers() {
    for value in [json!(5), json!(5.0), json!("5"), json!("5.0"), json!(0.5e1)] {
        let request: GetTaskRequest =
            read(V1, &json!({"id": "t", "historyLength": value})).unwrap();
        assert_eq!(request.history_length, Some(5), "{value}");
    }
    for value in [
        json!(5.5),
        json!("five"),
        json!(""),
        json!(true),
        json!([5]),
        json!(-1),
        json!(2_147_483_648_u64),
        json!("0x5"),
        json!("inf"),
        json!("5 "),
        json!(1e300),
    ] {
        let json = json!({"id": "t", "historyLength": value});
        let (path, expectation) = refusal::<GetTaskRequest>(V1, &json);
        assert_eq!(path, "historyLength");
        assert_eq!(
            expectation,
            Expectation::Integer {
                min: 0,
                max: i32::MAX
            },
            "{value}"
        );
    }
}

#[test]
fn times_have_any_offset_and_up_to_nine_digits() {
    for (text, expected) in [
        ("2026-01-02T03:04:05Z", "2026-01-02T03:04:05.000Z"),
        (
            "2026-01-02T05:04:05.123456789+02:00",
            "2026-01-02T03:04:05.123Z",
        ),
    ] {
        let request: ListTasksRequest = read(V1, &json!({"statusTimestampAfter": text})).unwrap();
        assert_eq!(
            request.status_timestamp_after.unwrap().to_string(),
            expected
        );
    }
    for value in [
        json!("2026-01-02"),
        json!("2026-01-02T03:04:05"),
        json!(5),
        json!("2026-01-02T03:04:05.1234567890Z"),
    ] {
        let (path, expectation) =
            refusal::<ListTasksRequest>(V1, &json!({"statusTimestampAfter": value}));
        assert_eq!(
            (path.as_str(), expectation),
            ("statusTimestampAfter", Expectation::Time)
        );
    }
}

#[test]
fn refusals_name_the_path_and_the_expected_value() {
    let cases = [
        (json!([]), "params", "must be an object"),
        (json!({}), "message", "is required"),
        (send(json!(null)), "message", "is required"),
        (send(json!("m")), "message", "must be an object"),
        (send(json!({"role": 1})), "message.messageId", "is required"),
        (
            send(json!({"messageId": "m"})),
            "message.role",
            "is required",
        ),
        (
            send(json!({"messageId": "m", "role": true})),
            "message.role",
            "must be one of ROLE_USER, ROLE_AGENT",
        ),
        (
            send(json!({"messageId": "", "role": 1, "parts": [{"text": ""}]})),
            "message.messageId",
            "must be a string that is not empty",
        ),
        (
            send(json!({"messageId": 7, "role": 1, "parts": [{"text": ""}]})),
            "message.messageId",
            "must be a string",
        ),
        (
            send(json!({"messageId": "m", "role": 0, "parts": []})),
            "message.role",
            "must be one of ROLE_USER, ROLE_AGENT",
        ),
        (
            send(json!({"messageId": "m", "role": "user", "parts": []})),
            "message.role",
            "must be one of ROLE_USER, ROLE_AGENT",
        ),
        (
            send(json!({"messageId": "m", "role": 1, "parts": []})),
            "message.parts",
            "must have at least one element",
        ),
        (
            send(json!({"messageId": "m", "role": 1})),
            "message.parts",
            "is required",
        ),
        (
            send(json!({"messageId": "m", "role": 1, "parts": {}})),
            "message.parts",
            "must be an array",
        ),
        (
            with_part(json!(null)),
            "message.parts[1]",
            "must be an object",
        ),
        (
            with_part(json!({})),
            "message.parts[1]",
            "must have exactly one of text, raw, url, data",
        ),
        (
            with_part(json!({"text": "a", "url": "b"})),
            "message.parts[1]",
            "must have exactly one of text, raw, url, data",
        ),
        (
            with_part(json!({"text": "a", "data": null})),
            "message.parts[1]",
            "must have exactly one of text, raw, url, data",
        ),
        (
            with_part(json!({"text": 5})),
            "message.parts[1].text",
            "must be a string",
        ),
        (
            with_part(json!({"raw": "?"})),
            "message.parts[1].raw",
            "must be base64 text",
        ),
        (
            with_part(json!({"text": "a", "metadata": []})),
            "message.parts[1].metadata",
            "must be an object",
        ),
        (
            with_part(json!({"text": "a", "mediaType": "b", "media_type": "b"})),
            "message.parts[1].mediaType",
            "must be given only once, in one spelling",
        ),
        (
            json!({"message": {"messageId": "m", "role": 1, "parts": [{"text": "a"}],
            "extensions": [null]}}),
            "message.extensions[0]",
            "must be a string",
        ),
        (
            json!({"message": {"messageId": "m", "role": 1, "parts": [{"text": "a"}]},
            "configuration": {"returnImmediately": "true"}}),
            "configuration.returnImmediately",
            "must be true or false",
        ),
    ];
    for (json, path, expectation) in cases {
        let error = read::<SendMessageRequest>(V1, &json).unwrap_err();
        assert_eq!(error.to_string(), format!("{path} {expectation}"), "{json}");
    }
}

#[test]
fn text_that_is_not_json_is_refused() {
    for text in ["", "{", "{\"message\":}", "nul"] {
        assert!(SendMessageRequest::decode(text, Codec::server(V1)).is_err());
    }
    let error: InvalidField = A2aPart::decode("{\"text\":\"a\"", Codec::server(V1)).unwrap_err();
    assert_eq!(error.to_string(), "params must be valid JSON");
}

#[test]
fn duplicate_members_are_refused() {
    let text = r#"{"text":"a","text":"b"}"#;
    let error = A2aPart::decode(text, Codec::server(V1)).unwrap_err();
    assert_eq!(error.expectation(), Expectation::Single);
}

#[test]
fn null_is_a_content_of_data_and_absent_elsewhere() {
    let part: A2aPart = read(V1, &json!({"data": null, "text": null, "filename": null})).unwrap();
    assert_eq!(write(V1, &part), json!({"data": null}));
    let wrapped = json!({"kind": "data", "data": {"value": null},
        "metadata": {"data_part_compat": true}});
    assert_eq!(write(V03, &part), wrapped);
    assert_eq!(read::<A2aPart>(V03, &wrapped).unwrap(), part);
    let text: A2aPart = read(V03, &json!({"kind": "text", "text": "a", "data": null})).unwrap();
    assert_eq!(write(V1, &text), json!({"text": "a"}));
}

#[test]
fn v03_parts_are_read_with_and_without_kind() {
    for (v03, v1) in [
        (json!({"kind": "text", "text": "a"}), json!({"text": "a"})),
        (json!({"text": "a"}), json!({"text": "a"})),
        (
            json!({"file": {"bytes": "AA", "uri": "https://a", "mime_type": "b", "name": "c"}}),
            json!({"raw": "AA==", "mediaType": "b", "filename": "c"}),
        ),
        (
            json!({"kind": "file", "file": {"uri": "https://a"}}),
            json!({"url": "https://a"}),
        ),
        (json!({"data": {"a": 1}}), json!({"data": {"a": 1}})),
        (
            json!({"data": {"a": 1}, "metadata": {"data_part_compat": false, "b": 2}}),
            json!({"data": {"a": 1}, "metadata": {"b": 2}}),
        ),
    ] {
        let part: A2aPart = read(V03, &v03).unwrap();
        assert_eq!(write(V1, &part), v1);
    }
    for (json, path) in [
        (json!({"kind": "image", "text": "a"}), "kind"),
        (json!({"kind": "file", "text": "a"}), "file"),
        (
            json!({"kind": "text", "text": "a", "file": {"uri": "b"}}),
            "params",
        ),
        (json!({"kind": "file", "file": {"name": "a"}}), "file"),
        (
            json!({"kind": "file", "file": {"bytes": "?"}}),
            "file.bytes",
        ),
        (json!({}), "params"),
    ] {
        assert_eq!(refusal::<A2aPart>(V03, &json).0, path, "{json}");
    }
}

#[test]
fn v03_objects_of_another_kind_are_refused() {
    let json = json!({"kind": "task", "messageId": "m", "role": "user", "parts": [{"text": "a"}]});
    assert_eq!(refusal::<A2aMessage>(V03, &json).0, "kind");
    let without = json!({"messageId": "m", "role": "user", "parts": [{"text": "a"}]});
    assert!(read::<A2aMessage>(V03, &without).is_ok());
}

#[test]
fn events_without_kind_are_distinguished_by_members() {
    let codec = Codec::client(V03);
    let kind = |text: &str| match StreamResponse::decode(text, codec).unwrap() {
        StreamResponse::Task(_) => "task",
        StreamResponse::Message(_) => "message",
        StreamResponse::StatusUpdate(_) => "status",
        StreamResponse::ArtifactUpdate(_) => "artifact",
    };
    let status = r#""status":{"state":"working"}"#;
    assert_eq!(kind(&format!(r#"{{"id":"t",{status}}}"#)), "task");
    assert_eq!(
        kind(r#"{"messageId":"m","role":"agent","parts":[]}"#),
        "message"
    );
    assert_eq!(kind(&format!(r#"{{"taskId":"t",{status}}}"#)), "status");
    let artifact = r#"{"taskId":"t","artifact":{"artifactId":"a","parts":[]}}"#;
    assert_eq!(kind(artifact), "artifact");
}

#[test]
fn only_a_client_accepts_unknown_states_and_times() {
    let json = r#"{"state":"TASK_STATE_PAUSED","timestamp":"2026-01-02T03:04:05"}"#;
    assert!(A2aTaskStatus::decode(json, Codec::server(V1)).is_err());
    let status = A2aTaskStatus::decode(json, Codec::client(V1)).unwrap();
    assert_eq!((status.state, status.timestamp), (A2aTaskState(None), None));
    let wrong_type = r#"{"state":[]}"#;
    assert!(A2aTaskStatus::decode(wrong_type, Codec::client(V1)).is_err());
}

#[test]
fn history_length_zero_means_all_in_0_3() {
    let json = json!({"id": "t", "historyLength": 0});
    let length = |format| {
        read::<GetTaskRequest>(format, &json)
            .unwrap()
            .history_length
    };
    assert_eq!(
        (length(V1), length(V03), length(REST_V03)),
        (Some(0), None, None)
    );
}

#[test]
fn absent_blocking_waits_except_in_rest_configuration() {
    let message = |parts: &str| json!({"messageId": "m", "role": 1, parts: [{"text": "a"}]});
    let is_immediate = |format, json: Value| {
        let request: SendMessageRequest = read(format, &json).unwrap();
        request
            .configuration
            .is_some_and(|configuration| configuration.return_immediately)
    };
    let parts = message("parts");
    let content = message("content");
    assert!(!is_immediate(V03, json!({"message": parts})));
    assert!(!is_immediate(
        V03,
        json!({"message": parts, "configuration": {}})
    ));
    assert!(is_immediate(
        V03,
        json!({"message": parts, "configuration": {"blocking": false}})
    ));
    assert!(!is_immediate(REST_V03, json!({"message": content})));
    assert!(is_immediate(
        REST_V03,
        json!({"request": content, "configuration": {}})
    ));
    assert!(!is_immediate(
        REST_V03,
        json!({"message": content, "configuration": {"blocking": true}})
    ));
}

#[test]
fn list_filters_are_validated() {
    let status = |value: Value| read::<ListTasksRequest>(V1, &json!({"status": value}));
    assert_eq!(
        status(json!("TASK_STATE_UNSPECIFIED")).unwrap().status,
        None
    );
    assert_eq!(status(json!(5)).unwrap().status, Some(TaskState::Canceled));
    assert_eq!(status(json!("working")).unwrap_err().path(), "status");
    assert_eq!(status(json!(9)).unwrap_err().path(), "status");
    for size in [0, 101, -1] {
        let error = read::<ListTasksRequest>(V1, &json!({"pageSize": size})).unwrap_err();
        assert_eq!(error.path(), "pageSize");
    }
}

#[test]
fn rest_v03_accepts_both_spellings_of_canceled() {
    for name in ["TASK_STATE_CANCELLED", "TASK_STATE_CANCELED"] {
        let status: A2aTaskStatus = read(REST_V03, &json!({"state": name})).unwrap();
        assert_eq!(status.state, A2aTaskState(Some(TaskState::Canceled)));
    }
    assert!(read::<A2aTaskStatus>(V1, &json!({"state": "TASK_STATE_CANCELLED"})).is_err());
}

#[test]
fn v03_ids_of_push_configs_have_other_names() {
    let json = json!({"id": "t", "pushNotificationConfigId": "c"});
    let request: PushConfigRequest = read(V03, &json).unwrap();
    assert_eq!(
        (request.task_id.as_str(), request.id.as_deref()),
        ("t", Some("c"))
    );
    let without: PushConfigRequest = read(V03, &json!({"id": "t"})).unwrap();
    let error = without.require_id(V03).unwrap_err();
    assert_eq!(error.path(), "pushNotificationConfigId");
    assert_eq!(
        refusal::<PushConfigRequest>(V1, &json!({"taskId": "t"})).0,
        "id"
    );
}

#[test]
fn rest_v03_creates_push_configs_from_three_shapes() {
    let flat = json!({"taskId": "t", "id": "c", "url": "https://a"});
    let inner = json!({"id": "ignored", "url": "https://a"});
    let named =
        json!({"name": "tasks/t/pushNotificationConfigs/c", "pushNotificationConfig": inner});
    let python = json!({"parent": "tasks/t", "configId": "c",
        "config": {"pushNotificationConfig": {"url": "https://a"}}});
    let expected: TaskPushNotificationConfig = read(V1, &flat).unwrap();
    for json in [&flat, &named, &python] {
        assert_eq!(
            &read::<TaskPushNotificationConfig>(REST_V03, json).unwrap(),
            &expected
        );
    }
    let bad = json!({"name": "tasks/t", "pushNotificationConfig": inner});
    assert_eq!(
        refusal::<TaskPushNotificationConfig>(REST_V03, &bad).0,
        "name"
    );
}

#[test]
fn authentication_needs_a_scheme() {
    let v1 = json!({"taskId": "t", "url": "https://a", "authentication": {}});
    assert_eq!(
        refusal::<TaskPushNotificationConfig>(V1, &v1).0,
        "authentication.scheme"
    );
    let v03 = json!({"taskId": "t", "pushNotificationConfig":
        {"url": "https://a", "authentication": {"schemes": []}}});
    let path = refusal::<TaskPushNotificationConfig>(V03, &v03).0;
    assert_eq!(path, "pushNotificationConfig.authentication.schemes");
}

#[test]
fn metadata_stays_verbatim() {
    let text = r#"{"id":"t","metadata":{"z":1.00, "a":123456789012345678901234567890}}"#;
    let request = CancelTaskRequest::decode(text, Codec::server(V1)).unwrap();
    assert_eq!(serde_json::to_string(&request.encode(V1)).unwrap(), text);
}

#[test]
fn secrets_and_contents_are_not_in_debug_output() {
    let json = json!({"taskId": "t", "url": "https://a", "token": "hunter2",
        "authentication": {"scheme": "Bearer", "credentials": "hunter2"}});
    let config: TaskPushNotificationConfig = read(V1, &json).unwrap();
    assert!(!format!("{config:?}").contains("hunter2"));
    let part: A2aPart = read(V1, &json!({"text": "hunter2"})).unwrap();
    assert!(!format!("{part:?}").contains("hunter2"));
}

#[test]
fn objects_and_arrays_over_the_limit_are_refused() {
    let members: Vec<String> = (0..1_001)
        .map(|number| format!(r#""x{number}":0"#))
        .collect();
    let text = format!(r#"{{"text":"a",{}}}"#, members.join(","));
    let error = A2aPart::decode(&text, Codec::server(V1)).unwrap_err();
    assert_eq!(error.expectation(), Expectation::MaxLength(1_000));
    let metadata = format!(r#"{{"text":"a","metadata":{{{}}}}}"#, members.join(","));
    assert!(A2aPart::decode(&metadata, Codec::server(V1)).is_ok());

    let modes = vec![r#""""#; 100_001].join(",");
    let message = r#""message":{"messageId":"m","role":1,"parts":[{"text":"a"}]}"#;
    let text = format!(r#"{{{message},"configuration":{{"acceptedOutputModes":[{modes}]}}}}"#);
    let error = SendMessageRequest::decode(&text, Codec::server(V1)).unwrap_err();
    assert_eq!(error.path(), "configuration.acceptedOutputModes");
    assert_eq!(error.expectation(), Expectation::MaxLength(100_000));
}
