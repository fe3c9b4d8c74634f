//! Blobs: stored once, of any size, addressed by their content.

use crate::builders::{blob, commit, create, put_blob, stream_subject, task, task_subject};
use crate::engine::Engine;
use interzone_hub::{Blob, BlobContent, BlobId, Offloaded};
use interzone_protocol::vocab::{Message, Part, Role};
use std::collections::HashMap;

contract_tests!(
    blobs_are_read_by_id,
    same_blob_can_be_put_again,
    large_blob_is_read_back,
    offloaded_content_is_restored_from_blobs,
    concurrent_puts_of_same_blobs_do_not_deadlock,
);

fn contents(blobs: &[&Blob]) -> HashMap<BlobId, BlobContent> {
    blobs.iter().map(|b| (b.id, b.bytes.clone())).collect()
}

async fn blobs_are_read_by_id(on: Engine) {
    let store = on.node().await;
    let (a, b) = (blob(r#""a""#), blob("{}"));
    let unknown = BlobId::for_content(b"never stored");
    assert_eq!(store.blobs(&[a.id]).await.unwrap(), HashMap::new());
    let ops = vec![
        put_blob(task_subject("t"), &a),
        put_blob(stream_subject("s"), &b),
    ];
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(store.blobs(&[]).await.unwrap(), HashMap::new());
    assert_eq!(store.blobs(&[a.id]).await.unwrap(), contents(&[&a]));
    let ids = [b.id, unknown, a.id, b.id];
    assert_eq!(store.blobs(&ids).await.unwrap(), contents(&[&a, &b]));
    assert_eq!(store.blobs(&[unknown]).await.unwrap(), HashMap::new());
}

async fn same_blob_can_be_put_again(on: Engine) {
    let store = on.node().await;
    let same = blob("[1, 2]");
    let empty = blob("");
    let put = |subject| {
        vec![
            put_blob(subject, &same),
            put_blob(task_subject("e"), &empty),
        ]
    };
    let twice = vec![
        put_blob(task_subject("t"), &same),
        put_blob(task_subject("t"), &same),
    ];
    store.commit(commit(twice)).await.unwrap();
    for subject in [task_subject("t"), task_subject("u"), stream_subject("t")] {
        store.commit(commit(put(subject))).await.unwrap();
    }
    let both = store.blobs(&[same.id, empty.id]).await.unwrap();
    assert_eq!(both, contents(&[&same, &empty]));
}

async fn large_blob_is_read_back(on: Engine) {
    let store = on.node().await;
    let large = blob(&format!("\"{}\"", "0123456789abcdef".repeat(30 * 65_536)));
    assert!(large.bytes.len() > 30_000_000);
    let small = blob("1");
    let ops = vec![
        create(&task("t")),
        put_blob(task_subject("t"), &large),
        put_blob(task_subject("t"), &small),
    ];
    store.commit(commit(ops)).await.unwrap();
    let read = store.blobs(&[large.id, small.id]).await.unwrap();
    assert!(
        read == contents(&[&large, &small]),
        "the content is the same"
    );
}

async fn offloaded_content_is_restored_from_blobs(on: Engine) {
    let store = on.node().await;
    let texts = ["é".repeat(20_000), "small".to_owned(), "\0".repeat(20_000)];
    let message = Message::new(Role::User, texts.iter().map(Part::text).collect()).unwrap();
    let (packed, blobs) = Offloaded::offload(message.clone());
    assert_eq!(blobs.len(), 2);
    let ops = blobs
        .iter()
        .map(|b| put_blob(task_subject("t"), b))
        .collect();
    store.commit(commit(ops)).await.unwrap();
    let ids: Vec<BlobId> = packed.blob_ids().collect();
    let read = store.blobs(&ids).await.unwrap().into_iter();
    let read = read.map(|(id, text)| (id, text.into_json().unwrap()));
    assert_eq!(packed.restore(&read.collect()), message);
}

async fn concurrent_puts_of_same_blobs_do_not_deadlock(on: Engine) {
    let nodes = on.two_nodes().await;
    let blobs: Vec<Blob> = (0..8)
        .map(|n| blob(&n.to_string().repeat(50_000)))
        .collect();
    let mut putting = tokio::task::JoinSet::new();
    for index in 0..16 {
        let node = nodes[index % 2].clone();
        let subject = task_subject(&format!("t{index}"));
        // Each puts all, in a different order: that must not deadlock.
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
