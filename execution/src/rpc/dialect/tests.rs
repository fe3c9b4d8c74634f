//! Tests of the dialect boundary, with a toy dialect that is added here and nowhere else.

use super::*;
use crate::http::router;
use crate::notifications::Format;
use crate::rpc::body::ResponseBody;
use crate::rpc::errors::InvalidParams;
use crate::rpc::params::read;
use crate::rpc::reply::{CallStream, StreamMessage, StreamOutcome, UnsendableMessage};
use crate::state::{ExecutionOptions, ExecutionState, OperatorInfo};
use axum::Extension;
use axum::body::{Body, to_bytes};
use axum::http::{HeaderValue, Request, StatusCode};
use futures_util::{SinkExt, StreamExt};
use hyper_util::rt::{TokioExecutor, TokioIo};
use hyper_util::service::TowerToHyperService;
use interzone_edge::audit::Audit;
use interzone_edge::auth::{AuthOptions, Authenticator, Identity, KeyConfig};
use interzone_edge::budget::ShareKey;
use interzone_edge::clock::Clock;
use interzone_edge::egress::{Egress, EgressOptions};
use interzone_edge::limits::HttpLimits;
use interzone_edge::listener::{ConnectionHandle, Peer};
use interzone_edge::rate_limiter::RateLimiter;
use interzone_edge::telemetry::Metrics;
use interzone_edge::tls::{TrustRoots, install_provider};
use interzone_hub::{
    Caller, Event, EventBody, Hub, Limits, NewStream, RandomIds, Registry, Subject, SystemClock,
};
use interzone_jsonrpc::{ErrorCode, RequestId, Response};
use interzone_protocol::acp::codes::{AUTHENTICATION_FAILED, INSUFFICIENT_SCOPE, RATE_LIMITED};
use interzone_protocol::vocab::{PrincipalId, StreamId, StreamState};
use interzone_protocol::zone::ErrorReason;
use interzone_store::sqlite::{SqliteOptions, SqliteStore};
use serde::Deserialize;
use serde_json::{Value, json};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use tokio_tungstenite::tungstenite::Message as Frame;
use tokio_util::sync::CancellationToken;
use tower::ServiceExt;

const TOY_VERSION: HeaderName = HeaderName::from_static("toy-version");
const TOY_LANGUAGE: &str = "toyLanguage";

/// The toy dialect.
struct ToyDialect;

impl Dialect for ToyDialect {
    fn methods(&self) -> Vec<&'static dyn DialectMethod> {
        vec![&ToyMethod::Echo, &ToyMethod::Count]
    }

    fn headers(&self) -> &'static [HeaderName] {
        static HEADERS: [HeaderName; 1] = [TOY_VERSION];
        &HEADERS
    }

    fn query_parameters(&self) -> &'static [&'static str] {
        &[TOY_LANGUAGE]
    }

    fn error(&self, error: &CallError, urls: AuthUrls<'_>) -> WireError {
        ToyMethod::Echo.error(error, urls)
    }
}

#[derive(Clone, Copy, PartialEq)]
enum ToyMethod {
    /// Returns its text with the fields that the dialect declares.
    Echo,
    /// Streams the numbers from 1.
    Count,
}

#[derive(Deserialize)]
struct EchoParams {
    text: String,
}

#[derive(Deserialize)]
struct CountParams {
    to: u64,
}

#[async_trait]
impl DialectMethod for ToyMethod {
    fn info(&self) -> MethodInfo {
        MethodInfo {
            name: match self {
                Self::Echo => "Echo",
                Self::Count => "Count",
            },
            scopes: &[Scope::TasksRead],
            is_blocking: false,
            is_unordered: true,
            always_streams: *self == Self::Count,
            log_message: None,
        }
    }

