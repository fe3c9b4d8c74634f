//! Work queue and claims (leases).

use super::SqliteStore;
use super::apply::require_changed;
use super::commit::PreparedCommit;
use super::error::SqliteResult;
use super::rows::{first, text};
use super::write_job::{Counters, WriteSession};
use crate::codec::{
    flow_key, int_from_column, int_to_column, parse_flow_key, parse_id, priority_from_rank,
};
use async_trait::async_trait;
use interzone_hub::ports::{Commit, Fence, StoreError, WorkClaim, WorkItem, WorkStore};
use interzone_hub::{RunShares, WorkOwner, turn_cost};
use interzone_protocol::vocab::{AgentId, Priority, TaskId, Timestamp};
use rusqlite::{Connection, Row, params};
use std::collections::{HashMap, HashSet};
use std::time::Duration;

#[async_trait]
impl WorkStore for SqliteStore {
    async fn claim_work(&self, claim: &WorkClaim) -> Result<Vec<WorkItem>, StoreError> {
        let claim = claim.clone();
        self.write(move |session| claim_tasks(session, &claim))
            .await
    }

    async fn commit_and_claim(
        &self,
        commit: Commit,
        claim: &WorkClaim,
    ) -> Result<Vec<WorkItem>, StoreError> {
        let prepared = PreparedCommit::new(commit)?;
        let claim = claim.clone();
        self.writer
            .write(prepared.estimated_bytes(), move |session| {
                let had_work_hint = session.hints.work;
                prepared.apply(session)?;
                let items = claim_tasks(session, &claim)?;
                // Work that is claimed already needs no hint.
                if prepared
                    .queued_tasks()
                    .all(|id| items.iter().any(|item| item.task_id == *id))
                {
                    session.hints.work = had_work_hint;
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
        // The lease lasts as long as this process, so lease renewal writes nothing.
        self.read(move |connection| {
            let sql = "SELECT 1 FROM tasks WHERE id = ?1 AND queue_node = ?2 AND queue_claim = ?3";
            let values = params![task_id.as_str(), node, int_to_column(claim)];
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
            DUE_AT_ONCE
        } else {
            now.plus(wait).as_millis()
        };
        self.write(move |session| {
            let sql = "UPDATE tasks SET queue_node = NULL, queue_claimable_at = ?4, queue_is_ready = 0, \
                queue_attempt = max(queue_attempt - 1, 0) \
                WHERE id = ?1 AND queue_node = ?2 AND queue_claim = ?3";
            let values = params![task_id.as_str(), node, int_to_column(claim), due_at];
            let was_held = session.run(sql, values)? > 0;
            session.hints.work |= was_held;
            Ok(was_held)
        })
        .await
    }

    async fn abandon_work(&self, claims: &[Fence]) -> Result<(), StoreError> {
        let claims = claims.to_vec();
        self.write(move |session| {
            let sql = "UPDATE tasks SET queue_node = NULL, queue_claimable_at = ?4, queue_is_ready = 0 \
                WHERE id = ?1 AND queue_node = ?2 AND queue_claim = ?3";
            for claim in &claims {
                let number = int_to_column(claim.claim);
                let values = params![claim.task_id.as_str(), claim.node, number, DUE_AT_ONCE];
                session.hints.work |= session.run(sql, values)? > 0;
            }
            Ok(())
        })
        .await
    }

    async fn work_depth(&self, _now: Timestamp) -> Result<(u64, u64), StoreError> {
        self.read(move |connection| {
            // Claimed work is never ready.
            let sql = "SELECT count(*) + (SELECT count(*) FROM tasks INDEXED BY tasks_queue_ready WHERE queue_is_ready = 1), \
                count(*) FILTER (WHERE queue_node IS NOT NULL) \
                FROM tasks INDEXED BY tasks_queue_not_ready WHERE queue_is_ready = 0";
            let depth = first(connection, sql, [], |row| {
                let total = int_from_column::<u64>("work", row.get(0)?)?;
                let held = int_from_column::<u64>("work", row.get(1)?)?;
                Ok((total.saturating_sub(held), held))
            })?;
            Ok(depth.unwrap_or((0, 0)))
        })
        .await
    }
}

/// Greatest position of the queued tasks.
pub(super) const LAST_POSITION: &str = "SELECT max( \
    coalesce((SELECT max(queue_position) FROM tasks INDEXED BY tasks_queue_ready WHERE queue_is_ready = 1), 0), \
    coalesce((SELECT max(queue_position) FROM tasks INDEXED BY tasks_queue_not_ready WHERE queue_is_ready = 0), 0))";

/// `queue_claimable_at` of work that can be claimed at once: before any timestamp, so that it is not delayed if the
/// clock is set back.
const DUE_AT_ONCE: i64 = i64::MIN;

/// `queue_claimable_at` of claimed work: after any timestamp. It becomes free when its holder releases it
/// or another process opens the file.
const HELD_UNTIL_RELEASED: i64 = i64::MAX;

/// Queue entry of a task.
pub(super) struct QueuePosition {
    pub(super) agent: AgentId,
    pub(super) owner: WorkOwner,
    pub(super) priority: Priority,
    pub(super) due_at: Timestamp,
}

impl QueuePosition {
    fn flow_key(&self) -> String {
        flow_key(&self.owner, self.priority)
    }

    /// Returns true if it can be claimed at once.
    fn is_ready(&self, now: Timestamp) -> bool {
        self.due_at <= now
    }

    /// Time from which it can be claimed.
    fn claimable_at(&self, now: Timestamp) -> i64 {
        if self.is_ready(now) {
            DUE_AT_ONCE
        } else {
            self.due_at.as_millis()
        }
    }
}

/// Returns a position behind all others.
fn next_position(counters: &mut Counters) -> i64 {
    counters.position += 1;
    counters.position
}

/// Returns the turn of a task that is queued now. Claimed tasks need not be read: their turns are in memory.
fn next_turn(
    session: &WriteSession<'_>,
    position: &QueuePosition,
    flow: &str,
) -> SqliteResult<i64> {
    let sql = "SELECT max(queue_turn) FROM tasks INDEXED BY tasks_queue_flows \
        WHERE queue_is_ready = 1 AND queue_agent = ?1 AND queue_flow = ?2";
    let agent = position.agent.as_str();
    let last = session.first(sql, [agent, flow], |row| Ok(row.get::<_, Option<i64>>(0)?))?;
    let claimed = session
        .counters
        .claimed_turns
        .get(agent)
        .copied()
        .unwrap_or(0);
    let turn = interzone_hub::next_turn(claimed, last.flatten(), position.priority);
    Ok(turn)
}

/// Loads the greatest claimed turn of each agent, as far as the queue shows it: a waiting task's turn minus its cost is
/// no later.
pub(super) fn load_claimed_turns(
    connection: &Connection,
) -> rusqlite::Result<HashMap<String, i64>> {
    let ready = "SELECT queue_agent, substr(queue_flow, -1), min(queue_turn) \
        FROM tasks INDEXED BY tasks_queue_flows WHERE queue_is_ready = 1 GROUP BY 1, 2";
    let asleep = "SELECT queue_agent, substr(queue_flow, -1), min(queue_turn) \
        FROM tasks INDEXED BY tasks_queue_not_ready WHERE queue_is_ready = 0 GROUP BY 1, 2";
    let mut claimed_turns = HashMap::new();
    for sql in [ready, asleep] {
        let mut statement = connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (agent, rank, turn): (String, String, i64) =
                (row.get(0)?, row.get(1)?, row.get(2)?);
            let priority = rank
                .parse()
                .ok()
                .and_then(|rank| priority_from_rank(rank).ok());
            let start = turn.saturating_sub(priority.map_or(turn, turn_cost)).max(0);
            let least_start = claimed_turns.entry(agent).or_insert(start);
            *least_start = start.min(*least_start);
        }
    }
    Ok(claimed_turns)
}

/// Queues an existing task, behind all others of its owner and priority.
pub(super) fn queue_task(
    session: &mut WriteSession<'_>,
    task_id: &TaskId,
    position: &QueuePosition,
    now: Timestamp,
) -> SqliteResult<()> {
    let flow = position.flow_key();
    let turn = next_turn(session, position, &flow)?;
    let sql = "UPDATE tasks SET queue_agent = ?2, queue_flow = ?3, queue_turn = ?4, queue_position = ?5, \
        queue_is_ready = ?6, queue_claimable_at = ?7, \
        queue_attempt = 0, queue_claim = 0, queue_node = NULL WHERE id = ?1";
    let values = params![
        task_id.as_str(),
        position.agent.as_str(),
        flow,
        turn,
        next_position(session.counters),
        position.is_ready(now),
        position.claimable_at(now),
    ];
    require_changed(session.run(sql, values)?)?;
    session.hints.work = true;
    Ok(())
}

/// Removes a task from the queue, if it is queued.
pub(super) fn dequeue_task(session: &WriteSession<'_>, task_id: &TaskId) -> SqliteResult<()> {
    let sql = "UPDATE tasks SET queue_agent = NULL, queue_flow = NULL, queue_turn = NULL, queue_position = NULL, \
        queue_is_ready = NULL, queue_claimable_at = NULL, queue_attempt = NULL, queue_claim = NULL, queue_node = NULL \
        WHERE id = ?1 AND queue_is_ready IS NOT NULL";
    session.run(sql, [task_id.as_str()]).map(|_| ())
}

/// Releases the claims of processes that are gone. The run had begun, so it counts as an attempt, and
/// fencing rejects later writes with the old claim.
pub(super) const RELEASE_ALL_WORK: &str = "UPDATE tasks INDEXED BY tasks_queue_not_ready \
    SET queue_node = NULL, queue_claimable_at = -9223372036854775808 \
    WHERE queue_is_ready = 0 AND queue_node IS NOT NULL";

/// Releases all claimed work.
pub(super) fn release_stale_work(session: &mut WriteSession<'_>) -> SqliteResult<()> {
    session.hints.work |= session.run(RELEASE_ALL_WORK, [])? > 0;
    Ok(())
}

fn claim_tasks(session: &mut WriteSession<'_>, claim: &WorkClaim) -> SqliteResult<Vec<WorkItem>> {
    let now = claim.now.as_millis();
    // Work that has become due becomes ready.
    let sql = "UPDATE tasks INDEXED BY tasks_queue_not_ready SET queue_is_ready = 1 \
        WHERE queue_is_ready = 0 AND queue_claimable_at <= ?1";
    session.run(sql, [now])?;
    let mut shares = claim.shares.clone();
    let mut items = Vec::new();
    for (agent, limit) in &claim.wanted {
        for waiting in select_tasks(session, agent, *limit, now, &mut shares)? {
            items.push(claim_task(session, agent, waiting, &claim.node)?);
        }
    }
    if !items.is_empty() {
        let sql = "UPDATE meta SET value = ?1 WHERE name = 'last_claim'";
        session.run(sql, [session.counters.claims])?;
    }
    Ok(items)
}

/// A claimable task.
struct WaitingTask {
    number: i64,
    task_id: TaskId,
    attempts: u32,
    owner: WorkOwner,
    turn: i64,
    position: i64,
}

impl WaitingTask {
    fn from_row(row: &Row<'_>) -> SqliteResult<Self> {
        let (owner, _) = parse_flow_key(text(row, 3)?)?;
        Ok(Self {
            number: row.get(0)?,
            task_id: parse_id("work", text(row, 1)?)?,
            attempts: int_from_column("work", row.get(2)?)?,
            owner,
            turn: row.get(4)?,
            position: row.get(5)?,
        })
    }
}

/// Selects the next tasks of an agent in turn order, as far as the shares of their owners allow.
fn select_tasks(
    session: &WriteSession<'_>,
    agent: &AgentId,
    limit: usize,
    now: i64,
    shares: &mut RunShares,
) -> SqliteResult<Vec<WaitingTask>> {
    let mut picked = Vec::new();
    let mut has_owner_at_share = shares.owners_at_limit(agent).next().is_some();
    if !has_owner_at_share {
        let sql = "SELECT number, id, queue_attempt, queue_flow, queue_turn, queue_position \
            FROM tasks INDEXED BY tasks_queue_ready \
            WHERE queue_is_ready = 1 AND queue_agent = ?1 AND queue_claimable_at <= ?2 \
            ORDER BY queue_turn, queue_position LIMIT ?3";
        let values = params![agent.as_str(), now, int_to_column(limit as u64)];
        for waiting in session.all(sql, values, WaitingTask::from_row)? {
            if shares.admits(agent, &waiting.owner) {
                shares.add(agent, &waiting.owner);
                picked.push(waiting);
            } else {
                has_owner_at_share = true;
            }
        }
    }
    if has_owner_at_share {
        // An owner at its share may have any number of tasks ahead of the others, so owners are handled one by one.
        let chosen: HashSet<i64> = picked.iter().map(|waiting| waiting.number).collect();
        let mut found = first_tasks_per_flow(session, agent, limit, now, shares)?;
        found.retain(|waiting| !chosen.contains(&waiting.number));
        found.sort_by_key(|waiting| (waiting.turn, waiting.position));
        for waiting in found {
            if picked.len() < limit && shares.admits(agent, &waiting.owner) {
                shares.add(agent, &waiting.owner);
                picked.push(waiting);
            }
        }
    }
    Ok(picked)
}

/// Selects the first tasks of each owner and priority whose owner is below its share.
fn first_tasks_per_flow(
    session: &WriteSession<'_>,
    agent: &AgentId,
    limit: usize,
    now: i64,
    shares: &RunShares,
) -> SqliteResult<Vec<WaitingTask>> {
    let mut found = Vec::new();
    let mut last = String::new();
    let next = "SELECT queue_flow FROM tasks INDEXED BY tasks_queue_flows \
        WHERE queue_is_ready = 1 AND queue_agent = ?1 AND queue_flow > ?2 ORDER BY queue_flow LIMIT 1";
    let read = |row: &Row<'_>| Ok(text(row, 0)?.to_owned());
    while let Some(flow) = session.first(next, [agent.as_str(), &last], read)? {
        let (owner, _) = parse_flow_key(&flow)?;
        if shares.admits(agent, &owner) {
            let sql = "SELECT number, id, queue_attempt, queue_flow, queue_turn, queue_position \
                FROM tasks INDEXED BY tasks_queue_flows \
                WHERE queue_is_ready = 1 AND queue_agent = ?1 AND queue_flow = ?2 AND queue_claimable_at <= ?3 \
                ORDER BY queue_turn LIMIT ?4";
            let values = params![agent.as_str(), flow, now, int_to_column(limit as u64)];
            found.extend(session.all(sql, values, WaitingTask::from_row)?);
        }
        last = flow;
    }
    Ok(found)
}

/// Claims a task.
fn claim_task(
    session: &mut WriteSession<'_>,
    agent: &AgentId,
    waiting: WaitingTask,
    node: &str,
) -> SqliteResult<WorkItem> {
    session.counters.claims += 1;
    let number = session.counters.claims;
    let sql = "UPDATE tasks SET queue_is_ready = 0, queue_claimable_at = ?2, queue_attempt = queue_attempt + 1, \
        queue_claim = ?3, queue_node = ?4 WHERE number = ?1";
    session.run(
        sql,
        params![waiting.number, HELD_UNTIL_RELEASED, number, node],
    )?;
    let claimed_turns = &mut session.counters.claimed_turns;
    match claimed_turns.get_mut(agent.as_str()) {
        Some(turn) => *turn = waiting.turn.max(*turn),
        None => drop(claimed_turns.insert(agent.as_str().to_owned(), waiting.turn)),
    }
    Ok(WorkItem {
        task_id: waiting.task_id,
        agent: agent.clone(),
        owner: waiting.owner,
        attempt: waiting.attempts.saturating_add(1),
        claim: int_from_column("claim", number)?,
    })
}
