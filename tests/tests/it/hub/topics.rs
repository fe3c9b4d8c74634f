//! Topics: matching, redelivery, expiry and approval of subscriptions.

use super::{HubFixture, caller, operator};
use interzone_hub::ports::SubscriptionQuery;
use interzone_hub::{
    AckOutcome, HubError, Limits, NewSubscription, NewTask, Retention, RetryPolicy, SignalBody,
    Subscription, SubscriptionState,
};
use interzone_protocol::vocab::{Message, SignalId, Topic, TopicPattern, VerbatimJson};
use std::time::Duration;

const RETRY: RetryPolicy = RetryPolicy {
    initial_delay: Duration::from_secs(1),
    max_delay: Duration::from_secs(8),
    max_attempts: 3,
};

fn patterns(texts: &[&str]) -> Vec<TopicPattern> {
    texts
        .iter()
        .map(|text| TopicPattern::new(text).unwrap())
        .collect()
}

fn new_subscription(texts: &[&str]) -> NewSubscription {
    NewSubscription {
        patterns: patterns(texts),
        needs_approval: false,
        dialect_data: None,
        expires_at: None,
    }
}

async fn publish(world: &HubFixture, topic: &str, id: &str) -> usize {
    let (topic, id) = (Topic::new(topic).unwrap(), SignalId::new(id).unwrap());
    let body = VerbatimJson::parse(format!(r#"{{"id":"{id}","n":1.00}}"#)).unwrap();
    world
        .hub
        .publish(&caller("publisher"), topic, id, body)
        .await
        .unwrap()
        .deliveries
}

async fn claim_signals(
    world: &HubFixture,
    owner: &str,
    subscription: &Subscription,
) -> Vec<String> {
    let taken = world
        .hub
        .claim_signals(&caller(owner), &subscription.id, &RETRY, 100)
        .await
        .unwrap();
    taken
        .into_iter()
        .map(|delivery| format!("{}#{}", delivery.signal.id, delivery.attempt))
        .collect()
}

#[tokio::test]
async fn signal_is_delivered_once_per_subscription() {
    let world = HubFixture::new().await;
    let hub = &world.hub;
    let mail = hub
        .subscribe(
            &caller("a"),
            new_subscription(&["signal.email.*", "signal.**"]),
        )
        .await
        .unwrap();
    let all = hub
        .subscribe(&caller("b"), new_subscription(&["**"]))
        .await
        .unwrap();
    assert_eq!(publish(&world, "signal.email.received", "s1").await, 2);
    assert_eq!(publish(&world, "other", "s2").await, 1);
    assert_eq!(
        publish(&world, "signal.email.received", "s1").await,
        2,
        "an id may be reused"
    );
    assert_eq!(claim_signals(&world, "a", &mail).await, ["s1#1", "s1#1"]);
    assert_eq!(
        claim_signals(&world, "b", &all).await,
        ["s1#1", "s2#1", "s1#1"]
    );
    let unacked = hub
        .unacked_signals(&caller("b"), &all.id, 1, 10)
        .await
        .unwrap();
    assert_eq!(
        unacked
            .iter()
            .map(|delivery| delivery.seq)
            .collect::<Vec<_>>(),
        [2, 3]
    );
    assert!(
        matches!(&unacked[0].signal.body, SignalBody::Sent(json) if json.as_str().contains("1.00"))
    );
}

#[tokio::test]
async fn unacked_signal_is_redelivered_then_dead_lettered() {
    let world = HubFixture::new().await;
    let subscription = world
        .hub
        .subscribe(&caller("a"), new_subscription(&["t"]))
        .await
        .unwrap();
    publish(&world, "t", "acked").await;
    publish(&world, "t", "lost").await;
    assert_eq!(
        claim_signals(&world, "a", &subscription).await,
        ["acked#1", "lost#1"]
    );
    assert_eq!(
        claim_signals(&world, "a", &subscription).await,
        [""; 0],
        "not before its retry delay"
    );
    let ids = ["acked", "never", "acked"].map(|id| SignalId::new(id).unwrap());
    let ack = async || {
        world
            .hub
            .ack(&caller("a"), &subscription.id, &ids)
            .await
            .unwrap()
    };
    assert_eq!(
        ack().await,
        [
            AckOutcome::Acknowledged,
            AckOutcome::Unknown,
            AckOutcome::Acknowledged
        ]
    );
    assert_eq!(
        ack().await,
        [
            AckOutcome::AlreadyAcknowledged,
            AckOutcome::Unknown,
            AckOutcome::AlreadyAcknowledged
        ]
    );
    for attempt in 2..=3 {
        world.advance_clock(RETRY.max_delay);
        assert_eq!(
            claim_signals(&world, "a", &subscription).await,
            [format!("lost#{attempt}")]
        );
    }
    world.advance_clock(RETRY.max_delay);
    assert_eq!(
        claim_signals(&world, "a", &subscription).await,
        [""; 0],
        "dead-lettered"
    );
    let dead = world.hub.store().dead_signals(10).await.unwrap();
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].signal.id.as_str(), "lost");
}

