//! Text of one PDF page, in drawing order.
//!
//! A line ends where the vertical position changes, and a word where there is a gap.

use super::super::TextSink;
use super::{MAX_STREAM_BYTES, to_problem};
use crate::files::FileProblem;
use lopdf::content::{Content, Operation};
use lopdf::{DecompressError, Dictionary, Document, Encoding, Error, Object, ObjectId};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// Maximum nesting depth of forms, and maximum number of forms on a page.
const MAX_FORM_DEPTH: usize = 4;
const MAX_FORMS: usize = 500;

/// Gap between letters, in thousandths of their size, that separates words.
const WORD_GAP: f32 = -180.0;

/// Cache of font encodings, shared by all pages.
#[derive(Default)]
pub(super) struct FontCache<'a>(HashMap<*const Dictionary, Option<Rc<Encoding<'a>>>>);

/// Limits of one page.
struct PageLimits<'l> {
    /// Bytes that the document may still unpack to.
    remaining: &'l mut usize,
    forms: usize,
}

pub(super) fn extract<'a>(
    document: &'a Document,
    page: ObjectId,
    fonts: &mut FontCache<'a>,
    remaining: &mut usize,
    out: &mut TextSink,
) -> Result<(), FileProblem> {
    let max = MAX_STREAM_BYTES.min(*remaining);
    let content = match document.get_page_content_with_limit(page, max) {
        Ok(content) => content,
        Err(Error::Decompress(DecompressError::MemoryLimitExceeded { .. })) => {
            return Err(FileProblem::Bomb);
        }
        // An unreadable page does not affect the others.
        Err(_) => return Ok(()),
    };
    let page_fonts = document.get_page_fonts(page).unwrap_or_default();
    let (own, inherited) = document.get_page_resources(page).unwrap_or_default();
    let inherited = inherited
        .into_iter()
        .filter_map(|id| document.get_dictionary(id).ok());
    let resources: Vec<&Dictionary> = own.into_iter().chain(inherited).collect();
    let mut limits = PageLimits {
        remaining,
        forms: MAX_FORMS,
    };
    let mut reader = PageReader {
        document,
        fonts,
        out,
    };
    reader.extract_content(&content, page_fonts, &resources, &mut limits, 0)
}

struct PageReader<'a, 'r> {
    document: &'a Document,
    fonts: &'r mut FontCache<'a>,
    out: &'r mut TextSink,
}

