//! Retention, health and wakes.

use super::PostgresStore;
use super::moments::now_or_server;
use super::ops::REMOVE_DELIVERIES;
use super::pipeline::{ask, begin_with};
use super::session::Done;
use super::work::limit;
use crate::codec::moment;
use async_trait::async_trait;
use deadpool_postgres::Object;
use interzone_hub::ports::{StoreError, Upkeep, Wake};
use interzone_hub::{Purged, Retention};
use interzone_protocol::vocab::Timestamp;
use tokio::sync::broadcast;
use tokio_postgres::types::ToSql;

type Answer<T> = Result<T, tokio_postgres::Error>;

/// How many rows of `commits` go at once: they are small, and there is one for each transaction.
const COMMITS_AT_ONCE: i64 = 10_000;

/// Whoever lost a connection has asked long before this.
const OLD_COMMITS: &str = "
    DELETE FROM commits WHERE id = ANY (ARRAY(
        SELECT id FROM commits WHERE at < now() - interval '1 hour'
        ORDER BY at LIMIT $1 FOR UPDATE SKIP LOCKED))
    RETURNING true";

/// The present moment by the node's clock or by the server's, whichever is earlier.
const EARLIER: &str = concat!("SELECT least($1::bigint, ", now_or_server!("$2"), ")");

#[async_trait]
impl Upkeep for PostgresStore {
    fn leases_end(&self) -> bool {
        true
    }

    async fn take_over(&self, _now: Timestamp) -> Result<(), StoreError> {
        // Others may be at it: only the end of a lease tells that one of them is gone.
        Ok(())
    }

    async fn purge(
        &self,
        retention: &Retention,
        now: Timestamp,
        most: usize,
    ) -> Result<Purged, StoreError> {
        let (lock, server) = (self.removal_lock(), self.clock().now(now));
        let now = now.as_millis();
        self.session
            .transact("purge", |client| {
                Box::pin(async move {
                    begin_with(&client, "SELECT pg_advisory_xact_lock($1)", &[&lock]).await?;
                    // A node whose clock is ahead must not remove what is still to be kept.
                    let rows = ask(&client, EARLIER, &[&now, &server]).await?;
                    let now = rows.first().map_or(now, |row| row.get(0));
                    let purge = Purge {
                        client: &client,
                        retention,
                        now: moment(now),
                    };
                    let purged = purge.all(limit(most)).await?;
                    let forgotten = ask(&client, OLD_COMMITS, &[&COMMITS_AT_ONCE]).await?;
                    Ok(if purged.total() == 0 && forgotten.is_empty() {
                        Done::Nothing(purged)
                    } else {
                        Done::Written(purged)
                    })
                })
            })
            .await
    }

    /// The server does this by itself (autovacuum), more often for the tables that need it; what is
    /// left is our own table of commits.
    async fn tidy_up(&self) -> Result<(), StoreError> {
        for _ in 0..10 {
            let gone = self.session.rows(OLD_COMMITS, &[&COMMITS_AT_ONCE]).await?;
            if limit(gone.len()) < COMMITS_AT_ONCE {
                break;
            }
        }
        Ok(())
    }

    async fn check(&self) -> Result<(), StoreError> {
        let sql = "INSERT INTO checks DEFAULT VALUES
                   ON CONFLICT (one) DO UPDATE SET at = excluded.at";
        self.session.rows(sql, &[]).await?;
        let rows = self.session.rows("SELECT number FROM epoch", &[]).await?;
        if rows.len() == 1 {
            Ok(())
        } else {
            Err(StoreError::Corrupt("the epoch is not there".to_owned()))
        }
    }

    fn wakes(&self) -> broadcast::Receiver<Wake> {
        self.wakes.subscribe()
    }
}

