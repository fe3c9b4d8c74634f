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
use crate::rpc::call_summary::CallSummary;
use crate::rpc::errors::{CallError, WireError};
use crate::rpc::{CallContext, RequestMeta};
use crate::state::ExecutionState;
use interzone_edge::auth::Identity;
use interzone_edge::budget::ShareKey;
use interzone_edge::request_context::CorrelationId;
use interzone_hub::{Caller, EventBody, HubError, Watch, WatchItem};
use interzone_jsonrpc::{MethodName, Notification, RawJson, RequestId, Response};
use interzone_protocol::vocab::{ArtifactId, TaskId};
use interzone_protocol::zone::{ExecuteStatus, Method, PROGRESS_METHOD, TaskProgress};
use std::sync::Arc;
use std::time::Instant;

/// Status of the first notification, which announces the task id.
const ACCEPTED_STATUS: &str = "accepted";
/// Status after which the text starts over.
const RESTARTED_STATUS: &str = "restarted";

/// A streaming call.
pub(crate) struct ExecuteStream {
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
    record: StreamCallRecord,
}

/// Data for recording the call when it ends.
struct StreamCallRecord {
    identity: Arc<Identity>,
    correlation: CorrelationId,
    started: Instant,
}

/// Item of the stream.
pub(crate) enum StreamItem {
    /// A notification.
    Notification(ResponseBody),
    /// The response, which ends the stream.
    Response(ResponseBody),
    /// Nothing to send for an event.
    Nothing,
}

impl StreamItem {
    /// Attaches the memory reserved for it.
    fn with_reservation(self, memory: MemoryAccount) -> Self {
        let reserved = memory.into_reservation();
        match self {
            Self::Notification(body) => Self::Notification(body.with_reservation(reserved)),
            Self::Response(body) => Self::Response(body.with_reservation(reserved)),
            Self::Nothing => Self::Nothing,
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
            record: StreamCallRecord {
                identity: Arc::clone(&cx.authenticated.identity),
                correlation: cx.correlation().clone(),
                started: Instant::now(),
            },
        };
        // A caller that wants to cancel the task needs its id before the agent produces anything. Also sent if the
        // answer exists already, so that a retry starts like the original call.
        stream.pending =
            Some(stream.notification(|note| note.status = Some(ACCEPTED_STATUS.to_owned())));
        Ok(stream)
    }

    /// Returns the next item. Cancel safe: it may be dropped while waiting and called again.
    pub(crate) async fn next(&mut self, zone: &ExecutionState, meta: &RequestMeta) -> StreamItem {
        if let Some(item) = self.pending.take() {
            return item;
        }
        let item = match &mut self.watch {
            None => None,
            Some(watch) => match watch.next().await {
                Ok(item) => item,
                Err(error) => return self.on_store_error(zone, meta, &error),
            },
        };
        // Boxed: the future that handles an item is large, and the stream mostly waits.
        match Box::pin(self.handle_item(zone, meta, item)).await {
            Ok(item) => item,
            Err(error) => self.on_store_error(zone, meta, &error),
        }
    }

    async fn handle_item(
        &mut self,
        zone: &ExecutionState,
        meta: &RequestMeta,
        item: Option<WatchItem>,
    ) -> Result<StreamItem, HubError> {
        if item.as_ref().is_none_or(is_final) {
            let origin = Some(&self.origin);
            let memory = self.memory_account(zone);
            let outcome =
                outcome::load_outcome(zone, &self.caller, &self.task, origin, &memory).await?;
            return Ok(match outcome {
                ZoneOutcome::Running if item.is_some() => StreamItem::Nothing,
                ZoneOutcome::Running => self.finish_accepted(zone, meta),
                ZoneOutcome::Completed(completed) => {
                    let result = ZoneResult::Execute(Box::new(completed.result));
                    let spliced = completed.spliced;
                    let item = self.finish(zone, meta, ZoneReply { result, spliced }, "ok");
                    item.with_reservation(memory)
                }
                ZoneOutcome::Failed(error) => self.finish_failed(zone, meta, &error),
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
        let principal = Arc::clone(&self.record.identity.principal);
        MemoryAccount::new(&zone.limits.response_memory, ShareKey::Principal(principal))
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
        StreamItem::Notification(ResponseBody::new(json, spliced))
    }

    /// Ends a stream that cannot continue with `accepted`: the task goes on, and its result can be fetched later.
    pub(crate) fn finish_accepted(
        &mut self,
        zone: &ExecutionState,
        meta: &RequestMeta,
    ) -> StreamItem {
        let reply = self.accepted_reply();
        self.finish(zone, meta, reply, "accepted")
    }

    /// Returns an `accepted` response in place of one that cannot be sent; the call is already recorded.
    pub(crate) fn accepted_response(&self) -> ResponseBody {
        self.response(self.accepted_reply())
    }

    fn accepted_reply(&self) -> ZoneReply {
        let accepted = self
            .origin
            .result(ExecuteStatus::Accepted, self.task.as_str());
        ZoneReply::new(ZoneResult::Execute(Box::new(accepted)))
    }

    fn on_store_error(
        &mut self,
        zone: &ExecutionState,
        meta: &RequestMeta,
        error: &HubError,
    ) -> StreamItem {
        tracing::warn!(task = %self.task, %error, "streaming call ended early");
        self.finish_accepted(zone, meta)
    }

    fn finish(
        &mut self,
        zone: &ExecutionState,
        meta: &RequestMeta,
        reply: ZoneReply,
        label: &'static str,
    ) -> StreamItem {
        self.record_call(zone, meta, label, None);
        StreamItem::Response(self.response(reply))
    }

    fn response(&self, reply: ZoneReply) -> ResponseBody {
        let mut json = Vec::new();
        if let Ok(result) = RawJson::from_value(&reply) {
            Response::success(self.id.borrowed(), result).write_to(&mut json);
        }
        ResponseBody::new(json, reply.spliced)
    }

    fn finish_failed(
        &mut self,
        zone: &ExecutionState,
        meta: &RequestMeta,
        error: &WireError,
    ) -> StreamItem {
        self.record_call(zone, meta, error.label, Some(error.code.get()));
        let mut json = Vec::new();
        Response::failure(Some(self.id.borrowed()), error.to_error_object()).write_to(&mut json);
        StreamItem::Response(ResponseBody::new(json, Vec::new()))
    }

    fn record_call(
        &self,
        zone: &ExecutionState,
        meta: &RequestMeta,
        label: &'static str,
        code: Option<i32>,
    ) {
        CallSummary {
            identity: &self.record.identity,
            method: Method::ExecuteTask.name(),
            id: Some(&self.id),
            subject: Some(self.task.as_str()),
            outcome: label,
            code,
            duration: self.record.started.elapsed(),
            correlation: &self.record.correlation,
            peer: meta.peer.as_deref(),
            is_zone_call: true,
        }
        .emit(zone);
    }
}