    async fn call(
        &self,
        cx: &CallContext<'_>,
        params: CallParams<'_>,
    ) -> Result<CallReply, CallError> {
        match self {
            Self::Echo => {
                let EchoParams { text } = read(params.raw)?;
                assert_ne!(text, "panic", "the handler was asked to panic");
                let declared = &cx.meta.declared;
                let version = declared.header(&TOY_VERSION).next();
                Ok(CallReply::json(json!({
                    "text": text,
                    "version": version.and_then(|version| version.to_str().ok()),
                    "language": declared.query_parameter(TOY_LANGUAGE),
                    "path": cx.meta.endpoint.path,
                })))
            }
            Self::Count => {
                let CountParams { to } = read(params.raw)?;
                let id = cx.id.ok_or(CallError::CannotStream)?;
                Ok(CallReply::Stream(Box::new(CountStream {
                    id: id.clone().into_owned(),
                    next: 1,
                    to,
                })))
            }
        }
    }

    fn error(&self, error: &CallError, _: AuthUrls<'_>) -> WireError {
        let ok = StatusCode::OK;
        let wire =
            |code: i32, http, label| WireError::new(ErrorCode::new(code), http, "Toy error", label);
        let own = if *self == Self::Count { 10 } else { 0 };
        match error {
            CallError::Authentication(_) => wire(901 + own, StatusCode::UNAUTHORIZED, "token"),
            CallError::MissingScope { .. } => wire(902 + own, StatusCode::FORBIDDEN, "scope"),
            CallError::RateLimited { .. } => wire(903 + own, StatusCode::TOO_MANY_REQUESTS, "rate"),
            CallError::InvalidParams(InvalidParams { field, .. }) => {
                wire(904 + own, ok, "params").with_data(json!([{"field": field}]))
            }
            CallError::CannotStream => wire(905 + own, ok, "stream"),
            CallError::Internal(label) => wire(906 + own, ok, label),
            _ => wire(907 + own, ok, "other"),
        }
    }

    fn error_framing(&self, meta: &RequestMeta) -> Option<SseFraming> {
        let is_old = meta.declared.header(&TOY_VERSION).next().is_none();
        (*self == Self::Count && is_old).then_some(SseFraming { event: None })
    }
}

struct CountStream {
    id: RequestId<'static>,
    next: u64,
    to: u64,
}

#[async_trait]
impl CallStream for CountStream {
    fn framing(&self) -> SseFraming {
        SseFraming { event: None }
    }

    async fn next(&mut self, _: &ExecutionState) -> Option<StreamMessage> {
        let number = self.next;
        self.next += 1;
        let result = RawJson::from_value(&number).ok()?;
        let mut json = Vec::new();
        Response::success(self.id.borrowed(), result).write_to(&mut json);
        (number <= self.to).then(|| StreamMessage {
            body: ResponseBody::new(json, Vec::new()),
            id: Some(number),
            outcome: (number == self.to).then_some(StreamOutcome {
                label: "ok",
                code: None,
            }),
        })
    }

    fn interrupt(&mut self) -> Option<StreamMessage> {
        None
    }

    fn replace_unsendable(&mut self, _: bool) -> UnsendableMessage {
        UnsendableMessage::End
    }
}

/// A zone that serves the toy dialect in addition to the others. Its callers have an identity without a token.
struct ToyZone {
    state: Arc<ExecutionState>,
    router: axum::Router,
    _folder: tempfile::TempDir,
}

/// Caller of a request.
#[derive(Clone, Copy)]
enum ToyCaller {
    WithoutToken,
    WithScopes(&'static [&'static str]),
}

impl ToyCaller {
    fn peer(self) -> Arc<Peer> {
        let platform_identity = match self {
            Self::WithoutToken => None,
            Self::WithScopes(scopes) => Some(Arc::new(Identity::new(
                "anna",
                "laptop",
                scopes.iter().copied(),
                u64::MAX,
            ))),
        };
        Arc::new(Peer {
            address: SocketAddr::from((Ipv4Addr::LOCALHOST, 7)),
            certificate: None,
            platform_identity,
            connection: ConnectionHandle::default(),
        })
    }
}

