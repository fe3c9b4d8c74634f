//! A store that counts what it is asked for, so that a test can say how much something costs.

use async_trait::async_trait;
use interzone_hub::ports::{
    Commit, Conversations, DeadLetterQuery, Fence, Op, OutboxClaim, OutboxStore, Pair, PairQuery,
    PairStore, QuotaStore, Record, RecordStore, StoreError, StreamStore, SubscriptionQuery,
    TalkStore, TaskRead, TaskStore, TopicStore, Upkeep, Wake, WorkClaim, WorkItem, WorkStore,
};
use interzone_hub::{
    Acked, BlobId, BlobText, Carried, Charge, Event, Feedback, OutboxEntry, Packed, Purged, Push,
    Question, Rate, Retention, Settlement, SignalDelivery, Stream, StreamQuery, Subject,
    Subscription, TalkQuery, Task, TaskQuery, Thread,
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

/// A store, and how often it was asked for what.
pub(crate) struct Counting {
    store: SqliteStore,
    asked: Mutex<BTreeMap<&'static str, usize>>,
    /// Where the answers to looks for work wait, if they do.
    looks: OnceLock<Arc<Semaphore>>,
    /// Commits that claim a key that begins like this fail so many times.
    failing: Mutex<(&'static str, usize)>,
    /// Where reads of blobs wait, if they do.
    blobs_held: OnceLock<Arc<Semaphore>>,
}

impl Counting {
    pub(crate) fn new(store: SqliteStore) -> Arc<Self> {
        Arc::new(Self {
            store,
            asked: Mutex::default(),
            looks: OnceLock::new(),
            failing: Mutex::default(),
            blobs_held: OnceLock::new(),
        })
    }

    /// The next commits that claim a key that begins like this fail.
    pub(crate) fn fail_claims(&self, start: &'static str, times: usize) {
        *self.failing.lock().unwrap() = (start, times);
    }

    /// How many of them are still to fail.
    pub(crate) fn left_to_fail(&self) -> usize {
        self.failing.lock().unwrap().1
    }

    fn fails(&self, commit: &Commit) -> bool {
        let mut failing = self.failing.lock().unwrap();
        let claims = |op: &Op| matches!(op, Op::Claim(claim) if claim.key.starts_with(failing.0));
        let fails = failing.1 > 0 && commit.ops.iter().any(claims);
        failing.1 -= usize::from(fails);
        fails
    }

    /// From now on a look for work is answered only when it is let go. What it has claimed is claimed
    /// before, and then it counts as `held_look`.
    pub(crate) fn hold_looks(&self) -> Arc<Semaphore> {
        let looks = self.looks.get_or_init(|| Arc::new(Semaphore::new(0)));
        looks.clone()
    }

    /// From now on a read of blobs goes on only when it is let go. Before that it counts as `blobs`.
    pub(crate) fn hold_blobs(&self) -> Arc<Semaphore> {
        let held = self.blobs_held.get_or_init(|| Arc::new(Semaphore::new(0)));
        held.clone()
    }

    /// Waits until it is asked for something, and forgets what it was asked for before.
    pub(crate) async fn is_asked_for(&self, what: &str) {
        let asked = async {
            while !self.was_asked_for(what) {
                tokio::task::yield_now().await;
            }
        };
        let asked = tokio::time::timeout(Duration::from_secs(20), asked).await;
        assert!(asked.is_ok(), "nobody asks for {what}");
        self.asked();
    }

    fn note(&self, what: &'static str) {
        *self.asked.lock().unwrap().entry(what).or_default() += 1;
    }

    pub(crate) fn was_asked_for(&self, what: &str) -> bool {
        self.asked.lock().unwrap().contains_key(what)
    }

    /// How often it was asked for this since the last report.
    pub(crate) fn count(&self, what: &str) -> usize {
        self.asked.lock().unwrap().get(what).copied().unwrap_or(0)
    }

    /// What it was asked for since the last time, one to a line.
    pub(crate) fn asked(&self) -> String {
        let asked = std::mem::take(&mut *self.asked.lock().unwrap());
        let lines = asked.iter().map(|(what, times)| format!("{what}: {times}"));
        lines.collect::<Vec<_>>().join("\n")
    }
}

#[async_trait]
impl TaskStore for Counting {
    async fn commit(&self, commit: Commit) -> Result<(), StoreError> {
        self.note("commit");
        if self.fails(&commit) {
            return Err(StoreError::Full);
        }
        self.store.commit(commit).await
    }

    async fn task(&self, id: &TaskId) -> Result<Option<Task>, StoreError> {
        self.note("task");
        self.store.task(id).await
    }

    async fn messages(
        &self,
        id: &TaskId,
        range: Range<u32>,
    ) -> Result<Vec<Packed<Message>>, StoreError> {
        self.note("messages");
        self.store.messages(id, range).await
    }

    async fn artifacts(&self, id: &TaskId) -> Result<Vec<Packed<Artifact>>, StoreError> {
        self.note("artifacts");
        self.store.artifacts(id).await
    }

    async fn whole_task(
        &self,
        id: &TaskId,
        latest: u32,
        artifacts: bool,
        most: usize,
    ) -> Result<Option<TaskRead>, StoreError> {
        self.note("whole_task");
        self.store.whole_task(id, latest, artifacts, most).await
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
        self.note("events");
        self.store.events(subject, after, limit).await
    }

    async fn pushes(&self, id: &TaskId) -> Result<Vec<Push>, StoreError> {
        self.note("pushes");
        self.store.pushes(id).await
    }

    async fn blobs(&self, ids: &[BlobId]) -> Result<HashMap<BlobId, BlobText>, StoreError> {
        self.note("blobs");
        let _reading = match self.blobs_held.get() {
            Some(held) => held.acquire().await.ok(),
            None => None,
        };
        self.store.blobs(ids).await
    }

    async fn blob_sizes(&self, ids: &[BlobId]) -> Result<HashMap<BlobId, usize>, StoreError> {
        self.note("blob_sizes");
        self.store.blob_sizes(ids).await
    }

    async fn claimed(&self, key: &str, now: Timestamp) -> Result<Option<String>, StoreError> {
        self.note("claimed");
        self.store.claimed(key, now).await
    }
}

#[async_trait]
impl StreamStore for Counting {
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
impl WorkStore for Counting {
    async fn claim_work(&self, claim: &WorkClaim) -> Result<Vec<WorkItem>, StoreError> {
        let items = self.store.claim_work(claim).await;
        // Only now, so that nobody takes a look that is still going on for one that is over.
        self.note("claim_work");
        if let Some(looks) = self.looks.get() {
            self.note("held_look");
            looks.acquire().await.unwrap().forget();
        }
        items
    }

    async fn commit_and_claim(
        &self,
        commit: Commit,
        claim: &WorkClaim,
    ) -> Result<Vec<WorkItem>, StoreError> {
        self.note("commit_and_claim");
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
        self.note("renew_work");
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
        self.note("release_work");
        let released = self.store.release_work(task_id, node, claim, wait, now);
        released.await
    }

    async fn abandon_work(&self, claims: &[Fence]) -> Result<(), StoreError> {
        self.note("abandon_work");
        self.store.abandon_work(claims).await
    }

    async fn work_depth(&self, now: Timestamp) -> Result<(u64, u64), StoreError> {
        self.store.work_depth(now).await
    }
}

#[async_trait]
impl OutboxStore for Counting {
    async fn claim_outbox(&self, claim: &OutboxClaim) -> Result<Vec<OutboxEntry>, StoreError> {
        self.store.claim_outbox(claim).await
    }

    async fn settle_outbox(
        &self,
        id: &DeliveryId,
        attempt: u32,
        settlement: &Settlement,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.store.settle_outbox(id, attempt, settlement, now).await
    }

    async fn hold_outbox(
        &self,
        id: &DeliveryId,
        attempt: u32,
        hold: Duration,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        self.store.hold_outbox(id, attempt, hold, now).await
    }

    async fn abandon_outbox(
        &self,
        attempts: &[(DeliveryId, u32)],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.store.abandon_outbox(attempts, now).await
    }

    async fn next_due(
        &self,
        channels: &[String],
        now: Timestamp,
    ) -> Result<Option<Duration>, StoreError> {
        self.store.next_due(channels, now).await
    }

    async fn dead_letters(&self, query: &DeadLetterQuery) -> Result<Vec<OutboxEntry>, StoreError> {
        self.store.dead_letters(query).await
    }

    async fn replay_outbox(&self, id: &DeliveryId, now: Timestamp) -> Result<bool, StoreError> {
        self.store.replay_outbox(id, now).await
    }

    async fn carried(&self, channel: &str, keys: &[String]) -> Result<Vec<Carried>, StoreError> {
        self.store.carried(channel, keys).await
    }

    async fn outbox_depth(&self) -> Result<(u64, u64), StoreError> {
        self.store.outbox_depth().await
    }
}

#[async_trait]
impl TopicStore for Counting {
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
    ) -> Result<Vec<Acked>, StoreError> {
        self.store.ack_signals(id, signals, now).await
    }

    async fn bury_signal(
        &self,
        id: &SubscriptionId,
        seq: u64,
        now: Timestamp,
    ) -> Result<(), StoreError> {
        self.store.bury_signal(id, seq, now).await
    }

    async fn subscriptions_due(
        &self,
        now: Timestamp,
        limit: usize,
    ) -> Result<Vec<SubscriptionId>, StoreError> {
        self.store.subscriptions_due(now, limit).await
    }

    async fn buried_signals(&self, limit: usize) -> Result<Vec<SignalDelivery>, StoreError> {
        self.store.buried_signals(limit).await
    }
}

#[async_trait]
impl QuotaStore for Counting {
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
impl Upkeep for Counting {
    fn leases_end(&self) -> bool {
        self.store.leases_end()
    }

    async fn take_over(&self, now: Timestamp) -> Result<(), StoreError> {
        self.store.take_over(now).await
    }

    async fn purge(
        &self,
        retention: &Retention,
        now: Timestamp,
        limit: usize,
    ) -> Result<Purged, StoreError> {
        self.store.purge(retention, now, limit).await
    }

    async fn tidy_up(&self) -> Result<(), StoreError> {
        self.store.tidy_up().await
    }

    async fn check(&self) -> Result<(), StoreError> {
        self.note("check");
        self.store.check().await
    }

    fn wakes(&self) -> broadcast::Receiver<Wake> {
        self.store.wakes()
    }
}

#[async_trait]
impl RecordStore for Counting {
    async fn record(
        &self,
        kind: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<Record>, StoreError> {
        self.store.record(kind, key, now).await
    }

    async fn records(
        &self,
        kind: &str,
        now: Timestamp,
    ) -> Result<Vec<(String, Record)>, StoreError> {
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
        self.note("put_record");
        self.store
            .put_record(kind, key, value, expected, expires_at, now)
            .await
    }

    async fn take_record(
        &self,
        kind: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<Record>, StoreError> {
        self.store.take_record(kind, key, now).await
    }
}

#[async_trait]
impl PairStore for Counting {
    async fn note_pairs(&self, pairs: Vec<Pair>) -> Result<(), StoreError> {
        self.store.note_pairs(pairs).await
    }

    async fn pairs(&self, query: &PairQuery) -> Result<Vec<Pair>, StoreError> {
        self.store.pairs(query).await
    }
}

#[async_trait]
impl TalkStore for Counting {
    async fn conversations(&self, query: &TalkQuery) -> Result<Conversations, StoreError> {
        self.store.conversations(query).await
    }

    async fn questions(
        &self,
        thread: &Thread,
        query: &TalkQuery,
    ) -> Result<Vec<Question>, StoreError> {
        self.store.questions(thread, query).await
    }

    async fn question(&self, id: &TaskId) -> Result<Option<Question>, StoreError> {
        self.store.question(id).await
    }

    async fn give_feedback(&self, feedback: &Feedback) -> Result<bool, StoreError> {
        self.store.give_feedback(feedback).await
    }

    async fn feedback(&self, tasks: &[TaskId]) -> Result<Vec<Feedback>, StoreError> {
        self.store.feedback(tasks).await
    }
}
