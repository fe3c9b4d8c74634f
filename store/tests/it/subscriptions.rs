//! Subscriptions: states, lists, and the epoch that counts every change.

use crate::builders::{
    commit, commit_at, json, owner, publish, sub_id, subscribe, subscription, time_at,
    update_subscription, with_state,
};
use crate::engine::Engine;
use interzone_hub::ports::{Commit, Op, Store, StoreError, SubscriptionQuery};
use interzone_hub::{Subscription, SubscriptionState};
use interzone_protocol::vocab::TopicPattern;
use std::sync::Arc;

contract_tests!(
    subscriptions_are_read_back_unchanged,
    subscription_is_updated_at_expected_revision,
    subscriptions_are_listed_oldest_first,
    every_subscription_change_raises_epoch,
    active_subscriptions_are_returned_with_epoch,
    commit_at_old_epoch_is_stale,
    new_subscription_misses_no_later_signal,
);

fn patterns(texts: &[&str]) -> Vec<TopicPattern> {
    texts
        .iter()
        .map(|t| TopicPattern::new(t).unwrap())
        .collect()
}

fn full(id: &str, state: SubscriptionState) -> Subscription {
    Subscription {
        owner: owner("other-owner"),
        patterns: patterns(&["a.**", "*.b", "c"]),
        allowed_patterns: Some(patterns(&["a.b"])),
        state,
        dialect_data: Some(json("{ \"how\" : null }")),
        expires_at: Some(time_at(77)),
        revision: 5,
        ..subscription(id)
    }
}

async fn subscriptions_are_read_back_unchanged(on: Engine) {
    let store = on.node().await;
    assert_eq!(store.subscription(&sub_id("none")).await.unwrap(), None);
    let mut all = vec![
        subscription("plain"),
        Subscription {
            allowed_patterns: Some(Vec::new()),
            dialect_data: Some(json("null")),
            ..subscription("nothing allowed")
        },
    ];
    all.extend(SubscriptionState::ALL.map(|state| full(state.name(), state)));
    let ops = all.iter().map(subscribe).collect();
    store.commit(commit(ops)).await.unwrap();
    for one in all {
        assert_eq!(store.subscription(&one.id).await.unwrap(), Some(one));
    }
}

async fn subscription_is_updated_at_expected_revision(on: Engine) {
    let store = on.node().await;
    let first = subscription("s");
    store.commit(commit(vec![subscribe(&first)])).await.unwrap();
    let second = Subscription {
        revision: 2,
        ..full("s", SubscriptionState::Pending)
    };
    let ops = vec![update_subscription(&second)];
    store.commit(commit(ops.clone())).await.unwrap();
    let again = store.commit(commit(ops)).await;
    assert!(matches!(again, Err(StoreError::Conflict)), "{again:?}");
    let again = store.commit(commit(vec![subscribe(&first)])).await;
    assert!(matches!(again, Err(StoreError::Conflict)), "{again:?}");
    assert_eq!(store.subscription(&first.id).await.unwrap(), Some(second));
    let third = Subscription {
        revision: 3,
        ..first.clone()
    };
    store
        .commit(commit(vec![update_subscription(&third)]))
        .await
        .unwrap();
    assert_eq!(store.subscription(&first.id).await.unwrap(), Some(third));
    let gone = vec![Op::RemoveSubscription(first.id.clone())];
    store.commit(commit(gone.clone())).await.unwrap();
    assert_eq!(store.subscription(&first.id).await.unwrap(), None);
    store.commit(commit(gone)).await.unwrap();
    // Its id can be used again, and nothing of the old one returns.
    let ops = vec![subscribe(&first), publish("x", &["s"])];
    store.commit(commit(ops)).await.unwrap();
    let signals = store.unacked_signals(&first.id, 0, 9).await.unwrap();
    assert_eq!(signals.len(), 1);
}

