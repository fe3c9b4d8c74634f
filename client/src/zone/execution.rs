//! State machine that waits for an `execute_task`: by the call's event stream, by polling, or by polling after the
//! stream broke. Each event is delivered once, and the task is started once.

use super::call::{ExecuteCall, cancel_call};
use super::{WaitMode, decode};
use crate::client::call::EventsOrReply;
use crate::clock::saturating_deadline;
use crate::error::{Error, InvalidResponse};
use crate::response::{self, CallFrame};
use crate::sse::{SseEvent, SseParser};
use crate::transport::{ByteStream, TransportError};
use futures_util::StreamExt;
use interzone_protocol::zone::{
    ErrorReason, ExecuteResult, ExecuteStatus, PROGRESS_METHOD, TaskIdParams, TaskOutcome,
    TaskProgress, ZoneArtifact,
};
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout_at};

/// First and maximum poll interval.
const FIRST_POLL_WAIT: Duration = Duration::from_secs(2);
const MAX_POLL_WAIT: Duration = Duration::from_secs(10);
/// Default time limit of the whole call, and the minimum for polling.
const DEFAULT_TIMEOUT: Duration = Duration::from_secs(120);
const MIN_POLL_TIMEOUT: Duration = Duration::from_secs(30);

/// A progress event of an execution.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ExecuteEvent {
    /// The peer created a task with this id.
    Started {
        /// The task's id.
        task_id: String,
    },
    /// The agent's status line.
    Status(String),
    /// Text appended to the answer.
    Text(String),
    /// A created file.
    Artifact(ZoneArtifact),
}

/// A running `execute_task`: its events, then its outcome.
pub struct Execution {
    call: ExecuteCall,
    state: ExecutionPhase,
    ready: VecDeque<ExecuteEvent>,
    raw: VecDeque<SseEvent>,
    pub(super) outcome: Option<Result<ExecuteResult, Error>>,
    pub(super) task_id: Option<String>,
    started_at: Option<Instant>,
    /// Sequence number of the last event.
    last_sequence: u64,
    /// Consecutive interrupted calls.
    attempt: u32,
    /// The agent's last status line.
    last_status: Option<String>,
    is_cancelled: bool,
}

enum ExecutionPhase {
    /// The call is due.
    Idle,
    /// The call is due at this time.
    Waiting(Instant),
    /// The event stream is open.
    Open {
        body: ByteStream,
        parser: SseParser,
        last_read_at: Instant,
    },
    /// The result is polled.
    Polling {
        next_poll: Instant,
        wait: Duration,
        deadline: Instant,
        poll_timeout: Duration,
    },
    Finished,
}

impl Execution {
    pub(super) fn new(call: ExecuteCall) -> Self {
        Self {
            call,
            state: ExecutionPhase::Idle,
            ready: VecDeque::new(),
            raw: VecDeque::new(),
            outcome: None,
            task_id: None,
            started_at: None,
            last_sequence: 0,
            attempt: 0,
            last_status: None,
            is_cancelled: false,
        }
    }

    /// Returns the JSON-RPC id of the call.
    pub fn id(&self) -> &str {
        self.call.id.as_str().unwrap_or_default()
    }

    /// Returns the task's id, once the peer has sent it.
    pub fn task_id(&self) -> Option<&str> {
        self.task_id.as_deref()
    }

