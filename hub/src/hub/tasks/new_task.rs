//! Parameters of a new task.

use super::idempotency::IdempotencyKey;
use crate::agent::Route;
use crate::conversation::ThreadOrigin;
use crate::hub::push_subscriptions::NewPushSubscription;
use interzone_protocol::vocab::{ContextId, Message, Metadata, Priority, TaskId};

/// A task to create.
#[derive(Clone, Debug)]
pub struct NewTask {
    /// Task id from [`Hub::new_task_id`](crate::Hub::new_task_id); generated if `None`.
    pub id: Option<TaskId>,
    /// The request.
    pub message: Message,
    /// Earlier messages as given by the caller, oldest first: they become the task's history.
    pub history: Vec<Message>,
    /// The conversation it belongs to, of at most 128 characters; `None` starts a new one. Conversations are those of
    /// the caller: the same id from another caller is another conversation.
    pub context_id: Option<ContextId>,
    /// Routing criteria.
    pub route: Route,
    /// Queue priority.
    pub priority: Priority,
    /// Metadata from the caller.
    pub metadata: Option<Metadata>,
    /// Push subscriptions, effective from the first event on.
    pub push_subscriptions: Vec<NewPushSubscription>,
    /// Makes repetitions of this call return the same task.
    pub idempotency_key: Option<IdempotencyKey>,
    /// Workspace thread and user that it originates from.
    pub thread_origin: Option<ThreadOrigin>,
    /// True if a caller waits for it: it is then claimed in the commit that creates it, if its agent has a free run
    /// slot on this node.
    pub start_now: bool,
    /// True if the caller only needs the answer: an inline answer of the agent is then written with the task
    /// ([`Hub::create_and_start`](crate::Hub::create_and_start)).
    pub allow_inline_answer: bool,
}

impl NewTask {
    /// A task with only a message.
    pub fn new(message: Message) -> Self {
        Self {
            id: None,
            message,
            history: Vec::new(),
            context_id: None,
            route: Route::default(),
            priority: Priority::default(),
            metadata: None,
            push_subscriptions: Vec::new(),
            idempotency_key: None,
            thread_origin: None,
            start_now: false,
            allow_inline_answer: false,
        }
    }
}
