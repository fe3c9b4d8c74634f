//! Commits: whole or not at all, preconditions included, in their order.

use crate::engine::Engine;
use crate::make::{
    all_tasks, artifact, at, becoming, blob, change, commit, commit_at, create, create_stream,
    enqueue, entry, event, key, made, make, message, next, of_stream, of_task, publish, push,
    put_blob, put_push, queue, said, signal, stream, sub_id, subscribe, subscription, task,
    task_id, update, update_stream, wish,
};
use crate::snapshot::{Eyes, log, look};
use interzone_hub::ports::{Commit, Fence, Op, Store, StoreError};
use interzone_hub::{BlobId, Stream, Subscription, SubscriptionState, Task};
use std::sync::Arc;

contract!(
    is_seen_whole,
    that_fails_leaves_nothing,
    that_is_repeated_fails,
    applies_its_operations_in_order,
    applies_in_the_order_of_its_caller,
    is_seen_by_every_node_at_once,
    may_be_empty,
    may_be_long,
    that_races_is_won_once,
    of_revision_zero_is_no_special_case,
);

/// One operation of every kind that can succeed, about things called `new`.
fn one_of_everything(blob_id: &mut Option<BlobId>) -> Vec<Op> {
    let blob = blob(r#""something large""#);
    *blob_id = Some(blob.id);
    vec![
        key("new", "taken", at(100)),
        create(&task("new")),
        update(&Task {
            seq: 1,
            messages: 1,
            artifacts: 1,
            pushes: 1,
            ..next(&task("new"))
        }),
        message("new", 0, "hello"),
        artifact("new", "a", "made"),
        put_blob(of_task("new"), &blob),
        event(of_task("new"), 1),
        create_stream(&stream("new")),
        update_stream(&Stream {
            seq: 1,
            revision: 2,
            ..stream("new")
        }),
        event(of_stream("new"), 1),
        queue("new"),
        Op::EndWork(task_id("old")),
        enqueue(&entry("new")),
        put_push(&push("new", "p")),
        Op::RemovePush {
            task_id: task_id("old"),
            id: sub_id("p"),
        },
        subscribe(&subscription("new")),
        change(&becoming(&subscription("old"), SubscriptionState::Revoked)),
        Op::RemoveSubscription(sub_id("gone")),
        publish("x", &["new", "old"]),
    ]
}

/// What was there before.
async fn furnish(store: &dyn Store) {
    let ops = vec![
        key("old", "what it was taken for", at(100)),
        create(&task("old")),
        event(of_task("old"), 1),
        create_stream(&stream("old")),
        event(of_stream("old"), 1),
        queue("old"),
        enqueue(&entry("old")),
        put_push(&push("old", "p")),
        subscribe(&subscription("old")),
        subscribe(&subscription("gone")),
        publish("w", &["old", "gone"]),
    ];
    store.commit(commit(ops)).await.unwrap();
}

const SEEN: Eyes<'static> = Eyes {
    tasks: &["new", "old"],
    streams: &["new", "old"],
    subscriptions: &["new", "old", "gone"],
    keys: &["new", "old"],
    blobs: &[],
};

async fn is_seen_whole(on: Engine) {
    let store = on.node().await;
    furnish(&*store).await;
    let mut blob_id = None;
    let ops = one_of_everything(&mut blob_id);
    store.commit(commit(ops)).await.unwrap();

    let id = task_id("new");
    let read = store.task(&id).await.unwrap().unwrap();
    assert_eq!((read.revision, read.seq, read.messages), (2, 1, 1));
    let messages = store.messages(&id, 0..10).await.unwrap();
    assert_eq!(messages, [said("hello")]);
    assert_eq!(store.artifacts(&id).await.unwrap(), [made("a", "made")]);
    assert_eq!(log(&*store, &of_task("new")).await.len(), 1);
    assert_eq!(log(&*store, &of_stream("new")).await.len(), 1);
    assert_eq!(store.pushes(&id).await.unwrap(), [push("new", "p")]);
    assert_eq!(store.pushes(&task_id("old")).await.unwrap(), []);
    assert_eq!(store.blobs(&[blob_id.unwrap()]).await.unwrap().len(), 1);
    let taken = store.claimed("new", at(0)).await.unwrap();
    assert_eq!(taken.as_deref(), Some("taken"));
    assert_eq!(store.work_depth(at(0)).await.unwrap(), (1, 0));
    assert_eq!(store.outbox_depth().await.unwrap(), (2, 0));
    assert!(store.subscription(&sub_id("gone")).await.unwrap().is_none());
    for (subscription, signals) in [("new", &["x"][..]), ("old", &["w", "x"])] {
        let id = sub_id(subscription);
        let unacked = store.unacked_signals(&id, 0, 10).await.unwrap();
        let expected: Vec<_> = signals.iter().map(|id| signal(id)).collect();
        let read: Vec<_> = unacked.iter().map(|d| d.signal.clone()).collect();
        assert_eq!(read, expected, "{subscription}");
    }
}

