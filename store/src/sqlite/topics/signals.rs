//! Signals and their deliveries.
//!
//! An unclaimed delivery is due at [`DUE_AT_ONCE`], before any timestamp. So the index by due time has the
//! fresh deliveries first and in order, and claiming from a long backlog reads no more rows than it claims.

use crate::codec::{
    from_json_text, int_from_column, int_to_column, parse_id, timestamp_from_column,
};
use crate::sqlite::error::SqliteResult;
use crate::sqlite::rows::{all, first, optional_text, text};
use crate::sqlite::write_job::WriteSession;
use interzone_hub::ports::{ChangeHint, StoreError};
use interzone_hub::{AckOutcome, Signal, SignalBody, SignalDelivery, Subject};
use interzone_protocol::vocab::{SignalId, SubscriptionId, Timestamp};
use rusqlite::{Connection, Row, params};
use std::collections::HashSet;
use std::time::Duration;

const DUE_AT_ONCE: i64 = i64::MIN;

/// Columns that [`read_delivery`] reads, of a delivery `d` and its signal `s`.
macro_rules! delivery_columns {
    () => {
        "d.subscription_id, d.seq, d.attempt, s.topic, s.id, s.publisher, s.at, s.body, \
         s.event_subject, s.event_seq"
    };
}

/// Inserts a signal, and a delivery of it for each of these subscriptions that exists.
pub(in crate::sqlite) fn publish(
    session: &mut WriteSession<'_>,
    signal: &Signal,
    subject: Option<&str>,
    to: &[SubscriptionId],
) -> SqliteResult<()> {
    let mut signal_row = None;
    let mut unique = HashSet::with_capacity(to.len());
    for id in to.iter().filter(|id| unique.insert(*id)) {
        let sql = "UPDATE subscriptions SET last_delivery_seq = last_delivery_seq + 1 WHERE id = ?1 \
            RETURNING last_delivery_seq";
        let seq = session.first(sql, [id.as_str()], |row| Ok(row.get::<_, i64>(0)?))?;
        let Some(seq) = seq else {
            continue;
        };
        let row = match signal_row {
            Some(row) => row,
            None => *signal_row.insert(insert_signal(session, signal, subject)?),
        };
        let sql = "INSERT INTO deliveries \
            (subscription_id, seq, signal_number, signal_id, attempt, due_at) \
            VALUES (?1, ?2, ?3, ?4, 0, ?5)";
        let values = params![id.as_str(), seq, row, signal.id.as_str(), DUE_AT_ONCE];
        session.run(sql, values)?;
        session.hints.specific.push(ChangeHint::Signals(id.clone()));
    }
    Ok(())
}

fn insert_signal(
    session: &WriteSession<'_>,
    signal: &Signal,
    subject: Option<&str>,
) -> SqliteResult<i64> {
    let (body, event) = match &signal.body {
        SignalBody::Sent(json) => (Some(json.as_str()), None),
        SignalBody::Event(_, seq) => (None, Some(int_to_column(*seq))),
    };
    let sql = "INSERT INTO signals (topic, id, publisher, at, body, event_subject, event_seq) \
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)";
    let values = params![
        signal.topic.as_str(),
        signal.id.as_str(),
        signal.publisher.as_str(),
        signal.at.as_millis(),
        body,
        subject,
        event,
    ];
    session.run(sql, values)?;
    Ok(session.connection.last_insert_rowid())
}

