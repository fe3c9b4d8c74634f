//! Test doubles: a scriptable HTTP server that records requests, in-memory records, and a manual clock.

use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, Uri};
use interzone_hub::Clock;
use interzone_hub::ports::{RecordStore, StoreError, StoredRecord};
use interzone_protocol::vocab::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

/// A recorded request.
#[derive(Clone, Debug)]
pub(crate) struct RecordedRequest {
    pub(crate) http_method: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl RecordedRequest {
    /// Returns the last path segment: the API method.
    pub(crate) fn method(&self) -> &str {
        self.uri.path().rsplit('/').next().unwrap()
    }

    pub(crate) fn form(&self) -> BTreeMap<String, String> {
        url::form_urlencoded::parse(&self.body)
            .into_owned()
            .collect()
    }

    pub(crate) fn header(&self, name: &str) -> Option<&str> {
        self.headers.get(name).map(|value| value.to_str().unwrap())
    }
}

/// A scripted reply.
pub(crate) enum FakeReply {
    /// JSON with status 200.
    Json(Value),
    /// Any response.
    Response(Response),
    /// Delayed until it is released.
    Delayed(Box<FakeReply>, Arc<Notify>),
    /// No response.
    NoResponse,
}

impl FakeReply {
    pub(crate) fn status(status: u16, headers: &[(&str, &str)], body: impl Into<Body>) -> Self {
        let mut builder = Response::builder().status(StatusCode::from_u16(status).unwrap());
        for (name, value) in headers {
            builder = builder.header(*name, *value);
        }
        Self::Response(builder.body(body.into()).unwrap())
    }

