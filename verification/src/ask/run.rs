//! One call to the Execution Zone: what is sent, what is shown meanwhile, and what came of it.

use super::notes::Fixed;
use super::patience::LEAST;
use super::{Asking, NotYet, Notes};
use crate::context::mentions;
use crate::question::Question;
use crate::reply::Live;
use crate::slack::tokens::Installation;
use base64::Engine;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use interzone_client::{Client, Error, ExecuteEvent, Execution, Waiting};
use interzone_protocol::zone::{
    Attachment, BotToken, ErrorWord, ExecuteResult, ExecuteTaskParams, TaskIdParams, TaskOutcome,
};
use std::time::Duration;
use tokio::task::JoinSet;
use tokio::time::{Instant, sleep_until, timeout_at};

/// How often a task is asked about that is not watched.
const LOOK: Duration = Duration::from_secs(2);
/// Bytes of a word that opens nothing.
const CAPABILITY: usize = 32;

/// What came of a call.
pub(super) enum Outcome {
    Answered(Box<ExecuteResult>),
    Stopped,
    /// The task that it was to answer does not wait for anything.
    NotWaiting,
    Failed(ErrorWord),
}

impl Asking<'_> {
    /// Asks, and shows what goes on.
    pub(super) async fn run(
        &self,
        at: &Installation,
        fixed: &Fixed,
        attachments: &[Attachment],
        live: &Live,
    ) -> Result<Outcome, NotYet> {
        // One that was stopped before it began is not begun.
        if self.notes.is_marked(self.question).await? {
            return Ok(Outcome::Stopped);
        }
        let params = self.params(at, fixed, attachments);
        let until = self.until();
        let run = self
            .client()
            .execute_task(&params)
            .id(self.question.id.as_str())
            .waiting(Waiting::Events)
            .budget(until.saturating_duration_since(Instant::now()))
            .start();
        let mut run = match run {
            Ok(run) => run,
            Err(error) => return self.came(&error, fixed).await,
        };
        // What is in memory twice is there once too often.
        drop(params);
        let watched = timeout_at(until, self.watch(&mut run, live)).await;
        if watched.is_err() {
            tracing::info!(event = self.question.event_id, "a question took too long");
            if let Err(error) = run.cancel().await {
                tracing::warn!(%error, "a task that takes too long could not be called off");
            }
            return Ok(Outcome::Failed(ErrorWord::AsyncTimeout));
        }
        match run.outcome().await {
            Ok(result) => Ok(Outcome::Answered(Box::new(result))),
            Err(error) => self.came(&error, fixed).await,
        }
    }

    /// Shows what goes on until it is over.
    async fn watch(&self, run: &mut Execution, live: &Live) {
        let mut beside = JoinSet::new();
        while let Some(event) = run.next().await {
            match event {
                ExecuteEvent::Begun { task_id } => {
                    live.begun();
                    let (notes, question) = (self.notes.clone(), self.question.clone());
                    beside.spawn(begun(notes, question, task_id, self.client()));
                }
                ExecuteEvent::Status(line) => live.status(&line),
                ExecuteEvent::Text(more) => live.text(&more),
                // A file is posted when all is there.
                _ => {}
            }
        }
        while beside.join_next().await.is_some() {}
    }

    /// Waits for the task that an earlier attempt has begun, without asking anything again.
    pub(super) async fn find(&self, live: &Live) -> Result<Outcome, NotYet> {
        let running = self.notes.running(&self.question.id).await?;
        let Some(running) = running else {
            // Whether the agent was asked is not known. Not to ask twice is the safer way.
            return Ok(Outcome::Failed(ErrorWord::AttachmentDownloadFailed));
        };
        let params = TaskIdParams {
            task_id: running.task,
        };
        let (client, until) = (self.client(), self.until());
        loop {
            let next = Instant::now() + LOOK;
            match client.get_task_result(&params).await {
                Ok(TaskOutcome::Done(result)) => return Ok(Outcome::Answered(result)),
                Ok(TaskOutcome::Failed(fault)) => return Ok(failed(fault.data.as_ref())),
                Ok(TaskOutcome::Running(line)) => {
                    live.begun();
                    line.iter().for_each(|line| live.status(line));
                }
                Err(error) if error.is_retryable() => {}
                Err(error) => return Ok(Outcome::Failed(error.error_word())),
            }
            if next >= until {
                return Ok(Outcome::Failed(ErrorWord::AsyncTimeout));
            }
            sleep_until(next).await;
        }
    }

    fn client(&self) -> Client {
        let correlation = &self.question.event_id;
        self.zone.client.with_correlation(correlation)
    }

    fn params(
        &self,
        at: &Installation,
        fixed: &Fixed,
        attachments: &[Attachment],
    ) -> ExecuteTaskParams {
        let question = self.question;
        let token: BotToken = if self.zone.ask.forward_bot_token {
            at.token.expose().into()
        } else {
            capability().into()
        };
        ExecuteTaskParams {
            correlation_id: Some(question.event_id.clone()),
            thread_ts: Some(question.thread.to_string()),
            team_id: Some(question.team.to_string()),
            user_id: Some(question.user.to_string()),
            attachments: (!attachments.is_empty()).then(|| attachments.to_vec()),
            task_id: fixed.answers.clone(),
            context: (!fixed.context.is_empty()).then(|| fixed.context.clone()),
            ..ExecuteTaskParams::new(question.channel.as_str(), text(question, fixed), token)
        }
    }

    /// What it means that the call failed.
    async fn came(&self, error: &Error, fixed: &Fixed) -> Result<Outcome, NotYet> {
        let word = error.error_word();
        let answers = fixed.answers.is_some();
        match word {
            ErrorWord::Canceled => return Ok(Outcome::Stopped),
            ErrorWord::TaskFinished | ErrorWord::TaskNotWaiting | ErrorWord::TaskNotFound
                if answers =>
            {
                return Ok(Outcome::NotWaiting);
            }
            _ => {}
        }
        let event = &self.question.event_id;
        let over = matches!(error, Error::OutOfTime { .. });
        // Whoever would have to wait for longer than anybody does is told so now.
        let after = error.retry_after();
        let in_time = after.is_none_or(|after| after <= self.left().max(LEAST));
        if error.is_retryable() && !over && in_time && self.may_try_again().await {
            tracing::warn!(event, %error, "the execution zone cannot be asked now");
            return Err(NotYet {
                why: error.to_string(),
                after,
                put_off: false,
            });
        }
        tracing::warn!(event, word = word.name(), %error, "a question failed");
        Ok(Outcome::Failed(word))
    }
}

