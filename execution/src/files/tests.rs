//! Detection and text extraction with valid and invalid files.

use super::test_fixtures::{
    GIF, JPEG, PNG, WEBP, docx, docx_with_body, modern_pdf, pdf, pdf_document, pptx, save, xlsx,
    zip,
};
use super::*;
use interzone_protocol::zone::ErrorReason;
use lopdf::{Object, Stream, dictionary};
use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::{prop_assert, proptest};
use std::panic::catch_unwind;

fn rules() -> InputRules {
    InputRules::default()
}

fn detect(bytes: &[u8], declared: &str, name: &str) -> Result<FileKind, ErrorReason> {
    detect_kind(bytes, declared, name, &rules()).map_err(FileProblem::code)
}

fn text(kind: FileKind, bytes: &[u8]) -> Result<String, ErrorReason> {
    extract_text(kind, bytes, &rules()).map_err(FileProblem::code)
}

fn sample_files() -> Vec<(FileKind, Vec<u8>)> {
    vec![
        (FileKind::Png, PNG.to_vec()),
        (FileKind::Jpeg, JPEG.to_vec()),
        (FileKind::Gif, GIF.to_vec()),
        (FileKind::WebP, WEBP.to_vec()),
        (FileKind::Pdf, pdf(&["hello"])),
        (FileKind::Pdf, modern_pdf(&["hello"])),
        (FileKind::Docx, docx()),
        (FileKind::Xlsx, xlsx()),
        (FileKind::Pptx, pptx()),
        (FileKind::Csv, b"a,b\n1,2\n".to_vec()),
        (FileKind::Text, b"just words".to_vec()),
        (FileKind::Markdown, b"# Title".to_vec()),
        (FileKind::Json, b"{\"a\":1}".to_vec()),
    ]
}

#[test]
fn valid_files_are_detected() {
    for (kind, bytes) in sample_files() {
        let name = format!("a.{}", kind.extension());
        let upper_case = format!("{}; charset=UTF-8", kind.media_type().to_uppercase());
        for declared in [
            kind.media_type(),
            &upper_case,
            "",
            "application/octet-stream",
        ] {
            assert_eq!(detect(&bytes, declared, &name), Ok(kind), "{declared}");
        }
        if !kind.is_text() {
            assert_eq!(detect(&bytes, "", "noname"), Ok(kind));
        }
    }
    assert_eq!(
        detect(b"a,b", "application/vnd.ms-excel", "a.CSV"),
        Ok(FileKind::Csv)
    );
    assert_eq!(detect(b"a,b", "text/plain", "a.csv"), Ok(FileKind::Csv));
}

#[test]
fn mismatched_files_are_rejected() {
    use ErrorReason::{UnsupportedFileType, UnsupportedImageType, UnsupportedType};
    for (actual, bytes) in sample_files() {
        for (other, _) in sample_files()
            .into_iter()
            .filter(|(other, _)| *other != actual)
        {
            if other.is_text() && actual.is_text() {
                continue;
            }
            let expected = match other.is_image() {
                true => UnsupportedImageType,
                false => UnsupportedFileType,
            };
            assert_eq!(
                detect(&bytes, other.media_type(), "x"),
                Err(expected),
                "{actual:?} as {other:?}"
            );
        }
    }
    let page = b"\n<!DOCTYPE html><html><body>Sign in</body></html>";
    assert_eq!(
        detect(page, "image/png", "a.png"),
        Err(UnsupportedImageType)
    );
    assert_eq!(
        detect(page, "application/pdf", "a.pdf"),
        Err(UnsupportedFileType)
    );
    assert_eq!(detect(page, "text/csv", "a.csv"), Err(UnsupportedType));
    assert_eq!(
        detect(page, "text/html", "a.html"),
        Err(UnsupportedFileType)
    );
    for (bytes, declared, expected) in [
        (
            b"\x89PNG\r\n\x1a\n".as_slice(),
            "image/png",
            UnsupportedImageType,
        ),
        (b"RIFF....WAVEfmt ", "image/webp", UnsupportedImageType),
        (b"II*\0........", "image/tiff", UnsupportedImageType),
        (b"PK\x05\x06", "application/zip", UnsupportedFileType),
        (b"MZ\x90\0\x03\0\0\0", "", UnsupportedFileType),
        (b"a\0b", "text/plain", UnsupportedFileType),
        (b"words", "", UnsupportedFileType),
    ] {
        assert_eq!(detect(bytes, declared, "x"), Err(expected), "{declared}");
    }
    // An archive that is not a document, one that is two documents, and one with macros.
    let docx_type = FileKind::Docx.media_type();
    assert_eq!(
        detect(&zip(&[("a.txt", b"x")]), docx_type, "a"),
        Err(UnsupportedFileType)
    );
    let types = ("[Content_Types].xml", b"<Types/>".as_slice());
    let both = zip(&[
        types,
        ("word/document.xml", b"<a/>"),
        ("xl/workbook.xml", b"<a/>"),
    ]);
    assert_eq!(detect(&both, docx_type, "a"), Err(UnsupportedFileType));
    let macros = zip(&[
        types,
        ("word/document.xml", b"<a/>"),
        ("word/vbaProject.bin", b"x"),
    ]);
    assert_eq!(detect(&macros, docx_type, "a"), Err(UnsupportedFileType));
}

