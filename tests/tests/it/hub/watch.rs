//! Watches: replay of past events, then live events, without gaps or repetitions.

use super::{HubFixture, caller, completed_outcome, start_turn};
use interzone_hub::{
    EventBody, Hub, Limits, NewTask, RandomIds, Registry, Subject, TurnOutput, Watch, WatchItem,
};
use interzone_protocol::vocab::{Message, TaskId};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

async fn create_task(world: &HubFixture) -> TaskId {
    let new = NewTask::new(Message::user_text("x"));
    world
        .hub
        .create_task(&caller("alice"), new)
        .await
        .unwrap()
        .id
}

async fn watch(world: &HubFixture, id: &TaskId, after: u64) -> Watch {
    world
        .hub
        .watch(&caller("alice"), Subject::Task(id.clone()), after)
        .await
        .unwrap()
}

/// Returns the next watch item; fails after a timeout.
async fn next(watch: &mut Watch) -> Option<WatchItem> {
    tokio::time::timeout(Duration::from_secs(20), watch.next())
        .await
        .expect("a watch item before the timeout")
        .unwrap()
}

/// Sequence numbers of all events until the watch ends.
async fn event_seqs(mut watch: Watch) -> Vec<u64> {
    let mut numbers = Vec::new();
    while let Some(item) = next(&mut watch).await {
        if let WatchItem::Event(event) = item {
            numbers.push(event.seq);
        }
    }
    numbers
}

#[tokio::test(flavor = "multi_thread")]
async fn every_watch_gets_all_events_once_in_order() {
    let world = HubFixture::new().await;
    let id = create_task(&world).await;
    let run = world.claim("n1").await;
    let turn = start_turn(&run).await;
    let mut watchers = Vec::new();
    let mut total = 2;
    for n in 0..300_u64 {
        run.status("step").await.unwrap();
        total += 1;
        if n % 30 == 0 {
            watchers.push(tokio::spawn(event_seqs(watch(&world, &id, n / 2).await)));
        }
    }
    run.complete(&turn, completed_outcome("done"))
        .await
        .unwrap();
    total += 2;
    for (n, watcher) in (0..300_u64).step_by(30).zip(watchers) {
        let expected: Vec<u64> = (n / 2 + 1..=total).collect();
        assert_eq!(watcher.await.unwrap(), expected, "from {}", n / 2);
    }
    assert_eq!(
        event_seqs(watch(&world, &id, total).await).await,
        [0; 0],
        "nothing after the end"
    );
    assert_eq!(
        event_seqs(watch(&world, &id, total - 1).await).await,
        [total]
    );
}

#[tokio::test]
async fn slow_watch_misses_nothing_and_blocks_no_writer() {
    let world = HubFixture::new().await;
    let id = create_task(&world).await;
    let run = world.claim("n1").await;
    let turn = start_turn(&run).await;
    let mut slow = watch(&world, &id, 0).await;
    assert!(matches!(next(&mut slow).await, Some(WatchItem::Event(event)) if event.seq == 1));
    for _ in 0..1_000 {
        run.status("step").await.unwrap();
    }
    run.complete(&turn, completed_outcome("done"))
        .await
        .unwrap();
    assert_eq!(event_seqs(slow).await, (2..=1_004).collect::<Vec<u64>>());
}

#[tokio::test]
async fn text_deltas_are_live_and_not_repeated_by_the_log() {
    let world = HubFixture::new().await;
    let id = create_task(&world).await;
    let run = world.claim("n1").await;
    let turn = start_turn(&run).await;
    let mut early = watch(&world, &id, 2).await;
    let next_delta = async |watch: &mut Watch| match next(watch).await {
        Some(WatchItem::TextDelta { delta, .. }) => delta.to_string(),
        other => panic!("{other:?}"),
    };
    run.text("Hello ").await.unwrap();
    assert_eq!(next_delta(&mut early).await, "Hello ");
    run.text("wor").await.unwrap();
    assert_eq!(next_delta(&mut early).await, "wor");
    // A watch opened now has missed the first deltas and reads the text from the log.
    let mut late = watch(&world, &id, 2).await;
    run.text("ld").await.unwrap();
    run.complete(&turn, completed_outcome("Hello world"))
        .await
        .unwrap();

    assert_eq!(next_delta(&mut early).await, "ld");
    let event = |item: Option<WatchItem>| match item {
        Some(WatchItem::Event(event)) => event.body.clone(),
        other => panic!("{other:?}"),
    };
    let logged = event(next(&mut early).await);
    assert!(
        matches!(logged, EventBody::Text { delta, .. } if delta.is_empty()),
        "all of it was sent as deltas"
    );
    let logged = event(next(&mut late).await);
    assert!(matches!(logged, EventBody::Text { delta, offset: 0, .. } if delta == "Hello world"));
}

#[tokio::test]
async fn restarted_run_restarts_its_text() {
    let world = HubFixture::new().await;
    let id = create_task(&world).await;
    let run = world.claim("n1").await;
    start_turn(&run).await;
    let mut watch = watch(&world, &id, 2).await;
    run.text("half an ans").await.unwrap();
    world.advance_clock(Duration::from_secs(60));
    run.flush_if_due().await.unwrap_or_default();
    world.expire_leases().await;
    let run = world.claim("n2").await;
    let turn = start_turn(&run).await;
    run.text("the whole answer").await.unwrap();
    run.complete(&turn, completed_outcome("the whole answer"))
        .await
        .unwrap();
    let (mut last_run, mut text) = (0, String::new());
    while let Some(item) = next(&mut watch).await {
        let (run, offset, delta) = match &item {
            WatchItem::TextDelta { run, offset, delta } => (*run, *offset, delta.to_string()),
            WatchItem::Event(event) => match &event.body {
                EventBody::Text {
                    run, offset, delta, ..
                } => (*run, *offset, delta.clone()),
                _ => continue,
            },
        };
        if run > last_run {
            (last_run, text) = (run, String::new());
        }
        assert_eq!(
            u64::try_from(text.len()).unwrap(),
            offset,
            "no gap and no repetition"
        );
        text.push_str(&delta);
    }
    assert_eq!(text, "the whole answer");
}

#[tokio::test(flavor = "multi_thread")]
async fn watches_on_another_node_get_all_events_in_order() {
    let world = HubFixture::new().await;
    let id = create_task(&world).await;
    let other = Hub::new(
        world.hub.store().clone(),
        world.clock.clone(),
        Arc::new(RandomIds),
        Registry::default(),
        Limits::default(),
    );
    let stop = CancellationToken::new();
    let forwarding = tokio::spawn(other.forward_changes(stop.clone(), |_| {}));
    let mut watchers = Vec::new();
    for _ in 0..40 {
        let subject = Subject::Task(id.clone());
        let watch = other.watch(&caller("alice"), subject, 0).await.unwrap();
        watchers.push(tokio::spawn(event_seqs(watch)));
    }
    let run = world.claim("n1").await;
    let turn = start_turn(&run).await;
    for _ in 0..100 {
        run.status("step").await.unwrap();
    }
    run.complete(&turn, completed_outcome("done"))
        .await
        .unwrap();
    let expected: Vec<u64> = (1..=104).collect();
    for watcher in watchers {
        assert_eq!(watcher.await.unwrap(), expected);
    }
    stop.cancel();
    forwarding.await.unwrap();
}
