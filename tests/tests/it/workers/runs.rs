//! Runs: claimed, supervised and ended, whatever the agent does.

use super::{
    AgentAction, AgentScript, WorkersFixture, alice, create_task, failure_text, quick_options,
    start_workers, wait_until_ended,
};
use interzone_execution::agents::DemoAgent;
use interzone_execution::workers::WorkerOptions;
use interzone_hub::{Caller, EventBody, HubError, Limits, NewTask, Route, Subject};
use interzone_protocol::vocab::{AgentId, Message, PrincipalId, Priority, TaskState};
use std::sync::Arc;
use std::time::Duration;

#[tokio::test]
async fn demo_agent_tasks_run_to_completion() {
    let place = WorkersFixture::new().await;
    let demo = DemoAgent::new(AgentId::new("demo").unwrap(), 4);
    let hub = place.hub_with_system_clock(vec![Arc::new(demo)]);
    let workers = start_workers(&hub, WorkerOptions::new("n1"));
    let id = create_task(&hub, "stream 12").await;
    let (task, _) = wait_until_ended(&hub, &id).await;
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
    assert!(text.len() > 1, "text is stored while it is streamed");

    let id = create_task(&hub, "file csv a,b").await;
    wait_until_ended(&hub, &id).await;
    let detail = hub.task_detail(&alice(), &id, 10, true).await.unwrap();
    assert_eq!(detail.artifacts[0].name(), "demo-a-b.csv");

    let id = create_task(&hub, "ask Why?").await;
    let (task, _) = wait_until_ended(&hub, &id).await;
    assert_eq!(task.state, TaskState::InputRequired);
    let answer = Message::user_text("because");
    hub.send_message(&alice(), &id, answer).await.unwrap();
    let (task, _) = super::wait_until_ended_after(&hub, &id, task.seq).await;
    assert_eq!(task.state, TaskState::Completed);
    let detail = hub.task_detail(&alice(), &id, 1, false).await.unwrap();
    assert_eq!(detail.messages[0].text(), "You answered: because");
    assert_eq!(workers.check_health(), Ok(()));
    workers.join(Duration::from_secs(5)).await;
}

#[tokio::test]
async fn cancel_stops_agent() {
    let place = WorkersFixture::new().await;
    let mut stage = AgentScript::new("actor", 4);
    let hub = place.hub_with_manual_clock(vec![stage.agent.clone()]);
    let _workers = start_workers(&hub, quick_options("n1"));
    for (text, did) in [
        ("wait", AgentAction::Stopped("wait".to_owned())),
        ("hang", AgentAction::Dropped("hang".to_owned())),
    ] {
        let id = create_task(&hub, text).await;
        stage.expect_started(text, 1).await;
        hub.cancel(&alice(), &id, None).await.unwrap();
        assert_eq!(stage.next_action().await, did);
        let (task, _) = wait_until_ended(&hub, &id).await;
        assert_eq!(task.state, TaskState::Canceled);
    }
}

#[tokio::test]
async fn turn_timeout_fails_task() {
    let place = WorkersFixture::new().await;
    let mut stage = AgentScript::new("actor", 4);
    let hub = place.hub_with_manual_clock(vec![stage.agent.clone()]);
    let mut options = quick_options("n1");
    options
        .turn_timeouts
        .insert(AgentId::new("actor").unwrap(), Duration::from_millis(50));
    let _workers = start_workers(&hub, options);
    for (text, did) in [
        ("wait", AgentAction::Stopped("wait".to_owned())),
        ("hang", AgentAction::Dropped("hang".to_owned())),
    ] {
        let id = create_task(&hub, text).await;
        stage.expect_started(text, 1).await;
        let text = failure_text(&hub, &id).await;
        assert!(text.contains("agent_timeout"), "{text}");
        assert_eq!(stage.next_action().await, did);
    }
}

