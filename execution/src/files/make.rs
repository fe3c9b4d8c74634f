//! Files that an agent makes: tables, texts and workbooks.

use super::{Fault, FileRules, Kind, safe_name};
use interzone_protocol::zone::ErrorWord;
use serde::Deserialize;
use serde_json::Value;

/// What file to make, as a model asks for it.
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

/// Makes a file.
///
/// # Errors
/// It may not be made, or what was asked for makes none.
pub fn make(request: &MakeFile, rules: &FileRules) -> Result<Made, Fault> {
    let name = request.file_name.as_deref().unwrap_or_default();
    let kind = Kind::from_name(name).unwrap_or(Kind::Text);
    let refused = |why: super::Refused| Fault::new(ErrorWord::ToolFailure, why.to_string());
    rules.check_type(kind.media_type()).map_err(refused)?;
    let content = request.content.as_ref().and_then(Value::as_str);
    let bytes = content.unwrap_or_default().as_bytes().to_vec();
    rules
        .check_size(u64::try_from(bytes.len()).unwrap_or(u64::MAX))
        .map_err(refused)?;
    Ok(Made {
        name: safe_name(name, kind.media_type()),
        media_type: kind.media_type(),
        bytes,
    })
}
