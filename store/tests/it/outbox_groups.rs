//! Groups of the outbox: one after another, in their order, whoever carries them.

use crate::engine::Engine;
use crate::make::{at, carry_wish, commit, commit_at, delivery_id, enqueue, entry, web};
use interzone_hub::ports::Store;
use interzone_hub::{OutboxEntry, Settlement};
use std::collections::HashMap;
use std::sync::{Arc, Mutex};

contract!(
    leave_one_after_another,
    wait_for_what_waits,
    pass_the_dead,
    let_a_replayed_entry_go_first,
    stay_in_order_among_many_carriers,
    stay_in_order_while_they_grow,
);

fn of(group: &str, id: &str) -> OutboxEntry {
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
        .claim_outbox(&carry_wish(&web(), at(now), at(now + 10), 99))
        .await;
    let mut ids: Vec<_> = entries.unwrap().iter().map(|e| e.id.to_string()).collect();
    ids.sort();
    ids
}

async fn settle(store: &dyn Store, id: &str, attempt: u32, what: Settlement) {
    assert!(
        store
            .settle_outbox(&delivery_id(id), attempt, &what, at(0))
            .await
            .unwrap(),
        "{id} {attempt}"
    );
}

fn dead() -> Settlement {
    Settlement::Dead {
        error: "no".to_owned(),
    }
}

async fn leave_one_after_another(on: Engine) {
    let store = on.node().await;
    // Added in this order; ids and due times would say otherwise.
    let entries = [
        OutboxEntry {
            due_at: at(-10),
            ..of("g", "z")
        },
        OutboxEntry {
            due_at: at(-90),
            ..of("g", "y")
        },
        of("h", "x"),
        entry("alone"),
    ];
    put(&*store, &entries).await;
    put(
        &*store,
        &[of("g", "w"), of("", "empty 1"), of("", "empty 2")],
    )
    .await;
    assert_eq!(claim(&*store, 0).await, ["alone", "empty 1", "x", "z"]);
    assert!(claim(&*store, 1).await.is_empty(), "the first is held");
    settle(&*store, "z", 1, Settlement::Delivered).await;
    assert_eq!(claim(&*store, 2).await, ["y"]);
    settle(&*store, "y", 1, Settlement::Delivered).await;
    settle(&*store, "empty 1", 1, Settlement::Delivered).await;
    assert_eq!(claim(&*store, 3).await, ["empty 2", "w"]);
}

async fn wait_for_what_waits(on: Engine) {
    let store = on.node().await;
    let later = OutboxEntry {
        due_at: at(100),
        ..of("g", "first")
    };
    put(&*store, &[later, of("g", "second"), of("g", "third")]).await;
    assert!(
        claim(&*store, 50).await.is_empty(),
        "the first is not due yet"
    );
    assert_eq!(claim(&*store, 100).await, ["first"]);
    let retry = Settlement::Retry {
        due_at: at(500),
        error: "no".to_owned(),
    };
    settle(&*store, "first", 1, retry).await;
    assert!(
        claim(&*store, 499).await.is_empty(),
        "it holds up the others"
    );
    assert_eq!(claim(&*store, 500).await, ["first"]);
    // It is not settled: it is due again, and still the only one.
    on.end_leases(&*store, at(600)).await;
    assert_eq!(claim(&*store, 600).await, ["first"]);
    settle(&*store, "first", 3, Settlement::Delivered).await;
    assert_eq!(claim(&*store, 601).await, ["second"]);
}

async fn pass_the_dead(on: Engine) {
    let store = on.node().await;
    put(&*store, &[of("g", "first"), of("g", "second")]).await;
    assert_eq!(claim(&*store, 0).await, ["first"]);
    settle(&*store, "first", 1, dead()).await;
    assert_eq!(claim(&*store, 1).await, ["second"]);
}

