//! Disk failure while a store is in use: errors to callers, the report to the process, and the state after a
//! restart.

use super::super::{SqliteStore, open};
use super::{SqliteOptions, TempFolder, commit_of, create_task, new_task_commit, sample_task};
use interzone_hub::ports::{StoreError, TaskStore};
use interzone_hub::{Blob, BlobId, Subject};
use std::fs::File;

/// Opens a store whose database file accepts writes and cannot be synced.
fn open_on_failing_disk(folder: &TempFolder) -> SqliteStore {
    let options = SqliteOptions::default();
    let opened = open::open(&folder.database_path(), &options)
        .unwrap()
        .unwrap();
    let (connection, _) = open::open_checkpointer(&opened.path).unwrap();
    let unsynced = File::open("/dev/null").unwrap();
    SqliteStore::start(opened, (connection, unsynced), &options).unwrap()
}

#[cfg(unix)]
#[tokio::test]
async fn failed_sync_is_reported_and_keeps_acknowledged_writes() {
    let folder = TempFolder::new();
    let store = open_on_failing_disk(&folder);
    let mut failed = Box::pin(store.wait_for_disk_failure());
    let (mut acknowledged, mut rejected) = (Vec::new(), None);
    for number in 0..2_000 {
        let id = format!("t{number}");
        let bytes = format!("\"{id}{}\"", "0".repeat(40_000));
        let blob = interzone_hub::ports::Op::PutBlob {
            subject: Subject::Task(sample_task(&id).id),
            blob: Blob {
                id: BlobId::for_content(bytes.as_bytes()),
                bytes: bytes.into(),
            },
        };
        match store.commit(commit_of(vec![create_task(&id), blob])).await {
            Ok(()) => acknowledged.push(id),
            Err(error) => {
                rejected = Some(error);
                break;
            }
        }
    }
    let Some(StoreError::Unavailable(why)) = rejected else {
        panic!("{rejected:?} after {}", acknowledged.len());
    };
    assert!(why.contains("the disk failed"), "{why}");
    let reason = failed.as_mut().await;
    assert!(reason.contains("could not be synced"), "{reason}");
    // Further writes are rejected, and everything can still be read.
    let late = store.commit(new_task_commit("late")).await;
    assert!(matches!(late, Err(StoreError::Unavailable(_))), "{late:?}");
    assert!(acknowledged.len() > 50);
    let first = sample_task(&acknowledged[0]);
    assert!(store.task(&first.id).await.unwrap().is_some());
    store.close().await;
    // The next process finds everything and can write.
    let store = folder.open().await;
    for id in &acknowledged {
        assert!(
            store.task(&sample_task(id).id).await.unwrap().is_some(),
            "{id}"
        );
    }
    assert!(store.task(&sample_task("late").id).await.unwrap().is_none());
    store.commit(new_task_commit("late")).await.unwrap();
}

#[tokio::test]
async fn healthy_store_reports_no_disk_failure() {
    let folder = TempFolder::new();
    let store = folder.open().await;
    store.commit(new_task_commit("t")).await.unwrap();
    let failed = tokio::time::timeout(std::time::Duration::ZERO, store.wait_for_disk_failure());
    assert!(failed.await.is_err());
}

#[tokio::test]
async fn failed_sync_outside_a_transaction_is_reported() {
    let folder = TempFolder::new();
    let store = folder.open().await;
    store.commit(new_task_commit("first")).await.unwrap();
    let failed = store.wait_for_disk_failure();
    let maintenance = store.writer.write_outside_transaction(|_| {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_FSYNC);
        Err::<(), _>(rusqlite::Error::SqliteFailure(code, None).into())
    });
    assert!(maintenance.await.is_err());
    let reason = failed.await;
    assert!(reason.contains("could not be written"), "{reason}");
    let late = store.commit(new_task_commit("late")).await;
    assert!(matches!(late, Err(StoreError::Unavailable(_))), "{late:?}");
}
