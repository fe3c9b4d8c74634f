//! Topic subscriptions, and deliveries of signals to them.

use super::PostgresStore;
use super::clock::now_or_server;
use super::pipeline::begin_and_query;
use super::tx_runner::TxOutcome;
use super::work_queue::limit_param;
use crate::codec::{
    from_json_text, from_optional_json_text, int_from_column, int_to_column, parse_enum, parse_id,
    parse_raw_json, parse_subject, timestamp_from_column,
};
use async_trait::async_trait;
use interzone_hub::ports::{StoreError, SubscriptionQuery, TopicStore};
use interzone_hub::{
    AckOutcome, Signal, SignalBody, SignalDelivery, Subscription, SubscriptionState,
};
use interzone_protocol::vocab::{SignalId, SubscriptionId, Timestamp};
use std::collections::HashMap;
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

macro_rules! subscription_columns {
    () => {
        "id, owner, patterns, allowed_patterns, state, dialect_data, created_at, expires_at, revision"
    };
}

macro_rules! delivery_columns {
    () => {
        "given.subscription_id, given.seq, given.attempt, signals.topic, signals.id, \
         signals.publisher, signals.at, signals.body, signals.event_subject, signals.event_seq"
    };
}

const CLAIM_SIGNALS: &str = concat!(
    "WITH picked AS (
         SELECT seq FROM deliveries
         WHERE subscription_id = $1 AND state = 'waiting' AND due_at <= ",
    now_or_server!("$2"),
    "
         ORDER BY seq LIMIT $3 FOR UPDATE SKIP LOCKED),
     given AS (
         UPDATE deliveries SET attempt = attempt + 1,
             due_at = ",
    now_or_server!("$2"),
    " + ($4::bigint[])[least(attempt + 1, cardinality($4::bigint[]))]
         FROM picked WHERE subscription_id = $1 AND deliveries.seq = picked.seq
         RETURNING subscription_id, deliveries.seq, attempt, signal_number)
     SELECT ",
    delivery_columns!(),
    " FROM given
     CROSS JOIN LATERAL (SELECT * FROM signals WHERE number = given.signal_number OFFSET 0) AS signals
     ORDER BY given.seq"
);

/// Acknowledges waiting and dead deliveries; returns per signal id whether any was acknowledged now.
const ACK_SIGNALS: &str = "
    WITH mine AS (
        SELECT seq, signal_id, state FROM deliveries
        WHERE subscription_id = $1 AND signal_id = ANY ($2) ORDER BY seq FOR UPDATE),
    acked AS (
        UPDATE deliveries SET state = 'acked', settled_at = $3
        FROM mine
        WHERE subscription_id = $1 AND deliveries.seq = mine.seq AND mine.state <> 'acked'
        RETURNING deliveries.seq)
    SELECT signal_id, bool_or(state <> 'acked') FROM mine GROUP BY signal_id";

#[async_trait]
impl TopicStore for PostgresStore {
    async fn subscription(&self, id: &SubscriptionId) -> Result<Option<Subscription>, StoreError> {
        let sql = concat!(
            "SELECT ",
            subscription_columns!(),
            " FROM subscriptions WHERE id = $1"
        );
        let rows = self.tx_runner.query(sql, &[&id.as_str()]).await?;
        rows.first()
            .map(|row| read_subscription(row, 0))
            .transpose()
    }

    async fn subscriptions(
        &self,
        query: &SubscriptionQuery,
    ) -> Result<(Vec<Subscription>, u64), StoreError> {
        let owner = query.owner.as_ref().map(|owner| owner.as_str());
        let state = query.state.map(SubscriptionState::name);
        // A separate statement per case, so that those of one owner are found by their index.
        let condition = match owner {
            Some(_) => "owner = $1 AND ($2::text IS NULL OR state = $2)",
            None => "$1::text IS NULL AND ($2::text IS NULL OR state = $2)",
        };
        let sql = format!("SELECT count(*) FROM subscriptions WHERE {condition}");
        let rows = self.tx_runner.query(&sql, &[&owner, &state]).await?;
        let total = int_from_column("a count", rows.first().map_or(0, |row| row.get(0)))?;
        let sql = format!(
            concat!(
                "SELECT ",
                subscription_columns!(),
                " FROM subscriptions WHERE {} ORDER BY created_at, number OFFSET $3 LIMIT $4"
            ),
            condition
        );
        let params: [&(dyn ToSql + Sync); 4] = [
            &owner,
            &state,
            &limit_param(query.offset),
            &limit_param(query.limit),
        ];
        let rows = self.tx_runner.query(&sql, &params).await?;
        let all: Result<Vec<_>, _> = rows.iter().map(|row| read_subscription(row, 0)).collect();
        Ok((all?, total))
    }

