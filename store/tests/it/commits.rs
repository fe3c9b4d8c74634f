//! Commits: atomic, with preconditions, applied in order.

use crate::builders::{
    all_tasks, artifact, blob, claim_key, commit, commit_at, create, create_stream, create_tasks,
    enqueue, enqueue_work, entry, event, message, next_revision, publish, push, put_blob, put_push,
    report_artifact, signal, stream, stream_subject, sub_id, subscribe, subscription, task,
    task_id, task_subject, time_at, update, update_stream, update_subscription, user_message,
    with_state, work_claim,
};
use crate::engine::Engine;
use crate::snapshot::{SnapshotScope, event_log, take_snapshot};
use interzone_hub::ports::{Commit, Fence, Op, Store, StoreError};
use interzone_hub::{BlobId, Stream, Subscription, SubscriptionState, Task};
use std::sync::Arc;

contract_tests!(
    commit_is_visible_completely,
    failed_commit_leaves_nothing,
    repeated_commit_fails,
    commit_applies_operations_in_order,
    commits_apply_in_call_order,
    commit_is_visible_to_all_nodes_at_once,
    empty_commit_checks_preconditions,
    commit_with_many_operations_succeeds,
    concurrent_conflicting_commits_have_one_winner,
    revision_zero_is_no_special_case,
);

/// One operation of every kind that can succeed, on subjects named `new`.
fn one_of_everything(blob_id: &mut Option<BlobId>) -> Vec<Op> {
    let blob = blob(r#""something large""#);
    *blob_id = Some(blob.id);
    vec![
        claim_key("new", "taken", time_at(100)),
        create(&task("new")),
        update(&Task {
            seq: 1,
            message_count: 1,
            artifact_count: 1,
            push_count: 1,
            ..next_revision(&task("new"))
        }),
        message("new", 0, "hello"),
        artifact("new", "a", "made"),
        put_blob(task_subject("new"), &blob),
        event(task_subject("new"), 1),
        create_stream(&stream("new")),
        update_stream(&Stream {
            seq: 1,
            revision: 2,
            ..stream("new")
        }),
        event(stream_subject("new"), 1),
        enqueue_work("new"),
        Op::DequeueWork(task_id("old")),
        enqueue(&entry("new")),
        put_push(&push("new", "p")),
        Op::RemovePushSubscription {
            task_id: task_id("old"),
            id: sub_id("p"),
        },
        subscribe(&subscription("new")),
        update_subscription(&with_state(
            &subscription("old"),
            SubscriptionState::Revoked,
        )),
        Op::RemoveSubscription(sub_id("gone")),
        publish("x", &["new", "old"]),
    ]
}

/// Creates the initial data.
async fn create_initial_data(store: &dyn Store) {
    let ops = vec![
        claim_key("old", "what it was taken for", time_at(100)),
        create(&task("old")),
        event(task_subject("old"), 1),
        create_stream(&stream("old")),
        event(stream_subject("old"), 1),
        enqueue_work("old"),
        enqueue(&entry("old")),
        put_push(&push("old", "p")),
        subscribe(&subscription("old")),
        subscribe(&subscription("gone")),
        publish("w", &["old", "gone"]),
    ];
    store.commit(commit(ops)).await.unwrap();
}

const SNAPSHOT_SCOPE: SnapshotScope<'static> = SnapshotScope {
    tasks: &["new", "old"],
    streams: &["new", "old"],
    subscriptions: &["new", "old", "gone"],
    keys: &["new", "old"],
    blobs: &[],
};

