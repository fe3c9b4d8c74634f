//! Generates files for agents: tables, texts and workbooks.
//!
//! A generated table must not execute anything when it is opened: in CSV a cell that would be a formula gets a `'` in
//! front, in a workbook every text is stored as text.

mod csv;
mod workbook;

use super::{FileError, FileKind, FileRules, Language, OutputRefused, safe_name};
use interzone_protocol::zone::ErrorReason;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt;

/// Kinds that can be generated.
const GENERATED_KINDS: [FileKind; 5] = [
    FileKind::Csv,
    FileKind::Json,
    FileKind::Text,
    FileKind::Markdown,
    FileKind::Xlsx,
];

/// A file to generate, as a model requests it.
///
/// ```
/// use interzone_execution::files::{FileRequest, FileRules, generate_file};
///
/// let request: FileRequest = serde_json::from_str(
///     r#"{"file_name": "sales", "format": "csv", "rows": [["name", "sum"], ["=1+1", -5]]}"#,
/// )?;
/// let file = generate_file(&request, &FileRules::default()).unwrap();
/// assert_eq!(file.name, "sales.csv");
/// assert_eq!(file.bytes, b"name,sum\r\n'=1+1,-5\r\n");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct FileRequest {
    /// Requested name.
    #[serde(default)]
    pub file_name: Option<String>,
    /// `csv`, `json`, `txt`, `md` or `xlsx`; if absent, the media type or the name decides.
    #[serde(default)]
    pub format: Option<String>,
    /// The media type.
    #[serde(default)]
    pub media_type: Option<String>,
    /// The content as text; for JSON also as a value.
    #[serde(default)]
    pub content: Option<Value>,
    /// The rows of a table, for `csv` and for a workbook of one sheet.
    #[serde(default)]
    pub rows: Option<Vec<Vec<Value>>>,
    /// The sheets of a workbook.
    #[serde(default)]
    pub sheets: Option<Vec<Sheet>>,
}

/// A sheet of a workbook.
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct Sheet {
    /// Its name.
    #[serde(default)]
    pub name: Option<String>,
    /// Its rows.
    #[serde(default)]
    pub rows: Vec<Vec<Value>>,
}

impl FileRequest {
    /// Returns the JSON schema of a request, with only the formats that the rules allow.
    pub fn schema(rules: &FileRules) -> Value {
        let formats: Vec<&str> = GENERATED_KINDS
            .into_iter()
            .filter(|kind| rules.check_type(kind.media_type()).is_ok())
            .map(FileKind::extension)
            .collect();
        let cell = json!({"type": ["string", "number", "boolean", "null"]});
        let rows = json!({"type": "array", "items": {"type": "array", "items": cell}});
        json!({
            "type": "object",
            "properties": {
                "file_name": {"type": "string", "description": "The name of the file, with its extension."},
                "format": {"type": "string", "enum": formats},
                "content": {"type": "string", "description": "The whole content, for csv, json, txt and md."},
                "rows": rows,
                "sheets": {
                    "type": "array",
                    "description": "The sheets of an xlsx file.",
                    "items": {
                        "type": "object",
                        "properties": {"name": {"type": "string"}, "rows": rows},
                        "required": ["rows"],
                    },
                },
            },
            "required": ["file_name", "format"],
        })
    }

    /// Returns the requested kind: by the format, else by the media type, else by the name.
    fn kind(&self) -> Option<FileKind> {
        let format = self.format.as_deref().filter(|format| !format.is_empty());
        let media_type = self.media_type.as_deref().filter(|it| !it.is_empty());
        let kind = match (format, media_type) {
            (Some(format), _) => {
                let format = format.trim().trim_start_matches('.');
                FileKind::from_extension(format).or_else(|| FileKind::from_media_type(format))
            }
            (None, Some(media_type)) => FileKind::from_media_type(media_type),
            (None, None) => FileKind::from_name(self.file_name.as_deref()?),
        };
        kind.filter(|kind| GENERATED_KINDS.contains(kind))
    }
}

/// A generated file.
#[derive(Clone, PartialEq, Eq)]
pub struct GeneratedFile {
    /// Its safe name.
    pub name: String,
    /// Its media type.
    pub media_type: &'static str,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for GeneratedFile {
    /// Shows only the size: file contents do not belong in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GeneratedFile")
            .field("name", &self.name)
            .field("media_type", &self.media_type)
            .field("bytes", &self.bytes.len())
            .finish()
    }
}

/// Generates a file. Its type is checked before, its size after.
///
/// # Errors
/// The file is not allowed (`unsupported_file_type`, `file_too_large`), or the request is invalid (`tool_failure`).
pub fn generate_file(request: &FileRequest, rules: &FileRules) -> Result<GeneratedFile, FileError> {
    let name = request.file_name.as_deref().unwrap_or_default();
    let kind = request
        .kind()
        .ok_or_else(|| invalid_request("the format must be csv, json, txt, md or xlsx"))?;
    let name = safe_name(name, kind.media_type());
    let to_error = |reason: OutputRefused| {
        let code = match reason {
            OutputRefused::Type => ErrorReason::UnsupportedFileType,
            _ => ErrorReason::FileTooLarge,
        };
        FileError::new(code, reason.user_message(&name, Language::English))
    };
    rules.check_type(kind.media_type()).map_err(to_error)?;
    let bytes = match kind {
        FileKind::Csv => csv::generate(request)?.into_bytes(),
        FileKind::Json => to_json(request)?.into_bytes(),
        FileKind::Xlsx => workbook::generate(request)?,
        _ => to_text(request)?.into_bytes(),
    };
    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    rules.check_size(size).map_err(to_error)?;
    Ok(GeneratedFile {
        name,
        media_type: kind.media_type(),
        bytes,
    })
}

fn to_text(request: &FileRequest) -> Result<String, FileError> {
    match &request.content {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        _ => Err(invalid_request("`content` must be the text of the file")),
    }
}

fn to_json(request: &FileRequest) -> Result<String, FileError> {
    let text = match &request.content {
        Some(Value::String(text)) => {
            let valid = serde_json::from_str::<serde::de::IgnoredAny>(text);
            valid.map_err(|_| invalid_request("`content` is not valid JSON"))?;
            text.clone()
        }
        Some(value) => format!("{value:#}\n"),
        None => return Err(invalid_request("`content` must be the JSON of the file")),
    };
    Ok(text)
}

fn invalid_request(text: &str) -> FileError {
    FileError::new(ErrorReason::ToolFailure, text)
}

#[cfg(test)]
mod tests;
