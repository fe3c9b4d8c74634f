//! One `execute_task` call: the request, its progress and its outcome.

use super::MIN_ATTEMPT_TIMEOUT;
use super::state_store::FrozenRequest;
use super::{AskAttempt, AskStateStore, RetryLater};
use crate::context::mentions;
use crate::question::Question;
use crate::reply::LiveReply;
use crate::slack::tokens::Installation;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use interzone_client::{Client, Error, ExecuteEvent, Execution, WaitMode};
use interzone_protocol::zone::{
    Attachment, BotToken, ErrorReason, ExecuteResult, ExecuteTaskParams, TaskIdParams, TaskOutcome,
};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

/// Poll interval for a task that is not streamed.
const POLL_INTERVAL: Duration = Duration::from_secs(2);
/// Random bytes of a placeholder token.
const PLACEHOLDER_TOKEN_BYTES: usize = 32;

/// Outcome of a call.
pub(super) enum AskOutcome {
    Answered(Box<ExecuteResult>),
    Stopped,
    /// The task that the question should answer does not wait for input.
    NotWaiting,
    Failed(ErrorReason),
}

impl AskAttempt<'_> {
    /// Calls the agent and shows its progress.
    pub(super) async fn call_agent(
        &self,
        installation: &Installation,
        request: &FrozenRequest,
        attachments: &[Attachment],
        live_reply: &LiveReply,
    ) -> Result<AskOutcome, RetryLater> {
        // A question that was stopped before it started is not sent.
        if self.state.is_stop_requested(self.question).await? {
            return Ok(AskOutcome::Stopped);
        }
        let params = self.params(installation, request, attachments);
        let deadline = self.deadline();
        let run = self
            .client()
            .execute_task(&params)
            .id(self.question.id.as_str())
            .wait_mode(WaitMode::Stream)
            .poll_timeout(deadline.saturating_duration_since(Instant::now()))
            .start();
        let mut run = match run {
            Ok(run) => run,
            Err(error) => return self.classify_error(&error, request).await,
        };
        // Frees the copy of the attachments.
        drop(params);
        let watched = timeout_at(deadline, self.watch(&mut run, live_reply)).await;
        if watched.is_err() {
            tracing::info!(event = self.question.event_id, "question timed out");
            if let Err(error) = run.cancel().await {
                tracing::warn!(%error, "canceling timed-out task failed");
            }
            return Ok(AskOutcome::Failed(ErrorReason::AsyncTimeout));
        }
        match run.outcome().await {
            Ok(result) => Ok(AskOutcome::Answered(Box::new(result))),
            Err(error) => self.classify_error(&error, request).await,
        }
    }

    /// Shows progress until the call ends.
    async fn watch(&self, run: &mut Execution, live_reply: &LiveReply) {
        let mut background = JoinSet::new();
        while let Some(event) = run.next().await {
            match event {
                ExecuteEvent::Started { task_id } => {
                    live_reply.task_started();
                    let (notes, question) = (self.state.clone(), self.question.clone());
                    background.spawn(on_task_started(notes, question, task_id, self.client()));
                }
                ExecuteEvent::Status(line) => live_reply.set_status(&line),
                ExecuteEvent::Text(more) => live_reply.push_text(&more),
                // Files are posted with the answer.
                _ => {}
            }
        }
        while background.join_next().await.is_some() {}
    }

    /// Waits for the task that an earlier attempt started, without calling the agent again.
    pub(super) async fn poll_existing_task(
        &self,
        live_reply: &LiveReply,
    ) -> Result<AskOutcome, RetryLater> {
        let running = self.state.running_task(&self.question.id).await?;
        let Some(running) = running else {
            // An earlier attempt may have called the agent. Failing is safer than calling it twice.
            return Ok(AskOutcome::Failed(ErrorReason::AttachmentDownloadFailed));
        };
        let params = TaskIdParams {
            task_id: running.task,
        };
        let (client, until) = (self.client(), self.deadline());
        loop {
            let next_poll = Instant::now() + POLL_INTERVAL;
            match client.get_task_result(&params).await {
                Ok(TaskOutcome::Done(result)) => return Ok(AskOutcome::Answered(result)),
                Ok(TaskOutcome::Failed(error)) => {
                    return Ok(outcome_from_error_data(error.data.as_ref()));
                }
                Ok(TaskOutcome::Running(line)) => {
                    live_reply.task_started();
                    line.iter().for_each(|line| live_reply.set_status(line));
                }
                Err(error) if error.is_retryable() => {}
                Err(error) => return Ok(AskOutcome::Failed(error.reason())),
            }
            if next_poll >= until {
                return Ok(AskOutcome::Failed(ErrorReason::AsyncTimeout));
            }
            sleep_until(next_poll).await;
        }
    }

    fn client(&self) -> Client {
        let correlation = &self.question.event_id;
        self.zone.client.with_correlation(correlation)
    }

    fn params(
        &self,
        installation: &Installation,
        request: &FrozenRequest,
        attachments: &[Attachment],
    ) -> ExecuteTaskParams {
        let question = self.question;
        let token: BotToken = if self.zone.ask.forward_bot_token {
            installation.token.expose().into()
        } else {
            placeholder_token().into()
        };
        ExecuteTaskParams {
            correlation_id: Some(question.event_id.clone()),
            thread_ts: Some(question.thread.to_string()),
            team_id: Some(question.team.to_string()),
            user_id: Some(question.user.to_string()),
            attachments: (!attachments.is_empty()).then(|| attachments.to_vec()),
            task_id: request.answers.clone(),
            context: (!request.context.is_empty()).then(|| request.context.clone()),
            ..ExecuteTaskParams::new(
                question.channel.as_str(),
                request_text(question, request),
                token,
            )
        }
    }

    /// Classifies a failed call.
    async fn classify_error(
        &self,
        error: &Error,
        request: &FrozenRequest,
    ) -> Result<AskOutcome, RetryLater> {
        let reason = error.reason();
        let is_input = request.answers.is_some();
        match reason {
            ErrorReason::Canceled => return Ok(AskOutcome::Stopped),
            ErrorReason::TaskFinished | ErrorReason::TaskNotWaiting | ErrorReason::TaskNotFound
                if is_input =>
            {
                return Ok(AskOutcome::NotWaiting);
            }
            _ => {}
        }
        let event = &self.question.event_id;
        let is_timeout = matches!(error, Error::TaskTimeout { .. });
        // If the requested delay exceeds the remaining time, the asker is notified now.
        let retry_after = error.retry_after();
        let is_in_time =
            retry_after.is_none_or(|after| after <= self.remaining().max(MIN_ATTEMPT_TIMEOUT));
        if error.is_retryable() && !is_timeout && is_in_time && self.has_attempts_left().await {
            tracing::warn!(event, %error, "execution zone call failed, retrying");
            return Err(RetryLater {
                reason: error.to_string(),
                delay: retry_after,
                is_deferred: false,
            });
        }
        tracing::warn!(event, code = reason.name(), %error, "question failed");
        Ok(AskOutcome::Failed(reason))
    }
}

