//! Runs one claimed task: the agent runs, its lease is renewed, and the outcome is stored.
//!
//! An agent that panics, hangs or fails only ends its own run.

use super::options::{WorkerMetrics, WorkerOptions};
use crate::agents::{output_error, stopped_error};
use crate::attachments::{AttachmentLoader, StreamDetector, append_skipped};
use crate::memory::MemoryAccount;
use async_trait::async_trait;
use interzone_backoff::Backoff;
use interzone_edge::budget::ShareKey;
use interzone_hub::{
    Agent, AgentError, HubError, ReadMemory, Run, Task, Turn, TurnOutcome, TurnOutput, TurnStart,
};
use interzone_protocol::vocab::Artifact;
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// Time for an aborted agent to end.
const ABORT_TIMEOUT: Duration = Duration::from_secs(1);

/// Delays between retries of a store write.
const STORE_BACKOFF: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));

/// Flush delay, slightly longer than the run buffers text.
const FLUSH_DELAY: Duration = Duration::from_millis(55);

/// Delay after a failed flush.
const FLUSH_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Delay before a task that lacked memory is claimed again.
const MEMORY_RETRY_DELAY: Duration = Duration::from_secs(1);

/// Error code of a run that lacks memory.
const NO_MEMORY: &str = "no_memory";

/// Runner of tasks.
pub(super) struct TaskRunner {
    pub(super) options: Arc<WorkerOptions>,
    pub(super) metrics: Arc<dyn WorkerMetrics>,
    /// Cancelled at shutdown when the grace period is over.
    pub(super) kill: CancellationToken,
}

/// First event of a run.
enum RunEvent {
    /// The agent returned an outcome.
    Completed(Box<TurnOutcome>),
    /// The agent returned an error, or panicked.
    Failed(AgentError),
    /// The run was canceled, or its lease was lost.
    Stopped,
    /// The turn timed out.
    TimedOut,
    /// The node shuts down.
    Shutdown,
}

type AgentTask = JoinSet<Result<TurnOutcome, AgentError>>;

/// Side tasks that run concurrently with the agent: lease renewal, cancel watch, text flush.
type SideTasks<'a> = Pin<&'a mut (dyn Future<Output = Infallible> + Send)>;

impl TaskRunner {
    /// Runs a claimed task to its end.
    pub(super) async fn run(&self, agent: Arc<dyn Agent>, run: Arc<Run>) {
        let started = Instant::now();
        let outcome = self.execute(&agent, &run).await;
        let name = agent.info().id.as_str();
        self.metrics.agent_run(name, outcome, started.elapsed());
    }

    /// Records a turn that was answered inline, without a run.
    pub(super) fn record_inline_answer(
        &self,
        agent: &Arc<dyn Agent>,
        label: &'static str,
        duration: Duration,
    ) {
        self.metrics
            .agent_run(agent.info().id.as_str(), label, duration);
    }

