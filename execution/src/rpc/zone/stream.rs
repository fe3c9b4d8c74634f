//! Streaming `execute_task`: progress notifications, then the response.
//!
//! It is polled when its connection can take more, and has no queue: a slow client reads on in the log and never
//! blocks an agent.

use super::convert::{CallOrigin, has_answer};
use super::outcome::{self, ZoneOutcome};
use super::reply_files::{ReplyFiles, artifact_files};
use super::waiter::{TaskWaiter, is_final};
use super::{ZoneReply, ZoneResult};
use crate::files::Language;
use crate::memory::MemoryAccount;
use crate::rpc::body::{ResponseBody, SplicedText};
use crate::rpc::context::CallContext;
use crate::rpc::errors::{CallError, WireError};
use crate::rpc::reply::{CallStream, SseFraming, StreamMessage, StreamOutcome, UnsendableMessage};
use crate::state::ExecutionState;
use async_trait::async_trait;
use interzone_edge::budget::ShareKey;
use interzone_hub::{Caller, EventBody, HubError, Watch, WatchItem};
use interzone_jsonrpc::{MethodName, Notification, RawJson, RequestId, Response};
use interzone_protocol::vocab::{ArtifactId, TaskId};
use interzone_protocol::zone::{ExecuteStatus, PROGRESS_METHOD, TaskProgress};

/// Status of the first notification, which announces the task id.
const ACCEPTED_STATUS: &str = "accepted";
/// Status after which the text starts over.
const RESTARTED_STATUS: &str = "restarted";

/// A streaming call.
pub(super) struct ExecuteStream {
    id: RequestId<'static>,
    task: TaskId,
    caller: Caller,
    origin: CallOrigin,
    watch: Option<Watch>,
    /// Sequence number of the last notification.
    sequence: u64,
    /// Run whose text is being sent.
    run: Option<u64>,
    sent_files: usize,
    /// Item to return before the next event.
    pending: Option<StreamItem>,
    /// Share of response memory that its messages count against.
    share: ShareKey,
    is_finished: bool,
}

/// Result of handling an event.
enum StreamItem {
    /// A notification, or the response, which ends the stream.
    Message(StreamMessage),
    /// Nothing to send for an event.
    Nothing,
}

impl StreamItem {
    /// Attaches the memory reserved for it.
    fn with_reservation(self, memory: MemoryAccount) -> Self {
        match self {
            Self::Message(mut message) => {
                let reserved = memory.into_reservation();
                message.body = message.body.with_reservation(reserved);
                Self::Message(message)
            }
            Self::Nothing => Self::Nothing,
        }
    }
}

#[async_trait]
impl CallStream for ExecuteStream {
    fn framing(&self) -> SseFraming {
        SseFraming {
            event: Some("message"),
        }
    }

    async fn next(&mut self, zone: &ExecutionState) -> Option<StreamMessage> {
        loop {
            if self.is_finished {
                return None;
            }
            if let StreamItem::Message(message) = self.next_item(zone).await {
                return Some(message);
            }
        }
    }

    /// Ends with `accepted`: the task goes on, and its result can be fetched later.
    fn interrupt(&mut self) -> Option<StreamMessage> {
        match self.finish_accepted() {
            StreamItem::Message(message) => Some(message),
            StreamItem::Nothing => None,
        }
    }

    fn replace_unsendable(&mut self, is_last: bool) -> UnsendableMessage {
        if is_last {
            // A few bytes, which need no response memory; the caller fetches the result later.
            UnsendableMessage::EndWith(self.response(self.accepted_reply()))
        } else {
            // The response has the content of every notification.
            UnsendableMessage::Skip
        }
    }
}

