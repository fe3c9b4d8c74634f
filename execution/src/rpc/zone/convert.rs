//! Conversion of zone params to the hub's objects, and the call origin stored with a task.
//!
//! Invariant: the bot token is never stored, logged or forwarded; it is dropped after params validation.

use crate::attachments::{ATTACHMENT_FIELD, REFUSED_FIELD};
use interzone_edge::request_context::TraceParent;
use interzone_hub::{FETCH_URL_FIELD, IdempotencyKey, Limits, Task, ThreadOrigin};
use interzone_jsonrpc::RequestId;
use interzone_protocol::vocab::{
    EmptyMessage, Encoding, Message, Metadata, Part, PartKind, Role, TaskState, VerbatimJson,
};
use interzone_protocol::zone::{
    Attachment, ContextMessage, ContextRole, ErrorReason, ExecuteResult, ExecuteStatus,
    ExecuteTaskParams,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;

/// Maximum characters of a call's id that are stored or logged.
const MAX_ID_CHARS: usize = 128;

/// Field of a task's metadata that holds [`CallOrigin`].
const METADATA_FIELD: &str = "zone";

/// Origin of a call, stored with its task.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CallOrigin {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) channel: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) thread_ts: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) team_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) user_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) correlation_id: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) rpc_id: Option<String>,
    /// Number of forwards before it arrived here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hops: Option<u32>,
    /// Trace context of the caller, for agents that forward the task.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
}

impl CallOrigin {
    /// Creates it from a call.
    pub(super) fn from_params(
        params: &ExecuteTaskParams,
        id: Option<&RequestId<'_>>,
        trace: Option<&TraceParent>,
    ) -> Self {
        Self {
            channel: Some(params.channel.clone()),
            thread_ts: params.thread_ts.clone(),
            team_id: params.team_id.clone(),
            user_id: params.user_id.clone(),
            correlation_id: params.correlation_id.clone(),
            rpc_id: id.map(|id| loggable_id(id).into_owned()),
            hops: params.hops,
            traceparent: trace.map(ToString::to_string),
        }
    }

    /// Reads it from a task; empty if the task was created in another way.
    pub(super) fn from_task(task: &Task) -> Self {
        let metadata = task.metadata.as_ref();
        metadata
            .and_then(|metadata| metadata.get(METADATA_FIELD))
            .unwrap_or_default()
    }

    /// Returns the metadata for the task.
    pub(super) fn metadata(&self) -> Option<Metadata> {
        let fields = BTreeMap::from([(METADATA_FIELD, self)]);
        Metadata::new(VerbatimJson::from_value(&fields).ok()?).ok()
    }

    /// Returns the Slack thread of the call.
    pub(super) fn thread_origin(&self) -> Option<ThreadOrigin> {
        let [team, channel, thread, user] =
            [&self.team_id, &self.channel, &self.thread_ts, &self.user_id]
                .map(|name| name.as_deref().unwrap_or_default());
        ThreadOrigin::new(team, channel, thread, user)
    }

    /// Returns a result with the fields that are echoed to the caller.
    pub(super) fn result(&self, status: ExecuteStatus, task: &str) -> ExecuteResult {
        ExecuteResult {
            task_id: Some(task.to_owned()),
            correlation_id: self.correlation_id.clone(),
            channel: self.channel.clone(),
            thread_ts: self.thread_ts.clone(),
            ..ExecuteResult::new(status)
        }
    }
}

/// Returns the person on whose behalf a task was created, if the caller named one.
pub(crate) fn task_person(task: &Task) -> Option<String> {
    let origin = CallOrigin::from_task(task);
    let team = origin.team_id.unwrap_or_default();
    origin.user_id.map(|user| format!("{team} {user}"))
}

/// Returns the id of a call for storage and logs: truncated, without control characters.
pub(in crate::rpc) fn loggable_id<'a>(id: &'a RequestId<'_>) -> Cow<'a, str> {
    match id {
        RequestId::Number(number) => number.to_string().into(),
        RequestId::String(text) => {
            let is_loggable = text.len() <= MAX_ID_CHARS && !text.chars().any(char::is_control);
            if is_loggable {
                Cow::Borrowed(text)
            } else {
                let replace_control = |c: char| if c.is_control() { ' ' } else { c };
                text.chars()
                    .take(MAX_ID_CHARS)
                    .map(replace_control)
                    .collect()
            }
        }
    }
}

/// Builds the message: text, then attachments. Attachments that exceed the message size limit lose their content
/// and get a reason instead, so that only they are skipped.
pub(super) fn message(
    text: &str,
    attachments: Vec<Attachment>,
    limit: usize,
) -> Result<Message, EmptyMessage> {
    let text_part = (!text.trim().is_empty()).then(|| Part::text(text));
    let parts = text_part
        .into_iter()
        .chain(attachments.into_iter().map(part));
    let mut parts: Vec<Part> = parts.collect();
    let bytes = |part: &Part| match part.extra().get(ATTACHMENT_FIELD) {
        Some(_) => part.content().map_or(0, |content| content.as_str().len()),
        None => 0,
    };
    // The metadata of attachments is kept in any case.
    let metadata_bytes = Limits::parts_size(&parts).saturating_sub(parts.iter().map(bytes).sum());
    let mut remaining =
        limit.saturating_sub(metadata_bytes + parts.len() * OVERSIZE_REASON.len() * 2);
    for part in &mut parts {
        match remaining.checked_sub(bytes(part)) {
            Some(left) => remaining = left,
            None => *part = without_oversize_content(part),
        }
    }
    Message::new(Role::User, parts)
}

