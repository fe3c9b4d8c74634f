//! Params of the ACP methods. Ids are plain strings here, so that an invalid id is reported as unknown.

use super::events::TaskEvent;
use super::wire;
use crate::vocab::{Message, Metadata, Priority};
use serde::{Deserialize, Serialize};

/// Params of `tasks.create`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TasksCreateParams {
    /// The first message.
    #[serde(with = "wire::message")]
    pub initial_message: Message,
    /// The requested agent.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub assign_to: Option<String>,
    /// Priority; defaults to normal.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub priority: Option<Priority>,
    /// The caller's metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

/// Params of `tasks.send`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TasksSendParams {
    /// Id of the task.
    pub task_id: String,
    /// The message to add.
    #[serde(with = "wire::message")]
    pub message: Message,
}

/// Params of `tasks.get`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TasksGetParams {
    /// Id of the task.
    pub task_id: String,
    /// Include messages; defaults to true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_messages: Option<bool>,
    /// Include artifacts; defaults to true.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub include_artifacts: Option<bool>,
}

/// Params of `tasks.cancel`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TasksCancelParams {
    /// Id of the task.
    pub task_id: String,
    /// Reason for the cancellation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Params of `tasks.subscribe`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TasksSubscribeParams {
    /// Id of the task.
    pub task_id: String,
    /// Webhook URL.
    pub callback_url: String,
    /// Events to send; defaults to status changes and completion.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub events: Option<Vec<TaskEvent>>,
}

/// Params of `stream.start`; optional.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamStartParams {
    /// Other principals that may send and watch.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub participants: Option<Vec<String>>,
    /// The caller's metadata.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub metadata: Option<Metadata>,
}

/// Params of `stream.message`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamMessageParams {
    /// Id of the stream.
    pub stream_id: String,
    /// The message.
    #[serde(with = "wire::message")]
    pub message: Message,
}

/// Params of `stream.end`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct StreamEndParams {
    /// Id of the stream.
    pub stream_id: String,
    /// Reason for ending it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// Params of `interzone.tasks.list`; optional.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TasksListParams {
    /// Only tasks with this ACP status.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub status: Option<String>,
    /// Maximum number of results.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub limit: Option<u32>,
    /// Cursor: `next` of the previous page.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub after: Option<String>,
}

/// Params of `interzone.tasks.unsubscribe`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TasksUnsubscribeParams {
    /// Id of the task.
    pub task_id: String,
    /// Id of the subscription.
    pub subscription_id: String,
}
