//! SQL statements of each operation of a commit.

use super::clock::{PostgresClock, now_or_server};
use super::conversations::record_thread;
use super::fair_turns::{ClaimedTurns, QUEUE_WORK};
use super::pipeline::{Param, PipelineStep};
use super::text_encoding;
use super::work_queue::DUE_AT_ONCE;
use crate::codec::{flow_key, int_to_column, priority_rank, to_json_text};
use interzone_hub::ports::{Commit, IdempotencyClaim, Op, StoreError};
use interzone_hub::{
    OutboxEntry, PushSubscription, Signal, SignalBody, Stream, Subscription, Task, turn_cost,
};
use interzone_protocol::vocab::{Priority, Timestamp};

/// Meaning of a step that affects no row.
pub(super) enum OnZeroRows {
    /// Not an error.
    Ignore,
    /// Another writer was first.
    Conflict,
    /// The lease was lost (fencing).
    Fenced,
    /// The caller's subscriptions are outdated.
    StaleSubscriptions,
    /// The idempotency key is taken.
    KeyTaken(String),
}

pub(super) type CheckedStep<'a> = (PipelineStep<'a>, OnZeroRows);

macro_rules! params {
    ($($value:expr),* $(,)?) => {
        vec![$(Box::new($value) as Param<'_>),*]
    };
}
pub(super) use params;

pub(super) fn checked_step<'a>(
    sql: &'static str,
    params: Vec<Param<'a>>,
    none: OnZeroRows,
) -> CheckedStep<'a> {
    (PipelineStep { sql, params }, none)
}

/// Returns the steps of one operation.
pub(super) fn op_steps<'a>(
    commit: &'a Commit,
    op: &'a Op,
    clock: PostgresClock,
    turns: &ClaimedTurns,
) -> Result<Vec<CheckedStep<'a>>, StoreError> {
    let at = commit.at.as_millis();
    Ok(match op {
        Op::ClaimKey(claim) => vec![claim_key(claim, commit.at, clock)],
        Op::CreateTask(task) => vec![write_task(task, CREATE_TASK)?],
        Op::UpdateTask(task) => vec![write_task(task, UPDATE_TASK)?],
        Op::RecordThread {
            task_id,
            origin: asking,
        } => vec![record_thread(task_id, asking, at)],
        Op::AddMessage {
            task_id,
            index,
            message,
        } => vec![checked_step(
            "INSERT INTO messages (task_id, position, body) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
            params![task_id.as_str(), i64::from(*index), to_json_text(message)?],
            OnZeroRows::Conflict,
        )],
        Op::ReplaceMessage {
            task_id,
            index,
            message,
        } => vec![checked_step(
            "UPDATE messages SET body = $3 WHERE task_id = $1 AND position = $2",
            params![task_id.as_str(), i64::from(*index), to_json_text(message)?],
            OnZeroRows::Conflict,
        )],
        Op::PutArtifact {
            task_id,
            artifact_id,
            artifact,
        } => vec![checked_step(
            "INSERT INTO artifacts (task_id, artifact_id, body) VALUES ($1, $2, $3)
             ON CONFLICT (task_id, artifact_id) DO UPDATE SET body = excluded.body",
            params![
                task_id.as_str(),
                artifact_id.as_str(),
                to_json_text(artifact)?
            ],
            OnZeroRows::Ignore,
        )],
        // Written before all other operations, by `blob_steps`.
        Op::PutBlob { .. } => Vec::new(),
        Op::CreateStream(stream) => vec![write_stream(stream, CREATE_STREAM)?],
        Op::UpdateStream(stream) => vec![write_stream(stream, UPDATE_STREAM)?],
        Op::AppendEvent(event) => vec![checked_step(
            "INSERT INTO events (subject, seq, generation, at, body) VALUES ($1, $2, $3, $4, $5)
             ON CONFLICT DO NOTHING",
            params![
                event.subject.key(),
                int_to_column(event.seq),
                event.generation.map(int_to_column),
                at,
                to_json_text(&event.body)?
            ],
            OnZeroRows::Conflict,
        )],
        Op::EnqueueWork {
            task_id,
            agent,
            owner,
            priority,
            due_at,
        } => vec![checked_step(
            QUEUE_WORK,
            params![
                task_id.as_str(),
                agent.as_str(),
                priority_rank(*priority),
                clock.millis_between(commit.at, *due_at),
                clock.now_param(commit.at),
                DUE_AT_ONCE,
                flow_key(owner, *priority),
                turn_cost(*priority),
                turns.greatest(agent),
                Priority::ALL.map(turn_cost).to_vec()
            ],
            OnZeroRows::Conflict,
        )],
        Op::DequeueWork(task_id) => vec![checked_step(
            "DELETE FROM work_queue WHERE task_id = $1",
            params![task_id.as_str()],
            OnZeroRows::Ignore,
        )],
        Op::EnqueueOutbox(entry) => vec![enqueue(entry, commit.at, clock)],
        Op::PutPushSubscription(push) => vec![put_push(push)?],
        Op::RemovePushSubscription { task_id, id } => vec![checked_step(
            "DELETE FROM push_subscriptions WHERE task_id = $1 AND id = $2",
            params![task_id.as_str(), id.as_str()],
            OnZeroRows::Ignore,
        )],
        Op::CreateSubscription(subscription) => vec![
            write_subscription(subscription, at, CREATE_SUBSCRIPTION)?,
            checked_step(
                "INSERT INTO delivery_cursors (subscription_id, seq) VALUES ($1, 0) ON CONFLICT DO NOTHING",
                params![subscription.id.as_str()],
                OnZeroRows::Ignore,
            ),
            raise_epoch(),
        ],
        Op::UpdateSubscription(subscription) => vec![
            write_subscription(subscription, at, UPDATE_SUBSCRIPTION)?,
            raise_epoch(),
        ],
        Op::RemoveSubscription(id) => {
            let remove = |sql| checked_step(sql, params![id.as_str()], OnZeroRows::Ignore);
            vec![
                remove("DELETE FROM delivery_cursors WHERE subscription_id = $1"),
                checked_step(
                    REMOVE_DELIVERIES,
                    params![vec![id.as_str()]],
                    OnZeroRows::Ignore,
                ),
                remove("DELETE FROM subscriptions WHERE id = $1"),
                raise_epoch(),
            ]
        }
        Op::Publish { signal, to } => {
            let to: Vec<&str> = to.iter().map(|id| id.as_str()).collect();
            vec![publish(signal, to)]
        }
    })
}

