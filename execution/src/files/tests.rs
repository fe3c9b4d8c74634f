//! Real files are read, and files that lie are not.

use super::samples::{
    GIF, JPEG, PNG, WEBP, docx, docx_of, modern_pdf, pdf, pdf_document, pptx, saved, xlsx, zip,
};
use super::*;
use interzone_protocol::zone::ErrorWord;
use lopdf::{Object, Stream, dictionary};
use proptest::prelude::{Strategy, any, prop_oneof};
use proptest::{prop_assert, proptest};
use std::panic::catch_unwind;

fn rules() -> InputRules {
    InputRules::default()
}

fn seen(bytes: &[u8], declared: &str, name: &str) -> Result<Kind, ErrorWord> {
    examine(bytes, declared, name, &rules()).map_err(Problem::word)
}

fn text(kind: Kind, bytes: &[u8]) -> Result<String, ErrorWord> {
    extract_text(kind, bytes, &rules()).map_err(Problem::word)
}

fn real() -> Vec<(Kind, Vec<u8>)> {
    vec![
        (Kind::Png, PNG.to_vec()),
        (Kind::Jpeg, JPEG.to_vec()),
        (Kind::Gif, GIF.to_vec()),
        (Kind::WebP, WEBP.to_vec()),
        (Kind::Pdf, pdf(&["hello"])),
        (Kind::Pdf, modern_pdf(&["hello"])),
        (Kind::Docx, docx()),
        (Kind::Xlsx, xlsx()),
        (Kind::Pptx, pptx()),
        (Kind::Csv, b"a,b\n1,2\n".to_vec()),
        (Kind::Text, b"just words".to_vec()),
        (Kind::Markdown, b"# Title".to_vec()),
        (Kind::Json, b"{\"a\":1}".to_vec()),
    ]
}

#[test]
fn a_file_is_what_it_says() {
    for (kind, bytes) in real() {
        let name = format!("a.{}", kind.extension());
        let shouted = format!("{}; charset=UTF-8", kind.media_type().to_uppercase());
        for declared in [kind.media_type(), &shouted, "", "application/octet-stream"] {
            assert_eq!(seen(&bytes, declared, &name), Ok(kind), "{declared}");
        }
        if !kind.is_text() {
            assert_eq!(seen(&bytes, "", "noname"), Ok(kind));
        }
    }
    assert_eq!(
        seen(b"a,b", "application/vnd.ms-excel", "a.CSV"),
        Ok(Kind::Csv)
    );
    assert_eq!(seen(b"a,b", "text/plain", "a.csv"), Ok(Kind::Csv));
}

#[test]
fn a_file_that_lies_is_refused() {
    use ErrorWord::{UnsupportedFileType, UnsupportedImageType, UnsupportedType};
    for (said, bytes) in real() {
        for (other, _) in real().into_iter().filter(|(other, _)| *other != said) {
            if other.is_text() && said.is_text() {
                continue;
            }
            let expected = match other.is_image() {
                true => UnsupportedImageType,
                false => UnsupportedFileType,
            };
            assert_eq!(
                seen(&bytes, other.media_type(), "x"),
                Err(expected),
                "{said:?} as {other:?}"
            );
        }
    }
    let page = b"\n<!DOCTYPE html><html><body>Sign in</body></html>";
    assert_eq!(seen(page, "image/png", "a.png"), Err(UnsupportedImageType));
    assert_eq!(
        seen(page, "application/pdf", "a.pdf"),
        Err(UnsupportedFileType)
    );
    assert_eq!(seen(page, "text/csv", "a.csv"), Err(UnsupportedType));
    assert_eq!(seen(page, "text/html", "a.html"), Err(UnsupportedFileType));
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
        assert_eq!(seen(bytes, declared, "x"), Err(expected), "{declared}");
    }
    // An archive that is no document, one that is two, and one with programs.
    let docx_type = Kind::Docx.media_type();
    assert_eq!(
        seen(&zip(&[("a.txt", b"x")]), docx_type, "a"),
        Err(UnsupportedFileType)
    );
    let types = ("[Content_Types].xml", b"<Types/>".as_slice());
    let both = zip(&[
        types,
        ("word/document.xml", b"<a/>"),
        ("xl/workbook.xml", b"<a/>"),
    ]);
    assert_eq!(seen(&both, docx_type, "a"), Err(UnsupportedFileType));
    let macros = zip(&[
        types,
        ("word/document.xml", b"<a/>"),
        ("word/vbaProject.bin", b"x"),
    ]);
    assert_eq!(seen(&macros, docx_type, "a"), Err(UnsupportedFileType));
}

