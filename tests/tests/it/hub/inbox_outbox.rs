//! Inbox and outbox: accepted once, leased until delivered or dead-lettered.

use super::{HubFixture, LEASE};
use interzone_hub::ports::DeadLetterQuery;
use interzone_hub::{Charge, LeasedEntry, NewOutboxEntry, Rate, RetryPolicy};
use interzone_protocol::vocab::{PrincipalId, VerbatimJson};
use std::time::Duration;

const RETRY: RetryPolicy = RetryPolicy {
    initial_delay: Duration::from_secs(2),
    max_delay: Duration::from_secs(8),
    max_attempts: 3,
};

fn entry(key: &str, group: Option<&str>) -> NewOutboxEntry {
    NewOutboxEntry {
        channel: "slack".to_owned(),
        key: key.to_owned(),
        group: group.map(str::to_owned),
        owner: PrincipalId::new("team").unwrap(),
        subject: None,
        payload: VerbatimJson::from_value(key).unwrap(),
    }
}

async fn lease(world: &HubFixture) -> Vec<LeasedEntry> {
    world
        .hub
        .lease_entries(&["slack".to_owned()], LEASE, 10)
        .await
        .unwrap()
}

fn keys(entries: &[LeasedEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.key.as_str()).collect()
}

#[tokio::test]
async fn duplicate_event_is_accepted_once() {
    let world = HubFixture::new().await;
    let accept = async |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let work = vec![entry(&names[0], None)];
        world
            .hub
            .accept_once(&names, Duration::from_secs(3_600), work)
            .await
            .unwrap()
    };
    assert!(accept(&["event-1", "T/C/ts-1"]).await);
    assert!(!accept(&["event-1"]).await, "the same event again");
    assert!(
        !accept(&["event-2", "T/C/ts-1"]).await,
        "the same message under another event id"
    );
    assert!(
        accept(&["event-2", "T/C/ts-2"]).await,
        "the rejected event claimed no key"
    );
    assert_eq!(keys(&lease(&world).await), ["event-1", "event-2"]);
}

#[tokio::test]
async fn failed_entry_is_retried_then_dead_lettered() {
    let world = HubFixture::new().await;
    world.hub.enqueue(vec![entry("a", None)]).await.unwrap();
    for attempt in 1..=3 {
        let taken = lease(&world).await;
        assert_eq!(taken[0].attempt, attempt);
        let settled = world
            .hub
            .mark_failed(&taken[0], &RETRY, "503", None, true)
            .await
            .unwrap();
        assert!(settled);
        assert!(lease(&world).await.is_empty(), "not before its retry delay");
        world.advance_clock(RETRY.max_delay);
    }
    assert!(lease(&world).await.is_empty());
    let query = DeadLetterQuery {
        limit: 10,
        ..Default::default()
    };
    let dead = world.hub.store().dead_letters(&query).await.unwrap();
    assert_eq!((dead.len(), dead[0].error.as_deref()), (1, Some("503")));
    assert!(
        world
            .hub
            .store()
            .replay_outbox(&dead[0].id, world.hub.now())
            .await
            .unwrap()
    );
    let again = lease(&world).await;
    assert_eq!((again[0].attempt, &again[0].id), (1, &dead[0].id));
    assert!(world.hub.mark_delivered(&again[0]).await.unwrap());
    world.advance_clock(Duration::from_secs(3_600));
    assert!(lease(&world).await.is_empty());
}

#[tokio::test]
async fn retry_after_is_honored_and_permanent_failure_is_dead() {
    let world = HubFixture::new().await;
    world
        .hub
        .enqueue(vec![entry("slow", None), entry("gone", None)])
        .await
        .unwrap();
    let taken = lease(&world).await;
    let retry_after = Some(Duration::from_secs(60));
    world
        .hub
        .mark_failed(&taken[0], &RETRY, "429", retry_after, true)
        .await
        .unwrap();
    world
        .hub
        .mark_failed(&taken[1], &RETRY, "410", None, false)
        .await
        .unwrap();
    world.advance_clock(Duration::from_secs(59));
    assert!(lease(&world).await.is_empty());
    world.advance_clock(Duration::from_secs(1));
    assert_eq!(keys(&lease(&world).await), ["slow"]);
    assert_eq!(world.hub.store().outbox_depth().await.unwrap(), (1, 1));
}

