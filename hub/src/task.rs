//! Tasks: one piece of work for one agent, from being asked to being finished.

use crate::packed::Packed;
use interzone_protocol::vocab::{
    AgentId, Artifact, ContextId, Json, Message, Metadata, PrincipalId, Priority, SubscriptionId,
    TaskId, TaskState, Timestamp,
};
use std::sync::OnceLock;

/// What is known of a task without its messages, artifacts and events: cheap to read, always.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// Its id, made by us.
    pub id: TaskId,
    /// The conversation it belongs to.
    pub context_id: ContextId,
    /// Who asked, and so who may see it.
    pub owner: PrincipalId,
    /// Who does it.
    pub agent: AgentId,
    /// Where it stands.
    pub state: TaskState,
    /// How soon it is taken up.
    pub priority: Priority,
    /// What the caller attached, kept letter for letter.
    pub metadata: Option<Metadata>,
    /// What is said about the state: a question, a reason.
    pub status: Option<Packed<Message>>,
    /// When it was accepted.
    pub created_at: Timestamp,
    /// When its state last changed or something was added to it.
    pub updated_at: Timestamp,
    /// When it was finished.
    pub finished_at: Option<Timestamp>,
    /// Counts every change of the task or of what hangs on it; a writer names the one it has seen.
    pub revision: u64,
    /// The number of its last event.
    pub seq: u64,
    /// How many messages it has.
    pub messages: u32,
    /// How many artifacts it has.
    pub artifacts: u32,
    /// How many push subscriptions it has.
    pub pushes: u32,
}

/// A task with what hangs on it, as it was at one moment.
#[derive(Clone, Debug, PartialEq)]
pub struct WholeTask {
    /// The task.
    pub task: Task,
    /// Its messages, oldest first: all, or the latest.
    pub messages: Vec<Packed<Message>>,
    /// Its artifacts, in the order in which they were first put: all, or none if they were not asked
    /// for.
    pub artifacts: Vec<Packed<Artifact>>,
    /// What it looks like, once somebody has written it down.
    pub written: Written,
}

/// A text that was made of something that never changes, kept beside it for whoever asks next.
#[derive(Debug, Default)]
pub struct Written(OnceLock<(&'static str, Json)>);

impl Written {
    /// The text in the form of this name; made now if there is none yet. Only one form is kept: of
    /// another, and of what cannot be made, there is nothing.
    pub fn once(&self, form: &'static str, make: impl FnOnce() -> Option<Json>) -> Option<&Json> {
        if self.0.get().is_none() {
            // If somebody was faster, theirs says the same.
            let _ = self.0.set((form, make()?));
        }
        let (kept, text) = self.0.get()?;
        (*kept == form).then_some(text)
    }
}

/// A copy may be changed, so it begins without a text.
impl Clone for Written {
    fn clone(&self) -> Self {
        Self::default()
    }
}

/// It says nothing that what it was made of does not say.
impl PartialEq for Written {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

/// Somebody outside who is told of a task's events by the outbox.
#[derive(Clone, Debug, PartialEq)]
pub struct Push {
    /// Its id.
    pub id: SubscriptionId,
    /// The task.
    pub task_id: TaskId,
    /// Who asked for it.
    pub owner: PrincipalId,
    /// The outbox channel that carries it.
    pub channel: String,
    /// The names of the events it wants ([`EventBody::name`](crate::EventBody::name)); none means all.
    pub events: Vec<String>,
    /// Where to and how: the channel's business, not the hub's.
    pub target: Json,
    /// When it was asked for.
    pub created_at: Timestamp,
}

/// Which tasks to list. Everything that is given must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskQuery {
    /// Whose. Only operators ask without one.
    pub owner: Option<PrincipalId>,
    /// Of which conversation.
    pub context_id: Option<ContextId>,
    /// In one of these states; none means any.
    pub states: Vec<TaskState>,
    /// Of which agent.
    pub agent: Option<AgentId>,
    /// Updated at this moment or later.
    pub updated_since: Option<Timestamp>,
    /// After this place in the list.
    pub after: Option<TaskCursor>,
    /// At most this many.
    pub limit: usize,
}

/// A place in the list of tasks, which is ordered by last change, newest first, then by id, highest
/// first. A task that does not change while somebody turns pages is seen exactly once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskCursor {
    /// When the last task that was seen had changed.
    pub updated_at: Timestamp,
    /// Its id.
    pub id: TaskId,
}

impl TaskCursor {
    /// The cursor as an opaque string for callers.
    pub fn to_token(&self) -> String {
        format!("{}.{}", self.updated_at.as_millis(), self.id)
    }

    /// The cursor that a caller hands back; nothing if it is not one of ours.
    pub fn from_token(token: &str) -> Option<Self> {
        let (millis, id) = token.split_once('.')?;
        let updated_at = Timestamp::from_millis(millis.parse().ok()?);
        Some(Self {
            updated_at,
            id: TaskId::new(id).ok()?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::Written;
    use interzone_protocol::vocab::Json;

    #[test]
    fn a_text_is_made_once_and_is_of_one_form() {
        let written = Written::default();
        assert_eq!(written.once("a", || None), None);
        let made = |text: &'static str| move || Json::parse(text).ok();
        assert_eq!(written.once("a", made("1")).unwrap().as_str(), "1");
        assert_eq!(written.once("a", made("2")).unwrap().as_str(), "1");
        assert_eq!(written.once("b", made("3")), None);
        assert_eq!(written.clone().once("b", made("3")).unwrap().as_str(), "3");
    }
}
