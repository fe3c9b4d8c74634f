//! Store wrapper that counts calls, so that a test can assert the cost of an operation.

use async_trait::async_trait;
use interzone_hub::ports::{
    ChangeHint, Commit, ConversationPage, ConversationStore, DeadLetterQuery, Fence, Maintenance,
    Op, OutboxClaim, OutboxStore, QuotaStore, RecordStore, RequestLogEntry, RequestLogStore,
    RequestQuery, StoreError, StoredRecord, StreamStore, SubscriptionQuery, TaskRead, TaskStore,
    TopicStore, WorkClaim, WorkItem, WorkStore,
};
use interzone_hub::{
    AckOutcome, BlobContent, BlobId, Charge, ConversationQuery, DeliveryResult, DeliveryStatus,
    Event, Feedback, Offloaded, OutboxEntry, Purged, PushSubscription, Rate, Retention,
    SignalDelivery, Stream, StreamQuery, Subject, Subscription, Task, TaskQuery, ThreadKey,
    ThreadTask,
};
use interzone_protocol::vocab::{
    Artifact, DeliveryId, Message, SignalId, StreamId, SubscriptionId, TaskId, Timestamp,
};
use interzone_store::sqlite::SqliteStore;
use std::collections::{BTreeMap, HashMap};
use std::ops::Range;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;
use tokio::sync::{Semaphore, broadcast};

/// Store wrapper with call counts and controllable delays and failures.
pub(crate) struct CountingStore {
    store: SqliteStore,
    calls: Mutex<BTreeMap<&'static str, usize>>,
    /// Permits that answers of `claim_work` wait for, if set.
    claim_permits: OnceLock<Arc<Semaphore>>,
    /// Commits that claim a key with this prefix fail this many times.
    claim_failures: Mutex<(&'static str, usize)>,
    /// Permits that reads of blobs wait for, if set.
    blob_permits: OnceLock<Arc<Semaphore>>,
}

impl CountingStore {
    pub(crate) fn new(store: SqliteStore) -> Arc<Self> {
        Arc::new(Self {
            store,
            calls: Mutex::default(),
            claim_permits: OnceLock::new(),
            claim_failures: Mutex::default(),
            blob_permits: OnceLock::new(),
        })
    }

    /// Makes the next commits that claim a key with this prefix fail.
    pub(crate) fn fail_claims(&self, prefix: &'static str, times: usize) {
        *self.claim_failures.lock().unwrap() = (prefix, times);
    }

    /// Remaining number of failures.
    pub(crate) fn remaining_failures(&self) -> usize {
        self.claim_failures.lock().unwrap().1
    }

    fn take_failure(&self, commit: &Commit) -> bool {
        let mut failing = self.claim_failures.lock().unwrap();
        let claims =
            |op: &Op| matches!(op, Op::ClaimKey(claim) if claim.key.starts_with(failing.0));
        let should_fail = failing.1 > 0 && commit.ops.iter().any(claims);
        failing.1 -= usize::from(should_fail);
        should_fail
    }

    /// From now on `claim_work` returns only with a permit. It has claimed before it waits, and then counts as
    /// `held_claim`.
    pub(crate) fn hold_claims(&self) -> Arc<Semaphore> {
        let permits = self
            .claim_permits
            .get_or_init(|| Arc::new(Semaphore::new(0)));
        permits.clone()
    }

    /// From now on a read of blobs waits for a permit. Before that it counts as `blobs`.
    pub(crate) fn hold_blobs(&self) -> Arc<Semaphore> {
        let permits = self
            .blob_permits
            .get_or_init(|| Arc::new(Semaphore::new(0)));
        permits.clone()
    }

    /// Waits until the method is called, then resets all counts.
    pub(crate) async fn wait_for_call(&self, method: &str) {
        let called = async {
            while !self.was_called(method) {
                tokio::task::yield_now().await;
            }
        };
        let called = tokio::time::timeout(Duration::from_secs(20), called).await;
        assert!(called.is_ok(), "{method} is not called");
        self.take_calls();
    }

