//! Where attachments can be fetched: known while a task may need it, and no longer.

use super::{LEASE, World, caller, completed, operator, turn};
use interzone_hub::ports::{Commit, Op, TaskRead};
use interzone_hub::{AgentError, FETCH, Hub, Limits, NewTask, Outcome, Packed, TurnStart};
use interzone_protocol::vocab::{Json, Message, Part, PartKind, Role, TaskId, TaskState};
use std::sync::Arc;

const ADDRESS: &str = "https://files.test/secret-capability";

/// A message with a file that is elsewhere.
fn addressed() -> Message {
    let file = Part::new(PartKind::File)
        .with_filename("a.csv")
        .with_extra(FETCH, Json::of(ADDRESS).unwrap());
    Message::new(Role::User, vec![Part::text("look"), file]).unwrap()
}

async fn ask(world: &World) -> TaskId {
    let new = NewTask::new(addressed());
    let task = world.hub.create_task(&caller("alice"), new).await.unwrap();
    assert!(is_known(&world.hub, &task.id).await);
    task.id
}

/// Whether the store still has the address, wherever one can read.
async fn is_known(hub: &Hub, id: &TaskId) -> bool {
    let messages = hub.store().messages(id, 0..100).await.unwrap();
    let whole = hub
        .store()
        .whole_task(id, 100, true, usize::MAX)
        .await
        .unwrap()
        .and_then(TaskRead::into_task)
        .unwrap();
    let read = serde_json::to_string(&(messages, &whole.messages)).unwrap();
    read.contains("secret-capability")
}

async fn canceled_tasks_forget(world: World) {
    let id = ask(&world).await;
    let task = world.hub.cancel(&caller("alice"), &id, None).await.unwrap();
    assert_eq!(task.state, TaskState::Canceled);
    assert!(!is_known(&world.hub, &id).await);
    // All else of the message is as it was.
    let messages = world.hub.store().messages(&id, 0..9).await.unwrap();
    let parts = messages[0].without_large().parts();
    assert_eq!(parts[0], Part::text("look"));
    assert_eq!(parts[1].filename(), Some("a.csv"));
}

async fn tasks_that_end_in_any_way_forget(world: World) {
    let outcomes = [
        completed("done"),
        Outcome::Failed(Message::agent_text("no")),
        Outcome::Rejected(None),
    ];
    for outcome in outcomes {
        let id = ask(&world).await;
        let run = world.claim("n1").await;
        let turn = turn(&run).await;
        let task = run.end(&turn, outcome).await.unwrap();
        assert!(task.state.is_terminal());
        assert!(!is_known(&world.hub, &id).await, "{:?}", task.state);
    }
    let id = ask(&world).await;
    let run = world.claim("n1").await;
    turn(&run).await;
    let error = AgentError {
        code: "broke",
        detail: String::new(),
    };
    run.broke(&error).await.unwrap();
    assert!(!is_known(&world.hub, &id).await);
}

async fn a_task_that_asks_back_keeps_what_it_may_need(world: World) {
    let id = ask(&world).await;
    let run = world.claim("n1").await;
    let begun = turn(&run).await;
    let asks = Outcome::InputRequired(Message::agent_text("which?"));
    run.end(&begun, asks).await.unwrap();
    assert!(is_known(&world.hub, &id).await);
}

async fn what_comes_during_the_last_turn_is_forgotten_too(world: World) {
    let new = NewTask::new(Message::user_text("no file"));
    let id = world.hub.create_task(&caller("alice"), new).await;
    let id = id.unwrap().id;
    let run = world.claim("n1").await;
    let turn = turn(&run).await;
    let more = world.hub.send(&caller("alice"), &id, addressed()).await;
    more.unwrap();
    let failed = Outcome::Failed(Message::agent_text("no"));
    run.end(&turn, failed).await.unwrap();
    assert!(!is_known(&world.hub, &id).await);
}

async fn a_task_that_is_given_up_forgets(world: World) {
    let id = ask(&world).await;
    for _ in 0..Limits::default().attempts {
        let run = world.claim("n1").await;
        assert!(matches!(run.begin().await.unwrap(), TurnStart::Turn(_)));
        drop(run);
        world.end_leases().await;
    }
    let run = world.claim("n1").await;
    assert!(matches!(run.begin().await.unwrap(), TurnStart::Nothing));
    let task = world.hub.task(&caller("alice"), &id).await.unwrap();
    assert_eq!(task.state, TaskState::Failed);
    assert!(!is_known(&world.hub, &id).await);
}

/// What ended under an earlier version is looked at once, and keeps its age.
async fn what_ended_before_is_forgotten_once(world: World) {
    let (id, open) = (ask(&world).await, ask(&world).await);
    world.hub.cancel(&caller("alice"), &id, None).await.unwrap();
    let (message, _) = Packed::pack(addressed());
    let mut task = world.hub.task(&caller("alice"), &id).await.unwrap();
    task.revision += 1;
    let as_it_was = Commit {
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
    world.hub.store().commit(as_it_was).await.unwrap();
    assert!(is_known(&world.hub, &id).await);
    world.pass(LEASE);

    let refused = world.hub.forget_old_addresses(&caller("alice")).await;
    assert!(refused.is_err());
    let forgotten = world.hub.forget_old_addresses(&operator()).await;
    assert_eq!(forgotten.unwrap(), 1);
    assert!(!is_known(&world.hub, &id).await);
    assert!(is_known(&world.hub, &open).await, "it may need it yet");
    let now = world.hub.task(&caller("alice"), &id).await.unwrap();
    assert_eq!(now.updated_at, task.updated_at);
    assert_eq!(now.seq, task.seq, "nobody is told");
    let again = world.hub.forget_old_addresses(&operator()).await;
    assert_eq!(again.unwrap(), 0);
}

on_both_engines! {
    canceled_tasks_forget,
    tasks_that_end_in_any_way_forget,
    a_task_that_asks_back_keeps_what_it_may_need,
    what_comes_during_the_last_turn_is_forgotten_too,
    a_task_that_is_given_up_forgets,
    what_ended_before_is_forgotten_once,
}
