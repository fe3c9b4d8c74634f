//! Pairs: written many at a time by one statement, found by whatever is known of one.

use super::PostgresStore;
use super::pipeline::begin_with;
use super::session::Done;
use super::text::{escaped, unescaped};
use super::work::limit;
use crate::codec::{column, count, moment, word};
use async_trait::async_trait;
use interzone_hub::ports::{Pair, PairQuery, PairStore, StoreError};
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

const NOTE: &str = "
    INSERT INTO pairs (at, took, id, method, who, client, correlation, task_id,
                       outcome, code, address)
    SELECT * FROM unnest($1::bigint[], $2::bigint[], $3::text[], $4::text[], $5::text[],
                         $6::text[], $7::text[], $8::text[], $9::text[],
                         $10::integer[], $11::text[])
    RETURNING true";

const COLUMNS: &str = "
    SELECT at, took, id, method, who, client, correlation, task_id, outcome, code,
           address
    FROM pairs WHERE";

/// What is left to ask once the rows were found by an index.
const REST: &str = "
      AND ($1::text IS NULL OR id = $1)
      AND ($2::text IS NULL OR correlation = $2)
      AND ($3::text IS NULL OR task_id = $3)
      AND at >= $4
    ORDER BY at DESC, number DESC LIMIT $5";

/// The columns of some pairs, each in the order of the pairs.
#[derive(Default)]
struct Columns {
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

impl Columns {
    fn of(pairs: &[Pair]) -> Self {
        let mut columns = Self::default();
        for pair in pairs {
            let took = u64::try_from(pair.took.as_micros()).unwrap_or(u64::MAX);
            columns.at.push(pair.at.as_millis());
            columns.took.push(column(took));
            columns.id.push(pair.id.as_deref().map(kept));
            columns.method.push(kept(&pair.method));
            columns.who.push(kept(&pair.who));
            columns.client.push(kept(&pair.client));
            columns.correlation.push(kept(&pair.correlation));
            columns
                .task
                .push(pair.task.as_ref().map(|task| task.to_string()));
            columns.outcome.push(kept(&pair.outcome));
            columns.code.push(pair.code);
            columns
                .address
                .push(pair.address.map(|address| address.to_string()));
        }
        columns
    }
}

/// As much of a text as is kept, as a column can hold it.
fn kept(text: &str) -> String {
    escaped(Pair::cut(text)).into_owned()
}

#[async_trait]
impl PairStore for PostgresStore {
    async fn note_pairs(&self, pairs: Vec<Pair>) -> Result<(), StoreError> {
        if pairs.is_empty() {
            return Ok(());
        }
        let all = Columns::of(&pairs);
        let params: [&(dyn ToSql + Sync); 11] = [
            &all.at,
            &all.took,
            &all.id,
            &all.method,
            &all.who,
            &all.client,
            &all.correlation,
            &all.task,
            &all.outcome,
            &all.code,
            &all.address,
        ];
        let params = &params;
        self.session
            .transact("note_pairs", |client| {
                Box::pin(async move {
                    begin_with(&client, NOTE, params).await?;
                    Ok(Done::Written(()))
                })
            })
            .await
    }

    async fn pairs(&self, query: &PairQuery) -> Result<Vec<Pair>, StoreError> {
        // Said apart, for a plan that serves any question serves none of them well.
        let found_by = if query.task.is_some() {
            "task_id = $3"
        } else if query.id.is_some() {
            "id = $1"
        } else if query.correlation.is_some() {
            "correlation = $2"
        } else {
            "true"
        };
        let sql = format!("{COLUMNS} {found_by} {REST}");
        let id = query.id.as_deref().map(kept);
        let correlation = query.correlation.as_deref().map(kept);
        let task = query.task.as_ref().map(|task| task.as_str());
        let since = query.since.map_or(i64::MIN, |since| since.as_millis());
        let most = limit(query.limit);
        let params: [&(dyn ToSql + Sync); 5] = [&id, &correlation, &task, &since, &most];
        let rows = self.session.rows(&sql, &params).await?;
        rows.iter().map(read).collect()
    }
}

fn read(row: &Row) -> Result<Pair, StoreError> {
    let text = |place| unescaped(row.get(place));
    let optional = |place| row.get::<_, Option<&str>>(place);
    Ok(Pair {
        at: moment(row.get(0)),
        took: Duration::from_micros(count("a time", row.get(1))?),
        id: optional(2).map(unescaped),
        method: text(3),
        who: text(4),
        client: text(5),
        correlation: text(6),
        task: optional(7).map(|task| word("a task", task)).transpose()?,
        outcome: text(8),
        code: row.get(9),
        address: optional(10)
            .map(|address| word("an address", address))
            .transpose()?,
    })
}
