//! A2A, as a client of the Execution Zone sees it: on a real store, with real tokens and workers, and scripted agents.

mod cards;
mod envelope;
mod sending;
mod streams;
mod tasks;

use crate::zone_contract::{ZoneFixture, ZoneSetup, completed_with, demo_agent, scripted_agent};
use bytes::Bytes;
use http::{HeaderMap, Request, StatusCode};
use interzone_hub::TurnOutcome;
use interzone_protocol::vocab::{Artifact, ArtifactId, Message, Part};
use serde_json::{Value, json};
use std::sync::Arc;
use tokio::sync::Semaphore;

/// A zone whose A2A endpoints are called.
struct A2aZone {
    zone: ZoneFixture,
    /// Lets one turn of the agent `gate` end.
    gate: Arc<Semaphore>,
}

impl A2aZone {
    /// Starts a zone with the demo agent, one that answers when the test lets it, and one that makes an artifact.
    async fn new() -> Self {
        let gate = Arc::new(Semaphore::new(0));
        let opened = Arc::clone(&gate);
        let gated = scripted_agent("gate", move |turn, _| {
            let gate = Arc::clone(&opened);
            async move {
                gate.acquire().await.unwrap().forget();
                Ok(TurnOutcome::Completed {
                    message: Some(Message::agent_text(format!("did {}", turn.message.text()))),
                    direct: false,
                })
            }
        });
        let maker = scripted_agent("maker", |_, output| async move {
            let id = ArtifactId::new("report").unwrap();
            let report = Artifact::new(id, "Report").with_part(Part::text("rain"));
            output.artifact(report, false, true).await.unwrap();
            Ok(completed_with("made"))
        });
        let asker = scripted_agent("asker", |turn, output| async move {
            output.status("thinking").await.unwrap();
            let question = Message::agent_text(format!("What is {}?", turn.message.text()));
            Ok(TurnOutcome::InputRequired(question))
        });
        let setup = ZoneSetup {
            agents: vec![demo_agent(), gated, maker, asker],
            ..ZoneSetup::default()
        };
        let zone = ZoneFixture::with_setup(setup).await;
        Self { zone, gate }
    }

    /// Posts a body with these headers.
    async fn post(
        &self,
        token: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: impl Into<Bytes>,
    ) -> (StatusCode, HeaderMap, Value) {
        let mut request = Request::post(path)
            .header("content-type", "application/json")
            .header("authorization", format!("Bearer {token}"));
        for (name, value) in headers {
            if *name == "content-type" {
                request.headers_mut().unwrap().remove("content-type");
            }
            request = request.header(*name, *value);
        }
        let body = http_body_util::Full::new(body.into());
        let (status, headers, body) = self.zone.send(request.body(body).unwrap()).await;
        let body = serde_json::from_str(&body).unwrap_or(Value::String(body));
        (status, headers, body)
    }

    /// Calls a method at `path` and returns the response.
    async fn call_at(&self, token: &str, path: &str, method: &str, params: Value) -> Value {
        let call = json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params});
        let (status, _, body) = self.post(token, path, &[], call.to_string()).await;
        assert_eq!(status, StatusCode::OK, "{body}");
        assert_eq!(body["id"], 7);
        assert!(body.get("result").is_some() != body.get("error").is_some());
        body
    }

    /// Calls a method that succeeds, and returns its result.
    async fn call(&self, token: &str, method: &str, params: Value) -> Value {
        let mut body = self.call_at(token, "/a2a", method, params).await;
        assert_eq!(body["error"], Value::Null);
        body["result"].take()
    }

    /// Calls a method that fails; returns the code and the reason.
    async fn call_error(&self, token: &str, method: &str, params: Value) -> (i64, String) {
        let body = self.call_at(token, "/a2a", method, params).await;
        error_of(&body)
    }

    /// Calls a method that streams, until the stream ends; returns the ids and results of its events.
    async fn stream(
        &self,
        token: &str,
        path: &str,
        method: &str,
        params: Value,
    ) -> Vec<(Option<u64>, Value)> {
        let call = json!({"jsonrpc": "2.0", "id": "s", "method": method, "params": params});
        let (status, headers, body) = self.post(token, path, &[], call.to_string()).await;
        assert_eq!(
            (status, &headers["content-type"]),
            (StatusCode::OK, &"text/event-stream".parse().unwrap()),
            "{body}"
        );
        let events = body.as_str().unwrap().split_terminator("\n\n");
        let events = events.filter(|event| !event.starts_with(':'));
        let parse = |event: &str| {
            let (id, data) = match event.split_once('\n') {
                Some((id, data)) => (Some(id.strip_prefix("id: ").unwrap()), data),
                None => (None, event),
            };
            let data = data.strip_prefix("data: ").unwrap();
            let mut data: Value = serde_json::from_str(data).unwrap();
            assert_eq!(data["id"], "s", "{data}");
            (id.map(|id| id.parse().unwrap()), data["result"].take())
        };
        events.map(parse).collect()
    }

    /// Sends a text to an agent without waiting, and returns the task.
    async fn start(&self, token: &str, agent: &str, text: &str) -> Value {
        let mut params = send_params(text);
        params["tenant"] = json!(agent);
        params["configuration"] = json!({"returnImmediately": true});
        self.call(token, "SendMessage", params).await["task"].take()
    }
}

/// Returns code and reason of an error response, and checks the form of its details.
fn error_of(body: &Value) -> (i64, String) {
    let error = &body["error"];
    let info = &error["data"][0];
    assert_eq!(
        info["@type"], "type.googleapis.com/google.rpc.ErrorInfo",
        "{body}"
    );
    assert_eq!(info["domain"], "a2a-protocol.org");
    let reason = info["reason"].as_str().unwrap().to_owned();
    (error["code"].as_i64().unwrap(), reason)
}

/// Params of a send in 1.0.
fn send_params(text: &str) -> Value {
    json!({"message": {"messageId": "m", "role": "ROLE_USER", "parts": [{"text": text}]}})
}

/// Params of a send in 0.3.
fn send_params_v03(text: &str) -> Value {
    let parts = json!([{"kind": "text", "text": text}]);
    json!({"message": {"kind": "message", "messageId": "m", "role": "user", "parts": parts}})
}

fn refused(code: i64, reason: &str) -> (i64, String) {
    (code, reason.to_owned())
}
