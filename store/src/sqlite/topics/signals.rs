//! Signals and their deliveries.
//!
//! A delivery that nobody has claimed is due at [`AT_ONCE`], before any moment a clock can show. So
//! the index by due moment holds the fresh ones first and in their order, and claiming from a long
//! backlog reads no more than it takes.

use crate::codec::{column, count, from_text, moment, word};
use crate::sqlite::fault::Outcome;
use crate::sqlite::job::Session;
use crate::sqlite::rows::{all, first, optional_text, text};
use interzone_hub::ports::{StoreError, Wake};
use interzone_hub::{Acked, Signal, SignalBody, SignalDelivery, Subject};
use interzone_protocol::vocab::{SignalId, SubscriptionId, Timestamp};
use rusqlite::{Connection, Row, params};
use std::collections::HashSet;
use std::time::Duration;

const AT_ONCE: i64 = i64::MIN;

/// The columns that [`read_delivery`] expects, of a delivery `d` and its signal `s`.
macro_rules! delivery_columns {
    () => {
        "d.subscription_id, d.seq, d.attempt, s.topic, s.id, s.publisher, s.at, s.body, \
         s.subject, s.event_seq"
    };
}

/// Keeps a signal, and a delivery of it for each of these subscriptions that exists.
pub(in crate::sqlite) fn publish(
    session: &mut Session<'_>,
    signal: &Signal,
    subject: Option<&str>,
    to: &[SubscriptionId],
) -> Outcome<()> {
    let mut kept = None;
    let mut seen = HashSet::with_capacity(to.len());
    for id in to.iter().filter(|id| seen.insert(*id)) {
        let sql = "UPDATE subscriptions SET last_seq = last_seq + 1 WHERE id = ?1 \
            RETURNING last_seq";
        let seq = session.first(sql, [id.as_str()], |row| Ok(row.get::<_, i64>(0)?))?;
        let Some(seq) = seq else {
            continue;
        };
        let row = match kept {
            Some(row) => row,
            None => *kept.insert(keep(session, signal, subject)?),
        };
        let sql = "INSERT INTO deliveries \
            (subscription_id, seq, signal, signal_id, attempt, due_at) \
            VALUES (?1, ?2, ?3, ?4, 0, ?5)";
        let values = params![id.as_str(), seq, row, signal.id.as_str(), AT_ONCE];
        session.run(sql, values)?;
        session.wakes.named.push(Wake::Signals(id.clone()));
    }
    Ok(())
}