async fn subscriptions_are_listed_oldest_first(on: Engine) {
    let store = on.node().await;
    let mut all = Vec::new();
    for number in 0..20_i64 {
        let state = SubscriptionState::ALL[usize::try_from(number).unwrap() % 5];
        all.push(Subscription {
            owner: owner(if number % 2 == 0 { "even" } else { "odd" }),
            state,
            // Created in this order, while their ids would sort otherwise.
            created_at: time_at(number),
            ..subscription(&format!("s{:02}", 50 - number))
        });
    }
    for one in &all {
        let ops = vec![subscribe(one)];
        store.commit(commit_at(one.created_at, ops)).await.unwrap();
    }
    for owner_id in [None, Some("even"), Some("odd"), Some("unknown")] {
        for state in [None].into_iter().chain(SubscriptionState::ALL.map(Some)) {
            let selected: Vec<_> = all
                .iter()
                .filter(|one| owner_id.is_none_or(|owner_id| one.owner == owner(owner_id)))
                .filter(|one| state.is_none_or(|state| one.state == state))
                .cloned()
                .collect();
            for (offset, limit) in [(0, 100), (0, 0), (0, 1), (1, 2), (3, 100), (50, 5)] {
                let query = SubscriptionQuery {
                    owner: owner_id.map(owner),
                    state,
                    offset,
                    limit,
                };
                let (page, total) = store.subscriptions(&query).await.unwrap();
                let expected: Vec<_> = selected.iter().skip(offset).take(limit).cloned().collect();
                assert_eq!(page, expected, "{query:?}");
                assert_eq!(total, selected.len() as u64, "{query:?}");
            }
        }
    }
}

async fn epoch(store: &dyn Store) -> u64 {
    store.active_subscriptions(None).await.unwrap().unwrap().0
}

async fn every_subscription_change_raises_epoch(on: Engine) {
    let [store, other] = on.two_nodes().await;
    let mut last = epoch(&*store).await;
    let first = subscription("s");
    let second = with_state(&first, SubscriptionState::Revoked);
    for op in [
        subscribe(&first),
        subscribe(&Subscription {
            state: SubscriptionState::Pending,
            ..subscription("pending")
        }),
        update_subscription(&second),
        Op::RemoveSubscription(first.id.clone()),
    ] {
        store.commit(commit(vec![op])).await.unwrap();
        let now = epoch(&*other).await;
        assert!(now > last, "{now} after {last}");
        last = now;
    }
    // Other commits, and failing ones, do not raise it.
    let ops = vec![publish("x", &["pending"])];
    store.commit(commit(ops)).await.unwrap();
    let failing = vec![subscribe(&first), subscribe(&first)];
    store.commit(commit(failing)).await.unwrap_err();
    let id = sub_id("pending");
    let signals = [crate::builders::signal_id("x")];
    store.ack_signals(&id, &signals, time_at(0)).await.unwrap();
    assert_eq!(epoch(&*store).await, last);
}

async fn active_subscriptions_are_returned_with_epoch(on: Engine) {
    let store = on.node().await;
    let all = SubscriptionState::ALL.map(|state| full(state.name(), state));
    let ops = all.iter().map(subscribe).collect();
    store.commit(commit(ops)).await.unwrap();
    let (first, active) = store.active_subscriptions(None).await.unwrap().unwrap();
    let expected = full("active", SubscriptionState::Active);
    assert_eq!(active, std::slice::from_ref(&expected));
    assert_eq!(store.active_subscriptions(Some(first)).await.unwrap(), None);

    let revoked = with_state(&expected, SubscriptionState::Revoked);
    store
        .commit(commit(vec![update_subscription(&revoked)]))
        .await
        .unwrap();
    let (second, active) = store
        .active_subscriptions(Some(first))
        .await
        .unwrap()
        .unwrap();
    assert!(second > first);
    assert_eq!(active, []);
    let pending = with_state(&all[0], SubscriptionState::Active);
    assert_eq!(all[0].state, SubscriptionState::Pending);
    store
        .commit(commit(vec![update_subscription(&pending)]))
        .await
        .unwrap();
    let (third, active) = store
        .active_subscriptions(Some(second))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(active, [pending]);
    assert_eq!(store.active_subscriptions(Some(third)).await.unwrap(), None);
    // An outdated epoch is the same as none.
    let again = store.active_subscriptions(Some(first)).await.unwrap();
    assert_eq!(again.unwrap().0, third);
}

