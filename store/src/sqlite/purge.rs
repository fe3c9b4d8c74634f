//! Retention: removes expired data, a bounded number of rows at a time, each found by an index.

use super::error::SqliteResult;
use super::topics;
use super::write_job::WriteSession;
use super::{blobs, events};
use crate::codec::{int_to_column, parse_id};
use interzone_hub::{Purged, Retention};
use interzone_protocol::vocab::Timestamp;
use rusqlite::{Params, params};

/// Removes at most about `limit` rows.
pub(super) fn purge(
    session: &mut WriteSession<'_>,
    retention: &Retention,
    now: Timestamp,
    limit: usize,
) -> SqliteResult<Purged> {
    let mut purger = Purger {
        session,
        budget: limit,
        purged: Purged::default(),
    };
    let before = |age| now.minus(age).as_millis();
    for kind in [&TASK_TABLES, &STREAM_TABLES] {
        purger.purge_events(kind, before(retention.events))?;
        purger.purge_subjects(kind, before(retention.finished))?;
    }
    purger.purge_outbox("delivered", before(retention.delivered))?;
    purger.purge_outbox("dead", before(retention.dead))?;
    purger.purge_acked(before(retention.delivered))?;
    purger.purge_dead_signals(before(retention.dead))?;
    purger.purge_subscriptions(before(retention.ended_subscriptions))?;
    purger.purge_expired(now.as_millis())?;
    purger.purge_requests(before(retention.requests), retention.max_requests)?;
    Ok(purger.purged)
}

/// SQL of purging one kind of subject: tasks or streams.
struct SubjectTables {
    /// Prefix of the id in the subject key.
    prefix: &'static str,
    /// Selects ended subjects whose events are still there.
    select_with_log: &'static str,
    mark_log_purged: &'static str,
    /// Selects ended subjects.
    select_ended: &'static str,
    /// Deletes the rows of one subject by id; the last statement deletes the subject itself.
    delete_rows: &'static [&'static str],
    counter: fn(&mut Purged) -> &mut u64,
}

const TASK_TABLES: SubjectTables = SubjectTables {
    prefix: "t/",
    select_with_log: "SELECT id FROM tasks INDEXED BY tasks_finished \
        WHERE finished_at IS NOT NULL AND is_log_purged = 0 AND finished_at <= ?1 \
        ORDER BY finished_at LIMIT ?2",
    mark_log_purged: "UPDATE tasks SET is_log_purged = 1 WHERE id = ?1",
    select_ended: "SELECT id FROM tasks INDEXED BY tasks_finished \
        WHERE finished_at IS NOT NULL AND is_log_purged IN (0, 1) AND finished_at <= ?1 LIMIT ?2",
    delete_rows: &[
        "DELETE FROM messages WHERE task_id = ?1",
        "DELETE FROM artifacts INDEXED BY sqlite_autoindex_artifacts_1 WHERE task_id = ?1",
        "DELETE FROM push_subscriptions INDEXED BY sqlite_autoindex_push_subscriptions_1 WHERE task_id = ?1",
        "DELETE FROM thread_tasks WHERE task_id = ?1",
        "DELETE FROM feedback WHERE task_id = ?1",
        "DELETE FROM tasks WHERE id = ?1",
    ],
    counter: |purged| &mut purged.tasks,
};

const STREAM_TABLES: SubjectTables = SubjectTables {
    prefix: "s/",
    select_with_log: "SELECT id FROM streams INDEXED BY streams_closed \
        WHERE closed_at IS NOT NULL AND is_log_purged = 0 AND closed_at <= ?1 \
        ORDER BY closed_at LIMIT ?2",
    mark_log_purged: "UPDATE streams SET is_log_purged = 1 WHERE id = ?1",
    select_ended: "SELECT id FROM streams INDEXED BY streams_closed \
        WHERE closed_at IS NOT NULL AND is_log_purged IN (0, 1) AND closed_at <= ?1 LIMIT ?2",
    delete_rows: &["DELETE FROM streams WHERE id = ?1"],
    counter: |purged| &mut purged.streams,
};

