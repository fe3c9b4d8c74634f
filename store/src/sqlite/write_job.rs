//! Write jobs: their effect inside the group's transaction, and the reply to the caller.

use super::error::SqliteResult;
use super::rows::{all, first};
use interzone_hub::ports::{ChangeHint, StoreError};
use interzone_protocol::vocab::TaskId;
use rusqlite::{Connection, Params, Row};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tokio::sync::{broadcast, oneshot};

/// Context of a running write job. Jobs run one at a time, so there is no other writer.
pub(super) struct WriteSession<'a> {
    pub(super) connection: &'a Connection,
    /// Change hints to send once the group is durable.
    pub(super) hints: &'a mut PendingHints,
    pub(super) counters: &'a mut Counters,
    /// Existing tasks that are changed or removed.
    pub(super) changed_tasks: &'a mut Vec<TaskId>,
}

/// Increasing counters. A number used in a transaction that failed is not used again, which is
/// harmless.
pub(super) struct Counters {
    /// Last claim number of work; also stored in the table `meta`.
    pub(super) claims: i64,
    /// Last position in the work queue.
    pub(super) position: i64,
    /// Greatest claimed turn per agent.
    pub(super) claimed_turns: HashMap<String, i64>,
    /// Epoch of the subscriptions, once a job of the current group has read it: only the writer
    /// changes it, so later jobs need not read it again.
    pub(super) epoch: Option<i64>,
}

impl WriteSession<'_> {
    /// Runs a statement; returns the number of changed rows.
    pub(super) fn run(&self, sql: &str, values: impl Params) -> SqliteResult<usize> {
        Ok(self.connection.prepare_cached(sql)?.execute(values)?)
    }

    /// Returns the first row, if any.
    pub(super) fn first<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnOnce(&Row<'_>) -> SqliteResult<T>,
    ) -> SqliteResult<Option<T>> {
        first(self.connection, sql, values, read)
    }

    /// Returns all rows.
    pub(super) fn all<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnMut(&Row<'_>) -> SqliteResult<T>,
    ) -> SqliteResult<Vec<T>> {
        all(self.connection, sql, values, read)
    }
}

/// Change hints to send after a group, deduplicated where possible.
#[derive(Default)]
pub(super) struct PendingHints {
    /// Hints with a subject or subscription.
    pub(super) specific: Vec<ChangeHint>,
    pub(super) work: bool,
    pub(super) outbox: bool,
    pub(super) subscriptions: bool,
}

impl PendingHints {
    pub(super) fn send(&mut self, to: &broadcast::Sender<ChangeHint>) {
        let general = [
            (self.subscriptions, ChangeHint::Subscriptions),
            (self.work, ChangeHint::Work),
            (self.outbox, ChangeHint::Outbox),
        ];
        let named = std::mem::take(&mut self.specific).into_iter();
        let general = general
            .into_iter()
            .filter_map(|(set, hint)| set.then_some(hint));
        if to.receiver_count() > 0 {
            // A receiver may be gone since; ignore that.
            named.chain(general).for_each(|hint| drop(to.send(hint)));
        }
        self.clear();
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// A job for the writer thread.
pub(super) trait WriteJob: Send {
    /// Runs the job. It may run a second time, after its first effects were rolled back.
    fn run(&mut self, session: &mut WriteSession<'_>) -> SqliteResult<()>;

    /// Replies to the caller: the effects are durable, or nothing was written and this is why.
    fn complete(self: Box<Self>, outcome: Result<(), StoreError>);

    /// Returns true if it must run outside of a transaction.
    fn runs_outside_transaction(&self) -> bool;

    /// Estimated number of bytes written.
    fn estimated_bytes(&self) -> usize;
}

/// A closure as a write job.
pub(super) struct ClosureJob<F, T> {
    pub(super) body: F,
    pub(super) value: Option<T>,
    /// Result of the job, and the closure itself: what it owns is freed on the caller's thread, which is
    /// cheaper than on the single writer thread.
    pub(super) reply: oneshot::Sender<(Result<T, StoreError>, F)>,
    pub(super) outside_transaction: bool,
    pub(super) estimated_bytes: usize,
}

impl<F, T> WriteJob for ClosureJob<F, T>
where
    F: FnMut(&mut WriteSession<'_>) -> SqliteResult<T> + Send,
    T: Send,
{
    fn run(&mut self, session: &mut WriteSession<'_>) -> SqliteResult<()> {
        let work = &mut self.body;
        self.value = Some(catch_panic(|| work(session))?);
        Ok(())
    }

    fn complete(self: Box<Self>, outcome: Result<(), StoreError>) {
        let Self {
            body: work,
            value,
            reply,
            ..
        } = *self;
        let missing = || StoreError::Unavailable("the job was not run".to_owned());
        let value = outcome.and_then(|()| value.ok_or_else(missing));
        // The caller may be gone; what was written stays.
        drop(reply.send((value, work)));
    }

    fn runs_outside_transaction(&self) -> bool {
        self.outside_transaction
    }

    fn estimated_bytes(&self) -> usize {
        self.estimated_bytes
    }
}

/// Catches a panic, so that a bug in one job does not end the thread for all others.
pub(super) fn catch_panic<T>(body: impl FnOnce() -> SqliteResult<T>) -> SqliteResult<T> {
    // Partial writes are rolled back by the caller.
    catch_unwind(AssertUnwindSafe(body)).unwrap_or_else(|_| {
        tracing::error!("store job panicked");
        Err(StoreError::Unavailable("internal error in a store job".to_owned()).into())
    })
}
