//! The example agent programs, from the task to the answer.

use super::{WorkersFixture, alice, create_task, quick_options, start_workers, wait_until_ended};
use interzone_execution::agents::{CommandAgent, CommandOptions, INHERITED_ENV_VARS};
use interzone_hub::{Agent, Hub};
use interzone_protocol::vocab::{AgentId, TaskState};
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;
use tokio_util::sync::CancellationToken;

#[expect(
    clippy::disallowed_methods,
    reason = "the test finds programs on the caller's PATH"
)]
fn program(command: &[&str]) -> Arc<CommandAgent> {
    let id = AgentId::new("program").unwrap();
    let command = command.iter().map(|arg| (*arg).to_owned()).collect();
    let env = INHERITED_ENV_VARS
        .iter()
        .filter_map(|name| Some(((*name).to_owned(), std::env::var(name).ok()?)));
    let options = CommandOptions {
        cwd: Some(Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples/agents")),
        env: env.collect(),
        ..CommandOptions::new(id, command)
    };
    Arc::new(CommandAgent::start(options, &CancellationToken::new()).unwrap())
}

async fn run_to_answer(hub: &Hub, text: &str) -> String {
    let id = create_task(hub, text).await;
    let (task, _) = wait_until_ended(hub, &id).await;
    assert_eq!(task.state, TaskState::Completed);
    let detail = hub.task_detail(&alice(), &id, 1, false).await.unwrap();
    detail.messages[0].text()
}

#[tokio::test]
async fn example_agent_programs_answer() {
    let rust = crate::example("echo-agent");
    let rust = [rust.to_str().unwrap()];
    for command in [&["python3", "echo.py"][..], &["node", "echo.js"], &rust] {
        let place = WorkersFixture::new().await;
        let agent = program(command);
        let hub = place.hub_with_system_clock(vec![agent.clone() as Arc<dyn Agent>]);
        let workers = start_workers(&hub, quick_options("n1"));
        let (one, two) = tokio::join!(run_to_answer(&hub, "one two"), run_to_answer(&hub, "three"));
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
async fn unavailable_program_gets_no_work_until_available() {
    let place = WorkersFixture::new().await;
    let folder = tempfile::tempdir().unwrap();
    let ready_file = folder.path().join("open");
    // The program exits at once while the ready file does not exist.
    let code = format!(
        "import os, sys\nos.path.exists({:?}) or sys.exit(1)\nexec(open('echo.py').read())",
        ready_file.to_str().unwrap()
    );
    let agent = program(&["python3", "-c", &code]);
    let hub = place.hub_with_system_clock(vec![agent.clone() as Arc<dyn Agent>]);
    let id = create_task(&hub, "hello").await;
    while agent.is_available() {
        tokio::task::yield_now().await;
    }
    let workers = start_workers(&hub, quick_options("n1"));
    std::fs::write(&ready_file, "").unwrap();
    let (task, log) = wait_until_ended(&hub, &id).await;
    assert_eq!(task.state, TaskState::Completed, "{log:?}");
    workers.join(Duration::from_secs(20)).await;
    agent.shut_down().await;
}