impl<'a> PageReader<'a, '_> {
    fn extract_content(
        &mut self,
        content: &[u8],
        page_fonts: BTreeMap<Vec<u8>, &'a Dictionary>,
        resources: &[&'a Dictionary],
        limits: &mut PageLimits<'_>,
        depth: usize,
    ) -> Result<(), FileProblem> {
        *limits.remaining = limits
            .remaining
            .checked_sub(content.len())
            .ok_or(FileProblem::Bomb)?;
        let Ok(content) = Content::decode(content) else {
            return Ok(());
        };
        let mut encoding: Option<Rc<Encoding<'a>>> = None;
        let mut height: Option<f32> = None;
        for operation in &content.operations {
            if self.out.is_full() {
                break;
            }
            match operation.operator.as_str() {
                "Tf" => {
                    let name = operation
                        .operands
                        .first()
                        .and_then(|name| name.as_name().ok());
                    let font = name.and_then(|name| page_fonts.get(name)).copied();
                    encoding = match font {
                        Some(font) => self.font_encoding(font, limits)?,
                        None => None,
                    };
                }
                "Tj" | "TJ" => self.push_text(&encoding, &operation.operands),
                "'" | "\"" => {
                    self.out.end_line();
                    let last = operation.operands.last();
                    self.push_text(&encoding, last.map_or(&[], std::slice::from_ref));
                }
                "T*" => self.out.end_line(),
                "ET" => self.out.end_word(),
                "Td" | "TD" => match number_operand(operation, 1) {
                    Some(down) if down != 0.0 => self.out.end_line(),
                    _ => self.out.end_word(),
                },
                "Tm" => {
                    let now = number_operand(operation, 5);
                    if now != height {
                        self.out.end_line();
                    } else {
                        self.out.end_word();
                    }
                    height = now;
                }
                "Do" => self.extract_form(operation, resources, limits, depth)?,
                _ => {}
            }
        }
        self.out.end_line();
        Ok(())
    }

    /// Extracts the text of a form: content that several pages may share.
    fn extract_form(
        &mut self,
        operation: &Operation,
        resources: &[&'a Dictionary],
        limits: &mut PageLimits<'_>,
        depth: usize,
    ) -> Result<(), FileProblem> {
        let document = self.document;
        let name = operation
            .operands
            .first()
            .and_then(|name| name.as_name().ok());
        let found = name.and_then(|name| {
            resources.iter().find_map(|resources| {
                let forms = resources
                    .get_deref(b"XObject", document)
                    .ok()?
                    .as_dict()
                    .ok()?;
                forms.get_deref(name, document).ok()?.as_stream().ok()
            })
        });
        let Some(form) = found else { return Ok(()) };
        let is_form = form.dict.get(b"Subtype").and_then(Object::as_name).ok() == Some(b"Form");
        if !is_form || depth >= MAX_FORM_DEPTH || limits.forms == 0 {
            return Ok(());
        }
        limits.forms -= 1;
        let content = match form
            .get_plain_content_with_limit(MAX_STREAM_BYTES.min(*limits.remaining))
        {
            Ok(content) => content,
            Err(error) if to_problem(&error) == FileProblem::Bomb => return Err(FileProblem::Bomb),
            Err(_) => return Ok(()),
        };
        let own = form.dict.get_deref(b"Resources", document);
        let own = own.and_then(Object::as_dict).ok();
        let resources: Vec<&'a Dictionary> = match own {
            Some(own) => vec![own],
            None => resources.to_vec(),
        };
        let mut form_fonts = BTreeMap::new();
        for resources in &resources {
            let fonts = resources.get_deref(b"Font", document);
            for (name, font) in fonts.and_then(Object::as_dict).into_iter().flatten() {
                let font = document.dereference(font).map(|(_, font)| font);
                if let Ok(font) = font.and_then(Object::as_dict) {
                    form_fonts.entry(name.clone()).or_insert(font);
                }
            }
        }
        self.extract_content(&content, form_fonts, &resources, limits, depth + 1)
    }

    /// Returns the text encoding of a font.
    fn font_encoding(
        &mut self,
        font: &'a Dictionary,
        limits: &mut PageLimits<'_>,
    ) -> Result<Option<Rc<Encoding<'a>>>, FileProblem> {
        let key = std::ptr::from_ref(font);
        if let Some(cached) = self.fonts.0.get(&key) {
            return Ok(cached.clone());
        }
        let max = MAX_STREAM_BYTES.min(*limits.remaining);
        let table = font.get_deref(b"ToUnicode", self.document);
        if let Ok(Object::Stream(table)) = table {
            let size = match table.get_plain_content_with_limit(max) {
                Ok(table) => table.len(),
                Err(error) if to_problem(&error) == FileProblem::Bomb => {
                    return Err(FileProblem::Bomb);
                }
                Err(_) => 0,
            };
            *limits.remaining = limits
                .remaining
                .checked_sub(size)
                .ok_or(FileProblem::Bomb)?;
        }
        let result = match font.get_font_encoding_with_limit(self.document, max) {
            Ok(encoding) => Some(Rc::new(encoding)),
            Err(error) if to_problem(&error) == FileProblem::Bomb => return Err(FileProblem::Bomb),
            Err(_) => None,
        };
        self.fonts.0.insert(key, result.clone());
        Ok(result)
    }

    fn push_text(&mut self, encoding: &Option<Rc<Encoding<'a>>>, operands: &[Object]) {
        let Some(encoding) = encoding else { return };
        for operand in operands {
            match operand {
                Object::String(bytes, _) => {
                    if let Ok(text) = Document::decode_text(encoding, bytes) {
                        let plain = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
                        let text: String = text.chars().filter(|c| plain(*c)).collect();
                        self.out.push(&text);
                    }
                }
                Object::Array(inner) => {
                    for piece in inner {
                        match piece {
                            Object::Integer(_) | Object::Real(_) => {
                                if piece.as_float().is_ok_and(|gap| gap < WORD_GAP) {
                                    self.out.end_word();
                                }
                            }
                            // Arrays are not nested.
                            Object::Array(_) => {}
                            piece => {
                                self.push_text(&Some(encoding.clone()), std::slice::from_ref(piece))
                            }
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

fn number_operand(operation: &Operation, index: usize) -> Option<f32> {
    operation.operands.get(index)?.as_float().ok()
}
