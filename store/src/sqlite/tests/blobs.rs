//! Large blobs: stored in pieces, read as a whole, and removed with their last reference.

use super::super::blobs;
use super::{TempFolder, commit_of, create_task, sample_task};
use interzone_hub::ports::{Op, TaskStore};
use interzone_hub::{Blob, BlobId, Subject};

async fn query_number(store: &super::SqliteStore, sql: &'static str) -> i64 {
    let read = move |connection: &rusqlite::Connection| {
        Ok(connection.query_row(sql, [], |row| row.get::<_, i64>(0))?)
    };
    store.read(read).await.unwrap()
}

#[tokio::test]
async fn large_blob_is_stored_and_removed_in_pieces() {
    let folder = TempFolder::new();
    let store = folder.open().await;
    // Characters of three bytes, so that pieces end within some of them.
    let text = format!("\"{}\"", "あ".repeat(200_000));
    let (id, bytes) = (BlobId::for_content(text.as_bytes()), text.into());
    let put = Op::PutBlob {
        subject: Subject::Task(sample_task("t").id),
        blob: Blob { id, bytes },
    };
    let cache = "SELECT cache_size FROM pragma_cache_size";
    let cache_size_before = query_number(&store, cache).await;
    store
        .commit(commit_of(vec![create_task("t"), put.clone()]))
        .await
        .unwrap();
    assert_eq!(
        query_number(&store, "SELECT count(*) FROM blob_pieces").await,
        5
    );
    let read_back = store.blobs(&[id]).await.unwrap();
    let Op::PutBlob { blob, .. } = &put else {
        unreachable!()
    };
    assert!(read_back.get(&id) == Some(&blob.bytes), "content differs");
    assert_eq!(
        query_number(&store, cache).await,
        cache_size_before,
        "cache size is restored"
    );

    // A referenced blob is not removed.
    let remove =
        move |session: &mut super::super::WriteSession<'_>| blobs::remove(session, id.as_bytes());
    assert_eq!(store.write(remove).await.unwrap(), 0);
    let remove_refs =
        |session: &mut super::super::WriteSession<'_>| session.run("DELETE FROM blob_refs", []);
    assert_eq!(store.write(remove_refs).await.unwrap(), 1);
    assert_eq!(store.write(remove).await.unwrap(), 1);
    assert_eq!(
        query_number(&store, "SELECT count(*) FROM blob_pieces").await,
        0
    );
    assert!(store.blobs(&[id]).await.unwrap().is_empty());
}