impl ExecuteStream {
    pub(super) async fn start(
        cx: &CallContext<'_>,
        mut waiter: TaskWaiter,
        after: u64,
        origin: CallOrigin,
        id: &RequestId<'_>,
    ) -> Result<Self, CallError> {
        // A task that already has its answer gets no past events.
        let watch = if has_answer(waiter.task.state) {
            None
        } else {
            Some(waiter.watch(cx.zone, cx.caller, after).await?)
        };
        let mut stream = Self {
            id: id.clone().into_owned(),
            task: waiter.task.id,
            caller: cx.caller.clone(),
            origin,
            watch,
            sequence: 0,
            run: None,
            sent_files: 0,
            pending: None,
            share: cx.authenticated.share(),
            is_finished: false,
        };
        // A caller that wants to cancel the task needs its id before the agent produces anything. Also sent if the
        // answer exists already, so that a retry starts like the original call.
        stream.pending =
            Some(stream.notification(|note| note.status = Some(ACCEPTED_STATUS.to_owned())));
        Ok(stream)
    }

    async fn next_item(&mut self, zone: &ExecutionState) -> StreamItem {
        if let Some(item) = self.pending.take() {
            return item;
        }
        let item = match &mut self.watch {
            None => None,
            Some(watch) => match watch.next().await {
                Ok(item) => item,
                Err(error) => return self.on_store_error(&error),
            },
        };
        // Boxed: the future that handles an item is large, and the stream mostly waits.
        match Box::pin(self.handle_item(zone, item)).await {
            Ok(item) => item,
            Err(error) => self.on_store_error(&error),
        }
    }

    async fn handle_item(
        &mut self,
        zone: &ExecutionState,
        item: Option<WatchItem>,
    ) -> Result<StreamItem, HubError> {
        if item.as_ref().is_none_or(is_final) {
            let origin = Some(&self.origin);
            let memory = self.memory_account(zone);
            let outcome =
                outcome::load_outcome(zone, &self.caller, &self.task, origin, &memory).await?;
            return Ok(match outcome {
                ZoneOutcome::Running if item.is_some() => StreamItem::Nothing,
                ZoneOutcome::Running => self.finish_accepted(),
                ZoneOutcome::Completed(completed) => {
                    let result = ZoneResult::Execute(Box::new(completed.result));
                    let spliced = completed.spliced;
                    let item = self.finish(ZoneReply { result, spliced }, "ok");
                    item.with_reservation(memory)
                }
                ZoneOutcome::Failed(error) => self.finish_failed(&error),
            });
        }
        Ok(match item {
            Some(WatchItem::TextDelta { run, delta, .. }) => self.text(run, &delta),
            Some(WatchItem::Event(event)) => match &event.body {
                EventBody::Text { run, delta, .. } => self.text(*run, delta),
                EventBody::Status { text } => {
                    self.notification(|progress| progress.status = Some(text.clone()))
                }
                EventBody::Artifact {
                    artifact,
                    last: true,
                    ..
                } => {
                    let id = artifact.inline().artifact_id().clone();
                    self.send_artifact(zone, &id).await?
                }
                _ => StreamItem::Nothing,
            },
            None => StreamItem::Nothing,
        })
    }

    fn text(&mut self, run: u64, delta: &str) -> StreamItem {
        if delta.is_empty() {
            return StreamItem::Nothing;
        }
        // A node that died leaves the text incomplete, and the next run starts it over.
        let is_restarted = self.run.is_some_and(|current| current != run);
        self.run = Some(run);
        let restarted = is_restarted.then(|| {
            self.notification(|progress| progress.status = Some(RESTARTED_STATUS.to_owned()))
        });
        let text = self.notification(|progress| progress.text_delta = Some(delta.to_owned()));
        match restarted {
            None => text,
            Some(restarted) => {
                self.pending = Some(text);
                restarted
            }
        }
    }

