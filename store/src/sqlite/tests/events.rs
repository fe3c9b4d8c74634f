//! Event logs: pages, and numbers that are taken.

use super::{TempFolder, commit_of, create_task, created_event, sample_task};
use interzone_hub::Subject;
use interzone_hub::ports::{StoreError, TaskStore};

#[tokio::test]
async fn events_are_read_from_any_cursor_with_any_limit() {
    let folder = TempFolder::new();
    let store = folder.open().await;
    let log = Subject::Task(sample_task("t").id);
    let mut ops = vec![create_task("t")];
    ops.extend((1..=400).map(|seq| created_event("t", seq)));
    store.commit(commit_of(ops)).await.unwrap();
    for after in [0, 1, 7, 199, 398, 399, 400, 500] {
        for limit in [0, 1, 3, 400, 1_000] {
            let read = store.events(&log, after, limit).await.unwrap();
            let numbers: Vec<u64> = read.iter().map(|event| event.seq).collect();
            let expected: Vec<u64> = (after + 1..=400).take(limit).collect();
            assert_eq!(numbers, expected, "{limit} after {after}");
        }
    }
}

#[tokio::test]
async fn taken_event_number_conflicts() {
    let folder = TempFolder::new();
    let store = folder.open().await;
    let mut ops = vec![create_task("t")];
    ops.extend((5..=8).map(|seq| created_event("t", seq)));
    store.commit(commit_of(ops)).await.unwrap();
    for (first, last, is_free) in [
        (5, 5, false),
        (7, 7, false),
        (4, 6, false),
        (8, 9, false),
        (3, 12, false),
        (1, 4, true),
        (9, 10, true),
    ] {
        let ops = (first..=last).map(|seq| created_event("t", seq)).collect();
        match store.commit(commit_of(ops)).await {
            Ok(()) => assert!(is_free, "{first} to {last}"),
            Err(error) => assert!(
                matches!(error, StoreError::Conflict) && !is_free,
                "{first} to {last}: {error:?}"
            ),
        }
    }
    let log = Subject::Task(sample_task("t").id);
    assert_eq!(store.events(&log, 0, 100).await.unwrap().len(), 10);
}