#[test]
fn oversized_and_empty_files_are_rejected() {
    let rules = InputRules {
        image_bytes: 40,
        document_bytes: 10,
        ..rules()
    };
    let detect = |bytes: &[u8], declared| {
        detect_kind(bytes, declared, "x", &rules).map_err(FileProblem::code)
    };
    assert_eq!(detect(&[b'a'; 10], "text/plain"), Ok(FileKind::Text));
    assert_eq!(
        detect(&[b'a'; 11], "text/plain"),
        Err(ErrorReason::FileTooLarge)
    );
    assert_eq!(detect(GIF, "image/gif"), Ok(FileKind::Gif));
    assert_eq!(detect(&[b'a'; 41], ""), Err(ErrorReason::FileTooLarge));
    // A document of undeclared type must not use the larger limit of images.
    let pdf = [b"%PDF-".as_slice(), &[b' '; 10]].concat();
    assert_eq!(detect(&pdf, ""), Err(ErrorReason::FileTooLarge));
    assert_eq!(
        detect(b"", "text/plain"),
        Err(ErrorReason::ExtractionFailed)
    );
    let problem = extract_text(FileKind::Text, &[b'a'; 11], &rules).unwrap_err();
    assert_eq!(problem, FileProblem::TooLarge);
}

#[test]
fn text_is_extracted_from_documents() {
    assert_eq!(
        text(FileKind::Docx, &docx()).unwrap(),
        "Quarterly report & more\na\tb\t\none\ttwo\n三\nnew\n"
    );
    assert_eq!(
        text(FileKind::Pptx, &pptx()).unwrap(),
        "[Slide 1]\nFirst\n[Notes of slide 1]\nSay hello\n[Slide 2]\nSecond\n"
    );
    assert_eq!(
        text(FileKind::Xlsx, &xlsx()).unwrap(),
        "[Sheet Two]\nmade\n[Sheet One]\n名前\t\trich\n2024-01-01\t1.5\tTRUE\ta b\n"
    );
    let pages = ["Hello, World\nsecond line", "page two"];
    for bytes in [pdf(&pages), modern_pdf(&pages)] {
        assert_eq!(
            text(FileKind::Pdf, &bytes).unwrap(),
            "Hello, World\nsecond line\npage two\n"
        );
    }
    assert_eq!(text(FileKind::Csv, b"\xef\xbb\xbfa,b\n").unwrap(), "a,b\n");
}

#[test]
fn long_text_is_truncated_with_a_marker() {
    let rules = InputRules {
        text_chars: 5,
        ..rules()
    };
    let text = extract_text(FileKind::Text, "あいうえおか".as_bytes(), &rules).unwrap();
    assert_eq!(text, "あいうえお\n[The rest of the file was left out.]");
    let complete = extract_text(FileKind::Text, "あいうえお".as_bytes(), &rules).unwrap();
    assert_eq!(complete, "あいうえお");
}

#[test]
fn files_without_text_are_rejected() {
    for (kind, bytes) in [
        (FileKind::Pdf, pdf(&[""])),
        (FileKind::Docx, docx_with_body("<w:p/>")),
        (FileKind::Text, b" \n".to_vec()),
        (FileKind::Png, PNG.to_vec()),
        (FileKind::Pdf, b"%PDF-1.7 and no more".to_vec()),
        (FileKind::Docx, b"PK\x03\x04broken".to_vec()),
        (FileKind::Docx, docx_with_body("<w:p><w:t>a")),
    ] {
        let read = text(kind, &bytes);
        if read != Ok("a".to_owned()) {
            assert_eq!(read, Err(ErrorReason::ExtractionFailed), "{kind:?}");
        }
    }
    let short = docx();
    assert_eq!(
        text(FileKind::Docx, &short[..short.len() - 30]),
        Err(ErrorReason::ExtractionFailed)
    );
    let doctype = zip(&[
        ("[Content_Types].xml", b"<Types/>"),
        (
            "word/document.xml",
            b"<!DOCTYPE a [<!ENTITY b \"bbbb\">]><w:p><w:t>&b;</w:t></w:p>",
        ),
    ]);
    assert_eq!(
        text(FileKind::Docx, &doctype),
        Err(ErrorReason::ExtractionFailed)
    );
    let unknown = docx_with_body("<w:p><w:t>a&b;c</w:t></w:p>");
    assert_eq!(text(FileKind::Docx, &unknown).unwrap(), "ac\n");
}

