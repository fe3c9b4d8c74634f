//! ACP's JSON of messages, parts and artifacts, for `#[serde(with = …)]`.
//!
//! Members that ACP does not define are kept verbatim and returned, but only those that ACP callers sent: what other
//! dialects add to a message, part or artifact is not written. A part with a URL is written with the member
//! `reference`, and a message with the id of another task, such as a chunk of a stream, with `taskId`.

use crate::vocab::{
    AgentId, Artifact, Encoding, ExtraFields, FieldName, FieldSlot, Message, Metadata, Part,
    PartKind, Role, TaskId, Timestamp, VerbatimJson, serialize_some,
};
use serde::de::{Error as _, MapAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use std::fmt;

/// Member of a part that refers to content elsewhere.
const REFERENCE: &str = "reference";

/// Members of a message by which other dialects identify it. ACP does not define them; a null says nothing.
const FOREIGN_IDS: [&str; 3] = ["messageId", "contextId", "taskId"];

/// A value in ACP's form.
pub(super) struct AcpForm<T>(pub(super) T);

impl Serialize for AcpForm<&Part> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let part = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("type", &part.kind())?;
        serialize_some(&mut map, "content", part.content())?;
        serialize_some(&mut map, "mimeType", part.media_type().as_ref())?;
        serialize_some(&mut map, "filename", part.filename().as_ref())?;
        serialize_some(&mut map, "size", part.size().as_ref())?;
        serialize_some(&mut map, "encoding", part.encoding().as_ref())?;
        serialize_some(&mut map, REFERENCE, reference(part).as_ref())?;
        part.extra().write(&mut map)?;
        map.end()
    }
}

/// The URL of a part, unless the caller gave the part a reference of its own.
fn reference(part: &Part) -> Option<&str> {
    part.url().filter(|_| part.extra().get(REFERENCE).is_none())
}

impl<'de> Deserialize<'de> for AcpForm<Part> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct PartVisitor;
        impl<'de> Visitor<'de> for PartVisitor {
            type Value = AcpForm<Part>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a part: an object with a `type`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut kind = FieldSlot::<PartKind>::new("type");
                let mut content = FieldSlot::<VerbatimJson>::new("content");
                let mut media_type = FieldSlot::<String>::new("mimeType");
                let mut filename = FieldSlot::<String>::new("filename");
                let mut size = FieldSlot::<u64>::new("size");
                let mut encoding = FieldSlot::<Encoding>::new("encoding");
                let mut extra = ExtraFields::default();
                while let Some(FieldName(name)) = map.next_key()? {
                    match &*name {
                        "type" => kind.fill(&mut map)?,
                        "content" => content.fill(&mut map)?,
                        "mimeType" => media_type.fill(&mut map)?,
                        "filename" => filename.fill(&mut map)?,
                        "size" => size.fill(&mut map)?,
                        "encoding" => encoding.fill(&mut map)?,
                        other => extra.read_field(other, &mut map)?,
                    }
                }
                let mut part = Part::new(kind.required()?).with_extra_fields(extra);
                if let Some(content) = content.optional() {
                    part = part.with_content(content);
                }
                if let Some(media_type) = media_type.optional() {
                    part = part.with_media_type(media_type);
                }
                if let Some(filename) = filename.optional() {
                    part = part.with_filename(filename);
                }
                if let Some(size) = size.optional() {
                    part = part.with_size(size);
                }
                if let Some(encoding) = encoding.optional() {
                    part = part.with_encoding(encoding);
                }
                Ok(AcpForm(part))
            }
        }
        deserializer.deserialize_map(PartVisitor)
    }
}

/// Serializes parts as an array.
struct AcpParts<'a>(&'a [Part]);

impl Serialize for AcpParts<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().map(AcpForm))
    }
}

fn into_parts(parts: Vec<AcpForm<Part>>) -> Vec<Part> {
    parts.into_iter().map(|AcpForm(part)| part).collect()
}

