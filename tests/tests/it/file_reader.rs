//! Untrusted files, read by the real binary in a child process: valid ones are read, and those that would take
//! all memory or all time are rejected within the limits.

use bytes::Bytes;
use interzone_execution::files::{FileKind, FileOwner, FileReader, InputRules};
use interzone_protocol::zone::ErrorReason;
use std::io::{Cursor, Write};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};
use zip::ZipWriter;
use zip::write::SimpleFileOptions;

/// Path of the binary that reads files, built by the test runner next to this one. It is needed only where
/// files are read.
pub(crate) fn binary_path() -> PathBuf {
    let me = std::env::current_exe().unwrap();
    let folder = me.parent().and_then(Path::parent).unwrap();
    folder.join("interzone")
}

fn reader() -> FileReader {
    let program = binary_path();
    assert!(
        program.exists(),
        "{} is not built: test the complete workspace, as ./test.sh does",
        program.display()
    );
    FileReader::new(program, 4)
}

fn owner(name: &str) -> FileOwner {
    FileOwner::new(name, None)
}

/// Little memory, so that a file that would take all of it fails soon, and more CPU time than a busy machine
/// needs for that.
fn rules() -> InputRules {
    InputRules {
        extract_memory: 160 << 20,
        extract_cpu_time: Duration::from_secs(60),
        ..InputRules::default()
    }
}

async fn check(reader: &FileReader, bytes: Vec<u8>) -> Result<FileKind, ErrorReason> {
    let (owner, rules) = (owner("a"), rules());
    let checked = reader.check(&owner, Bytes::from(bytes), ("", "a"), &rules);
    checked.await.map_err(|fault| fault.code)
}

/// PDF of these objects, the first of which is its catalog.
fn pdf(objects: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = b"%PDF-1.5\n".to_vec();
    let mut table = Vec::new();
    for (number, object) in (1..).zip(objects) {
        table.push(bytes.len());
        bytes.extend(format!("{number} 0 obj\n").bytes());
        bytes.extend(object);
        bytes.extend(b"\nendobj\n");
    }
    let (start, size) = (bytes.len(), objects.len() + 1);
    bytes.extend(format!("xref\n0 {size}\n0000000000 65535 f \n").bytes());
    for offset in table {
        bytes.extend(format!("{offset:010} 00000 n \n").bytes());
    }
    let end = format!("trailer<</Root 1 0 R/Size {size}>>\nstartxref\n{start}\n%%EOF");
    bytes.extend(end.bytes());
    bytes
}

fn stream(dictionary: &str, content: &[u8]) -> Vec<u8> {
    let length = content.len();
    let mut stream = format!("<<{dictionary}/Length {length}>>stream\n").into_bytes();
    stream.extend(content);
    stream.extend(b"\nendstream");
    stream
}

/// PDF of one page drawn by this stream, with these further objects.
fn pdf_page(content: Vec<u8>, more: &[Vec<u8>]) -> Vec<u8> {
    let mut objects = vec![
        b"<</Type/Catalog/Pages 2 0 R>>".to_vec(),
        b"<</Type/Pages/Kids[3 0 R]/Count 1>>".to_vec(),
        b"<</Type/Page/Parent 2 0 R/Contents 4 0 R/Resources<</Font<</F1 5 0 R>>>>>>".to_vec(),
        content,
        b"<</Type/Font/Subtype/Type1/BaseFont/Courier/Encoding/WinAnsiEncoding>>".to_vec(),
    ];
    objects.extend_from_slice(more);
    pdf(&objects)
}

const PAGE_CONTENT: &[u8] = b"BT /F1 12 Tf (hello) Tj ET";

fn good_pdf() -> Vec<u8> {
    pdf_page(stream("", PAGE_CONTENT), &[])
}

/// The same bytes as a zlib stream with one stored (uncompressed) block.
fn zlib(bytes: &[u8]) -> Vec<u8> {
    let length = u16::try_from(bytes.len()).unwrap();
    let (mut low, mut high) = (1_u32, 0_u32);
    for byte in bytes {
        low = (low + u32::from(*byte)) % 65_521;
        high = (high + low) % 65_521;
    }
    let mut packed = vec![0x78, 0x01, 0x01];
    packed.extend(length.to_le_bytes());
    packed.extend((!length).to_le_bytes());
    packed.extend(bytes);
    packed.extend((high << 16 | low).to_be_bytes());
    packed
}

/// Page whose stream declares rows of this many columns.
fn pdf_with_columns(columns: u64) -> Vec<u8> {
    let dictionary = format!("/Filter/FlateDecode/DecodeParms<</Predictor 12/Columns {columns}>>");
    pdf_page(stream(&dictionary, &zlib(PAGE_CONTENT)), &[])
}

