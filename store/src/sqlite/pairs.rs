//! Pairs: written many at a time, found by whatever is known of one.

use super::SqliteStore;
use super::fault::Outcome;
use super::rows::all;
use crate::codec::{column, count, moment, word};
use async_trait::async_trait;
use interzone_hub::ports::{Pair, PairQuery, PairStore, StoreError};
use rusqlite::{Row, params};
use std::time::Duration;

const NOTE: &str = "INSERT INTO pairs (at, took, id, method, who, client, correlation, task_id, \
    outcome, code, address) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)";

const COLUMNS: &str = "SELECT at, took, id, method, who, client, correlation, task_id, outcome, \
    code, address FROM pairs WHERE";

/// What is left to ask once the rows were found by an index.
const REST: &str = "AND (?1 IS NULL OR id = ?1) \
    AND (?2 IS NULL OR correlation = ?2) AND (?3 IS NULL OR task_id = ?3) \
    AND at >= ?4 ORDER BY at DESC, row DESC LIMIT ?5";

#[async_trait]
impl PairStore for SqliteStore {
    async fn note_pairs(&self, pairs: Vec<Pair>) -> Result<(), StoreError> {
        let weight = pairs.len().saturating_mul(Pair::LONGEST);
        self.writer
            .write(weight, move |session| {
                let mut note = session.connection.prepare_cached(NOTE)?;
                for pair in &pairs {
                    let took = u64::try_from(pair.took.as_micros()).unwrap_or(u64::MAX);
                    let values = params![
                        pair.at.as_millis(),
                        column(took),
                        pair.id.as_deref().map(Pair::cut),
                        Pair::cut(&pair.method),
                        Pair::cut(&pair.who),
                        Pair::cut(&pair.client),
                        Pair::cut(&pair.correlation),
                        pair.task.as_ref().map(|task| task.as_str()),
                        Pair::cut(&pair.outcome),
                        pair.code,
                        pair.address.map(|address| address.to_string()),
                    ];
                    note.execute(values)?;
                }
                Ok(())
            })
            .await
    }

    async fn pairs(&self, query: &PairQuery) -> Result<Vec<Pair>, StoreError> {
        let query = query.clone();
        self.read(move |connection| {
            let found_by = if query.task.is_some() {
                "task_id = ?3"
            } else if query.id.is_some() {
                "id = ?1"
            } else if query.correlation.is_some() {
                "correlation = ?2"
            } else {
                "true"
            };
            let sql = format!("{COLUMNS} {found_by} {REST}");
            let values = params![
                query.id.as_deref().map(Pair::cut),
                query.correlation.as_deref().map(Pair::cut),
                query.task.as_ref().map(|task| task.as_str()),
                query.since.map_or(i64::MIN, |since| since.as_millis()),
                column(query.limit as u64),
            ];
            all(connection, &sql, values, read)
        })
        .await
    }
}

fn read(row: &Row<'_>) -> Outcome<Pair> {
    let task: Option<String> = row.get(7)?;
    let address: Option<String> = row.get(10)?;
    Ok(Pair {
        at: moment(row.get(0)?),
        took: Duration::from_micros(count("a time", row.get(1)?)?),
        id: row.get(2)?,
        method: row.get(3)?,
        who: row.get(4)?,
        client: row.get(5)?,
        correlation: row.get(6)?,
        task: task.map(|task| word("a task", &task)).transpose()?,
        outcome: row.get(8)?,
        code: row.get(9)?,
        address: address
            .map(|address| word("an address", &address))
            .transpose()?,
    })
}
