//! What each operation of a commit is in SQL.

use super::moments::{PostgresClock, now_or_server};
use super::pipeline::{Param, Step};
use super::talks::note;
use super::text;
use super::turns::{QUEUE_WORK, TakenTurns};
use super::work::AT_ONCE;
use crate::codec::{column, event_text, flow, message_text, rank, to_text};
use interzone_hub::ports::{ClaimKey, Commit, Op, StoreError};
use interzone_hub::{OutboxEntry, Push, Signal, SignalBody, Stream, Subscription, Task, turn_cost};
use interzone_protocol::vocab::{Priority, Timestamp};

/// What it means if a step touches no row.
pub(super) enum IfNone {
    /// Nothing.
    Fine,
    /// Somebody was first.
    Conflict,
    /// The lease is gone.
    Fenced,
    /// There are newer subscriptions.
    Stale,
    /// The key is taken.
    Claimed(String),
}

pub(super) type Checked<'a> = (Step<'a>, IfNone);

macro_rules! params {
    ($($value:expr),* $(,)?) => {
        vec![$(Box::new($value) as Param<'_>),*]
    };
}
pub(super) use params;

pub(super) fn step<'a>(sql: &'static str, params: Vec<Param<'a>>, none: IfNone) -> Checked<'a> {
    (Step { sql, params }, none)
}

/// The steps of one operation.
pub(super) fn steps<'a>(
    commit: &'a Commit,
    op: &'a Op,
    clock: PostgresClock,
    turns: &TakenTurns,
) -> Result<Vec<Checked<'a>>, StoreError> {
    let at = commit.at.as_millis();
    Ok(match op {
        Op::Claim(claim) => vec![take_claim(claim, commit.at, clock)],
        Op::CreateTask(task) => vec![write_task(task, CREATE_TASK)?],
        Op::UpdateTask(task) => vec![write_task(task, UPDATE_TASK)?],
        Op::NoteQuestion { task_id, asking } => vec![note(task_id, asking, at)],
        Op::AddMessage {
            task_id,
            index,
            message,
        } => vec![step(
            "INSERT INTO messages (task_id, place, body) VALUES ($1, $2, $3) ON CONFLICT DO NOTHING",
            params![task_id.as_str(), i64::from(*index), message_text(message)?],
            IfNone::Conflict,
        )],
        Op::ReplaceMessage {
            task_id,
            index,
            message,
        } => vec![step(
            "UPDATE messages SET body = $3 WHERE task_id = $1 AND place = $2",
            params![task_id.as_str(), i64::from(*index), message_text(message)?],
            IfNone::Conflict,
        )],
        Op::PutArtifact {
            task_id,
            artifact_id,
            artifact,
        } => vec![step(
            "INSERT INTO artifacts (task_id, artifact_id, body) VALUES ($1, $2, $3)
             ON CONFLICT (task_id, artifact_id) DO UPDATE SET body = excluded.body",
            params![task_id.as_str(), artifact_id.as_str(), to_text(artifact)?],
            IfNone::Fine,
        )],
        // Written before all others.
        Op::PutBlob { .. } => Vec::new(),
        Op::CreateStream(stream) => vec![write_stream(stream, CREATE_STREAM)?],
        Op::UpdateStream(stream) => vec![write_stream(stream, UPDATE_STREAM)?],
        Op::AppendEvent(event) => vec![step(
            "INSERT INTO events (subject, seq, at, body) VALUES ($1, $2, $3, $4)
             ON CONFLICT DO NOTHING",
            params![
                event.subject.key(),
                column(event.seq),
                at,
                event_text(&event.body, None)?
            ],
            IfNone::Conflict,
        )],
        Op::QueueWork {
            task_id,
            agent,
            owner,
            priority,
            due_at,
        } => vec![step(
            QUEUE_WORK,
            params![
                task_id.as_str(),
                agent.as_str(),
                rank(*priority),
                clock.between(commit.at, *due_at),
                clock.now(commit.at),
                AT_ONCE,
                flow(owner, *priority),
                turn_cost(*priority),
                turns.greatest(agent),
                Priority::ALL.map(turn_cost).to_vec()
            ],
            IfNone::Conflict,
        )],
        Op::EndWork(task_id) => vec![step(
            "DELETE FROM work WHERE task_id = $1",
            params![task_id.as_str()],
            IfNone::Fine,
        )],
        Op::Enqueue(entry) => vec![enqueue(entry, commit.at, clock)],
        Op::PutPush(push) => vec![put_push(push)?],
        Op::RemovePush { task_id, id } => vec![step(
            "DELETE FROM pushes WHERE task_id = $1 AND id = $2",
            params![task_id.as_str(), id.as_str()],
            IfNone::Fine,
        )],
        Op::CreateSubscription(subscription) => vec![
            write_subscription(subscription, at, CREATE_SUBSCRIPTION)?,
            step(
                "INSERT INTO cursors (subscription_id, seq) VALUES ($1, 0) ON CONFLICT DO NOTHING",
                params![subscription.id.as_str()],
                IfNone::Fine,
            ),
            raise_epoch(),
        ],
        Op::UpdateSubscription(subscription) => vec![
            write_subscription(subscription, at, UPDATE_SUBSCRIPTION)?,
            raise_epoch(),
        ],
        Op::RemoveSubscription(id) => {
            let remove = |sql| step(sql, params![id.as_str()], IfNone::Fine);
            vec![
                remove("DELETE FROM cursors WHERE subscription_id = $1"),
                step(REMOVE_DELIVERIES, params![vec![id.as_str()]], IfNone::Fine),
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

/// The blobs of a commit, in an order that is the same for everybody: two that bring the same blobs
/// must not wait for each other crosswise.
pub(super) fn blobs(commit: &Commit) -> Vec<Checked<'_>> {
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
            step(
                "INSERT INTO blobs (id, body) VALUES ($1, $2) ON CONFLICT DO NOTHING",
                params![id, blob.bytes.as_bytes()],
                IfNone::Fine,
            ),
            step(
                "INSERT INTO blob_refs (subject, blob_id) VALUES ($1, $2) ON CONFLICT DO NOTHING",
                params![subject.key(), id],
                IfNone::Fine,
            ),
        ]
    });
    steps.collect()
}

/// Removes all deliveries of these subscriptions, and the signals that nobody else has.
pub(super) const REMOVE_DELIVERIES: &str = "
    WITH gone AS (DELETE FROM deliveries WHERE subscription_id = ANY ($1::text[]) RETURNING signal)
    DELETE FROM signals WHERE number = ANY (ARRAY(SELECT signal FROM gone)) AND NOT (SELECT EXISTS (
        SELECT FROM deliveries
        WHERE signal = signals.number AND subscription_id <> ALL ($1::text[])))";

fn take_claim(claim: &ClaimKey, at: Timestamp, clock: PostgresClock) -> Checked<'_> {
    step(
        concat!(
            "INSERT INTO claims (key_hash, value, expires_at) VALUES ($1, $2, ",
            now_or_server!("$4"),
            " + $3::bigint)
         ON CONFLICT (key_hash) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at
         WHERE claims.expires_at <= ",
            now_or_server!("$4")
        ),
        params![
            text::hash(&claim.key),
            text::escaped(&claim.value),
            clock.between(at, claim.expires_at),
            clock.now(at)
        ],
        IfNone::Claimed(claim.key.clone()),
    )
}

