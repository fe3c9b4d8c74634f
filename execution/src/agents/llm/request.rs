//! One request to the model: sent, retried if that may help, and decoded while it streams.
//!
//! Nothing is retried after text of the answer was forwarded, because the caller would receive it twice.

use super::answer::{AnswerSink, TokenUsage};
use super::attachments::{self, FileReadContext, PromptDelimiter};
use super::chat::{Chat, ModelEvent, StopReason};
use super::errors::{
    DecodeError, LlmErrorKind, LlmFailure, ProviderError, classify, classify_in_stream,
};
use super::provider::ModelProvider;
use super::retry::{self, RETRY_BACKOFF};
use super::tools::ToolCall;
use super::{AnswerLimits, LlmOptions};
use bytes::{Bytes, BytesMut};
use http::{HeaderMap, header};
use interzone_edge::limited_body;
use interzone_hub::{Clock, SystemClock};
use std::collections::BTreeMap;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Maximum size of an error body, in bytes.
const MAX_ERROR_BODY_BYTES: usize = 64 * 1024;

/// Maximum number of tool calls in an answer.
const MAX_TOOL_CALLS: usize = 16;

/// Maximum delay that a provider may request; beyond it the user should ask again.
const MAX_RETRY_AFTER: Duration = Duration::from_secs(60);

/// Answer of the model to one request.
#[derive(Debug, Default)]
pub(super) struct ModelAnswer {
    pub(super) text: String,
    pub(super) refusal: String,
    pub(super) calls: Vec<ToolCall>,
    pub(super) stop: Option<StopReason>,
}

/// Sends the requests of one turn to the model.
pub(super) struct LlmRequest<'a> {
    pub(super) provider: &'a dyn ModelProvider,
    pub(super) client: &'a reqwest::Client,
    pub(super) options: &'a LlmOptions,
    pub(super) context: FileReadContext<'a>,
    pub(super) delimiter: &'a PromptDelimiter,
    /// Deadline of the turn.
    pub(super) deadline: Instant,
}

