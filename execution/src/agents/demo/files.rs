//! Files that the demo agent generates.
//!
//! File names consist of a few safe characters for every request.

use crate::files::{self, FileError, FileKind, FileRequest, FileRules, GeneratedFile};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use interzone_protocol::vocab::{Artifact, ArtifactId, InvalidId, Part};
use serde_json::{Map, Value};

/// Number of table rows below the header.
const ROWS: usize = 3;

/// Maximum length of a file name without its extension.
const MAX_NAME_LENGTH: usize = 40;

/// Returns the file kind for an extension, if this agent generates it.
pub(super) fn kind_from_extension(name: &str) -> Option<FileKind> {
    let kinds = [
        FileKind::Csv,
        FileKind::Json,
        FileKind::Text,
        FileKind::Markdown,
    ];
    let name = name.to_ascii_lowercase();
    kinds.into_iter().find(|kind| kind.extension() == name)
}

/// Converts the file to an artifact. `sequence` distinguishes it from other artifacts of the task, and is the same
/// when the turn is retried.
pub(super) fn into_artifact(
    file: GeneratedFile,
    sequence: usize,
    author: &str,
) -> Result<Artifact, InvalidId> {
    let size = u64::try_from(file.bytes.len()).unwrap_or(u64::MAX);
    let part = Part::file(STANDARD.encode(&file.bytes))
        .with_filename(file.name.clone())
        .with_media_type(file.media_type)
        .with_size(size);
    let id = ArtifactId::new(format!("demo-file-{sequence}"))?;
    Ok(Artifact::new(id, file.name)
        .with_created_by(author)
        .with_part(part))
}

/// Generates the requested file.
pub(super) fn generate(kind: FileKind, text: &str) -> Result<GeneratedFile, FileError> {
    let content = match kind {
        FileKind::Csv => csv(text),
        FileKind::Json => json(text),
        FileKind::Markdown => markdown(text),
        _ if text.is_empty() => "A text file, made by the demo agent.\n".to_owned(),
        _ => format!("{text}\n"),
    };
    let request = FileRequest {
        file_name: Some(file_name(text)),
        format: Some(kind.extension().to_owned()),
        content: Some(Value::String(content)),
        ..FileRequest::default()
    };
    files::generate_file(&request, &FileRules::default())
}

/// Returns `demo` plus the plain words of the text: never a path, never a name that a system reserves.
fn file_name(text: &str) -> String {
    let mut name = "demo".to_owned();
    let words = text.split(|c: char| !c.is_ascii_alphanumeric());
    for word in words.filter(|word| !word.is_empty()) {
        if name.len() + word.len() >= MAX_NAME_LENGTH {
            break;
        }
        name.push('-');
        name.push_str(&word.to_ascii_lowercase());
    }
    name
}

/// Generates a table with these columns and a few rows.
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

/// Returns the text if it is JSON, else an object of its `name=value` pairs, else an object with the text.
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

    fn content(kind: FileKind, text: &str) -> String {
        String::from_utf8(generate(kind, text).unwrap().bytes).unwrap()
    }

    #[test]
    fn csv_rows_have_all_columns() {
        let table = content(FileKind::Csv, "a, \"b\"");
        assert_eq!(
            table,
            "a,\"\"\"b\"\"\"\r\na 1,\"\"\"b\"\" 1\"\r\na 2,\"\"\"b\"\" 2\"\r\na 3,\"\"\"b\"\" 3\"\r\n"
        );
        assert!(content(FileKind::Csv, "").starts_with("name,value\r\n"));
        assert!(content(FileKind::Csv, ",").starts_with("\"\",\"\"\r\n"));
        // Spreadsheet formulas are escaped.
        assert!(content(FileKind::Csv, "=1+1,b").starts_with("'=1+1,b\r\n"));
    }

    #[test]
    fn json_output_is_always_valid() {
        for (text, pointer, expected) in [
            (r#"{"a": [1]}"#, "/a/0", Value::from(1)),
            ("a=1 b=two", "/b", Value::from("two")),
            ("a=1 b=two", "/a", Value::from(1)),
            ("just \"words\"", "/text", Value::from("just \"words\"")),
            ("", "/text", Value::from("")),
        ] {
            let value: Value = serde_json::from_str(&content(FileKind::Json, text)).unwrap();
            assert_eq!(value.pointer(pointer), Some(&expected), "{text}");
        }
    }

    #[test]
    fn file_names_are_safe_and_short() {
        for (text, expected) in [
            ("a,b", "demo-a-b.txt"),
            ("../../etc/passwd", "demo-etc-passwd.txt"),
            ("con", "demo-con.txt"),
            ("Привет", "demo.txt"),
            ("", "demo.txt"),
        ] {
            assert_eq!(generate(FileKind::Text, text).unwrap().name, expected);
        }
        assert!(
            generate(FileKind::Text, &"word ".repeat(100))
                .unwrap()
                .name
                .len()
                <= MAX_NAME_LENGTH + 4
        );
        assert_eq!(
            generate(FileKind::Text, &"x".repeat(100)).unwrap().name,
            "demo.txt"
        );
    }

    #[test]
    fn markdown_starts_with_its_title() {
        assert_eq!(
            content(FileKind::Markdown, "# Report\nAll is well."),
            "# Report\n\nAll is well.\n"
        );
        assert!(content(FileKind::Markdown, "").starts_with("# A demo\n"));
    }
}
