//! Maintenance: retention (purge), health check and change subscription.

use super::PostgresStore;
use super::clock::now_or_server;
use super::ops::REMOVE_DELIVERIES;
use super::pipeline::{begin_and_query, query_rows};
use super::tx_runner::TxOutcome;
use super::work_queue::limit_param;
use crate::codec::timestamp_from_column;
use async_trait::async_trait;
use deadpool_postgres::Object;
use interzone_hub::ports::{ChangeHint, Maintenance, StoreError};
use interzone_hub::{Purged, Retention};
use interzone_protocol::vocab::Timestamp;
use tokio::sync::broadcast;
use tokio_postgres::types::ToSql;

type PgResult<T> = Result<T, tokio_postgres::Error>;

/// Rows of `commits` deleted at once: they are small, and there is one per transaction.
const COMMIT_MARKER_BATCH: i64 = 10_000;

/// Deletes old commit markers. In-doubt transactions are resolved long before an hour.
const DELETE_OLD_COMMIT_MARKERS: &str = "
    DELETE FROM commits WHERE id = ANY (ARRAY(
        SELECT id FROM commits WHERE at < now() - interval '1 hour'
        ORDER BY at LIMIT $1 FOR UPDATE SKIP LOCKED))
    RETURNING true";

/// The earlier of the node's and the server's current time.
const EARLIER_NOW: &str = concat!("SELECT least($1::bigint, ", now_or_server!("$2"), ")");

#[async_trait]
impl Maintenance for PostgresStore {
    fn leases_expire(&self) -> bool {
        true
    }

    async fn release_stale_claims(&self, _now: Timestamp) -> Result<(), StoreError> {
        // Other nodes may be alive: only an expired lease shows that one is gone.
        Ok(())
    }

    async fn purge(
        &self,
        retention: &Retention,
        now: Timestamp,
        most: usize,
    ) -> Result<Purged, StoreError> {
        let (lock, server_now) = (
            self.delivery_removal_lock_key(),
            self.clock().now_param(now),
        );
        let now = now.as_millis();
        self.tx_runner
            .transact("purge", |client| {
                Box::pin(async move {
                    begin_and_query(&client, "SELECT pg_advisory_xact_lock($1)", &[&lock]).await?;
                    // A node whose clock is ahead must not remove rows too early.
                    let rows = query_rows(&client, EARLIER_NOW, &[&now, &server_now]).await?;
                    let now = rows.first().map_or(now, |row| row.get(0));
                    let purge = PurgeRun {
                        client: &client,
                        retention,
                        now: timestamp_from_column(now),
                    };
                    let purged = purge.run(limit_param(most)).await?;
                    let old_markers =
                        query_rows(&client, DELETE_OLD_COMMIT_MARKERS, &[&COMMIT_MARKER_BATCH])
                            .await?;
                    Ok(if purged.total() == 0 && old_markers.is_empty() {
                        TxOutcome::ReadOnly(purged)
                    } else {
                        TxOutcome::Written(purged)
                    })
                })
            })
            .await
    }

    /// Autovacuum does this, more often for the tables that need it; only the table of commit markers
    /// is left to do.
    async fn optimize(&self) -> Result<(), StoreError> {
        for _ in 0..10 {
            let deleted = self
                .tx_runner
                .query(DELETE_OLD_COMMIT_MARKERS, &[&COMMIT_MARKER_BATCH])
                .await?;
            if limit_param(deleted.len()) < COMMIT_MARKER_BATCH {
                break;
            }
        }
        Ok(())
    }

    async fn check(&self) -> Result<(), StoreError> {
        let sql = "INSERT INTO health_check DEFAULT VALUES
                   ON CONFLICT (is_only_row) DO UPDATE SET at = excluded.at";
        self.tx_runner.query(sql, &[]).await?;
        let rows = self
            .tx_runner
            .query("SELECT epoch FROM subscription_epoch", &[])
            .await?;
        if rows.len() == 1 {
            Ok(())
        } else {
            Err(StoreError::Corrupt("the epoch row is missing".to_owned()))
        }
    }

    fn subscribe_changes(&self) -> broadcast::Receiver<ChangeHint> {
        self.change_notifier.subscribe()
    }
}

