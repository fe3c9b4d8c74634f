//! Idempotency keys: the first claim wins, later ones get its value, and it expires.

use crate::builders::{
    claim_key, commit, commit_at, create, event, task, task_id, task_subject, time_at,
};
use crate::engine::Engine;
use interzone_hub::ports::{Store, StoreError};

contract_tests!(
    key_is_claimed_once,
    expired_key_can_be_claimed_again,
    claimed_value_is_returned_until_expiry,
    concurrent_claims_have_one_winner,
    claims_in_opposite_order_do_not_deadlock,
);

#[track_caller]
fn assert_taken(result: Result<(), StoreError>, expected: (&str, &str)) {
    match result {
        Err(StoreError::KeyTaken { key, value }) => assert_eq!((&*key, &*value), expected),
        other => panic!("{other:?}"),
    }
}

async fn claim(
    store: &dyn Store,
    name: &str,
    value: &str,
    now: i64,
    until: i64,
) -> Result<(), StoreError> {
    let ops = vec![claim_key(name, value, time_at(until))];
    store.commit(commit_at(time_at(now), ops)).await
}

async fn key_is_claimed_once(on: Engine) {
    let store = on.node().await;
    claim(&*store, "k", "first", 0, 100).await.unwrap();
    assert_taken(claim(&*store, "k", "second", 1, 200).await, ("k", "first"));
    assert_taken(claim(&*store, "k", "first", 1, 200).await, ("k", "first"));
    assert_taken(claim(&*store, "k", "second", 99, 200).await, ("k", "first"));
    claim(&*store, "K", "another", 1, 100).await.unwrap();
    claim(&*store, "k ", "another", 1, 100).await.unwrap();
    // The second of two keys is taken: the first is not claimed either.
    let ops = vec![
        claim_key("free", "x", time_at(100)),
        claim_key("k", "x", time_at(100)),
    ];
    assert_taken(store.commit(commit(ops)).await, ("k", "first"));
    assert_eq!(store.claimed_value("free", time_at(0)).await.unwrap(), None);
}

async fn expired_key_can_be_claimed_again(on: Engine) {
    let store = on.node().await;
    claim(&*store, "k", "first", 0, 100).await.unwrap();
    claim(&*store, "k", "second", 100, 200).await.unwrap();
    assert_taken(
        claim(&*store, "k", "third", 199, 900).await,
        ("k", "second"),
    );
    claim(&*store, "k", "third", 5_000, 9_000).await.unwrap();
    assert_taken(claim(&*store, "k", "x", 5_001, 9_000).await, ("k", "third"));
    // With no retention it is free at once.
    claim(&*store, "z", "first", 0, 0).await.unwrap();
    claim(&*store, "z", "second", 0, 10).await.unwrap();
}

async fn claimed_value_is_returned_until_expiry(on: Engine) {
    let store = on.node().await;
    assert_eq!(store.claimed_value("k", time_at(0)).await.unwrap(), None);
    claim(&*store, "k", "value", 0, 100).await.unwrap();
    for (now, expected) in [(0, true), (99, true), (100, false), (10_000, false)] {
        let value = store.claimed_value("k", time_at(now)).await.unwrap();
        assert_eq!(value.as_deref(), expected.then_some("value"), "{now}");
    }
    claim(&*store, "k", "new", 100, 200).await.unwrap();
    let value = store.claimed_value("k", time_at(150)).await.unwrap();
    assert_eq!(value.as_deref(), Some("new"));
    assert_eq!(store.claimed_value("K", time_at(150)).await.unwrap(), None);
    assert_eq!(store.claimed_value("", time_at(150)).await.unwrap(), None);
}

async fn concurrent_claims_have_one_winner(on: Engine) {
    let nodes = on.two_nodes().await;
    for round in 0..8_i64 {
        // Every second round claims a key that has expired.
        let name = format!("k{}", round / 2);
        let mut racing = tokio::task::JoinSet::new();
        for index in 0..16 {
            let (node, name) = (nodes[index % 2].clone(), name.clone());
            racing.spawn(async move {
                let id = format!("{round}-{index}");
                let until = time_at(round * 100 + 100);
                let ops = vec![
                    create(&task(&id)),
                    event(task_subject(&id), 1),
                    claim_key(&name, &id, until),
                ];
                let result = node.commit(commit_at(time_at(round * 100), ops)).await;
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
                assert_taken(result, (&name, &winner));
            }
        }
    }
}

async fn claims_in_opposite_order_do_not_deadlock(on: Engine) {
    let nodes = on.two_nodes().await;
    let mut racing = tokio::task::JoinSet::new();
    for index in 0..20_usize {
        let node = nodes[index % 2].clone();
        racing.spawn(async move {
            // Two keys in two orders: one of both wins, or both find a taken key.
            let pair = index / 2;
            let mut ops = vec![
                claim_key(&format!("a{pair}"), &index.to_string(), time_at(100)),
                claim_key(&format!("b{pair}"), &index.to_string(), time_at(100)),
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
            matches!(result, Err(StoreError::KeyTaken { .. })),
            "{result:?}"
        );
    }
}
