//! Context of one call: caller, metadata for audit and metrics, and the reply.

use super::early_params::EarlyParams;
use super::errors::CallError;
use super::method::AnyMethod;
use super::{AuthenticatedCaller, RequestMeta, acp, zone};
use crate::memory::MemoryAccount;
use crate::state::ExecutionState;
use interzone_edge::request_context::CorrelationId;
use interzone_hub::{Caller, Hub};
use interzone_jsonrpc::RequestId;
use interzone_protocol::Dialect;
use interzone_protocol::acp::{MethodResult, RequestList, Scope, TaskList};
use serde::Serialize;
use std::sync::{Mutex, OnceLock, PoisonError};

/// Context of one call.
pub(crate) struct CallContext<'z> {
    pub(crate) zone: &'z ExecutionState,
    pub(crate) caller: &'z Caller,
    pub(super) authenticated: &'z AuthenticatedCaller,
    pub(super) meta: &'z RequestMeta,
    /// JSON-RPC id of the call.
    pub(super) id: Option<&'z RequestId<'z>>,
    pub(super) method: OnceLock<AnyMethod>,
    pub(super) subject: OnceLock<Box<str>>,
    pub(super) correlation: OnceLock<CorrelationId>,
    /// Params that were parsed early.
    early_params: Mutex<Option<EarlyParams>>,
    /// Memory account for content that is read and for the response.
    pub(crate) memory: MemoryAccount,
}

impl<'z> CallContext<'z> {
    pub(super) fn new(
        zone: &'z ExecutionState,
        authenticated: &'z AuthenticatedCaller,
        meta: &'z RequestMeta,
        id: Option<&'z RequestId<'z>>,
        early_params: Option<EarlyParams>,
    ) -> Self {
        Self {
            zone,
            caller: &authenticated.hub_caller,
            authenticated,
            meta,
            id,
            method: OnceLock::new(),
            subject: OnceLock::new(),
            correlation: OnceLock::new(),
            early_params: Mutex::new(early_params),
            memory: MemoryAccount::new(&zone.limits.response_memory, authenticated.share()),
        }
    }

    /// Takes the params if they were parsed early.
    pub(super) fn take_early_params(&self) -> Option<EarlyParams> {
        let mut params = self
            .early_params
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        params.take()
    }

    pub(crate) fn hub(&self) -> &Hub {
        &self.zone.hub
    }

    /// Records the method.
    pub(super) fn set_method(&self, method: AnyMethod) {
        let _ = self.method.set(method);
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

    /// Returns the dialect of error responses.
    pub(super) fn dialect(&self) -> Dialect {
        self.method
            .get()
            .map_or(Dialect::Acp, |method| method.dialect())
    }

    pub(super) fn require_scopes(&self, scopes: &[Scope]) -> Result<(), CallError> {
        self.authenticated
            .require_scopes(self.zone, scopes)
            .map_err(CallError::Wire)
    }
}

/// Result of a call.
#[derive(Serialize)]
#[serde(untagged)]
pub(crate) enum CallReply {
    Acp(MethodResult),
    List(TaskList),
    Requests(RequestList),
    Task(acp::handlers::TaskReply),
    Zone(zone::ZoneReply),
    /// A streaming call, which is not serialized here.
    #[serde(skip)]
    Stream(Box<zone::ExecuteStream>),
}
