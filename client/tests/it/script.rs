//! A peer that does what a test says, and remembers what it was sent.

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

/// A request as it arrived.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) verb: String,
    pub(crate) host: String,
    pub(crate) path: String,
    pub(crate) headers: http::HeaderMap,
    pub(crate) body: Bytes,
    pub(crate) at: Instant,
}

impl Seen {
    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_slice(&self.body).unwrap()
    }

    /// A member of a form.
    pub(crate) fn form(&self, name: &str) -> Option<String> {
        let mut pairs = url::form_urlencoded::parse(&self.body);
        let found = pairs.find(|(known, _)| known == name);
        found.map(|(_, value)| value.into_owned())
    }

    /// The answer to this request with a result.
    pub(crate) fn result(&self, result: Value) -> Step {
        let id = self.json()["id"].clone();
        Step::json(200, &json!({"jsonrpc": "2.0", "id": id, "result": result}))
    }

    /// The answer to this request with an error.
    pub(crate) fn error(&self, status: u16, code: i64, data: Value) -> Step {
        let id = self.json()["id"].clone();
        let error = json!({"code": code, "message": "no", "data": data});
        Step::json(status, &json!({"jsonrpc": "2.0", "id": id, "error": error}))
    }
}

/// What the peer does.
#[derive(Clone, Debug)]
pub(crate) enum Step {
    Reply {
        status: u16,
        headers: Vec<(&'static str, String)>,
        body: Vec<Piece>,
    },
    /// There is nobody.
    NotConnected,
    /// The connection breaks before the answer.
    Broken,
    /// Nothing comes.
    Hang,
    /// The answer takes its time.
    Late(Duration, Box<Step>),
}

/// A piece of a body.
#[derive(Clone, Debug)]
pub(crate) enum Piece {
    Text(String),
    /// The connection breaks.
    Break,
    /// Nothing comes for so long.
    Pause(Duration),
    /// Nothing comes any more.
    Stall,
}

impl Step {
    pub(crate) fn json(status: u16, body: &Value) -> Self {
        Self::text(status, "application/json", &body.to_string())
    }

    pub(crate) fn text(status: u16, kind: &str, body: &str) -> Self {
        Self::Reply {
            status,
            headers: vec![("content-type", kind.to_owned())],
            body: vec![Piece::Text(body.to_owned())],
        }
    }

    pub(crate) fn status(status: u16) -> Self {
        Self::Reply {
            status,
            headers: Vec::new(),
            body: Vec::new(),
        }
    }

    pub(crate) fn events(body: Vec<Piece>) -> Self {
        Self::Reply {
            status: 200,
            headers: vec![("content-type", "text/event-stream".to_owned())],
            body,
        }
    }

    pub(crate) fn with(mut self, name: &'static str, value: &str) -> Self {
        if let Self::Reply { headers, .. } = &mut self {
            headers.push((name, value.to_owned()));
        }
        self
    }
}

type Play = Box<dyn Fn(&Seen) -> Step + Send + Sync>;

/// The peer.
#[derive(Clone)]
pub(crate) struct Script {
    play: Arc<Play>,
    seen: Arc<Mutex<Vec<Seen>>>,
}

impl Script {
    pub(crate) fn new(play: impl Fn(&Seen) -> Step + Send + Sync + 'static) -> Self {
        Self {
            play: Arc::new(Box::new(play)),
            seen: Arc::default(),
        }
    }

    /// A peer that does one thing after another, and the last of them for ever.
    pub(crate) fn steps(steps: Vec<Step>) -> Self {
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

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.seen.lock().unwrap().clone()
    }

    /// The requests to a path.
    pub(crate) fn seen_at(&self, path: &str) -> Vec<Seen> {
        let mut seen = self.seen();
        seen.retain(|request| request.path == path);
        seen
    }
}

#[async_trait]
impl Transport for Script {
    async fn send(
        &self,
        request: http::Request<Bytes>,
    ) -> Result<http::Response<ByteStream>, TransportError> {
        let uri = request.uri();
        let seen = Seen {
            verb: request.method().to_string(),
            host: uri.authority().unwrap().to_string(),
            path: uri.path_and_query().unwrap().to_string(),
            headers: request.headers().clone(),
            body: request.body().clone(),
            at: Instant::now(),
        };
        self.seen.lock().unwrap().push(seen.clone());
        let mut step = (self.play)(&seen);
        loop {
            match step {
                Step::Late(wait, then) => {
                    quiet(wait).await;
                    step = *then;
                }
                Step::NotConnected => {
                    return Err(TransportError::not_connected(io::Error::other("nobody")));
                }
                Step::Broken => return Err(TransportError::broken(io::Error::other("cut"))),
                Step::Hang => std::future::pending().await,
                Step::Reply {
                    status,
                    headers,
                    body,
                } => {
                    let mut answer = http::Response::builder().status(status);
                    for (name, value) in headers {
                        answer = answer.header(name, value);
                    }
                    return Ok(answer.body(pieces(body)).unwrap());
                }
            }
        }
    }
}

/// Lets time go by; a test's clock does that at once.
async fn quiet(wait: Duration) {
    let _ = tokio::time::timeout(wait, std::future::pending::<()>()).await;
}

fn pieces(body: Vec<Piece>) -> ByteStream {
    stream::iter(body)
        .filter_map(|piece| async {
            match piece {
                Piece::Text(text) => Some(Ok(Bytes::from(text))),
                Piece::Break => Some(Err(io::Error::other("cut").into())),
                Piece::Pause(wait) => {
                    quiet(wait).await;
                    None
                }
                Piece::Stall => std::future::pending().await,
            }
        })
        .boxed()
}

/// A task as a peer would send it.
pub(crate) fn task(id: &str, status: &str) -> Value {
    json!({"taskId": id, "status": status, "createdAt": "2026-01-02T03:04:05Z"})
}

/// A result that carries it.
pub(crate) fn task_result(id: &str) -> Value {
    json!({"type": "task", "task": task(id, "WORKING")})
}
