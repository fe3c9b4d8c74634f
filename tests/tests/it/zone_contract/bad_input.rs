//! Bad input, and what must never be anywhere.

use super::{BOT_TOKEN, Setup, World, actor, call, params, params_with, said};
use http::StatusCode;
use serde_json::{Value, json};
use std::io::Write;
use std::sync::{Arc, Mutex};

#[tokio::test]
async fn params_of_the_wrong_type_are_named_and_not_repeated() {
    let world = World::new().await;
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
            .fault(&token, "execute_task", params_with("hi", &more))
            .await;
        assert_eq!((code, &data["field"]), (-32602, &json!(field)), "{data}");
        assert!(data["expected"].is_string() && data["received"].is_string());
        assert!(!data.to_string().contains("SECRET"), "{data}");
    }
    let (code, data) = world
        .fault(&token, "execute_task", json!(["C1", "hi", "t"]))
        .await;
    assert_eq!((code, &data["field"]), (-32602, &json!("params")));
}

#[tokio::test]
async fn whoever_asks_too_often_is_told_when_to_come_back() {
    let world = World::with(Setup {
        per_minute: 1,
        ..Setup::default()
    })
    .await;
    let token = world.token("vz").await;
    world.ask(&token, "echo hi").await;
    let call = call(&json!(2), &params("echo hi")).to_string();
    let (status, headers, body) = world.post(&token, call).await;
    assert_eq!(status, StatusCode::OK);
    let answer = super::checked(serde_json::from_str(&body).unwrap());
    let data = &answer["error"]["data"];
    assert_eq!(
        (&answer["error"]["code"], &data["error_code"]),
        (&json!(-32000), &json!("rate_limited"))
    );
    assert_eq!(headers["retry-after"], data["retry_after"].to_string());
}

#[tokio::test]
async fn no_agent_is_an_error_of_its_own() {
    let world = World::with(Setup {
        agents: Vec::new(),
        ..Setup::default()
    })
    .await;
    let token = world.token("vz").await;
    let (code, data) = world.fault(&token, "execute_task", params("hi")).await;
    assert_eq!(
        (code, &data["error_code"]),
        (-32000, &json!("agent_unavailable"))
    );
}

#[tokio::test]
async fn the_address_of_an_attachment_is_not_shown() {
    let world = World::new().await;
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

/// A log that can be read.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<u8>>>);

impl Write for Log {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

#[test]
fn the_bot_token_is_kept_logged_told_and_handed_on_nowhere() {
    let log = Log::default();
    let writer = log.clone();
    let subscriber = tracing_subscriber::fmt()
        .with_max_level(tracing_subscriber::filter::LevelFilter::TRACE)
        .with_ansi(false)
        .with_writer(move || writer.clone())
        .finish();
    let given: Arc<Mutex<Vec<String>>> = Arc::default();
    let seen = given.clone();
    let folder = tracing_subscriber::util::SubscriberInitExt::set_default(subscriber);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .unwrap();
    let (kept, audit) = runtime.block_on(async {
        let curious = actor("curious", move |turn, _| {
            seen.lock().unwrap().push(format!("{turn:?}"));
            let all = [&turn.history[..], std::slice::from_ref(&turn.message)].concat();
            let metadata = turn.task.metadata.as_ref().unwrap().as_str().to_owned();
            let all = serde_json::to_string(&all).unwrap() + &metadata;
            async move { Ok(said(&all)) }
        });
        let world = World::with(Setup {
            agents: vec![curious],
            ..Setup::default()
        })
        .await;
        let token = world.token("vz").await;
        let id = "5f0f0a5c-8f0a-4c1e-9d59-0000000000ff";
        let context = json!({"context": [{"role": "user", "text": "before"}], "user_id": "U1"});
        let ways: [Value; 4] = [
            params_with("hello", &context),
            params_with("hello", &json!({"channel": 7})),
            params_with("", &json!({})),
            params_with("hello", &json!({"task_id": "nobodys"})),
        ];
        for way in ways {
            let (_, headers, body) = world.post(&token, call(&json!(id), &way).to_string()).await;
            assert!(!format!("{headers:?}{body}").contains(BOT_TOKEN));
        }
        let audit = world.path("audit.log");
        let folder = world.end().await;
        let mut kept = Vec::new();
        for file in std::fs::read_dir(folder.path()).unwrap() {
            let path = file.unwrap().path();
            if path != audit {
                kept.extend(std::fs::read(path).unwrap());
            }
        }
        (kept, std::fs::read_to_string(audit).unwrap())
    });
    drop(folder);
    let kept = String::from_utf8_lossy(&kept);
    assert!(kept.contains("before"), "the store was looked at");
    let log = String::from_utf8(log.0.lock().unwrap().clone()).unwrap();
    assert!(log.contains("zone call"), "the log was looked at");
    let line = log.lines().find(|line| line.contains("zone call")).unwrap();
    assert!(
        line.contains("5f0f0a5c-8f0a-4c1e-9d59-0000000000ff"),
        "{line}"
    );
    assert!(audit.contains("execute_task"), "the audit was looked at");
    let given = given.lock().unwrap().join("\n");
    assert!(given.contains("curious"), "the agent was looked at");
    for (what, text) in [
        ("store", &*kept),
        ("log", &*log),
        ("audit", &*audit),
        ("turn", &*given),
    ] {
        assert!(!text.contains(BOT_TOKEN), "the token is in the {what}");
        assert!(!text.contains("xoxb"), "some of the token is in the {what}");
    }
}
