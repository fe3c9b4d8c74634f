//! Checkpoint policy of the write-ahead log (WAL): when it is checkpointed, and by which thread.
//!
//! Checkpoints run on their own thread, so that no caller waits for them. But SQLite restarts the WAL from its
//! beginning only when all of it is checkpointed, and under constant load the background thread does not catch
//! up completely. So when the WAL is long and nearly checkpointed, the writer checkpoints the remainder itself.

use super::checkpointer::{CheckpointResult, Checkpointer};
use super::group_commit::REJECTION_LOG_INTERVAL;
use crate::sqlite::disk_failure::DiskHealth;
use crate::sqlite::error::SqliteError;
use interzone_hub::LogThrottle;
use interzone_hub::ports::StoreError;
use rusqlite::Connection;
use rusqlite::config::DbConfig;
use std::time::{Duration, Instant};

#[cfg(test)]
mod tests;

/// Changes between two checks of the WAL's length. One change touches two or three pages,
/// many together fewer.
const CHANGES_BETWEEN_CHECKS: u64 = 200;
/// Uncheckpointed pages after which a background checkpoint is requested. Also the shortest WAL that is restarted
/// under load.
const SHORT_WAL_PAGES: i64 = 1_000;
/// WAL length in pages after which it should restart (16 MiB), in a database that is at least as long: no
/// WAL is much longer than its database. Each restart costs the waiting callers a short checkpoint, and
/// each page that extends the file beyond its previous length costs the disk more than one that does not.
const LONG_WAL_PAGES: i64 = 4_000;
/// WAL length in pages after which the writer waits for readers, so that it can restart (64 MiB). They end
/// soon, and new ones do not need the WAL.
const TOO_LONG_WAL_PAGES: i64 = 16_000;
/// Maximum wait for readers then. A backup reads for longer, so the next wait comes [`LONG_WAL_PAGES`] later.
const READER_WAIT_TIMEOUT: Duration = Duration::from_millis(200);
/// Pages that the writer checkpoints itself while callers wait: about what a group writes.
const MAX_WRITER_CHECKPOINT_PAGES: i64 = 128;
/// Pages after which the writer tries again, if a reader prevented the restart.
const CHECKPOINT_RETRY_PAGES: i64 = 256;

/// Checkpoint policy of the writer.
pub(super) struct CheckpointPolicy {
    checkpointer: Checkpointer,
    disk: DiskHealth,
    /// Changes since the last check of the WAL's length.
    changes_since_check: u64,
    /// True if the WAL may have pages that are not in the database yet.
    has_uncheckpointed: bool,
    /// Error of the last failed checkpoint. Until a checkpoint succeeds, writes are rejected: a WAL that takes all the disk
    /// space would leave none for the checkpoint, and never get shorter.
    block_reason: Option<StoreError>,
    /// Counts failed checkpoints, for the log.
    failed_checkpoints: LogThrottle,
    /// True once the disk has failed. Pages that count as checkpointed may not be on it: SQLite would not checkpoint
    /// them again, and discard the WAL. So checkpoints stop; the next start checkpoints everything.
    disk_failed: bool,
    /// Maximum WAL length in pages, lowered once the disk was found to be full: later WALs stay
    /// shorter, so that space is left for the database.
    max_wal_pages: i64,
    /// WAL length at which the writer next checkpoints a remainder itself.
    next_writer_checkpoint: i64,
    /// WAL length at which the writer next waits for readers.
    next_restart: i64,
}

/// Lengths in pages.
struct WalLengths {
    wal: i64,
    checkpointed: i64,
    database: i64,
}

impl CheckpointPolicy {
    pub(super) fn new(copier: Checkpointer, disk: DiskHealth) -> Self {
        Self {
            checkpointer: copier,
            disk,
            changes_since_check: 0,
            has_uncheckpointed: true,
            block_reason: None,
            failed_checkpoints: LogThrottle::new(REJECTION_LOG_INTERVAL),
            disk_failed: false,
            max_wal_pages: i64::MAX,
            next_writer_checkpoint: 0,
            next_restart: TOO_LONG_WAL_PAGES,
        }
    }

