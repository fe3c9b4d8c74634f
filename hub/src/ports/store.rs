//! Store traits, one per concern. See the parent module for the rules that hold for all of them.

use super::{
    ChangeHint, Commit, ConversationStore, Fence, RecordStore, RequestLogStore, StoreError,
};
use crate::event::{Event, Subject};
use crate::fairness::{RunShares, WorkOwner};
use crate::gcra::{Charge, Rate};
use crate::offload::{BlobContent, BlobId, Offloaded};
use crate::outbox::{DeliveryResult, DeliveryStatus, OutboxEntry};
use crate::retention::{Purged, Retention};
use crate::stream::{Stream, StreamQuery};
use crate::task::{PushSubscription, Task, TaskQuery, TaskSnapshot};
use crate::topic::{AckOutcome, SignalDelivery, Subscription, SubscriptionState};
use async_trait::async_trait;
use interzone_protocol::vocab::{
    AgentId, Artifact, DeliveryId, Message, PrincipalId, SignalId, StreamId, SubscriptionId,
    TaskId, Timestamp,
};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::broadcast;

type Result<T> = std::result::Result<T, StoreError>;

/// Tasks with their logs and attached data; and the commit, which all of them are written by.
#[async_trait]
pub trait TaskStore: Send + Sync {
    /// Writes the whole commit atomically.
    ///
    /// **Atomic:** yes, preconditions included. **Ordered:** commits of a caller that awaits each one are applied in
    /// that order. **Idempotent:** no; a repeated commit fails on its revisions.
    ///
    /// # Errors
    /// See the operations; nothing is written then.
    async fn commit(&self, commit: Commit) -> Result<()>;

    /// Returns a task without messages, artifacts and events. One row by primary key: constant cost.
    async fn task(&self, id: &TaskId) -> Result<Option<Task>>;

    /// Returns a task's messages with these indexes, in order; fewer if there are no more.
    async fn messages(&self, id: &TaskId, range: Range<u32>) -> Result<Vec<Offloaded<Message>>>;

    /// Returns a task's artifacts, in the order in which they were first added.
    async fn artifacts(&self, id: &TaskId) -> Result<Vec<Offloaded<Artifact>>>;

    /// Returns a consistent snapshot of a task with at least its `latest` latest messages, and with its artifacts if
    /// requested. A store may return more than requested, and share one snapshot between callers. If the texts
    /// exceed `max_bytes`, returns their size instead.
    async fn task_snapshot(
        &self,
        id: &TaskId,
        latest: u32,
        artifacts: bool,
        max_bytes: usize,
    ) -> Result<Option<TaskRead>>;

    /// Lists tasks, ordered by the time of the last state change, newest first, then by id, highest first.
    async fn tasks(&self, query: &TaskQuery) -> Result<Vec<Task>>;

    /// Counts the tasks that the query selects, ignoring its `after` and `limit`. The cost may be linear in that
    /// number.
    async fn count_tasks(&self, query: &TaskQuery) -> Result<u64>;

    /// Returns a subject's events with a sequence number above `after`, in order, at most `limit`, without gaps. The
    /// first may be later than `after + 1` only where retention has removed events.
    async fn events(&self, subject: &Subject, after: u64, limit: usize) -> Result<Vec<Event>>;

    /// Returns a task's push subscriptions, oldest first.
    async fn push_subscriptions(&self, id: &TaskId) -> Result<Vec<PushSubscription>>;

    /// Returns the blobs with these ids; unknown ids are omitted.
    async fn blobs(&self, ids: &[BlobId]) -> Result<HashMap<BlobId, BlobContent>>;

    /// Returns the sizes in bytes of the blobs with these ids; unknown ids are omitted.
    async fn blob_sizes(&self, ids: &[BlobId]) -> Result<HashMap<BlobId, usize>>;

    /// Returns the value of an idempotency key that is claimed and has not expired at `now`.
    async fn claimed_value(&self, key: &str, now: Timestamp) -> Result<Option<String>>;
}

/// Streams. Their events are read by [`TaskStore::events`].
#[async_trait]
pub trait StreamStore: Send + Sync {
    /// Returns a stream.
    async fn stream(&self, id: &StreamId) -> Result<Option<Stream>>;

    /// Returns streams that are not closed and had no activity since `before`, oldest first.
    async fn idle_streams(&self, before: Timestamp, limit: usize) -> Result<Vec<Stream>>;

