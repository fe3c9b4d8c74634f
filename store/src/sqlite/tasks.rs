//! Tasks and what hangs on them.

use super::SqliteStore;
use super::apply::once;
use super::cache::Found;
use super::commit::Prepared;
use super::fault::Outcome;
use super::first::First;
use super::job::Session;
use super::rows::{all, first, optional_text, text};
use super::work::{self, Place};
use super::{blobs, events};
use crate::codec::{column, count, from_optional_text, from_text, moment, name, word};
use async_trait::async_trait;
use interzone_hub::ports::{Commit, StoreError, TaskRead, TaskStore, Wake};
use interzone_hub::{BlobId, BlobText, Event, Packed, Push, Subject, Task, TaskQuery};
use interzone_protocol::vocab::{
    Artifact, Message, Metadata, Priority, TaskId, TaskState, Timestamp,
};
use rusqlite::{Row, Statement, params};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

mod list;
mod whole;

use whole::Length;

/// The columns that [`read_task`] expects, in its order.
macro_rules! task_columns {
    () => {
        "id, context_id, owner, agent, state, priority, created_at, updated_at, finished_at, \
         revision, seq, messages, artifacts, pushes, metadata, status"
    };
}
use task_columns;

#[async_trait]
impl TaskStore for SqliteStore {
    async fn commit(&self, commit: Commit) -> Result<(), StoreError> {
        let prepared = Prepared::new(commit)?;
        let weight = prepared.weight();
        self.writer
            .write(weight, move |session| prepared.apply(session))
            .await
    }

    async fn task(&self, id: &TaskId) -> Result<Option<Task>, StoreError> {
        if let Some(whole) = self.cache.get(id) {
            return Ok(Some(whole.task.clone()));
        }
        let id = id.clone();
        self.read(move |connection| whole::head(connection, &id))
            .await
    }

    async fn whole_task(
        &self,
        id: &TaskId,
        latest: u32,
        artifacts: bool,
        most: usize,
    ) -> Result<Option<TaskRead>, StoreError> {
        let permit = match self.cache.find(id) {
            Found::Task(whole) => return Ok(Some(TaskRead::Task(whole))),
            Found::Nothing(permit) => permit,
        };
        let (id, largest) = (id.clone(), self.cache.largest());
        self.read(move |connection| {
            let wanted = whole::Wanted {
                latest,
                artifacts,
                most,
            };
            let read = match whole::read(connection, &id, &wanted, largest)? {
                None => return Ok(None),
                Some(Err(larger)) => return Ok(Some(TaskRead::Larger(larger))),
                Some(Ok(read)) => read,
            };
            let task = Arc::new(read.task);
            if let (Some(permit), Some(bytes)) = (permit, read.bytes) {
                permit.keep(&task, bytes);
            }
            Ok(Some(TaskRead::Task(task)))
        })
        .await
    }

    async fn messages(
        &self,
        id: &TaskId,
        range: Range<u32>,
    ) -> Result<Vec<Packed<Message>>, StoreError> {
        let id = id.clone();
        self.read(move |connection| whole::messages(connection, &id, range))
            .await
    }

    async fn artifacts(&self, id: &TaskId) -> Result<Vec<Packed<Artifact>>, StoreError> {
        let id = id.clone();
        self.read(move |connection| whole::artifacts(connection, &id, &mut Length::unbounded()))
            .await
    }

