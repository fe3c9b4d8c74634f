//! The boundary between the call path and the dialects. A dialect implements [`Dialect`] once and [`DialectMethod`]
//! for the enum of its methods; [`DIALECTS`] lists all that `POST /jsonrpc` serves. No other code on the call path
//! names a dialect.

use super::context::{CallContext, CallParams, EarlyParams, RequestMeta};
use super::errors::{AuthUrls, CallError, WireError};
use super::reply::{CallReply, SseFraming};
use super::{a2a, acp, zone};
use async_trait::async_trait;
use axum::http::HeaderName;
use interzone_jsonrpc::{Batches, ErrorCode, ErrorObject, Policy, PolicyResolver, RawJson};
use interzone_protocol::Scope;
use interzone_protocol::SharedEndpointPolicy;
use std::collections::HashMap;

/// The dialects of `POST /jsonrpc`.
pub(crate) const DIALECTS: &[&dyn Dialect] =
    &[&acp::AcpDialect, &zone::ZoneDialect, &a2a::A2aDialect];

/// Endpoints that serve one dialect only, by path.
pub(crate) const OWN_ENDPOINTS: &[(&str, &dyn Dialect)] = &[("/a2a", &a2a::A2aDialect)];

/// A dialect: its methods, and what it needs of a request.
pub(crate) trait Dialect: Sync {
    /// All of its methods.
    fn methods(&self) -> Vec<&'static dyn DialectMethod>;

    /// Request headers that its methods read.
    fn headers(&self) -> &'static [HeaderName] {
        &[]
    }

    /// Query parameters that its methods read.
    fn query_parameters(&self) -> &'static [&'static str] {
        &[]
    }

    /// How strictly the envelope is checked on an endpoint that serves only this dialect.
    fn envelope_policy(&self) -> Policy {
        SharedEndpointPolicy.default_policy()
    }

    /// Error object for a message that is no valid request, on an endpoint that serves only this dialect. `None` for
    /// that of the shared endpoint.
    fn invalid_message(&self, code: ErrorCode) -> Option<ErrorObject<'static>> {
        let _ = code;
        None
    }

    /// Maps an error of a request that has no known method.
    fn error(&self, error: &CallError, urls: AuthUrls<'_>) -> WireError;
}

/// A method of a dialect.
#[async_trait]
pub(crate) trait DialectMethod: Sync {
    /// Describes the method.
    fn info(&self) -> MethodInfo;

    /// Parses the params of a large request, so that its body can be freed while the call waits. `None` if the
    /// method keeps the body.
    fn parse_early(&self, params: Option<&RawJson<'_>>) -> Option<EarlyParams> {
        let _ = params;
        None
    }

    /// Performs a call. Rate limit and scopes were checked.
    async fn call(
        &self,
        cx: &CallContext<'_>,
        params: CallParams<'_>,
    ) -> Result<CallReply, CallError>;

