//! What a store reads and writes, one trait for each concern. The rules that hold for all of them
//! stand above, in `ports`.

use super::{
    Commit, Fence, PairStore, QuotaStore, RecordStore, StoreError, TalkStore, TaskRead, Wake,
    WorkClaim, WorkItem,
};
use crate::event::{Event, Subject};
use crate::outbox::{Carried, OutboxEntry, Settlement};
use crate::packed::{BlobId, BlobText, Packed};
use crate::retention::{Purged, Retention};
use crate::stream::{Stream, StreamQuery};
use crate::task::{Push, Task, TaskQuery};
use crate::topic::{Acked, SignalDelivery, Subscription, SubscriptionState};
use async_trait::async_trait;
use interzone_protocol::vocab::{
    Artifact, DeliveryId, Message, PrincipalId, SignalId, StreamId, SubscriptionId, TaskId,
    Timestamp,
};
use std::collections::HashMap;
use std::ops::Range;
use std::time::Duration;
use tokio::sync::broadcast;

type Result<T> = std::result::Result<T, StoreError>;

/// Tasks, their logs and all that hangs on them; and the one way to write.
#[async_trait]
pub trait TaskStore: Send + Sync {
    /// Writes everything in the commit, or nothing.
    ///
    /// **Atomic:** yes, preconditions included. **Ordered:** commits of one caller that waits for
    /// each are applied in that order. **Idempotent:** no; a repeated commit fails on its revisions.
    ///
    /// # Errors
    /// As the operations say; nothing is written then.
    async fn commit(&self, commit: Commit) -> Result<()>;

    /// A task, without what hangs on it. One row, by its key: it costs the same however many there
    /// are.
    async fn task(&self, id: &TaskId) -> Result<Option<Task>>;

    /// A task's messages with these places, in order; fewer where there are no more.
    async fn messages(&self, id: &TaskId, range: Range<u32>) -> Result<Vec<Packed<Message>>>;

    /// A task's artifacts, in the order in which they were first put.
    async fn artifacts(&self, id: &TaskId) -> Result<Vec<Packed<Artifact>>>;

    /// A task with its latest messages, at least so many, and with its artifacts if they are wanted, all
    /// of one moment. A store may give more than was asked for, and the same to several. If their texts have
    /// more than `most` bytes, how many they have is answered in place of them.
    async fn whole_task(
        &self,
        id: &TaskId,
        latest: u32,
        artifacts: bool,
        most: usize,
    ) -> Result<Option<TaskRead>>;

    /// Tasks, ordered by last change, newest first, then by id, highest first.
    async fn tasks(&self, query: &TaskQuery) -> Result<Vec<Task>>;

    /// How many tasks the query selects, its `after` and `limit` aside. It may cost as much as there
    /// are.
    async fn count_tasks(&self, query: &TaskQuery) -> Result<u64>;

    /// A subject's events with a number above `after`, in order, at most `limit`, with no gap between
    /// them. The first may be later than `after + 1` only where retention has removed what was between.
    async fn events(&self, subject: &Subject, after: u64, limit: usize) -> Result<Vec<Event>>;

    /// A task's push subscriptions, oldest first.
    async fn pushes(&self, id: &TaskId) -> Result<Vec<Push>>;

    /// The blobs with these names; a name that is not known is left out.
    async fn blobs(&self, ids: &[BlobId]) -> Result<HashMap<BlobId, BlobText>>;

    /// How many bytes each of the blobs with these names has; a name that is not known is left out.
    async fn blob_sizes(&self, ids: &[BlobId]) -> Result<HashMap<BlobId, usize>>;

    /// What a claim was taken for, if it is taken and has not expired at `now`.
    async fn claimed(&self, key: &str, now: Timestamp) -> Result<Option<String>>;
}

/// Streams. Their events are read by [`TaskStore::events`].
#[async_trait]
pub trait StreamStore: Send + Sync {
    /// A stream.
    async fn stream(&self, id: &StreamId) -> Result<Option<Stream>>;

    /// Streams that nobody closed and on which nothing happened since `before`, oldest first.
    async fn idle_streams(&self, before: Timestamp, limit: usize) -> Result<Vec<Stream>>;

    /// Streams, everybody's, ordered by last change, newest first, then by id, highest first.
    async fn streams(&self, query: &StreamQuery) -> Result<Vec<Stream>>;
}

/// The queue of tasks, and who is at which.
#[async_trait]
pub trait WorkStore: Send + Sync {
    /// Claims tasks that are due and not held: least [turn](crate::next_turn) first, then those queued
    /// earlier, as far as the claim's shares admit. A task that is given back or freed keeps its turn. Where [leases end](Upkeep::leases_end), one that is over, which it is at its last
    /// moment, counts as not held.
    ///
    /// **Atomic:** each task goes to one claimer only, however many ask at once, and to no other
    /// while its lease lasts.
    async fn claim_work(&self, claim: &WorkClaim) -> Result<Vec<WorkItem>>;