#[tokio::test]
async fn agent_panic_or_error_fails_only_its_run() {
    let place = WorkersFixture::new().await;
    let stage = AgentScript::new("actor", 4);
    let hub = place.hub_with_manual_clock(vec![stage.agent.clone()]);
    let workers = start_workers(&hub, quick_options("n1"));
    for (text, code) in [("panic", "agent_panicked"), ("break", "agent_broke")] {
        let id = create_task(&hub, text).await;
        let text = failure_text(&hub, &id).await;
        assert!(text.contains(code), "{text}");
        assert!(!text.contains("secret"), "{text}");
    }
    stage.gate.add_permits(1);
    let id = create_task(&hub, "work").await;
    let (task, _) = wait_until_ended(&hub, &id).await;
    assert_eq!(task.state, TaskState::Completed);
    assert_eq!(workers.check_health(), Ok(()));
}

#[tokio::test]
async fn task_of_dead_node_is_run_by_another() {
    let place = WorkersFixture::new().await;
    let mut stage = AgentScript::new("actor", 4);
    let hub = place.hub_with_manual_clock(vec![stage.agent.clone()]);
    let first = start_workers(&hub, quick_options("n1"));
    let id = create_task(&hub, "work").await;
    stage.expect_started("work", 1).await;
    drop(first);
    assert_eq!(
        stage.next_action().await,
        AgentAction::Dropped("work".to_owned())
    );
    let _second = start_workers(&hub, quick_options("n2"));
    place.advance_clock(Duration::from_secs(3_600));
    stage.expect_started("work", 2).await;
    stage.gate.add_permits(1);
    let (task, _) = wait_until_ended(&hub, &id).await;
    assert_eq!(task.state, TaskState::Completed);
}

#[tokio::test]
async fn task_fails_after_max_attempts() {
    let place = WorkersFixture::new().await;
    let mut stage = AgentScript::new("actor", 4);
    let limits = Limits {
        attempts: 2,
        ..Limits::default()
    };
    let hub = place.hub_with(vec![stage.agent.clone()], place.clock.clone(), limits);
    let id = create_task(&hub, "hang").await;
    for attempt in 1..=2 {
        let workers = start_workers(&hub, quick_options("n1"));
        stage.expect_started("hang", attempt).await;
        drop(workers);
        assert_eq!(
            stage.next_action().await,
            AgentAction::Dropped("hang".to_owned())
        );
        place.advance_clock(Duration::from_secs(3_600));
    }
    let _workers = start_workers(&hub, quick_options("n1"));
    let text = failure_text(&hub, &id).await;
    assert!(text.contains("started 2 times"), "{text}");
    assert!(stage.has_no_action());
}

#[tokio::test]
async fn clock_steps_do_not_repeat_runs() {
    let place = WorkersFixture::new().await;
    // One slot more than tasks: the last slot is left to other owners.
    let mut stage = AgentScript::new("actor", 11);
    let hub = place.hub_with_manual_clock(vec![stage.agent.clone()]);
    let options = WorkerOptions {
        // Slots for a second run of each task, and leases that expire with every clock step.
        runs: 20,
        lease: Duration::from_millis(600),
        ..quick_options("n1")
    };
    let _workers = start_workers(&hub, options);
    let mut ids = Vec::new();
    for number in 0..10 {
        ids.push(create_task(&hub, &format!("work {number}")).await);
    }
    for _ in 0..10 {
        assert!(matches!(
            stage.next_action().await,
            AgentAction::Started(_, 1)
        ));
    }
    let agent = AgentId::new("actor").unwrap();
    for step in [30, 3_600, -3_600, -30, 86_400 * 365] {
        let millis = step * 1_000;
        place
            .clock
            .0
            .fetch_add(millis, std::sync::atomic::Ordering::SeqCst);
        // No work is claimable, by this node or by another.
        for name in ["n1", "n2"] {
            let wanted = vec![(agent.clone(), 9)];
            let lease = Duration::from_millis(600);
            assert_eq!(hub.claim(name, wanted, lease).await.unwrap().len(), 0);
        }
    }
    stage.gate.add_permits(10);
    for id in &ids {
        let (task, _) = wait_until_ended(&hub, id).await;
        assert_eq!(task.state, TaskState::Completed);
    }
    let mut finished = 0;
    while let Ok(did) = stage.actions.try_recv() {
        assert!(matches!(did, AgentAction::Finished(_)), "{did:?}");
        finished += 1;
    }
    assert_eq!(finished, 10, "as many runs as tasks");
}

