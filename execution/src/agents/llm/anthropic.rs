//! Anthropic Messages API: text, image, document and tool blocks, streamed as server-sent events.

use super::chat::{Chat, ChatRole, ContentBlock, ModelEvent, StopReason};
use super::errors::{DecodeError, ErrorDetails, LlmErrorKind, LlmFailure};
use super::options::endpoint_url;
use super::provider::{FileSupport, ModelProvider, StreamDecoder, secret_header};
use super::{AnswerLimits, LlmError, LlmOptions};
use crate::files::FileKind;
use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderValue, header};
use interzone_client::sse::SseParser;
use interzone_edge::Secret;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::VecDeque;
use url::Url;

/// API version.
const API_VERSION: &str = "2023-06-01";

/// Maximum sizes of an image and a PDF, in bytes. Requests are limited to 32 MB, base64 included.
const MAX_IMAGE_BYTES: usize = 5 * 1024 * 1024 / 4 * 3;
const MAX_PDF_BYTES: usize = 20 * 1024 * 1024;

pub(super) struct AnthropicProvider {
    url: Url,
    key: Option<Secret>,
    header: Option<HeaderValue>,
    model: String,
    max_tokens: u32,
    temperature: Option<f32>,
}

impl AnthropicProvider {
    pub(super) fn new(
        options: &LlmOptions,
        base_url: &Url,
        key: Option<&Secret>,
    ) -> Result<Self, LlmError> {
        let key = key.filter(|key| !key.is_empty()).cloned();
        let header = key.as_ref().map(|key| secret_header("", key));
        // Base URLs with and without `/v1` are common.
        let versioned = base_url.path().trim_end_matches('/').ends_with("/v1");
        let path: &[&str] = if versioned {
            &["messages"]
        } else {
            &["v1", "messages"]
        };
        Ok(Self {
            url: endpoint_url(base_url, path)?,
            header: header.transpose()?,
            key,
            model: options.model.clone(),
            max_tokens: options.max_tokens,
            temperature: options.temperature,
        })
    }
}

#[async_trait]
impl ModelProvider for AnthropicProvider {
    fn name(&self) -> &'static str {
        "anthropic"
    }

    fn key(&self) -> Option<&Secret> {
        self.key.as_ref()
    }

    fn stream_type(&self) -> &'static str {
        "text/event-stream"
    }

    fn file_support(&self, kind: FileKind, bytes: usize) -> FileSupport {
        match kind {
            _ if kind.is_image() && bytes > MAX_IMAGE_BYTES => FileSupport::TooLarge,
            _ if kind.is_image() => FileSupport::Native,
            FileKind::Pdf if bytes <= MAX_PDF_BYTES => FileSupport::Native,
            _ => FileSupport::AsText,
        }
    }

    fn body(&self, chat: &Chat<'_>) -> Result<Bytes, serde_json::Error> {
        let messages = chat.messages.iter().map(|message| AnthropicMessage {
            role: match message.role {
                ChatRole::User => "user",
                ChatRole::Assistant => "assistant",
            },
            content: message
                .blocks
                .iter()
                .map(AnthropicBlock::from_block)
                .collect(),
        });
        let tools = chat.tools.iter().map(|tool| AnthropicTool {
            name: tool.name,
            description: &tool.description,
            input_schema: &tool.schema,
        });
        let body = AnthropicRequest {
            model: &self.model,
            max_tokens: self.max_tokens,
            stream: true,
            system: chat.system.as_deref(),
            temperature: self.temperature,
            messages: messages.collect(),
            tools: tools.collect(),
        };
        serde_json::to_vec(&body).map(Bytes::from)
    }

    async fn request(&self, body: Bytes) -> Result<http::Request<Bytes>, LlmFailure> {
        let mut request = http::Request::post(self.url.as_str())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, self.stream_type())
            .header("anthropic-version", API_VERSION);
        if let Some(key) = &self.header {
            request = request.header("x-api-key", key);
        }
        request
            .body(body)
            .map_err(|_| LlmErrorKind::BadResponse("the request cannot be encoded").into())
    }

    fn decoder(&self, quota: AnswerLimits) -> Box<dyn StreamDecoder> {
        Box::new(AnthropicDecoder {
            sse: SseParser::new(quota.event_bytes),
            stopped: false,
        })
    }
}

#[derive(Serialize)]
struct AnthropicRequest<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    messages: Vec<AnthropicMessage<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<AnthropicTool<'a>>,
}

#[derive(Serialize)]
struct AnthropicMessage<'a> {
    role: &'static str,
    content: Vec<AnthropicBlock<'a>>,
}

#[derive(Serialize)]
struct AnthropicTool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum AnthropicBlock<'a> {
    Text {
        text: &'a str,
    },
    Image {
        source: AnthropicSource<'a>,
    },
    Document {
        title: &'a str,
        source: AnthropicSource<'a>,
    },
    ToolUse {
        id: &'a str,
        name: &'a str,
        input: &'a RawValue,
    },
    ToolResult {
        tool_use_id: &'a str,
        content: &'a str,
        is_error: bool,
    },
}

#[derive(Serialize)]
struct AnthropicSource<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    media_type: &'static str,
    data: &'a str,
}

