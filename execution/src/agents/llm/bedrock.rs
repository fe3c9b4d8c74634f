//! Converse of Amazon Bedrock: one way to speak to the models of many, streamed in frames of AWS's own.

use super::chat::{Block, Chat, Said, Speaker};
use super::errors::{Failure, Why};
use super::options::address;
use super::wire::{Reader, Takes, Wire, secret_header};
use super::{LlmError, LlmOptions, Quota};
use crate::files::Kind;
use async_trait::async_trait;
use bytes::Bytes;
use http::header;
use interzone_client::aws::Signer;
use interzone_edge::Secret;
use serde::Serialize;
use serde_json::Value;
use serde_json::value::RawValue;
use std::collections::BTreeSet;
use std::sync::Arc;
use url::Url;

mod frames;
mod message;
mod names;

/// The largest picture and the largest document that are taken, in bytes.
const IMAGE: usize = 3_750_000;
const DOCUMENT: usize = 4_500_000;

/// How Bedrock knows that requests are ours.
#[derive(Clone)]
#[non_exhaustive]
pub enum BedrockCredentials {
    /// A key of Bedrock's own.
    Bearer(Secret),
    /// Signatures by whoever has AWS's credentials.
    Signed(Arc<dyn Signer>),
}

pub(super) struct Bedrock {
    url: Url,
    credentials: BedrockCredentials,
    bearer: Option<http::HeaderValue>,
    max_tokens: u32,
    temperature: Option<f32>,
}

impl Bedrock {
    pub(super) fn new(
        options: &LlmOptions,
        region: &str,
        endpoint: Option<&Url>,
        credentials: &BedrockCredentials,
    ) -> Result<Self, LlmError> {
        let usual = format!("https://bedrock-runtime.{region}.amazonaws.com");
        let plain = |c: char| c.is_ascii_alphanumeric() || c == '-';
        let known = !region.is_empty() && region.chars().all(plain);
        let usual = match endpoint {
            Some(endpoint) => endpoint.clone(),
            None if known => usual
                .parse()
                .map_err(|_| LlmError::Address { url: usual })?,
            None => return Err(LlmError::Address { url: usual }),
        };
        let bearer = match credentials {
            BedrockCredentials::Bearer(key) => Some(secret_header("Bearer ", key)?),
            BedrockCredentials::Signed(_) => None,
        };
        Ok(Self {
            url: names::model_url(address(&usual, &["model"])?, &options.model),
            credentials: credentials.clone(),
            bearer,
            max_tokens: options.max_tokens,
            temperature: options.temperature,
        })
    }
}

#[async_trait]
impl Wire for Bedrock {
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

    fn takes(&self, kind: Kind, bytes: usize) -> Takes {
        match kind {
            _ if kind.is_image() && bytes > IMAGE => Takes::TooLarge,
            _ if kind.is_image() => Takes::AsIs,
            _ if format(kind).is_some() && bytes <= DOCUMENT => Takes::AsIs,
            _ => Takes::AsText,
        }
    }

    fn body(&self, chat: &Chat<'_>) -> Result<Bytes, serde_json::Error> {
        let mut names = BTreeSet::new();
        let messages = chat.said.iter().map(|said| message(said, &mut names));
        let tools = chat.tools.iter().map(|tool| OfferedTool {
            tool_spec: ToolSpec {
                name: tool.name,
                description: &tool.description,
                input_schema: Schema { json: &tool.schema },
            },
        });
        let tools: Vec<OfferedTool<'_>> = tools.collect();
        let body = Request {
            messages: messages.collect(),
            system: chat.system.iter().map(|text| Text { text }).collect(),
            inference_config: InferenceConfig {
                max_tokens: self.max_tokens,
                temperature: self.temperature,
            },
            tool_config: (!tools.is_empty()).then_some(ToolConfig { tools }),
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
        let mut request = request
            .body(body)
            .map_err(|_| Why::Broken("the request cannot be written"))?;
        if let BedrockCredentials::Signed(signer) = &self.credentials {
            signer.sign(&mut request).await.map_err(|error| {
                tracing::warn!(%error, "a request to Bedrock was not sent");
                Why::Denied
            })?;
        }
        Ok(request)
    }

    fn reader(&self, quota: Quota) -> Box<dyn Reader> {
        Box::new(frames::Frames::new(quota))
    }
}

/// What Bedrock calls a kind of document, if it reads such.
fn format(kind: Kind) -> Option<&'static str> {
    match kind {
        Kind::Pdf => Some("pdf"),
        Kind::Docx => Some("docx"),
        Kind::Xlsx => Some("xlsx"),
        Kind::Csv => Some("csv"),
        Kind::Text => Some("txt"),
        Kind::Markdown => Some("md"),
        Kind::Png => Some("png"),
        Kind::Jpeg => Some("jpeg"),
        Kind::Gif => Some("gif"),
        Kind::WebP => Some("webp"),
        _ => None,
    }
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Request<'a> {
    messages: Vec<Message<'a>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    system: Vec<Text<'a>>,
    inference_config: InferenceConfig,
    #[serde(skip_serializing_if = "Option::is_none")]
    tool_config: Option<ToolConfig<'a>>,
}

#[derive(Serialize)]
struct Text<'a> {
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
    tools: Vec<OfferedTool<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct OfferedTool<'a> {
    tool_spec: ToolSpec<'a>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct ToolSpec<'a> {
    name: &'a str,
    description: &'a str,
    input_schema: Schema<'a>,
}

#[derive(Serialize)]
struct Schema<'a> {
    json: &'a Value,
}

#[derive(Serialize)]
struct Message<'a> {
    role: &'static str,
    content: Vec<Written<'a>>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
enum Written<'a> {
    Text(&'a str),
    Image {
        format: &'static str,
        source: Source<'a>,
    },
    Document {
        format: &'static str,
        name: String,
        source: Source<'a>,
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
        content: [Text<'a>; 1],
        status: &'static str,
    },
}

#[derive(Serialize)]
struct Source<'a> {
    bytes: &'a str,
}

fn message<'a>(said: &'a Said<'_>, names: &mut BTreeSet<String>) -> Message<'a> {
    let mut content: Vec<Written<'a>> = Vec::with_capacity(said.blocks.len());
    for block in &said.blocks {
        content.push(match block {
            Block::Text(text) => Written::Text(text),
            Block::Image { kind, base64 } => Written::Image {
                format: format(*kind).unwrap_or("png"),
                source: Source { bytes: base64 },
            },
            Block::Document { name, kind, base64 } => Written::Document {
                format: format(*kind).unwrap_or("txt"),
                name: names::document(name, names),
                source: Source { bytes: base64 },
            },
            Block::Call {
                id,
                name,
                arguments,
            } => Written::ToolUse {
                tool_use_id: id,
                name,
                input: arguments,
            },
            Block::Returned { id, text, failed } => Written::ToolResult {
                tool_use_id: id,
                content: [Text { text }],
                status: if *failed { "error" } else { "success" },
            },
        });
    }
    // A document never comes alone.
    let is_text = |piece: &Written<'_>| matches!(piece, Written::Text(_));
    let is_document = |piece: &Written<'_>| matches!(piece, Written::Document { .. });
    if content.iter().any(is_document) && !content.iter().any(is_text) {
        content.insert(0, Written::Text("See what is attached."));
    }
    Message {
        role: match said.speaker {
            Speaker::User => "user",
            Speaker::Assistant => "assistant",
        },
        content,
    }
}
