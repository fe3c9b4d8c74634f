//! Tests of the remote agent against scripted peers. End-to-end tests cover real zones.

use super::{MAX_HOPS, RemoteAgent, RemoteDialect, RemoteOptions};
use crate::agents::tests::{RecordedOutput, turn};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use interzone_client::{ByteStream, Client, RetryPolicy, Transport, TransportError};
use interzone_hub::{Agent, Turn, TurnOutcome, failure_code};
use interzone_protocol::vocab::{AgentId, Message, Metadata, VerbatimJson};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

type PeerScript = dyn Fn(&Value) -> Option<Value> + Send + Sync;

/// A peer without events: it answers calls with the script's result, hangs if there is none, and has no other
/// endpoint.
#[derive(Clone)]
struct ScriptedPeer {
    script: Arc<PeerScript>,
    calls: Arc<Mutex<Vec<(Value, Instant)>>>,
}

impl ScriptedPeer {
    fn new(script: impl Fn(&Value) -> Option<Value> + Send + Sync + 'static) -> Self {
        Self {
            script: Arc::new(script),
            calls: Arc::default(),
        }
    }

    fn agent(&self, dialect: RemoteDialect) -> RemoteAgent {
        let client = Client::builder("https://peer.test").transport(Arc::new(self.clone()));
        let client = client.retry(RetryPolicy::never()).build().unwrap();
        let id = AgentId::new("far").unwrap();
        RemoteAgent::new(RemoteOptions {
            dialect,
            assign_to: Some("worker".to_owned()),
            ..RemoteOptions::new(id, client)
        })
    }

    fn methods(&self) -> Vec<String> {
        let calls = self.calls.lock().unwrap();
        let name = |(call, _): &(Value, Instant)| call["method"].as_str().unwrap().to_owned();
        calls.iter().map(name).collect()
    }

    fn call(&self, index: usize) -> Value {
        self.calls.lock().unwrap()[index].0.clone()
    }

    fn count(&self, method: &str) -> usize {
        self.methods().iter().filter(|name| *name == method).count()
    }
}

#[async_trait]
impl Transport for ScriptedPeer {
    async fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> Result<http::Response<ByteStream>, TransportError> {
        if request.method() != http::Method::POST {
            let mut response = http::Response::new(stream::empty().boxed());
            *response.status_mut() = http::StatusCode::NOT_FOUND;
            return Ok(response);
        }
        let call: Value = serde_json::from_slice(request.body()).unwrap();
        self.calls
            .lock()
            .unwrap()
            .push((call.clone(), Instant::now()));
        let Some(mut answer) = (self.script)(&call) else {
            return std::future::pending().await;
        };
        answer["jsonrpc"] = json!("2.0");
        answer["id"] = call["id"].clone();
        let body = Bytes::from(answer.to_string());
        let body = stream::once(async { Ok(body) }).boxed();
        let response = http::Response::builder().header("content-type", "application/json");
        Ok(response.body(body).unwrap())
    }
}

/// Transport to an unreachable peer.
struct UnreachablePeer;

#[async_trait]
impl Transport for UnreachablePeer {
    async fn send(
        &self,
        _: http::Request<Bytes>,
    ) -> Result<http::Response<ByteStream>, TransportError> {
        Err(TransportError::not_connected(std::io::Error::other(
            "unreachable",
        )))
    }
}

fn task(status: &str, messages: Value, artifacts: Value) -> Option<Value> {
    let task = json!({"taskId": "far-1", "status": status, "createdAt": "2026-01-02T03:04:05Z",
        "messages": messages, "artifacts": artifacts});
    Some(json!({"result": {"type": "task", "task": task}}))
}

fn message_json(role: &str, text: &str) -> Value {
    json!({"role": role, "parts": [{"type": "TextPart", "content": text}]})
}

fn file(id: &str) -> Value {
    json!({"artifactId": id, "name": "a.txt", "parts": [{"type": "FilePart", "content": "aGk="}]})
}