const CREATE_TASK: &str = "
    INSERT INTO tasks (id, context_id, owner, agent, state, priority, metadata, status, created_at,
        updated_at, finished_at, revision, seq, messages, artifacts, pushes)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16)
    ON CONFLICT DO NOTHING";

const UPDATE_TASK: &str = "
    UPDATE tasks SET context_id = $2, owner = $3, agent = $4, state = $5, priority = $6,
        metadata = $7, status = $8, created_at = $9, updated_at = $10, finished_at = $11,
        revision = $12, seq = $13, messages = $14, artifacts = $15, pushes = $16, log_gone = false
    WHERE id = $1 AND revision = $12::bigint - 1";

fn write_task<'a>(task: &'a Task, sql: &'static str) -> Result<Checked<'a>, StoreError> {
    let status = task.status.as_ref().map(to_text).transpose()?;
    let params = params![
        task.id.as_str(),
        task.context_id.as_str(),
        task.owner.as_str(),
        task.agent.as_str(),
        task.state.name(),
        rank(task.priority),
        task.metadata.as_ref().map(|metadata| metadata.as_str()),
        status,
        task.created_at.as_millis(),
        task.updated_at.as_millis(),
        task.finished_at.map(|at| at.as_millis()),
        column(task.revision),
        column(task.seq),
        i64::from(task.messages),
        i64::from(task.artifacts),
        i64::from(task.pushes),
    ];
    Ok(step(sql, params, IfNone::Conflict))
}

const CREATE_STREAM: &str = "
    INSERT INTO streams (id, owner, participants, state, metadata, created_at, updated_at, closed_at,
        revision, seq)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
    ON CONFLICT DO NOTHING";

const UPDATE_STREAM: &str = "
    UPDATE streams SET owner = $2, participants = $3, state = $4, metadata = $5, created_at = $6,
        updated_at = $7, closed_at = $8, revision = $9, seq = $10, log_gone = false
    WHERE id = $1 AND revision = $9::bigint - 1";

