//! OpenAI's chat completions, as OpenAI and the many that are compatible with it speak them.
//!
//! Not all take the same members. What one refuses by name is left out from then on.

use super::chat::{Block, Chat, Said, Speaker, Tool};
use super::errors::{Complaint, Failure, Why};
use super::options::address;
use super::wire::{Reader, Takes, Wire, secret_header};
use super::{LlmError, LlmOptions, Quota};
use crate::files::Kind;
use async_trait::async_trait;
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use interzone_edge::Secret;
use serde::{Serialize, Serializer};
use serde_json::Value;
use std::borrow::Cow;
use std::sync::atomic::{AtomicBool, Ordering};
use url::Url;

mod stream;

/// The largest picture that is sent, in bytes: OpenAI's own limit.
const IMAGE: usize = 20 * 1024 * 1024;

pub(super) struct OpenAi {
    url: Url,
    key: Option<Secret>,
    bearer: Option<HeaderValue>,
    native_files: bool,
    images: bool,
    model: String,
    max_tokens: u32,
    temperature: Option<f32>,
    quirks: Quirks,
}

/// What this server has been found not to take.
#[derive(Default)]
struct Quirks {
    no_usage: AtomicBool,
    no_temperature: AtomicBool,
    no_tools: AtomicBool,
    completion_tokens: AtomicBool,
}

impl OpenAi {
    pub(super) fn new(
        options: &LlmOptions,
        base_url: &Url,
        key: Option<&Secret>,
        native_files: bool,
        images: bool,
    ) -> Result<Self, LlmError> {
        let key = key.filter(|key| !key.is_empty()).cloned();
        let bearer = key.as_ref().map(|key| secret_header("Bearer ", key));
        Ok(Self {
            url: address(base_url, &["chat", "completions"])?,
            bearer: bearer.transpose()?,
            key,
            native_files,
            images,
            model: options.model.clone(),
            max_tokens: options.max_tokens,
            temperature: options.temperature,
            quirks: Quirks::default(),
        })
    }
}

#[async_trait]
impl Wire for OpenAi {
    fn name(&self) -> &'static str {
        "openai"
    }

    fn key(&self) -> Option<&Secret> {
        self.key.as_ref()
    }

    fn stream_type(&self) -> &'static str {
        "text/event-stream"
    }

    fn takes(&self, kind: Kind, bytes: usize) -> Takes {
        match kind {
            _ if kind.is_image() && !self.images => Takes::Not,
            _ if kind.is_image() && bytes > IMAGE => Takes::TooLarge,
            _ if kind.is_image() => Takes::AsIs,
            Kind::Pdf if self.native_files => Takes::AsIs,
            _ => Takes::AsText,
        }
    }

    fn body(&self, chat: &Chat<'_>) -> Result<Bytes, serde_json::Error> {
        let is = |quirk: &AtomicBool| quirk.load(Ordering::Relaxed);
        let system = chat.system.as_deref().map(|text| Message {
            role: "system",
            content: Some(Content::Text(Cow::Borrowed(text))),
            tool_calls: Vec::new(),
            tool_call_id: None,
        });
        let completion_tokens = is(&self.quirks.completion_tokens);
        let tools: &[Tool] = if is(&self.quirks.no_tools) {
            &[]
        } else {
            &chat.tools
        };
        let body = Request {
            model: &self.model,
            messages: system
                .into_iter()
                .chain(chat.said.iter().flat_map(messages))
                .collect(),
            stream: true,
            stream_options: (!is(&self.quirks.no_usage)).then_some(StreamOptions {
                include_usage: true,
            }),
            max_tokens: (!completion_tokens).then_some(self.max_tokens),
            max_completion_tokens: completion_tokens.then_some(self.max_tokens),
            temperature: self
                .temperature
                .filter(|_| !is(&self.quirks.no_temperature)),
            tools: tools.iter().map(OfferedTool::of).collect(),
        };
        serde_json::to_vec(&body).map(Bytes::from)
    }

    async fn request(&self, body: Bytes) -> Result<http::Request<Bytes>, Failure> {
        let mut request = http::Request::post(self.url.as_str())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, self.stream_type());
        if let Some(bearer) = &self.bearer {
            request = request.header(header::AUTHORIZATION, bearer);
        }
        request
            .body(body)
            .map_err(|_| Why::Broken("the request cannot be written").into())
    }

    fn reader(&self, quota: Quota) -> Box<dyn Reader> {
        Box::new(stream::Chunks::new(quota))
    }

    fn adapt(&self, status: StatusCode, complaint: &Complaint) -> bool {
        // Some servers call it their own fault.
        if !matches!(status.as_u16(), 400 | 422 | 500 | 501) {
            return false;
        }
        let text = complaint.text.to_lowercase();
        let learnt = [
            ("stream_options", &self.quirks.no_usage),
            ("max_completion_tokens", &self.quirks.completion_tokens),
            ("temperature", &self.quirks.no_temperature),
            ("support tools", &self.quirks.no_tools),
            ("tools param", &self.quirks.no_tools),
        ];
        let mut new = learnt
            .iter()
            .filter(|(phrase, quirk)| text.contains(phrase) && !quirk.load(Ordering::Relaxed));
        match new.next() {
            Some((_, quirk)) => {
                quirk.store(true, Ordering::Relaxed);
                true
            }
            None => false,
        }
    }
}

