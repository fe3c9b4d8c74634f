//! Cost of reading a task and listing a page as the table grows.

use crate::StoreBenchSize;
use crate::load::{caller, hub};
use crate::meter::{Meter, resident_mib};
use interzone_hub::ports::{Commit, EventRow, Op, Store};
use interzone_hub::{EventBody, Hub, Offloaded, Subject, Task, TaskQuery};
use interzone_protocol::vocab::{
    AgentId, ContextId, Message, PrincipalId, Priority, TaskId, TaskState, Timestamp,
};
use std::sync::Arc;

/// Number of reads averaged.
const READS: u32 = 2_000;

pub(crate) async fn measure(store: Arc<dyn Store>, size: StoreBenchSize) {
    let hub = hub(store);
    let (mut stored, mut next) = (0, 1_000);
    while next <= size.largest {
        fill(&hub, stored, next, size.stored_events / size.largest.max(1)).await;
        stored = next;
        read(&hub, stored).await;
        next *= 10;
    }
    println!(
        "{:>10} MiB resident, with at least {stored} events stored",
        resident_mib()
    );
}

async fn read(hub: &Hub, stored: usize) {
    let step = (stored / READS as usize).max(1);
    let meter = Meter::start();
    for n in 0..READS as usize {
        let id = task_id((n * step) % stored);
        hub.task(&caller(), &id).await.unwrap();
    }
    let (get, get_cpu) = (meter.wall() / READS, meter.cpu() / READS);
    let lists = READS / 20;
    let meter = Meter::start();
    for _ in 0..lists {
        let page = hub.list_tasks(&caller(), page_query()).await.unwrap();
        assert_eq!(page.tasks.len(), 50);
    }
    let (list, list_cpu) = (meter.wall() / lists, meter.cpu() / lists);
    println!(
        "{stored:>10} tasks: get {get:.1?} ({get_cpu:.1?} CPU), list of 50 {list:.1?} ({list_cpu:.1?})"
    );
}

pub(crate) fn page_query() -> TaskQuery {
    TaskQuery {
        owner: None,
        context_id: None,
        states: vec![TaskState::Completed],
        agent: None,
        status_since: None,
        after: None,
        limit: 50,
    }
}

pub(crate) fn task_id(n: usize) -> TaskId {
    TaskId::new(format!("task-{n:012}")).unwrap()
}

/// Adds finished tasks, a hundred per commit.
pub(crate) async fn fill(hub: &Hub, from: usize, to: usize, extra_events: usize) {
    let owner = PrincipalId::new("bench").unwrap();
    let agent = AgentId::new("idle").unwrap();
    for start in (from..to).step_by(100) {
        let mut ops = Vec::new();
        let at = Timestamp::from_millis(1_700_000_000_000 + i64::try_from(start).unwrap());
        for n in start..(start + 100).min(to) {
            let id = task_id(n);
            let subject = Subject::Task(id.clone());
            let (message, _) =
                Offloaded::offload(Message::user_text("Please analyse the figures."));
            let events = 1 + u64::try_from(extra_events).unwrap();
            ops.push(Op::CreateTask(Arc::new(Task {
                id: id.clone(),
                context_id: ContextId::new(format!("context-{}", n / 3)).unwrap(),
                owner: owner.clone(),
                agent: agent.clone(),
                state: TaskState::Completed,
                priority: Priority::Normal,
                metadata: None,
                status_message: None,
                created_at: at,
                status_at: at,
                updated_at: at,
                finished_at: Some(at),
                revision: 1,
                seq: events,
                generation: 0,
                is_direct: false,
                message_count: 1,
                artifact_count: 0,
                push_count: 0,
            })));
            ops.push(Op::AddMessage {
                task_id: id,
                index: 0,
                message: message.clone(),
            });
            for seq in 1..=events {
                let body = EventBody::Created {
                    message: message.clone(),
                };
                ops.push(Op::AppendEvent(EventRow {
                    subject: subject.clone(),
                    seq,
                    generation: None,
                    body,
                }));
            }
        }
        let id = uuid::Uuid::new_v4().to_string();
        let commit = Commit {
            id,
            at,
            fence: None,
            epoch: None,
            ops,
        };
        hub.store().commit(commit).await.unwrap();
    }
}
