//! Messages: what one side says in one go.

use super::json::Metadata;
use super::members::{Members, Name, Slot, entry, entry_to, json_to, list_to};
use super::{AgentId, ContextId, MessageId, Part, PartKind, Role, TaskId, Timestamp};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// A message has no parts, and must have one.
///
/// ```
/// use interzone_protocol::vocab::{Message, NoParts, Part, Role};
///
/// assert_eq!(Message::new(Role::User, Vec::new()), Err(NoParts));
/// assert!(Message::new(Role::User, vec![Part::text("hi")]).is_ok());
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a message needs at least one part")]
pub struct NoParts;

/// What a user, an agent or the system says: at least one part.
///
/// Members that we do not know survive a round trip.
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
    extra: Members,
}

impl Message {
    /// A message of several parts.
    ///
    /// # Errors
    /// There are no parts.
    pub fn new(role: Role, parts: Vec<Part>) -> Result<Self, NoParts> {
        if parts.is_empty() {
            Err(NoParts)
        } else {
            Ok(Self::of(role, parts))
        }
    }

    /// A message of one part, which needs no check.
    pub fn single(role: Role, part: Part) -> Self {
        Self::of(role, vec![part])
    }

    /// A user's words.
    pub fn user_text(text: impl AsRef<str>) -> Self {
        Self::single(Role::User, Part::text(text))
    }

    /// An agent's words.
    pub fn agent_text(text: impl AsRef<str>) -> Self {
        Self::single(Role::Agent, Part::text(text))
    }

    fn of(role: Role, parts: Vec<Part>) -> Self {
        Self {
            role,
            parts,
            timestamp: None,
            agent_id: None,
            message_id: None,
            context_id: None,
            task_id: None,
            metadata: None,
            extra: Members::default(),
        }
    }

    /// Says when it was said.
    #[must_use]
    pub fn with_timestamp(mut self, timestamp: Timestamp) -> Self {
        self.timestamp = Some(timestamp);
        self
    }

    /// Says which agent said it.
    #[must_use]
    pub fn with_agent_id(mut self, agent_id: AgentId) -> Self {
        self.agent_id = Some(agent_id);
        self
    }

    /// Names the message.
    #[must_use]
    pub fn with_message_id(mut self, message_id: MessageId) -> Self {
        self.message_id = Some(message_id);
        self
    }

    /// Says which conversation it belongs to.
    #[must_use]
    pub fn with_context_id(mut self, context_id: ContextId) -> Self {
        self.context_id = Some(context_id);
        self
    }

    /// Says which task it belongs to.
    #[must_use]
    pub fn with_task_id(mut self, task_id: TaskId) -> Self {
        self.task_id = Some(task_id);
        self
    }

    /// Attaches metadata.
    #[must_use]
    pub fn with_metadata(mut self, metadata: Metadata) -> Self {
        self.metadata = Some(metadata);
        self
    }

    /// Puts other parts in the place of its own: a store keeps large ones elsewhere. Without any,
    /// the message stays as it is.
    #[must_use]
    pub fn replace_parts(mut self, parts: Vec<Part>) -> Self {
        if !parts.is_empty() {
            self.parts = parts;
        }
        self
    }

    /// Puts another part in the place of each.
    #[must_use]
    pub fn map_parts(mut self, map: impl FnMut(Part) -> Part) -> Self {
        self.parts = self.parts.into_iter().map(map).collect();
        self
    }

    /// Who says it.
    pub fn role(&self) -> Role {
        self.role
    }

    /// What is said; never empty.
    pub fn parts(&self) -> &[Part] {
        &self.parts
    }

    /// When it was said.
    pub fn timestamp(&self) -> Option<Timestamp> {
        self.timestamp
    }

    /// Which agent said it.
    pub fn agent_id(&self) -> Option<&AgentId> {
        self.agent_id.as_ref()
    }

    /// The sender's name for it.
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

    /// What was attached.
    pub fn metadata(&self) -> Option<&Metadata> {
        self.metadata.as_ref()
    }

    /// The members that we do not know.
    pub fn extra(&self) -> &Members {
        &self.extra
    }

    /// The words of all its text parts, each from a new line on.
    pub fn text(&self) -> String {
        let texts = self
            .parts
            .iter()
            .filter(|part| part.kind() == PartKind::Text);
        let words: Vec<_> = texts.filter_map(Part::as_text).collect();
        words.join("\n")
    }

    /// Writes it as JSON at the end of `out`, as serde would, for whom a message is many small pieces.
    ///
    /// # Errors
    /// None that is known: every message has a JSON form.
    pub fn write_to(&self, out: &mut Vec<u8>) -> Result<(), serde_json::Error> {
        out.extend_from_slice(b"{\"role\":\"");
        out.extend_from_slice(self.role.name().as_bytes());
        out.extend_from_slice(b"\",\"parts\":");
        list_to(out, &self.parts, Part::write_to)?;
        if let Some(timestamp) = self.timestamp {
            out.extend_from_slice(b",\"timestamp\":");
            timestamp.write_to(out);
        }
        entry_to(out, b",\"agentId\":", self.agent_id.as_ref())?;
        entry_to(out, b",\"messageId\":", self.message_id.as_ref())?;
        entry_to(out, b",\"contextId\":", self.context_id.as_ref())?;
        entry_to(out, b",\"taskId\":", self.task_id.as_ref())?;
        let metadata = self.metadata.as_ref().map(Metadata::as_json);
        json_to(out, b",\"metadata\":", metadata);
        self.extra.write_to(out);
        out.push(b'}');
        Ok(())
    }
}

impl Serialize for Message {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("role", &self.role)?;
        map.serialize_entry("parts", &self.parts)?;
        entry(&mut map, "timestamp", self.timestamp.as_ref())?;
        entry(&mut map, "agentId", self.agent_id.as_ref())?;
        entry(&mut map, "messageId", self.message_id.as_ref())?;
        entry(&mut map, "contextId", self.context_id.as_ref())?;
        entry(&mut map, "taskId", self.task_id.as_ref())?;
        entry(&mut map, "metadata", self.metadata.as_ref())?;
        self.extra.write(&mut map)?;
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
                let mut role = Slot::new("role");
                let mut parts = Slot::new("parts");
                let mut timestamp = Slot::new("timestamp");
                let mut agent_id = Slot::new("agentId");
                let mut message_id = Slot::new("messageId");
                let mut context_id = Slot::new("contextId");
                let mut task_id = Slot::new("taskId");
                let mut metadata = Slot::new("metadata");
                let mut extra = Members::default();
                while let Some(Name(name)) = map.next_key()? {
                    match &*name {
                        "role" => role.fill(&mut map)?,
                        "parts" => parts.fill(&mut map)?,
                        "timestamp" => timestamp.fill(&mut map)?,
                        "agentId" => agent_id.fill(&mut map)?,
                        "messageId" => message_id.fill(&mut map)?,
                        "contextId" => context_id.fill(&mut map)?,
                        "taskId" => task_id.fill(&mut map)?,
                        "metadata" => metadata.fill(&mut map)?,
                        other => extra.take_from(other, &mut map)?,
                    }
                }
                let message =
                    Message::new(role.required()?, parts.required()?).map_err(A::Error::custom)?;
                Ok(Message {
                    timestamp: timestamp.optional(),
                    agent_id: agent_id.optional(),
                    message_id: message_id.optional(),
                    context_id: context_id.optional(),
                    task_id: task_id.optional(),
                    metadata: metadata.optional(),
                    extra,
                    ..message
                })
            }
        }
        deserializer.deserialize_map(MessageVisitor)
    }
}