#[tokio::test]
async fn signals_flow_only_while_subscription_is_approved() {
    let world = HubFixture::new().await;
    let (hub, a, boss) = (&world.hub, caller("a"), operator());
    let request = NewSubscription {
        needs_approval: true,
        ..new_subscription(&["t.**"])
    };
    let subscription = hub.subscribe(&a, request.clone()).await.unwrap();
    let id = &subscription.id;
    assert_eq!(publish(&world, "t.one", "early").await, 0);
    let early = hub.claim_signals(&a, id, &RETRY, 1).await;
    assert!(matches!(
        early,
        Err(HubError::SubscriptionNotReady {
            state: SubscriptionState::Pending,
            ..
        })
    ));
    assert!(matches!(
        hub.approve(&a, id, None, None).await,
        Err(HubError::NotAllowed)
    ));
    hub.approve(&boss, id, Some(patterns(&["t.one"])), None)
        .await
        .unwrap();
    assert_eq!(publish(&world, "t.one", "s1").await, 1);
    assert_eq!(
        publish(&world, "t.two", "s2").await,
        0,
        "approved for fewer topics"
    );
    assert!(hub.deny(&boss, id).await.is_err(), "already approved");
    hub.revoke(&boss, id).await.unwrap();
    assert_eq!(publish(&world, "t.one", "late").await, 0);
    let denied = hub.subscribe(&a, request).await.unwrap().id;
    assert_eq!(
        hub.deny(&boss, &denied).await.unwrap().state,
        SubscriptionState::Denied
    );
    assert!(hub.revoke(&boss, &denied).await.is_err());
}

#[tokio::test]
async fn subscription_ends_by_expiry_or_unsubscribe() {
    let world = HubFixture::new().await;
    let (hub, a) = (&world.hub, caller("a"));
    let end = hub.now().plus(Duration::from_secs(60));
    let short = NewSubscription {
        expires_at: Some(end),
        ..new_subscription(&["t"])
    };
    let short = hub.subscribe(&a, short).await.unwrap().id;
    assert_eq!(publish(&world, "t", "s1").await, 1);
    world.advance_clock(Duration::from_secs(60));
    assert_eq!(
        publish(&world, "t", "s2").await,
        0,
        "at once, without a sweep"
    );
    hub.sweep(&operator(), &Retention::default()).await.unwrap();
    let state = hub.subscription(&a, &short).await.unwrap().state;
    assert_eq!(state, SubscriptionState::Expired);

    let id = hub
        .subscribe(&a, new_subscription(&["x", "y"]))
        .await
        .unwrap()
        .id;
    let left = hub
        .unsubscribe(&a, &id, Some(&patterns(&["x"])))
        .await
        .unwrap()
        .unwrap();
    assert_eq!(left.patterns, patterns(&["y"]));
    assert_eq!(publish(&world, "x", "s3").await, 0);
    assert_eq!(publish(&world, "y", "s4").await, 1);
    assert!(hub.unsubscribe(&a, &id, None).await.unwrap().is_none());
    assert_eq!(publish(&world, "y", "s5").await, 0);
    assert!(matches!(
        hub.subscription(&a, &id).await,
        Err(HubError::SubscriptionNotFound(_))
    ));
}

#[tokio::test]
async fn foreign_subscription_is_reported_as_not_found() {
    let world = HubFixture::new().await;
    let (hub, eve) = (&world.hub, caller("eve"));
    let id = hub
        .subscribe(&caller("a"), new_subscription(&["t"]))
        .await
        .unwrap()
        .id;
    for refused in [
        hub.subscription(&eve, &id).await.map(drop),
        hub.unsubscribe(&eve, &id, None).await.map(drop),
        hub.ack(&eve, &id, &[]).await.map(drop),
        hub.claim_signals(&eve, &id, &RETRY, 1).await.map(drop),
        hub.unacked_signals(&eve, &id, 0, 1).await.map(drop),
    ] {
        assert!(matches!(refused, Err(HubError::SubscriptionNotFound(_))));
    }
    let (listed, total) = hub
        .list_subscriptions(
            &eve,
            SubscriptionQuery {
                limit: 10,
                ..Default::default()
            },
        )
        .await
        .unwrap();
    assert_eq!((listed.len(), total), (0, 0));
}

