//! Records: by kind and key, with compare-and-set revisions, taken once, and with expiry.

use crate::builders::time_at;
use crate::engine::Engine;
use interzone_hub::Retention;
use interzone_hub::ports::{Store, StoreError, StoredRecord};
use tokio::task::JoinSet;

contract_tests!(
    records_are_stored_by_kind_and_key,
    record_is_replaced_only_at_expected_revision,
    record_revisions_are_never_reused,
    record_expires_at_its_end,
    records_are_listed_by_key,
    concurrent_record_writes_have_one_winner,
    concurrent_record_takes_have_one_winner,
    record_sizes_are_limited,
    expired_records_are_purged,
    records_survive_reopen,
);

async fn put(store: &dyn Store, key: &str, value: &str, expected: Option<u64>) -> bool {
    let put = store.put_record("kind", key, value, expected, None, time_at(0));
    put.await.unwrap()
}

async fn get(store: &dyn Store, key: &str) -> Option<StoredRecord> {
    store.record("kind", key, time_at(0)).await.unwrap()
}

async fn value(store: &dyn Store, key: &str) -> Option<String> {
    get(store, key).await.map(|record| record.value.to_string())
}

async fn records_are_stored_by_kind_and_key(on: Engine) {
    let [one, two] = on.two_nodes().await;
    let odd = "a\0\u{1}\"'\u{10ffff}";
    for (kind, key) in [("a", "b"), ("a", "B"), ("b", "a"), ("", ""), (odd, odd)] {
        assert_eq!(one.record(kind, key, time_at(0)).await.unwrap(), None);
        let value = format!("{kind}/{key}");
        let put = one
            .put_record(kind, key, &value, None, None, time_at(0))
            .await;
        assert!(put.unwrap());
        let found = two.record(kind, key, time_at(0)).await.unwrap().unwrap();
        assert_eq!((&*found.value, found.expires_at), (&*value, None));
        assert!(found.revision > 0);
    }
    let taken = two
        .take_record(odd, odd, time_at(0))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(&*taken.value, format!("{odd}/{odd}"));
    assert_eq!(one.record(odd, odd, time_at(0)).await.unwrap(), None);
    assert_eq!(one.take_record(odd, odd, time_at(0)).await.unwrap(), None);
    assert!(one.record("a", "b", time_at(0)).await.unwrap().is_some());
}

async fn record_is_replaced_only_at_expected_revision(on: Engine) {
    let store = &*on.node().await;
    assert!(!put(store, "k", "x", Some(1)).await, "nothing is there");
    assert!(put(store, "k", "first", Some(0)).await);
    assert!(!put(store, "k", "x", Some(0)).await, "something is there");
    let first = get(store, "k").await.unwrap().revision;
    assert!(!put(store, "k", "x", Some(first + 1)).await);
    assert_eq!(value(store, "k").await.as_deref(), Some("first"));
    assert!(put(store, "k", "second", Some(first)).await);
    assert!(!put(store, "k", "x", Some(first)).await, "it has changed");
    assert!(put(store, "k", "third", None).await);
    assert_eq!(value(store, "k").await.as_deref(), Some("third"));
}

async fn record_revisions_are_never_reused(on: Engine) {
    let store = &*on.node().await;
    let mut revisions = Vec::new();
    for round in 0..5 {
        assert!(put(store, "k", "x", Some(0)).await, "{round}");
        let made = get(store, "k").await.unwrap().revision;
        assert!(put(store, "k", "y", Some(made)).await, "{round}");
        revisions.push(made);
        revisions.push(get(store, "k").await.unwrap().revision);
        store.take_record("kind", "k", time_at(0)).await.unwrap();
        assert!(!put(store, "k", "z", Some(made)).await, "{round}");
    }
    assert!(revisions.is_sorted_by(|a, b| a < b), "{revisions:?}");
}

async fn record_expires_at_its_end(on: Engine) {
    let store = &*on.node().await;
    let until = async |key: &str, end: i64, now: i64, expected: Option<u64>| {
        let put = store.put_record("kind", key, "x", expected, Some(time_at(end)), time_at(now));
        put.await.unwrap()
    };
    let is_present = async |key: &str, now: i64| {
        let listed = store.records("kind", time_at(now)).await.unwrap();
        let listed = listed.iter().any(|(name, _)| name == key);
        let found = store.record("kind", key, time_at(now)).await.unwrap();
        assert_eq!(found.is_some(), listed);
        found.map(|record| record.expires_at)
    };
    assert!(until("k", 100, 0, Some(0)).await);
    assert_eq!(is_present("k", 99).await, Some(Some(time_at(100))));
    assert_eq!(is_present("k", 100).await, None);
    let first = get(store, "k").await.unwrap().revision;
    assert!(!until("k", 300, 99, Some(0)).await);
    assert!(!until("k", 300, 100, Some(first)).await, "it has expired");
    assert!(until("k", 300, 100, Some(0)).await);
    assert_eq!(is_present("k", 299).await, Some(Some(time_at(300))));
    let late = store.take_record("kind", "k", time_at(300)).await.unwrap();
    assert_eq!(late, None);
    let early = store.take_record("kind", "k", time_at(299)).await.unwrap();
    assert!(early.is_some());
    // A record written without an expiry has none, even if it had one before.
    assert!(until("k", 100, 0, None).await);
    assert!(put(store, "k", "x", None).await);
    assert_eq!(is_present("k", 1_000_000).await, Some(None));
}