/// SQL of purging one kind of subject: tasks or streams.
struct PurgeStatements {
    /// Finds those whose event log is due for removal.
    select_with_log: &'static str,
    /// Marks the log as removed.
    mark_log_removed: &'static str,
    /// Finds those that are due for removal themselves.
    select_without_log: &'static str,
    /// Removes their dependent rows, then themselves.
    remove: &'static [&'static str],
    /// Prefix of an id in a subject key.
    prefix: &'static str,
}

const PURGE_TASKS: PurgeStatements = PurgeStatements {
    select_with_log: "SELECT id FROM tasks WHERE finished_at <= $1 AND NOT is_log_purged
               ORDER BY finished_at LIMIT $2 FOR UPDATE SKIP LOCKED",
    mark_log_removed:
        "UPDATE tasks SET is_log_purged = true WHERE id = ANY ($1) AND NOT (SELECT EXISTS (
                   SELECT FROM events WHERE subject = 't/' || tasks.id))",
    select_without_log: "SELECT id FROM tasks WHERE finished_at <= $1 AND is_log_purged
                  ORDER BY finished_at LIMIT $2 FOR UPDATE SKIP LOCKED",
    remove: &[
        "DELETE FROM messages WHERE task_id = ANY ($1)",
        "DELETE FROM artifacts WHERE task_id = ANY ($1)",
        "DELETE FROM push_subscriptions WHERE task_id = ANY ($1)",
        "DELETE FROM work_queue WHERE task_id = ANY ($1)",
        "DELETE FROM thread_tasks WHERE task_id = ANY ($1)",
        "DELETE FROM feedback WHERE task_id = ANY ($1)",
        "DELETE FROM tasks WHERE id = ANY ($1)",
    ],
    prefix: "t/",
};

const PURGE_STREAMS: PurgeStatements = PurgeStatements {
    select_with_log: "SELECT id FROM streams WHERE closed_at <= $1 AND NOT is_log_purged
               ORDER BY closed_at LIMIT $2 FOR UPDATE SKIP LOCKED",
    mark_log_removed:
        "UPDATE streams SET is_log_purged = true WHERE id = ANY ($1) AND NOT (SELECT EXISTS (
                   SELECT FROM events WHERE subject = 's/' || streams.id))",
    select_without_log: "SELECT id FROM streams WHERE closed_at <= $1 AND is_log_purged
                  ORDER BY closed_at LIMIT $2 FOR UPDATE SKIP LOCKED",
    remove: &["DELETE FROM streams WHERE id = ANY ($1)"],
    prefix: "s/",
};

// Rows are deleted by a list of keys, and absence is checked by a subquery: a join could be planned the other
// way round, scanning the larger table, while that is small.

/// Deletes the oldest events first, so that the rest of a log has no gap.
const DELETE_EVENTS: &str = "
    DELETE FROM events WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM events WHERE subject = ANY ($1) ORDER BY subject, seq LIMIT $2))
    RETURNING true";

/// Deletes outbox entries delivered before the cutoff.
const DELETE_DELIVERED: &str = "
    DELETE FROM outbox WHERE id = ANY (ARRAY(
        SELECT id FROM outbox WHERE state = 'delivered' AND settled_at <= $1
        ORDER BY settled_at LIMIT $2 FOR UPDATE SKIP LOCKED))
    RETURNING true";

const DELETE_DEAD_LETTERS: &str = "
    DELETE FROM outbox WHERE id = ANY (ARRAY(
        SELECT id FROM outbox WHERE state = 'dead' AND settled_at <= $1
        ORDER BY settled_at LIMIT $2 FOR UPDATE SKIP LOCKED))
    RETURNING true";

const DELETE_ACKED: &str = "
    DELETE FROM deliveries WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM deliveries WHERE state = 'acked' AND settled_at <= $1
        ORDER BY settled_at LIMIT $2 FOR UPDATE SKIP LOCKED))
    RETURNING signal_number";

const DELETE_DEAD_SIGNALS: &str = "
    DELETE FROM deliveries WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM deliveries WHERE state = 'dead' AND settled_at <= $1
        ORDER BY settled_at LIMIT $2 FOR UPDATE SKIP LOCKED))
    RETURNING signal_number";

const DELETE_ORPHAN_SIGNALS: &str = "
    DELETE FROM signals WHERE number = ANY ($1) AND NOT (SELECT EXISTS (
        SELECT FROM deliveries WHERE signal_number = signals.number))
    RETURNING true";

