//! What keeps the store in order.

use super::SqliteStore;
use super::fault::Outcome;
use super::rows::first;
use super::{outbox, purge, work};
use async_trait::async_trait;
use interzone_hub::ports::{StoreError, Upkeep, Wake};
use interzone_hub::{Purged, Retention};
use interzone_protocol::vocab::Timestamp;
use rusqlite::Connection;
use tokio::sync::broadcast;

/// Free pages that are given back at a time (4 MiB).
const PAGES: usize = 1024;

#[async_trait]
impl Upkeep for SqliteStore {
    fn leases_end(&self) -> bool {
        // The lock beside the file is the lease on all of it.
        false
    }

    async fn take_over(&self, _now: Timestamp) -> Result<(), StoreError> {
        // The lock beside the file is ours, so whoever held something is gone.
        self.write(move |session| {
            work::let_go(session)?;
            outbox::let_go(session)
        })
        .await
    }

    async fn purge(
        &self,
        retention: &Retention,
        now: Timestamp,
        limit: usize,
    ) -> Result<Purged, StoreError> {
        let retention = *retention;
        self.write(move |session| purge::purge(session, &retention, now, limit))
            .await
    }

    async fn tidy_up(&self) -> Result<(), StoreError> {
        self.writer
            .outside(|session| {
                let connection = session.connection;
                // No `PRAGMA optimize`: every statement has its plan without statistics, and those of a young
                // database mislead the planner for as long as they stay.
                drain(connection, &format!("PRAGMA incremental_vacuum({PAGES})"))
            })
            .await
    }

    async fn check(&self) -> Result<(), StoreError> {
        let written = self
            .write(|session| {
                let sql = "UPDATE meta SET value = value + 1 WHERE name = 'probe' RETURNING value";
                session.first(sql, [], |row| Ok(row.get::<_, i64>(0)?))
            })
            .await?;
        let read = self
            .read(|connection| {
                let sql = "SELECT value FROM meta WHERE name = 'probe'";
                first(connection, sql, [], |row| Ok(row.get::<_, i64>(0)?))
            })
            .await?;
        if written.is_some() && read >= written {
            Ok(())
        } else {
            Err(StoreError::Corrupt(
                "what was written is not read".to_owned(),
            ))
        }
    }

    fn wakes(&self) -> broadcast::Receiver<Wake> {
        self.wakes.subscribe()
    }
}

/// Runs a statement to its end, whatever it answers: some stop halfway if nobody reads on.
fn drain(connection: &Connection, sql: &str) -> Outcome<()> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}
