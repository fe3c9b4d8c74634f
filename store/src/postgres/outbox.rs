//! The outbox: claimed when due, one of a group at a time, settled by the latest attempt.
//!
//! Of the waiting entries of a group exactly one is marked `first`, and only what is first is ever
//! claimed. Whoever changes which one it is holds the group's lock: whoever adds, settles or replays
//! an entry of it.

use super::PostgresStore;
use super::commit::LOCK_GROUPS;
use super::moments::now_or_server;
use super::pipeline::{ask, begin_with};
use super::session::Done;
use super::text;
use super::work::limit;
use crate::codec::{count, json, moment, subject, word};
use async_trait::async_trait;
use deadpool_postgres::Object;
use interzone_hub::ports::{DeadLetterQuery, OutboxClaim, OutboxStore, StoreError, Wake};
use interzone_hub::{Carried, Fate, OutboxEntry, Settlement};
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

/// Each channel's own index gives its first ones; the first of all are kept.
const CLAIM: &str = concat!(
    "WITH picked AS (
         SELECT due.id, due.due_at, due.place
         FROM unnest($1::bytea[]) AS wanted (channel), LATERAL (
             SELECT id, due_at, place FROM outbox
             WHERE channel_hash = wanted.channel AND state = 'waiting' AND first AND due_at <= ",
    now_or_server!("$2"),
    " AND id <> ALL ($5::text[])
             ORDER BY due_at, place LIMIT $4
             FOR UPDATE SKIP LOCKED) AS due
         ORDER BY due.due_at, due.place LIMIT $4)
     UPDATE outbox SET attempt = attempt + 1, due_at = ",
    now_or_server!("$2"),
    " + $3::bigint
     FROM picked WHERE outbox.id = picked.id AND outbox.id = ANY (ARRAY(SELECT id FROM picked))
     RETURNING ",
    entry_columns!(),
    ", picked.due_at, picked.place"
);

/// Gives the first waiting entry of a group its turn.
const PROMOTE: &str = "
    UPDATE outbox SET first = true
    WHERE NOT first AND id = (
        SELECT id FROM outbox WHERE group_hash = $1 AND state = 'waiting' ORDER BY place LIMIT 1)";

/// Takes the turn from whoever has it in a group.
/// Spelled so that the index of all that may be carried cannot be taken for that of the groups.
const DEMOTE: &str = "UPDATE outbox SET first = false
    WHERE group_hash = $1 AND state = 'waiting' AND first::text = 'true'";

#[async_trait]
impl OutboxStore for PostgresStore {
    async fn claim_outbox(&self, claim: &OutboxClaim) -> Result<Vec<OutboxEntry>, StoreError> {
        let (channels, most) = (hashes(&claim.channels), limit(claim.limit));
        let carrying: Vec<&str> = claim.carrying.iter().map(DeliveryId::as_str).collect();
        let clock = self.clock();
        let (now, hold) = (clock.now(claim.now), clock.length(claim.now, claim.hold));
        if channels.is_empty() || most == 0 {
            return Ok(Vec::new());
        }
        let (channels, carrying) = (&channels, &carrying);
        self.session
            .transact("claim outbox", |client| {
                Box::pin(async move {
                    let params: [&(dyn ToSql + Sync); 5] = [channels, &now, &hold, &most, carrying];
                    let mut rows = begin_with(&client, CLAIM, &params).await?;
                    rows.sort_by_key(|row| (row.get::<_, i64>(11), row.get::<_, i64>(12)));
                    let entries: Result<Vec<_>, _> = rows.iter().map(read_entry).collect();
                    let entries = entries?;
                    Ok(if entries.is_empty() {
                        Done::Nothing(entries)
                    } else {
                        Done::Written(entries)
                    })
                })
            })
            .await
    }

