//! Node shutdown: running turns may finish within the grace time, others are released.

use super::{
    AgentAction, AgentScript, WorkersFixture, create_task, quick_options, start_workers,
    wait_until_ended,
};
use interzone_delivery::Unhealthy;
use interzone_protocol::vocab::TaskState;
use std::time::Duration;

#[tokio::test]
async fn shutdown_lets_runs_finish_and_starts_none() {
    let place = WorkersFixture::new().await;
    let mut stage = AgentScript::new("actor", 4);
    let hub = place.hub_with_manual_clock(vec![stage.agent.clone()]);
    let workers = start_workers(&hub, quick_options("n1"));
    let id = create_task(&hub, "work").await;
    stage.expect_started("work", 1).await;
    let shutdown = tokio::spawn(workers.join(Duration::from_secs(60)));
    // After claiming has stopped, new tasks stay in the queue.
    tokio::task::yield_now().await;
    let later = create_task(&hub, "later").await;
    stage.gate.add_permits(1);
    shutdown.await.unwrap();
    let (task, _) = wait_until_ended(&hub, &id).await;
    assert_eq!(task.state, TaskState::Completed);
    assert_eq!(
        stage.next_action().await,
        AgentAction::Finished("work".to_owned())
    );
    assert!(stage.has_no_action());
    let task = hub.task(&super::alice(), &later).await.unwrap();
    assert_eq!(task.state, TaskState::Submitted);
}

#[tokio::test]
async fn run_past_grace_is_released_to_another_node() {
    let place = WorkersFixture::new().await;
    let mut stage = AgentScript::new("actor", 4);
    let hub = place.hub_with_manual_clock(vec![stage.agent.clone()]);
    for (text, did) in [
        ("wait", AgentAction::Stopped("wait".to_owned())),
        ("hang", AgentAction::Dropped("hang".to_owned())),
    ] {
        let workers = start_workers(&hub, quick_options("n1"));
        let id = create_task(&hub, text).await;
        stage.expect_started(text, 1).await;
        workers.join(Duration::from_millis(20)).await;
        assert_eq!(stage.next_action().await, did);
        // The leases' clock has not advanced.
        let others = start_workers(&hub, quick_options("n2"));
        // An orderly stop uses up no attempt.
        stage.expect_started(text, 1).await;
        super::cancel(&hub, &id).await;
        assert_eq!(stage.next_action().await, did);
        others.join(Duration::from_secs(20)).await;
    }
}

#[tokio::test]
async fn stopped_workers_are_unhealthy() {
    let place = WorkersFixture::new().await;
    let stage = AgentScript::new("actor", 4);
    let hub = place.hub_with_manual_clock(vec![stage.agent.clone()]);
    let stop = tokio_util::sync::CancellationToken::new();
    let workers = interzone_execution::workers::Workers::start(
        hub,
        std::sync::Arc::new(super::RejectingDeliveryHandler),
        quick_options("n1"),
        std::sync::Arc::new(()),
        stop.clone(),
    );
    assert_eq!(workers.check_health(), Ok(()));
    stop.cancel();
    while workers.check_health().is_ok() {
        tokio::task::yield_now().await;
    }
    assert!(matches!(workers.check_health(), Err(Unhealthy::Stopped(_))));
    workers.join(Duration::from_secs(20)).await;
}
