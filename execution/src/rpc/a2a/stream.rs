//! Streams of a task's events, which read only the log: every stream of a task gets the same events.
//!
//! A stream is one message, or the task and then its updates. It is polled when its connection can take more, and has
//! no queue.

use super::convert::{self, TaskContents};
use super::errors::no_streams_of_finished_task;
use super::handlers::{A2aHandlerResult, addressed_agent, find_task, read_params, read_task};
use super::send::{DIRECT_WAIT, IncomingSend, WaitEnd};
use super::updates::UpdateConverter;
use crate::memory::MemoryAccount;
use crate::rpc::body::ResponseBody;
use crate::rpc::context::CallContext;
use crate::rpc::errors::CallError;
use crate::rpc::reply::{
    CallReply, CallStream, SseFraming, StreamMessage, StreamOutcome, UnsendableMessage,
};
use crate::state::ExecutionState;
use async_trait::async_trait;
use interzone_edge::budget::ShareKey;
use interzone_hub::{
    Event, EventBody, HubError, NewTask, Subject, TaskDetail, Watch, WatchItem, adopt_message,
};
use interzone_jsonrpc::{RawJson, RequestId, Response};
use interzone_protocol::a2a::{StreamResponse, SubscribeToTaskRequest, WireFormat, WireObject};
use interzone_protocol::vocab::{TaskId, TaskState};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Time without events after which a stream is closed. Its client may subscribe again.
const MAX_IDLE: Duration = Duration::from_secs(3_600);

const OK: StreamOutcome = StreamOutcome {
    label: "ok",
    code: None,
};

/// A stream that replies to a call.
struct A2aStream {
    /// Id of the call; `None` is the null id.
    id: Option<RequestId<'static>>,
    format: WireFormat,
    /// True if it also ends when the task requires input.
    is_send: bool,
    /// First message, until it is sent.
    opening: Option<StreamMessage>,
    converter: UpdateConverter,
    watch: Option<Watch>,
    /// Events to send before those of the watch.
    events: VecDeque<Arc<Event>>,
    idle_until: Instant,
    /// Share of response memory that its messages count against.
    share: ShareKey,
}

/// SendStreamingMessage.
pub(super) async fn send_streaming_message(
    cx: &CallContext<'_>,
    format: WireFormat,
    raw: Option<&RawJson<'_>>,
) -> A2aHandlerResult {
    let send = IncomingSend::read(cx, format, raw)?;
    let contents = send.contents;
    if !send.is_new() {
        let sent = send.continue_task(cx).await?;
        return open(cx, &sent.task.id, contents, format, true).await;
    }
    let new: NewTask = send.new_task(cx).await?;
    let message = new.message.clone();
    let started = cx.hub().create_and_start(cx.caller, new).await?;
    let task = started.task;
    cx.set_subject(task.id.as_str());
    let Some(watch) = started.watch else {
        // A repetition of a call that created the task.
        return open(cx, &task.id, contents, format, true).await;
    };
    let mut watch = watch.log_only();
    let message = adopt_message(cx.caller, &task.agent, message);
    let detail = TaskDetail {
        task,
        status_message: None,
        messages: vec![message],
        artifacts: Vec::new(),
    };
    let (events, is_direct) = first_events(&mut watch).await;
    if is_direct {
        let contents = TaskContents::all(Some(0));
        let answered = read_task(cx, &detail.task.id, contents).await?;
        if let Some(answer) = convert::direct_answer(&answered) {
            let mut stream = A2aStream::new(cx, &detail, format, None);
            let answer = StreamResponse::Message(Box::new(answer));
            stream.opening = Some(stream.message(&answer, None, true)?);
            return Ok(CallReply::Stream(Box::new(stream)));
        }
    }
    let mut stream = A2aStream::new(cx, &detail, format, Some(watch));
    stream.events = events;
    stream.is_send = true;
    let task = StreamResponse::Task(Box::new(convert::task(&detail, contents)));
    stream.opening = Some(stream.message(&task, Some(detail.task.seq), false)?);
    Ok(CallReply::Stream(Box::new(stream)))
}

/// SubscribeToTask. In 0.3, a finished task is sent, and the stream ends.
pub(super) async fn subscribe_to_task(
    cx: &CallContext<'_>,
    format: WireFormat,
    raw: Option<&RawJson<'_>>,
) -> A2aHandlerResult {
    let params: SubscribeToTaskRequest = read_params(raw, format)?;
    let agent = addressed_agent(cx, params.tenant.as_deref(), format)?;
    let task = find_task(cx, &params.id, agent.as_ref(), format).await?;
    if task.state.is_terminal() && format == WireFormat::V1 {
        return Err(no_streams_of_finished_task(task.state, format));
    }
    open(cx, &task.id, TaskContents::all(None), format, false).await
}

