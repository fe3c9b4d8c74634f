//! Fences: a node that lost its lease cannot write, and no two holders write to one task.

use crate::builders::{
    commit, commit_at, create, create_tasks, enqueue_work, event, fence, long_after, next_revision,
    since_start, task, task_id, task_subject, time_at, update, work_claim,
};
use crate::engine::Engine;
use crate::snapshot::event_log;
use interzone_hub::Task;
use interzone_hub::ports::{Commit, Fence, Op, Store, StoreError, WorkItem};
use std::sync::Arc;

contract_tests!(
    lease_holder_can_write,
    other_nodes_and_claims_are_fenced_off,
    lost_lease_is_fenced_off,
    released_claim_is_fenced_off,
    claim_is_fenced_off_after_requeue_or_dequeue,
    fences_hold_under_contention,
);

/// Creates a queued task, claimed by node `n` at 0 for a second.
async fn claimed(store: &dyn Store) -> WorkItem {
    create_tasks(store, ["other"]).await;
    let ops = vec![create(&task("t")), enqueue_work("t"), enqueue_work("other")];
    store.commit(commit(ops)).await.unwrap();
    let items = store
        .claim_work(&work_claim("n", 1, time_at(0)))
        .await
        .unwrap();
    assert_eq!(items[0].task_id, task_id("t"));
    items[0].clone()
}

fn fenced_commit(fence: Fence, ops: Vec<Op>) -> Commit {
    Commit {
        fence: Some(fence),
        ..commit_at(time_at(10), ops)
    }
}

async fn assert_fenced_off(store: &dyn Store, fence: Fence) {
    let before = store.task(&task_id("t")).await.unwrap();
    let changed = next_revision(before.as_ref().unwrap());
    let ops = vec![update(&changed), event(task_subject("t"), 1_000)];
    let result = store.commit(fenced_commit(fence, ops)).await;
    assert!(matches!(result, Err(StoreError::Fenced)), "{result:?}");
    assert_eq!(store.task(&task_id("t")).await.unwrap(), before);
    assert_eq!(store.events(&task_subject("t"), 999, 9).await.unwrap(), []);
}

async fn lease_holder_can_write(on: Engine) {
    let store = on.node().await;
    let item = claimed(&*store).await;
    let mut task = task("t");
    for seq in 1..=3 {
        task = Task {
            seq,
            ..next_revision(&task)
        };
        let ops = vec![update(&task), event(task_subject("t"), seq)];
        store
            .commit(fenced_commit(fence(&item, "n"), ops))
            .await
            .unwrap();
    }
    assert!(
        store
            .renew_work(
                &item.task_id,
                "n",
                item.claim,
                since_start(time_at(9_000)),
                time_at(0)
            )
            .await
            .unwrap()
    );
    let ops = vec![
        update(&next_revision(&task)),
        Op::DequeueWork(item.task_id.clone()),
    ];
    store
        .commit(fenced_commit(fence(&item, "n"), ops))
        .await
        .unwrap();
    assert_fenced_off(&*store, fence(&item, "n")).await;
}

async fn other_nodes_and_claims_are_fenced_off(on: Engine) {
    let store = on.node().await;
    let item = claimed(&*store).await;
    let held = fence(&item, "n");
    for node in ["m", "N", "", "n "] {
        let node = node.to_owned();
        assert_fenced_off(
            &*store,
            Fence {
                node,
                ..held.clone()
            },
        )
        .await;
    }
    for claim in [item.claim + 1, 0, u64::MAX, item.claim.wrapping_sub(1)] {
        assert_fenced_off(
            &*store,
            Fence {
                claim,
                ..held.clone()
            },
        )
        .await;
    }
    create_tasks(&*store, ["never queued"]).await;
    for id in ["other", "never queued", "never made"] {
        let task_id = task_id(id);
        assert_fenced_off(
            &*store,
            Fence {
                task_id,
                ..held.clone()
            },
        )
        .await;
    }
}