/// Creates an OLE container with one stream, as in the old Office formats.
fn ole_container(stream: &str) -> Vec<u8> {
    let mut bytes = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1".to_vec();
    bytes.resize(1_024, 0);
    let name: Vec<u8> = stream.encode_utf16().flat_map(u16::to_le_bytes).collect();
    let mut entry = [0; 128];
    entry[..name.len()].copy_from_slice(&name);
    entry[64] = u8::try_from(name.len() + 2).unwrap();
    entry[66] = 2;
    bytes.extend_from_slice(&entry);
    bytes
}

#[test]
fn incomplete_images_are_rejected() {
    for (kind, image) in [
        (FileKind::Png, PNG),
        (FileKind::Jpeg, JPEG),
        (FileKind::Gif, GIF),
        (FileKind::WebP, WEBP),
    ] {
        let declared = kind.media_type();
        assert_eq!(detect(image, declared, "x"), Ok(kind));
        let more = [image, b"more"].concat();
        assert_eq!(detect(&more, declared, "x"), Ok(kind), "{kind:?} and more");
        // Wherever it is truncated, it is rejected.
        for length in 12..image.len() {
            let result = detect(&image[..length], declared, "x");
            assert_eq!(
                result,
                Err(ErrorReason::ExtractionFailed),
                "{kind:?} {length}"
            );
        }
        // Whichever byte is changed, validation terminates.
        for index in 12..image.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xd9, 0xff] {
                let mut broken = image.to_vec();
                broken[index] = byte;
                let _ = detect(&broken, declared, "x");
            }
        }
    }
    let empty = b"GIF89a\x01\0\x01\0\0\0\0;".as_slice();
    let endless = [b"RIFF\xff\xff\xff\xffWEBP".as_slice(), &WEBP[12..]].concat();
    let unframed = b"\xff\xd8\xff\xda\0\x02\0\xff\xd9    ".as_slice();
    let no_data = [&PNG[..33], b"\0\0\0\0IEND    "].concat();
    for (bytes, declared) in [
        (empty, "image/gif"),
        (&endless, "image/webp"),
        (unframed, "image/jpeg"),
        (&no_data, "image/png"),
    ] {
        let result = detect(bytes, declared, "x");
        assert_eq!(result, Err(ErrorReason::ExtractionFailed), "{declared}");
    }
}

#[test]
fn encrypted_files_are_detected() {
    let (old, packed) = (
        ole_container("WordDocument"),
        ole_container("EncryptedPackage"),
    );
    for kind in [FileKind::Docx, FileKind::Xlsx, FileKind::Pptx] {
        for (bytes, expected) in [
            (&old, ErrorReason::UnsupportedFileType),
            (&packed, ErrorReason::FileEncrypted),
        ] {
            assert_eq!(detect(bytes, kind.media_type(), "a"), Err(expected));
        }
    }
    assert_eq!(
        detect(&packed, "", "a.xlsx"),
        Err(ErrorReason::FileEncrypted)
    );
    let problem = detect_kind(&old, "", "a.xlsx", &rules()).unwrap_err();
    let message = problem.into_file_error(&rules()).text;
    assert!(
        message.contains("save it as DOCX, XLSX or PPTX"),
        "{message}"
    );
    for declared in ["application/pdf", "application/msword", ""] {
        assert_eq!(
            detect(&old, declared, "a.doc"),
            Err(ErrorReason::UnsupportedFileType)
        );
    }
    // A name at an unaligned position, or a truncated one, is not an entry.
    let mut moved = packed.clone();
    moved.insert(8, 0);
    for bytes in [moved, packed[..packed.len() - 70].to_vec()] {
        assert_eq!(
            detect(&bytes, "", "a.xlsx"),
            Err(ErrorReason::UnsupportedFileType)
        );
    }

    // The encryption flag, in both headers of the archive.
    let mut flagged = docx();
    for (mark, offset) in [(b"PK\x03\x04", 6), (b"PK\x01\x02", 8)] {
        let places: Vec<usize> = (0..flagged.len() - 4)
            .filter(|at| &flagged[*at..at + 4] == mark)
            .collect();
        for place in places {
            flagged[place + offset] |= 1;
        }
    }
    assert_eq!(
        detect(&flagged, FileKind::Docx.media_type(), "a"),
        Err(ErrorReason::FileEncrypted)
    );

    let mut document = pdf_document(&["secret"]);
    document.trailer.set(
        "ID",
        Object::Array(vec![Object::string_literal("0123456789abcdef"); 2]),
    );
    let version = lopdf::EncryptionVersion::V1 {
        document: &document,
        owner_password: "owner",
        user_password: "user",
        permissions: lopdf::Permissions::all(),
    };
    let state = lopdf::EncryptionState::try_from(version).unwrap();
    document.encrypt(&state).unwrap();
    let bytes = save(document);
    assert_eq!(
        detect(&bytes, "application/pdf", "a"),
        Err(ErrorReason::FileEncrypted)
    );
    assert_eq!(text(FileKind::Pdf, &bytes), Err(ErrorReason::FileEncrypted));
    let hidden = String::from_utf8_lossy(&bytes).replace("/Encrypt", "/#45ncrypt");
    assert_eq!(
        detect(hidden.as_bytes(), "application/pdf", "a"),
        Err(ErrorReason::FileEncrypted)
    );
}

