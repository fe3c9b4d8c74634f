//! LLM agent: a language model answers, streamed, and generates files on request.
//!
//! Three provider APIs cover nearly all models: OpenAI, Anthropic and Bedrock. Errors of a model or its provider
//! become error codes of the zone contract. No key may appear in a log or an error, and nothing that a user sends is
//! trusted, least of all the content of a file.

use super::stopped_error;
use crate::files::{FileOwner, Language};
use async_trait::async_trait;
use interzone_hub::{Agent, AgentError, AgentInfo, Turn, TurnOutcome, TurnOutput, failure_message};
use interzone_protocol::vocab::Message;
use interzone_protocol::zone::ErrorReason;
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

mod answer;
mod anthropic;
mod attachments;
#[cfg(feature = "aws")]
mod bedrock;
mod chat;
mod errors;
mod history;
mod openai;
mod options;
mod provider;
mod request;
mod retry;
mod tools;

#[cfg(feature = "aws")]
pub use bedrock::BedrockCredentials;
pub use options::{LlmError, LlmOptions, LlmProvider};

use answer::{AnswerNotice, AnswerSink};
use attachments::{FileReadContext, PromptDelimiter, SkippedFile};
use chat::{Chat, ChatRole, ContentBlock, StopReason};
use errors::{LlmErrorKind, LlmFailure};
use provider::ModelProvider;
use request::{LlmRequest, ModelAnswer};
use tools::ToolError;

/// Size limits of an answer.
#[derive(Clone, Copy, Debug)]
struct AnswerLimits {
    /// Maximum size of a stream event, in bytes.
    event_bytes: usize,
    /// Maximum size of the text, in bytes.
    text_bytes: usize,
    /// Maximum total size of the arguments of all tool calls, in bytes.
    argument_bytes: usize,
}

impl AnswerLimits {
    fn from_options(options: &LlmOptions) -> Self {
        let file = usize::try_from(options.files.max_bytes).unwrap_or(usize::MAX);
        // Text in JSON may take twice its size, and the rest of the call adds a little.
        let argument_bytes = file.saturating_mul(2).saturating_add(64 * 1024);
        Self {
            // A call may arrive in a single event, JSON-encoded once more as a string.
            event_bytes: argument_bytes.saturating_mul(2),
            text_bytes: options.text_bytes,
            argument_bytes,
        }
    }
}

/// Agent backed by a language model.
pub struct LlmAgent {
    info: AgentInfo,
    options: LlmOptions,
    provider: Box<dyn ModelProvider>,
    client: reqwest::Client,
}

impl LlmAgent {
    /// Creates the agent. It does not connect before its first run.
    ///
    /// # Errors
    /// The model name, the URL or the key is invalid.
    pub fn new(options: LlmOptions) -> Result<Self, LlmError> {
        if options.model.trim().is_empty() {
            return Err(LlmError::NoModel);
        }
        let provider: Box<dyn ModelProvider> = match &options.provider {
            LlmProvider::OpenAi {
                base_url,
                key,
                native_files,
                images,
            } => {
                let key = key.as_ref();
                let (files, images) = (*native_files, *images);
                let provider = openai::OpenAiProvider::new(&options, base_url, key, files, images)?;
                Box::new(provider)
            }
            LlmProvider::Anthropic { base_url, key } => {
                let key = key.as_ref();
                Box::new(anthropic::AnthropicProvider::new(&options, base_url, key)?)
            }
            #[cfg(feature = "aws")]
            LlmProvider::Bedrock {
                region,
                endpoint,
                credentials,
            } => {
                let endpoint = endpoint.as_ref();
                let provider =
                    bedrock::BedrockProvider::new(&options, region, endpoint, credentials)?;
                Box::new(provider)
            }
        };
        let client = options
            .trust
            .client()
            .connect_timeout(options.connect_timeout)
            // A turn has its own time limit, whose error is more specific.
            .timeout(options.timeout.saturating_add(Duration::from_secs(1)))
            // Retries follow our own policy; a second one in the client would interfere.
            .retry(reqwest::retry::never())
            .build()
            .map_err(LlmError::Client)?;
        Ok(Self {
            info: AgentInfo {
                id: options.id.clone(),
                name: options.name.clone(),
                description: options.description.clone(),
                skills: options.skills.clone(),
                concurrency: options.concurrency.max(1),
                profile: options.profile.clone(),
            },
            options,
            provider,
            client,
        })
    }

