//! Tests of the conversion to A2A's objects.

use super::*;
use interzone_protocol::a2a::{Codec, WireFormat, WireObject};
use interzone_protocol::vocab::{AgentId, ArtifactId, ContextId, PrincipalId, Priority, Timestamp};

const FORMATS: [WireFormat; 2] = [WireFormat::V1, WireFormat::V03];

fn detail(state: TaskState, messages: Vec<Message>) -> TaskDetail {
    let at = Timestamp::from_millis(1_700_000_000_000);
    TaskDetail {
        task: Task {
            id: TaskId::new("t-1").unwrap(),
            context_id: ContextId::new("c-1").unwrap(),
            owner: PrincipalId::new("alice").unwrap(),
            agent: AgentId::new("demo").unwrap(),
            state,
            priority: Priority::Normal,
            metadata: None,
            status_message: None,
            created_at: at,
            status_at: at,
            updated_at: at,
            finished_at: None,
            revision: 1,
            seq: 1,
            generation: 0,
            is_direct: false,
            message_count: u32::try_from(messages.len()).unwrap(),
            artifact_count: 0,
            push_count: 0,
        },
        status_message: None,
        messages,
        artifacts: Vec::new(),
    }
}

fn user(id: &str, text: &str) -> Message {
    Message::user_text(text).with_message_id(MessageId::new(id).unwrap())
}

/// A task with a question that was answered, and another one that was not.
fn detail_with_questions() -> TaskDetail {
    let question = Message::agent_text("Which city?");
    let messages = vec![
        user("m1", "weather"),
        Message::agent_text("Which country?"),
        user("m2", "Japan"),
        Message::agent_text("It is warm.").with_answers(Some(2)),
        user("m3", "more"),
        question.clone(),
    ];
    let mut detail = detail(TaskState::InputRequired, messages);
    detail.status_message = Some(question);
    let report = Artifact::new(ArtifactId::new("report").unwrap(), "Report");
    detail.artifacts = vec![report.with_part(Part::text("rain"))];
    detail
}

fn json(object: &impl WireObject, format: WireFormat) -> String {
    serde_json::to_string(&object.encode(format)).unwrap()
}

#[test]
fn question_is_the_status_and_answer_the_artifact_of_its_turn() {
    let shown = task(&detail_with_questions(), TaskContents::all(None));
    let [v1, v03] = FORMATS.map(|format| json(&shown, format));
    assert_eq!(
        v1,
        concat!(
            r#"{"id":"t-1","contextId":"c-1","status":{"state":"TASK_STATE_INPUT_REQUIRED","message":"#,
            r#"{"messageId":"t-1-5","role":"ROLE_AGENT","parts":[{"text":"Which city?"}],"contextId":"c-1","taskId":"t-1"},"#,
            r#""timestamp":"2023-11-14T22:13:20.000Z"},"artifacts":["#,
            r#"{"artifactId":"report","name":"Report","parts":[{"text":"rain"}]},"#,
            r#"{"artifactId":"answer-2","parts":[{"text":"It is warm."}]}],"history":["#,
            r#"{"messageId":"m1","role":"ROLE_USER","parts":[{"text":"weather"}],"contextId":"c-1","taskId":"t-1"},"#,
            r#"{"messageId":"t-1-1","role":"ROLE_AGENT","parts":[{"text":"Which country?"}],"contextId":"c-1","taskId":"t-1"},"#,
            r#"{"messageId":"m2","role":"ROLE_USER","parts":[{"text":"Japan"}],"contextId":"c-1","taskId":"t-1"},"#,
            r#"{"messageId":"m3","role":"ROLE_USER","parts":[{"text":"more"}],"contextId":"c-1","taskId":"t-1"}]}"#
        )
    );
    assert!(
        v03.starts_with(concat!(
            r#"{"kind":"task","id":"t-1","contextId":"c-1","status":{"state":"input-required","message":"#,
            r#"{"kind":"message","messageId":"t-1-5","role":"agent","parts":[{"kind":"text","text":"Which city?"}]"#
        )),
        "{v03}"
    );
    let read = A2aTask::decode(&v03, Codec::client(WireFormat::V03)).unwrap();
    assert_eq!(read, shown);
}