async fn commit_is_visible_completely(on: Engine) {
    let store = on.node().await;
    create_initial_data(&*store).await;
    let mut blob_id = None;
    let ops = one_of_everything(&mut blob_id);
    store.commit(commit(ops)).await.unwrap();

    let id = task_id("new");
    let read = store.task(&id).await.unwrap().unwrap();
    assert_eq!((read.revision, read.seq, read.message_count), (2, 1, 1));
    let messages = store.messages(&id, 0..10).await.unwrap();
    assert_eq!(messages, [user_message("hello")]);
    assert_eq!(
        store.artifacts(&id).await.unwrap(),
        [report_artifact("a", "made")]
    );
    assert_eq!(event_log(&*store, &task_subject("new")).await.len(), 1);
    assert_eq!(event_log(&*store, &stream_subject("new")).await.len(), 1);
    assert_eq!(
        store.push_subscriptions(&id).await.unwrap(),
        [push("new", "p")]
    );
    assert_eq!(store.push_subscriptions(&task_id("old")).await.unwrap(), []);
    assert_eq!(store.blobs(&[blob_id.unwrap()]).await.unwrap().len(), 1);
    let taken = store.claimed_value("new", time_at(0)).await.unwrap();
    assert_eq!(taken.as_deref(), Some("taken"));
    assert_eq!(store.work_depth(time_at(0)).await.unwrap(), (1, 0));
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
        ("claim", last(claim_key("old", "again", time_at(200)))),
        (
            "claim of its own",
            last(claim_key("new", "again", time_at(200))),
        ),
        ("create", last(create(&old))),
        ("create what it created", last(create(&task("new")))),
        ("update from an older one", last(update(&old))),
        ("update from a newer one", last(update(&skipping(3)))),
        ("update to zero", last(update(&skipping(0)))),
        (
            "update of nothing",
            last(update(&next_revision(&task("none")))),
        ),
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
        ("event of a task", last(event(task_subject("old"), 1))),
        ("event of a stream", last(event(stream_subject("old"), 1))),
        ("event of its own", last(event(task_subject("new"), 1))),
        ("subscribe", last(subscribe(&subscription("old")))),
        (
            "change older",
            last(update_subscription(&subscription_at(1))),
        ),
        // The operations before have written revision 2 of it.
        (
            "change the same",
            last(update_subscription(&subscription_at(2))),
        ),
        (
            "change newer",
            last(update_subscription(&subscription_at(4))),
        ),
        (
            "change to zero",
            last(update_subscription(&subscription_at(0))),
        ),
        (
            "change nothing",
            last(update_subscription(&with_state(
                &subscription("none"),
                SubscriptionState::Revoked,
            ))),
        ),
        (
            "change what it removed",
            last(update_subscription(&with_state(
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

async fn failed_commit_leaves_nothing(on: Engine) {
    let store = on.node().await;
    create_initial_data(&*store).await;
    let (epoch, _) = store.active_subscriptions(None).await.unwrap().unwrap();
    let lost = Fence {
        task_id: task_id("old"),
        node: "unknown".to_owned(),
        claim: 1,
    };
    let mut blob_id = None;
    one_of_everything(&mut blob_id);
    let blobs = [blob_id.unwrap()];
    let scope = SnapshotScope {
        blobs: &blobs,
        ..SNAPSHOT_SCOPE
    };
    let before = take_snapshot(&*store, &scope).await;
    for (what, failing) in failures(lost, epoch - 1) {
        let error = store.commit(failing).await.expect_err(what);
        let right = match (what, &error) {
            ("claim", StoreError::KeyTaken { key, value }) => {
                key == "old" && value == "what it was taken for"
            }
            ("claim of its own", StoreError::KeyTaken { key, value }) => {
                key == "new" && value == "taken"
            }
            ("lost lease", StoreError::Fenced) => true,
            ("old epoch", StoreError::StaleSubscriptions) => true,
            ("claim" | "claim of its own" | "lost lease" | "old epoch", _) => false,
            (_, error) => matches!(error, StoreError::Conflict),
        };
        assert!(right, "{what}: {error:?}");
        let after = take_snapshot(&*store, &scope).await;
        assert!(before == after, "{what} changed\n{before}\nto\n{after}");
    }
    // No sequence number was used up: the next delivery follows the last without a gap.
    let mut fine = one_of_everything(&mut None);
    fine.push(publish("y", &["old"]));
    store.commit(commit(fine)).await.unwrap();
    let unacked = store.unacked_signals(&sub_id("old"), 0, 9).await.unwrap();
    let numbers: Vec<u64> = unacked.iter().map(|delivery| delivery.seq).collect();
    assert_eq!(numbers, [1, 2, 3]);
    assert_eq!(
        store
            .claim_work(&work_claim("n", 9, time_at(0)))
            .await
            .unwrap()
            .len(),
        1
    );
}

async fn repeated_commit_fails(on: Engine) {
    let store = on.node().await;
    store
        .commit(commit(vec![create(&task("t"))]))
        .await
        .unwrap();
    let again = commit(vec![
        update(&next_revision(&task("t"))),
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

async fn commit_applies_operations_in_order(on: Engine) {
    let store = on.node().await;
    let first = task("t");
    let second = next_revision(&first);
    let third = next_revision(&second);
    create_tasks(&*store, ["u"]).await;
    let ops = vec![
        create(&first),
        update(&second),
        update(&third),
        artifact("t", "a", "first"),
        artifact("t", "a", "second"),
        put_push(&push("t", "p")),
        Op::RemovePushSubscription {
            task_id: task_id("t"),
            id: sub_id("p"),
        },
        event(task_subject("t"), 1),
        event(task_subject("t"), 2),
        enqueue_work("t"),
        Op::DequeueWork(task_id("t")),
        enqueue_work("u"),
        Op::DequeueWork(task_id("u")),
        enqueue_work("u"),
        publish("too early", &["s"]),
        subscribe(&subscription("s")),
        publish("in time", &["s"]),
        subscribe(&subscription("r")),
        publish("removed", &["r"]),
        Op::RemoveSubscription(sub_id("r")),
        publish("too late", &["r"]),
    ];
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(store.task(&first.id).await.unwrap(), Some(third));
    let artifacts = store.artifacts(&first.id).await.unwrap();
    assert_eq!(artifacts, [report_artifact("a", "second")]);
    assert_eq!(store.push_subscriptions(&first.id).await.unwrap(), []);
    assert_eq!(event_log(&*store, &task_subject("t")).await.len(), 2);
    let claimed = store
        .claim_work(&work_claim("n", 9, time_at(0)))
        .await
        .unwrap();
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

async fn commits_apply_in_call_order(on: Engine) {
    let store = on.node().await;
    let mut last = task("t");
    store.commit(commit(vec![create(&last)])).await.unwrap();
    for step in 1..=100_i64 {
        last = Task {
            updated_at: time_at(step),
            ..next_revision(&last)
        };
        let ops = vec![update(&last), artifact("t", "a", &step.to_string())];
        store.commit(commit_at(time_at(step), ops)).await.unwrap();
    }
    assert_eq!(store.task(&last.id).await.unwrap(), Some(last.clone()));
    let artifacts = store.artifacts(&last.id).await.unwrap();
    assert_eq!(artifacts, [report_artifact("a", "100")]);
}

async fn commit_is_visible_to_all_nodes_at_once(on: Engine) {
    let nodes = on.two_nodes().await;
    let mut last = task("t");
    nodes[0].commit(commit(vec![create(&last)])).await.unwrap();
    for round in 0..50 {
        let (writer, reader) = (&nodes[round % 2], &nodes[(round + 1) % 2]);
        last = Task {
            seq: last.seq + 1,
            ..next_revision(&last)
        };
        let ops = vec![update(&last), event(task_subject("t"), last.seq)];
        writer.commit(commit(ops)).await.unwrap();
        assert_eq!(reader.task(&last.id).await.unwrap(), Some(last.clone()));
        let events = reader
            .events(&task_subject("t"), last.seq - 1, 9)
            .await
            .unwrap();
        assert_eq!(events.len(), 1);
        assert_eq!(reader.tasks(&all_tasks()).await.unwrap(), [last.clone()]);
    }
}

async fn empty_commit_checks_preconditions(on: Engine) {
    let store = on.node().await;
    store.commit(commit(Vec::new())).await.unwrap();
    let (epoch, _) = store.active_subscriptions(None).await.unwrap().unwrap();
    let checked = Commit {
        epoch: Some(epoch),
        ..commit(Vec::new())
    };
    store.commit(checked).await.unwrap();
    let unclaimed = Commit {
        fence: Some(Fence {
            task_id: task_id("t"),
            node: "n".to_owned(),
            claim: 0,
        }),
        ..commit(Vec::new())
    };
    let error = store.commit(unclaimed).await;
    assert!(matches!(error, Err(StoreError::Fenced)), "{error:?}");
}

async fn commit_with_many_operations_succeeds(on: Engine) {
    let store = on.node().await;
    let mut ops = vec![create(&task("t"))];
    for index in 0..2_000_u32 {
        ops.push(event(task_subject("t"), u64::from(index) + 1));
        ops.push(message("t", index, &index.to_string()));
    }
    store.commit(commit(ops)).await.unwrap();
    let log = event_log(&*store, &task_subject("t")).await;
    let numbers: Vec<u64> = log.iter().map(|event| event.seq).collect();
    assert_eq!(numbers, (1..=2_000).collect::<Vec<_>>());
    let id = task_id("t");
    let messages = store.messages(&id, 1_998..5_000).await.unwrap();
    assert_eq!(messages, [user_message("1998"), user_message("1999")]);
}

async fn concurrent_conflicting_commits_have_one_winner(on: Engine) {
    let nodes = on.two_nodes().await;
    for round in 0..10 {
        let id = format!("t{round}");
        let make = |_: usize| vec![create(&task(&id)), event(task_subject(&id), 1)];
        assert_eq!(race(&nodes, make).await, 1, "one creates");
        let second = next_revision(&task(&id));
        let make = |index: usize| {
            vec![
                artifact(&id, &format!("by {index}"), "mine"),
                event(task_subject(&id), 2),
                update(&second),
            ]
        };
        assert_eq!(race(&nodes, make).await, 1, "one updates");
        let artifacts = nodes[0].artifacts(&task_id(&id)).await.unwrap();
        assert_eq!(artifacts.len(), 1, "the losers left nothing");
        assert_eq!(event_log(&*nodes[1], &task_subject(&id)).await.len(), 2);
    }
}

/// Number of twelve concurrent commits that succeed; the others get a conflict.
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

async fn revision_zero_is_no_special_case(on: Engine) {
    let store = on.node().await;
    let first = Task {
        revision: 0,
        ..task("t")
    };
    store.commit(commit(vec![create(&first)])).await.unwrap();
    let second = next_revision(&first);
    store.commit(commit(vec![update(&second)])).await.unwrap();
    assert_eq!(store.task(&first.id).await.unwrap(), Some(second));
}
