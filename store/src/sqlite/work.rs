//! The queue of tasks, and who is at which.

use super::SqliteStore;
use super::apply::once;
use super::commit::Prepared;
use super::fault::Outcome;
use super::job::{Counters, Session};
use super::rows::{first, text};
use crate::codec::{column, count, rank, word};
use async_trait::async_trait;
use interzone_hub::ports::{Commit, StoreError, WorkClaim, WorkItem, WorkStore};
use interzone_protocol::vocab::{AgentId, Priority, TaskId, Timestamp};
use rusqlite::params;

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
        until: Timestamp,
    ) -> Result<bool, StoreError> {
        let (task_id, node) = (task_id.clone(), node.to_owned());
        self.write(move |session| {
            let sql = "UPDATE tasks SET work_wake_at = ?4, work_ready = 0 \
                WHERE id = ?1 AND work_node = ?2 AND work_claim = ?3";
            let values = params![task_id.as_str(), node, column(claim), until.as_millis()];
            Ok(session.run(sql, values)? > 0)
        })
        .await
    }

    async fn release_work(
        &self,
        task_id: &TaskId,
        node: &str,
        claim: u64,
        due_at: Timestamp,
    ) -> Result<bool, StoreError> {
        let (task_id, node) = (task_id.clone(), node.to_owned());
        self.write(move |session| {
            let sql = "UPDATE tasks SET work_node = NULL, work_wake_at = ?4, work_ready = 0, \
                work_attempt = max(work_attempt - 1, 0) \
                WHERE id = ?1 AND work_node = ?2 AND work_claim = ?3";
            let values = params![task_id.as_str(), node, column(claim), due_at.as_millis()];
            let held = session.run(sql, values)? > 0;
            session.wakes.work |= held;
            Ok(held)
        })
        .await
    }

    async fn work_depth(&self, now: Timestamp) -> Result<(u64, u64), StoreError> {
        self.read(move |connection| {
            // Whoever has one has it until later, so it is asleep, unless a clock was set back.
            let sql = "SELECT count(*) + (SELECT count(*) FROM tasks INDEXED BY work_ready WHERE work_ready = 1), \
                count(*) FILTER (WHERE work_node IS NOT NULL AND work_wake_at > ?1) \
                FROM tasks INDEXED BY work_asleep WHERE work_ready = 0";
            let depth = first(connection, sql, [now.as_millis()], |row| {
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
    agent: &AgentId,
    priority: Priority,
    due_at: Timestamp,
    now: Timestamp,
) -> Outcome<()> {
    let sql = "UPDATE tasks SET work_agent = ?2, work_priority = ?3, work_position = ?4, work_ready = ?5, \
        work_wake_at = ?6, work_attempt = 0, work_claim = 0, work_node = NULL WHERE id = ?1";
    let values = params![
        task_id.as_str(),
        agent.as_str(),
        rank(priority),
        next_position(session.counters),
        due_at <= now,
        due_at.as_millis(),
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

/// Makes claimable what was claimed. The run was begun, so it counts as an attempt, and whoever still
/// has its number writes nothing more.
pub(super) fn let_go(session: &mut Session<'_>, now: Timestamp) -> Outcome<()> {
    // One that has been seen to be over is not asleep, and can be had already.
    let sql = "UPDATE tasks INDEXED BY work_asleep SET work_node = NULL, work_wake_at = min(work_wake_at, ?1) \
        WHERE work_ready = 0 AND work_node IS NOT NULL";
    session.wakes.work |= session.run(sql, [now.as_millis()])? > 0;
    Ok(())
}

fn take(session: &mut Session<'_>, claim: &WorkClaim) -> Outcome<Vec<WorkItem>> {
    let now = claim.now.as_millis();
    // What has become due and what was lost by others joins what can be had.
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
            let until = claim.until.as_millis();
            session.run(sql, params![row, until, number, claim.node])?;
            items.push(WorkItem {
                task_id,
                agent: agent.clone(),
                attempt: attempts.saturating_add(1),
                claim: count("claim", number)?,
                until: claim.until,
            });
        }
    }
    if !items.is_empty() {
        let sql = "UPDATE meta SET value = ?1 WHERE name = 'claims'";
        session.run(sql, [session.counters.claims])?;
    }
    Ok(items)
}