    /// Lists streams of all owners, ordered by last change, newest first, then by id, highest first.
    async fn streams(&self, query: &StreamQuery) -> Result<Vec<Stream>>;
}

/// The work queue and its leases.
#[async_trait]
pub trait WorkStore: Send + Sync {
    /// Claims tasks that are due and not leased: lowest [turn](crate::next_turn) first, then those queued earlier, as
    /// far as the claim's shares admit. A task that is released or abandoned keeps its turn. Where
    /// [leases expire](Maintenance::leases_expire), an expired lease counts as not held (the end is exclusive).
    ///
    /// **Atomic:** each task goes to one claimer only, however many claim concurrently, and to no other while its
    /// lease lasts.
    async fn claim_work(&self, claim: &WorkClaim) -> Result<Vec<WorkItem>>;

    /// Commits and claims in one transaction: like [`TaskStore::commit`] followed by [`Self::claim_work`], with no
    /// other writer in between and a single wait. It claims the next tasks of the queue, which need not be those
    /// that the commit enqueued.
    ///
    /// **Atomic:** yes; a failed commit claims nothing.
    ///
    /// # Errors
    /// See [`TaskStore::commit`].
    async fn commit_and_claim(&self, commit: Commit, claim: &WorkClaim) -> Result<Vec<WorkItem>>;

    /// Extends a lease to `lease` from now on. Returns whether it was still held, which includes an expired lease
    /// that no other claim has taken; if not, the work must stop at once.
    async fn renew_work(
        &self,
        task_id: &TaskId,
        node: &str,
        claim: u64,
        lease: Duration,
        now: Timestamp,
    ) -> Result<bool>;

    /// Releases a task, to be claimed again after `delay`, as if this claim had never happened: graceful shutdowns do
    /// not use up the task's attempts. Returns whether it was held.
    async fn release_work(
        &self,
        task_id: &TaskId,
        node: &str,
        claim: u64,
        delay: Duration,
        now: Timestamp,
    ) -> Result<bool>;

    /// Releases tasks that this node claimed and no longer works on, without an outcome: they can be claimed at once,
    /// and the attempt counts.
    async fn abandon_work(&self, claims: &[Fence]) -> Result<()>;

    /// Returns the number of waiting tasks, due or not, and of leased tasks.
    async fn work_depth(&self, now: Timestamp) -> Result<(u64, u64)>;
}

/// Parameters of an outbox claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OutboxClaim {
    /// Channels to claim from.
    pub channels: Vec<String>,
    /// Current time by the caller's clock; see [`Maintenance::leases_expire`] for whose clock counts.
    pub now: Timestamp,
    /// Lease duration.
    pub lease: Duration,
    /// Maximum number of entries.
    pub limit: usize,
    /// Entries that this node is delivering: not claimed again, even if their lease has expired.
    pub in_flight: Vec<DeliveryId>,
}

/// Filter of dead letters, newest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DeadLetterQuery {
    /// Channel; `None` for any.
    pub channel: Option<String>,
    /// Owner; `None` for any.
    pub owner: Option<PrincipalId>,
    /// Maximum number of entries.
    pub limit: usize,
}

/// The outbox.
#[async_trait]
pub trait OutboxStore: Send + Sync {
    /// Claims and leases due entries, oldest due first. Where [leases expire](Maintenance::leases_expire), an entry
    /// that is not settled when its lease ends is due again. Of a group, which may span channels, only the first
    /// unsettled entry is ever claimed.
    ///
    /// **Atomic:** each entry goes to one claimer only while it is leased.
    async fn claim_outbox(&self, claim: &OutboxClaim) -> Result<Vec<OutboxEntry>>;

    /// Records the result of attempt number `attempt`. Returns whether that was still the latest and not settled; if
    /// not, nothing is written, because the entry was claimed or settled since.
    async fn settle_outbox(
        &self,
        id: &DeliveryId,
        attempt: u32,
        result: &DeliveryResult,
        now: Timestamp,
    ) -> Result<bool>;

    /// Extends the lease of attempt number `attempt` to `lease` from now on, for deliveries that take longer than
    /// expected. Returns whether it is still the latest attempt and neither delivered nor dead, which includes an
    /// expired lease that no other claim has taken; if not, the delivery must stop at once. An entry that was
    /// settled for a retry is not renewed.
    async fn renew_outbox_lease(
        &self,
        id: &DeliveryId,
        attempt: u32,
        lease: Duration,
        now: Timestamp,
    ) -> Result<bool>;

