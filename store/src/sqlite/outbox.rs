//! Outbox: claims, settlement, dead letters and their replay.
//!
//! In every group, the first unsettled entry is marked as head; so are all entries without a group. Only
//! marked entries can be claimed, so neither claiming nor finding the next due entry has to skip those that
//! wait behind others.

use super::SqliteStore;
use super::error::SqliteResult;
use super::rows::{all, first, optional_text, text};
use super::write_job::WriteSession;
use crate::codec::{
    from_json_text, int_from_column, int_to_column, parse_id, timestamp_from_column,
};
use async_trait::async_trait;
use interzone_hub::ports::{DeadLetterQuery, OutboxClaim, OutboxStore, StoreError};
use interzone_hub::{DeliveryResult, DeliveryState, DeliveryStatus, OutboxEntry, Subject};
use interzone_protocol::vocab::{DeliveryId, Timestamp};
use rusqlite::{Row, params};
use std::time::Duration;

/// Columns that [`read_entry`] reads, in its order.
macro_rules! entry_columns {
    () => {
        "id, channel, key, group_name, owner, subject, payload, created_at, due_at, attempt, error"
    };
}

#[async_trait]
impl OutboxStore for SqliteStore {
    async fn claim_outbox(&self, wanted: &OutboxClaim) -> Result<Vec<OutboxEntry>, StoreError> {
        let request = OutboxClaim {
            channels: distinct(&wanted.channels),
            ..wanted.clone()
        };
        self.write(move |session| claim(session, &request)).await
    }

    async fn settle_outbox(
        &self,
        id: &DeliveryId,
        attempt: u32,
        settlement: &DeliveryResult,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let (id, settlement) = (id.clone(), settlement.clone());
        self.write(move |session| settle(session, &id, attempt, &settlement, now))
            .await
    }

    async fn renew_outbox_lease(
        &self,
        id: &DeliveryId,
        attempt: u32,
        hold: Duration,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let (id, until) = (id.clone(), now.plus(hold));
        self.write(move |session| {
            let sql = "UPDATE outbox SET due_at = ?3, is_leased = 1 \
                WHERE id = ?1 AND attempt = ?2 AND attempt > 0 AND settled_at IS NULL";
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
            let sql = "UPDATE outbox SET is_leased = 0, due_at = min(due_at, ?3) \
                WHERE id = ?1 AND attempt = ?2 AND settled_at IS NULL AND is_leased = 1";
            for (id, attempt) in &attempts {
                let values = params![id.as_str(), attempt, now.as_millis()];
                session.hints.outbox |= session.run(sql, values)? > 0;
            }
            Ok(())
        })
        .await
    }