#[test]
fn history_length_counts_shown_messages_from_the_newest() {
    let detail = detail_with_questions();
    let ids = |length| {
        let shown = task(&detail, TaskContents::all(length));
        let ids = shown.history.into_iter().map(|message| message.message_id);
        ids.collect::<Vec<_>>()
    };
    assert_eq!(ids(Some(2)), ["m2", "m3"]);
    assert_eq!(ids(Some(0)), Vec::<String>::new());
    assert_eq!(ids(None).len(), 4);
}

#[test]
fn reason_of_a_failure_is_the_status_message() {
    let mut failed = detail(TaskState::Failed, vec![user("m1", "x")]);
    failed.status_message = Some(Message::agent_text("no"));
    let shown = task(&failed, TaskContents::all(None));
    assert_eq!(shown.status.message.unwrap().message_id, "t-1-status");
    assert_eq!(shown.history.len(), 1);
    failed.task.state = TaskState::Canceled;
    let shown = task(&failed, TaskContents::all(None));
    assert_eq!(shown.status.message, None);
}

#[test]
fn direct_answer_names_its_context_but_no_task() {
    let answer = Message::agent_text("hi").with_answers(Some(0));
    let mut direct = detail(TaskState::Completed, vec![user("m1", "x"), answer]);
    assert_eq!(direct_answer(&direct), None);
    direct.task.is_direct = true;
    assert_eq!(
        json(&direct_answer(&direct).unwrap(), WireFormat::V1),
        r#"{"messageId":"t-1-1","role":"ROLE_AGENT","parts":[{"text":"hi"}],"contextId":"c-1"}"#
    );
}

#[test]
fn every_content_survives_the_way_through_the_hub() {
    let text = concat!(
        r#"{"messageId":"m","role":"ROLE_USER","parts":[{"text":"a","mediaType":"text/markdown"},"#,
        r#"{"raw":"aGk=","filename":"a.png","mediaType":"image/png"},{"url":"https://a.test/x","mediaType":"audio/mp3"},"#,
        r#"{"data":{"n":1.00}},{"data":null},{"raw":"","metadata":{"k":12345678901234567890}}],"#,
        r#""contextId":"c-1","taskId":"t-1","metadata":{"a":1},"extensions":["urn:x"]}"#
    );
    let sent = A2aMessage::decode(text, Codec::server(WireFormat::V1)).unwrap();
    let stored = hub_message(sent, Vec::new()).unwrap();
    let kinds: Vec<_> = stored.parts().iter().map(Part::kind).collect();
    assert_eq!(
        kinds,
        [
            PartKind::Text,
            PartKind::Image,
            PartKind::Audio,
            PartKind::Data,
            PartKind::Data,
            PartKind::File
        ]
    );
    let shown = task(
        &detail(TaskState::Working, vec![stored]),
        TaskContents::all(None),
    );
    assert_eq!(json(&shown.history[0], WireFormat::V1), text);
}

#[test]
fn added_members_ride_in_metadata_without_download_urls() {
    let value = |text: &str| VerbatimJson::parse(text).unwrap();
    let image = Part::text("x")
        .with_extra("width", value("640"))
        .with_extra(FETCH_URL_FIELD, value("\"https://secret.test\""));
    assert_eq!(
        json(&part(&image), WireFormat::V1),
        r#"{"text":"x","metadata":{"interzone.extra":{"width":640}}}"#
    );
    let only_url = Part::text("x").with_extra(FETCH_URL_FIELD, value("\"https://secret.test\""));
    assert_eq!(json(&part(&only_url), WireFormat::V1), r#"{"text":"x"}"#);
}

#[test]
fn message_id_with_control_characters_is_refused_by_name() {
    let text = r#"{"messageId":"a\n","role":"user","parts":[{"text":"a"}]}"#;
    let sent = A2aMessage::decode(text, Codec::server(WireFormat::V03)).unwrap();
    let error = hub_message(sent, Vec::new()).unwrap_err();
    assert_eq!(error.path(), "message.messageId");
}
