//! Attending one run: the agent works, its lease is renewed, and whatever comes of it is written.
//!
//! An agent that panics, hangs or breaks ends its own run and nothing else.

use super::may_pass;
use super::options::{WorkerMetrics, WorkerOptions};
use super::paper::Paper;
use crate::agents::{refused, stopped};
use crate::intake::{Intake, Listener, add_skipped};
use crate::memory::MemoryAccount;
use interzone_edge::budget::ShareKey;
use interzone_hub::{
    Agent, AgentError, HubError, Outcome, Output, ReadMemory, Run, Task, Turn, TurnStart,
};
use std::convert::Infallible;
use std::pin::Pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

/// How long an agent that is cut off may take to come to an end.
const CUT: Duration = Duration::from_secs(1);

/// The waits between attempts to write: the first, and the longest.
const FIRST_WAIT: Duration = Duration::from_millis(50);
const LONGEST_WAIT: Duration = Duration::from_secs(2);

/// How long a task waits in the queue for which there was no memory.
const MEMORY_WAIT: Duration = Duration::from_secs(1);

/// The code of a run that waits for memory.
const NO_MEMORY: &str = "no_memory";

/// How runs are attended.
pub(super) struct Attendant {
    pub(super) options: Arc<WorkerOptions>,
    pub(super) metrics: Arc<dyn WorkerMetrics>,
    /// Set when the node leaves and cannot wait any longer.
    pub(super) cut: CancellationToken,
}

/// What happened first.
enum First {
    /// The agent ended.
    Ended(Result<Outcome, AgentError>),
    /// The run was stopped: called off, or taken over.
    Stopped,
    /// Its time is over.
    Late,
    /// The node leaves.
    Leaving,
}

type Work = JoinSet<Result<Outcome, AgentError>>;

/// What goes on beside the agent.
type Beside<'a> = Pin<&'a mut (dyn Future<Output = Infallible> + Send)>;

impl Attendant {
    /// Attends a run from its claim to its end.
    pub(super) async fn attend(&self, agent: Arc<dyn Agent>, run: Arc<Run>) {
        let began = Instant::now();
        let outcome = self.work(&agent, &run).await;
        let name = agent.info().id.as_str();
        self.metrics.agent_run(name, outcome, began.elapsed());
    }

    /// Counts a turn that was over before there was a run.
    pub(super) fn answered(&self, agent: &Arc<dyn Agent>, word: &'static str, took: Duration) {
        self.metrics.agent_run(agent.info().id.as_str(), word, took);
    }

