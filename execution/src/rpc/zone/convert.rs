//! The hub's objects from the zones', and what is kept to answer by. No rule and no call lives here.
//!
//! The bot token comes as far as the params and no further.

use crate::intake::{ATTACHMENT, REFUSED};
use interzone_edge::request::TraceParent;
use interzone_hub::{Asking, FETCH, Limits, Once, Task};
use interzone_jsonrpc::RequestId;
use interzone_protocol::vocab::{
    Encoding, Json, Message, Metadata, NoParts, Part, PartKind, Role, TaskState,
};
use interzone_protocol::zone::{
    Attachment, ContextMessage, ContextRole, ErrorWord, ExecuteResult, ExecuteStatus,
    ExecuteTaskParams,
};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

/// How long a repeated call is known for one.
const ONCE: Duration = Duration::from_secs(24 * 3_600);

/// The most characters of a call's id that are kept or noted.
const LONGEST_ID: usize = 128;

/// The member of a task's metadata that holds [`Asked`].
const MEMBER: &str = "zone";

/// Where a call came from, as the task keeps it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Asked {
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
    /// How often it was passed on before it came here.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    hops: Option<u32>,
    /// Its place in the caller's trace, for agents that pass it on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    traceparent: Option<String>,
}

impl Asked {
    /// What a call says.
    pub(super) fn by(
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
            rpc_id: id.map(|id| id_text(id).into_owned()),
            hops: params.hops,
            traceparent: trace.map(ToString::to_string),
        }
    }

    /// What a task keeps; nothing of one that was begun in another way.
    pub(super) fn of(task: &Task) -> Self {
        let kept = task.metadata.as_ref();
        kept.and_then(|kept| kept.get(MEMBER)).unwrap_or_default()
    }

    /// What the task is to keep.
    pub(super) fn metadata(&self) -> Option<Metadata> {
        let members = BTreeMap::from([(MEMBER, self)]);
        Metadata::new(Json::of(&members).ok()?).ok()
    }

    /// The thread of the workspace that it was asked in.
    pub(super) fn asking(&self) -> Option<Asking> {
        let [team, channel, thread, user] =
            [&self.team_id, &self.channel, &self.thread_ts, &self.user_id]
                .map(|name| name.as_deref().unwrap_or_default());
        Asking::new(team, channel, thread, user)
    }

    /// A result with what is told back.
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

/// The person on whose behalf a task was begun, if the caller named one.
pub(crate) fn asking_person(task: &Task) -> Option<String> {
    let asked = Asked::of(task);
    let team = asked.team_id.unwrap_or_default();
    asked.user_id.map(|user| format!("{team} {user}"))
}

/// The id of a call as it is kept and noted: short, and on one line.
pub(in crate::rpc) fn id_text<'a>(id: &'a RequestId<'_>) -> Cow<'a, str> {
    match id {
        RequestId::Number(number) => number.to_string().into(),
        RequestId::String(text) => {
            let plain = text.len() <= LONGEST_ID && !text.chars().any(char::is_control);
            if plain {
                Cow::Borrowed(text)
            } else {
                let shown = |c: char| if c.is_control() { ' ' } else { c };
                text.chars().take(LONGEST_ID).map(shown).collect()
            }
        }
    }
}

/// What is asked: the words if there are any, then the attachments. Those whose bytes have no room in a
/// message come without them and with the reason, so that they are left out and the others taken.
pub(super) fn message(
    text: &str,
    attachments: Vec<Attachment>,
    room: usize,
) -> Result<Message, NoParts> {
    let words = (!text.trim().is_empty()).then(|| Part::text(text));
    let parts = words.into_iter().chain(attachments.into_iter().map(part));
    let mut parts: Vec<Part> = parts.collect();
    let bytes = |part: &Part| match part.extra().get(ATTACHMENT) {
        Some(_) => part.content().map_or(0, |content| content.as_str().len()),
        None => 0,
    };
    // What is said about them is needed whatever becomes of them.
    let said = Limits::bytes_of(&parts).saturating_sub(parts.iter().map(bytes).sum());
    let mut room = room.saturating_sub(said + parts.len() * WHY.len() * 2);
    for part in &mut parts {
        match room.checked_sub(bytes(part)) {
            Some(left) => room = left,
            None => *part = without_room(part),
        }
    }
    Message::new(Role::User, parts)
}

