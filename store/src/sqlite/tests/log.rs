//! The log of a store that is written without a break, and what is left of it in the end.

use super::{Folder, commit, create, task};
use interzone_hub::ports::{Op, TaskStore};
use interzone_hub::{Blob, BlobId, Subject};
use std::path::PathBuf;
use std::sync::Arc;
use tokio::task::JoinSet;

/// What a page takes in the log.
const PAGE: u64 = 4096 + 24;
/// Pages of the longest log, and of the largest group that may come on top.
const LONGEST: u64 = 16_000 + 2_100;

fn log_of(folder: &Folder) -> PathBuf {
    folder.0.join("store.db-wal")
}

/// A hundred pages.
fn large(id: &str) -> Op {
    let bytes = format!("\"{id}{}\"", "0".repeat(400_000));
    Op::PutBlob {
        subject: Subject::Task(task(id).id),
        blob: Blob {
            id: BlobId::of(bytes.as_bytes()),
            bytes: bytes.into(),
        },
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn unbroken_writing_makes_no_endless_log() {
    let folder = Folder::new();
    let store = Arc::new(folder.open().await);
    let mut writers = JoinSet::new();
    for writer in 0..16 {
        let store = store.clone();
        writers.spawn(async move {
            for number in 0..13 {
                let id = format!("w{writer}n{number}");
                let ops = vec![create(&id), large(&id)];
                store.commit(commit(ops)).await.unwrap();
            }
        });
    }
    writers.join_all().await;
    let database = std::fs::metadata(folder.file()).unwrap().len();
    let log = std::fs::metadata(log_of(&folder)).unwrap().len();
    // A log that begins anew keeps its length; one that never did would have them all.
    let all = 16 * 13 * 98 * PAGE;
    assert!(log <= LONGEST * PAGE && LONGEST * PAGE < all, "{log}");
    assert!(database >= all - LONGEST * PAGE, "{database}");
    // Whoever copied it has ended too: with the last connection the log goes.
    Arc::into_inner(store).unwrap().close().await;
    assert!(!log_of(&folder).exists());
}