/// Highly compressed content takes little to send.
#[test]
fn decompression_bombs_are_rejected() {
    let zeros = vec![b' '; 1 << 20];
    let mut archive = zip::ZipWriter::new(std::io::Cursor::new(Vec::new()));
    let options = zip::write::SimpleFileOptions::default();
    for name in ["[Content_Types].xml", "word/document.xml"] {
        archive.start_file(name, options).unwrap();
        for _ in 0..40 {
            std::io::Write::write_all(&mut archive, &zeros).unwrap();
        }
    }
    let bytes = archive.finish().unwrap().into_inner();
    assert!(bytes.len() < 2 << 20);
    assert_eq!(
        detect(&bytes, FileKind::Docx.media_type(), "a"),
        Err(ErrorReason::FileBomb)
    );
    assert_eq!(text(FileKind::Docx, &bytes), Err(ErrorReason::FileBomb));

    let many: Vec<(String, Vec<u8>)> = (0..5_000).map(|n| (format!("p{n}"), Vec::new())).collect();
    let many: Vec<(&str, &[u8])> = many
        .iter()
        .map(|(n, c)| (n.as_str(), c.as_slice()))
        .collect();
    assert_eq!(
        detect(&zip(&many), FileKind::Docx.media_type(), "a"),
        Err(ErrorReason::FileBomb)
    );

    let deep = docx_with_body(&"<w:p>".repeat(10_000));
    assert_eq!(text(FileKind::Docx, &deep), Err(ErrorReason::FileBomb));
}

fn compressed_stream(size: usize) -> Stream {
    let mut stream = Stream::new(dictionary! {}, vec![b' '; size]);
    stream.compress().unwrap();
    stream
}

#[test]
fn decompression_bombs_in_pdfs_are_rejected() {
    let bomb = |insert: &dyn Fn(&mut lopdf::Document)| {
        let mut document = pdf_document(&["a"]);
        insert(&mut document);
        let bytes = save(document);
        assert!(bytes.len() < 1 << 20, "{}", bytes.len());
        text(FileKind::Pdf, &bytes)
    };
    let huge = compressed_stream(40 << 20);
    let page = |document: &mut lopdf::Document| {
        let id = document.add_object(huge.clone());
        let page = document.page_iter().next().unwrap();
        let page = document
            .get_object_mut(page)
            .unwrap()
            .as_dict_mut()
            .unwrap();
        page.set("Contents", id);
    };
    assert_eq!(bomb(&page), Err(ErrorReason::FileBomb));
    // An image is never unpacked.
    let image = |document: &mut lopdf::Document| {
        let mut stream = huge.clone();
        stream.dict.set("Subtype", "Image");
        document.add_object(stream);
    };
    assert_eq!(bomb(&image).unwrap(), "a\n");
}

