//! Turns the outcome of a question into outbox entries. Pure and deterministic. The entry keys do not depend on the
//! live reply's state, so planning a question again adds no entries.

use super::markdown::escape_mentions;
use super::outbox_payload::{
    ActionKind, FinalStatus, LiveReplyState, POST_CHANNEL, PostedAs, ReplyLocation, SlackAction,
};
use super::split::{closing_fence, split};
use crate::intake::StopRequest;
use crate::question::{ConversationKind, Question};
use crate::slack::ids::UserId;
use crate::texts::{self, Language, Refusal, SkipReason, UserPhrase};
use crate::unicode_hygiene::is_invisible;
use interzone_hub::NewOutboxEntry;
use interzone_protocol::vocab::{InvalidId, InvalidJson, PrincipalId, VerbatimJson};
use interzone_protocol::zone::{ArtifactPart, ErrorReason, ExecuteResult, ZoneArtifact};

/// Maximum number of characters per message. Slack accepts 12,000 of Markdown.
pub(super) const MAX_MESSAGE_CHARS: usize = 11_000;

/// Planning error.
#[derive(Debug, thiserror::Error)]
pub enum PlanError {
    /// The workspace id is not a valid owner.
    #[error("the workspace id is not a valid owner")]
    Owner(#[source] InvalidId),
    /// An entry cannot be serialized.
    #[error("an outbox entry cannot be serialized")]
    Payload(#[source] InvalidJson),
}

/// An attachment of a question that was skipped.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SkippedFile {
    /// File name.
    pub name: String,
    /// Reason.
    pub reason: SkipReason,
}

/// Plans an answer; `skipped_files` lists the attachments that were not passed to the agent.
///
/// # Errors
/// See [`PlanError`].
pub fn plan_answer(
    question: &Question,
    live_state: &LiveReplyState,
    language: Language,
    result: &ExecuteResult,
    skipped_files: &[SkippedFile],
) -> Result<Vec<NewOutboxEntry>, PlanError> {
    let plan = ReplyPlan::new(question, language)?;
    let answer = result.response_text.as_deref().unwrap_or_default();
    let mut texts = vec![answer.trim_end().to_owned()];
    let own_skipped = skipped_files.iter();
    texts.extend(
        own_skipped.map(|note| texts::skipped_file_text(language, &note.name, note.reason)),
    );
    // The agent usually mentions the files that it skipped.
    let agent_skipped = result.skipped.iter().flatten();
    for skipped in agent_skipped.filter(|skipped| !answer.contains(&skipped.name)) {
        let code = ErrorReason::from_name(&skipped.error_code);
        let reason = code.map_or(SkipReason::Unreadable, SkipReason::from_error_reason);
        texts.push(texts::skipped_file_text(language, &skipped.name, reason));
    }
    let mut files = Vec::new();
    for (id, name) in generated_files(result) {
        match &result.task_id {
            Some(task) => files.push(ActionKind::File {
                task: task.clone(),
                artifact: id.to_owned(),
                name: name.to_owned(),
            }),
            // Files are fetched when they are posted, which needs the task id.
            None => texts.push(texts::file_not_posted_text(language, name)),
        }
    }
    texts.retain(|text| !is_invisible(text));
    if texts.is_empty() && files.is_empty() {
        texts.push(texts::phrase_text(language, UserPhrase::NoAnswer).to_owned());
    }
    let mut entries = plan.text_entries(live_state, &texts.join("\n\n"), true)?;
    for (number, file) in files.into_iter().enumerate() {
        entries.push(plan.entry(&format!("file/{number}"), file)?);
    }
    entries.push(plan.reaction_entry(FinalStatus::Answered)?);
    Ok(entries)
}

/// Plans a failure message.
///
/// # Errors
/// See [`PlanError`].
pub fn plan_failure(
    question: &Question,
    live_state: &LiveReplyState,
    language: Language,
    code: ErrorReason,
) -> Result<Vec<NewOutboxEntry>, PlanError> {
    let text = texts::failure_text(language, code);
    ReplyPlan::new(question, language)?.interrupted_entries(live_state, text, FinalStatus::Failed)
}

/// Plans the message for a question that was stopped by a user.
///
/// # Errors
/// See [`PlanError`].
pub fn plan_stop(
    question: &Question,
    live_state: &LiveReplyState,
    language: Language,
) -> Result<Vec<NewOutboxEntry>, PlanError> {
    let text = texts::failure_text(language, ErrorReason::Canceled);
    ReplyPlan::new(question, language)?.interrupted_entries(live_state, text, FinalStatus::Stopped)
}

/// Plans a refusal, shown to the asker only.
///
/// # Errors
/// See [`PlanError`].
pub fn plan_refusal(
    question: &Question,
    language: Language,
    refusal: &Refusal,
) -> Result<Vec<NewOutboxEntry>, PlanError> {
    let message = ActionKind::Ephemeral {
        user: question.user.clone(),
        text: texts::refusal_text(language, refusal),
        in_thread: question.in_thread,
        is_direct_message: question.conversation_kind == ConversationKind::Im,
    };
    Ok(vec![
        ReplyPlan::new(question, language)?.entry("refused", message)?,
    ])
}

/// Plans the notice that an answer could not be stopped, shown only to the user who pressed the button.
///
/// # Errors
/// See [`PlanError`].
pub(crate) fn plan_stop_notice(
    stop: &StopRequest,
    user: &UserId,
    language: Language,
    reason: UserPhrase,
) -> Result<NewOutboxEntry, PlanError> {
    let location = ReplyLocation {
        team: stop.team.clone(),
        enterprise: stop.enterprise.clone(),
        channel: stop.channel.clone(),
        thread: stop.thread.clone(),
        question_ts: stop.thread.clone(),
        question: stop.target(),
    };
    let message = ActionKind::Ephemeral {
        user: user.clone(),
        text: texts::phrase_text(language, reason).to_owned(),
        in_thread: stop.in_thread,
        is_direct_message: false,
    };
    let key = format!("{}/{user}", stop.event_id);
    ReplyPlan::for_location(location, language)?.entry(&key, message)
}

/// Ids and names of a result's files.
fn generated_files(result: &ExecuteResult) -> Vec<(&str, &str)> {
    let listed = result.artifacts.iter().flatten();
    let listed = listed.filter(|artifact| artifact.name != ZoneArtifact::RESPONSE_NAME);
    let mut files: Vec<(&str, &str)> = listed.filter_map(file_id_and_name).collect();
    if files.is_empty() {
        files.extend(result.file_artifact.as_ref().and_then(file_id_and_name));
    }
    files
}

fn file_id_and_name(artifact: &ZoneArtifact) -> Option<(&str, &str)> {
    artifact.parts.iter().find_map(|part| match part {
        ArtifactPart::File { file_name, .. } => {
            Some((artifact.artifact_id.as_str(), file_name.as_str()))
        }
        ArtifactPart::Text { .. } => None,
    })
}

/// Builds outbox entries for one question.
pub(super) struct ReplyPlan {
    location: ReplyLocation,
    language: Language,
    owner: PrincipalId,
}

impl ReplyPlan {
    fn new(question: &Question, language: Language) -> Result<Self, PlanError> {
        Self::for_location(ReplyLocation::from_question(question), language)
    }

