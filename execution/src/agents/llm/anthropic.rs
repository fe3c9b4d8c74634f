//! Anthropic's messages: blocks of text, pictures, documents and tools, streamed as named events.

use super::chat::{Block, Chat, Heard, Speaker, Stop};
use super::errors::{Details, Failure, Misread, Why};
use super::options::address;
use super::sse::Sse;
use super::wire::{Reader, Takes, Wire, secret_header};
use super::{LlmError, LlmOptions, Quota};
use crate::files::Kind;
use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderValue, header};
use interzone_edge::Secret;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::RawValue;
use url::Url;

/// The version of the API that is spoken here.
const VERSION: &str = "2023-06-01";

/// The largest picture and the largest PDF that are taken, in bytes. Requests have a limit of 32 MB,
/// base64 included.
const IMAGE: usize = 5 * 1024 * 1024 / 4 * 3;
const PDF: usize = 20 * 1024 * 1024;

pub(super) struct Anthropic {
    url: Url,
    key: Option<Secret>,
    header: Option<HeaderValue>,
    model: String,
    max_tokens: u32,
    temperature: Option<f32>,
}

impl Anthropic {
    pub(super) fn new(
        options: &LlmOptions,
        base_url: &Url,
        key: Option<&Secret>,
    ) -> Result<Self, LlmError> {
        let key = key.filter(|key| !key.is_empty()).cloned();
        let header = key.as_ref().map(|key| secret_header("", key));
        // Both ways to write the address are common.
        let versioned = base_url.path().trim_end_matches('/').ends_with("/v1");
        let path: &[&str] = if versioned {
            &["messages"]
        } else {
            &["v1", "messages"]
        };
        Ok(Self {
            url: address(base_url, path)?,
            header: header.transpose()?,
            key,
            model: options.model.clone(),
            max_tokens: options.max_tokens,
            temperature: options.temperature,
        })
    }
}

#[async_trait]
impl Wire for Anthropic {
    fn name(&self) -> &'static str {
        "anthropic"
    }

    fn key(&self) -> Option<&Secret> {
        self.key.as_ref()
    }

    fn stream_type(&self) -> &'static str {
        "text/event-stream"
    }

    fn takes(&self, kind: Kind, bytes: usize) -> Takes {
        match kind {
            _ if kind.is_image() && bytes > IMAGE => Takes::TooLarge,
            _ if kind.is_image() => Takes::AsIs,
            Kind::Pdf if bytes <= PDF => Takes::AsIs,
            _ => Takes::AsText,
        }
    }

    fn body(&self, chat: &Chat<'_>) -> Result<Bytes, serde_json::Error> {
        let messages = chat.said.iter().map(|said| Message {
            role: match said.speaker {
                Speaker::User => "user",
                Speaker::Assistant => "assistant",
            },
            content: said.blocks.iter().map(Written::of).collect(),
        });
        let tools = chat.tools.iter().map(|tool| OfferedTool {
            name: tool.name,
            description: &tool.description,
            input_schema: &tool.schema,
        });
        let body = Request {
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

    async fn request(&self, body: Bytes) -> Result<http::Request<Bytes>, Failure> {
        let mut request = http::Request::post(self.url.as_str())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, self.stream_type())
            .header("anthropic-version", VERSION);
        if let Some(key) = &self.header {
            request = request.header("x-api-key", key);
        }
        request
            .body(body)
            .map_err(|_| Why::Broken("the request cannot be written").into())
    }

    fn reader(&self, quota: Quota) -> Box<dyn Reader> {
        Box::new(Events {
            sse: Sse::new(quota.event_bytes),
            stopped: false,
        })
    }
}

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    max_tokens: u32,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    system: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<OfferedTool<'a>>,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Vec<Written<'a>>,
}

#[derive(Serialize)]
struct OfferedTool<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: &'a Value,
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Written<'a> {
    Text {
        text: &'a str,
    },
    Image {
        source: Source<'a>,
    },
    Document {
        title: &'a str,
        source: Source<'a>,
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
struct Source<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    media_type: &'static str,
    data: &'a str,
}