    fn count_call(&self, method: &'static str) {
        *self.calls.lock().unwrap().entry(method).or_default() += 1;
    }

    pub(crate) fn was_called(&self, method: &str) -> bool {
        self.calls.lock().unwrap().contains_key(method)
    }

    /// Number of calls of the method since the last reset.
    pub(crate) fn call_count(&self, method: &str) -> usize {
        self.calls.lock().unwrap().get(method).copied().unwrap_or(0)
    }

    /// Returns the calls since the last reset, one `method: count` per line, and resets the counts.
    pub(crate) fn take_calls(&self) -> String {
        let calls = std::mem::take(&mut *self.calls.lock().unwrap());
        let lines = calls.iter().map(|(what, times)| format!("{what}: {times}"));
        lines.collect::<Vec<_>>().join("\n")
    }
}

#[async_trait]
impl TaskStore for CountingStore {
    async fn commit(&self, commit: Commit) -> Result<(), StoreError> {
        self.count_call("commit");
        if self.take_failure(&commit) {
            return Err(StoreError::Full);
        }
        self.store.commit(commit).await
    }

    async fn task(&self, id: &TaskId) -> Result<Option<Task>, StoreError> {
        self.count_call("task");
        self.store.task(id).await
    }

    async fn messages(
        &self,
        id: &TaskId,
        range: Range<u32>,
    ) -> Result<Vec<Offloaded<Message>>, StoreError> {
        self.count_call("messages");
        self.store.messages(id, range).await
    }

    async fn artifacts(&self, id: &TaskId) -> Result<Vec<Offloaded<Artifact>>, StoreError> {
        self.count_call("artifacts");
        self.store.artifacts(id).await
    }

    async fn task_snapshot(
        &self,
        id: &TaskId,
        latest: u32,
        artifacts: bool,
        max_bytes: usize,
    ) -> Result<Option<TaskRead>, StoreError> {
        self.count_call("task_snapshot");
        self.store
            .task_snapshot(id, latest, artifacts, max_bytes)
            .await
    }

    async fn tasks(&self, query: &TaskQuery) -> Result<Vec<Task>, StoreError> {
        self.store.tasks(query).await
    }

    async fn count_tasks(&self, query: &TaskQuery) -> Result<u64, StoreError> {
        self.store.count_tasks(query).await
    }

    async fn events(
        &self,
        subject: &Subject,
        after: u64,
        limit: usize,
    ) -> Result<Vec<Event>, StoreError> {
        self.count_call("events");
        self.store.events(subject, after, limit).await
    }

    async fn push_subscriptions(&self, id: &TaskId) -> Result<Vec<PushSubscription>, StoreError> {
        self.count_call("pushes");
        self.store.push_subscriptions(id).await
    }

    async fn blobs(&self, ids: &[BlobId]) -> Result<HashMap<BlobId, BlobContent>, StoreError> {
        self.count_call("blobs");
        let _reading = match self.blob_permits.get() {
            Some(held) => held.acquire().await.ok(),
            None => None,
        };
        self.store.blobs(ids).await
    }

    async fn blob_sizes(&self, ids: &[BlobId]) -> Result<HashMap<BlobId, usize>, StoreError> {
        self.count_call("blob_sizes");
        self.store.blob_sizes(ids).await
    }

    async fn claimed_value(&self, key: &str, now: Timestamp) -> Result<Option<String>, StoreError> {
        self.count_call("claimed");
        self.store.claimed_value(key, now).await
    }
}

#[async_trait]
impl StreamStore for CountingStore {
    async fn stream(&self, id: &StreamId) -> Result<Option<Stream>, StoreError> {
        self.store.stream(id).await
    }

    async fn idle_streams(
        &self,
        before: Timestamp,
        limit: usize,
    ) -> Result<Vec<Stream>, StoreError> {
        self.store.idle_streams(before, limit).await
    }

