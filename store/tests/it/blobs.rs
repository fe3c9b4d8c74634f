//! Blobs: kept once, whatever their size, and told apart by their content.

use crate::engine::Engine;
use crate::make::{blob, commit, create, of_stream, of_task, put_blob, task};
use interzone_hub::{Blob, BlobId, BlobText, Packed};
use interzone_protocol::vocab::{Message, Part, Role};
use std::collections::HashMap;

contract!(
    are_given_by_name,
    may_be_put_again_by_anybody,
    may_be_large,
    put_contents_back,
    are_put_by_many_at_once,
);

fn known(blobs: &[&Blob]) -> HashMap<BlobId, BlobText> {
    blobs.iter().map(|b| (b.id, b.bytes.clone())).collect()
}

async fn are_given_by_name(on: Engine) {
    let store = on.node().await;
    let (a, b) = (blob(r#""a""#), blob("{}"));
    let unknown = BlobId::of(b"nobody put this");
    assert_eq!(store.blobs(&[a.id]).await.unwrap(), HashMap::new());
    let ops = vec![put_blob(of_task("t"), &a), put_blob(of_stream("s"), &b)];
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(store.blobs(&[]).await.unwrap(), HashMap::new());
    assert_eq!(store.blobs(&[a.id]).await.unwrap(), known(&[&a]));
    let asked = [b.id, unknown, a.id, b.id];
    assert_eq!(store.blobs(&asked).await.unwrap(), known(&[&a, &b]));
    assert_eq!(store.blobs(&[unknown]).await.unwrap(), HashMap::new());
}

async fn may_be_put_again_by_anybody(on: Engine) {
    let store = on.node().await;
    let same = blob("[1, 2]");
    let empty = blob("");
    let put = |subject| vec![put_blob(subject, &same), put_blob(of_task("e"), &empty)];
    let twice = vec![put_blob(of_task("t"), &same), put_blob(of_task("t"), &same)];
    store.commit(commit(twice)).await.unwrap();
    for subject in [of_task("t"), of_task("u"), of_stream("t")] {
        store.commit(commit(put(subject))).await.unwrap();
    }
    let both = store.blobs(&[same.id, empty.id]).await.unwrap();
    assert_eq!(both, known(&[&same, &empty]));
}

async fn may_be_large(on: Engine) {
    let store = on.node().await;
    let large = blob(&format!("\"{}\"", "0123456789abcdef".repeat(30 * 65_536)));
    assert!(large.bytes.len() > 30_000_000);
    let small = blob("1");
    let ops = vec![
        create(&task("t")),
        put_blob(of_task("t"), &large),
        put_blob(of_task("t"), &small),
    ];
    store.commit(commit(ops)).await.unwrap();
    let read = store.blobs(&[large.id, small.id]).await.unwrap();
    assert!(read == known(&[&large, &small]), "the content is the same");
}

async fn put_contents_back(on: Engine) {
    let store = on.node().await;
    let texts = ["é".repeat(20_000), "small".to_owned(), "\0".repeat(20_000)];
    let message = Message::new(Role::User, texts.iter().map(Part::text).collect()).unwrap();
    let (packed, blobs) = Packed::pack(message.clone());
    assert_eq!(blobs.len(), 2);
    let ops = blobs.iter().map(|b| put_blob(of_task("t"), b)).collect();
    store.commit(commit(ops)).await.unwrap();
    let ids: Vec<BlobId> = packed.blob_ids().collect();
    let read = store.blobs(&ids).await.unwrap().into_iter();
    let read = read.map(|(id, text)| (id, text.into_json().unwrap()));
    assert_eq!(packed.unpack(&read.collect()), message);
}

async fn are_put_by_many_at_once(on: Engine) {
    let nodes = on.two_nodes().await;
    let blobs: Vec<Blob> = (0..8)
        .map(|n| blob(&n.to_string().repeat(50_000)))
        .collect();
    let mut putting = tokio::task::JoinSet::new();
    for index in 0..16 {
        let node = nodes[index % 2].clone();
        let subject = of_task(&format!("t{index}"));
        // Each puts all, in an order of its own: that must not end in a deadlock.
        let mut ops: Vec<_> = blobs.iter().map(|b| put_blob(subject.clone(), b)).collect();
        ops.rotate_left(index % 8);
        if index % 3 == 0 {
            ops.reverse();
        }
        putting.spawn(async move { node.commit(commit(ops)).await });
    }
    for result in putting.join_all().await {
        result.unwrap();
    }
    let ids: Vec<BlobId> = blobs.iter().map(|blob| blob.id).collect();
    assert_eq!(nodes[0].blobs(&ids).await.unwrap().len(), 8);
}
