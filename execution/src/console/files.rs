//! Downloads of task files. Files are always sent as attachments, or inline if they are images of a safe
//! type; they are never rendered as pages of the console's origin.

use super::auth_middleware::SignedInUser;
use super::layout::{self, PageError, set_security_headers};
use super::{CONTENT_SCOPE, Console};
use crate::files::safe_name;
use crate::memory::MemoryAccount;
use axum::Extension;
use axum::body::Body;
use axum::extract::{Path, State};
use axum::http::header::{CONTENT_DISPOSITION, CONTENT_SECURITY_POLICY, CONTENT_TYPE};
use axum::http::{HeaderValue, Uri};
use axum::response::{IntoResponse, Response};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use interzone_edge::body;
use interzone_protocol::vocab::{Encoding, Part, PartKind, TaskId};
use std::sync::Arc;
use url::form_urlencoded;

/// Image types that a browser can show safely.
const SAFE_IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Returns true for an image type that may be shown inline.
pub(super) fn is_safe_image(media_type: &str) -> bool {
    SAFE_IMAGE_TYPES.contains(&media_type)
}

/// Decodes base64.
pub(super) fn decode_base64(base64: &str) -> Option<Vec<u8>> {
    STANDARD.decode(base64.trim()).ok()
}

/// `GET /console/tasks/{id}/files/{message|artifact}/{index}/{part}`.
pub(super) async fn download(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<SignedInUser>>,
    Path((id, container, index, part)): Path<(String, String, usize, usize)>,
    uri: Uri,
) -> Response {
    let inline = uri.query() == Some("inline");
    let memory = visitor.memory(&console);
    match load_part(&console, &visitor, &id, &container, index, part, &memory).await {
        Ok(part) => file_response(&console, &visitor, &part, inline, memory)
            .unwrap_or_else(|problem| layout::error_page(&console, Some(&visitor), &problem)),
        Err(problem) => layout::error_page(&console, Some(&visitor), &problem),
    }
}

async fn load_part(
    console: &Console,
    visitor: &SignedInUser,
    id: &str,
    container: &str,
    index: usize,
    part_index: usize,
    memory: &MemoryAccount,
) -> Result<Part, PageError> {
    if !visitor.rights.content {
        return Err(PageError::MissingScope(CONTENT_SCOPE));
    }
    let not_found = || PageError::NotFound("file");
    let id = TaskId::new(id).map_err(|_| not_found())?;
    let hub = &console.zone.hub;
    hub.task(&visitor.caller, &id).await?;
    let parts = match container {
        "message" => {
            let index = u32::try_from(index).map_err(|_| not_found())?;
            let end = index.checked_add(1).ok_or_else(not_found)?;
            let mut found = hub.store().messages(&id, index..end).await?;
            let message = found.pop().ok_or_else(not_found)?;
            let message = hub.restore_within(message, Some(memory)).await?;
            message.parts().to_vec()
        }
        "artifact" => {
            let mut found = hub.store().artifacts(&id).await?.into_iter();
            let artifact = found.nth(index).ok_or_else(not_found)?;
            let artifact = hub.restore_within(artifact, Some(memory)).await?;
            artifact.parts().to_vec()
        }
        _ => return Err(not_found()),
    };
    parts.into_iter().nth(part_index).ok_or_else(not_found)
}

fn file_response(
    console: &Console,
    visitor: &SignedInUser,
    part: &Part,
    inline: bool,
    memory: MemoryAccount,
) -> Result<Response, PageError> {
    let not_found = || PageError::NotFound("file");
    let kind = part.media_type().unwrap_or("application/octet-stream");
    let (content, fallback) = match part.kind() {
        PartKind::Data => {
            let json = part.content().ok_or_else(not_found)?;
            (json.as_str().as_bytes().to_vec(), "data.json")
        }
        PartKind::Text => {
            let text = part.as_text().ok_or_else(not_found)?;
            (text.into_owned().into_bytes(), "text.txt")
        }
        PartKind::File | PartKind::Image | PartKind::Audio => {
            let text = part.as_text().ok_or_else(not_found)?;
            let bytes = match part.encoding() {
                Some(Encoding::Utf8) => text.into_owned().into_bytes(),
                _ => decode_base64(&text).ok_or_else(not_found)?,
            };
            (bytes, "file")
        }
    };
    let name = safe_name(part.filename().unwrap_or(fallback), kind);
    // Form encoding writes a space as `+`, which a header must not.
    let name: String = form_urlencoded::byte_serialize(name.as_bytes()).collect();
    let name = name.replace('+', "%20");
    let is_inline_image = inline && is_safe_image(kind);
    let (disposition, kind) = if is_inline_image {
        ("inline", kind.to_owned())
    } else {
        ("attachment", "application/octet-stream".to_owned())
    };
    let limits = &console.zone.limits;
    let mut reserved = memory.into_reservation();
    let reserved_body = body::reserve_response(content, 0, limits, &visitor.share(), &mut reserved);
    let content = reserved_body.map_err(|_| PageError::Busy)?;
    let mut response = Body::from(content).into_response();
    let headers = response.headers_mut();
    let disposition = format!("{disposition}; filename*=UTF-8''{name}");
    for (name, value) in [(CONTENT_TYPE, kind), (CONTENT_DISPOSITION, disposition)] {
        let value = HeaderValue::try_from(value).map_err(|_| not_found())?;
        headers.insert(name, value);
    }
    let policy = HeaderValue::from_static("default-src 'none'; sandbox");
    headers.insert(CONTENT_SECURITY_POLICY, policy);
    set_security_headers(&mut response);
    Ok(response)
}
