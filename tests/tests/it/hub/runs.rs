//! Runs: a complete turn, a lost lease, a dead node, a cancellation during a turn.

use super::{HubFixture, LEASE, agent, caller, completed_outcome, start_turn};
use interzone_hub::{
    AgentError, EventBody, HubError, Limits, NewTask, Route, Run, Subject, TurnOutput, TurnStart,
};
use interzone_protocol::vocab::{Artifact, ArtifactId, Message, Part, Priority, TaskId, TaskState};
use std::time::Duration;

async fn create_task(world: &HubFixture, text: &str) -> TaskId {
    let new = NewTask::new(Message::user_text(text));
    world
        .hub
        .create_task(&caller("alice"), new)
        .await
        .unwrap()
        .id
}

async fn event_log(world: &HubFixture, id: &TaskId) -> Vec<EventBody> {
    let subject = Subject::Task(id.clone());
    let events = world.hub.store().events(&subject, 0, 1_000).await.unwrap();
    for (expected, event) in (1..).zip(&events) {
        assert_eq!(event.seq, expected, "sequence numbers rise by one");
    }
    events.into_iter().map(|event| event.body).collect()
}

fn artifact(id: &str, text: &str) -> Artifact {
    Artifact::new(ArtifactId::new(id).unwrap(), id).with_part(Part::text(text))
}

#[tokio::test]
async fn turn_events_are_logged_in_order() {
    let world = HubFixture::new().await;
    let id = create_task(&world, "make a report").await;
    let run = world.claim("n1").await;
    let turn = start_turn(&run).await;
    run.status("thinking").await.unwrap();
    for piece in ["Here ", "it ", "is"] {
        run.text(piece).await.unwrap();
    }
    run.artifact(artifact("report", "one"), false, false)
        .await
        .unwrap();
    run.artifact(artifact("report", "two"), true, true)
        .await
        .unwrap();
    run.complete(&turn, completed_outcome("Here it is"))
        .await
        .unwrap();

    let log = event_log(&world, &id).await;
    let names: Vec<_> = log.iter().map(EventBody::name).collect();
    let expected = [
        "created", "state", "status", "text", "artifact", "artifact", "message", "state",
    ];
    assert_eq!(names, expected);
    assert!(matches!(&log[3], EventBody::Text { offset: 0, delta, .. } if delta == "Here it is"));
    let detail = world
        .hub
        .task_detail(&caller("alice"), &id, 10, true)
        .await
        .unwrap();
    assert_eq!(detail.artifacts.len(), 1);
    assert_eq!(
        detail.artifacts[0].parts(),
        [Part::text("one"), Part::text("two")]
    );
    assert_eq!(detail.messages[1].agent_id(), Some(&agent("demo")));
}

#[tokio::test]
async fn text_deltas_are_written_about_twenty_times_a_second() {
    let world = HubFixture::new().await;
    let id = create_task(&world, "tell me a story").await;
    let run = world.claim("n1").await;
    let turn = start_turn(&run).await;
    for _ in 0..100 {
        run.text("word ").await.unwrap();
        world.advance_clock(Duration::from_millis(10));
    }
    run.flush_if_due().await.unwrap();
    run.complete(&turn, completed_outcome("end")).await.unwrap();
    let log = event_log(&world, &id).await;
    let (mut length, mut writes) = (0, 0);
    for body in &log {
        if let EventBody::Text { offset, delta, .. } = body {
            assert_eq!(*offset, length, "deltas are contiguous");
            length += u64::try_from(delta.len()).unwrap();
            writes += 1;
        }
    }
    assert_eq!(length, 500);
    assert!((15..=25).contains(&writes), "{writes} writes in a second");
}