/// Why an attachment has no bytes.
const WHY: &str = ErrorWord::FileTooLarge.name();

fn without_room(part: &Part) -> Part {
    match Json::of(WHY) {
        Ok(why) => part.outline().with_extra(REFUSED, why),
        Err(_) => part.outline(),
    }
}

/// An attachment as a part, marked for whoever looks after files. An address to fetch it from opens the
/// file to anybody, so it is in a member of its own, which is never shown.
fn part(attachment: Attachment) -> Part {
    let image = attachment.mimetype.trim_start().to_ascii_lowercase();
    let kind = if image.starts_with("image/") {
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
    let mark = attachment.id.unwrap_or_default();
    if let Ok(mark) = Json::of(&mark) {
        part = part.with_extra(ATTACHMENT, mark);
    }
    match (attachment.content_base64, attachment.presigned_url) {
        (Some(content), _) => match Json::string(content) {
            Ok(content) => part.with_content(content).with_encoding(Encoding::Base64),
            Err(_) => part,
        },
        (None, Some(url)) => match Json::of(&url) {
            Ok(url) => part.with_extra(FETCH, url),
            Err(_) => part,
        },
        (None, None) => part,
    }
}

/// What was said before, oldest first; who said it goes beside the words, not into them.
pub(super) fn before(context: Option<&[ContextMessage]>) -> Vec<Message> {
    let said = context.unwrap_or_default().iter();
    said.filter(|said| !said.text.trim().is_empty())
        .map(|said| {
            let role = match said.role {
                ContextRole::User => Role::User,
                ContextRole::Assistant => Role::Agent,
            };
            let message = Message::single(role, Part::text(&said.text));
            let who = said.user.as_ref().and_then(|user| {
                let members = BTreeMap::from([("user", user)]);
                Metadata::new(Json::of(&members).ok()?).ok()
            });
            match who {
                Some(who) => message.with_metadata(who),
                None => message,
            }
        })
        .collect()
}

/// What makes a repetition of a call the same call: its id, if it is a UUID, and all that it asks for.
/// The token may be another by then, and is not kept in any form.
pub(super) fn once(id: Option<&RequestId<'_>>, params: &ExecuteTaskParams) -> Option<Once> {
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
    let asked = (
        (channel, text, correlation_id, thread_ts, team_id, user_id),
        (attachments, task_id, context),
    );
    let mut hash = Hashing(Sha256::new());
    serde_json::to_writer(&mut hash, &asked).ok()?;
    let hash = interzone_hub::BlobId::from_bytes(hash.0.finalize().into());
    Some(Once {
        key: format!("execute_task/{id}/{hash}"),
        keep: ONCE,
    })
}

struct Hashing(Sha256);

impl io::Write for Hashing {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Whether a task in this state has something to answer.
pub(super) fn is_settled(state: TaskState) -> bool {
    state.is_terminal() || state.is_interrupted()
}

/// The id of an artifact between the zones: a UUID, and the same whenever it is asked for.
pub(super) fn artifact_id(task: &str, of: &str) -> String {
    if of.len() == 36
        && let Ok(own) = uuid::Uuid::try_parse(of)
    {
        return own.to_string();
    }
    let hash = Sha256::new()
        .chain_update(task)
        .chain_update([0])
        .chain_update(of)
        .finalize();
    let mut bytes = [0; 16];
    for (place, byte) in bytes.iter_mut().zip(hash) {
        *place = byte;
    }
    uuid::Builder::from_random_bytes(bytes)
        .into_uuid()
        .to_string()
}

#[cfg(test)]
mod tests;