/// Every way in which a commit can fail, as its last operation or its precondition.
fn failures(lost: Fence, stale: u64) -> Vec<(&'static str, Commit)> {
    let last = |op: Op| {
        let mut ops = one_of_everything(&mut None);
        ops.push(op);
        commit(ops)
    };
    let old = task("old");
    let skipping = |revision: u64| Task {
        revision,
        ..old.clone()
    };
    let stream_at = |revision: u64| Stream {
        revision,
        ..stream("old")
    };
    let subscription_at = |revision: u64| Subscription {
        revision,
        ..subscription("old")
    };
    vec![
        ("claim", last(key("old", "again", at(200)))),
        ("claim of its own", last(key("new", "again", at(200)))),
        ("create", last(create(&old))),
        ("create what it created", last(create(&task("new")))),
        ("update from an older one", last(update(&old))),
        ("update from a newer one", last(update(&skipping(3)))),
        ("update to zero", last(update(&skipping(0)))),
        ("update of nothing", last(update(&next(&task("none"))))),
        ("create stream", last(create_stream(&stream("old")))),
        ("update stream older", last(update_stream(&stream_at(1)))),
        ("update stream newer", last(update_stream(&stream_at(3)))),
        ("update stream to zero", last(update_stream(&stream_at(0)))),
        (
            "update of no stream",
            last(update_stream(&Stream {
                revision: 2,
                ..stream("none")
            })),
        ),
        ("event of a task", last(event(of_task("old"), 1))),
        ("event of a stream", last(event(of_stream("old"), 1))),
        ("event of its own", last(event(of_task("new"), 1))),
        ("subscribe", last(subscribe(&subscription("old")))),
        ("change older", last(change(&subscription_at(1)))),
        // The operations before have made revision 2 of it.
        ("change the same", last(change(&subscription_at(2)))),
        ("change newer", last(change(&subscription_at(4)))),
        ("change to zero", last(change(&subscription_at(0)))),
        (
            "change nothing",
            last(change(&becoming(
                &subscription("none"),
                SubscriptionState::Revoked,
            ))),
        ),
        (
            "change what it removed",
            last(change(&becoming(
                &subscription("gone"),
                SubscriptionState::Revoked,
            ))),
        ),
        (
            "lost lease",
            Commit {
                fence: Some(lost),
                ..commit(one_of_everything(&mut None))
            },
        ),
        (
            "old epoch",
            Commit {
                epoch: Some(stale),
                ..commit(one_of_everything(&mut None))
            },
        ),
    ]
}

async fn that_fails_leaves_nothing(on: Engine) {
    let store = on.node().await;
    furnish(&*store).await;
    let (epoch, _) = store.active_subscriptions(None).await.unwrap().unwrap();
    let lost = Fence {
        task_id: task_id("old"),
        node: "nobody".to_owned(),
        claim: 1,
    };
    let mut blob_id = None;
    one_of_everything(&mut blob_id);
    let blobs = [blob_id.unwrap()];
    let eyes = Eyes {
        blobs: &blobs,
        ..SEEN
    };
    let before = look(&*store, &eyes).await;
    for (what, failing) in failures(lost, epoch - 1) {
        let error = store.commit(failing).await.expect_err(what);
        let right = match (what, &error) {
            ("claim", StoreError::Claimed { key, value }) => {
                key == "old" && value == "what it was taken for"
            }
            ("claim of its own", StoreError::Claimed { key, value }) => {
                key == "new" && value == "taken"
            }
            ("lost lease", StoreError::Fenced) => true,
            ("old epoch", StoreError::StaleSubscriptions) => true,
            ("claim" | "claim of its own" | "lost lease" | "old epoch", _) => false,
            (_, error) => matches!(error, StoreError::Conflict),
        };
        assert!(right, "{what}: {error:?}");
        let after = look(&*store, &eyes).await;
        assert!(before == after, "{what} changed\n{before}\nto\n{after}");
    }
    // Not even a number was used up: the next delivery follows the last without a gap.
    let mut fine = one_of_everything(&mut None);
    fine.push(publish("y", &["old"]));
    store.commit(commit(fine)).await.unwrap();
    let unacked = store.unacked_signals(&sub_id("old"), 0, 9).await.unwrap();
    let numbers: Vec<u64> = unacked.iter().map(|delivery| delivery.seq).collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!(
        store.claim_work(&wish("n", 9, at(0))).await.unwrap().len(),
        1
    );
}

