//! Messages.

use super::extra_fields::{ExtraFields, FieldName, FieldSlot, serialize_some};
use super::json::Metadata;
use super::{AgentId, ContextId, MessageId, Part, PartKind, PrincipalId, Role, TaskId, Timestamp};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;
use std::num::NonZeroU32;

/// Error: a message must have at least one part.
///
/// ```
/// use interzone_protocol::vocab::{EmptyMessage, Message, Part, Role};
///
/// assert_eq!(Message::new(Role::User, Vec::new()), Err(EmptyMessage));
/// assert!(Message::new(Role::User, vec![Part::text("hi")]).is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message needs at least one part")]
pub struct EmptyMessage;

/// A message from a user, an agent or the system, with at least one part.
///
/// Extra fields survive a round trip.
///
/// ```
/// use interzone_protocol::vocab::{Message, Role};
///
/// let message: Message =
///     serde_json::from_str(r#"{"role":"user","parts":[{"type":"TextPart","content":"hi"}],"timestamp":null}"#)?;
/// assert_eq!(message.role(), Role::User);
/// assert_eq!(message.text(), "hi");
/// assert_eq!(
///     serde_json::to_string(&message)?,
///     r#"{"role":"user","parts":[{"type":"TextPart","content":"hi"}]}"#
/// );
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Message {
    role: Role,
    parts: Vec<Part>,
    timestamp: Option<Timestamp>,
    agent_id: Option<AgentId>,
    message_id: Option<MessageId>,
    context_id: Option<ContextId>,
    task_id: Option<TaskId>,
    metadata: Option<Metadata>,
    extensions: Vec<String>,
    reference_task_ids: Vec<TaskId>,
    author: Option<PrincipalId>,
    /// One more than the index, since zero takes no space in an option.
    answers: Option<NonZeroU32>,
    extra: ExtraFields,
}

impl Message {
    /// Creates a message of several parts.
    ///
    /// # Errors
    /// `parts` is empty.
    pub fn new(role: Role, parts: Vec<Part>) -> Result<Self, EmptyMessage> {
        if parts.is_empty() {
            Err(EmptyMessage)
        } else {
            Ok(Self::from_parts(role, parts))
        }
    }

    /// Creates a message of one part.
    pub fn single(role: Role, part: Part) -> Self {
        Self::from_parts(role, vec![part])
    }

    /// Creates a user's text message.
    pub fn user_text(text: impl AsRef<str>) -> Self {
        Self::single(Role::User, Part::text(text))
    }

    /// Creates an agent's text message.
    pub fn agent_text(text: impl AsRef<str>) -> Self {
        Self::single(Role::Agent, Part::text(text))
    }

    fn from_parts(role: Role, parts: Vec<Part>) -> Self {
        Self {
            role,
            parts,
            timestamp: None,
            agent_id: None,
            message_id: None,
            context_id: None,
            task_id: None,
            metadata: None,
            extensions: Vec::new(),
            reference_task_ids: Vec::new(),
            author: None,
            answers: None,
            extra: ExtraFields::default(),
        }
    }

    /// Sets the time of the message.
    #[must_use]
    pub fn with_timestamp(mut self, timestamp: Timestamp) -> Self {
        self.timestamp = Some(timestamp);
        self
    }

    /// Sets the agent that sent it.
    #[must_use]
    pub fn with_agent_id(mut self, agent_id: AgentId) -> Self {
        self.agent_id = Some(agent_id);
        self
    }

    /// Sets the message id.
    #[must_use]
    pub fn with_message_id(mut self, message_id: MessageId) -> Self {
        self.message_id = Some(message_id);
        self
    }

    /// Sets the conversation it belongs to.
    #[must_use]
    pub fn with_context_id(mut self, context_id: ContextId) -> Self {
        self.context_id = Some(context_id);
        self
    }

    /// Sets the task it belongs to.
    #[must_use]
    pub fn with_task_id(mut self, task_id: TaskId) -> Self {
        self.task_id = Some(task_id);
        self
    }

