//! Tasks and streams, with their messages, artifacts, events, push subscriptions and blobs.

use super::PostgresStore;
use super::clock::now_or_server;
use super::pipeline::Param;
use super::text_encoding;
use super::work_queue::limit_param;
use crate::codec::{
    from_json_text, from_optional_json_text, int_from_column, int_to_column, parse_enum, parse_id,
    parse_metadata, parse_raw_json, priority_from_rank, timestamp_from_column,
};
use async_trait::async_trait;
use interzone_hub::ports::{Commit, StoreError, StreamStore, TaskRead, TaskStore};
use interzone_hub::{
    BlobContent, BlobId, Event, Offloaded, PushSubscription, SealedSecrets, Stream, StreamQuery,
    Subject, Task, TaskQuery, TaskSnapshot,
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

const TASK_COLUMNS: &str = "id, context_id, owner, agent, state, priority, metadata, status_message, \
    created_at, updated_at, finished_at, revision, seq, message_count, artifact_count, push_count, \
    status_at, generation, is_direct";

macro_rules! stream_columns {
    () => {
        "id, owner, participants, state, metadata, created_at, updated_at, closed_at, revision, seq"
    };
}

#[async_trait]
impl TaskStore for PostgresStore {
    async fn commit(&self, commit: Commit) -> Result<(), StoreError> {
        self.write_commit(&commit, None).await.map(|_| ())
    }

    async fn task(&self, id: &TaskId) -> Result<Option<Task>, StoreError> {
        let sql = format!("SELECT {TASK_COLUMNS} FROM tasks WHERE id = $1");
        let rows = self.tx_runner.query(&sql, &[&id.as_str()]).await?;
        rows.first().map(read_task_row).transpose()
    }

    async fn task_snapshot(
        &self,
        id: &TaskId,
        latest: u32,
        artifacts: bool,
        max_bytes: usize,
    ) -> Result<Option<TaskRead>, StoreError> {
        // One statement reads one snapshot in one round trip. Bodies above the limit do not leave the server.
        let sql = format!(
            "SELECT {TASK_COLUMNS}, CASE WHEN size.bytes <= $4 THEN ARRAY(
                 SELECT body FROM messages WHERE task_id = $1 AND position >= message_count - $2
                 AND position < message_count ORDER BY position) END,
             CASE WHEN size.bytes <= $4 THEN ARRAY(
                 SELECT body FROM artifacts WHERE task_id = $1 AND $3 AND artifact_count > 0
                 ORDER BY number) END,
             size.bytes
             FROM tasks CROSS JOIN LATERAL (SELECT (
                 coalesce((SELECT sum(octet_length(body)) FROM messages
                     WHERE task_id = $1 AND position >= message_count - $2 AND position < message_count), 0)
                 + coalesce((SELECT sum(octet_length(body)) FROM artifacts
                     WHERE task_id = $1 AND $3 AND artifact_count > 0), 0))::bigint AS bytes) size
             WHERE id = $1"
        );
        let max_bytes = i64::try_from(max_bytes).unwrap_or(i64::MAX);
        let latest = i64::from(latest);
        let params: [&(dyn ToSql + Sync); 4] = [&id.as_str(), &latest, &artifacts, &max_bytes];
        let rows = self.tx_runner.query(&sql, &params).await?;
        let read_snapshot = |row: &Row| {
            let (Some(messages), Some(artifacts)) = (row.get(19), row.get(20)) else {
                return Ok(TaskRead::TooLarge(int_from_column("a task", row.get(21))?));
            };
            Ok(TaskRead::Task(Arc::new(TaskSnapshot {
                task: read_task_row(row)?,
                messages: read_bodies("a message", messages)?,
                artifacts: read_bodies("an artifact", artifacts)?,
                rendering: interzone_hub::SnapshotRendering::default(),
            })))
        };
        rows.first().map(read_snapshot).transpose()
    }

    async fn messages(
        &self,
        id: &TaskId,
        range: Range<u32>,
    ) -> Result<Vec<Offloaded<Message>>, StoreError> {
        let sql =
            "SELECT body FROM messages WHERE task_id = $1 AND position >= $2 AND position < $3
                   ORDER BY position";
        let (start, end) = (i64::from(range.start), i64::from(range.end));
        let rows = self
            .tx_runner
            .query(sql, &[&id.as_str(), &start, &end])
            .await?;
        rows.iter()
            .map(|row| from_json_text("a message", row.get(0)))
            .collect()
    }

    async fn artifacts(&self, id: &TaskId) -> Result<Vec<Offloaded<Artifact>>, StoreError> {
        let sql = "SELECT body FROM artifacts WHERE task_id = $1 ORDER BY number";
        let rows = self.tx_runner.query(sql, &[&id.as_str()]).await?;
        rows.iter()
            .map(|row| from_json_text("an artifact", row.get(0)))
            .collect()
    }

    async fn tasks(&self, query: &TaskQuery) -> Result<Vec<Task>, StoreError> {
        let mut filter = TaskFilter::from_query(query);
        if let Some(after) = &query.after {
            let at = filter.bind(after.status_at.as_millis());
            let id = filter.bind(after.id.as_str());
            filter.and(format!("(status_at, id) < ({at}, {id})"));
        }
        let limit_param = filter.bind(limit_param(query.limit));
        let sql = format!(
            "SELECT {TASK_COLUMNS} FROM tasks {} ORDER BY status_at DESC, id DESC LIMIT {limit_param}",
            filter.conditions
        );
        let rows = self.tx_runner.query(&sql, &filter.params()).await?;
        rows.iter().map(read_task_row).collect()
    }

    async fn count_tasks(&self, query: &TaskQuery) -> Result<u64, StoreError> {
        let filter = TaskFilter::from_query(query);
        let sql = format!("SELECT count(*) FROM tasks {}", filter.conditions);
        let rows = self.tx_runner.query(&sql, &filter.params()).await?;
        let counted = rows.first().map_or(0, |row| row.get(0));
        int_from_column("a count", counted)
    }

    async fn events(
        &self,
        subject: &Subject,
        after: u64,
        max_events: usize,
    ) -> Result<Vec<Event>, StoreError> {
        let sql = "SELECT seq, at, body, generation FROM events WHERE subject = $1 AND seq > $2
                   ORDER BY seq LIMIT $3";
        let params: [&(dyn ToSql + Sync); 3] = [
            &subject.key(),
            &int_to_column(after),
            &limit_param(max_events),
        ];
        let rows = self.tx_runner.query(sql, &params).await?;
        rows.iter()
            .map(|row| {
                Ok(Event {
                    subject: subject.clone(),
                    seq: int_from_column("an event", row.get(0))?,
                    at: timestamp_from_column(row.get(1)),
                    body: from_json_text("an event", row.get(2))?,
                    generation: row
                        .get::<_, Option<i64>>(3)
                        .map(|number| int_from_column("an event", number))
                        .transpose()?,
                })
            })
            .collect()
    }

    async fn push_subscriptions(&self, id: &TaskId) -> Result<Vec<PushSubscription>, StoreError> {
        let sql = "SELECT task_id, id, owner, channel, events, target, created_at, format, secrets
                   FROM push_subscriptions WHERE task_id = $1 ORDER BY created_at, number";
        let rows = self.tx_runner.query(sql, &[&id.as_str()]).await?;
        rows.iter().map(read_push).collect()
    }

    async fn blobs(&self, ids: &[BlobId]) -> Result<HashMap<BlobId, BlobContent>, StoreError> {
        if ids.is_empty() {
            return Ok(HashMap::new());
        }
        let ids: Vec<&[u8]> = ids.iter().map(|id| id.as_bytes().as_slice()).collect();
        let sql = "SELECT id, bytes FROM blobs WHERE id = ANY ($1)";
        let rows = self.tx_runner.query(sql, &[&ids]).await?;
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
        let sql = "SELECT id, octet_length(bytes)::bigint FROM blobs WHERE id = ANY ($1)";
        let rows = self.tx_runner.query(sql, &[&ids]).await?;
        let corrupt = || StoreError::Corrupt("a blob cannot be read".to_owned());
        rows.iter()
            .map(|row| {
                let id: [u8; 32] = row.get::<_, &[u8]>(0).try_into().map_err(|_| corrupt())?;
                Ok((
                    BlobId::from_bytes(id),
                    int_from_column("a blob", row.get(1))?,
                ))
            })
            .collect()
    }

    async fn claimed_value(&self, key: &str, now: Timestamp) -> Result<Option<String>, StoreError> {
        let sql = concat!(
            "SELECT value FROM idempotency_keys WHERE key_hash = $1 AND expires_at > ",
            now_or_server!("$2")
        );
        let now = self.clock().now_param(now);
        let params: [&(dyn ToSql + Sync); 2] = [&text_encoding::index_hash(key), &now];
        let rows = self.tx_runner.query(sql, &params).await?;
        Ok(rows
            .first()
            .map(|row| text_encoding::unescape_nul(row.get(0))))
    }
}