/// Steps that write the blobs of a commit, in a fixed order: two transactions with the same blobs
/// must not deadlock.
pub(super) fn blob_steps(commit: &Commit) -> Vec<CheckedStep<'_>> {
    let mut blobs: Vec<_> = commit
        .ops
        .iter()
        .filter_map(|op| match op {
            Op::PutBlob { subject, blob } => Some((blob, subject)),
            _ => None,
        })
        .collect();
    blobs.sort_by_key(|(blob, subject)| (blob.id, *subject));
    let steps = blobs.into_iter().flat_map(|(blob, subject)| {
        let id = blob.id.as_bytes().as_slice();
        [
            checked_step(
                "INSERT INTO blobs (id, bytes) VALUES ($1, $2) ON CONFLICT DO NOTHING",
                params![id, blob.bytes.as_bytes()],
                OnZeroRows::Ignore,
            ),
            checked_step(
                "INSERT INTO blob_refs (subject, blob_id) VALUES ($1, $2) ON CONFLICT DO NOTHING",
                params![subject.key(), id],
                OnZeroRows::Ignore,
            ),
        ]
    });
    steps.collect()
}

/// Removes all deliveries of these subscriptions, and the signals left without deliveries.
pub(super) const REMOVE_DELIVERIES: &str = "
    WITH gone AS (DELETE FROM deliveries WHERE subscription_id = ANY ($1::text[]) RETURNING signal_number)
    DELETE FROM signals WHERE number = ANY (ARRAY(SELECT signal_number FROM gone)) AND NOT (SELECT EXISTS (
        SELECT FROM deliveries
        WHERE signal_number = signals.number AND subscription_id <> ALL ($1::text[])))";

fn claim_key(claim: &IdempotencyClaim, at: Timestamp, clock: PostgresClock) -> CheckedStep<'_> {
    checked_step(
        concat!(
            "INSERT INTO idempotency_keys (key_hash, value, expires_at) VALUES ($1, $2, ",
            now_or_server!("$4"),
            " + $3::bigint)
         ON CONFLICT (key_hash) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at
         WHERE idempotency_keys.expires_at <= ",
            now_or_server!("$4")
        ),
        params![
            text_encoding::index_hash(&claim.key),
            text_encoding::escape_nul(&claim.value),
            clock.millis_between(at, claim.expires_at),
            clock.now_param(at)
        ],
        OnZeroRows::KeyTaken(claim.key.clone()),
    )
}