fn done() -> Option<Value> {
    Some(json!({"result": {"type": "success", "message": "ok"}}))
}

fn user_turn(text: &str) -> Turn {
    turn("t-1", Message::user_text(text), Vec::new())
}

async fn run(
    agent: &RemoteAgent,
    turn: Turn,
) -> (Result<TurnOutcome, String>, Arc<RecordedOutput>) {
    let output = Arc::new(RecordedOutput::default());
    let outcome = agent.run(turn, output.clone()).await;
    (outcome.map_err(|error| error.code.to_owned()), output)
}

fn text(outcome: &Result<TurnOutcome, String>) -> String {
    match outcome {
        Ok(TurnOutcome::Completed { message, .. }) => message.as_ref().unwrap().text(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn peer_without_watch_support_is_polled() {
    let poll_count = Mutex::new(0);
    let peer = ScriptedPeer::new(move |call| match call["method"].as_str().unwrap() {
        "tasks.create" => task("SUBMITTED", json!([]), json!([])),
        _ => {
            let mut count = poll_count.lock().unwrap();
            *count += 1;
            match *count {
                1..=3 => task("WORKING", json!([]), json!([])),
                _ => task(
                    "COMPLETED",
                    json!([message_json("user", "hello"), message_json("agent", "done")]),
                    json!([file("a-1")]),
                ),
            }
        }
    });
    let (outcome, output) = run(&peer.agent(RemoteDialect::Acp), user_turn("hello")).await;
    assert_eq!(text(&outcome), "done");
    assert!(matches!(
        outcome,
        Ok(TurnOutcome::Completed { direct: false, .. })
    ));
    assert_eq!(output.artifacts.lock().unwrap().len(), 1);
    let created = peer.call(0);
    assert_eq!(created["params"]["assignTo"], json!("worker"));
    assert_eq!(
        created["params"]["initialMessage"]["parts"][0]["content"],
        json!("hello")
    );
    let forwarded = &created["params"]["metadata"]["interzone"];
    assert_eq!(
        (&forwarded["hops"], &forwarded["origin"]),
        (&json!(1), &json!("t-1/0"))
    );
    let calls = peer.calls.lock().unwrap();
    let times: Vec<Instant> = calls.iter().map(|(_, at)| *at).collect();
    let waits: Vec<u128> = times
        .windows(2)
        .map(|two| (two[1] - two[0]).as_millis())
        .collect();
    for (wait, due) in waits.iter().zip([0, 2000, 3000, 4500]) {
        assert!(wait.abs_diff(due) <= 5, "{waits:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn users_answer_continues_the_peers_task() {
    let step = Mutex::new(0);
    let peer = ScriptedPeer::new(move |call| {
        let mut step = step.lock().unwrap();
        let question = message_json("agent", "Which?");
        match call["method"].as_str().unwrap() {
            "tasks.create" => task("SUBMITTED", json!([]), json!([])),
            "tasks.send" => {
                *step = 1;
                done()
            }
            _ if *step == 0 => task("INPUT_REQUIRED", json!([question]), json!([file("a-1")])),
            // The peer has received the answer but not processed it yet.
            _ if *step < 3 => {
                *step += 1;
                let messages = json!([question, message_json("user", "blue")]);
                task("INPUT_REQUIRED", messages, json!([file("a-1")]))
            }
            _ => task(
                "COMPLETED",
                json!([
                    question,
                    message_json("user", "blue"),
                    message_json("agent", "blue it is")
                ]),
                json!([file("a-1"), file("a-2")]),
            ),
        }
    });
    let agent = peer.agent(RemoteDialect::Acp);
    let (outcome, output) = run(&agent, user_turn("ask")).await;
    let Ok(TurnOutcome::InputRequired(question)) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(question.text(), "Which?");
    assert_eq!(output.artifacts.lock().unwrap().len(), 1);
    let history = vec![
        Message::user_text("ask"),
        question,
        Message::user_text("the"),
    ];
    let next = turn("t-1", Message::user_text("blue"), history);
    let (outcome, output) = run(&agent, next.clone()).await;
    assert_eq!(text(&outcome), "blue it is");
    let ids: Vec<String> = (output.artifacts.lock().unwrap().iter())
        .map(|artifact| artifact.artifact_id().to_string())
        .collect();
    assert_eq!(ids, ["a-2"], "earlier artifacts are not relayed again");
    assert_eq!(peer.count("tasks.create"), 1);
    let sends = peer.methods().iter().position(|name| name == "tasks.send");
    let parts = peer.call(sends.unwrap())["params"]["message"]["parts"].clone();
    assert_eq!(
        parts.as_array().unwrap().len(),
        2,
        "all messages since the question are sent"
    );

    // A second attempt detects that the answer was already sent.
    let again = Turn { attempt: 2, ..next };
    let (outcome, _) = run(&agent, again).await;
    assert_eq!(text(&outcome), "blue it is");
    assert_eq!(peer.count("tasks.send"), 1);
}

#[tokio::test(start_paused = true)]
async fn second_attempt_resumes_the_task_of_the_first() {
    let peer = ScriptedPeer::new(|call| match call["method"].as_str().unwrap() {
        "interzone.tasks.list" => {
            let other = json!({"taskId": "x", "status": "WORKING",
                "createdAt": "2026-01-02T03:04:05Z",
                "metadata": {"interzone": {"hops": 1, "origin": "t-1/2"}}});
            let mut ours = other.clone();
            ours["taskId"] = json!("far-1");
            ours["metadata"]["interzone"]["origin"] = json!("t-1/0");
            Some(json!({"result": {"tasks": [other, ours]}}))
        }
        "tasks.get" => {
            assert_eq!(call["params"]["taskId"], json!("far-1"));
            task(
                "COMPLETED",
                json!([message_json("agent", "done")]),
                json!([]),
            )
        }
        other => panic!("{other} would start the task twice"),
    });
    let again = Turn {
        attempt: 2,
        ..user_turn("hello")
    };
    let (outcome, _) = run(&peer.agent(RemoteDialect::Acp), again).await;
    assert_eq!(text(&outcome), "done");
}

#[tokio::test(start_paused = true)]
async fn cancel_is_forwarded_to_the_peer() {
    for dialect in [RemoteDialect::Acp, RemoteDialect::Zone] {
        let peer = ScriptedPeer::new(|call| match call["method"].as_str().unwrap() {
            "tasks.create" => task("SUBMITTED", json!([]), json!([])),
            "tasks.get" => task("WORKING", json!([]), json!([])),
            "execute_task" => Some(json!({"result": {"status": "accepted", "task_id": "far-1"}})),
            "get_task_result" => Some(json!({"result": {"status": "running", "task_id": "far-1"}})),
            "cancel_task" => Some(json!({"result": {"status": "canceled", "task_id": "far-1"}})),
            _ => done(),
        });
        let agent = peer.agent(dialect);
        let turn = user_turn("hello");
        let stop = turn.cancel_token.clone();
        let work = run(&agent, turn);
        tokio::pin!(work);
        assert!(
            tokio::time::timeout(Duration::from_secs(9), &mut work)
                .await
                .is_err()
        );
        stop.cancel();
        let (outcome, _) = work.await;
        assert_eq!(outcome, Err("agent_stopped".to_owned()));
        let last = peer.methods().pop().unwrap();
        assert!(
            ["tasks.cancel", "cancel_task"].contains(&last.as_str()),
            "{last}"
        );
    }
}

#[tokio::test(start_paused = true)]
async fn unresponsive_peer_does_not_delay_cancel() {
    let peer = ScriptedPeer::new(|_| None);
    let agent = peer.agent(RemoteDialect::Acp);
    let turn = user_turn("hello");
    let stop = turn.cancel_token.clone();
    let work = run(&agent, turn);
    tokio::pin!(work);
    assert!(
        tokio::time::timeout(Duration::from_secs(1), &mut work)
            .await
            .is_err()
    );
    stop.cancel();
    let canceled_at = Instant::now();
    let (outcome, _) = work.await;
    assert_eq!(outcome, Err("agent_stopped".to_owned()));
    assert!(
        canceled_at.elapsed() < Duration::from_secs(7),
        "{:?}",
        canceled_at.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn peer_errors_map_to_error_codes() {
    for dialect in [RemoteDialect::Acp, RemoteDialect::Zone] {
        let client = Client::builder("https://peer.test").transport(Arc::new(UnreachablePeer));
        let client = client.retry(RetryPolicy::never()).build().unwrap();
        let agent = RemoteAgent::new(RemoteOptions {
            dialect,
            ..RemoteOptions::new(AgentId::new("far").unwrap(), client)
        });
        let (outcome, _) = run(&agent, user_turn("hello")).await;
        assert_eq!(outcome, Err("agent_unavailable".to_owned()));
    }
    let peer = ScriptedPeer::new(|_| {
        let data = json!({"error_code": "file_too_large"});
        Some(json!({"error": {"code": -32000, "message": "The file is too large.", "data": data}}))
    });
    let (outcome, _) = run(&peer.agent(RemoteDialect::Zone), user_turn("hello")).await;
    let Ok(TurnOutcome::Failed(failure)) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(failure.text(), "The file is too large.");
    assert_eq!(failure_code(&failure).as_deref(), Some("file_too_large"));

    let peer = ScriptedPeer::new(|_| {
        Some(json!({"error": {"code": -32602, "message": "channel is missing"}}))
    });
    let (outcome, _) = run(&peer.agent(RemoteDialect::Acp), user_turn("hello")).await;
    assert_eq!(outcome, Err("agent_failed".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn zone_call_id_is_stable_across_attempts() {
    let peer = ScriptedPeer::new(|_| {
        Some(json!({"result": {"status": "success", "task_id": "far-1", "response_text": "hi"}}))
    });
    let agent = peer.agent(RemoteDialect::Zone);
    run(&agent, user_turn("hello")).await.0.unwrap();
    let again = Turn {
        attempt: 2,
        ..user_turn("hello")
    };
    run(&agent, again.clone()).await.0.unwrap();
    assert_eq!(peer.call(0), peer.call(1));
    assert_eq!(peer.call(0)["params"]["bot_token"], json!("not-held"));
    let later = turn(
        "t-1",
        Message::user_text("hello"),
        vec![Message::user_text("x")],
    );
    run(&agent, later).await.0.unwrap();
    assert_ne!(peer.call(0)["id"], peer.call(2)["id"]);

    // A call that an earlier attempt canceled is made again with another id.
    let first = peer.call(0)["id"].clone();
    let peer = ScriptedPeer::new(move |call| {
        Some(if call["id"] == first {
            json!({"error": {"code": -32000, "message": "no", "data": {"error_code": "canceled"}}})
        } else {
            json!({"result": {"status": "success", "response_text": "hi"}})
        })
    });
    let (outcome, _) = run(&peer.agent(RemoteDialect::Zone), again).await;
    assert_eq!(text(&outcome), "hi");
    assert_eq!(peer.methods().len(), 2);
}

#[tokio::test]
async fn hop_limit_rejects_the_task() {
    let peer = ScriptedPeer::new(|call| panic!("{call}"));
    for member in ["interzone", "zone"] {
        let mut turn = user_turn("hello");
        let metadata = VerbatimJson::from_value(&json!({member: {"hops": MAX_HOPS}})).unwrap();
        turn.task.metadata = Some(Metadata::new(metadata).unwrap());
        let (outcome, _) = run(&peer.agent(RemoteDialect::Acp), turn).await;
        let Ok(TurnOutcome::Rejected(Some(rejection))) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(failure_code(&rejection).as_deref(), Some("agent_rejected"));
    }
}