async fn that_is_repeated_fails(on: Engine) {
    let store = on.node().await;
    store
        .commit(commit(vec![create(&task("t"))]))
        .await
        .unwrap();
    let again = commit(vec![
        update(&next(&task("t"))),
        message("t", 0, "once"),
        enqueue(&entry("e")),
    ]);
    store.commit(again.clone()).await.unwrap();
    let same_name = store.commit(again.clone()).await;
    assert!(
        matches!(same_name, Err(StoreError::Conflict)),
        "{same_name:?}"
    );
    let renamed = store.commit(commit(again.ops)).await;
    assert!(matches!(renamed, Err(StoreError::Conflict)), "{renamed:?}");
    let read = store.task(&task_id("t")).await.unwrap().unwrap();
    assert_eq!(read.revision, 2);
    assert_eq!(store.messages(&read.id, 0..9).await.unwrap().len(), 1);
}

async fn applies_its_operations_in_order(on: Engine) {
    let store = on.node().await;
    let first = task("t");
    let second = next(&first);
    let third = next(&second);
    make(&*store, ["u"]).await;
    let ops = vec![
        create(&first),
        update(&second),
        update(&third),
        artifact("t", "a", "first"),
        artifact("t", "a", "second"),
        put_push(&push("t", "p")),
        Op::RemovePush {
            task_id: task_id("t"),
            id: sub_id("p"),
        },
        event(of_task("t"), 1),
        event(of_task("t"), 2),
        queue("t"),
        Op::EndWork(task_id("t")),
        queue("u"),
        Op::EndWork(task_id("u")),
        queue("u"),
        publish("too early", &["s"]),
        subscribe(&subscription("s")),
        publish("in time", &["s"]),
        subscribe(&subscription("r")),
        publish("in vain", &["r"]),
        Op::RemoveSubscription(sub_id("r")),
        publish("too late", &["r"]),
    ];
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(store.task(&first.id).await.unwrap(), Some(third));
    let artifacts = store.artifacts(&first.id).await.unwrap();
    assert_eq!(artifacts, [made("a", "second")]);
    assert_eq!(store.pushes(&first.id).await.unwrap(), []);
    assert_eq!(log(&*store, &of_task("t")).await.len(), 2);
    let claimed = store.claim_work(&wish("n", 9, at(0))).await.unwrap();
    let claimed: Vec<_> = claimed.iter().map(|item| item.task_id.as_str()).collect();
    assert_eq!(claimed, ["u"]);
    let unacked = store.unacked_signals(&sub_id("s"), 0, 9).await.unwrap();
    assert_eq!(unacked.len(), 1);
    assert_eq!(
        (unacked[0].seq, &unacked[0].signal),
        (1, &signal("in time"))
    );
    assert_eq!(store.subscription(&sub_id("r")).await.unwrap(), None);
}

async fn applies_in_the_order_of_its_caller(on: Engine) {
    let store = on.node().await;
    let mut last = task("t");
    store.commit(commit(vec![create(&last)])).await.unwrap();
    for step in 1..=100_i64 {
        last = Task {
            updated_at: at(step),
            ..next(&last)
        };
        let ops = vec![update(&last), artifact("t", "a", &step.to_string())];
        store.commit(commit_at(at(step), ops)).await.unwrap();
    }
    assert_eq!(store.task(&last.id).await.unwrap(), Some(last.clone()));
    let artifacts = store.artifacts(&last.id).await.unwrap();
    assert_eq!(artifacts, [made("a", "100")]);
}