    /// Maps an error of a call of this method, including those of the checks before [`Self::call`].
    fn error(&self, error: &CallError, urls: AuthUrls<'_>) -> WireError;

    /// Framing of an error with HTTP status 200 as a server-sent event, for clients that accept no JSON from a
    /// method that streams. `None` if the error is sent as JSON.
    fn error_framing(&self, meta: &RequestMeta) -> Option<SseFraming> {
        let _ = meta;
        None
    }
}

/// Description of a method.
#[derive(Clone, Copy, Debug)]
pub(crate) struct MethodInfo {
    /// Name on the wire.
    pub(crate) name: &'static str,
    /// Scopes that a token must have, all of them.
    pub(crate) scopes: &'static [Scope],
    /// True if a call may wait for a result. Within a batch, such calls wait concurrently.
    pub(crate) is_blocking: bool,
    /// True if calls may be reordered within a batch. Calls that change what another call may have created keep
    /// their order.
    pub(crate) is_unordered: bool,
    /// True if every reply is a stream, so that a batch cannot contain a call.
    pub(crate) always_streams: bool,
    /// Message of the log line that each call writes when there is no audit log, if it writes one.
    pub(crate) log_message: Option<&'static str>,
}

/// A method as resolved from its name.
#[derive(Clone, Copy)]
pub(crate) struct ResolvedMethod {
    pub(crate) info: MethodInfo,
    pub(crate) handler: &'static dyn DialectMethod,
}

/// The methods of an endpoint, by name.
pub(crate) struct MethodRegistry {
    methods: HashMap<&'static str, ResolvedMethod>,
    /// Answers requests whose method is unknown.
    default_dialect: &'static dyn Dialect,
    /// True if only the default dialect is served.
    is_own: bool,
    headers: Vec<HeaderName>,
    query_parameters: Vec<&'static str>,
}

impl MethodRegistry {
    /// Creates the registry of an endpoint. Dialects on one endpoint have no method name in common; of two equal
    /// names the first counts.
    pub(crate) fn new(
        default_dialect: &'static dyn Dialect,
        dialects: &[&'static dyn Dialect],
    ) -> Self {
        let mut methods = HashMap::new();
        for handler in dialects.iter().flat_map(|dialect| dialect.methods()) {
            let info = handler.info();
            methods
                .entry(info.name)
                .or_insert(ResolvedMethod { info, handler });
        }
        let headers = dialects.iter().flat_map(|dialect| dialect.headers());
        let parameters = dialects
            .iter()
            .flat_map(|dialect| dialect.query_parameters());
        Self {
            methods,
            default_dialect,
            is_own: false,
            headers: headers.cloned().collect(),
            query_parameters: parameters.copied().collect(),
        }
    }

    /// Creates the registry of an endpoint that serves only this dialect.
    pub(crate) fn own(dialect: &'static dyn Dialect) -> Self {
        Self {
            is_own: true,
            ..Self::new(dialect, &[dialect])
        }
    }

    /// True if the endpoint serves only one dialect.
    pub(crate) fn is_own(&self) -> bool {
        self.is_own
    }

    /// Envelope policy of the endpoint, with the configured batch limit.
    pub(super) fn policy(&self, batch_limit: usize) -> ConfiguredEndpointPolicy {
        ConfiguredEndpointPolicy {
            batch_limit,
            own: self.is_own.then(|| self.default_dialect.envelope_policy()),
        }
    }

    /// Error object for a message that is no valid request, if the dialect of the endpoint has its own.
    pub(super) fn invalid_message(&self, code: ErrorCode) -> Option<ErrorObject<'static>> {
        let dialect = self.is_own.then_some(self.default_dialect)?;
        dialect.invalid_message(code)
    }

    /// Returns the method with this name.
    pub(crate) fn resolve(&self, name: &str) -> Option<ResolvedMethod> {
        self.methods.get(name).copied()
    }

    /// Maps an error of a call by its method; `None` if the method is unknown.
    pub(crate) fn error(
        &self,
        method: Option<ResolvedMethod>,
        error: &CallError,
        urls: AuthUrls<'_>,
    ) -> WireError {
        match method {
            Some(method) => method.handler.error(error, urls),
            None => self.default_dialect.error(error, urls),
        }
    }

    /// Request headers that a dialect of this endpoint reads.
    pub(crate) fn headers(&self) -> &[HeaderName] {
        &self.headers
    }

    /// Query parameters that a dialect of this endpoint reads.
    pub(crate) fn query_parameters(&self) -> &[&'static str] {
        &self.query_parameters
    }
}

/// Parse policy of an endpoint with the configured batch limit. How strictly an envelope is checked on the shared one
/// depends on its dialect, which the prefix of the name tells even if there is no such method.
pub(super) struct ConfiguredEndpointPolicy {
    batch_limit: usize,
    /// Policy of the only dialect, if there is only one.
    own: Option<Policy>,
}

impl PolicyResolver for ConfiguredEndpointPolicy {
    fn default_policy(&self) -> Policy {
        Policy {
            batches: Batches::UpTo(self.batch_limit),
            ..self.own.unwrap_or(SharedEndpointPolicy.default_policy())
        }
    }

    fn for_method(&self, method: &str) -> Policy {
        self.own
            .unwrap_or_else(|| SharedEndpointPolicy.for_method(method))
    }
}

#[cfg(test)]
mod tests;