#[test]
fn size_counts_and_nothing_is_too_little() {
    let rules = InputRules {
        image_bytes: 40,
        document_bytes: 10,
        ..rules()
    };
    let seen =
        |bytes: &[u8], declared| examine(bytes, declared, "x", &rules).map_err(Problem::word);
    assert_eq!(seen(&[b'a'; 10], "text/plain"), Ok(Kind::Text));
    assert_eq!(
        seen(&[b'a'; 11], "text/plain"),
        Err(ErrorWord::FileTooLarge)
    );
    assert_eq!(seen(GIF, "image/gif"), Ok(Kind::Gif));
    assert_eq!(seen(&[b'a'; 41], ""), Err(ErrorWord::FileTooLarge));
    // Who does not say what it is must not have the room of a picture.
    let pdf = [b"%PDF-".as_slice(), &[b' '; 10]].concat();
    assert_eq!(seen(&pdf, ""), Err(ErrorWord::FileTooLarge));
    assert_eq!(seen(b"", "text/plain"), Err(ErrorWord::ExtractionFailed));
    let problem = extract_text(Kind::Text, &[b'a'; 11], &rules).unwrap_err();
    assert_eq!(problem, Problem::TooLarge);
}

#[test]
fn documents_are_read() {
    assert_eq!(
        text(Kind::Docx, &docx()).unwrap(),
        "Quarterly report & more\na\tb\t\none\ttwo\n三\nnew\n"
    );
    assert_eq!(
        text(Kind::Pptx, &pptx()).unwrap(),
        "[Slide 1]\nFirst\n[Notes of slide 1]\nSay hello\n[Slide 2]\nSecond\n"
    );
    assert_eq!(
        text(Kind::Xlsx, &xlsx()).unwrap(),
        "[Sheet Two]\nmade\n[Sheet One]\n名前\t\trich\n2024-01-01\t1.5\tTRUE\ta b\n"
    );
    let pages = ["Hello, World\nsecond line", "page two"];
    for bytes in [pdf(&pages), modern_pdf(&pages)] {
        assert_eq!(
            text(Kind::Pdf, &bytes).unwrap(),
            "Hello, World\nsecond line\npage two\n"
        );
    }
    assert_eq!(text(Kind::Csv, b"\xef\xbb\xbfa,b\n").unwrap(), "a,b\n");
}

#[test]
fn a_long_text_is_cut_and_says_so() {
    let rules = InputRules {
        text_chars: 5,
        ..rules()
    };
    let text = extract_text(Kind::Text, "あいうえおか".as_bytes(), &rules).unwrap();
    assert_eq!(text, "あいうえお\n[The rest of the file was left out.]");
    let whole = extract_text(Kind::Text, "あいうえお".as_bytes(), &rules).unwrap();
    assert_eq!(whole, "あいうえお");
}

#[test]
fn where_there_is_no_text_there_is_none() {
    for (kind, bytes) in [
        (Kind::Pdf, pdf(&[""])),
        (Kind::Docx, docx_of("<w:p/>")),
        (Kind::Text, b" \n".to_vec()),
        (Kind::Png, PNG.to_vec()),
        (Kind::Pdf, b"%PDF-1.7 and no more".to_vec()),
        (Kind::Docx, b"PK\x03\x04broken".to_vec()),
        (Kind::Docx, docx_of("<w:p><w:t>a")),
    ] {
        let read = text(kind, &bytes);
        if read != Ok("a".to_owned()) {
            assert_eq!(read, Err(ErrorWord::ExtractionFailed), "{kind:?}");
        }
    }
    let short = docx();
    assert_eq!(
        text(Kind::Docx, &short[..short.len() - 30]),
        Err(ErrorWord::ExtractionFailed)
    );
    let doctype = zip(&[
        ("[Content_Types].xml", b"<Types/>"),
        (
            "word/document.xml",
            b"<!DOCTYPE a [<!ENTITY b \"bbbb\">]><w:p><w:t>&b;</w:t></w:p>",
        ),
    ]);
    assert_eq!(text(Kind::Docx, &doctype), Err(ErrorWord::ExtractionFailed));
    let unknown = docx_of("<w:p><w:t>a&b;c</w:t></w:p>");
    assert_eq!(text(Kind::Docx, &unknown).unwrap(), "ac\n");
}