    /// Returns the next event; `None` once the outcome is available.
    ///
    /// Cancel safe: no event is lost if the future is dropped, as in a `select!`.
    pub async fn next(&mut self) -> Option<ExecuteEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            match &mut self.state {
                ExecutionPhase::Finished => return None,
                ExecutionPhase::Idle => self.connect().await,
                ExecutionPhase::Waiting(until) => {
                    sleep_until(*until).await;
                    self.state = ExecutionPhase::Idle;
                }
                ExecutionPhase::Open {
                    body,
                    last_read_at: heard,
                    ..
                } => {
                    let idle_timeout = self.call.client.settings().idle_timeout;
                    match timeout_at(saturating_deadline(*heard, idle_timeout), body.next()).await {
                        Ok(Some(Ok(bytes))) => self.on_bytes(&bytes),
                        Ok(Some(Err(error))) => {
                            self.on_disconnect(TransportError::broken(error).into())
                        }
                        Ok(None) => {
                            self.on_disconnect(TransportError::broken(UnexpectedEnd).into())
                        }
                        Err(_) => self.on_disconnect(Error::TimedOut {
                            after: idle_timeout,
                        }),
                    }
                }
                ExecutionPhase::Polling { .. } => self.poll_result().await,
            }
        }
    }

    /// Waits for the outcome. Remaining events are skipped.
    ///
    /// # Errors
    /// If the task failed or its result could not be requested; see [`Error::reason`].
    pub async fn outcome(mut self) -> Result<ExecuteResult, Error> {
        while self.next().await.is_some() {}
        // The loop ends only with an outcome.
        self.outcome.take().unwrap_or(Err(Error::Method))
    }

    /// Cancels the task. Returns false if it was already finished; the outcome can be awaited as before.
    ///
    /// # Errors
    /// If the peer could not be reached or rejected the request.
    pub async fn cancel(&mut self) -> Result<bool, Error> {
        if self.started_at.is_none() || self.outcome.is_some() {
            return Ok(false);
        }
        self.is_cancelled = true;
        cancel_call(&self.call, self.task_id.clone()).await
    }

    async fn connect(&mut self) {
        self.started_at.get_or_insert_with(Instant::now);
        let (client, outgoing, id) = (&self.call.client, &self.call.prepared, &self.call.id);
        if self.call.wait_mode != WaitMode::Stream {
            let response = client.post(outgoing, |reply| response::decode_result(reply, id));
            let result = response
                .await
                .and_then(|result| decode::decode_execute_result(&result));
            return self.on_result(result);
        }
        match client.post_for_events(outgoing).await {
            Ok(EventsOrReply::Events(body)) => {
                self.state = ExecutionPhase::Open {
                    body,
                    parser: SseParser::new(client.settings().max_event),
                    last_read_at: Instant::now(),
                };
            }
            Ok(EventsOrReply::Reply(reply)) => {
                let result = response::decode_result(&reply, id);
                self.on_result(result.and_then(|result| decode::decode_execute_result(&result)));
            }
            Err(error) => self.finish(Err(error)),
        }
    }

    fn on_bytes(&mut self, bytes: &[u8]) {
        let ExecutionPhase::Open {
            parser,
            last_read_at: heard,
            ..
        } = &mut self.state
        else {
            return;
        };
        *heard = Instant::now();
        let parsed = parser.push(bytes, &mut self.raw);
        while let Some(raw) = self.raw.pop_front() {
            match response::decode_frame(&raw.data, &self.call.id) {
                Ok(CallFrame::Notification(note)) if note.method() == PROGRESS_METHOD => {
                    // An invalid progress event is skipped; the result is still to come.
                    if let Ok(progress) = note.decode_named() {
                        self.on_progress(progress);
                    }
                }
                Ok(CallFrame::Notification(_)) => {}
                Ok(CallFrame::Result(result)) => {
                    self.raw.clear();
                    return self.on_result(decode::decode_execute_result(&result));
                }
                Err(error) => {
                    self.raw.clear();
                    return self.finish(Err(error));
                }
            }
        }
        if parsed.is_err() {
            let limit = self.call.client.settings().max_event;
            self.finish(Err(InvalidResponse::EventTooLarge { limit }.into()));
        }
    }

    fn on_progress(&mut self, progress: TaskProgress) {
        self.set_task_id(&progress.task_id);
        if progress.sequence <= self.last_sequence {
            return;
        }
        self.last_sequence = progress.sequence;
        if let Some(line) = progress.status {
            self.last_status = Some(line.clone());
            self.ready.push_back(ExecuteEvent::Status(line));
        }
        let text = progress.text_delta.map(ExecuteEvent::Text);
        self.ready.extend(text);
        let artifact = progress.artifact.map(ExecuteEvent::Artifact);
        self.ready.extend(artifact);
    }

    fn set_task_id(&mut self, task_id: &str) {
        if self.task_id.is_none() {
            self.task_id = Some(task_id.to_owned());
            let task_id = task_id.to_owned();
            self.ready.push_back(ExecuteEvent::Started { task_id });
        }
    }

    fn on_result(&mut self, result: Result<ExecuteResult, Error>) {
        if let Ok(result) = &result {
            if let Some(task_id) = result.task_id.clone() {
                self.set_task_id(&task_id);
            }
            if result.status == ExecuteStatus::Accepted && self.call.wait_mode != WaitMode::NoWait {
                return self.start_polling(FIRST_POLL_WAIT);
            }
        }
        self.finish(result);
    }

    /// Handles an interrupted event stream.
    fn on_disconnect(&mut self, error: Error) {
        self.raw.clear();
        let max_retries = self.call.client.settings().retry.retries;
        if self.task_id.is_some() {
            self.start_polling(Duration::ZERO);
        } else if self.call.is_idempotent() && self.attempt < max_retries {
            let wait = self.call.client.settings().retry.backoff_for(self.attempt);
            self.attempt += 1;
            self.state = ExecutionPhase::Waiting(saturating_deadline(Instant::now(), wait));
        } else {
            self.finish(Err(error));
        }
    }

    fn start_polling(&mut self, first_wait: Duration) {
        let now = Instant::now();
        let elapsed = self
            .started_at
            .map_or(Duration::ZERO, |started_at| now - started_at);
        let default_timeout = DEFAULT_TIMEOUT
            .saturating_sub(elapsed)
            .max(MIN_POLL_TIMEOUT);
        let poll_timeout = self.call.poll_timeout.unwrap_or(default_timeout);
        self.state = ExecutionPhase::Polling {
            next_poll: saturating_deadline(now, first_wait),
            wait: FIRST_POLL_WAIT,
            deadline: saturating_deadline(now, poll_timeout),
            poll_timeout,
        };
    }

    /// Polls the result once, when it is due.
    async fn poll_result(&mut self) {
        let ExecutionPhase::Polling {
            next_poll: at,
            deadline: until,
            poll_timeout: budget,
            ..
        } = self.state
        else {
            return;
        };
        let task_id = self.task_id.clone().unwrap_or_default();
        sleep_until(at.min(until)).await;
        if at > until || (at == until && budget.is_zero()) {
            return self.finish(Err(Error::TaskTimeout {
                task_id,
                after: budget,
            }));
        }
        let params = TaskIdParams { task_id };
        let request = self.call.client.get_task_result(&params);
        let status = match timeout_at(until, request).await {
            Ok(Ok(TaskOutcome::Running(line))) => line,
            Ok(Ok(TaskOutcome::Done(result))) => return self.finish(Ok(*result)),
            Ok(Ok(TaskOutcome::Failed(error))) => {
                return self.finish(Err(decode::decode_failure(error).into()));
            }
            Ok(Err(error)) if !is_transient_poll_error(&error) => {
                return self.finish(Err(Error::Poll(error.into())));
            }
            // Still running, or a transient failure.
            Ok(Err(_)) | Err(_) => None,
        };
        if let Some(line) = status.filter(|line| self.last_status.as_ref() != Some(line)) {
            self.last_status = Some(line.clone());
            self.ready.push_back(ExecuteEvent::Status(line));
        }
        if let ExecutionPhase::Polling {
            next_poll: at,
            wait,
            ..
        } = &mut self.state
        {
            *at = saturating_deadline(Instant::now(), *wait);
            *wait = wait.mul_f64(1.5).min(MAX_POLL_WAIT);
        }
    }

    fn finish(&mut self, outcome: Result<ExecuteResult, Error>) {
        self.outcome = Some(outcome);
        self.state = ExecutionPhase::Finished;
    }
}

/// Returns true if polling should continue after this error.
fn is_transient_poll_error(error: &Error) -> bool {
    error.is_retryable() || error.reason() == ErrorReason::TaskNotFound
}

/// The event stream ended without a result.
#[derive(Debug, thiserror::Error)]
#[error("the response ended before it was complete")]
struct UnexpectedEnd;

impl Drop for Execution {
    fn drop(&mut self) {
        let is_running = self.started_at.is_some() && self.outcome.is_none() && !self.is_cancelled;
        let is_finished = matches!(self.state, ExecutionPhase::Finished);
        if !self.call.cancel_on_drop || !is_running || is_finished {
            return;
        }
        // Without a runtime the request cannot be sent.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let (call, task_id) = (self.call.clone(), self.task_id.take());
        runtime.spawn(async move {
            if let Err(error) = cancel_call(&call, task_id).await {
                tracing::debug!(%error, "cancelling a dropped task failed");
            }
        });
    }
}

impl fmt::Debug for Execution {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Execution")
            .field("id", &self.call.id)
            .field("task_id", &self.task_id)
            .finish_non_exhaustive()
    }
}
