//! The hub's objects as ACP shows them.

use super::*;
use interzone_protocol::vocab::{AgentId, ContextId, Metadata, PrincipalId, Priority, StreamState};

fn at(millis: i64) -> Timestamp {
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
        status: None,
        created_at: at(0),
        updated_at: at(5),
        finished_at: None,
        revision: 1,
        seq: 1,
        messages: 1,
        artifacts: 0,
        pushes: 0,
    }
}

fn json<T: serde::Serialize>(value: &T) -> String {
    serde_json::to_string(value).unwrap()
}

#[test]
fn a_new_task_is_stamped_and_its_metadata_keeps_every_byte() {
    let task = task(
        TaskState::Submitted,
        Some(r#"{"z": 1.00,"a":12345678901234567890}"#),
    );
    assert_eq!(
        json(&begun(&task, Message::user_text("hi"))),
        r#"{"taskId":"t-1","status":"SUBMITTED","createdAt":"2023-11-14T22:13:20.000Z","updatedAt":"2023-11-14T22:13:20.005Z","assignedAgent":"demo","messages":[{"role":"user","parts":[{"type":"TextPart","content":"hi"}],"timestamp":"2023-11-14T22:13:20.000Z"}],"artifacts":[],"metadata":{"z": 1.00,"a":12345678901234567890,"priority":"HIGH"}}"#
    );
}

#[test]
fn states_that_acp_does_not_know_show_as_those_it_does() {
    for (state, shown) in [
        (TaskState::AuthRequired, "INPUT_REQUIRED"),
        (TaskState::Rejected, "FAILED"),
        (TaskState::Canceled, "CANCELED"),
    ] {
        assert!(json(&head(&task(state, None))).contains(&format!(r#""status":"{shown}""#)));
    }
}

#[test]
fn why_a_task_failed_is_in_its_messages_once() {
    let said = Message::user_text("do it").with_timestamp(at(0));
    let why = Message::agent_text("It broke.");
    let with = |messages: Vec<Message>| TaskDetail {
        task: task(TaskState::Failed, None),
        status: Some(why.clone()),
        messages,
        artifacts: Vec::new(),
    };
    let texts = |object: TaskObject| -> Vec<String> {
        let messages = object.messages.unwrap();
        assert!(messages.iter().all(|message| message.timestamp().is_some()));
        messages.iter().map(Message::text).collect()
    };
    let told = detail(with(vec![said.clone()]), true, true);
    assert_eq!(texts(told), ["do it", "It broke."]);
    let known = vec![said, why.clone().with_timestamp(at(3))];
    assert_eq!(
        texts(detail(with(known), true, true)),
        ["do it", "It broke."]
    );
    let without = detail(with(Vec::new()), false, false);
    assert_eq!((without.messages, without.artifacts), (None, None));
}

#[test]
fn a_stream_says_where_it_is_watched_and_leaves_the_callers_members_alone() {
    let mut stream = Stream {
        id: StreamId::new("s-1").unwrap(),
        owner: PrincipalId::new("alice").unwrap(),
        participants: Vec::new(),
        state: StreamState::Active,
        metadata: None,
        created_at: at(0),
        updated_at: at(0),
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
fn subscriptions_get_the_usual_events_and_each_once() {
    use TaskEvent::{Completed, NewArtifact, NewMessage, StatusChange};
    assert_eq!(wanted(None), TaskEvent::DEFAULT);
    assert_eq!(wanted(Some(Vec::new())), TaskEvent::DEFAULT);
    assert_eq!(wanted(Some(vec![Completed, Completed])), [Completed]);
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
fn the_end_of_a_task_is_two_events_and_a_cancellation_one() {
    let moved = |to| EventBody::State {
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
        assert_eq!(acp_events(&moved(to)), events);
    }
}
