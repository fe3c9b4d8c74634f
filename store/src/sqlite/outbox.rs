//! What must leave.
//!
//! Of every group, the first entry that is not settled carries the mark `head`; so do all entries
//! without a group. Only marked entries can be claimed, so neither claiming nor looking for the next
//! due one has to step over those that wait behind others.

use super::SqliteStore;
use super::fault::Outcome;
use super::job::Session;
use super::rows::{all, first, optional_text, text};
use crate::codec::{column, count, from_text, moment, word};
use async_trait::async_trait;
use interzone_hub::ports::{DeadLetterQuery, OutboxClaim, OutboxStore, StoreError};
use interzone_hub::{Carried, Fate, OutboxEntry, Settlement, Subject};
use interzone_protocol::vocab::{DeliveryId, Timestamp};
use rusqlite::{Row, params};
use std::time::Duration;

/// The columns that [`read_entry`] expects, in its order.
macro_rules! entry_columns {
    () => {
        "id, channel, key, grp, owner, subject, payload, created_at, due_at, attempt, error"
    };
}

#[async_trait]
impl OutboxStore for SqliteStore {
    async fn claim_outbox(&self, wanted: &OutboxClaim) -> Result<Vec<OutboxEntry>, StoreError> {
        let wanted = OutboxClaim {
            channels: distinct(&wanted.channels),
            ..wanted.clone()
        };
        self.write(move |session| claim(session, &wanted)).await
    }

    async fn settle_outbox(
        &self,
        id: &DeliveryId,
        attempt: u32,
        settlement: &Settlement,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let (id, settlement) = (id.clone(), settlement.clone());
        self.write(move |session| settle(session, &id, attempt, &settlement, now))
            .await
    }

    async fn hold_outbox(
        &self,
        id: &DeliveryId,
        attempt: u32,
        hold: Duration,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let (id, until) = (id.clone(), now.after(hold));
        self.write(move |session| {
            let sql = "UPDATE outbox SET due_at = ?3, held = 1 \
                WHERE id = ?1 AND attempt = ?2 AND attempt > 0 AND state = 0";
            let values = params![id.as_str(), attempt, until.as_millis()];
            Ok(session.run(sql, values)? > 0)
        })
        .await
    }

    async fn abandon_outbox(
        &self,
        attempts: &[(DeliveryId, u32)],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let attempts = attempts.to_vec();
        self.write(move |session| {
            let sql = "UPDATE outbox SET held = 0, due_at = min(due_at, ?3) \
                WHERE id = ?1 AND attempt = ?2 AND state = 0 AND held = 1";
            for (id, attempt) in &attempts {
                let values = params![id.as_str(), attempt, now.as_millis()];
                session.wakes.outbox |= session.run(sql, values)? > 0;
            }
            Ok(())
        })
        .await
    }

    async fn next_due(
        &self,
        channels: &[String],
        now: Timestamp,
    ) -> Result<Option<Duration>, StoreError> {
        let channels = distinct(channels);
        self.read(move |connection| {
            let mut next = None;
            for channel in &channels {
                let sql = "SELECT due_at FROM outbox INDEXED BY outbox_due \
                    WHERE state = 0 AND head = 1 AND channel = ?1 AND held = 0 \
                    ORDER BY due_at LIMIT 1";
                let mut due = first(connection, sql, [channel], |row| Ok(row.get::<_, i64>(0)?))?;
                if due.is_none() {
                    // What is held is due at no moment that a clock can show.
                    let sql = "SELECT 1 FROM outbox INDEXED BY outbox_due \
                        WHERE state = 0 AND head = 1 AND channel = ?1 LIMIT 1";
                    due = first(connection, sql, [channel], |_| Ok(i64::MAX))?;
                }
                next = next.into_iter().chain(due).min();
            }
            Ok(next.map(|due| moment(due).since(now)))
        })
        .await
    }

    async fn dead_letters(&self, query: &DeadLetterQuery) -> Result<Vec<OutboxEntry>, StoreError> {
        let query = query.clone();
        self.read(move |connection| {
            let sql = concat!(
                "SELECT ",
                entry_columns!(),
                " FROM outbox INDEXED BY outbox_settled \
                  WHERE state > 0 AND state = 2 AND (?1 IS NULL OR channel = ?1) AND (?2 IS NULL OR owner = ?2) \
                  ORDER BY settled_at DESC, row DESC LIMIT ?3"
            );
            let owner = query.owner.as_ref().map(|owner| owner.as_str());
            let values = params![query.channel, owner, column(query.limit as u64)];
            all(connection, sql, values, read_entry)
        })
        .await
    }

