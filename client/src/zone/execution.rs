//! Waiting for an `execute_task`: by the events of the call, by asking again, by one after the other
//! when the line breaks. What was told is told once, and the task is begun once.

use super::call::{Call, cancel};
use super::{Waiting, read};
use crate::answer::{self, Told};
use crate::client::call::Opened;
use crate::clock::after;
use crate::error::{AnswerFault, Error};
use crate::transport::{ByteStream, TransportError};
use crate::watch::sse::{Event, Parser};
use futures_util::StreamExt;
use interzone_protocol::zone::{
    ErrorWord, ExecuteResult, ExecuteStatus, PROGRESS, TaskIdParams, TaskOutcome, TaskProgress,
    ZoneArtifact,
};
use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;
use tokio::time::{Instant, sleep_until, timeout_at};

/// The first wait before the peer is asked what came of it, and the longest.
const FIRST_WAIT: Duration = Duration::from_secs(2);
const LONGEST_WAIT: Duration = Duration::from_secs(10);
/// How long everything may take, and how long asking may take at least.
const BUDGET: Duration = Duration::from_secs(120);
const LEAST_BUDGET: Duration = Duration::from_secs(30);

/// What goes on while something is done.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ExecuteEvent {
    /// The peer has taken it up under this id.
    Begun {
        /// The task's id.
        task_id: String,
    },
    /// What the agent is doing, in its words.
    Status(String),
    /// What was added to the answer.
    Text(String),
    /// A file that was made.
    Artifact(ZoneArtifact),
}

/// An `execute_task` under way: its events, then its outcome.
pub struct Execution {
    call: Call,
    state: State,
    ready: VecDeque<ExecuteEvent>,
    raw: VecDeque<Event>,
    pub(super) outcome: Option<Result<ExecuteResult, Error>>,
    pub(super) task_id: Option<String>,
    began: Option<Instant>,
    /// The number of the last event.
    last: u64,
    /// Calls that broke off in a row.
    attempt: u32,
    /// What the agent said last that it is doing.
    line: Option<String>,
    cancelled: bool,
}

enum State {
    /// The call is due.
    Idle,
    /// The call is due then.
    Waiting(Instant),
    /// Its events come.
    Open {
        body: ByteStream,
        parser: Parser,
        heard: Instant,
    },
    /// The peer is asked what came of it.
    Asking {
        at: Instant,
        wait: Duration,
        until: Instant,
        budget: Duration,
    },
    Over,
}

impl Execution {
    pub(super) fn new(call: Call) -> Self {
        Self {
            call,
            state: State::Idle,
            ready: VecDeque::new(),
            raw: VecDeque::new(),
            outcome: None,
            task_id: None,
            began: None,
            last: 0,
            attempt: 0,
            line: None,
            cancelled: false,
        }
    }

    /// The id of the call, as JSON-RPC has it.
    pub fn id(&self) -> &str {
        self.call.id.as_str().unwrap_or_default()
    }

    /// The task's id, once the peer has told it.
    pub fn task_id(&self) -> Option<&str> {
        self.task_id.as_deref()
    }

    /// What goes on next; nothing once the outcome is known.
    ///
    /// Giving up on the future, as in a `select!`, loses nothing.
    pub async fn next(&mut self) -> Option<ExecuteEvent> {
        loop {
            if let Some(event) = self.ready.pop_front() {
                return Some(event);
            }
            match &mut self.state {
                State::Over => return None,
                State::Idle => self.begin().await,
                State::Waiting(until) => {
                    sleep_until(*until).await;
                    self.state = State::Idle;
                }
                State::Open { body, heard, .. } => {
                    let limit = self.call.client.settings().idle;
                    match timeout_at(after(*heard, limit), body.next()).await {
                        Ok(Some(Ok(bytes))) => self.read(&bytes),
                        Ok(Some(Err(error))) => self.broke(TransportError::broken(error).into()),
                        Ok(None) => self.broke(TransportError::broken(EndedEarly).into()),
                        Err(_) => self.broke(Error::TimedOut { after: limit }),
                    }
                }
                State::Asking { .. } => self.ask().await,
            }
        }
    }

