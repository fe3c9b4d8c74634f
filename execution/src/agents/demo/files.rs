//! The files that the demo agent makes: real ones, which other programs open.
//!
//! Names are made of a few safe characters, whatever was asked for.

use crate::files::{self, Fault, FileRules, Kind, Made, MakeFile};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use interzone_protocol::vocab::{Artifact, ArtifactId, InvalidId, Part};
use serde_json::{Map, Value};

/// How many rows a table has, its head aside.
const ROWS: usize = 3;

/// How much of what was asked for is in a file's name.
const LONGEST_NAME: usize = 40;

/// The kind of file that somebody names, if it is one that this agent makes.
pub(super) fn kind(name: &str) -> Option<Kind> {
    let kinds = [Kind::Csv, Kind::Json, Kind::Text, Kind::Markdown];
    let name = name.to_ascii_lowercase();
    kinds.into_iter().find(|kind| kind.extension() == name)
}

/// The file as an artifact. `place` tells it from others of its task, and is the same when the turn is
/// run again.
pub(super) fn into_artifact(made: Made, place: usize, by: &str) -> Result<Artifact, InvalidId> {
    let size = u64::try_from(made.bytes.len()).unwrap_or(u64::MAX);
    let part = Part::file(STANDARD.encode(&made.bytes))
        .with_filename(made.name.clone())
        .with_media_type(made.media_type)
        .with_size(size);
    let id = ArtifactId::new(format!("demo-file-{place}"))?;
    Ok(Artifact::new(id, made.name)
        .with_created_by(by)
        .with_part(part))
}

/// Makes a file from what was asked for.
pub(super) fn make(kind: Kind, text: &str) -> Result<Made, Fault> {
    let content = match kind {
        Kind::Csv => csv(text),
        Kind::Json => json(text),
        Kind::Markdown => markdown(text),
        _ if text.is_empty() => "A text file, made by the demo agent.\n".to_owned(),
        _ => format!("{text}\n"),
    };
    let request = MakeFile {
        file_name: Some(name(text)),
        format: Some(kind.extension().to_owned()),
        content: Some(Value::String(content)),
        ..MakeFile::default()
    };
    files::make(&request, &FileRules::default())
}

/// `demo`, and what is plain in the text: never a path, never a name that some system reserves.
fn name(text: &str) -> String {
    let mut name = "demo".to_owned();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    for word in words.filter(|word| !word.is_empty()) {
        if name.len() + word.len() >= LONGEST_NAME {
            break;
        }
        name.push('-');
        name.push_str(&word.to_ascii_lowercase());
    }
    name
}

/// A table with these columns and a few rows.
fn csv(text: &str) -> String {
    let text = if text.is_empty() { "name,value" } else { text };
    let columns: Vec<&str> = text.split(',').map(str::trim).collect();
    let line = |fields: Vec<String>| {
        let fields: Vec<String> = fields.iter().map(|field| csv_field(field)).collect();
        format!("{}\r\n", fields.join(","))
    };
    let mut table = line(columns.iter().map(|&column| column.to_owned()).collect());
    for row in 1..=ROWS {
        let fields = columns.iter().map(|column| format!("{column} {row}"));
        table.push_str(&line(fields.map(|field| field.trim().to_owned()).collect()));
    }
    table
}

fn csv_field(field: &str) -> String {
    if field.contains(['"', ',', '\r', '\n']) || field.is_empty() {
        format!("\"{}\"", field.replace('"', "\"\""))
    } else {
        field.to_owned()
    }
}

/// What was given if it is JSON, an object of its `name=value` pairs, or an object with the text.
fn json(text: &str) -> String {
    let pairs = || -> Option<Value> {
        let pair = |word: &str| {
            let (name, value) = word.split_once('=')?;
            let value = serde_json::from_str(value).unwrap_or_else(|_| Value::from(value));
            Some((name.to_owned(), value))
        };
        let pairs: Option<Map<String, Value>> = text.split_whitespace().map(pair).collect();
        pairs.filter(|pairs| !pairs.is_empty()).map(Value::Object)
    };
    let value = serde_json::from_str::<Value>(text).ok().or_else(pairs);
    let value = value.unwrap_or_else(|| serde_json::json!({ "text": text }));
    format!("{value:#}\n")
}

fn markdown(text: &str) -> String {
    let (title, body) = text.split_once('\n').unwrap_or((text, ""));
    let title = if title.is_empty() { "A demo" } else { title };
    let body = match body.trim() {
        "" => "Made by the demo agent.",
        body => body,
    };
    format!("# {}\n\n{body}\n", title.trim_start_matches('#').trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn content(kind: Kind, text: &str) -> String {
        String::from_utf8(make(kind, text).unwrap().bytes).unwrap()
    }

    #[test]
    fn a_table_has_its_columns_in_every_row() {
        let table = content(Kind::Csv, "a, \"b\"");
        assert_eq!(
            table,
            "a,\"\"\"b\"\"\"\r\na 1,\"\"\"b\"\" 1\"\r\na 2,\"\"\"b\"\" 2\"\r\na 3,\"\"\"b\"\" 3\"\r\n"
        );
        assert!(content(Kind::Csv, "").starts_with("name,value\r\n"));
        assert!(content(Kind::Csv, ",").starts_with("\"\",\"\"\r\n"));
        // What a spreadsheet would run is text.
        assert!(content(Kind::Csv, "=1+1,b").starts_with("'=1+1,b\r\n"));
    }

    #[test]
    fn json_is_json_whatever_was_given() {
        for (text, pointer, expected) in [
            (r#"{"a": [1]}"#, "/a/0", Value::from(1)),
            ("a=1 b=two", "/b", Value::from("two")),
            ("a=1 b=two", "/a", Value::from(1)),
            ("just \"words\"", "/text", Value::from("just \"words\"")),
            ("", "/text", Value::from("")),
        ] {
            let value: Value = serde_json::from_str(&content(Kind::Json, text)).unwrap();
            assert_eq!(value.pointer(pointer), Some(&expected), "{text}");
        }
    }

    #[test]
    fn names_are_safe_and_short() {
        for (text, expected) in [
            ("a,b", "demo-a-b.txt"),
            ("../../etc/passwd", "demo-etc-passwd.txt"),
            ("con", "demo-con.txt"),
            ("Привет", "demo.txt"),
            ("", "demo.txt"),
        ] {
            assert_eq!(make(Kind::Text, text).unwrap().name, expected);
        }
        assert!(make(Kind::Text, &"word ".repeat(100)).unwrap().name.len() <= LONGEST_NAME + 4);
        assert_eq!(make(Kind::Text, &"x".repeat(100)).unwrap().name, "demo.txt");
    }

    #[test]
    fn markdown_begins_with_its_title() {
        assert_eq!(
            content(Kind::Markdown, "# Report\nAll is well."),
            "# Report\n\nAll is well.\n"
        );
        assert!(content(Kind::Markdown, "").starts_with("# A demo\n"));
    }
}