    /// Does the work, and answers a word for what came of it.
    async fn work(&self, agent: &Arc<dyn Agent>, run: &Arc<Run>) -> &'static str {
        let task = &run.item().task_id;
        let principal = run.item().owner.principal.as_str().into();
        // It is kept until the run has ended.
        let memory = MemoryAccount::new(&self.options.memory, ShareKey::Principal(principal));
        let memory = Arc::new(memory);
        let turn = match self.persist(|| run.begin_within(Some(&*memory))).await {
            Ok(TurnStart::Turn(turn)) => *turn,
            Ok(TurnStart::Nothing) => return "nothing",
            Err(HubError::NoMemory) => return self.postpone(run).await,
            Err(error) => {
                tracing::warn!(%task, %error, "a run could not be begun");
                return self.give_back(run).await;
            }
        };
        let paper = Paper::new(run.clone());
        let mut work = Work::new();
        let (worker, given, output) = (agent.clone(), turn.clone(), paper.clone());
        match &self.options.intake {
            Some(intake) if Intake::concerns(&turn) => {
                let (intake, run, memory) = (intake.clone(), run.clone(), memory.clone());
                work.spawn(async move {
                    with_files(&intake, &run, &memory, worker, given, output).await
                });
            }
            _ => {
                work.spawn(async move { worker.run(given, output).await });
            }
        }
        let beside = async {
            let (_, lease, _, ()) = tokio::join!(
                run.watch_for_cancel(),
                self.keep_lease(run),
                paper.keep(),
                self.settle_in(run)
            );
            lease
        };
        tokio::pin!(beside);
        let deadline = self.options.turn_timeout_of(&agent.info().id);
        match self.first(run, &mut work, beside.as_mut(), deadline).await {
            First::Ended(Ok(outcome)) => with(beside, self.end(run, &turn, outcome)).await,
            // A run that was stopped has nothing to say any more, whatever it says.
            First::Ended(Err(_)) if run.stop().is_cancelled() => "stopped",
            First::Ended(Err(error)) if error.code == NO_MEMORY => {
                with(beside, self.postpone(run)).await
            }
            First::Ended(Err(error)) => with(beside, self.broke(run, &error)).await,
            First::Stopped => {
                with(beside, self.part_with(run, &mut work)).await;
                "stopped"
            }
            First::Late => {
                run.stop().cancel();
                with(beside.as_mut(), self.part_with(run, &mut work)).await;
                let error = AgentError {
                    code: "agent_timeout",
                    detail: format!("the turn took longer than {deadline:?}"),
                };
                with(beside, self.broke(run, &error)).await
            }
            First::Leaving => {
                // It is not given back before it has stopped, so that it never runs twice at once.
                run.stop().cancel();
                with(beside, self.part_with(run, &mut work)).await;
                self.give_back(run).await
            }
        }
    }

    async fn first(
        &self,
        run: &Run,
        work: &mut Work,
        beside: Beside<'_>,
        deadline: Duration,
    ) -> First {
        tokio::select! {
            biased;
            ended = work.join_next() => First::Ended(what_ended(ended)),
            () = run.stop().cancelled() => First::Stopped,
            () = self.cut.cancelled() => First::Leaving,
            () = tokio::time::sleep(deadline) => First::Late,
            never = beside => match never {},
        }
    }

    /// Renews the lease for as long as it can. A lease that could not be renewed in its time may soon be
    /// another node's, so the run stops. Its time is looked at before the store is asked, so that a node
    /// that was suspended stops at once.
    async fn keep_lease(&self, run: &Run) -> Infallible {
        let lease = self.options.lease;
        let (usual, soon) = (lease / 3, (lease / 15).min(Duration::from_secs(1)));
        let mut wait = usual;
        while let Some(left) = run.lease().left() {
            tokio::time::sleep(wait.min(left)).await;
            let left = run.lease().left().unwrap_or_default();
            if left.is_zero() {
                let task = &run.item().task_id;
                tracing::warn!(%task, "a lease could not be renewed in time; the run is given up");
                run.stop().cancel();
                break;
            }
            match tokio::time::timeout(left, run.renew(lease)).await {
                Ok(Ok(true)) => wait = usual,
                // The run has been told to stop.
                Ok(Ok(false)) => break,
                Ok(Err(error)) => {
                    let task = &run.item().task_id;
                    tracing::debug!(%task, %error, "a lease is not renewed yet");
                    wait = soon;
                }
                Err(_) => {}
            }
        }
        std::future::pending().await
    }

    /// Says that the task is being worked at, unless it is done before anybody would look.
    async fn settle_in(&self, run: &Run) {
        tokio::time::sleep(self.options.settle_after).await;
        if let Err(error) = run.settle_in().await {
            // It is said along with whatever the run says next.
            tracing::debug!(%error, "it is not written yet that a task is worked at");
        }
    }

    /// Waits for an agent that was told to stop, and cuts it off if it goes on.
    async fn part_with(&self, run: &Run, work: &mut Work) {
        let mut grace = self.options.stop_grace;
        if run.lease().is_lost() {
            // Another node may begin when the margin is over.
            grace = grace.min(run.lease().margin().saturating_sub(CUT));
        }
        if tokio::time::timeout(grace, work.join_next()).await.is_ok() {
            return;
        }
        let item = run.item();
        tracing::warn!(task = %item.task_id, agent = %item.agent, "an agent did not stop when told to and is cut off");
        work.abort_all();
        // One that holds its thread cannot be waited for.
        let _ = tokio::time::timeout(CUT, work.join_next()).await;
    }

    async fn end(&self, run: &Run, turn: &Turn, outcome: Outcome) -> &'static str {
        let word = outcome.word();
        let ended = self.persist(|| run.end(turn, outcome.clone())).await;
        match ended {
            // What the agent said is not fit to be kept, and it cannot be asked to say it otherwise.
            Err(error @ (HubError::TooLarge { .. } | HubError::TooMany { .. })) => {
                let error = AgentError {
                    code: "agent_output",
                    detail: format!("what it said was not taken: {error}"),
                };
                self.broke(run, &error).await
            }
            ended => written(run, ended, word),
        }
    }

    async fn broke(&self, run: &Run, error: &AgentError) -> &'static str {
        let (task, code) = (&run.item().task_id, error.code);
        let detail = error.detail.escape_debug();
        tracing::warn!(%task, agent = %run.item().agent, code, %detail, "an agent broke");
        let ended = self.persist(|| run.broke(error)).await;
        written(run, ended, code)
    }

    /// Gives back a run for which there was no seat.
    pub(super) async fn leave(&self, run: &Run) {
        self.give_back(run).await;
    }

    async fn give_back(&self, run: &Run) -> &'static str {
        self.give_back_for(run, Duration::ZERO).await
    }

    /// Gives back a run for which there is no memory: those that run give theirs back when they end.
    async fn postpone(&self, run: &Run) -> &'static str {
        let item = run.item();
        tracing::debug!(task = %item.task_id, agent = %item.agent, "run postponed: no memory for its input");
        self.give_back_for(run, MEMORY_WAIT).await
    }

    async fn give_back_for(&self, run: &Run, wait: Duration) -> &'static str {
        let given = self.persist(|| run.give_back_for(wait)).await;
        if let Err(error) = given {
            let task = &run.item().task_id;
            tracing::warn!(%task, %error, "a task could not be given back; it is abandoned");
        }
        "given_back"
    }

    /// Tries again what the store did not do, for about as long as others leave the task alone.
    async fn persist<T, F: Future<Output = Result<T, HubError>>>(
        &self,
        attempt: impl Fn() -> F,
    ) -> Result<T, HubError> {
        let until = Instant::now() + self.options.lease;
        let mut wait = FIRST_WAIT;
        loop {
            match attempt().await {
                // Memory has been waited for already.
                Err(HubError::NoMemory) => return Err(HubError::NoMemory),
                Err(error) if may_pass(&error) && Instant::now() + wait < until => {
                    tokio::time::sleep(wait).await;
                    wait = wait.saturating_mul(2).min(LONGEST_WAIT);
                }
                tried => return tried,
            }
        }
    }
}

