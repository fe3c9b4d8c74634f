//! Inbox and outbox: in once, out until it has arrived or been given up.

use super::{LEASE, World};
use interzone_hub::ports::DeadLetterQuery;
use interzone_hub::{Charge, HeldEntry, NewEntry, Rate, RetryPolicy};
use interzone_protocol::vocab::{Json, PrincipalId};
use std::time::Duration;

const RETRY: RetryPolicy = RetryPolicy {
    first: Duration::from_secs(2),
    longest: Duration::from_secs(8),
    attempts: 3,
};

fn entry(key: &str, group: Option<&str>) -> NewEntry {
    NewEntry {
        channel: "slack".to_owned(),
        key: key.to_owned(),
        group: group.map(str::to_owned),
        owner: PrincipalId::new("team").unwrap(),
        subject: None,
        payload: Json::of(key).unwrap(),
    }
}

async fn take(world: &World) -> Vec<HeldEntry> {
    world
        .hub
        .take_out(&["slack".to_owned()], LEASE, 10)
        .await
        .unwrap()
}

fn keys(entries: &[HeldEntry]) -> Vec<&str> {
    entries.iter().map(|entry| entry.key.as_str()).collect()
}

#[tokio::test]
async fn what_comes_twice_is_taken_in_once() {
    let world = World::new().await;
    let receive = async |names: &[&str]| {
        let names: Vec<String> = names.iter().map(|&name| name.to_owned()).collect();
        let work = vec![entry(&names[0], None)];
        world
            .hub
            .receive(&names, Duration::from_secs(3_600), work)
            .await
            .unwrap()
    };
    assert!(receive(&["event-1", "T/C/ts-1"]).await);
    assert!(!receive(&["event-1"]).await, "the same event again");
    assert!(
        !receive(&["event-2", "T/C/ts-1"]).await,
        "its twin under another id"
    );
    assert!(
        receive(&["event-2", "T/C/ts-2"]).await,
        "the refused one took no key"
    );
    assert_eq!(keys(&take(&world).await), ["event-1", "event-2"]);
}

#[tokio::test]
async fn what_does_not_arrive_is_tried_again_and_given_up_in_the_end() {
    let world = World::new().await;
    world.hub.enqueue(vec![entry("a", None)]).await.unwrap();
    for attempt in 1..=3 {
        let taken = take(&world).await;
        assert_eq!(taken[0].attempt, attempt);
        let settled = world
            .hub
            .did_not_arrive(&taken[0], &RETRY, "503", None, true)
            .await
            .unwrap();
        assert!(settled);
        assert!(take(&world).await.is_empty(), "not before its time");
        world.pass(RETRY.longest);
    }
    assert!(take(&world).await.is_empty());
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
    let again = take(&world).await;
    assert_eq!((again[0].attempt, &again[0].id), (1, &dead[0].id));
    assert!(world.hub.arrived(&again[0]).await.unwrap());
    world.pass(Duration::from_secs(3_600));
    assert!(take(&world).await.is_empty());
}

#[tokio::test]
async fn a_receiver_may_ask_for_patience_and_a_hopeless_case_is_given_up_at_once() {
    let world = World::new().await;
    world
        .hub
        .enqueue(vec![entry("slow", None), entry("gone", None)])
        .await
        .unwrap();
    let taken = take(&world).await;
    let asked = Some(Duration::from_secs(60));
    world
        .hub
        .did_not_arrive(&taken[0], &RETRY, "429", asked, true)
        .await
        .unwrap();
    world
        .hub
        .did_not_arrive(&taken[1], &RETRY, "410", None, false)
        .await
        .unwrap();
    world.pass(Duration::from_secs(59));
    assert!(take(&world).await.is_empty());
    world.pass(Duration::from_secs(1));
    assert_eq!(keys(&take(&world).await), ["slow"]);
    assert_eq!(world.hub.store().outbox_depth().await.unwrap(), (1, 1));
}

#[tokio::test]
async fn an_entry_that_takes_long_is_held_on_and_can_be_given_back() {
    let world = World::new().await;
    world.hub.enqueue(vec![entry("a", None)]).await.unwrap();
    let taken = take(&world).await;
    for _ in 0..3 {
        world.pass(LEASE / 2);
        assert!(world.hub.keep_holding(&taken[0], LEASE).await.unwrap());
        assert!(take(&world).await.is_empty(), "it is held on");
    }
    assert!(world.hub.hand_back(&taken[0], "stopping").await.unwrap());
    let again = take(&world).await;
    assert_eq!(again[0].attempt, 2);
    assert_eq!(again[0].error.as_deref(), Some("stopping"));
    assert!(!world.hub.keep_holding(&taken[0], LEASE).await.unwrap());
    assert!(!world.hub.hand_back(&taken[0], "late").await.unwrap());
}

#[tokio::test]
async fn a_carrier_that_dies_leaves_its_entries_to_the_next() {
    let world = World::new().await;
    world.hub.enqueue(vec![entry("a", None)]).await.unwrap();
    let dead = take(&world).await;
    assert!(take(&world).await.is_empty(), "held");
    world.end_leases().await;
    let taken = take(&world).await;
    assert_eq!(taken[0].attempt, 2);
    assert!(
        !world.hub.arrived(&dead[0]).await.unwrap(),
        "the first no longer counts"
    );
    assert!(world.hub.arrived(&taken[0]).await.unwrap());
}

#[tokio::test]
async fn a_group_leaves_one_after_another() {
    let world = World::new().await;
    let thread = Some("thread-1");
    let entries = vec![
        entry("1", thread),
        entry("2", thread),
        entry("x", None),
        entry("3", thread),
    ];
    world.hub.enqueue(entries).await.unwrap();
    let taken = take(&world).await;
    assert_eq!(keys(&taken), ["1", "x"]);
    world
        .hub
        .did_not_arrive(&taken[0], &RETRY, "503", None, true)
        .await
        .unwrap();
    assert!(take(&world).await.is_empty(), "those behind wait with it");
    world.pass(RETRY.longest);
    let taken = take(&world).await;
    assert_eq!(keys(&taken), ["1"]);
    world
        .hub
        .did_not_arrive(&taken[0], &RETRY, "gone", None, false)
        .await
        .unwrap();
    let taken = take(&world).await;
    assert_eq!(keys(&taken), ["2"], "a dead one holds nobody up");
}

#[tokio::test]
async fn the_same_entry_is_not_added_twice() {
    let world = World::new().await;
    world
        .hub
        .enqueue(vec![entry("a", None), entry("a", None)])
        .await
        .unwrap();
    let taken = take(&world).await;
    assert_eq!(taken.len(), 1);
    world.hub.arrived(&taken[0]).await.unwrap();
    world.hub.enqueue(vec![entry("a", None)]).await.unwrap();
    assert!(
        take(&world).await.is_empty(),
        "not even after it has arrived"
    );
}

#[tokio::test]
async fn a_quota_is_one_for_all_who_charge_it() {
    let world = World::new().await;
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
        Charge::Allowed { left: 9 }
    ));
}