    /// What came of it. Events that were not asked for are passed over.
    ///
    /// # Errors
    /// It failed, or could not be asked, as [`Error::error_word`] tells.
    pub async fn outcome(mut self) -> Result<ExecuteResult, Error> {
        while self.next().await.is_some() {}
        // Nothing follows but because there is an outcome.
        self.outcome.take().unwrap_or(Err(Error::Method))
    }

    /// Calls the task off. Tells whether there was still something to call off; what comes of the task
    /// can be waited for as before.
    ///
    /// # Errors
    /// The peer could not be asked.
    pub async fn cancel(&mut self) -> Result<bool, Error> {
        if self.began.is_none() || self.outcome.is_some() {
            return Ok(false);
        }
        self.cancelled = true;
        cancel(&self.call, self.task_id.clone()).await
    }

    async fn begin(&mut self) {
        self.began.get_or_insert_with(Instant::now);
        let (client, outgoing, id) = (&self.call.client, &self.call.outgoing, &self.call.id);
        if self.call.waiting != Waiting::Events {
            let answer = client.post(outgoing, |reply| answer::result(reply, id));
            let answer = answer.await.and_then(|result| read::executed(&result));
            return self.answered(answer);
        }
        match client.post_for_events(outgoing).await {
            Ok(Opened::Events(body)) => {
                self.state = State::Open {
                    body,
                    parser: Parser::new(client.settings().max_event),
                    heard: Instant::now(),
                };
            }
            Ok(Opened::Reply(reply)) => {
                let answer = answer::result(&reply, id);
                self.answered(answer.and_then(|result| read::executed(&result)));
            }
            Err(error) => self.finish(Err(error)),
        }
    }

    fn read(&mut self, bytes: &[u8]) {
        let State::Open { parser, heard, .. } = &mut self.state else {
            return;
        };
        *heard = Instant::now();
        let read = parser.push(bytes, &mut self.raw);
        while let Some(raw) = self.raw.pop_front() {
            match answer::event(&raw.data, &self.call.id) {
                Ok(Told::Note(note)) if note.method() == PROGRESS => {
                    // One that cannot be read tells nothing, and the answer is still to come.
                    if let Ok(progress) = note.decode_named() {
                        self.progress(progress);
                    }
                }
                Ok(Told::Note(_)) => {}
                Ok(Told::Result(result)) => {
                    self.raw.clear();
                    return self.answered(read::executed(&result));
                }
                Err(error) => {
                    self.raw.clear();
                    return self.finish(Err(error));
                }
            }
        }
        if read.is_err() {
            let limit = self.call.client.settings().max_event;
            self.finish(Err(AnswerFault::EventTooLarge { limit }.into()));
        }
    }

    fn progress(&mut self, progress: TaskProgress) {
        self.known(&progress.task_id);
        if progress.sequence <= self.last {
            return;
        }
        self.last = progress.sequence;
        if let Some(line) = progress.status {
            self.line = Some(line.clone());
            self.ready.push_back(ExecuteEvent::Status(line));
        }
        let text = progress.text_delta.map(ExecuteEvent::Text);
        self.ready.extend(text);
        let artifact = progress.artifact.map(ExecuteEvent::Artifact);
        self.ready.extend(artifact);
    }

    fn known(&mut self, task_id: &str) {
        if self.task_id.is_none() {
            self.task_id = Some(task_id.to_owned());
            let task_id = task_id.to_owned();
            self.ready.push_back(ExecuteEvent::Begun { task_id });
        }
    }