const CREATE_TASK: &str = "
    INSERT INTO tasks (id, context_id, owner, agent, state, priority, metadata, status_message,
        created_at, updated_at, finished_at, revision, seq, message_count, artifact_count, push_count,
        status_at, generation, is_direct)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17, $18, $19)
    ON CONFLICT DO NOTHING";

const UPDATE_TASK: &str = "
    UPDATE tasks SET context_id = $2, owner = $3, agent = $4, state = $5, priority = $6,
        metadata = $7, status_message = $8, created_at = $9, updated_at = $10, finished_at = $11,
        revision = $12, seq = $13, message_count = $14, artifact_count = $15, push_count = $16,
        status_at = $17, generation = $18, is_direct = $19, is_log_purged = false
    WHERE id = $1 AND revision = $12::bigint - 1";

fn write_task<'a>(task: &'a Task, sql: &'static str) -> Result<CheckedStep<'a>, StoreError> {
    let status = task.status_message.as_ref().map(to_json_text).transpose()?;
    let params = params![
        task.id.as_str(),
        task.context_id.as_str(),
        task.owner.as_str(),
        task.agent.as_str(),
        task.state.name(),
        priority_rank(task.priority),
        task.metadata.as_ref().map(|metadata| metadata.as_str()),
        status,
        task.created_at.as_millis(),
        task.updated_at.as_millis(),
        task.finished_at.map(|at| at.as_millis()),
        int_to_column(task.revision),
        int_to_column(task.seq),
        i64::from(task.message_count),
        i64::from(task.artifact_count),
        i64::from(task.push_count),
        task.status_at.as_millis(),
        int_to_column(task.generation),
        task.is_direct,
    ];
    Ok(checked_step(sql, params, OnZeroRows::Conflict))
}

const CREATE_STREAM: &str = "
    INSERT INTO streams (id, owner, participants, state, metadata, created_at, updated_at, closed_at,
        revision, seq)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
    ON CONFLICT DO NOTHING";

const UPDATE_STREAM: &str = "
    UPDATE streams SET owner = $2, participants = $3, state = $4, metadata = $5, created_at = $6,
        updated_at = $7, closed_at = $8, revision = $9, seq = $10, is_log_purged = false
    WHERE id = $1 AND revision = $9::bigint - 1";

fn write_stream<'a>(stream: &'a Stream, sql: &'static str) -> Result<CheckedStep<'a>, StoreError> {
    let params = params![
        stream.id.as_str(),
        stream.owner.as_str(),
        to_json_text(&stream.participants)?,
        stream.state.name(),
        stream.metadata.as_ref().map(|metadata| metadata.as_str()),
        stream.created_at.as_millis(),
        stream.updated_at.as_millis(),
        stream.closed_at.map(|at| at.as_millis()),
        int_to_column(stream.revision),
        int_to_column(stream.seq),
    ];
    Ok(checked_step(sql, params, OnZeroRows::Conflict))
}

/// Enqueues an outbox entry. Whether it is first in its group is certain, because the group is locked.
fn enqueue(entry: &OutboxEntry, at: Timestamp, clock: PostgresClock) -> CheckedStep<'_> {
    checked_step(
        concat!(
            "INSERT INTO outbox (id, channel, channel_hash, key, key_hash, group_name, group_hash, owner,
             subject, payload, created_at, due_at, attempt, error, is_head)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, ",
            now_or_server!("$15"),
            " + $12::bigint, $13, $14, NOT EXISTS (
             SELECT FROM outbox WHERE group_hash = $7 AND state = 'waiting'))
         ON CONFLICT (key_hash) DO NOTHING"
        ),
        params![
            entry.id.as_str(),
            text_encoding::escape_nul(&entry.channel),
            text_encoding::index_hash(&entry.channel),
            text_encoding::escape_nul(&entry.key),
            text_encoding::index_hash_pair(&entry.channel, &entry.key),
            entry.group.as_deref().map(text_encoding::escape_nul),
            entry.group.as_deref().map(text_encoding::index_hash),
            entry.owner.as_str(),
            entry.subject.as_ref().map(|subject| subject.key()),
            entry.payload.as_str(),
            entry.created_at.as_millis(),
            clock.millis_between(at, entry.due_at),
            i64::from(entry.attempt),
            entry.error.as_deref().map(text_encoding::escape_nul),
            clock.now_param(at),
        ],
        OnZeroRows::Ignore,
    )
}

