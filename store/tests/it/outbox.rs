//! Outbox: each entry once, leased during delivery, due again when the lease ends.

use crate::builders::{
    commit, commit_at, delivery_id, enqueue, entry, json, long_after, outbox_claim, owner,
    since_start, stream_subject, time_at, web_channel,
};
use crate::engine::Engine;
use crate::snapshot::{claim_if_due, drain_outbox};
use interzone_hub::ports::{DeadLetterQuery, Store};
use interzone_hub::{DeliveryResult, DeliveryState, OutboxEntry};
use interzone_protocol::vocab::Timestamp;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

contract_tests!(
    entry_is_read_back_unchanged,
    duplicate_entry_key_is_ignored,
    entries_are_claimed_oldest_due_first,
    claimed_entry_is_leased,
    renewed_entry_lease_lasts_longer,
    settled_or_foreign_entry_cannot_be_renewed,
    only_latest_attempt_can_be_settled,
    retried_entry_is_due_at_given_time,
    dead_letters_are_listed_by_channel_and_owner,
    dead_entry_can_be_replayed,
    next_outbox_due_is_reported,
    concurrent_claims_of_entries_do_not_overlap,
    delivery_statuses_are_reported,
);

async fn claim(store: &dyn Store, now: i64, until: i64, limit: usize) -> Vec<OutboxEntry> {
    store
        .claim_outbox(&outbox_claim(
            &web_channel(),
            time_at(now),
            time_at(until),
            limit,
        ))
        .await
        .unwrap()
}

async fn settle(
    store: &dyn Store,
    id: &str,
    attempt: u32,
    what: &DeliveryResult,
    now: i64,
) -> bool {
    store
        .settle_outbox(&delivery_id(id), attempt, what, time_at(now))
        .await
        .unwrap()
}

fn ids(entries: &[OutboxEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.id.as_str()).collect()
}

fn retry(due_at: i64, error: &str) -> DeliveryResult {
    DeliveryResult::Retry {
        due_at: time_at(due_at),
        error: error.to_owned(),
    }
}

fn dead(error: &str) -> DeliveryResult {
    DeliveryResult::Dead {
        error: error.to_owned(),
    }
}

async fn put(store: &dyn Store, entries: &[OutboxEntry]) {
    let ops = entries.iter().map(enqueue).collect();
    store.commit(commit(ops)).await.unwrap();
}

/// Clears `due_at`: the contract leaves it open for leased entries.
fn without_due_at(mut entry: OutboxEntry) -> OutboxEntry {
    entry.due_at = time_at(0);
    entry
}

async fn entry_is_read_back_unchanged(on: Engine) {
    let store = on.node().await;
    let full = OutboxEntry {
        group: Some("group".to_owned()),
        owner: owner("other-owner"),
        subject: Some(stream_subject("s")),
        payload: json("[ 1,  {\"a\" : 1e400 } ]"),
        created_at: time_at(-100),
        ..entry("full")
    };
    let bare = OutboxEntry {
        subject: None,
        payload: json("null"),
        key: String::new(),
        ..entry("bare")
    };
    put(&*store, &[full.clone(), bare.clone()]).await;
    let mut claimed = claim(&*store, 0, 100, 9).await;
    claimed.sort_by(|a, b| a.id.cmp(&b.id));
    let attempt = 1;
    let expected = [
        OutboxEntry { attempt, ..bare },
        OutboxEntry { attempt, ..full },
    ];
    let claimed: Vec<_> = claimed.into_iter().map(without_due_at).collect();
    assert_eq!(claimed, expected);
}

async fn duplicate_entry_key_is_ignored(on: Engine) {
    let store = on.node().await;
    let first = entry("first");
    let again = |id: &str| OutboxEntry {
        key: first.key.clone(),
        payload: json("2"),
        ..entry(id)
    };
    put(&*store, &[first.clone(), again("in the same commit")]).await;
    put(&*store, &[again("later")]).await;
    let elsewhere = OutboxEntry {
        channel: "mail".to_owned(),
        ..again("elsewhere")
    };
    put(&*store, &[elsewhere]).await;
    assert_eq!(store.outbox_depth().await.unwrap(), (2, 0));
    let claimed = claim(&*store, 0, 100, 9).await;
    assert_eq!(ids(&claimed), ["first"]);
    assert_eq!(
        claimed[0].payload, first.payload,
        "the first stays unchanged"
    );
    put(&*store, &[again("while it is leased")]).await;
    assert!(settle(&*store, "first", 1, &DeliveryResult::Delivered, 1).await);
    put(&*store, &[again("after delivery")]).await;
    assert!(claim(&*store, 200, 300, 9).await.is_empty());
    assert_eq!(store.outbox_depth().await.unwrap(), (1, 0));

    put(&*store, &[entry("lost")]).await;
    claim(&*store, 300, 400, 9).await;
    assert!(settle(&*store, "lost", 1, &dead("no"), 301).await);
    let again = OutboxEntry {
        key: entry("lost").key,
        ..entry("after it died")
    };
    put(&*store, &[again]).await;
    assert!(claim(&*store, 500, 600, 9).await.is_empty());
}

