//! Stand-ins for tests: a server on this machine that answers as it is told and remembers what it was
//! asked, records in memory, and a clock that stands still.

use async_trait::async_trait;
use axum::Router;
use axum::body::{Body, to_bytes};
use axum::extract::{Request, State};
use axum::response::Response;
use bytes::Bytes;
use http::{HeaderMap, Method, StatusCode, Uri};
use interzone_hub::Clock;
use interzone_hub::ports::{Record, RecordStore, StoreError};
use interzone_protocol::vocab::Timestamp;
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, AtomicI64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::Duration;
use tokio::net::TcpListener;
use tokio::sync::{Notify, watch};
use tokio::task::JoinHandle;

/// A request that came.
#[derive(Clone, Debug)]
pub(crate) struct Seen {
    pub(crate) verb: Method,
    pub(crate) uri: Uri,
    pub(crate) headers: HeaderMap,
    pub(crate) body: Bytes,
}

impl Seen {
    /// The last word of its path: a method of the API.
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

/// What is answered.
pub(crate) enum Reply {
    /// JSON with status 200.
    Json(Value),
    /// Anything.
    Whole(Response),
    /// This, once it is let go.
    Held(Box<Reply>, Arc<Notify>),
    /// Nothing, ever.
    Never,
}

impl Reply {
    pub(crate) fn status(status: u16, headers: &[(&str, &str)], body: impl Into<Body>) -> Self {
        let mut answer = Response::builder().status(StatusCode::from_u16(status).unwrap());
        for (name, value) in headers {
            answer = answer.header(*name, *value);
        }
        Self::Whole(answer.body(body.into()).unwrap())
    }

    pub(crate) fn said(word: &str) -> Self {
        Self::Json(serde_json::json!({"ok": false, "error": word}))
    }
}

type Answers = dyn Fn(&Seen) -> Reply + Send + Sync;

struct Inner {
    answers: Box<Answers>,
    seen: Mutex<Vec<Seen>>,
    count: watch::Sender<usize>,
}

/// A server that answers as it is told.
pub(crate) struct FakeSlack {
    pub(crate) origin: String,
    inner: Arc<Inner>,
    serving: JoinHandle<()>,
}

impl FakeSlack {
    pub(crate) async fn start(answers: impl Fn(&Seen) -> Reply + Send + Sync + 'static) -> Self {
        let inner = Arc::new(Inner {
            answers: Box::new(answers),
            seen: Mutex::default(),
            count: watch::Sender::new(0),
        });
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let origin = format!("http://{}", listener.local_addr().unwrap());
        let routes = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&inner));
        let serving = tokio::spawn(async move {
            axum::serve(listener, routes).await.unwrap();
        });
        Self {
            origin,
            inner,
            serving,
        }
    }

    pub(crate) fn api(&self) -> String {
        format!("{}/api/", self.origin)
    }

    pub(crate) fn seen(&self) -> Vec<Seen> {
        self.inner.seen.lock().unwrap().clone()
    }

    pub(crate) fn count(&self, method: &str) -> usize {
        let seen = self.inner.seen.lock().unwrap();
        seen.iter().filter(|seen| seen.method() == method).count()
    }

    /// Waits until so many requests have come.
    pub(crate) async fn until(&self, requests: usize) {
        let mut count = self.inner.count.subscribe();
        count.wait_for(|count| *count >= requests).await.unwrap();
    }
}

impl Drop for FakeSlack {
    fn drop(&mut self) {
        self.serving.abort();
    }
}

async fn answer(State(inner): State<Arc<Inner>>, request: Request) -> Response {
    let (parts, body) = request.into_parts();
    let seen = Seen {
        verb: parts.method,
        uri: parts.uri,
        headers: parts.headers,
        body: to_bytes(body, 64 << 20).await.unwrap(),
    };
    let reply = (inner.answers)(&seen);
    inner.seen.lock().unwrap().push(seen);
    inner.count.send_modify(|count| *count += 1);
    let reply = match reply {
        Reply::Held(reply, go) => {
            go.notified().await;
            *reply
        }
        at_once => at_once,
    };
    match reply {
        Reply::Json(value) => Response::builder()
            .header("content-type", "application/json")
            .body(value.to_string().into())
            .unwrap(),
        Reply::Whole(response) => response,
        Reply::Held(..) | Reply::Never => std::future::pending().await,
    }
}

