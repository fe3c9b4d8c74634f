//! Handlers of the methods that read, list and cancel tasks.

use super::convert::{self, TaskContents};
use super::errors::{refuse, refuse_field};
use crate::rpc::context::CallContext;
use crate::rpc::errors::CallError;
use crate::rpc::reply::{CallReply, CallResult};
use interzone_hub::{HubError, Task, TaskCursor, TaskDetail, TaskQuery};
use interzone_jsonrpc::{RawJson, Request, ResponseWriter};
use interzone_protocol::a2a::{
    A2aTask, CancelTaskRequest, Codec, Expectation, GetTaskRequest, ListTasksRequest,
    ListTasksResponse, WireFormat, WireObject,
};
use interzone_protocol::vocab::{AgentId, ContextId, TaskId};

pub(super) type A2aHandlerResult = Result<CallReply, CallError>;

/// Result in the wire format of its call.
struct FormattedResult<T> {
    result: T,
    format: WireFormat,
}

impl<T: WireObject + Send> CallResult for FormattedResult<T> {
    fn write_to(
        &self,
        writer: &mut ResponseWriter,
        request: &Request<'_>,
    ) -> Result<(), serde_json::Error> {
        writer.result(request, &self.result.encode(self.format))
    }
}

pub(super) fn reply(
    result: impl WireObject + Send + 'static,
    format: WireFormat,
) -> A2aHandlerResult {
    Ok(CallReply::Result(Box::new(FormattedResult {
        result,
        format,
    })))
}

/// Reads params. Absent params are an empty object.
pub(super) fn read_params<T: WireObject>(
    raw: Option<&RawJson<'_>>,
    format: WireFormat,
) -> Result<T, CallError> {
    let text = raw.map_or("{}", |params| params.as_str());
    T::decode(text, Codec::server(format)).map_err(|field| refuse(field, format))
}

/// Returns the agent that a call is for: that of its endpoint, or of its tenant.
pub(super) fn addressed_agent(
    cx: &CallContext<'_>,
    tenant: Option<&str>,
    format: WireFormat,
) -> Result<Option<AgentId>, CallError> {
    let of_endpoint = cx.meta.endpoint.agent.as_ref();
    let Some(tenant) = tenant.filter(|tenant| !tenant.is_empty()) else {
        return Ok(of_endpoint.cloned());
    };
    let rule = match of_endpoint {
        Some(agent) if agent.as_str() == tenant => return Ok(Some(agent.clone())),
        Some(_) => "must be the agent of the URL, or absent",
        None => "must be the id of an agent",
    };
    let agents = cx.hub().agents();
    let agent = AgentId::new(tenant).ok();
    let agent = agent.filter(|agent| of_endpoint.is_none() && agents.get(agent).is_some());
    match agent {
        Some(agent) => Ok(Some(agent)),
        None => Err(refuse_field("tenant", Expectation::Rule(rule), format)),
    }
}

/// Returns a task that the caller may see. If the call is for one agent, tasks of others do not exist.
pub(super) async fn find_task(
    cx: &CallContext<'_>,
    id: &str,
    agent: Option<&AgentId>,
    format: WireFormat,
) -> Result<Task, CallError> {
    cx.set_subject(id);
    let unknown = || {
        let kind = interzone_protocol::a2a::A2aErrorKind::TaskNotFound;
        refuse(interzone_protocol::a2a::A2aError::new(kind), format)
    };
    let id = TaskId::new(id).map_err(|_| unknown())?;
    let task = cx.hub().task(cx.caller, &id).await?;
    match agent.is_none_or(|agent| *agent == task.agent) {
        true => Ok(task),
        false => Err(HubError::TaskNotFound(id).into()),
    }
}

/// Reads what is shown of a task.
pub(super) async fn read_task(
    cx: &CallContext<'_>,
    id: &TaskId,
    contents: TaskContents,
) -> Result<TaskDetail, CallError> {
    let messages = contents.messages_to_read();
    let detail = cx.hub().task_detail_within(
        cx.caller,
        id,
        messages,
        contents.artifacts,
        Some(&cx.memory),
    );
    Ok(detail.await?)
}

