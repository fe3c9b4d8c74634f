//! Interface of a model provider's API.

use super::chat::{Chat, ModelEvent};
use super::errors::{DecodeError, LlmFailure, ProviderError};
use super::{AnswerLimits, LlmError};
use crate::files::FileKind;
use async_trait::async_trait;
use bytes::Bytes;
use http::StatusCode;
use interzone_edge::Secret;

/// Form in which a provider accepts a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum FileSupport {
    /// The file is sent unchanged.
    Native,
    /// Its extracted text is sent.
    AsText,
    /// The type is supported, but the file is too large.
    TooLarge,
    /// The type is not supported.
    Unsupported,
}

/// API of a model provider.
#[async_trait]
pub(super) trait ModelProvider: Send + Sync {
    /// Returns the provider's name for answer metadata.
    fn name(&self) -> &'static str;

    /// Returns the API key, so that it can be removed from log messages.
    fn key(&self) -> Option<&Secret>;

    /// Returns the media type of response streams.
    fn stream_type(&self) -> &'static str;

    /// Returns the form in which a file of this kind and size is accepted.
    fn file_support(&self, kind: FileKind, bytes: usize) -> FileSupport;

    /// Encodes a request body. Retries reuse it.
    fn body(&self, chat: &Chat<'_>) -> Result<Bytes, serde_json::Error>;

    /// Builds a request, signed if required. Each attempt needs a new one.
    async fn request(&self, body: Bytes) -> Result<http::Request<Bytes>, LlmFailure>;

    /// Creates a decoder for the response stream.
    fn decoder(&self, quota: AnswerLimits) -> Box<dyn StreamDecoder>;

    /// Adapts the request format after an error. Returns true if the next request will differ.
    fn adapt(&self, _status: StatusCode, _error: &ProviderError) -> bool {
        false
    }
}

/// Decoder of a provider's response stream.
pub(super) trait StreamDecoder: Send {
    /// Decodes more input and appends the events.
    fn push(&mut self, bytes: &[u8], events: &mut Vec<ModelEvent>) -> Result<(), DecodeError>;

    /// Returns true if the answer is complete, so that nothing is lost if the stream ends.
    fn is_complete(&self) -> bool;

    /// Returns true if no more input is expected.
    fn is_over(&self) -> bool {
        false
    }
}

/// Returns a key as a sensitive header value, which is never logged.
pub(super) fn secret_header(prefix: &str, key: &Secret) -> Result<http::HeaderValue, LlmError> {
    let value = format!("{prefix}{}", key.expose());
    let mut value = http::HeaderValue::from_str(&value).map_err(|_| LlmError::InvalidKey)?;
    value.set_sensitive(true);
    Ok(value)
}
