//! The end of a node: what runs may finish, and what cannot is given back.

use super::{Did, Place, Stage, ask, ended, quick, start};
use interzone_edge::health::Unwell;
use interzone_protocol::vocab::TaskState;
use std::time::Duration;

#[tokio::test]
async fn what_runs_may_finish_and_nothing_new_begins() {
    let place = Place::new().await;
    let mut stage = Stage::new("actor", 4);
    let hub = place.hub(vec![stage.actor.clone()]);
    let workers = start(&hub, quick("n1"));
    let id = ask(&hub, "work").await;
    stage.begun("work", 1).await;
    let leaving = tokio::spawn(workers.join(Duration::from_secs(60)));
    // Once it has stopped claiming, what comes stays in the queue.
    tokio::task::yield_now().await;
    let later = ask(&hub, "later").await;
    stage.gate.add_permits(1);
    leaving.await.unwrap();
    let (task, _) = ended(&hub, &id).await;
    assert_eq!(task.state, TaskState::Completed);
    assert_eq!(stage.next().await, Did::Finished("work".to_owned()));
    assert!(stage.nothing_more());
    let task = hub.task(&super::alice(), &later).await.unwrap();
    assert_eq!(task.state, TaskState::Submitted);
}

#[tokio::test]
async fn what_cannot_finish_is_given_back_and_taken_over_at_once() {
    let place = Place::new().await;
    let mut stage = Stage::new("actor", 4);
    let hub = place.hub(vec![stage.actor.clone()]);
    for (text, did) in [
        ("wait", Did::Stopped("wait".to_owned())),
        ("hang", Did::Cut("hang".to_owned())),
    ] {
        let workers = start(&hub, quick("n1"));
        let id = ask(&hub, text).await;
        stage.begun(text, 1).await;
        workers.join(Duration::from_millis(20)).await;
        assert_eq!(stage.next().await, did);
        // No time has passed on the leases' clock.
        let others = start(&hub, quick("n2"));
        // A stop in good order uses up no attempt.
        stage.begun(text, 1).await;
        super::call_off(&hub, &id).await;
        assert_eq!(stage.next().await, did);
        others.join(Duration::from_secs(20)).await;
    }
}

#[tokio::test]
async fn workers_that_have_stopped_are_not_well() {
    let place = Place::new().await;
    let stage = Stage::new("actor", 4);
    let hub = place.hub(vec![stage.actor.clone()]);
    let stop = tokio_util::sync::CancellationToken::new();
    let workers = interzone_execution::workers::Workers::start(
        hub,
        std::sync::Arc::new(super::NoWebhooks),
        quick("n1"),
        std::sync::Arc::new(()),
        stop.clone(),
    );
    assert_eq!(workers.healthy(), Ok(()));
    stop.cancel();
    while workers.healthy().is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(matches!(workers.healthy(), Err(Unwell::Ended(_))));
    workers.join(Duration::from_secs(20)).await;
}
