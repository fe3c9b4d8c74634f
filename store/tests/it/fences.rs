//! Fences: who lost a lease writes no more, and no two holders write about one task.

use crate::engine::Engine;
use crate::make::{
    at, commit, commit_at, create, event, fence, from_start, long_after, make, next, of_task,
    queue, task, task_id, update, wish,
};
use crate::snapshot::log;
use interzone_hub::Task;
use interzone_hub::ports::{Commit, Fence, Op, Store, StoreError, WorkItem};
use std::sync::Arc;

contract!(
    let_the_holder_write,
    stop_everybody_else,
    stop_who_lost_the_lease_to_another,
    stop_who_gave_it_back,
    stop_who_was_overruled,
    hold_under_pressure,
);

/// A task in the queue, claimed by node `n` at 0 for a second.
async fn claimed(store: &dyn Store) -> WorkItem {
    make(store, ["other"]).await;
    let ops = vec![create(&task("t")), queue("t"), queue("other")];
    store.commit(commit(ops)).await.unwrap();
    let items = store.claim_work(&wish("n", 1, at(0))).await.unwrap();
    assert_eq!(items[0].task_id, task_id("t"));
    items[0].clone()
}

fn under(fence: Fence, ops: Vec<Op>) -> Commit {
    Commit {
        fence: Some(fence),
        ..commit_at(at(10), ops)
    }
}

async fn stopped(store: &dyn Store, fence: Fence) {
    let before = store.task(&task_id("t")).await.unwrap();
    let changed = next(before.as_ref().unwrap());
    let ops = vec![update(&changed), event(of_task("t"), 1_000)];
    let result = store.commit(under(fence, ops)).await;
    assert!(matches!(result, Err(StoreError::Fenced)), "{result:?}");
    assert_eq!(store.task(&task_id("t")).await.unwrap(), before);
    assert_eq!(store.events(&of_task("t"), 999, 9).await.unwrap(), []);
}

async fn let_the_holder_write(on: Engine) {
    let store = on.node().await;
    let item = claimed(&*store).await;
    let mut task = task("t");
    for seq in 1..=3 {
        task = Task { seq, ..next(&task) };
        let ops = vec![update(&task), event(of_task("t"), seq)];
        store.commit(under(fence(&item, "n"), ops)).await.unwrap();
    }
    assert!(
        store
            .renew_work(&item.task_id, "n", item.claim, from_start(at(9_000)), at(0))
            .await
            .unwrap()
    );
    let ops = vec![update(&next(&task)), Op::EndWork(item.task_id.clone())];
    store.commit(under(fence(&item, "n"), ops)).await.unwrap();
    stopped(&*store, fence(&item, "n")).await;
}

async fn stop_everybody_else(on: Engine) {
    let store = on.node().await;
    let item = claimed(&*store).await;
    let held = fence(&item, "n");
    for node in ["m", "N", "", "n "] {
        let node = node.to_owned();
        stopped(
            &*store,
            Fence {
                node,
                ..held.clone()
            },
        )
        .await;
    }
    for claim in [item.claim + 1, 0, u64::MAX, item.claim.wrapping_sub(1)] {
        stopped(
            &*store,
            Fence {
                claim,
                ..held.clone()
            },
        )
        .await;
    }
    make(&*store, ["never queued"]).await;
    for id in ["other", "never queued", "never made"] {
        let task_id = task_id(id);
        stopped(
            &*store,
            Fence {
                task_id,
                ..held.clone()
            },
        )
        .await;
    }
}

