//! The package that a workbook is: a zip archive of XML (ECMA-376), with no more parts than cells
//! without styles need. It is packed while it is written, and its bytes depend on nothing but the cells.
//!
//! Texts are in one table for all sheets: Numbers and the previews of iOS show none that stand in
//! their cells.

use std::borrow::Cow;
use std::collections::HashMap;
use std::io::{self, Cursor, Write};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, ZipWriter};

/// Rows and columns of a sheet, as Excel has it.
const ROWS: usize = 1_048_576;
const COLUMNS: usize = 16_384;

const DECLARATION: &[u8] = br#"<?xml version="1.0" encoding="UTF-8" standalone="yes"?>"#;
const MAIN: &str = "http://schemas.openxmlformats.org/spreadsheetml/2006/main";
const PACKAGE: &str = "http://schemas.openxmlformats.org/package/2006";
const RELATION: &str = "http://schemas.openxmlformats.org/officeDocument/2006/relationships";
const TYPE: &str = "application/vnd.openxmlformats-officedocument.spreadsheetml";

/// The one style that all cells have. Some programs do not open a workbook without it.
const STYLES: &str = concat!(
    r#"<fonts count="1"><font><sz val="11"/><name val="Calibri"/><family val="2"/></font></fonts>"#,
    r#"<fills count="2"><fill><patternFill patternType="none"/></fill>"#,
    r#"<fill><patternFill patternType="gray125"/></fill></fills>"#,
    r#"<borders count="1"><border><left/><right/><top/><bottom/><diagonal/></border></borders>"#,
    r#"<cellStyleXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0"/></cellStyleXfs>"#,
    r#"<cellXfs count="1"><xf numFmtId="0" fontId="0" fillId="0" borderId="0" xfId="0"/></cellXfs>"#,
    r#"<cellStyles count="1"><cellStyle name="Normal" xfId="0" builtinId="0"/></cellStyles>"#,
);

/// What is in a cell.
pub(super) enum Cell<'a> {
    Empty,
    Bool(bool),
    /// A finite one.
    Number(f64),
    Text(Cow<'a, str>),
}

/// A workbook that is being written.
pub(super) struct Book<'a> {
    zip: ZipWriter<Cursor<Vec<u8>>>,
    /// How many sheets are written.
    sheets: usize,
    /// Which number each text has in the table.
    texts: HashMap<Cow<'a, str>, usize>,
    /// How many cells have a text.
    uses: usize,
}

impl<'a> Book<'a> {
    /// Begins a workbook that is to have sheets of these names.
    pub(super) fn new(names: &[String]) -> io::Result<Self> {
        let mut book = Self {
            zip: ZipWriter::new(Cursor::new(Vec::new())),
            sheets: 0,
            texts: HashMap::new(),
            uses: 0,
        };
        let parts =
            (1..=names.len()).map(|sheet| ("worksheet", format!("worksheets/sheet{sheet}.xml")));
        let shared = ["styles", "sharedStrings"].map(|kind| (kind, format!("{kind}.xml")));
        let parts: Vec<(&str, String)> = parts.chain(shared).collect();
        // In this order, for programs guess what a file is by its first three parts.
        book.types(&parts)?;
        book.begin("_rels/.rels")?;
        book.relations([("officeDocument", "xl/workbook.xml")])?;
        book.begin("xl/workbook.xml")?;
        book.names(names)?;
        book.begin("xl/_rels/workbook.xml.rels")?;
        book.relations(parts.iter().map(|(kind, part)| (*kind, part.as_str())))?;
        book.begin("xl/styles.xml")?;
        write!(
            book.zip,
            r#"<styleSheet xmlns="{MAIN}">{STYLES}</styleSheet>"#
        )?;
        Ok(book)
    }

