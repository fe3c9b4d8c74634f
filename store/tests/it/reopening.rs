//! Closing and opening: everything is still there, and goes on where it was.

use crate::engine::Engine;
use crate::make::{
    artifact, at, blob, carry_wish, commit, create, create_stream, enqueue, entry, event,
    from_start, key, make, message, next, of_stream, of_task, publish, push, put_blob, put_push,
    queue, signal_id, stream, sub_id, subscribe, subscription, task, update, web, wish,
};
use crate::snapshot::{Eyes, look};
use interzone_hub::ports::{Commit, StoreError};
use interzone_hub::{Charge, Rate, Settlement};
use std::time::Duration;

contract!(
    keeps_everything,
    takes_over_from_those_who_are_gone,
    keeps_what_was_counted,
    can_be_done_again_and_again,
    is_not_done_by_a_look,
);

async fn keeps_everything(on: Engine) {
    let store = on.node().await;
    let blob = blob("\"kept\"");
    let ops = vec![
        key("key", "taken", at(100)),
        create(&task("t")),
        update(&next(&task("t"))),
        message("t", 0, "hello"),
        artifact("t", "b", "1"),
        artifact("t", "a", "2"),
        put_blob(of_task("t"), &blob),
        event(of_task("t"), 1),
        put_push(&push("t", "p")),
        queue("t"),
        create_stream(&stream("s")),
        event(of_stream("s"), 1),
        enqueue(&entry("e")),
        enqueue(&entry("dead")),
        subscribe(&subscription("x")),
        subscribe(&subscription("y")),
        publish("1", &["x", "y"]),
        publish("2", &["x"]),
    ];
    store.commit(commit(ops)).await.unwrap();
    let claimed = store
        .claim_outbox(&carry_wish(&web(), at(0), at(1), 1))
        .await
        .unwrap();
    let dead = Settlement::Dead {
        error: "no".to_owned(),
    };
    assert!(
        store
            .settle_outbox(&claimed[0].id, 1, &dead, at(0))
            .await
            .unwrap()
    );
    store.bury_signal(&sub_id("x"), 1, at(0)).await.unwrap();
    let eyes = Eyes {
        tasks: &["t"],
        streams: &["s"],
        subscriptions: &["x", "y"],
        keys: &["key"],
        blobs: &[blob.id],
    };
    let before = look(&*store, &eyes).await;
    let store = on.reopen(store).await;
    let after = look(&*store, &eyes).await;
    assert!(before == after, "\n{before}\nbecame\n{after}");
    store.check().await.unwrap();
}

/// A file has one process, so whoever has just opened it knows that nobody else is at work. On a server
/// somebody may be.
async fn takes_over_from_those_who_are_gone(on: Engine) {
    let store = on.node().await;
    make(&*store, ["t", "later"]).await;
    let ops = vec![
        queue("t"),
        queue("later"),
        enqueue(&entry("held")),
        enqueue(&entry("waits")),
        subscribe(&subscription("s")),
        publish("x", &["s"]),
    ];
    store.commit(commit(ops)).await.unwrap();
    let items = store.claim_work(&wish("n", 2, at(0))).await.unwrap();
    let (first, later) = (&items[0], &items[1]);
    // Given back for later, which is a wait and no hold.
    let back = store.release_work(&later.task_id, "n", later.claim, from_start(at(500)), at(0));
    assert!(back.await.unwrap());
    let out = store
        .claim_outbox(&carry_wish(&web(), at(0), at(400), 9))
        .await
        .unwrap();
    let (held, waits) = (&out[0], &out[1]);
    let retry = Settlement::Retry {
        due_at: at(400),
        error: "no".to_owned(),
    };
    let settled = store.settle_outbox(&waits.id, 1, &retry, at(0));
    assert!(settled.await.unwrap());
    let (id, wait) = (sub_id("s"), [Duration::from_millis(400)]);
    store.claim_signals(&id, at(0), &wait, 9).await.unwrap();

    let store = on.reopen(store).await;
    let fetched = store.claim_signals(&id, at(399), &wait, 9).await.unwrap();
    assert_eq!(fetched, [], "the receiver may still have it");
    let work = store.claim_work(&wish("m", 2, at(10))).await.unwrap();
    let sent = store
        .claim_outbox(&carry_wish(&web(), at(10), at(600), 9))
        .await
        .unwrap();
    if on.is_shared() {
        assert_eq!((work, sent), (Vec::new(), Vec::new()));
        // Another node may be at it until the lease is over.
        let work = store.claim_work(&wish("m", 2, at(1_000))).await.unwrap();
        assert_eq!(work[0].attempt, 2);
        return;
    }
    assert_eq!(work.len(), 1, "{work:?}");
    assert_eq!(work[0].task_id, first.task_id);
    assert_eq!(work[0].attempt, 2, "the run that was cut off counts");
    assert!(work[0].claim > first.claim);
    let late = Commit {
        fence: Some(crate::make::fence(first, "n")),
        ..commit(Vec::new())
    };
    let late = store.commit(late).await;
    assert!(matches!(late, Err(StoreError::Fenced)), "{late:?}");
    assert_eq!(sent.len(), 1, "{sent:?}");
    assert_eq!((&sent[0].id, sent[0].attempt), (&held.id, 2));
    // What only waited goes on waiting, each for its own moment.
    let waited = store
        .claim_outbox(&carry_wish(&web(), at(400), at(600), 9))
        .await
        .unwrap();
    assert_eq!(waited[0].id, waits.id);
    let waited = store.claim_work(&wish("m", 2, at(500))).await.unwrap();
    assert_eq!(waited[0].task_id, later.task_id);
}

