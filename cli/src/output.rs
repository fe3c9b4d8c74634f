//! Standard output, as text or JSON.
//!
//! All text from other parties passes through `printable` before it reaches the terminal.

use crate::exit::Failure;
use crate::printable;
use clap::ValueEnum;
use interzone_client::WatchEvent;
use serde::Serialize;
use serde_json::ser::{Formatter, Serializer};
use serde_json::{Map, Value, json};
use std::io::{self, BufWriter, Write};

/// Output format.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub(crate) enum OutputFormat {
    /// Human-readable text
    #[default]
    Text,
    /// One line of JSON
    Json,
}

/// Calls `answer` with standard output and returns its result; the default if the reader has closed the pipe.
///
/// # Errors
/// The answer could not be written.
pub(crate) fn write_with_result<T: Default>(
    answer: impl FnOnce(&mut dyn Write) -> io::Result<T>,
) -> Result<T, Failure> {
    let mut result = T::default();
    write(|out| {
        result = answer(out)?;
        Ok(())
    })?;
    Ok(result)
}

/// Calls `answer` with standard output.
///
/// A closed pipe (`| head`) is not an error.
///
/// # Errors
/// The output could not be written.
pub(crate) fn write(answer: impl FnOnce(&mut dyn Write) -> io::Result<()>) -> Result<(), Failure> {
    let mut out = BufWriter::new(io::stdout().lock());
    match answer(&mut out).and_then(|()| out.flush()) {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other.map_err(Failure::Output),
    }
}

/// Writes a value as one line of JSON without terminal control characters.
pub(crate) fn write_json(out: &mut dyn Write, value: &impl Serialize) -> io::Result<()> {
    value.serialize(&mut Serializer::with_formatter(
        &mut *out,
        PrintableFormatter,
    ))?;
    writeln!(out)
}

/// Writes JSON of a peer unchanged, except for terminal control characters.
///
/// The text must be valid JSON: then such characters occur only in strings, where an escape means the same, or
/// between values, where they mean nothing.
pub(crate) fn write_raw_json(out: &mut dyn Write, json: &str) -> io::Result<()> {
    out.write_all(escape_json(json).as_bytes())
}

fn escape_json(json: &str) -> String {
    let mut units = [0; 2];
    let mut text = String::with_capacity(json.len());
    for c in json.chars() {
        match c {
            '\n' | '\r' | '\t' => text.push(' '),
            c if printable::is_printable(c) => text.push(c),
            c => {
                for unit in c.encode_utf16(&mut units) {
                    text.extend(escape(*unit).map(char::from));
                }
            }
        }
    }
    text
}

/// JSON formatter that writes terminal control characters as `\u` escapes, which parsers turn back into the
/// same string.
struct PrintableFormatter;

impl Formatter for PrintableFormatter {
    /// Raw JSON is escaped like our own.
    fn write_raw_fragment<W: Write + ?Sized>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        out.write_all(escape_json(fragment).as_bytes())
    }

    fn write_string_fragment<W: Write + ?Sized>(
        &mut self,
        out: &mut W,
        fragment: &str,
    ) -> io::Result<()> {
        let mut units = [0; 2];
        let mut remaining = fragment;
        while let Some((at, unsafe_char)) = remaining
            .char_indices()
            .find(|(_, c)| !printable::is_printable(*c))
        {
            let (safe, after) = remaining.split_at(at);
            out.write_all(safe.as_bytes())?;
            for unit in unsafe_char.encode_utf16(&mut units) {
                out.write_all(&escape(*unit))?;
            }
            remaining = after.get(unsafe_char.len_utf8()..).unwrap_or_default();
        }
        out.write_all(remaining.as_bytes())
    }
}

/// Formats `\uXXXX` by hand, as a string may contain tens of millions of them.
fn escape(unit: u16) -> [u8; 6] {
    let digit = |shift: u16| match u8::try_from(unit >> shift & 0xf).unwrap_or_default() {
        nibble @ 0..=9 => b'0' + nibble,
        nibble => b'a' - 10 + nibble,
    };
    [b'\\', b'u', digit(12), digit(8), digit(4), digit(0)]
}

/// Converts an event of a watch to a JSON object, as docs/cli.md describes it: `event` is its name, `sequence` the value for `--after`.
pub(crate) fn event_json(event: &WatchEvent, sequence: Option<u64>) -> Value {
    let (name, members) = match event {
        WatchEvent::StatusChange(task) => ("status", json!({"task": task})),
        WatchEvent::Message(message) => ("message", json!({"message": message})),
        WatchEvent::Artifact(artifact) => ("artifact", json!({"artifact": artifact})),
        WatchEvent::Text { run, offset, delta } => (
            "text",
            json!({"run": run, "offset": offset, "delta": delta}),
        ),
        WatchEvent::StatusLine(text) => ("note", json!({"text": text})),
        WatchEvent::Completed(task) => ("completed", json!({"task": task})),
        WatchEvent::Failed(task) => ("failed", json!({"task": task})),
        WatchEvent::Chunk(chunk) => ("chunk", json!({"chunk": chunk})),
        WatchEvent::StreamState { status, reason } => {
            ("state", json!({"status": status, "reason": reason}))
        }
        WatchEvent::Other { method, params } => {
            let params: Option<Value> = params.as_ref().and_then(|params| params.decode().ok());
            ("other", json!({"method": method, "params": params}))
        }
        _ => ("other", json!({})),
    };
    let mut line = Map::new();
    line.insert("event".to_owned(), name.into());
    line.insert("sequence".to_owned(), sequence.into());
    if let Value::Object(members) = members {
        line.extend(members);
    }
    Value::Object(line)
}

#[cfg(test)]
mod tests {
    use super::{write_json, write_raw_json};

    #[test]
    fn raw_json_is_escaped_and_equivalent() {
        let raw = "{\n\t\"a\": [1.50, \"\u{9b}\u{202e}\\n\u{e0041}\"]}";
        let mut out = Vec::new();
        write_raw_json(&mut out, raw).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("1.50") && text.is_ascii(), "{text}");
        let read = |text: &str| serde_json::from_str::<serde_json::Value>(text).unwrap();
        assert_eq!(read(&text), read(raw));
        let value: Box<serde_json::value::RawValue> = serde_json::from_str(raw).unwrap();
        let mut out = Vec::new();
        write_json(&mut out, &[value]).unwrap();
        assert_eq!(String::from_utf8(out).unwrap(), format!("[{text}]\n"));
    }

    #[test]
    fn json_is_escaped_and_equivalent() {
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