    async fn run_turn(
        &self,
        turn: &Turn,
        output: &dyn TurnOutput,
    ) -> Result<TurnOutcome, AgentError> {
        let deadline = Instant::now() + self.options.timeout;
        let language = Language::detect(&turn.message.text());
        if history::is_blank(&turn.message) {
            return Ok(failed(
                ErrorReason::MissingText,
                empty_message_text(language),
            ));
        }
        let delimiter = PromptDelimiter::new();
        let context = FileReadContext {
            reader: &self.options.reader,
            owner: &FileOwner::from(&turn.task),
            rules: &self.options.input,
        };
        let (mut chat, skipped) = history::build_chat(
            turn,
            &self.options,
            self.provider.as_ref(),
            context,
            &delimiter,
        )
        .await;
        if let Some(outcome) = fail_if_all_files_skipped(turn, &skipped, language) {
            return Ok(outcome);
        }
        chat.tools = tools::available_tools(&self.options.files);
        let request = LlmRequest {
            provider: self.provider.as_ref(),
            client: &self.client,
            options: &self.options,
            context,
            delimiter: &delimiter,
            deadline,
        };
        let mut sink = AnswerSink::new(output, self.options.text_bytes);
        let mut tool_error: Option<(ToolError, usize)> = None;
        for round in 0..=self.options.tool_rounds {
            sink.begin_paragraph();
            let answer = match request.send(&mut chat, &mut sink).await {
                Ok(answer) => answer,
                Err(LlmFailure::Output(error)) => return Err(error),
                Err(LlmFailure::Model {
                    kind: LlmErrorKind::Refused,
                    ..
                }) => return Ok(rejected(None, language)),
                Err(LlmFailure::Model { kind: why, .. }) if sink.files().is_empty() => {
                    return Ok(failed(why.code(), why.user_message(language)));
                }
                // A file that was already generated is not discarded because of a later failure.
                Err(LlmFailure::Model { kind: why, .. }) => {
                    sink.append_notice(why.user_message(language)).await?;
                    break;
                }
            };
            if answer.stop == Some(StopReason::Filtered) || !answer.refusal.is_empty() {
                let candidates = [answer.refusal, answer.text];
                let text = candidates
                    .into_iter()
                    .find(|words| !words.trim().is_empty());
                return Ok(rejected(text, language));
            }
            if answer.calls.is_empty() {
                if answer.stop == Some(StopReason::Length) && sink.has_text() {
                    sink.append_notice(&AnswerNotice::CutOff.to_text(language))
                        .await?;
                }
                break;
            }
            if round == self.options.tool_rounds {
                sink.append_notice(&AnswerNotice::Unfinished.to_text(language))
                    .await?;
                break;
            }
            let sequence = turn.history.len().saturating_add(1);
            let error = self
                .run_tool_calls(answer, sequence, &mut chat, &mut sink, language)
                .await?;
            tool_error = error.map(|mishap| (mishap, sink.length())).or(tool_error);
        }
        if let Some((tool_error, length_before)) = tool_error.filter(|_| sink.files().is_empty()) {
            if sink.length() == length_before {
                return Ok(failed(ErrorReason::ToolFailure, &tool_error.user_message));
            }
            sink.append_notice(&tool_error.user_message).await?;
        }
        if !sink.has_text() {
            if sink.files().is_empty() {
                let kind = LlmErrorKind::EmptyAnswer;
                return Ok(failed(kind.code(), kind.user_message(language)));
            }
            let notice = AnswerNotice::FilesOnly(sink.files()).to_text(language);
            sink.append_notice(&notice).await?;
        }
        for skipped_file in &skipped {
            sink.append_notice(&AnswerNotice::Skipped(skipped_file).to_text(language))
                .await?;
        }
        let direct = sink.files().is_empty();
        let message = sink.into_message(self.provider.name(), &self.options.model, &skipped);
        let message = message.map_err(|error| AgentError {
            code: "agent_output",
            detail: error.to_string(),
        })?;
        Ok(TurnOutcome::Completed {
            message: Some(message),
            direct,
        })
    }

