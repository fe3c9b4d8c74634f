//! An agent in Python, as a program that the zone runs: what it can do, and what it can do wrong.

use super::PATIENCE;
use super::zone::{Setup, Zone, said};
use serde_json::{Value, json};
use std::path::Path;

/// What the agent said last.
fn answer(task: &Value) -> &str {
    let messages = task["messages"].as_array().unwrap();
    let last = messages.last().unwrap();
    assert_eq!(last["role"], "agent", "{task}");
    last["parts"][0]["content"].as_str().unwrap()
}

async fn ask(zone: &Zone, token: &str, text: &str) -> Value {
    let id = zone.create(token, "worker", text).await;
    zone.finished(token, &id).await
}

/// The program makes this file; nothing else tells that it is there.
pub(crate) async fn file_appears(path: &Path) {
    let look = async {
        let mut every = tokio::time::interval(std::time::Duration::from_millis(10));
        while !path.exists() {
            every.tick().await;
        }
    };
    let found = tokio::time::timeout(PATIENCE, look).await;
    assert!(found.is_ok(), "{} did not appear", path.display());
}

#[tokio::test(flavor = "multi_thread")]
async fn a_command_agent_does_all_that_agents_do() {
    let zone = Setup::new().with_worker().start().await;
    let token = zone.token("anna");

    let task = ask(&zone, &token, "echo hello \u{2603}").await;
    assert_eq!(
        (task["status"].as_str().unwrap(), answer(&task)),
        ("COMPLETED", "hello \u{2603}")
    );
    assert_eq!(task["assignedAgent"], "worker");
    // It is the default, for who names nobody.
    let made = zone
        .call(
            &token,
            "tasks.create",
            json!({"initialMessage": said("echo default")}),
        )
        .await;
    let id = made["task"]["taskId"].as_str().unwrap();
    assert_eq!(answer(&zone.finished(&token, id).await), "default");

    let task = ask(&zone, &token, "words one two three").await;
    assert_eq!(answer(&task), "one two three ");

    let id = zone.create(&token, "worker", "status thinking hard").await;
    let events = zone
        .watch(&token, &format!("tasks/{id}"), None)
        .await
        .rest()
        .await;
    assert!(
        events
            .iter()
            .any(|event| event.name == "interzone.task.status"
                && event.params()["text"] == "thinking hard"),
        "{events:#?}"
    );

    let task = ask(&zone, &token, "file notes.txt some text").await;
    assert_eq!(task["artifacts"][0]["name"], "notes.txt");
    assert_eq!(task["artifacts"][0]["parts"][0]["content"], "some text");
    assert_eq!(answer(&task), "made notes.txt");

    for (text, expect) in [
        ("fail badly", "badly"),
        ("reject no thanks", "no thanks"),
        ("error went wrong", ""),
    ] {
        let task = ask(&zone, &token, text).await;
        assert_eq!(task["status"], "FAILED", "{text}: {task}");
        assert!(
            task["messages"].to_string().contains(expect),
            "{text}: {task}"
        );
    }

    let params = json!({"initialMessage": said("metadata"), "assignTo": "worker", "metadata": {"k": [1, "\u{2603}"]}});
    let made = zone.call(&token, "tasks.create", params).await;
    let task = zone
        .finished(&token, made["task"]["taskId"].as_str().unwrap())
        .await;
    let seen: Value = serde_json::from_str(answer(&task)).unwrap();
    assert_eq!(seen["k"], json!([1, "\u{2603}"]));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_question_is_answered_and_the_history_is_there() {
    let zone = Setup::new().with_worker().start().await;
    let token = zone.token("anna");
    let id = zone.create(&token, "worker", "ask which?").await;
    let mut watch = zone.watch(&token, &format!("tasks/{id}"), None).await;
    watch
        .until(|event| {
            event.kind() == "STATUS_CHANGE" && event.params()["data"]["status"] == "INPUT_REQUIRED"
        })
        .await;
    let task = zone.task(&token, &id).await;
    assert_eq!(
        (task["status"].as_str().unwrap(), answer(&task)),
        ("INPUT_REQUIRED", "which?")
    );
    let send = json!({"taskId": id, "message": said("history please")});
    zone.call(&token, "tasks.send", send).await;
    watch.rest().await;
    let task = zone.task(&token, &id).await;
    let history: Value = serde_json::from_str(answer(&task)).unwrap();
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
async fn a_call_to_stop_reaches_the_program() {
    let zone = Setup::new().with_worker().start().await;
    let token = zone.token("anna");
    let gate = tempfile::tempdir().unwrap();
    let id = zone
        .create(
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
    let rest = watch.rest().await;
    assert!(
        rest.iter()
            .all(|event| !["COMPLETED", "FAILED"].contains(&event.kind())),
        "{rest:#?}"
    );
    assert_eq!(answer(&ask(&zone, &token, "echo next").await), "next");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_hangs_is_cut_off() {
    let zone = Setup::new()
        .with_worker()
        .set("work.turn", "1s")
        .start()
        .await;
    let token = zone.token("anna");
    let file = zone.world.path("hung");
    let id = zone
        .create(&token, "worker", &format!("hang {}", file.display()))
        .await;
    file_appears(&file).await;
    // While it hangs, the others work.
    assert_eq!(
        answer(&ask(&zone, &token, "echo beside it").await),
        "beside it"
    );
    let task = zone.finished(&token, &id).await;
    assert_eq!(task["status"], "FAILED", "{task}");
    assert_eq!(
        answer(&ask(&zone, &token, "echo after it").await),
        "after it"
    );
    zone.serves().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_crashes_fails_its_runs_and_comes_back() {
    let zone = Setup::new().with_worker().start().await;
    let token = zone.token("anna");
    let gate = tempfile::tempdir().unwrap();
    let beside = zone
        .create(
            &token,
            "worker",
            &format!("gate {} 1", gate.path().display()),
        )
        .await;
    zone.watch(&token, &format!("tasks/{beside}"), None)
        .await
        .until(|event| event.name == "interzone.task.status")
        .await;
    for _ in 0..2 {
        let task = ask(&zone, &token, "crash").await;
        assert_eq!(task["status"], "FAILED", "{task}");
        assert!(
            !task.to_string().contains("agent.py"),
            "nothing internal is told: {task}"
        );
    }
    let task = zone.finished(&token, &beside).await;
    assert_eq!(
        task["status"], "FAILED",
        "its neighbour died with it: {task}"
    );
    assert_eq!(answer(&ask(&zone, &token, "echo alive").await), "alive");
    zone.serves().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_that_prints_rubbish_harms_nobody() {
    let zone = Setup::new().with_worker().start().await;
    let token = zone.token("anna");
    for text in ["rubbish", "nonsense", "flood 64"] {
        let task = ask(&zone, &token, text).await;
        // Lines that mean nothing may be passed over; an answer that means nothing may not.
        let expect: &[&str] = match text {
            "rubbish" => &["COMPLETED", "FAILED"],
            _ => &["FAILED"],
        };
        assert!(
            expect.contains(&task["status"].as_str().unwrap()),
            "{text}: {task}"
        );
        assert_eq!(
            answer(&ask(&zone, &token, "echo sane").await),
            "sane",
            "after {text}"
        );
    }
    zone.serves().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_urgent_comes_first() {
    let zone = Setup::new()
        .with_worker()
        .set_worker("concurrency", 1)
        .start()
        .await;
    let token = zone.token("anna");
    let gate = tempfile::tempdir().unwrap();
    // While one is at work, the others line up.
    let first = zone
        .create(
            &token,
            "worker",
            &format!("gate {} 1", gate.path().display()),
        )
        .await;
    zone.watch(&token, &format!("tasks/{first}"), None)
        .await
        .until(|event| event.name == "interzone.task.status")
        .await;
    let file = zone.world.path("order");
    let mut ids = Vec::new();
    for (priority, mark) in [
        ("LOW", "low"),
        ("NORMAL", "normal-1"),
        ("HIGH", "high"),
        ("NORMAL", "normal-2"),
        ("URGENT", "urgent"),
    ] {
        let text = format!("stamp {} {mark}", file.display());
        let params =
            json!({"initialMessage": said(&text), "assignTo": "worker", "priority": priority});
        let made = zone.call(&token, "tasks.create", params).await;
        ids.push(made["task"]["taskId"].as_str().unwrap().to_owned());
    }
    std::fs::write(gate.path().join("1"), "").unwrap();
    for id in ids {
        assert_eq!(zone.finished(&token, &id).await["status"], "COMPLETED");
    }
    let order = std::fs::read_to_string(file).unwrap();
    let order: Vec<&str> = order.lines().collect();
    assert_eq!(order, ["urgent", "high", "normal-1", "normal-2", "low"]);
}
