//! Edge cases that the contract leaves open: both engines behave the same.

use crate::builders::{
    agent, commit, commit_at, create, create_tasks, delivery_id, enqueue, enqueue_work,
    enqueue_work_for, entry, fence, message, outbox_claim, publish, signal_id, since_start, sub_id,
    subscribe, subscription, task, task_id, time_at, user_message, web_channel, work_claim,
};
use crate::engine::Engine;
use interzone_hub::ports::{Commit, StoreError, WorkClaim};
use interzone_hub::{AckOutcome, DeliveryResult, OutboxEntry};
use interzone_protocol::vocab::Priority;

contract_tests!(
    expired_lease_is_valid_until_claimed_by_another,
    requeued_and_unknown_work_edge_cases,
    settled_entry_cannot_be_settled_again,
    group_spans_channels_and_blocks_next_due,
    message_index_cannot_be_reused,
    duplicate_receiver_gets_signal_once,
    ack_after_dead_letter_removes_dead_signal,
);

async fn expired_lease_is_valid_until_claimed_by_another(on: Engine) {
    let store = on.node().await;
    create_tasks(&*store, ["t"]).await;
    store.commit(commit(vec![enqueue_work("t")])).await.unwrap();
    let item = store
        .claim_work(&work_claim("n", 1, time_at(0)))
        .await
        .unwrap()
        .remove(0);
    // The lease is over, but no other node has claimed it: its holder may still write.
    let late = Commit {
        fence: Some(fence(&item, "n")),
        ..commit_at(time_at(5_000), Vec::new())
    };
    store.commit(late).await.unwrap();
    let renewed = store.renew_work(
        &item.task_id,
        "n",
        item.claim,
        since_start(time_at(1_000)),
        time_at(0),
    );
    assert!(renewed.await.unwrap());
    // The lease ends exactly at that time.
    let items = store
        .claim_work(&work_claim("m", 1, time_at(1_000)))
        .await
        .unwrap();
    assert_eq!(items.len(), usize::from(on.is_shared()));
}

async fn requeued_and_unknown_work_edge_cases(on: Engine) {
    let store = on.node().await;
    create_tasks(&*store, ["first", "second", "later"]).await;
    let ops = vec![enqueue_work("first"), enqueue_work("second")];
    store.commit(commit(ops)).await.unwrap();
    // A task that is queued again is last.
    store
        .commit(commit(vec![enqueue_work("first")]))
        .await
        .unwrap();
    // An agent that is named twice gets both.
    let twice = WorkClaim {
        wanted: vec![(agent("agent"), 1), (agent("agent"), 1)],
        ..work_claim("n", 0, time_at(0))
    };
    let items = store.claim_work(&twice).await.unwrap();
    let ids: Vec<_> = items.iter().map(|item| item.task_id.as_str()).collect();
    assert_eq!(ids, ["second", "first"]);
    // Work that is not due yet counts as waiting.
    let ops = vec![enqueue_work_for(
        "later",
        "agent",
        Priority::Low,
        time_at(90_000),
    )];
    store.commit(commit(ops)).await.unwrap();
    assert_eq!(store.work_depth(time_at(0)).await.unwrap(), (1, 2));
    // Work for a missing task is rejected.
    let early = vec![enqueue_work("never made"), create(&task("never made"))];
    for ops in [vec![enqueue_work("never made")], early] {
        let none = store.commit(commit(ops)).await;
        assert!(matches!(none, Err(StoreError::Conflict)), "{none:?}");
    }
    assert_eq!(store.work_depth(time_at(0)).await.unwrap(), (1, 2));
}