#[async_trait]
impl StreamStore for PostgresStore {
    async fn stream(&self, id: &StreamId) -> Result<Option<Stream>, StoreError> {
        let sql = concat!("SELECT ", stream_columns!(), " FROM streams WHERE id = $1");
        let rows = self.tx_runner.query(sql, &[&id.as_str()]).await?;
        rows.first().map(read_stream).transpose()
    }

    async fn idle_streams(
        &self,
        before: Timestamp,
        max_streams: usize,
    ) -> Result<Vec<Stream>, StoreError> {
        let sql = concat!(
            "SELECT ",
            stream_columns!(),
            " FROM streams WHERE state <> 'CLOSED' AND updated_at < $1
              ORDER BY updated_at, id LIMIT $2"
        );
        let params: [&(dyn ToSql + Sync); 2] = [&before.as_millis(), &limit_param(max_streams)];
        let rows = self.tx_runner.query(sql, &params).await?;
        rows.iter().map(read_stream).collect()
    }

    async fn streams(&self, query: &StreamQuery) -> Result<Vec<Stream>, StoreError> {
        // One range per index, in its order: closed streams with and without their event log.
        let conditions: &[&str] = if query.is_closed {
            &[
                "closed_at IS NOT NULL AND NOT is_log_purged AND closed_at < $1
                     ORDER BY closed_at DESC, id DESC",
                "closed_at IS NOT NULL AND is_log_purged AND closed_at < $1
                     ORDER BY closed_at DESC, id DESC",
            ]
        } else {
            &["state <> 'CLOSED' AND updated_at < $1 ORDER BY updated_at DESC, id DESC"]
        };
        let before = query.before.map_or(i64::MAX, Timestamp::as_millis);
        let params: [&(dyn ToSql + Sync); 2] = [&before, &limit_param(query.limit)];
        let mut streams = Vec::new();
        for condition in conditions {
            let columns = stream_columns!();
            let sql = format!("SELECT {columns} FROM streams WHERE {condition} LIMIT $2");
            let rows = self.tx_runner.query(&sql, &params).await?;
            for row in &rows {
                streams.push(read_stream(row)?);
            }
        }
        if query.is_closed {
            streams.sort_unstable_by(|a, b| (b.closed_at, &b.id).cmp(&(a.closed_at, &a.id)));
            streams.truncate(query.limit);
        }
        Ok(streams)
    }
}