/// Takes the attachments of a turn in, and lets the agent work with those that could be taken. What was
/// fetched is kept, so that another attempt need not fetch it again.
async fn with_files(
    intake: &Intake,
    run: &Run,
    memory: &MemoryAccount,
    agent: Arc<dyn Agent>,
    turn: Turn,
    output: Arc<dyn Output>,
) -> Result<Outcome, AgentError> {
    let stop = turn.stop.clone();
    let fetched = intake.bytes_to_fetch(&turn);
    if fetched > 0 && !memory.reserve(fetched).await {
        return Err(AgentError {
            code: NO_MEMORY,
            detail: "there is no memory for its attachments".to_owned(),
        });
    }
    let prepared = tokio::select! {
        biased;
        () = stop.cancelled() => return Err(stopped()),
        prepared = intake.prepare(turn) => prepared,
    };
    let (prepared, kept) = match prepared {
        Ok(mut prepared) => {
            let kept = prepared.kept.take();
            (Ok(prepared), kept)
        }
        Err(unprepared) => (Err(unprepared.said), unprepared.kept),
    };
    if let Some(kept) = kept {
        match run.replace_message(kept).await {
            Ok(()) => {}
            Err(HubError::Stopped) => return Err(stopped()),
            Err(error) => {
                let task = &run.item().task_id;
                tracing::warn!(%task, %error, "fetched attachments are not kept; another attempt fetches them again");
            }
        }
    }
    let prepared = match prepared {
        Ok(prepared) => prepared,
        Err(said) => return Ok(Outcome::Failed(said)),
    };
    if prepared.skipped.is_empty() {
        return agent.run(prepared.turn, output).await;
    }
    let listener = Listener::new(output);
    let outcome = agent.run(prepared.turn, listener.clone()).await?;
    add_skipped(outcome, &prepared.skipped, &prepared.sentence, &listener)
        .await
        .map_err(refused)
}

fn written(run: &Run, ended: Result<Task, HubError>, word: &'static str) -> &'static str {
    match ended {
        Ok(_) => word,
        Err(HubError::Stopped) => "stopped",
        Err(error) => {
            let task = &run.item().task_id;
            tracing::error!(%task, %error, "the end of a run could not be kept; it is run again");
            "lost"
        }
    }
}

/// How the agent's own task ended.
fn what_ended(
    ended: Option<Result<Result<Outcome, AgentError>, tokio::task::JoinError>>,
) -> Result<Outcome, AgentError> {
    match ended {
        Some(Ok(ended)) => ended,
        // What it panicked with may hold what the user said, so it is not told on.
        Some(Err(_)) | None => Err(AgentError {
            code: "agent_panicked",
            detail: "it panicked".to_owned(),
        }),
    }
}

/// Does one thing while another goes on.
async fn with<T>(beside: Beside<'_>, work: impl Future<Output = T>) -> T {
    tokio::select! {
        biased;
        done = work => done,
        never = beside => match never {},
    }
}
