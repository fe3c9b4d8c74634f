//! Tests of the conversion to ACP's objects.

use super::*;
use interzone_protocol::vocab::{AgentId, ContextId, Metadata, PrincipalId, Priority, StreamState};

fn timestamp(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + millis)
}

fn task(state: TaskState, metadata: Option<&str>) -> Task {
    Task {
        id: TaskId::new("t-1").unwrap(),
        context_id: ContextId::new("c-1").unwrap(),
        owner: PrincipalId::new("alice").unwrap(),
        agent: AgentId::new("demo").unwrap(),
        state,
        priority: Priority::High,
        metadata: metadata.map(|text| serde_json::from_str::<Metadata>(text).unwrap()),
        status_message: None,
        created_at: timestamp(0),
        status_at: timestamp(5),
        updated_at: timestamp(5),
        finished_at: None,
        revision: 1,
        seq: 1,
        generation: 0,
        is_direct: false,
        message_count: 1,
        artifact_count: 0,
        push_count: 0,
    }
}

fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap()
}

#[test]
fn new_task_has_timestamp_and_verbatim_metadata() {
    let task = task(
        TaskState::Submitted,
        Some(r#"{"z": 1.00,"a":12345678901234567890}"#),
    );
    assert_eq!(
        json(&task_created(&task, Message::user_text("hi"))),
        r#"{"taskId":"t-1","status":"SUBMITTED","createdAt":"2023-11-14T22:13:20.000Z","updatedAt":"2023-11-14T22:13:20.005Z","assignedAgent":"demo","messages":[{"role":"user","parts":[{"type":"TextPart","content":"hi"}],"timestamp":"2023-11-14T22:13:20.000Z"}],"artifacts":[],"metadata":{"z": 1.00,"a":12345678901234567890,"priority":"HIGH"}}"#
    );
}

#[test]
fn states_unknown_to_acp_map_to_known_ones() {
    for (state, status) in [
        (TaskState::AuthRequired, "INPUT_REQUIRED"),
        (TaskState::Rejected, "FAILED"),
        (TaskState::Canceled, "CANCELED"),
    ] {
        assert!(
            json(&task_summary(&task(state, None))).contains(&format!(r#""status":"{status}""#))
        );
    }
}

#[test]
fn failure_message_appears_once_in_history() {
    let request = Message::user_text("do it").with_timestamp(timestamp(0));
    let failure = Message::agent_text("It broke.");
    let detail_with = |messages: Vec<Message>| TaskDetail {
        task: task(TaskState::Failed, None),
        status_message: Some(failure.clone()),
        messages,
        artifacts: Vec::new(),
    };
    let texts = |object: TaskObject| -> Vec<String> {
        let messages = object.messages.unwrap();
        assert!(messages.iter().all(|message| message.timestamp().is_some()));
        messages.iter().map(Message::text).collect()
    };
    let object = task_detail(detail_with(vec![request.clone()]), true, true);
    assert_eq!(texts(object), ["do it", "It broke."]);
    let history = vec![request, failure.clone().with_timestamp(timestamp(3))];
    assert_eq!(
        texts(task_detail(detail_with(history), true, true)),
        ["do it", "It broke."]
    );
    let without = task_detail(detail_with(Vec::new()), false, false);
    assert_eq!((without.messages, without.artifacts), (None, None));
}

#[test]
fn stream_has_watch_urls_and_keeps_caller_metadata() {
    let mut stream = Stream {
        id: StreamId::new("s-1").unwrap(),
        owner: PrincipalId::new("alice").unwrap(),
        participants: Vec::new(),
        state: StreamState::Active,
        metadata: None,
        created_at: timestamp(0),
        updated_at: timestamp(0),
        closed_at: None,
        revision: 1,
        seq: 1,
    };
    let url = Url::parse("https://zone.example:8443/").unwrap();
    assert_eq!(
        json(&super::stream(&stream, &url)),
        r#"{"streamId":"s-1","status":"ACTIVE","participants":["alice"],"createdAt":"2023-11-14T22:13:20.000Z","metadata":{"events":"https://zone.example:8443/streams/s-1/events","websocket":"wss://zone.example:8443/streams/s-1"}}"#
    );
    stream.participants = vec!["bob".to_owned()];
    stream.metadata = Some(serde_json::from_str(r#"{"events" : [1, 2]}"#).unwrap());
    let object = json(&super::stream(&stream, &url));
    assert!(object.contains(r#""participants":["bob"]"#), "{object}");
    assert!(
        object.contains(r#"{"events" : [1, 2],"websocket":"wss:"#),
        "{object}"
    );
}

#[test]
fn subscription_events_default_and_deduplicate() {
    use TaskEvent::{Completed, NewArtifact, NewMessage, StatusChange};
    assert_eq!(requested_events(None), TaskEvent::DEFAULT);
    assert_eq!(requested_events(Some(Vec::new())), TaskEvent::DEFAULT);
    assert_eq!(
        requested_events(Some(vec![Completed, Completed])),
        [Completed]
    );
    let all = [
        StatusChange,
        Completed,
        NewMessage,
        NewArtifact,
        StatusChange,
    ];
    assert_eq!(hub_events(&all), ["state", "message", "artifact"]);
}

#[test]
fn task_end_is_two_acp_events_and_cancel_is_one() {
    let state_event = |to| EventBody::State {
        from: TaskState::Working,
        to,
        message: None,
    };
    use TaskEvent::{Completed, Failed, StatusChange};
    for (to, events) in [
        (TaskState::Completed, &[StatusChange, Completed][..]),
        (TaskState::Failed, &[StatusChange, Failed]),
        (TaskState::Rejected, &[StatusChange, Failed]),
        (TaskState::Canceled, &[StatusChange]),
        (TaskState::InputRequired, &[StatusChange]),
    ] {
        assert_eq!(acp_events(&state_event(to)), events);
    }
}
