//! Handle on a running program: sends it lines and routes its messages to the runs.

use super::protocol;
use bytes::Bytes;
use interzone_hub::{AgentError, TurnOutcome};
use interzone_protocol::vocab::{Artifact, TaskId};
use std::collections::{HashMap, HashSet};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

/// Capacity of the message channel of one run.
const RUN_CHANNEL_CAPACITY: usize = 32;

/// Message from the program to a run.
pub(super) enum AgentMessage {
    /// Text appended to the answer.
    Text(String),
    /// Progress status.
    Status(String),
    /// An artifact, or a further chunk of it.
    Artifact {
        artifact: Box<Artifact>,
        append: bool,
        last: bool,
    },
    /// The run has ended.
    Done(Box<Result<TurnOutcome, AgentError>>),
}

/// Handle on a running program.
pub(super) struct ProcessHandle {
    input: mpsc::Sender<Bytes>,
    runs: Mutex<ActiveRuns>,
    /// Set once the program has answered a run successfully.
    answered: AtomicBool,
    /// Canceled when the program is to be killed and replaced.
    kill_requested: CancellationToken,
}

#[derive(Default)]
struct ActiveRuns {
    closed: bool,
    last_id: i64,
    by_id: HashMap<i64, mpsc::Sender<AgentMessage>>,
    by_task: HashMap<TaskId, i64>,
    /// Canceled runs that the program has not answered yet.
    canceled: HashSet<i64>,
}

impl ProcessHandle {
    pub(super) fn new(input: mpsc::Sender<Bytes>) -> Arc<Self> {
        Arc::new(Self {
            input,
            runs: Mutex::default(),
            answered: AtomicBool::new(false),
            kill_requested: CancellationToken::new(),
        })
    }

    fn runs(&self) -> MutexGuard<'_, ActiveRuns> {
        self.runs.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Starts a run; returns `None` if the program has ended.
    pub(super) fn start_run(self: &Arc<Self>, task: &TaskId) -> Option<RunHandle> {
        let (sender, messages) = mpsc::channel(RUN_CHANNEL_CAPACITY);
        let mut runs = self.runs();
        if runs.closed {
            return None;
        }
        runs.last_id += 1;
        let id = runs.last_id;
        runs.by_id.insert(id, sender);
        // An earlier run of the same task has been canceled; the task's messages now belong to the new run.
        runs.by_task.insert(task.clone(), id);
        Some(RunHandle {
            process: self.clone(),
            id,
            task: task.clone(),
            messages,
            is_over: false,
        })
    }

    pub(super) fn is_open(&self) -> bool {
        !self.runs().closed
    }

    /// Closes the handle and ends all runs, because the program is gone.
    pub(super) fn close(&self) {
        let mut runs = self.runs();
        runs.closed = true;
        runs.by_id.clear();
        runs.by_task.clear();
        runs.canceled.clear();
    }

    /// Returns the number of runs.
    pub(super) fn run_count(&self) -> usize {
        self.runs().by_id.len()
    }

    /// Completes when the program is to be killed.
    pub(super) async fn kill_requested(&self) {
        self.kill_requested.cancelled().await;
    }

    pub(super) fn has_answered(&self) -> bool {
        self.answered.load(Ordering::Relaxed)
    }

    /// Delivers a message to its run, if that run exists.
    pub(super) async fn deliver(&self, run_ref: &protocol::RunRef, message: AgentMessage) {
        let run = {
            let runs = self.runs();
            let id = match run_ref {
                protocol::RunRef::Request(id) => Some(id),
                protocol::RunRef::Task(task) => runs.by_task.get(task),
            };
            id.and_then(|id| runs.by_id.get(id)).cloned()
        };
        let Some(run) = run else { return };
        if matches!(&message, AgentMessage::Done(outcome) if outcome.is_ok()) {
            self.answered.store(true, Ordering::Relaxed);
        }
        // Sending fails only if the run is over, and then the message is not needed. A slow run blocks the program's
        // output, for at most as long as the run may take.
        let _ = run.send(message).await;
    }

    /// Sends a line to the program if the queue has space.
    pub(super) fn try_send(&self, line: Bytes) {
        // A full queue means that the program does not read; the stdin writer detects that.
        let _ = self.input.try_send(line);
    }
}

/// Handle on one run of a program. Dropping it before the run is over cancels the run.
pub(super) struct RunHandle {
    process: Arc<ProcessHandle>,
    id: i64,
    task: TaskId,
    messages: mpsc::Receiver<AgentMessage>,
    is_over: bool,
}

impl RunHandle {
    pub(super) fn id(&self) -> i64 {
        self.id
    }

    pub(super) async fn next_message(&mut self) -> Option<AgentMessage> {
        self.messages.recv().await
    }

    pub(super) async fn send(&self, line: Bytes) -> Result<(), AgentError> {
        self.process
            .input
            .send(line)
            .await
            .map_err(|_| super::process_died_error())
    }

    /// Returns true if every run of the program has been canceled.
    pub(super) fn all_runs_canceled(&self) -> bool {
        let runs = self.process.runs();
        runs.by_id.len() == runs.canceled.len()
    }

    /// Requests that the process is killed and replaced; new runs wait for the replacement.
    pub(super) fn kill_process(&self) {
        self.process.close();
        self.process.kill_requested.cancel();
    }

    /// Sends the cancel notification for this run.
    pub(super) async fn cancel(&mut self) {
        self.is_over = true;
        self.process.runs().canceled.insert(self.id);
        if let Some(line) = protocol::cancel_notification(&self.task) {
            // If the program is gone there is nothing to cancel.
            let _ = self.process.input.send(line).await;
        }
    }

    /// Marks the run as answered, so that dropping the handle does not cancel it.
    pub(super) fn mark_done(&mut self) {
        self.is_over = true;
    }
}

impl Drop for RunHandle {
    fn drop(&mut self) {
        let mut runs = self.process.runs();
        runs.by_id.remove(&self.id);
        runs.canceled.remove(&self.id);
        if runs.by_task.get(&self.task) == Some(&self.id) {
            runs.by_task.remove(&self.task);
        }
        drop(runs);
        if !self.is_over
            && let Some(line) = protocol::cancel_notification(&self.task)
        {
            self.process.try_send(line);
        }
    }
}
