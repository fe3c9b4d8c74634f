//! Event-based reader for the XML of Office documents, with limits.
//!
//! Document types are rejected and only XML's predefined entities are known, so that nothing can expand beyond what was
//! counted while unpacking.

use super::TextSink;
use crate::files::FileProblem;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

/// Maximum nesting depth of elements.
const MAX_DEPTH: usize = 256;

/// Event of a document.
pub(super) enum XmlNode<'a> {
    /// Start of an element.
    Start(&'a XmlElement<'a>),
    /// End of an element, with its name without a prefix.
    End(&'a str),
    /// Text.
    Text(&'a str),
}

/// Start tag of an element.
pub(super) struct XmlElement<'a>(&'a BytesStart<'a>);

impl XmlElement<'_> {
    /// Returns its name without a prefix.
    pub(super) fn name(&self) -> &str {
        self.0.local_name().into_inner()
    }

    /// Returns the value of an attribute without a prefix.
    pub(super) fn attribute(&self, name: &str) -> Option<String> {
        self.find_attribute(|key| key == name)
    }

    /// Returns the relationship id of the element: its prefixed `id`, usually `r:id`.
    pub(super) fn relationship_id(&self) -> Option<String> {
        self.find_attribute(|key| key.ends_with(":id"))
    }

    fn find_attribute(&self, predicate: impl Fn(&str) -> bool) -> Option<String> {
        let mut attributes = self.0.attributes();
        let mut attributes = attributes.with_checks(false).flatten();
        let found = attributes.find(|attribute| predicate(attribute.key.into_inner()))?;
        let value = found.normalized_value(XmlVersion::Implicit1_0).ok()?;
        Some(value.into_owned())
    }
}

/// Reads a document until it ends or `visit` returns false.
pub(super) fn walk(
    document: &str,
    mut visit: impl FnMut(XmlNode<'_>) -> Result<bool, FileProblem>,
) -> Result<(), FileProblem> {
    let mut reader = Reader::from_str(document);
    reader.config_mut().check_end_names = false;
    reader.config_mut().allow_unmatched_ends = true;
    let mut depth: usize = 0;
    loop {
        let more = match reader.read_event().map_err(|_| FileProblem::Damaged)? {
            Event::Start(start) => {
                depth += 1;
                if depth > MAX_DEPTH {
                    return Err(FileProblem::Bomb);
                }
                visit(XmlNode::Start(&XmlElement(&start)))?
            }
            Event::Empty(start) => {
                visit(XmlNode::Start(&XmlElement(&start)))?
                    && visit(XmlNode::End(start.local_name().into_inner()))?
            }
            Event::End(end) => {
                depth = depth.saturating_sub(1);
                visit(XmlNode::End(end.local_name().into_inner()))?
            }
            Event::Text(text) => visit(XmlNode::Text(&text.xml10_content()))?,
            Event::CData(text) => visit(XmlNode::Text(&text.xml10_content()))?,
            Event::GeneralRef(name) => match resolve_reference(&name) {
                Some(c) => visit(XmlNode::Text(c.encode_utf8(&mut [0; 4])))?,
                None => true,
            },
            Event::DocType(_) => return Err(FileProblem::Damaged),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => true,
            Event::Eof => return Ok(()),
        };
        if !more {
            return Ok(());
        }
    }
}

/// Resolves a character reference or one of the five predefined entities.
fn resolve_reference(name: &BytesRef<'_>) -> Option<char> {
    if let Ok(Some(c)) = name.resolve_char_ref() {
        return Some(c);
    }
    match &*name.xml10_content() {
        "lt" => Some('<'),
        "gt" => Some('>'),
        "amp" => Some('&'),
        "quot" => Some('"'),
        "apos" => Some('\''),
        _ => None,
    }
}

/// Extracts paragraphs and tables as both Word and PowerPoint write them: one line per paragraph and per table row,
/// with tabs between cells.
pub(super) fn extract_paragraphs(
    document: &str,
    skip: &[&str],
    out: &mut TextSink,
) -> Result<(), FileProblem> {
    let (mut in_text, mut cell_depth, mut skip_depth) = (false, 0_usize, 0_usize);
    walk(document, |node| {
        match node {
            XmlNode::Start(element) => match element.name() {
                name if skip.contains(&name) => skip_depth += 1,
                _ if skip_depth > 0 => {}
                "t" => in_text = true,
                "tab" => out.push("\t"),
                "br" | "cr" => out.end_line(),
                "tc" => cell_depth += 1,
                _ => {}
            },
            XmlNode::End(name) => match name {
                name if skip.contains(&name) => skip_depth = skip_depth.saturating_sub(1),
                _ if skip_depth > 0 => {}
                "t" => in_text = false,
                "p" if cell_depth > 0 => out.end_word(),
                "p" => out.end_line(),
                "tc" => {
                    cell_depth = cell_depth.saturating_sub(1);
                    out.end_cell();
                }
                "tr" => out.end_line(),
                _ => {}
            },
            XmlNode::Text(text) if in_text && skip_depth == 0 => out.push(text),
            XmlNode::Text(_) => {}
        }
        Ok(!out.is_full())
    })
}
