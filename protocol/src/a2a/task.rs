//! Tasks, their states, artifacts and events.

use super::field::Field;
use super::invalid_field::{Expectation, InvalidField};
use super::message::A2aMessage;
use super::method::WireFormat;
use super::part::A2aPart;
use super::wire::{Encoded, EncodedList, WireObject, non_empty, non_empty_list};
use crate::vocab::{Metadata, TaskState, Timestamp};
use serde::{Serialize, Serializer};

/// State of a task; `None` is the unspecified state, or one that this version does not know.
///
/// ```
/// use interzone_protocol::a2a::{A2aTaskState, Codec, WireFormat, WireObject};
/// use interzone_protocol::vocab::TaskState;
///
/// let state = A2aTaskState(Some(TaskState::Canceled));
/// let name = |format| serde_json::to_string(&state.encode(format)).unwrap();
/// assert_eq!(name(WireFormat::V1), r#""TASK_STATE_CANCELED""#);
/// assert_eq!(name(WireFormat::V03), r#""canceled""#);
/// assert_eq!(name(WireFormat::RestV03), r#""TASK_STATE_CANCELLED""#);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct A2aTaskState(pub Option<TaskState>);

/// States by number in the proto.
const STATES: [Option<TaskState>; 9] = [
    None,
    Some(TaskState::Submitted),
    Some(TaskState::Working),
    Some(TaskState::Completed),
    Some(TaskState::Failed),
    Some(TaskState::Canceled),
    Some(TaskState::InputRequired),
    Some(TaskState::Rejected),
    Some(TaskState::AuthRequired),
];
const STATES_V1: &[&str] = &[
    "TASK_STATE_UNSPECIFIED",
    "TASK_STATE_SUBMITTED",
    "TASK_STATE_WORKING",
    "TASK_STATE_COMPLETED",
    "TASK_STATE_FAILED",
    "TASK_STATE_CANCELED",
    "TASK_STATE_INPUT_REQUIRED",
    "TASK_STATE_REJECTED",
    "TASK_STATE_AUTH_REQUIRED",
];
const STATES_V03: &[&str] = &[
    "unknown",
    "submitted",
    "working",
    "completed",
    "failed",
    "canceled",
    "input-required",
    "rejected",
    "auth-required",
];
/// The 0.3 proto spells this state with two letters L, 1.0 with one.
const CANCELED_REST_V03: &str = "TASK_STATE_CANCELLED";

const fn state_names(format: WireFormat) -> &'static [&'static str] {
    match format {
        WireFormat::V1 | WireFormat::RestV03 => STATES_V1,
        WireFormat::V03 => STATES_V03,
    }
}

impl WireObject for A2aTaskState {
    fn read(field: &Field<'_, '_>) -> Result<Self, InvalidField> {
        if field.format() == WireFormat::RestV03
            && field.text().is_ok_and(|name| name == CANCELED_REST_V03)
        {
            return Ok(Self(Some(TaskState::Canceled)));
        }
        let position = field.enumeration(state_names(field.format()))?;
        Ok(Self(STATES.get(position).copied().flatten()))
    }

    fn write<S: Serializer>(&self, format: WireFormat, serializer: S) -> Result<S::Ok, S::Error> {
        if format == WireFormat::RestV03 && self.0 == Some(TaskState::Canceled) {
            return serializer.serialize_str(CANCELED_REST_V03);
        }
        let mut names = STATES.iter().zip(state_names(format));
        let name = names.find(|(state, _)| **state == self.0);
        serializer.serialize_str(name.map_or("", |(_, name)| name))
    }
}

/// State of a task with its message and time.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct A2aTaskStatus {
    /// State.
    pub state: A2aTaskState,
    /// The agent's message, for example a question.
    pub message: Option<A2aMessage>,
    /// Time of the change. Interzone always sends it.
    pub timestamp: Option<Timestamp>,
}

#[derive(Serialize)]
struct TaskStatusView<'a> {
    state: Encoded<'a, A2aTaskState>,
    #[serde(skip_serializing_if = "Option::is_none")]
    message: Option<Encoded<'a, A2aMessage>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    timestamp: Option<Timestamp>,
}

impl WireObject for A2aTaskStatus {
    fn read(field: &Field<'_, '_>) -> Result<Self, InvalidField> {
        let object = field.object()?;
        let state = if field.codec().is_lenient() {
            object.optional("state")?.unwrap_or(A2aTaskState(None))
        } else {
            object.required("state")?
        };
        // ProtoJSON readers accept a field's name in the proto as well, which is `update` in 0.3.
        let message = match (object.optional("message")?, field.format()) {
            (None, WireFormat::RestV03) => object.optional("update")?,
            (message, _) => message,
        };
        Ok(Self {
            state,
            message,
            timestamp: object.timestamp("timestamp")?,
        })
    }

