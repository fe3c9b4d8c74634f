//! Conversion between A2A's objects and the hub's.
//!
//! The hub keeps all messages of a task in one list. A2A shows an agent's answer as the artifact `answer-{turn}`, its
//! current question as the message of the status, and only the other messages as history. The turn is the number of the
//! client's message that began it.

use interzone_hub::{FETCH_URL_FIELD, Task, TaskDetail};
use interzone_protocol::a2a::{
    A2aArtifact, A2aMessage, A2aPart, A2aRole, A2aTask, A2aTaskState, A2aTaskStatus, Base64Text,
    Expectation, InvalidField, PartContent, edit_metadata,
};
use interzone_protocol::vocab::{
    Artifact, Encoding, ExtraFields, Message, MessageId, Metadata, Part, PartKind, Role, TaskId,
    TaskState, VerbatimJson,
};
use serde::{Serialize, Serializer};

/// Metadata in which members that ACP callers added are shown.
const EXTRA: &str = "interzone.extra";

/// What is shown of a task beside its status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TaskContents {
    /// Number of messages in the history; `None` means all.
    pub(super) history: Option<u32>,
    /// If artifacts are shown.
    pub(super) artifacts: bool,
}

impl TaskContents {
    /// All of a task, with this many messages.
    pub(super) fn all(history: Option<u32>) -> Self {
        Self {
            history,
            artifacts: true,
        }
    }

    /// Number of messages that have to be read: answers and questions are recognized among all of them, and a question
    /// is the last one.
    pub(super) fn messages_to_read(self) -> usize {
        match self.artifacts || self.history != Some(0) {
            true => usize::MAX,
            false => 1,
        }
    }
}

/// Converts a task, read with [`TaskContents::messages_to_read`].
pub(super) fn task(detail: &TaskDetail, contents: TaskContents) -> A2aTask {
    let task = &detail.task;
    let status_index = status_index(detail);
    let shown_status = detail
        .status_message
        .as_ref()
        .filter(|_| has_status_message(task.state));
    let status = A2aTaskStatus {
        state: A2aTaskState(Some(task.state)),
        message: shown_status.map(|status| {
            let id = match status_index {
                Some(index) => message_id(detail, status, index),
                None => format!("{}-status", task.id),
            };
            let role = Role::Agent;
            message_of(&detail.task, status, role, id)
        }),
        timestamp: Some(task.status_at),
    };
    let hidden = status_index.filter(|_| shown_status.is_some());
    let artifacts = contents.artifacts.then(|| artifacts(detail));
    A2aTask {
        artifacts: artifacts.filter(|artifacts| !artifacts.is_empty()),
        history: history(detail, hidden, contents.history),
        metadata: task.metadata.clone(),
        ..A2aTask::new(task.id.as_str(), task.context_id.as_str(), status)
    }
}

/// Returns the agent's answer, if it is all that a caller needs of the task.
pub(super) fn direct_answer(detail: &TaskDetail) -> Option<A2aMessage> {
    let answer = detail.messages.last().filter(|_| detail.task.is_direct)?;
    let id = message_id(detail, answer, detail.task.message_count.saturating_sub(1));
    Some(A2aMessage {
        task_id: None,
        ..message_of(&detail.task, answer, Role::Agent, id)
    })
}

/// True if the message of this state is shown: a question, a request or a reason.
pub(super) const fn has_status_message(state: TaskState) -> bool {
    match state {
        TaskState::InputRequired
        | TaskState::AuthRequired
        | TaskState::Failed
        | TaskState::Rejected => true,
        TaskState::Submitted | TaskState::Working | TaskState::Completed | TaskState::Canceled => {
            false
        }
    }
}

/// Index of the message that is also the status message, if it is in the history: then it is the agent's last one.
fn status_index(detail: &TaskDetail) -> Option<u32> {
    let status = detail.status_message.as_ref()?;
    let (index, last) = indexed_messages(detail).last()?;
    (last.is_agent_output() && last.parts() == status.parts()).then_some(index)
}

/// The messages that were read, with their indexes in the history of the task.
pub(super) fn indexed_messages(
    detail: &TaskDetail,
) -> impl DoubleEndedIterator<Item = (u32, &Message)> {
    let count = u32::try_from(detail.messages.len()).unwrap_or(u32::MAX);
    let first = detail.task.message_count.saturating_sub(count);
    (first..detail.task.message_count).zip(&detail.messages)
}

