//! Keys that are taken once: the first wins, the others are told, and an end is an end.

use crate::engine::Engine;
use crate::make::{at, commit, commit_at, create, event, key, of_task, task, task_id};
use interzone_hub::ports::{Store, StoreError};

contract!(
    are_taken_once,
    may_be_taken_again_when_they_expire,
    are_told_while_they_last,
    are_taken_by_one_of_many,
    do_not_block_each_other_for_ever,
);

#[track_caller]
fn told(result: Result<(), StoreError>, expected: (&str, &str)) {
    match result {
        Err(StoreError::Claimed { key, value }) => assert_eq!((&*key, &*value), expected),
        other => panic!("{other:?}"),
    }
}

async fn take(
    store: &dyn Store,
    name: &str,
    value: &str,
    now: i64,
    until: i64,
) -> Result<(), StoreError> {
    let ops = vec![key(name, value, at(until))];
    store.commit(commit_at(at(now), ops)).await
}

async fn are_taken_once(on: Engine) {
    let store = on.node().await;
    take(&*store, "k", "first", 0, 100).await.unwrap();
    told(take(&*store, "k", "second", 1, 200).await, ("k", "first"));
    told(take(&*store, "k", "first", 1, 200).await, ("k", "first"));
    told(take(&*store, "k", "second", 99, 200).await, ("k", "first"));
    take(&*store, "K", "another", 1, 100).await.unwrap();
    take(&*store, "k ", "another", 1, 100).await.unwrap();
    // The second of two keys is taken: the first is not.
    let ops = vec![key("free", "x", at(100)), key("k", "x", at(100))];
    told(store.commit(commit(ops)).await, ("k", "first"));
    assert_eq!(store.claimed("free", at(0)).await.unwrap(), None);
}

async fn may_be_taken_again_when_they_expire(on: Engine) {
    let store = on.node().await;
    take(&*store, "k", "first", 0, 100).await.unwrap();
    take(&*store, "k", "second", 100, 200).await.unwrap();
    told(take(&*store, "k", "third", 199, 900).await, ("k", "second"));
    take(&*store, "k", "third", 5_000, 9_000).await.unwrap();
    told(take(&*store, "k", "x", 5_001, 9_000).await, ("k", "third"));
    // Taken for no time at all, it is free at once.
    take(&*store, "z", "first", 0, 0).await.unwrap();
    take(&*store, "z", "second", 0, 10).await.unwrap();
}

async fn are_told_while_they_last(on: Engine) {
    let store = on.node().await;
    assert_eq!(store.claimed("k", at(0)).await.unwrap(), None);
    take(&*store, "k", "value", 0, 100).await.unwrap();
    for (now, expected) in [(0, true), (99, true), (100, false), (10_000, false)] {
        let value = store.claimed("k", at(now)).await.unwrap();
        assert_eq!(value.as_deref(), expected.then_some("value"), "{now}");
    }
    take(&*store, "k", "new", 100, 200).await.unwrap();
    let value = store.claimed("k", at(150)).await.unwrap();
    assert_eq!(value.as_deref(), Some("new"));
    assert_eq!(store.claimed("K", at(150)).await.unwrap(), None);
    assert_eq!(store.claimed("", at(150)).await.unwrap(), None);
}

async fn are_taken_by_one_of_many(on: Engine) {
    let nodes = on.two_nodes().await;
    for round in 0..8_i64 {
        // Every second round takes a key whose taking has expired.
        let name = format!("k{}", round / 2);
        let mut racing = tokio::task::JoinSet::new();
        for index in 0..16 {
            let (node, name) = (nodes[index % 2].clone(), name.clone());
            racing.spawn(async move {
                let id = format!("{round}-{index}");
                let until = at(round * 100 + 100);
                let ops = vec![
                    create(&task(&id)),
                    event(of_task(&id), 1),
                    key(&name, &id, until),
                ];
                let result = node.commit(commit_at(at(round * 100), ops)).await;
                (id, result)
            });
        }
        let results = racing.join_all().await;
        let winners: Vec<_> = results.iter().filter(|(_, r)| r.is_ok()).collect();
        assert_eq!(winners.len(), 1, "{results:?}");
        let winner = winners[0].0.clone();
        for (id, result) in results {
            let exists = nodes[0].task(&task_id(&id)).await.unwrap().is_some();
            assert_eq!(exists, result.is_ok(), "{id}");
            if result.is_err() {
                told(result, (&name, &winner));
            }
        }
    }
}

async fn do_not_block_each_other_for_ever(on: Engine) {
    let nodes = on.two_nodes().await;
    let mut racing = tokio::task::JoinSet::new();
    for index in 0..20_usize {
        let node = nodes[index % 2].clone();
        racing.spawn(async move {
            // Two keys in two orders: one of both wins, or both meet somebody else's.
            let pair = index / 2;
            let mut ops = vec![
                key(&format!("a{pair}"), &index.to_string(), at(100)),
                key(&format!("b{pair}"), &index.to_string(), at(100)),
            ];
            if index % 2 == 0 {
                ops.reverse();
            }
            node.commit(commit(ops)).await
        });
    }
    let results = racing.join_all().await;
    assert_eq!(results.iter().filter(|r| r.is_ok()).count(), 10);
    for result in results.into_iter().filter(Result::is_err) {
        assert!(
            matches!(result, Err(StoreError::Claimed { .. })),
            "{result:?}"
        );
    }
}
