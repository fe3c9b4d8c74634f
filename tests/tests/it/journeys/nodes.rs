//! Two nodes on one PostgreSQL behind a load balancer, one of them killed under load.

use super::balancer::Balancer;
use super::peers::postgres_url;
use super::sse::ReceivedSseEvent;
use super::watches::{assert_in_order, non_text_events, text_by_run};
use super::within_timeout;
use super::zone_process::{TestEnv, ZoneBuilder, ZoneProcess, free_port};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// Stores everything in its own schema. The lease is short so that a dead node is noticed soon, but not so short that a
/// slow node on a busy machine is taken for dead.
pub(crate) fn on_postgres(setup: ZoneBuilder, name: &str) -> ZoneBuilder {
    let schema = format!("journey_{name}_{}", std::process::id());
    setup
        .set("store.url", postgres_url())
        .set("store.schema", schema)
        .set("store.connections", 8)
        .set("work.lease", "6s")
}

/// Watches a task to its end through any node that answers, and reconnects after every disconnect.
async fn watch_to_end(zone: &ZoneProcess, token: &str, id: &str) -> Vec<ReceivedSseEvent> {
    let subject = format!("tasks/{id}");
    let (mut events, mut last) = (Vec::<ReceivedSseEvent>::new(), None);
    loop {
        let Ok(mut watch) = zone.try_watch(token, &subject, last).await else {
            tokio::task::yield_now().await;
            continue;
        };
        while let Some(event) = watch.next().await {
            let status = event.params()["data"]["status"].clone();
            let over =
                event.kind() == "COMPLETED" || event.kind() == "FAILED" || status == "CANCELED";
            events.push(event);
            if over {
                return events;
            }
        }
        last = watch.last_event_id;
    }
}

/// Client of a zone that may be down, with its own connections.
#[derive(Clone)]
pub(crate) struct TaskCreator {
    http: reqwest::Client,
    url: String,
    token: String,
}

impl TaskCreator {
    pub(crate) fn new(world: &TestEnv, port: u16) -> Self {
        Self {
            http: super::rpc::client(&world.authority, None),
            url: format!("https://localhost:{port}"),
            token: world.issuer.token("anna"),
        }
    }

