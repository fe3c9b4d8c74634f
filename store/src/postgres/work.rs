//! The queue of tasks: claimed in their turn, held under a lease.

use super::PostgresStore;
use super::moments::{PostgresClock, now_or_server};
use super::pipeline::begin_with;
use super::session::Done;
use super::text;
use crate::codec::{column, count, word};
use async_trait::async_trait;
use interzone_hub::ports::{Commit, Fence, StoreError, Wake, WorkClaim, WorkItem, WorkStore};
use interzone_protocol::vocab::{TaskId, Timestamp};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::time::Duration;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// What is locked is being claimed by somebody else, or written under its lease: it is skipped.
/// So is what this node works at itself.
pub(super) const CLAIM: &str = concat!(
    "WITH picked AS (
        SELECT waiting.task_id
        FROM unnest($1::text[], $2::bigint[]) AS wanted (agent, number), LATERAL (
            SELECT task_id FROM work
            WHERE work.agent = wanted.agent AND free_at <= ",
    now_or_server!("$3"),
    " AND (claim IS NULL OR claim <> ALL ($6::bigint[]))
            ORDER BY priority DESC, place LIMIT wanted.number
            FOR UPDATE SKIP LOCKED) AS waiting)
    UPDATE work SET node = $4, claim = nextval('work_claims'), attempt = attempt + 1,
        free_at = ",
    now_or_server!("$3"),
    " + $5::bigint
    WHERE work.task_id = ANY (ARRAY(SELECT task_id FROM picked))
    RETURNING work.task_id, agent, attempt, claim, priority, place"
);

/// From when on work can be claimed that waits for nothing: before any moment that a clock can show.
pub(super) const AT_ONCE: i64 = i64::MIN;

/// What somebody asks for, as the statement wants it.
pub(super) struct Wanted<'c> {
    agents: Vec<&'c str>,
    numbers: Vec<i64>,
    now: Option<i64>,
    node: Cow<'c, str>,
    lease: i64,
    running: Vec<i64>,
}

impl<'c> Wanted<'c> {
    pub(super) fn new(claim: &'c WorkClaim, clock: PostgresClock) -> Self {
        // All is picked before anything is taken, so an agent that is named twice is asked for once.
        let mut wanted: BTreeMap<&str, i64> = BTreeMap::new();
        for (agent, number) in &claim.wanted {
            let sum = wanted.entry(agent.as_str()).or_default();
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
        }
    }

    pub(super) fn params(&self) -> [&(dyn ToSql + Sync); 6] {
        [
            &self.agents,
            &self.numbers,
            &self.now,
            &self.node,
            &self.lease,
            &self.running,
        ]
    }

    /// What was claimed, in the order of the queue.
    pub(super) fn items(&self, mut rows: Vec<Row>) -> Result<Vec<WorkItem>, StoreError> {
        rows.sort_by_key(|row| {
            let (priority, place): (i16, i64) = (row.get(4), row.get(5));
            (std::cmp::Reverse(priority), place)
        });
        let items = rows.iter().map(|row| {
            Ok(WorkItem {
                task_id: word("a task", row.get(0))?,
                agent: word("an agent", row.get(1))?,
                attempt: count("an attempt", row.get(2))?,
                claim: count("a claim", row.get(3))?,
            })
        });
        items.collect()
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
                    let rows = begin_with(&client, CLAIM, &wanted.params()).await?;
                    let items = wanted.items(rows)?;
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
