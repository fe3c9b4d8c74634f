//! Answers on standard output, in words or as JSON.
//!
//! What an answer says is the command's business. Nothing that somebody else wrote reaches the
//! terminal from here without passing through `printable`.

use crate::exit::Failure;
use crate::printable;
use clap::ValueEnum;
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use std::io::{self, BufWriter, Write};

/// The form of an answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// Sentences, for people
    #[default]
    Text,
    /// One line of JSON, for programs
    Json,
}

/// Lets `answer` write to standard output, and gives what it gives; the default if nobody reads.
///
/// # Errors
/// The answer could not be written.
pub(crate) fn write_and<T: Default>(
    answer: impl FnOnce(&mut dyn Write) -> io::Result<T>,
) -> Result<T, Failure> {
    let mut given = T::default();
    write(|out| {
        given = answer(out)?;
        Ok(())
    })?;
    Ok(given)
}

/// Lets `answer` write to standard output.
///
/// A reader that has gone away (`| head`) has seen what it wanted, so that is no failure.
///
/// # Errors
/// The answer could not be written.
pub(crate) fn write(answer: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    match answer(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(Failure::Output),
    }
}

/// Writes a value as one line of JSON that is safe to look at.
pub(crate) fn write_json(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(&mut *out, Printable))?;
    writeln!(out)
}

/// Writes JSON that somebody else wrote, letter for letter but for characters that drive a terminal.
///
/// The text must be valid JSON: then such characters stand in strings alone, where an escape means the
/// same, or between values, where they mean nothing.
pub(crate) fn write_raw_json(out: &mut dyn Write, json: &str) -> io::Result<()> {
    out.write_all(tame_json(json).as_bytes())
}

fn tame_json(json: &str) -> String {
    let mut units = [0; 2];
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\n' | '\r' | '\t' => text.push(' '),
            c if printable::is_tame(c) => text.push(c),
            c => {
                for unit in c.encode_utf16(&mut units) {
                    text.extend(escape(*unit).map(char::from));
                }
            }
        }
    }
    text
}

/// JSON without the characters that drive a terminal: they become `\u` escapes, which every reader
/// of JSON turns back into the same string.
struct Printable;

impl Formatter for Printable {
    /// JSON that was kept as it came is no different from what we write ourselves.
    fn write_raw_fragment<W: Write + ?Sized>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        out.write_all(tame_json(fragment).as_bytes())
    }

    fn write_string_fragment<W: Write + ?Sized>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut units = [0; 2];
        let mut rest = fragment;
        while let Some((at, wild)) = rest.char_indices().find(|(_, c)| !printable::is_tame(*c)) {
            let (tame, after) = rest.split_at(at);
            out.write_all(tame.as_bytes())?;
            for unit in wild.encode_utf16(&mut units) {
                out.write_all(&escape(*unit))?;
            }
            rest = after.get(wild.len_utf8()..).unwrap_or_default();
        }
        out.write_all(rest.as_bytes())
    }
}

/// `\uXXXX`, by hand, as a string may hold tens of millions of them.
fn escape(unit: u16) -> [u8; 6] {
    let digit = |shift: u16| match u8::try_from(unit >> shift & 0xf).unwrap_or_default() {
        nibble @ 0..=9 => b'0' + nibble,
        nibble => b'a' - 10 + nibble,
    };
    [b'\\', b'u', digit(12), digit(8), digit(4), digit(0)]
}

#[cfg(test)]
mod tests {
    use super::{write_json, write_raw_json};

    #[test]
    fn raw_json_is_tame_and_means_the_same() {
        let raw = "{\n\t\"a\": [1.50, \"\u{9b}\u{202e}\\n\u{e0041}\"]}";
        let mut out = Vec::new();
        write_raw_json(&mut out, raw).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("1.50") && text.is_ascii(), "{text}");
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(read(&text), read(raw));
        let kept: Box<serde_json::value::RawValue> = serde_json::from_str(raw).unwrap();
        let mut out = Vec::new();
        write_json(&mut out, &[kept]).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), format!("[{text}]\n"));
    }

    #[test]
    fn json_is_tame_and_means_the_same() {
        let hostile = "a\u{9b}31m\u{202e}\u{1b}\u{e0041}\"\\ü日";
        let mut out = Vec::new();
        write_json(&mut out, &hostile).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert_eq!(
            text,
            "\"a\\u009b31m\\u202e\\u001b\\udb40\\udc41\\\"\\\\ü日\"\n"
        );
        assert_eq!(serde_json::from_str::<String>(&text).unwrap(), hostile);
    }
}
