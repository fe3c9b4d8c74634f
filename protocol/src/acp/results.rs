//! Results of ACP methods: a wrapper whose `type` names the field that is set.

use super::objects::{StreamObject, SubscriptionObject, TaskObject};
use serde::de::Error as _;
use serde::{Deserialize, Deserializer, Serialize};

/// Result of every ACP method.
///
/// ```
/// use interzone_protocol::acp::MethodResult;
///
/// let result = MethodResult::Success { message: "sent".to_owned() };
/// assert_eq!(serde_json::to_string(&result)?, r#"{"type":"success","message":"sent"}"#);
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Serialize)]
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
    /// A notification was accepted.
    Notification {
        /// Description.
        message: String,
    },
    /// Success without data.
    Success {
        /// Description.
        message: String,
    },
}

/// Hand-written: serde would buffer the fields until it has read `type`, which destroys raw JSON. So all
/// fields are read with their types, and `type` selects one.
impl<'de> Deserialize<'de> for MethodResult {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        #[derive(Deserialize)]
        struct Flat {
            r#type: String,
            task: Option<TaskObject>,
            stream: Option<StreamObject>,
            subscription: Option<SubscriptionObject>,
            message: Option<String>,
        }
        let flat = Flat::deserialize(deserializer)?;
        let missing = D::Error::missing_field;
        Ok(match flat.r#type.as_str() {
            "task" => Self::Task {
                task: flat.task.ok_or_else(|| missing("task"))?,
            },
            "stream" => Self::Stream {
                stream: flat.stream.ok_or_else(|| missing("stream"))?,
            },
            "subscription" => Self::Subscription {
                subscription: flat.subscription.ok_or_else(|| missing("subscription"))?,
            },
            "notification" => Self::Notification {
                message: flat.message.ok_or_else(|| missing("message"))?,
            },
            "success" => Self::Success {
                message: flat.message.ok_or_else(|| missing("message"))?,
            },
            _ => return Err(D::Error::custom("unknown type of result")),
        })
    }
}

/// The result of `interzone.tasks.list`.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TaskList {
    /// The tasks without messages and artifacts, most recently changed first.
    pub tasks: Vec<TaskObject>,
    /// Cursor of the next page, if there may be one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub next: Option<String>,
}
