//! OpenAI chat completions API, as implemented by OpenAI and compatible servers.
//!
//! Servers differ in the fields that they accept. A field that a server rejects by name is omitted from then on.

use super::chat::{Chat, ChatMessage, ChatRole, ContentBlock, ToolDefinition};
use super::errors::{LlmErrorKind, LlmFailure, ProviderError};
use super::options::endpoint_url;
use super::provider::{FileSupport, ModelProvider, StreamDecoder, secret_header};
use super::{AnswerLimits, LlmError, LlmOptions};
use crate::files::FileKind;
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

/// Maximum size of an image, in bytes (OpenAI's limit).
const MAX_IMAGE_BYTES: usize = 20 * 1024 * 1024;

pub(super) struct OpenAiProvider {
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

/// Deviations that were detected from this server's errors.
#[derive(Default)]
struct Quirks {
    no_usage: AtomicBool,
    no_temperature: AtomicBool,
    no_tools: AtomicBool,
    needs_completion_tokens: AtomicBool,
}

impl OpenAiProvider {
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
            url: endpoint_url(base_url, &["chat", "completions"])?,
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
impl ModelProvider for OpenAiProvider {
    fn name(&self) -> &'static str {
        "openai"
    }

    fn key(&self) -> Option<&Secret> {
        self.key.as_ref()
    }

    fn stream_type(&self) -> &'static str {
        "text/event-stream"
    }

    fn file_support(&self, kind: FileKind, bytes: usize) -> FileSupport {
        match kind {
            _ if kind.is_image() && !self.images => FileSupport::Unsupported,
            _ if kind.is_image() && bytes > MAX_IMAGE_BYTES => FileSupport::TooLarge,
            _ if kind.is_image() => FileSupport::Native,
            FileKind::Pdf if self.native_files => FileSupport::Native,
            _ => FileSupport::AsText,
        }
    }

    fn body(&self, chat: &Chat<'_>) -> Result<Bytes, serde_json::Error> {
        let has_quirk = |quirk: &AtomicBool| quirk.load(Ordering::Relaxed);
        let system = chat.system.as_deref().map(|text| OpenAiMessage {
            role: "system",
            content: Some(OpenAiContent::Text(Cow::Borrowed(text))),
            tool_calls: Vec::new(),
            tool_call_id: None,
        });
        let completion_tokens = has_quirk(&self.quirks.needs_completion_tokens);
        let tools: &[ToolDefinition] = if has_quirk(&self.quirks.no_tools) {
            &[]
        } else {
            &chat.tools
        };
        let body = OpenAiRequest {
            model: &self.model,
            messages: system
                .into_iter()
                .chain(chat.messages.iter().flat_map(to_messages))
                .collect(),
            stream: true,
            stream_options: (!has_quirk(&self.quirks.no_usage)).then_some(StreamOptions {
                include_usage: true,
            }),
            max_tokens: (!completion_tokens).then_some(self.max_tokens),
            max_completion_tokens: completion_tokens.then_some(self.max_tokens),
            temperature: self
                .temperature
                .filter(|_| !has_quirk(&self.quirks.no_temperature)),
            tools: tools.iter().map(OpenAiTool::from_definition).collect(),
        };
        serde_json::to_vec(&body).map(Bytes::from)
    }

    async fn request(&self, body: Bytes) -> Result<http::Request<Bytes>, LlmFailure> {
        let mut request = http::Request::post(self.url.as_str())
            .header(header::CONTENT_TYPE, "application/json")
            .header(header::ACCEPT, self.stream_type());
        if let Some(bearer) = &self.bearer {
            request = request.header(header::AUTHORIZATION, bearer);
        }
        request
            .body(body)
            .map_err(|_| LlmErrorKind::BadResponse("the request cannot be encoded").into())
    }

    fn decoder(&self, quota: AnswerLimits) -> Box<dyn StreamDecoder> {
        Box::new(stream::OpenAiDecoder::new(quota))
    }

