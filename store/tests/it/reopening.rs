//! Reopening a store: all data is present, and counters continue.

use crate::builders::{
    artifact, blob, claim_key, commit, create, create_stream, create_tasks, enqueue, enqueue_work,
    entry, event, message, next_revision, outbox_claim, publish, push, put_blob, put_push,
    signal_id, since_start, stream, stream_subject, sub_id, subscribe, subscription, task,
    task_subject, time_at, update, web_channel, work_claim,
};
use crate::engine::{Engine, drop_schema, postgres_node, postgres_options, postgres_url, run_sql};
use crate::snapshot::{SnapshotScope, take_snapshot};
use interzone_hub::ports::{Commit, StoreError};
use interzone_hub::{Charge, DeliveryResult, IdSource, RandomIds, Rate};
use interzone_store::postgres::PostgresStore;
use std::time::Duration;

contract_tests!(
    reopened_store_has_all_data,
    reopened_store_releases_claims_of_dead_process,
    reopened_store_keeps_counters,
    store_can_be_reopened_repeatedly,
    version_check_does_not_create_tables,
);

async fn reopened_store_has_all_data(on: Engine) {
    let store = on.node().await;
    let blob = blob("\"content\"");
    let ops = vec![
        claim_key("key", "taken", time_at(100)),
        create(&task("t")),
        update(&next_revision(&task("t"))),
        message("t", 0, "hello"),
        artifact("t", "b", "1"),
        artifact("t", "a", "2"),
        put_blob(task_subject("t"), &blob),
        event(task_subject("t"), 1),
        put_push(&push("t", "p")),
        enqueue_work("t"),
        create_stream(&stream("s")),
        event(stream_subject("s"), 1),
        enqueue(&entry("e")),
        enqueue(&entry("dead")),
        subscribe(&subscription("x")),
        subscribe(&subscription("y")),
        publish("1", &["x", "y"]),
        publish("2", &["x"]),
    ];
    store.commit(commit(ops)).await.unwrap();
    let claimed = store
        .claim_outbox(&outbox_claim(&web_channel(), time_at(0), time_at(1), 1))
        .await
        .unwrap();
    let dead = DeliveryResult::Dead {
        error: "no".to_owned(),
    };
    assert!(
        store
            .settle_outbox(&claimed[0].id, 1, &dead, time_at(0))
            .await
            .unwrap()
    );
    store
        .dead_letter_signal(&sub_id("x"), 1, time_at(0))
        .await
        .unwrap();
    let scope = SnapshotScope {
        tasks: &["t"],
        streams: &["s"],
        subscriptions: &["x", "y"],
        keys: &["key"],
        blobs: &[blob.id],
    };
    let before = take_snapshot(&*store, &scope).await;
    let store = on.reopen(store).await;
    let after = take_snapshot(&*store, &scope).await;
    assert!(before == after, "\n{before}\nbecame\n{after}");
    store.check().await.unwrap();
}

/// A file has one process, so the process that opens it may release all claims. On a server other nodes may be
/// running.
async fn reopened_store_releases_claims_of_dead_process(on: Engine) {
    let store = on.node().await;
    create_tasks(&*store, ["t", "later"]).await;
    let ops = vec![
        enqueue_work("t"),
        enqueue_work("later"),
        enqueue(&entry("held")),
        enqueue(&entry("waits")),
        subscribe(&subscription("s")),
        publish("x", &["s"]),
    ];
    store.commit(commit(ops)).await.unwrap();
    let items = store
        .claim_work(&work_claim("n", 2, time_at(0)))
        .await
        .unwrap();
    let (first, later) = (&items[0], &items[1]);
    // Released with a delay, which is no lease.
    let back = store.release_work(
        &later.task_id,
        "n",
        later.claim,
        since_start(time_at(500)),
        time_at(0),
    );
    assert!(back.await.unwrap());
    let out = store
        .claim_outbox(&outbox_claim(&web_channel(), time_at(0), time_at(400), 9))
        .await
        .unwrap();
    let (held, waits) = (&out[0], &out[1]);
    let retry = DeliveryResult::Retry {
        due_at: time_at(400),
        error: "no".to_owned(),
    };
    let settled = store.settle_outbox(&waits.id, 1, &retry, time_at(0));
    assert!(settled.await.unwrap());
    let (id, wait) = (sub_id("s"), [Duration::from_millis(400)]);
    store
        .claim_signals(&id, time_at(0), &wait, 9)
        .await
        .unwrap();

    let store = on.reopen(store).await;
    let fetched = store
        .claim_signals(&id, time_at(399), &wait, 9)
        .await
        .unwrap();
    assert_eq!(fetched, [], "the receiver may still have it");
    let work = store
        .claim_work(&work_claim("m", 2, time_at(10)))
        .await
        .unwrap();
    let sent = store
        .claim_outbox(&outbox_claim(&web_channel(), time_at(10), time_at(600), 9))
        .await
        .unwrap();
    if on.is_shared() {
        assert_eq!((work, sent), (Vec::new(), Vec::new()));
        // Another node may be running it until the lease is over.
        let work = store
            .claim_work(&work_claim("m", 2, time_at(1_000)))
            .await
            .unwrap();
        assert_eq!(work[0].attempt, 2);
        return;
    }
    assert_eq!(work.len(), 1, "{work:?}");
    assert_eq!(work[0].task_id, first.task_id);
    assert_eq!(work[0].attempt, 2, "the aborted run counts");
    assert!(work[0].claim > first.claim);
    let late = Commit {
        fence: Some(crate::builders::fence(first, "n")),
        ..commit(Vec::new())
    };
    let late = store.commit(late).await;
    assert!(matches!(late, Err(StoreError::Fenced)), "{late:?}");
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert_eq!((&sent[0].id, sent[0].attempt), (&held.id, 2));
    // Items that only waited keep waiting, each for its own time.
    let waited = store
        .claim_outbox(&outbox_claim(&web_channel(), time_at(400), time_at(600), 9))
        .await
        .unwrap();
    assert_eq!(waited[0].id, waits.id);
    let waited = store
        .claim_work(&work_claim("m", 2, time_at(500)))
        .await
        .unwrap();
    assert_eq!(waited[0].task_id, later.task_id);
}

