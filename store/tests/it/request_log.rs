//! Request log: found by any id, the newest first, and limited in age and number.

use crate::builders::{task_id, time_at};
use crate::engine::Engine;
use interzone_hub::Retention;
use interzone_hub::ports::{RequestLogEntry, RequestQuery, Store};
use interzone_protocol::vocab::Timestamp;
use std::time::Duration;

contract_tests!(
    request_is_read_back_unchanged,
    requests_are_found_by_id_correlation_or_task,
    request_filters_combine,
    requests_are_newest_first_and_limited,
    requests_are_found_by_long_ids,
    old_requests_are_purged,
    requests_over_max_count_are_purged,
    requests_survive_reopen,
);

fn log_entry(id: &str, now: i64) -> RequestLogEntry {
    RequestLogEntry {
        answered_at: time_at(now),
        duration: Duration::from_micros(1_234),
        id: Some(id.to_owned()),
        method: "execute_task".to_owned(),
        principal: "anna".to_owned(),
        client: "laptop".to_owned(),
        correlation_id: format!("c-{id}"),
        task: None,
        outcome: "ok".to_owned(),
        code: None,
        address: None,
    }
}

fn all_requests() -> RequestQuery {
    RequestQuery {
        limit: 100,
        ..RequestQuery::default()
    }
}

async fn ids(store: &dyn Store, query: &RequestQuery) -> Vec<String> {
    let found = store.find_requests(query).await.unwrap();
    found.into_iter().filter_map(|pair| pair.id).collect()
}

async fn request_is_read_back_unchanged(on: Engine) {
    let [one, two] = on.two_nodes().await;
    one.append_requests(Vec::new()).await.unwrap();
    assert_eq!(two.find_requests(&all_requests()).await.unwrap(), []);
    let complete = RequestLogEntry {
        task: Some(task_id("t")),
        outcome: "agent_failed".to_owned(),
        code: Some(-32000),
        address: Some([127, 0, 0, 1].into()),
        principal: "a\0\u{1}\"'\u{10ffff}".to_owned(),
        ..log_entry("\"1\"", 5)
    };
    let bare = RequestLogEntry {
        id: None,
        address: Some("::1".parse().unwrap()),
        ..log_entry("", 4)
    };
    let both = vec![bare.clone(), complete.clone()];
    one.append_requests(both).await.unwrap();
    assert_eq!(
        two.find_requests(&all_requests()).await.unwrap(),
        [complete, bare]
    );
}

async fn requests_are_found_by_id_correlation_or_task(on: Engine) {
    let store = &*on.node().await;
    let about = RequestLogEntry {
        task: Some(task_id("t")),
        ..log_entry("1", 1)
    };
    let others = vec![about, log_entry("\"1\"", 2), log_entry("2", 3)];
    store.append_requests(others).await.unwrap();
    let by_id = |id: &str| RequestQuery {
        id: Some(id.to_owned()),
        ..all_requests()
    };
    assert_eq!(ids(store, &by_id("1")).await, ["1"]);
    assert_eq!(ids(store, &by_id("\"1\"")).await, ["\"1\""]);
    assert!(ids(store, &by_id("3")).await.is_empty());
    let by_name = |name: &str| RequestQuery {
        correlation_id: Some(name.to_owned()),
        ..all_requests()
    };
    assert_eq!(ids(store, &by_name("c-2")).await, ["2"]);
    assert!(ids(store, &by_name("2")).await.is_empty());
    let by_task = RequestQuery {
        task: Some(task_id("t")),
        ..all_requests()
    };
    assert_eq!(ids(store, &by_task).await, ["1"]);
}

async fn request_filters_combine(on: Engine) {
    let store = &*on.node().await;
    let entry_for = |task: &str, correlation: &str, now| RequestLogEntry {
        task: Some(task_id(task)),
        correlation_id: correlation.to_owned(),
        ..log_entry("7", now)
    };
    let all = vec![
        entry_for("a", "x", 1),
        entry_for("a", "y", 2),
        entry_for("b", "x", 3),
    ];
    store.append_requests(all).await.unwrap();
    let seek = |task: Option<&str>, correlation: Option<&str>, since: Option<i64>| RequestQuery {
        id: Some("7".to_owned()),
        task: task.map(task_id),
        correlation_id: correlation.map(str::to_owned),
        since: since.map(time_at),
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
        let found = store.find_requests(&query).await.unwrap();
        assert_eq!(found.len(), expected, "{query:?}: {found:?}");
    }
}

async fn requests_are_newest_first_and_limited(on: Engine) {
    let store = &*on.node().await;
    let all = vec![
        log_entry("1", 5),
        log_entry("2", 9),
        log_entry("3", 5),
        log_entry("4", 1),
    ];
    store.append_requests(all).await.unwrap();
    assert_eq!(ids(store, &all_requests()).await, ["2", "3", "1", "4"]);
    let two = RequestQuery {
        limit: 2,
        ..all_requests()
    };
    assert_eq!(ids(store, &two).await, ["2", "3"]);
    let none = RequestQuery {
        limit: 0,
        ..all_requests()
    };
    assert!(ids(store, &none).await.is_empty());
}

async fn requests_are_found_by_long_ids(on: Engine) {
    let store = &*on.node().await;
    let long = "é".repeat(5_000);
    store
        .append_requests(vec![log_entry(&long, 1)])
        .await
        .unwrap();
    let query = RequestQuery {
        id: Some(long.clone()),
        ..all_requests()
    };
    let found = store.find_requests(&query).await.unwrap();
    assert_eq!(found.len(), 1);
    assert_eq!(
        found[0].id.as_deref(),
        Some(RequestLogEntry::truncate(&long))
    );
    let query = RequestQuery {
        correlation_id: Some(format!("c-{long}")),
        ..all_requests()
    };
    assert_eq!(store.find_requests(&query).await.unwrap().len(), 1);
}

async fn purged(store: &dyn Store, retention: Retention, now: Timestamp, limit: usize) -> u64 {
    let purged = store.purge(&retention, now, limit).await.unwrap();
    assert_eq!(purged.total(), purged.requests);
    purged.requests
}

async fn old_requests_are_purged(on: Engine) {
    let store = &*on.node().await;
    let all = (1..=5).map(|number| log_entry(&number.to_string(), number * 10));
    store.append_requests(all.collect()).await.unwrap();
    let retention = Retention {
        requests: Duration::from_millis(100),
        ..Retention::default()
    };
    assert_eq!(purged(store, retention, time_at(130), 2).await, 2);
    assert_eq!(purged(store, retention, time_at(130), 2).await, 1);
    assert_eq!(purged(store, retention, time_at(130), 2).await, 0);
    assert_eq!(ids(store, &all_requests()).await, ["5", "4"]);
}

async fn requests_over_max_count_are_purged(on: Engine) {
    let store = &*on.node().await;
    let all = (1..=5).map(|number| log_entry(&number.to_string(), number));
    store.append_requests(all.collect()).await.unwrap();
    let retention = Retention {
        max_requests: 2,
        ..Retention::default()
    };
    assert_eq!(purged(store, retention, time_at(10), 2).await, 2);
    assert_eq!(purged(store, retention, time_at(10), 2).await, 1);
    assert_eq!(purged(store, retention, time_at(10), 2).await, 0);
    assert_eq!(ids(store, &all_requests()).await, ["5", "4"]);
}

async fn requests_survive_reopen(on: Engine) {
    let store = on.node().await;
    store
        .append_requests(vec![log_entry("1", 1)])
        .await
        .unwrap();
    let store = on.reopen(store).await;
    assert_eq!(ids(&*store, &all_requests()).await, ["1"]);
}
