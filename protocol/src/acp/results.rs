//! What methods answer: one wrapper whose `type` names the member that it carries.

use super::objects::{StreamObject, SubscriptionObject, TaskObject};
use serde::{Deserialize, Serialize};

/// The result of every method of ACP.
///
/// ```
/// use interzone_protocol::acp::MethodResult;
///
/// let done = MethodResult::Success { message: "sent".to_owned() };
/// assert_eq!(serde_json::to_string(&done)?, r#"{"type":"success","message":"sent"}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "lowercase")]
pub enum MethodResult {
    /// A task.
    Task {
        /// The task.
        task: TaskObject,
    },
    /// A stream.
    Stream {
        /// The stream.
        stream: StreamObject,
    },
    /// A subscription.
    Subscription {
        /// The subscription.
        subscription: SubscriptionObject,
    },
    /// A notification was taken.
    Notification {
        /// In words.
        message: String,
    },
    /// It is done.
    Success {
        /// In words.
        message: String,
    },
}

/// The result of `interzone.tasks.list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskList {
    /// The tasks, last changed first, without messages and artifacts.
    pub tasks: Vec<TaskObject>,
    /// Where the next page begins, if there may be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
