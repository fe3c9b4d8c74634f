//! Looks at a store after a fault: is everything there that was acknowledged, and nothing by halves?

use super::facts::Fact;
use super::load::{ACKS, CHANNEL, KEEPS, blob, message, now, text};
use crate::make::{
    all_tasks, carry_wish, commit, long_after, made, of_task, signal_id, sub_id, task_id, wish,
};
use interzone_hub::ports::{Op, Store};
use interzone_hub::{
    EventBody, OutboxEntry, Settlement, SignalDelivery, Task, TaskCursor, TaskQuery,
};
use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

impl Fact {
    /// Reads a line; a line that was cut off by a kill is nothing.
    pub(crate) fn from_line(line: &str) -> Option<Self> {
        if line == "done" {
            return Some(Self::Done);
        }
        let (word, rest) = line.split_once(' ')?;
        let text = rest.to_owned();
        let numbered = || {
            let (number, name) = rest.split_once(' ')?;
            Some((number.parse().ok()?, name.to_owned()))
        };
        Some(match word {
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

/// How much may have been done without anybody having been told.
#[derive(Clone, Copy)]
pub(crate) struct Untold {
    /// Commits to tasks: one for each writer that was killed.
    pub(crate) commits: usize,
    /// Settled entries, ended work and acknowledged signals: one of each for each kill.
    pub(crate) others: usize,
}

impl Untold {
    /// Nobody was killed: everything was told.
    pub(crate) const NOTHING: Self = Self {
        commits: 0,
        others: 0,
    };
}

/// All that was told about one database, over any number of faults.
#[derive(Default)]
pub(crate) struct Told {
    revisions: HashMap<String, u64>,
    delivered: HashSet<String>,
    acked: HashSet<String>,
    claims: HashMap<String, u64>,
    ended: HashSet<String>,
    pub(crate) refused: Vec<String>,
    pub(crate) count: usize,
}

impl Told {
    pub(crate) fn note(&mut self, fact: Fact) {
        self.count += 1;
        match fact {
            Fact::Wrote { task, revision } => {
                let known = self.revisions.entry(task).or_default();
                *known = revision.max(*known);
            }
            Fact::Delivered { key } => {
                assert!(!self.delivered.contains(&key), "{key} arrived twice");
                self.delivered.insert(key);
            }
            Fact::Acked { signal } => {
                assert!(!self.acked.contains(&signal), "{signal} was due twice");
                self.acked.insert(signal);
            }
            Fact::Claimed { task, claim } => {
                let before = self.claims.insert(task.clone(), claim);
                assert!(before.is_none(), "{task} was claimed while it was held");
            }
            Fact::Ended { task } => {
                self.ended.insert(task);
            }
            Fact::Refused { why } => self.refused.push(why),
            Fact::Broken { how } => panic!("broken: {how}"),
            Fact::Done => {}
        }
    }

    /// Checks a store that nobody writes to. Afterwards it has nothing due, and this knows it.
    pub(crate) async fn check(&mut self, shared: &Arc<dyn Store>, untold: Untold) {
        let store = &**shared;
        store.check().await.unwrap();
        let tasks = tasks(store).await;
        let mut untold_commits = 0;
        for task in &tasks {
            whole(store, task).await;
            let told = self.revisions.get(task.id.as_str()).copied().unwrap_or(0);
            assert!(task.revision >= told, "{} lost {told}", task.id);
            untold_commits += usize::try_from(task.revision - told).unwrap();
            self.revisions.insert(task.id.to_string(), task.revision);
        }
        assert_eq!(tasks.len(), self.revisions.len(), "a task is lost");
        assert!(
            untold_commits <= untold.commits,
            "{untold_commits} more than told"
        );
        let all: HashSet<String> = tasks
            .iter()
            .flat_map(|task| (1..=task.revision).map(|r| text(task.id.as_str(), r)))
            .collect();
        self.check_outbox(shared, &all, untold.others).await;
        self.check_signals(store, &all, untold.others).await;
        self.check_work(store, &tasks, untold.others).await;
    }

    /// Every entry is due until it was settled, and none is due twice.
    async fn check_outbox(&mut self, store: &Arc<dyn Store>, all: &HashSet<String>, untold: usize) {
        let waiting = all.len() - self.delivered.len();
        let (depth, dead) = store.outbox_depth().await.unwrap();
        let depth = usize::try_from(depth).unwrap();
        assert_eq!(dead, 0);
        assert!(
            depth <= waiting && waiting - depth <= untold,
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
        assert!(lost.len() <= untold, "entries are lost: {lost:?}");
        self.delivered = all.clone();
    }

    /// Every commit's signal was delivered once, without a gap, in order.
    async fn check_signals(&mut self, store: &dyn Store, all: &HashSet<String>, untold: usize) {
        let kept = unacked(store, KEEPS).await;
        let mut seen = HashSet::new();
        let mut order: HashMap<String, u64> = HashMap::new();
        for (expected, delivery) in (1..).zip(&kept) {
            assert_eq!(delivery.seq, expected, "a number is missing or doubled");
            let id = delivery.signal.id.to_string();
            let (task, number) = id.rsplit_once('#').unwrap();
            let number = number.parse().unwrap();
            let before = order.insert(task.to_owned(), number).unwrap_or(0);
            assert_eq!(before + 1, number, "{id} is out of order");
            assert!(seen.insert(id));
        }
        assert_eq!(seen.len(), all.len(), "signals are lost or made up");
        assert!(seen.is_subset(all));

        let left = unacked(store, ACKS).await;
        let numbers: HashSet<u64> = left.iter().map(|delivery| delivery.seq).collect();
        assert_eq!(numbers.len(), left.len());
        let left: HashSet<String> = left.iter().map(|d| d.signal.id.to_string()).collect();
        assert!(left.is_disjoint(&self.acked), "acknowledged and due again");
        let missing = all.len() - left.len() - self.acked.len();
        assert!(missing <= untold, "{missing} signals are lost");
        let ids: Vec<_> = left.iter().map(|id| signal_id(id)).collect();
        let acked = store.ack_signals(&sub_id(ACKS), &ids, now()).await.unwrap();
        assert!(
            acked
                .iter()
                .all(|acked| *acked == interzone_hub::Acked::Now)
        );
        self.acked = all.clone();
    }

    /// All work is there until it was ended, and claims get higher numbers than before.
    async fn check_work(&mut self, store: &dyn Store, tasks: &[Task], untold: usize) {
        let items = store
            .claim_work(&wish("verifier", 1_000_000, long_after()))
            .await
            .unwrap();
        let mut claimed = HashSet::new();
        for item in &items {
            let task = item.task_id.to_string();
            assert!(!self.ended.contains(&task), "{task} was ended");
            let before = self.claims.get(&task).copied().unwrap_or(0);
            assert!(item.claim > before, "{task}: {} after {before}", item.claim);
            // Where everything was told, a claim that nobody heard of is one that was lost.
            let told = 1 + u32::from(before > 0);
            assert!(
                untold > 0 || item.attempt == told,
                "{task} was claimed {} times, this one included, and not {told}",
                item.attempt
            );
            assert!(claimed.insert(task));
        }
        let lost: Vec<_> = tasks
            .iter()
            .map(|task| task.id.to_string())
            .filter(|id| !claimed.contains(id) && !self.ended.contains(id))
            .collect();
        assert!(lost.len() <= untold, "work is lost: {lost:?}");
        self.ended = tasks.iter().map(|task| task.id.to_string()).collect();
        let ops = items.into_iter().map(|i| Op::EndWork(i.task_id)).collect();
        store.commit(commit(ops)).await.unwrap();
    }
}

/// Claims all that is due, long after every hold, and settles it, until nothing is left.
async fn drain(store: &Arc<dyn Store>) -> Vec<OutboxEntry> {
    let channels = [CHANNEL.to_owned()];
    let (now, until) = (long_after(), long_after().after(Duration::from_secs(60)));
    let mut all = Vec::new();
    loop {
        let wish = carry_wish(&channels, now, until, 100);
        let entries = store.claim_outbox(&wish).await.unwrap();
        if entries.is_empty() {
            return all;
        }
        // Together, so that they share what it costs to make them durable.
        let mut settling = JoinSet::new();
        for entry in &entries {
            let (store, id, attempt) = (store.clone(), entry.id.clone(), entry.attempt);
            settling.spawn(async move {
                let arrived = Settlement::Delivered;
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
async fn tasks(store: &dyn Store) -> Vec<Task> {
    let mut query = TaskQuery {
        limit: 500,
        ..all_tasks()
    };
    let mut all: Vec<Task> = Vec::new();
    loop {
        let page = store.tasks(&query).await.unwrap();
        let Some(last) = page.last() else { break };
        query.after = Some(TaskCursor {
            updated_at: last.updated_at,
            id: last.id.clone(),
        });
        all.extend(page);
    }
    let count = store.count_tasks(&all_tasks()).await.unwrap();
    assert_eq!(count, all.len() as u64);
    all
}

/// Checks that a task has all that its revision says, and nothing of the next.
async fn whole(store: &dyn Store, task: &Task) {
    let id = task.id.as_str();
    let count = u32::try_from(task.revision).unwrap();
    assert_eq!((task.seq, task.messages), (task.revision, count), "{id}");
    let texts: Vec<String> = (1..=task.revision).map(|r| text(id, r)).collect();
    assert_eq!(task.status, Some(message(texts.last().unwrap())));
    let messages = store.messages(&task.id, 0..u32::MAX).await.unwrap();
    let expected: Vec<_> = texts.iter().map(|text| message(text)).collect();
    assert_eq!(messages, expected, "{id}");
    let events = store.events(&of_task(id), 0, 1_000_000).await.unwrap();
    assert_eq!(events.len(), texts.len(), "{id}");
    for ((seq, event), text) in (1..).zip(&events).zip(&texts) {
        assert_eq!(event.seq, seq, "{id}");
        let text = text.clone();
        assert_eq!(event.body, EventBody::Status { text }, "{id}");
    }
    let artifacts = store.artifacts(&task.id).await.unwrap();
    assert_eq!(artifacts.len(), 1, "{id}");
    let expected = made("a", texts.last().unwrap());
    let parts = |packed: &interzone_hub::Packed<interzone_protocol::vocab::Artifact>| {
        packed.without_large().parts().to_vec()
    };
    assert_eq!(parts(&artifacts[0]), parts(&expected), "{id}");
    let blob = blob(id);
    let known = store.blobs(&[blob.id]).await.unwrap();
    assert_eq!(known.get(&blob.id), Some(&blob.bytes), "{id}");
    for revision in [1, task.revision, task.revision + 1] {
        let taken = store.claimed(&text(id, revision), now()).await.unwrap();
        let expected = (revision <= task.revision).then(|| revision.to_string());
        assert_eq!(taken, expected, "{id}");
    }
    assert_eq!(task_id(id), task.id);
}

/// All deliveries that a subscription has not acknowledged, page by page.
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
