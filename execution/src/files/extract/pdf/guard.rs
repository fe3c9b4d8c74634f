//! What keeps the loading of a PDF within bounds.
//!
//! The library unpacks two things by itself: tables of objects (cross-reference streams), whose entries
//! it keeps, and streams of objects, which it takes apart. It bounds each of them, but not their number,
//! nor how often one of them is named. So the first are counted before it begins, and the second while
//! it is at it, object by object; the same look notices when time is over.

use super::super::{bomb, locked, too_slow, unreadable};
use super::STREAM;
use crate::files::Fault;
use lopdf::{DecompressError, Dictionary, Error, Object, ObjectId, Stream};
use std::cell::Cell;
use std::time::Instant;

/// Bytes that all tables of objects may unpack to: some millions of objects.
const TABLES: usize = 8 * 1024 * 1024;

/// Bytes that all streams of objects may unpack to.
const OBJECTS: usize = 32 * 1024 * 1024;

/// How many values there may be in all objects.
const VALUES: usize = 2_000_000;

/// How far a dictionary is followed.
const DICTIONARY: usize = 64 * 1024;

/// How much of a packed stream is looked at if it seems to end sooner.
const PACKED: usize = 256 * 1024;

thread_local! {
    static BUDGET: Cell<Option<Budget>> = const { Cell::new(None) };
}

#[derive(Clone, Copy)]
struct Budget {
    until: Instant,
    bytes: usize,
    values: usize,
}

/// Watches over the loading that goes on in this thread, until it is dropped.
pub(super) struct Guard;

impl Guard {
    /// Watches over the loading of a file with so many bytes.
    pub(super) fn set(until: Instant, size: usize) -> Self {
        BUDGET.set(Some(Budget {
            until,
            // Every stream once, and a little for those that are named again.
            bytes: OBJECTS.saturating_add(size.saturating_mul(2)),
            values: VALUES,
        }));
        Self
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        BUDGET.set(None);
    }
}

/// Looks at an object before it is kept. There is no other way to make the library stop than to
/// unwind; whoever called it catches that.
pub(super) fn watch(id: ObjectId, object: &mut Object) -> Option<(ObjectId, Object)> {
    if let Some(mut budget) = BUDGET.get() {
        let charged = budget.charge(object);
        BUDGET.set(Some(budget));
        if let Err(fault) = charged {
            std::panic::resume_unwind(Box::new(fault));
        }
    }
    // What is given back counts for members of a stream of objects, which are never streams
    // themselves; of all others only whether something is given back.
    let kept = match object {
        Object::Stream(_) => Object::Null,
        other => other.clone(),
    };
    Some((id, kept))
}

impl Budget {
    fn charge(&mut self, object: &Object) -> Result<(), Fault> {
        if Instant::now() > self.until {
            return Err(too_slow());
        }
        self.values = self.values.checked_sub(count(object)).ok_or_else(bomb)?;
        let Object::Stream(stream) = object else {
            return Ok(());
        };
        self.spend(stream.content.len())?;
        if stream.dict.has_type(b"ObjStm") {
            let content = match stream.get_plain_content_with_limit(STREAM) {
                Ok(content) => content,
                Err(Error::Decompress(DecompressError::MemoryLimitExceeded { .. })) => {
                    return Err(bomb());
                }
                Err(_) => return Ok(()),
            };
            self.spend(content.len())?;
            self.values = self.values.checked_sub(values(&content)).ok_or_else(bomb)?;
            let first = stream.dict.get(b"First").and_then(Object::as_i64);
            let first = first.ok().and_then(|first| usize::try_from(first).ok());
            if !first.is_some_and(|first| are_apart(&content, first)) {
                return Err(unreadable());
            }
        }
        Ok(())
    }

    fn spend(&mut self, bytes: usize) -> Result<(), Fault> {
        self.bytes = self.bytes.checked_sub(bytes).ok_or_else(bomb)?;
        Ok(())
    }
}

