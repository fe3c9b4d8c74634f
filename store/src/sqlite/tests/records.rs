//! Records of a database that a store has open.

use super::super::SqliteRecords;
use super::{TempFolder, new_task_commit, sample_task, timestamp};
use interzone_hub::ports::{RecordStore, StoreError, TaskStore};

#[tokio::test]
async fn missing_database_is_created_for_records() {
    let folder = TempFolder::new();
    let records = SqliteRecords::open(folder.database_path()).await.unwrap();
    let put = records.put_record("kind", "key", "value", Some(0), None, timestamp(0));
    assert!(put.await.unwrap());
    let store = folder.open().await;
    let found = store
        .record("kind", "key", timestamp(0))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(&*found.value, "value");
}

#[tokio::test]
async fn records_reject_a_file_that_is_no_database() {
    let folder = TempFolder::new();
    std::fs::write(
        folder.database_path(),
        "a letter, not a database. ".repeat(100),
    )
    .unwrap();
    match SqliteRecords::open(folder.database_path()).await {
        Err(StoreError::Unusable(why)) => assert!(why.contains("not a database"), "{why}"),
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn store_and_shared_records_see_each_others_writes() {
    let folder = TempFolder::new();
    let store = folder.open().await;
    let records = SqliteRecords::open(folder.database_path()).await.unwrap();
    for round in 0..20 {
        let value = round.to_string();
        let (from, to): (&dyn RecordStore, &dyn RecordStore) = if round % 2 == 0 {
            (&store, &records)
        } else {
            (&records, &store)
        };
        let put = from.put_record("kind", "key", &value, None, None, timestamp(0));
        assert!(put.await.unwrap());
        let found = to
            .record("kind", "key", timestamp(0))
            .await
            .unwrap()
            .unwrap();
        assert_eq!(*found.value, *value);
        let listed = to.records("kind", timestamp(0)).await.unwrap();
        assert_eq!(listed, [("key".to_owned(), found)]);
    }
    let taken = records
        .take_record("kind", "key", timestamp(0))
        .await
        .unwrap();
    assert!(taken.is_some());
    assert_eq!(
        store.record("kind", "key", timestamp(0)).await.unwrap(),
        None
    );
}

/// A store under load and a concurrent writer of records: both make progress, and no update is lost.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn store_and_shared_records_write_concurrently() {
    const WRITES_EACH: usize = 60;
    let folder = TempFolder::new();
    let store = std::sync::Arc::new(folder.open().await);
    let records = SqliteRecords::open(folder.database_path()).await.unwrap();
    let mut writers = tokio::task::JoinSet::new();
    for writer in 0..8 {
        let store = store.clone();
        writers.spawn(async move {
            for number in 0..WRITES_EACH {
                let id = format!("{writer}-{number}");
                store.commit(new_task_commit(&id)).await.unwrap();
                assert!(store.task(&sample_task(&id).id).await.unwrap().is_some());
            }
        });
    }
    for writer in 0..4 {
        let records_writer: std::sync::Arc<dyn RecordStore> = match writer % 2 {
            0 => store.clone(),
            _ => std::sync::Arc::new(records.clone()),
        };
        writers.spawn(async move {
            let mut added = 0;
            while added < WRITES_EACH {
                let found = records_writer
                    .record("kind", "sum", timestamp(0))
                    .await
                    .unwrap();
                let sum: usize = found.as_ref().map_or(0, |f| f.value.parse().unwrap());
                let expected = Some(found.map_or(0, |found| found.revision));
                let next = (sum + 1).to_string();
                let put =
                    records_writer.put_record("kind", "sum", &next, expected, None, timestamp(0));
                added += usize::from(put.await.unwrap());
            }
        });
    }
    writers.join_all().await;
    let sum = records
        .record("kind", "sum", timestamp(0))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(*sum.value, *(4 * WRITES_EACH).to_string());
}
