//! Runs: one claim of a task by one node, and everything that is written under it.
//!
//! Every write of a run carries the proof of its claim. When the claim is lost, because the task was
//! called off or another node took it over, nothing that the run writes arrives any more.

use super::Hub;
use super::draft::Draft;
use crate::agent::{AgentError, Outcome, Turn};
use crate::error::HubError;
use crate::event::{EventBody, Subject};
use crate::failure::failure;
use crate::ports::{Fence, Op, WorkClaim, WorkItem};
use crate::task::Task;
use interzone_protocol::vocab::{AgentId, Message, TaskState, Timestamp};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;
use tokio_util::sync::CancellationToken;

mod begin;
mod output;

pub use begin::TurnStart;

/// How long growing text waits before it is written: about twenty writes a second.
const TEXT_WAITS: Duration = Duration::from_millis(50);

/// How much growing text waits at most.
const TEXT_BYTES: usize = 16 * 1024;

/// One claim of a task by one node.
pub struct Run {
    hub: Hub,
    item: WorkItem,
    node: String,
    stop: CancellationToken,
    text: Mutex<Growing>,
    /// The place of the message that is being answered.
    asked: OnceLock<u32>,
    /// Whether no message of the task had an address to fetch from when the turn began.
    no_address: AtomicBool,
    /// Held while growing text is written.
    writing: tokio::sync::Mutex<()>,
}

/// The answer as it grows.
struct Growing {
    /// How many bytes are in the log.
    written: u64,
    /// How many bytes there are in all.
    length: u64,
    /// What is not.
    waiting: String,
    /// Since when.
    since: Timestamp,
}

