//! The XML of Office documents, walked through with limits.
//!
//! No document type is taken and no entity but XML's own is known, so that nothing can grow here that
//! was not counted when it was unpacked.

use super::Out;
use crate::files::Problem;
use quick_xml::events::{BytesRef, BytesStart, Event};
use quick_xml::{Reader, XmlVersion};

/// How deep elements may be inside each other.
const DEEPEST: usize = 256;

/// What is met on the way.
pub(super) enum Node<'a> {
    /// An element begins.
    Start(&'a Element<'a>),
    /// An element ends; its name, without a prefix.
    End(&'a str),
    /// Words.
    Text(&'a str),
}

/// The beginning of an element.
pub(super) struct Element<'a>(&'a BytesStart<'a>);

impl Element<'_> {
    /// Its name, without a prefix.
    pub(super) fn name(&self) -> &str {
        self.0.local_name().into_inner()
    }

    /// The value of an attribute without a prefix.
    pub(super) fn attribute(&self, name: &str) -> Option<String> {
        self.value(|key| key == name)
    }

    /// The relation that the element names: its `id` with a prefix, mostly `r:id`.
    pub(super) fn relation(&self) -> Option<String> {
        self.value(|key| key.ends_with(":id"))
    }

    fn value(&self, is_it: impl Fn(&str) -> bool) -> Option<String> {
        let mut known = self.0.attributes();
        let mut known = known.with_checks(false).flatten();
        let found = known.find(|attribute| is_it(attribute.key.into_inner()))?;
        let value = found.normalized_value(XmlVersion::Implicit1_0).ok()?;
        Some(value.into_owned())
    }
}

/// Walks through a document until it ends or there is nothing more to see.
pub(super) fn walk(
    document: &str,
    mut see: impl FnMut(Node<'_>) -> Result<bool, Problem>,
) -> Result<(), Problem> {
    let mut reader = Reader::from_str(document);
    reader.config_mut().check_end_names = false;
    reader.config_mut().allow_unmatched_ends = true;
    let mut depth: usize = 0;
    loop {
        let more = match reader.read_event().map_err(|_| Problem::Damaged)? {
            Event::Start(start) => {
                depth += 1;
                if depth > DEEPEST {
                    return Err(Problem::Bomb);
                }
                see(Node::Start(&Element(&start)))?
            }
            Event::Empty(start) => {
                see(Node::Start(&Element(&start)))?
                    && see(Node::End(start.local_name().into_inner()))?
            }
            Event::End(end) => {
                depth = depth.saturating_sub(1);
                see(Node::End(end.local_name().into_inner()))?
            }
            Event::Text(text) => see(Node::Text(&text.xml10_content()))?,
            Event::CData(text) => see(Node::Text(&text.xml10_content()))?,
            Event::GeneralRef(name) => match meant(&name) {
                Some(c) => see(Node::Text(c.encode_utf8(&mut [0; 4])))?,
                None => true,
            },
            Event::DocType(_) => return Err(Problem::Damaged),
            Event::Comment(_) | Event::Decl(_) | Event::PI(_) => true,
            Event::Eof => return Ok(()),
        };
        if !more {
            return Ok(());
        }
    }
}

/// The character that a reference means: by number, or one of the five that XML knows.
fn meant(name: &BytesRef<'_>) -> Option<char> {
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

/// The text of paragraphs and tables, as Word and PowerPoint both write it: a paragraph is a line, and
/// so is a row of a table, with tabs between its cells.
pub(super) fn paragraphs(document: &str, skip: &[&str], out: &mut Out) -> Result<(), Problem> {
    let (mut words, mut cells, mut skipped) = (false, 0_usize, 0_usize);
    walk(document, |node| {
        match node {
            Node::Start(element) => match element.name() {
                name if skip.contains(&name) => skipped += 1,
                _ if skipped > 0 => {}
                "t" => words = true,
                "tab" => out.push("\t"),
                "br" | "cr" => out.line(),
                "tc" => cells += 1,
                _ => {}
            },
            Node::End(name) => match name {
                name if skip.contains(&name) => skipped = skipped.saturating_sub(1),
                _ if skipped > 0 => {}
                "t" => words = false,
                "p" if cells > 0 => out.space(),
                "p" => out.line(),
                "tc" => {
                    cells = cells.saturating_sub(1);
                    out.cell();
                }
                "tr" => out.line(),
                _ => {}
            },
            Node::Text(text) if words && skipped == 0 => out.push(text),
            Node::Text(_) => {}
        }
        Ok(!out.is_full())
    })
}
