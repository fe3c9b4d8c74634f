//! Tasks, with their messages, artifacts, events, push subscriptions and blobs.

use super::SqliteStore;
use super::apply::require_changed;
use super::cache::CacheLookup;
use super::commit::PreparedCommit;
use super::error::SqliteResult;
use super::rows::{all, first, optional_text, text};
use super::write_job::WriteSession;
use super::{blobs, events};
use crate::codec::{
    from_json_text, from_optional_json_text, int_from_column, int_to_column, parse_enum, parse_id,
    timestamp_from_column,
};
use async_trait::async_trait;
use interzone_hub::ports::{Commit, StoreError, TaskRead, TaskStore};
use interzone_hub::{
    BlobContent, BlobId, Event, Offloaded, PushSubscription, SealedSecrets, Subject, Task,
    TaskQuery,
};
use interzone_protocol::vocab::{
    Artifact, Message, Metadata, Priority, TaskId, TaskState, Timestamp,
};
use rusqlite::{Row, Statement, params};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

mod list;
mod snapshot;

use snapshot::TextBudget;

/// Columns that [`read_task`] reads, in its order.
macro_rules! task_columns {
    () => {
        "id, context_id, owner, agent, state, priority, created_at, updated_at, finished_at, \
         revision, seq, message_count, artifact_count, push_count, metadata, status_message, \
         status_at, generation, is_direct"
    };
}
use task_columns;

#[async_trait]
impl TaskStore for SqliteStore {
    async fn commit(&self, commit: Commit) -> Result<(), StoreError> {
        let prepared = PreparedCommit::new(commit)?;
        let estimated_bytes = prepared.estimated_bytes();
        self.writer
            .write(estimated_bytes, move |session| prepared.apply(session))
            .await
    }

    async fn task(&self, id: &TaskId) -> Result<Option<Task>, StoreError> {
        if let Some(cached) = self.cache.get(id) {
            return Ok(Some(cached.task.clone()));
        }
        let id = id.clone();
        self.read(move |connection| snapshot::load_task(connection, &id))
            .await
    }

    async fn task_snapshot(
        &self,
        id: &TaskId,
        latest: u32,
        artifacts: bool,
        most: usize,
    ) -> Result<Option<TaskRead>, StoreError> {
        let permit = match self.cache.lookup(id) {
            CacheLookup::Hit(cached) => return Ok(Some(TaskRead::Task(cached))),
            CacheLookup::Miss(permit) => permit,
        };
        let (id, max_cached_bytes) = (id.clone(), self.cache.max_task_bytes());
        self.read(move |connection| {
            let request = snapshot::SnapshotRequest {
                latest,
                artifacts,
                max_bytes: most,
            };
            let read = match snapshot::read_snapshot(connection, &id, &request, max_cached_bytes)? {
                None => return Ok(None),
                Some(Err(larger)) => return Ok(Some(TaskRead::TooLarge(larger))),
                Some(Ok(read)) => read,
            };
            let task = Arc::new(read.task);
            if let (Some(permit), Some(bytes)) = (permit, read.bytes) {
                permit.insert(&task, bytes);
            }
            Ok(Some(TaskRead::Task(task)))
        })
        .await
    }

    async fn messages(
        &self,
        id: &TaskId,
        range: Range<u32>,
    ) -> Result<Vec<Offloaded<Message>>, StoreError> {
        let id = id.clone();
        self.read(move |connection| {
            snapshot::read_messages(connection, &id, range, &mut TextBudget::unbounded())
        })
        .await
    }

    async fn artifacts(&self, id: &TaskId) -> Result<Vec<Offloaded<Artifact>>, StoreError> {
        let id = id.clone();
        self.read(move |connection| {
            snapshot::read_artifacts(connection, &id, &mut TextBudget::unbounded())
        })
        .await
    }

    async fn tasks(&self, query: &TaskQuery) -> Result<Vec<Task>, StoreError> {
        let query = query.clone();
        self.read(move |connection| list::list_tasks(connection, &query))
            .await
    }

    async fn count_tasks(&self, query: &TaskQuery) -> Result<u64, StoreError> {
        let query = query.clone();
        self.read(move |connection| list::count_tasks(connection, &query))
            .await
    }

    async fn events(
        &self,
        subject: &Subject,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        let subject = subject.clone();
        self.read(move |connection| events::read(connection, &subject, after, limit))
            .await
    }

    async fn push_subscriptions(&self, id: &TaskId) -> Result<Vec<PushSubscription>, StoreError> {
        let id = id.clone();
        self.read(move |connection| {
            let sql = "SELECT id, owner, channel, events, target, created_at, format, secrets \
                FROM push_subscriptions \
                WHERE task_id = ?1 ORDER BY created_at, number";
            all(connection, sql, [id.as_str()], |row| {
                Ok(PushSubscription {
                    id: parse_id("push", text(row, 0)?)?,
                    task_id: id.clone(),
                    owner: parse_id("push", text(row, 1)?)?,
                    channel: row.get(2)?,
                    events: from_json_text("push", text(row, 3)?)?,
                    target: from_json_text("push", text(row, 4)?)?,
                    created_at: timestamp_from_column(row.get(5)?),
                    format: row.get(6)?,
                    secrets: optional_text(row, 7)?.map(SealedSecrets::new),
                })
            })
        })
        .await
    }

