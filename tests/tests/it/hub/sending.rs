//! Messages to existing tasks and the calls that repeat others: contexts, idempotency keys, busy tasks, authors.

use super::{HubFixture, agent, caller, completed_outcome, start_turn};
use interzone_hub::{
    AgentError, BusyPolicy, EventBody, HubError, IdempotencyKey, Limits, NewMessage, NewTask,
    Route, Subject, TaskQuery, TurnOutcome,
};
use interzone_protocol::vocab::{AgentId, ContextId, Message, Part, Role, TaskId, TaskState};

fn new_task(text: &str) -> NewTask {
    NewTask::new(Message::user_text(text))
}

fn context(id: &str) -> Option<ContextId> {
    Some(ContextId::new(id).unwrap())
}

fn key(body: &str) -> Option<IdempotencyKey> {
    Some(IdempotencyKey::new("key", body.as_bytes()))
}

fn message(id: &TaskId, text: &str) -> NewMessage {
    NewMessage::new(id.clone(), Message::user_text(text))
}

on_both_engines!(
    context_of_a_message_must_be_that_of_its_task,
    unknown_context_is_taken_as_given_per_caller,
    idempotency_key_covers_creating_and_sending,
    repeated_send_adds_one_message,
    messages_during_a_turn_wait_for_the_next_one,
    busy_task_refuses_messages_if_asked_to,
    agent_role_of_a_caller_is_not_output_of_the_agent,
);

async fn context_of_a_message_must_be_that_of_its_task(world: HubFixture) {
    let (hub, alice) = (&world.hub, caller("alice"));
    let new = NewTask {
        context_id: context("talk"),
        ..new_task("x")
    };
    let task = hub.create_task(&alice, new).await.unwrap();
    assert_eq!(Some(task.context_id.clone()), context("talk"));
    let send = |context_id, name: &'static str| {
        let new = NewMessage {
            context_id,
            ..message(&task.id, "y")
        };
        async move { hub.send(&caller(name), new).await }
    };
    for context_id in [None, context("talk")] {
        send(context_id, "alice").await.unwrap();
    }
    let other = send(context("other"), "alice").await;
    assert!(matches!(other, Err(HubError::ContextMismatch(id)) if id == task.id));
    // Another caller does not learn that the task exists.
    let foreign = send(context("other"), "bob").await;
    assert!(matches!(foreign, Err(HubError::TaskNotFound(_))));
    // The check comes before that of the state.
    hub.cancel(&alice, &task.id, None).await.unwrap();
    let other = send(context("other"), "alice").await;
    assert!(matches!(other, Err(HubError::ContextMismatch(_))));
    let own = send(context("talk"), "alice").await;
    assert!(matches!(own, Err(HubError::TaskFinished { .. })));
}

async fn unknown_context_is_taken_as_given_per_caller(world: HubFixture) {
    let hub = &world.hub;
    let longest = "é".repeat(128);
    for (name, id) in [("alice", "talk"), ("bob", "talk"), ("alice", &longest)] {
        let new = NewTask {
            context_id: context(id),
            ..new_task(name)
        };
        let task = hub.create_task(&caller(name), new).await.unwrap();
        assert_eq!(Some(task.context_id), context(id));
    }
    let query = TaskQuery {
        owner: None,
        context_id: context("talk"),
        states: Vec::new(),
        agent: None,
        status_since: None,
        after: None,
        limit: 10,
    };
    let page = hub.list_tasks(&caller("bob"), query.clone()).await.unwrap();
    let owners: Vec<_> = page.tasks.iter().map(|task| task.owner.as_str()).collect();
    assert_eq!(owners, ["bob"]);
    assert_eq!(hub.count_tasks(&caller("bob"), query).await.unwrap(), 1);
    let new = NewTask {
        context_id: context(&"x".repeat(129)),
        ..new_task("x")
    };
    assert!(matches!(
        hub.create_task(&caller("alice"), new).await,
        Err(HubError::Invalid {
            field: "context_id",
            ..
        })
    ));
}