    /// Releases entries that this node claimed and no longer delivers, like [`WorkStore::abandon_work`]. Attempts that
    /// are not the latest, or are settled, are skipped.
    async fn abandon_outbox(&self, attempts: &[(DeliveryId, u32)], now: Timestamp) -> Result<()>;

    /// Returns the time until the next entry of these channels is due or its lease expires; zero if one is due now,
    /// `None` if none is waiting or leased. Where leases do [not expire](Maintenance::leases_expire), a leased entry
    /// counts with a time longer than any wait. Entries behind another of their group are ignored.
    async fn next_outbox_due(
        &self,
        channels: &[String],
        now: Timestamp,
    ) -> Result<Option<Duration>>;

    /// Lists dead-lettered entries.
    async fn dead_letters(&self, query: &DeadLetterQuery) -> Result<Vec<OutboxEntry>>;

    /// Replays a dead letter: makes it due again with its attempts reset. Returns true if it was dead.
    async fn replay_outbox(&self, id: &DeliveryId, now: Timestamp) -> Result<bool>;

    /// Returns the delivery status of the entries of a channel with these keys, oldest first; unknown keys are
    /// omitted.
    async fn delivery_statuses(
        &self,
        channel: &str,
        keys: &[String],
    ) -> Result<Vec<DeliveryStatus>>;

    /// Returns the number of waiting and of dead entries.
    async fn outbox_depth(&self) -> Result<(u64, u64)>;
}

/// Filter of subscriptions, oldest first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscriptionQuery {
    /// Owner; `None` for any.
    pub owner: Option<PrincipalId>,
    /// State; `None` for any.
    pub state: Option<SubscriptionState>,
    /// Number of subscriptions to skip.
    pub offset: usize,
    /// Maximum number of subscriptions.
    pub limit: usize,
}

/// Topic subscriptions and signal deliveries.
#[async_trait]
pub trait TopicStore: Send + Sync {
    /// Returns a subscription.
    async fn subscription(&self, id: &SubscriptionId) -> Result<Option<Subscription>>;

    /// Lists subscriptions, oldest first, with the total number that the query selects.
    async fn subscriptions(&self, query: &SubscriptionQuery) -> Result<(Vec<Subscription>, u64)>;

    /// Returns the epoch, which increases with every change of a subscription, and all active subscriptions; or
    /// `None` if the epoch is still `cached_epoch`.
    async fn active_subscriptions(
        &self,
        cached_epoch: Option<u64>,
    ) -> Result<Option<(u64, Vec<Subscription>)>>;

    /// Claims deliveries of a subscription that are due and not acknowledged, in order, and makes each due again after
    /// the delay of its attempt: `delays` has one per attempt, the last one applies to all further attempts. If it is
    /// empty, they are due again at once.
    async fn claim_signals(
        &self,
        id: &SubscriptionId,
        now: Timestamp,
        delays: &[Duration],
        limit: usize,
    ) -> Result<Vec<SignalDelivery>>;

    /// Returns deliveries of a subscription with a sequence number above `after` that are neither acknowledged nor
    /// dead, in order, claimed or not.
    async fn unacked_signals(
        &self,
        id: &SubscriptionId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<SignalDelivery>>;

    /// Acknowledges all deliveries of signals with these ids and returns one outcome per id, in order; ids must be
    /// unique. Dead deliveries can be acknowledged too. **Idempotent:** yes.
    async fn ack_signals(
        &self,
        id: &SubscriptionId,
        signals: &[SignalId],
        now: Timestamp,
    ) -> Result<Vec<AckOutcome>>;

    /// Dead-letters a delivery: it is never due again, and operators can list it. A missing delivery is no error.
    async fn dead_letter_signal(&self, id: &SubscriptionId, seq: u64, now: Timestamp)
    -> Result<()>;

    /// Returns subscriptions with deliveries due at `now`, at most `limit`.
    async fn subscriptions_due(&self, now: Timestamp, limit: usize) -> Result<Vec<SubscriptionId>>;

    /// Lists dead-lettered deliveries, newest first.
    async fn dead_signals(&self, limit: usize) -> Result<Vec<SignalDelivery>>;
}

/// Maintenance of a store.
#[async_trait]
pub trait Maintenance: Send + Sync {
    /// Returns true if claims become free when their lease expires.
    ///
    /// True for a store shared by several processes. It writes and evaluates all leases and due times by one shared
    /// clock, never by the callers' clocks: of two timestamps given by a caller, only the difference counts.
    ///
    /// False for a store used by one process at a time: its claims are held until it settles them,
    /// [abandons](WorkStore::abandon_work) them, or exits, regardless of any clock.
    fn leases_expire(&self) -> bool;

