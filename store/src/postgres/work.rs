//! The queue of tasks: claimed in their turn, held under a lease.

use super::PostgresStore;
use super::fault::Fault;
use super::moments::{PostgresClock, now_or_server};
use super::pipeline::{ask, begin_with};
use super::session::Done;
use super::text;
use super::turns::TakenTurns;
use crate::codec::{column, count, from_flow, word};
use async_trait::async_trait;
use deadpool_postgres::Object;
use interzone_hub::RunShares;
use interzone_hub::ports::{Commit, Fence, StoreError, Wake, WorkClaim, WorkItem, WorkStore};
use interzone_protocol::vocab::{AgentId, TaskId, Timestamp};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// What is locked is being claimed by somebody else, or written under its lease: it is skipped.
/// So is what this node works at itself.
const CLAIM: &str = concat!(
    "WITH picked AS (
        SELECT waiting.task_id
        FROM unnest($1::text[], $2::bigint[]) AS wanted (agent, number), LATERAL (
            SELECT task_id FROM work
            WHERE work.agent = wanted.agent AND free_at <= ",
    now_or_server!("$3"),
    " AND (claim IS NULL OR claim <> ALL ($6::bigint[]))
            ORDER BY turn, place LIMIT wanted.number
            FOR UPDATE SKIP LOCKED) AS waiting)
    UPDATE work SET node = $4, claim = nextval('work_claims'), attempt = attempt + 1,
        free_at = ",
    now_or_server!("$3"),
    " + $5::bigint
    WHERE work.task_id = ANY (ARRAY(SELECT task_id FROM picked))
    RETURNING work.task_id, agent, attempt, claim, flow, turn, place"
);

/// The first tasks of each owner and priority that wait for an agent. An owner at its share may have any number of tasks
/// in front of the others, so the index is entered once for each.
const FIRST_OF_EACH_OWNER: &str = concat!(
    "WITH RECURSIVE flows (flow) AS (
        SELECT min(flow) FROM work WHERE agent = $1
        UNION ALL
        SELECT (SELECT min(work.flow) FROM work WHERE agent = $1 AND work.flow > flows.flow)
        FROM flows WHERE flows.flow IS NOT NULL)
    SELECT waiting.task_id, flows.flow, waiting.turn, waiting.place FROM flows, LATERAL (
        SELECT task_id, turn, place FROM work
        WHERE agent = $1 AND work.flow = flows.flow AND free_at <= ",
    now_or_server!("$3"),
    " AND (claim IS NULL OR claim <> ALL ($4::bigint[]))
        ORDER BY turn LIMIT $2) AS waiting"
);

