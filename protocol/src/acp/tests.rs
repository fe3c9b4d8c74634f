//! Method names, nulls and JSON shapes of ACP types.

use super::{
    Method, MethodResult, TaskEvent, TasksCancelParams, TasksCreateParams, TasksSendParams,
    artifact_from_json, artifact_to_json, message_from_json, message_to_json,
};
use crate::vocab::{
    Artifact, ArtifactId, Message, MessageId, Metadata, Part, PartKind, PrincipalId, Role, TaskId,
    VerbatimJson,
};

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
            r#"{{"role":"{role}","parts":[{parts}],"timestamp":"2026-01-02T03:04:05.678Z","agentId":"a","metadata":{{"z":1.00}},"messageId":"m","contextId":"c","taskId":"t","also":null}}"#
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

fn json(text: &str) -> VerbatimJson {
    VerbatimJson::parse(text).unwrap()
}

#[test]
fn members_that_acp_does_not_define_are_returned_verbatim() {
    let message = concat!(
        r#"{"role":"agent","parts":[{"type":"TextPart","content":"hi","metadata":[1],"url":7,"#,
        r#""extra":{"a":1.00},"dpi":3e2}],"agentId":"a","metadata":{"z":0.10},"messageId":5,"#,
        r#""author":"me","extensions":{},"referenceTaskIds":null}"#
    );
    let read = message_from_json(&json(message)).unwrap();
    assert_eq!(message_to_json(&read).unwrap().as_str(), message);
    assert_eq!(read.author(), None);
    assert_eq!(read.message_id(), None);
    assert_eq!(read.parts()[0].url(), None);
    let artifact =
        r#"{"artifactId":"a","name":"n","parts":[],"metadata":{},"extensions":5,"x":null}"#;
    let read = artifact_from_json(&json(artifact)).unwrap();
    assert!(read.extensions().is_empty());
    assert_eq!(artifact_to_json(&read).unwrap().as_str(), artifact);
    // What was stored in between is the same message.
    let stored = serde_json::to_string(&message_from_json(&json(message)).unwrap()).unwrap();
    let read: Message = serde_json::from_str(&stored).unwrap();
    assert_eq!(message_to_json(&read).unwrap().as_str(), message);
}

#[test]
fn members_of_other_dialects_are_not_written() {
    let metadata = || Metadata::new(json(r#"{"a":1}"#)).unwrap();
    let link = Part::new(PartKind::File)
        .with_url("https://example.com/a")
        .with_filename("a")
        .with_metadata(metadata());
    let parts = vec![Part::text("hi").with_metadata(metadata()), link.clone()];
    let message = Message::new(Role::User, parts)
        .unwrap()
        .with_message_id(MessageId::new("m").unwrap())
        .with_extensions(vec!["urn:x".to_owned()])
        .with_reference_task_ids(vec![TaskId::new("t").unwrap()])
        .with_author(Some(PrincipalId::new("p").unwrap()));
    let params = TasksSendParams {
        task_id: "t".to_owned(),
        message,
    };
    assert_eq!(
        serde_json::to_string(&params).unwrap(),
        concat!(
            r#"{"taskId":"t","message":{"role":"user","parts":[{"type":"TextPart","content":"hi"},"#,
            r#"{"type":"FilePart","filename":"a","reference":"https://example.com/a"}]}}"#
        )
    );
    let artifact = Artifact::new(ArtifactId::new("a").unwrap(), "n")
        .with_part(link)
        .with_extensions(vec!["urn:x".to_owned()]);
    assert_eq!(
        artifact_to_json(&artifact).unwrap().as_str(),
        concat!(
            r#"{"artifactId":"a","name":"n","parts":[{"type":"FilePart","filename":"a","#,
            r#""reference":"https://example.com/a"}]}"#
        )
    );
}
