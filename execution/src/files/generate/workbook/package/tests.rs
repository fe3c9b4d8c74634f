//! Tests of the package parts without our own reader; `tests/` opens them with another program.

use super::*;
use proptest::prelude::*;
use std::io::Read;
use zip::ZipArchive;

fn workbook_with_texts(texts: &[&'static str]) -> Vec<u8> {
    let row = texts
        .iter()
        .map(|text| CellValue::Text(Cow::Borrowed(*text)));
    workbook_with_rows(vec![row.collect()])
}

fn new_workbook<'a>() -> WorkbookWriter<'a> {
    WorkbookWriter::new(&["Sheet1".to_owned()]).unwrap()
}

fn workbook_with_rows(rows: Vec<Vec<CellValue<'_>>>) -> Vec<u8> {
    let mut book = new_workbook();
    book.write_sheet(rows).unwrap();
    book.finish().unwrap()
}

fn part(bytes: &[u8], name: &str) -> Option<String> {
    let mut zip = ZipArchive::new(Cursor::new(bytes)).unwrap();
    let mut text = String::new();
    let mut part = zip.by_name(name).ok()?;
    part.read_to_string(&mut text).unwrap();
    Some(text)
}

fn escape_to_string(text: &str) -> String {
    let mut out = Vec::new();
    escape(text, &mut out).unwrap();
    String::from_utf8(out).unwrap()
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

#[test]
fn invalid_xml_characters_are_escaped_as_in_excel() {
    for (text, expected) in [
        (
            "a & b < c > \"d\" 'e'",
            "a &amp; b &lt; c &gt; &quot;d&quot; 'e'",
        ),
        (
            "\0\u{1}\u{b}\u{1f}\u{7f}",
            "_x0000__x0001__x000B__x001F_\u{7f}",
        ),
        ("a\r\nb\tc", "a_x000D_\nb\tc"),
        ("\u{fffd}\u{fffe}\u{ffff}", "\u{fffd}_xFFFE__xFFFF_"),
        ("_x0041_", "_x005F_x0041_"),
        ("_x0041_x00e9_", "_x005F_x0041_x005F_x00e9_"),
        ("_x0041\u{1}", "_x005F_x0041_x0001_"),
        (
            "_x004_ _x00G1_ _X0041_ _x0041 _x日本_",
            "_x004_ _x00G1_ _X0041_ _x0041 _x日本_",
        ),
    ] {
        assert_eq!(escape_to_string(text), expected);
        assert_eq!(decode_like_excel(expected), text);
    }
}

proptest! {
    #[test]
    fn every_text_round_trips(text in r"(?s)([_x0-9A-Fa-f\x00-\x1f&<;\u{fffe}\u{ffff}]|.){0,40}") {
        let escaped = escape_to_string(&text);
        prop_assert!(!escaped.contains(needs_escape), "{escaped:?}");
        prop_assert_eq!(decode_like_excel(&escaped), text);
    }

    #[test]
    fn every_number_round_trips(number in proptest::num::f64::ANY) {
        prop_assume!(number.is_finite());
        let (mut book, mut out) = (new_workbook(), Vec::new());
        book.write_cell(&mut out, 1, 0, CellValue::Number(number)).unwrap();
        let cell = String::from_utf8(out).unwrap();
        let value = cell.strip_prefix(r#"<c r="A1"><v>"#).unwrap();
        let value: f64 = value.strip_suffix("</v></c>").unwrap().parse().unwrap();
        prop_assert_eq!(value.to_bits(), number.to_bits());
        prop_assert!(cell.len() < 50, "{cell}");
    }
}

#[test]
fn text_is_stored_once_with_its_whitespace() {
    let bytes = workbook_with_texts(&[" a", "b", "b", "c\nd", "e\n", "f g", "\u{3000}h"]);
    let table = part(&bytes, "xl/sharedStrings.xml").unwrap();
    let expected = concat!(
        r#" count="7" uniqueCount="6"><si><t xml:space="preserve"> a</t></si><si><t>b</t></si>"#,
        "<si><t xml:space=\"preserve\">c\nd</t></si><si><t xml:space=\"preserve\">e\n</t></si>",
        "<si><t>f g</t></si><si><t xml:space=\"preserve\">\u{3000}h</t></si></sst>",
    );
    assert!(table.ends_with(expected), "{table}");
    let sheet = part(&bytes, "xl/worksheets/sheet1.xml").unwrap();
    let cells = r#"<c r="B1" t="s"><v>1</v></c><c r="C1" t="s"><v>1</v></c><c r="D1" t="s"><v>2"#;
    assert!(sheet.contains(cells), "{sheet}");
}

#[test]
fn empty_cells_are_not_written() {
    let rows = vec![
        vec![],
        vec![
            CellValue::Empty,
            CellValue::Bool(false),
            CellValue::Empty,
            CellValue::Number(-0.5),
        ],
        vec![CellValue::Empty],
        vec![CellValue::Bool(true), CellValue::Number(1e300)],
    ];
    let bytes = workbook_with_rows(rows);
    let sheet = part(&bytes, "xl/worksheets/sheet1.xml").unwrap();
    let expected = concat!(
        r#"<sheetData><row r="2"><c r="B2" t="b"><v>0</v></c><c r="D2"><v>-0.5</v></c></row>"#,
        r#"<row r="4"><c r="A4" t="b"><v>1</v></c><c r="B4"><v>1e300</v></c></row></sheetData>"#,
    );
    assert!(sheet.contains(expected), "{sheet}");
    let table = part(&bytes, "xl/sharedStrings.xml").unwrap();
    assert!(
        table.ends_with(r#" count="0" uniqueCount="0"></sst>"#),
        "{table}"
    );
}

#[test]
fn every_referenced_part_exists() {
    let bytes = workbook_with_texts(&["a"]);
    let types = part(&bytes, "[Content_Types].xml").unwrap();
    let relations = part(&bytes, "xl/_rels/workbook.xml.rels").unwrap();
    let mut zip = ZipArchive::new(Cursor::new(&bytes)).unwrap();
    for target in ["worksheets/sheet1.xml", "styles.xml", "sharedStrings.xml"] {
        assert!(
            types.contains(&format!("PartName=\"/xl/{target}\"")),
            "{types}"
        );
        assert!(
            relations.contains(&format!("Target=\"{target}\"")),
            "{relations}"
        );
        assert!(zip.by_name(&format!("xl/{target}")).is_ok(), "{target}");
    }
    assert_eq!(types.matches("<Override").count(), 4);
    assert_eq!(zip.len(), 7);
    let first: Vec<_> = zip.file_names().flatten().take(3).collect();
    let expected = ["[Content_Types].xml", "_rels/.rels", "xl/workbook.xml"];
    assert_eq!(
        first, expected,
        "programs detect the file type by these parts"
    );
    for index in 0..zip.len() {
        let part = zip.by_index(index).unwrap();
        assert_eq!(part.last_modified(), Some(DateTime::DEFAULT));
        assert_eq!(part.compression(), CompressionMethod::Deflated);
    }
}

#[test]
fn equal_cells_produce_equal_bytes() {
    let values = ["b", "a", "d", "c", "f", "e", "a"];
    assert_eq!(workbook_with_texts(&values), workbook_with_texts(&values));
}

#[test]
fn sheet_size_is_limited_as_in_excel() {
    for (column, expected) in [(0, "A"), (25, "Z"), (26, "AA"), (701, "ZZ"), (702, "AAA")] {
        assert_eq!(column_letters(column), expected);
    }
    assert_eq!(column_letters(MAX_COLUMNS - 1), "XFD");
    let can_write = |row: usize, column: usize, cell: CellValue<'_>| {
        let mut book = new_workbook();
        book.write_cell(&mut Vec::new(), row, column, cell).is_ok()
    };
    assert!(can_write(MAX_ROWS, MAX_COLUMNS - 1, CellValue::Bool(true)));
    assert!(!can_write(MAX_ROWS + 1, 0, CellValue::Bool(true)));
    assert!(!can_write(
        1,
        MAX_COLUMNS,
        CellValue::Text(Cow::Borrowed("a"))
    ));
    assert!(can_write(MAX_ROWS + 1, MAX_COLUMNS, CellValue::Empty));
}