async fn keeps_what_was_counted(on: Engine) {
    let store = on.node().await;
    let rate = Rate {
        limit: 3,
        window: Duration::from_secs(60),
    };
    store.charge("k", rate, 2, at(0)).await.unwrap();
    let ops = vec![subscribe(&subscription("s")), publish("x", &["s"])];
    store.commit(commit(ops)).await.unwrap();
    let ids = [signal_id("x")];
    store.ack_signals(&sub_id("s"), &ids, at(0)).await.unwrap();
    let (epoch, _) = store.active_subscriptions(None).await.unwrap().unwrap();
    make(&*store, ["t"]).await;
    store.commit(commit(vec![queue("t")])).await.unwrap();
    let first = store.claim_work(&wish("n", 1, at(0))).await.unwrap();
    let ended = vec![interzone_hub::ports::Op::EndWork(first[0].task_id.clone())];
    store.commit(commit(ended)).await.unwrap();

    let store = on.reopen(store).await;
    let charge = store.charge("k", rate, 1, at(0)).await.unwrap();
    assert_eq!(charge, Charge::Allowed { left: 0 });
    let charge = store.charge("k", rate, 1, at(0)).await.unwrap();
    assert!(matches!(charge, Charge::Refused { .. }), "{charge:?}");
    store
        .commit(commit(vec![publish("y", &["s"])]))
        .await
        .unwrap();
    let signals = store.unacked_signals(&sub_id("s"), 0, 9).await.unwrap();
    assert_eq!(signals[0].seq, 2, "numbers go on");
    assert_eq!(store.active_subscriptions(Some(epoch)).await.unwrap(), None);
    let ops = vec![subscribe(&subscription("r"))];
    store.commit(commit(ops)).await.unwrap();
    let (later, _) = store.active_subscriptions(None).await.unwrap().unwrap();
    assert!(later > epoch);
    store.commit(commit(vec![queue("t")])).await.unwrap();
    let second = store.claim_work(&wish("n", 1, at(0))).await.unwrap();
    assert!(
        second[0].claim > first[0].claim,
        "numbers are never given twice"
    );
}

async fn can_be_done_again_and_again(on: Engine) {
    let mut store = on.node().await;
    for round in 0..5_u64 {
        let ops = vec![event(of_task("t"), round + 1)];
        store.commit(commit(ops)).await.unwrap();
        store = on.reopen(store).await;
        let events = store.events(&of_task("t"), 0, 99).await.unwrap();
        assert_eq!(events.len() as u64, round + 1);
        let again = store.commit(commit(vec![event(of_task("t"), 1)])).await;
        assert!(matches!(again, Err(StoreError::Conflict)), "{again:?}");
    }
}

async fn is_not_done_by_a_look(on: Engine) {
    // The second look would find what the first has made.
    assert!(!on.is_current().await);
    assert!(!on.is_current().await);
    let _store = on.node().await;
    assert!(on.is_current().await);
}