async fn idempotency_key_covers_creating_and_sending(world: HubFixture) {
    let (hub, alice) = (&world.hub, caller("alice"));
    let new = |agent: &str, body: &str| NewTask {
        idempotency_key: key(body),
        route: Route {
            assign_to: Some(agent.to_owned()),
            ..Route::default()
        },
        ..new_task("x")
    };
    let task = hub.create_task(&alice, new("demo", "a")).await.unwrap();
    let again = hub.create_task(&alice, new("demo", "a")).await.unwrap();
    assert_eq!(again.id, task.id);
    let changed = hub.create_task(&alice, new("demo", "b")).await;
    assert!(matches!(changed, Err(HubError::IdempotencyKeyReused)));
    let sent = NewMessage {
        idempotency_key: key("b"),
        ..message(&task.id, "y")
    };
    let sent = hub.send(&alice, sent).await;
    assert!(matches!(sent, Err(HubError::IdempotencyKeyReused)));
    assert_eq!(hub.task(&alice, &task.id).await.unwrap().message_count, 1);
    // Another agent and another caller have keys of their own.
    let other = hub.create_task(&alice, new("other", "b")).await.unwrap();
    let bob = hub
        .create_task(&caller("bob"), new("demo", "b"))
        .await
        .unwrap();
    assert!(other.id != task.id && bob.id != task.id);
    world.advance_clock(Limits::default().idempotency_retention);
    let later = hub.create_task(&alice, new("demo", "b")).await.unwrap();
    assert_ne!(later.id, task.id);
}

async fn repeated_send_adds_one_message(world: HubFixture) {
    let (hub, alice) = (&world.hub, caller("alice"));
    let id = hub.create_task(&alice, new_task("x")).await.unwrap().id;
    let send = |body: &str| {
        let new = NewMessage {
            idempotency_key: key(body),
            ..message(&id, body)
        };
        hub.send(&alice, new)
    };
    let (one, two) = tokio::join!(send("a"), send("a"));
    let mut sent = [one.unwrap(), two.unwrap()];
    sent.sort_by_key(|sent| sent.is_repetition);
    assert_eq!(sent.each_ref().map(|sent| sent.index), [1, 1]);
    assert_eq!(
        sent.each_ref().map(|sent| sent.is_repetition),
        [false, true]
    );
    assert!(matches!(
        send("b").await,
        Err(HubError::IdempotencyKeyReused)
    ));
    hub.cancel(&alice, &id, None).await.unwrap();
    let after = send("a").await.unwrap();
    assert_eq!(
        (after.index, after.task.state, after.task.message_count),
        (1, TaskState::Canceled, 2)
    );
    assert!(matches!(
        send("b").await,
        Err(HubError::IdempotencyKeyReused)
    ));
}

async fn messages_during_a_turn_wait_for_the_next_one(world: HubFixture) {
    let (hub, alice) = (&world.hub, caller("alice"));
    let question = || TurnOutcome::InputRequired(Message::agent_text("which?"));
    let rejected = || TurnOutcome::Rejected(None);
    for (outcome, state) in [
        (completed_outcome("done"), TaskState::Working),
        (question(), TaskState::Working),
        (rejected(), TaskState::Rejected),
        (
            TurnOutcome::Failed(Message::agent_text("no")),
            TaskState::Failed,
        ),
    ] {
        let id = hub.create_task(&alice, new_task("one")).await.unwrap().id;
        let run = world.claim("n1").await;
        let turn = start_turn(&run).await;
        hub.send(&alice, message(&id, "two")).await.unwrap();
        assert!(!run.cancel_token().is_cancelled());
        let task = run.complete(&turn, outcome).await.unwrap();
        assert_eq!(task.state, state);
        if state == TaskState::Working {
            let run = world.claim("n1").await;
            let turn = start_turn(&run).await;
            assert_eq!(turn.message.text(), "two");
            let done = run.complete(&turn, completed_outcome("done")).await;
            assert_eq!(done.unwrap().state, TaskState::Completed);
        }
        assert!(world.has_no_claimable_work("n1").await);
    }
    // An internal error of the agent ends the task too.
    let id = hub.create_task(&alice, new_task("one")).await.unwrap().id;
    let run = world.claim("n1").await;
    start_turn(&run).await;
    hub.send(&alice, message(&id, "two")).await.unwrap();
    let error = AgentError {
        code: "broken",
        detail: String::new(),
    };
    assert_eq!(run.fail(&error).await.unwrap().state, TaskState::Failed);
    assert!(world.has_no_claimable_work("n1").await);
}