#[tokio::test]
async fn concurrent_runs_stay_within_slots() {
    let place = WorkersFixture::new().await;
    let mut one = AgentScript::new("one", 2);
    let mut two = AgentScript::new("two", 9);
    let hub = place.hub_with_manual_clock(vec![one.agent.clone(), two.agent.clone()]);
    let options = WorkerOptions {
        runs: 5,
        ..quick_options("n1")
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
            // A few owners would leave slots to others.
            let owner = PrincipalId::new(format!("owner-{number}")).unwrap();
            let owner = Caller::new(owner);
            let task = hub.create_task(&owner, new).await.unwrap();
            ids.push((owner, task.id));
        }
    }
    let _workers = start_workers(&hub, options);
    let running_count = async || hub.store().work_depth(hub.now()).await.unwrap().1;
    while running_count().await < 5 {
        tokio::task::yield_now().await;
    }
    // Each run that ends frees one slot.
    let (mut running, mut finished) = ([0_usize; 2], 0);
    while finished < 12 {
        assert!(running_count().await <= 5);
        let (did, agent) = tokio::select! {
            did = one.next_action() => (did, 0),
            did = two.next_action() => (did, 1),
        };
        match did {
            AgentAction::Started(..) => running[agent] += 1,
            AgentAction::Finished(_) => {
                running[agent] -= 1;
                finished += 1;
            }
            other => panic!("{other:?}"),
        }
        assert!(running[0] <= 2, "{running:?}");
        assert!(running.iter().sum::<usize>() <= 5, "{running:?}");
        let gate = if agent == 0 { &one.gate } else { &two.gate };
        if matches!(did, AgentAction::Started(..)) {
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
async fn runs_start_by_priority() {
    let place = WorkersFixture::new().await;
    let mut stage = AgentScript::new("actor", 1);
    let hub = place.hub_with_manual_clock(vec![stage.agent.clone()]);
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
    let _workers = start_workers(&hub, quick_options("n1"));
    stage.gate.add_permits(4);
    for text in ["urgent", "first", "second", "low"] {
        stage.expect_started(text, 1).await;
        assert_eq!(
            stage.next_action().await,
            AgentAction::Finished(text.to_owned())
        );
    }
}

#[tokio::test]
async fn locked_store_loses_no_run() {
    let place = WorkersFixture::with_short_busy_timeout().await;
    let mut stage = AgentScript::new("actor", 4);
    let hub = place.hub_with_manual_clock(vec![stage.agent.clone()]);
    let workers = start_workers(&hub, quick_options("n1"));
    let id = create_task(&hub, "work").await;
    stage.expect_started("work", 1).await;
    let locked = place.lock_store().await;
    stage.gate.add_permits(1);
    assert_eq!(
        stage.next_action().await,
        AgentAction::Finished("work".to_owned())
    );
    // The store has rejected at least one write.
    let refused = NewTask::new(Message::user_text("now"));
    let refused = hub.create_task(&alice(), refused).await.unwrap_err();
    assert!(matches!(refused, HubError::Store(_)), "{refused}");
    drop(locked);
    let (task, _) = wait_until_ended(&hub, &id).await;
    assert_eq!(task.state, TaskState::Completed);
    assert!(stage.has_no_action(), "it was run once");
    stage.gate.add_permits(1);
    let id = create_task(&hub, "more").await;
    assert_eq!(
        wait_until_ended(&hub, &id).await.0.state,
        TaskState::Completed
    );
    assert_eq!(workers.check_health(), Ok(()));
}