    /// Runs the agent and returns the outcome label.
    async fn execute(&self, agent: &Arc<dyn Agent>, run: &Arc<Run>) -> &'static str {
        let task = &run.work_item().task_id;
        let principal = run.work_item().owner.principal.as_str().into();
        // Held until the run has ended.
        let memory = MemoryAccount::new(&self.options.memory, ShareKey::Principal(principal));
        let memory = Arc::new(memory);
        let turn = match self
            .retry_store(|| run.start_turn_within(Some(&*memory)))
            .await
        {
            Ok(TurnStart::Turn(turn)) => *turn,
            Ok(TurnStart::NothingToDo) => return "already_canceled",
            Err(HubError::NoMemory) => return self.postpone(run).await,
            Err(error) => {
                tracing::warn!(%task, %error, "starting the run failed");
                return self.release(run).await;
            }
        };
        let run_output = RunOutput::new(run.clone());
        let mut agent_task = AgentTask::new();
        let (runner, agent_turn, output) = (agent.clone(), turn.clone(), run_output.clone());
        match &self.options.attachments {
            Some(loader) if AttachmentLoader::has_attachments(&turn) => {
                let (loader, run, memory) = (loader.clone(), run.clone(), memory.clone());
                agent_task.spawn(async move {
                    run_with_attachments(&loader, &run, &memory, runner, agent_turn, output).await
                });
            }
            _ => {
                agent_task.spawn(async move { runner.run(agent_turn, output).await });
            }
        }
        let side_tasks = async {
            let (_, lease, _, ()) = tokio::join!(
                run.wait_for_cancel(),
                self.renew_lease(run),
                run_output.flush_loop(),
                self.mark_working_after_delay(run)
            );
            lease
        };
        tokio::pin!(side_tasks);
        let deadline = self.options.turn_timeout_of(&agent.info().id);
        match self
            .next_event(run, &mut agent_task, side_tasks.as_mut(), deadline)
            .await
        {
            RunEvent::Completed(outcome) => {
                with_side_tasks(side_tasks, self.complete(run, &turn, *outcome)).await
            }
            // A stopped run has no outcome, even if the agent returned one.
            RunEvent::Failed(_) if run.cancel_token().is_cancelled() => "stopped",
            RunEvent::Failed(error) if error.code == NO_MEMORY => {
                with_side_tasks(side_tasks, self.postpone(run)).await
            }
            RunEvent::Failed(error) => with_side_tasks(side_tasks, self.fail(run, &error)).await,
            RunEvent::Stopped => {
                with_side_tasks(side_tasks, self.stop_agent(run, &mut agent_task)).await;
                "stopped"
            }
            RunEvent::TimedOut => {
                run.cancel_token().cancel();
                with_side_tasks(side_tasks.as_mut(), self.stop_agent(run, &mut agent_task)).await;
                let error = AgentError {
                    code: "agent_timeout",
                    detail: format!("the turn took longer than {deadline:?}"),
                };
                with_side_tasks(side_tasks, self.fail(run, &error)).await
            }
            RunEvent::Shutdown => {
                // Released only after the agent has stopped, so that the task never runs twice at once.
                run.cancel_token().cancel();
                with_side_tasks(side_tasks, self.stop_agent(run, &mut agent_task)).await;
                self.release(run).await
            }
        }
    }

    async fn next_event(
        &self,
        run: &Run,
        agent_task: &mut AgentTask,
        side_tasks: SideTasks<'_>,
        deadline: Duration,
    ) -> RunEvent {
        tokio::select! {
            biased;
            ended = agent_task.join_next() => match join_result(ended) {
                Ok(outcome) => RunEvent::Completed(Box::new(outcome)),
                Err(error) => RunEvent::Failed(error),
            },
            () = run.cancel_token().cancelled() => RunEvent::Stopped,
            () = self.kill.cancelled() => RunEvent::Shutdown,
            () = tokio::time::sleep(deadline) => RunEvent::TimedOut,
            never = side_tasks => match never {},
        }
    }

    /// Renews the lease for as long as possible. If it could not be renewed in time, another node may claim the
    /// task, so the run stops. The remaining time is checked before the store is called, so that a node that was
    /// suspended stops at once.
    async fn renew_lease(&self, run: &Run) -> Infallible {
        let lease = self.options.lease;
        let (interval, retry_delay) = (lease / 3, (lease / 15).min(Duration::from_secs(1)));
        let mut wait = interval;
        while let Some(remaining) = run.lease().remaining() {
            tokio::time::sleep(wait.min(remaining)).await;
            let remaining = run.lease().remaining().unwrap_or_default();
            if remaining.is_zero() {
                let task = &run.work_item().task_id;
                tracing::warn!(%task, "lease renewal timed out, stopping the run");
                run.cancel_token().cancel();
                break;
            }
            match tokio::time::timeout(remaining, run.renew_lease(lease)).await {
                Ok(Ok(true)) => wait = interval,
                // The run has been stopped.
                Ok(Ok(false)) => break,
                Ok(Err(error)) => {
                    let task = &run.work_item().task_id;
                    tracing::debug!(%task, %error, "lease renewal failed, retrying");
                    wait = retry_delay;
                }
                Err(_) => {}
            }
        }
        std::future::pending().await
    }

    /// Moves the task to `Working` after a short delay; skipped if the run finishes first.
    async fn mark_working_after_delay(&self, run: &Run) {
        tokio::time::sleep(self.options.working_delay).await;
        if let Err(error) = run.mark_working().await {
            // The state is written together with the next output of the run.
            tracing::debug!(%error, "moving the task to working failed");
        }
    }

    /// Waits for an agent that was told to stop, and aborts it after the grace period.
    async fn stop_agent(&self, run: &Run, agent_task: &mut AgentTask) {
        let mut grace = self.options.stop_grace;
        if run.lease().is_lost() {
            // Another node may start the task when the lease margin is over.
            grace = grace.min(run.lease().margin().saturating_sub(ABORT_TIMEOUT));
        }
        if tokio::time::timeout(grace, agent_task.join_next())
            .await
            .is_ok()
        {
            return;
        }
        let item = run.work_item();
        tracing::warn!(task = %item.task_id, agent = %item.agent, "agent did not stop in time, aborting");
        agent_task.abort_all();
        // An agent that blocks its thread cannot be aborted.
        let _ = tokio::time::timeout(ABORT_TIMEOUT, agent_task.join_next()).await;
    }

    async fn complete(&self, run: &Run, turn: &Turn, outcome: TurnOutcome) -> &'static str {
        let label = outcome.label();
        let completed = self
            .retry_store(|| run.complete(turn, outcome.clone()))
            .await;
        match completed {
            // The output exceeds a limit, and the agent cannot be asked for another.
            Err(error @ (HubError::TooLarge { .. } | HubError::TooMany { .. })) => {
                let error = AgentError {
                    code: "agent_output",
                    detail: format!("the agent's output was rejected: {error}"),
                };
                self.fail(run, &error).await
            }
            ended => outcome_label(run, ended, label),
        }
    }

    async fn fail(&self, run: &Run, error: &AgentError) -> &'static str {
        let (task, code) = (&run.work_item().task_id, error.code);
        let detail = error.detail.escape_debug();
        tracing::warn!(%task, agent = %run.work_item().agent, code, %detail, "agent run failed");
        let completed = self.retry_store(|| run.fail(error)).await;
        outcome_label(run, completed, code)
    }

    /// Releases a run for which there was no slot.
    pub(super) async fn release_unstarted(&self, run: &Run) {
        self.release(run).await;
    }

    async fn release(&self, run: &Run) -> &'static str {
        self.release_after(run, Duration::ZERO).await
    }

    /// Releases a run for which there is no memory; running ones free theirs when they end.
    async fn postpone(&self, run: &Run) -> &'static str {
        let item = run.work_item();
        tracing::debug!(task = %item.task_id, agent = %item.agent, "run postponed: no memory for its input");
        self.release_after(run, MEMORY_RETRY_DELAY).await
    }

    async fn release_after(&self, run: &Run, delay: Duration) -> &'static str {
        let released = self.retry_store(|| run.release_after(delay)).await;
        if let Err(error) = released {
            let task = &run.work_item().task_id;
            tracing::warn!(%task, %error, "releasing the task failed");
        }
        "given_back"
    }

    /// Retries a store operation on transient errors, for about the duration of the lease.
    async fn retry_store<T, F: Future<Output = Result<T, HubError>>>(
        &self,
        attempt: impl Fn() -> F,
    ) -> Result<T, HubError> {
        let deadline = Instant::now() + self.options.lease;
        let mut retry = 0_u32;
        loop {
            let delay = STORE_BACKOFF.delay(retry);
            match attempt().await {
                // Reserving memory has its own timeout.
                Err(HubError::NoMemory) => return Err(HubError::NoMemory),
                Err(error) if error.is_retryable() && Instant::now() + delay < deadline => {
                    tokio::time::sleep(delay).await;
                    retry = retry.saturating_add(1);
                }
                result => return result,
            }
        }
    }
}

