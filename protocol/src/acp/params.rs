//! What each method takes. Ids stay plain text here: one that could be nobody's answers as unknown.

use super::events::TaskEvent;
use crate::vocab::{Message, Metadata, Priority};
use serde::{Deserialize, Serialize};

/// Params of `tasks.create`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TasksCreateParams {
    /// What is asked.
    pub initial_message: Message,
    /// The agent that is wanted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assign_to: Option<String>,
    /// How soon; normal if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// What the caller attaches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

/// Params of `tasks.send`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TasksSendParams {
    /// Which task.
    pub task_id: String,
    /// What is added.
    pub message: Message,
}

/// Params of `tasks.get`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TasksGetParams {
    /// Which task.
    pub task_id: String,
    /// Whether its messages are wanted; yes if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_messages: Option<bool>,
    /// Whether its artifacts are wanted; yes if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_artifacts: Option<bool>,
}

/// Params of `tasks.cancel`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TasksCancelParams {
    /// Which task.
    pub task_id: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Params of `tasks.subscribe`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TasksSubscribeParams {
    /// Which task.
    pub task_id: String,
    /// Where the events go.
    pub callback_url: String,
    /// Which events; changes of status and the end if not said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<TaskEvent>>,
}

/// Params of `stream.start`, which may be left out altogether.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamStartParams {
    /// Who else may speak and listen.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub participants: Option<Vec<String>>,
    /// What the caller attaches.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

/// Params of `stream.message`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamMessageParams {
    /// Which stream.
    pub stream_id: String,
    /// What is said.
    pub message: Message,
}

/// Params of `stream.end`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamEndParams {
    /// Which stream.
    pub stream_id: String,
    /// Why.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Params of `interzone.tasks.list`, which may be left out altogether.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TasksListParams {
    /// Only tasks with this status, by its name in ACP.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// At most so many.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Where the page begins: what the page before gave.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// Params of `interzone.tasks.unsubscribe`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TasksUnsubscribeParams {
    /// Of which task.
    pub task_id: String,
    /// Which subscription.
    pub subscription_id: String,
}
