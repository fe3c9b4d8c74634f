//! A Python command agent: its features, and how it can misbehave.

use super::WAIT_TIMEOUT;
use super::zone_process::{ZoneBuilder, ZoneProcess, user_message};
use serde_json::{Value, json};
use std::path::Path;

/// Returns the agent's last message.
fn agent_answer(task: &Value) -> &str {
    let messages = task["messages"].as_array().unwrap();
    let last = messages.last().unwrap();
    assert_eq!(last["role"], "agent", "{task}");
    last["parts"][0]["content"].as_str().unwrap()
}

async fn run_task(zone: &ZoneProcess, token: &str, text: &str) -> Value {
    let id = zone.create_task(token, "worker", text).await;
    zone.wait_for_task(token, &id).await
}

/// Waits for a file that the agent creates, its only sign of progress.
pub(crate) async fn wait_for_file(path: &Path) {
    let look = async {
        let mut every = tokio::time::interval(std::time::Duration::from_millis(10));
        while !path.exists() {
            every.tick().await;
        }
    };
    let found = tokio::time::timeout(WAIT_TIMEOUT, look).await;
    assert!(found.is_ok(), "{} did not appear", path.display());
}

#[tokio::test(flavor = "multi_thread")]
async fn command_agent_supports_every_feature() {
    let zone = ZoneBuilder::new().with_worker().start().await;
    let token = zone.token("anna");

    let task = run_task(&zone, &token, "echo hello \u{2603}").await;
    assert_eq!(
        (task["status"].as_str().unwrap(), agent_answer(&task)),
        ("COMPLETED", "hello \u{2603}")
    );
    assert_eq!(task["assignedAgent"], "worker");
    // It is the default agent.
    let made = zone
        .call(
            &token,
            "tasks.create",
            json!({"initialMessage": user_message("echo default")}),
        )
        .await;
    let id = made["task"]["taskId"].as_str().unwrap();
    assert_eq!(
        agent_answer(&zone.wait_for_task(&token, id).await),
        "default"
    );

    let task = run_task(&zone, &token, "words one two three").await;
    assert_eq!(agent_answer(&task), "one two three ");

    let id = zone
        .create_task(&token, "worker", "status thinking hard")
        .await;
    let events = zone
        .watch(&token, &format!("tasks/{id}"), None)
        .await
        .remaining()
        .await;
    assert!(
        events
            .iter()
            .any(|event| event.name == "interzone.task.status"
                && event.params()["text"] == "thinking hard"),
        "{events:#?}"
    );

    let task = run_task(&zone, &token, "file notes.txt some text").await;
    assert_eq!(task["artifacts"][0]["name"], "notes.txt");
    assert_eq!(task["artifacts"][0]["parts"][0]["content"], "some text");
    assert_eq!(agent_answer(&task), "made notes.txt");

    for (text, expect) in [
        ("fail badly", "badly"),
        ("reject no thanks", "no thanks"),
        ("error went wrong", ""),
    ] {
        let task = run_task(&zone, &token, text).await;
        assert_eq!(task["status"], "FAILED", "{text}: {task}");
        assert!(
            task["messages"].to_string().contains(expect),
            "{text}: {task}"
        );
    }

    let params = json!({"initialMessage": user_message("metadata"), "assignTo": "worker", "metadata": {"k": [1, "\u{2603}"]}});
    let made = zone.call(&token, "tasks.create", params).await;
    let task = zone
        .wait_for_task(&token, made["task"]["taskId"].as_str().unwrap())
        .await;
    let metadata: Value = serde_json::from_str(agent_answer(&task)).unwrap();
    assert_eq!(metadata["k"], json!([1, "\u{2603}"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn answered_question_continues_with_history() {
    let zone = ZoneBuilder::new().with_worker().start().await;
    let token = zone.token("anna");
    let id = zone.create_task(&token, "worker", "ask which?").await;
    let mut watch = zone.watch(&token, &format!("tasks/{id}"), None).await;
    watch
        .until(|event| {
            event.kind() == "STATUS_CHANGE" && event.params()["data"]["status"] == "INPUT_REQUIRED"
        })
        .await;
    let task = zone.task(&token, &id).await;
    assert_eq!(
        (task["status"].as_str().unwrap(), agent_answer(&task)),
        ("INPUT_REQUIRED", "which?")
    );
    let send = json!({"taskId": id, "message": user_message("history please")});
    zone.call(&token, "tasks.send", send).await;
    watch.remaining().await;
    let task = zone.task(&token, &id).await;
    let history: Value = serde_json::from_str(agent_answer(&task)).unwrap();
    let history: Vec<&str> = history
        .as_array()
        .unwrap()
        .iter()
        .filter_map(Value::as_str)
        .collect();
    assert!(
        history.starts_with(&["ask which?", "which?"]),
        "{history:?}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn cancel_reaches_the_agent_process() {
    let zone = ZoneBuilder::new().with_worker().start().await;
    let token = zone.token("anna");
    let gate = tempfile::tempdir().unwrap();
    let id = zone
        .create_task(
            &token,
            "worker",
            &format!("gate {} 1", gate.path().display()),
        )
        .await;
    let mut watch = zone.watch(&token, &format!("tasks/{id}"), None).await;
    watch
        .until(|event| event.name == "interzone.task.status")
        .await;
    zone.call(
        &token,
        "tasks.cancel",
        json!({"taskId": id, "reason": "enough"}),
    )
    .await;
    assert_eq!(
        zone.task(&token, &id).await["status"],
        "CANCELED",
        "at once"
    );
    let events = watch.remaining().await;
    assert!(
        events
            .iter()
            .all(|event| !["COMPLETED", "FAILED"].contains(&event.kind())),
        "{events:#?}"
    );
    assert_eq!(
        agent_answer(&run_task(&zone, &token, "echo next").await),
        "next"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn hanging_agent_times_out() {
    let zone = ZoneBuilder::new()
        .with_worker()
        .set("work.turn_timeout", "1s")
        .start()
        .await;
    let token = zone.token("anna");
    let file = zone.env.path("hung");
    let id = zone
        .create_task(&token, "worker", &format!("hang {}", file.display()))
        .await;
    wait_for_file(&file).await;
    // Other tasks run in the meantime.
    assert_eq!(
        agent_answer(&run_task(&zone, &token, "echo beside it").await),
        "beside it"
    );
    let task = zone.wait_for_task(&token, &id).await;
    assert_eq!(task["status"], "FAILED", "{task}");
    assert_eq!(
        agent_answer(&run_task(&zone, &token, "echo after it").await),
        "after it"
    );
    zone.assert_serving().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn crashed_agent_fails_its_runs_and_restarts() {
    let zone = ZoneBuilder::new().with_worker().start().await;
    let token = zone.token("anna");
    let gate = tempfile::tempdir().unwrap();
    let concurrent = zone
        .create_task(
            &token,
            "worker",
            &format!("gate {} 1", gate.path().display()),
        )
        .await;
    zone.watch(&token, &format!("tasks/{concurrent}"), None)
        .await
        .until(|event| event.name == "interzone.task.status")
        .await;
    for _ in 0..2 {
        let task = run_task(&zone, &token, "crash").await;
        assert_eq!(task["status"], "FAILED", "{task}");
        assert!(
            !task.to_string().contains("agent.py"),
            "internals are exposed: {task}"
        );
    }
    let task = zone.wait_for_task(&token, &concurrent).await;
    assert_eq!(
        task["status"], "FAILED",
        "a concurrent run fails as well: {task}"
    );
    assert_eq!(
        agent_answer(&run_task(&zone, &token, "echo alive").await),
        "alive"
    );
    zone.assert_serving().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn invalid_agent_output_is_contained() {
    let zone = ZoneBuilder::new().with_worker().start().await;
    let token = zone.token("anna");
    for text in ["rubbish", "nonsense", "flood 64"] {
        let task = run_task(&zone, &token, text).await;
        // Invalid lines may be skipped; an invalid answer may not.
        let expect: &[&str] = match text {
            "rubbish" => &["COMPLETED", "FAILED"],
            _ => &["FAILED"],
        };
        assert!(
            expect.contains(&task["status"].as_str().unwrap()),
            "{text}: {task}"
        );
        assert_eq!(
            agent_answer(&run_task(&zone, &token, "echo sane").await),
            "sane",
            "after {text}"
        );
    }
    zone.assert_serving().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn urgent_tasks_run_first() {
    let zone = ZoneBuilder::new()
        .with_worker()
        .set_worker("concurrency", 1)
        .start()
        .await;
    let token = zone.token("anna");
    let gate = tempfile::tempdir().unwrap();
    // While one task runs, the others queue.
    let first = zone
        .create_task(
            &token,
            "worker",
            &format!("gate {} 1", gate.path().display()),
        )
        .await;
    zone.watch(&token, &format!("tasks/{first}"), None)
        .await
        .until(|event| event.name == "interzone.task.status")
        .await;
    let file = zone.env.path("order");
    let mut ids = Vec::new();
    for (priority, mark) in [
        ("LOW", "low"),
        ("NORMAL", "normal-1"),
        ("HIGH", "high"),
        ("NORMAL", "normal-2"),
        ("URGENT", "urgent"),
    ] {
        let text = format!("stamp {} {mark}", file.display());
        let params = json!({"initialMessage": user_message(&text), "assignTo": "worker", "priority": priority});
        let made = zone.call(&token, "tasks.create", params).await;
        ids.push(made["task"]["taskId"].as_str().unwrap().to_owned());
    }
    std::fs::write(gate.path().join("1"), "").unwrap();
    for id in ids {
        assert_eq!(zone.wait_for_task(&token, &id).await["status"], "COMPLETED");
    }
    let order = std::fs::read_to_string(file).unwrap();
    let order: Vec<&str> = order.lines().collect();
    assert_eq!(order, ["urgent", "high", "normal-1", "normal-2", "low"]);
}
