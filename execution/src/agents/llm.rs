//! The llm agent: a language model answers, streamed word by word, and makes files if asked to.
//!
//! Three ways of speaking cover nearly all models: OpenAI's, Anthropic's and Bedrock's. What a model or
//! its provider does wrong becomes a word of the zones' contract. No key may enter a log or an error, and
//! nothing that a user sends is trusted, least of all what is in a file.

use super::stopped;
use crate::files::{FileOwner, Language};
use async_trait::async_trait;
use interzone_hub::{Agent, AgentError, AgentInfo, Outcome, Output, Turn, failure};
use interzone_protocol::vocab::Message;
use interzone_protocol::zone::ErrorWord;
use serde_json::value::RawValue;
use std::sync::Arc;
use std::time::Duration;
use tokio::time::Instant;

mod anthropic;
mod attachments;
#[cfg(feature = "aws")]
mod bedrock;
mod chat;
mod errors;
mod exchange;
mod history;
mod openai;
mod options;
mod reply;
mod retry;
mod sse;
mod tools;
mod wire;

#[cfg(feature = "aws")]
pub use bedrock::BedrockCredentials;
pub use options::{LlmError, LlmOptions, Provider};

use attachments::{Fence, Reading, Skipped};
use chat::{Block, Chat, Speaker, Stop};
use errors::{Failure, Why};
use exchange::{Answer, Exchange};
use reply::{Note, Reply};
use tools::Mishap;
use wire::Wire;

/// How much of an answer is taken.
#[derive(Clone, Copy, Debug)]
struct Quota {
    /// Bytes of one event of a stream.
    event_bytes: usize,
    /// Bytes of the text.
    text_bytes: usize,
    /// Bytes of the arguments of all calls.
    argument_bytes: usize,
}

impl Quota {
    fn of(options: &LlmOptions) -> Self {
        let file = usize::try_from(options.files.max_bytes).unwrap_or(usize::MAX);
        // Text in JSON may take twice its size, and a call comes with a few words.
        let argument_bytes = file.saturating_mul(2).saturating_add(64 * 1024);
        Self {
            // A call may come in one piece, as a string in JSON once more.
            event_bytes: argument_bytes.saturating_mul(2),
            text_bytes: options.text_bytes,
            argument_bytes,
        }
    }
}

/// An agent that is a model.
pub struct LlmAgent {
    info: AgentInfo,
    options: LlmOptions,
    wire: Box<dyn Wire>,
    client: reqwest::Client,
}

