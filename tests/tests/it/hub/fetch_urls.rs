//! Fetch URLs of attachments: stored while a task may need them, stripped when it ends.

use super::{HubFixture, LEASE, caller, completed_outcome, operator, start_turn};
use interzone_hub::ports::{Commit, Op, TaskRead};
use interzone_hub::{
    AgentError, FETCH_URL_FIELD, Hub, Limits, NewTask, Offloaded, TurnOutcome, TurnStart,
};
use interzone_protocol::vocab::{Message, Part, PartKind, Role, TaskId, TaskState, VerbatimJson};
use std::sync::Arc;

const FETCH_URL: &str = "https://files.test/secret-capability";

/// Message with a file part that is fetched by URL.
fn message_with_fetch_url() -> Message {
    let file = Part::new(PartKind::File).with_filename("a.csv").with_extra(
        FETCH_URL_FIELD,
        VerbatimJson::from_value(FETCH_URL).unwrap(),
    );
    Message::new(Role::User, vec![Part::text("look"), file]).unwrap()
}

async fn create_task(world: &HubFixture) -> TaskId {
    let new = NewTask::new(message_with_fetch_url());
    let task = world.hub.create_task(&caller("alice"), new).await.unwrap();
    assert!(has_fetch_url(&world.hub, &task.id).await);
    task.id
}

/// Returns true if the store still has the URL, in the messages or in the snapshot.
async fn has_fetch_url(hub: &Hub, id: &TaskId) -> bool {
    let messages = hub.store().messages(id, 0..100).await.unwrap();
    let snapshot = hub
        .store()
        .task_snapshot(id, 100, true, usize::MAX)
        .await
        .unwrap()
        .and_then(TaskRead::into_task)
        .unwrap();
    let read = serde_json::to_string(&(messages, &snapshot.messages)).unwrap();
    read.contains("secret-capability")
}

async fn canceled_task_loses_fetch_urls(world: HubFixture) {
    let id = create_task(&world).await;
    let task = world.hub.cancel(&caller("alice"), &id, None).await.unwrap();
    assert_eq!(task.state, TaskState::Canceled);
    assert!(!has_fetch_url(&world.hub, &id).await);
    // The remaining content of the message is unchanged.
    let messages = world.hub.store().messages(&id, 0..9).await.unwrap();
    let parts = messages[0].inline().parts();
    assert_eq!(parts[0], Part::text("look"));
    assert_eq!(parts[1].filename(), Some("a.csv"));
}

async fn every_terminal_outcome_strips_fetch_urls(world: HubFixture) {
    let outcomes = [
        completed_outcome("done"),
        TurnOutcome::Failed(Message::agent_text("no")),
        TurnOutcome::Rejected(None),
    ];
    for outcome in outcomes {
        let id = create_task(&world).await;
        let run = world.claim("n1").await;
        let turn = start_turn(&run).await;
        let task = run.complete(&turn, outcome).await.unwrap();
        assert!(task.state.is_terminal());
        assert!(!has_fetch_url(&world.hub, &id).await, "{:?}", task.state);
    }
    let id = create_task(&world).await;
    let run = world.claim("n1").await;
    start_turn(&run).await;
    let error = AgentError {
        code: "broke",
        detail: String::new(),
    };
    run.fail(&error).await.unwrap();
    assert!(!has_fetch_url(&world.hub, &id).await);
}

async fn input_required_task_keeps_fetch_urls(world: HubFixture) {
    let id = create_task(&world).await;
    let run = world.claim("n1").await;
    let first = start_turn(&run).await;
    let question = TurnOutcome::InputRequired(Message::agent_text("which?"));
    run.complete(&first, question).await.unwrap();
    assert!(has_fetch_url(&world.hub, &id).await);
}

async fn message_during_last_turn_loses_fetch_urls(world: HubFixture) {
    let new = NewTask::new(Message::user_text("no file"));
    let id = world.hub.create_task(&caller("alice"), new).await;
    let id = id.unwrap().id;
    let run = world.claim("n1").await;
    let turn = start_turn(&run).await;
    let more = world
        .hub
        .send_message(&caller("alice"), &id, message_with_fetch_url())
        .await;
    more.unwrap();
    let failed = TurnOutcome::Failed(Message::agent_text("no"));
    run.complete(&turn, failed).await.unwrap();
    assert!(!has_fetch_url(&world.hub, &id).await);
}

async fn task_failed_by_attempts_loses_fetch_urls(world: HubFixture) {
    let id = create_task(&world).await;
    for _ in 0..Limits::default().attempts {
        let run = world.claim("n1").await;
        assert!(matches!(
            run.start_turn().await.unwrap(),
            TurnStart::Turn(_)
        ));
        drop(run);
        world.expire_leases().await;
    }
    let run = world.claim("n1").await;
    assert!(matches!(
        run.start_turn().await.unwrap(),
        TurnStart::NothingToDo
    ));
    let task = world.hub.task(&caller("alice"), &id).await.unwrap();
    assert_eq!(task.state, TaskState::Failed);
    assert!(!has_fetch_url(&world.hub, &id).await);
}

/// Tasks that ended under an earlier version are migrated once and keep their `updated_at`.
async fn backfill_strips_fetch_urls_of_old_tasks_once(world: HubFixture) {
    let (id, open) = (create_task(&world).await, create_task(&world).await);
    world.hub.cancel(&caller("alice"), &id, None).await.unwrap();
    let (message, _) = Offloaded::offload(message_with_fetch_url());
    let mut task = world.hub.task(&caller("alice"), &id).await.unwrap();
    task.revision += 1;
    let restore_url = Commit {
        id: "as it was".to_owned(),
        at: task.updated_at,
        fence: None,
        epoch: None,
        ops: vec![
            Op::UpdateTask(Arc::new(task.clone())),
            Op::ReplaceMessage {
                task_id: id.clone(),
                index: 0,
                message,
            },
        ],
    };
    world.hub.store().commit(restore_url).await.unwrap();
    assert!(has_fetch_url(&world.hub, &id).await);
    world.advance_clock(LEASE);

    let refused = world.hub.backfill_strip_fetch_urls(&caller("alice")).await;
    assert!(refused.is_err());
    let stripped = world.hub.backfill_strip_fetch_urls(&operator()).await;
    assert_eq!(stripped.unwrap(), 1);
    assert!(!has_fetch_url(&world.hub, &id).await);
    assert!(
        has_fetch_url(&world.hub, &open).await,
        "the open task may need it"
    );
    let now = world.hub.task(&caller("alice"), &id).await.unwrap();
    assert_eq!(now.updated_at, task.updated_at);
    assert_eq!(now.seq, task.seq, "no event is emitted");
    let again = world.hub.backfill_strip_fetch_urls(&operator()).await;
    assert_eq!(again.unwrap(), 0);
}

on_both_engines! {
    canceled_task_loses_fetch_urls,
    every_terminal_outcome_strips_fetch_urls,
    input_required_task_keeps_fetch_urls,
    message_during_last_turn_loses_fetch_urls,
    task_failed_by_attempts_loses_fetch_urls,
    backfill_strips_fetch_urls_of_old_tasks_once,
}
