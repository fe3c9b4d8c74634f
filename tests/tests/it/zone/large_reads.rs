//! Reads of large tasks: memory is reserved before a task is read, so concurrent reads stay within the budget.

use super::{ZoneFixture, ZoneFixtureOptions, completed};
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use futures_util::{FutureExt, StreamExt};
use interzone_edge::budget::{MemoryBudget, ShareKey, Shares};
use interzone_edge::limits::HttpLimits;
use interzone_hub::TurnOutput;
use interzone_protocol::vocab::{Artifact, ArtifactId, Part};
use serde_json::{Value, json};
use std::time::Duration;

const PAGE: usize = MemoryBudget::PAGE;

/// Starts a zone with a response memory of 96 pages, of which one principal may use 32.
async fn start_zone_with_budget() -> (ZoneFixture, MemoryBudget) {
    let shares = Shares {
        address: 1,
        principal: 3,
    };
    let budget = MemoryBudget::with_shares(96 * PAGE, shares);
    let limits = HttpLimits {
        response_memory: budget.clone(),
        ..HttpLimits::default()
    };
    let setup = ZoneFixtureOptions {
        limits,
        ..ZoneFixtureOptions::default()
    };
    (ZoneFixture::with_options(setup).await, budget)
}

/// Creates a task with a message of these parts and returns its id.
async fn create(world: &ZoneFixture, token: &str, parts: &[Value]) -> String {
    let params = json!({"initialMessage": {"role": "user", "parts": parts}});
    let created = world.result(token, "tasks.create", params).await;
    created["task"]["taskId"].as_str().unwrap().to_owned()
}

fn part(length: usize) -> Value {
    json!({"type": "TextPart", "content": "x".repeat(length)})
}

fn get_call(number: usize, task: &str) -> Value {
    json!({"jsonrpc": "2.0", "id": number, "method": "tasks.get", "params": {"taskId": task}})
}

/// Calls `tasks.get`. Returns the status, whether there is a `Retry-After`, and the JSON.
async fn get(world: &ZoneFixture, token: &str, number: usize, task: &str) -> (u16, bool, Value) {
    let call = get_call(number, task).to_string();
    let (status, headers, body) = world.post(token, call).await;
    let retry = headers.contains_key("retry-after");
    (status.as_u16(), retry, serde_json::from_str(&body).unwrap())
}

/// Total length of the texts of the first message.
fn text_length(answer: &Value) -> usize {
    let parts = answer["result"]["task"]["messages"][0]["parts"].as_array();
    let parts = parts.unwrap_or_else(|| panic!("{answer}")).iter();
    let lengths = parts.map(|part| part["content"].as_str().unwrap().len());
    lengths.sum()
}

fn assert_unavailable(error: &Value) {
    assert_eq!(error["code"], -32603, "{error}");
    assert_eq!(error["data"]["error_code"], "unavailable");
    assert_eq!(error["data"]["retryAfter"], 1);
}

/// Waits until the store method was called this many times.
async fn wait_for_calls(world: &ZoneFixture, method: &str, count: usize) {
    let called = async {
        while world.store.call_count(method) < count {
            tokio::task::yield_now().await;
        }
    };
    let called = tokio::time::timeout(Duration::from_secs(15), called).await;
    called.unwrap_or_else(|_| panic!("{method}: {}", world.store.call_count(method)));
}

#[tokio::test]
async fn concurrent_large_reads_are_bounded_by_memory() {
    let (world, budget) = start_zone_with_budget().await;
    let (alice, bob) = (world.token("alice").await, world.token("bob").await);
    // Reading and serializing it takes ten pages, so three reads fit into the share of one principal.
    let large = create(&world, &alice, &[part(300_000)]).await;
    let small = create(&world, &alice, &[part(10)]).await;
    let bobs_large = create(&world, &bob, &[part(300_000)]).await;
    let blob_permits = world.store.hold_blobs();
    world.store.take_calls();
    let mut reads: FuturesUnordered<_> = (0..8)
        .map(|number| get(&world, &alice, number, &large))
        .collect();
    let others = async {
        wait_for_calls(&world, "blob_sizes", 8).await;
        wait_for_calls(&world, "blobs", 3).await;
        assert_eq!(text_length(&get(&world, &alice, 9, &small).await.2), 10);
        let others = join_all((0..3).map(|number| get(&world, &bob, number, &bobs_large)));
        let all_started = async {
            wait_for_calls(&world, "blobs", 6).await;
            assert_eq!(
                world.store.call_count("blobs"),
                6,
                "three for each principal"
            );
        };
        // The reads of the other principal have started as well; they are dropped here.
        tokio::select! {
            _ = others => panic!("the reads should wait for permits"),
            () = all_started => {}
        }
    };
    // Reads that get no memory in time are rejected; the others still wait for permits.
    let mut rejected = Vec::new();
    let rejections = async {
        while rejected.len() < 5 {
            rejected.push(reads.next().await.unwrap());
        }
    };
    tokio::join!(rejections, others);
    for (status, retry, answer) in &rejected {
        assert_eq!((*status, *retry), (503, true), "{answer}");
        assert_unavailable(&answer["error"]);
    }
    assert!(reads.next().now_or_never().is_none());
    assert_eq!(
        world.store.call_count("blobs"),
        6,
        "rejected reads load no blobs"
    );
    blob_permits.add_permits(1_000);
    while let Some((status, _, answer)) = reads.next().await {
        assert_eq!(status, 200, "{answer}");
        assert_eq!(text_length(&answer), 300_000);
    }
    drop(reads);
    // Waiting reads continue when memory is released.
    let all = join_all((0..8).map(|number| get(&world, &alice, number, &large))).await;
    assert!(all.iter().all(|(status, ..)| *status == 200));
    let full_budget = budget.reserve(&ShareKey::Unattributed, 96 * PAGE);
    assert!(full_budget.is_some(), "all memory is released");
}

