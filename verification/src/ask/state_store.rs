//! Persisted state of questions in progress, so that a retry, possibly on another node, repeats the first attempt.

use crate::attachments::FileFingerprint;
use crate::intake::StopRequest;
use crate::question::Question;
use crate::slack::ids::{ChannelId, TeamId, UserId};
use crate::texts::{Language, SkipReason};
use interzone_hub::{Hub, HubError};
use interzone_protocol::vocab::Timestamp;
use interzone_protocol::zone::ContextMessage;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::time::Duration;

/// Record kind of frozen requests, keyed by question id.
const FROZEN_REQUEST_KIND: &str = "slack.ask";
/// Record kind of running tasks, keyed by question id and by thread.
const RUNNING_TASK_KIND: &str = "slack.task";
/// Record kind of stop requests, keyed by question, or by thread for everything in it.
const STOP_MARK_KIND: &str = "slack.stop";
/// Record kind of tasks waiting for input, keyed by thread.
const PENDING_INPUT_KIND: &str = "slack.waiting";
/// Record kind of threads with an answer, keyed by thread.
const FOLLOWED_THREAD_KIND: &str = "slack.thread";

/// Record kind of the number of deferrals by Slack, keyed by question id.
const DEFERRAL_COUNT_KIND: &str = "slack.put_off";

/// Retention of the task of a question: as long as feedback is accepted.
const FEEDBACK_WINDOW: Duration = Duration::from_secs(30 * 24 * 3_600);
const DAY: Duration = Duration::from_secs(24 * 3_600);
/// Time for which a thread is followed after the last answer in it.
const FOLLOW_TTL: Duration = Duration::from_secs(30 * 24 * 3_600);

/// Request of a question, frozen before the first call. If it were gathered again, a new message in the thread would
/// make it a different call, and the agent would be called twice.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(super) struct FrozenRequest {
    pub(super) language: Language,
    /// Earlier messages.
    #[serde(default)]
    pub(super) context: Vec<ContextMessage>,
    /// Bot user, whose mention is removed from the text.
    #[serde(rename = "own")]
    pub(super) bot_user: Option<UserId>,
    /// Task whose request for input this answers.
    pub(super) answers: Option<String>,
    /// Attached files; their bytes are downloaded again and must be identical.
    #[serde(default, rename = "sent")]
    pub(super) files: Vec<FileFingerprint>,
    #[serde(default, rename = "left_out")]
    pub(super) skipped_files: Vec<(String, SkipReason)>,
    /// Names of mentioned users.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) names: Vec<(UserId, String)>,
}

/// A task running in a thread.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct RunningTask {
    pub(crate) question: String,
    pub(crate) user: UserId,
    pub(crate) task: String,
    /// Channel of the question; records of earlier versions lack it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) channel: Option<ChannelId>,
}

#[derive(Serialize, Deserialize)]
struct StopMark {
    at: Timestamp,
}

/// Store of per-question state.
#[derive(Clone)]
pub(crate) struct AskStateStore(pub(crate) Hub);

/// Returns the key of a stop request. It includes the user and the channel: a stop request neither replaces another
/// user's nor stops questions elsewhere.
fn stop_mark_key(channel: &ChannelId, target: &str, user: Option<&UserId>) -> String {
    match user {
        Some(user) => format!("{channel}/{target}/{user}"),
        None => format!("{channel}/{target}"),
    }
}

impl AskStateStore {
    pub(super) async fn frozen_request(
        &self,
        question: &Question,
    ) -> Result<Option<FrozenRequest>, HubError> {
        self.read(FROZEN_REQUEST_KIND, &question.id).await
    }

    /// Freezes the request. Returns the stored one, which another attempt may have written first.
    pub(super) async fn freeze(
        &self,
        question: &Question,
        request: FrozenRequest,
    ) -> Result<FrozenRequest, HubError> {
        if self
            .write(FROZEN_REQUEST_KIND, &question.id, &request, Some(0), DAY)
            .await?
        {
            return Ok(request);
        }
        Ok(self.frozen_request(question).await?.unwrap_or(request))
    }

    /// Replaces the frozen request, after the earlier one started no task.
    pub(super) async fn refreeze(
        &self,
        question: &Question,
        request: &FrozenRequest,
    ) -> Result<(), HubError> {
        self.write(FROZEN_REQUEST_KIND, &question.id, request, None, DAY)
            .await?;
        Ok(())
    }

    /// Returns how often Slack deferred a question.
    pub(super) async fn deferral_count(&self, question: &Question) -> Result<u32, HubError> {
        Ok(self
            .read(DEFERRAL_COUNT_KIND, &question.id)
            .await?
            .unwrap_or(0))
    }

    /// Counts a deferral by Slack. Not atomic: only one attempt runs at a time.
    pub(super) async fn count_deferral(&self, question: &Question) -> Result<(), HubError> {
        let count = self.deferral_count(question).await?.saturating_add(1);
        self.write(DEFERRAL_COUNT_KIND, &question.id, &count, None, DAY)
            .await?;
        Ok(())
    }