/// Reason for removing the content of an attachment.
const OVERSIZE_REASON: &str = ErrorReason::FileTooLarge.name();

fn without_oversize_content(part: &Part) -> Part {
    match VerbatimJson::from_value(OVERSIZE_REASON) {
        Ok(reason) => part
            .clone_without_content()
            .with_extra(REFUSED_FIELD, reason),
        Err(_) => part.clone_without_content(),
    }
}

/// Converts an attachment to a part, marked for the attachment loader. A download URL gives access to the file, so
/// it is in a field of its own, which is never shown.
fn part(attachment: Attachment) -> Part {
    let media_type = attachment.mimetype.trim_start().to_ascii_lowercase();
    let kind = if media_type.starts_with("image/") {
        PartKind::Image
    } else {
        PartKind::File
    };
    let mut part = Part::new(kind)
        .with_filename(attachment.name)
        .with_media_type(attachment.mimetype);
    if let Some(size) = attachment.size {
        part = part.with_size(size);
    }
    let id = attachment.id.unwrap_or_default();
    if let Ok(id) = VerbatimJson::from_value(&id) {
        part = part.with_extra(ATTACHMENT_FIELD, id);
    }
    match (attachment.content_base64, attachment.presigned_url) {
        (Some(content), _) => match VerbatimJson::from_text(content) {
            Ok(content) => part.with_content(content).with_encoding(Encoding::Base64),
            Err(_) => part,
        },
        (None, Some(url)) => match VerbatimJson::from_value(&url) {
            Ok(url) => part.with_extra(FETCH_URL_FIELD, url),
            Err(_) => part,
        },
        (None, None) => part,
    }
}

/// Converts the thread context to messages, oldest first. The user goes into the metadata, not the text.
pub(super) fn history(context: Option<&[ContextMessage]>) -> Vec<Message> {
    let messages = context.unwrap_or_default().iter();
    messages
        .filter(|message| !message.text.trim().is_empty())
        .map(|message| {
            let role = match message.role {
                ContextRole::User => Role::User,
                ContextRole::Assistant => Role::Agent,
            };
            let converted = Message::single(role, Part::text(&message.text));
            let metadata = message.user.as_ref().and_then(|user| {
                let fields = BTreeMap::from([("user", user)]);
                Metadata::new(VerbatimJson::from_value(&fields).ok()?).ok()
            });
            match metadata {
                Some(metadata) => converted.with_metadata(metadata),
                None => converted,
            }
        })
        .collect()
}

/// Returns the idempotency key of an `execute_task` call: its id, if it is a UUID, and a hash of its params. The token is
/// excluded: a retry may have another one, and it must not be stored in any form.
pub(super) fn idempotency_key(
    id: Option<&RequestId<'_>>,
    params: &ExecuteTaskParams,
) -> Option<IdempotencyKey> {
    let id = id?.as_str().filter(|id| id.len() == 36)?;
    let id = uuid::Uuid::try_parse(id).ok()?;
    let ExecuteTaskParams {
        channel,
        text,
        bot_token: _,
        correlation_id,
        thread_ts,
        team_id,
        user_id,
        attachments,
        task_id,
        context,
        hops: _,
    } = params;
    let content = (
        (channel, text, correlation_id, thread_ts, team_id, user_id),
        (attachments, task_id, context),
    );
    let mut hash = HashWriter(Sha256::new());
    serde_json::to_writer(&mut hash, &content).ok()?;
    let body_hash = hash.0.finalize().into();
    let hash = interzone_hub::BlobId::from_bytes(body_hash);
    Some(IdempotencyKey {
        key: format!("execute_task/{id}/{hash}"),
        body_hash,
    })
}

struct HashWriter(Sha256);

impl io::Write for HashWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// True if a task in this state has a result, an error or a question.
pub(super) fn has_answer(state: TaskState) -> bool {
    state.is_terminal() || state.is_interrupted()
}

/// Returns the artifact id for the zone dialect: a UUID that is the same on every call.
pub(super) fn artifact_id(task: &str, name: &str) -> String {
    if name.len() == 36
        && let Ok(id) = uuid::Uuid::try_parse(name)
    {
        return id.to_string();
    }
    let hash = Sha256::new()
        .chain_update(task)
        .chain_update([0])
        .chain_update(name)
        .finalize();
    let mut bytes = [0; 16];
    for (target, byte) in bytes.iter_mut().zip(hash) {
        *target = byte;
    }
    uuid::Builder::from_random_bytes(bytes)
        .into_uuid()
        .to_string()
}

#[cfg(test)]
mod tests;