impl Serialize for AcpForm<&Message> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let message = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("role", &message.role())?;
        map.serialize_entry("parts", &AcpParts(message.parts()))?;
        serialize_some(&mut map, "timestamp", message.timestamp().as_ref())?;
        serialize_some(&mut map, "agentId", message.agent_id())?;
        serialize_some(&mut map, "taskId", task_id(message))?;
        serialize_some(&mut map, "metadata", message.metadata())?;
        message.extra().write(&mut map)?;
        map.end()
    }
}

/// The task that a message names, unless the caller gave it a member of that name.
fn task_id(message: &Message) -> Option<&TaskId> {
    message
        .task_id()
        .filter(|_| message.extra().get("taskId").is_none())
}

impl<'de> Deserialize<'de> for AcpForm<Message> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct MessageVisitor;
        impl<'de> Visitor<'de> for MessageVisitor {
            type Value = AcpForm<Message>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a message: an object with a `role` and `parts`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut role = FieldSlot::<Role>::new("role");
                let mut parts = FieldSlot::<Vec<AcpForm<Part>>>::new("parts");
                let mut timestamp = FieldSlot::<Timestamp>::new("timestamp");
                let mut agent_id = FieldSlot::<AgentId>::new("agentId");
                let mut metadata = FieldSlot::<Metadata>::new("metadata");
                let mut extra = ExtraFields::default();
                while let Some(FieldName(name)) = map.next_key()? {
                    match &*name {
                        "role" => role.fill(&mut map)?,
                        "parts" => parts.fill(&mut map)?,
                        "timestamp" => timestamp.fill(&mut map)?,
                        "agentId" => agent_id.fill(&mut map)?,
                        "metadata" => metadata.fill(&mut map)?,
                        other => extra.read_field(other, &mut map)?,
                    }
                }
                for name in FOREIGN_IDS {
                    if extra.get(name).is_some_and(VerbatimJson::is_null) {
                        extra.remove(name);
                    }
                }
                let (role, parts) = (role.required()?, into_parts(parts.required()?));
                let message = Message::new(role, parts).map_err(A::Error::custom)?;
                let mut message = message.with_extra_fields(extra);
                if let Some(timestamp) = timestamp.optional() {
                    message = message.with_timestamp(timestamp);
                }
                if let Some(agent_id) = agent_id.optional() {
                    message = message.with_agent_id(agent_id);
                }
                if let Some(metadata) = metadata.optional() {
                    message = message.with_metadata(metadata);
                }
                Ok(AcpForm(message))
            }
        }
        deserializer.deserialize_map(MessageVisitor)
    }
}

impl Serialize for AcpForm<&Artifact> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let artifact = self.0;
        let mut map = serializer.serialize_map(None)?;
        map.serialize_entry("artifactId", artifact.artifact_id())?;
        map.serialize_entry("name", artifact.name())?;
        map.serialize_entry("parts", &AcpParts(artifact.parts()))?;
        serialize_some(&mut map, "description", artifact.description().as_ref())?;
        serialize_some(&mut map, "createdAt", artifact.created_at().as_ref())?;
        serialize_some(&mut map, "createdBy", artifact.created_by().as_ref())?;
        serialize_some(&mut map, "version", artifact.version().as_ref())?;
        serialize_some(&mut map, "metadata", artifact.metadata())?;
        artifact.extra().write(&mut map)?;
        map.end()
    }
}

