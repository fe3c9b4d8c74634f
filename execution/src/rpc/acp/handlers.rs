//! Handlers of ACP's methods. Rules live in the hub, conversions in `convert`, error codes in `errors`.

use super::{convert, errors, json_object};
use crate::notifications::Format;
use crate::rpc::context::CallContext;
use crate::rpc::errors::{CallError, field};
use crate::rpc::reply::{CallReply, CallResult};
use crate::webhooks::{WEBHOOK_CHANNEL, WebhookTarget};
use interzone_hub::{
    NewPushSubscription, NewStream, NewTask, Route, TaskCursor, TaskQuery, TaskView, adopt_message,
};
use interzone_jsonrpc::{RawJson, Request, ResponseWriter};
use interzone_protocol::acp::{
    MethodResult, StreamChunk, StreamEndParams, StreamMessageParams, StreamStartParams, TaskList,
    TaskNotification, TasksCancelParams, TasksCreateParams, TasksGetParams, TasksListParams,
    TasksSendParams, TasksSubscribeParams, TasksUnsubscribeParams,
};
use interzone_protocol::vocab::{Metadata, StreamId, StreamState, TaskId, TaskState, VerbatimJson};

type AcpResult = Result<CallReply, CallError>;

/// Default page size of `tasks.list`.
const DEFAULT_PAGE_SIZE: usize = 50;

fn task_id(text: &str) -> Result<TaskId, CallError> {
    convert::task_id(text).ok_or_else(|| errors::unknown_task(text).into())
}

fn stream_id(text: &str) -> Result<StreamId, CallError> {
    convert::stream_id(text).ok_or_else(|| errors::unknown_stream(text).into())
}

fn reply(result: MethodResult) -> AcpResult {
    Ok(CallReply::json(result))
}

fn success(message: &str) -> AcpResult {
    reply(MethodResult::Success {
        message: message.to_owned(),
    })
}

fn accepted(message: &str) -> AcpResult {
    reply(MethodResult::Notification {
        message: message.to_owned(),
    })
}

pub(crate) async fn tasks_create(cx: &CallContext<'_>, params: TasksCreateParams) -> AcpResult {
    let message = params.initial_message;
    let requested_agent = params.assign_to.clone();
    let new = NewTask {
        route: Route {
            assign_to: params.assign_to,
            ..cx.default_route()
        },
        priority: params.priority.unwrap_or_default(),
        metadata: with_trace(cx, params.metadata),
        ..NewTask::new(message.clone())
    };
    let task = cx.hub().create_task(cx.caller, new).await;
    let task =
        task.map_err(|error| errors::for_agent(error, requested_agent, cx.hub().agents()))?;
    cx.set_subject(task.id.as_str());
    let message = adopt_message(cx.caller, &task.agent, message);
    reply(MethodResult::Task {
        task: convert::task_created(&task, message),
    })
}

/// Adds the caller's trace context to the metadata, for agents that forward the task.
fn with_trace(cx: &CallContext<'_>, metadata: Option<Metadata>) -> Option<Metadata> {
    let Some(trace) = &cx.meta.trace else {
        return metadata;
    };
    json_object::add_field(metadata.as_ref(), "traceparent", &trace.to_string()).or(metadata)
}

pub(crate) async fn tasks_send(cx: &CallContext<'_>, params: TasksSendParams) -> AcpResult {
    cx.set_subject(&params.task_id);
    let id = task_id(&params.task_id)?;
    cx.hub()
        .send_message(cx.caller, &id, params.message)
        .await?;
    success("Message sent")
}

pub(crate) async fn tasks_get(cx: &CallContext<'_>, params: TasksGetParams) -> AcpResult {
    cx.set_subject(&params.task_id);
    let id = task_id(&params.task_id)?;
    let messages = params.include_messages.unwrap_or(true);
    let artifacts = params.include_artifacts.unwrap_or(true);
    let message_limit = if messages { usize::MAX } else { 0 };
    let view = cx
        .hub()
        .task_view_within(cx.caller, &id, message_limit, artifacts, Some(&cx.memory))
        .await?;
    Ok(CallReply::Result(Box::new(TaskReply {
        view,
        include_messages: messages,
        include_artifacts: artifacts,
    })))
}

/// Reply of `tasks.get`. Its JSON is cached with the task's snapshot and shared by all readers.
struct TaskReply {
    view: TaskView,
    include_messages: bool,
    include_artifacts: bool,
}

impl TaskReply {
    fn result(&self) -> MethodResult {
        let detail = self.view.clone().into_detail();
        MethodResult::Task {
            task: convert::task_detail(detail, self.include_messages, self.include_artifacts),
        }
    }
}

impl CallResult for TaskReply {
    fn write_to(
        &self,
        writer: &mut ResponseWriter,
        request: &Request<'_>,
    ) -> Result<(), serde_json::Error> {
        writer.result(request, &self.result())
    }

    /// Returns the cached JSON if the complete task was requested. It was validated when it was cached.
    fn cached_json(&self) -> Option<&str> {
        let is_valid = |json: &VerbatimJson| RawJson::parse(json.as_str()).is_ok();
        let write = || {
            VerbatimJson::from_value(&self.result())
                .ok()
                .filter(is_valid)
        };
        let is_complete = self.include_messages && self.include_artifacts;
        let json = is_complete
            .then(|| self.view.cached_rendering(Format::Acp.name(), write))
            .flatten();
        json.map(VerbatimJson::as_str)
    }
}