    /// Writes a commit and then claims, all at once: as [`TaskStore::commit`] and [`Self::claim_work`] one
    /// after the other, with nobody between them and one wait for both. What is claimed is what is next
    /// in the queue, which need not be what the commit has put there.
    ///
    /// **Atomic:** yes; a commit that fails claims nothing.
    ///
    /// # Errors
    /// As [`TaskStore::commit`].
    async fn commit_and_claim(&self, commit: Commit, claim: &WorkClaim) -> Result<Vec<WorkItem>>;

    /// Extends a lease to `lease` from now on. Answers whether it was still held, which one that is
    /// over is until another claim takes the work; if not, the work must stop at once.
    async fn renew_work(
        &self,
        task_id: &TaskId,
        node: &str,
        claim: u64,
        lease: Duration,
        now: Timestamp,
    ) -> Result<bool>;

    /// Gives a task back, to be claimed after `wait`, as if this claim had never been:
    /// however often a node is stopped in good order, the task's attempts are not used up by it.
    /// Answers whether it was held.
    async fn release_work(
        &self,
        task_id: &TaskId,
        node: &str,
        claim: u64,
        wait: Duration,
        now: Timestamp,
    ) -> Result<bool>;

    /// Frees tasks that this node claimed and no longer works at, without a word on what became of
    /// them: they can be claimed at once, and the attempt counts.
    async fn abandon_work(&self, claims: &[Fence]) -> Result<()>;

    /// How many tasks wait, due or not, and how many are held, at this moment.
    async fn work_depth(&self, now: Timestamp) -> Result<(u64, u64)>;
}

/// What a carrier of the outbox asks for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxClaim {
    /// Entries of which channels.
    pub channels: Vec<String>,
    /// The present moment by the caller's clock; see [`Upkeep::leases_end`] for whose clock counts.
    pub now: Timestamp,
    /// How long the entries are held.
    pub hold: Duration,
    /// At most this many.
    pub limit: usize,
    /// Entries that this node carries: not claimed again, even if their hold is over.
    pub carrying: Vec<DeliveryId>,
}

/// Which dead letters to list, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterQuery {
    /// Of which channel; none means any.
    pub channel: Option<String>,
    /// Of which owner; none means any.
    pub owner: Option<PrincipalId>,
    /// At most this many.
    pub limit: usize,
}

/// What must leave.
#[async_trait]
pub trait OutboxStore: Send + Sync {
    /// Claims entries that are due, oldest due first, and holds them. Where
    /// [leases end](Upkeep::leases_end), an entry that is not settled when its hold is over is due
    /// again. Of a group, which may span channels, only the first unsettled entry is ever claimed.
    ///
    /// **Atomic:** each entry goes to one claimer only while it is held.
    async fn claim_outbox(&self, claim: &OutboxClaim) -> Result<Vec<OutboxEntry>>;

    /// Says what became of attempt number `attempt`. Answers whether that was still the latest and not
    /// settled; if not, nothing is written, for somebody has claimed or settled it since.
    async fn settle_outbox(
        &self,
        id: &DeliveryId,
        attempt: u32,
        settlement: &Settlement,
        now: Timestamp,
    ) -> Result<bool>;

    /// Holds attempt number `attempt` for `hold` from now on, for one that takes longer than was
    /// thought. Answers whether it is still the latest and neither delivered nor given up, which one
    /// whose hold is over is until another claim takes it; if not, carrying it must stop at once. One
    /// that was settled to be tried again is not to be held.
    async fn hold_outbox(
        &self,
        id: &DeliveryId,
        attempt: u32,
        hold: Duration,
        now: Timestamp,
    ) -> Result<bool>;

    /// Frees entries that this node claimed and no longer carries, as [`WorkStore::abandon_work`]
    /// does. Attempts that are not the latest, or are settled, are left out.
    async fn abandon_outbox(&self, attempts: &[(DeliveryId, u32)], now: Timestamp) -> Result<()>;

    /// How long it is until the next entry of these channels is due or its hold is over; zero if one
    /// is due now, and none if none waits or is held. Where holds do [not end](Upkeep::leases_end),
    /// it is longer than anything waits. Those that wait for another of their group are left out.
    async fn next_due(&self, channels: &[String], now: Timestamp) -> Result<Option<Duration>>;

    /// Entries that were given up.
    async fn dead_letters(&self, query: &DeadLetterQuery) -> Result<Vec<OutboxEntry>>;

    /// Makes a dead entry due again, as if it had never been tried. Answers whether it was dead.
    async fn replay_outbox(&self, id: &DeliveryId, now: Timestamp) -> Result<bool>;

    /// What became of the entries of a channel with these keys, oldest first; a key that is not known
    /// is left out.
    async fn carried(&self, channel: &str, keys: &[String]) -> Result<Vec<Carried>>;