const SELECT_ENDED_SUBSCRIPTIONS: &str = "
    SELECT id FROM subscriptions
    WHERE state IN ('denied', 'revoked', 'expired') AND updated_at <= $1
    ORDER BY updated_at LIMIT $2 FOR UPDATE SKIP LOCKED";

const DELETE_EXPIRED_KEYS: &str = "
    DELETE FROM idempotency_keys WHERE key_hash = ANY (ARRAY(
        SELECT key_hash FROM idempotency_keys WHERE expires_at <= $1
        ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED))
    RETURNING true";

const DELETE_EXPIRED_RECORDS: &str = "
    DELETE FROM records WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM records WHERE expires_at <= $1
        ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED))
    RETURNING true";

const DELETE_FULL_QUOTAS: &str = "
    DELETE FROM quotas WHERE key_hash = ANY (ARRAY(
        SELECT key_hash FROM quotas WHERE full_at <= $1
        ORDER BY full_at LIMIT $2 FOR UPDATE SKIP LOCKED))
    RETURNING true";

const DELETE_OLD_REQUESTS: &str = "
    DELETE FROM requests WHERE number = ANY (ARRAY(
        SELECT number FROM requests WHERE answered_at <= $1
        ORDER BY answered_at LIMIT $2 FOR UPDATE SKIP LOCKED))
    RETURNING true";

/// Deletes the oldest requests above the maximum count: those below a number.
const DELETE_EXCESS_REQUESTS: &str = "
    DELETE FROM requests WHERE number = ANY (ARRAY(
        SELECT number FROM requests WHERE number <= (SELECT max(number) FROM requests) - $1
        ORDER BY number LIMIT $2 FOR UPDATE SKIP LOCKED))
    RETURNING true";

/// Locks blobs; a transaction that adds a reference holds the blob's row until it commits.
const LOCK_BLOBS: &str = "SELECT FROM blobs WHERE id = ANY ($1) ORDER BY id FOR UPDATE";

const DELETE_ORPHAN_BLOBS: &str = "
    DELETE FROM blobs WHERE id = ANY ($1) AND NOT (SELECT EXISTS (
        SELECT FROM blob_refs WHERE blob_id = blobs.id))
    RETURNING true";

/// One purge run.
struct PurgeRun<'a> {
    client: &'a Object,
    retention: &'a Retention,
    now: Timestamp,
}

