//! Runs reads and transactions on the pool, so that a lost connection neither loses nor repeats a write.
//!
//! Every writing transaction inserts a row with a unique id (its commit marker) into `commits`, as its
//! last step before the commit. If the connection is lost before the answer arrives, the transaction is
//! in doubt. It is resolved on another connection by inserting the same id as void: the server blocks
//! that insert until the transaction in doubt has ended, so afterwards it either has committed or never
//! can. (The server's own transaction ids do not serve: after a crash they may be reused.)

use super::connect::Connector;
use super::error::{self, PgError};
use super::options::PostgresOptions;
use super::pipeline::prepare;
use deadpool_postgres::{Object, Pool};
use interzone_backoff::Backoff;
use interzone_hub::BlobId;
use interzone_hub::ports::StoreError;
use std::hash::{BuildHasher, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// Maximum attempts of a call that hit a conflict or lost its connection.
const MAX_ATTEMPTS: u32 = 8;

/// Delays between attempts, by the number of the last attempt, counted from 1. Used with equal jitter.
pub(super) const RETRY_BACKOFF: Backoff =
    Backoff::new(Duration::from_millis(20), Duration::from_millis(2_560));

/// Body of a transaction attempt; it begins the transaction and does not end it.
pub(super) type TxBody<'e, T> =
    Pin<Box<dyn Future<Output = Result<TxOutcome<T>, PgError>> + Send + 'e>>;

/// Outcome of a transaction body.
pub(super) enum TxOutcome<T> {
    /// Changes were made and must be committed.
    Written(T),
    /// Nothing was written; the transaction is rolled back.
    ReadOnly(T),
}

/// Transaction runner: the pool, retries, and resolution of in-doubt transactions.
pub(super) struct TxRunner {
    pool: Pool,
    options: PostgresOptions,
    /// Random id of this store instance; makes its commit markers unique.
    instance_id: u64,
    tx_counter: AtomicU64,
}

impl TxRunner {
    pub(super) fn new(connector: &Connector, options: PostgresOptions) -> Result<Self, StoreError> {
        Ok(Self {
            pool: connector.pool(&options)?,
            options,
            instance_id: random(),
            tx_counter: AtomicU64::new(0),
        })
    }

    /// Random id of this store instance.
    pub(super) fn instance_id(&self) -> u64 {
        self.instance_id
    }

    pub(super) fn close(&self) {
        self.pool.close();
    }

    /// Advisory lock key for a kind of lock and a name.
    pub(super) fn lock_key(&self, kind: &str, name: &str) -> i64 {
        let hash = BlobId::for_content(format!("{}/{kind}/{name}", self.options.schema).as_bytes());
        let (first, _) = hash
            .as_bytes()
            .split_first_chunk::<8>()
            .unwrap_or((&[0; 8], &[]));
        i64::from_be_bytes(*first)
    }

    /// Runs a read. It is retried freely, since it changes nothing.
    pub(super) async fn query(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let deadline = self.deadline();
        let mut attempt = 0;
        loop {
            attempt += 1;
            let (mut connection, client) = self.acquire(deadline).await?;
            let query = async {
                let statement = prepare(&client, sql).await?;
                client.query(&statement, params).await
            };
            match timeout_at(deadline, query).await {
                Ok(Ok(rows)) => {
                    connection.is_clean = true;
                    return Ok(rows);
                }
                Ok(Err(error)) => {
                    connection.is_clean = !error::is_connection_lost(&error);
                    if attempt >= MAX_ATTEMPTS || !error::is_retryable(&error) {
                        return Err(error::to_store_error(&error));
                    }
                }
                Err(_) => return Err(timeout_error()),
            }
            drop((client, connection));
            sleep(RETRY_BACKOFF.equal_jitter(attempt)).await;
        }
    }

    /// Runs a transaction exactly once or not at all. `name` shows up in the table `commits`, for diagnosis.
    pub(super) async fn transact<'e, T: Send>(
        &self,
        name: &str,
        body: impl Fn(Arc<Object>) -> TxBody<'e, T> + Sync,
    ) -> Result<T, StoreError> {
        let deadline = self.deadline();
        let mut attempt = 0;
        loop {
            attempt += 1;
            let error = match self.attempt(name, deadline, &body).await {
                Ok(value) => return Ok(value),
                Err(PgError::Store(error)) => return Err(error),
                Err(PgError::Driver(error)) => error,
            };
            let is_exhausted = attempt >= MAX_ATTEMPTS || Instant::now() >= deadline;
            if is_exhausted || !error::is_retryable(&error) {
                return Err(error::to_store_error(&error));
            }
            sleep(RETRY_BACKOFF.equal_jitter(attempt)).await;
        }
    }

    async fn attempt<'e, T: Send>(
        &self,
        name: &str,
        deadline: Instant,
        body: &(impl Fn(Arc<Object>) -> TxBody<'e, T> + Sync),
    ) -> Result<T, PgError> {
        let (mut connection, client) = self.acquire(deadline).await?;
        let outcome = timeout_at(deadline, body(Arc::clone(&client))).await;
        let value = match outcome {
            Ok(Ok(TxOutcome::Written(value))) => value,
            Ok(Ok(TxOutcome::ReadOnly(value))) => {
                connection.roll_back(&client, deadline).await;
                return Ok(value);
            }
            Ok(Err(error)) => {
                connection.roll_back(&client, deadline).await;
                return Err(error);
            }
            // No COMMIT was sent, so it never happens.
            Err(_) => return Err(timeout_error().into()),
        };
        let marker = self.commit_marker(name);
        match timeout_at(deadline, commit_with_marker(&client, &marker)).await {
            Ok(Ok(())) => {
                connection.is_clean = true;
                Ok(value)
            }
            Ok(Err(error)) if !error::is_connection_lost(&error) => {
                connection.roll_back(&client, deadline).await;
                Err(error.into())
            }
            in_doubt => {
                drop((client, connection));
                match (self.resolve_in_doubt(&marker).await?, in_doubt) {
                    (true, _) => Ok(value),
                    (false, Ok(Err(error))) => Err(error.into()),
                    (false, _) => Err(timeout_error().into()),
                }
            }
        }
    }

    /// Resolves an in-doubt transaction: returns true if it committed. If not, it never will.
    async fn resolve_in_doubt(&self, marker: &str) -> Result<bool, StoreError> {
        let deadline = Instant::now() + self.options.outcome_timeout;
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.read_commit_marker(marker).await {
                Ok(committed) => return Ok(committed),
                Err(error) if error.is_transient() && Instant::now() < deadline => {
                    sleep(RETRY_BACKOFF.equal_jitter(attempt.min(6))).await;
                }
                Err(error) => {
                    tracing::error!(
                        marker, %error,
                        "in-doubt transaction could not be resolved"
                    );
                    return Err(StoreError::InDoubt(
                        "the connection was lost during a commit; it is unknown whether it was committed".to_owned(),
                    ));
                }
            }
        }
    }

    async fn read_commit_marker(&self, marker: &str) -> Result<bool, StoreError> {
        let insert_void =
            "INSERT INTO commits (id, is_void) VALUES ($1, true) ON CONFLICT (id) DO NOTHING";
        self.query(insert_void, &[&marker]).await?;
        let select_marker = "SELECT is_void FROM commits WHERE id = $1";
        let rows = self.query(select_marker, &[&marker]).await?;
        Ok(rows.first().is_some_and(|row| !row.get::<_, bool>(0)))
    }

    /// Returns a unique commit marker for a transaction.
    fn commit_marker(&self, name: &str) -> String {
        let number = self.tx_counter.fetch_add(1, Ordering::Relaxed);
        let label: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
        format!("{label}/{:016x}-{number:x}", self.instance_id)
    }

    async fn acquire(
        &self,
        deadline: Instant,
    ) -> Result<(PooledConnection, Arc<Object>), StoreError> {
        let acquire_deadline = deadline.min(Instant::now() + self.options.acquire_timeout);
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.pool.get().await {
                Ok(client) => {
                    let client = Arc::new(client);
                    let connection = PooledConnection {
                        client: Some(Arc::clone(&client)),
                        is_clean: false,
                    };
                    return Ok((connection, client));
                }
                Err(error) => {
                    let is_pool_timeout = matches!(error, deadpool_postgres::PoolError::Timeout(_));
                    let error = error::pool_error(error);
                    if is_pool_timeout
                        || !error.is_transient()
                        || Instant::now() >= acquire_deadline
                    {
                        return Err(error);
                    }
                }
            }
            sleep(RETRY_BACKOFF.equal_jitter(attempt)).await;
        }
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.options.acquire_timeout + self.options.statement_timeout
    }
}