    /// How many entries wait, and how many are dead.
    async fn outbox_depth(&self) -> Result<(u64, u64)>;
}

/// Which subscriptions to list, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionQuery {
    /// Of which owner; none means any.
    pub owner: Option<PrincipalId>,
    /// In which state; none means any.
    pub state: Option<SubscriptionState>,
    /// Leave out this many.
    pub offset: usize,
    /// At most this many.
    pub limit: usize,
}

/// Subscriptions to topics, and signals on their way.
#[async_trait]
pub trait TopicStore: Send + Sync {
    /// A subscription.
    async fn subscription(&self, id: &SubscriptionId) -> Result<Option<Subscription>>;

    /// Subscriptions, oldest first, and how many the query selects in all.
    async fn subscriptions(&self, query: &SubscriptionQuery) -> Result<(Vec<Subscription>, u64)>;

    /// The epoch, which rises with every change of a subscription, and all active subscriptions; or
    /// nothing if the epoch is still `known`.
    async fn active_subscriptions(
        &self,
        known: Option<u64>,
    ) -> Result<Option<(u64, Vec<Subscription>)>>;

    /// Claims deliveries of a subscription that are due and not acknowledged, in their order, and
    /// makes each due again after the wait that belongs to its attempt: `waits` has one for each
    /// attempt, and the last one goes for all further ones. Without any, it is due again at once.
    async fn claim_signals(
        &self,
        id: &SubscriptionId,
        now: Timestamp,
        waits: &[Duration],
        limit: usize,
    ) -> Result<Vec<SignalDelivery>>;

    /// Deliveries of a subscription with a number above `after` that are neither acknowledged nor
    /// given up, in their order, claimed or not.
    async fn unacked_signals(
        &self,
        id: &SubscriptionId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<SignalDelivery>>;

    /// Acknowledges all deliveries of signals with these ids, and answers for each id in its place; no
    /// id may be there twice. One that was given up is acknowledged like any other. **Idempotent:**
    /// yes.
    async fn ack_signals(
        &self,
        id: &SubscriptionId,
        signals: &[SignalId],
        now: Timestamp,
    ) -> Result<Vec<Acked>>;

    /// Gives a delivery up: it is never due again, and an operator sees it. One that is not there is
    /// no error.
    async fn bury_signal(&self, id: &SubscriptionId, seq: u64, now: Timestamp) -> Result<()>;

    /// Subscriptions that have something due at `now`, at most `limit`.
    async fn subscriptions_due(&self, now: Timestamp, limit: usize) -> Result<Vec<SubscriptionId>>;

    /// Deliveries that were given up, newest first.
    async fn buried_signals(&self, limit: usize) -> Result<Vec<SignalDelivery>>;
}

/// What keeps a store in order.
#[async_trait]
pub trait Upkeep: Send + Sync {
    /// Whether what is claimed becomes free when its time is over.
    ///
    /// A store that many processes share says yes. It writes and judges every lease, and every moment
    /// at which work or an entry is due, by a clock that they all share, never by the callers' clocks:
    /// of two moments that a caller gives, only the difference counts.
    ///
    /// A store that one process has at a time says no: what it claims is its own until it says what
    /// became of it, [abandons](WorkStore::abandon_work) it, or ends, whatever any clock shows.
    fn leases_end(&self) -> bool;

    /// Frees all that is held by processes that are gone for certain, so that it does not wait for
    /// the end of a lease: work that was claimed and entries that were being carried are due at
    /// once, and the attempt counts. A store that one process has at a time does this by itself when
    /// it is opened; one that many share cannot know who is gone, and does nothing. Signals stay as
    /// they are: a receiver that fetched some may well be there still.
    ///
    /// Call it before anything is claimed.
    async fn take_over(&self, now: Timestamp) -> Result<()>;

    /// Removes what need not be kept any longer, at most about `limit` things, so that nobody waits
    /// long behind it. Call it again while it removes something.
    async fn purge(&self, retention: &Retention, now: Timestamp, limit: usize) -> Result<Purged>;

    /// Gives freed space back and refreshes what queries are planned by, a little at a time.
    async fn tidy_up(&self) -> Result<()>;

    /// Whether the store can be read and written at this moment.
    ///
    /// # Errors
    /// It cannot, and this is why.
    async fn check(&self) -> Result<()>;

    /// Hints that something has happened, here or on another node.
    fn wakes(&self) -> broadcast::Receiver<Wake>;
}

/// All of it.
pub trait Store:
    TaskStore
    + StreamStore
    + WorkStore
    + OutboxStore
    + TopicStore
    + QuotaStore
    + RecordStore
    + PairStore
    + TalkStore
    + Upkeep
{
}

impl<S> Store for S where
    S: TaskStore
        + StreamStore
        + WorkStore
        + OutboxStore
        + TopicStore
        + QuotaStore
        + RecordStore
        + PairStore
        + TalkStore
        + Upkeep
{
}
