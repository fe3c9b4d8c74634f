//! PostgreSQL store, for any number of nodes.
//!
//! `connect` opens connections, `schema` migrates the tables, `tx_runner` runs transactions so that a lost
//! connection neither loses nor repeats a write, `pipeline` saves round trips, `commit` and `ops` write
//! commits, `notify` sends change hints to the other nodes (LISTEN/NOTIFY); the other modules implement one
//! port each. No statement is built from caller input.

mod backup;
mod clock;
mod commit;
mod connect;
mod conversations;
mod error;
mod fair_turns;
mod maintenance;
mod notify;
mod ops;
mod options;
mod outbox;
mod pipeline;
mod quota;
mod records;
mod request_log;
mod schema;
mod tasks;
mod text_encoding;
mod topics;
mod tx_runner;
mod work_queue;

pub use backup::backup;
pub use clock::PostgresClock;
pub use connect::PLANNER_SETTINGS;
pub use options::PostgresOptions;

use connect::Connector;
use fair_turns::ClaimedTurns;
use interzone_hub::ports::StoreError;
use notify::ChangeNotifier;
use options::ConnectTarget;
use pipeline::begin_and_query;
use std::fmt;
use tokio::time::timeout;
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;
use tx_runner::{TxOutcome, TxRunner};

/// The hub's ports on PostgreSQL 15 or newer, shared by any number of nodes.
///
/// Its connections, including the one that listens for change hints, end when it is dropped. Hints may be
/// lost with a connection: every waiter also polls now and then.
///
/// An error means that nothing was written, with one exception: the connection is lost in the middle of
/// a commit and the server stays unreachable for longer than [`PostgresOptions::outcome_timeout`], so the
/// transaction stays in doubt; that is logged as an error.
///
/// A connection pooler in between must use session pooling: `LISTEN` and prepared statements are used.
pub struct PostgresStore {
    tx_runner: TxRunner,
    change_notifier: ChangeNotifier,
    clock: PostgresClock,
    turns: ClaimedTurns,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").finish_non_exhaustive()
    }
}

/// Opens one connection and checks that the server can be used.
async fn probe_server(
    url: &str,
    options: &PostgresOptions,
) -> Result<(Connector, Client, connect::AbortOnDrop), StoreError> {
    let target = ConnectTarget::new(url, options)?;
    let connector = Connector::new(&target, options)?;
    let opened = timeout(options.acquire_timeout, connector.open(None));
    let (client, driver) = opened
        .await
        .map_err(|_| StoreError::Unavailable("PostgreSQL did not answer in time".to_owned()))?
        .map_err(|error| error::connect_error(&error))?;
    let driver = connect::AbortOnDrop(Some(driver));
    connector.check_server(&client).await?;
    Ok((connector, client, driver))
}

impl PostgresStore {
    /// Connects to a server and migrates its tables to this version. Any number of nodes may do so at
    /// once.
    ///
    /// # Errors
    /// The URL or the server cannot be used, or the server cannot be reached.
    pub async fn connect(url: &str, options: PostgresOptions) -> Result<Self, StoreError> {
        let (connector, client, driver) = probe_server(url, &options).await?;
        schema::migrate(&client, &options.schema).await?;
        drop((client, driver));
        let (schema, clock) = (options.schema.clone(), options.clock);
        let session = TxRunner::new(&connector, options)?;
        let change_notifier = ChangeNotifier::start(connector, &schema, session.instance_id());
        Ok(Self {
            tx_runner: session,
            change_notifier,
            clock,
            turns: ClaimedTurns::default(),
        })
    }

    /// Returns true if the server has the tables of this version. Changes nothing: older tables stay, for the
    /// nodes that use them.
    ///
    /// # Errors
    /// As [`PostgresStore::connect`].
    pub async fn is_current(url: &str, options: PostgresOptions) -> Result<bool, StoreError> {
        let (_, client, _driver) = probe_server(url, &options).await?;
        schema::is_current(&client, &options.schema).await
    }

    /// Closes all connections; calls in progress fail.
    pub fn close(&self) {
        self.change_notifier.stop();
        self.tx_runner.close();
    }

    /// Runs one writing statement that returns a row per match; returns true if there was any.
    async fn write_if_found(
        &self,
        name: &str,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<bool, StoreError> {
        self.tx_runner
            .transact(name, |client| {
                Box::pin(async move {
                    let rows = begin_and_query(&client, sql, params).await?;
                    Ok(if rows.is_empty() {
                        TxOutcome::ReadOnly(false)
                    } else {
                        TxOutcome::Written(true)
                    })
                })
            })
            .await
    }

    /// Reads one row of two counts.
    async fn read_two_counts(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<(u64, u64), StoreError> {
        let rows = self.tx_runner.query(sql, params).await?;
        let Some(row) = rows.first() else {
            return Ok((0, 0));
        };
        let number = |column| crate::codec::int_from_column("a count", row.get(column));
        Ok((number(0)?, number(1)?))
    }
}
