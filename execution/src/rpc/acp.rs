//! The ACP dialect: its methods, handlers, errors, and conversion between its objects and the hub's.

pub(crate) mod convert;
pub(crate) mod errors;
pub(crate) mod handlers;
mod json_object;
mod notifications;

pub(crate) use notifications::AcpRenderer;

use super::context::{CallContext, CallParams};
use super::dialect::{Dialect, DialectMethod, MethodInfo};
use super::errors::{AuthUrls, CallError, WireError};
use super::params::read;
use super::reply::CallReply;
use super::request_log;
use async_trait::async_trait;
use interzone_hub::HubError;
use interzone_protocol::acp::Method;

/// The ACP dialect.
pub(crate) struct AcpDialect;

impl Dialect for AcpDialect {
    fn methods(&self) -> Vec<&'static dyn DialectMethod> {
        static METHODS: [Method; Method::ALL.len()] = Method::ALL;
        let methods = METHODS.iter();
        methods.map(|method| method as &dyn DialectMethod).collect()
    }

    fn error(&self, error: &CallError, urls: AuthUrls<'_>) -> WireError {
        errors::map_error(None, error, urls)
    }
}

#[async_trait]
impl DialectMethod for Method {
    fn info(&self) -> MethodInfo {
        MethodInfo {
            name: self.name(),
            scopes: self.scopes(),
            is_blocking: false,
            is_unordered: match self {
                Self::TasksCreate
                | Self::TasksGet
                | Self::TasksList
                | Self::RequestsFind
                | Self::StreamStart
                | Self::TaskNotification => true,
                Self::TasksSend
                | Self::TasksCancel
                | Self::TasksSubscribe
                | Self::TasksUnsubscribe
                | Self::StreamMessage
                | Self::StreamEnd
                | Self::StreamChunk => false,
            },
            always_streams: false,
            log_message: None,
        }
    }

    async fn call(
        &self,
        cx: &CallContext<'_>,
        params: CallParams<'_>,
    ) -> Result<CallReply, CallError> {
        let raw = params.raw;
        // All but the fastest handler are boxed, so that its future does not have the size of the largest.
        let result = match self {
            Method::TasksCreate => Box::pin(handlers::tasks_create(cx, read(raw)?)).await,
            Method::TasksSend => Box::pin(handlers::tasks_send(cx, read(raw)?)).await,
            Method::TasksGet => handlers::tasks_get(cx, read(raw)?).await,
            Method::TasksCancel => Box::pin(handlers::tasks_cancel(cx, read(raw)?)).await,
            Method::TasksSubscribe => Box::pin(handlers::tasks_subscribe(cx, read(raw)?)).await,
            Method::StreamStart => Box::pin(handlers::stream_start(cx, read(raw)?)).await,
            Method::StreamMessage => Box::pin(handlers::stream_message(cx, read(raw)?)).await,
            Method::StreamEnd => Box::pin(handlers::stream_end(cx, read(raw)?)).await,
            Method::TaskNotification => handlers::task_notification(cx, &read(raw)?),
            Method::StreamChunk => Box::pin(handlers::stream_chunk(cx, read(raw)?)).await,
            Method::TasksList => Box::pin(handlers::tasks_list(cx, read(raw)?)).await,
            Method::TasksUnsubscribe => Box::pin(handlers::tasks_unsubscribe(cx, read(raw)?)).await,
            Method::RequestsFind => Box::pin(request_log::requests_find(cx, read(raw)?)).await,
        };
        match result {
            Err(CallError::Hub(error)) => Err(Box::pin(with_details(cx, error)).await),
            result => result,
        }
    }

    fn error(&self, error: &CallError, urls: AuthUrls<'_>) -> WireError {
        errors::map_error(Some(*self), error, urls)
    }
}

/// Adds details to an error that only the hub knows.
async fn with_details(cx: &CallContext<'_>, error: HubError) -> CallError {
    match &error {
        HubError::TaskFinished { id, state } => {
            let task = cx.hub().task(cx.caller, id).await.ok();
            let finished_at = task.and_then(|task| task.finished_at);
            errors::with_finished_at(errors::from_hub(&error), *state, finished_at).into()
        }
        HubError::TaskNotFound(_) => {
            let now = cx.hub().now().to_string();
            errors::from_hub(&error).with_field("timestamp", now).into()
        }
        _ => error.into(),
    }
}

/// Returns the JSON path of a field that the hub rejected. `what` is the hub's name of the field.
fn field_path(method: Method, what: &str) -> Option<String> {
    let message_name = || message_field(method);
    match what {
        "the message" | "unknown fields of the message" => {
            Some(format!("params.{}", message_name()?))
        }
        "parts" | "role" => Some(format!("params.{}.{what}", message_name()?)),
        "metadata" | "participants" => Some(format!("params.{what}")),
        "the name of a participant" => Some("params.participants".to_owned()),
        // Without messages the task can be read, however large they are.
        "the complete task" => Some("params.includeMessages".to_owned()),
        "the reason" => Some("params.reason".to_owned()),
        _ => None,
    }
}

/// Returns the param that holds the message, if the method has one.
fn message_field(method: Method) -> Option<&'static str> {
    match method {
        Method::TasksCreate => Some("initialMessage"),
        Method::TasksSend | Method::StreamMessage => Some("message"),
        Method::StreamChunk => Some("chunk"),
        Method::TasksGet
        | Method::TasksCancel
        | Method::TasksSubscribe
        | Method::StreamStart
        | Method::StreamEnd
        | Method::TaskNotification
        | Method::TasksList
        | Method::TasksUnsubscribe
        | Method::RequestsFind => None,
    }
}
