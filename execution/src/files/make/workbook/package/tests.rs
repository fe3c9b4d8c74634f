//! The parts, read without the reader of ours; `tests/` has them read by a program of others.

use super::*;
use proptest::prelude::*;
use std::io::Read;
use zip::ZipArchive;

fn texts(texts: &[&'static str]) -> Vec<u8> {
    let row = texts.iter().map(|text| Cell::Text(Cow::Borrowed(*text)));
    book(vec![row.collect()])
}

fn empty<'a>() -> Book<'a> {
    Book::new(&["Sheet1".to_owned()]).unwrap()
}

fn book(rows: Vec<Vec<Cell<'_>>>) -> Vec<u8> {
    let mut book = empty();
    book.sheet(rows).unwrap();
    book.finish().unwrap()
}

fn part(bytes: &[u8], name: &str) -> Option<String> {
    let mut zip = ZipArchive::new(Cursor::new(bytes)).unwrap();
    let mut text = String::new();
    let mut part = zip.by_name(name).ok()?;
    part.read_to_string(&mut text).unwrap();
    Some(text)
}

fn escaped(text: &str) -> String {
    let mut out = Vec::new();
    escape(text, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// What Excel makes of it: first the references of XML, then `_xHHHH_`, from the left.
fn meant(xml: &str) -> String {
    let plain = quick_xml::escape::unescape(xml).unwrap();
    let (mut meant, mut rest) = (String::new(), &*plain);
    while let Some(c) = rest.chars().next() {
        let escape = rest
            .get(..7)
            .filter(|it| it.starts_with("_x") && it.ends_with('_'));
        let code = escape.and_then(|it| u32::from_str_radix(&it[2..6], 16).ok());
        match code.and_then(char::from_u32) {
            Some(real) => {
                meant.push(real);
                rest = &rest[7..];
            }
            None => {
                meant.push(c);
                rest = &rest[c.len_utf8()..];
            }
        }
    }
    meant
}

#[test]
fn what_xml_cannot_hold_is_escaped_as_excel_does() {
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
        assert_eq!(escaped(text), expected);
        assert_eq!(meant(expected), text);
    }
}

proptest! {
    #[test]
    fn every_text_comes_back(text in r"(?s)([_x0-9A-Fa-f\x00-\x1f&<;\u{fffe}\u{ffff}]|.){0,40}") {
        let escaped = escaped(&text);
        prop_assert!(!escaped.contains(has_no_place), "{escaped:?}");
        prop_assert_eq!(meant(&escaped), text);
    }

    #[test]
    fn every_number_comes_back(number in proptest::num::f64::ANY) {
        prop_assume!(number.is_finite());
        let (mut book, mut out) = (empty(), Vec::new());
        book.cell(&mut out, 1, 0, Cell::Number(number)).unwrap();
        let cell = String::from_utf8(out).unwrap();
        let value = cell.strip_prefix(r#"<c r="A1"><v>"#).unwrap();
        let value: f64 = value.strip_suffix("</v></c>").unwrap().parse().unwrap();
        prop_assert_eq!(value.to_bits(), number.to_bits());
        prop_assert!(cell.len() < 50, "{cell}");
    }
}

#[test]
fn a_text_is_stored_once_and_its_space_is_kept() {
    let bytes = texts(&[" a", "b", "b", "c\nd", "e\n", "f g", "\u{3000}h"]);
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
fn cells_that_are_empty_are_not_there() {
    let rows = vec![
        vec![],
        vec![
            Cell::Empty,
            Cell::Bool(false),
            Cell::Empty,
            Cell::Number(-0.5),
        ],
        vec![Cell::Empty],
        vec![Cell::Bool(true), Cell::Number(1e300)],
    ];
    let bytes = book(rows);
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
fn whatever_is_named_is_there() {
    let bytes = texts(&["a"]);
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
    assert_eq!(first, expected, "by these it is guessed what it is");
    for index in 0..zip.len() {
        let part = zip.by_index(index).unwrap();
        assert_eq!(part.last_modified(), Some(DateTime::DEFAULT));
        assert_eq!(part.compression(), CompressionMethod::Deflated);
    }
}

#[test]
fn the_same_cells_are_the_same_bytes() {
    let words = ["b", "a", "d", "c", "f", "e", "a"];
    assert_eq!(texts(&words), texts(&words));
}

#[test]
fn a_sheet_ends_where_excel_ends() {
    for (column, expected) in [(0, "A"), (25, "Z"), (26, "AA"), (701, "ZZ"), (702, "AAA")] {
        assert_eq!(letters(column), expected);
    }
    assert_eq!(letters(COLUMNS - 1), "XFD");
    let at = |row: usize, column: usize, cell: Cell<'_>| {
        let mut book = empty();
        book.cell(&mut Vec::new(), row, column, cell).is_ok()
    };
    assert!(at(ROWS, COLUMNS - 1, Cell::Bool(true)));
    assert!(!at(ROWS + 1, 0, Cell::Bool(true)));
    assert!(!at(1, COLUMNS, Cell::Text(Cow::Borrowed("a"))));
    assert!(at(ROWS + 1, COLUMNS, Cell::Empty));
}
