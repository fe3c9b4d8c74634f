//! Files that an agent makes: tables, texts and workbooks.
//!
//! A table must not run anything on the machine of whoever opens it: in CSV a cell that would be a
//! formula gets a `'` in front, in a workbook every text is stored as text.

mod csv;
mod workbook;

use super::{Fault, FileRules, Kind, Language, Refused, safe_name};
use interzone_protocol::zone::ErrorWord;
use serde::Deserialize;
use serde_json::{Value, json};
use std::fmt;

/// The kinds that can be made.
const KINDS: [Kind; 5] = [
    Kind::Csv,
    Kind::Json,
    Kind::Text,
    Kind::Markdown,
    Kind::Xlsx,
];

/// What file to make, as a model asks for it.
///
/// ```
/// use interzone_execution::files::{FileRules, MakeFile, make};
///
/// let asked: MakeFile = serde_json::from_str(
///     r#"{"file_name": "sales", "format": "csv", "rows": [["name", "sum"], ["=1+1", -5]]}"#,
/// )?;
/// let made = make(&asked, &FileRules::default()).unwrap();
/// assert_eq!(made.name, "sales.csv");
/// assert_eq!(made.bytes, b"name,sum\r\n'=1+1,-5\r\n");
/// # Ok::<(), serde_json::Error>(())
/// ```
#[derive(Clone, Debug, Default, PartialEq, Deserialize)]
pub struct MakeFile {
    /// What it is to be called.
    #[serde(default)]
    pub file_name: Option<String>,
    /// `csv`, `json`, `txt`, `md` or `xlsx`; else the media type or the name decides.
    #[serde(default)]
    pub format: Option<String>,
    /// The media type.
    #[serde(default)]
    pub media_type: Option<String>,
    /// The content as text; for JSON also as it is.
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

impl MakeFile {
    /// What a model may ask for, as a JSON schema: only the formats that the rules let out.
    pub fn schema(rules: &FileRules) -> Value {
        let formats: Vec<&str> = KINDS
            .into_iter()
            .filter(|kind| rules.check_type(kind.media_type()).is_ok())
            .map(Kind::extension)
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

    /// What is to be made: by the format, else by the media type, else by the name.
    fn kind(&self) -> Option<Kind> {
        let format = self.format.as_deref().filter(|format| !format.is_empty());
        let media_type = self.media_type.as_deref().filter(|it| !it.is_empty());
        let kind = match (format, media_type) {
            (Some(format), _) => {
                let format = format.trim().trim_start_matches('.');
                Kind::from_extension(format).or_else(|| Kind::from_media_type(format))
            }
            (None, Some(media_type)) => Kind::from_media_type(media_type),
            (None, None) => Kind::from_name(self.file_name.as_deref()?),
        };
        kind.filter(|kind| KINDS.contains(kind))
    }
}

/// A file that was made.
#[derive(Clone, PartialEq, Eq)]
pub struct Made {
    /// Its name, a safe one.
    pub name: String,
    /// Its media type.
    pub media_type: &'static str,
    /// Its bytes.
    pub bytes: Vec<u8>,
}

impl fmt::Debug for Made {
    /// The size only: files do not belong in a log.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Made")
            .field("name", &self.name)
            .field("media_type", &self.media_type)
            .field("bytes", &self.bytes.len())
            .finish()
    }
}

/// Makes a file. Whether its type may leave is seen before it is made, and its size after.
///
/// # Errors
/// It may not be made (`unsupported_file_type`, `file_too_large`), or what was asked for makes none
/// (`tool_failure`).
pub fn make(request: &MakeFile, rules: &FileRules) -> Result<Made, Fault> {
    let name = request.file_name.as_deref().unwrap_or_default();
    let kind = request
        .kind()
        .ok_or_else(|| failed("the format must be csv, json, txt, md or xlsx"))?;
    let name = safe_name(name, kind.media_type());
    let refused = |why: Refused| {
        let word = match why {
            Refused::Type => ErrorWord::UnsupportedFileType,
            _ => ErrorWord::FileTooLarge,
        };
        Fault::new(word, why.sentence(&name, Language::English))
    };
    rules.check_type(kind.media_type()).map_err(refused)?;
    let bytes = match kind {
        Kind::Csv => csv::make(request)?.into_bytes(),
        Kind::Json => to_json(request)?.into_bytes(),
        Kind::Xlsx => workbook::make(request)?,
        _ => to_text(request)?.into_bytes(),
    };
    let size = u64::try_from(bytes.len()).unwrap_or(u64::MAX);
    rules.check_size(size).map_err(refused)?;
    Ok(Made {
        name,
        media_type: kind.media_type(),
        bytes,
    })
}

fn to_text(request: &MakeFile) -> Result<String, Fault> {
    match &request.content {
        Some(Value::String(text)) if !text.is_empty() => Ok(text.clone()),
        _ => Err(failed("`content` must be the text of the file")),
    }
}

fn to_json(request: &MakeFile) -> Result<String, Fault> {
    let text = match &request.content {
        Some(Value::String(text)) => {
            let valid = serde_json::from_str::<serde::de::IgnoredAny>(text);
            valid.map_err(|_| failed("`content` is not valid JSON"))?;
            text.clone()
        }
        Some(value) => format!("{value:#}\n"),
        None => return Err(failed("`content` must be the JSON of the file")),
    };
    Ok(text)
}

fn failed(text: &str) -> Fault {
    Fault::new(ErrorWord::ToolFailure, text)
}

#[cfg(test)]
mod tests;
