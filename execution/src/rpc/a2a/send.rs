//! SendMessage: creates a task or continues one, and waits for the end of the turn if the client does.

use super::IDEMPOTENCY_KEY;
use super::convert::{self, TaskContents};
use super::errors::{no_push_notifications, refuse, refuse_field};
use super::handlers::{
    A2aHandlerResult, addressed_agent, find_task, read_params, read_task, reply,
};
use crate::rpc::context::CallContext;
use crate::rpc::errors::CallError;
use interzone_hub::{
    AgentInfo, EventBody, HubError, IdempotencyKey, NewMessage, NewTask, Route, SentMessage,
    Subject, Task, Watch, WatchItem,
};
use interzone_jsonrpc::RawJson;
use interzone_protocol::a2a::{
    A2aError, A2aErrorKind, A2aPart, Expectation, SendMessageRequest, SendMessageResponse,
    WireFormat,
};
use interzone_protocol::vocab::{AgentId, ContextId, Message, TaskId, TaskState};
use std::time::Duration;
use tokio::time::{Instant, sleep_until};

/// Maximum number of tasks that a message refers to.
const MAX_REFERENCES: usize = 32;
/// Maximum characters of a context id, as in the hub.
const MAX_CONTEXT_ID_CHARS: usize = 128;
/// Maximum length of an idempotency key.
const MAX_KEY_LENGTH: usize = 255;
/// Time for which a client that does not wait is answered with the agent's direct answer instead of a task.
pub(super) const DIRECT_WAIT: Duration = Duration::from_millis(500);

/// Time at which a call returns the task as it is.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum WaitEnd {
    /// At the end of the turn that takes the message with this index.
    TurnOf(u32),
    /// At the first output of the agent.
    FirstOutput,
}

/// A send whose params were read.
pub(super) struct IncomingSend {
    params: SendMessageRequest,
    /// The agent that it is for, if the call says so.
    agent: Option<AgentId>,
    idempotency_key: Option<IdempotencyKey>,
    pub(super) contents: TaskContents,
    is_immediate: bool,
    format: WireFormat,
}

impl IncomingSend {
    /// Reads the params of a call.
    pub(super) fn read(
        cx: &CallContext<'_>,
        format: WireFormat,
        raw: Option<&RawJson<'_>>,
    ) -> Result<Self, CallError> {
        let mut params: SendMessageRequest = read_params(raw, format)?;
        let configuration = params.configuration.take().unwrap_or_default();
        let agent = addressed_agent(cx, params.tenant.as_deref(), format)?;
        if configuration.push_notification_config.is_some() {
            return Err(no_push_notifications(format));
        }
        Ok(Self {
            params,
            agent,
            idempotency_key: idempotency_key(cx, raw, format)?,
            contents: TaskContents::all(configuration.history_length),
            is_immediate: configuration.return_immediately,
            format,
        })
    }

    /// True if it creates a task.
    pub(super) fn is_new(&self) -> bool {
        let task = self.params.message.task_id.as_deref();
        task.is_none_or(str::is_empty)
    }

    /// Returns the task to create.
    pub(super) async fn new_task(self, cx: &CallContext<'_>) -> Result<NewTask, CallError> {
        let route = Route {
            tenant: self.agent.as_ref().map(ToString::to_string),
            ..Route::default()
        };
        let agents = cx.hub().agents();
        let agent = agents.select(&route).and_then(|agent| agents.get(agent));
        if let Some(agent) = agent {
            check_media_types(&self.params.message.parts, agent.info(), self.format)?;
        }
        let context_id = context_id(self.params.message.context_id.as_deref(), self.format)?;
        let metadata = self.params.metadata.clone();
        let message = hub_message(cx, self.params, self.format).await?;
        Ok(NewTask {
            context_id,
            route,
            metadata,
            idempotency_key: self.idempotency_key,
            start_now: true,
            ..NewTask::new(message)
        })
    }