/// What is finished and has subjects of its own.
struct Kind {
    /// Finds those whose log is to go.
    with_log: &'static str,
    /// Notes that it has gone.
    log_gone: &'static str,
    /// Finds those that are to go themselves.
    without_log: &'static str,
    /// Removes what hangs on them, and them.
    remove: &'static [&'static str],
    /// What stands before an id in the key of a subject.
    prefix: &'static str,
}

const TASKS: Kind = Kind {
    with_log: "SELECT id FROM tasks WHERE finished_at <= $1 AND NOT log_gone
               ORDER BY finished_at LIMIT $2 FOR UPDATE SKIP LOCKED",
    log_gone: "UPDATE tasks SET log_gone = true WHERE id = ANY ($1) AND NOT (SELECT EXISTS (
                   SELECT FROM events WHERE subject = 't/' || tasks.id))",
    without_log: "SELECT id FROM tasks WHERE finished_at <= $1 AND log_gone
                  ORDER BY finished_at LIMIT $2 FOR UPDATE SKIP LOCKED",
    remove: &[
        "DELETE FROM messages WHERE task_id = ANY ($1)",
        "DELETE FROM artifacts WHERE task_id = ANY ($1)",
        "DELETE FROM pushes WHERE task_id = ANY ($1)",
        "DELETE FROM work WHERE task_id = ANY ($1)",
        "DELETE FROM questions WHERE task_id = ANY ($1)",
        "DELETE FROM feedback WHERE task_id = ANY ($1)",
        "DELETE FROM tasks WHERE id = ANY ($1)",
    ],
    prefix: "t/",
};

const STREAMS: Kind = Kind {
    with_log: "SELECT id FROM streams WHERE closed_at <= $1 AND NOT log_gone
               ORDER BY closed_at LIMIT $2 FOR UPDATE SKIP LOCKED",
    log_gone: "UPDATE streams SET log_gone = true WHERE id = ANY ($1) AND NOT (SELECT EXISTS (
                   SELECT FROM events WHERE subject = 's/' || streams.id))",
    without_log: "SELECT id FROM streams WHERE closed_at <= $1 AND log_gone
                  ORDER BY closed_at LIMIT $2 FOR UPDATE SKIP LOCKED",
    remove: &["DELETE FROM streams WHERE id = ANY ($1)"],
    prefix: "s/",
};

// What is removed is named by a list, and what must not be there is asked for by itself: a join could be planned the other
// way round, over the whole of the larger table, while that is small.

/// The oldest events first, so that what is left of a log has no gap.
const EVENTS: &str = "
    DELETE FROM events WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM events WHERE subject = ANY ($1) ORDER BY subject, seq LIMIT $2))
    RETURNING true";

/// What was settled long ago, wherever its table is like the outbox.
const DELIVERED: &str = "
    DELETE FROM outbox WHERE id = ANY (ARRAY(
        SELECT id FROM outbox WHERE state = 'delivered' AND settled_at <= $1
        ORDER BY settled_at LIMIT $2 FOR UPDATE SKIP LOCKED))
    RETURNING true";

const DEAD: &str = "
    DELETE FROM outbox WHERE id = ANY (ARRAY(
        SELECT id FROM outbox WHERE state = 'dead' AND settled_at <= $1
        ORDER BY settled_at LIMIT $2 FOR UPDATE SKIP LOCKED))
    RETURNING true";

const ACKED: &str = "
    DELETE FROM deliveries WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM deliveries WHERE state = 'acked' AND settled_at <= $1
        ORDER BY settled_at LIMIT $2 FOR UPDATE SKIP LOCKED))
    RETURNING signal";

const BURIED: &str = "
    DELETE FROM deliveries WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM deliveries WHERE state = 'dead' AND settled_at <= $1
        ORDER BY settled_at LIMIT $2 FOR UPDATE SKIP LOCKED))
    RETURNING signal";

const UNSENT: &str = "
    DELETE FROM signals WHERE number = ANY ($1) AND NOT (SELECT EXISTS (
        SELECT FROM deliveries WHERE signal = signals.number))
    RETURNING true";

