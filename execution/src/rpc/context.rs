//! Context of one call: the request it came with, its caller, and what it records for audit and metrics.

use super::AuthenticatedCaller;
use super::dialect::{MethodRegistry, ResolvedMethod};
use crate::memory::{MemoryAccount, ReservationDeadline};
use crate::state::ExecutionState;
use axum::http::{HeaderMap, HeaderName, HeaderValue, Uri};
use interzone_edge::listener::Peer;
use interzone_edge::request_context::{CorrelationId, TraceParent};
use interzone_hub::{Caller, Hub, Route};
use interzone_jsonrpc::{RawJson, RequestId};
use interzone_protocol::vocab::AgentId;
use std::any::Any;
use std::sync::{Arc, OnceLock};
use tokio::time::Instant;

/// Metadata of a request, shared by all of its calls.
#[derive(Clone)]
pub(crate) struct RequestMeta {
    pub(crate) correlation: CorrelationId,
    pub(crate) peer: Option<Arc<Peer>>,
    /// Time of arrival.
    pub(crate) received_at: Instant,
    /// True if the client accepts server-sent events.
    pub(crate) accepts_sse: bool,
    /// True if a reply may be a stream: not within a batch.
    pub(crate) can_stream: bool,
    /// Trace context of the caller, if any.
    pub(crate) trace: Option<TraceParent>,
    /// Endpoint that received it.
    pub(crate) endpoint: Endpoint,
    /// Deadline up to which its calls may wait for response memory.
    pub(crate) memory_deadline: ReservationDeadline,
    /// Headers and query parameters that dialects declare.
    pub(crate) declared: DeclaredFields,
}

impl RequestMeta {
    /// Deadline up to which its calls may wait for a result, shared by all of them.
    pub(super) fn sync_deadline(&self, zone: &ExecutionState) -> Instant {
        self.received_at + zone.sync_budget
    }

    /// Returns a copy for calls whose replies cannot be streams.
    pub(super) fn without_streams(&self) -> Self {
        Self {
            accepts_sse: false,
            can_stream: false,
            ..self.clone()
        }
    }
}

/// Endpoint that received a request.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    /// Its path, without the prefix of an agent.
    pub(crate) path: &'static str,
    /// Agent of the path prefix `/agents/{id}`.
    pub(crate) agent: Option<AgentId>,
}

impl Endpoint {
    /// Endpoint at this path, without the prefix of an agent.
    pub(crate) const fn new(path: &'static str) -> Self {
        Self { path, agent: None }
    }
}

/// Request headers and query parameters that a dialect declares. Others are not kept.
#[derive(Clone, Debug, Default)]
pub(crate) struct DeclaredFields {
    headers: Vec<(HeaderName, HeaderValue)>,
    query: Vec<(&'static str, String)>,
}

impl DeclaredFields {
    /// Collects the fields that the dialects of an endpoint declare. Names of query parameters are compared without
    /// regard to case, as those of headers are.
    pub(crate) fn collect(methods: &MethodRegistry, headers: &HeaderMap, uri: &Uri) -> Self {
        let mut fields = Self::default();
        for name in methods.headers() {
            let values = headers.get_all(name).iter();
            let values = values.map(|value| (name.clone(), value.clone()));
            fields.headers.extend(values);
        }
        let declared = methods.query_parameters();
        if let (false, Some(query)) = (declared.is_empty(), uri.query()) {
            for (name, value) in url::form_urlencoded::parse(query.as_bytes()) {
                let mut declared = declared.iter();
                let declared = declared.find(|declared| declared.eq_ignore_ascii_case(&name));
                let value = declared.map(|declared| (*declared, value.into_owned()));
                fields.query.extend(value);
            }
        }
        fields
    }

    /// Returns the values of a declared header.
    pub(crate) fn header(&self, name: &HeaderName) -> impl Iterator<Item = &HeaderValue> {
        let values = self.headers.iter();
        values.filter_map(move |(header, value)| (header == name).then_some(value))
    }

    /// Returns the first value of a declared query parameter.
    pub(crate) fn query_parameter(&self, name: &str) -> Option<&str> {
        let mut values = self.query.iter();
        let (_, value) = values.find(|(parameter, _)| *parameter == name)?;
        Some(value)
    }
}

/// Params that a method parsed early: a type of its own.
pub(crate) type EarlyParams = Box<dyn Any + Send>;

/// Params of a call.
pub(crate) struct CallParams<'c> {
    /// The params as sent; `None` if absent or parsed early.
    pub(crate) raw: Option<&'c RawJson<'c>>,
    /// The params if they were parsed early.
    pub(crate) early: Option<EarlyParams>,
}

/// Context of one call.
pub(crate) struct CallContext<'z> {
    pub(crate) zone: &'z ExecutionState,
    pub(crate) caller: &'z Caller,
    pub(super) authenticated: &'z AuthenticatedCaller,
    pub(super) meta: &'z RequestMeta,
    /// JSON-RPC id of the call.
    pub(super) id: Option<&'z RequestId<'z>>,
    /// Its method; `None` if there is none with its name.
    pub(super) method: Option<ResolvedMethod>,
    pub(super) subject: OnceLock<Box<str>>,
    pub(super) correlation: OnceLock<CorrelationId>,
    /// Memory account for content that is read and for the response.
    pub(crate) memory: MemoryAccount,
}

impl<'z> CallContext<'z> {
    pub(super) fn new(
        zone: &'z ExecutionState,
        authenticated: &'z AuthenticatedCaller,
        meta: &'z RequestMeta,
        id: Option<&'z RequestId<'z>>,
        method: Option<ResolvedMethod>,
    ) -> Self {
        Self {
            zone,
            caller: &authenticated.hub_caller,
            authenticated,
            meta,
            id,
            method,
            subject: OnceLock::new(),
            correlation: OnceLock::new(),
            memory: MemoryAccount::new(&zone.limits.response_memory, authenticated.share())
                .with_deadline(&meta.memory_deadline),
        }
    }

    /// Route of work for which the call names no agent: to the agent of its endpoint, if that is one agent's.
    pub(crate) fn default_route(&self) -> Route {
        let agent = self.meta.endpoint.agent.as_ref();
        Route {
            tenant: agent.map(ToString::to_string),
            ..Route::default()
        }
    }

    pub(crate) fn hub(&self) -> &Hub {
        &self.zone.hub
    }

    /// Records the task or stream that the call is about.
    pub(crate) fn set_subject(&self, id: &str) {
        let _ = self.subject.set(id.into());
    }

    /// Sets the correlation id that the call specified.
    pub(super) fn set_correlation(&self, correlation: CorrelationId) {
        let _ = self.correlation.set(correlation);
    }

    pub(super) fn correlation(&self) -> &CorrelationId {
        self.correlation.get().unwrap_or(&self.meta.correlation)
    }
}
