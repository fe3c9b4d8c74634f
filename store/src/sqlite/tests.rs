//! Tests of what is specific to this engine: its file, group commit, its writer. The contract of the ports
//! has a suite of its own.

use super::{IntegrityCheck, SqliteOptions, SqliteStore};
use interzone_hub::ports::{Commit, EventRow, Op, StoreError};
use interzone_hub::{EventBody, Offloaded, Subject, Task, WorkOwner};
use interzone_protocol::vocab::{
    AgentId, ContextId, Message, PrincipalId, Priority, TaskId, TaskState, Timestamp,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

mod blobs;
mod cache_coherence;
mod disk_failure;
mod events;
mod group_commit;
mod opening;
mod ports_smoke;
mod records;
mod wal;
mod work_queue;

/// A temporary directory that is removed on drop.
pub(super) struct TempFolder(PathBuf);

impl TempFolder {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("interzone-sqlite-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(super) fn database_path(&self) -> PathBuf {
        self.0.join("store.db")
    }

    async fn open(&self) -> SqliteStore {
        self.try_open().await.unwrap()
    }

    async fn try_open(&self) -> Result<SqliteStore, StoreError> {
        SqliteStore::open(self.database_path(), SqliteOptions::default()).await
    }
}

impl Drop for TempFolder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

fn timestamp(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + millis)
}

pub(super) fn sample_task(id: &str) -> Task {
    Task {
        id: TaskId::new(id).unwrap(),
        context_id: ContextId::new("c").unwrap(),
        owner: PrincipalId::new("o").unwrap(),
        agent: AgentId::new("a").unwrap(),
        state: TaskState::Submitted,
        priority: Priority::Normal,
        metadata: None,
        status_message: None,
        created_at: timestamp(0),
        status_at: timestamp(0),
        updated_at: timestamp(0),
        finished_at: None,
        revision: 1,
        seq: 1,
        generation: 1,
        is_direct: false,
        message_count: 1,
        artifact_count: 0,
        push_count: 0,
    }
}

fn user_message(text: &str) -> Offloaded<Message> {
    Offloaded::offload(Message::user_text(text)).0
}

fn commit_of(ops: Vec<Op>) -> Commit {
    Commit {
        id: "commit".to_owned(),
        at: timestamp(0),
        fence: None,
        epoch: None,
        ops,
    }
}

fn create_task(id: &str) -> Op {
    Op::CreateTask(Arc::new(sample_task(id)))
}

fn created_event(id: &str, seq: u64) -> Op {
    Op::AppendEvent(EventRow {
        subject: Subject::Task(TaskId::new(id).unwrap()),
        seq,
        generation: None,
        body: EventBody::Created {
            message: user_message(id),
        },
    })
}

/// A commit of a task with a message, an event and a queue position.
fn new_task_commit(id: &str) -> Commit {
    let task_id = TaskId::new(id).unwrap();
    commit_of(vec![
        create_task(id),
        Op::AddMessage {
            task_id: task_id.clone(),
            index: 0,
            message: user_message(id),
        },
        created_event(id, 1),
        Op::EnqueueWork {
            task_id,
            agent: AgentId::new("a").unwrap(),
            owner: WorkOwner::new(&sample_task(id), None),
            priority: Priority::Normal,
            due_at: timestamp(0),
        },
    ])
}