async fn records_are_listed_by_key(on: Engine) {
    let store = &*on.node().await;
    let mut keys = ["b", "a", "B", "ä", "a b", "ab", "", "\0", "\u{1}", "日本"];
    for key in keys {
        assert!(put(store, key, key, None).await);
    }
    let other = store
        .put_record("other", "c", "c", None, None, time_at(0))
        .await;
    assert!(other.unwrap());
    let listed = store.records("kind", time_at(0)).await.unwrap();
    keys.sort_unstable();
    let found: Vec<&str> = listed.iter().map(|(key, _)| &**key).collect();
    assert_eq!(found, keys);
    assert!(listed.iter().all(|(key, record)| **key == *record.value));
    assert_eq!(store.records("none", time_at(0)).await.unwrap(), []);
}

async fn concurrent_record_writes_have_one_winner(on: Engine) {
    let nodes = on.two_nodes().await;
    for round in 0..10 {
        let expected = get(&*nodes[0], "k").await.map_or(0, |found| found.revision);
        let mut writers = JoinSet::new();
        for writer in 0..12 {
            let node = nodes[writer % 2].clone();
            let value = format!("{round}/{writer}");
            writers.spawn(async move {
                let put = node.put_record("kind", "k", &value, Some(expected), None, time_at(0));
                put.await.unwrap().then_some(value)
            });
        }
        let written: Vec<_> = writers.join_all().await.into_iter().flatten().collect();
        assert_eq!(written.len(), 1);
        assert_eq!(value(&*nodes[0], "k").await.as_ref(), written.first());
    }
}

async fn concurrent_record_takes_have_one_winner(on: Engine) {
    let nodes = on.two_nodes().await;
    for _ in 0..10 {
        assert!(put(&*nodes[0], "k", "x", Some(0)).await);
        let mut takers = JoinSet::new();
        for taker in 0..12 {
            let node = nodes[taker % 2].clone();
            takers.spawn(async move { node.take_record("kind", "k", time_at(0)).await.unwrap() });
        }
        let taken = takers.join_all().await.into_iter().flatten().count();
        assert_eq!(taken, 1);
    }
}

async fn record_sizes_are_limited(on: Engine) {
    let store = &*on.node().await;
    let value = "x".repeat(StoredRecord::MAX_VALUE_BYTES);
    let name = "\0".repeat(StoredRecord::MAX_NAME_BYTES);
    let put = store.put_record(&name, &name, &value, None, None, time_at(0));
    assert!(put.await.unwrap());
    let found = store
        .record(&name, &name, time_at(0))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(*found.value, *value);
    let longer = |text: &str| format!("{text}x");
    for (kind, key, value) in [
        (longer(&name), String::new(), String::new()),
        (String::new(), longer(&name), String::new()),
        (String::new(), String::new(), longer(&value)),
    ] {
        let put = store.put_record(&kind, &key, &value, None, None, time_at(0));
        let refused = put.await;
        assert!(matches!(refused, Err(StoreError::TooLarge { .. })));
        assert_eq!(store.record(&kind, &key, time_at(0)).await.unwrap(), None);
    }
}

async fn expired_records_are_purged(on: Engine) {
    let store = &*on.node().await;
    for number in 0..5 {
        let key = format!("{number}");
        let end = Some(time_at(number * 10));
        let put = store.put_record("kind", &key, "x", None, end, time_at(-1));
        assert!(put.await.unwrap());
    }
    assert!(put(store, "for ever", "x", None).await);
    let retention = Retention::default();
    let purge = async |now: i64, limit: usize| {
        let purged = store.purge(&retention, time_at(now), limit).await.unwrap();
        purged.expired
    };
    assert_eq!(purge(20, 2).await, 2);
    assert_eq!(purge(20, 2).await, 1);
    assert_eq!(purge(20, 2).await, 0);
    // Purged records are gone for nodes whose clock is behind, too.
    let left = store.records("kind", time_at(-1)).await.unwrap();
    let left: Vec<&str> = left.iter().map(|(key, _)| &**key).collect();
    assert_eq!(left, ["3", "4", "for ever"]);
}

async fn records_survive_reopen(on: Engine) {
    let store = on.node().await;
    assert!(put(&*store, "k", "x", None).await);
    let before = get(&*store, "k").await.unwrap();
    let store = on.reopen(store).await;
    assert_eq!(get(&*store, "k").await, Some(before.clone()));
    assert!(put(&*store, "k", "y", Some(before.revision)).await);
}
