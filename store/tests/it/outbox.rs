//! The outbox: each entry once, held while somebody carries it, due again when nobody does.

use crate::engine::Engine;
use crate::make::{
    at, carry_wish, commit, commit_at, delivery_id, enqueue, entry, from_start, json, long_after,
    of_stream, owner, web,
};
use crate::snapshot::{empty_the_outbox, is_due};
use interzone_hub::ports::{DeadLetterQuery, Store};
use interzone_hub::{Fate, OutboxEntry, Settlement};
use interzone_protocol::vocab::Timestamp;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Duration;

contract!(
    gives_back_what_was_put_in,
    takes_an_entry_once_only,
    gives_the_oldest_due_first,
    holds_what_was_claimed,
    holds_longer_while_it_is_asked_to,
    holds_nothing_that_is_settled_or_somebody_elses,
    settles_the_latest_attempt_only,
    tries_again_when_told,
    keeps_the_dead_for_the_operator,
    replays_the_dead,
    knows_what_is_next,
    is_shared_out_without_overlap,
    tells_what_became_of_an_entry,
);

async fn claim(store: &dyn Store, now: i64, until: i64, limit: usize) -> Vec<OutboxEntry> {
    store
        .claim_outbox(&carry_wish(&web(), at(now), at(until), limit))
        .await
        .unwrap()
}

async fn settle(store: &dyn Store, id: &str, attempt: u32, what: &Settlement, now: i64) -> bool {
    store
        .settle_outbox(&delivery_id(id), attempt, what, at(now))
        .await
        .unwrap()
}

fn ids(entries: &[OutboxEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.id.as_str()).collect()
}

fn retry(due_at: i64, error: &str) -> Settlement {
    Settlement::Retry {
        due_at: at(due_at),
        error: error.to_owned(),
    }
}

fn dead(error: &str) -> Settlement {
    Settlement::Dead {
        error: error.to_owned(),
    }
}

async fn put(store: &dyn Store, entries: &[OutboxEntry]) {
    let ops = entries.iter().map(enqueue).collect();
    store.commit(commit(ops)).await.unwrap();
}

/// When an entry that is held is due, the contract leaves open.
fn whenever(mut entry: OutboxEntry) -> OutboxEntry {
    entry.due_at = at(0);
    entry
}