impl<'de> Deserialize<'de> for AcpForm<Artifact> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct ArtifactVisitor;
        impl<'de> Visitor<'de> for ArtifactVisitor {
            type Value = AcpForm<Artifact>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an artifact: an object with an `artifactId`, a `name` and `parts`")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut artifact_id = FieldSlot::new("artifactId");
                let mut name = FieldSlot::<String>::new("name");
                let mut parts = FieldSlot::<Vec<AcpForm<Part>>>::new("parts");
                let mut description = FieldSlot::<String>::new("description");
                let mut created_at = FieldSlot::<Timestamp>::new("createdAt");
                let mut created_by = FieldSlot::<String>::new("createdBy");
                let mut version = FieldSlot::<String>::new("version");
                let mut metadata = FieldSlot::<Metadata>::new("metadata");
                let mut extra = ExtraFields::default();
                while let Some(FieldName(key)) = map.next_key()? {
                    match &*key {
                        "artifactId" => artifact_id.fill(&mut map)?,
                        "name" => name.fill(&mut map)?,
                        "parts" => parts.fill(&mut map)?,
                        "description" => description.fill(&mut map)?,
                        "createdAt" => created_at.fill(&mut map)?,
                        "createdBy" => created_by.fill(&mut map)?,
                        "version" => version.fill(&mut map)?,
                        "metadata" => metadata.fill(&mut map)?,
                        other => extra.read_field(other, &mut map)?,
                    }
                }
                let mut artifact =
                    Artifact::new(artifact_id.required()?, name.required::<A::Error>()?)
                        .with_parts(into_parts(parts.required()?))
                        .with_extra_fields(extra);
                if let Some(description) = description.optional() {
                    artifact = artifact.with_description(description);
                }
                if let Some(created_at) = created_at.optional() {
                    artifact = artifact.with_created_at(created_at);
                }
                if let Some(created_by) = created_by.optional() {
                    artifact = artifact.with_created_by(created_by);
                }
                if let Some(version) = version.optional() {
                    artifact = artifact.with_version(version);
                }
                if let Some(metadata) = metadata.optional() {
                    artifact = artifact.with_metadata(metadata);
                }
                Ok(AcpForm(artifact))
            }
        }
        deserializer.deserialize_map(ArtifactVisitor)
    }
}

/// A member that is a message.
pub(super) mod message {
    use super::{AcpForm, Deserialize, Deserializer, Message, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer>(message: &Message, to: S) -> Result<S::Ok, S::Error> {
        AcpForm(message).serialize(to)
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>>(from: D) -> Result<Message, D::Error> {
        AcpForm::deserialize(from).map(|AcpForm(message)| message)
    }
}

/// An optional member that is a list of messages or artifacts.
pub(super) mod list {
    use super::{AcpForm, Deserialize, Deserializer, Serialize, Serializer};

    pub(crate) fn serialize<S: Serializer, T>(
        items: &Option<Vec<T>>,
        to: S,
    ) -> Result<S::Ok, S::Error>
    where
        for<'a> AcpForm<&'a T>: Serialize,
    {
        match items {
            Some(items) => to.collect_seq(items.iter().map(AcpForm)),
            None => to.serialize_none(),
        }
    }

    pub(crate) fn deserialize<'de, D: Deserializer<'de>, T>(
        from: D,
    ) -> Result<Option<Vec<T>>, D::Error>
    where
        AcpForm<T>: Deserialize<'de>,
    {
        let items: Option<Vec<AcpForm<T>>> = Option::deserialize(from)?;
        Ok(items.map(|items| items.into_iter().map(|AcpForm(item)| item).collect()))
    }
}

/// Serializes a message as ACP's JSON.
///
/// # Errors
/// None in practice: every message has a JSON form.
pub fn message_to_json(message: &Message) -> Result<VerbatimJson, crate::vocab::InvalidJson> {
    VerbatimJson::from_value(&AcpForm(message))
}

/// Reads a message from ACP's JSON.
///
/// # Errors
/// It is not a message.
pub fn message_from_json(json: &VerbatimJson) -> Result<Message, serde_json::Error> {
    json.decode().map(|AcpForm(message)| message)
}

/// Serializes an artifact as ACP's JSON.
///
/// # Errors
/// None in practice: every artifact has a JSON form.
pub fn artifact_to_json(artifact: &Artifact) -> Result<VerbatimJson, crate::vocab::InvalidJson> {
    VerbatimJson::from_value(&AcpForm(artifact))
}

/// Reads an artifact from ACP's JSON.
///
/// # Errors
/// It is not an artifact.
pub fn artifact_from_json(json: &VerbatimJson) -> Result<Artifact, serde_json::Error> {
    json.decode().map(|AcpForm(artifact)| artifact)
}