    /// Records that so many changes were written.
    pub(super) fn record_growth(&mut self, changes: u64) {
        self.changes_since_check += changes;
    }

    pub(super) fn is_checkpointed(&self) -> bool {
        !self.has_uncheckpointed
    }

    /// Returns why writes are rejected, if they are. Retries a failed checkpoint first.
    pub(super) fn check_blocked(&mut self, connection: &Connection) -> Option<&StoreError> {
        if self.block_reason.is_some() {
            self.checkpoint(connection);
        }
        self.block_reason.as_ref()
    }

    /// Checks the WAL length after a group, every few changes, and checkpoints the WAL when it is long.
    pub(super) fn maybe_checkpoint(&mut self, connection: &Connection) {
        self.has_uncheckpointed = true;
        let result = self.checkpointer.poll();
        let has_result = result.is_some();
        self.on_result(result, connection);
        // A failed checkpoint is retried before the next write.
        if self.block_reason.is_some()
            || (self.changes_since_check < CHANGES_BETWEEN_CHECKS && !has_result)
        {
            return;
        }
        self.changes_since_check = 0;
        match read_wal_lengths(connection) {
            Ok(lengths) => self.limit_wal_length(connection, &lengths),
            Err(error) => tracing::warn!(%error, "cannot read WAL length"),
        }
    }

    fn limit_wal_length(&mut self, connection: &Connection, lengths: &WalLengths) {
        let WalLengths {
            wal, checkpointed, ..
        } = *lengths;
        let limit = lengths.database.clamp(SHORT_WAL_PAGES, LONG_WAL_PAGES);
        let (excess, remaining) = (wal - limit, wal - checkpointed);
        if excess < 0 {
            (self.next_writer_checkpoint, self.next_restart) = (0, TOO_LONG_WAL_PAGES);
        }
        if wal >= self.next_restart {
            self.next_restart = wal + LONG_WAL_PAGES;
            self.checkpoint_restart(connection);
        } else if wal >= self.max_wal_pages {
            self.checkpoint(connection);
        } else if excess < 0 {
            if remaining >= SHORT_WAL_PAGES {
                self.request_checkpoint(connection);
            }
        } else if self.checkpointer.is_running() || remaining == 0 {
            // The running checkpoint will leave less to do, or there is nothing to do.
        } else if wal >= self.next_writer_checkpoint
            && remaining <= MAX_WRITER_CHECKPOINT_PAGES.max(excess / 4)
        {
            // Where the checkpointer cannot keep up, the writer takes over more and more.
            self.next_writer_checkpoint = wal + CHECKPOINT_RETRY_PAGES;
            self.checkpoint(connection);
        } else if remaining > MAX_WRITER_CHECKPOINT_PAGES {
            self.request_checkpoint(connection);
        }
    }

    /// Requests a background checkpoint, or runs it here if the checkpointer thread is gone.
    fn request_checkpoint(&mut self, connection: &Connection) {
        if !self.checkpointer.request() {
            self.checkpoint(connection);
        }
    }

    /// Checkpoints everything, while no caller writes.
    pub(super) fn checkpoint_idle(&mut self, connection: &Connection) {
        self.checkpoint(connection);
        self.has_uncheckpointed = false;
    }

    /// Lowers the maximum WAL length after a failed write and checkpoints: a checkpointed WAL can
    /// be overwritten, which needs no more space.
    pub(super) fn free_space(&mut self, connection: &Connection) {
        if let Ok(lengths) = read_wal_lengths(connection) {
            self.max_wal_pages = self.max_wal_pages.min((lengths.wal * 3 / 4).max(1));
        }
        self.checkpoint(connection);
    }

    fn checkpoint(&mut self, connection: &Connection) {
        self.run_checkpoint(connection, "PRAGMA wal_checkpoint(PASSIVE)");
    }