    /// Writes of which type the parts are.
    fn types(&mut self, parts: &[(&str, String)]) -> io::Result<()> {
        self.begin("[Content_Types].xml")?;
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

    /// Writes where relations lead; their ids are numbered from one.
    fn relations<'b>(
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

    /// Writes which sheets there are.
    fn names(&mut self, names: &[String]) -> io::Result<()> {
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

    /// Begins the next part. Its time is always the same.
    fn begin(&mut self, part: &str) -> io::Result<()> {
        let options = SimpleFileOptions::default()
            .compression_method(CompressionMethod::Deflated)
            .last_modified_time(DateTime::DEFAULT);
        self.zip.start_file(part, options)?;
        self.zip.write_all(DECLARATION)
    }

    /// Writes the next sheet. Fails if a cell is beyond the last row or column that a sheet has.
    pub(super) fn sheet<R>(&mut self, rows: impl IntoIterator<Item = R>) -> io::Result<()>
    where
        R: IntoIterator<Item = Cell<'a>>,
    {
        self.sheets += 1;
        self.begin(&format!("xl/worksheets/sheet{}.xml", self.sheets))?;
        write!(
            self.zip,
            r#"<worksheet xmlns="{MAIN}"><sheetViews><sheetView workbookViewId="0"/></sheetViews><sheetFormatPr defaultRowHeight="15"/><sheetData>"#
        )?;
        let mut written = Vec::new();
        for (row, cells) in (1..).zip(rows) {
            written.clear();
            for (column, cell) in cells.into_iter().enumerate() {
                self.cell(&mut written, row, column, cell)?;
            }
            if !written.is_empty() {
                write!(self.zip, r#"<row r="{row}">"#)?;
                self.zip.write_all(&written)?;
                self.zip.write_all(b"</row>")?;
            }
        }
        self.zip.write_all(b"</sheetData></worksheet>")
    }

    fn cell(
        &mut self,
        out: &mut Vec<u8>,
        row: usize,
        column: usize,
        cell: Cell<'a>,
    ) -> io::Result<()> {
        if matches!(cell, Cell::Empty) {
            return Ok(());
        }
        if row > ROWS || column >= COLUMNS {
            return Err(io::ErrorKind::InvalidInput.into());
        }
        write!(out, r#"<c r="{}{row}""#, letters(column))?;
        match cell {
            Cell::Empty => {}
            Cell::Bool(value) => write!(out, r#" t="b"><v>{}"#, u8::from(value))?,
            // Both read back exactly; hundreds of zeros would be as exact, but nobody could read them.
            Cell::Number(value) if value == 0.0 || (1e-7..1e21).contains(&value.abs()) => {
                write!(out, "><v>{value}")?;
            }
            Cell::Number(value) => write!(out, "><v>{value:e}")?,
            Cell::Text(text) => {
                let next = self.texts.len();
                let number = *self.texts.entry(text).or_insert(next);
                self.uses += 1;
                write!(out, r#" t="s"><v>{number}"#)?;
            }
        }
        out.write_all(b"</v></c>")
    }

    /// Writes the table of texts, and gives the bytes of the file.
    pub(super) fn finish(mut self) -> io::Result<Vec<u8>> {
        let mut texts: Vec<_> = std::mem::take(&mut self.texts).into_iter().collect();
        texts.sort_unstable_by_key(|(_, number)| *number);
        self.begin("xl/sharedStrings.xml")?;
        let (uses, count) = (self.uses, texts.len());
        write!(
            self.zip,
            r#"<sst xmlns="{MAIN}" count="{uses}" uniqueCount="{count}">"#
        )?;
        for (text, _) in &texts {
            self.zip.write_all(&item(text)?)?;
        }
        self.zip.write_all(b"</sst>")?;
        Ok(self.zip.finish()?.into_inner())
    }
}

/// The letters of a column, which is counted from zero.
fn letters(column: usize) -> String {
    let (mut letters, mut rest) = (String::new(), column + 1);
    while rest > 0 {
        letters.extend(('A'..='Z').nth((rest - 1) % 26));
        rest = (rest - 1) / 26;
    }
    letters.chars().rev().collect()
}

/// A text as the table of texts has it. Space at its ends and between lines is a part of it.
fn item(text: &str) -> io::Result<Vec<u8>> {
    let mut item = match text.trim().len() < text.len() || text.contains('\n') {
        true => br#"<si><t xml:space="preserve">"#.to_vec(),
        false => b"<si><t>".to_vec(),
    };
    escape(text, &mut item)?;
    item.extend_from_slice(b"</t></si>");
    Ok(item)
}

/// Writes a text into XML. What XML has no place for is `_xHHHH_`, as Excel writes it, and so what
/// would be read as that is taken apart.
fn escape(text: &str, out: &mut Vec<u8>) -> io::Result<()> {
    for (place, c) in text.char_indices() {
        match c {
            '&' => out.extend_from_slice(b"&amp;"),
            '<' => out.extend_from_slice(b"&lt;"),
            '>' => out.extend_from_slice(b"&gt;"),
            '"' => out.extend_from_slice(b"&quot;"),
            '_' if is_escape(text.get(place..).unwrap_or_default()) => {
                out.extend_from_slice(b"_x005F_");
            }
            c if has_no_place(c) => write!(out, "_x{:04X}_", u32::from(c))?,
            c => out.extend_from_slice(c.encode_utf8(&mut [0; 4]).as_bytes()),
        }
    }
    Ok(())
}

/// Whether a character would break the XML, or, as `\r`, not be read back.
fn has_no_place(c: char) -> bool {
    matches!(c, '\0'..='\u{1f}' if c != '\t' && c != '\n') || matches!(c, '\u{fffe}' | '\u{ffff}')
}

/// Whether a text begins like an escaped character. Its last `_` may be the first of a real one.
fn is_escape(text: &str) -> bool {
    let Some(rest) = text.strip_prefix("_x") else {
        return false;
    };
    let mut letters = rest.chars();
    letters
        .by_ref()
        .take(4)
        .filter(char::is_ascii_hexdigit)
        .count()
        == 4
        && letters.next().is_some_and(|c| c == '_' || has_no_place(c))
}

#[cfg(test)]
mod tests;
