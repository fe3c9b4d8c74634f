//! Scripted peer: a transport that follows the test's script and records its requests.

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::{StreamExt, stream};
use interzone_client::{ByteStream, Client, ClientBuilder, Transport, TransportError};
use serde_json::{Value, json};
use std::collections::VecDeque;
use std::io;
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::time::Instant;

/// Recorded request.
#[derive(Clone, Debug)]
pub(crate) struct RecordedRequest {
    pub(crate) verb: String,
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) received_at: Instant,
}

impl RecordedRequest {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// Field of a form body.
    pub(crate) fn form(&self, name: &str) -> Option<String> {
        let mut pairs = url::form_urlencoded::parse(&self.body);
        let found = pairs.find(|(field, _)| field == name);
        found.map(|(_, value)| value.into_owned())
    }

    /// Response to this request with a result.
    pub(crate) fn result(&self, result: Value) -> PeerAction {
        let id = self.json()["id"].clone();
        PeerAction::json(200, &json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }

    /// Response to this request with an error.
    pub(crate) fn error(&self, status: u16, code: i64, data: Value) -> PeerAction {
        let id = self.json()["id"].clone();
        let error = json!({"code": code, "message": "no", "data": data});
        PeerAction::json(status, &json!({"jsonrpc": "2.0", "id": id, "error": error}))
    }
}

/// Action of the peer on one request.
#[derive(Clone, Debug)]
pub(crate) enum PeerAction {
    Reply {
        status: u16,
        headers: Vec<(&'static str, String)>,
        body: Vec<BodyPart>,
    },
    /// The connection is refused.
    NotConnected,
    /// The connection breaks before the response.
    Broken,
    /// No response arrives.
    Hang,
    /// The response is delayed.
    Delayed(Duration, Box<PeerAction>),
}

/// Part of a response body.
#[derive(Clone, Debug)]
pub(crate) enum BodyPart {
    Text(String),
    /// The connection breaks.
    Break,
    /// A pause of this length.
    Pause(Duration),
    /// No further data arrives.
    Stall,
}

impl PeerAction {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::text(status, "application/json", &body.to_string())
    }

    pub(crate) fn text(status: u16, kind: &str, body: &str) -> Self {
        Self::Reply {
            status,
            headers: vec![("content-type", kind.to_owned())],
            body: vec![BodyPart::Text(body.to_owned())],
        }
    }

    pub(crate) fn status(status: u16) -> Self {
        Self::Reply {
            status,
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    pub(crate) fn events(body: Vec<BodyPart>) -> Self {
        Self::Reply {
            status: 200,
            headers: vec![("content-type", "text/event-stream".to_owned())],
            body,
        }
    }

    pub(crate) fn with_header(mut self, name: &'static str, value: &str) -> Self {
        if let Self::Reply { headers, .. } = &mut self {
            headers.push((name, value.to_owned()));
        }
        self
    }
}

type ScriptFn = Box<dyn Fn(&RecordedRequest) -> PeerAction + Send + Sync>;

/// Scripted peer.
#[derive(Clone)]
pub(crate) struct ScriptedPeer {
    script: Arc<ScriptFn>,
    requests: Arc<Mutex<Vec<RecordedRequest>>>,
}

impl ScriptedPeer {
    pub(crate) fn new(
        play: impl Fn(&RecordedRequest) -> PeerAction + Send + Sync + 'static,
    ) -> Self {
        Self {
            script: Arc::new(Box::new(play)),
            requests: Arc::default(),
        }
    }

    /// Peer that performs one step after another, and repeats the last.
    pub(crate) fn steps(steps: Vec<PeerAction>) -> Self {
        let left = Mutex::new(VecDeque::from(steps));
        Self::new(move |_| {
            let mut left = left.lock().unwrap();
            let next = left.front().cloned().unwrap();
            if left.len() > 1 {
                left.pop_front();
            }
            next
        })
    }

    pub(crate) fn builder(&self) -> ClientBuilder {
        Client::builder("https://agent.test").transport(Arc::new(self.clone()))
    }

    pub(crate) fn client(&self) -> Client {
        self.builder().build().unwrap()
    }

    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.requests.lock().unwrap().clone()
    }

    /// Recorded requests to a path.
    pub(crate) fn requests_to(&self, path: &str) -> Vec<RecordedRequest> {
        let mut requests = self.requests();
        requests.retain(|request| request.path == path);
        requests
    }
}

#[async_trait]
impl Transport for ScriptedPeer {
    async fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> Result<http::Response<ByteStream>, TransportError> {
        let uri = request.uri();
        let request = RecordedRequest {
            verb: request.method().to_string(),
            host: uri.authority().unwrap().to_string(),
            path: uri.path_and_query().unwrap().to_string(),
            headers: request.headers().clone(),
            body: request.body().clone(),
            received_at: Instant::now(),
        };
        self.requests.lock().unwrap().push(request.clone());
        let mut step = (self.script)(&request);
        loop {
            match step {
                PeerAction::Delayed(wait, then) => {
                    let_time_pass(wait).await;
                    step = *then;
                }
                PeerAction::NotConnected => {
                    return Err(TransportError::not_connected(io::Error::other("refused")));
                }
                PeerAction::Broken => return Err(TransportError::broken(io::Error::other("cut"))),
                PeerAction::Hang => std::future::pending().await,
                PeerAction::Reply {
                    status,
                    headers,
                    body,
                } => {
                    let mut answer = http::Response::builder().status(status);
                    for (name, value) in headers {
                        answer = answer.header(name, value);
                    }
                    return Ok(answer.body(body_stream(body)).unwrap());
                }
            }
        }
    }
}

/// Lets time pass; with a paused clock it advances at once.
async fn let_time_pass(wait: Duration) {
    let _ = tokio::time::timeout(wait, std::future::pending::<()>()).await;
}

fn body_stream(body: Vec<BodyPart>) -> ByteStream {
    stream::iter(body)
        .filter_map(|piece| async {
            match piece {
                BodyPart::Text(text) => Some(Ok(Bytes::from(text))),
                BodyPart::Break => Some(Err(io::Error::other("cut").into())),
                BodyPart::Pause(wait) => {
                    let_time_pass(wait).await;
                    None
                }
                BodyPart::Stall => std::future::pending().await,
            }
        })
        .boxed()
}

/// Task object as a peer sends it.
pub(crate) fn task(id: &str, status: &str) -> Value {
    json!({"taskId": id, "status": status, "createdAt": "2026-01-02T03:04:05Z"})
}

/// Result with that task.
pub(crate) fn task_result(id: &str) -> Value {
    json!({"type": "task", "task": task(id, "WORKING")})
}
