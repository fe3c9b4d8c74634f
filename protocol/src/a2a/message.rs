//! Messages and their roles.

use super::field::Field;
use super::invalid_field::{Expectation, InvalidField};
use super::method::WireFormat;
use super::part::A2aPart;
use super::wire::{Encoded, EncodedList, WireObject, non_empty_list};
use crate::vocab::Metadata;
use serde::{Serialize, Serializer};

/// Author of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum A2aRole {
    /// Not given, or unknown to this version; never sent.
    Unspecified,
    /// The client.
    User,
    /// The agent.
    Agent,
}

/// Names by number in the proto.
const ROLES_V1: &[&str] = &["ROLE_UNSPECIFIED", "ROLE_USER", "ROLE_AGENT"];
const ROLES_V03: &[&str] = &["unspecified", "user", "agent"];

const fn role_names(format: WireFormat) -> &'static [&'static str] {
    match format {
        WireFormat::V1 | WireFormat::RestV03 => ROLES_V1,
        WireFormat::V03 => ROLES_V03,
    }
}

impl A2aRole {
    const ALL: [Self; 3] = [Self::Unspecified, Self::User, Self::Agent];
}

impl WireObject for A2aRole {
    fn read(field: &Field<'_, '_>) -> Result<Self, InvalidField> {
        let names = role_names(field.format());
        let position = field.enumeration(names)?;
        match Self::ALL.get(position) {
            Some(Self::Unspecified) | None if !field.codec().is_lenient() => {
                Err(field.error(Expectation::OneOf(names.get(1..).unwrap_or_default())))
            }
            role => Ok(role.copied().unwrap_or(Self::Unspecified)),
        }
    }

    fn write<S: Serializer>(&self, format: WireFormat, serializer: S) -> Result<S::Ok, S::Error> {
        let mut names = Self::ALL.iter().zip(role_names(format));
        let name = names.find(|(role, _)| *role == self);
        serializer.serialize_str(name.map_or("", |(_, name)| name))
    }
}

/// A message.
///
/// ```
/// use interzone_protocol::a2a::{A2aMessage, Codec, WireFormat, WireObject};
///
/// let text = r#"{"message_id":"m","role":1,"parts":[{"text":"hi"}],"contextId":null}"#;
/// let message = A2aMessage::decode(text, Codec::server(WireFormat::V1))?;
/// assert_eq!(
///     serde_json::to_string(&message.encode(WireFormat::V03)).unwrap(),
///     r#"{"kind":"message","messageId":"m","role":"user","parts":[{"kind":"text","text":"hi"}]}"#
/// );
/// # Ok::<(), interzone_protocol::a2a::InvalidField>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct A2aMessage {
    /// Id, chosen by the sender.
    pub message_id: String,
    /// Author.
    pub role: A2aRole,
    /// Content.
    pub parts: Vec<A2aPart>,
    /// Id of the conversation.
    pub context_id: Option<String>,
    /// Id of the task.
    pub task_id: Option<String>,
    /// The sender's metadata.
    pub metadata: Option<Metadata>,
    /// URIs of the extensions that contributed to the message.
    pub extensions: Vec<String>,
    /// Ids of other tasks that the message refers to. REST 0.3 has no member for them.
    pub reference_task_ids: Vec<String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct MessageView<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    kind: Option<&'static str>,
    message_id: &'a str,
    role: Encoded<'a, A2aRole>,
    #[serde(skip_serializing_if = "Option::is_none")]
    parts: Option<EncodedList<'a, A2aPart>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    content: Option<EncodedList<'a, A2aPart>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    context_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    task_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    metadata: Option<&'a Metadata>,
    #[serde(skip_serializing_if = "Option::is_none")]
    extensions: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reference_task_ids: Option<&'a [String]>,
}

impl WireObject for A2aMessage {
    fn read(field: &Field<'_, '_>) -> Result<Self, InvalidField> {
        let object = field.object()?;
        object.check_kind(&["message"])?;
        let parts = match field.format() {
            WireFormat::RestV03 => "content",
            WireFormat::V1 | WireFormat::V03 => "parts",
        };
        let role = if field.codec().is_lenient() {
            object.optional("role")?.unwrap_or(A2aRole::Unspecified)
        } else {
            object.required("role")?
        };
        Ok(Self {
            message_id: object.expected_text("messageId")?,
            role,
            parts: object.required_list(parts)?,
            context_id: object.optional_text("contextId")?,
            task_id: object.optional_text("taskId")?,
            metadata: object.metadata("metadata")?,
            extensions: object.texts("extensions")?,
            reference_task_ids: object.texts("referenceTaskIds")?,
        })
    }

    fn write<S: Serializer>(&self, format: WireFormat, serializer: S) -> Result<S::Ok, S::Error> {
        let is_rest = format == WireFormat::RestV03;
        let parts = || EncodedList::new(&self.parts, format);
        let view = MessageView {
            kind: (format == WireFormat::V03).then_some("message"),
            message_id: &self.message_id,
            role: self.role.encode(format),
            parts: (!is_rest).then(parts),
            content: is_rest.then(parts),
            context_id: self.context_id.as_deref(),
            task_id: self.task_id.as_deref(),
            metadata: self.metadata.as_ref(),
            extensions: non_empty_list(&self.extensions),
            reference_task_ids: non_empty_list(&self.reference_task_ids).filter(|_| !is_rest),
        };
        view.serialize(serializer)
    }
}
