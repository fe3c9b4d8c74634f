//! Where the words of the contract leave room: both engines fill it in the same way.

use crate::engine::Engine;
use crate::make::{
    agent, at, carry_wish, commit, commit_at, create, delivery_id, enqueue, entry, fence,
    from_start, make, message, publish, queue, queue_for, said, signal_id, sub_id, subscribe,
    subscription, task, task_id, web, wish,
};
use interzone_hub::ports::{Commit, StoreError, WorkClaim};
use interzone_hub::{Acked, OutboxEntry, Settlement};
use interzone_protocol::vocab::Priority;

contract!(
    of_leases,
    of_the_queue,
    of_what_is_settled,
    of_groups,
    of_messages,
    of_receivers,
    of_what_was_given_up,
);

async fn of_leases(on: Engine) {
    let store = on.node().await;
    make(&*store, ["t"]).await;
    store.commit(commit(vec![queue("t")])).await.unwrap();
    let item = store
        .claim_work(&wish("n", 1, at(0)))
        .await
        .unwrap()
        .remove(0);
    // Over, but nobody has taken it: nobody is harmed by what its holder writes.
    let late = Commit {
        fence: Some(fence(&item, "n")),
        ..commit_at(at(5_000), Vec::new())
    };
    store.commit(late).await.unwrap();
    let renewed = store.renew_work(&item.task_id, "n", item.claim, from_start(at(1_000)), at(0));
    assert!(renewed.await.unwrap());
    // It is held until that moment, and no longer at it.
    let items = store.claim_work(&wish("m", 1, at(1_000))).await.unwrap();
    assert_eq!(items.len(), usize::from(on.is_shared()));
}

async fn of_the_queue(on: Engine) {
    let store = on.node().await;
    make(&*store, ["first", "second", "later"]).await;
    let ops = vec![queue("first"), queue("second")];
    store.commit(commit(ops)).await.unwrap();
    // Whoever is queued again stands at the end.
    store.commit(commit(vec![queue("first")])).await.unwrap();
    // An agent that is named twice wants both.
    let twice = WorkClaim {
        wanted: vec![(agent("agent"), 1), (agent("agent"), 1)],
        ..wish("n", 0, at(0))
    };
    let items = store.claim_work(&twice).await.unwrap();
    let ids: Vec<_> = items.iter().map(|item| item.task_id.as_str()).collect();
    assert_eq!(ids, ["second", "first"]);
    // What is not due yet waits as well.
    let ops = vec![queue_for("later", "agent", Priority::Low, at(90_000))];
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(store.work_depth(at(0)).await.unwrap(), (1, 2));
    // Nobody could do what is not there.
    let early = vec![queue("never made"), create(&task("never made"))];
    for ops in [vec![queue("never made")], early] {
        let none = store.commit(commit(ops)).await;
        assert!(matches!(none, Err(StoreError::Conflict)), "{none:?}");
    }
    assert_eq!(store.work_depth(at(0)).await.unwrap(), (1, 2));
}

async fn of_what_is_settled(on: Engine) {
    let store = on.node().await;
    store
        .commit(commit(vec![enqueue(&entry("e"))]))
        .await
        .unwrap();
    store
        .claim_outbox(&carry_wish(&web(), at(0), at(9), 9))
        .await
        .unwrap();
    assert_eq!(
        store.outbox_depth().await.unwrap(),
        (1, 0),
        "held is waiting"
    );
    let id = delivery_id("e");
    let done = Settlement::Delivered;
    assert!(store.settle_outbox(&id, 1, &done, at(1)).await.unwrap());
    // Settled is settled, whatever is said about the same attempt afterwards.
    let retry = Settlement::Retry {
        due_at: at(2),
        error: "too late".to_owned(),
    };
    for again in [&done, &retry] {
        assert!(!store.settle_outbox(&id, 1, again, at(1)).await.unwrap());
    }
    let due = store
        .claim_outbox(&carry_wish(&web(), at(99), at(999), 9))
        .await
        .unwrap();
    assert_eq!(due, []);
    // An id names one entry.
    let other = OutboxEntry {
        key: "another".to_owned(),
        ..entry("e")
    };
    let taken = store.commit(commit(vec![enqueue(&other)])).await;
    assert!(matches!(taken, Err(StoreError::Conflict)), "{taken:?}");
}

async fn of_groups(on: Engine) {
    let store = on.node().await;
    let of_group = |id: &str, channel: &str| OutboxEntry {
        group: Some("g".to_owned()),
        channel: channel.to_owned(),
        ..entry(id)
    };
    let ops = vec![
        enqueue(&of_group("first", "web")),
        enqueue(&of_group("second", "web")),
        enqueue(&of_group("third", "mail")),
    ];
    store.commit(commit(ops)).await.unwrap();
    store
        .claim_outbox(&carry_wish(&web(), at(0), at(100), 9))
        .await
        .unwrap();
    // The second is due, but cannot leave: whoever waits for it would be woken for nothing.
    let next = store.next_due(&web(), at(0)).await.unwrap();
    assert_eq!(next.unwrap() == from_start(at(100)), on.is_shared());
    assert!(next.unwrap() >= from_start(at(100)), "{next:?}");
    // A group is one, whatever way its entries leave.
    let mail = ["mail".to_owned()];
    let due = store
        .claim_outbox(&carry_wish(&mail, at(1), at(2), 9))
        .await
        .unwrap();
    assert_eq!(due, []);
}

async fn of_messages(on: Engine) {
    let store = on.node().await;
    let ops = vec![create(&task("t")), message("t", 0, "first")];
    store.commit(commit(ops)).await.unwrap();
    let again = store.commit(commit(vec![message("t", 0, "second")])).await;
    assert!(matches!(again, Err(StoreError::Conflict)), "{again:?}");
    let messages = store.messages(&task_id("t"), 0..9).await.unwrap();
    assert_eq!(messages, [said("first")]);
}

async fn of_receivers(on: Engine) {
    let store = on.node().await;
    let ops = vec![subscribe(&subscription("s")), publish("x", &["s", "s"])];
    store.commit(commit(ops)).await.unwrap();
    let signals = store.unacked_signals(&sub_id("s"), 0, 9).await.unwrap();
    assert_eq!(signals.len(), 1, "named twice, told once");
    // Without a wait it is due again at once.
    for attempt in 1..=2 {
        let claimed = store.claim_signals(&sub_id("s"), at(0), &[], 9).await;
        assert_eq!(claimed.unwrap()[0].attempt, attempt);
    }
    let ids = [signal_id("x")];
    let nobody = store.ack_signals(&sub_id("none"), &ids, at(0)).await;
    assert_eq!(nobody.unwrap(), [Acked::Unknown]);
}

async fn of_what_was_given_up(on: Engine) {
    let store = on.node().await;
    let id = sub_id("s");
    let ops = vec![
        subscribe(&subscription("s")),
        publish("late", &["s"]),
        publish("done", &["s"]),
    ];
    store.commit(commit(ops)).await.unwrap();
    store.bury_signal(&id, 1, at(0)).await.unwrap();
    let late = store.ack_signals(&id, &[signal_id("late")], at(1)).await;
    assert_eq!(late.unwrap(), [Acked::Now], "it arrived after all");
    store
        .ack_signals(&id, &[signal_id("done")], at(1))
        .await
        .unwrap();
    // What arrived is not given up, and what is not there cannot be.
    for (of, seq) in [("s", 2), ("s", 77), ("none", 1)] {
        store.bury_signal(&sub_id(of), seq, at(2)).await.unwrap();
    }
    assert_eq!(store.buried_signals(9).await.unwrap(), []);
}