#[derive(Serialize)]
struct Request<'a> {
    model: &'a str,
    messages: Vec<Message<'a>>,
    stream: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    stream_options: Option<StreamOptions>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    max_completion_tokens: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tools: Vec<OfferedTool<'a>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    /// `null` is said aloud by an assistant that only calls tools.
    content: Option<Content<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<ToolCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

/// Text alone is a string, which every server takes; pieces are for those that take more.
#[derive(Serialize)]
#[serde(untagged)]
enum Content<'a> {
    Text(Cow<'a, str>),
    Pieces(Vec<Piece<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum Piece<'a> {
    Text { text: &'a str },
    ImageUrl { image_url: ImageUrl<'a> },
    File { file: FileData<'a> },
}

#[derive(Serialize)]
struct ImageUrl<'a> {
    url: DataUrl<'a>,
}

#[derive(Serialize)]
struct FileData<'a> {
    filename: &'a str,
    file_data: DataUrl<'a>,
}

/// Written in one go, without a copy of the content.
struct DataUrl<'a> {
    media_type: &'static str,
    base64: &'a str,
}

impl Serialize for DataUrl<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(&format_args!(
            "data:{};base64,{}",
            self.media_type, self.base64
        ))
    }
}

#[derive(Serialize)]
struct ToolCall<'a> {
    id: &'a str,
    #[serde(rename = "type")]
    kind: &'static str,
    function: CalledFunction<'a>,
}

#[derive(Serialize)]
struct CalledFunction<'a> {
    name: &'a str,
    arguments: &'a str,
}

#[derive(Serialize)]
struct OfferedTool<'a> {
    #[serde(rename = "type")]
    kind: &'static str,
    function: OfferedFunction<'a>,
}

#[derive(Serialize)]
struct OfferedFunction<'a> {
    name: &'a str,
    description: &'a str,
    parameters: &'a Value,
}

impl<'a> OfferedTool<'a> {
    fn of(tool: &'a Tool) -> Self {
        Self {
            kind: "function",
            function: OfferedFunction {
                name: tool.name,
                description: &tool.description,
                parameters: &tool.schema,
            },
        }
    }
}

/// What one side said: one message, but for what came of tools, which has a message for each.
fn messages<'a>(said: &'a Said<'_>) -> Vec<Message<'a>> {
    let mut all = Vec::new();
    let mut pieces = Vec::new();
    let mut calls = Vec::new();
    for block in &said.blocks {
        match block {
            Block::Text(text) => pieces.push(Piece::Text { text }),
            Block::Image { kind, base64 } => pieces.push(Piece::ImageUrl {
                image_url: ImageUrl {
                    url: DataUrl {
                        media_type: kind.media_type(),
                        base64,
                    },
                },
            }),
            Block::Document { name, kind, base64 } => pieces.push(Piece::File {
                file: FileData {
                    filename: name,
                    file_data: DataUrl {
                        media_type: kind.media_type(),
                        base64,
                    },
                },
            }),
            Block::Call {
                id,
                name,
                arguments,
            } => calls.push(ToolCall {
                id,
                kind: "function",
                function: CalledFunction {
                    name,
                    arguments: arguments.get(),
                },
            }),
            Block::Returned { id, text, .. } => all.push(Message {
                role: "tool",
                content: Some(Content::Text(Cow::Borrowed(text))),
                tool_calls: Vec::new(),
                tool_call_id: Some(id),
            }),
        }
    }
    if !pieces.is_empty() || !calls.is_empty() {
        all.push(Message {
            role: match said.speaker {
                Speaker::User => "user",
                Speaker::Assistant => "assistant",
            },
            content: content(pieces),
            tool_calls: calls,
            tool_call_id: None,
        });
    }
    all
}

fn content(pieces: Vec<Piece<'_>>) -> Option<Content<'_>> {
    let texts: Option<Vec<&str>> = pieces
        .iter()
        .map(|piece| match piece {
            Piece::Text { text } => Some(*text),
            _ => None,
        })
        .collect();
    match texts.as_deref() {
        Some([]) => None,
        Some([text]) => Some(Content::Text(Cow::Borrowed(text))),
        Some(texts) => Some(Content::Text(Cow::Owned(texts.join("\n\n")))),
        None => Some(Content::Pieces(pieces)),
    }
}