    async fn tasks(&self, query: &TaskQuery) -> Result<Vec<Task>, StoreError> {
        let query = query.clone();
        self.read(move |connection| list::tasks(connection, &query))
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

    async fn pushes(&self, id: &TaskId) -> Result<Vec<Push>, StoreError> {
        let id = id.clone();
        self.read(move |connection| {
            let sql = "SELECT id, owner, channel, events, target, created_at FROM pushes \
                WHERE task_id = ?1 ORDER BY created_at, position";
            all(connection, sql, [id.as_str()], |row| {
                Ok(Push {
                    id: word("push", text(row, 0)?)?,
                    task_id: id.clone(),
                    owner: word("push", text(row, 1)?)?,
                    channel: row.get(2)?,
                    events: from_text("push", text(row, 3)?)?,
                    target: from_text("push", text(row, 4)?)?,
                    created_at: moment(row.get(5)?),
                })
            })
        })
        .await
    }

    async fn blobs(&self, ids: &[BlobId]) -> Result<HashMap<BlobId, BlobText>, StoreError> {
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

    async fn claimed(&self, key: &str, now: Timestamp) -> Result<Option<String>, StoreError> {
        let key = key.to_owned();
        self.read(move |connection| {
            let sql = "SELECT value FROM claims WHERE key = ?1 AND expires_at > ?2";
            first(connection, sql, params![key, now.as_millis()], |row| {
                Ok(row.get(0)?)
            })
        })
        .await
    }
}

fn read_task(row: &Row<'_>) -> Outcome<Task> {
    Ok(Task {
        id: word("task", text(row, 0)?)?,
        context_id: word("task", text(row, 1)?)?,
        owner: word("task", text(row, 2)?)?,
        agent: word("task", text(row, 3)?)?,
        state: name("task", text(row, 4)?, TaskState::from_name)?,
        priority: name("task", text(row, 5)?, Priority::from_name)?,
        created_at: moment(row.get(6)?),
        updated_at: moment(row.get(7)?),
        finished_at: row.get::<_, Option<i64>>(8)?.map(moment),
        revision: count("task", row.get(9)?)?,
        seq: count("task", row.get(10)?)?,
        messages: count("task", row.get(11)?)?,
        artifacts: count("task", row.get(12)?)?,
        pushes: count("task", row.get(13)?)?,
        metadata: from_optional_text("task", optional_text(row, 14)?)?,
        status: from_optional_text("task", optional_text(row, 15)?)?,
    })
}

/// Adds a task, with what it begins with; its status is text already.
pub(super) fn create(
    session: &mut Session<'_>,
    task: &Task,
    status: Option<&str>,
    first: &First,
    at: Timestamp,
) -> Outcome<()> {
    let sql = concat!(
        "INSERT INTO tasks (",
        task_columns!(),
        ", first_said, first_messages, first_seq, first_at, first_events, \
           work_agent, work_priority, work_flow, work_turn, work_position, work_ready, work_wake_at, \
           work_attempt, work_claim) \
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, \
                 ?17, ?18, ?19, ?20, ?21, ?22, ?23, ?24, ?25, ?26, ?27, ?28, ?29, ?29)"
    );
    let place = first.place.as_ref();
    let flow = place.map(Place::flow);
    let turn = match (place, &flow) {
        (Some(place), Some(flow)) => Some(work::next_turn(session, place, flow)?),
        _ => None,
    };
    let mut statement = session.connection.prepare_cached(sql)?;
    bind(&mut statement, task, status)?;
    let more = params![
        first.said,
        first.messages,
        first.seq.map(column),
        first.seq.map(|_| at.as_millis()),
        first.events,
        place.map(|place| place.agent.as_str()),
        place.map(Place::rank),
        flow,
        turn,
        place.map(|_| work::next_position(session.counters)),
        place.map(|place| place.is_ready(at)),
        place.map(|place| place.wake_at(at)),
        place.map(|_| 0),
    ];
    for (place, value) in (17..).zip(more) {
        statement.raw_bind_parameter(place, value)?;
    }
    once(statement.raw_execute()?)?;
    if let Some(seq) = first.seq {
        let subject = Subject::Task(task.id.clone());
        session.wakes.named.push(Wake::Subject(subject, seq));
    }
    session.wakes.work |= first.place.is_some();
    Ok(())
}

/// Puts a task in the place of its revision before.
pub(super) fn update(session: &Session<'_>, task: &Task, status: Option<&str>) -> Outcome<()> {
    /// All that ever changes. An index is written whenever a column of its is named here.
    macro_rules! changing {
        () => {
            "agent = ?4, state = ?5, priority = ?6, updated_at = ?8, finished_at = ?9, \
             revision = ?10, seq = ?11, messages = ?12, artifacts = ?13, pushes = ?14, \
             metadata = ?15, status = ?16, trimmed = 0"
        };
    }
    let usual = concat!(
        "UPDATE tasks SET ",
        changing!(),
        " WHERE id = ?1 AND revision = ?10 - 1 \
          AND context_id = ?2 AND owner = ?3 AND created_at = ?7"
    );
    if write(session, usual, task, status)? > 0 {
        return Ok(());
    }
    let whole = concat!(
        "UPDATE tasks SET context_id = ?2, owner = ?3, created_at = ?7, ",
        changing!(),
        " WHERE id = ?1 AND revision = ?10 - 1"
    );
    once(write(session, whole, task, status)?)
}

fn write(session: &Session<'_>, sql: &str, task: &Task, status: Option<&str>) -> Outcome<usize> {
    let mut statement = session.connection.prepare_cached(sql)?;
    bind(&mut statement, task, status)?;
    Ok(statement.raw_execute()?)
}

/// Binds the columns of a task.
fn bind(statement: &mut Statement<'_>, task: &Task, status: Option<&str>) -> Outcome<()> {
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
        column(task.revision),
        column(task.seq),
        task.messages,
        task.artifacts,
        task.pushes,
        task.metadata.as_ref().map(Metadata::as_str),
        status,
    ];
    for (place, value) in (1..).zip(values) {
        statement.raw_bind_parameter(place, value)?;
    }
    Ok(())
}