/// What Office wrote long ago: a header, and a folder with one stream.
fn container(stream: &str) -> Vec<u8> {
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
fn pictures_are_whole_or_not_taken() {
    for (kind, picture) in [
        (Kind::Png, PNG),
        (Kind::Jpeg, JPEG),
        (Kind::Gif, GIF),
        (Kind::WebP, WEBP),
    ] {
        let declared = kind.media_type();
        assert_eq!(seen(picture, declared, "x"), Ok(kind));
        let more = [picture, b"more"].concat();
        assert_eq!(seen(&more, declared, "x"), Ok(kind), "{kind:?} and more");
        // Wherever it breaks off, it is not a picture any more.
        for length in 12..picture.len() {
            let word = seen(&picture[..length], declared, "x");
            assert_eq!(word, Err(ErrorWord::ExtractionFailed), "{kind:?} {length}");
        }
        // And whatever happens to it, the walk ends.
        for place in 12..picture.len() {
            for byte in [0, 1, 0x7f, 0x80, 0xd9, 0xff] {
                let mut broken = picture.to_vec();
                broken[place] = byte;
                let _ = seen(&broken, declared, "x");
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
        let word = seen(bytes, declared, "x");
        assert_eq!(word, Err(ErrorWord::ExtractionFailed), "{declared}");
    }
}

#[test]
fn locked_files_are_told_from_broken_ones() {
    let (old, packed) = (container("WordDocument"), container("EncryptedPackage"));
    for kind in [Kind::Docx, Kind::Xlsx, Kind::Pptx] {
        for (bytes, expected) in [
            (&old, ErrorWord::UnsupportedFileType),
            (&packed, ErrorWord::FileEncrypted),
        ] {
            assert_eq!(seen(bytes, kind.media_type(), "a"), Err(expected));
        }
    }
    assert_eq!(seen(&packed, "", "a.xlsx"), Err(ErrorWord::FileEncrypted));
    let problem = examine(&old, "", "a.xlsx", &rules()).unwrap_err();
    let says = problem.into_fault(&rules()).text;
    assert!(says.contains("save it as DOCX, XLSX or PPTX"), "{says}");
    for declared in ["application/pdf", "application/msword", ""] {
        assert_eq!(
            seen(&old, declared, "a.doc"),
            Err(ErrorWord::UnsupportedFileType)
        );
    }
    // A name that stands where no entry is, or is cut, is no entry.
    let mut moved = packed.clone();
    moved.insert(8, 0);
    for bytes in [moved, packed[..packed.len() - 70].to_vec()] {
        assert_eq!(
            seen(&bytes, "", "a.xlsx"),
            Err(ErrorWord::UnsupportedFileType)
        );
    }

    // The flag that says so, in both places of the archive.
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
        seen(&flagged, Kind::Docx.media_type(), "a"),
        Err(ErrorWord::FileEncrypted)
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
    let bytes = saved(document);
    assert_eq!(
        seen(&bytes, "application/pdf", "a"),
        Err(ErrorWord::FileEncrypted)
    );
    assert_eq!(text(Kind::Pdf, &bytes), Err(ErrorWord::FileEncrypted));
    let hidden = String::from_utf8_lossy(&bytes).replace("/Encrypt", "/#45ncrypt");
    assert_eq!(
        seen(hidden.as_bytes(), "application/pdf", "a"),
        Err(ErrorWord::FileEncrypted)
    );
}

/// Much of nothing takes little to send.
#[test]
fn bombs_do_not_go_off() {
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
        seen(&bytes, Kind::Docx.media_type(), "a"),
        Err(ErrorWord::FileBomb)
    );
    assert_eq!(text(Kind::Docx, &bytes), Err(ErrorWord::FileBomb));

    let many: Vec<(String, Vec<u8>)> = (0..5_000).map(|n| (format!("p{n}"), Vec::new())).collect();
    let many: Vec<(&str, &[u8])> = many
        .iter()
        .map(|(n, c)| (n.as_str(), c.as_slice()))
        .collect();
    assert_eq!(
        seen(&zip(&many), Kind::Docx.media_type(), "a"),
        Err(ErrorWord::FileBomb)
    );

    let deep = docx_of(&"<w:p>".repeat(10_000));
    assert_eq!(text(Kind::Docx, &deep), Err(ErrorWord::FileBomb));
}

fn packed(size: usize) -> Stream {
    let mut stream = Stream::new(dictionary! {}, vec![b' '; size]);
    stream.compress().unwrap();
    stream
}

#[test]
fn bombs_in_a_pdf_do_not_go_off() {
    let bomb = |place: &dyn Fn(&mut lopdf::Document)| {
        let mut document = pdf_document(&["a"]);
        place(&mut document);
        let bytes = saved(document);
        assert!(bytes.len() < 1 << 20, "{}", bytes.len());
        text(Kind::Pdf, &bytes)
    };
    let huge = packed(40 << 20);
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
    assert_eq!(bomb(&page), Err(ErrorWord::FileBomb));
    // A picture is never unpacked.
    let picture = |document: &mut lopdf::Document| {
        let mut stream = huge.clone();
        stream.dict.set("Subtype", "Image");
        document.add_object(stream);
    };
    assert_eq!(bomb(&picture).unwrap(), "a\n");
}

#[test]
fn a_pdf_that_goes_in_circles_comes_to_an_end() {
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
    let read = text(Kind::Pdf, &saved(document));
    assert!(
        read.is_ok() || read == Err(ErrorWord::ExtractionFailed),
        "{read:?}"
    );
    let deep = format!(
        "%PDF-1.4\n1 0 obj\n{}\nendobj\nxref\n0 2\n0000000000 65535 f \n0000000009 00000 n \ntrailer<</Root 1 0 R/Size 2>>\nstartxref\n{}\n%%EOF",
        "[".repeat(100_000),
        100_000 + 24,
    );
    assert!(text(Kind::Pdf, deep.as_bytes()).is_err());
}

#[test]
fn names_are_safe() {
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
        ("報告書.xlsx", Kind::Xlsx.media_type(), "報告書.xlsx"),
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

/// Bytes that nobody meant, and real files with a few bytes changed, cut or repeated.
fn hostile() -> impl Strategy<Value = (Kind, Vec<u8>)> {
    let real = real();
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
        .prop_map(|(index, bytes)| (Kind::ALL[index % Kind::ALL.len()], bytes));
    prop_oneof![4 => changed, 1 => anything]
}

proptest! {
    #[test]
    fn no_file_breaks_us((kind, bytes) in hostile()) {
        let _ = examine(&bytes, kind.media_type(), "x", &rules());
        let _ = examine(&bytes, "", "", &rules());
        // The library for PDF may panic, which ends the child process.
        let read = catch_unwind(|| extract_text(kind, &bytes, &rules()));
        prop_assert!(read.is_ok() || kind == Kind::Pdf);
        if let Ok(Ok(text)) = read {
            prop_assert!(!text.trim().is_empty());
        }
    }

    #[test]
    fn no_name_breaks_out(name in any::<String>(), kind in 0..Kind::ALL.len()) {
        let kind = Kind::ALL[kind];
        let safe = safe_name(&name, kind.media_type());
        prop_assert!(safe.chars().count() <= 100 && safe.len() <= 240 && !safe.starts_with('.'));
        prop_assert!(!safe.contains(['/', '\\', ':', '*', '?', '"', '<', '>', '|', '\0']));
        prop_assert!(Kind::from_name(&safe).is_some());
        prop_assert!(safe_name(&safe, kind.media_type()) == safe, "{safe}");
    }
}