/// Claims due deliveries, in order.
pub(super) fn claim(
    session: &WriteSession<'_>,
    id: &SubscriptionId,
    now: Timestamp,
    waits: &[Duration],
    limit: usize,
) -> SqliteResult<Vec<SignalDelivery>> {
    let limit_column = int_to_column(limit as u64);
    let fresh = "SELECT seq FROM deliveries INDEXED BY deliveries_due \
        WHERE subscription_id = ?1 AND due_at = ?2 AND dead_at IS NULL ORDER BY seq LIMIT ?3";
    let values = params![id.as_str(), DUE_AT_ONCE, limit_column];
    let mut due: Vec<i64> = session.all(fresh, values, |row| Ok(row.get(0)?))?;
    let retried = "SELECT seq FROM deliveries INDEXED BY deliveries_due \
        WHERE subscription_id = ?1 AND due_at > ?2 AND due_at <= ?3 AND dead_at IS NULL \
        ORDER BY seq LIMIT ?4";
    let values = params![id.as_str(), DUE_AT_ONCE, now.as_millis(), limit_column];
    due.extend(session.all(retried, values, |row| Ok(row.get::<_, i64>(0)?))?);
    due.sort_unstable();
    due.truncate(limit);
    let mut deliveries = Vec::with_capacity(due.len());
    for seq in due {
        let sql = concat!(
            "SELECT ",
            delivery_columns!(),
            " FROM deliveries d JOIN signals s ON s.number = d.signal_number \
              WHERE d.subscription_id = ?1 AND d.seq = ?2"
        );
        let values = params![id.as_str(), seq];
        let Some(mut delivery) = session.first(sql, values, read_delivery)? else {
            continue;
        };
        delivery.attempt = delivery.attempt.saturating_add(1);
        let index = usize::try_from(delivery.attempt - 1).unwrap_or(usize::MAX);
        let wait = waits.get(index).or(waits.last()).copied();
        let due_at = now.plus(wait.unwrap_or_default()).as_millis();
        let sql = "UPDATE deliveries SET attempt = ?3, due_at = ?4 \
            WHERE subscription_id = ?1 AND seq = ?2";
        session.run(sql, params![id.as_str(), seq, delivery.attempt, due_at])?;
        deliveries.push(delivery);
    }
    Ok(deliveries)
}

pub(super) fn unacked(
    connection: &Connection,
    id: &SubscriptionId,
    after: u64,
    limit: usize,
) -> SqliteResult<Vec<SignalDelivery>> {
    let sql = concat!(
        "SELECT ",
        delivery_columns!(),
        " FROM deliveries d JOIN signals s ON s.number = d.signal_number \
          WHERE d.subscription_id = ?1 AND d.seq > ?2 AND d.dead_at IS NULL \
          ORDER BY d.seq LIMIT ?3"
    );
    let values = params![
        id.as_str(),
        int_to_column(after),
        int_to_column(limit as u64)
    ];
    all(connection, sql, values, read_delivery)
}

/// Acknowledges all deliveries of a signal, dead ones included: they did arrive after all.
pub(super) fn ack(
    session: &WriteSession<'_>,
    id: &SubscriptionId,
    signal: &SignalId,
    now: Timestamp,
) -> SqliteResult<AckOutcome> {
    let sql = "SELECT seq, signal_number FROM deliveries INDEXED BY deliveries_by_signal_id \
        WHERE subscription_id = ?1 AND signal_id = ?2";
    let values = params![id.as_str(), signal.as_str()];
    let found = session.all(sql, values, |row| Ok((row.get(0)?, row.get(1)?)))?;
    if found.is_empty() {
        let sql = "SELECT 1 FROM acknowledgements WHERE subscription_id = ?1 AND signal_id = ?2";
        let earlier = session.first(sql, values, |_| Ok(()))?;
        return Ok(earlier.map_or(AckOutcome::Unknown, |()| AckOutcome::AlreadyAcknowledged));
    }
    for (seq, row) in found {
        drop_delivery(session, id.as_str(), seq, row)?;
    }
    let sql = "INSERT INTO acknowledgements (subscription_id, signal_id, at) VALUES (?1, ?2, ?3) \
        ON CONFLICT (subscription_id, signal_id) DO UPDATE SET at = excluded.at";
    session.run(sql, params![id.as_str(), signal.as_str(), now.as_millis()])?;
    Ok(AckOutcome::Acknowledged)
}

