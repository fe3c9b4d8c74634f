//! Watching: what has happened, then what happens, without a gap and without repetition.

use super::{World, caller, completed, turn};
use interzone_hub::{
    EventBody, Hub, Limits, NewTask, Output, RandomIds, Registry, Seen, Subject, Watch,
};
use interzone_protocol::vocab::{Message, TaskId};
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

async fn ask(world: &World) -> TaskId {
    let new = NewTask::new(Message::user_text("x"));
    world
        .hub
        .create_task(&caller("alice"), new)
        .await
        .unwrap()
        .id
}

async fn watch(world: &World, id: &TaskId, after: u64) -> Watch {
    world
        .hub
        .watch(&caller("alice"), Subject::Task(id.clone()), after)
        .await
        .unwrap()
}

/// What is seen next, which must come soon.
async fn next(watch: &mut Watch) -> Option<Seen> {
    tokio::time::timeout(Duration::from_secs(20), watch.next())
        .await
        .expect("news")
        .unwrap()
}

/// The numbers of all events until the end.
async fn numbers(mut watch: Watch) -> Vec<u64> {
    let mut numbers = Vec::new();
    while let Some(seen) = next(&mut watch).await {
        if let Seen::Event(event) = seen {
            numbers.push(event.seq);
        }
    }
    numbers
}

#[tokio::test(flavor = "multi_thread")]
async fn every_watcher_sees_every_event_once_in_order_until_the_end() {
    let world = World::new().await;
    let id = ask(&world).await;
    let run = world.claim("n1").await;
    let turn = turn(&run).await;
    let mut watchers = Vec::new();
    let mut total = 2;
    for n in 0..300_u64 {
        run.status("step").await.unwrap();
        total += 1;
        if n % 30 == 0 {
            watchers.push(tokio::spawn(numbers(watch(&world, &id, n / 2).await)));
        }
    }
    run.end(&turn, completed("done")).await.unwrap();
    total += 2;
    for (n, watcher) in (0..300_u64).step_by(30).zip(watchers) {
        let expected: Vec<u64> = (n / 2 + 1..=total).collect();
        assert_eq!(watcher.await.unwrap(), expected, "from {}", n / 2);
    }
    assert_eq!(
        numbers(watch(&world, &id, total).await).await,
        [0; 0],
        "nothing after the end"
    );
    assert_eq!(numbers(watch(&world, &id, total - 1).await).await, [total]);
}

#[tokio::test]
async fn a_slow_watcher_misses_nothing_and_holds_nobody_up() {
    let world = World::new().await;
    let id = ask(&world).await;
    let run = world.claim("n1").await;
    let turn = turn(&run).await;
    let mut slow = watch(&world, &id, 0).await;
    assert!(matches!(next(&mut slow).await, Some(Seen::Event(event)) if event.seq == 1));
    for _ in 0..1_000 {
        run.status("step").await.unwrap();
    }
    run.end(&turn, completed("done")).await.unwrap();
    assert_eq!(numbers(slow).await, (2..=1_004).collect::<Vec<u64>>());
}

#[tokio::test]
async fn growing_text_is_shown_at_once_and_never_twice() {
    let world = World::new().await;
    let id = ask(&world).await;
    let run = world.claim("n1").await;
    let turn = turn(&run).await;
    let mut early = watch(&world, &id, 2).await;
    let shown = async |watch: &mut Watch| match next(watch).await {
        Some(Seen::Text { delta, .. }) => delta.to_string(),
        other => panic!("{other:?}"),
    };
    run.text("Hello ").await.unwrap();
    assert_eq!(shown(&mut early).await, "Hello ");
    run.text("wor").await.unwrap();
    assert_eq!(shown(&mut early).await, "wor");
    // Somebody who comes now has missed the beginning, and waits for the log.
    let mut late = watch(&world, &id, 2).await;
    run.text("ld").await.unwrap();
    run.end(&turn, completed("Hello world")).await.unwrap();

    assert_eq!(shown(&mut early).await, "ld");
    let event = |seen: Option<Seen>| match seen {
        Some(Seen::Event(event)) => event.body.clone(),
        other => panic!("{other:?}"),
    };
    let logged = event(next(&mut early).await);
    assert!(
        matches!(logged, EventBody::Text { delta, .. } if delta.is_empty()),
        "all was shown"
    );
    let logged = event(next(&mut late).await);
    assert!(matches!(logged, EventBody::Text { delta, offset: 0, .. } if delta == "Hello world"));
}

#[tokio::test]
async fn a_run_that_begins_again_begins_its_text_again() {
    let world = World::new().await;
    let id = ask(&world).await;
    let run = world.claim("n1").await;
    turn(&run).await;
    let mut watch = watch(&world, &id, 2).await;
    run.text("half an ans").await.unwrap();
    world.pass(Duration::from_secs(60));
    run.tick().await.unwrap_or_default();
    world.end_leases().await;
    let run = world.claim("n2").await;
    let turn = turn(&run).await;
    run.text("the whole answer").await.unwrap();
    run.end(&turn, completed("the whole answer")).await.unwrap();
    let (mut last_run, mut text) = (0, String::new());
    while let Some(seen) = next(&mut watch).await {
        let (run, offset, delta) = match &seen {
            Seen::Text { run, offset, delta } => (*run, *offset, delta.to_string()),
            Seen::Event(event) => match &event.body {
                EventBody::Text { run, offset, delta } => (*run, *offset, delta.clone()),
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
async fn a_crowd_on_another_node_sees_every_event_once_in_order() {
    let world = World::new().await;
    let id = ask(&world).await;
    let other = Hub::new(
        world.hub.store().clone(),
        world.clock.clone(),
        Arc::new(RandomIds),
        Registry::default(),
        Limits::default(),
    );
    let stop = CancellationToken::new();
    let passing = tokio::spawn(other.pass_on_wakes(stop.clone(), |_| {}));
    let mut watchers = Vec::new();
    for _ in 0..40 {
        let subject = Subject::Task(id.clone());
        let watch = other.watch(&caller("alice"), subject, 0).await.unwrap();
        watchers.push(tokio::spawn(numbers(watch)));
    }
    let run = world.claim("n1").await;
    let turn = turn(&run).await;
    for _ in 0..100 {
        run.status("step").await.unwrap();
    }
    run.end(&turn, completed("done")).await.unwrap();
    let expected: Vec<u64> = (1..=104).collect();
    for watcher in watchers {
        assert_eq!(watcher.await.unwrap(), expected);
    }
    stop.cancel();
    passing.await.unwrap();
}
