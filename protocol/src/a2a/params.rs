//! Params of A2A methods.
//!
//! Over REST, the same members come from the body, the query and the path.

use super::field::{Field, ObjectReader};
use super::invalid_field::{Expectation, InvalidField};
use super::message::A2aMessage;
use super::method::WireFormat;
use super::push::{ConfigWithoutTask, TaskPushNotificationConfig};
use super::task::A2aTaskState;
use super::wire::{Encoded, WireObject, non_empty_list};
use crate::vocab::{Metadata, TaskState, Timestamp};
use serde::{Serialize, Serializer};

/// Most tasks or configurations of a page.
const MAX_PAGE_SIZE: i32 = 100;

/// Params of SendMessage and SendStreamingMessage.
///
/// ```
/// use interzone_protocol::a2a::{Codec, SendMessageRequest, WireFormat, WireObject};
///
/// let message = r#""message":{"messageId":"m","role":"user","parts":[{"kind":"text","text":"hi"}]}"#;
/// let params = format!(r#"{{{message},"configuration":{{"blocking":false,"historyLength":0}}}}"#);
/// let request = SendMessageRequest::decode(&params, Codec::server(WireFormat::V03))?;
/// let configuration = request.configuration.unwrap();
/// assert!(configuration.return_immediately);
/// assert_eq!(configuration.history_length, None, "0 means all in 0.3");
/// # Ok::<(), interzone_protocol::a2a::InvalidField>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SendMessageRequest {
    /// Id of the agent; 1.0 only.
    pub tenant: Option<String>,
    /// The message.
    pub message: A2aMessage,
    /// Options.
    pub configuration: Option<SendMessageConfiguration>,
    /// The client's metadata.
    pub metadata: Option<Metadata>,
}

#[derive(Serialize)]
struct SendMessageView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a str>,
    message: Encoded<'a, A2aMessage>,
    #[serde(skip_serializing_if = "Option::is_none")]
    configuration: Option<Encoded<'a, SendMessageConfiguration>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Metadata>,
}

impl WireObject for SendMessageRequest {
    fn read(field: &Field<'_, '_>) -> Result<Self, InvalidField> {
        let object = field.object()?;
        // ProtoJSON readers accept a field's name in the proto as well, which is `request` in 0.3.
        let message = match (object.optional("message")?, field.format()) {
            (None, WireFormat::RestV03) => object.optional("request")?,
            (message, _) => message,
        };
        Ok(Self {
            tenant: read_tenant(&object)?,
            message: message.ok_or_else(|| object.member_error("message", Expectation::Present))?,
            configuration: object.optional("configuration")?,
            metadata: object.metadata("metadata")?,
        })
    }

    fn write<S: Serializer>(&self, format: WireFormat, serializer: S) -> Result<S::Ok, S::Error> {
        let configuration = self.configuration.as_ref();
        let view = SendMessageView {
            tenant: tenant_in(format, self.tenant.as_ref()),
            message: self.message.encode(format),
            configuration: configuration.map(|configuration| configuration.encode(format)),
            metadata: self.metadata.as_ref(),
        };
        view.serialize(serializer)
    }
}

/// Only 1.0 has tenants.
fn read_tenant(object: &ObjectReader<'_, '_>) -> Result<Option<String>, InvalidField> {
    match object.format() {
        WireFormat::V1 => object.optional_text("tenant"),
        WireFormat::V03 | WireFormat::RestV03 => Ok(None),
    }
}

fn tenant_in(format: WireFormat, tenant: Option<&String>) -> Option<&str> {
    tenant
        .filter(|_| format == WireFormat::V1)
        .map(String::as_str)
}

/// Options of a send.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SendMessageConfiguration {
    /// Media types that the client can show; a hint to the agent.
    pub accepted_output_modes: Vec<String>,
    /// Webhook for the task, without a task id.
    pub push_notification_config: Option<TaskPushNotificationConfig>,
    /// Number of messages in the answer's history; `None` means all.
    pub history_length: Option<u32>,
    /// Answer as soon as the task is durable, instead of at the end of the turn.
    pub return_immediately: bool,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ConfigurationView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    accepted_output_modes: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_push_notification_config: Option<ConfigWithoutTask<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    push_notification_config: Option<ConfigWithoutTask<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    push_notification: Option<ConfigWithoutTask<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    history_length: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    return_immediately: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    blocking: Option<bool>,
}

