//! The words of one page, in the order in which they are drawn.
//!
//! A line ends where the next words stand at another height, and a word where there is a gap.

use super::super::Out;
use super::{STREAM, problem};
use crate::files::Problem;
use lopdf::content::{Content, Operation};
use lopdf::{DecompressError, Dictionary, Document, Encoding, Error, Object, ObjectId};
use std::collections::{BTreeMap, HashMap};
use std::rc::Rc;

/// How deep forms may be inside each other, and how many one page may show.
const DEEPEST: usize = 4;
const FORMS: usize = 500;

/// A gap between letters, in thousandths of their size, that is one between words.
const GAP: f32 = -180.0;

/// The fonts that were met, so that those of many pages are read once.
#[derive(Default)]
pub(super) struct Fonts<'a>(HashMap<*const Dictionary, Option<Rc<Encoding<'a>>>>);

/// What one page may take.
struct Limits<'l> {
    /// Bytes that the document may still unpack to.
    left: &'l mut usize,
    forms: usize,
}

pub(super) fn read<'a>(
    document: &'a Document,
    page: ObjectId,
    fonts: &mut Fonts<'a>,
    left: &mut usize,
    out: &mut Out,
) -> Result<(), Problem> {
    let most = STREAM.min(*left);
    let content = match document.get_page_content_with_limit(page, most) {
        Ok(content) => content,
        Err(Error::Decompress(DecompressError::MemoryLimitExceeded { .. })) => {
            return Err(Problem::Bomb);
        }
        // A page that cannot be read leaves the others as they are.
        Err(_) => return Ok(()),
    };
    let known = document.get_page_fonts(page).unwrap_or_default();
    let (own, inherited) = document.get_page_resources(page).unwrap_or_default();
    let inherited = inherited
        .into_iter()
        .filter_map(|id| document.get_dictionary(id).ok());
    let resources: Vec<&Dictionary> = own.into_iter().chain(inherited).collect();
    let mut limits = Limits { left, forms: FORMS };
    let mut reader = Reader {
        document,
        fonts,
        out,
    };
    reader.content(&content, known, &resources, &mut limits, 0)
}

struct Reader<'a, 'r> {
    document: &'a Document,
    fonts: &'r mut Fonts<'a>,
    out: &'r mut Out,
}

impl<'a> Reader<'a, '_> {
    fn content(
        &mut self,
        content: &[u8],
        known: BTreeMap<Vec<u8>, &'a Dictionary>,
        resources: &[&'a Dictionary],
        limits: &mut Limits<'_>,
        depth: usize,
    ) -> Result<(), Problem> {
        *limits.left = limits
            .left
            .checked_sub(content.len())
            .ok_or(Problem::Bomb)?;
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
                    let font = name.and_then(|name| known.get(name)).copied();
                    encoding = match font {
                        Some(font) => self.encoding(font, limits)?,
                        None => None,
                    };
                }
                "Tj" | "TJ" => self.words(&encoding, &operation.operands),
                "'" | "\"" => {
                    self.out.line();
                    let last = operation.operands.last();
                    self.words(&encoding, last.map_or(&[], std::slice::from_ref));
                }
                "T*" => self.out.line(),
                "ET" => self.out.space(),
                "Td" | "TD" => match at(operation, 1) {
                    Some(down) if down != 0.0 => self.out.line(),
                    _ => self.out.space(),
                },
                "Tm" => {
                    let now = at(operation, 5);
                    if now != height {
                        self.out.line();
                    } else {
                        self.out.space();
                    }
                    height = now;
                }
                "Do" => self.form(operation, resources, limits, depth)?,
                _ => {}
            }
        }
        self.out.line();
        Ok(())
    }

    /// Words that several pages share, drawn in one go.
    fn form(
        &mut self,
        operation: &Operation,
        resources: &[&'a Dictionary],
        limits: &mut Limits<'_>,
        depth: usize,
    ) -> Result<(), Problem> {
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
        if !is_form || depth >= DEEPEST || limits.forms == 0 {
            return Ok(());
        }
        limits.forms -= 1;
        let content = match form.get_plain_content_with_limit(STREAM.min(*limits.left)) {
            Ok(content) => content,
            Err(error) if problem(&error) == Problem::Bomb => return Err(Problem::Bomb),
            Err(_) => return Ok(()),
        };
        let own = form.dict.get_deref(b"Resources", document);
        let own = own.and_then(Object::as_dict).ok();
        let resources: Vec<&'a Dictionary> = match own {
            Some(own) => vec![own],
            None => resources.to_vec(),
        };
        let mut known = BTreeMap::new();
        for resources in &resources {
            let fonts = resources.get_deref(b"Font", document);
            for (name, font) in fonts.and_then(Object::as_dict).into_iter().flatten() {
                let font = document.dereference(font).map(|(_, font)| font);
                if let Ok(font) = font.and_then(Object::as_dict) {
                    known.entry(name.clone()).or_insert(font);
                }
            }
        }
        self.content(&content, known, &resources, limits, depth + 1)
    }

    /// How the letters of a font are spelled.
    fn encoding(
        &mut self,
        font: &'a Dictionary,
        limits: &mut Limits<'_>,
    ) -> Result<Option<Rc<Encoding<'a>>>, Problem> {
        let key = std::ptr::from_ref(font);
        if let Some(known) = self.fonts.0.get(&key) {
            return Ok(known.clone());
        }
        let most = STREAM.min(*limits.left);
        let table = font.get_deref(b"ToUnicode", self.document);
        if let Ok(Object::Stream(table)) = table {
            let size = match table.get_plain_content_with_limit(most) {
                Ok(table) => table.len(),
                Err(error) if problem(&error) == Problem::Bomb => return Err(Problem::Bomb),
                Err(_) => 0,
            };
            *limits.left = limits.left.checked_sub(size).ok_or(Problem::Bomb)?;
        }
        let read = match font.get_font_encoding_with_limit(self.document, most) {
            Ok(encoding) => Some(Rc::new(encoding)),
            Err(error) if problem(&error) == Problem::Bomb => return Err(Problem::Bomb),
            Err(_) => None,
        };
        self.fonts.0.insert(key, read.clone());
        Ok(read)
    }

    fn words(&mut self, encoding: &Option<Rc<Encoding<'a>>>, operands: &[Object]) {
        let Some(encoding) = encoding else { return };
        for operand in operands {
            match operand {
                Object::String(bytes, _) => {
                    if let Ok(words) = Document::decode_text(encoding, bytes) {
                        let plain = |c: char| !c.is_control() || matches!(c, '\n' | '\t');
                        let words: String = words.chars().filter(|c| plain(*c)).collect();
                        self.out.push(&words);
                    }
                }
                Object::Array(inner) => {
                    for piece in inner {
                        match piece {
                            Object::Integer(_) | Object::Real(_) => {
                                if piece.as_float().is_ok_and(|gap| gap < GAP) {
                                    self.out.space();
                                }
                            }
                            // One level of arrays is all that there is.
                            Object::Array(_) => {}
                            piece => {
                                self.words(&Some(encoding.clone()), std::slice::from_ref(piece))
                            }
                        }
                    }
                }
                _ => {}
            }
        }
    }
}

fn at(operation: &Operation, index: usize) -> Option<f32> {
    operation.operands.get(index)?.as_float().ok()
}