    /// Executes the tool calls of an answer and adds their results to the chat. Returns the last error, if any.
    async fn run_tool_calls(
        &self,
        answer: ModelAnswer,
        sequence: usize,
        chat: &mut Chat<'_>,
        sink: &mut AnswerSink<'_>,
        language: Language,
    ) -> Result<Option<ToolError>, AgentError> {
        let mut blocks = vec![ContentBlock::Text(answer.text.into())];
        let mut results = Vec::new();
        let mut last_error = None;
        for mut call in answer.calls {
            sink.status(&AnswerNotice::GeneratingFile.to_text(language))
                .await?;
            let generated = call
                .execute(&self.options.files, sink.files().len(), language)
                .await;
            let (text, failed) = match generated {
                Ok(file) => {
                    let result_text = tools::result_text(&file);
                    sink.send_file(file, sequence, &self.info.name).await?;
                    (result_text, false)
                }
                Err(error) => {
                    let result_text = error.model_message.clone();
                    last_error = Some(error);
                    (result_text, true)
                }
            };
            let arguments = std::mem::take(&mut call.arguments);
            blocks.push(ContentBlock::ToolCall {
                id: call.id.clone(),
                name: call.name,
                arguments: arguments_object(arguments),
            });
            results.push(ContentBlock::ToolResult {
                id: call.id,
                text,
                failed,
            });
        }
        chat.push(ChatRole::Assistant, blocks);
        chat.push(ChatRole::User, results);
        Ok(last_error)
    }
}

#[async_trait]
impl Agent for LlmAgent {
    fn info(&self) -> &AgentInfo {
        &self.info
    }

    async fn run(
        &self,
        turn: Turn,
        output: Arc<dyn TurnOutput>,
    ) -> Result<TurnOutcome, AgentError> {
        let answer = self.run_turn(&turn, output.as_ref());
        // Dropping the answer cancels all pending operations, including the connection.
        tokio::select! {
            biased;
            () = turn.cancel_token.cancelled() => Err(stopped_error()),
            answer = tokio::time::timeout(self.options.timeout, answer) => {
                answer.unwrap_or_else(|_| {
                    let language = Language::detect(&turn.message.text());
                    Ok(failed(LlmErrorKind::TimedOut.code(), LlmErrorKind::TimedOut.user_message(language)))
                })
            }
        }
    }
}

/// Returns the arguments of a call for the next request: providers require an object.
fn arguments_object(arguments: String) -> Box<RawValue> {
    let raw = RawValue::from_string(arguments).ok();
    let raw = raw.filter(|raw| raw.get().starts_with('{'));
    raw.unwrap_or_else(|| RawValue::from_string("{}".to_owned()).unwrap_or_default())
}

/// Fails the turn if none of the message's files could be read: an answer would be about nothing.
fn fail_if_all_files_skipped(
    turn: &Turn,
    skipped: &[SkippedFile],
    language: Language,
) -> Option<TurnOutcome> {
    let first = skipped.first()?;
    let attached = turn
        .message
        .parts()
        .iter()
        .filter(|part| part.kind() != interzone_protocol::vocab::PartKind::Text);
    (attached.count() == skipped.len()).then(|| {
        let sentence = AnswerNotice::Skipped(first).to_text(language);
        failed(first.error.code, &sentence)
    })
}

const fn empty_message_text(language: Language) -> &'static str {
    match language {
        Language::English => "Please ask something.",
        Language::Japanese => "何か質問を書いてください。",
    }
}

fn failed(code: ErrorReason, sentence: &str) -> TurnOutcome {
    TurnOutcome::Failed(failure_message(code.name(), sentence))
}

fn rejected(text: Option<String>, language: Language) -> TurnOutcome {
    let text = text.unwrap_or_else(|| LlmErrorKind::Refused.user_message(language).to_owned());
    TurnOutcome::Rejected(Some(Message::agent_text(text)))
}

#[cfg(test)]
mod tests;