impl WireObject for SendMessageConfiguration {
    fn read(field: &Field<'_, '_>) -> Result<Self, InvalidField> {
        let object = field.object()?;
        let (config, is_immediate) = match field.format() {
            WireFormat::V1 => ("taskPushNotificationConfig", "returnImmediately"),
            WireFormat::V03 => ("pushNotificationConfig", "blocking"),
            WireFormat::RestV03 => ("pushNotification", "blocking"),
        };
        let flag = object.boolean(is_immediate)?;
        let config = object.field(config)?;
        Ok(Self {
            accepted_output_modes: object.texts("acceptedOutputModes")?,
            push_notification_config: config
                .map(|config| TaskPushNotificationConfig::read_without_task(&config))
                .transpose()?,
            history_length: read_history_length(&object)?,
            return_immediately: match field.format() {
                WireFormat::V1 => flag.unwrap_or(false),
                WireFormat::V03 => !flag.unwrap_or(true),
                // ProtoJSON leaves out false, so a configuration without the member does not block.
                WireFormat::RestV03 => !flag.unwrap_or(false),
            },
        })
    }

    fn write<S: Serializer>(&self, format: WireFormat, serializer: S) -> Result<S::Ok, S::Error> {
        let config = |written_in| {
            self.push_notification_config
                .as_ref()
                .filter(|_| format == written_in)
                .map(|config| ConfigWithoutTask(config, format))
        };
        let is_v1 = format == WireFormat::V1;
        let view = ConfigurationView {
            accepted_output_modes: non_empty_list(&self.accepted_output_modes),
            task_push_notification_config: config(WireFormat::V1),
            push_notification_config: config(WireFormat::V03),
            push_notification: config(WireFormat::RestV03),
            history_length: self.history_length,
            return_immediately: Some(true).filter(|_| is_v1 && self.return_immediately),
            blocking: (!is_v1).then_some(!self.return_immediately),
        };
        view.serialize(serializer)
    }
}

/// Reads `historyLength`. In 0.3, 0 means all messages, as if it were absent.
fn read_history_length(object: &ObjectReader<'_, '_>) -> Result<Option<u32>, InvalidField> {
    let length = object.integer("historyLength", 0, i32::MAX)?;
    let length = length.and_then(|length| u32::try_from(length).ok());
    Ok(length.filter(|length| *length > 0 || object.format() == WireFormat::V1))
}

/// Params of GetTask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetTaskRequest {
    /// Id of the agent; 1.0 only.
    pub tenant: Option<String>,
    /// Id of the task.
    pub id: String,
    /// Number of messages in the history; `None` means all.
    pub history_length: Option<u32>,
}

/// Params that are an id and little else.
#[derive(Default, Serialize)]
#[serde(rename_all = "camelCase")]
struct IdView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    push_notification_config_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    history_length: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    page_size: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    page_token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Metadata>,
}

impl WireObject for GetTaskRequest {
    fn read(field: &Field<'_, '_>) -> Result<Self, InvalidField> {
        let object = field.object()?;
        Ok(Self {
            tenant: read_tenant(&object)?,
            id: object.required_text("id")?,
            history_length: read_history_length(&object)?,
        })
    }

    fn write<S: Serializer>(&self, format: WireFormat, serializer: S) -> Result<S::Ok, S::Error> {
        let view = IdView {
            tenant: tenant_in(format, self.tenant.as_ref()),
            id: Some(&self.id),
            history_length: self.history_length,
            ..IdView::default()
        };
        view.serialize(serializer)
    }
}

/// Params of ListTasks, which 0.3 does not have.
///
/// ```
/// use interzone_protocol::a2a::{Codec, ListTasksRequest, WireFormat, WireObject};
///
/// let codec = Codec::server(WireFormat::V1);
/// assert_eq!(ListTasksRequest::decode("{}", codec)?.page_size(), 50);
/// let error = ListTasksRequest::decode(r#"{"pageSize":101}"#, codec).unwrap_err();
/// assert_eq!(error.to_string(), "pageSize must be an integer from 1 to 100");
/// # Ok::<(), interzone_protocol::a2a::InvalidField>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListTasksRequest {
    /// Only tasks of this agent.
    pub tenant: Option<String>,
    /// Only tasks of this conversation.
    pub context_id: Option<String>,
    /// Only tasks in this state.
    pub status: Option<TaskState>,
    /// Most tasks of a page, 1 to 100.
    pub page_size: Option<i32>,
    /// Cursor: `nextPageToken` of the page before.
    pub page_token: Option<String>,
    /// Number of messages in each history; `None` means none.
    pub history_length: Option<u32>,
    /// Only tasks whose status changed at this time or later.
    pub status_timestamp_after: Option<Timestamp>,
    /// Include the artifacts.
    pub include_artifacts: bool,
}

impl ListTasksRequest {
    /// Tasks of a page if the client does not say.
    pub const DEFAULT_PAGE_SIZE: i32 = 50;

