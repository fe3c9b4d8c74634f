//! Maintenance: stale claims, retention, vacuum and health check.

use super::SqliteStore;
use super::error::SqliteResult;
use super::rows::first;
use super::{outbox, purge, work_queue};
use async_trait::async_trait;
use interzone_hub::ports::{ChangeHint, Maintenance, StoreError};
use interzone_hub::{Purged, Retention};
use interzone_protocol::vocab::Timestamp;
use rusqlite::Connection;
use tokio::sync::broadcast;

/// Free pages returned to the file system per run (4 MiB).
const VACUUM_PAGES: usize = 1024;

#[async_trait]
impl Maintenance for SqliteStore {
    fn leases_expire(&self) -> bool {
        // The lock file is the lease on everything.
        false
    }

    async fn release_stale_claims(&self, _now: Timestamp) -> Result<(), StoreError> {
        // The lock file is ours, so earlier claim holders are gone.
        self.write(move |session| {
            work_queue::release_stale_work(session)?;
            outbox::release_stale_entries(session)
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

    async fn optimize(&self) -> Result<(), StoreError> {
        self.writer
            .write_outside_transaction(|session| {
                let connection = session.connection;
                // No `PRAGMA optimize`: every statement has its plan without statistics, and those of a young
                // database mislead the planner for as long as they exist.
                run_to_end(
                    connection,
                    &format!("PRAGMA incremental_vacuum({VACUUM_PAGES})"),
                )
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
                "health check failed: the value read is older than the value written".to_owned(),
            ))
        }
    }

    fn subscribe_changes(&self) -> broadcast::Receiver<ChangeHint> {
        self.hints.subscribe()
    }
}

/// Runs a statement to its end and ignores its rows: some stop halfway if rows are not read.
fn run_to_end(connection: &Connection, sql: &str) -> SqliteResult<()> {
    let mut statement = connection.prepare(sql)?;
    let mut rows = statement.query([])?;
    while rows.next()?.is_some() {}
    Ok(())
}
