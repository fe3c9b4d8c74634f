//! Generates workbooks. Texts are stored as text, so that none is a formula; numbers stay numbers.

use super::csv::{cell_text, parse_rows};
use super::{FileRequest, Sheet, invalid_request};
use crate::files::FileError;
use rust_xlsxwriter::{DocProperties, ExcelDateTime, Format, Workbook, Worksheet, XlsxError};
use serde_json::Value;
use std::borrow::Cow;
use std::collections::HashSet;

/// Maximum number of sheets.
const MAX_SHEETS: usize = 100;

/// Maximum number of cells: more would not fit into any file that may be sent.
const MAX_CELLS: usize = 1_000_000;

/// Excel's limits for the text of a cell and the name of a sheet, in UTF-16 units.
const MAX_CELL_UNITS: usize = 32_767;
const MAX_SHEET_NAME_UNITS: usize = 31;

/// Largest integer that a cell represents exactly.
const MAX_EXACT_INTEGER: u64 = 1 << 53;

pub(super) fn generate(request: &FileRequest) -> Result<Vec<u8>, FileError> {
    let sheets = requested_sheets(request)?;
    let cells: usize = sheets
        .iter()
        .flat_map(|sheet| &sheet.rows)
        .map(Vec::len)
        .sum();
    if sheets.len() > MAX_SHEETS || cells > MAX_CELLS {
        return Err(invalid_request("the workbook has too many sheets or cells"));
    }
    write_workbook(&sheets).map_err(|_| invalid_request("the workbook cannot be made"))
}

fn write_workbook(sheets: &[Sheet]) -> Result<Vec<u8>, XlsxError> {
    let mut workbook = Workbook::new();
    // A fixed date, as in the zip archive, so that equal cells produce equal bytes.
    let created = ExcelDateTime::from_ymd(1980, 1, 1)?;
    workbook.set_properties(&DocProperties::new().set_creation_datetime(&created));
    let mut taken = HashSet::new();
    for (number, sheet) in (1..).zip(sheets) {
        let requested = sheet.name.as_deref().unwrap_or_default();
        let worksheet = workbook.add_worksheet();
        worksheet.set_name(sheet_name(requested, number, &mut taken))?;
        for (row, cells) in (0..).zip(&sheet.rows) {
            for (column, cell) in cells.iter().enumerate() {
                write_cell(worksheet, row, column, cell)?;
            }
        }
    }
    workbook.save_to_buffer()
}

/// Returns the requested sheets, or a single sheet made of `rows` or of a table in `content`.
fn requested_sheets(request: &FileRequest) -> Result<Cow<'_, [Sheet]>, FileError> {
    let one = |rows| Cow::Owned(vec![Sheet { name: None, rows }]);
    match (&request.sheets, &request.rows, &request.content) {
        (Some(sheets), _, _) if !sheets.is_empty() => Ok(Cow::Borrowed(sheets)),
        (_, Some(rows), _) if !rows.is_empty() => Ok(one(rows.clone())),
        (_, _, Some(Value::String(content))) if !content.trim().is_empty() => {
            let row = |row: Vec<String>| row.into_iter().map(number_or_text).collect();
            Ok(one(parse_rows(content).into_iter().map(row).collect()))
        }
        _ => Err(invalid_request(
            "`sheets` must be the sheets of the workbook, each with `rows`",
        )),
    }
}

/// Parses a CSV cell: only plain numbers become numbers, so that no leading zeros are lost.
fn number_or_text(cell: String) -> Value {
    match serde_json::from_str::<serde_json::Number>(&cell) {
        Ok(number) if number.to_string() == cell => Value::Number(number),
        _ => Value::String(cell),
    }
}

/// Writes a cell. Empty cells are not written, so they may be beyond the last row or column of a sheet.
fn write_cell(
    worksheet: &mut Worksheet,
    row: u32,
    column: usize,
    value: &Value,
) -> Result<(), XlsxError> {
    let column = u16::try_from(column).map_err(|_| XlsxError::RowColumnLimitError);
    match value {
        Value::Bool(value) => worksheet.write_boolean(row, column?, *value)?,
        Value::Number(number) if let Some(value) = exact_number(number) => {
            worksheet.write_number(row, column?, value)?
        }
        other => match truncate(&cell_text(other), MAX_CELL_UNITS) {
            "" => return Ok(()),
            // The writer takes a plain text of this form for rich text and would copy it as XML.
            text if text.starts_with("<r>") && text.ends_with("</r>") => {
                worksheet.write_rich_string(row, column?, &[(&Format::default(), text)])?
            }
            text => worksheet.write_string(row, column?, text)?,
        },
    };
    Ok(())
}

/// Truncates a text to a number of UTF-16 units, which Excel counts.
fn truncate(text: &str, max_units: usize) -> &str {
    let mut remaining = max_units;
    let end = text.char_indices().find(|(_, c)| {
        let fits = remaining.checked_sub(c.len_utf16());
        remaining = fits.unwrap_or(remaining);
        fits.is_none()
    });
    end.and_then(|(end, _)| text.get(..end)).unwrap_or(text)
}

/// Returns a number that a cell can represent; longer ones, such as order or card numbers, would change.
fn exact_number(number: &serde_json::Number) -> Option<f64> {
    let integer = number.as_u64().or(number.as_i64().map(i64::unsigned_abs));
    match integer {
        Some(integer) if integer > MAX_EXACT_INTEGER => None,
        _ => number.as_f64().filter(|value| value.is_finite()),
    }
}

/// Returns a unique sheet name that Excel accepts.
fn sheet_name(requested: &str, number: usize, taken: &mut HashSet<String>) -> String {
    let plain = |c: &char| {
        let is_forbidden = matches!(
            c,
            '[' | ']' | ':' | '*' | '?' | '/' | '\\' | '\u{fffe}' | '\u{ffff}'
        );
        !c.is_control() && !is_forbidden
    };
    let clean: String = requested.chars().filter(plain).collect();
    let clean = truncate(&clean, MAX_SHEET_NAME_UNITS)
        .trim_matches(['\'', ' '])
        .to_owned();
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

#[cfg(test)]
mod tests;