/// Removes at most `most` deliveries of a subscription; returns how many.
pub(in crate::sqlite) fn drop_deliveries(
    session: &WriteSession<'_>,
    id: &str,
    limit: usize,
) -> SqliteResult<usize> {
    let sql = "SELECT seq, signal_number FROM deliveries WHERE subscription_id = ?1 ORDER BY seq LIMIT ?2";
    let values = params![id, int_to_column(limit as u64)];
    let found = session.all(sql, values, |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (seq, signal) in &found {
        drop_delivery(session, id, *seq, *signal)?;
    }
    Ok(found.len())
}

fn drop_delivery(session: &WriteSession<'_>, id: &str, seq: i64, signal: i64) -> SqliteResult<()> {
    let sql = "DELETE FROM deliveries WHERE subscription_id = ?1 AND seq = ?2";
    session.run(sql, params![id, seq])?;
    drop_orphan_signal(session, signal)
}

/// Removes a signal that has no deliveries left.
pub(in crate::sqlite) fn drop_orphan_signal(
    session: &WriteSession<'_>,
    signal: i64,
) -> SqliteResult<()> {
    let sql = "DELETE FROM signals WHERE number = ?1 \
        AND NOT EXISTS (SELECT 1 FROM deliveries WHERE signal_number = ?1)";
    session.run(sql, [signal]).map(|_| ())
}

/// Finds due subscriptions by skipping from subscription to subscription, not over every delivery.
pub(super) fn subscriptions_due(
    connection: &Connection,
    now: Timestamp,
    limit: usize,
) -> SqliteResult<Vec<SubscriptionId>> {
    let transaction = connection.unchecked_transaction()?;
    let mut due: Vec<SubscriptionId> = Vec::new();
    let mut last = String::new();
    while due.len() < limit {
        let sql = "SELECT subscription_id, due_at FROM deliveries INDEXED BY deliveries_due \
            WHERE subscription_id > ?1 AND dead_at IS NULL \
            ORDER BY subscription_id, due_at LIMIT 1";
        let next = first(connection, sql, [&last], |row| {
            Ok((row.get::<_, String>(0)?, row.get::<_, i64>(1)?))
        })?;
        let Some((id, first_due)) = next else {
            break;
        };
        if first_due <= now.as_millis() {
            due.push(parse_id("subscription", &id)?);
        }
        last = id;
    }
    transaction.finish()?;
    Ok(due)
}

pub(super) fn dead_signals(
    connection: &Connection,
    limit: usize,
) -> SqliteResult<Vec<SignalDelivery>> {
    let sql = concat!(
        "SELECT ",
        delivery_columns!(),
        " FROM deliveries d INDEXED BY deliveries_dead CROSS JOIN signals s ON s.number = d.signal_number \
          WHERE d.dead_at IS NOT NULL \
          ORDER BY d.dead_at DESC, d.signal_number DESC, d.subscription_id, d.seq DESC LIMIT ?1"
    );
    all(
        connection,
        sql,
        [int_to_column(limit as u64)],
        read_delivery,
    )
}

fn read_delivery(row: &Row<'_>) -> SqliteResult<SignalDelivery> {
    let body = match optional_text(row, 8)? {
        None => SignalBody::Sent(from_json_text("signal", text(row, 7)?)?),
        Some(key) => {
            let subject = Subject::from_key(key)
                .ok_or_else(|| StoreError::Corrupt("signal: no such subject".to_owned()))?;
            SignalBody::Event(subject, int_from_column("signal", row.get(9)?)?)
        }
    };
    Ok(SignalDelivery {
        subscription_id: parse_id("delivery", text(row, 0)?)?,
        seq: int_from_column("delivery", row.get(1)?)?,
        attempt: int_from_column("delivery", row.get(2)?)?,
        signal: Signal {
            topic: parse_id("signal", text(row, 3)?)?,
            id: parse_id("signal", text(row, 4)?)?,
            publisher: parse_id("signal", text(row, 5)?)?,
            at: timestamp_from_column(row.get(6)?),
            body,
        },
    })
}