pub(super) async fn get_task(
    cx: &CallContext<'_>,
    format: WireFormat,
    raw: Option<&RawJson<'_>>,
) -> A2aHandlerResult {
    let params: GetTaskRequest = read_params(raw, format)?;
    let agent = addressed_agent(cx, params.tenant.as_deref(), format)?;
    let task = find_task(cx, &params.id, agent.as_ref(), format).await?;
    let contents = TaskContents::all(params.history_length);
    let detail = read_task(cx, &task.id, contents).await?;
    reply(convert::task(&detail, contents), format)
}

pub(super) async fn cancel_task(
    cx: &CallContext<'_>,
    format: WireFormat,
    raw: Option<&RawJson<'_>>,
) -> A2aHandlerResult {
    let params: CancelTaskRequest = read_params(raw, format)?;
    let agent = addressed_agent(cx, params.tenant.as_deref(), format)?;
    let Task { id, state, .. } = find_task(cx, &params.id, agent.as_ref(), format).await?;
    // The hub accepts a repetition.
    if state.is_terminal() {
        return Err(HubError::TaskFinished { id, state }.into());
    }
    cx.hub().cancel(cx.caller, &id, None).await?;
    let contents = TaskContents::all(None);
    let detail = read_task(cx, &id, contents).await?;
    reply(convert::task(&detail, contents), format)
}

pub(super) async fn list_tasks(
    cx: &CallContext<'_>,
    format: WireFormat,
    raw: Option<&RawJson<'_>>,
) -> A2aHandlerResult {
    let params: ListTasksRequest = read_params(raw, format)?;
    let agent = addressed_agent(cx, params.tenant.as_deref(), format)?;
    let refuse = |path: &str, rule| refuse_field(path, Expectation::Rule(rule), format);
    let context_id = params.context_id.as_deref().filter(|id| !id.is_empty());
    let context_id = context_id.map(ContextId::new).transpose();
    let token = params
        .page_token
        .as_deref()
        .filter(|token| !token.is_empty());
    let after = token.map(|token| {
        let rule = "must be the nextPageToken of the page before";
        TaskCursor::from_token(token).ok_or_else(|| refuse("pageToken", rule))
    });
    let page_size = u32::try_from(params.page_size()).unwrap_or(1);
    let query = TaskQuery {
        owner: Some(cx.caller.principal.clone()),
        context_id: context_id.map_err(|_| refuse("contextId", "must be the id of a context"))?,
        states: params.status.into_iter().collect(),
        agent,
        status_since: params.status_timestamp_after,
        after: after.transpose()?,
        limit: usize::try_from(page_size).unwrap_or(1),
    };
    let uncut = TaskQuery {
        after: None,
        ..query.clone()
    };
    let page = cx.hub().list_tasks(cx.caller, query).await?;
    let total = cx.hub().count_tasks(cx.caller, uncut).await?;
    let contents = TaskContents {
        history: Some(params.history_length.unwrap_or(0)),
        artifacts: params.include_artifacts,
    };
    let mut tasks = Vec::with_capacity(page.tasks.len());
    for task in page.tasks {
        tasks.push(listed_task(cx, task, contents).await?);
    }
    let result = ListTasksResponse {
        tasks,
        next_page_token: page.next.map_or_else(String::new, |next| next.to_token()),
        page_size,
        total_size: u32::try_from(total).unwrap_or(u32::MAX),
    };
    reply(result, format)
}

/// Converts a task of a list. Nothing more is read if its status is all that is shown.
async fn listed_task(
    cx: &CallContext<'_>,
    task: Task,
    contents: TaskContents,
) -> Result<A2aTask, CallError> {
    let needs_messages = contents.messages_to_read() > 1 || task.status_message.is_some();
    let detail = match needs_messages {
        true => read_task(cx, &task.id, contents).await?,
        false => TaskDetail {
            task,
            status_message: None,
            messages: Vec::new(),
            artifacts: Vec::new(),
        },
    };
    let mut listed = convert::task(&detail, contents);
    if contents.artifacts {
        listed.artifacts.get_or_insert_default();
    }
    Ok(listed)
}
