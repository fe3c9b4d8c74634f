//! Tables as text (RFC 4180): cells are quoted where they must be, and none is a formula.

use super::{MakeFile, failed};
use crate::files::Fault;
use serde_json::Value;
use std::borrow::Cow;

/// What a spreadsheet takes for the beginning of a formula.
const FORMULA: [char; 6] = ['=', '+', '-', '@', '\t', '\r'];

pub(super) fn make(request: &MakeFile) -> Result<String, Fault> {
    match (&request.rows, &request.content) {
        (Some(rows), _) if !rows.is_empty() => {
            let rows = rows.iter().map(|row| row.iter().map(text).collect());
            Ok(written(rows))
        }
        (_, Some(Value::String(content))) if !content.trim().is_empty() => Ok(safe(content)),
        _ => Err(failed(
            "`rows` must be the rows of the table, or `content` its text",
        )),
    }
}

/// A table that somebody wrote as text: as it is if nothing in it is a formula.
fn safe(content: &str) -> String {
    let rows = parsed(content);
    if rows.iter().flatten().any(|cell| is_formula(cell)) {
        written(rows)
    } else {
        content.to_owned()
    }
}

fn written<C: AsRef<str>>(rows: impl IntoIterator<Item = Vec<C>>) -> String {
    let mut table = String::new();
    for row in rows {
        // An empty line would be no row.
        let lone = row.len() == 1;
        for (index, cell) in row.iter().enumerate() {
            if index > 0 {
                table.push(',');
            }
            push(&mut table, cell.as_ref(), lone);
        }
        table.push_str("\r\n");
    }
    table
}

fn push(table: &mut String, cell: &str, lone: bool) {
    let cell = if is_formula(cell) {
        Cow::Owned(format!("'{cell}"))
    } else {
        Cow::Borrowed(cell)
    };
    let spaced = cell.starts_with(' ') || cell.ends_with(' ');
    if cell.contains(['"', ',', '\r', '\n']) || spaced || (lone && cell.is_empty()) {
        table.push('"');
        table.push_str(&cell.replace('"', "\"\""));
        table.push('"');
    } else {
        table.push_str(&cell);
    }
}

/// Whether a spreadsheet would take a cell for a formula. A number is none, whatever its sign.
fn is_formula(cell: &str) -> bool {
    let begins = cell.trim_start_matches(' ').starts_with(FORMULA);
    begins && !is_number(cell)
}

fn is_number(cell: &str) -> bool {
    let cell = cell.trim().trim_end_matches('%');
    let plain = |c: char| c.is_ascii_digit() || matches!(c, '+' | '-' | '.' | ',' | 'e' | 'E');
    cell.chars().all(plain) && cell.replace(',', "").parse::<f64>().is_ok()
}

/// A cell as text.
pub(super) fn text(value: &Value) -> Cow<'_, str> {
    match value {
        Value::Null => Cow::Borrowed(""),
        Value::String(text) => Cow::Borrowed(text),
        Value::Bool(true) => Cow::Borrowed("TRUE"),
        Value::Bool(false) => Cow::Borrowed("FALSE"),
        other => Cow::Owned(other.to_string()),
    }
}

/// The rows of a table that is text.
pub(super) fn parsed(content: &str) -> Vec<Vec<String>> {
    let content = content.trim_start_matches('\u{feff}');
    let (mut rows, mut row, mut cell) = (Vec::new(), Vec::new(), String::new());
    let (mut quoted, mut begun) = (false, false);
    let mut letters = content.chars().peekable();
    while let Some(c) = letters.next() {
        match c {
            '"' if quoted && letters.peek() == Some(&'"') => {
                letters.next();
                cell.push('"');
            }
            '"' if quoted => quoted = false,
            '"' if cell.is_empty() => (quoted, begun) = (true, true),
            c if quoted => cell.push(c),
            ',' => {
                row.push(std::mem::take(&mut cell));
                begun = true;
            }
            '\r' if letters.peek() == Some(&'\n') => {}
            '\n' | '\r' => {
                if begun || !cell.is_empty() {
                    row.push(std::mem::take(&mut cell));
                }
                rows.push(std::mem::take(&mut row));
                begun = false;
            }
            c => cell.push(c),
        }
    }
    if begun || !cell.is_empty() {
        row.push(cell);
        rows.push(row);
    }
    rows
}
