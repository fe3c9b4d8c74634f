//! Workbooks. Texts are stored as texts, so that none is a formula; numbers stay numbers.

mod package;

use super::csv::{parsed, text};
use super::{MakeFile, Sheet, failed};
use crate::files::Fault;
use package::{Book, Cell};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashSet;
use std::io;

/// Sheets of a workbook.
const SHEETS: usize = 100;

/// Cells of a workbook: more would not fit into any file that may leave.
const CELLS: usize = 1_000_000;

/// UTF-16 units of a cell and of a sheet's name, as Excel has it.
const CELL: usize = 32_767;
const NAME: usize = 31;

/// The largest whole number that a cell holds exactly.
const EXACT: u64 = 1 << 53;

pub(super) fn make(request: &MakeFile) -> Result<Vec<u8>, Fault> {
    let sheets = sheets(request)?;
    let cells: usize = sheets
        .iter()
        .flat_map(|sheet| &sheet.rows)
        .map(Vec::len)
        .sum();
    if sheets.len() > SHEETS || cells > CELLS {
        return Err(failed("the workbook has too many sheets or cells"));
    }
    written(&sheets).map_err(|_| failed("the workbook cannot be made"))
}

fn written(sheets: &[Sheet]) -> io::Result<Vec<u8>> {
    let mut taken = HashSet::new();
    let names = (1..).zip(sheets).map(|(number, sheet)| {
        let asked = sheet.name.as_deref().unwrap_or_default();
        name(asked, number, &mut taken)
    });
    let mut book = Book::new(&names.collect::<Vec<_>>())?;
    for sheet in sheets {
        book.sheet(sheet.rows.iter().map(|row| row.iter().map(cell)))?;
    }
    book.finish()
}

/// The sheets that were asked for, or the one that rows or a table in text make.
fn sheets(request: &MakeFile) -> Result<Cow<'_, [Sheet]>, Fault> {
    let one = |rows| Cow::Owned(vec![Sheet { name: None, rows }]);
    match (&request.sheets, &request.rows, &request.content) {
        (Some(sheets), _, _) if !sheets.is_empty() => Ok(Cow::Borrowed(sheets)),
        (_, Some(rows), _) if !rows.is_empty() => Ok(one(rows.clone())),
        (_, _, Some(Value::String(content))) if !content.trim().is_empty() => {
            let row = |row: Vec<String>| row.into_iter().map(number_or_text).collect();
            Ok(one(parsed(content).into_iter().map(row).collect()))
        }
        _ => Err(failed(
            "`sheets` must be the sheets of the workbook, each with `rows`",
        )),
    }
}

/// In a table that is text, only what is written as a plain number is one: no leading zeros are lost.
fn number_or_text(cell: String) -> Value {
    match serde_json::from_str::<serde_json::Number>(&cell) {
        Ok(number) if number.to_string() == cell => Value::Number(number),
        _ => Value::String(cell),
    }
}

fn cell(value: &Value) -> Cell<'_> {
    match value {
        Value::Bool(value) => Cell::Bool(*value),
        Value::Number(number) if let Some(value) = exact(number) => Cell::Number(value),
        other => match text(other) {
            text if text.is_empty() => Cell::Empty,
            Cow::Borrowed(text) => Cell::Text(Cow::Borrowed(cut(text, CELL))),
            Cow::Owned(text) => Cell::Text(Cow::Owned(cut(&text, CELL).to_owned())),
        },
    }
}

/// The beginning of a text, of so many UTF-16 units as Excel counts.
fn cut(text: &str, most: usize) -> &str {
    let mut left = most;
    let end = text.char_indices().find(|(_, c)| {
        let fits = left.checked_sub(c.len_utf16());
        left = fits.unwrap_or(left);
        fits.is_none()
    });
    end.and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

/// A number that a cell can hold; longer ones, such as those of orders and cards, would change.
fn exact(number: &serde_json::Number) -> Option<f64> {
    let whole = number.as_u64().or(number.as_i64().map(i64::unsigned_abs));
    match whole {
        Some(whole) if whole > EXACT => None,
        _ => number.as_f64().filter(|value| value.is_finite()),
    }
}

/// A name for a sheet that Excel takes and no other sheet has.
fn name(asked: &str, number: usize, taken: &mut HashSet<String>) -> String {
    let plain = |c: &char| {
        let taboo = matches!(
            c,
            '[' | ']' | ':' | '*' | '?' | '/' | '\\' | '\u{fffe}' | '\u{ffff}'
        );
        !c.is_control() && !taboo
    };
    let clean: String = asked.chars().filter(plain).collect();
    let clean = cut(&clean, NAME).trim_matches(['\'', ' ']).to_owned();
    let reserved = clean.is_empty() || clean.eq_ignore_ascii_case("history");
    let mut name = match reserved {
        true => format!("Sheet{number}"),
        false => clean,
    };
    let mut next = number;
    while !taken.insert(name.to_lowercase()) {
        name = format!("Sheet{next}");
        next += 1;
    }
    name
}
