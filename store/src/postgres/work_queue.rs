//! Work queue: tasks are claimed in turn order and held under a lease.

use super::PostgresStore;
use super::clock::{PostgresClock, now_or_server};
use super::error::PgError;
use super::fair_turns::ClaimedTurns;
use super::pipeline::{begin_and_query, query_rows};
use super::text_encoding;
use super::tx_runner::TxOutcome;
use crate::codec::{int_from_column, int_to_column, parse_flow_key, parse_id};
use async_trait::async_trait;
use deadpool_postgres::Object;
use interzone_hub::RunShares;
use interzone_hub::ports::{ChangeHint, Commit, Fence, StoreError, WorkClaim, WorkItem, WorkStore};
use interzone_protocol::vocab::{AgentId, TaskId, Timestamp};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// Claims tasks. Locked rows are being claimed by another node or written under their lease, and are
/// skipped; so are the runs of this node.
const CLAIM_WORK: &str = concat!(
    "WITH picked AS (
        SELECT waiting.task_id
        FROM unnest($1::text[], $2::bigint[]) AS wanted (agent, number), LATERAL (
            SELECT task_id FROM work_queue
            WHERE work_queue.agent = wanted.agent AND claimable_at <= ",
    now_or_server!("$3"),
    " AND (claim IS NULL OR claim <> ALL ($6::bigint[]))
            ORDER BY turn, position LIMIT wanted.number
            FOR UPDATE SKIP LOCKED) AS waiting)
    UPDATE work_queue SET node = $4, claim = nextval('work_claims'), attempt = attempt + 1,
        claimable_at = ",
    now_or_server!("$3"),
    " + $5::bigint
    WHERE work_queue.task_id = ANY (ARRAY(SELECT task_id FROM picked))
    RETURNING work_queue.task_id, agent, attempt, claim, flow, turn, position"
);

/// Selects the first waiting tasks of each owner and priority of an agent. An owner at its share may have any
/// number of tasks ahead of the others, so the index is searched once per owner and priority.
const FIRST_TASKS_PER_FLOW: &str = concat!(
    "WITH RECURSIVE flows (flow) AS (
        SELECT min(flow) FROM work_queue WHERE agent = $1
        UNION ALL
        SELECT (SELECT min(work_queue.flow) FROM work_queue WHERE agent = $1 AND work_queue.flow > flows.flow)
        FROM flows WHERE flows.flow IS NOT NULL)
    SELECT waiting.task_id, flows.flow, waiting.turn, waiting.position FROM flows, LATERAL (
        SELECT task_id, turn, position FROM work_queue
        WHERE agent = $1 AND work_queue.flow = flows.flow AND claimable_at <= ",
    now_or_server!("$3"),
    " AND (claim IS NULL OR claim <> ALL ($4::bigint[]))
        ORDER BY turn LIMIT $2) AS waiting"
);

