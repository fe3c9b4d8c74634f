//! Amazon Bedrock Converse API, streamed as AWS event-stream messages.

use super::chat::{Chat, ChatMessage, ChatRole, ContentBlock};
use super::errors::{LlmErrorKind, LlmFailure};
use super::options::endpoint_url;
use super::provider::{FileSupport, ModelProvider, StreamDecoder, secret_header};
use super::{AnswerLimits, LlmError, LlmOptions};
use crate::files::FileKind;
use async_trait::async_trait;
use bytes::Bytes;
use http::header;
use interzone_client::aws::RequestSigner;
use interzone_edge::Secret;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use std::sync::Arc;
use url::Url;

mod events;
mod names;

/// Maximum sizes of an image and a document, in bytes.
const MAX_IMAGE_BYTES: usize = 3_750_000;
const MAX_DOCUMENT_BYTES: usize = 4_500_000;

/// Credentials for Bedrock.
#[derive(Clone)]
#[non_exhaustive]
pub enum BedrockCredentials {
    /// Bedrock API key.
    Bearer(Secret),
    /// Requests are signed with AWS credentials.
    Signed(Arc<dyn RequestSigner>),
}

pub(super) struct BedrockProvider {
    url: Url,
    credentials: BedrockCredentials,
    bearer: Option<http::HeaderValue>,
    max_tokens: u32,
    temperature: Option<f32>,
}

impl BedrockProvider {
    pub(super) fn new(
        options: &LlmOptions,
        region: &str,
        endpoint: Option<&Url>,
        credentials: &BedrockCredentials,
    ) -> Result<Self, LlmError> {
        let default_url = format!("https://bedrock-runtime.{region}.amazonaws.com");
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let is_valid_region = !region.is_empty() && region.chars().all(plain);
        let url = match endpoint {
            Some(endpoint) => endpoint.clone(),
            None if is_valid_region => default_url
                .parse()
                .map_err(|_| LlmError::InvalidUrl { url: default_url })?,
            None => return Err(LlmError::InvalidUrl { url: default_url }),
        };
        let bearer = match credentials {
            BedrockCredentials::Bearer(key) => Some(secret_header("Bearer ", key)?),
            BedrockCredentials::Signed(_) => None,
        };
        Ok(Self {
            url: names::model_url(endpoint_url(&url, &["model"])?, &options.model),
            credentials: credentials.clone(),
            bearer,
            max_tokens: options.max_tokens,
            temperature: options.temperature,
        })
    }
}

#[async_trait]
impl ModelProvider for BedrockProvider {
    fn name(&self) -> &'static str {
        "bedrock"
    }

    fn key(&self) -> Option<&Secret> {
        match &self.credentials {
            BedrockCredentials::Bearer(key) => Some(key),
            BedrockCredentials::Signed(_) => None,
        }
    }

    fn stream_type(&self) -> &'static str {
        "application/vnd.amazon.eventstream"
    }

    fn file_support(&self, kind: FileKind, bytes: usize) -> FileSupport {
        match kind {
            _ if kind.is_image() && bytes > MAX_IMAGE_BYTES => FileSupport::TooLarge,
            _ if kind.is_image() => FileSupport::Native,
            _ if format_name(kind).is_some() && bytes <= MAX_DOCUMENT_BYTES => FileSupport::Native,
            _ => FileSupport::AsText,
        }
    }

    fn body(&self, chat: &Chat<'_>) -> Result<Bytes, serde_json::Error> {
        let mut names = BTreeSet::new();
        let messages = chat
            .messages
            .iter()
            .map(|message| convert_message(message, &mut names));
        let tools = chat.tools.iter().map(|tool| BedrockTool {
            tool_spec: ToolSpec {
                name: tool.name,
                description: &tool.description,
                input_schema: BedrockSchema { json: &tool.schema },
            },
        });
        let tools: Vec<BedrockTool<'_>> = tools.collect();
        let body = BedrockRequest {
            messages: messages.collect(),
            system: chat
                .system
                .iter()
                .map(|text| BedrockText { text })
                .collect(),
            inference_config: InferenceConfig {
                max_tokens: self.max_tokens,
                temperature: self.temperature,
            },
            tool_config: (!tools.is_empty()).then_some(ToolConfig { tools }),
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
        let mut request = request
            .body(body)
            .map_err(|_| LlmErrorKind::BadResponse("the request cannot be encoded"))?;
        if let BedrockCredentials::Signed(signer) = &self.credentials {
            signer.sign(&mut request).await.map_err(|error| {
                tracing::warn!(%error, "failed to sign Bedrock request");
                LlmErrorKind::Denied
            })?;
        }
        Ok(request)
    }

    fn decoder(&self, quota: AnswerLimits) -> Box<dyn StreamDecoder> {
        Box::new(events::BedrockDecoder::new(quota))
    }
}

