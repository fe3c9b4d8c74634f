//! Files that somebody may see, as downloads. Nothing that others made is ever shown as a page of ours:
//! a browser gets it as bytes to save, or, if it is a picture of a plain kind, as that.

use super::guard::Visitor;
use super::layout::{self, Problem, protect};
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

/// Pictures that a browser shows and that can do nothing else.
const PICTURES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Whether this is a picture that may be shown.
pub(super) fn is_picture(media_type: &str) -> bool {
    PICTURES.contains(&media_type)
}

/// The bytes that base64 stands for.
pub(super) fn decoded(base64: &str) -> Option<Vec<u8>> {
    STANDARD.decode(base64.trim()).ok()
}

/// `GET /console/tasks/{id}/files/{message|artifact}/{index}/{part}`.
pub(super) async fn download(
    State(console): State<Arc<Console>>,
    Extension(visitor): Extension<Arc<Visitor>>,
    Path((id, of, index, part)): Path<(String, String, usize, usize)>,
    uri: Uri,
) -> Response {
    let inline = uri.query() == Some("inline");
    let memory = visitor.memory(&console);
    match read(&console, &visitor, &id, &of, index, part, &memory).await {
        Ok(part) => answer(&console, &visitor, &part, inline, memory)
            .unwrap_or_else(|problem| layout::problem(&console, Some(&visitor), &problem)),
        Err(problem) => layout::problem(&console, Some(&visitor), &problem),
    }
}

async fn read(
    console: &Console,
    visitor: &Visitor,
    id: &str,
    of: &str,
    index: usize,
    number: usize,
    memory: &MemoryAccount,
) -> Result<Part, Problem> {
    if !visitor.rights.content {
        return Err(Problem::Needs(CONTENT_SCOPE));
    }
    let nothing = || Problem::Nothing("file");
    let id = TaskId::new(id).map_err(|_| nothing())?;
    let hub = &console.zone.hub;
    hub.task(&visitor.caller, &id).await?;
    let parts = match of {
        "message" => {
            let place = u32::try_from(index).map_err(|_| nothing())?;
            let end = place.checked_add(1).ok_or_else(nothing)?;
            let mut found = hub.store().messages(&id, place..end).await?;
            let message = found.pop().ok_or_else(nothing)?;
            let message = hub.unpack_one_within(message, Some(memory)).await?;
            message.parts().to_vec()
        }
        "artifact" => {
            let mut found = hub.store().artifacts(&id).await?.into_iter();
            let artifact = found.nth(index).ok_or_else(nothing)?;
            let artifact = hub.unpack_one_within(artifact, Some(memory)).await?;
            artifact.parts().to_vec()
        }
        _ => return Err(nothing()),
    };
    parts.into_iter().nth(number).ok_or_else(nothing)
}

fn answer(
    console: &Console,
    visitor: &Visitor,
    part: &Part,
    inline: bool,
    memory: MemoryAccount,
) -> Result<Response, Problem> {
    let nothing = || Problem::Nothing("file");
    let kind = part.media_type().unwrap_or("application/octet-stream");
    let (content, fallback) = match part.kind() {
        PartKind::Data => {
            let json = part.content().ok_or_else(nothing)?;
            (json.as_str().as_bytes().to_vec(), "data.json")
        }
        PartKind::Text => {
            let text = part.as_text().ok_or_else(nothing)?;
            (text.into_owned().into_bytes(), "text.txt")
        }
        PartKind::File | PartKind::Image | PartKind::Audio => {
            let text = part.as_text().ok_or_else(nothing)?;
            let bytes = match part.encoding() {
                Some(Encoding::Utf8) => text.into_owned().into_bytes(),
                _ => decoded(&text).ok_or_else(nothing)?,
            };
            (bytes, "file")
        }
    };
    let name = safe_name(part.filename().unwrap_or(fallback), kind);
    // A form writes a space as a plus, a header does not.
    let name: String = form_urlencoded::byte_serialize(name.as_bytes()).collect();
    let name = name.replace('+', "%20");
    let picture = inline && is_picture(kind);
    let (way, kind) = if picture {
        ("inline", kind.to_owned())
    } else {
        ("attachment", "application/octet-stream".to_owned())
    };
    let limits = &console.zone.limits;
    let mut reserved = memory.into_reservation();
    let held = body::hold_within(content, 0, limits, &visitor.share(), &mut reserved);
    let content = held.map_err(|_| Problem::Busy)?;
    let mut response = Body::from(content).into_response();
    let headers = response.headers_mut();
    let way = format!("{way}; filename*=UTF-8''{name}");
    for (name, value) in [(CONTENT_TYPE, kind), (CONTENT_DISPOSITION, way)] {
        let value = HeaderValue::try_from(value).map_err(|_| nothing())?;
        headers.insert(name, value);
    }
    let policy = HeaderValue::from_static("default-src 'none'; sandbox");
    headers.insert(CONTENT_SECURITY_POLICY, policy);
    protect(&mut response);
    Ok(response)
}
