//! The queue of tasks: claimed in their turn, held under a lease.

use super::PostgresStore;
use super::pipeline::begin_with;
use super::session::Done;
use super::text;
use crate::codec::{column, count, word};
use async_trait::async_trait;
use interzone_hub::ports::{Commit, StoreError, Wake, WorkClaim, WorkItem, WorkStore};
use interzone_protocol::vocab::{TaskId, Timestamp};
use std::borrow::Cow;
use std::collections::BTreeMap;
use tokio_postgres::Row;
use tokio_postgres::types::ToSql;

/// What is locked is being claimed by somebody else, or written under its lease: it is skipped.
pub(super) const CLAIM: &str = "
    WITH picked AS (
        SELECT waiting.task_id
        FROM unnest($1::text[], $2::bigint[]) AS wanted (agent, number), LATERAL (
            SELECT task_id FROM work
            WHERE work.agent = wanted.agent AND free_at <= $3
            ORDER BY priority DESC, place LIMIT wanted.number
            FOR UPDATE SKIP LOCKED) AS waiting)
    UPDATE work SET node = $4, claim = nextval('work_claims'), attempt = attempt + 1, free_at = $5
    WHERE work.task_id = ANY (ARRAY(SELECT task_id FROM picked))
    RETURNING work.task_id, agent, attempt, claim, priority, place";

/// What somebody asks for, as the statement wants it.
pub(super) struct Wanted<'c> {
    agents: Vec<&'c str>,
    numbers: Vec<i64>,
    now: i64,
    node: Cow<'c, str>,
    until: i64,
    claim: &'c WorkClaim,
}

impl<'c> Wanted<'c> {
    pub(super) fn of(claim: &'c WorkClaim) -> Self {
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
            now: claim.now.as_millis(),
            node: text::escaped(&claim.node),
            until: claim.until.as_millis(),
            claim,
        }
    }

    pub(super) fn params(&self) -> [&(dyn ToSql + Sync); 5] {
        [
            &self.agents,
            &self.numbers,
            &self.now,
            &self.node,
            &self.until,
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
                until: self.claim.until,
            })
        });
        items.collect()
    }
}

#[async_trait]
impl WorkStore for PostgresStore {
    async fn claim_work(&self, claim: &WorkClaim) -> Result<Vec<WorkItem>, StoreError> {
        let wanted = Wanted::of(claim);
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
        until: Timestamp,
    ) -> Result<bool, StoreError> {
        let sql = "UPDATE work SET free_at = $4 WHERE task_id = $1 AND node = $2 AND claim = $3
                   RETURNING task_id";
        let node = text::escaped(node);
        let (claim, until) = (column(claim), until.as_millis());
        self.write_if_found(
            "renew work",
            sql,
            &[&task_id.as_str(), &node, &claim, &until],
        )
        .await
    }

    async fn release_work(
        &self,
        task_id: &TaskId,
        node: &str,
        claim: u64,
        due_at: Timestamp,
    ) -> Result<bool, StoreError> {
        let sql = "UPDATE work SET free_at = $4, node = NULL, claim = NULL, attempt = greatest(attempt - 1, 0)
                   WHERE task_id = $1 AND node = $2 AND claim = $3 RETURNING task_id";
        let node = text::escaped(node);
        let (claim, due_at) = (column(claim), due_at.as_millis());
        let params: [&(dyn ToSql + Sync); 4] = [&task_id.as_str(), &node, &claim, &due_at];
        let held = self.write_if_found("release work", sql, &params).await?;
        if held {
            self.wakes.tell([Wake::Work]);
        }
        Ok(held)
    }

    async fn work_depth(&self, now: Timestamp) -> Result<(u64, u64), StoreError> {
        let sql = "SELECT count(*) FILTER (WHERE node IS NULL OR free_at <= $1),
                          count(*) FILTER (WHERE node IS NOT NULL AND free_at > $1) FROM work";
        self.two_counts(sql, &[&now.as_millis()]).await
    }
}

/// A limit for a statement.
pub(super) fn limit(number: usize) -> i64 {
    i64::try_from(number).unwrap_or(i64::MAX)
}
