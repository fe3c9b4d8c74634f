//! Work queue: the position of a task is in its own row, and is migrated from databases with a separate table.

use super::{SqliteStore, TempFolder, commit_of, create_task, new_task_commit, timestamp};
use interzone_hub::ports::{Op, WorkClaim, WorkItem, WorkStore};
use interzone_hub::ports::{StoreError, TaskStore};
use interzone_hub::{RunShares, WorkOwner};
use interzone_protocol::vocab::{AgentId, PrincipalId, Priority, TaskId, Timestamp};
use rusqlite::Connection;
use std::time::Duration;

fn id(name: &str) -> TaskId {
    TaskId::new(name).unwrap()
}

fn queue_work(name: &str, priority: Priority, due_at: Timestamp) -> Op {
    Op::EnqueueWork {
        task_id: id(name),
        agent: AgentId::new("a").unwrap(),
        owner: owner("o"),
        priority,
        due_at,
    }
}

fn owner(principal: &str) -> WorkOwner {
    WorkOwner {
        principal: PrincipalId::new(principal).unwrap(),
        group: 0,
    }
}

fn queue_normal(name: &str) -> Op {
    queue_work(name, Priority::Normal, timestamp(0))
}

fn end_work(name: &str) -> Op {
    Op::DequeueWork(id(name))
}

fn work_claim(now: i64) -> WorkClaim {
    WorkClaim {
        node: "n".to_owned(),
        wanted: vec![(AgentId::new("a").unwrap(), 9)],
        now: timestamp(now),
        lease: Duration::from_secs(1),
        running_claims: Vec::new(),
        shares: RunShares::default(),
    }
}

async fn claim(store: &SqliteStore, now: i64) -> Vec<WorkItem> {
    store.claim_work(&work_claim(now)).await.unwrap()
}

fn names(items: &[WorkItem]) -> Vec<&str> {
    items.iter().map(|item| item.task_id.as_str()).collect()
}

/// Number of tasks with any queue column set.
fn queued_row_count(folder: &TempFolder) -> i64 {
    let sql = "SELECT count(*) FROM tasks WHERE coalesce(queue_agent, queue_flow, queue_turn, queue_position, \
        queue_is_ready, queue_claimable_at, queue_attempt, queue_claim, queue_node) IS NOT NULL";
    let connection = Connection::open(folder.database_path()).unwrap();
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn queue_operations_of_a_commit_apply_in_order() {
    let (normal, high) = (Priority::Normal, Priority::High);
    let now = timestamp(0);
    let cases = [
        (vec![queue_work("t", normal, now)], &["t", "other"][..]),
        (
            vec![queue_work("t", normal, now), end_work("t")],
            &["other"],
        ),
        (
            vec![end_work("t"), queue_work("t", normal, now)],
            &["t", "other"],
        ),
        (
            vec![
                queue_work("t", normal, now),
                end_work("t"),
                queue_work("t", normal, now),
            ],
            &["t", "other"],
        ),
        // The last one wins.
        (
            vec![
                queue_work("t", high, now),
                queue_work("t", normal, timestamp(5_000)),
            ],
            &["other"],
        ),
        (
            vec![
                queue_work("t", Priority::Low, now),
                queue_work("t", high, now),
            ],
            &["t", "other"],
        ),
    ];
    for (ops, expected) in cases {
        let folder = TempFolder::new();
        let store = folder.open().await;
        let description = format!("{ops:?}");
        let mut all = vec![create_task("t")];
        all.extend(ops);
        store.commit(commit_of(all)).await.unwrap();
        // Queued behind it, if it is queued.
        let ops = vec![create_task("other"), queue_work("other", normal, now)];
        store.commit(commit_of(ops)).await.unwrap();
        assert_eq!(names(&claim(&store, 0).await), expected, "{description}");
    }
}

#[tokio::test]
async fn tasks_of_one_commit_are_queued_in_order() {
    let folder = TempFolder::new();
    let store = folder.open().await;
    store
        .commit(commit_of(vec![create_task("old")]))
        .await
        .unwrap();
    let ops = vec![
        create_task("first"),
        queue_normal("old"),
        queue_normal("first"),
        create_task("second"),
        queue_normal("second"),
        queue_normal("first"),
    ];
    store.commit(commit_of(ops)).await.unwrap();
    let items = claim(&store, 0).await;
    assert_eq!(names(&items), ["old", "second", "first"]);
    let ops = vec![
        create_task("a"),
        create_task("b"),
        queue_normal("a"),
        queue_normal("b"),
        create_task("c"),
        queue_normal("b"),
        queue_normal("c"),
    ];
    store.commit(commit_of(ops)).await.unwrap();
    assert_eq!(names(&claim(&store, 0).await), ["a", "b", "c"]);
    assert_eq!(store.work_depth(timestamp(0)).await.unwrap(), (0, 6));
}

#[tokio::test]
async fn dequeued_task_has_no_queue_columns() {
    let folder = TempFolder::new();
    let store = folder.open().await;
    store.commit(new_task_commit("t")).await.unwrap();
    assert_eq!(queued_row_count(&folder), 1);
    let item = claim(&store, 0).await.remove(0);
    store.commit(commit_of(vec![end_work("t")])).await.unwrap();
    assert_eq!(queued_row_count(&folder), 0);
    assert_eq!(store.work_depth(timestamp(0)).await.unwrap(), (0, 0));
    let renewed = store.renew_work(
        &item.task_id,
        "n",
        item.claim,
        Duration::from_secs(9),
        timestamp(0),
    );
    assert!(!renewed.await.unwrap());
    // A failed commit leaves it unqueued.
    let conflicting = commit_of(vec![queue_normal("t"), create_task("t")]);
    let result = store.commit(conflicting).await;
    assert!(matches!(result, Err(StoreError::Conflict)), "{result:?}");
    assert_eq!(queued_row_count(&folder), 0);
}
