//! Workbook package: a zip archive of XML (ECMA-376), with only the parts that cells without styles need. It is
//! compressed while it is written, and its bytes depend only on the cells.
//!
//! Texts are stored in the shared string table: Numbers and the iOS preview do not show inline strings.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Cursor, Write};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

/// Excel's limits for the rows and columns of a sheet.
const MAX_ROWS: usize = 1_048_576;
const MAX_COLUMNS: usize = 16_384;

const DECLARATION: &[u8] = br#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>"#;
const MAIN: &str = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
const PACKAGE: &str = "http://schemas.openxmlformats.org/package/2006";
const RELATION: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
const TYPE: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml";

/// The style of all cells. Some programs do not open a workbook without one.
const STYLES: &str = concat!(
    r#"<fonts count="1"><font><sz val="11"/><name val="Calibri"/><family val="2"/></font></fonts>"#,
    r#"<fills count="2"><fill><patternFill patternType="none"/></fill>"#,
    r#"<fill><patternFill patternType="gray125"/></fill></fills>"#,
    r#"<borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders>"#,
    r#"<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs>"#,
    r#"<cellXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/></cellXfs>"#,
    r#"<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles>"#,
);

/// Value of a cell.
pub(super) enum CellValue<'a> {
    Empty,
    Bool(bool),
    /// A finite number.
    Number(f64),
    Text(Cow<'a, str>),
}

/// Workbook writer.
pub(super) struct WorkbookWriter<'a> {
    zip: ZipWriter<Cursor<Vec<u8>>>,
    /// Number of sheets written.
    sheets: usize,
    /// Index of each text in the shared string table.
    texts: HashMap<Cow<'a, str>, usize>,
    /// Number of cells with a text.
    text_cells: usize,
}

impl<'a> WorkbookWriter<'a> {
    /// Starts a workbook with sheets of these names.
    pub(super) fn new(names: &[String]) -> io::Result<Self> {
        let mut book = Self {
            zip: ZipWriter::new(Cursor::new(Vec::new())),
            sheets: 0,
            texts: HashMap::new(),
            text_cells: 0,
        };
        let parts =
            (1..=names.len()).map(|sheet| ("worksheet", format!("worksheets/sheet{sheet}.xml")));
        let shared = ["styles", "sharedStrings"].map(|kind| (kind, format!("{kind}.xml")));
        let parts: Vec<(&str, String)> = parts.chain(shared).collect();
        // In this order, because programs detect the file type by its first three parts.
        book.write_content_types(&parts)?;
        book.start_part("_rels/.rels")?;
        book.write_relationships([("officeDocument", "xl/workbook.xml")])?;
        book.start_part("xl/workbook.xml")?;
        book.write_sheet_list(names)?;
        book.start_part("xl/_rels/workbook.xml.rels")?;
        book.write_relationships(parts.iter().map(|(kind, part)| (*kind, part.as_str())))?;
        book.start_part("xl/styles.xml")?;
        write!(
            book.zip,
            r#"<styleSheet xmlns="{MAIN}">{STYLES}</styleSheet>"#
        )?;
        Ok(book)
    }

    /// Writes the content types of the parts.
    fn write_content_types(&mut self, parts: &[(&str, String)]) -> io::Result<()> {
        self.start_part("[Content_Types].xml")?;
        write!(
            self.zip,
            r#"<Types xmlns="{PACKAGE}/content-types"><Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/><Default Extension="xml" ContentType="application/xml"/><Override PartName="/xl/workbook.xml" ContentType="{TYPE}.sheet.main+xml"/>"#
        )?;
        for (kind, part) in parts {
            write!(
                self.zip,
                r#"<Override PartName="/xl/{part}" ContentType="{TYPE}.{kind}+xml"/>"#
            )?;
        }
        self.zip.write_all(b"</Types>")
    }