const ENDED: &str = "
    SELECT id FROM subscriptions
    WHERE state IN ('denied', 'revoked', 'expired') AND changed_at <= $1
    ORDER BY changed_at LIMIT $2 FOR UPDATE SKIP LOCKED";

const CLAIMS: &str = "
    DELETE FROM claims WHERE key_hash = ANY (ARRAY(
        SELECT key_hash FROM claims WHERE expires_at <= $1
        ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED))
    RETURNING true";

const RECORDS: &str = "
    DELETE FROM records WHERE ctid = ANY (ARRAY(
        SELECT ctid FROM records WHERE expires_at <= $1
        ORDER BY expires_at LIMIT $2 FOR UPDATE SKIP LOCKED))
    RETURNING true";

const QUOTAS: &str = "
    DELETE FROM quotas WHERE key_hash = ANY (ARRAY(
        SELECT key_hash FROM quotas WHERE full_at <= $1
        ORDER BY full_at LIMIT $2 FOR UPDATE SKIP LOCKED))
    RETURNING true";

const OLD_PAIRS: &str = "
    DELETE FROM pairs WHERE number = ANY (ARRAY(
        SELECT number FROM pairs WHERE at <= $1
        ORDER BY at LIMIT $2 FOR UPDATE SKIP LOCKED))
    RETURNING true";

/// They are numbered, so the oldest of too many are below a number.
const MANY_PAIRS: &str = "
    DELETE FROM pairs WHERE number = ANY (ARRAY(
        SELECT number FROM pairs WHERE number <= (SELECT max(number) FROM pairs) - $1
        ORDER BY number LIMIT $2 FOR UPDATE SKIP LOCKED))
    RETURNING true";

/// Whoever begins to need a blob holds its row until it has said so.
const LOCK_BLOBS: &str = "SELECT FROM blobs WHERE id = ANY ($1) ORDER BY id FOR UPDATE";

const BLOBS: &str = "
    DELETE FROM blobs WHERE id = ANY ($1) AND NOT (SELECT EXISTS (
        SELECT FROM blob_refs WHERE blob_id = blobs.id))
    RETURNING true";

/// One purge.
struct Purge<'a> {
    client: &'a Object,
    retention: &'a Retention,
    now: Timestamp,
}