impl<'a> Written<'a> {
    fn of(block: &'a Block<'_>) -> Self {
        let source = |kind: Kind, data: &'a str| Source {
            kind: "base64",
            media_type: kind.media_type(),
            data,
        };
        match block {
            Block::Text(text) => Self::Text { text },
            Block::Image { kind, base64 } => Self::Image {
                source: source(*kind, base64),
            },
            Block::Document { name, kind, base64 } => Self::Document {
                title: name,
                source: source(*kind, base64),
            },
            Block::Call {
                id,
                name,
                arguments,
            } => Self::ToolUse {
                id,
                name,
                input: arguments,
            },
            Block::Returned { id, text, failed } => Self::ToolResult {
                tool_use_id: id,
                content: text,
                is_error: *failed,
            },
        }
    }
}

struct Events {
    sse: Sse,
    stopped: bool,
}

impl Reader for Events {
    fn push(&mut self, bytes: &[u8], heard: &mut Vec<Heard>) -> Result<(), Misread> {
        let stopped = &mut self.stopped;
        self.sse.push(bytes, |_, data| read(data, stopped, heard))
    }

    fn is_whole(&self) -> bool {
        self.stopped
    }

    fn is_over(&self) -> bool {
        self.stopped
    }
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Event {
    MessageStart {
        message: Started,
    },
    ContentBlockStart {
        index: u64,
        content_block: Begun,
    },
    ContentBlockDelta {
        index: u64,
        delta: Delta,
    },
    MessageDelta {
        delta: Ending,
        #[serde(default)]
        usage: Option<Usage>,
    },
    MessageStop,
    Error {
        error: Details,
    },
    /// Pings, ends of blocks, and what is yet to be invented.
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Started {
    #[serde(default)]
    usage: Option<Usage>,
}

#[derive(Deserialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Begun {
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
enum Delta {
    #[serde(rename = "text_delta")]
    Text { text: String },
    #[serde(rename = "input_json_delta")]
    InputJson { partial_json: String },
    #[serde(other)]
    Other,
}

#[derive(Deserialize)]
struct Ending {
    #[serde(default)]
    stop_reason: Option<String>,
}

#[derive(Deserialize)]
struct Usage {
    #[serde(default)]
    input_tokens: Option<u64>,
    #[serde(default)]
    cache_creation_input_tokens: Option<u64>,
    #[serde(default)]
    cache_read_input_tokens: Option<u64>,
    #[serde(default)]
    output_tokens: Option<u64>,
}

impl Usage {
    /// What came from a cache was read too.
    fn heard(&self) -> Heard {
        let cached = [
            self.cache_creation_input_tokens,
            self.cache_read_input_tokens,
        ];
        let cached: u64 = cached.into_iter().flatten().sum();
        Heard::Usage {
            input: self.input_tokens.map(|input| input.saturating_add(cached)),
            output: self.output_tokens,
        }
    }
}

fn read(data: &[u8], stopped: &mut bool, heard: &mut Vec<Heard>) -> Result<(), Misread> {
    let event: Event = serde_json::from_slice(data)
        .map_err(|_| Misread::Broken("an event is not what it should be"))?;
    match event {
        Event::MessageStart { message } => {
            heard.extend(message.usage.as_ref().map(Usage::heard));
        }
        Event::ContentBlockStart {
            index,
            content_block,
        } => heard.push(match content_block {
            Begun::Text { text } if !text.is_empty() => Heard::Text(text),
            Begun::ToolUse { id, name } => Heard::Call {
                index,
                id: Some(id),
                name,
            },
            Begun::Text { .. } | Begun::Other => Heard::Alive,
        }),
        Event::ContentBlockDelta { index, delta } => heard.push(match delta {
            Delta::Text { text } => Heard::Text(text),
            Delta::InputJson { partial_json } => Heard::Arguments {
                index,
                piece: partial_json,
            },
            Delta::Other => Heard::Alive,
        }),
        Event::MessageDelta { delta, usage } => {
            heard.extend(usage.as_ref().map(Usage::heard));
            if let Some(reason) = delta.stop_reason {
                heard.push(Heard::Stop(match reason.as_str() {
                    "end_turn" | "stop_sequence" => Stop::End,
                    "tool_use" => Stop::Tools,
                    "max_tokens" | "model_context_window_exceeded" => Stop::Length,
                    "refusal" => Stop::Filtered,
                    _ => Stop::Other,
                }));
            }
        }
        Event::MessageStop => *stopped = true,
        Event::Error { error } => {
            return Err(Misread::Said(error.into_complaint()));
        }
        Event::Other => {}
    }
    Ok(())
}
