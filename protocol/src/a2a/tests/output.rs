//! Golden output of every object in each wire format.

use super::{read, write};
use crate::a2a::{
    A2aMessage, A2aTask, CreatePushConfigRequest, DeletePushConfigResponse,
    ListPushConfigsResponse, ListTasksRequest, ListTasksResponse, SendMessageRequest,
    SendMessageResponse, StreamResponse, TaskArtifactUpdateEvent, TaskPushNotificationConfig,
    WireFormat, WireObject,
};
use serde_json::{Value, json};

const V1: WireFormat = WireFormat::V1;
const V03: WireFormat = WireFormat::V03;
const REST_V03: WireFormat = WireFormat::RestV03;

/// A task of 1.0 with every member.
pub(super) fn task_v1() -> Value {
    json!({
        "id": "t", "contextId": "c",
        "status": {"state": "TASK_STATE_CANCELED", "timestamp": "2026-01-02T03:04:05.678Z",
            "message": {"messageId": "m2", "role": "ROLE_AGENT", "taskId": "t", "contextId": "c",
                "parts": [{"text": ""}]}},
        "artifacts": [{"artifactId": "a", "name": "n", "description": "d", "extensions": ["urn:x"],
            "metadata": {"k": 1},
            "parts": [
                {"text": "t", "filename": "f", "mediaType": "text/markdown", "metadata": {"k": 1}},
                {"raw": "/+8=", "filename": "f", "mediaType": "image/png"},
                {"url": "https://a.example/f", "metadata": {"k": 1}},
                {"data": {"a": [1, null]}},
                {"data": [1], "mediaType": "application/json"},
            ]}],
        "history": [{"messageId": "m1", "role": "ROLE_USER", "parts": [{"text": "hi"}],
            "referenceTaskIds": ["r"], "extensions": ["urn:x"], "metadata": {"k": 1}}],
        "metadata": {"k": 1},
    })
}

#[test]
fn task_has_its_form_in_every_format() {
    let task: A2aTask = read(V1, &task_v1()).unwrap();
    assert_eq!(write(V1, &task), task_v1());
    let v03 = json!({
        "kind": "task", "id": "t", "contextId": "c",
        "status": {"state": "canceled", "timestamp": "2026-01-02T03:04:05.678Z",
            "message": {"kind": "message", "messageId": "m2", "role": "agent", "taskId": "t",
                "contextId": "c", "parts": [{"kind": "text", "text": ""}]}},
        "artifacts": [{"artifactId": "a", "name": "n", "description": "d", "extensions": ["urn:x"],
            "metadata": {"k": 1},
            "parts": [
                {"kind": "text", "text": "t", "metadata": {"k": 1, "interzone.filename": "f",
                    "interzone.mediaType": "text/markdown"}},
                {"kind": "file", "file": {"bytes": "/+8=", "mimeType": "image/png", "name": "f"}},
                {"kind": "file", "file": {"uri": "https://a.example/f"}, "metadata": {"k": 1}},
                {"kind": "data", "data": {"a": [1, null]}},
                {"kind": "data", "data": {"value": [1]}, "metadata": {"data_part_compat": true,
                    "interzone.mediaType": "application/json"}},
            ]}],
        "history": [{"kind": "message", "messageId": "m1", "role": "user",
            "parts": [{"kind": "text", "text": "hi"}], "referenceTaskIds": ["r"],
            "extensions": ["urn:x"], "metadata": {"k": 1}}],
        "metadata": {"k": 1},
    });
    assert_eq!(write(V03, &task), v03);
    assert_eq!(read::<A2aTask>(V03, &v03).unwrap(), task);
    let rest = json!({
        "id": "t", "contextId": "c",
        "status": {"state": "TASK_STATE_CANCELLED", "timestamp": "2026-01-02T03:04:05.678Z",
            "message": {"messageId": "m2", "role": "ROLE_AGENT", "taskId": "t",
                "contextId": "c", "content": [{"text": ""}]}},
        "artifacts": [{"artifactId": "a", "name": "n", "description": "d", "extensions": ["urn:x"],
            "metadata": {"k": 1},
            "parts": [
                {"text": "t", "metadata": {"k": 1, "interzone.filename": "f",
                    "interzone.mediaType": "text/markdown"}},
                {"file": {"fileWithBytes": "/+8=", "mimeType": "image/png", "name": "f"}},
                {"file": {"fileWithUri": "https://a.example/f"}, "metadata": {"k": 1}},
                {"data": {"data": {"a": [1, null]}}},
                {"data": {"data": {"value": [1]}}, "metadata": {"data_part_compat": true,
                    "interzone.mediaType": "application/json"}},
            ]}],
        "history": [{"messageId": "m1", "role": "ROLE_USER", "content": [{"text": "hi"}],
            "extensions": ["urn:x"], "metadata": {"k": 1}}],
        "metadata": {"k": 1},
    });
    assert_eq!(write(REST_V03, &task), rest);
    let mut without_references = task;
    without_references.history[0].reference_task_ids.clear();
    assert_eq!(
        read::<A2aTask>(REST_V03, &rest).unwrap(),
        without_references
    );
}