/// Whether the members of a stream of objects are beside each other. If they lay inside each other, or
/// one was named often, the same bytes would become many objects.
fn are_apart(content: &[u8], first: usize) -> bool {
    let (Some(index), Some(members)) = (content.get(..first), content.get(first..)) else {
        return false;
    };
    let Ok(index) = std::str::from_utf8(index) else {
        return false;
    };
    let mut places: Vec<usize> = index
        .split_ascii_whitespace()
        .skip(1)
        .step_by(2)
        .map_while(|place| place.parse().ok())
        .collect();
    places.sort_unstable();
    let (mut at, mut depth) = (0, 0_usize);
    let mut before = None;
    for place in places {
        if before == Some(place) {
            return false;
        }
        before = Some(place);
        while at < place {
            match members.get(at) {
                None => return true,
                Some(b'%') => at = line_end(members, at),
                Some(b'(') => match string_end(members, at, members.len()) {
                    Some(end) => at = end,
                    None => return true,
                },
                Some(b'[' | b'<') => (at, depth) = (at + 1, depth + 1),
                Some(b']' | b'>') => (at, depth) = (at + 1, depth.saturating_sub(1)),
                Some(_) => at += 1,
            }
        }
        if at != place || depth != 0 {
            return false;
        }
    }
    true
}

/// About how many values there are in a text: words that something separates.
pub(super) fn values(content: &[u8]) -> usize {
    let apart = |byte: u8| is_space(byte) || b"()<>[]{}/%".contains(&byte);
    let mut before = true;
    let mut count = 0;
    for byte in content {
        let now = apart(*byte);
        // What a bracket opens is a value of its own, even if it is empty.
        if (before && !now) || matches!(byte, b'[' | b'(' | b'<' | b'/') {
            count += 1;
        }
        before = now;
    }
    count
}

/// How many bytes a stream unpacks to; nothing if they are too many.
fn unpacked(stream: &Stream) -> Option<usize> {
    match stream.get_plain_content_with_limit(STREAM) {
        Ok(content) => Some(content.len()),
        Err(Error::Decompress(DecompressError::MemoryLimitExceeded { .. })) => None,
        Err(_) => Some(0),
    }
}

/// How many values there are in an object. The library bounds their depth.
fn count(object: &Object) -> usize {
    let dictionary = |dictionary: &Dictionary| -> usize {
        dictionary.iter().map(|(_, value)| 1 + count(value)).sum()
    };
    match object {
        Object::Array(values) => 1 + values.iter().map(count).sum::<usize>(),
        Object::Dictionary(values) => 1 + dictionary(values),
        Object::Stream(stream) => 1 + dictionary(&stream.dict),
        Object::String(text, _) => 1 + text.len() / 64,
        _ => 1,
    }
}

/// Looks at the bytes themselves, wherever an object may begin: is the document locked, and what do its
/// tables unpack to?
pub(super) fn scan(bytes: &[u8]) -> Result<(), Fault> {
    let mut left = TABLES;
    let mut from = 0;
    if is_locked(bytes) {
        return Err(locked());
    }
    while let Some(found) = find(bytes, from, b"obj") {
        from = found + 3;
        // `endobj` begins nothing.
        let header = found.checked_sub(1).and_then(|before| bytes.get(before));
        if !header.is_some_and(|byte| is_space(*byte) || byte.is_ascii_digit()) {
            continue;
        }
        let Some(head) = Head::read(bytes, from) else {
            continue;
        };
        if head.has_widths && head.has_size {
            let size = head.unpacked(bytes);
            left = left.checked_sub(size).ok_or_else(bomb)?;
        }
    }
    Ok(())
}

/// Whether there is a dictionary that says how the document is locked. It is never packed itself.
fn is_locked(bytes: &[u8]) -> bool {
    let mut from = 0;
    while let Some(found) = bytes
        .get(from..)
        .and_then(|rest| rest.iter().position(|byte| *byte == b'/'))
    {
        from += found + 1;
        if name(bytes, from).0 == b"Encrypt" {
            return true;
        }
    }
    false
}

/// What matters of the dictionary of a stream.
#[derive(Default)]
struct Head {
    has_widths: bool,
    has_size: bool,
    filters: Vec<Vec<u8>>,
    /// Where the content begins.
    content: usize,
}

