//! Safe file names for any system.

use super::FileKind;
use super::file_kind::media_type_essence;
use sha2::{Digest, Sha256};
use std::fmt::Write;

/// Maximum length of a name in characters, including its extension. The length in bytes is limited too, as in most file
/// systems.
const MAX_NAME_CHARS: usize = 100;
const MAX_NAME_BYTES: usize = 240;

/// Maximum length of an extension, without its dot.
const MAX_EXTENSION_LENGTH: usize = 10;

/// Device names reserved by Windows, with any extension.
const RESERVED: [&str; 6] = ["con", "prn", "aux", "nul", "conin$", "conout$"];

/// Returns a safe file name close to the requested one: not a path, without hidden characters, and with an extension
/// that fits the file's type. The result is deterministic.
///
/// Control characters and those that change how a name is displayed are removed, `\ / : * ? " < > |` become `_`,
/// leading and trailing dots are removed, device names get a `_` in front, and names longer than 100 characters are cut
/// before the extension. If the extension does not fit the type, the right one is appended.
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
    let clean = trim_dots(&clean);
    let kind = FileKind::from_media_type(media_type);
    let (stem, extension) = split_extension(clean);
    let fits = |extension: &str| match kind {
        Some(kind) => {
            FileKind::from_extension(extension) == Some(kind)
                || is_alternative_extension(kind, extension)
        }
        None => true,
    };
    let (stem, extension) = match extension {
        Some(extension) if fits(extension) => (stem, extension.to_owned()),
        _ => (clean, kind.map_or("", FileKind::extension).to_owned()),
    };
    let stem = trim_dots(stem);
    let mut stem = if stem.chars().any(char::is_alphanumeric) {
        stem.to_owned()
    } else {
        fallback_name(name, media_type)
    };
    let device = stem.split('.').next().unwrap_or_default().trim_end();
    if is_reserved(device) {
        stem.insert(0, '_');
    }
    let suffix = if extension.is_empty() {
        String::new()
    } else {
        format!(".{extension}")
    };
    let max_stem_chars = MAX_NAME_CHARS.saturating_sub(suffix.chars().count());
    let mut short: String = stem.chars().take(max_stem_chars).collect();
    while short.len() + suffix.len() > MAX_NAME_BYTES {
        short.pop();
    }
    format!("{}{suffix}", short.trim_end_matches([' ', '.']))
}

/// Trims dots and spaces: leading dots hide a file, and Windows drops trailing dots and spaces.
fn trim_dots(name: &str) -> &str {
    name.trim_start_matches([' ', '.'])
        .trim_end_matches([' ', '.'])
}

/// Splits a name at its last dot, if the remainder can be an extension.
fn split_extension(name: &str) -> (&str, Option<&str>) {
    match name.rsplit_once('.') {
        Some((stem, extension))
            if (1..=MAX_EXTENSION_LENGTH).contains(&extension.len())
                && extension.bytes().all(|byte| byte.is_ascii_alphanumeric()) =>
        {
            (stem, Some(extension))
        }
        _ => (name, None),
    }
}

/// Returns true for other common extensions of a kind, and for those of the many text formats that have no type of
/// their own.
fn is_alternative_extension(kind: FileKind, extension: &str) -> bool {
    let extension = extension.to_ascii_lowercase();
    match kind {
        FileKind::Text => matches!(
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

/// Returns true for invisible characters and those that change how their neighbors are displayed.
fn is_hidden(c: char) -> bool {
    c.is_control()
        || matches!(c,
            '\u{ad}' | '\u{34f}' | '\u{61c}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

/// Generates a name for a file without a usable one.
fn fallback_name(name: &str, media_type: &str) -> String {
    let hash = Sha256::new()
        .chain_update(name.as_bytes())
        .chain_update([0])
        .chain_update(media_type_essence(media_type))
        .finalize();
    let mut generated = "generated_file_".to_owned();
    for byte in hash.iter().take(4) {
        // Writing to a string cannot fail.
        let _ = write!(generated, "{byte:02x}");
    }
    generated
}
