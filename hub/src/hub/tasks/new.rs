//! What a task is begun with.

use crate::agent::Route;
use crate::hub::pushes::NewPush;
use crate::talk::Asking;
use interzone_protocol::vocab::{ContextId, Message, Metadata, Priority, TaskId};
use std::time::Duration;

/// A task to begin.
#[derive(Clone, Debug)]
pub struct NewTask {
    /// Its id, if [`Hub::new_task_id`](crate::Hub::new_task_id) was asked for one; else it gets one now.
    pub id: Option<TaskId>,
    /// What is asked.
    pub message: Message,
    /// What was said before, oldest first, as the caller tells it: it becomes the task's history.
    pub before: Vec<Message>,
    /// The conversation it belongs to; none begins a new one.
    pub context_id: Option<ContextId>,
    /// How its agent is chosen.
    pub route: Route,
    /// How soon it is taken up.
    pub priority: Priority,
    /// What the caller attaches.
    pub metadata: Option<Metadata>,
    /// Who is told of its events from the first on.
    pub pushes: Vec<NewPush>,
    /// What makes a repetition of this call the same call.
    pub once: Option<Once>,
    /// In which thread of a workspace it is asked for, and by whom.
    pub asking: Option<Asking>,
    /// Whether somebody waits for it, so that it is begun with the same commit if its agent has a free
    /// seat on this node.
    pub at_once: bool,
    /// Whether somebody waits for the answer alone, so that one which the agent has at hand is written with
    /// the task ([`Hub::begin_task`](crate::Hub::begin_task)).
    pub at_hand: bool,
}

impl NewTask {
    /// A task with nothing but a message.
    pub fn new(message: Message) -> Self {
        Self {
            id: None,
            message,
            before: Vec::new(),
            context_id: None,
            route: Route::default(),
            priority: Priority::default(),
            metadata: None,
            pushes: Vec::new(),
            once: None,
            asking: None,
            at_once: false,
            at_hand: false,
        }
    }
}

/// A key under which a call counts once.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Once {
    /// The key; calls of other callers never share it.
    pub key: String,
    /// How long it is remembered.
    pub keep: Duration,
}