    /// Most tasks of the page.
    pub fn page_size(&self) -> i32 {
        self.page_size.unwrap_or(Self::DEFAULT_PAGE_SIZE)
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ListTasksView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    tenant: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status: Option<Encoded<'a, A2aTaskState>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    page_size: Option<i32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    page_token: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    history_length: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    status_timestamp_after: Option<Timestamp>,
    #[serde(skip_serializing_if = "Option::is_none")]
    include_artifacts: Option<bool>,
}

impl WireObject for ListTasksRequest {
    fn read(field: &Field<'_, '_>) -> Result<Self, InvalidField> {
        let object = field.object()?;
        let status: Option<A2aTaskState> = object.optional("status")?;
        Ok(Self {
            tenant: read_tenant(&object)?,
            context_id: object.optional_text("contextId")?,
            status: status.and_then(|status| status.0),
            page_size: object.integer("pageSize", 1, MAX_PAGE_SIZE)?,
            page_token: object.optional_text("pageToken")?,
            history_length: read_history_length(&object)?,
            status_timestamp_after: object.timestamp("statusTimestampAfter")?,
            include_artifacts: object.boolean("includeArtifacts")?.unwrap_or(false),
        })
    }

    fn write<S: Serializer>(&self, format: WireFormat, serializer: S) -> Result<S::Ok, S::Error> {
        let status = self.status.map(|status| A2aTaskState(Some(status)));
        let view = ListTasksView {
            tenant: self.tenant.as_deref(),
            context_id: self.context_id.as_deref(),
            status: status.as_ref().map(|status| status.encode(format)),
            page_size: self.page_size,
            page_token: self.page_token.as_deref(),
            history_length: self.history_length,
            status_timestamp_after: self.status_timestamp_after,
            include_artifacts: self.include_artifacts.then_some(true),
        };
        view.serialize(serializer)
    }
}

/// Params of CancelTask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CancelTaskRequest {
    /// Id of the agent; 1.0 only.
    pub tenant: Option<String>,
    /// Id of the task.
    pub id: String,
    /// The client's metadata.
    pub metadata: Option<Metadata>,
}

impl WireObject for CancelTaskRequest {
    fn read(field: &Field<'_, '_>) -> Result<Self, InvalidField> {
        let object = field.object()?;
        Ok(Self {
            tenant: read_tenant(&object)?,
            id: object.required_text("id")?,
            metadata: object.metadata("metadata")?,
        })
    }

    fn write<S: Serializer>(&self, format: WireFormat, serializer: S) -> Result<S::Ok, S::Error> {
        let view = IdView {
            tenant: tenant_in(format, self.tenant.as_ref()),
            id: Some(&self.id),
            metadata: self.metadata.as_ref(),
            ..IdView::default()
        };
        view.serialize(serializer)
    }
}

/// Params of SubscribeToTask.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SubscribeToTaskRequest {
    /// Id of the agent; 1.0 only.
    pub tenant: Option<String>,
    /// Id of the task.
    pub id: String,
}

impl WireObject for SubscribeToTaskRequest {
    fn read(field: &Field<'_, '_>) -> Result<Self, InvalidField> {
        let object = field.object()?;
        Ok(Self {
            tenant: read_tenant(&object)?,
            id: object.required_text("id")?,
        })
    }

    fn write<S: Serializer>(&self, format: WireFormat, serializer: S) -> Result<S::Ok, S::Error> {
        let view = IdView {
            tenant: tenant_in(format, self.tenant.as_ref()),
            id: Some(&self.id),
            ..IdView::default()
        };
        view.serialize(serializer)
    }
}

/// Params of CreateTaskPushNotificationConfig.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CreatePushConfigRequest {
    /// Id of the agent; 1.0 only.
    pub tenant: Option<String>,
    /// The configuration.
    pub config: TaskPushNotificationConfig,
}

impl WireObject for CreatePushConfigRequest {
    fn read(field: &Field<'_, '_>) -> Result<Self, InvalidField> {
        let object = field.object()?;
        Ok(Self {
            tenant: read_tenant(&object)?,
            config: TaskPushNotificationConfig::read(field)?,
        })
    }

    fn write<S: Serializer>(&self, format: WireFormat, serializer: S) -> Result<S::Ok, S::Error> {
        #[derive(Serialize)]
        struct CreateConfigView<'a> {
            #[serde(skip_serializing_if = "Option::is_none")]
            tenant: Option<&'a str>,
            #[serde(flatten)]
            config: Encoded<'a, TaskPushNotificationConfig>,
        }
        let view = CreateConfigView {
            tenant: tenant_in(format, self.tenant.as_ref()),
            config: self.config.encode(format),
        };
        view.serialize(serializer)
    }
}