/// A pooled connection in use. Unless it is clean when dropped, it is closed instead of returned to the
/// pool, which ends its transaction.
struct PooledConnection {
    /// The last handle to be dropped; `None` only during the drop.
    client: Option<Arc<Object>>,
    is_clean: bool,
}

impl PooledConnection {
    async fn roll_back(&mut self, client: &Object, deadline: Instant) {
        if !client.is_closed() {
            let rolled_back = timeout_at(deadline, client.batch_execute("ROLLBACK")).await;
            self.is_clean = matches!(rolled_back, Ok(Ok(())));
        }
    }
}

impl Drop for PooledConnection {
    fn drop(&mut self) {
        let client = self.client.take().and_then(Arc::into_inner);
        if let (Some(client), false) = (client, self.is_clean) {
            drop(Object::take(client));
        }
    }
}

async fn commit_with_marker(client: &Object, marker: &str) -> Result<(), tokio_postgres::Error> {
    let insert = "INSERT INTO commits (id, is_void) VALUES ($1, false)";
    let statement = prepare(client, insert).await?;
    let params: [&(dyn ToSql + Sync); 1] = [&marker];
    let (marker_inserted, committed) = tokio::join!(
        biased;
        client.execute(&statement, &params),
        client.batch_execute("COMMIT")
    );
    marker_inserted?;
    committed
}

/// Sixty-four random bits, sufficient for ids.
fn random() -> u64 {
    RandomState::new().hash_one(0_u8)
}

fn timeout_error() -> StoreError {
    StoreError::Unavailable("PostgreSQL did not answer in time".to_owned())
}
