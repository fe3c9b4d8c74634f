//! Group commit: one sync for many commits, isolated failures, a full disk.

use super::super::batch_queue::{BatchQueue, PopResult};
use super::{TempFolder, commit_of, create_task, created_event, new_task_commit, sample_task};
use interzone_hub::ports::{ChangeHint, Maintenance, Op, StoreError, TaskStore};
use interzone_hub::{Blob, BlobId, Subject};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

#[tokio::test]
async fn concurrent_commits_share_a_sync() {
    let folder = TempFolder::new();
    let store = Arc::new(folder.open().await);
    let mut racing = JoinSet::new();
    for number in 0..200 {
        let store = store.clone();
        racing.spawn(async move { store.commit(new_task_commit(&format!("t{number}"))).await });
    }
    for result in racing.join_all().await {
        result.unwrap();
    }
    assert!(
        store.group_commit_count() < 100,
        "{} groups",
        store.group_commit_count()
    );
    for number in 0..200 {
        let id = sample_task(&format!("t{number}")).id;
        assert!(store.task(&id).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn failed_commit_does_not_affect_its_group() {
    let folder = TempFolder::new();
    let store = Arc::new(folder.open().await);
    store
        .commit(commit_of(vec![create_task("t"), created_event("t", 1)]))
        .await
        .unwrap();
    let mut racing = JoinSet::new();
    for number in 0..60 {
        let store = store.clone();
        racing.spawn(async move {
            let id = format!("n{number}");
            // Every third fails at its last operation, after it has written much.
            let last = created_event("t", if number % 3 == 0 { 1 } else { number + 2 });
            let ops = vec![create_task(&id), created_event(&id, 1), last];
            let result = store.commit(commit_of(ops)).await;
            let exists = store.task(&sample_task(&id).id).await.unwrap().is_some();
            (number, result, exists)
        });
    }
    for (number, result, exists) in racing.join_all().await {
        assert_eq!(exists, number % 3 != 0, "{number}");
        match result {
            Ok(()) => assert!(exists),
            Err(error) => assert!(
                matches!(error, StoreError::Conflict) && !exists,
                "{error:?}"
            ),
        }
    }
    let log = Subject::Task(sample_task("t").id);
    assert_eq!(store.events(&log, 0, 100).await.unwrap().len(), 41);
}

#[tokio::test]
async fn panicking_job_does_not_affect_others() {
    let folder = TempFolder::new();
    let store = folder.open().await;
    let (a, failed, b) = tokio::join!(
        store.commit(new_task_commit("a")),
        store.write::<(), _>(|session| {
            session.run("DELETE FROM tasks", [])?;
            panic!("expected by the test")
        }),
        store.commit(new_task_commit("b")),
    );
    assert!(a.is_ok() && b.is_ok());
    assert!(matches!(failed, Err(StoreError::Unavailable(_))));
    let failed = store
        .read::<(), _>(|_| panic!("expected by the test"))
        .await;
    assert!(matches!(failed, Err(StoreError::Unavailable(_))));
    for id in ["a", "b"] {
        assert!(
            store.task(&sample_task(id).id).await.unwrap().is_some(),
            "{id}"
        );
    }
}

fn put_large_blob(id: &str) -> Op {
    let bytes = format!("\"{}\"", id.repeat(200_000));
    Op::PutBlob {
        subject: Subject::Task(sample_task(id).id),
        blob: Blob {
            id: BlobId::for_content(bytes.as_bytes()),
            bytes: bytes.into(),
        },
    }
}

#[tokio::test]
async fn full_database_reports_full_and_recovers() {
    let folder = TempFolder::new();
    let store = folder.open().await;
    // Sets the number of pages that the database may grow by.
    let set_free_pages = async |pages: i64| {
        let set = move |session: &mut super::super::WriteSession<'_>| {
            let number = |row: &rusqlite::Row<'_>| Ok(row.get::<_, i64>(0)?);
            let now = session.first("PRAGMA page_count", [], number)?.unwrap_or(0);
            let sql = format!("PRAGMA max_page_count = {}", now + pages);
            session.first(&sql, [], number)
        };
        store.writer.write_outside_transaction(set).await.unwrap();
    };
    set_free_pages(20).await;
    let result = store
        .commit(commit_of(vec![create_task("t"), put_large_blob("x")]))
        .await;
    assert!(matches!(result, Err(StoreError::Full)), "{result:?}");
    assert!(store.task(&sample_task("t").id).await.unwrap().is_none());
    store
        .commit(commit_of(vec![create_task("small")]))
        .await
        .unwrap();
    set_free_pages(1_000).await;
    let ops = vec![create_task("t"), put_large_blob("x")];
    store.commit(commit_of(ops)).await.unwrap();
    store.check().await.unwrap();
}

#[tokio::test]
async fn closed_store_rejects_commits() {
    let folder = TempFolder::new();
    let store = folder.open().await;
    store.writer.close();
    let result = store.commit(new_task_commit("t")).await;
    assert!(matches!(result, Err(StoreError::Unavailable(_))));
    store.close().await;
    let store = folder.open().await;
    assert!(store.task(&sample_task("t").id).await.unwrap().is_none());
}

#[tokio::test]
async fn commit_sends_change_hints() {
    let folder = TempFolder::new();
    let store = folder.open().await;
    let mut hints = store.subscribe_changes();
    store.commit(new_task_commit("t")).await.unwrap();
    let subject = ChangeHint::Subject(Subject::Task(sample_task("t").id), 1);
    assert_eq!(hints.recv().await.unwrap(), subject);
    assert_eq!(hints.recv().await.unwrap(), ChangeHint::Work);
    assert!(hints.is_empty());
}

#[tokio::test]
async fn full_queue_blocks_push() {
    let queue = Arc::new(BatchQueue::new(2));
    assert!(queue.push(1).await && queue.push(2).await);
    let third = tokio::spawn({
        let queue = queue.clone();
        async move { queue.push(3).await }
    });
    tokio::task::yield_now().await;
    assert!(!third.is_finished());
    let mut popped = Vec::new();
    let mut pop = |most| queue.pop_batch(&mut popped, most, Duration::ZERO, |job| *job != 2);
    // The second job does not fit into the same batch.
    assert!(matches!(pop(9), PopResult::Popped));
    assert!(matches!(pop(1), PopResult::Popped));
    assert!(third.await.unwrap());
    assert!(matches!(
        queue.pop_batch(&mut popped, 9, Duration::ZERO, |_| true),
        PopResult::Popped
    ));
    assert_eq!(popped, [1, 2, 3]);
    assert!(matches!(
        queue.pop_batch(&mut popped, 9, Duration::ZERO, |_| true),
        PopResult::TimedOut
    ));
    queue.close();
    assert!(!queue.push(4).await);
    assert!(matches!(
        queue.pop_batch(&mut popped, 9, Duration::ZERO, |_| true),
        PopResult::Closed
    ));
}
