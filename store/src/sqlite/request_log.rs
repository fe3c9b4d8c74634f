//! Request log: appended in batches, queried by any known attribute.

use super::SqliteStore;
use super::error::SqliteResult;
use super::rows::all;
use crate::codec::{int_from_column, int_to_column, parse_id, timestamp_from_column};
use async_trait::async_trait;
use interzone_hub::ports::{RequestLogEntry, RequestLogStore, RequestQuery, StoreError};
use rusqlite::{Row, params};
use std::time::Duration;

const INSERT_REQUEST: &str = "INSERT INTO requests (answered_at, duration_us, request_id, method, principal, client, \
    correlation_id, task_id, outcome, code, address) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";

const SELECT_REQUESTS: &str = "SELECT answered_at, duration_us, request_id, method, principal, client, \
    correlation_id, task_id, outcome, code, address FROM requests WHERE";

/// Remaining conditions, after an index has selected the rows.
const FILTER_REQUESTS: &str = "AND (?1 IS NULL OR request_id = ?1) \
    AND (?2 IS NULL OR correlation_id = ?2) AND (?3 IS NULL OR task_id = ?3) \
    AND answered_at >= ?4 ORDER BY answered_at DESC, number DESC LIMIT ?5";

#[async_trait]
impl RequestLogStore for SqliteStore {
    async fn append_requests(&self, requests: Vec<RequestLogEntry>) -> Result<(), StoreError> {
        let estimated_bytes = requests
            .len()
            .saturating_mul(RequestLogEntry::MAX_TEXT_BYTES);
        self.writer
            .write(estimated_bytes, move |session| {
                let mut insert = session.connection.prepare_cached(INSERT_REQUEST)?;
                for request in &requests {
                    let duration = u64::try_from(request.duration.as_micros()).unwrap_or(u64::MAX);
                    let values = params![
                        request.answered_at.as_millis(),
                        int_to_column(duration),
                        request.id.as_deref().map(RequestLogEntry::truncate),
                        RequestLogEntry::truncate(&request.method),
                        RequestLogEntry::truncate(&request.principal),
                        RequestLogEntry::truncate(&request.client),
                        RequestLogEntry::truncate(&request.correlation_id),
                        request.task.as_ref().map(|task| task.as_str()),
                        RequestLogEntry::truncate(&request.outcome),
                        request.code,
                        request.address.map(|address| address.to_string()),
                    ];
                    insert.execute(values)?;
                }
                Ok(())
            })
            .await
    }

    async fn find_requests(
        &self,
        query: &RequestQuery,
    ) -> Result<Vec<RequestLogEntry>, StoreError> {
        let query = query.clone();
        self.read(move |connection| {
            let indexed_condition = if query.task.is_some() {
                "task_id = ?3"
            } else if query.id.is_some() {
                "request_id = ?1"
            } else if query.correlation_id.is_some() {
                "correlation_id = ?2"
            } else {
                "true"
            };
            let sql = format!("{SELECT_REQUESTS} {indexed_condition} {FILTER_REQUESTS}");
            let values = params![
                query.id.as_deref().map(RequestLogEntry::truncate),
                query
                    .correlation_id
                    .as_deref()
                    .map(RequestLogEntry::truncate),
                query.task.as_ref().map(|task| task.as_str()),
                query.since.map_or(i64::MIN, |since| since.as_millis()),
                int_to_column(query.limit as u64),
            ];
            all(connection, &sql, values, read_request)
        })
        .await
    }
}

fn read_request(row: &Row<'_>) -> SqliteResult<RequestLogEntry> {
    let task: Option<String> = row.get(7)?;
    let address: Option<String> = row.get(10)?;
    Ok(RequestLogEntry {
        answered_at: timestamp_from_column(row.get(0)?),
        duration: Duration::from_micros(int_from_column("a time", row.get(1)?)?),
        id: row.get(2)?,
        method: row.get(3)?,
        principal: row.get(4)?,
        client: row.get(5)?,
        correlation_id: row.get(6)?,
        task: task.map(|task| parse_id("a task", &task)).transpose()?,
        outcome: row.get(8)?,
        code: row.get(9)?,
        address: address
            .map(|address| parse_id("an address", &address))
            .transpose()?,
    })
}
