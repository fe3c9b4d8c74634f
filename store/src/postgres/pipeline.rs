//! Several statements in one trip: all are sent before the first is answered.
//!
//! Every statement is prepared beforehand, so that each leaves in its turn.

use crate::statements;
use deadpool_postgres::Object;
use std::future::poll_fn;
use std::task::Poll;
use tokio_postgres::types::ToSql;
use tokio_postgres::{Row, Statement};

/// A value for a statement.
pub(super) type Param<'a> = Box<dyn ToSql + Sync + Send + 'a>;

/// A statement and its values.
pub(super) struct Step<'a> {
    pub(super) sql: &'static str,
    pub(super) params: Vec<Param<'a>>,
}

/// A statement that stays ready on its connection. All statements of the store come this way.
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

/// Begins a transaction and asks one thing in it, in one trip.
pub(super) async fn begin_with(
    client: &Object,
    sql: &str,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let statement = prepare(client, sql).await?;
    let (begun, rows) = tokio::join!(
        biased;
        client.batch_execute("BEGIN"),
        client.query(&statement, params)
    );
    begun?;
    rows
}

/// Begins a transaction, waits for a lock and asks one thing under it, in one trip.
pub(super) async fn begin_locked(
    client: &Object,
    lock: i64,
    sql: &str,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let locking = prepare(client, "SELECT pg_advisory_xact_lock($1)").await?;
    let statement = prepare(client, sql).await?;
    let key: [&(dyn ToSql + Sync); 1] = [&lock];
    let (begun, locked, rows) = tokio::join!(
        biased;
        client.batch_execute("BEGIN"),
        client.execute(&locking, &key),
        client.query(&statement, params)
    );
    begun?;
    locked?;
    rows
}

/// Asks one more thing.
pub(super) async fn ask(
    client: &Object,
    sql: &str,
    params: &[&(dyn ToSql + Sync)],
) -> Result<Vec<Row>, tokio_postgres::Error> {
    let statement = prepare(client, sql).await?;
    client.query(&statement, params).await
}

/// Begins a transaction and takes all these steps in it, in one trip; answers how many rows each
/// touched.
pub(super) async fn begin_and_run(
    client: &Object,
    steps: &[Step<'_>],
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
    let mut begun = None;
    let mut results: Vec<Option<_>> = steps.iter().map(|_| None).collect();
    // The first look at each sends it, in this order; the answers come in the same order.
    poll_fn(|context| {
        if let Poll::Ready(result) = begin.as_mut().poll(context) {
            begun = Some(result);
        }
        for (execution, result) in executions.iter_mut().zip(&mut results) {
            if let Poll::Ready(ready) = execution.as_mut().poll(context) {
                *result = Some(ready);
            }
        }
        Poll::Ready(())
    })
    .await;
    match begun {
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