/// WHERE conditions of a query, and their parameters.
struct TaskFilter<'a> {
    conditions: String,
    values: Vec<Param<'a>>,
}

impl<'a> TaskFilter<'a> {
    fn from_query(query: &'a TaskQuery) -> Self {
        let mut filter = Self {
            conditions: String::new(),
            values: Vec::new(),
        };
        let equalities = [
            ("owner", query.owner.as_ref().map(|owner| owner.as_str())),
            (
                "context_id",
                query.context_id.as_ref().map(|id| id.as_str()),
            ),
            ("agent", query.agent.as_ref().map(|agent| agent.as_str())),
        ];
        for (column, value) in equalities {
            if let Some(word) = value {
                let placeholder = filter.bind(word);
                filter.and(format!("{column} = {placeholder}"));
            }
        }
        if !query.states.is_empty() {
            let names: Vec<&str> = query.states.iter().map(|state| state.name()).collect();
            let placeholder = filter.bind(names);
            filter.and(format!("state = ANY ({placeholder})"));
        }
        if !query.states.is_empty() && !query.states.iter().any(|state| state.is_terminal()) {
            // Written out, so that the index of active tasks can be used.
            filter.and(
                "state IN ('submitted', 'working', 'input_required', 'auth_required')".to_owned(),
            );
        }
        if let Some(since) = query.status_since {
            let placeholder = filter.bind(since.as_millis());
            filter.and(format!("status_at >= {placeholder}"));
        }
        filter
    }

