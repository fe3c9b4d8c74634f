//! Chat completion stream: one chunk per event, until `[DONE]`.

use super::super::AnswerLimits;
use super::super::chat::{ModelEvent, StopReason};
use super::super::errors::{DecodeError, ErrorDetails};
use super::super::provider::StreamDecoder;
use interzone_client::sse::SseParser;
use serde::Deserialize;
use std::collections::VecDeque;

pub(super) struct OpenAiDecoder {
    sse: SseParser,
    state: OpenAiStreamState,
}

#[derive(Default)]
struct OpenAiStreamState {
    stopped: bool,
    done: bool,
    /// Index of the last started tool call, for servers that do not number them.
    last_index: Option<u64>,
}

impl OpenAiDecoder {
    pub(super) fn new(quota: AnswerLimits) -> Self {
        Self {
            sse: SseParser::new(quota.event_bytes),
            state: OpenAiStreamState::default(),
        }
    }
}

impl StreamDecoder for OpenAiDecoder {
    fn push(&mut self, bytes: &[u8], events: &mut Vec<ModelEvent>) -> Result<(), DecodeError> {
        let mut complete = VecDeque::new();
        let pushed = self.sse.push(bytes, &mut complete);
        for event in complete {
            self.state.decode_chunk(&event.data, events)?;
        }
        Ok(pushed?)
    }

    fn is_complete(&self) -> bool {
        self.state.stopped || self.state.done
    }

    fn is_over(&self) -> bool {
        self.state.done
    }
}

#[derive(Deserialize)]
struct Chunk {
    #[serde(default)]
    choices: Option<Vec<Choice>>,
    #[serde(default)]
    usage: Option<OpenAiUsage>,
    #[serde(default)]
    error: Option<ErrorDetails>,
}

#[derive(Deserialize)]
struct Choice {
    #[serde(default)]
    delta: Option<OpenAiDelta>,
    #[serde(default)]
    finish_reason: Option<String>,
}

#[derive(Deserialize)]
struct OpenAiDelta {
    #[serde(default)]
    content: Option<String>,
    #[serde(default)]
    refusal: Option<String>,
    #[serde(default)]
    tool_calls: Option<Vec<ToolCallDelta>>,
}

#[derive(Deserialize)]
struct ToolCallDelta {
    #[serde(default)]
    index: Option<u64>,
    #[serde(default)]
    id: Option<String>,
    #[serde(default)]
    function: Option<FunctionDelta>,
}

#[derive(Deserialize)]
struct FunctionDelta {
    #[serde(default)]
    name: Option<String>,
    #[serde(default)]
    arguments: Option<String>,
}

#[derive(Deserialize)]
struct OpenAiUsage {
    #[serde(default)]
    prompt_tokens: Option<u64>,
    #[serde(default)]
    completion_tokens: Option<u64>,
}

impl OpenAiStreamState {
    fn decode_chunk(
        &mut self,
        data: &[u8],
        events: &mut Vec<ModelEvent>,
    ) -> Result<(), DecodeError> {
        if self.done {
            return Ok(());
        }
        if data.trim_ascii() == b"[DONE]" {
            self.done = true;
            return Ok(());
        }
        let chunk: Chunk = serde_json::from_slice(data)
            .map_err(|_| DecodeError::Malformed("an event is malformed"))?;
        if let Some(error) = chunk.error {
            return Err(DecodeError::Provider(error.into_provider_error()));
        }
        for choice in chunk.choices.into_iter().flatten().take(1) {
            if let Some(delta) = choice.delta {
                self.apply_delta(delta, events);
            }
            if let Some(reason) = choice.finish_reason.filter(|reason| !reason.is_empty()) {
                self.stopped = true;
                events.push(ModelEvent::Stop(match reason.as_str() {
                    "stop" => StopReason::End,
                    "tool_calls" | "function_call" => StopReason::Tools,
                    "length" => StopReason::Length,
                    "content_filter" => StopReason::Filtered,
                    _ => StopReason::Other,
                }));
            }
        }
        if let Some(usage) = chunk.usage {
            events.push(ModelEvent::Usage {
                input: usage.prompt_tokens,
                output: usage.completion_tokens,
            });
        }
        Ok(())
    }

    fn apply_delta(&mut self, delta: OpenAiDelta, events: &mut Vec<ModelEvent>) {
        let count_before = events.len();
        if let Some(text) = delta.content.filter(|text| !text.is_empty()) {
            events.push(ModelEvent::Text(text));
        }
        if let Some(text) = delta.refusal.filter(|text| !text.is_empty()) {
            events.push(ModelEvent::Refusal(text));
        }
        for call in delta.tool_calls.into_iter().flatten() {
            let function = call.function.unwrap_or(FunctionDelta {
                name: None,
                arguments: None,
            });
            let new_name = function.name.filter(|name| !name.is_empty());
            let index = match (call.index, self.last_index) {
                (Some(index), _) => index,
                (None, None) => 0,
                (None, Some(last)) if new_name.is_some() => last.saturating_add(1),
                (None, Some(last)) => last,
            };
            if let Some(name) = new_name
                && self.last_index != Some(index)
            {
                let id = call.id;
                events.push(ModelEvent::ToolCall { index, id, name });
            }
            self.last_index = Some(index);
            if let Some(piece) = function.arguments.filter(|piece| !piece.is_empty()) {
                events.push(ModelEvent::Arguments { index, piece });
            }
        }
        if events.len() == count_before {
            events.push(ModelEvent::Progress);
        }
    }
}