    fn write<S: Serializer>(&self, format: WireFormat, serializer: S) -> Result<S::Ok, S::Error> {
        let view = TaskStatusView {
            state: self.state.encode(format),
            message: self.message.as_ref().map(|message| message.encode(format)),
            timestamp: self.timestamp,
        };
        view.serialize(serializer)
    }
}

/// A task.
///
/// ```
/// use interzone_protocol::a2a::{A2aTask, A2aTaskState, A2aTaskStatus, WireFormat, WireObject};
/// use interzone_protocol::vocab::TaskState;
///
/// let status = A2aTaskStatus {
///     state: A2aTaskState(Some(TaskState::Working)),
///     message: None,
///     timestamp: None,
/// };
/// let task = A2aTask::new("t", "c", status);
/// assert_eq!(
///     serde_json::to_string(&task.encode(WireFormat::V1)).unwrap(),
///     r#"{"id":"t","contextId":"c","status":{"state":"TASK_STATE_WORKING"}}"#
/// );
/// assert_eq!(
///     serde_json::to_string(&task.encode(WireFormat::V03)).unwrap(),
///     r#"{"kind":"task","id":"t","contextId":"c","status":{"state":"working"},"history":[]}"#
/// );
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct A2aTask {
    /// Id, made by the server.
    pub id: String,
    /// Id of the conversation. Interzone always sends it.
    pub context_id: String,
    /// Status.
    pub status: A2aTaskStatus,
    /// Artifacts. `Some` is written even if it is empty, as a list of tasks with artifacts needs.
    pub artifacts: Option<Vec<A2aArtifact>>,
    /// Messages, oldest first. 0.3 always has the member, 1.0 only if there is a message.
    pub history: Vec<A2aMessage>,
    /// The client's metadata.
    pub metadata: Option<Metadata>,
}

impl A2aTask {
    /// Creates a task without artifacts, history and metadata.
    pub fn new(
        id: impl Into<String>,
        context_id: impl Into<String>,
        status: A2aTaskStatus,
    ) -> Self {
        Self {
            id: id.into(),
            context_id: context_id.into(),
            status,
            artifacts: None,
            history: Vec::new(),
            metadata: None,
        }
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct TaskView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    context_id: Option<&'a str>,
    status: Encoded<'a, A2aTaskStatus>,
    #[serde(skip_serializing_if = "Option::is_none")]
    artifacts: Option<EncodedList<'a, A2aArtifact>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    history: Option<EncodedList<'a, A2aMessage>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Metadata>,
}

impl WireObject for A2aTask {
    fn read(field: &Field<'_, '_>) -> Result<Self, InvalidField> {
        let object = field.object()?;
        object.check_kind(&["task"])?;
        Ok(Self {
            id: object.required_text("id")?,
            context_id: object.text("contextId")?,
            status: object.required("status")?,
            artifacts: object.optional_list("artifacts")?,
            history: object.list("history")?,
            metadata: object.metadata("metadata")?,
        })
    }

    fn write<S: Serializer>(&self, format: WireFormat, serializer: S) -> Result<S::Ok, S::Error> {
        let is_v1 = format == WireFormat::V1;
        let history = EncodedList::new(&self.history, format);
        let artifacts = self.artifacts.as_deref();
        let view = TaskView {
            kind: (format == WireFormat::V03).then_some("task"),
            id: &self.id,
            context_id: Some(self.context_id.as_str()).filter(|id| !is_v1 || !id.is_empty()),
            status: self.status.encode(format),
            artifacts: artifacts.map(|artifacts| EncodedList::new(artifacts, format)),
            history: (!is_v1 || !self.history.is_empty()).then_some(history),
            metadata: self.metadata.as_ref(),
        };
        view.serialize(serializer)
    }
}

/// An artifact.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct A2aArtifact {
    /// Id, unique in the task.
    pub artifact_id: String,
    /// Name.
    pub name: Option<String>,
    /// Description.
    pub description: Option<String>,
    /// Content.
    pub parts: Vec<A2aPart>,
    /// The agent's metadata.
    pub metadata: Option<Metadata>,
    /// URIs of the extensions that contributed to the artifact.
    pub extensions: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ArtifactView<'a> {
    artifact_id: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    description: Option<&'a str>,
    parts: EncodedList<'a, A2aPart>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Metadata>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extensions: Option<&'a [String]>,
}