    async fn replay_outbox(&self, id: &DeliveryId, now: Timestamp) -> Result<bool, StoreError> {
        let id = id.clone();
        self.write(move |session| {
            let sql = "UPDATE outbox SET state = 0, head = 1, held = 0, attempt = 0, due_at = ?2, \
                error = NULL, settled_at = NULL WHERE id = ?1 AND state = 2 RETURNING grp";
            let values = params![id.as_str(), now.as_millis()];
            let group = session.first(sql, values, |row| Ok(row.get::<_, Option<String>>(0)?))?;
            let Some(group) = group else {
                return Ok(false);
            };
            reseat(session, group.as_deref())?;
            session.wakes.outbox = true;
            Ok(true)
        })
        .await
    }

    async fn carried(&self, channel: &str, keys: &[String]) -> Result<Vec<Carried>, StoreError> {
        let (channel, keys) = (channel.to_owned(), distinct(keys));
        self.read(move |connection| {
            let sql = "SELECT id, key, state, created_at, due_at, settled_at, attempt, error, row \
                FROM outbox WHERE channel = ?1 AND key = ?2";
            let mut found: Vec<(i64, Carried)> = Vec::new();
            for key in &keys {
                found.extend(first(connection, sql, params![channel, key], |row| {
                    Ok((row.get(8)?, read_carried(row)?))
                })?);
            }
            found.sort_unstable_by_key(|(row, _)| *row);
            Ok(found.into_iter().map(|(_, carried)| carried).collect())
        })
        .await
    }

    async fn outbox_depth(&self) -> Result<(u64, u64), StoreError> {
        self.read(move |connection| {
            let sql = "SELECT \
                (SELECT count(*) FROM outbox INDEXED BY outbox_due WHERE state = 0), \
                (SELECT count(*) FROM outbox INDEXED BY outbox_settled WHERE state > 0 AND state = 2)";
            let depth = first(connection, sql, [], |row| {
                Ok((count("outbox", row.get(0)?)?, count("outbox", row.get(1)?)?))
            })?;
            Ok(depth.unwrap_or((0, 0)))
        })
        .await
    }
}

fn distinct(channels: &[String]) -> Vec<String> {
    let mut channels = channels.to_vec();
    channels.sort_unstable();
    channels.dedup();
    channels
}

fn read_entry(row: &Row<'_>) -> Outcome<OutboxEntry> {
    let subject = optional_text(row, 5)?.map(|key| {
        Subject::from_key(key).ok_or_else(|| StoreError::Corrupt("outbox: no such subject".into()))
    });
    Ok(OutboxEntry {
        id: word("outbox", text(row, 0)?)?,
        channel: row.get(1)?,
        key: row.get(2)?,
        group: row.get(3)?,
        owner: word("outbox", text(row, 4)?)?,
        subject: subject.transpose()?,
        payload: from_text("outbox", text(row, 6)?)?,
        created_at: moment(row.get(7)?),
        due_at: moment(row.get(8)?),
        attempt: count("outbox", row.get(9)?)?,
        error: row.get(10)?,
    })
}

fn read_carried(row: &Row<'_>) -> Outcome<Carried> {
    Ok(Carried {
        id: word("outbox", text(row, 0)?)?,
        key: row.get(1)?,
        fate: match row.get(2)? {
            0 => Fate::Waiting,
            1 => Fate::Delivered,
            _ => Fate::Dead,
        },
        created_at: moment(row.get(3)?),
        due_at: moment(row.get(4)?),
        settled_at: row.get::<_, Option<i64>>(5)?.map(moment),
        attempt: count("outbox", row.get(6)?)?,
        error: row.get(7)?,
    })
}

/// Adds an entry, unless its channel has one with its key.
pub(super) fn enqueue(
    session: &mut Session<'_>,
    entry: &OutboxEntry,
    subject: Option<&str>,
) -> Outcome<()> {
    let sql = concat!(
        "INSERT INTO outbox (",
        entry_columns!(),
        ", state, head) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 0, \
          NOT EXISTS (SELECT 1 FROM outbox INDEXED BY outbox_group WHERE grp = ?4 AND state = 0) \
          WHERE NOT EXISTS (SELECT 1 FROM outbox WHERE channel = ?2 AND key = ?3)"
    );
    let values = params![
        entry.id.as_str(),
        entry.channel,
        entry.key,
        entry.group,
        entry.owner.as_str(),
        subject,
        entry.payload.as_str(),
        entry.created_at.as_millis(),
        entry.due_at.as_millis(),
        entry.attempt,
        entry.error,
    ];
    session.wakes.outbox |= session.run(sql, values)? > 0;
    Ok(())
}

