//! Tasks and streams, and all that hangs on them.

use super::PostgresStore;
use super::moments::now_or_server;
use super::pipeline::Param;
use super::text;
use super::work::limit;
use crate::codec::{
    column, count, from_optional_text, from_rank, from_text, json, metadata, moment, name, word,
};
use async_trait::async_trait;
use interzone_hub::ports::{Commit, StoreError, StreamStore, TaskRead, TaskStore};
use interzone_hub::{
    BlobId, BlobText, Event, Packed, Push, Stream, StreamQuery, Subject, Task, TaskQuery, WholeTask,
};
use interzone_protocol::vocab::{
    Artifact, Message, StreamId, StreamState, TaskId, TaskState, Timestamp,
};
use serde::de::DeserializeOwned;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

const TASK: &str = "id, context_id, owner, agent, state, priority, metadata, status, created_at, \
                    updated_at, finished_at, revision, seq, messages, artifacts, pushes";

macro_rules! stream_columns {
    () => {
        "id, owner, participants, state, metadata, created_at, updated_at, closed_at, revision, seq"
    };
}

#[async_trait]
impl TaskStore for PostgresStore {
    async fn commit(&self, commit: Commit) -> Result<(), StoreError> {
        self.write(&commit, None).await.map(|_| ())
    }

    async fn task(&self, id: &TaskId) -> Result<Option<Task>, StoreError> {
        let sql = format!("SELECT {TASK} FROM tasks WHERE id = $1");
        let rows = self.session.rows(&sql, &[&id.as_str()]).await?;
        rows.first().map(read_task).transpose()
    }