impl WireObject for A2aArtifact {
    fn read(field: &Field<'_, '_>) -> Result<Self, InvalidField> {
        let object = field.object()?;
        Ok(Self {
            artifact_id: object.required_text("artifactId")?,
            name: object.optional_text("name")?,
            description: object.optional_text("description")?,
            parts: object.required_list("parts")?,
            metadata: object.metadata("metadata")?,
            extensions: object.texts("extensions")?,
        })
    }

    fn write<S: Serializer>(&self, format: WireFormat, serializer: S) -> Result<S::Ok, S::Error> {
        let view = ArtifactView {
            artifact_id: &self.artifact_id,
            name: self.name.as_deref().and_then(non_empty),
            description: self.description.as_deref().and_then(non_empty),
            parts: EncodedList::new(&self.parts, format),
            metadata: self.metadata.as_ref(),
            extensions: non_empty_list(&self.extensions),
        };
        view.serialize(serializer)
    }
}

/// A change of a task's status.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskStatusUpdateEvent {
    /// Id of the task.
    pub task_id: String,
    /// Id of the conversation.
    pub context_id: String,
    /// The new status.
    pub status: A2aTaskStatus,
    /// True if the server closes the stream after this event; 0.3 only.
    pub is_final: bool,
    /// The agent's metadata.
    pub metadata: Option<Metadata>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct StatusUpdateView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    task_id: &'a str,
    context_id: &'a str,
    status: Encoded<'a, A2aTaskStatus>,
    #[serde(rename = "final", skip_serializing_if = "Option::is_none")]
    is_final: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Metadata>,
}

impl WireObject for TaskStatusUpdateEvent {
    fn read(field: &Field<'_, '_>) -> Result<Self, InvalidField> {
        let object = field.object()?;
        object.check_kind(&["status-update"])?;
        Ok(Self {
            task_id: object.required_text("taskId")?,
            context_id: object.text("contextId")?,
            status: object.required("status")?,
            is_final: match field.format() {
                WireFormat::V1 => false,
                WireFormat::V03 | WireFormat::RestV03 => object.boolean("final")?.unwrap_or(false),
            },
            metadata: object.metadata("metadata")?,
        })
    }

    fn write<S: Serializer>(&self, format: WireFormat, serializer: S) -> Result<S::Ok, S::Error> {
        let view = StatusUpdateView {
            kind: (format == WireFormat::V03).then_some("status-update"),
            task_id: &self.task_id,
            context_id: &self.context_id,
            status: self.status.encode(format),
            is_final: (format != WireFormat::V1).then_some(self.is_final),
            metadata: self.metadata.as_ref(),
        };
        view.serialize(serializer)
    }
}

/// A new artifact, or parts for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TaskArtifactUpdateEvent {
    /// Id of the task.
    pub task_id: String,
    /// Id of the conversation.
    pub context_id: String,
    /// The artifact.
    pub artifact: A2aArtifact,
    /// True if the parts are added to the artifact of that id; else it is created or replaced.
    pub append: bool,
    /// True if the artifact is complete.
    pub last_chunk: bool,
    /// The agent's metadata.
    pub metadata: Option<Metadata>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ArtifactUpdateView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    task_id: &'a str,
    context_id: &'a str,
    artifact: Encoded<'a, A2aArtifact>,
    #[serde(skip_serializing_if = "Option::is_none")]
    append: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_chunk: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Metadata>,
}

impl WireObject for TaskArtifactUpdateEvent {
    fn read(field: &Field<'_, '_>) -> Result<Self, InvalidField> {
        let object = field.object()?;
        object.check_kind(&["artifact-update"])?;
        Ok(Self {
            task_id: object.required_text("taskId")?,
            context_id: object.text("contextId")?,
            artifact: object.required("artifact")?,
            append: object.boolean("append")?.unwrap_or(false),
            last_chunk: object.boolean("lastChunk")?.unwrap_or(false),
            metadata: object.metadata("metadata")?,
        })
    }

    fn write<S: Serializer>(&self, format: WireFormat, serializer: S) -> Result<S::Ok, S::Error> {
        let written = |flag: bool| Some(flag).filter(|flag| *flag || format != WireFormat::V1);
        let view = ArtifactUpdateView {
            kind: (format == WireFormat::V03).then_some("artifact-update"),
            task_id: &self.task_id,
            context_id: &self.context_id,
            artifact: self.artifact.encode(format),
            append: written(self.append),
            last_chunk: written(self.last_chunk),
            metadata: self.metadata.as_ref(),
        };
        view.serialize(serializer)
    }
}