async fn is_seen_by_every_node_at_once(on: Engine) {
    let nodes = on.two_nodes().await;
    let mut last = task("t");
    nodes[0].commit(commit(vec![create(&last)])).await.unwrap();
    for round in 0..50 {
        let (writer, reader) = (&nodes[round % 2], &nodes[(round + 1) % 2]);
        last = Task {
            seq: last.seq + 1,
            ..next(&last)
        };
        let ops = vec![update(&last), event(of_task("t"), last.seq)];
        writer.commit(commit(ops)).await.unwrap();
        assert_eq!(reader.task(&last.id).await.unwrap(), Some(last.clone()));
        let events = reader.events(&of_task("t"), last.seq - 1, 9).await.unwrap();
        assert_eq!(events.len(), 1);
        assert_eq!(reader.tasks(&all_tasks()).await.unwrap(), [last.clone()]);
    }
}

async fn may_be_empty(on: Engine) {
    let store = on.node().await;
    store.commit(commit(Vec::new())).await.unwrap();
    let (epoch, _) = store.active_subscriptions(None).await.unwrap().unwrap();
    let checked = Commit {
        epoch: Some(epoch),
        ..commit(Vec::new())
    };
    store.commit(checked).await.unwrap();
    let nobodys = Commit {
        fence: Some(Fence {
            task_id: task_id("t"),
            node: "n".to_owned(),
            claim: 0,
        }),
        ..commit(Vec::new())
    };
    let error = store.commit(nobodys).await;
    assert!(matches!(error, Err(StoreError::Fenced)), "{error:?}");
}

async fn may_be_long(on: Engine) {
    let store = on.node().await;
    let mut ops = vec![create(&task("t"))];
    for index in 0..2_000_u32 {
        ops.push(event(of_task("t"), u64::from(index) + 1));
        ops.push(message("t", index, &index.to_string()));
    }
    store.commit(commit(ops)).await.unwrap();
    let log = log(&*store, &of_task("t")).await;
    let numbers: Vec<u64> = log.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=2_000).collect::<Vec<_>>());
    let id = task_id("t");
    let messages = store.messages(&id, 1_998..5_000).await.unwrap();
    assert_eq!(messages, [said("1998"), said("1999")]);
}

async fn that_races_is_won_once(on: Engine) {
    let nodes = on.two_nodes().await;
    for round in 0..10 {
        let id = format!("t{round}");
        let make = |_: usize| vec![create(&task(&id)), event(of_task(&id), 1)];
        assert_eq!(race(&nodes, make).await, 1, "one creates");
        let second = next(&task(&id));
        let make = |index: usize| {
            vec![
                artifact(&id, &format!("by {index}"), "mine"),
                event(of_task(&id), 2),
                update(&second),
            ]
        };
        assert_eq!(race(&nodes, make).await, 1, "one updates");
        let artifacts = nodes[0].artifacts(&task_id(&id)).await.unwrap();
        assert_eq!(artifacts.len(), 1, "the losers left nothing");
        assert_eq!(log(&*nodes[1], &of_task(&id)).await.len(), 2);
    }
}

/// How many of twelve commits that begin together win; the others meet a conflict.
async fn race(nodes: &[Arc<dyn Store>; 2], make: impl Fn(usize) -> Vec<Op>) -> usize {
    let mut racing = tokio::task::JoinSet::new();
    for index in 0..12 {
        let (node, commit) = (nodes[index % 2].clone(), commit(make(index)));
        racing.spawn(async move { node.commit(commit).await });
    }
    let results = racing.join_all().await;
    for result in &results {
        let expected = matches!(result, Ok(()) | Err(StoreError::Conflict));
        assert!(expected, "{result:?}");
    }
    results.iter().filter(|result| result.is_ok()).count()
}

async fn of_revision_zero_is_no_special_case(on: Engine) {
    let store = on.node().await;
    let first = Task {
        revision: 0,
        ..task("t")
    };
    store.commit(commit(vec![create(&first)])).await.unwrap();
    let second = next(&first);
    store.commit(commit(vec![update(&second)])).await.unwrap();
    assert_eq!(store.task(&first.id).await.unwrap(), Some(second));
}
