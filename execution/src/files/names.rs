//! File names that are safe to show, to send and to save, on whichever system.

use super::Kind;
use super::kinds::plain;
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// The most characters of a name, its extension included. Names that are longer in bytes than most
/// file systems take are cut further.
const LONGEST: usize = 100;
const LONGEST_BYTES: usize = 240;

/// The longest that counts as an extension, its dot aside.
const EXTENSION: usize = 10;

/// Names that Windows keeps for devices, whatever comes after a dot.
const RESERVED: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];

/// A name that is no path, hides nothing and fits the file's type: what somebody asked for, as far as
/// it is safe. It is the same for the same name and type.
///
/// Control characters and those that change how a name is shown are removed, `\ / : * ? " < > |` become
/// `_`, dots in front and at the end go, names of devices get a `_` in front, and what is longer than
/// 100 characters is cut before its extension. An extension that does not fit the type gets the right
/// one behind it.
///
/// ```
/// use interzone_execution::files::safe_name;
///
/// assert_eq!(safe_name("../../sales.csv", "text/csv"), "_.._sales.csv");
/// assert_eq!(safe_name("report.exe", "application/pdf"), "report.exe.pdf");
/// assert_eq!(safe_name("con.txt", "text/plain"), "_con.txt");
/// ```
pub fn safe_name(name: &str, media_type: &str) -> String {
    let clean: String = name
        .chars()
        .filter(|c| !is_hidden(*c))
        .map(|c| match c {
            '\\' | '/' | ':' | '*' | '?' | '"' | '<' | '>' | '|' => '_',
            c if c.is_whitespace() => ' ',
            c => c,
        })
        .collect();
    let clean = trimmed(&clean);
    let kind = Kind::from_media_type(media_type);
    let (stem, extension) = split(clean);
    let fits = |extension: &str| match kind {
        Some(kind) => Kind::from_extension(extension) == Some(kind) || is_also(kind, extension),
        None => true,
    };
    let (stem, extension) = match extension {
        Some(extension) if fits(extension) => (stem, extension.to_owned()),
        _ => (clean, kind.map_or("", Kind::extension).to_owned()),
    };
    let stem = trimmed(stem);
    let mut stem = if stem.chars().any(char::is_alphanumeric) {
        stem.to_owned()
    } else {
        fallback(name, media_type)
    };
    let device = stem.split('.').next().unwrap_or_default().trim_end();
    if is_reserved(device) {
        stem.insert(0, '_');
    }
    let behind = if extension.is_empty() {
        String::new()
    } else {
        format!(".{extension}")
    };
    let room = LONGEST.saturating_sub(behind.chars().count());
    let mut short: String = stem.chars().take(room).collect();
    while short.len() + behind.len() > LONGEST_BYTES {
        short.pop();
    }
    format!("{}{behind}", short.trim_end_matches([' ', '.']))
}

/// Dots in front hide a file, and Windows drops dots and spaces at the end.
fn trimmed(name: &str) -> &str {
    name.trim_start_matches([' ', '.'])
        .trim_end_matches([' ', '.'])
}

/// A name before its last dot, and what comes after it if that can be an extension.
fn split(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once('.') {
        Some((stem, extension))
            if (1..=EXTENSION).contains(&extension.len())
                && extension.bytes().all(|byte| byte.is_ascii_alphanumeric()) =>
        {
            (stem, Some(extension))
        }
        _ => (name, None),
    }
}

/// Other extensions that mean the same, and those of the many text formats that have no type of their
/// own.
fn is_also(kind: Kind, extension: &str) -> bool {
    let extension = extension.to_ascii_lowercase();
    match kind {
        Kind::Text => matches!(
            extension.as_str(),
            "log" | "text" | "ini" | "conf" | "yaml" | "yml" | "toml" | "sql" | "tsv" | "md"
        ),
        _ => false,
    }
}

fn is_reserved(stem: &str) -> bool {
    let stem = stem.to_lowercase();
    let port = |name: &str| {
        let rest = stem.strip_prefix(name)?;
        let mut digits = rest.chars();
        let digit = digits.next()?;
        (digits.next().is_none() && matches!(digit, '0'..='9' | '¹' | '²' | '³')).then_some(())
    };
    RESERVED.contains(&stem.as_str()) || port("com").is_some() || port("lpt").is_some()
}

/// Characters that cannot be seen, or that change how those beside them are seen.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// A name for a file whose own has nothing to it.
fn fallback(name: &str, media_type: &str) -> String {
    let hash = Sha256::new()
        .chain_update(name.as_bytes())
        .chain_update([0])
        .chain_update(plain(media_type))
        .finalize();
    let mut made = "generated_file_".to_owned();
    for byte in hash.iter().take(4) {
        // Writing to a string cannot fail.
        let _ = write!(made, "{byte:02x}");
    }
    made
}