struct Purger<'a, 'b> {
    session: &'a mut WriteSession<'b>,
    budget: usize,
    purged: Purged,
}

impl Purger<'_, '_> {
    /// Removes events of subjects that ended before the cutoff, the oldest of each first.
    fn purge_events(&mut self, kind: &SubjectTables, before: i64) -> SqliteResult<()> {
        for id in self.select_ids(kind.select_with_log, before)? {
            if !self.purge_events_of(&format!("{}{id}", kind.prefix))? {
                return Ok(());
            }
            self.session.run(kind.mark_log_purged, [&id])?;
        }
        Ok(())
    }

    /// Removes events of a subject; returns true if all are removed.
    fn purge_events_of(&mut self, subject: &str) -> SqliteResult<bool> {
        let removed = events::remove(self.session, subject, self.budget)?;
        let is_complete = removed < self.budget;
        self.purged.events += self.consume_budget(removed);
        Ok(is_complete)
    }

    /// Removes subjects that ended before the cutoff, with all their rows.
    fn purge_subjects(&mut self, kind: &SubjectTables, before: i64) -> SqliteResult<()> {
        for id in self.select_ids(kind.select_ended, before)? {
            let subject = format!("{}{id}", kind.prefix);
            if !self.purge_events_of(&subject)? {
                return Ok(());
            }
            self.purge_blobs_of(&subject)?;
            for part in kind.delete_rows {
                self.session.run(part, [&id])?;
            }
            if kind.prefix == TASK_TABLES.prefix {
                self.session.changed_tasks.push(parse_id("task", &id)?);
            }
            *(kind.counter)(&mut self.purged) += 1;
            self.budget = self.budget.saturating_sub(1);
        }
        Ok(())
    }

    /// Removes the blobs that only this subject referenced.
    fn purge_blobs_of(&mut self, subject: &str) -> SqliteResult<()> {
        let sql = "DELETE FROM blob_refs WHERE subject = ?1 RETURNING blob_id";
        let blobs = self
            .session
            .all(sql, [subject], |row| Ok(row.get::<_, Vec<u8>>(0)?))?;
        for blob in blobs {
            self.purged.blobs += blobs::remove(self.session, &blob)?;
        }
        Ok(())
    }

    fn purge_outbox(&mut self, state: &str, before: i64) -> SqliteResult<()> {
        let select = "SELECT number FROM outbox INDEXED BY outbox_settled \
            WHERE settled_at IS NOT NULL AND state = ?1 AND settled_at <= ?2 LIMIT ?3";
        let values = params![state, before, int_to_column(self.budget as u64)];
        let removed =
            self.delete_selected(select, values, "DELETE FROM outbox WHERE number = ?1")?;
        self.purged.outbox += self.consume_budget(removed);
        Ok(())
    }

    fn purge_acked(&mut self, before: i64) -> SqliteResult<()> {
        let sql = "SELECT subscription_id, signal_id FROM acknowledgements INDEXED BY acknowledgements_by_age \
            WHERE at <= ?1 LIMIT ?2";
        let values = params![before, int_to_column(self.budget as u64)];
        let found: Vec<[String; 2]> = self
            .session
            .all(sql, values, |row| Ok([row.get(0)?, row.get(1)?]))?;
        for key in &found {
            let sql = "DELETE FROM acknowledgements WHERE subscription_id = ?1 AND signal_id = ?2";
            self.session.run(sql, key.each_ref())?;
        }
        self.purged.signals += self.consume_budget(found.len());
        Ok(())
    }

