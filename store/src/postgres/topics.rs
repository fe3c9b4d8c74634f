//! Subscriptions, and signals on their way to them.

use super::PostgresStore;
use super::moments::now_or_server;
use super::pipeline::begin_with;
use super::session::Done;
use super::work::limit;
use crate::codec::{
    column, count, from_optional_text, from_text, json, moment, name, subject, word,
};
use async_trait::async_trait;
use interzone_hub::ports::{StoreError, SubscriptionQuery, TopicStore};
use interzone_hub::{Acked, Signal, SignalBody, SignalDelivery, Subscription, SubscriptionState};
use interzone_protocol::vocab::{SignalId, SubscriptionId, Timestamp};
use std::collections::HashMap;
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

macro_rules! subscription_columns {
    () => {
        "id, owner, patterns, allowed, state, about, created_at, expires_at, revision"
    };
}

macro_rules! delivery_columns {
    () => {
        "given.subscription_id, given.seq, given.attempt, signals.topic, signals.id, \
         signals.publisher, signals.at, signals.body, signals.event_subject, signals.event_seq"
    };
}

const CLAIM: &str = concat!(
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
         RETURNING subscription_id, deliveries.seq, attempt, signal)
     SELECT ",
    delivery_columns!(),
    " FROM given
     CROSS JOIN LATERAL (SELECT * FROM signals WHERE number = given.signal OFFSET 0) AS signals
     ORDER BY given.seq"
);

