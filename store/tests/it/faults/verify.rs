//! Verifies a store after a fault: everything acknowledged is present, and nothing is partial.

use super::facts::Fact;
use super::load::{ACKS, CHANNEL, KEEPS, blob, message, now, text};
use crate::builders::{
    all_tasks, commit, long_after, outbox_claim, report_artifact, signal_id, sub_id, task_id,
    task_subject, work_claim,
};
use interzone_hub::ports::{Op, Store};
use interzone_hub::{
    DeliveryResult, EventBody, OutboxEntry, SignalDelivery, Task, TaskCursor, TaskQuery,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

impl Fact {
    /// Parses a line; `None` for a line that was truncated by a kill.
    pub(crate) fn from_line(line: &str) -> Option<Self> {
        if line == "done" {
            return Some(Self::Done);
        }
        let (kind, argument) = line.split_once(' ')?;
        let text = argument.to_owned();
        let numbered = || {
            let (number, name) = argument.split_once(' ')?;
            Some((number.parse().ok()?, name.to_owned()))
        };
        Some(match kind {
            "wrote" => numbered().map(|(revision, task)| Self::Wrote { task, revision })?,
            "claimed" => numbered().map(|(claim, task)| Self::Claimed { task, claim })?,
            "delivered" => Self::Delivered { key: text },
            "acked" => Self::Acked { signal: text },
            "ended" => Self::Ended { task: text },
            "refused" => Self::Refused { why: text },
            "broken" => Self::Broken { how: text },
            _ => return None,
        })
    }
}

/// Number of writes that may be done without having been reported.
#[derive(Clone, Copy)]
pub(crate) struct UnreportedLimit {
    /// Commits to tasks: one for each killed writer.
    pub(crate) commits: usize,
    /// Settled entries, dequeued work and acknowledged signals: one of each per kill.
    pub(crate) others: usize,
}

impl UnreportedLimit {
    /// No process was killed: everything was reported.
    pub(crate) const NONE: Self = Self {
        commits: 0,
        others: 0,
    };
}

/// All facts reported about one database, over any number of faults.
#[derive(Default)]
pub(crate) struct FactLog {
    revisions: HashMap<String, u64>,
    delivered: HashSet<String>,
    acked: HashSet<String>,
    claims: HashMap<String, u64>,
    ended: HashSet<String>,
    pub(crate) refused: Vec<String>,
    pub(crate) count: usize,
}

impl FactLog {
    pub(crate) fn record(&mut self, fact: Fact) {
        self.count += 1;
        match fact {
            Fact::Wrote { task, revision } => {
                let latest = self.revisions.entry(task).or_default();
                *latest = revision.max(*latest);
            }
            Fact::Delivered { key } => {
                assert!(!self.delivered.contains(&key), "{key} was delivered twice");
                self.delivered.insert(key);
            }
            Fact::Acked { signal } => {
                assert!(!self.acked.contains(&signal), "{signal} was due twice");
                self.acked.insert(signal);
            }
            Fact::Claimed { task, claim } => {
                let before = self.claims.insert(task.clone(), claim);
                assert!(before.is_none(), "{task} was claimed while it was leased");
            }
            Fact::Ended { task } => {
                self.ended.insert(task);
            }
            Fact::Refused { why: reason } => self.refused.push(reason),
            Fact::Broken { how: reason } => panic!("broken: {reason}"),
            Fact::Done => {}
        }
    }

    /// Checks a store without writers. Afterwards nothing is due, and the log reflects that.
    pub(crate) async fn check(&mut self, shared: &Arc<dyn Store>, unreported: UnreportedLimit) {
        let store = &**shared;
        store.check().await.unwrap();
        let tasks = all_stored_tasks(store).await;
        let mut unreported_commits = 0;
        for task in &tasks {
            check_task(store, task).await;
            let reported = self.revisions.get(task.id.as_str()).copied().unwrap_or(0);
            assert!(task.revision >= reported, "{} lost {reported}", task.id);
            unreported_commits += usize::try_from(task.revision - reported).unwrap();
            self.revisions.insert(task.id.to_string(), task.revision);
        }
        assert_eq!(tasks.len(), self.revisions.len(), "a task is lost");
        assert!(
            unreported_commits <= unreported.commits,
            "{unreported_commits} more than reported"
        );
        let all: HashSet<String> = tasks
            .iter()
            .flat_map(|task| (1..=task.revision).map(|r| text(task.id.as_str(), r)))
            .collect();
        self.check_outbox(shared, &all, unreported.others).await;
        self.check_signals(store, &all, unreported.others).await;
        self.check_work(store, &tasks, unreported.others).await;
    }

    /// Every entry is due until it was settled, and none is due twice.
    async fn check_outbox(
        &mut self,
        store: &Arc<dyn Store>,
        all: &HashSet<String>,
        unreported: usize,
    ) {
        let waiting = all.len() - self.delivered.len();
        let (depth, dead) = store.outbox_depth().await.unwrap();
        let depth = usize::try_from(depth).unwrap();
        assert_eq!(dead, 0);
        assert!(
            depth <= waiting && waiting - depth <= unreported,
            "{depth} of {waiting}"
        );
        let mut due = HashSet::new();
        let mut order: HashMap<String, u64> = HashMap::new();
        for entry in drain(store).await {
            assert!(due.insert(entry.key.clone()), "{} is due twice", entry.key);
            assert!(all.contains(&entry.key), "{} of no commit", entry.key);
            assert!(!self.delivered.contains(&entry.key), "{} again", entry.key);
            if let Some(group) = entry.group {
                let number = entry.key.rsplit('#').next().unwrap().parse().unwrap();
                let before = order.insert(group, number).unwrap_or(0);
                assert!(before < number, "{} is out of order", entry.key);
            }
        }
        let lost: Vec<_> = all
            .iter()
            .filter(|key| !due.contains(*key) && !self.delivered.contains(*key))
            .collect();
        assert!(lost.len() <= unreported, "entries are lost: {lost:?}");
        self.delivered = all.clone();
    }

    /// Every commit's signal was delivered once, without a gap, in order.
    async fn check_signals(&mut self, store: &dyn Store, all: &HashSet<String>, unreported: usize) {
        let all_signals = unacked(store, KEEPS).await;
        let mut ids = HashSet::new();
        let mut order: HashMap<String, u64> = HashMap::new();
        for (expected, delivery) in (1..).zip(&all_signals) {
            assert_eq!(delivery.seq, expected, "a number is missing or doubled");
            let id = delivery.signal.id.to_string();
            let (task, number) = id.rsplit_once('#').unwrap();
            let number = number.parse().unwrap();
            let before = order.insert(task.to_owned(), number).unwrap_or(0);
            assert_eq!(before + 1, number, "{id} is out of order");
            assert!(ids.insert(id));
        }
        assert_eq!(ids.len(), all.len(), "signals are lost or unknown");
        assert!(ids.is_subset(all));

        let left = unacked(store, ACKS).await;
        let numbers: HashSet<u64> = left.iter().map(|delivery| delivery.seq).collect();
        assert_eq!(numbers.len(), left.len());
        let left: HashSet<String> = left.iter().map(|d| d.signal.id.to_string()).collect();
        assert!(left.is_disjoint(&self.acked), "acknowledged and due again");
        let missing = all.len() - left.len() - self.acked.len();
        assert!(missing <= unreported, "{missing} signals are lost");
        let ids: Vec<_> = left.iter().map(|id| signal_id(id)).collect();
        let acked = store.ack_signals(&sub_id(ACKS), &ids, now()).await.unwrap();
        assert!(
            acked
                .iter()
                .all(|acked| *acked == interzone_hub::AckOutcome::Acknowledged)
        );
        self.acked = all.clone();
    }

    /// All work is queued until it was dequeued, and claim numbers rise.
    async fn check_work(&mut self, store: &dyn Store, tasks: &[Task], unreported: usize) {
        let items = store
            .claim_work(&work_claim("verifier", 1_000_000, long_after()))
            .await
            .unwrap();
        let mut claimed = HashSet::new();
        for item in &items {
            let task = item.task_id.to_string();
            assert!(!self.ended.contains(&task), "{task} was ended");
            let before = self.claims.get(&task).copied().unwrap_or(0);
            assert!(item.claim > before, "{task}: {} after {before}", item.claim);
            // Where everything was reported, an unreported claim is a lost one.
            let expected_attempt = 1 + u32::from(before > 0);
            assert!(
                unreported > 0 || item.attempt == expected_attempt,
                "{task} was claimed {} times, this one included, and not {expected_attempt}",
                item.attempt
            );
            assert!(claimed.insert(task));
        }
        let lost: Vec<_> = tasks
            .iter()
            .map(|task| task.id.to_string())
            .filter(|id| !claimed.contains(id) && !self.ended.contains(id))
            .collect();
        assert!(lost.len() <= unreported, "work is lost: {lost:?}");
        self.ended = tasks.iter().map(|task| task.id.to_string()).collect();
        let ops = items
            .into_iter()
            .map(|i| Op::DequeueWork(i.task_id))
            .collect();
        store.commit(commit(ops)).await.unwrap();
    }
}

/// Claims all due entries, long after every lease, and settles them, until none is left.
async fn drain(store: &Arc<dyn Store>) -> Vec<OutboxEntry> {
    let channels = [CHANNEL.to_owned()];
    let (now, until) = (long_after(), long_after().plus(Duration::from_secs(60)));
    let mut all = Vec::new();
    loop {
        let claim = outbox_claim(&channels, now, until, 100);
        let entries = store.claim_outbox(&claim).await.unwrap();
        if entries.is_empty() {
            return all;
        }
        // Concurrently, so that they share the cost of a durable commit.
        let mut settling = JoinSet::new();
        for entry in &entries {
            let (store, id, attempt) = (store.clone(), entry.id.clone(), entry.attempt);
            settling.spawn(async move {
                let arrived = DeliveryResult::Delivered;
                store.settle_outbox(&id, attempt, &arrived, now).await
            });
        }
        for settled in settling.join_all().await {
            assert!(settled.unwrap(), "it was just claimed");
        }
        all.extend(entries);
    }
}

/// All tasks, page by page.
async fn all_stored_tasks(store: &dyn Store) -> Vec<Task> {
    let mut query = TaskQuery {
        limit: 500,
        ..all_tasks()
    };
    let mut all: Vec<Task> = Vec::new();
    loop {
        let page = store.tasks(&query).await.unwrap();
        let Some(last) = page.last() else { break };
        query.after = Some(TaskCursor {
            status_at: last.status_at,
            id: last.id.clone(),
        });
        all.extend(page);
    }
    let count = store.count_tasks(&all_tasks()).await.unwrap();
    assert_eq!(count, all.len() as u64);
    all
}

/// Checks that a task has everything of its revision, and nothing of the next.
async fn check_task(store: &dyn Store, task: &Task) {
    let id = task.id.as_str();
    let count = u32::try_from(task.revision).unwrap();
    assert_eq!(
        (task.seq, task.message_count),
        (task.revision, count),
        "{id}"
    );
    let texts: Vec<String> = (1..=task.revision).map(|r| text(id, r)).collect();
    assert_eq!(task.status_message, Some(message(texts.last().unwrap())));
    let messages = store.messages(&task.id, 0..u32::MAX).await.unwrap();
    let expected: Vec<_> = texts.iter().map(|text| message(text)).collect();
    assert_eq!(messages, expected, "{id}");
    let events = store.events(&task_subject(id), 0, 1_000_000).await.unwrap();
    assert_eq!(events.len(), texts.len(), "{id}");
    for ((seq, event), text) in (1..).zip(&events).zip(&texts) {
        assert_eq!(event.seq, seq, "{id}");
        let text = text.clone();
        assert_eq!(event.body, EventBody::Status { text }, "{id}");
    }
    let artifacts = store.artifacts(&task.id).await.unwrap();
    assert_eq!(artifacts.len(), 1, "{id}");
    let expected = report_artifact("a", texts.last().unwrap());
    let parts = |packed: &interzone_hub::Offloaded<interzone_protocol::vocab::Artifact>| {
        packed.inline().parts().to_vec()
    };
    assert_eq!(parts(&artifacts[0]), parts(&expected), "{id}");
    let blob = blob(id);
    let stored = store.blobs(&[blob.id]).await.unwrap();
    assert_eq!(stored.get(&blob.id), Some(&blob.bytes), "{id}");
    for revision in [1, task.revision, task.revision + 1] {
        let taken = store
            .claimed_value(&text(id, revision), now())
            .await
            .unwrap();
        let expected = (revision <= task.revision).then(|| revision.to_string());
        assert_eq!(taken, expected, "{id}");
    }
    assert_eq!(task_id(id), task.id);
}

/// All unacknowledged deliveries of a subscription, page by page.
async fn unacked(store: &dyn Store, id: &str) -> Vec<SignalDelivery> {
    let mut all: Vec<SignalDelivery> = Vec::new();
    loop {
        let after = all.last().map_or(0, |delivery| delivery.seq);
        let page = store
            .unacked_signals(&sub_id(id), after, 500)
            .await
            .unwrap();
        if page.is_empty() {
            return all;
        }
        all.extend(page);
    }
}
