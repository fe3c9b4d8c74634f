//! Text of workbooks: the sheets in workbook order, each under its name, one line per row, with tabs between cells.

use super::TextSink;
use super::office::OfficePackage;
use super::xml::{XmlElement, XmlNode, walk};
use crate::files::FileProblem;
use std::collections::HashSet;

/// Maximum number of tabs for a gap of empty cells; wider gaps are shortened.
const MAX_EMPTY_CELLS: usize = 64;

/// Data shared by all sheets.
struct WorkbookData {
    strings: Vec<String>,
    /// True for each style that shows a number as a date.
    date_styles: Vec<bool>,
    /// Days from the workbook's epoch to 1970.
    epoch: f64,
}

pub(super) fn extract(
    package: &mut OfficePackage<'_>,
    out: &mut TextSink,
) -> Result<(), FileProblem> {
    let workbook = package.required_part("xl/workbook.xml")?;
    let relations = package.relationships("xl/workbook.xml")?;
    let (mut sheets, mut epoch) = (Vec::new(), 25_569.0);
    walk(&workbook, |node| {
        if let XmlNode::Start(element) = node {
            match element.name() {
                "workbookPr" => {
                    let date1904 = element.attribute("date1904");
                    if matches!(date1904.as_deref(), Some("1" | "true")) {
                        epoch = 24_107.0;
                    }
                }
                "sheet" => {
                    let target = element.relationship_id().and_then(|id| relations.get(&id));
                    if let Some(target) = target {
                        let name = element.attribute("name").unwrap_or_default();
                        sheets.push((name, target.target.clone()));
                    }
                }
                _ => {}
            }
        }
        Ok(true)
    })?;
    let part = |kind: &str| {
        let mut all = relations.values();
        let found = all.find(|relation| relation.kind.ends_with(kind));
        found.map(|relation| relation.target.clone())
    };
    let strings = match part("/sharedStrings") {
        Some(part) => parse_shared_strings(&package.part(&part)?.ok_or(FileProblem::Damaged)?)?,
        None => Vec::new(),
    };
    let dates = match part("/styles") {
        Some(part) => parse_date_styles(&package.part(&part)?.unwrap_or_default())?,
        None => Vec::new(),
    };
    let book = WorkbookData {
        strings,
        date_styles: dates,
        epoch,
    };
    for (name, target) in sheets {
        if out.is_full() {
            break;
        }
        if let Some(part) = package.part(&target)? {
            out.section(&format!("[Sheet {name}]"), |out| {
                extract_sheet(&part, &book, out)
            })?;
        }
    }
    Ok(())
}

/// Parses the shared strings. Phonetic guides are omitted.
fn parse_shared_strings(document: &str) -> Result<Vec<String>, FileProblem> {
    let (mut strings, mut string) = (Vec::new(), String::new());
    let (mut in_text, mut in_phonetic) = (false, false);
    walk(document, |node| {
        match node {
            XmlNode::Start(element) => match element.name() {
                "si" => string.clear(),
                "rPh" => in_phonetic = true,
                "t" => in_text = true,
                _ => {}
            },
            XmlNode::End("si") => strings.push(std::mem::take(&mut string)),
            XmlNode::End("rPh") => in_phonetic = false,
            XmlNode::End("t") => in_text = false,
            XmlNode::Text(text) if in_text && !in_phonetic => string.push_str(text),
            XmlNode::End(_) | XmlNode::Text(_) => {}
        }
        Ok(true)
    })?;
    Ok(strings)
}

/// Returns true for each cell style that shows dates.
fn parse_date_styles(document: &str) -> Result<Vec<bool>, FileProblem> {
    let (mut custom, mut dates, mut in_cell_styles) = (HashSet::new(), Vec::new(), false);
    walk(document, |node| {
        match node {
            XmlNode::Start(element) => match element.name() {
                "numFmt" => {
                    let code = element.attribute("formatCode").unwrap_or_default();
                    if let Some(id) = number_attribute(element, "numFmtId")
                        && is_date_format(&code)
                    {
                        custom.insert(id);
                    }
                }
                "cellXfs" => in_cell_styles = true,
                "xf" if in_cell_styles => {
                    let id = number_attribute(element, "numFmtId").unwrap_or(0);
                    let is_builtin_date = matches!(id, 14..=22 | 27..=36 | 45..=47 | 50..=58);
                    dates.push(is_builtin_date || custom.contains(&id));
                }
                _ => {}
            },
            XmlNode::End("cellXfs") => in_cell_styles = false,
            XmlNode::End(_) | XmlNode::Text(_) => {}
        }
        Ok(true)
    })?;
    Ok(dates)
}

fn number_attribute(element: &XmlElement<'_>, name: &str) -> Option<u32> {
    element.attribute(name)?.parse().ok()
}

/// Returns true if a number format shows a date: it has date letters outside of quoted text.
fn is_date_format(code: &str) -> bool {
    let (mut quoted, mut bracket, mut escaped) = (false, false, false);
    let code = code.split(';').next().unwrap_or_default();
    code.chars().any(|c| {
        if std::mem::take(&mut escaped) {
            return false;
        }
        match c {
            '\\' | '_' => escaped = true,
            '"' => quoted = !quoted,
            '[' => bracket = true,
            ']' => bracket = false,
            _ => {}
        }
        !quoted && !bracket && matches!(c, 'y' | 'Y' | 'd' | 'D' | 'h' | 'H')
    })
}

