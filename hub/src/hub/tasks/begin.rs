//! Beginning tasks: in the queue, on a seat that is free, or with the answer that its agent has at hand.

use super::{claim, made_id, not_the_agents};
use crate::access::Caller;
use crate::error::HubError;
use crate::event::EventBody;
use crate::hub::draft::Draft;
use crate::hub::run::Begins;
use crate::hub::{Hub, NewTask, Watch, contended};
use crate::limits::Limits;
use crate::packed::has_address;
use crate::ports::{Op, StoreError};
use crate::task::{Task, WholeTask, Written};
use interzone_protocol::vocab::{ContextId, Message, TaskId, TaskState};
use std::panic::{AssertUnwindSafe, catch_unwind};

/// A task that somebody waits for.
pub struct Begun {
    /// The task.
    pub task: Task,
    /// Shows all that happens to it, if it was begun now and goes on.
    pub watch: Option<Watch>,
    /// All of it, if it was begun now and has its answer.
    pub answered: Option<WholeTask>,
}

impl Hub {
    /// Begins a task. It is durable and in the queue when this returns.
    ///
    /// # Errors
    /// Something is too large, or no agent is available. With [`NewTask::once`], a repetition is no
    /// error: it gives the task that the first call began.
    pub async fn create_task(&self, caller: &Caller, new: NewTask) -> Result<Task, HubError> {
        let at_once = new.at_once;
        let mut draft = self.draft_new(caller, new)?;
        draft.queue(self);
        let seat = match at_once {
            true => self.seat(&draft.task),
            false => None,
        };
        let written = match seat {
            Some(seat) => self.create_at(seat, draft).await,
            None => draft.write(self, None).await,
        };
        self.made(caller, written).await
    }

    /// The same for somebody who waits for what comes of it. An answer that the agent has at hand is
    /// written with the task, in one commit: nobody is told of either before both are durable.
    ///
    /// # Errors
    /// As [`Hub::create_task`].
    pub async fn begin_task(&self, caller: &Caller, new: NewTask) -> Result<Begun, HubError> {
        let (at_once, at_hand) = (new.at_once, new.at_hand);
        let mut draft = self.draft_new(caller, new)?;
        let mut seat = match at_once || at_hand {
            true => self.seat(&draft.task),
            false => None,
        };
        if let Some(free) = seat.take_if(|_| at_hand) {
            match self.say_what_is_at_hand(&mut draft)? {
                Some(word) => {
                    let begun = self.write_answered(caller, draft).await?;
                    // A repetition gives back the seat, and counts as no run.
                    if begun.answered.is_some() {
                        (free.begin)(Begins::Answered(word));
                    }
                    return Ok(begun);
                }
                None => seat = Some(free),
            }
        }
        let id = draft.task.id.clone();
        // From before it is there, so that nothing of it has to be read.
        let watch = self.watch_new(id.clone());
        draft.queue(self);
        let written = match seat {
            Some(seat) => self.create_at(seat, draft).await,
            None => draft.write(self, None).await,
        };
        let task = self.made(caller, written).await?;
        Ok(Begun {
            watch: (task.id == id).then_some(watch),
            task,
            answered: None,
        })
    }

    async fn write_answered(&self, caller: &Caller, draft: Draft) -> Result<Begun, HubError> {
        let messages = draft.added();
        let written = draft.write(self, None).await;
        let answered = written.as_ref().ok().map(|task| WholeTask {
            task: task.clone(),
            messages,
            artifacts: Vec::new(),
            written: Written::default(),
        });
        Ok(Begun {
            task: self.made(caller, written).await?,
            watch: None,
            answered,
        })
    }

    /// Adds what the agent has at hand to a task that is being made, with all that a turn would have
    /// written. Answers a word for it, or nothing if the agent has to work.
    fn say_what_is_at_hand(&self, draft: &mut Draft) -> Result<Option<&'static str>, HubError> {
        let Some(agent) = self.agents().get(&draft.task.agent) else {
            return Ok(None);
        };
        // Something that has yet to be fetched or put together is work.
        let addressed = |said: &Message| said.parts().iter().any(has_address);
        let said = draft.said().filter(|said| !said.iter().any(addressed));
        let Some((message, history)) = said.as_deref().and_then(<[Message]>::split_last) else {
            return Ok(None);
        };
        // One that panics does so again in its turn, and is dealt with there.
        let asked = catch_unwind(AssertUnwindSafe(|| agent.at_hand(message, history)));
        let Ok(Some(outcome)) = asked else {
            return Ok(None);
        };
        let word = outcome.word();
        let (to, said) = outcome.told_by(&draft.task.agent);
        let fits = |said: &Message| self.limits().message(said).is_ok();
        if !said.as_ref().is_none_or(fits) {
            return Ok(None);
        }
        draft.move_to(TaskState::Working, None)?;
        draft.say_and_move(to, said)?;
        Ok(Some(word))
    }

    /// A task as it is asked for, not in the queue yet.
    fn draft_new(&self, caller: &Caller, new: NewTask) -> Result<Draft, HubError> {
        let limits = self.limits();
        limits.message(&new.message)?;
        not_the_agents(&new.message)?;
        let messages = new.before.len().saturating_add(1);
        Limits::count("messages of a task", messages, limits.messages)?;
        for said in &new.before {
            limits.message(said)?;
        }
        limits.metadata(new.metadata.as_ref())?;
        Limits::count("subscriptions of a task", new.pushes.len(), limits.pushes)?;
        let agent = self.agents().route(&new.route)?;
        let now = self.now();
        let id = match new.id {
            Some(id) => id,
            None => self.new_task_id()?,
        };
        let context_id = match new.context_id {
            Some(context_id) => context_id,
            // A conversation that begins with a task is found by that task's id, which costs the stores nothing.
            None => made_id(ContextId::new(id.as_str()))?,
        };
        let mut draft = Draft::create(
            Task {
                id: id.clone(),
                context_id,
                owner: caller.principal.clone(),
                agent,
                state: TaskState::Submitted,
                priority: new.priority,
                metadata: new.metadata,
                status: None,
                created_at: now,
                updated_at: now,
                finished_at: None,
                revision: 0,
                seq: 0,
                messages: 0,
                artifacts: 0,
                pushes: 0,
            },
            now,
        );
        if let Some(once) = new.once {
            draft.op(claim(caller, &once, &id, now));
        }
        if let Some(asking) = new.asking {
            draft.op(Op::NoteQuestion {
                task_id: id,
                asking: Box::new(asking),
            });
        }
        for said in new.before {
            draft.keep_message(said);
        }
        let (_, message) = draft.keep_message(new.message);
        draft.event(EventBody::Created { message });
        for push in new.pushes {
            self.draft_push(caller, &mut draft, push)?;
        }
        Ok(draft)
    }

    /// The task that was made, or the one that the same call made before.
    async fn made(
        &self,
        caller: &Caller,
        written: Result<Task, StoreError>,
    ) -> Result<Task, HubError> {
        match written {
            Ok(task) => Ok(task),
            Err(StoreError::Claimed { value, .. }) => {
                self.task(caller, &made_id(TaskId::new(value))?).await
            }
            Err(error) => Err(contended(error)),
        }
    }
}