/// An event of a stream, or the body of a push notification.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum StreamResponse {
    /// The task as the stream begins.
    Task(Box<A2aTask>),
    /// A direct answer, which ends the stream.
    Message(Box<A2aMessage>),
    /// A change of status.
    StatusUpdate(Box<TaskStatusUpdateEvent>),
    /// An artifact.
    ArtifactUpdate(Box<TaskArtifactUpdateEvent>),
}

/// Members of the wrapper, and the `kind` of what each holds.
const EVENTS: &[&str] = &["task", "message", "statusUpdate", "artifactUpdate"];
const KINDS: &[&str] = &["task", "message", "status-update", "artifact-update"];

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum StreamResponseView<'a> {
    Task(Encoded<'a, A2aTask>),
    Message(Encoded<'a, A2aMessage>),
    StatusUpdate(Encoded<'a, TaskStatusUpdateEvent>),
    ArtifactUpdate(Encoded<'a, TaskArtifactUpdateEvent>),
}

impl StreamResponse {
    fn read_bare(field: &Field<'_, '_>) -> Result<Self, InvalidField> {
        let object = field.object()?;
        object.check_kind(KINDS)?;
        let kind = object.optional_text("kind")?;
        // Without `kind`, a member that only one of the objects has distinguishes them.
        let has = |name| object.field(name).map(|field| field.is_some());
        let is = |name: &str| kind.as_deref() == Some(name);
        let is_unnamed = kind.is_none();
        if is("message") || (is_unnamed && has("messageId")?) {
            A2aMessage::read(field).map(Box::new).map(Self::Message)
        } else if is("artifact-update") || (is_unnamed && has("artifact")?) {
            let event = TaskArtifactUpdateEvent::read(field)?;
            Ok(Self::ArtifactUpdate(Box::new(event)))
        } else if is("status-update") || (is_unnamed && has("taskId")?) {
            let event = TaskStatusUpdateEvent::read(field)?;
            Ok(Self::StatusUpdate(Box::new(event)))
        } else {
            A2aTask::read(field).map(Box::new).map(Self::Task)
        }
    }

    fn read_wrapped(field: &Field<'_, '_>) -> Result<Self, InvalidField> {
        let object = field.object()?;
        let task = object.optional("task")?.map(Box::new).map(Self::Task);
        // The 0.3 proto calls the message `msg`, and its JSON `message`.
        let message = match (object.optional("message")?, field.format()) {
            (None, WireFormat::RestV03) => object.optional("msg")?,
            (message, _) => message,
        };
        let message = message.map(Box::new).map(Self::Message);
        let status = object.optional("statusUpdate")?;
        let status = status.map(Box::new).map(Self::StatusUpdate);
        let artifact = object.optional("artifactUpdate")?;
        let artifact = artifact.map(Box::new).map(Self::ArtifactUpdate);
        let mut events = [task, message, status, artifact].into_iter().flatten();
        match (events.next(), events.next()) {
            (Some(event), None) => Ok(event),
            _ => Err(object.error(Expectation::OneMember(EVENTS))),
        }
    }
}

impl WireObject for StreamResponse {
    fn read(field: &Field<'_, '_>) -> Result<Self, InvalidField> {
        match field.format() {
            WireFormat::V03 => Self::read_bare(field),
            WireFormat::V1 | WireFormat::RestV03 => Self::read_wrapped(field),
        }
    }

    fn write<S: Serializer>(&self, format: WireFormat, serializer: S) -> Result<S::Ok, S::Error> {
        if format == WireFormat::V03 {
            return match self {
                Self::Task(task) => task.write(format, serializer),
                Self::Message(message) => message.write(format, serializer),
                Self::StatusUpdate(event) => event.write(format, serializer),
                Self::ArtifactUpdate(event) => event.write(format, serializer),
            };
        }
        let view = match self {
            Self::Task(task) => StreamResponseView::Task(task.encode(format)),
            Self::Message(message) => StreamResponseView::Message(message.encode(format)),
            Self::StatusUpdate(event) => StreamResponseView::StatusUpdate(event.encode(format)),
            Self::ArtifactUpdate(event) => StreamResponseView::ArtifactUpdate(event.encode(format)),
        };
        view.serialize(serializer)
    }
}