/// Records the task, and cancels it if a stop was requested before it started.
async fn on_task_started(
    state: AskStateStore,
    question: Question,
    task_id: String,
    client: Client,
) {
    let event = &question.event_id;
    if let Err(error) = state.record_task(&question, &task_id).await {
        tracing::warn!(event, %error, "recording task failed, it cannot be stopped");
        return;
    }
    if let Ok(true) = state.is_stop_requested(&question).await
        && let Err(error) = client.cancel_task(&TaskIdParams { task_id }).await
    {
        tracing::warn!(event, %error, "canceling task failed");
    }
}

/// Returns the request text: without the mention of the bot, with user mentions replaced by names.
pub(super) fn request_text(question: &Question, request: &FrozenRequest) -> String {
    let text = match &request.bot_user {
        Some(bot_user) => {
            let mention = format!("<@{bot_user}>");
            question.text.replace(&mention, "").trim().to_owned()
        }
        None => question.text.clone(),
    };
    mentions::replace_mentions(&text, &request.names)
}

/// Returns the outcome of a failed task from its error data.
fn outcome_from_error_data(data: Option<&interzone_protocol::vocab::VerbatimJson>) -> AskOutcome {
    #[derive(serde::Deserialize)]
    struct ErrorData {
        error_code: String,
    }
    let data = data.and_then(|data| data.decode::<ErrorData>().ok());
    let reason = data.and_then(|data| ErrorReason::from_name(&data.error_code));
    match reason.unwrap_or(ErrorReason::AsyncTaskFailed) {
        ErrorReason::Canceled => AskOutcome::Stopped,
        word => AskOutcome::Failed(word),
    }
}

/// Returns a random placeholder for the bot token, new for each request.
fn placeholder_token() -> String {
    let mut bytes = [0; PLACEHOLDER_TOKEN_BYTES];
    if aws_lc_rs::rand::fill(&mut bytes).is_err() {
        // It need not be secret, only unique.
        let id = uuid::Uuid::new_v4();
        return format!("izc_{}", id.simple());
    }
    format!("izc_{}", URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_13_each_request_gets_its_own_placeholder_token() {
        let (one, other) = (placeholder_token(), placeholder_token());
        assert_ne!(one, other);
        assert!(one.starts_with("izc_") && one.len() == 4 + 43, "{one}");
    }
}
