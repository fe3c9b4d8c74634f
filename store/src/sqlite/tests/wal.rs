//! The WAL of a store under constant load, and after it is closed.

use super::{TempFolder, commit_of, create_task, sample_task};
use interzone_hub::ports::{Op, TaskStore};
use interzone_hub::{Blob, BlobId, Subject};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::task::JoinSet;

/// Size of a page in the WAL.
const WAL_FRAME_BYTES: u64 = 4096 + 24;
/// Pages of the longest WAL, plus the largest group.
const MAX_WAL_PAGES: u64 = 16_000 + 2_100;

fn wal_path(folder: &TempFolder) -> PathBuf {
    folder.0.join("store.db-wal")
}

/// A blob of a hundred pages.
fn put_large_blob(id: &str) -> Op {
    let bytes = format!("\"{id}{}\"", "0".repeat(400_000));
    Op::PutBlob {
        subject: Subject::Task(sample_task(id).id),
        blob: Blob {
            id: BlobId::for_content(bytes.as_bytes()),
            bytes: bytes.into(),
        },
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn constant_load_keeps_wal_bounded() {
    let folder = TempFolder::new();
    let store = Arc::new(folder.open().await);
    let mut writers = JoinSet::new();
    for writer in 0..16 {
        let store = store.clone();
        writers.spawn(async move {
            for number in 0..13 {
                let id = format!("w{writer}n{number}");
                let ops = vec![create_task(&id), put_large_blob(&id)];
                store.commit(commit_of(ops)).await.unwrap();
            }
        });
    }
    writers.join_all().await;
    let database = std::fs::metadata(folder.database_path()).unwrap().len();
    let wal = std::fs::metadata(wal_path(&folder)).unwrap().len();
    // A WAL that restarts keeps its length; one that never did would contain all pages.
    let total_bytes = 16 * 13 * 98 * WAL_FRAME_BYTES;
    assert!(
        wal <= MAX_WAL_PAGES * WAL_FRAME_BYTES && MAX_WAL_PAGES * WAL_FRAME_BYTES < total_bytes,
        "{wal}"
    );
    assert!(
        database >= total_bytes - MAX_WAL_PAGES * WAL_FRAME_BYTES,
        "{database}"
    );
    // The checkpointer has ended too: the last connection removes the WAL.
    Arc::into_inner(store).unwrap().close().await;
    assert!(!wal_path(&folder).exists());
}
