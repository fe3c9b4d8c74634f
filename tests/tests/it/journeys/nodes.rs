//! Two nodes on one PostgreSQL behind a balancer, one of them killed under load.

use super::balancer::Balancer;
use super::peers::postgres;
use super::soon;
use super::streams::{in_order, logged, told};
use super::watching::Event;
use super::zone::{Setup, World, Zone, free_port};
use std::collections::BTreeMap;
use std::sync::Arc;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

/// Keeps everything in a schema of its own, and notices soon when a node is gone; not so soon that one
/// which is merely slow, on a busy machine, is taken for dead.
pub(crate) fn on_postgres(setup: Setup, name: &str) -> Setup {
    let schema = format!("journey_{name}_{}", std::process::id());
    setup
        .set("store.url", postgres())
        .set("store.schema", schema)
        .set("store.connections", 8)
        .set("work.lease", "6s")
}

/// Watches to the end, on whatever node answers, and goes on after every break.
async fn watched(zone: &Zone, token: &str, id: &str) -> Vec<Event> {
    let subject = format!("tasks/{id}");
    let (mut seen, mut last) = (Vec::<Event>::new(), None);
    loop {
        let Ok(mut watch) = zone.try_watch(token, &subject, last).await else {
            tokio::task::yield_now().await;
            continue;
        };
        while let Some(event) = watch.next().await {
            let status = event.params()["data"]["status"].clone();
            let over =
                event.kind() == "COMPLETED" || event.kind() == "FAILED" || status == "CANCELED";
            seen.push(event);
            if over {
                return seen;
            }
        }
        last = watch.last;
    }
}

/// How a caller reaches a zone that may be gone: on connections of its own.
#[derive(Clone)]
pub(crate) struct Reach {
    http: reqwest::Client,
    url: String,
    token: String,
}

impl Reach {
    pub(crate) fn new(world: &World, port: u16) -> Self {
        Self {
            http: super::wire::client(&world.authority, None),
            url: format!("https://localhost:{port}"),
            token: world.issuer.token("anna"),
        }
    }