fn keep(session: &Session<'_>, signal: &Signal, subject: Option<&str>) -> Outcome<i64> {
    let (body, event) = match &signal.body {
        SignalBody::Sent(json) => (Some(json.as_str()), None),
        SignalBody::Event(_, seq) => (None, Some(column(*seq))),
    };
    let sql = "INSERT INTO signals (topic, id, publisher, at, body, subject, event_seq) \
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

/// Claims what is due, in its order.
pub(super) fn claim(
    session: &Session<'_>,
    id: &SubscriptionId,
    now: Timestamp,
    waits: &[Duration],
    limit: usize,
) -> Outcome<Vec<SignalDelivery>> {
    let limit_column = column(limit as u64);
    let fresh = "SELECT seq FROM deliveries INDEXED BY deliveries_due \
        WHERE subscription_id = ?1 AND due_at = ?2 AND dead_at IS NULL ORDER BY seq LIMIT ?3";
    let values = params![id.as_str(), AT_ONCE, limit_column];
    let mut due: Vec<i64> = session.all(fresh, values, |row| Ok(row.get(0)?))?;
    let again = "SELECT seq FROM deliveries INDEXED BY deliveries_due \
        WHERE subscription_id = ?1 AND due_at > ?2 AND due_at <= ?3 AND dead_at IS NULL \
        ORDER BY seq LIMIT ?4";
    let values = params![id.as_str(), AT_ONCE, now.as_millis(), limit_column];
    due.extend(session.all(again, values, |row| Ok(row.get::<_, i64>(0)?))?);
    due.sort_unstable();
    due.truncate(limit);
    let mut deliveries = Vec::with_capacity(due.len());
    for seq in due {
        let sql = concat!(
            "SELECT ",
            delivery_columns!(),
            " FROM deliveries d JOIN signals s ON s.row = d.signal \
              WHERE d.subscription_id = ?1 AND d.seq = ?2"
        );
        let values = params![id.as_str(), seq];
        let Some(mut delivery) = session.first(sql, values, read_delivery)? else {
            continue;
        };
        delivery.attempt = delivery.attempt.saturating_add(1);
        let index = usize::try_from(delivery.attempt - 1).unwrap_or(usize::MAX);
        let wait = waits.get(index).or(waits.last()).copied();
        let due_at = now.after(wait.unwrap_or_default()).as_millis();
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
) -> Outcome<Vec<SignalDelivery>> {
    let sql = concat!(
        "SELECT ",
        delivery_columns!(),
        " FROM deliveries d JOIN signals s ON s.row = d.signal \
          WHERE d.subscription_id = ?1 AND d.seq > ?2 AND d.dead_at IS NULL \
          ORDER BY d.seq LIMIT ?3"
    );
    let values = params![id.as_str(), column(after), column(limit as u64)];
    all(connection, sql, values, read_delivery)
}

/// Acknowledges all deliveries of a signal. One that was given up counts: it did arrive after all.
pub(super) fn ack(
    session: &Session<'_>,
    id: &SubscriptionId,
    signal: &SignalId,
    now: Timestamp,
) -> Outcome<Acked> {
    let sql = "SELECT seq, signal FROM deliveries INDEXED BY deliveries_id \
        WHERE subscription_id = ?1 AND signal_id = ?2";
    let values = params![id.as_str(), signal.as_str()];
    let found = session.all(sql, values, |row| Ok((row.get(0)?, row.get(1)?)))?;
    if found.is_empty() {
        let sql = "SELECT 1 FROM acked WHERE subscription_id = ?1 AND signal_id = ?2";
        let before = session.first(sql, values, |_| Ok(()))?;
        return Ok(before.map_or(Acked::Unknown, |()| Acked::Before));
    }
    for (seq, row) in found {
        drop_delivery(session, id.as_str(), seq, row)?;
    }
    let sql = "INSERT INTO acked (subscription_id, signal_id, at) VALUES (?1, ?2, ?3) \
        ON CONFLICT (subscription_id, signal_id) DO UPDATE SET at = excluded.at";
    session.run(sql, params![id.as_str(), signal.as_str(), now.as_millis()])?;
    Ok(Acked::Now)
}

/// Removes deliveries of a subscription, at most so many; answers how many it removed.
pub(in crate::sqlite) fn drop_deliveries(
    session: &Session<'_>,
    id: &str,
    most: usize,
) -> Outcome<usize> {
    let sql = "SELECT seq, signal FROM deliveries WHERE subscription_id = ?1 ORDER BY seq LIMIT ?2";
    let values = params![id, column(most as u64)];
    let found = session.all(sql, values, |row| Ok((row.get(0)?, row.get(1)?)))?;
    for (seq, signal) in &found {
        drop_delivery(session, id, *seq, *signal)?;
    }
    Ok(found.len())
}

fn drop_delivery(session: &Session<'_>, id: &str, seq: i64, signal: i64) -> Outcome<()> {
    let sql = "DELETE FROM deliveries WHERE subscription_id = ?1 AND seq = ?2";
    session.run(sql, params![id, seq])?;
    drop_signal(session, signal)
}

/// Removes a signal if nothing needs it any longer.
pub(in crate::sqlite) fn drop_signal(session: &Session<'_>, signal: i64) -> Outcome<()> {
    let sql = "DELETE FROM signals WHERE row = ?1 \
        AND NOT EXISTS (SELECT 1 FROM deliveries WHERE signal = ?1)";
    session.run(sql, [signal]).map(|_| ())
}

/// Goes from subscription to subscription, not from delivery to delivery.
pub(super) fn subscriptions_due(
    connection: &Connection,
    now: Timestamp,
    limit: usize,
) -> Outcome<Vec<SubscriptionId>> {
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
            due.push(word("subscription", &id)?);
        }
        last = id;
    }
    transaction.finish()?;
    Ok(due)
}

pub(super) fn buried(connection: &Connection, limit: usize) -> Outcome<Vec<SignalDelivery>> {
    let sql = concat!(
        "SELECT ",
        delivery_columns!(),
        " FROM deliveries d INDEXED BY deliveries_dead CROSS JOIN signals s ON s.row = d.signal \
          WHERE d.dead_at IS NOT NULL \
          ORDER BY d.dead_at DESC, d.signal DESC, d.subscription_id, d.seq DESC LIMIT ?1"
    );
    all(connection, sql, [column(limit as u64)], read_delivery)
}

fn read_delivery(row: &Row<'_>) -> Outcome<SignalDelivery> {
    let body = match optional_text(row, 8)? {
        None => SignalBody::Sent(from_text("signal", text(row, 7)?)?),
        Some(key) => {
            let subject = Subject::from_key(key)
                .ok_or_else(|| StoreError::Corrupt("signal: no such subject".to_owned()))?;
            SignalBody::Event(subject, count("signal", row.get(9)?)?)
        }
    };
    Ok(SignalDelivery {
        subscription_id: word("delivery", text(row, 0)?)?,
        seq: count("delivery", row.get(1)?)?,
        attempt: count("delivery", row.get(2)?)?,
        signal: Signal {
            topic: word("signal", text(row, 3)?)?,
            id: word("signal", text(row, 4)?)?,
            publisher: word("signal", text(row, 5)?)?,
            at: moment(row.get(6)?),
            body,
        },
    })
}
