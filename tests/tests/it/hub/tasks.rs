//! Tasks: create, send, get, list, cancel, and their authorization.

use super::{HubFixture, caller, completed_outcome, operator, start_turn};
use interzone_hub::{HubError, IdempotencyKey, Limits, NewTask, Route, TaskQuery, TurnOutcome};
use interzone_protocol::vocab::{
    Message, Metadata, Priority, Role, TaskId, TaskState, VerbatimJson,
};
use std::time::Duration;

fn new_task(text: &str) -> NewTask {
    NewTask::new(Message::user_text(text))
}

fn all_tasks() -> TaskQuery {
    TaskQuery {
        owner: None,
        context_id: None,
        states: Vec::new(),
        agent: None,
        status_since: None,
        after: None,
        limit: 100,
    }
}

#[tokio::test]
async fn created_task_is_readable_and_claimable() {
    let world = HubFixture::new().await;
    let (alice, metadata) = (caller("alice"), r#"{"z": 1.00, "a": [1e400]}"#);
    let metadata = Metadata::new(VerbatimJson::parse(metadata).unwrap()).unwrap();
    let new = NewTask {
        metadata: Some(metadata.clone()),
        priority: Priority::High,
        ..new_task("hello")
    };
    let task = world.hub.create_task(&alice, new).await.unwrap();
    let detail = world
        .hub
        .task_detail(&alice, &task.id, 10, true)
        .await
        .unwrap();
    assert_eq!(detail.task, task);
    assert_eq!(
        (task.state, task.seq, task.revision),
        (TaskState::Submitted, 1, 1)
    );
    assert_eq!(
        task.metadata,
        Some(metadata),
        "metadata is kept byte for byte"
    );
    assert_eq!(detail.messages[0].text(), "hello");
    assert_eq!(
        detail.messages[0].timestamp(),
        Some(task.created_at),
        "it has the creation timestamp"
    );
    let run = world.claim("n1").await;
    assert_eq!(run.work_item().task_id, task.id);
    assert!(world.has_no_claimable_work("n2").await);
}

#[tokio::test]
async fn foreign_task_is_reported_as_not_found() {
    let world = HubFixture::new().await;
    let task = world
        .hub
        .create_task(&caller("alice"), new_task("mine"))
        .await
        .unwrap();
    let (bob, unknown) = (caller("bob"), TaskId::new("no-such-task").unwrap());
    for id in [&task.id, &unknown] {
        let hub = &world.hub;
        let refused = [
            hub.task(&bob, id).await.map(drop),
            hub.task_detail(&bob, id, 1, true).await.map(drop),
            hub.send_message(&bob, id, Message::user_text("x"))
                .await
                .map(drop),
            hub.cancel(&bob, id, None).await.map(drop),
            hub.push_subscriptions(&bob, id).await.map(drop),
            hub.watch(&bob, interzone_hub::Subject::Task(id.clone()), 0)
                .await
                .map(drop),
        ];
        for outcome in refused {
            assert!(matches!(outcome, Err(HubError::TaskNotFound(found)) if found == *id));
        }
    }
    assert!(
        world
            .hub
            .list_tasks(&bob, all_tasks())
            .await
            .unwrap()
            .tasks
            .is_empty()
    );
    assert_eq!(world.hub.task(&operator(), &task.id).await.unwrap(), task);
}

#[tokio::test]
async fn idempotency_key_returns_same_task_until_retention_ends() {
    let world = HubFixture::new().await;
    let idempotency_key = Some(IdempotencyKey::new("call-1", b"body"));
    let create = async |name: &str| {
        let new = NewTask {
            idempotency_key: idempotency_key.clone(),
            ..new_task("once")
        };
        world.hub.create_task(&caller(name), new).await.unwrap().id
    };
    let first = create("alice").await;
    assert_eq!(create("alice").await, first);
    assert_ne!(create("bob").await, first, "callers do not share keys");
    world.advance_clock(world.hub.limits().idempotency_retention);
    assert_ne!(
        create("alice").await,
        first,
        "the key expires after its retention"
    );
}

#[tokio::test]
async fn concurrent_calls_with_same_key_create_one_task() {
    let world = HubFixture::new().await;
    let calls = (0..16).map(|_| {
        let hub = world.hub.clone();
        tokio::spawn(async move {
            let idempotency_key = Some(IdempotencyKey::new("k", b"body"));
            hub.create_task(
                &caller("alice"),
                NewTask {
                    idempotency_key,
                    ..new_task("x")
                },
            )
            .await
            .unwrap()
            .id
        })
    });
    let mut ids = Vec::new();
    for call in calls.collect::<Vec<_>>() {
        ids.push(call.await.unwrap());
    }
    ids.dedup();
    assert_eq!(ids.len(), 1);
    assert_eq!(
        world
            .hub
            .count_tasks(&caller("alice"), all_tasks())
            .await
            .unwrap(),
        1
    );
}

#[tokio::test]
async fn answer_to_input_required_resumes_task() {
    let world = HubFixture::new().await;
    let alice = caller("alice");
    let id = world
        .hub
        .create_task(&alice, new_task("book a table"))
        .await
        .unwrap()
        .id;
    let run = world.claim("n1").await;
    let first = start_turn(&run).await;
    let question = TurnOutcome::InputRequired(Message::agent_text("for when?"));
    let task = run.complete(&first, question).await.unwrap();
    assert_eq!(task.state, TaskState::InputRequired);
    assert!(
        world.has_no_claimable_work("n1").await,
        "no work is queued while the question is open"
    );
    let detail = world.hub.task_detail(&alice, &id, 10, false).await.unwrap();
    assert_eq!(
        detail.status_message.map(|status| status.text()).as_deref(),
        Some("for when?")
    );

    let task = world
        .hub
        .send_message(&alice, &id, Message::user_text("tonight"))
        .await
        .unwrap();
    assert_eq!(task.state, TaskState::Working);
    let run = world.claim("n2").await;
    let second = start_turn(&run).await;
    assert_eq!(second.message.text(), "tonight");
    let history: Vec<_> = second.history.iter().map(Message::text).collect();
    assert_eq!(history, ["book a table", "for when?"]);
    let task = run
        .complete(&second, completed_outcome("done"))
        .await
        .unwrap();
    assert_eq!(task.state, TaskState::Completed);
    assert!(task.finished_at.is_some());
}

#[tokio::test]
async fn finished_task_rejects_messages_and_cancel() {
    let world = HubFixture::new().await;
    let alice = caller("alice");
    let id = world
        .hub
        .create_task(&alice, new_task("x"))
        .await
        .unwrap()
        .id;
    let canceled = world
        .hub
        .cancel(&alice, &id, Some("changed my mind"))
        .await
        .unwrap();
    assert_eq!(canceled.state, TaskState::Canceled);
    let again = world.hub.cancel(&alice, &id, None).await.unwrap();
    assert_eq!(again, canceled, "a second cancel changes nothing");
    let late = world
        .hub
        .send_message(&alice, &id, Message::user_text("y"))
        .await;
    assert!(matches!(
        late,
        Err(HubError::TaskFinished {
            state: TaskState::Canceled,
            ..
        })
    ));
    assert!(world.has_no_claimable_work("n1").await);

    let id = world
        .hub
        .create_task(&alice, new_task("x"))
        .await
        .unwrap()
        .id;
    let run = world.claim("n1").await;
    let turn = start_turn(&run).await;
    run.complete(&turn, completed_outcome("done"))
        .await
        .unwrap();
    let late = world.hub.cancel(&alice, &id, None).await;
    assert!(matches!(
        late,
        Err(HubError::TaskFinished {
            state: TaskState::Completed,
            ..
        })
    ));
}

#[tokio::test]
async fn pages_list_each_own_task_once() {
    let world = HubFixture::new().await;
    let alice = caller("alice");
    let mut made = Vec::new();
    for n in 0..7 {
        made.push(
            world
                .hub
                .create_task(&alice, new_task(&n.to_string()))
                .await
                .unwrap()
                .id,
        );
        world
            .hub
            .create_task(&caller("bob"), new_task("other"))
            .await
            .unwrap();
        world.advance_clock(Duration::from_millis(n % 2));
    }
    let (mut listed, mut after) = (Vec::new(), None);
    loop {
        let query = TaskQuery {
            limit: 3,
            after,
            ..all_tasks()
        };
        let page = world.hub.list_tasks(&alice, query).await.unwrap();
        listed.extend(page.tasks.into_iter().map(|task| task.id));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    made.sort();
    listed.sort();
    assert_eq!(listed, made);
    assert_eq!(
        world
            .hub
            .list_tasks(&operator(), all_tasks())
            .await
            .unwrap()
            .tasks
            .len(),
        14
    );
}

#[tokio::test]
async fn message_limits_are_enforced() {
    let limits = Limits {
        message_bytes: 100,
        parts: 2,
        messages: 2,
        ..Limits::default()
    };
    let world = HubFixture::with_limits(limits).await;
    let alice = caller("alice");
    let large = world
        .hub
        .create_task(&alice, new_task(&"x".repeat(101)))
        .await;
    assert!(matches!(large, Err(HubError::TooLarge { limit: 100, .. })));
    let part = interzone_protocol::vocab::Part::text("x");
    let many = Message::new(Role::User, vec![part; 3]).unwrap();
    let many = world.hub.create_task(&alice, NewTask::new(many)).await;
    assert!(matches!(
        many,
        Err(HubError::TooMany {
            what: "parts",
            limit: 2
        })
    ));
    let id = world
        .hub
        .create_task(&alice, new_task("x"))
        .await
        .unwrap()
        .id;
    world
        .hub
        .send_message(&alice, &id, Message::user_text("2"))
        .await
        .unwrap();
    let third = world
        .hub
        .send_message(&alice, &id, Message::user_text("3"))
        .await;
    assert!(matches!(third, Err(HubError::TooMany { limit: 2, .. })));
    let unknown_agent = Route {
        assign_to: Some("unknown-agent".to_owned()),
        ..Route::default()
    };
    let unroutable = world
        .hub
        .create_task(
            &alice,
            NewTask {
                route: unknown_agent,
                ..new_task("x")
            },
        )
        .await;
    assert!(matches!(unroutable, Err(HubError::AgentUnavailable)));
}

#[tokio::test]
async fn large_message_is_returned_complete() {
    let world = HubFixture::new().await;
    let alice = caller("alice");
    let large = "0123456789".repeat(300_000);
    let id = world
        .hub
        .create_task(&alice, new_task(&large))
        .await
        .unwrap()
        .id;
    let detail = world.hub.task_detail(&alice, &id, 1, false).await.unwrap();
    assert_eq!(detail.messages[0].text(), large);
    let run = world.claim("n1").await;
    assert_eq!(start_turn(&run).await.message.text(), large);
}

#[tokio::test]
async fn history_messages_are_stored_without_events() {
    let world = HubFixture::new().await;
    let hub = world.hub.clone();
    let new = NewTask {
        history: vec![Message::user_text("one"), Message::agent_text("two")],
        ..new_task("three")
    };
    let task = hub.create_task(&caller("alice"), new).await.unwrap();
    assert_eq!((task.message_count, task.seq), (3, 1));
    let detail = hub
        .task_detail(&caller("alice"), &task.id, usize::MAX, false)
        .await
        .unwrap();
    let texts: Vec<_> = detail.messages.iter().map(Message::text).collect();
    assert_eq!(texts, ["one", "two", "three"]);
}

#[tokio::test]
async fn answer_with_same_key_is_added_once_even_after_task_ended() {
    let world = HubFixture::new().await;
    let hub = world.hub.clone();
    let alice = caller("alice");
    let task = hub.create_task(&alice, new_task("x")).await.unwrap();
    let idempotency_key = |key: &str| Some(IdempotencyKey::new(key, b"body"));
    let answer = |key: &'static str| {
        let (hub, alice, id) = (hub.clone(), alice.clone(), task.id.clone());
        async move {
            hub.answer_input(&alice, &id, Message::user_text("y"), idempotency_key(key))
                .await
        }
    };
    let run = world.claim("n1").await;
    let first = start_turn(&run).await;
    let question = TurnOutcome::InputRequired(Message::agent_text("which?"));
    run.complete(&first, question).await.unwrap();
    assert_eq!(answer("a").await.unwrap().message_count, 3);
    assert_eq!(
        answer("a").await.unwrap().message_count,
        3,
        "same key again"
    );
    let key = IdempotencyKey::new("a", b"body");
    let find = |name: &'static str, agent: &'static str| {
        let (hub, key) = (hub.clone(), key.clone());
        async move {
            hub.find_by_idempotency_key(&caller(name), &super::agent(agent), &key)
                .await
                .unwrap()
        }
    };
    assert_eq!(find("alice", "demo").await.unwrap().id, task.id);
    assert_eq!(find("alice", "other").await, None);
    assert_eq!(find("bob", "demo").await, None);
    hub.cancel(&alice, &task.id, None).await.unwrap();
    assert_eq!(answer("a").await.unwrap().message_count, 3);
    let refused = answer("b").await;
    assert!(matches!(refused, Err(HubError::TaskFinished { .. })));
}

#[tokio::test]
async fn open_question_accepts_exactly_one_answer() {
    let world = HubFixture::new().await;
    let (hub, alice) = (world.hub.clone(), caller("alice"));
    let task = hub.create_task(&alice, new_task("x")).await.unwrap();
    let answer = |text: &str| hub.answer_input(&alice, &task.id, Message::user_text(text), None);
    let early = answer("early").await;
    assert!(matches!(early, Err(HubError::IllegalTransition { .. })));
    let question = TurnOutcome::InputRequired(Message::agent_text("which?"));
    let run = world.claim("n1").await;
    let first = start_turn(&run).await;
    run.complete(&first, question).await.unwrap();
    let (one, other) = tokio::join!(answer("one"), answer("other"));
    assert_eq!(
        [one.is_ok(), other.is_ok()]
            .iter()
            .filter(|ok| **ok)
            .count(),
        1
    );
}