impl LlmRequest<'_> {
    /// Sends the chat and passes the answer on. The chat is changed only if the provider does not read its documents:
    /// they are then replaced by their text.
    pub(super) async fn send(
        &self,
        chat: &mut Chat<'_>,
        sink: &mut AnswerSink<'_>,
    ) -> Result<ModelAnswer, LlmFailure> {
        let length_before = sink.length();
        let mut body = self.body(chat)?;
        let mut retries = 0;
        loop {
            let failure = match self.send_once(body.clone(), sink).await {
                Ok(answer) => return Ok(answer),
                Err(failure) if sink.length() > length_before => return Err(failure),
                Err(failure) => failure,
            };
            match failure {
                LlmFailure::Model {
                    kind: LlmErrorKind::Adapted,
                    ..
                } => body = self.body(chat)?,
                LlmFailure::Model {
                    kind: LlmErrorKind::RequestRejected,
                    ..
                } if chat.has_documents() => {
                    attachments::replace_documents_by_text(chat, self.context, self.delimiter)
                        .await;
                    body = self.body(chat)?;
                }
                LlmFailure::Model {
                    is_retryable: true,
                    retry_after: hint,
                    ..
                } if retries < self.options.retries => {
                    let delay = hint.unwrap_or_else(|| RETRY_BACKOFF.equal_jitter(retries));
                    if delay > MAX_RETRY_AFTER || Instant::now() + delay >= self.deadline {
                        return Err(failure);
                    }
                    tokio::time::sleep(delay).await;
                    retries += 1;
                }
                other => return Err(other),
            }
        }
    }

    fn body(&self, chat: &Chat<'_>) -> Result<Bytes, LlmFailure> {
        let body = self.provider.body(chat);
        body.map_err(|_| LlmErrorKind::BadResponse("the request cannot be encoded").into())
    }

    async fn send_once(
        &self,
        body: Bytes,
        sink: &mut AnswerSink<'_>,
    ) -> Result<ModelAnswer, LlmFailure> {
        let first_token_deadline = Instant::now() + self.options.first_token_timeout;
        let request = self.provider.request(body).await?;
        let request = reqwest::Request::try_from(request.map(reqwest::Body::from))
            .map_err(|_| LlmErrorKind::BadResponse("the request cannot be sent"))?;
        let sent = timeout_at(first_token_deadline, self.client.execute(request)).await;
        let response = sent
            .map_err(|_| LlmErrorKind::TimedOut)?
            .map_err(|error| self.unreachable(&error.without_url()))?;
        if response.status() != http::StatusCode::OK {
            return Err(self.error_response(response, first_token_deadline).await);
        }
        if !has_content_type(response.headers(), self.provider.stream_type()) {
            self.warn("the response is not a stream");
            return Err(LlmErrorKind::BadResponse("the response is not a stream").into());
        }
        self.read_stream(response, first_token_deadline, sink).await
    }

    async fn read_stream(
        &self,
        mut response: reqwest::Response,
        first_token_deadline: Instant,
        sink: &mut AnswerSink<'_>,
    ) -> Result<ModelAnswer, LlmFailure> {
        let quota = AnswerLimits::from_options(self.options);
        let mut reader = self.provider.decoder(quota);
        let mut partial = PartialAnswer::new(quota);
        let mut events = Vec::new();
        while !reader.is_over() {
            let deadline = if partial.has_started {
                Instant::now() + self.options.idle_timeout
            } else {
                first_token_deadline
            };
            let bytes = match timeout_at(deadline, response.chunk()).await {
                Ok(Ok(Some(bytes))) => bytes,
                // A complete answer stays complete, however its stream ends.
                _ if reader.is_complete() => break,
                Ok(Ok(None)) => return Err(self.truncated_stream(partial.has_started)),
                Ok(Err(error)) => {
                    tracing::warn!(
                        agent = %self.options.id,
                        error = %error.without_url(),
                        "model stream was interrupted"
                    );
                    return Err(LlmFailure::retryable(LlmErrorKind::BadResponse(
                        "the stream was interrupted",
                    )));
                }
                Err(_) => return Err(LlmErrorKind::TimedOut.into()),
            };
            let result = reader.push(&bytes, &mut events);
            // Events decoded before an error still count.
            for event in events.drain(..) {
                partial.apply(event, sink).await?;
            }
            result.map_err(|misread| self.decode_failure(misread))?;
        }
        let (answer, usage) = partial.finish();
        sink.add_usage(usage);
        Ok(answer)
    }

    /// Logs a decode error and converts it to a failure.
    fn decode_failure(&self, error: DecodeError) -> LlmFailure {
        match error {
            DecodeError::Provider(error) => {
                tracing::warn!(
                    agent = %self.options.id,
                    provider_error = error.to_log(self.provider.key()),
                    "model stream ended with an error"
                );
                classify_in_stream(&error)
            }
            DecodeError::Malformed(reason) => {
                self.warn(reason);
                LlmErrorKind::BadResponse(reason).into()
            }
        }
    }

    fn truncated_stream(&self, has_started: bool) -> LlmFailure {
        self.warn("the stream ended before the answer");
        let kind = LlmErrorKind::BadResponse("the stream ended before the answer");
        if has_started {
            kind.into()
        } else {
            LlmFailure::retryable(kind)
        }
    }

    fn unreachable(&self, error: &reqwest::Error) -> LlmFailure {
        tracing::warn!(agent = %self.options.id, %error, "model request failed");
        if error.is_timeout() {
            LlmErrorKind::TimedOut.into()
        } else if error.is_connect() {
            LlmFailure::retryable(LlmErrorKind::Unreachable)
        } else {
            LlmFailure::retryable(LlmErrorKind::BadResponse("the connection was interrupted"))
        }
    }

    /// Reads an error response and classifies it.
    async fn error_response(
        &self,
        mut response: reqwest::Response,
        deadline: Instant,
    ) -> LlmFailure {
        let status = response.status();
        let mut body = BytesMut::new();
        let read = limited_body::read_prefix(&mut response, MAX_ERROR_BODY_BYTES, &mut body);
        // A part of the error is better than none.
        let _ = timeout_at(deadline, read).await;
        let mut error = ProviderError::parse(&body);
        // AWS names the error in a header, with details after a colon.
        let header = response.headers().get("x-amzn-errortype");
        if let Some(code) = header.and_then(|word| word.to_str().ok()) {
            error.code = code.split(':').next().unwrap_or_default().to_owned();
        }
        tracing::warn!(
            agent = %self.options.id,
            status = status.as_u16(),
            provider_error = error.to_log(self.provider.key()),
            "model request was rejected"
        );
        if self.provider.adapt(status, &error) {
            return LlmErrorKind::Adapted.into();
        }
        match classify(status, &error) {
            LlmFailure::Model {
                kind: why,
                is_retryable: true,
                ..
            } => LlmFailure::Model {
                kind: why,
                is_retryable: true,
                retry_after: retry::retry_after(response.headers(), SystemClock.now()),
            },
            other => other,
        }
    }

    fn warn(&self, reason: &str) {
        tracing::warn!(agent = %self.options.id, reason, "model response cannot be used");
    }
}