impl PurgeRun<'_> {
    async fn run(&self, limit: i64) -> PgResult<Purged> {
        let retention = self.retention;
        let cutoff = |age| self.now.minus(age).as_millis();
        let mut purged = Purged::default();
        let remaining =
            |purged: &Purged| (limit - crate::codec::int_to_column(purged.total())).max(0);

        let mut blobs = Vec::new();
        for (kind, is_task) in [(PURGE_TASKS, true), (PURGE_STREAMS, false)] {
            // The event log goes before its subject, so the steps can be as small as the limit.
            let logs = cutoff(retention.events.min(retention.finished));
            purged.events += self.purge_logs(&kind, logs, remaining(&purged)).await?;
            let finished = cutoff(retention.finished);
            let removed = self
                .purge_finished(&kind, finished, remaining(&purged), &mut blobs)
                .await?;
            if is_task {
                purged.tasks += removed;
            } else {
                purged.streams += removed;
            }
        }
        purged.blobs += self.purge_orphan_blobs(blobs).await?;
        let (delivered, dead) = (cutoff(retention.delivered), cutoff(retention.dead));
        purged.outbox += self
            .purge_rows(DELETE_DELIVERED, delivered, remaining(&purged))
            .await?;
        purged.outbox += self
            .purge_rows(DELETE_DEAD_LETTERS, dead, remaining(&purged))
            .await?;
        purged.signals += self
            .purge_deliveries(DELETE_ACKED, delivered, remaining(&purged))
            .await?;
        purged.signals += self
            .purge_deliveries(DELETE_DEAD_SIGNALS, dead, remaining(&purged))
            .await?;
        let ended = cutoff(retention.ended_subscriptions);
        purged.subscriptions += self.purge_subscriptions(ended, remaining(&purged)).await?;
        let now = self.now.as_millis();
        purged.expired += self
            .purge_rows(DELETE_EXPIRED_KEYS, now, remaining(&purged))
            .await?;
        purged.expired += self
            .purge_rows(DELETE_FULL_QUOTAS, now, remaining(&purged))
            .await?;
        purged.expired += self
            .purge_rows(DELETE_EXPIRED_RECORDS, now, remaining(&purged))
            .await?;
        let old = cutoff(retention.requests);
        purged.requests += self
            .purge_rows(DELETE_OLD_REQUESTS, old, remaining(&purged))
            .await?;
        let max_requests = crate::codec::int_to_column(retention.max_requests);
        purged.requests += self
            .purge_rows(DELETE_EXCESS_REQUESTS, max_requests, remaining(&purged))
            .await?;
        Ok(purged)
    }

    async fn purge_logs(&self, kind: &PurgeStatements, cutoff: i64, limit: i64) -> PgResult<u64> {
        let ids = self.select_ids(kind.select_with_log, cutoff, limit).await?;
        if ids.is_empty() {
            return Ok(0);
        }
        let deleted = self
            .execute(DELETE_EVENTS, &[&kind.subject_keys(&ids), &limit])
            .await?;
        self.execute(kind.mark_log_removed, &[&ids]).await?;
        Ok(deleted)
    }

    /// Removes finished subjects and collects the blobs that they referenced.
    async fn purge_finished(
        &self,
        kind: &PurgeStatements,
        cutoff: i64,
        limit: i64,
        blobs: &mut Vec<Vec<u8>>,
    ) -> PgResult<u64> {
        let ids = self
            .select_ids(kind.select_without_log, cutoff, limit)
            .await?;
        if ids.is_empty() {
            return Ok(0);
        }
        let subjects = kind.subject_keys(&ids);
        self.execute("DELETE FROM events WHERE subject = ANY ($1)", &[&subjects])
            .await?;
        let sql = "DELETE FROM blob_refs WHERE subject = ANY ($1) RETURNING blob_id";
        let referenced = query_rows(self.client, sql, &[&subjects]).await?;
        blobs.extend(referenced.iter().map(|row| row.get::<_, Vec<u8>>(0)));
        for sql in kind.remove {
            self.execute(sql, &[&ids]).await?;
        }
        Ok(ids.len() as u64)
    }

    async fn purge_orphan_blobs(&self, blobs: Vec<Vec<u8>>) -> PgResult<u64> {
        if blobs.is_empty() {
            return Ok(0);
        }
        self.execute(LOCK_BLOBS, &[&blobs]).await?;
        self.execute(DELETE_ORPHAN_BLOBS, &[&blobs]).await
    }

    async fn purge_deliveries(&self, sql: &str, cutoff: i64, limit: i64) -> PgResult<u64> {
        let rows = query_rows(self.client, sql, &[&cutoff, &limit]).await?;
        if rows.is_empty() {
            return Ok(0);
        }
        let signals: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        Ok(rows.len() as u64 + self.execute(DELETE_ORPHAN_SIGNALS, &[&signals]).await?)
    }

    async fn purge_subscriptions(&self, cutoff: i64, limit: i64) -> PgResult<u64> {
        let ids = self
            .select_ids(SELECT_ENDED_SUBSCRIPTIONS, cutoff, limit)
            .await?;
        if ids.is_empty() {
            return Ok(0);
        }
        self.execute(
            "DELETE FROM delivery_cursors WHERE subscription_id = ANY ($1)",
            &[&ids],
        )
        .await?;
        self.execute(REMOVE_DELIVERIES, &[&ids]).await?;
        self.execute("DELETE FROM subscriptions WHERE id = ANY ($1)", &[&ids])
            .await?;
        Ok(ids.len() as u64)
    }

    async fn purge_rows(&self, sql: &str, cutoff: i64, limit: i64) -> PgResult<u64> {
        self.execute(sql, &[&cutoff, &limit]).await
    }

    async fn select_ids(&self, sql: &str, cutoff: i64, limit: i64) -> PgResult<Vec<String>> {
        let rows = query_rows(self.client, sql, &[&cutoff, &limit]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    async fn execute(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> PgResult<u64> {
        Ok(query_rows(self.client, sql, params).await?.len() as u64)
    }
}

impl PurgeStatements {
    fn subject_keys(&self, ids: &[String]) -> Vec<String> {
        ids.iter()
            .map(|id| format!("{}{id}", self.prefix))
            .collect()
    }
}
