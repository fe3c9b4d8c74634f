//! Tasks that were read lately, so that reading one again costs no trip to a reader's thread.
//!
//! What is here is what the database says, always. Before a change of a task is committed, the task is
//! blocked: what is known of it goes, and nothing that is being read meanwhile may come in. Only when
//! the commit is over may it be read and kept again. A reader says before it reads that it is going to,
//! and what it read is kept only if nobody has blocked the task since.
//!
//! Only what is there is kept, never that something is not; so a new task need not block anything.

use interzone_hub::WholeTask;
use interzone_protocol::vocab::TaskId;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// In how many parts the cache is, each with a lock of its own.
const SHARDS: usize = 16;
/// The most that one task may take.
const LARGEST: usize = 64 << 10;

/// Tasks by their ids.
pub(super) struct TaskCache {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
    /// How many bytes half of a shard may have.
    half: usize,
    tokens: AtomicU64,
}

/// Two halves: what was used since the last change of halves, and what was used before. When the
/// first is full it becomes the second, and what was in that is forgotten.
#[derive(Default)]
struct Shard {
    recent: HashMap<TaskId, Kept>,
    bytes: usize,
    earlier: HashMap<TaskId, Kept>,
    marks: HashMap<TaskId, Mark>,
}

struct Kept {
    task: Arc<WholeTask>,
    bytes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Mark {
    /// Somebody reads it, and may keep what it read.
    Read(u64),
    /// It is being changed.
    Blocked,
}

/// What a look into the cache came to.
pub(super) enum Found {
    Task(Arc<WholeTask>),
    /// It must be read, and may be kept if there is a permit.
    Nothing(Option<Permit>),
}

/// The right to keep a task that is read from now on.
pub(super) struct Permit {
    cache: Arc<TaskCache>,
    id: TaskId,
    token: u64,
}

impl TaskCache {
    /// A cache of at most about so many bytes.
    pub(super) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::new(),
            half: bytes / SHARDS / 2,
            tokens: AtomicU64::new(0),
        })
    }

    /// The most bytes that a task may take to be kept.
    pub(super) fn largest(&self) -> usize {
        self.half.min(LARGEST)
    }

    /// A task, if it is here.
    pub(super) fn get(&self, id: &TaskId) -> Option<Arc<WholeTask>> {
        self.shard(id).get(id, self.half)
    }

    /// A task, or the permit to bring it.
    pub(super) fn find(self: &Arc<Self>, id: &TaskId) -> Found {
        let mut shard = self.shard(id);
        if let Some(task) = shard.get(id, self.half) {
            return Found::Task(task);
        }
        if self.half == 0 || shard.marks.contains_key(id) {
            return Found::Nothing(None);
        }
        let token = self.tokens.fetch_add(1, Ordering::Relaxed);
        shard.marks.insert(id.clone(), Mark::Read(token));
        Found::Nothing(Some(Permit {
            cache: self.clone(),
            id: id.clone(),
            token,
        }))
    }

    /// Forgets tasks that are about to change, and keeps nothing of them until they are unblocked.
    pub(super) fn block(&self, ids: &[TaskId]) {
        for id in ids {
            let mut shard = self.shard(id);
            shard.forget(id);
            shard.marks.insert(id.clone(), Mark::Blocked);
        }
    }

    /// The change is over, whether it was made or not.
    pub(super) fn unblock(&self, ids: &[TaskId]) {
        for id in ids {
            self.shard(id).marks.remove(id);
        }
    }

    fn shard(&self, id: &TaskId) -> MutexGuard<'_, Shard> {
        let hash = self.hasher.hash_one(id);
        let place = usize::try_from(hash % SHARDS as u64).unwrap_or(0);
        let [first, ..] = &self.shards;
        // Nothing is half done when a thread panics here.
        let shard = self.shards.get(place).unwrap_or(first);
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    fn get(&mut self, id: &TaskId, half: usize) -> Option<Arc<WholeTask>> {
        if let Some(kept) = self.recent.get(id) {
            return Some(kept.task.clone());
        }
        let (id, kept) = self.earlier.remove_entry(id)?;
        let task = kept.task.clone();
        self.keep(id, kept, half);
        Some(task)
    }

    fn keep(&mut self, id: TaskId, kept: Kept, half: usize) {
        if self.bytes + kept.bytes > half {
            self.earlier = std::mem::take(&mut self.recent);
            self.bytes = 0;
        }
        self.bytes += kept.bytes;
        let before = self.recent.insert(id, kept);
        self.bytes -= before.map_or(0, |before| before.bytes);
    }

    fn forget(&mut self, id: &TaskId) {
        if let Some(kept) = self.recent.remove(id) {
            self.bytes -= kept.bytes;
        }
        self.earlier.remove(id);
    }
}

impl Permit {
    /// Keeps what was read, unless it has been changed since the permit was given.
    pub(super) fn keep(self, task: &Arc<WholeTask>, bytes: usize) {
        let mut shard = self.cache.shard(&self.id);
        if shard.marks.get(&self.id) == Some(&Mark::Read(self.token)) {
            let task = task.clone();
            shard.keep(self.id.clone(), Kept { task, bytes }, self.cache.half);
        }
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        let mut shard = self.cache.shard(&self.id);
        if shard.marks.get(&self.id) == Some(&Mark::Read(self.token)) {
            shard.marks.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests;