    fn answered(&mut self, answer: Result<ExecuteResult, Error>) {
        if let Ok(result) = &answer {
            if let Some(task_id) = result.task_id.clone() {
                self.known(&task_id);
            }
            if result.status == ExecuteStatus::Accepted && self.call.waiting != Waiting::Not {
                return self.go_on_asking(FIRST_WAIT);
            }
        }
        self.finish(answer);
    }

    /// The line broke before the answer came.
    fn broke(&mut self, error: Error) {
        self.raw.clear();
        let most = self.call.client.settings().retry.retries;
        if self.task_id.is_some() {
            self.go_on_asking(Duration::ZERO);
        } else if self.call.is_repeatable() && self.attempt < most {
            let wait = self.call.client.settings().retry.wait(self.attempt);
            self.attempt += 1;
            self.state = State::Waiting(after(Instant::now(), wait));
        } else {
            self.finish(Err(error));
        }
    }

    fn go_on_asking(&mut self, first: Duration) {
        let now = Instant::now();
        let elapsed = self.began.map_or(Duration::ZERO, |began| now - began);
        let usual = BUDGET.saturating_sub(elapsed).max(LEAST_BUDGET);
        let budget = self.call.budget.unwrap_or(usual);
        self.state = State::Asking {
            at: after(now, first),
            wait: FIRST_WAIT,
            until: after(now, budget),
            budget,
        };
    }

    /// Asks once, when it is time.
    async fn ask(&mut self) {
        let State::Asking {
            at, until, budget, ..
        } = self.state
        else {
            return;
        };
        let task_id = self.task_id.clone().unwrap_or_default();
        sleep_until(at.min(until)).await;
        if at > until || (at == until && budget.is_zero()) {
            return self.finish(Err(Error::OutOfTime {
                task_id,
                after: budget,
            }));
        }
        let params = TaskIdParams { task_id };
        let asked = self.call.client.get_task_result(&params);
        let line = match timeout_at(until, asked).await {
            Ok(Ok(TaskOutcome::Running(line))) => line,
            Ok(Ok(TaskOutcome::Done(result))) => return self.finish(Ok(*result)),
            Ok(Ok(TaskOutcome::Failed(fault))) => {
                return self.finish(Err(read::failed(fault).into()));
            }
            Ok(Err(error)) if !is_passing(&error) => {
                return self.finish(Err(Error::Poll(error.into())));
            }
            // Not there yet, or not now.
            Ok(Err(_)) | Err(_) => None,
        };
        if let Some(line) = line.filter(|line| self.line.as_ref() != Some(line)) {
            self.line = Some(line.clone());
            self.ready.push_back(ExecuteEvent::Status(line));
        }
        if let State::Asking { at, wait, .. } = &mut self.state {
            *at = after(Instant::now(), *wait);
            *wait = wait.mul_f64(1.5).min(LONGEST_WAIT);
        }
    }

    fn finish(&mut self, outcome: Result<ExecuteResult, Error>) {
        self.outcome = Some(outcome);
        self.state = State::Over;
    }
}

/// Whether to ask again after this error.
fn is_passing(error: &Error) -> bool {
    error.is_retryable() || error.error_word() == ErrorWord::TaskNotFound
}

/// The events ended before the last of them.
#[derive(Debug, thiserror::Error)]
#[error("the answer ended before it was whole")]
struct EndedEarly;

impl Drop for Execution {
    fn drop(&mut self) {
        let open = self.began.is_some() && self.outcome.is_none() && !self.cancelled;
        let over = matches!(self.state, State::Over);
        if !self.call.cancel_on_drop || !open || over {
            return;
        }
        // Without a runtime there is nobody who could do it.
        let Ok(runtime) = tokio::runtime::Handle::try_current() else {
            return;
        };
        let (call, task_id) = (self.call.clone(), self.task_id.take());
        runtime.spawn(async move {
            if let Err(error) = cancel(&call, task_id).await {
                tracing::debug!(%error, "a task that nobody waits for could not be called off");
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