#[tokio::test]
async fn work_is_claimed_by_priority_then_age() {
    let world = HubFixture::new().await;
    let mut ids = Vec::new();
    for priority in [
        Priority::Normal,
        Priority::Low,
        Priority::Urgent,
        Priority::Normal,
    ] {
        let new = NewTask {
            priority,
            ..NewTask::new(Message::user_text("x"))
        };
        ids.push(
            world
                .hub
                .create_task(&caller("alice"), new)
                .await
                .unwrap()
                .id,
        );
    }
    let route = Route {
        assign_to: Some("other".to_owned()),
        ..Route::default()
    };
    let new = NewTask {
        route,
        priority: Priority::Urgent,
        ..NewTask::new(Message::user_text("x"))
    };
    world.hub.create_task(&caller("alice"), new).await.unwrap();
    let mut held = Vec::new();
    for expected in [2, 0, 3, 1] {
        let run = world.claim("n1").await;
        assert_eq!(run.work_item().task_id, ids[expected]);
        held.push(run);
    }
    assert!(
        world.has_no_claimable_work("n1").await,
        "the remaining task is another agent's"
    );
}

#[tokio::test]
async fn run_with_lost_lease_cannot_write() {
    let world = HubFixture::new().await;
    let id = create_task(&world, "x").await;
    let slow = world.claim("n1").await;
    let slow_turn = start_turn(&slow).await;
    assert!(slow.renew_lease(LEASE).await.unwrap());
    world.expire_leases().await;
    let quick = world.claim("n2").await;
    assert_eq!(quick.work_item().attempt, 2);
    let quick_turn = start_turn(&quick).await;

    let before = event_log(&world, &id).await;
    assert!(matches!(
        slow.status("still here").await,
        Err(HubError::Stopped)
    ));
    assert!(slow.cancel_token().is_cancelled(), "the run is canceled");
    assert!(matches!(slow.text("late").await, Err(HubError::Stopped)));
    assert!(matches!(
        slow.artifact(artifact("a", "x"), false, true).await,
        Err(HubError::Stopped)
    ));
    assert!(matches!(
        slow.complete(&slow_turn, completed_outcome("late")).await,
        Err(HubError::Stopped)
    ));
    assert!(!slow.renew_lease(LEASE).await.unwrap());
    assert!(!slow.release().await.unwrap());
    assert_eq!(event_log(&world, &id).await, before);

    let task = quick
        .complete(&quick_turn, completed_outcome("done"))
        .await
        .unwrap();
    assert_eq!(task.state, TaskState::Completed);
}

#[tokio::test]
async fn task_fails_after_max_attempts() {
    let world = HubFixture::with_limits(Limits {
        attempts: 2,
        ..Limits::default()
    })
    .await;
    let id = create_task(&world, "x").await;
    for _ in 0..2 {
        start_turn(&*world.claim("n1").await).await;
        world.expire_leases().await;
    }
    let run = world.claim("n1").await;
    assert!(matches!(
        run.start_turn().await.unwrap(),
        TurnStart::NothingToDo
    ));
    let detail = world
        .hub
        .task_detail(&caller("alice"), &id, 0, false)
        .await
        .unwrap();
    assert_eq!(detail.task.state, TaskState::Failed);
    assert!(
        detail
            .status_message
            .unwrap()
            .text()
            .contains("started 2 times")
    );
    world.expire_leases().await;
    assert!(world.has_no_claimable_work("n1").await);
}

#[tokio::test]
async fn released_run_is_claimable_at_once() {
    let world = HubFixture::new().await;
    create_task(&world, "x").await;
    let run = world.claim("n1").await;
    start_turn(&run).await;
    assert!(run.release().await.unwrap());
    let next = world.claim("n2").await;
    assert_eq!(
        next.work_item().attempt,
        1,
        "a released attempt does not count"
    );
}

#[tokio::test]
async fn message_during_turn_starts_another_turn() {
    let world = HubFixture::new().await;
    let id = create_task(&world, "first").await;
    let run = world.claim("n1").await;
    let first = start_turn(&run).await;
    let alice = caller("alice");
    world
        .hub
        .send_message(&alice, &id, Message::user_text("and also this"))
        .await
        .unwrap();
    let task = run
        .complete(&first, completed_outcome("first done"))
        .await
        .unwrap();
    assert_eq!(
        task.state,
        TaskState::Working,
        "an acknowledged message is not lost"
    );
    assert!(
        matches!(run.status("late").await, Err(HubError::Stopped)),
        "the old turn is over"
    );
    let run = world.claim("n1").await;
    let second = start_turn(&run).await;
    assert_eq!(
        (second.message.text().as_str(), second.attempt),
        ("and also this", 1)
    );
    let task = run
        .complete(&second, completed_outcome("both done"))
        .await
        .unwrap();
    assert_eq!(task.state, TaskState::Completed);
}