    async fn whole_task(
        &self,
        id: &TaskId,
        latest: u32,
        artifacts: bool,
        most: usize,
    ) -> Result<Option<TaskRead>, StoreError> {
        // One statement sees one moment, and is one trip. What is too large does not leave the server.
        let sql = format!(
            "SELECT {TASK}, CASE WHEN size.bytes <= $4 THEN ARRAY(
                 SELECT body FROM messages WHERE task_id = $1 AND place >= tasks.messages - $2
                 AND place < tasks.messages ORDER BY place) END,
             CASE WHEN size.bytes <= $4 THEN ARRAY(
                 SELECT body FROM artifacts WHERE task_id = $1 AND $3 AND tasks.artifacts > 0
                 ORDER BY place) END,
             size.bytes
             FROM tasks CROSS JOIN LATERAL (SELECT (
                 coalesce((SELECT sum(octet_length(body)) FROM messages
                     WHERE task_id = $1 AND place >= tasks.messages - $2 AND place < tasks.messages), 0)
                 + coalesce((SELECT sum(octet_length(body)) FROM artifacts
                     WHERE task_id = $1 AND $3 AND tasks.artifacts > 0), 0))::bigint AS bytes) size
             WHERE id = $1"
        );
        let most = i64::try_from(most).unwrap_or(i64::MAX);
        let latest = i64::from(latest);
        let params: [&(dyn ToSql + Sync); 4] = [&id.as_str(), &latest, &artifacts, &most];
        let rows = self.session.rows(&sql, &params).await?;
        let whole = |row: &Row| {
            let (Some(messages), Some(artifacts)) = (row.get(16), row.get(17)) else {
                return Ok(TaskRead::Larger(count("a task", row.get(18))?));
            };
            Ok(TaskRead::Task(Arc::new(WholeTask {
                task: read_task(row)?,
                messages: read_bodies("a message", messages)?,
                artifacts: read_bodies("an artifact", artifacts)?,
                written: interzone_hub::Written::default(),
            })))
        };
        rows.first().map(whole).transpose()
    }

    async fn messages(
        &self,
        id: &TaskId,
        range: Range<u32>,
    ) -> Result<Vec<Packed<Message>>, StoreError> {
        let sql = "SELECT body FROM messages WHERE task_id = $1 AND place >= $2 AND place < $3
                   ORDER BY place";
        let (start, end) = (i64::from(range.start), i64::from(range.end));
        let rows = self
            .session
            .rows(sql, &[&id.as_str(), &start, &end])
            .await?;
        rows.iter()
            .map(|row| from_text("a message", row.get(0)))
            .collect()
    }

    async fn artifacts(&self, id: &TaskId) -> Result<Vec<Packed<Artifact>>, StoreError> {
        let sql = "SELECT body FROM artifacts WHERE task_id = $1 ORDER BY place";
        let rows = self.session.rows(sql, &[&id.as_str()]).await?;
        rows.iter()
            .map(|row| from_text("an artifact", row.get(0)))
            .collect()
    }

    async fn tasks(&self, query: &TaskQuery) -> Result<Vec<Task>, StoreError> {
        let mut filter = Filter::of(query);
        if let Some(after) = &query.after {
            let at = filter.place(after.updated_at.as_millis());
            let id = filter.place(after.id.as_str());
            filter.and(format!("(updated_at, id) < ({at}, {id})"));
        }
        let most = filter.place(limit(query.limit));
        let sql = format!(
            "SELECT {TASK} FROM tasks {} ORDER BY updated_at DESC, id DESC LIMIT {most}",
            filter.conditions
        );
        let rows = self.session.rows(&sql, &filter.params()).await?;
        rows.iter().map(read_task).collect()
    }

    async fn count_tasks(&self, query: &TaskQuery) -> Result<u64, StoreError> {
        let filter = Filter::of(query);
        let sql = format!("SELECT count(*) FROM tasks {}", filter.conditions);
        let rows = self.session.rows(&sql, &filter.params()).await?;
        let counted = rows.first().map_or(0, |row| row.get(0));
        count("a count", counted)
    }

    async fn events(
        &self,
        subject: &Subject,
        after: u64,
        most: usize,
    ) -> Result<Vec<Event>, StoreError> {
        let sql = "SELECT seq, at, body FROM events WHERE subject = $1 AND seq > $2
                   ORDER BY seq LIMIT $3";
        let params: [&(dyn ToSql + Sync); 3] = [&subject.key(), &column(after), &limit(most)];
        let rows = self.session.rows(sql, &params).await?;
        rows.iter()
            .map(|row| {
                Ok(Event {
                    subject: subject.clone(),
                    seq: count("an event", row.get(0))?,
                    at: moment(row.get(1)),
                    body: from_text("an event", row.get(2))?,
                })
            })
            .collect()
    }

    async fn pushes(&self, id: &TaskId) -> Result<Vec<Push>, StoreError> {
        let sql = "SELECT task_id, id, owner, channel, events, target, created_at FROM pushes
                   WHERE task_id = $1 ORDER BY created_at, place";
        let rows = self.session.rows(sql, &[&id.as_str()]).await?;
        rows.iter().map(read_push).collect()
    }

    async fn blobs(&self, ids: &[BlobId]) -> Result<HashMap<BlobId, BlobText>, StoreError> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let ids: Vec<&[u8]> = ids.iter().map(|id| id.as_bytes().as_slice()).collect();
        let sql = "SELECT id, body FROM blobs WHERE id = ANY ($1)";
        let rows = self.session.rows(sql, &[&ids]).await?;
        let corrupt = || StoreError::Corrupt("a blob cannot be read".to_owned());
        rows.iter()
            .map(|row| {
                let id: [u8; 32] = row.get::<_, &[u8]>(0).try_into().map_err(|_| corrupt())?;
                let body = std::str::from_utf8(row.get(1)).map_err(|_| corrupt())?;
                Ok((BlobId::from_bytes(id), body.into()))
            })
            .collect()
    }

    async fn blob_sizes(&self, ids: &[BlobId]) -> Result<HashMap<BlobId, usize>, StoreError> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let ids: Vec<&[u8]> = ids.iter().map(|id| id.as_bytes().as_slice()).collect();
        let sql = "SELECT id, octet_length(body)::bigint FROM blobs WHERE id = ANY ($1)";
        let rows = self.session.rows(sql, &[&ids]).await?;
        let corrupt = || StoreError::Corrupt("a blob cannot be read".to_owned());
        rows.iter()
            .map(|row| {
                let id: [u8; 32] = row.get::<_, &[u8]>(0).try_into().map_err(|_| corrupt())?;
                Ok((BlobId::from_bytes(id), count("a blob", row.get(1))?))
            })
            .collect()
    }

    async fn claimed(&self, key: &str, now: Timestamp) -> Result<Option<String>, StoreError> {
        let sql = concat!(
            "SELECT value FROM claims WHERE key_hash = $1 AND expires_at > ",
            now_or_server!("$2")
        );
        let now = self.clock().now(now);
        let params: [&(dyn ToSql + Sync); 2] = [&text::hash(key), &now];
        let rows = self.session.rows(sql, &params).await?;
        Ok(rows.first().map(|row| text::unescaped(row.get(0))))
    }
}

#[async_trait]
impl StreamStore for PostgresStore {
    async fn stream(&self, id: &StreamId) -> Result<Option<Stream>, StoreError> {
        let sql = concat!("SELECT ", stream_columns!(), " FROM streams WHERE id = $1");
        let rows = self.session.rows(sql, &[&id.as_str()]).await?;
        rows.first().map(read_stream).transpose()
    }

    async fn idle_streams(
        &self,
        before: Timestamp,
        most: usize,
    ) -> Result<Vec<Stream>, StoreError> {
        let sql = concat!(
            "SELECT ",
            stream_columns!(),
            " FROM streams WHERE state <> 'CLOSED' AND updated_at < $1
              ORDER BY updated_at, id LIMIT $2"
        );
        let params: [&(dyn ToSql + Sync); 2] = [&before.as_millis(), &limit(most)];
        let rows = self.session.rows(sql, &params).await?;
        rows.iter().map(read_stream).collect()
    }

