//! Tests of what only this engine has: its file, its groups, its writer. The contract of the ports
//! has a suite of its own.

use super::{Check, SqliteOptions, SqliteStore};
use interzone_hub::ports::{Commit, EventRow, Op, StoreError};
use interzone_hub::{EventBody, Packed, Subject, Task, WorkOwner};
use interzone_protocol::vocab::{
    AgentId, ContextId, Message, PrincipalId, Priority, TaskId, TaskState, Timestamp,
};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

mod blobs;
mod coherence;
mod events;
mod failure;
mod first;
mod groups;
mod log;
mod opening;
mod queue;
mod records;
mod traits;

/// A folder that goes when this does.
pub(super) struct Folder(PathBuf);

impl Folder {
    pub(super) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let number = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("interzone-sqlite-{}-{number}", std::process::id());
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(super) fn file(&self) -> PathBuf {
        self.0.join("store.db")
    }

    async fn open(&self) -> SqliteStore {
        self.try_open().await.unwrap()
    }

    async fn try_open(&self) -> Result<SqliteStore, StoreError> {
        SqliteStore::open(self.file(), SqliteOptions::default()).await
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        drop(std::fs::remove_dir_all(&self.0));
    }
}

/// Makes a file as older programs made it, with something in it.
fn old_file(folder: &Folder, version: usize, content: &str) {
    let connection = rusqlite::Connection::open(folder.file()).unwrap();
    let steps = super::schema::MIGRATIONS.iter().take(version);
    for step in steps.copied().chain([content]) {
        connection.execute_batch(step).unwrap();
    }
    let id = super::schema::APPLICATION_ID;
    connection
        .pragma_update(None, "application_id", id)
        .unwrap();
    let version = i64::try_from(version).unwrap();
    connection
        .pragma_update(None, "user_version", version)
        .unwrap();
}

fn at(millis: i64) -> Timestamp {
    Timestamp::from_millis(1_700_000_000_000 + millis)
}

pub(super) fn task(id: &str) -> Task {
    Task {
        id: TaskId::new(id).unwrap(),
        context_id: ContextId::new("c").unwrap(),
        owner: PrincipalId::new("o").unwrap(),
        agent: AgentId::new("a").unwrap(),
        state: TaskState::Submitted,
        priority: Priority::Normal,
        metadata: None,
        status: None,
        created_at: at(0),
        updated_at: at(0),
        finished_at: None,
        revision: 1,
        seq: 1,
        messages: 1,
        artifacts: 0,
        pushes: 0,
    }
}

fn said(text: &str) -> Packed<Message> {
    Packed::pack(Message::user_text(text)).0
}

fn commit(ops: Vec<Op>) -> Commit {
    Commit {
        id: "commit".to_owned(),
        at: at(0),
        fence: None,
        epoch: None,
        ops,
    }
}

fn create(id: &str) -> Op {
    Op::CreateTask(Arc::new(task(id)))
}

fn event(id: &str, seq: u64) -> Op {
    Op::AppendEvent(EventRow {
        subject: Subject::Task(TaskId::new(id).unwrap()),
        seq,
        body: EventBody::Created { message: said(id) },
    })
}

/// A task with a message, an event and a place in the queue.
fn whole(id: &str) -> Commit {
    let task_id = TaskId::new(id).unwrap();
    commit(vec![
        create(id),
        Op::AddMessage {
            task_id: task_id.clone(),
            index: 0,
            message: said(id),
        },
        event(id, 1),
        Op::QueueWork {
            task_id,
            agent: AgentId::new("a").unwrap(),
            owner: WorkOwner::new(&task(id), None),
            priority: Priority::Normal,
            due_at: at(0),
        },
    ])
}
