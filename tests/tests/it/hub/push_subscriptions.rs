//! Push subscriptions: event filters, order of delivery and limits.

use super::{HubFixture, caller, completed_outcome, start_turn};
use interzone_hub::{
    HubError, Limits, NewPushSubscription, NewStream, NewTask, PushCursor, Route, SealedSecrets,
};
use interzone_protocol::vocab::{Message, SubscriptionId, TaskState, VerbatimJson};
use std::time::Duration;

fn new_task(text: &str) -> NewTask {
    NewTask::new(Message::user_text(text))
}

fn new_push(channel: &str, events: &[&str]) -> NewPushSubscription {
    NewPushSubscription {
        id: None,
        channel: channel.to_owned(),
        events: events.iter().map(|&name| name.to_owned()).collect(),
        format: "acp".to_owned(),
        target: VerbatimJson::from_value("https://example.com/hook").unwrap(),
        secrets: None,
    }
}

#[tokio::test]
async fn push_subscription_gets_subscribed_events_in_order() {
    let world = HubFixture::new().await;
    let alice = caller("alice");
    let new = NewTask {
        push_subscriptions: vec![new_push("all", &[]), new_push("states", &["state"])],
        ..new_task("x")
    };
    let id = world.hub.create_task(&alice, new).await.unwrap().id;
    let run = world.claim("n1").await;
    let turn = start_turn(&run).await;
    run.complete(&turn, completed_outcome("done"))
        .await
        .unwrap();

    let mut deliveries = Vec::new();
    for channel in ["all", "states"] {
        // Of a group only the first entry is due until it has been delivered.
        while let [entry] = &*world
            .hub
            .lease_entries(&[channel.to_owned()], super::LEASE, 10)
            .await
            .unwrap()
        {
            let payload: serde_json::Value = entry.payload.decode().unwrap();
            let name = payload["event"].as_object().unwrap().keys().next().unwrap();
            deliveries.push(format!(
                "{channel} {} {name} {}",
                payload["seq"],
                payload["state"].as_str().unwrap()
            ));
            assert!(world.hub.mark_delivered(entry).await.unwrap());
        }
    }
    assert_eq!(
        deliveries,
        [
            "all 1 created submitted",
            "all 2 state working",
            "all 3 message completed",
            "all 4 state completed",
            "states 2 state working",
            "states 4 state completed",
        ]
    );
    let pushes = world.hub.push_subscriptions(&alice, &id).await.unwrap();
    assert!(
        world
            .hub
            .remove_push_subscription(&alice, &id, &pushes[0].id)
            .await
            .unwrap()
    );
    assert!(
        !world
            .hub
            .remove_push_subscription(&alice, &id, &pushes[0].id)
            .await
            .unwrap()
    );
    assert_eq!(
        world
            .hub
            .push_subscriptions(&alice, &id)
            .await
            .unwrap()
            .len(),
        1
    );
    let same = NewPushSubscription {
        id: Some(pushes[1].id.clone()),
        ..new_push("else", &[])
    };
    world
        .hub
        .add_push_subscription(&alice, &id, same)
        .await
        .unwrap();
    let left = world.hub.push_subscriptions(&alice, &id).await.unwrap();
    assert_eq!((left.len(), left[0].channel.as_str()), (1, "else"));
    assert_eq!(world.hub.task(&alice, &id).await.unwrap().push_count, 1);
}

#[tokio::test]
async fn internal_push_subscription_is_hidden_from_owner() {
    let world = HubFixture::new().await;
    let (hub, alice) = (&world.hub, caller("alice"));
    let stream = NewStream {
        participants: vec!["demo".to_owned()],
        metadata: None,
    };
    let stream = hub.start_stream(&alice, stream).await.unwrap();
    hub.send_stream_message(
        &alice,
        &stream.id,
        Message::user_text("x"),
        Route::default(),
    )
    .await
    .unwrap();
    let id = world.claim("node").await.work_item().task_id.clone();
    let internal = hub.store().push_subscriptions(&id).await.unwrap();
    assert_eq!(
        internal.len(),
        1,
        "the answer reaches its stream through it"
    );
    assert_eq!(hub.push_subscriptions(&alice, &id).await.unwrap(), []);
    assert!(
        !hub.remove_push_subscription(&alice, &id, &internal[0].id)
            .await
            .unwrap()
    );
    let added = hub
        .add_push_subscription(&alice, &id, new_push("web", &[]))
        .await
        .unwrap();
    assert_eq!(hub.push_subscriptions(&alice, &id).await.unwrap(), [added]);
}

