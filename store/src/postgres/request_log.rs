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
    INSERT INTO pairs (at, took, id, method, who, client, correlation, task_id,
                       outcome, code, address)
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[],
                         $6::text[], $7::text[], $8::text[], $9::text[],
                         $10::integer[], $11::text[])
    RETURNING true";

const SELECT_REQUESTS: &str = "
    SELECT at, took, id, method, who, client, correlation, task_id, outcome, code,
           address
    FROM pairs WHERE";

/// Remaining conditions, after an index has selected the rows.
const FILTER_REQUESTS: &str = "
      AND ($1::text IS NULL OR id = $1)
      AND ($2::text IS NULL OR correlation = $2)
      AND ($3::text IS NULL OR task_id = $3)
      AND at >= $4
    ORDER BY at DESC, number DESC LIMIT $5";

/// Request records as one array per column.
#[derive(Default)]
struct RequestColumns {
    at: Vec<i64>,
    took: Vec<i64>,
    id: Vec<Option<String>>,
    method: Vec<String>,
    who: Vec<String>,
    client: Vec<String>,
    correlation: Vec<String>,
    task: Vec<Option<String>>,
    outcome: Vec<String>,
    code: Vec<Option<i32>>,
    address: Vec<Option<String>>,
}

impl RequestColumns {
    fn from_requests(pairs: &[RequestLogEntry]) -> Self {
        let mut columns = Self::default();
        for pair in pairs {
            let took = u64::try_from(pair.duration.as_micros()).unwrap_or(u64::MAX);
            columns.at.push(pair.answered_at.as_millis());
            columns.took.push(int_to_column(took));
            columns.id.push(pair.id.as_deref().map(to_column_text));
            columns.method.push(to_column_text(&pair.method));
            columns.who.push(to_column_text(&pair.principal));
            columns.client.push(to_column_text(&pair.client));
            columns
                .correlation
                .push(to_column_text(&pair.correlation_id));
            columns
                .task
                .push(pair.task.as_ref().map(|task| task.to_string()));
            columns.outcome.push(to_column_text(&pair.outcome));
            columns.code.push(pair.code);
            columns
                .address
                .push(pair.address.map(|address| address.to_string()));
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
    async fn append_requests(&self, pairs: Vec<RequestLogEntry>) -> Result<(), StoreError> {
        if pairs.is_empty() {
            return Ok(());
        }
        let columns = RequestColumns::from_requests(&pairs);
        let params: [&(dyn ToSql + Sync); 11] = [
            &columns.at,
            &columns.took,
            &columns.id,
            &columns.method,
            &columns.who,
            &columns.client,
            &columns.correlation,
            &columns.task,
            &columns.outcome,
            &columns.code,
            &columns.address,
        ];
        let params = &params;
        self.tx_runner
            .transact("note_pairs", |client| {
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
            "id = $1"
        } else if query.correlation_id.is_some() {
            "correlation = $2"
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