impl Hub {
    /// Claims tasks for agents of this node: for each agent at most so many.
    ///
    /// # Errors
    /// The store did not do it.
    pub async fn claim(
        &self,
        node: &str,
        wanted: Vec<(AgentId, usize)>,
        lease: Duration,
    ) -> Result<Vec<Arc<Run>>, HubError> {
        let now = self.now();
        let claim = WorkClaim {
            node: node.to_owned(),
            wanted,
            now,
            until: now.after(lease),
        };
        let items = self.store().claim_work(&claim).await?;
        let run = |item| {
            Arc::new(Run {
                hub: self.clone(),
                item,
                node: node.to_owned(),
                stop: CancellationToken::new(),
                text: Mutex::new(Growing {
                    written: 0,
                    length: 0,
                    waiting: String::new(),
                    since: now,
                }),
                asked: OnceLock::new(),
                no_address: AtomicBool::new(false),
                writing: tokio::sync::Mutex::new(()),
            })
        };
        Ok(items.into_iter().map(run).collect())
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

    fn fence(&self) -> Option<Fence> {
        Some(Fence {
            task_id: self.item.task_id.clone(),
            node: self.node.clone(),
            claim: self.item.claim,
        })
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
        self.flush().await?;
        let limits = &self.hub.inner.limits;
        let (to, said) = match outcome {
            Outcome::Completed { message, .. } => (TaskState::Completed, message),
            Outcome::InputRequired(message) => (TaskState::InputRequired, Some(message)),
            Outcome::AuthRequired(message) => (TaskState::AuthRequired, Some(message)),
            Outcome::Rejected(message) => (TaskState::Rejected, message),
            Outcome::Failed(message) => (TaskState::Failed, Some(message)),
        };
        if let Some(message) = &said {
            limits.message(message)?;
        }
        let said = said.map(|message| match message.agent_id() {
            Some(_) => message,
            None => message.with_agent_id(self.item.agent.clone()),
        });
        let seen = turn.task.messages;
        let decide = |draft: &mut Draft| {
            let more_came = draft.task.messages > seen;
            if !more_came && self.no_address.load(Ordering::Relaxed) {
                draft.has_no_address();
            }
            if let Some(message) = said.clone() {
                draft.add_message(message);
            }
            if more_came && !matches!(to, TaskState::Failed | TaskState::Rejected) {
                draft.queue();
                return Ok(());
            }
            // A question is also what the state says; an answer is in the history alone.
            let about = said.clone().filter(|_| to != TaskState::Completed);
            draft.move_to(to, about)?;
            draft.op(Op::EndWork(draft.task.id.clone()));
            Ok(())
        };
        Ok(self.write(decide).await?.0)
    }

    /// Ends the turn of an agent that broke. The caller learns a stable word, and no details.
    ///
    /// # Errors
    /// The claim is lost, or the store did not do it.
    pub async fn broke(&self, error: &AgentError) -> Result<Task, HubError> {
        self.flush().await?;
        let said = format!("The agent could not finish this ({}).", error.code);
        let said = failure(error.code, said).with_agent_id(self.item.agent.clone());
        let decide = |draft: &mut Draft| {
            draft.move_to(TaskState::Failed, Some(said.clone()))?;
            draft.op(Op::EndWork(draft.task.id.clone()));
            Ok(())
        };
        Ok(self.write(decide).await?.0)
    }

    /// Extends the claim. If it is lost, the run is told to stop.
    ///
    /// # Errors
    /// The store did not do it; the claim may still be held.
    pub async fn renew(&self, lease: Duration) -> Result<bool, HubError> {
        let until = self.hub.now().after(lease);
        let task_id = &self.item.task_id;
        let held = self
            .hub
            .store()
            .renew_work(task_id, &self.node, self.item.claim, until)
            .await?;
        if !held {
            self.stop.cancel();
        }
        Ok(held)
    }

    /// Gives the task back unfinished, to be claimed by anybody: this node is going away.
    ///
    /// # Errors
    /// The store did not do it.
    pub async fn give_back(&self) -> Result<bool, HubError> {
        self.stop.cancel();
        let now = self.hub.now();
        let task_id = &self.item.task_id;
        Ok(self
            .hub
            .store()
            .release_work(task_id, &self.node, self.item.claim, now)
            .await?)
    }

    /// Waits until the task is called off, then tells the run to stop. It looks whenever something
    /// happens to the task, on whichever node.
    pub async fn watch_for_cancel(&self) {
        let subject = Subject::Task(self.item.task_id.clone());
        let mut news = self.hub.inner.bus.listen(&subject);
        while !self.stop.is_cancelled() {
            let ended = match self.head().await {
                Ok(task) => task.state.is_terminal(),
                Err(HubError::TaskNotFound(_)) => true,
                Err(_) => false,
            };
            if ended {
                self.stop.cancel();
                return;
            }
            tokio::select! {
                () = self.stop.cancelled() => return,
                _ = tokio::time::timeout(Duration::from_secs(5), news.recv()) => {}
            }
        }
    }

    /// Writes the growing text that waits, if it has waited long enough. Whoever runs the agent calls
    /// this now and then, so that the last words do not wait for the next.
    ///
    /// # Errors
    /// The claim is lost, or the store did not do it.
    pub async fn tick(&self) -> Result<(), HubError> {
        let due = {
            let text = self.growing();
            !text.waiting.is_empty() && self.hub.now().since(text.since) >= TEXT_WAITS
        };
        if due { self.flush().await } else { Ok(()) }
    }

    /// Writes the growing text that waits. Whoever comes while it is being written waits for that:
    /// the log must have the pieces in their order.
    async fn flush(&self) -> Result<(), HubError> {
        let _in_order = self.writing.lock().await;
        // It waits until it is written: whoever breaks this off loses nothing. If it was written all
        // the same, it is written again at the same place, which watchers know by its offset.
        let (offset, delta) = {
            let text = self.growing();
            (text.written, text.waiting.clone())
        };
        if delta.is_empty() {
            return Ok(());
        }
        let run = self.item.claim;
        let decide = |draft: &mut Draft| {
            draft.event(EventBody::Text {
                run,
                offset,
                delta: delta.clone(),
            });
            Ok(())
        };
        self.write(decide).await?;
        let mut text = self.growing();
        text.written += u64::try_from(delta.len()).unwrap_or(0);
        text.waiting.drain(..delta.len());
        Ok(())
    }

    fn growing(&self) -> MutexGuard<'_, Growing> {
        self.text.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Writes under the claim. A lost claim stops the run, and so does a task that has ended.
    async fn write<T>(
        &self,
        decide: impl Fn(&mut Draft) -> Result<T, HubError>,
    ) -> Result<(Task, T), HubError> {
        let decide = |draft: &mut Draft| match draft.task.state.is_terminal() {
            true => Err(HubError::Stopped),
            false => decide(draft),
        };
        let written = self
            .hub
            .change_task(None, &self.item.task_id, self.fence(), decide)
            .await;
        if matches!(written, Err(HubError::Stopped | HubError::TaskNotFound(_))) {
            self.stop.cancel();
            return Err(HubError::Stopped);
        }
        written
    }
}
