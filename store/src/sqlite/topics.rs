//! Topic subscriptions, and deliveries of signals to them.

use super::SqliteStore;
use super::apply::require_changed;
use super::error::SqliteResult;
use super::rows::{all, first, optional_text, text};
use super::write_job::WriteSession;
use crate::codec::{
    from_json_text, from_optional_json_text, int_from_column, int_to_column, parse_enum, parse_id,
    timestamp_from_column,
};
use async_trait::async_trait;
use interzone_hub::ports::{StoreError, SubscriptionQuery, TopicStore};
use interzone_hub::{AckOutcome, SignalDelivery, Subscription, SubscriptionState};
use interzone_protocol::vocab::{SignalId, SubscriptionId, Timestamp};
use rusqlite::{Connection, Row, params};
use std::time::Duration;

mod signals;

pub(super) use signals::{drop_deliveries, drop_orphan_signal, publish};

/// Columns that [`read_subscription`] reads, in its order.
macro_rules! subscription_columns {
    () => {
        "id, owner, patterns, allowed_patterns, state, dialect_data, created_at, expires_at, revision"
    };
}

#[async_trait]
impl TopicStore for SqliteStore {
    async fn subscription(&self, id: &SubscriptionId) -> Result<Option<Subscription>, StoreError> {
        let id = id.clone();
        self.read(move |connection| {
            let sql = concat!(
                "SELECT ",
                subscription_columns!(),
                " FROM subscriptions WHERE id = ?1"
            );
            first(connection, sql, [id.as_str()], read_subscription)
        })
        .await
    }

    async fn subscriptions(
        &self,
        query: &SubscriptionQuery,
    ) -> Result<(Vec<Subscription>, u64), StoreError> {
        let query = query.clone();
        self.read(move |connection| list_subscriptions(connection, &query))
            .await
    }

    async fn active_subscriptions(
        &self,
        known_epoch: Option<u64>,
    ) -> Result<Option<(u64, Vec<Subscription>)>, StoreError> {
        self.read(move |connection| {
            // The epoch and the subscriptions must be of one snapshot.
            let transaction = connection.unchecked_transaction()?;
            let sql = "SELECT value FROM meta WHERE name = 'subscription_epoch'";
            let epoch = first(connection, sql, [], |row| {
                Ok(int_from_column::<u64>("epoch", row.get(0)?)?)
            })?;
            let epoch = epoch.unwrap_or(0);
            if known_epoch == Some(epoch) {
                return Ok(None);
            }
            let sql = concat!(
                "SELECT ",
                subscription_columns!(),
                " FROM subscriptions WHERE state = ?1 ORDER BY created_at, number"
            );
            let active = SubscriptionState::Active.name();
            let active = all(connection, sql, [active], read_subscription)?;
            transaction.finish()?;
            Ok(Some((epoch, active)))
        })
        .await
    }

    async fn claim_signals(
        &self,
        id: &SubscriptionId,
        now: Timestamp,
        waits: &[Duration],
        limit: usize,
    ) -> Result<Vec<SignalDelivery>, StoreError> {
        let (id, waits) = (id.clone(), waits.to_vec());
        self.write(move |session| signals::claim(session, &id, now, &waits, limit))
            .await
    }