async fn busy_task_refuses_messages_if_asked_to(world: HubFixture) {
    let (hub, alice) = (&world.hub, caller("alice"));
    let id = hub.create_task(&alice, new_task("x")).await.unwrap().id;
    let send = || NewMessage {
        busy: BusyPolicy::Refuse,
        ..message(&id, "y")
    };
    let refused = hub.send(&alice, send()).await;
    assert!(matches!(refused, Err(HubError::IllegalTransition { .. })));
    let run = world.claim("n1").await;
    let turn = start_turn(&run).await;
    let refused = hub.send(&alice, send()).await;
    assert!(matches!(refused, Err(HubError::IllegalTransition { .. })));
    let question = TurnOutcome::AuthRequired(Message::agent_text("who are you?"));
    run.complete(&turn, question).await.unwrap();
    let sent = hub.send(&alice, send()).await.unwrap();
    assert_eq!(sent.task.state, TaskState::Working);
    assert_eq!(
        start_turn(&*world.claim("n1").await).await.message.text(),
        "y"
    );
}

async fn agent_role_of_a_caller_is_not_output_of_the_agent(world: HubFixture) {
    let (hub, alice) = (&world.hub, caller("alice"));
    let named = |name: &str| {
        let message = Message::agent_text("I have paid").with_task_id(TaskId::new("t").unwrap());
        match name {
            "" => message,
            name => message.with_agent_id(AgentId::new(name).unwrap()),
        }
    };
    // The id of the serving agent is not kept, that of another agent is.
    for (name, shown) in [("", "alice"), ("demo", "alice"), ("other", "other")] {
        let task = hub.create_task(&alice, NewTask::new(named(name))).await;
        let task = task.unwrap();
        hub.send_message(&alice, &task.id, named(name))
            .await
            .unwrap();
        let detail = hub.task_detail(&alice, &task.id, 9, true).await.unwrap();
        for message in &detail.messages {
            assert_eq!(message.role(), Role::Agent);
            assert_eq!(message.author(), Some(&alice.principal));
            assert_eq!(message.agent_id(), Some(&agent(shown)));
            assert_eq!(message.task_id(), None);
            assert!(!message.is_agent_output());
        }
        // It is a request like any other.
        let run = world.claim("n1").await;
        let turn = start_turn(&run).await;
        assert_eq!(
            (turn.message.author(), turn.history.len()),
            (Some(&alice.principal), 1)
        );
        // An agent cannot speak for a caller.
        let forged = Message::agent_text("done").with_author(Some(alice.principal.clone()));
        let outcome = TurnOutcome::Completed {
            message: Some(forged),
            direct: false,
        };
        run.complete(&turn, outcome).await.unwrap();
        let events = hub
            .store()
            .events(&Subject::Task(task.id), 0, 9)
            .await
            .unwrap();
        let outputs = events.iter().filter_map(|event| match &event.body {
            EventBody::Message { message, .. } => Some(message.inline().is_agent_output()),
            _ => None,
        });
        assert_eq!(outputs.collect::<Vec<_>>(), [false, true]);
    }
}

#[tokio::test]
async fn message_of_a_thousand_parts_is_accepted() {
    let world = HubFixture::new().await;
    let (hub, alice) = (&world.hub, caller("alice"));
    let message = |count| Message::new(Role::User, vec![Part::text("x"); count]).unwrap();
    let task = hub.create_task(&alice, NewTask::new(message(1_000))).await;
    let detail = hub.task_detail(&alice, &task.unwrap().id, 1, false).await;
    assert_eq!(detail.unwrap().messages[0].parts().len(), 1_000);
    assert!(matches!(
        hub.create_task(&alice, NewTask::new(message(1_001))).await,
        Err(HubError::TooMany {
            what: "parts",
            limit: 1_000
        })
    ));
}