async fn stop_who_lost_the_lease_to_another(on: Engine) {
    let [store, other] = on.two_nodes().await;
    let first = claimed(&*store).await;
    on.end_leases(&*other, at(2_000)).await;
    let second = other.claim_work(&wish("m", 1, at(2_000))).await.unwrap();
    assert_eq!(second[0].task_id, first.task_id);
    stopped(&*store, fence(&first, "n")).await;
    let ops = vec![update(&next(&task("t")))];
    other
        .commit(under(fence(&second[0], "m"), ops))
        .await
        .unwrap();
    // The same node, claiming again, does not revive its own old claim either.
    on.end_leases(&*store, at(4_000)).await;
    let third = store.claim_work(&wish("n", 1, at(4_000))).await.unwrap();
    assert_eq!(third[0].task_id, first.task_id);
    stopped(&*store, fence(&first, "n")).await;
    stopped(&*other, fence(&second[0], "m")).await;
}

async fn stop_who_gave_it_back(on: Engine) {
    let store = on.node().await;
    let item = claimed(&*store).await;
    assert!(
        store
            .release_work(&item.task_id, "n", item.claim, from_start(at(0)), at(0))
            .await
            .unwrap()
    );
    stopped(&*store, fence(&item, "n")).await;
}

async fn stop_who_was_overruled(on: Engine) {
    let store = on.node().await;
    let item = claimed(&*store).await;
    store.commit(commit(vec![queue("t")])).await.unwrap();
    stopped(&*store, fence(&item, "n")).await;
    let again = store.claim_work(&wish("n", 9, at(0))).await.unwrap();
    let again = again.iter().find(|i| i.task_id == item.task_id).unwrap();
    stopped(&*store, fence(&item, "n")).await;
    let ops = vec![Op::EndWork(item.task_id.clone())];
    store.commit(commit(ops)).await.unwrap();
    stopped(&*store, fence(again, "n")).await;
    store.commit(commit(vec![queue("t")])).await.unwrap();
    stopped(&*store, fence(again, "n")).await;
    stopped(&*store, fence(&item, "n")).await;
}

/// Takes the task over again and again and writes an event under each lease, while others do.
async fn contend(on: Engine, store: Arc<dyn Store>, name: String, rounds: i64) -> Vec<(u64, u64)> {
    let mut written = Vec::new();
    for round in 0..rounds {
        // Every claim finds the lease of the last one over, so zombies are everywhere.
        let now = at(round * 2_000);
        on.end_leases(&*store, now).await;
        let Some(item) = store.claim_work(&wish(&name, 1, now)).await.unwrap().pop() else {
            continue;
        };
        for _ in 0..3 {
            let read = store.task(&item.task_id).await.unwrap().unwrap();
            let seq = read.seq + 1;
            let ops = vec![
                update(&Task { seq, ..next(&read) }),
                event(of_task("t"), seq),
            ];
            match store.commit(under(fence(&item, &name), ops)).await {
                Ok(()) => written.push((seq, item.claim)),
                Err(StoreError::Fenced) => break,
                Err(StoreError::Conflict) => {}
                Err(other) => panic!("{other:?}"),
            }
        }
    }
    written
}

async fn hold_under_pressure(on: Engine) {
    let nodes = on.two_nodes().await;
    let ops = vec![create(&task("t")), queue("t")];
    nodes[0].commit(commit(ops)).await.unwrap();
    let mut workers = tokio::task::JoinSet::new();
    for index in 0..6 {
        let node = nodes[index % 2].clone();
        workers.spawn(contend(on.clone(), node, format!("node {index}"), 20));
    }
    let mut written: Vec<_> = workers.join_all().await.into_iter().flatten().collect();
    written.sort_unstable();
    // Whoever wrote later held a later claim: nobody wrote after somebody took over.
    let claims: Vec<u64> = written.iter().map(|(_, claim)| *claim).collect();
    assert!(claims.is_sorted(), "{written:?}");
    let events = log(&*nodes[0], &of_task("t")).await.len();
    assert_eq!(events, written.len());
    // How often they take over from each other is chance. The last one is disturbed by nobody.
    assert!(written.len() >= 3, "too little happened: {written:?}");
    on.end_leases(&*nodes[0], long_after()).await;
    let left = nodes[0].claim_work(&wish("last", 1, long_after())).await;
    assert_eq!(left.unwrap().len(), 1, "nothing was lost");
}
