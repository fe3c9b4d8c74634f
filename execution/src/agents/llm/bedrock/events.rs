//! Decodes Bedrock's stream: each event-stream message contains an event or an exception.

use super::super::AnswerLimits;
use super::super::chat::{ModelEvent, StopReason};
use super::super::errors::{DecodeError, ProviderError};
use super::super::provider::StreamDecoder;
use aws_smithy_eventstream::frame::read_message_from;
use aws_smithy_types::event_stream::Message;
use bytes::{Buf, BytesMut};
use serde::Deserialize;
use serde::de::DeserializeOwned;

pub(super) struct BedrockDecoder {
    limit: usize,
    buffer: BytesMut,
    stopped: bool,
    is_over: bool,
}

impl BedrockDecoder {
    pub(super) fn new(quota: AnswerLimits) -> Self {
        Self {
            limit: quota.event_bytes,
            buffer: BytesMut::new(),
            stopped: false,
            is_over: false,
        }
    }

    /// Returns the next message, once it is complete.
    fn next_message(&mut self) -> Result<Option<Message>, DecodeError> {
        // A message starts with its length.
        let Ok(length) = self.buffer.as_ref().try_get_u32() else {
            return Ok(None);
        };
        let length = usize::try_from(length).unwrap_or(usize::MAX);
        if length > self.limit {
            return Err(DecodeError::Malformed("a frame is too large"));
        }
        if self.buffer.len() < length {
            return Ok(None);
        }
        read_message_from(self.buffer.split_to(length))
            .map(Some)
            .map_err(|_| DecodeError::Malformed("a frame is damaged"))
    }
}

impl StreamDecoder for BedrockDecoder {
    fn push(&mut self, bytes: &[u8], events: &mut Vec<ModelEvent>) -> Result<(), DecodeError> {
        self.buffer.extend_from_slice(bytes);
        while let Some(message) = self.next_message()? {
            let header = |name: &str| text_header(&message, name);
            match header(":message-type") {
                Some("event") => match header(":event-type") {
                    Some("messageStop") => {
                        let stop: MessageStop = decode_payload(&message)?;
                        self.stopped = true;
                        events.push(ModelEvent::Stop(stop.to_stop_reason()));
                    }
                    Some("metadata") => {
                        let metadata: BedrockMetadata = decode_payload(&message)?;
                        self.is_over = self.stopped;
                        events.extend(metadata.usage.map(|usage| ModelEvent::Usage {
                            input: usage.input_tokens,
                            output: usage.output_tokens,
                        }));
                    }
                    Some("contentBlockStart") => {
                        events.push(decode_payload::<BedrockBlockStart>(&message)?.into_event());
                    }
                    Some("contentBlockDelta") => {
                        events.push(decode_payload::<BedrockBlockDelta>(&message)?.into_event());
                    }
                    // Message starts, block ends and event types added later.
                    Some(_) => {}
                    None => return Err(DecodeError::Malformed("a frame has no type")),
                },
                Some("exception" | "error") => {
                    let code = header(":exception-type").or(header(":error-code"));
                    let error = ProviderError::parse(message.payload());
                    let provider_error = ProviderError {
                        code: code.unwrap_or_default().to_owned(),
                        message: header(":error-message").map_or(error.message, str::to_owned),
                    };
                    return Err(DecodeError::Provider(provider_error));
                }
                _ => return Err(DecodeError::Malformed("a frame has no type")),
            }
        }
        Ok(())
    }

    fn is_complete(&self) -> bool {
        self.stopped
    }

    fn is_over(&self) -> bool {
        self.is_over
    }
}

fn text_header<'a>(message: &'a Message, name: &str) -> Option<&'a str> {
    let mut headers = message.headers().iter();
    let header = headers.find(|header| header.name().as_str() == name)?;
    Some(header.value().as_string().ok()?.as_str())
}

fn decode_payload<T: DeserializeOwned>(message: &Message) -> Result<T, DecodeError> {
    serde_json::from_slice(message.payload())
        .map_err(|_| DecodeError::Malformed("an event is malformed"))
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct MessageStop {
    stop_reason: String,
}

impl MessageStop {
    fn to_stop_reason(&self) -> StopReason {
        match self.stop_reason.as_str() {
            "end_turn" | "stop_sequence" => StopReason::End,
            "tool_use" => StopReason::Tools,
            "max_tokens" | "model_context_window_exceeded" => StopReason::Length,
            "content_filtered" | "guardrail_intervened" | "refusal" => StopReason::Filtered,
            _ => StopReason::Other,
        }
    }
}

#[derive(Deserialize)]
struct BedrockMetadata {
    usage: Option<BedrockUsage>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BedrockUsage {
    input_tokens: Option<u64>,
    output_tokens: Option<u64>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BedrockBlockStart {
    content_block_index: u64,
    #[serde(default)]
    start: Option<BlockStartContent>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BlockStartContent {
    tool_use: Option<ToolUseStart>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ToolUseStart {
    tool_use_id: String,
    name: String,
}

impl BedrockBlockStart {
    fn into_event(self) -> ModelEvent {
        match self.start.and_then(|start| start.tool_use) {
            Some(tool) => ModelEvent::ToolCall {
                index: self.content_block_index,
                id: Some(tool.tool_use_id),
                name: tool.name,
            },
            None => ModelEvent::Progress,
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BedrockBlockDelta {
    content_block_index: u64,
    delta: BedrockDelta,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct BedrockDelta {
    text: Option<String>,
    tool_use: Option<ToolUseDelta>,
}

#[derive(Deserialize)]
struct ToolUseDelta {
    #[serde(default)]
    input: String,
}

impl BedrockBlockDelta {
    fn into_event(self) -> ModelEvent {
        match (self.delta.text, self.delta.tool_use) {
            (Some(text), _) => ModelEvent::Text(text),
            (None, Some(tool)) => ModelEvent::Arguments {
                index: self.content_block_index,
                piece: tool.input,
            },
            (None, None) => ModelEvent::Progress,
        }
    }
}