    async fn settle_outbox(
        &self,
        id: &DeliveryId,
        attempt: u32,
        settlement: &Settlement,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let clock = self.clock();
        let (state, wait, error) = match settlement {
            Settlement::Delivered => ("delivered", None, None),
            Settlement::Retry { due_at, error } => {
                ("waiting", Some(clock.between(now, *due_at)), Some(error))
            }
            Settlement::Dead { error } => ("dead", None, Some(error)),
        };
        let settled_at = (state != "waiting").then_some(now.as_millis());
        let error = error.map(|error| text::escaped(error));
        let (error, attempt, now) = (&error, i64::from(attempt), clock.now(now));
        let settled = self
            .session
            .transact("settle outbox", |client| {
                Box::pin(async move {
                    let group = self.lock_group_of(&client, id).await?;
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
                    if ask(&client, sql, &params).await?.is_empty() {
                        return Ok(Done::Nothing(None));
                    }
                    if let (Some(group), true) = (&group, settled_at.is_some()) {
                        ask(&client, PROMOTE, &[group]).await?;
                    }
                    // Somebody may carry it again, or the one behind it.
                    Ok(Done::Written(Some(state == "waiting" || group.is_some())))
                })
            })
            .await?;
        if settled == Some(true) {
            self.wakes.tell([Wake::Outbox]);
        }
        Ok(settled.is_some())
    }

    async fn hold_outbox(
        &self,
        id: &DeliveryId,
        attempt: u32,
        hold: Duration,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let sql = concat!(
            "UPDATE outbox SET due_at = ",
            now_or_server!("$4"),
            " + $3::bigint
              WHERE id = $1 AND attempt = $2 AND attempt > 0 AND state = 'waiting' RETURNING id"
        );
        let clock = self.clock();
        let (attempt, hold) = (i64::from(attempt), clock.length(now, hold));
        let params: [&(dyn ToSql + Sync); 4] = [&id.as_str(), &attempt, &hold, &clock.now(now)];
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
        let numbers: Vec<i64> = attempts.iter().map(|(_, of)| i64::from(*of)).collect();
        let params: [&(dyn ToSql + Sync); 3] = [&ids, &numbers, &self.clock().now(now)];
        if self.write_if_found("abandon outbox", sql, &params).await? {
            self.wakes.tell([Wake::Outbox]);
        }
        Ok(())
    }

    async fn next_due(
        &self,
        channels: &[String],
        now: Timestamp,
    ) -> Result<Option<Duration>, StoreError> {
        let sql = concat!(
            "SELECT greatest(due.due_at - ",
            now_or_server!("$2"),
            ", 0) FROM unnest($1::bytea[]) AS wanted (channel), LATERAL (
                       SELECT due_at FROM outbox
                       WHERE channel_hash = wanted.channel AND state = 'waiting' AND first
                       ORDER BY due_at LIMIT 1) AS due
                   ORDER BY due.due_at LIMIT 1"
        );
        let params: [&(dyn ToSql + Sync); 2] = [&hashes(channels), &self.clock().now(now)];
        let rows = self.session.rows(sql, &params).await?;
        let wait = |row: &Row| Ok(Duration::from_millis(count("a wait", row.get(0))?));
        rows.first().map(wait).transpose()
    }

    async fn dead_letters(&self, query: &DeadLetterQuery) -> Result<Vec<OutboxEntry>, StoreError> {
        let sql = concat!(
            "SELECT ",
            entry_columns!(),
            " FROM outbox WHERE state = 'dead' AND ($1::bytea IS NULL OR channel_hash = $1)
                  AND ($2::text IS NULL OR owner = $2)
              ORDER BY settled_at DESC, place DESC LIMIT $3"
        );
        let channel = query.channel.as_deref().map(text::hash);
        let owner = query.owner.as_ref().map(|owner| owner.as_str());
        let most = limit(query.limit);
        let rows = self.session.rows(sql, &[&channel, &owner, &most]).await?;
        rows.iter().map(read_entry).collect()
    }

    async fn replay_outbox(&self, id: &DeliveryId, now: Timestamp) -> Result<bool, StoreError> {
        let now = self.clock().now(now);
        let replayed = self
            .session
            .transact("replay outbox", |client| {
                Box::pin(async move {
                    let group = self.lock_group_of(&client, id).await?;
                    // Spelled so that the index of all that is dead cannot be taken for that of the ids.
                    let sql = concat!(
                        "UPDATE outbox SET state = 'waiting', attempt = 0, due_at = ",
                        now_or_server!("$2"),
                        ", error = NULL, settled_at = NULL, first = (group_hash IS NULL)
                         WHERE id = $1 AND state || '' = 'dead' RETURNING id"
                    );
                    if ask(&client, sql, &[&id.as_str(), &now]).await?.is_empty() {
                        return Ok(Done::Nothing(false));
                    }
                    if let Some(group) = &group {
                        ask(&client, DEMOTE, &[group]).await?;
                        ask(&client, PROMOTE, &[group]).await?;
                    }
                    Ok(Done::Written(true))
                })
            })
            .await?;
        if replayed {
            self.wakes.tell([Wake::Outbox]);
        }
        Ok(replayed)
    }

    async fn carried(&self, channel: &str, keys: &[String]) -> Result<Vec<Carried>, StoreError> {
        let sql =
            "SELECT id, key, state, created_at, due_at, settled_at, attempt, error FROM outbox
                   WHERE key_hash = ANY($1::bytea[]) ORDER BY place";
        let hash = |key: &String| text::hash_of_pair(channel, key);
        let keys: Vec<Vec<u8>> = keys.iter().map(hash).collect();
        let rows = self.session.rows(sql, &[&keys]).await?;
        rows.iter().map(read_carried).collect()
    }

    async fn outbox_depth(&self) -> Result<(u64, u64), StoreError> {
        // One index holds those without a group that wait, for it is their turn, and another those with one.
        let sql = "SELECT (SELECT count(*) FROM outbox
                           WHERE state = 'waiting' AND first AND group_hash IS NULL)
                        + (SELECT count(*) FROM outbox
                           WHERE state = 'waiting' AND group_hash IS NOT NULL),
                          (SELECT count(*) FROM outbox WHERE state = 'dead')";
        self.two_counts(sql, &[]).await
    }
}