fn has_content_type(headers: &HeaderMap, expected: &str) -> bool {
    let found = headers.get(header::CONTENT_TYPE);
    let found = found
        .and_then(|found| found.to_str().ok())
        .unwrap_or_default();
    let plain = found.split(';').next().unwrap_or_default().trim();
    plain.eq_ignore_ascii_case(expected)
}

/// An answer that is being received.
struct PartialAnswer {
    quota: AnswerLimits,
    /// The model has sent text or shown progress.
    has_started: bool,
    text: String,
    refusal: String,
    calls: BTreeMap<u64, ToolCall>,
    argument_bytes: usize,
    usage: TokenUsage,
}

impl PartialAnswer {
    fn new(quota: AnswerLimits) -> Self {
        Self {
            quota,
            has_started: false,
            text: String::new(),
            refusal: String::new(),
            calls: BTreeMap::new(),
            argument_bytes: 0,
            usage: TokenUsage::default(),
        }
    }

    async fn apply(
        &mut self,
        event: ModelEvent,
        sink: &mut AnswerSink<'_>,
    ) -> Result<(), LlmFailure> {
        self.has_started |= !matches!(event, ModelEvent::Usage { .. });
        match event {
            ModelEvent::Progress => {}
            ModelEvent::Text(delta) => {
                sink.text(&delta).await?;
                self.text.push_str(&delta);
            }
            ModelEvent::Refusal(text) => {
                if self.refusal.len().saturating_add(text.len()) > self.quota.text_bytes {
                    return Err(LlmErrorKind::AnswerTooLong.into());
                }
                self.refusal.push_str(&text);
            }
            ModelEvent::ToolCall { index, id, name } => {
                if self.calls.len() >= MAX_TOOL_CALLS {
                    return Err(LlmErrorKind::AnswerTooLong.into());
                }
                let id = id.filter(|id| !id.is_empty());
                let call = ToolCall {
                    id: id.unwrap_or_else(|| format!("call_{index}")),
                    name,
                    arguments: String::new(),
                };
                self.calls.insert(index, call);
            }
            ModelEvent::Arguments { index, piece } => {
                self.argument_bytes = self.argument_bytes.saturating_add(piece.len());
                if self.argument_bytes > self.quota.argument_bytes {
                    return Err(LlmErrorKind::AnswerTooLong.into());
                }
                let call = self.calls.get_mut(&index);
                let call =
                    call.ok_or(LlmErrorKind::BadResponse("arguments without a tool call"))?;
                call.arguments.push_str(&piece);
            }
            ModelEvent::Stop(stop) => self.usage.stop = Some(stop),
            ModelEvent::Usage { input, output } => {
                self.usage.input = input.unwrap_or(self.usage.input);
                self.usage.output = output.unwrap_or(self.usage.output);
            }
        }
        Ok(())
    }

    fn finish(self) -> (ModelAnswer, TokenUsage) {
        let answer = ModelAnswer {
            text: self.text,
            refusal: self.refusal,
            calls: self.calls.into_values().collect(),
            stop: self.usage.stop,
        };
        (answer, self.usage)
    }
}