fn write_stream<'a>(stream: &'a Stream, sql: &'static str) -> Result<Checked<'a>, StoreError> {
    let params = params![
        stream.id.as_str(),
        stream.owner.as_str(),
        to_text(&stream.participants)?,
        stream.state.name(),
        stream.metadata.as_ref().map(|metadata| metadata.as_str()),
        stream.created_at.as_millis(),
        stream.updated_at.as_millis(),
        stream.closed_at.map(|at| at.as_millis()),
        column(stream.revision),
        column(stream.seq),
    ];
    Ok(step(sql, params, IfNone::Conflict))
}

/// Whether it is first in its group is certain, because the group is locked.
fn enqueue(entry: &OutboxEntry, at: Timestamp, clock: PostgresClock) -> Checked<'_> {
    step(
        concat!(
            "INSERT INTO outbox (id, channel, channel_hash, key, key_hash, group_name, group_hash, owner,
             subject, payload, created_at, due_at, attempt, error, first)
         VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, ",
            now_or_server!("$15"),
            " + $12::bigint, $13, $14, NOT EXISTS (
             SELECT FROM outbox WHERE group_hash = $7 AND state = 'waiting'))
         ON CONFLICT (key_hash) DO NOTHING"
        ),
        params![
            entry.id.as_str(),
            text::escaped(&entry.channel),
            text::hash(&entry.channel),
            text::escaped(&entry.key),
            text::hash_of_pair(&entry.channel, &entry.key),
            entry.group.as_deref().map(text::escaped),
            entry.group.as_deref().map(text::hash),
            entry.owner.as_str(),
            entry.subject.as_ref().map(|subject| subject.key()),
            entry.payload.as_str(),
            entry.created_at.as_millis(),
            clock.between(at, entry.due_at),
            i64::from(entry.attempt),
            entry.error.as_deref().map(text::escaped),
            clock.now(at),
        ],
        IfNone::Fine,
    )
}

fn put_push(push: &Push) -> Result<Checked<'_>, StoreError> {
    Ok(step(
        "INSERT INTO pushes (task_id, id, owner, channel, events, target, created_at)
         VALUES ($1, $2, $3, $4, $5, $6, $7)
         ON CONFLICT (task_id, id) DO UPDATE SET owner = excluded.owner, channel = excluded.channel,
             events = excluded.events, target = excluded.target, created_at = excluded.created_at",
        params![
            push.task_id.as_str(),
            push.id.as_str(),
            push.owner.as_str(),
            text::escaped(&push.channel),
            to_text(&push.events)?,
            push.target.as_str(),
            push.created_at.as_millis(),
        ],
        IfNone::Fine,
    ))
}

const CREATE_SUBSCRIPTION: &str = "
    INSERT INTO subscriptions (id, owner, patterns, allowed, state, about, created_at, expires_at,
        revision, changed_at)
    VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)
    ON CONFLICT DO NOTHING";

const UPDATE_SUBSCRIPTION: &str = "
    UPDATE subscriptions SET owner = $2, patterns = $3, allowed = $4, state = $5, about = $6,
        created_at = $7, expires_at = $8, revision = $9, changed_at = $10
    WHERE id = $1 AND revision = $9::bigint - 1";

fn write_subscription<'a>(
    subscription: &'a Subscription,
    at: i64,
    sql: &'static str,
) -> Result<Checked<'a>, StoreError> {
    let params = params![
        subscription.id.as_str(),
        subscription.owner.as_str(),
        to_text(&subscription.patterns)?,
        subscription.allowed.as_ref().map(to_text).transpose()?,
        subscription.state.name(),
        subscription.about.as_ref().map(|about| about.as_str()),
        subscription.created_at.as_millis(),
        subscription.expires_at.map(|at| at.as_millis()),
        column(subscription.revision),
        at,
    ];
    Ok(step(sql, params, IfNone::Conflict))
}

fn raise_epoch() -> Checked<'static> {
    step(
        "UPDATE epoch SET number = number + 1",
        Vec::new(),
        IfNone::Fine,
    )
}

fn publish<'a>(signal: &'a Signal, to: Vec<&'a str>) -> Checked<'a> {
    let (body, subject, seq) = match &signal.body {
        SignalBody::Sent(body) => (Some(body.as_str()), None, None),
        SignalBody::Event(subject, seq) => (None, Some(subject.key()), Some(column(*seq))),
    };
    step(
        // A signal for nobody would be seen by nobody.
        "WITH numbered AS (
             UPDATE cursors SET seq = seq + 1 WHERE subscription_id = ANY ($8)
             RETURNING subscription_id, seq),
         kept AS (
             INSERT INTO signals (topic, id, publisher, at, body, event_subject, event_seq)
             SELECT $1, $2, $3, $4, $5, $6, $7 WHERE EXISTS (SELECT FROM numbered)
             RETURNING number)
         INSERT INTO deliveries (subscription_id, seq, signal, signal_id, due_at)
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
            AT_ONCE
        ],
        IfNone::Fine,
    )
}