#[tokio::test]
async fn task_events_are_signaled_to_owner_only() {
    let world = HubFixture::new().await;
    let (hub, alice, eve) = (&world.hub, caller("alice"), caller("eve"));
    let mine = hub
        .subscribe(&alice, new_subscription(&["task.**"]))
        .await
        .unwrap();
    let hers = hub
        .subscribe(&eve, new_subscription(&["**"]))
        .await
        .unwrap();
    let new = NewTask::new(Message::user_text("x"));
    let task = hub.create_task(&alice, new).await.unwrap();
    hub.cancel(&alice, &task.id, None).await.unwrap();
    let deliveries = hub
        .claim_signals(&alice, &mine.id, &RETRY, 10)
        .await
        .unwrap();
    let topics: Vec<_> = deliveries
        .iter()
        .map(|delivery| delivery.signal.topic.to_string())
        .collect();
    assert_eq!(
        topics,
        [
            format!("task.{}.created", task.id),
            format!("task.{}.state", task.id)
        ]
    );
    assert!(matches!(
        &deliveries[1].signal.body,
        SignalBody::Event(_, 2)
    ));
    assert_eq!(claim_signals(&world, "eve", &hers).await, [""; 0]);
}

#[tokio::test]
async fn subscription_limits_are_enforced() {
    let limits = Limits {
        subscriptions: 2,
        patterns: 1,
        signal_bytes: 10,
        ..Limits::default()
    };
    let world = HubFixture::with_limits(limits).await;
    let (hub, a) = (&world.hub, caller("a"));
    assert!(matches!(
        hub.subscribe(&a, new_subscription(&[])).await,
        Err(HubError::Invalid {
            field: "topics",
            ..
        })
    ));
    assert!(matches!(
        hub.subscribe(&a, new_subscription(&["x", "y"])).await,
        Err(HubError::TooMany { .. })
    ));
    for _ in 0..2 {
        hub.subscribe(&a, new_subscription(&["x"])).await.unwrap();
    }
    assert!(matches!(
        hub.subscribe(&a, new_subscription(&["x"])).await,
        Err(HubError::TooMany { limit: 2, .. })
    ));
    let (topic, id) = (Topic::new("x").unwrap(), SignalId::new("s").unwrap());
    let large = hub
        .publish(
            &a,
            topic,
            id,
            VerbatimJson::from_value(&"x".repeat(20)).unwrap(),
        )
        .await;
    assert!(matches!(large, Err(HubError::TooLarge { limit: 10, .. })));
}

#[tokio::test(flavor = "multi_thread")]
async fn concurrent_publish_and_subscribe_lose_no_signal() {
    let world = HubFixture::new().await;
    let mut publishers = Vec::new();
    for n in 0..8 {
        let hub = world.hub.clone();
        publishers.push(tokio::spawn(async move {
            for k in 0..20 {
                let id = SignalId::new(format!("s{n}-{k}")).unwrap();
                let body = VerbatimJson::from_value(&k).unwrap();
                hub.publish(&caller("p"), Topic::new("t").unwrap(), id, body)
                    .await
                    .unwrap();
            }
        }));
    }
    let late = world
        .hub
        .subscribe(&caller("a"), new_subscription(&["t"]))
        .await
        .unwrap();
    let after = publish(&world, "t", "after").await;
    assert_eq!(
        after, 1,
        "a signal published after subscribe returned reaches it"
    );
    for publisher in publishers {
        publisher.await.unwrap();
    }
    let unacked = world
        .hub
        .unacked_signals(&caller("a"), &late.id, 0, 1_000)
        .await
        .unwrap();
    let numbers: Vec<u64> = unacked.iter().map(|delivery| delivery.seq).collect();
    assert_eq!(
        numbers,
        (1..=u64::try_from(unacked.len()).unwrap()).collect::<Vec<_>>()
    );
}

#[tokio::test]
async fn sweep_dead_letters_old_unacked_signals() {
    let world = HubFixture::new().await;
    let id = world
        .hub
        .subscribe(&caller("a"), new_subscription(&["t"]))
        .await
        .unwrap()
        .id;
    publish(&world, "t", "old").await;
    world.advance_clock(Duration::from_secs(31 * 86_400));
    publish(&world, "t", "new").await;
    world
        .hub
        .sweep(&operator(), &Retention::default())
        .await
        .unwrap();
    let left = world
        .hub
        .unacked_signals(&caller("a"), &id, 0, 10)
        .await
        .unwrap();
    let left: Vec<_> = left
        .iter()
        .map(|delivery| delivery.signal.id.as_str())
        .collect();
    assert_eq!(left, ["new"]);
    let dead = world.hub.store().dead_signals(10).await.unwrap();
    assert_eq!(dead.len(), 1);
}

#[tokio::test]
async fn publish_to_reserved_topics_is_rejected() {
    let world = HubFixture::new().await;
    for topic in ["task.t-1.state", "stream.s-1.chunk", "task"] {
        let (topic, id) = (Topic::new(topic).unwrap(), SignalId::new("s").unwrap());
        let forged = world
            .hub
            .publish(
                &caller("eve"),
                topic,
                id,
                VerbatimJson::from_value(&1).unwrap(),
            )
            .await;
        assert!(matches!(
            forged,
            Err(HubError::Invalid { field: "topic", .. })
        ));
    }
}