    /// Adds the message to its task.
    pub(super) async fn continue_task(
        self,
        cx: &CallContext<'_>,
    ) -> Result<SentMessage, CallError> {
        let format = self.format;
        let id = self.params.message.task_id.as_deref().unwrap_or_default();
        let task = find_task(cx, id, self.agent.as_ref(), format).await?;
        let context_id = context_id(self.params.message.context_id.as_deref(), format)?;
        if let Some(agent) = cx.hub().agents().get(&task.agent) {
            check_media_types(&self.params.message.parts, agent.info(), format)?;
        }
        let new = NewMessage {
            context_id,
            idempotency_key: self.idempotency_key,
            ..NewMessage::new(task.id, hub_message(cx, self.params, format).await?)
        };
        Ok(cx.hub().send(cx.caller, new).await?)
    }
}

pub(super) async fn send_message(
    cx: &CallContext<'_>,
    format: WireFormat,
    raw: Option<&RawJson<'_>>,
) -> A2aHandlerResult {
    let send = IncomingSend::read(cx, format, raw)?;
    let (contents, is_immediate, is_new) = (send.contents, send.is_immediate, send.is_new());
    let id = if is_new {
        let new = NewTask {
            allow_inline_answer: true,
            ..send.new_task(cx).await?
        };
        let started = cx.hub().create_and_start(cx.caller, new).await?;
        let (task, watch) = (started.task, started.watch);
        cx.set_subject(task.id.as_str());
        let (end, deadline) = match is_immediate {
            true => (WaitEnd::FirstOutput, Instant::now() + DIRECT_WAIT),
            false => (WaitEnd::TurnOf(0), deadline(cx)),
        };
        wait_until(cx, &task, watch, end, deadline).await;
        task.id
    } else {
        let sent = send.continue_task(cx).await?;
        if !is_immediate {
            let end = WaitEnd::TurnOf(sent.index);
            wait_until(cx, &sent.task, None, end, deadline(cx)).await;
        }
        sent.task.id
    };
    let detail = read_task(cx, &id, contents).await?;
    let direct = is_new.then(|| convert::direct_answer(&detail)).flatten();
    let response = match direct {
        Some(answer) => SendMessageResponse::Message(Box::new(answer)),
        None => SendMessageResponse::Task(Box::new(convert::task(&detail, contents))),
    };
    reply(response, format)
}

/// Converts the message of a request.
async fn hub_message(
    cx: &CallContext<'_>,
    mut params: SendMessageRequest,
    format: WireFormat,
) -> Result<Message, CallError> {
    let named = std::mem::take(&mut params.message.reference_task_ids);
    if named.len() > MAX_REFERENCES {
        let expectation = Expectation::MaxLength(MAX_REFERENCES);
        return Err(refuse_field(
            "message.referenceTaskIds",
            expectation,
            format,
        ));
    }
    let mut references = Vec::new();
    for id in named {
        let Ok(id) = TaskId::new(id) else { continue };
        match cx.hub().task(cx.caller, &id).await {
            Ok(task) => references.push(task.id),
            Err(HubError::TaskNotFound(_)) => {}
            Err(error) => return Err(error.into()),
        }
    }
    convert::hub_message(params.message, references).map_err(|field| refuse(field, format))
}

fn context_id(id: Option<&str>, format: WireFormat) -> Result<Option<ContextId>, CallError> {
    let Some(id) = id.filter(|id| !id.is_empty()) else {
        return Ok(None);
    };
    let is_short = id.chars().count() <= MAX_CONTEXT_ID_CHARS;
    match ContextId::new(id) {
        Ok(id) if is_short => Ok(Some(id)),
        _ => {
            let rule = "must have at most 128 characters, and no control characters";
            let expectation = Expectation::Rule(rule);
            Err(refuse_field("message.contextId", expectation, format))
        }
    }
}

/// Returns the idempotency key of the request, if it has one. Within a batch there is none: the header would count for
/// all of its calls.
fn idempotency_key(
    cx: &CallContext<'_>,
    raw: Option<&RawJson<'_>>,
    format: WireFormat,
) -> Result<Option<IdempotencyKey>, CallError> {
    let header = IDEMPOTENCY_KEY;
    let mut keys = cx.meta.declared.header(&header);
    let Some(key) = keys.next().filter(|_| cx.meta.can_stream) else {
        return Ok(None);
    };
    let key = key.to_str().unwrap_or_default();
    let is_valid = (1..=MAX_KEY_LENGTH).contains(&key.len())
        && key.bytes().all(|byte| byte.is_ascii_graphic())
        && keys.next().is_none();
    if !is_valid {
        let rule = "must be one header with 1 to 255 visible ASCII characters";
        let expectation = Expectation::Rule(rule);
        return Err(refuse_field("Idempotency-Key", expectation, format));
    }
    let body = raw.map_or("{}", |params| params.as_str());
    Ok(Some(IdempotencyKey::new(
        format!("a2a/{key}"),
        body.as_bytes(),
    )))
}