    /// Releases all claims of processes that have certainly exited, without waiting for their leases to expire: claimed
    /// work and outbox entries are due at once, and the attempt counts. A store used by one process at a time does
    /// this when it is opened; a shared store cannot know which processes have exited, and does nothing. Signals
    /// are unchanged: a receiver that fetched some may still be running.
    ///
    /// Call it before anything is claimed.
    async fn release_stale_claims(&self, now: Timestamp) -> Result<()>;

    /// Removes expired data, at most about `limit` items, so that other writers do not wait long. Call it again while
    /// it removes something.
    async fn purge(&self, retention: &Retention, now: Timestamp, limit: usize) -> Result<Purged>;

    /// Returns freed space and refreshes the query planner's statistics, incrementally.
    async fn optimize(&self) -> Result<()>;

    /// Checks that the store can be read and written now.
    ///
    /// # Errors
    /// The reason why it cannot.
    async fn check(&self) -> Result<()>;

    /// Subscribes to change hints, from this node and others.
    fn subscribe_changes(&self) -> broadcast::Receiver<ChangeHint>;
}

/// All store ports.
pub trait Store:
    TaskStore
    + StreamStore
    + WorkStore
    + OutboxStore
    + TopicStore
    + QuotaStore
    + RecordStore
    + RequestLogStore
    + ConversationStore
    + Maintenance
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
        + RequestLogStore
        + ConversationStore
        + Maintenance
{
}

/// Parameters of a work claim.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkClaim {
    /// Name of the claiming node, unique among nodes.
    pub node: String,
    /// Maximum number of tasks to claim per agent.
    pub wanted: Vec<(AgentId, usize)>,
    /// Current time by the caller's clock; see [`Maintenance::leases_expire`](Maintenance::leases_expire) for
    /// whose clock counts.
    pub now: Timestamp,
    /// Lease duration.
    pub lease: Duration,
    /// Claims that this node is running: not claimed again, even if their leases have expired.
    pub running_claims: Vec<u64>,
    /// Runs per owner and their limits: tasks of an owner at its limit are skipped, and those behind them are
    /// claimed.
    pub shares: RunShares,
}

/// A claimed task.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkItem {
    /// The task.
    pub task_id: TaskId,
    /// The agent that is to do it.
    pub agent: AgentId,
    /// The owner.
    pub owner: WorkOwner,
    /// Number of claims since it was enqueued, including this one; released claims do not count.
    pub attempt: u32,
    /// Claim number, used as fencing token ([`Fence`](Fence)). It increases with every claim and is never
    /// reused, not even after the task left the queue and came back.
    pub claim: u64,
}

/// Result of [`TaskStore::task_snapshot`](TaskStore::task_snapshot).
#[derive(Clone, Debug, PartialEq)]
pub enum TaskRead {
    /// The snapshot.
    Task(Arc<TaskSnapshot>),
    /// The texts exceed the limit; contains their size in bytes.
    TooLarge(usize),
}

impl TaskRead {
    /// Returns the snapshot, if it was read.
    pub fn into_task(self) -> Option<Arc<TaskSnapshot>> {
        match self {
            Self::Task(task) => Some(task),
            Self::TooLarge(_) => None,
        }
    }
}

/// Rate quotas per key.
#[async_trait]
pub trait QuotaStore: Send + Sync {
    /// Charges a key by [`Rate::charge`].
    ///
    /// **Atomic:** concurrent charges of one key, from any number of nodes, are serialized.
    async fn charge(&self, key: &str, rate: Rate, cost: u32, now: Timestamp) -> Result<Charge>;
}

/// Memory reservation for reads on behalf of a caller, made before data is read; released on drop. The caller decides
/// the size of the budget.
#[async_trait]
pub trait ReadMemory: Send + Sync {
    /// Reserves this many bytes more. May wait, for a bounded time, until others release memory. Returns whether the
    /// reservation succeeded.
    async fn reserve(&self, bytes: usize) -> bool;

    /// Returns the bytes that are needed to prepare this message for the agent, beyond its content.
    fn preparation_bytes(&self, _message: &Message) -> usize {
        0
    }
}