async fn let_a_replayed_entry_go_first(on: Engine) {
    let store = on.node().await;
    put(
        &*store,
        &[of("g", "first"), of("g", "second"), of("g", "third")],
    )
    .await;
    claim(&*store, 0).await;
    settle(&*store, "first", 1, dead()).await;
    assert_eq!(claim(&*store, 1).await, ["second"]);
    settle(&*store, "second", 1, Settlement::Delivered).await;
    assert!(
        store
            .replay_outbox(&delivery_id("first"), at(2))
            .await
            .unwrap()
    );
    assert_eq!(
        claim(&*store, 3).await,
        ["first"],
        "the first unsettled one"
    );
    settle(&*store, "first", 1, Settlement::Delivered).await;
    assert_eq!(claim(&*store, 4).await, ["third"]);
}

/// What has left, in order, for each group.
type Left = Arc<Mutex<HashMap<String, Vec<String>>>>;

/// Claims and settles until `total` have left, failing now and then.
async fn carry(store: Arc<dyn Store>, left: Left, limit: usize, total: usize) {
    let now = at(0);
    loop {
        let until = now.after(std::time::Duration::from_secs(60));
        let entries = store
            .claim_outbox(&carry_wish(&web(), now, until, limit))
            .await
            .unwrap();
        if entries.is_empty() {
            if left.lock().unwrap().values().map(Vec::len).sum::<usize>() >= total {
                return;
            }
            tokio::task::yield_now().await;
        }
        for entry in entries {
            let group = entry.group.clone().unwrap();
            let flaky = entry.attempt == 1 && entry.id.as_str().ends_with('3');
            let what = if flaky {
                Settlement::Retry {
                    due_at: now,
                    error: "not yet".to_owned(),
                }
            } else {
                // Noted before it is settled: from then on the next may leave.
                let mut left = left.lock().unwrap();
                left.entry(group).or_default().push(entry.key.clone());
                Settlement::Delivered
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

fn assert_in_order(left: &Left, groups: usize, each: usize) {
    let left = left.lock().unwrap();
    assert_eq!(left.len(), groups);
    for (group, keys) in &*left {
        let expected: Vec<_> = (0..each).map(|n| format!("{group} {n:03}")).collect();
        assert_eq!(*keys, expected, "{group}");
    }
}

fn numbered(group: usize, number: usize) -> OutboxEntry {
    OutboxEntry {
        key: format!("g{group} {number:03}"),
        // The later ones would sort first, by id and by due time.
        due_at: at(-i64::try_from(number).unwrap()),
        ..of(
            &format!("g{group}"),
            &format!("{:03} {group} {number}", 999 - number),
        )
    }
}

async fn stay_in_order_among_many_carriers(on: Engine) {
    let nodes = on.two_nodes().await;
    let entries: Vec<_> = (0..15)
        .flat_map(|number| (0..6).map(move |group| numbered(group, number)))
        .collect();
    put(&*nodes[0], &entries).await;
    let left = Left::default();
    let mut carriers = tokio::task::JoinSet::new();
    for index in 0..6 {
        let node = nodes[index % 2].clone();
        carriers.spawn(carry(node, left.clone(), 1 + index, 90));
    }
    carriers.join_all().await;
    assert_in_order(&left, 6, 15);
}

async fn stay_in_order_while_they_grow(on: Engine) {
    let nodes = on.two_nodes().await;
    let left = Left::default();
    let mut carriers = tokio::task::JoinSet::new();
    for index in 0..4 {
        let node = nodes[index % 2].clone();
        carriers.spawn(carry(node, left.clone(), 3, 80));
    }
    for group in 0..4 {
        let node = nodes[group % 2].clone();
        carriers.spawn(async move {
            for number in 0..20 {
                let ops = vec![enqueue(&numbered(group, number))];
                node.commit(commit_at(at(0), ops)).await.unwrap();
            }
        });
    }
    carriers.join_all().await;
    assert_in_order(&left, 4, 20);
}