/// Claims these tasks, unless another node has claimed them since they were selected.
const CLAIM_THESE: &str = concat!(
    "UPDATE work SET node = $3, claim = nextval('work_claims'), attempt = attempt + 1,
        free_at = ",
    now_or_server!("$2"),
    " + $4::bigint
    WHERE work.task_id = ANY (ARRAY(
        SELECT task_id FROM work WHERE task_id = ANY ($1::text[]) AND free_at <= ",
    now_or_server!("$2"),
    " AND (claim IS NULL OR claim <> ALL ($5::bigint[])) FOR UPDATE SKIP LOCKED))
    RETURNING work.task_id, agent, attempt, claim, flow, turn, place"
);

/// Undoes claims of this transaction.
const UNCLAIM: &str =
    "UPDATE work SET free_at = $2, node = NULL, claim = NULL, attempt = attempt - 1
    WHERE task_id = ANY ($1::text[])";

/// From when on work can be claimed that waits for nothing: before any moment that a clock can show.
pub(super) const AT_ONCE: i64 = i64::MIN;

/// What somebody asks for, as the statement wants it.
pub(super) struct Wanted<'c> {
    agents: Vec<&'c AgentId>,
    numbers: Vec<i64>,
    now: Option<i64>,
    node: Cow<'c, str>,
    lease: i64,
    running: Vec<i64>,
    shares: &'c RunShares,
}

/// What was claimed, with its place in the queue.
struct Claimed {
    item: WorkItem,
    turn: i64,
    place: i64,
}

impl Claimed {
    fn read(row: &Row) -> Result<Self, StoreError> {
        let (owner, _) = from_flow(row.get(4))?;
        let item = WorkItem {
            task_id: word("a task", row.get(0))?,
            agent: word("an agent", row.get(1))?,
            owner,
            attempt: count("an attempt", row.get(2))?,
            claim: count("a claim", row.get(3))?,
        };
        let (turn, place) = (row.get(5), row.get(6));
        Ok(Self { item, turn, place })
    }

    /// In the order of the queue.
    fn read_all(rows: &[Row]) -> Result<Vec<Self>, StoreError> {
        let mut claimed: Vec<Self> = rows.iter().map(Self::read).collect::<Result<_, _>>()?;
        claimed.sort_by_key(|claimed| (claimed.turn, claimed.place));
        Ok(claimed)
    }
}

impl<'c> Wanted<'c> {
    pub(super) fn new(claim: &'c WorkClaim, clock: PostgresClock) -> Self {
        // All is picked before anything is taken, so an agent that is named twice is asked for once.
        let mut wanted: BTreeMap<&AgentId, i64> = BTreeMap::new();
        for (agent, number) in &claim.wanted {
            let sum = wanted.entry(agent).or_default();
            *sum = sum.saturating_add(limit(*number));
        }
        let (agents, numbers) = wanted.into_iter().unzip();
        Self {
            agents,
            numbers,
            now: clock.now(claim.now),
            node: text::escaped(&claim.node),
            lease: clock.length(claim.now, claim.lease),
            running: claim.running.iter().copied().map(column).collect(),
            shares: &claim.shares,
        }
    }

    /// Claims in a transaction, which begins with it or has begun before.
    pub(super) async fn claim(
        &self,
        client: &Object,
        begins: bool,
        turns: &TakenTurns,
    ) -> Result<Vec<WorkItem>, Fault> {
        // Where an owner is at its share already, the owners are looked at one by one.
        let is_free = |agent: &AgentId| self.shares.at_share(agent).next().is_none();
        let agents: Vec<&str> = self.agents.iter().map(|agent| agent.as_str()).collect();
        let all = self.agents.iter().zip(&self.numbers);
        let numbers = all.map(|(agent, number)| if is_free(agent) { *number } else { 0 });
        let numbers: Vec<i64> = numbers.collect();
        let params: [&(dyn ToSql + Sync); 6] = [
            &agents,
            &numbers,
            &self.now,
            &self.node,
            &self.lease,
            &self.running,
        ];
        let rows = match begins {
            true => begin_with(client, CLAIM, &params).await?,
            false => ask(client, CLAIM, &params).await?,
        };
        let mut shares = self.shares.clone();
        let (mut claimed, mut excess) = (Vec::new(), Vec::new());
        for one in Claimed::read_all(&rows)? {
            let (agent, owner) = (&one.item.agent, &one.item.owner);
            if shares.admits(agent, owner) {
                shares.add(agent, owner);
                claimed.push(one);
            } else {
                excess.push(one.item);
            }
        }
        if !excess.is_empty() {
            let ids: Vec<&str> = excess.iter().map(|item| item.task_id.as_str()).collect();
            ask(client, UNCLAIM, &[&ids, &AT_ONCE]).await?;
        }
        for (agent, number) in self.agents.iter().zip(&self.numbers) {
            let is_short = excess.iter().any(|item| item.agent == **agent);
            if *number > 0 && (is_short || !is_free(agent)) {
                let got = claimed.iter().filter(|one| one.item.agent == **agent);
                let left = number.saturating_sub(limit(got.count()));
                let more = self.claim_by_owner(client, agent, left, &mut shares);
                claimed.extend(more.await?);
            }
        }
        for one in &claimed {
            turns.note(&one.item.agent, one.turn);
        }
        Ok(claimed.into_iter().map(|one| one.item).collect())
    }

    /// Claims the tasks of an agent whose turn it is, of owners that may have more runs.
    async fn claim_by_owner(
        &self,
        client: &Object,
        agent: &AgentId,
        number: i64,
        shares: &mut RunShares,
    ) -> Result<Vec<Claimed>, Fault> {
        let params: [&(dyn ToSql + Sync); 4] = [&agent.as_str(), &number, &self.now, &self.running];
        let mut rows = ask(client, FIRST_OF_EACH_OWNER, &params).await?;
        rows.sort_by_key(|row| (row.get::<_, i64>(2), row.get::<_, i64>(3)));
        let mut ids: Vec<&str> = Vec::new();
        for row in &rows {
            let (owner, _) = from_flow(row.get(1))?;
            if limit(ids.len()) < number && shares.admits(agent, &owner) {
                shares.add(agent, &owner);
                ids.push(row.get(0));
            }
        }
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let params: [&(dyn ToSql + Sync); 5] =
            [&ids, &self.now, &self.node, &self.lease, &self.running];
        let rows = ask(client, CLAIM_THESE, &params).await?;
        Ok(Claimed::read_all(&rows)?)
    }
}

#[async_trait]
impl WorkStore for PostgresStore {
    async fn claim_work(&self, claim: &WorkClaim) -> Result<Vec<WorkItem>, StoreError> {
        let wanted = Wanted::new(claim, self.clock());
        if wanted.numbers.iter().all(|number| *number == 0) {
            return Ok(Vec::new());
        }
        let wanted = &wanted;
        self.session
            .transact("claim work", |client| {
                Box::pin(async move {
                    let items = wanted.claim(&client, true, &self.turns).await?;
                    Ok(if items.is_empty() {
                        Done::Nothing(items)
                    } else {
                        Done::Written(items)
                    })
                })
            })
            .await
    }

    async fn commit_and_claim(
        &self,
        commit: Commit,
        claim: &WorkClaim,
    ) -> Result<Vec<WorkItem>, StoreError> {
        self.write(&commit, Some(claim)).await
    }

    async fn renew_work(
        &self,
        task_id: &TaskId,
        node: &str,
        claim: u64,
        lease: Duration,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let sql = concat!(
            "UPDATE work SET free_at = ",
            now_or_server!("$5"),
            " + $4::bigint WHERE task_id = $1 AND node = $2 AND claim = $3 RETURNING task_id"
        );
        let (node, clock) = (text::escaped(node), self.clock());
        let (claim, lease) = (column(claim), clock.length(now, lease));
        let now = clock.now(now);
        let params: [&(dyn ToSql + Sync); 5] = [&task_id.as_str(), &node, &claim, &lease, &now];
        self.write_if_found("renew work", sql, &params).await
    }

    async fn release_work(
        &self,
        task_id: &TaskId,
        node: &str,
        claim: u64,
        wait: Duration,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let sql = concat!(
            "UPDATE work SET free_at = CASE WHEN $4::bigint = 0 THEN $6 ELSE ",
            now_or_server!("$5"),
            " + $4::bigint END, node = NULL, claim = NULL, attempt = greatest(attempt - 1, 0)
              WHERE task_id = $1 AND node = $2 AND claim = $3 RETURNING task_id"
        );
        let (node, clock) = (text::escaped(node), self.clock());
        let (claim, wait) = (column(claim), clock.length(now, wait));
        let (task_id, now) = (task_id.as_str(), clock.now(now));
        let params: [&(dyn ToSql + Sync); 6] = [&task_id, &node, &claim, &wait, &now, &AT_ONCE];
        let held = self.write_if_found("release work", sql, &params).await?;
        if held {
            self.wakes.tell([Wake::Work]);
        }
        Ok(held)
    }

    async fn abandon_work(&self, claims: &[Fence]) -> Result<(), StoreError> {
        let sql = "UPDATE work SET free_at = $4, node = NULL, claim = NULL
                   FROM unnest($1::text[], $2::text[], $3::bigint[]) AS gone (task_id, node, claim)
                   WHERE work.task_id = ANY ($1) AND work.task_id = gone.task_id
                       AND work.node = gone.node AND work.claim = gone.claim
                   RETURNING work.task_id";
        let tasks: Vec<&str> = claims.iter().map(|claim| claim.task_id.as_str()).collect();
        let nodes: Vec<_> = claims
            .iter()
            .map(|claim| text::escaped(&claim.node))
            .collect();
        let numbers: Vec<i64> = claims.iter().map(|claim| column(claim.claim)).collect();
        let params: [&(dyn ToSql + Sync); 4] = [&tasks, &nodes, &numbers, &AT_ONCE];
        if self.write_if_found("abandon work", sql, &params).await? {
            self.wakes.tell([Wake::Work]);
        }
        Ok(())
    }

    async fn work_depth(&self, now: Timestamp) -> Result<(u64, u64), StoreError> {
        let sql = concat!(
            "WITH present AS MATERIALIZED (SELECT ",
            now_or_server!("$1"),
            " AS moment)
             SELECT count(*) FILTER (WHERE node IS NULL OR free_at <= moment),
                    count(*) FILTER (WHERE node IS NOT NULL AND free_at > moment)
             FROM work, present"
        );
        self.two_counts(sql, &[&self.clock().now(now)]).await
    }
}

/// A limit for a statement.
pub(super) fn limit(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
