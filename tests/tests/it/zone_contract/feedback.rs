//! User feedback on answers: sent by the Verification Zone, stored with the task.

use super::{ZoneFixture, params_with};
use interzone_hub::{Feedback, ThreadOrigin};
use interzone_protocol::vocab::{TaskId, Timestamp};
use serde_json::{Value, json};

const METHOD: &str = "interzone.feedback";

fn feedback_params(task: &Value, user: &str, verdict: &str) -> Value {
    json!({"task_id": task, "user_id": user, "verdict": verdict})
}

async fn create_task(world: &ZoneFixture, token: &str, more: &Value) -> Value {
    let params = params_with("echo hi", more);
    let answer = world.call(token, "execute_task", params).await;
    answer["result"]["task_id"].clone()
}

fn task_id(task: &Value) -> TaskId {
    TaskId::new(task.as_str().unwrap()).unwrap()
}

async fn stored_feedback(world: &ZoneFixture, task: &Value) -> Vec<(String, bool, Option<String>)> {
    let all = world.hub.store().feedback(&[task_id(task)]).await.unwrap();
    let read = |one: Feedback| (one.author, one.is_positive, one.comment);
    all.into_iter().map(read).collect()
}

#[tokio::test]
async fn task_records_its_slack_thread() {
    let world = ZoneFixture::new().await;
    let token = world.token("verification").await;
    let thread = json!({"team_id": "T1", "thread_ts": "1700000000.000100", "user_id": "U1"});
    let task = create_task(&world, &token, &thread).await;
    let found = world
        .hub
        .store()
        .thread_task(&task_id(&task))
        .await
        .unwrap();
    let expected = ThreadOrigin::new("T1", "C1", "1700000000.000100", "U1");
    assert_eq!(found.map(|found| found.origin), expected);
    // A call without a thread, or with an invalid one, is executed nevertheless.
    let long = "x".repeat(500);
    for more in [
        json!({}),
        json!({"thread_ts": " \n", "user_id": "U1"}),
        json!({"thread_ts": long}),
    ] {
        let task = create_task(&world, &token, &more).await;
        let found = world
            .hub
            .store()
            .thread_task(&task_id(&task))
            .await
            .unwrap();
        assert_eq!(found, None, "{more}");
    }
}

#[tokio::test]
async fn latest_feedback_per_user_is_stored() {
    let world = ZoneFixture::new().await;
    let token = world.token("verification").await;
    let task = create_task(&world, &token, &json!({})).await;
    for (user, verdict) in [("U1", "up"), ("U2", "down"), ("U1", "down"), ("U1", "down")] {
        let answer = world
            .call(&token, METHOD, feedback_params(&task, user, verdict))
            .await;
        let expected = json!({"status": "kept", "task_id": task});
        assert_eq!(answer["result"], expected, "{answer}");
    }
    let mut all = stored_feedback(&world, &task).await;
    all.sort();
    let none = None::<String>;
    let expected = [
        ("U1".to_owned(), false, none.clone()),
        ("U2".to_owned(), false, none),
    ];
    assert_eq!(all, expected);
}

#[tokio::test]
async fn old_feedback_is_ignored_and_future_date_is_clamped() {
    let world = ZoneFixture::new().await;
    let token = world.token("verification").await;
    let task = create_task(&world, &token, &json!({})).await;
    let send = async |verdict: &str, at: &str| {
        let mut params = feedback_params(&task, "U1", verdict);
        params["given_at"] = json!(at);
        params["comment"] = json!(verdict);
        let answer = world.call(&token, METHOD, params).await;
        assert_eq!(answer["result"]["status"], "kept", "{answer}");
        stored_feedback(&world, &task).await.pop().unwrap().1
    };
    assert!(!send("down", "2024-01-15T12:30:00Z").await);
    assert!(!send("up", "2024-01-15T12:29:59Z").await, "it is older");
    assert!(send("up", "2999-01-01T00:00:00Z").await);
    // Stored with the current time, so that later feedback replaces it.
    let given_at = world.hub.store().feedback(&[task_id(&task)]).await.unwrap()[0].given_at;
    assert!(given_at <= world.hub.now() && given_at > Timestamp::from_millis(1_705_321_800_000));
    let answer = world
        .call(&token, METHOD, feedback_params(&task, "U1", "down"))
        .await;
    assert_eq!(answer["result"]["status"], "kept");
    assert_eq!(
        stored_feedback(&world, &task).await,
        [("U1".to_owned(), false, None)]
    );
}

#[tokio::test]
async fn feedback_is_accepted_only_from_task_owner() {
    let world = ZoneFixture::new().await;
    let token = world.token("verification").await;
    let task = create_task(&world, &token, &json!({})).await;
    let other = world.token("other").await;
    let theirs = world
        .call_expecting_error(&other, METHOD, feedback_params(&task, "U1", "up"))
        .await;
    let unknown = world
        .call_expecting_error(
            &other,
            METHOD,
            feedback_params(&json!("nothing"), "U1", "up"),
        )
        .await;
    for (code, data) in [&theirs, &unknown] {
        assert_eq!(
            (*code, &data["error_code"]),
            (-32000, &json!("task_not_found"))
        );
    }
    let reader = world
        .token_with_scopes("reader", &["acp:agent:identify", "acp:tasks:read"])
        .await;
    let (code, _) = world
        .call_expecting_error(&reader, METHOD, feedback_params(&task, "U1", "up"))
        .await;
    assert_eq!(code, -40008);
    assert_eq!(stored_feedback(&world, &task).await, []);
}

#[tokio::test]
async fn invalid_feedback_params_are_reported() {
    let world = ZoneFixture::new().await;
    let token = world.token("verification").await;
    let task = create_task(&world, &token, &json!({})).await;
    let (code, data) = world.call_expecting_error(&token, METHOD, json!({})).await;
    assert_eq!(
        (code, &data["missing"]),
        (-32602, &json!(["task_id", "user_id", "verdict"]))
    );
    for (member, value, field) in [
        ("verdict", json!("sideways"), "params.verdict"),
        ("user_id", json!("u".repeat(129)), "params.user_id"),
        ("comment", json!("c".repeat(4_097)), "params.comment"),
    ] {
        let mut params = feedback_params(&task, "U1", "up");
        params[member] = value;
        let (code, data) = world.call_expecting_error(&token, METHOD, params).await;
        assert_eq!((code, &data["field"]), (-32602, &json!(field)), "{data}");
    }
    assert_eq!(stored_feedback(&world, &task).await, []);
}
