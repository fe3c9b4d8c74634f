//! Waiting for what comes of a task: by the hub's bus, without asking again and again. Whoever stops
//! waiting loses nothing, for the task goes on by itself.

use super::came::{self, Came};
use super::convert::{Asked, is_settled};
use crate::rpc::Context;
use crate::zone::Zone;
use interzone_hub::{
    Begun, Caller, EventBody, HubError, Seen, Subject, Task, Watch, WholeTask, Written,
};

/// A task that is waited for.
pub(super) struct Waiting {
    pub(super) task: Task,
    /// Open since before the task was begun, if it was begun for this.
    pub(super) watch: Option<Watch>,
    /// All of it, if it was begun for this and had its answer from the beginning.
    answered: Option<WholeTask>,
}

impl From<Begun> for Waiting {
    fn from(begun: Begun) -> Self {
        Self {
            task: begun.task,
            watch: begun.watch,
            answered: begun.answered,
        }
    }
}

impl Waiting {
    /// Waits for a task that was there before.
    pub(super) const fn for_old(task: Task) -> Self {
        Self {
            task,
            watch: None,
            answered: None,
        }
    }

    /// The watch that shows what happens from `after` on.
    pub(super) async fn watch(
        &mut self,
        zone: &Zone,
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

    /// What comes of it until that moment, or until the zone closes. What cannot be read now can be asked
    /// for later, so it counts as not there yet.
    pub(super) async fn until(mut self, cx: &Context<'_>, asked: &Asked) -> Came {
        let zone = cx.zone;
        let end = tokio::time::sleep_until(cx.origin.until(zone));
        tokio::select! {
            biased;
            came = self.came(cx, asked) => came.unwrap_or_else(|error| {
                tracing::warn!(task = %self.task.id, %error, "a task is not waited for any more");
                Came::Running
            }),
            () = zone.stop.cancelled() => Came::Running,
            () = end => Came::Running,
        }
    }

    async fn came(&mut self, cx: &Context<'_>, asked: &Asked) -> Result<Came, HubError> {
        let (zone, caller, memory) = (cx.zone, cx.caller, &cx.memory);
        if let Some(whole) = &self.answered {
            return came::told(zone, whole, Some(asked), memory).await;
        }
        let id = self.task.id.clone();
        if is_settled(self.task.state) {
            let came = came::of(zone, caller, &id, Some(asked), memory).await?;
            if !matches!(came, Came::Running) {
                return Ok(came);
            }
        }
        // Who has heard everything need not read it.
        let mut heard = self.watch.is_some().then(|| Heard::of(&self.task));
        let mut watch = self.watch(zone, caller, self.task.seq).await?;
        loop {
            let seen = watch.next().await?;
            if let Some(Seen::Event(event)) = &seen {
                heard = heard.and_then(|heard| heard.and(&event.body));
            }
            if !seen.as_ref().is_none_or(settles) {
                continue;
            }
            // It may have gone on since, if somebody else has answered its question.
            let came = match (&heard, &seen) {
                (Some(heard), Some(_)) => came::told(zone, &heard.0, Some(asked), memory).await?,
                _ => came::of(zone, caller, &id, Some(asked), memory).await?,
            };
            if seen.is_none() || !matches!(came, Came::Running) {
                return Ok(came);
            }
        }
    }
}

/// A task as its events tell it.
struct Heard(WholeTask);

impl Heard {
    /// A task of which nothing has been heard but that it is made.
    fn of(task: &Task) -> Self {
        Self(WholeTask {
            task: task.clone(),
            messages: Vec::new(),
            artifacts: Vec::new(),
            written: Written::default(),
        })
    }

    /// The same after one event more; nothing if the event does not tell all that there is to know.
    fn and(mut self, event: &EventBody) -> Option<Self> {
        let Self(whole) = &mut self;
        match event {
            EventBody::Created { message } => whole.messages.push(message.clone()),
            EventBody::Message { index, message } => {
                whole.task.messages = index.saturating_add(1);
                whole.messages.push(message.clone());
            }
            EventBody::State { to, message, .. } => {
                whole.task.state = *to;
                whole.task.status.clone_from(message);
            }
            EventBody::Text { .. } | EventBody::Status { .. } => {}
            _ => return None,
        }
        Some(self)
    }
}

/// Whether there is something to answer from now on.
pub(super) fn settles(seen: &Seen) -> bool {
    match seen {
        Seen::Event(event) => {
            matches!(event.body, EventBody::State { to, .. } if is_settled(to))
        }
        Seen::Text { .. } => false,
    }
}