impl<'a> AnthropicBlock<'a> {
    fn from_block(block: &'a ContentBlock<'_>) -> Self {
        let source = |kind: FileKind, data: &'a str| AnthropicSource {
            kind: "base64",
            media_type: kind.media_type(),
            data,
        };
        match block {
            ContentBlock::Text(text) => Self::Text { text },
            ContentBlock::Image { kind, base64 } => Self::Image {
                source: source(*kind, base64),
            },
            ContentBlock::Document { name, kind, base64 } => Self::Document {
                title: name,
                source: source(*kind, base64),
            },
            ContentBlock::ToolCall {
                id,
                name,
                arguments,
            } => Self::ToolUse {
                id,
                name,
                input: arguments,
            },
            ContentBlock::ToolResult { id, text, failed } => Self::ToolResult {
                tool_use_id: id,
                content: text,
                is_error: *failed,
            },
        }
    }
}

struct AnthropicDecoder {
    sse: SseParser,
    stopped: bool,
}

impl StreamDecoder for AnthropicDecoder {
    fn push(&mut self, bytes: &[u8], events: &mut Vec<ModelEvent>) -> Result<(), DecodeError> {
        let mut complete = VecDeque::new();
        let pushed = self.sse.push(bytes, &mut complete);
        for event in complete {
            decode_event(&event.data, &mut self.stopped, events)?;
        }
        Ok(pushed?)
    }

    fn is_complete(&self) -> bool {
        self.stopped
    }

    fn is_over(&self) -> bool {
        self.stopped
    }
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum AnthropicEvent {
    MessageStart {
        message: AnthropicMessageStart,
    },
    ContentBlockStart {
        index: u64,
        content_block: AnthropicBlockStart,
    },
    ContentBlockDelta {
        index: u64,
        delta: AnthropicDelta,
    },
    MessageDelta {
        delta: AnthropicMessageDelta,
        #[serde(default)]
        usage: Option<AnthropicUsage>,
    },
    MessageStop,
    Error {
        error: ErrorDetails,
    },
    /// Pings, block ends and event types added later.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct AnthropicMessageStart {
    #[serde(default)]
    usage: Option<AnthropicUsage>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum AnthropicBlockStart {
    Text {
        #[serde(default)]
        text: String,
    },
    ToolUse {
        id: String,
        name: String,
    },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
#[serde(tag = "type")]
enum AnthropicDelta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: String },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct AnthropicMessageDelta {
    #[serde(default)]
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
struct AnthropicUsage {
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    cache_creation_input_tokens: Option<u64>,
    #[serde(default)]
    cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens: Option<u64>,
}

impl AnthropicUsage {
    /// Converts to an event. Cached tokens count as input too.
    fn to_event(&self) -> ModelEvent {
        let cached = [
            self.cache_creation_input_tokens,
            self.cache_read_input_tokens,
        ];
        let cached: u64 = cached.into_iter().flatten().sum();
        ModelEvent::Usage {
            input: self.input_tokens.map(|input| input.saturating_add(cached)),
            output: self.output_tokens,
        }
    }
}

fn decode_event(
    data: &[u8],
    stopped: &mut bool,
    events: &mut Vec<ModelEvent>,
) -> Result<(), DecodeError> {
    let event: AnthropicEvent = serde_json::from_slice(data)
        .map_err(|_| DecodeError::Malformed("an event is malformed"))?;
    match event {
        AnthropicEvent::MessageStart { message } => {
            events.extend(message.usage.as_ref().map(AnthropicUsage::to_event));
        }
        AnthropicEvent::ContentBlockStart {
            index,
            content_block,
        } => events.push(match content_block {
            AnthropicBlockStart::Text { text } if !text.is_empty() => ModelEvent::Text(text),
            AnthropicBlockStart::ToolUse { id, name } => ModelEvent::ToolCall {
                index,
                id: Some(id),
                name,
            },
            AnthropicBlockStart::Text { .. } | AnthropicBlockStart::Other => ModelEvent::Progress,
        }),
        AnthropicEvent::ContentBlockDelta { index, delta } => events.push(match delta {
            AnthropicDelta::Text { text } => ModelEvent::Text(text),
            AnthropicDelta::InputJson { partial_json } => ModelEvent::Arguments {
                index,
                piece: partial_json,
            },
            AnthropicDelta::Other => ModelEvent::Progress,
        }),
        AnthropicEvent::MessageDelta { delta, usage } => {
            events.extend(usage.as_ref().map(AnthropicUsage::to_event));
            if let Some(reason) = delta.stop_reason {
                events.push(ModelEvent::Stop(match reason.as_str() {
                    "end_turn" | "stop_sequence" => StopReason::End,
                    "tool_use" => StopReason::Tools,
                    "max_tokens" | "model_context_window_exceeded" => StopReason::Length,
                    "refusal" => StopReason::Filtered,
                    _ => StopReason::Other,
                }));
            }
        }
        AnthropicEvent::MessageStop => *stopped = true,
        AnthropicEvent::Error { error } => {
            return Err(DecodeError::Provider(error.into_provider_error()));
        }
        AnthropicEvent::Other => {}
    }
    Ok(())
}