    fn adapt(&self, status: StatusCode, error: &ProviderError) -> bool {
        // Some servers report it as an internal error.
        if !matches!(status.as_u16(), 400 | 422 | 500 | 501) {
            return false;
        }
        let text = error.message.to_lowercase();
        let phrases = [
            ("stream_options", &self.quirks.no_usage),
            (
                "max_completion_tokens",
                &self.quirks.needs_completion_tokens,
            ),
            ("temperature", &self.quirks.no_temperature),
            ("support tools", &self.quirks.no_tools),
            ("tools param", &self.quirks.no_tools),
        ];
        let mut new = phrases
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
struct OpenAiRequest<'a> {
    model: &'a str,
    messages: Vec<OpenAiMessage<'a>>,
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
    tools: Vec<OpenAiTool<'a>>,
}

#[derive(Serialize)]
struct StreamOptions {
    include_usage: bool,
}

#[derive(Serialize)]
struct OpenAiMessage<'a> {
    role: &'static str,
    /// Sent as `null` by an assistant that only calls tools.
    content: Option<OpenAiContent<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    tool_calls: Vec<OpenAiToolCall<'a>>,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_call_id: Option<&'a str>,
}

/// Plain text is sent as a string, which every server accepts; parts are for servers that accept more.
#[derive(Serialize)]
#[serde(untagged)]
enum OpenAiContent<'a> {
    Text(Cow<'a, str>),
    Parts(Vec<OpenAiPart<'a>>),
}

#[derive(Serialize)]
#[serde(tag = "type", rename_all = "snake_case")]
enum OpenAiPart<'a> {
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

/// Data URL, serialized without copying the content.
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
struct OpenAiToolCall<'a> {
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
struct OpenAiTool<'a> {
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

impl<'a> OpenAiTool<'a> {
    fn from_definition(tool: &'a ToolDefinition) -> Self {
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

/// Converts a chat message: each tool result becomes a message of its own, everything else a single message.
fn to_messages<'a>(message: &'a ChatMessage<'_>) -> Vec<OpenAiMessage<'a>> {
    let mut all = Vec::new();
    let mut parts = Vec::new();
    let mut calls = Vec::new();
    for block in &message.blocks {
        match block {
            ContentBlock::Text(text) => parts.push(OpenAiPart::Text { text }),
            ContentBlock::Image { kind, base64 } => parts.push(OpenAiPart::ImageUrl {
                image_url: ImageUrl {
                    url: DataUrl {
                        media_type: kind.media_type(),
                        base64,
                    },
                },
            }),
            ContentBlock::Document { name, kind, base64 } => parts.push(OpenAiPart::File {
                file: FileData {
                    filename: name,
                    file_data: DataUrl {
                        media_type: kind.media_type(),
                        base64,
                    },
                },
            }),
            ContentBlock::ToolCall {
                id,
                name,
                arguments,
            } => calls.push(OpenAiToolCall {
                id,
                kind: "function",
                function: CalledFunction {
                    name,
                    arguments: arguments.get(),
                },
            }),
            ContentBlock::ToolResult { id, text, .. } => all.push(OpenAiMessage {
                role: "tool",
                content: Some(OpenAiContent::Text(Cow::Borrowed(text))),
                tool_calls: Vec::new(),
                tool_call_id: Some(id),
            }),
        }
    }
    if !parts.is_empty() || !calls.is_empty() {
        all.push(OpenAiMessage {
            role: match message.role {
                ChatRole::User => "user",
                ChatRole::Assistant => "assistant",
            },
            content: message_content(parts),
            tool_calls: calls,
            tool_call_id: None,
        });
    }
    all
}

fn message_content(parts: Vec<OpenAiPart<'_>>) -> Option<OpenAiContent<'_>> {
    let texts: Option<Vec<&str>> = parts
        .iter()
        .map(|piece| match piece {
            OpenAiPart::Text { text } => Some(*text),
            _ => None,
        })
        .collect();
    match texts.as_deref() {
        Some([]) => None,
        Some([text]) => Some(OpenAiContent::Text(Cow::Borrowed(text))),
        Some(texts) => Some(OpenAiContent::Text(Cow::Owned(texts.join("\n\n")))),
        None => Some(OpenAiContent::Parts(parts)),
    }
}