    pub(super) fn for_location(
        location: ReplyLocation,
        language: Language,
    ) -> Result<Self, PlanError> {
        let owner = PrincipalId::new(&location.team).map_err(PlanError::Owner)?;
        Ok(Self {
            location,
            language,
            owner,
        })
    }

    pub(super) fn entry(&self, key: &str, act: ActionKind) -> Result<NewOutboxEntry, PlanError> {
        let group = match act {
            // Ephemeral messages need no ordering.
            ActionKind::Ephemeral { .. } => None,
            _ => Some(self.location.outbox_group()),
        };
        let action = SlackAction {
            location: self.location.clone(),
            language: self.language,
            kind: act,
        };
        Ok(NewOutboxEntry {
            channel: POST_CHANNEL.to_owned(),
            key: format!("{}/{key}", self.location.question),
            group,
            owner: self.owner.clone(),
            subject: None,
            payload: VerbatimJson::from_value(&action).map_err(PlanError::Payload)?,
        })
    }

    fn reaction_entry(&self, ending: FinalStatus) -> Result<NewOutboxEntry, PlanError> {
        self.entry("reaction", ActionKind::React { ending })
    }

    /// Splits a text into messages; the first replaces the live reply.
    fn text_entries(
        &self,
        live_state: &LiveReplyState,
        text: &str,
        is_answer: bool,
    ) -> Result<Vec<NewOutboxEntry>, PlanError> {
        let text = escape_mentions(text);
        let mut pieces = split(&text, MAX_MESSAGE_CHARS);
        if pieces.is_empty() && live_state.posted_as != PostedAs::NotPosted {
            // The streamed text is all there is.
            pieces.push(live_state.accepted_text.trim_end().to_owned());
        }
        pieces.retain(|piece| !is_invisible(piece));
        let last = pieces.len().saturating_sub(1);
        let entries = pieces.into_iter().enumerate().map(|(number, text)| {
            let feedback = is_answer && number == last;
            let action = if number == 0 && live_state.posted_as != PostedAs::NotPosted {
                let live_state = live_state.clone();
                ActionKind::FinalizeLive {
                    text,
                    feedback,
                    live_state,
                }
            } else {
                ActionKind::Post { text, feedback }
            };
            self.entry(&format!("text/{number}"), action)
        });
        entries.collect()
    }

    /// Keeps the streamed text and appends the reason why it ended.
    fn interrupted_entries(
        &self,
        live_state: &LiveReplyState,
        reason: &str,
        ending: FinalStatus,
    ) -> Result<Vec<NewOutboxEntry>, PlanError> {
        let streamed = live_state.accepted_text.trim_end();
        let text = if streamed.is_empty() {
            reason.to_owned()
        } else {
            format!("{streamed}{}\n\n{reason}", closing_fence(streamed))
        };
        let mut entries = self.text_entries(live_state, &text, false)?;
        entries.push(self.reaction_entry(ending)?);
        Ok(entries)
    }
}

#[cfg(test)]
mod tests;
