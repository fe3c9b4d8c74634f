//! Pairs: found by whatever is known of one, the newest first, and kept neither too long nor too many.

use crate::engine::Engine;
use crate::make::{at, task_id};
use interzone_hub::Retention;
use interzone_hub::ports::{Pair, PairQuery, Store};
use interzone_protocol::vocab::Timestamp;
use std::time::Duration;

contract!(
    come_back_as_they_were,
    are_found_by_id_by_name_and_by_task,
    are_found_by_all_that_is_said,
    come_newest_first_and_no_more_than_wanted,
    are_found_by_long_ids_too,
    go_when_they_are_old,
    go_when_they_are_many,
    are_kept_when_it_closes,
);

fn pair(id: &str, now: i64) -> Pair {
    Pair {
        at: at(now),
        took: Duration::from_micros(1_234),
        id: Some(id.to_owned()),
        method: "execute_task".to_owned(),
        who: "anna".to_owned(),
        client: "laptop".to_owned(),
        correlation: format!("c-{id}"),
        task: None,
        outcome: "ok".to_owned(),
        code: None,
        address: None,
    }
}

fn any() -> PairQuery {
    PairQuery {
        limit: 100,
        ..PairQuery::default()
    }
}

async fn ids(store: &dyn Store, query: &PairQuery) -> Vec<String> {
    let found = store.pairs(query).await.unwrap();
    found.into_iter().filter_map(|pair| pair.id).collect()
}

async fn come_back_as_they_were(on: Engine) {
    let [one, two] = on.two_nodes().await;
    one.note_pairs(Vec::new()).await.unwrap();
    assert_eq!(two.pairs(&any()).await.unwrap(), []);
    let whole = Pair {
        task: Some(task_id("t")),
        outcome: "agent_failed".to_owned(),
        code: Some(-32000),
        address: Some([127, 0, 0, 1].into()),
        who: "a\0\u{1}\"'\u{10ffff}".to_owned(),
        ..pair("\"1\"", 5)
    };
    let bare = Pair {
        id: None,
        address: Some("::1".parse().unwrap()),
        ..pair("", 4)
    };
    let both = vec![bare.clone(), whole.clone()];
    one.note_pairs(both).await.unwrap();
    assert_eq!(two.pairs(&any()).await.unwrap(), [whole, bare]);
}

async fn are_found_by_id_by_name_and_by_task(on: Engine) {
    let store = &*on.node().await;
    let about = Pair {
        task: Some(task_id("t")),
        ..pair("1", 1)
    };
    let others = vec![about, pair("\"1\"", 2), pair("2", 3)];
    store.note_pairs(others).await.unwrap();
    let by_id = |id: &str| PairQuery {
        id: Some(id.to_owned()),
        ..any()
    };
    assert_eq!(ids(store, &by_id("1")).await, ["1"]);
    assert_eq!(ids(store, &by_id("\"1\"")).await, ["\"1\""]);
    assert!(ids(store, &by_id("3")).await.is_empty());
    let by_name = |name: &str| PairQuery {
        correlation: Some(name.to_owned()),
        ..any()
    };
    assert_eq!(ids(store, &by_name("c-2")).await, ["2"]);
    assert!(ids(store, &by_name("2")).await.is_empty());
    let by_task = PairQuery {
        task: Some(task_id("t")),
        ..any()
    };
    assert_eq!(ids(store, &by_task).await, ["1"]);
}

async fn are_found_by_all_that_is_said(on: Engine) {
    let store = &*on.node().await;
    let of = |task: &str, correlation: &str, now| Pair {
        task: Some(task_id(task)),
        correlation: correlation.to_owned(),
        ..pair("7", now)
    };
    let all = vec![of("a", "x", 1), of("a", "y", 2), of("b", "x", 3)];
    store.note_pairs(all).await.unwrap();
    let seek = |task: Option<&str>, correlation: Option<&str>, since: Option<i64>| PairQuery {
        id: Some("7".to_owned()),
        task: task.map(task_id),
        correlation: correlation.map(str::to_owned),
        since: since.map(at),
        limit: 100,
    };
    for (query, expected) in [
        (seek(None, None, None), 3),
        (seek(Some("a"), None, None), 2),
        (seek(Some("a"), Some("x"), None), 1),
        (seek(None, Some("x"), None), 2),
        (seek(None, Some("x"), Some(2)), 1),
        (seek(None, None, Some(3)), 1),
        (seek(Some("b"), Some("y"), None), 0),
    ] {
        let found = store.pairs(&query).await.unwrap();
        assert_eq!(found.len(), expected, "{query:?}: {found:?}");
    }
}

async fn come_newest_first_and_no_more_than_wanted(on: Engine) {
    let store = &*on.node().await;
    let all = vec![pair("1", 5), pair("2", 9), pair("3", 5), pair("4", 1)];
    store.note_pairs(all).await.unwrap();
    assert_eq!(ids(store, &any()).await, ["2", "3", "1", "4"]);
    let two = PairQuery { limit: 2, ..any() };
    assert_eq!(ids(store, &two).await, ["2", "3"]);
    let none = PairQuery { limit: 0, ..any() };
    assert!(ids(store, &none).await.is_empty());
}

async fn are_found_by_long_ids_too(on: Engine) {
    let store = &*on.node().await;
    let long = "é".repeat(5_000);
    store.note_pairs(vec![pair(&long, 1)]).await.unwrap();
    let query = PairQuery {
        id: Some(long.clone()),
        ..any()
    };
    let found = store.pairs(&query).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].id.as_deref(), Some(Pair::cut(&long)));
    let query = PairQuery {
        correlation: Some(format!("c-{long}")),
        ..any()
    };
    assert_eq!(store.pairs(&query).await.unwrap().len(), 1);
}

async fn purged(store: &dyn Store, retention: Retention, now: Timestamp, limit: usize) -> u64 {
    let purged = store.purge(&retention, now, limit).await.unwrap();
    assert_eq!(purged.total(), purged.pairs);
    purged.pairs
}

async fn go_when_they_are_old(on: Engine) {
    let store = &*on.node().await;
    let all = (1..=5).map(|number| pair(&number.to_string(), number * 10));
    store.note_pairs(all.collect()).await.unwrap();
    let keep = Retention {
        pairs: Duration::from_millis(100),
        ..Retention::default()
    };
    assert_eq!(purged(store, keep, at(130), 2).await, 2);
    assert_eq!(purged(store, keep, at(130), 2).await, 1);
    assert_eq!(purged(store, keep, at(130), 2).await, 0);
    assert_eq!(ids(store, &any()).await, ["5", "4"]);
}

async fn go_when_they_are_many(on: Engine) {
    let store = &*on.node().await;
    let all = (1..=5).map(|number| pair(&number.to_string(), number));
    store.note_pairs(all.collect()).await.unwrap();
    let keep = Retention {
        most_pairs: 2,
        ..Retention::default()
    };
    assert_eq!(purged(store, keep, at(10), 2).await, 2);
    assert_eq!(purged(store, keep, at(10), 2).await, 1);
    assert_eq!(purged(store, keep, at(10), 2).await, 0);
    assert_eq!(ids(store, &any()).await, ["5", "4"]);
}

async fn are_kept_when_it_closes(on: Engine) {
    let store = on.node().await;
    store.note_pairs(vec![pair("1", 1)]).await.unwrap();
    let store = on.reopen(store).await;
    assert_eq!(ids(&*store, &any()).await, ["1"]);
}
