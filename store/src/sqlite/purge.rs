//! Removing what need not be kept any longer, a bounded number of things at a time, each found by an
//! index.

use super::fault::Outcome;
use super::job::Session;
use super::topics;
use super::{blobs, events};
use crate::codec::{column, word};
use interzone_hub::{Purged, Retention};
use interzone_protocol::vocab::Timestamp;
use rusqlite::{Params, params};

/// Removes at most about `limit` things.
pub(super) fn purge(
    session: &mut Session<'_>,
    retention: &Retention,
    now: Timestamp,
    limit: usize,
) -> Outcome<Purged> {
    let mut sweep = Sweep {
        session,
        left: limit,
        purged: Purged::default(),
    };
    let before = |age| now.before(age).as_millis();
    for kind in [&TASKS, &STREAMS] {
        sweep.events(kind, before(retention.events))?;
        sweep.subjects(kind, before(retention.finished))?;
    }
    sweep.outbox(1, before(retention.delivered))?;
    sweep.outbox(2, before(retention.dead))?;
    sweep.acked(before(retention.delivered))?;
    sweep.buried(before(retention.dead))?;
    sweep.subscriptions(before(retention.ended_subscriptions))?;
    sweep.expired(now.as_millis())?;
    sweep.pairs(before(retention.pairs), retention.most_pairs)?;
    Ok(sweep.purged)
}

/// What tasks and streams differ in.
struct Kind {
    /// Before the id in the key of the subject.
    prefix: &'static str,
    /// The ended ones whose events are still there.
    untrimmed: &'static str,
    trim: &'static str,
    /// The ended ones.
    ended: &'static str,
    /// What goes with one, by its id; the last of them is itself.
    parts: &'static [&'static str],
    count: fn(&mut Purged) -> &mut u64,
}

const TASKS: Kind = Kind {
    prefix: "t/",
    untrimmed: "SELECT id FROM tasks INDEXED BY tasks_finished \
        WHERE finished_at IS NOT NULL AND trimmed = 0 AND finished_at <= ?1 \
        ORDER BY finished_at LIMIT ?2",
    trim: "UPDATE tasks SET trimmed = 1 WHERE id = ?1",
    ended: "SELECT id FROM tasks INDEXED BY tasks_finished \
        WHERE finished_at IS NOT NULL AND trimmed IN (0, 1) AND finished_at <= ?1 LIMIT ?2",
    parts: &[
        "DELETE FROM messages WHERE task_id = ?1",
        "DELETE FROM artifacts INDEXED BY sqlite_autoindex_artifacts_1 WHERE task_id = ?1",
        "DELETE FROM pushes INDEXED BY sqlite_autoindex_pushes_1 WHERE task_id = ?1",
        "DELETE FROM questions WHERE task_id = ?1",
        "DELETE FROM feedback WHERE task_id = ?1",
        "DELETE FROM tasks WHERE id = ?1",
    ],
    count: |purged| &mut purged.tasks,
};

const STREAMS: Kind = Kind {
    prefix: "s/",
    untrimmed: "SELECT id FROM streams INDEXED BY streams_closed \
        WHERE closed_at IS NOT NULL AND trimmed = 0 AND closed_at <= ?1 \
        ORDER BY closed_at LIMIT ?2",
    trim: "UPDATE streams SET trimmed = 1 WHERE id = ?1",
    ended: "SELECT id FROM streams INDEXED BY streams_closed \
        WHERE closed_at IS NOT NULL AND trimmed IN (0, 1) AND closed_at <= ?1 LIMIT ?2",
    parts: &["DELETE FROM streams WHERE id = ?1"],
    count: |purged| &mut purged.streams,
};

struct Sweep<'a, 'b> {
    session: &'a mut Session<'b>,
    left: usize,
    purged: Purged,
}

impl Sweep<'_, '_> {
    /// The events of what ended long enough ago, the oldest of each first.
    fn events(&mut self, kind: &Kind, before: i64) -> Outcome<()> {
        for id in self.ids(kind.untrimmed, before)? {
            if !self.events_of(&format!("{}{id}", kind.prefix))? {
                return Ok(());
            }
            self.session.run(kind.trim, [&id])?;
        }
        Ok(())
    }

    /// Removes events of a subject; answers whether all are gone.
    fn events_of(&mut self, subject: &str) -> Outcome<bool> {
        let removed = events::remove(self.session, subject, self.left)?;
        self.purged.events += removed.events;
        let all = removed.rows < self.left;
        let events = usize::try_from(removed.events).unwrap_or(usize::MAX);
        self.left = self.left.saturating_sub(events);
        Ok(all)
    }

    /// What ended long enough ago, with all that hangs on it.
    fn subjects(&mut self, kind: &Kind, before: i64) -> Outcome<()> {
        for id in self.ids(kind.ended, before)? {
            let subject = format!("{}{id}", kind.prefix);
            if !self.events_of(&subject)? {
                return Ok(());
            }
            self.blobs_of(&subject)?;
            for part in kind.parts {
                self.session.run(part, [&id])?;
            }
            if kind.prefix == TASKS.prefix {
                self.session.changed.push(word("task", &id)?);
            }
            *(kind.count)(&mut self.purged) += 1;
            self.left = self.left.saturating_sub(1);
        }
        Ok(())
    }

    /// The blobs that only this subject needed.
    fn blobs_of(&mut self, subject: &str) -> Outcome<()> {
        let sql = "DELETE FROM blob_refs WHERE subject = ?1 RETURNING blob";
        let blobs = self
            .session
            .all(sql, [subject], |row| Ok(row.get::<_, Vec<u8>>(0)?))?;
        for blob in blobs {
            self.purged.blobs += blobs::remove(self.session, &blob)?;
        }
        Ok(())
    }