    pub(crate) fn error(code: &str) -> Self {
        Self::Json(serde_json::json!({"ok": false, "error": code}))
    }
}

type ReplyFn = dyn Fn(&RecordedRequest) -> FakeReply + Send + Sync;

struct FakeSlackInner {
    reply_fn: Box<ReplyFn>,
    requests: Mutex<Vec<RecordedRequest>>,
    request_count: watch::Sender<usize>,
}

/// HTTP server with scripted replies.
pub(crate) struct FakeSlack {
    pub(crate) origin: String,
    inner: Arc<FakeSlackInner>,
    server: JoinHandle<()>,
}

impl FakeSlack {
    pub(crate) async fn start(
        reply_fn: impl Fn(&RecordedRequest) -> FakeReply + Send + Sync + 'static,
    ) -> Self {
        let inner = Arc::new(FakeSlackInner {
            reply_fn: Box::new(reply_fn),
            requests: Mutex::default(),
            request_count: watch::Sender::new(0),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let routes = Router::new()
            .fallback(handle)
            .with_state(Arc::clone(&inner));
        let server = tokio::spawn(async move {
            axum::serve(listener, routes).await.unwrap();
        });
        Self {
            origin,
            inner,
            server,
        }
    }

    pub(crate) fn api(&self) -> String {
        format!("{}/api/", self.origin)
    }

    pub(crate) fn requests(&self) -> Vec<RecordedRequest> {
        self.inner.requests.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, method: &str) -> usize {
        let requests = self.inner.requests.lock().unwrap();
        requests
            .iter()
            .filter(|request| request.method() == method)
            .count()
    }

    /// Waits until this many requests were received.
    pub(crate) async fn wait_for_requests(&self, requests: usize) {
        let mut count = self.inner.request_count.subscribe();
        count.wait_for(|count| *count >= requests).await.unwrap();
    }
}

impl Drop for FakeSlack {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn handle(State(inner): State<Arc<FakeSlackInner>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let recorded = RecordedRequest {
        http_method: parts.method,
        uri: parts.uri,
        headers: parts.headers,
        body: to_bytes(body, 64 << 20).await.unwrap(),
    };
    let reply = (inner.reply_fn)(&recorded);
    inner.requests.lock().unwrap().push(recorded);
    inner.request_count.send_modify(|count| *count += 1);
    let reply = match reply {
        FakeReply::Delayed(reply, release) => {
            release.notified().await;
            *reply
        }
        immediate => immediate,
    };
    match reply {
        FakeReply::Json(value) => Response::builder()
            .header("content-type", "application/json")
            .body(value.to_string().into())
            .unwrap(),
        FakeReply::Response(response) => response,
        FakeReply::Delayed(..) | FakeReply::NoResponse => std::future::pending().await,
    }
}

/// In-memory record store.
#[derive(Default)]
pub(crate) struct MemoryRecords {
    all: Mutex<BTreeMap<(String, String), StoredRecord>>,
    revision: Mutex<u64>,
    /// While true, writes fail.
    pub(crate) writes_fail: AtomicBool,
    /// Number of next writes that fail.
    pub(crate) failing_writes: AtomicUsize,
    /// Number of records written or removed.
    pub(crate) change_count: watch::Sender<usize>,
    /// While true, reads block.
    pub(crate) reads_blocked: watch::Sender<bool>,
}

impl MemoryRecords {
    pub(crate) fn value(&self, kind: &str, key: &str) -> Option<String> {
        let all = self.all.lock().unwrap();
        let record = all.get(&(kind.to_owned(), key.to_owned()));
        record.map(|record| record.value.to_string())
    }

    /// Keys and values of all records.
    pub(crate) fn all(&self) -> Vec<(String, String)> {
        let all = self.all.lock().unwrap();
        let one = |((_, key), record): (&(String, String), &StoredRecord)| {
            (key.clone(), record.value.to_string())
        };
        all.iter().map(one).collect()
    }

    pub(crate) fn remove(&self, kind: &str, key: &str) {
        let name = (kind.to_owned(), key.to_owned());
        self.all.lock().unwrap().remove(&name);
    }
}

#[async_trait]
impl RecordStore for MemoryRecords {
    async fn record(
        &self,
        kind: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<StoredRecord>, StoreError> {
        let mut closed = self.reads_blocked.subscribe();
        closed.wait_for(|closed| !closed).await.unwrap();
        let all = self.all.lock().unwrap();
        let record = all.get(&(kind.to_owned(), key.to_owned())).cloned();
        Ok(record.filter(|record| record.expires_at.is_none_or(|end| end > now)))
    }

    async fn records(
        &self,
        kind: &str,
        now: Timestamp,
    ) -> Result<Vec<(String, StoredRecord)>, StoreError> {
        let all = self.all.lock().unwrap();
        let is_alive = |record: &StoredRecord| record.expires_at.is_none_or(|end| end > now);
        let found = all
            .iter()
            .filter(|((record_kind, _), record)| record_kind == kind && is_alive(record));
        Ok(found
            .map(|((_, key), record)| (key.clone(), record.clone()))
            .collect())
    }

    async fn put_record(
        &self,
        kind: &str,
        key: &str,
        value: &str,
        expected: Option<u64>,
        expires_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        StoredRecord::check_sizes(kind, key, value)?;
        let decrement = |remaining: usize| remaining.checked_sub(1);
        let fails = self
            .failing_writes
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, decrement);
        if fails.is_ok() || self.writes_fail.load(Ordering::SeqCst) {
            return Err(StoreError::Full);
        }
        let existing = self.record(kind, key, now).await?;
        let revision = existing.map_or(0, |record| record.revision);
        if expected.is_some_and(|expected| expected != revision) {
            return Ok(false);
        }
        let mut next = self.revision.lock().unwrap();
        *next += 1;
        let record = StoredRecord {
            value: value.into(),
            revision: *next,
            expires_at,
        };
        let name = (kind.to_owned(), key.to_owned());
        self.all.lock().unwrap().insert(name, record);
        self.change_count.send_modify(|changes| *changes += 1);
        Ok(true)
    }

    async fn take_record(
        &self,
        kind: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<StoredRecord>, StoreError> {
        let existing = self.record(kind, key, now).await?;
        let name = (kind.to_owned(), key.to_owned());
        self.all.lock().unwrap().remove(&name);
        self.change_count.send_modify(|changes| *changes += 1);
        Ok(existing)
    }
}

/// A clock that is advanced by hand.
pub(crate) struct ManualSlackClock(AtomicI64);

impl ManualSlackClock {
    pub(crate) fn from_secs(seconds: i64) -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(seconds * 1000)))
    }

    pub(crate) fn advance(&self, by: Duration) {
        let by = i64::try_from(by.as_millis()).unwrap();
        self.0.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for ManualSlackClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}