/// Notes which task it is, and calls it off if it was to be stopped before it began.
async fn begun(notes: Notes, question: Question, task_id: String, client: Client) {
    let event = &question.event_id;
    if let Err(error) = notes.begun(&question, &task_id).await {
        tracing::warn!(event, %error, "which task it is could not be noted; it cannot be stopped");
        return;
    }
    if let Ok(true) = notes.is_marked(&question).await
        && let Err(error) = client.cancel_task(&TaskIdParams { task_id }).await
    {
        tracing::warn!(event, %error, "a task could not be stopped");
    }
}

/// What was asked, without the mention of us and with others by their names.
pub(super) fn text(question: &Question, fixed: &Fixed) -> String {
    let text = match &fixed.own {
        Some(own) => {
            let mention = format!("<@{own}>");
            question.text.replace(&mention, "").trim().to_owned()
        }
        None => question.text.clone(),
    };
    mentions::named(&text, &fixed.names)
}

/// What a task failed with.
fn failed(data: Option<&interzone_protocol::vocab::Json>) -> Outcome {
    #[derive(serde::Deserialize)]
    struct Data {
        error_code: String,
    }
    let data = data.and_then(|data| data.decode::<Data>().ok());
    let word = data.and_then(|data| ErrorWord::from_name(&data.error_code));
    match word.unwrap_or(ErrorWord::AsyncTaskFailed) {
        ErrorWord::Canceled => Outcome::Stopped,
        word => Outcome::Failed(word),
    }
}

/// A word in place of the token, another for each request, that opens nothing.
fn capability() -> String {
    let mut bytes = [0; CAPABILITY];
    if aws_lc_rs::rand::fill(&mut bytes).is_err() {
        // It need not be a secret, only a word of its own.
        let id = uuid::Uuid::new_v4();
        return format!("izc_{}", id.simple());
    }
    format!("izc_{}", URL_SAFE_NO_PAD.encode(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fault_13_the_token_stays_here_and_each_request_has_a_word_of_its_own() {
        let (one, other) = (capability(), capability());
        assert_ne!(one, other);
        assert!(one.starts_with("izc_") && one.len() == 4 + 43, "{one}");
    }
}
