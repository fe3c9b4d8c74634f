//! A job for the writer: what it does inside the group's transaction, and who waits for it.

use super::fault::Outcome;
use super::rows::{all, first};
use interzone_hub::ports::{StoreError, Wake};
use interzone_protocol::vocab::TaskId;
use rusqlite::{Connection, Params, Row};
use std::collections::HashMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use tokio::sync::{broadcast, oneshot};

/// What a job may use. It is alone: nobody else writes.
pub(super) struct Session<'a> {
    pub(super) connection: &'a Connection,
    /// Whom to wake once it is durable.
    pub(super) wakes: &'a mut Wakes,
    pub(super) counters: &'a mut Counters,
    /// The tasks that were there before and are changed or removed.
    pub(super) changed: &'a mut Vec<TaskId>,
}

/// Numbers that only rise. A number that was given in a transaction that failed is not given again,
/// which harms nobody.
pub(super) struct Counters {
    /// The last claim of work; it is also in the table `meta`.
    pub(super) claims: i64,
    /// The last position in the queue of work.
    pub(super) position: i64,
    /// The greatest turn that was claimed, for each agent.
    pub(super) taken: HashMap<String, i64>,
    /// The epoch of the subscriptions, once somebody in the present group has looked: nobody else
    /// changes it, so those who follow need not look again.
    pub(super) epoch: Option<i64>,
}

impl Session<'_> {
    /// Runs a statement; answers how many rows it changed.
    pub(super) fn run(&self, sql: &str, values: impl Params) -> Outcome<usize> {
        Ok(self.connection.prepare_cached(sql)?.execute(values)?)
    }

    /// The first row, if there is one.
    pub(super) fn first<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnOnce(&Row<'_>) -> Outcome<T>,
    ) -> Outcome<Option<T>> {
        first(self.connection, sql, values, read)
    }

    /// All rows.
    pub(super) fn all<T>(
        &self,
        sql: &str,
        values: impl Params,
        read: impl FnMut(&Row<'_>) -> Outcome<T>,
    ) -> Outcome<Vec<T>> {
        all(self.connection, sql, values, read)
    }
}

/// Whom to wake after a group, once each where once is enough.
#[derive(Default)]
pub(super) struct Wakes {
    /// Those that say what they are about.
    pub(super) named: Vec<Wake>,
    pub(super) work: bool,
    pub(super) outbox: bool,
    pub(super) subscriptions: bool,
}

impl Wakes {
    pub(super) fn send(&mut self, to: &broadcast::Sender<Wake>) {
        let plain = [
            (self.subscriptions, Wake::Subscriptions),
            (self.work, Wake::Work),
            (self.outbox, Wake::Outbox),
        ];
        let named = std::mem::take(&mut self.named).into_iter();
        let plain = plain
            .into_iter()
            .filter_map(|(set, wake)| set.then_some(wake));
        if to.receiver_count() > 0 {
            // Whoever has gone since need not be woken.
            named.chain(plain).for_each(|wake| drop(to.send(wake)));
        }
        self.clear();
    }

    pub(super) fn clear(&mut self) {
        *self = Self::default();
    }
}

/// Something for the writer to do.
pub(super) trait Job: Send {
    /// Does it. It may be asked to do it once more, when all that it did was undone.
    fn run(&mut self, session: &mut Session<'_>) -> Outcome<()>;

    /// Tells whoever waits: what it did is durable, or nothing is and this is why.
    fn answer(self: Box<Self>, outcome: Result<(), StoreError>);

    /// Whether it needs the engine outside of any transaction.
    fn is_outside(&self) -> bool;

    /// About how many bytes it writes.
    fn weight(&self) -> usize;
}

/// A closure as a job.
pub(super) struct Call<F, T> {
    pub(super) work: F,
    pub(super) value: Option<T>,
    /// What came of it, and the closure back: what it holds is freed where it was made, which is
    /// cheaper, and not by the one thread that everybody waits for.
    pub(super) reply: oneshot::Sender<(Result<T, StoreError>, F)>,
    pub(super) outside: bool,
    pub(super) weight: usize,
}

impl<F, T> Job for Call<F, T>
where
    F: FnMut(&mut Session<'_>) -> Outcome<T> + Send,
    T: Send,
{
    fn run(&mut self, session: &mut Session<'_>) -> Outcome<()> {
        let work = &mut self.work;
        self.value = Some(unless_it_panics(|| work(session))?);
        Ok(())
    }

    fn answer(self: Box<Self>, outcome: Result<(), StoreError>) {
        let Self {
            work, value, reply, ..
        } = *self;
        let missing = || StoreError::Unavailable("it was not done".to_owned());
        let value = outcome.and_then(|()| value.ok_or_else(missing));
        // Whoever asked may have gone; what was written stays written.
        drop(reply.send((value, work)));
    }

    fn is_outside(&self) -> bool {
        self.outside
    }

    fn weight(&self) -> usize {
        self.weight
    }
}

/// A mistake in one job must not take the thread away from all others.
pub(super) fn unless_it_panics<T>(work: impl FnOnce() -> Outcome<T>) -> Outcome<T> {
    // What was half done is rolled back, or was only read.
    catch_unwind(AssertUnwindSafe(work)).unwrap_or_else(|_| {
        tracing::error!("a job of the store panicked; it is refused and the store goes on");
        Err(StoreError::Unavailable("it failed within".to_owned()).into())
    })
}