    async fn streams(&self, query: &StreamQuery) -> Result<Vec<Stream>, StoreError> {
        self.store.streams(query).await
    }
}

#[async_trait]
impl WorkStore for CountingStore {
    async fn claim_work(&self, claim: &WorkClaim) -> Result<Vec<WorkItem>, StoreError> {
        let items = self.store.claim_work(claim).await;
        // Counted only now, so that a call still in progress is not taken for a finished one.
        self.count_call("claim_work");
        if let Some(permits) = self.claim_permits.get() {
            self.count_call("held_claim");
            permits.acquire().await.unwrap().forget();
        }
        items
    }

    async fn commit_and_claim(
        &self,
        commit: Commit,
        claim: &WorkClaim,
    ) -> Result<Vec<WorkItem>, StoreError> {
        self.count_call("commit_and_claim");
        self.store.commit_and_claim(commit, claim).await
    }

    async fn renew_work(
        &self,
        task_id: &TaskId,
        node: &str,
        claim: u64,
        lease: Duration,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.count_call("renew_work");
        let renewed = self.store.renew_work(task_id, node, claim, lease, now);
        renewed.await
    }

    async fn release_work(
        &self,
        task_id: &TaskId,
        node: &str,
        claim: u64,
        wait: Duration,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.count_call("release_work");
        let released = self.store.release_work(task_id, node, claim, wait, now);
        released.await
    }

    async fn abandon_work(&self, claims: &[Fence]) -> Result<(), StoreError> {
        self.count_call("abandon_work");
        self.store.abandon_work(claims).await
    }

    async fn work_depth(&self, now: Timestamp) -> Result<(u64, u64), StoreError> {
        self.store.work_depth(now).await
    }
}

#[async_trait]
impl OutboxStore for CountingStore {
    async fn claim_outbox(&self, claim: &OutboxClaim) -> Result<Vec<OutboxEntry>, StoreError> {
        self.store.claim_outbox(claim).await
    }

    async fn settle_outbox(
        &self,
        id: &DeliveryId,
        attempt: u32,
        settlement: &DeliveryResult,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.store.settle_outbox(id, attempt, settlement, now).await
    }

    async fn renew_outbox_lease(
        &self,
        id: &DeliveryId,
        attempt: u32,
        hold: Duration,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.store.renew_outbox_lease(id, attempt, hold, now).await
    }

    async fn abandon_outbox(
        &self,
        attempts: &[(DeliveryId, u32)],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.store.abandon_outbox(attempts, now).await
    }

    async fn next_outbox_due(
        &self,
        channels: &[String],
        now: Timestamp,
    ) -> Result<Option<Duration>, StoreError> {
        self.store.next_outbox_due(channels, now).await
    }

    async fn dead_letters(&self, query: &DeadLetterQuery) -> Result<Vec<OutboxEntry>, StoreError> {
        self.store.dead_letters(query).await
    }

    async fn replay_outbox(&self, id: &DeliveryId, now: Timestamp) -> Result<bool, StoreError> {
        self.store.replay_outbox(id, now).await
    }

    async fn delivery_statuses(
        &self,
        channel: &str,
        keys: &[String],
    ) -> Result<Vec<DeliveryStatus>, StoreError> {
        self.store.delivery_statuses(channel, keys).await
    }

    async fn outbox_depth(&self) -> Result<(u64, u64), StoreError> {
        self.store.outbox_depth().await
    }
}

#[async_trait]
impl TopicStore for CountingStore {
    async fn subscription(&self, id: &SubscriptionId) -> Result<Option<Subscription>, StoreError> {
        self.store.subscription(id).await
    }

    async fn subscriptions(
        &self,
        query: &SubscriptionQuery,
    ) -> Result<(Vec<Subscription>, u64), StoreError> {
        self.store.subscriptions(query).await
    }

    async fn active_subscriptions(
        &self,
        known: Option<u64>,
    ) -> Result<Option<(u64, Vec<Subscription>)>, StoreError> {
        self.store.active_subscriptions(known).await
    }

    async fn claim_signals(
        &self,
        id: &SubscriptionId,
        now: Timestamp,
        waits: &[Duration],
        limit: usize,
    ) -> Result<Vec<SignalDelivery>, StoreError> {
        self.store.claim_signals(id, now, waits, limit).await
    }

