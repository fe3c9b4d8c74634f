//! What a provider must know of itself to be spoken to.

use super::chat::{Chat, Heard};
use super::errors::{Complaint, Failure, Misread};
use super::{LlmError, Quota};
use crate::files::Kind;
use async_trait::async_trait;
use bytes::Bytes;
use http::StatusCode;
use interzone_edge::Secret;

/// What a provider does with a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Takes {
    /// It reads such files by itself.
    AsIs,
    /// It reads their text.
    AsText,
    /// Such files may be had, but this one is too large.
    TooLarge,
    /// It takes no such files.
    Not,
}

/// A provider's way of speaking.
#[async_trait]
pub(super) trait Wire: Send + Sync {
    /// What it is called in what we tell of a run.
    fn name(&self) -> &'static str;

    /// The key, so that it can be kept out of what is logged.
    fn key(&self) -> Option<&Secret>;

    /// The media type of its streams.
    fn stream_type(&self) -> &'static str;

    /// What it does with a file of this kind and size.
    fn takes(&self, kind: Kind, bytes: usize) -> Takes;

    /// A request's body. It is the same for every try.
    fn body(&self, chat: &Chat<'_>) -> Result<Bytes, serde_json::Error>;

    /// A request, signed if need be; each try has a new one.
    async fn request(&self, body: Bytes) -> Result<http::Request<Bytes>, Failure>;

    /// Whoever reads its stream.
    fn reader(&self, quota: Quota) -> Box<dyn Reader>;

    /// Learns from an error how it wants to be spoken to. True if the next request will differ.
    fn adapt(&self, _status: StatusCode, _complaint: &Complaint) -> bool {
        false
    }
}

/// Reads a provider's stream as it comes.
pub(super) trait Reader: Send {
    /// Reads on, and puts what was understood to `heard`.
    fn push(&mut self, bytes: &[u8], heard: &mut Vec<Heard>) -> Result<(), Misread>;

    /// Whether the answer is whole, so that nothing is lost if nothing more comes.
    fn is_whole(&self) -> bool;

    /// Whether nothing more will come.
    fn is_over(&self) -> bool {
        false
    }
}

/// A key as the value of a header that is never shown.
pub(super) fn secret_header(before: &str, key: &Secret) -> Result<http::HeaderValue, LlmError> {
    let value = format!("{before}{}", key.expose());
    let mut value = http::HeaderValue::from_str(&value).map_err(|_| LlmError::Key)?;
    value.set_sensitive(true);
    Ok(value)
}
