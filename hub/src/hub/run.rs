//! Runs: one claim of a task by one node, and everything that is written under it.
//!
//! Every write of a run carries the proof of its claim. When the claim is lost, because the task was
//! called off or another node took it over, nothing that the run writes arrives any more.

use super::Hub;
use super::draft::Draft;
use crate::agent::{AgentError, Outcome, Turn};
use crate::bus::News;
use crate::error::HubError;
use crate::event::EventBody;
use crate::failure::failure;
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

mod begin;
mod birth;
mod output;
mod text;

pub use begin::TurnStart;
use birth::Newborn;
pub use birth::{Begins, Birth, Desk, Seat};
use text::{Growing, draft_text};

/// How long a run relies on being told that its task is called off before it looks by itself.
const LOOK_EVERY: Duration = Duration::from_secs(5);

/// One claim of a task by one node.
pub struct Run {
    hub: Hub,
    item: WorkItem,
    node: String,
    /// For how long this node may rely on the claim.
    lease: Lease,
    /// How long a claim lasts.
    length: Duration,
    /// Whether the store knows what became of it, or has taken the claim away.
    settled: AtomicBool,
    stop: CancellationToken,
    text: Mutex<Growing>,
    /// The place of the message that is being answered.
    asked: OnceLock<u32>,
    /// Whether no message of the task had an address to fetch from when the turn began.
    no_address: AtomicBool,
    /// Held while growing text is written.
    writing: tokio::sync::Mutex<()>,
    /// The task, if it was made with this claim, until its turn begins.
    newborn: Mutex<Option<Newborn>>,
    /// What has happened to it since, until somebody listens.
    news: Mutex<Option<broadcast::Receiver<News>>>,
    /// Whether it is not written yet that the task is being worked at.
    unmoved: AtomicBool,
    /// The task as this run has last written it. Somebody else may have changed it since, and then what
    /// is decided by it is not written.
    known: Mutex<Option<Task>>,
}

impl Hub {
    /// Claims tasks for agents of this node: for each agent at most so many, of any owner.
    ///
    /// # Errors
    /// The store did not do it.
    pub async fn claim(
        &self,
        node: &str,
        wanted: Vec<(AgentId, usize)>,
        lease: Duration,
    ) -> Result<Vec<Arc<Run>>, HubError> {
        let unlimited = RunShares::default();
        self.claim_within(node, wanted, lease, unlimited).await
    }

    /// The same, and of each owner no more than the shares admit.
    ///
    /// # Errors
    /// The store did not do it.
    pub async fn claim_within(
        &self,
        node: &str,
        wanted: Vec<(AgentId, usize)>,
        lease: Duration,
        shares: RunShares,
    ) -> Result<Vec<Arc<Run>>, HubError> {
        self.free_abandoned_work().await?;
        let asked = Instant::now();
        let claim = self.work_claim(node, wanted, lease, shares);
        let items = self.store().claim_work(&claim).await?;
        let run = |item| Arc::new(Run::new(self, item, &claim, asked, None));
        Ok(items.into_iter().map(run).collect())
    }

    /// What this node asks for: nothing that it works at already.
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
            running: self.inner.holdings.running(),
            shares,
        }
    }
}

impl Run {
    /// What was claimed.
    pub fn item(&self) -> &WorkItem {
        &self.item
    }

    /// Set when the run must stop.
    pub fn stop(&self) -> &CancellationToken {
        &self.stop
    }

    /// For how long this node may rely on the claim.
    pub const fn lease(&self) -> &Lease {
        &self.lease
    }

    fn fence(&self) -> Fence {
        Fence {
            task_id: self.item.task_id.clone(),
            node: self.node.clone(),
            claim: self.item.claim,
        }
    }

    /// Notes that the store knows what became of the run, or has taken the claim away.
    fn settled(&self) {
        self.settled.store(true, Ordering::Relaxed);
    }

    async fn head(&self) -> Result<Task, HubError> {
        let task = self.hub.store().task(&self.item.task_id).await?;
        task.ok_or_else(|| HubError::TaskNotFound(self.item.task_id.clone()))
    }

    /// Keeps the message that is being answered in another form, such as with its attachments fetched,
    /// for the next time that the task is read or taken up. Watchers are not told.
    ///
    /// # Errors
    /// It is too large, the claim is lost, or the store did not do it.
    pub async fn replace_message(&self, message: Message) -> Result<(), HubError> {
        let Some(index) = self.asked.get().copied() else {
            return Ok(());
        };
        self.hub.inner.limits.message(&message)?;
        let decide = |draft: &mut Draft| {
            draft.replace_message(index, message.clone());
            Ok(())
        };
        self.write(decide).await?;
        Ok(())
    }

    /// Ends the turn. Messages that came while it lasted begin another.
    ///
    /// # Errors
    /// The claim is lost, or the store did not do it.
    pub async fn end(&self, turn: &Turn, outcome: Outcome) -> Result<Task, HubError> {
        let limits = &self.hub.inner.limits;
        let (to, said) = outcome.told_by(&self.item.agent);
        if let Some(message) = &said {
            limits.message(message)?;
        }
        let seen = turn.task.messages;
        let _in_order = self.writing.lock().await;
        let grown = self.grown();
        let decide = |draft: &mut Draft| {
            draft_text(draft, &grown);
            let more_came = draft.task.messages > seen;
            if !more_came && self.no_address.load(Ordering::Relaxed) {
                draft.has_no_address();
            }
            if more_came && !matches!(to, TaskState::Failed | TaskState::Rejected) {
                if let Some(message) = said.clone() {
                    draft.add_message(message);
                }
                draft.queue(&self.hub);
                return Ok(());
            }
            draft.say_and_move(to, said.clone())?;
            draft.op(Op::EndWork(draft.task.id.clone()));
            Ok(())
        };
        let (task, ()) = self.write(decide).await?;
        self.settled();
        self.is_written(&grown);
        Ok(task)
    }