    fn purge_dead_signals(&mut self, before: i64) -> SqliteResult<()> {
        let sql = "SELECT subscription_id, seq, signal_number FROM deliveries INDEXED BY deliveries_dead \
            WHERE dead_at IS NOT NULL AND dead_at <= ?1 LIMIT ?2";
        let values = params![before, int_to_column(self.budget as u64)];
        let dead = self.session.all(sql, values, |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, row.get(2)?))
        })?;
        for (id, seq, signal) in &dead {
            let sql = "DELETE FROM deliveries WHERE subscription_id = ?1 AND seq = ?2";
            self.session.run(sql, params![id, seq])?;
            topics::drop_orphan_signal(self.session, *signal)?;
        }
        self.purged.signals += self.consume_budget(dead.len());
        Ok(())
    }

    /// Removes subscriptions that ended or expired before the cutoff.
    fn purge_subscriptions(&mut self, before: i64) -> SqliteResult<()> {
        let ended = "SELECT id FROM subscriptions INDEXED BY subscriptions_ended \
            WHERE ended_at IS NOT NULL AND ended_at <= ?1 LIMIT ?2";
        let expired = "SELECT id FROM subscriptions INDEXED BY subscriptions_expiry \
            WHERE expires_at IS NOT NULL AND expires_at <= ?1 AND ended_at IS NULL LIMIT ?2";
        let mut ids = self.select_ids(ended, before)?;
        ids.extend(self.select_ids(expired, before)?);
        for id in ids {
            if self.budget == 0 {
                return Ok(());
            }
            let removed = topics::drop_deliveries(self.session, &id, self.budget)?;
            self.purged.signals += self.consume_budget(removed);
            if self.budget == 0 {
                return Ok(());
            }
            topics::remove(self.session, &id)?;
            self.purged.subscriptions += self.consume_budget(1);
        }
        Ok(())
    }

    /// Removes expired idempotency keys, quotas and records.
    fn purge_expired(&mut self, now: i64) -> SqliteResult<()> {
        let keys = "DELETE FROM idempotency_keys WHERE key IN (SELECT key FROM idempotency_keys \
            INDEXED BY idempotency_keys_expiry WHERE expires_at <= ?1 LIMIT ?2)";
        let quotas = "DELETE FROM quotas WHERE key IN (SELECT key FROM quotas \
            INDEXED BY quotas_full WHERE full_at <= ?1 LIMIT ?2)";
        for sql in [keys, quotas] {
            let values = params![now, int_to_column(self.budget as u64)];
            let removed = self.session.run(sql, values)?;
            self.purged.expired += self.consume_budget(removed);
        }
        let records = "SELECT number FROM records INDEXED BY records_expiry \
            WHERE expires_at <= ?1 LIMIT ?2";
        let values = params![now, int_to_column(self.budget as u64)];
        let removed =
            self.delete_selected(records, values, "DELETE FROM records WHERE number = ?1")?;
        self.purged.expired += self.consume_budget(removed);
        Ok(())
    }

    /// Removes requests that are too old, and the oldest above the maximum count: their rows are numbered.
    fn purge_requests(&mut self, before: i64, max_requests: u64) -> SqliteResult<()> {
        let too_old = "SELECT number FROM requests INDEXED BY requests_by_age WHERE answered_at <= ?1 LIMIT ?2";
        let too_many = "SELECT number FROM requests WHERE number <= (SELECT max(number) FROM requests) - ?1 \
            ORDER BY number LIMIT ?2";
        for (select, bound) in [(too_old, before), (too_many, int_to_column(max_requests))] {
            let values = params![bound, int_to_column(self.budget as u64)];
            let removed =
                self.delete_selected(select, values, "DELETE FROM requests WHERE number = ?1")?;
            self.purged.requests += self.consume_budget(removed);
        }
        Ok(())
    }

    /// Deletes the rows that a query selects, one by one; returns how many. In one statement no index can be named for
    /// the deleted rows, and a misled planner would scan the table.
    fn delete_selected(
        &self,
        select: &str,
        values: impl Params,
        delete: &str,
    ) -> SqliteResult<usize> {
        let rows: Vec<i64> = self.session.all(select, values, |row| Ok(row.get(0)?))?;
        for row in &rows {
            self.session.run(delete, [row])?;
        }
        Ok(rows.len())
    }

    fn select_ids(&self, sql: &str, before: i64) -> SqliteResult<Vec<String>> {
        let values = params![before, int_to_column(self.budget as u64)];
        self.session.all(sql, values, |row| Ok(row.get(0)?))
    }

    fn consume_budget(&mut self, removed: usize) -> u64 {
        self.budget = self.budget.saturating_sub(removed);
        removed as u64
    }
}
