//! The queue of tasks, and who is at which.

use super::SqliteStore;
use super::apply::once;
use super::commit::Prepared;
use super::fault::Outcome;
use super::job::{Counters, Session};
use super::rows::{first, text};
use crate::codec::{column, count, rank, word};
use async_trait::async_trait;
use interzone_hub::ports::{Commit, Fence, StoreError, WorkClaim, WorkItem, WorkStore};
use interzone_protocol::vocab::{AgentId, Priority, TaskId, Timestamp};
use rusqlite::params;
use std::time::Duration;

#[async_trait]
impl WorkStore for SqliteStore {
    async fn claim_work(&self, claim: &WorkClaim) -> Result<Vec<WorkItem>, StoreError> {
        let claim = claim.clone();
        self.write(move |session| take(session, &claim)).await
    }

    async fn commit_and_claim(
        &self,
        commit: Commit,
        claim: &WorkClaim,
    ) -> Result<Vec<WorkItem>, StoreError> {
        let prepared = Prepared::new(commit)?;
        let claim = claim.clone();
        self.writer
            .write(prepared.weight(), move |session| {
                let others = session.wakes.work;
                prepared.apply(session)?;
                let items = take(session, &claim)?;
                // Nobody need look for what is taken already.
                if prepared
                    .queued()
                    .all(|id| items.iter().any(|item| item.task_id == *id))
                {
                    session.wakes.work = others;
                }
                Ok(items)
            })
            .await
    }

    async fn renew_work(
        &self,
        task_id: &TaskId,
        node: &str,
        claim: u64,
        _lease: Duration,
        _now: Timestamp,
    ) -> Result<bool, StoreError> {
        let (task_id, node) = (task_id.clone(), node.to_owned());
        // The claim lasts as long as this process, so there is nothing to write.
        self.read(move |connection| {
            let sql = "SELECT 1 FROM tasks WHERE id = ?1 AND work_node = ?2 AND work_claim = ?3";
            let values = params![task_id.as_str(), node, column(claim)];
            Ok(first(connection, sql, values, |_| Ok(()))?.is_some())
        })
        .await
    }

    async fn release_work(
        &self,
        task_id: &TaskId,
        node: &str,
        claim: u64,
        wait: Duration,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let (task_id, node) = (task_id.clone(), node.to_owned());
        let due_at = if wait.is_zero() {
            AT_ONCE
        } else {
            now.after(wait).as_millis()
        };
        self.write(move |session| {
            let sql = "UPDATE tasks SET work_node = NULL, work_wake_at = ?4, work_ready = 0, \
                work_attempt = max(work_attempt - 1, 0) \
                WHERE id = ?1 AND work_node = ?2 AND work_claim = ?3";
            let values = params![task_id.as_str(), node, column(claim), due_at];
            let held = session.run(sql, values)? > 0;
            session.wakes.work |= held;
            Ok(held)
        })
        .await
    }

    async fn abandon_work(&self, claims: &[Fence]) -> Result<(), StoreError> {
        let claims = claims.to_vec();
        self.write(move |session| {
            let sql = "UPDATE tasks SET work_node = NULL, work_wake_at = ?4, work_ready = 0 \
                WHERE id = ?1 AND work_node = ?2 AND work_claim = ?3";
            for claim in &claims {
                let number = column(claim.claim);
                let values = params![claim.task_id.as_str(), claim.node, number, AT_ONCE];
                session.wakes.work |= session.run(sql, values)? > 0;
            }
            Ok(())
        })
        .await
    }

    async fn work_depth(&self, _now: Timestamp) -> Result<(u64, u64), StoreError> {
        self.read(move |connection| {
            // What is held is never ready.
            let sql = "SELECT count(*) + (SELECT count(*) FROM tasks INDEXED BY work_ready WHERE work_ready = 1), \
                count(*) FILTER (WHERE work_node IS NOT NULL) \
                FROM tasks INDEXED BY work_asleep WHERE work_ready = 0";
            let depth = first(connection, sql, [], |row| {
                let all = count::<u64>("work", row.get(0)?)?;
                let held = count::<u64>("work", row.get(1)?)?;
                Ok((all.saturating_sub(held), held))
            })?;
            Ok(depth.unwrap_or((0, 0)))
        })
        .await
    }
}

/// The last position in the queue that was given, of those that are in it.
pub(super) const LAST_POSITION: &str = "SELECT max( \
    coalesce((SELECT max(work_position) FROM tasks INDEXED BY work_ready WHERE work_ready = 1), 0), \
    coalesce((SELECT max(work_position) FROM tasks INDEXED BY work_asleep WHERE work_ready = 0), 0))";