impl Head {
    /// Follows the words behind `obj` to the content; nothing if it is not the dictionary of a stream.
    fn read(bytes: &[u8], mut at: usize) -> Option<Self> {
        let end = at.saturating_add(DICTIONARY);
        let mut head = Self::default();
        while at < end {
            match *bytes.get(at)? {
                b'%' => at = line_end(bytes, at),
                b'(' => at = string_end(bytes, at, end)?,
                b'/' => {
                    let (name, next) = name(bytes, at + 1);
                    match name.as_slice() {
                        b"W" => head.has_widths = true,
                        b"Size" => head.has_size = true,
                        known if known.ends_with(b"Decode") && head.filters.len() < 8 => {
                            head.filters.push(name);
                        }
                        _ => {}
                    }
                    at = next;
                }
                b's' if bytes.get(at..at + 6)? == b"stream" => {
                    let after = bytes.get(at + 6..)?;
                    let line = match after {
                        [b'\r', b'\n', ..] => 2,
                        [b'\n' | b'\r', ..] => 1,
                        _ => 0,
                    };
                    head.content = at + 6 + line;
                    return Some(head);
                }
                b'e' if bytes.get(at..at + 6)? == b"endobj" => return None,
                _ => at += 1,
            }
        }
        // Nobody writes so much before a stream, unless to hide it.
        find(bytes, at, b"stream").map(|found| Self {
            has_widths: true,
            has_size: true,
            filters: vec![b"FlateDecode".to_vec()],
            content: found + 6,
        })
    }

    fn unpacked(&self, bytes: &[u8]) -> usize {
        let rest = bytes.get(self.content..).unwrap_or_default();
        let end = find(rest, 0, b"endstream").unwrap_or(rest.len());
        if self.filters.is_empty() {
            return end;
        }
        let packed = rest.get(..end.max(PACKED)).unwrap_or(rest);
        let filters = self.filters.iter().cloned().map(Object::Name).collect();
        let dictionary = Dictionary::from_iter([("Filter", Object::Array(filters))]);
        unpacked(&Stream::new(dictionary, packed.to_vec())).unwrap_or(STREAM)
    }
}

/// A name without its slash, and where it ends. `#41` in it means `A`.
fn name(bytes: &[u8], mut at: usize) -> (Vec<u8>, usize) {
    let mut name = Vec::new();
    while let Some(&byte) = bytes.get(at) {
        if is_space(byte) || b"()<>[]{}/%".contains(&byte) || name.len() > 127 {
            break;
        }
        let digit = |index: usize| {
            let digit = char::from(*bytes.get(index)?).to_digit(16)?;
            u8::try_from(digit).ok()
        };
        match (byte, digit(at + 1), digit(at + 2)) {
            (b'#', Some(high), Some(low)) => {
                name.push(high * 16 + low);
                at += 3;
            }
            _ => {
                name.push(byte);
                at += 1;
            }
        }
    }
    (name, at)
}

fn line_end(bytes: &[u8], at: usize) -> usize {
    let rest = bytes.get(at..).unwrap_or_default();
    let line = rest.iter().position(|byte| matches!(byte, b'\r' | b'\n'));
    at + line.unwrap_or(rest.len()).max(1)
}

/// Where a string in brackets ends.
fn string_end(bytes: &[u8], mut at: usize, end: usize) -> Option<usize> {
    let mut depth = 0_usize;
    while at < end {
        match *bytes.get(at)? {
            b'\\' => at += 1,
            b'(' => depth += 1,
            b')' => depth = depth.saturating_sub(1),
            _ => {}
        }
        at += 1;
        if depth == 0 {
            break;
        }
    }
    Some(at)
}

fn find(bytes: &[u8], from: usize, what: &[u8]) -> Option<usize> {
    let rest = bytes.get(from..)?;
    let first = *what.first()?;
    let mut at = 0;
    loop {
        let next = rest.get(at..)?.iter().position(|byte| *byte == first)?;
        at += next;
        if rest.get(at..at + what.len()) == Some(what) {
            return Some(from + at);
        }
        at += 1;
    }
}

const fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t' | b'\r' | b'\n' | b'\x0c' | 0)
}
