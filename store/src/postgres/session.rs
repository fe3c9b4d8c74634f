//! Reading and writing through the pool, so that a lost connection is neither a lost write nor a
//! double one.
//!
//! Every transaction that writes leaves a row in `commits` under a name of its own, as its last step
//! before the commit. If the connection breaks before the answer is there, somebody asks on another
//! connection by putting the same name there himself, void: the server makes him wait until the
//! transaction in doubt is over, and then either it is found to have committed, or it never can. (The
//! server's own transaction numbers do not serve: after a crash they may be given anew.)

use super::connect::Connector;
use super::fault::{self, Fault};
use super::options::PostgresOptions;
use super::pipeline::prepare;
use deadpool_postgres::{Object, Pool};
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

/// How often a call is repeated that lost against others or whose connection broke.
const ATTEMPTS: u32 = 8;

/// What one attempt at a transaction does; it begins the transaction and does not end it.
pub(super) type Work<'e, T> = Pin<Box<dyn Future<Output = Result<Done<T>, Fault>> + Send + 'e>>;

/// What an attempt came to.
pub(super) enum Done<T> {
    /// Something was written, to be committed.
    Written(T),
    /// Nothing was written.
    Nothing(T),
}

/// The pool, and the rules for using it.
pub(super) struct Session {
    pool: Pool,
    options: PostgresOptions,
    /// Makes the names of our transactions ours alone.
    tag: u64,
    calls: AtomicU64,
}

impl Session {
    pub(super) fn new(connector: &Connector, options: PostgresOptions) -> Result<Self, StoreError> {
        Ok(Self {
            pool: connector.pool(&options)?,
            options,
            tag: random(),
            calls: AtomicU64::new(0),
        })
    }

    /// A number that tells this store from all others.
    pub(super) fn tag(&self) -> u64 {
        self.tag
    }

    pub(super) fn close(&self) {
        self.pool.close();
    }

    /// The number under which the server keeps a lock of ours.
    pub(super) fn lock_key(&self, kind: &str, name: &str) -> i64 {
        let hash = BlobId::of(format!("{}/{kind}/{name}", self.options.schema).as_bytes());
        let (first, _) = hash
            .as_bytes()
            .split_first_chunk::<8>()
            .unwrap_or((&[0; 8], &[]));
        i64::from_be_bytes(*first)
    }

    /// Reads. It may be repeated, since it changes nothing.
    pub(super) async fn rows(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, StoreError> {
        let deadline = self.deadline();
        let mut attempt = 0;
        loop {
            attempt += 1;
            let (mut lease, client) = self.lease(deadline).await?;
            let read = async {
                let statement = prepare(&client, sql).await?;
                client.query(&statement, params).await
            };
            match timeout_at(deadline, read).await {
                Ok(Ok(rows)) => {
                    lease.clean = true;
                    return Ok(rows);
                }
                Ok(Err(error)) => {
                    lease.clean = !fault::is_lost(&error);
                    if attempt >= ATTEMPTS || !fault::worth_repeating(&error) {
                        return Err(fault::answer(&error));
                    }
                }
                Err(_) => return Err(too_long()),
            }
            drop((client, lease));
            sleep(backoff(attempt)).await;
        }
    }

    /// Writes, exactly once or not at all. `name` is for whoever looks into the table of commits.
    pub(super) async fn transact<'e, T: Send>(
        &self,
        name: &str,
        work: impl Fn(Arc<Object>) -> Work<'e, T> + Sync,
    ) -> Result<T, StoreError> {
        let deadline = self.deadline();
        let mut attempt = 0;
        loop {
            attempt += 1;
            let error = match self.attempt(name, deadline, &work).await {
                Ok(value) => return Ok(value),
                Err(Fault::Answer(error)) => return Err(error),
                Err(Fault::Engine(error)) => error,
            };
            let late = attempt >= ATTEMPTS || Instant::now() >= deadline;
            if late || !fault::worth_repeating(&error) {
                return Err(fault::answer(&error));
            }
            sleep(backoff(attempt)).await;
        }
    }

    async fn attempt<'e, T: Send>(
        &self,
        name: &str,
        deadline: Instant,
        work: &(impl Fn(Arc<Object>) -> Work<'e, T> + Sync),
    ) -> Result<T, Fault> {
        let (mut lease, client) = self.lease(deadline).await?;
        let done = timeout_at(deadline, work(Arc::clone(&client))).await;
        let value = match done {
            Ok(Ok(Done::Written(value))) => value,
            Ok(Ok(Done::Nothing(value))) => {
                lease.roll_back(&client, deadline).await;
                return Ok(value);
            }
            Ok(Err(fault)) => {
                lease.roll_back(&client, deadline).await;
                return Err(fault);
            }
            // The commit was not asked for, so it never happens.
            Err(_) => return Err(too_long().into()),
        };
        let mark = self.mark(name);
        match timeout_at(deadline, commit(&client, &mark)).await {
            Ok(Ok(())) => {
                lease.clean = true;
                Ok(value)
            }
            Ok(Err(error)) if !fault::is_lost(&error) => {
                lease.roll_back(&client, deadline).await;
                Err(error.into())
            }
            in_doubt => {
                drop((client, lease));
                match (self.has_committed(&mark).await?, in_doubt) {
                    (true, _) => Ok(value),
                    (false, Ok(Err(error))) => Err(error.into()),
                    (false, _) => Err(too_long().into()),
                }
            }
        }
    }

