//! Invalid input, and secrets that must never be exposed.

use super::{
    BOT_TOKEN, ZoneFixture, ZoneSetup, call_object, completed_with, params, params_with,
    scripted_agent,
};
use http::StatusCode;
use serde_json::{Value, json};
use std::io::Write;
use std::sync::{Arc, Mutex};

#[tokio::test]
async fn wrongly_typed_params_are_named_but_not_echoed() {
    let world = ZoneFixture::new().await;
    let token = world.token("vz").await;
    for (more, field) in [
        (json!({"channel": 7}), "params.channel"),
        (json!({"text": ["SECRET"]}), "params.text"),
        (json!({"bot_token": {"SECRET": 1}}), "params.bot_token"),
        (json!({"thread_ts": 1.5}), "params.thread_ts"),
        (json!({"attachments": {"SECRET": 1}}), "params.attachments"),
        (
            json!({"attachments": [{"name": "SECRET", "mimetype": 1}]}),
            "params.attachments[0].mimetype",
        ),
        (
            json!({"context": [{"role": "SECRET", "text": "x"}]}),
            "params.context[0].role",
        ),
        (json!({"team_id": "x".repeat(5_000)}), "params.team_id"),
    ] {
        let (code, data) = world
            .call_expecting_error(&token, "execute_task", params_with("hi", &more))
            .await;
        assert_eq!((code, &data["field"]), (-32602, &json!(field)), "{data}");
        assert!(data["expected"].is_string() && data["received"].is_string());
        assert!(!data.to_string().contains("SECRET"), "{data}");
    }
    let (code, data) = world
        .call_expecting_error(&token, "execute_task", json!(["C1", "hi", "t"]))
        .await;
    assert_eq!((code, &data["field"]), (-32602, &json!("params")));
}

#[tokio::test]
async fn rate_limited_caller_gets_retry_after() {
    let world = ZoneFixture::with_setup(ZoneSetup {
        per_minute: 1,
        ..ZoneSetup::default()
    })
    .await;
    let token = world.token("vz").await;
    world.execute_task(&token, "echo hi").await;
    let call = call_object(&json!(2), &params("echo hi")).to_string();
    let (status, headers, body) = world.post(&token, call).await;
    assert_eq!(status, StatusCode::OK);
    let answer = super::check_response(serde_json::from_str(&body).unwrap());
    let data = &answer["error"]["data"];
    assert_eq!(
        (&answer["error"]["code"], &data["error_code"]),
        (&json!(-32000), &json!("rate_limited"))
    );
    assert_eq!(headers["retry-after"], data["retry_after"].to_string());
}

#[tokio::test]
async fn call_without_agents_returns_agent_unavailable() {
    let world = ZoneFixture::with_setup(ZoneSetup {
        agents: Vec::new(),
        ..ZoneSetup::default()
    })
    .await;
    let token = world.token("vz").await;
    let (code, data) = world
        .call_expecting_error(&token, "execute_task", params("hi"))
        .await;
    assert_eq!(
        (code, &data["error_code"]),
        (-32000, &json!("agent_unavailable"))
    );
}

#[tokio::test]
async fn attachment_url_is_not_exposed() {
    let world = ZoneFixture::new().await;
    let token = world.token("vz").await;
    let url = "https://files.test/a?signature=SECRET";
    let attached = json!({"attachments": [
        {"id": "F1", "name": "a.csv", "mimetype": "text/csv", "size": 3, "presigned_url": url},
    ]});
    let answer = world
        .call(&token, "execute_task", params_with("echo hi", &attached))
        .await;
    assert!(!answer.to_string().contains("SECRET"), "{answer}");
    let listed = world.call(&token, "interzone.tasks.list", json!({})).await;
    let task = listed["result"]["tasks"][0]["taskId"].clone();
    let shown = world
        .call(&token, "tasks.get", json!({"taskId": task}))
        .await;
    let part = &shown["result"]["task"]["messages"][0]["parts"][1];
    assert_eq!(part["filename"], "a.csv");
    assert!(!shown.to_string().contains("SECRET"), "{shown}");
}

/// Log writer whose content can be read.
#[derive(Clone, Default)]
struct CapturedLog(Arc<Mutex<Vec<u8>>>);

impl Write for CapturedLog {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn bot_token_is_not_stored_logged_returned_or_passed_on() {
    let log = CapturedLog::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let turns: Arc<Mutex<Vec<String>>> = Arc::default();
    let recorded_turns = turns.clone();
    let log_guard = tracing_subscriber::util::SubscriberInitExt::set_default(subscriber);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (stored, audit) = runtime.block_on(async {
        let recorder = scripted_agent("curious", move |turn, _| {
            recorded_turns.lock().unwrap().push(format!("{turn:?}"));
            let all = [&turn.history[..], std::slice::from_ref(&turn.message)].concat();
            let metadata = turn.task.metadata.as_ref().unwrap().as_str().to_owned();
            let all = serde_json::to_string(&all).unwrap() + &metadata;
            async move { Ok(completed_with(&all)) }
        });
        let world = ZoneFixture::with_setup(ZoneSetup {
            agents: vec![recorder],
            ..ZoneSetup::default()
        })
        .await;
        let token = world.token("vz").await;
        let id = "5f0f0a5c-8f0a-4c1e-9d59-0000000000ff";
        let context = json!({"context": [{"role": "user", "text": "before"}], "user_id": "U1"});
        let calls: [Value; 4] = [
            params_with("hello", &context),
            params_with("hello", &json!({"channel": 7})),
            params_with("", &json!({})),
            params_with("hello", &json!({"task_id": "unknown"})),
        ];
        for params in calls {
            let (_, headers, body) = world
                .post(&token, call_object(&json!(id), &params).to_string())
                .await;
            assert!(!format!("{headers:?}{body}").contains(BOT_TOKEN));
        }
        let audit = world.path("audit.log");
        let folder = world.shut_down().await;
        let mut stored = Vec::new();
        for file in std::fs::read_dir(folder.path()).unwrap() {
            let path = file.unwrap().path();
            if path != audit {
                stored.extend(std::fs::read(path).unwrap());
            }
        }
        (stored, std::fs::read_to_string(audit).unwrap())
    });
    drop(log_guard);
    let stored = String::from_utf8_lossy(&stored);
    assert!(stored.contains("before"), "the store was read");
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("zone call"), "the log was read");
    let line = log.lines().find(|line| line.contains("zone call")).unwrap();
    assert!(
        line.contains("5f0f0a5c-8f0a-4c1e-9d59-0000000000ff"),
        "{line}"
    );
    assert!(audit.contains("execute_task"), "the audit log was read");
    let turns = turns.lock().unwrap().join("\n");
    assert!(turns.contains("curious"), "the agent's turn was read");
    for (what, text) in [
        ("store", &*stored),
        ("log", &*log),
        ("audit", &*audit),
        ("turn", &*turns),
    ] {
        assert!(!text.contains(BOT_TOKEN), "the token is in the {what}");
        assert!(!text.contains("xoxb"), "part of the token is in the {what}");
    }
}
