//! Sample files for tests.

use lopdf::content::{Content, Operation};
use lopdf::{Document, Object, Stream, dictionary};
use std::io::{Cursor, Write};
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, ZipWriter};

/// Creates a zip archive of these parts.
pub(crate) fn zip(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    let options = SimpleFileOptions::default().compression_method(CompressionMethod::Deflated);
    for (name, content) in parts {
        archive.start_file(*name, options).unwrap();
        archive.write_all(content).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

const TYPES: (&str, &[u8]) = ("[Content_Types].xml", b"<Types/>");

pub(crate) fn docx_with_body(body: &str) -> Vec<u8> {
    let document = format!(
        r#"<?xml version="1.0"?><w:document xmlns:w="w"><w:body>{body}</w:body></w:document>"#
    );
    zip(&[TYPES, ("word/document.xml", document.as_bytes())])
}

pub(crate) fn docx() -> Vec<u8> {
    docx_with_body(
        r#"<w:p><w:pPr><w:tabs><w:tab w:val="left"/></w:tabs></w:pPr><w:r><w:t>Quarterly </w:t></w:r><w:r><w:t xml:space="preserve">report &amp; more</w:t></w:r></w:p>
        <w:tbl><w:tr><w:tc><w:p><w:r><w:t>a</w:t></w:r></w:p></w:tc><w:tc><w:p><w:r><w:t>b</w:t></w:r></w:p></w:tc></w:tr></w:tbl>
        <w:p><w:r><w:t>one</w:t><w:tab/><w:t>two</w:t><w:br/><w:t>&#x4e09;</w:t></w:r></w:p>
        <w:p><mc:AlternateContent><mc:Choice><w:r><w:t>new</w:t></w:r></mc:Choice><mc:Fallback><w:r><w:t>old</w:t></w:r></mc:Fallback></mc:AlternateContent></w:p>"#,
    )
}

pub(crate) fn pptx() -> Vec<u8> {
    let slide = |text: &str| {
        format!(
            r#"<p:sld xmlns:a="a"><a:p><a:r><a:t>{text}</a:t></a:r></a:p><a:p><a:fld><a:t>7</a:t></a:fld></a:p></p:sld>"#
        )
    };
    let (first, second) = (slide("First"), slide("Second"));
    zip(&[
        TYPES,
        (
            "ppt/presentation.xml",
            br#"<p:presentation xmlns:r="r"><p:sldIdLst><p:sldId id="256" r:id="rId3"/><p:sldId id="257" r:id="rId2"/></p:sldIdLst></p:presentation>"#,
        ),
        (
            "ppt/_rels/presentation.xml.rels",
            br#"<Relationships><Relationship Id="rId2" Type="x/slide" Target="slides/slide1.xml"/><Relationship Id="rId3" Type="x/slide" Target="/ppt/slides/slide2.xml"/></Relationships>"#,
        ),
        ("ppt/slides/slide1.xml", second.as_bytes()),
        ("ppt/slides/slide2.xml", first.as_bytes()),
        (
            "ppt/slides/_rels/slide2.xml.rels",
            br#"<Relationships><Relationship Id="a" Type="x/notesSlide" Target="../notesSlides/n1.xml"/><Relationship Id="b" Type="x/hyperlink" Target="http://e" TargetMode="External"/></Relationships>"#,
        ),
        ("ppt/notesSlides/n1.xml", slide("Say hello").as_bytes()),
    ])
}

pub(crate) fn xlsx() -> Vec<u8> {
    zip(&[
        TYPES,
        (
            "xl/workbook.xml",
            br#"<workbook xmlns:r="r"><sheets><sheet name="Two" sheetId="2" r:id="r2"/><sheet name="One" sheetId="1" r:id="r1"/></sheets></workbook>"#,
        ),
        (
            "xl/_rels/workbook.xml.rels",
            br#"<Relationships><Relationship Id="r1" Type="x/worksheet" Target="worksheets/s1.xml"/><Relationship Id="r2" Type="x/worksheet" Target="worksheets/s2.xml"/><Relationship Id="r3" Type="x/sharedStrings" Target="sharedStrings.xml"/><Relationship Id="r4" Type="x/styles" Target="styles.xml"/></Relationships>"#,
        ),
        (
            "xl/sharedStrings.xml",
            "<sst><si><t>名前</t><rPh><t>ナマエ</t></rPh></si><si><r><t>ri</t></r><r><t>ch</t></r></si></sst>".as_bytes(),
        ),
        (
            "xl/styles.xml",
            br#"<styleSheet><numFmts><numFmt numFmtId="170" formatCode="yyyy&quot;x&quot;mm"/></numFmts><cellXfs><xf numFmtId="0"/><xf numFmtId="170"/></cellXfs></styleSheet>"#,
        ),
        (
            "xl/worksheets/s1.xml",
            br#"<worksheet><sheetData><row r="1"><c r="A1" t="s"><v>0</v></c><c r="C1" t="s"><v>1</v></c></row><row r="2"><c r="A2" s="1"><v>45292</v></c><c r="B2"><v>1.5</v></c><c r="C2" t="b"><v>1</v></c><c r="D2" t="inlineStr"><is><t>a
b</t></is></c></row></sheetData></worksheet>"#,
        ),
        ("xl/worksheets/s2.xml", b"<worksheet><sheetData><row><c t=\"str\"><f>A1</f><v>made</v></c></row></sheetData></worksheet>"),
    ])
}

/// Creates a PDF whose pages show these texts.
pub(crate) fn pdf_document(pages: &[&str]) -> Document {
    let mut document = Document::with_version("1.5");
    let tree = document.new_object_id();
    let font = document.add_object(dictionary! {
        "Type" => "Font", "Subtype" => "Type1", "BaseFont" => "Courier", "Encoding" => "WinAnsiEncoding",
    });
    let resources = document.add_object(dictionary! { "Font" => dictionary! { "F1" => font } });
    let mut kids: Vec<Object> = Vec::new();
    for text in pages {
        let mut operations = vec![
            Operation::new("BT", vec![]),
            Operation::new("Tf", vec!["F1".into(), 12.into()]),
        ];
        for line in text.lines() {
            operations.push(Operation::new("Td", vec![0.into(), (-14).into()]));
            operations.push(Operation::new("Tj", vec![Object::string_literal(line)]));
        }
        operations.push(Operation::new("ET", vec![]));
        let content = Content { operations }.encode().unwrap();
        let mut content = Stream::new(dictionary! {}, content);
        content.compress().unwrap();
        let content = document.add_object(content);
        let page = document.add_object(dictionary! {
            "Type" => "Page", "Parent" => tree, "Contents" => content, "Resources" => resources,
        });
        kids.push(page.into());
    }
    let count = i64::try_from(kids.len()).unwrap();
    document.objects.insert(
        tree,
        Object::Dictionary(dictionary! { "Type" => "Pages", "Kids" => kids, "Count" => count }),
    );
    let catalog = document.add_object(dictionary! { "Type" => "Catalog", "Pages" => tree });
    document.trailer.set("Root", catalog);
    document
}

pub(crate) fn save(mut document: Document) -> Vec<u8> {
    let mut bytes = Vec::new();
    document.save_to(&mut bytes).unwrap();
    bytes
}

pub(crate) fn pdf(pages: &[&str]) -> Vec<u8> {
    save(pdf_document(pages))
}

/// Creates a PDF with object streams and a cross-reference stream.
pub(crate) fn modern_pdf(pages: &[&str]) -> Vec<u8> {
    let mut bytes = Vec::new();
    pdf_document(pages).save_modern(&mut bytes).unwrap();
    bytes
}

/// Images of one pixel.
pub(crate) const PNG: &[u8] = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR\0\0\0\x01\0\0\0\x01\x08\0\0\0\0:~\x9bU\0\0\0\nIDATx\x9cc`\0\0\0\x02\0\x01H\xaf\xa4q\0\0\0\0IEND\xaeB`\x82";
pub(crate) const JPEG: &[u8] = b"\xff\xd8\xff\xe0\0\x10JFIF\0\x01\x01\0\0\x01\0\x01\0\0\xff\xdb\0C\0\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\x01\xff\xc0\0\x0b\x08\0\x01\0\x01\x01\x01\x11\0\xff\xc4\0\x14\0\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xff\xc4\0\x14\x10\x01\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\xff\xda\0\x08\x01\x01\0\0?\0?\xff\xd9";
pub(crate) const GIF: &[u8] =
    b"GIF89a\x01\0\x01\0\x80\0\0\0\0\0\xff\xff\xff,\0\0\0\0\x01\0\x01\0\0\x02\x02D\x01\0;";
pub(crate) const WEBP: &[u8] =
    b"RIFF\x1a\0\0\0WEBPVP8L\r\0\0\0/\0\0\0\x10\x07\x10\x11\x11\x88\x88\xfe\x07\0";
