//! Memory for what agents are given is reserved before it is read, with a share for each owner.

use super::{Did, Place, Stage, alice, bob, quick, start};
use interzone_edge::budget::{MemoryBudget, Shares};
use interzone_execution::workers::WorkerOptions;
use interzone_hub::{Caller, Hub, NewTask};
use interzone_protocol::vocab::{Message, Part, Role};

/// Room for five large messages, and for one of each owner.
fn options() -> WorkerOptions {
    let memory = MemoryBudget::with_shares(16 * MemoryBudget::PAGE, Shares::default());
    WorkerOptions {
        memory,
        ..quick("n1")
    }
}

/// Asks with a file of 150 KiB, another for each text.
async fn ask_with_file(hub: &Hub, caller: &Caller, text: &str, at_once: bool) {
    let content = text.repeat(150 * 1024 / text.len());
    let parts = vec![Part::text(text), Part::file(&content)];
    let new = NewTask {
        at_once,
        ..NewTask::new(Message::new(Role::User, parts).unwrap())
    };
    hub.create_task(caller, new).await.unwrap();
}

async fn ask(hub: &Hub, caller: &Caller, text: &str) {
    let new = NewTask::new(Message::user_text(text));
    hub.create_task(caller, new).await.unwrap();
}

async fn run_with_large_input_waits_for_memory_of_its_owner(at_once: bool) {
    let place = Place::new().await;
    let mut stage = Stage::new("demo", 16);
    let hub = place.live_hub(vec![stage.actor.clone()]);
    let _workers = start(&hub, options());
    ask_with_file(&hub, &alice(), "alice1", at_once).await;
    stage.begun("alice1", 1).await;
    ask_with_file(&hub, &alice(), "alice2", at_once).await;
    ask_with_file(&hub, &bob(), "bob123", at_once).await;
    stage.begun("bob123", 1).await;
    // What is small needs no memory, so it does not wait.
    ask(&hub, &alice(), "small1").await;
    stage.begun("small1", 1).await;
    assert!(stage.nothing_more(), "alice has one large input already");
    stage.gate.add_permits(4);
    let mut finished = Vec::new();
    let mut begun = false;
    while finished.len() < 4 {
        match stage.next().await {
            // That it waited is no attempt.
            Did::Begun(text, attempt) => begun |= (text.as_str(), attempt) == ("alice2", 1),
            Did::Finished(text) => finished.push(text),
            other => panic!("{other:?}"),
        }
    }
    assert!(
        begun && finished.last().unwrap() == "alice2",
        "{finished:?}"
    );
}

#[tokio::test]
async fn run_found_in_the_queue_waits_for_memory_of_its_owner() {
    run_with_large_input_waits_for_memory_of_its_owner(false).await;
}

#[tokio::test]
async fn run_that_begins_with_its_task_waits_for_memory_of_its_owner() {
    run_with_large_input_waits_for_memory_of_its_owner(true).await;
}