async fn entries_are_claimed_oldest_due_first(on: Engine) {
    let store = on.node().await;
    let due = |id: &str, due_at: i64| OutboxEntry {
        due_at: time_at(due_at),
        ..entry(id)
    };
    let other = OutboxEntry {
        channel: "mail".to_owned(),
        ..due("mail", -50)
    };
    let entries = [
        due("c", 30),
        due("a", 10),
        other,
        due("d", 40),
        due("b", 20),
    ];
    put(&*store, &entries).await;
    assert!(claim(&*store, 9, 90, 9).await.is_empty());
    assert!(claim(&*store, 100, 200, 0).await.is_empty());
    assert_eq!(ids(&claim(&*store, 30, 100, 2).await), ["a", "b"]);
    assert_eq!(
        ids(&claim(&*store, 30, 100, 9).await),
        ["c"],
        "due just now"
    );
    let none = store
        .claim_outbox(&outbox_claim(&[], time_at(100), time_at(200), 9))
        .await
        .unwrap();
    assert_eq!(none, []);
    let both = [
        &web_channel()[..],
        &["mail".to_owned(), "unknown".to_owned()],
    ]
    .concat();
    let both = store
        .claim_outbox(&outbox_claim(&both, time_at(40), time_at(200), 9))
        .await
        .unwrap();
    assert_eq!(ids(&both), ["mail", "d"]);
}

async fn claimed_entry_is_leased(on: Engine) {
    let store = on.node().await;
    put(&*store, &[entry("e")]).await;
    assert_eq!(claim(&*store, 0, 100, 9).await[0].attempt, 1);
    assert!(claim(&*store, 99, 200, 9).await.is_empty(), "leased");
    on.expire_leases(&*store, time_at(101)).await;
    let again = claim(&*store, 101, 200, 9).await;
    assert_eq!((ids(&again), again[0].attempt), (vec!["e"], 2));
    assert_eq!(again[0].error, None, "no error was reported");
    // The first holder settles too late.
    assert!(!settle(&*store, "e", 1, &DeliveryResult::Delivered, 150).await);
    assert!(!settle(&*store, "e", 1, &dead("late"), 150).await);
    assert!(!settle(&*store, "e", 1, &retry(0, "late"), 150).await);
    assert!(claim(&*store, 199, 300, 9).await.is_empty(), "still leased");
    assert!(settle(&*store, "e", 2, &DeliveryResult::Delivered, 160).await);
    assert!(claim(&*store, 1_000, 1_100, 9).await.is_empty());
    assert_eq!(store.outbox_depth().await.unwrap(), (0, 0));
}

async fn renew(store: &dyn Store, id: &str, attempt: u32, until: i64) -> bool {
    store
        .renew_outbox_lease(
            &delivery_id(id),
            attempt,
            since_start(time_at(until)),
            time_at(0),
        )
        .await
        .unwrap()
}

async fn renewed_entry_lease_lasts_longer(on: Engine) {
    let (store, other) = (on.node().await, on.node().await);
    let grouped = |id: &str| OutboxEntry {
        group: Some("group".to_owned()),
        ..entry(id)
    };
    put(&*store, &[grouped("a"), grouped("b")]).await;
    assert_eq!(ids(&claim(&*store, 0, 100, 9).await), ["a"]);
    assert!(renew(&*store, "a", 1, 200).await);
    assert!(claim(&*other, 150, 999, 9).await.is_empty(), "leased");
    assert!(renew(&*store, "a", 1, 300).await);
    assert!(claim(&*other, 299, 999, 9).await.is_empty());
    let next = store
        .next_outbox_due(&web_channel(), time_at(0))
        .await
        .unwrap();
    let over = since_start(time_at(300));
    let next = next.unwrap();
    assert!(next >= over, "not due before the lease ends");
    assert_eq!(next == over, on.is_shared(), "{next:?}");
    // No node has claimed it since the lease ended, so it can still be renewed and settled.
    assert!(renew(&*store, "a", 1, 400).await);
    assert!(claim(&*other, 399, 999, 9).await.is_empty());
    assert!(settle(&*store, "a", 1, &DeliveryResult::Delivered, 399).await);
    assert_eq!(ids(&claim(&*other, 399, 999, 9).await), ["b"]);
}