/// Params of GetTaskPushNotificationConfig and DeleteTaskPushNotificationConfig.
///
/// ```
/// use interzone_protocol::a2a::{Codec, PushConfigRequest, WireFormat, WireObject};
///
/// let params = r#"{"id":"t","pushNotificationConfigId":"c"}"#;
/// let request = PushConfigRequest::decode(params, Codec::server(WireFormat::V03))?;
/// assert_eq!(request.require_id(WireFormat::V03)?, "c");
/// let v1 = serde_json::to_string(&request.encode(WireFormat::V1)).unwrap();
/// assert_eq!(v1, r#"{"taskId":"t","id":"c"}"#);
/// # Ok::<(), interzone_protocol::a2a::InvalidField>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PushConfigRequest {
    /// Id of the agent; 1.0 only.
    pub tenant: Option<String>,
    /// Id of the task.
    pub task_id: String,
    /// Id of the configuration. Only `tasks/pushNotificationConfig/get` may leave it out.
    pub id: Option<String>,
}

impl PushConfigRequest {
    /// The configuration's id, where the method requires it.
    ///
    /// # Errors
    /// The request has none.
    pub fn require_id(&self, format: WireFormat) -> Result<&str, InvalidField> {
        let name = match format {
            WireFormat::V03 => "pushNotificationConfigId",
            WireFormat::V1 | WireFormat::RestV03 => "id",
        };
        self.id
            .as_deref()
            .ok_or_else(|| InvalidField::new(name, Expectation::Present))
    }
}

impl WireObject for PushConfigRequest {
    fn read(field: &Field<'_, '_>) -> Result<Self, InvalidField> {
        let object = field.object()?;
        let (task_id, id) = match field.format() {
            WireFormat::V03 => (
                object.required_text("id")?,
                object.optional_text("pushNotificationConfigId")?,
            ),
            WireFormat::V1 | WireFormat::RestV03 => (
                object.required_text("taskId")?,
                Some(object.required_text("id")?),
            ),
        };
        Ok(Self {
            tenant: read_tenant(&object)?,
            task_id,
            id,
        })
    }

    fn write<S: Serializer>(&self, format: WireFormat, serializer: S) -> Result<S::Ok, S::Error> {
        let (task_id, id) = (Some(self.task_id.as_str()), self.id.as_deref());
        let tenant = tenant_in(format, self.tenant.as_ref());
        let view = match format {
            WireFormat::V03 => IdView {
                id: task_id,
                push_notification_config_id: id,
                ..IdView::default()
            },
            WireFormat::V1 | WireFormat::RestV03 => IdView {
                tenant,
                task_id,
                id,
                ..IdView::default()
            },
        };
        view.serialize(serializer)
    }
}

/// Params of ListTaskPushNotificationConfigs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ListPushConfigsRequest {
    /// Id of the agent; 1.0 only.
    pub tenant: Option<String>,
    /// Id of the task.
    pub task_id: String,
    /// Most configurations of a page.
    pub page_size: Option<i32>,
    /// Cursor: `nextPageToken` of the page before.
    pub page_token: Option<String>,
}

impl WireObject for ListPushConfigsRequest {
    fn read(field: &Field<'_, '_>) -> Result<Self, InvalidField> {
        let object = field.object()?;
        let task_id = match field.format() {
            WireFormat::V03 => "id",
            WireFormat::V1 | WireFormat::RestV03 => "taskId",
        };
        Ok(Self {
            tenant: read_tenant(&object)?,
            task_id: object.required_text(task_id)?,
            // 0 is the default of a number that is not optional in the proto.
            page_size: object
                .integer("pageSize", 0, i32::MAX)?
                .filter(|size| *size > 0),
            page_token: object.optional_text("pageToken")?,
        })
    }

    fn write<S: Serializer>(&self, format: WireFormat, serializer: S) -> Result<S::Ok, S::Error> {
        let task_id = Some(self.task_id.as_str());
        let is_v03 = format == WireFormat::V03;
        let view = IdView {
            tenant: tenant_in(format, self.tenant.as_ref()),
            task_id: task_id.filter(|_| !is_v03),
            id: task_id.filter(|_| is_v03),
            page_size: self.page_size.filter(|_| !is_v03),
            page_token: self.page_token.as_deref().filter(|_| !is_v03),
            ..IdView::default()
        };
        view.serialize(serializer)
    }
}

/// Params of GetExtendedAgentCard, which may be absent.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GetExtendedAgentCardRequest {
    /// Id of the agent; 1.0 only.
    pub tenant: Option<String>,
}

impl WireObject for GetExtendedAgentCardRequest {
    fn read(field: &Field<'_, '_>) -> Result<Self, InvalidField> {
        let object = field.object()?;
        Ok(Self {
            tenant: read_tenant(&object)?,
        })
    }

    fn write<S: Serializer>(&self, format: WireFormat, serializer: S) -> Result<S::Ok, S::Error> {
        let view = IdView {
            tenant: tenant_in(format, self.tenant.as_ref()),
            ..IdView::default()
        };
        view.serialize(serializer)
    }
}
