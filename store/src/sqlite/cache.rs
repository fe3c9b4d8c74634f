//! Cache of recently read tasks, which saves the trip to a reader thread.
//!
//! The cache always matches the database. Before a change of a task is committed, the task is invalidated:
//! its entry is removed, and nothing that is being read meanwhile may be inserted until the commit is over.
//! A reader takes an insert permit before it reads, and its result is inserted only if the task has not
//! been invalidated since.
//!
//! Only existing tasks are cached, never absence; so creating a task invalidates nothing.

use interzone_hub::TaskSnapshot;
use interzone_protocol::vocab::TaskId;
use std::collections::HashMap;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// Number of shards, each with its own lock.
const SHARDS: usize = 16;
/// Maximum size of one cached task.
const MAX_TASK_BYTES: usize = 64 << 10;

/// Task cache by task id.
pub(super) struct TaskCache {
    shards: [Mutex<Shard>; SHARDS],
    hasher: RandomState,
    /// Size limit of one generation of a shard, in bytes.
    generation_bytes: usize,
    tokens: AtomicU64,
}

/// Two generations: entries used since the last rotation, and those used before. When the
/// first is full it becomes the second, and the entries of that are dropped.
#[derive(Default)]
struct Shard {
    recent: HashMap<TaskId, CachedTask>,
    bytes: usize,
    earlier: HashMap<TaskId, CachedTask>,
    slot_states: HashMap<TaskId, SlotState>,
}

struct CachedTask {
    task: Arc<TaskSnapshot>,
    bytes: usize,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum SlotState {
    /// A reader holds an insert permit with this token.
    Reading(u64),
    /// The task is being changed.
    Invalidated,
}

/// Result of a cache lookup.
pub(super) enum CacheLookup {
    Hit(Arc<TaskSnapshot>),
    /// The task must be read, and may be inserted if there is a permit.
    Miss(Option<InsertPermit>),
}

/// Permit to insert a task that is read from now on.
pub(super) struct InsertPermit {
    cache: Arc<TaskCache>,
    id: TaskId,
    token: u64,
}

impl TaskCache {
    /// Creates a cache of at most about so many bytes.
    pub(super) fn new(bytes: usize) -> Arc<Self> {
        Arc::new(Self {
            shards: std::array::from_fn(|_| Mutex::default()),
            hasher: RandomState::new(),
            generation_bytes: bytes / SHARDS / 2,
            tokens: AtomicU64::new(0),
        })
    }

    /// Maximum size of a cached task, in bytes.
    pub(super) fn max_task_bytes(&self) -> usize {
        self.generation_bytes.min(MAX_TASK_BYTES)
    }

    /// Returns a task, if it is cached.
    pub(super) fn get(&self, id: &TaskId) -> Option<Arc<TaskSnapshot>> {
        self.shard(id).get(id, self.generation_bytes)
    }

    /// Returns a task, or the permit to insert it.
    pub(super) fn lookup(self: &Arc<Self>, id: &TaskId) -> CacheLookup {
        let mut shard = self.shard(id);
        if let Some(task) = shard.get(id, self.generation_bytes) {
            return CacheLookup::Hit(task);
        }
        if self.generation_bytes == 0 || shard.slot_states.contains_key(id) {
            return CacheLookup::Miss(None);
        }
        let token = self.tokens.fetch_add(1, Ordering::Relaxed);
        shard
            .slot_states
            .insert(id.clone(), SlotState::Reading(token));
        CacheLookup::Miss(Some(InsertPermit {
            cache: self.clone(),
            id: id.clone(),
            token,
        }))
    }

    /// Removes tasks that are about to change, and blocks inserts of them until the change is over.
    pub(super) fn begin_invalidation(&self, ids: &[TaskId]) {
        for id in ids {
            let mut shard = self.shard(id);
            shard.remove(id);
            shard.slot_states.insert(id.clone(), SlotState::Invalidated);
        }
    }

    /// Ends the invalidation, whether the change was committed or not.
    pub(super) fn end_invalidation(&self, ids: &[TaskId]) {
        for id in ids {
            self.shard(id).slot_states.remove(id);
        }
    }

    fn shard(&self, id: &TaskId) -> MutexGuard<'_, Shard> {
        let hash = self.hasher.hash_one(id);
        let index = usize::try_from(hash % SHARDS as u64).unwrap_or(0);
        let [first, ..] = &self.shards;
        // Every critical section is panic-safe, so a poisoned lock is usable.
        let shard = self.shards.get(index).unwrap_or(first);
        shard.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Shard {
    fn get(&mut self, id: &TaskId, half: usize) -> Option<Arc<TaskSnapshot>> {
        if let Some(cached) = self.recent.get(id) {
            return Some(cached.task.clone());
        }
        let (id, cached) = self.earlier.remove_entry(id)?;
        let task = cached.task.clone();
        self.insert(id, cached, half);
        Some(task)
    }

    fn insert(&mut self, id: TaskId, cached: CachedTask, half: usize) {
        if self.bytes + cached.bytes > half {
            self.earlier = std::mem::take(&mut self.recent);
            self.bytes = 0;
        }
        self.bytes += cached.bytes;
        let replaced = self.recent.insert(id, cached);
        self.bytes -= replaced.map_or(0, |before| before.bytes);
    }

    fn remove(&mut self, id: &TaskId) {
        if let Some(cached) = self.recent.remove(id) {
            self.bytes -= cached.bytes;
        }
        self.earlier.remove(id);
    }
}

impl InsertPermit {
    /// Inserts the task that was read, unless it was invalidated since the permit was given.
    pub(super) fn insert(self, task: &Arc<TaskSnapshot>, bytes: usize) {
        let mut shard = self.cache.shard(&self.id);
        if shard.slot_states.get(&self.id) == Some(&SlotState::Reading(self.token)) {
            let task = task.clone();
            shard.insert(
                self.id.clone(),
                CachedTask { task, bytes },
                self.cache.generation_bytes,
            );
        }
    }
}

impl Drop for InsertPermit {
    fn drop(&mut self) {
        let mut shard = self.cache.shard(&self.id);
        if shard.slot_states.get(&self.id) == Some(&SlotState::Reading(self.token)) {
            shard.slot_states.remove(&self.id);
        }
    }
}

#[cfg(test)]
mod tests;