#[test]
fn circular_pdf_structure_terminates() {
    let mut document = pdf_document(&["a"]);
    let page = document.page_iter().next().unwrap();
    let tree = document
        .get_dictionary(page)
        .unwrap()
        .get(b"Parent")
        .unwrap();
    let tree = tree.as_reference().unwrap();
    let pages = document
        .get_object_mut(tree)
        .unwrap()
        .as_dict_mut()
        .unwrap();
    pages.set(
        "Kids",
        vec![Object::Reference(tree), Object::Reference(page)],
    );
    pages.set("Parent", tree);
    let read = text(FileKind::Pdf, &save(document));
    assert!(
        read.is_ok() || read == Err(ErrorReason::ExtractionFailed),
        "{read:?}"
    );
    let deep = format!(
        "%PDF-1.4\n1 0 obj\n{}\nendobj\nxref\n0 2\n0000000000 65535 f \n0000000009 00000 n \ntrailer<</Root 1 0 R/Size 2>>\nstartxref\n{}\n%%EOF",
        "[".repeat(100_000),
        100_000 + 24,
    );
    assert!(text(FileKind::Pdf, deep.as_bytes()).is_err());
}

#[test]
fn file_names_are_sanitized() {
    for (name, media_type, expected) in [
        ("sales.csv", "text/csv", "sales.csv"),
        ("sales", "text/csv", "sales.csv"),
        ("SALES.CSV", "text/csv; charset=utf-8", "SALES.CSV"),
        ("a.txt", "text/csv", "a.txt.csv"),
        ("photo.jpeg", "image/jpeg", "photo.jpeg"),
        ("..\\..\\x:y*?.txt", "text/plain", "_.._x_y__.txt"),
        (".htaccess", "text/plain", "htaccess.txt"),
        ("a\u{202e}gpj.exe", "image/jpeg", "agpj.exe.jpg"),
        ("a\u{200b}\u{0}\nb.md", "text/markdown", "ab.md"),
        ("NUL", "text/plain", "_NUL.txt"),
        ("com1.old.txt", "text/plain", "_com1.old.txt"),
        ("a. . .", "application/x-unknown", "a"),
        ("報告書.xlsx", FileKind::Xlsx.media_type(), "報告書.xlsx"),
        ("a b.csv", "text/csv", "a b.csv"),
    ] {
        assert_eq!(safe_name(name, media_type), expected, "{name:?}");
    }
    for empty in ["", "...", "///", "\u{200b}", ".csv"] {
        let name = safe_name(empty, "text/csv");
        assert!(name.ends_with(".csv"), "{name}");
        assert_eq!(name, safe_name(empty, "text/csv"));
    }
    assert!(safe_name("", "text/csv").starts_with("generated_file_"));
    let long = safe_name(&format!("{}.csv", "長".repeat(300)), "text/csv");
    assert!(
        long.ends_with("長.csv") && long.chars().count() <= 100,
        "{long}"
    );
}

/// Random bytes, and real files with a few bytes changed or the end cut off.
fn malformed_files() -> impl Strategy<Value = (FileKind, Vec<u8>)> {
    let real = sample_files();
    let count = real.len();
    let changed = (
        0..count,
        proptest::collection::vec((any::<u16>(), any::<u8>()), 0..8),
        any::<u16>(),
    );
    let changed = changed.prop_map(move |(index, changes, cut)| {
        let (kind, mut bytes) = real[index].clone();
        for (place, byte) in changes {
            let place = usize::from(place) % bytes.len();
            bytes[place] = byte;
        }
        if cut % 4 == 0 {
            bytes.truncate(usize::from(cut) % bytes.len());
        }
        (kind, bytes)
    });
    let anything = (0..count, proptest::collection::vec(any::<u8>(), 0..600))
        .prop_map(|(index, bytes)| (FileKind::ALL[index % FileKind::ALL.len()], bytes));
    prop_oneof![4 => changed, 1 => anything]
}

proptest! {
    #[test]
    fn malformed_files_do_not_panic((kind, bytes) in malformed_files()) {
        let _ = detect_kind(&bytes, kind.media_type(), "x", &rules());
        let _ = detect_kind(&bytes, "", "", &rules());
        // The PDF library may panic, which ends the child process.
        let read = catch_unwind(|| extract_text(kind, &bytes, &rules()));
        prop_assert!(read.is_ok() || kind == FileKind::Pdf);
        if let Ok(Ok(text)) = read {
            prop_assert!(!text.trim().is_empty());
        }
    }

    #[test]
    fn safe_name_is_safe_for_any_input(name in any::<String>(), kind in 0..FileKind::ALL.len()) {
        let kind = FileKind::ALL[kind];
        let safe = safe_name(&name, kind.media_type());
        prop_assert!(safe.chars().count() <= 100 && safe.len() <= 240 && !safe.starts_with('.'));
        prop_assert!(!safe.contains(['/', '\\', ':', '*', '?', '"', '<', '>', '|', '\0']));
        prop_assert!(FileKind::from_name(&safe).is_some());
        prop_assert!(safe_name(&safe, kind.media_type()) == safe, "{safe}");
    }
}
