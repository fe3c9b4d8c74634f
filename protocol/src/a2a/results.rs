//! Results of A2A methods that are not an object of their own.

use super::field::Field;
use super::invalid_field::{Expectation, InvalidField};
use super::message::A2aMessage;
use super::method::WireFormat;
use super::push::TaskPushNotificationConfig;
use super::task::{A2aTask, StreamResponse};
use super::wire::{Encoded, EncodedList, WireObject, non_empty};
use serde::{Serialize, Serializer};

/// Result of SendMessage.
///
/// ```
/// use interzone_protocol::a2a::{Codec, SendMessageResponse, WireFormat, WireObject};
///
/// let bare = r#"{"kind":"task","id":"t","contextId":"c","status":{"state":"working"},"history":[]}"#;
/// let response = SendMessageResponse::decode(bare, Codec::client(WireFormat::V03))?;
/// assert_eq!(
///     serde_json::to_string(&response.encode(WireFormat::V1)).unwrap(),
///     r#"{"task":{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}}"#
/// );
/// # Ok::<(), interzone_protocol::a2a::InvalidField>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SendMessageResponse {
    /// The task.
    Task(Box<A2aTask>),
    /// A direct answer.
    Message(Box<A2aMessage>),
}

const RESPONSES: &[&str] = &["task", "message"];

impl From<SendMessageResponse> for StreamResponse {
    fn from(response: SendMessageResponse) -> Self {
        match response {
            SendMessageResponse::Task(task) => Self::Task(task),
            SendMessageResponse::Message(message) => Self::Message(message),
        }
    }
}

impl WireObject for SendMessageResponse {
    fn read(field: &Field<'_, '_>) -> Result<Self, InvalidField> {
        match StreamResponse::read(field)? {
            StreamResponse::Task(task) => Ok(Self::Task(task)),
            StreamResponse::Message(message) => Ok(Self::Message(message)),
            StreamResponse::StatusUpdate(_) | StreamResponse::ArtifactUpdate(_) => {
                Err(field.error(Expectation::OneMember(RESPONSES)))
            }
        }
    }

    fn write<S: Serializer>(&self, format: WireFormat, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        enum SendResponseView<'a> {
            Task(Encoded<'a, A2aTask>),
            Message(Encoded<'a, A2aMessage>),
        }
        match (self, format) {
            (Self::Task(task), WireFormat::V03) => task.write(format, serializer),
            (Self::Message(message), WireFormat::V03) => message.write(format, serializer),
            (Self::Task(task), _) => {
                SendResponseView::Task(task.encode(format)).serialize(serializer)
            }
            (Self::Message(message), _) => {
                SendResponseView::Message(message.encode(format)).serialize(serializer)
            }
        }
    }
}

/// Result of ListTasks, which 0.3 does not have. All members are always written.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListTasksResponse {
    /// The tasks, most recently changed first.
    pub tasks: Vec<A2aTask>,
    /// Cursor of the next page; empty at the end.
    pub next_page_token: String,
    /// Most tasks of the page.
    pub page_size: u32,
    /// Number of all tasks that match.
    pub total_size: u32,
}

impl WireObject for ListTasksResponse {
    fn read(field: &Field<'_, '_>) -> Result<Self, InvalidField> {
        let object = field.object()?;
        let size = |name| {
            let size = object.integer(name, 0, i32::MAX)?.unwrap_or(0);
            Ok(u32::try_from(size).unwrap_or(0))
        };
        Ok(Self {
            tasks: object.list("tasks")?,
            next_page_token: object.text("nextPageToken")?,
            page_size: size("pageSize")?,
            total_size: size("totalSize")?,
        })
    }

    fn write<S: Serializer>(&self, format: WireFormat, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct TaskPageView<'a> {
            tasks: EncodedList<'a, A2aTask>,
            next_page_token: &'a str,
            page_size: u32,
            total_size: u32,
        }
        let view = TaskPageView {
            tasks: EncodedList::new(&self.tasks, format),
            next_page_token: &self.next_page_token,
            page_size: self.page_size,
            total_size: self.total_size,
        };
        view.serialize(serializer)
    }
}

/// Result of ListTaskPushNotificationConfigs: an array in 0.3.
///
/// ```
/// use interzone_protocol::a2a::{ListPushConfigsResponse, WireFormat, WireObject};
///
/// let none = ListPushConfigsResponse::default();
/// assert_eq!(serde_json::to_string(&none.encode(WireFormat::V1)).unwrap(), r#"{"configs":[]}"#);
/// assert_eq!(serde_json::to_string(&none.encode(WireFormat::V03)).unwrap(), "[]");
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPushConfigsResponse {
    /// The configurations.
    pub configs: Vec<TaskPushNotificationConfig>,
    /// Cursor of the next page; empty at the end.
    pub next_page_token: String,
}

impl WireObject for ListPushConfigsResponse {
    fn read(field: &Field<'_, '_>) -> Result<Self, InvalidField> {
        if field.format() == WireFormat::V03 {
            return Ok(Self {
                configs: field.list(TaskPushNotificationConfig::read)?,
                next_page_token: String::new(),
            });
        }
        let object = field.object()?;
        Ok(Self {
            configs: object.list("configs")?,
            next_page_token: object.text("nextPageToken")?,
        })
    }

    fn write<S: Serializer>(&self, format: WireFormat, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct ConfigPageView<'a> {
            configs: EncodedList<'a, TaskPushNotificationConfig>,
            #[serde(skip_serializing_if = "Option::is_none")]
            next_page_token: Option<&'a str>,
        }
        let configs = EncodedList::new(&self.configs, format);
        if format == WireFormat::V03 {
            return configs.serialize(serializer);
        }
        let view = ConfigPageView {
            configs,
            next_page_token: non_empty(&self.next_page_token),
        };
        view.serialize(serializer)
    }
}

/// Result of DeleteTaskPushNotificationConfig: an empty object, in 0.3 over JSON-RPC null.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct DeletePushConfigResponse;

impl WireObject for DeletePushConfigResponse {
    fn read(_: &Field<'_, '_>) -> Result<Self, InvalidField> {
        Ok(Self)
    }

    fn write<S: Serializer>(&self, format: WireFormat, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct EmptyView {}
        match format {
            WireFormat::V03 => serializer.serialize_unit(),
            WireFormat::V1 | WireFormat::RestV03 => EmptyView {}.serialize(serializer),
        }
    }
}
