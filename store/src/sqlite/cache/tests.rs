//! Tests of the task cache: inserts, invalidation and size limit.

use super::super::tests::sample_task;
use super::{CacheLookup, InsertPermit, TaskCache};
use interzone_hub::TaskSnapshot;
use interzone_protocol::vocab::TaskId;
use std::sync::Arc;

fn id(name: &str) -> TaskId {
    TaskId::new(name).unwrap()
}

fn snapshot(name: &str, revision: u64) -> Arc<TaskSnapshot> {
    let mut task = sample_task(name);
    task.revision = revision;
    Arc::new(TaskSnapshot {
        task,
        messages: Vec::new(),
        artifacts: Vec::new(),
        rendering: interzone_hub::SnapshotRendering::default(),
    })
}

fn permit(cache: &Arc<TaskCache>, name: &str) -> Option<InsertPermit> {
    match cache.lookup(&id(name)) {
        CacheLookup::Miss(permit) => permit,
        CacheLookup::Hit(_) => panic!("the task is cached"),
    }
}

fn revision(cache: &TaskCache, name: &str) -> Option<u64> {
    cache.get(&id(name)).map(|whole| whole.task.revision)
}

#[test]
fn cached_task_is_served_until_invalidated() {
    let cache = TaskCache::new(1 << 20);
    permit(&cache, "t").unwrap().insert(&snapshot("t", 1), 100);
    assert_eq!(revision(&cache, "t"), Some(1));
    cache.begin_invalidation(&[id("t")]);
    assert_eq!(revision(&cache, "t"), None);
    assert!(permit(&cache, "t").is_none(), "the task is being changed");
    cache.end_invalidation(&[id("t")]);
    permit(&cache, "t").unwrap().insert(&snapshot("t", 2), 100);
    assert_eq!(revision(&cache, "t"), Some(2));
}

#[test]
fn permit_from_before_invalidation_inserts_nothing() {
    let cache = TaskCache::new(1 << 20);
    let before = permit(&cache, "t").unwrap();
    let unrelated = permit(&cache, "u").unwrap();
    cache.begin_invalidation(&[id("t")]);
    cache.end_invalidation(&[id("t")]);
    let after = permit(&cache, "t").unwrap();
    before.insert(&snapshot("t", 1), 100);
    assert_eq!(revision(&cache, "t"), None);
    after.insert(&snapshot("t", 2), 100);
    assert_eq!(revision(&cache, "t"), Some(2));
    // Other tasks are not affected.
    unrelated.insert(&snapshot("u", 1), 100);
    assert_eq!(revision(&cache, "u"), Some(1));
}

#[test]
fn dropped_permit_frees_the_slot() {
    let cache = TaskCache::new(1 << 20);
    let first = permit(&cache, "t").unwrap();
    assert!(permit(&cache, "t").is_none(), "only one permit at a time");
    drop(first);
    permit(&cache, "t").unwrap().insert(&snapshot("t", 1), 100);
    assert!(
        cache
            .shards
            .iter()
            .all(|s| s.lock().unwrap().slot_states.is_empty())
    );
}

#[test]
fn cache_stays_within_limit_and_evicts_unused_tasks() {
    let cache = TaskCache::new(16 * 2 * 1_000);
    let hot = "hot";
    permit(&cache, hot).unwrap().insert(&snapshot(hot, 1), 100);
    for number in 0..10_000 {
        let name = number.to_string();
        permit(&cache, &name)
            .unwrap()
            .insert(&snapshot(&name, 1), 100);
        assert_eq!(revision(&cache, hot), Some(1), "after {number}");
    }
    let cached: usize = cache
        .shards
        .iter()
        .map(|shard| {
            let shard = shard.lock().unwrap();
            let bytes: usize = shard.recent.values().map(|kept| kept.bytes).sum();
            assert_eq!(shard.bytes, bytes);
            assert!(bytes <= 1_000);
            shard.recent.len() + shard.earlier.len()
        })
        .sum();
    assert!((160..=320).contains(&cached), "{cached}");
}

#[test]
fn zero_size_cache_gives_no_permits() {
    let cache = TaskCache::new(0);
    assert!(permit(&cache, "t").is_none());
    cache.begin_invalidation(&[id("t")]);
    cache.end_invalidation(&[id("t")]);
}
