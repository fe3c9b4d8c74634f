//! Everything that a store shows, as one text, so that a test can tell that nothing has changed.

use crate::make::{
    all_tasks, at, carry_wish, delivery_id, of_stream, of_task, stream_id, sub_id, task_id, web,
};
use interzone_hub::ports::{DeadLetterQuery, Store, SubscriptionQuery};
use interzone_hub::{BlobId, Subject};
use std::fmt::Write;

/// What to look at where a store cannot list what it has.
pub(crate) struct Eyes<'a> {
    pub(crate) tasks: &'a [&'a str],
    pub(crate) streams: &'a [&'a str],
    pub(crate) subscriptions: &'a [&'a str],
    pub(crate) keys: &'a [&'a str],
    pub(crate) blobs: &'a [BlobId],
}

/// Looks without changing anything.
pub(crate) async fn look(store: &dyn Store, eyes: &Eyes<'_>) -> String {
    let mut seen = String::new();
    let mut note = |what: &str, value: &dyn std::fmt::Debug| {
        writeln!(seen, "{what}: {value:#?}").unwrap();
    };
    note("tasks", &store.tasks(&all_tasks()).await.unwrap());
    note("count", &store.count_tasks(&all_tasks()).await.unwrap());
    for id in eyes.tasks {
        note("task", &store.task(&task_id(id)).await.unwrap());
        let messages = store.messages(&task_id(id), 0..u32::MAX).await.unwrap();
        note("messages", &messages);
        note("artifacts", &store.artifacts(&task_id(id)).await.unwrap());
        note("pushes", &store.pushes(&task_id(id)).await.unwrap());
        note("log", &log(store, &of_task(id)).await);
    }
    for id in eyes.streams {
        note("stream", &store.stream(&stream_id(id)).await.unwrap());
        note("log", &log(store, &of_stream(id)).await);
    }
    note("idle", &store.idle_streams(at(1), 100).await.unwrap());
    for key in eyes.keys {
        note("key", &store.claimed(key, at(0)).await.unwrap());
    }
    let blobs = store.blobs(eyes.blobs).await.unwrap().into_iter();
    let mut blobs: Vec<_> = blobs.map(|(id, text)| (id, text.to_string())).collect();
    blobs.sort();
    note("blobs", &blobs);
    note("work", &store.work_depth(at(0)).await.unwrap());
    note("outbox", &store.outbox_depth().await.unwrap());
    note("next due", &store.next_due(&web(), at(0)).await.unwrap());
    let dead = DeadLetterQuery {
        limit: 100,
        ..DeadLetterQuery::default()
    };
    note("dead", &store.dead_letters(&dead).await.unwrap());
    let all = SubscriptionQuery {
        limit: 100,
        ..SubscriptionQuery::default()
    };
    note("subscriptions", &store.subscriptions(&all).await.unwrap());
    let (epoch, mut active) = store.active_subscriptions(None).await.unwrap().unwrap();
    active.sort_by(|a, b| a.id.cmp(&b.id));
    note("active", &(epoch, active));
    let mut due = store.subscriptions_due(at(0), 100).await.unwrap();
    due.sort();
    note("due", &due);
    for id in eyes.subscriptions {
        let signals = store.unacked_signals(&sub_id(id), 0, 100).await.unwrap();
        note("signals", &signals);
    }
    note("buried", &store.buried_signals(100).await.unwrap());
    seen
}

/// A subject's whole log.
pub(crate) async fn log(store: &dyn Store, subject: &Subject) -> Vec<interzone_hub::Event> {
    store.events(subject, 0, 100_000).await.unwrap()
}

/// Claims all that is due on the channel `web` until nothing is, and says it arrived.
pub(crate) async fn empty_the_outbox(store: &dyn Store) -> Vec<interzone_hub::OutboxEntry> {
    use interzone_hub::Settlement::Delivered;
    let mut all = Vec::new();
    let now = crate::make::long_after();
    loop {
        let until = now.after(std::time::Duration::from_secs(60));
        let entries = store
            .claim_outbox(&carry_wish(&web(), now, until, 500))
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

/// Whether an entry is due now, which takes it.
pub(crate) async fn is_due(store: &dyn Store, id: &str, now: i64) -> bool {
    let until = at(now + 1);
    let entries = store
        .claim_outbox(&carry_wish(&web(), at(now), until, 100))
        .await;
    entries
        .unwrap()
        .iter()
        .any(|entry| entry.id == delivery_id(id))
}
