//! Outbox: entries are claimed when due, one per group at a time, and settled by the latest attempt.
//!
//! Exactly one waiting entry of a group is marked as head, and only such entries are claimed.
//! Adding, settling or replaying an entry of a group takes the group's lock, because it may change
//! which entry is first.

use super::PostgresStore;
use super::clock::now_or_server;
use super::commit::LOCK_GROUPS;
use super::pipeline::{begin_and_query, query_rows};
use super::text_encoding;
use super::tx_runner::TxOutcome;
use super::work_queue::limit_param;
use crate::codec::{
    int_from_column, parse_id, parse_raw_json, parse_subject, timestamp_from_column,
};
use async_trait::async_trait;
use deadpool_postgres::Object;
use interzone_hub::ports::{ChangeHint, DeadLetterQuery, OutboxClaim, OutboxStore, StoreError};
use interzone_hub::{DeliveryResult, DeliveryState, DeliveryStatus, OutboxEntry};
use interzone_protocol::vocab::{DeliveryId, Timestamp};
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

macro_rules! entry_columns {
    () => {
        "outbox.id, channel, key, group_name, owner, subject, payload, created_at, outbox.due_at, \
         attempt, error"
    };
}

/// Claims due entries: the first ones of each channel's index, then the earliest of all.
const CLAIM_OUTBOX: &str = concat!(
    "WITH picked AS (
         SELECT due.id, due.due_at, due.number
         FROM unnest($1::bytea[]) AS wanted (channel), LATERAL (
             SELECT id, due_at, number FROM outbox
             WHERE channel_hash = wanted.channel AND state = 'waiting' AND is_head AND due_at <= ",
    now_or_server!("$2"),
    " AND id <> ALL ($5::text[])
             ORDER BY due_at, number LIMIT $4
             FOR UPDATE SKIP LOCKED) AS due
         ORDER BY due.due_at, due.number LIMIT $4)
     UPDATE outbox SET attempt = attempt + 1, due_at = ",
    now_or_server!("$2"),
    " + $3::bigint
     FROM picked WHERE outbox.id = picked.id AND outbox.id = ANY (ARRAY(SELECT id FROM picked))
     RETURNING ",
    entry_columns!(),
    ", picked.due_at, picked.number"
);

/// Marks the first waiting entry of a group as head.
const PROMOTE_GROUP_HEAD: &str = "
    UPDATE outbox SET is_head = true
    WHERE NOT is_head AND id = (
        SELECT id FROM outbox WHERE group_hash = $1 AND state = 'waiting' ORDER BY number LIMIT 1)";

/// Unmarks the head of a group.
/// Written with a cast so that the planner cannot use the index of claimable entries instead of the group index.
const DEMOTE_GROUP_HEAD: &str = "UPDATE outbox SET is_head = false
    WHERE group_hash = $1 AND state = 'waiting' AND is_head::text = 'true'";

#[async_trait]
impl OutboxStore for PostgresStore {
    async fn claim_outbox(&self, claim: &OutboxClaim) -> Result<Vec<OutboxEntry>, StoreError> {
        let (channels, limit_param) = (channel_hashes(&claim.channels), limit_param(claim.limit));
        let carrying: Vec<&str> = claim.in_flight.iter().map(DeliveryId::as_str).collect();
        let clock = self.clock();
        let (now, hold) = (
            clock.now_param(claim.now),
            clock.duration_millis(claim.now, claim.lease),
        );
        if channels.is_empty() || limit_param == 0 {
            return Ok(Vec::new());
        }
        let (channels, carrying) = (&channels, &carrying);
        self.tx_runner
            .transact("claim outbox", |client| {
                Box::pin(async move {
                    let params: [&(dyn ToSql + Sync); 5] =
                        [channels, &now, &hold, &limit_param, carrying];
                    let mut rows = begin_and_query(&client, CLAIM_OUTBOX, &params).await?;
                    rows.sort_by_key(|row| (row.get::<_, i64>(11), row.get::<_, i64>(12)));
                    let entries: Result<Vec<_>, _> = rows.iter().map(read_entry).collect();
                    let entries = entries?;
                    Ok(if entries.is_empty() {
                        TxOutcome::ReadOnly(entries)
                    } else {
                        TxOutcome::Written(entries)
                    })
                })
            })
            .await
    }

