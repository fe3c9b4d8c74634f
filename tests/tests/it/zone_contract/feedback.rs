//! What people think of answers: told by the zone that asked, kept with the task.

use super::{World, params_with};
use interzone_hub::{Asking, Feedback};
use interzone_protocol::vocab::{TaskId, Timestamp};
use serde_json::{Value, json};

const METHOD: &str = "interzone.feedback";

fn given(task: &Value, user: &str, verdict: &str) -> Value {
    json!({"task_id": task, "user_id": user, "verdict": verdict})
}

async fn asked(world: &World, token: &str, more: &Value) -> Value {
    let params = params_with("echo hi", more);
    let answer = world.call(token, "execute_task", params).await;
    answer["result"]["task_id"].clone()
}

fn id(task: &Value) -> TaskId {
    TaskId::new(task.as_str().unwrap()).unwrap()
}

async fn kept(world: &World, task: &Value) -> Vec<(String, bool, Option<String>)> {
    let all = world.hub.store().feedback(&[id(task)]).await.unwrap();
    let read = |one: Feedback| (one.who, one.good, one.comment);
    all.into_iter().map(read).collect()
}

#[tokio::test]
async fn a_task_knows_the_thread_that_it_was_asked_in() {
    let world = World::new().await;
    let token = world.token("verification").await;
    let place = json!({"team_id": "T1", "thread_ts": "1700000000.000100", "user_id": "U1"});
    let task = asked(&world, &token, &place).await;
    let found = world.hub.store().question(&id(&task)).await.unwrap();
    let expected = Asking::new("T1", "C1", "1700000000.000100", "U1");
    assert_eq!(found.map(|found| found.asking), expected);
    // What names no thread, or nothing that can be one, is done all the same.
    let long = "x".repeat(500);
    for more in [
        json!({}),
        json!({"thread_ts": " \n", "user_id": "U1"}),
        json!({"thread_ts": long}),
    ] {
        let task = asked(&world, &token, &more).await;
        let found = world.hub.store().question(&id(&task)).await.unwrap();
        assert_eq!(found, None, "{more}");
    }
}

#[tokio::test]
async fn the_last_word_of_each_counts() {
    let world = World::new().await;
    let token = world.token("verification").await;
    let task = asked(&world, &token, &json!({})).await;
    for (user, verdict) in [("U1", "up"), ("U2", "down"), ("U1", "down"), ("U1", "down")] {
        let answer = world
            .call(&token, METHOD, given(&task, user, verdict))
            .await;
        let expected = json!({"status": "kept", "task_id": task});
        assert_eq!(answer["result"], expected, "{answer}");
    }
    let mut all = kept(&world, &task).await;
    all.sort();
    let none = None::<String>;
    let expected = [
        ("U1".to_owned(), false, none.clone()),
        ("U2".to_owned(), false, none),
    ];
    assert_eq!(all, expected);
}

#[tokio::test]
async fn what_is_told_late_or_from_the_future_takes_no_place() {
    let world = World::new().await;
    let token = world.token("verification").await;
    let task = asked(&world, &token, &json!({})).await;
    let tell = async |verdict: &str, at: &str| {
        let mut params = given(&task, "U1", verdict);
        params["given_at"] = json!(at);
        params["comment"] = json!(verdict);
        let answer = world.call(&token, METHOD, params).await;
        assert_eq!(answer["result"]["status"], "kept", "{answer}");
        kept(&world, &task).await.pop().unwrap().1
    };
    assert!(!tell("down", "2024-01-15T12:30:00Z").await);
    assert!(!tell("up", "2024-01-15T12:29:59Z").await, "it is older");
    assert!(tell("up", "2999-01-01T00:00:00Z").await);
    // As if it were said now, so that what comes next counts again.
    let at = world.hub.store().feedback(&[id(&task)]).await.unwrap()[0].at;
    assert!(at <= world.hub.now() && at > Timestamp::from_millis(1_705_321_800_000));
    let answer = world.call(&token, METHOD, given(&task, "U1", "down")).await;
    assert_eq!(answer["result"]["status"], "kept");
    assert_eq!(kept(&world, &task).await, [("U1".to_owned(), false, None)]);
}

#[tokio::test]
async fn only_who_asked_may_tell() {
    let world = World::new().await;
    let token = world.token("verification").await;
    let task = asked(&world, &token, &json!({})).await;
    let other = world.token("somebody").await;
    let theirs = world.fault(&other, METHOD, given(&task, "U1", "up")).await;
    let nobodys = world
        .fault(&other, METHOD, given(&json!("nothing"), "U1", "up"))
        .await;
    for (code, data) in [&theirs, &nobodys] {
        assert_eq!(
            (*code, &data["error_code"]),
            (-32000, &json!("task_not_found"))
        );
    }
    let reader = world
        .token_with("reader", &["acp:agent:identify", "acp:tasks:read"])
        .await;
    let (code, _) = world.fault(&reader, METHOD, given(&task, "U1", "up")).await;
    assert_eq!(code, -40008);
    assert_eq!(kept(&world, &task).await, []);
}

#[tokio::test]
async fn what_does_not_fit_is_told() {
    let world = World::new().await;
    let token = world.token("verification").await;
    let task = asked(&world, &token, &json!({})).await;
    let (code, data) = world.fault(&token, METHOD, json!({})).await;
    assert_eq!(
        (code, &data["missing"]),
        (-32602, &json!(["task_id", "user_id", "verdict"]))
    );
    for (member, value, field) in [
        ("verdict", json!("sideways"), "params.verdict"),
        ("user_id", json!("u".repeat(129)), "params.user_id"),
        ("comment", json!("c".repeat(4_097)), "params.comment"),
    ] {
        let mut params = given(&task, "U1", "up");
        params[member] = value;
        let (code, data) = world.fault(&token, METHOD, params).await;
        assert_eq!((code, &data["field"]), (-32602, &json!(field)), "{data}");
    }
    assert_eq!(kept(&world, &task).await, []);
}
