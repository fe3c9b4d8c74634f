//! Pipelining: several statements in one round trip, all sent before the first result arrives.
//!
//! Every statement is prepared beforehand, so that they are sent in order.

use crate::statements;
use deadpool_postgres::Object;
use std::future::poll_fn;
use std::task::Poll;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

/// A statement parameter.
pub(super) type Param<'a> = Box<dyn ToSql + Sync + Send + 'a>;

/// A statement and its parameters.
pub(super) struct PipelineStep<'a> {
    pub(super) sql: &'static str,
    pub(super) params: Vec<Param<'a>>,
}

/// Prepares a statement, cached per connection. All statements of the store go through here.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the one place, so that tests see every statement"
)]
pub(super) async fn prepare(
    client: &Object,
    sql: &str,
) -> Result<Statement, tokio_postgres::Error> {
    if let Some(observer) = statements::observer() {
        observer(sql);
    }
    client.prepare_cached(sql).await
}

/// Begins a transaction and runs one query in it, in one round trip.
pub(super) async fn begin_and_query(
    client: &Object,
    sql: &str,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let statement = prepare(client, sql).await?;
    let (begin_result, rows) = tokio::join!(
        biased;
        client.batch_execute("BEGIN"),
        client.query(&statement, params)
    );
    begin_result?;
    rows
}

/// Begins a transaction, takes an advisory lock and runs one query under it, in one round trip.
pub(super) async fn begin_locked_and_query(
    client: &Object,
    lock: i64,
    sql: &str,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let lock_statement = prepare(client, "SELECT pg_advisory_xact_lock($1)").await?;
    let statement = prepare(client, sql).await?;
    let key: [&(dyn ToSql + Sync); 1] = [&lock];
    let (begin_result, locked, rows) = tokio::join!(
        biased;
        client.batch_execute("BEGIN"),
        client.execute(&lock_statement, &key),
        client.query(&statement, params)
    );
    begin_result?;
    locked?;
    rows
}

/// Runs one more query in the transaction.
pub(super) async fn query_rows(
    client: &Object,
    sql: &str,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let statement = prepare(client, sql).await?;
    client.query(&statement, params).await
}

/// Begins a transaction and runs all these steps in it, in one round trip; returns the affected row count
/// of each.
pub(super) async fn begin_and_execute(
    client: &Object,
    steps: &[PipelineStep<'_>],
) -> Result<Vec<Result<u64, tokio_postgres::Error>>, tokio_postgres::Error> {
    let mut statements = Vec::with_capacity(steps.len());
    for step in steps {
        statements.push(prepare(client, step.sql).await?);
    }
    let begin = client.batch_execute("BEGIN");
    let executions = steps.iter().zip(&statements).map(|(step, statement)| {
        let params = step
            .params
            .iter()
            .map(|param| -> &(dyn ToSql + Sync) { &**param });
        Box::pin(client.execute_raw(statement, params))
    });
    let mut executions: Vec<_> = executions.collect();
    let mut begin = std::pin::pin!(begin);
    let mut begin_result = None;
    let mut results: Vec<Option<_>> = steps.iter().map(|_| None).collect();
    // The first poll of each future sends its statement, in this order; results arrive in the same order.
    poll_fn(|context| {
        if let Poll::Ready(result) = begin.as_mut().poll(context) {
            begin_result = Some(result);
        }
        for (execution, result) in executions.iter_mut().zip(&mut results) {
            if let Poll::Ready(ready) = execution.as_mut().poll(context) {
                *result = Some(ready);
            }
        }
        Poll::Ready(())
    })
    .await;
    match begin_result {
        Some(result) => result?,
        None => begin.await?,
    }
    let mut answers = Vec::with_capacity(steps.len());
    for (execution, result) in executions.into_iter().zip(results) {
        answers.push(match result {
            Some(result) => result,
            None => execution.await,
        });
    }
    Ok(answers)
}