async fn settled_or_foreign_entry_cannot_be_renewed(on: Engine) {
    let store = on.node().await;
    put(&*store, &[entry("a"), entry("b"), entry("c")]).await;
    assert!(!renew(&*store, "a", 0, 900).await, "not claimed yet");
    assert!(!renew(&*store, "unknown", 1, 900).await);
    claim(&*store, 0, 100, 9).await;
    assert!(settle(&*store, "b", 1, &DeliveryResult::Delivered, 1).await);
    assert!(settle(&*store, "c", 1, &dead("gone"), 1).await);
    assert!(!renew(&*store, "b", 1, 900).await);
    assert!(!renew(&*store, "c", 1, 900).await);
    assert!(!renew(&*store, "a", 2, 900).await);
    on.expire_leases(&*store, time_at(100)).await;
    assert_eq!(ids(&claim(&*store, 100, 200, 9).await), ["a"]);
    assert!(!renew(&*store, "a", 1, 900).await, "another attempt has it");
    assert!(renew(&*store, "a", 2, 300).await);
    on.expire_leases(&*store, time_at(300)).await;
    assert_eq!(ids(&claim(&*store, 300, 400, 9).await), ["a"]);
}

async fn only_latest_attempt_can_be_settled(on: Engine) {
    let store = on.node().await;
    put(&*store, &[entry("e")]).await;
    assert!(!settle(&*store, "none", 1, &DeliveryResult::Delivered, 0).await);
    assert!(
        !settle(&*store, "e", 1, &DeliveryResult::Delivered, 0).await,
        "not yet tried"
    );
    claim(&*store, 0, 100, 9).await;
    assert!(!settle(&*store, "e", 2, &DeliveryResult::Delivered, 0).await);
    assert!(!settle(&*store, "e", 0, &DeliveryResult::Delivered, 0).await);
    assert_eq!(store.outbox_depth().await.unwrap(), (1, 0));
    // Its lease is over, but no node has claimed it since: the result counts.
    assert!(settle(&*store, "e", 1, &DeliveryResult::Delivered, 5_000).await);
    assert!(claim(&*store, 6_000, 7_000, 9).await.is_empty());
}

async fn retried_entry_is_due_at_given_time(on: Engine) {
    let store = on.node().await;
    put(&*store, &[entry("e"), entry("f")]).await;
    claim(&*store, 0, 100, 9).await;
    assert!(settle(&*store, "e", 1, &retry(50, "no answer"), 10).await);
    assert!(claim(&*store, 49, 100, 9).await.is_empty());
    let again = claim(&*store, 50, 150, 9).await;
    assert_eq!(ids(&again), ["e"], "before the lease would have ended");
    assert_eq!(again[0].attempt, 2);
    assert_eq!(again[0].error.as_deref(), Some("no answer"));
    assert!(settle(&*store, "e", 2, &retry(9_000, ""), 60).await);
    let again = claim(&*store, 9_000, 9_100, 9).await;
    let e = again
        .iter()
        .find(|entry| entry.id == delivery_id("e"))
        .unwrap();
    assert_eq!((e.attempt, e.error.as_deref()), (3, Some("")));
    assert_eq!(store.outbox_depth().await.unwrap(), (2, 0));
}

async fn dead_letter_ids(
    store: &dyn Store,
    channel: Option<&str>,
    owner_id: Option<&str>,
    limit: usize,
) -> Vec<String> {
    let query = DeadLetterQuery {
        channel: channel.map(str::to_owned),
        owner: owner_id.map(owner),
        limit,
    };
    let entries = store.dead_letters(&query).await.unwrap();
    entries.iter().map(|entry| entry.id.to_string()).collect()
}