/// When work wakes that can be claimed at once: before any moment that a clock can show, so that it
/// does not wait if the clock is set back.
const AT_ONCE: i64 = i64::MIN;

/// When work wakes that is held: at no moment that a clock can show. It is free when its holder says
/// so, or when another process has the file.
const HELD: i64 = i64::MAX;

/// What a task is queued with.
pub(super) struct Place {
    pub(super) agent: AgentId,
    pub(super) priority: Priority,
    pub(super) due_at: Timestamp,
}

impl Place {
    pub(super) fn rank(&self) -> i16 {
        rank(self.priority)
    }

    /// Whether it can be claimed at once.
    pub(super) fn is_ready(&self, now: Timestamp) -> bool {
        self.due_at <= now
    }

    /// From when on it can be claimed.
    pub(super) fn wake_at(&self, now: Timestamp) -> i64 {
        if self.is_ready(now) {
            AT_ONCE
        } else {
            self.due_at.as_millis()
        }
    }
}

/// A position behind all others.
pub(super) fn next_position(counters: &mut Counters) -> i64 {
    counters.position += 1;
    counters.position
}

/// Puts a task that is there into the queue, behind all others.
pub(super) fn queue(
    session: &mut Session<'_>,
    task_id: &TaskId,
    place: &Place,
    now: Timestamp,
) -> Outcome<()> {
    let sql = "UPDATE tasks SET work_agent = ?2, work_priority = ?3, work_position = ?4, work_ready = ?5, \
        work_wake_at = ?6, work_attempt = 0, work_claim = 0, work_node = NULL WHERE id = ?1";
    let values = params![
        task_id.as_str(),
        place.agent.as_str(),
        place.rank(),
        next_position(session.counters),
        place.is_ready(now),
        place.wake_at(now),
    ];
    once(session.run(sql, values)?)?;
    session.wakes.work = true;
    Ok(())
}

/// Takes a task out of the queue, if it is in it.
pub(super) fn end(session: &Session<'_>, task_id: &TaskId) -> Outcome<()> {
    let sql = "UPDATE tasks SET work_agent = NULL, work_priority = NULL, work_position = NULL, \
        work_ready = NULL, work_wake_at = NULL, work_attempt = NULL, work_claim = NULL, work_node = NULL \
        WHERE id = ?1 AND work_ready IS NOT NULL";
    session.run(sql, [task_id.as_str()]).map(|_| ())
}

/// Makes claimable what was claimed by a process that is gone. The run was begun, so it counts as an
/// attempt, and what still has its number writes nothing more.
pub(super) const FREE: &str = "UPDATE tasks INDEXED BY work_asleep \
    SET work_node = NULL, work_wake_at = -9223372036854775808 \
    WHERE work_ready = 0 AND work_node IS NOT NULL";

/// The same, of all that is held.
pub(super) fn let_go(session: &mut Session<'_>) -> Outcome<()> {
    session.wakes.work |= session.run(FREE, [])? > 0;
    Ok(())
}

fn take(session: &mut Session<'_>, claim: &WorkClaim) -> Outcome<Vec<WorkItem>> {
    let now = claim.now.as_millis();
    // What has become due joins what can be had.
    let sql = "UPDATE tasks INDEXED BY work_asleep SET work_ready = 1 \
        WHERE work_ready = 0 AND work_wake_at <= ?1";
    session.run(sql, [now])?;
    let mut items = Vec::new();
    for (agent, wanted) in &claim.wanted {
        let sql = "SELECT row, id, work_attempt FROM tasks INDEXED BY work_ready \
            WHERE work_ready = 1 AND work_agent = ?1 AND work_wake_at <= ?2 \
            ORDER BY work_priority DESC, work_position LIMIT ?3";
        let values = params![agent.as_str(), now, column(*wanted as u64)];
        let found = session.all(sql, values, |row| {
            let task_id: TaskId = word("work", text(row, 1)?)?;
            let attempts = count::<u32>("work", row.get(2)?)?;
            Ok((row.get::<_, i64>(0)?, task_id, attempts))
        })?;
        for (row, task_id, attempts) in found {
            session.counters.claims += 1;
            let number = session.counters.claims;
            let sql = "UPDATE tasks SET work_ready = 0, work_wake_at = ?2, work_attempt = work_attempt + 1, \
                work_claim = ?3, work_node = ?4 WHERE row = ?1";
            session.run(sql, params![row, HELD, number, claim.node])?;
            items.push(WorkItem {
                task_id,
                agent: agent.clone(),
                attempt: attempts.saturating_add(1),
                claim: count("claim", number)?,
            });
        }
    }
    if !items.is_empty() {
        let sql = "UPDATE meta SET value = ?1 WHERE name = 'claims'";
        session.run(sql, [session.counters.claims])?;
    }
    Ok(items)
}