    async fn streams(&self, query: &StreamQuery) -> Result<Vec<Stream>, StoreError> {
        // One stretch for each index, in its order: what is closed with its log, and without.
        let stretches: &[&str] = if query.closed {
            &[
                "closed_at IS NOT NULL AND NOT log_gone AND closed_at < $1
                     ORDER BY closed_at DESC, id DESC",
                "closed_at IS NOT NULL AND log_gone AND closed_at < $1
                     ORDER BY closed_at DESC, id DESC",
            ]
        } else {
            &["state <> 'CLOSED' AND updated_at < $1 ORDER BY updated_at DESC, id DESC"]
        };
        let before = query.before.map_or(i64::MAX, Timestamp::as_millis);
        let params: [&(dyn ToSql + Sync); 2] = [&before, &limit(query.limit)];
        let mut streams = Vec::new();
        for stretch in stretches {
            let columns = stream_columns!();
            let sql = format!("SELECT {columns} FROM streams WHERE {stretch} LIMIT $2");
            let rows = self.session.rows(&sql, &params).await?;
            for row in &rows {
                streams.push(read_stream(row)?);
            }
        }
        if query.closed {
            streams.sort_unstable_by(|a, b| (b.closed_at, &b.id).cmp(&(a.closed_at, &a.id)));
            streams.truncate(query.limit);
        }
        Ok(streams)
    }
}

/// The conditions of a query, and the values that they name.
struct Filter<'a> {
    conditions: String,
    values: Vec<Param<'a>>,
}

impl<'a> Filter<'a> {
    fn of(query: &'a TaskQuery) -> Self {
        let mut filter = Self {
            conditions: String::new(),
            values: Vec::new(),
        };
        let words = [
            ("owner", query.owner.as_ref().map(|owner| owner.as_str())),
            (
                "context_id",
                query.context_id.as_ref().map(|id| id.as_str()),
            ),
            ("agent", query.agent.as_ref().map(|agent| agent.as_str())),
        ];
        for (column, word) in words {
            if let Some(word) = word {
                let place = filter.place(word);
                filter.and(format!("{column} = {place}"));
            }
        }
        if !query.states.is_empty() {
            let names: Vec<&str> = query.states.iter().map(|state| state.name()).collect();
            let place = filter.place(names);
            filter.and(format!("state = ANY ({place})"));
        }
        if !query.states.is_empty() && !query.states.iter().any(|state| state.is_terminal()) {
            // Written out, so that the index of active tasks can be used.
            filter.and(
                "state IN ('submitted', 'working', 'input_required', 'auth_required')".to_owned(),
            );
        }
        if let Some(since) = query.updated_since {
            let place = filter.place(since.as_millis());
            filter.and(format!("updated_at >= {place}"));
        }
        filter
    }

    /// Adds a value, and answers how to name it.
    fn place(&mut self, value: impl ToSql + Sync + Send + 'a) -> String {
        self.values.push(Box::new(value));
        format!("${}", self.values.len())
    }

    fn and(&mut self, condition: String) {
        let word = if self.conditions.is_empty() {
            "WHERE"
        } else {
            "AND"
        };
        self.conditions = format!("{} {word} {condition}", self.conditions);
    }

    fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        let values = self.values.iter();
        values
            .map(|value| -> &(dyn ToSql + Sync) { &**value })
            .collect()
    }
}

fn read_task(row: &Row) -> Result<Task, StoreError> {
    Ok(Task {
        id: word("a task", row.get(0))?,
        context_id: word("a task", row.get(1))?,
        owner: word("a task", row.get(2))?,
        agent: word("a task", row.get(3))?,
        state: name("a task", row.get(4), TaskState::from_name)?,
        priority: from_rank(row.get(5))?,
        metadata: metadata(row.get(6))?,
        status: from_optional_text("a task", row.get(7))?,
        created_at: moment(row.get(8)),
        updated_at: moment(row.get(9)),
        finished_at: row.get::<_, Option<i64>>(10).map(moment),
        revision: count("a task", row.get(11))?,
        seq: count("a task", row.get(12))?,
        messages: count("a task", row.get(13))?,
        artifacts: count("a task", row.get(14))?,
        pushes: count("a task", row.get(15))?,
    })
}

fn read_bodies<T: DeserializeOwned>(what: &str, bodies: Vec<&str>) -> Result<Vec<T>, StoreError> {
    let read = |body| from_text(what, body);
    bodies.into_iter().map(read).collect()
}

fn read_push(row: &Row) -> Result<Push, StoreError> {
    Ok(Push {
        task_id: word("a push", row.get(0))?,
        id: word("a push", row.get(1))?,
        owner: word("a push", row.get(2))?,
        channel: text::unescaped(row.get(3)),
        events: from_text("a push", row.get(4))?,
        target: json("a push", row.get(5))?,
        created_at: moment(row.get(6)),
    })
}

fn read_stream(row: &Row) -> Result<Stream, StoreError> {
    Ok(Stream {
        id: word("a stream", row.get(0))?,
        owner: word("a stream", row.get(1))?,
        participants: from_text("a stream", row.get(2))?,
        state: name("a stream", row.get(3), StreamState::from_name)?,
        metadata: metadata(row.get(4))?,
        created_at: moment(row.get(5)),
        updated_at: moment(row.get(6)),
        closed_at: row.get::<_, Option<i64>>(7).map(moment),
        revision: count("a stream", row.get(8))?,
        seq: count("a stream", row.get(9))?,
    })
}