    /// Ends the turn of an agent that broke. The caller learns a stable word, and no details.
    ///
    /// # Errors
    /// The claim is lost, or the store did not do it.
    pub async fn broke(&self, error: &AgentError) -> Result<Task, HubError> {
        let _in_order = self.writing.lock().await;
        let grown = self.grown();
        let said = format!("The agent could not finish this ({}).", error.code);
        let said = failure(error.code, said).with_agent_id(self.item.agent.clone());
        let decide = |draft: &mut Draft| {
            draft_text(draft, &grown);
            draft.move_to(TaskState::Failed, Some(said.clone()))?;
            draft.op(Op::EndWork(draft.task.id.clone()));
            Ok(())
        };
        let (task, ()) = self.write(decide).await?;
        self.settled();
        self.is_written(&grown);
        Ok(task)
    }

    /// Writes that the task is being worked at, if that is not written yet.
    ///
    /// # Errors
    /// The claim is lost, or the store did not do it.
    pub async fn settle_in(&self) -> Result<(), HubError> {
        if self.unmoved.load(Ordering::Relaxed) {
            self.write(|_| Ok(())).await?;
        }
        Ok(())
    }

    /// Extends the claim. If it is lost, the run is told to stop.
    ///
    /// # Errors
    /// The store did not do it; the claim may still be held.
    pub async fn renew(&self, lease: Duration) -> Result<bool, HubError> {
        let (asked, now) = (Instant::now(), self.hub.now());
        let (task_id, claim) = (&self.item.task_id, self.item.claim);
        let held = self
            .hub
            .store()
            .renew_work(task_id, &self.node, claim, lease, now)
            .await?;
        if held {
            self.lease.renewed(asked);
        } else {
            self.settled();
            self.stop.cancel();
        }
        Ok(held)
    }

    /// Gives the task back unfinished, to be claimed by any node: this one is going away.
    ///
    /// # Errors
    /// The store did not do it.
    pub async fn give_back(&self) -> Result<bool, HubError> {
        self.give_back_for(Duration::ZERO).await
    }

    /// As [`Run::give_back`], to be claimed no sooner than after this time.
    ///
    /// # Errors
    /// The store did not do it.
    pub async fn give_back_for(&self, wait: Duration) -> Result<bool, HubError> {
        self.stop.cancel();
        let now = self.hub.now();
        let (task_id, claim) = (&self.item.task_id, self.item.claim);
        let held = self
            .hub
            .store()
            .release_work(task_id, &self.node, claim, wait, now)
            .await?;
        self.settled();
        Ok(held)
    }

    /// Waits until the task is called off, then tells the run to stop. It looks whenever something
    /// happens to the task, on whichever node.
    pub async fn watch_for_cancel(&self) {
        let (mut news, all_heard) = self.listen();
        let mut look = !all_heard;
        while !self.stop.is_cancelled() {
            if look && self.has_ended().await {
                self.stop.cancel();
                return;
            }
            look = tokio::select! {
                () = self.stop.cancelled() => return,
                heard = tokio::time::timeout(LOOK_EVERY, news.recv()) => match heard {
                    Ok(Ok(News::Event(event))) => match event.body {
                        EventBody::State { to, .. } if to.is_terminal() => {
                            self.stop.cancel();
                            return;
                        }
                        _ => false,
                    },
                    Ok(Ok(News::Text { .. })) => false,
                    Ok(Ok(News::Look(_)) | Err(RecvError::Lagged(_))) | Err(_) => true,
                    Ok(Err(RecvError::Closed)) => {
                        news = self.listen().0;
                        true
                    }
                },
            };
        }
    }

    async fn has_ended(&self) -> bool {
        match self.head().await {
            Ok(task) => task.state.is_terminal(),
            Err(HubError::TaskNotFound(_)) => true,
            Err(_) => false,
        }
    }

    /// Writes under the claim. A lost claim stops the run, and so does a task that has ended.
    async fn write<T>(
        &self,
        decide: impl Fn(&mut Draft) -> Result<T, HubError>,
    ) -> Result<(Task, T), HubError> {
        let decide = |draft: &mut Draft| {
            if draft.task.state.is_terminal() {
                return Err(HubError::Stopped);
            }
            self.settle(draft)?;
            decide(draft)
        };
        let known = self.last_known().take();
        let id = &self.item.task_id;
        let written = self
            .hub
            .change_task_from(known, None, id, Some(self.fence()), decide);
        match written.await {
            Ok((task, outcome)) => {
                self.unmoved.store(false, Ordering::Relaxed);
                *self.last_known() = Some(task.clone());
                Ok((task, outcome))
            }
            Err(HubError::Stopped | HubError::TaskNotFound(_)) => {
                self.settled();
                self.stop.cancel();
                Err(HubError::Stopped)
            }
            Err(error) => Err(error),
        }
    }

    /// Says that the task is being worked at, if that was not said.
    fn settle(&self, draft: &mut Draft) -> Result<(), HubError> {
        let unmoved = self.unmoved.load(Ordering::Relaxed);
        match unmoved && draft.task.state == TaskState::Submitted {
            true => draft.move_to(TaskState::Working, None),
            false => Ok(()),
        }
    }

    fn last_known(&self) -> MutexGuard<'_, Option<Task>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Run {
    fn drop(&mut self) {
        let settled = self.settled.load(Ordering::Relaxed);
        let fence = self.fence();
        self.hub.inner.holdings.end_run(fence, settled);
    }
}
