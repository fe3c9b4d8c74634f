//! Outbox groups: one entry after another, in order, with any number of deliverers.

use crate::builders::{
    commit, commit_at, delivery_id, enqueue, entry, outbox_claim, time_at, web_channel,
};
use crate::engine::Engine;
use interzone_hub::ports::Store;
use interzone_hub::{DeliveryResult, OutboxEntry};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

contract_tests!(
    group_entries_are_claimed_one_at_a_time,
    group_waits_for_its_first_entry,
    dead_entry_does_not_block_group,
    replayed_entry_goes_first_in_group,
    groups_stay_in_order_with_many_deliverers,
    groups_stay_in_order_while_growing,
);

fn grouped(group: &str, id: &str) -> OutboxEntry {
    OutboxEntry {
        group: Some(group.to_owned()),
        ..entry(id)
    }
}

async fn put(store: &dyn Store, entries: &[OutboxEntry]) {
    let ops = entries.iter().map(enqueue).collect();
    store.commit(commit(ops)).await.unwrap();
}

async fn claim(store: &dyn Store, now: i64) -> Vec<String> {
    let entries = store
        .claim_outbox(&outbox_claim(
            &web_channel(),
            time_at(now),
            time_at(now + 10),
            99,
        ))
        .await;
    let mut ids: Vec<_> = entries.unwrap().iter().map(|e| e.id.to_string()).collect();
    ids.sort();
    ids
}

async fn settle(store: &dyn Store, id: &str, attempt: u32, what: DeliveryResult) {
    assert!(
        store
            .settle_outbox(&delivery_id(id), attempt, &what, time_at(0))
            .await
            .unwrap(),
        "{id} {attempt}"
    );
}

fn dead() -> DeliveryResult {
    DeliveryResult::Dead {
        error: "no".to_owned(),
    }
}

async fn group_entries_are_claimed_one_at_a_time(on: Engine) {
    let store = on.node().await;
    // Enqueued in this order; ids and due times would sort otherwise.
    let entries = [
        OutboxEntry {
            due_at: time_at(-10),
            ..grouped("g", "z")
        },
        OutboxEntry {
            due_at: time_at(-90),
            ..grouped("g", "y")
        },
        grouped("h", "x"),
        entry("alone"),
    ];
    put(&*store, &entries).await;
    put(
        &*store,
        &[
            grouped("g", "w"),
            grouped("", "empty 1"),
            grouped("", "empty 2"),
        ],
    )
    .await;
    assert_eq!(claim(&*store, 0).await, ["alone", "empty 1", "x", "z"]);
    assert!(claim(&*store, 1).await.is_empty(), "the first is leased");
    settle(&*store, "z", 1, DeliveryResult::Delivered).await;
    assert_eq!(claim(&*store, 2).await, ["y"]);
    settle(&*store, "y", 1, DeliveryResult::Delivered).await;
    settle(&*store, "empty 1", 1, DeliveryResult::Delivered).await;
    assert_eq!(claim(&*store, 3).await, ["empty 2", "w"]);
}

async fn group_waits_for_its_first_entry(on: Engine) {
    let store = on.node().await;
    let later = OutboxEntry {
        due_at: time_at(100),
        ..grouped("g", "first")
    };
    put(
        &*store,
        &[later, grouped("g", "second"), grouped("g", "third")],
    )
    .await;
    assert!(
        claim(&*store, 50).await.is_empty(),
        "the first is not due yet"
    );
    assert_eq!(claim(&*store, 100).await, ["first"]);
    let retry = DeliveryResult::Retry {
        due_at: time_at(500),
        error: "no".to_owned(),
    };
    settle(&*store, "first", 1, retry).await;
    assert!(claim(&*store, 499).await.is_empty(), "it blocks the others");
    assert_eq!(claim(&*store, 500).await, ["first"]);
    // It is not settled: it is due again, and still the only one.
    on.expire_leases(&*store, time_at(600)).await;
    assert_eq!(claim(&*store, 600).await, ["first"]);
    settle(&*store, "first", 3, DeliveryResult::Delivered).await;
    assert_eq!(claim(&*store, 601).await, ["second"]);
}

async fn dead_entry_does_not_block_group(on: Engine) {
    let store = on.node().await;
    put(&*store, &[grouped("g", "first"), grouped("g", "second")]).await;
    assert_eq!(claim(&*store, 0).await, ["first"]);
    settle(&*store, "first", 1, dead()).await;
    assert_eq!(claim(&*store, 1).await, ["second"]);
}

