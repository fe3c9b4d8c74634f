//! Rendering of message and artifact parts: text, data and files, subject to the content right.

use super::path_segment;
use crate::console::auth_middleware::SignedInUser;
use crate::console::files;
use crate::console::format::{format_bytes, format_number};
use crate::console::layout::hidden_content;
use interzone_edge::html::{Html, html};
use interzone_hub::{HasParts, Offloaded};
use interzone_protocol::vocab::{Encoding, Part, PartKind, TaskId};

/// Maximum number of characters shown; the full text can be downloaded.
const MAX_SHOWN_CHARS: usize = 4_000;

/// Location of a message's or artifact's parts.
pub(super) struct PartsLocation<'p> {
    pub(super) task: &'p TaskId,
    /// `message` or `artifact`.
    pub(super) container: &'static str,
    /// Index of the message or artifact.
    pub(super) index: usize,
    /// Name shown above the parts, which is not repeated.
    pub(super) heading: Option<&'p str>,
}

/// Renders all parts of a message or artifact.
pub(super) fn render_parts<T: HasParts>(
    visitor: &SignedInUser,
    container: &Offloaded<T>,
    location: Option<&PartsLocation<'_>>,
) -> Html {
    let mut out = Html::new();
    for (index, part) in container.inline().parts().iter().enumerate() {
        let is_offloaded = container.blob_for_part(index).is_some();
        let href = location.map(|place| {
            let task = path_segment(place.task.as_str());
            let (kind, container_index) = (place.container, place.index);
            format!("/console/tasks/{task}/files/{kind}/{container_index}/{index}")
        });
        let heading = location.and_then(|place| place.heading);
        out.put(&render_part(
            visitor,
            part,
            is_offloaded,
            heading,
            href.as_deref(),
        ));
    }
    out
}

fn render_part(
    visitor: &SignedInUser,
    part: &Part,
    is_offloaded: bool,
    heading: Option<&str>,
    href: Option<&str>,
) -> Html {
    let mut out = Html::new();
    let link = href.filter(|_| visitor.rights.content);
    match part.kind() {
        PartKind::Text | PartKind::Data if is_offloaded => {
            html!(out, "<p class=\"file\">Long text");
            match link {
                Some(href) => html!(out, " <a href=\"" (href) "\" download>Download</a>"),
                None => html!(out, " "[hidden_content("text")]),
            }
            html!(out, "</p>");
        }
        PartKind::Text => {
            let text = part.as_text().unwrap_or_default();
            if visitor.rights.content {
                out.put(&text_block(&text, link, "content"));
            } else {
                let length = format_number(u64::try_from(text.chars().count()).unwrap_or(u64::MAX));
                html!(out, "<p>" [hidden_content(&format!("{length} characters"))] "</p>");
            }
        }
        PartKind::Data => {
            let json = part.content().map_or("", |content| content.as_str());
            if visitor.rights.content {
                out.put(&text_block(&pretty_json(json), link, "content data"));
            } else {
                html!(out, "<p>" [hidden_content("data")] "</p>");
            }
        }
        PartKind::File | PartKind::Image | PartKind::Audio => {
            out.put(&file_block(visitor, part, heading, link));
        }
    }
    out
}

fn text_block(text: &str, href: Option<&str>, class: &str) -> Html {
    let mut out = Html::new();
    let shown = text
        .char_indices()
        .nth(MAX_SHOWN_CHARS)
        .and_then(|(end, _)| text.get(..end));
    html!(out, "<div class=\"" (class) "\" dir=\"auto\">" (shown.unwrap_or(text)) "</div>");
    if let (Some(_), Some(href)) = (shown, href) {
        html!(out, "<p class=\"file\">… <a href=\"" (href) "\" download>Download full text</a></p>");
    }
    out
}

fn file_block(
    visitor: &SignedInUser,
    part: &Part,
    heading: Option<&str>,
    link: Option<&str>,
) -> Html {
    let mut out = Html::new();
    let kind = part.media_type().unwrap_or("a file");
    html!(out, "<div class=\"file\"><span class=\"kind\">" (kind) "</span>");
    if let Some(size) = part.size() {
        html!(out, "<span class=\"soft\">" (format_bytes(size)) "</span>");
    }
    let name = part.filename().unwrap_or("unnamed");
    match (visitor.rights.content, heading == Some(name)) {
        (true, false) => html!(out, "<span class=\"filename\">" (name) "</span>"),
        (true, true) => {}
        (false, _) if heading.is_some() => html!(out, [hidden_content("content")]),
        (false, _) => html!(out, [hidden_content("name and content")]),
    }
    if let Some(href) = link {
        html!(out, "<a href=\"" (href) "\" download>Download</a>");
    }
    html!(out, "</div>");
    if let Some(href) = link {
        if files::is_safe_image(kind) {
            html!(out, "<img class=\"preview\" loading=\"lazy\" alt=\"" (part.filename().unwrap_or("picture"))
                "\" src=\"" (href) "?inline\">");
        } else if let Some(text) = preview(part, kind) {
            html!(out, "<details class=\"preview\"><summary>Preview</summary><pre dir=\"auto\">" (text)
                "</pre></details>");
        }
    }
    out
}

/// Beginning of a text file, if it is inline.
fn preview(part: &Part, kind: &str) -> Option<String> {
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let is_text =
        kind.starts_with("text/") || matches!(kind, "application/json" | "application/xml");
    let content = part.as_text().filter(|_| is_text)?;
    let text = match part.encoding() {
        Some(Encoding::Base64) => String::from_utf8(files::decode_base64(&content)?).ok()?,
        _ => content.into_owned(),
    };
    Some(text.chars().take(MAX_SHOWN_CHARS).collect())
}

fn pretty_json(json: &str) -> String {
    let value: Option<serde_json::Value> = serde_json::from_str(json).ok();
    let pretty = value.and_then(|value| serde_json::to_string_pretty(&value).ok());
    pretty.unwrap_or_else(|| json.to_owned())
}
