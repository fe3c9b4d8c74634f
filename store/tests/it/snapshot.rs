//! Observable content of a store as one text, so that a test can assert that nothing has changed.

use crate::builders::{
    all_tasks, delivery_id, outbox_claim, stream_id, stream_subject, sub_id, task_id, task_subject,
    time_at, web_channel,
};
use interzone_hub::ports::{DeadLetterQuery, Store, SubscriptionQuery};
use interzone_hub::{BlobId, Subject};
use std::fmt::Write;

/// Ids to read where a store cannot list them.
pub(crate) struct SnapshotScope<'a> {
    pub(crate) tasks: &'a [&'a str],
    pub(crate) streams: &'a [&'a str],
    pub(crate) subscriptions: &'a [&'a str],
    pub(crate) keys: &'a [&'a str],
    pub(crate) blobs: &'a [BlobId],
}

/// Reads everything without changing it.
pub(crate) async fn take_snapshot(store: &dyn Store, scope: &SnapshotScope<'_>) -> String {
    let mut snapshot = String::new();
    let mut add = |what: &str, value: &dyn std::fmt::Debug| {
        writeln!(snapshot, "{what}: {value:#?}").unwrap();
    };
    add("tasks", &store.tasks(&all_tasks()).await.unwrap());
    add("count", &store.count_tasks(&all_tasks()).await.unwrap());
    for id in scope.tasks {
        add("task", &store.task(&task_id(id)).await.unwrap());
        let messages = store.messages(&task_id(id), 0..u32::MAX).await.unwrap();
        add("messages", &messages);
        add("artifacts", &store.artifacts(&task_id(id)).await.unwrap());
        add(
            "pushes",
            &store.push_subscriptions(&task_id(id)).await.unwrap(),
        );
        add("log", &event_log(store, &task_subject(id)).await);
    }
    for id in scope.streams {
        add("stream", &store.stream(&stream_id(id)).await.unwrap());
        add("log", &event_log(store, &stream_subject(id)).await);
    }
    add("idle", &store.idle_streams(time_at(1), 100).await.unwrap());
    for key in scope.keys {
        add("key", &store.claimed_value(key, time_at(0)).await.unwrap());
    }
    let blobs = store.blobs(scope.blobs).await.unwrap().into_iter();
    let mut blobs: Vec<_> = blobs.map(|(id, text)| (id, text.to_string())).collect();
    blobs.sort();
    add("blobs", &blobs);
    add("work", &store.work_depth(time_at(0)).await.unwrap());
    add("outbox", &store.outbox_depth().await.unwrap());
    add(
        "next due",
        &store
            .next_outbox_due(&web_channel(), time_at(0))
            .await
            .unwrap(),
    );
    let dead = DeadLetterQuery {
        limit: 100,
        ..DeadLetterQuery::default()
    };
    add("dead", &store.dead_letters(&dead).await.unwrap());
    let all = SubscriptionQuery {
        limit: 100,
        ..SubscriptionQuery::default()
    };
    add("subscriptions", &store.subscriptions(&all).await.unwrap());
    let (epoch, mut active) = store.active_subscriptions(None).await.unwrap().unwrap();
    active.sort_by(|a, b| a.id.cmp(&b.id));
    add("active", &(epoch, active));
    let mut due = store.subscriptions_due(time_at(0), 100).await.unwrap();
    due.sort();
    add("due", &due);
    for id in scope.subscriptions {
        let signals = store.unacked_signals(&sub_id(id), 0, 100).await.unwrap();
        add("signals", &signals);
    }
    add("buried", &store.dead_signals(100).await.unwrap());
    snapshot
}

/// Complete event log of a subject.
pub(crate) async fn event_log(store: &dyn Store, subject: &Subject) -> Vec<interzone_hub::Event> {
    store.events(subject, 0, 100_000).await.unwrap()
}

/// Claims all due entries of the channel `web` until none is left, and settles them as delivered.
pub(crate) async fn drain_outbox(store: &dyn Store) -> Vec<interzone_hub::OutboxEntry> {
    use interzone_hub::DeliveryResult::Delivered;
    let mut all = Vec::new();
    let now = crate::builders::long_after();
    loop {
        let until = now.plus(std::time::Duration::from_secs(60));
        let entries = store
            .claim_outbox(&outbox_claim(&web_channel(), now, until, 500))
            .await
            .unwrap();
        if entries.is_empty() {
            return all;
        }
        for entry in entries {
            assert!(
                store
                    .settle_outbox(&entry.id, entry.attempt, &Delivered, now)
                    .await
                    .unwrap(),
                "{} was just claimed",
                entry.id
            );
            all.push(entry);
        }
    }
}

/// Returns true if the entry is due now, and claims it.
pub(crate) async fn claim_if_due(store: &dyn Store, id: &str, now: i64) -> bool {
    let until = time_at(now + 1);
    let entries = store
        .claim_outbox(&outbox_claim(&web_channel(), time_at(now), until, 100))
        .await;
    entries
        .unwrap()
        .iter()
        .any(|entry| entry.id == delivery_id(id))
}