    async fn unacked_signals(
        &self,
        id: &SubscriptionId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<SignalDelivery>, StoreError> {
        let id = id.clone();
        self.read(move |connection| signals::unacked(connection, &id, after, limit))
            .await
    }

    async fn ack_signals(
        &self,
        id: &SubscriptionId,
        signals: &[SignalId],
        now: Timestamp,
    ) -> Result<Vec<AckOutcome>, StoreError> {
        let (id, ids) = (id.clone(), signals.to_vec());
        self.write(move |session| {
            ids.iter()
                .map(|signal| signals::ack(session, &id, signal, now))
                .collect()
        })
        .await
    }

    async fn dead_letter_signal(
        &self,
        id: &SubscriptionId,
        seq: u64,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let id = id.clone();
        self.write(move |session| {
            let sql = "UPDATE deliveries SET dead_at = ?3 \
                WHERE subscription_id = ?1 AND seq = ?2 AND dead_at IS NULL";
            let values = params![id.as_str(), int_to_column(seq), now.as_millis()];
            session.run(sql, values).map(|_| ())
        })
        .await
    }

    async fn subscriptions_due(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<SubscriptionId>, StoreError> {
        self.read(move |connection| signals::subscriptions_due(connection, now, limit))
            .await
    }

    async fn dead_signals(&self, limit: usize) -> Result<Vec<SignalDelivery>, StoreError> {
        self.read(move |connection| signals::dead_signals(connection, limit))
            .await
    }
}

fn read_subscription(row: &Row<'_>) -> SqliteResult<Subscription> {
    Ok(Subscription {
        id: parse_id("subscription", text(row, 0)?)?,
        owner: parse_id("subscription", text(row, 1)?)?,
        patterns: from_json_text("subscription", text(row, 2)?)?,
        allowed_patterns: from_optional_json_text("subscription", optional_text(row, 3)?)?,
        state: parse_enum("subscription", text(row, 4)?, SubscriptionState::from_name)?,
        dialect_data: from_optional_json_text("subscription", optional_text(row, 5)?)?,
        created_at: timestamp_from_column(row.get(6)?),
        expires_at: row.get::<_, Option<i64>>(7)?.map(timestamp_from_column),
        revision: int_from_column("subscription", row.get(8)?)?,
    })
}

fn list_subscriptions(
    connection: &Connection,
    query: &SubscriptionQuery,
) -> SqliteResult<(Vec<Subscription>, u64)> {
    let transaction = connection.unchecked_transaction()?;
    let indexed_condition = match (&query.owner, query.state) {
        (Some(_), Some(_)) => "INDEXED BY subscriptions_by_owner WHERE owner = ?1 AND state = ?2",
        (Some(_), None) => "INDEXED BY subscriptions_by_owner WHERE owner = ?1 AND ?2 IS NULL",
        (None, Some(_)) => "INDEXED BY subscriptions_by_state WHERE ?1 IS NULL AND state = ?2",
        (None, None) => "INDEXED BY subscriptions_by_age WHERE ?1 IS NULL AND ?2 IS NULL",
    };
    let owner = query.owner.as_ref().map(|owner| owner.as_str());
    let state = query.state.map(SubscriptionState::name);
    let sql = format!(
        "SELECT {} FROM subscriptions {indexed_condition} ORDER BY created_at, number LIMIT ?3 OFFSET ?4",
        subscription_columns!()
    );
    let (limit, offset) = (
        int_to_column(query.limit as u64),
        int_to_column(query.offset as u64),
    );
    let values = params![owner, state, limit, offset];
    let found = all(connection, &sql, values, read_subscription)?;
    let sql = format!("SELECT count(*) FROM subscriptions {indexed_condition}");
    let total = first(connection, &sql, params![owner, state], |row| {
        Ok(int_from_column("subscriptions", row.get(0)?)?)
    })?;
    transaction.finish()?;
    Ok((found, total.unwrap_or(0)))
}

/// Inserts a subscription; its patterns are encoded already.
pub(super) fn create(
    session: &mut WriteSession<'_>,
    subscription: &Subscription,
    at: Timestamp,
    patterns: Option<&str>,
    allowed: Option<&str>,
) -> SqliteResult<()> {
    let sql = concat!(
        "INSERT INTO subscriptions (",
        subscription_columns!(),
        ", ended_at, last_delivery_seq) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, 0)"
    );
    write_subscription(session, sql, subscription, at, patterns, allowed)
}

/// Updates a subscription whose stored revision is the previous one.
pub(super) fn update(
    session: &mut WriteSession<'_>,
    subscription: &Subscription,
    at: Timestamp,
    patterns: Option<&str>,
    allowed: Option<&str>,
) -> SqliteResult<()> {
    let sql = "UPDATE subscriptions SET owner = ?2, patterns = ?3, allowed_patterns = ?4, state = ?5, \
        dialect_data = ?6, created_at = ?7, expires_at = ?8, revision = ?9, \
        ended_at = CASE WHEN ?10 IS NULL THEN NULL ELSE coalesce(ended_at, ?10) END \
        WHERE id = ?1 AND revision = ?9 - 1";
    write_subscription(session, sql, subscription, at, patterns, allowed)
}

fn write_subscription(
    session: &mut WriteSession<'_>,
    sql: &str,
    subscription: &Subscription,
    at: Timestamp,
    patterns: Option<&str>,
    allowed: Option<&str>,
) -> SqliteResult<()> {
    use SubscriptionState::{Denied, Expired, Revoked};
    let ended = matches!(subscription.state, Denied | Revoked | Expired);
    let values = params![
        subscription.id.as_str(),
        subscription.owner.as_str(),
        patterns,
        allowed,
        subscription.state.name(),
        subscription
            .dialect_data
            .as_ref()
            .map(|about| about.as_str()),
        subscription.created_at.as_millis(),
        subscription.expires_at.map(Timestamp::as_millis),
        int_to_column(subscription.revision),
        ended.then_some(at.as_millis()),
    ];
    require_changed(session.run(sql, values)?)?;
    raise_epoch(session)
}

/// Removes a subscription with its deliveries, if it exists.
pub(super) fn remove(session: &mut WriteSession<'_>, id: &str) -> SqliteResult<()> {
    if session.run("DELETE FROM subscriptions WHERE id = ?1", [id])? == 0 {
        return Ok(());
    }
    drop_deliveries(session, id, usize::MAX)?;
    session.run(
        "DELETE FROM acknowledgements WHERE subscription_id = ?1",
        [id],
    )?;
    raise_epoch(session)
}

/// Increments the epoch of the subscriptions.
pub(super) fn raise_epoch(session: &mut WriteSession<'_>) -> SqliteResult<()> {
    session.counters.epoch = None;
    session.run(
        "UPDATE meta SET value = value + 1 WHERE name = 'subscription_epoch'",
        [],
    )?;
    session.hints.subscriptions = true;
    Ok(())
}