fn put_push(push: &PushSubscription) -> Result<CheckedStep<'_>, StoreError> {
    Ok(checked_step(
        "INSERT INTO push_subscriptions (task_id, id, owner, channel, events, format, target, secrets,
             created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9)
         ON CONFLICT (task_id, id) DO UPDATE SET owner = excluded.owner, channel = excluded.channel,
             events = excluded.events, format = excluded.format,
             target = excluded.target, secrets = excluded.secrets, created_at = excluded.created_at",
        params![
            push.task_id.as_str(),
            push.id.as_str(),
            push.owner.as_str(),
            text_encoding::escape_nul(&push.channel),
            to_json_text(&push.events)?,
            text_encoding::escape_nul(&push.format),
            push.target.as_str(),
            push.secrets
                .as_ref()
                .map(|sealed| text_encoding::escape_nul(sealed.as_str())),
            push.created_at.as_millis(),
        ],
        OnZeroRows::Ignore,
    ))
}

const CREATE_SUBSCRIPTION: &str = "
    INSERT INTO subscriptions (id, owner, patterns, allowed_patterns, state, dialect_data, created_at,
        expires_at, revision, updated_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
    ON CONFLICT DO NOTHING";

const UPDATE_SUBSCRIPTION: &str = "
    UPDATE subscriptions SET owner = $2, patterns = $3, allowed_patterns = $4, state = $5,
        dialect_data = $6, created_at = $7, expires_at = $8, revision = $9, updated_at = $10
    WHERE id = $1 AND revision = $9::bigint - 1";

fn write_subscription<'a>(
    subscription: &'a Subscription,
    at: i64,
    sql: &'static str,
) -> Result<CheckedStep<'a>, StoreError> {
    let params = params![
        subscription.id.as_str(),
        subscription.owner.as_str(),
        to_json_text(&subscription.patterns)?,
        subscription
            .allowed_patterns
            .as_ref()
            .map(to_json_text)
            .transpose()?,
        subscription.state.name(),
        subscription
            .dialect_data
            .as_ref()
            .map(|about| about.as_str()),
        subscription.created_at.as_millis(),
        subscription.expires_at.map(|at| at.as_millis()),
        int_to_column(subscription.revision),
        at,
    ];
    Ok(checked_step(sql, params, OnZeroRows::Conflict))
}

fn raise_epoch() -> CheckedStep<'static> {
    checked_step(
        "UPDATE subscription_epoch SET epoch = epoch + 1",
        Vec::new(),
        OnZeroRows::Ignore,
    )
}

fn publish<'a>(signal: &'a Signal, to: Vec<&'a str>) -> CheckedStep<'a> {
    let (body, subject, seq) = match &signal.body {
        SignalBody::Sent(body) => (Some(body.as_str()), None, None),
        SignalBody::Event(subject, seq) => (None, Some(subject.key()), Some(int_to_column(*seq))),
    };
    checked_step(
        // A signal without subscribers is not stored.
        "WITH numbered AS (
             UPDATE delivery_cursors SET seq = seq + 1 WHERE subscription_id = ANY ($8)
             RETURNING subscription_id, seq),
         kept AS (
             INSERT INTO signals (topic, id, publisher, at, body, event_subject, event_seq)
             SELECT $1, $2, $3, $4, $5, $6, $7 WHERE EXISTS (SELECT FROM numbered)
             RETURNING number)
         INSERT INTO deliveries (subscription_id, seq, signal_number, signal_id, due_at)
         SELECT numbered.subscription_id, numbered.seq, kept.number, $2, $9 FROM numbered, kept",
        params![
            signal.topic.as_str(),
            signal.id.as_str(),
            signal.publisher.as_str(),
            signal.at.as_millis(),
            body,
            subject,
            seq,
            to,
            DUE_AT_ONCE
        ],
        OnZeroRows::Ignore,
    )
}
