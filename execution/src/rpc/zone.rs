//! The `zone` dialect: its methods, handlers, errors, and conversion between its objects and the hub's.

mod convert;
pub(super) mod errors;
mod handlers;
mod outcome;
mod params;
mod reply_files;
mod stream;
mod waiter;

pub(super) use convert::loggable_id;
pub(crate) use convert::task_person;

use super::body::SplicedText;
use super::context::{CallContext, CallParams, EarlyParams};
use super::dialect::{Dialect, DialectMethod, MethodInfo};
use super::errors::{AuthUrls, CallError, WireError};
use super::reply::{CallReply, CallResult};
use async_trait::async_trait;
use interzone_jsonrpc::{RawJson, Request, ResponseWriter};
use interzone_protocol::acp::AgentCard;
use interzone_protocol::zone::{
    CancelResult, ExecuteResult, ExecuteTaskParams, FeedbackResult, Method, TaskResult,
};
use serde::Serialize;

/// The zone dialect.
pub(crate) struct ZoneDialect;

impl Dialect for ZoneDialect {
    fn methods(&self) -> Vec<&'static dyn DialectMethod> {
        static METHODS: [Method; Method::ALL.len()] = Method::ALL;
        let methods = METHODS.iter();
        methods.map(|method| method as &dyn DialectMethod).collect()
    }

    fn error(&self, error: &CallError, urls: AuthUrls<'_>) -> WireError {
        errors::map_error(error, urls)
    }
}

/// Params of `execute_task` that were parsed early. Their error is reported in the normal order of checks.
type EarlyExecuteParams = Result<ExecuteTaskParams, CallError>;

#[async_trait]
impl DialectMethod for Method {
    fn info(&self) -> MethodInfo {
        MethodInfo {
            name: self.name(),
            scopes: self.scopes(),
            is_blocking: *self == Self::ExecuteTask,
            is_unordered: match self {
                Self::ExecuteTask | Self::GetTaskResult | Self::GetAgentCard => true,
                Self::CancelTask | Self::Feedback => false,
            },
            always_streams: false,
            log_message: Some("zone call"),
        }
    }

    fn parse_early(&self, raw: Option<&RawJson<'_>>) -> Option<EarlyParams> {
        let early: EarlyExecuteParams = match self {
            Self::ExecuteTask => params::execute_task(raw),
            Self::GetTaskResult | Self::CancelTask | Self::GetAgentCard | Self::Feedback => {
                return None;
            }
        };
        Some(Box::new(early))
    }

    async fn call(
        &self,
        cx: &CallContext<'_>,
        CallParams { raw, early }: CallParams<'_>,
    ) -> Result<CallReply, CallError> {
        match self {
            Method::ExecuteTask => {
                let early = early.and_then(|early| early.downcast::<EarlyExecuteParams>().ok());
                let params = match early {
                    Some(early) => *early,
                    None => params::execute_task(raw),
                };
                handlers::execute_task(cx, params?).await
            }
            Method::GetTaskResult => handlers::get_task_result(cx, params::task_id(raw)?).await,
            Method::CancelTask => handlers::cancel_task(cx, params::task_id(raw)?).await,
            Method::GetAgentCard => handlers::get_agent_card(cx),
            Method::Feedback => handlers::feedback(cx, params::feedback(raw)?).await,
        }
    }

    fn error(&self, error: &CallError, urls: AuthUrls<'_>) -> WireError {
        errors::map_error(error, urls)
    }
}

/// Reply of a zone call.
struct ZoneReply {
    result: ZoneResult,
    /// Texts that are spliced in when the body is sent.
    spliced: Vec<SplicedText>,
}

#[derive(Serialize)]
#[serde(untagged)]
enum ZoneResult {
    Execute(Box<ExecuteResult>),
    Task(Box<TaskResult>),
    Cancel(CancelResult),
    Feedback(FeedbackResult),
    Card(Box<AgentCard>),
}

impl ZoneReply {
    fn new(result: ZoneResult) -> Self {
        Self {
            result,
            spliced: Vec::new(),
        }
    }
}

impl CallResult for ZoneReply {
    fn write_to(
        &self,
        writer: &mut ResponseWriter,
        request: &Request<'_>,
    ) -> Result<(), serde_json::Error> {
        writer.result(request, &self.result)
    }

    fn spliced(&self) -> &[SplicedText] {
        &self.spliced
    }
}
