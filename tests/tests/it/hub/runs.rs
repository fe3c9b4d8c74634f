//! Runs: a whole turn, a lost lease, a dead node, a task called off in the middle.

use super::{LEASE, World, agent, caller, completed, turn};
use interzone_hub::{
    AgentError, EventBody, HubError, Limits, NewTask, Output, Route, Run, Subject, TurnStart,
};
use interzone_protocol::vocab::{Artifact, ArtifactId, Message, Part, Priority, TaskId, TaskState};
use std::time::Duration;

async fn ask(world: &World, text: &str) -> TaskId {
    let new = NewTask::new(Message::user_text(text));
    world
        .hub
        .create_task(&caller("alice"), new)
        .await
        .unwrap()
        .id
}

async fn log(world: &World, id: &TaskId) -> Vec<EventBody> {
    let subject = Subject::Task(id.clone());
    let events = world.hub.store().events(&subject, 0, 1_000).await.unwrap();
    for (expected, event) in (1..).zip(&events) {
        assert_eq!(event.seq, expected, "numbers rise by one");
    }
    events.into_iter().map(|event| event.body).collect()
}

fn artifact(id: &str, text: &str) -> Artifact {
    Artifact::new(ArtifactId::new(id).unwrap(), id).with_part(Part::text(text))
}

#[tokio::test]
async fn a_whole_turn_is_in_the_log_in_order() {
    let world = World::new().await;
    let id = ask(&world, "make a report").await;
    let run = world.claim("n1").await;
    let turn = turn(&run).await;
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
    run.end(&turn, completed("Here it is")).await.unwrap();

    let log = log(&world, &id).await;
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
async fn growing_text_is_written_about_twenty_times_a_second() {
    let world = World::new().await;
    let id = ask(&world, "tell me a story").await;
    let run = world.claim("n1").await;
    let turn = turn(&run).await;
    for _ in 0..100 {
        run.text("word ").await.unwrap();
        world.pass(Duration::from_millis(10));
    }
    run.tick().await.unwrap();
    run.end(&turn, completed("end")).await.unwrap();
    let log = log(&world, &id).await;
    let (mut length, mut writes) = (0, 0);
    for body in &log {
        if let EventBody::Text { offset, delta, .. } = body {
            assert_eq!(*offset, length, "pieces follow each other");
            length += u64::try_from(delta.len()).unwrap();
            writes += 1;
        }
    }
    assert_eq!(length, 500);
    assert!((15..=25).contains(&writes), "{writes} writes in a second");
}

#[tokio::test]
async fn urgent_work_comes_first_and_else_the_oldest() {
    let world = World::new().await;
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
        assert_eq!(run.item().task_id, ids[expected]);
        held.push(run);
    }
    assert!(
        world.claims_nothing("n1").await,
        "the rest is another agent's"
    );
}

#[tokio::test]
async fn a_node_that_lost_its_lease_writes_nothing() {
    let world = World::new().await;
    let id = ask(&world, "x").await;
    let slow = world.claim("n1").await;
    let slow_turn = turn(&slow).await;
    assert!(slow.renew(LEASE).await.unwrap());
    world.end_leases().await;
    let quick = world.claim("n2").await;
    assert_eq!(quick.item().attempt, 2);
    let quick_turn = turn(&quick).await;

    let before = log(&world, &id).await;
    assert!(matches!(
        slow.status("still here").await,
        Err(HubError::Stopped)
    ));
    assert!(slow.stop().is_cancelled(), "it is told to stop");
    assert!(matches!(slow.text("late").await, Err(HubError::Stopped)));
    assert!(matches!(
        slow.artifact(artifact("a", "x"), false, true).await,
        Err(HubError::Stopped)
    ));
    assert!(matches!(
        slow.end(&slow_turn, completed("late")).await,
        Err(HubError::Stopped)
    ));
    assert!(!slow.renew(LEASE).await.unwrap());
    assert!(!slow.give_back().await.unwrap());
    assert_eq!(log(&world, &id).await, before);

    let task = quick.end(&quick_turn, completed("done")).await.unwrap();
    assert_eq!(task.state, TaskState::Completed);
}

#[tokio::test]
async fn work_that_kills_every_node_is_given_up() {
    let world = World::with(Limits {
        attempts: 2,
        ..Limits::default()
    })
    .await;
    let id = ask(&world, "x").await;
    for _ in 0..2 {
        turn(&*world.claim("n1").await).await;
        world.end_leases().await;
    }
    let run = world.claim("n1").await;
    assert!(matches!(run.begin().await.unwrap(), TurnStart::Nothing));
    let detail = world
        .hub
        .task_detail(&caller("alice"), &id, 0, false)
        .await
        .unwrap();
    assert_eq!(detail.task.state, TaskState::Failed);
    assert!(detail.status.unwrap().text().contains("begun 2 times"));
    world.end_leases().await;
    assert!(world.claims_nothing("n1").await);
}