/// The cell that is being read.
#[derive(Default)]
struct XlsxCell {
    column: usize,
    kind: String,
    is_date: bool,
    value: String,
}

fn extract_sheet(
    document: &str,
    book: &WorkbookData,
    out: &mut TextSink,
) -> Result<(), FileProblem> {
    let (mut cell, mut next_column) = (XlsxCell::default(), 0_usize);
    let (mut in_text, mut in_phonetic, mut row_has_cells) = (false, false, false);
    walk(document, |node| {
        match node {
            XmlNode::Start(element) => match element.name() {
                "row" => (next_column, row_has_cells) = (0, false),
                "c" => {
                    let position = element
                        .attribute("r")
                        .and_then(|place| parse_column(&place));
                    let style = number_attribute(element, "s")
                        .and_then(|style| usize::try_from(style).ok());
                    cell = XlsxCell {
                        column: position.unwrap_or(next_column),
                        kind: element.attribute("t").unwrap_or_default(),
                        is_date: style
                            .and_then(|style| book.date_styles.get(style))
                            .is_some_and(|date| *date),
                        value: String::new(),
                    };
                }
                "rPh" => in_phonetic = true,
                "v" | "t" => in_text = true,
                _ => {}
            },
            XmlNode::End(name) => match name {
                "c" => {
                    let value = format_cell(&cell, book);
                    if !value.is_empty() {
                        let gap = cell.column.saturating_sub(next_column).min(MAX_EMPTY_CELLS);
                        let tabs = gap + usize::from(row_has_cells);
                        out.push(&"\t".repeat(tabs));
                        out.push(&value);
                        row_has_cells = true;
                        next_column = cell.column + 1;
                    }
                }
                "row" => out.end_line(),
                "rPh" => in_phonetic = false,
                "v" | "t" => in_text = false,
                _ => {}
            },
            XmlNode::Text(text) if in_text && !in_phonetic => cell.value.push_str(text),
            XmlNode::Text(_) => {}
        }
        Ok(!out.is_full())
    })
}

/// Formats a cell as displayed, on one line.
fn format_cell(cell: &XlsxCell, book: &WorkbookData) -> String {
    let value = match cell.kind.as_str() {
        "s" => {
            let index = cell.value.trim().parse::<usize>().ok();
            let string = index.and_then(|index| book.strings.get(index));
            string.map_or_else(String::new, String::clone)
        }
        "b" if cell.value.trim() == "1" => "TRUE".to_owned(),
        "b" => "FALSE".to_owned(),
        "" | "n" if cell.is_date => match cell.value.trim().parse::<f64>() {
            Ok(serial) => format_date(serial - book.epoch).unwrap_or_else(|| cell.value.clone()),
            Err(_) => cell.value.clone(),
        },
        // Some programs store the integer 5 as `5.0`.
        "" | "n" => {
            let value = cell.value.trim();
            value.strip_suffix(".0").unwrap_or(value).to_owned()
        }
        _ => cell.value.clone(),
    };
    if value.contains(['\n', '\r', '\t']) {
        let parts: Vec<&str> = value.split_whitespace().collect();
        parts.join(" ")
    } else {
        value
    }
}

/// Parses the column of a cell reference such as `AB12`, counted from zero.
fn parse_column(reference: &str) -> Option<usize> {
    let column_name = reference.bytes().take_while(u8::is_ascii_alphabetic);
    let column = column_name.take(4).fold(0_usize, |column, letter| {
        column * 26 + usize::from(letter.to_ascii_uppercase() - b'A') + 1
    });
    column.checked_sub(1)
}

/// Formats days since 1970 as a date, with the time of day if there is one.
fn format_date(days: f64) -> Option<String> {
    if !(-100_000.0..3_000_000.0).contains(&days) {
        return None;
    }
    let seconds = (days * 86_400.0).round();
    #[expect(clippy::cast_possible_truncation, reason = "the range was checked")]
    let seconds = seconds as i64;
    let (day, time) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // The calendar repeats every 146097 days; years begin in March, so that leap days come last.
    let shifted = day + 719_468;
    let (era, day_of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + i64::from(month <= 2);
    let (hour, minute, second) = (time / 3_600, time / 60 % 60, time % 60);
    Some(match time {
        0 => format!("{year:04}-{month:02}-{day:02}"),
        _ => format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_parsed_and_dates_are_formatted() {
        assert_eq!(parse_column("A1"), Some(0));
        assert_eq!(parse_column("XFD1"), Some(16_383));
        assert_eq!(parse_column("12"), None);
        assert_eq!(format_date(0.0).as_deref(), Some("1970-01-01"));
        assert_eq!(
            format_date(45_292.0 - 25_569.0).as_deref(),
            Some("2024-01-01")
        );
        assert_eq!(
            format_date(45_351.5 - 25_569.0).as_deref(),
            Some("2024-02-29 12:00:00")
        );
        assert_eq!(format_date(f64::NAN), None);
        for (code, expected) in [
            ("yyyy/mm/dd", true),
            ("h:mm", true),
            ("#,##0.00", false),
            ("0\"day\"", false),
            ("[Red]0", false),
            ("General", false),
        ] {
            assert_eq!(is_date_format(code), expected, "{code}");
        }
    }
}
