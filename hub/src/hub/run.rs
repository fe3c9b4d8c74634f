//! Runs: one claim of a task by one node, and everything written under it.
//!
//! Every write of a run carries its fencing token. When the claim is lost, because the task was canceled or claimed
//! by another node, all further writes of the run are rejected.

use super::Hub;
use super::task_change::{AnswerFlags, TaskChange};
use crate::agent::failure_message;
use crate::agent::{AgentError, Turn, TurnOutcome};
use crate::bus::BusMessage;
use crate::error::HubError;
use crate::event::EventBody;
use crate::fairness::RunShares;
use crate::lease::Lease;
use crate::ports::{Fence, Op, WorkClaim, WorkItem};
use crate::task::Task;
use interzone_protocol::vocab::{AgentId, Message, TaskState};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

mod direct_dispatch;
mod output;
mod text_buffer;
mod turn_start;

use direct_dispatch::FreshTask;
pub use direct_dispatch::{Dispatch, RunFuture, RunSlot, SlotProvider};
use text_buffer::{TextBuffer, push_text_event};
pub use turn_start::TurnStart;

/// Interval at which a run polls for cancellation, in case a notification was lost.
const CANCEL_POLL_INTERVAL: Duration = Duration::from_secs(5);

/// One claim of a task by one node.
pub struct Run {
    hub: Hub,
    work_item: WorkItem,
    node: String,
    /// Remaining validity of the claim.
    lease: Lease,
    /// Lease duration.
    lease_duration: Duration,
    /// True if the outcome is stored, or the claim is lost.
    is_settled: AtomicBool,
    cancel_token: CancellationToken,
    text_buffer: Mutex<TextBuffer>,
    /// Index of the message being answered.
    message_index: OnceLock<u32>,
    /// True if this is the first attempt at the first turn of the task.
    is_first_turn: AtomicBool,
    /// True if no message of the task had a fetch URL when the turn started.
    no_fetch_urls: AtomicBool,
    /// Held while buffered text is written.
    flush_lock: tokio::sync::Mutex<()>,
    /// The task, if it was created with this claim, until its turn starts.
    fresh_task: Mutex<Option<FreshTask>>,
    /// Bus messages since then, until they are subscribed to.
    receiver: Mutex<Option<broadcast::Receiver<BusMessage>>>,
    /// True while the transition to `Working` is not written yet.
    working_pending: AtomicBool,
    /// The task as last written by this run. If it has changed since, changes based on it are rejected as conflicts.
    last_written: Mutex<Option<Task>>,
}

impl Hub {
    /// Claims tasks for agents of this node, up to the given number per agent, of any owner.
    ///
    /// # Errors
    /// The store operation failed.
    pub async fn claim(
        &self,
        node: &str,
        wanted: Vec<(AgentId, usize)>,
        lease: Duration,
    ) -> Result<Vec<Arc<Run>>, HubError> {
        let unlimited = RunShares::default();
        self.claim_within(node, wanted, lease, unlimited).await
    }

    /// Like [`Self::claim`], but limits the runs of each owner by the shares.
    ///
    /// # Errors
    /// The store operation failed.
    pub async fn claim_within(
        &self,
        node: &str,
        wanted: Vec<(AgentId, usize)>,
        lease: Duration,
        shares: RunShares,
    ) -> Result<Vec<Arc<Run>>, HubError> {
        self.release_abandoned_work().await?;
        let requested_at = Instant::now();
        let claim = self.work_claim(node, wanted, lease, shares);
        let items = self.store().claim_work(&claim).await?;
        let run = |item| Arc::new(Run::new(self, item, &claim, requested_at, None));
        Ok(items.into_iter().map(run).collect())
    }

    /// Builds a claim that excludes the runs of this node.
    fn work_claim(
        &self,
        node: &str,
        wanted: Vec<(AgentId, usize)>,
        lease: Duration,
        shares: RunShares,
    ) -> WorkClaim {
        WorkClaim {
            node: node.to_owned(),
            wanted,
            now: self.now(),
            lease,
            running_claims: self.inner.leases.running_claims(),
            shares,
        }
    }
}

impl Run {
    /// The claimed work item.
    pub fn work_item(&self) -> &WorkItem {
        &self.work_item
    }

    /// Canceled when the run must stop.
    pub fn cancel_token(&self) -> &CancellationToken {
        &self.cancel_token
    }

    /// The lease of the claim.
    pub const fn lease(&self) -> &Lease {
        &self.lease
    }

