//! A task that is read again and again, as those who poll do.

use crate::load::{caller, hub};
use crate::meter::Meter;
use interzone_hub::ports::Store;
use interzone_hub::{Hub, NewTask, Outcome, TurnStart};
use interzone_protocol::vocab::{AgentId, Message, TaskId};
use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

/// How often it is read in each way.
const READS: u32 = 20_000;

pub(crate) async fn measure(name: &str, store: Arc<dyn Store>) {
    let hub = hub(store);
    let id = answered(&hub).await;
    let caller = caller();
    let report = |what: &str, meter: &Meter| {
        let (wall, processor) = (meter.wall() / READS, meter.processor() / READS);
        println!("{wall:>10.2?} to {what}, {name} ({processor:.2?} of processor)");
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
        black_box(store.messages(&id, 0..task.messages).await.unwrap());
    }
    report("read a task and its messages one by one", &meter);
}

/// A task with a question and an answer.
async fn answered(hub: &Hub) -> TaskId {
    let message = Message::user_text("Please analyse the figures of the last quarter.");
    let new = NewTask::new(message);
    let id = hub.create_task(&caller(), new).await.unwrap().id;
    let wanted = vec![(AgentId::new("idle").unwrap(), 1)];
    let runs = hub.claim("bench", wanted, Duration::from_secs(60)).await;
    for run in runs.unwrap() {
        if let TurnStart::Turn(turn) = run.begin().await.unwrap() {
            let answer = Message::agent_text("They are fine, but for those of the north.");
            let outcome = Outcome::Completed {
                message: Some(answer),
                direct: false,
            };
            run.end(&turn, outcome).await.unwrap();
        }
    }
    id
}