    /// Sends the first file of a completed artifact. Skipped files are reported with the answer.
    async fn send_artifact(
        &mut self,
        zone: &ExecutionState,
        id: &ArtifactId,
    ) -> Result<StreamItem, HubError> {
        let memory = self.memory_account(zone);
        let snapshot = zone
            .hub
            .task_without_blobs(&self.caller, &self.task, 1, Some(&memory))
            .await?;
        let artifacts = snapshot.artifacts.iter();
        let mut artifacts = artifacts.filter(|offloaded| offloaded.inline().artifact_id() == id);
        let Some(offloaded) = artifacts.next() else {
            return Ok(StreamItem::Nothing);
        };
        if zone.files.check_count(self.sent_files + 1).is_err() {
            return Ok(StreamItem::Nothing);
        }
        let mut reply_files = ReplyFiles::default();
        for candidate in artifact_files(offloaded, false) {
            let task = self.task.as_str();
            reply_files
                .add(zone, task, &candidate, Language::English, &memory)
                .await?;
        }
        let Some(file) = reply_files.files.into_iter().next() else {
            return Ok(StreamItem::Nothing);
        };
        self.sent_files += 1;
        let spliced = reply_files.spliced;
        let item = self.notification_with(|progress| progress.artifact = Some(file), spliced);
        Ok(item.with_reservation(memory))
    }

    /// Creates the memory account for the next message.
    fn memory_account(&self, zone: &ExecutionState) -> MemoryAccount {
        MemoryAccount::new(&zone.limits.response_memory, self.share.clone())
    }

    fn notification(&mut self, set: impl FnOnce(&mut TaskProgress)) -> StreamItem {
        self.notification_with(set, Vec::new())
    }

    fn notification_with(
        &mut self,
        set: impl FnOnce(&mut TaskProgress),
        spliced: Vec<SplicedText>,
    ) -> StreamItem {
        self.sequence += 1;
        let mut progress = TaskProgress {
            task_id: self.task.to_string(),
            sequence: self.sequence,
            status: None,
            text_delta: None,
            artifact: None,
        };
        set(&mut progress);
        let (Ok(method), Ok(params)) = (
            MethodName::new(PROGRESS_METHOD),
            RawJson::from_value(&progress),
        ) else {
            return StreamItem::Nothing;
        };
        let mut json = Vec::new();
        Notification::new(method)
            .with_params(params)
            .write_to(&mut json);
        StreamItem::Message(StreamMessage {
            body: ResponseBody::new(json, spliced),
            id: None,
            outcome: None,
        })
    }

    fn finish_accepted(&mut self) -> StreamItem {
        self.finish(self.accepted_reply(), "accepted")
    }

    fn accepted_reply(&self) -> ZoneReply {
        let accepted = self
            .origin
            .result(ExecuteStatus::Accepted, self.task.as_str());
        ZoneReply::new(ZoneResult::Execute(Box::new(accepted)))
    }

    fn on_store_error(&mut self, error: &HubError) -> StreamItem {
        tracing::warn!(task = %self.task, %error, "streaming call ended early");
        self.finish_accepted()
    }

    fn finish(&mut self, reply: ZoneReply, label: &'static str) -> StreamItem {
        let body = self.response(reply);
        self.finish_with(body, StreamOutcome { label, code: None })
    }

    fn finish_failed(&mut self, error: &WireError) -> StreamItem {
        let mut json = Vec::new();
        Response::failure(Some(self.id.borrowed()), error.to_error_object()).write_to(&mut json);
        let outcome = StreamOutcome {
            label: error.label,
            code: Some(error.code.get()),
        };
        self.finish_with(ResponseBody::new(json, Vec::new()), outcome)
    }

    fn finish_with(&mut self, body: ResponseBody, outcome: StreamOutcome) -> StreamItem {
        self.is_finished = true;
        StreamItem::Message(StreamMessage {
            body,
            id: None,
            outcome: Some(outcome),
        })
    }

    fn response(&self, reply: ZoneReply) -> ResponseBody {
        let mut json = Vec::new();
        if let Ok(result) = RawJson::from_value(&reply.result) {
            Response::success(self.id.borrowed(), result).write_to(&mut json);
        }
        ResponseBody::new(json, reply.spliced)
    }
}
