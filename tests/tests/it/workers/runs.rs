//! Runs: claimed, attended, and ended, whatever the agent does.

use super::{Did, Place, Stage, alice, ask, bob, ended, quick, start, why_failed};
use interzone_execution::agents::DemoAgent;
use interzone_execution::workers::WorkerOptions;
use interzone_hub::{EventBody, HubError, Limits, NewTask, Route, Subject};
use interzone_protocol::vocab::{AgentId, Message, Priority, TaskState};
use std::sync::Arc;
use std::time::Duration;

#[tokio::test]
async fn a_demo_task_is_run_from_end_to_end() {
    let place = Place::new().await;
    let demo = DemoAgent::new(AgentId::new("demo").unwrap(), 4);
    let hub = place.live_hub(vec![Arc::new(demo)]);
    let workers = start(&hub, WorkerOptions::new("n1"));
    let id = ask(&hub, "stream 12").await;
    let (task, _) = ended(&hub, &id).await;
    assert_eq!(task.state, TaskState::Completed);
    let subject = Subject::Task(id.clone());
    let log = hub.store().events(&subject, 0, 1_000).await.unwrap();
    let text: Vec<&str> = log
        .iter()
        .filter_map(|event| match &event.body {
            EventBody::Text { delta, .. } => Some(delta.as_str()),
            _ => None,
        })
        .collect();
    let detail = hub.task_detail(&alice(), &id, 10, true).await.unwrap();
    assert_eq!(detail.messages[1].text(), text.concat());
    assert!(text.len() > 1, "text is kept while it grows");

    let id = ask(&hub, "file csv a,b").await;
    ended(&hub, &id).await;
    let detail = hub.task_detail(&alice(), &id, 10, true).await.unwrap();
    assert_eq!(detail.artifacts[0].name(), "demo-a-b.csv");

    let id = ask(&hub, "ask Why?").await;
    let (task, _) = ended(&hub, &id).await;
    assert_eq!(task.state, TaskState::InputRequired);
    let answer = Message::user_text("because");
    hub.send(&alice(), &id, answer).await.unwrap();
    let (task, _) = super::ended_after(&hub, &id, task.seq).await;
    assert_eq!(task.state, TaskState::Completed);
    let detail = hub.task_detail(&alice(), &id, 1, false).await.unwrap();
    assert_eq!(detail.messages[0].text(), "You answered: because");
    assert_eq!(workers.healthy(), Ok(()));
    workers.join(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn a_task_that_is_called_off_stops_its_agent() {
    let place = Place::new().await;
    let mut stage = Stage::new("actor", 4);
    let hub = place.hub(vec![stage.actor.clone()]);
    let _workers = start(&hub, quick("n1"));
    for (text, did) in [
        ("wait", Did::Stopped("wait".to_owned())),
        ("hang", Did::Cut("hang".to_owned())),
    ] {
        let id = ask(&hub, text).await;
        stage.begun(text, 1).await;
        hub.cancel(&alice(), &id, None).await.unwrap();
        assert_eq!(stage.next().await, did);
        let (task, _) = ended(&hub, &id).await;
        assert_eq!(task.state, TaskState::Canceled);
    }
}

#[tokio::test]
async fn a_turn_that_takes_too_long_fails() {
    let place = Place::new().await;
    let mut stage = Stage::new("actor", 4);
    let hub = place.hub(vec![stage.actor.clone()]);
    let mut options = quick("n1");
    options
        .turn_timeouts
        .insert(AgentId::new("actor").unwrap(), Duration::from_millis(50));
    let _workers = start(&hub, options);
    for (text, did) in [
        ("wait", Did::Stopped("wait".to_owned())),
        ("hang", Did::Cut("hang".to_owned())),
    ] {
        let id = ask(&hub, text).await;
        stage.begun(text, 1).await;
        let why = why_failed(&hub, &id).await;
        assert!(why.contains("agent_timeout"), "{why}");
        assert_eq!(stage.next().await, did);
    }
}

#[tokio::test]
async fn an_agent_that_panics_or_breaks_fails_its_run_alone() {
    let place = Place::new().await;
    let stage = Stage::new("actor", 4);
    let hub = place.hub(vec![stage.actor.clone()]);
    let workers = start(&hub, quick("n1"));
    for (text, code) in [("panic", "agent_panicked"), ("break", "agent_broke")] {
        let id = ask(&hub, text).await;
        let why = why_failed(&hub, &id).await;
        assert!(why.contains(code), "{why}");
        assert!(!why.contains("secret"), "{why}");
    }
    stage.gate.add_permits(1);
    let id = ask(&hub, "work").await;
    let (task, _) = ended(&hub, &id).await;
    assert_eq!(task.state, TaskState::Completed);
    assert_eq!(workers.healthy(), Ok(()));
}

#[tokio::test]
async fn a_node_that_dies_is_followed_by_another() {
    let place = Place::new().await;
    let mut stage = Stage::new("actor", 4);
    let hub = place.hub(vec![stage.actor.clone()]);
    let first = start(&hub, quick("n1"));
    let id = ask(&hub, "work").await;
    stage.begun("work", 1).await;
    drop(first);
    assert_eq!(stage.next().await, Did::Cut("work".to_owned()));
    let _second = start(&hub, quick("n2"));
    place.pass(Duration::from_secs(3_600));
    stage.begun("work", 2).await;
    stage.gate.add_permits(1);
    let (task, _) = ended(&hub, &id).await;
    assert_eq!(task.state, TaskState::Completed);
}

#[tokio::test]
async fn a_task_that_no_node_survives_is_given_up() {
    let place = Place::new().await;
    let mut stage = Stage::new("actor", 4);
    let limits = Limits {
        attempts: 2,
        ..Limits::default()
    };
    let hub = place.hub_with(vec![stage.actor.clone()], place.clock.clone(), limits);
    let id = ask(&hub, "hang").await;
    for attempt in 1..=2 {
        let workers = start(&hub, quick("n1"));
        stage.begun("hang", attempt).await;
        drop(workers);
        assert_eq!(stage.next().await, Did::Cut("hang".to_owned()));
        place.pass(Duration::from_secs(3_600));
    }
    let _workers = start(&hub, quick("n1"));
    let why = why_failed(&hub, &id).await;
    assert!(why.contains("begun 2 times"), "{why}");
    assert!(stage.nothing_more());
}

#[tokio::test]
async fn each_task_runs_once_however_the_clock_is_set() {
    let place = Place::new().await;
    // One more than there are tasks, which is left to other owners.
    let mut stage = Stage::new("actor", 11);
    let hub = place.hub(vec![stage.actor.clone()]);
    let options = WorkerOptions {
        // Room for a second run of each, and leases that are over with every step.
        runs: 20,
        lease: Duration::from_millis(600),
        ..quick("n1")
    };
    let _workers = start(&hub, options);
    let mut ids = Vec::new();
    for number in 0..10 {
        ids.push(ask(&hub, &format!("work {number}")).await);
    }
    for _ in 0..10 {
        assert!(matches!(stage.next().await, Did::Begun(_, 1)));
    }
    let agent = AgentId::new("actor").unwrap();
    for step in [30, 3_600, -3_600, -30, 86_400 * 365] {
        let millis = step * 1_000;
        place
            .clock
            .0
            .fetch_add(millis, std::sync::atomic::Ordering::SeqCst);
        // There is no work to be claimed, by this node or by another.
        for name in ["n1", "n2"] {
            let wanted = vec![(agent.clone(), 9)];
            let lease = Duration::from_millis(600);
            assert_eq!(hub.claim(name, wanted, lease).await.unwrap().len(), 0);
        }
    }
    stage.gate.add_permits(10);
    for id in &ids {
        let (task, _) = ended(&hub, id).await;
        assert_eq!(task.state, TaskState::Completed);
    }
    let mut finished = 0;
    while let Ok(did) = stage.did.try_recv() {
        assert!(matches!(did, Did::Finished(_)), "{did:?}");
        finished += 1;
    }
    assert_eq!(finished, 10, "as many runs as tasks");
}

#[tokio::test]
async fn no_more_run_at_once_than_there_is_room_for() {
    let place = Place::new().await;
    let mut one = Stage::new("one", 2);
    let mut two = Stage::new("two", 9);
    let hub = place.hub(vec![one.actor.clone(), two.actor.clone()]);
    let options = WorkerOptions {
        runs: 5,
        ..quick("n1")
    };
    let mut ids = Vec::new();
    for agent in ["one", "two"] {
        for number in 0..6 {
            let route = Route {
                assign_to: Some(agent.to_owned()),
                ..Route::default()
            };
            let message = Message::user_text(number.to_string());
            let new = NewTask {
                route,
                ..NewTask::new(message)
            };
            // One owner alone leaves slots to others.
            let owner = [alice(), bob()][number % 2].clone();
            let task = hub.create_task(&owner, new).await.unwrap();
            ids.push((owner, task.id));
        }
    }
    let _workers = start(&hub, options);
    let held = async || hub.store().work_depth(hub.now()).await.unwrap().1;
    while held().await < 5 {
        tokio::task::yield_now().await;
    }
    // Each that goes makes room for one, and never for more.
    let (mut running, mut finished) = ([0_usize; 2], 0);
    while finished < 12 {
        assert!(held().await <= 5);
        let (did, place) = tokio::select! {
            did = one.next() => (did, 0),
            did = two.next() => (did, 1),
        };
        match did {
            Did::Begun(..) => running[place] += 1,
            Did::Finished(_) => {
                running[place] -= 1;
                finished += 1;
            }
            other => panic!("{other:?}"),
        }
        assert!(running[0] <= 2, "{running:?}");
        assert!(running.iter().sum::<usize>() <= 5, "{running:?}");
        let gate = if place == 0 { &one.gate } else { &two.gate };
        if matches!(did, Did::Begun(..)) {
            gate.add_permits(1);
        }
    }
    for (owner, id) in ids {
        let completed = async {
            while hub.task(&owner, &id).await.unwrap().state != TaskState::Completed {
                tokio::task::yield_now().await;
            }
        };
        let completed = tokio::time::timeout(Duration::from_secs(20), completed).await;
        assert!(completed.is_ok(), "{id}");
    }
}

#[tokio::test]
async fn what_is_urgent_is_begun_first() {
    let place = Place::new().await;
    let mut stage = Stage::new("actor", 1);
    let hub = place.hub(vec![stage.actor.clone()]);
    for (text, priority) in [
        ("low", Priority::Low),
        ("first", Priority::Normal),
        ("second", Priority::Normal),
        ("urgent", Priority::Urgent),
    ] {
        let new = NewTask {
            priority,
            ..NewTask::new(Message::user_text(text))
        };
        hub.create_task(&alice(), new).await.unwrap();
    }
    let _workers = start(&hub, quick("n1"));
    stage.gate.add_permits(4);
    for text in ["urgent", "first", "second", "low"] {
        stage.begun(text, 1).await;
        assert_eq!(stage.next().await, Did::Finished(text.to_owned()));
    }
}

#[tokio::test]
async fn a_store_that_is_away_for_a_while_costs_no_work() {
    let place = Place::impatient().await;
    let mut stage = Stage::new("actor", 4);
    let hub = place.hub(vec![stage.actor.clone()]);
    let workers = start(&hub, quick("n1"));
    let id = ask(&hub, "work").await;
    stage.begun("work", 1).await;
    let locked = place.lock().await;
    stage.gate.add_permits(1);
    assert_eq!(stage.next().await, Did::Finished("work".to_owned()));
    // It has been tried, and refused, at least once.
    let refused = NewTask::new(Message::user_text("now"));
    let refused = hub.create_task(&alice(), refused).await.unwrap_err();
    assert!(matches!(refused, HubError::Store(_)), "{refused}");
    drop(locked);
    let (task, _) = ended(&hub, &id).await;
    assert_eq!(task.state, TaskState::Completed);
    assert!(stage.nothing_more(), "it was run once");
    stage.gate.add_permits(1);
    let id = ask(&hub, "more").await;
    assert_eq!(ended(&hub, &id).await.0.state, TaskState::Completed);
    assert_eq!(workers.healthy(), Ok(()));
}
