//! What each method does: read, ask the hub, say what came of it. Rules live in the hub, shapes in
//! `convert`, codes in `errors`.

use super::{convert, members};
use crate::rpc::errors::{self, Fault};
use crate::rpc::{Context, Reply};
use crate::webhooks::{CHANNEL, Target};
use interzone_hub::{NewPush, NewStream, NewTask, Route, TaskCursor, TaskQuery, TaskView};
use interzone_jsonrpc::RawJson;
use interzone_protocol::acp::{
    MethodResult, StreamChunk, StreamEndParams, StreamMessageParams, StreamStartParams, TaskList,
    TaskNotification, TasksCancelParams, TasksCreateParams, TasksGetParams, TasksListParams,
    TasksSendParams, TasksSubscribeParams, TasksUnsubscribeParams,
};
use interzone_protocol::vocab::{Json, Metadata, StreamId, StreamState, TaskId, TaskState};
use serde::{Serialize, Serializer};

type Outcome = Result<Reply, Fault>;

/// How many tasks a page has that does not say.
const PAGE: usize = 50;

fn task_id(text: &str) -> Result<TaskId, Fault> {
    convert::task_id(text).ok_or_else(|| errors::unknown_task(text).into())
}

fn stream_id(text: &str) -> Result<StreamId, Fault> {
    convert::stream_id(text).ok_or_else(|| errors::unknown_stream(text).into())
}

fn done(message: &str) -> Outcome {
    Ok(Reply::Acp(MethodResult::Success {
        message: message.to_owned(),
    }))
}

fn taken(message: &str) -> Outcome {
    Ok(Reply::Acp(MethodResult::Notification {
        message: message.to_owned(),
    }))
}

pub(crate) async fn create(cx: &Context<'_>, params: TasksCreateParams) -> Outcome {
    let message = params.initial_message;
    let asked_for = params.assign_to.clone();
    let new = NewTask {
        route: Route {
            assign_to: params.assign_to,
            ..Route::default()
        },
        priority: params.priority.unwrap_or_default(),
        metadata: traced(cx, params.metadata),
        ..NewTask::new(message.clone())
    };
    let task = cx.hub().create_task(cx.caller, new).await;
    let task = task.map_err(|error| Fault::for_agent(error, asked_for, cx.hub().agents()))?;
    cx.about(task.id.as_str());
    Ok(Reply::Acp(MethodResult::Task {
        task: convert::begun(&task, message),
    }))
}

/// What the caller attached, and its place in a trace if it sent one, for agents that pass the task on.
fn traced(cx: &Context<'_>, attached: Option<Metadata>) -> Option<Metadata> {
    let Some(trace) = &cx.origin.trace else {
        return attached;
    };
    members::add(attached.as_ref(), "traceparent", &trace.to_string()).or(attached)
}

pub(crate) async fn send(cx: &Context<'_>, params: TasksSendParams) -> Outcome {
    cx.about(&params.task_id);
    let id = task_id(&params.task_id)?;
    cx.hub().send(cx.caller, &id, params.message).await?;
    done("Message sent")
}

pub(crate) async fn get(cx: &Context<'_>, params: TasksGetParams) -> Outcome {
    cx.about(&params.task_id);
    let id = task_id(&params.task_id)?;
    let messages = params.include_messages.unwrap_or(true);
    let artifacts = params.include_artifacts.unwrap_or(true);
    let latest = if messages { usize::MAX } else { 0 };
    let view = cx
        .hub()
        .task_view_within(cx.caller, &id, latest, artifacts, Some(&cx.memory))
        .await?;
    Ok(Reply::Shown(Shown {
        view,
        messages,
        artifacts,
    }))
}

/// A task that somebody asked for. It is written once for all who ask while it stays as it is.
pub(crate) struct Shown {
    view: TaskView,
    messages: bool,
    artifacts: bool,
}

impl Shown {
    fn result(&self) -> MethodResult {
        let detail = self.view.clone().into_detail();
        MethodResult::Task {
            task: convert::detail(detail, self.messages, self.artifacts),
        }
    }

    /// What was written for all, if it may be shown to this one. It was checked when it was written, so
    /// nobody has to look at it again.
    pub(crate) fn written(&self) -> Option<&str> {
        let readable = |json: &Json| RawJson::parse(json.as_str()).is_ok();
        let write = || Json::of(&self.result()).ok().filter(readable);
        let whole = self.messages && self.artifacts;
        let written = whole.then(|| self.view.written("acp", write)).flatten();
        written.map(Json::as_str)
    }
}

impl Serialize for Shown {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        self.result().serialize(serializer)
    }
}

pub(crate) async fn cancel(cx: &Context<'_>, params: TasksCancelParams) -> Outcome {
    cx.about(&params.task_id);
    let id = task_id(&params.task_id)?;
    let reason = params.reason.as_deref();
    cx.hub().cancel(cx.caller, &id, reason).await?;
    done("Task canceled")
}

