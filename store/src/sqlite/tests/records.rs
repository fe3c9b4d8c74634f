//! Records beside a store that has the file open, and in files of the first version.

use super::super::SqliteRecords;
use super::{Folder, at, old_file, task, whole};
use interzone_hub::ports::{RecordStore, StoreError, TaskStore};

/// A claim that the first version made.
const CLAIM: &str = "INSERT INTO claims VALUES ('key', 'old', 9000000000000)";

#[tokio::test]
async fn a_file_of_the_first_version_is_brought_up_to_date() {
    let folder = Folder::new();
    old_file(&folder, 1, CLAIM);
    let store = folder.open().await;
    assert_eq!(
        store.claimed("key", at(0)).await.unwrap().as_deref(),
        Some("old")
    );
    let put = store.put_record("kind", "key", "value", Some(0), None, at(0));
    assert!(put.await.unwrap());
    store.close().await;
    // And by whoever comes for the records alone.
    let folder = Folder::new();
    old_file(&folder, 1, CLAIM);
    // A look leaves it as it is.
    for _ in 0..2 {
        assert!(!SqliteRecords::is_current(folder.file()).await.unwrap());
    }
    let records = SqliteRecords::open(folder.file()).await.unwrap();
    assert!(SqliteRecords::is_current(folder.file()).await.unwrap());
    assert_eq!(records.record("kind", "key", at(0)).await.unwrap(), None);
}

#[tokio::test]
async fn a_file_that_is_not_there_is_made() {
    let folder = Folder::new();
    let records = SqliteRecords::open(folder.file()).await.unwrap();
    let put = records.put_record("kind", "key", "value", Some(0), None, at(0));
    assert!(put.await.unwrap());
    let store = folder.open().await;
    let found = store.record("kind", "key", at(0)).await.unwrap().unwrap();
    assert_eq!(&*found.value, "value");
}

#[tokio::test]
async fn what_is_not_ours_is_refused() {
    let folder = Folder::new();
    std::fs::write(folder.file(), "a letter, not a database. ".repeat(100)).unwrap();
    match SqliteRecords::open(folder.file()).await {
        Err(StoreError::Unusable(why)) => assert!(why.contains("not a database"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn each_sees_what_the_other_wrote_at_once() {
    let folder = Folder::new();
    let store = folder.open().await;
    let records = SqliteRecords::open(folder.file()).await.unwrap();
    for round in 0..20 {
        let value = round.to_string();
        let (from, to): (&dyn RecordStore, &dyn RecordStore) = if round % 2 == 0 {
            (&store, &records)
        } else {
            (&records, &store)
        };
        let put = from.put_record("kind", "key", &value, None, None, at(0));
        assert!(put.await.unwrap());
        let found = to.record("kind", "key", at(0)).await.unwrap().unwrap();
        assert_eq!(*found.value, *value);
        let listed = to.records("kind", at(0)).await.unwrap();
        assert_eq!(listed, [("key".to_owned(), found)]);
    }
    let taken = records.take_record("kind", "key", at(0)).await.unwrap();
    assert!(taken.is_some());
    assert_eq!(store.record("kind", "key", at(0)).await.unwrap(), None);
}

/// A server under load and somebody beside it who writes: both get on, and nothing is counted twice.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn neither_holds_up_the_other() {
    const EACH: usize = 60;
    let folder = Folder::new();
    let store = std::sync::Arc::new(folder.open().await);
    let records = SqliteRecords::open(folder.file()).await.unwrap();
    let mut work = tokio::task::JoinSet::new();
    for writer in 0..8 {
        let store = store.clone();
        work.spawn(async move {
            for number in 0..EACH {
                let id = format!("{writer}-{number}");
                store.commit(whole(&id)).await.unwrap();
                assert!(store.task(&task(&id).id).await.unwrap().is_some());
            }
        });
    }
    for side in 0..4 {
        let side: std::sync::Arc<dyn RecordStore> = match side % 2 {
            0 => store.clone(),
            _ => std::sync::Arc::new(records.clone()),
        };
        work.spawn(async move {
            let mut added = 0;
            while added < EACH {
                let found = side.record("kind", "sum", at(0)).await.unwrap();
                let sum: usize = found.as_ref().map_or(0, |f| f.value.parse().unwrap());
                let expected = Some(found.map_or(0, |found| found.revision));
                let next = (sum + 1).to_string();
                let put = side.put_record("kind", "sum", &next, expected, None, at(0));
                added += usize::from(put.await.unwrap());
            }
        });
    }
    work.join_all().await;
    let sum = records.record("kind", "sum", at(0)).await.unwrap().unwrap();
    assert_eq!(*sum.value, *(4 * EACH).to_string());
}