#[tokio::test]
async fn cancel_stops_run() {
    let world = HubFixture::new().await;
    let id = create_task(&world, "x").await;
    let run = world.claim("n1").await;
    let turn = start_turn(&run).await;
    let watching = {
        let run = run.clone();
        tokio::spawn(async move { Run::wait_for_cancel(&run).await })
    };
    world.hub.cancel(&caller("alice"), &id, None).await.unwrap();
    watching.await.unwrap();
    assert!(turn.cancel_token.is_cancelled());
    assert!(matches!(
        run.complete(&turn, completed_outcome("late")).await,
        Err(HubError::Stopped)
    ));
    let task = world.hub.task(&caller("alice"), &id).await.unwrap();
    assert_eq!(task.state, TaskState::Canceled);
}

#[tokio::test]
async fn agent_error_exposes_code_without_detail() {
    let world = HubFixture::new().await;
    let id = create_task(&world, "x").await;
    let run = world.claim("n1").await;
    start_turn(&run).await;
    let error = AgentError {
        code: "agent_crashed",
        detail: "/secret/path: boom".to_owned(),
    };
    run.fail(&error).await.unwrap();
    let detail = world
        .hub
        .task_detail(&caller("alice"), &id, 10, false)
        .await
        .unwrap();
    assert_eq!(detail.task.state, TaskState::Failed);
    let text = detail.status_message.unwrap().text();
    assert!(
        text.contains("agent_crashed") && !text.contains("secret"),
        "{text}"
    );
}

#[tokio::test]
async fn concurrent_task_writers_all_succeed() {
    let world = HubFixture::new().await;
    let id = create_task(&world, "x").await;
    let run = world.claim("n1").await;
    start_turn(&run).await;
    let writers = (0..16).map(|n| {
        let (hub, run, id) = (world.hub.clone(), run.clone(), id.clone());
        tokio::spawn(async move {
            if n % 2 == 0 {
                hub.send_message(&caller("alice"), &id, Message::user_text("x"))
                    .await
                    .map(drop)
            } else {
                run.status("busy").await
            }
        })
    });
    for writer in writers.collect::<Vec<_>>() {
        writer.await.unwrap().unwrap();
    }
    assert_eq!(event_log(&world, &id).await.len(), 2 + 16);
    assert_eq!(
        world
            .hub
            .task(&caller("alice"), &id)
            .await
            .unwrap()
            .message_count,
        9
    );
}

#[tokio::test]
async fn lost_claim_does_not_start_turn() {
    let world = HubFixture::new().await;
    create_task(&world, "x").await;
    start_turn(&*world.claim("n1").await).await;
    world.expire_leases().await;
    let paused = world.claim("n2").await;
    world.expire_leases().await;
    let quick = world.claim("n3").await;
    assert!(matches!(
        paused.start_turn().await.unwrap(),
        TurnStart::NothingToDo
    ));
    assert!(paused.cancel_token().is_cancelled());
    start_turn(&quick).await;
}

#[tokio::test]
async fn clock_set_back_does_not_delay_work() {
    let world = HubFixture::new().await;
    let id = create_task(&world, "first").await;
    let run = world.claim("n1").await;
    let first = start_turn(&run).await;
    world.advance_clock(Duration::from_secs(3_600));
    run.renew_lease(LEASE).await.unwrap();
    let question = interzone_hub::TurnOutcome::InputRequired(Message::agent_text("which?"));
    run.complete(&first, question).await.unwrap();
    world
        .clock
        .0
        .fetch_sub(3_600_000, std::sync::atomic::Ordering::SeqCst);
    world
        .hub
        .send_message(&caller("alice"), &id, Message::user_text("that"))
        .await
        .unwrap();
    assert_eq!(
        start_turn(&*world.claim("n1").await).await.message.text(),
        "that"
    );
}
