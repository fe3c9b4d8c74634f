//! The cache by itself: what is kept, what is not kept any more, and how much.

use super::super::tests::task;
use super::{Found, Permit, TaskCache};
use interzone_hub::WholeTask;
use interzone_protocol::vocab::TaskId;
use std::sync::Arc;

fn id(name: &str) -> TaskId {
    TaskId::new(name).unwrap()
}

fn whole(name: &str, revision: u64) -> Arc<WholeTask> {
    let mut task = task(name);
    task.revision = revision;
    Arc::new(WholeTask {
        task,
        messages: Vec::new(),
        artifacts: Vec::new(),
        written: interzone_hub::Written::default(),
    })
}

fn permit(cache: &Arc<TaskCache>, name: &str) -> Option<Permit> {
    match cache.find(&id(name)) {
        Found::Nothing(permit) => permit,
        Found::Task(_) => panic!("it is there"),
    }
}

fn revision(cache: &TaskCache, name: &str) -> Option<u64> {
    cache.get(&id(name)).map(|whole| whole.task.revision)
}

#[test]
fn what_was_read_is_kept_until_it_changes() {
    let cache = TaskCache::new(1 << 20);
    permit(&cache, "t").unwrap().keep(&whole("t", 1), 100);
    assert_eq!(revision(&cache, "t"), Some(1));
    cache.block(&[id("t")]);
    assert_eq!(revision(&cache, "t"), None);
    assert!(permit(&cache, "t").is_none(), "it is being changed");
    cache.unblock(&[id("t")]);
    permit(&cache, "t").unwrap().keep(&whole("t", 2), 100);
    assert_eq!(revision(&cache, "t"), Some(2));
}

#[test]
fn what_was_read_before_a_change_is_not_kept_after_it() {
    let cache = TaskCache::new(1 << 20);
    let before = permit(&cache, "t").unwrap();
    let gone = permit(&cache, "u").unwrap();
    cache.block(&[id("t")]);
    cache.unblock(&[id("t")]);
    let after = permit(&cache, "t").unwrap();
    before.keep(&whole("t", 1), 100);
    assert_eq!(revision(&cache, "t"), None);
    after.keep(&whole("t", 2), 100);
    assert_eq!(revision(&cache, "t"), Some(2));
    // Another task is nobody's business.
    gone.keep(&whole("u", 1), 100);
    assert_eq!(revision(&cache, "u"), Some(1));
}

#[test]
fn one_who_gives_up_reading_leaves_no_mark() {
    let cache = TaskCache::new(1 << 20);
    let first = permit(&cache, "t").unwrap();
    assert!(permit(&cache, "t").is_none(), "one is enough");
    drop(first);
    permit(&cache, "t").unwrap().keep(&whole("t", 1), 100);
    assert!(
        cache
            .shards
            .iter()
            .all(|s| s.lock().unwrap().marks.is_empty())
    );
}

#[test]
fn it_has_an_end_and_forgets_what_nobody_uses() {
    let cache = TaskCache::new(16 * 2 * 1_000);
    let hot = "hot";
    permit(&cache, hot).unwrap().keep(&whole(hot, 1), 100);
    for number in 0..10_000 {
        let name = number.to_string();
        permit(&cache, &name).unwrap().keep(&whole(&name, 1), 100);
        assert_eq!(revision(&cache, hot), Some(1), "after {number}");
    }
    let kept: usize = cache
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
    assert!((160..=320).contains(&kept), "{kept}");
}

#[test]
fn none_keeps_nothing() {
    let cache = TaskCache::new(0);
    assert!(permit(&cache, "t").is_none());
    cache.block(&[id("t")]);
    cache.unblock(&[id("t")]);
}