#[test]
fn empty_members_are_written_only_where_the_format_has_them() {
    let status = json!({"state": "TASK_STATE_SUBMITTED"});
    let mut task: A2aTask =
        read(V1, &json!({"id": "t", "contextId": "c", "status": status})).unwrap();
    assert_eq!(
        write(V1, &task),
        json!({"id": "t", "contextId": "c", "status": status})
    );
    let v03 = write(V03, &task);
    assert_eq!(v03["history"], json!([]));
    assert_eq!(v03.get("artifacts"), None);
    task.artifacts = Some(Vec::new());
    assert_eq!(write(V1, &task)["artifacts"], json!([]));
}

#[test]
fn artifact_flags_are_written_if_true_and_always_in_0_3() {
    let json = json!({"taskId": "t", "contextId": "c", "lastChunk": true,
        "artifact": {"artifactId": "a", "parts": [{"text": "x"}]}});
    let event: TaskArtifactUpdateEvent = read(V1, &json).unwrap();
    assert_eq!(write(V1, &event), json);
    let v03 = write(V03, &event);
    assert_eq!(
        (&v03["append"], &v03["lastChunk"]),
        (&json!(false), &json!(true))
    );
    assert_eq!(v03["kind"], "artifact-update");
}

#[test]
fn events_are_wrapped_except_in_0_3_over_json_rpc() {
    let status = json!({"statusUpdate": {"taskId": "t", "contextId": "c",
        "status": {"state": "TASK_STATE_WORKING"}}});
    let StreamResponse::StatusUpdate(mut event) = read(V1, &status).unwrap() else {
        panic!("not a status update")
    };
    event.is_final = true;
    let event = StreamResponse::StatusUpdate(event);
    assert_eq!(write(V1, &event), status);
    let v03 = json!({"kind": "status-update", "taskId": "t", "contextId": "c", "final": true,
        "status": {"state": "working"}});
    assert_eq!(write(V03, &event), v03);
    assert_eq!(read::<StreamResponse>(V03, &v03).unwrap(), event);
    let rest = json!({"statusUpdate": {"taskId": "t", "contextId": "c", "final": true,
        "status": {"state": "TASK_STATE_WORKING"}}});
    assert_eq!(write(REST_V03, &event), rest);
    assert_eq!(read::<StreamResponse>(REST_V03, &rest).unwrap(), event);
    for wrong in [json!({}), json!({"task": null}), json!({"unknown": {}})] {
        assert!(read::<StreamResponse>(V1, &wrong).is_err());
    }
}

#[test]
fn send_result_is_a_task_or_a_message() {
    let message = json!({"messageId": "m", "role": "ROLE_AGENT", "contextId": "c",
        "parts": [{"text": "hi"}]});
    let wrapped = json!({"message": message});
    let response: SendMessageResponse = read(V1, &wrapped).unwrap();
    assert_eq!(write(V1, &response), wrapped);
    assert_eq!(write(V03, &response)["kind"], "message");
    assert_eq!(
        write(REST_V03, &response)["message"]["content"],
        json!([{"text": "hi"}])
    );
    let v03 = write(V03, &response);
    assert_eq!(read::<SendMessageResponse>(V03, &v03).unwrap(), response);
}