const READER: ToyCaller = ToyCaller::WithScopes(&["acp:agent:identify", "acp:tasks:read"]);

impl ToyZone {
    async fn new(calls_per_minute: u32) -> Self {
        install_provider();
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("zone.db");
        let store = SqliteStore::open(&path, SqliteOptions::default()).await;
        let hub = Hub::new(
            Arc::new(store.unwrap()),
            Arc::new(SystemClock),
            Arc::new(RandomIds),
            Registry::default(),
            Limits::default(),
        );
        let url = "https://zone.test";
        let auth = Authenticator::new(AuthOptions {
            issuer: url.to_owned(),
            audience: vec![url.to_owned()],
            keys: KeyConfig::Jwks("https://issuer.test/jwks".to_owned()),
            introspection: None,
            leeway: AuthOptions::DEFAULT_LEEWAY,
            trust: TrustRoots::system(),
            clock: Clock::system(),
        });
        let metrics = Arc::new(Metrics::new());
        let options = ExecutionOptions {
            hub,
            auth: Arc::new(auth.unwrap()),
            issuer: None,
            issuer_url: url.to_owned(),
            token_url: format!("{url}/oauth2/token"),
            egress: Egress::new(&EgressOptions::default()).unwrap(),
            limits: HttpLimits::default(),
            rate: RateLimiter::new(calls_per_minute, calls_per_minute),
            audit: Audit::to_log(std::io::sink(), metrics.clone()).unwrap(),
            request_log: None,
            metrics,
            metrics_public: false,
            public_url: url.parse().unwrap(),
            always_200: false,
            batch_limit: 100,
            sync_budget: ExecutionOptions::SYNC_BUDGET,
            files: Arc::default(),
            operator: OperatorInfo::default(),
            checks: Vec::new(),
            stop: CancellationToken::new(),
        };
        let dialects = [DIALECTS, &[&ToyDialect]].concat();
        let state = ExecutionState::with_dialects(options, &acp::AcpDialect, &dialects);
        Self {
            router: router(Arc::clone(&state)),
            state,
            _folder: folder,
        }
    }

