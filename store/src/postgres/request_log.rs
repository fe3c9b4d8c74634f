//! Request log: appended in batches by one statement, queried by any known attribute.

use super::PostgresStore;
use super::pipeline::begin_and_query;
use super::text_encoding::{escape_nul, unescape_nul};
use super::tx_runner::TxOutcome;
use super::work_queue::limit_param;
use crate::codec::{int_from_column, int_to_column, parse_id, timestamp_from_column};
use async_trait::async_trait;
use interzone_hub::ports::{RequestLogEntry, RequestLogStore, RequestQuery, StoreError};
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

const INSERT_REQUESTS: &str = "
    INSERT INTO requests (answered_at, duration_us, request_id, method, principal, client,
                          correlation_id, task_id, outcome, code, address)
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[],
                         $6::text[], $7::text[], $8::text[], $9::text[],
                         $10::integer[], $11::text[])
    RETURNING true";

const SELECT_REQUESTS: &str = "
    SELECT answered_at, duration_us, request_id, method, principal, client, correlation_id,
           task_id, outcome, code, address
    FROM requests WHERE";

/// Remaining conditions, after an index has selected the rows.
const FILTER_REQUESTS: &str = "
      AND ($1::text IS NULL OR request_id = $1)
      AND ($2::text IS NULL OR correlation_id = $2)
      AND ($3::text IS NULL OR task_id = $3)
      AND answered_at >= $4
    ORDER BY answered_at DESC, number DESC LIMIT $5";

/// Request records as one array per column.
#[derive(Default)]
struct RequestColumns {
    answered_at: Vec<i64>,
    duration: Vec<i64>,
    id: Vec<Option<String>>,
    method: Vec<String>,
    principal: Vec<String>,
    client: Vec<String>,
    correlation_id: Vec<String>,
    task: Vec<Option<String>>,
    outcome: Vec<String>,
    code: Vec<Option<i32>>,
    address: Vec<Option<String>>,
}

impl RequestColumns {
    fn from_requests(requests: &[RequestLogEntry]) -> Self {
        let mut columns = Self::default();
        for request in requests {
            let duration = u64::try_from(request.duration.as_micros()).unwrap_or(u64::MAX);
            columns.answered_at.push(request.answered_at.as_millis());
            columns.duration.push(int_to_column(duration));
            columns.id.push(request.id.as_deref().map(to_column_text));
            columns.method.push(to_column_text(&request.method));
            columns.principal.push(to_column_text(&request.principal));
            columns.client.push(to_column_text(&request.client));
            columns
                .correlation_id
                .push(to_column_text(&request.correlation_id));
            columns
                .task
                .push(request.task.as_ref().map(|task| task.to_string()));
            columns.outcome.push(to_column_text(&request.outcome));
            columns.code.push(request.code);
            columns
                .address
                .push(request.address.map(|address| address.to_string()));
        }
        columns
    }
}

/// Truncates a text to the stored length and escapes it for a column.
fn to_column_text(text: &str) -> String {
    escape_nul(RequestLogEntry::truncate(text)).into_owned()
}

#[async_trait]
impl RequestLogStore for PostgresStore {
    async fn append_requests(&self, requests: Vec<RequestLogEntry>) -> Result<(), StoreError> {
        if requests.is_empty() {
            return Ok(());
        }
        let columns = RequestColumns::from_requests(&requests);
        let params: [&(dyn ToSql + Sync); 11] = [
            &columns.answered_at,
            &columns.duration,
            &columns.id,
            &columns.method,
            &columns.principal,
            &columns.client,
            &columns.correlation_id,
            &columns.task,
            &columns.outcome,
            &columns.code,
            &columns.address,
        ];
        let params = &params;
        self.tx_runner
            .transact("append_requests", |client| {
                Box::pin(async move {
                    begin_and_query(&client, INSERT_REQUESTS, params).await?;
                    Ok(TxOutcome::Written(()))
                })
            })
            .await
    }

    async fn find_requests(
        &self,
        query: &RequestQuery,
    ) -> Result<Vec<RequestLogEntry>, StoreError> {
        // A statement per index, because one generic plan would serve none of these lookups well.
        let indexed_condition = if query.task.is_some() {
            "task_id = $3"
        } else if query.id.is_some() {
            "request_id = $1"
        } else if query.correlation_id.is_some() {
            "correlation_id = $2"
        } else {
            "true"
        };
        let sql = format!("{SELECT_REQUESTS} {indexed_condition} {FILTER_REQUESTS}");
        let id = query.id.as_deref().map(to_column_text);
        let correlation = query.correlation_id.as_deref().map(to_column_text);
        let task = query.task.as_ref().map(|task| task.as_str());
        let since = query.since.map_or(i64::MIN, |since| since.as_millis());
        let limit_param = limit_param(query.limit);
        let params: [&(dyn ToSql + Sync); 5] = [&id, &correlation, &task, &since, &limit_param];
        let rows = self.tx_runner.query(&sql, &params).await?;
        rows.iter().map(read_request).collect()
    }
}

fn read_request(row: &Row) -> Result<RequestLogEntry, StoreError> {
    let text = |column| unescape_nul(row.get(column));
    let optional = |column| row.get::<_, Option<&str>>(column);
    Ok(RequestLogEntry {
        answered_at: timestamp_from_column(row.get(0)),
        duration: Duration::from_micros(int_from_column("a time", row.get(1))?),
        id: optional(2).map(unescape_nul),
        method: text(3),
        principal: text(4),
        client: text(5),
        correlation_id: text(6),
        task: optional(7)
            .map(|task| parse_id("a task", task))
            .transpose()?,
        outcome: text(8),
        code: row.get(9),
        address: optional(10)
            .map(|address| parse_id("an address", address))
            .transpose()?,
    })
}
