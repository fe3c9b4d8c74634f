//! CSV tables (RFC 4180): cells are quoted where required, and none is a formula.

use super::{FileRequest, invalid_request};
use crate::files::FileError;
use serde_json::Value;
use std::borrow::Cow;

/// Characters with which a formula starts in a spreadsheet.
const FORMULA_PREFIXES: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

pub(super) fn generate(request: &FileRequest) -> Result<String, FileError> {
    match (&request.rows, &request.content) {
        (Some(rows), _) if !rows.is_empty() => {
            let rows = rows.iter().map(|row| row.iter().map(cell_text).collect());
            Ok(write_rows(rows))
        }
        (_, Some(Value::String(content))) if !content.trim().is_empty() => {
            Ok(without_formulas(content))
        }
        _ => Err(invalid_request(
            "`rows` must be the rows of the table, or `content` its text",
        )),
    }
}

/// Returns a table that is given as text, unchanged if it contains no formula.
fn without_formulas(content: &str) -> String {
    let rows = parse_rows(content);
    if rows.iter().flatten().any(|cell| is_formula(cell)) {
        write_rows(rows)
    } else {
        content.to_owned()
    }
}

fn write_rows<C: AsRef<str>>(rows: impl IntoIterator<Item = Vec<C>>) -> String {
    let mut table = String::new();
    for row in rows {
        // An empty line would not be a row.
        let is_single = row.len() == 1;
        for (index, cell) in row.iter().enumerate() {
            if index > 0 {
                table.push(',');
            }
            push_cell(&mut table, cell.as_ref(), is_single);
        }
        table.push_str("\r\n");
    }
    table
}

fn push_cell(table: &mut String, cell: &str, is_single: bool) {
    let cell = if is_formula(cell) {
        Cow::Owned(format!("'{cell}"))
    } else {
        Cow::Borrowed(cell)
    };
    let spaced = cell.starts_with(' ') || cell.ends_with(' ');
    if cell.contains(['"', ',', '\r', '\n']) || spaced || (is_single && cell.is_empty()) {
        table.push('"');
        table.push_str(&cell.replace('"', "\"\""));
        table.push('"');
    } else {
        table.push_str(&cell);
    }
}

/// Returns true if a spreadsheet would interpret a cell as a formula. Numbers are not formulas, even with a sign.
fn is_formula(cell: &str) -> bool {
    let has_prefix = cell.trim_start_matches(' ').starts_with(FORMULA_PREFIXES);
    has_prefix && !is_number(cell)
}

fn is_number(cell: &str) -> bool {
    let cell = cell.trim().trim_end_matches('%');
    let plain = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | ',' | 'e' | 'E');
    cell.chars().all(plain) && cell.replace(',', "").parse::<f64>().is_ok()
}

/// Formats a cell as text.
pub(super) fn cell_text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::String(text) => Cow::Borrowed(text),
        Value::Bool(true) => Cow::Borrowed("TRUE"),
        Value::Bool(false) => Cow::Borrowed("FALSE"),
        other => Cow::Owned(other.to_string()),
    }
}

/// Parses the rows of a CSV table.
pub(super) fn parse_rows(content: &str) -> Vec<Vec<String>> {
    let content = content.trim_start_matches('\u{feff}');
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let (mut quoted, mut row_started) = (false, false);
    let mut chars = content.chars().peekable();
    while let Some(c) = chars.next() {
        match c {
            '"' if quoted && chars.peek() == Some(&'"') => {
                chars.next();
                cell.push('"');
            }
            '"' if quoted => quoted = false,
            '"' if cell.is_empty() => (quoted, row_started) = (true, true),
            c if quoted => cell.push(c),
            ',' => {
                row.push(std::mem::take(&mut cell));
                row_started = true;
            }
            '\r' if chars.peek() == Some(&'\n') => {}
            '\n' | '\r' => {
                if row_started || !cell.is_empty() {
                    row.push(std::mem::take(&mut cell));
                }
                rows.push(std::mem::take(&mut row));
                row_started = false;
            }
            c => cell.push(c),
        }
    }
    if row_started || !cell.is_empty() {
        row.push(cell);
        rows.push(row);
    }
    rows
}