fn claim(session: &Session<'_>, wanted: &OutboxClaim) -> Outcome<Vec<OutboxEntry>> {
    let (now, limit) = (wanted.now, wanted.limit);
    // Only to be shown: while it is held, it is due at no moment.
    let until = now.after(wanted.hold);
    let mut due: Vec<(i64, i64)> = Vec::new();
    for channel in &wanted.channels {
        let sql = "SELECT due_at, row FROM outbox INDEXED BY outbox_due \
            WHERE state = 0 AND head = 1 AND channel = ?1 AND due_at <= ?2 AND held = 0 \
            ORDER BY due_at, row LIMIT ?3";
        let values = params![channel, now.as_millis(), column(limit as u64)];
        due.extend(session.all(sql, values, |row| Ok((row.get(0)?, row.get(1)?)))?);
    }
    due.sort_unstable();
    due.truncate(limit);
    let mut entries = Vec::with_capacity(due.len());
    for (_, row) in due {
        let sql = concat!(
            "UPDATE outbox SET attempt = attempt + 1, due_at = ?2, held = 1 WHERE row = ?1 RETURNING ",
            entry_columns!()
        );
        entries.extend(session.first(sql, [row, until.as_millis()], read_entry)?);
    }
    Ok(entries)
}

fn settle(
    session: &mut Session<'_>,
    id: &DeliveryId,
    attempt: u32,
    settlement: &Settlement,
    now: Timestamp,
) -> Outcome<bool> {
    let (state, settled_at, due_at, error) = match settlement {
        Settlement::Delivered => (1, Some(now), None, None),
        Settlement::Retry { due_at, error } => (0, None, Some(*due_at), Some(error)),
        Settlement::Dead { error } => (2, Some(now), None, Some(error)),
    };
    let sql = "UPDATE outbox SET state = ?3, settled_at = ?4, due_at = coalesce(?5, due_at), held = 0, \
        error = coalesce(?6, error) WHERE id = ?1 AND attempt = ?2 AND attempt > 0 AND state = 0 \
        RETURNING grp";
    let values = params![
        id.as_str(),
        attempt,
        state,
        settled_at.map(Timestamp::as_millis),
        due_at.map(Timestamp::as_millis),
        error,
    ];
    let group = session.first(sql, values, |row| Ok(row.get::<_, Option<String>>(0)?))?;
    let Some(group) = group else {
        return Ok(false);
    };
    if state > 0 {
        reseat(session, group.as_deref())?;
    }
    session.wakes.outbox |= state == 0 || group.is_some();
    Ok(true)
}

/// Makes due what was being carried by a process that is gone: it was due before it was claimed. The
/// attempt was begun, so it counts.
pub(super) const FREE: &str =
    "UPDATE outbox INDEXED BY outbox_held SET held = 0, due_at = created_at WHERE held = 1";

/// The same, of all that is held.
pub(super) fn let_go(session: &mut Session<'_>) -> Outcome<()> {
    session.wakes.outbox |= session.run(FREE, [])? > 0;
    Ok(())
}

/// Gives the mark to the first of a group that is not settled, and to no other.
fn reseat(session: &Session<'_>, group: Option<&str>) -> Outcome<()> {
    let Some(group) = group else {
        return Ok(());
    };
    let marked = "SELECT row FROM outbox INDEXED BY outbox_group \
        WHERE grp = ?1 AND state = 0 AND head = 1";
    let marked = session.all(marked, [group], |row| Ok(row.get::<_, i64>(0)?))?;
    let behind = "SELECT min(row) FROM outbox INDEXED BY outbox_group \
        WHERE grp = ?1 AND state = 0 AND head = 0";
    let behind = session.first(behind, [group], |row| Ok(row.get::<_, Option<i64>>(0)?))?;
    let behind = behind.flatten();
    let Some(head) = marked.iter().copied().chain(behind).min() else {
        return Ok(());
    };
    let mark = "UPDATE outbox SET head = ?2 WHERE row = ?1";
    for row in marked.into_iter().filter(|row| *row != head) {
        session.run(mark, [row, 0])?;
    }
    if behind == Some(head) {
        session.run(mark, [head, 1])?;
    }
    Ok(())
}