    /// Checkpoints everything and waits a short while for readers, so that the WAL can restart.
    fn checkpoint_restart(&mut self, connection: &Connection) {
        let previous =
            connection.pragma_query_value(None, "busy_timeout", |row| row.get::<_, u32>(0));
        let Ok(usual) = previous.map(|millis| Duration::from_millis(millis.into())) else {
            return self.checkpoint(connection);
        };
        let timeout_set = connection.busy_timeout(READER_WAIT_TIMEOUT);
        self.run_checkpoint(connection, "PRAGMA wal_checkpoint(RESTART)");
        if let Err(error) = timeout_set.and_then(|()| connection.busy_timeout(usual)) {
            tracing::warn!(%error, "failed to set busy timeout");
        }
    }

    /// Runs a checkpoint on this thread, after a running background checkpoint.
    fn run_checkpoint(&mut self, connection: &Connection, sql: &str) {
        let result = self.checkpointer.wait();
        self.on_result(result, connection);
        if self.disk_failed {
            return;
        }
        let result = connection
            .prepare_cached(sql)
            .and_then(|mut copy| copy.query_row([], |_| Ok(())));
        match result {
            Ok(()) => self.block_reason = None,
            // Some pages may be checkpointed and not synced, and SQLite does not know which.
            Err(error) if self.disk.is_disk_failure(&error, connection) => {
                self.mark_disk_failed(&format!("WAL checkpoint failed: {error}"));
            }
            Err(error) => self.block_reason = Some(SqliteError::from(error).into()),
        }
        self.log_blocked();
    }

    /// Records a write error: after a disk failure nothing more is written or checkpointed.
    pub(super) fn record_error(&mut self, error: &SqliteError, connection: &Connection) {
        if let SqliteError::Engine(error) = error
            && self.disk.is_disk_failure(error, connection)
        {
            self.mark_disk_failed(&format!(
                "the WAL or the database could not be written: {error}"
            ));
        }
    }

    fn mark_disk_failed(&mut self, reason: &str) {
        self.disk_failed = true;
        let advice = "the disk failed: restart the process";
        self.block_reason = Some(StoreError::Unavailable(advice.to_owned()));
        self.disk.fail(reason);
    }

    fn on_result(&mut self, result: Option<CheckpointResult>, connection: &Connection) {
        match result {
            None | Some(CheckpointResult::Synced) => return,
            Some(CheckpointResult::Failed(error))
                if self.disk.is_disk_failure(&error, connection) =>
            {
                self.mark_disk_failed(&format!("WAL checkpoint failed: {error}"));
            }
            Some(CheckpointResult::Failed(error)) => {
                self.block_reason = Some(SqliteError::from(error).into())
            }
            Some(CheckpointResult::SyncFailed(error)) => {
                self.mark_disk_failed(&format!("the database could not be synced: {error}"));
            }
        }
        self.log_blocked();
    }

    fn log_blocked(&mut self) {
        if let Some(error) = &self.block_reason
            && let Some(attempts) = self.failed_checkpoints.record(1, Instant::now())
        {
            tracing::warn!(%error, attempts, "WAL checkpoint failed");
        }
    }

    /// Stops the checkpointer. Returns true if the WAL may be truncated.
    pub(super) fn stop_checkpointer(&mut self, connection: &Connection) -> bool {
        let result = self.checkpointer.wait();
        self.on_result(result, connection);
        self.checkpointer.stop();
        !self.disk_failed
    }

    /// Keeps the WAL as it is when the connection is closed.
    pub(super) fn keep_wal_on_close(&self, connection: &Connection) {
        let option = DbConfig::SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE;
        if let Err(error) = connection.set_db_config(option, true) {
            tracing::error!(%error, "failed to disable checkpoint on close");
        }
    }
}

fn read_wal_lengths(connection: &Connection) -> rusqlite::Result<WalLengths> {
    let mut statement = connection.prepare_cached("PRAGMA wal_checkpoint(NOOP)")?;
    let (wal, checkpointed) = statement.query_row([], |row| Ok((row.get(1)?, row.get(2)?)))?;
    let mut pages = connection.prepare_cached("PRAGMA page_count")?;
    Ok(WalLengths {
        wal,
        checkpointed,
        database: pages.query_row([], |row| row.get(0))?,
    })
}