#[tokio::test]
async fn large_read_without_memory_returns_unavailable() {
    let (world, budget) = start_zone_with_budget().await;
    let alice = world.token("alice").await;
    let in_blobs = create(&world, &alice, &[part(300_000)]).await;
    let (run, turn) = world.claim_run().await;
    let artifact = Artifact::new(ArtifactId::new("a-1").unwrap(), "r");
    let artifact = artifact.with_part(Part::text("x".repeat(200_000)));
    run.artifact(artifact, false, true).await.unwrap();
    run.complete(&turn, completed("done")).await.unwrap();
    let in_rows = create(&world, &alice, &vec![part(10_000); 30]).await;
    let small = create(&world, &alice, &[part(10)]).await;
    let reserved = budget.reserve(&ShareKey::Unattributed, 96 * PAGE).unwrap();
    world.store.take_calls();
    let batch: Vec<Value> = [&in_blobs, &small, &in_rows]
        .iter()
        .enumerate()
        .map(|(number, task)| get_call(number, task))
        .collect();
    let result = json!({"task_id": in_blobs});
    let (blobs, rows, batch, result) = tokio::join!(
        get(&world, &alice, 1, &in_blobs),
        get(&world, &alice, 2, &in_rows),
        world.post(&alice, Value::Array(batch).to_string()),
        world.call(&alice, "get_task_result", result),
    );
    for (status, retry, answer) in [blobs, rows] {
        assert_eq!((status, retry), (503, true), "{answer}");
        assert_unavailable(&answer["error"]);
    }
    let batch: Vec<Value> = serde_json::from_str(&batch.2).unwrap();
    assert_unavailable(&batch[0]["error"]);
    assert_eq!(text_length(&batch[1]), 10, "a small task is returned");
    assert_unavailable(&batch[2]["error"]);
    assert_eq!(result["error"]["data"]["error_code"], "unavailable");
    assert_eq!(result["error"]["data"]["retry_after"], 1);
    let path = format!("/tasks/{in_blobs}/events");
    let events = world.watch(&path, &alice, None).await;
    assert!(
        events.collect_remaining().await.is_empty(),
        "its first event is large"
    );
    assert_eq!(world.store.call_count("blobs"), 0);

    drop(reserved);
    assert_eq!(
        text_length(&get(&world, &alice, 1, &in_blobs).await.2),
        300_000
    );
    assert_eq!(
        text_length(&get(&world, &alice, 2, &in_rows).await.2),
        300_000
    );
    let events = world.watch(&path, &alice, None).await;
    assert!(events.collect_remaining().await.len() > 2);
}

#[tokio::test]
async fn small_task_is_read_by_one_statement() {
    let (world, _) = start_zone_with_budget().await;
    let alice = world.token("alice").await;
    let small = create(&world, &alice, &[part(10)]).await;
    world.store.take_calls();
    get(&world, &alice, 1, &small).await;
    assert_eq!(world.store.take_calls(), "task_snapshot: 1");
}

#[tokio::test]
async fn batch_stops_when_its_responses_fill_the_memory() {
    let (world, budget) = start_zone_with_budget().await;
    let token = world.token("alice").await;
    let task = create(&world, &token, &[part(25_000)]).await;
    // Leaves 16 pages to one caller and as many to others. Each response is below one page, so the read of a task
    // reserves nothing.
    let reserved = budget.reserve(&ShareKey::Unattributed, 64 * PAGE).unwrap();
    let mut batch: Vec<Value> = (0..100).map(|number| get_call(number, &task)).collect();
    let params = json!({"initialMessage": {"role": "user", "parts": [part(1)]}});
    batch.push(json!({"jsonrpc": "2.0", "method": "tasks.create", "params": params}));
    let (status, _, body) = world.post(&token, json!(batch).to_string()).await;
    assert_eq!(status, 200, "{body:.300}");
    let answers: Vec<Value> = serde_json::from_str(&body).unwrap();
    assert_eq!(answers.len(), 100);
    let succeeded = answers.iter().filter(|answer| answer["error"].is_null());
    let succeeded = succeeded.count();
    assert!((20..=40).contains(&succeeded), "{succeeded}");
    for answer in &answers[succeeded..] {
        assert_eq!(answer["error"]["data"]["error_code"], "unavailable");
    }
    drop(reserved);
    let listed = world.result(&token, "interzone.tasks.list", json!({}));
    assert_eq!(listed.await["tasks"].as_array().unwrap().len(), 1);
}