#[tokio::test]
async fn entry_lease_can_be_renewed_and_released() {
    let world = HubFixture::new().await;
    world.hub.enqueue(vec![entry("a", None)]).await.unwrap();
    let taken = lease(&world).await;
    for _ in 0..3 {
        world.advance_clock(LEASE / 2);
        assert!(world.hub.renew_entry(&taken[0], LEASE).await.unwrap());
        assert!(lease(&world).await.is_empty(), "the lease was renewed");
    }
    assert!(
        world
            .hub
            .release_entry(&taken[0], "stopping")
            .await
            .unwrap()
    );
    let again = lease(&world).await;
    assert_eq!(again[0].attempt, 2);
    assert_eq!(again[0].error.as_deref(), Some("stopping"));
    assert!(!world.hub.renew_entry(&taken[0], LEASE).await.unwrap());
    assert!(!world.hub.release_entry(&taken[0], "late").await.unwrap());
}

#[tokio::test]
async fn expired_entry_lease_passes_to_another_node() {
    let world = HubFixture::new().await;
    world.hub.enqueue(vec![entry("a", None)]).await.unwrap();
    let expired = lease(&world).await;
    assert!(lease(&world).await.is_empty(), "leased");
    world.expire_leases().await;
    let taken = lease(&world).await;
    assert_eq!(taken[0].attempt, 2);
    assert!(
        !world.hub.mark_delivered(&expired[0]).await.unwrap(),
        "the expired lease is void"
    );
    assert!(world.hub.mark_delivered(&taken[0]).await.unwrap());
}

#[tokio::test]
async fn group_entries_are_leased_one_at_a_time() {
    let world = HubFixture::new().await;
    let thread = Some("thread-1");
    let entries = vec![
        entry("1", thread),
        entry("2", thread),
        entry("x", None),
        entry("3", thread),
    ];
    world.hub.enqueue(entries).await.unwrap();
    let taken = lease(&world).await;
    assert_eq!(keys(&taken), ["1", "x"]);
    world
        .hub
        .mark_failed(&taken[0], &RETRY, "503", None, true)
        .await
        .unwrap();
    assert!(
        lease(&world).await.is_empty(),
        "later entries of the group wait"
    );
    world.advance_clock(RETRY.max_delay);
    let taken = lease(&world).await;
    assert_eq!(keys(&taken), ["1"]);
    world
        .hub
        .mark_failed(&taken[0], &RETRY, "gone", None, false)
        .await
        .unwrap();
    let taken = lease(&world).await;
    assert_eq!(keys(&taken), ["2"], "a dead entry does not block its group");
}

#[tokio::test]
async fn duplicate_entry_key_is_enqueued_once() {
    let world = HubFixture::new().await;
    world
        .hub
        .enqueue(vec![entry("a", None), entry("a", None)])
        .await
        .unwrap();
    let taken = lease(&world).await;
    assert_eq!(taken.len(), 1);
    world.hub.mark_delivered(&taken[0]).await.unwrap();
    world.hub.enqueue(vec![entry("a", None)]).await.unwrap();
    assert!(lease(&world).await.is_empty(), "not even after delivery");
}

#[tokio::test]
async fn concurrent_charges_share_one_quota() {
    let world = HubFixture::new().await;
    let rate = Rate {
        limit: 10,
        window: Duration::from_secs(60),
    };
    let charges = (0..40).map(|_| {
        let hub = world.hub.clone();
        tokio::spawn(async move { hub.charge("user-1", rate, 1).await.unwrap() })
    });
    let mut allowed = 0;
    for charge in charges.collect::<Vec<_>>() {
        allowed += usize::from(matches!(charge.await.unwrap(), Charge::Allowed { .. }));
    }
    assert_eq!(allowed, 10);
    assert!(matches!(
        world.hub.charge("user-2", rate, 1).await.unwrap(),
        Charge::Allowed { remaining: 9 }
    ));
}