impl Purge<'_> {
    async fn all(&self, most: i64) -> Answer<Purged> {
        let keep = self.retention;
        let cutoff = |kept| self.now.before(kept).as_millis();
        let mut purged = Purged::default();
        let left = |purged: &Purged| (most - crate::codec::column(purged.total())).max(0);

        let mut blobs = Vec::new();
        for (kind, is_task) in [(TASKS, true), (STREAMS, false)] {
            // A log goes before what it is about, and so in steps as small as wanted.
            let logs = cutoff(keep.events.min(keep.finished));
            purged.events += self.logs(&kind, logs, left(&purged)).await?;
            let finished = cutoff(keep.finished);
            let gone = self
                .finished(&kind, finished, left(&purged), &mut blobs)
                .await?;
            if is_task {
                purged.tasks += gone;
            } else {
                purged.streams += gone;
            }
        }
        purged.blobs += self.unneeded(blobs).await?;
        let (delivered, dead) = (cutoff(keep.delivered), cutoff(keep.dead));
        purged.outbox += self.some(DELIVERED, delivered, left(&purged)).await?;
        purged.outbox += self.some(DEAD, dead, left(&purged)).await?;
        purged.signals += self.deliveries(ACKED, delivered, left(&purged)).await?;
        purged.signals += self.deliveries(BURIED, dead, left(&purged)).await?;
        let ended = cutoff(keep.ended_subscriptions);
        purged.subscriptions += self.subscriptions(ended, left(&purged)).await?;
        let now = self.now.as_millis();
        purged.claims += self.some(CLAIMS, now, left(&purged)).await?;
        purged.claims += self.some(QUOTAS, now, left(&purged)).await?;
        purged.claims += self.some(RECORDS, now, left(&purged)).await?;
        let old = cutoff(keep.pairs);
        purged.pairs += self.some(OLD_PAIRS, old, left(&purged)).await?;
        let most = crate::codec::column(keep.most_pairs);
        purged.pairs += self.some(MANY_PAIRS, most, left(&purged)).await?;
        Ok(purged)
    }

    async fn logs(&self, kind: &Kind, cutoff: i64, most: i64) -> Answer<u64> {
        let ids = self.ids(kind.with_log, cutoff, most).await?;
        if ids.is_empty() {
            return Ok(0);
        }
        let gone = self.ask(EVENTS, &[&kind.subjects(&ids), &most]).await?;
        self.ask(kind.log_gone, &[&ids]).await?;
        Ok(gone)
    }

    /// Removes what is finished, and tells which blobs it needed.
    async fn finished(
        &self,
        kind: &Kind,
        cutoff: i64,
        most: i64,
        blobs: &mut Vec<Vec<u8>>,
    ) -> Answer<u64> {
        let ids = self.ids(kind.without_log, cutoff, most).await?;
        if ids.is_empty() {
            return Ok(0);
        }
        let subjects = kind.subjects(&ids);
        self.ask("DELETE FROM events WHERE subject = ANY ($1)", &[&subjects])
            .await?;
        let sql = "DELETE FROM blob_refs WHERE subject = ANY ($1) RETURNING blob_id";
        let needed = ask(self.client, sql, &[&subjects]).await?;
        blobs.extend(needed.iter().map(|row| row.get::<_, Vec<u8>>(0)));
        for sql in kind.remove {
            self.ask(sql, &[&ids]).await?;
        }
        Ok(ids.len() as u64)
    }

    async fn unneeded(&self, blobs: Vec<Vec<u8>>) -> Answer<u64> {
        if blobs.is_empty() {
            return Ok(0);
        }
        self.ask(LOCK_BLOBS, &[&blobs]).await?;
        self.ask(BLOBS, &[&blobs]).await
    }

    async fn deliveries(&self, sql: &str, cutoff: i64, most: i64) -> Answer<u64> {
        let rows = ask(self.client, sql, &[&cutoff, &most]).await?;
        if rows.is_empty() {
            return Ok(0);
        }
        let signals: Vec<i64> = rows.iter().map(|row| row.get(0)).collect();
        Ok(rows.len() as u64 + self.ask(UNSENT, &[&signals]).await?)
    }

    async fn subscriptions(&self, cutoff: i64, most: i64) -> Answer<u64> {
        let ids = self.ids(ENDED, cutoff, most).await?;
        if ids.is_empty() {
            return Ok(0);
        }
        self.ask(
            "DELETE FROM cursors WHERE subscription_id = ANY ($1)",
            &[&ids],
        )
        .await?;
        self.ask(REMOVE_DELIVERIES, &[&ids]).await?;
        self.ask("DELETE FROM subscriptions WHERE id = ANY ($1)", &[&ids])
            .await?;
        Ok(ids.len() as u64)
    }

    async fn some(&self, sql: &str, cutoff: i64, most: i64) -> Answer<u64> {
        self.ask(sql, &[&cutoff, &most]).await
    }

    async fn ids(&self, sql: &str, cutoff: i64, most: i64) -> Answer<Vec<String>> {
        let rows = ask(self.client, sql, &[&cutoff, &most]).await?;
        Ok(rows.iter().map(|row| row.get(0)).collect())
    }

    async fn ask(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Answer<u64> {
        Ok(ask(self.client, sql, params).await?.len() as u64)
    }
}

impl Kind {
    fn subjects(&self, ids: &[String]) -> Vec<String> {
        ids.iter()
            .map(|id| format!("{}{id}", self.prefix))
            .collect()
    }
}
