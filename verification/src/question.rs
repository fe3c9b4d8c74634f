//! A question as it travels through the zone: who asked what, where, and with which files. How it came
//! in and what becomes of it is not known here.

use crate::slack::ids::{ChannelId, FileId, TeamId, Ts, UserId};
use interzone_protocol::vocab::Timestamp;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::fmt;

/// Something that somebody asked in Slack.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Question {
    /// A UUID made of the workspace, the channel and the message: the id of the call, and the key of all
    /// that follows from it.
    pub id: String,
    /// Slack's name for the event; also the name by which all logs have it.
    pub event_id: String,
    /// The workspace that has the app.
    pub team: TeamId,
    /// The organisation that has the app, if it is not a workspace of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub enterprise: Option<TeamId>,
    /// The workspace of whoever asks, if the event says it: another one in a channel that two companies
    /// share.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub user_team: Option<TeamId>,
    /// Where.
    pub channel: ChannelId,
    /// What kind of place that is.
    pub place: PlaceKind,
    /// Who.
    pub user: UserId,
    /// The message.
    pub ts: Ts,
    /// The thread that is answered in: the message's own, or the one that it begins.
    pub thread: Ts,
    /// Whether the thread was there before.
    pub in_thread: bool,
    /// What was asked, without the mention of us.
    pub text: String,
    /// How many characters it had, if it is too long to be asked: then only its beginning is kept.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub too_long: Option<usize>,
    /// What was forwarded with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub forwarded: Vec<Forwarded>,
    /// The files that came with it.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub files: Vec<SharedFile>,
    /// When Slack told us.
    pub asked_at: Timestamp,
}

/// So much of a question that is too long is kept: enough to see which language it is in.
const BEGINNING: usize = 200;

impl Question {
    /// Keeps no more of a question than is needed, if it has more characters than can be asked: it will be
    /// refused, and nobody reads the rest of it.
    pub fn shorten(&mut self, limit: usize) {
        // Bytes are counted faster, and there are never fewer of them.
        if self.text.len() <= limit {
            return;
        }
        let length = self.text.chars().count();
        if length > limit {
            self.too_long = Some(length);
            self.text = self.text.chars().take(BEGINNING.min(limit)).collect();
            self.forwarded = Vec::new();
            self.files = Vec::new();
        }
    }

    /// The workspace of whoever asks, as far as the event tells it.
    pub fn team_of_asker(&self) -> &TeamId {
        self.user_team.as_ref().unwrap_or(&self.team)
    }

    /// The id of what was asked by this message.
    pub fn id_of(team: &TeamId, channel: &ChannelId, ts: &Ts) -> String {
        let hash = Sha256::new()
            .chain_update(format!("{team}/{channel}/{ts}"))
            .finalize();
        let mut bytes = [0; 16];
        bytes
            .iter_mut()
            .zip(hash)
            .for_each(|(place, byte)| *place = byte);
        uuid::Builder::from_custom_bytes(bytes)
            .into_uuid()
            .to_string()
    }

    /// The thread's name among all threads of all workspaces.
    pub fn thread_key(&self) -> String {
        thread_key(&self.team, &self.channel, &self.thread)
    }
}

/// A thread's name among all threads of all workspaces.
pub fn thread_key(team: &TeamId, channel: &ChannelId, thread: &Ts) -> String {
    format!("{team}/{channel}/{thread}")
}

/// Neither what was asked nor what the files are called.
impl fmt::Debug for Question {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Question")
            .field("id", &self.id)
            .field("event_id", &self.event_id)
            .field("files", &self.files.len())
            .finish_non_exhaustive()
    }
}

/// What kind of place a conversation is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlaceKind {
    /// Two alone.
    Im,
    /// A few together.
    Mpim,
    /// A private channel.
    Group,
    /// A public channel.
    Channel,
}

/// A message that was forwarded with a question.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Forwarded {
    /// Who said it, by the name that Slack shows.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub author: Option<String>,
    /// What they said.
    pub text: String,
}

impl fmt::Debug for Forwarded {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Forwarded").finish_non_exhaustive()
    }
}

/// A file that came with a question, as the event describes it.
#[derive(Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SharedFile {
    /// Slack's id for it.
    pub id: FileId,
    /// Its name, a label from outside: never use it as a path.
    pub name: String,
    /// Its media type, as declared.
    pub mimetype: String,
    /// Its size, as declared.
    pub size: u64,
    /// Where it lies, which takes a token to open.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub url: Option<String>,
    /// Whether Slack has to be asked for all of this first, as for files of another company.
    #[serde(default)]
    pub check_info: bool,
}

impl fmt::Debug for SharedFile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SharedFile")
            .field("id", &self.id)
            .field("mimetype", &self.mimetype)
            .field("size", &self.size)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_what_is_too_long_only_the_beginning_is_kept() {
        let mut question = crate::reply::tests::question();
        question.forwarded.push(Forwarded {
            author: None,
            text: "x".repeat(4_000),
        });
        let whole = question.clone();
        question.text = "あ".repeat(4_000);
        question.shorten(4_000);
        assert_eq!(
            question.text.chars().count(),
            4_000,
            "it is just short enough"
        );
        assert_eq!((question.too_long, question.forwarded.len()), (None, 1));
        question.text = "あ".repeat(300_000);
        question.shorten(4_000);
        assert_eq!(question.too_long, Some(300_000));
        assert_eq!(question.text, "あ".repeat(200));
        assert!(question.forwarded.is_empty() && question.files.is_empty());
        assert!(serde_json::to_string(&question).unwrap().len() < 2_000);
        assert_eq!((question.id, question.ts), (whole.id, whole.ts));
    }

    #[test]
    fn the_same_message_always_has_the_same_uuid_and_another_has_another() {
        let (team, channel) = (TeamId::new("T1").unwrap(), ChannelId::new("C1").unwrap());
        let id = |ts: &str| Question::id_of(&team, &channel, &Ts::new(ts).unwrap());
        assert_eq!(id("1.5"), id("1.5"));
        assert_ne!(id("1.5"), id("1.50"));
        assert_eq!(id("1.5").len(), 36);
        assert!(uuid::Uuid::try_parse(&id("1.5")).is_ok());
    }
}