/// Checks that the agent accepts the media types of these parts. An agent that names none accepts all.
fn check_media_types(
    parts: &[A2aPart],
    agent: &AgentInfo,
    format: WireFormat,
) -> Result<(), CallError> {
    let of_skills = agent.skills.iter().flat_map(|skill| &skill.input_modes);
    let accepted: Vec<_> = agent.profile.input_modes.iter().chain(of_skills).collect();
    let is_accepted = |media_type: &str| {
        accepted.is_empty()
            || accepted
                .iter()
                .any(|range| matches_range(media_type, range))
    };
    let sent = parts.iter().filter_map(|part| part.media_type.as_deref());
    for media_type in sent.filter(|media_type| !media_type.is_empty()) {
        if !is_accepted(media_type) {
            let error = A2aError::new(A2aErrorKind::ContentTypeNotSupported);
            return Err(refuse(error, format));
        }
    }
    Ok(())
}

/// True if a media type is in a media range. Parameters and case do not count.
fn matches_range(media_type: &str, range: &str) -> bool {
    let essence = |text: &str| {
        let essence = text.split(';').next().unwrap_or_default();
        essence.trim().to_ascii_lowercase()
    };
    let (media_type, range) = (essence(media_type), essence(range));
    match range.strip_suffix("/*") {
        Some("*") => true,
        Some(kind) => media_type.split('/').next() == Some(kind),
        None => media_type == range,
    }
}

/// Time at which a waiting call returns the task as it is: before the request times out.
fn deadline(cx: &CallContext<'_>) -> Instant {
    cx.meta.received_at + cx.zone.limits.request_timeout.mul_f32(0.9)
}

/// Waits for the end, the deadline or the shutdown of the zone. A read error also ends the wait: the task itself is
/// read afterwards.
async fn wait_until(
    cx: &CallContext<'_>,
    task: &Task,
    watch: Option<Watch>,
    end: WaitEnd,
    deadline: Instant,
) {
    if is_settled(task.state) {
        return;
    }
    let reached = async {
        let mut watch = match watch {
            Some(watch) => watch,
            None => {
                let subject = Subject::Task(task.id.clone());
                cx.hub().watch(cx.caller, subject, task.seq).await?
            }
        };
        loop {
            match watch.next().await? {
                Some(item) if !end.is_reached(&item) => {}
                Some(_) | None => return Ok::<(), HubError>(()),
            }
        }
    };
    tokio::select! {
        biased;
        reached = reached => if let Err(error) = reached {
            tracing::warn!(task = %task.id, %error, "waiting for the task failed");
        },
        () = cx.zone.stop.cancelled() => {}
        () = sleep_until(deadline) => {}
    }
}

/// True if a task in this state does nothing until a caller acts.
fn is_settled(state: TaskState) -> bool {
    state.is_terminal() || state.is_interrupted()
}

impl WaitEnd {
    pub(super) fn is_reached(self, item: &WatchItem) -> bool {
        let WatchItem::Event(event) = item else {
            return self == Self::FirstOutput;
        };
        match &event.body {
            EventBody::State { to, .. } => is_settled(*to),
            EventBody::Message { message, .. } => match (self, message.inline().answers()) {
                // If another message waits, the task goes on after the answer.
                (Self::TurnOf(index), Some(answered)) => answered >= index,
                (Self::FirstOutput, answered) => answered.is_some(),
                (Self::TurnOf(_), None) => false,
            },
            EventBody::Text { .. } | EventBody::Status { .. } | EventBody::Artifact { .. } => {
                self == Self::FirstOutput
            }
            _ => false,
        }
    }
}
