//! Large tasks: memory for them is reserved before they are read, so many calls at once read only as much as fits.

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

/// A zone with memory for 64 pages of answers, of which 32 are one principal's.
async fn world() -> (ZoneFixture, MemoryBudget) {
    let shares = Shares {
        address: 1,
        principal: 2,
    };
    let answers = MemoryBudget::with_shares(64 * PAGE, shares);
    let limits = HttpLimits {
        response_memory: answers.clone(),
        ..HttpLimits::default()
    };
    let setup = ZoneFixtureOptions {
        limits,
        ..ZoneFixtureOptions::default()
    };
    (ZoneFixture::with_options(setup).await, answers)
}

/// A task with a message of these parts.
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

/// Calls, and answers the status, whether it says when to come back, and the JSON.
async fn get(world: &ZoneFixture, token: &str, number: usize, task: &str) -> (u16, bool, Value) {
    let call = get_call(number, task).to_string();
    let (status, headers, body) = world.post(token, call).await;
    let retry = headers.contains_key("retry-after");
    (status.as_u16(), retry, serde_json::from_str(&body).unwrap())
}

fn length(answer: &Value) -> usize {
    let parts = answer["result"]["task"]["messages"][0]["parts"].as_array();
    let parts = parts.unwrap_or_else(|| panic!("{answer}")).iter();
    let lengths = parts.map(|part| part["content"].as_str().unwrap().len());
    lengths.sum()
}

fn assert_no_room(error: &Value) {
    assert_eq!(error["code"], -32603, "{error}");
    assert_eq!(error["data"]["error_code"], "unavailable");
    assert_eq!(error["data"]["retryAfter"], 1);
}

/// Waits until the store was asked so often.
async fn until_asked(world: &ZoneFixture, what: &str, times: usize) {
    let asked = async {
        while world.store.call_count(what) < times {
            tokio::task::yield_now().await;
        }
    };
    let asked = tokio::time::timeout(Duration::from_secs(15), asked).await;
    asked.unwrap_or_else(|_| panic!("{what}: {}", world.store.call_count(what)));
}

#[tokio::test]
async fn concurrent_reads_of_large_tasks_are_bounded_by_the_memory_for_answers() {
    let (world, answers) = world().await;
    let (alice, bob) = (world.token("alice").await, world.token("bob").await);
    // Read and written it is ten pages, so three fit into the share of one principal.
    let large = create(&world, &alice, &[part(300_000)]).await;
    let small = create(&world, &alice, &[part(10)]).await;
    let theirs = create(&world, &bob, &[part(300_000)]).await;
    let held = world.store.hold_blobs();
    world.store.take_calls();
    let mut reads: FuturesUnordered<_> = (0..8)
        .map(|number| get(&world, &alice, number, &large))
        .collect();
    let others = async {
        until_asked(&world, "blob_sizes", 8).await;
        until_asked(&world, "blobs", 3).await;
        assert_eq!(length(&get(&world, &alice, 9, &small).await.2), 10);
        let others = join_all((0..3).map(|number| get(&world, &bob, number, &theirs)));
        let let_go = async {
            until_asked(&world, "blobs", 6).await;
            assert_eq!(
                world.store.call_count("blobs"),
                6,
                "three for each principal"
            );
        };
        // Those of the other principal are read, too; what comes of them is seen below.
        tokio::select! {
            _ = others => panic!("reads are held"),
            () = let_go => {}
        }
    };
    // Those that found no memory in time are refused; the others are still being read.
    let mut refused = Vec::new();
    let refusals = async {
        while refused.len() < 5 {
            refused.push(reads.next().await.unwrap());
        }
    };
    tokio::join!(refusals, others);
    for (status, retry, answer) in &refused {
        assert_eq!((*status, *retry), (503, true), "{answer}");
        assert_no_room(&answer["error"]);
    }
    assert!(reads.next().now_or_never().is_none());
    assert_eq!(
        world.store.call_count("blobs"),
        6,
        "nothing of the others was read"
    );
    held.add_permits(1_000);
    while let Some((status, _, answer)) = reads.next().await {
        assert_eq!(status, 200, "{answer}");
        assert_eq!(length(&answer), 300_000);
    }
    drop(reads);
    // Those who wait are served when there is memory again.
    let all = join_all((0..8).map(|number| get(&world, &alice, number, &large))).await;
    assert!(all.iter().all(|(status, ..)| *status == 200));
    let whole = answers.reserve(&ShareKey::Unattributed, 64 * PAGE);
    assert!(whole.is_some(), "nothing stays reserved");
}

#[tokio::test]
async fn without_memory_nothing_large_is_read_and_each_dialect_says_so() {
    let (world, answers) = world().await;
    let alice = world.token("alice").await;
    let in_blobs = create(&world, &alice, &[part(300_000)]).await;
    let (run, turn) = world.claim_run().await;
    let made = Artifact::new(ArtifactId::new("a-1").unwrap(), "r");
    let made = made.with_part(Part::text("x".repeat(200_000)));
    run.artifact(made, false, true).await.unwrap();
    run.complete(&turn, completed("done")).await.unwrap();
    let in_rows = create(&world, &alice, &vec![part(10_000); 30]).await;
    let small = create(&world, &alice, &[part(10)]).await;
    let all = answers.reserve(&ShareKey::Unattributed, 64 * PAGE).unwrap();
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
        assert_no_room(&answer["error"]);
    }
    let batch: Vec<Value> = serde_json::from_str(&batch.2).unwrap();
    assert_no_room(&batch[0]["error"]);
    assert_eq!(length(&batch[1]), 10, "a small one is answered");
    assert_no_room(&batch[2]["error"]);
    assert_eq!(result["error"]["data"]["error_code"], "unavailable");
    assert_eq!(result["error"]["data"]["retry_after"], 1);
    let path = format!("/tasks/{in_blobs}/events");
    let events = world.watch(&path, &alice, None).await;
    assert!(
        events.remaining().await.is_empty(),
        "its first event is large"
    );
    assert_eq!(world.store.call_count("blobs"), 0);

    drop(all);
    assert_eq!(length(&get(&world, &alice, 1, &in_blobs).await.2), 300_000);
    assert_eq!(length(&get(&world, &alice, 2, &in_rows).await.2), 300_000);
    let events = world.watch(&path, &alice, None).await;
    assert!(events.remaining().await.len() > 2);
}

#[tokio::test]
async fn small_task_is_read_by_one_statement() {
    let (world, _) = world().await;
    let alice = world.token("alice").await;
    let small = create(&world, &alice, &[part(10)]).await;
    world.store.take_calls();
    get(&world, &alice, 1, &small).await;
    assert_eq!(world.store.take_calls(), "task_snapshot: 1");
}
