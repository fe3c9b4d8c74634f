//! The queue of tasks, and who is at which.

use super::SqliteStore;
use super::apply::once;
use super::commit::Prepared;
use super::fault::Outcome;
use super::job::Session;
use super::rows::{first, text};
use crate::codec::{column, count, word};
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
            let sql = "UPDATE work SET wake_at = ?4, ready = 0 \
                WHERE task_id = ?1 AND node = ?2 AND claim = ?3";
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
            let sql = "UPDATE work SET node = NULL, wake_at = ?4, ready = 0, attempt = max(attempt - 1, 0) \
                WHERE task_id = ?1 AND node = ?2 AND claim = ?3";
            let values = params![task_id.as_str(), node, column(claim), due_at.as_millis()];
            let held = session.run(sql, values)? > 0;
            session.wakes.work |= held;
            Ok(held)
        })
        .await
    }

    async fn work_depth(&self, now: Timestamp) -> Result<(u64, u64), StoreError> {
        self.read(move |connection| {
            let sql = "SELECT count(*), count(*) FILTER (WHERE node IS NOT NULL AND wake_at > ?1) \
                FROM work";
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

/// Puts a task into the queue, behind all others.
pub(super) fn queue(
    session: &mut Session<'_>,
    task_id: &TaskId,
    agent: &AgentId,
    priority: Priority,
    due_at: Timestamp,
    now: Timestamp,
) -> Outcome<()> {
    session.counters.position += 1;
    let sql = "INSERT INTO work \
        (task_id, agent, priority, position, ready, wake_at, attempt, claim, node) \
        VALUES (?1, ?2, ?3, ?4, ?5, ?6, 0, 0, NULL) \
        ON CONFLICT (task_id) DO UPDATE SET agent = excluded.agent, \
        priority = excluded.priority, position = excluded.position, ready = excluded.ready, \
        wake_at = excluded.wake_at, attempt = 0, claim = 0, node = NULL";
    let values = params![
        task_id.as_str(),
        agent.as_str(),
        rank(priority),
        session.counters.position,
        due_at <= now,
        due_at.as_millis(),
    ];
    once(session.run(sql, values)?)?;
    session.wakes.work = true;
    Ok(())
}

/// Makes claimable what was claimed. The run was begun, so it counts as an attempt, and whoever still
/// has its number writes nothing more.
pub(super) fn let_go(session: &mut Session<'_>, now: Timestamp) -> Outcome<()> {
    // One that has been seen to be over is not asleep, and can be had already.
    let sql = "UPDATE work INDEXED BY work_asleep SET node = NULL, wake_at = min(wake_at, ?1) \
        WHERE ready = 0 AND node IS NOT NULL";
    session.wakes.work |= session.run(sql, [now.as_millis()])? > 0;
    Ok(())
}

const fn rank(priority: Priority) -> i64 {
    match priority {
        Priority::Low => 0,
        Priority::Normal => 1,
        Priority::High => 2,
        Priority::Urgent => 3,
    }
}

fn take(session: &mut Session<'_>, claim: &WorkClaim) -> Outcome<Vec<WorkItem>> {
    let now = claim.now.as_millis();
    // What has become due and what was lost by others joins what can be had.
    let sql = "UPDATE work INDEXED BY work_asleep SET ready = 1 WHERE ready = 0 AND wake_at <= ?1";
    session.run(sql, [now])?;
    let mut items = Vec::new();
    for (agent, wanted) in &claim.wanted {
        let sql = "SELECT task_id, attempt FROM work INDEXED BY work_ready \
            WHERE ready = 1 AND agent = ?1 AND wake_at <= ?2 \
            ORDER BY priority DESC, position LIMIT ?3";
        let values = params![agent.as_str(), now, column(*wanted as u64)];
        let found = session.all(sql, values, |row| {
            let task_id: TaskId = word("work", text(row, 0)?)?;
            Ok((task_id, count::<u32>("work", row.get(1)?)?))
        })?;
        for (task_id, attempts) in found {
            session.counters.claims += 1;
            let number = session.counters.claims;
            let sql = "UPDATE work SET ready = 0, wake_at = ?2, attempt = attempt + 1, \
                claim = ?3, node = ?4 WHERE task_id = ?1";
            let until = claim.until.as_millis();
            session.run(sql, params![task_id.as_str(), until, number, claim.node])?;
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