/// Loads the attachments of a turn and runs the agent with those that could be loaded. Downloads are stored, so that a
/// retry need not repeat them.
async fn run_with_attachments(
    loader: &AttachmentLoader,
    run: &Run,
    memory: &MemoryAccount,
    agent: Arc<dyn Agent>,
    turn: Turn,
    output: Arc<dyn TurnOutput>,
) -> Result<TurnOutcome, AgentError> {
    let stop = turn.cancel_token.clone();
    let download_bytes = loader.bytes_to_fetch(&turn);
    if download_bytes > 0 && !memory.reserve(download_bytes).await {
        return Err(AgentError {
            code: NO_MEMORY,
            detail: "no memory is left for the attachments".to_owned(),
        });
    }
    let prepared = tokio::select! {
        biased;
        () = stop.cancelled() => return Err(stopped_error()),
        prepared = loader.prepare(turn) => prepared,
    };
    let (prepared, stored_message) = match prepared {
        Ok(mut prepared) => {
            let stored_message = prepared.stored_message.take();
            (Ok(prepared), stored_message)
        }
        Err(failure) => (Err(failure.failure), failure.stored_message),
    };
    if let Some(stored_message) = stored_message {
        match run.replace_message(stored_message).await {
            Ok(()) => {}
            Err(HubError::Stopped) => return Err(stopped_error()),
            Err(error) => {
                let task = &run.work_item().task_id;
                tracing::warn!(%task, %error, "storing downloaded attachments failed");
            }
        }
    }
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(failure) => return Ok(TurnOutcome::Failed(failure)),
    };
    if prepared.skipped.is_empty() {
        return agent.run(prepared.turn, output).await;
    }
    let detector = StreamDetector::new(output);
    let outcome = agent.run(prepared.turn, detector.clone()).await?;
    append_skipped(
        outcome,
        &prepared.skipped,
        &prepared.skipped_sentence,
        &detector,
    )
    .await
    .map_err(output_error)
}