    /// Adds a parameter and returns its placeholder.
    fn bind(&mut self, value: impl ToSql + Sync + Send + 'a) -> String {
        self.values.push(Box::new(value));
        format!("${}", self.values.len())
    }

    fn and(&mut self, condition: String) {
        let keyword = if self.conditions.is_empty() {
            "WHERE"
        } else {
            "AND"
        };
        self.conditions = format!("{} {keyword} {condition}", self.conditions);
    }

    fn params(&self) -> Vec<&(dyn ToSql + Sync)> {
        let values = self.values.iter();
        values
            .map(|value| -> &(dyn ToSql + Sync) { &**value })
            .collect()
    }
}

fn read_task_row(row: &Row) -> Result<Task, StoreError> {
    Ok(Task {
        id: parse_id("a task", row.get(0))?,
        context_id: parse_id("a task", row.get(1))?,
        owner: parse_id("a task", row.get(2))?,
        agent: parse_id("a task", row.get(3))?,
        state: parse_enum("a task", row.get(4), TaskState::from_name)?,
        priority: priority_from_rank(row.get(5))?,
        metadata: parse_metadata(row.get(6))?,
        status_message: from_optional_json_text("a task", row.get(7))?,
        created_at: timestamp_from_column(row.get(8)),
        updated_at: timestamp_from_column(row.get(9)),
        finished_at: row.get::<_, Option<i64>>(10).map(timestamp_from_column),
        revision: int_from_column("a task", row.get(11))?,
        seq: int_from_column("a task", row.get(12))?,
        message_count: int_from_column("a task", row.get(13))?,
        artifact_count: int_from_column("a task", row.get(14))?,
        push_count: int_from_column("a task", row.get(15))?,
        status_at: timestamp_from_column(row.get(16)),
        generation: int_from_column("a task", row.get(17))?,
        is_direct: row.get(18),
    })
}

fn read_bodies<T: DeserializeOwned>(what: &str, bodies: Vec<&str>) -> Result<Vec<T>, StoreError> {
    let read = |body| from_json_text(what, body);
    bodies.into_iter().map(read).collect()
}

fn read_push(row: &Row) -> Result<PushSubscription, StoreError> {
    Ok(PushSubscription {
        task_id: parse_id("a push", row.get(0))?,
        id: parse_id("a push", row.get(1))?,
        owner: parse_id("a push", row.get(2))?,
        channel: text_encoding::unescape_nul(row.get(3)),
        events: from_json_text("a push", row.get(4))?,
        target: parse_raw_json("a push", row.get(5))?,
        created_at: timestamp_from_column(row.get(6)),
        format: text_encoding::unescape_nul(row.get(7)),
        secrets: row
            .get::<_, Option<&str>>(8)
            .map(|sealed| SealedSecrets::new(text_encoding::unescape_nul(sealed))),
    })
}

fn read_stream(row: &Row) -> Result<Stream, StoreError> {
    Ok(Stream {
        id: parse_id("a stream", row.get(0))?,
        owner: parse_id("a stream", row.get(1))?,
        participants: from_json_text("a stream", row.get(2))?,
        state: parse_enum("a stream", row.get(3), StreamState::from_name)?,
        metadata: parse_metadata(row.get(4))?,
        created_at: timestamp_from_column(row.get(5)),
        updated_at: timestamp_from_column(row.get(6)),
        closed_at: row.get::<_, Option<i64>>(7).map(timestamp_from_column),
        revision: int_from_column("a stream", row.get(8))?,
        seq: int_from_column("a stream", row.get(9))?,
    })
}