    async fn unacked_signals(
        &self,
        id: &SubscriptionId,
        after: u64,
        limit: usize,
    ) -> Result<Vec<SignalDelivery>, StoreError> {
        self.store.unacked_signals(id, after, limit).await
    }

    async fn ack_signals(
        &self,
        id: &SubscriptionId,
        signals: &[SignalId],
        now: Timestamp,
    ) -> Result<Vec<AckOutcome>, StoreError> {
        self.store.ack_signals(id, signals, now).await
    }

    async fn dead_letter_signal(
        &self,
        id: &SubscriptionId,
        seq: u64,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.store.dead_letter_signal(id, seq, now).await
    }

    async fn subscriptions_due(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<SubscriptionId>, StoreError> {
        self.store.subscriptions_due(now, limit).await
    }

    async fn dead_signals(&self, limit: usize) -> Result<Vec<SignalDelivery>, StoreError> {
        self.store.dead_signals(limit).await
    }
}

#[async_trait]
impl QuotaStore for CountingStore {
    async fn charge(
        &self,
        key: &str,
        rate: Rate,
        cost: u32,
        now: Timestamp,
    ) -> Result<Charge, StoreError> {
        self.store.charge(key, rate, cost, now).await
    }
}

#[async_trait]
impl Maintenance for CountingStore {
    fn leases_expire(&self) -> bool {
        self.store.leases_expire()
    }

    async fn release_stale_claims(&self, now: Timestamp) -> Result<(), StoreError> {
        self.store.release_stale_claims(now).await
    }

    async fn purge(
        &self,
        retention: &Retention,
        now: Timestamp,
        limit: usize,
    ) -> Result<Purged, StoreError> {
        self.store.purge(retention, now, limit).await
    }

    async fn optimize(&self) -> Result<(), StoreError> {
        self.store.optimize().await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.count_call("check");
        self.store.check().await
    }

    fn subscribe_changes(&self) -> broadcast::Receiver<ChangeHint> {
        self.store.subscribe_changes()
    }
}

#[async_trait]
impl RecordStore for CountingStore {
    async fn record(
        &self,
        kind: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<StoredRecord>, StoreError> {
        self.store.record(kind, key, now).await
    }

    async fn records(
        &self,
        kind: &str,
        now: Timestamp,
    ) -> Result<Vec<(String, StoredRecord)>, StoreError> {
        self.store.records(kind, now).await
    }

    async fn put_record(
        &self,
        kind: &str,
        key: &str,
        value: &str,
        expected: Option<u64>,
        expires_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.count_call("put_record");
        self.store
            .put_record(kind, key, value, expected, expires_at, now)
            .await
    }

    async fn take_record(
        &self,
        kind: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<StoredRecord>, StoreError> {
        self.store.take_record(kind, key, now).await
    }
}

#[async_trait]
impl RequestLogStore for CountingStore {
    async fn append_requests(&self, pairs: Vec<RequestLogEntry>) -> Result<(), StoreError> {
        self.store.append_requests(pairs).await
    }

    async fn find_requests(
        &self,
        query: &RequestQuery,
    ) -> Result<Vec<RequestLogEntry>, StoreError> {
        self.store.find_requests(query).await
    }
}

#[async_trait]
impl ConversationStore for CountingStore {
    async fn conversations(
        &self,
        query: &ConversationQuery,
    ) -> Result<ConversationPage, StoreError> {
        self.store.conversations(query).await
    }

    async fn thread_tasks(
        &self,
        thread: &ThreadKey,
        query: &ConversationQuery,
    ) -> Result<Vec<ThreadTask>, StoreError> {
        self.store.thread_tasks(thread, query).await
    }

    async fn thread_task(&self, id: &TaskId) -> Result<Option<ThreadTask>, StoreError> {
        self.store.thread_task(id).await
    }

    async fn put_feedback(&self, feedback: &Feedback) -> Result<bool, StoreError> {
        self.store.put_feedback(feedback).await
    }

    async fn feedback(&self, tasks: &[TaskId]) -> Result<Vec<Feedback>, StoreError> {
        self.store.feedback(tasks).await
    }
}
