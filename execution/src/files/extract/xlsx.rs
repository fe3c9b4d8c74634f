//! The text of workbooks: each sheet under its name, in the order of the workbook, a row a line, with
//! tabs between cells.

use super::Out;
use super::office::Package;
use super::xml::{Element, Node, walk};
use crate::files::Problem;
use std::collections::HashSet;

/// The most cells that are left empty between two others. More are closed up.
const GAP: usize = 64;

/// What all sheets share.
struct Book {
    strings: Vec<String>,
    /// Which of the styles show a number as a date.
    dates: Vec<bool>,
    /// Days from the workbook's beginning of time to 1970.
    epoch: f64,
}

pub(super) fn read(package: &mut Package<'_>, out: &mut Out) -> Result<(), Problem> {
    let workbook = package.main_part("xl/workbook.xml")?;
    let relations = package.relations("xl/workbook.xml")?;
    let (mut sheets, mut epoch) = (Vec::new(), 25_569.0);
    walk(&workbook, |node| {
        if let Node::Start(element) = node {
            match element.name() {
                "workbookPr" => {
                    let other = element.attribute("date1904");
                    if matches!(other.as_deref(), Some("1" | "true")) {
                        epoch = 24_107.0;
                    }
                }
                "sheet" => {
                    let target = element.relation().and_then(|id| relations.get(&id));
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
        Some(part) => strings(&package.part(&part)?.ok_or(Problem::Damaged)?)?,
        None => Vec::new(),
    };
    let dates = match part("/styles") {
        Some(part) => dates(&package.part(&part)?.unwrap_or_default())?,
        None => Vec::new(),
    };
    let book = Book {
        strings,
        dates,
        epoch,
    };
    for (name, target) in sheets {
        if out.is_full() {
            break;
        }
        if let Some(part) = package.part(&target)? {
            out.section(&format!("[Sheet {name}]"), |out| sheet(&part, &book, out))?;
        }
    }
    Ok(())
}

/// The strings that cells name by number. How they are read aloud is left out.
fn strings(document: &str) -> Result<Vec<String>, Problem> {
    let (mut strings, mut string) = (Vec::new(), String::new());
    let (mut words, mut aloud) = (false, false);
    walk(document, |node| {
        match node {
            Node::Start(element) => match element.name() {
                "si" => string.clear(),
                "rPh" => aloud = true,
                "t" => words = true,
                _ => {}
            },
            Node::End("si") => strings.push(std::mem::take(&mut string)),
            Node::End("rPh") => aloud = false,
            Node::End("t") => words = false,
            Node::Text(text) if words && !aloud => string.push_str(text),
            Node::End(_) | Node::Text(_) => {}
        }
        Ok(true)
    })?;
    Ok(strings)
}

/// Which styles show dates.
fn dates(document: &str) -> Result<Vec<bool>, Problem> {
    let (mut custom, mut dates, mut inside) = (HashSet::new(), Vec::new(), false);
    walk(document, |node| {
        match node {
            Node::Start(element) => match element.name() {
                "numFmt" => {
                    let code = element.attribute("formatCode").unwrap_or_default();
                    if let Some(id) = number(element, "numFmtId")
                        && is_date(&code)
                    {
                        custom.insert(id);
                    }
                }
                "cellXfs" => inside = true,
                "xf" if inside => {
                    let id = number(element, "numFmtId").unwrap_or(0);
                    let known = matches!(id, 14..=22 | 27..=36 | 45..=47 | 50..=58);
                    dates.push(known || custom.contains(&id));
                }
                _ => {}
            },
            Node::End("cellXfs") => inside = false,
            Node::End(_) | Node::Text(_) => {}
        }
        Ok(true)
    })?;
    Ok(dates)
}

fn number(element: &Element<'_>, name: &str) -> Option<u32> {
    element.attribute(name)?.parse().ok()
}

/// Whether a number format shows a date: it has letters of one, outside of what is quoted.
fn is_date(code: &str) -> bool {
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

/// One cell, while it is read.
#[derive(Default)]
struct Cell {
    column: usize,
    kind: String,
    date: bool,
    value: String,
}

fn sheet(document: &str, book: &Book, out: &mut Out) -> Result<(), Problem> {
    let (mut cell, mut next) = (Cell::default(), 0_usize);
    let (mut words, mut aloud, mut begun) = (false, false, false);
    walk(document, |node| {
        match node {
            Node::Start(element) => match element.name() {
                "row" => (next, begun) = (0, false),
                "c" => {
                    let place = element.attribute("r").and_then(|place| column(&place));
                    let style = number(element, "s").and_then(|style| usize::try_from(style).ok());
                    cell = Cell {
                        column: place.unwrap_or(next),
                        kind: element.attribute("t").unwrap_or_default(),
                        date: style
                            .and_then(|style| book.dates.get(style))
                            .is_some_and(|date| *date),
                        value: String::new(),
                    };
                }
                "rPh" => aloud = true,
                "v" | "t" => words = true,
                _ => {}
            },
            Node::End(name) => match name {
                "c" => {
                    let value = shown(&cell, book);
                    if !value.is_empty() {
                        let gap = cell.column.saturating_sub(next).min(GAP);
                        let tabs = gap + usize::from(begun);
                        out.push(&"\t".repeat(tabs));
                        out.push(&value);
                        begun = true;
                        next = cell.column + 1;
                    }
                }
                "row" => out.line(),
                "rPh" => aloud = false,
                "v" | "t" => words = false,
                _ => {}
            },
            Node::Text(text) if words && !aloud => cell.value.push_str(text),
            Node::Text(_) => {}
        }
        Ok(!out.is_full())
    })
}

/// A cell as people see it, on one line.
fn shown(cell: &Cell, book: &Book) -> String {
    let value = match cell.kind.as_str() {
        "s" => {
            let index = cell.value.trim().parse::<usize>().ok();
            let string = index.and_then(|index| book.strings.get(index));
            string.map_or_else(String::new, String::clone)
        }
        "b" if cell.value.trim() == "1" => "TRUE".to_owned(),
        "b" => "FALSE".to_owned(),
        "" | "n" if cell.date => match cell.value.trim().parse::<f64>() {
            Ok(serial) => date(serial - book.epoch).unwrap_or_else(|| cell.value.clone()),
            Err(_) => cell.value.clone(),
        },
        _ => cell.value.clone(),
    };
    if value.contains(['\n', '\r', '\t']) {
        let words: Vec<&str> = value.split_whitespace().collect();
        words.join(" ")
    } else {
        value
    }
}

/// The column of a place such as `AB12`, counted from zero.
fn column(place: &str) -> Option<usize> {
    let letters = place.bytes().take_while(u8::is_ascii_alphabetic);
    let column = letters.take(4).fold(0_usize, |column, letter| {
        column * 26 + usize::from(letter.to_ascii_uppercase() - b'A') + 1
    });
    column.checked_sub(1)
}

/// A date, and the time of day if there is one, from days since 1970.
fn date(days: f64) -> Option<String> {
    if !(-100_000.0..3_000_000.0).contains(&days) {
        return None;
    }
    let seconds = (days * 86_400.0).round();
    #[expect(clippy::cast_possible_truncation, reason = "the range was checked")]
    let seconds = seconds as i64;
    let (day, time) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // The calendar repeats every 146097 days; years begin in March, so that leap days come last.
    let shifted = day + 719_468;
    let (era, of_era) = (shifted.div_euclid(146_097), shifted.rem_euclid(146_097));
    let year = (of_era - of_era / 1_460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
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
    fn columns_and_dates_are_told_as_people_do() {
        assert_eq!(column("A1"), Some(0));
        assert_eq!(column("XFD1"), Some(16_383));
        assert_eq!(column("12"), None);
        assert_eq!(date(0.0).as_deref(), Some("1970-01-01"));
        assert_eq!(date(45_292.0 - 25_569.0).as_deref(), Some("2024-01-01"));
        assert_eq!(
            date(45_351.5 - 25_569.0).as_deref(),
            Some("2024-02-29 12:00:00")
        );
        assert_eq!(date(f64::NAN), None);
        for (code, expected) in [
            ("yyyy/mm/dd", true),
            ("h:mm", true),
            ("#,##0.00", false),
            ("0\"day\"", false),
            ("[Red]0", false),
            ("General", false),
        ] {
            assert_eq!(is_date(code), expected, "{code}");
        }
    }
}