    async fn active_subscriptions(
        &self,
        known_epoch: Option<u64>,
    ) -> Result<Option<(u64, Vec<Subscription>)>, StoreError> {
        // One statement, so that the list matches the epoch.
        let sql = concat!(
            "SELECT epoch, ",
            subscription_columns!(),
            " FROM subscription_epoch LEFT JOIN subscriptions ON state = 'active'
              WHERE epoch IS DISTINCT FROM $1 ORDER BY created_at, number"
        );
        let rows = self
            .tx_runner
            .query(sql, &[&known_epoch.map(int_to_column)])
            .await?;
        let Some(first) = rows.first() else {
            return Ok(None);
        };
        let epoch = int_from_column("the epoch", first.get(0))?;
        let with_subscription = rows
            .iter()
            .filter(|row| row.get::<_, Option<&str>>(1).is_some());
        let all: Result<Vec<_>, _> = with_subscription
            .map(|row| read_subscription(row, 1))
            .collect();
        Ok(Some((epoch, all?)))
    }

    async fn claim_signals(
        &self,
        id: &SubscriptionId,
        now: Timestamp,
        waits: &[Duration],
        most: usize,
    ) -> Result<Vec<SignalDelivery>, StoreError> {
        let clock = self.clock();
        let mut waits: Vec<i64> = waits
            .iter()
            .map(|wait| clock.duration_millis(now, *wait))
            .collect();
        if waits.is_empty() {
            waits.push(0);
        }
        let (waits, now, most) = (&waits, clock.now_param(now), limit_param(most));
        self.tx_runner
            .transact("claim signals", |client| {
                Box::pin(async move {
                    let params: [&(dyn ToSql + Sync); 4] = [&id.as_str(), &now, &most, waits];
                    let rows = begin_and_query(&client, CLAIM_SIGNALS, &params).await?;
                    let deliveries: Result<Vec<_>, _> = rows.iter().map(read_delivery).collect();
                    let deliveries = deliveries?;
                    Ok(if deliveries.is_empty() {
                        TxOutcome::ReadOnly(deliveries)
                    } else {
                        TxOutcome::Written(deliveries)
                    })
                })
            })
            .await
    }

    async fn unacked_signals(
        &self,
        id: &SubscriptionId,
        after: u64,
        most: usize,
    ) -> Result<Vec<SignalDelivery>, StoreError> {
        let sql = concat!(
            "SELECT ",
            delivery_columns!(),
            " FROM deliveries AS given
              CROSS JOIN LATERAL (SELECT * FROM signals WHERE number = given.signal_number OFFSET 0) AS signals
              WHERE given.subscription_id = $1 AND given.seq > $2 AND given.state = 'waiting'
              ORDER BY given.seq LIMIT $3"
        );
        let params: [&(dyn ToSql + Sync); 3] =
            [&id.as_str(), &int_to_column(after), &limit_param(most)];
        let rows = self.tx_runner.query(sql, &params).await?;
        rows.iter().map(read_delivery).collect()
    }

    async fn ack_signals(
        &self,
        id: &SubscriptionId,
        signals: &[SignalId],
        now: Timestamp,
    ) -> Result<Vec<AckOutcome>, StoreError> {
        if signals.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<&str> = signals.iter().map(SignalId::as_str).collect();
        let (ids, now) = (&ids, now.as_millis());
        let found: HashMap<String, bool> = self
            .tx_runner
            .transact("ack signals", |client| {
                Box::pin(async move {
                    let rows =
                        begin_and_query(&client, ACK_SIGNALS, &[&id.as_str(), ids, &now]).await?;
                    let found = rows.iter().map(|row| (row.get(0), row.get(1)));
                    let found: HashMap<String, bool> = found.collect();
                    Ok(if found.values().any(|now| *now) {
                        TxOutcome::Written(found)
                    } else {
                        TxOutcome::ReadOnly(found)
                    })
                })
            })
            .await?;
        let outcomes = signals
            .iter()
            .map(|signal| match found.get(signal.as_str()) {
                Some(true) => AckOutcome::Acknowledged,
                Some(false) => AckOutcome::AlreadyAcknowledged,
                None => AckOutcome::Unknown,
            });
        Ok(outcomes.collect())
    }

