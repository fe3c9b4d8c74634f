//! The queue of tasks, and who is at which.

use super::SqliteStore;
use super::apply::once;
use super::commit::Prepared;
use super::fault::Outcome;
use super::job::{Counters, Session};
use super::rows::{first, text};
use crate::codec::{column, count, flow, from_flow, from_rank, rank, word};
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
    pub(super) owner: WorkOwner,
    pub(super) priority: Priority,
    pub(super) due_at: Timestamp,
}

impl Place {
    pub(super) fn rank(&self) -> i16 {
        rank(self.priority)
    }

    pub(super) fn flow(&self) -> String {
        flow(&self.owner, self.priority)
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

/// The turn of a task that is queued now. What is claimed need not be counted: turns that were claimed are in memory.
pub(super) fn next_turn(session: &Session<'_>, place: &Place, flow: &str) -> Outcome<i64> {
    let sql = "SELECT max(work_turn) FROM tasks INDEXED BY work_flows \
        WHERE work_ready = 1 AND work_agent = ?1 AND work_flow = ?2";
    let agent = place.agent.as_str();
    let last = session.first(sql, [agent, flow], |row| Ok(row.get::<_, Option<i64>>(0)?))?;
    let taken = session.counters.taken.get(agent).copied().unwrap_or(0);
    let turn = interzone_hub::next_turn(taken, last.flatten(), place.priority);
    Ok(turn)
}

/// The greatest turns that were claimed before, for each agent, as far as the queue tells: those of what waits began
/// no later than with them.
pub(super) fn taken(connection: &Connection) -> rusqlite::Result<HashMap<String, i64>> {
    let ready = "SELECT work_agent, substr(work_flow, -1), min(work_turn) \
        FROM tasks INDEXED BY work_flows WHERE work_ready = 1 GROUP BY 1, 2";
    let asleep = "SELECT work_agent, substr(work_flow, -1), min(work_turn) \
        FROM tasks INDEXED BY work_asleep WHERE work_ready = 0 GROUP BY 1, 2";
    let mut taken = HashMap::new();
    for sql in [ready, asleep] {
        let mut statement = connection.prepare(sql)?;
        let mut rows = statement.query([])?;
        while let Some(row) = rows.next()? {
            let (agent, rank, turn): (String, String, i64) =
                (row.get(0)?, row.get(1)?, row.get(2)?);
            let priority = rank.parse().ok().and_then(|rank| from_rank(rank).ok());
            let start = turn.saturating_sub(priority.map_or(turn, turn_cost)).max(0);
            let least = taken.entry(agent).or_insert(start);
            *least = start.min(*least);
        }
    }
    Ok(taken)
}

/// Puts a task that is there into the queue, behind all others of its owner and priority.
pub(super) fn queue(
    session: &mut Session<'_>,
    task_id: &TaskId,
    place: &Place,
    now: Timestamp,
) -> Outcome<()> {
    let flow = place.flow();
    let turn = next_turn(session, place, &flow)?;
    let sql = "UPDATE tasks SET work_agent = ?2, work_priority = ?3, work_position = ?4, work_ready = ?5, \
        work_wake_at = ?6, work_flow = ?7, work_turn = ?8, \
        work_attempt = 0, work_claim = 0, work_node = NULL WHERE id = ?1";
    let values = params![
        task_id.as_str(),
        place.agent.as_str(),
        place.rank(),
        next_position(session.counters),
        place.is_ready(now),
        place.wake_at(now),
        flow,
        turn,
    ];
    once(session.run(sql, values)?)?;
    session.wakes.work = true;
    Ok(())
}

/// Takes a task out of the queue, if it is in it.
pub(super) fn end(session: &Session<'_>, task_id: &TaskId) -> Outcome<()> {
    let sql = "UPDATE tasks SET work_agent = NULL, work_priority = NULL, work_position = NULL, \
        work_flow = NULL, work_turn = NULL, work_ready = NULL, work_wake_at = NULL, work_attempt = NULL, work_claim = NULL, work_node = NULL \
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
    let mut shares = claim.shares.clone();
    let mut items = Vec::new();
    for (agent, wanted) in &claim.wanted {
        for waiting in pick(session, agent, *wanted, now, &mut shares)? {
            items.push(hold(session, agent, waiting, &claim.node)?);
        }
    }
    if !items.is_empty() {
        let sql = "UPDATE meta SET value = ?1 WHERE name = 'claims'";
        session.run(sql, [session.counters.claims])?;
    }
    Ok(items)
}

/// A task that can be claimed.
struct Waiting {
    row: i64,
    task_id: TaskId,
    attempts: u32,
    owner: WorkOwner,
    turn: i64,
    position: i64,
}

impl Waiting {
    fn read(row: &Row<'_>) -> Outcome<Self> {
        let (owner, _) = from_flow(text(row, 3)?)?;
        Ok(Self {
            row: row.get(0)?,
            task_id: word("work", text(row, 1)?)?,
            attempts: count("work", row.get(2)?)?,
            owner,
            turn: row.get(4)?,
            position: row.get(5)?,
        })
    }
}

/// The tasks of an agent whose turn it is, as far as the shares of their owners admit.
fn pick(
    session: &Session<'_>,
    agent: &AgentId,
    wanted: usize,
    now: i64,
    shares: &mut RunShares,
) -> Outcome<Vec<Waiting>> {
    let mut picked = Vec::new();
    let mut some_wait = shares.at_share(agent).next().is_some();
    if !some_wait {
        let sql = "SELECT row, id, work_attempt, work_flow, work_turn, work_position \
            FROM tasks INDEXED BY work_ready \
            WHERE work_ready = 1 AND work_agent = ?1 AND work_wake_at <= ?2 \
            ORDER BY work_turn, work_position LIMIT ?3";
        let values = params![agent.as_str(), now, column(wanted as u64)];
        for waiting in session.all(sql, values, Waiting::read)? {
            if shares.admits(agent, &waiting.owner) {
                shares.add(agent, &waiting.owner);
                picked.push(waiting);
            } else {
                some_wait = true;
            }
        }
    }
    if some_wait {
        // An owner at its share may have any number of tasks in front of the others, so owners are looked at one by one.
        let chosen: HashSet<i64> = picked.iter().map(|waiting| waiting.row).collect();
        let mut found = wait_by_owner(session, agent, wanted, now, shares)?;
        found.retain(|waiting| !chosen.contains(&waiting.row));
        found.sort_by_key(|waiting| (waiting.turn, waiting.position));
        for waiting in found {
            if picked.len() < wanted && shares.admits(agent, &waiting.owner) {
                shares.add(agent, &waiting.owner);
                picked.push(waiting);
            }
        }
    }
    Ok(picked)
}

/// The first tasks of each owner and priority that may have more runs of this agent.
fn wait_by_owner(
    session: &Session<'_>,
    agent: &AgentId,
    wanted: usize,
    now: i64,
    shares: &RunShares,
) -> Outcome<Vec<Waiting>> {
    let mut found = Vec::new();
    let mut last = String::new();
    let next = "SELECT work_flow FROM tasks INDEXED BY work_flows \
        WHERE work_ready = 1 AND work_agent = ?1 AND work_flow > ?2 ORDER BY work_flow LIMIT 1";
    let read = |row: &Row<'_>| Ok(text(row, 0)?.to_owned());
    while let Some(flow) = session.first(next, [agent.as_str(), &last], read)? {
        let (owner, _) = from_flow(&flow)?;
        if shares.admits(agent, &owner) {
            let sql = "SELECT row, id, work_attempt, work_flow, work_turn, work_position \
                FROM tasks INDEXED BY work_flows \
                WHERE work_ready = 1 AND work_agent = ?1 AND work_flow = ?2 AND work_wake_at <= ?3 \
                ORDER BY work_turn LIMIT ?4";
            let values = params![agent.as_str(), flow, now, column(wanted as u64)];
            found.extend(session.all(sql, values, Waiting::read)?);
        }
        last = flow;
    }
    Ok(found)
}

/// Claims a task.
fn hold(
    session: &mut Session<'_>,
    agent: &AgentId,
    waiting: Waiting,
    node: &str,
) -> Outcome<WorkItem> {
    session.counters.claims += 1;
    let number = session.counters.claims;
    let sql = "UPDATE tasks SET work_ready = 0, work_wake_at = ?2, work_attempt = work_attempt + 1, \
        work_claim = ?3, work_node = ?4 WHERE row = ?1";
    session.run(sql, params![waiting.row, HELD, number, node])?;
    let taken = &mut session.counters.taken;
    match taken.get_mut(agent.as_str()) {
        Some(turn) => *turn = waiting.turn.max(*turn),
        None => drop(taken.insert(agent.as_str().to_owned(), waiting.turn)),
    }
    Ok(WorkItem {
        task_id: waiting.task_id,
        agent: agent.clone(),
        owner: waiting.owner,
        attempt: waiting.attempts.saturating_add(1),
        claim: count("claim", number)?,
    })
}