    /// Creates a task; returns its id if a complete response arrived.
    pub(crate) async fn create(&self, text: &str) -> Option<String> {
        let body = serde_json::json!({
            "jsonrpc": "2.0", "id": 1, "method": "tasks.create",
            "params": {"initialMessage": super::zone_process::user_message(text), "assignTo": "demo"},
        });
        let request = self
            .http
            .post(format!("{}/jsonrpc", self.url))
            .header("content-type", "application/json")
            .bearer_auth(&self.token)
            .body(body.to_string());
        let answer = request.send().await.ok()?.text().await.ok()?;
        let answer: serde_json::Value = serde_json::from_str(&answer).ok()?;
        assert!(answer.get("error").is_none(), "{answer}");
        Some(
            answer["result"]["task"]["taskId"]
                .as_str()
                .unwrap()
                .to_owned(),
        )
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn node_killed_under_load_loses_no_task() {
    const CALLERS: usize = 6;
    const TASKS_PER_CALLER: usize = 12;
    let world = TestEnv::new().await;
    let port = free_port();
    let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    let public = format!("https://localhost:{port}");
    let node = |name: &'static str| {
        on_postgres(ZoneBuilder::new(), "two")
            .set("execution.public_url", public.clone())
            .set("execution.node", name)
            .start_in(world.clone())
    };
    let mut first = node("first").await;
    let second = node("second").await;
    let balancer = Balancer::start(listener, vec![first.address, second.address]).await;
    // Balancer that reaches the second node only.
    let second_balancer = Balancer::start(
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
        vec![second.address],
    )
    .await;
    let second_only = Arc::new(ZoneProcess::via_port(
        &second,
        second_balancer.address.port(),
    ));
    let either = Arc::new(ZoneProcess::via_port(&second, port));

    let (created_tx, mut created_rx) = mpsc::unbounded_channel::<String>();
    let mut callers = Vec::new();
    for caller in 0..CALLERS {
        let reach = TaskCreator::new(&world, balancer.address.port());
        let created_tx = created_tx.clone();
        callers.push(tokio::spawn(async move {
            for number in 0..TASKS_PER_CALLER {
                let text = format!("stream {}", 5 + (caller + number) % 20);
                // Without a response the caller cannot tell whether the task was created, so it tries again.
                let id = loop {
                    if let Some(id) = reach.create(&text).await {
                        break id;
                    }
                    tokio::task::yield_now().await;
                };
                created_tx.send(id).unwrap();
            }
        }));
    }
    drop(created_tx);

    let token = second.token("anna");
    let mut watchers = Vec::new();
    let mut count = 0;
    while let Some(id) = within_timeout("an acknowledged task", created_rx.recv()).await {
        count += 1;
        for zone in [&either, &second_only] {
            let (zone, token, id) = (zone.clone(), token.clone(), id.clone());
            watchers.push(tokio::spawn(async move {
                let events = watch_to_end(&zone, &token, &id).await;
                (id, events)
            }));
        }
        if count == CALLERS * TASKS_PER_CALLER / 3 {
            first.kill();
        }
    }
    assert_eq!(count, CALLERS * TASKS_PER_CALLER);
    for caller in callers {
        caller.await.unwrap();
    }
    for watcher in watchers {
        let (id, events) = within_timeout("a watcher", watcher).await.unwrap();
        assert_in_order(&events);
        let task = second_only.task(&token, &id).await;
        assert_eq!(task["status"], "COMPLETED", "{task:#}\n{events:#?}");
        let replay = second_only
            .watch(&token, &format!("tasks/{id}"), Some(0))
            .await
            .remaining()
            .await;
        let with_id = |events| -> Vec<_> {
            non_text_events(events)
                .into_iter()
                .filter(|event| event.id.is_some())
                .cloned()
                .collect()
        };
        assert_eq!(
            with_id(&events),
            with_id(&replay),
            "{id}: no gap, no duplicate"
        );
        let (live, stored) = (text_by_run(&events), text_by_run(&replay));
        for (run, text) in &stored {
            let live_text = live.get(run).map(String::as_str).unwrap_or_default();
            assert!(
                live_text.starts_with(text.as_str()),
                "{id}: {live:?} {stored:?}"
            );
        }
    }
}

/// Returns the text stored in a task's log, by run.
async fn stored_text(zone: &ZoneProcess, token: &str, id: &str) -> BTreeMap<String, String> {
    let replay = zone.watch(token, &format!("tasks/{id}"), Some(0)).await;
    text_by_run(&replay.remaining().await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn suspended_node_cannot_write_after_takeover() {
    let world = TestEnv::new().await;
    let node = |name: &'static str| {
        on_postgres(ZoneBuilder::new(), "suspended")
            .set("execution.node", name)
            .start_in(world.clone())
    };
    let first = node("first").await;
    let token = first.token("anna");
    // Ten seconds each: long enough to be seen running, and over when the node resumes.
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(first.create_task(&token, "demo", "stream 500").await);
    }
    // Text with an event id is in the log; it may have been shown live before.
    let is_logged_text =
        |event: &ReceivedSseEvent| event.name == "interzone.task.text" && event.id.is_some();
    let mut first_runs = Vec::new();
    for id in &ids {
        let mut watch = first.watch(&token, &format!("tasks/{id}"), None).await;
        let events = watch.until(is_logged_text).await;
        first_runs.push(events.last().unwrap().params()["run"].clone());
    }
    first.suspend();

    let second = node("second").await;
    // A first run's stored text is complete in the log when the second run's text follows it.
    let mut stored_before = Vec::new();
    for (id, run) in ids.iter().zip(&first_runs) {
        let mut watch = second.watch(&token, &format!("tasks/{id}"), Some(0)).await;
        let events = watch
            .until(|event| is_logged_text(event) && event.params()["run"] != *run)
            .await;
        let text = text_by_run(&events)
            .remove(&run.to_string())
            .unwrap_or_default();
        stored_before.push(text);
    }
    first.resume();

    let mut results = Vec::new();
    for ((id, run), before) in ids.iter().zip(&first_runs).zip(&stored_before) {
        let task = second.wait_for_task(&token, id).await;
        assert_eq!(task["status"], "COMPLETED", "{task:#}");
        let messages = task["messages"].as_array().unwrap();
        let answers = messages.iter().filter(|message| message["role"] == "agent");
        assert_eq!(answers.count(), 1, "one answer: {task:#}");
        let stored = stored_text(&second, &token, id).await;
        assert_eq!(stored.len(), 2, "two runs: {stored:?}");
        let after = &stored[&run.to_string()];
        assert_eq!(
            after, before,
            "the first run grew after the node was resumed"
        );
        results.push((task, stored));
    }
    // The resumed node dropped its runs, sees the results of the other node, and accepts new work.
    assert_eq!(
        first
            .wait_for_task(&token, &first.create_task(&token, "demo", "echo on").await)
            .await["status"],
        "COMPLETED"
    );
    for (id, (task, stored)) in ids.iter().zip(&results) {
        assert_eq!(&first.task(&token, id).await, task);
        assert_eq!(&stored_text(&first, &token, id).await, stored);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn tasks_are_shared_between_nodes() {
    let world = TestEnv::new().await;
    let first = on_postgres(ZoneBuilder::new(), "pair")
        .start_in(world.clone())
        .await;
    let second = on_postgres(ZoneBuilder::new(), "pair")
        .start_in(world.clone())
        .await;
    let token = first.token("anna");
    let id = first.create_task(&token, "demo", "ask which?").await;
    let mut watch = second.watch(&token, &format!("tasks/{id}"), None).await;
    watch
        .until(|event| event.params()["data"]["status"] == "INPUT_REQUIRED")
        .await;
    let message = super::zone_process::user_message("that one");
    let send = serde_json::json!({"taskId": id, "message": message});
    second.call(&token, "tasks.send", send).await;
    let events = watch.remaining().await;
    assert_eq!(events.last().unwrap().kind(), "COMPLETED");
    let here = first.task(&token, &id).await;
    assert_eq!(here, second.task(&token, &id).await);

    // A cancel sent to one node reaches a run on the other.
    let id = first.create_task(&token, "demo", "wait 60").await;
    for node in [&second, &first] {
        node.watch(&token, &format!("tasks/{id}"), None)
            .await
            .until(|event| event.name == "interzone.task.status")
            .await;
    }
    let watch = first.watch(&token, &format!("tasks/{id}"), None).await;
    second
        .call(&token, "tasks.cancel", serde_json::json!({"taskId": id}))
        .await;
    let events = watch.remaining().await;
    assert_eq!(
        events.last().unwrap().params()["data"]["status"],
        "CANCELED"
    );
}
