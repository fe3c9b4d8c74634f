//! Large contents: in pieces in the file, whole to everybody else, and gone with the last who needs them.

use super::super::blobs;
use super::{Folder, commit, create, task};
use interzone_hub::ports::{Op, TaskStore};
use interzone_hub::{Blob, BlobId, Subject};

async fn count(store: &super::SqliteStore, sql: &'static str) -> i64 {
    let read = move |connection: &rusqlite::Connection| {
        Ok(connection.query_row(sql, [], |row| row.get::<_, i64>(0))?)
    };
    store.read(read).await.unwrap()
}

#[tokio::test]
async fn a_large_one_is_kept_in_pieces_and_goes_with_all_of_them() {
    let folder = Folder::new();
    let store = folder.open().await;
    // Letters of three bytes, so that pieces end within some of them.
    let text = format!("\"{}\"", "あ".repeat(200_000));
    let (id, bytes) = (BlobId::of(text.as_bytes()), text.into());
    let put = Op::PutBlob {
        subject: Subject::Task(task("t").id),
        blob: Blob { id, bytes },
    };
    let cache = "SELECT cache_size FROM pragma_cache_size";
    let usual = count(&store, cache).await;
    store
        .commit(commit(vec![create("t"), put.clone()]))
        .await
        .unwrap();
    assert_eq!(count(&store, "SELECT count(*) FROM blob_pieces").await, 5);
    let known = store.blobs(&[id]).await.unwrap();
    let Op::PutBlob { blob, .. } = &put else {
        unreachable!()
    };
    assert!(known.get(&id) == Some(&blob.bytes), "it is what it was");
    assert_eq!(count(&store, cache).await, usual, "as many pages as before");

    // Somebody needs it, so it stays.
    let remove =
        move |session: &mut super::super::Session<'_>| blobs::remove(session, id.as_bytes());
    assert_eq!(store.write(remove).await.unwrap(), 0);
    let forget = |session: &mut super::super::Session<'_>| session.run("DELETE FROM blob_refs", []);
    assert_eq!(store.write(forget).await.unwrap(), 1);
    assert_eq!(store.write(remove).await.unwrap(), 1);
    assert_eq!(count(&store, "SELECT count(*) FROM blob_pieces").await, 0);
    assert!(store.blobs(&[id]).await.unwrap().is_empty());
}