async fn gives_back_what_was_put_in(on: Engine) {
    let store = on.node().await;
    let full = OutboxEntry {
        group: Some("group".to_owned()),
        owner: owner("somebody"),
        subject: Some(of_stream("s")),
        payload: json("[ 1,  {\"a\" : 1e400 } ]"),
        created_at: at(-100),
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
    let claimed: Vec<_> = claimed.into_iter().map(whenever).collect();
    assert_eq!(claimed, expected);
}

async fn takes_an_entry_once_only(on: Engine) {
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
        "the first stays as it was"
    );
    put(&*store, &[again("while it is held")]).await;
    assert!(settle(&*store, "first", 1, &Settlement::Delivered, 1).await);
    put(&*store, &[again("after it arrived")]).await;
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

async fn gives_the_oldest_due_first(on: Engine) {
    let store = on.node().await;
    let due = |id: &str, due_at: i64| OutboxEntry {
        due_at: at(due_at),
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
        .claim_outbox(&carry_wish(&[], at(100), at(200), 9))
        .await
        .unwrap();
    assert_eq!(none, []);
    let both = [&web()[..], &["mail".to_owned(), "unknown".to_owned()]].concat();
    let both = store
        .claim_outbox(&carry_wish(&both, at(40), at(200), 9))
        .await
        .unwrap();
    assert_eq!(ids(&both), ["mail", "d"]);
}

async fn holds_what_was_claimed(on: Engine) {
    let store = on.node().await;
    put(&*store, &[entry("e")]).await;
    assert_eq!(claim(&*store, 0, 100, 9).await[0].attempt, 1);
    assert!(claim(&*store, 99, 200, 9).await.is_empty(), "held");
    on.end_leases(&*store, at(101)).await;
    let again = claim(&*store, 101, 200, 9).await;
    assert_eq!((ids(&again), again[0].attempt), (vec!["e"], 2));
    assert_eq!(again[0].error, None, "nobody said what went wrong");
    // Whoever had it first comes back late.
    assert!(!settle(&*store, "e", 1, &Settlement::Delivered, 150).await);
    assert!(!settle(&*store, "e", 1, &dead("late"), 150).await);
    assert!(!settle(&*store, "e", 1, &retry(0, "late"), 150).await);
    assert!(claim(&*store, 199, 300, 9).await.is_empty(), "still held");
    assert!(settle(&*store, "e", 2, &Settlement::Delivered, 160).await);
    assert!(claim(&*store, 1_000, 1_100, 9).await.is_empty());
    assert_eq!(store.outbox_depth().await.unwrap(), (0, 0));
}

async fn hold(store: &dyn Store, id: &str, attempt: u32, until: i64) -> bool {
    store
        .hold_outbox(&delivery_id(id), attempt, from_start(at(until)), at(0))
        .await
        .unwrap()
}

async fn holds_longer_while_it_is_asked_to(on: Engine) {
    let (store, other) = (on.node().await, on.node().await);
    let grouped = |id: &str| OutboxEntry {
        group: Some("group".to_owned()),
        ..entry(id)
    };
    put(&*store, &[grouped("a"), grouped("b")]).await;
    assert_eq!(ids(&claim(&*store, 0, 100, 9).await), ["a"]);
    assert!(hold(&*store, "a", 1, 200).await);
    assert!(claim(&*other, 150, 999, 9).await.is_empty(), "it is held");
    assert!(hold(&*store, "a", 1, 300).await);
    assert!(claim(&*other, 299, 999, 9).await.is_empty());
    let next = store.next_due(&web(), at(0)).await.unwrap();
    let over = from_start(at(300));
    let next = next.unwrap();
    assert!(next >= over, "it is not looked for before it is over");
    assert_eq!(next == over, on.is_shared(), "{next:?}");
    // Nobody has claimed it since it was over, so it can still be held, and settled.
    assert!(hold(&*store, "a", 1, 400).await);
    assert!(claim(&*other, 399, 999, 9).await.is_empty());
    assert!(settle(&*store, "a", 1, &Settlement::Delivered, 399).await);
    assert_eq!(ids(&claim(&*other, 399, 999, 9).await), ["b"]);
}

async fn holds_nothing_that_is_settled_or_somebody_elses(on: Engine) {
    let store = on.node().await;
    put(&*store, &[entry("a"), entry("b"), entry("c")]).await;
    assert!(!hold(&*store, "a", 0, 900).await, "nobody has claimed it");
    assert!(!hold(&*store, "nobody", 1, 900).await);
    claim(&*store, 0, 100, 9).await;
    assert!(settle(&*store, "b", 1, &Settlement::Delivered, 1).await);
    assert!(settle(&*store, "c", 1, &dead("gone"), 1).await);
    assert!(!hold(&*store, "b", 1, 900).await);
    assert!(!hold(&*store, "c", 1, 900).await);
    assert!(!hold(&*store, "a", 2, 900).await);
    on.end_leases(&*store, at(100)).await;
    assert_eq!(ids(&claim(&*store, 100, 200, 9).await), ["a"]);
    assert!(!hold(&*store, "a", 1, 900).await, "another attempt has it");
    assert!(hold(&*store, "a", 2, 300).await);
    on.end_leases(&*store, at(300)).await;
    assert_eq!(ids(&claim(&*store, 300, 400, 9).await), ["a"]);
}

async fn settles_the_latest_attempt_only(on: Engine) {
    let store = on.node().await;
    put(&*store, &[entry("e")]).await;
    assert!(!settle(&*store, "none", 1, &Settlement::Delivered, 0).await);
    assert!(
        !settle(&*store, "e", 1, &Settlement::Delivered, 0).await,
        "not yet tried"
    );
    claim(&*store, 0, 100, 9).await;
    assert!(!settle(&*store, "e", 2, &Settlement::Delivered, 0).await);
    assert!(!settle(&*store, "e", 0, &Settlement::Delivered, 0).await);
    assert_eq!(store.outbox_depth().await.unwrap(), (1, 0));
    // Its hold is over, but nobody has claimed it since: it counts.
    assert!(settle(&*store, "e", 1, &Settlement::Delivered, 5_000).await);
    assert!(claim(&*store, 6_000, 7_000, 9).await.is_empty());
}

async fn tries_again_when_told(on: Engine) {
    let store = on.node().await;
    put(&*store, &[entry("e"), entry("f")]).await;
    claim(&*store, 0, 100, 9).await;
    assert!(settle(&*store, "e", 1, &retry(50, "no answer"), 10).await);
    assert!(claim(&*store, 49, 100, 9).await.is_empty());
    let again = claim(&*store, 50, 150, 9).await;
    assert_eq!(ids(&again), ["e"], "before the hold would have ended");
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

async fn letters(
    store: &dyn Store,
    channel: Option<&str>,
    of: Option<&str>,
    limit: usize,
) -> Vec<String> {
    let query = DeadLetterQuery {
        channel: channel.map(str::to_owned),
        owner: of.map(owner),
        limit,
    };
    let letters = store.dead_letters(&query).await.unwrap();
    letters.iter().map(|entry| entry.id.to_string()).collect()
}

async fn keeps_the_dead_for_the_operator(on: Engine) {
    let store = on.node().await;
    let mut channels = web();
    channels.push("mail".to_owned());
    for (now, (id, channel, of)) in (0..).zip([
        ("a", "web", "x"),
        ("b", "mail", "y"),
        ("c", "web", "y"),
        ("d", "mail", "x"),
    ]) {
        let entry = OutboxEntry {
            channel: channel.to_owned(),
            owner: owner(of),
            ..entry(id)
        };
        put(&*store, &[entry]).await;
        assert_eq!(
            ids(&store
                .claim_outbox(&carry_wish(&channels, at(now), at(99), 9))
                .await
                .unwrap()),
            [id]
        );
        assert!(settle(&*store, id, 1, &dead(&format!("{id} is dead")), now).await);
    }
    put(&*store, &[entry("alive")]).await;
    assert_eq!(letters(&*store, None, None, 9).await, ["d", "c", "b", "a"]);
    assert_eq!(letters(&*store, None, None, 2).await, ["d", "c"]);
    assert_eq!(letters(&*store, Some("web"), None, 9).await, ["c", "a"]);
    assert_eq!(letters(&*store, None, Some("x"), 9).await, ["d", "a"]);
    assert_eq!(letters(&*store, Some("mail"), Some("y"), 9).await, ["b"]);
    assert!(letters(&*store, Some("none"), None, 9).await.is_empty());
    assert!(letters(&*store, None, None, 0).await.is_empty());
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
            .claim_outbox(&carry_wish(&channels, long_after(), long_after(), 9))
            .await
            .unwrap()),
        ["alive"],
        "the dead are not due"
    );
}

async fn replays_the_dead(on: Engine) {
    let store = on.node().await;
    put(&*store, &[entry("e"), entry("f")]).await;
    for attempt in 1..=3 {
        let now = i64::from(attempt) * 100;
        claim(&*store, now, now + 50, 9).await;
        assert!(settle(&*store, "e", attempt, &retry(now + 60, "no"), now).await);
    }
    let replay = |id: &str, now: i64| {
        let (store, id) = (store.clone(), delivery_id(id));
        async move { store.replay_outbox(&id, at(now)).await.unwrap() }
    };
    assert!(!replay("e", 400).await, "not dead");
    assert!(!replay("none", 400).await);
    claim(&*store, 400, 450, 9).await;
    assert!(settle(&*store, "e", 4, &dead("never"), 401).await);
    assert!(!is_due(&*store, "e", 1_000).await);
    assert!(replay("e", 2_000).await);
    assert!(!replay("e", 2_000).await, "no longer dead");
    assert!(letters(&*store, None, None, 9).await.is_empty());
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
    assert!(!settle(&*store, "e", 4, &Settlement::Delivered, 2_001).await);
    assert!(settle(&*store, "e", 1, &Settlement::Delivered, 2_001).await);
    assert!(!replay("e", 2_002).await, "it arrived");
}

async fn knows_what_is_next(on: Engine) {
    let store = on.node().await;
    let next = |channel: &str| {
        let (store, channels) = (store.clone(), vec![channel.to_owned()]);
        async move { store.next_due(&channels, at(0)).await.unwrap() }
    };
    assert_eq!(next("web").await, None);
    let due = |id: &str, due_at: i64| OutboxEntry {
        due_at: at(due_at),
        ..entry(id)
    };
    put(&*store, &[due("b", 200), due("a", 100)]).await;
    assert_eq!(next("web").await, Some(from_start(at(100))));
    assert_eq!(next("mail").await, None);
    assert_eq!(store.next_due(&[], at(0)).await.unwrap(), None);
    claim(&*store, 100, 500, 9).await;
    assert_eq!(next("web").await, Some(from_start(at(200))), "a is held");
    claim(&*store, 200, 300, 9).await;
    // What is held is due again when its lease is over, where leases end.
    let over = |next: Option<Duration>, moment| {
        let over = from_start(at(moment));
        next.is_some_and(|next| next == over || (next > over && !on.is_shared()))
    };
    assert!(over(next("web").await, 300));
    assert!(settle(&*store, "b", 1, &Settlement::Delivered, 250).await);
    assert!(over(next("web").await, 500));
    assert!(settle(&*store, "a", 1, &dead("no"), 250).await);
    assert_eq!(next("web").await, None);
}

async fn carry(store: Arc<dyn Store>, now: Timestamp, limit: usize) -> Vec<String> {
    let mut mine = Vec::new();
    loop {
        let until = now.after(Duration::from_secs(60));
        let entries = store
            .claim_outbox(&carry_wish(&web(), now, until, limit))
            .await
            .unwrap();
        if entries.is_empty() {
            return mine;
        }
        for entry in entries {
            assert_eq!(entry.attempt, 1, "nobody else had it");
            mine.push(entry.id.to_string());
        }
    }
}

async fn is_shared_out_without_overlap(on: Engine) {
    let nodes = on.two_nodes().await;
    let entries: Vec<_> = (0..200).map(|n| entry(&format!("e{n}"))).collect();
    put(&*nodes[0], &entries).await;
    let mut carriers = tokio::task::JoinSet::new();
    for index in 0..8 {
        carriers.spawn(carry(nodes[index % 2].clone(), at(0), 1 + index));
    }
    let mut claimed: Vec<_> = carriers.join_all().await.into_iter().flatten().collect();
    // A claimer may find nothing while others choose; what they left is still there.
    claimed.extend(carry(nodes[0].clone(), at(0), 500).await);
    let different: HashSet<_> = claimed.iter().collect();
    assert_eq!((claimed.len(), different.len()), (200, 200));
    // None was settled, so all are due once more.
    on.end_leases(&*nodes[1], at(0)).await;
    assert_eq!(empty_the_outbox(&*nodes[1]).await.len(), 200);
    let ops = vec![enqueue(&entry("e0"))];
    nodes[0].commit(commit_at(at(9), ops)).await.unwrap();
    assert_eq!(nodes[0].outbox_depth().await.unwrap(), (0, 0));
}

async fn tells_what_became_of_an_entry(on: Engine) {
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
    assert!(settle(&*store, "arrived", 1, &Settlement::Delivered, 7).await);
    assert!(settle(&*store, "lost", 1, &dead("gone"), 8).await);
    assert!(settle(&*store, "tried", 1, &retry(50, "busy"), 9).await);
    let mut keys: Vec<String> = all.iter().rev().map(|entry| entry.key.clone()).collect();
    keys.push("nobody's".to_owned());
    let carried = store.carried("web", &keys).await.unwrap();
    let told: Vec<_> = carried
        .iter()
        .map(|one| {
            let error = one.error.as_deref();
            (
                one.id.as_str(),
                one.fate,
                one.attempt,
                one.settled_at,
                error,
            )
        })
        .collect();
    let expected = [
        ("arrived", Fate::Delivered, 1, Some(at(7)), None),
        ("lost", Fate::Dead, 1, Some(at(8)), Some("gone")),
        ("tried", Fate::Waiting, 1, None, Some("busy")),
        ("new", Fate::Waiting, 0, None, None),
    ];
    assert_eq!(told, expected);
    assert_eq!(carried[2].due_at, at(50));
    assert_eq!(carried[0].key, all[0].key);
    assert!(store.carried("web", &[]).await.unwrap().is_empty());
}
