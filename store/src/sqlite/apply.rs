//! Applies the operations of a commit, in order, inside the writer's transaction.

use super::commit::PreparedStep;
use super::error::SqliteResult;
use super::write_job::WriteSession;
use super::{blobs, conversations, events, outbox, streams, tasks, topics, work_queue};
use interzone_hub::ports::{IdempotencyClaim, Op, StoreError};
use interzone_hub::{PushSubscription, SealedSecrets};
use interzone_protocol::vocab::Timestamp;
use rusqlite::params;

/// Applies one operation.
pub(super) fn apply_step(
    session: &mut WriteSession<'_>,
    at: Timestamp,
    step: &PreparedStep,
) -> SqliteResult<()> {
    let text = step.text.as_deref();
    let subject = step.subject.as_deref();
    match &step.op {
        Op::ClaimKey(claim) => claim_key(session, claim, at),
        Op::CreateTask(task) => tasks::create(session, task, text),
        Op::UpdateTask(task) => tasks::update(session, task, text),
        Op::RecordThread {
            task_id,
            origin: asking,
        } => conversations::record_thread(session, task_id, asking, at),
        Op::AddMessage { task_id, index, .. } => {
            let sql = "INSERT INTO messages (task_id, position, body) VALUES (?1, ?2, ?3)";
            require_changed(session.run(sql, params![task_id.as_str(), index, text])?)
        }
        Op::ReplaceMessage { task_id, index, .. } => {
            let sql = "UPDATE messages SET body = ?3 WHERE task_id = ?1 AND position = ?2";
            require_changed(session.run(sql, params![task_id.as_str(), index, text])?)
        }
        Op::PutArtifact {
            task_id,
            artifact_id,
            ..
        } => {
            let sql = "INSERT INTO artifacts (task_id, artifact_id, body) VALUES (?1, ?2, ?3) \
                ON CONFLICT (task_id, artifact_id) DO UPDATE SET body = excluded.body";
            require_changed(
                session.run(sql, params![task_id.as_str(), artifact_id.as_str(), text])?,
            )
        }
        Op::PutBlob { blob, .. } => blobs::put(session, subject, blob),
        Op::CreateStream(stream) => streams::create(session, stream, text),
        Op::UpdateStream(stream) => streams::update(session, stream, text),
        Op::AppendEvent(event) => events::append(session, at, event, step),
        Op::EnqueueWork {
            task_id,
            agent,
            owner,
            priority,
            due_at,
        } => {
            let position = work_queue::QueuePosition {
                agent: agent.clone(),
                owner: owner.clone(),
                priority: *priority,
                due_at: *due_at,
            };
            work_queue::queue_task(session, task_id, &position, at)
        }
        Op::DequeueWork(task_id) => work_queue::dequeue_task(session, task_id),
        Op::EnqueueOutbox(entry) => outbox::enqueue(session, entry, subject),
        Op::PutPushSubscription(push) => put_push(session, push, text),
        Op::RemovePushSubscription { task_id, id } => {
            let sql = "DELETE FROM push_subscriptions WHERE task_id = ?1 AND id = ?2";
            session
                .run(sql, [task_id.as_str(), id.as_str()])
                .map(|_| ())
        }
        Op::CreateSubscription(subscription) => {
            topics::create(session, subscription, at, text, step.extra_text.as_deref())
        }
        Op::UpdateSubscription(subscription) => {
            topics::update(session, subscription, at, text, step.extra_text.as_deref())
        }
        Op::RemoveSubscription(id) => topics::remove(session, id.as_str()),
        Op::Publish { signal, to } => topics::publish(session, signal, subject, to),
    }
}

/// Returns `Conflict` if a statement affected no rows.
pub(super) fn require_changed(changes: usize) -> SqliteResult<()> {
    if changes == 0 {
        Err(StoreError::Conflict.into())
    } else {
        Ok(())
    }
}

fn claim_key(
    session: &WriteSession<'_>,
    claim: &IdempotencyClaim,
    at: Timestamp,
) -> SqliteResult<()> {
    let sql = "INSERT INTO idempotency_keys (key, value, expires_at) VALUES (?1, ?2, ?3) \
        ON CONFLICT (key) DO UPDATE SET value = excluded.value, expires_at = excluded.expires_at \
        WHERE idempotency_keys.expires_at <= ?4";
    let values = params![
        claim.key,
        claim.value,
        claim.expires_at.as_millis(),
        at.as_millis()
    ];
    if session.run(sql, values)? > 0 {
        return Ok(());
    }
    let sql = "SELECT value FROM idempotency_keys WHERE key = ?1";
    let value = session.first(sql, [&claim.key], |row| Ok(row.get(0)?))?;
    Err(StoreError::KeyTaken {
        key: claim.key.clone(),
        value: value.unwrap_or_default(),
    }
    .into())
}

fn put_push(
    session: &WriteSession<'_>,
    push: &PushSubscription,
    events: Option<&str>,
) -> SqliteResult<()> {
    let sql = "INSERT INTO push_subscriptions (task_id, id, owner, channel, events, format, target, \
        secrets, created_at) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9) \
        ON CONFLICT (task_id, id) DO UPDATE SET owner = excluded.owner, \
        channel = excluded.channel, events = excluded.events, format = excluded.format, \
        target = excluded.target, secrets = excluded.secrets, \
        created_at = excluded.created_at";
    let values = params![
        push.task_id.as_str(),
        push.id.as_str(),
        push.owner.as_str(),
        push.channel,
        events,
        push.format,
        push.target.as_str(),
        push.secrets.as_ref().map(SealedSecrets::as_str),
        push.created_at.as_millis()
    ];
    require_changed(session.run(sql, values)?)
}
