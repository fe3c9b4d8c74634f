//! What was said and made, as it is shown: words, data, and files to download or to look at. Whether it
//! may be seen is asked first, every time.

use super::segment;
use crate::console::files;
use crate::console::guard::Visitor;
use crate::console::html::{Html, html};
use crate::console::layout::hidden;
use crate::console::words::{bytes, number};
use interzone_hub::{HasParts, Packed};
use interzone_protocol::vocab::{Encoding, Part, PartKind, TaskId};

/// How many characters are shown on the page; the rest can be downloaded.
const SHOWN: usize = 4_000;

/// Where the parts of something are found.
pub(super) struct Place<'p> {
    pub(super) task: &'p TaskId,
    /// `message` or `artifact`.
    pub(super) of: &'static str,
    /// Which of them, counted from zero.
    pub(super) index: usize,
    /// The name that stands above them, which need not be said again.
    pub(super) named: Option<&'p str>,
}

/// All parts of a message or artifact.
pub(super) fn parts<T: HasParts>(
    visitor: &Visitor,
    packed: &Packed<T>,
    place: Option<&Place<'_>>,
) -> Html {
    let mut out = Html::new();
    for (number, part) in packed.without_large().parts().iter().enumerate() {
        let elsewhere = packed.blob_of(number).is_some();
        let href = place.map(|place| {
            let (task, of, index) = (segment(place.task.as_str()), place.of, place.index);
            format!("/console/tasks/{task}/files/{of}/{index}/{number}")
        });
        let named = place.and_then(|place| place.named);
        out.put(&one(visitor, part, elsewhere, named, href.as_deref()));
    }
    out
}

fn one(
    visitor: &Visitor,
    part: &Part,
    elsewhere: bool,
    named: Option<&str>,
    href: Option<&str>,
) -> Html {
    let mut out = Html::new();
    let link = href.filter(|_| visitor.rights.content);
    match part.kind() {
        PartKind::Text | PartKind::Data if elsewhere => {
            html!(out, "<p class=\"file\">A long text");
            match link {
                Some(href) => html!(out, " <a href=\"" (href) "\" download>Download</a>"),
                None => html!(out, " "[hidden("text")]),
            }
            html!(out, "</p>");
        }
        PartKind::Text => {
            let text = part.as_text().unwrap_or_default();
            if visitor.rights.content {
                out.put(&words(&text, link, "said"));
            } else {
                let length = number(u64::try_from(text.chars().count()).unwrap_or(u64::MAX));
                html!(out, "<p>" [hidden(&format!("{length} characters"))] "</p>");
            }
        }
        PartKind::Data => {
            let json = part.content().map_or("", |content| content.as_str());
            if visitor.rights.content {
                out.put(&words(&pretty(json), link, "said data"));
            } else {
                html!(out, "<p>" [hidden("data")] "</p>");
            }
        }
        PartKind::File | PartKind::Image | PartKind::Audio => {
            out.put(&file(visitor, part, named, link));
        }
    }
    out
}

fn words(text: &str, href: Option<&str>, class: &str) -> Html {
    let mut out = Html::new();
    let shown = text
        .char_indices()
        .nth(SHOWN)
        .and_then(|(end, _)| text.get(..end));
    html!(out, "<div class=\"" (class) "\" dir=\"auto\">" (shown.unwrap_or(text)) "</div>");
    if let (Some(_), Some(href)) = (shown, href) {
        html!(out, "<p class=\"file\">… <a href=\"" (href) "\" download>Download all of it</a></p>");
    }
    out
}

fn file(visitor: &Visitor, part: &Part, named: Option<&str>, link: Option<&str>) -> Html {
    let mut out = Html::new();
    let kind = part.media_type().unwrap_or("a file");
    html!(out, "<div class=\"file\"><span class=\"kind\">" (kind) "</span>");
    if let Some(size) = part.size() {
        html!(out, "<span class=\"soft\">" (bytes(size)) "</span>");
    }
    let name = part.filename().unwrap_or("unnamed");
    match (visitor.rights.content, named == Some(name)) {
        (true, false) => html!(out, "<span class=\"filename\">" (name) "</span>"),
        (true, true) => {}
        (false, _) if named.is_some() => html!(out, [hidden("content")]),
        (false, _) => html!(out, [hidden("name and content")]),
    }
    if let Some(href) = link {
        html!(out, "<a href=\"" (href) "\" download>Download</a>");
    }
    html!(out, "</div>");
    if let Some(href) = link {
        if files::is_picture(kind) {
            html!(out, "<img class=\"preview\" loading=\"lazy\" alt=\"" (part.filename().unwrap_or("picture"))
                "\" src=\"" (href) "?inline\">");
        } else if let Some(text) = preview(part, kind) {
            html!(out, "<details class=\"preview\"><summary>Preview</summary><pre dir=\"auto\">" (text)
                "</pre></details>");
        }
    }
    out
}

/// The beginning of a file that is text, if it is here.
fn preview(part: &Part, kind: &str) -> Option<String> {
    let kind = kind.split(';').next().unwrap_or_default().trim();
    let is_text =
        kind.starts_with("text/") || matches!(kind, "application/json" | "application/xml");
    let content = part.as_text().filter(|_| is_text)?;
    let text = match part.encoding() {
        Some(Encoding::Base64) => String::from_utf8(files::decoded(&content)?).ok()?,
        _ => content.into_owned(),
    };
    Some(text.chars().take(SHOWN).collect())
}

fn pretty(json: &str) -> String {
    let value: Option<serde_json::Value> = serde_json::from_str(json).ok();
    let pretty = value.and_then(|value| serde_json::to_string_pretty(&value).ok());
    pretty.unwrap_or_else(|| json.to_owned())
}