/// Opens a stream with the task as it is now.
async fn open(
    cx: &CallContext<'_>,
    id: &TaskId,
    contents: TaskContents,
    format: WireFormat,
    is_send: bool,
) -> A2aHandlerResult {
    let detail = read_task(cx, id, contents).await?;
    let seq = detail.task.seq;
    let is_over = ends_stream(detail.task.state, is_send);
    let mut watch = None;
    if !is_over {
        let subject = Subject::Task(id.clone());
        watch = Some(cx.hub().watch(cx.caller, subject, 0).await?.log_only());
    }
    let mut stream = A2aStream::new(cx, &detail, format, None);
    stream.is_send = is_send;
    let mut task = convert::task(&detail, contents);
    if let Some(watch) = &mut watch {
        // The text of the current run is in the log only.
        while watch.position() < seq
            && let Some(item) = watch.next().await?
        {
            match item {
                WatchItem::Event(event) if event.seq <= seq => stream.converter.skip(&event),
                WatchItem::Event(event) => stream.events.push_back(event),
                WatchItem::TextDelta { .. } => {}
            }
        }
        if let Some(text) = stream.converter.take_streamed_text() {
            task.artifacts.get_or_insert_default().push(text);
        }
    }
    stream.watch = watch;
    let task = StreamResponse::Task(Box::new(task));
    stream.opening = Some(stream.message(&task, Some(seq), is_over)?);
    Ok(CallReply::Stream(Box::new(stream)))
}

/// Waits for the first output of the agent, but not for long. Returns the events until then, and true if the output is
/// a direct answer.
async fn first_events(watch: &mut Watch) -> (VecDeque<Arc<Event>>, bool) {
    let deadline = Instant::now() + DIRECT_WAIT;
    let mut events = VecDeque::new();
    while let Ok(Ok(Some(item))) = timeout_at(deadline, watch.next()).await {
        let is_output = WaitEnd::FirstOutput.is_reached(&item);
        let WatchItem::Event(event) = item else {
            continue;
        };
        let is_direct = matches!(event.body, EventBody::Message { direct: true, .. });
        events.push_back(event);
        if is_output {
            return (events, is_direct);
        }
    }
    (events, false)
}

/// True if a stream ends with a task in this state.
fn ends_stream(state: TaskState, is_send: bool) -> bool {
    state.is_terminal() || (is_send && state == TaskState::InputRequired)
}

impl A2aStream {
    fn new(
        cx: &CallContext<'_>,
        detail: &TaskDetail,
        format: WireFormat,
        watch: Option<Watch>,
    ) -> Self {
        Self {
            id: cx.id.map(|id| id.clone().into_owned()),
            format,
            is_send: false,
            opening: None,
            converter: UpdateConverter::new(detail),
            watch,
            events: VecDeque::new(),
            idle_until: Instant::now() + MAX_IDLE,
            share: cx.authenticated.share(),
        }
    }

    /// Builds a message of the stream.
    fn message(
        &self,
        response: &StreamResponse,
        seq: Option<u64>,
        is_last: bool,
    ) -> Result<StreamMessage, CallError> {
        let result = RawJson::from_value(&response.encode(self.format))
            .map_err(|_| CallError::Internal("unwritable_event"))?;
        let mut json = Vec::new();
        match &self.id {
            Some(id) => Response::success(id.borrowed(), result).write_to(&mut json),
            None => {
                json.extend_from_slice(br#"{"jsonrpc":"2.0","id":null,"result":"#);
                json.extend_from_slice(result.as_str().as_bytes());
                json.push(b'}');
            }
        }
        Ok(StreamMessage {
            body: ResponseBody::new(json, Vec::new()),
            id: seq,
            outcome: is_last.then_some(OK),
        })
    }

    /// Waits for the next event, which stays first in the queue until it is converted.
    async fn next_event(&mut self) -> Result<Option<Arc<Event>>, HubError> {
        while self.events.is_empty() {
            let Some(watch) = &mut self.watch else {
                return Ok(None);
            };
            match timeout_at(self.idle_until, watch.next()).await {
                Err(_) | Ok(Ok(None)) => return Ok(None),
                Ok(Err(error)) => return Err(error),
                Ok(Ok(Some(WatchItem::Event(event)))) => self.events.push_back(event),
                Ok(Ok(Some(WatchItem::TextDelta { .. }))) => {}
            }
        }
        self.idle_until = Instant::now() + MAX_IDLE;
        Ok(self.events.front().cloned())
    }

    async fn next_message(
        &mut self,
        zone: &ExecutionState,
    ) -> Result<Option<StreamMessage>, CallError> {
        while let Some(event) = self.next_event().await? {
            let memory = MemoryAccount::new(&zone.limits.response_memory, self.share.clone());
            let is_last = match &event.body {
                EventBody::State { to, .. } => ends_stream(*to, self.is_send),
                _ => false,
            };
            // Boxed: the future that restores content is large, and the stream mostly waits.
            let update = self.converter.convert(zone, &event, is_last, &memory);
            let update = Box::pin(update).await?;
            self.events.pop_front();
            if is_last {
                self.watch = None;
                self.events.clear();
            }
            if let Some(update) = update {
                let mut message = self.message(&update, Some(event.seq), is_last)?;
                message.body = message.body.with_reservation(memory.into_reservation());
                return Ok(Some(message));
            }
        }
        Ok(None)
    }
}

#[async_trait]
impl CallStream for A2aStream {
    fn framing(&self) -> SseFraming {
        SseFraming { event: None }
    }

    async fn next(&mut self, zone: &ExecutionState) -> Option<StreamMessage> {
        if let Some(opening) = self.opening.take() {
            return Some(opening);
        }
        match self.next_message(zone).await {
            Ok(message) => message,
            Err(error) => {
                tracing::warn!(task = %self.converter.task_id(), ?error, "streaming call ended early");
                self.watch = None;
                self.events.clear();
                None
            }
        }
    }

    /// A stream that ends before the task does says that the client should subscribe again.
    fn interrupt(&mut self) -> Option<StreamMessage> {
        None
    }

    fn replace_unsendable(&mut self, _: bool) -> UnsendableMessage {
        UnsendableMessage::End
    }
}