    async fn settle_outbox(
        &self,
        id: &DeliveryId,
        attempt: u32,
        settlement: &DeliveryResult,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let clock = self.clock();
        let (state, wait, error) = match settlement {
            DeliveryResult::Delivered => ("delivered", None, None),
            DeliveryResult::Retry { due_at, error } => (
                "waiting",
                Some(clock.millis_between(now, *due_at)),
                Some(error),
            ),
            DeliveryResult::Dead { error } => ("dead", None, Some(error)),
        };
        let settled_at = (state != "waiting").then_some(now.as_millis());
        let error = error.map(|error| text_encoding::escape_nul(error));
        let (error, attempt, now) = (&error, i64::from(attempt), clock.now_param(now));
        let settled = self
            .tx_runner
            .transact("settle outbox", |client| {
                Box::pin(async move {
                    let group = self.begin_with_group_lock(&client, id).await?;
                    let sql = concat!(
                        "UPDATE outbox SET state = $3, settled_at = $4,
                             due_at = coalesce(",
                        now_or_server!("$7"),
                        " + $5::bigint, due_at), error = coalesce($6, error)
                         WHERE id = $1 AND attempt = $2 AND attempt > 0 AND state = 'waiting'
                         RETURNING id"
                    );
                    let id = id.as_str();
                    let params: [&(dyn ToSql + Sync); 7] =
                        [&id, &attempt, &state, &settled_at, &wait, error, &now];
                    if query_rows(&client, sql, &params).await?.is_empty() {
                        return Ok(TxOutcome::ReadOnly(None));
                    }
                    if let (Some(group), true) = (&group, settled_at.is_some()) {
                        query_rows(&client, PROMOTE_GROUP_HEAD, &[group]).await?;
                    }
                    // The entry itself, or the next one of its group, may be claimable now.
                    Ok(TxOutcome::Written(Some(
                        state == "waiting" || group.is_some(),
                    )))
                })
            })
            .await?;
        if settled == Some(true) {
            self.change_notifier.publish([ChangeHint::Outbox]);
        }
        Ok(settled.is_some())
    }

    async fn renew_outbox_lease(
        &self,
        id: &DeliveryId,
        attempt: u32,
        hold: Duration,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        // Lease renewal: extends the visibility timeout of the claimed attempt.
        let sql = concat!(
            "UPDATE outbox SET due_at = ",
            now_or_server!("$4"),
            " + $3::bigint
              WHERE id = $1 AND attempt = $2 AND attempt > 0 AND state = 'waiting' RETURNING id"
        );
        let clock = self.clock();
        let (attempt, hold) = (i64::from(attempt), clock.duration_millis(now, hold));
        let params: [&(dyn ToSql + Sync); 4] =
            [&id.as_str(), &attempt, &hold, &clock.now_param(now)];
        self.write_if_found("hold outbox", sql, &params).await
    }

    async fn abandon_outbox(
        &self,
        attempts: &[(DeliveryId, u32)],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let sql = concat!(
            "UPDATE outbox SET due_at = least(due_at, ",
            now_or_server!("$3"),
            ") FROM unnest($1::text[], $2::bigint[]) AS gone (id, attempt)
              WHERE outbox.id = ANY ($1) AND outbox.id = gone.id
                  AND outbox.attempt = gone.attempt AND outbox.attempt > 0 AND state = 'waiting'
              RETURNING outbox.id"
        );
        let ids: Vec<&str> = attempts.iter().map(|(id, _)| id.as_str()).collect();
        let numbers: Vec<i64> = attempts
            .iter()
            .map(|(_, attempt)| i64::from(*attempt))
            .collect();
        let params: [&(dyn ToSql + Sync); 3] = [&ids, &numbers, &self.clock().now_param(now)];
        if self.write_if_found("abandon outbox", sql, &params).await? {
            self.change_notifier.publish([ChangeHint::Outbox]);
        }
        Ok(())
    }

    async fn next_outbox_due(
        &self,
        channels: &[String],
        now: Timestamp,
    ) -> Result<Option<Duration>, StoreError> {
        let sql = concat!(
            "SELECT greatest(due.due_at - ",
            now_or_server!("$2"),
            ", 0) FROM unnest($1::bytea[]) AS wanted (channel), LATERAL (
                       SELECT due_at FROM outbox
                       WHERE channel_hash = wanted.channel AND state = 'waiting' AND is_head
                       ORDER BY due_at LIMIT 1) AS due
                   ORDER BY due.due_at LIMIT 1"
        );
        let params: [&(dyn ToSql + Sync); 2] =
            [&channel_hashes(channels), &self.clock().now_param(now)];
        let rows = self.tx_runner.query(sql, &params).await?;
        let wait = |row: &Row| {
            Ok(Duration::from_millis(int_from_column(
                "a wait",
                row.get(0),
            )?))
        };
        rows.first().map(wait).transpose()
    }

    async fn dead_letters(&self, query: &DeadLetterQuery) -> Result<Vec<OutboxEntry>, StoreError> {
        let sql = concat!(
            "SELECT ",
            entry_columns!(),
            " FROM outbox WHERE state = 'dead' AND ($1::bytea IS NULL OR channel_hash = $1)
                  AND ($2::text IS NULL OR owner = $2)
              ORDER BY settled_at DESC, number DESC LIMIT $3"
        );
        let channel = query.channel.as_deref().map(text_encoding::index_hash);
        let owner = query.owner.as_ref().map(|owner| owner.as_str());
        let limit_param = limit_param(query.limit);
        let rows = self
            .tx_runner
            .query(sql, &[&channel, &owner, &limit_param])
            .await?;
        rows.iter().map(read_entry).collect()
    }