impl PostgresStore {
    /// Begins a transaction that holds the group of an entry, if it has one.
    async fn lock_group_of(
        &self,
        client: &Object,
        id: &DeliveryId,
    ) -> Result<Option<Vec<u8>>, tokio_postgres::Error> {
        let sql = "SELECT group_name, group_hash FROM outbox WHERE id = $1";
        let rows = begin_with(client, sql, &[&id.as_str()]).await?;
        let group = rows.first().and_then(|row| {
            let name: Option<&str> = row.get(0);
            name.map(|name| (self.group_lock(&text::unescaped(name)), row.get(1)))
        });
        let Some((key, hash)) = group else {
            return Ok(None);
        };
        ask(client, LOCK_GROUPS, &[&vec![key]]).await?;
        Ok(Some(hash))
    }
}

fn hashes(channels: &[String]) -> Vec<Vec<u8>> {
    let mut hashes: Vec<_> = channels.iter().map(|channel| text::hash(channel)).collect();
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

fn read_entry(row: &Row) -> Result<OutboxEntry, StoreError> {
    Ok(OutboxEntry {
        id: word("an outbox entry", row.get(0))?,
        channel: text::unescaped(row.get(1)),
        key: text::unescaped(row.get(2)),
        group: row.get::<_, Option<&str>>(3).map(text::unescaped),
        owner: word("an outbox entry", row.get(4))?,
        subject: row.get::<_, Option<&str>>(5).map(subject).transpose()?,
        payload: json("an outbox entry", row.get(6))?,
        created_at: moment(row.get(7)),
        due_at: moment(row.get(8)),
        attempt: count("an outbox entry", row.get(9))?,
        error: row.get::<_, Option<&str>>(10).map(text::unescaped),
    })
}

fn read_carried(row: &Row) -> Result<Carried, StoreError> {
    Ok(Carried {
        id: word("an outbox entry", row.get(0))?,
        key: text::unescaped(row.get(1)),
        fate: match row.get(2) {
            "waiting" => Fate::Waiting,
            "delivered" => Fate::Delivered,
            _ => Fate::Dead,
        },
        created_at: moment(row.get(3)),
        due_at: moment(row.get(4)),
        settled_at: row.get::<_, Option<i64>>(5).map(moment),
        attempt: count("an outbox entry", row.get(6))?,
        error: row.get::<_, Option<&str>>(7).map(text::unescaped),
    })
}