/// Claims these tasks, unless another node has claimed them in the meantime.
const CLAIM_SELECTED: &str = concat!(
    "UPDATE work_queue SET node = $3, claim = nextval('work_claims'), attempt = attempt + 1,
        claimable_at = ",
    now_or_server!("$2"),
    " + $4::bigint
    WHERE work_queue.task_id = ANY (ARRAY(
        SELECT task_id FROM work_queue WHERE task_id = ANY ($1::text[]) AND claimable_at <= ",
    now_or_server!("$2"),
    " AND (claim IS NULL OR claim <> ALL ($5::bigint[])) FOR UPDATE SKIP LOCKED))
    RETURNING work_queue.task_id, agent, attempt, claim, flow, turn, position"
);

/// Undoes claims of this transaction.
const UNCLAIM: &str =
    "UPDATE work_queue SET claimable_at = $2, node = NULL, claim = NULL, attempt = attempt - 1
    WHERE task_id = ANY ($1::text[])";

/// `claimable_at` of work that is due at once: before any timestamp.
pub(super) const DUE_AT_ONCE: i64 = i64::MIN;

/// Statement parameters of a work claim.
pub(super) struct ClaimParams<'c> {
    agents: Vec<&'c AgentId>,
    numbers: Vec<i64>,
    now: Option<i64>,
    node: Cow<'c, str>,
    lease: i64,
    running: Vec<i64>,
    shares: &'c RunShares,
}

/// A claimed task with its queue position.
struct ClaimedWork {
    item: WorkItem,
    turn: i64,
    position: i64,
}

impl ClaimedWork {
    fn from_row(row: &Row) -> Result<Self, StoreError> {
        let (owner, _) = parse_flow_key(row.get(4))?;
        let item = WorkItem {
            task_id: parse_id("a task", row.get(0))?,
            agent: parse_id("an agent", row.get(1))?,
            owner,
            attempt: int_from_column("an attempt", row.get(2))?,
            claim: int_from_column("a claim", row.get(3))?,
        };
        let (turn, position) = (row.get(5), row.get(6));
        Ok(Self {
            item,
            turn,
            position,
        })
    }

    /// Reads all rows, in queue order.
    fn from_rows(rows: &[Row]) -> Result<Vec<Self>, StoreError> {
        let mut claimed: Vec<Self> = rows.iter().map(Self::from_row).collect::<Result<_, _>>()?;
        claimed.sort_by_key(|claimed| (claimed.turn, claimed.position));
        Ok(claimed)
    }
}

impl<'c> ClaimParams<'c> {
    pub(super) fn new(claim: &'c WorkClaim, clock: PostgresClock) -> Self {
        // All rows are picked before any is updated, so requests for the same agent are summed.
        let mut counts_by_agent: BTreeMap<&AgentId, i64> = BTreeMap::new();
        for (agent, number) in &claim.wanted {
            let sum = counts_by_agent.entry(agent).or_default();
            *sum = sum.saturating_add(limit_param(*number));
        }
        let (agents, numbers) = counts_by_agent.into_iter().unzip();
        Self {
            agents,
            numbers,
            now: clock.now_param(claim.now),
            node: text_encoding::escape_nul(&claim.node),
            lease: clock.duration_millis(claim.now, claim.lease),
            running: claim
                .running_claims
                .iter()
                .copied()
                .map(int_to_column)
                .collect(),
            shares: &claim.shares,
        }
    }

    /// Claims in a transaction, which this call begins if `begins` is set.
    pub(super) async fn claim(
        &self,
        client: &Object,
        begin_transaction: bool,
        turns: &ClaimedTurns,
    ) -> Result<Vec<WorkItem>, PgError> {
        // Where an owner is at its share already, owners are handled one by one.
        let has_no_owner_at_share =
            |agent: &AgentId| self.shares.owners_at_limit(agent).next().is_none();
        let agents: Vec<&str> = self.agents.iter().map(|agent| agent.as_str()).collect();
        let all = self.agents.iter().zip(&self.numbers);
        let numbers = all.map(|(agent, number)| {
            if has_no_owner_at_share(agent) {
                *number
            } else {
                0
            }
        });
        let numbers: Vec<i64> = numbers.collect();
        let params: [&(dyn ToSql + Sync); 6] = [
            &agents,
            &numbers,
            &self.now,
            &self.node,
            &self.lease,
            &self.running,
        ];
        let rows = match begin_transaction {
            true => begin_and_query(client, CLAIM_WORK, &params).await?,
            false => query_rows(client, CLAIM_WORK, &params).await?,
        };
        let mut shares = self.shares.clone();
        let (mut claimed, mut excess) = (Vec::new(), Vec::new());
        for one in ClaimedWork::from_rows(&rows)? {
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
            query_rows(client, UNCLAIM, &[&ids, &DUE_AT_ONCE]).await?;
        }
        for (agent, number) in self.agents.iter().zip(&self.numbers) {
            let has_excess = excess.iter().any(|item| item.agent == **agent);
            if *number > 0 && (has_excess || !has_no_owner_at_share(agent)) {
                let of_agent = claimed.iter().filter(|one| one.item.agent == **agent);
                let remaining = number.saturating_sub(limit_param(of_agent.count()));
                let further = self.claim_by_owner(client, agent, remaining, &mut shares);
                claimed.extend(further.await?);
            }
        }
        for one in &claimed {
            turns.record(&one.item.agent, one.turn);
        }
        Ok(claimed.into_iter().map(|one| one.item).collect())
    }

    /// Claims an agent's next tasks in turn order, skipping owners at their share.
    async fn claim_by_owner(
        &self,
        client: &Object,
        agent: &AgentId,
        number: i64,
        shares: &mut RunShares,
    ) -> Result<Vec<ClaimedWork>, PgError> {
        let params: [&(dyn ToSql + Sync); 4] = [&agent.as_str(), &number, &self.now, &self.running];
        let mut rows = query_rows(client, FIRST_TASKS_PER_FLOW, &params).await?;
        rows.sort_by_key(|row| (row.get::<_, i64>(2), row.get::<_, i64>(3)));
        let mut ids: Vec<&str> = Vec::new();
        for row in &rows {
            let (owner, _) = parse_flow_key(row.get(1))?;
            if limit_param(ids.len()) < number && shares.admits(agent, &owner) {
                shares.add(agent, &owner);
                ids.push(row.get(0));
            }
        }
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let params: [&(dyn ToSql + Sync); 5] =
            [&ids, &self.now, &self.node, &self.lease, &self.running];
        let rows = query_rows(client, CLAIM_SELECTED, &params).await?;
        Ok(ClaimedWork::from_rows(&rows)?)
    }
}

#[async_trait]
impl WorkStore for PostgresStore {
    async fn claim_work(&self, claim: &WorkClaim) -> Result<Vec<WorkItem>, StoreError> {
        let wanted = ClaimParams::new(claim, self.clock());
        if wanted.numbers.iter().all(|number| *number == 0) {
            return Ok(Vec::new());
        }
        let wanted = &wanted;
        self.tx_runner
            .transact("claim work", |client| {
                Box::pin(async move {
                    let items = wanted.claim(&client, true, &self.turns).await?;
                    Ok(if items.is_empty() {
                        TxOutcome::ReadOnly(items)
                    } else {
                        TxOutcome::Written(items)
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
        self.write_commit(&commit, Some(claim)).await
    }

    async fn renew_work(
        &self,
        task_id: &TaskId,
        node: &str,
        claim: u64,
        lease: Duration,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        // Lease renewal, fenced by node and claim number.
        let sql = concat!(
            "UPDATE work_queue SET claimable_at = ",
            now_or_server!("$5"),
            " + $4::bigint WHERE task_id = $1 AND node = $2 AND claim = $3 RETURNING task_id"
        );
        let (node, clock) = (text_encoding::escape_nul(node), self.clock());
        let (claim, lease) = (int_to_column(claim), clock.duration_millis(now, lease));
        let now = clock.now_param(now);
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
            "UPDATE work_queue SET claimable_at = CASE WHEN $4::bigint = 0 THEN $6 ELSE ",
            now_or_server!("$5"),
            " + $4::bigint END, node = NULL, claim = NULL, attempt = greatest(attempt - 1, 0)
              WHERE task_id = $1 AND node = $2 AND claim = $3 RETURNING task_id"
        );
        let (node, clock) = (text_encoding::escape_nul(node), self.clock());
        let (claim, wait) = (int_to_column(claim), clock.duration_millis(now, wait));
        let (task_id, now) = (task_id.as_str(), clock.now_param(now));
        let params: [&(dyn ToSql + Sync); 6] = [&task_id, &node, &claim, &wait, &now, &DUE_AT_ONCE];
        let was_held = self.write_if_found("release work", sql, &params).await?;
        if was_held {
            self.change_notifier.publish([ChangeHint::Work]);
        }
        Ok(was_held)
    }

    async fn abandon_work(&self, claims: &[Fence]) -> Result<(), StoreError> {
        let sql = "UPDATE work_queue SET claimable_at = $4, node = NULL, claim = NULL
                   FROM unnest($1::text[], $2::text[], $3::bigint[]) AS gone (task_id, node, claim)
                   WHERE work_queue.task_id = ANY ($1) AND work_queue.task_id = gone.task_id
                       AND work_queue.node = gone.node AND work_queue.claim = gone.claim
                   RETURNING work_queue.task_id";
        let tasks: Vec<&str> = claims.iter().map(|claim| claim.task_id.as_str()).collect();
        let nodes: Vec<_> = claims
            .iter()
            .map(|claim| text_encoding::escape_nul(&claim.node))
            .collect();
        let numbers: Vec<i64> = claims
            .iter()
            .map(|claim| int_to_column(claim.claim))
            .collect();
        let params: [&(dyn ToSql + Sync); 4] = [&tasks, &nodes, &numbers, &DUE_AT_ONCE];
        if self.write_if_found("abandon work", sql, &params).await? {
            self.change_notifier.publish([ChangeHint::Work]);
        }
        Ok(())
    }

    async fn work_depth(&self, now: Timestamp) -> Result<(u64, u64), StoreError> {
        let sql = concat!(
            "WITH present AS MATERIALIZED (SELECT ",
            now_or_server!("$1"),
            " AS moment)
             SELECT count(*) FILTER (WHERE node IS NULL OR claimable_at <= moment),
                    count(*) FILTER (WHERE node IS NOT NULL AND claimable_at > moment)
             FROM work_queue, present"
        );
        self.read_two_counts(sql, &[&self.clock().now_param(now)])
            .await
    }
}

/// Converts a limit to a statement parameter.
pub(super) fn limit_param(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