    /// Whether a transaction whose connection was lost has committed. If not, it never will.
    async fn has_committed(&self, mark: &str) -> Result<bool, StoreError> {
        let deadline = Instant::now() + self.options.outcome_timeout;
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.ask_about(mark).await {
                Ok(committed) => return Ok(committed),
                Err(error) if error.is_transient() && Instant::now() < deadline => {
                    sleep(backoff(attempt.min(6))).await;
                }
                Err(error) => {
                    tracing::error!(
                        mark, %error,
                        "a connection was lost in the middle of a commit, and it cannot be found \
                         out whether it happened"
                    );
                    return Err(StoreError::InDoubt(
                        "the server is gone, and with it the answer to a commit".to_owned(),
                    ));
                }
            }
        }
    }

    async fn ask_about(&self, mark: &str) -> Result<bool, StoreError> {
        let void = "INSERT INTO commits (id, void) VALUES ($1, true) ON CONFLICT (id) DO NOTHING";
        self.rows(void, &[&mark]).await?;
        let asked = "SELECT void FROM commits WHERE id = $1";
        let rows = self.rows(asked, &[&mark]).await?;
        Ok(rows.first().is_some_and(|row| !row.get::<_, bool>(0)))
    }

    /// A name for a transaction that no other has.
    fn mark(&self, name: &str) -> String {
        let call = self.calls.fetch_add(1, Ordering::Relaxed);
        let shown: String = name.chars().filter(|c| !c.is_control()).take(64).collect();
        format!("{shown}/{:016x}-{call:x}", self.tag)
    }

    async fn lease(&self, deadline: Instant) -> Result<(Lease, Arc<Object>), StoreError> {
        let patience = deadline.min(Instant::now() + self.options.acquire_timeout);
        let mut attempt = 0;
        loop {
            attempt += 1;
            match self.pool.get().await {
                Ok(client) => {
                    let client = Arc::new(client);
                    let lease = Lease {
                        client: Some(Arc::clone(&client)),
                        clean: false,
                    };
                    return Ok((lease, client));
                }
                Err(error) => {
                    let waited = matches!(error, deadpool_postgres::PoolError::Timeout(_));
                    let error = fault::no_connection(error);
                    if waited || !error.is_transient() || Instant::now() >= patience {
                        return Err(error);
                    }
                }
            }
            sleep(backoff(attempt)).await;
        }
    }

    fn deadline(&self) -> Instant {
        Instant::now() + self.options.acquire_timeout + self.options.statement_timeout
    }
}

/// A connection in use. Unless it ends clean, it does not go back into the pool but is closed, which
/// ends whatever it was doing.
struct Lease {
    /// The last of its handles to be dropped; there until then.
    client: Option<Arc<Object>>,
    clean: bool,
}

impl Lease {
    async fn roll_back(&mut self, client: &Object, deadline: Instant) {
        if !client.is_closed() {
            let rolled_back = timeout_at(deadline, client.batch_execute("ROLLBACK")).await;
            self.clean = matches!(rolled_back, Ok(Ok(())));
        }
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        let client = self.client.take().and_then(Arc::into_inner);
        if let (Some(client), false) = (client, self.clean) {
            drop(Object::take(client));
        }
    }
}

async fn commit(client: &Object, mark: &str) -> Result<(), tokio_postgres::Error> {
    let insert = "INSERT INTO commits (id, void) VALUES ($1, false)";
    let statement = prepare(client, insert).await?;
    let params: [&(dyn ToSql + Sync); 1] = [&mark];
    let (marked, committed) = tokio::join!(
        biased;
        client.execute(&statement, &params),
        client.batch_execute("COMMIT")
    );
    marked?;
    committed
}

/// How long to wait before attempt number `attempt + 1`: doubling, half of it random.
pub(super) fn backoff(attempt: u32) -> Duration {
    let most = 20_u64.saturating_mul(1 << attempt.min(7));
    Duration::from_millis(most / 2 + random() % (most / 2))
}

/// Sixty-four random bits, good enough for names and jitter.
fn random() -> u64 {
    RandomState::new().hash_one(0_u8)
}

fn too_long() -> StoreError {
    StoreError::Unavailable("PostgreSQL did not answer in time".to_owned())
}
