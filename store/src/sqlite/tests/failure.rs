//! A disk that fails while a store is in use: what callers are told, what the process is told, and what is there
//! afterwards.

use super::super::{SqliteStore, open};
use super::{Folder, SqliteOptions, commit, create, task, whole};
use interzone_hub::ports::{StoreError, TaskStore};
use interzone_hub::{Blob, BlobId, Subject};
use std::fs::File;

/// A store whose database takes everything and cannot be synced.
fn open_on_a_disk_that_fails(folder: &Folder) -> SqliteStore {
    let options = SqliteOptions::default();
    let opened = open::open(&folder.file(), &options).unwrap().unwrap();
    let (connection, _) = open::copier(&opened.path).unwrap();
    let unsynced = File::open("/dev/null").unwrap();
    SqliteStore::start(opened, (connection, unsynced), &options).unwrap()
}

#[cfg(unix)]
#[tokio::test]
async fn failed_sync_is_reported_and_loses_nothing_that_was_acknowledged() {
    let folder = Folder::new();
    let store = open_on_a_disk_that_fails(&folder);
    let mut failed = Box::pin(store.failed());
    let (mut acknowledged, mut refused) = (Vec::new(), None);
    for number in 0..2_000 {
        let id = format!("t{number}");
        let bytes = format!("\"{id}{}\"", "0".repeat(40_000));
        let blob = interzone_hub::ports::Op::PutBlob {
            subject: Subject::Task(task(&id).id),
            blob: Blob {
                id: BlobId::of(bytes.as_bytes()),
                bytes: bytes.into(),
            },
        };
        match store.commit(commit(vec![create(&id), blob])).await {
            Ok(()) => acknowledged.push(id),
            Err(error) => {
                refused = Some(error);
                break;
            }
        }
    }
    let Some(StoreError::Unavailable(why)) = refused else {
        panic!("{refused:?} after {}", acknowledged.len());
    };
    assert!(why.contains("the disk failed"), "{why}");
    let reason = failed.as_mut().await;
    assert!(reason.contains("could not be synced"), "{reason}");
    // Nothing more is taken, and all can still be read.
    let late = store.commit(whole("late")).await;
    assert!(matches!(late, Err(StoreError::Unavailable(_))), "{late:?}");
    assert!(acknowledged.len() > 50);
    let first = task(&acknowledged[0]);
    assert!(store.task(&first.id).await.unwrap().is_some());
    store.close().await;
    // The next process finds everything, and goes on.
    let store = folder.open().await;
    for id in &acknowledged {
        assert!(store.task(&task(id).id).await.unwrap().is_some(), "{id}");
    }
    assert!(store.task(&task("late").id).await.unwrap().is_none());
    store.commit(whole("late")).await.unwrap();
}

#[tokio::test]
async fn store_without_a_fault_reports_none() {
    let folder = Folder::new();
    let store = folder.open().await;
    store.commit(whole("t")).await.unwrap();
    let failed = tokio::time::timeout(std::time::Duration::ZERO, store.failed());
    assert!(failed.await.is_err());
}

#[tokio::test]
async fn failed_sync_outside_of_a_commit_is_reported_too() {
    let folder = Folder::new();
    let store = folder.open().await;
    store.commit(whole("first")).await.unwrap();
    let failed = store.failed();
    let housekeeping = store.writer.outside(|_| {
        let code = rusqlite::ffi::Error::new(rusqlite::ffi::SQLITE_IOERR_FSYNC);
        Err::<(), _>(rusqlite::Error::SqliteFailure(code, None).into())
    });
    assert!(housekeeping.await.is_err());
    let reason = failed.await;
    assert!(reason.contains("could not be written"), "{reason}");
    let late = store.commit(whole("late")).await;
    assert!(matches!(late, Err(StoreError::Unavailable(_))), "{late:?}");
}