    fn fence(&self) -> Fence {
        Fence {
            task_id: self.work_item.task_id.clone(),
            node: self.node.clone(),
            claim: self.work_item.claim,
        }
    }

    /// Marks the run as settled: its outcome is stored, or the claim is lost.
    fn mark_settled(&self) {
        self.is_settled.store(true, Ordering::Relaxed);
    }

    async fn read_task(&self) -> Result<Task, HubError> {
        let task = self.hub.store().task(&self.work_item.task_id).await?;
        task.ok_or_else(|| HubError::TaskNotFound(self.work_item.task_id.clone()))
    }

    /// Replaces the message being answered, for example by one with fetched attachments, for later reads and attempts.
    /// No event is emitted.
    ///
    /// # Errors
    /// The message is too large, the claim is lost, or the store operation failed.
    pub async fn replace_message(&self, message: Message) -> Result<(), HubError> {
        let Some(index) = self.message_index.get().copied() else {
            return Ok(());
        };
        self.hub.inner.limits.check_message(&message)?;
        let decide = |change: &mut TaskChange| {
            change.replace_message(index, message.clone());
            Ok(())
        };
        self.commit_change(decide).await?;
        Ok(())
    }

    /// Completes the turn. Messages that arrived during the turn start another one.
    ///
    /// # Errors
    /// The claim is lost, or the store operation failed.
    pub async fn complete(&self, turn: &Turn, outcome: TurnOutcome) -> Result<Task, HubError> {
        let limits = &self.hub.inner.limits;
        let is_direct = outcome.is_direct() && self.is_first_turn.load(Ordering::Relaxed);
        let (to, message) = outcome.into_transition(&self.work_item.agent);
        if let Some(message) = &message {
            limits.check_message(message)?;
        }
        let message_count = turn.task.message_count;
        let _guard = self.flush_lock.lock().await;
        let pending = self.pending_text();
        let is_streamed = message.as_ref().is_some_and(|m| self.has_streamed(m));
        let answers = self.message_index.get().copied();
        let decide = |change: &mut TaskChange| {
            push_text_event(change, &pending);
            let has_new_messages = change.task.message_count > message_count;
            if !has_new_messages && self.no_fetch_urls.load(Ordering::Relaxed) {
                change.skip_url_redaction();
            }
            if has_new_messages && !matches!(to, TaskState::Failed | TaskState::Rejected) {
                if let Some(message) = message.clone() {
                    let flags = AnswerFlags {
                        is_direct: false,
                        is_streamed,
                        answers: answers.filter(|_| to == TaskState::Completed),
                    };
                    change.add_answer(message, flags);
                }
                change.enqueue_work(&self.hub);
                return Ok(());
            }
            let flags = AnswerFlags {
                is_direct: is_direct && change.task.artifact_count == 0,
                is_streamed,
                answers,
            };
            change.respond_and_transition(to, message.clone(), flags)?;
            change.push_op(Op::DequeueWork(change.task.id.clone()));
            Ok(())
        };
        let (task, ()) = self.commit_change(decide).await?;
        self.mark_settled();
        self.mark_flushed(&pending);
        Ok(task)
    }

    /// Fails the turn after an agent error. The caller gets the stable error code, but no details.
    ///
    /// # Errors
    /// The claim is lost, or the store operation failed.
    pub async fn fail(&self, error: &AgentError) -> Result<Task, HubError> {
        let _guard = self.flush_lock.lock().await;
        let pending = self.pending_text();
        let text = format!("The agent could not finish this ({}).", error.code);
        let message = failure_message(error.code, text).with_agent_id(self.work_item.agent.clone());
        let decide = |change: &mut TaskChange| {
            push_text_event(change, &pending);
            change.transition(TaskState::Failed, Some(message.clone()))?;
            change.push_op(Op::DequeueWork(change.task.id.clone()));
            Ok(())
        };
        let (task, ()) = self.commit_change(decide).await?;
        self.mark_settled();
        self.mark_flushed(&pending);
        Ok(task)
    }

    /// Writes the transition to `Working`, if that is still pending.
    ///
    /// # Errors
    /// The claim is lost, or the store operation failed.
    pub async fn mark_working(&self) -> Result<(), HubError> {
        if self.working_pending.load(Ordering::Relaxed) {
            self.commit_change(|_| Ok(())).await?;
        }
        Ok(())
    }