#[test]
fn push_config_has_its_form_in_every_format() {
    let v1 = json!({"taskId": "t", "id": "c", "url": "https://a.example", "token": "k",
        "authentication": {"scheme": "Bearer", "credentials": "x"}});
    let config: TaskPushNotificationConfig = read(V1, &v1).unwrap();
    let inner = json!({"id": "c", "url": "https://a.example", "token": "k",
        "authentication": {"schemes": ["Bearer"], "credentials": "x"}});
    let v03 = json!({"taskId": "t", "pushNotificationConfig": inner});
    let rest =
        json!({"name": "tasks/t/pushNotificationConfigs/c", "pushNotificationConfig": inner});
    assert_eq!(write(V1, &config), v1);
    assert_eq!(write(V03, &config), v03);
    assert_eq!(write(REST_V03, &config), rest);
    let request: CreatePushConfigRequest = read(V1, &v1).unwrap();
    assert_eq!(write(V1, &request), v1);

    let several = json!({"taskId": "t", "pushNotificationConfig": {"url": "https://a.example",
        "authentication": {"schemes": ["Bearer", "Basic"]}}});
    let config: TaskPushNotificationConfig = read(V03, &several).unwrap();
    assert_eq!(
        write(V1, &config)["authentication"],
        json!({"scheme": "Bearer"})
    );
    assert_eq!(write(V03, &config), several);
}

#[test]
fn lists_have_their_members_even_if_empty() {
    let page = ListTasksResponse {
        page_size: 50,
        ..ListTasksResponse::default()
    };
    let empty = json!({"tasks": [], "nextPageToken": "", "pageSize": 50, "totalSize": 0});
    assert_eq!(write(V1, &page), empty);
    assert_eq!(read::<ListTasksResponse>(V1, &empty).unwrap(), page);
    let configs = ListPushConfigsResponse::default();
    assert_eq!(write(REST_V03, &configs), json!({"configs": []}));
    assert_eq!(write(V03, &DeletePushConfigResponse), Value::Null);
    assert_eq!(write(V1, &DeletePushConfigResponse), json!({}));
}

#[test]
fn send_params_have_their_form_in_every_format() {
    let message = json!({"messageId": "m", "role": "ROLE_USER", "parts": [{"text": "hi"}]});
    let v1 = json!({"tenant": "support", "message": message, "metadata": {"k": 1},
        "configuration": {"taskPushNotificationConfig": {"url": "https://a.example"},
            "historyLength": 2, "acceptedOutputModes": ["text/plain"]}});
    let request: SendMessageRequest = read(V1, &v1).unwrap();
    assert_eq!(write(V1, &request), v1);
    let v03 = write(V03, &request);
    assert_eq!(
        v03["configuration"],
        json!({"blocking": true, "historyLength": 2,
        "acceptedOutputModes": ["text/plain"],
        "pushNotificationConfig": {"url": "https://a.example"}})
    );
    assert_eq!(v03.get("tenant"), None);
    let rest = write(REST_V03, &request);
    assert_eq!(
        rest["configuration"]["pushNotification"],
        json!({"url": "https://a.example"})
    );
    for format in [V03, REST_V03] {
        let mut expected = request.clone();
        expected.tenant = None;
        let written = write(format, &request);
        assert_eq!(
            read::<SendMessageRequest>(format, &written).unwrap(),
            expected
        );
    }
}

#[test]
fn list_params_round_trip() {
    let json = json!({"tenant": "a", "contextId": "c", "status": "TASK_STATE_WORKING",
        "pageSize": 5, "pageToken": "p", "historyLength": 0, "includeArtifacts": true,
        "statusTimestampAfter": "2026-01-02T03:04:05.678Z"});
    let request: ListTasksRequest = read(V1, &json).unwrap();
    assert_eq!(write(V1, &request), json);
}

#[test]
fn members_are_written_in_a_fixed_order() {
    let text = r#"{"messageId":"m","role":"ROLE_USER","parts":[{"text":"hi"}],"contextId":"c"}"#;
    let json: Value = serde_json::from_str(text).unwrap();
    let message: A2aMessage = read(V1, &json).unwrap();
    assert_eq!(serde_json::to_string(&message.encode(V1)).unwrap(), text);
}
