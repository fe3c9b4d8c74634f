//! Tests of the package parts without our own reader; `tests/` opens them with another program.

use super::*;
use proptest::prelude::*;
use serde_json::json;
use std::io::{Cursor, Read};
use zip::ZipArchive;

fn workbook_with_rows(rows: &Value) -> Vec<u8> {
    let rows = serde_json::from_value(rows.clone()).unwrap();
    write_workbook(&[Sheet { name: None, rows }]).unwrap()
}

fn part(bytes: &[u8], name: &str) -> String {
    let mut zip = ZipArchive::new(Cursor::new(bytes)).unwrap();
    let mut text = String::new();
    let mut part = zip.by_name(name).unwrap();
    part.read_to_string(&mut text).unwrap();
    text
}

/// Returns the only entry of the shared string table.
fn stored_text(bytes: &[u8]) -> String {
    let table = part(bytes, "xl/sharedStrings.xml");
    assert!(table.contains(r#" uniqueCount="1">"#), "{table}");
    let (_, text) = table.split_once("<t").unwrap();
    let (_, text) = text.split_once('>').unwrap();
    let (text, _) = text.split_once("</t>").unwrap();
    text.to_owned()
}

/// Decodes a text like Excel: first the references of XML, then `_xHHHH_`, from the left.
fn decode_like_excel(xml: &str) -> String {
    let plain = quick_xml::escape::unescape(xml).unwrap();
    let (mut decoded, mut remaining) = (String::new(), &*plain);
    while let Some(c) = remaining.chars().next() {
        let escape = remaining
            .get(..7)
            .filter(|it| it.starts_with("_x") && it.ends_with('_'));
        let code = escape.and_then(|it| u32::from_str_radix(&it[2..6], 16).ok());
        match code.and_then(char::from_u32) {
            Some(real) => {
                decoded.push(real);
                remaining = &remaining[7..];
            }
            None => {
                decoded.push(c);
                remaining = &remaining[c.len_utf8()..];
            }
        }
    }
    decoded
}

proptest! {
    #[test]
    fn every_text_round_trips(text in r"(?s)([_x0-9A-Fa-f&<;\u{fffe}\u{ffff}]|.){1,40}") {
        let stored = stored_text(&workbook_with_rows(&json!([[text]])));
        let is_invalid = |c| matches!(c, '\0'..='\u{1f}' | '\u{fffe}' | '\u{ffff}') && c != '\t' && c != '\n';
        prop_assert!(!stored.contains(is_invalid), "{stored:?}");
        prop_assert_eq!(decode_like_excel(&stored), text);
    }

    #[test]
    fn every_number_round_trips(number in proptest::num::f64::NORMAL | proptest::num::f64::ZERO) {
        prop_assume!(number.fract() != 0.0 || number.abs() <= 9e15);
        let sheet = part(&workbook_with_rows(&json!([[number]])), "xl/worksheets/sheet1.xml");
        let (_, value) = sheet.split_once(r#"<c r="A1"><v>"#).unwrap();
        let (value, _) = value.split_once("</v></c>").unwrap();
        prop_assert_eq!(value.parse::<f64>().unwrap().to_bits(), number.to_bits());
        prop_assert!(value.len() < 30, "{value}");
    }
}

#[test]
fn text_that_looks_like_rich_text_stays_text() {
    for text in [
        "<r></r>",
        "<r><t>a</t></r>",
        "<r></si><si>b</r>",
        "<r> </r>",
    ] {
        let bytes = workbook_with_rows(&json!([[text]]));
        assert_eq!(decode_like_excel(&stored_text(&bytes)), text);
    }
}

#[test]
fn text_is_stored_once_with_its_whitespace() {
    let rows = json!([[" a", "b", "b", "c\nd", "e\n", "f g"]]);
    let bytes = workbook_with_rows(&rows);
    let table = part(&bytes, "xl/sharedStrings.xml");
    let expected = concat!(
        r#" count="6" uniqueCount="5"><si><t xml:space="preserve"> a</t></si><si><t>b</t></si>"#,
        "<si><t>c\nd</t></si><si><t xml:space=\"preserve\">e\n</t></si><si><t>f g</t></si></sst>",
    );
    assert!(table.ends_with(expected), "{table}");
    let sheet = part(&bytes, "xl/worksheets/sheet1.xml");
    let cells = r#"<c r="B1" t="s"><v>1</v></c><c r="C1" t="s"><v>1</v></c><c r="D1" t="s"><v>2"#;
    assert!(sheet.contains(cells), "{sheet}");
}

#[test]
fn empty_cells_are_not_written() {
    let rows = json!([[], [null, false, "", -0.5], [null], [true, 1e300]]);
    let sheet = part(&workbook_with_rows(&rows), "xl/worksheets/sheet1.xml");
    let mut cells: Vec<&str> = sheet.split("<c r=\"").skip(1).collect();
    for cell in &mut cells {
        *cell = cell.split_once("</c>").unwrap().0;
    }
    let expected = [
        r#"B2" t="b"><v>0</v>"#,
        r#"D2"><v>-0.5</v>"#,
        r#"A4" t="b"><v>1</v>"#,
        r#"B4"><v>1e+300</v>"#,
    ];
    assert_eq!(cells, expected);
}

#[test]
fn equal_cells_produce_equal_bytes() {
    let rows = json!([["b", "a", "d", "c", "f", "e", "a"]]);
    assert_eq!(workbook_with_rows(&rows), workbook_with_rows(&rows));
}