/// What was due, or given up, is acknowledged now; of each id it is told whether there was such.
const ACK: &str = "
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
        let rows = self.session.rows(sql, &[&id.as_str()]).await?;
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
        // Each has a plan of its own, so that those of one owner are found by their index.
        let condition = match owner {
            Some(_) => "owner = $1 AND ($2::text IS NULL OR state = $2)",
            None => "$1::text IS NULL AND ($2::text IS NULL OR state = $2)",
        };
        let sql = format!("SELECT count(*) FROM subscriptions WHERE {condition}");
        let rows = self.session.rows(&sql, &[&owner, &state]).await?;
        let total = count("a count", rows.first().map_or(0, |row| row.get(0)))?;
        let sql = format!(
            concat!(
                "SELECT ",
                subscription_columns!(),
                " FROM subscriptions WHERE {} ORDER BY created_at, place OFFSET $3 LIMIT $4"
            ),
            condition
        );
        let params: [&(dyn ToSql + Sync); 4] =
            [&owner, &state, &limit(query.offset), &limit(query.limit)];
        let rows = self.session.rows(&sql, &params).await?;
        let all: Result<Vec<_>, _> = rows.iter().map(|row| read_subscription(row, 0)).collect();
        Ok((all?, total))
    }

    async fn active_subscriptions(
        &self,
        known: Option<u64>,
    ) -> Result<Option<(u64, Vec<Subscription>)>, StoreError> {
        // One statement, so that the list is the one of the epoch.
        let sql = concat!(
            "SELECT number, ",
            subscription_columns!(),
            " FROM epoch LEFT JOIN subscriptions ON state = 'active'
              WHERE number IS DISTINCT FROM $1 ORDER BY created_at, place"
        );
        let rows = self.session.rows(sql, &[&known.map(column)]).await?;
        let Some(first) = rows.first() else {
            return Ok(None);
        };
        let epoch = count("the epoch", first.get(0))?;
        let there = rows
            .iter()
            .filter(|row| row.get::<_, Option<&str>>(1).is_some());
        let all: Result<Vec<_>, _> = there.map(|row| read_subscription(row, 1)).collect();
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
        let mut waits: Vec<i64> = waits.iter().map(|wait| clock.length(now, *wait)).collect();
        if waits.is_empty() {
            waits.push(0);
        }
        let (waits, now, most) = (&waits, clock.now(now), limit(most));
        self.session
            .transact("claim signals", |client| {
                Box::pin(async move {
                    let params: [&(dyn ToSql + Sync); 4] = [&id.as_str(), &now, &most, waits];
                    let rows = begin_with(&client, CLAIM, &params).await?;
                    let given: Result<Vec<_>, _> = rows.iter().map(read_delivery).collect();
                    let given = given?;
                    Ok(if given.is_empty() {
                        Done::Nothing(given)
                    } else {
                        Done::Written(given)
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
              CROSS JOIN LATERAL (SELECT * FROM signals WHERE number = given.signal OFFSET 0) AS signals
              WHERE given.subscription_id = $1 AND given.seq > $2 AND given.state = 'waiting'
              ORDER BY given.seq LIMIT $3"
        );
        let params: [&(dyn ToSql + Sync); 3] = [&id.as_str(), &column(after), &limit(most)];
        let rows = self.session.rows(sql, &params).await?;
        rows.iter().map(read_delivery).collect()
    }

    async fn ack_signals(
        &self,
        id: &SubscriptionId,
        signals: &[SignalId],
        now: Timestamp,
    ) -> Result<Vec<Acked>, StoreError> {
        if signals.is_empty() {
            return Ok(Vec::new());
        }
        let ids: Vec<&str> = signals.iter().map(SignalId::as_str).collect();
        let (ids, now) = (&ids, now.as_millis());
        let found: HashMap<String, bool> = self
            .session
            .transact("ack signals", |client| {
                Box::pin(async move {
                    let rows = begin_with(&client, ACK, &[&id.as_str(), ids, &now]).await?;
                    let found = rows.iter().map(|row| (row.get(0), row.get(1)));
                    let found: HashMap<String, bool> = found.collect();
                    Ok(if found.values().any(|now| *now) {
                        Done::Written(found)
                    } else {
                        Done::Nothing(found)
                    })
                })
            })
            .await?;
        let became = signals
            .iter()
            .map(|signal| match found.get(signal.as_str()) {
                Some(true) => Acked::Now,
                Some(false) => Acked::Before,
                None => Acked::Unknown,
            });
        Ok(became.collect())
    }

    async fn bury_signal(
        &self,
        id: &SubscriptionId,
        seq: u64,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let sql = "UPDATE deliveries SET state = 'dead', settled_at = $3
                   WHERE subscription_id = $1 AND seq = $2 AND state = 'waiting' RETURNING seq";
        let params: [&(dyn ToSql + Sync); 3] = [&id.as_str(), &column(seq), &now.as_millis()];
        self.write_if_found("bury signal", sql, &params).await?;
        Ok(())
    }

    async fn subscriptions_due(
        &self,
        now: Timestamp,
        most: usize,
    ) -> Result<Vec<SubscriptionId>, StoreError> {
        // Each subscription's own index tells its first; whoever waits longest comes first.
        let sql = concat!(
            "SELECT cursors.subscription_id FROM cursors, LATERAL (
                       SELECT due_at FROM deliveries
                       WHERE subscription_id = cursors.subscription_id AND state = 'waiting'
                           AND due_at <= ",
            now_or_server!("$1"),
            " ORDER BY due_at LIMIT 1) AS due
                   ORDER BY due.due_at LIMIT $2"
        );
        let params: [&(dyn ToSql + Sync); 2] = [&self.clock().now(now), &limit(most)];
        let rows = self.session.rows(sql, &params).await?;
        rows.iter()
            .map(|row| word("a subscription", row.get(0)))
            .collect()
    }

    async fn buried_signals(&self, most: usize) -> Result<Vec<SignalDelivery>, StoreError> {
        let sql = concat!(
            "SELECT ",
            delivery_columns!(),
            " FROM deliveries AS given
              CROSS JOIN LATERAL (SELECT * FROM signals WHERE number = given.signal OFFSET 0) AS signals
              WHERE given.state = 'dead'
              ORDER BY given.settled_at DESC, given.signal DESC LIMIT $1"
        );
        let rows = self.session.rows(sql, &[&limit(most)]).await?;
        rows.iter().map(read_delivery).collect()
    }
}

fn read_subscription(row: &Row, from: usize) -> Result<Subscription, StoreError> {
    let about: Option<&str> = row.get(from + 5);
    Ok(Subscription {
        id: word("a subscription", row.get(from))?,
        owner: word("a subscription", row.get(from + 1))?,
        patterns: from_text("a subscription", row.get(from + 2))?,
        allowed: from_optional_text("a subscription", row.get(from + 3))?,
        state: name(
            "a subscription",
            row.get(from + 4),
            SubscriptionState::from_name,
        )?,
        about: about
            .map(|about| json("a subscription", about))
            .transpose()?,
        created_at: moment(row.get(from + 6)),
        expires_at: row.get::<_, Option<i64>>(from + 7).map(moment),
        revision: count("a subscription", row.get(from + 8))?,
    })
}

fn read_delivery(row: &Row) -> Result<SignalDelivery, StoreError> {
    let body = match (row.get(7), row.get(8), row.get(9)) {
        (Some(body), _, _) => SignalBody::Sent(json("a signal", body)?),
        (None, Some(key), Some(seq)) => SignalBody::Event(subject(key)?, count("a signal", seq)?),
        _ => return Err(StoreError::Corrupt("a signal says nothing".to_owned())),
    };
    Ok(SignalDelivery {
        subscription_id: word("a delivery", row.get(0))?,
        seq: count("a delivery", row.get(1))?,
        attempt: count("a delivery", row.get(2))?,
        signal: Signal {
            topic: word("a signal", row.get(3))?,
            id: word("a signal", row.get(4))?,
            publisher: word("a signal", row.get(5))?,
            at: moment(row.get(6)),
            body,
        },
    })
}
