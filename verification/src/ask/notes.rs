//! What is written down about questions on their way, so that another attempt, perhaps on another node,
//! does what the first one did. Records of the store; nothing here is asked or posted.

use crate::attachments::Sent;
use crate::intake::Stop;
use crate::question::Question;
use crate::slack::ids::{ChannelId, TeamId, UserId};
use crate::texts::{Language, LeftOut};
use interzone_hub::{Hub, HubError};
use interzone_protocol::vocab::Timestamp;
use interzone_protocol::zone::ContextMessage;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// What was sent with a question, by the question.
const FIXED: &str = "slack.ask";
/// Which task goes on, by the question, and by the thread that it goes on in.
const RUNNING: &str = "slack.task";
/// What is to be stopped, by the question, or by the thread if all that goes on there is meant.
const STOPS: &str = "slack.stop";
/// Which task waits for an answer, by the thread.
const WAITING: &str = "slack.waiting";
/// In which threads we have answered, by the thread.
const THREADS: &str = "slack.thread";

/// How often Slack put a question off, by the question.
const PUT_OFF: &str = "slack.put_off";

/// How long it is known which task answered a question.
const JUDGED: Duration = Duration::from_secs(30 * 24 * 3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);
/// How long a thread is followed after the last answer in it.
const FOLLOWED: Duration = Duration::from_secs(30 * 24 * 3_600);

/// What goes with a question, fixed before it is asked for the first time. Were it gathered again, a new
/// message in the thread would make another call of it, and the agent would be asked twice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct Fixed {
    pub(super) language: Language,
    /// What was said before.
    #[serde(default)]
    pub(super) context: Vec<ContextMessage>,
    /// Our own name, whose mention is left out of the text.
    pub(super) own: Option<UserId>,
    /// The task that asked back.
    pub(super) answers: Option<String>,
    /// The files; their bytes are fetched again, and must be the same.
    #[serde(default)]
    pub(super) sent: Vec<Sent>,
    #[serde(default)]
    pub(super) left_out: Vec<(String, LeftOut)>,
    /// What those are called whom the question mentions.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) names: Vec<(UserId, String)>,
}

/// A task that goes on in a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Running {
    pub(crate) question: String,
    pub(crate) user: UserId,
    pub(crate) task: String,
    /// Where it was asked; what was noted by earlier versions does not say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) channel: Option<ChannelId>,
}

#[derive(Serialize, Deserialize)]
struct Mark {
    at: Timestamp,
}

/// The records.
#[derive(Clone)]
pub(crate) struct Notes(pub(crate) Hub);

/// Whoever wants a stop marks it for themselves, and where it was asked: nobody's mark takes another's away, or
/// stops what stands elsewhere.
fn mark_key(channel: &ChannelId, target: &str, user: Option<&UserId>) -> String {
    match user {
        Some(user) => format!("{channel}/{target}/{user}"),
        None => format!("{channel}/{target}"),
    }
}

impl Notes {
    pub(super) async fn fixed(&self, question: &Question) -> Result<Option<Fixed>, HubError> {
        self.read(FIXED, &question.id).await
    }

    /// Fixes what goes along, and gives what is fixed: another attempt may have been faster.
    pub(super) async fn fix(&self, question: &Question, fixed: Fixed) -> Result<Fixed, HubError> {
        if self
            .write(FIXED, &question.id, &fixed, Some(0), DAY)
            .await?
        {
            return Ok(fixed);
        }
        Ok(self.fixed(question).await?.unwrap_or(fixed))
    }

    /// Fixes it anew: what was fixed before led to nothing that was begun.
    pub(super) async fn fix_anew(
        &self,
        question: &Question,
        fixed: &Fixed,
    ) -> Result<(), HubError> {
        self.write(FIXED, &question.id, fixed, None, DAY).await?;
        Ok(())
    }

    /// How often Slack put a question off.
    pub(super) async fn times_put_off(&self, question: &Question) -> Result<u32, HubError> {
        Ok(self.read(PUT_OFF, &question.id).await?.unwrap_or(0))
    }

    /// Notes that Slack put a question off once more. Only one attempt is at it at a time.
    pub(super) async fn put_off(&self, question: &Question) -> Result<(), HubError> {
        let times = self.times_put_off(question).await?.saturating_add(1);
        self.write(PUT_OFF, &question.id, &times, None, DAY).await?;
        Ok(())
    }

    pub(super) async fn begun(&self, question: &Question, task: &str) -> Result<(), HubError> {
        let running = Running {
            question: question.id.clone(),
            user: question.user.clone(),
            task: task.to_owned(),
            channel: Some(question.channel.clone()),
        };
        // By the question it is found for as long as somebody may say what they think of the answer.
        for (key, keep) in [(&question.id, JUDGED), (&question.thread_key(), DAY)] {
            self.write(RUNNING, key, &running, None, keep).await?;
        }
        Ok(())
    }

