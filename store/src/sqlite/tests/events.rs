//! Events of one commit lie in one row, and nobody who reads a log can tell.

use super::{Folder, commit, create, event, task};
use interzone_hub::Subject;
use interzone_hub::ports::{StoreError, TaskStore};

/// How many rows there are.
fn rows(folder: &Folder) -> i64 {
    let connection = rusqlite::Connection::open(folder.file()).unwrap();
    let count = connection.query_row("SELECT count(*) FROM events", [], |row| row.get(0));
    count.unwrap()
}

#[tokio::test]
async fn of_one_commit_are_one_row_for_each_log() {
    let folder = Folder::new();
    let store = folder.open().await;
    let ops = vec![create("a"), create("b")];
    store.commit(commit(ops)).await.unwrap();
    let ops = vec![
        event("a", 1),
        event("a", 2),
        event("b", 1),
        event("a", 3),
        event("b", 2),
        event("b", 3),
    ];
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(rows(&folder), 4);
    let of = |id: &str| Subject::Task(task(id).id);
    for id in ["a", "b"] {
        let read = store.events(&of(id), 0, 9).await.unwrap();
        let numbers: Vec<u64> = read.iter().map(|event| event.seq).collect();
        assert_eq!(numbers, [1, 2, 3], "{id}");
    }
}

#[tokio::test]
async fn a_log_is_read_from_any_place_and_as_far_as_wanted() {
    let folder = Folder::new();
    let store = folder.open().await;
    let log = Subject::Task(task("t").id);
    let mut ops = vec![create("t")];
    ops.extend((1..=400).map(|seq| event("t", seq)));
    store.commit(commit(ops)).await.unwrap();
    let rows = rows(&folder);
    assert!((2..100).contains(&rows), "many in a row, not all: {rows}");
    for after in [0, 1, 7, 199, 398, 399, 400, 500] {
        for limit in [0, 1, 3, 400, 1_000] {
            let read = store.events(&log, after, limit).await.unwrap();
            let numbers: Vec<u64> = read.iter().map(|event| event.seq).collect();
            let wanted: Vec<u64> = (after + 1..=400).take(limit).collect();
            assert_eq!(numbers, wanted, "{limit} after {after}");
        }
    }
}

#[tokio::test]
async fn a_number_in_the_middle_of_a_row_is_taken() {
    let folder = Folder::new();
    let store = folder.open().await;
    let mut ops = vec![create("t")];
    ops.extend((5..=8).map(|seq| event("t", seq)));
    store.commit(commit(ops)).await.unwrap();
    for (first, last, free) in [
        (5, 5, false),
        (7, 7, false),
        (4, 6, false),
        (8, 9, false),
        (3, 12, false),
        (1, 4, true),
        (9, 10, true),
    ] {
        let ops = (first..=last).map(|seq| event("t", seq)).collect();
        match store.commit(commit(ops)).await {
            Ok(()) => assert!(free, "{first} to {last}"),
            Err(error) => assert!(
                matches!(error, StoreError::Conflict) && !free,
                "{first} to {last}: {error:?}"
            ),
        }
    }
    let log = Subject::Task(task("t").id);
    assert_eq!(store.events(&log, 0, 100).await.unwrap().len(), 10);
}