#[tokio::test]
async fn push_subscriptions_per_task_are_limited() {
    let world = HubFixture::with_limits(Limits {
        push_subscriptions: 1,
        ..Limits::default()
    })
    .await;
    let alice = caller("alice");
    let id = world
        .hub
        .create_task(&alice, new_task("x"))
        .await
        .unwrap()
        .id;
    world
        .hub
        .add_push_subscription(&alice, &id, new_push("web", &[]))
        .await
        .unwrap();
    let second = world
        .hub
        .add_push_subscription(&alice, &id, new_push("web", &[]))
        .await;
    assert!(matches!(second, Err(HubError::TooMany { limit: 1, .. })));
    let two = NewTask {
        push_subscriptions: vec![new_push("a", &[]), new_push("b", &[])],
        ..new_task("x")
    };
    let two = world.hub.create_task(&alice, two).await;
    assert!(matches!(two, Err(HubError::TooMany { limit: 1, .. })));
}

fn push_id(id: &str) -> SubscriptionId {
    SubscriptionId::new(id).unwrap()
}

#[tokio::test]
async fn push_subscription_keeps_format_and_sealed_secrets() {
    let world = HubFixture::new().await;
    let (hub, alice) = (&world.hub, caller("alice"));
    let id = hub.create_task(&alice, new_task("x")).await.unwrap().id;
    // A finished task takes subscriptions too.
    hub.cancel(&alice, &id, None).await.unwrap();
    let new = |format: &str, sealed: &str| NewPushSubscription {
        id: Some(push_id("mine")),
        format: format.to_owned(),
        secrets: Some(SealedSecrets::new(sealed)),
        ..new_push("web", &[])
    };
    let first = hub.add_push_subscription(&alice, &id, new("a2a-0.3", "one"));
    let first = first.await.unwrap();
    world.advance_clock(Duration::from_secs(5));
    let other = hub.add_push_subscription(&alice, &id, new_push("web", &[]));
    other.await.unwrap();
    let second = hub.add_push_subscription(&alice, &id, new("a2a-1.0", "two"));
    let second = second.await.unwrap();
    let read = hub.push_subscription(&alice, &id, &push_id("mine")).await;
    assert_eq!(read.unwrap(), second);
    assert_eq!(
        (
            second.format.as_str(),
            second.secrets.as_ref().unwrap().as_str()
        ),
        ("a2a-1.0", "two")
    );
    assert_eq!(second.created_at, first.created_at, "it keeps its place");
    assert!(!format!("{second:?}").contains("two"));
    let task = hub.task(&alice, &id).await.unwrap();
    assert_eq!((task.state, task.push_count), (TaskState::Canceled, 2));
    assert!(matches!(
        hub.push_subscription(&alice, &id, &push_id("other")).await,
        Err(HubError::SubscriptionNotFound(_))
    ));
    assert!(matches!(
        hub.push_subscription(&caller("bob"), &id, &push_id("mine"))
            .await,
        Err(HubError::TaskNotFound(_))
    ));
    let long = NewPushSubscription {
        id: Some(push_id(&"x".repeat(129))),
        ..new_push("web", &[])
    };
    assert!(matches!(
        hub.add_push_subscription(&alice, &id, long).await,
        Err(HubError::Invalid {
            field: "subscription_id",
            ..
        })
    ));
}

#[tokio::test]
async fn push_subscriptions_are_listed_in_pages() {
    let world = HubFixture::new().await;
    let (hub, alice) = (&world.hub, caller("alice"));
    let id = hub.create_task(&alice, new_task("x")).await.unwrap().id;
    for (name, wait) in [("c", 0), ("b", 0), ("a", 1), ("d", 1)] {
        world.advance_clock(Duration::from_secs(wait));
        let push = NewPushSubscription {
            id: Some(push_id(name)),
            ..new_push("web", &[])
        };
        hub.add_push_subscription(&alice, &id, push).await.unwrap();
    }
    let (mut names, mut after) = (Vec::new(), None);
    loop {
        let page = hub.push_subscription_page(&alice, &id, after.as_ref(), 3);
        let page = page.await.unwrap();
        names.extend(page.subscriptions.iter().map(|push| push.id.to_string()));
        let Some(next) = page.next else { break };
        // The subscription at the cursor may be removed meanwhile.
        hub.remove_push_subscription(&alice, &id, &next.id)
            .await
            .unwrap();
        after = PushCursor::from_token(&next.to_token());
        assert_eq!(after, Some(next));
    }
    assert_eq!(names, ["b", "c", "a", "d"]);
    assert_eq!(PushCursor::from_token("x"), None);
}