pub(crate) async fn subscribe(cx: &Context<'_>, params: TasksSubscribeParams) -> Outcome {
    cx.about(&params.task_id);
    let id = task_id(&params.task_id)?;
    // Whose the task is comes before what is wrong with the address.
    cx.hub().task(cx.caller, &id).await?;
    cx.zone
        .egress
        .vet(&params.callback_url)
        .map_err(|why| errors::field("params.callbackUrl", why.to_string(), "another URL"))?;
    let target = Target {
        url: params.callback_url,
        events: convert::wanted(params.events),
    };
    let push = NewPush {
        id: None,
        channel: CHANNEL.to_owned(),
        events: convert::hub_events(&target.events),
        target: Json::of(&target).map_err(|_| errors::internal("target"))?,
    };
    let push = cx.hub().add_push(cx.caller, &id, push).await?;
    Ok(Reply::Acp(MethodResult::Subscription {
        subscription: convert::subscription(&push, target),
    }))
}

pub(crate) async fn unsubscribe(cx: &Context<'_>, params: TasksUnsubscribeParams) -> Outcome {
    cx.about(&params.task_id);
    let id = task_id(&params.task_id)?;
    let removed = match convert::subscription_id(&params.subscription_id) {
        Some(push) => cx.hub().remove_push(cx.caller, &id, &push).await?,
        None => false,
    };
    done(if removed {
        "Subscription ended"
    } else {
        "There was no such subscription"
    })
}

pub(crate) async fn list(cx: &Context<'_>, params: TasksListParams) -> Outcome {
    let states = match params.status.as_deref() {
        None => Vec::new(),
        Some(name) => {
            let named: Vec<TaskState> = TaskState::ALL
                .into_iter()
                .filter(|state| state.acp() == name)
                .collect();
            if named.is_empty() {
                return Err(
                    errors::field("params.status", "a task status of ACP", "string").into(),
                );
            }
            named
        }
    };
    let after = match params.after.as_deref().map(TaskCursor::from_token) {
        Some(None) => {
            let expected = "what the page before gave as `next`";
            return Err(errors::field("params.after", expected, "string").into());
        }
        Some(after) => after,
        None => None,
    };
    let query = TaskQuery {
        owner: Some(cx.caller.principal.clone()),
        context_id: None,
        states,
        agent: None,
        updated_since: None,
        after,
        limit: params
            .limit
            .and_then(|limit| usize::try_from(limit).ok())
            .unwrap_or(PAGE),
    };
    let page = cx.hub().list_tasks(cx.caller, query).await?;
    Ok(Reply::List(TaskList {
        tasks: page.tasks.iter().map(convert::head).collect(),
        next: page.next.map(|next| next.to_token()),
    }))
}

pub(crate) async fn start(cx: &Context<'_>, params: StreamStartParams) -> Outcome {
    let new = NewStream {
        participants: params.participants.unwrap_or_default(),
        metadata: params.metadata,
    };
    let stream = cx.hub().start_stream(cx.caller, new).await?;
    cx.about(stream.id.as_str());
    Ok(Reply::Acp(MethodResult::Stream {
        stream: convert::stream(&stream, &cx.zone.public_url),
    }))
}

pub(crate) async fn say(cx: &Context<'_>, params: StreamMessageParams) -> Outcome {
    cx.about(&params.stream_id);
    let id = stream_id(&params.stream_id)?;
    cx.hub()
        .ask_on_stream(cx.caller, &id, params.message, Route::default())
        .await?;
    done("Message sent")
}

pub(crate) async fn end(cx: &Context<'_>, params: StreamEndParams) -> Outcome {
    cx.about(&params.stream_id);
    let id = stream_id(&params.stream_id)?;
    let reason = params.reason.as_deref();
    cx.hub()
        .move_stream(cx.caller, &id, StreamState::Closed, reason)
        .await?;
    done("Stream ended")
}

/// A peer tells of a task of its own, whose id says nothing here. It is on record by the audit log, and
/// changes nothing: nobody moves a task by claiming that it moved.
pub(crate) fn notified(cx: &Context<'_>, params: &TaskNotification) -> Outcome {
    cx.about(&params.task_id);
    taken("Notification taken")
}

/// A peer speaks on a stream, piece by piece. It speaks as itself, whatever role it gives to its words:
/// those who watch are told who it was. The number that it counts by is its own; the stream has one.
pub(crate) async fn chunk(cx: &Context<'_>, params: StreamChunk) -> Outcome {
    cx.about(&params.stream_id);
    let id = stream_id(&params.stream_id)?;
    let last = params.is_last.unwrap_or(false);
    cx.hub().speak(cx.caller, &id, params.chunk, last).await?;
    taken("Chunk taken")
}