    pub(super) async fn record_task(
        &self,
        question: &Question,
        task: &str,
    ) -> Result<(), HubError> {
        let running = RunningTask {
            question: question.id.clone(),
            user: question.user.clone(),
            task: task.to_owned(),
            channel: Some(question.channel.clone()),
        };
        // By question it is found for as long as feedback is accepted.
        for (key, ttl) in [
            (&question.id, FEEDBACK_WINDOW),
            (&question.thread_key(), DAY),
        ] {
            self.write(RUNNING_TASK_KIND, key, &running, None, ttl)
                .await?;
        }
        Ok(())
    }

    /// Returns true if a question has ended, for any reason.
    pub(crate) async fn has_ended(&self, question: &str) -> Result<bool, HubError> {
        self.has_inbox_key(&ended_key(question)).await
    }

    /// Returns true if a question was answered in this channel.
    pub(crate) async fn was_answered(
        &self,
        channel: &ChannelId,
        question: &str,
    ) -> Result<bool, HubError> {
        self.has_inbox_key(&answered_key(channel, question)).await
    }

    async fn has_inbox_key(&self, key: &str) -> Result<bool, HubError> {
        let key = format!("inbox/{key}");
        let claim = self.0.store().claimed_value(&key, self.0.now()).await?;
        Ok(claim.is_some())
    }

    /// Returns the task of a question, or the current or last task of a thread.
    pub(crate) async fn running_task(&self, key: &str) -> Result<Option<RunningTask>, HubError> {
        self.read(RUNNING_TASK_KIND, key).await
    }

    /// Records a stop request, even before the task has started.
    pub(crate) async fn mark_stop(&self, stop: &StopRequest) -> Result<(), HubError> {
        let mark = StopMark { at: stop.at };
        let key = stop_mark_key(&stop.channel, &stop.target(), stop.user.as_ref());
        self.write(STOP_MARK_KIND, &key, &mark, None, DAY).await?;
        Ok(())
    }

    /// Returns true if its asker has requested to stop the question.
    pub(super) async fn is_stop_requested(&self, question: &Question) -> Result<bool, HubError> {
        for user in [Some(&question.user), None] {
            let channel = &question.channel;
            let own = stop_mark_key(channel, &question.id, user);
            let own: Option<StopMark> = self.read(STOP_MARK_KIND, &own).await?;
            let all = stop_mark_key(channel, &question.thread_key(), user);
            let all: Option<StopMark> = self.read(STOP_MARK_KIND, &all).await?;
            // A stop of the whole thread does not apply to later questions.
            let all = all.filter(|mark| question.asked_at <= mark.at);
            if own.or(all).is_some() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Returns the task that waits for input in a thread.
    pub(super) async fn pending_input(
        &self,
        question: &Question,
    ) -> Result<Option<String>, HubError> {
        if !question.in_thread {
            return Ok(None);
        }
        self.read(PENDING_INPUT_KIND, &question.thread_key()).await
    }

    /// Sets or clears the task that waits for input.
    pub(super) async fn set_pending_input(
        &self,
        question: &Question,
        task: Option<&str>,
    ) -> Result<(), HubError> {
        let key = question.thread_key();
        match task {
            Some(task) => {
                self.write(PENDING_INPUT_KIND, &key, &task, None, DAY)
                    .await?;
            }
            None => {
                let now = self.0.now();
                self.0
                    .store()
                    .take_record(PENDING_INPUT_KIND, &key, now)
                    .await?;
            }
        }
        Ok(())
    }

    /// Records that the bot has answered in a thread.
    pub(super) async fn follow_thread(&self, question: &Question) -> Result<(), HubError> {
        let key = question.thread_key();
        self.write(FOLLOWED_THREAD_KIND, &key, &true, None, FOLLOW_TTL)
            .await?;
        Ok(())
    }

    /// Returns true if the bot has answered in the thread.
    pub(crate) async fn is_thread_followed(&self, question: &Question) -> Result<bool, HubError> {
        let followed: Option<bool> = self
            .read(FOLLOWED_THREAD_KIND, &question.thread_key())
            .await?;
        Ok(followed.is_some())
    }

    async fn read<T: DeserializeOwned>(
        &self,
        kind: &str,
        key: &str,
    ) -> Result<Option<T>, HubError> {
        let record = self.0.store().record(kind, key, self.0.now()).await?;
        // Ignores records of another version that cannot be parsed.
        Ok(record.and_then(|record| serde_json::from_str(&record.value).ok()))
    }

    async fn write<T: Serialize>(
        &self,
        kind: &str,
        key: &str,
        value: &T,
        expected: Option<u64>,
        ttl: Duration,
    ) -> Result<bool, HubError> {
        let unserializable = |_| HubError::Invalid {
            field: "note",
            reason: "cannot be serialized as JSON",
        };
        let value = serde_json::to_string(value).map_err(unserializable)?;
        let now = self.0.now();
        let expires_at = Some(now.plus(ttl));
        let store = self.0.store();
        let stored = store.put_record(kind, key, &value, expected, expires_at, now);
        Ok(stored.await?)
    }
}

/// Returns the inbox key that records that a question has ended.
pub(super) fn ended_key(question: &str) -> String {
    format!("slack/ended/{question}")
}

/// Returns the inbox key that records that a question was answered.
pub(super) fn answered_key(channel: &ChannelId, question: &str) -> String {
    format!("slack/answered/{channel}/{question}")
}

/// Returns the key of a user within a workspace.
pub(crate) fn user_key(team: &TeamId, user: &UserId) -> String {
    format!("{team}/{user}")
}
