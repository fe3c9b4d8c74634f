//! Waits for the outcome of a task on the hub's bus, without polling. A caller that stops waiting loses nothing:
//! the task goes on.

use super::convert::{CallOrigin, has_answer};
use super::outcome::{self, ZoneOutcome};
use crate::rpc::context::CallContext;
use crate::state::ExecutionState;
use interzone_hub::{
    Caller, EventBody, HubError, SnapshotRendering, StartedTask, Subject, Task, TaskSnapshot,
    Watch, WatchItem,
};

/// Waiter for a task.
pub(super) struct TaskWaiter {
    pub(super) task: Task,
    /// Watch opened before the task was created, if this call created it.
    pub(super) watch: Option<Watch>,
    /// Snapshot of a task that this call created and that was answered inline.
    answered_inline: Option<TaskSnapshot>,
}

impl From<StartedTask> for TaskWaiter {
    fn from(started: StartedTask) -> Self {
        Self {
            task: started.task,
            watch: started.watch,
            answered_inline: started.answered,
        }
    }
}

impl TaskWaiter {
    /// Creates a waiter for a task that already exists.
    pub(super) const fn for_existing(task: Task) -> Self {
        Self {
            task,
            watch: None,
            answered_inline: None,
        }
    }

    /// Returns the watch, opened at `after` if there is none.
    pub(super) async fn watch(
        &mut self,
        zone: &ExecutionState,
        caller: &Caller,
        after: u64,
    ) -> Result<Watch, HubError> {
        match self.watch.take() {
            Some(watch) => Ok(watch),
            None => {
                let subject = Subject::Task(self.task.id.clone());
                zone.hub.watch(caller, subject, after).await
            }
        }
    }

    /// Returns the outcome by the sync deadline, or `Running` on timeout or shutdown. A read error also counts as
    /// running, since the result can be fetched later.
    pub(super) async fn wait_until_deadline(
        mut self,
        cx: &CallContext<'_>,
        origin: &CallOrigin,
    ) -> ZoneOutcome {
        let zone = cx.zone;
        let deadline = tokio::time::sleep_until(cx.meta.sync_deadline(zone));
        tokio::select! {
            biased;
            outcome = self.wait(cx, origin) => outcome.unwrap_or_else(|error| {
                tracing::warn!(task = %self.task.id, %error, "waiting for the task failed");
                ZoneOutcome::Running
            }),
            () = zone.stop.cancelled() => ZoneOutcome::Running,
            () = deadline => ZoneOutcome::Running,
        }
    }

    async fn wait(
        &mut self,
        cx: &CallContext<'_>,
        origin: &CallOrigin,
    ) -> Result<ZoneOutcome, HubError> {
        let (zone, caller, memory) = (cx.zone, cx.caller, &cx.memory);
        if let Some(snapshot) = &self.answered_inline {
            return outcome::outcome_of(zone, snapshot, Some(origin), memory).await;
        }
        let id = self.task.id.clone();
        if has_answer(self.task.state) {
            let outcome = outcome::load_outcome(zone, caller, &id, Some(origin), memory).await?;
            if !matches!(outcome, ZoneOutcome::Running) {
                return Ok(outcome);
            }
        }
        // If every event was received, the outcome is built from them without reading the store.
        let mut accumulated = self
            .watch
            .is_some()
            .then(|| EventAccumulator::new(&self.task));
        let mut watch = self.watch(zone, caller, self.task.seq).await?;
        loop {
            let item = watch.next().await?;
            if let Some(WatchItem::Event(event)) = &item {
                accumulated = accumulated.and_then(|accumulated| accumulated.apply(&event.body));
            }
            if !item.as_ref().is_none_or(is_final) {
                continue;
            }
            // The task may have continued since, if another caller has answered its question.
            let outcome = match (&accumulated, &item) {
                (Some(accumulated), Some(_)) => {
                    outcome::outcome_of(zone, &accumulated.0, Some(origin), memory).await?
                }
                _ => outcome::load_outcome(zone, caller, &id, Some(origin), memory).await?,
            };
            if item.is_none() || !matches!(outcome, ZoneOutcome::Running) {
                return Ok(outcome);
            }
        }
    }
}

/// Task snapshot accumulated from events.
struct EventAccumulator(TaskSnapshot);

impl EventAccumulator {
    /// Starts with a task that was just created.
    fn new(task: &Task) -> Self {
        Self(TaskSnapshot {
            task: task.clone(),
            messages: Vec::new(),
            artifacts: Vec::new(),
            rendering: SnapshotRendering::default(),
        })
    }

    /// Applies an event; returns `None` if the event alone does not contain all of the change.
    fn apply(mut self, event: &EventBody) -> Option<Self> {
        let Self(snapshot) = &mut self;
        match event {
            EventBody::Created { message } => snapshot.messages.push(message.clone()),
            EventBody::Message { index, message, .. } => {
                snapshot.task.message_count = index.saturating_add(1);
                snapshot.messages.push(message.clone());
            }
            EventBody::State { to, message, .. } => {
                snapshot.task.state = *to;
                snapshot.task.status_message.clone_from(message);
            }
            EventBody::Text { .. } | EventBody::Status { .. } => {}
            _ => return None,
        }
        Some(self)
    }
}

/// True if the item puts the task into a state with an answer.
pub(super) fn is_final(item: &WatchItem) -> bool {
    match item {
        WatchItem::Event(event) => {
            matches!(event.body, EventBody::State { to, .. } if has_answer(to))
        }
        WatchItem::TextDelta { .. } => false,
    }
}