    async fn replay_outbox(&self, id: &DeliveryId, now: Timestamp) -> Result<bool, StoreError> {
        let now = self.clock().now_param(now);
        let replayed = self
            .tx_runner
            .transact("replay outbox", |client| {
                Box::pin(async move {
                    let group = self.begin_with_group_lock(&client, id).await?;
                    // Written so that the planner cannot use the index of dead entries instead of the primary key.
                    let sql = concat!(
                        "UPDATE outbox SET state = 'waiting', attempt = 0, due_at = ",
                        now_or_server!("$2"),
                        ", error = NULL, settled_at = NULL, is_head = (group_hash IS NULL)
                         WHERE id = $1 AND state || '' = 'dead' RETURNING id"
                    );
                    if query_rows(&client, sql, &[&id.as_str(), &now])
                        .await?
                        .is_empty()
                    {
                        return Ok(TxOutcome::ReadOnly(false));
                    }
                    if let Some(group) = &group {
                        query_rows(&client, DEMOTE_GROUP_HEAD, &[group]).await?;
                        query_rows(&client, PROMOTE_GROUP_HEAD, &[group]).await?;
                    }
                    Ok(TxOutcome::Written(true))
                })
            })
            .await?;
        if replayed {
            self.change_notifier.publish([ChangeHint::Outbox]);
        }
        Ok(replayed)
    }

    async fn delivery_statuses(
        &self,
        channel: &str,
        keys: &[String],
    ) -> Result<Vec<DeliveryStatus>, StoreError> {
        let sql =
            "SELECT id, key, state, created_at, due_at, settled_at, attempt, error FROM outbox
                   WHERE key_hash = ANY($1::bytea[]) ORDER BY number";
        let hash = |key: &String| text_encoding::index_hash_pair(channel, key);
        let keys: Vec<Vec<u8>> = keys.iter().map(hash).collect();
        let rows = self.tx_runner.query(sql, &[&keys]).await?;
        rows.iter().map(read_delivery_status).collect()
    }

    async fn outbox_depth(&self) -> Result<(u64, u64), StoreError> {
        // Entries without a group are always heads and counted in that index, the others in the group index.
        let sql = "SELECT (SELECT count(*) FROM outbox
                           WHERE state = 'waiting' AND is_head AND group_hash IS NULL)
                        + (SELECT count(*) FROM outbox
                           WHERE state = 'waiting' AND group_hash IS NOT NULL),
                          (SELECT count(*) FROM outbox WHERE state = 'dead')";
        self.read_two_counts(sql, &[]).await
    }
}

impl PostgresStore {
    /// Begins a transaction that holds the lock of the entry's group, if it has one.
    async fn begin_with_group_lock(
        &self,
        client: &Object,
        id: &DeliveryId,
    ) -> Result<Option<Vec<u8>>, tokio_postgres::Error> {
        let sql = "SELECT group_name, group_hash FROM outbox WHERE id = $1";
        let rows = begin_and_query(client, sql, &[&id.as_str()]).await?;
        let group = rows.first().and_then(|row| {
            let name: Option<&str> = row.get(0);
            name.map(|name| {
                (
                    self.group_lock_key(&text_encoding::unescape_nul(name)),
                    row.get(1),
                )
            })
        });
        let Some((key, hash)) = group else {
            return Ok(None);
        };
        query_rows(client, LOCK_GROUPS, &[&vec![key]]).await?;
        Ok(Some(hash))
    }
}

fn channel_hashes(channels: &[String]) -> Vec<Vec<u8>> {
    let mut hashes: Vec<_> = channels
        .iter()
        .map(|channel| text_encoding::index_hash(channel))
        .collect();
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

fn read_entry(row: &Row) -> Result<OutboxEntry, StoreError> {
    Ok(OutboxEntry {
        id: parse_id("an outbox entry", row.get(0))?,
        channel: text_encoding::unescape_nul(row.get(1)),
        key: text_encoding::unescape_nul(row.get(2)),
        group: row
            .get::<_, Option<&str>>(3)
            .map(text_encoding::unescape_nul),
        owner: parse_id("an outbox entry", row.get(4))?,
        subject: row
            .get::<_, Option<&str>>(5)
            .map(parse_subject)
            .transpose()?,
        payload: parse_raw_json("an outbox entry", row.get(6))?,
        created_at: timestamp_from_column(row.get(7)),
        due_at: timestamp_from_column(row.get(8)),
        attempt: int_from_column("an outbox entry", row.get(9))?,
        error: row
            .get::<_, Option<&str>>(10)
            .map(text_encoding::unescape_nul),
    })
}

fn read_delivery_status(row: &Row) -> Result<DeliveryStatus, StoreError> {
    Ok(DeliveryStatus {
        id: parse_id("an outbox entry", row.get(0))?,
        key: text_encoding::unescape_nul(row.get(1)),
        state: match row.get(2) {
            "waiting" => DeliveryState::Waiting,
            "delivered" => DeliveryState::Delivered,
            _ => DeliveryState::Dead,
        },
        created_at: timestamp_from_column(row.get(3)),
        due_at: timestamp_from_column(row.get(4)),
        settled_at: row.get::<_, Option<i64>>(5).map(timestamp_from_column),
        attempt: int_from_column("an outbox entry", row.get(6))?,
        error: row
            .get::<_, Option<&str>>(7)
            .map(text_encoding::unescape_nul),
    })
}