async fn dead_letters_are_listed_by_channel_and_owner(on: Engine) {
    let store = on.node().await;
    let mut channels = web_channel();
    channels.push("mail".to_owned());
    for (now, (id, channel, owner_id)) in (0..).zip([
        ("a", "web", "x"),
        ("b", "mail", "y"),
        ("c", "web", "y"),
        ("d", "mail", "x"),
    ]) {
        let entry = OutboxEntry {
            channel: channel.to_owned(),
            owner: owner(owner_id),
            ..entry(id)
        };
        put(&*store, &[entry]).await;
        assert_eq!(
            ids(&store
                .claim_outbox(&outbox_claim(&channels, time_at(now), time_at(99), 9))
                .await
                .unwrap()),
            [id]
        );
        assert!(settle(&*store, id, 1, &dead(&format!("{id} is dead")), now).await);
    }
    put(&*store, &[entry("alive")]).await;
    assert_eq!(
        dead_letter_ids(&*store, None, None, 9).await,
        ["d", "c", "b", "a"]
    );
    assert_eq!(dead_letter_ids(&*store, None, None, 2).await, ["d", "c"]);
    assert_eq!(
        dead_letter_ids(&*store, Some("web"), None, 9).await,
        ["c", "a"]
    );
    assert_eq!(
        dead_letter_ids(&*store, None, Some("x"), 9).await,
        ["d", "a"]
    );
    assert_eq!(
        dead_letter_ids(&*store, Some("mail"), Some("y"), 9).await,
        ["b"]
    );
    assert!(
        dead_letter_ids(&*store, Some("none"), None, 9)
            .await
            .is_empty()
    );
    assert!(dead_letter_ids(&*store, None, None, 0).await.is_empty());
    assert_eq!(store.outbox_depth().await.unwrap(), (1, 4));
    let query = DeadLetterQuery {
        limit: 1,
        ..DeadLetterQuery::default()
    };
    let newest = &store.dead_letters(&query).await.unwrap()[0];
    assert_eq!(newest.error.as_deref(), Some("d is dead"));
    assert_eq!(newest.attempt, 1);
    assert_eq!(
        ids(&store
            .claim_outbox(&outbox_claim(&channels, long_after(), long_after(), 9))
            .await
            .unwrap()),
        ["alive"],
        "dead entries are not due"
    );
}

async fn dead_entry_can_be_replayed(on: Engine) {
    let store = on.node().await;
    put(&*store, &[entry("e"), entry("f")]).await;
    for attempt in 1..=3 {
        let now = i64::from(attempt) * 100;
        claim(&*store, now, now + 50, 9).await;
        assert!(settle(&*store, "e", attempt, &retry(now + 60, "no"), now).await);
    }
    let replay = |id: &str, now: i64| {
        let (store, id) = (store.clone(), delivery_id(id));
        async move { store.replay_outbox(&id, time_at(now)).await.unwrap() }
    };
    assert!(!replay("e", 400).await, "not dead");
    assert!(!replay("none", 400).await);
    claim(&*store, 400, 450, 9).await;
    assert!(settle(&*store, "e", 4, &dead("never"), 401).await);
    assert!(!claim_if_due(&*store, "e", 1_000).await);
    assert!(replay("e", 2_000).await);
    assert!(!replay("e", 2_000).await, "no longer dead");
    assert!(dead_letter_ids(&*store, None, None, 9).await.is_empty());
    let claimed = claim(&*store, 2_000, 2_100, 9).await;
    let e = claimed
        .iter()
        .find(|entry| entry.id == delivery_id("e"))
        .unwrap();
    assert_eq!(
        (e.attempt, e.error.as_deref()),
        (1, None),
        "as if never tried"
    );
    assert!(!settle(&*store, "e", 4, &DeliveryResult::Delivered, 2_001).await);
    assert!(settle(&*store, "e", 1, &DeliveryResult::Delivered, 2_001).await);
    assert!(!replay("e", 2_002).await, "it was delivered");
}

async fn next_outbox_due_is_reported(on: Engine) {
    let store = on.node().await;
    let next = |channel: &str| {
        let (store, channels) = (store.clone(), vec![channel.to_owned()]);
        async move { store.next_outbox_due(&channels, time_at(0)).await.unwrap() }
    };
    assert_eq!(next("web").await, None);
    let due = |id: &str, due_at: i64| OutboxEntry {
        due_at: time_at(due_at),
        ..entry(id)
    };
    put(&*store, &[due("b", 200), due("a", 100)]).await;
    assert_eq!(next("web").await, Some(since_start(time_at(100))));
    assert_eq!(next("mail").await, None);
    assert_eq!(store.next_outbox_due(&[], time_at(0)).await.unwrap(), None);
    claim(&*store, 100, 500, 9).await;
    assert_eq!(
        next("web").await,
        Some(since_start(time_at(200))),
        "a is leased"
    );
    claim(&*store, 200, 300, 9).await;
    // A leased entry is due again when its lease ends, where leases expire.
    let over = |next: Option<Duration>, millis| {
        let over = since_start(time_at(millis));
        next.is_some_and(|next| next == over || (next > over && !on.is_shared()))
    };
    assert!(over(next("web").await, 300));
    assert!(settle(&*store, "b", 1, &DeliveryResult::Delivered, 250).await);
    assert!(over(next("web").await, 500));
    assert!(settle(&*store, "a", 1, &dead("no"), 250).await);
    assert_eq!(next("web").await, None);
}