fn zip(parts: &[(&str, &[u8])]) -> Vec<u8> {
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, content) in parts {
        archive
            .start_file(*name, SimpleFileOptions::default())
            .unwrap();
        archive.write_all(content).unwrap();
    }
    archive.finish().unwrap().into_inner()
}

const CONTENT_TYPES_PART: (&str, &[u8]) = ("[Content_Types].xml", b"<Types/>");

fn docx(document: &str) -> Vec<u8> {
    zip(&[
        CONTENT_TYPES_PART,
        ("word/document.xml", document.as_bytes()),
    ])
}

fn xlsx(sheet: &str) -> Vec<u8> {
    zip(&[
        CONTENT_TYPES_PART,
        (
            "xl/workbook.xml",
            br#"<workbook xmlns:r="r"><sheets><sheet name="One" r:id="r1"/></sheets></workbook>"#,
        ),
        (
            "xl/_rels/workbook.xml.rels",
            br#"<Relationships><Relationship Id="r1" Type="x/worksheet" Target="s.xml"/></Relationships>"#,
        ),
        ("xl/s.xml", sheet.as_bytes()),
    ])
}

fn png(width: u32, height: u32) -> Vec<u8> {
    let mut bytes = b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR".to_vec();
    bytes.extend(width.to_be_bytes());
    bytes.extend(height.to_be_bytes());
    bytes.extend(b"\x08\0\0\0\0CRC.\0\0\0\x01IDATxCRC.\0\0\0\0IENDCRC.");
    bytes
}

#[tokio::test]
async fn documents_are_read_in_a_child_process() {
    let (reader, owner, rules) = (reader(), owner("a"), InputRules::default());
    assert_eq!(check(&reader, good_pdf()).await, Ok(FileKind::Pdf));
    let text = reader.text(&owner, FileKind::Pdf, good_pdf().into(), &rules);
    assert_eq!(text.await.unwrap(), "hello\n");
    let document = docx("<w:p><w:t>words</w:t></w:p>");
    assert_eq!(check(&reader, document).await, Ok(FileKind::Docx));
    assert_eq!(check(&reader, png(1, 1)).await, Ok(FileKind::Png));
    // The longest allowed text is returned completely.
    let long = "あ".repeat(1_000_000);
    let text = reader.text(
        &owner,
        FileKind::Text,
        long.clone().into_bytes().into(),
        &rules,
    );
    assert!(text.await.unwrap() == long);
}

#[tokio::test]
async fn pdf_with_huge_columns_is_rejected_within_memory_limit() {
    let reader = reader();
    for columns in [1_000_000_000_000, 1_000_000_000] {
        let file = pdf_with_columns(columns);
        assert!(file.len() < 700);
        let refused = check(&reader, file).await;
        assert_eq!(refused, Err(ErrorReason::ExtractionFailed), "{columns}");
    }
    assert_eq!(check(&reader, good_pdf()).await, Ok(FileKind::Pdf));
}

#[tokio::test]
async fn slow_pdfs_do_not_block_other_owners() {
    let reader = reader();
    let hostile = [b"%PDF-1.4\n".as_slice(), &b"1 0 obj ".repeat(128_000)].concat();
    let rules = InputRules::default();
    let many = async {
        let (owner, file) = (owner("many"), Bytes::from(hostile));
        let read = || reader.check(&owner, file.clone(), ("", "a.pdf"), &rules);
        tokio::join!(read(), read(), read(), read())
    };
    let others = async {
        let started_at = Instant::now();
        assert_eq!(check(&reader, good_pdf()).await, Ok(FileKind::Pdf));
        started_at.elapsed()
    };
    let ((a, b, c, d), took) = tokio::join!(many, others);
    for refused in [a, b, c, d] {
        assert_eq!(refused.unwrap_err().code, ErrorReason::ExtractionFailed);
    }
    // Far more than a busy machine needs, and far less than the minutes it took before the fix.
    assert!(took < Duration::from_secs(10), "{took:?}");
}