fn outcome_label(
    run: &Run,
    completed: Result<Task, HubError>,
    label: &'static str,
) -> &'static str {
    match completed {
        Ok(_) => label,
        Err(HubError::Stopped) => "stopped",
        Err(error) => {
            let task = &run.work_item().task_id;
            tracing::error!(%task, %error, "storing the outcome failed, task will rerun");
            "lost"
        }
    }
}

/// Returns the result of the agent's Tokio task.
fn join_result(
    joined: Option<Result<Result<TurnOutcome, AgentError>, tokio::task::JoinError>>,
) -> Result<TurnOutcome, AgentError> {
    match joined {
        Some(Ok(result)) => result,
        // The panic payload may contain user content, so it is not reported.
        Some(Err(_)) | None => Err(AgentError {
            code: "agent_panicked",
            detail: "the agent panicked".to_owned(),
        }),
    }
}

/// Runs a future while the side tasks continue.
async fn with_side_tasks<T>(side_tasks: SideTasks<'_>, work: impl Future<Output = T>) -> T {
    tokio::select! {
        biased;
        done = work => done,
        never = side_tasks => match never {},
    }
}

/// Output of an agent: writes to the run and flushes buffered text.
struct RunOutput {
    run: Arc<Run>,
    text_added: Notify,
}

impl RunOutput {
    fn new(run: Arc<Run>) -> Arc<Self> {
        let text_added = Notify::new();
        Arc::new(Self { run, text_added })
    }

    /// Flushes buffered text after a short delay. Sleeps while there is none.
    async fn flush_loop(&self) -> Infallible {
        loop {
            self.text_added.notified().await;
            tokio::time::sleep(FLUSH_DELAY).await;
            if let Err(error) = self.run.flush_if_due().await {
                // The run itself notices what stops it; other errors may be transient.
                tracing::debug!(%error, "flushing text failed, retrying");
                tokio::time::sleep(FLUSH_RETRY_DELAY).await;
                self.text_added.notify_one();
            }
        }
    }
}

#[async_trait]
impl TurnOutput for RunOutput {
    async fn text(&self, delta: &str) -> Result<(), HubError> {
        let result = self.run.text(delta).await;
        self.text_added.notify_one();
        result
    }

    async fn status(&self, text: &str) -> Result<(), HubError> {
        self.run.status(text).await
    }

    async fn artifact(&self, artifact: Artifact, append: bool, last: bool) -> Result<(), HubError> {
        self.run.artifact(artifact, append, last).await
    }
}
