//! What a task records of its progress: the time of the last state change, generations, direct answers.

use super::{HubFixture, LEASE, caller, completed_outcome, start_turn};
use interzone_hub::{
    Event, EventBody, NewPushSubscription, NewTask, Subject, Task, TaskQuery, TurnOutcome,
    TurnOutput,
};
use interzone_protocol::vocab::{
    Artifact, ArtifactId, Message, Part, TaskId, TaskState, VerbatimJson,
};
use std::time::Duration;

const SECOND: Duration = Duration::from_secs(1);

on_both_engines!(
    status_time_is_that_of_the_last_state_change,
    list_follows_the_status_time,
    events_that_report_progress_are_numbered,
    lease_renewals_and_deliveries_take_no_numbers,
    direct_answer_is_recorded,
    answer_is_direct_only_at_the_first_turn,
    large_text_is_logged_in_pieces,
);

async fn create(world: &HubFixture, text: &str) -> TaskId {
    let new = NewTask::new(Message::user_text(text));
    let task = world.hub.create_task(&caller("alice"), new).await;
    task.unwrap().id
}

async fn task(world: &HubFixture, id: &TaskId) -> Task {
    world.hub.task(&caller("alice"), id).await.unwrap()
}

async fn log(world: &HubFixture, id: &TaskId) -> Vec<Event> {
    let subject = Subject::Task(id.clone());
    world.hub.store().events(&subject, 0, 100).await.unwrap()
}

fn numbers(log: &[Event]) -> Vec<(&str, Option<u64>)> {
    let number = |event: &Event| event.generation;
    log.iter()
        .map(|event| (event.body.name(), number(event)))
        .collect()
}

fn direct(text: &str) -> TurnOutcome {
    TurnOutcome::Completed {
        message: Some(Message::agent_text(text)),
        direct: true,
    }
}

fn report() -> Artifact {
    Artifact::new(ArtifactId::new("a").unwrap(), "report").with_part(Part::text("x"))
}

async fn status_time_is_that_of_the_last_state_change(world: HubFixture) {
    let id = create(&world, "x").await;
    let created = task(&world, &id).await;
    assert_eq!(created.status_at, created.created_at);
    world.advance_clock(SECOND);
    let run = world.claim("n1").await;
    let turn = start_turn(&run).await;
    let working = task(&world, &id).await;
    assert_eq!(working.status_at, created.created_at.plus(SECOND));
    world.advance_clock(SECOND);
    run.status("reading").await.unwrap();
    run.artifact(report(), false, true).await.unwrap();
    world
        .hub
        .send_message(&caller("alice"), &id, Message::user_text("more"))
        .await
        .unwrap();
    run.complete(&turn, completed_outcome("one")).await.unwrap();
    let still_working = task(&world, &id).await;
    assert_eq!(still_working.status_at, working.status_at);
    assert!(still_working.updated_at > working.updated_at);
    world.advance_clock(SECOND);
    let run = world.claim("n1").await;
    let turn = start_turn(&run).await;
    let done = run.complete(&turn, completed_outcome("two")).await.unwrap();
    assert_eq!(Some(done.status_at), done.finished_at);
    assert!(done.status_at > working.status_at);
}

async fn list_follows_the_status_time(world: HubFixture) {
    let (hub, alice) = (&world.hub, caller("alice"));
    let mut ids = Vec::new();
    for _ in 0..4 {
        ids.push(create(&world, "x").await);
        world.advance_clock(SECOND);
    }
    // A message changes the task, but not its place; a state change does.
    hub.send_message(&alice, &ids[0], Message::user_text("y"))
        .await
        .unwrap();
    hub.cancel(&alice, &ids[1], None).await.unwrap();
    let since = task(&world, &ids[2]).await.status_at;
    let query = |status_since, states: &[TaskState]| TaskQuery {
        owner: None,
        context_id: None,
        states: states.to_vec(),
        agent: None,
        status_since,
        after: None,
        limit: 2,
    };
    for (query, expected) in [
        (query(None, &[]), vec![1, 3, 2, 0]),
        (query(Some(since), &[]), vec![1, 3, 2]),
        (query(Some(since), &[TaskState::Submitted]), vec![3, 2]),
    ] {
        let count = hub.count_tasks(&alice, query.clone()).await.unwrap();
        assert_eq!(count, expected.len() as u64);
        let (mut listed, mut next) = (Vec::new(), query);
        loop {
            let page = hub.list_tasks(&alice, next.clone()).await.unwrap();
            listed.extend(page.tasks.into_iter().map(|task| task.id));
            next.after = page.next;
            if next.after.is_none() {
                break;
            }
        }
        let expected: Vec<_> = expected
            .into_iter()
            .map(|index: usize| ids[index].clone())
            .collect();
        assert_eq!(listed, expected);
    }
}

