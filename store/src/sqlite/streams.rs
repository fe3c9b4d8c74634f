//! Streams.

use super::SqliteStore;
use super::apply::require_changed;
use super::error::SqliteResult;
use super::rows::{all, first, optional_text, text};
use super::write_job::WriteSession;
use crate::codec::{
    from_json_text, from_optional_json_text, int_from_column, int_to_column, parse_enum, parse_id,
    timestamp_from_column,
};
use async_trait::async_trait;
use interzone_hub::ports::{StoreError, StreamStore};
use interzone_hub::{Stream, StreamQuery};
use interzone_protocol::vocab::{Metadata, StreamId, StreamState, Timestamp};
use rusqlite::{Row, params};

/// Columns that [`read_stream`] reads, in its order.
macro_rules! stream_columns {
    () => {
        "id, owner, participants, state, created_at, updated_at, closed_at, revision, seq, metadata"
    };
}

#[async_trait]
impl StreamStore for SqliteStore {
    async fn stream(&self, id: &StreamId) -> Result<Option<Stream>, StoreError> {
        let id = id.clone();
        self.read(move |connection| {
            let sql = concat!("SELECT ", stream_columns!(), " FROM streams WHERE id = ?1");
            first(connection, sql, [id.as_str()], read_stream)
        })
        .await
    }

    async fn idle_streams(
        &self,
        before: Timestamp,
        limit: usize,
    ) -> Result<Vec<Stream>, StoreError> {
        self.read(move |connection| {
            let sql = concat!(
                "SELECT ",
                stream_columns!(),
                " FROM streams INDEXED BY streams_open \
                  WHERE closed_at IS NULL AND updated_at < ?1 ORDER BY updated_at, id LIMIT ?2"
            );
            let values = params![before.as_millis(), int_to_column(limit as u64)];
            all(connection, sql, values, read_stream)
        })
        .await
    }

    async fn streams(&self, query: &StreamQuery) -> Result<Vec<Stream>, StoreError> {
        let (closed, limit) = (query.is_closed, query.limit);
        let before = query.before.map_or(i64::MAX, Timestamp::as_millis);
        self.read(move |connection| {
            let list = |index: &str| {
                let sql = format!(
                    concat!(
                        "SELECT ",
                        stream_columns!(),
                        " FROM streams INDEXED BY {} LIMIT ?2"
                    ),
                    index
                );
                let values = params![before, int_to_column(limit as u64)];
                all(connection, &sql, values, read_stream)
            };
            if !closed {
                return list(
                    "streams_open WHERE closed_at IS NULL AND updated_at < ?1 \
                     ORDER BY updated_at DESC, id DESC",
                );
            }
            // One index range for streams with their event log and one for the others, each in order. A closed
            // stream never changes again.
            let mut streams = Vec::new();
            for is_log_purged in ["0", "1"] {
                streams.extend(list(&format!(
                    "streams_closed WHERE closed_at IS NOT NULL AND is_log_purged = {is_log_purged} \
                     AND closed_at < ?1 ORDER BY closed_at DESC, id DESC"
                ))?);
            }
            streams.sort_unstable_by(|a, b| (b.closed_at, &b.id).cmp(&(a.closed_at, &a.id)));
            streams.truncate(limit);
            Ok(streams)
        })
        .await
    }
}

fn read_stream(row: &Row<'_>) -> SqliteResult<Stream> {
    Ok(Stream {
        id: parse_id("stream", text(row, 0)?)?,
        owner: parse_id("stream", text(row, 1)?)?,
        participants: from_json_text("stream", text(row, 2)?)?,
        state: parse_enum("stream", text(row, 3)?, StreamState::from_name)?,
        created_at: timestamp_from_column(row.get(4)?),
        updated_at: timestamp_from_column(row.get(5)?),
        closed_at: row.get::<_, Option<i64>>(6)?.map(timestamp_from_column),
        revision: int_from_column("stream", row.get(7)?)?,
        seq: int_from_column("stream", row.get(8)?)?,
        metadata: from_optional_json_text("stream", optional_text(row, 9)?)?,
    })
}

/// Inserts a stream; `participants` is the encoded list.
pub(super) fn create(
    session: &WriteSession<'_>,
    stream: &Stream,
    participants: Option<&str>,
) -> SqliteResult<()> {
    let sql = concat!(
        "INSERT INTO streams (",
        stream_columns!(),
        ") VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)"
    );
    write_stream(session, sql, stream, participants)
}

/// Updates a stream whose stored revision is the previous one.
pub(super) fn update(
    session: &WriteSession<'_>,
    stream: &Stream,
    participants: Option<&str>,
) -> SqliteResult<()> {
    let sql = "UPDATE streams SET owner = ?2, participants = ?3, state = ?4, created_at = ?5, \
        updated_at = ?6, closed_at = ?7, revision = ?8, seq = ?9, metadata = ?10, is_log_purged = 0 \
        WHERE id = ?1 AND revision = ?8 - 1";
    write_stream(session, sql, stream, participants)
}

fn write_stream(
    session: &WriteSession<'_>,
    sql: &str,
    stream: &Stream,
    participants: Option<&str>,
) -> SqliteResult<()> {
    let values = params![
        stream.id.as_str(),
        stream.owner.as_str(),
        participants,
        stream.state.name(),
        stream.created_at.as_millis(),
        stream.updated_at.as_millis(),
        stream.closed_at.map(Timestamp::as_millis),
        int_to_column(stream.revision),
        int_to_column(stream.seq),
        stream.metadata.as_ref().map(Metadata::as_str),
    ];
    require_changed(session.run(sql, values)?)
}