/// Records in memory.
#[derive(Default)]
pub(crate) struct MemoryRecords {
    all: Mutex<BTreeMap<(String, String), Record>>,
    revision: Mutex<u64>,
    /// While it is set, nothing can be written.
    pub(crate) full: AtomicBool,
    /// So many of the next writes fail.
    pub(crate) failing: AtomicUsize,
    /// How many records were written or removed.
    pub(crate) changes: watch::Sender<usize>,
    /// While it is set, nobody gets to read.
    pub(crate) closed: watch::Sender<bool>,
}

impl MemoryRecords {
    pub(crate) fn raw(&self, kind: &str, key: &str) -> Option<String> {
        let all = self.all.lock().unwrap();
        let record = all.get(&(kind.to_owned(), key.to_owned()));
        record.map(|record| record.value.to_string())
    }

    /// Keys and values of all.
    pub(crate) fn all(&self) -> Vec<(String, String)> {
        let all = self.all.lock().unwrap();
        let one = |((_, key), record): (&(String, String), &Record)| {
            (key.clone(), record.value.to_string())
        };
        all.iter().map(one).collect()
    }

    pub(crate) fn forget(&self, kind: &str, key: &str) {
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
    ) -> Result<Option<Record>, StoreError> {
        let mut closed = self.closed.subscribe();
        closed.wait_for(|closed| !closed).await.unwrap();
        let all = self.all.lock().unwrap();
        let record = all.get(&(kind.to_owned(), key.to_owned())).cloned();
        Ok(record.filter(|record| record.expires_at.is_none_or(|end| end > now)))
    }

    async fn records(
        &self,
        kind: &str,
        now: Timestamp,
    ) -> Result<Vec<(String, Record)>, StoreError> {
        let all = self.all.lock().unwrap();
        let lives = |record: &Record| record.expires_at.is_none_or(|end| end > now);
        let some = all
            .iter()
            .filter(|((of, _), record)| of == kind && lives(record));
        Ok(some
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
        Record::check(kind, key, value)?;
        let one_less = |left: usize| left.checked_sub(1);
        let fails = self
            .failing
            .fetch_update(Ordering::SeqCst, Ordering::SeqCst, one_less);
        if fails.is_ok() || self.full.load(Ordering::SeqCst) {
            return Err(StoreError::Full);
        }
        let there = self.record(kind, key, now).await?;
        let revision = there.map_or(0, |record| record.revision);
        if expected.is_some_and(|expected| expected != revision) {
            return Ok(false);
        }
        let mut next = self.revision.lock().unwrap();
        *next += 1;
        let record = Record {
            value: value.into(),
            revision: *next,
            expires_at,
        };
        let name = (kind.to_owned(), key.to_owned());
        self.all.lock().unwrap().insert(name, record);
        self.changes.send_modify(|changes| *changes += 1);
        Ok(true)
    }

    async fn take_record(
        &self,
        kind: &str,
        key: &str,
        now: Timestamp,
    ) -> Result<Option<Record>, StoreError> {
        let there = self.record(kind, key, now).await?;
        let name = (kind.to_owned(), key.to_owned());
        self.all.lock().unwrap().remove(&name);
        self.changes.send_modify(|changes| *changes += 1);
        Ok(there)
    }
}

/// A clock that moves when it is told to.
pub(crate) struct HandClock(AtomicI64);

impl HandClock {
    pub(crate) fn at(seconds: i64) -> Arc<Self> {
        Arc::new(Self(AtomicI64::new(seconds * 1000)))
    }

    pub(crate) fn advance(&self, by: Duration) {
        let by = i64::try_from(by.as_millis()).unwrap();
        self.0.fetch_add(by, Ordering::SeqCst);
    }
}

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp::from_millis(self.0.load(Ordering::SeqCst))
    }
}