    async fn next_outbox_due(
        &self,
        channels: &[String],
        now: Timestamp,
    ) -> Result<Option<Duration>, StoreError> {
        let channels = distinct(channels);
        self.read(move |connection| {
            let mut next = None;
            for channel in &channels {
                let sql = "SELECT due_at FROM outbox INDEXED BY outbox_due \
                    WHERE settled_at IS NULL AND is_head = 1 AND channel = ?1 AND is_leased = 0 \
                    ORDER BY due_at LIMIT 1";
                let mut due = first(connection, sql, [channel], |row| Ok(row.get::<_, i64>(0)?))?;
                if due.is_none() {
                    // Leased entries are never due.
                    let sql = "SELECT 1 FROM outbox INDEXED BY outbox_due \
                        WHERE settled_at IS NULL AND is_head = 1 AND channel = ?1 LIMIT 1";
                    due = first(connection, sql, [channel], |_| Ok(i64::MAX))?;
                }
                next = next.into_iter().chain(due).min();
            }
            Ok(next.map(|due| timestamp_from_column(due).duration_since(now)))
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
                  WHERE settled_at IS NOT NULL AND state = 'dead' AND (?1 IS NULL OR channel = ?1) AND (?2 IS NULL OR owner = ?2) \
                  ORDER BY settled_at DESC, number DESC LIMIT ?3"
            );
            let owner = query.owner.as_ref().map(|owner| owner.as_str());
            let values = params![query.channel, owner, int_to_column(query.limit as u64)];
            all(connection, sql, values, read_entry)
        })
        .await
    }

    async fn replay_outbox(&self, id: &DeliveryId, now: Timestamp) -> Result<bool, StoreError> {
        let id = id.clone();
        self.write(move |session| {
            let sql = "UPDATE outbox SET state = 'waiting', is_head = 1, is_leased = 0, attempt = 0, due_at = ?2, \
                error = NULL, settled_at = NULL WHERE id = ?1 AND state = 'dead' RETURNING group_name";
            let values = params![id.as_str(), now.as_millis()];
            let group = session.first(sql, values, |row| Ok(row.get::<_, Option<String>>(0)?))?;
            let Some(group) = group else {
                return Ok(false);
            };
            update_group_head(session, group.as_deref())?;
            session.hints.outbox = true;
            Ok(true)
        })
        .await
    }

    async fn delivery_statuses(
        &self,
        channel: &str,
        keys: &[String],
    ) -> Result<Vec<DeliveryStatus>, StoreError> {
        let (channel, keys) = (channel.to_owned(), distinct(keys));
        self.read(move |connection| {
            let sql = "SELECT id, key, state, created_at, due_at, settled_at, attempt, error, number \
                FROM outbox WHERE channel = ?1 AND key = ?2";
            let mut found: Vec<(i64, DeliveryStatus)> = Vec::new();
            for key in &keys {
                found.extend(first(connection, sql, params![channel, key], |row| {
                    Ok((row.get(8)?, read_delivery_status(row)?))
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
                (SELECT count(*) FROM outbox INDEXED BY outbox_due WHERE settled_at IS NULL), \
                (SELECT count(*) FROM outbox INDEXED BY outbox_settled WHERE settled_at IS NOT NULL AND state = 'dead')";
            let depth = first(connection, sql, [], |row| {
                Ok((int_from_column("outbox", row.get(0)?)?, int_from_column("outbox", row.get(1)?)?))
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

fn read_entry(row: &Row<'_>) -> SqliteResult<OutboxEntry> {
    let subject = optional_text(row, 5)?.map(|key| {
        Subject::from_key(key).ok_or_else(|| StoreError::Corrupt("outbox: no such subject".into()))
    });
    Ok(OutboxEntry {
        id: parse_id("outbox", text(row, 0)?)?,
        channel: row.get(1)?,
        key: row.get(2)?,
        group: row.get(3)?,
        owner: parse_id("outbox", text(row, 4)?)?,
        subject: subject.transpose()?,
        payload: from_json_text("outbox", text(row, 6)?)?,
        created_at: timestamp_from_column(row.get(7)?),
        due_at: timestamp_from_column(row.get(8)?),
        attempt: int_from_column("outbox", row.get(9)?)?,
        error: row.get(10)?,
    })
}

fn read_delivery_status(row: &Row<'_>) -> SqliteResult<DeliveryStatus> {
    Ok(DeliveryStatus {
        id: parse_id("outbox", text(row, 0)?)?,
        key: row.get(1)?,
        state: match text(row, 2)? {
            "waiting" => DeliveryState::Waiting,
            "delivered" => DeliveryState::Delivered,
            _ => DeliveryState::Dead,
        },
        created_at: timestamp_from_column(row.get(3)?),
        due_at: timestamp_from_column(row.get(4)?),
        settled_at: row.get::<_, Option<i64>>(5)?.map(timestamp_from_column),
        attempt: int_from_column("outbox", row.get(6)?)?,
        error: row.get(7)?,
    })
}

/// Adds an entry, unless its channel has one with its key (idempotency).
pub(super) fn enqueue(
    session: &mut WriteSession<'_>,
    entry: &OutboxEntry,
    subject: Option<&str>,
) -> SqliteResult<()> {
    let sql = concat!(
        "INSERT INTO outbox (",
        entry_columns!(),
        ", state, is_head) SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, 'waiting', \
          NOT EXISTS (SELECT 1 FROM outbox INDEXED BY outbox_groups WHERE group_name = ?4 AND settled_at IS NULL) \
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
    session.hints.outbox |= session.run(sql, values)? > 0;
    Ok(())
}

fn claim(session: &WriteSession<'_>, request: &OutboxClaim) -> SqliteResult<Vec<OutboxEntry>> {
    let (now, limit) = (request.now, request.limit);
    // For display only: a leased entry is never due.
    let lease_until = now.plus(request.lease);
    let mut due: Vec<(i64, i64)> = Vec::new();
    for channel in &request.channels {
        let sql = "SELECT due_at, number FROM outbox INDEXED BY outbox_due \
            WHERE settled_at IS NULL AND is_head = 1 AND channel = ?1 AND due_at <= ?2 AND is_leased = 0 \
            ORDER BY due_at, number LIMIT ?3";
        let values = params![channel, now.as_millis(), int_to_column(limit as u64)];
        due.extend(session.all(sql, values, |row| Ok((row.get(0)?, row.get(1)?)))?);
    }
    due.sort_unstable();
    due.truncate(limit);
    let mut entries = Vec::with_capacity(due.len());
    for (_, row) in due {
        let sql = concat!(
            "UPDATE outbox SET attempt = attempt + 1, due_at = ?2, is_leased = 1 WHERE number = ?1 RETURNING ",
            entry_columns!()
        );
        entries.extend(session.first(sql, [row, lease_until.as_millis()], read_entry)?);
    }
    Ok(entries)
}

fn settle(
    session: &mut WriteSession<'_>,
    id: &DeliveryId,
    attempt: u32,
    settlement: &DeliveryResult,
    now: Timestamp,
) -> SqliteResult<bool> {
    let (state, settled_at, due_at, error) = match settlement {
        DeliveryResult::Delivered => ("delivered", Some(now), None, None),
        DeliveryResult::Retry { due_at, error } => ("waiting", None, Some(*due_at), Some(error)),
        DeliveryResult::Dead { error } => ("dead", Some(now), None, Some(error)),
    };
    let sql = "UPDATE outbox SET state = ?3, settled_at = ?4, due_at = coalesce(?5, due_at), is_leased = 0, \
        error = coalesce(?6, error) WHERE id = ?1 AND attempt = ?2 AND attempt > 0 AND settled_at IS NULL \
        RETURNING group_name";
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
    if settled_at.is_some() {
        update_group_head(session, group.as_deref())?;
    }
    session.hints.outbox |= settled_at.is_none() || group.is_some();
    Ok(true)
}

/// Releases the leases of processes that are gone: the entries were due before they were claimed. The
/// attempt had begun, so it counts.
pub(super) const RELEASE_ALL_ENTRIES: &str = "UPDATE outbox INDEXED BY outbox_leased SET is_leased = 0, due_at = created_at WHERE is_leased = 1";

/// Releases all leased entries.
pub(super) fn release_stale_entries(session: &mut WriteSession<'_>) -> SqliteResult<()> {
    session.hints.outbox |= session.run(RELEASE_ALL_ENTRIES, [])? > 0;
    Ok(())
}

/// Marks the first unsettled entry of a group as head, and no other.
fn update_group_head(session: &WriteSession<'_>, group: Option<&str>) -> SqliteResult<()> {
    let Some(group) = group else {
        return Ok(());
    };
    let marked = "SELECT number FROM outbox INDEXED BY outbox_groups \
        WHERE group_name = ?1 AND settled_at IS NULL AND is_head = 1";
    let marked = session.all(marked, [group], |row| Ok(row.get::<_, i64>(0)?))?;
    let behind = "SELECT min(number) FROM outbox INDEXED BY outbox_groups \
        WHERE group_name = ?1 AND settled_at IS NULL AND is_head = 0";
    let behind = session.first(behind, [group], |row| Ok(row.get::<_, Option<i64>>(0)?))?;
    let behind = behind.flatten();
    let Some(head) = marked.iter().copied().chain(behind).min() else {
        return Ok(());
    };
    let mark = "UPDATE outbox SET is_head = ?2 WHERE number = ?1";
    for row in marked.into_iter().filter(|row| *row != head) {
        session.run(mark, [row, 0])?;
    }
    if behind == Some(head) {
        session.run(mark, [head, 1])?;
    }
    Ok(())
}
