//! Groups: one sync for many, a failure for one, a full disk for all.

use super::super::queue::{Queue, Taken};
use super::{Folder, commit, create, event, task, whole};
use interzone_hub::ports::{Op, StoreError, TaskStore, Upkeep, Wake};
use interzone_hub::{Blob, BlobId, Subject};
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;

#[tokio::test]
async fn many_share_a_sync() {
    let folder = Folder::new();
    let store = Arc::new(folder.open().await);
    let mut racing = JoinSet::new();
    for number in 0..200 {
        let store = store.clone();
        racing.spawn(async move { store.commit(whole(&format!("t{number}"))).await });
    }
    for result in racing.join_all().await {
        result.unwrap();
    }
    assert!(store.groups() < 100, "{} groups", store.groups());
    for number in 0..200 {
        let id = task(&format!("t{number}")).id;
        assert!(store.task(&id).await.unwrap().is_some());
    }
}

#[tokio::test]
async fn one_failure_is_not_everybodys() {
    let folder = Folder::new();
    let store = Arc::new(folder.open().await);
    store
        .commit(commit(vec![create("t"), event("t", 1)]))
        .await
        .unwrap();
    let mut racing = JoinSet::new();
    for number in 0..60 {
        let store = store.clone();
        racing.spawn(async move {
            let id = format!("n{number}");
            // Every third fails at its last operation, when it has written much.
            let last = event("t", if number % 3 == 0 { 1 } else { number + 2 });
            let ops = vec![create(&id), event(&id, 1), last];
            let result = store.commit(commit(ops)).await;
            let kept = store.task(&task(&id).id).await.unwrap().is_some();
            (number, result, kept)
        });
    }
    for (number, result, kept) in racing.join_all().await {
        assert_eq!(kept, number % 3 != 0, "{number}");
        match result {
            Ok(()) => assert!(kept),
            Err(error) => assert!(matches!(error, StoreError::Conflict) && !kept, "{error:?}"),
        }
    }
    let log = Subject::Task(task("t").id);
    assert_eq!(store.events(&log, 0, 100).await.unwrap().len(), 41);
}

#[tokio::test]
async fn a_panic_takes_nobody_along() {
    let folder = Folder::new();
    let store = folder.open().await;
    let (a, failed, b) = tokio::join!(
        store.commit(whole("a")),
        store.write::<(), _>(|session| {
            session.run("DELETE FROM tasks", [])?;
            panic!("a mistake")
        }),
        store.commit(whole("b")),
    );
    assert!(a.is_ok() && b.is_ok());
    assert!(matches!(failed, Err(StoreError::Unavailable(_))));
    let failed = store.read::<(), _>(|_| panic!("another mistake")).await;
    assert!(matches!(failed, Err(StoreError::Unavailable(_))));
    for id in ["a", "b"] {
        assert!(store.task(&task(id).id).await.unwrap().is_some(), "{id}");
    }
}

fn large(id: &str) -> Op {
    let bytes = format!("\"{}\"", id.repeat(200_000));
    Op::PutBlob {
        subject: Subject::Task(task(id).id),
        blob: Blob {
            id: BlobId::of(bytes.as_bytes()),
            bytes: bytes.into(),
        },
    }
}

#[tokio::test]
async fn a_full_store_says_so_and_recovers() {
    let folder = Folder::new();
    let store = folder.open().await;
    // How many pages it may grow by.
    let room = async |pages: i64| {
        let set = move |session: &mut super::super::Session<'_>| {
            let number = |row: &rusqlite::Row<'_>| Ok(row.get::<_, i64>(0)?);
            let now = session.first("PRAGMA page_count", [], number)?.unwrap_or(0);
            let sql = format!("PRAGMA max_page_count = {}", now + pages);
            session.first(&sql, [], number)
        };
        store.writer.outside(set).await.unwrap();
    };
    room(20).await;
    let result = store.commit(commit(vec![create("t"), large("x")])).await;
    assert!(matches!(result, Err(StoreError::Full)), "{result:?}");
    assert!(store.task(&task("t").id).await.unwrap().is_none());
    store.commit(commit(vec![create("small")])).await.unwrap();
    room(1_000).await;
    let ops = vec![create("t"), large("x")];
    store.commit(commit(ops)).await.unwrap();
    store.check().await.unwrap();
}

#[tokio::test]
async fn what_is_closed_says_so() {
    let folder = Folder::new();
    let store = folder.open().await;
    store.writer.close();
    let result = store.commit(whole("t")).await;
    assert!(matches!(result, Err(StoreError::Unavailable(_))));
    store.close().await;
    let store = folder.open().await;
    assert!(store.task(&task("t").id).await.unwrap().is_none());
}

#[tokio::test]
async fn those_who_listen_are_woken() {
    let folder = Folder::new();
    let store = folder.open().await;
    let mut wakes = store.wakes();
    store.commit(whole("t")).await.unwrap();
    let subject = Wake::Subject(Subject::Task(task("t").id), 1);
    assert_eq!(wakes.recv().await.unwrap(), subject);
    assert_eq!(wakes.recv().await.unwrap(), Wake::Work);
    assert!(wakes.is_empty());
}

#[tokio::test]
async fn a_full_queue_makes_callers_wait() {
    let queue = Arc::new(Queue::new(2));
    assert!(queue.push(1).await && queue.push(2).await);
    let third = tokio::spawn({
        let queue = queue.clone();
        async move { queue.push(3).await }
    });
    tokio::task::yield_now().await;
    assert!(!third.is_finished());
    let mut taken = Vec::new();
    let mut take = |most| queue.take(&mut taken, most, Duration::ZERO, |job| *job != 2);
    // The second does not fit into the same group.
    assert!(matches!(take(9), Taken::Some));
    assert!(matches!(take(1), Taken::Some));
    assert!(third.await.unwrap());
    assert!(matches!(
        queue.take(&mut taken, 9, Duration::ZERO, |_| true),
        Taken::Some
    ));
    assert_eq!(taken, [1, 2, 3]);
    assert!(matches!(
        queue.take(&mut taken, 9, Duration::ZERO, |_| true),
        Taken::Nothing
    ));
    queue.close();
    assert!(!queue.push(4).await);
    assert!(matches!(
        queue.take(&mut taken, 9, Duration::ZERO, |_| true),
        Taken::End
    ));
}