    fn outbox(&mut self, state: i64, before: i64) -> Outcome<()> {
        let found = "SELECT row FROM outbox INDEXED BY outbox_settled \
            WHERE state > 0 AND state = ?1 AND settled_at <= ?2 LIMIT ?3";
        let values = params![state, before, column(self.left as u64)];
        let removed = self.rows(found, values, "DELETE FROM outbox WHERE row = ?1")?;
        self.purged.outbox += self.spend(removed);
        Ok(())
    }

    fn acked(&mut self, before: i64) -> Outcome<()> {
        let sql = "SELECT subscription_id, signal_id FROM acked INDEXED BY acked_at \
            WHERE at <= ?1 LIMIT ?2";
        let values = params![before, column(self.left as u64)];
        let found: Vec<[String; 2]> = self
            .session
            .all(sql, values, |row| Ok([row.get(0)?, row.get(1)?]))?;
        for key in &found {
            let sql = "DELETE FROM acked WHERE subscription_id = ?1 AND signal_id = ?2";
            self.session.run(sql, key.each_ref())?;
        }
        self.purged.signals += self.spend(found.len());
        Ok(())
    }

    fn buried(&mut self, before: i64) -> Outcome<()> {
        let sql = "SELECT subscription_id, seq, signal FROM deliveries INDEXED BY deliveries_dead \
            WHERE dead_at IS NOT NULL AND dead_at <= ?1 LIMIT ?2";
        let values = params![before, column(self.left as u64)];
        let dead = self.session.all(sql, values, |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?, row.get(2)?))
        })?;
        for (id, seq, signal) in &dead {
            let sql = "DELETE FROM deliveries WHERE subscription_id = ?1 AND seq = ?2";
            self.session.run(sql, params![id, seq])?;
            topics::drop_signal(self.session, *signal)?;
        }
        self.purged.signals += self.spend(dead.len());
        Ok(())
    }

    /// Subscriptions that were ended, or whose time was over, long enough ago.
    fn subscriptions(&mut self, before: i64) -> Outcome<()> {
        let ended = "SELECT id FROM subscriptions INDEXED BY subscriptions_ended \
            WHERE ended_at IS NOT NULL AND ended_at <= ?1 LIMIT ?2";
        let over = "SELECT id FROM subscriptions INDEXED BY subscriptions_expiry \
            WHERE expires_at IS NOT NULL AND expires_at <= ?1 AND ended_at IS NULL LIMIT ?2";
        let mut ids = self.ids(ended, before)?;
        ids.extend(self.ids(over, before)?);
        for id in ids {
            if self.left == 0 {
                return Ok(());
            }
            let removed = topics::drop_deliveries(self.session, &id, self.left)?;
            self.purged.signals += self.spend(removed);
            if self.left == 0 {
                return Ok(());
            }
            topics::remove(self.session, &id)?;
            self.purged.subscriptions += self.spend(1);
        }
        Ok(())
    }

    /// Claims, quotas and records whose time is over.
    fn expired(&mut self, now: i64) -> Outcome<()> {
        let claims = "DELETE FROM claims WHERE key IN (SELECT key FROM claims \
            INDEXED BY claims_expiry WHERE expires_at <= ?1 LIMIT ?2)";
        let quotas = "DELETE FROM quotas WHERE key IN (SELECT key FROM quotas \
            INDEXED BY quotas_full WHERE full_at <= ?1 LIMIT ?2)";
        for sql in [claims, quotas] {
            let values = params![now, column(self.left as u64)];
            let removed = self.session.run(sql, values)?;
            self.purged.claims += self.spend(removed);
        }
        let records = "SELECT row FROM records INDEXED BY records_expiry \
            WHERE expires_at <= ?1 LIMIT ?2";
        let values = params![now, column(self.left as u64)];
        let removed = self.rows(records, values, "DELETE FROM records WHERE row = ?1")?;
        self.purged.claims += self.spend(removed);
        Ok(())
    }

    /// Pairs that are too old, and the oldest of those that are too many: their rows are numbered.
    fn pairs(&mut self, before: i64, most: u64) -> Outcome<()> {
        let old = "SELECT row FROM pairs INDEXED BY pairs_age WHERE at <= ?1 LIMIT ?2";
        let many = "SELECT row FROM pairs WHERE row <= (SELECT max(row) FROM pairs) - ?1 \
            ORDER BY row LIMIT ?2";
        for (found, bound) in [(old, before), (many, column(most))] {
            let values = params![bound, column(self.left as u64)];
            let removed = self.rows(found, values, "DELETE FROM pairs WHERE row = ?1")?;
            self.purged.pairs += self.spend(removed);
        }
        Ok(())
    }

    /// Removes the rows that a statement finds, one by one; answers how many. In one statement no index can be named for
    /// the rows that are removed, and a planner that is misled reads all of them.
    fn rows(&self, found: &str, values: impl Params, remove: &str) -> Outcome<usize> {
        let rows: Vec<i64> = self.session.all(found, values, |row| Ok(row.get(0)?))?;
        for row in &rows {
            self.session.run(remove, [row])?;
        }
        Ok(rows.len())
    }

    fn ids(&self, sql: &str, before: i64) -> Outcome<Vec<String>> {
        let values = params![before, column(self.left as u64)];
        self.session.all(sql, values, |row| Ok(row.get(0)?))
    }

    fn spend(&mut self, removed: usize) -> u64 {
        self.left = self.left.saturating_sub(removed);
        removed as u64
    }
}