    /// Makes a task; gives its id if the answer arrived whole.
    pub(crate) async fn create(&self, text: &str) -> Option<String> {
        let body = serde_json::json!({
            "jsonrpc": "2.0", "id": 1, "method": "tasks.create",
            "params": {"initialMessage": super::zone::said(text), "assignTo": "demo"},
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
async fn one_of_two_nodes_dies_under_load_and_nothing_is_lost() {
    const CALLERS: usize = 6;
    const EACH: usize = 12;
    let world = World::new().await;
    let port = free_port();
    let listener = TcpListener::bind(("127.0.0.1", port)).await.unwrap();
    let public = format!("https://localhost:{port}");
    let node = |name: &'static str| {
        on_postgres(Setup::new(), "two")
            .set("execution.public_url", public.clone())
            .set("execution.node", name)
            .start_in(world.clone())
    };
    let mut first = node("first").await;
    let second = node("second").await;
    let balancer = Balancer::start(listener, vec![first.address, second.address]).await;
    // Watchers of the second node reach it and no other.
    let alone = Balancer::start(
        TcpListener::bind("127.0.0.1:0").await.unwrap(),
        vec![second.address],
    )
    .await;
    let second_only = Arc::new(Zone::reached_at(&second, alone.address.port()));
    let either = Arc::new(Zone::reached_at(&second, port));

    let (acknowledged, mut made) = mpsc::unbounded_channel::<String>();
    let mut callers = Vec::new();
    for caller in 0..CALLERS {
        let reach = Reach::new(&world, balancer.address.port());
        let acknowledged = acknowledged.clone();
        callers.push(tokio::spawn(async move {
            for number in 0..EACH {
                let text = format!("stream {}", 5 + (caller + number) % 20);
                // Without an answer nobody knows whether it was taken, so it is asked again.
                let id = loop {
                    if let Some(id) = reach.create(&text).await {
                        break id;
                    }
                    tokio::task::yield_now().await;
                };
                acknowledged.send(id).unwrap();
            }
        }));
    }
    drop(acknowledged);

    let token = second.token("anna");
    let mut watchers = Vec::new();
    let mut count = 0;
    while let Some(id) = soon("an acknowledged task", made.recv()).await {
        count += 1;
        for zone in [&either, &second_only] {
            let (zone, token, id) = (zone.clone(), token.clone(), id.clone());
            watchers.push(tokio::spawn(async move {
                let seen = watched(&zone, &token, &id).await;
                (id, seen)
            }));
        }
        if count == CALLERS * EACH / 3 {
            first.kill();
        }
    }
    assert_eq!(count, CALLERS * EACH);
    for caller in callers {
        caller.await.unwrap();
    }
    for watcher in watchers {
        let (id, seen) = soon("a watcher", watcher).await.unwrap();
        in_order(&seen);
        let task = second_only.task(&token, &id).await;
        assert_eq!(task["status"], "COMPLETED", "{task:#}\n{seen:#?}");
        let replay = second_only
            .watch(&token, &format!("tasks/{id}"), Some(0))
            .await
            .rest()
            .await;
        let with_place = |events| -> Vec<_> {
            logged(events)
                .into_iter()
                .filter(|event| event.id.is_some())
                .cloned()
                .collect()
        };
        assert_eq!(
            with_place(&seen),
            with_place(&replay),
            "{id}: no gap, no double"
        );
        let (live, kept) = (told(&seen), told(&replay));
        for (run, text) in &kept {
            let heard = live.get(run).map(String::as_str).unwrap_or_default();
            assert!(heard.starts_with(text.as_str()), "{id}: {live:?} {kept:?}");
        }
    }
}

/// The text that the log of a task holds of each run.
async fn kept_text(zone: &Zone, token: &str, id: &str) -> BTreeMap<String, String> {
    let replay = zone.watch(token, &format!("tasks/{id}"), Some(0)).await;
    told(&replay.rest().await)
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn suspended_node_writes_nothing_after_another_took_its_runs_over() {
    let world = World::new().await;
    let node = |name: &'static str| {
        on_postgres(Setup::new(), "suspended")
            .set("execution.node", name)
            .start_in(world.clone())
    };
    let first = node("first").await;
    let token = first.token("anna");
    // Ten seconds each: longer than it takes to see them run, and their time is over when the node goes on.
    let mut ids = Vec::new();
    for _ in 0..3 {
        ids.push(first.create(&token, "demo", "stream 500").await);
    }
    // Text that has a place is in the log; it may have been shown before.
    let is_logged_text = |event: &Event| event.name == "interzone.task.text" && event.id.is_some();
    let mut first_runs = Vec::new();
    for id in &ids {
        let mut watch = first.watch(&token, &format!("tasks/{id}"), None).await;
        let seen = watch.until(is_logged_text).await;
        first_runs.push(seen.last().unwrap().params()["run"].clone());
    }
    first.suspend();

    let second = node("second").await;
    // What was kept of a first run is whole in the log when the text of the second follows it.
    let mut kept_before = Vec::new();
    for (id, run) in ids.iter().zip(&first_runs) {
        let mut watch = second.watch(&token, &format!("tasks/{id}"), Some(0)).await;
        let seen = watch
            .until(|event| is_logged_text(event) && event.params()["run"] != *run)
            .await;
        let text = told(&seen).remove(&run.to_string()).unwrap_or_default();
        kept_before.push(text);
    }
    first.resume();

    let mut results = Vec::new();
    for ((id, run), before) in ids.iter().zip(&first_runs).zip(&kept_before) {
        let task = second.finished(&token, id).await;
        assert_eq!(task["status"], "COMPLETED", "{task:#}");
        let messages = task["messages"].as_array().unwrap();
        let answers = messages.iter().filter(|said| said["role"] == "agent");
        assert_eq!(answers.count(), 1, "one answer: {task:#}");
        let kept = kept_text(&second, &token, id).await;
        assert_eq!(kept.len(), 2, "two runs: {kept:?}");
        let after = &kept[&run.to_string()];
        assert_eq!(
            after, before,
            "the first run grew after the node was resumed"
        );
        results.push((task, kept));
    }
    // The resumed node gave its runs up, sees the results of the other, and works on.
    assert_eq!(
        first
            .finished(&token, &first.create(&token, "demo", "echo on").await)
            .await["status"],
        "COMPLETED"
    );
    for (id, (task, kept)) in ids.iter().zip(&results) {
        assert_eq!(&first.task(&token, id).await, task);
        assert_eq!(&kept_text(&first, &token, id).await, kept);
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_node_takes_the_other_knows() {
    let world = World::new().await;
    let first = on_postgres(Setup::new(), "pair")
        .start_in(world.clone())
        .await;
    let second = on_postgres(Setup::new(), "pair")
        .start_in(world.clone())
        .await;
    let token = first.token("anna");
    let id = first.create(&token, "demo", "ask which?").await;
    let mut watch = second.watch(&token, &format!("tasks/{id}"), None).await;
    watch
        .until(|event| event.params()["data"]["status"] == "INPUT_REQUIRED")
        .await;
    let message = super::zone::said("that one");
    let send = serde_json::json!({"taskId": id, "message": message});
    second.call(&token, "tasks.send", send).await;
    let rest = watch.rest().await;
    assert_eq!(rest.last().unwrap().kind(), "COMPLETED");
    let here = first.task(&token, &id).await;
    assert_eq!(here, second.task(&token, &id).await);

    // A call to stop on one node reaches a run on the other.
    let id = first.create(&token, "demo", "wait 60").await;
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
    let rest = watch.rest().await;
    assert_eq!(rest.last().unwrap().params()["data"]["status"], "CANCELED");
}