/// Files of every kind that expand, nest or repeat without limit.
#[tokio::test]
async fn file_bombs_fail_only_their_own_file() {
    let spaces = " ".repeat(4 << 20);
    let inner = zip(&[("a", spaces.as_bytes())]);
    let loops = "<</Type/Pages/Kids[2 0 R 3 0 R]/Count 2/Parent 2 0 R>>";
    let numbers: String = (100..2_000).map(|number| format!("{number} 0 ")).collect();
    let same = format!("{numbers}[{}]", "0 ".repeat(10_000));
    let same_dictionary = format!("/Type/ObjStm/N 1900/First {}", numbers.len());
    let form = "/Type/XObject/Subtype/Form/Resources<</XObject<</X 4 0 R>>>>";
    let huge_sheet = format!(
        "<worksheet><dimension ref=\"A1:XFD1048576\"/><sheetData>{}</sheetData></worksheet>",
        "<row><c r=\"XFD1048576\"><v>1</v></c></row>".repeat(2_000)
    );
    let bombs: Vec<(&str, Vec<u8>, Result<FileKind, ErrorReason>)> = vec![
        ("archive", docx(&spaces), Err(ErrorReason::FileBomb)),
        (
            "archive in an archive, which stays packed",
            zip(&[
                CONTENT_TYPES_PART,
                ("word/document.xml", b"<w:p><w:t>a</w:t></w:p>"),
                ("b.zip", &inner),
            ]),
            Ok(FileKind::Docx),
        ),
        (
            "entities",
            docx(
                "<!DOCTYPE a [<!ENTITY b \"bbbb\"><!ENTITY c \"&b;&b;\">]><w:p><w:t>&c;</w:t></w:p>",
            ),
            Err(ErrorReason::ExtractionFailed),
        ),
        (
            "deep elements",
            docx(&"<w:p>".repeat(100_000)),
            Err(ErrorReason::FileBomb),
        ),
        ("huge sheet", xlsx(&huge_sheet), Ok(FileKind::Xlsx)),
        ("huge picture", png(u32::MAX, u32::MAX), Ok(FileKind::Png)),
        (
            "pages in a circle",
            pdf(&[
                b"<</Type/Catalog/Pages 2 0 R>>".to_vec(),
                loops.into(),
                b"<</Type/Page>>".to_vec(),
            ]),
            Err(ErrorReason::ExtractionFailed),
        ),
        (
            "form in itself",
            pdf_page(stream(form, b"/X Do"), &[]),
            Err(ErrorReason::ExtractionFailed),
        ),
        (
            "deep arrays",
            pdf_page(stream("", &b"[".repeat(4_000_000)), &[]),
            Err(ErrorReason::ExtractionFailed),
        ),
        (
            "many values",
            pdf_page(stream("", &b"0 ".repeat(2_000_000)), &[]),
            Err(ErrorReason::FileBomb),
        ),
        (
            "one array under many numbers",
            pdf_page(
                stream("", PAGE_CONTENT),
                &[stream(&same_dictionary, same.as_bytes())],
            ),
            Err(ErrorReason::FileBomb),
        ),
    ];
    let reader = reader();
    for (name, bytes, expected) in bombs {
        assert!(bytes.len() <= 5 << 20, "{name}: {}", bytes.len());
        let first = check(&reader, bytes.clone()).await;
        assert_eq!(first, expected, "{name}");
        assert_eq!(check(&reader, bytes).await, first, "{name}: second read");
    }
    assert_eq!(check(&reader, good_pdf()).await, Ok(FileKind::Pdf));
}

/// The child sets its limits before it reads its request.
#[cfg(target_os = "linux")]
#[tokio::test]
async fn child_sets_rlimits_before_reading() {
    let mut child = tokio::process::Command::new(binary_path())
        .args([
            "extract-file",
            "--memory",
            "268435456",
            "--cpu-seconds",
            "7",
        ])
        .env_clear()
        .stdin(std::process::Stdio::piped())
        .stdout(std::process::Stdio::piped())
        .kill_on_drop(true)
        .spawn()
        .unwrap();
    let path = format!("/proc/{}/limits", child.id().unwrap());
    let deadline = Instant::now() + Duration::from_secs(30);
    let mut poll = tokio::time::interval(Duration::from_millis(5));
    // The memory limit is set last.
    let limits = loop {
        let limits = std::fs::read_to_string(&path).unwrap();
        if limits.contains("268435456") {
            break limits;
        }
        assert!(Instant::now() < deadline, "{limits}");
        poll.tick().await;
    };
    for (name, soft, hard) in [
        ("Max cpu time", "7", "8"),
        ("Max file size", "0", "0"),
        ("Max core file size", "0", "0"),
        ("Max processes", "0", "0"),
        ("Max open files", "3", "3"),
        ("Max address space", "268435456", "268435456"),
    ] {
        let line = limits.lines().find(|line| line.starts_with(name)).unwrap();
        let values: Vec<&str> = line[name.len()..].split_whitespace().take(2).collect();
        assert_eq!(values, [soft, hard], "{name}");
    }
    // Without its parent it gets no more input, and exits.
    drop(child.stdin.take());
    assert_eq!(child.wait().await.unwrap().code(), Some(1));
}