async fn settled_entry_cannot_be_settled_again(on: Engine) {
    let store = on.node().await;
    store
        .commit(commit(vec![enqueue(&entry("e"))]))
        .await
        .unwrap();
    store
        .claim_outbox(&outbox_claim(&web_channel(), time_at(0), time_at(9), 9))
        .await
        .unwrap();
    assert_eq!(
        store.outbox_depth().await.unwrap(),
        (1, 0),
        "leased counts as waiting"
    );
    let id = delivery_id("e");
    let done = DeliveryResult::Delivered;
    assert!(
        store
            .settle_outbox(&id, 1, &done, time_at(1))
            .await
            .unwrap()
    );
    // A later result for the same attempt is rejected.
    let retry = DeliveryResult::Retry {
        due_at: time_at(2),
        error: "too late".to_owned(),
    };
    for again in [&done, &retry] {
        assert!(
            !store
                .settle_outbox(&id, 1, again, time_at(1))
                .await
                .unwrap()
        );
    }
    let due = store
        .claim_outbox(&outbox_claim(&web_channel(), time_at(99), time_at(999), 9))
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

async fn group_spans_channels_and_blocks_next_due(on: Engine) {
    let store = on.node().await;
    let grouped_entry = |id: &str, channel: &str| OutboxEntry {
        group: Some("g".to_owned()),
        channel: channel.to_owned(),
        ..entry(id)
    };
    let ops = vec![
        enqueue(&grouped_entry("first", "web")),
        enqueue(&grouped_entry("second", "web")),
        enqueue(&grouped_entry("third", "mail")),
    ];
    store.commit(commit(ops)).await.unwrap();
    store
        .claim_outbox(&outbox_claim(&web_channel(), time_at(0), time_at(100), 9))
        .await
        .unwrap();
    // The second is due but blocked by its group: waking a deliverer would be useless.
    let next = store
        .next_outbox_due(&web_channel(), time_at(0))
        .await
        .unwrap();
    assert_eq!(next.unwrap() == since_start(time_at(100)), on.is_shared());
    assert!(next.unwrap() >= since_start(time_at(100)), "{next:?}");
    // A group is one, across channels.
    let mail = ["mail".to_owned()];
    let due = store
        .claim_outbox(&outbox_claim(&mail, time_at(1), time_at(2), 9))
        .await
        .unwrap();
    assert_eq!(due, []);
}

async fn message_index_cannot_be_reused(on: Engine) {
    let store = on.node().await;
    let ops = vec![create(&task("t")), message("t", 0, "first")];
    store.commit(commit(ops)).await.unwrap();
    let again = store.commit(commit(vec![message("t", 0, "second")])).await;
    assert!(matches!(again, Err(StoreError::Conflict)), "{again:?}");
    let messages = store.messages(&task_id("t"), 0..9).await.unwrap();
    assert_eq!(messages, [user_message("first")]);
}

async fn duplicate_receiver_gets_signal_once(on: Engine) {
    let store = on.node().await;
    let ops = vec![subscribe(&subscription("s")), publish("x", &["s", "s"])];
    store.commit(commit(ops)).await.unwrap();
    let signals = store.unacked_signals(&sub_id("s"), 0, 9).await.unwrap();
    assert_eq!(signals.len(), 1, "named twice, delivered once");
    // Without a redelivery delay it is due again at once.
    for attempt in 1..=2 {
        let claimed = store.claim_signals(&sub_id("s"), time_at(0), &[], 9).await;
        assert_eq!(claimed.unwrap()[0].attempt, attempt);
    }
    let ids = [signal_id("x")];
    let unknown = store.ack_signals(&sub_id("none"), &ids, time_at(0)).await;
    assert_eq!(unknown.unwrap(), [AckOutcome::Unknown]);
}

async fn ack_after_dead_letter_removes_dead_signal(on: Engine) {
    let store = on.node().await;
    let id = sub_id("s");
    let ops = vec![
        subscribe(&subscription("s")),
        publish("late", &["s"]),
        publish("done", &["s"]),
    ];
    store.commit(commit(ops)).await.unwrap();
    store.dead_letter_signal(&id, 1, time_at(0)).await.unwrap();
    let late = store
        .ack_signals(&id, &[signal_id("late")], time_at(1))
        .await;
    assert_eq!(
        late.unwrap(),
        [AckOutcome::Acknowledged],
        "acknowledged after all"
    );
    store
        .ack_signals(&id, &[signal_id("done")], time_at(1))
        .await
        .unwrap();
    // Acknowledged and unknown signals cannot be dead-lettered.
    for (subscription_id, seq) in [("s", 2), ("s", 77), ("none", 1)] {
        store
            .dead_letter_signal(&sub_id(subscription_id), seq, time_at(2))
            .await
            .unwrap();
    }
    assert_eq!(store.dead_signals(9).await.unwrap(), []);
}
