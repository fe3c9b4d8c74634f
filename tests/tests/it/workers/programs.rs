//! Real programs as agents, from the task to the answer: the examples that newcomers begin with.

use super::{Place, alice, ask, ended, quick, start};
use interzone_execution::agents::{CommandAgent, CommandOptions, INHERITED};
use interzone_hub::{Agent, Hub};
use interzone_protocol::vocab::{AgentId, TaskState};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[expect(
    clippy::disallowed_methods,
    reason = "the test finds programs as the one who runs it does"
)]
fn program(command: &[&str]) -> Arc<CommandAgent> {
    let id = AgentId::new("program").unwrap();
    let command = command.iter().map(|word| (*word).to_owned()).collect();
    let env = INHERITED
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
    let options = CommandOptions {
        cwd: Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/agents")),
        env: env.collect(),
        ..CommandOptions::new(id, command)
    };
    Arc::new(CommandAgent::start(options, &CancellationToken::new()).unwrap())
}

async fn said(hub: &Hub, text: &str) -> String {
    let id = ask(hub, text).await;
    let (task, _) = ended(hub, &id).await;
    assert_eq!(task.state, TaskState::Completed);
    let detail = hub.task_detail(&alice(), &id, 1, false).await.unwrap();
    detail.messages[0].text()
}

#[tokio::test]
async fn the_example_programs_answer() {
    let rust = crate::example("echo-agent");
    let rust = [rust.to_str().unwrap()];
    for command in [&["python3", "echo.py"][..], &["node", "echo.js"], &rust] {
        let place = Place::new().await;
        let agent = program(command);
        let hub = place.live_hub(vec![agent.clone() as Arc<dyn Agent>]);
        let workers = start(&hub, quick("n1"));
        let (one, two) = tokio::join!(said(&hub, "one two"), said(&hub, "three"));
        assert_eq!(
            (one.as_str(), two.as_str()),
            ("one two ", "three "),
            "{command:?}"
        );
        workers.join(Duration::from_secs(20)).await;
        agent.shut_down().await;
    }
}

#[tokio::test]
async fn a_program_that_is_not_available_gets_no_work_until_it_is() {
    let place = Place::new().await;
    let folder = tempfile::tempdir().unwrap();
    let sign = folder.path().join("open");
    // It ends at once for as long as there is no sign for it to stay.
    let code = format!(
        "import os, sys\nos.path.exists({:?}) or sys.exit(1)\nexec(open('echo.py').read())",
        sign.to_str().unwrap()
    );
    let agent = program(&["python3", "-c", &code]);
    let hub = place.live_hub(vec![agent.clone() as Arc<dyn Agent>]);
    let id = ask(&hub, "hello").await;
    while agent.is_available() {
        tokio::task::yield_now().await;
    }
    let workers = start(&hub, quick("n1"));
    std::fs::write(&sign, "").unwrap();
    let (task, log) = ended(&hub, &id).await;
    assert_eq!(task.state, TaskState::Completed, "{log:?}");
    workers.join(Duration::from_secs(20)).await;
    agent.shut_down().await;
}
