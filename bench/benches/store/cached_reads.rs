//! Repeated reads of one task, as by polling clients.

use crate::load::{caller, hub};
use crate::meter::Meter;
use interzone_hub::ports::Store;
use interzone_hub::{Hub, NewTask, TurnOutcome, TurnStart};
use interzone_protocol::vocab::{AgentId, Message, TaskId};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

/// Number of reads of each kind.
const READS: u32 = 20_000;

pub(crate) async fn measure(name: &str, store: Arc<dyn Store>) {
    let hub = hub(store);
    let id = create_completed_task(&hub).await;
    let caller = caller();
    let report = |operation: &str, meter: &Meter| {
        let (wall, cpu) = (meter.wall() / READS, meter.cpu() / READS);
        println!("{wall:>10.2?} to {operation}, {name} ({cpu:.2?} CPU)");
    };
    let meter = Meter::start();
    for _ in 0..READS {
        black_box(hub.task_view(&caller, &id, 100, true).await.unwrap());
    }
    report("view a task", &meter);
    let meter = Meter::start();
    for _ in 0..READS {
        black_box(hub.task_detail(&caller, &id, 100, true).await.unwrap());
    }
    report("copy a task", &meter);
    let meter = Meter::start();
    for _ in 0..READS {
        let store = hub.store();
        let task = store.task(&id).await.unwrap().unwrap();
        black_box(store.messages(&id, 0..task.message_count).await.unwrap());
    }
    report("read a task and its messages one by one", &meter);
}

/// Creates a completed task with a question and an answer.
async fn create_completed_task(hub: &Hub) -> TaskId {
    let message = Message::user_text("Please analyse the figures of the last quarter.");
    let new = NewTask::new(message);
    let id = hub.create_task(&caller(), new).await.unwrap().id;
    let slots = vec![(AgentId::new("idle").unwrap(), 1)];
    let runs = hub.claim("bench", slots, Duration::from_secs(60)).await;
    for run in runs.unwrap() {
        if let TurnStart::Turn(turn) = run.start_turn().await.unwrap() {
            let answer = Message::agent_text("They are fine, but for those of the north.");
            let outcome = TurnOutcome::Completed {
                message: Some(answer),
                direct: false,
            };
            run.complete(&turn, outcome).await.unwrap();
        }
    }
    id
}