#[tokio::test]
async fn work_that_is_given_back_is_anybodys_at_once() {
    let world = World::new().await;
    ask(&world, "x").await;
    let run = world.claim("n1").await;
    turn(&run).await;
    assert!(run.give_back().await.unwrap());
    let next = world.claim("n2").await;
    assert_eq!(next.item().attempt, 1, "what was given back does not count");
}

#[tokio::test]
async fn what_is_said_during_a_turn_begins_another() {
    let world = World::new().await;
    let id = ask(&world, "first").await;
    let run = world.claim("n1").await;
    let first = turn(&run).await;
    let alice = caller("alice");
    world
        .hub
        .send(&alice, &id, Message::user_text("and also this"))
        .await
        .unwrap();
    let task = run.end(&first, completed("first done")).await.unwrap();
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
    let second = turn(&run).await;
    assert_eq!(
        (second.message.text().as_str(), second.attempt),
        ("and also this", 1)
    );
    let task = run.end(&second, completed("both done")).await.unwrap();
    assert_eq!(task.state, TaskState::Completed);
}

#[tokio::test]
async fn calling_off_stops_the_run() {
    let world = World::new().await;
    let id = ask(&world, "x").await;
    let run = world.claim("n1").await;
    let turn = turn(&run).await;
    let watching = {
        let run = run.clone();
        tokio::spawn(async move { Run::watch_for_cancel(&run).await })
    };
    world.hub.cancel(&caller("alice"), &id, None).await.unwrap();
    watching.await.unwrap();
    assert!(turn.stop.is_cancelled());
    assert!(matches!(
        run.end(&turn, completed("late")).await,
        Err(HubError::Stopped)
    ));
    let task = world.hub.task(&caller("alice"), &id).await.unwrap();
    assert_eq!(task.state, TaskState::Canceled);
}

#[tokio::test]
async fn a_broken_agent_tells_its_caller_a_word_and_no_details() {
    let world = World::new().await;
    let id = ask(&world, "x").await;
    let run = world.claim("n1").await;
    turn(&run).await;
    let error = AgentError {
        code: "agent_crashed",
        detail: "/secret/path: boom".to_owned(),
    };
    run.broke(&error).await.unwrap();
    let detail = world
        .hub
        .task_detail(&caller("alice"), &id, 10, false)
        .await
        .unwrap();
    assert_eq!(detail.task.state, TaskState::Failed);
    let said = detail.status.unwrap().text();
    assert!(
        said.contains("agent_crashed") && !said.contains("secret"),
        "{said}"
    );
}

#[tokio::test]
async fn writers_at_the_same_time_all_get_through() {
    let world = World::new().await;
    let id = ask(&world, "x").await;
    let run = world.claim("n1").await;
    turn(&run).await;
    let writers = (0..16).map(|n| {
        let (hub, run, id) = (world.hub.clone(), run.clone(), id.clone());
        tokio::spawn(async move {
            if n % 2 == 0 {
                hub.send(&caller("alice"), &id, Message::user_text("x"))
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
    assert_eq!(log(&world, &id).await.len(), 2 + 16);
    assert_eq!(
        world
            .hub
            .task(&caller("alice"), &id)
            .await
            .unwrap()
            .messages,
        9
    );
}

#[tokio::test]
async fn a_claim_that_was_lost_does_not_begin() {
    let world = World::new().await;
    ask(&world, "x").await;
    turn(&*world.claim("n1").await).await;
    world.end_leases().await;
    let paused = world.claim("n2").await;
    world.end_leases().await;
    let quick = world.claim("n3").await;
    assert!(matches!(paused.begin().await.unwrap(), TurnStart::Nothing));
    assert!(paused.stop().is_cancelled());
    turn(&quick).await;
}

#[tokio::test]
async fn a_clock_that_was_set_back_delays_no_work() {
    let world = World::new().await;
    let id = ask(&world, "first").await;
    let run = world.claim("n1").await;
    let first = turn(&run).await;
    world.pass(Duration::from_secs(3_600));
    run.renew(LEASE).await.unwrap();
    let question = interzone_hub::Outcome::InputRequired(Message::agent_text("which?"));
    run.end(&first, question).await.unwrap();
    world
        .clock
        .0
        .fetch_sub(3_600_000, std::sync::atomic::Ordering::SeqCst);
    world
        .hub
        .send(&caller("alice"), &id, Message::user_text("that"))
        .await
        .unwrap();
    assert_eq!(turn(&*world.claim("n1").await).await.message.text(), "that");
}