async fn events_that_report_progress_are_numbered(world: HubFixture) {
    let (hub, alice) = (&world.hub, caller("alice"));
    let id = create(&world, "x").await;
    let run = world.claim("n1").await;
    let turn = start_turn(&run).await;
    run.status("reading").await.unwrap();
    run.artifact(report(), false, true).await.unwrap();
    run.text("which ").await.unwrap();
    run.text("one?").await.unwrap();
    let question = TurnOutcome::InputRequired(Message::agent_text("which one?"));
    run.complete(&turn, question).await.unwrap();
    hub.send_message(&alice, &id, Message::user_text("that"))
        .await
        .unwrap();
    let run = world.claim("n1").await;
    let turn = start_turn(&run).await;
    run.text("the ans").await.unwrap();
    run.text("wer").await.unwrap();
    hub.send_message(&alice, &id, Message::user_text("and?"))
        .await
        .unwrap();
    // The events of the text have reported this answer.
    run.complete(&turn, completed_outcome("the answer"))
        .await
        .unwrap();
    let run = world.claim("n1").await;
    let turn = start_turn(&run).await;
    run.text("draft").await.unwrap();
    let done = run
        .complete(&turn, completed_outcome("final"))
        .await
        .unwrap();
    let log = log(&world, &id).await;
    assert_eq!(
        numbers(&log),
        [
            ("created", Some(1)),
            ("state", Some(2)),
            ("status", Some(3)),
            ("artifact", Some(4)),
            ("text", Some(5)),
            ("message", None),
            ("state", Some(6)),
            ("message", None),
            ("state", Some(7)),
            ("message", None),
            ("text", Some(8)),
            ("message", None),
            ("text", Some(9)),
            ("message", Some(10)),
            ("state", Some(11)),
        ]
    );
    assert_eq!((done.generation, done.seq), (11, 15));
}

async fn lease_renewals_and_deliveries_take_no_numbers(world: HubFixture) {
    let (hub, alice) = (&world.hub, caller("alice"));
    let id = create(&world, "x").await;
    let push = NewPushSubscription {
        id: None,
        channel: "web".to_owned(),
        events: Vec::new(),
        format: "a2a-1.0".to_owned(),
        target: VerbatimJson::from_value("there").unwrap(),
        secrets: None,
    };
    hub.add_push_subscription(&alice, &id, push).await.unwrap();
    let run = world.claim("n1").await;
    start_turn(&run).await;
    let before = task(&world, &id).await;
    assert!(run.renew_lease(LEASE).await.unwrap());
    let entries = hub
        .lease_entries(&["web".to_owned()], LEASE, 9)
        .await
        .unwrap();
    let [entry] = &*entries else {
        panic!("one entry should be due");
    };
    let payload: serde_json::Value = entry.payload.decode().unwrap();
    assert_eq!(
        (&payload["generation"], &payload["format"]),
        (&2.into(), &"a2a-1.0".into())
    );
    assert!(hub.mark_delivered(entry).await.unwrap());
    // Nor does a new attempt, which goes on with the task as it is.
    drop(run);
    world.expire_leases().await;
    let again = world.claim("n2").await;
    start_turn(&again).await;
    let after = task(&world, &id).await;
    assert_eq!(
        (after.seq, after.generation),
        (before.seq, before.generation)
    );
}

async fn direct_answer_is_recorded(world: HubFixture) {
    let id = create(&world, "x").await;
    let run = world.claim("n1").await;
    let turn = start_turn(&run).await;
    assert!(!task(&world, &id).await.is_direct);
    run.complete(&turn, direct("hello")).await.unwrap();
    let stored = task(&world, &id).await;
    assert!(stored.is_direct && stored.state == TaskState::Completed);
    let marked: Vec<bool> = log(&world, &id)
        .await
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::Message { direct, .. } => Some(*direct),
            _ => None,
        })
        .collect();
    assert_eq!(marked, [true]);
}

async fn answer_is_direct_only_at_the_first_turn(world: HubFixture) {
    let (hub, alice) = (&world.hub, caller("alice"));
    // Not with an artifact, which the message does not contain.
    let id = create(&world, "x").await;
    let run = world.claim("n1").await;
    let turn = start_turn(&run).await;
    run.artifact(report(), false, true).await.unwrap();
    run.complete(&turn, direct("see the report")).await.unwrap();
    assert!(!task(&world, &id).await.is_direct);
    // Not while a message waits, nor at a later turn.
    let id = create(&world, "x").await;
    let run = world.claim("n1").await;
    let turn = start_turn(&run).await;
    hub.send_message(&alice, &id, Message::user_text("y"))
        .await
        .unwrap();
    run.complete(&turn, direct("first")).await.unwrap();
    let run = world.claim("n1").await;
    let turn = start_turn(&run).await;
    run.complete(&turn, direct("second")).await.unwrap();
    assert!(!task(&world, &id).await.is_direct);
}

async fn large_text_is_logged_in_pieces(world: HubFixture) {
    let id = create(&world, "x").await;
    let run = world.claim("n1").await;
    let turn = start_turn(&run).await;
    let large = "aé".repeat(20_000);
    run.text(&large).await.unwrap();
    run.complete(&turn, completed_outcome(&large))
        .await
        .unwrap();
    let mut text = String::new();
    for event in log(&world, &id).await {
        if let EventBody::Text { offset, delta, .. } = &event.body {
            assert!(delta.len() <= 16 * 1024);
            assert_eq!(*offset, text.len() as u64);
            text.push_str(delta);
        }
    }
    assert_eq!(text, large);
}