/// Returns Bedrock's name of a file format, if supported.
fn format_name(kind: FileKind) -> Option<&'static str> {
    match kind {
        FileKind::Pdf => Some("pdf"),
        FileKind::Docx => Some("docx"),
        FileKind::Xlsx => Some("xlsx"),
        FileKind::Csv => Some("csv"),
        FileKind::Text => Some("txt"),
        FileKind::Markdown => Some("md"),
        FileKind::Png => Some("png"),
        FileKind::Jpeg => Some("jpeg"),
        FileKind::Gif => Some("gif"),
        FileKind::WebP => Some("webp"),
        _ => None,
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BedrockRequest<'a> {
    messages: Vec<BedrockMessage<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<BedrockText<'a>>,
    inference_config: InferenceConfig,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig<'a>>,
}

#[derive(Serialize)]
struct BedrockText<'a> {
    text: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct InferenceConfig {
    max_tokens: u32,
    #[serde(skip_serializing_if = "Option::is_none")]
    temperature: Option<f32>,
}

#[derive(Serialize)]
struct ToolConfig<'a> {
    tools: Vec<BedrockTool<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BedrockTool<'a> {
    tool_spec: ToolSpec<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolSpec<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: BedrockSchema<'a>,
}

#[derive(Serialize)]
struct BedrockSchema<'a> {
    json: &'a Value,
}

#[derive(Serialize)]
struct BedrockMessage<'a> {
    role: &'static str,
    content: Vec<BedrockBlock<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum BedrockBlock<'a> {
    Text(&'a str),
    Image {
        format: &'static str,
        source: BedrockSource<'a>,
    },
    Document {
        format: &'static str,
        name: String,
        source: BedrockSource<'a>,
    },
    #[serde(rename_all = "camelCase")]
    ToolUse {
        tool_use_id: &'a str,
        name: &'a str,
        input: &'a RawValue,
    },
    #[serde(rename_all = "camelCase")]
    ToolResult {
        tool_use_id: &'a str,
        content: [BedrockText<'a>; 1],
        status: &'static str,
    },
}

#[derive(Serialize)]
struct BedrockSource<'a> {
    bytes: &'a str,
}

fn convert_message<'a>(
    message: &'a ChatMessage<'_>,
    names: &mut BTreeSet<String>,
) -> BedrockMessage<'a> {
    let mut content: Vec<BedrockBlock<'a>> = Vec::with_capacity(message.blocks.len());
    for block in &message.blocks {
        content.push(match block {
            ContentBlock::Text(text) => BedrockBlock::Text(text),
            ContentBlock::Image { kind, base64 } => BedrockBlock::Image {
                format: format_name(*kind).unwrap_or("png"),
                source: BedrockSource { bytes: base64 },
            },
            ContentBlock::Document { name, kind, base64 } => BedrockBlock::Document {
                format: format_name(*kind).unwrap_or("txt"),
                name: names::document_name(name, names),
                source: BedrockSource { bytes: base64 },
            },
            ContentBlock::ToolCall {
                id,
                name,
                arguments,
            } => BedrockBlock::ToolUse {
                tool_use_id: id,
                name,
                input: arguments,
            },
            ContentBlock::ToolResult { id, text, failed } => BedrockBlock::ToolResult {
                tool_use_id: id,
                content: [BedrockText { text }],
                status: if *failed { "error" } else { "success" },
            },
        });
    }
    // Converse requires a text block next to a document.
    let is_text = |piece: &BedrockBlock<'_>| matches!(piece, BedrockBlock::Text(_));
    let is_document = |piece: &BedrockBlock<'_>| matches!(piece, BedrockBlock::Document { .. });
    if content.iter().any(is_document) && !content.iter().any(is_text) {
        content.insert(0, BedrockBlock::Text("See what is attached."));
    }
    BedrockMessage {
        role: match message.role {
            ChatRole::User => "user",
            ChatRole::Assistant => "assistant",
        },
        content,
    }
}