fn commit_at_epoch(epoch: u64, ops: Vec<Op>) -> Commit {
    Commit {
        epoch: Some(epoch),
        ..commit(ops)
    }
}

async fn commit_at_old_epoch_is_stale(on: Engine) {
    let [store, other] = on.two_nodes().await;
    let first = epoch(&*store).await;
    // It may change them itself: it was matched against the latest epoch.
    let ops = vec![subscribe(&subscription("s")), publish("x", &["s"])];
    store.commit(commit_at_epoch(first, ops)).await.unwrap();
    let stale = other
        .commit(commit_at_epoch(first, vec![publish("y", &["s"])]))
        .await;
    assert!(
        matches!(stale, Err(StoreError::StaleSubscriptions)),
        "{stale:?}"
    );
    let second = epoch(&*other).await;
    let ops = vec![publish("y", &["s"])];
    other
        .commit(commit_at_epoch(second, ops.clone()))
        .await
        .unwrap();
    other.commit(commit_at_epoch(second, ops)).await.unwrap();
    let unacked = store.unacked_signals(&sub_id("s"), 0, 9).await.unwrap();
    assert_eq!(unacked.len(), 3);
}

/// Publishes to all active subscriptions, as the hub does: by the epoch.
async fn publish_to_all(store: Arc<dyn Store>, name: usize, count: usize) {
    for number in 0..count {
        loop {
            let (epoch, active) = store.active_subscriptions(None).await.unwrap().unwrap();
            let to: Vec<_> = active.iter().map(|one| one.id.as_str()).collect();
            let ops = vec![publish(&format!("{name}-{number}"), &to)];
            match store.commit(commit_at_epoch(epoch, ops)).await {
                Ok(()) => break,
                Err(StoreError::StaleSubscriptions) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
    }
}

async fn new_subscription_misses_no_later_signal(on: Engine) {
    let nodes = on.two_nodes().await;
    let mut publishers = tokio::task::JoinSet::new();
    for name in 0..4 {
        publishers.spawn(publish_to_all(nodes[name % 2].clone(), name, 25));
    }
    // A subscription made between two signals gets all that are published afterwards.
    let subscriber = nodes[1].clone();
    let subscribing = tokio::spawn(async move {
        for number in 0..8 {
            let ops = vec![subscribe(&subscription(&format!("s{number}")))];
            subscriber.commit(commit(ops)).await.unwrap();
            tokio::task::yield_now().await;
        }
    });
    publishers.join_all().await;
    subscribing.await.unwrap();
    // All get the same from their start on: an earlier subscription has everything a later one has.
    let mut earlier: Option<Vec<String>> = None;
    for number in 0..8 {
        let id = sub_id(&format!("s{number}"));
        let signals = nodes[0].unacked_signals(&id, 0, 1_000).await.unwrap();
        let numbers: Vec<u64> = signals.iter().map(|delivery| delivery.seq).collect();
        let all = (1..=signals.len() as u64).collect::<Vec<_>>();
        assert_eq!(numbers, all, "{id}");
        let mine: Vec<_> = signals.iter().map(|d| d.signal.id.to_string()).collect();
        if let Some(earlier) = &earlier {
            let extra: Vec<_> = mine.iter().filter(|id| !earlier.contains(id)).collect();
            assert!(extra.is_empty(), "s{number} alone got {extra:?}");
        }
        earlier = Some(mine);
    }
}