    async fn dead_letter_signal(
        &self,
        id: &SubscriptionId,
        seq: u64,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let sql = "UPDATE deliveries SET state = 'dead', settled_at = $3
                   WHERE subscription_id = $1 AND seq = $2 AND state = 'waiting' RETURNING seq";
        let params: [&(dyn ToSql + Sync); 3] =
            [&id.as_str(), &int_to_column(seq), &now.as_millis()];
        self.write_if_found("bury signal", sql, &params).await?;
        Ok(())
    }

    async fn subscriptions_due(
        &self,
        now: Timestamp,
        most: usize,
    ) -> Result<Vec<SubscriptionId>, StoreError> {
        // Each subscription's index gives its earliest delivery; the longest waiting comes first.
        let sql = concat!(
            "SELECT delivery_cursors.subscription_id FROM delivery_cursors, LATERAL (
                       SELECT due_at FROM deliveries
                       WHERE subscription_id = delivery_cursors.subscription_id AND state = 'waiting'
                           AND due_at <= ",
            now_or_server!("$1"),
            " ORDER BY due_at LIMIT 1) AS due
                   ORDER BY due.due_at LIMIT $2"
        );
        let params: [&(dyn ToSql + Sync); 2] = [&self.clock().now_param(now), &limit_param(most)];
        let rows = self.tx_runner.query(sql, &params).await?;
        rows.iter()
            .map(|row| parse_id("a subscription", row.get(0)))
            .collect()
    }

    async fn dead_signals(&self, most: usize) -> Result<Vec<SignalDelivery>, StoreError> {
        let sql = concat!(
            "SELECT ",
            delivery_columns!(),
            " FROM deliveries AS given
              CROSS JOIN LATERAL (SELECT * FROM signals WHERE number = given.signal_number OFFSET 0) AS signals
              WHERE given.state = 'dead'
              ORDER BY given.settled_at DESC, given.signal_number DESC LIMIT $1"
        );
        let rows = self.tx_runner.query(sql, &[&limit_param(most)]).await?;
        rows.iter().map(read_delivery).collect()
    }
}

fn read_subscription(row: &Row, first_column: usize) -> Result<Subscription, StoreError> {
    let about: Option<&str> = row.get(first_column + 5);
    Ok(Subscription {
        id: parse_id("a subscription", row.get(first_column))?,
        owner: parse_id("a subscription", row.get(first_column + 1))?,
        patterns: from_json_text("a subscription", row.get(first_column + 2))?,
        allowed_patterns: from_optional_json_text("a subscription", row.get(first_column + 3))?,
        state: parse_enum(
            "a subscription",
            row.get(first_column + 4),
            SubscriptionState::from_name,
        )?,
        dialect_data: about
            .map(|about| parse_raw_json("a subscription", about))
            .transpose()?,
        created_at: timestamp_from_column(row.get(first_column + 6)),
        expires_at: row
            .get::<_, Option<i64>>(first_column + 7)
            .map(timestamp_from_column),
        revision: int_from_column("a subscription", row.get(first_column + 8))?,
    })
}

fn read_delivery(row: &Row) -> Result<SignalDelivery, StoreError> {
    let body = match (row.get(7), row.get(8), row.get(9)) {
        (Some(body), _, _) => SignalBody::Sent(parse_raw_json("a signal", body)?),
        (None, Some(key), Some(seq)) => {
            SignalBody::Event(parse_subject(key)?, int_from_column("a signal", seq)?)
        }
        _ => {
            return Err(StoreError::Corrupt(
                "a signal has neither body nor event".to_owned(),
            ));
        }
    };
    Ok(SignalDelivery {
        subscription_id: parse_id("a delivery", row.get(0))?,
        seq: int_from_column("a delivery", row.get(1))?,
        attempt: int_from_column("a delivery", row.get(2))?,
        signal: Signal {
            topic: parse_id("a signal", row.get(3))?,
            id: parse_id("a signal", row.get(4))?,
            publisher: parse_id("a signal", row.get(5))?,
            at: timestamp_from_column(row.get(6)),
            body,
        },
    })
}