impl LlmAgent {
    /// Sets the agent up. It connects to nobody before it is asked something.
    ///
    /// # Errors
    /// The model, its address or its key cannot be used.
    pub fn new(options: LlmOptions) -> Result<Self, LlmError> {
        if options.model.trim().is_empty() {
            return Err(LlmError::NoModel);
        }
        let wire: Box<dyn Wire> = match &options.provider {
            Provider::OpenAi {
                base_url,
                key,
                native_files,
                images,
            } => {
                let key = key.as_ref();
                let (files, images) = (*native_files, *images);
                let wire = openai::OpenAi::new(&options, base_url, key, files, images)?;
                Box::new(wire)
            }
            Provider::Anthropic { base_url, key } => {
                let key = key.as_ref();
                Box::new(anthropic::Anthropic::new(&options, base_url, key)?)
            }
            #[cfg(feature = "aws")]
            Provider::Bedrock {
                region,
                endpoint,
                credentials,
            } => {
                let endpoint = endpoint.as_ref();
                let wire = bedrock::Bedrock::new(&options, region, endpoint, credentials)?;
                Box::new(wire)
            }
        };
        let client = options
            .trust
            .client()
            .connect_timeout(options.connect_timeout)
            // A turn has its own limit, which says more when it is reached.
            .timeout(options.timeout.saturating_add(Duration::from_secs(1)))
            // Requests are sent again by our rules; a second set would do it behind our back.
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
            },
            options,
            wire,
            client,
        })
    }

    async fn answer(&self, turn: &Turn, output: &dyn Output) -> Result<Outcome, AgentError> {
        let until = Instant::now() + self.options.timeout;
        let language = Language::of(&turn.message.text());
        if history::is_blank(&turn.message) {
            return Ok(failed(ErrorWord::MissingText, nothing_asked(language)));
        }
        let fence = Fence::new();
        let reading = Reading {
            reader: &self.options.reader,
            owner: &FileOwner::from(&turn.task),
            rules: &self.options.input,
        };
        let (mut chat, skipped) =
            history::chat(turn, &self.options, self.wire.as_ref(), reading, &fence).await;
        if let Some(outcome) = nothing_arrived(turn, &skipped, language) {
            return Ok(outcome);
        }
        chat.tools = tools::offered(&self.options.files);
        let exchange = Exchange {
            wire: self.wire.as_ref(),
            client: &self.client,
            options: &self.options,
            reading,
            fence: &fence,
            until,
        };
        let mut reply = Reply::new(output, self.options.text_bytes);
        let mut mishap: Option<(Mishap, usize)> = None;
        for round in 0..=self.options.tool_rounds {
            reply.begin_paragraph();
            let answer = match exchange.ask(&mut chat, &mut reply).await {
                Ok(answer) => answer,
                Err(Failure::Ours(error)) => return Err(error),
                Err(Failure::Model {
                    why: Why::Refused, ..
                }) => return Ok(rejected(None, language)),
                Err(Failure::Model { why, .. }) if reply.files().is_empty() => {
                    return Ok(failed(why.word(), why.sentence(language)));
                }
                // A file that is made is not lost because of what comes after it.
                Err(Failure::Model { why, .. }) => {
                    reply.note(why.sentence(language)).await?;
                    break;
                }
            };
            if answer.stop == Some(Stop::Filtered) || !answer.refusal.is_empty() {
                let words = [answer.refusal, answer.text];
                let words = words.into_iter().find(|words| !words.trim().is_empty());
                return Ok(rejected(words, language));
            }
            if answer.calls.is_empty() {
                if answer.stop == Some(Stop::Length) && reply.has_text() {
                    reply.note(&Note::CutOff.told(language)).await?;
                }
                break;
            }
            if round == self.options.tool_rounds {
                reply.note(&Note::Unfinished.told(language)).await?;
                break;
            }
            let place = turn.history.len().saturating_add(1);
            let went_wrong = self
                .use_tools(answer, place, &mut chat, &mut reply, language)
                .await?;
            mishap = went_wrong.map(|mishap| (mishap, reply.length())).or(mishap);
        }
        if let Some((mishap, said)) = mishap.filter(|_| reply.files().is_empty()) {
            if reply.length() == said {
                return Ok(failed(ErrorWord::ToolFailure, &mishap.user));
            }
            reply.note(&mishap.user).await?;
        }
        if !reply.has_text() {
            if reply.files().is_empty() {
                let why = Why::Silent;
                return Ok(failed(why.word(), why.sentence(language)));
            }
            let here = Note::Here(reply.files()).told(language);
            reply.note(&here).await?;
        }
        for one in &skipped {
            reply.note(&Note::Skipped(one).told(language)).await?;
        }
        let direct = reply.files().is_empty();
        let message = reply.into_message(self.wire.name(), &self.options.model, &skipped);
        let message = message.map_err(|error| AgentError {
            code: "agent_output",
            detail: error.to_string(),
        })?;
        Ok(Outcome::Completed {
            message: Some(message),
            direct,
        })
    }

    /// Does what the model asks for, and tells it what came of it; gives back what went wrong last.
    async fn use_tools(
        &self,
        answer: Answer,
        place: usize,
        chat: &mut Chat<'_>,
        reply: &mut Reply<'_>,
        language: Language,
    ) -> Result<Option<Mishap>, AgentError> {
        let mut said = vec![Block::Text(answer.text.into())];
        let mut returned = Vec::new();
        let mut last = None;
        for mut call in answer.calls {
            reply.status(&Note::Making.told(language)).await?;
            let made = call
                .make(&self.options.files, reply.files().len(), language)
                .await;
            let (text, failed) = match made {
                Ok(made) => {
                    let told = tools::told(&made);
                    reply.file(made, place, &self.info.name).await?;
                    (told, false)
                }
                Err(mishap) => {
                    let told = mishap.model.clone();
                    last = Some(mishap);
                    (told, true)
                }
            };
            let arguments = std::mem::take(&mut call.arguments);
            said.push(Block::Call {
                id: call.id.clone(),
                name: call.name,
                arguments: object(arguments),
            });
            returned.push(Block::Returned {
                id: call.id,
                text,
                failed,
            });
        }
        chat.say(Speaker::Assistant, said);
        chat.say(Speaker::User, returned);
        Ok(last)
    }
}

#[async_trait]
impl Agent for LlmAgent {
    fn info(&self) -> &AgentInfo {
        &self.info
    }

    async fn run(&self, turn: Turn, output: Arc<dyn Output>) -> Result<Outcome, AgentError> {
        let answer = self.answer(&turn, output.as_ref());
        // Whatever is being waited for is dropped with the answer, the connection too.
        tokio::select! {
            biased;
            () = turn.stop.cancelled() => Err(stopped()),
            answer = tokio::time::timeout(self.options.timeout, answer) => {
                answer.unwrap_or_else(|_| {
                    let language = Language::of(&turn.message.text());
                    Ok(failed(Why::Slow.word(), Why::Slow.sentence(language)))
                })
            }
        }
    }
}

/// A call's arguments as the model is shown them again: providers want an object.
fn object(arguments: String) -> Box<RawValue> {
    let raw = RawValue::from_string(arguments).ok();
    let raw = raw.filter(|raw| raw.get().starts_with('{'));
    raw.unwrap_or_else(|| RawValue::from_string("{}".to_owned()).unwrap_or_default())
}

/// A message whose files could none of them be taken is not answered: the answer would be about nothing.
fn nothing_arrived(turn: &Turn, skipped: &[Skipped], language: Language) -> Option<Outcome> {
    let first = skipped.first()?;
    let attached = turn
        .message
        .parts()
        .iter()
        .filter(|part| part.kind() != interzone_protocol::vocab::PartKind::Text);
    (attached.count() == skipped.len()).then(|| {
        let sentence = Note::Skipped(first).told(language);
        failed(first.fault.word, &sentence)
    })
}

const fn nothing_asked(language: Language) -> &'static str {
    match language {
        Language::English => "Please ask something.",
        Language::Japanese => "何か質問を書いてください。",
    }
}

fn failed(word: ErrorWord, sentence: &str) -> Outcome {
    Outcome::Failed(failure(word.name(), sentence))
}

fn rejected(words: Option<String>, language: Language) -> Outcome {
    let words = words.unwrap_or_else(|| Why::Refused.sentence(language).to_owned());
    Outcome::Rejected(Some(Message::agent_text(words)))
}

#[cfg(test)]
mod tests;