    /// Removes the task and the conversation, where they are those that the message is stored with.
    #[must_use]
    pub fn without_place(mut self) -> Self {
        self.context_id = None;
        self.task_id = None;
        self
    }

    /// Sets the metadata.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = Some(metadata);
        self
    }

    /// Sets the URIs of the protocol extensions that it uses.
    #[must_use]
    pub fn with_extensions(mut self, extensions: Vec<String>) -> Self {
        self.extensions = extensions;
        self
    }

    /// Sets the tasks that it refers to.
    #[must_use]
    pub fn with_reference_task_ids(mut self, ids: Vec<TaskId>) -> Self {
        self.reference_task_ids = ids;
        self
    }

    /// Sets or removes the caller that sent it.
    #[must_use]
    pub fn with_author(mut self, author: Option<PrincipalId>) -> Self {
        self.author = author;
        self
    }

    /// Sets or removes the index of the message that it is the answer to.
    #[must_use]
    pub fn with_answers(mut self, index: Option<u32>) -> Self {
        self.answers = index.and_then(|index| NonZeroU32::new(index.checked_add(1)?));
        self
    }

    /// Replaces the extra fields.
    #[must_use]
    pub(crate) fn with_extra_fields(mut self, extra: ExtraFields) -> Self {
        self.extra = extra;
        self
    }

    /// Replaces the parts, for stores that offload large ones. An empty list leaves the message
    /// unchanged.
    #[must_use]
    pub fn replace_parts(mut self, parts: Vec<Part>) -> Self {
        if !parts.is_empty() {
            self.parts = parts;
        }
        self
    }

    /// Replaces each part.
    #[must_use]
    pub fn map_parts(mut self, map: impl FnMut(Part) -> Part) -> Self {
        self.parts = self.parts.into_iter().map(map).collect();
        self
    }

    /// The author's role.
    pub fn role(&self) -> Role {
        self.role
    }

    /// The parts; never empty.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// The time of the message.
    pub fn timestamp(&self) -> Option<Timestamp> {
        self.timestamp
    }

    /// The agent that sent it.
    pub fn agent_id(&self) -> Option<&AgentId> {
        self.agent_id.as_ref()
    }

    /// The id chosen by the sender.
    pub fn message_id(&self) -> Option<&MessageId> {
        self.message_id.as_ref()
    }

    /// The conversation it belongs to.
    pub fn context_id(&self) -> Option<&ContextId> {
        self.context_id.as_ref()
    }

    /// The task it belongs to.
    pub fn task_id(&self) -> Option<&TaskId> {
        self.task_id.as_ref()
    }

    /// The metadata.
    pub fn metadata(&self) -> Option<&Metadata> {
        self.metadata.as_ref()
    }

    /// The URIs of the protocol extensions that it uses.
    pub fn extensions(&self) -> &[String] {
        &self.extensions
    }

    /// The tasks that it refers to.
    pub fn reference_task_ids(&self) -> &[TaskId] {
        &self.reference_task_ids
    }

    /// The caller that sent it, if its role does not tell that a caller did: a message with the role of an agent, from
    /// a caller.
    pub fn author(&self) -> Option<&PrincipalId> {
        self.author.as_ref()
    }

    /// The index, in the task's history, of the message that it is the agent's answer to. The hub sets it, and only for
    /// messages that end a turn without a question, a refusal or a failure.
    pub fn answers(&self) -> Option<u32> {
        self.answers.map(|next| next.get() - 1)
    }

    /// Returns true if the agent that serves the task wrote it. A message from a caller may have the role of an agent
    /// too.
    pub fn is_agent_output(&self) -> bool {
        self.role == Role::Agent && self.author.is_none()
    }

    /// The fields that ACP callers added.
    pub fn extra(&self) -> &ExtraFields {
        &self.extra
    }

    /// The text of all text parts, joined by newlines.
    pub fn text(&self) -> String {
        let texts = self
            .parts
            .iter()
            .filter(|part| part.kind() == PartKind::Text);
        let contents: Vec<_> = texts.filter_map(Part::as_text).collect();
        contents.join("\n")
    }
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("role", &self.role)?;
        map.serialize_entry("parts", &self.parts)?;
        serialize_some(&mut map, "timestamp", self.timestamp.as_ref())?;
        serialize_some(&mut map, "agentId", self.agent_id.as_ref())?;
        serialize_some(&mut map, "messageId", self.message_id.as_ref())?;
        serialize_some(&mut map, "contextId", self.context_id.as_ref())?;
        serialize_some(&mut map, "taskId", self.task_id.as_ref())?;
        serialize_some(&mut map, "metadata", self.metadata.as_ref())?;
        let extensions = Some(&self.extensions).filter(|uris| !uris.is_empty());
        serialize_some(&mut map, "extensions", extensions)?;
        let references = Some(&self.reference_task_ids).filter(|ids| !ids.is_empty());
        serialize_some(&mut map, "referenceTaskIds", references)?;
        serialize_some(&mut map, "author", self.author.as_ref())?;
        serialize_some(&mut map, "answers", self.answers().as_ref())?;
        serialize_some(&mut map, "extra", self.extra.non_empty())?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for Message {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MessageVisitor;
        impl<'de> Visitor<'de> for MessageVisitor {
            type Value = Message;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a message: an object with a `role` and `parts`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Message, A::Error> {
                let mut role = FieldSlot::new("role");
                let mut parts = FieldSlot::new("parts");
                let mut timestamp = FieldSlot::new("timestamp");
                let mut agent_id = FieldSlot::new("agentId");
                let mut message_id = FieldSlot::new("messageId");
                let mut context_id = FieldSlot::new("contextId");
                let mut task_id = FieldSlot::new("taskId");
                let mut metadata = FieldSlot::new("metadata");
                let mut extensions = FieldSlot::new("extensions");
                let mut reference_task_ids = FieldSlot::new("referenceTaskIds");
                let mut author = FieldSlot::new("author");
                let mut answers = FieldSlot::<u32>::new("answers");
                let mut extra = FieldSlot::<ExtraFields>::new("extra");
                let mut unknown = ExtraFields::default();
                while let Some(FieldName(name)) = map.next_key()? {
                    match &*name {
                        "role" => role.fill(&mut map)?,
                        "parts" => parts.fill(&mut map)?,
                        "timestamp" => timestamp.fill(&mut map)?,
                        "agentId" => agent_id.fill(&mut map)?,
                        "messageId" => message_id.fill(&mut map)?,
                        "contextId" => context_id.fill(&mut map)?,
                        "taskId" => task_id.fill(&mut map)?,
                        "metadata" => metadata.fill(&mut map)?,
                        "extensions" => extensions.fill(&mut map)?,
                        "referenceTaskIds" => reference_task_ids.fill(&mut map)?,
                        "author" => author.fill(&mut map)?,
                        "answers" => answers.fill(&mut map)?,
                        "extra" => extra.fill(&mut map)?,
                        // Programs may give them without `extra`.
                        other => unknown.read_field(other, &mut map)?,
                    }
                }
                let message =
                    Message::new(role.required()?, parts.required()?).map_err(A::Error::custom)?;
                let mut extra = extra.optional().unwrap_or_default();
                extra.append(unknown);
                Ok(Message {
                    timestamp: timestamp.optional(),
                    agent_id: agent_id.optional(),
                    message_id: message_id.optional(),
                    context_id: context_id.optional(),
                    task_id: task_id.optional(),
                    metadata: metadata.optional(),
                    extensions: extensions.optional().unwrap_or_default(),
                    reference_task_ids: reference_task_ids.optional().unwrap_or_default(),
                    author: author.optional(),
                    extra,
                    ..message
                }
                .with_answers(answers.optional()))
            }
        }
        deserializer.deserialize_map(MessageVisitor)
    }
}
