//! The remote agent against peers that do as a test says. Against real zones it is tested end to end.

use super::{MOST_HOPS, RemoteAgent, RemoteDialect, RemoteOptions};
use crate::agents::tests::{Kept, turn};
use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use interzone_client::{ByteStream, Client, RetryPolicy, Transport, TransportError};
use interzone_hub::{Agent, Outcome, Turn, failure_word};
use interzone_protocol::vocab::{AgentId, Json, Message, Metadata};
use serde_json::{Value, json};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

type Play = dyn Fn(&Value) -> Option<Value> + Send + Sync;

/// A peer without events: it answers calls with the result that the script gives, hangs where it gives
/// none, and has no other door.
#[derive(Clone)]
struct Peer {
    play: Arc<Play>,
    calls: Arc<Mutex<Vec<(Value, Instant)>>>,
}

impl Peer {
    fn new(play: impl Fn(&Value) -> Option<Value> + Send + Sync + 'static) -> Self {
        Self {
            play: Arc::new(play),
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
impl Transport for Peer {
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
        let Some(mut answer) = (self.play)(&call) else {
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

/// Nobody is there.
struct Nobody;

#[async_trait]
impl Transport for Nobody {
    async fn send(
        &self,
        _: http::Request<Bytes>,
    ) -> Result<http::Response<ByteStream>, TransportError> {
        Err(TransportError::not_connected(std::io::Error::other(
            "nobody",
        )))
    }
}

fn task(status: &str, messages: Value, artifacts: Value) -> Option<Value> {
    let task = json!({"taskId": "far-1", "status": status, "createdAt": "2026-01-02T03:04:05Z",
        "messages": messages, "artifacts": artifacts});
    Some(json!({"result": {"type": "task", "task": task}}))
}

fn said(role: &str, text: &str) -> Value {
    json!({"role": role, "parts": [{"type": "TextPart", "content": text}]})
}

fn file(id: &str) -> Value {
    json!({"artifactId": id, "name": "a.txt", "parts": [{"type": "FilePart", "content": "aGk="}]})
}

fn done() -> Option<Value> {
    Some(json!({"result": {"type": "success", "message": "ok"}}))
}

fn asked(text: &str) -> Turn {
    turn("t-1", Message::user_text(text), Vec::new())
}

async fn run(agent: &RemoteAgent, turn: Turn) -> (Result<Outcome, String>, Arc<Kept>) {
    let kept = Arc::new(Kept::default());
    let outcome = agent.run(turn, kept.clone()).await;
    (outcome.map_err(|error| error.code.to_owned()), kept)
}

fn text(outcome: &Result<Outcome, String>) -> String {
    match outcome {
        Ok(Outcome::Completed { message, .. }) => message.as_ref().unwrap().text(),
        other => panic!("{other:?}"),
    }
}

#[tokio::test(start_paused = true)]
async fn a_peer_that_cannot_be_watched_is_asked_again() {
    let asked_so_often = Mutex::new(0);
    let peer = Peer::new(move |call| match call["method"].as_str().unwrap() {
        "tasks.create" => task("SUBMITTED", json!([]), json!([])),
        _ => {
            let mut often = asked_so_often.lock().unwrap();
            *often += 1;
            match *often {
                1..=3 => task("WORKING", json!([]), json!([])),
                _ => task(
                    "COMPLETED",
                    json!([said("user", "hello"), said("agent", "done")]),
                    json!([file("a-1")]),
                ),
            }
        }
    });
    let (outcome, kept) = run(&peer.agent(RemoteDialect::Acp), asked("hello")).await;
    assert_eq!(text(&outcome), "done");
    assert!(matches!(
        outcome,
        Ok(Outcome::Completed { direct: false, .. })
    ));
    assert_eq!(kept.artifacts.lock().unwrap().len(), 1);
    let created = peer.call(0);
    assert_eq!(created["params"]["assignTo"], json!("worker"));
    assert_eq!(
        created["params"]["initialMessage"]["parts"][0]["content"],
        json!("hello")
    );
    let passed = &created["params"]["metadata"]["interzone"];
    assert_eq!(
        (&passed["hops"], &passed["origin"]),
        (&json!(1), &json!("t-1/0"))
    );
    let calls = peer.calls.lock().unwrap();
    let at: Vec<Instant> = calls.iter().map(|(_, at)| *at).collect();
    let waits: Vec<u128> = at
        .windows(2)
        .map(|two| (two[1] - two[0]).as_millis())
        .collect();
    for (wait, due) in waits.iter().zip([0, 2000, 3000, 4500]) {
        assert!(wait.abs_diff(due) <= 5, "{waits:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn an_answer_continues_the_peers_task() {
    let step = Mutex::new(0);
    let peer = Peer::new(move |call| {
        let mut step = step.lock().unwrap();
        let question = said("agent", "Which?");
        match call["method"].as_str().unwrap() {
            "tasks.create" => task("SUBMITTED", json!([]), json!([])),
            "tasks.send" => {
                *step = 1;
                done()
            }
            _ if *step == 0 => task("INPUT_REQUIRED", json!([question]), json!([file("a-1")])),
            // It has the answer and has not come to it yet.
            _ if *step < 3 => {
                *step += 1;
                let messages = json!([question, said("user", "blue")]);
                task("INPUT_REQUIRED", messages, json!([file("a-1")]))
            }
            _ => task(
                "COMPLETED",
                json!([question, said("user", "blue"), said("agent", "blue it is")]),
                json!([file("a-1"), file("a-2")]),
            ),
        }
    });
    let agent = peer.agent(RemoteDialect::Acp);
    let (outcome, kept) = run(&agent, asked("ask")).await;
    let Ok(Outcome::InputRequired(question)) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(question.text(), "Which?");
    assert_eq!(kept.artifacts.lock().unwrap().len(), 1);
    let history = vec![
        Message::user_text("ask"),
        question,
        Message::user_text("the"),
    ];
    let next = turn("t-1", Message::user_text("blue"), history);
    let (outcome, kept) = run(&agent, next.clone()).await;
    assert_eq!(text(&outcome), "blue it is");
    let ids: Vec<String> = (kept.artifacts.lock().unwrap().iter())
        .map(|artifact| artifact.artifact_id().to_string())
        .collect();
    assert_eq!(
        ids,
        ["a-2"],
        "what was passed on before is not passed on again"
    );
    assert_eq!(peer.count("tasks.create"), 1);
    let sends = peer.methods().iter().position(|name| name == "tasks.send");
    let parts = peer.call(sends.unwrap())["params"]["message"]["parts"].clone();
    assert_eq!(
        parts.as_array().unwrap().len(),
        2,
        "all that was said since the question"
    );

    // A second attempt sees that the peer was told.
    let again = Turn { attempt: 2, ..next };
    let (outcome, _) = run(&agent, again).await;
    assert_eq!(text(&outcome), "blue it is");
    assert_eq!(peer.count("tasks.send"), 1);
}

#[tokio::test(start_paused = true)]
async fn a_second_attempt_finds_what_the_first_began() {
    let peer = Peer::new(|call| match call["method"].as_str().unwrap() {
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
            task("COMPLETED", json!([said("agent", "done")]), json!([]))
        }
        other => panic!("{other} would do it twice"),
    });
    let again = Turn {
        attempt: 2,
        ..asked("hello")
    };
    let (outcome, _) = run(&peer.agent(RemoteDialect::Acp), again).await;
    assert_eq!(text(&outcome), "done");
}

#[tokio::test(start_paused = true)]
async fn whoever_is_told_to_stop_tells_the_peer() {
    for dialect in [RemoteDialect::Acp, RemoteDialect::Zone] {
        let peer = Peer::new(|call| match call["method"].as_str().unwrap() {
            "tasks.create" => task("SUBMITTED", json!([]), json!([])),
            "tasks.get" => task("WORKING", json!([]), json!([])),
            "execute_task" => Some(json!({"result": {"status": "accepted", "task_id": "far-1"}})),
            "get_task_result" => Some(json!({"result": {"status": "running", "task_id": "far-1"}})),
            "cancel_task" => Some(json!({"result": {"status": "canceled", "task_id": "far-1"}})),
            _ => done(),
        });
        let agent = peer.agent(dialect);
        let turn = asked("hello");
        let stop = turn.stop.clone();
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
async fn a_peer_that_does_not_answer_holds_up_no_stop() {
    let peer = Peer::new(|_| None);
    let agent = peer.agent(RemoteDialect::Acp);
    let turn = asked("hello");
    let stop = turn.stop.clone();
    let work = run(&agent, turn);
    tokio::pin!(work);
    assert!(
        tokio::time::timeout(Duration::from_secs(1), &mut work)
            .await
            .is_err()
    );
    stop.cancel();
    let began = Instant::now();
    let (outcome, _) = work.await;
    assert_eq!(outcome, Err("agent_stopped".to_owned()));
    assert!(
        began.elapsed() < Duration::from_secs(7),
        "{:?}",
        began.elapsed()
    );
}

#[tokio::test(start_paused = true)]
async fn what_goes_wrong_has_a_word() {
    for dialect in [RemoteDialect::Acp, RemoteDialect::Zone] {
        let client = Client::builder("https://peer.test").transport(Arc::new(Nobody));
        let client = client.retry(RetryPolicy::never()).build().unwrap();
        let agent = RemoteAgent::new(RemoteOptions {
            dialect,
            ..RemoteOptions::new(AgentId::new("far").unwrap(), client)
        });
        let (outcome, _) = run(&agent, asked("hello")).await;
        assert_eq!(outcome, Err("agent_unavailable".to_owned()));
    }
    let peer = Peer::new(|_| {
        let data = json!({"error_code": "file_too_large"});
        Some(json!({"error": {"code": -32000, "message": "The file is too large.", "data": data}}))
    });
    let (outcome, _) = run(&peer.agent(RemoteDialect::Zone), asked("hello")).await;
    let Ok(Outcome::Failed(said)) = outcome else {
        panic!("{outcome:?}");
    };
    assert_eq!(said.text(), "The file is too large.");
    assert_eq!(failure_word(&said).as_deref(), Some("file_too_large"));

    let peer =
        Peer::new(|_| Some(json!({"error": {"code": -32602, "message": "channel is missing"}})));
    let (outcome, _) = run(&peer.agent(RemoteDialect::Acp), asked("hello")).await;
    assert_eq!(outcome, Err("agent_failed".to_owned()));
}

#[tokio::test(start_paused = true)]
async fn a_call_is_the_same_each_time_its_turn_is_begun() {
    let peer = Peer::new(|_| {
        Some(json!({"result": {"status": "success", "task_id": "far-1", "response_text": "hi"}}))
    });
    let agent = peer.agent(RemoteDialect::Zone);
    run(&agent, asked("hello")).await.0.unwrap();
    let again = Turn {
        attempt: 2,
        ..asked("hello")
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

    // One that an earlier attempt called off is begun anew.
    let first = peer.call(0)["id"].clone();
    let peer = Peer::new(move |call| {
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
async fn what_was_passed_on_too_often_stays() {
    let peer = Peer::new(|call| panic!("{call}"));
    for member in ["interzone", "zone"] {
        let mut turn = asked("hello");
        let metadata = Json::of(&json!({member: {"hops": MOST_HOPS}})).unwrap();
        turn.task.metadata = Some(Metadata::new(metadata).unwrap());
        let (outcome, _) = run(&peer.agent(RemoteDialect::Acp), turn).await;
        let Ok(Outcome::Rejected(Some(said))) = outcome else {
            panic!("{outcome:?}");
        };
        assert_eq!(failure_word(&said).as_deref(), Some("agent_rejected"));
    }
}