    /// Sends a body; returns the status, the media type and the body of the response.
    async fn send(
        &self,
        caller: ToyCaller,
        (uri, version): (&str, Option<&'static str>),
        body: String,
    ) -> (StatusCode, String, String) {
        let mut request = Request::post(uri)
            .header("content-type", "application/json")
            .header("user-agent", "a client")
            .body(Body::from(body))
            .unwrap();
        if let Some(version) = version {
            let version = HeaderValue::from_static(version);
            request.headers_mut().insert(TOY_VERSION, version);
        }
        request.extensions_mut().insert(caller.peer());
        let Ok(response) = self.router.clone().oneshot(request).await;
        let media_type = response.headers()["content-type"].to_str().unwrap();
        let (status, media_type) = (response.status(), media_type.to_owned());
        let body = to_bytes(response.into_body(), usize::MAX).await.unwrap();
        (status, media_type, String::from_utf8(body.into()).unwrap())
    }

    /// Calls a method; returns the status and the JSON body of the response.
    async fn call(&self, caller: ToyCaller, method: &str, params: Value) -> (u16, Value) {
        let target = ("/jsonrpc", Some("1"));
        let (status, _, body) = self.send(caller, target, call(method, params)).await;
        (status.as_u16(), serde_json::from_str(&body).unwrap())
    }

    /// Calls a method; returns the status and error code of the response.
    async fn call_error(&self, caller: ToyCaller, method: &str, params: Value) -> (u16, i32) {
        let (status, answer) = self.call(caller, method, params).await;
        let code = answer["error"]["code"].as_i64().unwrap();
        (status, i32::try_from(code).unwrap())
    }
}

fn call(method: &str, params: Value) -> String {
    json!({"jsonrpc": "2.0", "id": 7, "method": method, "params": params}).to_string()
}

#[test]
fn dialects_have_no_method_name_in_common() {
    let methods: Vec<_> = DIALECTS
        .iter()
        .flat_map(|dialect| dialect.methods())
        .collect();
    let registry = MethodRegistry::new(&acp::AcpDialect, DIALECTS);
    assert_eq!(registry.methods.len(), methods.len());
}

#[tokio::test]
async fn added_dialect_reads_declared_fields_of_the_request() {
    let zone = ToyZone::new(0).await;
    let target = ("/jsonrpc?other=1&toyLanguage=ja", Some("2"));
    let body = call("Echo", json!({"text": "a"}));
    let (status, _, body) = zone.send(READER, target, body).await;
    assert_eq!(status, StatusCode::OK);
    assert_eq!(
        body,
        r#"{"jsonrpc":"2.0","id":7,"result":{"language":"ja","path":"/jsonrpc","text":"a","version":"2"}}"#
    );
}

#[tokio::test]
async fn streaming_method_sends_events_in_its_own_framing() {
    let zone = ToyZone::new(0).await;
    let body = call("Count", json!({"to": 2}));
    let (status, media_type, body) = zone.send(READER, ("/jsonrpc", None), body).await;
    assert_eq!(
        (status, &*media_type),
        (StatusCode::OK, "text/event-stream")
    );
    assert_eq!(
        body,
        "id: 1\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":1}\n\n\
         id: 2\ndata: {\"jsonrpc\":\"2.0\",\"id\":7,\"result\":2}\n\n"
    );
}

#[tokio::test]
async fn failed_streaming_call_is_sent_as_the_dialect_chooses() {
    let zone = ToyZone::new(0).await;
    let body = || call("Count", json!({}));
    let error = r#"{"jsonrpc":"2.0","id":7,"error":{"code":914,"message":"Toy error","data":[{"field":"params.to"}]}}"#;
    let (_, media_type, json) = zone.send(READER, ("/jsonrpc", Some("1")), body()).await;
    assert_eq!((&*media_type, &*json), ("application/json", error));
    let (_, media_type, events) = zone.send(READER, ("/jsonrpc", None), body()).await;
    assert_eq!(media_type, "text/event-stream");
    assert_eq!(events, format!("data: {error}\n\n"));
}

#[tokio::test]
async fn socket_sends_each_message_of_a_stream_as_a_frame() {
    let zone = ToyZone::new(0).await;
    let anna = Caller::new(PrincipalId::new("anna").unwrap());
    let stream = zone.state.hub.start_stream(&anna, NewStream::default());
    let url = format!("ws://zone.test/streams/{}", stream.await.unwrap().id);
    let watcher =
        ToyCaller::WithScopes(&["acp:agent:identify", "acp:streams:read", "acp:tasks:read"]);
    let router = zone.router.clone().layer(Extension(watcher.peer()));
    let (server_end, client_end) = tokio::io::duplex(64 * 1024);
    tokio::spawn(async move {
        let server = hyper_util::server::conn::auto::Builder::new(TokioExecutor::new());
        let service = TowerToHyperService::new(router);
        let io = TokioIo::new(server_end);
        // Any way the client ends the connection is fine.
        let _ = server.serve_connection_with_upgrades(io, service).await;
    });
    let opened = tokio_tungstenite::client_async(url, client_end).await;
    let (mut socket, _) = opened.unwrap();
    let frame = Frame::text(call("Count", json!({"to": 3})));
    socket.send(frame).await.unwrap();
    let mut results = Vec::new();
    while results.len() < 3 {
        let frame = socket.next().await.unwrap().unwrap();
        let message: Value = serde_json::from_str(frame.to_text().unwrap()).unwrap();
        // The socket also sends the events of its stream.
        if message["id"] == 7 {
            results.push(message["result"].clone());
        }
    }
    assert_eq!(results, [1, 2, 3]);
}

#[tokio::test]
async fn batch_refuses_streaming_method_and_serves_the_others() {
    let zone = ToyZone::new(0).await;
    let body = format!(
        "[{},{},{}]",
        call("Count", json!({"to": 2})),
        call("Echo", json!({"text": "a"})),
        call("tasks.get", json!({})),
    );
    let (status, _, body) = zone.send(READER, ("/jsonrpc", None), body).await;
    assert_eq!(status, StatusCode::OK);
    let answers: Value = serde_json::from_str(&body).unwrap();
    assert_eq!(answers[0]["error"]["code"], 915);
    assert_eq!(answers[1]["result"]["text"], "a");
    let code = ErrorCode::INVALID_PARAMS.get();
    assert_eq!(answers[2]["error"]["code"], code);
}

#[tokio::test]
async fn every_error_of_a_call_has_the_code_of_its_dialect_and_method() {
    let zone = ToyZone::new(0).await;
    let anyone = ToyCaller::WithoutToken;
    let without_scopes = ToyCaller::WithScopes(&[]);
    for (caller, method, params, expected) in [
        (anyone, "Echo", json!({}), (401, 901)),
        (anyone, "Count", json!({}), (401, 911)),
        (without_scopes, "Echo", json!({}), (403, 902)),
        (without_scopes, "Count", json!({}), (403, 912)),
        (READER, "Echo", json!({}), (200, 904)),
        (READER, "Echo", json!({"text": "panic"}), (200, 906)),
        // The other dialects keep their codes.
        (
            anyone,
            "tasks.get",
            json!({}),
            (401, AUTHENTICATION_FAILED.get()),
        ),
        (
            anyone,
            "execute_task",
            json!({}),
            (401, AUTHENTICATION_FAILED.get()),
        ),
        (
            without_scopes,
            "tasks.get",
            json!({}),
            (403, INSUFFICIENT_SCOPE.get()),
        ),
        (
            READER,
            "no.such",
            json!({}),
            (200, ErrorCode::METHOD_NOT_FOUND.get()),
        ),
    ] {
        let found = zone.call_error(caller, method, params.clone()).await;
        assert_eq!(found, expected, "{method} {params}");
    }
}

#[tokio::test]
async fn rendered_events_are_cached_per_format() {
    let zone = ToyZone::new(0).await;
    let state = &zone.state;
    let event = Event {
        subject: Subject::Stream(StreamId::new("s-1").unwrap()),
        seq: 3,
        at: state.hub.now(),
        body: EventBody::StreamState {
            from: Some(StreamState::Active),
            to: StreamState::Closed,
            reason: None,
        },
        generation: None,
    };
    let render = async |format| {
        let cache = &state.render_cache;
        let (hub, limits) = (&state.hub, &state.limits);
        let share = ShareKey::Unattributed;
        let rendered = cache.get_or_render(format, hub, &event, limits, &share);
        rendered.await.unwrap().sse
    };
    let (acp, toy) = (render(Format::Acp).await, render(Format::Toy).await);
    assert!(acp.starts_with(b"id: 3\nevent: interzone.stream.state\n"));
    assert_eq!(
        toy,
        "id: 3\nevent: toy\ndata: {\"jsonrpc\":\"2.0\",\"method\":\"toy\",\"params\":[3]}\n\n"
    );
    assert_eq!(render(Format::Acp).await.as_ptr(), acp.as_ptr());
}

#[tokio::test]
async fn rate_limit_has_the_code_of_the_called_dialect() {
    let zone = ToyZone::new(1).await;
    let (status, _) = zone.call(READER, "Echo", json!({"text": "a"})).await;
    assert_eq!(status, 200);
    for (method, expected) in [
        ("Echo", (429, 903)),
        ("Count", (429, 913)),
        ("tasks.get", (429, RATE_LIMITED.get())),
        ("execute_task", (200, ErrorReason::RateLimited.code().get())),
    ] {
        let found = zone.call_error(READER, method, json!({})).await;
        assert_eq!(found, expected, "{method}");
    }
}
