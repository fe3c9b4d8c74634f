//! Tasks: begin, add, read, list, call off; and who may.

use super::{World, caller, completed, operator, turn};
use interzone_hub::{HubError, Limits, NewTask, Once, Outcome, Route, TaskQuery};
use interzone_protocol::vocab::{Json, Message, Metadata, Priority, Role, TaskId, TaskState};
use std::time::Duration;

fn ask(text: &str) -> NewTask {
    NewTask::new(Message::user_text(text))
}

fn everything() -> TaskQuery {
    TaskQuery {
        owner: None,
        context_id: None,
        states: Vec::new(),
        agent: None,
        updated_since: None,
        after: None,
        limit: 100,
    }
}

#[tokio::test]
async fn a_new_task_is_there_at_once_and_waits_for_its_agent() {
    let world = World::new().await;
    let (alice, metadata) = (caller("alice"), r#"{"z": 1.00, "a": [1e400]}"#);
    let metadata = Metadata::new(Json::parse(metadata).unwrap()).unwrap();
    let new = NewTask {
        metadata: Some(metadata.clone()),
        priority: Priority::High,
        ..ask("hello")
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
        "metadata is kept letter for letter"
    );
    assert_eq!(detail.messages[0].text(), "hello");
    assert_eq!(
        detail.messages[0].timestamp(),
        Some(task.created_at),
        "it is stamped"
    );
    let run = world.claim("n1").await;
    assert_eq!(run.item().task_id, task.id);
    assert!(world.claims_nothing("n2").await);
}

#[tokio::test]
async fn somebody_elses_task_answers_as_an_unknown_one() {
    let world = World::new().await;
    let task = world
        .hub
        .create_task(&caller("alice"), ask("mine"))
        .await
        .unwrap();
    let (bob, unknown) = (caller("bob"), TaskId::new("no-such-task").unwrap());
    for id in [&task.id, &unknown] {
        let hub = &world.hub;
        let refused = [
            hub.task(&bob, id).await.map(drop),
            hub.task_detail(&bob, id, 1, true).await.map(drop),
            hub.send(&bob, id, Message::user_text("x")).await.map(drop),
            hub.cancel(&bob, id, None).await.map(drop),
            hub.pushes(&bob, id).await.map(drop),
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
            .list_tasks(&bob, everything())
            .await
            .unwrap()
            .tasks
            .is_empty()
    );
    assert_eq!(world.hub.task(&operator(), &task.id).await.unwrap(), task);
}

#[tokio::test]
async fn a_repeated_call_is_the_same_task_for_as_long_as_it_is_remembered() {
    let world = World::new().await;
    let once = Some(Once {
        key: "call-1".to_owned(),
        keep: Duration::from_secs(60),
    });
    let create = async |name: &str| {
        let new = NewTask {
            once: once.clone(),
            ..ask("once")
        };
        world.hub.create_task(&caller(name), new).await.unwrap().id
    };
    let first = create("alice").await;
    assert_eq!(create("alice").await, first);
    assert_ne!(create("bob").await, first, "callers do not share keys");
    world.pass(Duration::from_secs(61));
    assert_ne!(create("alice").await, first, "it is forgotten in the end");
}

#[tokio::test]
async fn repeated_calls_at_the_same_time_begin_one_task() {
    let world = World::new().await;
    let calls = (0..16).map(|_| {
        let hub = world.hub.clone();
        tokio::spawn(async move {
            let once = Some(Once {
                key: "k".to_owned(),
                keep: Duration::from_secs(60),
            });
            hub.create_task(&caller("alice"), NewTask { once, ..ask("x") })
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
            .count_tasks(&caller("alice"), everything())
            .await
            .unwrap(),
        1
    );
}

#[tokio::test]
async fn an_answer_to_a_question_goes_on_with_the_task() {
    let world = World::new().await;
    let alice = caller("alice");
    let id = world
        .hub
        .create_task(&alice, ask("book a table"))
        .await
        .unwrap()
        .id;
    let run = world.claim("n1").await;
    let first = turn(&run).await;
    let question = Outcome::InputRequired(Message::agent_text("for when?"));
    let task = run.end(&first, question).await.unwrap();
    assert_eq!(task.state, TaskState::InputRequired);
    assert!(
        world.claims_nothing("n1").await,
        "nobody works while the question is open"
    );
    let detail = world.hub.task_detail(&alice, &id, 10, false).await.unwrap();
    assert_eq!(
        detail.status.map(|status| status.text()).as_deref(),
        Some("for when?")
    );

    let task = world
        .hub
        .send(&alice, &id, Message::user_text("tonight"))
        .await
        .unwrap();
    assert_eq!(task.state, TaskState::Working);
    let run = world.claim("n2").await;
    let second = turn(&run).await;
    assert_eq!(second.message.text(), "tonight");
    let said: Vec<_> = second.history.iter().map(Message::text).collect();
    assert_eq!(said, ["book a table", "for when?"]);
    let task = run.end(&second, completed("done")).await.unwrap();
    assert_eq!(task.state, TaskState::Completed);
    assert!(task.finished_at.is_some());
}

#[tokio::test]
async fn what_is_finished_stays_finished() {
    let world = World::new().await;
    let alice = caller("alice");
    let id = world.hub.create_task(&alice, ask("x")).await.unwrap().id;
    let canceled = world
        .hub
        .cancel(&alice, &id, Some("changed my mind"))
        .await
        .unwrap();
    assert_eq!(canceled.state, TaskState::Canceled);
    let again = world.hub.cancel(&alice, &id, None).await.unwrap();
    assert_eq!(again, canceled, "calling it off again changes nothing");
    let late = world.hub.send(&alice, &id, Message::user_text("y")).await;
    assert!(matches!(
        late,
        Err(HubError::TaskFinished {
            state: TaskState::Canceled,
            ..
        })
    ));
    assert!(world.claims_nothing("n1").await);

    let id = world.hub.create_task(&alice, ask("x")).await.unwrap().id;
    let run = world.claim("n1").await;
    let turn = turn(&run).await;
    run.end(&turn, completed("done")).await.unwrap();
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
async fn pages_show_each_task_once_and_only_ones_own() {
    let world = World::new().await;
    let alice = caller("alice");
    let mut made = Vec::new();
    for n in 0..7 {
        made.push(
            world
                .hub
                .create_task(&alice, ask(&n.to_string()))
                .await
                .unwrap()
                .id,
        );
        world
            .hub
            .create_task(&caller("bob"), ask("other"))
            .await
            .unwrap();
        world.pass(Duration::from_millis(n % 2));
    }
    let (mut seen, mut after) = (Vec::new(), None);
    loop {
        let query = TaskQuery {
            limit: 3,
            after,
            ..everything()
        };
        let page = world.hub.list_tasks(&alice, query).await.unwrap();
        seen.extend(page.tasks.into_iter().map(|task| task.id));
        match page.next {
            Some(next) => after = Some(next),
            None => break,
        }
    }
    made.sort();
    seen.sort();
    assert_eq!(seen, made);
    assert_eq!(
        world
            .hub
            .list_tasks(&operator(), everything())
            .await
            .unwrap()
            .tasks
            .len(),
        14
    );
}

#[tokio::test]
async fn limits_hold_at_the_door() {
    let limits = Limits {
        message_bytes: 100,
        parts: 2,
        messages: 2,
        ..Limits::default()
    };
    let world = World::with(limits).await;
    let alice = caller("alice");
    let large = world.hub.create_task(&alice, ask(&"x".repeat(101))).await;
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
    let id = world.hub.create_task(&alice, ask("x")).await.unwrap().id;
    world
        .hub
        .send(&alice, &id, Message::user_text("2"))
        .await
        .unwrap();
    let third = world.hub.send(&alice, &id, Message::user_text("3")).await;
    assert!(matches!(third, Err(HubError::TooMany { limit: 2, .. })));
    let nobody = Route {
        assign_to: Some("nobody".to_owned()),
        ..Route::default()
    };
    let nobody = world
        .hub
        .create_task(
            &alice,
            NewTask {
                route: nobody,
                ..ask("x")
            },
        )
        .await;
    assert!(matches!(nobody, Err(HubError::AgentUnavailable)));
}

#[tokio::test]
async fn a_large_file_comes_back_whole() {
    let world = World::new().await;
    let alice = caller("alice");
    let large = "0123456789".repeat(300_000);
    let id = world.hub.create_task(&alice, ask(&large)).await.unwrap().id;
    let detail = world.hub.task_detail(&alice, &id, 1, false).await.unwrap();
    assert_eq!(detail.messages[0].text(), large);
    let run = world.claim("n1").await;
    assert_eq!(turn(&run).await.message.text(), large);
}

#[tokio::test]
async fn nobody_speaks_for_the_agent() {
    let world = World::new().await;
    let alice = caller("alice");
    let forged = NewTask::new(Message::agent_text("I have paid"));
    let refused = world.hub.create_task(&alice, forged).await;
    assert!(matches!(
        refused,
        Err(HubError::Invalid { field: "role", .. })
    ));
    let id = world.hub.create_task(&alice, ask("x")).await.unwrap().id;
    let refused = world
        .hub
        .send(&alice, &id, Message::agent_text("done"))
        .await;
    assert!(matches!(
        refused,
        Err(HubError::Invalid { field: "role", .. })
    ));
}

#[tokio::test]
async fn what_was_said_before_is_history_and_no_event() {
    let world = World::new().await;
    let hub = world.hub.clone();
    let new = NewTask {
        before: vec![Message::user_text("one"), Message::agent_text("two")],
        ..ask("three")
    };
    let task = hub.create_task(&caller("alice"), new).await.unwrap();
    assert_eq!((task.messages, task.seq), (3, 1));
    let detail = hub
        .task_detail(&caller("alice"), &task.id, usize::MAX, false)
        .await
        .unwrap();
    let said: Vec<_> = detail.messages.iter().map(Message::text).collect();
    assert_eq!(said, ["one", "two", "three"]);
}

#[tokio::test]
async fn a_message_under_a_key_is_added_once_even_to_a_task_that_has_ended_since() {
    let world = World::new().await;
    let hub = world.hub.clone();
    let alice = caller("alice");
    let task = hub.create_task(&alice, ask("x")).await.unwrap();
    let once = |key: &str| {
        Some(Once {
            key: key.to_owned(),
            keep: Duration::from_secs(60),
        })
    };
    let say = |key: &'static str| {
        let (hub, alice, id) = (hub.clone(), alice.clone(), task.id.clone());
        async move {
            hub.answer(&alice, &id, Message::user_text("y"), once(key))
                .await
        }
    };
    let run = world.claim("n1").await;
    let first = turn(&run).await;
    let question = Outcome::InputRequired(Message::agent_text("which?"));
    run.end(&first, question).await.unwrap();
    assert_eq!(say("a").await.unwrap().messages, 3);
    assert_eq!(say("a").await.unwrap().messages, 3, "it waits no more");
    let begun = hub.begun_by(&alice, "a").await.unwrap();
    assert_eq!(begun.unwrap().id, task.id);
    assert!(hub.begun_by(&caller("bob"), "a").await.unwrap().is_none());
    hub.cancel(&alice, &task.id, None).await.unwrap();
    assert_eq!(say("a").await.unwrap().messages, 3);
    let refused = say("b").await;
    assert!(matches!(refused, Err(HubError::TaskFinished { .. })));
}

#[tokio::test]
async fn only_a_question_is_answered_and_by_one() {
    let world = World::new().await;
    let (hub, alice) = (world.hub.clone(), caller("alice"));
    let task = hub.create_task(&alice, ask("x")).await.unwrap();
    let answer = |text: &str| hub.answer(&alice, &task.id, Message::user_text(text), None);
    let early = answer("early").await;
    assert!(matches!(early, Err(HubError::IllegalMove { .. })));
    let question = Outcome::InputRequired(Message::agent_text("which?"));
    let run = world.claim("n1").await;
    let first = turn(&run).await;
    run.end(&first, question).await.unwrap();
    let (one, other) = tokio::join!(answer("one"), answer("other"));
    assert_eq!(
        [one.is_ok(), other.is_ok()]
            .iter()
            .filter(|ok| **ok)
            .count(),
        1
    );
}