async fn lost_lease_is_fenced_off(on: Engine) {
    let [store, other] = on.two_nodes().await;
    let first = claimed(&*store).await;
    on.expire_leases(&*other, time_at(2_000)).await;
    let second = other
        .claim_work(&work_claim("m", 1, time_at(2_000)))
        .await
        .unwrap();
    assert_eq!(second[0].task_id, first.task_id);
    assert_fenced_off(&*store, fence(&first, "n")).await;
    let ops = vec![update(&next_revision(&task("t")))];
    other
        .commit(fenced_commit(fence(&second[0], "m"), ops))
        .await
        .unwrap();
    // A new claim of the same node does not revive its old claim either.
    on.expire_leases(&*store, time_at(4_000)).await;
    let third = store
        .claim_work(&work_claim("n", 1, time_at(4_000)))
        .await
        .unwrap();
    assert_eq!(third[0].task_id, first.task_id);
    assert_fenced_off(&*store, fence(&first, "n")).await;
    assert_fenced_off(&*other, fence(&second[0], "m")).await;
}

async fn released_claim_is_fenced_off(on: Engine) {
    let store = on.node().await;
    let item = claimed(&*store).await;
    assert!(
        store
            .release_work(
                &item.task_id,
                "n",
                item.claim,
                since_start(time_at(0)),
                time_at(0)
            )
            .await
            .unwrap()
    );
    assert_fenced_off(&*store, fence(&item, "n")).await;
}

async fn claim_is_fenced_off_after_requeue_or_dequeue(on: Engine) {
    let store = on.node().await;
    let item = claimed(&*store).await;
    store.commit(commit(vec![enqueue_work("t")])).await.unwrap();
    assert_fenced_off(&*store, fence(&item, "n")).await;
    let again = store
        .claim_work(&work_claim("n", 9, time_at(0)))
        .await
        .unwrap();
    let again = again.iter().find(|i| i.task_id == item.task_id).unwrap();
    assert_fenced_off(&*store, fence(&item, "n")).await;
    let ops = vec![Op::DequeueWork(item.task_id.clone())];
    store.commit(commit(ops)).await.unwrap();
    assert_fenced_off(&*store, fence(again, "n")).await;
    store.commit(commit(vec![enqueue_work("t")])).await.unwrap();
    assert_fenced_off(&*store, fence(again, "n")).await;
    assert_fenced_off(&*store, fence(&item, "n")).await;
}

/// Claims the task repeatedly and writes an event under each lease, concurrently with others.
async fn contend(on: Engine, store: Arc<dyn Store>, name: String, rounds: i64) -> Vec<(u64, u64)> {
    let mut written = Vec::new();
    for round in 0..rounds {
        // Every claim finds the last lease expired, so there are stale holders throughout.
        let now = time_at(round * 2_000);
        on.expire_leases(&*store, now).await;
        let Some(item) = store
            .claim_work(&work_claim(&name, 1, now))
            .await
            .unwrap()
            .pop()
        else {
            continue;
        };
        for _ in 0..3 {
            let read = store.task(&item.task_id).await.unwrap().unwrap();
            let seq = read.seq + 1;
            let ops = vec![
                update(&Task {
                    seq,
                    ..next_revision(&read)
                }),
                event(task_subject("t"), seq),
            ];
            match store.commit(fenced_commit(fence(&item, &name), ops)).await {
                Ok(()) => written.push((seq, item.claim)),
                Err(StoreError::Fenced) => break,
                Err(StoreError::Conflict) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
    }
    written
}

async fn fences_hold_under_contention(on: Engine) {
    let nodes = on.two_nodes().await;
    let ops = vec![create(&task("t")), enqueue_work("t")];
    nodes[0].commit(commit(ops)).await.unwrap();
    let mut workers = tokio::task::JoinSet::new();
    for index in 0..6 {
        let node = nodes[index % 2].clone();
        workers.spawn(contend(on.clone(), node, format!("node {index}"), 20));
    }
    let mut written: Vec<_> = workers.join_all().await.into_iter().flatten().collect();
    written.sort_unstable();
    // Later writes have later claims: no node wrote after another took over.
    let claims: Vec<u64> = written.iter().map(|(_, claim)| *claim).collect();
    assert!(claims.is_sorted(), "{written:?}");
    let events = event_log(&*nodes[0], &task_subject("t")).await.len();
    assert_eq!(events, written.len());
    // The number of takeovers is chance. The last claim has no competitor.
    assert!(written.len() >= 3, "too little happened: {written:?}");
    on.expire_leases(&*nodes[0], long_after()).await;
    let left = nodes[0]
        .claim_work(&work_claim("last", 1, long_after()))
        .await;
    assert_eq!(left.unwrap().len(), 1, "the task is not lost");
}