    /// Renews the lease. If it is lost, the run is canceled.
    ///
    /// # Errors
    /// The store operation failed; the claim may still be held.
    pub async fn renew_lease(&self, lease: Duration) -> Result<bool, HubError> {
        let (requested_at, now) = (Instant::now(), self.hub.now());
        let (task_id, claim) = (&self.work_item.task_id, self.work_item.claim);
        let is_held = self
            .hub
            .store()
            .renew_work(task_id, &self.node, claim, lease, now)
            .await?;
        if is_held {
            self.lease.record_renewal(requested_at);
        } else {
            self.mark_settled();
            self.cancel_token.cancel();
        }
        Ok(is_held)
    }

    /// Releases the unfinished task, to be claimed by any node, because this node shuts down.
    ///
    /// # Errors
    /// The store operation failed.
    pub async fn release(&self) -> Result<bool, HubError> {
        self.release_after(Duration::ZERO).await
    }

    /// Like [`Run::release`], but it can be claimed only after this delay.
    ///
    /// # Errors
    /// The store operation failed.
    pub async fn release_after(&self, delay: Duration) -> Result<bool, HubError> {
        self.cancel_token.cancel();
        let now = self.hub.now();
        let (task_id, claim) = (&self.work_item.task_id, self.work_item.claim);
        let was_held = self
            .hub
            .store()
            .release_work(task_id, &self.node, claim, delay, now)
            .await?;
        self.mark_settled();
        Ok(was_held)
    }

    /// Waits until the task is canceled, then cancels the run. Checks on every event of the task, on any node.
    pub async fn wait_for_cancel(&self) {
        let (mut receiver, is_complete) = self.subscribe();
        let mut must_check = !is_complete;
        while !self.cancel_token.is_cancelled() {
            if must_check && self.is_task_finished().await {
                self.cancel_token.cancel();
                return;
            }
            must_check = tokio::select! {
                () = self.cancel_token.cancelled() => return,
                received = tokio::time::timeout(CANCEL_POLL_INTERVAL, receiver.recv()) => match received {
                    Ok(Ok(BusMessage::Event(event))) => match event.body {
                        EventBody::State { to, .. } if to.is_terminal() => {
                            self.cancel_token.cancel();
                            return;
                        }
                        _ => false,
                    },
                    Ok(Ok(BusMessage::TextDelta { .. })) => false,
                    Ok(Ok(BusMessage::LogAdvanced(_)) | Err(RecvError::Lagged(_))) | Err(_) => true,
                    Ok(Err(RecvError::Closed)) => {
                        receiver = self.subscribe().0;
                        true
                    }
                },
            };
        }
    }

    async fn is_task_finished(&self) -> bool {
        match self.read_task().await {
            Ok(task) => task.state.is_terminal(),
            Err(HubError::TaskNotFound(_)) => true,
            Err(_) => false,
        }
    }

    /// Commits a change under the claim. Cancels the run if the claim is lost or the task is finished.
    async fn commit_change<T>(
        &self,
        decide: impl Fn(&mut TaskChange) -> Result<T, HubError>,
    ) -> Result<(Task, T), HubError> {
        let decide = |change: &mut TaskChange| {
            if change.task.state.is_terminal() {
                return Err(HubError::Stopped);
            }
            self.apply_working_state(change)?;
            decide(change)
        };
        let cached = self.lock_last_written().take();
        let id = &self.work_item.task_id;
        let committing = self
            .hub
            .change_cached_task(cached, None, id, Some(self.fence()), decide);
        match committing.await {
            Ok((task, outcome)) => {
                self.working_pending.store(false, Ordering::Relaxed);
                *self.lock_last_written() = Some(task.clone());
                Ok((task, outcome))
            }
            Err(HubError::Stopped | HubError::TaskNotFound(_)) => {
                self.mark_settled();
                self.cancel_token.cancel();
                Err(HubError::Stopped)
            }
            Err(error) => Err(error),
        }
    }

    /// Adds the transition to `Working`, if that is still pending.
    fn apply_working_state(&self, change: &mut TaskChange) -> Result<(), HubError> {
        let working_pending = self.working_pending.load(Ordering::Relaxed);
        match working_pending && change.task.state == TaskState::Submitted {
            true => change.transition(TaskState::Working, None),
            false => Ok(()),
        }
    }

    fn lock_last_written(&self) -> MutexGuard<'_, Option<Task>> {
        self.last_written
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let is_settled = self.is_settled.load(Ordering::Relaxed);
        let fence = self.fence();
        self.hub.inner.leases.remove_run(fence, is_settled);
    }
}