    async fn blobs(&self, ids: &[BlobId]) -> Result<HashMap<BlobId, BlobContent>, StoreError> {
        let ids = ids.to_vec();
        self.read(move |connection| {
            let mut found = HashMap::with_capacity(ids.len());
            for id in ids {
                let bytes = blobs::get(connection, &id)?;
                found.extend(bytes.map(|bytes| (id, bytes)));
            }
            Ok(found)
        })
        .await
    }

    async fn blob_sizes(&self, ids: &[BlobId]) -> Result<HashMap<BlobId, usize>, StoreError> {
        let ids = ids.to_vec();
        self.read(move |connection| {
            let mut sizes = HashMap::with_capacity(ids.len());
            for id in ids {
                let size = blobs::size(connection, &id)?;
                sizes.extend(size.map(|size| (id, size)));
            }
            Ok(sizes)
        })
        .await
    }

    async fn claimed_value(&self, key: &str, now: Timestamp) -> Result<Option<String>, StoreError> {
        let key = key.to_owned();
        self.read(move |connection| {
            let sql = "SELECT value FROM idempotency_keys WHERE key = ?1 AND expires_at > ?2";
            first(connection, sql, params![key, now.as_millis()], |row| {
                Ok(row.get(0)?)
            })
        })
        .await
    }
}

fn read_task_row(row: &Row<'_>) -> SqliteResult<Task> {
    Ok(Task {
        id: parse_id("task", text(row, 0)?)?,
        context_id: parse_id("task", text(row, 1)?)?,
        owner: parse_id("task", text(row, 2)?)?,
        agent: parse_id("task", text(row, 3)?)?,
        state: parse_enum("task", text(row, 4)?, TaskState::from_name)?,
        priority: parse_enum("task", text(row, 5)?, Priority::from_name)?,
        created_at: timestamp_from_column(row.get(6)?),
        updated_at: timestamp_from_column(row.get(7)?),
        finished_at: row.get::<_, Option<i64>>(8)?.map(timestamp_from_column),
        revision: int_from_column("task", row.get(9)?)?,
        seq: int_from_column("task", row.get(10)?)?,
        message_count: int_from_column("task", row.get(11)?)?,
        artifact_count: int_from_column("task", row.get(12)?)?,
        push_count: int_from_column("task", row.get(13)?)?,
        metadata: from_optional_json_text("task", optional_text(row, 14)?)?,
        status_message: from_optional_json_text("task", optional_text(row, 15)?)?,
        status_at: timestamp_from_column(row.get(16)?),
        generation: int_from_column("task", row.get(17)?)?,
        is_direct: row.get(18)?,
    })
}

/// Inserts a task; its status message is encoded already.
pub(super) fn create(
    session: &WriteSession<'_>,
    task: &Task,
    status: Option<&str>,
) -> SqliteResult<()> {
    let sql = concat!(
        "INSERT INTO tasks (",
        task_columns!(),
        ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, \
         ?17, ?18, ?19)"
    );
    require_changed(write_task(session, sql, task, status)?)
}

/// Updates a task whose stored revision is the previous one.
pub(super) fn update(
    session: &WriteSession<'_>,
    task: &Task,
    status: Option<&str>,
) -> SqliteResult<()> {
    /// Columns that usually change. An index is rewritten whenever one of its columns is named in an update.
    macro_rules! mutable_columns {
        () => {
            "agent = ?4, state = ?5, priority = ?6, updated_at = ?8, finished_at = ?9, \
             revision = ?10, seq = ?11, message_count = ?12, artifact_count = ?13, push_count = ?14, \
             metadata = ?15, status_message = ?16, status_at = ?17, generation = ?18, is_direct = ?19, \
             is_log_purged = 0"
        };
    }
    let update_mutable = concat!(
        "UPDATE tasks SET ",
        mutable_columns!(),
        " WHERE id = ?1 AND revision = ?10 - 1 \
          AND context_id = ?2 AND owner = ?3 AND created_at = ?7"
    );
    if write_task(session, update_mutable, task, status)? > 0 {
        return Ok(());
    }
    let update_all = concat!(
        "UPDATE tasks SET context_id = ?2, owner = ?3, created_at = ?7, ",
        mutable_columns!(),
        " WHERE id = ?1 AND revision = ?10 - 1"
    );
    require_changed(write_task(session, update_all, task, status)?)
}

fn write_task(
    session: &WriteSession<'_>,
    sql: &str,
    task: &Task,
    status: Option<&str>,
) -> SqliteResult<usize> {
    let mut statement = session.connection.prepare_cached(sql)?;
    bind_task(&mut statement, task, status)?;
    Ok(statement.raw_execute()?)
}

/// Binds the columns of a task.
fn bind_task(statement: &mut Statement<'_>, task: &Task, status: Option<&str>) -> SqliteResult<()> {
    let values = params![
        task.id.as_str(),
        task.context_id.as_str(),
        task.owner.as_str(),
        task.agent.as_str(),
        task.state.name(),
        task.priority.name(),
        task.created_at.as_millis(),
        task.updated_at.as_millis(),
        task.finished_at.map(Timestamp::as_millis),
        int_to_column(task.revision),
        int_to_column(task.seq),
        task.message_count,
        task.artifact_count,
        task.push_count,
        task.metadata.as_ref().map(Metadata::as_str),
        status,
        task.status_at.as_millis(),
        int_to_column(task.generation),
        task.is_direct,
    ];
    for (index, value) in (1..).zip(values) {
        statement.raw_bind_parameter(index, value)?;
    }
    Ok(())
}