pub(crate) async fn tasks_cancel(cx: &CallContext<'_>, params: TasksCancelParams) -> AcpResult {
    cx.set_subject(&params.task_id);
    let id = task_id(&params.task_id)?;
    let reason = params.reason.as_deref();
    cx.hub().cancel(cx.caller, &id, reason).await?;
    success("Task canceled")
}

pub(crate) async fn tasks_subscribe(
    cx: &CallContext<'_>,
    params: TasksSubscribeParams,
) -> AcpResult {
    cx.set_subject(&params.task_id);
    let id = task_id(&params.task_id)?;
    // Ownership is checked before the URL.
    cx.hub().task(cx.caller, &id).await?;
    cx.zone
        .egress
        .check_url(&params.callback_url)
        .map_err(|error| field("params.callbackUrl", error.to_string(), "another URL"))?;
    let target = WebhookTarget {
        url: params.callback_url,
        events: convert::requested_events(params.events),
    };
    let push = NewPushSubscription {
        id: None,
        channel: WEBHOOK_CHANNEL.to_owned(),
        events: convert::hub_events(&target.events),
        format: Format::Acp.name().to_owned(),
        secrets: None,
        target: VerbatimJson::from_value(&target).map_err(|_| CallError::Internal("target"))?,
    };
    let push = cx.hub().add_push_subscription(cx.caller, &id, push).await?;
    reply(MethodResult::Subscription {
        subscription: convert::subscription(&push, target),
    })
}

pub(crate) async fn tasks_unsubscribe(
    cx: &CallContext<'_>,
    params: TasksUnsubscribeParams,
) -> AcpResult {
    cx.set_subject(&params.task_id);
    let id = task_id(&params.task_id)?;
    let removed = match convert::subscription_id(&params.subscription_id) {
        Some(push) => {
            cx.hub()
                .remove_push_subscription(cx.caller, &id, &push)
                .await?
        }
        None => false,
    };
    success(if removed {
        "Subscription ended"
    } else {
        "Subscription not found"
    })
}

pub(crate) async fn tasks_list(cx: &CallContext<'_>, params: TasksListParams) -> AcpResult {
    let states = match params.status.as_deref() {
        None => Vec::new(),
        Some(name) => {
            let matching: Vec<TaskState> = TaskState::ALL
                .into_iter()
                .filter(|state| state.acp() == name)
                .collect();
            if matching.is_empty() {
                return Err(field("params.status", "a task status of ACP", "string").into());
            }
            matching
        }
    };
    let after = match params.after.as_deref().map(TaskCursor::from_token) {
        Some(None) => {
            let expected = "the `next` of the previous page";
            return Err(field("params.after", expected, "string").into());
        }
        Some(after) => after,
        None => None,
    };
    let query = TaskQuery {
        owner: Some(cx.caller.principal.clone()),
        context_id: None,
        states,
        agent: None,
        status_since: None,
        after,
        limit: params
            .limit
            .and_then(|limit| usize::try_from(limit).ok())
            .unwrap_or(DEFAULT_PAGE_SIZE),
    };
    let page = cx.hub().list_tasks(cx.caller, query).await?;
    Ok(CallReply::json(TaskList {
        tasks: page.tasks.iter().map(convert::task_summary).collect(),
        next: page.next.map(|next| next.to_token()),
    }))
}

pub(crate) async fn stream_start(cx: &CallContext<'_>, params: StreamStartParams) -> AcpResult {
    let new = NewStream {
        participants: params.participants.unwrap_or_default(),
        metadata: params.metadata,
    };
    let stream = cx.hub().start_stream(cx.caller, new).await?;
    cx.set_subject(stream.id.as_str());
    reply(MethodResult::Stream {
        stream: convert::stream(&stream, &cx.zone.public_url),
    })
}

pub(crate) async fn stream_message(cx: &CallContext<'_>, params: StreamMessageParams) -> AcpResult {
    cx.set_subject(&params.stream_id);
    let id = stream_id(&params.stream_id)?;
    cx.hub()
        .send_stream_message(cx.caller, &id, params.message, cx.default_route())
        .await?;
    success("Message sent")
}

pub(crate) async fn stream_end(cx: &CallContext<'_>, params: StreamEndParams) -> AcpResult {
    cx.set_subject(&params.stream_id);
    let id = stream_id(&params.stream_id)?;
    let reason = params.reason.as_deref();
    cx.hub()
        .set_stream_state(cx.caller, &id, StreamState::Closed, reason)
        .await?;
    success("Stream ended")
}

/// A peer's notification about a task of its own, whose id has no meaning here. It is only audited: a peer cannot
/// change a task by claiming that it changed.
pub(crate) fn task_notification(cx: &CallContext<'_>, params: &TaskNotification) -> AcpResult {
    cx.set_subject(&params.task_id);
    accepted("Notification accepted")
}

/// Posts a chunk of a peer to a stream. It is attributed to the peer, regardless of the role that the chunk states. The
/// peer's sequence number is ignored; the stream has its own.
pub(crate) async fn stream_chunk(cx: &CallContext<'_>, params: StreamChunk) -> AcpResult {
    cx.set_subject(&params.stream_id);
    let id = stream_id(&params.stream_id)?;
    let is_last = params.is_last.unwrap_or(false);
    cx.hub()
        .post_chunk(cx.caller, &id, params.chunk, is_last)
        .await?;
    accepted("Chunk accepted")
}