    /// Writes relationships; their ids are numbered from one.
    fn write_relationships<'b>(
        &mut self,
        parts: impl IntoIterator<Item = (&'b str, &'b str)>,
    ) -> io::Result<()> {
        write!(
            self.zip,
            r#"<Relationships xmlns="{PACKAGE}/relationships">"#
        )?;
        for (id, (kind, target)) in (1..).zip(parts) {
            write!(
                self.zip,
                r#"<Relationship Id="rId{id}" Type="{RELATION}/{kind}" Target="{target}"/>"#
            )?;
        }
        self.zip.write_all(b"</Relationships>")
    }

    /// Writes the list of sheets.
    fn write_sheet_list(&mut self, names: &[String]) -> io::Result<()> {
        write!(
            self.zip,
            r#"<workbook xmlns="{MAIN}" xmlns:r="{RELATION}"><bookViews><workbookView/></bookViews><sheets>"#
        )?;
        for (id, name) in (1..).zip(names) {
            let mut escaped = Vec::new();
            escape(name, &mut escaped)?;
            self.zip.write_all(br#"<sheet name=""#)?;
            self.zip.write_all(&escaped)?;
            write!(self.zip, r#"" sheetId="{id}" r:id="rId{id}"/>"#)?;
        }
        self.zip.write_all(b"</sheets></workbook>")
    }

    /// Starts the next part, with a fixed timestamp.
    fn start_part(&mut self, part: &str) -> io::Result<()> {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .last_modified_time(DateTime::DEFAULT);
        self.zip.start_file(part, options)?;
        self.zip.write_all(DECLARATION)
    }

    /// Writes the next sheet. Fails if a cell is beyond the last row or column of a sheet.
    pub(super) fn write_sheet<R>(&mut self, rows: impl IntoIterator<Item = R>) -> io::Result<()>
    where
        R: IntoIterator<Item = CellValue<'a>>,
    {
        self.sheets += 1;
        self.start_part(&format!("xl/worksheets/sheet{}.xml", self.sheets))?;
        write!(
            self.zip,
            r#"<worksheet xmlns="{MAIN}"><sheetViews><sheetView workbookViewId="0"/></sheetViews><sheetFormatPr defaultRowHeight="15"/><sheetData>"#
        )?;
        let mut row_xml = Vec::new();
        for (row, cells) in (1..).zip(rows) {
            row_xml.clear();
            for (column, cell) in cells.into_iter().enumerate() {
                self.write_cell(&mut row_xml, row, column, cell)?;
            }
            if !row_xml.is_empty() {
                write!(self.zip, r#"<row r="{row}">"#)?;
                self.zip.write_all(&row_xml)?;
                self.zip.write_all(b"</row>")?;
            }
        }
        self.zip.write_all(b"</sheetData></worksheet>")
    }

    fn write_cell(
        &mut self,
        out: &mut Vec<u8>,
        row: usize,
        column: usize,
        cell: CellValue<'a>,
    ) -> io::Result<()> {
        if matches!(cell, CellValue::Empty) {
            return Ok(());
        }
        if row > MAX_ROWS || column >= MAX_COLUMNS {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        write!(out, r#"<c r="{}{row}""#, column_letters(column))?;
        match cell {
            CellValue::Empty => {}
            CellValue::Bool(value) => write!(out, r#" t="b"><v>{}"#, u8::from(value))?,
            // Both read back exactly; hundreds of zeros would be exact too, but unreadable.
            CellValue::Number(value) if value == 0.0 || (1e-7..1e21).contains(&value.abs()) => {
                write!(out, "><v>{value}")?;
            }
            CellValue::Number(value) => write!(out, "><v>{value:e}")?,
            CellValue::Text(text) => {
                let next = self.texts.len();
                let number = *self.texts.entry(text).or_insert(next);
                self.text_cells += 1;
                write!(out, r#" t="s"><v>{number}"#)?;
            }
        }
        out.write_all(b"</v></c>")
    }

    /// Writes the shared string table and returns the bytes of the file.
    pub(super) fn finish(mut self) -> io::Result<Vec<u8>> {
        let mut texts: Vec<_> = std::mem::take(&mut self.texts).into_iter().collect();
        texts.sort_unstable_by_key(|(_, number)| *number);
        self.start_part("xl/sharedStrings.xml")?;
        let (uses, count) = (self.text_cells, texts.len());
        write!(
            self.zip,
            r#"<sst xmlns="{MAIN}" count="{uses}" uniqueCount="{count}">"#
        )?;
        for (text, _) in &texts {
            self.zip.write_all(&shared_string(text)?)?;
        }
        self.zip.write_all(b"</sst>")?;
        Ok(self.zip.finish()?.into_inner())
    }
}

/// Returns the letters of a column, which is counted from zero.
fn column_letters(column: usize) -> String {
    let (mut reversed, mut remaining) = (String::new(), column + 1);
    while remaining > 0 {
        reversed.extend(('A'..='Z').nth((remaining - 1) % 26));
        remaining = (remaining - 1) / 26;
    }
    reversed.chars().rev().collect()
}

/// Encodes a text for the shared string table. Whitespace at its ends and line breaks are preserved.
fn shared_string(text: &str) -> io::Result<Vec<u8>> {
    let mut item = match text.trim().len() < text.len() || text.contains('\n') {
        true => br#"<si><t xml:space="preserve">"#.to_vec(),
        false => b"<si><t>".to_vec(),
    };
    escape(text, &mut item)?;
    item.extend_from_slice(b"</t></si>");
    Ok(item)
}

/// Escapes a text for XML. Characters that XML does not allow become `_xHHHH_`, as in Excel, and literal text of that
/// form is escaped.
fn escape(text: &str, out: &mut Vec<u8>) -> io::Result<()> {
    for (offset, c) in text.char_indices() {
        match c {
            '&' => out.extend_from_slice(b"&amp;"),
            '<' => out.extend_from_slice(b"&lt;"),
            '>' => out.extend_from_slice(b"&gt;"),
            '"' => out.extend_from_slice(b"&quot;"),
            '_' if starts_with_escape(text.get(offset..).unwrap_or_default()) => {
                out.extend_from_slice(b"_x005F_");
            }
            c if needs_escape(c) => write!(out, "_x{:04X}_", u32::from(c))?,
            c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Ok(())
}

/// Returns true if a character would break the XML or, like `\r`, would not be read back.
fn needs_escape(c: char) -> bool {
    matches!(c, '\0'..='\u{1f}' if c != '\t' && c != '\n') || matches!(c, '\u{fffe}' | '\u{ffff}')
}

/// Returns true if a text starts like an escaped character. Its last `_` may be the first of a real one.
fn starts_with_escape(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("_x") else {
        return false;
    };
    let mut chars = rest.chars();
    chars
        .by_ref()
        .take(4)
        .filter(char::is_ascii_hexdigit)
        .count()
        == 4
        && chars.next().is_some_and(|c| c == '_' || needs_escape(c))
}

#[cfg(test)]
mod tests;
