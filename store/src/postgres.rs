//! PostgreSQL: any number of nodes.
//!
//! `connect` opens connections, `schema` makes the tables, `session` reads and writes so that a lost
//! connection costs neither a write nor a double one, `pipeline` saves trips, `commit` and `ops` write
//! what the hub decided, `notify` wakes the other nodes; the rest fills one port each. No statement is
//! built from what a caller sent.

mod backup;
mod commit;
mod connect;
mod fault;
mod moments;
mod notify;
mod ops;
mod options;
mod outbox;
mod pairs;
mod pipeline;
mod quota;
mod records;
mod schema;
mod session;
mod talks;
mod tasks;
mod text;
mod topics;
mod turns;
mod upkeep;
mod work;

pub use backup::backup;
pub use connect::PLANNER;
pub use moments::PostgresClock;
pub use options::PostgresOptions;

use connect::Connector;
use interzone_hub::ports::StoreError;
use notify::Wakes;
use options::Target;
use pipeline::begin_with;
use session::{Done, Session};
use std::fmt;
use tokio::time::timeout;
use tokio_postgres::Client;
use tokio_postgres::types::ToSql;
use turns::TakenTurns;

/// The hub's ports on PostgreSQL 15 or newer, shared by any number of nodes.
///
/// Its connections, and the one that listens for wakes, end when it is dropped. Wakes are hints
/// and may be lost with a connection: whoever waits for one looks by itself now and then.
///
/// An error means that nothing was written. The only exception that a network allows: the
/// connection is lost in the middle of a commit and the server stays away for longer than
/// [`PostgresOptions::outcome_timeout`]; that is logged as an error.
///
/// A pooler between us and the server must keep a session whole: `LISTEN` and prepared statements
/// are used.
pub struct PostgresStore {
    session: Session,
    wakes: Wakes,
    clock: PostgresClock,
    turns: TakenTurns,
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PostgresStore").finish_non_exhaustive()
    }
}

/// One connection to a server that can be used.
async fn first_look(
    url: &str,
    options: &PostgresOptions,
) -> Result<(Connector, Client, connect::AbortUnlessKept), StoreError> {
    let target = Target::new(url, options)?;
    let connector = Connector::new(&target, options)?;
    let opened = timeout(options.acquire_timeout, connector.open(None));
    let (client, driver) = opened
        .await
        .map_err(|_| StoreError::Unavailable("PostgreSQL did not answer in time".to_owned()))?
        .map_err(|error| fault::cannot_connect(&error))?;
    let driver = connect::AbortUnlessKept(Some(driver));
    connector.inspect(&client).await?;
    Ok((connector, client, driver))
}

impl PostgresStore {
    /// Connects to a server, and brings its tables to this version. Any number of nodes may do so at
    /// once.
    ///
    /// # Errors
    /// The URL or the server cannot be used, or it cannot be reached now.
    pub async fn connect(url: &str, options: PostgresOptions) -> Result<Self, StoreError> {
        let (connector, client, driver) = first_look(url, &options).await?;
        schema::migrate(&client, &options.schema).await?;
        drop((client, driver));
        let (schema, clock) = (options.schema.clone(), options.clock);
        let session = Session::new(&connector, options)?;
        let wakes = Wakes::start(connector, &schema, session.tag());
        Ok(Self {
            session,
            wakes,
            clock,
            turns: TakenTurns::default(),
        })
    }

    /// Whether a server has the tables of this version. Nothing is changed: older ones stay, for the nodes that
    /// use them.
    ///
    /// # Errors
    /// As [`PostgresStore::connect`].
    pub async fn is_current(url: &str, options: PostgresOptions) -> Result<bool, StoreError> {
        let (_, client, _driver) = first_look(url, &options).await?;
        schema::is_current(&client, &options.schema).await
    }

    /// Ends all connections; calls that are under way fail.
    pub fn close(&self) {
        self.wakes.stop();
        self.session.close();
    }

    /// Writes by one statement that answers a row for what it found; tells whether it found any.
    async fn write_if_found(
        &self,
        name: &str,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<bool, StoreError> {
        self.session
            .transact(name, |client| {
                Box::pin(async move {
                    let rows = begin_with(&client, sql, params).await?;
                    Ok(if rows.is_empty() {
                        Done::Nothing(false)
                    } else {
                        Done::Written(true)
                    })
                })
            })
            .await
    }

    /// Reads one row of two counts.
    async fn two_counts(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<(u64, u64), StoreError> {
        let rows = self.session.rows(sql, params).await?;
        let Some(row) = rows.first() else {
            return Ok((0, 0));
        };
        let number = |place| crate::codec::count("a count", row.get(place));
        Ok((number(0)?, number(1)?))
    }
}
