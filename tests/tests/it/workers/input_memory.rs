//! Memory for agent inputs is reserved before they are read, with a share for each owner.

use super::{AgentAction, AgentScript, WorkersFixture, alice, bob, quick_options, start_workers};
use interzone_edge::budget::{MemoryBudget, Shares};
use interzone_execution::workers::WorkerOptions;
use interzone_hub::{Caller, Hub, NewTask};
use interzone_protocol::vocab::{Message, Part, PrincipalId, Role, TaskId, TaskState};

/// Memory for five large messages in total and for one of each owner.
fn options() -> WorkerOptions {
    let memory = MemoryBudget::with_shares(16 * MemoryBudget::PAGE, Shares::default());
    WorkerOptions {
        memory,
        ..quick_options("n1")
    }
}

/// Creates a task with a file of 150 KiB, a different one for each text.
async fn create_with_file(hub: &Hub, caller: &Caller, text: &str, start_now: bool) -> TaskId {
    let content = text.repeat(150 * 1024 / text.len());
    let parts = vec![Part::text(text), Part::file(&content)];
    let new = NewTask {
        start_now,
        ..NewTask::new(Message::new(Role::User, parts).unwrap())
    };
    hub.create_task(caller, new).await.unwrap().id
}

async fn create(hub: &Hub, caller: &Caller, text: &str) {
    let new = NewTask::new(Message::user_text(text));
    hub.create_task(caller, new).await.unwrap();
}

async fn run_with_large_input_waits_for_memory_of_its_owner(start_now: bool) {
    let place = WorkersFixture::new().await;
    let mut stage = AgentScript::new("demo", 16);
    let hub = place.hub_with_system_clock(vec![stage.agent.clone()]);
    let _workers = start_workers(&hub, options());
    create_with_file(&hub, &alice(), "alice1", start_now).await;
    stage.expect_started("alice1", 1).await;
    let waiting = create_with_file(&hub, &alice(), "alice2", start_now).await;
    create_with_file(&hub, &bob(), "bob123", start_now).await;
    stage.expect_started("bob123", 1).await;
    // A small input needs no reservation, so it does not wait.
    create(&hub, &alice(), "small1").await;
    stage.expect_started("small1", 1).await;
    assert!(stage.has_no_action(), "alice has one large input already");
    let waiting = hub.task(&alice(), &waiting).await.unwrap();
    assert_eq!(waiting.state, TaskState::Submitted, "it waits for memory");
    stage.gate.add_permits(4);
    let mut finished = Vec::new();
    let mut was_started = false;
    while finished.len() < 4 {
        match stage.next_action().await {
            // Waiting for memory uses up no attempt.
            AgentAction::Started(text, attempt) => {
                was_started |= (text.as_str(), attempt) == ("alice2", 1)
            }
            AgentAction::Finished(text) => finished.push(text),
            other => panic!("{other:?}"),
        }
    }
    assert!(
        was_started && finished.last().unwrap() == "alice2",
        "{finished:?}"
    );
}

#[tokio::test]
async fn queued_run_waits_for_memory_of_its_owner() {
    run_with_large_input_waits_for_memory_of_its_owner(false).await;
}

#[tokio::test]
async fn directly_dispatched_run_waits_for_memory_of_its_owner() {
    run_with_large_input_waits_for_memory_of_its_owner(true).await;
}

/// A share shrinks with the free memory, so callers with long runs leave some to a caller without any.
#[tokio::test]
async fn callers_that_hold_their_memory_leave_some_to_another() {
    let place = WorkersFixture::new().await;
    let mut stage = AgentScript::new("demo", 16);
    let hub = place.hub_with_system_clock(vec![stage.agent.clone()]);
    // Each file takes three pages, so four of them would fill the memory.
    let options = WorkerOptions {
        memory: MemoryBudget::new(12 * MemoryBudget::PAGE),
        ..quick_options("n1")
    };
    let _workers = start_workers(&hub, options);
    let callers = ["one", "two", "three"].map(|name| Caller::new(PrincipalId::new(name).unwrap()));
    for (caller, text) in callers.iter().zip(["one123", "two123", "three1"]) {
        create_with_file(&hub, caller, text, false).await;
        stage.expect_started(text, 1).await;
    }
    let waiting = create_with_file(&hub, &alice(), "alice1", false).await;
    create(&hub, &bob(), "small1").await;
    stage.expect_started("small1", 1).await;
    assert!(stage.has_no_action(), "too little would stay free");
    let waiting = hub.task(&alice(), &waiting).await.unwrap();
    assert_eq!(waiting.state, TaskState::Submitted);
}