async fn claim_all(store: Arc<dyn Store>, now: Timestamp, limit: usize) -> Vec<String> {
    let mut mine = Vec::new();
    loop {
        let until = now.plus(Duration::from_secs(60));
        let entries = store
            .claim_outbox(&outbox_claim(&web_channel(), now, until, limit))
            .await
            .unwrap();
        if entries.is_empty() {
            return mine;
        }
        for entry in entries {
            assert_eq!(entry.attempt, 1, "claimed by no other");
            mine.push(entry.id.to_string());
        }
    }
}

async fn concurrent_claims_of_entries_do_not_overlap(on: Engine) {
    let nodes = on.two_nodes().await;
    let entries: Vec<_> = (0..200).map(|n| entry(&format!("e{n}"))).collect();
    put(&*nodes[0], &entries).await;
    let mut claimers = tokio::task::JoinSet::new();
    for index in 0..8 {
        claimers.spawn(claim_all(nodes[index % 2].clone(), time_at(0), 1 + index));
    }
    let mut claimed: Vec<_> = claimers.join_all().await.into_iter().flatten().collect();
    // A claimer may find nothing while others claim; the remaining entries are still there.
    claimed.extend(claim_all(nodes[0].clone(), time_at(0), 500).await);
    let different: HashSet<_> = claimed.iter().collect();
    assert_eq!((claimed.len(), different.len()), (200, 200));
    // None was settled, so all are due once more.
    on.expire_leases(&*nodes[1], time_at(0)).await;
    assert_eq!(drain_outbox(&*nodes[1]).await.len(), 200);
    let ops = vec![enqueue(&entry("e0"))];
    nodes[0].commit(commit_at(time_at(9), ops)).await.unwrap();
    assert_eq!(nodes[0].outbox_depth().await.unwrap(), (0, 0));
}

async fn delivery_statuses_are_reported(on: Engine) {
    let store = on.node().await;
    let all = ["arrived", "lost", "tried", "new"].map(entry);
    for entry in &all {
        put(&*store, std::slice::from_ref(entry)).await;
    }
    let elsewhere = OutboxEntry {
        channel: "mail".to_owned(),
        key: all[0].key.clone(),
        ..entry("elsewhere")
    };
    put(&*store, &[elsewhere]).await;
    claim(&*store, 0, 100, 3).await;
    assert!(settle(&*store, "arrived", 1, &DeliveryResult::Delivered, 7).await);
    assert!(settle(&*store, "lost", 1, &dead("gone"), 8).await);
    assert!(settle(&*store, "tried", 1, &retry(50, "busy"), 9).await);
    let mut keys: Vec<String> = all.iter().rev().map(|entry| entry.key.clone()).collect();
    keys.push("unknown".to_owned());
    let statuses = store.delivery_statuses("web", &keys).await.unwrap();
    let reported: Vec<_> = statuses
        .iter()
        .map(|one| {
            let error = one.error.as_deref();
            (
                one.id.as_str(),
                one.state,
                one.attempt,
                one.settled_at,
                error,
            )
        })
        .collect();
    let expected = [
        (
            "arrived",
            DeliveryState::Delivered,
            1,
            Some(time_at(7)),
            None,
        ),
        (
            "lost",
            DeliveryState::Dead,
            1,
            Some(time_at(8)),
            Some("gone"),
        ),
        ("tried", DeliveryState::Waiting, 1, None, Some("busy")),
        ("new", DeliveryState::Waiting, 0, None, None),
    ];
    assert_eq!(reported, expected);
    assert_eq!(statuses[2].due_at, time_at(50));
    assert_eq!(statuses[0].key, all[0].key);
    assert!(
        store
            .delivery_statuses("web", &[])
            .await
            .unwrap()
            .is_empty()
    );
}