async fn reopened_store_keeps_counters(on: Engine) {
    let store = on.node().await;
    let rate = Rate {
        limit: 3,
        window: Duration::from_secs(60),
    };
    store.charge("k", rate, 2, time_at(0)).await.unwrap();
    let ops = vec![subscribe(&subscription("s")), publish("x", &["s"])];
    store.commit(commit(ops)).await.unwrap();
    let ids = [signal_id("x")];
    store
        .ack_signals(&sub_id("s"), &ids, time_at(0))
        .await
        .unwrap();
    let (epoch, _) = store.active_subscriptions(None).await.unwrap().unwrap();
    create_tasks(&*store, ["t"]).await;
    store.commit(commit(vec![enqueue_work("t")])).await.unwrap();
    let first = store
        .claim_work(&work_claim("n", 1, time_at(0)))
        .await
        .unwrap();
    let ended = vec![interzone_hub::ports::Op::DequeueWork(
        first[0].task_id.clone(),
    )];
    store.commit(commit(ended)).await.unwrap();

    let store = on.reopen(store).await;
    let charge = store.charge("k", rate, 1, time_at(0)).await.unwrap();
    assert_eq!(charge, Charge::Allowed { remaining: 0 });
    let charge = store.charge("k", rate, 1, time_at(0)).await.unwrap();
    assert!(matches!(charge, Charge::Refused { .. }), "{charge:?}");
    store
        .commit(commit(vec![publish("y", &["s"])]))
        .await
        .unwrap();
    let signals = store.unacked_signals(&sub_id("s"), 0, 9).await.unwrap();
    assert_eq!(signals[0].seq, 2, "sequence numbers continue");
    assert_eq!(store.active_subscriptions(Some(epoch)).await.unwrap(), None);
    let ops = vec![subscribe(&subscription("r"))];
    store.commit(commit(ops)).await.unwrap();
    let (later, _) = store.active_subscriptions(None).await.unwrap().unwrap();
    assert!(later > epoch);
    store.commit(commit(vec![enqueue_work("t")])).await.unwrap();
    let second = store
        .claim_work(&work_claim("n", 1, time_at(0)))
        .await
        .unwrap();
    assert!(
        second[0].claim > first[0].claim,
        "claim numbers are never reused"
    );
}

async fn store_can_be_reopened_repeatedly(on: Engine) {
    let mut store = on.node().await;
    for round in 0..5_u64 {
        let ops = vec![event(task_subject("t"), round + 1)];
        store.commit(commit(ops)).await.unwrap();
        store = on.reopen(store).await;
        let events = store.events(&task_subject("t"), 0, 99).await.unwrap();
        assert_eq!(events.len() as u64, round + 1);
        let again = store
            .commit(commit(vec![event(task_subject("t"), 1)]))
            .await;
        assert!(matches!(again, Err(StoreError::Conflict)), "{again:?}");
    }
}

async fn version_check_does_not_create_tables(on: Engine) {
    // The second check would find what the first has created.
    assert!(!on.is_current().await);
    assert!(!on.is_current().await);
    let _store = on.node().await;
    assert!(on.is_current().await);
}

/// Tables whose version row is not that of this version are rejected, and the error says what to do.
#[tokio::test]
async fn unsupported_postgres_tables_are_rejected() {
    let (url, schema) = (postgres_url(), format!("test_{:016x}", RandomIds.random()));
    drop(postgres_node(&url, &schema).await);
    for (version_row, expected) in [
        ("name = 'schema_version', value = '99'", "supports up to 1"),
        (
            "name = 'version', value = '5'",
            "drop the schema to start empty",
        ),
    ] {
        run_sql(&url, &schema, &format!("UPDATE meta SET {version_row}")).await;
        let connected = PostgresStore::connect(&url, postgres_options(&schema)).await;
        let error = connected.err().unwrap();
        assert!(matches!(error, StoreError::Unusable(_)), "{error:?}");
        assert!(error.to_string().contains(expected), "{error}");
    }
    drop_schema(&url, &schema).await;
}