    /// Whether a question has ended, whichever way.
    pub(crate) async fn has_ended(&self, question: &str) -> Result<bool, HubError> {
        self.has_come(&ended(question)).await
    }

    /// Whether a question was answered, and in this channel.
    pub(crate) async fn was_answered(
        &self,
        channel: &ChannelId,
        question: &str,
    ) -> Result<bool, HubError> {
        self.has_come(&answered(channel, question)).await
    }

    async fn has_come(&self, key: &str) -> Result<bool, HubError> {
        let key = format!("inbox/{key}");
        let claim = self.0.store().claimed(&key, self.0.now()).await?;
        Ok(claim.is_some())
    }

    /// The task of a question; or what goes on in a thread, or went on last.
    pub(crate) async fn running(&self, key: &str) -> Result<Option<Running>, HubError> {
        self.read(RUNNING, key).await
    }

    /// Marks something to be stopped, whether it has begun or not.
    pub(crate) async fn mark(&self, stop: &Stop) -> Result<(), HubError> {
        let mark = Mark { at: stop.at };
        let key = mark_key(&stop.channel, &stop.target(), stop.user.as_ref());
        self.write(STOPS, &key, &mark, None, DAY).await?;
        Ok(())
    }

    /// Whether a question is to be stopped. Only who asked it may want that.
    pub(super) async fn is_marked(&self, question: &Question) -> Result<bool, HubError> {
        for user in [Some(&question.user), None] {
            let channel = &question.channel;
            let own = mark_key(channel, &question.id, user);
            let own: Option<Mark> = self.read(STOPS, &own).await?;
            let all = mark_key(channel, &question.thread_key(), user);
            let all: Option<Mark> = self.read(STOPS, &all).await?;
            // What is asked after everything was stopped is not meant.
            let all = all.filter(|mark| question.asked_at <= mark.at);
            if own.or(all).is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The task that waits for an answer in a thread.
    pub(super) async fn waiting(&self, question: &Question) -> Result<Option<String>, HubError> {
        if !question.in_thread {
            return Ok(None);
        }
        self.read(WAITING, &question.thread_key()).await
    }

    /// Notes which task waits for an answer, or that none does any more.
    pub(super) async fn set_waiting(
        &self,
        question: &Question,
        task: Option<&str>,
    ) -> Result<(), HubError> {
        let key = question.thread_key();
        match task {
            Some(task) => {
                self.write(WAITING, &key, &task, None, DAY).await?;
            }
            None => {
                let now = self.0.now();
                self.0.store().take_record(WAITING, &key, now).await?;
            }
        }
        Ok(())
    }

    /// Notes that we have answered in a thread.
    pub(super) async fn follow(&self, question: &Question) -> Result<(), HubError> {
        let key = question.thread_key();
        self.write(THREADS, &key, &true, None, FOLLOWED).await?;
        Ok(())
    }

    /// Whether we have answered in a thread.
    pub(crate) async fn is_followed(&self, question: &Question) -> Result<bool, HubError> {
        let followed: Option<bool> = self.read(THREADS, &question.thread_key()).await?;
        Ok(followed.is_some())
    }

    async fn read<T: DeserializeOwned>(
        &self,
        kind: &str,
        key: &str,
    ) -> Result<Option<T>, HubError> {
        let record = self.0.store().record(kind, key, self.0.now()).await?;
        // What another version wrote and this one cannot read is as good as not there.
        Ok(record.and_then(|record| serde_json::from_str(&record.value).ok()))
    }

    async fn write<T: Serialize>(
        &self,
        kind: &str,
        key: &str,
        value: &T,
        expected: Option<u64>,
        keep: Duration,
    ) -> Result<bool, HubError> {
        let unusable = |_| HubError::Invalid {
            field: "note",
            reason: "it has no JSON form",
        };
        let value = serde_json::to_string(value).map_err(unusable)?;
        let now = self.0.now();
        let until = Some(now.after(keep));
        let store = self.0.store();
        let written = store.put_record(kind, key, &value, expected, until, now);
        Ok(written.await?)
    }
}

/// The key under which it is noted that a question has ended.
pub(super) fn ended(question: &str) -> String {
    format!("slack/ended/{question}")
}

/// The key under which it is noted that a question was answered.
pub(super) fn answered(channel: &ChannelId, question: &str) -> String {
    format!("slack/answered/{channel}/{question}")
}

/// What a workspace's people did is looked for under its name.
pub(crate) fn who(team: &TeamId, user: &UserId) -> String {
    format!("{team}/{user}")
}
