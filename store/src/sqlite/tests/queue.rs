//! A task's place in the queue lies in its own row, and comes along from files in which it did not.

use super::{Folder, SqliteStore, at, commit, create, old_file, whole};
use interzone_hub::ports::{Commit, Fence, Op, WorkClaim, WorkItem, WorkStore};
use interzone_hub::ports::{StoreError, TaskStore};
use interzone_hub::{RunShares, WorkOwner};
use interzone_protocol::vocab::{AgentId, PrincipalId, Priority, TaskId, Timestamp};
use rusqlite::Connection;
use std::time::Duration;

fn id(name: &str) -> TaskId {
    TaskId::new(name).unwrap()
}

fn queue(name: &str, priority: Priority, due_at: Timestamp) -> Op {
    Op::QueueWork {
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

fn usual(name: &str) -> Op {
    queue(name, Priority::Normal, at(0))
}

fn end(name: &str) -> Op {
    Op::EndWork(id(name))
}

fn wish(now: i64) -> WorkClaim {
    WorkClaim {
        node: "n".to_owned(),
        wanted: vec![(AgentId::new("a").unwrap(), 9)],
        now: at(now),
        lease: Duration::from_secs(1),
        running: Vec::new(),
        shares: RunShares::default(),
    }
}

async fn claim(store: &SqliteStore, now: i64) -> Vec<WorkItem> {
    store.claim_work(&wish(now)).await.unwrap()
}

fn names(items: &[WorkItem]) -> Vec<&str> {
    items.iter().map(|item| item.task_id.as_str()).collect()
}

/// How many tasks have anything of a place.
fn places(folder: &Folder) -> i64 {
    let sql = "SELECT count(*) FROM tasks WHERE coalesce(work_agent, work_priority, work_position, \
        work_ready, work_wake_at, work_attempt, work_claim, work_node, work_flow, work_turn) IS NOT NULL";
    let connection = Connection::open(folder.file()).unwrap();
    connection.query_row(sql, [], |row| row.get(0)).unwrap()
}

#[tokio::test]
async fn whatever_a_commit_says_of_the_queue_is_done_in_its_order() {
    let (normal, high) = (Priority::Normal, Priority::High);
    let now = at(0);
    let cases = [
        (vec![queue("t", normal, now)], &["t", "other"][..]),
        (vec![queue("t", normal, now), end("t")], &["other"]),
        (vec![end("t"), queue("t", normal, now)], &["t", "other"]),
        (
            vec![queue("t", normal, now), end("t"), queue("t", normal, now)],
            &["t", "other"],
        ),
        // The last counts.
        (
            vec![queue("t", high, now), queue("t", normal, at(5_000))],
            &["other"],
        ),
        (
            vec![queue("t", Priority::Low, now), queue("t", high, now)],
            &["t", "other"],
        ),
    ];
    for (ops, expected) in cases {
        let folder = Folder::new();
        let store = folder.open().await;
        let said = format!("{ops:?}");
        let mut all = vec![create("t")];
        all.extend(ops);
        store.commit(commit(all)).await.unwrap();
        // Behind it, if it is there.
        let ops = vec![create("other"), queue("other", normal, now)];
        store.commit(commit(ops)).await.unwrap();
        assert_eq!(names(&claim(&store, 0).await), expected, "{said}");
    }
}

#[tokio::test]
async fn tasks_of_one_commit_stand_in_its_order() {
    let folder = Folder::new();
    let store = folder.open().await;
    store.commit(commit(vec![create("old")])).await.unwrap();
    let ops = vec![
        create("first"),
        usual("old"),
        usual("first"),
        create("second"),
        usual("second"),
        usual("first"),
    ];
    store.commit(commit(ops)).await.unwrap();
    let items = claim(&store, 0).await;
    assert_eq!(names(&items), ["old", "second", "first"]);
    let ops = vec![
        create("a"),
        create("b"),
        usual("a"),
        usual("b"),
        create("c"),
        usual("b"),
        usual("c"),
    ];
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(names(&claim(&store, 0).await), ["a", "b", "c"]);
    assert_eq!(store.work_depth(at(0)).await.unwrap(), (0, 6));
}

#[tokio::test]
async fn nothing_is_left_in_the_row_of_what_is_over() {
    let folder = Folder::new();
    let store = folder.open().await;
    store.commit(whole("t")).await.unwrap();
    assert_eq!(places(&folder), 1);
    let item = claim(&store, 0).await.remove(0);
    store.commit(commit(vec![end("t")])).await.unwrap();
    assert_eq!(places(&folder), 0);
    assert_eq!(store.work_depth(at(0)).await.unwrap(), (0, 0));
    let renewed = store.renew_work(
        &item.task_id,
        "n",
        item.claim,
        Duration::from_secs(9),
        at(0),
    );
    assert!(!renewed.await.unwrap());
    // And a commit that fails leaves it as it was.
    let taken = commit(vec![usual("t"), create("t")]);
    let taken = store.commit(taken).await;
    assert!(matches!(taken, Err(StoreError::Conflict)), "{taken:?}");
    assert_eq!(places(&folder), 0);
}

/// What there was when the queue had a table: one that can be had, one that is held, one that waits, one whose task
/// is gone, and a task that is not queued.
const OLD: &str = "
    INSERT INTO tasks (id, context_id, owner, agent, state, priority, created_at, updated_at, revision, seq,
        messages, artifacts, pushes)
    SELECT value, 'c', 'o', 'a', 'SUBMITTED', 'NORMAL', 0, 0, 1, 0, 0, 0, 0
    FROM json_each('[\"ready\", \"first\", \"held\", \"waits\", \"plain\"]');
    INSERT INTO work (task_id, agent, priority, position, ready, wake_at, attempt, claim, node) VALUES
        ('ready', 'a', 1, 7, 1, 1700000000000, 0, 0, NULL),
        ('first', 'a', 3, 9, 1, 1700000000000, 2, 3, NULL),
        ('held', 'a', 1, 2, 0, 1700000001000, 1, 4, 'n'),
        ('waits', 'a', 1, 12, 0, 1700000005000, 0, 0, NULL),
        ('gone', 'a', 3, 99, 1, 1700000000000, 0, 0, NULL);
    UPDATE meta SET value = 4 WHERE name = 'claims';
";

#[tokio::test]
async fn the_queue_of_an_older_file_comes_along() {
    let folder = Folder::new();
    old_file(&folder, 8, OLD);
    let store = folder.open().await;
    assert_eq!(places(&folder), 4);
    assert_eq!(store.work_depth(at(0)).await.unwrap(), (4, 0));
    // The process that held one is gone.
    let held = Commit {
        fence: Some(Fence {
            task_id: id("held"),
            node: "n".to_owned(),
            claim: 4,
        }),
        ..commit(Vec::new())
    };
    let lost = store.commit(held).await;
    assert!(matches!(lost, Err(StoreError::Fenced)), "{lost:?}");
    let items = claim(&store, 0).await;
    assert_eq!(names(&items), ["first", "held", "ready"]);
    let numbers: Vec<_> = items
        .iter()
        .map(|item| (item.attempt, item.claim))
        .collect();
    assert_eq!(numbers, [(3, 5), (2, 6), (1, 7)]);
    // What is queued now stands behind what stood there before.
    let ops = vec![usual("plain")];
    store.commit(commit(ops)).await.unwrap();
    let items = claim(&store, 5_000).await;
    assert_eq!(
        names(&items),
        ["waits", "plain"],
        "by position; the others are held, whatever the clock shows"
    );
    // And so it is for whoever opens it next.
    store.close().await;
    let store = folder.open().await;
    assert_eq!(store.work_depth(at(5_001)).await.unwrap(), (5, 0));
}