/// Returns the newest messages of client and agent, oldest first, without answers and the current question.
fn history(detail: &TaskDetail, hidden: Option<u32>, limit: Option<u32>) -> Vec<A2aMessage> {
    let limit = limit.map_or(usize::MAX, |limit| {
        usize::try_from(limit).unwrap_or(usize::MAX)
    });
    let shown = indexed_messages(detail)
        .filter(|(index, message)| message.answers().is_none() && Some(*index) != hidden);
    let mut newest: Vec<_> = shown.rev().take(limit).collect();
    newest.reverse();
    let convert = |(index, message): (u32, &Message)| {
        let id = message_id(detail, message, index);
        message_of(&detail.task, message, message.role(), id)
    };
    newest.into_iter().map(convert).collect()
}

/// Returns the agent's artifacts, then its answers.
fn artifacts(detail: &TaskDetail) -> Vec<A2aArtifact> {
    let answers = indexed_messages(detail).filter_map(|(_, message)| {
        let turn = turn_of(detail, message.answers()?);
        Some(answer(message, turn))
    });
    detail
        .artifacts
        .iter()
        .map(artifact)
        .chain(answers)
        .collect()
}

/// Number of the client message with this index.
fn turn_of(detail: &TaskDetail, index: u32) -> usize {
    indexed_messages(detail)
        .take_while(|(at, _)| *at <= index)
        .filter(|(_, message)| !message.is_agent_output())
        .count()
}

/// Id of the artifact with the answer of a turn.
pub(super) fn answer_id(turn: usize) -> String {
    format!("answer-{turn}")
}

/// Converts the answer of a turn.
pub(super) fn answer(message: &Message, turn: usize) -> A2aArtifact {
    A2aArtifact {
        artifact_id: answer_id(turn),
        name: None,
        description: None,
        parts: message.parts().iter().map(part).collect(),
        metadata: with_extra(message.metadata(), message.extra()),
        extensions: message.extensions().to_vec(),
    }
}

pub(super) fn artifact(artifact: &Artifact) -> A2aArtifact {
    let mut parts: Vec<_> = artifact.parts().iter().map(part).collect();
    if parts.is_empty() {
        parts.push(PartContent::Text(String::new()).into());
    }
    A2aArtifact {
        artifact_id: artifact.artifact_id().to_string(),
        name: Some(artifact.name().to_owned()),
        description: artifact.description().map(str::to_owned),
        parts,
        metadata: with_extra(artifact.metadata(), artifact.extra()),
        extensions: artifact.extensions().to_vec(),
    }
}

/// Id of a message: the sender's, else one that is the same for all readers.
fn message_id(detail: &TaskDetail, message: &Message, index: u32) -> String {
    match message.message_id() {
        Some(id) => id.to_string(),
        None => format!("{}-{index}", detail.task.id),
    }
}

/// Converts a message of a task.
pub(super) fn message_of(task: &Task, message: &Message, role: Role, id: String) -> A2aMessage {
    let references = message.reference_task_ids().iter();
    A2aMessage {
        message_id: id,
        role: match role {
            Role::Agent => A2aRole::Agent,
            Role::User | Role::System => A2aRole::User,
        },
        parts: message.parts().iter().map(part).collect(),
        context_id: Some(task.context_id.to_string()),
        task_id: Some(task.id.to_string()),
        metadata: with_extra(message.metadata(), message.extra()),
        extensions: message.extensions().to_vec(),
        reference_task_ids: references.map(ToString::to_string).collect(),
    }
}

fn part(part: &Part) -> A2aPart {
    A2aPart {
        content: content(part),
        filename: part.filename().map(str::to_owned),
        media_type: part.media_type().map(str::to_owned),
        metadata: with_extra(part.metadata(), part.extra()),
    }
}

