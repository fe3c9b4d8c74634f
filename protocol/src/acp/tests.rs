//! Method names, nulls and JSON shapes of ACP types.

use super::{Method, MethodResult, TaskEvent, TasksCancelParams, TasksCreateParams};

#[test]
fn method_names_round_trip() {
    for method in Method::ALL {
        assert_eq!(Method::from_name(method.name()), Some(method));
    }
}

#[test]
fn explicit_nulls_are_read_as_absent_and_not_sent() {
    let text = r#"{"initialMessage":{"role":"user","parts":[{"type":"TextPart","content":"hi","mimeType":null,"filename":null,"size":null,"encoding":null}],"timestamp":null,"agentId":null},"assignTo":null,"priority":null,"metadata":null}"#;
    let params: TasksCreateParams = serde_json::from_str(text).unwrap();
    assert_eq!(params.priority, None);
    let written = serde_json::to_string(&params).unwrap();
    assert!(!written.contains("null"), "{written}");
    let cancel: TasksCancelParams =
        serde_json::from_str(r#"{"taskId":"t","reason":null}"#).unwrap();
    assert_eq!(cancel.reason, None);
}

#[test]
fn method_result_and_event_names_round_trip() {
    let text = r#"{"type":"notification","message":"taken"}"#;
    let result: MethodResult = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&result).unwrap(), text);
    for event in [
        TaskEvent::StatusChange,
        TaskEvent::NewMessage,
        TaskEvent::NewArtifact,
        TaskEvent::Completed,
        TaskEvent::Failed,
    ] {
        let written = serde_json::to_string(&event).unwrap();
        assert_eq!(written, format!("\"{}\"", event.name()));
    }
}

#[test]
fn task_result_round_trips_verbatim() {
    let text = r#"{"type":"task","task":{"taskId":"t","status":"COMPLETED","createdAt":"2026-01-02T03:04:05.000Z","messages":[{"role":"user","parts":[{"type":"DataPart","content":{"z":1.00},"width":7}]}],"artifacts":[],"metadata":{"b":1, "a":2e3}}}"#;
    let result: MethodResult = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&result).unwrap(), text);
    for bad in [r#"{"type":"task"}"#, r#"{"type":"other"}"#, "{}"] {
        assert!(serde_json::from_str::<MethodResult>(bad).is_err(), "{bad}");
    }
}

#[test]
fn task_result_with_every_field_round_trips_verbatim() {
    let part = |kind: &str| {
        format!(
            r#"{{"type":"{kind}","content":"a \"b\"\nc","mimeType":"text/plain","filename":"é\t.txt","size":18446744073709551615,"encoding":"utf8","x \"y\"":[1]}}"#
        )
    };
    let kinds = ["TextPart", "DataPart", "FilePart", "ImagePart", "AudioPart"];
    let parts = kinds.map(part).join(",");
    let message = |role: &str| {
        format!(
            r#"{{"role":"{role}","parts":[{parts}],"timestamp":"2026-01-02T03:04:05.678Z","agentId":"a","messageId":"m","contextId":"c","taskId":"t","metadata":{{"z":1.00}},"also":null}}"#
        )
    };
    let messages = ["user", "agent", "system"].map(message).join(",");
    let artifact = format!(r#"{{"artifactId":"f","name":"n","parts":[{parts}]}}"#);
    for state in crate::vocab::TaskState::ALL {
        let status = state.acp();
        let head = format!(
            r#"{{"type":"task","task":{{"taskId":"t \"1\"","status":"{status}","createdAt":"0000-01-01T00:00:00.000Z""#
        );
        let tail = format!(
            r#","updatedAt":"9999-12-31T23:59:59.999Z","assignedAgent":"a\\b","messages":[{messages}],"artifacts":[{artifact},{artifact}],"metadata":{{"b":1, "a":2e3}}"#
        );
        for text in [
            format!("{head}}}}}"),
            format!(r#"{head},"messages":[],"artifacts":[]}}}}"#),
            format!("{head}{tail}}}}}"),
        ] {
            let result: MethodResult = serde_json::from_str(&text).unwrap();
            assert_eq!(serde_json::to_string(&result).unwrap(), text);
        }
    }
}