async fn replayed_entry_goes_first_in_group(on: Engine) {
    let store = on.node().await;
    put(
        &*store,
        &[
            grouped("g", "first"),
            grouped("g", "second"),
            grouped("g", "third"),
        ],
    )
    .await;
    claim(&*store, 0).await;
    settle(&*store, "first", 1, dead()).await;
    assert_eq!(claim(&*store, 1).await, ["second"]);
    settle(&*store, "second", 1, DeliveryResult::Delivered).await;
    assert!(
        store
            .replay_outbox(&delivery_id("first"), time_at(2))
            .await
            .unwrap()
    );
    assert_eq!(
        claim(&*store, 3).await,
        ["first"],
        "the first unsettled one"
    );
    settle(&*store, "first", 1, DeliveryResult::Delivered).await;
    assert_eq!(claim(&*store, 4).await, ["third"]);
}

/// Delivered entry ids, in order, for each group.
type DeliveredByGroup = Arc<Mutex<HashMap<String, Vec<String>>>>;

/// Claims and settles until `total` entries are delivered, failing some first attempts.
async fn deliver(store: Arc<dyn Store>, delivered: DeliveredByGroup, limit: usize, total: usize) {
    let now = time_at(0);
    loop {
        let until = now.plus(std::time::Duration::from_secs(60));
        let entries = store
            .claim_outbox(&outbox_claim(&web_channel(), now, until, limit))
            .await
            .unwrap();
        if entries.is_empty() {
            if delivered
                .lock()
                .unwrap()
                .values()
                .map(Vec::len)
                .sum::<usize>()
                >= total
            {
                return;
            }
            tokio::task::yield_now().await;
        }
        for entry in entries {
            let group = entry.group.clone().unwrap();
            let flaky = entry.attempt == 1 && entry.id.as_str().ends_with('3');
            let what = if flaky {
                DeliveryResult::Retry {
                    due_at: now,
                    error: "not yet".to_owned(),
                }
            } else {
                // Recorded before it is settled: from then on the next may be claimed.
                let mut left = delivered.lock().unwrap();
                left.entry(group).or_default().push(entry.key.clone());
                DeliveryResult::Delivered
            };
            assert!(
                store
                    .settle_outbox(&entry.id, entry.attempt, &what, now)
                    .await
                    .unwrap()
            );
        }
    }
}

fn assert_in_order(delivered: &DeliveredByGroup, groups: usize, each: usize) {
    let left = delivered.lock().unwrap();
    assert_eq!(left.len(), groups);
    for (group, keys) in &*left {
        let expected: Vec<_> = (0..each).map(|n| format!("{group} {n:03}")).collect();
        assert_eq!(*keys, expected, "{group}");
    }
}

fn numbered(group: usize, number: usize) -> OutboxEntry {
    OutboxEntry {
        key: format!("g{group} {number:03}"),
        // Later entries would sort first, by id and by due time.
        due_at: time_at(-i64::try_from(number).unwrap()),
        ..grouped(
            &format!("g{group}"),
            &format!("{:03} {group} {number}", 999 - number),
        )
    }
}

async fn groups_stay_in_order_with_many_deliverers(on: Engine) {
    let nodes = on.two_nodes().await;
    let entries: Vec<_> = (0..15)
        .flat_map(|number| (0..6).map(move |group| numbered(group, number)))
        .collect();
    put(&*nodes[0], &entries).await;
    let left = DeliveredByGroup::default();
    let mut deliverers = tokio::task::JoinSet::new();
    for index in 0..6 {
        let node = nodes[index % 2].clone();
        deliverers.spawn(deliver(node, left.clone(), 1 + index, 90));
    }
    deliverers.join_all().await;
    assert_in_order(&left, 6, 15);
}

async fn groups_stay_in_order_while_growing(on: Engine) {
    let nodes = on.two_nodes().await;
    let left = DeliveredByGroup::default();
    let mut deliverers = tokio::task::JoinSet::new();
    for index in 0..4 {
        let node = nodes[index % 2].clone();
        deliverers.spawn(deliver(node, left.clone(), 3, 80));
    }
    for group in 0..4 {
        let node = nodes[group % 2].clone();
        deliverers.spawn(async move {
            for number in 0..20 {
                let ops = vec![enqueue(&numbered(group, number))];
                node.commit(commit_at(time_at(0), ops)).await.unwrap();
            }
        });
    }
    deliverers.join_all().await;
    assert_in_order(&left, 4, 20);
}
