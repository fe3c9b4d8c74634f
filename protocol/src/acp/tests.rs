//! Names, nulls and shapes on the wire.

use super::{Method, MethodResult, TaskEvent, TasksCancelParams, TasksCreateParams};

#[test]
fn every_method_is_found_by_its_name() {
    for method in Method::ALL {
        assert_eq!(Method::from_name(method.name()), Some(method));
    }
}

#[test]
fn explicit_nulls_count_as_absent_and_are_not_sent() {
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
fn results_name_what_they_carry() {
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
fn a_task_in_a_result_keeps_what_is_in_it() {
    let text = r#"{"type":"task","task":{"taskId":"t","status":"COMPLETED","createdAt":"2026-01-02T03:04:05.000Z","messages":[{"role":"user","parts":[{"type":"DataPart","content":{"z":1.00},"width":7}]}],"artifacts":[],"metadata":{"b":1, "a":2e3}}}"#;
    let result: MethodResult = serde_json::from_str(text).unwrap();
    assert_eq!(serde_json::to_string(&result).unwrap(), text);
    for bad in [r#"{"type":"task"}"#, r#"{"type":"other"}"#, "{}"] {
        assert!(serde_json::from_str::<MethodResult>(bad).is_err(), "{bad}");
    }
}
