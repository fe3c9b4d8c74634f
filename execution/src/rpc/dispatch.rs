//! Method dispatch. Checked before, in this order: the method exists, the token has its scopes, its params are
//! valid.

use super::acp::handlers;
use super::errors::{self, CallError};
use super::method::AnyMethod;
use super::{CallContext, CallReply, params, request_log, zone};
use interzone_jsonrpc::RawJson;
use interzone_protocol::acp::Method;
use interzone_protocol::zone::Method as ZoneMethod;

/// Dispatches one call.
pub(super) async fn dispatch(
    cx: &CallContext<'_>,
    name: &str,
    raw: Option<&RawJson<'_>>,
) -> Result<CallReply, CallError> {
    let Some(method) = AnyMethod::from_name(name) else {
        return Err(errors::unknown_method(name).into());
    };
    cx.set_method(method);
    match method {
        AnyMethod::Acp(method) => cx.require_scopes(&method.scopes())?,
        AnyMethod::Zone(method) => cx.require_scopes(method.scopes())?,
    }
    let method = match method {
        AnyMethod::Acp(method) => method,
        AnyMethod::Zone(method) => return Box::pin(dispatch_zone(cx, method, raw)).await,
    };
    // All but the fastest handler are boxed, so that its future does not have the size of the largest.
    match method {
        Method::TasksCreate => Box::pin(handlers::tasks_create(cx, params::read(raw)?)).await,
        Method::TasksSend => Box::pin(handlers::tasks_send(cx, params::read(raw)?)).await,
        Method::TasksGet => handlers::tasks_get(cx, params::read(raw)?).await,
        Method::TasksCancel => Box::pin(handlers::tasks_cancel(cx, params::read(raw)?)).await,
        Method::TasksSubscribe => Box::pin(handlers::tasks_subscribe(cx, params::read(raw)?)).await,
        Method::StreamStart => Box::pin(handlers::stream_start(cx, params::read(raw)?)).await,
        Method::StreamMessage => Box::pin(handlers::stream_message(cx, params::read(raw)?)).await,
        Method::StreamEnd => Box::pin(handlers::stream_end(cx, params::read(raw)?)).await,
        Method::TaskNotification => handlers::task_notification(cx, &params::read(raw)?),
        Method::StreamChunk => Box::pin(handlers::stream_chunk(cx, params::read(raw)?)).await,
        Method::TasksList => Box::pin(handlers::tasks_list(cx, params::read(raw)?)).await,
        Method::TasksUnsubscribe => {
            Box::pin(handlers::tasks_unsubscribe(cx, params::read(raw)?)).await
        }
        Method::RequestsFind => Box::pin(request_log::requests_find(cx, params::read(raw)?)).await,
    }
}

/// Dispatches one zone call.
async fn dispatch_zone(
    cx: &CallContext<'_>,
    method: ZoneMethod,
    raw: Option<&RawJson<'_>>,
) -> Result<CallReply, CallError> {
    match method {
        ZoneMethod::ExecuteTask => {
            let early = cx.take_early_params().map(|given| *given);
            let params = early.unwrap_or_else(|| zone::params::execute_task(raw))?;
            zone::handlers::execute_task(cx, params).await
        }
        ZoneMethod::GetTaskResult => {
            zone::handlers::get_task_result(cx, zone::params::task_id(raw)?).await
        }
        ZoneMethod::CancelTask => {
            zone::handlers::cancel_task(cx, zone::params::task_id(raw)?).await
        }
        ZoneMethod::GetAgentCard => zone::handlers::get_agent_card(cx),
        ZoneMethod::Feedback => zone::handlers::feedback(cx, zone::params::feedback(raw)?).await,
    }
}

/// True if a call may wait for a result. Within a batch, such calls wait concurrently.
pub(super) fn is_blocking(name: &str) -> bool {
    matches!(ZoneMethod::from_name(name), Some(ZoneMethod::ExecuteTask))
}

/// True if calls of a method may be reordered within a batch. Calls that change what another call may have created
/// keep their order.
pub(super) fn is_unordered(name: &str) -> bool {
    let method = match AnyMethod::from_name(name) {
        None => return true,
        Some(AnyMethod::Acp(method)) => method,
        Some(AnyMethod::Zone(method)) => {
            return match method {
                ZoneMethod::ExecuteTask | ZoneMethod::GetTaskResult | ZoneMethod::GetAgentCard => {
                    true
                }
                ZoneMethod::CancelTask | ZoneMethod::Feedback => false,
            };
        }
    };
    match method {
        Method::TasksCreate
        | Method::TasksGet
        | Method::TasksList
        | Method::RequestsFind
        | Method::StreamStart
        | Method::TaskNotification => true,
        Method::TasksSend
        | Method::TasksCancel
        | Method::TasksSubscribe
        | Method::TasksUnsubscribe
        | Method::StreamMessage
        | Method::StreamEnd
        | Method::StreamChunk => false,
    }
}

/// Returns the JSON path of a field that the hub rejected. `what` is the hub's name of the field.
pub(super) fn field_path(method: AnyMethod, what: &str) -> Option<String> {
    let method = match method {
        AnyMethod::Acp(method) => method,
        AnyMethod::Zone(_) => return zone_field_path(what).map(str::to_owned),
    };
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

/// Returns the JSON path for zone calls, where several params make up the message.
fn zone_field_path(what: &str) -> Option<&'static str> {
    match what {
        "the message" | "parts" => Some("params.attachments"),
        "messages of a task" => Some("params.context"),
        "metadata" => Some("params"),
        "the user" => Some("params.user_id"),
        "the comment" => Some("params.comment"),
        "feedback of a task" => Some("params.task_id"),
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