/// Converts the content. A file whose content is not known is an empty text with the name of the file.
fn content(part: &Part) -> PartContent {
    let text = || part.as_text().map(std::borrow::Cow::into_owned);
    let data = || {
        let null = || VerbatimJson::from_value(&()).ok();
        part.content().cloned().or_else(null)
    };
    let file = || {
        let url = || part.url().map(|url| PartContent::Url(url.to_owned()));
        let Some(text) = text() else {
            return url().or_else(|| part.content().cloned().map(PartContent::Data));
        };
        Some(PartContent::Raw(match part.encoding() {
            Some(Encoding::Utf8) => Base64Text::from_bytes(text.as_bytes()),
            Some(Encoding::Base64 | Encoding::Binary) | None => Base64Text::parse(text)?,
        }))
    };
    let content = match part.kind() {
        PartKind::Text => text()
            .map(PartContent::Text)
            .or_else(|| part.content().cloned().map(PartContent::Data)),
        PartKind::Data => data().map(PartContent::Data),
        PartKind::File | PartKind::Image | PartKind::Audio => file(),
    };
    content.unwrap_or_else(|| PartContent::Text(String::new()))
}

/// Returns the metadata with the members that an ACP caller added.
fn with_extra(metadata: Option<&Metadata>, extra: &ExtraFields) -> Option<Metadata> {
    let shown = ShownExtra(extra);
    if shown.iter().next().is_none() {
        return metadata.cloned();
    }
    let extra = VerbatimJson::from_value(&shown).ok();
    let edited = extra.and_then(|extra| edit_metadata(metadata, &[(EXTRA, extra)]));
    edited.or_else(|| metadata.cloned())
}

/// Extra members without the download URL of an attachment, which gives access to the file.
struct ShownExtra<'a>(&'a ExtraFields);

impl<'a> ShownExtra<'a> {
    fn iter(&self) -> impl Iterator<Item = (&'a str, &'a VerbatimJson)> {
        let members = self.0.iter();
        members.filter(|(name, _)| *name != FETCH_URL_FIELD)
    }
}

impl Serialize for ShownExtra<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_map(self.iter())
    }
}

/// Converts a client's message, with the tasks that it refers to and the client may see.
pub(super) fn hub_message(
    message: A2aMessage,
    references: Vec<TaskId>,
) -> Result<Message, InvalidField> {
    let role = match message.role {
        A2aRole::Agent => Role::Agent,
        A2aRole::User | A2aRole::Unspecified => Role::User,
    };
    let id = MessageId::new(message.message_id).map_err(|_| {
        let rule = "must have 1 to 256 bytes and no control characters";
        InvalidField::new("message.messageId", Expectation::Rule(rule))
    })?;
    let parts = message.parts.into_iter().map(hub_part).collect();
    let converted = Message::new(role, parts)
        .map_err(|_| InvalidField::new("message.parts", Expectation::NonEmptyArray))?
        .with_message_id(id)
        .with_extensions(message.extensions)
        .with_reference_task_ids(references);
    Ok(match message.metadata {
        Some(metadata) => converted.with_metadata(metadata),
        None => converted,
    })
}

fn hub_part(part: A2aPart) -> Part {
    let mut converted = match part.content {
        PartContent::Text(text) => Part::text(text),
        PartContent::Data(data) => Part::data(data),
        PartContent::Url(url) => Part::new(file_kind(part.media_type.as_deref())).with_url(url),
        PartContent::Raw(raw) => {
            let file = Part::new(file_kind(part.media_type.as_deref()));
            match VerbatimJson::from_text(raw.into_string()) {
                Ok(content) => file.with_content(content).with_encoding(Encoding::Base64),
                Err(_) => file,
            }
        }
    };
    if let Some(filename) = part.filename {
        converted = converted.with_filename(filename);
    }
    if let Some(media_type) = part.media_type {
        converted = converted.with_media_type(media_type);
    }
    match part.metadata {
        Some(metadata) => converted.with_metadata(metadata),
        None => converted,
    }
}

/// Kind of a file by its media type.
fn file_kind(media_type: Option<&str>) -> PartKind {
    let media_type = media_type.unwrap_or_default().trim_start();
    let is = |prefix: &str| {
        let start = media_type.get(..prefix.len());
        start.is_some_and(|start| start.eq_ignore_ascii_case(prefix))
    };
    if is("image/") {
        PartKind::Image
    } else if is("audio/") {
        PartKind::Audio
    } else {
        PartKind::File
    }
}

#[cfg(test)]
mod tests;
